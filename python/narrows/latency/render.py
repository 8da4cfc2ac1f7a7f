"""Renders a result of `narrows latency` as sentences, tables, pictures and a page.

Sentences show times of 10 ms or more in ms, and shorter times in µs. A missing percentile is shown
as "–".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

from narrows import __version__
from narrows.json_object import JsonObject
from narrows.latency.model import (
    Clock,
    Count,
    DelayKey,
    LatencyJson,
    ResultJson,
    Statistic,
    TimesJson,
)
from narrows.latency.result import PARTS, PERCENTILES, cumulative, needed
from narrows.render.model import PageJson, PageRunJson, PageTableJson
from narrows.render.picture import Line, Picture, Style
from narrows.render.plot import COLOURS, GREYS, drawing
from narrows.render.report import drawn
from narrows.render.style import Style as FigureStyle
from narrows.render.tables import Cell, Table

if TYPE_CHECKING:
    from narrows.render.figure import Figure

_NONE = "–"
_MS_FROM_US = 10_000
_DASHES = ("-", "--", ":")
_SILENT_S = 1.5
"""Time without replies at the end of a measurement, in s, after which the host is reported to have
stopped replying. A reply is awaited for one second.
"""
_DRIFT_US = 1.0
"""Smallest drift of the clocks that is reported, in µs."""
_SHOWN = 12
"""Maximum number of listed episodes of slow responses."""


def span(us: float | None) -> str:
    """A time with its unit, for sentences.

    >>> span(0.42), span(21.31), span(2218.3), span(15_456.0), span(None)
    ('0.42 µs', '21.3 µs', '2218 µs', '15.5 ms', '–')
    """
    if us is None:
        return _NONE
    if us >= _MS_FROM_US:
        return f"{us / 1000:.1f} ms"
    return f"{us:.{2 if us < 10 else 1 if us < 1000 else 0}f} µs"  # noqa: PLR2004 - three digits


def named(percentile: str) -> str:
    """The usual name of a percentile.

    >>> named("p99_9")
    'p99.9'
    """
    return percentile.replace("_", ".")


def sentences(told: LatencyJson) -> list[str]:
    """The results in sentences, the most important ones first."""
    out = [_answer(told), *_round_trip(told), *_one_way(told), *_carried(told)]
    if told.get("interrupted"):
        out.append(f"The measurement was stopped after {told['lasted_s']:.1f} s.")
    silent = told["lasted_s"] - told.get("last_answer_s", told["lasted_s"])
    if silent > max(_SILENT_S, 2e-6 * told["interval_us"]):
        out.append(
            f"The host stopped replying {told['last_answer_s']:.1f} s after the start of the "
            f"measurement, which lasted {told['lasted_s']:.1f} s."
        )
    out += told.get("notes", [])
    out += _trouble(told)
    out += _slow(told)
    out += _parts(told)
    out.append(_own(told))
    return out


def _answer(told: LatencyJson) -> str:
    corrupted = told.get("corrupted", 0)
    if told["lost"] or corrupted:
        fates = [(told["lost"], "unanswered"), (corrupted, "answered with wrong content")]
        counted = " and ".join(
            f"{n:,} {'was' if n == 1 else 'were'} {what}" for n, what in fates if n
        )
        lost = f"Of {told['sent']:,} requests, {counted}."
    elif told["sent"] == 1:
        lost = "The single request was answered."
    else:
        lost = f"All {told['sent']:,} requests were answered."
    took = told["response_us"]
    if took is None:
        return lost
    missing = next(
        (p for p in PERCENTILES[: PERCENTILES.index("p99_9") + 1] if took.get(p) is None), None
    )
    rest = f" {named(missing)} needs {needed(missing):,} replies." if missing else ""
    return f"The response time was {_took(took)}. {lost}{rest}"


def _round_trip(told: LatencyJson) -> list[str]:
    return [f"The RTT was {_took(told['rtt_us'])}."] if told["rtt_us"] else []


def _one_way(told: LatencyJson) -> list[str]:
    """The delay of each direction and its variation, with a sentence about the clocks."""
    both = told.get("one_way")
    if not both:
        return []
    out = []
    delays: tuple[tuple[DelayKey, str], ...] = (
        ("delay_us", "one-way delay"),
        ("pdv_us", "delay variation (PDV, the delay above the minimum)"),
    )
    for key, what in delays:
        shown = [
            f"{_took(times)} in the {name} direction"
            for name, one in (("forward", both.get("forward")), ("reverse", both.get("reverse")))
            if one and (times := one.get(key))
        ]
        if shown:
            out.append(f"The {what} was {' and '.join(shown)}.")
    if both["clocks"] == "common":
        return [*out, "Both ends use the same clock, so the one-way delays are absolute."]
    drift = both.get("drift_us")
    moved = (
        f" The clocks drifted by {span(abs(drift))} during the measurement, which the PDV includes."
        if drift and abs(drift) >= _DRIFT_US
        else ""
    )
    return [
        *out,
        "The clocks of the hosts are not known to be synchronised, so only the variation of the "
        f"one-way delays is meaningful.{moved}",
    ]


def _carried(told: LatencyJson) -> list[str]:
    """A sentence about requests that were not datagrams."""
    carrier = told["peer"].get("carrier")
    port = told["peer"].get("port")
    if carrier == "tcp messages":
        blocked = (
            f"The host does not reply over UDP on port {port}, so the requests are "
            if told["peer"].get("speaks") == "narrows"
            else "The requests are "
        )
        return [
            f"{blocked}small messages over its TCP session. TCP retransmits lost messages, and "
            "later ones wait for them."
        ]
    if carrier == "tcp handshakes":
        return [
            f"The requests are TCP handshakes with port {port}; the reply of a closed port counts "
            "too. A handshake without a reply within 0.99 s counts as lost."
        ]
    return []


def _took(part: TimesJson) -> str:
    """The median, the percentiles from p99 on and the maximum, in words."""
    shown = [
        (named(p), part[p])
        for p in PERCENTILES
        if part.get(p) is not None and p not in {"p50", "p90"}
    ]
    most = f"max {span(part['max'])}"
    if part.get("p50") is None:
        return f"at most {span(part['max'])}"
    rest = ", ".join([*(f"{p} {span(value)}" for p, value in shown), most])
    return f"{span(part['p50'])} (median; {rest})"


def _trouble(told: LatencyJson) -> list[str]:
    kinds: dict[Count, str] = {
        "duplicates": "duplicate",
        "reordered": "reordered",
        "mismatches": "with wrong content",
        "unsent": "not sent because the send buffer was full",
        "skipped": "skipped because the client stalled",
        "refused": "refused by the far host",
        "socket_drops": "dropped by the receive buffer of this host",
    }
    of_requests = {"unsent", "skipped", "refused"}
    seen = [
        f"{told[key]:,} {'requests' if key in of_requests else 'replies'} {what}"
        for key, what in kinds.items()
        if told.get(key)
    ]
    if again := told.get("reconnections"):
        times = "once" if again == 1 else f"{again:,} times"
        seen.append(f"the server ended its session, and narrows opened a new one {times}")
    forward, reverse = told["class"].get("there"), told["class"].get("back")
    if forward is not None and reverse is not None and forward >> 2 != reverse >> 2:
        seen.append(f"requests arrived with DSCP {forward >> 2}, replies with DSCP {reverse >> 2}")
    return [f"Other events: {'; '.join(seen)}."] if seen else []


def _slow(told: LatencyJson) -> list[str]:
    slow = told["slow"]
    if slow["limit_us"] is None:
        return []
    limit = span(slow["limit_us"])
    if not slow["count"]:
        return [f"No response time exceeded {limit}."]
    blamed = sorted(slow["blamed"].items(), key=lambda item: -item[1])
    whose = ", ".join(f"{PARTS[part]} {n:,}" for part, n in blamed)
    # Results of earlier versions of narrows have no episodes.
    many = slow.get("episodes", {}).get("count", 0)
    grouped = f", in {many:,} episode{'s' * (many != 1)}" if many else ""
    plural = "s" * (slow["count"] != 1)
    said = (
        f"{slow['count']:,} response time{plural} exceeded {limit}{grouped}. Attribution of the "
        f"delay: {whose}."
    )
    listed_only = f"The table lists the {_SHOWN} episodes with the longest response times."
    return [f"{said} {listed_only}" if many > _SHOWN else said]


def _parts(told: LatencyJson) -> list[str]:
    halves = [(name, part) for key, name in PARTS.items() if (part := told["parts_us"].get(key))]
    shown = [f"{name} {span(part['p50'])}" for name, part in halves if part.get("p50") is not None]
    return [f"Median delay of each component: {', '.join(shown)}."] if shown else []


def _own(told: LatencyJson) -> str:
    late, said = told["late_us"], []
    if late is not None:
        most = f"at most {span(late['max'])}"
        usual = late.get("p50")
        said.append(
            f"requests left {most} late"
            if usual is None
            else f"requests left {span(usual)} late (median; max {span(late['max'])})"
        )
    if not told["stamps"]:
        said.append("without kernel timestamps, delays are not attributed")
    if told["contradicted"]:
        said.append(
            f"the delays of {told['contradicted']:,} replies are not attributed because their "
            "timestamps are contradictory (a clock was set, or a device sets timestamps late)"
        )
    return f"Measurement error: {'; '.join(said) or 'unknown'}."


def findings(told: ResultJson) -> list[str]:
    """Properties of the link, the device and the CPUs that affect the result, with remedies."""
    return [
        one["says"] + (f" Remedy: {one['cure']}." if one.get("cure") else "")
        for one in told.get("findings") or []
    ]


def _one_way_rows(told: LatencyJson) -> list[tuple[str, str, TimesJson | None]]:
    """Name, JSON path and times of each row about a one-way delay."""
    both = told.get("one_way")
    if not both:
        return []
    kinds: tuple[tuple[DelayKey, str], ...] = (
        ("delay_us", "one-way delay"),
        ("pdv_us", "PDV"),
        ("ipdv_us", "IPDV"),
    )
    return [
        (f"{what}, {name}", f"one_way.{name}.{key}", one.get(key))
        for key, what in kinds
        for name, one in (("forward", both.get("forward")), ("reverse", both.get("reverse")))
        if one
    ]


def figures(told: LatencyJson) -> Table:
    """A row for the response time, the RTT, the send delay, each component and each one-way
    delay.
    """
    rows = [
        ("response time", "response_us", told.get("response_us")),
        ("RTT", "rtt_us", told.get("rtt_us")),
        ("send delay", "late_us", told.get("late_us")),
        *((name, f"parts_us.{key}", told["parts_us"].get(key)) for key, name in PARTS.items()),
        *_one_way_rows(told),
    ]
    parts = [(name, path, at) for name, path, at in rows if at]
    # A percentile that is missing in all rows has no column.
    carried = [p for p in PERCENTILES if any(at.get(p) is not None for _, _, at in parts)]
    names: tuple[Statistic, ...] = ("min", "mean", *carried, "max")
    cells = []
    for name, path, at in parts:
        values = [Cell(_cell(at.get(key)), f"{path}.{key}") for key in names]
        cells.append([Cell(name), *values, Cell(f"{at['n']:,}", f"{path}.n")])
    head = tuple(f"{named(key)} µs" for key in names)
    return Table("Latency", ("time",), (*head, "replies"), cells)


def _cell(us: float | None) -> str:
    return _NONE if us is None else f"{us:.1f}"


def episodes(told: LatencyJson, most: int = _SHOWN) -> Table:
    """The episodes with the longest response times, in order of time. Overlapping slow responses
    are one episode.
    """
    # Files of earlier versions of narrows have no episodes.
    known = told["slow"].get("episodes", {"count": 0, "kept": []})
    kept = sorted(enumerate(known["kept"]), key=lambda one: -one[1]["response_us"])[:most]
    rows = []
    for place, one in sorted(kept):
        at = f"slow.episodes.kept.{place}"
        rows.append(
            [
                Cell(PARTS[one["blamed"]], f"{at}.blamed"),
                Cell(one["at"], f"{at}.at"),
                Cell(f"{one['t_s']:.6f}", f"{at}.t_s"),
                Cell(f"{one['lasted_us'] / 1000:.3f}", f"{at}.lasted_us"),
                Cell(f"{one['answers']:,}", f"{at}.answers"),
                Cell(_cell(one["response_us"]), f"{at}.response_us"),
                Cell(_cell(one["rtt_us"]), f"{at}.rtt_us"),
                Cell(_cell(one["late_us"]), f"{at}.late_us"),
            ]
        )
    left = known["count"] - len(rows)
    more = f"; {left:,} more" if left > 0 else ""
    head = (
        "time s",
        "duration ms",
        "slow responses",
        "max response time µs",
        "its RTT µs",
        "its send delay µs",
    )
    return Table(f"Episodes of slow responses{more}", ("attributed to", "start"), head, rows)


def pictures(several: Sequence[tuple[str, LatencyJson]]) -> list[Picture]:
    """Pictures of the report page: percentiles, and slow responses over time."""
    nines, slow = [], []
    for place, (name, told) in enumerate(several):
        drawn: tuple[tuple[Clock, str, Style], ...] = (
            ("response_us", "response time", "line"),
            ("rtt_us", "RTT", "dotted"),
        )
        for key, of, style in drawn:
            took = told.get(key)
            if not took:
                continue
            values, beyond = cumulative(took["histogram_ns"])
            kept = [
                (-math.log10(share), value)
                for value, share in zip(values, beyond, strict=True)
                if share > 0
            ]
            label = of if len(several) == 1 else f"{name}: {of}"
            x, y = [nines_of for nines_of, _ in kept], [value for _, value in kept]
            nines.append(Line(label, place, style, x, y))
        stored = told["slow"]["kept"]
        if stored:
            label = "slow responses" if len(several) == 1 else name
            slow.append(
                Line(
                    label,
                    place,
                    "points",
                    [s["t_s"] for s in stored],
                    [s.get("response_us") for s in stored],
                )
            )
    every = [
        Picture(
            "nines",
            "Percentiles",
            "nines of the percentile (1 is p90, 2 is p99, 3 is p99.9)",
            "µs",
            "Lines: response time at each percentile. Dotted: RTT at each percentile.",
            nines,
        ),
        Picture(
            "slow",
            "Slow responses",
            "time (s)",
            "response time (µs)",
            "Each stored slow response.",
            slow,
        ),
    ]
    return [picture for picture in every if picture.lines]


def plot(
    several: Sequence[tuple[str, LatencyJson]],
    file: str | PathLike[str] | None = None,
    *,
    style: FigureStyle | None = None,
) -> Figure:
    """Draws the complementary cumulative distribution and the histogram of response times, with
    logarithmic axes.

    Raises:
        NarrowsError: If Matplotlib is not installed.
        OutputError: If the file cannot be written.
    """
    style = style or FigureStyle()
    colours = GREYS if style.look == "print" else COLOURS
    with drawing(file, style, (9, 6.4), _kernels(several)) as figure:
        beyond, counts = figure.subplots(2, 1, sharex=True)
        # A colour for each policy, a dash for each load.
        policies = list(dict.fromkeys(name.partition(", ")[0] for name, _ in several))
        loads = list(dict.fromkeys(name.partition(", ")[2] for name, _ in several))
        for name, told in several:
            policy, _, load = name.partition(", ")
            colour = colours[policies.index(policy) % len(colours)]
            nth = loads.index(load) + (policies.index(policy) if style.look == "print" else 0)
            dash = _DASHES[nth % len(_DASHES)]
            # Files of earlier versions of narrows have RTTs but no response times.
            times = told.get("response_us") or told["rtt_us"]
            took = [] if times is None else times["histogram_ns"]
            if not took:
                continue
            values, shares = cumulative(took)
            kept = [(v, s) for v, s in zip(values, shares, strict=True) if s > 0]
            beyond.plot(
                [v for v, _ in kept],
                [s for _, s in kept],
                color=colour,
                ls=dash,
                drawstyle="steps-post",
                label=name,
            )
            edges, heights = _bars(took)
            counts.stairs(heights, edges, color=colour, ls=dash)
        for key, share in (
            ("p50", 0.5),
            ("p99", 0.01),
            ("p99.9", 0.001),
            ("p99.99", 1e-4),
            ("p99.999", 1e-5),
        ):
            beyond.axhline(share, color="#999999", linewidth=0.5, zorder=0)
            beyond.annotate(
                key,
                (1.0, share),
                xycoords=("axes fraction", "data"),
                fontsize=style.pt(7),
                va="center",
            )
        beyond.set(xscale="log", yscale="log", ylabel="share of slower responses")
        if len(several) == 1:
            beyond.set_title(_answer(several[0][1]), fontsize=style.pt(8), loc="left", wrap=True)
        counts.set(xscale="log", yscale="log", xlabel="response time (µs)", ylabel="responses")
        for ax in (beyond, counts):
            ax.grid(visible=True, linewidth=0.4, alpha=0.5)
        if len(several) > 1:
            beyond.legend(fontsize=style.pt(7), frameon=False)
    return figure


def _kernels(several: Sequence[tuple[str, LatencyJson]]) -> list[str]:
    """The kernel releases of the hosts that measured, each once."""
    return list(dict.fromkeys(told["kernel"] for _, told in several if told.get("kernel")))


def _bars(places: Sequence[Sequence[int]], per_ten: int = 25) -> tuple[list[float], list[int]]:
    """Rebins a histogram: bin edges in µs, `per_ten` per decade, and the count in each bin."""
    first = math.floor(per_ten * math.log10(max(1, places[0][0]) / 1000))
    last = math.floor(per_ten * math.log10(max(1, places[-1][0]) / 1000)) + 1
    heights = [0] * (last - first)
    for ns, count in places:
        heights[math.floor(per_ten * math.log10(max(1, ns) / 1000)) - first] += count
    return [10 ** (at / per_ten) for at in range(first, last + 1)], heights


def document(several: Sequence[tuple[str, LatencyJson]]) -> PageJson:
    """The content of the report page."""
    runs = [_run(name, told) for name, told in several]
    return {
        "narrows": __version__,
        "title": " · ".join(name for name, _ in several),
        "first": "",
        "runs": runs,
    }


def _run(name: str, told: LatencyJson) -> PageRunJson:
    said = sentences(told)
    bare: JsonObject = {
        k: v for k, v in told.items() if k not in {"rtt_us", "late_us", "response_us", "parts_us"}
    }
    bare["rtt_us"] = _bare(told["rtt_us"])
    bare["late_us"] = _bare(told["late_us"])
    bare["response_us"] = _bare(told["response_us"])
    bare["one_way"] = _bare_one_way(told)
    bare["parts_us"] = {key: _bare(part) for key, part in told["parts_us"].items()}
    return {
        "name": name,
        "answer": said[:-1],
        "sure": [said[-1], *findings(told)],
        "tables": [paged(t) for t in (figures(told), episodes(told)) if t.rows],
        "notes": [],
        "topology": None,
        **drawn(pictures([(name, told)])),
        "verdicts": None,
        "flows": [],
        "toml": "",
        "canonical": "",
        "command": f"narrows latency {told.get('host', '')} --speaks "
        f"{told['peer'].get('speaks', 'narrows')}",
        "provenance": [
            ["narrows", str(told.get("narrows", ""))],
            ["host", f"{told['peer'].get('address', '')}, port {told['peer'].get('port', '')}"],
            ["protocol", told["peer"].get("speaks", "")],
            ["started", told.get("began", "")],
            ["kernel", told.get("kernel", "")],
            ["policy", told.get("policy", "")],
        ],
        "evidence": None,
        "figures": bare,
    }


def paged(table: Table) -> PageTableJson:
    """A table in the format of the report page."""
    rows = [[[cell.text, cell.path] for cell in row] for row in table.rows]
    return {"caption": table.caption, "words": table.words, "numbers": table.numbers, "rows": rows}


def _bare_one_way(told: LatencyJson) -> JsonObject | None:
    """The one-way delays without histograms."""
    both = told.get("one_way")
    if not both:
        return None
    return {
        key: {k: _bare(times) for k, times in value.items()} if isinstance(value, dict) else value
        for key, value in both.items()
    }


def _bare(part: TimesJson | None) -> JsonObject | None:
    return None if part is None else {k: v for k, v in part.items() if k != "histogram_ns"}
