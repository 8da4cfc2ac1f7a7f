"""Computes the statistics of a load from which a path model is inferred.

The same code handles real and simulated measurements and uses no knowledge of the path beyond the
measurement. Delays are RTTs of pings and flows minus the idle RTT. Rates count whole frames with
their headers, as the rates of links and the sizes of buffers do.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from narrows.measure.result import Direction, Flow, Measurement, Spread

SETTLE = 0.2
"""Part of a load, from its start, that does not belong to the steady state."""

HEADERS = 66
"""Headers of a frame, in bytes: Ethernet 14, IPv4 20, TCP 20 and timestamps 12."""

FRAME = 1514
PING_BYTES = 106
"""Frame size of a ping with 64 bytes of payload, in bytes."""

LEAST_PINGS = 20
ROW_BYTES = 115
"""Bytes on the link for each sample of a flow that the far host reports: 16 numbers, separators and
the row's share of headers. Twelve flows with a row every 100 ms use 0.11 Mbit/s."""

MOST_PACKETS, LEAST_LOAD_S = 500_000, 2.0
"""A longer load is shortened to this number of packets, but not to less than `LEAST_LOAD_S`
seconds. The search simulates the load about sixty times."""

BUSY_S, LEAST_BUSY_S = 0.4, 1.0
"""Length of a window for which a rate is computed, and minimum total length of the windows in which
the queue never empties, in s."""

WINDOW_S = 1.0
"""A flow's data in flight at a moment is at most its largest congestion window during this time
before it, in s."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Features:
    """Statistics of one direction under load.

    Attributes:
        span: Start and end of the part of the load that is used, in s.
        idle_ms: The idle RTT, in ms.
        rate_mbit: Rate of delivered frames of all flows, and of the far host's reports about them,
            in the steady state, in Mbit/s.
        top_mbit: Maximum rate over 0.2 s, in Mbit/s.
        busy_mbit: Median rate of the windows in which every ping found a queue, in Mbit/s; None if
            there were less than `LEAST_BUSY_S` of them.
        spread: Spread of the rates of the windows of `busy_mbit`: difference of the 90th and 10th
            percentile, divided by the median.
        wait_ms: Delay of pings in the steady state, in ms: quantiles 10, 50, 95.
        peak_ms: 99.5th percentile of the delay of pings, including the start of the load, in ms.
        late_peak_ms: 99.5th percentile of the delay of pings in the steady state, in ms.
        flow_wait_ms: Median delay of the flows by their smoothed RTT, in ms.
        again: Retransmits divided by delivered packets in the steady state.
        early_again: Retransmits divided by delivered packets in the whole load.
        burst_bytes: Maximum number of bytes delivered between any two times before the steady
            state, beyond those at the rate of the steady state.
        packets: Delivered packets in the steady state.
        pings_lost: Share of unanswered pings in the steady state.
        pings: Number of pings sent in the steady state.
        noise_ms: Delay that an idle path and late pings add to the median, the 95th percentile and
            the peak, in ms.
        swing: Spread of the rates of all windows of the steady state, with or without a queue,
            computed as `spread`.
        least_mbit: Lower limit of the rate of the link, in Mbit/s; None if the congestion windows
            of the flows are unknown. It leaves out one congestion window of each flow, because
            these data may have arrived earlier, behind a lost packet.
    """

    span: tuple[float, float]
    idle_ms: float
    rate_mbit: float
    top_mbit: float
    busy_mbit: float | None
    spread: float | None
    wait_ms: tuple[float, float, float]
    peak_ms: float
    late_peak_ms: float
    flow_wait_ms: float | None
    again: float | None
    early_again: float | None
    burst_bytes: float
    packets: float
    pings_lost: float
    pings: int
    noise_ms: tuple[float, float, float] = (0.0, 0.0, 0.0)
    swing: float | None = None
    least_mbit: float | None = None


def idle_ms(measured: Measurement) -> float | None:
    """The RTT of an empty path, in ms: the minimum over the pings of the idle phase, or, without
    these, over all pings and flows.
    """
    idle = Spread.of(measured.rtts(measured.spans("idle")))
    if idle.min is not None:
        return idle.min
    every = [rtt for train in measured.pings for _, rtt in train.rtts()]
    flows = [rtt for flow in measured.flows for rtt in flow.columns.get("min_rtt_ms", [])]
    return Spread.of([*every, *flows]).min


def longest(measured: Measurement, direction: Direction) -> tuple[float, float] | None:
    """Start and end, in s, of the longest load of this direction, shortened to a length that can be
    simulated often.
    """
    spans = measured.loaded(direction)
    if not spans:
        return None
    begin, end = max(spans, key=lambda span: span[1] - span[0])
    rate = measured.rate_mbit(direction) or 0.0
    most = MOST_PACKETS * FRAME * 8e-6 / rate if rate > 0 else math.inf
    return begin, min(end, begin + max(LEAST_LOAD_S, most))


def features_of(measured: Measurement, direction: Direction) -> Features | None:
    """The statistics of the load of this direction; None without a load or with too few pings."""
    span = longest(measured, direction)
    base = idle_ms(measured)
    if span is None or base is None:
        return None
    begin, end = span
    steady = begin + SETTLE * (end - begin)
    flows = [
        f
        for f in measured.flows
        if f.direction == direction and f.protocol == "tcp" and begin <= f.from_s < end
    ]
    total = _sum([_frames(f) for f in flows], begin, end)
    waits = [(t, rtt) for p in measured.pings for t, rtt in p.rtts() if begin <= t < end]
    known = [(t, max(0.0, rtt - base)) for t, rtt in waits if rtt is not None]
    late = [(t, w) for t, w in known if t >= steady]
    if len(total) < 3 or len(late) < LEAST_PINGS:  # noqa: PLR2004 - a start, a middle, an end
        return None
    # Data after the last sample is unknown.
    last = total[-1][0]
    passed = _at(total, last) - _at(total, steady)
    if passed <= 0 or last <= steady:
        return None
    own = _own_mbit(measured, direction, flows, steady, last)
    rate = passed * 8e-6 / (last - steady) + own
    ordered = sorted(w for _, w in late)
    asked = [rtt for t, rtt in waits if t >= steady]
    rtts = [
        rtt - base
        for f in flows
        for t, rtt in zip(f.columns.get("t_s", ()), f.columns.get("rtt_ms", ()), strict=False)
        if t is not None and rtt is not None and steady <= t <= end
    ]
    again, early = (_again(flows, start, last) for start in (steady, begin))
    packets = passed / FRAME
    return Features(
        (begin, end),
        base,
        rate,
        _top(total, 0.2),
        *_busy(total, late, last, own),
        (_q(ordered, 0.1), _q(ordered, 0.5), _q(ordered, 0.95)),
        _q(sorted(w for _, w in known), 0.995),
        _q(ordered, 0.995),
        _q(sorted(rtts), 0.5) if rtts else None,
        None if again is None else again / packets,
        None if early is None else early * FRAME / max(FRAME, total[-1][1] - _at(total, begin)),
        _burst(total, (rate - own) / 8e-6, steady),
        packets,
        sum(rtt is None for rtt in asked) / len(asked),
        len(asked),
        noise_ms(measured, base),
        _swing([rate + own for rate in _rates(total, steady, last)]),
        _least(total, flows, own),
    )


def noise_ms(measured: Measurement, base: float) -> tuple[float, float, float]:
    """The delay that an idle path and late pings add to the median, the 95th percentile and the
    peak, in ms.

    It is the RTT of idle pings minus the base RTT. The value for the peak is at least the largest
    lateness with which this host sent a ping. A host that sends pings late also receives their
    replies late, so that a peak of a few late pings does not show a queue.
    """
    idle = sorted(rtt - base for rtt in measured.rtts(measured.spans("idle")) if rtt is not None)
    late = (measured.json.get("own_error") or {}).get("lateness_ms")
    most = late.get("max") if isinstance(late, dict) else None
    most = float(most) if isinstance(most, int | float) and math.isfinite(most) else 0.0
    if not idle:
        return 0.0, 0.0, most
    return _q(idle, 0.5), _q(idle, 0.95), max(most, _q(idle, 0.995))


def _q(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _frames(flow: Flow) -> list[tuple[float, float]]:
    """Bytes of whole frames delivered until each sample time."""
    size = flow.segment_bytes
    return [(t, acked * (size + HEADERS) / size) for t, acked in flow.acked()]


def _at(points: Points, t: float) -> float:
    """The value at a time, interpolated between two samples: zero before the first sample, and the
    last value after the last.
    """
    at = bisect_right(points, t, key=lambda point: point[0])
    if at == 0:
        return 0.0
    if at == len(points):
        return points[-1][1]
    (t0, v0), (t1, v1) = points[at - 1], points[at]
    return v0 + (v1 - v0) * (t - t0) / (t1 - t0)


def _sum(flows: Sequence[Points], begin: float, end: float) -> list[tuple[float, float]]:
    """The sum of the flows' values, at the sample times of the flow with the most samples."""
    flows = [points for points in flows if points]
    if not flows:
        return []
    times = [t for t, _ in max(flows, key=len) if begin <= t <= end]
    total = [0.0] * len(times)
    for points in flows:
        # Sample times and points are in the order of time, so that one pass over each flow
        # suffices.
        at, last = 0, len(points)
        for i, t in enumerate(times):
            while at < last and points[at][0] <= t:
                at += 1
            if at == last:
                total[i] += points[-1][1]
            elif at:
                (t0, v0), (t1, v1) = points[at - 1], points[at]
                total[i] += v0 + (v1 - v0) * (t - t0) / (t1 - t0)
    return list(zip(times, total, strict=True))


def _again(flows: Sequence[Flow], begin: float, end: float) -> float | None:
    """The number of retransmits of these flows between `begin` and `end`; None if no flow has
    samples of retransmits.
    """
    out, known = 0.0, False
    for flow in flows:
        points = [
            (t, n)
            for t, n in zip(
                flow.columns.get("t_s", ()), flow.columns.get("retransmits", ()), strict=False
            )
            if t is not None and n is not None
        ]
        if points:
            known = True
            out += max(0.0, _at(points, end) - _at(points, begin))
    return out if known else None


def _top(total: Points, window_s: float) -> float:
    """The maximum rate in any window of `window_s`, in Mbit/s."""
    best = 0.0
    for t, v in total:
        if t + window_s > total[-1][0]:
            break
        best = max(best, _at(total, t + window_s) - v)
    return best * 8e-6 / window_s


def _least(total: Points, flows: Sequence[Flow], own_mbit: float) -> float | None:
    """The maximum, over the times in the first half of the load, of the rate from this time until
    the end, in Mbit/s. The congestion windows of the flows at this time are subtracted from the
    data.
    """
    windows = []
    for flow in flows:
        rows = zip(flow.columns.get("t_s", ()), flow.columns.get("cwnd_packets", ()), strict=False)
        known = sorted((t, cwnd * FRAME) for t, cwnd in rows if t is not None and cwnd is not None)
        if not known:
            return None
        windows.append(([t for t, _ in known], [size for _, size in known]))
    last, least = total[-1][0], 0.0
    for t, passed in total:
        if t > (total[0][0] + last) / 2:
            break
        recent = [
            sizes[bisect_left(times, t - WINDOW_S) : bisect_right(times, t)]
            for times, sizes in windows
        ]
        if all(recent):
            behind = sum(max(sizes) for sizes in recent)
            least = max(least, (total[-1][1] - passed - behind) * 8e-6 / (last - t))
    return least + own_mbit if least > 0 else None


def _own_mbit(
    measured: Measurement, direction: Direction, flows: Sequence[Flow], begin: float, end: float
) -> float:
    """The rate of the reports that the far host sends about the flows of a download while they run,
    in Mbit/s. It is zero for an upload and for servers of other tools.
    """
    if direction == "up" or (measured.json.get("peer") or {}).get("speaks") != "narrows":
        return 0.0
    rows = sum(t is not None and begin <= t < end for f in flows for t in f.columns.get("t_s", ()))
    return ROW_BYTES * rows * 8e-6 / (end - begin)


def _busy(
    total: Points, waits: Points, end: float, own_mbit: float
) -> tuple[float | None, float | None]:
    """The rate while a queue never emptied, in Mbit/s, and the spread of this rate.

    The rate is the median over windows in which every ping waited. Data behind a lost packet is
    acknowledged late, which is a dip and then a peak of the rate; neither changes the median.
    """
    ordered = sorted(w for _, w in waits)
    floor = max(1.0, 0.2 * _q(ordered, 0.5))
    windows = int((end - waits[0][0]) / BUSY_S)
    if windows < 1:
        return None, None
    least = [math.inf] * windows
    for t, wait in waits:
        at = min(windows - 1, int((t - waits[0][0]) / BUSY_S))
        least[at] = min(least[at], wait)
    begins = [waits[0][0] + i * BUSY_S for i, wait in enumerate(least) if floor <= wait < math.inf]
    if len(begins) * BUSY_S < LEAST_BUSY_S:
        return None, None
    rates = sorted(_window_mbit(total, b) + own_mbit for b in begins)
    return _q(rates, 0.5), _swing(rates)


def _window_mbit(total: Points, begin: float) -> float:
    """The rate in the window of `BUSY_S` that begins at this time, in Mbit/s."""
    return (_at(total, begin + BUSY_S) - _at(total, begin)) * 8e-6 / BUSY_S


def _rates(total: Points, begin: float, end: float) -> list[float]:
    """The rates of all windows between two times, in Mbit/s."""
    return [_window_mbit(total, begin + n * BUSY_S) for n in range(int((end - begin) / BUSY_S))]


def _swing(rates: Sequence[float]) -> float | None:
    """The 90th minus the 10th percentile of the rates, divided by their median."""
    ordered = sorted(rates)
    middle = _q(ordered, 0.5) if ordered else 0.0
    return (_q(ordered, 0.9) - _q(ordered, 0.1)) / middle if middle > 0 else None


def _burst(total: Points, bytes_per_s: float, until: float) -> float:
    """The maximum number of bytes between any two times until `until`, beyond those at
    `bytes_per_s`.
    """
    least, most = math.inf, 0.0
    for t, v in total:
        if t <= until:
            beyond = v - bytes_per_s * t
            least = min(least, beyond)
            most = max(most, beyond - least)
    return most
