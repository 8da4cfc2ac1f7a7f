"""`narrows race`: who is where on one path."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import narrows as nw
from narrows import cli
from narrows.errors import NarrowsError
from narrows.race import FAIR, race

PATH = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp")


def test_the_same_race_twice_is_the_same() -> None:
    once, again = (race(PATH, only=["reno", "bbr"], duration_s=12).json() for _ in range(2))
    assert once == again
    assert [lap["cc"] for lap in once["laps"]] == ["reno", "bbr"]


def test_what_is_told_is_what_runs_say() -> None:
    lap = race(PATH, only=["bbr"], duration_s=12).laps[0]
    alone = nw.run(nw.Scenario(PATH, flows=[nw.Flow("bbr", id="it")], duration="12s", seed=1)).flows[0]
    assert lap.goodput_mbit == alone["goodput_mbit"]
    beside = [nw.Flow("bbr", id="it"), nw.Flow("cubic", id="rival")]
    it, rival = nw.run(nw.Scenario(PATH, flows=beside, duration="12s", seed=1)).flows
    assert lap.share_pct == pytest.approx(100 * it["goodput_mbit"] / (it["goodput_mbit"] + rival["goodput_mbit"]))
    assert 0.5 <= lap.jain <= 1


def test_a_late_comer_has_its_share_when_it_has_four_fifths_of_half() -> None:
    path = nw.Path(rate="10Mbit", rtt="20ms", queue="fq_codel")
    lap = race(path, only=["cubic"], duration_s=12).laps[0]
    assert FAIR < 1
    assert lap.fair_after_s is not None
    assert lap.fair_after_s <= 2  # a fair queue gives it at once
    assert lap.jain > 0.99


def test_everyone_can_be_asked_for() -> None:
    done = CliRunner().invoke(cli.main, ["race", "--rate", "5Mbit", "--duration", "4", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    listed = CliRunner().invoke(cli.main, ["list", "cc", "--json"])
    names = {kind["name"] for kind in json.loads(listed.output)["cc"]}
    assert {lap["cc"] for lap in found["laps"]} | set(found["left_out"]) == names


def test_a_table_and_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "race.svg"
    done = CliRunner().invoke(cli.main, ["race", "--only", "reno, cubic", "--duration", "8", "--plot", str(picture)])
    assert done.exit_code == 0, done.output
    assert "beside CUBIC %" in done.output
    text = picture.read_text(encoding="utf-8")
    assert text.startswith("<?xml")


def test_mistakes_are_told_once() -> None:
    with pytest.raises(NarrowsError, match="`quick`; known: reno"):
        race(PATH, only=["quick"])
    done = CliRunner().invoke(cli.main, ["race", "--rate", "5Mbite"])
    assert done.exit_code == 2
    assert done.output.count("5Mbite") <= 2
