"""The unpacked size of a Parquet file according to the headers of its pages.

Arrow allocates the size that a page states before it unpacks the page. The footer of the file also
states sizes, but a hostile file can state wrong ones there. In one example, a page of 37 kB
unpacked to 1.2 GB. `unpacked_bytes` adds the sizes of all pages without unpacking one.

Source: parquet.thrift of Apache Parquet 2.10 (`PageHeader`); the compact protocol of Apache Thrift.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _STRUCT = 0, 1, 2, 3, 7, 8, 12
_INTEGERS = (4, 5, 6)
_MORE = 0x80
_DEEPEST = 8
"""Maximum depth of nested structures in a header; headers of Parquet have four."""

MOST_PAGES = 100_000
"""Maximum number of pages of a file; a table of the largest size has some 10,000."""


class DamagedError(ValueError):
    """The file has an invalid page header, or too many pages."""


def unpacked_bytes(content: bytes, about: pq.FileMetaData, most: int) -> int:
    """The sum of the unpacked sizes of all pages, in bytes. The function stops and returns the sum
    so far as soon as it exceeds `most`.

    Raises:
        DamagedError: If a page has no valid header, or if there are more than `MOST_PAGES` pages.
    """
    size = pages = 0
    for group in range(about.num_row_groups):
        for column in range(about.num_columns):
            chunk = about.row_group(group).column(column)
            begins = [chunk.data_page_offset, chunk.dictionary_page_offset]
            at = min((begin for begin in begins if begin), default=0)
            end = at + chunk.total_compressed_size
            while at < end:
                unpacked, packed, at = _page(content, at)
                at += packed
                size += unpacked
                pages += 1
                if size > most:
                    return size
                if pages > MOST_PAGES:
                    raise DamagedError("has too many pages")
    return size


def _page(content: bytes, at: int) -> tuple[int, int, int]:
    """The unpacked and the packed size of a page, in bytes, and the offset of the end of its
    header.
    """
    sizes = {2: -1, 3: -1}
    for field, kind, begin in _fields(content, at):
        at = begin
        if kind == _STOP:
            break
        if kind in _INTEGERS and field in sizes:
            number, _ = _varint(content, begin)
            sizes[field] = (number >> 1) ^ -(number & 1)
    if min(sizes.values()) < 0:
        raise DamagedError("a page has no size")
    return sizes[2], sizes[3], at


def _fields(content: bytes, at: int, depth: int = 0) -> Iterator[tuple[int, int, int]]:
    """The number, the type and the offset of each field of a structure. The last item has the type
    `_STOP` and the offset of the end.
    """
    field = 0
    while True:
        head = _byte(content, at)
        at += 1
        kind = head & 0x0F
        if kind == _STOP:
            yield field, kind, at
            return
        if head >> 4:
            field += head >> 4
        else:
            number, at = _varint(content, at)
            field = (number >> 1) ^ -(number & 1)
        yield field, kind, at
        at = _skip(content, at, kind, depth)


def _skip(content: bytes, at: int, kind: int, depth: int) -> int:
    """The offset of the end of a value of this type."""
    if depth > _DEEPEST:
        raise DamagedError("a header nests too deeply")
    if kind in {_TRUE, _FALSE}:
        return at
    if kind == _BYTE:
        return at + 1
    if kind in _INTEGERS:
        return _varint(content, at)[1]
    if kind == _DOUBLE:
        return at + 8
    if kind == _BINARY:
        length, at = _varint(content, at)
        return at + length
    if kind == _STRUCT:
        for _, _, end in _fields(content, at, depth + 1):
            at = end
        return at
    # Headers of pages have no lists and no maps.
    raise DamagedError("a header is damaged")


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """An unsigned number of at most 70 bits (ten bytes of seven), and the offset of its end."""
    number = 0
    for shift in range(0, 70, 7):
        byte = _byte(content, at)
        at += 1
        number |= (byte & 0x7F) << shift
        if not byte & _MORE:
            return number, at
    raise DamagedError("a number is too long")


def _byte(content: bytes, at: int) -> int:
    if not 0 <= at < len(content):
        raise DamagedError("a page lies outside of the file")
    return content[at]
