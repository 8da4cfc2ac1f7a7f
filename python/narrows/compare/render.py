"""Renders comparisons as sentences and tables: of measurements, of results of `narrows latency`,
and of replications.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from narrows.compare import latency, measurements, replications
from narrows.inference import Interval
from narrows.latency.model import LatencyJson
from narrows.latency.render import named, span
from narrows.measure.result import DIRECTIONS, Measurement
from narrows.render.replications import cell
from narrows.render.tables import Cell, Table
from narrows.render.words import fine, listed, percent, with_half

_NOTHING = 1e-3
"""Ends of an interval with a smaller absolute value, in Mbit/s or ms, are printed as zero."""

_IN_MS_FROM_US = 500
"""If the longest of the compared times is at least this long, in µs, all are printed in ms with two
decimals.
"""

LATENCY_CAUTION = (
    "Two percentiles differ if their 99 % intervals do not overlap and one is more than "
    f"{100 * latency.LEAST_SHARE:g} % larger. "
    "Each interval covers only its own run: measure both hosts alternately, several times."
)
"""Definition and limits of the verdicts."""

_ALIKE = {
    "speaks": "protocol", "pace": "pace", "interval_us": "interval", "size_bytes": "size",
    "policy": "policy",
}  # fmt: skip
"""Parameters that both tests must share, and their names."""

_DIGITS = 4


def warnings(before: Measurement, after: Measurement, names: tuple[str, str]) -> list[str]:
    """The differences between the tests, in a sentence."""
    found = measurements.mismatches(before, after)
    if not found:
        return []
    traits = listed([f"{m.what} ({m.before}, {m.after})" for m in found])
    return [
        f"{names[0]} and {names[1]} are different tests: {traits}. The tests and not the paths may "
        "cause a difference."
    ]


def sentences(found: Sequence[measurements.Difference], before: str, after: str) -> list[str]:
    """The verdicts in words."""
    out = []
    for d in found:
        a, b, unit = fine(d.before, 1), fine(d.after, 1), d.figure.unit
        name = f"{d.figure.name[:1].upper()}{d.figure.name[1:]}"
        values = f"{name}: {_verdict(d)}; {a} {unit} in {before}, {b} {unit} in {after}"
        if d.low is None or d.high is None:
            out.append(f"{values}; {d.why}.")
        else:
            low, high = _signed(d.low, d.high)
            ends = low if low == high else f"between {low} and {high}"
            least = f", within the threshold of {_threshold(d)}" if small(d) else ""
            out.append(f"{values}; the difference is {ends} {unit}{least}.")
    return out or ["The measurements have no metric in common."]


def _threshold(of: measurements.Difference) -> str:
    """The relevance threshold of a difference, with its origin."""
    least, share = of.figure.least(of.before), measurements.LEAST_SHARE
    origin = (
        "the minimum threshold of times"
        if least > share * abs(of.before)
        else f"{100 * share:g} % of the value in the first file"
    )
    return f"{least:.2g} {of.figure.unit} ({origin})"


def small(of: measurements.Difference) -> bool:
    """Whether the whole interval of a difference is below the relevance threshold."""
    if of.low is None or of.high is None:
        return False
    return max(abs(of.low), abs(of.high)) <= of.figure.least(of.before)


def _verdict(of: measurements.Difference) -> str:
    """The verdict in words; it is `no relevant difference` if the whole interval is below the
    relevance threshold.
    """
    return "no relevant difference" if small(of) else of.verdict


def _signed(low: float, high: float) -> tuple[str, str]:
    """The ends of an interval with signs, and with more digits if one digit would show zero.

    >>> _signed(-12.34, 5.6), _signed(0.012, 0.3), _signed(-0.04, 1e-9)
    (('-12.3', '+5.6'), ('+0.01', '+0.30'), ('-0.04', '0'))
    """
    known = [end for end in (low, high) if abs(end) >= _NOTHING]
    digits = max([1, *(math.ceil(-math.log10(abs(end))) for end in known)])
    first, last = (f"{end:+.{digits}f}" if end in known else "0" for end in (low, high))
    return first, last


def caution(measured: Sequence[Measurement]) -> str:
    """The meaning and the limits of the intervals."""
    together = (
        "All verdicts of a comparison together are right with a confidence of "
        f"{1 - measurements.ERROR_RATE:.0%}"
    ).replace("%", " %")
    if all(
        max(len(one.loaded(direction)) for direction in DIRECTIONS) >= measurements.FEWEST
        for one in measured
    ):
        return (
            f"{together}. The intervals are computed from the load phases of each measurement. "
            "They do not cover differences between times of the day."
        )
    return (
        f"{together}. Each interval is computed from the one-second values of one load phase, and "
        "does not cover the variation between repeated load phases. With `narrows measure "
        "--repeats 3` or more, the intervals cover this variation."
    )


def table(found: Sequence[measurements.Difference], before: str, after: str) -> Table:
    """A row per metric."""
    rows = [
        [
            Cell(d.figure.name),
            Cell(_verdict(d)),
            Cell(f"{fine(d.before, 1)} {d.figure.unit}", f"{d.figure.key}.before"),
            Cell(f"{fine(d.after, 1)} {d.figure.unit}", f"{d.figure.key}.after"),
            Cell(
                "–"
                if d.low is None or d.high is None
                else f"{' to '.join(dict.fromkeys(_signed(d.low, d.high)))} {d.figure.unit}",
                f"{d.figure.key}.low",
            ),
        ]
        for d in found
    ]
    return Table("Difference", ("metric", "verdict"), (before, after, "difference"), rows)


def latency_sentences(
    found: Sequence[latency.Difference],
    before: LatencyJson,
    after: LatencyJson,
    names: tuple[str, str],
) -> list[str]:
    """The verdict first, then details."""
    out: list[str] = []
    for each in latency.by_clock(found):
        first = None if out else next((d for d in each if d.key == "p50"), each[0])
        if first is not None:
            out.append(_headline(first, names))
        told = [d for d in each if d is not first]
        rest = [
            f"{named(d.key)} {d.verdict} ({', '.join(_spans(d.before, d.after))})" for d in told
        ]
        clock = latency.CLOCKS[each[0].clock]
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
    return [*out, *latency_warnings(before, after, names)]


def _headline(first: latency.Difference, names: tuple[str, str]) -> str:
    """The sentence with the slower result and the factor, or with the verdict that no difference
    was seen.
    """
    slow, fast = (names[1], names[0]) if first.after > first.before else (names[0], names[1])
    low, high = sorted((first.before, first.after))
    of = f"{latency.CLOCKS[first.clock]} {named(first.key)}"
    if not first.sure:
        return (
            f"No difference seen between {names[0]} and {names[1]}: {of} "
            f"{' and '.join(_spans(first.before, first.after))}."
        )
    factor = f"{_times(high / low)} slower" if low else "slower"
    return f"{slow} responds {factor} than {fast}: {of} {' against '.join(_spans(high, low))}."


def latency_warnings(before: LatencyJson, after: LatencyJson, names: tuple[str, str]) -> list[str]:
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


def latency_table(found: Sequence[latency.Difference], names: tuple[str, str]) -> Table:
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
    caption = latency.CLOCKS[found[0].clock]
    head = (f"{names[0]} µs", f"{names[1]} µs", "ratio")
    return Table(f"{caption[:1].upper()}{caption[1:]}", (caption, "verdict"), head, rows)


def replications_table(found: Sequence[replications.Difference], names: tuple[str, str]) -> Table:
    """A row per metric."""
    heads = dict(replications.METRICS)
    rows = [
        [
            Cell(heads[one.metric]),
            Cell("differs" if one.differs else "no difference seen"),
            *(Cell(_shown(x)) for x in (one.before, one.after, one.difference)),
        ]
        for one in found
    ]
    return Table("Differences", ("metric", "verdict"), (*names, "difference"), rows)


def _shown(one: Interval) -> str:
    if one.half():
        return cell(one, most=_DIGITS)
    return "0" if one.mean == 0 else with_half(one.mean, None, _DIGITS)
