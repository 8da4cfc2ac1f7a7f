"""The types of the JSON of `narrows conform`."""

from __future__ import annotations

from typing import Literal, TypedDict

VerdictName = Literal["pass", "fail", "not decided", "not applicable"]


class CheckJson(TypedDict):
    """The result of a check; a value that was not measured is null."""

    suite: str
    check: str
    question: str
    source: str
    unit: str
    least: float
    most: float
    mean: float | None
    low: float | None
    high: float | None
    seeds: int
    verdict: VerdictName
    reason: str


class ConformJson(TypedDict):
    """The results of all checks of a target; `client` is null unless it is a pair of commands."""

    target: str
    version: str
    client: str | None
    engine: str
    suite: str
    seed: int
    seeds: int
    checks: list[CheckJson]
    passed: int
    failed: int
    undecided: int
