"""Synthetic traces of links that change with time, for `narrows new trace`.

The traces are synthetic. They have the mechanism of a kind of link, with assumed values of the
usual magnitude. They are not measurements of a network. The user chooses the mean rate.

`starlink`: satellites are assigned anew every 15 s (Mohan et al., A Multifaceted Look at Starlink
Performance, WWW 2024). In each interval, rate and one-way delay are constant. The rate is uniform
within 0.4 to 1.6 times the mean, the delay within 15 to 35 ms. A handover begins with a burst in
which all packets are lost. Its duration is uniform within 20 to 120 ms.

`5g`: millimetre waves are blocked by persons, vehicles and walls. The rate is a Markov process in
continuous time with three states. A state lasts for an exponentially distributed time.

| state | mean time | rate | one-way delay | next state |
|---|---|---|---|---|
| line of sight | 6 s | 1 | 8 ms | reflected 60 %, blocked 40 % |
| reflected | 2 s | 0.35 | 11 ms | line of sight 70 %, blocked 30 % |
| blocked | 0.4 s | 0.03 | 20 ms | line of sight 50 %, reflected 50 % |

The rates are relative. They are scaled so that the expected mean over time is the chosen rate.

Times are whole milliseconds. All random numbers are uniform numbers of one generator (Mersenne
Twister) with the seed, so equal arguments give equal files.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from pathlib import Path

from narrows import _core
from narrows.errors import NarrowsError
from narrows.models.skeleton import write_new

KINDS = ("starlink", "5g")
"""The kinds of links."""

FRAME_BITS = 1514 * 8
"""Bits of a full frame, which an opportunity of a packet-delivery trace lets leave."""
MOST_LINES = 5_000_000
"""Maximum number of lines of a packet-delivery trace."""
SLOT_MS = 15_000
"""Time between two handovers of `starlink`."""

_RATE_SPREAD = (0.4, 1.6)
_DELAY_MS = (15.0, 35.0)
_BURST_MS = (20, 120)
_LEAST_MS, _MOST_MS = 1000, 86_400_000


@dataclass(frozen=True)
class State:
    """A state of `5g`.

    Attributes:
        name: Its name.
        mean_ms: Mean time in the state.
        rate: Relative rate.
        delay_ms: One-way delay.
        next: Probability of each state as the next one.
    """

    name: str
    mean_ms: float
    rate: float
    delay_ms: float
    next: tuple[float, ...]


STATES = (
    State("line of sight", 6000, 1.0, 8.0, (0.0, 0.6, 0.4)),
    State("reflected", 2000, 0.35, 11.0, (0.7, 0.0, 0.3)),
    State("blocked", 400, 0.03, 20.0, (0.5, 0.5, 0.0)),
)
"""The states of `5g`; the first one is the state at the start."""


def shares() -> list[float]:
    """The expected share of time in each state of `5g`.

    >>> [round(share, 3) for share in shares()]
    [0.736, 0.231, 0.033]
    """
    visits = [1.0] * len(STATES)
    for _ in range(200):  # A power of the mean of the chain and the identity, which converges.
        after = [
            sum(visits[i] * state.next[j] for i, state in enumerate(STATES))
            for j in range(len(STATES))
        ]
        visits = [(a + b) / 2 for a, b in zip(visits, after, strict=True)]
    times = [visit * state.mean_ms for visit, state in zip(visits, STATES, strict=True)]
    return [time / sum(times) for time in times]


@dataclass(frozen=True, kw_only=True)
class Traces:
    """The traces of one link.

    Attributes:
        kind: One of `KINDS`.
        seed: The seed.
        mean_mbit: The expected mean rate in Mbit/s.
        duration_ms: The duration.
        rates: Time in milliseconds, and rate in Mbit/s from then on.
        delays: Time in milliseconds, and one-way delay in milliseconds from then on.
        losses: Begin and end of each time in which all packets are lost, in milliseconds.
    """

    kind: str
    seed: int
    mean_mbit: float
    duration_ms: int
    rates: list[tuple[int, float]]
    delays: list[tuple[int, float]]
    losses: list[tuple[int, int]] = field(default_factory=list)

    def spans(self) -> list[tuple[int, int, float]]:
        """Begin and end in milliseconds of each rate in Mbit/s."""
        ends = [at for at, _ in self.rates[1:]] + [self.duration_ms]
        return [(at, end, mbit) for (at, mbit), end in zip(self.rates, ends, strict=True)]

    def frames(self) -> float:
        """The integral of the rate, in full frames."""
        return sum((end - at) * mbit * 1e3 / FRAME_BITS for at, end, mbit in self.spans())

    def opportunities(self) -> list[int]:
        """The packet-delivery trace: a time in milliseconds for each full frame that may leave.

        The last time is the duration, because a repetition lasts until then.
        """
        times: list[int] = []
        done = 0.0
        for begin, end, mbit in self.spans():
            frames_per_ms = mbit * 1e3 / FRAME_BITS
            for ms in range(begin + 1, end + 1):
                before, done = math.floor(done), done + frames_per_ms
                times.extend([ms] * (math.floor(done) - before))
        if not times or times[-1] < self.duration_ms:
            times.append(self.duration_ms)
        return times

    def capacity_text(self) -> str:
        """The packet-delivery trace as a file."""
        return "\n".join([self._comment(), *map(str, self.opportunities()), ""])

    def delay_text(self) -> str:
        """The table of delays as a file."""
        lines = [f"{at} {delay:g}" for at, delay in self.delays]
        # The last line of a table lasts as long as the line before it. Two halves of the last delay
        # make the repetition as long as the trace.
        last, delay = self.delays[-1]
        lines.append(f"{(last + self.duration_ms) / 2:.1f} {delay:g}")
        return "\n".join([self._comment(), *lines, ""])

    def _comment(self) -> str:
        return (
            f"# Synthetic trace of narrows, not a measurement: {self.kind}, expected "
            f"mean rate {self.mean_mbit:g} Mbit/s, seed {self.seed}."
        )

    def scenario_text(self, capacity: str, delays: str) -> str:
        """A scenario that uses the two files of these names."""
        rtt = {"starlink": "50ms", "5g": "20ms"}[self.kind]
        steps = [
            f'    {{ at = "{at}ms", loss = "{loss}" }},'
            for begin, end in self.losses
            for at, loss in ((begin, "100%"), (end, "0%"))
            if at < self.duration_ms
        ]
        path = [
            f'trace       = "{capacity}"',
            f'delay_trace = "{delays}"',
            f'rtt         = "{rtt}"',
        ]
        path.append('buffer      = "2bdp"')
        if steps:
            path.extend(["steps       = [", *steps, "]"])
        return "\n".join(
            [
                f"# How do CUBIC and BBR use a link like {_NAMES[self.kind]}?",
                "#",
                *(f"# {line}" for line in _about(self)),
                "",
                f'title    = "A synthetic link: {self.kind}"',
                f'duration = "{self.duration_ms / 1000:.15g}s"',
                "",
                "[path]",
                *path,
                "",
                "[host]",
                'like = "linux-6.12"',
                "",
                "[[flow]]",
                'cc = "cubic"',
                "",
                "[[flow]]",
                'cc = "bbr"',
                "",
                "[[probe]]",
                'kind     = "ping"',
                'interval = "20ms"',
                "",
            ]
        )

    def write(self, file: Path) -> list[Path]:
        """Writes the scenario to `file` and the traces beside it; returns the names of all files.

        Raises:
            NarrowsError: If one of them exists, or cannot be written.
        """
        capacity, delays = (
            file.with_name(f"{file.stem}.pps"),
            file.with_name(f"{file.stem}-delays.txt"),
        )
        if file in (capacity, delays):
            raise NarrowsError(f"{file}: is the name of a trace; write a name like link.toml")
        texts = {
            file: self.scenario_text(capacity.name, delays.name),
            capacity: self.capacity_text(),
            delays: self.delay_text(),
        }
        for name, text in texts.items():
            write_new(name, text)
        return list(texts)


_NAMES = {"starlink": "Starlink", "5g": "5G with millimetre waves"}


def _about(traces: Traces) -> list[str]:
    about = [
        f"Written by `narrows new trace {traces.kind}` with the seed {traces.seed}. The traces are",
        "synthetic: they have the mechanism of such a link, with assumed values.",
    ]
    if traces.losses:
        about.append("Each pair of steps is the burst of losses at a handover.")
    return about


def _uniform(draw: random.Random, ends: tuple[float, float]) -> float:
    return ends[0] + (ends[1] - ends[0]) * draw.random()


def _starlink(mean_mbit: float, duration_ms: int, seed: int) -> Traces:
    draw = random.Random(seed)
    made = Traces(
        kind="starlink",
        seed=seed,
        mean_mbit=mean_mbit,
        duration_ms=duration_ms,
        rates=[],
        delays=[],
    )
    for at in range(0, duration_ms, SLOT_MS):
        made.rates.append((at, mean_mbit * _uniform(draw, _RATE_SPREAD)))
        made.delays.append((at, round(_uniform(draw, _DELAY_MS), 2)))
        burst = round(_uniform(draw, _BURST_MS))
        if at > 0:
            made.losses.append((at, min(at + burst, duration_ms)))
    return made


def _5g(mean_mbit: float, duration_ms: int, seed: int) -> Traces:
    draw = random.Random(seed)
    scale = mean_mbit / sum(
        share * state.rate for share, state in zip(shares(), STATES, strict=True)
    )
    rates: list[tuple[int, float]] = []
    delays: list[tuple[int, float]] = []
    at, state = 0, STATES[0]
    while at < duration_ms:
        rates.append((at, scale * state.rate))
        delays.append((at, state.delay_ms))
        at += max(1, round(-state.mean_ms * math.log(1.0 - draw.random())))
        chosen, below = draw.random(), 0.0
        for after, probability in zip(STATES, state.next, strict=True):
            below += probability
            if chosen < below:
                state = after
                break
    return Traces(
        kind="5g",
        seed=seed,
        mean_mbit=mean_mbit,
        duration_ms=duration_ms,
        rates=rates,
        delays=delays,
    )


def synthetic(kind: str, *, rate: str = "10Mbit", duration: str = "1min", seed: int = 1) -> Traces:
    """Synthetic traces of one link.

    Args:
        kind: `starlink` or `5g`.
        rate: The expected mean rate.
        duration: The duration of the traces.
        seed: The seed of the random numbers.

    Raises:
        NarrowsError: If a value is not valid, or the trace would have too many lines.

    >>> made = synthetic("starlink", rate="4Mbit", duration="30s")
    >>> made.losses[0][0], made.opportunities()[-1]
    (15000, 30000)
    """
    makers = {"starlink": _starlink, "5g": _5g}
    if kind not in makers:
        raise NarrowsError(f"{kind}: is not a kind of link; known: {', '.join(KINDS)}")
    duration_ms = round(_core.seconds(duration) * 1000)
    if not _LEAST_MS <= duration_ms <= _MOST_MS:
        raise NarrowsError(f"--duration {duration}: write 1s to 24h, such as 1min")
    made = makers[kind](_mbit(rate), duration_ms, seed)
    if made.frames() >= MOST_LINES:
        raise NarrowsError(
            f"--rate {rate}, --duration {duration}: a trace has at most {MOST_LINES} packets; "
            "write a lower rate or a shorter duration"
        )
    return made


def _mbit(rate: str) -> float:
    tree = {"duration": "1s", "path": {"rate": rate, "rtt": "1ms"}, "probe": [{"kind": "ping"}]}
    numbers = _core.path_numbers(_core.scenario_defaults(tree))
    return float(numbers["rate_mbit"])
