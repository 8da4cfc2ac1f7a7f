"""The progress bar of every command: on stderr, for a terminal, and only once the work has taken a
second.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from narrows.render.terminal import console

if TYPE_CHECKING:
    from rich.progress import Progress

AFTER_S = 1.0
"""Shorter work has no bar."""


class ProgressBar:
    """A bar and a description of what it counts.

    Without a terminal on stderr, or if `quiet`, it does nothing. A terminal that has hung up must
    not cost what is
    measured or run: errors of writing are ignored.
    """

    def __init__(self, *, quiet: bool, of: str = "time of the run") -> None:
        """A bar that is not shown yet; `of` describes it until a call brings another
        description.
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

    def __call__(self, done: float, total: float, description: str | None = None) -> None:
        """Shows how much is done of how much, in any unit."""
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
