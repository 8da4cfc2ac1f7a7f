"""Runs the comparison of engines of `narrows agree`, and prints it as tables and sentences or as
JSON.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from narrows import __version__
from narrows.host import agreement as engines
from narrows.host.model import ComparedJson, CountsJson
from narrows.render.terminal import console, echo
from narrows.runs.run import Progress
from narrows.storage.text import name_of


def command(
    files: Sequence[str],
    *,
    on: Mapping[str, engines.Machine],
    runs: int,
    seeds: int,
    as_json: bool,
    quiet: bool,
    progress: Progress,
) -> bool:
    """Runs all scenarios and prints each result when it is complete; returns whether no metric
    disagrees and at least one agrees.
    """
    # All scenarios are checked before the first run, because runs take minutes.
    scenarios = [engines.load(file, on) for file in files]
    if "live" in on:
        subjects = [engines.of_tree(tree, "", on["live"]) for tree, _ in scenarios]
        engines.ready(sorted({cc for what in subjects for cc in what.ccs}))

    def progress_of(number: int) -> Callable[[float], object]:
        return lambda part: progress(number + part, len(scenarios))

    outcomes = []
    for number, (file, (tree, text)) in enumerate(zip(files, scenarios, strict=True)):
        done = engines.agree(
            tree,
            name_of(file),
            on,
            text=text,
            runs=runs,
            seeds=seeds,
            progress=progress_of(number),
        )
        outcomes.append(done)
        if not as_json and not quiet:
            show(done, on)
    if as_json:
        echo(json.dumps(as_object(outcomes, on)))
    elif not quiet:
        for line in sentences(outcomes, on):
            echo(line)
    verdicts = {done.verdict for done in outcomes}
    return verdicts <= {"agreed", "undecided"} and "agreed" in verdicts


def counts(outcomes: Sequence[engines.Outcome]) -> CountsJson:
    """Number of metrics by verdict, over all outcomes."""
    found = Counter(row.verdict for done in outcomes for row in done.rows)
    return {
        "agreed": found["agreed"],
        "parted": found["parted"],
        "undecided": found["undecided"],
    }


def of_pair(outcomes: Sequence[engines.Agreement], pair: tuple[str, str]) -> list[engines.Outcome]:
    """The results of one pair of engines."""
    return [one for done in outcomes for one in done.outcomes if one.pair == pair]


def as_object(
    outcomes: Sequence[engines.Agreement], on: Mapping[str, engines.Machine]
) -> ComparedJson:
    """Machine-readable form."""
    every = [one for done in outcomes for one in done.outcomes]
    return {
        "narrows": __version__,
        "machines": {name: one.json() for name, one in on.items() if name != "sim"},
        "counts": counts(every),
        "pairs": {
            "-".join(pair): counts(of_pair(outcomes, pair))
            for pair in engines.PAIRS
            if set(pair) <= set(on)
        },
        "scenarios": [done.json() for done in outcomes],
    }


def number(x: float) -> str:
    """A value with three significant digits, as a whole number from 1000 on, and with three
    decimals below 1; `-` if it is not finite.

    >>> number(95.37), number(1234.5), number(0.0123), number(float("nan"))
    ('95.4', '1234', '0.012', '-')
    """
    if not math.isfinite(x):
        return "-"
    if abs(x) >= 1000:  # noqa: PLR2004
        return f"{x:.0f}"
    return f"{x:.3f}" if abs(x) < 1 else f"{x:.3g}"


def show(done: engines.Agreement, on: Mapping[str, engines.Machine]) -> None:
    """Prints the comparison of one scenario as a table."""
    out = console()
    out.print(f"{done.name}: {done.verdict}", style="bold", markup=False)
    table = Table(box=SIMPLE_HEAD if out.is_terminal else None, pad_edge=False, header_style="bold")
    table.add_column("metric")
    pairs = ["-".join(one.pair) for one in done.outcomes]
    references = list(dict.fromkeys(one.pair[1] for one in done.outcomes))
    several = len(pairs) > 1
    for column in (*on, *(f"{name} spread" for name in references)):
        table.add_column(column, justify="right")
    if not several:
        for column in ("difference", "tolerance"):
            table.add_column(column, justify="right")
    for pair in pairs:
        table.add_column(pair if several else "verdict")
    for label in done.labels:
        values, by_pair = done.values(label), done.verdicts(label)
        cells = [values.get(name, math.nan) for name in on]
        cells += [
            next(
                (row.spread for pair, row in by_pair.items() if pair.endswith(f"-{name}")),
                math.nan,
            )
            for name in references
        ]
        if not several:
            (row,) = by_pair.values()
            cells += [abs(row.ours - row.reference), row.tolerance]
        verdicts = [by_pair[pair].verdict if pair in by_pair else "-" for pair in pairs]
        table.add_row(label, *map(number, cells), *verdicts)
    out.print(table)
    by_engine = {one.pair[1]: one for one in done.outcomes}
    told = ", ".join(f"{name}: {one.runs} runs" for name, one in by_engine.items())
    flagged = [why for one in by_engine.values() for why in one.flagged]
    if flagged:
        told += f"; {len(flagged)} more failed their self-check: {flagged[-1]}"
    out.print(f"{told}\n", markup=False, soft_wrap=True)


def sentences(
    outcomes: Sequence[engines.Agreement], on: Mapping[str, engines.Machine]
) -> list[str]:
    """The overall result over all scenarios, as one sentence for each pair of engines."""
    found = []
    for pair in engines.PAIRS:
        if not set(pair) <= set(on):
            continue
        here = of_pair(outcomes, pair)
        of, flagged = counts(here), sum(len(done.flagged) for done in here)
        whole = sum(len(done.rows) for done in here)
        reference = on[pair[1]]
        told = (
            f"{pair[0]} and {pair[1]}: {of['agreed']} of {whole} metrics agree, "
            f"{of['parted']} differ, {of['undecided']} are undecided"
        )
        if flagged:
            told += f"; {flagged} live runs failed their self-check and were repeated"
        like = f", simulated as {reference.like}" if pair[0] == "sim" else ""
        found.append(f"{told}. Linux {reference.release}, {reference.hz} Hz{like}.")
    return found
