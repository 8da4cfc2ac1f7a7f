"""The published search for a tree of rules.

Algorithm (Winstein and Balakrishnan, TCP ex Machina, SIGCOMM 2013, section 4.3), in steps:

1. All rules are in the present epoch.
2. The tree runs on the specimens of a new round. Of the rules in the present epoch, the most used
   one is chosen. If none was used, step 4 follows.
3. Every combination of geometric steps from its action (window multiple, window increment, gap
   between packets) runs on the same specimens. If the best one improves the mean objective, it
   becomes the action of the rule, and step 3 is repeated. Otherwise the rule moves to the next
   epoch, and step 2 follows.
4. The next epoch begins. After every `epochs_per_split` epochs, the most used rule is split at the
   medians of the memories that selected it, into one rule for each octant. Step 1 follows.

Deviation: with `shortlist`, all candidates run on a few specimens of the round, and only the best
of them run on all specimens. Without it, every candidate runs on all specimens, as published.

The search is deterministic: it depends on the training file only, not on the number of processes or
on the order of their results.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from narrows.train import rules
from narrows.train.rules import Rule, Tree, plain

if TYPE_CHECKING:
    from narrows.train.model import ResultJson, StepsJson, TaskJson, TrainingJson, UseJson

    Evaluate = Callable[[Sequence[TaskJson]], list[ResultJson]]

LEAST_GAIN = 1e-9
"""Minimum gain of the objective that counts as an improvement."""

FIRST: Tree = Rule()
"""The tree with which the search begins: one rule, which is that of the program Remy."""

Did = Literal["improved", "kept", "split", "epoch"]


@dataclass(frozen=True)
class Step:
    """A finished step of the search.

    Attributes:
        did: `improved` or `kept` an action, `split` a rule, or began an `epoch`.
        rule: Number of the rule; None for `epoch`.
        tree: The tree after the step.
        epoch: The present epoch.
        score: The mean objective on the specimens of the round.
        cpu_s: CPU time of all steps so far.
    """

    did: Did
    rule: int | None
    tree: Tree
    epoch: int
    score: float
    cpu_s: float


def changes(steps: StepsJson) -> list[float]:
    """The changes of a value: 0, and ±`first` times powers of `factor`.

    >>> changes({"first": 1, "factor": 8, "count": 2, "least": 0, "most": 9})
    [0, 1, -1, 8, -8]
    """
    sizes = [steps["first"] * steps["factor"] ** i for i in range(steps["count"])]
    return [0, *itertools.chain.from_iterable((size, -size) for size in sizes)]


def candidates(rule: Rule, training: TrainingJson) -> list[Rule]:
    """The rules near `rule`, in a fixed order and without `rule` itself."""
    search = training["search"]

    def near(value: float, steps: StepsJson) -> list[float]:
        inside = (value + change for change in changes(steps))
        return [plain(x) for x in inside if steps["least"] <= x <= steps["most"]]

    combined = itertools.product(
        near(rule.multiple, search["multiple"]),
        near(rule.increment, search["increment"]),
        near(rule.intersend, search["intersend"]),
    )
    found = (replace(rule, multiple=m, increment=round(b), intersend=r) for m, b, r in combined)
    return [one for one in dict.fromkeys(found) if one != rule]


class Search:
    """The state of a search."""

    def __init__(self, training: TrainingJson, evaluate: Evaluate) -> None:
        """Begins with a tree of one rule; `evaluate` returns the results of tasks in order."""
        self.training, self._evaluate = training, evaluate
        self.tree = FIRST
        self.epoch = 0
        self.cpu_s = 0.0
        self._round = 0

    def steps(self) -> Iterator[Step]:
        """The steps of the search, without end."""
        whole = list(range(self.training["search"]["specimens"]))
        while True:
            self._round += 1
            [base] = self._run([self.tree], whole, uses=True)
            score = statistics.fmean(base["scores"])
            present = rules.rules(self.tree)
            used = [use for use in base["uses"] if present[use["rule"]].epoch == self.epoch]
            if not used:
                yield self._next_epoch(base["uses"], score)
                continue
            number = _most_used(used)["rule"]
            while (better := self._improved(number, base)) is not None:
                self.tree, base = better
                score = statistics.fmean(base["scores"])
                yield self._step("improved", number, score)
            kept = replace(rules.rules(self.tree)[number], epoch=self.epoch + 1)
            self.tree = rules.with_rule(self.tree, number, kept)
            yield self._step("kept", number, score)

    def _step(self, did: Did, rule: int | None, score: float) -> Step:
        return Step(did, rule, self.tree, self.epoch, score, self.cpu_s)

    def _next_epoch(self, uses: list[UseJson], score: float) -> Step:
        self.epoch += 1
        number = None
        if uses and self.epoch % self.training["search"]["epochs_per_split"] == 0:
            most = _most_used(uses)
            number = most["rule"]
            self.tree = rules.divided(self.tree, number, most["medians"])
        self.tree = rules.in_epoch(self.tree, self.epoch)
        return self._step("epoch" if number is None else "split", number, score)

    def _improved(self, number: int, base: ResultJson) -> tuple[Tree, ResultJson] | None:
        """The tree with the best action of a rule, and its result; None if none is better."""
        rule = rules.rules(self.tree)[number]
        trees = [rules.with_rule(self.tree, number, one) for one in candidates(rule, self.training)]
        whole = list(range(self.training["search"]["specimens"]))
        shortlist = self.training["search"].get("shortlist")
        if shortlist is None:
            results = self._run(trees, whole)
        else:
            first, rest = whole[: shortlist["specimens"]], whole[shortlist["specimens"] :]
            short = self._run(trees, first)
            order = sorted(range(len(trees)), key=lambda i: -statistics.fmean(short[i]["scores"]))
            best = sorted(order[: shortlist["keep"]])
            trees, results = [trees[i] for i in best], [short[i] for i in best]
            if rest:
                more = self._run(trees, rest)
                results = [
                    {**a, "scores": a["scores"] + b["scores"]}
                    for a, b in zip(results, more, strict=True)
                ]
        scores = [statistics.fmean(result["scores"]) for result in results]
        if not scores or max(scores) <= statistics.fmean(base["scores"]) + LEAST_GAIN:
            return None
        at = scores.index(max(scores))
        return trees[at], results[at]

    def _run(
        self, trees: Sequence[Tree], specimens: list[int], *, uses: bool = False
    ) -> list[ResultJson]:
        tasks: list[TaskJson] = [
            {
                "training": self.training,
                "round": str(self._round),
                "tree": rules.text_of(tree),
                "specimens": specimens,
                "uses": uses,
            }
            for tree in trees
        ]
        results = self._evaluate(tasks)
        self.cpu_s += sum(result["cpu_s"] for result in results)
        return results


def _most_used(uses: Sequence[UseJson]) -> UseJson:
    """The use of the most used rule, or the first one of several."""
    return max(uses, key=lambda use: (use["count"], -use["rule"]))
