"""The finding `kernel-rule` of `narrows tune audit`, and the effects that it uses."""

from __future__ import annotations

from typing import Any

import pytest

from narrows.kernel.rules import rules_of
from narrows.tune.facts import Facts
from narrows.tune.findings import Path, release


@pytest.fixture
def effects(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """One rule with an effect, on top of the receiver of 6.16."""
    base = rules_of("6.16.0")
    needs = [rule.name for rule in base if rule.active and rule.of == "receiver"]
    share = {"mean": 0.2, "low": 0.1, "high": 0.3}
    effect = {"path": "a path", "goodput_share": share, "rtt_share": share}
    known = {"receive_buffer_slow_start": {"base": "6.17.0", "needs": needs, "effects": [effect]}}
    monkeypatch.setattr(release, "known_effects", lambda: known)
    return known


def found(kernel: str) -> list[str]:
    """The rules that a host is reported to lack."""
    return [one.subject for one in release.kernel_rules(Facts(release=kernel), Path())]


def test_a_kernel_is_told_of_a_rule_that_it_lacks(effects: dict[str, Any]) -> None:
    assert found("6.17.0-5-generic") == ["receive_buffer_slow_start"]
    (one,) = release.kernel_rules(Facts(release="6.17.4"), Path())
    assert "Linux 6.17.4 lacks a change of Linux 6.18" in one.what
    assert "a path: goodput 20.0 %" in one.why
    assert "narrows kernel diff 6.17.4 6.18" in one.fix
    assert found("7.3.4") == []


def test_no_rule_is_missed_by_a_kernel_whose_behaviour_it_corrects_came_later(
    effects: dict[str, Any],
) -> None:
    assert found("6.8.0-45-generic") == []
    effects["receive_buffer_slow_start"]["needs"] = []
    assert found("6.8.0-45-generic") == ["receive_buffer_slow_start"]


@pytest.mark.parametrize("kernel", ["", "custom", "2.6.32", "99.1"])
def test_an_unknown_kernel_has_no_finding(effects: dict[str, Any], kernel: str) -> None:
    assert found(kernel) == []


def test_small_and_adverse_effects_are_no_finding(effects: dict[str, Any]) -> None:
    (effect,) = effects["receive_buffer_slow_start"]["effects"]
    effect["goodput_share"] = {"mean": 0.04, "low": 0.02, "high": 0.06}
    assert found("6.17.4") == []
    effect["rtt_share"] = {"mean": -0.3, "low": -0.4, "high": -0.2}
    assert found("6.17.4") == ["receive_buffer_slow_start"]
    effect["goodput_share"] = {"mean": -0.5, "low": -0.6, "high": -0.4}
    assert found("6.17.4") == []


def test_the_stored_effects_are_of_rules_of_this_version() -> None:
    known = {rule.name for rule in rules_of("7.3")}
    for name, effect in release.known_effects().items():
        assert {name, *effect["needs"]} <= known
        rules = {rule.name: rule.active for rule in rules_of(effect["base"])}
        assert not rules[name]
        assert all(rules[other] for other in effect["needs"])
