"""Lines about each interval, while a measurement runs: transferred data, goodput and RTT.

`narrows-host measure` computes the values. They are preliminary: the results of the measurement
come from all of its samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from narrows.measure.result import LOADS, Direction
from narrows.render.words import millis, number

_UNKNOWN = "–"
_COLUMNS = (
    ("load", 24),
    ("transferred MB", 14),
    ("goodput Mbit/s", 14),
    ("mean RTT of pings ms", 20),
    ("retransmits", 11),
)

HEAD = "       time s  " + "  ".join(
    name.ljust(width) if at == 0 else name.rjust(width) for at, (name, width) in enumerate(_COLUMNS)
)
"""The names of the columns."""


@dataclass(frozen=True)
class Interval:
    """An interval; None for unknown values.

    Attributes:
        from_s: Start, in s since the start of the measurement.
        to_s: End, in s.
        phase: Name of the phase.
        direction: Direction of the load, or None without a load.
        cc: Requested congestion control of the load.
        moved_bytes: Payload that the load transferred in the interval.
        rtt_ms: Mean RTT of the pings that were answered in the interval.
        retransmits: Number of retransmitted segments of the load.
    """

    from_s: float
    to_s: float
    phase: str
    direction: Direction | None
    cc: str | None
    moved_bytes: int | None
    rtt_ms: float | None
    retransmits: int | None

    @staticmethod
    def of(words: Sequence[str]) -> Interval:
        """The interval that a line of `narrows-host` describes.

        >>> Interval.of("1.000 2.000 loaded down cubic 2500000 41.5 -".split()).moved_bytes
        2500000
        """
        begin, end, phase, direction, cc, moved, rtt, retransmits = words
        return Interval(
            float(begin),
            float(end),
            phase,
            "down" if direction == "down" else "up" if direction == "up" else None,
            None if cc == "-" else cc,
            None if moved == "-" else int(moved),
            None if rtt == "-" else float(rtt),
            None if retransmits == "-" else int(retransmits),
        )

    def later(self, by_s: float) -> Interval:
        """The same interval on the time axis of a measurement that has earlier parts."""
        return replace(self, from_s=self.from_s + by_s, to_s=self.to_s + by_s)

    @property
    def goodput_mbit(self) -> float | None:
        """Goodput in the interval, in Mbit/s."""
        if self.moved_bytes is None or self.to_s <= self.from_s:
            return None
        return self.moved_bytes * 8e-6 / (self.to_s - self.from_s)

    def line(self) -> str:
        """The line, with the columns of `HEAD`."""
        load = LOADS[self.direction] if self.direction else self.phase
        cells = (
            f"{load}, {self.cc}" if self.cc and self.direction else load,
            _UNKNOWN if self.moved_bytes is None else number(self.moved_bytes / 1e6, 2),
            number(self.goodput_mbit, 2),
            millis(self.rtt_ms),
            _UNKNOWN if self.retransmits is None else f"{self.retransmits}",
        )
        shown = [
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, (_, width)) in enumerate(zip(cells, _COLUMNS, strict=True))
        ]
        return "  ".join([f"{self.from_s:6.2f}–{self.to_s:6.2f}", *shown])
