"""Reads a sweep file.

    title    = "Who wins in which buffer?" scenario = "base.toml"                      # beside this
    file seeds    = 3                                # or [1, 2, 7] design   = "grid"
    # or "random", "latin_hypercube" (with cases = 200), "list"

    [over]
    "path.buffer" = ["0.5bdp", "1bdp", "4bdp"]
    "path.rtt"    = { from = "10ms", to = "160ms", scale = "log", steps = 5 }
    "flow[0].cc"  = ["bbr", "reno"]

A file with the design `list` has a table `[[case]]` with the keys of each case, instead of
`[over]`.

A sweep file may come from an untrusted source. Files that its values name must therefore be in the
folder of the sweep file or below it, after symbolic links are resolved. `--files-from` allows
further folders.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from narrows import _core
from narrows.errors import NarrowsError, ScenarioError
from narrows.runs.run import Engine
from narrows.runs.scenario import Flow, Scenario
from narrows.runs.scenario import Path as NetworkPath
from narrows.runs.scenario import load as load_scenario
from narrows.runs.source import kind_of
from narrows.storage.text import name_of, text_of
from narrows.sweeps.design import KINDS
from narrows.sweeps.sweeping import INTO, Sweep, sweep

_KEYS = ("title", "scenario", "seeds", "design", "cases", "design_seed", "over", "case")
_NAMING = ("trace", "delay_trace", "tree", "file")
"""Keys of a scenario whose value may name a file."""


def load(
    file: str | PathLike[str],
    into: str | PathLike[str] = INTO,
    *,
    engine: Engine = "sim",
    kernel: str | None = None,
) -> Sweep:
    """Reads a sweep file; `engine` and `kernel` are those of `sweep`.

    Raises:
        NarrowsError: If the file cannot be read or is not a valid sweep.
    """
    name = name_of(file)
    text = text_of(file, "a sweep")
    given = _core.toml_tables(text, name)
    if kind_of(text, name) == "scenario":
        raise NarrowsError(f"{name}: a scenario, not a sweep: narrows run {name}")
    # Every mistake is reported at once.
    wrong = [
        f"a sweep has no `{key}`; it has {', '.join(_KEYS)}" for key in given if key not in _KEYS
    ]
    place = given.get("scenario")
    named = isinstance(place, str) and "\n" not in place
    if not named:
        wrong.append('a sweep needs the file of its scenario: scenario = "base.toml"')
    kind = given.get("design", "list" if "case" in given else "grid")
    # Files outside of the allowed folders are not even opened.
    outside = [*_outside(given.get("over"), Path(file)), *_outside(given.get("case"), Path(file))]
    if outside:
        raise NarrowsError(_placed(name, [*wrong, *outside]))
    over = _over(given, kind, wrong)
    seeds, cases, design_seed = (
        _number(given, key, usual, wrong) for key, usual in _NUMBERS.items()
    )
    if over is None:
        if named:
            try:
                load_scenario(Path(file).parent / given["scenario"])
            except NarrowsError as error:
                wrong += str(error).split("\n")
        raise NarrowsError(_placed(name, wrong))
    try:
        found = sweep(
            # A missing scenario is replaced by a stand-in, so that mistakes in the rest are also
            # found.
            Path(file).parent / given["scenario"] if named else _ANY,
            over,
            seeds=seeds,
            design=kind,
            cases=cases,
            design_seed=design_seed,
            title=str(given.get("title", Path(file).stem)),
            into=into,
            engine=engine,
            kernel=kernel,
        )
        if named:
            found.check()
    except ScenarioError as error:
        raise ScenarioError(
            _placed(name, [*wrong, *str(error).split("\n")]), error.errors
        ) from None
    except NarrowsError as error:
        wrong += str(error).split("\n")
    if wrong:
        raise NarrowsError(_placed(name, wrong))
    return found


_ANY = Scenario(NetworkPath(rate="10Mbit", rtt="20ms"), flows=[Flow("reno")], duration="1s")
"""The stand-in for the scenario if a sweep file does not name one."""

_NUMBERS: dict[str, int | None] = {"seeds": 1, "cases": None, "design_seed": 1}


def _over(given: Mapping[str, Any], kind: str, wrong: list[str]) -> Any:  # noqa: ANN401
    """The table or list of varying values; None, with an error added to `wrong`, if the file does
    not specify them.
    """
    if kind not in KINDS:
        wrong.append(f"there is no design `{kind}`; there are {', '.join(KINDS)}")
        return None
    over = given.get("case" if kind == "list" else "over")
    if isinstance(over, list if kind == "list" else dict) and over:
        return over
    wrong.append(f"a {kind} design needs {'[[case]], one or more' if kind == 'list' else '[over]'}")
    return None


def _outside(values: object, file: Path) -> Iterator[str]:
    """An error message for each value that names a file outside of the folders that a sweep file
    may read.
    """
    more = os.environ.get("NARROWS_FILES_FROM", "").split(os.pathsep)
    allowed = [file.parent, *(Path(one) for one in more if one)]
    folders = [Path(os.path.realpath(one)) for one in allowed]
    for key, named in dict.fromkeys(_named(values, "")):
        # A name with a zero byte cannot be opened.
        if "\0" in named or any(
            Path(os.path.realpath(named)).is_relative_to(folder) for folder in folders
        ):
            continue
        yield (
            f"{key} = {json.dumps(named)} lies outside of the sweep's folder; copy it there, or "
            "allow its folder with --files-from"
        )


def _named(values: object, key: str) -> Iterator[tuple[str, str]]:
    """The names of files in nested values, each with its key."""
    if isinstance(values, Mapping):
        for inner, value in values.items():
            yield from _named(value, f"{key}.{inner}" if key else str(inner))
    elif isinstance(values, list):
        for value in values:
            yield from _named(value, key)
    elif isinstance(values, str) and key.rpartition(".")[2] in _NAMING:
        yield key, values


def _number(
    given: Mapping[str, Any],
    key: str,
    usual: int | None,
    wrong: list[str],
) -> Any:  # noqa: ANN401 - a number or a list
    value = given.get(key, usual)
    listed = key == "seeds" and isinstance(value, list) and all(map(_whole, value))
    if key not in given or _whole(value) or listed:
        return value
    wrong.append(
        "seeds is how many, or which: seeds = 5, or seeds = [1, 2, 7]"
        if key == "seeds"
        else f"{key} is a whole number"
    )
    return usual


def _placed(name: str, lines: Sequence[str]) -> str:
    """Error messages with the name of the file in front of each line. Indented lines, which contain
    corrections, belong to the line above and get no name.
    """
    return "\n".join(line if line.startswith(" ") else f"{name}: {line}" for line in lines)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
