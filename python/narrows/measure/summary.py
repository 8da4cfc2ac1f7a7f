"""Summarizes a measurement: rates, idle and loaded latency, latency increase, grade, round trips
per minute.

Sources: the grade is that of DSLReports (dslreports.com/faq/17930). The grade depends on the mean
latency increase under download and upload. LibreQoS and 8x8 use the same thresholds. Round trips
per minute are 60 s divided by the RTT of pings under load. The method of
draft-ietf-ippm-responsiveness counts HTTP requests on the loaded connections instead: the two
numbers differ.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from narrows.measure.classes import TrafficClass, classes
from narrows.measure.controls import Control, controls
from narrows.measure.model import AnswerJson, LatencyJson, OutageJson
from narrows.measure.result import DIRECTIONS, SETTLE_S, Direction, Measurement, Spread, short

Span = tuple[float, float]

GRADES: tuple[tuple[float, str], ...] = ((5, "A+"), (30, "A"), (60, "B"), (200, "C"), (400, "D"))
"""Pairs of a latency increase in ms and the grade of smaller increases. Increases of 400 ms or more
have grade F.
"""

MINUTE_MS = 60_000

FEWEST_PINGS = 20
"""Number of answered pings that a grade needs, idle and under load: ten on each side of the median.
"""

SILENT_S, SILENT_PINGS = 2.0, 5
"""Minimum duration of an outage, in s, and minimum number of consecutive unanswered pings in it."""

AWAITED_S = 1.0
"""Time to wait for replies after the last ping, in s."""


@dataclass(frozen=True)
class Outage:
    """A time during which no ping was answered.

    Attributes:
        from_s: Send time of the first unanswered ping, in s.
        to_s: Send time of the next answered ping, in s; that of the last ping if no later one was
            answered.
        ended: Whether later pings were answered.
        data_arrived: Whether a flow still delivered data, so that only pings were lost.
    """

    from_s: float
    to_s: float
    ended: bool
    data_arrived: bool

    def json(self) -> OutageJson:
        """The JSON object."""
        return {
            "from_s": short(self.from_s),
            "to_s": short(self.to_s),
            "ended": self.ended,
            "data_arrived": self.data_arrived,
        }


@dataclass(frozen=True)
class Answer:
    """The main metrics; None if not measured.

    Attributes:
        rates_mbit: Goodput by direction, in Mbit/s.
        idle: RTTs without load.
        loaded: RTTs under load, by direction.
        every: RTTs under any load.
        lost: Shares of unanswered pings, idle and under load.
        together: Whether both directions were loaded at once and share one distribution.
        by_cc: RTTs under load by congestion control and direction (`both` for both at once), if
            several congestion controls were measured.
        outages: Periods of at least `SILENT_S` seconds without any answered ping.
        classes: The traffic classes, if flows have different DSCPs.
        controls: The congestion controls, if several were measured.
    """

    rates_mbit: dict[Direction, float]
    idle: Spread
    loaded: dict[Direction, Spread]
    every: Spread
    lost: tuple[float | None, float | None]
    together: bool = False
    by_cc: dict[str, dict[str, Spread]] = field(default_factory=dict)
    outages: tuple[Outage, ...] = ()
    classes: tuple[TrafficClass, ...] = ()
    controls: tuple[Control, ...] = ()

    @property
    def connectivity_lost(self) -> bool:
        """Whether neither replies to pings nor data arrived during at least one outage."""
        return any(not outage.data_arrived for outage in self.outages)

    @property
    def too_few(self) -> tuple[int, int] | None:
        """Numbers of answered pings, idle and under load, if one of them is too small for a grade;
        otherwise None.
        """
        # A file may have a mean without a count, which is then 0.
        counts = (self.idle.n, min((s.n for s in self.loaded.values()), default=self.every.n))
        return counts if any(0 < n < FEWEST_PINGS for n in counts) else None

    @property
    def unloaded(self) -> list[Direction]:
        """Directions whose flows transferred no data during the load, so there was none."""
        return [direction for direction, rate in self.rates_mbit.items() if rate == 0]

    @property
    def increase_ms(self) -> float | None:
        """Mean RTT under load minus mean idle RTT, averaged over directions, in ms; at least 0."""
        if self.idle.mean is None:
            return None
        more = [s.mean - self.idle.mean for s in self.loaded.values() if s.mean is not None]
        if not more and self.every.mean is not None:
            more = [self.every.mean - self.idle.mean]
        return max(0.0, sum(more) / len(more)) if more else None

    @property
    def grade(self) -> str | None:
        """Grade on the DSLReports scale; None with too few answered pings, with an outage, or if
        the flows of a direction transferred no data.
        """
        more = self.increase_ms
        without = self.outages or self.too_few or self.unloaded
        return None if more is None or without else grade(more)

    @property
    def trips_per_minute(self) -> float | None:
        """Sequential round trips per minute at the mean RTT under load."""
        return MINUTE_MS / self.every.mean if self.every.mean else None

    def json(self) -> AnswerJson:
        """The JSON object, with units in the keys."""
        latency: LatencyJson = {"idle": self.idle.json(), "loaded": self.every.json()}
        for direction, spread in self.loaded.items():
            latency[direction] = spread.json()
        return {
            "rates_mbit": {direction: short(rate) for direction, rate in self.rates_mbit.items()},
            "latency_ms": latency,
            "latency_by_cc_ms": {
                cc: {direction: spread.json() for direction, spread in directions.items()}
                for cc, directions in self.by_cc.items()
            },
            "increase_ms": short(self.increase_ms),
            "grade": self.grade,
            "grade_scale": SCALE,
            "trips_per_minute": short(self.trips_per_minute),
            "pings_lost": {"idle": short(self.lost[0]), "loaded": short(self.lost[1])},
            "outages": [outage.json() for outage in self.outages],
            "classes": [one.json() for one in self.classes],
            "controls": [one.json() for one in self.controls],
        }


def grade(increase_ms: float) -> str:
    """The grade of a latency increase.

    >>> grade(4.9), grade(5), grade(199), grade(400)
    ('A+', 'A', 'C', 'F')
    """
    return next((name for below, name in GRADES if increase_ms < below), "F")


SCALE = ", ".join(
    [
        *(f"{name} below {below:g} ms" for below, name in GRADES),
        f"F from {GRADES[-1][0]:g} ms",
    ]
)
"""The scale of the grades, as printed."""

SCALE_OF = {
    **{
        name: f"{f'{GRADES[at - 1][0]:g} to' if at else 'below'} {below:g} ms"
        for at, (below, name) in enumerate(GRADES)
    },
    "F": f"{GRADES[-1][0]:g} ms or more",
}
"""The latency increase of each grade, as printed."""


def answer(measured: Measurement) -> Answer:
    """The main metrics of a measurement."""
    rates = {
        direction: rate
        for direction in DIRECTIONS
        if (rate := measured.rate_mbit(direction)) is not None
    }
    loaded = {
        direction: s
        for direction in DIRECTIONS
        if measured.loads(direction) and (s := measured.under_load(direction)).n
    }
    idle_spans = measured.spans("idle")
    return Answer(
        rates,
        measured.latency("idle"),
        loaded,
        measured.latency("loaded"),
        (
            _lost(measured.rtts(idle_spans)),
            _lost(measured.rtts(measured.loads(), settle_s=SETTLE_S)),
        ),
        measured.together,
        _by_cc(measured),
        tuple(outages(measured)),
        classes(measured),
        controls(measured),
    )


def _by_cc(measured: Measurement) -> dict[str, dict[str, Spread]]:
    names = list(dict.fromkeys(f.cc for f in measured.flows if f.cc is not None))
    if len(names) < 2:  # noqa: PLR2004 - one has no turns
        return {}
    out: dict[str, dict[str, Spread]] = {}
    for cc in names:
        directions: tuple[Direction | None, ...] = (
            (None,) if measured.together else DIRECTIONS[::-1]
        )
        spreads = {
            direction or "both": measured.under_load(direction, cc)
            for direction in directions
            if measured.loads(direction, cc)
        }
        out[cc] = {direction: spread for direction, spread in spreads.items() if spread.n}
    return out


def outages(measured: Measurement) -> list[Outage]:
    """Periods of at least `SILENT_S` during which no ping of any train was answered.

    Pings whose replies may have arrived after the end of the measurement do not count. A reply is
    awaited for `AWAITED_S` and may take twice as long as the slowest one so far.
    """
    every = [list(train.rtts()) for train in measured.pings]
    # A train without any reply shows no outage: the far host may not answer such pings.
    trains = [rows for rows in every if any(rtt is not None for _, rtt in rows)]
    sent = sorted((row for rows in trains for row in rows), key=lambda row: row[0])
    slowest_s = max((rtt for _, rtt in sent if rtt is not None), default=0.0) / 1e3
    answered = [at for at, (_, rtt) in enumerate(sent) if rtt is not None]
    out = []
    for before, after in itertools.pairwise([-1, *answered, len(sent)]):
        first, ended = before + 1, after < len(sent)
        if after - first < SILENT_PINGS:
            continue
        begin = sent[first][0]
        end = sent[after][0] if ended else sent[-1][0]
        certain = end if ended else end - max(0.0, 2 * slowest_s - AWAITED_S)
        if certain - begin >= SILENT_S:
            out.append(Outage(begin, end, ended, _arrived(measured, (begin, end))))
    if measured.stopped_by == "lost" and all(outage.ended for outage in out):
        # The server was lost before `SILENT_PINGS` pings were sent.
        last = max((phase.to_s for phase in measured.phases), default=0.0)
        out.append(Outage(last, last, ended=False, data_arrived=False))
    return out


def _arrived(measured: Measurement, span: Span) -> bool:
    """Whether flows delivered data in the middle half of a span. The ends of the span are known
    only to one ping interval.
    """
    quarter = (span[1] - span[0]) / 4
    counts = [
        [n for t, n in flow.acked() if span[0] + quarter <= t <= span[1] - quarter]
        for flow in measured.flows
    ]
    return any(inside[-1] > inside[0] for inside in counts if inside)


def _lost(rtts: list[float | None]) -> float | None:
    return sum(rtt is None for rtt in rtts) / len(rtts) if rtts else None
