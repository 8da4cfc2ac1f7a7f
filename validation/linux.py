"""Runs the stored cases of Linux; for comparison, Linux itself and two trivial models."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from narrows import _core
from narrows.runs.parallel import everywhere
from narrows.runs.run import Progress
from validation.stored import Case, Json, Verdict, judge, missing, value

EVIDENCE = Path(__file__).resolve().parents[1] / "python/narrows/_evidence.json"
"""Results of the Rust test of the same cases."""

NEED = 0.9
"""Share of the cases that must agree in every metric."""

BELOW_LINUX = 0.05
"""Maximum by which this share may be lower than that of Linux compared with itself."""

USUAL_MS = 5.0
"""Queueing delay of a queue discipline, in ms: CoDel's target."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A case that was run.

    Attributes:
        case: The case.
        verdicts: One for each compared metric.
    """

    case: Case
    verdicts: tuple[Verdict, ...]

    @property
    def agrees(self) -> bool:
        """Whether every compared metric agrees."""
        return all(v.agrees for v in self.verdicts)


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


def can_run(case: Case) -> bool:
    """Whether this version has all congestion controls and the queue discipline of the case."""
    return not missing(case)


def play(
    todo: Sequence[Case],
    *,
    seeds: int,
    jobs: int | None = None,
    done: Callable[[float], object] = lambda _: None,
) -> list[Outcome]:
    """Runs the cases with so many seeds each; `done` receives the cost of each finished run."""

    def one(job: tuple[Case, int], keep_on: Progress) -> list[float]:
        case, seed = job
        text = _core.run_toml(
            case.toml, case.name, seed=seed, sample_interval="off", progress=keep_on
        ).json()
        run: Json = json.loads(text)
        return [value(run, figure) for figure in case.compared]

    pairs = [(case, seed) for case in todo for seed in range(1, seeds + 1)]
    found = everywhere(
        pairs, one, cost=lambda job: job[0].cost, done=lambda job: done(job[0].cost), jobs=jobs
    )
    return [_outcome(case, found[i * seeds : (i + 1) * seeds]) for i, case in enumerate(todo)]


def _outcome(case: Case, by_seed: Sequence[Sequence[float]]) -> Outcome:
    ours = [statistics.median(values) for values in zip(*by_seed, strict=True)]
    return Outcome(
        case=case,
        verdicts=tuple(judge(case, f, x) for f, x in zip(case.compared, ours, strict=True)),
    )


def itself(case: Case) -> bool | None:
    """Whether the last recorded run agrees with the others; None if there are less than two others.

    A metric that the last run does not have is not compared, for example the first seconds of a run
    that started later.
    """
    if case.recorded <= 2:  # noqa: PLR2004
        return None
    whole = [f for f in case.compared if len(f.runs) == case.recorded]
    return all(judge(case, f, f.runs[-1], f.runs[:-1]).agrees for f in whole)


def naive(case: Case) -> dict[str, bool]:
    """Whether two trivial models agree: no traffic, and a share of a full link with its buffer 70 %
    full.

    With a policer or a queue discipline, the backlog is not known; there the model has a queueing
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
        name: all(judge(case, f, value(run, f)).agrees for f in case.compared)
        for name, run in answers.items()
    }


def _answer(case: Case, goodput_mbit: float, rtt_ms: float) -> Json:
    """A run in which every flow has this goodput and RTT at all times."""

    def fct_s(flow: Json) -> float | None:
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
