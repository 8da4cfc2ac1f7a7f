"""The parts of each model: its file, its golden table, a scenario that uses it, a page (see
CONTRIBUTING.md).
"""

from __future__ import annotations

import re

import pytest
import tomllib
from conftest import ROOT
from pages import LISTED

MODELS = [(what, kind["name"]) for what in ("cc", "queue") for kind in LISTED[what]]
SCENARIOS = [
    tomllib.loads(file.read_text(encoding="utf-8"))
    for file in sorted(ROOT.glob("scenarios/**/*.toml"))
]
GOLDENS = {
    file.name: file.read_text(encoding="utf-8")
    for file in sorted(ROOT.glob("sim/tests/golden/*.txt"))
}
HEADINGS = (
    "Summary",
    "Algorithm",
    "Parameters",
    "Differences from the specification",
    "Example",
    "Validation",
    "Sources",
)


def chosen(choice: object) -> object:
    """The name in a choice written either way."""
    return choice["kind"] if isinstance(choice, dict) else choice


@pytest.mark.parametrize(("what", "model"), MODELS)
def test_a_model_has_a_file_or_a_folder(what: str, model: str) -> None:
    assert (ROOT / f"core/src/{what}/{model}.rs").exists() or (
        ROOT / f"core/src/{what}/{model}/mod.rs"
    ).exists()


@pytest.mark.parametrize(("what", "model"), MODELS)
def test_a_model_has_a_page_with_headings_and_parameters(what: str, model: str) -> None:
    page = ROOT / f"docs/reference/{what}/{model}.md"
    assert page.exists(), f"docs/reference/{what}/{model}.md is missing"
    text = page.read_text(encoding="utf-8")
    assert tuple(re.findall(r"^## (.+)$", text, re.MULTILINE)) == HEADINGS
    assert f"<!-- made: params {what} {model} -->" in text
    assert "```console" in text


@pytest.mark.parametrize(("what", "model"), MODELS)
def test_a_scenario_uses_the_model(what: str, model: str) -> None:
    if what == "cc":
        asked = {
            chosen(flow.get("cc")) for scenario in SCENARIOS for flow in scenario.get("flow", [])
        }
    else:
        asked = {
            chosen(scenario["path"].get("queue")) for scenario in SCENARIOS if "path" in scenario
        }
    assert model in asked


@pytest.mark.parametrize(("what", "model"), MODELS)
def test_a_golden_table_has_the_model(what: str, model: str) -> None:
    assert any(re.search(rf"\b{re.escape(model)}\b", text) for text in GOLDENS.values()), (
        f"{what} {model}"
    )


@pytest.mark.parametrize("model", [kind["name"] for kind in LISTED["cc"]])
def test_a_congestion_control_has_mutations(model: str) -> None:
    file = ROOT / f"validation/mutations/{model}.toml"
    rules = tomllib.loads(file.read_text(encoding="utf-8"))["rule"]
    assert len(rules) > 2
    assert all(rule["rule"] and rule["find"] != rule["replace"] for rule in rules)


@pytest.mark.parametrize("model", [kind["name"] for kind in LISTED["cc"] if kind["name"] != "reno"])
def test_a_congestion_control_has_a_signature_test(model: str) -> None:
    assert "#[test]" in (ROOT / f"sim/tests/signatures/{model}.rs").read_text(encoding="utf-8")


def test_pages_exist_for_current_models_only() -> None:
    pages = {(page.parent.name, page.stem) for page in ROOT.glob("docs/reference/*/*.md")}
    assert pages == set(MODELS)
