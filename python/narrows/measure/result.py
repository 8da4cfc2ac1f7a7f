"""A measurement of a path as seen by the client, stored as one JSON object (version 1).

`narrows-host measure` writes this object, and the readers of other tools' files create it.
Renderers, comparisons and the path model use the object. A value that was not measured is None,
never zero. Files are untrusted: this module checks them once and reports the place of each error.

docs/reference/measurement.md lists every key with its unit.
"""

from __future__ import annotations

import ipaddress
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar, cast, get_args

from narrows.errors import NarrowsError
from narrows.json_object import JsonObject
from narrows.measure.model import FlowSpreadJson, LatencyJson, MeasurementJson, SpreadJson
from narrows.storage import json_kinds as kinds
from narrows.storage.anonymous import Anonymizer, key
from narrows.storage.json_kinds import amount, either, flag, number, rows, table, text, whole

Direction = Literal["up", "down"]

VERSION = 1
"""Version of the JSON format; later versions are rejected."""

MOST_SAMPLES = 20_000_000
"""Maximum count of numbers in all samples of a measurement. A day of pings every 20 ms has four
million rows.
"""

MOST_S = 1e6
"""Maximum absolute time, in s (eleven days). This maximum limits the length of lists that have a
value for each second.
"""

SETTLE_S = 2.0
"""Warm-up at the start of each load that is left out, in s; at most a fifth of the load. The
warm-up contains the burst of slow start.
"""

QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}

FLOW_COLUMNS = (
    "t_s", "acked_bytes", "cwnd_packets", "rtt_ms", "min_rtt_ms", "retransmits", "lost",
    "delivery_mbit",
    "pacing_mbit", "busy_s", "rwnd_limited_s", "sndbuf_limited_s", "delivered_ce", "sent_bytes",
)  # fmt: skip
"""Columns that the samples of a flow may have."""

PING_COLUMNS = ("t_s", "rtt_ms", "forward_ms", "back_ms")
"""Columns that the samples of a ping train may have."""

DIRECTIONS: tuple[Direction, ...] = get_args(Direction)

LOADS: dict[Direction, str] = {"down": "download", "up": "upload"}
"""The name of the load of each direction."""

BOTH = "both directions"
"""The name of the loads of both directions at once."""

Column = list[float | None]

Maybe = TypeVar("Maybe", float, "float | None")
"""A number, or a number that may be missing."""


_RANDOM_ID = re.compile("[0-9a-f]{16}")
"""An identifier that narrows made."""


class MeasurementError(NarrowsError):
    """A file is not a valid measurement."""


@dataclass(frozen=True)
class Spread:
    """Summary of a distribution, in ms. The quantile q of n sorted values is the one with the
    zero-based rank `min(n - 1, ⌊q n⌋)`.

    >>> Spread.of([1.0, 2.0, 3.0, None])
    Spread(n=3, min=1.0, mean=2.0, p50=2.0, p95=3.0, p99=3.0, max=3.0)
    """

    n: int
    min: float | None
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None

    @staticmethod
    def of(values: Iterable[float | None]) -> Spread:
        """The summary of all values that are not None."""
        known = sorted(v for v in values if v is not None)
        if not known:
            return Spread(0, None, None, None, None, None, None)
        n = len(known)
        at = {name: known[min(n - 1, math.floor(q * n))] for name, q in QUANTILES.items()}
        return Spread(n, known[0], math.fsum(known) / n, at["p50"], at["p95"], at["p99"], known[-1])

    def json(self) -> SpreadJson:
        """The JSON object, with six significant digits."""
        return {
            "n": self.n,
            "min": short(self.min),
            "mean": short(self.mean),
            "p50": short(self.p50),
            "p95": short(self.p95),
            "p99": short(self.p99),
            "max": short(self.max),
        }

    def flow_json(self) -> FlowSpreadJson:
        """The JSON object as `rtt_ms` of a flow."""
        return {
            "min": short(self.min),
            "mean": short(self.mean),
            "p50": short(self.p50),
            "p95": short(self.p95),
            "p99": short(self.p99),
        }


@dataclass(frozen=True)
class Phase:
    """A phase of the measurement (`idle`, `loaded` or `recovery`), its times in s and the
    congestion control of its load.
    """

    name: str
    from_s: float
    to_s: float
    cc: str | None = None


@dataclass(frozen=True)
class Flow:
    """A flow of a load, with its samples over time by column.

    Attributes:
        id: Name of the flow.
        direction: `up` from the client to the server, or `down`.
        protocol: `tcp`, `udp` or `quic`.
        cc: Congestion control of the sender.
        from_s: Start time, in s.
        to_s: End time, in s.
        told: All values of the JSON object of the flow except `columns` and `samples`, unchanged.
        columns: The samples. A column that is missing was not measured.
    """

    id: str
    direction: Direction
    protocol: str
    cc: str | None
    from_s: float
    to_s: float
    told: JsonObject = field(default_factory=dict, repr=False)
    columns: Mapping[str, Column] = field(default_factory=dict, repr=False)

    @property
    def goodput_mbit(self) -> float | None:
        """Goodput over the duration of the flow, in Mbit/s."""
        return _number(self.told.get("goodput_mbit"))

    @property
    def segment_bytes(self) -> int:
        """Payload of a full packet, in bytes; 1448 if unknown."""
        return int(_number(self.told.get("mss_bytes")) or 1448)

    def figure(self, name: str) -> float | None:
        """A number in the JSON object of the flow, such as `retransmits`; None if it is missing."""
        return _number(self.told.get(name))

    def acked(self) -> list[tuple[float, float]]:
        """Pairs of time in s and bytes delivered so far, both in increasing order."""
        times, counts = self.columns.get("t_s", []), self.columns.get("acked_bytes", [])
        out: list[tuple[float, float]] = []
        for t, count in zip(times, counts, strict=False):
            if (
                t is not None
                and count is not None
                and (not out or (t > out[-1][0] and count >= out[-1][1]))
            ):
                out.append((t, count))
        return out


@dataclass(frozen=True)
class Pings:
    """A train of pings with its samples by column. An unanswered ping has an RTT of None.

    `told` has all values of its JSON object except `columns` and `samples`, unchanged.
    """

    id: str
    protocol: str
    dscp: str | None
    interval_ms: float | None
    sent: int
    received: int
    columns: Mapping[str, Column] = field(default_factory=dict, repr=False)
    told: JsonObject = field(default_factory=dict, repr=False)

    @property
    def at_random(self) -> bool:
        """Whether each interval has one ping at a random time, instead of equal intervals."""
        return self.told.get("spacing") == "random"

    def rtts(self) -> Iterator[tuple[float, float | None]]:
        """Pairs of send time in s and RTT in ms."""
        for t, rtt in zip(
            self.columns.get("t_s", []), self.columns.get("rtt_ms", []), strict=False
        ):
            if t is not None:
                yield t, rtt


class Measurement:
    """One measurement.

    >>> bare = Measurement.of({"measurement": 1, "flows": [], "pings": []})
    >>> bare.latency("idle").n
    0
    """

    def __init__(
        self, tree: MeasurementJson, phases: list[Phase], flows: list[Flow], pings: list[Pings]
    ) -> None:
        """Created by `of` from a checked JSON object."""
        self.json = tree
        self.phases = phases
        self.flows = flows
        self.pings = pings

    def _repr_html_(self) -> str:
        """The sentences and tables of `narrows measure`, for notebooks."""
        from narrows.measure.render import parts  # noqa: PLC0415
        from narrows.render.html import fragment  # noqa: PLC0415

        return fragment(parts(self))

    def anonymous(self) -> Measurement:
        """The measurement with pseudonyms in the place of names and addresses of hosts. If it has
        pseudonyms, it stays as it is.
        """
        if self.json.get("anonymized"):
            return self
        by = Anonymizer(key())
        tree = by.tree(self.json) | {"anonymized": True}
        if self.id and not _RANDOM_ID.fullmatch(self.id):
            # Some programs build the identifier from the name of the host or of the file.
            tree["id"] = by.digest("id", self.id)[:16]
        return Measurement.of(tree)

    @staticmethod
    def of(tree: object, name: str = "measurement") -> Measurement:
        """Checks a decoded JSON object.

        Raises:
            MeasurementError: If the object is not a valid measurement.
        """
        check = _Check(name)
        top = check.table(tree, "")
        version = check.number(top.get("measurement"), "measurement")
        if version != VERSION:
            check.wrong(
                "measurement",
                f"version {version:g} is not supported; this narrows reads version {VERSION}",
            )
        phases = [
            check.phase(p, f"phases[{i}]")
            for i, p in enumerate(check.rows(top.get("phases"), "phases"))
        ]
        flows = [
            check.flow(f, f"flows[{i}]")
            for i, f in enumerate(check.rows(top.get("flows"), "flows"))
        ]
        pings = [
            check.pings(p, f"pings[{i}]")
            for i, p in enumerate(check.rows(top.get("pings"), "pings"))
        ]
        check.tree(top, _KINDS)
        return Measurement(cast("MeasurementJson", top), phases, flows, pings)

    @staticmethod
    def parse(text: str | bytes, name: str = "measurement") -> Measurement:
        """Reads JSON text; see `of`."""
        return Measurement.of(parse(text, name), name)

    def text(self) -> str:
        """The JSON object in one line."""
        return json.dumps(self.json, ensure_ascii=False, allow_nan=False) + "\n"

    @property
    def id(self) -> str:
        """Identifier of the measurement, or an empty string."""
        return str(self.json.get("id") or "")

    @property
    def started(self) -> str:
        """Start time as ISO 8601 in UTC, or an empty string."""
        return str(self.json.get("started") or "")

    @property
    def host(self) -> str:
        """The far host, as requested; its address if the request is unknown."""
        return str(
            (self.json.get("asked") or {}).get("host")
            or (self.json.get("peer") or {}).get("address")
            or ""
        )

    @property
    def family(self) -> str:
        """Address family of the path: `IPv4` or `IPv6`; an empty string if it is unknown."""
        try:
            address = ipaddress.ip_address(str((self.json.get("peer") or {}).get("address")))
        except ValueError:
            return ""
        return f"IPv{address.version}"

    @property
    def test(self) -> str:
        """Name of the test."""
        return str((self.json.get("asked") or {}).get("test") or "")

    @property
    def stopped_by(self) -> str:
        """Reason of the end: `duration`, `max_data`, `user`, `peer` or `lost`; empty if unknown."""
        return str((self.json.get("data") or {}).get("stopped_by") or "")

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped the measurement, so that its data end early."""
        return self.stopped_by == "user"

    def spans(self, name: str) -> list[tuple[float, float]]:
        """Times of all phases with this name, in s."""
        return [(p.from_s, p.to_s) for p in self.phases if p.name == name]

    def loaded(self, direction: Direction) -> list[tuple[float, float]]:
        """Times in which flows of this direction sent, in s, with overlaps merged."""
        return self.loads(direction)

    def loads(
        self, direction: Direction | None = None, cc: str | None = None
    ) -> list[tuple[float, float]]:
        """Times in which flows sent, in s, with overlaps merged.

        `direction` and `cc` select a direction and a congestion control. Without flows, as under a
        UDP load, the result is the loaded phases.
        """
        if direction is None and not self.flows:
            return self.spans("loaded")
        flows = [
            f
            for f in self.flows
            if direction in {None, f.direction} and cc in {None, f.cc} and f.to_s > f.from_s
        ]
        out: list[tuple[float, float]] = []
        for begin, end in sorted((f.from_s, f.to_s) for f in flows):
            if out and begin <= out[-1][1]:
                out[-1] = (out[-1][0], max(out[-1][1], end))
            else:
                out.append((begin, end))
        return out

    @property
    def together(self) -> bool:
        """Whether both directions were loaded at the same time for more than half of the longer
        load.
        """
        up, down = self.loads("up"), self.loads("down")
        shared = math.fsum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in up for b in down)
        longest = max(math.fsum(end - begin for begin, end in spans) for spans in (up, down))
        return 2 * shared > longest > 0

    def rtts(
        self,
        spans: Sequence[tuple[float, float]],
        *,
        settle_s: float = 0.0,
        trains: Sequence[Pings] | None = None,
    ) -> list[float | None]:
        """RTTs of all pings that were sent within spans, in ms; None for unanswered pings. The
        first `settle_s` seconds of each span, at most a fifth of it, are left out. `trains` selects
        trains of pings; the default is all of them.
        """
        inside = [(begin + min(settle_s, (end - begin) / 5), end) for begin, end in spans]
        return [
            rtt
            for train in (self.pings if trains is None else trains)
            for t, rtt in train.rtts()
            if any(begin <= t < end for begin, end in inside)
        ]

    def latency(self, phase: str) -> Spread:
        """The RTT distribution of a phase, from its pings. Without pings, the distribution in the
        JSON object is returned.

        Under load, the distribution covers all loads without the first `SETTLE_S` seconds of each.
        All commands use this distribution.
        """
        loaded = phase == "loaded"
        spans = (self.loads() if loaded else []) or self.spans(phase)
        spread = Spread.of(self.rtts(spans, settle_s=SETTLE_S if loaded else 0.0))
        told = (self.json.get("latency_ms") or {}).get(phase)
        if spread.n == 0 and isinstance(told, dict):
            figures = {
                name: _number(told.get(name))
                for name in ("min", "mean", "p50", "p95", "p99", "max")
            }
            return Spread(int(_number(told.get("n")) or 0), **figures)
        return spread

    def under_load(self, direction: Direction | None, cc: str | None = None) -> Spread:
        """The RTT distribution under load of a direction, without the first `SETTLE_S` of each
        load.

        If both directions were loaded at once, the distribution covers both.
        """
        loaded = None if self.together else direction
        return Spread.of(self.rtts(self.loads(loaded, cc), settle_s=SETTLE_S))

    def latency_json(self) -> LatencyJson:
        """The RTT distributions that all commands use, in the form of `latency_ms` of the JSON
        object.
        """
        found: LatencyJson = {
            "idle": self.latency("idle").json(),
            "loaded": self.latency("loaded").json(),
        }
        for direction in DIRECTIONS:
            if self.loads(direction):
                found[direction] = self.under_load(direction).json()
        return found

    def rate_mbit(self, direction: Direction) -> float | None:
        """Goodput of a direction, in Mbit/s, over the time in which any of its flows sent."""
        flows = [f for f in self.flows if f.direction == direction and f.goodput_mbit is not None]
        time = math.fsum(end - begin for begin, end in self.loaded(direction))
        if not flows or time <= 0:
            return None
        bits = math.fsum((f.goodput_mbit or 0) * (f.to_s - f.from_s) for f in flows)
        return bits / time

    def __repr__(self) -> str:
        """Host, test and start time."""
        return (
            f"<narrows.Measurement of {self.host or 'a path'}: {self.test or 'unknown test'}, "
            f"{self.started}>"
        )


def parse(text: str | bytes, name: str) -> object:
    """Decodes the JSON of an untrusted file.

    Raises:
        MeasurementError: If it is not JSON.
    """
    try:
        return kinds.parse(text)
    except ValueError as error:
        raise MeasurementError(f"{name}: not JSON: {error}") from error


_SPREAD = table(dict.fromkeys((*QUANTILES, "n", "min", "mean", "max"), number))
_CODE_POINT = either(text, number)
_FLOW = table({
    "id": text, "dscp": _CODE_POINT, "rtt_ms": _SPREAD, "mss_bytes": amount,
    "ecn": table({"negotiated": flag, "ce_rate": amount, "dscp_survives": flag}),
})  # fmt: skip
_CALL = table({direction: table({"mos": number}) for direction in DIRECTIONS})
_PAGES = table({**dict.fromkeys(QUANTILES, number), "waiting_share": amount, "failed": whole})
_KINDS = table({
    "id": text, "started": text, "narrows": text, "anonymized": flag,
    "asked": table({
        "host": text, "test": text, "dscp": _CODE_POINT, "ecn": flag, "pacing_mbit": amount,
        "max_data_bytes": amount, "flows_left_out": whole,
    }),
    "peer": table({"speaks": text, "address": text}),
    "host": table({"kernel": text, "name": text}),
    "data": table({"stopped_by": text, "moved_bytes": amount, "planned_bytes": amount}),
    "own_error": table({
        "lateness_ms": _SPREAD, "leaving_ms": number, "socket_drops": whole, "cpu_pct": amount,
        "clock": table({"kind": text, "error_ms": number}), "far": table({"answering_ms": number}),
        "notes": rows(text),
    }),
    "flows": rows(_FLOW),
    "latency_ms": table({}, others=_SPREAD),
    "voip": table({"idle": _CALL, "loaded": _CALL}),
    "page": table({"objects": whole, "connections": whole, "idle_s": _PAGES, "loaded_s": _PAGES}),
    "udp_load": table({
        "direction": text, "sent": whole, "received": whole, "unsent": whole, "loss": number,
        "asked_mbit": number, "sent_mbit": number, "received_mbit": number,
    }),
})  # fmt: skip
"""Types of all other values of a measurement that narrows reads."""


class _Check:
    """Reads untrusted values and reports the place of each error."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._numbers = 0

    def wrong(self, place: str, problem: str) -> None:
        raise MeasurementError(f"{self._name}: {f'{place}: ' if place else ''}{problem}")

    def tree(self, value: object, kind: kinds.Kind) -> None:
        try:
            kind(value, "")
        except kinds.KindError as error:
            raise MeasurementError(f"{self._name}: {error}") from None

    def table(self, value: object, place: str) -> JsonObject:
        if not isinstance(value, dict):
            raise MeasurementError(
                f"{self._name}: {f'{place}: ' if place else ''}an object is needed"
            )
        return value

    def rows(self, value: object, place: str) -> list[object]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise MeasurementError(f"{self._name}: {place}: a list is needed")
        return value

    def number(self, value: object, place: str) -> float:
        known = _number(value)
        if known is None:
            raise MeasurementError(f"{self._name}: {place}: a number is needed")
        return known

    def time(self, value: object, place: str) -> float:
        known = self.number(value, place)
        if abs(known) > MOST_S:
            raise MeasurementError(f"{self._name}: {place}: a time within {MOST_S:.0f} s is needed")
        return known

    def text(self, value: object, place: str) -> str:
        if not isinstance(value, str):
            raise MeasurementError(f"{self._name}: {place}: a text is needed")
        return value

    def phase(self, value: object, place: str) -> Phase:
        row = self.table(value, place)
        begin, end = (self.time(row.get(key), f"{place}.{key}") for key in ("from_s", "to_s"))
        return Phase(self.text(row.get("name"), f"{place}.name"), begin, end, _word(row.get("cc")))

    def flow(self, value: object, place: str) -> Flow:
        row = self.table(value, place)
        direction = row.get("direction")
        if direction not in DIRECTIONS:
            raise MeasurementError(f'{self._name}: {place}.direction: "up" or "down" is needed')
        begin, end = (self.time(row.get(key), f"{place}.{key}") for key in ("from_s", "to_s"))
        told = {k: v for k, v in row.items() if k not in {"columns", "samples"}}
        return Flow(
            self.text(row.get("id"), f"{place}.id"),
            direction,
            _word(row.get("protocol")) or "tcp",
            _word(row.get("cc")),
            begin,
            end,
            told,
            self.columns(row, place),
        )

    def pings(self, value: object, place: str) -> Pings:
        row = self.table(value, place)
        columns = self.columns(row, place)
        rtts = columns.get("rtt_ms", [])
        sent, received = (_number(row.get(key)) for key in ("sent", "received"))
        return Pings(
            str(row.get("id", "")),
            _word(row.get("protocol")) or "udp",
            None if row.get("dscp") is None else str(row["dscp"]),
            _number(row.get("interval_ms")),
            int(sent) if sent is not None else len(rtts),
            int(received) if received is not None else sum(rtt is not None for rtt in rtts),
            columns,
            {k: v for k, v in row.items() if k not in {"columns", "samples"}},
        )

    def columns(self, row: JsonObject, place: str) -> dict[str, Column]:
        names = [
            self.text(name, f"{place}.columns")
            for name in self.rows(row.get("columns"), f"{place}.columns")
        ]
        out: dict[str, Column] = {name: [] for name in names}
        lists = [out[name] for name in names]
        for i, sample in enumerate(self.rows(row.get("samples"), f"{place}.samples")):
            if not isinstance(sample, list) or len(sample) != len(names):
                raise MeasurementError(
                    f"{self._name}: {place}.samples[{i}]: {len(names)} values are needed"
                )
            self._numbers += len(sample)
            if self._numbers > MOST_SAMPLES:
                raise MeasurementError(f"{self._name}: more than {MOST_SAMPLES} samples")
            for column, one in zip(lists, sample, strict=True):
                column.append(_number(one))
        for when in out.get("t_s", ()):
            if when is not None:
                self.time(when, f"{place}.samples.t_s")
        return out


def _number(value: object) -> float | None:
    """A number, or None for NaN, infinity and other values that cannot be a measured number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < kinds.MOST else None


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def short(value: Maybe) -> Maybe:
    """A number with six significant digits, as in all JSON of narrows.

    >>> short(1 / 3)
    0.333333
    """
    return value if value is None or isinstance(value, int) else float(f"{value:.6g}")
