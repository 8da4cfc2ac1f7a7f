"""Renders lessons, exercises, and the two outputs of `narrows demo`.

The first output is the maps of a published experiment (`narrows.reproduce.published`). The second
is the story of one path (`narrows.teach.story`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, TextIO

from rich.table import Table as Map
from rich.text import Text

from narrows import forecasts
from narrows.advise.render import headline
from narrows.measure import render as telling
from narrows.render import report
from narrows.render.picture import Picture
from narrows.render.pictures import pictures
from narrows.render.sketch import draw
from narrows.render.tables import Cell, Table
from narrows.render.terminal import console
from narrows.reproduce import published
from narrows.reproduce.published import (
    KERNEL,
    MAPS,
    TITLE,
    Criterion,
    Gain,
    Result,
    cells,
    criteria,
    gains,
)
from narrows.teach.exercises import Exercise, Outcome, Question, wrapped
from narrows.teach.lessons import Block, Lesson

if TYPE_CHECKING:
    from rich.console import Console

    from narrows.render.model import PageJson
    from narrows.runs.run import Run
    from narrows.teach.story import Story

_ALSO = ("pacing",)
"""Plots that a lesson may show in addition to those of every run."""


PEAKS = (
    "The peaks above the rate of the path occur when a lost packet is repaired: one ACK then "
    "covers all data that was received after it."
)
"""The sentence below a plot of the goodput that has peaks above the rate of the path."""

_PEAK = 1.1
"""A sample of the goodput counts as a peak if it exceeds the rate of the path by more than this
factor."""


def _peaks(picture: Picture, start: float, end: float | None) -> bool:
    """Whether the goodput of a flow has a peak above the rate of the path in this time range."""
    rate = max(
        (y for line in picture.lines if line.style == "dotted" for y in line.y if y), default=0.0
    )
    return rate > 0 and any(
        y is not None and y > _PEAK * rate
        for line in picture.lines
        if line.style == "line"
        for x, y in zip(line.x, line.y, strict=False)
        if start <= x and (end is None or x <= end)
    )


def lesson_page(lesson: Lesson, runs: Sequence[Run], blocks: Sequence[Block]) -> PageJson:
    """The JSON document of the report page of a lesson."""
    made = report.document(runs, names=list(lesson.scenarios), title=lesson.title, also=_ALSO)
    made["lesson"] = {
        "text": lesson.intro,
        "blocks": [
            {
                "heading": block.heading,
                "text": block.text,
                "show": [
                    {"run": s.run, "key": s.key, "from": s.start, "to": s.end} for s in block.show
                ],
            }
            for block in blocks
        ],
    }
    return made


def show_lesson(  # noqa: PLR0917 - as `taught` returns it
    topic: str,
    lesson: Lesson,
    runs: Sequence[Run],
    blocks: Sequence[Block],
    out: Console,
    width: int,
) -> None:
    """Prints a lesson, with plots drawn as text."""
    drawn = [{picture.key: picture for picture in pictures(one, _ALSO)} for one in runs]
    names = list(lesson.scenarios)

    def paragraphs(texts: Sequence[str]) -> None:
        for text in texts:
            for line in textwrap.wrap(text, width):
                out.print(line, markup=False)
        out.print()

    out.print(lesson.title, style="bold")
    paragraphs(lesson.intro)
    for block in blocks:
        out.print(block.heading, style="bold")
        paragraphs(block.text)
        for part in block.show:
            picture = drawn[part.run].get(part.key)
            if picture is not None:
                lines = draw(picture, width, part.start, part.end, name=names[part.run])
                for line in lines[:-1]:
                    out.print(line, no_wrap=True, overflow="crop")
                if part.key == "throughput" and _peaks(picture, part.start, part.end):
                    for text in textwrap.wrap(PEAKS, width):
                        out.print(text, markup=False)
                out.print(lines[-1])
    hint = f"HTML report with the scenarios: narrows explain {topic} --report {topic}.html"
    out.print(hint, markup=False, soft_wrap=True)


def exercise_table(every: Sequence[Exercise]) -> Table:
    """A table with a row for each exercise."""
    rows = [
        [Cell(str(n)), Cell(one.name), Cell(one.title), Cell(_required(one))]
        for n, one in enumerate(every, 1)
    ]
    return Table("Exercises", ("no.", "name", "topic", "answer"), (), rows)


def answer_table(outcomes: Sequence[Outcome]) -> Table:
    """A table with a row for each part of an exercise: the given answer and its result."""
    rows = [
        [
            Cell(one.part),
            Cell(one.text),
            Cell("–" if one.given is None else one.given),
            Cell("right" if one.right else f"wrong: {one.why}"),
        ]
        for one in outcomes
    ]
    return Table("Answers", ("part", "question or condition", "answer", "result"), (), rows)


def _required(of: Exercise) -> str:
    n = len(of.questions)
    numbers = [f"{n} number{'s' if n > 1 else ''}"] if n else []
    return " and ".join([*numbers, *(["a scenario"] if of.conditions else [])])


def exercise_lines(of: Exercise, width: int, *, solution: bool) -> list[str]:
    """An exercise as lines of text; with `solution`, they include its solution."""
    lines = [of.title, "", *wrapped(of.text, width)]
    for question in of.questions:
        lines += wrapped(f"{question.id}: {question.text}", width)[:-1]
    if of.questions:
        lines.append("")
    if of.conditions:
        lines += ["Hand in a scenario with:"]
        lines += [f"- {one.text}" for one in of.conditions]
        lines += [f"- all keys unchanged except {', '.join(of.may_change)}"]
        lines.append("")
    if of.scenario:
        lines += ["Scenario:", *(f"  {line}".rstrip() for line in of.scenario.strip().split("\n"))]
        lines.append("")
    lines += [f"Read: {of.source}"]
    words = [f"{question.id}=NUMBER" for question in of.questions]
    words += ["--file FILE"] if of.conditions else []
    lines += [f"Check: narrows exercise check {of.name} {' '.join(words)}"]
    if solution:
        lines += ["", "Solution:", *wrapped(of.solution, width)[:-1]]
        lines += [f"Accepted: {_accepted(of)}"] if of.questions else []
        lines += [f"Right scenario: replace `{a}` by `{b}`" for a, b in of.change]
    return lines


def _accepted(of: Exercise) -> str:
    def span(one: Question) -> str:
        ends = f"{one.low:g}" if one.low == one.high else f"{one.low:g} to {one.high:g}"
        return f"{one.id} {ends} {one.unit}".strip()

    return ", ".join(span(one) for one in of.questions)


def short(mbit: float) -> str:
    """A rate in Mbit/s as short text: one digit after the point below 9.95, otherwise none.

    >>> short(9.56), short(47.83), short(956.6)
    ('9.6', '48', '957')
    """
    return f"{mbit:.1f}" if mbit < 9.95 else f"{mbit:.0f}"  # noqa: PLR2004


def percent(share: float) -> str:
    """A gain in whole percent, with a minus sign if it is negative.

    >>> percent(1.149), percent(-0.3), percent(-0.001)
    ('115', '-30', '0')
    """
    return str(round(100 * share))


def show_maps(
    results: Sequence[Result], wall_s: float, stream: TextIO | None = None, *, goodput: bool = False
) -> None:
    """Prints the maps of the published experiment, conclusions, and the criteria of agreement."""
    out = console(stream)
    print_ = out.print
    print_(f"{TITLE}.", style="bold")
    print_("Gain of BBR over CUBIC, in % of the goodput of CUBIC: narrows|published.", legend())
    every = gains(results)
    for buffer_kib in sorted({g.bbr.cell.buffer_kib for g in every}):
        here = [g for g in every if g.bbr.cell.buffer_kib == buffer_kib]
        print_()
        print_(f"Buffer {_buffer(buffer_kib)}", style="bold")
        print_(_map(here, _gain))
        print_(lesson(here))
    for cc in MAPS[KERNEL] if goodput else ():
        for buffer_kib in sorted({r.cell.buffer_kib for r in results}):
            mine = [r for r in results if (r.cell.cc, r.cell.buffer_kib) == (cc, buffer_kib)]
            print_()
            print_(
                f"Goodput of {cc.upper()} in Mbit/s, narrows|published, buffer "
                f"{_buffer(buffer_kib)}",
                style="bold",
            )
            print_(_map(mine, _goodput))
    print_()
    for criterion in criteria(results):
        print_(verdict(criterion), style="green" if criterion.met else "red")
    packets = sum(r.goodput_mbit for r in results) * 60e6 / 8 / 1448
    print_(
        f"{len(results)} connections of 60 s, {packets / 1e6:.0f} million segments, in "
        f"{wall_s:.1f} s."
    )


def legend() -> Text:
    """The legend of colours and marks in the maps."""
    return Text.assemble(
        ("Green", "green"),
        ": BBR leads. ",
        ("Magenta", "magenta"),
        ": CUBIC leads. ",
        ("Grey", "dim"),
        ": both gains are below 10 %. ",
        ("!", "red"),
        ": disagrees with the publication.",
    )


def _buffer(kib: int) -> str:
    return f"{kib} KiB" if kib < 1000 else f"{kib // 1000} {kib % 1000:03} KiB"  # noqa: PLR2004


def _gain(gain: Gain) -> tuple[published.Cell, str, str]:
    mark = " " if gain.agrees else "!"
    style = (
        "red"
        if not gain.agrees
        else "dim"
        if not gain.clear
        else "green"
        if gain.ours > 0
        else "magenta"
    )
    return gain.bbr.cell, f"{percent(gain.ours)}|{percent(gain.published)}{mark}", style


def _goodput(result: Result) -> tuple[published.Cell, str, str]:
    mark = " " if result.agrees else "!"
    text = f"{short(result.goodput_mbit)}|{short(result.cell.goodput_mbit)}{mark}"
    return result.cell, text, "green" if result.agrees else "red"


def _map(items: Sequence[Any], told: Callable[[Any], tuple[published.Cell, str, str]]) -> Map:
    """A map with a row for each rate and a column for each RTT."""
    table = Map(box=None, padding=(0, 0, 0, 1), pad_edge=False, header_style="bold")
    table.add_column("Mbit/s", justify="right", style="bold")
    rtts = sorted({c.rtt_ms for c in cells()})
    for rtt_ms in rtts:
        table.add_column(f"{rtt_ms} ms ", justify="right", no_wrap=True)
    by_place = {
        (cell.rate_mbit, cell.rtt_ms): (text, style) for cell, text, style in map(told, items)
    }
    for rate_mbit in sorted({rate for rate, _ in by_place}):
        row = [Text(*by_place.get((rate_mbit, rtt_ms), ("· ", ""))) for rtt_ms in rtts]
        table.add_row(str(rate_mbit), *row)
    return table


def lesson(here: Sequence[Gain]) -> str:
    """The conclusion from the map of one buffer size, as text."""
    buffer = _buffer(here[0].bbr.cell.buffer_kib)
    most = max(here, key=lambda g: g.ours)
    cell = most.bbr.cell
    if most.clear and most.ours > 1:
        again = median(
            r.retransmits / max(1.0, r.goodput_mbit * 60e6 / 8 / 1448)
            for r in (g.bbr for g in here)
        )
        return (
            f"With a buffer of {buffer}, CUBIC has little goodput on paths with a large "
            "bandwidth-delay product. At "
            f"{cell.rate_mbit} Mbit/s and {cell.rtt_ms} ms, the buffer holds "
            f"{100 * cell.buffer_bdp:.1f} % of a BDP; "
            f"CUBIC has {short(most.cubic.goodput_mbit)} Mbit/s (published "
            f"{short(most.cubic.cell.goodput_mbit)}), "
            f"BBR {short(most.bbr.goodput_mbit)} Mbit/s (published {short(cell.goodput_mbit)}). "
            "The median "
            f"retransmission rate of BBR is {100 * again:.1f} %."
        )
    slowest = max(here, key=lambda g: _waited_s(g.cubic))
    return (
        f"With a buffer of {buffer}, the gain of BBR is {percent(min(g.ours for g in here))} to "
        f"{percent(most.ours)} %. At {slowest.cubic.cell.rate_mbit} Mbit/s and "
        f"{slowest.cubic.cell.rtt_ms} ms, the "
        f"mean queueing delay is {_waited_s(slowest.cubic):.1f} s with CUBIC and "
        f"{_waited_s(slowest.bbr):.2f} s with "
        "BBR."
    )


def _waited_s(result: Result) -> float:
    return max(0.0, result.rtt_ms - result.cell.rtt_ms) / 1000


def verdict(criterion: Criterion) -> str:
    """A criterion in a sentence.

    >>> verdict(Criterion(name="buffer of one BDP or more: within 10 %", cells=69, agree=69,
    ...     share=1.0))
    'Buffer of one BDP or more: within 10 % in 69 of 69 cells (69 needed): met.'
    """
    return (
        f"{criterion.name[0].upper()}{criterion.name[1:]} in {criterion.agree} of "
        f"{criterion.cells} cells "
        f"({criterion.needed} needed): {'met' if criterion.met else 'not met'}."
    )


def story_sentences(told: Story) -> list[str]:
    """The summary of the story: goodput and RTT before and after the change, the outcome of the
    forecast, and the effect on others.
    """
    before, after = forecasts.seen(told.before, "up"), forecasts.seen(told.after, "up")
    out = []
    if before.get("rate_mbit") and "rate_mbit" in after:
        out.append(
            f"Goodput: {before['rate_mbit']:.1f} Mbit/s before, {after['rate_mbit']:.1f} Mbit/s "
            "after."
        )
    if "loaded_p95_ms" in before and "loaded_p95_ms" in after:
        out.append(
            f"RTT under load (p95): {before['loaded_p95_ms']:.0f} ms before, "
            f"{after['loaded_p95_ms']:.0f} ms after."
        )
    hits = sum(one["hit"] for one in told.judged)
    out.append(f"The sealed forecast was correct for {hits} of {len(told.judged)} figures.")
    price = told.advice.price
    if price.kept_pct is not None and not told.advice.leave:
        out.append(
            f"Effect on others: a competing CUBIC flow keeps {price.kept_pct:.0f} % of the "
            "goodput that it has beside another CUBIC flow."
        )
    return out


def story_page(told: Story, path: str) -> PageJson:
    """The JSON document of a report page with a summary and both measurements. `path` is a
    description of the path.
    """
    names = ["before, cubic", f"after, {told.advice.choice.cc or 'cubic'}"]
    made = telling.document([told.before, told.after], names)
    first = " ".join([f"The path: {path}.", headline(told.advice), *story_sentences(told)])
    made["title"] = "narrows: measurement, advice, change, measurement"
    made["first"] = first
    return made
