"""Inference about means of autocorrelated series: standard errors, quantiles of Student's t, and
significance of several tests at once.

Consecutive values of one load are correlated: the window of a congestion control rises for seconds.
The variance of the values, divided by their number, is therefore far too small as variance of their
mean. The standard error here is the equal-weighted cosine estimator of Lazarus, Lewis, Stock and
Watson ("HAR Inference", Journal of Business and Economic Statistics 36, 2018). It projects the
series on the B cosines of lowest frequency, B = 0.4 n^(2/3). The mean square of these projections
estimates the spectrum at frequency zero. The difference between the mean and its true value,
divided by the standard error, has Student's t distribution with B degrees of freedom. A short or
slowly varying series therefore has a wide interval.

Deviation: B is at least three, because with B = 2 the tails of Student's t are too long for any
verdict on ten seconds. A series of three values has B = 2. If this formula for B yields less than
three, the standard error is estimated with each number of cosines from that B to three. The largest
estimate is used. If this formula for B yields one, as it does for fewer than eight values, two
degrees of freedom are used instead of three.

Holm's step-down procedure (Scandinavian J. Statistics 6, 1979) covers several metrics: the
probability of any false verdict among them is at most the given level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

LEVEL = 0.95
"""Level of every confidence interval over runs."""

_FRACTION_STEPS = 1000
_TINY = 1e-300
_BISECTIONS = 80


@dataclass(frozen=True)
class Estimate:
    """The uncertainty of a mean.

    Attributes:
        error: Standard error of the mean.
        freedom: Degrees of freedom of the standard error.
    """

    error: float
    freedom: float


@dataclass(frozen=True)
class Interval:
    """The mean of a metric over independent runs, and its 95 % confidence interval.

    Attributes:
        mean: Mean.
        low: Lower end of the interval; None for a single run.
        high: Upper end of the interval; None for a single run.
        sd: Standard deviation of the values; None for a single run.
        runs: Number of values.
    """

    mean: float
    low: float | None
    high: float | None
    sd: float | None
    runs: int

    def half(self) -> float | None:
        """Half of the width of the interval; None for a single run.

        >>> of_mean([1.0, 3.0, 2.0, 2.0]).half()
        1.299...
        """
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def of_series(values: Sequence[float]) -> Estimate:
    """The uncertainty of the mean of three or more consecutive values, which may be correlated.

    >>> of_series([1.0, 1.0, 1.0, 1.0]).error
    0.0
    >>> of_series([float(i % 2) for i in range(100)]).freedom
    9
    """
    n = len(values)
    usual = round(0.4 * n ** (2 / 3))
    most = min(n - 1, max(3, usual))
    mean = math.fsum(values) / n
    # Rounding errors must not give a constant series a variance.
    centred = [v - mean if abs(v - mean) > 1e-12 * abs(mean) else 0.0 for v in values]
    squares = []
    for j in range(1, most + 1):
        projection = math.fsum(
            v * math.cos(math.pi * j * (i + 0.5) / n) for i, v in enumerate(centred)
        )
        squares.append(2 / n * projection**2)
    counts = range(min(usual, most), most + 1)
    largest = max(math.fsum(squares[:count]) / count for count in counts)
    return Estimate(math.sqrt(largest / n), most if usual > 1 else min(most, 2))


def of_independent(values: Sequence[float]) -> Estimate:
    """The uncertainty of the mean of two or more independent values.

    >>> of_independent([1.0, 3.0])
    Estimate(error=1.0, freedom=1)
    """
    n = len(values)
    mean = math.fsum(values) / n
    return Estimate(math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1) / n), n - 1)


def of_mean(values: Sequence[float], most: float | None = None, least: float = 0.0) -> Interval:
    """The mean of one or more independent values with its 95 % confidence interval.

    The interval is cut at `least` and `most`, the smallest and largest possible value of the
    metric.

    >>> of_mean([1.0, 3.0])
    Interval(mean=2.0, low=0.0, high=14.706..., sd=1.414..., runs=2)
    >>> of_mean([2.0])
    Interval(mean=2.0, low=None, high=None, sd=None, runs=1)
    """
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return Interval(mean, None, None, None, n)
    estimate = of_independent(values)
    half = half_width(LEVEL, estimate)
    high = mean + half if most is None else min(most, mean + half)
    return Interval(mean, max(least, mean - half), high, estimate.error * math.sqrt(n), n)


def of_sum(parts: Sequence[tuple[float, Estimate]]) -> Estimate:
    """The uncertainty of a weighted sum of independent means (Welch and Satterthwaite).

    >>> of_sum([(1.0, Estimate(1.0, 4)), (-1.0, Estimate(1.0, 4))]).freedom
    8.0
    """
    variances = [(weight * part.error) ** 2 for weight, part in parts]
    total = math.fsum(variances)
    quarters = math.fsum(v**2 / part.freedom for v, (_, part) in zip(variances, parts, strict=True))
    freedom = total**2 / quarters if quarters > 0 else min(part.freedom for _, part in parts)
    return Estimate(math.sqrt(total), freedom)


def p_value(distance: float, estimate: Estimate) -> float:
    """The two-sided p-value: the probability that an estimate with this uncertainty is at least
    `distance` away from zero if the true value is zero.

    >>> round(p_value(2.776, Estimate(1.0, 4)), 3), p_value(1.0, Estimate(0.0, 4)), p_value(0.0,
    ...     Estimate(0.0, 4))
    (0.05, 0.0, 1.0)
    """
    if distance <= 0:
        return 1.0
    if estimate.error <= 0:
        return 0.0
    t = distance / estimate.error
    return _beta(estimate.freedom / 2, 0.5, estimate.freedom / (estimate.freedom + t * t))


@cache
def student(level: float, freedom: float) -> float:
    """Two-sided quantile of Student's t: the half-width, in standard errors, of the interval around
    zero that has the probability `level`.

    >>> [round(student(0.95, freedom), 2) for freedom in (1, 4, 30)], round(student(0.9, 12), 2)
    ([12.71, 2.78, 2.04], 1.78)
    """
    unit = Estimate(1.0, freedom)
    low, high = 0.0, 1.0
    while p_value(high, unit) > 1 - level and high < 1e12:  # noqa: PLR2004
        high *= 2
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(middle, unit) > 1 - level else (low, middle)
    return high


def half_width(level: float, estimate: Estimate) -> float:
    """Half of the width of the confidence interval of this level.

    >>> round(half_width(0.95, Estimate(1.0, 4)), 3)
    2.776
    """
    return student(level, estimate.freedom) * estimate.error if estimate.error > 0 else 0.0


def holm(p_values: Sequence[float], alpha: float) -> list[tuple[bool, float]]:
    """For each p-value, whether it is significant by Holm's procedure, and the level below which it
    had to be.

    >>> holm([0.04, 0.001, 0.003], 0.01)
    [(False, 0.01), (True, 0.0033333333333333335), (True, 0.005)]
    """
    out = [(False, alpha)] * len(p_values)
    stopped_at: float | None = None
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        level = stopped_at or alpha / (len(p_values) - rank)
        passed = stopped_at is None and p_values[at] < level
        if not passed:
            # Less significant tests fail, too, at the level at which the first one failed.
            stopped_at = level
        out[at] = (passed, level)
    return out


def _beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b), by its continued fraction (DLMF
    8.17.22).
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of `_beta`, evaluated by Lentz's method."""
    c, d = 1.0, 1 / ((1 - (a + b) * x / (a + 1)) or _TINY)
    value = d
    for m in range(1, _FRACTION_STEPS):
        for term in (
            m * (b - m) * x / ((a - 1 + 2 * m) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 1 + 2 * m)),
        ):
            d = 1 / ((1 + term * d) or _TINY)
            c = (1 + term / c) or _TINY
            value *= c * d
        if abs(c * d - 1) < 1e-14:  # noqa: PLR2004 - the precision of a float
            break
    return value
