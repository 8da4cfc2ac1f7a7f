"""The trained tree: its file, its training and its page agree."""

from __future__ import annotations

import hashlib
import json

import tomllib
from conftest import ROOT, Cli
from validation.remy import __main__ as judge

from narrows.train import rules
from narrows.train.network import digest, load

FOLDER = ROOT / "validation/remy"
TREE = ROOT / "scenarios/cc/dumbbell.remy"


def test_the_tree_is_that_of_the_training() -> None:
    trained = json.loads((FOLDER / "trained.json").read_text(encoding="utf-8"))
    text = TREE.read_text(encoding="utf-8")
    tree = rules.read(text)
    assert digest(load(FOLDER / "dumbbell.toml")) == trained["training_sha256"]
    assert hashlib.sha256(rules.text_of(tree).encode()).hexdigest() == trained["tree_sha256"]
    assert len(rules.rules(tree)) == trained["rules"] == trained["steps"][-1]["rules"]
    assert trained["training_sha256"] in text


def test_the_training_kept_its_budget() -> None:
    trained = json.loads((FOLDER / "trained.json").read_text(encoding="utf-8"))
    judgement = tomllib.loads((FOLDER / "judgement.toml").read_text(encoding="utf-8"))
    # The step that reaches the budget is finished.
    before = trained["steps"][-2]["cpu_s"]
    assert before < judgement["budget_cpu_s"]


def test_the_page_names_the_training() -> None:
    trained = json.loads((FOLDER / "trained.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs/reference/remy-trained.md").read_text(encoding="utf-8")
    for part in (trained["training_sha256"], trained["tree_sha256"], "## Comparison"):
        assert part in page


def test_the_scenario_uses_the_tree(cli: Cli) -> None:
    done = cli("run", ROOT / "scenarios/cc/remy-trained.toml", "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert [flow["cc"] for flow in figures["flows"]] == ["remy"] * 8


def test_a_verdict_follows_the_tolerances() -> None:
    def scheme(name: str, mbit: float, queue_ms: float) -> judge.Scheme:
        runs = [[judge.Sender(mbit * (1 + run / 100), queue_ms)] for run in range(3)]
        return judge.Scheme(name, runs, 150.0)

    tolerance = {"throughput_ratio": 0.95, "delay_ratio": 0.95}
    trained = scheme("trained", 2.0, 30.0)
    slower = judge.verdict(trained, scheme("slower", 1.0, 60.0), tolerance)
    assert slower.agrees == (True, True, True)
    shorter = judge.verdict(trained, scheme("shorter", 2.05, 3.0), tolerance)
    assert shorter.agrees == (True, False, False)
    assert shorter.high < 0
    said = judge._result([slower, shorter])
    assert "compared with 1 of 2 schemes: slower. Compared with shorter, it does not" in said
    assert "lower than that of shorter" in said
