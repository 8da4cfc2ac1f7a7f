"""Prints tables and runs with the styles of Rich, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from rich.box import SIMPLE_HEAD
from rich.table import Table

from narrows.render import tables
from narrows.render.terminal import console, within_line

if TYPE_CHECKING:
    from rich.console import Console

    from narrows.render.run import Part


def table(out: Console, shown: tables.Table) -> None:
    """Prints a table."""
    lines = Table(box=SIMPLE_HEAD if out.is_terminal else None, pad_edge=False, header_style="bold")
    for name in shown.words:
        lines.add_column(within_line(name))
    for column in shown.numbers:
        lines.add_column(within_line(column), justify="right")
    for row in shown.rows:
        lines.add_row(*(within_line(cell.text) for cell in row))
    out.print(lines)


def show_parts(parts: Iterable[Part], stream: TextIO | None) -> None:
    """Prints the parts of a run."""
    out = console(stream)
    for part in parts:
        if isinstance(part, tables.Table):
            table(out, part)
        elif isinstance(part, tuple):
            out.print(part[0], style=part[1])
        else:
            out.print(part)
