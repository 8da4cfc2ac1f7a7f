"""The outputs of a command: pictures as options, and several outputs that fail independently."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

from narrows.errors import NarrowsError, OutputError, reason
from narrows.render.terminal import echo
from narrows.storage.output import File

Attempt = Callable[[], AbstractContextManager[None]]
"""Makes a context for one output. The context keeps an error until the other outputs were tried."""


class Picture(File):
    """The type of an option that names a picture; Matplotlib must be installed and support the
    format.

    Args:
        optional: Whether the option may have no value, for a plot in the terminal.
    """

    def __init__(self, *, optional: bool = False) -> None:
        """See the class."""

        def suffix(file: str) -> None:
            from narrows.render.plot import check as check_picture  # noqa: PLC0415

            check_picture(file, optional=optional)

        super().__init__(suffix=suffix)


@contextmanager
def every() -> Iterator[Attempt]:
    """Tries each output of a command, and reports at the end which of them failed.

    >>> with every() as attempt:
    ...     with attempt():
    ...         raise OutputError("a.json: no space left on device")
    ...     with attempt():
    ...         raise OutputError("b.svg: permission denied")
    ...     print("what was measured")
    Traceback (most recent call last):
    ...
    narrows.errors.OutputError: a.json: no space left on device
    b.svg: permission denied

    The code after the last attempt, usually printing, is executed even if outputs failed. If this
    code raises an error, too, the errors of the outputs are printed on stderr.

    Raises:
        OutputError: If several outputs failed, with a line for each. A single error, or one that is
            neither a `NarrowsError` nor an `OSError`, is raised as it is.
    """
    failed: list[Exception] = []

    @contextmanager
    def attempt() -> Iterator[None]:
        try:
            yield
        except Exception as error:
            failed.append(error)

    try:
        yield attempt
    except BaseException:
        _report(failed)
        raise
    unexpected = next(
        (error for error in failed if not isinstance(error, NarrowsError | OSError)), None
    )
    if unexpected is not None:
        _report([error for error in failed if error is not unexpected])
        raise unexpected
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise OutputError("\n".join(_said(error) for error in failed))


def _said(error: Exception) -> str:
    return f"output: {reason(error)}" if isinstance(error, OSError) else str(error)


def _report(failed: Sequence[Exception]) -> None:
    # stderr may be a terminal that has hung up; its error must not replace the one that ended the
    # command.
    with suppress(OSError):
        for error in failed:
            echo(_said(error), err=True)
