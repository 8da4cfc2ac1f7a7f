"""The journal of a training: one line of JSON for each finished task, appended and synced.

The search is a function of the results of its tasks. After an interruption, it therefore begins
anew, takes the finished tasks from the journal, and reaches the same state. A line that is
incomplete after a crash, or that another program changed, fails its checksum and is ignored. Tasks
of another build of narrows do not count, because its simulator may have other results.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

from narrows import operating_system
from narrows.errors import NarrowsError, reason
from narrows.sweeps.sweeping import build
from narrows.train.network import digest

if TYPE_CHECKING:
    from types import TracebackType

    from narrows.train.model import ResultJson, TaskJson


def key_of(task: TaskJson) -> str:
    """The SHA-256 of a task and of the build of narrows."""
    parts = [
        build(), digest(task["training"]), task["round"], task["tree"], task["specimens"],
        task["uses"],
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _sum(key: str, result: str) -> str:
    return hashlib.sha256(f"{key} {result}".encode()).hexdigest()[:16]


class Journal:
    """The finished tasks of a directory; a context manager that locks it."""

    def __init__(self, file: Path) -> None:
        """The journal in `file`, which is created if necessary."""
        self._file = file
        self._results: dict[str, ResultJson] = {}

    def __enter__(self) -> Journal:
        """Reads the journal.

        Raises:
            NarrowsError: If it cannot be opened, or if another training uses it.
        """
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._opened = self._file.open("a+b")
            operating_system.lock(
                self._opened, operating_system.EXCLUSIVE | operating_system.AT_ONCE
            )
            self._opened.seek(0)
            content = self._opened.read()
        except BlockingIOError as error:
            self._opened.close()
            raise NarrowsError(
                f"{self._file}: another process uses it; write another directory as --into"
            ) from error
        except OSError as error:
            raise NarrowsError(f"{self._file}: {reason(error)}") from error
        if content and not content.endswith(b"\n"):
            self._opened.write(b"\n")
        for line in content.splitlines():
            key, _, rest = line.decode("utf-8", "replace").partition(" ")
            check, _, result = rest.partition(" ")
            if check == _sum(key, result):
                self._results[key] = json.loads(result)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._opened.close()

    def find(self, task: TaskJson) -> ResultJson | None:
        """The result of a finished task."""
        return self._results.get(key_of(task))

    def add(self, task: TaskJson, result: ResultJson) -> None:
        """Stores a result. It is on the disk when the call returns."""
        key, text = key_of(task), json.dumps(result)
        # The parsed text, so that a resumed search computes with the same numbers.
        self._results[key] = cast("ResultJson", json.loads(text))
        self._opened.write(f"{key} {_sum(key, text)} {text}\n".encode())
        self._opened.flush()
        os.fsync(self._opened.fileno())
