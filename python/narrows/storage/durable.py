"""Writes files so that they survive a crash: replaced as a whole, or appended to line by line. Also
waits for locks of databases.

Results (`output`), sweeps, the history and sealed forecasts are written through this module.
Therefore one module determines which data are on the disk when a call returns. A privileged program
executes the plans that change a host. It has its own counterpart of this module,
`host/src/tune/safe_file.rs`.

- `replacing` writes a new file beside the old one, syncs it, renames it over the old one and syncs
  the directory. A crash, a full disk or a power failure leaves the old content or the new one.
- `replacing_all` does the same with several files of one directory.
- `Chain` is a file of JSON lines to which lines are only ever added. Each line contains the SHA-256
  of the line before it and its own SHA-256. Therefore readers detect a later change of any line. A
  line that a crash cut short does not count: readers ignore it, and the next writer moves it to
  `NAME.torn` before it appends.
- `retried` repeats an operation while another process holds a lock.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from narrows import operating_system
from narrows.errors import NarrowsError

if TYPE_CHECKING:
    from narrows.json_object import JsonObject

Result = TypeVar("Result")

FIRST = "0" * 64
"""The hash that the first line of a chain contains as that of the line before it."""

LEAST_HEAD = 12
"""Minimum number of digits of a hash that identify a line."""

LOCK_S = 10.0
"""Default time for which `retried` waits for a lock, in s."""

_PAUSE_S = 0.05


def sync(path: Path) -> None:
    """Waits until the content of a file, or the names in a directory, are on the disk.

    Raises:
        OSError: If the disk reports an error. A file system that cannot sync a directory is not an
            error.
    """
    if not operating_system.LOCKS and path.is_dir():
        return
    opened = os.open(path, operating_system.SYNCED | operating_system.BYTES)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP} or not stat.S_ISDIR(
            os.fstat(opened).st_mode
        ):
            raise
    finally:
        os.close(opened)


@contextmanager
def replacing(directory: Path, name: str | Callable[[Path], str]) -> Iterator[Path]:
    """A context manager that yields a new temporary file. The file gets its name in `directory`
    when the block ends without an exception.

    Args:
        directory: The directory of the file, which is created if necessary.
        name: The file's name, or a function that computes it from the written file.

    Raises:
        OSError: If the file cannot be written, synced or renamed. An older file of that name is
            then unchanged.
    """
    # If a file has the name of the directory, the next call reports that it is not a directory.
    with suppress(FileExistsError):
        directory.mkdir(parents=True)
    part = directory / f".{uuid.uuid4().hex}.part"
    # Made here and only if nothing has that name: a link that somebody put there is not followed.
    part.touch(exist_ok=False)
    try:
        yield part
        sync(part)
        part.replace(directory / (name if isinstance(name, str) else name(part)))
        sync(directory)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def replacing_all(directory: Path) -> Iterator[Path]:
    """A context manager that yields a new temporary folder. Its files move to `directory` when the
    block ends without an exception.

    All files are synced to the disk before the first one is moved.

    Args:
        directory: The directory of the files, which is created if necessary.

    Raises:
        OSError: If a file cannot be written, synced or renamed. Each file then has either its old
            or its new content.
    """
    directory.mkdir(parents=True, exist_ok=True)
    part = directory / f".{uuid.uuid4().hex}.part"
    # Made here and only if nothing has that name: a link that somebody put there is not followed.
    part.mkdir()
    try:
        yield part
        files = sorted(part.iterdir())
        for file in files:
            sync(file)
        for file in files:
            file.replace(directory / file.name)
        sync(directory)
    finally:
        with suppress(OSError):
            for file in part.iterdir():
                file.unlink()
            part.rmdir()


def retried(
    attempt: Callable[[], Result], held: Callable[[Exception], bool], seconds: float = LOCK_S
) -> Result:
    """The result of `attempt`, which is repeated while its exception means that another process
    holds a lock.

    Args:
        attempt: The operation.
        held: Returns whether an exception means that another process holds the lock.
        seconds: Time, in s, after which the exception is raised instead.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except Exception as error:
            if not held(error) or time.monotonic() >= until:
                raise
        time.sleep(_PAUSE_S)


def is_hash(head: str) -> bool:
    """Whether a text may be the hash of a line or its first digits: at least `LEAST_HEAD`
    hexadecimal digits.
    """
    return len(head) >= LEAST_HEAD and not set(head) - set("0123456789abcdef")


class Chain:
    """A file of JSON lines. Each line contains the hash of the line before it (`before`) and its
    own hash (`hash`).
    """

    def __init__(self, file: Path) -> None:
        """The chain in this file. The file is created when the first line is appended."""
        self.file = file

    def lines(self) -> list[JsonObject]:
        """All lines, the oldest first, after their hashes have been verified; none if there is no
        file. Lines that were removed from the end are not detected.

        Raises:
            NarrowsError: If an existing file cannot be read, or if a line was changed after it was
                written or is no line of such a chain.
        """
        try:
            with self.file.open("rb") as opened:
                operating_system.lock(opened, operating_system.SHARED)
                return self._read(opened.read())[0]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise NarrowsError(f"{self.file}: {error.strerror}") from error

    def head(self) -> str:
        """The hash of the last line; `FIRST` if the chain is empty.

        Raises:
            NarrowsError: As `lines`.
        """
        lines = self.lines()
        return str(lines[-1]["hash"]) if lines else FIRST

    def find(self, head: str) -> int:
        """The number of the line with this hash, counted from 1. The first `LEAST_HEAD` digits of
        the hash suffice.

        A chain that was cut or rewritten no longer contains the hash, even if each of its lines
        fits the line before it.

        Raises:
            NarrowsError: As `lines`; or if no line has this hash.
        """
        if not is_hash(head):
            raise NarrowsError(
                f"{head}: not a hash; write at least {LEAST_HEAD} hexadecimal digits of it"
            )
        lines = self.lines()
        for number, line in enumerate(lines, 1):
            if str(line["hash"]).startswith(head):
                return number
        raise NarrowsError(
            f"{self.file}: none of its {len(lines)} lines has the hash {head}: the file was cut "
            "or rewritten since then"
        )

    def append(self, line: Mapping[str, Any]) -> str:
        """Adds a line and returns its hash. The line is on the disk when the call returns.

        Raises:
            NarrowsError: If a line was changed after it was written.
            OSError: If the line cannot be written; the file then has its previous content.
        """
        self.file.parent.mkdir(parents=True, exist_ok=True)
        made = not self.file.exists()
        with self.file.open("a+b") as opened:
            # Without a lock, two simultaneous writers would append to the same previous line.
            operating_system.lock(opened, operating_system.EXCLUSIVE)
            opened.seek(0)
            content = opened.read()
            lines, whole = self._read(content)
            if whole < len(content):
                self._set_aside(content[whole:])
                os.ftruncate(opened.fileno(), whole)
            sealed = dict(line) | {"before": lines[-1]["hash"] if lines else FIRST}
            sealed["hash"] = _hash(sealed)
            text = json.dumps(sealed, ensure_ascii=False) + "\n"
            try:
                # The write bypasses the buffer of `opened`, which would retry a failed write when
                # it is closed.
                _write(opened.fileno(), _bytes(text))
                os.fsync(opened.fileno())
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(opened.fileno(), whole)
                raise
        if made:
            sync(self.file.parent)
        return str(sealed["hash"])

    def _read(self, content: bytes) -> tuple[list[JsonObject], int]:
        """The complete lines, and the number of bytes that they take. The bytes after them belong
        to a line that a crash cut short.
        """
        lines: list[JsonObject] = []
        taken, before = 0, FIRST
        while (end := content.find(b"\n", taken)) >= 0:
            text = content[taken:end]
            try:
                line = json.loads(text)
                named = line.pop("hash")
            except (ValueError, RecursionError, KeyError, AttributeError, TypeError) as error:
                # After a power failure, the last block of a file may contain zeros.
                if end + 1 == len(content) and b"\0" in text:
                    break
                raise NarrowsError(
                    f"{self.file}: line {len(lines) + 1}: not a line of this file"
                ) from error
            if named != _hash(line) or line.get("before") != before:
                raise NarrowsError(
                    f"{self.file}: line {len(lines) + 1}: changed since it was written\n"
                    "    move the file away to begin a new one"
                )
            before = named
            lines.append(line | {"hash": named})
            taken = end + 1
        return lines, taken

    def _set_aside(self, torn: bytes) -> None:
        """Appends the rest of an incomplete line to the file `NAME.torn`."""
        with self.file.with_name(f"{self.file.name}.torn").open("ab") as kept:
            kept.write(torn + b"\n")


def _write(opened: int, content: bytes) -> None:
    while content:
        content = content[os.write(opened, content) :]


def _hash(line: Mapping[str, Any]) -> str:
    return hashlib.sha256(_bytes(json.dumps(line, sort_keys=True, ensure_ascii=False))).hexdigest()


def _bytes(text: str) -> bytes:
    """The text as UTF-8. Text from untrusted JSON may contain unpaired surrogates, which are
    encoded so that `json.loads` can read them again.
    """
    return text.encode(errors="surrogatepass")
