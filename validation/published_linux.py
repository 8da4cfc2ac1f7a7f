"""Runs published paths on Linux 6.12, for cells in which narrows and the publication disagree.

    python -m validation.published_linux --program ORACLE cubic-100-1000-50 bbr-100-50-10
    python -m validation.published_linux

The first command writes rows of the CSV file, and the second prints the tables for the file of
evidence. ORACLE is a program that gets the name of a JSON file with a case, `--keep` and the name
of a folder. It writes `flows.csv` to this folder, with TCP_INFO at each `interval`. The keys of the
JSON file are `rate_mbit`, `rtt_ms`, `buffer_bytes`, `duration`, `interval`, `qdisc` below `htb` of
the rate, `extra` commands of `ip` and `tc`, and `flows` of `id`, `cc`, `start`.

The stored rows are from Linux 6.12 as a user-space process (`ARCH=um`, 1000 Hz) in virtual time.
The path consists of a sender, a router with the bottleneck, and a receiver with the delay on the
reverse path. Super-packets cross the path without being split. If `UNMARKED` is set, the sender
sets no low-water mark of unsent data (`TCP_NOTSENT_LOWAT`), as iperf3 does not. Runs differ in the
start of the flow, in ports and hash seeds.

The metrics are those of `narrows.reproduce.published`: goodput as iperf3's receiver reports it, and
the number of segments retransmitted until the end of the test.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from narrows.json_object import JsonObject
from narrows.reproduce.published import TEST_S, Cell, cells, received_mbit, reproduce
from validation.papers import TRIALS
from validation.stored import HERE

DATA = HERE / "evidence/published-linux-6.12.csv"
PATH = ("cc", "buffer_kib", "rate_mbit", "rtt_ms")
FIGURES = ("goodput_mbit", "retransmits")
HEADINGS = {"goodput_mbit": "Goodput in Mbit/s", "retransmits": "Retransmitted segments"}
STARTS = (0, 0.137, 0.311, 0.523, 0.741)
"""Start of the flow of each run, in s."""

BUFFERS = "4096 200000000 200000000"
"""Socket buffers of the hosts, in bytes (minimum, default, maximum). They are never a limit, as in
the testbed.
"""

DEVICES = (("s", "sv"), ("r", "sr"), ("r", "dr"), ("d", "dv"))
"""The interfaces, each with its namespace: `s` sender, `r` router, `d` receiver."""

PAGES = 250_000
"""TCP memory of the host, in pages; never a limit either. The default value of a kernel with 1.5 GB
of memory is too small for long paths.
"""


def name(cell: Cell) -> str:
    """The name of a cell on the command line."""
    return f"{cell.cc}-{cell.buffer_kib}-{cell.rate_mbit}-{cell.rtt_ms}"


def case(cell: Cell, start_s: float) -> JsonObject:
    """The case, as input of the program."""
    rate = f"{cell.rate_mbit}mbit"
    waiting_s = cell.buffer_kib * 1024 * 8 / (cell.rate_mbit * 1e6)
    return {
        "rate_mbit": cell.rate_mbit,
        "rtt_ms": cell.rtt_ms,
        "buffer_bytes": cell.buffer_kib * 1024,
        "qdisc": f"bfifo limit {cell.buffer_kib * 1024}",
        "extra": [
            "export UNMARKED=1",
            f'sysctl -qw net.ipv4.tcp_mem="{PAGES} {PAGES} {PAGES}"',
            f"ip netns exec r tc class change dev dr parent 1: classid 1:1 htb rate {rate} ceil "
            f"{rate} "
            "burst 1600 cburst 1600 quantum 1514",
            *(f"ip netns exec {ns} ethtool -K {dev} gso on tso on gro on" for ns, dev in DEVICES),
            *(
                f'ip netns exec {ns} sysctl -qw net.ipv4.tcp_{way}="{BUFFERS}"'
                for ns in "sd"
                for way in ("rmem", "wmem")
            ),
        ],
        "duration": start_s + TEST_S + 3 * cell.rtt_ms / 1000 + 1.2 * waiting_s + 1,
        "interval": 0.1,
        "flows": [{"id": "it", "cc": cell.cc, "start": start_s}],
    }


def record(program: Sequence[str], cell: Cell, start_s: float) -> tuple[float, int]:
    """One run of Linux: its goodput, in Mbit/s, and its number of retransmits."""
    with tempfile.TemporaryDirectory(
        dir=Path.home()
    ) as folder:  # not in /tmp, because the program has its own /tmp
        file = Path(folder) / "case.json"
        file.write_text(json.dumps(case(cell, start_s)), encoding="utf-8")
        subprocess.run([*program, file, "--keep", folder], check=True, stdout=subprocess.DEVNULL)
        with (Path(folder) / "flows.csv").open(encoding="utf-8") as told:
            rows = list(csv.DictReader(told))
    series = [
        [float(r["t"]) - start_s, int(r["bytes_acked"]), int(r["cwnd"]), int(r["rtt_us"]) / 1000]
        for r in rows
    ]
    end_s = start_s + TEST_S + cell.rtt_ms / 1000
    again = max(int(r["retrans"]) for r in rows if float(r["t"]) <= end_s)
    return round(received_mbit(series, cell.rtt_ms), 2), again


def recorded() -> dict[str, list[tuple[float, int]]]:
    """The recorded runs, by the name of the cell."""
    found: dict[str, list[tuple[float, int]]] = {}
    if not DATA.exists():
        return found
    lines = DATA.read_text(encoding="utf-8").splitlines()
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        run = float(row["goodput_mbit"]), int(row["retransmits"])
        found.setdefault("-".join(row[x] for x in PATH), []).append(run)
    return found


def store_run(cell: Cell, start_s: float, told: tuple[float, int]) -> None:
    """Adds the row of a run to the CSV file."""
    begun = DATA.exists()
    with DATA.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not begun:
            file.write(
                "# Linux 6.12 in virtual time over published paths; see "
                "validation/published_linux.py.\n"
            )
            writer.writerow([*PATH, "start_s", *FIGURES])
        writer.writerow([cell.cc, cell.buffer_kib, cell.rate_mbit, cell.rtt_ms, start_s, *told])


def all_cells() -> dict[str, list[Cell]]:
    """The published cells of Linux 4.15 and 5.15 by name of the path, for congestion controls that
    Linux 6.12 has.
    """
    found: dict[str, list[Cell]] = {}
    for cc in ("cubic", "bbr"):
        for kernel in ("4.15", "5.15"):
            for cell in cells(cc, kernel):
                found.setdefault(name(cell), []).append(cell)
    return found


def agrees(cell: Cell, ours: tuple[float, int], theirs: tuple[float, int]) -> dict[str, bool]:
    """For each metric, whether two results agree within the tolerance for published values."""
    instead = replace(cell, goodput_mbit=theirs[0], retransmits=theirs[1])
    few, many = sorted((ours[1], theirs[1]))
    return {"goodput_mbit": instead.agrees(ours[0]), "retransmits": many <= cell.again_factor * few}


def tables() -> str:
    """A table of the goodput and one of the retransmits, for every recorded path."""
    linux, every = recorded(), all_cells()
    paths = [n for n in every if n in linux]
    todo = [cell for n in paths for cell in every[n]]
    like = {
        release: {
            (r.cell.kernel, name(r.cell)): (r.goodput_mbit, r.retransmits)
            for r in reproduce(todo, like=release, trials=TRIALS)
        }
        for release in ("linux-4.15", "linux-5.15", "linux-6.12")
    }
    lines = []
    for figure, title in enumerate(FIGURES):
        lines += [
            f"## {HEADINGS[title]}",
            "",
            "| path | published, 4.15 | published, 5.15 | Linux 6.12 | narrows like 4.15 | narrows "
            "like 5.15 | narrows like 6.12 | Linux 6.12 and narrows like 6.12 |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for n in paths:
            old, new = every[n]
            if title == "retransmits" and old.cc == "cubic":
                continue
            theirs = tuple(statistics.median(run[i] for run in linux[n]) for i in (0, 1))
            ours = [like[release]["5.15", n] for release in like]
            same = agrees(new, ours[2], (theirs[0], round(theirs[1])))[title]
            published = [(c.goodput_mbit, c.retransmits)[figure] for c in (old, new)]
            runs = ", ".join(
                f"{x:.4g}" if figure == 0 else str(x)
                for x in sorted(run[figure] for run in linux[n])
            )
            cc, kib, rate, rtt = n.split("-")
            told = (f"{o[figure]:.4g}" if figure == 0 else str(o[figure]) for o in ours)
            lines.append(
                f"| {cc}, {rate} Mbit/s, {rtt} ms, {kib} KiB | {published[0]} | {published[1]} | "
                f"{runs} | "
                f"{' | '.join(told)} | {'agree' if same else '**differ**'} |"
            )
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    """Records runs or prints the tables; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "cells",
        nargs="*",
        help="cell, such as cubic-100-1000-50: buffer in KiB, rate in Mbit/s, RTT in ms",
    )
    parser.add_argument(
        "--program", nargs="+", help="program that runs a case on Linux [default: print the tables]"
    )
    most = range(1, len(STARTS) + 1)
    parser.add_argument(
        "--runs", type=int, choices=most, default=2, help="number of runs of each cell [default: 2]"
    )
    args = parser.parse_args()
    if not args.program:
        print(tables())
        return 0
    every = all_cells()
    for which in args.cells:
        if which not in every:
            parser.error(f"there is no published cell {which}")
    for run in range(args.runs):
        for which in args.cells:
            if len(recorded().get(which, ())) <= run:
                cell = every[which][0]
                store_run(cell, STARTS[run], record(args.program, cell, STARTS[run]))
                print(which, recorded()[which][-1], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
