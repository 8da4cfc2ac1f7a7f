"""The path model that `infer` returns, with the estimates for each direction."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TypedDict, cast

from narrows.json_object import JsonObject
from narrows.measure.result import Direction, short
from narrows.path_model.fit import (
    FAIR,
    Guess,
)
from narrows.path_model.known import Known, KnownJson
from narrows.path_model.others import Others
from narrows.runs.scenario import Hop, Path


class DirectionJson(TypedDict):
    """The JSON object of a `DirectionModel`."""

    queue: str
    family: str
    sure: str
    rate_mbit: KnownJson
    available_mbit: KnownJson
    rate_varies: bool | None
    buffer_bytes: KnownJson
    policer: bool
    burst_bytes: KnownJson
    aqm: bool
    fair_queueing: bool
    loss: KnownJson
    filled: bool
    unlike: dict[str, float | None]
    others_traffic: bool | None
    others_why: str
    why: str


class DirectionsJson(TypedDict, total=False):
    """The models of the loaded directions."""

    up: DirectionJson
    down: DirectionJson


class MarksJson(TypedDict, total=False):
    """The treatment of ECN and DSCP in the measurement. The keys are whether all flows negotiated
    ECN, the largest CE mark rate of a flow, and whether the path preserved DSCP.
    """

    negotiated: bool | None
    ce_rate: float | None
    dscp_survives: bool | None


class PathModelJson(DirectionsJson):
    """The path model as `narrows model --json` prints it; `path` has the keys of a scenario's
    `[path]` section.
    """

    rtt_ms: KnownJson
    others_traffic: bool | None
    marks: MarksJson
    path: JsonObject


@dataclass(frozen=True)
class DirectionModel:
    """The model of one direction.

    Attributes:
        guess: The hop of the path model.
        family: `drop-tail`, `policer`, `aqm` or `fair`.
        sure: Certainty of the family: `sure`, `likely` or `cannot tell`.
        rate: Rate of the link or the policer, in Mbit/s of whole frames.
        varies: Whether the rate of the link varies over time; None if unknown.
        depth: Size of a drop-tail buffer, in bytes.
        burst: Burst size of a policer, in bytes.
        loss: Random loss as share of packets: 0 if the queue explains all losses, and a value of
            None if it is unknown.
        filled: Whether the load filled the link.
        alike: Distance of the best simulation with each queue discipline from the measurement;
            random differences alone cause about 0.2.
        others: Whether cross traffic used a part of the link, with the reason or the limit.
        why: Reason for an uncertain family; empty if it is sure.
        left: Rate available to this load, in Mbit/s: the rate of the link minus that of cross
            traffic.
        unsteady: Reason why the load does not exclude varying cross traffic; empty if it does.
    """

    guess: Guess
    family: str
    sure: str
    rate: Known
    varies: bool | None
    depth: Known
    burst: Known
    loss: Known
    filled: bool
    alike: dict[str, float] = field(default_factory=dict)
    others: Others = field(default_factory=lambda: Others(None))
    why: str = ""
    left: Known = field(default_factory=lambda: Known(None))
    unsteady: str = ""

    def json(self) -> DirectionJson:
        """The JSON object, with rates in Mbit/s and sizes in bytes."""
        return {
            "queue": self.guess.kind if self.guess.kind != "policer" else "fifo",
            "family": self.family,
            "sure": self.sure,
            "rate_mbit": self.rate.json(),
            "available_mbit": self.left.json(),
            "rate_varies": self.varies,
            "buffer_bytes": self.depth.json(),
            "policer": self.family == "policer",
            "burst_bytes": self.burst.json(),
            "aqm": self.family == "aqm" or self.guess.kind in FAIR,
            "fair_queueing": self.family == "fair",
            "loss": self.loss.json(),
            "filled": self.filled,
            "unlike": {kind: short(value) for kind, value in self.alike.items()},
            "others_traffic": self.others.seen,
            "others_why": self.others.why,
            "why": self.why,
        }

    def unknown(self) -> list[str]:
        """The assumptions that the path makes about unknown quantities, one clause each."""
        out = [f"the queue is assumed: {self.why}"] if self.sure == "cannot tell" else []
        for name, known in (
            ("rate", self.rate),
            ("buffer", self.depth),
            ("random loss", self.loss),
        ):
            assumed = known.value is None and (name != "buffer" or self.family == "drop-tail")
            if (assumed or (known.high is None and known.value is not None)) and known.why:
                out.append(
                    f"the {name} is {'assumed' if assumed else 'a lower limit'}: {known.why}"
                )
        return list(dict.fromkeys(out))


@dataclass(frozen=True)
class PathModel:
    """The model of a path.

    Attributes:
        rtt: The base RTT, in ms.
        directions: The model of each loaded direction.
        others: Whether there was cross traffic: true if it was detected in a direction, false if it
            was excluded in all, None otherwise.
        marks: The treatment of ECN and DSCP in the measurement: `negotiated`, `ce_rate`,
            `dscp_survives`.
    """

    rtt: Known
    directions: dict[Direction, DirectionModel]
    others: bool | None
    marks: MarksJson

    def path(self) -> Path:
        """The path as a Python object, with assumed values for unknown quantities."""
        rtt = f"{max(0.001, self.rtt.value or 0.001):.4g}ms"
        down, up = (self.directions.get(direction) for direction in ("down", "up"))
        forward, backward = (_keys(down), _keys(up)) if down else (_keys(up), None)
        reverse = None if backward is None or up is None else Hop(**backward)
        return Path(rtt=rtt, reverse=reverse, **(forward or {}))

    def toml(self) -> str:
        """The `[path]` section of a scenario for `narrows run`. Comments list the assumptions about
        unknown quantities.
        """
        said = [
            f"# {name}: {what}\n"
            for name, model in self.directions.items()
            for what in model.unknown()
        ]
        return "".join(said) + _section(self.path().tree(), "path")

    def json(self) -> PathModelJson:
        """The JSON object that `narrows model --json` prints."""
        return {
            "rtt_ms": self.rtt.json(),
            **self._directions(),
            "others_traffic": self.others,
            "marks": self.marks,
            "path": self.path().tree(),
        }

    def _directions(self) -> DirectionsJson:
        """The JSON objects of the loaded directions, in the order of the measurement."""
        return cast(
            "DirectionsJson",
            {direction: model.json() for direction, model in self.directions.items()},
        )


def _keys(model: DirectionModel | None) -> JsonObject | None:
    return None if model is None else model.guess.keys()


def _section(table: JsonObject, name: str) -> str:
    plain = {k: v for k, v in table.items() if not (isinstance(v, dict) and k == "reverse")}
    lines = [f"[{name}]", *(f"{k} = {_value(v)}" for k, v in plain.items())]
    text = "\n".join(lines) + "\n"
    return text + (
        "\n" + _section(table["reverse"], f"{name}.reverse") if "reverse" in table else ""
    )


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_value(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)
