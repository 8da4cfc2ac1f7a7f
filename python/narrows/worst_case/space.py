"""The space that the search covers: ranges and lists of values of scenario keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from narrows.errors import NarrowsError
from narrows.json_object import JsonObject
from narrows.sweeps import keys
from narrows.sweeps.design import Range, range_of

WIDE = 10.0
"""Ratio of the ends of a range at and above which its scale is logarithmic."""

_FEW = 64
"""Size of a range of whole numbers below which the search treats them individually."""

_DIGITS = 3
"""Significant digits of values, so that near points are the same scenario."""

_OVER = re.compile(r"([^=]+)=(.*)", re.DOTALL)
_QUANTITY = re.compile(r"([0-9.]+(?:[eE][-+]?[0-9]+)?)([^\s0-9.].*)?")
_NO_NUMBER = re.compile(r"[-+]?(nan|inf|infinity)", re.IGNORECASE)
_WHOLE = re.compile(r"[0-9]+")


@dataclass(frozen=True)
class Listed:
    """A list of values of a key."""

    key: str
    values: tuple[Any, ...]


Axis = Range | Listed
"""A key that varies, with its values."""


def axis(text: str) -> Axis:
    """The axis that a value of `--over` describes.

    >>> axis("path.rtt=5ms:200ms").at(0.5)
    '31.6228ms'
    >>> axis("flow[0].cc=bbr,bbr3").values, axis("flow.count=1:4").at(0.4)
    (('bbr', 'bbr3'), 2)

    Raises:
        NarrowsError: If the text does not describe a range or a list.
    """
    match = _OVER.fullmatch(text)
    if match is None:
        raise NarrowsError(f"--over {text}: has no values; write --over path.rtt=5ms:200ms")
    key, values = match[1].strip(), match[2].strip()
    keys.steps(key)
    low, colon, high = values.partition(":")
    for value in values.replace(":", ",").split(","):
        if _NO_NUMBER.fullmatch(value.strip()):
            raise NarrowsError(
                f"--over {text}: {value.strip()} is not a number; write --over {key}=LOW:HIGH or "
                f"--over {key}=A,B"
            )
    if not colon:
        listed = tuple(_scalar(one.strip()) for one in values.split(","))
        if len(listed) < 2 or len(set(listed)) < len(listed) or "" in listed:  # noqa: PLR2004
            raise NarrowsError(
                f"--over {text}: is neither a range nor a list of different values; write "
                f"--over {key}=LOW:HIGH or --over {key}=A,B"
            )
        return Listed(key, listed)
    ends = [_end(one.strip()) for one in (low, high)]
    if ends[0][1] == ends[1][1] and ends[0][0] >= ends[1][0]:
        raise NarrowsError(
            f"--over {text}: the first value of a range must be below the second; write "
            f"--over {key}=LOW:HIGH"
        )
    wide = all(isinstance(number, float) and number > 0 for number, _ in ends) and (
        ends[1][0] >= WIDE * ends[0][0]
    )
    scale = "log" if wide and ends[0][1] == ends[1][1] else "linear"
    try:
        return range_of(
            key, {"from": _scalar(low.strip()), "to": _scalar(high.strip()), "scale": scale}
        )
    except NarrowsError as error:
        raise NarrowsError(f"--over {text}: {error}") from None


def _end(text: str) -> tuple[float, str]:
    match = _QUANTITY.fullmatch(text)
    try:
        return (float(match[1]), match[2] or "") if match is not None else (0.0, "")
    except ValueError:
        return 0.0, ""


def _scalar(text: str) -> Any:  # noqa: ANN401 - a value of a scenario
    """The value of a scenario: a truth value, a number, or a text.

    >>> _scalar("4"), _scalar("0.5"), _scalar("true"), _scalar("40ms")
    (4, 0.5, True, '40ms')
    """
    if text in {"true", "false"}:
        return text == "true"
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


class Space:
    """The keys that vary, in the order of the options."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        """The space of these keys.

        Raises:
            NarrowsError: If there is no key, or one is named twice.
        """
        self.axes = tuple(axes)
        if not self.axes:
            raise NarrowsError("--over is missing; write --over path.rtt=5ms:200ms")
        names = [one.key for one in self.axes]
        for name in names:
            if names.count(name) > 1:
                raise NarrowsError(f"--over {name}: is given twice; give each key once")
            if name == "seed":
                raise NarrowsError("--over seed: the seed cannot vary here; write --seeds 5")
        self.continuous = [a for a in self.axes if isinstance(a, Range) and not _countable(a)]
        self.whole = [a for a in self.axes if isinstance(a, Range) and _countable(a)]
        self.listed = [a for a in self.axes if isinstance(a, Listed)]

    def numbers(self, of: Range) -> list[float]:
        """The places of all whole numbers of a range, as shares of it in ascending order."""
        found = {of.at(i / 4096): i / 4096 for i in range(4097)}
        return [found[value] for value in sorted(found)]

    def values(
        self, continuous: Sequence[float], whole: Sequence[float], listed: Sequence[int]
    ) -> JsonObject:
        """The values of a point: shares of the ranges, and indices in the lists.

        >>> space = Space([axis("path.rtt=10ms:20ms"), axis("flow[0].cc=bbr,cubic")])
        >>> space.values([0.123456], [], [1])
        {'path.rtt': '11.2ms', 'flow[0].cc': 'cubic'}
        """
        found: JsonObject = {}
        for of, share in zip(self.continuous, continuous, strict=True):
            found[of.key] = value_of(of, number_of(of.at(share)), _DIGITS)
        for of, share in zip(self.whole, whole, strict=True):
            found[of.key] = of.at(share)
        for one, number in zip(self.listed, listed, strict=True):
            found[one.key] = one.values[number]
        return {one.key: found[one.key] for one in self.axes}


def _countable(of: Range) -> bool:
    return of.whole and not of.unit and of.high - of.low < _FEW


def number_of(value: Any) -> float:  # noqa: ANN401 - a value of a scenario
    """The number of a quantity, without its unit.

    >>> number_of("31.6ms"), number_of(4)
    (31.6, 4.0)
    """
    return _end(value)[0] if isinstance(value, str) else float(value)


def value_of(of: Range, number: float, digits: int) -> Any:  # noqa: ANN401 - a value of a scenario
    """A value of a range with some significant digits; at least the lower end and at most the
    upper end.

    >>> value_of(axis("path.rtt=5ms:200ms"), 31.6228, 3), value_of(axis("flow.count=1:9"), 4.2, 1)
    ('31.6ms', 4)
    >>> value_of(axis("path.rtt=5.45ms:200ms"), 5.45, 1)
    '5.45ms'
    """
    inside = min(max(float(f"{number:.{digits}g}"), of.low), of.high)
    if of.whole:
        return round(inside)
    return f"{inside:.12g}{of.unit}" if of.unit else inside
