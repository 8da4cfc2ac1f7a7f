"""Executes `narrows explain`: runs the simulations of a lesson, and prints the lesson or writes its
page.
"""

from __future__ import annotations

import json
from os import PathLike
from typing import TYPE_CHECKING

from narrows import _core, registry
from narrows.errors import NarrowsError
from narrows.render import report, words
from narrows.runs.run import Run, run
from narrows.runs.scenario import from_tree
from narrows.teach.lessons import LESSONS, Block, Lesson
from narrows.teach.render import lesson_page, show_lesson

if TYPE_CHECKING:
    from rich.console import Console


_VERDICTS = 20_000


def taught(topic: str, *, seed: int | None = None) -> tuple[Lesson, list[Run], list[Block]]:
    """Runs the scenarios of a lesson, and returns the lesson, the runs and its sections.

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
    # Runs with the same sentence about their validation share it.
    every = len(names) == 1 and len(runs) > 1
    sure = [
        f"{'All runs' if every else words.listed([json.dumps(n) for n in of])}: {sentence}"
        for sentence, of in names.items()
    ]
    blocks = [*lesson.blocks([one.json for one in runs]), Block("Validation", tuple(sure))]
    return lesson, runs, blocks


def write(topic: str, file: str | PathLike[str], *, seed: int | None = None) -> None:
    """Writes a lesson as an HTML page.

    Raises:
        NarrowsError: If this version lacks the queue discipline of the lesson.
        OutputError: If the file cannot be written.
    """
    report.write(lesson_page(*taught(topic, seed=seed)), file)


def show(topic: str, out: Console, width: int, *, seed: int | None = None) -> None:
    """Prints a lesson, with plots drawn as text."""
    show_lesson(topic, *taught(topic, seed=seed), out, width)
