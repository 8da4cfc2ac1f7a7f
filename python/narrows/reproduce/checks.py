"""Published values ("figures") with accepted ranges (`data/experiments.toml`), and the outcomes of
their checks.

The file was committed before the first run of each experiment, so that no range depends on a result
of narrows. If results of similar runs were known before, the key `setup` of the experiment states
this. Explanations of figures outside their range are in `data/misses.toml`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Literal

from narrows import _core
from narrows.inference import Interval
from narrows.json_object import JsonObject
from narrows.reproduce.lab import Grid
from narrows.reproduce.model import OutcomeJson, ReasonJson, SeedsJson, SpreadJson
from narrows.runs.engines import SIM, EngineChoice

EXPERIMENTS = "data/experiments.toml"
MISSES = "data/misses.toml"

Word = Literal["inside", "outside", "shown", "failed", "left out"]
"""Outcome of a check: inside or outside the accepted range, shown without a range, not determined
(`failed`), or not computed (`left out`)."""

NEAR = 1.1
"""An explanation applies to figures up to this factor beyond those that its evidence shows."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One published figure.

    Attributes:
        id: Identifier of the check, with which the code of the experiment returns its figure.
        of: Description of the figure.
        published: Published value, as text.
        unit: Unit of all numbers.
        accept: Accepted range, both ends included; None if the figure is shown without a verdict.
        full: True if a quick run leaves out this check.
    """

    id: str
    of: str
    published: str
    unit: str
    accept: tuple[float, float] | None = None
    full: bool = False

    def word(self, ours: float | None) -> Word:
        """The outcome of the check for this figure of narrows; None stands for a figure that was
        not computed.
        """
        if ours is None:
            return "left out"
        if self.accept is None:
            return "shown"
        return "inside" if self.accept[0] <= ours <= self.accept[1] else "outside"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A published experiment.

    Attributes:
        name: Name on the command line.
        title: Topic.
        source: Publication, and the source of the figures.
        setup: Configuration of the runs.
        checks: Figures.
    """

    name: str
    title: str
    source: str
    setup: str
    checks: tuple[Check, ...]


@dataclass(frozen=True, kw_only=True)
class Miss:
    """Explanation of a figure outside its range.

    Attributes:
        why: The explanation, in one or two sentences.
        evidence: File of an experiment that supports the explanation, relative to the root of the
            repository.
        side: Side of the accepted range on which the explained figures lie.
        seen: Figures that the experiment in `evidence` found.
    """

    why: str
    evidence: str
    side: Literal["above", "below"]
    seen: tuple[float, ...]

    def range(self, check: Check) -> tuple[float, float]:
        """Range of the figures that the explanation covers.

        >>> ratio = Check(id="a", of="A", published="3", unit="times", accept=(2.0, 4.5))
        >>> miss = Miss(why="Linux has 1.3", evidence="a.md", side="below", seen=(1.1, 2.0))
        >>> miss.range(ratio), miss.explains(ratio, 1.4), miss.explains(ratio,
        ...     4.59), miss.explains(ratio, 0.5)
        ((1.0, 2.0), True, False, False)
        """
        assert check.accept is not None
        least, most = check.accept
        low, high = min(self.seen) / NEAR, max(self.seen) * NEAR
        return (low, min(high, least)) if self.side == "below" else (max(low, most), high)

    def explains(self, check: Check, ours: float) -> bool:
        """True if the explanation applies to this figure."""
        low, high = self.range(check)
        return check.word(ours) == "outside" and low <= ours <= high


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of an experiment.

    Attributes:
        experiment: The experiment.
        ours: Figures of narrows by check, without those that were not computed.
        quick: True for a quick run.
        runs: Number of runs.
        seconds: Wall-clock time of the experiment, in s.
        made: Version of narrows.
        misses: Explanations of figures outside their range, by check.
        failed: Reason why a figure could not be determined, by check.
        lacks: Reason why a figure was not computed, by check, such as a quick run.
        replications: Number of replications; None if none were requested. With replications, the
            figures are means.
        intervals: 95 % confidence intervals of these means, by check.
        engine: The engine of the runs.
        tables: Additional tables of the experiment.
    """

    experiment: Experiment
    ours: Mapping[str, float]
    quick: bool
    runs: int
    seconds: float
    made: str = ""
    misses: Mapping[str, Miss] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    lacks: Mapping[str, str] = field(default_factory=dict)
    replications: int | None = None
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    engine: EngineChoice = SIM
    tables: Sequence[Grid] = ()

    @property
    def command(self) -> str:
        """The command that computes this outcome in a full run."""
        words = ["narrows reproduce", self.experiment.name]
        if self.engine != SIM:
            words.append(f"--engine {self.engine.name}")
        if self.engine.kernel_name is not None:
            words.append(f"--kernel {self.engine.kernel_name}")
        return " ".join(words)

    def half(self, check: Check) -> float | None:
        """Half-width of the confidence interval of a figure; None without an interval."""
        return self.intervals[check.id].half() if check.id in self.intervals else None

    def words(self) -> list[tuple[Check, float | None, Word]]:
        """Every check with the figure of narrows and the outcome."""
        return [
            (
                c,
                self.ours.get(c.id),
                "failed" if c.id in self.failed else c.word(self.ours.get(c.id)),
            )
            for c in self.experiment.checks
        ]

    def explained(self, check: Check) -> Miss | None:
        """The explanation that applies to a check outside its range, if any."""
        miss, ours = self.misses.get(check.id), self.ours.get(check.id)
        return (
            miss if miss is not None and ours is not None and miss.explains(check, ours) else None
        )

    def reason(self, check: Check) -> str:
        """The reason why a figure is outside its range or missing; empty otherwise."""
        known = self.failed.get(check.id) or self.lacks.get(check.id)
        ours, miss = self.ours.get(check.id), self.misses.get(check.id)
        if known is not None or check.word(ours) != "outside":
            return known or ""
        if (explained := self.explained(check)) is not None:
            return explained.why
        if self.quick:
            return f"not explained; a full run is decisive: {self.command}"
        if miss is None:
            return "not explained"
        low, high = miss.range(check)
        return f"not explained: {miss.evidence} applies to figures from {low:.3g} to {high:.3g}"

    def count(self, word: Word) -> int:
        """Number of checks with this outcome."""
        return sum(one == word for _, _, one in self.words())

    def json(self) -> OutcomeJson:
        """The JSON object of `narrows reproduce --json`."""
        return {
            "experiment": self.experiment.name,
            "title": self.experiment.title,
            "source": self.experiment.source,
            "setup": self.experiment.setup,
            "quick": self.quick,
            "runs": self.runs,
            "took_s": round(self.seconds, 1),
            "made": self.made,
            **self._seeds(),
            "checks": [
                {
                    "id": check.id,
                    "of": check.of,
                    "unit": check.unit,
                    "published": check.published,
                    "accept": check.accept,
                    "ours": ours,
                    "verdict": word,
                    **self._interval(check),
                    **self._why(check, word),
                }
                for check, ours, word in self.words()
            ],
            "tables": [one.json() for one in self.tables],
        }

    def _seeds(self) -> SeedsJson:
        found: SeedsJson = {} if self.replications is None else {"seeds": self.replications}
        if self.engine != SIM:
            found["engine"] = self.engine.json()
        return found

    def _interval(self, check: Check) -> SpreadJson:
        one = self.intervals.get(check.id)
        return {} if one is None else {"interval": [one.low, one.high], "sd": one.sd}

    def _why(self, check: Check, word: Word) -> ReasonJson:
        miss = self.explained(check) if word == "outside" else None
        found: ReasonJson = {}
        if miss is not None:
            found["why"] = {"why": miss.why, "evidence": miss.evidence}
        if reason := self.reason(check):
            found["reason"] = reason
        return found


@cache
def experiments() -> dict[str, Experiment]:
    """All experiments by name, in the order of the file.

    >>> list(experiments())[:3]
    ['grid', 'replication', 'decision-tree']
    """
    return {one["name"]: _experiment(one) for one in _read(EXPERIMENTS)["experiment"]}


@cache
def misses(name: str) -> dict[str, Miss]:
    """The explanations of figures outside their range, by check, for an experiment."""
    return {
        id_: Miss(**{**miss, "seen": tuple(map(float, miss["seen"]))})
        for id_, miss in _read(MISSES).get(name, {}).items()
    }


def _read(file: str) -> JsonObject:
    text = resources.files("narrows").joinpath(file).read_text(encoding="utf-8")
    return _core.toml_tables(text, file)


def _experiment(one: Mapping[str, Any]) -> Experiment:
    return Experiment(
        **{k: v for k, v in one.items() if k != "check"}, checks=tuple(map(_check, one["check"]))
    )


def _check(one: Mapping[str, Any]) -> Check:
    accept: Sequence[float] | None = one.get("accept")
    rest = {k: v for k, v in one.items() if k != "accept"}
    return Check(**rest, accept=None if accept is None else (float(accept[0]), float(accept[1])))
