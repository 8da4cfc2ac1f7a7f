"""Runs the checks of a suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from narrows.conform.check import Check, Result
from narrows.conform.suites import checks
from narrows.runs.parallel import everywhere
from narrows.runs.run import run
from narrows.runs.scenario import from_tree

if TYPE_CHECKING:
    from narrows.conform.model import ConformJson
    from narrows.conform.target import Target
    from narrows.runs.run import Progress, Run

SEEDS = 5
"""Default number of seeds of each check."""


@dataclass(frozen=True, kw_only=True)
class Conformance:
    """The results of all checks of a target.

    Attributes:
        target: The target.
        suite: The suite.
        seed: The first seed.
        seeds: Number of seeds.
        results: The results, in the order of the checks.
    """

    target: Target
    suite: str
    seed: int
    seeds: int
    results: Sequence[Result]

    def count(self, verdict: str) -> int:
        """The number of checks with this verdict."""
        return sum(result.verdict == verdict for result in self.results)

    def json(self) -> ConformJson:
        """The results as JSON."""
        return {
            "target": self.target.name,
            "version": self.target.version,
            "suite": self.suite,
            "seed": self.seed,
            "seeds": self.seeds,
            "checks": [result.json() for result in self.results],
            "passed": self.count("pass"),
            "failed": self.count("fail"),
            "undecided": self.count("not decided"),
        }


def conform(
    target: Target,
    suite: str = "basics",
    *,
    seed: int = 1,
    seeds: int = SEEDS,
    only: Sequence[str] | None = None,
    progress: Callable[[float, float], object] | None = None,
) -> Conformance:
    """Runs the checks of a suite.

    Args:
        target: The target.
        suite: The suite.
        seed: The first seed.
        seeds: Number of seeds of each check.
        only: The names of the checks; all of the suite by default.
        progress: Called with the number of finished runs and their total number.
    """
    chosen = [check for check in checks(suite) if only is None or check.name in only]
    applied = [check for check in chosen if check.applies(target)]
    todo = [(i, one) for i in range(len(applied)) for one in range(seed, seed + seeds)]
    finished = 0

    def one(item: tuple[int, int], keep_on: Progress) -> float | None:
        check = applied[item[0]]
        return check.metric(play(check, target, item[1], keep_on))

    def done(_item: tuple[int, int]) -> None:
        nonlocal finished
        finished += 1
        if progress is not None:
            progress(finished, len(todo))

    found = everywhere(todo, one, cost=lambda item: -item[0], done=done)
    by_check = {check.name: found[i * seeds : (i + 1) * seeds] for i, check in enumerate(applied)}
    results = [
        check.judge(by_check[check.name])
        if check.name in by_check
        else Result(
            check=check,
            verdict="not applicable",
            reason=f"the source makes no statement about {target.cc} ({target.family})",
        )
        for check in chosen
    ]
    return Conformance(target=target, suite=suite, seed=seed, seeds=seeds, results=results)


def play(
    check: Check,
    target: Target,
    seed: int,
    progress: Progress | None = None,
    *,
    samples: str | None = None,
) -> Run:
    """Runs the scenario of a check with a seed."""
    scenario = from_tree(check.scenario(target))
    return run(scenario, seed=seed, sample_interval=samples or check.samples, progress=progress)
