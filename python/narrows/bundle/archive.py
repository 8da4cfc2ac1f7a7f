"""The file of a bundle: a ZIP archive, whose members are checked before anything is written.

A bundle may come from a stranger. The members of a bundle must have relative names of plain
characters (`recipe.safe_name`), must be regular files, and must occur once. The number and the
sizes of members are limited. The sizes are counted while members are unpacked, because the sizes in
headers may be false. This module executes nothing.
"""

from __future__ import annotations

import io
import stat
import zipfile
import zlib
from collections.abc import Mapping
from os import PathLike
from pathlib import PurePosixPath

from narrows.bundle.recipe import safe_name
from narrows.errors import NarrowsError, reason
from narrows.storage import untrusted_input
from narrows.storage.text import name_of

MOST_MEMBERS = 20_000
"""Maximum number of files in a bundle."""

MOST_BYTES = 1 << 30
"""Maximum total size of all unpacked files of a bundle, in bytes."""

MOST_RATIO, MOST_SMALL_BYTES = 100, 64 << 20
"""Maximum total size of all unpacked files, as a multiple of the size of the archive. A total size
of `MOST_SMALL_BYTES` is permitted even if it exceeds this multiple.
"""

MANIFEST = "bundle.json"
"""The member that describes the others."""

MOST_MANIFEST_BYTES = 8 << 20
"""Maximum size of the manifest, in bytes. With `MOST_MEMBERS` files, it has some 3 MB."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
_PIECE = 1 << 20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 1


def packed(files: Mapping[str, bytes]) -> bytes:
    """The archive of these files; the same files give the same bytes."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            about = zipfile.ZipInfo(safe_name(name), _EPOCH)
            about.compress_type = zipfile.ZIP_DEFLATED
            about.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(about, content)
    return sink.getvalue()


def unpacked(file: str | PathLike[str]) -> dict[str, bytes]:
    """The files in an archive, by name.

    Raises:
        NarrowsError: If the file cannot be read, is no archive, or exceeds a limit.
    """
    name = name_of(file)
    try:
        content = untrusted_input.read(file, untrusted_input.MOST_DATA_BYTES)
    except OSError as error:
        raise NarrowsError(f"{name}: {reason(error)}") from error
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _members(archive, name, _most(len(content)))
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, ValueError, OSError,
            NotImplementedError, RuntimeError, zlib.error) as error:  # fmt: skip
        raise NarrowsError(f"{name}: is damaged or no bundle ({error})") from error


def _most(packed_bytes: int) -> int:
    """Maximum size of the files of an archive of this size, bytes.

    >>> [_most(size) >> 20 for size in (1000, 5 << 20, 100 << 20)]
    [64, 500, 1024]
    """
    return min(MOST_BYTES, max(MOST_SMALL_BYTES, MOST_RATIO * packed_bytes))


def _members(archive: zipfile.ZipFile, name: str, most: int) -> dict[str, bytes]:
    members = archive.infolist()
    if len(members) > MOST_MEMBERS:
        raise NarrowsError(f"{name}: has {len(members)} files; the most is {MOST_MEMBERS}")
    found: dict[str, bytes] = {}
    left = most
    for member in members:
        try:
            safe_name(member.filename)
        except NarrowsError as error:
            raise NarrowsError(f"{name}: {error}") from None
        kind = stat.S_IFMT(member.external_attr >> 16)
        if member.filename in found or kind not in {0, stat.S_IFREG}:
            raise NarrowsError(f"{name}: {member.filename}: is no regular file, or occurs twice")
        if member.compress_type not in _METHODS or member.flag_bits & _ENCRYPTED:
            raise NarrowsError(f"{name}: {member.filename}: is encrypted, or not packed by deflate")
        if member.filename == MANIFEST:
            found[MANIFEST] = _content(archive, member, min(left, MOST_MANIFEST_BYTES), name)
        else:
            found[member.filename] = _content(archive, member, left, name)
        left -= len(found[member.filename])
    for one in found:
        for folder in PurePosixPath(one).parents:
            if str(folder) in found:
                raise NarrowsError(f"{name}: {folder}: is a file and a folder of {one}")
    return found


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int, name: str) -> bytes:
    pieces, size = [], 0
    with archive.open(member) as source:
        while piece := source.read(_PIECE):
            size += len(piece)
            if size > most:
                raise NarrowsError(
                    f"{name}: {member.filename}: exceeds the most that is unpacked: "
                    f"{MOST_MANIFEST_BYTES >> 20} MiB for {MANIFEST}, and for all files "
                    f"{MOST_BYTES >> 20} MiB or {MOST_RATIO} times the size of the archive"
                )
            pieces.append(piece)
    return b"".join(pieces)
