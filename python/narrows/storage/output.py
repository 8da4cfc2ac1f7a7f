"""Writes results to files. A file is written completely or not at all, so that a full disk does not
destroy an older result.

The option types `File` and `Folder` report a file that cannot be written before the command starts
its work.
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
from narrows.operating_system import is_read_only
from narrows.storage.durable import replacing
from narrows.storage.text import name_of


def check(file: str | PathLike[str], *, makes_folders: bool = True) -> None:
    """Checks, before a command starts its work, whether this file can be written at its end.

    Args:
        file: The file to write.
        makes_folders: Whether the folder of the file may be missing, because `write` creates it.

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
        why = errno.EROFS if is_read_only(place) else errno.EACCES
        raise OutputError(f"{name_of(file)}: {os.strerror(why).lower()}")


class File(click.Path):
    """The type of an option that names a file to write. When the options are parsed, it checks
    whether the file can be written.

    Args:
        allow_dash: Whether `-` stands for standard output.
        suffix: A function that raises a `NarrowsError` for a name whose suffix selects no format.
    """

    def __init__(
        self,
        *,
        allow_dash: bool = False,
        suffix: Callable[[str], object] | None = None,
    ) -> None:
        """Takes the arguments of the class."""
        super().__init__(dir_okay=False, allow_dash=allow_dash)
        self._suffix = suffix

    def convert(
        self,
        value: Any,  # noqa: ANN401 - Click defines the signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401
        """Returns the file name after a check that the file can be written.

        Raises:
            NarrowsError: If the file cannot be written.
        """
        file: Any = super().convert(value, param, ctx)
        if file and not (self.allow_dash and file == "-"):
            if self._suffix is not None:
                self._suffix(file)
            check(file, makes_folders=False)
            if not os.path.lexists(file):
                _probe(Path(file).absolute().parent, file)
        return file


class Folder(click.Path):
    """The type of an option that names a folder to write into, which the command creates if
    necessary.
    """

    def __init__(self) -> None:
        """Accepts folders only."""
        super().__init__(file_okay=False)

    def convert(
        self,
        value: Any,  # noqa: ANN401 - Click defines the signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401
        """Returns the folder name after a check that a file can be created in it.

        Raises:
            NarrowsError: If nothing can be written there.
        """
        folder: Any = super().convert(value, param, ctx)
        if folder:
            check_folder(folder)
        return folder


def check_folder(folder: str | PathLike[str], option: str = "") -> None:
    """Checks, before a command starts its work, whether files can be created in a folder, which the
    command creates if necessary.

    Args:
        folder: The folder.
        option: The option that names it, for the message.

    Raises:
        OutputError: If nothing can be written there.
    """
    try:
        if os.path.lexists(folder) and not Path(folder).is_dir():
            raise OutputError(f"{name_of(folder)}: is not a directory; write another name")
        check(folder)
        _probe(folder)
    except OutputError as error:
        if not option:
            raise
        raise OutputError(f"{option} {error}; write another directory") from error


def _probe(folder: str | PathLike[str], file: str | PathLike[str] = "") -> None:
    """Creates and deletes a file in a folder, or in its nearest existing parent, to test whether
    files can be written there. `file` is the name for the message, by default that of the folder.

    In /proc, on a full disk and on some network file systems, no file can be created in folders
    whose permissions allow it.
    """
    place = Path(folder).absolute()
    while not place.is_dir():
        place = place.parent
    probe = place / f".narrows-{os.getpid()}"
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        probe.unlink()
    except OSError as error:
        name = name_of(file or folder)
        raise OutputError(
            f"{name}: no file can be created in {name_of(place)}: {reason(error)}"
        ) from error


def is_stream(file: str | PathLike[str]) -> bool:
    """Whether a file is a device, a pipe, or the file that stdout writes to. These must be written
    directly and cannot be replaced.
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
        OSError: If the device or pipe cannot be opened or written.
    """
    if _is_stdout(Path(file).stat()):
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with Path(file).open("wb") as opened:
        yield opened


def write(file: str | PathLike[str], content: str | bytes) -> None:
    """Writes a file; its folders are created if necessary.

    A device, a pipe, or a file in a folder without write permission is written directly. Any other
    file is replaced as a whole.

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
        # If a file has the name of the folder, the calls below report that it is not a folder.
        with suppress(FileExistsError):
            target.parent.mkdir(parents=True)
        target = target.resolve()
        # The temporary file has a random name, so that a link that somebody else created is not
        # followed.
        with replacing(target.parent, target.name) as part:
            part.write_bytes(content)
            if target.exists():
                shutil.copymode(target, part)
    except OSError as error:
        raise OutputError(f"{name_of(file)}: {reason(error)}") from error
