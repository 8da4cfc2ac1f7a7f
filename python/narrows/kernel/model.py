"""The releases of Linux that narrows knows: rules of the simulator, and built kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from narrows import _core
from narrows.kernel import store

BUILDABLE = ("6.12", "7.3")
"""Releases that `narrows kernel build` is tested with."""

NAMED = ("7.3", "6.12", "5.15", "4.15", "4.4")
"""Releases that are listed even if no kernel of them is built. A scenario can name every release
from 4.4 to 7.3.
"""

Number = tuple[int, ...]


@dataclass(frozen=True)
class Release:
    """A release, such as 6.12.

    Attributes:
        name: The name.
        modelled: Whether a scenario can name the release (`[host] like`).
        rules: Number of the dated rules of the simulator that this release follows.
        kernels: The built kernels of this release.
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


def rules(release: str) -> list[dict[str, Any]] | None:
    """The dated rules of the simulator, each with `active`, which is true if this release follows
    the rule. None for a release that a scenario cannot name.

    >>> all(rule["active"] for rule in rules("7.3"))
    True
    >>> rules("2.4") is None
    True
    """
    try:
        return _core.rules(f"linux-{release}")
    except ValueError:
        return None


def nearest(release: str) -> str:
    """The series of a release, such as 6.12, if a scenario can name it. Otherwise the result is the
    newest or the oldest series that a scenario can name.

    >>> nearest("6.12.117"), nearest("9.1"), nearest("3.10.0")
    ('6.12', '7.3', '4.4')
    """
    series = ".".join(release.split(".")[:2])
    if rules(series) is not None:
        return series
    return NAMED[0] if number(series) > number(NAMED[0]) else NAMED[-1]


def releases() -> list[Release]:
    """The releases in `NAMED` and `BUILDABLE`, and those of built kernels; the newest first."""
    kernels = store.built()
    by_release: dict[str, list[store.Kernel]] = {}
    for kernel in kernels:
        by_release.setdefault(kernel.name.partition("+")[0], []).append(kernel)
    names = sorted({*NAMED, *BUILDABLE, *by_release}, key=number, reverse=True)
    known = {name: rules(name) for name in names}
    return [
        Release(
            name,
            known[name] is not None,
            sum(rule["active"] for rule in known[name] or ()),
            tuple(by_release.get(name, ())),
        )
        for name in names
    ]
