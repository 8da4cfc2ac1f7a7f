"""Results into files: all of one or nothing, so that a full disk takes no older result away."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import IO

from narrows.errors import OutputError, reason
from narrows.runs.scenario import name_of
from narrows.storage.durable import replacing


def check(*files: str | PathLike[str] | None) -> None:
    """Before a command takes its time: can these files be written when it ends?

    Raises:
        OutputError: If one of them cannot be written where it is to be.
    """
    for file in files:
        if not file:
            continue
        target = Path(file)
        parent = target.absolute().parent
        if not parent.is_dir():
            raise OutputError(f"{name_of(file)}: there is no directory {name_of(parent)}")
        if not os.access(target if target.exists() else parent, os.W_OK):
            raise OutputError(f"{name_of(file)}: permission denied")


def is_stream(file: str | PathLike[str]) -> bool:
    """Is it a device, a pipe, or whatever stdout is, which takes what comes and cannot be replaced?"""
    try:
        about = Path(file).stat()
    except OSError:
        return False
    return not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)) or _is_stdout(about)


def _is_stdout(about: os.stat_result) -> bool:
    try:
        return os.path.samestat(about, os.fstat(sys.stdout.fileno()))
    except (AttributeError, OSError, ValueError):
        return False


@contextmanager
def streaming(file: str | PathLike[str]) -> Iterator[IO[bytes]]:
    """What is written goes to a device or a pipe as it comes; to stdout in the order of all that is printed.

    Raises:
        OSError: If it cannot be opened or written.
    """
    if _is_stdout(Path(file).stat()):
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with Path(file).open("wb") as opened:
        yield opened


def write(file: str | PathLike[str], content: str | bytes) -> None:
    """Writes a file; its folders are made.

    A device or a pipe takes what comes, and so does a file in a folder that may not be changed.

    Raises:
        OutputError: If it cannot be written.
    """
    content = content.encode() if isinstance(content, str) else content
    try:
        target = Path(file)
        if is_stream(file):
            with streaming(file) as opened:
                opened.write(content)
            return
        if target.exists() and not (target.is_file() and os.access(target.resolve().parent, os.W_OK)):
            target.write_bytes(content)
            return
        # A file in the place of a folder is told of below, as no folder.
        with suppress(FileExistsError):
            target.parent.mkdir(parents=True)
        target = target.resolve()
        # The new file has a random name: what somebody else has put there, a link for one, is not followed.
        with replacing(target.parent, target.name) as part:
            part.write_bytes(content)
            if target.exists():
                shutil.copymode(target, part)
    except OSError as error:
        raise OutputError(f"{name_of(file)}: {reason(error)}") from error
