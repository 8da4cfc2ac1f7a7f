"""`narrows explain`: lessons with plots of simulations that are run by the command."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

from narrows import _core, registry
from narrows.errors import NarrowsError
from narrows.render import report, words
from narrows.render.picture import Picture
from narrows.render.pictures import pictures
from narrows.render.sketch import draw
from narrows.runs.run import Run, run
from narrows.runs.scenario import from_tree
from narrows.teach.lessons import LESSONS, Block, Lesson

if TYPE_CHECKING:
    from rich.console import Console

_ALSO = ("pacing",)
"""Plots that a lesson may show in addition to those of every run."""

_VERDICTS = 20_000

PEAKS = (
    "The peaks above the rate of the path occur when a lost packet is repaired: one ACK then "
    "covers all data that was received after it."
)
"""The sentence below such a plot of the goodput."""

_PEAK = 1.1
"""Ratio to the rate from which on a sample of the goodput is a peak."""


def _peaks(picture: Picture, start: float, end: float | None) -> bool:
    """Whether a flow exceeds the rate of the path in this time."""
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


def taught(topic: str, *, seed: int | None = None) -> tuple[Lesson, list[Run], list[Block]]:
    """Runs the scenarios of a lesson.

    Raises:
        NarrowsError: If this version lacks the queue discipline of the lesson.
    """
    lesson = LESSONS[topic]
    if lesson.needs is not None and lesson.needs not in registry.names("queue"):
        raise NarrowsError(
            f"explain {topic}: this version has no queue discipline `{lesson.needs}`"
        )
    runs = []
    for name, toml in lesson.scenarios.items():
        scenario = from_tree(_core.toml_to_tree(f'title = "{name}"\n{toml}', f"explain {topic}"))
        runs.append(
            run(scenario, seed=seed, sample_interval=lesson.sample_interval, verdicts=_VERDICTS)
        )
    names: dict[str, list[str]] = {}
    for name, one in zip(lesson.scenarios, runs, strict=True):
        names.setdefault(words.how_sure(one.json)[0], []).append(name)
    # Runs with the same sentence share it.
    every = len(names) == 1 and len(runs) > 1
    sure = [
        f"{'All runs' if every else words.listed([json.dumps(n) for n in of])}: {sentence}"
        for sentence, of in names.items()
    ]
    blocks = [*lesson.blocks([one.json for one in runs]), Block("Validation", tuple(sure))]
    return lesson, runs, blocks


def write(topic: str, file: str | PathLike[str], *, seed: int | None = None) -> None:
    """Writes a lesson as a page.

    Raises:
        NarrowsError: If this version lacks the queue discipline of the lesson.
        OutputError: If the file cannot be written.
    """
    lesson, runs, blocks = taught(topic, seed=seed)
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
    report.write(made, file)


def show(topic: str, out: Console, width: int, *, seed: int | None = None) -> None:
    """Prints a lesson with sketches."""
    lesson, runs, blocks = taught(topic, seed=seed)
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
