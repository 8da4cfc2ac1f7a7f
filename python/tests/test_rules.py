"""`narrows list rules`, `narrows kernel diff` and `narrows new scenario`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Cli

import narrows as nw
from narrows.errors import NarrowsError
from narrows.kernel import effects, rules

LOSSY = """\
duration = "4s"
start_jitter = "0s"

[path]
rate = "20Mbit"
rtt = "40ms"
buffer = "0.2bdp"

[[flow]]
cc = "bbr"
"""


@pytest.fixture
def lossy(tmp_path: Path) -> Path:
    """A scenario of BBR with a shallow buffer."""
    file = tmp_path / "lossy.toml"
    file.write_text(LOSSY, encoding="utf-8")
    return file


def test_the_table_of_rules_has_names_releases_effects_and_sources(command: Cli) -> None:
    listed = json.loads(command("list", "rules", "--json").stdout)["rules"]
    keys = {"of", "name", "since", "backports", "help", "source"}
    assert all(set(rule) == keys for rule in listed)
    text = command("list", "rules").stdout
    assert all(rule["name"] in text for rule in listed)
    told = command("list", "rules", "bbr").stdout
    assert "source" in told
    assert "sack_compression" not in told


def test_a_release_has_the_rules_of_its_stable_series(command: Cli) -> None:
    def active(like: str) -> set[str]:
        found = json.loads(command("list", "rules", "--like", like, "--json").stdout)["rules"]
        return {rule["name"] for rule in found if rule["active"]}

    assert "tso_deferral_capped" not in active("linux-6.12.0")
    assert "tso_deferral_capped" in active("linux-6.12.117")
    assert "tso_deferral_capped" in active("6.12")
    assert active("linux-6.12") < active("linux-7.3")


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["list", "rules", "--like", "linux-9.9"], "is not a release of this version; known"),
        (["list", "cc", "--like", "linux-6.12"], "write narrows list rules --like linux-6.12"),
        (["list", "rules", "nonsense"], "nonsense: has no rules; write one of"),
        (["kernel", "diff", "6.12", "2.4"], "linux-2.4 is not a release of this version"),
        (["kernel", "diff", "6.12", "7.3", "--seeds", "3"], "write --path scenario.toml"),
    ],
)
def test_errors_name_place_and_fix(command: Cli, words: list[str], wrong: str) -> None:
    done = command(*words)
    assert done.returncode == 2
    assert wrong in " ".join(done.stderr.split())


def test_two_releases_differ_in_both_directions(command: Cli) -> None:
    told = json.loads(command("kernel", "diff", "6.12.0", "7.3", "--json").stdout)
    assert told["releases"] == ["linux-6.12.0", "linux-7.3"]
    assert {one["in"] for one in told["differences"]} == {"second"}
    back = json.loads(command("kernel", "diff", "7.3", "6.12.0", "--json").stdout)
    assert {one["in"] for one in back["differences"]} == {"first"}
    names = [{one["name"] for one in found["differences"]} for found in (told, back)]
    assert names[0] == names[1] > {"receive_buffer_by_window"}
    assert "receive_buffer_by_window" in command("kernel", "diff", "6.12.0", "7.3").stdout
    assert "have the same rules" in command("kernel", "diff", "6.12", "linux-6.12").stdout


def test_effects_are_differences_between_runs_with_equal_seeds(lossy: Path, command: Cli) -> None:
    found = effects.effects(nw.load(lossy), "4.15", "4.20", seeds=2)
    names = [effect.difference.rule.name for effect in found.rules if effect.difference]
    assert set(names) == {one.rule.name for one in rules.differences("4.15", "4.20")}
    ranked = [(not effect.certain, -effect.score) for effect in found.rules]
    assert ranked == sorted(ranked)
    one = found.rules[0]
    assert one.difference is not None
    host = nw.Host(like="linux-4.15", with_rules=[one.difference.rule.name])
    scenario = nw.load(lossy)
    runs = [
        nw.run(nw.Scenario(scenario.path, flows=scenario.flows, duration="4s", start_jitter="0s",
        host=other), seed=seed).flows[0]["goodput_mbit"]
        for other in (host, nw.Host(like="linux-4.15"))
        for seed in (1, 2)
    ]  # fmt: skip
    mean = (runs[0] + runs[1] - runs[2] - runs[3]) / 2
    assert one.changes["goodput_mbit"].mean == pytest.approx(mean, abs=1e-9)
    words = ("kernel", "diff", "4.15", "4.20", "--path", str(lossy), "--seeds", "2")
    told = command(*words).stdout
    assert f"with {names[0]}" in told
    assert "linux-4.20: all together" in told
    as_json = json.loads(command(*words, "--json").stdout)["effects"]
    assert [rule["name"] for rule in as_json["rules"]] == names
    assert set(as_json["base"]) == set(effects.METRICS)


def test_a_rule_that_the_scenario_decides_is_left_alone(lossy: Path) -> None:
    tree = nw.load(lossy).tree() | {"host": {"without_rules": ["bbr_pacing_margin"]}}
    found = rules.differences("4.19", "4.20")
    assert "bbr_pacing_margin" in {one.rule.name for one in found}
    left = {one.rule.name for one in effects.open_differences(tree, found)}
    assert "bbr_pacing_margin" not in left


def test_a_path_without_flows_has_no_effects() -> None:
    scenario = nw.Scenario(nw.Path(rate="10Mbit", rtt="10ms", buffer="1bdp"), duration="1s")
    with pytest.raises(NarrowsError, match=r"add \[\[flow\]\]"):
        effects.effects(scenario, "6.12", "7.3", seeds=1)


def test_a_new_scenario_is_valid_and_never_replaces_a_file(tmp_path: Path, command: Cli) -> None:
    file = tmp_path / "path.toml"
    told = command("new", "scenario", str(file)).stdout
    assert f"narrows run {file}" in told
    assert 'like = "linux-7.3"' in file.read_text(encoding="utf-8")
    assert "valid" in command("check", str(file)).stdout
    again = command("new", "scenario", str(file))
    assert (again.returncode, "exists; write another name" in again.stderr) == (2, True)
    nowhere = command("new", "scenario", str(tmp_path / "no" / "path.toml"))
    assert nowhere.returncode == 2
