"""The types of the JSON of a run, of replications, of a race and of an engine.

docs/reference/figures.md defines each key of a run, its unit and its interval. A value that was not
measured is None. `core` writes whole numbers without a decimal point, so that a `float` may be an
`int`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

from narrows.errors import EngineError
from narrows.json_object import JsonObject

if TYPE_CHECKING:
    from typing_extensions import NotRequired

Spread = Mapping[str, "float | None"]
"""Statistics of a distribution by name, such as `mean` and `p95`."""


def measured(value: float | None) -> float:
    """The value, unless it is missing.

    >>> measured(1.5)
    1.5

    Raises:
        EngineError: If the value is None, because the run did not measure it.
    """
    if value is None:
        raise EngineError("a necessary metric of a run was not measured")
    return value


class FlowJson(TypedDict):
    """The metrics of a flow."""

    id: str
    cc: str
    goodput_mbit: float | None
    active_goodput_mbit: float | None
    active_s: float
    rtt_ms: Spread
    sampled_rtt_ms: Spread
    cwnd_packets: Spread
    retransmits: int
    retransmit_rate: float | None
    run_retransmit_rate: float | None
    summary_retransmits: int
    summary_retransmit_rate: float | None
    fct_s: float | None
    timed_out_s: NotRequired[float]
    limits: Mapping[str, float]
    route: NotRequired[list[str]]
    route_back: NotRequired[list[str]]
    series: list[list[float]]
    workload: NotRequired[JsonObject]
    """Its keys depend on the kind of the workload."""


class PathJson(TypedDict):
    """The rates of the path, its base RTTs and its buffer."""

    rate_mbit: float
    capacity_mbit: float
    arriving_mbit: float
    reverse_mbit: NotRequired[float]
    reverse_arriving_mbit: NotRequired[float]
    varies: bool
    rtt_ms: float
    rtts_ms: list[float]
    buffer_bdp: float | None


class ClassJson(TypedDict):
    """The metrics of a class or band of a queue discipline, with its counters if it has any."""

    name: str
    delay_ms: Spread
    backlog_packets: Spread
    sent_bytes: NotRequired[int]
    sent_packets: NotRequired[int]
    drops: NotRequired[int]
    overlimits: NotRequired[int]
    borrowed: NotRequired[int]


class LostJson(TypedDict):
    """Packets that were lost at a link in the whole run, by drop reason."""

    overflow: int
    aqm: int
    policer: int
    loss: int


class QueueJson(TypedDict):
    """The metrics of a queue."""

    name: str
    kind: str
    drops: int
    marks: int
    delay_ms: Spread
    backlog_packets: Spread
    classes: NotRequired[list[ClassJson]]
    rate_mbit: NotRequired[float]
    """Mean rate of the link behind the queue, in Mbit/s; only in a network of links, and for the
    path before a Wi-Fi."""
    carried_mbit: NotRequired[float]
    carried_bytes: NotRequired[int]
    utilisation: NotRequired[float | None]
    lost: NotRequired[LostJson]
    loss_rate: NotRequired[float | None]


class ProbeJson(TypedDict):
    """The metrics of a ping train."""

    kind: str
    sent: int
    received: int
    rtt_ms: Spread
    delay_ms: NotRequired[Mapping[str, Spread | None]]


class StationJson(TypedDict):
    """The metrics of a station of a Wi-Fi."""

    name: str
    goodput_mbit: float | None
    airtime_share: float | None
    aggregate: Spread
    aggregate_up: Spread
    retries: int
    collision_share: float | None
    delay_ms: Mapping[str, Spread | None]


class SharesJson(TypedDict):
    """The goodput of a group of flows, and its Jain's index."""

    flows: int
    goodput_mbit: float | None
    jain: float | None


class FairnessJson(TypedDict):
    """Jain's index of all flows, and the shares of groups."""

    jain: float | None
    by_cc: dict[str, SharesJson]
    by_direction: dict[str, SharesJson]


class InstrumentsJson(TypedDict):
    """The self-check of a run with real packets; docs/reference/figures.md describes further
    keys.
    """

    trusted: bool | None
    why: list[str]
    lateness_us: Mapping[str, float]
    rate_error: Mapping[str, float]
    kernel: NotRequired[str]


class EvidenceJson(TypedDict):
    """A stored run of real Linux. `agreement` is the share of metrics in which the simulator agrees
    with it, and `distance` its distance from this run.
    """

    case: str
    cc: list[str]
    queue: str
    policer: str | None
    besides: list[str]
    rate_mbit: float
    rtt_ms: float
    buffer_bdp: float | None
    headroom: float | None
    loss: float
    agreement: float
    distance: float


class HostJson(TypedDict):
    """The machine on which a result was computed."""

    platform: str
    python: str
    cpus: int | None


class KernelJson(TypedDict):
    """The kernel of the engine `linux`; a result of several runs contains only its name and key."""

    name: str | None
    key: str
    release: NotRequired[str]
    patches: NotRequired[dict[str, str]]


class HostProvenanceJson(TypedDict):
    """Version of narrows, machine, start time, and wall-clock and processor time of a result."""

    version: str
    host: HostJson
    started: str
    wall_s: float
    cpu_s: float


class ProvenanceJson(HostProvenanceJson):
    """The provenance of a run."""

    seed: int
    scenario_sha256: str
    files_sha256: dict[str, str]
    evidence: list[EvidenceJson] | None
    kernel: NotRequired[KernelJson]
    models: NotRequired[JsonObject]
    """The origin of each model of a plugin."""
    steps_with_control: NotRequired[int]
    threads: NotRequired[int]
    """Number of threads that handled the flows, if the number was limited by `threads`."""


class RunJson(TypedDict):
    """A run, as `narrows run --json` prints it."""

    narrows: str
    engine: str
    seed: int
    scenario: JsonObject
    """The scenario with all defaults filled in; docs/reference/scenario.md describes its keys."""
    path: PathJson
    flows: list[FlowJson]
    queue: QueueJson
    queues: list[QueueJson]
    stations: NotRequired[list[StationJson]]
    probes: list[ProbeJson]
    fairness: FairnessJson
    notices: NotRequired[list[str]]
    instruments: NotRequired[InstrumentsJson]
    provenance: ProvenanceJson


class EngineJson(TypedDict):
    """The engine of a result of several runs."""

    engine: str
    kernel: NotRequired[KernelJson]


class UsedKernelJson(TypedDict):
    """The kernel of replications; absent unless the engine is `linux`."""

    provenance: NotRequired[dict[str, KernelJson]]


class ReplicationsJson(UsedKernelJson):
    """Replications, as `narrows run --seeds --json` prints them; intervals by metric."""

    narrows: str
    engine: str
    scenario: JsonObject
    seed: int
    seeds: int
    level: float
    run: dict[str, JsonObject]
    flows: list[JsonObject]
    notices: list[str]


class RaceEngineJson(TypedDict, total=False):
    """The engine of a race, absent for the simulator, and the congestion controls that it does not
    have, with reasons.
    """

    engine: str
    kernel: KernelJson
    refused: dict[str, str]


class RaceJson(RaceEngineJson):
    """A race, as `narrows race --json` prints it."""

    path: JsonObject
    duration_s: int
    seed: int
    seeds: int
    laps: list[JsonObject]
    left_out: dict[str, str]
    like: str


class SamplesAsked(TypedDict):
    """The arguments of `run` for samples and packet events."""

    sample_interval: str | None
    verdicts: int
    states: bool
