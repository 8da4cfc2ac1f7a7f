"""Infers the path of a measurement that loaded both directions at once.

Pings and flows cross both queues, and the ACKs of each direction share the queue of the other one.
Therefore no direction can be fitted alone. Each candidate is a pair of hops, which are simulated
together with the load of both directions. The ratio of the measured rate and the simulated rate
corrects for ACKs and for idle moments of each link. Only the flows show which of the two queues
delayed the pings. Therefore the size of a buffer is not inferred.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from narrows.measure.result import DIRECTIONS, Direction
from narrows.measure.simulated import Plan, watch
from narrows.path_model.doubt import PLAYS, REPLAYS, Doubt, doubt
from narrows.path_model.features import Features, features_of
from narrows.path_model.fit import (
    FEW,
    FILLED,
    KINDS,
    LEAST_RTT_NS,
    RED_ROOM,
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
"""Number of times that the parameters of a pair are adjusted."""

FASTER, FOLLOWS = 1.6, 0.5
"""Test whether a link was full: its rate is multiplied by `FASTER`. The link was full if the
logarithm of the flows' rate rises by more than `FOLLOWS` times that of `FASTER`."""

MUCH = 4.0
"""First guess of the rate of a link that was never full, divided by the rate that the flows
reached."""

MIXES = ((0, 1), (1, 0), (0, 2), (2, 0))
"""Further pairs of hops. The first number is the rank of the pair that gives the hop of the
download. The second is that of the pair that gives the hop of the upload. Rank 0 is the nearest
pair."""

CLOSE, MOST = 0.5, 3
"""Pairs that are simulated with other seeds: the maximum amount by which their distance exceeds
that of the nearest pair, and their maximum number."""

UNEQUAL = 0.5
"""A direction whose measured rate is below this share of the faster direction's rate is assumed to
have a full link. The search starts with no faster link for it.
"""

BEHIND = ("fifo", "codel", "fq_codel")
"""Queue disciplines that are tried for a full link in starts where the link of the other direction
is not full. ACKs of the other direction wait in the queue of the full link, which slows down the
flows of that direction."""

Guesses = dict[Direction, Guess]
Shown = dict[Direction, Features]
Doubts = dict[Direction, Doubt]


@dataclass(frozen=True)
class Pair:
    """A hop for each direction, the statistics of a simulation with both hops, and the distance of
    these statistics from the measurement.
    """

    guesses: Guesses
    shown: Shown
    distance: float

    def filled(self, direction: Direction, seen: Features) -> bool:
        """Whether the load filled the link of this direction: the simulated or the measured rate is
        at least `FILLED` times the rate of the link. A policer always counts as filled.
        """
        guess = self.guesses[direction]
        passed = max(self.shown[direction].rate_mbit, seen.rate_mbit)
        return guess.kind == "policer" or passed >= FILLED * guess.rate_mbit


@dataclass(frozen=True)
class Together:
    """The load of both directions at once, which each pair of hops receives."""

    seen: Mapping[Direction, Features]
    plan: Plan
    rtt_ms: float
    seed: int
    budget: Budget = field(default_factory=Budget)

    def play(self, guesses: Guesses, *, seed: int | None = None) -> Shown | None:
        """Simulates these hops and returns the statistics of each direction.

        The result is None if a direction has no statistics, or if the budget does not suffice.
        """
        if not self.budget.affords(
            sum(packets(guess, self.plan.load_s) for guess in guesses.values())
        ):
            return None
        path = Path(
            rtt=f"{max(LEAST_RTT_NS, self.rtt_ms * 1e6):.0f}ns",
            reverse=Hop(**guesses["up"].keys()),
            **guesses["down"].keys(),
        )
        measured = watch(path, self.plan, seed=self.seed if seed is None else seed)
        shown = {direction: features_of(measured, direction) for direction in DIRECTIONS}
        return (
            {direction: of for direction, of in shown.items() if of is not None}
            if all(shown.values())
            else None
        )

    def apart(self, shown: Shown, guesses: Guesses) -> float:
        """The mean, over both directions, of the distance between measured and simulated
        statistics.
        """
        return fmean(
            distance(self.seen[direction], shown[direction], guesses[direction])
            for direction in DIRECTIONS
        )

    def fit(self, guesses: Guesses, *, rounds: int = ROUNDS) -> Pair | None:
        """Adjusts the parameters of a pair until its simulation shows the measured statistics."""
        best: Pair | None = None
        for _ in range(rounds):
            shown = self.play(guesses)
            if shown is None:
                break
            pair = Pair(guesses, shown, self.apart(shown, guesses))
            if best is None or pair.distance < best.distance:
                best = pair
            guesses = {
                direction: nearer(
                    Fitted(guesses[direction], shown[direction], pair.distance),
                    self.seen[direction],
                )
                for direction in DIRECTIONS
            }
        return best


@dataclass(frozen=True)
class Both:
    """The result for two directions that were loaded at once.

    Attributes:
        best: The pair with the least distance.
        doubts: The comparison of the measurement with simulations of this pair, by direction.
        likely: The best pair and all other pairs that explain the measurement, each with its
            comparisons by direction.
        alike: The distance of the nearest pair that has a queue discipline in a direction, by
            direction and queue discipline.
        full: Whether the link was full in all likely pairs and a faster link would have had a
            higher rate, by direction.
    """

    best: Pair
    doubts: Doubts
    likely: list[tuple[Pair, Doubts]]
    alike: dict[Direction, dict[str, float]]
    full: dict[Direction, bool]


def search(
    together: Together, *, progress: Callable[[float, float], object] | None = None
) -> Both | None:
    """Searches for the pair of hops whose simulation shows the measured statistics.

    The result is None if no simulation within the budget shows statistics.
    """
    tell = progress or (lambda _now, _end: None)
    starts = _starts(together.seen)
    steps = len(starts) + len(MIXES) + 1
    pairs: list[Pair] = []
    for at, start in enumerate(starts):
        tell(at, steps)
        pairs += [pair] if (pair := together.fit(start)) else []
    pairs.sort(key=lambda pair: pair.distance)
    for at, (a, b) in enumerate(MIXES):
        tell(len(starts) + at, steps)
        if max(a, b) < len(pairs):
            mixed: Guesses = {"down": pairs[a].guesses["down"], "up": pairs[b].guesses["up"]}
            pairs += [pair] if (pair := together.fit(mixed, rounds=2)) else []
    if not pairs:
        return None
    tell(len(starts) + len(MIXES), steps)
    pairs += _exchanged(together, min(pairs, key=lambda pair: pair.distance))
    judged: list[tuple[Pair, Doubts]] = []
    for pair in _candidates(together, sorted(pairs, key=lambda pair: pair.distance)):
        plays = [together.play(pair.guesses, seed=together.seed + 1 + n) for n in range(PLAYS)]
        known = [shown for shown in plays if shown is not None]
        if len(known) > 1:
            judged.append(
                (
                    pair,
                    {
                        direction: _doubt(together, known, pair, direction)
                        for direction in DIRECTIONS
                    },
                )
            )
    if not judged:
        return None
    # One simulation alone may resemble the measurement by chance, and so may the mean of four.
    judged = [(pair, _precise(together, pair, of)) for pair, of in judged]
    best, doubts = min(judged, key=lambda one: sum(of.apart for of in one[1].values()))
    alike: dict[Direction, dict[str, float]] = {direction: {} for direction in DIRECTIONS}
    for pair in sorted(pairs, key=lambda pair: -pair.distance):
        for direction in DIRECTIONS:
            alike[direction][pair.guesses[direction].kind] = pair.distance
    likely = [
        (pair, of) for pair, of in judged if pair is best or not any(d.misfit for d in of.values())
    ]
    full = {
        direction: _full(together, best, doubts[direction], direction, [pair for pair, _ in likely])
        for direction in DIRECTIONS
    }
    return Both(best, doubts, likely, alike, full)


def _exchanged(together: Together, best: Pair) -> list[Pair]:
    """Copies of the best pair in which one direction has another queue discipline, with adjusted
    parameters. There is one copy for each direction and each other queue discipline.

    The queue disciplines of both directions are independent. A pair with the right discipline in
    one direction only may be far from the measurement because of the other direction. Its distance
    therefore does not exclude that discipline.
    """
    out = []
    for direction in DIRECTIONS:
        now = best.guesses[direction]
        for kind in KINDS:
            if kind != now.kind:
                hop = replace(
                    first(together.seen[direction], kind),
                    rate_mbit=now.rate_mbit,
                    depth_bytes=now.depth_bytes * (RED_ROOM if kind == "red" else 1),
                )
                pair = together.fit({**best.guesses, direction: hop}, rounds=2)
                out += [pair] if pair else []
    return out


def _candidates(together: Together, ordered: Sequence[Pair]) -> list[Pair]:
    """The nearest pairs, and for each direction the nearest pair in which the load did not fill the
    link of this direction.

    The rate of flows that do not fill the link depends on the delay of ACKs. A single simulation of
    such a pair is therefore often far from the measurement by chance.
    """
    out = [pair for pair in ordered if pair.distance <= ordered[0].distance + CLOSE][:MOST]
    for direction in DIRECTIONS:
        never = next(
            (pair for pair in ordered if not pair.filled(direction, together.seen[direction])), None
        )
        out += [never] if never is not None and never not in out else []
    return out


def _precise(together: Together, pair: Pair, doubts: Doubts) -> Doubts:
    """The comparison with `REPLAYS` simulations of a pair. If the pair does not explain the
    measurement or the budget does not suffice, it is the previous comparison.
    """
    each = sum(packets(guess, together.plan.load_s) for guess in pair.guesses.values())
    if any(of.misfit for of in doubts.values()) or not together.budget.leaves(REPLAYS * each):
        return doubts
    plays = [together.play(pair.guesses, seed=together.seed + 201 + n) for n in range(REPLAYS)]
    known = [shown for shown in plays if shown is not None]
    if len(known) < REPLAYS:
        return doubts
    return {direction: _doubt(together, known, pair, direction) for direction in DIRECTIONS}


def _doubt(together: Together, plays: Sequence[Shown], pair: Pair, direction: Direction) -> Doubt:
    of = doubt(
        together.seen[direction], [shown[direction] for shown in plays], pair.guesses[direction]
    )
    assert of is not None
    return of


def _starts(seen: Mapping[Direction, Features]) -> list[Guesses]:
    """The pairs from which the search starts.

    There is one pair for each queue discipline, with this discipline in both directions. In other
    pairs, the link of one direction is never full, because its ACKs wait in the queue of the other
    direction. This link may be much faster than the measured rate.
    """
    most = max(s.rate_mbit for s in seen.values())
    out: list[Guesses] = []
    for kind in KINDS:
        # The peak delay of pings is the sum of the delays of both queues.
        firsts = {direction: first(sign, kind) for direction, sign in seen.items()}
        out.append(
            {
                direction: replace(guess, depth_bytes=guess.depth_bytes / 2)
                for direction, guess in firsts.items()
            }
        )
    for direction in DIRECTIONS:
        if seen[direction].rate_mbit < UNEQUAL * most:
            continue
        fast = first(seen[direction])
        fast = replace(fast, rate_mbit=MUCH * fast.rate_mbit)
        out += [
            {**{w: first(s, kind) for w, s in seen.items()}, direction: fast} for kind in BEHIND
        ]
    if any(s.again and s.again * s.packets >= FEW for s in seen.values()):
        # Random loss may have kept the flows slow.
        out += [
            {direction: first(sign, kind, lossy=True) for direction, sign in seen.items()}
            for kind in BEHIND
        ]
    return out


def _full(
    together: Together, best: Pair, sure_of: Doubt, direction: Direction, likely: Sequence[Pair]
) -> bool:
    """Whether the link was full in all likely pairs and the flows on a faster link would have a
    higher rate.
    """
    if not all(pair.filled(direction, together.seen[direction]) for pair in likely):
        return False
    guess = best.guesses[direction]
    faster = replace(guess, rate_mbit=guess.rate_mbit * FASTER, link_mbit=guess.link_mbit * FASTER)
    shown = together.play({**best.guesses, direction: faster})
    now = together.seen[direction].rate_mbit / sure_of.ratio
    return shown is not None and math.log(shown[direction].rate_mbit / now) > FOLLOWS * math.log(
        FASTER
    )
