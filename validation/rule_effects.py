"""Measures the effects of the rules of Linux releases on typical paths, for `narrows tune audit`.

    python -m validation.rule_effects           measures the rules that known_effects.json lacks
    python -m validation.rule_effects --again   measures all rules
    python -m validation.rule_effects --print   prints the effects without writing them

Each rule is added alone to the release before the one that introduced it. An effect is the relative
change of goodput, or of the mean RTT, on a typical path. It is the mean over `SEEDS` seeds with its
95 % confidence interval. The runs with and without the rule use the same seeds. The file keeps
effects of at least `LEAST` whose interval excludes zero. `needs` lists the rules of the earlier
release for the same part of TCP, which were in force during the measurement.

If the first `FIRST_SEEDS` seeds change no metric by more than `SMALL`, the rule has no effect on
this path. Its other seeds are then not simulated.

All rules take about half an hour on two cores. The file is written after each rule, so that an
interrupted measurement continues. A rule is measured again if its release or its `needs` changed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path as FilePath
from typing import Any

from narrows.inference import Interval, of_mean
from narrows.kernel.effects import changed
from narrows.kernel.rules import Difference, Rule, rules_of
from narrows.runs.parallel import everywhere
from narrows.runs.replications import whole_metrics
from narrows.runs.run import Progress, run
from narrows.runs.scenario import Flow, Path, Scenario, from_tree
from narrows.storage import output

SEEDS = 10
FIRST_SEEDS = 3
SMALL = 0.002
"""Maximum relative change that counts as no effect; a tenth of `LEAST`."""
LEAST = 0.02
"""Smallest relative change that the file keeps as an effect."""

FILE = FilePath(__file__).parents[1] / "core/src/tune/findings/known_effects.json"

PATHS = {
    "50 Mbit/s, 20 ms, 1 BDP": Path(rate="50Mbit", rtt="20ms", buffer="1bdp"),
    "50 Mbit/s, 150 ms, 1 BDP": Path(rate="50Mbit", rtt="150ms", buffer="1bdp"),
    "20 Mbit/s, 40 ms, 0.1 BDP": Path(rate="20Mbit", rtt="40ms", buffer="0.1bdp"),
    "20 Mbit/s, 40 ms, 8 BDP": Path(rate="20Mbit", rtt="40ms", buffer="8bdp"),
    "500 Mbit/s, 30 ms, 1 BDP": Path(rate="500Mbit", rtt="30ms", buffer="1bdp"),
    "50 Mbit/s, 40 ms, 1 % of random loss": Path(
        rate="50Mbit", rtt="40ms", buffer="1bdp", loss="1%"
    ),
}
"""The typical paths, by their description."""

COLUMNS = {"goodput_share": "goodput_mbit", "rtt_share": "rtt_mean_ms"}
"""The metrics whose changes are measured, by the name of the change in the file."""

COLUMNS = {"goodput_share": "goodput_mbit", "rtt_share": "rtt_mean_ms"}
"""The metrics whose changes are measured, by the name of the change in the file."""

CCS = ("cubic", "bbr")
SERIES = (("4", 4, 20), ("5", 0, 19), ("6", 0, 19), ("7", 0, 3))
NAMES = [f"{major}.{minor}" for major, least, most in SERIES for minor in range(least, most + 1)]
"""The Linux releases that the simulator supports, the oldest first."""


def before(since: str) -> str | None:
    """The release before another one; None for the first release that the simulator supports.

    >>> before("5.1"), before("5.0"), before("4.4")
    ('5.0.0', '4.20.0', None)
    """
    if since not in NAMES[1:]:
        return None
    return f"{NAMES[NAMES.index(since) - 1]}.0"


def main(words: list[str]) -> int:
    """Runs the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m validation.rule_effects")
    parser.add_argument("--again", action="store_true", help="measure all rules")
    parser.add_argument("--print", action="store_true", help="print the result, write no file")
    asked = parser.parse_args(words)
    known = {} if asked.again else json.loads(FILE.read_text(encoding="utf-8"))["rules"]
    for found in measure(known):
        if not asked.print:
            output.write(FILE, text(found))
    if asked.print:
        sys.stdout.write(text(found))
    return 0


def text(found: dict[str, Any]) -> str:
    """The contents of the file."""
    return json.dumps({"seeds": SEEDS, "rules": found}, indent=1, ensure_ascii=False) + "\n"


def measure(known: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Measures all rules. Yields the contents of the file after each measured rule and at the end.

    Args:
        known: The effects that were measured before.
    """
    todo: dict[str, tuple[Rule, str, list[Rule]]] = {}
    found = {}
    for rule in rules_of("7.3"):
        base = before(rule.since)
        if base is None:
            continue
        has = rules_of(base)
        if any(one.name == rule.name and one.active for one in has):
            continue
        needs = [one.name for one in has if one.active and one.of == rule.of]
        old = known.get(rule.name)
        if old is None or (old["base"], old["needs"]) != (base, needs):
            todo[rule.name] = rule, base, has
            old = {"base": base, "needs": needs}
        found[rule.name] = old

    def measured() -> dict[str, Any]:
        return {name: one for name, one in found.items() if "effects" in one}

    yield measured()
    for name, (rule, base, has) in todo.items():
        effects = [one for cc in _ccs(rule, has) for one in _effects(rule, base, cc)]
        found[name]["effects"] = effects
        sys.stderr.write(f"{name} on {base}: {len(effects)} effects\n")
        yield measured()


def _ccs(rule: Rule, has: list[Rule]) -> tuple[str, ...]:
    """The congestion controls that the rule concerns and that the earlier release has."""
    only = {"HyStart": ("cubic",), "bbr": ("bbr",)}.get(rule.of, CCS)
    able = {one.name for one in has if one.active} >= {"bbr", "pacing_in_tcp"}
    return tuple(cc for cc in only if able or cc != "bbr")


def _effects(rule: Rule, base: str, cc: str) -> list[dict[str, Any]]:
    change = Difference(rule, added=True)

    def one(item: tuple[str, bool, int], keep_on: Progress) -> dict[str, Any]:
        about, added, seed = item
        scenario = Scenario(PATHS[about], flows=[Flow(cc)], duration="12s", start_jitter="1s")
        host = changed(scenario.tree(), f"linux-{base}", change if added else None)
        result = run(from_tree(host), seed=seed, sample_interval="off", progress=keep_on)
        return whole_metrics(result.rows())

    results: dict[tuple[str, bool, int], dict[str, Any]] = {}

    def simulate(paths: Iterable[str], seeds: range) -> None:
        todo = [(about, added, seed)
            for about in paths for added in (False, True) for seed in seeds]  # fmt: skip
        results.update(zip(todo, everywhere(todo, one, cost=_cost), strict=True))

    simulate(PATHS, range(1, FIRST_SEEDS + 1))
    changing = [
        about
        for about in PATHS
        if any(
            abs(_share(results, about, seed, column)) > SMALL
            for seed in range(1, FIRST_SEEDS + 1)
            for column in COLUMNS.values()
        )
    ]
    simulate(changing, range(FIRST_SEEDS + 1, SEEDS + 1))
    found = []
    for about in changing:
        shares = {
            name: of_mean(
                [_share(results, about, seed, column) for seed in range(1, SEEDS + 1)],
                least=-float("inf"),
            )
            for name, column in COLUMNS.items()
        }
        if any(_counts(interval) for interval in shares.values()):
            ends = {name: _rounded(interval) for name, interval in shares.items()}
            found.append({"path": f"{about}, one {cc} flow", **ends})
    return found


def _cost(item: tuple[str, bool, int]) -> float:
    return float(item[0].startswith("500 Mbit/s"))


def _share(
    results: dict[tuple[str, bool, int], dict[str, Any]], about: str, seed: int, column: str
) -> float:
    """The relative change of a metric that the rule causes, for one path and seed."""
    without, with_ = (float(results[about, added, seed][column] or 0) for added in (False, True))
    return with_ / without - 1 if without > 0 else 0.0


def _counts(one: Interval) -> bool:
    clear = one.low is not None and one.high is not None and (one.low > 0 or one.high < 0)
    return clear and abs(one.mean) >= LEAST


def _rounded(one: Interval) -> dict[str, float]:
    return {name: round(getattr(one, name), 4) for name in ("mean", "low", "high")}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
