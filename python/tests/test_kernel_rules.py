"""Each rule of a Linux release changes the result of the scenario that validation/kernel_rules.toml
lists for it.
"""

from __future__ import annotations

import pytest
import tomllib
from validation import kernel_rules
from validation.kernel_rules import Shown

from narrows.kernel.rules import rules_of
from narrows.runs.engines import EngineChoice
from narrows.runs.run import run
from narrows.runs.scenario import from_tree

RULES = kernel_rules.shown()


@pytest.mark.parametrize("one", RULES, ids=lambda one: one.rule.name)
def test_a_rule_that_is_switched_off_alone_changes_the_result(one: Shown) -> None:
    since = kernel_rules.release(one.rule)
    with_, without = (
        run(from_tree(one.host(since, without=off)), seed=1, sample_interval="1s")
        for off in (False, True)
    )
    thresholds = [kernel_rules.threshold(done) for done in (with_, without)]
    assert (with_.rows(), thresholds[0]) != (without.rows(), thresholds[1])


def test_each_scenario_belongs_to_a_rule() -> None:
    given = tomllib.loads(kernel_rules.FILE.read_text(encoding="utf-8"))
    assert set(given["case"]) == {one.rule.name for one in RULES}
    assert {rule.name for rule in rules_of("7.3")} - set(given["case"]) == {"bbr"}
    assert set(given["metric"]) <= set(given["case"])
    assert set(given["scenario"]) <= {one.case for one in RULES}


@pytest.mark.parametrize("one", kernel_rules.switched(), ids=lambda one: one.shown.rule.name)
def test_a_rule_changes_linux_and_the_simulator_in_the_same_direction(
    one: kernel_rules.Switched,
) -> None:
    without, with_ = (
        kernel_rules.values(one.shown.host("7.3", without=off), EngineChoice(), 1, lambda *_: None)[
            one.shown.metric
        ]
        for off in (True, False)
    )
    assert (with_ > without) == (one.linux[1] > one.linux[0])
    for ours, linux in zip((without, with_), one.linux, strict=True):
        assert ours == pytest.approx(linux, rel=0.1)


def test_rows_that_are_kept_are_those_of_the_first_table() -> None:
    rows = kernel_rules.stored()
    assert list(rows) == [one.rule.name for one in RULES]
    assert {row.count("|") for row in rows.values()} == {10}
