"""Reads the blocks of a capture file: pcapng, or pcap (as tcpdump writes it).

A pcap file has the same blocks here as a pcapng file with one interface and the same packets.
Damaged blocks are errors. A file that ends within a block, as an interrupted tcpdump leaves it, can
be read up to this block.

Sources: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng (files), tcpdump.org/linktypes.html
(link types).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

Cut = Callable[[int], object]
"""Called with the number of bytes behind the last whole packet of a file."""

MOST_CUT_BYTES = 1 << 19
"""Largest size of a packet or a block that may be incomplete at the end of a file: twice the
largest snapshot length of tcpdump. A larger size is taken for damage."""

INTERFACE, SIMPLE, PACKET = 1, 3, 6
"""Kinds of blocks: an interface, a packet without a time, and a packet."""
TSRESOL = 9
"""The option of an interface with the resolution of its times."""

MAGIC = b"\x0a\x0d\x0d\x0a"
_SECTION_KIND = 0x0A0D0D0A
_LEAST_BLOCK, _BLOCK_HEAD = 12, 8
_PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", 6),
    b"\xa1\xb2\xc3\xd4": (">", 6),
    b"\x4d\x3c\xb2\xa1": ("<", 9),
    b"\xa1\xb2\x3c\x4d": (">", 9),
}
"""Byte order and decimals of the times of pcap files, by their first four bytes."""
_HEAD, _RECORD = 24, 16

_NULL, ETHERNET, RAW, _LOOP, _SLL, _SLL2 = 0, 1, 101, 108, 113, 276
_FRONT = {_NULL: 4, _LOOP: 4, ETHERNET: 14, _SLL: 16, _SLL2: 20} | dict.fromkeys((12, 14, RAW), 0)
"""Size of the header before IP, by link type."""
_VLANS = frozenset({b"\x81\x00", b"\x88\xa8"})


def front(data: bytes, link: int) -> int:
    """Size of the header of a packet before that of IP, with VLAN tags.

    Raises:
        ValueError: If the link type is not known.
    """
    if link not in _FRONT:
        raise ValueError(f"link type {link} is not known")
    size = _FRONT[link]
    while link == ETHERNET and data[size - 2 : size] in _VLANS:
        size += 4
    return size


def blocks(capture: bytes, cut: Cut | None = None) -> Iterator[tuple[str, int, bytes]]:
    """Byte order, kind and body of each block.

    Args:
        capture: The content of the file.
        cut: Called if the last block is incomplete; None makes such a block an error.

    Raises:
        ValueError: If a block is damaged or incomplete, or if there are several sections.
        struct.error: If the file ends within its head.
    """
    if capture[:4] in _PCAP:
        yield from _pcap(capture, cut)
        return
    if capture[:4] != MAGIC:
        raise ValueError("unknown first bytes")
    at, order = 0, "<"
    while at < len(capture):
        if capture[at : at + 4] == MAGIC:
            order = "<" if capture[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            if at:
                raise ValueError("several sections")
        left = len(capture) - at
        if cut is not None and at and left < _BLOCK_HEAD:
            cut(left)
            return
        kind, size = struct.unpack_from(f"{order}II", capture, at)
        if size < _LEAST_BLOCK or size % 4 or (at == 0 and kind != _SECTION_KIND):
            raise ValueError("the size of a block is not possible")
        if size > left:
            if cut is None or at == 0 or size > MOST_CUT_BYTES:
                raise ValueError("the size of a block is too large")
            cut(left)
            return
        yield order, kind, capture[at + 8 : at + size - 4]
        at += size


def _pcap(capture: bytes, cut: Cut | None) -> Iterator[tuple[str, int, bytes]]:
    """The blocks of a pcap file, as `blocks` returns them."""
    order, decimals = _PCAP[capture[:4]]
    snap, link = struct.unpack_from(f"{order}II", capture, 16)
    # The upper bits of the link type hold the length of a frame check sequence.
    head = struct.pack(f"{order}HHIHHB7x", link & 0xFFFF, 0, snap, TSRESOL, 1, decimals)
    yield order, INTERFACE, head
    record, packet, ticks = (
        struct.Struct(f"{order}IIII"),
        struct.Struct(f"{order}IIIII"),
        10**decimals,
    )
    at = _HEAD
    while at < len(capture):
        begin, at = at, at + _RECORD
        left = len(capture) - at
        kept = 0
        if left >= 0:
            second, part, kept, length = record.unpack_from(capture, begin)
        if left < kept or left < 0:
            if cut is None or kept > MOST_CUT_BYTES:
                raise ValueError("the length of a packet is too large")
            cut(len(capture) - begin)
            return
        time = second * ticks + part
        data = packet.pack(0, time >> 32, time & 0xFFFFFFFF, kept, length)
        yield order, PACKET, data + capture[at : at + kept] + bytes(-kept % 4)
        at += kept
