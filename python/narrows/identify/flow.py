"""Data in flight, RTTs and retransmits of the connections of a capture.

The capture may be from the sender, from the receiver or from a host between them. The data in
flight are the data that passed less the data whose ACK the sender had received. With timestamps,
each data segment shows which: its TSecr is the TSval of the last ACK (RFC 7323, 4.3). Without
timestamps, the ACKs are those that passed earlier than a constant time before, the RTT between the
place of the capture and the sender. The handshake shows this time. It does not include a queue
between them.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from narrows.files.packets import Segment

Peer = tuple[bytes, int]
"""Address and port of a host."""

_SYN, _ACK = 2, 16
_HANDSHAKE = 3
"""Number of segments of a handshake."""
_WRAP = 1 << 32
_MOST_FLOWS = 20_000
"""Maximum number of flows that are analysed; further connections of a capture are left out."""
_USUAL_MSS = 1448
_MOST_MSS = 9000
"""Payload of a super-packet is larger than this."""


def _near(number: int, last: int) -> int:
    """A number of 32 bits without wrap-around: the one nearest to `last`.

    >>> _near(5, 2**32 - 1) - 2**32
    5
    """
    off = (number - last) % _WRAP
    return last + (off if off < _WRAP // 2 else off - _WRAP)


@dataclass
class Flow:
    """The data of one direction of a connection, and their ACKs, at one interface.

    Attributes:
        source: The sender.
        target: The receiver.
        at: Time of each data segment, in s.
        start: First byte of each data segment.
        end: Byte after each data segment.
        ack_at: Time of each ACK, in s.
        ack: First byte that an ACK does not acknowledge.
        echo: TSecr of each data segment.
        stamp: TSval of each ACK.
        stamped: Whether all these segments have timestamps.
        syn_at: Times of the SYN, the SYN-ACK and the third segment of the handshake, in s.
        opened: Whether the sender sent the SYN; None without a handshake.
    """

    source: Peer
    target: Peer
    at: array[float] = field(default_factory=lambda: array("d"))
    start: array[int] = field(default_factory=lambda: array("q"))
    end: array[int] = field(default_factory=lambda: array("q"))
    ack_at: array[float] = field(default_factory=lambda: array("d"))
    ack: array[int] = field(default_factory=lambda: array("q"))
    echo: array[int] = field(default_factory=lambda: array("q"))
    stamp: array[int] = field(default_factory=lambda: array("q"))
    stamped: bool = True
    syn_at: list[float] = field(default_factory=list)
    opened: bool | None = None
    _last: int | None = None
    _last_stamp: int | None = None

    def position(self, number: int) -> int:
        """A sequence number as a position in the data, without wrap-around."""
        self._last = number if self._last is None else self._last
        return _near(number, self._last)

    def time(self, stamp: int | None) -> int:
        """A timestamp of the receiver without wrap-around."""
        if stamp is None:
            self.stamped = False
            return 0
        self._last_stamp = stamp if self._last_stamp is None else _near(stamp, self._last_stamp)
        return self._last_stamp

    def sent(self, segment: Segment) -> None:
        """Adds a data segment."""
        start = self.position(segment.sequence)
        self.at.append(segment.at)
        self.start.append(start)
        self.end.append(start + segment.size)
        self.echo.append(self.time(segment.echo))
        self._last = max(self._last or start, start)

    def acknowledged(self, segment: Segment) -> None:
        """Adds an ACK."""
        self.ack_at.append(segment.at)
        self.ack.append(self.position(segment.acknowledged))
        self.stamp.append(self.time(segment.stamp))

    @property
    def upstream_s(self) -> float:
        """Time from an ACK until the data that it releases, in s; 0 without a handshake."""
        if len(self.syn_at) < _HANDSHAKE:
            return 0.0
        first, second, third = self.syn_at
        return max(third - second if self.opened else second - first, 0.0)

    @property
    def mss(self) -> int:
        """The most frequent payload of a data segment that is no super-packet, in bytes."""
        sizes = Counter(end - start for start, end in zip(self.start, self.end, strict=True))
        plain = [(count, size) for size, count in sizes.items() if size <= _MOST_MSS]
        return max(plain)[1] if plain else _USUAL_MSS


@dataclass(frozen=True)
class Course:
    """The course of a flow.

    Attributes:
        at: Time of each data segment, in s.
        flight: Data in flight after each data segment, in bytes.
        again: Whether the segment is a retransmit.
        ahead: First byte that was not sent before, after each data segment.
        known: First byte that the sender knew as not acknowledged, at each data segment.
        gaps: First byte, end and time of each range of data that was missing at first.
        rtts: Time and RTT of each sample, in s, in the order of time.
    """

    at: array[float]
    flight: array[int]
    again: bytearray
    ahead: array[int]
    known: array[int]
    gaps: list[tuple[int, int, float]]
    rtts: list[tuple[float, float]]


def course(flow: Flow) -> Course:
    """The course of a flow; retransmits have no RTT sample (Karn and Partridge 1987)."""
    # A tolerance of a tenth: the sender needs the ACK before it can send.
    lag = 0.0 if flow.stamped else 0.9 * flow.upstream_s
    flight, ahead, known_at, again = array("q"), array("q"), array("q"), bytearray()
    gaps: list[tuple[int, int, float]] = []
    acks: list[tuple[float, int]] = []
    stamps: list[int] = []
    for when, ack, stamp in zip(flow.ack_at, flow.ack, flow.stamp, strict=True):
        if not acks or ack > acks[-1][1]:
            acks.append((when, ack))
            stamps.append(stamp)
    rtts: list[tuple[float, float]] = []
    waiting: list[tuple[int, float]] = []
    highest = known = flow.start[0]
    upstream = flow.upstream_s
    seen = sampled = first_waiting = 0
    for when, start, end, echo in zip(flow.at, flow.start, flow.end, flow.echo, strict=True):
        while (
            seen < len(acks)
            and acks[seen][0] <= when - lag
            and (not flow.stamped or stamps[seen] <= echo)
        ):
            known = max(known, acks[seen][1])
            if flow.stamped:
                upstream = when - acks[seen][0]
            seen += 1
        while sampled < len(acks) and acks[sampled][0] <= when:
            at, ack = acks[sampled]
            newest = None
            while first_waiting < len(waiting) and waiting[first_waiting][0] <= ack:
                newest = waiting[first_waiting][1]
                first_waiting += 1
            if newest is not None:
                rtts.append((at, at - newest + upstream))
            sampled += 1
        if start > highest:
            gaps.append((highest, start, when))
        resent = start < highest
        again.append(resent)
        if resent:
            # An ACK of data behind this one may wait for it.
            first_waiting = len(waiting)
        else:
            waiting.append((end, when))
        highest = max(highest, end)
        ahead.append(highest)
        known_at.append(known)
        flight.append(max(highest - known, 0))
    return Course(flow.at, flight, again, ahead, known_at, gaps, rtts)


def flows(segments: Iterable[Segment]) -> tuple[list[Flow], int]:
    """The flows with data, each from the interface nearest to its sender, and the number of
    connections that were left out.

    A narrows capture has each packet at both ends of the path.
    """
    found: dict[tuple[int, Peer, Peer], Flow] = {}
    left_out: set[tuple[Peer, Peer]] = set()
    for one in segments:
        key, back = (one.interface, one.source, one.target), (one.interface, one.target, one.source)
        if key not in found:
            if len(found) >= _MOST_FLOWS:
                left_out.add((one.source, one.target))
                continue
            # Both directions of a connection are added together.
            found[key], found[back] = Flow(*key[1:]), Flow(*back[1:])
        _add(found[key], found[back], one)
    nearest: dict[tuple[Peer, Peer], Flow] = {}
    for flow in found.values():
        pair = (flow.source, flow.target)
        if not flow.at or not flow.ack:
            continue
        if pair not in nearest or _nearness(flow) > _nearness(nearest[pair]):
            nearest[pair] = flow
    return list(nearest.values()), len(left_out)


def _add(own: Flow, other: Flow, one: Segment) -> None:
    """Adds a segment to both directions of its connection; `own` is that of its data."""
    if one.flags & _SYN:
        _handshake(own, other, one)
        return
    if own.opened and len(own.syn_at) == _HANDSHAKE - 1:
        for flow in (own, other):
            flow.syn_at.append(one.at)
    if one.size:
        own.sent(one)
    if one.flags & _ACK and other.at:
        other.acknowledged(one)


def _handshake(own: Flow, other: Flow, one: Segment) -> None:
    """Adds a SYN or a SYN-ACK to both directions of a connection."""
    if one.flags & _ACK:
        if own.opened is False and len(own.syn_at) == 1:
            for flow in (own, other):
                flow.syn_at.append(one.at)
        return
    # The time of a repeated SYN counts.
    for flow, opened in ((own, True), (other, False)):
        flow.opened, flow.syn_at = opened, [one.at]


def _nearness(flow: Flow) -> tuple[float, int]:
    """The time from data of the handshake until their ACK, in s, and the number of data segments:
    both are larger near the sender.
    """
    downstream = -math.inf
    if len(flow.syn_at) == _HANDSHAKE:
        first, second, third = flow.syn_at
        downstream = second - first if flow.opened else third - second
    return downstream, len(flow.at)
