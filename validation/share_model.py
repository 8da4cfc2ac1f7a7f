"""Compares a published model of BBR's share in competition with CUBIC with Linux and narrows.

    python -m validation.share_model --program ORACLE    records runs of Linux 6.12
    python -m validation.share_model                     runs narrows and writes the page

The model is that of Ware et al. (IMC 2019). The first command writes rows of
`evidence/share-model-linux-6.12.csv`, and continues after an interruption. The second one writes
`evidence/share-model.md`. ORACLE is the program that `validation.published_linux` describes.

The path has 10 Mbit/s and 40 ms, as in the publication. Its flows last four minutes there. Here
they last ten minutes, because the flows in deep buffers have not converged after four. The order of
the starts has an effect for as long, so it is varied: together, CUBIC first, or BBR first.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path as File
from textwrap import fill
from typing import Any

from narrows.inference import LEVEL, half_width, of_independent
from narrows.json_object import JsonObject
from narrows.runs.parallel import everywhere
from narrows.runs.run import Progress, run
from narrows.runs.scenario import Flow, Path, Scenario
from validation.reproduced import linux as earlier
from validation.stored import HERE

DATA = HERE / "evidence/share-model-linux-6.12.csv"
EVIDENCE = HERE / "evidence/share-model.md"

MBIT, RTT_MS = 10, 40
BDP_BYTES = MBIT * 1000 * RTT_MS // 8
DEPTHS = (2, 8, 32, 64)
ORDERS = {"together": (0.0, 0.0), "CUBIC first": (10.0, 0.0), "BBR first": (0.0, 10.0)}
"""Start of BBR and of CUBIC, in s."""

OFFSETS = (0.005, 0.011, 0.017, 0.023, 0.031)
"""Additional delay of the start of the later flow in each run, in s. It is less than an RTT."""

STAGGER_S = 0.02
"""Time between the starts of several CUBIC flows, in s."""

TEST_S, LATE_S = 240.0, 300.0
"""Duration of the published runs, and of the interval at the end of ten minutes, in s."""

END_S = 600.0
"""Time after the start of the later flow at which a run ends, in s."""

FIGURES = ("first_pct", "late_pct")
KEYS = ("bdp", "cubic_flows", "order", "run")
TOLERANCE = 4.0
"""Largest difference of the means at which two shares are the same, in percentage points."""

SETUP = (
    "The share of one BBR flow in the goodput, in %, at 10 Mbit/s and 40 ms. The model is that of "
    "Ware et al. (IMC 2019). Linux is Linux 6.12 in virtual time (`ARCH=um`, time travel). The two "
    "flows start together, or one of them starts 10 s later. Runs of a row differ in the start of "
    "the later flow by less than one RTT. A cell has the mean of the runs and its 95 % confidence "
    "interval. Linux supports a value that lies in this interval, or differs from its mean by at "
    f"most {TOLERANCE:g} percentage points."
)

FINDING = (
    "If the flows start together, Linux supports narrows and not the model at all four buffers. "
    "In the four minutes of the publication, the interval of Linux is at least 10 percentage "
    "points below the model. At the end of ten minutes, the mean of Linux is 8 to 19 points below "
    "it. In buffers of 32 and 64 BDP, the flows have not converged after four minutes. The share "
    "of BBR is larger by more than half at the end of ten minutes. The order of the starts "
    "matters for about as long. If CUBIC starts first in 32 BDP, BBR has some 40 % in four "
    "minutes, which is close to the model. The order of the starts in the publication is not "
    "known here. With 64 BDP and CUBIC first, the runs of Linux have 8 to 13 %. Four of the five "
    "runs of narrows have 27 to 34 %. In this case, the share depends on the start: with a start "
    "of BBR outside of 10.0 to 10.5 s, narrows has 6 to 14 %. Linux on the path of narrows leaves "
    "Startup for the same starts ([experiment](share-starts.md)). The recorded runs of Linux have "
    "a token bucket of two packets, with which other starts have the large share."
)

CLOSE_S = 1e-3
"""Largest deviation of the time of a sample, in s."""

Sample = tuple[float, str, int]
"""Time in s, flow, bytes acknowledged so far."""

Shares = tuple[float, float | None]
"""BBR's share in the first minutes and in the last ones, in %; without the latter, the run ended
before.
"""


@dataclass(frozen=True)
class Case:
    """One run: buffer in BDP, number of CUBIC flows, order of the starts, number of the run."""

    bdp: int
    cubic_flows: int
    order: str
    run: int

    @property
    def starts(self) -> tuple[float, list[float]]:
        """Start of the BBR flow and of the CUBIC flows, in s."""
        bbr, cubic = ORDERS[self.order]
        offset = OFFSETS[self.run]
        if bbr > cubic:
            return bbr + offset, [cubic + STAGGER_S * n for n in range(self.cubic_flows)]
        return bbr, [cubic + offset + STAGGER_S * n for n in range(self.cubic_flows)]

    @property
    def later(self) -> float:
        """Start of the later flow, in s, without the time between CUBIC flows."""
        return max(ORDERS[self.order])

    @property
    def group(self) -> tuple[int, int, str]:
        """The key of the runs that differ in their offset only."""
        return self.bdp, self.cubic_flows, self.order


def cases() -> list[Case]:
    """All runs. An interruption leaves as many runs of each group."""
    groups = [(bdp, 1, order) for order in ORDERS for bdp in DEPTHS]
    groups.append((32, 16, "together"))
    return [Case(*group, run) for run in range(len(OFFSETS)) for group in groups]


def model(bdp: int, duration_s: float = TEST_S) -> float:
    """Share of one BBR flow according to the model, in %.

    >>> [round(model(bdp)) for bdp in DEPTHS]
    [78, 55, 44, 37]
    """
    per_s, base_s = MBIT * 1e6 / 8 / 1500, RTT_MS / 1000
    queue = bdp * per_s * base_s
    cubic = max(0.0, 0.5 - 1 / (2 * bdp) - 4 / queue)
    probing_s = (queue / per_s + 0.2 + base_s) * duration_s / 10
    return 100 * (1 - cubic) * (duration_s - probing_s) / duration_s


def description(case: Case, end_s: float) -> JsonObject:
    """The run as input of the program; it ends `end_s` after the start of the later flow."""
    bbr, cubic = case.starts
    flows = [{"id": "bbr", "cc": "bbr", "start": bbr}]
    flows += [{"id": f"cubic{n}", "cc": "cubic", "start": s} for n, s in enumerate(cubic)]
    return {
        "rate_mbit": MBIT,
        "rtt_ms": RTT_MS,
        "buffer_bytes": case.bdp * BDP_BYTES,
        "duration": case.later + end_s,
        "interval": 0.5,
        "flows": flows,
    }


def share_between(rows: Iterable[Sample], from_s: float, to_s: float) -> float:
    """BBR's share of the bytes that were acknowledged between two times, in %.

    >>> share_between([(0, "bbr0", 0), (0, "cubic0", 0), (9, "bbr0", 1), (9, "cubic0", 3)], 0, 9)
    25.0
    """
    ends = [dict[str, int](), dict[str, int]()]
    for t_s, flow, acked in rows:
        for end, at_s in zip(ends, (from_s, to_s), strict=True):
            if t_s <= at_s + CLOSE_S:
                end[flow] = max(acked, end.get(flow, 0))
    parts = {flow: acked - ends[0].get(flow, 0) for flow, acked in ends[1].items()}
    bbr = sum(acked for flow, acked in parts.items() if flow.startswith("bbr"))
    return round(100 * bbr / sum(parts.values()), 2)


def shares(rows: Sequence[Sample], case: Case, end_s: float) -> Shares:
    """BBR's share in the first minutes, and in the last ones of a whole run."""
    first = share_between(rows, case.later, case.later + TEST_S)
    if end_s < END_S:
        return first, None
    return first, share_between(rows, case.later + END_S - LATE_S, case.later + END_S)


def record(program: Sequence[str], case: Case, end_s: float) -> Shares:
    """One run of Linux."""
    # Not in /tmp, because the program has its own /tmp.
    with tempfile.TemporaryDirectory(dir=File.home()) as folder:
        file = File(folder) / "case.json"
        file.write_text(json.dumps(description(case, end_s)), encoding="utf-8")
        subprocess.run([*program, file, "--keep", folder], check=True, stdout=subprocess.DEVNULL)
        with (File(folder) / "flows.csv").open(encoding="utf-8") as told:
            rows = [(float(r["t"]), r["id"], int(r["bytes_acked"])) for r in csv.DictReader(told)]
    return shares(rows, case, end_s)


def recorded() -> dict[Case, Shares]:
    """The recorded runs of Linux."""
    if not DATA.exists():
        return {}
    lines = DATA.read_text(encoding="utf-8").splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return {
        Case(int(row["bdp"]), int(row["cubic_flows"]), row["order"], int(row["run"])): (
            float(row["first_pct"]),
            float(row["late_pct"]) if row["late_pct"] else None,
        )
        for row in rows
    }


def store_run(case: Case, found: Shares) -> None:
    """Adds the row of a run to the CSV file."""
    begun = DATA.exists()
    with DATA.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not begun:
            file.write("# BBR's share beside CUBIC in Linux 6.12 in virtual time, in %;\n")
            file.write("# see validation/share_model.py.\n")
            writer.writerow([*KEYS, *FIGURES])
        writer.writerow([case.bdp, case.cubic_flows, case.order, case.run, *found])


def scenario(case: Case) -> Scenario:
    """The same run of narrows."""
    bbr, cubic = case.starts
    flows = [Flow("bbr", start=f"{bbr}s"), *(Flow("cubic", start=f"{s:.3f}s") for s in cubic)]
    return Scenario(
        Path(rate=f"{MBIT}Mbit", rtt=f"{RTT_MS}ms", buffer=f"{case.bdp}bdp"),
        flows=flows,
        duration=f"{case.later + END_S}s",
        start_jitter="0s",
    )


def simulated(of: Sequence[Case]) -> dict[Case, Shares]:
    """The same runs in narrows."""

    def one(case: Case, keep_on: Progress) -> Shares:
        samples = run(scenario(case), sample_interval="10s", progress=keep_on).samples
        columns = (samples.column(name).to_pylist() for name in ("t_s", "flow", "delivered_bytes"))
        return shares(list(zip(*columns, strict=True)), case, END_S)

    return dict(zip(of, everywhere(of, one, cost=lambda case: case.cubic_flows), strict=True))


def supported(linux: Sequence[float], ours: Sequence[float], theirs: float) -> str:
    """Which of the two values Linux supports: the model, narrows, both or neither.

    A value is supported if it lies in the interval of Linux, or differs from its mean by at most
    `TOLERANCE`.
    """
    mean, half = statistics.fmean(linux), half_width(LEVEL, of_independent(linux))

    def near(value: float) -> bool:
        return abs(value - mean) <= max(TOLERANCE, half)

    found = ["model"] if near(theirs) else []
    if near(statistics.fmean(ours)):
        found.append("narrows")
    return " and ".join(found) or "neither"


def interval_text(values: Sequence[float]) -> str:
    """The mean and the interval of some runs."""
    mean = statistics.fmean(values)
    if len(values) == 1:
        return f"{mean:.1f}"
    half = half_width(LEVEL, of_independent(values))
    return f"{mean:.1f} ({mean - half:.1f} to {mean + half:.1f})"


def row(name: str, bdp: int, linux: Sequence[float], ours: Sequence[float]) -> str:
    """A row of a table."""
    theirs = model(bdp)
    which = supported(linux, ours, theirs) if len(linux) > 1 else "–"
    cells = [
        f"{bdp} BDP",
        name,
        f"{theirs:.0f}",
        str(len(linux)),
        interval_text(linux),
        interval_text(ours),
        which,
    ]
    return f"| {' | '.join(cells)} |"


def first(linux: dict[Case, Shares], ours: dict[Case, Shares]) -> Iterable[str]:
    """The rows of the first minutes, by order of the starts. Runs of Linux that were recorded for
    `validation.reproduced` count as well.
    """
    for bdp, number, order in sorted(dict.fromkeys(case.group for case in cases())):
        group = (bdp, number, order)
        real = [shares[0] for case, shares in linux.items() if case.group == group]
        if order == "together":
            real += earlier().get(f"share-{bdp}" if number == 1 else f"share-{bdp}-{number}", [])
        if real:
            name = order if number == 1 else f"{order}, {number} CUBIC flows"
            sim = [shares[0] for case, shares in ours.items() if case.group == group]
            yield row(name, bdp, real, sim)


def late(linux: dict[Case, Shares], ours: dict[Case, Shares]) -> Iterable[str]:
    """The rows of the last minutes, of all orders of the starts."""

    def known(of: dict[Case, Shares], bdp: int, number: int) -> list[float]:
        wanted = {case: at for case, (_, at) in of.items() if (bdp, number) == case.group[:2]}
        return [at for at in wanted.values() if at is not None]

    for bdp, number in sorted(dict.fromkeys(case.group[:2] for case in cases())):
        real = known(linux, bdp, number)
        if real:
            name = "any order" if number == 1 else f"together, {number} CUBIC flows"
            yield row(name, bdp, real, known(ours, bdp, number))


def page(linux: dict[Case, Shares], ours: dict[Case, Shares]) -> str:
    """The page of evidence."""
    heads = ["buffer", "start", "model", "runs of Linux", "Linux", "narrows", "Linux supports"]
    table = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    lines = [
        "# Experiment: BBR's share beside CUBIC, model and Linux",
        "",
        "Written by",
        "",
        "```console",
        "$ python -m validation.share_model --program ORACLE",
        "$ python -m validation.share_model",
        "```",
        "",
        "The first command writes [the runs of Linux](share-model-linux-6.12.csv).",
        "",
        *fill(SETUP, 100).splitlines(),
        "",
        "## Result",
        "",
        *fill(FINDING, 100).splitlines(),
        "",
        "## Four minutes, as in the publication",
        "",
        *table,
        *first(linux, ours),
        "",
        "## The last five of ten minutes",
        "",
        *table,
        *late(linux, ours),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Records runs or writes the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--program", nargs="+", help="program that runs a case on Linux [default: write the page]"
    )
    only: dict[str, tuple[type, list[Any]]] = {
        "orders": (str, list(ORDERS)),
        "bdp": (int, list(DEPTHS)),
        "runs": (int, list(range(len(OFFSETS)))),
    }
    for option, (kind, values) in only.items():
        parser.add_argument(
            f"--{option}",
            nargs="+",
            type=kind,
            choices=values,
            default=values,
            help="record only these cases [default: all]",
        )
    parser.add_argument(
        "--first",
        action="store_true",
        help=f"end the runs after {TEST_S:g} s [default: ten minutes]",
    )
    args = parser.parse_args()
    if args.program:
        end_s = TEST_S if args.first else END_S
        for case in cases():
            wanted = case.order in args.orders and case.bdp in args.bdp and case.run in args.runs
            if wanted and case not in recorded():
                store_run(case, record(args.program, case, end_s))
                print(case, recorded()[case], flush=True)
        return 0
    linux = recorded()
    EVIDENCE.write_text(page(linux, simulated(cases())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
