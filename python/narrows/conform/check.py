"""A check: a scenario, a metric of its runs, and the range in which a source expects this metric.

The metric of each seed is computed from the run of that seed. The verdict uses the 95 % confidence
interval of the mean over the seeds (`narrows.inference.of_mean`). The check passes if the interval
is inside the range, and fails if the interval is outside. If the interval contains a limit of the
range, the check is not decided.

An undecided check states how many seeds would probably decide it. It does not run them by itself: a
check that adds seeds until it is decided has more than 5 % wrong verdicts.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from narrows.inference import LEVEL, Estimate, half_width, of_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narrows.conform.model import CheckJson, VerdictName
    from narrows.conform.target import Target
    from narrows.conform.traffic import PathMetric
    from narrows.json_object import JsonObject
    from narrows.runs.run import Run

_MOST_SEEDS = 200
"""Number of seeds up to which an undecided check states how many would decide it."""


def _always(_target: Target) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check.

    Attributes:
        name: Its name.
        suite: `basics`, `fairness`, `ccwg` or `bbr`.
        question: The quantity, as a noun phrase.
        source: The document with its section that states the range.
        scenario: The tables of the scenario for a target.
        metric: The quantity of a run; None if it was not measured.
        least: Lower end of the range.
        most: Upper end.
        unit: Unit of the quantity.
        applies: Whether the source makes a statement about this target.
        samples: Interval of samples that the metric needs.
        path_metric: The quantity of the traffic of a pair of commands, or the reason for which
            their traffic does not decide the check.
        states: Whether the metric needs the state of the congestion control.
    """

    name: str
    suite: str
    question: str
    source: str
    scenario: Callable[[Target], JsonObject]
    metric: Callable[[Run], float | None]
    least: float
    most: float
    unit: str = ""
    applies: Callable[[Target], bool] = field(default=_always)
    samples: str = "off"
    path_metric: PathMetric | str = "it needs the state of the stack"
    states: bool = False

    def judge(self, values: Sequence[float | None], reason: str = "") -> Result:
        """The result of this check, from the metric of each seed. `reason` explains a value that
        was not measured.
        """
        seen = [value for value in values if value is not None]
        if len(seen) < len(values) or not seen:
            count = f"not measured in {len(values) - len(seen)} of {len(values)} runs"
            because = f"{count}: {reason}" if reason else count
            return Result(check=self, verdict="not decided", reason=because)
        interval = of_mean(seen, least=min(0.0, *seen))
        low = interval.mean if interval.low is None else interval.low
        high = interval.mean if interval.high is None else interval.high
        verdict: VerdictName = "not decided"
        if self.least <= low and high <= self.most:
            verdict = "pass"
        elif high < self.least or low > self.most:
            verdict = "fail"
        return Result(
            check=self,
            verdict=verdict,
            mean=interval.mean,
            low=low,
            high=high,
            seeds=len(seen),
            reason="" if verdict != "not decided" else self._undecided(seen),
        )

    def _undecided(self, values: Sequence[float]) -> str:
        """The reason: the interval contains a limit, and how many seeds would decide the check.

        With this number of seeds, the interval contains no limit if mean and standard deviation
        remain the same.
        """
        mean, error = statistics.fmean(values), statistics.stdev(values)
        distance = min(abs(mean - self.least), abs(mean - self.most))
        enough = (
            n
            for n in range(len(values) + 1, _MOST_SEEDS + 1)
            if half_width(LEVEL, Estimate(error / math.sqrt(n), n - 1)) < distance
        )
        n = next(enough, None)
        advice = f"more than {_MOST_SEEDS} seeds" if n is None else f"some {n} seeds"
        return f"the interval contains a limit; {advice} would decide it"


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of a check.

    Attributes:
        check: The check.
        verdict: The verdict.
        mean: Mean of the metric over the seeds; None if it was not measured in all of them.
        low: Lower end of the 95 % confidence interval of the mean.
        high: Upper end.
        seeds: Number of seeds.
        reason: The reason if the verdict is neither `pass` nor `fail`.
    """

    check: Check
    verdict: VerdictName
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    seeds: int = 0
    reason: str = ""

    def json(self) -> CheckJson:
        """The result as JSON."""
        of = self.check
        return {
            "suite": of.suite,
            "check": of.name,
            "question": of.question,
            "source": of.source,
            "unit": of.unit,
            "least": of.least,
            "most": of.most,
            "mean": self.mean,
            "low": self.low,
            "high": self.high,
            "seeds": self.seeds,
            "verdict": self.verdict,
            "reason": self.reason,
        }
