"""Pictures of a measurement, and of several in the same axes."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from narrows.measure.result import BOTH, DIRECTIONS, LOADS, Flow, Measurement
from narrows.render.picture import TIME, Line, Picture

if TYPE_CHECKING:
    pass

MOST_FLOWS = 4
"""Maximum number of flows that a sentence names, and that a picture draws individually for each
direction.
"""


def pictures(measured: Measurement) -> list[Picture]:
    """The pictures of goodput, RTT, congestion window, retransmits and latency distribution, except
    those without data.
    """
    shown = [
        f
        for direction in DIRECTIONS[::-1]
        for f in [f for f in measured.flows if f.direction == direction][:MOST_FLOWS]
    ]
    left = (
        f" Only the first {MOST_FLOWS} flows of each direction are drawn."
        if len(shown) < len(measured.flows)
        else ""
    )
    throughput = Picture(
        "throughput", "Goodput", TIME, "goodput (Mbit/s)",
        "Lines: acknowledged payload of each flow per sample interval. Dotted: sum of all flows of "
        f"a direction.{left}",
        [*(_goodput(i, f) for i, f in enumerate(shown)), *_together(measured)],
    )  # fmt: skip
    rtt = Picture(
        "rtt", "Round-trip time", TIME, "RTT (ms)",
        f"Points: pings. Lines: smoothed RTT (srtt) of each sender.{left}",
        [*_pings(measured), *(_column(i, f, "rtt_ms") for i, f in enumerate(shown))],
    )  # fmt: skip
    window = Picture(
        "window", "Congestion window", TIME, "packets", f"Congestion window of each flow.{left}",
        [_column(i, f, "cwnd_packets") for i, f in enumerate(shown)],
    )  # fmt: skip
    losses = Picture(
        "losses", "Retransmits", TIME, "packets, cumulative",
        f"Retransmitted packets of each flow since its start.{left}",
        [_column(i, f, "retransmits") for i, f in enumerate(shown)],
    )  # fmt: skip
    delay = Picture(
        "delay", "Latency distribution", "RTT (ms)", "share of pings",
        "Share of the pings with at most this RTT, idle and under load.",
        list(_distributions(measured)),
    )  # fmt: skip
    every = (throughput, rtt, window, losses, delay)
    for picture in every:
        picture.lines[:] = [line for line in picture.lines if any(y is not None for y in line.y)]
    return [picture for picture in every if picture.lines]


def combined(
    measured: Sequence[Measurement], names: Sequence[str], places: Sequence[int] | None = None
) -> list[Picture]:
    """Goodput, RTT of pings and latency distribution of several measurements in the same axes.

    Each measurement has a colour, whose index `places` may determine. The goodput of a direction
    is that of all its flows.
    """
    found: dict[str, Picture] = {}
    lines: dict[str, list[Line]] = {}
    for place, one, name in zip(places or range(len(names)), measured, names, strict=True):
        single = {d for d in DIRECTIONS if len([f for f in one.flows if f.direction == d]) == 1}
        alone = {flow.id for flow in one.flows if flow.direction in single}
        for picture in pictures(one):
            if picture.key not in _COMBINED:
                continue
            found.setdefault(picture.key, picture)
            lines.setdefault(picture.key, []).extend(
                replace(line, label=f"{name}: {line.label}", flow=place)
                for line in picture.lines
                if line.flow is None or (picture.key == "throughput" and line.label in alone)
            )
    return [
        replace(
            picture,
            about=f"{_COMBINED[key]} Each measurement has its own colour.",
            lines=lines[key],
        )
        for key, picture in found.items()
    ]


_COMBINED = {
    "throughput": "Goodput of all flows of a direction.",
    "rtt": "RTT of each ping.",
    "delay": "Share of the pings with at most this RTT, idle and under load.",
}


def _column(place: int, flow: Flow, name: str) -> Line:
    rows = [
        (t, y)
        for t, y in zip(flow.columns.get("t_s", ()), flow.columns.get(name, ()), strict=False)
        if t is not None
    ]
    return Line(flow.id, place, "line", [t for t, _ in rows], [y for _, y in rows])


def _goodput(place: int, flow: Flow) -> Line:
    acked = flow.acked()
    steps = [(t1, (b1 - b0) * 8e-6 / (t1 - t0)) for (t0, b0), (t1, b1) in itertools.pairwise(acked)]
    return Line(flow.id, place, "line", [t for t, _ in steps], [rate for _, rate in steps])


def _together(measured: Measurement) -> list[Line]:
    out = []
    for direction in DIRECTIONS[::-1]:
        flows = [f.acked() for f in measured.flows if f.direction == direction]
        if len(flows) < 2:  # noqa: PLR2004 - one is drawn already
            continue
        times: list[float] = []
        rates: list[float | None] = []
        for begin, end in measured.loads(direction):
            # Equal steps of about a second between the first and the last sample, so that every
            # step is full.
            inside = [t for acked in flows for t, _ in acked if begin <= t <= end]
            if not inside or max(inside) <= min(inside):
                continue
            first, last = min(inside), max(inside)
            count = max(1, round(last - first))
            edges = [first + (last - first) * i / count for i in range(count + 1)]
            for t0, t1 in itertools.pairwise(edges):
                bits = 8e-6 * sum(
                    _delivered(acked, t1) - _delivered(acked, t0) for acked in flows if acked
                )
                times.append((t0 + t1) / 2)
                rates.append(bits / (t1 - t0))
            # None interrupts the line between two loads.
            times.append(last)
            rates.append(None)
        out.append(Line(f"all, {LOADS[direction]}", None, "dotted", times, rates))
    return out


def _delivered(acked: Sequence[tuple[float, float]], at: float) -> float:
    """Bytes of a flow that were delivered until a time, interpolated between samples."""
    place = bisect.bisect_right(acked, at, key=lambda row: row[0])
    if place == 0:
        return acked[0][1]
    if place == len(acked):
        return acked[-1][1]
    (t0, b0), (t1, b1) = acked[place - 1], acked[place]
    return b0 + (b1 - b0) * (at - t0) / (t1 - t0)


def _pings(measured: Measurement) -> list[Line]:
    out = []
    for train in measured.pings:
        rows = list(train.rtts())
        out.append(
            Line(
                train.id or "pings", None, "points", [t for t, _ in rows], [rtt for _, rtt in rows]
            )
        )
    return out


def _distributions(measured: Measurement) -> list[Line]:
    out = []
    styles: tuple[Any, ...] = ("dashed", "line", "dotted")
    directions = [(LOADS[direction], measured.loads(direction)) for direction in DIRECTIONS[::-1]]
    if measured.together:
        directions = [(BOTH, measured.loads())]
    for style, (name, spans) in zip(
        styles, [("idle", measured.spans("idle")), *directions], strict=False
    ):
        values = sorted(rtt for rtt in measured.rtts(spans) if rtt is not None)
        if values:
            every = max(1, len(values) // 500)
            kept = list(range(every - 1, len(values), every))
            out.append(
                Line(
                    name,
                    None,
                    style,
                    [values[i] for i in kept],
                    [(i + 1) / len(values) for i in kept],
                )
            )
    return out
