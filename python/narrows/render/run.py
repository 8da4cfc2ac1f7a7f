"""A run in a person's words and tables, in a terminal. Only shows: every figure was computed in the
core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from rich.box import SIMPLE_HEAD
from rich.table import Table

from narrows.render import tables
from narrows.render.terminal import console, one_line
from narrows.render.words import fairness, number, sentence

if TYPE_CHECKING:
    from rich.console import Console

Figures = dict[str, Any]


def table(out: Console, shown: tables.Table) -> None:
    """Prints a table."""
    lines = Table(box=SIMPLE_HEAD if out.is_terminal else None, pad_edge=False, header_style="bold")
    for name in shown.words:
        lines.add_column(one_line(name))
    for column in shown.numbers:
        lines.add_column(one_line(column), justify="right")
    for row in shown.rows:
        lines.add_row(*(one_line(cell.text) for cell in row))
    out.print(lines)


def confession(instruments: Figures) -> str:
    """What a run over real packets says of its own error.

    >>> late = {"p50": 11.2, "p99": 64.4}
    >>> confession({"lateness_us": late, "rate_error": {"mean": -0.0004}, "trusted": True,
    ...     "why": []})
    'Packets left 11 µs late (p99 64 µs), the rate was off by 0.04 %: to be trusted.'
    >>> confession({"lateness_us": late, "rate_error": {"mean": 0}, "trusted": False, "why": ["a",
    ...     "b"]})
    'Packets left 11 µs late (p99 64 µs), the rate was off by 0.00 %: NOT to be trusted: a; b.'
    >>> confession({"lateness_us": late, "rate_error": {"mean": 0}, "trusted": None,
    ...     "why": ["a"]}).partition(" %: ")[2]
    'cannot tell whether they are to be trusted: a.'
    """
    late, off = instruments["lateness_us"], number(100 * abs(instruments["rate_error"]["mean"]), 2)
    words = {
        True: "to be trusted",
        False: "NOT to be trusted",
        None: "cannot tell whether they are to be trusted",
    }
    verdict = ": ".join(
        filter(None, [words[instruments["trusted"]], "; ".join(instruments["why"])])
    )
    return (
        f"Packets left {late['p50']:.0f} µs late (p99 {late['p99']:.0f} µs), the rate was off "
        f"by {off} %: {verdict}."
    )


def show(figures: Figures, stream: TextIO | None = None) -> None:
    """Prints a run: a sentence, a row per flow, the queue, the probes."""
    out = console(stream)
    out.print(sentence(figures), style="bold")
    for notice in figures.get("notices", []):
        out.print(f"Note: {notice}", style="yellow")
    most = tables.MOST_ROWS
    if figures["flows"]:
        out.print()
        table(out, tables.flows(figures, most))
        if len(figures["flows"]) > most:
            out.print(
                f"The first {most} of {len(figures['flows'])} flows; --json and --out have all of "
                "them."
            )
    out.print()
    table(out, tables.waits(figures))
    if tables.has_stations(figures):
        out.print()
        table(out, tables.stations(figures, most))
    if tables.has_workloads(figures):
        out.print()
        table(out, tables.workloads(figures, most))
    if jain := fairness(figures):
        out.print(f"\nFairness (Jain's index): {jain}; 1 is an equal share for everyone.")
    if "instruments" in figures:
        out.print(f"\n{confession(figures['instruments'])}")
