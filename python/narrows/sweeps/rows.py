"""A run's figures as rows of a table: one for each flow, with the figures of the whole run in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Row = dict[str, Any]
"""A flow of a run."""

SPREADS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("rtt_ms", "rtt_{}_ms", ("mean", "p50", "p95", "p99")),
    ("cwnd_packets", "cwnd_{}_packets", ("mean", "p5", "p95")),
)
"""Figures of a flow that are several, what their columns are called, and which there are."""

DATAGRAMS = ("udp_loss", "udp_delay_p95_ms", "udp_jitter_ms")
"""What is said of a flow of datagrams."""

WAITS = ("mean", "p50", "p95", "p99")
"""What is said of a delay."""


def rows(key: str, figures: Mapping[str, Any]) -> list[Row]:
    """A run's rows, from its JSON."""
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
        "version": figures["narrows"],
    }
    found = []
    for number, flow in enumerate(figures["flows"]):
        own = {name.format(which): flow[spread][which] for spread, name, of in SPREADS for which in of}
        own |= {name: flow[name] for name in ("cc", "goodput_mbit", "retransmits", "retransmit_rate", "fct_s")}
        own |= _datagrams(flow.get("workload", {}))
        found.append(whole | own | {"flow_number": number, "flow": flow["id"]})
    return found or [whole | {"flow_number": None}]


def _datagrams(workload: Mapping[str, Any]) -> Row:
    """What the receiver of datagrams saw; nothing of other workloads.

    >>> _datagrams({"loss": 0.1, "delay_ms": {"p95": 12.0}, "jitter_ms": 0.5})
    {'udp_loss': 0.1, 'udp_delay_p95_ms': 12.0, 'udp_jitter_ms': 0.5}
    >>> _datagrams({"kind": "web"})
    {'udp_loss': None, 'udp_delay_p95_ms': None, 'udp_jitter_ms': None}
    """
    told = (workload.get("loss"), (workload.get("delay_ms") or {}).get("p95"), workload.get("jitter_ms"))
    return dict(zip(DATAGRAMS, told if "jitter_ms" in workload else (None,) * len(told), strict=True))
