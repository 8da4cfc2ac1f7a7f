"""Compares the two engines: runs the same scenario with both and compares each metric.

The live engine runs it several times in sequence, each with its own seed and without other work. A
run that its self-checks flagged is repeated and counted. The simulator runs it with at least as
many seeds, and its hosts have the tick and the rules of this kernel. The core decides whether a
metric agrees (`core/src/metrics/engine_comparison.rs`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from narrows import _core
from narrows.host import live
from narrows.runs.parallel import everywhere
from narrows.runs.run import Progress
from narrows.runs.source import read
from narrows.storage.text import name_of

Json = dict[str, Any]

RUNS = 5
"""Live runs of a scenario."""

SEEDS = 15
"""Simulations of it."""

REPEATS = 5
"""So many flagged runs of a scenario are repeated at most."""

LEAST_RUNS = 3
"""Of less trusted runs nobody can tell how far apart they are."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Properties of this machine that the hosts of a simulation adopt.

    Attributes:
        hz: Tick of the kernel, in Hz.
        like: The release of Linux whose rules apply.
        release: The release of this kernel.
        ccs: The loaded congestion controls.
    """

    hz: int
    like: str
    release: str
    ccs: tuple[str, ...]


def machine() -> Machine:
    """The properties of this machine.

    Raises:
        EngineError: If there is no live engine.
    """
    told = json.loads(live.ask("machine"))
    return Machine(
        hz=told["hz"],
        like=told["like"],
        release=told["release"],
        ccs=tuple(told["ccs"]["available"]),
    )


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A scenario for both engines: its text with the `[host]` of this machine, and its name."""

    name: str
    toml: str
    tree: Json = field(hash=False, compare=False)

    @property
    def ccs(self) -> list[str]:
        """The congestion controls in it."""
        ccs = (flow["cc"] for flow in self.tree.get("flow", []) if "cc" in flow)
        return sorted({cc if isinstance(cc, str) else str(cc["kind"]) for cc in ccs})


def subject(text: str, name: str, on: Machine) -> Subject:
    r"""The scenario of a text, its hosts like this machine.

    >>> here = Machine(hz=250, like="linux-6.12", release="6.12.1", ccs=("cubic",))
    >>> text = 'duration = "1s"\n[path]\nrate = "1Mbit"\nrtt = "9ms"\n[[flow]]\ncc = "cubic"\n'
    >>> subject(text, "one", here).tree["host"]
    {'hz': 250, 'like': 'linux-6.12'}

    Raises:
        ScenarioError: If it is not right.
    """
    return of_tree(_core.toml_to_tree(text, name), name, on)


def of_tree(tree: Json, name: str, on: Machine) -> Subject:
    """The scenario of nested tables, its hosts like this machine.

    Raises:
        ScenarioError: If it is not right.
    """
    alike = tree | {"host": tree.get("host", {}) | {"hz": on.hz, "like": on.like}}
    return Subject(name=name, toml=_core.scenario_to_toml(alike), tree=alike)


def load(file: str | PathLike[str], on: Machine) -> Subject:
    """The scenario of a file.

    Raises:
        NarrowsError: If it cannot be read, or is not right.
    """
    return subject(read(file), name_of(file), on)


def _jain(run: Json) -> float:
    return float(run["fairness"]["jain"] or math.nan)


def _mean(run: Json, *keys: str) -> float:
    found = []
    for flow in run["flows"]:
        value: Any = flow
        for key in keys:
            value = value[key]
        found.append(math.nan if value is None else value)
    return sum(found) / len(found) if found else math.nan


def figures(run: Json) -> dict[str, float]:
    """The figures of a run that are compared.

    Their labels are the core's names; where there are several congestion controls, each has a
    goodput of its own.
    """
    found: dict[str, float] = {}
    if run["flows"]:
        by_cc = run["fairness"]["by_cc"]
        found["goodput_mbit"] = sum(flow["goodput_mbit"] or 0.0 for flow in run["flows"])
        if len(by_cc) > 1:
            found |= {f"goodput_mbit {cc}": of["goodput_mbit"] or 0.0 for cc, of in by_cc.items()}
        found["srtt_ms"] = _mean(run, "rtt_ms", "mean")
        found["cwnd_mean"] = _mean(run, "cwnd_packets", "mean")
        found["retransmit_pct"] = 100 * _mean(run, "summary_retransmit_rate")
        if len(run["flows"]) > 1:
            found["jain"] = _jain(run)
    for number, probe in enumerate(run["probes"]):
        of = f" {number}" if number else ""
        for which in ("p50", "p95"):
            value = probe["rtt_ms"][which]
            found[f"ping_{which}_ms{of}"] = math.nan if value is None else float(value)
    return found


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure of both engines.

    Attributes:
        label: Name and unit, and what it is of.
        sim: Median of the simulations.
        live: Median of the live runs.
        spread: From the least live run to the largest.
        tolerance: The most that the medians may be apart.
        verdict: `agreed`, `parted` or `undecided`.
    """

    label: str
    sim: float
    live: float
    spread: float
    tolerance: float
    verdict: str

    def json(self) -> Json:
        """As it is printed for a program."""
        numbers = {
            "sim": self.sim,
            "live": self.live,
            "live_spread": self.spread,
            "tolerance": self.tolerance,
        }
        shown = {key: float(f"{x:.6g}") if math.isfinite(x) else None for key, x in numbers.items()}
        return {"figure": self.label, **shown, "verdict": self.verdict}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A scenario by both engines.

    Attributes:
        subject: Which.
        rows: A figure each.
        runs: Trusted live runs.
        flagged: The messages of the self-checks of each repeated live run.
    """

    subject: Subject
    rows: tuple[Row, ...]
    runs: int
    flagged: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """`parted` if any figure has, `agreed` if any has and none parted."""
        verdicts = {row.verdict for row in self.rows}
        return next((v for v in ("parted", "agreed") if v in verdicts), "undecided")

    def json(self) -> Json:
        """As it is printed for a program."""
        return {
            "scenario": self.subject.name,
            "verdict": self.verdict,
            "live_runs": self.runs,
            "flagged": list(self.flagged),
            "figures": [row.json() for row in self.rows],
        }


def simulate(what: Subject, *, seeds: int = SEEDS) -> list[Json]:
    """The scenario by the simulator, with seeds from 1 on."""

    def one(seed: int, keep_on: Progress) -> Json:
        raw = _core.run_toml(
            what.toml, what.name, seed=seed, sample_interval="off", progress=keep_on
        )
        run: Json = json.loads(raw.json())
        return run

    return everywhere(range(1, seeds + 1), one, cost=float)


def once(what: Subject, seed: int, progress: Progress | None = None) -> Json:
    """The scenario by the live engine."""
    raw = live.run(
        what.toml,
        what.name,
        seed=seed,
        sample_interval="off",
        verdicts=0,
        record=None,
        progress=progress,
    )
    run: Json = json.loads(raw.json())
    return run


def measure(
    what: Subject,
    *,
    runs: int = RUNS,
    repeats: int = REPEATS,
    progress: Callable[[float], object] = lambda _part: None,
) -> tuple[list[Json], list[str]]:
    """The scenario by the live engine, several times: trusted runs, and why each of the others is
    none.
    """
    trusted: list[Json] = []
    flagged: list[str] = []
    while len(trusted) < runs and len(flagged) <= repeats:
        # A flagged run is repeated with a seed that was not used yet.
        seed, over = len(trusted) + len(flagged) + 1, len(trusted)
        run = once(
            what,
            seed,
            lambda now_s, end_s, over=over: progress(  # type: ignore[misc]
                min((over + now_s / end_s) / runs, 1.0)
            ),
        )
        if run["instruments"]["trusted"]:
            trusted.append(run)
        else:
            flagged.append("; ".join(run["instruments"]["why"]))
    return trusted, flagged


def beside(
    what: Subject, sim: Sequence[Json], real: Sequence[Json], flagged: Sequence[str]
) -> Outcome:
    """Puts the runs of both engines beside each other."""
    ours = [figures(run) for run in sim]
    theirs = [figures(run) for run in real] if len(real) >= LEAST_RUNS else []
    path = _core.path_numbers(what.tree)
    on = {
        "rate_mbit": path["rate_mbit"],
        "rtt_ms": path["rtts_ms"][0],
        "flows": len(sim[0]["flows"]),
    }
    rows = []
    for label in ours[0]:
        name = label.partition(" ")[0]
        standing, reference, spread, mine, tolerance = _core.compare_engines(
            name, [run[label] for run in theirs], [run[label] for run in ours], **on
        )
        rows.append(
            Row(
                label=label,
                sim=mine,
                live=reference,
                spread=spread,
                tolerance=tolerance,
                verdict=standing,
            )
        )
    return Outcome(subject=what, rows=tuple(rows), runs=len(real), flagged=tuple(flagged))


def agree(
    what: Subject,
    *,
    runs: int = RUNS,
    seeds: int = SEEDS,
    repeats: int = REPEATS,
    progress: Callable[[float], object] = lambda _part: None,
) -> Outcome:
    """Runs a scenario with both engines; `progress` receives the finished share.

    Raises:
        EngineError: If an engine cannot run it.
    """
    ready(what.ccs)
    sim = simulate(what, seeds=seeds)
    trusted, flagged = measure(what, runs=runs, repeats=repeats, progress=progress)
    return beside(what, sim, trusted, flagged)


def ready(ccs: Sequence[str]) -> None:
    """Checks the requirements of live runs with these congestion controls.

    Raises:
        EngineError: If a requirement is missing, with the remedy.
    """
    live.ask("ready", *ccs)
