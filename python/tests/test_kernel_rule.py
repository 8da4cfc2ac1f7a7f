"""The finding `kernel-rule` of `narrows tune audit`, and the effects that it uses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from narrows import _core
from narrows.kernel.rules import rules_of


@pytest.fixture
def effects() -> dict[str, Any]:
    """One rule with an effect, on top of the receiver of 6.16."""
    base = rules_of("6.16.0")
    needs = [rule.name for rule in base if rule.active and rule.of == "receiver"]
    share = {"mean": 0.2, "low": 0.1, "high": 0.3}
    effect = {"path": "a path", "goodput_share": share, "rtt_share": share}
    return {"receive_buffer_slow_start": {"base": "6.17.0", "needs": needs, "effects": [effect]}}


def findings(kernel: str, effects: dict[str, Any]) -> list[dict[str, str]]:
    """The findings about a host with this kernel, with these effects."""
    rows: list[dict[str, str]] = json.loads(
        _core.kernel_rules(kernel, json.dumps({"rules": effects}))
    )
    return rows


def found(kernel: str, effects: dict[str, Any]) -> list[str]:
    """The rules that a host is reported to lack."""
    return [one["subject"] for one in findings(kernel, effects)]


def test_the_finding_names_a_rule_that_the_kernel_lacks(effects: dict[str, Any]) -> None:
    assert found("6.17.0-5-generic", effects) == ["receive_buffer_slow_start"]
    (one,) = findings("6.17.4", effects)
    assert "Linux 6.17.4 lacks a change of Linux 6.18" in one["what"]
    assert "a path: goodput 20.0 %" in one["why"]
    assert "narrows kernel diff 6.17.4 6.18" in one["fix"]
    assert found("7.3.4", effects) == []


def test_a_rule_is_not_missing_if_the_corrected_behaviour_is_newer(
    effects: dict[str, Any],
) -> None:
    assert found("6.8.0-45-generic", effects) == []
    effects["receive_buffer_slow_start"]["needs"] = []
    assert found("6.8.0-45-generic", effects) == ["receive_buffer_slow_start"]


@pytest.mark.parametrize("kernel", ["", "custom", "2.6.32", "99.1"])
def test_an_unknown_kernel_has_no_finding(effects: dict[str, Any], kernel: str) -> None:
    assert found(kernel, effects) == []


def test_small_and_adverse_effects_are_no_finding(effects: dict[str, Any]) -> None:
    (effect,) = effects["receive_buffer_slow_start"]["effects"]
    effect["goodput_share"] = {"mean": 0.04, "low": 0.02, "high": 0.06}
    assert found("6.17.4", effects) == []
    effect["rtt_share"] = {"mean": -0.3, "low": -0.4, "high": -0.2}
    assert found("6.17.4", effects) == ["receive_buffer_slow_start"]
    effect["goodput_share"] = {"mean": -0.5, "low": -0.6, "high": -0.4}
    assert found("6.17.4", effects) == []


def test_the_stored_effects_are_of_rules_of_this_version() -> None:
    known = {rule.name for rule in rules_of("7.3")}
    for name, effect in json.loads(_core.known_effects())["rules"].items():
        assert {name, *effect["needs"]} <= known
        rules = {rule.name: rule.active for rule in rules_of(effect["base"])}
        assert not rules[name]
        assert all(rules[other] for other in effect["needs"])
