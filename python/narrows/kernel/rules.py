"""Rules of Linux releases: those of one release, and those in which two releases differ."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from narrows import _core
from narrows.errors import NarrowsError

ADDED, REMOVED = "with_rules", "without_rules"
"""Keys of `[host]` that add rules to a release and remove rules of it."""


@dataclass(frozen=True)
class Rule:
    """A change of the TCP of Linux.

    Attributes:
        name: Name of the rule in `with_rules` and `without_rules` of a scenario.
        of: The part of TCP that follows the rule.
        since: The first release with the rule.
        backports: For each older series with a backport of the rule, the first stable release that
            contains it.
        help: The behaviour with the rule, and the behaviour before.
        source: The commit that introduced the rule.
        active: Whether the release in question has the rule.
    """

    name: str
    of: str
    since: str
    backports: tuple[str, ...]
    help: str
    source: str
    active: bool

    def as_object(self) -> dict[str, Any]:
        """The rule as JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Difference:
    """A rule in which two releases differ.

    Attributes:
        rule: The rule.
        added: True if only the second release has the rule, false if only the first one has it.
    """

    rule: Rule
    added: bool

    @property
    def key(self) -> str:
        """The key of `[host]` that applies the difference to the first release."""
        return ADDED if self.added else REMOVED

    def as_object(self) -> dict[str, Any]:
        """The difference as JSON."""
        rule = self.rule.as_object()
        del rule["active"]
        return rule | {"in": "second" if self.added else "first"}


def release(text: str) -> str:
    """The name of a release in a scenario.

    >>> release("6.12.5"), release("linux-7.3")
    ('linux-6.12.5', 'linux-7.3')
    """
    return text if text.startswith("linux-") else f"linux-{text}"


def rules_of(like: str) -> list[Rule]:
    """All rules; `active` of each is true if the release `like` has it.

    Raises:
        NarrowsError: If there is no such release.
    """
    try:
        rows = _core.rules(release(like))
    except ValueError as error:
        raise NarrowsError(str(error)) from error
    return [Rule(**row | {"backports": tuple(row["backports"])}) for row in rows]


def all_rules() -> list[dict[str, Any]]:
    """All rules as JSON."""
    found: list[dict[str, Any]] = json.loads(_core.list_json("rules"))["rules"]
    return found


def differences(first: str, second: str) -> list[Difference]:
    """The rules that only one of two releases has, in the order of the table.

    Raises:
        NarrowsError: If one of the releases is not known.
    """
    both = zip(rules_of(first), rules_of(second), strict=True)
    return [Difference(one, other.active) for one, other in both if one.active != other.active]
