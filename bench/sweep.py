"""Measures the overhead of a sweep in CPU time and memory.

Run by `make bench`.

    python bench/sweep.py
        the share of all cores that simulations use, and the memory of sweeps without runs
    python bench/sweep.py --ray
        the same sweep by local processes and by Ray in turns, and nothing else
    python bench/sweep.py --transfer
        the share of the CPU time of a sweep in which cases and rows cross between Python, the
        engine and processes, and nothing else
    python bench/sweep.py --run 1000000
        run this number of tiny cases and print the memory of each process, and nothing else
"""

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import narrows as nw
from common import positive
from narrows import _core
from narrows.errors import NarrowsError
from narrows.sweeps.executors import Local
from narrows.sweeps.store import Store
from narrows.sweeps.worker import Outcomes

SCENARIO = nw.Scenario(
    nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp"),
    flows=[nw.Flow("bbr"), nw.Flow("cubic")],
    duration="10s",
)
BATCH = 100
"""Number of cases that `Nobody` reports together."""
OVER = {
    "path.rtt": {"from": "5ms", "to": "200ms", "scale": "log"},
    "path.rate": {"from": "1Mbit", "to": "20Mbit"},
}


class Nobody:
    """An executor that reports every case as complete with a constant row, without a simulation, to
    measure the sweep itself.
    """

    def outcomes(self, cases: Iterable[tuple[str, Any, Any]], count: int) -> Iterator[Outcomes]:
        """Yields the outcomes of all cases in batches of `BATCH`."""
        keys = (key for key, _, _ in cases)
        while batch := list(islice(keys, BATCH)):
            rows = len(batch)
            yield Outcomes(
                {"key": batch, "flow_number": [0] * rows, "flow": ["f"] * rows, "cc": ["c"] * rows}
            )


def plan(cases: int, into: str) -> nw.Sweep:
    """A sweep of `cases` random points in the plane of `OVER`."""
    return nw.sweep(SCENARIO, OVER, design="random", cases=cases, into=into)


def beside_the_engine(cases: int, crew: object, cpus: int) -> dict[str, float]:
    """The share of the CPU time of a sweep, and of the time of all cores, that simulations use.
    Both include the start of the worker processes.
    """
    with tempfile.TemporaryDirectory() as there:
        sweep = plan(cases, there)
        trees = [sweep.scenario(case) for case in range(0, cases, 10)]
        begin = time.process_time()
        for tree in trees:
            _core.run_tree(tree, seed=1, sample_interval="off")
        engine_s = (time.process_time() - begin) / len(trees) * cases
        begin, wall = sum(os.times()[:4]), time.perf_counter()
        sweep.finish(on=crew)
        cpu_s, wall_s = sum(os.times()[:4]) - begin, time.perf_counter() - wall
    return {
        "cases": cases,
        "engine_cpu_s": round(engine_s, 2),
        "sweep_cpu_s": round(cpu_s, 2),
        "sweep_wall_s": round(wall_s, 2),
        "share_of_cpu": round(engine_s / cpu_s, 3),
        "share_of_cores": round(engine_s / wall_s / cpus, 3),
    }


def transfer_share(duration: str, cases: int) -> dict[str, float]:
    """The CPU time of each step of a case of this duration, in µs. `transfer_share` is the share of
    the transfers in the CPU time of all processes of the sweep.

    `cases` is the transfer of scenarios to a worker process. `columns` is the transfer of rows from
    the engine to Python, and `rows` that from the process to its caller. `run` contains the
    computation of the rows. `run_1ms` contains hardly anything else but the parse of the scenario.
    """
    steps = dict.fromkeys(("cases", "run_1ms", "run", "columns", "rows", "store"), 0.0)

    def timed(step: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - any result
        begin = time.process_time()
        done = call()
        steps[step] += time.process_time() - begin
        return done

    def run_all(batch: list[tuple[str, Any, int]], **other: str) -> _core.Rows:
        found = _core.Rows()
        for key, tree, seed in batch:
            found.run(key, tree | other, seed)
        return found

    with tempfile.TemporaryDirectory() as there:
        scenario = nw.Scenario(TINY.path, flows=TINY.flows, duration=duration)
        sweep = nw.sweep(scenario, OVER, design="random", cases=cases, into=there)
        batch = [(f"{case:064}", sweep.scenario(case), 1) for case in range(cases)]
        timed("cases", lambda: pickle.loads(pickle.dumps(batch)))
        timed("run_1ms", lambda: run_all(batch, duration="1ms"))
        found = timed("run", lambda: run_all(batch))
        columns = timed("columns", found.columns)
        timed("rows", lambda: pickle.loads(pickle.dumps(columns)))
        timed("store", lambda: Store(there).add([columns]))
        begin = sum(os.times()[:4])
        sweep.finish(on=Local())
        cpu_s = sum(os.times()[:4]) - begin
    transfers = sum(steps[step] for step in ("cases", "columns", "rows"))
    each = {f"{step}_us": round(seconds / cases * 1e6, 1) for step, seconds in steps.items()}
    return {
        "duration": duration,
        "cases": cases,
        **each,
        "sweep_us": round(cpu_s / cases * 1e6, 1),
        "transfer_share": round(transfers / cpu_s, 3),
    }


def in_turns(cases: int, turns: int = 3) -> dict[str, Any]:
    """Runs the same cases by local processes and by Ray in turns. Returns the wall-clock times,
    their ratio, and whether the results are the same. A first, smaller turn starts Ray's workers
    and is not counted.
    """
    from narrows.sweeps.executors import Ray  # noqa: PLC0415  an extra that few have installed

    crews = {"local": Local(), "ray": Ray()}
    took: dict[str, list[float]] = {name: [] for name in crews}
    tables = []
    for turn in range(turns + 1):
        for name, crew in crews.items():
            with tempfile.TemporaryDirectory() as there:
                sweep = plan(cases if turn else cases // 10, there)
                begin = time.perf_counter()
                sweep.finish(on=crew)
                took[name].append(round(time.perf_counter() - begin, 2))
                tables.append(sweep.frame())
    local, ray = (median(took[name][1:]) for name in crews)
    same = all(one.equals(other) for one, other in zip(tables[::2], tables[1::2], strict=True))
    walls = {f"{name}_s": walls[1:] for name, walls in took.items()}
    return {"cases": cases, **walls, "ray_over_local": round(ray / local, 3), "same": same}


def memory(cases: int) -> dict[str, float]:
    """Peak memory, and time per case, of a process that plans and stores this number of cases
    without running any.
    """
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).resolve().parent)!r})\n"
        "import sweep, tempfile, time, resource, json\n"
        "begin = time.perf_counter()\n"
        "there = tempfile.TemporaryDirectory()\n"
        f"whole = sweep.plan({cases}, there.name)\n"
        "whole.finish(on=sweep.Nobody())\n"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        f"us = (time.perf_counter() - begin) / {cases} * 1e6\n"
        f"print(json.dumps({{'cases': {cases}, 'us_for_each': us, 'peak_mib': peak}}))"
    )
    return json.loads(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
    )


TINY = nw.Scenario(
    nw.Path(rate="5Mbit", rtt="20ms", buffer="1bdp"),
    flows=[nw.Flow("cubic")],
    duration="2s",
)
"""A scenario that takes a third of a millisecond on one core."""


def resident_mib(pid: str) -> float:
    """The resident memory of a process in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return round(int(fields["VmRSS"].split()[0]) / 1024, 1)


def workers() -> list[str]:
    """The worker processes of this process."""
    tasks = Path("/proc/self/task").iterdir()
    found = [
        pid for task in tasks for pid in (task / "children").read_text(encoding="utf-8").split()
    ]
    return [pid for pid in found if b"narrows.sweeps" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def flat(cases: int, into: str) -> None:
    """Runs this number of tiny, distinct cases, and prints the memory at each power of ten."""
    over = OVER | {"path.buffer": {"from": "0.5bdp", "to": "8bdp", "scale": "log"}}
    sweep = nw.sweep(TINY, over, design="random", cases=cases, into=into)
    begin, marks = time.perf_counter(), [10**n for n in range(3, 9)]

    def look(done: int, failed: int, planned: int) -> None:
        if done >= marks[0] or (done == planned and marks[0] > planned):
            while done >= marks[0]:
                marks.pop(0)
            each = [resident_mib(pid) for pid in workers()]
            took = round(time.perf_counter() - begin, 1)
            said = {
                "done": done,
                "failed": failed,
                "s": took,
                "asks_mib": resident_mib("self"),
                "runs_mib": each,
            }
            print(json.dumps(said), flush=True)

    sweep.finish(progress=look)
    begin = time.perf_counter()
    rows, _ = sweep.medians(["goodput_mbit", "summary_retransmit_rate"])
    took = round(time.perf_counter() - begin, 1)
    print(json.dumps({"rows": rows, "medians_s": took, "asks_mib": resident_mib("self")}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--ray", action="store_true", help="processes and Ray in turns, and nothing else"
    )
    parser.add_argument(
        "--cases", type=positive, default=4000, help="of the comparison (default: 4000)"
    )
    parser.add_argument(
        "--transfer", action="store_true", help="the share of transfers, and nothing else"
    )
    parser.add_argument(
        "--run", type=positive, metavar="CASES", help="so many tiny ones, and nothing else"
    )
    asked = parser.parse_args()
    if asked.run:
        with tempfile.TemporaryDirectory() as there:
            flat(asked.run, there)
        sys.exit()
    if asked.ray:
        try:
            print(json.dumps(in_turns(asked.cases)))
        except NarrowsError as error:
            sys.exit(str(error))
        sys.exit()
    if asked.transfer:
        for duration in ("1s", "10s", "60s"):
            print(json.dumps(transfer_share(duration, asked.cases)), flush=True)
        sys.exit()
    cpus = len(os.sched_getaffinity(0))
    print(json.dumps(beside_the_engine(asked.cases, Local(), cpus)))
    for cases in (10_000, 100_000, 1_000_000):
        print(json.dumps(memory(cases)), flush=True)
