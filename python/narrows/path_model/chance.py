"""How much a path may lose by chance: the losses with which it would have shown the same.

Flows that fill a buffer lose packets there, and hide what chance takes beside them. So each loss
that is tried is held while the rest of the hop is moved until it shows what was measured. It is
played several times, and possible where these plays look not much less like the measurement than
like each other.

A measurement with one flow tells more: alone it does not fill a path that loses. Of 90 drop-tail
paths drawn at random, half of which lose 0.05 to 1 %, eight flows for 8 s left losses up to 13
times the true ones open, in the median; with one flow for 20 s beside that it was 1.8 times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from statistics import fmean

from narrows.path_model.features import Signs
from narrows.path_model.fit import Fitted, Guess, Setting, distance, nearer

PLAYS, MOVES = 4, 2
"""Of each loss, with different chance; and so often the rest of the hop is moved before."""

TIMES, BEYOND = 1.6, 0.2
"""A loss is possible whose plays are so many times as far from the measurement as from each other,
and so much more.
"""

ALMOST = 0.5
"""No loss is the simplest explanation: another one must look so much more alike, in units of what
chance does.
"""

MORE, LEAST = 1.4, 1e-4
"""Of what was sent again: chance may have taken fewer than it does in the mean. And losses that are
as good as none.
"""

Seen = tuple[Signs, Setting]


@dataclass(frozen=True)
class Chance:
    """Losses that are possible, shares of packets, and the hop with the likeliest.

    Attributes:
        low: The least loss that is possible.
        high: The most.
        guess: The hop with the loss that looks most alike.
        without: The hop without any random loss is possible, and looks as much alike as any.
    """

    low: float
    high: float
    guess: Guess
    without: bool


@dataclass(frozen=True)
class _Held:
    """A loss that was tried: of each load how far its plays are from the measurement, and from each
    other.
    """

    guess: Guess
    apart: tuple[tuple[float, float], ...]

    @property
    def unlike(self) -> float:
        """In units of what chance does."""
        return sum(off / (chance + BEYOND) for off, chance in self.apart)

    def possible(self, chance: float) -> bool:
        """Given what chance does to the first load of the likeliest hop: where flows starve, it
        does anything.
        """
        (first, _), *others = self.apart
        return first <= TIMES * chance + BEYOND and all(
            off <= TIMES * own + BEYOND for off, own in others
        )


def losses(seen: Sequence[Seen], likely: Guess) -> Chance:
    """What may be lost by chance, given all loads that were seen; the first one says what else the
    hop is like.
    """
    most = MORE * max(signs.again or 0.0 for signs, _ in seen)
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
    """From the possible ones to the next that are not; around the likeliest where none is."""
    order = sorted(tried)
    at = [n for n, loss in enumerate(order) if tried[loss].possible(_chance(tried))]
    at = at or [min(range(len(order)), key=lambda n: tried[order[n]].unlike)]
    first, last = at[0], at[-1]
    return order[first - 1] if first else 0.0, order[min(last + 1, len(order) - 1)]


def _chance(tried: dict[float, _Held]) -> float:
    """What it does to the first load of the likeliest hop."""
    return min(held.apart[0] for held in tried.values())[1]


def _ends(tried: dict[float, _Held]) -> list[float]:
    """Between each end of the possible ones and the next that is not."""
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
    """The hop with this loss that shows the first load best, and how unlike all of them it
    looks.
    """
    signs, setting = seen[0]
    best: Fitted | None = None
    guess = replace(guess, loss=loss)
    for _ in range(MOVES):
        shown = setting.play(guess)
        if shown is None:
            break
        fitted = Fitted(guess, shown, distance(signs, shown, guess))
        if best is None or fitted.distance < best.distance:
            best = fitted
        guess = replace(nearer(fitted, signs), loss=loss)
    hop = guess if best is None else best.guess
    return _Held(hop, tuple(_apart(signs, setting, hop) for signs, setting in seen))


def _apart(signs: Signs, setting: Setting, guess: Guess) -> tuple[float, float]:
    """How far several plays are from what was measured, and from each other."""
    plays = [setting.play(guess, seed=setting.seed + 1 + more) for more in range(PLAYS)]
    known = [shown for shown in plays if shown is not None]
    if len(known) < PLAYS:
        return float("inf"), 0.0
    apart = fmean(distance(a, b, guess) for a, b in permutations(known, 2))
    return fmean(distance(signs, shown, guess) for shown in known), apart
