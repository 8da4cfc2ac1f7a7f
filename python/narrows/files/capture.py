"""Replaces the addresses in captures (pcap or pcapng) by pseudonyms; the result is pcapng.

Only the headers of IPv4 and IPv6, and those of TCP, UDP and ICMP, are kept; payload is cut off.
MAC addresses become zero; of other link types than Ethernet, the header of the link is left out.
Options of IPv4 and extension headers of IPv6 are overwritten. The same applies to TCP options that
may contain addresses, such as those of Multipath TCP. The gateway of an ICMP redirect becomes a
pseudonym. Packets of other protocols, names, comments, secrets and descriptions of the machine are
left out. The checksums of the headers are changed to fit the pseudonyms.

Sources: draft-ietf-opsawg-pcapng (blocks and options), RFC 1624 (changes of a checksum), RFC 8200,
4.1 (extension headers).
"""

from __future__ import annotations

import struct

from narrows.errors import NarrowsError
from narrows.files.blocks import (
    ETHERNET,
    INTERFACE,
    PACKET,
    RAW,
    SIMPLE,
    TSRESOL,
    Cut,
    blocks,
    front,
)
from narrows.storage.anonymous import Anonymizer

_IPV4, _IPV6 = 20, 40
_TCP, _UDP, _ICMP, _ICMP6 = 6, 17, 1, 58
_EXTENSIONS = frozenset({0, 43, 60})
_SECTION = struct.pack("=IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
_TSOFFSET, _FLAGS = 14, 2
_NUMBERS = {_FLAGS: "I", _TSOFFSET: "q"}
"""Options whose value is a number, with its format."""
_MOST_INTERFACES = 1 << 16
_V4, _V6 = 4, 6
_ROUTING = 43
_PAD = 1
_REDIRECT = 5
_END, _NO_OPERATION = 0, 1
_TCP_OPTIONS = frozenset({2, 3, 4, 5, 8})
"""TCP options without addresses: segment size, window scale, SACK, and timestamps."""


def anonymize(
    capture: bytes, by: Anonymizer, name: str = "capture", cut: Cut = lambda _bytes: None
) -> bytes:
    """The capture with pseudonyms. If the file ends within a packet, `cut` is called with the
    number of bytes of this packet, which is left out.

    Raises:
        NarrowsError: If the input is not a capture, is damaged, or has an unknown link type.
    """
    out = [_SECTION]
    links: list[int] = []
    try:
        for order, kind, body in blocks(capture, cut):
            if kind == INTERFACE:
                link, _, snap = struct.unpack_from(f"{order}HHI", body)
                front(b"", link)
                links.append(link)
                if len(links) > _MOST_INTERFACES:
                    raise ValueError("too many interfaces")
                kept = _options(order, body[8:], {TSRESOL, _TSOFFSET})
                link = ETHERNET if link == ETHERNET else RAW
                out.append(_block(INTERFACE, struct.pack("=HHI", link, 0, snap) + kept))
            elif kind == PACKET:
                at, high, low, kept_len, length = struct.unpack_from(f"{order}IIIII", body)
                options = _options(order, body[20 + (kept_len + 3) // 4 * 4 :], {_FLAGS})
                data = body[20 : 20 + kept_len]
                out.append(_found((at, high, low), length, data, links[at], by=by, options=options))
            elif kind == SIMPLE:
                (length,) = struct.unpack_from(f"{order}I", body)
                out.append(_found((0, 0, 0), length, body[4 : 4 + length], links[0], by=by))
    except (struct.error, IndexError, ValueError) as error:
        # The texts of other errors name parts of this program, not of the file.
        why = f" ({error})" if type(error) is ValueError else ""
        raise NarrowsError(
            f"{name}: is not a capture in the format pcap or pcapng, or is damaged{why}; "
            "write one with tcpdump -w"
        ) from error
    return b"".join(out)


def _found(
    head: tuple[int, int, int],
    length: int,
    data: bytes,
    link: int,
    *,
    by: Anonymizer,
    options: bytes = b"",
) -> bytes:
    """The block of a packet; empty if the packet has no IP header.

    Args:
        head: The number of its interface, and the two halves of its time.
        length: Size of the packet on the link, in bytes.
        data: Its captured bytes.
        link: Its link type.
        by: The pseudonyms.
        options: The options of the block.
    """
    size = front(data, link)
    ip = _packet(data[size:], by)
    if ip is None:
        return b""
    if link == ETHERNET:
        ip = bytes(12) + data[12:size] + ip
    else:
        length = max(length - size, len(ip))
    start = struct.pack("=IIIII", *head, len(ip), length)
    return _block(PACKET, start + _padded(ip) + options)


def _block(kind: int, body: bytes) -> bytes:
    size = 12 + len(body)
    return struct.pack("=II", kind, size) + body + struct.pack("=I", size)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _options(order: str, body: bytes, kept: set[int]) -> bytes:
    """The options whose codes are in `kept`, in the byte order of this machine."""
    out, at = b"", 0
    while at + 4 <= len(body):
        code, size = struct.unpack_from(f"{order}HH", body, at)
        if code == 0:
            break
        value = body[at + 4 : at + 4 + size]
        if code in kept:
            if code in _NUMBERS:
                value = struct.pack(
                    f"={_NUMBERS[code]}", *struct.unpack(order + _NUMBERS[code], value)
                )
            out += struct.pack("=HH", code, len(value)) + _padded(value)
        at += 4 + (size + 3) // 4 * 4
    return out + bytes(4) if out else b""


def _packet(data: bytes, by: Anonymizer) -> bytes | None:
    """The headers of a packet with pseudonyms; None if the packet has no IP header."""
    version = data[0] >> 4 if data else 0
    if version == _V4 and _IPV4 <= (data[0] & 15) * 4 <= len(data):
        return _ipv4(bytearray(data), by)
    if version == _V6 and len(data) >= _IPV6:
        return _ipv6(bytearray(data), by)
    return None


def _ipv4(data: bytearray, by: Anonymizer) -> bytes:
    head = (data[0] & 15) * 4
    first = int.from_bytes(data[6:8], "big") & 0x1FFF == 0
    before = bytes(data[12:20])
    for at in (12, 16):
        data[at : at + 4] = by.address(_address(data[at : at + 4])).packed
    change = _difference(before, bytes(data[12:20]))
    _add(data, 10, change + _overwrite(data, _IPV4, head))
    if first and data[9] == _ICMP and len(data) >= head + 8 and data[head] == _REDIRECT:
        gateway = bytes(data[head + 4 : head + 8])
        data[head + 4 : head + 8] = by.address(_address(data[head + 4 : head + 8])).packed
        _add(data, head + 2, _difference(gateway, bytes(data[head + 4 : head + 8])))
    return _transport(data, head, data[9] if first else None, change)


def _ipv6(data: bytearray, by: Anonymizer) -> bytes:
    before = bytes(data[8:40])
    for at in (8, 24):
        data[at : at + 16] = by.address(_address(data[at : at + 16])).packed
    head, protocol = _IPV6, data[6]
    while protocol in _EXTENSIONS and head + 8 <= len(data):
        end = head + (data[head + 1] + 1) * 8
        if protocol == _ROUTING:
            data[head + 8 : end] = bytes(len(data[head + 8 : end]))
        else:
            # Options, such as that of a home address, become padding (PadN).
            size = len(data[head + 2 : end])
            data[head + 2 : end] = (bytes([_PAD, min(max(size - 2, 0), 255)]) + bytes(size))[:size]
        protocol, head = data[head], end
    return _transport(data, head, protocol, _difference(before, bytes(data[8:40])))


def _address(packed: bytearray) -> str:
    import ipaddress  # noqa: PLC0415

    return str(ipaddress.ip_address(bytes(packed)))


def _transport(data: bytearray, head: int, protocol: int | None, change: int) -> bytes:
    """The packet without payload. The checksum of the transport header is changed to fit the
    pseudonyms.
    """
    kept = head
    if protocol == _TCP and len(data) >= head + 20:
        kept = head + (data[head + 12] >> 4) * 4
        _add(data, head + 16, change + _overwrite(data, head + 20, kept, _TCP_OPTIONS))
    elif protocol == _UDP and len(data) >= head + 8:
        if data[head + 6] or data[head + 7]:
            _add(data, head + 6, change)
        kept = head + 8
    elif protocol in {_ICMP, _ICMP6} and len(data) >= head + 8:
        if protocol == _ICMP6:
            _add(data, head + 2, change)
        # Messages of IPv6 neighbour discovery contain addresses after these eight bytes.
        kept = head + 8
    return bytes(data[:kept])


def _overwrite(data: bytearray, start: int, end: int, kept: frozenset[int] = frozenset()) -> int:
    """Overwrites options not in `kept` with no-operations; returns the change of the sum."""
    end = min(end, len(data) & ~1)
    before, at = bytes(data[start:end]), start
    while at < end and data[at] != _END:
        size = 1
        if data[at] != _NO_OPERATION:
            size = max(data[at + 1], 2) if at + 1 < end else end - at
            if data[at] not in kept:
                size = min(size, end - at)
                data[at : at + size] = bytes([_NO_OPERATION]) * size
        at += size
    # Behind the end of the options there is only padding.
    data[at:end] = bytes(max(end - at, 0))
    return _difference(before, bytes(data[start:end]))


def _sum(data: bytes) -> int:
    return sum(struct.unpack(f">{len(data) // 2}H", data))


def _difference(before: bytes, after: bytes) -> int:
    return _sum(after) - _sum(before)


def _add(data: bytearray, at: int, change: int) -> None:
    """Updates a checksum by a change of the sum of its words (RFC 1624, equation 3)."""
    found = (~int.from_bytes(data[at : at + 2], "big") & 0xFFFF) + change
    found %= 0xFFFF
    data[at : at + 2] = (~found & 0xFFFF).to_bytes(2, "big")
