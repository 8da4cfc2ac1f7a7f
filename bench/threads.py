"""Compares the elapsed time of one run on one thread and on two, in the engine alone.

Both variants run in alternation, and the program checks that their results are equal. A third
variant runs two independent simulations at once, each on one thread. They share no data, but the
cores share the memory and a cache of the processor. Twice the time of one run, divided by the time
of this variant, is therefore the limit of the speed-up on this machine.

Elapsed times depend on other programs. Therefore it also prints the mean number of processor cores
that other programs used during the runs.

    python bench/threads.py [--repeat N] [--json]
"""

import argparse
import json
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import built, positive, run

SETUPS = (
    ("cubic", "100", "1Gbit", "20ms", "30s"),
    ("cubic", "10000", "10Gbit", "50ms", "10s"),
    ("bbr", "100", "1Gbit", "20ms", "30s"),
)
EQUAL = ("segments", "retransmits", "drops", "jain")
"""Results that are compared."""


def busy() -> float:
    """Processor time of all programs since the start of the machine, in seconds."""
    fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, fields[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def timed(command: list[str]) -> dict[str, float]:
    """The results of one run, its elapsed time, and the cores that other programs used."""
    before, begin = busy(), time.monotonic()
    done = run(command)
    elapsed = time.monotonic() - begin
    others = max(busy() - before - done["cpu_s"], 0) / elapsed
    return done | {"elapsed_s": elapsed, "others": others}


def at_once(command: list[str]) -> float:
    """Elapsed time of two independent runs at once, in seconds."""
    begin = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, [command, command]))
    return time.monotonic() - begin


def compare(scale: str, setup: tuple[str, ...], repeat: int) -> dict[str, float | str]:
    """Runs a set-up `repeat` times on each number of threads, and as two runs at once."""
    runs: dict[int, list[dict[str, float]]] = {1: [], 2: []}
    both = []
    for _ in range(repeat):
        for threads, done in runs.items():
            done.append(timed([scale, *setup, "--threads", str(threads)]))
        both.append(at_once([scale, *setup, "--threads", "1"]))
    for key in EQUAL:
        values = {done[key] for of_threads in runs.values() for done in of_threads}
        if len(values) > 1:
            raise SystemExit(f"{' '.join(setup)}: {key} differs between runs: {values}")
    triples = list(zip(runs[1], runs[2], both, strict=True))
    result: dict[str, float | str] = {"setup": " ".join(setup)}
    for threads, of_threads in runs.items():
        result[f"elapsed_{threads}_s"] = min(done["elapsed_s"] for done in of_threads)
        result[f"cpu_{threads}_s"] = min(done["cpu_s"] for done in of_threads)
    result["speedup"] = result["elapsed_1_s"] / result["elapsed_2_s"]
    result["median_speedup"] = statistics.median(
        one["elapsed_s"] / two["elapsed_s"] for one, two, _ in triples
    )
    result["median_limit"] = statistics.median(
        2 * one["elapsed_s"] / both_s for one, _, both_s in triples
    )
    result["others"] = statistics.median(done["others"] for done in runs[1] + runs[2])
    return result


def main() -> None:
    """Prints the table, or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.add_argument(
        "--repeat", type=positive, default=9, help="runs of each variant (default: 9)"
    )
    args = parser.parse_args()
    scale = built("narrows-bench", "bin", "scale")
    rows = [compare(scale, setup, args.repeat) for setup in SETUPS]
    if args.json:
        print(json.dumps(rows, indent=1))
        return
    print(
        f"{'set-up':32} {'1 thread':>9} {'2 threads':>9} {'speed-up':>9} {'median':>7} "
        f"{'limit':>7} {'CPU 1':>7} {'CPU 2':>7} {'others':>7}"
    )
    for row in rows:
        print(
            f"{row['setup']:32} {row['elapsed_1_s']:7.3f} s {row['elapsed_2_s']:7.3f} s "
            f"{row['speedup']:9.2f} {row['median_speedup']:7.2f} "
            f"{row['median_limit']:7.2f} "
            f"{row['cpu_1_s']:5.2f} s {row['cpu_2_s']:5.2f} s {row['others']:7.2f}"
        )
    print(
        "1 thread, 2 threads: least elapsed time. speed-up: their ratio. median: of the ratios of "
        "neighbouring runs. limit: twice the time of one run, relative to that of two independent "
        "runs at once; median. CPU: least processor time. others: cores used by other programs."
    )


if __name__ == "__main__":
    main()
