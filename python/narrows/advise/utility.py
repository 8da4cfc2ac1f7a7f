"""What is good: the utility that candidates are ranked by, the same that the validation judges by.

Each thing that somebody cares for is a score between 0 and 1, and the utility is the geometric mean
of those scores: 5 % more utility is 5 % more of one thing where one is cared for, or 5 % more of
each. Weights are equal.

| care | score |
|---|---|
| bulk | of a sender: √(a · b), a the goodput alone over the rate, b the goodput beside one CUBIC flow over half the rate, at most 1. Of everybody else: the goodput of all flows over the rate |
| calls | 1 / (1 + w / 100 ms), w the 95th percentile of a ping's round trip while flows send, beyond the path's own; ITU-T G.114 calls 150 ms one way good, and propagation has its part |
| pages | i / t, t the mean time of a page, i what it would take on an empty path: its bytes at the rate and eight round trips |
| fairness | what a CUBIC flow gets beside it over what it gets beside another CUBIC flow, at most 1 |
| retransmissions | 1 − r, r the share of bytes that are sent again: what arrives of what was paid for |
"""  # noqa: E501 - a table

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

LATE_MS = 100.0
"""Waiting that halves the score of calls."""

LEAST = 1e-3
"""No score is less: nothing is infinitely bad."""

PAGE_BYTES = 2.6e6
"""A page of the workload `web`."""

PAGE_ROUNDS = 8
"""Round trips that a page takes on an empty path: look-up, handshakes, its first object, and slow
start.
"""

Figures = Mapping[str, float | None]
"""What was seen of a candidate, by name; None where it was not."""


def scores(
    figures: Figures, cares: Sequence[str], *, rate_mbit: float, rtt_ms: float
) -> dict[str, float]:
    """A score for each care.

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
