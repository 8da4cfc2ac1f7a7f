"""The types of the JSON of `narrows identify`."""

from __future__ import annotations

from typing import TypedDict


class FeaturesJson(TypedDict):
    """The observed reactions of a sender; a value without observations is null."""

    loss_events: int
    backoff: float | None
    backoff_low: float | None
    backoff_high: float | None
    growth_segments: float | None
    probe_rtts: int
    probe_rtt_interval_s: float | None
    queue_before_loss_ms: float | None


class FlowJson(TypedDict):
    """One direction of a connection with its congestion control."""

    source: str
    target: str
    bytes: int
    duration_s: float
    rtt_min_ms: float | None
    cc: str | None
    like: list[str]
    reason: str
    losses: str | None
    features: FeaturesJson


class IdentifiedJson(TypedDict):
    """The output of `narrows identify --json`."""

    narrows: str
    file: str
    flows: list[FlowJson]
    left_out: int
    cut_bytes: int
