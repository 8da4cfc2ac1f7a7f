"""Reads the TCP segments of a capture: pcap (as tcpdump writes it) or pcapng.

Only headers are read; a capture may lack the payload. Packets of other protocols, fragments after
the first one and damaged headers are skipped. Damaged blocks are errors. A file that ends within a
packet, as an interrupted tcpdump leaves it, is read up to this packet.

Sources: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng (files), tcpdump.org/linktypes.html
(link types), RFC 791, RFC 7323, RFC 8200, RFC 9293.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from narrows.errors import NarrowsError
from narrows.files.capture import MAGIC, MOST_CUT_BYTES, Cut, blocks

MOST_SEGMENTS = 5_000_000
"""Maximum number of TCP segments of a capture."""

_PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", 1e6),
    b"\xa1\xb2\xc3\xd4": (">", 1e6),
    b"\x4d\x3c\xb2\xa1": ("<", 1e9),
    b"\xa1\xb2\x3c\x4d": (">", 1e9),
}
"""Byte order and ticks per second of pcap files, by their first four bytes."""

_HEAD, _RECORD = 24, 16
_INTERFACE, _PACKET = 1, 6
_TSRESOL = 9
_MOST_INTERFACES = 1 << 16
_NULL, _ETHERNET, _RAW, _LOOP, _SLL, _SLL2 = 0, 1, (12, 14, 101), 108, 113, 276
_FRONT = {_NULL: 4, _LOOP: 4, _ETHERNET: 14, _SLL: 16, _SLL2: 20} | dict.fromkeys(_RAW, 0)
"""Size of the header before IP, by link type."""

_VLANS = frozenset({b"\x81\x00", b"\x88\xa8"})
_TCP = 6
_V4, _V6 = 4, 6
_IPV4, _IPV6, _TCP_HEAD = 20, 40, 20
_EXTENSIONS = frozenset({0, 43, 60})
_END, _NO_OPERATION, _STAMPS = 0, 1, 8
_STAMPS_SIZE, _STAMPS_END = 10, 12
_ALIGNED_STAMPS = bytes([_NO_OPERATION, _NO_OPERATION, _STAMPS, _STAMPS_SIZE])


class Segment(NamedTuple):
    """A TCP segment.

    Attributes:
        interface: Number of the interface of the capture; 0 in pcap.
        at: Time, in s.
        source: Address and port of the sender.
        target: Address and port of the receiver.
        sequence: Sequence number of the first byte.
        acknowledged: Acknowledgement number.
        flags: The flags FIN (1), SYN (2), RST (4), PSH (8) and ACK (16).
        size: Number of payload bytes.
        stamp: Timestamp of the sender (TSval); None without the option.
        echo: Timestamp that it echoes (TSecr); None without the option.
    """

    interface: int
    at: float
    source: tuple[bytes, int]
    target: tuple[bytes, int]
    sequence: int
    acknowledged: int
    flags: int
    size: int
    stamp: int | None
    echo: int | None


def segments(content: bytes, name: str, cut: Cut = lambda _bytes: None) -> Iterator[Segment]:
    """The TCP segments of a capture in the order of the file. If the file ends within a packet,
    `cut` is called with the number of bytes of this packet.

    Raises:
        NarrowsError: If the input is not a capture, is damaged, has an unknown link type, or has
            more than `MOST_SEGMENTS` segments.
    """
    count = 0
    try:
        for interface, at, link, data, length in captured(content, cut):
            found = _segment(interface, at, data, link, length)
            if found is None:
                continue
            count += 1
            if count > MOST_SEGMENTS:
                break
            yield found
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        # The texts of other errors name parts of this program, not of the file.
        why = f" ({error})" if type(error) is ValueError else ""
        raise NarrowsError(
            f"{name}: is not a capture in the format pcap or pcapng, or is damaged{why}; "
            "write one with tcpdump -w"
        ) from error
    if count > MOST_SEGMENTS:
        raise NarrowsError(
            f"{name}: more than {MOST_SEGMENTS} TCP segments; capture a shorter time or one "
            "connection"
        )


def captured(
    content: bytes, cut: Cut = lambda _bytes: None
) -> Iterator[tuple[int, float, int, bytes, int]]:
    """Interface, time in s, link type, captured bytes and full length of each packet. See
    `segments` for `cut`.

    Raises:
        ValueError: If the input is not a capture, or is damaged.
        struct.error: If it ends within the header of the file.
    """
    if content[:4] == MAGIC:
        yield from _pcapng(content, cut)
        return
    if content[:4] not in _PCAP:
        raise ValueError("unknown first bytes")
    order, ticks = _PCAP[content[:4]]
    # The upper bits of the link type hold the length of a frame check sequence.
    link = int(struct.unpack_from(f"{order}I", content, 20)[0]) & 0xFFFF
    at = _HEAD
    while at < len(content):
        begin = at
        at += _RECORD
        if at > len(content):
            cut(len(content) - begin)
            return
        second, part, kept, length = struct.unpack_from(f"{order}IIII", content, begin)
        if at + kept > len(content):
            if kept > MOST_CUT_BYTES:
                raise ValueError("the length of a packet is too large")
            cut(len(content) - begin)
            return
        yield 0, second + part / ticks, link, content[at : at + kept], length
        at += kept


def _pcapng(content: bytes, cut: Cut) -> Iterator[tuple[int, float, int, bytes, int]]:
    links: list[tuple[int, float]] = []
    for order, kind, body in blocks(content, cut):
        if kind == _INTERFACE:
            if len(links) >= _MOST_INTERFACES:
                raise ValueError("too many interfaces")
            links.append((struct.unpack_from(f"{order}H", body)[0], _ticks(order, body[8:])))
        elif kind == _PACKET:
            interface, high, low, kept, length = struct.unpack_from(f"{order}IIIII", body)
            link, ticks = links[interface]
            yield interface, (high << 32 | low) / ticks, link, body[20 : 20 + kept], length


def _ticks(order: str, options: bytes) -> float:
    """Ticks per second of an interface; a million if the option is missing."""
    at = 0
    while at + 4 <= len(options):
        code, size = struct.unpack_from(f"{order}HH", options, at)
        if code == 0:
            break
        if code == _TSRESOL and size == 1:
            value = options[at + 4]
            return 2.0 ** (value & 127) if value & 128 else 10.0**value
        at += 4 + (size + 3) // 4 * 4
    return 1e6


def _segment(interface: int, at: float, data: bytes, link: int, length: int) -> Segment | None:
    """The TCP segment of a packet; None if the packet has no TCP header."""
    if link not in _FRONT:
        raise ValueError(f"link type {link} is not known")
    front = _FRONT[link]
    while link == _ETHERNET and data[front - 2 : front] in _VLANS:
        front += 4
    ip = data[front:]
    version = ip[0] >> 4 if ip else 0
    if version == _V4 and len(ip) >= _IPV4:
        if ip[9] != _TCP or int.from_bytes(ip[6:8], "big") & 0x1FFF:
            return None
        head, whole, hosts = (ip[0] & 15) * 4, int.from_bytes(ip[2:4], "big"), (12, 16, 4)
    elif version == _V6 and len(ip) >= _IPV6:
        head, protocol = _IPV6, ip[6]
        while protocol in _EXTENSIONS and head + 2 <= len(ip):
            protocol, head = ip[head], head + (ip[head + 1] + 1) * 8
        if protocol != _TCP:
            return None
        payload = int.from_bytes(ip[4:6], "big")
        whole, hosts = payload + _IPV6 if payload else 0, (8, 24, 16)
    else:
        return None
    tcp = ip[head : head + _TCP_HEAD]
    if len(tcp) < _TCP_HEAD:
        return None
    # Super-packets of more than 64 KiB have no length in their IP header.
    size = (whole or length - front) - head - (tcp[12] >> 4) * 4
    if size < 0:
        return None
    source, target, sequence, acknowledged = struct.unpack_from(">HHII", tcp)
    options = ip[head + _TCP_HEAD : head + (tcp[12] >> 4) * 4]
    stamp, echo = _timestamps(options)
    first, second, n = hosts
    return Segment(
        interface,
        at,
        (ip[first : first + n], source),
        (ip[second : second + n], target),
        sequence,
        acknowledged,
        tcp[13] & 31,
        size,
        stamp,
        echo,
    )


def _timestamps(options: bytes) -> tuple[int, int] | tuple[None, None]:
    """TSval and TSecr of the options of a segment (RFC 7323, 3.2); None without them."""
    # Linux and most other systems put two no-operations before it.
    if options[:4] == _ALIGNED_STAMPS and len(options) >= _STAMPS_END:
        return struct.unpack_from(">II", options, 4)
    at = 0
    while at + 1 < len(options) and options[at] != _END:
        size = 1 if options[at] == _NO_OPERATION else max(options[at + 1], 2)
        if options[at] == _STAMPS and size == _STAMPS_SIZE and at + size <= len(options):
            return struct.unpack_from(">II", options, at + 2)
        at += size
    return None, None
