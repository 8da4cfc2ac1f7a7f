"""Renders a latency test of several scheduling policies: benefits and costs of each.

`narrows-host latency` computes all values. The baseline is the first permitted policy under the
same load.
"""

from __future__ import annotations

from narrows.errors import EngineError
from narrows.latency.model import LatencyJson, PoliciesJson, SetupJson, Statistic, TimesJson
from narrows.latency.render import document as of_outcomes
from narrows.latency.render import named, paged, span
from narrows.latency.result import PERCENTILES
from narrows.render.model import PageJson
from narrows.render.tables import Cell, Table
from narrows.render.words import number

LOADS = {"none": "no load", "cpu": "CPU load"}
"""Names of the additional loads of the CPUs."""

_ALIKE = 0.1
"""Relative difference below which two values count as equal."""


def name(setup: SetupJson) -> str:
    """Name of a setup, for legends."""
    return f"{setup['policy']}, {LOADS[setup['load']]}"


def several(told: PoliciesJson) -> list[tuple[str, LatencyJson]]:
    """Names and results of all setups whose policy the kernel permitted."""
    return [(name(setup), setup["latency"]) for setup in told["setups"] if not setup["refused"]]


def _responses(setup: SetupJson) -> TimesJson:
    """The response times of a setup.

    Raises:
        EngineError: If no request was answered.
    """
    took = setup["latency"]["response_us"]
    if took is None:
        raise EngineError(f"{name(setup)}: the host answered no request")
    return took


def _answered(setup: SetupJson) -> int:
    """Number of answered requests of a setup."""
    took = setup["latency"]["rtt_us"]
    return 0 if took is None else took["n"]


def _grade(told: PoliciesJson) -> Statistic:
    """The highest percentile that all permitted setups have; the maximum if they have none in
    common.
    """
    outcomes = [_responses(setup) for setup in told["setups"] if not setup["refused"]]
    carried = [p for p in PERCENTILES if all(took.get(p) is not None for took in outcomes)]
    return carried[-1] if carried else "max"


def _times(before: float | None, after: float | None) -> str:
    if not before or not after:
        return ""
    ratio = before / after
    if abs(ratio - 1) < _ALIKE:
        return f"equal within {100 * _ALIKE:.0f} %"
    return f"{ratio:.1f} times lower" if ratio > 1 else f"{1 / ratio:.1f} times higher"


def _cost(setup: SetupJson, base: SetupJson) -> str:
    own, usual = (one["cpu_s"] / one["wall_s"] for one in (setup, base))
    words = f"{own:.2f} CPU seconds per second"
    if setup is not base:
        words += f" instead of {usual:.2f}"
    if setup["load"] != "none":
        left, had = (one["load_cpu_s"] / one["wall_s"] for one in (setup, base))
        if setup is not base and had:
            change = 100 * (left / had - 1)
            words += (
                f"; the load had {abs(change):.0f} % {'less' if change < 0 else 'more'} CPU time"
            )
    if setup["awake_by"] == "cpu_dma_latency":
        words += "; idle CPUs poll instead of sleeping, which increases the power consumption"
    return words


def sentences(told: PoliciesJson) -> list[str]:
    """The sentences for each load: the baseline, then benefits and costs of every other policy."""
    grade, limit = _grade(told), span(told["slow_us"])
    out = ["The measurement was stopped early."] if told.get("interrupted") else []
    for load in dict.fromkeys(setup["load"] for setup in told["setups"]):
        under = [setup for setup in told["setups"] if setup["load"] == load]
        allowed = [setup for setup in under if not setup["refused"]]
        refused = [f"{setup['refused'].capitalize()}." for setup in under if setup["refused"]]
        out += [sentence for sentence in refused if sentence not in out]
        if not allowed:
            continue
        base = allowed[0]
        for setup in allowed:
            took, slow = _responses(setup), setup["latency"]["slow"]["count"]
            words = (
                f"{name(setup)}: response time {span(took.get('p50'))} (median), "
                f"{span(took.get(grade))} ({named(grade)}); {slow:,} of {took['n']:,} "
                f"responses exceeded {limit}"
            )
            if setup is not base:
                was, most = base["latency"]["slow"]["count"], _responses(base).get(grade)
                factor = _times(most, took.get(grade))
                gains = [*([f"{named(grade)} {factor}"] if factor else []), _fewer(was, slow)]
                words += f". Compared with {base['policy']}: {', '.join(gains)}"
            out.append(f"{words}. Cost: {_cost(setup, base)}.")
            if setup["called_off"]:
                out.append(
                    f"{name(setup)}: the watchdog ended real-time scheduling because the process "
                    "did not sleep for 200 ms."
                )
    return out


def _fewer(before: int, after: int) -> str:
    if before == after:
        return "as many slow responses"
    if not after:
        return f"no slow responses instead of {before:,}"
    if not before:
        return f"{after:,} slow responses instead of none"
    ratio = before / after
    return (
        f"{ratio:.1f} times fewer slow responses"
        if ratio > 1
        else f"{1 / ratio:.1f} times more slow responses"
    )


def table(told: PoliciesJson) -> Table:
    """A row for each setup."""
    rows: list[list[Cell]] = []
    names: tuple[Statistic, ...] = ("min", "mean", "p50", "p90", "p99", "p99_9", "max")
    for place, setup in enumerate(told["setups"]):
        head = [
            Cell(setup["policy"], f"setups.{place}.policy"),
            Cell(LOADS[setup["load"]], f"setups.{place}.load"),
        ]
        if setup["refused"]:
            rows.append([*head, *[Cell("–")] * (len(names) + 3)])
            continue
        took, slow = _responses(setup), setup["latency"]["slow"]["count"]
        at = f"setups.{place}"
        cells = [Cell(number(took.get(key)), f"{at}.latency.response_us.{key}") for key in names]
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
        "Response time by policy",
        ("policy", "load"),
        (*head_, "slow responses", "responses", "CPU s/s"),
        rows,
    )


def fewest(told: PoliciesJson) -> list[str]:
    """For each load, a sentence about the policy with the fewest slow responses."""
    out, limit = [], span(told["slow_us"])
    for load in dict.fromkeys(setup["load"] for setup in told["setups"]):
        tried = [
            setup for setup in told["setups"] if setup["load"] == load and not setup["refused"]
        ]
        if not tried:
            continue
        first, best = tried[0], min(tried, key=lambda setup: setup["latency"]["slow"]["count"])
        slow, n = best["latency"]["slow"]["count"], _answered(best)
        load_name = LOADS[load][:1].upper() + LOADS[load][1:]
        words = (
            f"{load_name}: policy {best['policy']} had the fewest slow responses (over {limit}), "
            f"{slow:,} of {n:,}"
        )
        if best is not first:
            slow, n = first["latency"]["slow"]["count"], _answered(first)
            words += f"; {first['policy']} had {slow:,} of {n:,}"
        out.append(f"{words}.")
    return out


def document(told: PoliciesJson) -> PageJson:
    """The content of the report page."""
    page = of_outcomes(several(told))
    beside = table(told)
    # Paths of cells refer to one run, but this table covers all of them.
    rows = [[Cell(cell.text) for cell in row] for row in beside.rows]
    overall = paged(Table(beside.caption, beside.words, beside.numbers, rows))
    page["runs"][0]["tables"].insert(0, overall)
    said = {sentence.partition(":")[0]: sentence for sentence in reversed(sentences(told))}
    for run in page["runs"]:
        run["answer"].insert(0, said[run["name"]])
    refused = [f"{setup['refused'].capitalize()}." for setup in told["setups"] if setup["refused"]]
    first = " ".join([*fewest(told), *dict.fromkeys(refused)])
    page["title"], page["first"] = f"{told['host']}: latency by scheduling policy", first
    return page
