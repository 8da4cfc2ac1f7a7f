"""Output to a terminal: every text that a command prints passes through `echo` or a `console`.

Text from untrusted sources (the error of a far host, a name in a file, the output of ssh) may
contain control characters. Sequences of these characters can move the cursor, set the window title
or make the terminal send input in place of the user. `echo` and `console` make them visible instead
of sending them. Both also make format characters visible, which reorder or hide the text around
them. A lint forbids `click.echo` and `rich.console.Console` elsewhere.

With a newline, untrusted text could imitate lines of narrows. `Console.print` prints a text as one
line, and tables have one line per cell. A text for `echo` may have several lines; therefore
untrusted text passes through `one_line` first.
"""

from __future__ import annotations

import re
import sys
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions, RenderableType

_FORMAT = (
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001345f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
"""Unicode's format characters (category Cf) and its separators of lines and paragraphs."""

_CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_FORMAT}\ud800-\udfff]")
"""Control characters except tab and newline, format characters, and unpaired surrogates."""

PIPE_COLUMNS = 160
"""Width of output to a file or a pipe, in columns; longer lines are wrapped."""

_INNER = re.compile("(?<=[^\n])\n+(?=[^\n])")
"""Matches newlines between two lines, but not those at the start or the end of the text."""


def printable(text: str) -> str:
    r"""The text with its control and format characters written as `\uXXXX`, as in JSON.

    >>> printable("cubic\x1b[2J\x9b31m\r\U000e0001")
    'cubic\\u001b[2J\\u009b31m\\u000d\\udb40\\udc01'
    >>> printable("line\n\tµs")
    'line\n\tµs'
    """
    return _CONTROL.sub(_escaped, text)


def one_line(text: str) -> str:
    r"""The text with the newlines between its lines written as `\u000a`. Newlines at its start and
    end are unchanged.

    >>> one_line("\nfrom here\nto there\n")
    '\nfrom here\\u000ato there\n'
    """
    return _INNER.sub(lambda found: r"\u000a" * len(found[0]), text)


def within_line(text: str) -> str:
    r"""The text with all newlines written as `\u000a`, for a cell of a table or a part of a line.

    >>> within_line("\nhost\n")
    '\\u000ahost\\u000a'
    """
    return text.replace("\n", r"\u000a")


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def echo(text: str = "", *, err: bool = False, nl: bool = True, file: TextIO | None = None) -> None:
    """Prints a text on stdout, on stderr, or into an open file."""
    import click  # noqa: PLC0415 - `narrows.__main__` prints without it

    click.echo(printable(text), err=err, nl=nl, file=file)


@contextmanager
def shown_warnings() -> Iterator[None]:
    """Prints the warnings of libraries in this block with `echo`, each message as one line.

    A message can contain untrusted text: Matplotlib names each character that its font lacks.
    """
    before = warnings.showwarning

    def show(  # noqa: PLR0917 - the signature of `warnings.showwarning`
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        told = within_line(str(message))
        with suppress(OSError):
            echo(
                warnings.formatwarning(told, category, filename, lineno, line),
                err=file is None, nl=False, file=file,
            )  # fmt: skip

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


def console(stream: TextIO | None = None, *, err: bool = False) -> Console:
    """A Rich console for tables and progress bars, with colours only on a terminal that supports
    them.

    A pipe gets plain text that is not wrapped at 80 columns. Brackets in a text are text, not
    Rich's markup. A text is printed as one line.
    """
    from rich.console import Console  # noqa: PLC0415 - a command without tables needs no Rich
    from rich.segment import Segment  # noqa: PLC0415

    class Gated(Console):
        """Makes the control characters of every text visible. The terminal codes that Rich itself
        generates are unchanged.
        """

        def print(self, *objects: Any, **how: Any) -> None:  # noqa: ANN401 - Rich's own signature
            super().print(
                *(one_line(each) if isinstance(each, str) else each for each in objects), **how
            )

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                yield (
                    segment if segment.control else Segment(printable(segment.text), segment.style)
                )

    file = stream or (sys.stderr if err else sys.stdout)
    return Gated(
        file=file,
        highlight=False,
        markup=False,
        emoji=False,
        width=None if file.isatty() else PIPE_COLUMNS,
    )
