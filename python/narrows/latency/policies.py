"""The same latency test under several policies, in turns: what each gained and what it cost, in
words and in one table.

Only shows: every figure is `narrows-host latency`'s. What is compared with is the first policy
under the same load.
"""

from __future__ import annotations

from typing import Any

from narrows.latency.result import PERCENTILES, Json, named, paged, span
from narrows.latency.result import document as of_outcomes
from narrows.render.tables import Cell, Table

LOADS = {"none": "no load", "cpu": "processors busy"}
"""What else the processors did, in words."""

_ALIKE = 0.1
"""Figures nearer to each other than this are not told apart."""


def name(setup: Json) -> str:
    """Of a set-up, as legends have it."""
    return f"{setup['policy']}, {LOADS[setup['load']]}"


def several(told: Json) -> list[tuple[str, Json]]:
    """The outcomes of those that were permitted, with their names."""
    return [(name(setup), setup["latency"]) for setup in told["setups"] if not setup["refused"]]


def _grade(told: Json) -> str:
    """The highest percentile that every outcome can carry."""
    outcomes = [outcome["response_us"] for _, outcome in several(told)]
    carried = [p for p in PERCENTILES if all(took.get(p) is not None for took in outcomes)]
    return carried[-1] if carried else "max"


def _times(before: float, after: float) -> str:
    if not before or not after:
        return ""
    ratio = before / after
    if abs(ratio - 1) < _ALIKE:
        return "alike"
    return f"{ratio:.1f} times less" if ratio > 1 else f"{1 / ratio:.1f} times more"


def _cost(setup: Json, base: Json) -> str:
    own, usual = (one["cpu_s"] / one["wall_s"] for one in (setup, base))
    words = f"{own:.2f} CPU seconds each second"
    if setup is not base:
        words += f" instead of {usual:.2f}"
    if setup["load"] != "none":
        left, had = (one["load_cpu_s"] / one["wall_s"] for one in (setup, base))
        if setup is not base and had:
            change = 100 * (left / had - 1)
            words += (
                f", and the load got {abs(change):.0f} % {'less' if change < 0 else 'more'} "
                "CPU time"
            )
    if setup["awake_by"] == "cpu_dma_latency":
        words += "; idle processors turn instead of sleeping, which costs power"
    return words


def sentences(told: Json) -> list[str]:
    """For each load, what was usual, and then what each other policy gained and cost."""
    grade, limit = _grade(told), span(told["slow_us"])
    out = ["It was stopped before its end."] if told.get("interrupted") else []
    for load in dict.fromkeys(setup["load"] for setup in told["setups"]):
        under = [setup for setup in told["setups"] if setup["load"] == load]
        allowed = [setup for setup in under if not setup["refused"]]
        refused = [f"{setup['refused'].capitalize()}." for setup in under if setup["refused"]]
        out += [sentence for sentence in refused if sentence not in out]
        if not allowed:
            continue
        base = allowed[0]
        for setup in allowed:
            took, slow = setup["latency"]["response_us"], setup["latency"]["slow"]["count"]
            words = (
                f"{name(setup)}: due to answer, half within {span(took['p50'])}, "
                f"{named(grade)} {span(took[grade])}"
            )
            words += f", {slow:,} of {took['n']:,} slow (over {limit})"
            if setup is not base:
                was, most = base["latency"]["slow"]["count"], base["latency"]["response_us"][grade]
                gains = [_times(most, took[grade]), _fewer(was, slow)]
                words += f": {named(grade)} {gains[0]}, {gains[1]}"
            out.append(f"{words}. Cost: {_cost(setup, base)}.")
            if setup["called_off"]:
                out.append(
                    f"{name(setup)}: the watchdog took the real-time class away, for it did not "
                    "sleep for 200 ms."
                )
    return out


def _fewer(before: int, after: int) -> str:
    if before == after:
        return "as many slow ones"
    if not after:
        return f"none slow instead of {before:,}"
    if not before:
        return f"{after:,} slow ones instead of none"
    ratio = before / after
    return (
        f"{ratio:.1f} times fewer slow ones"
        if ratio > 1
        else f"{1 / ratio:.1f} times more slow ones"
    )


def table(told: Json) -> Table:
    """A row for each set-up."""
    rows: list[list[Cell]] = []
    names = ("min", "mean", "p50", "p90", "p99", "p99_9", "max")
    for place, setup in enumerate(told["setups"]):
        head = [
            Cell(setup["policy"], f"setups.{place}.policy"),
            Cell(LOADS[setup["load"]], f"setups.{place}.load"),
        ]
        if setup["refused"]:
            rows.append([*head, *[Cell("–")] * (len(names) + 3)])
            continue
        took, slow = setup["latency"]["response_us"], setup["latency"]["slow"]["count"]
        at = f"setups.{place}"
        cells = [
            Cell(
                "–" if took[key] is None else f"{took[key]:.1f}", f"{at}.latency.response_us.{key}"
            )
            for key in names
        ]
        rows.append(
            [
                *head,
                *cells,
                Cell(f"{slow:,}", f"{at}.latency.slow.count"),
                Cell(f"{took['n']:,}", f"{at}.latency.response_us.n"),
                Cell(f"{setup['cpu_s'] / setup['wall_s']:.2f}", f"{at}.cpu_s"),
            ]
        )
    head_ = tuple(f"{named(key)} µs" for key in names)
    return Table(
        "Due to answer by policy",
        ("policy", "besides"),
        (*head_, "slow", "answers", "CPU s/s"),
        rows,
    )


def fewest(told: Json) -> list[str]:
    """For each load, under which policy the fewest answers were slow."""
    out, limit = [], span(told["slow_us"])
    for load in dict.fromkeys(setup["load"] for setup in told["setups"]):
        tried = [
            setup for setup in told["setups"] if setup["load"] == load and not setup["refused"]
        ]
        if not tried:
            continue
        first, best = tried[0], min(tried, key=lambda setup: setup["latency"]["slow"]["count"])
        slow, n = best["latency"]["slow"]["count"], best["latency"]["rtt_us"]["n"]
        under = f"(over {limit}) under {best['policy']}, {slow:,} of {n:,}"
        words = f"{LOADS[load].capitalize()}: the fewest slow answers {under}"
        if best is not first:
            slow, n = first["latency"]["slow"]["count"], first["latency"]["rtt_us"]["n"]
            words += f", instead of {slow:,} of {n:,} under {first['policy']}"
        out.append(f"{words}.")
    return out


def document(told: Json) -> dict[str, Any]:
    """What the report page shows."""
    page = of_outcomes(several(told))
    beside = table(told)
    # The page's places are within one run, and this table is beside all of them.
    rows = [[Cell(cell.text) for cell in row] for row in beside.rows]
    overall = paged(Table(beside.caption, beside.words, beside.numbers, rows))
    page["runs"][0]["tables"].insert(0, overall)
    said = {sentence.partition(":")[0]: sentence for sentence in reversed(sentences(told))}
    for run in page["runs"]:
        run["answer"].insert(0, said[run["name"]])
    refused = [f"{setup['refused'].capitalize()}." for setup in told["setups"] if setup["refused"]]
    first = " ".join([*fewest(told), *dict.fromkeys(refused)])
    return page | {"title": f"{told['host']}: latency under several policies", "first": first}
