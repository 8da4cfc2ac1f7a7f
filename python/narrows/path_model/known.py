"""A value with its interval, built so that the value cannot lie outside.

A quantity of the path model has a value with an interval, of which an end may be open, only an
interval, or neither. `why` is the reason for a missing value or an open end. Numbers that are not
finite count as unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict

from narrows.measure.result import short


class KnownJson(TypedDict):
    """A value with its interval; None stands for an unknown value or an open end, and `why` is the
    reason for it.
    """

    value: float | None
    low: float | None
    high: float | None
    why: str


@dataclass(frozen=True)
class Known:
    """A value and its interval; the interval always contains the value.

    If the value is outside the interval, the nearer end is moved to the value.

    >>> Known(19.26, 19.43, 28.09).low
    19.26

    Attributes:
        value: The most likely value, or None if unknown.
        low: The lower end of the interval; None if it is open.
        high: The upper end of the interval; None if it is open.
        why: Reason for an unknown value or an open end.
        unit: The scale to which the calibrated errors are proportional.
        grain: The resolution of the measurement, in the unit of the value, which is added to the
            scale of the errors with a calibrated weight.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    why: str = ""
    unit: float = 0.0
    grain: float = 0.0

    def __post_init__(self) -> None:
        """Replaces numbers that are not finite by None, and widens the interval until it contains
        the value.
        """
        value, low, high = (
            v if v is not None and math.isfinite(v) else None
            for v in (self.value, self.low, self.high)
        )
        if low is not None and high is not None and low > high:
            low, high = high, low
        if value is not None:
            low = low if low is None else min(low, value)
            high = high if high is None else max(high, value)
        for name, number in (("value", value), ("low", low), ("high", high)):
            object.__setattr__(self, name, number)

    def holds(self, true: float) -> bool:
        """Whether the interval contains this value; an open end is no limit.

        >>> Known(None, 3.0).holds(4.0), Known(None, 3.0).holds(2.0)
        (True, False)
        """
        return (self.low is None or self.low <= true) and (self.high is None or true <= self.high)

    def json(self) -> KnownJson:
        """The value and the interval as a JSON object."""
        return {
            "value": short(self.value),
            "low": short(self.low),
            "high": short(self.high),
            "why": self.why,
        }
