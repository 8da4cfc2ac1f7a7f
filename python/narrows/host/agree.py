"""`narrows agree`: both engines side by side, for a person or a program."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from narrows import __version__
from narrows.host import agreement as engines
from narrows.render.terminal import console, echo
from narrows.runs.run import Progress


def command(
    files: Sequence[str], *, runs: int, seeds: int, as_json: bool, quiet: bool, progress: Progress
) -> bool:
    """Runs all of them and prints what comes out, each when it is there: is everything decided the
    same?
    """
    here = engines.machine()
    # Every mistake before the first of many minutes.
    subjects = [engines.load(file, here) for file in files]
    engines.ready(sorted({cc for what in subjects for cc in what.ccs}))

    def progress_of(number: int) -> Callable[[float], object]:
        return lambda part: progress(number + part, len(subjects))

    outcomes = []
    for number, what in enumerate(subjects):
        done = engines.agree(what, runs=runs, seeds=seeds, progress=progress_of(number))
        outcomes.append(done)
        if not as_json and not quiet:
            show(done)
    if as_json:
        echo(json.dumps(as_object(outcomes, here)))
    elif not quiet:
        echo(sentence(outcomes, here))
    verdicts = {done.verdict for done in outcomes}
    return verdicts <= {"agreed", "undecided"} and "agreed" in verdicts


def counts(outcomes: Sequence[engines.Outcome]) -> dict[str, int]:
    """So many figures agreed, parted, are undecided."""
    found = Counter(row.verdict for done in outcomes for row in done.rows)
    return {verdict: found[verdict] for verdict in ("agreed", "parted", "undecided")}


def as_object(outcomes: Sequence[engines.Outcome], here: engines.Machine) -> dict[str, Any]:
    """All of it for a program."""
    return {
        "narrows": __version__,
        "machine": dataclasses.asdict(here),
        "counts": counts(outcomes),
        "scenarios": [done.json() for done in outcomes],
    }


def number(x: float) -> str:
    """A figure in three digits or more.

    >>> number(95.37), number(1234.5), number(0.0123), number(float("nan"))
    ('95.4', '1234', '0.012', '-')
    """
    if not math.isfinite(x):
        return "-"
    if abs(x) >= 1000:  # noqa: PLR2004
        return f"{x:.0f}"
    return f"{x:.3f}" if abs(x) < 1 else f"{x:.3g}"


def show(done: engines.Outcome) -> None:
    """Prints one scenario as a table."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    out = console()
    out.print(f"{done.subject.name}: {done.verdict}", style="bold", markup=False)
    table = Table(box=SIMPLE_HEAD if out.is_terminal else None, pad_edge=False, header_style="bold")
    table.add_column("metric")
    for column in ("sim", "live", "live spread", "difference", "tolerance"):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    for row in done.rows:
        cells = (row.sim, row.live, row.spread, abs(row.sim - row.live), row.tolerance)
        table.add_row(row.label, *map(number, cells), row.verdict)
    out.print(table)
    told = f"live: {done.runs} runs"
    if done.flagged:
        told += f"; {len(done.flagged)} more failed their self-check: {done.flagged[-1]}"
    out.print(f"{told}\n", markup=False, soft_wrap=True)


def sentence(outcomes: Sequence[engines.Outcome], here: engines.Machine) -> str:
    """The overall result in a sentence."""
    of, flagged = counts(outcomes), sum(len(done.flagged) for done in outcomes)
    told = (
        f"{of['agreed']} of {sum(of.values())} metrics agree, {of['parted']} differ, "
        f"{of['undecided']} are undecided"
    )
    again = f"; {flagged} live runs failed their self-check and were repeated" if flagged else ""
    return f"{told}{again}. Linux {here.release}, {here.hz} Hz, simulated as {here.like}."
