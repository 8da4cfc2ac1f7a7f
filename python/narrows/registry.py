"""Facts that the registry of the Rust core holds, read from there: there is no second list in
Python.
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
    """The parameters of each table of a list, called `one`."""
    required: NotRequired[list[str]]
    section: NotRequired[str]
    takes: NotRequired[str]
    range: NotRequired[str]
    """Section, type and range of a key."""


@cache
def table(name: str) -> Any:  # noqa: ANN401 - a list of rows, or an object
    """One list of `narrows._core.list_json`.

    >>> [row["name"] for row in table("loss")]
    ['independent', 'gilbert_elliott']
    """
    return json.loads(_core.list_json(name))[name]


def forget() -> None:
    """Reads the lists again when they are next needed: a model was added or removed."""
    for cached in (table, paced, _qdiscs, sysctls, measurement_tests):
        cached.cache_clear()
    for follow in FOLLOWERS:
        follow()


EXTERNAL: set[tuple[str, str]] = set()
"""The list and the name of each model that ever came from a plugin."""

FOLLOWERS: list[Callable[[], object]] = []
"""Called when the lists have changed."""


def names(of: str) -> list[str]:
    """The names of a list's rows, in its order.

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
        NarrowsError: If it is not one of them.
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
    """The texts that come with narrows for a parameter that takes a file.

    >>> shipped("cc", "remy", "tree")
    ['small']
    """
    params = next(row["params"] for row in table(of) if row["name"] == name)
    words: list[str] = next(row["words"] for row in params if row["name"] == param)
    return words[:-1]


@cache
def paced() -> frozenset[str]:
    """The congestion controls that ask for pacing.

    >>> "bbr" in paced(), "cubic" in paced()
    (True, False)
    """
    return frozenset(row["name"] for row in table("cc") if row["paced"])


@cache
def _qdiscs() -> dict[str, JsonObject]:
    return {row["name"]: row for row in table("qdisc")}


def configured(qdisc: str) -> bool:
    """Does a queue discipline of this name with a handle of its own show that somebody configured
    it?

    >>> configured("htb"), configured("fq_codel"), configured("clsact")
    (True, False, False)
    """
    row = _qdiscs().get(qdisc)
    return row is None or row["role"] == "configured"


def is_fifo(qdisc: str) -> bool:
    """Do all flows share one first-in, first-out queue?"""
    return qdisc in _qdiscs() and bool(_qdiscs()[qdisc]["fifo"])


def built_in(qdisc: str) -> bool:
    """Has every kernel this queue discipline, without a module?"""
    return qdisc in _qdiscs() and bool(_qdiscs()[qdisc]["built_in"])


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
    """The queue disciplines that are compared below a shaper, which are in common use.

    >>> below_shaper()
    ('cake', 'fq_codel')
    """
    return tuple(table("linux")["below_shaper"])


@cache
def sysctls() -> dict[str, JsonObject]:
    """The settings that a plan may change.

    Each name has the `pattern` of its value, `global`, and the data on which it `acts`: `sent`,
    `received`, `negotiated` (both), or `neither`.
    """
    return {row["name"]: row for row in table("sysctl")}


@cache
def measurement_tests() -> dict[str, list[str]]:
    """The tests of `narrows measure`: name to the parts measured one after the other; the first is
    the default.

    >>> measurement_tests()["both"], measurement_tests()["rrul"]
    (['tcp_ndown', 'tcp_nup'], ['rrul'])
    """
    rows = table("measurement")
    return {row["name"]: row["parts"] for row in rows["sequences"]} | {
        row["name"]: [row["name"]] for row in rows["tests"]
    }


def streams(test: str) -> int:
    """Flows in each direction of a test, unless the user says otherwise.

    >>> streams("both")
    12
    """
    first = measurement_tests()[test][0]
    return next(
        int(row["streams"]) for row in table("measurement")["tests"] if row["name"] == first
    )


def most_streams() -> int:
    """Flows in each direction at most."""
    return int(table("measurement")["most_streams"])
