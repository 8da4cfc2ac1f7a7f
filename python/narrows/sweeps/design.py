"""The cases of a sweep: every combination of the values (grid), listed cases (list), or a sample
(random, Latin hypercube).

A design computes each case from its number. Except for lists, no case is stored, so that a million
cases need little memory. A Latin hypercube divides each range into as many equal strata as there
are cases, and uses each stratum of each range once. The source is McKay, Beckman & Conover,
Technometrics 21, 1979. A Latin hypercube stores a permutation of the cases for each key.
"""

from __future__ import annotations

import math
import random
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from narrows.errors import NarrowsError
from narrows.json_object import JsonObject
from narrows.sweeps.keys import steps

KINDS = ("grid", "random", "latin_hypercube", "list")
"""The names of the designs in a sweep file."""

_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)\s*([^\s0-9.][^\s]*)?\s*")
_DIGITS = 6
_MOST = 10**8

Values = Sequence[Any] | Mapping[str, Any]
"""Values of a key: a list, or a range `{"from": "1ms", "to": "200ms", "scale": "log", "steps": 8}`.
"""


@dataclass(frozen=True)
class Range:
    """A range of values of a key, from `low` to `high`, in one unit."""

    key: str
    low: float
    high: float
    unit: str
    log: bool
    whole: bool
    steps: int | None

    def at(self, share: float) -> Any:  # noqa: ANN401
        """The value at this share (0 to 1) of the range, on its scale: linear or logarithmic.

        >>> Range("path.rtt", 1, 100, "ms", True, False, None).at(0.5)
        '10ms'
        """
        if self.log:
            value = math.exp(
                math.log(self.low) + share * (math.log(self.high) - math.log(self.low))
            )
        else:
            value = self.low + share * (self.high - self.low)
        if self.whole:
            return round(value)
        rounded = float(f"{value:.{_DIGITS}g}")
        return f"{rounded:.{_DIGITS}g}{self.unit}" if self.unit else rounded


def range_of(key: str, given: Mapping[str, Any]) -> Range:
    """The range that a table in a sweep file describes. One error reports all mistakes in it.

    Raises:
        NarrowsError: If the table is not a valid range.
    """
    wrong = [
        f"`{key}`: a range has no `{name}`; it has from, to, scale and steps"
        for name in sorted(set(given) - {"from", "to", "scale", "steps"})
    ]
    ends: list[tuple[float, str]] = []
    if {"from", "to"} <= set(given):
        for end in ("from", "to"):
            try:
                ends.append(_number(key, given[end]))
            except NarrowsError as error:
                wrong.append(str(error))
    else:
        wrong.append(f'`{key}`: a range needs both ends: {{ from = "1ms", to = "200ms" }}')
    scale, number = given.get("scale", "linear"), given.get("steps")
    if scale not in {"linear", "log"}:
        wrong.append(f'`{key}`: there is no scale `{scale}`; write scale = "log" or "linear"')
    if len(ends) == 2:  # noqa: PLR2004 - both ends
        (low, unit), (high, other) = ends
        if unit != other:
            wrong.append(
                f"`{key}`: from is in `{unit or 'nothing'}` and to in `{other or 'nothing'}`; use "
                "one unit"
            )
        elif not low < high:
            wrong.append(f"`{key}`: from has to be less than to")
        if scale == "log" and low <= 0:
            wrong.append(f"`{key}`: a logarithmic range begins above 0")
    if number is not None and not (isinstance(number, int) and 1 < number <= _MOST):
        wrong.append(f"`{key}`: steps is a whole number from 2")
    if wrong:
        raise NarrowsError("\n".join(wrong))
    whole = all(isinstance(given[end], int) for end in ("from", "to"))
    return Range(key, low, high, unit, scale == "log", whole, number)


def _number(key: str, value: object) -> tuple[float, str]:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value), ""
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise NarrowsError(
            f'`{key}`: {value!r} is not a limit of a range; write a number with its unit, "40ms"'
        )
    return float(match[1]), match[2] or ""


def _tried(key: str, values: object) -> list[Any]:
    """The values of a key that can be checked: all values of a list, or both ends of a range."""
    if isinstance(values, Mapping):
        ends = [values[end] for end in ("from", "to") if end in values]
        with suppress(NarrowsError):
            for end in ends:
                _number(key, end)
            return ends
        return []
    return list(values) if isinstance(values, Sequence) and not isinstance(values, str) else []


@contextmanager
def _noted(wrong: dict[str, None]) -> Iterator[None]:
    """Collects the error that the block raises, so that all mistakes are reported together."""
    try:
        yield
    except NarrowsError as error:
        wrong[str(error)] = None


class Design:
    """The cases of a sweep, by number from 0.

    >>> grid = Design("grid", {"path.rate": ["1Mbit", "9Mbit"], "path.rtt": {"from": "1ms",
    ...     "to": "3ms", "steps": 3}})
    >>> len(grid), grid[1]
    (6, {'path.rate': '1Mbit', 'path.rtt': '2ms'})
    """

    def __init__(
        self,
        kind: str,
        axes: Mapping[str, Values] | Sequence[Mapping[str, Any]],
        *,
        cases: int | None = None,
        seed: int = 1,
    ) -> None:
        """A design with these keys and values. `cases` and `seed` are for samples only: the number
        of cases, and the seed of the random choice.

        Raises:
            NarrowsError: If the design is not valid.
        """
        if kind not in KINDS:
            raise NarrowsError(f"there is no design `{kind}`; there are {', '.join(KINDS)}")
        self.kind, self._seed = kind, seed
        self._orders: dict[str, array[int]] = {}
        self._last: tuple[int, JsonObject] = (-1, {})
        self._rows: list[JsonObject] = []
        if isinstance(axes, Mapping) == (kind == "list"):
            raise NarrowsError(
                'design = "list" needs a list of cases; every other design needs keys with their '
                "values"
            )
        wrong: dict[str, None] = {}  # Every mistake, once, in order.
        self._axes: dict[str, list[Any] | Range] = {}
        if not isinstance(axes, Mapping):
            self._rows = [dict(row) for row in axes]
            for key in dict.fromkeys(key for row in self._rows for key in row):
                with _noted(wrong):
                    steps(key)
            self._len = len(self._rows)
        else:
            for key, values in axes.items():
                with _noted(wrong):
                    self._axes[key] = self._axis(key, values)
            if kind == "grid":
                self._len = math.prod(
                    len(values) for values in self._axes.values() if isinstance(values, list)
                )
            elif cases is None or cases < 1:
                wrong[f"a {kind} design needs the number of its cases: cases = 200"] = None
            else:
                self._len = cases
        if kind in {"grid", "list"} and cases is not None:
            wrong[f"a {kind} design has as many cases as it has; `cases` is a sample's"] = None
        if not wrong and not 0 < self._len <= _MOST:
            wrong[f"{self._len} cases: a sweep has from 1 to {_MOST}"] = None
        if wrong:
            raise NarrowsError("\n".join(wrong))

    @classmethod
    def of_right_axes(cls, axes: Any) -> Design | None:  # noqa: ANN401
        """For a design that is not valid: a grid of the values that can still be checked. None if
        there are none.

        >>> wrong = {"path.rate": ["1 apple"], "path.rtt": {"from": "9ms", "to": "1ms"},
        ...     "path rtt": ["1ms"]}
        >>> Design.of_right_axes(wrong).ends()
        [{'path.rate': '1 apple', 'path.rtt': '9ms'}, {'path.rate': '1 apple', 'path.rtt': '1ms'}]
        """
        rows = [axes] if isinstance(axes, Mapping) else axes if isinstance(axes, Sequence) else []
        found: dict[str, list[Any]] = {}
        for row in rows:
            for key, values in row.items() if isinstance(row, Mapping) else ():
                with suppress(NarrowsError):
                    steps(key)
                    found.setdefault(key, []).extend(
                        _tried(key, values) if row is axes else [values]
                    )
        found = {key: values for key, values in found.items() if values}
        return (
            cls("grid", found) if found and math.prod(map(len, found.values())) <= _MOST else None
        )

    @property
    def keys(self) -> list[str]:
        """The keys of the scenario that vary."""
        if self.kind == "list":
            return list(dict.fromkeys(key for row in self._rows for key in row))
        return list(self._axes)

    def _axis(self, key: str, values: Values) -> list[Any] | Range:
        steps(key)
        if not isinstance(values, Mapping):
            # An array of numpy has no truth value.
            listed = isinstance(values, Iterable) and not isinstance(values, str)
            several = list(values) if listed else []
            if not several:
                raise NarrowsError(f"`{key}` needs a list of values, or a range")
            return several
        found = range_of(key, values)
        if self.kind != "grid":
            if found.steps is not None:
                raise NarrowsError(
                    f"`{key}`: only a grid has steps; a {self.kind} design covers the whole range"
                )
            return found
        if found.steps is None:
            raise NarrowsError(f"`{key}`: a range in a grid needs steps, the number of its values")
        return [found.at(i / (found.steps - 1)) for i in range(found.steps)]

    def __len__(self) -> int:
        return self._len

    def __getitem__(self, number: int) -> JsonObject:
        """The keys of a case and their values."""
        if not 0 <= number < self._len:
            raise IndexError(number)
        if self.kind == "list":
            return dict(self._rows[number])
        if self.kind == "grid":
            return self._combination(number)
        last = self._last
        if last[0] != number:  # Callers need each case several times in succession.
            drawn = {key: self._drawn(key, values, number) for key, values in self._axes.items()}
            last = self._last = (number, drawn)
        return dict(last[1])

    def about(self) -> list[Any]:
        """The data that identify the design, as input of a hash."""
        axes = {key: v if isinstance(v, list) else str(v) for key, v in self._axes.items()}
        return [self.kind, axes, self._rows, self._len, self._seed]

    def ends(self) -> list[JsonObject]:
        """A few cases that together contain every value of every list and both ends of every range.
        They are checked before the sweep starts.
        """
        if self.kind == "list":
            return [dict(row) for row in self._rows]
        choices = {
            key: [v.at(0), v.at(1)] if isinstance(v, Range) else v for key, v in self._axes.items()
        }
        most = max(len(values) for values in choices.values())
        return [
            {key: values[min(i, len(values) - 1)] for key, values in choices.items()}
            for i in range(most)
        ]

    def _combination(self, number: int) -> JsonObject:
        """The case with this number of a grid; the last key varies fastest."""
        found = {}
        for key in reversed(self._axes):
            values = self._axes[key]
            assert isinstance(values, list)
            number, nth = divmod(number, len(values))
            found[key] = values[nth]
        return {key: found[key] for key in self._axes}

    def _drawn(self, key: str, values: list[Any] | Range, number: int) -> Any:  # noqa: ANN401
        chance = random.Random(f"{self._seed} {key} {number}").random()
        if self.kind == "latin_hypercube":
            if key not in self._orders:
                order = array("I", range(self._len))
                random.Random(f"{self._seed} {key}").shuffle(order)
                self._orders[key] = order
            chance = (self._orders[key][number] + chance) / self._len
        if isinstance(values, Range):
            return values.at(chance)
        return values[min(int(chance * len(values)), len(values) - 1)]
