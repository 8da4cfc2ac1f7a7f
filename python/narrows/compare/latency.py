"""Compares two results of `narrows latency`.

The comparison covers the percentiles of the response time and of the RTT. The response time counts
from the scheduled send time, so it includes the delay of late requests and shows a host that
stalls. It decides which host is slower. Losses are reported but not compared.

Responses of one run are not independent, and two runs with the same hosts differ. A result has no
time series that would show by how much. Two percentiles therefore count as different only under two
conditions: their intervals do not overlap, and they differ by more than `LEAST_SHARE`. For these
intervals, a run counts as at most `BLOCKS` independent responses. Slow responses within `APART_S`
of each other count as one, since an interruption delays many responses (declustering
by runs, as for the extremal index).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from narrows.compare.model import LatencyDifferenceJson
from narrows.latency.model import Clock, LatencyJson, Percentile, TimesJson
from narrows.latency.render import named, span
from narrows.latency.result import PERCENTILES, cumulative
from narrows.measure.result import short
from narrows.render.html import fragment
from narrows.render.tables import Cell, Table
from narrows.render.words import listed, percent

LEAST_SHARE = 0.10
"""Relative difference of percentiles of the same hosts between runs."""

BLOCKS = 1000
"""Maximum number of independent responses that a run counts as."""

APART_S = 0.1
"""Time in s between slow responses of different interruptions."""

_Z = 2.58
"""Half-width of the interval with 99 % of a normal distribution, in standard deviations."""

CAUTION = (
    "Two percentiles differ if their 99 % intervals do not overlap and one is at least "
    f"{100 * LEAST_SHARE:g} % larger. "
    "Each interval covers only its own run: measure both hosts alternately, several times."
)
"""Definition and limits of the verdicts."""

_ALIKE = {
    "speaks": "protocol", "pace": "pace", "interval_us": "interval", "size_bytes": "size",
    "policy": "policy",
}  # fmt: skip
"""Parameters that both tests must share, and their names."""

CLOCKS: dict[Clock, str] = {"response_us": "response time", "rtt_us": "RTT"}
"""The compared times by their keys in a result. The headline uses the first one that both results
have.
"""

_IN_MS_FROM_US = 500
"""From this maximum on, in µs, compared times are printed in ms with two decimals."""


@dataclass(frozen=True)
class Difference:
    """One percentile of two results, in µs.

    Attributes:
        clock: The compared time, a key of `CLOCKS`.
        key: Key of the percentile.
        before: Value in the first result.
        after: Value in the second result.
        sure: Whether the two differ.
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
        return fragment([table(of, ("before", "after")) for of in by_clock(self)])


def differences(before: LatencyJson, after: LatencyJson) -> Comparison:
    """Every percentile that both results have, in the order of `CLOCKS`."""
    out = Comparison()
    for clock in CLOCKS:
        a_took, b_took = before.get(clock), after.get(clock)
        if a_took is None or b_took is None:
            continue
        for key in PERCENTILES:
            a, b = a_took.get(key), b_took.get(key)
            if a is None or b is None:
                continue
            share = float(key[1:].replace("_", ".")) / 100
            (a_low, a_high), (b_low, b_high) = (
                _interval(took, _together(one), share)
                for took, one in ((a_took, before), (b_took, after))
            )
            apart = b_low > a_high or a_low > b_high
            out.append(
                Difference(clock, key, a, b, apart and max(a, b) > (1 + LEAST_SHARE) * min(a, b))
            )
    return out


def by_clock(found: Sequence[Difference]) -> list[list[Difference]]:
    """The differences of each time, in the order of `CLOCKS`."""
    return [each for clock in CLOCKS if (each := [d for d in found if d.clock == clock])]


def _interval(took: TimesJson, together: float, share: float) -> tuple[float, float]:
    """The interval of a percentile: order statistics with binomially distributed ranks.

    The largest value of a run is no upper limit of a percentile. An interval whose rank exceeds the
    run has no upper end, as with few interruptions that delayed most responses.
    """
    values, beyond = cumulative(took["histogram_ns"])
    # A high percentile needs more responses than BLOCKS.
    effective = max(1, min(took["n"], max(BLOCKS, 10 / (1 - share)))) / together
    off = _Z * math.sqrt(share * (1 - share) / effective)

    def at(wanted: float) -> float:
        if wanted <= 0:
            return 0.0
        return next((v for v, b in zip(values, beyond, strict=True) if 1 - b >= wanted), math.inf)

    return at(share - off), at(share + off)


def _together(one: LatencyJson) -> float:
    """Mean number of slow responses per interruption.

    >>> _together({"slow": {"kept": [{"t_s": 1.0}, {"t_s": 1.01}, {"t_s": 1.02}, {"t_s": 5.0}]}})
    2.0
    """
    times = sorted(float(slow["t_s"]) for slow in one["slow"]["kept"])
    starts = 1 + sum(later - sooner > APART_S for sooner, later in pairwise(times))
    return max(1.0, len(times) / starts)


def sentences(
    found: Sequence[Difference],
    before: LatencyJson,
    after: LatencyJson,
    names: tuple[str, str],
) -> list[str]:
    """The verdict first, then details."""
    out: list[str] = []
    for each in by_clock(found):
        first = None if out else next((d for d in each if d.key == "p50"), each[0])
        if first is not None:
            out.append(_headline(first, names))
        told = [d for d in each if d is not first]
        rest = [
            f"{named(d.key)} {d.verdict} ({', '.join(_spans(d.before, d.after))})" for d in told
        ]
        clock = CLOCKS[each[0].clock]
        out += (
            [
                f"{clock[:1].upper()}{clock[1:]} of {names[1]} compared with {names[0]}: "
                f"{listed(rest)}."
            ]
            if rest
            else []
        )
    out = out or [f"{names[0]} and {names[1]} have no percentile in common: too few replies."]
    lost = [_lost(one) for one in (before, after)]
    if any(lost):
        out.append(
            f"Loss: {percent(lost[0])} in {names[0]}, {percent(lost[1])} in {names[1]}. "
            "The percentiles do not include lost requests."
        )
    return [*out, *warnings(before, after, names)]


def _headline(first: Difference, names: tuple[str, str]) -> str:
    """The slower result and the factor."""
    slow, fast = (names[1], names[0]) if first.after > first.before else (names[0], names[1])
    low, high = sorted((first.before, first.after))
    of = f"{CLOCKS[first.clock]} {named(first.key)}"
    if not first.sure:
        return (
            f"No difference seen between {names[0]} and {names[1]}: {of} "
            f"{' and '.join(_spans(first.before, first.after))}."
        )
    factor = f"{_times(high / low)} slower" if low else "slower"
    return f"{slow} responds {factor} than {fast}: {of} {' against '.join(_spans(high, low))}."


def warnings(before: LatencyJson, after: LatencyJson, names: tuple[str, str]) -> list[str]:
    """The differences between the two tests, in a sentence."""
    told = [
        f"{what} ({_trait(before, key)}, {_trait(after, key)})"
        for key, what in _ALIKE.items()
        if _trait(before, key) is not None
        and _trait(after, key) is not None
        and _trait(before, key) != _trait(after, key)
    ]
    if not told:
        return []
    return [
        f"{names[0]} and {names[1]} are different tests: {listed(told)}. The tests and not the "
        "hosts may cause a difference."
    ]


def _trait(one: LatencyJson, key: str) -> object:
    return (one.get("peer") or {}).get("speaks") if key == "speaks" else one.get(key)


def _lost(one: LatencyJson) -> float:
    return one["lost"] / one["sent"] if one["sent"] else 0.0


def _times(ratio: float) -> str:
    """A ratio in words.

    >>> _times(9.63), _times(1.25), _times(120.4)
    ('9.6 times', '1.2 times', '120 times')
    """
    return f"{ratio:.{0 if ratio >= 10 else 1}f} times"  # noqa: PLR2004


def _spans(*values: float) -> list[str]:
    """Times in a common unit: ms if the longest is at least `_IN_MS_FROM_US`, else µs.

    >>> _spans(770.0, 81.4), _spans(54.1, 45.3), _spans(9.2, 8.6)
    (['0.77 ms', '0.08 ms'], ['54.1 µs', '45.3 µs'], ['9.20 µs', '8.60 µs'])
    """
    if max(values) < _IN_MS_FROM_US:
        return [span(us) for us in values]
    return [f"{us / 1000:.2f} ms" for us in values]


def table(found: Sequence[Difference], names: tuple[str, str]) -> Table:
    """A row per percentile of one time."""
    rows = [
        [
            Cell(named(d.key)),
            Cell(d.verdict),
            Cell(f"{d.before:.1f}", f"{d.key}.before_us"),
            Cell(f"{d.after:.1f}", f"{d.key}.after_us"),
            Cell(f"{d.after / d.before:.2f}" if d.before else "–", f"{d.key}.ratio"),
        ]
        for d in found
    ]
    caption = CLOCKS[found[0].clock]
    head = (f"{names[0]} µs", f"{names[1]} µs", "ratio")
    return Table(f"{caption[:1].upper()}{caption[1:]}", (caption, "verdict"), head, rows)
