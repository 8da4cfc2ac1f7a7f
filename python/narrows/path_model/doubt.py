"""Evaluates how well a guess (a candidate hop) explains a measurement, by simulations of the guess
with other seeds.

The simulations differ from each other by chance alone. If the measurement differs from the
simulations by clearly more than they differ from each other, the guess does not explain the
measurement. The spread of the rates of these simulations is the precision with which such a load
shows the rate of a hop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from statistics import fmean, stdev

from narrows.path_model.features import Features
from narrows.path_model.fit import Guess, distance

PLAYS, REPLAYS = 4, 12
"""Number of simulations of each candidate with other seeds, and number of those of the chosen
candidate. In 10 % of all cases, the standard deviation of four rates is less than 0.44 times the
true one. For twelve rates, this limit is 0.71 times (chi-squared distribution).
"""

TIMES, BEYOND = 2.0, 0.5
"""A guess explains a measurement if its simulations are at most `TIMES` as far from the measurement
as from each other, plus `BEYOND`. `BEYOND` covers differences between real and simulated hosts."""


FLOOR = 0.2
"""Added to the distance between simulations before the distance from the measurement is divided by
it."""


@dataclass(frozen=True)
class Doubt:
    """The distance of a measurement from the simulations of a guess.

    Attributes:
        apart: The mean distance between the measurement and the simulations.
        chance: The mean distance between two simulations.
        ratio: The measured rate over the mean of the simulated rates.
        error: The standard error of the logarithm of `ratio`.
        swing: The mean, over the simulations, of `Features.swing`: the spread of the rate between
            windows. None if the load was too short for it.
        busy: The ratio and its error, as in `ratio` and `error`, for the rate while the queue was
            never empty. None if the measurement or a simulation has no such time.
    """

    apart: float
    chance: float
    ratio: float
    error: float
    swing: float | None = None
    busy: tuple[float, float] | None = None

    @property
    def misfit(self) -> bool:
        """Whether the measurement is farther away than random differences explain."""
        return self.apart > TIMES * self.chance + BEYOND

    @property
    def unlike(self) -> float:
        """The distance in units of random differences."""
        return self.apart / (self.chance + FLOOR)

    @property
    def why(self) -> str:
        """The sentence that reports a misfit, with both distances."""
        return (
            "no path that was tried shows what was measured: the nearest differs by "
            f"{self.apart:.2g}, "
            f"two simulations of it by {self.chance:.2g}"
        )


def doubt(seen: Features, plays: Sequence[Features], guess: Guess) -> Doubt | None:
    """Compares a measurement with simulations of a guess; None for fewer than two simulations."""
    if len(plays) < 2:  # noqa: PLR2004 - a spread needs two
        return None
    swings = [shown.swing for shown in plays if shown.swing is not None]
    busy = [shown.busy_mbit for shown in plays if shown.busy_mbit is not None]
    return Doubt(
        fmean(distance(seen, shown, guess, forgiving=True) for shown in plays),
        fmean(distance(a, b, guess, forgiving=True) for a, b in permutations(plays, 2)),
        *_ratio(seen.rate_mbit, [shown.rate_mbit for shown in plays]),
        fmean(swings) if swings else None,
        _ratio(seen.busy_mbit, busy) if seen.busy_mbit and len(busy) == len(plays) else None,
    )


def _ratio(seen_mbit: float, shown_mbit: Sequence[float]) -> tuple[float, float]:
    """A measured rate over the mean of the simulated rates, and the standard error of the logarithm
    of that ratio.
    """
    rates = [math.log(rate) for rate in shown_mbit]
    return (
        math.exp(math.log(seen_mbit) - fmean(rates)),
        stdev(rates) * math.sqrt(1 + 1 / len(rates)),
    )
