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
                out.print(f"{names[part.run]}:", markup=False)
                for line in draw(picture, width, part.start, part.end):
                    out.print(line, no_wrap=True, overflow="crop")
    hint = f"HTML report with the scenarios: narrows explain {topic} --report {topic}.html"
    out.print(hint, markup=False, soft_wrap=True)
