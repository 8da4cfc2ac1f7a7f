"""Claims: which runs are being made now, so that sweeps at work in one directory do not make the
same run twice.

Each running sweep has a file of the keys that it has begun, and holds an exclusive lock (flock) on
it. If the lock of a file is free, its sweep has ended, normally or not. A key is claimed under a
lock of the whole folder, after the files of all other sweeps were read to their ends.

A file outlives its sweep until no other sweep is at work. A sweep that looked into the store before
another one's last rows landed therefore still finds these keys claimed, and looks again.
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
    """The file of another sweep, as far as it was read."""

    read: int = 0
    keys: set[str] = field(default_factory=set)
    ended: bool = False


class Claims:
    """The claims of one sweep, and its view of the others'; a context manager."""

    def __init__(self, directory: Path) -> None:
        """Claims on the runs of the results in this directory."""
        self._folder = directory / "claims"
        self._own = self._folder / f"{uuid.uuid4().hex}.keys"
        self._others: dict[str, _Other] = {}
        self._lock: IO[str] | None = None
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Claims:
        """Begins; takes away what earlier sweeps left, if nobody is at work.

        Raises:
            OutputError: If claims cannot be kept there.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self._folder / ".lock").open("w")
        except OSError as error:
            raise OutputError(f"{self._folder}: {reason(error)}") from error
        try:
            with self._alone():
                self._sweep_out()
                # Unbuffered: what is claimed is in the file when the lock is given back.
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
        """Ends, which frees what was claimed and not run."""
        assert self._file is not None
        try:
            with self._alone():
                self._file.close()
                self._sweep_out()
        finally:
            self._close()

    def _close(self) -> None:
        """Closes the files, and so gives back their locks, whatever failed before."""
        for file in (self._file, self._lock):
            if file is not None:
                file.close()

    def take(self, key: str) -> bool:
        """Claims a run; false if another sweep has begun it."""
        assert self._file is not None
        with self._alone():
            self._look()
            if any(key in other.keys for other in self._others.values()):
                return False
            self._file.write(f"{key}\n".encode())
        return True

    def renew(self) -> None:
        """Forgets the claims of sweeps that have ended: what they had made is in the store by
        now.
        """
        with self._alone():
            self._look()
        for name, other in self._others.items():
            if not _at_work(self._folder / name):
                other.ended, other.keys = True, set()

    def in_work(self, keys: set[str]) -> set[str]:
        """Which of these keys are claimed by a sweep that is at work."""
        with self._alone():
            self._look()
        held = [
            o.keys
            for name, o in self._others.items()
            if not o.ended and _at_work(self._folder / name)
        ]
        return {key for key in keys if any(key in of for of in held)}

    def _look(self) -> None:
        """Reads what the others have claimed since."""
        for entry in os.scandir(self._folder):
            if not entry.name.endswith(".keys") or entry.name == self._own.name:
                continue
            other = self._others.setdefault(entry.name, _Other())
            if not other.ended and entry.stat().st_size > other.read:
                with open(entry.path, "rb") as file:  # noqa: PTH123 - for every run
                    file.seek(other.read)
                    whole, _, _ = file.read().rpartition(b"\n")
                # What a killed sweep had half written claims nothing.
                other.read += len(whole) + 1 if whole else 0
                other.keys.update(whole.decode("ascii", "replace").split("\n") if whole else ())

    def _sweep_out(self) -> None:
        """Takes all files away, unless a sweep is at work."""
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
    """Is the sweep of this file at work?"""
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
