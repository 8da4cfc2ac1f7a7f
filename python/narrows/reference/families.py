"""The families of reference cases, which `data/reference.toml` declares."""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from narrows import _core
from narrows.errors import NarrowsError
from narrows.json_object import JsonObject
from narrows.sweeps.keys import put

FILE = Path(__file__).parents[1] / "data" / "reference.toml"
"""The file that declares the families."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A family of cases.

    Attributes:
        name: Name of the family, with which the names of its cases begin.
        about: Description of what its cases have in common.
        cases: The scenarios by the names of the cases, as nested tables.
    """

    name: str
    about: str
    cases: dict[str, JsonObject]


@cache
def families() -> dict[str, Family]:
    """All families, by name.

    >>> fifo = families()["fifo"]
    >>> len(fifo.cases), next(iter(fifo.cases))
    (24, 'fifo-reno-10-20-0.25')
    """
    given = _core.toml_tables(FILE.read_text(encoding="utf-8"), FILE.name)
    return {name: _family(name, of) for name, of in given.items()}


def _family(name: str, of: JsonObject) -> Family:
    base = _core.toml_tables(of["scenario"], f"{FILE.name} {name}")
    cases = {}
    for variants in itertools.product(*(axis.items() for axis in of["axes"])):
        tree = copy.deepcopy(base)
        for _, keys in variants:
            for key, value in keys.items():
                put(tree, key, copy.deepcopy(value))
        cases["-".join((name, *(label for label, _ in variants)))] = tree
    return Family(name=name, about=of["about"], cases=cases)


def chosen(names: str, only: str = "*") -> dict[str, Family]:
    """The families in a comma-separated list of names, or all families for `all`, with only the
    cases whose names match the pattern `only`.

    Raises:
        NarrowsError: If there is no such family or case.
    """
    known = families()
    wanted = list(known) if names == "all" else [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in known:
            raise NarrowsError(
                f"--families {name}: no such family; write all, or some of {', '.join(known)}"
            )
    found = {}
    for name in wanted:
        cases = {case: tree for case, tree in known[name].cases.items() if fnmatchcase(case, only)}
        if cases:
            found[name] = Family(name=name, about=known[name].about, cases=cases)
    if not found:
        raise NarrowsError(f"--cases {only}: no case has such a name; write --cases 'fifo-bbr-*'")
    return found
