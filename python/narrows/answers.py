"""What a measurement answers: rates, latency idle and loaded, the increase, a grade, round trips per minute.

Sources: the grade is DSLReports' (dslreports.com/faq/17930): the mean of what latency increases under download and
under upload; LibreQoS and 8x8 use the same thresholds. Round trips per minute are what
draft-ietf-ippm-responsiveness counts, 60 s over a round trip under load, but of pings of their own beside the load
and not of HTTP requests upon it: the two are not the same number.
"""

from __future__ import annotations

from dataclasses import dataclass

from narrows.measurement import DIRECTIONS, SETTLE_S, Direction, Json, Measurement, Spread, short

GRADES: tuple[tuple[float, str], ...] = ((5, "A+"), (30, "A"), (60, "B"), (200, "C"), (400, "D"))
"""Below so many ms of increase, this grade; F beyond."""

MINUTE_MS = 60_000


@dataclass(frozen=True)
class Answer:
    """The figures that come first; None where that was not measured.

    Attributes:
        rates_mbit: By direction, payload.
        idle: Round trips while nothing else went on.
        loaded: By direction, round trips under its load.
        every: Round trips under any load.
        lost: Share of pings not answered, idle and loaded.
    """

    rates_mbit: dict[Direction, float]
    idle: Spread
    loaded: dict[Direction, Spread]
    every: Spread
    lost: tuple[float | None, float | None]

    @property
    def increase_ms(self) -> float | None:
        """What a round trip takes longer under load: the mean over the directions of the difference of the means."""
        if self.idle.mean is None:
            return None
        more = [s.mean - self.idle.mean for s in self.loaded.values() if s.mean is not None]
        if not more and self.every.mean is not None:
            more = [self.every.mean - self.idle.mean]
        return max(0.0, sum(more) / len(more)) if more else None

    @property
    def grade(self) -> str | None:
        """On DSLReports' scale."""
        more = self.increase_ms
        return None if more is None else grade(more)

    @property
    def trips_per_minute(self) -> float | None:
        """So many round trips, one after the other, fit into a minute under load, by their mean."""
        return MINUTE_MS / self.every.mean if self.every.mean else None

    def json(self) -> Json:
        """For programs; units in the names."""
        return {
            "rates_mbit": {way: short(rate) for way, rate in self.rates_mbit.items()},
            "latency_ms": {
                "idle": self.idle.json(),
                "loaded": self.every.json(),
                **{way: spread.json() for way, spread in self.loaded.items()},
            },
            "increase_ms": short(self.increase_ms),
            "grade": self.grade,
            "grade_scale": SCALE,
            "trips_per_minute": short(self.trips_per_minute),
            "pings_lost": {"idle": short(self.lost[0]), "loaded": short(self.lost[1])},
        }


def grade(increase_ms: float) -> str:
    """The grade of an increase.

    >>> grade(4.9), grade(5), grade(199), grade(400)
    ('A+', 'A', 'C', 'F')
    """
    return next((name for below, name in GRADES if increase_ms < below), "F")


SCALE = ", ".join(f"{name} below {below:g} ms" for below, name in GRADES) + ", F from there on"
"""The scale as it is printed with every grade."""


def answer(measured: Measurement) -> Answer:
    """What it comes to."""
    rates: dict[Direction, float] = {}
    loaded: dict[Direction, Spread] = {}
    ways = {way: measured.loaded(way) for way in DIRECTIONS}
    for way, spans in ways.items():
        rate = measured.rate_mbit(way)
        if rate is not None:
            rates[way] = rate
        if spans:
            spread = measured.under_load(way)
            if spread.n:
                loaded[way] = spread
    # Under load from both sides at once there is one distribution and not two.
    every = measured.rtts(measured.loads(), settle_s=SETTLE_S)
    return Answer(
        rates,
        measured.latency("idle"),
        loaded,
        measured.latency("loaded"),
        (_lost(measured.rtts(measured.spans("idle"))), _lost(every)),
    )


def _lost(rtts: list[float | None]) -> float | None:
    return sum(rtt is None for rtt in rtts) / len(rtts) if rtts else None
