"""Compares a published model of BBR's share beside CUBIC with Linux and with narrows.

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

from narrows.json_object import JsonObject
from narrows.reproduce.lab import Lab, part
from narrows.runs.scenario import Flow, Path, Scenario
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
T_95 = {4: 2.776, 3: 3.182, 2: 4.303, 1: 12.706}
"""Quantiles of Student's t for intervals of 95 %, by degrees of freedom."""

LEAST_RUNS = 2
"""Smallest number of runs of a row; a single run has no interval."""

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

FINDING = "TODO"

Shares = tuple[float, float]


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


def description(case: Case) -> JsonObject:
    """The run as input of the program."""
    bbr, cubic = case.starts
    flows = [{"id": "bbr", "cc": "bbr", "start": bbr}]
    flows += [{"id": f"cubic{n}", "cc": "cubic", "start": s} for n, s in enumerate(cubic)]
    return {
        "rate_mbit": MBIT,
        "rtt_ms": RTT_MS,
        "buffer_bytes": case.bdp * BDP_BYTES,
        "duration": case.later + END_S,
        "interval": 0.5,
        "flows": flows,
    }


def record(program: Sequence[str], case: Case) -> Shares:
    """One run of Linux: BBR's share in the first minutes and in the last ones, in %."""
    # Not in /tmp, because the program has its own /tmp.
    with tempfile.TemporaryDirectory(dir=File.home()) as folder:
        file = File(folder) / "case.json"
        file.write_text(json.dumps(description(case)), encoding="utf-8")
        subprocess.run([*program, file, "--keep", folder], check=True, stdout=subprocess.DEVNULL)
        with (File(folder) / "flows.csv").open(encoding="utf-8") as told:
            rows = list(csv.DictReader(told))

    def between(from_s: float, to_s: float) -> float:
        acked = {"bbr": 0, "cubic": 0}
        for flow in {row["id"] for row in rows}:
            seen = [(float(r["t"]), int(r["bytes_acked"])) for r in rows if r["id"] == flow]
            ends = [max((a for t, a in seen if t <= at + 1e-3), default=0) for at in (from_s, to_s)]
            acked[flow.rstrip("0123456789")] += ends[1] - ends[0]
        return round(100 * acked["bbr"] / sum(acked.values()), 2)

    end_s = case.later + END_S
    return between(case.later, case.later + TEST_S), between(end_s - LATE_S, end_s)


def recorded() -> dict[Case, Shares]:
    """The recorded runs of Linux."""
    if not DATA.exists():
        return {}
    lines = DATA.read_text(encoding="utf-8").splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return {
        Case(int(row["bdp"]), int(row["cubic_flows"]), row["order"], int(row["run"])): (
            float(row["first_pct"]),
            float(row["late_pct"]),
        )
        for row in rows
    }


def keep(case: Case, shares: Shares) -> None:
    """Adds the row of a run to the CSV file."""
    begun = DATA.exists()
    with DATA.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not begun:
            file.write("# BBR's share beside CUBIC in Linux 6.12 in virtual time, in %;\n")
            file.write("# see validation/share_model.py.\n")
            writer.writerow([*KEYS, *FIGURES])
        writer.writerow([case.bdp, case.cubic_flows, case.order, case.run, *shares])


def scenario(case: Case, from_s: float, to_s: float) -> Scenario:
    """The run of narrows whose goodput is that between two times, in s."""
    bbr, cubic = case.starts
    flows = [Flow("bbr", start=f"{bbr}s"), *(Flow("cubic", start=f"{s:.3f}s") for s in cubic)]
    return Scenario(
        Path(rate=f"{MBIT}Mbit", rtt=f"{RTT_MS}ms", buffer=f"{case.bdp}bdp"),
        flows=flows,
        duration=f"{to_s}s",
        warmup=f"{from_s}s",
        start_jitter="0s",
    )


def simulated(of: Sequence[Case]) -> dict[Case, Shares]:
    """The same runs in narrows."""
    scenarios = {}
    for case in of:
        end_s = case.later + END_S
        scenarios[case, 0] = scenario(case, case.later, case.later + TEST_S)
        scenarios[case, 1] = scenario(case, end_s - LATE_S, end_s)
    runs = Lab().play(scenarios, seeds=1)
    shares = {key: part("bbr")(one) for key, (one,) in runs.items()}
    return {case: (shares[case, 0], shares[case, 1]) for case in of}


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % confidence interval of the mean (Student's t).

    >>> low, high = interval([1.0, 2.0, 3.0])
    >>> round(low, 2), round(high, 2)
    (-0.48, 4.48)
    """
    mean = statistics.fmean(values)
    half = T_95[len(values) - 1] * statistics.stdev(values) / len(values) ** 0.5
    return mean - half, mean + half


def supported(linux: Sequence[float], ours: Sequence[float], theirs: float | None) -> str:
    """Which of the two values Linux supports: the model, narrows, both or neither.

    A value is supported if it lies in the interval of Linux, or differs from its mean by at most
    `TOLERANCE`.
    """
    mean, (low, high) = statistics.fmean(linux), interval(linux)

    def near(value: float) -> bool:
        return abs(value - mean) <= TOLERANCE or low <= value <= high

    found = ["narrows"] if near(statistics.fmean(ours)) else []
    if theirs is not None and near(theirs):
        found.insert(0, "model")
    return " and ".join(found) or "neither"


def told(values: Sequence[float]) -> str:
    """The mean and the interval of some runs."""
    low, high = interval(values)
    return f"{statistics.fmean(values):.1f} ({low:.1f} to {high:.1f})"


def rows(linux: dict[Case, Shares], ours: dict[Case, Shares]) -> Iterable[str]:
    """The rows of the table."""
    for bdp, number, order in dict.fromkeys(case.group for case in cases()):
        own = [case for case in linux if case.group == (bdp, number, order)]
        if len(own) < LEAST_RUNS:
            continue
        theirs = model(bdp)
        cells = [f"{bdp} BDP", order if number == 1 else f"{order}, {number} of CUBIC"]
        cells += [f"{theirs:.0f}", str(len(own))]
        for at in range(2):
            real, sim = [linux[case][at] for case in own], [ours[case][at] for case in own]
            cells += [told(real), told(sim), supported(real, sim, theirs)]
        yield f"| {' | '.join(cells)} |"


def page(linux: dict[Case, Shares], ours: dict[Case, Shares]) -> str:
    """The page of evidence."""
    heads = ["buffer", "start", "model", "runs"]
    heads += ["Linux, first 240 s", "narrows", "supported"]
    heads += ["Linux, last 300 s", "narrows", "supported"]
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
        f"| {' | '.join(heads)} |",
        "|" + "---|" * len(heads),
        *rows(linux, ours),
        "",
        *fill(FINDING, 100).splitlines(),
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
            help="record only these [default: all]",
        )
    args = parser.parse_args()
    if args.program:
        for case in cases():
            wanted = case.order in args.orders and case.bdp in args.bdp and case.run in args.runs
            if wanted and case not in recorded():
                keep(case, record(args.program, case))
                print(case, recorded()[case], flush=True)
        return 0
    linux = recorded()
    EVIDENCE.write_text(page(linux, simulated(list(linux))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
