"""The traffic classes of a measurement: goodput and RTT under load by DSCP, as in `rrul`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from narrows.measure.result import DIRECTIONS, SETTLE_S, Direction, Measurement, Spread, short

if TYPE_CHECKING:
    from narrows.measure.model import ClassJson

RRUL = ("BE", "CS1", "CS5", "EF")
"""The classes of the test `rrul`: best effort, background, CS5 and expedited forwarding."""

_NAMES = {
    0: "BE",
    1: "LE",
    44: "VA",
    46: "EF",
    **{8 * x: f"CS{x}" for x in range(1, 8)},
    **{8 * x + 2 * y: f"AF{x}{y}" for x in range(1, 5) for y in range(1, 4)},
}


def name_of(dscp: object) -> str:
    """The name of a DSCP that a result contains as a number or as a name.

    >>> name_of(46), name_of("34"), name_of("cs0"), name_of(None), name_of(3)
    ('EF', 'AF41', 'BE', 'BE', '3')
    """
    text = "0" if dscp is None else f"{dscp:g}" if isinstance(dscp, float) else str(dscp)
    if text.isdecimal():
        return _NAMES.get(int(text), text)
    return "BE" if text.upper() == "CS0" else text.upper()


@dataclass(frozen=True)
class TrafficClass:
    """A traffic class.

    Attributes:
        name: Name of the DSCP.
        rates_mbit: Goodput of all flows of the class by direction, in Mbit/s.
        rtt: RTTs of the pings of the class under load.
        lost: Share of these pings that were not answered; None without pings.
    """

    name: str
    rates_mbit: dict[Direction, float]
    rtt: Spread
    lost: float | None

    def json(self) -> ClassJson:
        """The JSON object, with units in the keys."""
        return {
            "dscp": self.name,
            "rates_mbit": {direction: short(rate) for direction, rate in self.rates_mbit.items()},
            "rtt_ms": self.rtt.json(),
            "pings_lost": short(self.lost),
        }


def classes(measured: Measurement) -> tuple[TrafficClass, ...]:
    """The traffic classes in the order of the flows; none if all flows have the same DSCP."""
    of_flows = [name_of(flow.told.get("dscp")) for flow in measured.flows]
    names = list(dict.fromkeys(of_flows))
    if len(names) < 2:  # noqa: PLR2004 - one class needs no table
        return ()
    return tuple(_class(measured, name, of_flows) for name in names)


def _class(measured: Measurement, name: str, of_flows: list[str]) -> TrafficClass:
    rates: dict[Direction, float] = {}
    for direction in DIRECTIONS:
        mine = [
            flow.goodput_mbit
            for flow, of in zip(measured.flows, of_flows, strict=True)
            if of == name and flow.direction == direction and flow.goodput_mbit is not None
        ]
        if mine:
            phases = max(1, len(measured.loads(direction)))
            rates[direction] = math.fsum(mine) / phases
    trains = [train for train in measured.pings if name_of(train.dscp) == name]
    rtts = measured.rtts(measured.loads(), settle_s=SETTLE_S, trains=trains)
    lost = sum(rtt is None for rtt in rtts) / len(rtts) if rtts else None
    return TrafficClass(name, rates, Spread.of(rtts), lost)
