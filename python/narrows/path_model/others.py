"""Traffic of others on the path: what a measurement can say about it, per way.

Traffic that does not yield takes a part of the link, and all that a load shows is the rest. Three signs are used:

- Idle pings that wait longer than a frame or two: somebody else is there.
- Idle pings that never wait: evenly paced full frames that take the share s of a link of which R is left delay one ping
  in twenty by at least (1 - s) (s - 0.05) / s frame times at R. Where the 95th percentile of the idle pings is below
  0.19 frame times, no s between 0.07 and 0.8 is possible.
- A queue that drains after the load: the wait of later pings falls by 1 ms in 1 ms if nothing else arrives, and by
  1 - s if others keep the share s of the link.

Where none of them applies, it cannot be told.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from narrows.measure.result import Direction, Measurement
from narrows.path_model.features import FRAME, Signs

LEAST_MS, SHARE = 1.0, 0.05
"""Idle pings that took so much longer than the least, and the share of them that says there is somebody else."""

QUIET = 0.19
"""Frame times: see above."""

BEFORE_S, DRAIN_S, PAIRS = 0.1, 1.0, 2
"""Flows may end so long before a load does; a queue drains for so long at most; and so many pairs of pings must see
it."""

NONE, SOME = 0.1, 0.2
"""A share of others below the one is none, and above the other it is seen."""

NOISE = "idle round trips differ by so much that others' traffic would not show"


@dataclass(frozen=True)
class Others:
    """Whether others used the way: None where that cannot be told, with the reason."""

    seen: bool | None
    why: str = ""


def idle_waits(measured: Measurement, base: float) -> list[float]:
    """What idle pings took beyond the least round trip, ms, in order."""
    return sorted(rtt - base for rtt in measured.rtts(measured.spans("idle")) if rtt is not None)


def in_idle_pings(waits: list[float], rate_mbit: float | None) -> bool | None:
    """Whether idle pings show others; None where there were none."""
    if not waits:
        return None
    least = LEAST_MS + (2 * FRAME * 8e-3 / rate_mbit if rate_mbit else 0.0)
    return sum(wait > least for wait in waits) > SHARE * len(waits)


def of_way(measured: Measurement, way: Direction, seen: Signs, waits: list[float], *, drains: bool) -> Others:
    """What can be said of one way.

    Args:
        measured: The measurement.
        way: The way.
        seen: What its load shows.
        waits: Of idle pings.
        drains: The queue is one for all packets, so that pings see it drain.
    """
    if not waits:
        return Others(None, "no ping was sent while the path was idle")
    frame_ms = FRAME * 8e-3 / (seen.busy_mbit or seen.rate_mbit)
    if waits[min(len(waits) - 1, int(0.95 * len(waits)))] < QUIET * frame_ms:
        return Others(seen=False)
    share = drained(measured, way, seen) if drains else None
    if share is None or NONE <= share <= SOME:
        return Others(None, NOISE)
    if share > SOME:
        return Others(True, f"the queue drained as if others kept {100 * share:.0f} % of the link")
    return Others(seen=False)


def drained(measured: Measurement, way: Direction, seen: Signs) -> float | None:
    """The share of the link that others have while the queue drains after a load; None where that is not seen."""
    end = max(f.to_s for f in measured.flows if f.direction == way and f.from_s < seen.span[1])
    if any(f.from_s < end + DRAIN_S and f.to_s > end for f in measured.flows):
        return None
    slopes: list[float] = []
    for train in measured.pings:
        known = [(t, rtt - seen.idle_ms) for t, rtt in train.rtts() if rtt is not None]
        after = [(t, wait) for t, wait in known if end - BEFORE_S <= t < end + DRAIN_S]
        most = max((wait for _, wait in after), default=0.0)
        for (t0, w0), (t1, w1) in pairwise(after):
            gap_ms = 1000 * (t1 - t0)
            # A ping that does not wait came after the end of the drain.
            if gap_ms <= 0 or w1 <= seen.noise_ms[1] or most < (PAIRS + 0.2) * gap_ms:
                break
            slopes.append((w1 - w0) / gap_ms)
    # What was on its way when the load ended still arrives: only the steepest ones are nothing but the link.
    return None if len(slopes) < PAIRS else max(0.0, 1 + sorted(slopes)[PAIRS - 1])
