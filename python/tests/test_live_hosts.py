"""The physical tier: hosts with settings of their own, through this machine's own TCP."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import Cli, passes_in_most_runs
from test_live import NEAR_ENOUGH, both, ready

import narrows as nw
from narrows.files.packets import captured, segments

HOSTS = """
duration = "8s"
warmup   = "2s"

[path]
rate    = "20Mbit"
rtt     = "40ms"
queue   = "fq_codel"
reverse = { rate = "5Mbit" }

[host.jumbo]
mtu = "4000B"

[host.small]
mss = "536B"

[host.phone]
rmem       = "64KiB…64KiB"
sack       = false
timestamps = false
quickack   = true

[[flow]]
id       = "jumbo"
cc       = "cubic"
sender   = "jumbo"
receiver = "jumbo"

[[flow]]
id     = "small"
cc     = "cubic"
sender = "small"

[[flow]]
id       = "phone"
cc       = "reno"
receiver = "phone"
"""
"""Three flows whose hosts differ, in a fair queue."""

LOST = """
duration     = "3500ms"
warmup       = "0s"
start_jitter = "0s"

[path]
rate  = "20Mbit"
rtt   = "20ms"
steps = [{ at = "500ms", loss = "100%" }]

[host]
rmem = "64KiB…64KiB"

[host.patient]
rto_min = "500ms"

[[flow]]
id     = "patient"
cc     = "reno"
sender = "patient"

[[flow]]
id = "usual"
cc = "reno"
"""
"""A path that loses all packets after a while: only timers cause retransmits. No packet is lost
before, because the receive window is smaller than the buffer.
"""

PER_HOST = """
duration = "8s"
warmup   = "2s"

[path]
rate  = "20Mbit"
rtt   = "20ms"
queue = { kind = "cake", flows = "dual-dsthost" }

[[flow]]
cc    = "cubic"
count = 4
host  = 1

[[flow]]
id   = "alone"
cc   = "cubic"
host = 2

[[probe]]
kind     = "ping"
interval = "100ms"
host     = 2
"""
"""Two far hosts behind CAKE, one with four flows and one with one."""


class Ends(NamedTuple):
    """Options of the handshake of a flow, and its segments.

    Attributes:
        announced: MSS that the sender announces, bytes.
        answered: MSS that the receiver announces, bytes.
        sack: Whether both ends permit SACK.
        stamps: Whether both ends send timestamps.
        largest: Payload of the largest segment, bytes.
    """

    announced: int
    answered: int
    sack: bool
    stamps: bool
    largest: int


def options(tcp: bytes) -> dict[int, bytes]:
    """The options of a TCP header by their number."""
    found, left = {}, tcp[20 : (tcp[12] >> 4) * 4]
    while left and left[0]:
        size = 1 if left[0] == 1 else left[1]
        found[left[0]] = left[2:size]
        left = left[size:]
    return found


def ends(capture: Path) -> list[Ends]:
    """The flows of a capture in the order of their receivers' ports."""
    content = capture.read_bytes()
    data: dict[int, int] = {}
    for segment in segments(content, capture.name):
        port = segment.target[1]
        data[port] = max(data.get(port, 0), segment.size)
    shaken: dict[int, dict[int, dict[int, bytes]]] = {}
    for _, _, _, packet, _ in captured(content):
        tcp = packet[(packet[0] & 15) * 4 :]
        if packet[9] == 6 and tcp[13] & 2:
            end = tcp[13] >> 4 & 1
            port = struct.unpack_from(">HH", tcp)[1 - end]
            shaken.setdefault(port, {})[end] = options(tcp)
    return [
        Ends(
            *(struct.unpack(">H", shaken[port][end][2])[0] for end in (0, 1)),
            *(all(kind in shaken[port][end] for end in (0, 1)) for kind in (4, 8)),
            data[port],
        )
        for port in sorted(shaken)
    ]


EXPECTED = [
    Ends(3960, 3960, True, True, 3948),
    Ends(536, 1460, True, True, 524),
    Ends(1460, 1460, False, False, 1460),
]


def close(live: dict[str, Any], sim: dict[str, Any]) -> None:
    """Asserts that goodput and RTT of each flow are those of the simulator."""
    for real, made in zip(live["flows"], sim["flows"], strict=True):
        for value in ("goodput_mbit",), ("rtt_ms", "mean"):
            one, other = real, made
            for key in value:
                one, other = one[key], other[key]
            assert one == pytest.approx(other, rel=NEAR_ENOUGH), (real["id"], value)


def retransmits(run: nw.Run) -> dict[str, int]:
    """The number of retransmits of each flow."""
    return {flow["id"]: flow["retransmits"] for flow in run.flows}


@passes_in_most_runs
def test_each_host_has_its_own_settings(tmp_path: Path) -> None:
    ready("cubic", "reno")
    live, sim = both(tmp_path, HOSTS)
    close(live, sim)
    file, capture = tmp_path / "both.toml", tmp_path / "live.pcapng"
    nw.run(file, engine="live", record=capture)
    assert ends(capture) == EXPECTED


@passes_in_most_runs
def test_the_minimum_timeout_is_that_of_the_sending_host(tmp_path: Path) -> None:
    ready("reno")
    file = tmp_path / "lost.toml"
    file.write_text(LOST, encoding="utf-8")
    live, sim = (retransmits(nw.run(file, engine=engine)) for engine in ("live", "sim"))
    assert live["patient"] < live["usual"]
    assert live == sim


@passes_in_most_runs
def test_far_hosts_have_addresses(tmp_path: Path) -> None:
    ready("cubic")
    live, sim = both(tmp_path, PER_HOST)
    near = pytest.approx
    for run in (live, sim):
        alone = next(flow for flow in run["flows"] if flow["id"] == "alone")
        assert alone["goodput_mbit"] == near(9.5, rel=NEAR_ENOUGH)
    assert live["probes"][0]["rtt_ms"]["mean"] >= 20.0


@pytest.mark.parametrize(
    "key",
    [
        'nic = "1Gbit"',
        "autosize = false",
        "pacing_shift = 8",
        'read_latency = "50us"',
        'clock = "ms"',
        'without_rules = ["rack_only"]',
    ],
)
def test_a_setting_that_kernels_lack_is_refused_by_name(tmp_path: Path, cli: Cli, key: str) -> None:
    file = tmp_path / "refused.toml"
    path = '[path]\nrate = "20Mbit"\nrtt = "20ms"\n[[flow]]\ncc = "reno"\nsender = "a"\n'
    file.write_text(f'duration = "2s"\n[host.a]\n{key}\n{path}', encoding="utf-8")
    assert cli("check", str(file)).returncode == 0
    done = cli("run", str(file), "--engine", "live")
    assert done.returncode == 2
    assert done.stderr.startswith(f"{file}:3: host.a.{key} is not supported by the engine live")
