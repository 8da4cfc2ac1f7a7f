"""The types of the JSON of `narrows worst-case`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired

    from narrows.json_object import JsonObject
    from narrows.runs.model import KernelJson


class RunOfSeedJson(TypedDict):
    """A run of a scenario: the value of the objective, and the goodput of each flow."""

    seed: int
    value_percent: float
    flows: list[FlowOfRunJson]


class FlowOfRunJson(TypedDict):
    """A flow, and its goodput."""

    flow: str
    goodput_mbit: float | None


class MeasuredJson(TypedDict):
    """A scenario and its runs."""

    scenario: JsonObject
    toml: str
    keys: int
    """Number of keys that have a value."""
    mean_percent: float
    low_percent: float
    """Smallest value of a run."""
    high_percent: float
    """Largest value of a run."""
    runs: list[RunOfSeedJson]


class FailedJson(TypedDict):
    """A run that failed: its scenario file and the reason."""

    file: str
    reason: str


class WorstCaseJson(TypedDict):
    """The result of a search, as `narrows worst-case --json` prints it."""

    title: str
    engine: str
    kernel: NotRequired[KernelJson]
    objective: str
    what: str
    limit_percent: float
    flow: str | None
    over: list[str]
    seed: int
    scenarios: int
    runs: int
    found: bool
    """Whether a scenario is beyond the limit with every seed of the check."""
    values: dict[str, Any]
    """The values of the searched keys in the worst scenario."""
    worst: MeasuredJson
    checked_percent: list[float] | None
    """The values of the worst scenario with the seeds of the check."""
    smallest: MeasuredJson | None
    failed: list[FailedJson]
    into: str
