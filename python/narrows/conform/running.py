"""Runs the checks of a suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from narrows.conform import pair
from narrows.conform.check import Check, Result
from narrows.conform.pair import NO_DATA, NoDataError, Pair
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
            "client": self.target.client if isinstance(self.target, Pair) else None,
            "engine": self.target.engine if isinstance(self.target, Pair) else "sim",
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
    refused = {check.name: _refusal(check, target) for check in chosen}
    applied = [check for check in chosen if not refused[check.name]]
    todo = [(i, one) for i in range(len(applied)) for one in range(seed, seed + seeds)]
    finished = 0

    def one(item: tuple[int, int], keep_on: Progress) -> tuple[float | None, str]:
        try:
            return _measure(applied[item[0]], target, item[1], keep_on)
        except NoDataError:
            # Without data in the first run, the commands are probably wrong.
            if item == todo[0]:
                raise
            return None, NO_DATA

    def done(_item: tuple[int, int]) -> None:
        nonlocal finished
        finished += 1
        if progress is not None:
            progress(finished, len(todo))

    # Live runs at the same time would disturb each other.
    jobs = 1 if isinstance(target, Pair) and target.engine == "live" else None
    found = everywhere(todo, one, cost=lambda item: -item[0], done=done, jobs=jobs)
    by_check = {check.name: found[i * seeds : (i + 1) * seeds] for i, check in enumerate(applied)}
    results = [refused[check.name] or _judged(check, by_check[check.name]) for check in chosen]
    return Conformance(target=target, suite=suite, seed=seed, seeds=seeds, results=results)


def _refusal(check: Check, target: Target) -> Result | None:
    """The result of a check that does not run for a target; None if it runs."""
    if not check.applies(target):
        of = f"{target.cc} ({target.family})" if target.cc else target.rules
        reason = f"the source makes no statement about {of}"
        if not of:
            reason = "the congestion control is not known; use --as"
        return Result(check=check, verdict="not applicable", reason=reason)
    if check.states and target.transport is not None:
        reason = "the state of the congestion control is not visible"
        return Result(check=check, verdict="not decided", reason=reason)
    if isinstance(target, Pair) and (reason := target.refusal(check)):
        return Result(check=check, verdict="not decided", reason=reason)
    return None


def _measure(
    check: Check, target: Target, seed: int, keep_on: Progress
) -> tuple[float | None, str]:
    """The quantity of a check in one run, or the reason for which it was not measured."""
    if not isinstance(target, Pair):
        return check.metric(play(check, target, seed, keep_on)), ""
    seen = pair.play(check, target, seed, keep_on)
    if not seen.trusted:
        return None, f"the self-check of the run failed: {seen.why}"
    if isinstance(check.path_metric, str) or (ended := seen.ended(target.client)):
        return None, check.path_metric if isinstance(check.path_metric, str) else ended
    value = check.path_metric(seen)
    return value, "the queue marked no packet" if value is None else ""


def _judged(check: Check, found: Sequence[tuple[float | None, str]]) -> Result:
    """The verdict, with the first reason for which a value is missing."""
    reason = next((reason for _, reason in found if reason), "")
    return check.judge([value for value, _ in found], reason)


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
    return run(
        scenario,
        seed=seed,
        sample_interval=samples or check.samples,
        states=check.states,
        progress=progress,
    )
