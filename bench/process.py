"""The whole process, as a user pays for it: segments handed to the receiving application per second of CPU, and
instructions per segment (callgrind, where valgrind is installed). Run by `make bench`.

    python bench/process.py [SCENARIO.toml] [--no-callgrind]
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
NARROWS = [sys.executable, "-m", "narrows"]
MSS = 1448


def run(scenario: str) -> tuple[int, float]:
    """Segments delivered, seconds of CPU (user and system, all threads)."""
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen([*NARROWS, "run", scenario, "--json", "--quiet"], stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            sys.exit(f"narrows run {scenario} failed")
        out.seek(0)
        flows = json.load(out)["flows"]
    return sum(f["series"][-1][1] // MSS for f in flows), usage.ru_utime + usage.ru_stime


def instructions(scenario: str) -> int:
    """Instructions of the whole process."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *NARROWS, "run", scenario, "--json"]
    errors = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True).stderr
    return int(re.search(r"Collected : (\d+)", errors)[1])


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", nargs="?", default=str(HERE / "scenarios" / "one-cubic.toml"))
    parser.add_argument("--no-callgrind", action="store_true", help="leave the instructions out")
    args = parser.parse_args()
    runs = sorted((run(args.scenario) for _ in range(5)), key=lambda r: r[1])
    segments, cpu_s = runs[len(runs) // 2]
    print(f"{args.scenario}: {segments} segments")
    print(f"whole process: {cpu_s:.3f} s of CPU (median of 5), {segments / cpu_s / 1e6:.2f} million segments per CPU second")
    if args.no_callgrind:
        return
    if not shutil.which("valgrind"):
        print("instructions per segment: left out, valgrind is not installed")
        return
    print(f"instructions per segment: {instructions(args.scenario) / segments:.0f} (callgrind, whole process)")


if __name__ == "__main__":
    main()
