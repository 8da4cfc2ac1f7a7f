"""Infers the interval of random loss with which a path would have shown the measured statistics.

Flows that fill a buffer lose packets there, which hides random loss. The search tries several
probabilities of random loss. It keeps each probability fixed and adjusts the other parameters of
the hop until the simulation shows the measured statistics. It then simulates this hop with several
seeds. The probability is possible if the distance of these simulations from the measurement is not
much larger than their distance from each other.

A measurement with one flow narrows the interval, because one flow alone does not fill a path with
random loss. This was evaluated on 90 random drop-tail paths, half of which lose 0.05 to 1 %. With
eight flows for 8 s, the median upper limit was 13 times the true loss. With an additional load of
one flow for 20 s, it was 1.8 times the true loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from statistics import fmean

from narrows.path_model.features import Features
from narrows.path_model.fit import Fitted, Guess, Setting, distance, nearer

PLAYS, MOVES = 4, 2
"""Number of simulations of each loss probability with different seeds, and number of simulations
before them that adjust the other parameters of the hop."""

TIMES, BEYOND = 1.6, 0.2
"""A loss probability is possible if the distance of its simulations from the measurement is at most
`TIMES` their distance from each other plus `BEYOND`."""

ALMOST = 0.5
"""A hop without random loss counts as equally good if its distance exceeds the least distance by at
most this much per load. The unit is the random difference."""

MORE, LEAST = 1.4, 1e-4
"""Largest loss probability that is tried, divided by the retransmission rate, and lower limit of
the loss probabilities that are tried. The factor exceeds 1 because a measurement may have lost
fewer packets than the mean."""

Seen = tuple[Features, Setting]


@dataclass(frozen=True)
class Chance:
    """The interval of random loss, as shares of packets, and the hop with the most likely loss.

    Attributes:
        low: Lower limit of the possible loss probabilities.
        high: Upper limit of the possible loss probabilities.
        guess: The hop whose loss probability gives the least distance from the measurement; the hop
            without random loss if `without`.
        without: Whether a hop without random loss explains the measurement as well as the best.
    """

    low: float
    high: float
    guess: Guess
    without: bool


@dataclass(frozen=True)
class _Held:
    """A hop with one loss probability. `apart` has for each load the mean distance of its
    simulations from the measurement and their mean distance from each other.
    """

    guess: Guess
    apart: tuple[tuple[float, float], ...]

    @property
    def unlike(self) -> float:
        """The sum over the loads of the distance from the measurement, in units of random
        differences.
        """
        return sum(off / (chance + BEYOND) for off, chance in self.apart)

    def possible(self, chance: float) -> bool:
        """Whether the simulations are near enough to the measurement.

        For the first load, `chance` is the random difference: that of the nearest hop, because
        simulations in which flows starve differ arbitrarily.
        """
        (first, _), *others = self.apart
        return first <= TIMES * chance + BEYOND and all(
            off <= TIMES * own + BEYOND for off, own in others
        )


def losses(seen: Sequence[Seen], likely: Guess) -> Chance:
    """The interval of random loss with which all measured loads are possible.

    The other parameters of the hop are adjusted to the first load.
    """
    most = MORE * max(features_of.again or 0.0 for features_of, _ in seen)
    tried = {0.0: _held(seen, likely, 0.0), likely.loss: _held(seen, likely, likely.loss)}
    loss = most
    while loss >= LEAST:
        tried[loss] = _held(seen, likely, loss)
        loss /= 2
    for beside in _ends(tried):
        tried[beside] = _held(seen, likely, beside)
    low, high = _bounds(tried)
    inside = [held for loss, held in tried.items() if low <= loss <= high]
    best, none = min(inside, key=lambda held: held.unlike), tried[0.0]
    without = none.possible(_chance(tried)) and none.unlike <= best.unlike + ALMOST * len(seen)
    return Chance(low, high, none.guess if without else best.guess, without)


def _bounds(tried: dict[float, _Held]) -> tuple[float, float]:
    """The nearest impossible loss probabilities below and above the possible ones, among those
    tried.

    Without an impossible one, the end is 0 or the largest that was tried. If no loss probability is
    possible, the interval is around the nearest one.
    """
    order = sorted(tried)
    at = [n for n, loss in enumerate(order) if tried[loss].possible(_chance(tried))]
    at = at or [min(range(len(order)), key=lambda n: tried[order[n]].unlike)]
    first, last = at[0], at[-1]
    return order[first - 1] if first else 0.0, order[min(last + 1, len(order) - 1)]


def _chance(tried: dict[float, _Held]) -> float:
    """The mean distance between simulations of the hop that is nearest to the first load."""
    return min(held.apart[0] for held in tried.values())[1]


def _ends(tried: dict[float, _Held]) -> list[float]:
    """The geometric mean of each end of the possible losses and the next tried loss that is not
    possible, where both exceed zero.
    """
    low, high = _bounds(tried)
    order = sorted(tried)
    out: list[float] = []
    if len(order) == 1:
        return out
    for outer, inner in ((low, order[order.index(low) + 1]), (high, order[order.index(high) - 1])):
        if outer > 0 and inner > 0 and not tried[outer].possible(_chance(tried)):
            out.append((outer * inner) ** 0.5)
    return out


def _held(seen: Sequence[Seen], guess: Guess, loss: float) -> _Held:
    """The hop with this loss probability that is nearest to the first load, and its distances for
    all loads.
    """
    features_of, setting = seen[0]
    best: Fitted | None = None
    guess = replace(guess, loss=loss)
    for _ in range(MOVES):
        shown = setting.play(guess)
        if shown is None:
            break
        fitted = Fitted(guess, shown, distance(features_of, shown, guess))
        if best is None or fitted.distance < best.distance:
            best = fitted
        guess = replace(nearer(fitted, features_of), loss=loss)
    hop = guess if best is None else best.guess
    return _Held(hop, tuple(_apart(features_of, setting, hop) for features_of, setting in seen))


def _apart(features_of: Features, setting: Setting, guess: Guess) -> tuple[float, float]:
    """The mean distance of `PLAYS` simulations from the measurement, and their mean distance from
    each other.
    """
    plays = [setting.play(guess, seed=setting.seed + 1 + more) for more in range(PLAYS)]
    known = [shown for shown in plays if shown is not None]
    if len(known) < PLAYS:
        return float("inf"), 0.0
    apart = fmean(distance(a, b, guess) for a, b in permutations(known, 2))
    return fmean(distance(features_of, shown, guess) for shown in known), apart
