"""What a sweep costs beside the simulations themselves, and what it keeps in memory. Run by `make bench`.

    python bench/sweep.py [--ray]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import narrows as nw
from narrows import _core
from narrows.sweeps.crews import Local

SCENARIO = nw.Scenario(
    nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp"), flows=[nw.Flow("bbr"), nw.Flow("cubic")], duration="10s"
)
OVER = {"path.rtt": {"from": "5ms", "to": "200ms", "scale": "log"}, "path.rate": {"from": "1Mbit", "to": "20Mbit"}}


class Nobody:
    """Answers at once, with a row that says nothing: what is left is the sweep's own cost."""

    def outcomes(self, cases, count):
        """Batches of a hundred."""
        row = {"flow_number": 0, "flow": "f", "cc": "c"}
        batch = []
        for key, _, _ in cases:
            batch.append((key, [row | {"key": key}], None))
            if len(batch) == 100:
                yield batch
                batch = []
        yield batch


def plan(cases: int, into: str) -> nw.Sweep:
    """A sample of a plane."""
    return nw.sweep(SCENARIO, OVER, design="random", cases=cases, into=into)


def beside_the_engine(cases: int, crew: object, cpus: int) -> dict[str, float]:
    """How much of the cores goes into simulations, once everybody has begun."""
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


def memory(cases: int) -> dict[str, float]:
    """Of a process that plans and keeps so many cases, without running any."""
    code = (
        f"import sys; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\n"
        "import sweep, tempfile, time, resource, json\n"
        "begin = time.perf_counter()\n"
        "there = tempfile.TemporaryDirectory()\n"
        f"whole = sweep.plan({cases}, there.name)\n"
        "whole.finish(on=sweep.Nobody())\n"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        f"print(json.dumps({{'cases': {cases}, 'us_for_each': (time.perf_counter() - begin) / {cases} * 1e6, 'peak_mib': peak}}))"
    )
    return json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--cases", type=int, default=4000)
    asked = parser.parse_args()
    cpus = len(os.sched_getaffinity(0))
    print(json.dumps(beside_the_engine(asked.cases, Local(), cpus)))
    if asked.ray:
        from narrows.sweeps.crews import Ray

        print(json.dumps(beside_the_engine(asked.cases, Ray(), cpus)))
    for cases in (10_000, 100_000, 1_000_000):
        print(json.dumps(memory(cases)), flush=True)
