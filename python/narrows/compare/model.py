"""The types of the JSON of comparisons."""

from __future__ import annotations

from typing import TypedDict


class DifferenceJson(TypedDict):
    """A metric of two measurements, with the confidence interval of its difference."""

    before: float | None
    after: float | None
    difference: float | None
    low: float | None
    high: float | None
    level: float | None
    verdict: str
    why: str


class LatencyDifferenceJson(TypedDict):
    """A percentile of two results of `narrows latency`, in µs."""

    before_us: float | None
    after_us: float | None
    ratio: float | None
    verdict: str
    clock: str


class IntervalJson(TypedDict):
    """The mean of a metric over independent runs, and its confidence interval."""

    mean: float
    low: float | None
    high: float | None
    sd: float | None
    runs: int


class ReplicationDifferenceJson(TypedDict):
    """A metric of a scenario, compared with that of the first one over common seeds."""

    metric: str
    before: IntervalJson
    after: IntervalJson
    difference: IntervalJson
    p: float
    differs: bool
