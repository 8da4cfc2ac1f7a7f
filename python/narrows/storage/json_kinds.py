"""Checks the kinds of values in JSON from untrusted sources.

A reader declares the kind of each key that it uses. `check` rejects a value of another kind with a
message that contains the place of the value. Keys that are not declared may have any value. Null
means that a value was not measured; only required keys need a value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from narrows.errors import NarrowsError

Kind = Callable[[object, str], None]
"""A function that raises a `KindError` unless the value is of this kind; the second argument is the
place of the value in the document."""

MOST = 2**63
"""The amount of each number must be smaller, so that it fits into a float and into 64-bit
integers."""


class KindError(NarrowsError):
    """A value is not of its kind."""

    def __init__(self, place: str, needed: str) -> None:
        """The place of the value, and the kind that is needed there."""
        super().__init__(f"{place}: {needed}" if place else needed)


def check(value: object, kind: Kind, name: str) -> None:
    """Raises an error if a value of a document is not of its kind.

    >>> check({"host": 7}, table({"host": text}), "a.json")
    Traceback (most recent call last):
    ...
    narrows.errors.NarrowsError: a.json: host: a text is needed

    Raises:
        NarrowsError: If a value is not of its kind, with the name of the file, the place and the
            kind that is needed.
    """
    try:
        kind(value, "")
    except KindError as error:
        raise NarrowsError(f"{name}: {error}") from None


def number(value: Any, place: str) -> None:  # noqa: ANN401 - any JSON value
    """Raises a `KindError` unless the value is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MOST:
        raise KindError(place, "a number is needed")


def amount(value: Any, place: str) -> None:  # noqa: ANN401 - any JSON value
    """Raises a `KindError` unless the value is a number of at least 0, such as a rate."""
    number(value, place)
    if value < 0:
        raise KindError(place, "a number that is not below zero is needed")


def whole(value: object, place: str) -> None:
    """Raises a `KindError` unless the value is a whole number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MOST:
        raise KindError(place, "a whole number that is not below zero is needed")


def text(value: object, place: str) -> None:
    """Raises a `KindError` unless the value is a text."""
    if not isinstance(value, str):
        raise KindError(place, "a text is needed")


def flag(value: object, place: str) -> None:
    """Raises a `KindError` unless the value is true or false."""
    if not isinstance(value, bool):
        raise KindError(place, "true or false is needed")


def word(*words: str) -> Kind:
    """A kind: one of these texts."""

    def kind(value: object, place: str) -> None:
        if value not in words:
            raise KindError(place, f"one of {', '.join(words)} is needed")

    return kind


def either(*kinds: Kind) -> Kind:
    """A value of any of several kinds; an error names the first kind as the one that is needed."""

    def kind(value: object, place: str) -> None:
        for one in kinds[1:]:
            try:
                one(value, place)
            except KindError:
                continue
            return
        kinds[0](value, place)

    return kind


def rows(of: Kind, *, least: int = 0) -> Kind:
    """A list of at least `least` values of a kind."""

    def kind(value: object, place: str) -> None:
        if not isinstance(value, list):
            raise KindError(place, "a list is needed")
        if len(value) < least:
            raise KindError(place, f"a list with at least {least} values is needed")
        for at, one in enumerate(value):
            of(one, f"{place}[{at}]")

    return kind


def table(
    keys: Mapping[str, Kind], *, required: Collection[str] = (), others: Kind | None = None
) -> Kind:
    """An object. Each value must have the kind in `keys` or, for other keys, the kind `others`.
    Values of `required` keys must not be null.
    """

    def kind(value: object, place: str) -> None:
        if not isinstance(value, dict):
            raise KindError(place, "an object is needed")
        for name in required:
            if value.get(name) is None:
                keys[name](None, f"{place}.{name}" if place else name)
        for name, inner in value.items():
            of = keys.get(name, others)
            if of is not None and inner is not None:
                of(inner, f"{place}.{name}" if place else name)

    return kind


def parse(content: str | bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Parses JSON of an untrusted file. Numbers that are not finite and integers of more than 300
    digits become None, as if not measured.

    >>> parse("[1e999, NaN, 1]")
    [None, None, 1]

    Raises:
        ValueError: If it is not JSON, or nested too deeply to be read.
    """
    try:
        return json.loads(
            content, parse_float=_finite, parse_int=_whole, parse_constant=lambda _name: None
        )
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _finite(digits: str) -> float | None:
    value = float(digits)
    return value if math.isfinite(value) else None


def _whole(digits: str) -> int | None:
    # The largest float is 1.8e308.
    return int(digits) if len(digits) <= 300 else None  # noqa: PLR2004
