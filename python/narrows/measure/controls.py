"""The congestion controls of a measurement with several: goodput and retransmits of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from narrows.measure.result import DIRECTIONS, Direction, Measurement, short

if TYPE_CHECKING:
    from narrows.measure.model import ControlJson


@dataclass(frozen=True)
class Control:
    """The flows of a congestion control in one direction, over all of its load phases.

    Attributes:
        cc: Name of the congestion control.
        direction: Direction of the flows.
        flows: Number of flows.
        goodput_mbit: Goodput of all flows together, over the time in which any of them sent, in
            Mbit/s.
        retransmits: Number of retransmitted segments; None if it is unknown for a flow.
    """

    cc: str
    direction: Direction
    flows: int
    goodput_mbit: float
    retransmits: int | None

    def json(self) -> ControlJson:
        """The JSON object, with units in the keys."""
        return {
            "cc": self.cc,
            "direction": self.direction,
            "flows": self.flows,
            "goodput_mbit": short(self.goodput_mbit),
            "retransmits": self.retransmits,
        }


def controls(measured: Measurement) -> tuple[Control, ...]:
    """The congestion controls in the order of the flows; none if all flows have the same."""
    names = list(dict.fromkeys(f.cc for f in measured.flows if f.cc is not None))
    if len(names) < 2:  # noqa: PLR2004 - one congestion control needs no table
        return ()
    found = (_control(measured, cc, each) for cc in names for each in DIRECTIONS[::-1])
    return tuple(one for one in found if one is not None)


def _control(measured: Measurement, cc: str, direction: Direction) -> Control | None:
    own = [
        f
        for f in measured.flows
        if (f.direction, f.cc) == (direction, cc) and f.goodput_mbit is not None
    ]
    time = math.fsum(end - begin for begin, end in measured.loads(direction, cc))
    if not own or time <= 0:
        return None
    bits = math.fsum((f.goodput_mbit or 0) * (f.to_s - f.from_s) for f in own)
    again = [f.figure("retransmits") for f in own]
    known = [n for n in again if n is not None]
    return Control(
        cc, direction, len(own), bits / time, round(sum(known)) if len(known) == len(own) else None
    )
