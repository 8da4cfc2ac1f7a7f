"""The scenario as Python objects: what the path is, who sends, what is watched. Never how it is run.

Nothing is checked here: the values go as they are to the one parser, in the Rust core, which knows every unit, default
and range and names every mistake at once. What is None is left out, and so has the documented default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass
from os import PathLike, fsdecode, fsencode
from os.path import isfile
from pathlib import Path as FilePath
from typing import Any, ClassVar, cast

from narrows import _core, cc, queue
from narrows.errors import NarrowsError, reason
from narrows.runs.choice import Choice, Chosen, Value
from narrows.storage import untrusted_input

Tree = dict[str, Any]
"""A scenario as nested tables, the same as a scenario file."""


def _fields(value: Any) -> dict[str, object]:  # noqa: ANN401 - any of the data classes here
    given = ((f.name, getattr(value, f.name)) for f in fields(value))
    return {name: _tree(v) for name, v in given if v is not None}


def _tree(value: object) -> object:
    if isinstance(value, Choice):
        return Choice.tree(value)  # one of them has a parameter of that name
    if is_dataclass(value):
        return ({"kind": value.kind} if isinstance(value, Ping) else {}) | _fields(value)
    if isinstance(value, Mapping):
        return {name: _tree(v) for name, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_tree(v) for v in value]
    return value


Element = str | float | Mapping[str, Value]
"""What happens to packets beside queueing: a model with its parameters, or the bare value of its first parameter."""


@dataclass(frozen=True, kw_only=True)
class Hop:
    """One narrow place in one direction, and the propagation behind it.

    >>> Hop(rate="5Mbit", queue="fq_codel").rate
    '5Mbit'

    Attributes:
        rate: Of its link (`"50Mbit"`).
        rtt: Two-way propagation behind it (`"40ms"`); a reverse hop has none.
        delay_forward: The part of it towards the receiver; half of it by default.
        buffer: `"1.5bdp"`, `"250kB"`, `"170p"`; by default what the discipline has in Linux.
        queue: The discipline; `"fifo"` by default.
        link: How the rate is kept: `"serial"` by default, or `{"kind": "tbf", "burst": "3080B"}`, `"htb"` and others of
            `narrows list link`.
        loss: What is lost before the queue (`"1%"` or `0.01`). What a sender hands down at once is lost
            at once, as with netem on its own interface; `{"probability": "1%", "per": "packet"}` draws for each
            packet, `{"kind": "gilbert_elliott", "mean_loss": "1%", "mean_burst": 5.0}` loses in bursts.
        corrupt: What arrives damaged (`"0.1%"`), so that its receiver drops it.
        duplicate: What arrives twice.
        policer: What lets pass a rate only (`{"rate": "2Mbit", "burst": "62.5kB"}`), before the queue.
        jitter: A delay that varies, behind the queue (`"5ms"`).
        reorder: What comes later than its turn (`{"probability": "1%", "late": "5ms"}`).
        steps: Rates over time (`[{"at": "10s", "rate": "5Mbit"}]`).
        outages: When nothing leaves (`[{"at": "20s", "lasts": "2s"}]`).
        trace: A file of the rate over time (CSV, or mahimahi's), instead of `rate`.
    """

    rate: str | None = None
    rtt: str | None = None
    delay_forward: str | None = None
    buffer: str | None = None
    queue: Chosen | None = None
    link: str | Mapping[str, Value] | None = None
    loss: Element | None = None
    corrupt: Element | None = None
    duplicate: Element | None = None
    policer: Element | None = None
    jitter: Element | None = None
    reorder: Element | None = None
    steps: Sequence[Mapping[str, str]] | None = None
    outages: Sequence[Mapping[str, str]] | None = None
    trace: str | Mapping[str, Value] | None = None


@dataclass(frozen=True, kw_only=True)
class Path(Hop):
    """Everything between the two hosts: one hop, or several.

    >>> Path(rate="50Mbit", rtt="40ms", buffer="1bdp", queue=queue.Fifo()).tree()
    {'rate': '50Mbit', 'rtt': '40ms', 'buffer': '1bdp', 'queue': {'kind': 'fifo'}}
    >>> up = Hop(rate="5Mbit", queue="fq_codel")
    >>> Path(rate="100Mbit", rtt="20ms", reverse=up).tree()["reverse"]
    {'rate': '5Mbit', 'queue': 'fq_codel'}

    Attributes:
        hop: Several hops, in the order of the data; the path has no rate of its own then.
        reverse: What ACKs, answers and flows that go up meet; nothing but distance by default.
        offload: Super-packets cross the path whole.
        nat: The hosts at the far end share one address on the path.
    """

    hop: Sequence[Hop] | None = None
    reverse: Hop | None = None
    offload: bool | None = None
    nat: bool | None = None

    def tree(self) -> Tree:
        """The section of a scenario file."""
        return cast("Tree", _fields(self))


@dataclass(frozen=True, kw_only=True)
class Station:
    """One station of a Wi-Fi, or `count` equal ones.

    >>> Station(name="far", rate="1Mbit", error="10%").mcs is None
    True

    Attributes:
        name: Its name; with a count, followed by 0, 1, 2 …
        count: So many of it.
        mcs: Modulation and coding; of 802.11n also its streams (8 to 15 are two).
        streams: Of 802.11ac: streams in space.
        rate: A rate of 802.11a, b or g in the place of `mcs` (`"6Mbit"`), without aggregation.
        rate_control: `"minstrel"`: the rate is learned, up to `mcs`; `"fixed"` by default.
        snr: The signal over the noise that it learns from (`"25dB"`).
        error: How often a single frame arrives damaged (`"10%"`).
        rtt: Two-way distance between the access point and the other end of its flows (`"2ms"`).
    """

    name: str
    count: int | None = None
    mcs: int | None = None
    streams: int | None = None
    rate: str | None = None
    rate_control: str | None = None
    snr: str | None = None
    error: str | float | None = None
    rtt: str | None = None


@dataclass(frozen=True, kw_only=True)
class Wifi:
    """An access point and its stations, in the place of a path.

    >>> Wifi(stack="before", station=[Station(name="near", mcs=15)]).stack
    'before'

    Attributes:
        station: Who is on the medium.
        standard: `"n"` or `"ac"`.
        width: `"20MHz"`, `"40MHz"` or `"80MHz"`.
        band: `"5GHz"` or `"2.4GHz"`.
        guard: `"short"` or `"long"`.
        stack: What queues for the air: `"before"`, `"fq_mac"` or `"airtime"`.
        qdisc: Of the stack before: the discipline above the driver; `"pfifo_fast"` by default.
        driver: Of the stack before: frames of each category that the driver takes.
        aggregate: What one transmission may be (`{"frames": 32, "bytes": "65535B", "duration": "4ms"}`).
    """

    station: Sequence[Station]
    standard: str | None = None
    width: str | None = None
    band: str | None = None
    guard: str | None = None
    stack: str | None = None
    qdisc: Chosen | None = None
    driver: int | None = None
    aggregate: Mapping[str, Value] | None = None


@dataclass(frozen=True)
class Flow:
    """One sender, or `count` equal ones.

    >>> Flow("cubic", start="2s", size="1MB").size
    '1MB'
    >>> Flow(workload={"kind": "web", "fetch": "sequential"}).cc is None
    True

    Attributes:
        cc: The congestion control: a name of `narrows list cc`, or an object of `narrows.cc`. With a workload, that
            workload's by default.
        id: By default the name of the congestion control with a number.
        count: So many equal flows.
        rtt: Propagation beside the path's (`"120ms"`): its receiver lies so much farther away.
        start: When it connects; at once by default, moved by up to one RTT (see `Scenario.start_jitter`).
        stop: When it stops sending.
        restart: When it writes again, on the same connection.
        direction: Which way its data goes: `"down"`, or `"up"` over the path's reverse hop.
        dscp: Differentiated-services code point of its packets (`"EF"` or `46`).
        ecn: Its ends negotiate explicit congestion notification. `True`: with an ordinary far end, which knows RFC
            3168's alone; without it, both ends do what the congestion control needs.
        size: A transfer of so much (`"1MB"`); unbounded by default.
        host: Which host at the far end it is of, from 1 on; one for all that do not say.
        station: Whose flow it is, where there is a Wi-Fi; of several stations each has one.
        workload: What its application does: a name of `narrows list workload`, or a table with its parameters; by
            default it sends all it can.
    """

    cc: Chosen | None = None
    _: KW_ONLY
    id: str | None = None
    count: int | None = None
    rtt: str | None = None
    start: str | None = None
    stop: str | None = None
    restart: str | None = None
    direction: str | None = None
    dscp: str | int | None = None
    ecn: bool | None = None
    size: str | None = None
    host: int | None = None
    station: str | None = None
    workload: Chosen | None = None


@dataclass(frozen=True, kw_only=True)
class Ping:
    """UDP echo through the same bottleneck, 64 bytes of payload, the first at the very start.

    >>> Ping(interval="20ms")
    Ping(interval='20ms', dscp=None, host=None, station=None)
    """

    kind: ClassVar[str] = "ping"
    interval: str | None = None
    dscp: str | int | None = None
    host: int | None = None
    station: str | None = None


@dataclass(frozen=True, kw_only=True)
class Host:
    """Both ends of every flow; Linux 6.12 with its default sysctls unless told otherwise.

    >>> Host(iw=4, rmem="128kB…6MB").iw
    4

    Attributes:
        like: Whose rules it follows: `"linux-6.12"`, `"linux-5.15"` or `"linux-4.15"`.
        iw: The initial window in packets.
        hz: The kernel's tick.
        clock: What round trips are measured with: `"us"`, `"ms"`, or `"jiffies"` (ticks of `hz`) as Linux did before
            3.15.
        pacing: Who is paced: `"auto"` (who asks for it), `"off"` (nobody) or `"fq"` (everybody, as by `fq` at the
            sender).
        gso: The largest super-packet, and with it the largest burst: `"on"` (64 KiB), `"off"` (one segment), in
            segments (`"17p"`) or in bytes (`"16KiB"`).
        autosize: Bursts carry about a millisecond of the flow's rate (true); without, all that `gso` and window let
            them.
        pacing_shift: Bursts and small queues hold 2 to the minus this of a second of the rate (10).
        rmem: The receive buffer at the start and the most that auto-tuning may give it (`"128KiB…512MiB"`).
        wmem: The send buffer at the start and the most that it may grow to (`"16KiB…512MiB"`).
        notsent_lowat: The application writes while less than this waits unsent (`"128KiB"`).
        read_latency: A receiving application runs up to so long after it was woken, at random (`"10us"`).
        ecn: Explicit congestion notification: `"passive"` (for flows that ask), `"on"` (for all that do not say
            otherwise) or `"off"`.
        slow_start_after_idle: Halve a window for each timeout that nothing was sent, down to the initial one (true).
        nic: The rate of the sender's own interface, which all flows and pings share; without it, it never limits.
        ring: Super-packets that its device takes (256).
        bql: Byte queue limits: the device takes only what keeps it busy.
        tsq: TCP small queues: about a millisecond of each flow waits in its own host, the rest in TCP; bytes
            (`"128KiB"`) for a fixed amount.
        qdisc: The queue discipline of its interface (`"pfifo_fast"`), any that a path may have.
        buffer: What that may hold; super-packets count as one.
        link: How its interface keeps the rate: `"serial"`, or `"htb"` before a device that takes no time.
    """

    like: str | None = None
    iw: int | None = None
    hz: int | None = None
    clock: str | None = None
    pacing: str | None = None
    gso: str | bool | None = None
    autosize: bool | None = None
    pacing_shift: int | None = None
    rmem: str | None = None
    wmem: str | None = None
    notsent_lowat: str | None = None
    read_latency: str | None = None
    ecn: str | None = None
    slow_start_after_idle: bool | None = None
    nic: str | None = None
    ring: int | None = None
    bql: bool | None = None
    tsq: bool | str | None = None
    qdisc: Chosen | None = None
    buffer: str | None = None
    link: str | Mapping[str, Value] | None = None


@dataclass(frozen=True)
class Scenario:
    """What is run.

    >>> path = Path(rate="20Mbit", rtt="20ms", buffer="1bdp")
    >>> Scenario(path, flows=[Flow("cubic")], duration="5s", seed=7).tree()["flow"]
    [{'cc': 'cubic'}]

    Attributes:
        path: What lies between the hosts.
        wifi: An access point and its stations, in the place of a path.
        flows: Who sends.
        probes: What is measured beside the flows.
        host: Both ends.
        title: What people call it.
        duration: How long it runs.
        warmup: Left out of the summary; a fifth of the duration by default.
        seed: Of every random choice.
        start_jitter: The most that a flow's start is moved at random; one RTT by default.
    """

    path: Path | None = None
    _: KW_ONLY
    wifi: Wifi | None = None
    flows: Sequence[Flow] = ()
    probes: Sequence[Ping] = ()
    host: Host | None = None
    title: str | None = None
    duration: str | None = None
    warmup: str | None = None
    seed: int | None = None
    start_jitter: str | None = None

    def __post_init__(self) -> None:
        """Lists become tuples, so that a scenario that looks frozen is."""
        object.__setattr__(self, "flows", tuple(self.flows))
        object.__setattr__(self, "probes", tuple(self.probes))

    def tree(self) -> Tree:
        """The scenario as nested tables, with the names of a scenario file."""
        tree = cast("Tree", _tree(self))
        for plural, singular in (("flows", "flow"), ("probes", "probe")):
            tables = tree.pop(plural)
            if tables:
                tree[singular] = tables
        return tree

    def toml(self) -> str:
        """The scenario as a file.

        Raises:
            ScenarioError: If it is not right.
        """
        return _core.scenario_to_toml(self.tree())


_KINDS: dict[str, dict[str, type[Choice]]] = {
    what: {c.kind: c for c in Choice.__subclasses__() if c.__module__ == module.__name__}
    for what, module in (("queue", queue), ("cc", cc))
}


def _chosen(what: str, value: object) -> Chosen:
    if isinstance(value, dict) and value.get("kind") in _KINDS[what]:
        given = {name: v for name, v in value.items() if name != "kind"}
        return _KINDS[what][value["kind"]](**given)
    return cast("Chosen", value)


def _hop(tree: Tree, folder: FilePath) -> dict[str, Any]:
    hop = dict(tree)
    if "queue" in hop:
        hop["queue"] = _chosen("queue", hop["queue"])
    if isinstance(hop.get("trace"), dict):
        hop["trace"] = hop["trace"] | {"file": str(folder / hop["trace"]["file"])}
    elif "trace" in hop:
        hop["trace"] = str(folder / hop["trace"])
    return hop


def _flow(tree: Tree, folder: FilePath) -> Flow:
    if "cc" not in tree:
        return Flow(**tree)
    choice = tree["cc"]
    if isinstance(choice, dict) and choice.get("kind") == "remy" and _is_file(choice.get("tree")):
        choice = choice | {"tree": str(folder / choice["tree"])}
    return Flow(**{**tree, "cc": _chosen("cc", choice)})


def _is_file(tree: str | None) -> bool:
    """Neither the text itself nor one that comes with narrows."""
    return tree is not None and "\n" not in tree and tree not in _SHIPPED_TREES


_SHIPPED_TREES = ("small",)


def from_tree(tree: Tree, folder: FilePath = FilePath()) -> Scenario:
    """The objects for nested tables that the core has accepted; files that they name lie in `folder`."""
    rest = dict(tree)
    wifi = rest.pop("wifi", None)
    if wifi is not None:
        stations = [Station(**station) for station in wifi["station"]]
        rest["wifi"] = Wifi(**{**wifi, "station": tuple(stations)})
    path = _hop(rest.pop("path", {}), folder)
    if "hop" in path:
        path["hop"] = tuple(Hop(**_hop(hop, folder)) for hop in path["hop"])
    if "reverse" in path:
        path["reverse"] = Hop(**_hop(path["reverse"], folder))
    flows = [_flow(flow, folder) for flow in rest.pop("flow", [])]
    probes = [Ping(**{k: v for k, v in probe.items() if k != "kind"}) for probe in rest.pop("probe", [])]
    host = rest.pop("host", None)
    whole = None if wifi is not None else Path(**path)
    return Scenario(whole, flows=flows, probes=probes, host=Host(**host) if host is not None else None, **rest)


def name_of(file: str | PathLike[str]) -> str:
    """A file's name as it can be shown, whatever bytes it has."""
    return fsencode(file).decode("utf-8", "replace")


def unread(file: str | PathLike[str], error: OSError) -> str:
    """Why a file could not be read, and which one may have been meant."""
    told = f"{name_of(file)}: {reason(error)}"
    near = [fsdecode(file) + ending for ending in (".toml", ".json")] if isinstance(error, FileNotFoundError) else []
    # Of os.path, for which a name that is too long is just not there.
    return "; ".join([told, *(f"{name_of(one)} is there" for one in near if isfile(one))])  # noqa: PTH113


def text_of(file: str | PathLike[str]) -> str:
    """The text of a file that is written by hand.

    Raises:
        NarrowsError: If it cannot be read.
    """
    try:
        text = untrusted_input.read(file).decode()
    except UnicodeDecodeError as error:
        raise NarrowsError(f"{name_of(file)}: not UTF-8 text, so not a scenario") from error
    except OSError as error:
        raise NarrowsError(unread(file, error)) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read(file: str | PathLike[str]) -> str:
    """The text of a scenario file.

    Raises:
        NarrowsError: If it cannot be read, or is of another kind that another command reads.
    """
    text, name = text_of(file), name_of(file)
    if text.lstrip().startswith("{"):
        raise NarrowsError(f"{name}: JSON, not a scenario; the path of a measurement: narrows twin {name}")
    if kind_of(text, name) == "sweep":
        raise NarrowsError(f"{name}: a sweep, not a scenario: narrows sweep {name}")
    return text


def kind_of(text: str, name: str) -> str | None:
    """Is it plainly a "scenario" or a "sweep"? None for neither."""
    try:
        keys = _core.toml_tables(text, name).keys()
    except NarrowsError:
        return None
    if "scenario" in keys and keys & {"over", "case"}:
        return "sweep"
    return "scenario" if keys & {"path", "wifi"} and "scenario" not in keys else None


def load(file: str | PathLike[str]) -> Scenario:
    """Reads a scenario file.

    Raises:
        ScenarioError: If it is not right: every mistake at once.
        NarrowsError: If it cannot be read.
    """
    return from_tree(_core.toml_to_tree(read(file), name_of(file)), FilePath(file).parent)
