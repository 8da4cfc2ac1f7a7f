"""Compares the trained rule tree with other congestion controls, and writes its page.

    python -m validation.remy                  writes docs/reference/remy-trained.md, one minute
    python -m validation.remy --print          prints the page only
    python -m validation.remy --published DIR  first measures the published trees in DIR anew

`judgement.toml` was fixed before the training. `trained.json` is the output of `narrows train remy
--json`, and `scenarios/cc/dumbbell.remy` is the trained tree.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
import sys
import textwrap
import tomllib
from dataclasses import dataclass
from pathlib import Path

from narrows import _core
from narrows.inference import of_mean
from narrows.json_object import JsonObject
from narrows.render.words import listed
from narrows.train import rules
from narrows.train.network import digest, load, senders, specimen
from validation.remy import published
from validation.stored import HERE

FOLDER = HERE / "remy"
TREE = HERE.parent / "scenarios/cc/dumbbell.remy"
PAGE = HERE.parent / "docs/reference/remy-trained.md"
TRAINED = "trained tree"
INCLUDED = "tree `small`"


@dataclass(frozen=True)
class Sender:
    """One sender of a run: Mbit/s while on, and the mean queueing delay in ms."""

    mbit: float
    queue_ms: float

    def objective(self, rtt_ms: float) -> float:
        """`log(throughput) − log(delay)`: Mbit/s, and the RTT relative to the base RTT."""
        return math.log(self.mbit) - math.log1p(self.queue_ms / rtt_ms)


@dataclass(frozen=True)
class Scheme:
    """The senders of a scheme, by seed."""

    name: str
    runs: list[list[Sender]]
    rtt_ms: float

    @property
    def mbit(self) -> float:
        """Median throughput while on."""
        return statistics.median(one.mbit for run in self.runs for one in run)

    @property
    def queue_ms(self) -> float:
        """Median queueing delay."""
        return statistics.median(one.queue_ms for run in self.runs for one in run)

    @property
    def objectives(self) -> list[float]:
        """Mean objective of the senders, for each seed."""
        return [statistics.fmean(one.objective(self.rtt_ms) for one in run) for run in self.runs]


def _on_off(
    judgement: JsonObject, workload: JsonObject, cc: str | JsonObject, queue: str | JsonObject
) -> list[list[Sender]]:
    of = judgement["dumbbell"]
    training = load(FOLDER / "dumbbell.toml")
    mbit, rtt_ms = _numbers(of)
    training["network"] |= {
        "rate_mbit": [mbit, mbit],
        "rtt_ms": [rtt_ms, rtt_ms],
        "senders": [of["senders"], of["senders"]],
        "on_s": _core.seconds(workload["on"]),
        "off_s": _core.seconds(workload["off"]),
        "duration_s": _core.seconds(of["duration"]),
    }
    runs = []
    for seed in range(1, of["seeds"] + 1):
        one = specimen(training, "judgement", seed)
        scenario = one.scenario_of(cc)
        scenario["path"] |= {"queue": queue, "buffer": of["buffer"]}
        flows = _flows(scenario, seed)
        fair = mbit / of["senders"]
        runs.append(
            [Sender(share * fair, (delay - 1) * rtt_ms) for share, delay in senders(flows, one)]
        )
    return runs


def _transfers(
    judgement: JsonObject, workload: JsonObject, cc: str | JsonObject, queue: str | JsonObject
) -> list[list[Sender]]:
    of = judgement["dumbbell"]
    _, rtt_ms = _numbers(of)
    kilobytes = float(workload["bytes"].removesuffix("kB"))
    scenario: JsonObject = {
        "duration": of["duration"],
        "warmup": "0s",
        "path": {
            "rate": of["rate"],
            "rtt": of["rtt"],
            "buffer": of["buffer"],
            "queue": queue,
        },
        "flow": [
            {
                "cc": cc,
                "count": of["senders"],
                "workload": {
                    "kind": "rpc",
                    "answer": workload["bytes"],
                    "think": workload["pause"],
                },
            }
        ],
    }
    runs = []
    for seed in range(1, of["seeds"] + 1):
        found = []
        for flow in _flows(scenario, seed):
            # The server sends from half an RTT after the request; requests do not wait.
            took_ms = flow["workload"]["response_ms"]["mean"] - rtt_ms / 2
            mean = flow["rtt_ms"]["mean"]
            found.append(Sender(kilobytes * 8 / took_ms, max(mean - rtt_ms, 0.0)))
        runs.append(found)
    return runs


def _flows(scenario: JsonObject, seed: int) -> list[JsonObject]:
    run = _core.run_tree(scenario, seed=seed, sample_interval="off")
    flows: list[JsonObject] = json.loads(run.json())["flows"]
    return flows


def _numbers(of: JsonObject) -> tuple[float, float]:
    return float(of["rate"].removesuffix("Mbit")), _core.seconds(of["rtt"]) * 1e3


def judged(judgement: JsonObject, workload: JsonObject, tree: str) -> list[Scheme]:
    """The schemes of a workload: the trained tree, those of the file, and the included tree."""
    measure = _on_off if "on" in workload else _transfers
    _, rtt_ms = _numbers(judgement["dumbbell"])
    schemes: list[tuple[str, str | JsonObject, str | JsonObject]] = [
        (TRAINED, {"kind": "remy", "tree": tree}, "fifo"),
        *((one["name"], one["cc"], one.get("queue", "fifo")) for one in judgement["scheme"]),
        (INCLUDED, "remy", "fifo"),
    ]
    return [
        Scheme(name, measure(judgement, workload, cc, queue), rtt_ms) for name, cc, queue in schemes
    ]


@dataclass(frozen=True)
class Verdict:
    """The comparison of the trained tree with one scheme."""

    scheme: Scheme
    throughput: float
    delay: float
    gain: float
    low: float
    high: float
    agrees: tuple[bool, bool, bool]

    @property
    def cells(self) -> list[str]:
        """The cells of a row of the table."""
        words = ["yes" if one else "no" for one in self.agrees]
        return [
            self.scheme.name,
            f"{self.scheme.mbit:.2f}",
            f"{self.scheme.queue_ms:.1f}",
            f"{self.throughput:.2f}: {words[0]}",
            f"{self.delay:.2f}: {words[1]}",
            f"{self.gain:+.2f} ({self.low:+.2f} to {self.high:+.2f}): {words[2]}",
        ]


def verdict(trained: Scheme, scheme: Scheme, tolerance: JsonObject) -> Verdict:
    """Compares the trained tree with a scheme, by the tolerances of the file."""
    differences = [a - b for a, b in zip(trained.objectives, scheme.objectives, strict=True)]
    gain = of_mean(differences, least=-math.inf)
    low = gain.mean if gain.low is None else gain.low
    high = gain.mean if gain.high is None else gain.high
    throughput = trained.mbit / scheme.mbit
    delay = scheme.queue_ms / trained.queue_ms
    return Verdict(
        scheme,
        throughput,
        delay,
        gain.mean,
        low,
        high,
        (
            throughput >= tolerance["throughput_ratio"],
            delay >= tolerance["delay_ratio"],
            low > 0,
        ),
    )


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def _text(words: str) -> list[str]:
    return textwrap.wrap(words, 98, break_long_words=False, break_on_hyphens=False)


def _result(verdicts: list[Verdict]) -> str:
    """The result of a workload in sentences."""
    better = [one.scheme.name for one in verdicts if all(one.agrees)]
    worse = [one.scheme.name for one in verdicts if one.high < 0]
    words = (
        f"The trained tree has the published result compared with {len(better)} of {len(verdicts)} "
        f"schemes: {listed(better) or 'none'}."
    )
    others = [one.scheme.name for one in verdicts if not all(one.agrees)]
    if others:
        words += f" Compared with {listed(others)}, it does not have this result."
    if worse:
        words += f" The objective of the trained tree is lower than that of {listed(worse)}."
    return words


def _ended(trained: JsonObject, judgement: JsonObject) -> str:
    """A sentence with the reason for the end of the training."""
    steps = len(trained["steps"])
    if trained["cpu_s"] >= judgement["budget_cpu_s"]:
        return f"The training ended after step {steps}, which reached the budget."
    return (
        f"The training was ended after {steps} steps and did not use the whole budget. The tree "
        "was not compared before."
    )


def page(tree: str, trained: JsonObject, judgement: JsonObject) -> str:
    """The page in Markdown."""
    training = load(FOLDER / "dumbbell.toml")
    text = rules.text_of(rules.read(tree))
    sums = (digest(training), hashlib.sha256(text.encode()).hexdigest())
    if sums != (trained["training_sha256"], trained["tree_sha256"]):
        sys.exit("validation/remy/trained.json is not of this training file and tree")
    of = judgement["dumbbell"]
    did = [step["did"] for step in trained["steps"]]
    lines = [
        "# A trained tree for remy",
        "",
        *_text(
            "`narrows train remy` searches for rule trees as published: see [Train a rule tree]"
            "(../how-to/train-remy.md). This page describes one training within a small budget of "
            "CPU time, and compares its tree with other congestion controls. `python -m "
            "validation.remy` writes the page."
        ),
        "",
        *_text(
            "The budget, the training file and the tolerances were committed before the training. "
            "Deviations from the published search are in the training file: fewer senders, shorter "
            "runs, a split after every epoch, and a shortlist of candidates."
        ),
        "",
        "## Training",
        "",
        *_table(
            ["property", "value"],
            [
                ["training file", "[dumbbell.toml](../../validation/remy/dumbbell.toml)"],
                ["SHA-256 of its settings", f"`{trained['training_sha256']}`"],
                ["seed", str(training["search"]["seed"])],
                ["budget", f"{judgement['budget_cpu_s']} s of CPU time"],
                ["used", f"{trained['cpu_s']:.0f} s of CPU time"],
                [
                    "steps",
                    f"{len(did)}: {did.count('improved')} improved an action, "
                    f"{did.count('kept')} kept one, {did.count('split')} split a rule",
                ],
                ["tree", "[dumbbell.remy](../../scenarios/cc/dumbbell.remy)"],
                ["rules", str(trained["rules"])],
                ["SHA-256 of the tree without comments", f"`{trained['tree_sha256']}`"],
                [
                    f"mean objective on {trained['specimens']} unseen specimens",
                    f"{trained['score_after']:.3f}; initial tree: {trained['score_before']:.3f}",
                ],
            ],
        ),
        "",
        *_text(_ended(trained, judgement)),
        "",
        "The search is deterministic. This command produces the same tree:",
        "",
        "```sh",
        f"narrows train remy validation/remy/dumbbell.toml --budget 1e9 --steps {len(did)}",
        "```",
        "",
        "## Comparison",
        "",
        *_text(
            f"The dumbbell has {of['rate'].removesuffix('Mbit')} Mbit/s, a base RTT of "
            f"{of['rtt'].removesuffix('ms')} ms, {of['senders']} senders and a buffer of "
            f"{of['buffer'].removesuffix('p')} packets. Each value is a median over the senders of "
            f"{of['seeds']} runs of {of['duration'].removesuffix('s')} s. *Throughput* is that of "
            "a sender while it is on. The last three columns compare the trained tree with the "
            "scheme. The paper reports a higher throughput and a shorter delay for its trees. "
            "The word *yes* means that a ratio is at least "
            f"{judgement['tolerance']['throughput_ratio']}, or that the 95 % interval of the "
            "difference of objectives is above zero."
        ),
        "",
    ]
    for workload in judgement["workload"]:
        trained_scheme, *others = judged(judgement, workload, tree)
        verdicts = [verdict(trained_scheme, one, judgement["tolerance"]) for one in others]
        lines += [f"### Senders: {workload['name']}", ""]
        lines += [*_text(_result(verdicts[:-1])), ""]
        own = [TRAINED, f"{trained_scheme.mbit:.2f}", f"{trained_scheme.queue_ms:.1f}"]
        lines += _table(
            [
                "scheme",
                "throughput Mbit/s",
                "queueing delay ms",
                "throughput ratio",
                "delay ratio",
                "difference of the objective",
            ],
            [[*own, "–", "–", "–"], *(one.cells for one in verdicts)],
        )
        lines.append("")
    lines += [
        *_text(
            "The queueing delay is the mean RTT of a sender less the base RTT. FQ-CoDel takes the "
            "place of sfqCoDel, its predecessor. Transfers and pauses have constant lengths; those "
            "of the paper are exponentially distributed. The tree `small` is that of a random "
            "search over the shape of a tree; it is not part of the published comparison."
        ),
    ]
    names = [workload["name"] for workload in judgement["workload"]]
    lines += published.section(names, _table, _text)
    return "\n".join(lines) + "\n"


def _medians(judgement: JsonObject, tree: str) -> list[tuple[float, float]]:
    """Throughput in Mbit/s and queueing delay in ms of a tree, for each workload."""
    _, rtt_ms = _numbers(judgement["dumbbell"])
    found = []
    for workload in judgement["workload"]:
        measure = _on_off if "on" in workload else _transfers
        runs = measure(judgement, workload, {"kind": "remy", "tree": tree}, "fifo")
        scheme = Scheme("", runs, rtt_ms)
        found.append((round(scheme.mbit, 4), round(scheme.queue_ms, 3)))
    return found


def main() -> None:
    """Writes the page."""
    judgement = tomllib.loads((FOLDER / "judgement.toml").read_text(encoding="utf-8"))
    if "--published" in sys.argv:
        folder = Path(sys.argv[sys.argv.index("--published") + 1])
        published.measure(folder, lambda tree: _medians(judgement, tree))
    trained = json.loads((FOLDER / "trained.json").read_text(encoding="utf-8"))
    text = page(Path(TREE).read_text(encoding="utf-8"), trained, judgement)
    if "--print" in sys.argv:
        print(text, end="")
    else:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
