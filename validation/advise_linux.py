"""Records results of congestion controls with the TCP of Linux, for `validation.advise`.

    python -m validation.advise_linux --program ORACLE --runs 1-5 32 34 37

writes rows of advise-linux-6.12.csv. ORACLE is a program that gets the name of a JSON file with a
case. The keys of the file are `rate_mbit`, `rtt_ms`, `buffer_bytes`, `loss`, `duration`, `warmup`,
`ping`, and `flows` of `id`, `cc`, `start`. The program prints the results of Linux: `flows` by id
with `goodput_mbit`, `bytes_sent`, `bytes_retrans`; `ping` with `p95`. The stored rows are from
Linux 6.12 as a user-space process (`ARCH=um`) in virtual time. The path consists of a sender, a
router with the bottleneck (tbf), and a receiver; its delay is on the reverse path. The random loss
of netem is on the interface of the sender. One loss drops all segments that TCP passes to the
device as one super-packet.

The parameters of a path that is not in the file yet are random. The rate is 2 to 25 Mbit/s, the RTT
8 to 180 ms, the buffer 0.15 to 8 BDP. The buffer has at least twelve packets, and half of the paths
have 0.01 to 6 % of random loss.

Each congestion control is recorded in every run, once alone with a ping every 20 ms, and once in
competition with a CUBIC flow. Each recording lasts 40 s, with a warm-up of 8 s. Runs differ in the
start of the flows, in ports, hash seeds and lost packets. Existing rows are not recorded again.
Each row is written at once, so that the program may be interrupted at any time.
"""

from __future__ import annotations

import argparse
import csv
import fcntl
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from narrows.json_object import JsonObject
from validation.asked import positive, span
from validation.stored import HERE

DATA = HERE / "advise-linux-6.12.csv"

PATH = ("path", "rate_mbit", "rtt_ms", "buffer_bytes", "loss")
FIGURES = ("goodput_mbit", "p95_ms", "again_pct", "beside_mbit", "rival_mbit")

CCS = ("bbr", "cubic", "vegas", "westwood")
RIVAL = "cubic"
SECONDS, WARM_S = 40, 8
STARTS = (0, 0.137, 0.311, 0.523, 0.741, 0.967, 1.193, 1.381)
"""Start of the flows of each run, in s."""


LOSSY = 0.5
"""Share of the drawn paths that have random loss."""


def drawn(number: int) -> dict[str, str]:
    """The parameters of the path with this number, as in a row of the file.

    >>> drawn(45) == drawn(45)
    True
    """
    draw = random.Random(number)

    def log(low: float, high: float) -> float:
        return math.exp(draw.uniform(math.log(low), math.log(high)))

    rate, rtt, depth = round(log(2, 25), 1), round(log(8, 180)), log(0.15, 8)
    buffer = max(12 * 1514, round(depth * rate * 1e6 / 8 * rtt / 1000))
    loss = round(log(1e-4, 6e-2), 5) if draw.random() < LOSSY else 0
    values = (number, rate, rtt, buffer, loss)
    return dict(zip(PATH, map(str, values), strict=True))


def rows(data: Path = DATA) -> tuple[str, list[dict[str, str]]]:
    """The comment at the begin of the file, and its rows."""
    lines = data.read_text(encoding="utf-8").splitlines()
    told = [line for line in lines if line.startswith("#")]
    return "\n".join(told), list(csv.DictReader(line for line in lines if not line.startswith("#")))


def case(of: dict[str, str], cc: str, run: int, *, beside: bool) -> JsonObject:
    """The case, as input of the program."""
    start = STARTS[run]
    flows = [
        {"id": "it", "cc": cc, "start": start},
        *([{"id": "rival", "cc": RIVAL, "start": start}] if beside else []),
    ]
    path: JsonObject = {name: float(of[name]) for name in PATH[1:]}
    return path | {"duration": SECONDS, "warmup": WARM_S, "ping": not beside, "flows": flows}


def run_program(program: str, of: JsonObject) -> JsonObject:
    """Runs the program on a case, and returns the results that it prints."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(of, file)
        file.flush()
        done = subprocess.run([program, file.name], check=True, capture_output=True, text=True)
    told: JsonObject = json.loads(done.stdout)
    return told


def one(program: str, of: dict[str, str], cc: str, run: int) -> dict[str, Any]:
    """The row of a congestion control in one run."""
    alone, beside = (run_program(program, case(of, cc, run, beside=b)) for b in (False, True))
    it = alone["flows"]["it"]
    figures = {
        "goodput_mbit": it["goodput_mbit"],
        "p95_ms": alone["ping"]["p95"],
        "again_pct": 100 * it["bytes_retrans"] / it["bytes_sent"],
        "beside_mbit": beside["flows"]["it"]["goodput_mbit"],
        "rival_mbit": beside["flows"]["rival"]["goodput_mbit"],
    }
    about = {name: of[name] for name in PATH} | {"run": run, "cc": cc}
    return about | {name: f"{value:.5g}" for name, value in figures.items()}


def at(row: dict[str, Any]) -> tuple[int, int, str]:
    """The key of a row: path, run and congestion control."""
    return int(row["path"]), int(row["run"]), row["cc"]


def store_row(row: dict[str, Any]) -> None:
    """Adds a row to the file at its place in the order. Other processes may do the same at the same
    time.
    """
    with (Path(tempfile.gettempdir()) / f"{DATA.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        header, there = rows()  # another process may have added rows
        if at(row) in map(at, there):
            return
        there.append(row)
        there.sort(key=at)
        with DATA.open("w", encoding="utf-8", newline="") as file:
            file.write(header + "\n")
            writer = csv.DictWriter(file, [*PATH, "run", "cc", *FIGURES], lineterminator="\n")
            writer.writeheader()
            writer.writerows(there)


def main() -> int:
    """Records the rows; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="*", type=int, help="numbers of the paths [default: all]")
    parser.add_argument("--program", required=True, help="program that runs a case on Linux")
    parser.add_argument("--runs", type=span, default=range(1), help="range of runs, such as 1-5")
    parser.add_argument("--within", type=float, help="start no run after this time, in seconds")
    parser.add_argument(
        "--jobs", type=positive, default=1, help="number of parallel runs [default: 1]"
    )
    args = parser.parse_args()
    _, there = rows()
    known = {int(row["path"]): row for row in there}
    had = set(map(at, there))
    todo = [
        (path, run, cc)
        for run in args.runs
        for path in args.paths or sorted(known)
        for cc in CCS
        if (path, run, cc) not in had
    ]
    begin = time.monotonic()

    def record(of: tuple[int, int, str]) -> None:
        late = args.within is not None and time.monotonic() - begin > args.within
        if late or of in map(at, rows()[1]):
            return
        path, run, cc = of
        store_row(one(args.program, known.get(path) or drawn(path), cc, run))
        print(f"path {path}, run {run}, {cc}: {time.monotonic() - begin:.0f} s", flush=True)

    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(record, todo))
    return 0


if __name__ == "__main__":
    sys.exit(main())
