"""The types of the JSON of `narrows latency`; docs/reference/latency.md describes each key.

`result.read` checks a file and adds keys that results of earlier versions lack. The same page
describes the counters of the program and the properties of the machine, which have no types here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired

Percentile = Literal["p50", "p90", "p99", "p99_9", "p99_99", "p99_999"]
"""The key of a percentile. The value of a percentile is None or absent if there are too few replies
for it.
"""

Statistic = Literal["min", "mean", "p50", "p90", "p99", "p99_9", "p99_99", "p99_999", "max"]
"""A statistic of a distribution."""

Clock = Literal["response_us", "rtt_us"]
"""The key of a time of replies: response time or RTT."""

DelayKey = Literal["delay_us", "pdv_us", "ipdv_us"]
"""The key of a time of a direction: one-way delay, PDV (RFC 5481, section 4.2) or IPDV (RFC 3393).
"""

Count = Literal[
    "duplicates", "reordered", "mismatches", "unsent", "skipped", "refused", "socket_drops"
]
"""A counter of packets."""


class TimesJson(TypedDict):
    """A distribution of times, in µs; `histogram_ns` has pairs of a time and a count."""

    n: int
    min: float
    mean: float
    max: float
    p50: NotRequired[float | None]
    p90: NotRequired[float | None]
    p99: NotRequired[float | None]
    p99_9: NotRequired[float | None]
    p99_99: NotRequired[float | None]
    p99_999: NotRequired[float | None]
    histogram_ns: list[list[int]]


class DelaysJson(TypedDict, total=False):
    """The one-way delays of a direction, and their variation. `delay_us` is None if the hosts have
    separate clocks.
    """

    delay_us: TimesJson | None
    pdv_us: TimesJson | None
    ipdv_us: TimesJson | None


class OneWayJson(TypedDict):
    """The one-way delays of both directions. `drift_us` is the drift of separate clocks during the
    measurement.
    """

    clocks: Literal["common", "separate"]
    drift_us: NotRequired[float | None]
    forward: NotRequired[DelaysJson | None]
    reverse: NotRequired[DelaysJson | None]


class SlowReplyJson(TypedDict):
    """A slow reply."""

    t_s: float
    blamed: NotRequired[str]
    at: NotRequired[str]
    response_us: NotRequired[float | None]
    rtt_us: NotRequired[float | None]
    late_us: NotRequired[float | None]


class EpisodeJson(TypedDict):
    """An episode: slow replies that were outstanding at the same time. Response time, RTT and send
    delay are those of the slowest reply.
    """

    t_s: float
    blamed: str
    at: str
    answers: int
    lasted_us: float
    response_us: float
    rtt_us: float
    late_us: float


class EpisodesJson(TypedDict):
    """Episodes of slow replies: their number, and those that are stored."""

    count: int
    kept: list[EpisodeJson]


class SlowJson(TypedDict):
    """Slow replies: their number, their attribution, and those that are stored."""

    limit_us: float | None
    count: int
    blamed: dict[str, int]
    kept: list[SlowReplyJson]
    episodes: EpisodesJson


class PeerJson(TypedDict, total=False):
    """The far host."""

    speaks: str
    carrier: str
    address: str
    port: int


class ClassJson(TypedDict, total=False):
    """The traffic class bytes of requests at the far host (`there`), and of replies at the client
    (`back`).
    """

    there: int | None
    back: int | None


class FindingJson(TypedDict):
    """A property of the link, the device or the CPUs that affects the result, and its remedy."""

    what: NotRequired[str]
    says: str
    cure: NotRequired[str | None]


_Classes = TypedDict("_Classes", {"class": ClassJson})


class LatencyJson(_Classes):
    """A result of one policy."""

    kind: Literal["latency"]
    narrows: NotRequired[str]
    host: NotRequired[str]
    began: NotRequired[str]
    kernel: NotRequired[str]
    policy: NotRequired[str]
    pace: NotRequired[str]
    size_bytes: NotRequired[int]
    sent: int
    lost: int
    corrupted: int
    duplicates: NotRequired[int]
    reordered: NotRequired[int]
    mismatches: NotRequired[int]
    unsent: NotRequired[int]
    skipped: NotRequired[int]
    refused: NotRequired[int]
    socket_drops: NotRequired[int]
    reconnections: NotRequired[int]
    contradicted: int
    interrupted: bool
    notes: NotRequired[list[str]]
    stamps: bool
    lasted_s: float
    last_answer_s: NotRequired[float]
    interval_us: float
    peer: PeerJson
    rtt_us: TimesJson | None
    response_us: TimesJson | None
    late_us: TimesJson | None
    parts_us: dict[str, TimesJson | None]
    one_way: NotRequired[OneWayJson | None]
    slow: SlowJson
    findings: list[FindingJson]


class SetupJson(TypedDict):
    """A policy and a load of the CPUs, with their result. `refused` is the reason why the kernel
    refused the policy; None if it did not.
    """

    policy: str
    load: str
    refused: str | None
    called_off: bool
    awake_by: str | None
    cpu_s: float
    wall_s: float
    load_cpu_s: float
    latency: LatencyJson


class PoliciesJson(TypedDict):
    """The results of several policies."""

    kind: Literal["latency_lab"]
    host: str
    interrupted: bool
    slow_us: float
    setups: list[SetupJson]
    findings: NotRequired[list[FindingJson]]


ResultJson = LatencyJson | PoliciesJson
"""The result of one policy, or of several."""
