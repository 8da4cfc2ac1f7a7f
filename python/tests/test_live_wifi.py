"""The physical tier on Wi-Fi: real packets of an access point's stations, each a namespace, over
the core's medium.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, live_run, passes_in_most_runs
from test_live import ready

import narrows as nw

NEAR_ENOUGH = 0.15
"""Sim and live may differ by this in goodput and round trips; in shares of the time by a third of
it.
"""


def text(stack: str, *, fast: int, slow: str, seconds: int, warmup: int = 2) -> str:
    """Downloads to so many fast stations and a slow one, and pings to the first."""
    stations = f'[[wifi.station]]\nname = "fast"\ncount = {fast}\nmcs = 15\nrtt = "20ms"\n'
    stations += f'[[wifi.station]]\nname = "slow"\n{slow}\nrtt = "20ms"\n'
    flows = "".join(f'[[flow]]\ncc = "cubic"\nstation = "{name}"\n' for name in ("fast", "slow"))
    wifi = f'[wifi]\nband = "2.4GHz"\nstack = "{stack}"\n{stations}'
    return (
        f'duration = "{seconds}s"\nwarmup = "{warmup}s"\n{wifi}{flows}[[probe]]\nkind = '
        '"ping"\nstation = "fast0"\n'
    )


def total(run: dict[str, Any]) -> float:
    return sum(station["goodput_mbit"] for station in run["stations"])


@passes_in_most_runs
def test_three_stations_have_what_they_have_in_virtual_time(tmp_path: Path) -> None:
    ready("cubic")
    file = tmp_path / "three.toml"
    file.write_text(text("airtime", fast=2, slow="mcs = 0", seconds=7), encoding="utf-8")
    real, virtual = live_run(file, sample_interval="off"), nw.run(file, sample_interval="off").json
    told = json.dumps([real["stations"], virtual["stations"], real["instruments"]])
    assert total(real) == pytest.approx(total(virtual), rel=NEAR_ENOUGH), told
    shares = [[station["airtime_share"] for station in run["stations"]] for run in (real, virtual)]
    # The fast stations are equal, and which of them gets more is chance: their mean is expected.
    fast = (shares[1][0] + shares[1][1]) / 2
    assert shares[0] == pytest.approx([fast, fast, shares[1][2]], abs=NEAR_ENOUGH / 3), told
    pings = [run["probes"][0] for run in (real, virtual)]
    assert pings[0]["rtt_ms"]["p50"] == pytest.approx(
        pings[1]["rtt_ms"]["p50"], rel=2 * NEAR_ENOUGH
    ), told
    # What a packet meets is told by level, on this engine as on that.
    assert pings[0]["delay_ms"]["qdisc"] is None
    assert pings[0]["delay_ms"]["mac80211"]["p50"] > 0
    assert [queue["name"] for queue in real["queues"]] == [
        queue["name"] for queue in virtual["queues"]
    ]
    assert real["instruments"]["foreign_packets"] == 0, told


def test_thirty_stations_are_thirty_hosts_and_the_slow_one_costs_them_most_in_turn(
    tmp_path: Path,
) -> None:
    ready("cubic")
    file = tmp_path / "thirty.toml"
    totals = {}
    for stack in ("fq_mac", "airtime"):
        file.write_text(
            text(stack, fast=29, slow='rate = "1Mbit"', seconds=6, warmup=0), encoding="utf-8"
        )
        run = live_run(file, sample_interval="off")
        assert len(run["stations"]) == 30
        # From the beginning on: in four seconds of fq_mac one or two of them may have no turn, in
        # virtual time, too.
        assert all(station["goodput_mbit"] > 0 for station in run["stations"])
        totals[stack] = total(run)
        slow = run["stations"][-1]["airtime_share"]
        assert (slow > 0.6) == (stack == "fq_mac"), (stack, slow)
    assert totals["airtime"] > 3 * totals["fq_mac"], totals


def test_what_goes_with_no_kernel_is_refused(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "many.toml"
    wifi = '[wifi]\n[[wifi.station]]\nname = "s"\ncount = 61\nmcs = 7\n'
    file.write_text(
        f'duration = "1s"\n{wifi}[[flow]]\ncc = "cubic"\nstation = "s0"\n', encoding="utf-8"
    )
    done = cli("run", str(file), "--engine", "live")
    assert done.returncode == 2
    assert "at most 60" in done.stderr
