"""Runs the same scenarios with every engine and prints metrics and CPU times as Markdown.

    python bench/engines.py [--kernels 6.12,7.3] [--live]

The table is part of docs/how-to/run-in-virtual-time.md. The CPU time of a run includes the start of
Python, about half a second.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from typing import Any

from common import ROOT

NARROWS = [sys.executable, "-m", "narrows"]
SCENARIOS = (
    "scenarios/first/cubic.toml",
    "scenarios/queues/cake.toml",
    "scenarios/rates/police.toml",
    "bench/scenarios/bbr-loss.toml",
    "bench/scenarios/fifty-flows.toml",
)
COLUMNS = ("goodput Mbit/s", "RTT mean ms", "ping p99 ms", "drops", "retransmits", "CPU s")


def processor_time() -> float:
    """CPU time of all child processes that have ended, in s."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def row(scenario: str, engine: list[str]) -> list[str]:
    """The cells of a table row: the metrics and the CPU time of one run."""
    before = processor_time()
    done = subprocess.run(
        [*NARROWS, "run", str(ROOT / scenario), *engine, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    used = processor_time() - before
    if done.returncode != 0:
        return [done.stderr.strip().splitlines()[-1], *["–"] * (len(COLUMNS) - 2), f"{used:.1f}"]
    run: dict[str, Any] = json.loads(done.stdout)
    flows = run["flows"]
    ping = run["probes"][0]["rtt_ms"]
    return [
        f"{sum(flow['goodput_mbit'] for flow in flows):.2f}",
        f"{sum(flow['rtt_ms']['mean'] for flow in flows) / len(flows):.1f}",
        f"{ping['p99']:.1f}",
        str(sum(queue["drops"] for queue in run["queues"])),
        str(sum(flow["retransmits"] for flow in flows)),
        f"{used:.1f}",
    ]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", default="6.12,7.3", help="built kernels [default: 6.12,7.3]")
    parser.add_argument("--live", action="store_true", help="also run with the TCP of this host")
    asked = parser.parse_args()
    engines = {"sim": ["--engine", "sim"]}
    for kernel in asked.kernels.split(","):
        engines[f"Linux {kernel}"] = ["--engine", "linux", "--kernel", kernel]
    if asked.live:
        engines["live"] = ["--engine", "live"]
    print("| scenario | engine | " + " | ".join(COLUMNS) + " |")
    print("|---|---|" + "---|" * len(COLUMNS))
    for scenario in SCENARIOS:
        for name, engine in engines.items():
            cells = [f"`{scenario}`", name, *row(scenario, engine)]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
