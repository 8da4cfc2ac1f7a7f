"""The columns of the rows of runs. There is a row for each flow, which also contains the metrics of
the whole run. The engine computes the rows (`core/src/engine/rows.rs`).
"""

from __future__ import annotations

import math

from narrows.json_object import JsonObject

Row = JsonObject
"""A row: the metrics of a flow and of its run, by column."""

SPREADS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("rtt_ms", "rtt_{}_ms", ("mean", "p50", "p95", "p99")),
    ("cwnd_packets", "cwnd_{}_packets", ("mean", "p5", "p95")),
)
"""Metrics of a flow with several statistics: key in the JSON, name of the columns, and the
statistics."""

DATAGRAMS = ("udp_loss", "udp_delay_p95_ms", "udp_jitter_ms")
"""Metrics of a flow of datagrams. For a call in both directions, each metric is that of the
direction with the larger value."""

FLOW = (
    "goodput_mbit",
    "retransmits",
    "retransmit_rate",
    "run_retransmit_rate",
    "summary_retransmits",
    "summary_retransmit_rate",
)
"""Metrics of a flow. The prefix `summary_` stands for the time after the warm-up; retransmits are
numbers of packets, and rates are shares.
"""

SLOWDOWNS = tuple(f"slowdown_{which}" for which in ("mean", "p50", "p95", "p99"))
"""Statistics of the slowdown of the completed transfers of a flow, for flows with a `size` or a
workload of transfers."""

TRANSFERS = tuple(
    f"transfers_{name}"
    for of in ("fct_{}_s", "slowdown_{}")
    for name in map(of.format, ("mean", "p50", "p95", "p99"))
)
"""Statistics of completion time and slowdown of the completed transfers of all flows of the run
together, for example of many flows with a `size`.
"""

DIRECTIONS = ("down", "up")
"""Directions of flows, for each of which Jain's index is computed."""

WAITS = ("mean", "p50", "p95", "p99")
"""The statistics of a delay that rows contain."""

SIZES = ("to_10kB", "to_100kB", "to_1MB", "above_1MB")
"""Size classes of transfers of the workload `poisson`."""

APPLICATION: dict[str, tuple[str, ...]] = {
    **{f"page_load_{which}_s": ("page_load_s", which) for which in WAITS},
    "startup_delay_s": ("startup_delay_s",),
    "stalls": ("stalls",),
    "stalled_s": ("stalled_s",),
    "mean_bitrate_mbit": ("mean_bitrate_mbit",),
    "switches": ("switches",),
    "frames": ("frames",),
    "frame_loss_share": ("frame_loss_share",),
    **{f"frame_delay_{which}_ms": ("frame_delay_ms", which) for which in WAITS},
    "mos": ("mos",),
    "r": ("r",),
    **{f"response_{which}_ms": ("response_ms", which) for which in WAITS},
    "answers_per_s": ("answers_per_s",),
    "asked": ("asked",),
    "refused": ("refused",),
    "completed": ("completed",),
    **{f"completion_{which}_ms": ("completion_ms", which) for which in WAITS},
    **{
        f"completion_{size}_{which}_ms": ("by_size", size, "completion_ms", which)
        for size in SIZES
        for which in ("p50", "p99")
    },
    "down_mbit": ("down_mbit",),
    "up_mbit": ("up_mbit",),
}
"""The columns of the metrics of a flow's application, and the keys of each in `flows[].workload` of
the JSON of a run.
"""


MOST = {
    "retransmit_rate": 1.0,
    "run_retransmit_rate": 1.0,
    "summary_retransmit_rate": 1.0,
    "jain": 1.0,
    "jain_down": 1.0,
    "jain_up": 1.0,
    "udp_loss": 1.0,
    "frame_loss_share": 1.0,
    "mos": 4.5,
    "r": 100.0,
}
"""Largest possible values of metrics; the smallest possible value of all of them is 0."""

_METRICS = {
    *FLOW,
    *(name.format(which) for _, name, of in SPREADS for which in of),
    *DATAGRAMS,
    *SLOWDOWNS,
    *TRANSFERS,
    *APPLICATION,
    *(f"queue_delay_{which}_ms" for which in WAITS),
    *(f"ping_{which}_ms" for which in WAITS),
    *("fct_s", "queue_drops", "queue_marks", "backlog_mean_packets", "jain"),
    *(f"jain_{direction}" for direction in DIRECTIONS),
}


def limits(name: str) -> tuple[float, float | None]:
    """The smallest and the largest possible value of a column. The smallest is minus infinity for
    metrics of the caller; None means that there is no largest.

    >>> limits("jain"), limits("goodput_mbit"), limits("late_share")
    ((0.0, 1.0), (0.0, None), (-inf, None))
    """
    return (0.0 if name in _METRICS else -math.inf), MOST.get(name)
