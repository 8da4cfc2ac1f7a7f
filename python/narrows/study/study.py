"""Studies: a question, sweeps, and the computation of an answer from the rows of the sweeps."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TypedDict

from narrows.inference import Interval, of_mean
from narrows.json_object import JsonObject
from narrows.render.html import fragment
from narrows.runs.engines import SIM, EngineChoice, choose
from narrows.runs.run import Engine
from narrows.runs.scenario import Scenario
from narrows.study.model import MeansJson, RulesJson
from narrows.sweeps.design import Values
from narrows.sweeps.sweeping import INTO, Progress, Sweep, sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from typing_extensions import Unpack

    from narrows.sweeps.rows import Row

Rows = list["Row"]
"""Rows of a sweep, one for each flow of a run."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table of a quantity over two keys.

    Attributes:
        title: Title.
        unit: Unit of the cells.
        row: Name of the key whose values are the rows.
        column: Name of the key whose values are the columns.
        rows: Labels of the rows.
        columns: Labels of the columns.
        cells: A list for each row; None for a missing value.
        digits: Number of decimal places.
        middle: Neutral value of the colour scale, such as 0 for a gain or 1 for a fair share; None
            without one.
    """

    title: str
    unit: str
    row: str
    column: str
    rows: list[str]
    columns: list[str]
    cells: list[list[float | None]]
    digits: int = 1
    middle: float | None = None

    def at(self, row: object, column: object) -> float:
        """Value of the cell with these labels; the value must not be missing."""
        value = self.cells[self.rows.index(str(row))][self.columns.index(str(column))]
        assert value is not None
        return value


class About(TypedDict, total=False):
    """Attributes of a `Grid` that `table` does not compute. `row` and `column` are the names of the
    keys by default.
    """

    title: str
    unit: str
    row: str
    column: str
    digits: int
    middle: float | None


class Axes(TypedDict):
    """The names of the two keys of a `Grid`."""

    row: str
    column: str


@dataclass(frozen=True)
class Answer:
    """Result of a study.

    Attributes:
        verdict: Conclusion in one or several sentences.
        grids: Tables of values.
        words: Further lines to print after the verdict.
        rules: Rules in machine-readable form, if the study derives rules.
        picture: Draws the figure of the study; None to draw a map of each grid.
    """

    verdict: str
    grids: list[Grid]
    words: list[str] = field(default_factory=list)
    rules: RulesJson | None = None
    picture: Callable[[Figure], None] | None = None


@dataclass(frozen=True, kw_only=True)
class Part:
    """One sweep of a study: the scenario, the keys that vary, and the number of seeds of each
    case.
    """

    scenario: Scenario
    over: Mapping[str, Values] | Sequence[Mapping[str, Any]]
    seeds: int = 3


@dataclass(frozen=True, kw_only=True)
class Study:
    """A question, with its sweeps and the computation of the answer.

    Attributes:
        name: Name on the command line.
        question: Question as a sentence.
        parts: Returns the sweeps by name; smaller ones if its argument (`quick`) is true.
        answer: Computes the answer from the rows of the sweeps, by the same names.
        rules: True if the study derives rules in machine-readable form.
        more: For an iterative study, returns the next sweeps, given the rows so far; None at the
            end.
    """

    name: str
    question: str
    parts: Callable[[bool], dict[str, Part]]
    answer: Callable[[dict[str, Rows]], Answer]
    rules: bool = False
    more: Callable[[bool, dict[str, Rows]], dict[str, Part] | None] | None = None


Intervals = list[list[Interval | None]]
"""The mean and interval of each cell of a grid, row by row."""


@dataclass
class Found:
    """A study with its answer.

    Attributes:
        study: The study.
        answer: The answer.
        runs: Number of runs, stored ones included.
        seconds: Wall-clock time of the call, in s; stored runs take almost none.
        failures: The scenario file and the reason of each failed run.
        seeds: Number of seeds, if `--seeds` was given; otherwise None.
        intervals: For each grid, the mean of each cell over the answers to single seeds, with its
            interval. None for a grid if an answer has other rows or columns. Empty unless `seeds`
            is given.
        engine: The engine of the runs.
    """

    study: Study
    answer: Answer
    runs: int
    seconds: float = 0.0
    failures: list[tuple[Path, str]] = field(default_factory=list)
    seeds: int | None = None
    intervals: list[Intervals | None] = field(default_factory=list)
    engine: EngineChoice = SIM

    def _repr_html_(self) -> str:
        """The question, the verdict and the tables of `narrows study`, for notebooks."""
        from narrows.study.render import tables_of  # noqa: PLC0415

        question = (self.study.question, "bold")
        return fragment([question, self.answer.verdict, *self.answer.words, *tables_of(self)])

    def json(self) -> JsonObject:
        """The JSON object that `narrows study --json` prints."""
        return {
            "study": self.study.name,
            "question": self.study.question,
            **self.engine.json(),
            "verdict": self.answer.verdict,
            "runs": self.runs,
            "took_s": round(self.seconds, 3),
            "failures": [f"{file}: {reason}" for file, reason in self.failures],
            **({"rules": self.answer.rules["rules"]} if self.answer.rules else {}),
            "grids": [
                {
                    "title": grid.title,
                    "unit": grid.unit,
                    grid.row: grid.rows,
                    grid.column: grid.columns,
                    "cells": grid.cells,
                    **_means(self.intervals[nth] if self.intervals else None),
                }
                for nth, grid in enumerate(self.answer.grids)
            ],
            **({} if self.seeds is None else {"seeds": self.seeds}),
        }


def _means(of: Intervals | None) -> MeansJson:
    """The intervals of a grid's cells, as JSON."""
    if of is None:
        return {}
    return {
        "mean": [[None if one is None else one.mean for one in line] for line in of],
        "low": [[None if one is None else one.low for one in line] for line in of],
        "high": [[None if one is None else one.high for one in line] for line in of],
    }


def sweeps(
    study: Study, *, quick: bool, into: str | PathLike[str] = INTO, seeds: int | None = None
) -> dict[str, Sweep]:
    """The sweeps of a study, with the study's number of seeds unless `seeds` is given."""
    return _planned(study, study.parts(quick), into, seeds, engine="sim", kernel=None)


def _planned(
    study: Study,
    parts: dict[str, Part],
    into: str | PathLike[str],
    seeds: int | None,
    *,
    engine: Engine,
    kernel: str | None,
) -> dict[str, Sweep]:
    return {
        name: sweep(
            part.scenario,
            part.over,
            seeds=seeds or part.seeds,
            title=f"{study.name} {name}".strip(),
            into=Path(into),
            engine=engine,
            kernel=kernel,
        )
        for name, part in parts.items()
    }


def run(
    study: Study,
    *,
    quick: bool = False,
    on: str = "local",
    into: str | PathLike[str] = INTO,
    seeds: int | None = None,
    engine: Engine = "sim",
    kernel: str | None = None,
    progress: Progress | None = None,
) -> Found:
    """Executes the runs that are not stored yet, and computes the answer.

    `engine` and `kernel` are those of `sweep`.

    With `seeds`, every case has this number of seeds. The answer is then also computed for each
    seed alone, and each cell of a grid has the 95 % confidence interval of its mean.

    Raises:
        OutputError: If results cannot be stored.
    """
    begin = time.monotonic()
    waiting: dict[str, Sweep] | None = _planned(
        study, study.parts(quick), into, seeds, engine=engine, kernel=kernel
    )
    chosen = choose(engine, kernel)
    whole, before = 0, 0
    rows: dict[str, Rows] = {}
    failures: list[tuple[Path, str]] = []
    while waiting:
        whole += sum(map(len, waiting.values()))
        for name, one in waiting.items():

            def tell(
                done: int, failed: int, _planned: int, before: int = before, whole: int = whole
            ) -> None:
                if progress:
                    progress(before + done, failed, whole)

            rows[name] = one.run(on=on, progress=tell).to_pylist()
            failures += [(failure.file, failure.reason) for failure in one.failures]
            before += len(one)
        parts = study.more(quick, rows) if study.more else None
        waiting = (
            _planned(study, parts, into, seeds, engine=engine, kernel=kernel) if parts else None
        )
    answer = study.answer(rows)
    return Found(
        study,
        answer,
        whole,
        time.monotonic() - begin,
        failures,
        seeds,
        [] if seeds is None else _replicated(study, answer.grids, rows, seeds),
        chosen,
    )


def _replicated(
    study: Study, grids: Sequence[Grid], rows: Mapping[str, Rows], seeds: int
) -> list[Intervals | None]:
    """The intervals of the cells of each grid, from the answers to single seeds."""
    answers = [
        study.answer(
            {name: [row for row in of if row["seed"] == seed] for name, of in rows.items()}
        )
        for seed in range(1, seeds + 1)
    ]
    found: list[Intervals | None] = []
    for nth, grid in enumerate(grids):
        alike = [one.grids[nth] for one in answers if len(one.grids) > nth]
        if len(alike) < seeds or any(
            (one.rows, one.columns) != (grid.rows, grid.columns) for one in alike
        ):
            found.append(None)
            continue
        found.append(
            [
                [_interval([one.cells[r][c] for one in alike]) for c in range(len(grid.columns))]
                for r in range(len(grid.rows))
            ]
        )
    return found


def _interval(values: Sequence[float | None]) -> Interval | None:
    known = [value for value in values if value is not None]
    return of_mean(known, least=-math.inf) if known else None


def by(rows: Rows, *keys: str) -> dict[tuple[Hashable, ...], Rows]:
    """Groups rows by the values of the given keys, in the order in which the values first occur.

    >>> by([{"a": 1, "b": 2}, {"a": 1, "b": 3}], "a")
    {(1,): [{'a': 1, 'b': 2}, {'a': 1, 'b': 3}]}
    """
    found: dict[tuple[Hashable, ...], Rows] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return found


def table(
    rows: Rows,
    down: str,
    across: str,
    of: Callable[[Rows], float | None],
    **about: Unpack[About],
) -> Grid:
    """A grid over the keys `down` and `across`. Each cell is the median over the seeds of `of`,
    which computes a value from the rows of one run.
    """
    cells = by(rows, down, across)
    names = (
        list(dict.fromkeys(key[0] for key in cells)),
        list(dict.fromkeys(key[1] for key in cells)),
    )
    values = [[_median(of, cells.get((r, c), [])) for c in names[1]] for r in names[0]]
    labels = [[str(name) for name in found] for found in names]
    named: About = {"row": down, "column": across, **about}
    return Grid(rows=labels[0], columns=labels[1], cells=values, **named)


def _median(of: Callable[[Rows], float | None], rows: Rows) -> float | None:
    """Median over the runs (seeds) of a cell; None if there is no value."""
    values = [value for one in by(rows, "seed").values() if (value := of(one)) is not None]
    return median(values) if values else None


def total(name: str, cc: str | None = None) -> Callable[[Rows], float | None]:
    """A function that computes the sum of a column over the flows of a run, or over those with the
    congestion control `cc`.
    """

    def of(rows: Rows) -> float | None:
        values = [
            row[name] for row in rows if (cc is None or row["cc"] == cc) and row[name] is not None
        ]
        return sum(values) if values else None

    return of


def mean(name: str, times: float = 1.0) -> Callable[[Rows], float | None]:
    """A function that computes the mean of a column over the flows of a run, multiplied by
    `times`.
    """

    def of(rows: Rows) -> float | None:
        values = [row[name] for row in rows if row[name] is not None]
        return times * sum(values) / len(values) if values else None

    return of


def first(name: str) -> Callable[[Rows], float | None]:
    """A function that returns the value of a column for the first flow of a run. Metrics of the
    whole run are the same in all rows.
    """
    return lambda rows: rows[0][name]


def share(cc: str) -> Callable[[Rows], float | None]:
    """A function that computes the mean goodput of the flows of a congestion control, divided by
    that of all flows of the run.
    """

    def of(rows: Rows) -> float | None:
        own = [row["goodput_mbit"] for row in rows if row["cc"] == cc]
        everyone = sum(row["goodput_mbit"] for row in rows)
        return (sum(own) / len(own)) / (everyone / len(rows)) if own and everyone else None

    return of
