"""Studies of measurement tools: bursty and paced datagrams."""

from __future__ import annotations

import json
from typing import Any

from narrows.json_object import JsonObject
from narrows.runs.scenario import Flow, Path, Scenario
from narrows.study.study import Answer, Axes, Grid, Part, Rows, Study, first, table
from narrows.sweeps.design import Values
from narrows.sweeps.rows import Row

_RATE_MBIT = 20.0
_SENDERS: dict[str, JsonObject] = {
    "paced": {"kind": "udp"},
    "every 1 ms": {"kind": "bursty", "sleep": "1ms"},
    "every 10 ms": {"kind": "bursty", "sleep": "10ms"},
    "every 100 ms": {"kind": "bursty", "sleep": "100ms"},
    "every 1 s": {"kind": "bursty", "sleep": "1s"},
}
"""Senders with the same mean rate: evenly paced, or with a burst after each sleep."""

_BUFFERS = ("10p", "50p", "200p", "1000p")
_RATES = ("2Mbit", "5Mbit", "10Mbit", "15Mbit", "18Mbit")


def _named(row: Row) -> Row:
    workload = json.loads(row["flow[0].workload"])
    rate = workload.pop("rate")
    sender = next(name for name, of in _SENDERS.items() if of == workload)
    return row | {"sender": sender, "asked": rate, "asked_mbit": float(rate.removesuffix("Mbit"))}


def _parts(quick: bool) -> dict[str, Part]:
    scenario = Scenario(
        Path(rate="20Mbit", rtt="20ms", buffer="50p"),
        flows=[Flow(workload={"kind": "udp"})],
        duration="20s" if quick else "60s",
    )
    senders = list(_SENDERS.values())
    buffers: dict[str, Values] = {
        "path.buffer": _BUFFERS,
        "flow[0].workload": [of | {"rate": "10Mbit"} for of in senders],
    }
    rates: dict[str, Values] = {
        "path.buffer": ["50p"],
        "flow[0].workload": [
            of | {"rate": rate} for rate in (_RATES[1::2] if quick else _RATES) for of in senders
        ],
    }
    seeds = 1 if quick else 3
    return {
        "buffer": Part(scenario=scenario, over=buffers, seeds=seeds),
        "rate": Part(scenario=scenario, over=rates, seeds=seeds),
    }


def _answer(rows: dict[str, Rows]) -> Answer:
    by_buffer, by_rate = ([_named(row) for row in rows[name]] for name in ("buffer", "rate"))
    about: Axes = {"row": "sender", "column": "buffer"}
    keys = ("sender", "path.buffer")

    def lost(of: Rows) -> float | None:
        share = of[0]["udp_loss"]
        return None if share is None else 100 * share

    def idle(of: Rows) -> float:
        return 100 - 100 * float(of[0]["goodput_mbit"]) / _RATE_MBIT

    def grid(title: str, unit: str, of: Any, digits: int = 1) -> Grid:  # noqa: ANN401
        return table(by_buffer, *keys, of, title=title, unit=unit, digits=digits, **about)

    loss = grid("Packet loss of 10 Mbit/s on a link of 20 Mbit/s", "%", lost)
    grids = [
        loss,
        table(
            by_rate, "sender", "asked", lost, title="Packet loss with a buffer of 50 packets, by "
                                                    "sending rate",
            unit="%", row="sender", column="asked",
        ),
        grid("Jitter (RFC 3550, as reported by iperf)", "ms", first("udp_jitter_ms"), 2),
        grid("One-way delay, p95", "ms", first("udp_delay_p95_ms")),
        grid("Idle capacity of the link, averaged over the run", "%", idle, 0),
    ]  # fmt: skip
    bursts = loss.at("every 100 ms", "50p")
    verdict = (
        f"10 Mbit/s on a link of 20 Mbit/s with a buffer of 50 packets: a paced sender has "
        f"{loss.at('paced', '50p'):.1f} % loss. A sender that sleeps 100 ms between bursts has "
        f"{bursts:.0f} % loss, "
        f"although {grids[4].at('every 100 ms', '50p'):.0f} % of the link is idle. The result of "
        "such a tool depends "
        "on the buffer, not on the rate."
    )
    return Answer(verdict, grids)


DATAGRAMS = Study(
    name="bursty-udp",
    question="How do results of a tool that sends datagrams in bursts differ from those of a "
    "paced tool?",
    parts=_parts,
    answer=_answer,
)
