"""Compares the CPU cost of a load by `narrows measure` and by iperf3, over loopback.

    python bench/bulk.py                 five rounds, two minutes
    python bench/bulk.py --rounds 2 --seconds 2

Each round runs all clients in turn, because the speed of a machine varies from minute to minute.
The rate is taken from the report of the client. The program prints the CPU time (user and system)
of the client alone, and of client and server together. Over loopback the kernel does work of one
process in the context of the other.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from common import positive
from narrows.host.live import HOST

PLENTY = "1000GB"

Json = dict[str, Any]


def free_port() -> int:
    """A free TCP port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def cpu_so_far(pid: int) -> float:
    """CPU time of a running process, in seconds."""
    with Path(f"/proc/{pid}/stat").open(encoding="utf-8") as stat:
        words = stat.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def timed(command: list[str]) -> tuple[Json, float]:
    """The JSON that a program prints, and its CPU time in seconds."""
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if status:
            sys.exit(f"{' '.join(command)} failed")
        out.seek(0)
        return json.load(out), usage.ru_utime + usage.ru_stime


def ours(port: int, way: str, streams: int, seconds: int) -> tuple[float, float]:
    """Gigabytes transferred by `narrows measure`, and CPU time of this client in seconds."""
    load = [
        "--speaks",
        "iperf3",
        "--test",
        f"tcp_n{way}",
        "--streams",
        str(streams),
        "--duration",
        f"{seconds}s",
    ]
    told, cpu_s = timed(
        [
            HOST,
            "measure",
            "127.0.0.1",
            "--port",
            str(port),
            *load,
            "--idle",
            "0s",
            "--max-data",
            PLENTY,
        ]
    )
    return sum(flow["bytes"] for flow in told["flows"]) / 1e9, cpu_s


def iperf3s(port: int, way: str, streams: int, seconds: int) -> tuple[float, float]:
    """Gigabytes transferred by `iperf3 -c`, and CPU time of this client in seconds."""
    back = ["-R"] if way == "down" else []
    command = [
        "iperf3",
        "-c",
        "127.0.0.1",
        "-p",
        str(port),
        "-t",
        str(seconds),
        "-P",
        str(streams),
        "-J",
        *back,
    ]
    told, cpu_s = timed(command)
    end = told["end"]["sum_received" if way == "down" else "sum_sent"]
    return end["bytes"] / 1e9, cpu_s


WHO = {"narrows": ours, "iperf3": iperf3s}


def main() -> None:
    """Runs all rounds and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=positive, default=5, help="(default: 5)")
    parser.add_argument("--seconds", type=positive, default=4, help="of each load (default: 4)")
    parser.add_argument(
        "--streams", type=positive, default=1, help="TCP connections of each load (default: 1)"
    )
    args = parser.parse_args()
    if not shutil.which("iperf3"):
        sys.exit("iperf3 is not installed")
    port = free_port()
    server = subprocess.Popen(
        ["iperf3", "-s", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    rows: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    try:
        time.sleep(0.5)
        for n in range(args.rounds):
            for way in ("up", "down"):
                for who in list(WHO)[:: 1 if n % 2 else -1]:
                    before = cpu_so_far(server.pid)
                    gigabytes, cpu_s = WHO[who](port, way, args.streams, args.seconds)
                    whole = cpu_s + cpu_so_far(server.pid) - before
                    found = (
                        8 * gigabytes / args.seconds,
                        cpu_s / args.seconds,
                        cpu_s / gigabytes,
                        whole / gigabytes,
                    )
                    rows.setdefault((way, who), []).append(found)
                    time.sleep(0.3)  # the server needs this time to accept the next client
    finally:
        server.terminate()
        server.wait()
    print(
        "| client | way | Gbit/s | of one processor | CPU s per GB, client | with the server | of "
        "the rounds |"
    )
    print("|---|---|---|---|---|---|---|")
    for (way, who), found in sorted(rows.items(), reverse=True):
        rate, share, own, both = (median(column) for column in zip(*found, strict=True))
        least, most = (end(cost for *_, cost in found) for end in (min, max))
        costs = f"{own:.3f} | {both:.3f} | {least:.3f} to {most:.3f}"
        print(f"| {who} | {way} | {rate:.1f} | {100 * share:.0f} % | {costs} |")


if __name__ == "__main__":
    main()
