"""BBR's cliff: up to a rate of random loss it does not slow down, a little above it the flow collapses.

While it probes, BBR sends `g` times what it believes the path gives. With a loss of `p` the share `g (1 − p)` of that
arrives, so from `p = 1 − 1/g` on not even probing brings back what the bandwidth filter forgets: 20 % for a gain of
1.25, 9.1 % for 1.1. Cao et al. (IMC 2019, figure 7) measured it at 100 Mbit/s, 25 ms, 10 MB of buffer and independent
loss.

The cliff is where half of the rate passes, found by bisection: the median of several seeds decides each step.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

from narrows import _core
from narrows._parallel import everywhere
from narrows.errors import NarrowsError
from narrows.runs import Progress
from validation.stored import Json

RATE_MBIT = 100.0
DURATION_S = 60
POINTS = (0.0, 0.01, 0.05, 0.08, 0.1, 0.12, 0.15, 0.18, 0.19, 0.2, 0.21, 0.22, 0.25, 0.3)
"""Losses that the table shows besides those of the bisection."""

WITHIN = 0.02
RESOLUTION = 0.0025
LEAST, MOST = 0.01, 0.4
"""The bisection begins here."""


@dataclass(frozen=True, kw_only=True)
class Cliff:
    """One gain.

    Attributes:
        gain: Of probing.
        expected: The loss at which half of the rate must pass.
        found: Where it does; None while more or less than half passes everywhere.
        curve: Goodputs of the seeds, Mbit/s, by loss.
    """

    gain: float
    expected: float
    found: float | None = None
    curve: dict[float, list[float]] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        """Is it where it must be?"""
        return self.found is not None and abs(self.found - self.expected) <= WITHIN

    def json(self) -> Json:
        """For machines."""
        curve = [{"loss": p, "goodput_mbit": self.curve[p]} for p in sorted(self.curve)]
        return {"gain": self.gain, "expected": self.expected, "found": self.found, "met": self.met, "curve": curve}


WANTED = ((1.25, 0.2), (1.1, 0.09))
"""Gains, and where their cliffs must be."""


def scenario(gain: float, loss: float) -> Json:
    """The path of the figure with one flow of that gain."""
    return {
        "title": f"BBR, probing gain {gain}, loss {loss:.2%}",
        "duration": f"{DURATION_S}s",
        "warmup": "0s",
        "start_jitter": "0s",
        "path": {
            "rate": f"{RATE_MBIT:g}Mbit",
            "rtt": "25ms",
            "buffer": "10MB",
            "loss": {"probability": f"{100 * loss:.6g}%", "per": "packet"},
        },
        "flow": [{"cc": {"kind": "bbr", "probe_gain": gain}}],
    }


def left_out() -> str | None:
    """Why this part cannot be run by this version, if so."""
    try:
        _core.scenario_to_toml(scenario(*WANTED[1]))
    except NarrowsError as error:
        return str(error).splitlines()[0]
    return None


Job = tuple[float, float, int]
"""A gain, a loss, a seed."""


def goodput_mbit(job: Job, keep_on: Progress) -> float:
    """What one run gets through."""
    gain, loss, seed = job
    text = _core.run_tree(scenario(gain, loss), seed=seed, sample_interval="off", progress=keep_on).json()
    return float(json.loads(text)["flows"][0]["goodput_mbit"] or 0)


def play(
    *,
    seeds: int,
    jobs: int | None = None,
    done: Callable[[float], object] = lambda _: None,
    one: Callable[[Job, Progress], float] = goodput_mbit,
) -> list[Cliff]:
    """Looks for the cliffs of all gains; `done` is told the cost of each run."""
    cliffs = [Cliff(gain=gain, expected=expected) for gain, expected in WANTED]

    def measure(points: list[tuple[Cliff, float]]) -> None:
        pairs = [(cliff.gain, loss, seed) for cliff, loss in points for seed in range(1, seeds + 1)]
        found = everywhere(pairs, one, cost=lambda job: 1 - job[1], done=lambda _: done(1.0), jobs=jobs)
        for i, (cliff, loss) in enumerate(points):
            cliff.curve[loss] = found[i * seeds : (i + 1) * seeds]

    measure([(cliff, loss) for cliff in cliffs for loss in POINTS])
    between = {cliff.gain: (LEAST, MOST) for cliff in cliffs}
    for _ in range(steps()):
        middle = {gain: (low + high) / 2 for gain, (low, high) in between.items()}
        measure([(cliff, middle[cliff.gain]) for cliff in cliffs])
        for cliff in cliffs:
            low, high = between[cliff.gain]
            here = middle[cliff.gain]
            passes = statistics.median(cliff.curve[here]) >= RATE_MBIT / 2
            between[cliff.gain] = (here, high) if passes else (low, here)
    return [Cliff(gain=c.gain, expected=c.expected, found=_edge(*between[c.gain]), curve=c.curve) for c in cliffs]


def steps() -> int:
    """So often the bisection halves.

    >>> steps()
    8
    """
    width, n = MOST - LEAST, 0
    while width > RESOLUTION:
        width, n = width / 2, n + 1
    return n


def cost(*, seeds: int) -> float:
    """What `done` adds up to."""
    return float(len(WANTED) * seeds * (len(POINTS) + steps()))


def _edge(low: float, high: float) -> float | None:
    """The middle of what is left; None where the bisection only ever went one way."""
    return None if low == LEAST or high == MOST else (low + high) / 2
