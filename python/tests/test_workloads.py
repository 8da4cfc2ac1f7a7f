"""Flows with an application: in Python, in the command's tables, on the page; and that the live engine says no."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import LONG, Cli

import narrows as nw
from narrows.render import tables
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
    """What lies at a place in the JSON."""
    for part in path.split("."):
        figures = figures[int(part)] if isinstance(figures, list) else figures[part]
    return figures


def test_a_run_has_what_applications_saw(run: nw.Run) -> None:
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
    assert captions == ["Flows", "Waiting", "Applications"]


def test_a_scenario_survives_its_file_and_its_json(run: nw.Run, tmp_path: Path) -> None:
    scenario = nw.Scenario(PATH, flows=FLOWS, duration="10s", seed=3)
    file = tmp_path / "one.toml"
    file.write_text(scenario.toml(), encoding="utf-8")
    again = nw.run(nw.load(file), verdicts=100)
    assert again.flows == run.flows


def test_the_command_lists_kinds_and_refuses_what_is_none(cli: Cli, tmp_path: Path) -> None:
    (web,) = json.loads(cli("list", "workload", "web", "--json").stdout)["workload"]
    assert {"objects", "fetch", "tls"} <= {param["name"] for param in web["params"]}
    file = tmp_path / "wrong.toml"
    file.write_text(LONG.replace('cc    = "cubic"', 'workload = "wbe"'), encoding="utf-8")
    done = cli("run", file)
    assert done.returncode == 2
    assert 'write: workload = "web"' in done.stderr


def test_the_live_engine_does_not_offer_them_and_says_so(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "one.toml"
    file.write_text(LONG.replace('cc    = "cubic"', 'workload = "web"'), encoding="utf-8")
    done = cli("run", file, "--engine", "live")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the live engine does not offer workloads" in done.stderr
