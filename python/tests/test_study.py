"""Studies: every study runs and has a verdict for any result."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from narrows.cli import main
from narrows.study import paths, queues, render, tools, tree
from narrows.study.study import Found, Rows, Study, by, share, sweeps, table
from narrows.sweeps.rows import WAITS

STUDIES = [
    value
    for module in (paths, queues, tools, tree)
    for value in vars(module).values()
    if isinstance(value, Study)
]


@pytest.fixture(params=STUDIES, ids=lambda study: study.name)
def study(request: pytest.FixtureRequest) -> Study:
    """Each of them."""
    found: Study = request.param
    return found


def made_up(study: Study) -> dict[str, Rows]:
    """Rows as its sweeps would have them, all of the same figures."""
    rows: dict[str, Rows] = {}
    for name, sweep in sweeps(study, quick=True).items():
        schema = sweep._columns()
        rows[name] = []
        for case in range(len(sweep.design)):
            keys = {key: sweep.design[case].get(key) for key in sweep.design.keys}
            keys = {
                k: json.dumps(v) if schema.field(k).type == "string" and isinstance(v, dict) else v
                for k, v in keys.items()
            }
            for flow in sweep.scenario(case)["flow"]:
                for _ in range(flow.get("count", 1)):
                    named = flow.get("cc", "udp")
                    cc = named["kind"] if isinstance(named, dict) else named
                    rows[name].append(keys | FIGURES | {"case": case, "seed": 1, "cc": cc})
    return rows


FIGURES: dict[str, Any] = {
    "goodput_mbit": 2.0,
    "rate_mbit": 10.0,
    "rtt_ms": 20.0,
    "retransmits": 3,
    "summary_retransmit_rate": 0.01,
    "udp_loss": 0.1,
    "udp_delay_p95_ms": 15.0,
    "udp_jitter_ms": 0.5,
    "jain": 1.0,
    **{f"queue_delay_{which}_ms": 5.0 for which in WAITS},
    **{f"ping_{which}_ms": 25.0 for which in WAITS},
}


@pytest.mark.parametrize("quick", [True, False])
def test_the_scenarios_of_a_study_are_valid(study: Study, quick: bool) -> None:
    for sweep in sweeps(study, quick=quick).values():
        sweep.check()


def test_a_study_has_a_verdict_and_a_picture(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = study.answer(made_up(study))
    assert answer.verdict.endswith(".")
    assert all(len(line) == len(grid.columns) for grid in answer.grids for line in grid.cells)
    found = Found(study, answer, 1)
    render.tell(found)
    assert study.question in capsys.readouterr().out
    render.draw(found, tmp_path / "picture.svg")
    assert json.loads(json.dumps(found.json()))["verdict"] == answer.verdict


def test_a_grid_is_the_median_over_seeds() -> None:
    rows = [{"a": 1, "b": 2, "seed": seed, "x": x} for seed, x in enumerate((5.0, 1.0, 3.0))]
    grid = table(rows, "a", "b", lambda of: of[0]["x"], title="", unit="")
    assert grid.cells == [[3.0]]
    assert list(by(rows, "seed")) == [(0,), (1,), (2,)]


def test_a_share_of_one_is_an_equal_share() -> None:
    rows = [{"cc": "bbr", "goodput_mbit": 3.0}, *[{"cc": "cubic", "goodput_mbit": 1.0}] * 3]
    assert share("bbr")(rows) == 2
    assert share("cubic")(rows) == pytest.approx(2 / 3)


def test_fairness_searches_the_buffer_with_equal_shares() -> None:
    assert paths.FAIRNESS.more is not None
    rows = [
        {"path.buffer": buffer, "flow[0].cc": "bbr", "seed": 1, "goodput_mbit": goodput}
        for buffer, own in (("1bdp", 3.0), ("4bdp", 1.0))
        for goodput in (own, 2.0)
    ]
    known: dict[str, Rows] = {"buffer": rows}
    steps = []
    while parts := paths.FAIRNESS.more(True, known):
        ((name, part),) = parts.items()
        (case,) = part.over
        assert isinstance(case, dict)
        steps.append(case["path.buffer"])
        known[name] = [case | {"seed": 1, "goodput_mbit": goodput} for goodput in (1.0, 2.0)]
    assert steps == ["2bdp", "1.414bdp"]


def test_the_command_lists_all_studies_and_runs_one(tmp_path: Path) -> None:
    listed = CliRunner().invoke(main, ["study"])
    assert [line.split()[0] for line in listed.output.splitlines()] == [
        study.name for study in STUDIES
    ]
    wrong = CliRunner().invoke(main, ["study", "gain"])
    assert wrong.exit_code == 2
    assert "gain: no such study; write one of gain-map" in wrong.output
    args = ["study", "latency", "--quick", "--into", str(tmp_path), "--json"]
    found = json.loads(CliRunner().invoke(main, args).output)
    assert found["grids"][0]["queue"][0] == "fifo, 1bdp"
    again = json.loads(CliRunner().invoke(main, args).output)
    assert again["grids"] == found["grids"]
    assert again["took_s"] < found["took_s"]


def test_fq_codel_keeps_a_ping_short_and_codel_alone_leaves_bbr_more(tmp_path: Path) -> None:
    args = ["study", "bbr-over-codel", "--quick", "--into", str(tmp_path), "--json"]
    fair, delay, _ = json.loads(CliRunner().invoke(main, args).output)["grids"]
    share = dict(zip(fair["queue"], (line[0] for line in fair["cells"]), strict=True))
    wait = dict(zip(delay["queue"], (line[0] for line in delay["cells"]), strict=True))
    assert share["codel"] > 1.5
    assert share["fq_codel"] == pytest.approx(1, abs=0.1)
    assert wait["fq_codel"] < 45 < wait["fifo"]


def test_rules_of_the_decision_tree_have_the_deciding_features(tmp_path: Path) -> None:
    """BBR gains where packets are lost at random or the buffer is shallow, and nowhere else."""
    rows = []
    for path in tree.paths(300):
        rate, rtt = (
            float(path[f"path.{key}"].removesuffix(unit))
            for key, unit in (("rate", "Mbit"), ("rtt", "ms"))
        )
        shallow = float(path["path.buffer"].removesuffix("B")) * 8 < 0.3 * rate * rtt * 1000
        loss = float(path["path.loss"]["probability"].removesuffix("%"))
        for cc, goodput in (("cubic", 1.0), ("bbr", 3.0 if shallow or loss >= 0.1 else 1.0)):
            own = {
                "flow[0].cc": cc,
                "seed": 1,
                "path.loss": json.dumps(path["path.loss"]),
                "goodput_mbit": goodput,
            }
            rows.append(path | own | {"summary_retransmit_rate": 0.01})
    answer = tree.DECISION_TREE.answer({"": rows})
    assert answer.rules is not None
    assert answer.rules["accuracy"]["cross_validated"] > 0.95
    for case in ((50, 40, 0.1, 0.0), (50, 40, 2.0, 0.0), (50, 40, 2.0, 1.0), (500, 10, 0.1, 5.0)):
        at = dict(zip((f.name for f in tree.FEATURES), case, strict=True))
        said = [
            rule["gains"]
            for rule in answer.rules["rules"]
            if all(_holds(when, at) for when in rule["when"])
        ]
        assert said == ["bbr" if at["buffer_bdp"] < 0.3 or at["loss_pct"] >= 0.1 else "even"]


def _holds(when: dict[str, Any], at: dict[str, float]) -> bool:
    value = at[when["feature"]]
    return bool(
        when.get("at_least", value) <= value and ("below" not in when or value < when["below"])
    )


def test_the_stored_rules_cover_every_path_once() -> None:
    stored = json.loads(
        resources.files("narrows").joinpath("data/tree.json").read_text(encoding="utf-8")
    )
    assert stored["format"] == tree.FORMAT
    assert [f["name"] for f in stored["features"]] == [f.name for f in tree.FEATURES]
    assert stored["accuracy"]["cross_validated"] > stored["accuracy"]["always_the_commonest"]
    for path in tree.paths(200):
        row = {"flow[0].cc": "cubic", "goodput_mbit": 1.0, "summary_retransmit_rate": 0.0}
        row |= path | {"path.loss": json.dumps(path["path.loss"])}
        (one,) = tree.seen([row, row | {"flow[0].cc": "bbr"}])
        at = dict(zip((f.name for f in tree.FEATURES), one.at, strict=True))
        assert sum(all(_holds(when, at) for when in rule["when"]) for rule in stored["rules"]) == 1


def test_only_a_study_that_finds_rules_writes_them(tmp_path: Path) -> None:
    args = [
        "study",
        "latency",
        "--quick",
        "--into",
        str(tmp_path),
        "--rules",
        str(tmp_path / "rules.json"),
    ]
    done = CliRunner().invoke(main, args)
    assert done.exit_code == 2
    assert "narrows study decision-tree" in done.output


def test_the_gain_map_has_a_panel_of_retransmits_for_each_congestion_control() -> None:
    def row(cc: str, goodput: float, share: float) -> dict[str, Any]:
        return {
            "path.buffer": "100kB",
            "path.rate": "10Mbit",
            "path.rtt": "5ms",
            "flow[0].cc": cc,
            "seed": 1,
            "goodput_mbit": goodput,
            "summary_retransmit_rate": share,
        }

    answer = paths.GAIN_MAP.answer({"": [row("bbr", 9.0, 0.05), row("cubic", 6.0, 0.001)]})
    panels = {grid.title: grid.cells for grid in answer.grids}
    assert panels == {
        "Gain of BBR over CUBIC, buffer of 100kB": [[pytest.approx(50.0)]],
        "Retransmission rate of BBR, buffer of 100kB": [[pytest.approx(5.0)]],
        "Retransmission rate of CUBIC, buffer of 100kB": [[pytest.approx(0.1)]],
    }
