"""Effects of the rules of Linux releases on typical paths, for `narrows tune audit`.

    python -m validation.rule_effects           a few minutes; writes known_effects.json
    python -m validation.rule_effects --print   prints the effects without writing them

Each rule is added to the release before the one that introduced it, as published. An effect is the
mean relative change of goodput, or of the mean RTT, on a typical path. It is a mean over `SEEDS`
seeds with its 95 % confidence interval. The runs with and without the rule use the same seeds. The
file keeps effects of at least `LEAST` whose interval excludes zero. `needs` are the rules of the
earlier release for the same part of TCP: the effect was measured on top of them.
"""

from __future__ import annotations

import argparse
import json
import sys
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
LEAST = 0.02
"""Smallest effect in the file, as a share."""

FILE = FilePath(__file__).parents[1] / "python/narrows/kernel/known_effects.json"

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
"""Typical paths by their description."""

CCS = ("cubic", "bbr")
SERIES = (("4", 4, 20), ("5", 0, 19), ("6", 0, 19), ("7", 0, 3))


def before(since: str) -> str | None:
    """The release before another one, as published; None for the first one of the simulator.

    >>> before("5.1"), before("5.0"), before("4.4")
    ('5.0.0', '4.20.0', None)
    """
    names = [
        f"{major}.{minor}" for major, least, most in SERIES for minor in range(least, most + 1)
    ]
    if since not in names[1:]:
        return None
    return f"{names[names.index(since) - 1]}.0"


def main(words: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m validation.rule_effects")
    parser.add_argument("--print", action="store_true", help="print, write nothing")
    asked = parser.parse_args(words)
    found = {"seeds": SEEDS, "rules": measure()}
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    if asked.print:
        sys.stdout.write(text)
    else:
        output.write(FILE, text)
    return 0


def measure() -> dict[str, Any]:
    """The effects of all rules."""
    found = {}
    for rule in rules_of("7.3"):
        base = before(rule.since)
        if base is None:
            continue
        has = rules_of(base)
        if any(one.name == rule.name and one.active for one in has):
            continue
        needs = [one.name for one in has if one.active and one.of == rule.of]
        effects = [one for cc in _ccs(rule, has) for one in _effects(rule, base, cc)]
        found[rule.name] = {"base": base, "needs": needs, "effects": effects}
        sys.stderr.write(f"{rule.name} on {base}: {len(effects)} effects\n")
    return found


def _ccs(rule: Rule, has: list[Rule]) -> tuple[str, ...]:
    """The congestion controls that the earlier release has and the rule concerns."""
    only = {"HyStart": ("cubic",), "bbr": ("bbr",)}.get(rule.of, CCS)
    able = {one.name for one in has if one.active} >= {"bbr", "pacing_in_tcp"}
    return tuple(cc for cc in only if able or cc != "bbr")


def _effects(rule: Rule, base: str, cc: str) -> list[dict[str, Any]]:
    change = Difference(rule, added=True)
    todo = [(about, added, seed) for about in PATHS for added in (False, True)
        for seed in range(1, SEEDS + 1)]  # fmt: skip

    def one(item: tuple[str, bool, int], keep_on: Progress) -> dict[str, Any]:
        about, added, seed = item
        scenario = Scenario(PATHS[about], flows=[Flow(cc)], duration="12s", start_jitter="1s")
        host = changed(scenario.tree(), f"linux-{base}", change if added else None)
        result = run(from_tree(host), seed=seed, sample_interval="off", progress=keep_on)
        return whole_metrics(result.rows())

    results = dict(zip(todo, everywhere(todo, one, cost=lambda _: 0.0), strict=True))
    found = []
    for about in PATHS:
        shares = {
            name: of_mean(
                [_share(results, about, seed, column) for seed in range(1, SEEDS + 1)],
                least=-float("inf"),
            )
            for name, column in (("goodput_share", "goodput_mbit"), ("rtt_share", "rtt_mean_ms"))
        }
        if any(_counts(interval) for interval in shares.values()):
            ends = {name: _rounded(interval) for name, interval in shares.items()}
            found.append({"path": f"{about}, one {cc} flow", **ends})
    return found


def _share(
    results: dict[tuple[str, bool, int], dict[str, Any]], about: str, seed: int, column: str
) -> float:
    """The relative change of a metric by the rule."""
    without, with_ = (float(results[about, added, seed][column] or 0) for added in (False, True))
    return with_ / without - 1 if without > 0 else 0.0


def _counts(one: Interval) -> bool:
    clear = one.low is not None and one.high is not None and (one.low > 0 or one.high < 0)
    return clear and abs(one.mean) >= LEAST


def _rounded(one: Interval) -> dict[str, float]:
    return {name: round(getattr(one, name), 4) for name in ("mean", "low", "high")}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
