"""Measures why BBR's cliff is below 1 − 1/gain, and how many seeds its search needs.

    python -m validation.cliff_parts    three tables of evidence/cliff.md, about 20 minutes

Each possible cause is removed alone. The causes are the pacing margin of 1 %, ProbeRTT, the end of
Startup after three rounds without growth, and the choice of the measured minute. The cliff is the
loss at which the goodput is half of the rate. It is interpolated between two losses of a grid from
the medians of the seeds, as for the runs of Linux. The spread of a search with few seeds is
estimated from many random subsets of all seeds.

The table of the bandwidth estimate uses one sample per millisecond. It shows the change of the
estimate from one probe to the next, as a logarithm. In theory, a probing cycle changes the estimate
by ln(0.99 gain (1 − loss)).
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from narrows import _core
from narrows.json_object import JsonObject
from narrows.runs.parallel import everywhere
from narrows.runs.run import Progress, Run, run
from narrows.runs.scenario import from_tree
from validation import cliff
from validation.asked import positive

GRIDS = {
    1.1: (0.07, 0.075, 0.08, 0.085, 0.09, 0.095, 0.1),
    1.25: (0.16, 0.165, 0.17, 0.175, 0.18, 0.185, 0.19, 0.195, 0.2, 0.205),
    1.5: (0.27, 0.28, 0.29, 0.295, 0.3, 0.305, 0.31, 0.315, 0.32, 0.33, 0.34),
}
"""The grid of losses for the search of the cliff, by gain."""

DRAWS = 500

INSIDE = {1.1: (0.08, 0.09), 1.25: (0.18, 0.19, 0.2), 1.5: (0.3, 0.31, 0.325)}
"""The losses in the table of the bandwidth estimate, by gain."""

KINDS = ("cycle", "full", "ProbeRTT", "timeout")
FULL_MBIT = 75
"""Bandwidth estimate from which the path counts as full, in Mbit/s."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A possible cause, and how it is removed.

    Attributes:
        name: The name in the table.
        parameters: Parameters of BBR that are set.
        begins_s: Start of the minute in which the goodput is measured, in s.
    """

    name: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    begins_s: int = 0


PARTS = (
    Part(name="nothing"),
    Part(name="no margin of pacing", parameters={"pacing_margin": 0}),
    Part(name="no ProbeRTT", parameters={"probe_rtt_time": "0s"}),
    Part(
        name="ten rounds without growth end Startup, not three",
        parameters={"full_pipe_rounds": 10},
    ),
    Part(name="the fifth minute, not the first", begins_s=240),
    Part(
        name="the fifth minute, no margin, no ProbeRTT",
        parameters={"pacing_margin": 0, "probe_rtt_time": "0s"},
        begins_s=240,
    ),
)


def scenario(gain: float, loss: float, part: Part) -> JsonObject:
    """The scenario of the cliff, without policer detection and without the cause `part`."""
    tree = cliff.scenario(gain, loss, detection=False)
    tree["flow"] = [{"cc": tree["flow"][0]["cc"] | part.parameters}]
    return tree | {
        "duration": f"{part.begins_s + cliff.DURATION_S}s",
        "warmup": f"{part.begins_s}s",
    }


def curve(gain: float, part: Part, seeds: int, jobs: int | None) -> dict[float, list[float]]:
    """For each loss, the goodputs of the seeds in Mbit/s."""

    def one(job: tuple[float, int], keep_on: Progress) -> float:
        run = _core.run_tree(
            scenario(gain, job[0], part), seed=job[1], sample_interval="off", progress=keep_on
        )
        return float(json.loads(run.json())["flows"][0]["goodput_mbit"] or 0)

    todo = [(loss, seed) for loss in GRIDS[gain] for seed in range(1, seeds + 1)]
    found = everywhere(todo, one, cost=lambda job: 1 - job[0], jobs=jobs)
    return {loss: found[i * seeds : (i + 1) * seeds] for i, loss in enumerate(GRIDS[gain])}


def cliff_pct(curve_: dict[float, list[float]]) -> str:
    """The loss of the cliff in percent, as text."""
    try:
        return f"{100 * cliff.half(curve_):.1f}"
    except ValueError:
        more = statistics.median(curve_[min(curve_)]) > cliff.RATE_MBIT / 2
        return f"above {100 * max(curve_):g}" if more else f"below {100 * min(curve_):g}"


def spread(curve_: dict[float, list[float]], seeds: int) -> str:
    """The standard deviation of the cliff's loss if it is found with `seeds` seeds, in percentage
    points.
    """
    draw = random.Random(1)
    halves = []
    for _ in range(DRAWS):
        some = {
            loss: [draw.choice(goodputs) for _ in range(seeds)] for loss, goodputs in curve_.items()
        }
        try:
            halves.append(100 * cliff.half(some))
        except ValueError:
            continue
    return f"{statistics.stdev(halves):.2f}"


@dataclass
class Account:
    """Changes of the bandwidth estimate in several runs of one minute, from the third second on.

    Attributes:
        begins: The estimate at the start, in Mbit/s.
        kinds: The logarithms of the changes of the estimate from probe to probe, by the event
            between two probes.
    """

    begins: list[float] = field(default_factory=list)
    kinds: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    def add(self, run_: Run, gain: float) -> None:
        """Adds a run."""
        samples = run_.samples
        pacing = [rate or 0.0 for rate in samples["pacing_mbit"].to_pylist()]
        cwnd, phase = samples["cwnd_packets"].to_pylist(), samples["phase"].to_pylist()
        low, high = 1 + 0.72 * (gain - 1), 1 + 1.2 * (gain - 1)
        probes = [
            i
            for i in range(2000, len(pacing))
            if low * pacing[i - 1] < pacing[i] < high * pacing[i - 1]
        ]
        self.begins.append(pacing[probes[0] - 1])
        for since, until in pairwise(probes):
            if "loss" in phase[since:until]:
                kind = "timeout"
            elif min(cwnd[since:until]) <= 4:  # noqa: PLR2004
                kind = "ProbeRTT"
            else:
                kind = "cycle" if pacing[since - 1] < FULL_MBIT else "full"
            self.kinds[kind].append(math.log(pacing[until - 1] / pacing[since - 1]))


def account(gain: float, loss: float, seeds: int, jobs: int | None) -> str:
    """A row of the table of the bandwidth estimate."""

    def one(seed: int, keep_on: Progress) -> Run:
        tree = cliff.scenario(gain, loss, detection=False)
        return run(from_tree(tree), seed=seed, sample_interval="1ms", progress=keep_on)

    changes = Account()
    for run_ in everywhere(range(1, seeds + 1), one, cost=lambda _: 1.0, jobs=jobs):
        changes.add(run_, gain)
    theory = math.log(0.99 * gain * (1 - loss))
    low, middle, high = statistics.quantiles(changes.begins, n=4)
    means = (
        f"{statistics.fmean(x):+.3f} ({len(x) / seeds:.1f})" if x else "–"
        for x in changes.kinds.values()
    )
    return (
        f"| {gain} | {100 * loss:g} % | {middle:.0f} ({low:.0f} to {high:.0f}) | {theory:+.3f} | "
        f"{' | '.join(means)} |"
    )


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--seeds",
        type=positive,
        default=21,
        help="seeds of each point of the second and third table [default: 21]",
    )
    parser.add_argument(
        "--many",
        type=positive,
        default=63,
        help="seeds of each point of the first table [default: 63]",
    )
    parser.add_argument(
        "--jobs", type=positive, help="number of parallel processes [default: one per core]"
    )
    args = parser.parse_args()
    gains = sorted(GRIDS)
    numbers = (3, 5, 9, 21, 45)
    print("| gain | cliff of all seeds, % |", *(f"{n} seeds |" for n in numbers))
    print("|---|---|" + "---|" * len(numbers))
    for gain in gains:
        every = curve(gain, PARTS[0], args.many, args.jobs)
        print(
            f"| {gain} | {cliff_pct(every)} |",
            *(f"± {spread(every, n)} |" for n in numbers),
            flush=True,
        )
    print()
    print(
        "| gain | loss | after 2 s, Mbit/s | cycle, theory | cycle | cycle at a full path | "
        "ProbeRTT | timeout |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for gain, losses in INSIDE.items():
        for loss in losses:
            print(account(gain, loss, args.seeds, args.jobs), flush=True)
    print()
    print("| removed |", *(f"gain {gain} |" for gain in gains))
    print("|---|" + "---|" * len(gains))
    print("| 1 − 1/gain |", *(f"{100 * (1 - 1 / gain):.1f} |" for gain in gains))
    print("| 1 − 1/(0.99 gain) |", *(f"{100 * (1 - 1 / (0.99 * gain)):.1f} |" for gain in gains))
    for part in PARTS:
        print(
            f"| {part.name} |",
            *(f"{cliff_pct(curve(g, part, args.seeds, args.jobs))} |" for g in gains),
            flush=True,
        )


if __name__ == "__main__":
    main()
