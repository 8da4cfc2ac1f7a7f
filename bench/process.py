"""Measures the whole process of `narrows`: segments delivered to the receiving application per CPU
second.

It first measures the CPU time of short commands, which is mostly the start of the process.
docs/performance.md has the targets.

It also counts instructions per segment (callgrind, if valgrind is installed). Run by `make bench`.

    python bench/process.py [SCENARIO.toml] [--no-callgrind]
    python bench/process.py --where        # instructions of the engine by component
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from common import ROOT, built

NARROWS = [sys.executable, "-m", "narrows"]
MSS = 1448


def run(scenario: str) -> tuple[int, float]:
    """The number of segments delivered, and the CPU time in seconds (user and system, all threads).
    If the run fails, this program prints the message of narrows.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile("w+") as told:
        child = subprocess.Popen(
            [*NARROWS, "run", scenario, "--json", "--quiet"], stdout=out, stderr=told
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if status:
            told.seek(0)
            sys.exit(told.read().strip() or f"narrows run {scenario} failed")
        out.seek(0)
        flows = json.load(out)["flows"]
    return sum(f["series"][-1][1] // MSS for f in flows), usage.ru_utime + usage.ru_stime


ONE_SECOND = """duration = "1s"
[path]
rate = "20Mbit"
rtt = "40ms"
buffer = "1bdp"
[[flow]]
cc = "cubic"
[[probe]]
kind = "ping"
interval = "20ms"
"""


def start(arguments: list[str]) -> float:
    """Median CPU time of a command in seconds, of 15 runs."""
    times = []
    for _ in range(15):
        child = subprocess.Popen([*NARROWS, *arguments], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if status:
            sys.exit(f"narrows {' '.join(arguments)} failed")
        times.append(usage.ru_utime + usage.ru_stime)
    return sorted(times)[len(times) // 2]


def starts() -> None:
    """Prints the CPU time of short commands."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(ONE_SECOND)
        file.flush()
        for words in (["run", file.name], ["run", "--help"], ["--help"]):
            shown = " ".join(words).replace(file.name, "(one second)")
            print(f"narrows {shown}: {start(words):.3f} s of CPU (median of 15)")


def instructions(command: list[str], profile: str = "/dev/null") -> int:
    """The number of instructions of a whole process; the profile by function is written to
    `profile`.
    """
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", *command]
    errors = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True
    ).stderr
    return int(re.search(r"Collected : (\d+)", errors)[1])


ROOMS = (
    ("sender", r"tcp::sender|tcp::rtt|tcp::prr|tcp::rack|transport::jiffies"),
    ("scoreboard", r"tcp::scoreboard"),
    ("receiver", r"tcp::receiver"),
    ("congestion control", r"narrows_core::cc"),
    ("path: link, propagation", r"narrows_core::net"),
    ("queue discipline", r"narrows_core::queue"),
    ("metrics", r"narrows_core::metrics"),
    ("event engine, packets", r"narrows_sim"),
)
"""The components, with patterns of their function names. Inlined code counts for the function that
contains it.
"""


def where(scenario: str, segments: int) -> None:
    """Prints instructions per segment by component. It runs the engine alone, because the Python
    package has no symbols.
    """
    engine = built("narrows-sim", "example", "run")
    with tempfile.NamedTemporaryFile() as profile:
        total = instructions([engine, scenario], profile.name)
        lines = subprocess.run(
            ["callgrind_annotate", "--auto=no", "--threshold=100", profile.name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
    rooms = dict.fromkeys([name for name, _ in ROOMS] + ["start-up and the rest"], 0)
    for line in lines:
        found = re.match(r"\s*([\d,]+) \(\s*[\d.]+%\)\s+(\S.*)", line)
        if not found or "PROGRAM TOTALS" in line:
            continue
        function = found[2].split(":", 1)[-1]
        room = next(
            (name for name, pattern in ROOMS if re.search(pattern, function)), list(rooms)[-1]
        )
        rooms[room] += int(found[1].replace(",", ""))
    for room, count in sorted(rooms.items(), key=lambda item: -item[1]):
        print(f"{count / segments:7.0f}  {100 * count / total:5.1f} %  {room}")
    print(f"{total / segments:7.0f}  instructions per segment")


def main() -> None:
    """Measures and prints the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenario", nargs="?", default=str(ROOT / "bench/scenarios/one-cubic.toml"))
    parser.add_argument("--no-callgrind", action="store_true", help="leave the instructions out")
    parser.add_argument("--where", action="store_true", help="only: where the instructions go")
    args = parser.parse_args()
    if args.where:
        if not shutil.which("valgrind"):
            parser.error("--where needs valgrind, which is not installed")
        where(args.scenario, run(args.scenario)[0])
        return
    # These runs are first, because they fail immediately if there is no such scenario.
    runs = sorted((run(args.scenario) for _ in range(5)), key=lambda r: r[1])
    segments, cpu_s = runs[len(runs) // 2]
    starts()
    print(f"{args.scenario}: {segments} segments")
    rate = segments / cpu_s / 1e6
    print(
        f"whole process: {cpu_s:.3f} s of CPU (median of 5), {rate:.2f} million segments per CPU "
        "second"
    )
    if args.no_callgrind:
        return
    if not shutil.which("valgrind"):
        print("instructions per segment: left out, valgrind is not installed")
        return
    each = instructions([*NARROWS, "run", args.scenario, "--json"]) / segments
    print(f"instructions per segment: {each:.0f} (callgrind, whole process)")


if __name__ == "__main__":
    main()
