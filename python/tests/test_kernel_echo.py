"""Replies from inside the kernel: `narrows serve --xdp`, with requests of plain sockets over a veth
pair.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from test_live import ready
from test_shell import shell
from wires import DEVICE, FAR, NEAR, Wire, run, wire

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
assert answer[:8] == b"NARP\\x01a\\xb8\\3"
assert answer[8:36] == question[8:36] and answer[60:] == question[60:]
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
def test_xdp_replies_until_the_process_ends_by_any_signal(end: signal.Signals) -> None:
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
        while (
            "xdp" in (shown := run(*between.far, "ip", "link", "show", DEVICE))
            and time.monotonic() < last
        ):
            time.sleep(0.05)
        assert "xdp" not in shown


def test_xdp_replies_are_counted_and_other_ports_reach_the_stack() -> None:
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
            fetch = (
                "import urllib.request as u; "
                "print(u.urlopen('http://127.0.0.1:9/metrics').read().decode())"
            )
            assert "narrows_serve_kernel_answers_total 4\n" in run(
                *between.far, sys.executable, "-c", fetch
            )
        finally:
            server.kill()


FORGE = """
import socket, struct, sys
here, there, source, target = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
raw.setsockopt(socket.IPPROTO_IP, socket.IP_HDRINCL, 1)
ping, timed = b"NARP\\x01q".ljust(64, b"\\0"), b"NARP\\x01t".ljust(88, b"\\0")
payloads = [b"x", bytes(4) + bytes(range(1, 13)) + b"n" * 48, ping, ping[:40], timed,
ping.replace(b"q", b"a")]
for payload in payloads:
    udp = struct.pack(">HHHH", source, target, 8 + len(payload), 0) + payload
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 255, 17, 0,
    socket.inet_aton(here),
        socket.inet_aton(there))
    raw.sendto(head + udp, (there, 0))
print(len(payloads))
"""
"""Sends datagrams in the name of a service of this host to one of another."""

ANSWERS = """
import urllib.request
text = urllib.request.urlopen("http://127.0.0.1:9/metrics").read().decode()
name = "narrows_serve_kernel_answers_total "
print(next(line.split()[1] for line in text.splitlines() if line.startswith(name)))
"""


@pytest.mark.parametrize("other", [PORT - 1, PORT, PORT + 1])
def test_two_hosts_do_not_reply_to_each_other_endlessly(other: int) -> None:
    with wire() as between, served(between, "--metrics", "127.0.0.1:9") as server:
        command = [
            *between.near,
            str(HOST),
            "serve",
            "--tied",
            "--xdp",
            DEVICE,
            "--xdp-port",
            str(other),
        ]
        with subprocess.Popen(
            [*command, "--metrics", "127.0.0.1:9"], stdout=subprocess.PIPE, text=True
        ) as second:
            try:
                assert second.stdout is not None
                assert second.stdout.readline()
                ends = [
                    (between.near, NEAR, FAR, other, PORT),
                    (between.far, FAR, NEAR, PORT, other),
                ]
                sent = sum(
                    int(
                        run(
                            *words,
                            sys.executable,
                            "-c",
                            FORGE,
                            here,
                            there,
                            str(source),
                            str(target),
                        )
                    )
                    for words, here, there, source, target in ends
                )
                # On a wire without delay 255 answers of each would take less than the start of this
                # program.
                answers = sum(int(run(*words, sys.executable, "-c", ANSWERS)) for words, *_ in ends)
                # Neither answers what the other has answered; between equal ports neither answers
                # at all.
                assert (answers == 0) == (other == PORT)
                assert answers <= sent
            finally:
                second.kill()
                server.kill()


def test_a_device_without_ethernet_frames_is_refused() -> None:
    ready()
    # The device of a shell's host is a TUN device.
    done = shell(
        "--rate", "1Mbit", "--quiet", command=[str(HOST), "serve", "--port", "0", "--xdp", "e0"]
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("--xdp e0: its packets have no Ethernet header")
    assert "leave out --xdp" in done.stderr


def test_a_missing_device_or_address_is_an_error() -> None:
    for words in (["--xdp", "none-such"], ["--xdp", "lo", "--bind", "192.0.2.77"]):
        refused = subprocess.run(
            [str(HOST), "serve", "--port", "0", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
        assert refused.returncode == 2
        assert refused.stderr.count("\n") == 1
