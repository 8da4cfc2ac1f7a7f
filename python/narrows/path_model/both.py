"""The path of a measurement that loaded both ways at once: both hops are simulated together.

Pings and flows cross both queues, and the ACKs of each way share the queue of the other. So no way
can be fitted
alone: each candidate is a pair of hops, which gets the load of both ways. The ratio of what passed
    and what the simulation lets pass corrects for ACKs and for idle moments of each link. Which
    queue delayed the pings is seen only through the flows; the depth of a buffer is therefore not
    inferred.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from narrows.measure.result import DIRECTIONS, Direction
from narrows.measure.simulated import Plan, watch
from narrows.path_model.doubt import PLAYS, Doubt, doubt
from narrows.path_model.features import Signs, signs
from narrows.path_model.fit import (
    FEW,
    FILLED,
    KINDS,
    Budget,
    Fitted,
    Guess,
    distance,
    first,
    nearer,
    packets,
)
from narrows.runs.scenario import Hop, Path

ROUNDS = 3
"""So often the parameters of a pair are moved."""

FASTER, FOLLOWS = 1.6, 0.5
"""A link so many times faster lets pass so much of that more where it was full, by logarithms."""

MUCH = 4.0
"""So many times faster than what passed a link may be that was never full."""

CLOSE, MOST = 0.5, 3
"""Pairs that look nearly alike are simulated with other seeds, so many at most."""

UNEQUAL = 0.5
"""A way that lets pass less than this share of the other one's rate is the one whose queue delays
ACKs.
"""

BEHIND = ("fifo", "codel", "fq_codel")
"""Kinds of queue whose delay keeps the other way from being full."""

Guesses = dict[Direction, Guess]
Shown = dict[Direction, Signs]


@dataclass(frozen=True)
class Pair:
    """A hop for each way, what a measurement of both shows, and how unlike the measurement that
    is.
    """

    guesses: Guesses
    shown: Shown
    distance: float

    def filled(self, way: Direction, seen: Signs) -> bool:
        """Whether the load filled the link of this way, by its simulation or by what was
        measured.
        """
        guess = self.guesses[way]
        passed = max(self.shown[way].rate_mbit, seen.rate_mbit)
        return guess.kind == "policer" or passed >= FILLED * guess.rate_mbit


@dataclass(frozen=True)
class Together:
    """How both ways were loaded at once."""

    seen: Mapping[Direction, Signs]
    plan: Plan
    rtt_ms: float
    seed: int
    budget: Budget = field(default_factory=Budget)

    def play(self, guesses: Guesses, *, seed: int | None = None) -> Shown | None:
        """What a measurement of these hops shows of each way; None if nothing, or if it would cost
        too much.
        """
        if not self.budget.affords(
            sum(packets(guess, self.plan.load_s) for guess in guesses.values())
        ):
            return None
        path = Path(
            rtt=f"{max(1, self.rtt_ms * 1e6):.0f}ns",
            reverse=Hop(**guesses["up"].keys()),
            **guesses["down"].keys(),
        )
        measured = watch(path, self.plan, seed=self.seed if seed is None else seed)
        shown = {way: signs(measured, way) for way in DIRECTIONS}
        return (
            {way: of for way, of in shown.items() if of is not None}
            if all(shown.values())
            else None
        )

    def apart(self, shown: Shown, guesses: Guesses) -> float:
        """How unlike the measurement it is, the mean of both ways."""
        return fmean(distance(self.seen[way], shown[way], guesses[way]) for way in DIRECTIONS)

    def fit(self, guesses: Guesses, *, rounds: int = ROUNDS) -> Pair | None:
        """The pair with its parameters moved until it shows the same."""
        best: Pair | None = None
        for _ in range(rounds):
            shown = self.play(guesses)
            if shown is None:
                break
            pair = Pair(guesses, shown, self.apart(shown, guesses))
            if best is None or pair.distance < best.distance:
                best = pair
            guesses = {
                way: nearer(Fitted(guesses[way], shown[way], pair.distance), self.seen[way])
                for way in DIRECTIONS
            }
        return best


@dataclass(frozen=True)
class Both:
    """What is known of two ways that were loaded at once.

    Attributes:
        best: The pair that looks most alike.
        doubts: By way, how well it explains the measurement.
        alike: By way and kind, the distance of the best pair with this kind.
        full: By way, whether a faster link would have shown something else.
    """

    best: Pair
    doubts: dict[Direction, Doubt]
    alike: dict[Direction, dict[str, float]]
    full: dict[Direction, bool]


def search(
    together: Together, *, progress: Callable[[float, float], object] | None = None
) -> Both | None:
    """The pair of hops that shows what was measured; None if the simulator shows nothing within its
    budget.
    """
    tell = progress or (lambda _now, _end: None)
    starts = _starts(together.seen)
    steps = len(starts) + 4
    pairs: list[Pair] = []
    for at, start in enumerate(starts):
        tell(at, steps)
        pairs += [pair] if (pair := together.fit(start)) else []
    pairs.sort(key=lambda pair: pair.distance)
    for at, (a, b) in enumerate(((0, 1), (1, 0), (0, 2), (2, 0))):
        tell(len(starts) + at, steps)
        if max(a, b) < len(pairs):
            mixed: Guesses = {"down": pairs[a].guesses["down"], "up": pairs[b].guesses["up"]}
            pairs += [pair] if (pair := together.fit(mixed, rounds=2)) else []
    if not pairs:
        return None
    best = min(pairs, key=lambda pair: pair.distance)
    judged: list[tuple[Pair, dict[Direction, Doubt]]] = []
    for pair in _candidates(together, sorted(pairs, key=lambda pair: pair.distance)):
        plays = [together.play(pair.guesses, seed=together.seed + 1 + n) for n in range(PLAYS)]
        known = [shown for shown in plays if shown is not None]
        if len(known) > 1:
            judged.append((pair, {way: _doubt(together, known, pair, way) for way in DIRECTIONS}))
    if not judged:
        return None
    # One simulation alone may look alike by chance.
    best, doubts = min(judged, key=lambda one: sum(of.apart for of in one[1].values()))
    alike: dict[Direction, dict[str, float]] = {way: {} for way in DIRECTIONS}
    for pair in sorted(pairs, key=lambda pair: -pair.distance):
        for way in DIRECTIONS:
            alike[way][pair.guesses[way].kind] = pair.distance
    likely = [pair for pair, of in judged if pair is best or not any(d.misfit for d in of.values())]
    full = {way: _full(together, best, doubts[way], way, likely) for way in DIRECTIONS}
    return Both(best, doubts, alike, full)


def _candidates(together: Together, ordered: Sequence[Pair]) -> list[Pair]:
    """The pairs that look nearly alike; and for each way the nearest one whose link was never full.

    A single simulation of such a pair is often far off by chance, for its rate follows from the
    delay of ACKs.
    """
    out = [pair for pair in ordered if pair.distance <= ordered[0].distance + CLOSE][:MOST]
    for way in DIRECTIONS:
        never = next((pair for pair in ordered if not pair.filled(way, together.seen[way])), None)
        out += [never] if never is not None and never not in out else []
    return out


def _doubt(together: Together, plays: Sequence[Shown], pair: Pair, way: Direction) -> Doubt:
    of = doubt(together.seen[way], [shown[way] for shown in plays], pair.guesses[way])
    assert of is not None
    return of


def _starts(seen: Mapping[Direction, Signs]) -> list[Guesses]:
    """Where the search begins: both ways of each kind; and each way never full while the other
    one's queue waits.

    ACKs that wait in the queue of the other way keep flows from filling a link: it may be much
    faster than what passed.
    """
    most = max(s.rate_mbit for s in seen.values())
    out: list[Guesses] = []
    for kind in KINDS:
        # Both ways' queues make up one peak of the pings.
        firsts = {way: first(sign, kind) for way, sign in seen.items()}
        out.append(
            {
                way: replace(guess, depth_bytes=guess.depth_bytes / 2)
                for way, guess in firsts.items()
            }
        )
    for way in DIRECTIONS:
        if seen[way].rate_mbit < UNEQUAL * most:
            continue
        fast = first(seen[way])
        fast = replace(fast, rate_mbit=MUCH * fast.rate_mbit)
        out += [{**{w: first(s, kind) for w, s in seen.items()}, way: fast} for kind in BEHIND]
    if any(s.again and s.again * s.packets >= FEW for s in seen.values()):
        # Random loss may have kept the flows slow.
        out += [
            {way: first(sign, kind, lossy=True) for way, sign in seen.items()} for kind in BEHIND
        ]
    return out


def _full(
    together: Together, best: Pair, sure_of: Doubt, way: Direction, likely: Sequence[Pair]
) -> bool:
    """Whether the link was full by all likely explanations, and a faster one would have let pass
    more.
    """
    if not all(pair.filled(way, together.seen[way]) for pair in likely):
        return False
    guess = best.guesses[way]
    faster = replace(guess, rate_mbit=guess.rate_mbit * FASTER, link_mbit=guess.link_mbit * FASTER)
    shown = together.play({**best.guesses, way: faster})
    now = together.seen[way].rate_mbit / sure_of.ratio
    return shown is not None and math.log(shown[way].rate_mbit / now) > FOLLOWS * math.log(FASTER)
