"""A training: the search with its journal, its limits, its progress and its result."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from narrows.storage.durable import replacing
from narrows.train import rules
from narrows.train.journal import Journal
from narrows.train.network import digest
from narrows.train.search import FIRST, Search

if TYPE_CHECKING:
    from narrows.train.model import ResultJson, StepJson, TaskJson, TrainedJson, TrainingJson
    from narrows.train.pool import Pool
    from narrows.train.rules import Tree
    from narrows.train.search import Step

JOURNAL = "journal"
BEST = "tree.remy"
_UNSEEN = "unseen"
"""The round whose specimens compare the first and the last tree; the search never uses it."""


@dataclass
class Limits:
    """The end of a search: after the first step that reaches one of these limits.

    Attributes:
        budget_s: CPU time, in s.
        steps: Number of steps; None for no limit.
    """

    budget_s: float
    steps: int | None = None

    def reached(self, cpu_s: float, steps: int) -> bool:
        """Whether the search ends."""
        return cpu_s >= self.budget_s or (self.steps is not None and steps >= self.steps)

    def share(self, cpu_s: float, steps: int) -> float:
        """The finished share of the search, 0 to 1."""
        by_steps = 0.0 if self.steps is None else steps / max(1, self.steps)
        return min(1.0, max(cpu_s / self.budget_s if self.budget_s else 1.0, by_steps))


@dataclass
class Training:
    """A training in a directory.

    Attributes:
        training: The settings.
        into: The directory of the journal and of the tree.
        limits: The end of the search.
        progress: Called with the finished share, 0 to 1, as tasks end.
        on_step: Called after each step.
    """

    training: TrainingJson
    into: Path
    limits: Limits
    progress: Callable[[float], None] = lambda _: None
    on_step: Callable[[StepJson], None] = lambda _: None
    _steps: list[StepJson] = field(default_factory=list)
    _begin: float = field(default_factory=time.monotonic)
    _new_s: float = 0.0
    _in_step_s: float = 0.0

    def run(self, pool: Pool) -> TrainedJson:
        """Searches until a limit is reached, and returns the result.

        Raises:
            NarrowsError: If the journal cannot be used.
            EngineError: If the processes end repeatedly.
        """
        with Journal(self.into / JOURNAL) as journal, closing(pool):

            def evaluate(tasks: Sequence[TaskJson]) -> list[ResultJson]:
                return self._evaluate(tasks, journal, pool)

            search = Search(self.training, evaluate)
            tree, cpu_s = search.tree, 0.0
            if not self.limits.reached(0.0, 0):
                for step in search.steps():
                    tree, cpu_s = step.tree, step.cpu_s
                    self._record(step)
                    if self.limits.reached(cpu_s, len(self._steps)):
                        break
            before, after = (self._unseen(of, evaluate) for of in (FIRST, tree))
        text = self.text(tree, cpu_s, before, after)
        self._write(text)
        return {
            "title": self.training["title"],
            "training_sha256": digest(self.training),
            "tree_sha256": hashlib.sha256(rules.text_of(tree).encode()).hexdigest(),
            "steps": self._steps,
            "rules": len(rules.rules(tree)),
            "cpu_s": round(cpu_s, 1),
            "score_before": before,
            "score_after": after,
            "specimens": self._unseen_specimens,
            "file": str(self.into / BEST),
        }

    @property
    def left_s(self) -> float | None:
        """Expected time until the end, in s, from the CPU time per second so far."""
        took = time.monotonic() - self._begin
        if not self._steps or self._new_s <= 0:
            return None
        last = self._steps[-1]
        done = self.limits.share(last["cpu_s"], last["step"])
        if done <= 0:
            return None
        return last["cpu_s"] * (1 / done - 1) * took / self._new_s

    def text(self, tree: Tree, cpu_s: float, before: float, after: float) -> str:
        """The text of a trained tree, whose comments describe its origin."""
        head = [
            f"{self.training['title']}: made by `narrows train remy`.",
            f"training file: SHA-256 {digest(self.training)} of its settings",
            f"seed {self.training['search']['seed']}, {len(self._steps)} steps, "
            f"{len(rules.rules(tree))} rules, {cpu_s:.0f} s of CPU time",
            f"mean objective on {self._unseen_specimens} unseen specimens: {after:.4f}; "
            f"first tree: {before:.4f}",
        ]
        return rules.text_of(tree, head)

    @property
    def _unseen_specimens(self) -> int:
        return 2 * self.training["search"]["specimens"]

    def _unseen(
        self, tree: Tree, evaluate: Callable[[Sequence[TaskJson]], list[ResultJson]]
    ) -> float:
        tasks: list[TaskJson] = [
            {
                "training": self.training,
                "round": _UNSEEN,
                "tree": rules.text_of(tree),
                "specimens": [number],
                "uses": False,
            }
            for number in range(self._unseen_specimens)
        ]
        return statistics.fmean(result["scores"][0] for result in evaluate(tasks))

    def _evaluate(
        self, tasks: Sequence[TaskJson], journal: Journal, pool: Pool
    ) -> list[ResultJson]:
        new = [task for task in tasks if journal.find(task) is None]
        for number, result in pool.results(new) if new else ():
            journal.add(new[number], result)
            self._new_s += result["cpu_s"]
            self._in_step_s += result["cpu_s"]
            spent = self._in_step_s + (self._steps[-1]["cpu_s"] if self._steps else 0.0)
            self.progress(self.limits.share(spent, len(self._steps)))
        return [found for task in tasks if (found := journal.find(task)) is not None]

    def _record(self, step: Step) -> None:
        self._in_step_s = 0.0
        self._steps.append(
            {
                "step": len(self._steps) + 1,
                "did": step.did,
                "rule": step.rule,
                "rules": len(rules.rules(step.tree)),
                "epoch": step.epoch,
                "score": step.score,
                "cpu_s": step.cpu_s,
            }
        )
        self._write(rules.text_of(step.tree, [f"unfinished: step {len(self._steps)}"]))
        self.on_step(self._steps[-1])

    def _write(self, text: str) -> None:
        with replacing(self.into, BEST) as part:
            part.write_text(text, encoding="utf-8")
