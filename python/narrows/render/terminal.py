"""The only way to a terminal: every text that a command prints passes through `echo` or a `console`.

Texts of strangers (a far end's refusal, a name in a file, what ssh printed) may hold control characters: sequences that
move the cursor, set the title of the window or answer in the place of the user. Both ways make them visible instead of
sending them. A lint forbids `click.echo` and `rich.console.Console` elsewhere.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions, RenderableType

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control characters but for tab and newline, marks that reorder a line, and halves of surrogate pairs."""


def printable(text: str) -> str:
    r"""The text with its control characters as `\uXXXX`, which is also how JSON writes them.

    >>> printable("cubic\x1b[2J\x9b31m\r")
    'cubic\\u001b[2J\\u009b31m\\u000d'
    >>> printable("line\n\tµs")
    'line\n\tµs'
    """
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Prints a text on stdout, or on stderr."""
    click.echo(printable(text), err=err, nl=nl)


def console(stream: TextIO | None = None, *, err: bool = False) -> Console:
    """A console for tables and progress bars; colours only for a terminal that has them.

    A pipe gets plain text that is not wrapped at 80 columns. Brackets in a text are text, not Rich's markup.
    """
    from rich.console import Console  # noqa: PLC0415 - a command without tables needs no Rich
    from rich.segment import Segment  # noqa: PLC0415

    class Gated(Console):
        """Makes the control characters of every text visible; Rich's own codes for the terminal stay."""

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(printable(segment.text), segment.style)

    file = stream or (sys.stderr if err else sys.stdout)
    return Gated(file=file, highlight=False, markup=False, emoji=False, width=None if file.isatty() else 160)
