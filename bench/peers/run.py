"""Measures ns-3 and htsim beside narrows: segments per CPU second, and memory.

Run by `make bench-peers`, manually; it is not part of the tests. A program that is not installed is
left out. The Debian packages for ns-3 are `g++` and `libns3-dev`. htsim has no package. Clone
https://github.com/Broadcom/csg-htsim outside the repository, run `make libhtsim.a` in its folder
`sim`, and give this folder with --htsim.

    python bench/peers/run.py [--htsim FOLDER] [--json] [--repeat N] [--flows N]

`ns3.cc` and `htsim.cc` define the simulations; the runs of narrows are those of `bench/scale.py`.
Runs of all programs alternate. The result is the run with the least CPU time. The simulated time
of ns-3 is shorter than that of the others, so that no run takes much more than a minute of CPU.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from common import built, positive, run  # noqa: E402  the folder is no package

SETUPS = (
    (1, 100, 40, 0, 20, 200),
    (10, 1000, 20, 0, 2, 30),
    (100, 1000, 20, 0, 2, 30),
    (10_000, 10_000, 50, 1000, 0.5, 10),
)
"""The set-ups: flows, Mbit/s, RTT in milliseconds, nodes of ns-3 on each side, virtual time of ns-3
in seconds, and that of the others.
"""
MODULES = (
    "core",
    "network",
    "internet",
    "point-to-point",
    "applications",
    "traffic-control",
    "stats",
)
NS3 = "ns-3 is not measured: it needs apt-get install g++ libns3-dev"
HTSIM = "htsim is not measured: build libhtsim.a as `python bench/peers/run.py --help` states"
LONGEST_S = 300
"""Maximum wall-clock time of a run, in s; a run that takes longer is ended."""

Setup = tuple[int, int, int, int, float, float]
Program = Callable[[Setup], tuple[float, list[str]]]
"""The virtual time of a set-up, in seconds, and the command that runs it."""


def compiled(source: str, folder: str, words: list[str], missing: str) -> str | None:
    """Compiles a C++ program of this folder. Returns its path, or `None` without its library."""
    program = f"{folder}/{pathlib.Path(source).stem}"
    command = ["g++", "-std=c++17", "-O3", str(HERE / source), "-o", program, *words]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        print(missing, file=sys.stderr)
        return None
    if done.returncode == 0:
        return program
    if "No such file" not in done.stderr and "cannot find" not in done.stderr:
        sys.exit(done.stderr)
    print(missing, file=sys.stderr)
    return None


def version() -> str:
    """The version of the installed ns-3, from Debian's package."""
    try:
        command = ["dpkg-query", "--show", "--showformat", "${Version}", "libns3-dev"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        return "of unknown version"


def programs(folder: str, htsim: str | None) -> Iterator[tuple[str, str, Program]]:
    """Name and congestion control of each program, and its commands."""
    scale = built("narrows-bench", "bin", "scale")
    for cc in ("cubic", "reno"):

        def narrows(setup: Setup, cc: str = cc) -> tuple[float, list[str]]:
            flows, mbit, rtt, _, _, seconds = setup
            words = [scale, cc, str(flows), f"{mbit}Mbit", f"{rtt}ms", f"{seconds}s"]
            return seconds, words

        yield "narrows", cc, narrows
    if dumbbell := compiled("ns3.cc", folder, [f"-lns3-{name}" for name in MODULES], NS3):

        def ns3(setup: Setup) -> tuple[float, list[str]]:
            values = ("cubic", *setup[:5])
            names = ("cc", "flows", "mbit", "rtt", "hosts", "seconds")
            words = [f"--{name}={value}" for name, value in zip(names, values, strict=True)]
            return setup[4], [dumbbell, *words]

        yield f"ns-3 {version()}", "cubic", ns3
    if htsim is None:
        print(HTSIM, file=sys.stderr)
    elif other := compiled("htsim.cc", folder, [f"-I{htsim}", f"{htsim}/libhtsim.a"], HTSIM):

        def peer(setup: Setup) -> tuple[float, list[str]]:
            flows, mbit, rtt, _, _, seconds = setup
            words = [f"--flows={flows}", f"--mbit={mbit}", f"--rtt={rtt}", f"--seconds={seconds}"]
            return seconds, [other, *words]

        yield "htsim", "newreno", peer


def main() -> None:
    """Prints the table, or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--htsim", metavar="FOLDER", help="folder with libhtsim.a and its headers")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.add_argument(
        "--repeat", type=positive, default=3, help="runs of each set-up (default: 3)"
    )
    parser.add_argument(
        "--flows", type=int, choices=[setup[0] for setup in SETUPS], help="one set-up only"
    )
    args = parser.parse_args()
    setups = [setup for setup in SETUPS if args.flows in (None, setup[0])]
    load = os.getloadavg()[0]
    best: dict[tuple[Setup, str, str], dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        measured = list(programs(folder, args.htsim))
        for _ in range(args.repeat):
            for setup in setups:
                for name, cc, program in measured:
                    seconds, command = program(setup)
                    try:
                        done = run(command, LONGEST_S)
                    except subprocess.CalledProcessError as error:
                        print(f"not measured: {error}", file=sys.stderr)
                        continue
                    key = (setup, name, cc)
                    if key not in best or done["cpu_s"] < best[key]["cpu_s"]:
                        best[key] = done | {"virtual_s": seconds}
    if args.json:
        names = ("flows", "mbit", "rtt_ms")
        rows = [
            dict(zip(names, setup[:3], strict=True)) | {"program": name, "cc": cc} | done
            for (setup, name, cc), done in best.items()
        ]
        print(json.dumps({"load": load, "rows": rows}, indent=1))
        return
    print(f"Load when it began: {load:.1f}")
    print(
        f"{'flows':>6}  {'path':18} {'program':14} {'cc':8} {'virtual s':>9} {'segments':>9} "
        f"{'CPU s':>7} {'thousand segments per CPU s':>27} {'MiB':>6}"
    )
    for (setup, name, cc), done in best.items():
        flows, mbit, rtt = setup[:3]
        rate = done["segments"] / done["cpu_s"] / 1e3
        print(
            f"{flows:6}  {f'{mbit} Mbit/s, {rtt} ms':18} {name:14} {cc:8} {done['virtual_s']:9} "
            f"{done['segments']:9} {done['cpu_s']:7.2f} {rate:27.1f} "
            f"{done['rss_bytes'] / 2**20:6.0f}"
        )
    print("MiB: largest resident size of the process")


if __name__ == "__main__":
    main()
