"""Compares measurements: significance and size of the difference of each metric.

The value of a metric is the same as in all other commands (`measure.summary`). The uncertainty of a
metric is estimated from consecutive stretches of the load, or of the idle time, of usually at least
a second. Each stretch has one value, and `inference` takes their correlation into account. A
measurement with three or more loads (`--repeats`) has one value per load instead, because loads
differ more than the seconds of one load. If both measurements have the same number of loads,
Student's t-test for two samples compares them.

With fewer than three loads, or different numbers of loads, the ratio of the values is tested
instead. The verdicts better and worse require a difference significantly larger than the relevance
threshold: `LEAST_SHARE` of the value, or `LEAST_MS`. For these verdicts, the whole confidence
interval must lie beyond the threshold. Holm's procedure covers all metrics together: for two
measurements of an unchanged path, the probability of any false verdict is 1 %. `python -m
validation.comparison` measures the rate of false verdicts. "No difference seen" does not prove
equality.

A metric of a direction has no verdict if the two tests loaded this direction differently
(`mismatches`).
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from narrows import inference
from narrows.compare.model import DifferenceJson
from narrows.inference import Estimate
from narrows.measure.result import (
    DIRECTIONS,
    LOADS,
    SETTLE_S,
    Direction,
    Measurement,
    Spread,
    short,
)
from narrows.measure.summary import Answer, answer
from narrows.render.html import fragment
from narrows.render.words import listed, number

ERROR_RATE = 0.01
"""Probability of any false verdict among the metrics of two measurements."""

LEAST_SHARE, LEAST_MS = 0.03, 0.1
"""Relevance threshold of a difference: relative, and in ms."""

LEAST_S, SHORTEST_S = 1.0, 0.5
"""Minimum length of a stretch, in s. In a load shorter than four seconds, the minimum is a quarter
of the load, but at least `SHORTEST_S`.
"""

FEWEST = 3
"""Minimum number of values from which an uncertainty is estimated."""

_WIDEST = 50.0
"""Maximum half-width of the interval of the logarithm of a ratio; larger values overflow."""

MOST_RATIO = 10.0
"""An interval that reaches more than this multiple of the second value bounds nothing: the data are
too few.
"""

PINGS_OF_P95 = 20
"""Minimum number of pings in a stretch for a p95."""


OTHER_DURATION = 1.25
"""Loads whose mean durations differ by more than this factor are reported as different."""


Values = list[float]
Span = tuple[float, float]


@dataclass(frozen=True)
class Sample:
    """A metric of one measurement.

    Attributes:
        value: The value, as in all commands.
        uncertainty: Uncertainty relative to the value; None with too few stretches.
        loads: Number of loads with one value each; 0 if stretches have values instead.
    """

    value: float
    uncertainty: Estimate | None
    loads: int = 0


@dataclass(frozen=True)
class Figure:
    """A metric that can be compared.

    Attributes:
        key: Key in JSON, with the unit.
        name: Name in sentences and tables.
        unit: `Mbit/s`, `ms` or `%`.
        better: 1 if more is better, -1 if less is better.
        of: Returns the metric of a measurement, or None if it was not measured.
        direction: The direction whose flows the metric depends on; None for other metrics, such as
            the idle RTT.
        total_only: Reason why no measurement can have an uncertainty of this metric; empty for all
            other metrics.
    """

    key: str
    name: str
    unit: str
    better: int
    of: Callable[[Measurement, Answer], Sample | None]
    direction: Direction | None
    total_only: str = ""

    def least(self, before: float) -> float:
        """The relevance threshold of a difference, in the unit of the metric."""
        return max(LEAST_SHARE * abs(before), LEAST_MS if self.unit == "ms" else 0.0)


@dataclass(frozen=True)
class Difference:
    """A metric of two measurements.

    Attributes:
        figure: The metric.
        before: Value in the first measurement.
        after: Value in the second measurement.
        low: Lower end of the confidence interval of the difference; None without a verdict.
        high: Upper end of this interval.
        level: Confidence of this interval, at least 99 %: by Holm's procedure, the probability of
            any false verdict is 1 %.
        why: Reason for a missing verdict, or an empty string.
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
        """`better`, `worse`, `no difference seen`, or `cannot tell` without an interval."""
        if self.low is None or self.high is None:
            return "cannot tell"
        least = self.figure.least(self.before)
        if self.low <= least and self.high >= -_toward(-1.0, self.before, least):
            return "no difference seen"
        return "better" if (self.low > 0) == (self.figure.better > 0) else "worse"

    def json(self) -> DifferenceJson:
        """The JSON object."""
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


class Comparison(list[Difference]):
    """The differences of all metrics that two measurements have."""

    def _repr_html_(self) -> str:
        """The sentences and the table of `narrows compare`, for notebooks."""
        from narrows.compare.render import sentences, table  # noqa: PLC0415 - it uses this module

        names = ("before", "after")
        return fragment([*sentences(self, *names), table(self, *names)])


def differences(before: Measurement, after: Measurement) -> Comparison:
    """The differences of all metrics that both measurements have."""
    different = {m.direction: m for m in mismatches(before, after) if m.direction is not None}
    answers = answer(before), answer(after)
    found = Comparison()
    judged: list[tuple[int, _Test]] = []
    for figure in FIGURES:
        a, b = (figure.of(*one) for one in zip((before, after), answers, strict=True))
        if a is None or b is None:
            continue
        why = ""
        if figure.direction in different:
            why = (
                f"the tests load this direction differently ({different[figure.direction].text()})"
            )
        elif figure.total_only:
            why = figure.total_only
        elif min(a.value, b.value) <= 0:
            why = "one of the values is zero"
        elif any(_total_only(one, figure) for one in (before, after)):
            why = "the sender of the UDP load knows only the total of the received data"
        elif a.uncertainty is None or b.uncertainty is None:
            why = f"too few data: fewer than {FEWEST} intervals of at least {SHORTEST_S:g} s"
        else:
            judged.append((len(found), _test(figure, a, b, a.uncertainty, b.uncertainty)))
        found.append(Difference(figure, a.value, b.value, None, None, why=why))
    tested = inference.holm([test.p for _, test in judged], ERROR_RATE)
    for (at, test), (_, alpha) in zip(judged, tested, strict=True):
        one = found[at]
        low, high = test.interval(1 - alpha)
        with_interval = Difference(one.figure, one.before, one.after, low, high, 1 - alpha)
        unbounded = one.before + high > MOST_RATIO * one.after
        if unbounded and with_interval.verdict == "no difference seen":
            why = f"too few data: the second value could be over {MOST_RATIO:.0f} times as large"
            with_interval = Difference(one.figure, one.before, one.after, None, None, why=why)
        found[at] = with_interval
    return found


def _total_only(measured: Measurement, figure: Figure) -> bool:
    """Whether the metric is the goodput of flows whose samples have only the sent bytes."""
    flows = [
        f for f in measured.flows if f.direction == figure.direction and f.goodput_mbit is not None
    ]
    return figure.unit == "Mbit/s" and any(
        "sent_bytes" in f.columns and not f.acked() for f in flows
    )


@dataclass(frozen=True)
class _Test:
    """A test of one metric.

    Attributes:
        p: p-value: probability of a difference at least this large if the true difference is only
            at the relevance threshold.
        interval: Returns the confidence interval of the difference at a level.
    """

    p: float
    interval: Callable[[float], tuple[float, float]]


def _test(figure: Figure, a: Sample, b: Sample, of_a: Estimate, of_b: Estimate) -> _Test:
    least = figure.least(a.value)
    if a.loads == b.loads > 0:
        # On an unchanged path, both measurements have the same variance, and they have the same
        # number of values, so Student's t-test for two samples applies.
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
    """The relevance threshold for an increase or a decrease: as a ratio of the values, both are the
    same.
    """
    return least if difference > 0 else least * before / (before + least)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _sample(value: float | None, series: Sequence[Sequence[float]]) -> Sample | None:
    """The `Sample` of a metric with this value. `series` has a list for each load, with one value
    per stretch.
    """
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
    """Each span without its first `settle_s` seconds, but at least four fifths of it."""
    for begin, end in spans:
        yield begin + min(settle_s, (end - begin) / 5), end


def _least(span: Span) -> float:
    """The minimum length of a stretch of this span, in s."""
    return max(SHORTEST_S, min(LEAST_S, (span[1] - span[0]) / 4))


def _rate(direction: Direction) -> Callable[[Measurement, Answer], Sample | None]:
    def of(measured: Measurement, told: Answer) -> Sample | None:
        flows = [acked for f in measured.flows if f.direction == direction and (acked := f.acked())]
        return _sample(
            told.rates_mbit.get(direction),
            [_rates(flows, s) for s in _settled(measured.loaded(direction), SETTLE_S)],
        )

    return of


def _rates(flows: Sequence[Sequence[tuple[float, float]]], span: Span) -> Values:
    """Total goodput of these flows in each stretch of a span, in Mbit/s."""
    edges = _edges(flows, span)
    so_far = [math.fsum(_bytes(acked, edge) for acked in flows) for edge in edges]
    return [
        8e-6 * (b1 - b0) / (t1 - t0)
        for (t0, t1), (b0, b1) in zip(pairwise(edges), pairwise(so_far), strict=True)
    ]


def _edges(flows: Sequence[Sequence[tuple[float, float]]], span: Span) -> list[float]:
    """Times of the ends of the stretches. The ends are sample times of the flow with the fewest
    samples, so that few bytes are interpolated.
    """
    inside = [[t for t, _ in acked if span[0] < t <= span[1]] for acked in flows]
    coarsest = min((times for times in inside if times), key=len, default=[])
    edges = [span[0]]
    # Sample intervals of other tools can be slightly shorter than a second.
    for t in coarsest:
        if t - edges[-1] >= 0.9 * _least(span):
            edges.append(t)
    return edges


def _bytes(acked: Sequence[tuple[float, float]], at: float) -> float:
    """Bytes delivered until a time, interpolated between samples."""
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
    """Adapts the uncertainty to a percentile: the spread of the stretches is taken around the
    percentile of all values.

    Sectioning (Asmussen and Glynn, Stochastic Simulation, 2007, section III.5a).
    """
    values = [v for one in series for v in one]
    if sample is None or sample.uncertainty is None or sample.loads:
        return sample
    off = (sample.value - _mean(values)) / _mean(values)
    error = math.sqrt(sample.uncertainty.error**2 + off**2 / len(values))
    return Sample(sample.value, Estimate(error, sample.uncertainty.freedom))


def _spreads(pings: Sequence[tuple[float, float]], span: Span, which: str) -> Values:
    """The mean or a percentile of the ping RTTs in each stretch of a span, in ms."""
    length = span[1] - span[0]
    enough = length * PINGS_OF_P95 / len(pings) if which == "p95" and pings else 0.0
    count = int(length / max(_least(span), enough) + 1e-9)
    stretches: list[Values] = [[] for _ in range(count)]
    for t, rtt in pings:
        stretches[min(count - 1, int((t - span[0]) / length * count))].append(
            rtt
        ) if count else None
    return [getattr(Spread.of(rtts), which) for rtts in stretches if rtts]


def _loads(direction: Direction) -> Callable[[Measurement], list[Span]]:
    def of(measured: Measurement) -> list[Span]:
        # With both directions loaded at once, there is one RTT, which is listed under download.
        if measured.together:
            return [] if direction == "up" else measured.loads()
        return measured.loaded(direction)

    return of


def _idle(measured: Measurement) -> list[Span]:
    return measured.spans("idle")


def _under(direction: Direction, which: str) -> Callable[[Measurement, Answer], Sample | None]:
    return _latency(_loads(direction), which, lambda told: told.loaded.get(direction), SETTLE_S)


def _udp_load(measured: Measurement) -> list[Span]:
    """The loads of a test that sends datagrams and has no flows."""
    return measured.loads() if measured.json.get("udp_load") and not measured.flows else []


def _under_udp(which: str) -> Callable[[Measurement, Answer], Sample | None]:
    return _latency(_udp_load, which, lambda told: told.every, SETTLE_S)


def _udp_loss(measured: Measurement, _: Answer) -> Sample | None:
    """Lost datagrams of a UDP load or of UDP flows, in %."""
    loss = (measured.json.get("udp_load") or {}).get("loss")
    flows = [share for f in measured.flows if (share := f.figure("lost_share")) is not None]
    shares = flows if loss is None else [float(loss)]
    return Sample(100 * _mean(shares), None) if shares else None


def _page(phase: str) -> Callable[[Measurement, Answer], Sample | None]:
    def of(measured: Measurement, _: Answer) -> Sample | None:
        median_s = ((measured.json.get("page") or {}).get(phase) or {}).get("p50")
        return None if median_s is None else Sample(1e3 * float(median_s), None)

    return of


_NO_LOSSES = "a result has the total of the lost datagrams and not their times"
_NO_PAGES = "a result has the median of the load times and not each of them"

FIGURES: tuple[Figure, ...] = (
    Figure("down_mbit", "download goodput", "Mbit/s", 1, _rate("down"), "down"),
    Figure("up_mbit", "upload goodput", "Mbit/s", 1, _rate("up"), "up"),
    Figure(
        "idle_ms",
        "mean idle RTT",
        "ms",
        -1,
        _latency(_idle, "mean", lambda told: told.idle, 0.0),
        None,
    ),
    Figure("loaded_down_ms", "mean RTT during download", "ms", -1, _under("down", "mean"), "down"),
    Figure(
        "loaded_down_p95_ms", "p95 RTT during download", "ms", -1, _under("down", "p95"), "down"
    ),
    Figure("loaded_up_ms", "mean RTT during upload", "ms", -1, _under("up", "mean"), "up"),
    Figure("loaded_up_p95_ms", "p95 RTT during upload", "ms", -1, _under("up", "p95"), "up"),
    Figure("udp_rtt_ms", "mean RTT during the UDP load", "ms", -1, _under_udp("mean"), None),
    Figure("udp_rtt_p95_ms", "p95 RTT during the UDP load", "ms", -1, _under_udp("p95"), None),
    Figure("udp_loss_percent", "lost datagrams", "%", -1, _udp_loss, None, _NO_LOSSES),
    Figure("page_ms", "page load time without load", "ms", -1, _page("idle_s"), None, _NO_PAGES),
    Figure(
        "page_loaded_ms",
        "page load time under load",
        "ms",
        -1,
        _page("loaded_s"),
        None,
        _NO_PAGES,
    ),
)
"""The compared metrics, in this order."""


@dataclass(frozen=True)
class Mismatch:
    """A parameter that differs between two tests and may cause a difference of their results.

    Attributes:
        what: Name of the parameter.
        before: Value in the first test.
        after: Value in the second test.
        direction: The direction whose metrics therefore cannot be compared, or None.
    """

    what: str
    before: str
    after: str
    direction: Direction | None = None

    def text(self) -> str:
        """The mismatch in words."""
        return f"{self.what}: {self.before} before, {self.after} after"


def mismatches(before: Measurement, after: Measurement) -> list[Mismatch]:
    """All parameters that differ between the two tests and are known for both."""
    out = []
    for what, of in _TRAITS.items():
        a, b = of(before), of(after)
        if a and b and a != b:
            out.append(Mismatch(what, a, b))
    for direction in DIRECTIONS[::-1]:
        a, b = (_load(one, direction) for one in (before, after))
        if a != b:
            out.append(Mismatch(LOADS[direction], a or "none", b or "none", direction))
        s, t = (
            _mean([end - begin for begin, end in one.loaded(direction) or [(0.0, 0.0)]])
            for one in (before, after)
        )
        if min(s, t) > 0 and max(s, t) > OTHER_DURATION * min(s, t):
            out.append(
                Mismatch(
                    f"duration of the {LOADS[direction]}", f"{number(s, 1)} s", f"{number(t, 1)} s"
                )
            )
        a, b = (_senders(one, direction) for one in (before, after))
        if a and b and a != b:
            out.append(Mismatch(f"congestion control of the {LOADS[direction]}", a, b))
    return out


def _asked(key: str, unit: str = "") -> Callable[[Measurement], str]:
    def of(measured: Measurement) -> str:
        told = (measured.json.get("asked") or {}).get(key)
        return "" if told is None else f"{told}{unit}"

    return of


def _host(measured: Measurement) -> str:
    # In simulated measurements, the host is a scenario file, and two such files are meant to
    # differ.
    return "" if (measured.json.get("peer") or {}).get("speaks") == "simulator" else measured.host


def _pacing(measured: Measurement) -> str:
    told = measured.json.get("asked") or {}
    rate = told.get("pacing_mbit")
    return f"{rate:g} Mbit/s" if rate else "none" if "pacing_mbit" in told else ""


def _datagrams(measured: Measurement) -> str:
    told = measured.json.get("udp_load") or {}
    rate = told.get("asked_mbit")
    direction: Direction = "up" if told.get("direction") == "up" else "down"
    return f"{rate:g} Mbit/s of {LOADS[direction]}" if rate else ""


_TRAITS: dict[str, Callable[[Measurement], str]] = {
    "test": lambda measured: measured.test,
    "host": _host,
    "address family": lambda measured: measured.family,
    "DSCP": _asked("dscp"),
    "ECN": _asked("ecn"),
    "pacing": _pacing,
    "UDP load": _datagrams,
}


def _senders(measured: Measurement, direction: Direction) -> str:
    return listed(sorted({f.cc for f in measured.flows if f.direction == direction and f.cc}))


def _load(measured: Measurement, direction: Direction) -> str:
    """The load of a direction in words: number of flows, protocol, and whether both directions are
    loaded at once. Empty without a load.
    """
    spans = measured.loaded(direction)
    if not spans:
        return ""
    begin, end = spans[0]
    flows = [
        f for f in measured.flows if f.direction == direction and f.from_s < end and f.to_s > begin
    ]
    other = any(
        f.direction != direction and f.from_s < end and f.to_s > begin for f in measured.flows
    )
    kinds = listed(sorted({f.protocol.upper() for f in flows}))
    return (
        f"{len(flows)} {kinds} "
        f"flow{'s' if len(flows) > 1 else ''}{', both directions at once' if other else ''}"
    )
