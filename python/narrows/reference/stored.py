"""Stored reference cases: their file format, and the comparison of a run with a case.

A file has comments (`#`) and cases. A case begins with a line of `==` and its name. Its scenario in
TOML, a line with `--`, and a line for each metric ("figure") follow. The line of a metric begins
with its name and the congestion control that it describes (`-` for the path). Its value in each
recorded run follows. A metric of the first seconds has a single value, because the later runs start
later. The word `late` before a metric excludes it from the comparison.

The first part of the name of a case, up to the first hyphen, is its family.

| figure | meaning |
|---|---|
| `goodput_mbit`, `srtt_ms`, `cwnd_*`, `jain` | after the warm-up |
| `retransmit_pct` | retransmitted share of the bytes of the whole run |
| `acked_mb_at_1s` | acknowledged bytes at this time |
| `fct_s`, `fct_p50_s` | completion time of a transfer, percentile of several; `inf`: unfinished |
| `ping_p50_ms` | RTT of pings after the warm-up |
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from narrows import _core
from narrows.errors import NarrowsError
from narrows.json_object import JsonObject
from narrows.reference.model import VerdictJson

if TYPE_CHECKING:
    from narrows.runs.model import FlowJson, RunJson


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One metric of a case.

    Attributes:
        name: The name of the metric.
        cc: The congestion control whose flows the metric describes; empty for the path.
        runs: The value in each recorded run, in their order.
        late: True if the metric is excluded from the comparison.
    """

    name: str
    cc: str
    runs: tuple[float, ...]
    late: bool

    @property
    def label(self) -> str:
        """The name of the metric and its congestion control, as text."""
        return f"{self.name} {self.cc}".strip()

    @property
    def kind(self) -> str:
        """The name of the metric without the time in it, such as `acked_mb`."""
        return self.name.partition("_at_")[0]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One recorded case.

    Attributes:
        name: The name, which begins with the family and a hyphen.
        toml: The scenario.
        figures: The recorded metrics.
        scenario: The same scenario as nested tables.
    """

    name: str
    toml: str
    figures: tuple[Figure, ...]
    scenario: JsonObject = field(hash=False, compare=False)

    @property
    def family(self) -> str:
        """The family of the case: its name up to the first hyphen."""
        return self.name.partition("-")[0]

    @property
    def compared(self) -> tuple[Figure, ...]:
        """The metrics that determine whether the case agrees."""
        return tuple(figure for figure in self.figures if not figure.late)

    @property
    def flows(self) -> list[JsonObject]:
        """The flow tables of the scenario; a table with a `count` is one entry."""
        flows: list[JsonObject] = self.scenario["flow"]
        return flows

    @property
    def flow_count(self) -> int:
        """Number of flows, each `count` included."""
        return sum(flow.get("count", 1) for flow in self.flows)

    @property
    def ccs(self) -> frozenset[str]:
        """The congestion controls of its flows."""
        return frozenset(flow["cc"] for flow in self.flows)

    @property
    def queue(self) -> str:
        """The queue discipline of the bottleneck."""
        return kind(self.scenario["path"].get("queue", "fifo"))

    @property
    def recorded(self) -> int:
        """Number of recorded runs."""
        return max(len(f.runs) for f in self.figures)

    @property
    def rate_mbit(self) -> float:
        """Rate of the bottleneck, or of its policer, in Mbit/s."""
        path = self.scenario["path"]
        if "hop" in path:
            return float(_core.path_numbers(self.scenario)["rate_mbit"])
        rate = path.get("policer", path)["rate"]
        return 1000 * number(rate, "Gbit") if rate.endswith("Gbit") else number(rate, "Mbit")

    @property
    def rtt_ms(self) -> float:
        """Base RTT of the path, in ms."""
        if "hop" in self.scenario["path"]:
            return float(_core.path_numbers(self.scenario)["rtts_ms"][0])
        return number(self.scenario["path"]["rtt"], "ms")

    @property
    def buffer_bytes(self) -> float | None:
        """Buffer of a drop-tail bottleneck, in bytes; None with a policer, with another queue
        discipline, or with several hops.
        """
        path = self.scenario["path"]
        if {"policer", "queue", "hop"} & set(path):
            return None
        if path["buffer"].endswith("bdp"):
            return number(path["buffer"], "bdp") * self.rate_mbit * self.rtt_ms * 125
        return number(path["buffer"], "B")

    @property
    def duration_s(self) -> float:
        """Duration of a run, in s."""
        return number(self.scenario["duration"], "s")

    @property
    def loss(self) -> float:
        """Share of randomly lost packets."""
        loss = self.scenario["path"].get("loss", "0%")
        if isinstance(loss, dict):
            return float(_core.path_numbers(self.scenario)["loss"])
        return number(loss, "%") / 100

    @property
    def cost(self) -> float:
        """Estimate of the run time, proportional to the number of packets, in an arbitrary unit."""
        return self.rate_mbit * self.duration_s * (0.01 if "size" in self.flows[0] else 1.0)


def number(text: str, unit: str) -> float:
    """The number in a quantity with this unit. Only the parser of scenarios knows other units.

    >>> number("0.5Mbit", "Mbit"), number("20%", "%")
    (0.5, 20.0)
    """
    if not text.endswith(unit):
        raise ValueError(f"{text!r} is not written in {unit}")
    return float(text.removesuffix(unit))


def kind(choice: str | JsonObject) -> str:
    """The name of a queue discipline that is written as `"codel"` or as `{ kind = "codel", ecn =
    true }`.

    >>> kind("codel"), kind({"kind": "codel", "ecn": True})
    ('codel', 'codel')
    """
    return choice if isinstance(choice, str) else str(choice["kind"])


AnyCase = TypeVar("AnyCase", bound=Case)


def parse(text: str, make: type[AnyCase]) -> list[AnyCase]:
    r"""Parses the text of a file into cases, as objects of the class `make`.

    >>> text = "== x-1\nduration = '2s'\n[[flow]]\ncc = 'bbr'\n--\nfct_s bbr 1 2\n"
    >>> (case,) = parse(text, Case)
    >>> case.family, case.duration_s, case.figures[0].runs
    ('x', 2.0, (1.0, 2.0))

    Raises:
        NarrowsError: If the text does not have this format.
    """
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = []
    for part in "\n".join(("", *lines, "")).split("\n== ")[1:]:
        head, _, body = part.partition("\n--\n")
        name, _, toml = head.partition("\n")
        try:
            figures = tuple(_figure(line) for line in body.splitlines() if line)
            scenario = _core.toml_tables(toml, f"case {name}")
        except ValueError as error:
            raise NarrowsError(f"case {name}: {error}") from error
        found.append(make(name=name, toml=f"{toml}\n", figures=figures, scenario=scenario))
    return found


def written(case: Case) -> str:
    """A case in the format of a file."""
    lines = [f"== {case.name}", case.toml.rstrip("\n"), "--"]
    for figure in case.figures:
        values = " ".join(f"{x:.6g}" for x in figure.runs)
        lines.append(f"{'late ' if figure.late else ''}{figure.name} {figure.cc or '-'} {values}")
    return "\n".join(lines) + "\n"


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
    """The congestion controls and queue disciplines of the case that this version lacks."""
    ccs, queues = known()
    return (case.ccs - ccs) | ({case.queue} - queues)


def value(run: RunJson, figure: Figure) -> float:
    """The value of a metric in a run; NaN if the run does not have it."""
    if not figure.cc:
        of = figure.name.removeprefix("ping_").removesuffix("_ms")
        found = run["probes"][0]["rtt_ms"][of]
        return math.nan if found is None else found
    flows = [flow for flow in run["flows"] if flow["cc"] == figure.cc]
    if figure.kind == "acked_mb":
        t_s = number(figure.name.removeprefix("acked_mb_at_"), "s")
        series = flows[0]["series"]
        return min(series, key=lambda row: abs(row[0] - t_s))[1] / 1e6 if series else math.nan
    if match := _PERCENTILE.fullmatch(figure.name):
        times = sorted(math.inf if f["fct_s"] is None else f["fct_s"] for f in flows)
        return float(times[min(len(times) - 1, len(times) * int(match[1]) // 100)])
    return _OF_FLOWS[figure.name](flows)


_PERCENTILE = re.compile(r"fct_p(\d\d)_s")


def _jain(flows: list[FlowJson]) -> float:
    goodputs = [f["active_goodput_mbit"] or 0 for f in flows]
    squares = sum(x * x for x in goodputs)
    return sum(goodputs) ** 2 / (len(goodputs) * squares) if squares else 0.0


_OF_FLOWS: dict[str, Callable[[list[FlowJson]], float]] = {
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
        ours: The compared value, such as the median of several seeds.
        tolerance: The maximum accepted difference, in the unit of the metric or as the logarithm of
            a ratio.
        agrees: True if the difference is at most the tolerance.
    """

    case: Case
    figure: Figure
    linux: float
    ours: float
    tolerance: float
    agrees: bool

    @property
    def off(self) -> float:
        """Difference from Linux, divided by the value of Linux plus 0.1."""
        return abs(self.ours - self.linux) / (0.1 + abs(self.linux))

    def json(self) -> VerdictJson:
        """The JSON object of the comparison."""
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
    """Compares the value `ours` with the recorded runs of a metric, or with the values `runs`
    instead.

    A percentile of completion times has the tolerance of a completion time.
    """
    agrees, linux, tolerance = _core.compare_metric(
        "fct_s" if _PERCENTILE.fullmatch(figure.name) else figure.name,
        list(figure.runs if runs is None else runs),
        ours,
        rate_mbit=case.rate_mbit,
        rtt_ms=case.rtt_ms,
        duration_s=case.duration_s,
        flows=case.flow_count,
    )
    return Verdict(
        case=case, figure=figure, linux=linux, ours=ours, tolerance=tolerance, agrees=agrees
    )
