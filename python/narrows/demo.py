"""What `narrows demo` shows: a published experiment, ours beside theirs, and what is to be learnt from it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any, TextIO

from narrows import __version__
from narrows.published import TITLE, Cell, Criterion, Result, cells, criteria, reproduce, third

STARVED = 0.7
"""Less than this part of the rate is told as starving."""

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


def demo(*, quick: bool = False, up_to: float | None = None, as_json: bool = False) -> bool:
    """Runs the experiment and shows it; tells whether its criteria are met."""
    todo = [c for c in (third(cells()) if quick else cells()) if up_to is None or c.rate_mbit <= up_to]
    begin = time.monotonic()
    with _progress(todo) as told:
        results = reproduce(todo, told)
    wall_s = time.monotonic() - begin
    if as_json:
        print(json.dumps(document(results, wall_s)))
    else:
        show(results, wall_s)
    return all(c.met for c in criteria(results))


def document(results: Sequence[Result], wall_s: float) -> dict[str, Any]:
    """The whole as one JSON object."""
    return {
        "narrows": __version__,
        "experiment": TITLE,
        "cells": [r.json() for r in results],
        "criteria": [c.json() for c in criteria(results)],
        "met": all(c.met for c in criteria(results)),
        "wall_s": round(wall_s, 3),
    }


@contextmanager
def _progress(todo: Sequence[Cell]) -> Iterator[Callable[[Cell], object]]:
    """A bar on stderr, for a terminal; a cell takes about as long as it has packets."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 - the JSON of a script needs none of it
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("connections of 60 s", total=sum(c.rate_mbit for c in todo))
        yield lambda cell: bar.advance(task, cell.rate_mbit)


def short(mbit: float) -> str:
    """Mbit/s in at most four characters.

    >>> short(9.56), short(47.83), short(956.6)
    ('9.6', '48', '957')
    """
    return f"{mbit:.1f}" if mbit < 9.95 else f"{mbit:.0f}"  # noqa: PLR2004


def show(results: Sequence[Result], wall_s: float, stream: TextIO | None = None) -> None:
    """Prints the maps, what they teach, and how well they agree."""
    from narrows.show import console  # noqa: PLC0415

    out = console(stream)
    print_ = out.print
    print_(f"{TITLE}.", style="bold")
    print_("Goodput in Mbit/s, ours|published.", legend())
    for buffer_kib in sorted({r.cell.buffer_kib for r in results}):
        here = [r for r in results if r.cell.buffer_kib == buffer_kib]
        print_()
        print_(f"Buffer {_buffer(buffer_kib)}", style="bold")
        print_(_map(here))
        print_(lesson(here))
    print_()
    for criterion in criteria(results):
        print_(verdict(criterion), style="green" if criterion.met else "red")
    print_(retransmissions(results))
    packets = sum(r.goodput_mbit for r in results) * 60e6 / 8 / 1448
    print_(f"{len(results)} connections of 60 s, {packets / 1e6:.0f} million segments, in {wall_s:.1f} s.")


def legend() -> Text:
    """What colours and marks mean, in words."""
    from rich.text import Text  # noqa: PLC0415

    return Text.assemble(
        ("Green", "green"),
        ": agrees. ",
        ("Red with !", "red"),
        ": does not. ",
        ("Dim", "dim"),
        ": buffer below a BDP.",
    )


def _buffer(kib: int) -> str:
    return f"{kib} KB" if kib < 1000 else f"{kib / 1000:g} MB"  # noqa: PLR2004


def _map(results: Sequence[Result]) -> Table:
    """Rates down, RTTs across."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    every = cells()
    table = Table(box=None, padding=(0, 0, 0, 1), pad_edge=False, header_style="bold")
    table.add_column("Mbit/s", justify="right", style="bold")
    rtts = sorted({c.rtt_ms for c in every})
    for rtt_ms in rtts:
        table.add_column(f"{rtt_ms} ms ", justify="right")
    by_place = {(r.cell.rate_mbit, r.cell.rtt_ms): r for r in results}
    for rate_mbit in sorted({r.cell.rate_mbit for r in results}):
        row = []
        for rtt_ms in rtts:
            r = by_place.get((rate_mbit, rtt_ms))
            if r is None:
                row.append(Text("· "))
                continue
            text = f"{short(r.goodput_mbit)}|{short(r.cell.goodput_mbit)}{' ' if r.agrees else '!'}"
            style = ("green" if r.agrees else "red") + ("" if r.cell.deep else " dim")
            row.append(Text(text, style=style))
        table.add_row(str(rate_mbit), *row)
    return table


def lesson(results: Sequence[Result]) -> str:
    """What the map of one buffer teaches, with its numbers."""
    buffer = _buffer(results[0].cell.buffer_kib)
    worst = min(results, key=lambda r: r.cell.buffer_bdp)
    if _used(worst) < STARVED:
        cell = worst.cell
        return (
            f"A {buffer} buffer starves CUBIC on long fast paths: at {cell.rate_mbit} Mbit/s and {cell.rtt_ms} ms it "
            f"holds {100 * cell.buffer_bdp:.1f} % of a BDP and the flow gets {short(worst.goodput_mbit)} Mbit/s "
            f"(published {short(cell.goodput_mbit)}): what a loss takes grows back over many round trips."
        )
    least = min(map(_used, results))
    published = min(r.cell.goodput_mbit / r.cell.rate_mbit for r in results)
    slowest = max(results, key=_waited_s)
    return (
        f"A {buffer} buffer lets CUBIC use at least {100 * least:.0f} % of every path here "
        f"(published {100 * published:.0f} %); the price is delay: "
        f"at {slowest.cell.rate_mbit} Mbit/s packets wait {_waited_s(slowest):.1f} s on average."
    )


def _used(result: Result) -> float:
    return result.goodput_mbit / result.cell.rate_mbit


def _waited_s(result: Result) -> float:
    return (result.rtt_ms - result.cell.rtt_ms) / 1000


def verdict(criterion: Criterion) -> str:
    """A criterion in a sentence.

    >>> verdict(Criterion(name="buffer of one BDP or more: within 10 %", cells=69, agree=69, share=1.0))
    'Buffer of one BDP or more: within 10 % in 69 of 69 cells (69 needed): met.'
    """
    return (
        f"{criterion.name[0].upper()}{criterion.name[1:]} in {criterion.agree} of {criterion.cells} cells "
        f"({criterion.needed} needed): {'met' if criterion.met else 'not met'}."
    )


def retransmissions(results: Sequence[Result]) -> str:
    """How ours compare with the published ones; information, not a criterion."""
    parts = []
    for buffer_kib in sorted({r.cell.buffer_kib for r in results}):
        ratios = [r.retransmits / r.cell.retransmits for r in results if r.cell.buffer_kib == buffer_kib]
        parts.append(f"{median(ratios):.2f} times theirs with {_buffer(buffer_kib)}")
    return f"Retransmissions, for information: in the median cell {', '.join(parts)}."
