"""Traffic of others on the path: what a measurement can say about it, per way.

Traffic that does not yield takes a part of the link, and all that a load shows is the rest. Four
signs are used:

- Idle pings that wait longer than a frame or two: somebody else is there.
- A queue that drains after the load: the wait of later pings falls by 1 ms in 1 ms if nothing else
  arrives, and by
  1 - s if others keep the share s of the link. It shows who is there at that moment, and excludes
  nobody.
- Idle pings that never wait. Evenly paced full frames that take the share s of a link delay the
  share s of all pings,
  by up to a frame time. With R left of the link, s (1 - w / (1 - s)) of the pings wait longer than
  w frame times at R.
- A load whose rate is as steady as in simulations of the path: others who come or go while it
  lasts would change it.

Others are excluded only by the last two together: nobody was there while the path was idle, and
nobody came or went while it was loaded. Traffic that comes and goes is still missed where it is
silent whenever the path is idle. How much it must send to be noticed follows from the number of
idle pings (`noticed`), how short its pauses must be from the longest time that the path was idle.
Where none of the signs applies, it cannot be told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from narrows.measure.result import Direction, Measurement
from narrows.path_model.features import FRAME, Signs

LEAST_MS, SHARE = 1.0, 0.05
"""Idle pings that took so much longer than the least, and the share of them that says there is
somebody else.
"""

QUIET, TAIL = 0.19, 0.01
"""Frame times that an idle ping may wait, and the share of idle pings that may wait longer, where
nobody else is there."""

BEFORE_S, DRAIN_S, PAIRS = 0.1, 1.0, 2
"""Flows may end so long before a load does; a queue drains for so long at most; and so many pairs
of pings must see it."""

SOME = 0.2
"""A share of others above it is seen while a queue drains."""

EXAMPLE = 0.2
"""The share of the link for which the answer says how long it would have to be taken to be
noticed.
"""

PAUSES = 3.0
"""Pauses of exponential length whose mean is so many times shorter than a watch outlast it once in
twenty times.
"""

ONCE = 0.05
"""Once in twenty times."""

NOISE = "idle round trips differ by so much that others' traffic would not show"


@dataclass(frozen=True)
class Others:
    """Whether others used the way, None where that cannot be told; and why, or what would show."""

    seen: bool | None
    why: str = ""


@dataclass(frozen=True)
class Watch:
    """Pings of an idle path.

    Attributes:
        waits: What they took beyond the least round trip, ms.
        longest_s: The longest time without a pause of the watch.
    """

    waits: tuple[float, ...]
    longest_s: float

    def waited(self, least_ms: float) -> int:
        """How many waited at least so long."""
        return sum(wait >= least_ms for wait in self.waits)


def idle_waits(measured: Measurement, base: float) -> list[float]:
    """What idle pings took beyond the least round trip, ms, in order."""
    return sorted(rtt - base for rtt in measured.rtts(measured.spans("idle")) if rtt is not None)


def watch(measured: Measurement, base: float, least_ms: float) -> Watch:
    """Idle pings, and those after a load once the queue has drained.

    That is a second after its end, and not before a ping waits less than `least_ms`.
    """
    sent = sorted(
        (t, rtt - base) for train in measured.pings for t, rtt in train.rtts() if rtt is not None
    )
    spans = [
        [(t, wait) for t, wait in sent if begin <= t < end] for begin, end in measured.spans("idle")
    ]
    for begin, end in measured.spans("recovery"):
        after = [(t, wait) for t, wait in sent if begin + DRAIN_S <= t < end]
        drained_at = next((at for at, (_, wait) in enumerate(after) if wait < least_ms), len(after))
        spans.append(after[drained_at:])
    longest = max((span[-1][0] - span[0][0] for span in spans if span), default=0.0)
    return Watch(tuple(wait for span in spans for _, wait in span), longest)


def noticed(waited: int, pings: int, share: float = EXAMPLE) -> float:
    """For how much of the time others must take this share of a link to be noticed, 19 times of 20.

    Of `pings`, `waited` waited: that is likely at least once in twenty times while others make
    fewer than m of them wait in the mean, m the mean of a Poisson number that is so small only once
    in twenty times.

    >>> round(noticed(0, 150), 3), round(noticed(0, 150, 0.5), 3)
    (0.131, 0.064)
    """
    mean = float(waited)
    while math.exp(-mean) * sum(mean**n / math.factorial(n) for n in range(waited + 1)) > ONCE:
        mean += 0.001
    return mean / pings / (share * (1 - QUIET / (1 - share)))


def in_idle_pings(waits: Sequence[float], rate_mbit: float | None) -> bool | None:
    """Whether idle pings show others; None where there were none."""
    if not waits:
        return None
    least = LEAST_MS + (2 * FRAME * 8e-3 / rate_mbit if rate_mbit else 0.0)
    return sum(wait > least for wait in waits) > SHARE * len(waits)


def of_way(
    measured: Measurement, way: Direction, seen: Signs, *, drains: bool, unsteady: str
) -> Others:
    """What can be said of one way.

    Args:
        measured: The measurement.
        way: The way.
        seen: What its load shows.
        drains: The queue is one for all packets, so that pings see it drain.
        unsteady: Why the load does not exclude others who come and go; empty where it does.
    """
    least = QUIET * FRAME * 8e-3 / (seen.busy_mbit or seen.rate_mbit)
    idle = watch(measured, seen.idle_ms, least)
    if not idle.waits:
        return Others(None, "no ping was sent while the path was idle")
    quiet = idle.waited(least) <= TAIL * len(idle.waits)
    share = drained(measured, way, seen) if drains else None
    if share is not None and share > SOME:
        kept = f"the queue drained as if others kept {100 * share:.0f} % of the link"
        return Others(None, f"idle pings show nobody, but {kept}") if quiet else Others(True, kept)
    if not quiet or unsteady:
        return Others(None, unsteady if quiet else NOISE)
    return _excluded(idle, least)


def _excluded(idle: Watch, least_ms: float) -> Others:
    """Nobody was noticed: who would have been."""
    part = noticed(idle.waited(least_ms), len(idle.waits))
    if part > 1:
        return Others(None, f"{len(idle.waits)} idle pings are too few to notice others' traffic")
    pauses = idle.longest_s / PAUSES
    return Others(
        seen=False,
        why=f"others that take {100 * EXAMPLE:.0f} % of the link for {100 * part:.0f} % of the "
        "time or "
        f"more, with pauses of {pauses:.1f} s or less in the mean, would show",
    )


def drained(measured: Measurement, way: Direction, seen: Signs) -> float | None:
    """The share of the link that others have while the queue drains after a load; None where that
    is not seen.
    """
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
    # What was on its way when the load ended still arrives: only the steepest ones are nothing but
    # the link.
    return None if len(slopes) < PAIRS else max(0.0, 1 + sorted(slopes)[PAIRS - 1])
