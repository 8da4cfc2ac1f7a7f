"""Repeats the published maps of BBR, BBRv2 and CUBIC. The cells of a map have 8 rates, 8 RTTs and 2
buffers; each run is one flow for 60 s.

There are three sets over the same paths: Linux 4.15, Linux 5.15, and BBRv2 on Linux 5.13.12.
`narrows.reproduce.published.LIKE` contains the kernel rules of the simulated hosts for each set,
and the reason for them. Each set has its own criteria; those of the first two are the same.

`narrows.reproduce.published` contains the cells and their setup. Of the gain of BBR over CUBIC
under the same kernel, only the sign is compared. Published gains below 10 % are not compared.
Readers use the map to find the faster congestion control.

In half of BBR's cells, no segment was retransmitted in all five published trials. A factor cannot
be applied to zero, so zero is a separate class. If zero was published, the result must be zero.
Otherwise the number of retransmits must be within a factor of the published number. The report also
states the number of cells that would agree if 0.01 % of the segments were added to both numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from narrows.json_object import JsonObject
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
from validation.stored import known

TRIALS = 5
"""Number of runs of each cell, as published. In some cells the start of the flow relative to the
timer tick decides the result.
"""

LENIENT = 1e-4
"""Share of the segments that is added to both numbers of retransmits for the lenient comparison."""

CCS = tuple(dict.fromkeys(cc for ccs in MAPS.values() for cc in ccs))


@dataclass(frozen=True, kw_only=True)
class Maps:
    """The results of one published set.

    Attributes:
        kernel: The Linux release of the published results.
        like: The kernel rules of the simulated hosts.
        results: For each congestion control, the results of its cells.
    """

    kernel: str
    like: str
    results: dict[str, list[Result]]

    def gains(self) -> list[Gain]:
        """The published and the simulated gain of BBR over CUBIC in each cell."""
        return gains([r for results in self.results.values() for r in results])


def can_run() -> tuple[list[str], list[str]]:
    """The congestion controls of the maps that this version has, and those that it lacks."""
    ccs, _ = known()
    return [cc for cc in CCS if cc in ccs], [cc for cc in CCS if cc not in ccs]


def play(
    *,
    up_to_mbit: float,
    like: str | None = None,
    jobs: int | None = None,
    done: Callable[[float], object] = lambda _: None,
) -> list[Maps]:
    """Runs every cell of every map whose rate is at most `up_to_mbit`. `like` replaces the kernel
    rules of all sets.
    """
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
    """The Linux release and the congestion control of every map that this version can run."""
    runs = can_run()[0]
    return [(kernel, cc) for kernel, ccs in MAPS.items() for cc in ccs if cc in runs]


def cost(*, up_to_mbit: float) -> float:
    """The sum of all costs that `done` of this part receives."""
    rates = (c.rate_mbit for kernel, cc in _maps() for c in cells(cc, kernel))
    return float(TRIALS * sum(rate for rate in rates if rate <= up_to_mbit))


def again_agrees_leniently(result: Result) -> bool:
    """Whether the retransmits agree after the share `LENIENT` of the segments was added to both."""
    added = LENIENT * result.cell.goodput_mbit * 1e6 * TEST_S / 8 / 1448
    ours, theirs = result.retransmits + added, result.cell.retransmits + added
    return 1 / result.cell.again_factor <= ours / theirs <= result.cell.again_factor


def criteria(maps: Maps) -> list[Criterion]:
    """The criteria of a set, for those of its maps that were run."""
    found = all_criteria([r for results in maps.results.values() for r in results])
    return [
        replace(c, name=f"published of {maps.kernel}: {c.name.removesuffix(',')}") for c in found
    ]


@dataclass(frozen=True, kw_only=True)
class Off:
    """A metric of a cell that disagrees.

    Attributes:
        case: The name of the cell, `P-<Linux>-<cc>-<buffer in KiB>-<Mbit/s>-<RTT in ms>`.
        figure: `goodput_mbit`, `retransmits` or `gain_pct`.
        published: The published value.
        ours: The value of narrows.
    """

    case: str
    figure: str
    published: float
    ours: float

    @property
    def off(self) -> float:
        """The difference of the two values, relative to the published one."""
        return abs(self.ours - self.published) / (0.1 + abs(self.published))


def disagreements(maps: Maps) -> list[Off]:
    """The metrics of all cells whose difference exceeds the tolerance."""
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


def document(maps: Maps) -> JsonObject:
    """A set as one JSON object."""
    return {
        "published_of": maps.kernel,
        "like": maps.like,
        "left_out": can_run()[1],
        "cells": {cc: [r.json() for r in results] for cc, results in maps.results.items()},
        "criteria": [c.json() for c in criteria(maps)],
    }
