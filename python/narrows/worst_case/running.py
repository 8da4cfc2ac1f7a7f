"""The search, the check of its result with further seeds, and the reduction."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from narrows import _core
from narrows.errors import NarrowsError
from narrows.runs.engines import choose
from narrows.runs.scenario import Scenario, load
from narrows.storage.text import name_of
from narrows.sweeps import keys
from narrows.sweeps.design import Design, Range
from narrows.sweeps.executors import crew
from narrows.sweeps.sweeping import INTO, Sweep
from narrows.worst_case import shrinking
from narrows.worst_case.evaluation import Evaluation, Measured
from narrows.worst_case.objectives import OBJECTIVES, Objective
from narrows.worst_case.searching import POPULATION, Search, require_cmaes
from narrows.worst_case.space import Axis, Space, axis

if TYPE_CHECKING:
    from narrows.json_object import JsonObject
    from narrows.runs.engines import EngineChoice
    from narrows.runs.run import Engine
    from narrows.worst_case.model import WorstCaseJson

BUDGET, SEEDS, CHECKS = 400, 3, 5
"""Default numbers of scenarios of the search, of seeds of each, and of seeds of the check."""

_TRIED = 10
"""Maximum number of scenarios that are checked with further seeds, the worst first."""

Progress = Callable[[str, int, int], object]
"""Called with the present work, and the finished and planned numbers of its parts."""


@dataclass(frozen=True, kw_only=True)
class WorstCase:
    """The result of a search.

    Attributes:
        objective: The objective.
        limit: The limit in percent.
        flow: The flow that was named; None for any flow.
        over: The searched keys.
        seed: The first seed.
        title: The title of the scenario.
        engine: The engine of all runs.
        scenarios: Number of scenarios of the search.
        runs: Number of runs.
        values: The values of the searched keys in the worst scenario.
        worst: The worst scenario, with the seeds of the search.
        checked: The values of the worst scenario with the seeds of the check; None without a
            scenario beyond the limit.
        smallest: The smallest scenario that is beyond the limit, with further seeds; None if no
            scenario is beyond the limit with every seed of the check.
        failed: Scenario files of failed runs, and the reasons.
        into: The directory of the results.
    """

    objective: Objective
    limit: float
    flow: str | None
    over: Sequence[str]
    seed: int
    title: str
    engine: EngineChoice
    scenarios: int
    runs: int
    values: JsonObject
    worst: Measured
    checked: Sequence[float] | None
    smallest: Measured | None
    failed: Sequence[tuple[Path, str]]
    into: Path

    @property
    def shown(self) -> Measured:
        """The scenario that is printed: the smallest one, or else the worst one."""
        return self.smallest or self.worst

    def json(self) -> WorstCaseJson:
        """The JSON object."""
        return {
            "title": self.title,
            **self.engine.json(),
            "objective": self.objective.name,
            "what": self.objective.what,
            "limit_percent": self.limit,
            "flow": self.flow,
            "over": list(self.over),
            "seed": self.seed,
            "scenarios": self.scenarios,
            "runs": self.runs,
            "found": self.smallest is not None,
            "values": self.values,
            "worst": self.worst.json(),
            "checked_percent": None if self.checked is None else list(self.checked),
            "smallest": None if self.smallest is None else self.smallest.json(),
            "failed": [{"file": str(file), "reason": reason} for file, reason in self.failed],
            "into": str(self.into),
        }


def find_worst_case(
    scenario: Scenario | str | PathLike[str],
    over: Mapping[str, str | Sequence[str | float]],
    objective: str,
    *,
    flow: str | None = None,
    limit: float | None = None,
    budget: int = BUDGET,
    population: int = POPULATION,
    seed: int = 1,
    seeds: int = SEEDS,
    checks: int = CHECKS,
    on: str = "local",
    jobs: int | None = None,
    engine: Engine = "sim",
    kernel: str | None = None,
    into: str | PathLike[str] = INTO,
) -> WorstCase:
    """Searches for the worst values of some keys of a scenario, and reduces the scenario.

    It is the command `narrows worst-case` in Python. It needs the package `cmaes` (extra `search`).

    Args:
        scenario: The scenario, or its file.
        over: The keys that vary, with a range (`"5ms:200ms"`) or a list of values each.
        objective: `share`, `starvation`, `queue` or `collapse`.
        flow: The flow of the objective `share`; the flow with the smallest goodput by default.
        limit: The limit in percent; that of the objective by default.
        budget: Number of scenarios after which the search ends; a generation is finished.
        population: Number of scenarios in a generation of CMA-ES.
        seed: The first seed; also the seed of the search.
        seeds: Number of seeds of each scenario of the search.
        checks: Number of seeds of the check, and of the final measurement.
        on: Where the runs are executed: `local`, `ray` or `ray://HOST:PORT`.
        jobs: Number of simultaneous runs on this host.
        engine: `sim`, or `linux` for a kernel in virtual time.
        kernel: The kernel of the engine `linux`.
        into: The directory of the results, from which an interrupted search continues.

    Returns:
        The result. Its method `json` returns the keys of `narrows worst-case --json`.

    Raises:
        ScenarioError: If the scenario or a value of a key is not valid.
        NarrowsError: If the objective is unknown, or if no scenario has a value.
    """
    if objective not in OBJECTIVES:
        raise NarrowsError(
            f"objective {objective!r}: unknown; write one of {', '.join(OBJECTIVES)}"
        )
    if flow is not None and not OBJECTIVES[objective].one_flow:
        raise NarrowsError(f"flow {flow!r}: applies only to the objective share; omit it")

    def words(values: str | Sequence[str | float]) -> str:
        return values if isinstance(values, str) else ",".join(str(one) for one in values)

    return worst_case(
        scenario,
        [axis(f"{key}={words(values)}") for key, values in over.items()],
        objective,
        flow=flow,
        limit=limit,
        budget=budget,
        population=population,
        seed=seed,
        seeds=seeds,
        checks=checks,
        on=on,
        jobs=jobs,
        engine=engine,
        kernel=kernel,
        into=into,
    )


def worst_case(
    file: Scenario | str | PathLike[str],
    axes: Sequence[Axis],
    objective: str,
    *,
    flow: str | None = None,
    limit: float | None = None,
    budget: int = BUDGET,
    population: int = POPULATION,
    seed: int = 1,
    seeds: int = SEEDS,
    checks: int = CHECKS,
    on: str = "local",
    jobs: int | None = None,
    engine: Engine = "sim",
    kernel: str | None = None,
    into: str | PathLike[str] = INTO,
    progress: Progress = lambda _work, _done, _planned: None,
) -> WorstCase:
    """Searches for the worst values of some keys of a scenario, and reduces the scenario.

    The runs of the search have the seeds from `seed` on, and those of the check the next `checks`
    seeds. The final measurement has the `checks` seeds after these. The last seeds have no part in
    the choice of the scenario, so that the final values are not biased by it.

    Args:
        file: The scenario file, or the scenario.
        axes: The keys that vary.
        objective: The name of the objective.
        flow: The flow of the objective `share`; the flow with the smallest goodput by default.
        limit: The limit in percent; that of the objective by default.
        budget: Number of scenarios after which the search ends; a generation is finished.
        population: Number of scenarios in a generation of CMA-ES.
        seed: The first seed; also the seed of the search.
        seeds: Number of seeds of each scenario of the search.
        checks: Number of seeds of the check.
        on: As for a sweep.
        jobs: Number of simultaneous runs.
        engine: As for a sweep.
        kernel: As for a sweep.
        into: The directory of the results.
        progress: See `Progress`.

    Raises:
        ScenarioError: If the scenario or a value of a key is not valid.
        NarrowsError: If no scenario has a value.
    """
    require_cmaes()
    of = OBJECTIVES[objective]
    most = of.limit if limit is None else limit
    space = Space(axes)
    base = (file if isinstance(file, Scenario) else load(file)).tree()
    name = "the scenario" if isinstance(file, Scenario) else name_of(file)
    _check(base, space)
    kept = _named(base, flow)
    if of.several_flows:
        _need_flows(base, space, name, objective)
    chosen = choose(engine, kernel)
    searched, checked, final = (
        range(seed, seed + seeds),
        range(seed + seeds, seed + seeds + checks),
        range(seed + seeds + checks, seed + seeds + 2 * checks),
    )

    def tree_of(values: JsonObject) -> JsonObject:
        return shrinking.Shrunk(base, values=values).tree()

    with closing(crew(on, jobs, None, chosen, keep=True)) as executor:
        evaluation = Evaluation(of, flow, Path(into), executor, chosen)

        def cost(points: Sequence[JsonObject]) -> list[float | None]:
            at = search.evaluated
            evaluation.progress = lambda done, _: progress(
                "search", at * seeds + done, max(budget, at + len(points)) * seeds
            )
            found = evaluation.values([tree_of(one) for one in points], searched)
            return [None if one is None else of.cost(statistics.fmean(one)) for one in found]

        def holds(trees: Sequence[JsonObject]) -> list[bool]:
            evaluation.progress = lambda done, planned: progress("reduction", done, planned)
            return [_beyond(of, one, most) for one in evaluation.values(trees, checked)]

        search = Search(space, cost, budget=budget, seed=seed, population=population)
        search.run()
        found = search.found()
        if not found:
            why = f": {evaluation.failures[0][1]}" if evaluation.failures else ""
            raise NarrowsError(
                f"{name}: no scenario has a value for --for {objective}{why}; run `narrows run` "
                "with the scenario, and check its flows and its path"
            )
        trees = [tree_of(one.values) for one in found[:_TRIED]]
        problem = next((i for i, tree in enumerate(trees) if holds([tree]) == [True]), None)
        at = problem or 0
        worst = evaluation.measured(trees[at], searched)
        smallest = None
        if problem is not None:
            tree = shrinking.shrink(base, space, found[at].values, holds, kept_flow=kept)
            smallest = evaluation.measured(tree, final)
            if not smallest.values:
                # No run of the final seeds has a value; those of the check all have one.
                smallest = evaluation.measured(tree, checked)
        return WorstCase(
            objective=of,
            limit=most,
            flow=flow,
            over=[axis.key for axis in space.axes],
            seed=seed,
            title=str(base.get("title") or Path(name).stem),
            engine=chosen,
            scenarios=search.evaluated,
            runs=evaluation.runs,
            values=found[at].values,
            worst=worst,
            checked=None if problem is None else evaluation.values([trees[at]], checked)[0],
            smallest=smallest,
            failed=evaluation.failures,
            into=Path(into),
        )


def _beyond(of: Objective, values: Sequence[float] | None, limit: float) -> bool:
    return values is not None and all(of.beyond(value, limit) for value in values)


def _check(base: JsonObject, space: Space) -> None:
    """Checks both ends of every range and every value of every list, as for a sweep."""
    ends = {
        axis.key: [axis.at(0), axis.at(1)] if isinstance(axis, Range) else list(axis.values)
        for axis in space.axes
    }
    for key in ends:
        keys.steps(key)
    Sweep(base, Design("grid", ends), (1,)).check()


def _named(base: JsonObject, flow: str | None) -> int | None:
    """The number of the `[[flow]]` that `--flow` names; None without the option.

    Raises:
        NarrowsError: If the scenario has no such flow.
    """
    ids: list[str] = []
    for number in range(len(base.get("flow", []))):
        tree = {**base, "flow": base["flow"][: number + 1]}
        new = [one["id"] for one in _core.scenario_defaults(tree)["flow"]][len(ids) :]
        if flow in new:
            return number
        ids += new
    if flow is None:
        return None
    raise NarrowsError(f"--flow {flow}: no such flow; the scenario has {', '.join(ids)}")


def _need_flows(base: JsonObject, space: Space, name: str, objective: str) -> None:
    """Refuses a scenario in which flows cannot be compared.

    Raises:
        NarrowsError: If the scenario has a single flow, and no key of flows varies.
    """
    varies = any(axis.key.startswith("flow") for axis in space.axes)
    if not varies and len(_core.scenario_defaults(base)["flow"]) == 1:
        raise NarrowsError(
            f"--for {objective}: compares flows, and {name} has one; add a [[flow]], or write "
            "--for queue or --for collapse"
        )
