"""The Rust side: thin, low-level; `narrows` is what people use."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, final

__all__ = [
    "SCENARIO_FORMAT",
    "Ack",
    "Loss",
    "LostPacket",
    "QueueState",
    "QueuedPacket",
    "Reduced",
    "Rows",
    "Rto",
    "Run",
    "Sample",
    "Sent",
    "SpuriousLoss",
    "Start",
    "StateChange",
    "Stepper",
    "Table",
    "Window",
    "__version__",
    "audit_document",
    "audit_findings",
    "audit_lines",
    "cc_states",
    "check_toml",
    "collector_limits",
    "compare_engines",
    "compare_metric",
    "exit_if_locked",
    "find_model",
    "host_collector",
    "host_facts",
    "host_plan",
    "host_summary",
    "kernel_release",
    "kernel_rules",
    "known_effects",
    "linux_features",
    "list_json",
    "load_plugin",
    "module_package",
    "module_states",
    "path_json",
    "path_numbers",
    "plan_lines",
    "plugin_tag",
    "register_cc",
    "register_queue",
    "remy_from_dna",
    "rows_of",
    "rules",
    "run_elsewhere",
    "run_toml",
    "run_tree",
    "scenario_defaults",
    "scenario_files",
    "scenario_to_toml",
    "seconds",
    "shaper_disciplines",
    "shaper_kinds",
    "shaper_modules",
    "start_run",
    "stuck_runs",
    "toml_tables",
    "toml_to_tree",
    "transports",
    "unregister",
]

__version__: str
SCENARIO_FORMAT: int

@final
class Table:
    """One table of samples in the memory of the engine.

    `pyarrow.table`, polars and others read it without a copy.
    """

    def columns(self) -> dict[str, list[Any]]: ...
    def names(self, column: str) -> list[str]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Run:
    """What the engine saw."""

    def json(self) -> str: ...
    def table(self, name: str) -> Table: ...
    @property
    def files(self) -> dict[str, str]: ...
    @property
    def verdicts_left_out(self) -> int: ...
    @property
    def record_error(self) -> str | None: ...
    @property
    def threads(self) -> int: ...

@final
class Rows:
    """Rows of runs, by column."""

    def run(self, key: str, tree: Mapping[str, Any], seed: int) -> None: ...
    def columns(self) -> dict[str, list[Any]]: ...

@final
class Window:
    """The window of a sender.

    `cwnd`, `ssthresh` and `clamp` are in packets; a fraction of a packet is kept. `pacing_mbit` is
    None for the transport's own formula. `reduce` requests a reduction as after a mark.
    """

    cwnd: float
    ssthresh: float
    pacing_mbit: float | None
    reduce: bool
    @property
    def clamp(self) -> float: ...
    @property
    def in_slow_start(self) -> bool: ...

@final
class Start:
    """The connection is established."""

    @property
    def now_s(self) -> float: ...
    @property
    def srtt_ms(self) -> float: ...
    @property
    def min_rtt_ms(self) -> float: ...
    @property
    def ecn(self) -> bool: ...

@final
class Sent:
    """Data leaves while no other data is in flight."""

    @property
    def now_s(self) -> float: ...
    @property
    def app_limited(self) -> bool: ...

@final
class Sample:
    """The measurements of an ACK."""

    @property
    def now_s(self) -> float: ...
    @property
    def rtt_ms(self) -> float | None: ...
    @property
    def srtt_ms(self) -> float: ...
    @property
    def acked(self) -> int: ...
    @property
    def delivered(self) -> int: ...
    @property
    def ece(self) -> bool: ...
    @property
    def state(self) -> str: ...

@final
class Ack:
    """One ACK, after loss detection."""

    @property
    def now_s(self) -> float: ...
    @property
    def rtt_ms(self) -> float | None: ...
    @property
    def srtt_ms(self) -> float: ...
    @property
    def delivered(self) -> int: ...
    @property
    def lost(self) -> int: ...
    @property
    def marked(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def may_grow(self) -> bool: ...
    @property
    def cwnd_limited(self) -> bool: ...
    @property
    def ece(self) -> bool: ...
    @property
    def state(self) -> str: ...
    @property
    def una(self) -> int: ...
    @property
    def nxt(self) -> int: ...
    @property
    def delivery_rate_mbit(self) -> float | None: ...
    @property
    def app_limited(self) -> bool: ...

@final
class Loss:
    """Congestion, at most once per round trip."""

    @property
    def now_s(self) -> float: ...
    @property
    def cause(self) -> str: ...
    @property
    def in_flight(self) -> int: ...

@final
class LostPacket:
    """One packet was marked lost."""

    @property
    def now_s(self) -> float: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def lost(self) -> int: ...
    @property
    def app_limited(self) -> bool: ...

@final
class Rto:
    """The retransmission timer fired."""

    @property
    def now_s(self) -> float: ...

@final
class Reduced:
    """A reduction is over."""

    @property
    def now_s(self) -> float: ...

@final
class StateChange:
    """The state of recovery changes."""

    @property
    def now_s(self) -> float: ...
    @property
    def before(self) -> str: ...
    @property
    def after(self) -> str: ...

@final
class SpuriousLoss:
    """A reduction was spurious."""

    @property
    def now_s(self) -> float: ...
    @property
    def prior_cwnd(self) -> int: ...

@final
class QueuedPacket:
    """A packet in a queue."""

    @property
    def size(self) -> int: ...
    @property
    def flow(self) -> int | None: ...
    @property
    def flow_hash(self) -> int: ...
    @property
    def dscp(self) -> int: ...
    @property
    def ecn_capable(self) -> bool: ...
    @property
    def arrived_s(self) -> float: ...
    def drop(self, why: str = "aqm") -> None: ...
    def mark(self) -> bool: ...

@final
class QueueState:
    """The link and the backlog of a queue."""

    @property
    def rate_mbit(self) -> float: ...
    @property
    def backlog_packets(self) -> int: ...
    @property
    def backlog_bytes(self) -> int: ...
    def admits(self, packet: QueuedPacket) -> bool: ...

@final
class Stepper:
    """A run between two steps."""

    def step(
        self,
        *,
        until_ns: int | None = None,
        acks: int | None = None,
        cwnd: int | None = None,
        pacing_bit: int | None = None,
    ) -> dict[str, Any]: ...
    def times_ns(self) -> tuple[int, int]: ...
    def finish(self) -> Run: ...

def start_run(
    scenario: Mapping[str, Any] | str,
    file_name: str,
    *,
    control: str | None = None,
    seed: int | None = None,
    sample_interval: str | None = None,
    states: bool = False,
) -> Stepper: ...
def seconds(text: str) -> float: ...
def register_cc(model_class: type, spec: Mapping[str, Any]) -> None: ...
def register_queue(model_class: type, spec: Mapping[str, Any]) -> None: ...
def unregister(kind: str, name: str) -> None: ...
def find_model(kind: str, name: str) -> bool: ...
def load_plugin(file: str | PathLike[str], origin: str) -> list[tuple[str, str]]: ...
def plugin_tag() -> str: ...
def stuck_runs() -> int: ...
def exit_if_locked() -> None: ...
def transports() -> list[tuple[str, str, str, list[str]]]: ...
def run_toml(
    text: str,
    file_name: str,
    *,
    seed: int | None = None,
    sample_interval: str | None = None,
    verdicts: int = 0,
    states: bool = False,
    threads: int = 1,
    record: str | None = None,
    progress: Callable[[float, float], object] | None = None,
) -> Run: ...
def run_tree(
    tree: Mapping[str, Any],
    *,
    seed: int | None = None,
    sample_interval: str | None = None,
    verdicts: int = 0,
    states: bool = False,
    threads: int = 1,
    record: str | None = None,
    progress: Callable[[float, float], object] | None = None,
) -> Run: ...
def run_elsewhere(json: str, samples: bytes, record_error: str | None = None) -> Run: ...
def check_toml(text: str, file_name: str, *, built: bool = False) -> list[str]: ...
def toml_tables(text: str, file_name: str) -> dict[str, Any]: ...
def toml_to_tree(text: str, file_name: str) -> dict[str, Any]: ...
def scenario_defaults(tree: Mapping[str, Any]) -> dict[str, Any]: ...
def scenario_files(text: str, file_name: str, *, built: bool = False) -> dict[str, str]: ...
def scenario_to_toml(tree: Mapping[str, Any], files: Mapping[str, str] | None = None) -> str: ...
def list_json(*only: str) -> str: ...
def rows_of(
    json: str, transfers: Sequence[tuple[int, float, float | None]]
) -> list[dict[str, Any]]: ...
def rules(like: str) -> list[dict[str, Any]]: ...
def host_collector() -> str: ...
def host_facts(text: str, name: str) -> str: ...
def host_summary(facts: str) -> str: ...
def kernel_release(text: str) -> tuple[int, int] | None: ...
def collector_limits() -> tuple[int, int]: ...
def module_states(facts: str, modules: Sequence[str]) -> list[str | None]: ...
def cc_states(facts: str, ccs: Sequence[str]) -> list[str | None]: ...
def module_package(facts: str, module: str) -> tuple[list[str], str] | None: ...
def linux_features() -> list[tuple[str, tuple[int, int], str, str]]: ...
def audit_findings(facts: str, rate_mbit: float | None, rtt_ms: float | None) -> str: ...
def audit_document(facts: str, findings: str) -> str: ...
def audit_lines(facts: str, findings: str, every: bool) -> list[str]: ...
def known_effects() -> str: ...
def kernel_rules(kernel: str, effects: str) -> str: ...
def host_plan(facts: str, ask: str) -> str: ...
def plan_lines(document: str) -> list[str]: ...
def shaper_modules(kind: str, incoming: bool) -> list[str]: ...
def shaper_disciplines(kind: str, kbit: int, handle: str) -> str: ...
def shaper_kinds() -> list[str]: ...
def remy_from_dna(dna: bytes, name: str) -> tuple[str, int]: ...
def path_json(tree: Mapping[str, Any]) -> str: ...
def path_numbers(tree: Mapping[str, Any]) -> dict[str, Any]: ...
def compare_metric(
    name: str,
    reference: list[float],
    ours: float,
    *,
    rate_mbit: float,
    rtt_ms: float,
    duration_s: float,
    flows: int,
) -> tuple[bool, float, float]: ...
def compare_engines(
    name: str,
    reference: list[float],
    ours: list[float],
    *,
    rate_mbit: float,
    rtt_ms: float,
    flows: int,
) -> tuple[str, float, float, float, float]: ...
