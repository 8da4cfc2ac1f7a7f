"""Reduces a scenario that has a problem to the smallest one that still has it.

Algorithm: keys, tables and flows are removed, the largest first, so that their defaults apply. Then
the values of the searched keys are replaced by rounder ones, in their ranges. Both steps repeat
until neither changes the scenario. A change is kept if the problem remains with every seed.

Congestion controls and transports of flows, and the flow that `--flow` names, are never removed,
because they are the subject of the search. The result is a local minimum: no single further removal
keeps the problem. Source of this criterion: Zeller and Hildebrandt, "Simplifying and Isolating
Failure-Inducing Input", IEEE Transactions on Software Engineering 28, 2002 (1-minimality).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from narrows.sweeps import keys
from narrows.sweeps.design import Range
from narrows.worst_case.space import number_of, value_of

if TYPE_CHECKING:
    from narrows.json_object import JsonObject
    from narrows.worst_case.space import Space

Place = tuple[str | int, ...]
"""The place of a value in nested tables: keys, and indices of lists."""

Holds = Callable[["Sequence[JsonObject]"], "list[bool]"]
"""Returns for each scenario whether it still has the problem."""

_SUBJECT = ("cc", "transport")
_MANTISSAS = (1.0, 2.0, 5.0)
_DIGITS = (1, 2)


@dataclass(frozen=True)
class Shrunk:
    """A scenario as changes of another one: removed places, and values of searched keys."""

    base: JsonObject
    removed: frozenset[Place] = frozenset()
    values: Mapping[str, Any] = field(default_factory=dict)

    def tree(self) -> JsonObject:
        """The scenario as nested tables."""
        changed: JsonObject = _copy(self.base)
        for key, value in self.values.items():
            keys.put(changed, key, value)
        kept: JsonObject = _without(changed, self.removed, ()) or {}
        return kept


def count(tree: object) -> int:
    """The number of keys in nested tables that have a value.

    >>> count({"path": {"rate": "1Mbit"}, "flow": [{"cc": "bbr"}, {"cc": "bbr"}]})
    3
    """
    if isinstance(tree, Mapping):
        return sum(map(count, tree.values()))
    if isinstance(tree, list) and any(isinstance(one, Mapping) for one in tree):
        return sum(map(count, tree))
    return 1


def shrink(
    base: JsonObject,
    space: Space,
    values: Mapping[str, Any],
    holds: Holds,
    *,
    kept_flow: int | None = None,
) -> JsonObject:
    """The smallest scenario.

    Args:
        base: The scenario without the values that the search found.
        space: The keys that vary.
        values: Their values.
        holds: See `Holds`; it is true for the unchanged scenario.
        kept_flow: The number of the `[[flow]]` that is never removed.
    """
    now = Shrunk(base, values=dict(values))
    while True:
        before = now
        now = _removed(now, holds, kept_flow)
        now = _rounded(now, space, holds)
        if now == before:
            return now.tree()


def _removed(now: Shrunk, holds: Holds, kept_flow: int | None) -> Shrunk:
    """Removes places that the problem does not need."""
    places = [
        place
        for place in _places(Shrunk(now.base, values=now.values).tree(), ())
        if not _inside(place, now.removed) and not _subject(place, kept_flow)
    ]
    tree = now.tree()
    size = {place: count(tree) - count(_less(now, place).tree()) for place in places}
    places = sorted((place for place in places if size[place] > 0), key=lambda p: -size[p])
    return _reduced(now, [partial(_less, place=place) for place in places], holds)


def _rounded(now: Shrunk, space: Space, holds: Holds) -> Shrunk:
    """Rounds the values of ranges; of each value, the roundest that keeps the problem."""
    ranges = [of for of in space.axes if isinstance(of, Range)]
    for of in ranges:
        shown = now.tree()
        others = [
            changed
            for value in rounder(of, now.values[of.key])
            if (changed := replace(now, values={**now.values, of.key: value})).tree() != shown
        ]
        for changed, held in zip(others, holds([one.tree() for one in others]), strict=True):
            if held:
                now = changed
                break
    return now


def rounder(of: Range, value: Any) -> list[Any]:  # noqa: ANN401 - a value of a scenario
    """The rounder values near a value of a range, the roundest first.

    >>> from narrows.worst_case.space import axis
    >>> rounder(axis("path.rtt=5ms:200ms"), "37.3ms")
    ['100ms', '10ms', '50ms', '20ms', '40ms', '37ms']
    >>> rounder(axis("path.rtt=5ms:200ms"), "50ms")
    ['100ms', '10ms']
    """
    number = number_of(value)
    if number <= 0:
        return []
    power = 10.0 ** math.floor(math.log10(number))
    steps = [m * p for p in (power, 10 * power) for m in _MANTISSAS]
    by_digits = [float(f"{number:.{digits}g}") for digits in _DIGITS]
    found: list[Any] = []
    for group in (
        [power, 10 * power],
        [max(s for s in steps if s <= number * (1 + 1e-9)), min(s for s in steps if s >= number)],
        *([one] for one in by_digits),
    ):
        near = sorted(group, key=lambda one: (abs(math.log(one / number)), one))
        if any(math.isclose(one, number) for one in near):
            break  # The value itself is as round as this group.
        found += [v for one in near if of.low <= one <= of.high and (v := value_of(of, one, 3))]
    return list(dict.fromkeys(found))


def _reduced(now: Shrunk, changes: Sequence[Callable[[Shrunk], Shrunk]], holds: Holds) -> Shrunk:
    """Makes as many changes as possible: first each alone, then all that are possible together, and
    otherwise one after another.
    """
    alone = holds([change(now).tree() for change in changes])
    possible = [change for change, held in zip(changes, alone, strict=True) if held]
    if not possible:
        return now
    together = now
    for change in possible:
        together = change(together)
    if holds([together.tree()]) == [True]:
        return together
    for change in possible:
        changed = change(now)
        if changed.tree() != now.tree() and holds([changed.tree()]) == [True]:
            now = changed
    return now


def _less(now: Shrunk, place: Place) -> Shrunk:
    return replace(now, removed=now.removed | {place})


def _places(tree: object, here: Place) -> Iterator[Place]:
    """All places of nested tables and of lists of tables."""
    if isinstance(tree, Mapping):
        inside: Iterator[tuple[str | int, Any]] = iter(tree.items())
    elif isinstance(tree, list) and any(isinstance(one, Mapping) for one in tree):
        inside = enumerate(tree)
    else:
        return
    for key, value in inside:
        yield (*here, key)
        yield from _places(value, (*here, key))


def _inside(place: Place, removed: frozenset[Place]) -> bool:
    return any(place[:length] in removed for length in range(1, len(place) + 1))


def _subject(place: Place, kept_flow: int | None) -> bool:
    if place[0] != "flow":
        return False
    if len(place) == 1:
        return kept_flow is not None
    if len(place) == 2:  # noqa: PLR2004 - a whole flow
        return place[1] == kept_flow
    return place[2] in _SUBJECT and (len(place) == 3 or place[3] == "kind")  # noqa: PLR2004


def _copy(tree: Any) -> Any:  # noqa: ANN401 - nested tables
    if isinstance(tree, Mapping):
        return {key: _copy(value) for key, value in tree.items()}
    return [_copy(one) for one in tree] if isinstance(tree, list) else tree


def _without(tree: Any, removed: frozenset[Place], here: Place) -> Any:  # noqa: ANN401
    """Nested tables without the removed places; None if nothing is left. A choice whose parameters
    are removed becomes its name.
    """
    if isinstance(tree, Mapping):
        kept = {
            key: left
            for key, value in tree.items()
            if (*here, key) not in removed
            and (left := _without(value, removed, (*here, key))) is not None
        }
        if list(kept) == ["kind"] and isinstance(kept["kind"], str) and isinstance(here[-1], str):
            return kept["kind"]
        return kept or None
    if isinstance(tree, list) and any(isinstance(one, Mapping) for one in tree):
        parts = [
            left
            for number, value in enumerate(tree)
            if (*here, number) not in removed
            and (left := _without(value, removed, (*here, number))) is not None
        ]
        return parts or None
    return tree
