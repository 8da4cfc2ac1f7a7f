"""Output of `narrows demo`: BBR and CUBIC over 128 paths, compared with published measurements."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, TextIO

from rich.table import Table
from rich.text import Text

from narrows import __version__
from narrows.render.progress import ProgressBar
from narrows.render.terminal import console
from narrows.reproduce.published import (
    KERNEL,
    LIKE,
    TITLE,
    Cell,
    Criterion,
    Gain,
    Result,
    cells,
    criteria,
    gains,
    reproduce,
    third,
)

CCS = ("cubic", "bbr")


def demo(
    *, quick: bool = False, up_to: float | None = None, goodput: bool = False, as_json: bool = False
) -> bool:
    """Runs the experiment and prints it; returns whether its criteria are met."""
    todo = [
        cell
        for cc in CCS
        for cell in (third(cells(cc)) if quick else cells(cc))
        if up_to is None or cell.rate_mbit <= up_to
    ]
    begin = time.monotonic()
    # A cell takes about as long as it has packets.
    total, done = sum(cell.rate_mbit for cell in todo), 0.0
    with ProgressBar(quiet=False, of="connections of 60 s") as bar:

        def count(cell: Cell) -> None:
            nonlocal done
            done += cell.rate_mbit
            bar(done, total)

        results = reproduce(todo, count)
    wall_s = time.monotonic() - begin
    if as_json:
        print(json.dumps(document(results, wall_s)))
    else:
        show(results, wall_s, goodput=goodput)
    return all(c.met for c in criteria(results))


def document(results: Sequence[Result], wall_s: float) -> dict[str, Any]:
    """The results as one JSON object."""
    return {
        "narrows": __version__,
        "experiment": TITLE,
        "like": LIKE[KERNEL],
        "cells": [r.json() for r in results],
        "gains": [g.json() for g in gains(results)],
        "criteria": [c.json() for c in criteria(results)],
        "met": all(c.met for c in criteria(results)),
        "wall_s": round(wall_s, 3),
    }


def short(mbit: float) -> str:
    """Mbit/s in at most four characters.

    >>> short(9.56), short(47.83), short(956.6)
    ('9.6', '48', '957')
    """
    return f"{mbit:.1f}" if mbit < 9.95 else f"{mbit:.0f}"  # noqa: PLR2004


def percent(share: float) -> str:
    """A gain in whole percent, with a sign if it is negative.

    >>> percent(1.149), percent(-0.3), percent(-0.001)
    ('115', '-30', '0')
    """
    return str(round(100 * share))


def show(
    results: Sequence[Result], wall_s: float, stream: TextIO | None = None, *, goodput: bool = False
) -> None:
    """Prints the maps, conclusions, and criteria."""
    out = console(stream)
    print_ = out.print
    print_(f"{TITLE}.", style="bold")
    print_("Gain of BBR over CUBIC, in % of the goodput of CUBIC: narrows|published.", legend())
    every = gains(results)
    for buffer_kib in sorted({g.bbr.cell.buffer_kib for g in every}):
        here = [g for g in every if g.bbr.cell.buffer_kib == buffer_kib]
        print_()
        print_(f"Buffer {_buffer(buffer_kib)}", style="bold")
        print_(_map(here, _gain))
        print_(lesson(here))
    for cc in CCS if goodput else ():
        for buffer_kib in sorted({r.cell.buffer_kib for r in results}):
            mine = [r for r in results if (r.cell.cc, r.cell.buffer_kib) == (cc, buffer_kib)]
            print_()
            print_(
                f"Goodput of {cc.upper()} in Mbit/s, narrows|published, buffer "
                f"{_buffer(buffer_kib)}",
                style="bold",
            )
            print_(_map(mine, _goodput))
    print_()
    for criterion in criteria(results):
        print_(verdict(criterion), style="green" if criterion.met else "red")
    packets = sum(r.goodput_mbit for r in results) * 60e6 / 8 / 1448
    print_(
        f"{len(results)} connections of 60 s, {packets / 1e6:.0f} million segments, in "
        f"{wall_s:.1f} s."
    )


def legend() -> Text:
    """Legend of colours and marks."""
    return Text.assemble(
        ("Green", "green"),
        ": BBR leads by 10 % or more. ",
        ("Magenta", "magenta"),
        ": CUBIC leads. ",
        ("!", "red"),
        ": disagrees with the publication.",
    )


def _buffer(kib: int) -> str:
    return f"{kib} KB" if kib < 1000 else f"{kib / 1000:g} MB"  # noqa: PLR2004


def _gain(gain: Gain) -> tuple[Cell, str, str]:
    mark = " " if gain.agrees else "!"
    style = (
        "red"
        if not gain.agrees
        else "dim"
        if not gain.clear
        else "green"
        if gain.ours > 0
        else "magenta"
    )
    return gain.bbr.cell, f"{percent(gain.ours)}|{percent(gain.published)}{mark}", style


def _goodput(result: Result) -> tuple[Cell, str, str]:
    mark = " " if result.agrees else "!"
    text = f"{short(result.goodput_mbit)}|{short(result.cell.goodput_mbit)}{mark}"
    return result.cell, text, "green" if result.agrees else "red"


def _map(items: Sequence[Any], told: Callable[[Any], tuple[Cell, str, str]]) -> Table:
    """Rates down, RTTs across."""
    table = Table(box=None, padding=(0, 0, 0, 1), pad_edge=False, header_style="bold")
    table.add_column("Mbit/s", justify="right", style="bold")
    rtts = sorted({c.rtt_ms for c in cells()})
    for rtt_ms in rtts:
        table.add_column(f"{rtt_ms} ms ", justify="right", no_wrap=True)
    by_place = {
        (cell.rate_mbit, cell.rtt_ms): (text, style) for cell, text, style in map(told, items)
    }
    for rate_mbit in sorted({rate for rate, _ in by_place}):
        row = [Text(*by_place.get((rate_mbit, rtt_ms), ("· ", ""))) for rtt_ms in rtts]
        table.add_row(str(rate_mbit), *row)
    return table


def lesson(here: Sequence[Gain]) -> str:
    """Conclusion from the map of one buffer."""
    buffer = _buffer(here[0].bbr.cell.buffer_kib)
    most = max(here, key=lambda g: g.ours)
    cell = most.bbr.cell
    if most.clear and most.ours > 1:
        again = median(
            r.retransmits / max(1.0, r.goodput_mbit * 60e6 / 8 / 1448)
            for r in (g.bbr for g in here)
        )
        return (
            f"With a buffer of {buffer}, CUBIC has little goodput on paths with a large "
            "bandwidth-delay product. At "
            f"{cell.rate_mbit} Mbit/s and {cell.rtt_ms} ms, the buffer holds "
            f"{100 * cell.buffer_bdp:.1f} % of a BDP; "
            f"CUBIC has {short(most.cubic.goodput_mbit)} Mbit/s (published "
            f"{short(most.cubic.cell.goodput_mbit)}), "
            f"BBR {short(most.bbr.goodput_mbit)} Mbit/s (published {short(cell.goodput_mbit)}). "
            "The median "
            f"retransmission rate of BBR is {100 * again:.1f} %."
        )
    slowest = max(here, key=lambda g: _waited_s(g.cubic))
    return (
        f"With a buffer of {buffer}, the gain of BBR is {percent(min(g.ours for g in here))} to "
        f"{percent(most.ours)} %. At {slowest.cubic.cell.rate_mbit} Mbit/s and "
        f"{slowest.cubic.cell.rtt_ms} ms, the "
        f"mean queueing delay is {_waited_s(slowest.cubic):.1f} s with CUBIC and "
        f"{_waited_s(slowest.bbr):.2f} s with "
        "BBR."
    )


def _waited_s(result: Result) -> float:
    return max(0.0, result.rtt_ms - result.cell.rtt_ms) / 1000


def verdict(criterion: Criterion) -> str:
    """A criterion in a sentence.

    >>> verdict(Criterion(name="buffer of one BDP or more: within 10 %", cells=69, agree=69,
    ...     share=1.0))
    'Buffer of one BDP or more: within 10 % in 69 of 69 cells (69 needed): met.'
    """
    return (
        f"{criterion.name[0].upper()}{criterion.name[1:]} in {criterion.agree} of "
        f"{criterion.cells} cells "
        f"({criterion.needed} needed): {'met' if criterion.met else 'not met'}."
    )
