"""Measurements, shells, captures and scenarios over IPv6."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import NARROWS, live_run
from test_live import ready
from test_record import packets
from test_shell import CLIENT, SERVER, number, python, shell

import narrows as nw
from narrows import files
from narrows.host.live import HOST
from narrows.runs.run import Engine

IPV6 = Path("/proc/sys/net/ipv6")
pytestmark = pytest.mark.skipif(not IPV6.exists(), reason="this kernel has no IPv6")

UDP = 17

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


SCENARIO = """
duration = "6s"
warmup = "2s"
[path]
rate = "20Mbit"
rtt = "20ms"
buffer = "2bdp"
queue = "fifo"
[[flow]]
cc = "cubic"
ip = 6
[[flow]]
workload = { kind = "udp", rate = "1Mbit", packet = "500B" }
ip = 6
dscp = "EF"
[[probe]]
kind = "ping"
interval = "50ms"
ip = 6
"""
"""A TCP flow, datagrams and pings over IPv6."""


@pytest.mark.parametrize("engine", ["sim", "live"])
def test_a_scenario_over_ipv6(tmp_path: Path, engine: Engine) -> None:
    if engine == "live":
        ready("cubic")
    file, capture = tmp_path / "six.toml", tmp_path / "six.pcapng"
    file.write_text(SCENARIO, encoding="utf-8")
    if engine == "live":
        run = live_run(file, record=capture)
    else:
        run = nw.run(file, engine=engine, record=capture).json
    compared(run)
    seen = [packet.head for packet in packets(capture)]
    assert len(seen) > 1000
    assert {head[0] >> 4 for head in seen} == {6}
    # The traffic class of datagrams is EF without ECN; their payload length includes UDP.
    datagrams = [head for head in seen if head[6] == UDP and head[4:6] == (508).to_bytes(2, "big")]
    assert len(datagrams) > 1000
    assert {(head[0] & 15) << 4 | head[1] >> 4 for head in datagrams} == {46 << 2}


def compared(run: dict[str, Any]) -> None:
    """Compares a run of the scenario with the closed form: the link is full. The datagrams take
    their rate times frame over payload, and TCP the rest times payload over frame.
    """
    tcp, udp = run["flows"]
    assert udp["goodput_mbit"] == pytest.approx(1, rel=0.02)
    assert tcp["goodput_mbit"] == pytest.approx((20 - 562 / 500) * 1428 / 1514, rel=0.01)
    assert run["probes"][0]["rtt_ms"]["p50"] > 20
    assert run["probes"][0]["received"] > 100


def test_both_versions_and_ecn_on_one_path(tmp_path: Path) -> None:
    """Live, each flow has the addresses of its version, also those that negotiate ECN."""
    ready("cubic", "reno")
    file, capture = tmp_path / "both.toml", tmp_path / "both.pcapng"
    text = SCENARIO.replace(
        "[[probe]]", '[[flow]]\ncc = "reno"\necn = true\nip = 6\n[[flow]]\ncc = "reno"\n[[probe]]'
    )
    file.write_text(text, encoding="utf-8")
    run = nw.run(file, engine="live", record=capture).json
    assert all(flow["goodput_mbit"] > 0.5 for flow in run["flows"])
    seen = [packet.head for packet in packets(capture)]
    assert {head[0] >> 4 for head in seen} == {4, 6}
    ect = {head[8:24] for head in seen if head[0] >> 4 == 6 and head[1] >> 4 & 3}
    assert ect
    assert {address[:8] for address in ect} <= {bytes.fromhex("fd00000000000000"),
                                                bytes.fromhex("fd00000000000001")}  # fmt: skip
