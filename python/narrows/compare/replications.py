"""Comparison of scenarios by replications with common seeds.

Each metric is compared by the differences between runs of the same seed. These differences are
independent of each other, whether or not the runs of one seed are correlated. The 95 % confidence
interval of their mean is that of Student's t. Holm's procedure covers all metrics of one
comparison: the probability of any false verdict among them is at most 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import cast

from narrows.compare.model import ReplicationDifferenceJson
from narrows.inference import LEVEL, Interval, holm, of_independent, of_mean, p_value
from narrows.render.html import fragment
from narrows.render.words import HALF
from narrows.runs.replications import Replications, whole_metrics
from narrows.sweeps.rows import MOST

METRICS: tuple[tuple[str, str], ...] = (
    ("goodput_mbit", "goodput Mbit/s"),
    ("queue_delay_mean_ms", "queue mean ms"),
    ("queue_delay_p95_ms", "queue p95 ms"),
    ("ping_p95_ms", "ping p95 ms"),
    ("summary_retransmit_rate", "retransmission rate"),
    ("jain", "Jain's index"),
    ("fct_s", "completion s"),
    ("transfers_fct_p99_s", "completion p99 s"),
    ("transfers_slowdown_p99", "slowdown p99"),
    ("page_load_p95_s", "page load p95 s"),
    ("completion_p99_ms", "completion p99 ms"),
    ("response_p95_ms", "response p95 ms"),
    ("mos", "MOS"),
    ("stalled_s", "stalled s"),
    ("udp_loss", "datagrams lost"),
)
"""The metrics that are compared if both scenarios have them, and their headings."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One metric of a scenario, compared with that of the first scenario.

    Attributes:
        metric: Its name.
        before: Interval of the first scenario.
        after: Interval of the other scenario.
        difference: Interval of the difference, other minus first.
        p: Two-sided p-value for the hypothesis of no difference.
        differs: Whether the difference is significant by Holm's procedure.
    """

    metric: str
    before: Interval
    after: Interval
    difference: Interval
    p: float
    differs: bool

    def json(self) -> ReplicationDifferenceJson:
        """Machine-readable form."""
        return cast("ReplicationDifferenceJson", asdict(self))


class Comparison(list[Difference]):
    """The metrics of two scenarios, compared over common seeds."""

    def _repr_html_(self) -> str:
        """The table of `narrows compare --seeds`, for notebooks."""
        from narrows.compare.render import replications_table  # noqa: PLC0415 - likewise

        return fragment([replications_table(self, ("before", "after")), HALF])


def differences(first: Replications, other: Replications) -> Comparison:
    """Compares the metrics that both scenarios have for at least two common seeds."""
    values = [[whole_metrics(run.rows()) for run in one.runs] for one in (first, other)]
    found = []
    for name, _ in METRICS:
        pairs = [
            (before[name], after[name])
            for before, after in zip(*values, strict=True)
            if before.get(name) is not None and after.get(name) is not None
        ]
        if len(pairs) > 1:
            found.append((name, pairs))
    apart = [[after - before for before, after in pairs] for _, pairs in found]
    p_values = [_p(one) for one in apart]
    judged = holm(p_values, 1 - LEVEL)
    return Comparison(
        Difference(
            metric=name,
            before=of_mean([before for before, _ in pairs], MOST.get(name)),
            after=of_mean([after for _, after in pairs], MOST.get(name)),
            difference=of_mean(one, least=-math.inf),
            p=p,
            differs=differs,
        )
        for (name, pairs), one, p, (differs, _) in zip(found, apart, p_values, judged, strict=True)
    )


def _p(differences: Sequence[float]) -> float:
    estimate = of_independent(differences)
    return p_value(abs(math.fsum(differences) / len(differences)), estimate)
