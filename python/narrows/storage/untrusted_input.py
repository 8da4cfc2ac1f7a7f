"""Reads files from untrusted sources, with a maximum size; `output` is the counterpart.

All code that reads a user's file uses `read`, `head` or `opened`. Only regular files are read: a
pipe could block for ever, and a device may never end. The file type is checked before the file is
opened, because opening a device can have effects. It is checked again on the open file, because
another file may have got the name in the meantime.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import IO

from narrows.operating_system import BYTES, WITHOUT_WAITING

MOST_TEXT_BYTES = 8 * 1024 * 1024
"""Size limit of a hand-written text, such as a scenario, a sweep or a configuration."""

MOST_TRACE_BYTES = 100 * 1024 * 1024
"""Size limit of a file that a scenario names, such as a trace."""

MOST_DATA_BYTES = 512 * 1024 * 1024
"""Size limit of files that programs write, such as measurements and latency results."""

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def read(file: str | PathLike[str], most: int = MOST_TEXT_BYTES) -> bytes:
    """The whole content of a regular file of at most `most` bytes.

    Raises:
        OSError: If it cannot be read, is not a regular file, or is larger.
    """
    content = head(file, most + 1)
    if len(content) > most:
        raise _too_large(most)
    return content


def head(file: str | PathLike[str], count: int) -> bytes:
    """The first `count` bytes of a regular file, or all bytes of a shorter file.

    Raises:
        OSError: If it cannot be read, or is not a regular file.
    """
    with _open(file) as source:
        return source.read(count)


@contextmanager
def opened(file: str | PathLike[str], most: int) -> Iterator[IO[bytes]]:
    """A regular file of at most `most` bytes, open for reading.

    Raises:
        OSError: If it cannot be read, is not a regular file, or is larger.
    """
    with _open(file) as source:
        if os.fstat(source.fileno()).st_size > most:
            raise _too_large(most)
        yield source


def _open(file: str | PathLike[str]) -> IO[bytes]:
    _check(os.stat(file).st_mode)  # noqa: PTH116 - the same call as below, on a name
    source = os.fdopen(os.open(file, os.O_RDONLY | WITHOUT_WAITING | BYTES), "rb")
    try:
        _check(os.fstat(source.fileno()).st_mode)
    except OSError:
        source.close()
        raise
    return source


def _too_large(most: int) -> OSError:
    return OSError(errno.EFBIG, f"Larger than {most >> 20} MiB, the most that is read")


def _check(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise OSError(
            errno.EINVAL, f"Not a regular file but {kind}; write its content to a file first"
        )
