"""Measures the cost of each congestion control: instructions per segment, relative to CUBIC.

Run by `make bench`.

    python bench/congestion_controls.py [--seconds N] [NAME ...]

The path has one flow, 100 Mbit/s, 40 ms and one bandwidth-delay product of buffer. For a congestion
control that needs marks or feedback from routers, the path has the queue discipline that provides
them. The target is at most 1.5 times the cost of CUBIC, and for rule trees at most 3 times.
Callgrind counts the instructions; without valgrind the unit is CPU time.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time

from common import built, positive

MSS = 1448
STEP = '{ kind = "codel", ecn = true, ce_threshold = "2ms" }'
QUEUES = {"xcp": '"xcp"', "dctcp": STEP, "prague": STEP}
MOST = {"remy": 3.0}
SECONDS = {"newreno": 120}
"""Virtual seconds of the run for congestion controls that need longer than the default. Without
SACK one loss is repaired per round trip, so the first recovery takes ten seconds, in which little
is sent.
"""


def cost(run: str, cc: str, seconds: int) -> float:
    """Instructions (or, without valgrind, nanoseconds of CPU time) per segment that arrived."""
    queue = QUEUES.get(cc, '"fifo"\nbuffer = "1bdp"')
    text = (
        f'duration = "{seconds}s"\n[path]\nrate = "100Mbit"\nrtt = "40ms"\nqueue = '
        f'{queue}\n[[flow]]\ncc = "{cc}"\n'
    )
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        begin = time.process_time_ns()
        command = [run, file.name]
        if shutil.which("valgrind"):
            command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        spent = time.process_time_ns() - begin
    segments = json.loads(done.stdout)["flows"][0]["series"][-1][1] / MSS
    found = re.search(r"Collected : (\d+)", done.stderr)
    return (int(found[1]) if found else spent) / segments


def main() -> None:
    """Prints a row for each congestion control."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="as `narrows list cc` has it (default: all)"
    )
    parser.add_argument("--seconds", type=positive, default=5, help="of virtual time (default: 5)")
    asked = parser.parse_args()
    listed = subprocess.run(
        [sys.executable, "-m", "narrows", "list", "cc", "--json"], capture_output=True, check=True
    )
    known = [kind["name"] for kind in json.loads(listed.stdout)["cc"]]
    if unknown := [name for name in asked.names if name not in known]:
        parser.error(f"there is no congestion control {unknown[0]}; there are {', '.join(known)}")
    names = asked.names or known
    run = built("narrows-sim", "example", "run")  # the engine alone, without Python around it
    of_cubic = cost(run, "cubic", asked.seconds)
    for name in names:
        spent = cost(run, name, SECONDS.get(name, asked.seconds))
        limit = MOST.get(name, 1.5)
        over = f"  above {limit}" if spent > limit * of_cubic else ""
        print(f"{name:10} {spent:7.0f} per segment  {spent / of_cubic:5.2f}{over}", flush=True)


if __name__ == "__main__":
    main()
