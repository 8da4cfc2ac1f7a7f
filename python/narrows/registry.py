"""Reads the registry of the Rust core: congestion controls, queue disciplines, sysctls and
measurement tests. Python has no lists of its own.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypedDict

from narrows import _core
from narrows.errors import NarrowsError

if TYPE_CHECKING:
    from typing_extensions import NotRequired

    from narrows.json_object import JsonObject


class Parameter(TypedDict):
    """A parameter of a model, or a key of a scenario: a row of `narrows list --verbose`."""

    name: str
    kind: str
    default: Any
    help: str
    source: str
    min: NotRequired[str | float]
    max: NotRequired[str | float]
    words: NotRequired[list[str]]
    one: NotRequired[str]
    params: NotRequired[list[Parameter]]
    """The parameters of each table, for a parameter that is a list of tables; `one` is the name of
    such a table.
    """
    required: NotRequired[list[str]]
    section: NotRequired[str]
    takes: NotRequired[str]
    range: NotRequired[str]
    """For a key of a scenario: `section`, type (`takes`) and `range`."""


@cache
def table(name: str) -> Any:  # noqa: ANN401 - a list of rows, or an object
    """One list of `narrows._core.list_json`.

    >>> [row["name"] for row in table("loss")]
    ['independent', 'gilbert_elliott']
    """
    return json.loads(_core.list_json(name))[name]


def forget() -> None:
    """Discards the cached lists, so that they are read again when they are next needed. This
    function is called after a model was added or removed.
    """
    for cached in (table, paced, _qdiscs, sysctls, measurement_tests):
        cached.cache_clear()
    for follow in FOLLOWERS:
        follow()


EXTERNAL: set[tuple[str, str]] = set()
"""The list (`cc` or `queue`) and the name of each model that a plugin has provided in this process.
"""

FOLLOWERS: list[Callable[[], object]] = []
"""Functions that are called when the lists have changed."""


def names(of: str) -> list[str]:
    """The names of the rows of a list, in the order of the list.

    >>> names("cc")[:3]
    ['reno', 'cubic', 'bbr']
    """
    return [row["name"] for row in table(of)]


def check_cc(option: str, name: str, known: Sequence[str] | None = None) -> None:
    """Raises an error for the value of an option that is not a known congestion control.

    Args:
        option: The option.
        name: The given name.
        known: The accepted names, by default those of the registry.

    >>> check_cc("--cc", "cubic")
    >>> check_cc("--cc", "cubik", ["reno", "cubic"])
    Traceback (most recent call last):
    narrows.errors.NarrowsError: --cc cubik: not a known congestion control; known: reno, cubic; \
write --cc cubic

    Raises:
        NarrowsError: If the name is not an accepted one.
    """
    choices = names("cc") if known is None else list(known)
    if name in choices or (known is None and _core.find_model("cc", name)):
        return
    close = difflib.get_close_matches(name, choices, 1)
    fix = f"; write {option} {close[0]}" if close else ""
    raise NarrowsError(
        f"{option} {name}: not a known congestion control; known: {', '.join(choices)}{fix}"
    )


def shipped(of: str, name: str, param: str) -> list[str]:
    """The names of the files included in narrows that a parameter accepts instead of a file of the
    user.

    >>> shipped("cc", "remy", "tree")
    ['small']
    """
    params = next(row["params"] for row in table(of) if row["name"] == name)
    words: list[str] = next(row["words"] for row in params if row["name"] == param)
    return words[:-1]


@cache
def paced() -> frozenset[str]:
    """The congestion controls that request pacing.

    >>> "bbr" in paced(), "cubic" in paced()
    (True, False)
    """
    return frozenset(row["name"] for row in table("cc") if row["paced"])


@cache
def _qdiscs() -> dict[str, JsonObject]:
    return {row["name"]: row for row in table("qdisc")}


def qdiscs() -> list[str]:
    """The queue disciplines of Linux by the names of tc(8).

    >>> "htb" in qdiscs(), "shelf" in qdiscs()
    (True, False)
    """
    return list(_qdiscs())


@cache
def linux_ccs(*, common: bool = False) -> tuple[str, ...]:
    """The congestion controls of Linux by the kernel's names, the common ones first.

    Args:
        common: Only those in common use.

    >>> linux_ccs(common=True)
    ('cubic', 'bbr', 'reno')
    """
    rows = table("linux")["congestion_controls"]
    return tuple(row["name"] for row in rows if row["common"] or not common)


def at_bottleneck() -> tuple[str, ...]:
    """The queue disciplines that are compared at a bottleneck of this host."""
    return tuple(table("linux")["at_bottleneck"])


def below_shaper() -> tuple[str, ...]:
    """The queue disciplines, all in common use, that are compared below a shaper.

    >>> below_shaper()
    ('cake', 'fq_codel')
    """
    return tuple(table("linux")["below_shaper"])


@cache
def sysctls() -> dict[str, JsonObject]:
    """The sysctls that a plan of `narrows tune` may change, by name.

    Each row has the `pattern` of valid values, `global`, and in `acts` the data that the sysctl
    affects: `sent`, `received`, `negotiated` (both), or `neither`.
    """
    return {row["name"]: row for row in table("sysctl")}


@cache
def measurement_tests() -> dict[str, list[str]]:
    """The tests of `narrows measure`: for each name, the parts that are measured one after the
    other. The first test is the default.

    >>> measurement_tests()["both"], measurement_tests()["rrul"]
    (['tcp_ndown', 'tcp_nup'], ['rrul'])
    """
    rows = table("measurement")
    return {row["name"]: row["parts"] for row in rows["sequences"]} | {
        row["name"]: [row["name"]] for row in rows["tests"]
    }


def streams(test: str) -> int:
    """Default number of flows in each direction of a test.

    >>> streams("both")
    12
    """
    first = measurement_tests()[test][0]
    return next(
        int(row["streams"]) for row in table("measurement")["tests"] if row["name"] == first
    )


def most_streams() -> int:
    """Maximum number of flows in each direction of a test."""
    return int(table("measurement")["most_streams"])
