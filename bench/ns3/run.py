"""Measures ns-3 with the set-ups of `bench/scale.py`: segments per CPU second, and memory.

Run by `make bench-ns3`, manually: it needs ns-3's development files (Debian:
`apt-get install g++ libns3-dev`) and is not part of the tests.

    python bench/ns3/run.py [--json] [--repeat N] [--cc NAME] [--flows N]

`dumbbell.cc` defines the simulation. The result is the run with the least CPU time. The virtual
time is shorter than in scale.py, so that no run takes much more than a minute of CPU.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from common import positive  # noqa: E402  the folder is no package

SETUPS = (
    (1, 100, 40, 0, 20),
    (10, 1000, 20, 0, 2),
    (100, 1000, 20, 0, 2),
    (10_000, 10_000, 50, 1000, 0.5),
)
"""The set-ups: number of flows, Mbit/s, RTT in milliseconds, nodes on each side, seconds of virtual
time.
"""
CCS = ("cubic", "bbr")
MODULES = (
    "core",
    "network",
    "internet",
    "point-to-point",
    "applications",
    "traffic-control",
    "stats",
)
INSTALL = (
    "bench-ns3 needs g++ and ns-3's development files: on Debian and Ubuntu, apt-get "
    "install g++ libns3-dev"
)
LONGEST_S = 300
"""Maximum wall-clock time of a run, in s; a run that takes longer is ended."""


def build(folder: str) -> str:
    """Builds the program with the installed ns-3, and returns its path."""
    program = f"{folder}/dumbbell"
    command = ["g++", "-std=c++17", "-O2", str(HERE / "dumbbell.cc"), "-o", program]
    try:
        command += [f"-lns3-{name}" for name in MODULES]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        sys.exit(INSTALL)
    if done.returncode:
        missing = "ns3/" in done.stderr and "No such file" in done.stderr
        sys.exit(INSTALL if missing else done.stderr)
    return program


def version() -> str:
    """The version of the installed ns-3, from Debian's package if there is one."""
    try:
        command = ["dpkg-query", "--show", "--showformat", "${Version}", "libns3-dev"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        return "unknown"


def main() -> None:
    """Prints the table, or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.add_argument(
        "--repeat", type=positive, default=3, help="runs of each set-up (default: 3)"
    )
    parser.add_argument("--cc", choices=CCS, help="one congestion control only")
    parser.add_argument(
        "--flows", type=int, choices=[setup[0] for setup in SETUPS], help="one set-up only"
    )
    args = parser.parse_args()
    setups = [setup for setup in SETUPS if args.flows in (None, setup[0])]
    cases = [(cc, *setup) for cc in ([args.cc] if args.cc else CCS) for setup in setups]
    load = os.getloadavg()[0]
    best: dict[tuple[str | int, ...], dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder)
        for _ in range(args.repeat):
            for case in cases:
                names = ("cc", "flows", "mbit", "rtt", "hosts", "seconds")
                command = [
                    program,
                    *(f"--{name}={value}" for name, value in zip(names, case, strict=True)),
                ]
                try:
                    run = subprocess.run(
                        command, stdout=subprocess.PIPE, check=True, timeout=LONGEST_S
                    )
                except subprocess.TimeoutExpired:
                    print(f"given up after {LONGEST_S} s: {' '.join(command[1:])}", file=sys.stderr)
                    continue
                done = json.loads(run.stdout)
                if case not in best or done["cpu_s"] < best[case]["cpu_s"]:
                    best[case] = done
    if args.json:
        names = ("cc", "flows", "mbit", "rtt_ms", "hosts", "seconds")
        rows = [dict(zip(names, case, strict=True)) | done for case, done in best.items()]
        print(json.dumps({"ns3": version(), "load": load, "rows": rows}, indent=1))
        return
    print(f"ns-3 {version()}, load {load:.1f} when it began")
    print(
        f"{'cc':6} {'flows':>6}  {'path':17} {'hosts':>5} {'virtual s':>9} {'segments':>9} "
        f"{'CPU s':>7} {'k/CPU s':>8} "
        f"{'running':>8} {'events':>7} {'MiB':>6}"
    )
    for (cc, flows, mbit, rtt, hosts, seconds), done in best.items():
        segments = done["segments"]
        print(
            f"{cc:6} {flows:6}  {f'{mbit} Mbit, {rtt} ms':17} {hosts:5} {seconds:9} {segments:9} "
            f"{done['cpu_s']:7.2f} "
            f"{segments / done['cpu_s'] / 1e3:8.1f} {segments / done['run_s'] / 1e3:8.1f} "
            f"{done['events'] / segments:7.1f} {done['rss_bytes'] / 2**20:6.0f}"
        )
    print(
        "k/CPU s: thousand segments per second of CPU, of the whole process; running: of "
        "Simulator::Run alone.\n"
        "events: for each segment. hosts: nodes on each side, or 0, where flows end on the "
        "bottleneck's own.\n"
        "MiB: at its peak, the whole process"
    )


if __name__ == "__main__":
    main()
