"""Compares two results of `narrows latency`.

The comparison covers the percentiles of the response time and of the RTT. The response time counts
from the scheduled send time, so it includes the delay of late requests and shows a host that
stalls. The verdict about the slower host uses the response time. Losses are reported but not
compared.

Responses of one run are not independent, and two runs with the same hosts differ. A result has no
time series from which the variation between runs could be estimated. Two percentiles therefore
count as different only under two conditions: their intervals do not overlap, and they differ by
more than `LEAST_SHARE`. For these intervals, a run counts as at most `BLOCKS` independent
responses, or more for percentiles above p99. Slow responses within `APART_S` of each other count as
one, since an interruption delays many responses (declustering by runs, as for the extremal index).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from narrows.compare.model import LatencyDifferenceJson
from narrows.latency.model import Clock, LatencyJson, Percentile, TimesJson
from narrows.latency.result import PERCENTILES, cumulative
from narrows.measure.result import short
from narrows.render.html import fragment

LEAST_SHARE = 0.10
"""Minimum relative difference of two percentiles that count as different. Percentiles of the same
hosts differ by less between runs.
"""

BLOCKS = 1000
"""Maximum number of independent responses that a run counts as, for percentiles up to p99."""

APART_S = 0.1
"""Slow responses that are more than this time apart, in s, count as different interruptions."""

_Z = 2.58
"""Half-width of the interval with 99 % of a normal distribution, in standard deviations."""


CLOCKS: dict[Clock, str] = {"response_us": "response time", "rtt_us": "RTT"}
"""The compared times by their keys in a result. The headline uses the first of these times that
both results have.
"""


@dataclass(frozen=True)
class Difference:
    """One percentile of two results, in µs.

    Attributes:
        clock: The compared time, a key of `CLOCKS`.
        key: Key of the percentile.
        before: Value in the first result.
        after: Value in the second result.
        sure: Whether the two values count as different.
    """

    clock: Clock
    key: Percentile
    before: float
    after: float
    sure: bool

    @property
    def verdict(self) -> str:
        """`faster`, `slower` or `no difference seen`."""
        return (
            "no difference seen"
            if not self.sure
            else "slower"
            if self.after > self.before
            else "faster"
        )

    def json(self) -> LatencyDifferenceJson:
        """The JSON object."""
        ratio = self.after / self.before if self.before else None
        return {
            "before_us": short(self.before),
            "after_us": short(self.after),
            "ratio": short(ratio),
            "verdict": self.verdict,
            "clock": self.clock,
        }


class Comparison(list[Difference]):
    """The differences of all percentiles that two results have."""

    def _repr_html_(self) -> str:
        """The tables of `narrows compare`, for notebooks."""
        from narrows.compare.render import latency_table  # noqa: PLC0415 - it uses this module

        return fragment([latency_table(of, ("before", "after")) for of in by_clock(self)])


def differences(before: LatencyJson, after: LatencyJson) -> Comparison:
    """The differences of all percentiles that both results have, in the order of `CLOCKS`."""
    out = Comparison()
    for clock in CLOCKS:
        a_took, b_took = before.get(clock), after.get(clock)
        if a_took is None or b_took is None:
            continue
        ranks = [_Ranks.of(took, one) for took, one in ((a_took, before), (b_took, after))]
        for key in PERCENTILES:
            a, b = a_took.get(key), b_took.get(key)
            if a is None or b is None:
                continue
            share = float(key[1:].replace("_", ".")) / 100
            (a_low, a_high), (b_low, b_high) = (of.interval(share) for of in ranks)
            apart = b_low > a_high or a_low > b_high
            out.append(
                Difference(clock, key, a, b, apart and max(a, b) > (1 + LEAST_SHARE) * min(a, b))
            )
    return out


def by_clock(found: Sequence[Difference]) -> list[list[Difference]]:
    """The differences in one list for each compared time, in the order of `CLOCKS`."""
    return [each for clock in CLOCKS if (each := [d for d in found if d.clock == clock])]


@dataclass(frozen=True)
class _Ranks:
    """The order statistics of one time of a result.

    Attributes:
        values: Ascending values in µs.
        up_to: Share of the responses that take at most as long, for each value.
        n: Number of responses.
        together: Mean number of slow responses per interruption.
    """

    values: list[float]
    up_to: list[float]
    n: int
    together: float

    @staticmethod
    def of(took: TimesJson, one: LatencyJson) -> _Ranks:
        """The order statistics of the time `took` of the result `one`."""
        values, beyond = cumulative(took["histogram_ns"])
        return _Ranks(values, [1 - share for share in beyond], took["n"], _together(one))

    def interval(self, share: float) -> tuple[float, float]:
        """The interval of a percentile: order statistics with binomially distributed ranks.

        The largest value of a run is no upper limit of a percentile. If the upper rank exceeds the
        number of responses, the interval has no upper end. An interval without an upper end occurs
        if a few interruptions caused all slow responses.
        """
        # A high percentile needs more responses than BLOCKS.
        effective = max(1, min(self.n, max(BLOCKS, 10 / (1 - share)))) / self.together
        off = _Z * math.sqrt(share * (1 - share) / effective)

        def at(wanted: float) -> float:
            if wanted <= 0:
                return 0.0
            place = bisect_left(self.up_to, wanted)
            return self.values[place] if place < len(self.values) else math.inf

        return at(share - off), at(share + off)


def _together(one: LatencyJson) -> float:
    """Mean number of slow responses per interruption.

    >>> _together({"slow": {"kept": [{"t_s": 1.0}, {"t_s": 1.01}, {"t_s": 1.02}, {"t_s": 5.0}]}})
    2.0
    """
    times = sorted(float(slow["t_s"]) for slow in one["slow"]["kept"])
    starts = 1 + sum(later - sooner > APART_S for sooner, later in pairwise(times))
    return max(1.0, len(times) / starts)
