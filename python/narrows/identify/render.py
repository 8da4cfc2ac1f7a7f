"""The text of `narrows identify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.identify.running import LEAST_BYTES
from narrows.render.tables import Cell, Table
from narrows.render.words import number

if TYPE_CHECKING:
    from narrows.identify.model import FlowJson, IdentifiedJson

_LOSSES = {
    "full queue": "full queue",
    "no queue": "no queue: policer or random loss",
    "both": "full queue, and losses without a queue",
}


def table(found: IdentifiedJson) -> Table:
    """A row for each flow."""
    rows = []
    for i, flow in enumerate(found["flows"]):
        features, at = flow["features"], f"flows.{i}"
        rows.append(
            [
                Cell(f"{flow['source']} → {flow['target']}", f"{at}.source {at}.target"),
                Cell(flow["cc"] or "not identified", f"{at}.cc"),
                Cell(_losses(flow), f"{at}.losses"),
                Cell(number(flow["bytes"] / 1e6, 2), f"{at}.bytes"),
                Cell(_some(flow["rtt_min_ms"], 1), f"{at}.rtt_min_ms"),
                Cell(str(features["loss_events"]), f"{at}.features.loss_events"),
                Cell(_some(features["backoff"], 2), f"{at}.features.backoff"),
                Cell(_some(features["growth_segments"], 2), f"{at}.features.growth_segments"),
                Cell(str(features["probe_rtts"]), f"{at}.features.probe_rtts"),
            ]
        )
    return Table(
        "",
        ("flow", "cc", "losses"),
        (
            "data MB",
            "minimum RTT ms",
            "loss events",
            "backoff",
            "growth segments/RTT",
            "ProbeRTTs",
        ),
        rows,
    )


def sentences(found: IdentifiedJson) -> list[str]:
    """The reason for each flow, and the number of flows without enough data."""
    lines = []
    for flow in found["flows"]:
        also = (
            f" Other congestion controls have the same features: {', '.join(flow['like'])}."
            if flow["like"]
            else ""
        )
        lines.append(f"{flow['source']} → {flow['target']}: {flow['reason']}{also}")
    if found["left_out"]:
        least = LEAST_BYTES // 1000
        lines.append(f"{found['left_out']} flows with less than {least} kB of data are omitted.")
    return lines


def warning(found: IdentifiedJson) -> str:
    """The warning about a file that ends within a packet."""
    return (
        f"{found['file']}: warning: the last packet is cut off, as after an interruption of the "
        "capture; all packets before it are analysed"
    )


def _losses(flow: FlowJson) -> str:
    return _LOSSES[flow["losses"]] if flow["losses"] else "–"


def _some(value: float | None, digits: int) -> str:
    return "–" if value is None else number(value, digits)
