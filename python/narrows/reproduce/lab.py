"""Executes the runs of an experiment, with progress.

The simulator executes runs in parallel on all cores. Each run of another engine is stored, because
it takes as long as its duration or needs a virtual machine. If an experiment is repeated, only
missing runs are executed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

from narrows import _core
from narrows.errors import EngineError
from narrows.json_object import JsonObject
from narrows.reproduce.model import TableJson
from narrows.runs.engines import SIM, EngineChoice
from narrows.runs.model import RunJson
from narrows.runs.parallel import everywhere
from narrows.runs.run import Progress
from narrows.runs.scenario import Scenario, from_tree
from narrows.storage import output

Key = TypeVar("Key", bound=Hashable)
Runs = list[RunJson]
"""Runs of a case, one for each seed."""

Of = Callable[[RunJson], float]
"""Computes a figure of a run."""


Told = Callable[[int, int, str], object]
"""Receives the numbers of completed and of planned runs, and a description of the current run."""

_APART = 1000
"""Difference between the first seeds of two replications. It exceeds the number of seeds of every
experiment."""


@dataclass(frozen=True)
class Grid:
    """A table of an experiment.

    Attributes:
        title: Description of the cells, with their unit.
        heads: Heads of the columns.
        rows: The rows, as texts.
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def json(self) -> TableJson:
        """The JSON object of the table."""
        return {"title": self.title, "heads": list(self.heads), "rows": [*map(list, self.rows)]}

    @classmethod
    def of(cls, stored: TableJson) -> Grid:
        """The table of a stored JSON object."""
        return cls(stored["title"], tuple(stored["heads"]), tuple(map(tuple, stored["rows"])))


class Lab:
    """Runs the scenarios of an experiment. In a quick lab, there are fewer seeds and the simulated
    time is shorter.

    Attributes:
        quick: True for a quick lab.
        engine: The engine of the runs.
        runs: Number of completed runs so far.
        first_seed: The first seed of every case.
        failed: Reason why a figure could not be determined, by check.
        lacks: Reason why a figure was not computed, by check.
        tables: Additional tables of the experiment.
    """

    def __init__(
        self,
        *,
        quick: bool = False,
        told: Told = lambda *_: None,
        replication: int = 0,
        engine: EngineChoice = SIM,
        store: Path | None = None,
        anew: bool = False,
    ) -> None:
        """`told` is called after each run, and repeatedly during a live run. Each `replication` has
        other seeds. Runs of other engines than the simulator are stored in `store`. With `anew`,
        runs that were stored before are executed again.
        """
        self.quick = quick
        self.engine = engine
        self.first_seed = 1 + _APART * replication
        self.runs = 0
        self._planned = 0
        self.failed: dict[str, str] = {}
        self.lacks: dict[str, str] = {}
        self.tables: list[Grid] = []
        self._told = told
        self._store = store
        self._anew = anew

    def seconds(self, whole: float, quick: float | None = None) -> str:
        """The duration `whole`, in s, as text. In a quick lab, it is `quick` or, without it, a
        third of `whole`.
        """
        return f"{(whole / 3 if quick is None else quick) if self.quick else whole:g}s"

    def did(self, _: object = None) -> None:
        """Counts a completed run and reports the number of completed runs."""
        self.runs += 1
        self._tell()

    def _tell(self, current: str = "") -> None:
        self._told(self.runs, max(self.runs, self._planned), current)

    def play(
        self,
        cases: Mapping[Key, Scenario | JsonObject],
        *,
        seeds: int = 5,
        quick_seeds: int = 2,
        interval: str = "off",
        simulated: bool = False,
        partial: bool = False,
    ) -> dict[Key, Runs]:
        """Runs every case with every seed.

        Args:
            cases: The scenarios.
            seeds: Number of seeds.
            quick_seeds: Number of seeds of a quick lab.
            interval: The sample interval.
            simulated: Whether to use the simulator even if the lab has another engine.
            partial: Whether to leave out runs that fail with `EngineError`, instead of raising it.

        Raises:
            EngineError: If the engine cannot run a case.
        """
        trees = {
            key: one.tree() if isinstance(one, Scenario) else one for key, one in cases.items()
        }
        number = quick_seeds if self.quick else seeds
        each = range(self.first_seed, self.first_seed + number)

        engine = SIM if simulated else self.engine

        def one(job: tuple[Key, int], keep_on: Progress) -> RunJson | None:
            key, seed = job
            if engine is not SIM:
                try:
                    return self._elsewhere(trees[key], seed, interval, keep_on)
                except EngineError:
                    if not partial:
                        raise
                    return None
            raw = _core.run_tree(
                trees[key], seed=seed, sample_interval=interval, progress=keep_on
            ).json()
            figures: RunJson = json.loads(raw)
            return figures

        todo = [(key, seed) for key in trees for seed in each]
        self._planned = self.runs + len(todo)
        jobs = None if engine is SIM else engine.jobs()
        found = everywhere(todo, one, cost=lambda _: 0.0, done=self.did, jobs=jobs)
        got: dict[Key, Runs] = {key: [] for key in trees}
        for (key, _), run in zip(todo, found, strict=True):
            if run is not None:
                got[key].append(run)
        return got

    def median_time(self, check: str, runs: Runs, of: Of, longest_s: float) -> dict[str, float]:
        """The median time of a check over the runs, by its name. If less than half of the runs
        completed within `longest_s`, the check has failed and the result is empty.
        """
        value = mid(runs, of)
        if value < longest_s:
            return {check: value}
        self.failed[check] = (
            f"not found: less than half of the {len(runs)} runs completed within {longest_s:g} s"
        )
        return {}

    def file(self, *what: object) -> Path | None:
        """File for the stored result of these inputs (`what`) with the engine; None for the
        simulator or without a store. With `anew`, a result of an earlier run is removed.
        """
        if self._store is None or self.engine == SIM:
            return None
        text = "\n".join(map(str, (*what, self.engine.about())))
        found = self._store / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
        if self._anew:
            found.unlink(missing_ok=True)
        return found

    def _elsewhere(self, tree: JsonObject, seed: int, interval: str, keep_on: Progress) -> RunJson:
        """The result of a run of another engine, from the store if it was stored before."""
        file = self.file(_core.scenario_to_toml(tree), seed, interval)
        if file is not None and file.exists():
            stored: RunJson = json.loads(file.read_text(encoding="utf-8"))
            return stored

        def progress(now_s: float, end_s: float) -> None:
            keep_on(now_s, end_s)
            if self.engine.name == "live":  # The others have several simultaneous runs.
                self._tell(f"{now_s:.0f} of {end_s:.0f} s of a run")

        done = self.engine.run(
            from_tree(tree, Path.cwd()), seed=seed, sample_interval=interval, progress=progress
        )
        if file is not None:
            output.write(file, json.dumps(done.json))
        return done.json


def counted(numbers: Iterable[int]) -> str:
    """The numbers of runs of several cells as text.

    >>> counted([3, 3]), counted([3, 1])
    ('3 runs', '1 to 3 runs')
    """
    ordered = sorted(set(numbers))
    return " to ".join(map(str, dict.fromkeys((ordered[0], ordered[-1])))) + " runs"


def mid(runs: Runs, of: Of) -> float:
    """Median of a figure over the runs of a case."""
    return float(median(of(one) for one in runs))


def goodput(number: int = 0) -> Of:
    """Goodput of the flow with this index, in Mbit/s."""
    return lambda figures: float(figures["flows"][number]["goodput_mbit"] or 0.0)


def total(figures: RunJson) -> float:
    """Sum of the goodputs of all flows, in Mbit/s."""
    return float(sum(flow["goodput_mbit"] or 0.0 for flow in figures["flows"]))


def part(cc: str) -> Of:
    """Share of the flows of a congestion control in the total goodput, in %."""

    def of(figures: RunJson) -> float:
        own = sum(flow["goodput_mbit"] or 0.0 for flow in figures["flows"] if flow["cc"] == cc)
        return float(100 * own / max(total(figures), 1e-9))

    return of


def fair(number: int) -> Of:
    """Goodput of the flow with this index, divided by the mean goodput of all flows."""
    return lambda figures: (
        goodput(number)(figures) * len(figures["flows"]) / max(total(figures), 1e-9)
    )


def again(cc: str | None = None) -> Of:
    """Number of retransmits of all flows, or of the flows with the congestion control `cc`."""
    return lambda figures: float(
        sum(flow["retransmits"] for flow in figures["flows"] if cc in {None, flow["cc"]})
    )


def queue_ms(figures: RunJson) -> float:
    """Mean queueing delay of a run, in ms."""
    return float(figures["queue"]["delay_ms"]["mean"] or 0.0)


def finished(longest_s: float) -> Of:
    """Completion time of the transfer of the first flow, in s; `longest_s` if the transfer did not
    complete.
    """

    def of(figures: RunJson) -> float:
        value = figures["flows"][0]["fct_s"]
        return float(longest_s if value is None else value)

    return of
