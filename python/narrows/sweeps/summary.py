"""The summary of a sweep: medians over all cases by congestion control."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.render import tables
from narrows.render.words import fine, number, percent, waited

if TYPE_CHECKING:
    from narrows.sweeps.store import Medians

_FIGURES = (
    ("goodput_mbit", "goodput Mbit/s"),
    ("queue_delay_p95_ms", "bottleneck queueing delay p95 ms"),
)

_APPLICATION = (
    ("page_load_p95_s", "page load p95 s", 2),
    ("completion_p99_ms", "completion p99 ms", 0),
    ("fct_s", "completion s", 2),
    ("response_p95_ms", "response p95 ms", 1),
    ("mos", "MOS", 2),
    ("stalled_s", "stalled s", 2),
    ("udp_loss", "datagrams lost", None),
)
"""Metrics of applications, for sweeps whose flows have one: column, heading, decimal places. None:
the value is a share.
"""

SHOWN = [
    *(name for name, _ in _FIGURES),
    "summary_retransmit_rate",
    *(name for name, _, _ in _APPLICATION),
]
"""Columns whose medians are shown."""


def summary(medians: Medians) -> tables.Table:
    """A row for each congestion control: medians over all its cases."""
    seen = [one for one in _APPLICATION if any(of[one[0]] is not None for of in medians.values())]
    lines = []
    for cc, of in medians.items():
        figures = [number(of["goodput_mbit"], 2), waited(of["queue_delay_p95_ms"])]
        also = [
            percent(of[name]) if digits is None else fine(of[name], digits)
            for name, _, digits in seen
        ]
        cells = [cc, str(of["rows"]), *figures, percent(of["summary_retransmit_rate"]), *also]
        lines.append([tables.Cell(cell) for cell in cells])
    heads = (
        "rows",
        *(head for _, head in _FIGURES),
        "retransmission rate",
        *(head for _, head, _ in seen),
    )
    return tables.Table("Medians", ("cc",), heads, lines)
