"""The releases of Linux that narrows knows: rules of the simulator, and built kernels."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from narrows import _core
from narrows.kernel import store

BUILDABLE = ("6.12", "7.3")
"""Releases that `narrows kernel build` is tested with."""

Number = tuple[int, ...]


@dataclass(frozen=True)
class Release:
    """A release, such as 6.12.

    Attributes:
        name: The name.
        modelled: Whether a scenario can name it (`[host] like`).
        rules: Number of the simulator's dated rules that it follows.
        kernels: Its built kernels.
    """

    name: str
    modelled: bool
    rules: int
    kernels: tuple[store.Kernel, ...]

    def as_object(self) -> dict[str, Any]:
        """The release as JSON."""
        return {
            "release": self.name,
            "modelled": self.modelled,
            "rules": self.rules,
            "kernels": [kernel.as_object() for kernel in self.kernels],
        }


def number(release: str) -> Number:
    """A release as numbers, for comparisons.

    >>> number("6.12") > number("6.2")
    True
    """
    return tuple(int(part) for part in release.split("."))


def modelled() -> list[str]:
    """The releases that a scenario can name."""
    keys = json.loads(_core.list_json())["scenario"]
    (like,) = (key for key in keys if (key["section"], key["name"]) == ("host", "like"))
    return [word.removeprefix("linux-") for word in like["range"].split(", ")]


def releases() -> list[Release]:
    """All releases that are modelled, built or known to build; the newest first."""
    kernels = store.built()
    known = modelled()
    rules = json.loads(_core.list_json())["rules"]
    by_release: dict[str, list[store.Kernel]] = {}
    for kernel in kernels:
        by_release.setdefault(kernel.name.partition("+")[0], []).append(kernel)
    names = sorted({*known, *BUILDABLE, *by_release}, key=number, reverse=True)
    return [
        Release(
            name,
            name in known,
            sum(number(rule["since"]) <= number(name) for rule in rules),
            tuple(by_release.get(name, ())),
        )
        for name in names
    ]
