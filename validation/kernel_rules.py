"""Shows the effect of each rule of a Linux release: simulated with and without the rule, and
measured with real kernels before and after it.

    python -m validation.kernel_rules           simulate, and print the effects
    python -m validation.kernel_rules --linux   also run the built kernels, and write
                                                evidence/kernel-rules.md

kernel_rules.toml has a scenario for each rule. The rule is switched off alone (`without_rules`) in
the first release that has it. The metric with the largest relative change is shown, unless the file
names another one. The rule `bbr` has no scenario: without it, a scenario with `cc = "bbr"` is an
error.

With `--linux`, the same scenario runs with two built kernels (`narrows kernel build 5.10`): the
newest one without the rule and the oldest one with it. These kernels usually differ in more than
one rule. The simulated values of both releases therefore follow the values of the kernels.
"""

from __future__ import annotations

import argparse
import copy
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from statistics import fmean

from narrows.errors import EngineError
from narrows.json_object import JsonObject
from narrows.kernel import store
from narrows.kernel.rules import Rule, rules_of
from narrows.reference.families import families
from narrows.reference.record import queues_of
from narrows.runs.engines import EngineChoice
from narrows.runs.parallel import everywhere
from narrows.runs.replications import whole_metrics
from narrows.runs.run import Progress, Run
from narrows.runs.scenario import from_tree
from narrows.storage import output

FILE = FilePath(__file__).with_suffix(".toml")
EVIDENCE = FilePath(__file__).parent / "evidence/kernel-rules.md"
SEEDS = 3
METRICS = {"goodput_mbit": "goodput Mbit/s", "rtt_mean_ms": "mean RTT ms",
    "retransmit_rate": "retransmission rate"}  # fmt: skip
"""The metrics of an effect, and their names on the page."""
FURTHER = {"cwnd_mean_packets": "mean window packets",
    "ssthresh_packets": "last slow-start threshold packets"}  # fmt: skip
"""Metrics of rules that the file lists with their metric, and their names on the page."""
NAMES = METRICS | FURTHER

Values = Mapping[str, float]
"""The mean of each metric over the seeds."""


@dataclass(frozen=True, eq=False)
class Shown:
    """A rule, the name of its scenario, and the scenario."""

    rule: Rule
    case: str
    tree: JsonObject
    metric: str = ""

    def host(self, like: str, *, without: bool = False) -> JsonObject:
        """The scenario with the release `like`, and without the rule if `without` is true."""
        tree = copy.deepcopy(self.tree)
        host = tree.setdefault("host", {})
        host["like"] = f"linux-{like}"
        if without:
            host["without_rules"] = [self.rule.name]
        return tree


def shown() -> list[Shown]:
    """The rules that kernel_rules.toml lists, in the order of the table of rules."""
    given = tomllib.loads(FILE.read_text(encoding="utf-8"))
    own = {name: tomllib.loads(text) for name, text in given["scenario"].items()}
    known = {name: tree for one in families().values() for name, tree in one.cases.items()} | own
    return [
        Shown(
            rule,
            given["case"][rule.name],
            known[given["case"][rule.name]],
            given["metric"].get(rule.name, ""),
        )
        for rule in rules_of("7.3")
        if rule.name in given["case"]
    ]


@dataclass(frozen=True, eq=False)
class Switched:
    """A rule that a setting of Linux 7.3 switches off, and the metric of Linux without and with
    it.
    """

    shown: Shown
    setting: str
    linux: tuple[float, float]


def switched() -> list[Switched]:
    """The rules that kernel_rules.toml lists with their setting."""
    by_name = {rule.name: rule for rule in rules_of("7.3")}
    return [
        Switched(
            Shown(by_name[one["rule"]], "", tomllib.loads(one["scenario"]), one["metric"]),
            one["setting"],
            (one["linux"][0], one["linux"][1]),
        )
        for one in tomllib.loads(FILE.read_text(encoding="utf-8"))["switched"]
    ]


def release(rule: Rule) -> str:
    """The release that introduced a rule, without later changes of its stable series.

    >>> release(next(rule for rule in rules_of("7.3") if rule.name == "sack_compression"))
    '4.18.0'
    """
    return f"{rule.since}.0"


def values(tree: JsonObject, choice: EngineChoice, seeds: int, progress: Progress) -> Values:
    """The mean of each metric over the seeds from 1."""
    found: dict[str, list[float]] = {name: [] for name in METRICS | FURTHER}
    queues = queues_of(tree) if choice.name == "linux" else {}
    for seed in range(1, seeds + 1):
        done = choice.run(
            from_tree(tree), seed=seed, sample_interval="1s", progress=progress, **queues
        )
        row = whole_metrics(done.rows()) | {"ssthresh_packets": threshold(done)}
        for name, of in found.items():
            of.append(float(row[name] or 0.0))
    return {name: fmean(of) for name, of in found.items()}


def threshold(done: Run) -> float | None:
    """The slow-start threshold of the last sample of a run."""
    known = [value for value in done.columns("samples")["ssthresh_packets"] if value is not None]
    return float(known[-1]) if known else None


def change(before: Values, after: Values, metric: str = "") -> tuple[str, float]:
    """The metric with the largest relative change, or `metric`, and its change."""
    shares = {
        name: after[name] / before[name] - 1 if before[name] else float(after[name] != 0)
        for name in ([metric] if metric else METRICS)
    }
    name = max(shares, key=lambda name: abs(shares[name]))
    return name, shares[name]


def has(kernel: str, rule: Rule) -> bool:
    """Whether a release follows a rule."""
    return any(one.name == rule.name and one.active for one in rules_of(kernel))


def simulated(one: Shown, progress: Progress) -> tuple[Values, Values]:
    """The values without and with the rule."""
    since = release(one.rule)
    without = values(one.host(since, without=True), EngineChoice(), SEEDS, progress)
    return without, values(one.host(since), EngineChoice(), SEEDS, progress)


def _cost(one: Shown) -> float:
    return _cost_of(one.tree)


def _cost_of(tree: JsonObject) -> float:
    return float("Gbit" in str(tree["path"]["rate"]))


def releases_around(rule: Rule, releases: Iterable[str]) -> tuple[str, ...]:
    """The newest release without the rule and the oldest one with it; nothing if one is missing.

    >>> rule = next(rule for rule in rules_of("7.3") if rule.name == "sack_compression")
    >>> releases_around(rule, ["4.20", "4.4", "4.15", "5.10"])
    ('4.15', '4.20')
    """
    ordered = sorted(releases, key=lambda text: [int(part) for part in text.split(".")])
    without = [one for one in ordered if not has(one, rule)]
    with_ = [one for one in ordered if has(one, rule)]
    return (without[-1], with_[0]) if without and with_ else ()


def main(words: Sequence[str]) -> int:
    """Runs the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--linux", action="store_true", help="also run the built kernels")
    parser.add_argument(
        "--only",
        default="",
        metavar="RULE,...",
        help="only these rules; the page keeps its other rows",
    )
    asked = parser.parse_args(words)
    rules = [one for one in shown() if not asked.only or one.rule.name in asked.only.split(",")]
    found = dict(
        zip((one.rule.name for one in rules), everywhere(rules, simulated, cost=_cost), strict=True)
    )
    for one in rules:
        before, after = found[one.rule.name]
        name, share = change(before, after, one.metric)
        sys.stdout.write(
            f"{one.rule.name}: {one.case}: {NAMES[name]} {before[name]:.4g} without, "
            f"{after[name]:.4g} with the rule ({share:+.2%})\n"
        )
    if asked.linux:
        rows = table(rules, found, _measured(rules))
        if asked.only:
            rows = stored() | rows
        output.write(EVIDENCE, page(shown(), rows))
    return 0


def _measured(rules: Sequence[Shown]) -> dict[tuple[str, str, str], Values]:
    """The values of each case with each kernel that a rule needs, by engine, release and case. The
    simulator runs as the release of the kernel.
    """
    kernels = {one.release: one for one in store.built() if one.current and "+" not in one.name}
    todo: dict[tuple[str, str, str], tuple[JsonObject, EngineChoice]] = {}
    for one in rules:
        for kernel in (kernels[name] for name in releases_around(one.rule, kernels)):
            linux = EngineChoice("linux", kernel.key, kernel.name)
            tree = one.host(kernel.release)
            todo["linux", kernel.release, one.case] = tree, linux
            todo["sim", kernel.release, one.case] = tree, EngineChoice()

    def run(key: tuple[str, str, str], progress: Progress) -> Values | None:
        tree, choice = todo[key]
        try:
            return values(tree, choice, SEEDS, progress)
        except EngineError as error:
            sys.stderr.write(f"{key}: {error}\n")
            return None

    keys = list(todo)
    done = zip(keys, everywhere(keys, run, cost=lambda key: _cost_of(todo[key][0])), strict=True)
    return {key: found for key, found in done if found is not None}


def table(
    rules: Sequence[Shown],
    found: Mapping[str, tuple[Values, Values]],
    measured: Mapping[tuple[str, str, str], Values],
) -> dict[str, str]:
    """The row of each rule."""
    rows = {}
    for one in rules:
        before, after = found[one.rule.name]
        name, _ = change(before, after, one.metric)
        engines = {
            engine: [(key[1], of[name]) for key, of in measured.items()
                if (key[0], key[2]) == (engine, one.case)]
            for engine in ("linux", "sim")
        }  # fmt: skip
        ends = releases_around(one.rule, dict(engines["linux"]))
        cells = ["–", "–", "–"]
        if ends:
            cells = [
                " → ".join(ends),
                *(" → ".join(f"{dict(engines[engine])[end]:.4g}" for end in ends)
                    for engine in ("linux", "sim")),
            ]  # fmt: skip
        row = [f"`{one.rule.name}`", one.rule.since, one.case, NAMES[name],
            f"{before[name]:.4g}", f"{after[name]:.4g}", *cells]  # fmt: skip
        rows[one.rule.name] = f"| {' | '.join(row)} |"
    return rows


def stored() -> dict[str, str]:
    """The rows of the first table of the stored page, by rule."""
    first, _, _ = EVIDENCE.read_text(encoding="utf-8").partition("\n## ")
    return {line.split("`")[1]: line for line in first.splitlines() if line.startswith("| `")}


def page(rules: Sequence[Shown], rows: Mapping[str, str]) -> str:
    """The text of the page."""
    lines = [
        "# Effects of the rules of Linux releases",
        "",
        "`python -m validation.kernel_rules --linux` writes this page. Each rule is switched off "
        "alone in the",
        "first release that has it. *Metric* is the one with the largest relative change. Values "
        f"are means of {SEEDS}",
        "seeds. The scenarios are in [kernel_rules.toml](../kernel_rules.toml).",
        "",
        "*Linux* is the same scenario with the newest built kernel without the rule and the oldest "
        "one with",
        "it. *Simulator* has the rules of these releases. The two kernels may differ in further "
        "rules.",
        "",
        "| rule | since | scenario | metric | without the rule | with the rule | kernels | Linux | "
        "simulator |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [rows[one.rule.name] for one in rules if one.rule.name in rows]
    notes = tomllib.loads(FILE.read_text(encoding="utf-8"))["note"]
    for one in rules:
        if one.rule.name in notes:
            told = f"`{one.rule.name}`: {' '.join(notes[one.rule.name].split())}"
            lines += ["", *textwrap.wrap(told, 100, break_on_hyphens=False)]
    lines += [
        "",
        "## Rules that a setting of Linux 7.3 switches off",
        "",
        "The same kernel, Linux 7.3.4 in virtual time, ran each scenario with and without the "
        "setting. The",
        "values of Linux are means of two runs, started 0 and 137 ms after the emulated path. The "
        "simulator",
        "has the rules of 7.3, without and with the rule.",
        "",
        "| rule | setting without the rule | metric | Linux without | Linux with | simulator "
        "without | simulator with |",
        "|---|---|---|---|---|---|---|",
    ]
    for other in switched():
        ours = [
            values(other.shown.host("7.3", without=off), EngineChoice(), SEEDS, lambda *_: None)
            for off in (True, False)
        ]
        cells = [
            f"{value:.4g}" for value in (*other.linux, *(of[other.shown.metric] for of in ours))
        ]
        row = [
            f"`{other.shown.rule.name}`",
            f"`{other.setting}`",
            NAMES[other.shown.metric],
            *cells,
        ]
        lines.append(f"| {' | '.join(row)} |")
    lines += [
        "",
        "## Sources of rules without runs of kernels",
        "",
        "No kernel before 5.10 is built. For the rules of earlier releases, the sources are the "
        "texts of",
        "commits. [Published measurements](../../docs/reference/reproduced.md) of Linux 4.15 and "
        "5.15 also",
        "check them.",
        "",
        "| rule | since | source |",
        "|---|---|---|",
    ]
    by_setting = {one.shown.rule.name for one in switched()}
    lines += [
        f"| `{rule.name}` | {rule.since} | {rule.source} |"
        for rule in rules_of("7.3")
        if rows.get(rule.name, "| – |").endswith("| – |") and rule.name not in by_setting
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
