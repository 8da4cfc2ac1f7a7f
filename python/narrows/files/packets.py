"""Reads the TCP segments of a capture.

Only headers are read; a capture may lack the payload. Packets of other protocols, fragments after
the first one and damaged headers are skipped.

Sources: RFC 791, RFC 7323, RFC 8200, RFC 9293.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from narrows.errors import NarrowsError
from narrows.files.blocks import INTERFACE, PACKET, TSRESOL, Cut, blocks, front

MOST_SEGMENTS = 5_000_000
"""Maximum number of TCP segments of a capture."""

_MOST_INTERFACES = 1 << 16
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
    links: list[tuple[int, float]] = []
    for order, kind, body in blocks(content, cut):
        if kind == INTERFACE:
            if len(links) >= _MOST_INTERFACES:
                raise ValueError("too many interfaces")
            links.append((struct.unpack_from(f"{order}H", body)[0], _ticks(order, body[8:])))
        elif kind == PACKET:
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
        if code == TSRESOL and size == 1:
            value = options[at + 4]
            return 2.0 ** (value & 127) if value & 128 else 10.0**value
        at += 4 + (size + 3) // 4 * 4
    return 1e6


def _segment(interface: int, at: float, data: bytes, link: int, length: int) -> Segment | None:
    """The TCP segment of a packet; None if the packet has no TCP header."""
    before = front(data, link)
    ip = data[before:]
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
    size = (whole or length - before) - head - (tcp[12] >> 4) * 4
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
