"""What the sample patches add: `make additions` runs these tests on an installed copy of the
sources with the patches.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

import narrows as nw
from narrows.host.live import HOST


def flow(
    engine: str = "sim", queue: object = None, cc: object = "cubic", **path: str
) -> dict[str, Any]:
    """The metrics of one flow over 2 s."""
    path = {"rate": "10Mbit", "rtt": "20ms", "buffer": "1bdp"} | path
    whole = nw.Path(queue=queue, **path)
    scenario = nw.Scenario(whole, flows=[nw.Flow(cc)], duration="2s")
    metrics: dict[str, Any] = nw.run(scenario, engine=engine).json["flows"][0]
    return metrics


def test_the_queue_discipline_and_its_parameter_reach_a_run() -> None:
    plain, blue = flow(), flow(queue="blue")
    assert blue["retransmits"] != plain["retransmits"]
    assert flow(queue=nw.queue.Blue(freeze_time="1ms"))["retransmits"] != blue["retransmits"]


def test_the_parameter_reaches_a_run() -> None:
    # The queue is mostly empty, so that Veno takes losses for random ones.
    runs = [
        flow(cc=nw.cc.Veno(random_loss_kept=percent), rate="1Gbit", loss="1%")
        for percent in (50, 100)
    ]
    kept = [run["cwnd_packets"]["mean"] for run in runs]
    assert kept[0] < kept[1]


@pytest.mark.parametrize("engine", ["sim", "live"])
def test_the_key_reaches_both_engines(engine: str) -> None:
    if engine == "live":
        done = subprocess.run([HOST, "ready"], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(done.stderr.strip())
    lost = flow(engine, loss="100%")
    assert lost["goodput_mbit"] == 0
    assert flow(engine, loss="100%", loss_start="1s")["goodput_mbit"] > 2


def test_a_wrong_value_of_the_key_names_the_range() -> None:
    with pytest.raises(nw.ScenarioError, match="loss_start"):
        flow(loss_start="2days")


def test_the_names_are_listed() -> None:
    listed = json.loads(nw._core.list_json())
    assert "blue" in {kind["name"] for kind in listed["queue"]}
    assert ("path", "loss_start") in {(key["section"], key["name"]) for key in listed["scenario"]}
