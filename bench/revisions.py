"""Compares the instructions per segment of the engine between an older revision and this checkout.

The scenario has one bottleneck, so the comparison shows the cost of features that it does not use.
The default revision is the last one without networks of links. Each program runs under callgrind
for a short and a long duration. The difference of the two runs excludes the start of the process
and the output. The exit code is 1 if an increase exceeds the limit.

    python bench/revisions.py [REVISION] [--limit 2] [--flows 1,50]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from common import ROOT, built
from process import MSS, instructions

BEFORE_LINKS = "51c83c25"
SCENARIO = """duration = "{seconds}s"
warmup = "1s"
[path]
rate = "100Mbit"
rtt = "40ms"
buffer = "1bdp"
[[flow]]
cc = "cubic"
count = {flows}
"""
SHORT, LONG = 2, 6


def build(revision: str, folder: Path) -> str:
    """Builds the engine of a revision in a directory of its own, and returns the program."""
    archive = subprocess.run(
        ["git", "archive", revision], cwd=ROOT, check=True, capture_output=True
    ).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    target = folder / "target"
    subprocess.run(
        ["cargo", "build", "--quiet", "--release", "--package", "narrows-sim", "--example", "run"],
        cwd=folder,
        env=os.environ | {"CARGO_TARGET_DIR": str(target)},
        check=True,
    )
    return str(target / "release/examples/run")


def per_segment(engine: str, flows: int) -> float:
    """Instructions for each segment that is delivered between the ends of the two runs."""
    counted = []
    for seconds in (SHORT, LONG):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(SCENARIO.format(seconds=seconds, flows=flows))
            file.flush()
            out = subprocess.run([engine, file.name], check=True, capture_output=True).stdout
            segments = sum(flow["series"][-1][1] // MSS for flow in json.loads(out)["flows"])
            counted.append((instructions([engine, file.name]), segments))
    (short, few), (long, many) = counted
    return (long - short) / (many - few)


def main() -> None:
    """Prints one line for each number of flows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("revision", nargs="?", default=BEFORE_LINKS)
    parser.add_argument("--limit", type=float, default=2.0, help="largest increase in percent")
    parser.add_argument("--flows", default="1,50", help="numbers of flows, separated by commas")
    args = parser.parse_args()
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        before, now = (
            build(args.revision, Path(folder)),
            built("narrows-sim", "example", "run"),
        )
        for flows in map(int, args.flows.split(",")):
            old, new = per_segment(before, flows), per_segment(now, flows)
            change = 100 * (new / old - 1)
            worst = max(worst, change)
            print(
                f"{flows} flows: {old:.1f} instructions per segment at {args.revision}, "
                f"{new:.1f} now ({change:+.2f} %)",
                flush=True,
            )
    sys.exit(worst > args.limit)


if __name__ == "__main__":
    main()
