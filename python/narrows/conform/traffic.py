"""The traffic of a path, from the capture file of `narrows shell`, and quantities of it.

The flows of a pair of commands are visible only on the path. Their datagrams may be encrypted, and
the state of their stacks is inside the programs. These quantities use arrivals at the receiving
host, departures at the sending host, and the queue of the bottleneck.

Source of the format: draft-ietf-opsawg-pcapng (blocks of types 1 and 6).
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narrows.json_object import JsonObject

PathMetric = Callable[["Traffic"], "float | None"]
"""A quantity of the traffic; None if it was not measured."""

_BLOCK = struct.Struct("<II")
_PACKET = struct.Struct("<IIIII")
_ENHANCED_PACKET = 6
_SENDING, _RECEIVING = 0, 1
"""The interfaces of a capture of `narrows shell`: host far and host near. The server of the pair,
which sends the data, runs on far.
"""
_OUTBOUND, _INBOUND = 2, 1
_IPV4 = 4
_TCP, _UDP = 6, 17
_UDP_HEADER = 8
_COMMENT, _FLAGS = 1, 2
_READ_BYTES = 1 << 24


@dataclass(kw_only=True)
class Flow:
    """The data of one flow, from the server to the client.

    Attributes:
        times: Times of arrival in s, ascending.
        totals: Bytes of payload that have arrived, at each of `times`.
        sent: Bytes of payload that left the sending host.
    """

    times: list[float] = field(default_factory=list)
    totals: list[int] = field(default_factory=list)
    sent: int = 0

    def between(self, begin_s: float, end_s: float) -> int:
        """The bytes that arrived from `begin_s` on, before `end_s`."""
        before, until = bisect_left(self.times, begin_s), bisect_left(self.times, end_s)
        return (self.totals[until - 1] if until else 0) - (self.totals[before - 1] if before else 0)


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """The traffic of one run.

    Attributes:
        flows: The flows by name, such as `target0` or `rival0`.
        begin_s: Arrival of the first data of the pair.
        warmup_s: Time after `begin_s` that steady-state quantities exclude.
        duration_s: Time after `begin_s` at which they end.
        queue_ms: Percentiles of the queueing delay at the bottleneck, by name.
        marks: Packets that its queue marked.
        trusted: Whether the self-check of the run passed.
        why: Its reasons if it did not.
    """

    flows: dict[str, Flow]
    begin_s: float
    warmup_s: float
    duration_s: float
    queue_ms: dict[str, float | None]
    marks: int
    trusted: bool = True
    why: str = ""

    def steady(self, prefix: str = "") -> float:
        """Bytes of flows whose name begins with `prefix` after the warm-up."""
        begin, end = self.begin_s + self.warmup_s, self.begin_s + self.duration_s
        return sum(
            flow.between(begin, end) for name, flow in self.flows.items() if name.startswith(prefix)
        )

    def pair(self) -> list[Flow]:
        """The flows of the pair."""
        return [flow for name, flow in self.flows.items() if not name.startswith("rival")]

    def ended(self, client: str = "") -> str:
        """The reason if a flow is missing, or the pair with this client stopped early; otherwise
        empty.
        """
        for name, flow in self.flows.items():
            if not flow.times:
                return f"no data of the flow {name} arrived"
        last = max(flow.times[-1] for flow in self.pair()) - self.begin_s
        if last < self.duration_s - 1.0:
            fix = (
                "--client must transfer data until {seconds} have passed"
                if "{seconds}" in client
                else "use {seconds} in --client"
            )
            return (
                f"the transfer ended after {last:.1f} s, but the check needs "
                f"{self.duration_s:g} s; {fix}"
            )
        return ""


def read(
    capture: Path,
    metrics: JsonObject,
    ports: dict[int, str],
    *,
    warmup_s: float,
    duration_s: float,
) -> Traffic:
    """The traffic in a capture file and in the metrics of `narrows shell`.

    Args:
        capture: The capture file.
        metrics: The JSON of the shell.
        ports: The names of flows by the port of their server; 0 has the name of flows with another
            port.
        warmup_s: Time that steady-state quantities exclude.
        duration_s: Duration of the check.
    """
    flows = {name: Flow() for name in ports.values()}
    for interface, time_s, port, size in _data(capture):
        name = ports.get(port, ports.get(0))
        if name is None:
            continue
        flow = flows[name]
        if interface == _SENDING:
            flow.sent += size
        else:
            flow.times.append(time_s)
            flow.totals.append((flow.totals[-1] if flow.totals else 0) + size)
    down = next(queue for queue in metrics["queues"] if queue["direction"] == "down")
    check = metrics["instruments"]
    begins = [flow.times[0] for name, flow in flows.items() if flow.times and name[:5] != "rival"]
    return Traffic(
        flows=flows,
        begin_s=min(begins, default=0.0),
        warmup_s=warmup_s,
        duration_s=duration_s,
        queue_ms=dict(down["delay_ms"]),
        marks=down["marks"],
        trusted=check["trusted"],
        why=", ".join(check["why"]),
    )


def _data(capture: Path) -> Iterator[tuple[int, float, int, int]]:
    """Packets with data that leave the host far or arrive at the host near.

    Yields:
        Interface, time in s, port of the sender, and bytes of payload.
    """
    directions = {_SENDING: _OUTBOUND, _RECEIVING: _INBOUND}
    for body in _packets(capture):
        interface, high, low, kept, length = _PACKET.unpack_from(body)
        head = body[20 : 20 + kept]
        if interface not in directions or _flags(body, kept) != directions[interface]:
            continue
        port, size = _payload(head, length)
        if size > 0:
            yield interface, ((high << 32) + low) * 1e-9, port, size


def _packets(capture: Path) -> Iterator[bytes]:
    """The bodies of the packet blocks."""
    with capture.open("rb") as file:
        rest = b""
        while part := file.read(_READ_BYTES):
            data, at = rest + part, 0
            while len(data) - at >= _BLOCK.size:
                kind, size = _BLOCK.unpack_from(data, at)
                if at + size > len(data):
                    break
                if kind == _ENHANCED_PACKET:
                    yield data[at + _BLOCK.size : at + size - 4]
                at += max(size, 12)
            rest = data[at:]


def _flags(body: bytes, kept: int) -> int:
    """The direction of a packet, from its options."""
    at = 20 + (kept + 3) // 4 * 4
    while at + 4 <= len(body):
        code, size = struct.unpack_from("<HH", body, at)
        if code == _FLAGS:
            return int.from_bytes(body[at + 4 : at + 8], "little")
        if code == 0:
            break
        at += 4 + (size + 3) // 4 * 4
    return 0


def _payload(head: bytes, length: int) -> tuple[int, int]:
    """The source port of a packet with IPv4 and TCP or UDP, and its bytes of payload."""
    if not head or head[0] >> 4 != _IPV4:
        return 0, 0
    ip = 4 * (head[0] & 15)
    protocol, transport = head[9], head[ip:]
    if protocol == _UDP:
        return int.from_bytes(transport[:2], "big"), length - ip - _UDP_HEADER
    if protocol == _TCP:
        return int.from_bytes(transport[:2], "big"), length - ip - 4 * (transport[12] >> 4)
    return 0, 0


def utilization(rate_mbit: float) -> PathMetric:
    """The payload of all flows after the warm-up, in percent of `rate_mbit`."""
    return lambda traffic: (
        100.0 * traffic.steady() * 8e-6 / (traffic.duration_s - traffic.warmup_s) / rate_mbit
    )


def share(prefix: str) -> PathMetric:
    """The share of the flows whose name begins with `prefix` in the payload of all, in percent."""

    def metric(traffic: Traffic) -> float | None:
        total = traffic.steady()
        return 100.0 * traffic.steady(prefix) / total if total else None

    return metric


def between(begin_s: float, end_s: float, rate_mbit: float) -> PathMetric:
    """The payload of the pair between two times after its first data, in percent of `rate_mbit`."""

    def metric(traffic: Traffic) -> float | None:
        begin, end = traffic.begin_s + begin_s, traffic.begin_s + end_s
        got = sum(flow.between(begin, end) for flow in traffic.pair())
        return 100.0 * got * 8e-6 / (end_s - begin_s) / rate_mbit

    return metric


def rtt_p95(rtt_ms: float) -> PathMetric:
    """The base RTT and the 95th percentile of the queueing delay, in ms."""

    def metric(traffic: Traffic) -> float | None:
        delay = traffic.queue_ms["p95"]
        return None if delay is None else rtt_ms + delay

    return metric


def queue_p50(traffic: Traffic) -> float | None:
    """The median queueing delay at the bottleneck, in ms."""
    return traffic.queue_ms["p50"]


def lost(traffic: Traffic) -> float | None:
    """The part of the payload of the pair that did not arrive, in percent."""
    sent = sum(flow.sent for flow in traffic.pair())
    arrived = sum(flow.totals[-1] for flow in traffic.pair() if flow.totals)
    return 100.0 * (1.0 - arrived / sent) if sent else None


def marked_lost(traffic: Traffic) -> float | None:
    """As `lost`; None if the queue marked no packet."""
    return lost(traffic) if traffic.marks > 0 else None
