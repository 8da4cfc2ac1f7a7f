"""Detects cross traffic in a measurement, per direction.

Cross traffic that does not reduce its rate uses a part of the link, and a load shows only the rest.
The module uses four indicators:

- Idle pings that wait longer than a frame or two show cross traffic.
- The queue drains after the load. One RTT after the end of the load, no more of its data arrive at
  the queue. Without other packets, the delay of later pings then falls by 1 ms per ms. If cross
  traffic uses the share s of the link, the delay falls by 1 - s ms per ms. The error of s is the
  serialization delay of a frame, plus the noise of pings, divided by the observed time. It must be
  at most half of `SOME`. This indicator can detect cross traffic at that moment, but cannot exclude
  any.
- Idle pings that never wait exclude cross traffic. Evenly paced full frames that use the share s of
  a link delay the share s of all pings by up to a frame time. Let R be the rest of the link's rate.
  Then the share s (1 - w / (1 - s)) of the pings waits longer than w frame times at the rate R.
- A load with a rate as steady as in simulations excludes cross traffic that starts or stops,
  because this would change the rate.

Only the last two together exclude cross traffic: none during the idle phase, and no change during
the load. Cross traffic that pauses whenever the measurement does not load the path is missed. The
number of idle pings determines how much traffic is detected (`noticed`). The longest idle time
determines how short its pauses must be to be detected. If no indicator applies, the result for
cross traffic is "unknown".

Pings of other tools have equal intervals. Such pings miss evenly paced packets if a whole number of
packets arrives per ping interval and every ping arrives between two packets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from narrows.measure.result import Direction, Measurement
from narrows.path_model.features import FRAME, Features
from narrows.render.words import listed

LEAST_MS, SHARE = 1.0, 0.05
"""Idle pings show cross traffic if more than the share `SHARE` of them waits longer than `LEAST_MS`
plus the time of two frames."""

QUIET, TAIL = 0.19, 0.01
"""Without cross traffic, idle pings wait less than `QUIET` frame times, and at most the share
`TAIL` of them waits longer."""

DRAIN_S = 1.0
"""Maximum time of the drain after a load, in s."""

SOME = 0.2
"""Cross traffic is detected while a queue drains if it uses more than this share of the link."""

EXAMPLE = 0.2
"""Share of the link that cross traffic is assumed to use in the statement about the traffic that
would have been detected."""

PAUSES = 3.0
"""Length of an uninterrupted watch divided by a mean pause. With exponentially distributed pauses,
a pause outlasts the watch with 5 % probability."""

ONCE = 0.05
"""Probability that cross traffic at the limit of detection is missed."""

NOISE = "idle RTTs vary so much that cross traffic would not show"


@dataclass(frozen=True)
class Others:
    """Whether cross traffic used the direction (None if unknown), and the reason or the limit."""

    seen: bool | None
    why: str = ""


@dataclass(frozen=True)
class Watch:
    """Pings of an idle path.

    Attributes:
        waits: Their RTTs beyond the minimum RTT, in ms.
        longest_s: The longest uninterrupted time covered by these pings, in s.
    """

    waits: tuple[float, ...]
    longest_s: float

    def waited(self, least_ms: float) -> int:
        """Number of pings whose RTT exceeded the minimum RTT by at least `least_ms`."""
        return sum(wait >= least_ms for wait in self.waits)


def idle_waits(measured: Measurement, base: float) -> list[float]:
    """RTTs of idle pings beyond the minimum RTT, in ms, sorted."""
    return sorted(rtt - base for rtt in measured.rtts(measured.spans("idle")) if rtt is not None)


def watch(measured: Measurement, base: float, least_ms: float) -> Watch:
    """The pings of idle phases, and those after a load once the queue has drained.

    The latter begin with the first ping that waits less than `least_ms`, at least `DRAIN_S` after
    the end of the load.
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
    """Least share of the time for which cross traffic must be active to be detected with 95 %
    probability, if it uses `share` of the link.

    `waited` is the number of pings, out of `pings`, that waited. Let m be the mean of a Poisson
    variable that is at most `waited` with 5 % probability. Cross traffic that delays at least m
    pings on average is detected.

    >>> round(noticed(0, 150), 3), round(noticed(0, 150, 0.5), 3)
    (0.131, 0.064)
    """
    mean = float(waited)
    while math.exp(-mean) * sum(mean**n / math.factorial(n) for n in range(waited + 1)) > ONCE:
        mean += 0.001
    return mean / pings / (share * (1 - QUIET / (1 - share)))


def in_idle_pings(waits: Sequence[float], rate_mbit: float | None) -> bool | None:
    """Whether idle pings show cross traffic; None without idle pings."""
    if not waits:
        return None
    least = LEAST_MS + (2 * FRAME * 8e-3 / rate_mbit if rate_mbit else 0.0)
    return sum(wait > least for wait in waits) > SHARE * len(waits)


def of_direction(
    measured: Measurement, direction: Direction, seen: Features, *, drains: bool, unsteady: str
) -> Others:
    """Cross traffic in one direction.

    Args:
        measured: The measurement.
        direction: The direction.
        seen: The features of its load.
        drains: Whether all packets share one queue, so that pings show how it drains.
        unsteady: Reason why the load does not exclude varying cross traffic; empty if it does.
    """
    least = QUIET * FRAME * 8e-3 / (seen.busy_mbit or seen.rate_mbit)
    idle = watch(measured, seen.idle_ms, least)
    if not idle.waits:
        return Others(None, "no ping was sent while the path was idle")
    quiet = idle.waited(least) <= TAIL * len(idle.waits)
    share = drained(measured, direction, seen) if drains else None
    if share is not None and share > SOME:
        kept = f"the queue drained as if cross traffic used {100 * share:.0f} % of the link"
        return Others(None, f"idle pings show none, but {kept}") if quiet else Others(True, kept)
    if not quiet or unsteady:
        return Others(None, unsteady if quiet else NOISE)
    at_random = any(train.at_random for train in measured.pings)
    return _excluded(idle, least, synchronized=not at_random)


def _excluded(idle: Watch, least_ms: float, *, synchronized: bool) -> Others:
    """The limits of the cross traffic that would have been detected, or "unknown" if there are too
    few idle pings. With `synchronized`, pings have equal intervals, and cross traffic synchronized
    with these may be missed.
    """
    part = noticed(idle.waited(least_ms), len(idle.waits))
    if part > 1:
        return Others(None, f"{len(idle.waits)} idle pings are too few to detect cross traffic")
    pauses = idle.longest_s / PAUSES
    needs = [
        f"it uses at least {100 * EXAMPLE:.0f} % of the bottleneck rate while it sends",
        f"it sends for at least {100 * part:.0f} % of the time",
        f"its pauses last at most {pauses:.1f} s on average",
        *(["it is not synchronized with the pings"] if synchronized else []),
    ]
    return Others(seen=False, why=f"cross traffic is detected if {listed(needs)}")


def drained(measured: Measurement, direction: Direction, seen: Features) -> float | None:
    """The share of the link that cross traffic uses while the queue drains after a load; None if
    the pings do not show it.
    """
    end = max(
        f.to_s for f in measured.flows if f.direction == direction and f.from_s < seen.span[1]
    )
    if any(f.from_s < end + DRAIN_S and f.to_s > end for f in measured.flows):
        return None
    stopped = end
    if direction == "up":
        # This host sends buffered data until the far host has ended the flows.
        stopped = next((begin for begin, _ in measured.spans("recovery") if begin >= end), end)
    # Data in flight reach the queue within one RTT after `stopped`.
    begin = stopped + seen.idle_ms / 1e3
    frame_ms = FRAME * 8e-3 / (seen.busy_mbit or seen.rate_mbit)
    found: list[tuple[float, float]] = []
    for train in measured.pings:
        known = [(t, rtt - seen.idle_ms) for t, rtt in train.rtts() if rtt is not None]
        after = [(t, wait) for t, wait in known if begin <= t < end + DRAIN_S]
        waiting = list(takewhile(lambda ping: ping[1] > seen.noise_ms[2], after))
        if len(waiting) > 1:
            (t0, w0), (t1, w1) = waiting[0], waiting[-1]
            found.append((1000 * (t1 - t0), w1 - w0))
    gap_ms, fell_ms = max(found, default=(0.0, 0.0))
    # A frame or a late ping at one end of the observed time changes the share by this quotient.
    if gap_ms <= 0 or (frame_ms + seen.noise_ms[2]) / gap_ms > SOME / 2:
        return None
    return max(0.0, 1 + fell_ms / gap_ms)
