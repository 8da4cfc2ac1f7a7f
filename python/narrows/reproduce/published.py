"""A published experiment: its cells, the published figures, and the criteria of agreement.

A cell is a configuration of the experiment: one flow for 60 s. There are 8 rates, 8 RTTs and 2
buffers, with CUBIC or BBR of Linux 4.15 or 5.15, or BBRv2 of Linux 5.13.12. The published values
are those of figure 5 of Cao et al. (IMC 2019), as measured again by Datta and Fund (IMC 2023).
`docs/explanation/published-experiments.md` describes and explains the differences.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path as FilePath
from statistics import fmean, median_low
from typing import Any

from narrows.reproduce.model import CellJson, CriterionJson, GainJson
from narrows.runs.engines import SIM, EngineChoice
from narrows.runs.model import measured
from narrows.runs.parallel import everywhere
from narrows.runs.run import Progress
from narrows.runs.scenario import Flow, Host, Path, Scenario
from narrows.storage import output

DATA = "data/datta-fund-2023-{}-{}.csv"
TITLE = (
    "BBR or CUBIC? One flow for 60 s (Cao et al., IMC 2019, as replicated by Datta and Fund, "
    "IMC 2023)"
)

KERNEL = "4.15"
"""The Linux release of Cao et al.; `narrows demo` shows the maps of this release."""

LIKE = {"4.15": "linux-4.15", "5.15": "linux-5.15.60", "5.13.12": "linux-5.13.12"}
"""Linux releases of the published maps, and the value of `like` of the simulated hosts for each.

The hosts with Linux 5.15 had Ubuntu's kernel of 2022. The later stable releases 5.15.75 and
5.15.196 have fixes that it lacked.
"""

MAPS = {"4.15": ("cubic", "bbr"), "5.15": ("cubic", "bbr"), "5.13.12": ("bbr2",)}
"""Congestion controls of the stored maps, by kernel."""

TICK_HZ = 250
"""Timer frequency of the hosts, in Hz: CONFIG_HZ of the generic kernels of Ubuntu."""

TEST_S = 60
"""Duration of an iperf3 test, in seconds."""

DEEP_TOLERANCE = 0.1
"""CUBIC with a buffer of at least one bandwidth-delay product: maximum relative difference of
goodput in every cell.
"""

SHALLOW_TOLERANCE = 0.35
SHALLOW_FACTOR = 1.6
SHALLOW_SHARE = 0.8
"""CUBIC with a smaller buffer: maximum relative difference or factor of goodput, in 80 % of the
cells. The limits are wide because trials of one cell differ widely.
"""

BBR_TOLERANCE, BBR_SHARE = 0.05, 0.9
"""BBR: maximum relative difference of goodput, in 90 % of the cells."""

AGAIN_FACTOR, AGAIN_SHARE = 1.5, 0.7
"""BBR: maximum factor between the numbers of retransmits, in 70 % of the cells. If zero was
published, the number must be zero."""

BBR2_TOLERANCE, BBR2_SHARE = 0.1, 0.8
BBR2_AGAIN_FACTOR = 2
"""BBRv2, for each buffer size: maximum relative difference of goodput in 80 % of the cells, and
maximum factor between the numbers of retransmits in 70 %.
"""

GAIN_FROM, GAIN_SHARE = 0.1, 0.85
"""Cells count in which the published gain of BBR over CUBIC is at least 10 % in either direction.
In 85 % of them, the simulated gain must have the same sign.
"""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of the published maps.

    Attributes:
        kernel: The Linux release of its hosts, a key of `LIKE`.
        cc: The congestion control.
        buffer_kib: Buffer size of the bottleneck, in KiB, which `tc` writes as `kb`.
        rate_mbit: Rate of the bottleneck, in Mbit/s.
        rtt_ms: Base RTT, in ms.
        trials: Number of published trials; 0 if the cell was not published.
        goodput_mbit: Mean goodput of the trials, in Mbit/s.
        goodput_mbit_sd: Standard deviation of the goodput, in Mbit/s.
        goodput_mbit_min: Smallest goodput of a trial, in Mbit/s.
        goodput_mbit_max: Largest goodput of a trial, in Mbit/s.
        retransmits: Median number of retransmits of the trials.
    """

    kernel: str = KERNEL
    cc: str = "cubic"
    buffer_kib: int
    rate_mbit: int
    rtt_ms: int
    trials: int
    goodput_mbit: float
    goodput_mbit_sd: float
    goodput_mbit_min: float
    goodput_mbit_max: float
    retransmits: int

    @property
    def buffer_bdp(self) -> float:
        """The buffer size in bandwidth-delay products."""
        return self.buffer_kib * 1024 * 8 / (self.rate_mbit * self.rtt_ms * 1000)

    @property
    def deep(self) -> bool:
        """Whether the buffer holds at least one bandwidth-delay product."""
        return self.buffer_bdp >= 1

    def agrees(self, goodput_mbit: float) -> bool:
        """Whether a simulated goodput is within the tolerance of the published one."""
        off = abs(goodput_mbit - self.goodput_mbit) / self.goodput_mbit
        if self.cc == "bbr":
            return off <= BBR_TOLERANCE
        if self.cc == "bbr2":
            return off <= BBR2_TOLERANCE
        if self.deep:
            return off <= DEEP_TOLERANCE
        least = self.goodput_mbit / SHALLOW_FACTOR
        return (
            off <= SHALLOW_TOLERANCE or least <= goodput_mbit <= self.goodput_mbit * SHALLOW_FACTOR
        )

    @property
    def again_factor(self) -> float:
        """Accepted factor between the simulated and the published number of retransmits."""
        return BBR2_AGAIN_FACTOR if self.cc == "bbr2" else AGAIN_FACTOR

    def scenario(self, *, like: str | None = None) -> Scenario:
        """The configuration of the cell, with the whole delay on the reverse path and large socket
        buffers.

        The run lasts longer than the test, because the receiver of iperf3 also counts data that are
        queued at the end; see `received_mbit`. The start of the flow is random within one tick.
        `like` overrides the release in `LIKE`.
        """
        waiting_s = self.buffer_kib * 1024 * 8 / (self.rate_mbit * 1e6)
        return Scenario(
            Path(
                rate=f"{self.rate_mbit}Mbit",
                rtt=f"{self.rtt_ms}ms",
                delay_forward="0s",
                buffer=f"{self.buffer_kib}KiB",
                queue="fifo",
                link={"kind": "htb", "burst": "1600B"},
                offload=True,
            ),
            title=f"{self.cc.upper()}, {self.rate_mbit} Mbit/s, {self.rtt_ms} ms, "
            f"{self.buffer_kib} KiB",
            flows=[Flow(self.cc)],
            host=Host(like=like or LIKE[self.kernel], hz=TICK_HZ, rmem="200MB…200MB"),
            duration=f"{math.ceil(TEST_S + 2 * self.rtt_ms / 1000 + waiting_s) + 1}s",
            warmup="0s",
            start_jitter=f"{1000 // TICK_HZ}ms",
        )


@dataclass(frozen=True, kw_only=True)
class Result:
    """Result of the simulation of a cell.

    Attributes:
        cell: The cell, with the published values.
        goodput_mbit: Goodput, computed as by the receiver of iperf3, in Mbit/s.
        retransmits: Number of retransmits.
        rtt_ms: Mean smoothed RTT, in ms.
    """

    cell: Cell
    goodput_mbit: float
    retransmits: int
    rtt_ms: float

    @property
    def agrees(self) -> bool:
        """True if the goodput agrees with the published goodput."""
        return self.cell.agrees(self.goodput_mbit)

    @property
    def sends_again_as_often(self) -> bool:
        """True if the simulated and the published number of retransmits differ by at most the
        accepted factor; zero agrees with zero only.
        """
        ours, theirs = self.retransmits, self.cell.retransmits
        if not ours or not theirs:
            return ours == theirs
        return 1 / self.cell.again_factor <= ours / theirs <= self.cell.again_factor

    def json(self) -> CellJson:
        """The simulated and published values of the cell as a JSON object."""
        cell = self.cell
        return {
            "kernel": cell.kernel,
            "cc": cell.cc,
            "buffer_bytes": cell.buffer_kib * 1024,
            "buffer_bdp": round(cell.buffer_bdp, 4),
            "rate_mbit": cell.rate_mbit,
            "rtt_ms": cell.rtt_ms,
            "goodput_mbit": round(self.goodput_mbit, 2),
            "retransmits": self.retransmits,
            "srtt_ms_mean": self.rtt_ms,
            "published": {
                "goodput_mbit": cell.goodput_mbit,
                "goodput_mbit_sd": cell.goodput_mbit_sd,
                "goodput_mbit_min": cell.goodput_mbit_min,
                "goodput_mbit_max": cell.goodput_mbit_max,
                "retransmits_median": cell.retransmits,
                "trials": cell.trials,
            },
            "agrees": self.agrees,
        }


@dataclass(frozen=True, kw_only=True)
class Gain:
    """BBR compared with CUBIC in one cell.

    Attributes:
        bbr: Result of BBR.
        cubic: Result of CUBIC.
    """

    bbr: Result
    cubic: Result

    @property
    def ours(self) -> float:
        """Simulated gain of BBR over CUBIC, as a fraction of the goodput of CUBIC."""
        return self.bbr.goodput_mbit / max(self.cubic.goodput_mbit, 1e-9) - 1

    @property
    def published(self) -> float:
        """Published gain of BBR over CUBIC, as a fraction of the goodput of CUBIC."""
        return self.bbr.cell.goodput_mbit / self.cubic.cell.goodput_mbit - 1

    @property
    def clear(self) -> bool:
        """True if the amount of the simulated or the published gain is at least `GAIN_FROM`."""
        return max(abs(self.ours), abs(self.published)) >= GAIN_FROM

    @property
    def agrees(self) -> bool:
        """True if both gains have the same sign, or if the published gain is below `GAIN_FROM` in
        either direction.
        """
        return abs(self.published) < GAIN_FROM or (self.ours > 0) == (self.published > 0)

    def json(self) -> GainJson:
        """The simulated and the published gain as a JSON object."""
        cell = self.bbr.cell
        return {
            "buffer_bytes": cell.buffer_kib * 1024,
            "rate_mbit": cell.rate_mbit,
            "rtt_ms": cell.rtt_ms,
            "gain_pct": round(100 * self.ours, 2),
            "published_gain_pct": round(100 * self.published, 2),
            "agrees": self.agrees,
        }


def gains(results: Sequence[Result]) -> list[Gain]:
    """The gain in every cell for which both BBR and CUBIC have a result with the same Linux
    release.
    """

    def place(cell: Cell) -> tuple[str, int, int, int]:
        return cell.kernel, cell.buffer_kib, cell.rate_mbit, cell.rtt_ms

    cubic = {place(r.cell): r for r in results if r.cell.cc == "cubic"}
    bbr = [r for r in results if r.cell.cc == "bbr" and place(r.cell) in cubic]
    return [Gain(bbr=r, cubic=cubic[place(r.cell)]) for r in bbr]


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """A criterion of agreement.

    Attributes:
        name: Description.
        cells: Number of cells.
        agree: Number of cells that agree.
        share: Fraction of the cells that must agree.
    """

    name: str
    cells: int
    agree: int
    share: float

    @property
    def needed(self) -> int:
        """Number of cells that must agree."""
        return math.ceil(self.share * self.cells)

    @property
    def met(self) -> bool:
        """True if at least `needed` cells agree."""
        return self.agree >= self.needed

    def json(self) -> CriterionJson:
        """The numbers of the criterion as a JSON object."""
        return {
            "name": self.name,
            "cells": self.cells,
            "agree": self.agree,
            "needed": self.needed,
            "met": self.met,
        }


def criteria(results: Sequence[Result]) -> list[Criterion]:
    """The criteria of this experiment for which there are results."""
    cubic = [r for r in results if r.cell.cc == "cubic"]
    bbr = [r for r in results if r.cell.cc == "bbr"]
    clear = [g for g in gains(results) if abs(g.published) >= GAIN_FROM]
    judged = [
        (
            "sign of BBR's gain over CUBIC, where it is 10 % or more, agrees",
            [g.agrees for g in clear],
            GAIN_SHARE,
        ),
        ("BBR's goodput within 5 %", [r.agrees for r in bbr], BBR_SHARE),
        (
            "BBR's retransmissions within a factor of 1.5 (zero if zero was published)",
            [r.sends_again_as_often for r in bbr],
            AGAIN_SHARE,
        ),
        (
            "CUBIC's goodput with a buffer of one BDP or more within 10 %",
            [r.agrees for r in cubic if r.cell.deep],
            1.0,
        ),
        (
            "CUBIC's goodput with a smaller buffer within 35 % or a factor of 1.6",
            [r.agrees for r in cubic if not r.cell.deep],
            SHALLOW_SHARE,
        ),
    ]
    for buffer_kib in sorted({r.cell.buffer_kib for r in results}):
        bbr2 = [r for r in results if (r.cell.cc, r.cell.buffer_kib) == ("bbr2", buffer_kib)]
        judged += [
            (
                f"BBRv2's goodput with a buffer of {buffer_kib} KiB within 10 %",
                [r.agrees for r in bbr2],
                BBR2_SHARE,
            ),
            (
                f"BBRv2's retransmissions with a buffer of {buffer_kib} KiB within a factor of 2 "
                "(zero if none)",
                [r.sends_again_as_often for r in bbr2],
                AGAIN_SHARE,
            ),
        ]
    return [
        Criterion(name=name, cells=len(good), agree=sum(good), share=share)
        for name, good, share in judged
        if good
    ]


def cells(cc: str = "cubic", kernel: str = KERNEL) -> list[Cell]:
    """The published cells of a congestion control with a Linux release of `MAPS`, ordered by buffer
    size, rate and RTT.

    >>> len(cells()), cells("bbr", "5.15")[0].rate_mbit
    (128, 10)
    """
    text = resources.files("narrows").joinpath(DATA.format(cc, kernel)).read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return [
        Cell(
            kernel=kernel,
            cc=cc,
            buffer_kib=int(row["buffer_kib"]),
            rate_mbit=int(row["rate_mbit"]),
            rtt_ms=int(row["rtt_ms"]),
            trials=int(row["trials"]),
            goodput_mbit=float(row["goodput_mbit_mean"]),
            goodput_mbit_sd=float(row["goodput_mbit_sd"]),
            goodput_mbit_min=float(row["goodput_mbit_min"]),
            goodput_mbit_max=float(row["goodput_mbit_max"]),
            retransmits=int(row["retransmits_median"]),
        )
        for row in rows
    ]


def third(every: Sequence[Cell]) -> list[Cell]:
    """A third of the cells, along diagonals of the map, so that every rate, RTT and buffer size
    occurs.
    """
    rates = sorted({c.rate_mbit for c in every})
    rtts = sorted({c.rtt_ms for c in every})
    buffers = sorted({c.buffer_kib for c in every})
    return [
        c
        for c in every
        if (rates.index(c.rate_mbit) + rtts.index(c.rtt_ms) + buffers.index(c.buffer_kib)) % 3 == 0
    ]


def received_mbit(series: Sequence[Sequence[float]], rtt_ms: float) -> float:
    """Goodput as reported by the receiver of iperf3.

    `series` has rows of time (s), bytes acknowledged, window and smoothed RTT (ms). The test begins
    one RTT after the SYN. After 60 s, the final message of the sender waits behind all data in the
    queue. The receiver counts this data and divides by 60 s. These data are acknowledged one RTT
    after the end of the test, queueing delay included. With a buffer of 10 MB at 10 Mbit/s, this
    adds 8 s of data.
    """
    end_s = TEST_S + rtt_ms / 1000
    srtt_ms = next(row[3] for row in series if row[0] >= end_s)
    counted_s = end_s + srtt_ms / 1000
    before = next(row for row in reversed(series) if row[0] <= counted_s)
    after = next((row for row in series if row[0] > counted_s), before)
    share = 0.0 if after is before else (counted_s - before[0]) / (after[0] - before[0])
    return (before[1] + share * (after[1] - before[1])) * 8 / TEST_S / 1e6


def retransmits_at_end(samples: Mapping[str, Sequence[Any]], rtt_ms: float) -> int:
    """Number of retransmits until the end of the test, as the sender of iperf3 reports it."""
    end_s = TEST_S + rtt_ms / 1000
    told = zip(samples["t_s"], samples["retransmits"], strict=True)
    return int(max(n for t_s, n in told if t_s <= end_s))


def reproduce(
    todo: Sequence[Cell],
    done: Callable[[Cell], object] = lambda _: None,
    *,
    like: str | None = None,
    trials: int = 1,
    seed: int = 1,
    jobs: int | None = None,
    engine: EngineChoice = SIM,
    file: Callable[[str, int], FilePath | None] = lambda *_: None,
) -> list[Result]:
    """Runs the cells on every core and calls `done` after each trial; Ctrl-C stops all of them.

    With several trials, goodput and RTT are means, and the number of retransmits is the lower
    median, as published. The trials have consecutive seeds from `seed` on. `file` returns the file
    that stores the figures of a scenario and a seed.
    """

    def one(job: tuple[Cell, int], keep_on: Progress) -> tuple[float, int, float]:
        cell, own = job
        scenario = cell.scenario(like=like)
        kept = file(scenario.toml(), own)
        if kept is not None and kept.exists():
            goodput, again, rtt = json.loads(kept.read_text(encoding="utf-8"))
            return goodput, again, rtt
        run_ = engine.run(scenario, seed=own, sample_interval="1s", progress=keep_on)
        flow = run_.flows[0]
        found = (
            received_mbit(flow["series"], cell.rtt_ms),
            retransmits_at_end(run_.columns("samples"), cell.rtt_ms),
            measured(flow["sampled_rtt_ms"]["mean"]),
        )
        if kept is not None:
            output.write(kept, json.dumps(found))
        return found

    everyone = [(cell, own) for cell in todo for own in range(seed, seed + trials)]
    found = everywhere(
        everyone,
        one,
        cost=lambda job: job[0].rate_mbit * 1e6 + job[0].buffer_kib,
        done=lambda job: done(job[0]),
        jobs=jobs if engine == SIM else engine.jobs(jobs),
    )
    results = []
    for i, cell in enumerate(todo):
        goodputs, again, rtts = zip(*found[i * trials : (i + 1) * trials], strict=True)
        results.append(
            Result(
                cell=cell,
                goodput_mbit=fmean(goodputs),
                retransmits=median_low(again),
                rtt_ms=round(fmean(rtts), 3),
            )
        )
    return results
