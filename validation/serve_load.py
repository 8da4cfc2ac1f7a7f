"""Measures the server under load, and its effect on a legitimate client; all traffic on loopback.

    .venv/bin/python -m validation.serve_load [--before PROGRAM] [--rounds N]

`--before` is the `narrows-host` of another version. It prints a table in Markdown:

- throughput (one TCP stream each way) and latency (timed questions) of one client alone, the median
  of the rounds;
- 500 connections that send nothing, 500 that send one byte: time until a client of another address
  is served;
- 20,000 connections from one address, as fast as one process makes them: the same, every 20 ms;
- 10 Gbit/s requested under `--rate 10Mbit`: by iperf3 over TCP and UDP, and by eight HTTP
  connections.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from narrows.host.live import HOST

COOKIE = b"abcdefghijklmnopqrstuvwxyz234567abcd\0"
CROWD = "127.0.0.66"


@contextlib.contextmanager
def far_end(host: Path, *options: str) -> Iterator[tuple[int, int]]:
    """Starts a server; yields its port and its process number."""
    words = [str(host), "serve", "--bind", "127.0.0.1", "--port", "0", "--tied", *options]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            yield int(child.stdout.readline().rsplit(":", 1)[1]), child.pid
        finally:
            child.kill()


def asked(*words: str | Path) -> dict[str, Any]:
    """The output of a program, as JSON."""
    done = subprocess.run(
        [*map(str, words)], capture_output=True, text=True, check=True, timeout=120
    )
    return dict(json.loads(done.stdout))


def throughput(host: Path, port: int, test: str) -> float:
    """The goodput of one stream, in Gbit/s."""
    words = (
        "measure",
        "127.0.0.1",
        "--port",
        str(port),
        "--test",
        test,
        "--duration",
        "3s",
        "--idle",
        "200ms",
    )
    return float(asked(host, *words)["flows"][0]["goodput_mbit"]) / 1000


def latency(host: Path, port: int) -> float:
    """The median RTT of 20,000 timed questions, sent every 100 µs, in µs."""
    words = ("latency", "127.0.0.1", "--port", str(port), "--count", "20000", "--interval", "100us")
    return float(asked(host, *words)["rtt_us"]["p50"])


def admitted(port: int, source: str = "127.0.0.1") -> float | None:
    """Time until an iperf3 client has its first answer, in s; None if it gets none within 5 s."""
    begun = time.monotonic()
    with (
        contextlib.suppress(OSError),
        socket.create_connection(
            ("127.0.0.1", port), timeout=5, source_address=(source, 0)
        ) as client,
    ):
        client.sendall(COOKIE)
        if client.recv(1) == b"\x09":
            return time.monotonic() - begun
    return None


def told(waits: list[float | None]) -> str:
    """The waiting times of clients in a phrase."""
    got = [wait for wait in waits if wait is not None]
    lost = (
        f", {len(waits) - len(got)} of {len(waits)} refused"
        if len(got) < len(waits)
        else f", all {len(got)} served"
    )
    return f"longest wait {1000 * max(got):.1f} ms{lost}" if got else f"none of {len(waits)} served"


def silent(host: Path, first: bytes) -> str:
    """The waiting time of a client beside 500 connections that send only these bytes."""
    with far_end(host) as (port, _), contextlib.ExitStack() as open_:
        for _ in range(500):
            link = open_.enter_context(
                socket.create_connection(("127.0.0.1", port), source_address=(CROWD, 0))
            )
            link.sendall(first)
        return told([admitted(port) for _ in range(20)])


FLOOD = """
import socket, sys
port, n, kept = int(sys.argv[1]), int(sys.argv[2]), []
for i in range(n):
    link = socket.socket()
    link.setblocking(False)
    link.bind((sys.argv[3], 0))
    link.connect_ex(("127.0.0.1", port))
    kept.append(link)
    if i >= 200:
        try:
            kept[i - 200].send(b"G")
        except OSError:
            pass
    if i >= 15000:
        kept[i - 15000].close()
"""


def crowd(host: Path) -> str:
    """The waiting times of a client while one address makes 20,000 connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    try:
        with far_end(host) as (port, _):
            flood = subprocess.Popen([sys.executable, "-c", FLOOD, str(port), "20000", CROWD])
            waits = []
            while flood.poll() is None:
                waits.append(admitted(port))
                time.sleep(0.02)
            return told(waits)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def iperf(port: int, *words: str) -> str:
    """The rate that an iperf3 client gets when it requests 10 Gbit/s."""
    done = subprocess.run(
        ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-t", "3", "-J", "-R", "-b", "10G", *words],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    end = json.loads(done.stdout)["end"]
    seen = end.get("sum_received") or end["sum"]
    return f"{seen['bytes'] * 8e-6 / 3:.1f} Mbit/s"


def frame(value: object) -> bytes:
    """A request, with its length."""
    text = json.dumps(value).encode()
    return struct.pack(">I", len(text)) + text


def objects(port: int, version: int) -> str:
    """The rate that eight HTTP connections of one session get."""
    with socket.create_connection(("127.0.0.1", port)) as control:
        control.sendall(b"NARR" + bytes([version]) + b"c".ljust(32, b"\0"))

        def need(n: int) -> bytes:
            return control.recv(n, socket.MSG_WAITALL)

        def answer() -> dict[str, Any]:
            return dict(json.loads(need(struct.unpack(">I", need(4))[0])))

        if answer()["is"] != "greeting":
            return "–"
        control.sendall(frame({"proof": None}))
        cookie, got, end = answer()["cookie"], [0] * 8, time.monotonic() + 3

        def fetch(i: int) -> None:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), timeout=1) as link,
            ):
                while time.monotonic() < end:
                    link.sendall(f"GET /{cookie}/8000000 HTTP/1.1\r\n\r\n".encode())
                    left = 8_000_000
                    while left > 0 and time.monotonic() < end:
                        n = len(link.recv(1 << 18))
                        got[i], left = got[i] + n, left - n
                        if n == 0:
                            return

        threads = [threading.Thread(target=fetch, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return f"{sum(got) * 8e-6 / 3:.1f} Mbit/s"


def memory(host: Path, version: int) -> str:
    """The part of the machine's TCP memory that 500 unread objects use, in MiB."""

    def pages() -> int:
        text = Path("/proc/net/sockstat").read_text(encoding="utf-8")
        return int(next(line.split()[-1] for line in text.splitlines() if line.startswith("TCP:")))

    with far_end(host) as (port, _), contextlib.ExitStack() as open_:
        control = open_.enter_context(socket.create_connection(("127.0.0.1", port)))
        control.sendall(b"NARR" + bytes([version]) + b"c".ljust(32, b"\0"))

        def need(n: int) -> bytes:
            return control.recv(n, socket.MSG_WAITALL)

        if json.loads(need(struct.unpack(">I", need(4))[0]))["is"] != "greeting":
            return "–"
        control.sendall(frame({"proof": None}))
        cookie = json.loads(need(struct.unpack(">I", need(4))[0]))["cookie"]
        before = pages()
        for _ in range(500):
            with contextlib.suppress(OSError):
                link = open_.enter_context(socket.create_connection(("127.0.0.1", port)))
                link.sendall(f"GET /{cookie}/8000000 HTTP/1.1\r\n\r\n".encode())
        time.sleep(1)
        return f"{(pages() - before) * os.sysconf('SC_PAGE_SIZE') / 2**20:.0f} MiB"


def limited(host: Path, version: int) -> Iterator[tuple[str, str]]:
    """The rates of clients that request 10 Gbit/s while `--rate` is 10 Mbit/s."""
    with far_end(host, "--rate", "10Mbit") as (port, _):
        yield "10 Gbit/s under `--rate 10Mbit`: iperf3 -R", iperf(port)
        yield "the same: iperf3 -R -u", iperf(port, "-u")
        yield "the same: HTTP, 8 connections", objects(port, version)


def main() -> None:
    """Measures and prints."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--host", type=Path, default=HOST, help="the program to be measured")
    arguments.add_argument(
        "--before", type=Path, help="another one, for a comparison; they take turns"
    )
    arguments.add_argument(
        "--before-protocol", type=int, default=1, help="the version of its protocol"
    )
    arguments.add_argument("--rounds", type=int, default=7)
    given = arguments.parse_args()
    programs = [(given.before, given.before_protocol)] if given.before else []
    programs.append((given.host, 2))
    alone: list[dict[str, list[float]]] = [{"up": [], "down": [], "latency": []} for _ in programs]
    for number in range(given.rounds):
        turn = list(zip(programs, alone, strict=True))
        for (host, _), seen in turn if number % 2 else reversed(turn):
            with far_end(host) as (port, _):
                seen["up"].append(throughput(host, port, "tcp_up"))
                seen["down"].append(throughput(host, port, "tcp_down"))
                seen["latency"].append(latency(host, port))
    columns: list[list[tuple[str, str]]] = []
    for (host, version), seen in zip(programs, alone, strict=True):
        rows = []
        for name, unit in (("up", "Gbit/s"), ("down", "Gbit/s"), ("latency", "µs")):
            middle, least, most = statistics.median(seen[name]), min(seen[name]), max(seen[name])
            rows.append(
                (f"one client alone, {name}", f"{middle:.2f} {unit} ({least:.2f} to {most:.2f})")
            )
        rows.append(("500 silent connections", silent(host, b"")))
        rows.append(("500 connections with one byte", silent(host, b"G")))
        rows.append(("20,000 connections of one address", crowd(host)))
        rows += limited(host, version)
        rows.append(("TCP memory of 500 unread objects", memory(host, version)))
        columns.append(rows)
    print("| | before | after |\n|---|---|---|" if given.before else "| | |\n|---|---|")
    for cells in zip(*columns, strict=True):
        print(f"| {cells[0][0]} | {' | '.join(text for _, text in cells)} |")


if __name__ == "__main__":
    main()
