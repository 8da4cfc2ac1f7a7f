"""A run in a person's words and tables. Only shows: every figure was computed in the core."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from narrows import _core

Figures = dict[str, Any]


def number(value: float | None, digits: int = 1) -> str:
    """A number with so many digits after the point; a dash for what there is none of.

    >>> number(18.26), number(None), number(0.0), number(1234.5, 0)
    ('18.3', '–', '0.0', '1234')
    """
    return "–" if value is None else f"{value:.{digits}f}"


def _percent(share: float | None) -> str:
    """Two digits that count: 95 %, 0.1 %, 0.02 %.

    >>> _percent(0.953), _percent(0.0012), _percent(0.00021), _percent(0.0), _percent(None)
    ('95 %', '0.1 %', '0.02 %', '0 %', '–')
    """
    if share is None:
        return "–"
    percent = 100 * share
    if percent == 0:
        return "0 %"
    return f"{percent:.{0 if percent >= 10 else 1 if percent >= 0.1 else 2}f} %"  # noqa: PLR2004


def who(flows: list[Figures]) -> str:
    """Who sent.

    >>> who([{"cc": "cubic"}]), who([{"cc": "bbr"}, {"cc": "cubic"}, {"cc": "bbr"}])
    ('1 cubic flow', '2 bbr flows and 1 cubic flow')
    """
    parts = [f"{n} {cc} flow{'s' if n > 1 else ''}" for cc, n in Counter(flow["cc"] for flow in flows).items()]
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]])) if parts else "Nobody"


def sentence(figures: Figures) -> str:
    """What happened, in one sentence."""
    flows, queue = figures["flows"], figures["queue"]
    rate_mbit = _core.path_numbers(figures["scenario"])["rate_mbit"]
    goodputs = [flow["goodput_mbit"] for flow in flows if flow["goodput_mbit"] is not None]
    delay = queue["delay_ms"]
    if flows and not goodputs:
        parts = [f"{who(flows)} sent nothing after the warm-up"]
    else:
        used = _percent(sum(goodputs) / rate_mbit if rate_mbit else None)
        parts = [f"{who(flows)} used {used} of {rate_mbit:g} Mbit/s"]
    if delay and delay["mean"] is not None:
        parts.append(f"packets waited {number(delay['mean'])} ms (p95 {number(delay['p95'])} ms) in the queue")
    rates = [flow["retransmit_rate"] for flow in flows if flow["retransmit_rate"] is not None]
    if len(flows) == 1 and rates:
        parts.append(f"{_percent(rates[0])} sent again" if rates[0] else "nothing was sent again")
    elif rates:
        parts.append(f"at most {_percent(max(rates))} of a flow sent again" if max(rates) else "nothing was sent again")
    return "; ".join(parts) + "."


def console(stream: TextIO | None = None) -> Console:
    """Colour only for a terminal that wants it; a pipe gets plain text that is not wrapped at 80 columns."""
    stream = stream or sys.stdout
    return Console(file=stream, highlight=False, width=None if stream.isatty() else 160)


def _table(out: Console, names: Sequence[str], *columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD if out.is_terminal else None, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _waits(queue: Figures, spread: Sequence[str]) -> list[str]:
    """What waits in a queue or a class of one: how long, and how many on average."""
    return [number(queue["delay_ms"][k]) for k in spread] + [number(queue["backlog_packets"]["mean"])]


def show(figures: Figures, stream: TextIO | None = None) -> None:
    """Prints a run: a sentence, a row per flow, the queue, the probes."""
    out = console(stream)
    flows = figures["flows"]
    out.print(sentence(figures), style="bold")
    out.print()
    sized = any("size" in flow for flow in figures["scenario"].get("flow", []))
    table = _table(
        out,
        ("flow", "cc"),
        "goodput Mbit/s",
        "RTT mean ms",
        "RTT p95 ms",
        "sent again",
        "of sent",
        "cwnd packets",
        *(["done after s"] if sized else []),
    )
    for flow in flows:
        table.add_row(
            flow["id"],
            flow["cc"],
            number(flow["goodput_mbit"], 2),
            number(flow["rtt_ms"]["mean"]),
            number(flow["rtt_ms"]["p95"]),
            str(flow["retransmits"]),
            _percent(flow["retransmit_rate"]),
            number(flow["cwnd_packets"]["mean"]),
            *([number(flow["fct_s"], 3)] if sized else []),
        )
    out.print(table)
    out.print()

    spread = ("mean", "p50", "p95", "p99")
    waiting = _table(out, ("",), "mean ms", "p50 ms", "p95 ms", "p99 ms", "packets", "")
    queues = figures["queues"]
    for queue in queues:
        counts = f"{queue['drops']} dropped, {queue['marks']} marked"
        name = "queue delay" if len(queues) == 1 else f"queue delay, {queue['name']}"
        waiting.add_row(name, *_waits(queue, spread), counts)
        for part in queue.get("classes", []):
            waiting.add_row(f"  {part['name']}", *_waits(part, spread), "")
    for probe in figures["probes"]:
        answered = f"{probe['received']} of {probe['sent']} answered"
        waiting.add_row(f"{probe['kind']} RTT", *(number(probe["rtt_ms"][k]) for k in spread), "", answered)
    out.print(waiting)
    if len(flows) > 1:
        out.print(
            f"\nFairness (Jain's index): {number(figures['fairness']['jain'], 3)}; 1 is an equal share for everyone."
        )
