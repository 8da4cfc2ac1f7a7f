"""Queue disciplines as objects, with tc's names for the parameters; `narrows list queues --verbose` describes them."""

from __future__ import annotations

from dataclasses import dataclass

from narrows._choice import Choice


@dataclass(frozen=True, kw_only=True)
class Fifo(Choice):
    """First in, first out; drops what does not fit. Its limit is the path's `buffer`.

    >>> Fifo().tree()
    {'kind': 'fifo'}
    """

    kind = "fifo"


@dataclass(frozen=True, kw_only=True)
class Fq(Choice):
    """A queue for each flow, served in turn; paces flows.

    >>> Fq(maxrate="2Mbit").tree()
    {'kind': 'fq', 'maxrate': '2Mbit'}

    Attributes:
        limit: Packets that a band may hold, as `"10000p"`; the path's `buffer` takes its place.
        flow_limit: Packets that a flow may hold, as `"100p"`.
        quantum: Bytes that a flow may send before the next one has its turn, as `"3028B"`.
        initial_quantum: Bytes that a new flow may send first.
        pacing: Pace at all.
        maxrate: The rate at which a flow is paced.
        low_rate_threshold: Up to this rate packets are paced one by one, above it by the quantum.
        refill_delay: Idleness after which a flow has a quantum again, as `"40ms"`.
        ce_threshold: Mark packets that leave so much later than they might have.
        horizon: How far ahead a packet's departure time may be.
        horizon_drop: Drop what is further ahead, instead of taking it for the horizon.
        timer_slack: How late its timer is.
        orphan_mask: The bits of a packet's hash that tell one flow from another.
        weight_high: Bytes of the high band in each round.
        weight_middle: Bytes of the middle band in each round.
        weight_low: Bytes of the low band in each round.
    """

    kind = "fq"
    limit: str | None = None
    flow_limit: str | None = None
    quantum: str | None = None
    initial_quantum: str | None = None
    pacing: bool | None = None
    maxrate: str | None = None
    low_rate_threshold: str | None = None
    refill_delay: str | None = None
    ce_threshold: str | None = None
    horizon: str | None = None
    horizon_drop: bool | None = None
    timer_slack: str | None = None
    orphan_mask: int | None = None
    weight_high: int | None = None
    weight_middle: int | None = None
    weight_low: int | None = None
