"""The physical tier: real packets over networks of links, through this machine's own TCP."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import NARROWS, PARKING_LOT, passes_in_most_runs
from test_live import NEAR_ENOUGH, both, ready

import narrows as nw

PING = """
[[probe]]
kind     = "ping"
interval = "20ms"
route    = ["first", "second"]
"""


def by_id(run: dict[str, Any], key: str) -> dict[str, float]:
    """A metric of each flow."""
    return {flow["id"]: flow[key] for flow in run["flows"]}


@passes_in_most_runs
def test_the_shares_of_a_parking_lot_are_those_of_the_simulator(tmp_path: Path) -> None:
    ready("cubic")
    times = 'duration = "12s"\nwarmup = "4s"\n'
    live, sim = both(tmp_path, times + PARKING_LOT + PING)
    near = pytest.approx
    assert by_id(live, "goodput_mbit") == near(by_id(sim, "goodput_mbit"), rel=NEAR_ENOUGH)
    ping = [run["probes"][0]["rtt_ms"]["p50"] for run in (live, sim)]
    assert ping[0] == near(ping[1], rel=NEAR_ENOUGH)
    for real, made in zip(live["queues"], sim["queues"], strict=True):
        assert (real["name"], real["rate_mbit"]) == (made["name"], 10.0)
        assert real["carried_mbit"] == near(made["carried_mbit"], rel=0.02)
        assert real["utilisation"] > 0.95


BOTH_WAYS = """
duration = "8s"
warmup   = "2s"

[link.down]
rate   = "20Mbit"
delay  = "10ms"
buffer = "2bdp"

[link.up]
rate   = "5Mbit"
delay  = "20ms"
buffer = "2bdp"

[[flow]]
id         = "up"
cc         = "cubic"
direction  = "up"
route      = ["down"]
route_back = ["up"]
"""


@passes_in_most_runs
def test_an_upload_and_its_acks_take_the_links_of_their_direction(tmp_path: Path) -> None:
    ready("cubic")
    live, sim = both(tmp_path, BOTH_WAYS)
    assert by_id(live, "goodput_mbit") == pytest.approx(by_id(sim, "goodput_mbit"), rel=NEAR_ENOUGH)
    down, up = live["queues"]
    assert (down["name"], up["name"]) == ("down", "up")
    assert down["carried_mbit"] < 0.5
    assert up["utilisation"] > 0.95


REROUTE = """
duration = "6s"
warmup   = "0s"

[link.short]
rate  = "20Mbit"
delay = "5ms"

[link.long]
rate  = "20Mbit"
delay = "25ms"

[[probe]]
kind     = "ping"
interval = "10ms"
route    = ["short"]
reroute  = [{ at = "2s", route = ["long"] }]
"""


def test_a_change_of_the_route_applies_to_real_packets(tmp_path: Path) -> None:
    ready()
    file = tmp_path / "reroute.toml"
    file.write_text(REROUTE, encoding="utf-8")
    one = nw.run(file, engine="live")
    pings = one.pings.to_pylist()
    before = [p["rtt_ms"] for p in pings if p["rtt_ms"] is not None and p["t_s"] < 1.9]
    after = [p["rtt_ms"] for p in pings if p["rtt_ms"] is not None and p["t_s"] > 2.2]
    assert min(before) == pytest.approx(10, abs=1)
    assert min(after) == pytest.approx(50, abs=1)


SHARED = """
duration = "8s"
warmup   = "3s"

[switch.tor]
buffer = "200kB"
alpha  = 1

[link.congested]
rate   = "10Mbit"
delay  = "10ms"
switch = "tor"
buffer = "1MB"

[[flow]]
cc    = "cubic"
count = 2
route = ["congested"]
"""


@passes_in_most_runs
def test_the_queue_of_a_shared_buffer_ends_at_its_threshold(tmp_path: Path) -> None:
    """A single congested port takes alpha / (1 + alpha) of the memory."""
    ready("cubic")
    live, sim = both(tmp_path, SHARED)
    longest, made = (run["queue"]["backlog_packets"]["p95"] for run in (live, sim))
    assert longest <= 100_000 / 1514
    assert longest == pytest.approx(made, rel=NEAR_ENOUGH)
    assert live["queue"]["drops"] > 0


def test_a_shell_has_no_routes(tmp_path: Path) -> None:
    ready()
    file = tmp_path / "lot.toml"
    file.write_text('duration = "2s"\n' + PARKING_LOT, encoding="utf-8")
    command = [NARROWS, "shell", file, "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert f"{file}:3: link.first is not supported by a shell" in done.stderr
