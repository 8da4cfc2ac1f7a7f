"""Claims: records of the runs that are being executed, so that simultaneous sweeps in one directory
do not execute a run twice.

Each running sweep has a file with the keys of the runs that it has begun, and holds an exclusive
lock (flock) on this file. If the lock of a file is free, its sweep has ended, normally or not. A
sweep claims a key while it holds a lock of the whole folder, after it has read the files of all
other sweeps completely.

The file of a sweep remains until no sweep is running. A sweep may have read the store before the
last rows of another sweep were stored. It then still finds the keys of these rows claimed, and
reads the store again.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO

from narrows import operating_system
from narrows.errors import OutputError, reason


@dataclass
class _Other:
    """The state of reading the file of another sweep: the number of bytes read, the keys in them,
    and whether the sweep has ended.
    """

    read: int = 0
    keys: set[str] = field(default_factory=set)
    ended: bool = False


class Claims:
    """The claims of one sweep, and its knowledge of the claims of other sweeps; a context
    manager.
    """

    def __init__(self, directory: Path) -> None:
        """Claims for runs whose results are stored in this directory."""
        self._folder = directory / "claims"
        self._own = self._folder / f"{uuid.uuid4().hex}.keys"
        self._others: dict[str, _Other] = {}
        self._lock: IO[str] | None = None
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Claims:
        """Begins claiming. If no sweep is running, it removes the files of earlier sweeps.

        Raises:
            OutputError: If claims cannot be stored in the directory.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self._folder / ".lock").open("w")
        except OSError as error:
            raise OutputError(f"{self._folder}: {reason(error)}") from error
        try:
            with self._alone():
                self._sweep_out()
                # Without buffering, a claimed key is in the file before the lock is released.
                self._file = self._own.open("xb", buffering=0)
                operating_system.lock(self._file, operating_system.EXCLUSIVE)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends claiming, which releases the runs that were claimed but not executed."""
        assert self._file is not None
        try:
            with self._alone():
                self._file.close()
                self._sweep_out()
        finally:
            self._close()

    def _close(self) -> None:
        """Closes the files, which releases their locks, even after an error."""
        for file in (self._file, self._lock):
            if file is not None:
                file.close()

    def take(self, key: str) -> bool:
        """Claims a run and returns true; returns false if another sweep has claimed it."""
        assert self._file is not None
        with self._alone():
            self._look()
            if any(key in other.keys for other in self._others.values()):
                return False
            self._file.write(f"{key}\n".encode())
        return True

    def renew(self) -> None:
        """Removes the claims of sweeps that have ended from memory. The results of their finished
        runs are already in the store.
        """
        with self._alone():
            self._look()
        for name, other in self._others.items():
            if not _at_work(self._folder / name):
                other.ended, other.keys = True, set()

    def in_work(self, keys: set[str]) -> set[str]:
        """Those of these keys that another running sweep has claimed."""
        with self._alone():
            self._look()
        held = [
            o.keys
            for name, o in self._others.items()
            if not o.ended and _at_work(self._folder / name)
        ]
        return {key for key in keys if any(key in of for of in held)}

    def _look(self) -> None:
        """Reads the keys that other sweeps have claimed since the last call."""
        for entry in os.scandir(self._folder):
            if not entry.name.endswith(".keys") or entry.name == self._own.name:
                continue
            other = self._others.setdefault(entry.name, _Other())
            if not other.ended and entry.stat().st_size > other.read:
                with open(entry.path, "rb") as file:  # noqa: PTH123 - for every run
                    file.seek(other.read)
                    whole, _, _ = file.read().rpartition(b"\n")
                # An incomplete line of a killed sweep claims nothing.
                other.read += len(whole) + 1 if whole else 0
                other.keys.update(whole.decode("ascii", "replace").split("\n") if whole else ())

    def _sweep_out(self) -> None:
        """Removes all files of claims, unless a sweep is running."""
        files = list(self._folder.glob("*.keys"))
        if not any(map(_at_work, files)):
            for file in files:
                file.unlink(missing_ok=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        assert self._lock is not None
        try:
            operating_system.lock(self._lock, operating_system.EXCLUSIVE)
            try:
                yield
            finally:
                operating_system.lock(self._lock, operating_system.NONE)
        except OSError as error:
            raise OutputError(f"{self._folder}: {reason(error)}") from error


def _at_work(file: Path) -> bool:
    """Whether the sweep of this file is running: it holds the lock of the file."""
    try:
        held = file.open("rb")
    except FileNotFoundError:
        return False
    with held:
        try:
            operating_system.lock(held, operating_system.SHARED | operating_system.AT_ONCE)
        except BlockingIOError:
            return True
    return False
