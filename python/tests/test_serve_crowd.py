"""A client of another address gets in within 100 ms, whatever one host does to the server."""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from test_serve_limits import started
from validation import serve_load
from wires import FAR, NEAR, run, wire

from narrows.host.live import HOST

MOST_S = 0.1
"""Longest time until a client is admitted, in s."""

BUSY_S = 0.03
"""Where a plain server needs longer, the machine and not the server makes clients wait, in s."""

LEAST = 10
"""Number of clients that are needed for a statement."""


@contextlib.contextmanager
def plain_server() -> Iterator[int]:
    """The port of a server that replies to each connection at once."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    link, _ = server.accept()
                    with link:
                        link.recv(37)
                        link.sendall(b"\x09")

        threading.Thread(target=serve, daemon=True).start()
        yield int(server.getsockname()[1])
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


def check_admission(port: int, going_on: Callable[[int], bool]) -> None:
    """Check that clients of another address are admitted in time during the attack."""
    waits = []
    with plain_server() as plain:
        n = 0
        while going_on(n):
            n += 1
            before, wait, after = (serve_load.admitted(to) for to in (plain, port, plain))
            if max(before or 9, after or 9) <= BUSY_S:
                waits.append(wait)
            time.sleep(0.02)
    if len(waits) < LEAST:
        pytest.skip(f"the machine is busy: a plain server needed over {1000 * BUSY_S:.0f} ms")
    assert None not in waits
    assert max(wait for wait in waits if wait is not None) <= MOST_S, sorted(map(str, waits))[-3:]


@pytest.mark.parametrize("first", [b"", b"G"])
def test_500_silent_connections_of_one_host_block_no_other_client(first: bytes) -> None:
    with serve_load.far_end(HOST) as (port, _), contextlib.ExitStack() as open_:
        for _ in range(500):
            link = socket.create_connection(
                ("127.0.0.1", port), source_address=(serve_load.CROWD, 0)
            )
            open_.enter_context(link)
            with contextlib.suppress(OSError):
                link.sendall(first)
        check_admission(port, lambda n: n < 3 * LEAST)


def test_20_000_connections_of_one_host_block_no_other_client() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 16_000:
        pytest.skip(f"RLIMIT_NOFILE allows {hard} descriptors; 16,000 are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    try:
        with serve_load.far_end(HOST) as (port, _):
            words = ["-c", serve_load.FLOOD, str(port), "20000", serve_load.CROWD]
            with subprocess.Popen([sys.executable, *words]) as flood:
                check_admission(port, lambda _: flood.poll() is None)
                assert flood.wait() == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


SYNS = """
import socket, struct, sys
far, port = socket.inet_aton(sys.argv[1]), int(sys.argv[2])
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
for n in range(20000):
    # Unused addresses of the network: no host resets the server's half of the connection.
    near = bytes([198, 51, 100, 10 + n % 240])
    head = [1024 + n % 60000, port, n * 65537 % 2**32, 0, 0x50, 2, 65535, 0, 0]
    tcp = struct.pack(">HHIIBBHHH", *head)
    head[-2] = checksum(near + far + struct.pack(">BBH", 0, 6, 20) + tcp)
    tcp = struct.pack(">HHIIBBHHH", *head)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40, n % 65536, 0, 64, 6, 0, near, far)
    raw.sendto(ip + tcp, (sys.argv[1], 0))
    if n == 2000:
        print("begun", flush=True)
"""

CLIENT = """
import socket, sys, time
waits = []
for _ in range(20):
    begun = time.monotonic()
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5) as client:
        client.sendall(b"abcdefghijklmnopqrstuvwxyz234567abcd\\0")
        assert client.recv(1) == b"\\x09"
    waits.append(time.monotonic() - begun)
print(max(waits))
"""


def test_half_open_connections_block_no_client() -> None:
    with wire() as between, contextlib.ExitStack() as open_:
        child = started(open_, 1, *between.far, str(HOST), "serve", "--tied")
        assert child.poll() is None
        words = [*between.near, sys.executable, "-c"]
        run(*words, CLIENT, FAR, "5201")
        alone = float(run(*words, CLIENT, FAR, "5201"))
        if alone > BUSY_S:
            pytest.skip(f"the machine is busy: a client alone waits {1000 * alone:.0f} ms")
        started(open_, 1, *words, SYNS, FAR, "5201")
        half = run(*between.far, "ss", "-Htn", "state", "syn-recv").splitlines()
        assert len(half) > 100, NEAR
        assert float(run(*words, CLIENT, FAR, "5201")) <= MOST_S
