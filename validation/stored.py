"""The recorded cases of Linux: `sim/tests/data/reference/*.txt`, whose headers describe the format
and the source.
"""

from __future__ import annotations

import json
import math
import statistics
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from narrows import _core

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "sim/tests/data/reference"

GRID = frozenset(
    {
        ("A", 10.0, 20.0),
        ("A", 50.0, 40.0),
        ("A", 50.0, 100.0),
        ("B", 50.0, 100.0),
        ("C", 40.0, 40.0),
    }
    | {("D", 100.0, 40.0), ("H", 20.0, 200.0), ("I", 40.0, 40.0), ("F", 20.0, 40.0)}
    | {("G", 100.0, 1.0), ("G", 100.0, 5.0), ("G", 20.0, 40.0)}
    | {("E", rate, rtt) for rate in (2.0, 4.0) for rtt in (10.0, 50.0)}
)
"""Family, rate and RTT of the cases that were recorded first. The criteria apply to these. The
other cases were added to test other paths."""

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One metric of a case.

    Attributes:
        name: The name, as in the file.
        cc: The congestion control to which it belongs; empty for metrics of the path.
        runs: Its value in each recorded run, in their order.
        late: Whether it was recorded one RTT late and is not compared
            (`evidence/first-neighbour.md`).
    """

    name: str
    cc: str
    runs: tuple[float, ...]
    late: bool

    @property
    def label(self) -> str:
        """Name and congestion control."""
        return f"{self.name} {self.cc}".strip()

    @property
    def kind(self) -> str:
        """The name without its time."""
        return self.name.partition("_at_")[0]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One recorded case.

    Attributes:
        name: The name, whose first letter is the family.
        toml: The scenario in the format of narrows.
        figures: The recorded metrics.
        scenario: The same scenario as nested tables.
    """

    name: str
    toml: str
    figures: tuple[Figure, ...]
    scenario: Json = field(hash=False, compare=False)

    @property
    def family(self) -> str:
        """The family of the case; the headers of the files describe the families."""
        return self.name.partition("-")[0]

    @property
    def compared(self) -> tuple[Figure, ...]:
        """The metrics that decide whether the case agrees."""
        return tuple(figure for figure in self.figures if not figure.late)

    @property
    def flows(self) -> list[Json]:
        """Its flows."""
        flows: list[Json] = self.scenario["flow"]
        return flows

    @property
    def ccs(self) -> frozenset[str]:
        """Its congestion controls."""
        return frozenset(flow["cc"] for flow in self.flows)

    @property
    def queue(self) -> str:
        """The queue discipline at the bottleneck."""
        return kind(self.scenario["path"].get("queue", "fifo"))

    @property
    def recorded(self) -> int:
        """Number of recorded runs."""
        return max(len(f.runs) for f in self.figures)

    @property
    def on_grid(self) -> bool:
        """Whether it is one of the cases that were recorded first."""
        return (self.family, self.rate_mbit, self.rtt_ms) in GRID and self.flows[0]["start"] == "0s"

    @property
    def rate_mbit(self) -> float:
        """Rate of the bottleneck, in Mbit/s; that of a policer, if there is one."""
        path = self.scenario["path"]
        rate = path.get("policer", path)["rate"]
        return 1000 * number(rate, "Gbit") if rate.endswith("Gbit") else number(rate, "Mbit")

    @property
    def rtt_ms(self) -> float:
        """Base RTT, in ms."""
        return number(self.scenario["path"]["rtt"], "ms")

    @property
    def buffer_bytes(self) -> float | None:
        """Buffer of a drop-tail bottleneck, in bytes; None with a policer or another discipline."""
        path = self.scenario["path"]
        return None if "policer" in path or "queue" in path else number(path["buffer"], "B")

    @property
    def duration_s(self) -> float:
        """Duration of a run, in s."""
        return number(self.scenario["duration"], "s")

    @property
    def loss(self) -> float:
        """Probability of random loss."""
        return number(self.scenario["path"].get("loss", "0%"), "%") / 100

    @property
    def cost(self) -> float:
        """Approximate number of packets of a run."""
        return self.rate_mbit * self.duration_s * (0.01 if "size" in self.flows[0] else 1.0)


def number(text: str, unit: str) -> float:
    """The number of a quantity in the unit that these files use.

    >>> number("0.5Mbit", "Mbit"), number("20%", "%")
    (0.5, 20.0)
    """
    if not text.endswith(unit):
        raise ValueError(f"{text!r} is not written in {unit}")
    return float(text.removesuffix(unit))


def kind(choice: str | Json) -> str:
    """The name in `"codel"` or in `{ kind = "codel", ecn = true }`.

    >>> kind("codel"), kind({"kind": "codel", "ecn": True})
    ('codel', 'codel')
    """
    return choice if isinstance(choice, str) else str(choice["kind"])


def cases() -> list[Case]:
    """Every stored case, by name.

    >>> " ".join(sorted({case.family for case in cases()}))
    'A B C D E F G H I N O'
    """
    every: list[Case] = []
    for file in sorted(DATA.glob("*.txt")):
        lines = file.read_text(encoding="utf-8").splitlines()
        text = "\n".join(line for line in lines if not line.startswith("#"))
        every += map(_case, text.split("== ")[1:])
    return sorted(every, key=lambda case: case.name)


def _case(text: str) -> Case:
    head, _, body = text.partition("\n--\n")
    name, _, toml = head.partition("\n")
    figures = tuple(_figure(line) for line in body.splitlines() if line)
    return Case(name=name, toml=toml, figures=figures, scenario=tomllib.loads(toml))


def _figure(line: str) -> Figure:
    late = line.startswith("late ")
    name, cc, *runs = line.removeprefix("late ").split()
    return Figure(name=name, cc="" if cc == "-" else cc, runs=tuple(map(float, runs)), late=late)


@cache
def known() -> tuple[frozenset[str], frozenset[str]]:
    """The congestion controls and the queue disciplines that this version has."""
    listed = json.loads(_core.list_json())
    ccs, queues = (frozenset(entry["name"] for entry in listed[kind]) for kind in ("cc", "queue"))
    return ccs, queues


def missing(case: Case) -> frozenset[str]:
    """The names of models that the case needs and this version does not have."""
    ccs, queues = known()
    return (case.ccs - ccs) | ({case.queue} - queues)


def value(run: Json, figure: Figure) -> float:
    """The value of a stored metric in a run of narrows, or in data of the same form; NaN if it has
    none.
    """
    if not figure.cc:
        return float(
            run["probes"][0]["rtt_ms"][figure.name.removeprefix("ping_").removesuffix("_ms")]
        )
    flows = [flow for flow in run["flows"] if flow["cc"] == figure.cc]
    if figure.kind == "acked_mb":
        t_s = number(figure.name.removeprefix("acked_mb_at_"), "s")
        series = flows[0]["series"]
        return min(series, key=lambda row: abs(row[0] - t_s))[1] / 1e6 if series else math.nan
    return _OF_FLOWS[figure.name](flows)


def _jain(flows: list[Json]) -> float:
    goodputs = [f["active_goodput_mbit"] or 0 for f in flows]
    squares = sum(x * x for x in goodputs)
    return sum(goodputs) ** 2 / (len(goodputs) * squares) if squares else 0.0


_OF_FLOWS: dict[str, Callable[[list[Json]], float]] = {
    "fct_s": lambda flows: next((f["fct_s"] for f in flows if f["fct_s"] is not None), math.inf),
    "goodput_mbit": lambda flows: sum(f["active_goodput_mbit"] or 0.0 for f in flows),
    "jain": _jain,
    "srtt_ms": lambda flows: statistics.mean(f["sampled_rtt_ms"]["mean"] or 0.0 for f in flows),
    "retransmit_pct": lambda flows: statistics.mean(
        100 * (f["run_retransmit_rate"] or 0.0) for f in flows
    ),
    "cwnd_mean": lambda flows: flows[0]["cwnd_packets"]["mean"] or 0.0,
    "cwnd_p5": lambda flows: flows[0]["cwnd_packets"]["p5"] or 0.0,
    "cwnd_p95": lambda flows: flows[0]["cwnd_packets"]["p95"] or 0.0,
}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The comparison of one metric of a case with Linux.

    Attributes:
        case: The case.
        figure: The metric.
        linux: The median of the runs of Linux.
        ours: The median of the seeds of narrows, or another value that was compared.
        tolerance: The tolerance in the unit of the metric, or as the logarithm of a ratio.
        agrees: Whether the difference is within the tolerance.
    """

    case: Case
    figure: Figure
    linux: float
    ours: float
    tolerance: float
    agrees: bool

    @property
    def off(self) -> float:
        """The difference, relative to Linux."""
        return abs(self.ours - self.linux) / (0.1 + abs(self.linux))

    def json(self) -> Json:
        """The comparison as JSON."""
        return {
            "case": self.case.name,
            "figure": self.figure.label,
            "linux": _finite(self.linux),
            "linux_runs": [_finite(x) for x in self.figure.runs],
            "ours": _finite(self.ours),
            "tolerance": _finite(self.tolerance),
            "agrees": self.agrees,
        }


def _finite(x: float) -> float | None:
    return float(f"{x:.6g}") if math.isfinite(x) else None


def judge(
    case: Case, figure: Figure, ours: float, runs: tuple[float, ...] | None = None
) -> Verdict:
    """Compares `ours` with the recorded runs of a metric, or with some of them."""
    agrees, linux, tolerance = _core.compare_metric(
        figure.name,
        list(figure.runs if runs is None else runs),
        ours,
        rate_mbit=case.rate_mbit,
        rtt_ms=case.rtt_ms,
        duration_s=case.duration_s,
        flows=len(case.flows),
    )
    return Verdict(
        case=case, figure=figure, linux=linux, ours=ours, tolerance=tolerance, agrees=agrees
    )
