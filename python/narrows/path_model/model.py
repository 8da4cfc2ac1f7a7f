"""The model of a path, as `infer` returns it: each direction with its estimates."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from narrows.measure.result import Direction, Json, short
from narrows.path_model.fit import (
    FAIR,
    Guess,
)
from narrows.path_model.known import Known
from narrows.path_model.others import Others
from narrows.runs.scenario import Hop, Path


@dataclass(frozen=True)
class Way:
    """What one direction is like.

    Attributes:
        guess: The hop of the twin.
        family: `drop-tail`, `policer`, `aqm` or `fair`.
        sure: `sure`, `likely` or `cannot tell`, of the family.
        rate: Of the link or the policer, Mbit/s of whole frames.
        varies: Does the rate vary? None where that cannot be told.
        depth: Of a drop-tail buffer, bytes.
        burst: Of a policer, bytes.
        loss: By chance, share of packets: 0 where the queue explains all losses, no value where
            that cannot be told.
        filled: Was it ever full?
        alike: By kind, how unlike the measurement it looks; about 0.2 is chance.
        others: Whether others' traffic took a part of it.
        why: Why the family cannot be told, or not better.
        left: The rate that was left to this load, Mbit/s: that of the link, less what others'
            traffic took.
        unsteady: Why its load does not exclude others who come and go; empty where it does.
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

    def json(self) -> Json:
        """For programs; rates in Mbit/s, sizes in bytes."""
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
        """What of the hop is assumed, a sentence each: nothing of it was measured."""
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
class Twin:
    """The model of a path.

    Attributes:
        rtt: The base round trip, ms.
        ways: By direction that was loaded.
        others: Does somebody else's traffic show in the idle pings? None where there were none.
        marks: What became of ECN and DSCP, as the measurement says: `negotiated`, `ce_rate`,
            `dscp_survives`.
    """

    rtt: Known
    ways: dict[Direction, Way]
    others: bool | None
    marks: Json

    def path(self) -> Path:
        """The path as Python has it."""
        rtt = f"{max(0.001, self.rtt.value or 0.001):.4g}ms"
        down, up = (self.ways.get(way) for way in ("down", "up"))
        ahead, back = (_keys(down), _keys(up)) if down else (_keys(up), None)
        reverse = None if back is None or up is None else Hop(**back)
        return Path(rtt=rtt, reverse=reverse, **(ahead or {}))

    def toml(self) -> str:
        """A `[path]`, to which `narrows run` needs flows only; comments say what of it was not
        measured.
        """
        said = [f"# {name}: {what}\n" for name, way in self.ways.items() for what in way.unknown()]
        return "".join(said) + _section(self.path().tree(), "path")

    def json(self) -> Json:
        """For programs."""
        return {
            "rtt_ms": self.rtt.json(),
            **{way: model.json() for way, model in self.ways.items()},
            "others_traffic": self.others,
            "marks": self.marks,
            "path": self.path().tree(),
        }


def _keys(way: Way | None) -> dict[str, Any] | None:
    return None if way is None else way.guess.keys()


def _section(table: Json, name: str) -> str:
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
