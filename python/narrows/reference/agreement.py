"""Comparison of the simulator with stored reference cases, and of Linux with itself."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from narrows import _core
from narrows.reference.model import FamilyJson
from narrows.reference.stored import Case, Verdict, judge, missing, value
from narrows.runs.parallel import everywhere
from narrows.runs.run import Progress

if TYPE_CHECKING:
    from narrows.runs.model import RunJson

C = TypeVar("C", bound=Case)

LEAST_RUNS = 3
"""Minimum number of recorded runs with which Linux is compared with itself."""


@dataclass(frozen=True, kw_only=True)
class Outcome(Generic[C]):
    """The comparison of a simulated case with the recorded runs.

    Attributes:
        case: The case.
        verdicts: One for each compared metric ("figure").
    """

    case: C
    verdicts: tuple[Verdict, ...]

    @property
    def agrees(self) -> bool:
        """Whether every compared metric agrees."""
        return all(v.agrees for v in self.verdicts)


def can_run(case: Case) -> bool:
    """Whether this version of narrows has all congestion controls and the queue discipline of the
    case.
    """
    return not missing(case)


def play(
    todo: Sequence[C],
    *,
    seeds: int,
    jobs: int | None = None,
    done: Callable[[float], object] = lambda _: None,
) -> list[Outcome[C]]:
    """Simulates the cases with seeds from 1 and compares the medians over the seeds with the
    recorded runs. `done` is called with the cost of each finished run.
    """

    def one(job: tuple[C, int], keep_on: Progress) -> list[float]:
        case, seed = job
        text = _core.run_toml(
            case.toml, case.name, seed=seed, sample_interval="off", progress=keep_on
        ).json()
        run: RunJson = json.loads(text)
        return [value(run, figure) for figure in case.compared]

    pairs = [(case, seed) for case in todo for seed in range(1, seeds + 1)]
    found = everywhere(
        pairs, one, cost=lambda job: job[0].cost, done=lambda job: done(job[0].cost), jobs=jobs
    )
    return [_outcome(case, found[i * seeds : (i + 1) * seeds]) for i, case in enumerate(todo)]


def _outcome(case: C, by_seed: Sequence[Sequence[float]]) -> Outcome[C]:
    ours = [statistics.median(values) for values in zip(*by_seed, strict=True)]
    return Outcome(
        case=case,
        verdicts=tuple(judge(case, f, x) for f, x in zip(case.compared, ours, strict=True)),
    )


def itself(case: Case) -> bool | None:
    """Whether the last recorded run agrees with the others; None with less than three runs.

    A metric without a value for each run (a metric of the first seconds) is not compared.
    """
    if case.recorded < LEAST_RUNS:
        return None
    whole = [f for f in case.compared if len(f.runs) == case.recorded]
    return all(judge(case, f, f.runs[-1], f.runs[:-1]).agrees for f in whole)


@dataclass(frozen=True, kw_only=True)
class Family:
    """Statistics of the cases of a family.

    Attributes:
        name: The name.
        cases: Number of cases.
        agree: Number of cases in which the simulator agrees with Linux in every metric.
        itself: Number of cases in which the last run of Linux agrees with its other runs.
        known: Number of cases with at least three recorded runs.
    """

    name: str
    cases: int
    agree: int
    itself: int
    known: int

    def json(self) -> FamilyJson:
        """The JSON object of the family's statistics."""
        return {
            "family": self.name,
            "cases": self.cases,
            "agree": self.agree,
            "linux_itself": self.itself,
            "linux_known": self.known,
        }

    @property
    def relative(self) -> float | None:
        """The share of cases in which the simulator agrees, divided by the share in which Linux
        agrees with itself; None if unknown.
        """
        return self.agree / self.cases / (self.itself / self.known) if self.itself else None


def families(outcomes: Sequence[Outcome[C]]) -> list[Family]:
    """The outcomes by family, in the order of the first case of each."""
    by: dict[str, list[Outcome[C]]] = {}
    for one in outcomes:
        by.setdefault(one.case.family, []).append(one)
    found = []
    for name, here in by.items():
        own = [x for one in here if (x := itself(one.case)) is not None]
        found.append(
            Family(
                name=name,
                cases=len(here),
                agree=sum(one.agrees for one in here),
                itself=sum(own),
                known=len(own),
            )
        )
    return found
