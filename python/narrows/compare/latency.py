"""Two results of `narrows latency` side by side: how many times slower is one than the other?

Compared are the percentiles of two times: from when a question was due to its answer, which is the
headline of `narrows latency` and decides who responds slower, and from when it was sent to its
answer. The first has the delay of late questions, too, so that a host that stands still cannot hide
it. Lost answers are reported and not compared.

Answers of one run are not independent of each other, and two runs on the same hosts differ by what
the hosts do meanwhile; a result holds no time series that would show how much. A percentile is
therefore called different only where
both hold: the intervals of the two percentiles do not overlap, and they differ by more than
`LEAST_SHARE`. For these intervals a run counts as `BLOCKS` independent answers at most, and slow
answers that follow each other within `APART_S`
as one: one interruption of a host makes many answers slow (declustering by runs, as for the
extremal index).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from narrows.latency.result import PERCENTILES, cumulative, named, span
from narrows.measure.result import Json, short
from narrows.render.tables import Cell, Table
from narrows.render.words import listed, percent

LEAST_SHARE = 0.10
"""Percentiles of the same hosts differ by so much from run to run."""

BLOCKS = 1000
"""A run counts as this many independent answers at most."""

APART_S = 0.1
"""Slow answers with more time between them belong to different interruptions."""

_Z = 2.58
"""Standard deviations that hold 99 % of a normal distribution."""

CAUTION = (
    "A percentile differs where its 99 % intervals do not overlap and one is "
    f"{100 * LEAST_SHARE:g} % larger. "
    "The intervals cover one run each: measure both hosts in turn, more than once."
)
"""What a verdict does not cover."""

_ALIKE = {
    "speaks": "protocol", "pace": "pace", "interval_us": "interval", "size_bytes": "size",
    "policy": "policy",
}  # fmt: skip
"""What both have to have in common, and what it is called."""

CLOCKS = {"response_us": "due to answer", "rtt_us": "sent to answer (round trip)"}
"""The times that are compared, by their keys in a result; the first one that both have is the
headline's.
"""

_IN_MS_FROM_US = 500
"""Times of which the longest is at least this are compared in ms, with two digits after the
point.
"""


@dataclass(frozen=True)
class Difference:
    """One percentile of two results, µs.

    Attributes:
        clock: Of which time, one of `CLOCKS`.
        key: Its key.
        before: In the first.
        after: In the second.
        sure: The two are different.
    """

    clock: str
    key: str
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

    def json(self) -> Json:
        """For programs."""
        ratio = self.after / self.before if self.before else None
        return {
            "before_us": short(self.before),
            "after_us": short(self.after),
            "ratio": short(ratio),
            "verdict": self.verdict,
            "clock": self.clock,
        }


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """Every percentile that both results have, those of the headline's time first."""
    out = []
    for clock in CLOCKS:
        a_took, b_took = (one.get(clock) or {} for one in (before, after))
        for key in PERCENTILES:
            a, b = a_took.get(key), b_took.get(key)
            if a is None or b is None:
                continue
            share = float(key[1:].replace("_", ".")) / 100
            (a_low, a_high), (b_low, b_high) = (
                _interval(one, clock, share) for one in (before, after)
            )
            apart = b_low > a_high or a_low > b_high
            out.append(
                Difference(clock, key, a, b, apart and max(a, b) > (1 + LEAST_SHARE) * min(a, b))
            )
    return out


def by_clock(found: Sequence[Difference]) -> list[list[Difference]]:
    """The differences of each time, the headline's first."""
    return [each for clock in CLOCKS if (each := [d for d in found if d.clock == clock])]


def _interval(one: Mapping[str, Any], clock: str, share: float) -> tuple[float, float]:
    """Where the percentile lies: between order statistics, whose ranks are binomial."""
    took = one[clock]
    values, beyond = cumulative(took["histogram_ns"])
    # A rare percentile needs its own answers, which BLOCKS would take away.
    effective = max(1, min(took["n"], max(BLOCKS, 10 / (1 - share)))) / _together(one)
    off = _Z * math.sqrt(share * (1 - share) / effective)

    def at(wanted: float) -> float:
        return next((v for v, b in zip(values, beyond, strict=True) if 1 - b >= wanted), values[-1])

    return at(share - off), at(share + off)


def _together(one: Mapping[str, Any]) -> float:
    """How many slow answers an interruption makes, on average.

    >>> _together({"slow": {"kept": [{"t_s": 1.0}, {"t_s": 1.01}, {"t_s": 1.02}, {"t_s": 5.0}]}})
    2.0
    """
    times = sorted(float(slow["t_s"]) for slow in (one.get("slow") or {}).get("kept") or ())
    starts = 1 + sum(later - sooner > APART_S for sooner, later in pairwise(times))
    return max(1.0, len(times) / starts)


def sentences(
    found: Sequence[Difference],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    names: tuple[str, str],
) -> list[str]:
    """The verdict first, then what else is to be known."""
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
            [f"{clock[:1].upper()}{clock[1:]}, {names[1]} against {names[0]}: {listed(rest)}."]
            if rest
            else []
        )
    out = out or [f"{names[0]} and {names[1]} have no percentile in common: too few answers."]
    lost = [_lost(one) for one in (before, after)]
    if any(lost):
        out.append(
            f"Lost answers: {percent(lost[0])} in {names[0]}, {percent(lost[1])} in {names[1]}. "
            "Percentiles are of the answers that came."
        )
    return [*out, *warnings(before, after, names)]


def _headline(first: Difference, names: tuple[str, str]) -> str:
    """Who responds slower, and by what factor."""
    slow, fast = (names[1], names[0]) if first.after > first.before else (names[0], names[1])
    low, high = sorted((first.before, first.after))
    of = f"{CLOCKS[first.clock]}, {named(first.key)}"
    if not first.sure:
        return (
            f"No difference seen between {names[0]} and {names[1]}: {of} "
            f"{' and '.join(_spans(first.before, first.after))}."
        )
    factor = f"{_times(high / low)} slower" if low else "slower"
    return f"{slow} responds {factor} than {fast}: {of} {' against '.join(_spans(high, low))}."


def warnings(
    before: Mapping[str, Any], after: Mapping[str, Any], names: tuple[str, str]
) -> list[str]:
    """What differs between the two tests, in a sentence."""
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
        f"{names[0]} and {names[1]} are different tests: {listed(told)}. A difference between the "
        "results need not be "
        "a difference between the hosts."
    ]


def _trait(one: Mapping[str, Any], key: str) -> object:
    return (one.get("peer") or {}).get("speaks") if key == "speaks" else one.get(key)


def _lost(one: Mapping[str, Any]) -> float:
    return one["lost"] / one["sent"] if one["sent"] else 0.0


def _times(ratio: float) -> str:
    """A ratio in words.

    >>> _times(9.63), _times(1.25), _times(120.4)
    ('9.6 times', '1.2 times', '120 times')
    """
    return f"{ratio:.{0 if ratio >= 10 else 1}f} times"  # noqa: PLR2004


def _spans(*values: float) -> list[str]:
    """Times that are compared, in one unit: ms where the longest is about one or more, else µs.

    >>> _spans(770.0, 81.4), _spans(54.1, 45.3), _spans(9.2, 8.6)
    (['0.77 ms', '0.08 ms'], ['54.1 µs', '45.3 µs'], ['9.20 µs', '8.60 µs'])
    """
    if max(values) < _IN_MS_FROM_US:
        return [span(us) for us in values]
    return [f"{us / 1000:.2f} ms" for us in values]


def table(found: Sequence[Difference], names: tuple[str, str]) -> Table:
    """A row per percentile of one of the times."""
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
    return Table(f"{caption[:1].upper()}{caption[1:]}", ("", "verdict"), head, rows)
