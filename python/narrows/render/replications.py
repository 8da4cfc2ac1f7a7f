"""Replications of a scenario as text: tables of means with their 95 % confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from narrows.render import tables
from narrows.render.styled import show_parts
from narrows.render.words import HALF, with_half

if TYPE_CHECKING:
    from collections.abc import Iterator

    from narrows.inference import Interval
    from narrows.render.run import Part
    from narrows.runs.model import FlowJson

_COLUMNS: tuple[tuple[str, str, float, int], ...] = (
    ("goodput Mbit/s", "goodput_mbit", 1.0, 2),
    ("RTT mean ms", "rtt_mean_ms", 1.0, 1),
    ("RTT p95 ms", "rtt_p95_ms", 1.0, 1),
    ("retransmits", "summary_retransmits", 1.0, 1),
    ("retransmitted %", "summary_retransmit_rate", 100.0, 3),
    ("cwnd packets", "cwnd_mean_packets", 1.0, 1),
    ("done after s", "fct_s", 1.0, 3),
)
"""Columns of the table of flows: heading, metric, factor by which the value is multiplied, and
maximum number of decimal places."""

_SAME = {"run_retransmit_rate"}
"""Metrics that are not shown because another metric contains them."""

_BOTH = {"jain_down", "jain_up"}
"""Fairness indices of each direction. They are shown only if both directions have flows, because a
single one equals `jain`."""


_FEW = 4
"""Maximum number of decimal places in the table of metrics."""


def cell(one: Interval | None, factor: float = 1.0, most: int = 2) -> str:
    """A mean with the half-width of its confidence interval.

    >>> from narrows.inference import of_mean
    >>> cell(of_mean([10.0, 20.0, 15.0])), cell(None)
    ('15 ± 12', '–')
    """
    if one is None:
        return "–"
    half = one.half()
    return with_half(factor * one.mean, None if half is None else factor * half, most)


def metrics(found: Mapping[str, Interval], caption: str = "Metrics") -> tables.Table:
    """A table with a row for each metric: mean, confidence interval, standard deviation and number
    of runs.
    """
    rows = [
        [
            tables.Cell(name),
            tables.Cell(cell(one, most=_FEW) if one.half() else tables.significant(one.mean)),
            *(tables.Cell(tables.significant(x)) for x in (one.low, one.high, one.sd)),
            tables.Cell(str(one.runs)),
        ]
        for name, one in found.items()
        if name not in _SAME and (name not in _BOTH or set(found) >= _BOTH)
    ]
    heads = ("mean", "from", "to", "standard deviation", "runs")
    return tables.Table(caption, ("metric",), heads, rows)


def flows(
    about: Sequence[tuple[str, str]],
    found: Sequence[Mapping[str, Interval]],
    most: int = tables.MOST_ROWS,
) -> tables.Table:
    """A table with a row for each of the first `most` flows: id, congestion control, and the
    metrics that at least one flow has.
    """
    shown = [column for column in _COLUMNS if any(column[1] in of for of in found)]
    rows = [
        [
            tables.Cell(id_),
            tables.Cell(cc),
            *(tables.Cell(cell(of.get(name), factor, digits)) for _, name, factor, digits in shown),
        ]
        for (id_, cc), of in zip(about[:most], found[:most], strict=True)
    ]
    return tables.Table("Flows", ("flow", "cc"), tuple(head for head, *_ in shown), rows)


def ended(runs: Sequence[Sequence[FlowJson]]) -> list[str]:
    """A sentence about the connections that senders ended, of the flows of each run; none if no
    connection ended.

    >>> ended([[{"id": "a"}], [{"id": "a", "timed_out_s": 8.5}]])
    ['flow a: its sender ended the connection in 1 of 2 runs, at 8.500 s, because nothing was ...']
    >>> ended([[{"id": "a"}]])
    []
    """
    times = {
        (flow["id"], number): flow["timed_out_s"]
        for number, flows in enumerate(runs)
        for flow in flows
        if "timed_out_s" in flow
    }
    if not times:
        return []
    affected = {id_ for id_, _ in times}
    ids = [flow["id"] for flow in runs[0] if flow["id"] in affected]
    who, connections = (
        (f"flow {ids[0]}: its sender", "connection")
        if len(ids) == 1
        else (f"{len(ids)} flows, {ids[0]} the first of them: their senders", "connections")
    )
    least, most = f"{min(times.values()):.3f}", f"{max(times.values()):.3f}"
    at = least if least == most else f"{least} to {most}"
    return [
        f"{who} ended the {connections} in {len({number for _, number in times})} of {len(runs)} "
        f"runs, at {at} s, because nothing was acknowledged for too long (ETIMEDOUT)."
    ]


def show(
    title: str,
    about: Sequence[tuple[str, str]],
    by_flow: Sequence[Mapping[str, Interval]],
    whole: Mapping[str, Interval],
    *,
    jitter: str | None,
    notices: Sequence[str],
) -> None:
    """Prints the title, the notices, the tables of flows and metrics, and explanations. `jitter` is
    the default start jitter of replications; None if the scenario sets its own.
    """
    show_parts(_parts(title, about, by_flow, whole, jitter=jitter, notices=notices), None)


def _parts(
    title: str,
    about: Sequence[tuple[str, str]],
    by_flow: Sequence[Mapping[str, Interval]],
    whole: Mapping[str, Interval],
    *,
    jitter: str | None,
    notices: Sequence[str],
) -> Iterator[Part]:
    yield title, "bold"
    for notice in notices:
        yield f"Note: {notice}", "yellow"
    if by_flow:
        yield ""
        yield flows(about, by_flow)
    yield ""
    yield metrics(whole)
    yield f"\n{HALF}"
    if jitter is not None:
        yield (
            f"Each flow starts up to {jitter} later than its `start`, at random; start_jitter in "
            "the scenario changes this."
        )
