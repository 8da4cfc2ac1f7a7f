"""Studies of what measuring tools tell: bursty against paced datagrams."""

from __future__ import annotations

import json
from typing import Any

from narrows.runs.scenario import Flow, Path, Scenario
from narrows.study.study import Answer, Grid, Part, Rows, Study, first, table

_RATE_MBIT = 20.0
_SENDERS: dict[str, dict[str, Any]] = {
    "paced": {"kind": "udp"},
    "every 1 ms": {"kind": "bursty", "sleep": "1ms"},
    "every 10 ms": {"kind": "bursty", "sleep": "10ms"},
    "every 100 ms": {"kind": "bursty", "sleep": "100ms"},
    "every 1 s": {"kind": "bursty", "sleep": "1s"},
}
"""Who sends the same number of datagrams: one after the other, or what is due at once after each sleep."""

_BUFFERS = ("10p", "50p", "200p", "1000p")
_RATES = ("2Mbit", "5Mbit", "10Mbit", "15Mbit", "18Mbit")


def _named(row: dict[str, Any]) -> dict[str, Any]:
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
    buffers: dict[str, Any] = {
        "path.buffer": _BUFFERS,
        "flow[0].workload": [of | {"rate": "10Mbit"} for of in senders],
    }
    rates: dict[str, Any] = {
        "path.buffer": ["50p"],
        "flow[0].workload": [of | {"rate": rate} for rate in (_RATES[1::2] if quick else _RATES) for of in senders],
    }
    seeds = 1 if quick else 3
    return {
        "buffer": Part(scenario=scenario, over=buffers, seeds=seeds),
        "rate": Part(scenario=scenario, over=rates, seeds=seeds),
    }


def _answer(rows: dict[str, Rows]) -> Answer:
    by_buffer, by_rate = ([_named(row) for row in rows[name]] for name in ("buffer", "rate"))
    about: dict[str, Any] = {"row": "sender", "column": "buffer"}
    keys = ("sender", "path.buffer")

    def lost(of: Rows) -> float | None:
        share = of[0]["udp_loss"]
        return None if share is None else 100 * share

    def idle(of: Rows) -> float:
        return 100 - 100 * float(of[0]["goodput_mbit"]) / _RATE_MBIT

    def grid(title: str, unit: str, of: Any, digits: int = 1) -> Grid:  # noqa: ANN401 - a figure of a run
        return table(by_buffer, *keys, of, title=title, unit=unit, digits=digits, **about)

    loss = grid("Loss of 10 Mbit/s on 20 Mbit/s, as iperf and packet counts tell", "%", lost)
    grids = [
        loss,
        table(
            by_rate, "sender", "asked", lost, title="Loss with a buffer of 50 packets, by the rate that is asked for",
            unit="%", row="sender", column="asked",
        ),
        grid("Jitter as iperf tells (RFC 3550)", "ms", first("udp_jitter_ms"), 2),
        grid("One-way delay, p95", "ms", first("udp_delay_p95_ms")),
        grid("What a meter of the link calls idle, over a second or more", "%", idle, 0),
    ]  # fmt: skip
    bursts = loss.at("every 100 ms", "50p")
    verdict = (
        f"10 Mbit/s on a path of 20 with 50 packets of buffer: a tool that paces tells {loss.at('paced', '50p'):.1f} % "
        f"of loss, one that sleeps 100 ms between bursts {bursts:.0f} %, while a meter shows a link "
        f"{grids[4].at('every 100 ms', '50p'):.0f} % idle. What such a tool measures is the buffer, not the rate."
    )
    return Answer(verdict, grids)


DATAGRAMS = Study(
    name="bursty-udp",
    question="What does a tool report that sends its datagrams in bursts, beside one that paces them?",
    parts=_parts,
    answer=_answer,
)
