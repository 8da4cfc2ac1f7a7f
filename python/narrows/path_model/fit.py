"""Which path would have shown the same: the simulator is asked, and its answers are compared with
what was measured.

Indirect inference (Gouriéroux, Monfort, Renault 1993): of each kind of hop that could be there the
parameters are moved until the simulator's measurement of it shows the same rate, peak of delay,
burst and losses; then the kinds are compared by all that was seen. It needs no formula for how a
congestion control and a queue discipline play together, for both are there to be played.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from narrows.measure.result import Direction
from narrows.measure.simulated import Plan, watch
from narrows.path_model.features import FRAME, PING_BYTES, Signs, signs
from narrows.runs.scenario import Hop, Path

FAIR = ("fq_codel", "cake", "fq")
AQM = ("codel", "pie", "red", *FAIR)
KINDS = ("fifo", "policer", *AQM)
"""What could be there. Others of a family look alike from outside; these stand for them."""

LEAST_RATE, MOST_RATE = 0.01, 400_000.0

RED_LEAST = 12
"""Packets: RED's thresholds follow from its buffer, and need room between them."""

RED_ROOM = 3.0
"""The first guess of how much larger RED's buffer is than what ever waits in it."""

LINK = 6.0
"""The first guess of how much faster the link behind a policer is."""

FEW = 3
"""So many packets lost in a whole load are none."""

FILLED = 0.75
"""A link that passes this share of its rate is full."""

STARVED = 1.15
"""A policer that lets so many times less pass than it should has too small a burst."""

REFINED, ROUNDS = 3, 3
"""So many of the best guesses are improved, so many times."""

ALIKE = 0.12
"""Two measurements of one path are no nearer than this."""

CEILING = 60e6
"""Simulated packets that the search for one measurement may cost: about a minute of one
processor.
"""

WAIT_MS = 0.02
"""Added to waits before they are compared, so that those of next to nothing do not count."""

Progress = Callable[[float, float], object]


@dataclass(frozen=True)
class Guess:
    """A hop that could be there.

    Attributes:
        kind: Of `KINDS`.
        rate_mbit: Of its link, or of its policer.
        depth_bytes: Of a fifo's buffer, or of RED's, from which its thresholds follow.
        burst_bytes: Of a policer.
        link_mbit: Of the link behind a policer.
        loss: By chance, of each packet.
    """

    kind: str
    rate_mbit: float
    depth_bytes: float
    burst_bytes: float
    link_mbit: float
    loss: float

    @property
    def wire_mbit(self) -> float:
        """At which frames leave: behind a policer that is its link."""
        return self.link_mbit if self.kind == "policer" else self.rate_mbit

    def keys(self) -> dict[str, Any]:
        """Of a hop in a scenario."""
        keys: dict[str, Any] = {"rate": bits(self.rate_mbit)}
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
    """A guess whose parameters were moved until the simulator showed the same, and how far off it
    still is.
    """

    guess: Guess
    shown: Signs
    distance: float


def bits(mbit: float) -> str:
    """A rate as scenarios have it, four digits that count.

    >>> bits(12.34567)
    '12350000bit'
    """
    return f"{float(f'{mbit * 1e6:.4g}'):.0f}bit"


@dataclass
class Budget:
    """What the simulations of one measurement may cost.

    >>> budget = Budget(most=100.0)
    >>> budget.affords(60.0), budget.affords(60.0), budget.reached
    (True, False, True)

    Attributes:
        most: Simulated packets.
        spent: Simulated packets so far.
        reached: A simulation was left out because it would have cost more than was left.
    """

    most: float = CEILING
    spent: float = 0.0
    reached: bool = False

    def affords(self, packets: float) -> bool:
        """Whether a simulation of so many packets is still possible; if so, they are spent."""
        if self.spent + packets > self.most:
            self.reached = True
            return False
        self.spent += packets
        return True


def packets(guess: Guess, load_s: float) -> float:
    """How many packets a load on this hop takes at most."""
    return guess.rate_mbit / 8e-6 * load_s / FRAME


@dataclass(frozen=True)
class Setting:
    """How a way was loaded: the same load is put on each guess.

    Attributes:
        way: Which way.
        plan: The load.
        rtt_ms: The idle round trip without the frames' own time.
        other: What the ACKs meet.
        seed: Of the simulator.
        budget: What the simulations may cost.
    """

    way: Direction
    plan: Plan
    rtt_ms: float
    other: Hop | None
    seed: int
    budget: Budget = field(default_factory=Budget)

    def play(self, guess: Guess, *, seed: int | None = None) -> Signs | None:
        """What a measurement of this guess shows; None if it shows nothing, or would cost too
        much.
        """
        if not self.budget.affords(packets(guess, self.plan.load_s)):
            return None
        rtt = f"{max(1, self.rtt_ms * 1e6):.0f}ns"
        if self.way == "down":
            path = Path(rtt=rtt, reverse=self.other, **guess.keys())
        else:
            other = self.other or Hop(rate=bits(max(1000.0, guess.rate_mbit)))
            ahead = {k: v for k, v in vars(other).items() if v is not None}
            path = Path(rtt=rtt, reverse=Hop(**guess.keys()), **ahead)
        return signs(watch(path, self.plan, seed=self.seed if seed is None else seed), self.way)


def first(seen: Signs, kind: str = "fifo", *, lossy: bool = False) -> Guess:
    """Where the search begins: what the signs say by themselves.

    Lossy is the other reading of packets sent again: they were lost by chance, and the link may
    never have been full.
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


def search(seen: Signs, setting: Setting, *, progress: Progress | None = None) -> list[Fitted]:
    """Every kind that could be there, with random loss and without, the likeliest first.

    Each has a first try, with and without losses by chance; then the parameters of the best few are
    moved.
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
        # A burst, a link, RED's thresholds need moves before they say anything.
        moved = one
        if at < REFINED or one.guess.kind in ("policer", "red"):
            moved = fit(seen, setting, nearer(one, seen), rounds=ROUNDS, best=one) or one
        for known in (one, moved):
            which = known.guess.kind, known.guess.loss > 0
            if which not in best or known.distance < best[which].distance:
                best[which] = known
    return sorted(best.values(), key=lambda f: f.distance)


def fit(
    seen: Signs, setting: Setting, guess: Guess, *, rounds: int, best: Fitted | None = None
) -> Fitted | None:
    """Moves the parameters of a guess until the simulator shows what was seen; None if it shows
    nothing.
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


def nearer(fitted: Fitted, seen: Signs) -> Guess:
    """The parameters nearer to what would show the same."""
    guess, shown = fitted.guess, fitted.shown
    frame_ms = FRAME * 8e-3 / guess.rate_mbit

    def ratio(a: float, b: float, most: float = 2.0) -> float:
        return min(most, max(1 / most, a / b)) if b > 0 else most

    loss = guess.loss
    if loss > 0 and seen.again is not None and shown.again is not None:
        loss = max(0.0, loss + seen.again - shown.again)
        loss = loss if loss * seen.packets > FEW else 0.0
    # A link that is not filled does not say how fast it is: then only the most that ever passed
    # does.
    burst = guess.burst_bytes * ratio(seen.burst_bytes + 4 * FRAME, shown.burst_bytes + 4 * FRAME)
    if guess.kind == "policer":
        # Too small a burst keeps windows small, and then it is not the rate that is missing.
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


def distance(seen: Signs, shown: Signs, guess: Guess, *, forgiving: bool = False) -> float:
    """How unlike what was seen a guess looks: differences over what chance alone does, the root of
    the mean square.

    Args:
        seen: What was measured.
        shown: What a simulation of the guess shows.
        guess: The guess.
        forgiving: Leave out the largest difference: one of fourteen statistics may be an accident.
    """
    floor = 0.2 + FRAME * 8e-3 / max(LEAST_RATE, seen.rate_mbit) / 2
    parts = [(math.log(seen.rate_mbit / shown.rate_mbit), 0.05)]
    middle, high, most = seen.noise_ms
    pairs = [
        *zip(seen.wait_ms, shown.wait_ms, (middle, middle, high), strict=True),
        (seen.peak_ms, shown.peak_ms, most),
        (seen.late_peak_ms, shown.late_peak_ms, most),
    ]
    # Noise only adds: of what was measured so much may be none of the path's.
    pairs = [(max(min(a, b), a - noise), b, noise) for a, b, noise in pairs]
    parts += [(math.log((a + floor) / (b + floor)), 0.25) for a, b, _ in pairs]
    if seen.flow_wait_ms is not None and shown.flow_wait_ms is not None:
        a, b = (max(0.0, v) + floor for v in (seen.flow_wait_ms, shown.flow_wait_ms))
        parts.append((math.log(a / b), 0.25))
        # Whether pings wait as flows do is what tells fair queueing.
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


def _spared(seen: Signs, shown: Signs, guess: Guess) -> float:
    """How unlikely it is that so few pings were lost: what drops by chance drops them like any
    packet.

    A full buffer or a policer that counts bytes has room for a ping where it has none for a frame,
    one that counts
    packets has not: theirs say nothing. And more pings are lost than a guess shows where there is
    somebody else.
    """
    due = shown.pings_lost if guess.kind in AQM else min(shown.pings_lost, guess.loss)
    some = 3 / max(1, seen.pings)
    return max(0.0, math.log((due + some) / (seen.pings_lost + some)) / 0.4)


def frames_ms(*rates_mbit: float | None) -> float:
    """The time of a ping's own frame on each link, which is no propagation."""
    return sum(PING_BYTES * 8e-3 / rate for rate in rates_mbit if rate)
