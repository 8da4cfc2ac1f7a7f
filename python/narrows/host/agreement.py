"""Compares engines: runs the same scenario with each of them and compares each metric in pairs.

The engines `linux` and `live` run the scenario several times, each time with another seed. `linux`
uses all cores, and `live` has one run at a time without other work. A live run whose self-check
fails is repeated and counted. The simulator runs the scenario with `SEEDS` seeds by default. The
simulated hosts have the tick and the rules of the kernel that the simulator is compared with. The
core decides whether a metric agrees (`core/src/metrics/engine_comparison.rs`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from narrows import _core
from narrows.errors import EngineError
from narrows.host import live
from narrows.host.model import AgreementJson, MachineJson, OutcomeJson, RowJson
from narrows.json_object import JsonObject
from narrows.kernel import machine as virtual
from narrows.kernel import model, store
from narrows.models import loaded
from narrows.runs.engines import EngineChoice, choose
from narrows.runs.model import RunJson
from narrows.runs.parallel import everywhere
from narrows.runs.run import ENGINES, Progress
from narrows.runs.scenario import from_tree
from narrows.runs.source import read
from narrows.storage.text import name_of

ORDER = ("sim", "linux", "live")
"""The engines; in a pair, the later one is the reference."""

PAIRS = (("sim", "linux"), ("sim", "live"), ("linux", "live"))
"""Pairs of engines that are compared."""

KERNEL_HZ = 1000
"""Tick of the kernels of the engine `linux`, in Hz (`narrows.kernel.options`)."""

RUNS = 5
"""Default number of runs of a scenario with each of the engines `linux` and `live`."""

SEEDS = 15
"""Default number of simulations of a scenario."""

REPEATS = 5
"""Maximum number of live runs of a scenario that are repeated because their self-check failed."""

LEAST_RUNS = 3
"""Minimum number of runs of the reference for a comparison. Fewer runs do not show how much they
differ.
"""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Properties of a kernel that the hosts of a simulation adopt.

    Attributes:
        hz: Tick of the kernel, in Hz.
        like: The release of Linux whose rules apply.
        release: The release of the kernel.
        ccs: The available congestion controls of this machine; empty for a kernel of `linux`.
        key: The key of a kernel of `linux`; empty for this machine.
    """

    hz: int
    like: str
    release: str
    ccs: tuple[str, ...] = ()
    key: str = ""

    def json(self) -> MachineJson:
        """Machine-readable form."""
        found: MachineJson = {"release": self.release, "hz": self.hz, "like": self.like}
        if self.key:
            found["key"] = self.key
        else:
            found["ccs"] = list(self.ccs)
        return found


def of_kernel(kernel: store.Kernel) -> Machine:
    """The properties of a built kernel. The rules of the simulated hosts are those of the series of
    this kernel, such as 6.12.
    """
    like = f"linux-{model.nearest(kernel.release)}"
    return Machine(hz=KERNEL_HZ, like=like, release=kernel.release, key=kernel.key)


def machines(engines: Sequence[str], kernel: str | None = None) -> dict[str, Machine]:
    """The kernels that the engines of a comparison run on, in the order of `ORDER`.

    Raises:
        EngineError: If there are less than two engines or unknown ones, or if a kernel is missing.
    """
    for name in engines:
        if name not in ENGINES:
            raise EngineError(f"--engines {name}: no such engine; write {', '.join(ORDER)}")
    if len(set(engines)) < 2:  # noqa: PLR2004 - a pair
        raise EngineError(
            f"--engines {','.join(engines)}: a comparison needs two engines; write sim,linux"
        )
    if kernel is not None and "linux" not in engines:
        raise EngineError(f"--kernel {kernel}: this option requires --engines sim,linux")
    found = {}
    if "linux" in engines:
        found["linux"] = of_kernel(store.find(kernel))
    if "live" in engines:
        found["live"] = machine()
    if "sim" in engines:
        found["sim"] = next(iter(found.values()))
    return {name: found[name] for name in ORDER if name in found}


def machine() -> Machine:
    """The properties of the kernel of this machine, on which the engine `live` runs.

    Raises:
        EngineError: If the engine `live` is not available on this machine.
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
    """A scenario for a comparison.

    Attributes:
        name: Its name; with `text`, the name of its file.
        toml: Its text with the `[host]` of a kernel.
        tree: The same as nested tables.
        text: The text of its file; None for a scenario without a file. The engines `linux` and
            `live` run it, so that their errors have the lines of the file.
    """

    name: str
    toml: str
    tree: JsonObject = field(hash=False, compare=False)
    text: str | None = None

    @property
    def ccs(self) -> list[str]:
        """The congestion controls of the flows of the scenario, in alphabetical order."""
        ccs = (flow["cc"] for flow in self.tree.get("flow", []) if "cc" in flow)
        return sorted({cc if isinstance(cc, str) else str(cc["kind"]) for cc in ccs})


def subject(text: str, name: str, on: Machine) -> Subject:
    r"""The scenario of a text, whose hosts get the tick and the rules of the kernel `on`.

    >>> here = Machine(hz=250, like="linux-6.12", release="6.12.1", ccs=("cubic",))
    >>> text = 'duration = "1s"\n[path]\nrate = "1Mbit"\nrtt = "9ms"\n[[flow]]\ncc = "cubic"\n'
    >>> subject(text, "one", here).tree["host"]
    {'hz': 250, 'like': 'linux-6.12'}

    Raises:
        ScenarioError: If the scenario is invalid.
    """
    return of_tree(_core.toml_to_tree(text, name), name, on)


def of_tree(tree: JsonObject, name: str, on: Machine, text: str | None = None) -> Subject:
    """The scenario of nested tables, whose hosts get the tick and the rules of the kernel `on`.
    `text` is the content of its file, if it has one.

    Raises:
        ScenarioError: If the scenario is invalid.
    """
    alike = tree | {"host": tree.get("host", {}) | {"hz": on.hz, "like": on.like}}
    return Subject(name=name, toml=_core.scenario_to_toml(alike), tree=alike, text=text)


def load(file: str | PathLike[str], on: Mapping[str, Machine]) -> tuple[JsonObject, str]:
    """The scenario of a file as nested tables and as text, checked for the engines of `on`. In the
    tables, names of files are absolute.

    Raises:
        NarrowsError: If the scenario cannot be read, is invalid, or is not supported.
    """
    text = read(file)
    tree = _core.toml_to_tree(text, name_of(file))
    tree = from_tree(tree, Path(file).absolute().parent).tree()
    check(tree, name_of(file), on)
    return tree, text


def _jain(run: RunJson) -> float:
    return float(run["fairness"]["jain"] or math.nan)


def _mean(run: RunJson, *keys: str) -> float:
    found = []
    for flow in run["flows"]:
        value: Any = flow
        for key in keys:
            value = value[key]
        found.append(math.nan if value is None else value)
    return sum(found) / len(found) if found else math.nan


def figures(run: RunJson) -> dict[str, float]:
    """The metrics of a run that are compared, by label.

    The labels are the names in the core. If the flows have several congestion controls, each also
    has its own goodput. In a network of links, each flow has its own goodput, because the flows
    have different routes. Pings after the first one have a number.
    """
    found: dict[str, float] = {}
    if run["flows"]:
        by_cc = run["fairness"]["by_cc"]
        found["goodput_mbit"] = sum(flow["goodput_mbit"] or 0.0 for flow in run["flows"])
        if len(by_cc) > 1:
            found |= {f"goodput_mbit {cc}": of["goodput_mbit"] or 0.0 for cc, of in by_cc.items()}
        if "link" in run["scenario"]:
            found |= {f"goodput_mbit {f['id']}": f["goodput_mbit"] or 0.0 for f in run["flows"]}
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
    """One metric of two engines.

    Attributes:
        label: Name of the metric with its unit, and the congestion control or the number of the
            ping.
        ours: Median of the runs of the first engine.
        reference: Median of the runs of the second one, the reference.
        spread: Difference between the largest and the smallest value among the runs of the
            reference.
        tolerance: Maximum difference of the medians of metrics that agree.
        verdict: `agreed`, `parted` or `undecided`.
    """

    label: str
    ours: float
    reference: float
    spread: float
    tolerance: float
    verdict: str

    def json(self) -> RowJson:
        """The JSON object, as `narrows agree --json` contains it."""
        return {
            "figure": self.label,
            "ours": _shown(self.ours),
            "reference": _shown(self.reference),
            "spread": _shown(self.spread),
            "tolerance": _shown(self.tolerance),
            "verdict": self.verdict,
        }


def _shown(x: float) -> float | None:
    return float(f"{x:.6g}") if math.isfinite(x) else None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The comparison of a scenario between two engines.

    Attributes:
        subject: The scenario.
        pair: The two engines; the second one is the reference.
        rows: The comparison of each metric.
        runs: Runs of the reference; of the engine `live`, those that passed their self-check.
        flagged: The messages of the self-check for each live run that failed it.
    """

    subject: Subject
    pair: tuple[str, str] = ("sim", "live")
    rows: tuple[Row, ...]
    runs: int
    flagged: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """`parted` if any metric parted; otherwise `agreed` if any metric agreed, or else
        `undecided`.
        """
        return overall(row.verdict for row in self.rows)

    def json(self) -> OutcomeJson:
        """The JSON object, as `narrows agree --json` contains it."""
        return {
            "engines": list(self.pair),
            "verdict": self.verdict,
            "runs": self.runs,
            "flagged": list(self.flagged),
            "figures": [row.json() for row in self.rows],
        }


def overall(verdicts: Iterable[str]) -> str:
    """The overall verdict: `parted` if any verdict is `parted`, otherwise `agreed` if any is
    `agreed`.

    >>> overall(["agreed", "undecided"]), overall(["agreed", "parted"]), overall([])
    ('agreed', 'parted', 'undecided')
    """
    found = set(verdicts)
    return next((v for v in ("parted", "agreed") if v in found), "undecided")


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """The comparison of a scenario between all pairs of engines.

    Attributes:
        name: Name of the scenario.
        outcomes: The comparison of each pair of engines, in the order of `PAIRS`.
    """

    name: str
    outcomes: tuple[Outcome, ...]

    @property
    def verdict(self) -> str:
        """The overall verdict of all pairs of engines."""
        return overall(one.verdict for one in self.outcomes)

    @property
    def labels(self) -> list[str]:
        """The labels of the compared metrics, in their order."""
        return list(dict.fromkeys(row.label for one in self.outcomes for row in one.rows))

    def values(self, label: str) -> dict[str, float]:
        """The median of each engine for a metric; that of `sim` is from its first pair."""
        found: dict[str, float] = {}
        for one in self.outcomes:
            for row in one.rows:
                if row.label == label:
                    found.setdefault(one.pair[0], row.ours)
                    found.setdefault(one.pair[1], row.reference)
        return {name: found[name] for name in ORDER if name in found}

    def verdicts(self, label: str) -> dict[str, Row]:
        """The comparison of each pair of engines for a metric, by names such as `sim-linux`."""
        return {
            "-".join(one.pair): row
            for one in self.outcomes
            for row in one.rows
            if row.label == label
        }

    def json(self) -> AgreementJson:
        """The JSON object, as `narrows agree --json` contains it."""
        return {
            "scenario": self.name,
            "verdict": self.verdict,
            "figures": [
                {
                    "figure": label,
                    **{name: _shown(x) for name, x in self.values(label).items()},
                    "verdict": overall(row.verdict for row in self.verdicts(label).values()),
                }
                for label in self.labels
            ],
            "pairs": [one.json() for one in self.outcomes],
        }


def simulate(what: Subject, *, seeds: int = SEEDS) -> list[RunJson]:
    """Runs the scenario with the simulator, with the seeds from 1 to `seeds`."""

    def one(seed: int, keep_on: Progress) -> RunJson:
        raw = _core.run_tree(what.tree, seed=seed, sample_interval="off", progress=keep_on)
        found: RunJson = json.loads(raw.json())
        return found

    return everywhere(range(1, seeds + 1), one, cost=float)


def emulate(
    what: Subject,
    kernel: EngineChoice,
    *,
    runs: int = RUNS,
    progress: Callable[[float], object] = lambda _part: None,
) -> list[RunJson]:
    """Runs the scenario with the engine `linux`, with the seeds from 1 to `runs`, on all cores."""
    plugins = loaded.check_live(what.tree, "linux")
    over = 0

    def one(seed: int, keep_on: Progress) -> RunJson:
        raw, _ = virtual.run(
            what.text or what.toml,
            what.name,
            seed=seed,
            kernel=kernel.kernel,
            sample_interval="off",
            verdicts=0,
            record=None,
            progress=keep_on,
            plugins=plugins,
            built=what.text is None,
        )
        found: RunJson = json.loads(raw.json())
        return found

    def done(_seed: int) -> None:
        nonlocal over
        over += 1
        progress(over / runs)

    return everywhere(range(1, runs + 1), one, cost=lambda _: 0.0, done=done, jobs=kernel.jobs())


def once(what: Subject, seed: int, progress: Progress | None = None) -> RunJson:
    """Runs the scenario once with the engine `live`."""
    raw = live.run(
        what.text or what.toml,
        what.name,
        seed=seed,
        sample_interval="off",
        verdicts=0,
        record=None,
        progress=progress,
        plugins=loaded.check_live(what.tree, "live"),
        built=what.text is None,
    )
    found: RunJson = json.loads(raw.json())
    return found


def measure(
    what: Subject,
    *,
    runs: int = RUNS,
    repeats: int = REPEATS,
    progress: Callable[[float], object] = lambda _part: None,
) -> tuple[list[RunJson], list[str]]:
    """Runs the scenario several times with the engine `live`. Returns the runs that passed their
    self-check, and for each other run the reason why it failed.
    """
    trusted: list[RunJson] = []
    flagged: list[str] = []
    while len(trusted) < runs and len(flagged) <= repeats:
        # A run that failed its self-check is repeated with a seed that was not used yet.
        seed, over = len(trusted) + len(flagged) + 1, len(trusted)
        one = once(
            what,
            seed,
            lambda now_s, end_s, over=over: progress(  # type: ignore[misc]
                min((over + now_s / end_s) / runs, 1.0)
            ),
        )
        if one["instruments"]["trusted"]:
            trusted.append(one)
        else:
            flagged.append("; ".join(one["instruments"]["why"]))
    return trusted, flagged


def beside(
    what: Subject,
    ours: Sequence[RunJson],
    real: Sequence[RunJson],
    flagged: Sequence[str] = (),
    pair: tuple[str, str] = ("sim", "live"),
) -> Outcome:
    """Compares the runs of a pair of engines; `real` are those of the reference."""
    mine = [figures(one) for one in ours]
    theirs = [figures(one) for one in real] if len(real) >= LEAST_RUNS else []
    path = _core.path_numbers(what.tree)
    on = {
        "rate_mbit": path["rate_mbit"],
        "rtt_ms": path["rtts_ms"][0],
        "flows": len(ours[0]["flows"]),
    }
    rows = []
    for label in mine[0]:
        name = label.partition(" ")[0]
        standing, reference, spread, median, tolerance = _core.compare_engines(
            name, [one[label] for one in theirs], [one[label] for one in mine], **on
        )
        rows.append(
            Row(
                label=label,
                ours=median,
                reference=reference,
                spread=spread,
                tolerance=tolerance,
                verdict=standing,
            )
        )
    return Outcome(
        subject=what, pair=pair, rows=tuple(rows), runs=len(real), flagged=tuple(flagged)
    )


def agree(
    tree: JsonObject,
    name: str,
    on: Mapping[str, Machine],
    *,
    text: str | None = None,
    runs: int = RUNS,
    seeds: int = SEEDS,
    progress: Callable[[float], object] = lambda _part: None,
) -> Agreement:
    """Runs a scenario with the engines of `on`; `progress` receives the finished share. `text` is
    the content of the file of the scenario, if it has one.

    Raises:
        EngineError: If an engine cannot run the scenario.
    """
    if "live" in on:
        ready(of_tree(tree, name, on["live"]).ccs)
    real = [engine for engine in ("linux", "live") if engine in on]
    found: dict[str, list[RunJson]] = {}
    flagged: list[str] = []
    for place, engine in enumerate(real):
        what = of_tree(tree, name, on[engine], text)

        def part(x: float, place: int = place) -> None:
            progress((place + x) / len(real))

        if engine == "linux":
            chosen = choose("linux", on[engine].key)
            found[engine] = emulate(what, chosen, runs=runs, progress=part)
        else:
            found[engine], flagged = measure(what, runs=runs, progress=part)
    outcomes = []
    for pair in PAIRS:
        ours, reference = pair
        if not {ours, reference} <= set(on):
            continue
        what = of_tree(tree, name, on[reference])
        mine = simulate(what, seeds=seeds) if ours == "sim" else found[ours]
        why = flagged if reference == "live" else []
        outcomes.append(beside(what, mine, found[reference], why, pair))
    return Agreement(name=name, outcomes=tuple(outcomes))


def check(tree: JsonObject, name: str, on: Mapping[str, Machine]) -> None:
    """Checks that the engines of `on` support a scenario, before runs that take minutes.

    Raises:
        ScenarioError: If the scenario is invalid.
        EngineError: If an engine does not support the scenario.
    """
    for one in on.values():
        of_tree(tree, name, one)
    if "linux" in on and "wifi" in tree:
        raise EngineError(
            f"{name}: wifi: a comparison with the engine `linux` needs a path; write --engines "
            "sim,live"
        )


def ready(ccs: Sequence[str]) -> None:
    """Checks the requirements of live runs with these congestion controls.

    Raises:
        EngineError: If a requirement is missing, with the remedy.
    """
    live.ask("ready", *ccs)
