"""Before and after: is there a difference between measurements, and how large?

Each load is cut into stretches of a second or more, and so is the idle time; a figure of a stretch is one value. With
several loads in a measurement (`--repeats`) a whole load is one value instead, for loads differ more than the seconds
of one. Values are drawn anew from both measurements, two thousand times (the bootstrap, Efron 1979), and between the
ends of the middle 99 % of the differences lies the interval. It is widened by √(n / (n - 1)), for few values spread
less than what they come from. Where it holds zero, no difference was seen: not the same as that there is none.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from narrows.answers import SETTLE_S
from narrows.measurement import DIRECTIONS, Direction, Json, Measurement, Spread, short
from narrows.tables import Cell, Table
from narrows.words import number

LEVEL = 0.99
"""Of the interval; several figures are looked at, and each may err."""

LEAST_SHARE, LEAST_MS = 0.01, 0.1
"""A difference below a hundredth, or a tenth of a millisecond, is none that anybody would see."""

DRAWS = 2000
STRETCHES = 12
"""A load is cut into so many stretches at most, so that neighbours have little in common."""

LEAST_S = 1.0
FEWEST = 3

Values = list[float]
Span = tuple[float, float]


@dataclass(frozen=True)
class Figure:
    """What is compared.

    Attributes:
        key: Its name for programs, with the unit.
        name: Its name for people.
        unit: `Mbit/s` or `ms`.
        better: 1 where more is better, -1 where less is.
        of: Its values in a measurement.
    """

    key: str
    name: str
    unit: str
    better: int
    of: Callable[[Measurement], Values]


@dataclass(frozen=True)
class Difference:
    """One figure of two measurements; a difference of None could not be judged."""

    figure: Figure
    before: float | None
    after: float | None
    low: float | None
    high: float | None

    @property
    def verdict(self) -> str:
        """`better`, `worse`, `no difference seen`, or `cannot tell` where there are too few values."""
        if self.low is None or self.high is None:
            return "cannot tell"
        before, after = self.before or 0.0, self.after or 0.0
        least = max(LEAST_SHARE * abs(before), LEAST_MS if self.figure.unit == "ms" else 0.0)
        if self.low <= 0 <= self.high or abs(after - before) < least:
            return "no difference seen"
        return "better" if (self.low > 0) == (self.figure.better > 0) else "worse"

    def json(self) -> Json:
        """For programs."""
        return {
            "before": short(self.before),
            "after": short(self.after),
            "difference": None if self.before is None or self.after is None else short(self.after - self.before),
            "low": short(self.low),
            "high": short(self.high),
            "level": LEVEL,
            "verdict": self.verdict,
        }


def differences(before: Measurement, after: Measurement) -> list[Difference]:
    """Every figure that both have."""
    return [d for figure in FIGURES if (d := _difference(figure, before, after)) is not None]


def _difference(figure: Figure, before: Measurement, after: Measurement) -> Difference | None:
    a, b = figure.of(before), figure.of(after)
    if not a or not b:
        return None
    means = _mean(a), _mean(b)
    if min(len(a), len(b)) < FEWEST:
        return Difference(figure, *means, None, None)
    low, high = interval(a, b)
    return Difference(figure, *means, low, high)


def interval(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Where the difference of the means of b and a lies.

    >>> low, high = interval([10, 11, 9, 10], [20, 21, 19, 20])
    >>> 8 < low < 10 < high < 12
    True
    """
    # The same measurements have the same interval.
    draw = random.Random(1)
    wide = [math.sqrt(len(values) / (len(values) - 1)) for values in (a, b)]
    middle = _mean(a), _mean(b)
    drawn = sorted(
        (middle[1] + wide[1] * (_mean(draw.choices(b, k=len(b))) - middle[1]))
        - (middle[0] + wide[0] * (_mean(draw.choices(a, k=len(a))) - middle[0]))
        for _ in range(DRAWS)
    )
    out = round(DRAWS * (1 - LEVEL) / 2)
    return drawn[out], drawn[-1 - out]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _stretches(spans: Sequence[Span], settle_s: float) -> list[list[Span]]:
    """Each span without its start, in stretches."""
    out = []
    for begin, end in spans:
        start = begin + min(settle_s, (end - begin) / 5)
        count = int(min(STRETCHES, (end - start) // LEAST_S))
        step = (end - start) / max(1, count)
        out.append([(start + i * step, start + (i + 1) * step) for i in range(count)])
    return out


def _values(spans: Sequence[Span], settle_s: float, of: Callable[[Span], float | None]) -> Values:
    """A value per load where there are several, else one per stretch of the one."""
    cut = [[v for span in one if (v := of(span)) is not None] for one in _stretches(spans, settle_s)]
    known = [values for values in cut if values]
    if len(known) >= FEWEST:
        return [_mean(values) for values in known]
    return [value for values in known for value in values]


def _rate(way: Direction) -> Callable[[Measurement], Values]:
    def of(measured: Measurement) -> Values:
        flows = [f.acked() for f in measured.flows if f.direction == way]

        def passed(span: Span) -> float | None:
            bits = [b for acked in flows if (b := _between(acked, *span)) is not None]
            return math.fsum(bits) / (span[1] - span[0]) / 1e6 if bits else None

        return _values(measured.loaded(way), SETTLE_S, passed)

    return of


def _between(acked: Sequence[tuple[float, float]], begin: float, end: float) -> float | None:
    """Bits between two times; None for a flow that had not begun or was over."""
    inside = [(t, b) for t, b in acked if begin <= t <= end]
    if len(inside) < 2:  # noqa: PLR2004 - two ends
        return None
    (t0, b0), (t1, b1) = inside[0], inside[-1]
    return 8 * (b1 - b0) * (end - begin) / (t1 - t0)


def _latency(
    spans: Callable[[Measurement], Sequence[Span]], which: str, settle_s: float
) -> Callable[[Measurement], Values]:
    def of(measured: Measurement) -> Values:
        pings = [(t, rtt) for train in measured.pings for t, rtt in train.rtts() if rtt is not None]

        def waited(span: Span) -> float | None:
            value: float | None = getattr(Spread.of(rtt for t, rtt in pings if span[0] <= t < span[1]), which)
            return value

        return _values(spans(measured), settle_s, waited)

    return of


def _loads(way: Direction) -> Callable[[Measurement], list[Span]]:
    def of(measured: Measurement) -> list[Span]:
        # Where both ways are loaded at once there is one round trip: it stands with the load down.
        if way == "up" and measured.loaded("up") == measured.loaded("down"):
            return []
        return measured.loaded(way)

    return of


def _idle(measured: Measurement) -> list[Span]:
    return measured.spans("idle")


FIGURES: tuple[Figure, ...] = (
    Figure("down_mbit", "rate down", "Mbit/s", 1, _rate("down")),
    Figure("up_mbit", "rate up", "Mbit/s", 1, _rate("up")),
    Figure("idle_ms", "idle round trip", "ms", -1, _latency(_idle, "mean", 0.0)),
    Figure("loaded_down_ms", "round trip, load down", "ms", -1, _latency(_loads("down"), "mean", SETTLE_S)),
    Figure("loaded_down_p95_ms", "its p95", "ms", -1, _latency(_loads("down"), "p95", SETTLE_S)),
    Figure("loaded_up_ms", "round trip, load up", "ms", -1, _latency(_loads("up"), "mean", SETTLE_S)),
    Figure("loaded_up_p95_ms", "its p95", "ms", -1, _latency(_loads("up"), "p95", SETTLE_S)),
)
"""What is compared, in this order."""


def sentences(found: Sequence[Difference], before: str, after: str) -> list[str]:
    """The verdicts in words."""
    out = []
    for d in found:
        a, b, unit = number(d.before, 1), number(d.after, 1), d.figure.unit
        if d.low is None or d.high is None:
            out.append(f"{d.figure.name}: {a} {unit} in {before}, {b} {unit} in {after}; too short to say more.")
            continue
        span = f"the difference is between {d.low:+.1f} and {d.high:+.1f} {unit}"
        out.append(f"{d.figure.name}: {d.verdict}; {a} {unit} in {before}, {b} {unit} in {after}, {span}.")
    return out or ["They have nothing in common that could be compared."]


def caution(measured: Sequence[Measurement]) -> str:
    """What the interval does not know."""
    if all(max(len(one.loaded(way)) for way in DIRECTIONS) >= FEWEST for one in measured):
        return "Intervals are of 99 %, over the loads of each measurement; they do not know other times of the day."
    return (
        "Intervals are of 99 %, over the seconds of one load each; what changes from one load to the next they do not "
        "know: `narrows measure --repeats 5` lets them."
    )


def table(found: Sequence[Difference], before: str, after: str) -> Table:
    """A row per figure."""
    rows = [
        [
            Cell(d.figure.name),
            Cell(d.verdict),
            Cell(f"{number(d.before)} {d.figure.unit}", f"{d.figure.key}.before"),
            Cell(f"{number(d.after)} {d.figure.unit}", f"{d.figure.key}.after"),
            Cell("–" if d.low is None or d.high is None else f"{d.low:+.1f} to {d.high:+.1f}", f"{d.figure.key}.low"),
        ]
        for d in found
    ]
    return Table("Difference", ("", "verdict"), (before, after, "difference, 99 %"), rows)
