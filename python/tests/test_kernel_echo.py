"""Answers from inside the kernel: `narrows serve --xdp`, asked over a veth pair by plain sockets."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from test_live import ready
from test_shell import shell
from wires import DEVICE, FAR, Wire, run, wire

from narrows.host.live import HOST

PORT = 5207

ASK = f"""
import json, socket, struct, time
question = bytearray(100)
question[:8] = b"NARP\\x01q\\0\\3"
question[8:28] = bytes(range(20))
struct.pack_into(">Q", question, 28, 123456789)
seen = []
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
    client.settimeout(5)
    client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0xb8)
    client.connect(({FAR!r}, {PORT}))
    for payload in (b"", b"x", bytes(1400), question):
        client.send(payload)
        seen.append(client.recv(2000))
assert seen[:3] == [b"", b"x", bytes(1400)]
answer = seen[3]
assert answer[:8] == b"NARP\\x01a\\xb8\\3" and answer[8:36] == question[8:36] and answer[60:] == question[60:]
received, answered = struct.unpack_from(">QQ", answer, 36)
assert 0 < received <= answered <= time.clock_gettime_ns(time.CLOCK_MONOTONIC)
"""


def served(between: Wire, *words: str) -> subprocess.Popen[str]:
    command = [*between.far, str(HOST), "serve", "--tied", "--xdp", DEVICE, *words]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert server.stderr is not None
    if not server.stdout.readline():
        told = server.stderr.read()
        assert server.wait(5) == 2, told
        pytest.skip(told.strip())
    return server


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_kernel_answers_until_the_process_ends_however_it_does(end: signal.Signals) -> None:
    with wire() as between, served(between) as server:
        try:
            run(*between.near, sys.executable, "-c", ASK)
            assert "xdpgeneric" in run(*between.far, "ip", "link", "show", DEVICE)
            taken = subprocess.run(
                [*between.far, str(HOST), "serve", "--port", "0", "--xdp", DEVICE],
                capture_output=True, text=True, check=False, timeout=20,
            )  # fmt: skip
            assert taken.returncode == 2
            assert "another XDP program" in taken.stderr
            server.send_signal(end)
            assert server.wait(5) == (-9 if end == signal.SIGKILL else 128 + end)
        finally:
            server.kill()
        # The kernel takes it off when the last descriptor is gone, a moment after the process is.
        last = time.monotonic() + 5
        while "xdp" in (shown := run(*between.far, "ip", "link", "show", DEVICE)) and time.monotonic() < last:
            time.sleep(0.05)
        assert "xdp" not in shown


def test_counters_tell_and_other_ports_are_the_stacks() -> None:
    other = f"""
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
    client.settimeout(5)
    client.connect(({FAR!r}, {PORT + 1}))
    client.send(b"x")
    try:
        client.recv(10)
    except ConnectionRefusedError:
        pass
    else:
        raise AssertionError
"""
    with wire() as between, served(between, "--metrics", "127.0.0.1:9") as server:
        try:
            run(*between.near, sys.executable, "-c", ASK)
            run(*between.near, sys.executable, "-c", other)
            fetch = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9/metrics').read().decode())"
            assert "narrows_serve_kernel_answers_total 4\n" in run(*between.far, sys.executable, "-c", fetch)
        finally:
            server.kill()


def test_a_device_without_ethernet_frames_is_refused() -> None:
    ready()
    # The device of a shell's host is a TUN device.
    done = shell("--rate", "1Mbit", "--quiet", command=[str(HOST), "serve", "--port", "0", "--xdp", "e0"])
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("--xdp e0: its packets have no Ethernet header")
    assert "leave --xdp out" in done.stderr


def test_what_is_missing_is_said() -> None:
    for words in (["--xdp", "none-such"], ["--xdp", "lo", "--bind", "192.0.2.77"]):
        refused = subprocess.run(
            [str(HOST), "serve", "--port", "0", *words], capture_output=True, text=True, check=False, timeout=20
        )
        assert refused.returncode == 2
        assert refused.stderr.count("\n") == 1
