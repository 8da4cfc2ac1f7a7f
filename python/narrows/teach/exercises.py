"""Reads the exercises of a course (`data/exercises.toml`) and checks the answers.

An exercise requires numbers, a changed scenario, or both. A number is right if it lies in a stored
range, which contains the result of the formula and the simulated value. A scenario is right if it
changes only the keys that may change and the metrics of its run lie in stored ranges.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import zip_longest
from os import PathLike
from typing import Any

from narrows import _core
from narrows.errors import NarrowsError
from narrows.json_object import JsonObject
from narrows.runs.run import run
from narrows.runs.source import read
from narrows.storage.text import name_of

_DATA = "data/exercises.toml"


@dataclass(frozen=True, kw_only=True)
class Question:
    """A number that an exercise requires.

    Attributes:
        id: Name of the answer on the command line.
        text: The question.
        unit: Unit of the answer; empty for a ratio.
        low: Smallest accepted answer.
        high: Largest accepted answer.
        figure: Path of the answer in the JSON of a run of the scenario, such as `flows.0.fct_s`;
            empty if the JSON does not contain it.
    """

    id: str
    text: str
    unit: str
    low: float
    high: float
    figure: str = ""


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A range for one value of a run of the scenario that is handed in.

    Attributes:
        text: The condition in words, with its unit.
        figure: Path of the value in the JSON of the run.
        low: Smallest accepted value.
        high: Largest accepted value.
    """

    text: str
    figure: str
    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """One exercise.

    Attributes:
        name: Name on the command line.
        title: Topic.
        source: Publication to read.
        text: Task, in paragraphs.
        scenario: Scenario to start from (TOML); empty if none is needed.
        questions: Numbers to be found.
        conditions: Conditions on a run of the changed scenario.
        may_change: Keys of the scenario that may change; all others must not.
        change: Replacements of text in `scenario` that give a right answer, as pairs of old and new
            text.
        solution: Explanation.
    """

    name: str
    title: str
    source: str
    text: str
    scenario: str = ""
    questions: tuple[Question, ...] = ()
    conditions: tuple[Condition, ...] = ()
    may_change: tuple[str, ...] = ()
    change: tuple[tuple[str, str], ...] = ()
    solution: str = ""

    def solved(self) -> str:
        """The text of a scenario (TOML) that fulfils the conditions."""
        toml = self.scenario
        for before, after in self.change:
            toml = toml.replace(before, after)
        return toml


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of one question or condition.

    Attributes:
        part: Name of the answer, or "scenario".
        text: The question or the condition.
        given: The given answer with its unit, or the value in the run; None if nothing was handed
            in.
        right: True if the answer or scenario is accepted.
        why: Reason for a rejection; empty if `right`.
    """

    part: str
    text: str
    given: str | None
    right: bool
    why: str = ""


@cache
def load() -> dict[str, Exercise]:
    """All exercises by name, in the order of the course.

    >>> len(load())
    10
    >>> load()["slow-start"].questions[0].unit
    'frames'
    """
    text = (resources.files("narrows") / _DATA).read_text(encoding="utf-8")
    entries = _core.toml_tables(text, _DATA)["exercise"]
    return {entry["name"]: _exercise(entry) for entry in entries}


def _exercise(entry: JsonObject) -> Exercise:
    return Exercise(
        questions=tuple(Question(**one) for one in entry.pop("question", ())),
        conditions=tuple(Condition(**one) for one in entry.pop("condition", ())),
        may_change=tuple(entry.pop("may_change", ())),
        change=tuple((before, after) for before, after in entry.pop("change", ())),
        **entry,
    )


def exercise(name: str) -> Exercise:
    """The exercise with this name or number (from 1).

    >>> exercise("1").title
    'Slow start'

    Raises:
        NarrowsError: If there is no such exercise.
    """
    every = load()
    if name.isdecimal() and 1 <= int(name) <= len(every):
        return list(every.values())[int(name) - 1]
    if name in every:
        return every[name]
    raise NarrowsError(
        f"`{name}` is not an exercise; narrows exercise list prints the {len(every)} exercises"
    )


def answer(word: str, of: Exercise) -> tuple[str, float]:
    """Parses an answer such as `bdp=826` or `fct=0.8s` into the name of the question and the
    number.

    >>> answer("fct=0.8s", exercise("slow-start"))
    ('fct', 0.8)

    Raises:
        NarrowsError: If the text names no question of the exercise or has no finite number.
    """
    ids = {question.id: question for question in of.questions}
    key, _, value = word.partition("=")
    if not value or key not in ids:
        known = " ".join(f"{id_}=NUMBER" for id_ in ids)
        needed = f"write {known}" if ids else "this exercise requires a scenario: --file FILE"
        raise NarrowsError(f"`{word}` is not an answer of {of.name}; {needed}")
    try:
        number = float(value.strip().removesuffix(ids[key].unit).replace(",", ""))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        unit = f" in {ids[key].unit}" if ids[key].unit else ""
        raise NarrowsError(f"{key}: `{value}` is not a number; write a number{unit}")
    return key, number


def check(
    of: Exercise, answers: Mapping[str, float], file: str | PathLike[str] | None = None
) -> list[Outcome]:
    """Compares answers and a scenario file with the accepted ranges; returns an outcome for each
    question and condition.

    Raises:
        NarrowsError: If the scenario cannot be read or run, or if the exercise requires no
            scenario.
    """
    done = [_question(one, answers.get(one.id)) for one in of.questions]
    if file is not None and not of.conditions:
        raise NarrowsError(f"{of.name} requires answers and no scenario; omit --file")
    if file is None:
        return done + [
            Outcome(
                part="scenario",
                text=one.text,
                given=None,
                right=False,
                why="no scenario: write --file FILE",
            )
            for one in of.conditions
        ]
    return done + _scenario(of, file)


def _question(one: Question, given: float | None) -> Outcome:
    if given is None:
        why = f"not answered: write {one.id}=NUMBER"
        return Outcome(part=one.id, text=one.text, given=None, right=False, why=why)
    right = one.low <= given <= one.high
    why = "" if right else f"too {'low' if given < one.low else 'high'}"
    return Outcome(
        part=one.id, text=one.text, given=f"{given:.10g} {one.unit}".strip(), right=right, why=why
    )


def _scenario(of: Exercise, file: str | PathLike[str]) -> list[Outcome]:
    text = read(file)
    _core.check_toml(text, name_of(file))
    start = _core.toml_to_tree(of.scenario, f"exercise {of.name}")
    handed_in = _core.toml_to_tree(text, name_of(file))
    out = [
        Outcome(
            part="scenario",
            text=f"{key} is unchanged",
            given="changed",
            right=False,
            why=f"do not change {key}; `narrows exercise show {of.name}` prints the scenario",
        )
        for key in _changed(start, handed_in)
        if not any(f"{key}.".startswith(f"{free}.") for free in of.may_change)
    ]
    if out:
        # A changed duration or rate can make the run as long as a day.
        return out + [
            Outcome(
                part="scenario",
                text=one.text,
                given=None,
                right=False,
                why="not run, because keys were changed that must stay the same",
            )
            for one in of.conditions
        ]
    done = run(file, sample_interval="off").json
    for one in of.conditions:
        value = find(done, one.figure)
        known = isinstance(value, int | float)
        right = known and one.low <= value <= one.high
        why = "" if right else "no such figure" if not known else _side(one, value)
        shown = f"{value:.4g}" if known else None
        out.append(Outcome(part="scenario", text=one.text, given=shown, right=right, why=why))
    return out


def _changed(before: object, after: object, place: str = "") -> list[str]:
    """The keys at which two scenarios (as nested tables) differ, such as `path.rate`."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [str(key) for key in {**before, **after}]
        pairs = [(key, before.get(key), after.get(key)) for key in keys]
    elif isinstance(before, list) and isinstance(after, list):
        pairs = [(str(n), *two) for n, two in enumerate(zip_longest(before, after))]
    else:
        return [place] if before != after else []
    return [
        found
        for key, old, new in pairs
        for found in _changed(old, new, f"{place}.{key}".removeprefix("."))
    ]


def _side(one: Condition, value: float) -> str:
    return f"too low: {value:.4g}" if value < one.low else f"too high: {value:.4g}"


def find(tree: Any, place: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value in nested tables and lists at a path such as `flows.0.goodput_mbit`; None if there
    is none.

    >>> find({"flows": [{"goodput_mbit": 9.5}]}, "flows.0.goodput_mbit")
    9.5
    """
    for key in place.split("."):
        if isinstance(tree, list) and key.isdecimal() and int(key) < len(tree):
            tree = tree[int(key)]
        elif isinstance(tree, dict):
            tree = tree.get(key)
        else:
            return None
    return tree


def wrapped(text: str, width: int) -> list[str]:
    """Paragraphs as lines of at most `width` characters, with an empty line after each."""
    lines: list[str] = []
    for paragraph in text.strip().split("\n\n"):
        lines += [*textwrap.wrap(" ".join(paragraph.split()), width), ""]
    return lines
