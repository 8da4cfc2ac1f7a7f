"""The types of the JSON of studies."""

from __future__ import annotations

from typing import TypedDict

from narrows.json_object import JsonObject


class MeansJson(TypedDict, total=False):
    """The means over the seeds of the cells of a grid, and the ends of their 95 % confidence
    intervals; absent without `--seeds`.
    """

    mean: list[list[float | None]]
    low: list[list[float | None]]
    high: list[list[float | None]]


class ConditionJson(TypedDict, total=False):
    """A condition of a rule: a feature of the path and the range that it must be in."""

    feature: str
    at_least: float
    below: float


class RuleJson(TypedDict):
    """A rule: its conditions, its prediction (`gains`), and statistics of the simulated paths that
    match it.
    """

    when: list[ConditionJson]
    gains: str
    share: float
    cases: int
    gain_pct: dict[str, float]
    sent_again_pct: dict[str, float]
    words: str


class AccuracyJson(TypedDict):
    """The accuracy of the rules by cross-validation, and that of always predicting the most common
    outcome.
    """

    cases: int
    folds: int
    cross_validated: float
    always_the_commonest: float


class RulesJson(TypedDict):
    """The content of the file that `narrows study --rules` writes."""

    format: str
    question: str
    made_by: str
    narrows: str
    about: str
    features: list[JsonObject]
    outcomes: dict[str, str]
    accuracy: AccuracyJson
    rules: list[RuleJson]
