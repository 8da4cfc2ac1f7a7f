"""The published maps of BBR, BBRv2 and CUBIC, run again: 8 rates, 8 round-trip times and 2 buffers,
one flow for 60 s.

There are three sets over the same paths, of Linux 4.15 and of 5.15, and of BBRv2 on 5.13.12;
`narrows.reproduce.published.LIKE` says what our hosts are like for each, and why. Each set has its
own criteria; those of the first two are the same.

`narrows.reproduce.published` holds the cells and how they are set up; here is what BBR's must keep.
Of the gain of BBR over CUBIC, both under the same kernel, only the sign is judged, and only where
it is a tenth or more: the map is read for who wins.

Half of BBR's cells were published without a single retransmission, in all five trials. Zero is not
within a factor of
anything, so it is a class of its own: where none was published, none must be ours, and where some
were, the counts must be within the factor. How many cells would agree if 0.01 % of the segments
were added to both counts is told beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from narrows.reproduce.published import (
    LIKE,
    MAPS,
    TEST_S,
    Cell,
    Criterion,
    Gain,
    Result,
    cells,
    gains,
    reproduce,
)
from narrows.reproduce.published import criteria as all_criteria
from validation.stored import Json, known

TRIALS = 5
"""Of each cell, as many as were published: when a flow begins within a tick decides some cells."""

LENIENT = 1e-4
"""The share of the segments that the lenient count of retransmissions adds to both."""

CCS = tuple(dict.fromkeys(cc for ccs in MAPS.values() for cc in ccs))


@dataclass(frozen=True, kw_only=True)
class Maps:
    """One set, run again.

    Attributes:
        kernel: The Linux it was published of.
        like: The one that our hosts were like.
        results: A list of cells for each congestion control.
    """

    kernel: str
    like: str
    results: dict[str, list[Result]]

    def gains(self) -> list[Gain]:
        """BBR beside CUBIC, cell by cell."""
        return gains([r for results in self.results.values() for r in results])


def can_run() -> tuple[list[str], list[str]]:
    """The congestion controls of the maps that this version has, and those it has not."""
    ccs, _ = known()
    return [cc for cc in CCS if cc in ccs], [cc for cc in CCS if cc not in ccs]


def play(
    *,
    up_to_mbit: float,
    like: str | None = None,
    jobs: int | None = None,
    done: Callable[[float], object] = lambda _: None,
) -> list[Maps]:
    """Runs every cell of every map again, up to a rate; `like` is for both sets."""
    todo = [
        cell for kernel, cc in _maps() for cell in cells(cc, kernel) if cell.rate_mbit <= up_to_mbit
    ]
    found = reproduce(todo, lambda cell: done(cell.rate_mbit), like=like, trials=TRIALS, jobs=jobs)
    return [
        Maps(
            kernel=kernel,
            like=like or LIKE[kernel],
            results={
                cc: [r for r in found if (r.cell.kernel, r.cell.cc) == (kernel, cc)]
                for of, cc in _maps()
                if of == kernel
            },
        )
        for kernel in dict.fromkeys(kernel for kernel, _ in _maps())
    ]


def _maps() -> list[tuple[str, str]]:
    """Every map that this version can run: its Linux, its congestion control."""
    runs = can_run()[0]
    return [(kernel, cc) for kernel, ccs in MAPS.items() for cc in ccs if cc in runs]


def cost(*, up_to_mbit: float) -> float:
    """What `done` adds up to."""
    rates = (c.rate_mbit for kernel, cc in _maps() for c in cells(cc, kernel))
    return float(TRIALS * sum(rate for rate in rates if rate <= up_to_mbit))


def again_agrees_leniently(result: Result) -> bool:
    """The same, where so few that they are none count as none."""
    added = LENIENT * result.cell.goodput_mbit * 1e6 * TEST_S / 8 / 1448
    ours, theirs = result.retransmits + added, result.cell.retransmits + added
    return 1 / result.cell.again_factor <= ours / theirs <= result.cell.again_factor


def criteria(maps: Maps) -> list[Criterion]:
    """What a set must keep, of those maps that were run."""
    found = all_criteria([r for results in maps.results.values() for r in results])
    return [
        replace(c, name=f"published of {maps.kernel}: {c.name.removesuffix(',')}") for c in found
    ]


@dataclass(frozen=True, kw_only=True)
class Off:
    """A cell that disagrees in something.

    Attributes:
        case: Its name, `P-<Linux>-<cc>-<buffer in kb>-<rate>-<RTT>`.
        figure: `goodput_mbit`, `retransmits` or `gain_pct`.
        published: What was published.
        ours: What came out.
    """

    case: str
    figure: str
    published: float
    ours: float

    @property
    def off(self) -> float:
        """How far off, relative to what was published."""
        return abs(self.ours - self.published) / (0.1 + abs(self.published))


def disagreements(maps: Maps) -> list[Off]:
    """Every cell and figure that does not keep its limit."""
    found = []
    for cc, results in maps.results.items():
        for r in results:
            if not r.agrees:
                found.append(_off(r.cell, "goodput_mbit", r.cell.goodput_mbit, r.goodput_mbit))
            if cc != "cubic" and not r.sends_again_as_often:
                found.append(_off(r.cell, "retransmits", r.cell.retransmits, r.retransmits))
    for gain in maps.gains():
        if not gain.agrees:
            found.append(_off(gain.bbr.cell, "gain_pct", 100 * gain.published, 100 * gain.ours))
    return found


def _off(cell: Cell, figure: str, published: float, ours: float) -> Off:
    name = f"P-{cell.kernel}-{cell.cc}-{cell.buffer_kib}-{cell.rate_mbit}-{cell.rtt_ms}"
    return Off(case=name, figure=figure, published=published, ours=ours)


def document(maps: Maps) -> Json:
    """A set as one JSON object."""
    return {
        "published_of": maps.kernel,
        "like": maps.like,
        "left_out": can_run()[1],
        "cells": {cc: [r.json() for r in results] for cc, results in maps.results.items()},
        "criteria": [c.json() for c in criteria(maps)],
    }
