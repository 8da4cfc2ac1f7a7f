"""The types of the JSON of recommendations, offers and forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

from narrows.json_object import JsonObject

if TYPE_CHECKING:
    from typing_extensions import NotRequired

    from narrows.runs.model import EvidenceJson


class VariantJson(TypedDict):
    """A variant of a path that is not known exactly, with its weight."""

    why: str
    weight: float
    path: JsonObject


class PlaceJson(TypedDict):
    """A path, and its quantities that are not known (`open`)."""

    source: str
    rate_mbit: float
    rtt_ms: float
    buffer_bdp: float | None
    loss: float
    open: list[str]
    variants: list[VariantJson]


class EffectJson(TypedDict):
    """The predicted change of a metric, with its 90 % interval."""

    name: str
    says: str
    unit: str
    more_is_better: bool
    before: float | None
    after: float | None
    change: float | None
    low: float | None
    high: float | None
    clear: bool


class PriceJson(TypedDict):
    """The effect of a candidate on other flows; `verdict.Price` describes the fields."""

    share_pct: float | None
    times_fair: float | None
    kept_pct: float | None


class CandidateJson(TypedDict):
    """A candidate."""

    key: str
    says: str
    cc: str | None
    queue: str | None
    shaper_share: float | None


class RankJson(TypedDict):
    """A candidate with its utility."""

    key: str
    utility: float | None
    allowed: bool


class BudgetJson(TypedDict):
    """The limits of the simulations, and whether they were reached."""

    reached: bool
    time_limit_reached: bool
    durations_s: Sequence[float]
    intended_s: Sequence[float]
    rounds_omitted: int
    boundaries_omitted: bool


AskedJson = TypedDict(
    "AskedJson",
    {
        "as": str,
        "for": "list[str]",
        "now": "NotRequired[str]",
        "data_centre": "NotRequired[bool]",
        "seed": int,
        "kernel": "NotRequired[str]",
    },
)
"""The question; that of an operator has a role, goals and a seed only."""


class AdviceJson(TypedDict):
    """A recommendation, as `narrows advise --json` prints it."""

    advice: int
    asked: AskedJson
    path: PlaceJson
    leave: bool
    choice: CandidateJson
    best: CandidateJson
    gain: float | None
    effects: list[EffectJson]
    price: PriceJson
    candidates: list[JsonObject]
    """Each with its metrics by name."""
    fastest: str
    kernel_lacks: dict[str, list[str]]
    not_recommended: dict[str, str]
    wrong_when: list[str]
    rule: str
    inside_validated: bool
    extrapolated: bool
    evidence: list[EvidenceJson]
    pacing_wakeups_per_s: float | None
    ranking: list[RankJson]
    finalists: Sequence[str]
    runs: int
    rounds: int
    preliminary: bool
    budget: BudgetJson
    commands: list[str]
    sealed: NotRequired[str]


class OffersBudgetJson(TypedDict):
    """The limit of the simulations of offers, and whether it was reached."""

    reached: bool
    durations_s: list[float]
    intended_s: list[float]


class OffersJson(TypedDict):
    """Offers of a rate, the best first."""

    advice: int
    asked: AskedJson
    path: PlaceJson
    runs: int
    budget: OffersBudgetJson
    offers: list[JsonObject]
    """Each with its configuration, its path, its utility and its metrics."""


class MixJson(TypedDict):
    """The goodput of each congestion control of a mix, the RTT of a ping, and the share of
    retransmissions in percent.
    """

    goodput_mbit: list[float]
    p95_ms: float | None
    again_pct: float


class ForecastFigureJson(TypedDict):
    """A forecast metric: its value before the change, and the interval after it."""

    name: str
    before: NotRequired[float | None]
    low: float
    high: float


class JudgedJson(TypedDict):
    """A forecast metric and its measured value."""

    name: str
    low: float
    high: float
    measured: float
    hit: bool


class LoadJson(TypedDict, total=False):
    """The load of a measurement: concurrent flows, their congestion control, and directions.
    `family` is the address family, if it is known.
    """

    flows: int
    cc: str | None
    both_ways: bool
    family: str


class ChoiceJson(TypedDict):
    """The recommended change of a forecast."""

    key: str
    cc: NotRequired[str | None]
    queue: NotRequired[str | None]
    shaper_share: NotRequired[float | None]


_Question = TypedDict("_Question", {"as": "NotRequired[str]", "for": "NotRequired[list[str]]"})


class ForecastJson(_Question):
    """A sealed forecast; the file of forecasts adds the hash."""

    kind: Literal["forecast"]
    at: str
    host: str
    measurement: str
    way: Literal["up", "down"]
    load: NotRequired[LoadJson | None]
    path: NotRequired[PlaceJson]
    now: NotRequired[str]
    choice: ChoiceJson
    leave: bool
    runs: NotRequired[int]
    figures: list[ForecastFigureJson]
    hash: NotRequired[str]


class ScoreJson(TypedDict):
    """The score of a forecast."""

    kind: Literal["score"]
    at: NotRequired[str]
    forecast: str
    """The hash of the forecast."""
    measurement: NotRequired[str]
    figures: list[JudgedJson]
    hash: NotRequired[str]


LineJson = ForecastJson | ScoreJson
"""A line of the file of forecasts."""


class ScoredJson(TypedDict):
    """A forecast with its score, or with the reason why it has none."""

    forecast: str
    choice: str
    figures: list[JudgedJson]
    not_scored: str | None
