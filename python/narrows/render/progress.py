"""The progress bar of all commands. It appears on stderr if this is a terminal, after the work has
taken a second.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from narrows.render.terminal import console, echo

if TYPE_CHECKING:
    from rich.progress import Progress

AFTER_S = 1.0
"""Time in s before a bar appears."""


class ProgressBar:
    """A progress bar with a description of the work that it counts.

    Without a terminal on stderr, or if `quiet`, it does nothing. Errors of writing to the terminal
    are ignored, so that a closed terminal does not end a measurement or a run.
    """

    def __init__(self, *, quiet: bool, of: str = "time of the run") -> None:
        """Creates a bar that is not shown yet; `of` is its description unless a call passes another
        one.
        """
        self._of = of
        self._wanted = not quiet and sys.stderr.isatty()
        self._begin = time.monotonic()
        self._bar: Progress | None = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Removes the bar."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.stop()

    def line(self, text: str) -> None:
        """Prints a line on stderr, above the bar if there is one."""
        with suppress(OSError):
            if self._bar is not None:
                self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                echo(text, err=True)

    def __call__(self, done: float, total: float, description: str | None = None) -> None:
        """Shows that `done` of `total` is finished, both in the same unit."""
        if not self._wanted or time.monotonic() - self._begin < AFTER_S:
            return
        with suppress(OSError):
            if self._bar is None:
                from rich.progress import Progress  # noqa: PLC0415

                self._bar = Progress(console=console(err=True), transient=True)
                self._bar.add_task(self._of, total=total)
                self._bar.start()
            task = self._bar.task_ids[0]
            self._bar.update(task, completed=done, total=total, description=description or self._of)
