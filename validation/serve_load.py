"""Measures `narrows serve` under load, and the effect of this load on another client; all traffic
is on loopback.

    .venv/bin/python -m validation.serve_load [--before PROGRAM --before-commit ID] [--rounds N]
                                              [--out FILE]

`--before` is the `narrows-host` of another version. The two versions take turns in each round. The
program prints a table in Markdown, and writes it to `--out` with the commits and the machine:

- throughput (one TCP stream each way), processor time of the server per gigabyte, and latency
  (timed questions) of one client alone. The values are the median of the rounds, and the median
  ratio of the two versions within a round with its 95 % interval. The interval follows from the
  order of the rounds, without an assumption about their distribution;
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
import math
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


def json_output(*words: str | Path) -> dict[str, Any]:
    """The output of a program, as JSON."""
    done = subprocess.run(
        [*map(str, words)], capture_output=True, text=True, check=True, timeout=120
    )
    return dict(json.loads(done.stdout))


def processor_s(process: int) -> float:
    """CPU time of all threads of a process, in s."""
    texts = (
        (task / "schedstat").read_text("utf-8") for task in Path(f"/proc/{process}/task").iterdir()
    )
    return sum(int(text.split()[0]) for text in texts) / 1e9


def throughput(host: Path, port: int, process: int, test: str) -> tuple[float, float]:
    """The goodput of one stream, in Gbit/s, and the server's CPU time per gigabyte, in s."""
    before = processor_s(process)
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
    flow = json_output(host, *words)["flows"][0]
    spent = processor_s(process) - before
    goodput = float(flow["goodput_mbit"]) / 1000
    return goodput, spent / (goodput / 8 * 3)


def latency(host: Path, port: int) -> float:
    """The median RTT of 20,000 timed questions, sent every 100 µs, in µs."""
    words = ("latency", "127.0.0.1", "--port", str(port), "--count", "20000", "--interval", "100us")
    return float(json_output(host, *words)["rtt_us"]["p50"])


def admitted(port: int, source: str = "127.0.0.1") -> float | None:
    """Time until an iperf3 client receives its first answer, in s; None if it receives none within
    5 s.
    """
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


def waiting_text(waits: list[float | None]) -> str:
    """A phrase that states the waiting times of clients."""
    got = [wait for wait in waits if wait is not None]
    lost = (
        f", {len(waits) - len(got)} of {len(waits)} refused"
        if len(got) < len(waits)
        else f", all {len(got)} served"
    )
    return f"longest wait {1000 * max(got):.1f} ms{lost}" if got else f"none of {len(waits)} served"


def silent_connections(host: Path, first: bytes) -> str:
    """The waiting times of clients while 500 other connections have sent only the bytes `first`."""
    with far_end(host) as (port, _), contextlib.ExitStack() as open_:
        for _ in range(500):
            link = open_.enter_context(
                socket.create_connection(("127.0.0.1", port), source_address=(CROWD, 0))
            )
            link.sendall(first)
        return waiting_text([admitted(port) for _ in range(20)])


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


def many_connections(host: Path) -> str:
    """The waiting times of clients while another address opens 20,000 connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    try:
        with far_end(host) as (port, _):
            flood = subprocess.Popen([sys.executable, "-c", FLOOD, str(port), "20000", CROWD])
            waits = []
            while flood.poll() is None:
                waits.append(admitted(port))
                time.sleep(0.02)
            return waiting_text(waits)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def iperf(port: int, *words: str) -> str:
    """The rate that an iperf3 client receives when it requests 10 Gbit/s."""
    done = subprocess.run(
        ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-t", "3", "-J", "-R", "-b", "10G", *words],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    end = json.loads(done.stdout)["end"]
    seen = end.get("sum_received") or end["sum"]
    return f"{seen['bytes'] * 8e-6 / 3:.1f} Mbit/s"


def frame(value: object) -> bytes:
    """A request as bytes: its length, and its JSON."""
    text = json.dumps(value).encode()
    return struct.pack(">I", len(text)) + text


def objects(port: int, version: int) -> str:
    """The total rate that eight HTTP connections of one session receive."""
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
    """The machine's TCP memory that 500 requested objects use whose client does not read them, in
    MiB.
    """

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


METRICS = {
    "up": ("upload", "Gbit/s"),
    "down": ("download", "Gbit/s"),
    "up_cost": ("upload, processor time of the server per GB", "s"),
    "down_cost": ("download, processor time of the server per GB", "s"),
    "latency": ("median RTT", "µs"),
}

Rounds = dict[str, list[float]]


def interval(values: list[float]) -> tuple[float, float]:
    """The 95 % confidence interval of the median; its ends are two of the values.

    >>> interval([float(n) for n in range(1, 18)])
    (5.0, 13.0)
    """
    n, below, rank = len(values), 0.0, 0
    while rank < n // 2 and below + math.comb(n, rank) / 2**n <= 0.025:  # noqa: PLR2004
        below += math.comb(n, rank) / 2**n
        rank += 1
    ordered = sorted(values)
    first = max(0, rank - 1)
    return ordered[first], ordered[n - 1 - first]


def one_client(programs: list[Path], rounds: int) -> list[Rounds]:
    """Measures one client alone: the values of each round, for each program."""
    seen: list[Rounds] = [{name: [] for name in METRICS} for _ in programs]
    for number in range(rounds):
        turn = list(zip(programs, seen, strict=True))
        for host, of in turn if number % 2 else reversed(turn):
            with far_end(host) as (port, process):
                for way in ("up", "down"):
                    rate, cost = throughput(host, port, process, f"tcp_{way}")
                    of[way].append(rate)
                    of[f"{way}_cost"].append(cost)
                of["latency"].append(latency(host, port))
    return seen


def row(name: str, seen: list[Rounds]) -> tuple[str, ...]:
    """A row of the table: a metric of one client alone for each program, and the ratio."""
    text, unit = METRICS[name]
    cells = [f"one client alone: {text}"]
    for of in seen:
        cells.append(f"{statistics.median(of[name]):.3g} {unit}")
    if len(seen) > 1:
        ratios = [after / before for before, after in zip(*(of[name] for of in seen), strict=True)]
        low, high = interval(ratios)
        cells.append(f"{statistics.median(ratios):.3f} ({low:.3f} to {high:.3f})")
    return tuple(cells)


def git(*words: str) -> str:
    """The output of git in this checkout."""
    done = subprocess.run(
        ["git", *words], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    return done.stdout.strip()


def main() -> None:
    """Measures and prints."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--host", type=Path, default=HOST, help="program to be measured")
    arguments.add_argument(
        "--before", type=Path, help="second program for comparison, in alternating rounds"
    )
    arguments.add_argument(
        "--before-protocol",
        type=int,
        default=1,
        help="protocol version of the second program [default: 1]",
    )
    arguments.add_argument(
        "--before-commit", default="not stated", help="commit of the second program"
    )
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--out", type=Path, help="file for the table")
    given = arguments.parse_args()
    commit = git("rev-parse", "HEAD")
    programs = [(given.before, given.before_protocol)] if given.before else []
    programs.append((given.host, 2))
    load = os.getloadavg()[0]
    seen = one_client([host for host, _ in programs], given.rounds)
    rows = [row(name, seen) for name in METRICS]
    columns: list[list[tuple[str, str]]] = []
    for host, version in programs:
        columns.append(
            [
                ("500 silent connections", silent_connections(host, b"")),
                ("500 connections with one byte", silent_connections(host, b"G")),
                ("20,000 connections of one address", many_connections(host)),
                *limited(host, version),
                ("TCP memory of 500 unread objects", memory(host, version)),
            ]
        )
    for cells in zip(*columns, strict=True):
        rows.append((cells[0][0], *(text for _, text in cells), *([""] * (len(columns) - 1))))
    heads = ["", "before", "after", "after / before (95 %)"] if given.before else ["", "measured"]
    table = [heads, ["---"] * len(heads), *rows]
    text = "".join(f"| {' | '.join(cells)} |\n" for cells in table)
    sys.stdout.write(text)
    if given.out is not None:
        processors = os.cpu_count()
        head = (
            "# The far end under load\n\n"
            "Written by `python -m validation.serve_load`; all traffic on loopback.\n\n"
            f"- before: commit {given.before_commit}\n- after: commit {commit}\n"
            f"- machine: {processors} processors, Linux {os.uname().release}; load average "
            f"{load:.0f} to {os.getloadavg()[0]:.0f}\n- rounds: {given.rounds}\n\n"
        )
        given.out.write_text(head + text, encoding="utf-8")


if __name__ == "__main__":
    main()
