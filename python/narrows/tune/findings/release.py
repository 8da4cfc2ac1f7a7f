"""Findings about rules of TCP that a kernel lacks, and the stored effects of these rules."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from narrows import _core
from narrows.tune.facts import Facts
from narrows.tune.findings.finding import Finding, Path


@cache
def known_effects() -> dict[str, Any]:
    """The measured effects, by name of the rule."""
    found: dict[str, Any] = json.loads(_core.known_effects())["rules"]
    return found


def kernel_rules(facts: Facts, _path: Path) -> list[Finding]:
    """Reports rules that the kernel lacks and whose effect is large."""
    effects = json.dumps({"rules": known_effects()})
    return [Finding(**row) for row in json.loads(_core.kernel_rules(facts.release, effects))]
