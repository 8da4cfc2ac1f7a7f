"""The utility that ranks candidates. The validation of `narrows advise` uses the same utility.

Each goal has a score between 0 and 1. The utility is the geometric mean of these scores, with equal
weights.

- Bulk, for a sender: √(a · b), at most 1. The factor a is the goodput of a flow alone, divided by
the rate. The factor b is the goodput of a flow beside one CUBIC flow, divided by half the rate, at
most 1.
- Bulk, for all others: the goodput of all flows over the rate.
- Calls: 1 / (1 + w / 100 ms). w is the 95th percentile of the ping RTT while flows send, less the
base RTT. ITU-T G.114 rates a one-way delay of up to 150 ms as good, and propagation delay is a part
of this delay.
- Pages: i / t. The mean load time of a page is t. The load time of a page on an empty path is i:
the time to send its bytes at the rate, and eight round trips.
- Fairness: the goodput of a CUBIC flow beside the candidate, over its goodput beside another CUBIC
  flow, at most 1.
- Retransmissions: 1 − r. r is the share of retransmitted bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

LATE_MS = 100.0
"""Queueing delay that halves the score of calls, in ms."""

LEAST = 1e-3
"""Minimum of a score."""

PAGE_BYTES = 2.6e6
"""Size of a page of the workload `web`, in bytes."""

PAGE_ROUNDS = 8
"""Round trips of a page load on an empty path: look-up, handshakes, first object, and slow start.
"""

Figures = Mapping[str, float | None]
"""Metrics of a candidate by name; None if not simulated."""


def scores(
    figures: Figures, cares: Sequence[str], *, rate_mbit: float, rtt_ms: float
) -> dict[str, float]:
    """A score for each goal, between `LEAST` and 1.

    >>> seen = {"goodput_mbit": 9.0, "beside_mbit": 4.0, "p95_ms": 70.0, "again_pct": 1.0}
    >>> found = scores(seen, ["bulk", "calls", "retransmissions"], rate_mbit=10.0, rtt_ms=20.0)
    >>> {care: round(score, 2) for care, score in found.items()}
    {'bulk': 0.85, 'calls': 0.67, 'retransmissions': 0.99}
    """
    found = {care: _score(care, figures, rate_mbit, rtt_ms) for care in cares}
    return {care: min(1.0, max(LEAST, score)) for care, score in found.items()}


def _score(care: str, of: Figures, rate_mbit: float, rtt_ms: float) -> float:
    def figure(name: str) -> float:
        return of.get(name) or 0.0

    if care == "bulk":
        alone = figure("goodput_mbit") / rate_mbit
        return (
            math.sqrt(alone * min(1.0, 2 * figure("beside_mbit") / rate_mbit))
            if "beside_mbit" in of
            else alone
        )
    if care == "calls":
        p95 = of.get("p95_ms")
        return 0.0 if p95 is None else 1 / (1 + max(0.0, p95 - rtt_ms) / LATE_MS)
    if care == "pages":
        took = of.get("page_s")
        return (
            0.0
            if not took
            else (8e-6 * PAGE_BYTES / rate_mbit + PAGE_ROUNDS * rtt_ms / 1000) / took
        )
    if care == "fairness":
        fair = of.get("rival_fair_mbit")
        return 1.0 if not fair else figure("rival_mbit") / fair
    return 1 - figure("again_pct") / 100


def utility(figures: Figures, cares: Sequence[str], *, rate_mbit: float, rtt_ms: float) -> float:
    """The geometric mean of the scores.

    >>> utility({"again_pct": 4.0}, ["retransmissions"], rate_mbit=10.0, rtt_ms=20.0)
    0.96
    """
    found = scores(figures, cares, rate_mbit=rate_mbit, rtt_ms=rtt_ms)
    return math.prod(found.values()) ** (1 / len(found))
