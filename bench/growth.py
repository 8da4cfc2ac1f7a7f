"""Attributes the cost of a segment with many flows to its causes.

    python bench/growth.py [--repeat N] [--json]

The first set-up is one flow with a large window; two others are 100 flows of CUBIC and of BBR over
1 Gbit/s. In the last three, each flow has 1 Mbit/s. Windows, losses and bursts are then about
the same, and only the number of flows differs. The difference between the first of them and one
flow is therefore the cost of small windows with losses. The difference to the rows with more flows
is mostly the cost of memory: their state exceeds the caches.

The CPU time is that of the whole process, the minimum of several alternating runs. The counts are
those of callgrind, with a simple branch predictor and with caches of the sizes in `CACHES`. They do
not include prefetching. All values are per segment sent.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys

from common import built, positive, run

SETUPS = (
    ("cubic", "1", "100Mbit", "40ms", "100s", "20s"),
    ("cubic", "100", "1Gbit", "20ms", "10s", "2s"),
    ("bbr", "100", "1Gbit", "20ms", "10s", "2s"),
    ("cubic", "100", "100Mbit", "50ms", "60s", "12s"),
    ("cubic", "1000", "1Gbit", "50ms", "10s", "4s"),
    ("cubic", "10000", "10Gbit", "50ms", "10s", "3s"),
)
"""Congestion control, number of flows, rate, RTT, and virtual time of the timed and of the counted
run.
"""
CACHES = ("--I1=32768,8,64", "--D1=49152,12,64", "--LL=1310720,20,64")
"""Sizes in bytes, associativity and line size of the caches of a core (first level, second)."""
COUNTS = {
    "instructions": ("Ir",),
    "mispredictions": ("Bcm", "Bim"),
    "l1i_misses": ("I1mr",),
    "l1d_misses": ("D1mr", "D1mw"),
    "l2_misses": ("DLmr", "DLmw"),
}
"""The counts, each the sum of these events of callgrind."""


def sent(done: dict[str, float]) -> float:
    """The number of segments sent, with retransmissions."""
    return done["segments"] + done["retransmits"]


def count(scale: str, setup: tuple[str, ...]) -> dict[str, float]:
    """The counts per segment sent, of a whole process."""
    *load, _, duration = setup
    done = subprocess.run(
        [
            *("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"),
            *("--branch-sim=yes", "--cache-sim=yes", *CACHES),
            *(scale, *load, duration),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    segments = sent(json.loads(done.stdout.splitlines()[-1]))
    events = re.search(r"Events +: (.*)", done.stderr)
    values = re.search(r"Collected : (.*)", done.stderr)
    if not events or not values:
        sys.exit(f"the output of valgrind contains no counts:\n{done.stderr}")
    collected = dict(zip(events[1].split(), map(int, values[1].split()), strict=True))
    return {
        name: sum(collected[event] for event in of_name) / segments
        for name, of_name in COUNTS.items()
    }


def main() -> None:
    """Prints the table, or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.add_argument(
        "--repeat", type=positive, default=3, help="timed runs of each set-up (default: 3)"
    )
    args = parser.parse_args()
    if not shutil.which("valgrind"):
        parser.error("valgrind is not installed, and the counts need it")
    scale = built("narrows-bench", "bin", "scale")
    rounds = [[run([scale, *setup[:5]]) for setup in SETUPS] for _ in range(args.repeat)]
    rows = []
    for setup, runs in zip(SETUPS, zip(*rounds, strict=True), strict=True):
        rows.append(
            {
                "cc": setup[0],
                "flows": int(setup[1]),
                "rate": setup[2],
                "rtt": setup[3],
                "ns": min(done["cpu_s"] / sent(done) for done in runs) * 1e9,
                "retransmitted": runs[0]["retransmits"] / sent(runs[0]),
                **count(scale, setup),
            }
        )
        if not args.json:
            print(
                "; ".join(
                    f"{name} {value:.1f}" if isinstance(value, float) else f"{name} {value}"
                    for name, value in rows[-1].items()
                    if name != "retransmitted"
                )
                + f"; retransmitted {100 * rows[-1]['retransmitted']:.1f} %",
                flush=True,
            )
    if args.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
