"""Coverage of the confidence intervals over seeds: `make coverage`, or `python -m
validation.coverage`, which writes docs/reference/coverage.md.

Three scenarios are run with 2,000 seeds each, and the mean of every metric over these runs is taken
as its true value. Further runs with other seeds form 200 repetitions of 10 runs each. Their 95 %
intervals are those of `narrows run --seeds 10`. For each metric, 91 to 98 % of the intervals must
contain the true value; otherwise the program exits with 1. If each interval covers the true value
with a probability of 95 %, 200 repetitions meet this criterion with a probability of 98.5 %
(binomial distribution).

The runs of the reference use the same start jitter as those of `--seeds`, so that they cover all
relative start times of the flows. With `--jitter 40ms`, the flows of the repetitions start within
40 ms, and their intervals are compared with the same reference.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from textwrap import fill
from typing import Any

from narrows import _core
from narrows.inference import LEVEL, of_mean
from narrows.runs.parallel import everywhere
from narrows.runs.replications import whole_metrics, with_jitter
from narrows.runs.run import Progress
from narrows.runs.scenario import Flow, Path, Scenario
from narrows.sweeps.rows import MOST
from validation.asked import positive
from validation.stored import HERE

PAGE = HERE.parent / "docs/reference/coverage.md"

REFERENCE = 2000
REPETITIONS = 200
RUNS = 10
"""Number of runs of the reference, number of repetitions, and number of runs of a repetition."""

ACCEPTED = (0.91, 0.98)
"""Accepted share of intervals that contain the mean of the reference."""

SHARE = "first_share"

SCENARIOS: dict[str, tuple[Scenario, tuple[str, ...]]] = {
    "two CUBIC flows": (
        Scenario(
            Path(rate="20Mbit", rtt="40ms", buffer="1bdp"),
            flows=[Flow("cubic"), Flow("cubic")],
            duration="30s",
        ),
        (SHARE, "queue_delay_mean_ms"),
    ),
    "BBR and CUBIC, FQ-CoDel, random loss": (
        Scenario(
            Path(rate="20Mbit", rtt="40ms", queue="fq_codel", loss="0.1%"),
            flows=[Flow("bbr"), Flow("cubic")],
            duration="20s",
        ),
        (SHARE, "goodput_mbit"),
    ),
    "web pages beside a CUBIC flow": (
        Scenario(
            Path(rate="20Mbit", rtt="40ms", buffer="1bdp"),
            flows=[Flow("cubic"), Flow(workload="web")],
            duration="30s",
        ),
        ("page_load_mean_s", "queue_delay_p95_ms"),
    ),
}
"""The scenarios by name, with the metrics that are compared."""


def metrics(tree: dict[str, Any], seed: int, keep_on: Progress) -> dict[str, float]:
    """The metrics of a run, with the share of the first flow in the goodput."""
    raw = _core.run_tree(tree, seed=seed, sample_interval="off", progress=keep_on)
    rows = _core.rows_of(raw.json(), [])
    goodputs = [row["goodput_mbit"] or 0.0 for row in rows]
    return whole_metrics(rows) | {SHARE: goodputs[0] / math.fsum(goodputs)}


def values(scenario: Scenario, seeds: range) -> list[dict[str, float]]:
    """The metrics of a run for each seed."""
    tree = scenario.tree()
    return everywhere(seeds, lambda seed, keep_on: metrics(tree, seed, keep_on), cost=lambda _: 0.0)


def covered(
    found: list[dict[str, float]], truth: float, metric: str, runs: int
) -> tuple[float, float]:
    """The share of repetitions whose interval contains the true mean, and the mean half-width."""
    groups = [found[at : at + runs] for at in range(0, len(found), runs)]
    intervals = [
        of_mean([one[metric] for one in group], MOST.get(metric, 1.0 if metric == SHARE else None))
        for group in groups
    ]
    inside = sum(
        one.low is not None and one.high is not None and one.low <= truth <= one.high
        for one in intervals
    )
    return inside / len(groups), math.fsum(one.half() or 0.0 for one in intervals) / len(groups)


@dataclass(frozen=True)
class Row:
    """The coverage of one metric.

    Attributes:
        scenario: Name of the scenario.
        metric: Name of the metric.
        mean: Mean over the runs of the reference.
        half: Mean half-width of the intervals.
        share: Share of the intervals that contain the mean of the reference.
    """

    scenario: str
    metric: str
    mean: float
    half: float
    share: float

    def right(self) -> bool:
        """Whether the share of the intervals is in the accepted range."""
        return ACCEPTED[0] <= self.share <= ACCEPTED[1]


def compare(
    name: str, asked: argparse.Namespace, *, repetitions: int = REPETITIONS
) -> Iterator[Row]:
    """The coverage of the metrics of a scenario."""
    scenario, compared = SCENARIOS[name]
    wide, _ = with_jitter(scenario)
    tried = wide if asked.jitter is None else replace(wide, start_jitter=asked.jitter)
    reference = values(wide, range(1, asked.reference + 1))
    first = 1_000_001
    found = values(tried, range(first, first + repetitions * asked.runs))
    for metric in compared:
        truth = math.fsum(one[metric] for one in reference) / len(reference)
        share, half = covered(found, truth, metric, asked.runs)
        yield Row(name, metric, truth, half, share)


def page(rows: Sequence[Row]) -> str:
    """The text of the reference page."""
    least, most = (f"{100 * end:.0f}" for end in ACCEPTED)
    table = [
        f"| {row.scenario} | `{row.metric}` | {row.mean:.4f} | {row.half:.4f} "
        f"| {100 * row.share:.1f} % |"
        for row in rows
    ]
    cases = sum(row.right() for row in rows)
    scenarios = len({row.scenario for row in rows})
    paragraphs = [
        "This page is written by `make coverage`, which runs `python -m validation.coverage`. Each "
        f"of {scenarios} scenarios runs with {REFERENCE} seeds, and the mean of a metric over "
        f"these runs is taken as its true value. {REPETITIONS} repetitions with {RUNS} other seeds "
        f"each give {REPETITIONS} intervals of `narrows run --seeds {RUNS}`. They must contain the "
        f"true value in {least} to {most} % of the cases. {cases} of {len(rows)} metrics meet this "
        "criterion.",
        "By a binomial distribution, 200 repetitions of intervals that cover 95 % meet the "
        "criterion with a probability of 98.5 %. Start times vary over an eighth of the duration, "
        "at most 5 s and at most the warm-up. The scenarios are in `validation/coverage.py`. "
        "[Compute confidence intervals](../how-to/confidence-intervals.md) describes the method.",
    ]
    first, last = (fill(text, 100, break_on_hyphens=False) for text in paragraphs)
    head = [
        "| scenario | metric | true mean | mean half-width | intervals with the true mean |",
        "|---|---|---|---|---|",
    ]
    lines = ["# Coverage of confidence intervals", "", first, "", *head, *table, "", last]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Prints a table, and writes the page if all options have their default values. Returns 1 if a
    share is outside the accepted range.
    """
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    ask.add_argument("--runs", type=positive, default=RUNS, help="runs of a repetition")
    ask.add_argument("--repetitions", type=positive, default=REPETITIONS)
    ask.add_argument("--reference", type=positive, default=REFERENCE, help="runs of the reference")
    ask.add_argument("--jitter", help="start jitter of the repetitions instead of the default")
    ask.add_argument("--only", help="the scenario whose name begins with this text")
    asked = ask.parse_args()
    rows: list[Row] = []
    print(f"{'scenario':38} {'metric':20} {'mean':>8} {'half-width':>10} {'covered':>8}")
    for name in SCENARIOS:
        if not name.startswith(asked.only or ""):
            continue
        for row in compare(name, asked, repetitions=asked.repetitions):
            rows.append(row)
            print(
                f"{name:38} {row.metric:20} {row.mean:8.4f} {row.half:10.4f} "
                f"{100 * row.share:7.1f}%",
                flush=True,
            )
    least, most = (f"{100 * end:.0f}" for end in ACCEPTED)
    print(f"{100 * LEVEL:.0f} % intervals; accepted: {least} to {most} %")
    usual = (asked.runs, asked.repetitions, asked.reference) == (RUNS, REPETITIONS, REFERENCE)
    if usual and asked.jitter is None and asked.only is None:
        PAGE.write_text(page(rows), encoding="utf-8")
    return 0 if all(row.right() for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
