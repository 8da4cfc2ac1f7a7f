"""The effect of each rule in which two releases of Linux differ, on one path.

The effect of a rule is measured by simulation. One change is applied to the first release. A rule
that only the second release has is added (`with_rules`); a rule that only the first one has is
removed (`without_rules`). The scenario runs with the first release, with each change alone, and
with the second release, each with the same seeds. An effect is the mean of the differences of runs
with equal seeds. The 95 % confidence interval of an effect is that of Student's t for the mean of
these differences.

The effects of single rules need not add up to the effect of the second release, because rules may
interact. Rules that the scenario itself adds or removes are not changed, nor are flows for which
the scenario sets a release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from narrows import _core
from narrows.errors import NarrowsError
from narrows.inference import LEVEL, Interval, of_mean
from narrows.kernel.rules import ADDED, REMOVED, Difference, differences, release
from narrows.runs.parallel import everywhere
from narrows.runs.replications import whole_metrics, with_jitter
from narrows.runs.run import Progress, Run, run
from narrows.runs.scenario import Scenario, Tree, from_tree

METRICS = ("goodput_mbit", "rtt_mean_ms", "retransmit_rate")
"""The metrics of an effect, as columns of a sweep."""


@dataclass(frozen=True)
class Effect:
    """The effect of one change on a path.

    Attributes:
        difference: The change; None for all changes together, which is the second release.
        changes: The mean difference to the first release and its interval, by metric.
        score: The largest relative change of a metric: of goodput and RTT relative to the first
            release, of the retransmission rate as a difference of shares.
    """

    difference: Difference | None
    changes: Mapping[str, Interval]
    score: float

    @property
    def certain(self) -> bool:
        """Whether the interval of at least one metric excludes zero."""
        return any(
            one.low is not None and one.high is not None and (one.low > 0 or one.high < 0)
            for one in self.changes.values()
        )

    def as_object(self) -> dict[str, Any]:
        """The effect as JSON."""
        about = {} if self.difference is None else {"name": self.difference.rule.name}
        return about | {
            "certain": self.certain,
            "score": self.score,
            "changes": {name: asdict(one) for name, one in self.changes.items()},
        }


@dataclass(frozen=True)
class Effects:
    """The effects of all rules in which two releases differ.

    Attributes:
        base: The metrics of the first release.
        rules: The effect of each rule: first the certain effects, then the others, each time the
            largest first.
        whole: The effect of the second release.
        seeds: Number of runs with each set of rules.
    """

    base: Mapping[str, Interval]
    rules: Sequence[Effect]
    whole: Effect
    seeds: int

    def as_object(self) -> dict[str, Any]:
        """The effects as JSON."""
        return {
            "seeds": self.seeds,
            "level": LEVEL,
            "base": {name: asdict(one) for name, one in self.base.items()},
            "rules": [effect.as_object() for effect in self.rules],
            "whole": self.whole.as_object(),
        }


def changed(tree: Tree, like: str, change: Difference | None = None) -> Tree:
    """The tree of a scenario whose hosts have the rules of a release, with one change.

    >>> changed({"host": {"iw": 4}}, "linux-6.12")
    {'host': {'iw': 4, 'like': 'linux-6.12'}}
    """
    host = dict(tree.get("host", {})) | {"like": like}
    if change is not None:
        host[change.key] = [*host.get(change.key, ()), change.rule.name]
    return tree | {"host": host}


def open_differences(tree: Tree, found: Sequence[Difference]) -> list[Difference]:
    """The differences in rules that the scenario itself neither adds nor removes."""
    host = tree.get("host", {})
    decided = {*host.get(ADDED, ()), *host.get(REMOVED, ())}
    return [one for one in found if one.rule.name not in decided]


def effects(
    scenario: Scenario,
    first: str,
    second: str,
    *,
    seeds: int,
    progress: Progress | None = None,
) -> Effects:
    """Measures the effect of each rule in which two releases differ.

    Args:
        scenario: The scenario; the release that its `[host]` names has no influence.
        first: The first release.
        second: The second release.
        seeds: Number of runs with each set of rules, with consecutive seeds.
        progress: Called with the number of finished runs and their total number.

    Raises:
        NarrowsError: If a release is not known, or the scenario has no flow.
        ScenarioError: If the scenario is not valid.
    """
    asked, _ = with_jitter(scenario)
    tree = asked.tree()
    if not tree.get("flow"):
        raise NarrowsError("flow: the scenario has no flow, so rules have no effect; add [[flow]]")
    found = open_differences(tree, differences(first, second))
    one, other = release(first), release(second)
    hosts = [changed(tree, one), *(changed(tree, one, change) for change in found)]
    scenarios = [from_tree(host) for host in [*hosts, changed(tree, other)]]
    first_seed = int(_core.scenario_defaults(tree)["seed"])
    todo = [(host, first_seed + n) for n in range(seeds) for host in range(len(scenarios))]
    finished = 0

    def simulate(item: tuple[int, int], keep_on: Progress) -> Run:
        host, seed = item
        return run(scenarios[host], seed=seed, sample_interval="off", progress=keep_on)

    def done(_: object) -> None:
        nonlocal finished
        finished += 1
        if progress is not None:
            progress(finished, len(todo))

    runs = everywhere(todo, simulate, cost=lambda _: 0.0, done=done)
    values: list[list[dict[str, float]]] = [[] for _ in scenarios]
    for (host, _), result in zip(todo, runs, strict=True):
        whole = whole_metrics(result.rows())
        values[host].append({name: float(whole.get(name) or 0.0) for name in METRICS})
    base = values[0]
    single = [_effect(change, base, of) for change, of in zip(found, values[1:-1], strict=True)]
    return Effects(
        base={name: of_mean([row[name] for row in base]) for name in METRICS},
        rules=sorted(single, key=lambda effect: (not effect.certain, -effect.score)),
        whole=_effect(None, base, values[-1]),
        seeds=seeds,
    )


def _effect(
    change: Difference | None,
    base: Sequence[Mapping[str, float]],
    of: Sequence[Mapping[str, float]],
) -> Effect:
    changes = {
        name: of_mean(
            [row[name] - before[name] for before, row in zip(base, of, strict=True)],
            least=-float("inf"),
        )
        for name in METRICS
    }
    means = {name: sum(row[name] for row in base) / len(base) for name in METRICS}
    return Effect(change, changes, max(_relative(name, changes, means) for name in METRICS))


def _relative(name: str, changes: Mapping[str, Interval], means: Mapping[str, float]) -> float:
    if name == "retransmit_rate":
        return abs(changes[name].mean)
    return abs(changes[name].mean) / means[name] if means[name] > 0 else 0.0
