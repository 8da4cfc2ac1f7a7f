"""The quantities that checks measure in a run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narrows.runs.run import Run

Metric = Callable[["Run"], "float | None"]

FIRST_FLIGHT = 0.75
"""Time after the arrival of the first data, as a share of the RTT. Within this time, the whole
first flight arrives, and nothing of the second flight.
"""

DROP = 0.9
"""A congestion window below this share of its last maximum counts as reduced."""


def utilization(rate_mbit: float) -> Metric:
    """The goodput of all flows as a part of `rate_mbit`, in percent."""

    def metric(run: Run) -> float | None:
        values = [flow["goodput_mbit"] for flow in run.flows]
        if any(value is None for value in values):
            return None
        return 100.0 * sum(value or 0.0 for value in values) / rate_mbit

    return metric


def share(prefix: str) -> Metric:
    """The share of the flows whose name begins with `prefix` in the goodput of all, in percent."""

    def metric(run: Run) -> float | None:
        goodput = {flow["id"]: flow["goodput_mbit"] or 0.0 for flow in run.flows}
        total = sum(goodput.values())
        own = sum(value for name, value in goodput.items() if name.startswith(prefix))
        return 100.0 * own / total if total > 0 else None

    return metric


def retransmits(run: Run) -> float | None:
    """The share of retransmitted bytes of the first flow, in percent."""
    rate = run.flows[0]["run_retransmit_rate"]
    return None if rate is None else 100.0 * rate


def rtt_p95(run: Run) -> float | None:
    """The 95th percentile of the first flow's smoothed RTT, in ms."""
    rtt = run.flows[0]["rtt_ms"]
    return None if rtt is None else rtt["p95"]


def queue_p50(run: Run) -> float | None:
    """The median queueing delay at the bottleneck, in ms."""
    return run.json["queue"]["delay_ms"]["p50"]


def marked_retransmits(run: Run) -> float | None:
    """The share of retransmitted bytes of the first flow, in percent; None if the queue marked no
    packet (ECN).
    """
    return retransmits(run) if run.json["queue"]["marks"] > 0 else None


def _delivered(run: Run) -> list[tuple[float, float]]:
    """Times and delivered bytes of the first flow."""
    rows = run.columns("samples")
    first = run.flows[0]["id"]
    found = zip(rows["t_s"], rows["flow"], rows["delivered_bytes"], strict=True)
    return [(t, float(count)) for t, flow, count in found if flow == first]


def _at(rows: list[tuple[float, float]], t_s: float) -> float:
    """The bytes of the first flow that were delivered until a time."""
    return max((count for t, count in rows if t <= t_s), default=0.0)


def first_flight(rtt_s: float) -> Metric:
    """The delivered bytes of the first flight of the first flow."""

    def metric(run: Run) -> float | None:
        rows = _delivered(run)
        begin = next((t for t, count in rows if count > 0), None)
        return None if begin is None else _at(rows, begin + FIRST_FLIGHT * rtt_s)

    return metric


def growth(rtt_s: float, rounds: int = 3) -> Metric:
    """The largest ratio of the data of a round trip to those of the one before, among the first
    `rounds` round trips.
    """

    def metric(run: Run) -> float | None:
        rows = _delivered(run)
        begin = next((t for t, count in rows if count > 0), None)
        if begin is None:
            return None
        ends = [_at(rows, begin + (FIRST_FLIGHT + i) * rtt_s) for i in range(rounds)]
        flights = [ends[0], *(after - before for before, after in pairwise(ends))]
        return max(after / before for before, after in pairwise(flights)) if flights[0] else None

    return metric


def delivered_between(begin_s: float, end_s: float, rate_mbit: float) -> Metric:
    """The goodput of the first flow between two times, in percent of `rate_mbit`."""

    def metric(run: Run) -> float | None:
        rows = _delivered(run)
        if not rows:
            return None
        got = _at(rows, end_s) - _at(rows, begin_s)
        return 100.0 * got * 8e-6 / (end_s - begin_s) / rate_mbit

    return metric


def reduction(run: Run) -> float | None:
    """The median ratio of the congestion window after a reduction to that before, without the first
    10 s.

    None if the window is not known, or if it was reduced fewer than three times.
    """
    rows = run.columns("samples")
    first = run.flows[0]["id"]
    warmup_s = 10.0
    windows = [
        float(cwnd)
        for t, flow, cwnd in zip(rows["t_s"], rows["flow"], rows["cwnd_packets"], strict=True)
        if flow == first and t > warmup_s and cwnd
    ]
    ratios: list[float] = []
    peak = trough = 0.0
    for before, after in pairwise(windows):
        if after < before:
            trough = after
        elif after > before:
            if peak > 0 and 0 < trough < DROP * peak:
                ratios.append(trough / peak)
            peak, trough = after, 0.0
        if peak == 0.0:
            peak = before
    ordered = sorted(ratios)
    enough = 3
    return ordered[len(ordered) // 2] if len(ordered) >= enough else None
