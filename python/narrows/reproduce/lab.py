"""Executes the runs of an experiment on every core, with progress."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from statistics import median
from typing import TypeVar

from narrows import _core
from narrows.json_object import JsonObject
from narrows.runs.model import RunJson
from narrows.runs.parallel import everywhere
from narrows.runs.run import Progress
from narrows.runs.scenario import Scenario

Key = TypeVar("Key", bound=Hashable)
Runs = list[RunJson]
"""Runs of a case, one for each seed."""

Of = Callable[[RunJson], float]
"""Computes a figure of a run."""


_APART = 1000
"""Difference between the first seeds of two replications; more than any experiment has seeds."""


class Lab:
    """Runs scenarios; a quick lab uses fewer seeds and less virtual time.

    Attributes:
        quick: True for a quick lab.
        runs: Number of completed runs.
        first_seed: The first seed of every case.
        failed: Reason why a figure could not be determined, by check.
        lacks: Missing packages, by check.
    """

    def __init__(
        self,
        *,
        quick: bool = False,
        told: Callable[[int], object] = lambda _: None,
        replication: int = 0,
    ) -> None:
        """`told` receives the number of completed runs; each `replication` has other seeds."""
        self.quick = quick
        self.first_seed = 1 + _APART * replication
        self.runs = 0
        self.failed: dict[str, str] = {}
        self.lacks: dict[str, str] = {}
        self._told = told

    def seconds(self, whole: float, quick: float | None = None) -> str:
        """A duration; in a quick lab `quick`, or a third of `whole`."""
        return f"{(whole / 3 if quick is None else quick) if self.quick else whole:g}s"

    def did(self, _: object = None) -> None:
        """Counts a completed run."""
        self.runs += 1
        self._told(self.runs)

    def play(
        self,
        cases: Mapping[Key, Scenario | JsonObject],
        *,
        seeds: int = 5,
        quick_seeds: int = 2,
        interval: str = "off",
    ) -> dict[Key, Runs]:
        """Runs every case with every seed; `interval` is the sample interval."""
        trees = {
            key: one.tree() if isinstance(one, Scenario) else one for key, one in cases.items()
        }
        number = quick_seeds if self.quick else seeds
        each = range(self.first_seed, self.first_seed + number)

        def one(job: tuple[Key, int], keep_on: Progress) -> RunJson:
            key, seed = job
            raw = _core.run_tree(
                trees[key], seed=seed, sample_interval=interval, progress=keep_on
            ).json()
            figures: RunJson = json.loads(raw)
            return figures

        todo = [(key, seed) for key in trees for seed in each]
        found = everywhere(todo, one, cost=lambda _: 0.0, done=self.did)
        width = len(each)
        return {key: found[i * width : (i + 1) * width] for i, key in enumerate(trees)}


def mid(runs: Runs, of: Of) -> float:
    """Median of a figure over the seeds."""
    return float(median(of(one) for one in runs))


def goodput(number: int = 0) -> Of:
    """Goodput of one flow, in Mbit/s."""
    return lambda figures: float(figures["flows"][number]["goodput_mbit"] or 0.0)


def total(figures: RunJson) -> float:
    """Goodput of all flows, in Mbit/s."""
    return float(sum(flow["goodput_mbit"] or 0.0 for flow in figures["flows"]))


def part(cc: str) -> Of:
    """Share of the flows of a congestion control in the total goodput, in %."""

    def of(figures: RunJson) -> float:
        own = sum(flow["goodput_mbit"] or 0.0 for flow in figures["flows"] if flow["cc"] == cc)
        return float(100 * own / max(total(figures), 1e-9))

    return of


def fair(number: int) -> Of:
    """Goodput of a flow relative to an equal share."""
    return lambda figures: (
        goodput(number)(figures) * len(figures["flows"]) / max(total(figures), 1e-9)
    )


def again(cc: str | None = None) -> Of:
    """Retransmissions of all flows, or of those of a congestion control."""
    return lambda figures: float(
        sum(flow["retransmits"] for flow in figures["flows"] if cc in {None, flow["cc"]})
    )


def queue_ms(figures: RunJson) -> float:
    """Mean queueing delay in ms."""
    return float(figures["queue"]["delay_ms"]["mean"] or 0.0)


def finished(longest_s: float) -> Of:
    """Completion time of a transfer in s; `longest_s` if it did not complete."""

    def of(figures: RunJson) -> float:
        value = figures["flows"][0]["fct_s"]
        return float(longest_s if value is None else value)

    return of
