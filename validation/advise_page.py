"""The text of docs/reference/advise-record.md about the accuracy of the advice, and the criteria
that its rows must meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

from narrows.advise.verdict import FIGURES
from narrows.json_object import JsonObject
from validation.path_models import Criterion

CALIBRATED = range(22)
"""Numbers of the Linux paths that calibrate the intervals; these paths are not tested."""

CALIBRATED_MEASURED = range(300, 338)
"""Seeds of the measured paths that calibrate the intervals."""

ENOUGH = 60
"""Minimum number of tested paths."""

GOOD, BAD, LEFT = 0.05, 0.15, 0.05
"""Limit of a small regret, limit of a large regret, and gain below which candidates count as equal;
all are shares.
"""

PLAYED = ("goodput_mbit", "p95_ms", "again_pct", "beside_mbit", "rival_mbit")
"""The recorded metrics."""


def criteria(rows: Sequence[JsonObject], told: Sequence[JsonObject]) -> list[Criterion]:
    """All criteria with their results."""
    good = [row["regret"] <= GOOD for row in rows]
    worst = max(row["regret"] for row in rows)
    paths = len({row["name"] for row in rows})
    same = [row["left"] for row in rows if row["same"]]
    out = [
        Criterion("paths", f"{ENOUGH} at least", str(paths), paths >= ENOUGH),
        _share("utility within 5 % of the best candidate", "in 90 %", good, least=0.9),
        Criterion("largest regret", "15 % at most", f"{100 * worst:.1f} %", worst <= BAD),
        _share(
            "configuration kept if the best gain is below 5 % or not significant",
            "in 95 %",
            same,
            least=0.95,
        ),
    ]
    mean = fmean([row["regret"] for row in rows if _is_recorded(row)])
    for name in _thumbs([row for row in rows if _is_recorded(row)]):
        its = fmean([row["rules"][name] for row in rows if name in row.get("rules", {})])
        out.append(
            Criterion(
                f"{name}: mean regret",
                "more than `narrows advise`",
                f"{100 * its:.1f} %, `narrows advise` {100 * mean:.1f} %",
                its > mean,
            )
        )
    held = [row["low"] <= row["true"] <= row["high"] for row in told if row["counted"]]
    out.append(
        _share(
            "90 % intervals contain the later measurement",
            "85 to 95 %",
            held,
            least=0.85,
            most=0.95,
        )
    )
    narrow = [
        row["high"] - row["low"] <= abs(row["change"]) / 4
        for row in told
        if row["claimed"] and row["run"] == 0
    ]
    out.append(
        _share(
            "interval of the headline metric at most a quarter of the change",
            "in half or more",
            narrow,
            least=0.5,
        )
    )
    right = [row["low"] <= row["true"] <= row["high"] for row in told if row["claimed"]]
    out.append(
        _share(
            "intervals of headline metrics contain the later measurement",
            "85 % or more",
            right,
            least=0.85,
        )
    )
    return out


def _is_recorded(row: JsonObject) -> bool:
    return not row["name"].startswith("measured")


def _thumbs(rows: Sequence[JsonObject]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row.get("rules", {})))


def _share(
    name: str, asked: str, hits: Sequence[bool], *, least: float, most: float = 1.0
) -> Criterion:
    share = sum(hits) / len(hits) if hits else 0.0
    return Criterion(
        name, asked, f"{100 * share:.1f} % of {len(hits)}", bool(hits) and least <= share <= most
    )


NAMES = {
    "p95_ms": "p95 ping RTT under load",
    "again_pct": "retransmission rate",
    "rival_mbit": "goodput left to that CUBIC flow",
}
"""Names of metrics on the page."""


def markdown(rows: Sequence[JsonObject], told: Sequence[JsonObject], errors: Sequence[str]) -> str:
    """The text of the page."""
    linux_rows = [row for row in rows if row["name"].startswith("Linux")]
    live_rows = [row for row in rows if row["name"].startswith("live")]
    others = [row for row in rows if not _is_recorded(row)]
    lines = [
        "# Accuracy of recommendations", "",
        "This page compares recommendations of `narrows advise` with results of Linux and of "
        "simulated",
        "paths. `python -m validation.advise` writes it. The header of its source describes the "
        "paths.", "",
        "| paths | number | input of `narrows advise` |", "|---|---|---|",
        f"| recordings of Linux 6.12, {_range([row['runs'] for row in linux_rows])} runs of each "
        "congestion control | "
        f"{len({row['name'] for row in linux_rows})} | path parameters, three sets of goals |",
        *(
            [f"| live runs | {len({row['name'] for row in live_rows})} | path parameters, three "
             "sets of goals |"]
            if live_rows else []
        ),
        f"| simulated | {len(others)} | two measurements, one of them with a single flow |",
        f"| calibration of the intervals | {len(CALIBRATED)} recordings, "
        f"{len(CALIBRATED_MEASURED)} simulated paths, "
        "all different from those above | |", "",
        "| term | definition |", "|---|---|",
        "| utility | the [utility](advise.md#utility) by which `narrows advise` ranks candidates, "
        "mean over the runs |",
        "| regret | relative shortfall of the utility of the recommended candidate from that of "
        "the best candidate |",
        "| significant difference | the 90 % interval of the advantage of the best candidate "
        "excludes 0 |",
        "| headline metric | the metric that the first line of the recommendation names |", "",
        "| quantity | criterion | result | |", "|---|---|---|---|",
        *(
            f"| {c.name} | {c.asked} | {c.found} | {'met' if c.met else 'NOT met'} |"
            for c in criteria(rows, told)
        ), "",
        "## Comparison with rules of thumb", "",
        "A rule of thumb may select a candidate that `narrows advise` excludes, because it takes "
        "too much",
        "from CUBIC flows. For rules, the best candidate is therefore the best of all. For "
        "`narrows advise`",
        "it is the best of those that may be recommended.", "",
        "| method | mean regret | regret at most 5 % | largest regret |", "|---|---|---|---|",
        _line("`narrows advise`, Linux recordings", [row["regret"] for row in linux_rows]),
        *([_line("`narrows advise`, live runs",
        [row["regret"] for row in live_rows])] if live_rows else []),
        _line("`narrows advise`, relative to all candidates",
        [_of_all(row) for row in linux_rows + live_rows]),
        *_lines(linux_rows + live_rows),
        _line("`narrows advise`, simulated paths", [row["regret"] for row in others]),
        *_lines(others), "",
        "- *BBR above 1.5 % loss*: the rule of bpftune.",
        "- *BBR with less than 1 BDP of buffer*: summary of Cao et al., IMC 2019.",
        "- *BBR for long paths*: a common recommendation for content servers.",
        "- *cake at 90 %*: a common recommendation for home routers.", "",
        "## Intervals by metric", "",
        "| metric | intervals | containing the measurement | median of width / change |",
        "|---|---|---|---|",
    ]  # fmt: skip
    for name in PLAYED:
        mine = [row for row in told if row["name"] == name and row["counted"]]
        if mine:
            held = fmean([row["low"] <= row["true"] <= row["high"] for row in mine])
            width = median(
                [(row["high"] - row["low"]) / max(1e-9, abs(row["change"])) for row in mine]
            )
            lines.append(
                f"| {NAMES.get(name, FIGURES[name][0])} | {len(mine)} | {100 * held:.0f} % | "
                f"{width:.2f} |"
            )
    lines += [
        "",
        "## Largest regrets",
        "",
        "A measurement may leave a property of the path open. A candidate that loses more than 2 %",
        "of the utility with one of the possible values is then not recommended. The last column",
        "states such values.",
        "",
        "| path | goals | recommended | best | regret | 90 % interval | configuration kept |",
        "|---|---|---|---|---|---|---|",
    ]
    worst = sorted(rows, key=lambda row: -row["regret"])[:10]
    lines += [
        f"| {row['name']}, {row['role']}: {row['says']} | {', '.join(row['for'])} | "
        f"{row['choice']} | {row['best']} | "
        f"{100 * row['regret']:.1f} % | {_interval(row)} | {row.get('kept_for', '')} |"
        for row in worst
    ]
    if errors:
        lines += ["", "## Not inferred", "", *(f"- {error}" for error in errors)]
    return "\n".join(lines) + "\n"


def _interval(row: JsonObject) -> str:
    of = row.get("regret_of")
    return "" if of is None else f"{100 * of[0]:.1f} to {100 * of[1]:.1f} %"


def _range(of: Sequence[int]) -> str:
    return f"{min(of)} to {max(of)}" if min(of) < max(of) else str(max(of))


def _of_all(row: JsonObject) -> float:
    return float(1 - row["truth"][row["choice"]] / max(row["truth"].values()))


def _lines(rows: Sequence[JsonObject]) -> list[str]:
    """The lines about each rule of thumb."""
    thumbs = _thumbs(rows)
    return [
        _line(name, [row["rules"][name] for row in rows if name in row.get("rules", {})])
        for name in thumbs
    ]


def _line(name: str, regrets: Sequence[float]) -> str:
    within = sum(regret <= GOOD for regret in regrets) / max(1, len(regrets))
    return (
        f"| {name} | {100 * fmean(regrets):.1f} % | {100 * within:.0f} % | "
        f"{100 * max(regrets):.0f} % |"
    )
