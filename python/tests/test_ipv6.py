"""Measurements, shells and captures over IPv6."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import NARROWS
from test_live import ready
from test_record import packets
from test_shell import CLIENT, SERVER, number, python, shell

from narrows import files
from narrows.host.live import HOST

IPV6 = Path("/proc/sys/net/ipv6")
pytestmark = pytest.mark.skipif(not IPV6.exists(), reason="this kernel has no IPv6")

SERVER6 = SERVER.replace(
    'create_server(("far", 9000))', 'create_server(("far6", 9000), family=socket.AF_INET6)'
)
CLIENT6 = CLIENT.replace('("far", 9000)', '("far6", 9000)')


def test_the_rate_of_a_shell_limits_ipv6(tmp_path: Path) -> None:
    ready("cubic")
    goodput = number(tmp_path, SERVER6, CLIENT6, "--rate", "20Mbit", "--rtt", "10ms")
    # The header of IPv6 has 20 bytes more than that of IPv4.
    assert goodput == pytest.approx(20 * 1428 / 1514, rel=0.03)


def test_a_host_is_measured_over_ipv6(tmp_path: Path) -> None:
    ready("cubic")
    made, capture = tmp_path / "m.json", tmp_path / "c.pcapng"
    measure = f"{NARROWS} measure far6 --test tcp_down --duration 2s --idle 500ms --no-history"
    done = shell(
        "--rate", "20Mbit", "--rtt", "20ms", "--record", capture, "--far", f"{HOST} serve",
        command=[*measure.split(), "--no-model", "--out", str(made)],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    measured = files.read(made)
    assert ":" in json.loads(made.read_text(encoding="utf-8"))["peer"]["address"].rpartition(":")[0]
    assert measured.rate_mbit("down") == pytest.approx(20 * 1428 / 1514, rel=0.1)
    assert measured.latency("idle").mean == pytest.approx(20, abs=3)
    seen = [packet.head for packet in packets(capture)]
    assert sum(data[0] >> 4 == 6 for data in seen) > 1000
    # Nothing but the measurement uses the path: no packets of IPv4 or of the kernel itself.
    assert all(data[0] >> 4 == 6 for data in seen)


def test_response_times_are_measured_over_ipv6() -> None:
    ready()
    command = f"{NARROWS} latency far6 --count 100 --json"
    done = shell(
        "--rate", "20Mbit", "--rtt", "20ms", "--far", f"{HOST} serve", command=command.split()
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def test_a_family_that_the_host_lacks_is_an_error() -> None:
    for host, family in (("127.0.0.1", "6"), ("::1", "4")):
        for command in ("measure", "latency"):
            done = subprocess.run(
                [NARROWS, command, host, "--ip", family],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 2
            assert f"{host}: it has no IPv{family} address; omit --ip {family}" in done.stderr


def test_programs_use_ipv4_unless_they_request_ipv6(tmp_path: Path) -> None:
    ready()
    text = "import socket\nprint(*(socket.getaddrinfo(n, 1)[0][4][0] for n in ('far', 'far6')))"
    done = shell("--rate", "20Mbit", command=python(tmp_path, "names.py", text).split())
    assert done.stdout.split() == ["10.0.0.2", "fd00::2"]
