"""Searches for the hop whose simulation shows the same statistics as a measurement.

The method is indirect inference (Gouriéroux, Monfort, Renault 1993). For each kind of hop, the
search adjusts the parameters until the simulation shows the measured rate, peak delay, burst and
losses. Then it compares the kinds by all statistics. This needs no formula for the interaction of a
congestion control and a queue discipline, because the simulator runs both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from narrows.json_object import JsonObject
from narrows.measure.result import Direction
from narrows.measure.simulated import Plan, watch
from narrows.path_model.features import FRAME, PING_BYTES, Features, features_of
from narrows.runs.scenario import Hop, Path

LEAST_RTT_NS = 1000
"""Shortest base RTT of a scenario, in ns. On a path in a building, the idle RTT may be that of the
frames of a ping alone.
"""

FAIR = ("fq_codel", "cake", "fq")
AQM = ("codel", "pie", "red", *FAIR)
KINDS = ("fifo", "policer", *AQM)
"""Kinds of hop that the search tries. Each kind stands for its family, because other queue
disciplines of the family show nearly the same statistics."""

LEAST_RATE, MOST_RATE = 0.01, 400_000.0

RED_LEAST = 12
"""Minimum buffer of RED, in packets: its thresholds follow from its buffer and must differ."""

RED_ROOM = 3.0
"""First guess of RED's buffer, divided by the largest backlog that the pings showed."""

LINK = 6.0
"""First guess of the rate of the link behind a policer, divided by the measured rate."""

FEW = 3
"""With fewer retransmits than this in a load, no random loss is assumed."""

FILLED = 0.75
"""A link counts as full if its flows have more than this share of its rate."""

STARVED = 1.15
"""Measured rate divided by the simulated rate, above which the burst of a policer is too small."""

REFINED, ROUNDS = 3, 3
"""Number of the best guesses whose parameters are adjusted further, and number of simulations for
each."""

ALIKE = 0.12
"""Distance below which the adjustment of a guess stops, because two measurements of one path differ
as much."""

CEILING = 60e6
"""Maximum number of packets that the search for one measurement simulates, which takes about a
minute on one processor.
"""

WAIT_MS = 0.02
"""Added to the delays behind a policer before their ratio is computed, in ms, so that differences
of tiny delays do not count."""

Progress = Callable[[float, float], object]


@dataclass(frozen=True)
class Guess:
    """A candidate hop.

    Attributes:
        kind: One of `KINDS`.
        rate_mbit: Rate of its link or of its policer, in Mbit/s.
        depth_bytes: Buffer of a FIFO, or of RED, whose thresholds follow from it, in bytes.
        burst_bytes: Burst of a policer, in bytes.
        link_mbit: Rate of the link behind a policer, in Mbit/s.
        loss: Probability of random loss of each packet.
    """

    kind: str
    rate_mbit: float
    depth_bytes: float
    burst_bytes: float
    link_mbit: float
    loss: float

    @property
    def wire_mbit(self) -> float:
        """The rate at which frames leave, in Mbit/s; behind a policer it is that of the link."""
        return self.link_mbit if self.kind == "policer" else self.rate_mbit

    def keys(self) -> JsonObject:
        """The keys of this hop in a scenario."""
        keys: JsonObject = {"rate": bits(self.rate_mbit)}
        if self.kind == "policer":
            burst = max(2 * FRAME, self.burst_bytes)
            keys = {
                "rate": bits(self.link_mbit),
                "policer": {"rate": bits(self.rate_mbit), "burst": f"{burst:.0f}B"},
            }
        elif self.kind == "fifo":
            keys["buffer"] = f"{max(2 * FRAME, self.depth_bytes):.0f}B"
        else:
            keys["queue"] = self.kind
        if self.kind == "red":
            keys["buffer"] = f"{max(RED_LEAST * FRAME, self.depth_bytes):.0f}B"
        if self.loss > 0:
            keys["loss"] = {"probability": float(f"{min(0.9, self.loss):.3g}"), "per": "packet"}
        return keys


@dataclass(frozen=True)
class Fitted:
    """A guess with adjusted parameters, the statistics of its simulation, and their distance from
    the measurement.
    """

    guess: Guess
    shown: Features
    distance: float


def bits(mbit: float) -> str:
    """A rate in the notation of scenarios, with four significant digits.

    >>> bits(12.34567)
    '12350000bit'
    """
    return f"{float(f'{mbit * 1e6:.4g}'):.0f}bit"


@dataclass
class Budget:
    """The budget of simulated packets for one measurement.

    >>> budget = Budget(most=100.0)
    >>> budget.affords(60.0), budget.affords(60.0), budget.reached
    (True, False, True)

    Attributes:
        most: Maximum number of simulated packets.
        spent: Number of packets simulated so far.
        reached: Whether a simulation was left out because the rest of the budget was too small.
    """

    most: float = CEILING
    spent: float = 0.0
    reached: bool = False

    def affords(self, packets: float) -> bool:
        """Whether the budget suffices for this number of packets; if so, it is reduced by them."""
        if self.spent + packets > self.most:
            self.reached = True
            return False
        self.spent += packets
        return True

    def leaves(self, packets: float) -> bool:
        """Whether the budget suffices for this number of packets; does not reduce the budget."""
        return self.spent + packets <= self.most


def packets(guess: Guess, load_s: float) -> float:
    """The number of full-sized packets that this hop can transmit during a load."""
    return guess.rate_mbit / 8e-6 * load_s / FRAME


@dataclass(frozen=True)
class Setting:
    """The simulated measurement, with the load of one direction, to which each guess is subjected.

    Attributes:
        direction: The direction.
        plan: The load.
        rtt_ms: The idle RTT without the serialization delay of the frames, in ms.
        other: The hop of the other direction, which the ACKs cross.
        seed: Seed of the simulator.
        budget: The budget of the simulations.
    """

    direction: Direction
    plan: Plan
    rtt_ms: float
    other: Hop | None
    seed: int
    budget: Budget = field(default_factory=Budget)

    def play(self, guess: Guess, *, seed: int | None = None) -> Features | None:
        """Simulates a measurement of this guess and returns its statistics.

        The result is None if the simulation gives no statistics, or if the budget does not suffice.
        """
        if not self.budget.affords(packets(guess, self.plan.load_s)):
            return None
        rtt = f"{max(LEAST_RTT_NS, self.rtt_ms * 1e6):.0f}ns"
        if self.direction == "down":
            path = Path(rtt=rtt, reverse=self.other, **guess.keys())
        else:
            other = self.other or Hop(rate=bits(max(1000.0, guess.rate_mbit)))
            ahead = {k: v for k, v in vars(other).items() if v is not None}
            path = Path(rtt=rtt, reverse=Hop(**guess.keys()), **ahead)
        return features_of(
            watch(path, self.plan, seed=self.seed if seed is None else seed), self.direction
        )


def first(seen: Features, kind: str = "fifo", *, lossy: bool = False) -> Guess:
    """The guess from which the search starts; it follows directly from the statistics.

    With `lossy`, all retransmits are attributed to random loss. If then no queue was seen for long
    enough, the rate is the maximum over 0.2 s.
    """
    rate = seen.busy_mbit or seen.rate_mbit
    if lossy and seen.busy_mbit is None:
        rate = max(rate, seen.top_mbit)
    return Guess(
        kind,
        rate,
        max(2 * FRAME, seen.peak_ms / 1000 * rate / 8e-6) * (RED_ROOM if kind == "red" else 1),
        max(10 * FRAME, seen.burst_bytes),
        max(LINK * rate, seen.top_mbit * 1.5),
        seen.again or 0.0 if lossy else 0.0,
    )


def search(seen: Features, setting: Setting, *, progress: Progress | None = None) -> list[Fitted]:
    """The best guess of every kind of hop, with and without random loss, the nearest first.

    Each kind is first tried without random loss. If at least `FEW` packets were retransmitted, each
    kind except the policer is also tried with random loss. Then the search adjusts the parameters
    of the best few guesses, and of all with a policer or RED.
    """
    tell = progress or (lambda _now, _end: None)
    starts = [first(seen, kind) for kind in KINDS]
    if seen.again and seen.again * seen.packets >= FEW:
        starts += [first(seen, kind, lossy=True) for kind in KINDS if kind != "policer"]
    steps, tried = 2.0 * len(starts), []
    for at, guess in enumerate(starts):
        tell(at, steps)
        one = fit(seen, setting, guess, rounds=1)
        tried += [one] if one else []
    tried.sort(key=lambda f: f.distance)
    best: dict[tuple[str, bool], Fitted] = {}
    for at, one in enumerate(tried):
        tell(len(starts) + at, steps)
        # The burst and the link of a policer, and RED's thresholds, need adjustment before guesses
        # can be compared.
        moved = one
        if at < REFINED or one.guess.kind in ("policer", "red"):
            moved = fit(seen, setting, nearer(one, seen), rounds=ROUNDS, best=one) or one
        for known in (one, moved):
            which = known.guess.kind, known.guess.loss > 0
            if which not in best or known.distance < best[which].distance:
                best[which] = known
    return sorted(best.values(), key=lambda f: f.distance)


def fit(
    seen: Features, setting: Setting, guess: Guess, *, rounds: int, best: Fitted | None = None
) -> Fitted | None:
    """Adjusts the parameters of a guess until the simulation shows the measured statistics.

    The result is None if no simulation shows statistics.
    """
    for _ in range(rounds):
        shown = setting.play(guess)
        if shown is None:
            return best
        fitted = Fitted(guess, shown, distance(seen, shown, guess))
        if best is None or fitted.distance < best.distance:
            best = fitted
        if best.distance < ALIKE:
            break
        guess = nearer(fitted, seen)
    return best


def nearer(fitted: Fitted, seen: Features) -> Guess:
    """A guess whose parameters are closer to those that would show the measured statistics."""
    guess, shown = fitted.guess, fitted.shown
    frame_ms = FRAME * 8e-3 / guess.rate_mbit

    def ratio(a: float, b: float, most: float = 2.0) -> float:
        return min(most, max(1 / most, a / b)) if b > 0 else most

    loss = guess.loss
    if loss > 0 and seen.again is not None and shown.again is not None:
        loss = max(0.0, loss + seen.again - shown.again)
        loss = loss if loss * seen.packets > FEW else 0.0
    # The statistics of a link that is not full do not show its rate; its maximum rate over a short
    # time is the only evidence.
    burst = guess.burst_bytes * ratio(seen.burst_bytes + 4 * FRAME, shown.burst_bytes + 4 * FRAME)
    if guess.kind == "policer":
        # A burst that is too small keeps congestion windows small; then the policer's rate is not
        # the cause.
        short = seen.rate_mbit / shown.rate_mbit
        rate = guess.rate_mbit * min(1.1, max(0.5, short))
        burst = max(burst, 2 * guess.burst_bytes) if short > STARVED else burst
    elif shown.rate_mbit > FILLED * guess.rate_mbit:
        rate = guess.rate_mbit * ratio(seen.rate_mbit, shown.rate_mbit)
    else:
        rate = max(seen.rate_mbit, guess.rate_mbit * ratio(seen.top_mbit, shown.top_mbit))
    link = guess.link_mbit * math.sqrt(
        ratio(shown.wait_ms[2] + WAIT_MS, seen.wait_ms[2] + WAIT_MS)
        * ratio(shown.peak_ms + frame_ms, seen.peak_ms + frame_ms)
    )
    return replace(
        guess,
        rate_mbit=min(MOST_RATE, max(LEAST_RATE, rate)),
        depth_bytes=guess.depth_bytes * ratio(seen.peak_ms + frame_ms, shown.peak_ms + frame_ms),
        burst_bytes=burst,
        link_mbit=max(1.2 * rate, link),
        loss=loss,
    )


def distance(seen: Features, shown: Features, guess: Guess, *, forgiving: bool = False) -> float:
    """The distance between a measurement and the simulation of a guess.

    It is the root mean square of the differences of all statistics, each divided by the difference
    that chance typically causes.

    Args:
        seen: The statistics of the measurement.
        shown: The statistics of a simulation of the guess.
        guess: The guess.
        forgiving: Whether to leave out the largest difference, because one of fourteen statistics
            may differ by accident.
    """
    floor = 0.2 + FRAME * 8e-3 / max(LEAST_RATE, seen.rate_mbit) / 2
    parts = [(math.log(seen.rate_mbit / shown.rate_mbit), 0.05)]
    middle, high, most = seen.noise_ms
    pairs = [
        *zip(seen.wait_ms, shown.wait_ms, (middle, middle, high), strict=True),
        (seen.peak_ms, shown.peak_ms, most),
        (seen.late_peak_ms, shown.late_peak_ms, most),
    ]
    # Noise only adds delay. Up to this amount, a measured delay beyond the simulated one may have
    # another cause than the path.
    pairs = [(max(min(a, b), a - noise), b, noise) for a, b, noise in pairs]
    parts += [(math.log((a + floor) / (b + floor)), 0.25) for a, b, _ in pairs]
    if seen.flow_wait_ms is not None and shown.flow_wait_ms is not None:
        a, b = (max(0.0, v) + floor for v in (seen.flow_wait_ms, shown.flow_wait_ms))
        parts.append((math.log(a / b), 0.25))
        # Fair queueing is detected by pings that wait less than flows do.
        parts.append(
            (
                math.log((seen.wait_ms[1] + floor) / a) - math.log((shown.wait_ms[1] + floor) / b),
                0.2,
            )
        )
    for a_, b_ in ((seen.again, shown.again), (seen.early_again, shown.early_again)):
        if a_ is not None and b_ is not None:
            some = 3 / seen.packets
            parts.append((math.log((a_ + some) / (b_ + some)), 0.4))
    extra = 10 * FRAME
    parts.append((math.log((seen.burst_bytes + extra) / (shown.burst_bytes + extra)), 0.4))
    squares = sorted((off / chance) ** 2 for off, chance in parts)
    kept = squares[:-1] if forgiving else squares
    return math.sqrt((sum(kept) + _spared(seen, shown, guess) ** 2) / len(kept))


def _spared(seen: Features, shown: Features, guess: Guess) -> float:
    """The difference that counts if the measurement lost fewer pings than random drops would have
    lost.

    Random drops affect pings like any packet. A full buffer or a policer that counts bytes may
    accept a ping while it drops a full-sized frame. One that counts packets drops both. Drops by a
    full buffer or a policer are therefore no evidence. More lost pings than in the simulation do
    not count, because cross traffic may be the cause.
    """
    due = shown.pings_lost if guess.kind in AQM else min(shown.pings_lost, guess.loss)
    some = 3 / max(1, seen.pings)
    return max(0.0, math.log((due + some) / (seen.pings_lost + some)) / 0.4)


def frames_ms(*rates_mbit: float | None) -> float:
    """The sum of the serialization delays of a ping's frame on these links, in ms. It is not a part
    of the propagation delay.
    """
    return sum(PING_BYTES * 8e-3 / rate for rate in rates_mbit if rate)
