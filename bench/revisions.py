"""Compares the cost of a segment between an older revision and this checkout.

    python bench/revisions.py [REVISION] [--limit 2] [--flows 1,50]
    python bench/revisions.py [REVISION] --command [--repeat 9]

The first command compares the instructions of the engine. The scenario has one bottleneck, so the
comparison shows the cost of features that it does not use. The default revision is the last one
without networks of links. Each program runs under callgrind for a short and a long duration. The
difference of the two runs excludes the start of the process and the output. The exit code is 1 if
an increase exceeds the limit.

The second command compares the CPU time of whole runs of `narrows`: bench/scenarios/one-cubic.toml
with `run --json`, and a case of 10 000 flows. The older revision is installed by its own `make
setup` with the same compiler; the newer one is the installed package, which `make optimized` may
have replaced. The runs of both alternate. The ratio is the median over the rounds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from common import ROOT, built, positive
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
MANY = """duration = "10s"
[path]
rate = "10Gbit"
rtt = "50ms"
buffer = "1bdp"
[[flow]]
cc = "cubic"
count = 10000
"""


def extract(revision: str, folder: Path) -> None:
    """Writes the files of a revision to a directory."""
    archive = subprocess.run(
        ["git", "archive", revision], cwd=ROOT, check=True, capture_output=True
    ).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)


def build(revision: str, folder: Path) -> str:
    """Builds the engine of a revision in a directory of its own, and returns the program."""
    extract(revision, folder)
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


def install(revision: str, folder: Path) -> str:
    """Installs a revision in a directory of its own, and returns its Python."""
    extract(revision, folder)
    subprocess.run(
        ["make", "setup"],
        cwd=folder,
        env=os.environ | {"CARGO_TARGET_DIR": str(folder / "target")},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return str(folder / ".venv/bin/python")


def cpu_s(python: str, scenario: str, folder: str) -> float:
    """CPU time in s of `narrows run SCENARIO --json`."""
    command = [python, "-m", "narrows", "run", scenario, "--json", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=folder) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(command)} failed")
    return usage.ru_utime + usage.ru_stime


def compare_commands(revision: str, repeat: int) -> None:
    """Prints the CPU time of whole runs of both revisions."""
    with tempfile.TemporaryDirectory() as folder:
        many = Path(folder) / "many.toml"
        many.write_text(MANY, encoding="utf-8")
        before = Path(folder) / "before"
        before.mkdir()
        pythons = install(revision, before), sys.executable
        for title, scenario in (
            ("one flow, 300 s", ROOT / "bench/scenarios/one-cubic.toml"),
            ("10 000 flows, 10 s", many),
        ):
            rounds = [
                [cpu_s(python, str(scenario), folder) for python in pythons] for _ in range(repeat)
            ]
            old, new = (min(times) for times in zip(*rounds, strict=True))
            ratio = statistics.median(old / new for old, new in rounds)
            print(
                f"{title}: {old:.3f} s of CPU time at {revision}, {new:.3f} s now; "
                f"{ratio:.2f} times as fast (median of {repeat} rounds)",
                flush=True,
            )


def main() -> None:
    """Prints one line for each number of flows, or for each run of the whole command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("revision", nargs="?", default=BEFORE_LINKS)
    parser.add_argument("--limit", type=float, default=2.0, help="largest increase in percent")
    parser.add_argument("--flows", default="1,50", help="numbers of flows, separated by commas")
    parser.add_argument("--command", action="store_true", help="compare the CPU time of whole runs")
    parser.add_argument(
        "--repeat", type=positive, default=9, help="rounds with --command (default: 9)"
    )
    args = parser.parse_args()
    if args.command:
        compare_commands(args.revision, args.repeat)
        return
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
