"""Temporary folders that are removed even if their process is killed.

A folder is removed at the end of its block, also after an error, Ctrl-C or SIGTERM. A process that
is killed cannot remove its folder. Each process therefore holds a lock on its folder, which the
kernel releases when the process ends. When the next folder of the same kind is created, folders of
the same user whose lock nobody holds are removed. Windows has no such locks and keeps such folders.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from narrows import operating_system as system


@contextmanager
def folder(kind: str, place: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """A context manager that yields a new folder, which only this user can read, and removes it at
    the end of the block.

    Args:
        kind: The purpose of the folder, which is a part of its name.
        place: The folder in which it is created; by default the system's folder for temporary
            files.

    Raises:
        OSError: If the folder cannot be created.
    """
    made, lock = _make(f"narrows-{kind}.", Path(place or tempfile.gettempdir()))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _make(prefix: str, place: Path) -> tuple[Path, int | None]:
    if not system.LOCKS:
        return Path(tempfile.mkdtemp(prefix=prefix, dir=place)), None
    _remove_left(prefix, place)
    while True:
        made = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        # Another process may remove the folder before it is opened, or before it is locked.
        with suppress(FileNotFoundError):
            lock = system.locked_folder(made, system.EXCLUSIVE)
            if os.fstat(lock).st_nlink:
                return made, lock
            os.close(lock)


def _remove_left(prefix: str, place: Path) -> None:
    """Removes the folders of this user whose processes have ended."""
    for left in place.glob(f"{prefix}*"):
        with suppress(OSError):
            lock = system.locked_folder(left, system.EXCLUSIVE | system.AT_ONCE)
            try:
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(lock)
