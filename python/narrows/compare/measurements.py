"""Before and after: is there a difference between measurements, and how large?

The value of a figure is the one that every other command shows (`answers`). Its uncertainty comes
from consecutive stretches of a second or more of the load, or of the idle time: one value each,
whose correlation counts (`inference`). With three or more loads in a measurement (`--repeats`) each
load is one value instead, because loads differ more than the seconds of one; as many loads in both
are compared by Student's test for two samples.

Single loads are compared by the ratio of their values. There is a verdict where a difference is
significantly larger than the least that matters, `LEAST_SHARE` of the value or `LEAST_MS`: the
confidence interval has to lie beyond that as a whole. Several figures are judged at once, by Holm's
procedure: among all figures of two measurements of an unchanged path, the probability of any false
verdict is 1 %. `python -m validation.comparison` measures that rate. No difference seen does not
mean that there is none.

A figure is not judged where the two tests loaded that direction differently (`mismatches`).
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from narrows.compare import inference
from narrows.compare.inference import Estimate
from narrows.measure.result import DIRECTIONS, SETTLE_S, Direction, Json, Measurement, Spread, short
from narrows.measure.summary import Answer, answer
from narrows.render.tables import Cell, Table
from narrows.render.words import listed, number

ERROR_RATE = 0.01
"""Probability of any false verdict among the figures of two measurements."""

LEAST_SHARE, LEAST_MS = 0.03, 0.1
"""A difference below 3 %, or a tenth of a millisecond, does not matter."""

LEAST_S, SHORTEST_S = 1.0, 0.5
"""Least length of a stretch, and of one where a load lasts less than four of those."""

FEWEST = 3
"""Fewest values that have an uncertainty."""

_WIDEST = 50.0
"""Of the logarithm of a ratio; more overflows."""

PINGS_OF_P95 = 20
"""A stretch has at least as many pings where their p95 is taken."""

_NOTHING = 1e-3
"""Of Mbit/s and of ms; less is printed as zero."""

OTHER_DURATION = 1.25
"""Loads whose durations differ by this factor are reported as different."""

Values = list[float]
Span = tuple[float, float]


@dataclass(frozen=True)
class Sample:
    """A figure of one measurement.

    Attributes:
        value: As every command shows it.
        uncertainty: Of that value, relative to it; None where there are too few stretches.
        loads: Of so many loads, each of which is one value; 0 where stretches are.
    """

    value: float
    uncertainty: Estimate | None
    loads: int = 0


@dataclass(frozen=True)
class Figure:
    """What is compared.

    Attributes:
        key: Its name for programs, with the unit.
        name: Its name for people.
        unit: `Mbit/s` or `ms`.
        better: 1 where more is better, -1 where less is.
        of: The figure of a measurement; None where that was not measured.
        way: The direction whose load it depends on; None for the idle round trip.
    """

    key: str
    name: str
    unit: str
    better: int
    of: Callable[[Measurement, Answer], Sample | None]
    way: Direction | None

    def least(self, before: float) -> float:
        """The least difference that matters."""
        return max(LEAST_SHARE * abs(before), LEAST_MS if self.unit == "ms" else 0.0)


@dataclass(frozen=True)
class Difference:
    """One figure of two measurements.

    Attributes:
        figure: Which.
        before: Its value in the first measurement.
        after: Its value in the second.
        low: Lower end of the confidence interval of the difference; None where it could not be
            judged.
        high: Upper end.
        level: Confidence of that interval: 99 % or more, by Holm's procedure, so that all verdicts
            err in 1 % together.
        why: Why it could not be judged; empty where it was.
    """

    figure: Figure
    before: float
    after: float
    low: float | None
    high: float | None
    level: float = 1 - ERROR_RATE
    why: str = ""

    @property
    def verdict(self) -> str:
        """`better`, `worse`, `no difference seen`, or `cannot tell` where it could not be
        judged.
        """
        if self.low is None or self.high is None:
            return "cannot tell"
        least = self.figure.least(self.before)
        if self.low <= least and self.high >= -_toward(-1.0, self.before, least):
            return "no difference seen"
        return "better" if (self.low > 0) == (self.figure.better > 0) else "worse"

    def json(self) -> Json:
        """For programs."""
        return {
            "before": short(self.before),
            "after": short(self.after),
            "difference": short(self.after - self.before),
            "low": short(self.low),
            "high": short(self.high),
            "level": short(self.level),
            "verdict": self.verdict,
            "why": self.why,
        }


def differences(before: Measurement, after: Measurement) -> list[Difference]:
    """Every figure that both have."""
    different = {m.way: m for m in mismatches(before, after) if m.way is not None}
    answers = answer(before), answer(after)
    found: list[Difference] = []
    judged: list[tuple[int, _Test]] = []
    for figure in FIGURES:
        a, b = (figure.of(*one) for one in zip((before, after), answers, strict=True))
        if a is None or b is None:
            continue
        why = ""
        if figure.way in different:
            why = f"the tests load this direction differently ({different[figure.way].text()})"
        elif min(a.value, b.value) <= 0:
            why = "one of them is zero"
        elif any(_total_only(one, figure) for one in (before, after)):
            why = "the sender of UDP knows only in total what arrived"
        elif a.uncertainty is None or b.uncertainty is None:
            why = f"too short: fewer than {FEWEST} stretches of {SHORTEST_S:g} s or more"
        else:
            judged.append((len(found), _test(figure, a, b, a.uncertainty, b.uncertainty)))
        found.append(Difference(figure, a.value, b.value, None, None, why=why))
    tested = inference.holm([test.p for _, test in judged], ERROR_RATE)
    for (at, test), (_, alpha) in zip(judged, tested, strict=True):
        one = found[at]
        low, high = test.interval(1 - alpha)
        found[at] = Difference(one.figure, one.before, one.after, low, high, 1 - alpha)
    return found


def _total_only(measured: Measurement, figure: Figure) -> bool:
    """Is it a rate of flows whose samples are what was sent?"""
    flows = [f for f in measured.flows if f.direction == figure.way and f.goodput_mbit is not None]
    return figure.unit == "Mbit/s" and any(
        "sent_bytes" in f.columns and not f.acked() for f in flows
    )


@dataclass(frozen=True)
class _Test:
    """A test of one figure.

    Attributes:
        p: The probability of such a difference if the truth is none that matters.
        interval: Of the difference, at a level.
    """

    p: float
    interval: Callable[[float], tuple[float, float]]


def _test(figure: Figure, a: Sample, b: Sample, of_a: Estimate, of_b: Estimate) -> _Test:
    least = figure.least(a.value)
    if a.loads == b.loads > 0:
        # Of an unchanged path both have the same variance, and as many values: Student's test for
        # two samples.
        error = inference.of_sum([(b.value, of_b), (-a.value, of_a)]).error
        both = Estimate(error, of_a.freedom + of_b.freedom)
        middle = b.value - a.value

        def plain(level: float) -> tuple[float, float]:
            half = inference.half_width(level, both)
            return middle - half, middle + half

        return _Test(inference.p_value(abs(middle) - _toward(middle, a.value, least), both), plain)
    both = inference.of_sum([(1.0, of_b), (-1.0, of_a)])

    def of_ratio(level: float) -> tuple[float, float]:
        half = min(inference.half_width(level, both), _WIDEST)
        return b.value * math.exp(-half) - a.value, b.value * math.exp(half) - a.value

    beyond = abs(math.log(b.value / a.value)) - math.log1p(least / a.value)
    return _Test(inference.p_value(beyond, both), of_ratio)


def _toward(difference: float, before: float, least: float) -> float:
    """The least difference that matters in this direction: 3 % more is as far as 3 % less."""
    return least if difference > 0 else least * before / (before + least)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _sample(value: float | None, series: Sequence[Sequence[float]]) -> Sample | None:
    """A figure whose loads have these series, one value per stretch."""
    if value is None:
        return None
    known = [one for one in series if one]
    mean = _mean([_mean(one) for one in known]) if known else 0.0
    if mean <= 0:
        return Sample(value, None)
    if len(known) >= FEWEST:
        return Sample(
            value, inference.of_independent([_mean(one) / mean for one in known]), len(known)
        )
    if min(len(one) for one in known) < FEWEST:
        return Sample(value, None)
    parts = [(1 / len(known), inference.of_series([v / mean for v in one])) for one in known]
    return Sample(value, inference.of_sum(parts))


def _settled(spans: Sequence[Span], settle_s: float) -> Iterator[Span]:
    """Each span without its start."""
    for begin, end in spans:
        yield begin + min(settle_s, (end - begin) / 5), end


def _least(span: Span) -> float:
    """The least length of a stretch of this span."""
    return max(SHORTEST_S, min(LEAST_S, (span[1] - span[0]) / 4))


def _rate(way: Direction) -> Callable[[Measurement, Answer], Sample | None]:
    def of(measured: Measurement, told: Answer) -> Sample | None:
        flows = [acked for f in measured.flows if f.direction == way and (acked := f.acked())]
        return _sample(
            told.rates_mbit.get(way),
            [_rates(flows, s) for s in _settled(measured.loaded(way), SETTLE_S)],
        )

    return of


def _rates(flows: Sequence[Sequence[tuple[float, float]]], span: Span) -> Values:
    """Mbit/s of these flows together in each stretch of a span."""
    edges = _edges(flows, span)
    so_far = [math.fsum(_bytes(acked, edge) for acked in flows) for edge in edges]
    return [
        8e-6 * (b1 - b0) / (t1 - t0)
        for (t0, t1), (b0, b1) in zip(pairwise(edges), pairwise(so_far), strict=True)
    ]


def _edges(flows: Sequence[Sequence[tuple[float, float]]], span: Span) -> list[float]:
    """Where stretches end: at samples of the flow that has fewest of them, so that few bytes are
    interpolated.
    """
    inside = [[t for t, _ in acked if span[0] < t <= span[1]] for acked in flows]
    coarsest = min((times for times in inside if times), key=len, default=[])
    edges = [span[0]]
    # Other tools' intervals are not quite a second.
    for t in coarsest:
        if t - edges[-1] >= 0.9 * _least(span):
            edges.append(t)
    return edges


def _bytes(acked: Sequence[tuple[float, float]], at: float) -> float:
    """Bytes delivered until then, on a straight line between two samples."""
    after = bisect.bisect_right(acked, at, key=lambda sample: sample[0])
    if after == 0:
        return 0.0
    if after == len(acked):
        return acked[-1][1]
    (t0, b0), (t1, b1) = acked[after - 1], acked[after]
    return b0 + (b1 - b0) * (at - t0) / (t1 - t0)


def _latency(
    spans: Callable[[Measurement], Sequence[Span]],
    which: str,
    told: Callable[[Answer], Spread | None],
    settle_s: float,
) -> Callable[[Measurement, Answer], Sample | None]:
    def of(measured: Measurement, said: Answer) -> Sample | None:
        spread = told(said)
        pings = [(t, rtt) for train in measured.pings for t, rtt in train.rtts() if rtt is not None]
        settled = list(_settled(spans(measured), settle_s))
        if spread is None or not settled:
            return None
        series = [_spreads([p for p in pings if s[0] <= p[0] < s[1]], s, which) for s in settled]
        sample = _sample(getattr(spread, which), series)
        return sample if which == "mean" else _sectioned(sample, series)

    return of


def _sectioned(sample: Sample | None, series: Sequence[Values]) -> Sample | None:
    """A percentile is not the mean of the stretches' percentiles: their spread is taken around the
    whole one.

    Sectioning (Asmussen and Glynn, Stochastic Simulation, 2007, section III.5a).
    """
    values = [v for one in series for v in one]
    if sample is None or sample.uncertainty is None or sample.loads:
        return sample
    off = (sample.value - _mean(values)) / _mean(values)
    error = math.sqrt(sample.uncertainty.error**2 + off**2 / len(values))
    return Sample(sample.value, Estimate(error, sample.uncertainty.freedom))


def _spreads(pings: Sequence[tuple[float, float]], span: Span, which: str) -> Values:
    """The mean or a percentile of the pings of each stretch of a span."""
    length = span[1] - span[0]
    enough = length * PINGS_OF_P95 / len(pings) if which == "p95" and pings else 0.0
    count = int(length / max(_least(span), enough) + 1e-9)
    stretches: list[Values] = [[] for _ in range(count)]
    for t, rtt in pings:
        stretches[min(count - 1, int((t - span[0]) / length * count))].append(
            rtt
        ) if count else None
    return [getattr(Spread.of(rtts), which) for rtts in stretches if rtts]


def _loads(way: Direction) -> Callable[[Measurement], list[Span]]:
    def of(measured: Measurement) -> list[Span]:
        # Where both ways are loaded at once there is one round trip: it stands with the load down.
        if measured.together:
            return [] if way == "up" else measured.loads()
        return measured.loaded(way)

    return of


def _idle(measured: Measurement) -> list[Span]:
    return measured.spans("idle")


def _under(way: Direction, which: str) -> Callable[[Measurement, Answer], Sample | None]:
    return _latency(_loads(way), which, lambda told: told.loaded.get(way), SETTLE_S)


FIGURES: tuple[Figure, ...] = (
    Figure("down_mbit", "rate down", "Mbit/s", 1, _rate("down"), "down"),
    Figure("up_mbit", "rate up", "Mbit/s", 1, _rate("up"), "up"),
    Figure(
        "idle_ms",
        "idle round trip",
        "ms",
        -1,
        _latency(_idle, "mean", lambda told: told.idle, 0.0),
        None,
    ),
    Figure("loaded_down_ms", "round trip, load down", "ms", -1, _under("down", "mean"), "down"),
    Figure("loaded_down_p95_ms", "its p95", "ms", -1, _under("down", "p95"), "down"),
    Figure("loaded_up_ms", "round trip, load up", "ms", -1, _under("up", "mean"), "up"),
    Figure("loaded_up_p95_ms", "its p95", "ms", -1, _under("up", "p95"), "up"),
)
"""What is compared, in this order."""


@dataclass(frozen=True)
class Mismatch:
    """Something that differs between two tests, so that a difference between them need not be the
    path's.

    Attributes:
        what: What differs.
        before: In the first test.
        after: In the second.
        way: The direction whose figures cannot be compared for that reason; None where they can.
    """

    what: str
    before: str
    after: str
    way: Direction | None = None

    def text(self) -> str:
        """In words."""
        return f"{self.what}: {self.before} before, {self.after} after"


def mismatches(before: Measurement, after: Measurement) -> list[Mismatch]:
    """What differs between the two tests; what is not known of one of them is not compared."""
    out = []
    for what, of in _TRAITS.items():
        a, b = of(before), of(after)
        if a and b and a != b:
            out.append(Mismatch(what, a, b))
    for way in DIRECTIONS[::-1]:
        a, b = (_load(one, way) for one in (before, after))
        if a != b:
            out.append(Mismatch(f"load {way}", a or "none", b or "none", way))
        s, t = (
            _mean([end - begin for begin, end in one.loaded(way) or [(0.0, 0.0)]])
            for one in (before, after)
        )
        if min(s, t) > 0 and max(s, t) > OTHER_DURATION * min(s, t):
            out.append(
                Mismatch(f"duration of the load {way}", f"{number(s, 1)} s", f"{number(t, 1)} s")
            )
        a, b = (_senders(one, way) for one in (before, after))
        if a and b and a != b:
            out.append(Mismatch(f"congestion control {way}", a, b))
    return out


def _asked(key: str, unit: str = "") -> Callable[[Measurement], str]:
    def of(measured: Measurement) -> str:
        told = (measured.json.get("asked") or {}).get(key)
        return "" if told is None else f"{told}{unit}"

    return of


def _host(measured: Measurement) -> str:
    # A scenario's file takes the place of the host, and two of them are meant to differ.
    return "" if (measured.json.get("peer") or {}).get("speaks") == "simulator" else measured.host


def _pacing(measured: Measurement) -> str:
    told = measured.json.get("asked") or {}
    rate = told.get("pacing_mbit")
    return f"{rate:g} Mbit/s" if rate else "none" if "pacing_mbit" in told else ""


_TRAITS: dict[str, Callable[[Measurement], str]] = {
    "test": lambda measured: measured.test,
    "host": _host,
    "code point": _asked("dscp"),
    "ECN": _asked("ecn"),
    "pacing": _pacing,
}


def _senders(measured: Measurement, way: Direction) -> str:
    return listed(sorted({f.cc for f in measured.flows if f.direction == way and f.cc}))


def _load(measured: Measurement, way: Direction) -> str:
    """How a direction is loaded: by how many flows of which protocol, alone or while the other one
    is.
    """
    spans = measured.loaded(way)
    if not spans:
        return ""
    begin, end = spans[0]
    flows = [f for f in measured.flows if f.direction == way and f.from_s < end and f.to_s > begin]
    other = any(f.direction != way and f.from_s < end and f.to_s > begin for f in measured.flows)
    kinds = listed(sorted({f.protocol.upper() for f in flows}))
    return (
        f"{len(flows)} {kinds} "
        f"flow{'s' if len(flows) > 1 else ''}{', both directions at once' if other else ''}"
    )


def warnings(before: Measurement, after: Measurement, names: tuple[str, str]) -> list[str]:
    """What differs between the tests, in a sentence."""
    found = mismatches(before, after)
    if not found:
        return []
    traits = listed([f"{m.what} ({m.before}, {m.after})" for m in found])
    return [
        f"{names[0]} and {names[1]} are different tests: {traits}. A difference between the "
        "results need not be a "
        "difference between the paths."
    ]


def sentences(found: Sequence[Difference], before: str, after: str) -> list[str]:
    """The verdicts in words."""
    out = []
    for d in found:
        a, b, unit = number(d.before, 1), number(d.after, 1), d.figure.unit
        values = f"{d.figure.name}: {d.verdict}; {a} {unit} in {before}, {b} {unit} in {after}"
        if d.low is None or d.high is None:
            out.append(f"{values}; {d.why}.")
        else:
            low, high = _signed(d.low, d.high)
            out.append(f"{values}, the difference is between {low} and {high} {unit}.")
    return out or ["They have nothing in common that could be compared."]


def _signed(low: float, high: float) -> tuple[str, str]:
    """The ends of an interval with their signs; an end with more digits where one would show it as
    zero.

    >>> _signed(-12.34, 5.6), _signed(0.012, 0.3), _signed(-0.04, 1e-9)
    (('-12.3', '+5.6'), ('+0.01', '+0.30'), ('-0.04', '0'))
    """
    known = [end for end in (low, high) if abs(end) >= _NOTHING]
    digits = max([1, *(math.ceil(-math.log10(abs(end))) for end in known)])
    first, last = (f"{end:+.{digits}f}" if end in known else "0" for end in (low, high))
    return first, last


def caution(measured: Sequence[Measurement]) -> str:
    """What the intervals mean, and what they do not cover."""
    together = (
        f"The verdicts of a comparison hold together with {1 - ERROR_RATE:.0%} confidence".replace(
            "%", " %"
        )
    )
    if all(max(len(one.loaded(way)) for way in DIRECTIONS) >= FEWEST for one in measured):
        return (
            f"{together}. The intervals come from the loads of each measurement and cover no "
            "other times of the day."
        )
    return (
        f"{together}. The intervals come from the seconds of one load each and do not cover what "
        "changes from one load "
        "to the next: `narrows measure --repeats 5` does."
    )


def table(found: Sequence[Difference], before: str, after: str) -> Table:
    """A row per figure."""
    rows = [
        [
            Cell(d.figure.name),
            Cell(d.verdict),
            Cell(f"{number(d.before)} {d.figure.unit}", f"{d.figure.key}.before"),
            Cell(f"{number(d.after)} {d.figure.unit}", f"{d.figure.key}.after"),
            Cell(
                "–" if d.low is None or d.high is None else " to ".join(_signed(d.low, d.high)),
                f"{d.figure.key}.low",
            ),
        ]
        for d in found
    ]
    return Table("Difference", ("", "verdict"), (before, after, "difference"), rows)
