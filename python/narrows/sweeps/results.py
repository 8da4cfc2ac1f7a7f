"""Pictures of several results in the same axes: measurements, results of `narrows latency`, and
runs (`narrows run --json`), in any combination.

Each result has a colour, and contributes to the pictures for which it has data:

- goodput and RTT over time: measurements
- latency distribution: measurements (pings, idle and under load) and response times (RTT)
- goodput against p95 RTT: each direction of a measurement, and each flow of a run
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from narrows import files
from narrows.errors import NarrowsError
from narrows.json_object import JsonObject
from narrows.latency import result as responses
from narrows.latency.model import LatencyJson
from narrows.latency.policies import several as of_setups
from narrows.measure import pictures as measurements
from narrows.measure.result import DIRECTIONS, LOADS, Measurement
from narrows.render.picture import Line, Picture
from narrows.storage import json_kinds as kinds
from narrows.storage import untrusted_input
from narrows.storage.json_kinds import number, rows, table, text
from narrows.storage.text import name_of

Result = Measurement | LatencyJson | JsonObject
"""A measurement, a result of `narrows latency`, or the JSON of a run."""

_RUN = table(
    {
        "engine": text,
        "flows": rows(
            table({"id": text, "goodput_mbit": number, "rtt_ms": table({"p95": number})})
        ),
    },
    required=("engine", "flows"),
)
"""The values of a run that a picture needs."""


def read(file: str | PathLike[str]) -> list[tuple[str, Result]]:
    """The results in a file, each with a name inside of the file; most files have one, whose name
    is empty.

    Raises:
        NarrowsError: If the file is no result.
    """
    if responses.is_result(file):
        return [(name, told) for name, told in _responses(file)]
    try:
        tree = kinds.parse(untrusted_input.read(file, untrusted_input.MOST_DATA_BYTES))
    except (OSError, ValueError):
        return [("", files.read(file))]
    if isinstance(tree, dict) and {"engine", "flows", "scenario"} <= tree.keys():
        kinds.check(tree, _RUN, name_of(file))
        return [("", tree)]
    return [("", files.read(file))]


def _responses(file: str | PathLike[str]) -> list[tuple[str, LatencyJson]]:
    tree: Any = kinds.parse(untrusted_input.read(file, untrusted_input.MOST_DATA_BYTES))
    if isinstance(tree, dict) and tree.get("kind") == "latency_lab":
        return of_setups(responses.read_policies(file))
    return [("", responses.read(file))]


def combined(several: Sequence[tuple[str, Result]]) -> list[Picture]:
    """The pictures of all results.

    Raises:
        NarrowsError: If the results have no data for a picture.
    """
    places = {name: place for place, (name, _) in enumerate(several)}
    measured = [(name, one) for name, one in several if isinstance(one, Measurement)]
    shown = {
        picture.key: picture
        for picture in measurements.combined(
            [one for _, one in measured],
            [name for name, _ in measured],
            [places[name] for name, _ in measured],
        )
    }
    timed = [
        (name, one)
        for name, one in several
        if not isinstance(one, Measurement) and one.get("kind") == "latency"
    ]
    delay = shown.get("delay") or Picture(
        "delay", "Latency distribution", "RTT (ms)", "share of replies",
        "Share of the replies with at most this RTT. Each result has its own colour.",
    )  # fmt: skip
    delay.lines.extend(line for name, one in timed for line in _distribution(name, one, places))
    if delay.lines:
        shown["delay"] = delay
    points = [line for name, one in several for line in _points(name, one, places[name])]
    # A picture with a single point compares nothing.
    if len(points) > 1:
        shown["tradeoff"] = Picture(
            "tradeoff", "Goodput and RTT", "p95 RTT (ms)", "goodput (Mbit/s)",
            "A point for each direction of a measurement (RTT of pings under load) and each flow "
            "of a run (RTT of the flow). Each result has its own colour.",
            points,
        )  # fmt: skip
    if not shown:
        raise NarrowsError("the results have no data for a picture")
    return list(shown.values())


def _distribution(name: str, told: Any, places: dict[str, int]) -> list[Line]:  # noqa: ANN401
    times = told["rtt_us"]
    if times is None:
        return []
    values, beyond = responses.cumulative(times["histogram_ns"])
    return [
        Line(
            f"{name}: RTT",
            places[name],
            "line",
            [value / 1e3 for value in values],
            [1 - share for share in beyond],
        )
    ]


def _points(name: str, result: Any, place: int) -> list[Line]:  # noqa: ANN401
    found: list[tuple[str, float | None, float | None]] = []
    if isinstance(result, Measurement):
        found = [
            (LOADS[way], result.under_load(way).p95, result.rate_mbit(way))
            for way in DIRECTIONS[::-1]
            if result.loads(way)
        ]
    elif result.get("kind") != "latency":
        found = [
            (flow.get("id") or "flow", (flow.get("rtt_ms") or {}).get("p95"),
             flow.get("goodput_mbit"))
            for flow in result["flows"]
        ]  # fmt: skip
    return [
        Line(f"{name}: {what}", place, "points", [rtt], [rate])
        for what, rtt, rate in found
        if rtt is not None and rate is not None
    ]
