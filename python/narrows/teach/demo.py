"""Output of `narrows demo`: BBR and CUBIC over 128 paths, compared with published measurements."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from narrows import __version__
from narrows.render.progress import ProgressBar
from narrows.reproduce.model import DemoJson
from narrows.reproduce.published import (
    KERNEL,
    LIKE,
    MAPS,
    TITLE,
    Cell,
    Result,
    cells,
    criteria,
    gains,
    reproduce,
    third,
)
from narrows.teach.render import show_maps


def demo(
    *, quick: bool = False, up_to: float | None = None, goodput: bool = False, as_json: bool = False
) -> bool:
    """Runs the experiment and prints it; returns whether its criteria are met."""
    todo = [
        cell
        for cc in MAPS[KERNEL]
        for cell in (third(cells(cc)) if quick else cells(cc))
        if up_to is None or cell.rate_mbit <= up_to
    ]
    begin = time.monotonic()
    # The run time of a cell is about proportional to its packets, and thus to its rate.
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
        show_maps(results, wall_s, goodput=goodput)
    return all(c.met for c in criteria(results))


def document(results: Sequence[Result], wall_s: float) -> DemoJson:
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
