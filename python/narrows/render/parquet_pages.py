"""The unpacked size of a Parquet file according to the headers of its pages.

Arrow allocates the size that a page states before it unpacks the page. The footer of the file also
states sizes, but a hostile file can state wrong ones there. In one example, a page of 37 kB
unpacked to 1.2 GB. `unpacked_bytes` adds the sizes of all pages without unpacking one.

The places of the column chunks are read from the footer here as well: some damaged footers make
Arrow end the process.

Source: parquet.thrift of Apache Parquet 2.10 (`FileMetaData`, `PageHeader`); the compact protocol
of Apache Thrift.
"""

from __future__ import annotations

from collections.abc import Iterator

_STOP, _TRUE, _FALSE, _BYTE, _I32, _I64, _DOUBLE, _BINARY = 0, 1, 2, 3, 5, 6, 7, 8
_LIST, _SET, _STRUCT = 9, 10, 12
_INTEGERS = (4, _I32, _I64)
_FIXED = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}
"""Bytes of the values whose size is that of their type."""
_MORE = 0x80
_MAGIC = b"PAR1"
MOST_FOOTER_BYTES = 8 << 20
"""Maximum size of a footer; that of a table of the largest size has some 100 kB."""
_DEEPEST = 12
"""Maximum depth of nested structures and lists in a header."""

MOST_PAGES = 100_000
"""Maximum number of pages of a file; a table of the largest size has some 10,000."""


class DamagedError(ValueError):
    """The file has an invalid footer or page header, or too many pages."""


def unpacked_bytes(content: bytes, most: int) -> int:
    """The sum of the unpacked sizes of all pages, in bytes. The function stops and returns the sum
    so far as soon as it exceeds `most`.

    Raises:
        DamagedError: If the footer or a header of a page is not valid, or if there are more than
            `MOST_PAGES` pages.
    """
    size = pages = 0
    for begin, end in _chunks(content):
        at = begin
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


def _chunks(content: bytes) -> Iterator[tuple[int, int]]:
    """The offset of the first page of each column chunk, and the offset of its end."""
    length = int.from_bytes(content[-8:-4], "little")
    if content[-4:] != _MAGIC or not 0 < length <= min(MOST_FOOTER_BYTES, len(content) - 8):
        raise DamagedError("has no footer, or one that is too long")
    for groups in _structures(content, len(content) - 8 - length, 4):
        for columns in _structures(content, groups, 1):
            for chunk in _numbers_of(content, columns):
                begins = [begin for begin in (chunk.get(9), chunk.get(11)) if begin]
                if not begins or 7 not in chunk:  # noqa: PLR2004 - total_compressed_size
                    raise DamagedError("a column has no place")
                yield min(begins), min(begins) + chunk[7]


def _structures(content: bytes, at: int, wanted: int) -> Iterator[int]:
    """The offsets of the structures in the list that is field `wanted` of the structure at `at`."""
    for field, kind, begin in _fields(content, at):
        if field == wanted and kind == _LIST:
            count, of, item = _list(content, begin)
            if of != _STRUCT:
                raise DamagedError("its footer is damaged")
            for _ in range(count):
                yield item
                item = _skip(content, item, _STRUCT, 0)


def _numbers_of(content: bytes, at: int) -> Iterator[dict[int, int]]:
    """The integers of the metadata (field 3) of the column chunk at `at`, by field."""
    for field, kind, begin in _fields(content, at):
        if field == 3 and kind == _STRUCT:  # noqa: PLR2004 - ColumnMetaData
            yield _integers(content, begin, _I64)


def _integers(content: bytes, at: int, wanted: int) -> dict[int, int]:
    """The integers of this type in a structure, by field.

    Raises:
        DamagedError: If a field occurs twice. Which one counts would depend on the reader.
    """
    found: dict[int, int] = {}
    seen: set[int] = set()
    for field, kind, begin in _fields(content, at):
        if kind == _STOP:
            break
        if field in seen:
            raise DamagedError("a header has a field twice")
        seen.add(field)
        if kind == wanted:
            number, _ = _varint(content, begin)
            found[field] = (number >> 1) ^ -(number & 1)
    return found


def _page(content: bytes, at: int) -> tuple[int, int, int]:
    """The unpacked and the packed size of a page, in bytes, and the offset of the end of its
    header.
    """
    sizes = _integers(content, at, _I32)
    unpacked, packed = sizes.get(2, -1), sizes.get(3, -1)
    if min(unpacked, packed) < 0:
        raise DamagedError("a page has no size")
    return unpacked, packed, _skip(content, at, _STRUCT, 0)


def _list(content: bytes, at: int) -> tuple[int, int, int]:
    """The length of a list, the type of its items, and the offset of the first one."""
    head = _byte(content, at)
    count, at = head >> 4, at + 1
    if count == 0xF:  # noqa: PLR2004 - the length follows
        count, at = _varint(content, at)
    if count > len(content):
        raise DamagedError("a list is too long")
    return count, head & 0x0F, at


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
    if kind in _FIXED:
        return at + _FIXED[kind]
    if kind in _INTEGERS:
        return _varint(content, at)[1]
    if kind == _BINARY:
        length, at = _varint(content, at)
        return at + length
    if kind == _STRUCT:
        for _, _, end in _fields(content, at, depth + 1):
            at = end
        return at
    if kind in {_LIST, _SET}:
        count, of, at = _list(content, at)
        for _ in range(count):
            # In a list, a truth value has a byte of its own.
            at = at + 1 if of in {_TRUE, _FALSE} else _skip(content, at, of, depth + 1)
            _byte(content, at - 1)
        return at
    # Footers and headers of pages have no maps.
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
