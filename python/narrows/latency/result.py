"""How long one answer takes, and whose delay it is: what `narrows-host latency` measured, for
people to read.

Only shows: every figure is the program's own. The headline, the slow answers and the episodes use
one clock, from when a question was due to its answer; the time from sent to answer, which leaves
out how late questions left, is beside it. Times are µs in JSON, in tables and in sentences, from 10
ms on ms in sentences. A percentile that its sample cannot carry (fewer than ten answers beyond it)
is `None` and is shown as "–".
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from narrows import __version__
from narrows.errors import NarrowsError
from narrows.host import live
from narrows.render.pictures import Line, Picture, Style
from narrows.render.plot import COLOURS, check, matplotlib, write
from narrows.render.report import drawn
from narrows.render.tables import Cell, Table
from narrows.runs.scenario import name_of, unread
from narrows.storage import json_kinds as kinds
from narrows.storage import untrusted_input
from narrows.storage.json_kinds import amount, flag, number, rows, table, text, whole, word

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Json = dict[str, Any]

PARTS = {
    "client_application": "the client's application",
    "client_kernel": "the client's kernel",
    "wire": "the wire",
    "server_kernel": "the server's kernel",
    "server_application": "the server's application",
    "server": "the server",
    "beyond": "wire and server",
}
"""Whose a delay can be. The last two are what a protocol does not tell apart."""

PERCENTILES = ("p50", "p90", "p99", "p99_9", "p99_99", "p99_999")
BEYOND = 10
"""So many answers lie beyond a percentile that is told."""

_NONE = "–"
_NOTHING: Json = {"histogram_ns": []}
_MS_FROM_US = 10_000
_DASHES = ("-", "--", ":")
_SILENT_S = 1.5
"""Without an answer for longer, at the end, the far end is gone; an answer is awaited for a
second.
"""
_SHOWN = 12
"""So many episodes of slow answers are listed."""

Tell = Callable[[float, str], object]
"""Told now and then how far it is, 0 to 1, and how it stands, in words."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after the first answers: what was seen until then.

    Attributes:
        told: The outcome so far.
    """

    def __init__(self, told: Json) -> None:
        """With what there is."""
        super().__init__()
        self.told = told


def measure(host: str, arguments: Sequence[str] = (), *, tell: Tell | None = None) -> Json:
    """Measures; answers the outcome.

    Args:
        host: A name or an address.
        arguments: Options of `narrows-host latency`.
        tell: Called now and then; what it raises stops the measurement.

    Raises:
        EngineError: If it cannot be measured.
        Interrupted: If the user stopped it, with what was seen: to whoever does not look it is
            Ctrl-C like any other.
    """
    share = 0.0

    def each(line: list[str]) -> None:
        nonlocal share
        match line:
            case ["progress", now, end]:
                share = float(now) / max(float(end), 1e-9)
            case ["live", answered, lost, median, most] if tell is not None:
                said = (
                    f"{int(answered):,} answers, {lost} lost, half within {median} µs, slowest "
                    f"{most} µs"
                )
                tell(share, said)

    told = dict(json.loads(live.stream(["latency", host, *arguments], each)))
    if told["interrupted"]:
        raise Interrupted(told)
    return told


def read(file: str | PathLike[str]) -> Json:
    """Of a file that `narrows latency --json` wrote.

    Raises:
        NarrowsError: If it is none.
    """
    name = name_of(file)
    try:
        told = kinds.parse(untrusted_input.read(file, untrusted_input.MOST_DATA_BYTES))
    except OSError as error:
        raise NarrowsError(unread(file, error)) from error
    except ValueError as error:
        raise NarrowsError(f"{name}: no outcome of narrows latency ({error})") from error
    if not isinstance(told, dict) or told.get("kind") != "latency":
        raise NarrowsError(f"{name}: no outcome of narrows latency")
    kinds.check(told, _RESULT, name)
    return _filled(told)


def _filled(told: Json) -> Json:
    """A result of an earlier version, or one that somebody has shortened, with the keys that all
    results have.
    """
    known = {key: value for key, value in told.items() if value is not None}
    slow = _EMPTY["slow"] | {
        key: value for key, value in known.get("slow", {}).items() if value is not None
    }
    slow["blamed"] = {part: many for part, many in slow["blamed"].items() if many is not None}
    return _EMPTY | known | {"slow": slow}


def _places(value: Any, place: str) -> None:  # noqa: ANN401 - any JSON value
    """A histogram: pairs of a span in ns and how many took that long, the spans ascending."""
    kinds.rows(kinds.rows(kinds.whole, least=2), least=1)(value, place)
    before = -1
    for at, (ns, many, *_) in enumerate(value):
        if ns <= before or not many:
            needed = "a larger span than the one before, and a count above zero, are needed"
            raise kinds.KindError(f"{place}[{at}]", needed)
        before = ns


_TIMES = table(
    {
        **dict.fromkeys(("min", "mean", "max", *PERCENTILES), amount),
        "n": whole,
        "histogram_ns": _places,
    },
    required=("n", "min", "mean", "max", "histogram_ns"),
)
_WHOSE = word(*PARTS)
_SLOW = table(
    {
        "t_s": number,
        "blamed": _WHOSE,
        "at": text,
        **dict.fromkeys(("response_us", "rtt_us", "late_us"), amount),
    },
    required=("t_s",),
)
_EPISODE = table(
    {
        "t_s": number,
        "blamed": _WHOSE,
        "at": text,
        "answers": whole,
        **dict.fromkeys(("lasted_us", "response_us", "rtt_us", "late_us"), amount),
    },
    required=("t_s", "blamed", "at", "answers", "lasted_us", "response_us", "rtt_us", "late_us"),
)
_CLASS = table(dict.fromkeys(("there", "back"), whole))
_RESULT = table(
    {
        "kind": text,
        "host": text,
        "narrows": text,
        "began": text,
        "kernel": text,
        "policy": text,
        "pace": text,
        "interrupted": flag,
        "stamps": flag,
        "lasted_s": amount,
        "last_answer_s": amount,
        "interval_us": amount,
        "size_bytes": whole,
        **dict.fromkeys(
            (
                "sent",
                "lost",
                "corrupted",
                "duplicates",
                "reordered",
                "mismatches",
                "unsent",
                "skipped",
                "refused",
                "socket_drops",
                "reconnections",
                "contradicted",
            ),
            whole,
        ),
        "peer": table({"speaks": text, "address": text, "port": whole}),
        "class": _CLASS,
        "rtt_us": _TIMES,
        "response_us": _TIMES,
        "late_us": _TIMES,
        "parts_us": table(dict.fromkeys(PARTS, _TIMES)),
        "slow": table(
            {
                "limit_us": amount,
                "count": whole,
                "blamed": table(dict.fromkeys(PARTS, whole), others=_WHOSE),
                "kept": rows(_SLOW),
                "episodes": table(
                    {"count": whole, "kept": rows(_EPISODE)}, required=("count", "kept")
                ),
            }
        ),
        "findings": rows(table({"says": text, "cure": text}, required=("says",))),
    },
    required=("sent", "lost"),
)
"""What is used of a result."""

_EMPTY: Json = {
    "rtt_us": None,
    "response_us": None,
    "late_us": None,
    "parts_us": {},
    "class": {},
    "peer": {},
    "corrupted": 0,
    "interrupted": False,
    "stamps": True,
    "contradicted": 0,
    "lasted_s": 0.0,
    "interval_us": 0.0,
    "findings": [],
    "slow": {
        "limit_us": None,
        "count": 0,
        "blamed": {},
        "kept": [],
        "episodes": {"count": 0, "kept": []},
    },
}
"""What results of earlier versions lack, and files that somebody has shortened."""


def span(us: float | None) -> str:
    """A span with its unit, as sentences have it.

    >>> span(0.42), span(21.31), span(2218.3), span(15_456.0), span(None)
    ('0.42 µs', '21.3 µs', '2218 µs', '15.5 ms', '–')
    """
    if us is None:
        return _NONE
    if us >= _MS_FROM_US:
        return f"{us / 1000:.1f} ms"
    return f"{us:.{2 if us < 10 else 1 if us < 1000 else 0}f} µs"  # noqa: PLR2004 - three digits


def named(percentile: str) -> str:
    """A percentile's name as people write it.

    >>> named("p99_9")
    'p99.9'
    """
    return percentile.replace("_", ".")


def needed(percentile: str) -> int:
    """How many answers carry it.

    >>> needed("p50"), needed("p99"), needed("p99_999")
    (20, 1000, 1000000)
    """
    return round(BEYOND / (1 - float(percentile[1:].replace("_", ".")) / 100))


def sentences(told: Json) -> list[str]:
    """The answer first, then what belongs to it."""
    out = [_answer(told), *_round_trip(told)]
    out += [f"It was stopped after {told['lasted_s']:.1f} s."] if told.get("interrupted") else []
    silent = told["lasted_s"] - told.get("last_answer_s", told["lasted_s"])
    if silent > max(_SILENT_S, 2e-6 * told["interval_us"]):
        out.append(
            f"Nothing was answered any more from {told['last_answer_s']:.1f} s on, of "
            f"{told['lasted_s']:.1f} s."
        )
    out += _trouble(told)
    out += _slow(told)
    out += _parts(told)
    out.append(_own(told))
    return out


def _answer(told: Json) -> str:
    corrupted = told.get("corrupted", 0)
    if told["lost"] or corrupted:
        fates = [(told["lost"], "not answered"), (corrupted, "answered with wrong bytes only")]
        counted = " and ".join(f"{n:,} were {what}" for n, what in fates if n)
        lost = f"Of {told['sent']:,} questions {counted}"
    elif told["sent"] == 1:
        lost = "The one question was answered"
    else:
        lost = f"All {told['sent']:,} questions were answered"
    took = told["response_us"]
    if took is None:
        return f"{lost}."
    missing = next(
        (p for p in PERCENTILES[: PERCENTILES.index("p99_9") + 1] if took.get(p) is None), None
    )
    rest = f" {named(missing)} would need {needed(missing):,} answers." if missing else ""
    return f"{lost}. Due to answer: {_took(took)}.{rest}"


def _round_trip(told: Json) -> list[str]:
    return [f"Sent to answer (round trip): {_took(told['rtt_us'])}."] if told["rtt_us"] else []


def _took(part: Json) -> str:
    """Half, the carried percentiles and the slowest."""
    within = [
        (p, part[p]) for p in PERCENTILES if part.get(p) is not None and p not in {"p50", "p90"}
    ]
    words = [f"half took at most {span(part['p50'])}"] if part.get("p50") is not None else []
    words += [f"{named(p)[1:]} % at most {span(value)}" for p, value in within]
    return ", ".join([*words, f"the slowest {span(part['max'])}"])


def _trouble(told: Json) -> list[str]:
    kinds = {
        "duplicates": "came twice",
        "reordered": "came after a later one",
        "mismatches": "answers had wrong bytes",
        "unsent": "questions had no room to leave",
        "skipped": "questions were not asked, for the client stood still",
        "refused": "times the far end's host refused",
        "socket_drops": "answers came and found no room",
    }
    seen = [f"{told[key]:,} {what}" for key, what in kinds.items() if told.get(key)]
    if again := told.get("reconnections"):
        times = "once" if again == 1 else f"{again:,} times"
        seen.append(f"the far end had gone, and the session was opened again {times}")
    there, back = (told["class"].get(key) for key in ("there", "back"))
    if there is not None and back is not None and there >> 2 != back >> 2:
        seen.append(f"questions arrived with code point {there >> 2}, answers with {back >> 2}")
    return [f"Besides: {'; '.join(seen)}."] if seen else []


def _slow(told: Json) -> list[str]:
    slow = told["slow"]
    if slow["limit_us"] is None:
        return []
    limit = span(slow["limit_us"])
    if not slow["count"]:
        return [f"No answer was slow (came more than {limit} after its question was due)."]
    blamed = sorted(slow["blamed"].items(), key=lambda item: -item[1])
    whose = ", ".join(f"{n:,} for {PARTS[part]}" for part, n in blamed)
    # Results of earlier versions have none.
    many = slow.get("episodes", {}).get("count", 0)
    grouped = f" in {many:,} episode{'s' * (many != 1)}" if many else ""
    said = (
        f"{slow['count']:,} answers were slow{grouped} (came more than {limit} after their "
        f"question was due): {whose}."
    )
    listed_only = f"The {_SHOWN} episodes with the slowest answers are listed."
    return [f"{said} {listed_only}" if many > _SHOWN else said]


def _parts(told: Json) -> list[str]:
    halves = [
        (name, told["parts_us"][key]) for key, name in PARTS.items() if told["parts_us"].get(key)
    ]
    shown = [f"{name} {span(part['p50'])}" for name, part in halves if part.get("p50") is not None]
    return [f"Where the time went, of half of them at most: {', '.join(shown)}."] if shown else []


def _own(told: Json) -> str:
    late, said = told["late_us"], []
    if late is not None:
        most = f"at most {span(late['max'])}"
        usual = late.get("p50")
        said.append(
            f"questions left {most} late"
            if usual is None
            else f"questions left {span(usual)} late (median; {most})"
        )
    if not told["stamps"]:
        said.append("without the kernel's stamps nobody is blamed")
    if told["contradicted"]:
        said.append(
            f"{told['contradicted']:,} answers have stamps that contradict each other, as when a "
            "clock is set or a "
            "device stamps late: nobody is blamed for these"
        )
    return f"Its own error: {'; '.join(said) or 'not known'}."


def findings(told: Json) -> list[str]:
    """What around it decides the outcome: the link, the device, the processors; with the cure."""
    return [
        one["says"] + (f" Cure: {one['cure']}." if one.get("cure") else "")
        for one in told.get("findings") or []
    ]


def figures(told: Json) -> Table:
    """A row for round trips, for what lies around them, and for each part."""
    rows = [
        ("due to answer", "response_us"),
        ("sent to answer", "rtt_us"),
        ("sent late", "late_us"),
        *((name.removeprefix("the "), f"parts_us.{key}") for key, name in PARTS.items()),
    ]
    parts: list[tuple[str, str, Json]] = []
    for name, path in rows:
        at = told
        for step in path.split("."):
            at = (at or {}).get(step)  # type: ignore[assignment]
        if at:
            parts.append((name, path, at))
    # A percentile that no row carries has no column.
    carried = [p for p in PERCENTILES if any(at.get(p) is not None for _, _, at in parts)]
    names = ("min", "mean", *carried, "max")
    cells = []
    for name, path, at in parts:
        values = [Cell(_cell(at.get(key)), f"{path}.{key}") for key in names]
        cells.append([Cell(name), *values, Cell(f"{at['n']:,}", f"{path}.n")])
    head = tuple(f"{named(key)} µs" for key in names)
    return Table("Latency", ("",), (*head, "answers"), cells)


def _cell(us: float | None) -> str:
    return _NONE if us is None else f"{us:.1f}"


def episodes(told: Json, most: int = _SHOWN) -> Table:
    """The episodes with the slowest answers, in time: slow answers awaited at the same time are one
    episode.
    """
    # Files of earlier versions have none.
    known = told["slow"].get("episodes", {"count": 0, "kept": []})
    kept = sorted(enumerate(known["kept"]), key=lambda one: -one[1]["response_us"])[:most]
    rows = []
    for place, one in sorted(kept):
        at = f"slow.episodes.kept.{place}"
        rows.append(
            [
                Cell(PARTS[one["blamed"]].removeprefix("the "), f"{at}.blamed"),
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
        "after s",
        "lasted ms",
        "slow answers",
        "slowest: due to answer µs",
        "sent to answer µs",
        "sent late µs",
    )
    return Table(f"Episodes of slow answers{more}", ("whose delay", "began"), head, rows)


def cumulative(places: Sequence[Sequence[int]]) -> tuple[list[float], list[float]]:
    """Of a histogram's places (ns, count): values in µs, and which share of all is beyond each.

    >>> cumulative([[1000, 3], [2000, 1]])
    ([1.0, 2.0], [0.25, 0.0])
    """
    total = sum(count for _, count in places)
    left, values, shares = total, [], []
    for ns, count in places:
        left -= count
        values.append(ns / 1000)
        shares.append(left / total)
    return values, shares


def pictures(several: Sequence[tuple[str, Json]]) -> list[Picture]:
    """For the page: percentiles by their nines, and when slow answers came."""
    nines, slow = [], []
    for place, (name, told) in enumerate(several):
        drawn: tuple[tuple[str, str, Style], ...] = (
            ("response_us", "due to answer", "line"),
            ("rtt_us", "sent to answer", "dotted"),
        )
        for key, of, style in drawn:
            if not told.get(key):
                continue
            values, beyond = cumulative(told[key]["histogram_ns"])
            kept = [
                (-math.log10(share), value)
                for value, share in zip(values, beyond, strict=True)
                if share > 0
            ]
            label = of if len(several) == 1 else f"{name}: {of}"
            x, y = [nines_of for nines_of, _ in kept], [value for _, value in kept]
            nines.append(Line(label, place, style, x, y))
        kept = told["slow"]["kept"]
        if kept:
            label = "slow answers" if len(several) == 1 else name
            slow.append(
                Line(
                    label,
                    place,
                    "points",
                    [s["t_s"] for s in kept],
                    [s.get("response_us") for s in kept],
                )
            )
    every = [
        Picture(
            "nines",
            "Percentiles",
            "nines of the percentile (1 is p90, 2 is p99, 3 is p99.9)",
            "µs",
            "From due to answer at each percentile; dotted, from sent to answer.",
            nines,
        ),
        Picture(
            "slow",
            "Slow answers",
            "time (s)",
            "due to answer (µs)",
            "Each slow answer that was kept.",
            slow,
        ),
    ]
    return [picture for picture in every if picture.lines]


def plot(several: Sequence[tuple[str, Json]], file: str | PathLike[str] | None = None) -> Figure:
    """Draws how many answers took longer than so long, both axes in powers of ten, and how many
    took how long.

    Raises:
        NarrowsError: If Matplotlib is not installed.
        OutputError: If the file cannot be written.
    """
    mpl = matplotlib()
    format_ = check(file) if file is not None else None
    from matplotlib.figure import Figure as New  # noqa: PLC0415

    with mpl.rc_context({"svg.hashsalt": "narrows", "font.size": 9, "axes.titlesize": 9}):
        figure = New(figsize=(9, 6.4), layout="constrained")
        beyond, counts = figure.subplots(2, 1, sharex=True)
        # A colour for each policy, a dash for each load.
        policies = list(dict.fromkeys(name.partition(", ")[0] for name, _ in several))
        loads = list(dict.fromkeys(name.partition(", ")[2] for name, _ in several))
        for name, told in several:
            policy, _, load = name.partition(", ")
            colour = COLOURS[policies.index(policy) % len(COLOURS)]
            dash = _DASHES[loads.index(load) % len(_DASHES)]
            # Files of earlier versions have round trips only.
            took = (told.get("response_us") or told["rtt_us"] or _NOTHING)["histogram_ns"]
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
                key, (1.0, share), xycoords=("axes fraction", "data"), fontsize=7, va="center"
            )
        beyond.set(xscale="log", yscale="log", ylabel="share of answers beyond")
        if len(several) == 1:
            beyond.set_title(_answer(several[0][1]), fontsize=8, loc="left", wrap=True)
        counts.set(xscale="log", yscale="log", xlabel="due to answer (µs)", ylabel="answers")
        for ax in (beyond, counts):
            ax.grid(visible=True, linewidth=0.4, alpha=0.5)
        if len(several) > 1:
            beyond.legend(fontsize=7, frameon=False)
        if file is not None:
            write(figure, file, format_)
    return figure


def _bars(places: Sequence[Sequence[int]], per_ten: int = 25) -> tuple[list[float], list[int]]:
    """Of a histogram's places: edges in µs, so many to each power of ten, and how many lie between
    two.
    """
    first = math.floor(per_ten * math.log10(max(1, places[0][0]) / 1000))
    last = math.floor(per_ten * math.log10(max(1, places[-1][0]) / 1000)) + 1
    heights = [0] * (last - first)
    for ns, count in places:
        heights[math.floor(per_ten * math.log10(max(1, ns) / 1000)) - first] += count
    return [10 ** (at / per_ten) for at in range(first, last + 1)], heights


def hlog(several: Sequence[tuple[str, Json]]) -> str:
    """HdrHistogram's log: a line for each; unit: nanoseconds."""
    from narrows.files.hdr import encode_counts, head  # noqa: PLC0415

    lines = head("round-trip times", "nanoseconds")
    for name, told in several:
        tag = "".join(c if c.isalnum() else "_" for c in name)
        rtt = told["rtt_us"]
        if rtt is None:
            continue
        packed = encode_counts(dict(rtt["histogram_ns"]))
        lines.append(f"Tag={tag},0.000,{told['lasted_s']:.3f},{rtt['max'] / 1000:.3f},{packed}")
    return "\n".join(lines) + "\n"


def document(several: Sequence[tuple[str, Json]]) -> Json:
    """What the report page shows."""
    runs = [_run(name, told) for name, told in several]
    return {
        "narrows": __version__,
        "title": " · ".join(name for name, _ in several),
        "first": "",
        "runs": runs,
    }


def _run(name: str, told: Json) -> Json:
    said = sentences(told)
    bare = {
        k: v for k, v in told.items() if k not in {"rtt_us", "late_us", "response_us", "parts_us"}
    }
    for key in ("rtt_us", "late_us", "response_us"):
        bare[key] = _bare(told[key])
    bare["parts_us"] = {key: _bare(part) for key, part in told["parts_us"].items()}
    return {
        "name": name,
        "answer": said[:-1],
        "sure": [said[-1], *findings(told)],
        "tables": [paged(t) for t in (figures(told), episodes(told)) if t.rows],
        "notes": [],
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
            *(
                [key if key != "began" else "started", told.get(key, "")]
                for key in ("began", "kernel", "policy")
            ),
        ],
        "evidence": None,
        "figures": bare,
    }


def paged(table: Table) -> Json:
    """A table as the report page has it."""
    rows = [[[cell.text, cell.path] for cell in row] for row in table.rows]
    return {"caption": table.caption, "words": table.words, "numbers": table.numbers, "rows": rows}


def _bare(part: Json | None) -> Json | None:
    return None if part is None else {k: v for k, v in part.items() if k != "histogram_ns"}
