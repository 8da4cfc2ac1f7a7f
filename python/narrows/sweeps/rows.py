"""Converts the metrics of a run to rows of a table. There is a row for each flow, which also
contains the metrics of the whole run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

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

Transfers = Mapping[str, Sequence[tuple[float, float | None]]]
"""Completion time, in s, and slowdown of each completed transfer, by flow."""

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


def rows(key: str, figures: Mapping[str, Any], transfers: Transfers | None = None) -> list[Row]:
    """The rows of a run, from its JSON and its completed transfers. A run without flows has one
    row.
    """
    done = transfers or {}
    queue, path = figures["queue"], figures["path"]
    pings = next((probe["rtt_ms"] for probe in figures["probes"]), dict.fromkeys(WAITS))
    whole = {
        "key": key,
        "rate_mbit": path["rate_mbit"],
        "rtt_ms": path["rtt_ms"],
        "buffer_bdp": path["buffer_bdp"],
        **{f"queue_delay_{which}_ms": queue["delay_ms"][which] for which in WAITS},
        "queue_drops": queue["drops"],
        "queue_marks": queue["marks"],
        "backlog_mean_packets": queue["backlog_packets"]["mean"],
        **{f"ping_{which}_ms": pings[which] for which in WAITS},
        "jain": figures["fairness"]["jain"],
        **{
            f"jain_{direction}": _at(figures, ("fairness", "by_direction", direction, "jain"))
            for direction in DIRECTIONS
        },
        **_together([one for of in done.values() for one in of]),
        "like": figures["scenario"]["host"]["like"],
        "version": figures["narrows"],
        "scenario_format": figures["scenario"]["format"],
        **_engine(figures),
    }
    found = []
    for number, flow in enumerate(figures["flows"]):
        own = {
            name.format(which): flow[spread][which] for spread, name, of in SPREADS for which in of
        }
        own |= {name: flow[name] for name in ("cc", *FLOW, "fct_s")}
        own |= _application(flow.get("workload", {}))
        own |= _spread(SLOWDOWNS, _slowdowns(done.get(flow["id"], ())))
        found.append(whole | own | {"flow_number": number, "flow": flow["id"]})
    return found or [whole | {"flow_number": None}]


def _engine(figures: Mapping[str, Any]) -> Row:
    """The columns of the engine and of the name and key of its kernel.

    >>> _engine({"engine": "sim"})
    {'engine': 'sim', 'kernel': None, 'kernel_key': None}
    """
    engine = figures["engine"]
    used = _at(figures, ("provenance", "kernel")) if engine == "linux" else None
    named = _at(figures, ("instruments", "kernel")) if engine == "live" else None
    return {
        "engine": engine,
        "kernel": used["name"] if used else named,
        "kernel_key": used["key"] if used else None,
    }


def has_transfers(figures: Mapping[str, Any]) -> bool:
    """Whether a flow has completed its transfer or has a workload of transfers."""
    return any(
        flow["fct_s"] is not None
        or flow.get("workload", {}).get("kind") in {"poisson", "empirical"}
        for flow in figures["flows"]
    )


def completed(columns: Mapping[str, Sequence[Any]]) -> Transfers:
    """The completed transfers, from the columns of the table of transfers.

    >>> completed({"flow": ["a", "a"], "fct_s": [2.0, None], "slowdown": [4.0, None]})
    {'a': [(2.0, 4.0)]}
    """
    found: dict[str, list[tuple[float, float | None]]] = {}
    names = ("flow", "fct_s", "slowdown")
    for flow, fct_s, slowdown in zip(*(columns[name] for name in names), strict=True):
        if fct_s is not None:
            found.setdefault(flow, []).append((fct_s, slowdown))
    return found


def _together(transfers: Sequence[tuple[float, float | None]]) -> Row:
    """The columns for the transfers of all flows together."""
    half = len(TRANSFERS) // 2
    times = _spread(TRANSFERS[:half], [fct_s for fct_s, _ in transfers])
    return times | _spread(TRANSFERS[half:], _slowdowns(transfers))


def _slowdowns(transfers: Sequence[tuple[float, float | None]]) -> list[float]:
    return [slowdown for _, slowdown in transfers if slowdown is not None]


def _spread(names: Sequence[str], values: Sequence[float]) -> Row:
    """Mean and percentiles of values by column name. A percentile is the value at its rank, without
    interpolation.

    >>> list(_spread(SLOWDOWNS, [4.0, 1.0]).values()), list(_spread(SLOWDOWNS, []).values())
    ([2.5, 4.0, 4.0, 4.0], [None, None, None, None])
    """
    n, in_order = len(values), sorted(values)
    if not n:
        return dict.fromkeys(names)
    ranks = (min(n - 1, int(q * n)) for q in (0.5, 0.95, 0.99))
    found = (math.fsum(in_order) / n, *(in_order[rank] for rank in ranks))
    return dict(zip(names, found, strict=True))


_NO_APPLICATION: Row = dict.fromkeys(("workload", *DATAGRAMS, *APPLICATION))
"""The columns of a flow without an application; most flows have none."""


def _application(workload: Mapping[str, Any]) -> Row:
    """The columns of the metrics of a flow's application.

    >>> row = _application({"kind": "web", "page_load_s": {"mean": 2.0, "p50": 1.9, "p95": 3.0,
    ...     "p99": 3.0}})
    >>> row["workload"], row["page_load_p95_s"], row["mos"], row["udp_loss"]
    ('web', 3.0, None, None)
    """
    if not workload:
        return _NO_APPLICATION
    found = {name: _at(workload, place) for name, place in APPLICATION.items()}
    return {"workload": workload.get("kind"), **_datagrams(workload), **found}


def _at(tree: Any, place: tuple[str, ...]) -> Any:  # noqa: ANN401 - JSON
    for key in place:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


def _datagrams(workload: Mapping[str, Any]) -> Row:
    """The metrics of the receiver of datagrams; None for other workloads.

    >>> _datagrams({"loss": 0.1, "delay_ms": {"p95": 12.0}, "jitter_ms": 0.5})
    {'udp_loss': 0.1, 'udp_delay_p95_ms': 12.0, 'udp_jitter_ms': 0.5}
    >>> directions = [{"loss": 0.1, "delay_ms": {"p95": 12.0}, "jitter_ms": 0.5}, {"loss": 0.0,
    ...     "delay_ms": {"p95": 30.0}}]
    >>> _datagrams({"kind": "voip", "ways": dict(zip(("to_client", "to_server"), directions))})
    {'udp_loss': 0.1, 'udp_delay_p95_ms': 30.0, 'udp_jitter_ms': 0.5}
    >>> _datagrams({"kind": "web"})
    {'udp_loss': None, 'udp_delay_p95_ms': None, 'udp_jitter_ms': None}
    """
    directions = (
        list(workload["ways"].values())
        if "ways" in workload
        else [workload]
        if "jitter_ms" in workload
        else []
    )
    places = (("loss",), ("delay_ms", "p95"), ("jitter_ms",))
    told = [
        [value for direction in directions if (value := _at(direction, place)) is not None]
        for place in places
    ]
    return {name: max(values, default=None) for name, values in zip(DATAGRAMS, told, strict=True)}
