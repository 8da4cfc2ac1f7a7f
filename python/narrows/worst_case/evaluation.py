"""Runs scenarios with several seeds. All runs are stored as those of a sweep, so that an
interrupted search continues.
"""

from __future__ import annotations

import copy
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from narrows import _core
from narrows.errors import NarrowsError
from narrows.runs.engines import SIM, EngineChoice
from narrows.sweeps.design import Design
from narrows.sweeps.sweeping import Sweep
from narrows.worst_case.objectives import COLUMNS, Objective
from narrows.worst_case.shrinking import count

if TYPE_CHECKING:
    from narrows.json_object import JsonObject
    from narrows.sweeps.executors import Crew
    from narrows.sweeps.rows import Row
    from narrows.worst_case.model import MeasuredJson


def name_of(tree: JsonObject) -> str:
    """A text that identifies a scenario."""
    return json.dumps(tree, sort_keys=True)


def valid(tree: JsonObject) -> bool:
    """Whether the core accepts a scenario."""
    try:
        _core.scenario_to_toml(tree)
    except NarrowsError:
        return False
    return True


class _Scenarios(Sweep):
    """A sweep of complete scenarios: the list `scenarios` of its base."""

    def scenario(self, case: int) -> JsonObject:
        """The scenario with this number."""
        found: JsonObject = copy.deepcopy(self.base["scenarios"][case])
        return found

    def check(self) -> None:
        """Does nothing: `valid` has checked the scenarios."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A scenario and its runs.

    Attributes:
        tree: The scenario.
        seeds: The seeds.
        values: The objective in percent, one value for each seed.
        rows: The rows of the flows, one list for each seed.
    """

    tree: JsonObject
    seeds: Sequence[int]
    values: Sequence[float]
    rows: Sequence[Sequence[Row]]

    def json(self) -> MeasuredJson:
        """The JSON object."""
        return {
            "scenario": self.tree,
            "toml": _core.scenario_to_toml(self.tree),
            "keys": count(self.tree),
            "mean_percent": statistics.fmean(self.values),
            "low_percent": min(self.values),
            "high_percent": max(self.values),
            "runs": [
                {
                    "seed": seed,
                    "value_percent": value,
                    "flows": [
                        {"flow": row["flow"], "goodput_mbit": row["goodput_mbit"]}
                        for row in rows
                        if row["flow"] is not None
                    ],
                }
                for seed, value, rows in zip(self.seeds, self.values, self.rows, strict=True)
            ],
        }


@dataclass
class Evaluation:
    """Runs scenarios, and computes the objective of each run.

    Attributes:
        objective: The objective.
        flow: The flow that `--flow` names.
        into: The directory of the results.
        crew: The executor.
        engine: The engine of all runs.
        progress: Called with the number of finished runs of the present batch.
        runs: Number of runs so far, including those that an earlier search stored.
        failures: Scenario files of failed runs, and the reasons.
    """

    objective: Objective
    flow: str | None
    into: Path
    crew: Crew
    engine: EngineChoice = SIM
    progress: Callable[[int, int], object] = lambda _done, _planned: None
    runs: int = 0
    failures: list[tuple[Path, str]] = field(default_factory=list)
    _known: dict[tuple[str, int], tuple[float, list[Row]] | None] = field(default_factory=dict)

    def values(self, trees: Sequence[JsonObject], seeds: Sequence[int]) -> list[list[float] | None]:
        """The objective of each scenario for each seed; None for a scenario that is not valid or
        whose runs do not all have a value.
        """
        found: list[list[float] | None] = []
        for each in self._found(trees, seeds):
            known = [one[0] for one in each if one is not None]
            found.append(known if len(known) == len(seeds) else None)
        return found

    def measured(self, tree: JsonObject, seeds: Sequence[int]) -> Measured:
        """A scenario with its runs; runs without a value are left out."""
        [each] = self._found([tree], seeds)
        known = [(seed, *one) for seed, one in zip(seeds, each, strict=True) if one is not None]
        return Measured(
            tree=tree,
            seeds=[seed for seed, _, _ in known],
            values=[value for _, value, _ in known],
            rows=[rows for _, _, rows in known],
        )

    def _found(
        self, trees: Sequence[JsonObject], seeds: Sequence[int]
    ) -> list[list[tuple[float, list[Row]] | None]]:
        names = [name_of(tree) for tree in trees]
        new = {
            name: tree
            for name, tree in zip(names, trees, strict=True)
            if any((name, seed) not in self._known for seed in seeds)
        }
        todo = {name: tree for name, tree in new.items() if valid(tree)}
        if todo:
            self._run(todo, seeds)
        return [[self._known.get((name, seed)) for seed in seeds] for name in names]

    def _run(self, trees: Mapping[str, JsonObject], seeds: Sequence[int]) -> None:
        names = list(trees)
        runs = _Scenarios(
            {"scenarios": list(trees.values())},
            Design("list", [{"scenario": number} for number in range(len(trees))]),
            tuple(seeds),
            "worst-case",
            self.into,
            None,
            self.engine,
        )
        runs.finish(
            on=self.crew, progress=lambda done, _failed, planned: self.progress(done, planned)
        )
        self.runs += len(runs)
        self.failures += [(one.file, one.reason) for one in runs.failures]
        by_run: dict[tuple[str, int], list[Row]] = {
            (name, seed): [] for name in names for seed in seeds
        }
        for row in runs.frame(COLUMNS).to_pylist():
            by_run[names[row["case"]], row["seed"]].append(row)
        for run, rows in by_run.items():
            value = self.objective.measure(rows, self.flow) if rows else None
            self._known[run] = None if value is None else (value, rows)
