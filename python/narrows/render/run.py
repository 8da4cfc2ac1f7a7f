"""Prints a run as sentences and tables. The core computes all values.

A terminal gets styles and Rich's tables. A file or a pipe gets plain text, equal to that of Rich,
but without the time to import Rich. Rich is used if a line must be wrapped at 160 columns, or if a
character may not be one column wide.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from narrows.render import tables
from narrows.render.terminal import PIPE_COLUMNS, echo, one_line
from narrows.render.words import fairness, number, sentence

if TYPE_CHECKING:
    from narrows.runs.model import InstrumentsJson, RunJson

Part = str | tuple[str, str] | tables.Table
"""A text, a text with its style, or a table."""

_NARROW = re.compile(
    "[\n -~\xa1-\xac\xae-\u02ff\u2010-\u2027\u2030-\u205e\u2190-\u21ff\u2260-\u2265]*"
)
"""Matches text whose characters are all certainly one column wide."""


def confession(instruments: InstrumentsJson) -> str:
    """A sentence about the errors of a run with real packets, and the result of its self-check.

    >>> late = {"p50": 11.2, "p99": 64.4}
    >>> confession({"lateness_us": late, "rate_error": {"mean": -0.0004}, "trusted": True,
    ...     "why": []})
    'Packets left 11 µs late (p99 64 µs); rate error 0.04 %. The self-check passed.'
    >>> confession({"lateness_us": late, "rate_error": {"mean": 0}, "trusted": False, "why": ["a",
    ...     "b"]})
    'Packets left 11 µs late (p99 64 µs); rate error 0.00 %. The self-check FAILED: a; b.'
    >>> confession({"lateness_us": late, "rate_error": {"mean": 0}, "trusted": None,
    ...     "why": ["no packet crossed the path"]})
    'The self-check has no result, because no packet crossed the path.'
    """
    if instruments["trusted"] is None:
        return f"The self-check has no result, because {'; '.join(instruments['why'])}."
    late, off = instruments["lateness_us"], number(100 * abs(instruments["rate_error"]["mean"]), 2)
    words = "The self-check passed" if instruments["trusted"] else "The self-check FAILED"
    verdict = ": ".join(filter(None, [words, "; ".join(instruments["why"])]))
    return (
        f"Packets left {late['p50']:.0f} µs late (p99 {late['p99']:.0f} µs); rate error {off} %. "
        f"{verdict}."
    )


def show(figures: RunJson, stream: TextIO | None = None) -> None:
    """Prints a run: a summary, and tables of flows, queues and probes."""
    file = stream or sys.stdout
    parts = list(parts_of(figures))
    forced = os.environ.get("FORCE_COLOR") or os.environ.get("TTY_COMPATIBLE")
    text = None if file.isatty() or forced else plain(parts)
    if text is not None:
        echo(text, file=file, nl=False)
        return
    from narrows.render.styled import show_parts  # noqa: PLC0415 - a pipe needs no Rich

    show_parts(parts, stream)


def parts_of(figures: RunJson) -> Iterator[Part]:
    """The sentences and tables of a run."""
    yield sentence(figures), "bold"
    for notice in figures.get("notices", []):
        yield f"Note: {notice}", "yellow"
    most = tables.MOST_ROWS
    yield tables.interval(figures)
    if figures["flows"]:
        yield ""
        yield tables.flows(figures, most)
        if len(figures["flows"]) > most:
            yield (
                f"The first {most} of {len(figures['flows'])} flows; --json and --out have all of "
                "them."
            )
    yield ""
    yield tables.waits(figures)
    if tables.measures_links(figures):
        yield ""
        yield tables.links(figures, most)
    if tables.has_stations(figures):
        yield ""
        yield tables.stations(figures, most)
    if tables.has_workloads(figures):
        yield ""
        yield tables.workloads(figures, most)
    if jain := fairness(figures):
        yield f"\nJain's fairness index of the goodputs: {jain} (1: all equal)."
    if "instruments" in figures:
        yield f"\n{confession(figures['instruments'])}"


def tables_of(figures: RunJson) -> list[tables.Table]:
    """The tables of a run, without the sentences between them."""
    return [part for part in parts_of(figures) if isinstance(part, tables.Table)]


def plain(parts: list[Part]) -> str | None:
    """The parts as text; None if a line must be wrapped or the width of its characters is not
    certain.

    >>> cells = [tables.Cell("bbr"), tables.Cell("8.25")]
    >>> print(plain(["One flow", tables.Table("", ("cc",), ("Mbit/s",), [cells])]), end="")
    One flow
    cc   Mbit/s
    bbr    8.25
    """
    lines: list[str] = []
    for part in parts:
        if isinstance(part, tables.Table):
            lines += _table_lines(part)
        else:
            text = one_line(part if isinstance(part, str) else part[0])
            lines += text.split("\n")
    whole = "".join(f"{line}\n" for line in lines)
    fits = all(len(line) <= PIPE_COLUMNS for line in lines)
    return whole if fits and _NARROW.fullmatch(whole) else None


def _table_lines(table: tables.Table) -> list[str]:
    rows = [(*table.words, *table.numbers), *([cell.text for cell in row] for row in table.rows)]
    shown = [[one_line(text) for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    words = len(table.words)
    return [
        "  ".join(
            text.ljust(width) if at < words else text.rjust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in shown
    ]
