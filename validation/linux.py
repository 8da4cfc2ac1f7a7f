"""Runs the stored cases of Linux with narrows, and compares Linux with itself and with two trivial
models.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from narrows.json_object import JsonObject
from narrows.reference.agreement import Outcome as AnyOutcome
from narrows.reference.agreement import can_run, itself, play
from validation.stored import Case, judge, value

if TYPE_CHECKING:
    from narrows.runs.model import RunJson

__all__ = ["Outcome", "can_run", "exact", "headline", "itself", "naive", "play"]

Outcome: TypeAlias = AnyOutcome[Case]
"""A stored case with the results of its runs in narrows."""

EVIDENCE = Path(__file__).resolve().parents[1] / "python/narrows/_evidence.json"
"""The stored results of the Rust test of the same cases."""

NEED = 0.9
"""Share of the cases that must agree in every metric."""

BELOW_LINUX = 0.05
"""Maximum by which this share may be lower than the share of cases in which Linux agrees with
itself.
"""

USUAL_MS = 5.0
"""The queueing delay that the trivial model assumes with a queue discipline, in ms: CoDel's target.
"""


def headline(outcomes: Sequence[Outcome]) -> str:
    """The sentence that README, the Rust test and the report share.

    >>> headline([])
    '0 of 0 simulated cases agree with Linux 6.12 in every compared metric'
    """
    agree = sum(outcome.agrees for outcome in outcomes)
    of = f"{agree} of {len(outcomes)}"
    return f"{of} simulated cases agree with Linux 6.12 in every compared metric"


def exact() -> tuple[str, dict[str, float]]:
    """The result of the Rust test: its headline, and the share of agreeing metrics of each case."""
    found = json.loads(EVIDENCE.read_text(encoding="utf-8"))
    return found["headline"], {case["case"]: case["agreement"] for case in found["cases"]}


def naive(case: Case) -> dict[str, bool]:
    """Whether each of two trivial models agrees with the case in every compared metric. One model
    has no traffic. In the other, the link is full, all flows have equal shares, and the buffer is
    70 % full.

    With a policer or a queue discipline the backlog is unknown, so the second model has a queueing
    delay of 5 ms.
    """
    queue_ms = (
        USUAL_MS
        if case.buffer_bytes is None
        else 0.7 * case.buffer_bytes * 8 / case.rate_mbit / 1e3
    )
    rtt_ms = case.rtt_ms + queue_ms
    share_mbit = 0.955 * case.rate_mbit / len(case.flows) * (1 - case.loss)
    answers = {"nothing": _answer(case, 0.0, 0.0), "a full pipe": _answer(case, share_mbit, rtt_ms)}
    return {
        name: all(judge(case, f, value(cast("RunJson", run), f)).agrees for f in case.compared)
        for name, run in answers.items()
    }


def _answer(case: Case, goodput_mbit: float, rtt_ms: float) -> JsonObject:
    """The metrics of a run in which every flow has this goodput and this RTT at all times."""

    def fct_s(flow: JsonObject) -> float | None:
        if "size" not in flow or not goodput_mbit:
            return None
        size_bytes = float(flow["size"].removesuffix("B"))
        return size_bytes * 8 / goodput_mbit / 1e6 + 2 * case.rtt_ms / 1e3

    packets = rtt_ms * goodput_mbit * 1e3 / 8 / 1448
    flows = [
        {
            "cc": flow["cc"],
            "active_goodput_mbit": goodput_mbit,
            "sampled_rtt_ms": {"mean": rtt_ms},
            "run_retransmit_rate": case.loss if goodput_mbit else 0.0,
            "cwnd_packets": dict.fromkeys(("mean", "p5", "p95"), packets),
            "fct_s": fct_s(flow),
            "series": [[t_s, goodput_mbit * 1e6 / 8 * t_s] for t_s in (1, 2, 5)],
        }
        for flow in case.flows
    ]
    return {"flows": flows, "probes": [{"rtt_ms": {"p50": rtt_ms, "p95": rtt_ms}}]}
