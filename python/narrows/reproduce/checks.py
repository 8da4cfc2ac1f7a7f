"""What was published and how near counts as the same: `data/experiments.toml`, and what became of it.

The file was committed before the first run, so that no tolerance follows a result. What was missed and why is in a file
of its own, `data/misses.toml`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Literal

from narrows import _core

EXPERIMENTS = "data/experiments.toml"
MISSES = "data/misses.toml"

Word = Literal["inside", "outside", "shown", "failed", "left out"]
"""What became of a check; `failed`: its figure was looked for and not found."""

NEAR = 1.1
"""An explanation holds for figures within this factor of those that its experiment has."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One published figure.

    Attributes:
        id: What the code answers.
        of: What it is.
        published: As it stands there.
        unit: Of all its numbers.
        accept: What is inside, both ends too; None where it is only shown.
        full: Is it left out of a quick run?
    """

    id: str
    of: str
    published: str
    unit: str
    accept: tuple[float, float] | None = None
    full: bool = False

    def word(self, ours: float | None) -> Word:
        """What became of it."""
        if ours is None:
            return "left out"
        if self.accept is None:
            return "shown"
        return "inside" if self.accept[0] <= ours <= self.accept[1] else "outside"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What was published together.

    Attributes:
        name: How it is asked for.
        title: What it is about.
        source: Who published it, where, and who read it.
        setup: How it is run here.
        checks: Its figures.
    """

    name: str
    title: str
    source: str
    setup: str
    checks: tuple[Check, ...]


@dataclass(frozen=True, kw_only=True)
class Miss:
    """Why a check is outside.

    Attributes:
        why: In a sentence or two.
        evidence: The file of the experiment that shows it, from the root of the repository.
        side: On which side of what is accepted it holds.
        seen: The figures that the experiment has.
    """

    why: str
    evidence: str
    side: Literal["above", "below"]
    seen: tuple[float, ...]

    def range(self, check: Check) -> tuple[float, float]:
        """The figures that it explains.

        >>> ratio = Check(id="a", of="A", published="3", unit="times", accept=(2.0, 4.5))
        >>> miss = Miss(why="Linux has 1.3", evidence="a.md", side="below", seen=(1.1, 2.0))
        >>> miss.range(ratio), miss.explains(ratio, 1.4), miss.explains(ratio, 4.59), miss.explains(ratio, 0.5)
        ((1.0, 2.0), True, False, False)
        """
        assert check.accept is not None
        least, most = check.accept
        low, high = min(self.seen) / NEAR, max(self.seen) * NEAR
        return (low, min(high, least)) if self.side == "below" else (max(low, most), high)

    def explains(self, check: Check, ours: float) -> bool:
        """Is the explanation about a figure like this one?"""
        low, high = self.range(check)
        return check.word(ours) == "outside" and low <= ours <= high


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """An experiment that was run.

    Attributes:
        experiment: Which.
        ours: Our figures by check; what a quick run leaves out is absent.
        quick: Was it a quick run?
        runs: So many simulations it took.
        seconds: So long they took.
        made: Version and build of narrows.
        misses: What is known of checks that are outside.
        failed: Why a figure was looked for and not found, by check.
        lacks: What is not installed that a check needs, by check.
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

    def words(self) -> list[tuple[Check, float | None, Word]]:
        """Every check with ours and its verdict."""
        return [
            (c, self.ours.get(c.id), "failed" if c.id in self.failed else c.word(self.ours.get(c.id)))
            for c in self.experiment.checks
        ]

    def explained(self, check: Check) -> Miss | None:
        """What explains that a check is outside, if something does that is about such a figure."""
        miss, ours = self.misses.get(check.id), self.ours.get(check.id)
        return miss if miss is not None and ours is not None and miss.explains(check, ours) else None

    def reason(self, check: Check) -> str:
        """Why a check is not inside, in words; empty where it is."""
        known = self.failed.get(check.id) or self.lacks.get(check.id)
        ours, miss = self.ours.get(check.id), self.misses.get(check.id)
        if known is not None or check.word(ours) != "outside":
            return known or ""
        if (explained := self.explained(check)) is not None:
            return explained.why
        if self.quick:
            return f"not explained; the whole run decides: narrows reproduce {self.experiment.name}"
        if miss is None:
            return "not explained yet"
        low, high = miss.range(check)
        return f"not explained: {miss.evidence} is about figures from {low:.3g} to {high:.3g}"

    def count(self, word: Word) -> int:
        """So many came to that."""
        return sum(one == word for _, _, one in self.words())

    def json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "experiment": self.experiment.name,
            "title": self.experiment.title,
            "source": self.experiment.source,
            "setup": self.experiment.setup,
            "quick": self.quick,
            "runs": self.runs,
            "took_s": round(self.seconds, 1),
            "made": self.made,
            "checks": [
                {
                    "id": check.id,
                    "of": check.of,
                    "unit": check.unit,
                    "published": check.published,
                    "accept": check.accept,
                    "ours": ours,
                    "verdict": word,
                    **self._why(check, word),
                }
                for check, ours, word in self.words()
            ],
        }

    def _why(self, check: Check, word: Word) -> dict[str, Any]:
        miss = self.explained(check) if word == "outside" else None
        reason = self.reason(check)
        return {
            **({"why": {"why": miss.why, "evidence": miss.evidence}} if miss is not None else {}),
            **({"reason": reason} if reason else {}),
        }


@cache
def experiments() -> dict[str, Experiment]:
    """All of them by name, in the order of the file.

    >>> list(experiments())[:3]
    ['grid', 'replication', 'decision-tree']
    """
    return {one["name"]: _experiment(one) for one in _read(EXPERIMENTS)["experiment"]}


@cache
def misses(name: str) -> dict[str, Miss]:
    """What is known of an experiment's misses."""
    return {
        id_: Miss(**{**miss, "seen": tuple(map(float, miss["seen"]))})
        for id_, miss in _read(MISSES).get(name, {}).items()
    }


def _read(file: str) -> dict[str, Any]:
    text = resources.files("narrows").joinpath(file).read_text(encoding="utf-8")
    return _core.toml_tables(text, file)


def _experiment(one: Mapping[str, Any]) -> Experiment:
    return Experiment(**{k: v for k, v in one.items() if k != "check"}, checks=tuple(map(_check, one["check"])))


def _check(one: Mapping[str, Any]) -> Check:
    accept: Sequence[float] | None = one.get("accept")
    rest = {k: v for k, v in one.items() if k != "accept"}
    return Check(**rest, accept=None if accept is None else (float(accept[0]), float(accept[1])))
