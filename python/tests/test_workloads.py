"""Flows with an application: in Python, in the tables of the commands, and on the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import LONG, Cli

import narrows as nw
from narrows.render import tables, words
from narrows.render.report import document

PATH = nw.Path(rate="20Mbit", rtt="20ms", buffer="1bdp", reverse=nw.Hop(rate="5Mbit"))
FLOWS = [
    nw.Flow(workload={"kind": "web", "sizes": ["3kB", "200kB"], "fetch": "sequential"}, id="page"),
    nw.Flow(workload="voip"),
    nw.Flow("bbr", workload={"kind": "poisson", "load": "2Mbit"}),
    nw.Flow("cubic"),
]


@pytest.fixture(scope="module")
def run() -> nw.Run:
    return nw.run(nw.Scenario(PATH, flows=FLOWS, duration="10s", seed=3), verdicts=100)


def at(figures: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    """The value at a path in the JSON."""
    for part in path.split("."):
        figures = figures[int(part)] if isinstance(figures, list) else figures[part]
    return figures


def test_a_run_has_the_results_of_its_applications(run: nw.Run) -> None:
    page, call, transfers = run.workloads
    assert [seen["id"] for seen in run.workloads] == ["page", "voip0", "poisson0"]
    assert (page["kind"], page["objects"], page["connections"]) == ("web", 2, 2)
    assert 0 < call["r"] <= 94
    assert set(call["ways"]) == {"to_client", "to_server"}
    assert transfers["asked"] >= transfers["completed"] > 0
    assert [flow["cc"] for flow in run.flows] == ["cubic", "udp", "bbr", "cubic"]
    assert run.summary().num_rows == len(FLOWS)


def test_cells_of_the_table_are_figures_of_the_run(run: nw.Run) -> None:
    shown = tables.workloads(run.json)
    cells = [cell for row in shown.rows for cell in row if cell.path]
    assert len(cells) > 30
    for cell in cells:
        value = at(run.json, cell.path)
        if "%" not in cell.text:
            assert cell.text == tables.significant(value), cell
    captions = [table["caption"] for table in document([run])["runs"][0]["tables"]]
    assert captions == ["Flows", "Queueing delay and RTT", "Applications"]


def test_a_scenario_written_as_toml_gives_the_same_run(run: nw.Run, tmp_path: Path) -> None:
    scenario = nw.Scenario(PATH, flows=FLOWS, duration="10s", seed=3)
    file = tmp_path / "one.toml"
    file.write_text(scenario.toml(), encoding="utf-8")
    again = nw.run(nw.load(file), verdicts=100)
    assert again.flows == run.flows


def test_the_command_lists_workloads_and_refuses_unknown_ones(command: Cli, tmp_path: Path) -> None:
    (web,) = json.loads(command("list", "workload", "web", "--json").stdout)["workload"]
    assert {"objects", "fetch", "tls"} <= {param["name"] for param in web["params"]}
    file = tmp_path / "wrong.toml"
    file.write_text(LONG.replace('cc    = "cubic"', 'workload = "wbe"'), encoding="utf-8")
    done = command("run", file)
    assert done.returncode == 2
    assert 'write: workload = "web"' in done.stderr


def test_the_upload_of_a_torrent_counts_for_the_use_of_the_reverse_path() -> None:
    path = nw.Path(rate="20Mbit", rtt="20ms", buffer="1bdp", reverse=nw.Hop(rate="5Mbit"))
    flows = [nw.Flow(workload={"kind": "torrent", "down": 3, "up": 3, "ramp": "100ms"})]
    told = nw.run(nw.Scenario(path, flows=flows, duration="10s")).json
    up = told["flows"][0]["workload"]["up_mbit"]
    assert up > 3
    share = words.percent(up / told["path"]["reverse_arriving_mbit"])
    assert f"the uploads of 1 ledbat flow used {share} of 5 Mbit/s up" in words.sentence(told)
    beside = nw.run(
        nw.Scenario(path, flows=[*flows, nw.Flow("cubic", direction="up")], duration="10s")
    ).json
    both = beside["flows"][0]["workload"]["up_mbit"] + beside["flows"][1]["goodput_mbit"]
    share = words.percent(both / beside["path"]["reverse_arriving_mbit"])
    assert (
        f"1 cubic flow and the uploads of 1 ledbat flow used {share} of 5 Mbit/s up"
        in words.sentence(beside)
    )


def test_fairness_is_shown_for_each_direction() -> None:
    path = nw.Path(rate="20Mbit", rtt="20ms", buffer="1bdp", reverse=nw.Hop(rate="2Mbit"))
    flows = [
        nw.Flow("reno", count=2),
        nw.Flow("cubic", count=2, direction="up"),
        nw.Flow("reno", direction="up"),
    ]
    told = nw.run(nw.Scenario(path, flows=flows, duration="10s")).json
    parts = told["fairness"]["by_direction"]
    assert {way: part["flows"] for way, part in parts.items()} == {"down": 2, "up": 3}
    assert (
        words.fairness(told) == f"{parts['down']['jain']:.3f} down and {parts['up']['jain']:.3f} up"
    )
    assert words.fairness(told) in " ".join(words.answer(told))
    # One flow in each direction has its bottleneck alone.
    flows = [nw.Flow("reno"), nw.Flow("reno", direction="up")]
    alone = nw.run(nw.Scenario(path, flows=flows, duration="2s")).json
    assert (words.fairness(alone), alone["fairness"]["jain"] > 0) == ("", True)


def test_the_reported_utilization_is_at_most_100_percent() -> None:
    path = nw.Path(rate="20Mbit", rtt="10ms", buffer="2bdp")
    said = []
    for packets in range(1, 22):
        # A fifth of a packet's time more than so many packets take, from another time of a packet
        # on each.
        begin = 400_000_000 + packets * 61_000
        end = begin + packets * 605_600 + 121_120
        made = nw.Scenario(path, flows=[nw.Flow("cubic")], warmup=f"{begin}ns", duration=f"{end}ns")
        told = nw.run(made).json
        said.append(told["flows"][0]["goodput_mbit"])
        used = re.search(r"used (\d+) % of 20 Mbit/s", words.sentence(told))
        assert used is not None
        assert int(used[1]) <= 100, packets
    assert max(said) > 20, "goodput itself may be above the rate"


def test_a_delay_above_zero_is_not_shown_as_zero() -> None:
    path = nw.Path(rate="1Gbit", rtt="100us", buffer="1bdp")
    flows = [nw.Flow("cubic", size="20kB"), nw.Flow(workload={"kind": "udp", "rate": "10Mbit"})]
    told = nw.run(nw.Scenario(path, flows=flows, duration="200ms", probes=[nw.Ping()])).json
    delay = told["queue"]["delay_ms"]
    assert 0 < delay["mean"] < 0.05, "it would be 0.0"
    assert f"mean queueing delay {delay['mean']:.3f} ms" in words.sentence(told)
    shown = [
        cell
        for table in (tables.waits(told), tables.flows(told))
        for row in table.rows
        for cell in row
    ]
    timed = [cell for cell in shown if "_ms." in cell.path and at(told, cell.path) is not None]
    assert len(timed) >= 8
    for cell in timed:
        assert (float(cell.text) > 0) == (at(told, cell.path) > 0), cell
