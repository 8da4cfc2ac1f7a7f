"""A sweep as a file.

    title    = "Who wins in which buffer?"
    scenario = "base.toml"                      # beside this file
    seeds    = 3                                # or [1, 2, 7]
    design   = "grid"                           # or "random", "latin_hypercube" (with cases = 200), "list"

    [over]
    "path.buffer" = ["0.5bdp", "1bdp", "4bdp"]
    "path.rtt"    = { from = "10ms", to = "160ms", scale = "log", steps = 5 }
    "flow[0].cc"  = ["bbr", "reno"]

A list has its cases as `[[case]]`, each with its keys.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from narrows import _core
from narrows.errors import NarrowsError
from narrows.scenario import kind_of, name_of, text_of
from narrows.sweeps.design import KINDS
from narrows.sweeps.sweeping import INTO, Sweep, sweep

_KEYS = ("title", "scenario", "seeds", "design", "cases", "design_seed", "over", "case")


def load(file: str | PathLike[str], into: str | PathLike[str] = INTO) -> Sweep:
    """Reads a sweep file.

    Raises:
        NarrowsError: If it is not right.
    """
    name = name_of(file)
    text = text_of(file)
    given = _core.toml_tables(text, name)
    if kind_of(text, name) == "scenario":
        raise NarrowsError(f"{name}: a scenario, not a sweep: narrows run {name}")
    if unknown := [key for key in given if key not in _KEYS]:
        raise NarrowsError(f"{name}: a sweep has no `{unknown[0]}`; it has {', '.join(_KEYS)}")
    if not isinstance(given.get("scenario"), str):
        raise NarrowsError(f'{name}: a sweep needs the file of its scenario: scenario = "base.toml"')
    kind = given.get("design", "list" if "case" in given else "grid")
    if kind not in KINDS:
        raise NarrowsError(f"{name}: there is no design `{kind}`; there are {', '.join(KINDS)}")
    over = given.get("case" if kind == "list" else "over")
    wanted = list if kind == "list" else dict
    if not isinstance(over, wanted) or not over:
        raise NarrowsError(f"{name}: a {kind} design needs {'[[case]], one or more' if kind == 'list' else '[over]'}")
    seeds = given.get("seeds", 1)
    if not (_whole(seeds) or (isinstance(seeds, list) and all(map(_whole, seeds)))):
        raise NarrowsError(f"{name}: seeds is how many, or which: seeds = 5, or seeds = [1, 2, 7]")
    for key in ("cases", "design_seed"):
        if key in given and not _whole(given[key]):
            raise NarrowsError(f"{name}: {key} is a whole number")
    try:
        return sweep(
            Path(file).parent / given["scenario"],
            over,
            seeds=seeds,
            design=kind,
            cases=given.get("cases"),
            design_seed=given.get("design_seed", 1),
            title=str(given.get("title", Path(file).stem)),
            into=into,
        )
    except NarrowsError as error:
        raise type(error)(f"{name}: {error}", *error.args[1:]) from None


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
