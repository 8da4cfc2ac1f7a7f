"""The tiers of tests: every entry of the list exists, and each test has exactly one tier."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tiers

HERE = Path(__file__).parent
EVERYTHING = "\n".join(file.read_text(encoding="utf-8") for file in HERE.glob("*.py"))


LISTED = tiers.DOCS | tiers.SYSTEM | tiers.PHYSICAL | tiers.SYSTEM_TESTS | tiers.PHYSICAL_TESTS
DECIDING = tiers.SYSTEM_FIXTURES | tiers.SYSTEM_CALLS | tiers.PHYSICAL_CALLS
TIERS = {"exact", "docs", "system", "physical"}


@pytest.mark.parametrize("entry", sorted(LISTED))
def test_every_listed_test_exists(entry: str) -> None:
    file, _, name = entry.partition("::")
    assert f"def {name}" in (HERE / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(DECIDING))
def test_fixtures_and_helpers_that_decide_a_tier_exist(name: str) -> None:
    assert re.search(rf"^def {name}\(", EVERYTHING, re.MULTILINE)


@pytest.mark.parametrize("name", sorted(tiers.RENEWS))
def test_names_that_mark_stored_results_exist(name: str) -> None:
    assert re.search(rf"^(def )?{name}\b", EVERYTHING, re.MULTILINE)


def test_a_test_has_one_tier(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        assert len({mark.name for mark in item.iter_markers()} & TIERS) == 1, item.nodeid
