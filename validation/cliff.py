"""The cliff of BBR: random loss up to a threshold hardly reduces the goodput of a BBR flow, and
slightly more loss makes it collapse.

While it probes, BBR sends at `g` times its bandwidth estimate, where `g` is the probing gain. With
a loss probability of `p`, data arrives at `g (1 − p)` times the estimate. From `p = 1 − 1/g` on,
probing therefore cannot replace the bandwidth samples that expire from the filter. This threshold
is 20 % for a gain of 1.25, 9.1 % for 1.1, and 33 % for 1.5. Cao et al. (IMC 2019, figure 7)
measured the threshold at 100 Mbit/s, 25 ms, 10 MB of buffer and independent loss.

This holds for BBR without policer detection, and is tested with `policer_detection = false`. With
detection, which is the default, a loss of at least 50 packets for 256 delivered packets counts as
the effect of a policer. This is 16.3 % of the packets sent, so the cliff is at a lower loss. With
detection, Linux is the reference: `evidence/cliff-linux-6.12.csv` has its runs, and
`evidence/cliff.md` describes how they were recorded.

The cliff is the loss at which the mean goodput of a run is half of the rate. It is found by
bisection. Seven seeds decide a step if all of them agree, otherwise the median of 21 seeds does.
The cliff found with 21 seeds has a standard deviation of 0.06 to 0.17 percentage points, depending
on the gain. This is less than the resolution of the bisection. With three seeds it is up to 0.5
percentage points (`cliff_parts` measures it).
"""

from __future__ import annotations

import csv
import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

from narrows import _core
from narrows.errors import NarrowsError
from narrows.json_object import JsonObject
from narrows.runs.parallel import everywhere
from narrows.runs.run import Progress
from validation.stored import HERE

LINUX = HERE / "evidence/cliff-linux-6.12.csv"
"""The file of runs of Linux: loss in %, start of the flow in s, mean goodput of 60 s in Mbit/s."""

RATE_MBIT = 100.0
DURATION_S = 60
POINTS = (
    0.0,
    0.01,
    0.05,
    0.08,
    0.1,
    0.13,
    0.14,
    0.15,
    0.155,
    0.16,
    0.18,
    0.2,
    0.22,
    0.25,
    0.3,
    0.35,
)
"""Losses (as shares) that the table shows in addition to those of the bisection."""

WITHIN = 0.02
"""Tolerance of the cliff's loss without policer detection, as a share of the packets."""

WITHIN_LINUX = 0.015
"""Tolerance of the cliff's loss with policer detection, compared with that of Linux, as a share of
the packets.
"""

FEW, SEEDS = 7, 21
"""Number of seeds that decide a step of the bisection if they agree, and number of seeds if they
disagree.
"""

RESOLUTION = 0.0025
LEAST, MOST = 0.01, 0.4
"""Initial limits of the bisection, as losses."""


@dataclass(frozen=True, kw_only=True)
class Cliff:
    """The cliff for one gain, with or without policer detection.

    Attributes:
        gain: The probing gain.
        detection: Whether policer detection is on.
        expected: The loss at which the goodput should be half of the rate.
        within: The tolerance of this loss.
        found: The loss that was found; None if the goodput is above or below half of the rate at
            all losses.
        curve: For each loss, the goodputs of the seeds in Mbit/s.
    """

    gain: float
    detection: bool
    expected: float
    within: float = WITHIN
    found: float | None = None
    curve: dict[float, list[float]] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        """Whether the loss that was found is within the tolerance of the expected loss."""
        return self.found is not None and abs(self.found - self.expected) <= self.within

    def json(self) -> JsonObject:
        """The result as JSON."""
        return {
            "gain": self.gain,
            "policer_detection": self.detection,
            "expected": self.expected,
            "within": self.within,
            "found": self.found,
            "met": self.met,
            "curve": [{"loss": p, "goodput_mbit": self.curve[p]} for p in sorted(self.curve)],
        }


def linux() -> dict[float, list[float]]:
    """The runs of Linux: for each loss, the goodputs in Mbit/s."""
    lines = LINUX.read_text(encoding="utf-8").splitlines()
    curve: dict[float, list[float]] = {}
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        curve.setdefault(float(row["loss_pct"]) / 100, []).append(float(row["goodput_mbit"]))
    return curve


def half(curve: dict[float, list[float]]) -> float:
    """The loss at which the goodput is half of the rate, interpolated between the medians of two
    losses.

    >>> half({0.1: [90.0], 0.2: [10.0, 10.0], 0.3: [1.0]})
    0.15
    """
    points = [(p, statistics.median(curve[p])) for p in sorted(curve)]
    for (below, more), (above, less) in pairwise(points):
        if more >= RATE_MBIT / 2 > less:
            return round(below + (above - below) * (more - RATE_MBIT / 2) / (more - less), 6)
    raise ValueError("half of the rate passes nowhere")


def wanted() -> list[Cliff]:
    """The cliffs to search, not yet searched."""
    alone = [Cliff(gain=gain, detection=False, expected=1 - 1 / gain) for gain in (1.25, 1.1, 1.5)]
    return [*alone, Cliff(gain=1.25, detection=True, expected=half(linux()), within=WITHIN_LINUX)]


def scenario(gain: float, loss: float, *, detection: bool) -> JsonObject:
    """The scenario of the figure with this loss, and one BBR flow with this probing gain."""
    return {
        "title": f"BBR, probing gain {gain}, loss {loss:.2%}",
        "duration": f"{DURATION_S}s",
        "warmup": "0s",
        "start_jitter": "0s",
        "path": {
            "rate": f"{RATE_MBIT:g}Mbit",
            "rtt": "25ms",
            "buffer": "10MB",
            "link": {"kind": "tbf", "burst": "3125B"},
            "loss": {"probability": f"{100 * loss:.6g}%", "per": "packet"},
        },
        "flow": [{"cc": {"kind": "bbr", "probe_gain": gain, "policer_detection": detection}}],
    }


def left_out() -> str | None:
    """The reason why this version cannot run this part, or None if it can."""
    try:
        _core.scenario_to_toml(scenario(1.1, 0.1, detection=False))
    except NarrowsError as error:
        return str(error).splitlines()[0]
    return None


Job = tuple[float, bool, float, int]
"""Gain, policer detection, loss, seed."""


def goodput_mbit(job: Job, keep_on: Progress) -> float:
    """The goodput of one run, in Mbit/s."""
    gain, detection, loss, seed = job
    tree = scenario(gain, loss, detection=detection)
    text = _core.run_tree(tree, seed=seed, sample_interval="off", progress=keep_on).json()
    return float(json.loads(text)["flows"][0]["goodput_mbit"] or 0)


def play(
    *,
    seeds: int,
    jobs: int | None = None,
    done: Callable[[float], object] = lambda _: None,
    one: Callable[[Job, Progress], float] = goodput_mbit,
) -> list[Cliff]:
    """Searches all cliffs, and runs `seeds` seeds for each loss of the table.

    `done` is called with the cost of each complete run.
    """
    cliffs = wanted()

    def measure(points: list[tuple[Cliff, float]], first: int, last: int) -> None:
        which = range(first, last + 1)
        todo = [(c.gain, c.detection, loss, seed) for c, loss in points for seed in which]
        found = everywhere(
            todo, one, cost=lambda job: 1 - job[2], done=lambda _: done(1.0), jobs=jobs
        )
        for i, (cliff, loss) in enumerate(points):
            cliff.curve.setdefault(loss, []).extend(found[i * len(which) : (i + 1) * len(which)])

    measure([(cliff, loss) for cliff in cliffs for loss in POINTS], 1, seeds)
    between = [(LEAST, MOST)] * len(cliffs)
    for _ in range(steps()):
        middles = [(low + high) / 2 for low, high in between]
        points = list(zip(cliffs, middles, strict=True))
        measure(points, 1, FEW)
        unsure = [(cliff, loss) for cliff, loss in points if not _agreed(cliff.curve[loss])]
        measure(unsure, FEW + 1, SEEDS)
        done(float((len(points) - len(unsure)) * (SEEDS - FEW)))  # runs left out
        for i, (cliff, here) in enumerate(zip(cliffs, middles, strict=True)):
            passes = statistics.median(cliff.curve[here]) >= RATE_MBIT / 2
            between[i] = (here, between[i][1]) if passes else (between[i][0], here)
    return [
        replace(cliff, found=_edge(*edges)) for cliff, edges in zip(cliffs, between, strict=True)
    ]


def steps() -> int:
    """Number of steps of the bisection.

    >>> steps()
    8
    """
    width, n = MOST - LEAST, 0
    while width > RESOLUTION:
        width, n = width / 2, n + 1
    return n


def cost(*, seeds: int) -> float:
    """The sum of all costs that `done` of this part receives."""
    return float(len(wanted()) * (seeds * len(POINTS) + SEEDS * steps()))


def _agreed(goodputs: list[float]) -> bool:
    """Whether all goodputs are on the same side of half of the rate."""
    return min(goodputs) >= RATE_MBIT / 2 or max(goodputs) < RATE_MBIT / 2


def _edge(low: float, high: float) -> float | None:
    """The middle of the final interval, or None if one of its ends is still an initial limit."""
    return None if low == LEAST or high == MOST else (low + high) / 2
