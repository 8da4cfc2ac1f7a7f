"""The objectives of the search: a problem of a scenario as one number for each run.

Arun, Alizadeh and Balakrishnan ("Starvation in End-to-End Congestion Control", SIGCOMM 2022) call a
flow starved if the ratio of goodputs is not bounded. As in `narrows conform`, the limit is about a
tenth.

A standing queue is a queue that does not drain. Nichols and Jacobson ("Controlling Queue Delay",
ACM Queue 10, 2012) measure it by the minimum delay over an interval. Deviation: the median delay of
the run, as in `narrows conform`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narrows.sweeps.rows import Row

COLUMNS = ("flow", "goodput_mbit", "queue_delay_p50_ms", "rtt_ms", "rate_mbit")
"""The columns of a run that the objectives read."""

Measure = Callable[["Sequence[Row]", "str | None"], "float | None"]
"""A function from the rows of a run and the flow that `--flow` names to the value in percent."""


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A problem that the search makes as large as possible.

    Attributes:
        name: The name, as the value of `--for`.
        what: The quantity.
        measure: The function that computes it.
        limit: Default limit in percent; a value beyond it counts as a problem.
        large: Whether large values are bad; small ones are otherwise.
        several_flows: Whether the quantity compares flows, so that one flow has no problem.
        one_flow: Whether the quantity is that of one flow, which `--flow` can name.
    """

    name: str
    what: str
    measure: Measure
    limit: float
    large: bool = False
    several_flows: bool = False
    one_flow: bool = False

    def beyond(self, value: float | None, limit: float) -> bool:
        """Whether a value counts as a problem."""
        return value is not None and (value > limit if self.large else value < limit)

    def cost(self, value: float) -> float:
        """The value as a number that the search minimises."""
        return -value if self.large else value

    def worst(self, values: Sequence[float]) -> float:
        """The worst of several values."""
        return max(values) if self.large else min(values)


def _goodputs(rows: Sequence[Row]) -> dict[str, float] | None:
    """The goodput of each flow; None if it is not known for all, or 0 for all."""
    found = {row["flow"]: row["goodput_mbit"] for row in rows if row.get("flow") is not None}
    known = [value for value in found.values() if value is not None]
    return found if len(known) == len(found) and math.fsum(known) > 0 else None


def _share(rows: Sequence[Row], flow: str | None) -> float | None:
    goodputs = _goodputs(rows)
    if goodputs is None or (flow is not None and flow not in goodputs):
        return None
    own = min(goodputs.values()) if flow is None else goodputs[flow]
    return 100.0 * own * len(goodputs) / math.fsum(goodputs.values())


def _starvation(rows: Sequence[Row], _flow: str | None) -> float | None:
    goodputs = _goodputs(rows)
    if goodputs is None:
        return None
    return 100.0 * min(goodputs.values()) / max(goodputs.values())


def _queue(rows: Sequence[Row], _flow: str | None) -> float | None:
    delay, base = rows[0]["queue_delay_p50_ms"], rows[0]["rtt_ms"]
    return 100.0 * float(delay) / float(base) if delay is not None and base else None


def _collapse(rows: Sequence[Row], _flow: str | None) -> float | None:
    known = [row["goodput_mbit"] for row in rows]
    rate = rows[0]["rate_mbit"]
    if not rate or any(value is None for value in known):
        return None
    return 100.0 * math.fsum(known) / float(rate)


OBJECTIVES = {
    of.name: of
    for of in (
        Objective(
            name="share",
            what="smallest goodput of a flow, in percent of the mean over all flows",
            measure=_share,
            limit=20.0,
            several_flows=True,
            one_flow=True,
        ),
        Objective(
            name="starvation",
            what="smallest goodput of a flow, in percent of the largest",
            measure=_starvation,
            limit=10.0,
            several_flows=True,
        ),
        Objective(
            name="queue",
            what="median queueing delay at the bottleneck, in percent of the base RTT",
            measure=_queue,
            limit=100.0,
            large=True,
        ),
        Objective(
            name="collapse",
            what="goodput of all flows, in percent of the bottleneck rate",
            measure=_collapse,
            limit=50.0,
        ),
    )
}
"""The objectives by name."""
