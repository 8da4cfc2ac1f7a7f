"""Results into files: all of one or nothing, so that a full disk takes no older result away.

The types `File` and `Folder` of options refuse a file that cannot be written before the command
takes its time.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import IO, Any

import click

from narrows.errors import OutputError, reason
from narrows.storage.durable import replacing
from narrows.storage.text import name_of


def check(file: str | PathLike[str], *, makes_folders: bool = True) -> None:
    """Before a command takes its time: can this file be written when it ends?

    Args:
        file: The file.
        makes_folders: Whether its folder may be missing, because `write` makes it.

    Raises:
        OutputError: If it cannot be written.
    """
    target = Path(file)
    folder = target.absolute().parent
    while makes_folders and not os.path.lexists(folder):
        folder = folder.parent
    if not folder.is_dir():
        raise OutputError(f"{name_of(file)}: there is no directory {name_of(folder)}")
    place = target if target.exists() else folder
    if not os.access(place, os.W_OK):
        why = errno.EROFS if os.statvfs(place).f_flag & os.ST_RDONLY else errno.EACCES
        raise OutputError(f"{name_of(file)}: {os.strerror(why).lower()}")


class File(click.Path):
    """The type of an option that names a file to write: the file is checked when the options are
    read.

    Args:
        allow_dash: Whether `-` is standard output.
        suffix: Raises a `NarrowsError` for a name whose suffix selects no format.
    """

    def __init__(
        self,
        *,
        allow_dash: bool = False,
        suffix: Callable[[str], object] | None = None,
    ) -> None:
        """See the class."""
        super().__init__(dir_okay=False, allow_dash=allow_dash)
        self._suffix = suffix

    def convert(
        self,
        value: Any,  # noqa: ANN401 - Click defines the signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401
        """As click's own, and checked.

        Raises:
            NarrowsError: If the file cannot be written.
        """
        file: Any = super().convert(value, param, ctx)
        if file and not (self.allow_dash and file == "-"):
            if self._suffix is not None:
                self._suffix(file)
            check(file, makes_folders=False)
        return file


class Folder(click.Path):
    """The type of an option that names a folder to write into; the folder is made."""

    def __init__(self) -> None:
        """See the class."""
        super().__init__(file_okay=False)

    def convert(
        self,
        value: Any,  # noqa: ANN401 - Click defines the signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401
        """As click's own, and checked.

        Raises:
            NarrowsError: If nothing can be written there.
        """
        folder: Any = super().convert(value, param, ctx)
        if folder:
            check(folder)
            _probe(folder)
        return folder


def _probe(folder: str) -> None:
    """Makes a file in a folder, or in the nearest one that exists, and deletes it.

    /proc, a full disk and some network file systems refuse files in folders that look writable.
    """
    place = Path(folder).absolute()
    while not place.is_dir():
        place = place.parent
    probe = place / f".narrows-{os.getpid()}"
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        probe.unlink()
    except OSError as error:
        raise OutputError(
            f"{name_of(folder)}: no file can be created in {name_of(place)}: {reason(error)}"
        ) from error


def is_stream(file: str | PathLike[str]) -> bool:
    """Is it a device, a pipe, or whatever stdout is, which takes what comes and cannot be
    replaced?
    """
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
    """Opens a device or a pipe, which receives data as it is written.

    Data for stdout keeps its order relative to printed text.

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
        if target.exists() and not (
            target.is_file() and os.access(target.resolve().parent, os.W_OK)
        ):
            target.write_bytes(content)
            return
        # A file in the place of a folder is told of below, as no folder.
        with suppress(FileExistsError):
            target.parent.mkdir(parents=True)
        target = target.resolve()
        # The new file has a random name: what somebody else has put there, a link for one, is not
        # followed.
        with replacing(target.parent, target.name) as part:
            part.write_bytes(content)
            if target.exists():
                shutil.copymode(target, part)
    except OSError as error:
        raise OutputError(f"{name_of(file)}: {reason(error)}") from error
