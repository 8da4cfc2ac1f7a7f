"""Measures the highest rate that the live engine can emulate on this machine, and the RTT that the
engine adds.

Run by `make bench-live`.

    python bench/live.py [--seconds N] [--json]

For each load, the program determines the highest rate within two limits. The mean delivered rate is
within 0.5 % of the specified rate, and the p99 delay error is below 0.5 ms. The last column states
whether the stricter limits 0.2 % and 0.25 ms are kept. The program also prints the CPU time of the
forwarding thread per packet. For the added RTT it compares pings over an empty
path with pings of `narrows doctor` over the plain forwarder. As root it repeats the test as an
ordinary user (`setpriv`), for whom the limit is 1 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import positive

NARROWS = [sys.executable, "-m", "narrows"]
RATE_ERROR = 0.005
LATE_US = 500
LATE_USER_US = 1000
STRICT_RATE_ERROR = 0.002
STRICT_LATE_US = 250
NOBODY = 65_534

LOADS = (
    (
        "1 CUBIC flow, fifo",
        1,
        "cubic",
        "fifo",
        "10ms",
        (500, 1000, 2000, 3000, 3500, 4000, 4500, 5000),
    ),
    ("16 CUBIC flows, fq_codel", 16, "cubic", "fq_codel", "20ms", (500, 1000, 2000, 3000)),
    ("100 CUBIC flows, fifo", 100, "cubic", "fifo", "20ms", (200, 500, 1000, 2000)),
)
USER_LOADS = (("1 CUBIC flow, fifo, no root", 1, "cubic", "fifo", "10ms", (100, 200, 500, 1000)),)

Json = dict[str, Any]


def scenario(
    flows: int, cc: str, queue: str, rtt: str, rate: str, *, seconds: int, probe: bool
) -> str:
    """The scenario: a path with this rate, its flows and its probe."""
    buffer = 'buffer = "1bdp"\n' if queue == "fifo" else ""
    ping = '[[probe]]\nkind = "ping"\ninterval = "5ms"\n' if probe else ""
    sends = f'[[flow]]\ncc = "{cc}"\ncount = {flows}\n' if flows else ""
    path = f'[path]\nrate = "{rate}"\nrtt = "{rtt}"\n{buffer}queue = "{queue}"\n'
    return f'duration = "{seconds}s"\nwarmup = "1s"\n{path}{sends}{ping}'


def run(text: str, user: bool) -> Json:
    """Runs a scenario live and returns its results; with `user`, as an ordinary user."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "load.toml"
        file.write_text(text, encoding="utf-8")
        Path(folder).chmod(0o755)
        command = [*NARROWS, "run", str(file), "--engine", "live", "--json"]
        if user:
            command = [
                "setpriv",
                f"--reuid={NOBODY}",
                f"--regid={NOBODY}",
                "--clear-groups",
                *command,
            ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    answer: Json = json.loads(done.stdout)
    return answer


def row(
    load: tuple[str, int, str, str, str, tuple[int, ...]], seconds: int, *, user: bool
) -> list[Json]:
    """The results of one load at rising rates, until two rates have exceeded a limit."""
    name, flows, cc, queue, rtt, rates = load
    rows: list[Json] = []
    for rate in rates:
        answer = run(
            scenario(flows, cc, queue, rtt, f"{rate}Mbit", seconds=seconds, probe=False), user
        )
        tools = answer["instruments"]
        limit = LATE_USER_US if user else LATE_US
        error, late = abs(tools["rate_error"]["mean"]), tools["lateness_us"]["p99"]
        busy = tools["rate_error"]["windows"] > 0
        rows.append(
            {
                "load": name,
                "rate_mbit": rate,
                "goodput_mbit": sum(flow["goodput_mbit"] for flow in answer["flows"]),
                "rate_error_pct": 100 * tools["rate_error"]["mean"],
                "late_p99_us": late,
                "cpu_us_per_packet": 1e6 * tools["cpu_s"]["emulator"] / max(tools["packets"], 1),
                "held": busy and error < RATE_ERROR and late < limit,
                "held_strictly": busy and error < STRICT_RATE_ERROR and late < STRICT_LATE_US,
            }
        )
        print(line(rows[-1]), flush=True)
        if len(rows) > 1 and not rows[-1]["held"] and not rows[-2]["held"]:
            break
    return rows


def line(r: Json) -> str:
    """One result as a line of text."""
    return (
        f"{r['load']:28} {r['rate_mbit']:6} Mbit/s  goodput {r['goodput_mbit']:7.1f}  "
        f"off {r['rate_error_pct']:+6.2f} %  p99 late {r['late_p99_us']:6.0f} us  "
        f"{r['cpu_us_per_packet']:5.2f} us/packet  {'held' if r['held'] else '-':4}  "
        f"{'held at 0.2 %, 0.25 ms' if r['held_strictly'] else '-'}"
    )


def added() -> Json:
    """The RTT of pings through an empty path less its propagation, and through the bare
    forwarder.
    """
    answer = run(scenario(0, "", "fifo", "1ms", "1Gbit", seconds=6, probe=True), user=False)
    path_us = 1000 * answer["probes"][0]["rtt_ms"]["p50"] - 1000
    done = subprocess.run(
        [*NARROWS, "doctor", "--json"], capture_output=True, text=True, check=False
    )
    findings = json.loads(done.stdout)["findings"]
    bare = next(f["numbers"] for f in findings if "forwarder" in f["what"])
    return {"path_us": path_us, "forwarder": bare}


def main() -> None:
    """Runs all measurements and prints the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=positive, default=6, help="of each run (default: 6)")
    parser.add_argument("--json", action="store_true", help="one JSON object at the end")
    asked = parser.parse_args()
    rows = [r for load in LOADS for r in row(load, asked.seconds, user=False)]
    if os.geteuid() == 0 and shutil.which("setpriv"):
        rows += [r for load in USER_LOADS for r in row(load, asked.seconds, user=True)]
    more = added()
    print(
        f"RTT added to an empty path: {more['path_us']:.0f} us; the bare forwarder's RTT: "
        f"{more['forwarder']}"
    )
    if asked.json:
        print(json.dumps({"rows": rows, "added": more}))


if __name__ == "__main__":
    main()
