"""Reads and writes the data files of flent (`.flent.gz`).

Sources: flent's description of its format, version 4 (doc/data-format.rst); files that flent 2.1.1
opens in a test. A file is a JSON object. `x_values` and `results` are series interpolated onto one
grid of seconds, in Mbit/s and ms. `raw_values` are the samples by Unix time; `metadata` describes
the test. flent opens only its own tests and draws only the series of the test. A measurement is
therefore written as the most similar test, with the names of that test. The key `NARROWS` contains
the whole measurement. flent ignores this key; the reader returns the same measurement from it.

The pings of narrows use UDP. flent's tests with many flows have only one series for a ping, whose
name is ICMP.

A series is read as a ping if its name contains ping or RTT, and as a flow if it contains upload or
download. Averages, sums and fairness are derived from other series and are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from operator import methodcaller
from typing import Any

from narrows.json_object import JsonObject
from narrows.measure.result import Direction, Flow, Measurement, MeasurementError, short

VERSION = 4
"""Version of the format; flent and this reader reject later ones."""

STEP_S = 0.2
"""Step of the grid of times, in s; flent uses the same step."""

MOST_POINTS = 1_000_000

_CLASSES = ("BE", "BK", "CS5", "EF")
_BE = ("BE", "BE2", "BE3", "BE4")
_MADE = re.compile(r"\b(avg|sum|totals?|fairness|median|min|max|mean)\b", re.IGNORECASE)
_DOWN = re.compile(r"\b(download|down)\b", re.IGNORECASE)
_UP = re.compile(r"\b(upload|up)\b", re.IGNORECASE)
_MBIT = 8e-6

Points = list[tuple[float, float]]


def text(measured: Measurement) -> bytes:
    """A measurement as the content of a flent file, not compressed."""
    begin = _begin(measured)
    name, flows, pings = _named(measured)
    end = max(
        [f.to_s for f in measured.flows] + [p.to_s for p in measured.phases] + [_last(measured)]
    )
    steps = int(min(MOST_POINTS, max(1, end / STEP_S))) + 1
    grid = [round(i * STEP_S, 6) for i in range(steps)]
    series = {label: _goodput(flow) for label, flow in flows.items()}
    series |= {label: [(t, r) for t, r in trips if r is not None] for label, trips in pings.items()}
    results: dict[str, list[float | None]] = {
        label: _on(points, grid) for label, points in series.items()
    }
    results |= _sums(name, results, len(grid))
    zero = begin.timestamp()
    raw = {
        label: [{"t": zero + t, "val": short(v)} for t, v in points]
        for label, points in series.items()
    }
    for label, trips in pings.items():
        for row, seq in zip(
            raw[label], (i for i, (_, r) in enumerate(trips) if r is not None), strict=True
        ):
            row["seq"] = seq
    metadata = {
        "NAME": name,
        "TITLE": "",
        "NOTE": "",
        "HOST": measured.host,
        "HOSTS": [measured.host],
        "LOCAL_HOST": str((measured.json.get("host") or {}).get("name", "")),
        "LENGTH": round(end),
        "TOTAL_LENGTH": round(end),
        "STEP_SIZE": STEP_S,
        "T0": begin.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "TIME": begin.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "TEST_PARAMETERS": {},
        "SERIES_META": {
            label: {"UNITS": "Mbits/s" if label in flows else "ms"} for label in series
        },
    }
    whole = {
        "version": VERSION,
        "x_values": grid,
        "results": results,
        "raw_values": raw,
        "metadata": metadata,
        "NARROWS": measured.json,
    }
    return json.dumps(whole, indent=2, sort_keys=True, allow_nan=False).encode() + b"\n"


def _begin(measured: Measurement) -> datetime:
    try:
        begin = datetime.fromisoformat(measured.started.replace("Z", "+00:00"))
    except ValueError:
        return datetime.fromtimestamp(0, timezone.utc)
    return begin if begin.tzinfo else begin.replace(tzinfo=timezone.utc)


def _last(measured: Measurement) -> float:
    return max((t for train in measured.pings for t, _ in train.rtts()), default=STEP_S)


Trips = list[tuple[float, float | None]]


def _named(measured: Measurement) -> tuple[str, dict[str, Flow], dict[str, Trips]]:
    """The most similar test of flent, with its names for the flows and for the series of pings."""
    downs, ups = (
        [f for f in measured.flows if f.direction == direction] for direction in ("down", "up")
    )
    trips: dict[str, Trips] = {}
    for train in measured.pings:
        trips.setdefault(_class(train.dscp), []).extend(train.rtts())
    # Pings without DSCP are preferred; those with a DSCP, such as pings of a call, replace them if
    # there are none.
    plain = trips.get("BE") or next(iter(trips.values()), [])
    first = {"Ping (ms) ICMP": sorted(plain, key=lambda trip: trip[0])} if trips else {}
    if downs and ups and max(len(downs), len(ups)) <= len(_CLASSES):
        classed = len({_class(f.told.get("dscp")) for f in measured.flows}) > 1
        names = _CLASSES if classed else _BE
        flows = {
            f"TCP {direction} {n}": f
            for direction, group in (("download", downs), ("upload", ups))
            for n, f in zip(_places(group, names), group, strict=True)
        }
        udp = (
            {f"Ping (ms) UDP {c}": trips[c] for c in ("EF", "BK", "BE") if c in trips}
            if classed
            else {}
        )
        return "rrul" if classed else "rrul_be", flows, udp or first
    if not measured.flows:
        return "ping", {}, first
    direction, group = ("download", downs) if len(downs) >= len(ups) else ("upload", ups)
    return (
        f"tcp_n{direction.removesuffix('load')}",
        {f"TCP {direction}::{i + 1}": f for i, f in enumerate(group)},
        first,
    )


_NUMBERS = {"0": "BE", "8": "BK", "40": "CS5", "46": "EF", "CS0": "BE", "CS1": "BK"}
"""flent's names of the traffic classes, by DSCP."""


def _class(dscp: object) -> str:
    told = "BE" if dscp is None else str(dscp).upper()
    return _NUMBERS.get(told, told)


def _places(group: list[Flow], names: tuple[str, ...]) -> list[str]:
    """The name of each flow in the test: its traffic class if that is free, otherwise the next free
    name.
    """
    free, out = list(names), []
    for flow in group:
        name = _class(flow.told.get("dscp"))
        out.append(free.pop(free.index(name) if name in free else 0))
    return out


def _goodput(flow: Flow) -> Points:
    acked = flow.acked()
    if not acked and flow.goodput_mbit is not None:
        return [(flow.from_s, flow.goodput_mbit), (flow.to_s, flow.goodput_mbit)]
    return [
        (t1, (b1 - b0) * _MBIT / (t1 - t0)) for (t0, b0), (t1, b1) in pairwise(acked) if t1 > t0
    ]


def _on(points: Points, grid: list[float]) -> list[float | None]:
    """The samples, interpolated linearly onto the grid; None before the first and after the last
    sample.
    """
    out: list[float | None] = []
    at = 0
    for x in grid:
        while at < len(points) and points[at][0] < x:
            at += 1
        if at == len(points) or (at == 0 and points[0][0] > x):
            out.append(None)
        elif at == 0:
            out.append(short(points[0][1]))
        else:
            (x0, y0), (x1, y1) = points[at - 1], points[at]
            out.append(short(y0 + (y1 - y0) * (x - x0) / (x1 - x0) if x1 > x0 else y1))
    return out


def _sums(
    test: str, results: dict[str, list[float | None]], points: int
) -> dict[str, list[float | None]]:
    """The series that flent's test computes from the others: averages, sums and fairness."""

    def over(
        pick: Callable[[str], bool], make: Callable[[list[float]], float]
    ) -> list[float | None]:
        chosen = [values for label, values in results.items() if pick(label)]
        known = [[v[i] for v in chosen if v[i] is not None] for i in range(points)]
        return [short(make([v for v in row if v is not None])) if row else None for row in known]

    def mean(values: list[float]) -> float:
        return sum(values) / len(values)

    def jain(values: list[float]) -> float:
        squares = sum(v * v for v in values)
        return sum(values) ** 2 / (len(values) * squares) if squares else 1.0

    made: dict[str, list[float | None]] = {}
    for direction in ("download", "upload"):
        label = f"TCP {direction}"
        if any(name.startswith(label) for name in results):
            made[f"{label} avg"] = over(methodcaller("startswith", label), mean)
            made[f"{label} sum"] = over(methodcaller("startswith", label), sum)
            if test.startswith("tcp_n"):
                made[f"{label} fairness"] = over(
                    lambda name, label=label: name.startswith(label),  # type: ignore[misc]
                    jain,
                )
    if test.startswith("rrul"):
        made["TCP totals"] = over(lambda name: name.startswith("TCP"), sum)
        made["Ping (ms) avg"] = over(lambda name: name.startswith("Ping"), mean)
    return made


def read(tree: JsonObject, name: str) -> Measurement:
    """The measurement in the JSON of a flent file.

    Raises:
        MeasurementError: If the content is not valid.
    """
    try:
        return _read(tree, name)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise MeasurementError(f"{name}: a flent file, but not a right one: {error!r}") from error


def _read(tree: JsonObject, name: str) -> Measurement:
    version = tree.get("version", 1)
    if not isinstance(version, int) or version > VERSION:
        raise MeasurementError(
            f"{name}: version {version!r} of flent's format; {VERSION} is the last that is known"
        )
    if isinstance(tree.get("NARROWS"), dict):
        return Measurement.of(tree["NARROWS"], name)
    about = tree.get("metadata") or {}
    grid = [float(x) for x in tree["x_values"]]
    raw = tree.get("raw_values") or {}
    zero = _zero(about)
    flows, pings = [], []
    counts = {"down": 0, "up": 0}
    for label, values in tree["results"].items():
        if len(values) != len(grid):
            raise MeasurementError(
                f"{name}: results[{label!r}] has {len(values)} values for {len(grid)} x_values"
            )
        points = _points(values, grid, raw.get(label) if version == VERSION else None, zero)
        if not points or (_MADE.search(label) and label not in raw):
            continue
        meta = (about.get("SERIES_META") or {}).get(label) or {}
        if "ping" in label.lower() or "rtt" in label.lower():
            pings.append(_ping(label, points))
        elif (_DOWN.search(label) or _UP.search(label)) and not label.lower().endswith("loss"):
            direction: Direction = "down" if _DOWN.search(label) else "up"
            counts[direction] += 1
            flows.append(_flow(label, direction, points, meta))
    end = max([grid[-1] if grid else 0.0, *(f["to_s"] for f in flows)])
    phases = _phases(flows, end)
    whole = {
        "measurement": 1,
        "id": str(about.get("DATA_FILENAME") or name),
        "started": str(about.get("T0") or about.get("TIME") or ""),
        "asked": {
            "host": about.get("HOST"),
            "test": about.get("NAME"),
            "duration_s": about.get("LENGTH"),
        },
        "peer": {"address": about.get("HOST"), "speaks": "flent"},
        "phases": phases,
        "flows": flows,
        "pings": pings,
        "host": {"kernel": about.get("KERNEL_RELEASE"), "name": about.get("LOCAL_HOST")},
    }
    return Measurement.of(whole, name)


def _zero(about: JsonObject) -> float | None:
    told = str(about.get("T0") or "").replace("Z", "+00:00")
    try:
        zero = datetime.fromisoformat(told)
    except ValueError:
        return None
    return (zero if zero.tzinfo else zero.replace(tzinfo=timezone.utc)).timestamp()


def _points(values: list[Any], grid: list[float], own: object, zero: float | None) -> Points:
    """The raw samples if their times are known, otherwise the values on the grid."""
    day = timedelta(days=1).total_seconds()
    if isinstance(own, list) and own and zero is not None:
        points = [
            (float(row["t"]) - zero, float(row["val"]))
            for row in own
            if isinstance(row, dict) and row.get("val") is not None and row.get("t") is not None
        ]
        if points and all(-1 <= t < day for t, _ in points):
            return sorted((max(0.0, t), v) for t, v in points)
    return [(x, float(v)) for x, v in zip(grid, values, strict=True) if v is not None]


def _ping(label: str, points: Points) -> JsonObject:
    rtts = [[round(t, 6), v] for t, v in points]
    return {
        "id": label,
        "protocol": "icmp" if "ICMP" in label else "udp",
        "columns": ["t_s", "rtt_ms"],
        "samples": rtts,
    }


def _flow(label: str, direction: str, points: Points, meta: JsonObject) -> JsonObject:
    """A flow of a series of rates, whose samples have cumulative bytes. Each rate holds for the
    time since the previous sample.
    """
    begin = max(0.0, points[0][0] - (points[1][0] - points[0][0] if len(points) > 1 else 0.0))
    so_far, last = 0.0, begin
    samples: list[list[float]] = [[round(begin, 6), 0]]
    for t, rate in points:
        so_far += max(0.0, rate) / _MBIT * max(0.0, t - last)
        last = t
        samples.append([round(t, 6), round(so_far)])
    took = last - begin
    return {
        "id": label,
        "direction": direction,
        "protocol": "udp" if "UDP" in label.upper() else "tcp",
        "cc": meta.get("CONG_CONTROL"),
        "dscp": (re.findall(r"\b(BE|BK|CS\d|EF|AF\d\d)\d?\b", label) or [None])[-1],
        "from_s": round(begin, 6),
        "to_s": round(last, 6) if last > begin else round(begin + STEP_S, 6),
        "bytes": round(so_far),
        "goodput_mbit": short(so_far * _MBIT / took) if took > 0 else None,
        "columns": ["t_s", "acked_bytes"],
        "samples": samples,
    }


def _phases(flows: list[JsonObject], end: float) -> list[JsonObject]:
    """The phases: `idle` before the first flow, `loaded` while flows send, and `recovery` after the
    last flow.
    """
    if not flows:
        return [{"name": "idle", "from_s": 0.0, "to_s": end, "cc": None}]
    begin, last = min(f["from_s"] for f in flows), max(f["to_s"] for f in flows)
    out = [{"name": "loaded", "from_s": begin, "to_s": last, "cc": flows[0]["cc"]}]
    if begin > 0:
        out.insert(0, {"name": "idle", "from_s": 0.0, "to_s": begin, "cc": None})
    if end > last:
        out.append({"name": "recovery", "from_s": last, "to_s": end, "cc": None})
    return out
