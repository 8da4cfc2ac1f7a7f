"""The types of the JSON of measurements and of their main metrics.

docs/reference/measurement.md describes each key. A measurement may come from a stranger's file, so
`result.Measurement.of` checks it. Each key may be absent or None; None means not measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from narrows.json_object import JsonObject

if TYPE_CHECKING:
    from typing_extensions import NotRequired


class SpreadJson(TypedDict):
    """A distribution."""

    n: int
    min: float | None
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


class FlowSpreadJson(TypedDict):
    """The distribution of the sampled smoothed RTT of a flow."""

    min: float | None
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


class LatencyJson(TypedDict):
    """The RTT distributions: idle, under any load, and by direction of the load."""

    idle: SpreadJson
    loaded: SpreadJson
    down: NotRequired[SpreadJson]
    up: NotRequired[SpreadJson]


class AskedJson(TypedDict, total=False):
    """The requested parameters of a measurement."""

    host: str | None
    port: int | None
    test: str | None
    duration_s: float | None
    idle_s: float | None
    streams: int | None
    cc: list[str] | None
    repeats: int | None
    dscp: str | float | None
    ecn: bool | None
    pacing_mbit: float | None
    max_data_bytes: float | None
    transport: str | None
    pacer: str | None
    flows_left_out: int | None


class PeerJson(TypedDict, total=False):
    """The far host and its protocol."""

    address: str | None
    port: int | None
    version: str | None
    speaks: str | None


class HostJson(TypedDict, total=False):
    """The machine that measured."""

    kernel: str | None
    name: str | None


class DataJson(TypedDict, total=False):
    """Planned and transferred amounts of payload, and the reason why the measurement ended."""

    planned_bytes: float | None
    moved_bytes: float | None
    stopped_by: str | None


class LatenessJson(TypedDict, total=False):
    """How much later than scheduled pings were sent, in ms."""

    p50: float | None
    p99: float | None
    max: float | None


class ClockJson(TypedDict, total=False):
    """The relation of the clocks of both hosts, which one-way delays need."""

    kind: str | None
    offset_ms: float | None
    error_ms: float | None
    drift_ms: float | None


class FarErrorJson(TypedDict, total=False):
    """The error of a measurement that the far host causes."""

    answering_ms: float | None


class OwnErrorJson(TypedDict, total=False):
    """The error of a measurement that the measuring programs and hosts cause."""

    lateness_ms: LatenessJson | None
    leaving_ms: float | None
    far: FarErrorJson | None
    socket_drops: int | None
    cpu_pct: float | None
    clock: ClockJson | None
    notes: list[str] | None


class UdpLoadJson(TypedDict, total=False):
    """A UDP load, in datagrams and Mbit/s."""

    direction: str | None
    packet_bytes: int | None
    asked_mbit: float | None
    sent: int | None
    unsent: int | None
    received: int | None
    reordered: int | None
    loss: float | None
    sent_mbit: float | None
    received_mbit: float | None


class MeasurementJson(TypedDict, total=False):
    """A measurement; `Measurement` has its phases, flows and pings as objects."""

    measurement: int
    narrows: str | None
    id: str | None
    started: str | None
    anonymized: bool | None
    asked: AskedJson | None
    peer: PeerJson | None
    phases: list[JsonObject] | None
    flows: list[JsonObject] | None
    pings: list[JsonObject] | None
    latency_ms: JsonObject | None
    """Usually a `LatencyJson`; a file of another version of narrows may have other distributions.
    """
    voip: JsonObject | None
    page: JsonObject | None
    udp_load: UdpLoadJson | None
    own_error: OwnErrorJson | None
    data: DataJson | None
    host: HostJson | None


class OutageJson(TypedDict):
    """A time during which no ping was answered."""

    from_s: float
    to_s: float
    ended: bool
    data_arrived: bool


class LostJson(TypedDict):
    """The shares of unanswered pings."""

    idle: float | None
    loaded: float | None


class ClassJson(TypedDict):
    """A traffic class: goodput by direction, and the RTTs of its pings under load."""

    dscp: str
    rates_mbit: dict[str, float]
    rtt_ms: SpreadJson
    pings_lost: float | None


class ControlJson(TypedDict):
    """The flows of a congestion control in one direction."""

    cc: str
    direction: str
    flows: int
    goodput_mbit: float
    retransmits: int | None


class AnswerJson(TypedDict):
    """The main metrics of a measurement."""

    rates_mbit: dict[str, float]
    latency_ms: LatencyJson
    latency_by_cc_ms: dict[str, dict[str, SpreadJson]]
    increase_ms: float | None
    grade: str | None
    grade_scale: str
    trips_per_minute: float | None
    pings_lost: LostJson
    outages: list[OutageJson]
    classes: list[ClassJson]
    controls: list[ControlJson]
