"""The types of the JSON of reproduced experiments."""

from __future__ import annotations

from typing import TypedDict

from narrows.runs.model import EngineJson


class PublishedJson(TypedDict):
    """The published values of a cell; goodputs are over `trials` trials."""

    goodput_mbit: float
    goodput_mbit_sd: float
    goodput_mbit_min: float
    goodput_mbit_max: float
    retransmits_median: int
    trials: int


class CellJson(TypedDict):
    """A cell of the maps, with its simulated and its published values."""

    kernel: str
    cc: str
    buffer_bytes: int
    buffer_bdp: float
    rate_mbit: int
    rtt_ms: int
    goodput_mbit: float
    retransmits: int
    srtt_ms_mean: float
    published: PublishedJson
    agrees: bool


class GainJson(TypedDict):
    """The simulated and the published gain of BBR over CUBIC in a cell, in % of the goodput of
    CUBIC.
    """

    buffer_bytes: int
    rate_mbit: int
    rtt_ms: int
    gain_pct: float
    published_gain_pct: float
    agrees: bool


class CriterionJson(TypedDict):
    """A criterion of agreement; `cells`, `agree` and `needed` are numbers of cells."""

    name: str
    cells: int
    agree: int
    needed: int
    met: bool


class WhyJson(TypedDict):
    """The explanation of a figure outside of its range, and its evidence."""

    why: str
    evidence: str


class SpreadJson(TypedDict, total=False):
    """The 95 % confidence interval and the standard deviation of a figure over replications; absent
    without replications.
    """

    interval: list[float | None]
    sd: float | None


class ReasonJson(TypedDict, total=False):
    """The reason why a figure is outside its range or missing; absent otherwise."""

    why: WhyJson
    reason: str


class CheckJson(SpreadJson, ReasonJson):
    """A figure of an experiment; `ours` is None if it was not determined."""

    id: str
    of: str
    unit: str
    published: str
    accept: tuple[float, float] | None
    ours: float | None
    verdict: str


class SeedsJson(TypedDict, total=False):
    """The number of replications, and the engine if it is not the simulator."""

    seeds: int
    engine: EngineJson


class TableJson(TypedDict):
    """An additional table of an experiment."""

    title: str
    heads: list[str]
    rows: list[list[str]]


class OutcomeJson(SeedsJson):
    """The outcome of an experiment, as `narrows reproduce --json` prints it."""

    experiment: str
    title: str
    source: str
    setup: str
    quick: bool
    runs: int
    took_s: float
    made: str
    checks: list[CheckJson]
    tables: list[TableJson]


class DemoJson(TypedDict):
    """The published maps, as `narrows demo --json` prints them."""

    narrows: str
    experiment: str
    like: str
    cells: list[CellJson]
    gains: list[GainJson]
    criteria: list[CriterionJson]
    met: bool
    wall_s: float
