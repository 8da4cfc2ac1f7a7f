"""Compares a study over real packets with the same study in the simulator.

    python -m validation.live_study             writes evidence/live-study.md
    python -m validation.live_study --measure   first runs the live study, ten minutes

The study is `bursty-udp --quick`: 30 runs of 20 s. Its live result is stored in
evidence/live-study.json; the simulator computes the other result anew.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from textwrap import fill

from narrows.json_object import JsonObject
from narrows.runs.run import Engine
from narrows.study.study import run
from narrows.study.tools import DATAGRAMS
from validation.stored import HERE

PAGE = HERE / "evidence/live-study.md"
STORED = HERE / "evidence/live-study.json"
RUNS = HERE.parent / "target/live-study"
"""Directory of the single runs, so that an interrupted study continues."""


def measured(engine: Engine, into: str) -> JsonObject:
    """The JSON object of the study with an engine."""
    found = run(DATAGRAMS, quick=True, engine=engine, into=into)
    if found.failures:
        sys.exit("\n".join(f"{file}: {reason}" for file, reason in found.failures))
    return found.json()


def page(simulated: JsonObject, live: JsonObject) -> str:
    """The page in Markdown."""
    duration = str(DATAGRAMS.parts(True)["buffer"].scenario.duration).replace("s", " s")
    words = [
        f"The question: {live['question']} `narrows study {live['study']} --quick` answers it with "
        f"{live['runs']} runs of {duration}. "
        "A live run that does not pass its self-check is repeated.",
        f"The verdict of the simulator: {simulated['verdict']}",
        f"The verdict over real packets: {live['verdict']}",
    ]
    lines = [
        "# A study over real packets",
        "",
        "This command writes the page from [the stored result](live-study.json):",
        "",
        "```console",
        "$ python -m validation.live_study",
        "```",
    ]
    for text in words:
        lines += ["", *fill(text, 98).splitlines()]
    for ours, theirs in zip(simulated["grids"], live["grids"], strict=True):
        unit = ours["unit"]
        rows, columns = (
            next((key, ours[key]) for key in ours if key in names)
            for names in (("sender",), ("buffer", "asked"))
        )
        lines += [
            "",
            f"## {ours['title']}",
            "",
            f"| {rows[0]}, {columns[0]} | narrows, {unit} | live, {unit} |",
            "|---|---|---|",
        ]
        for row, mine, real in zip(rows[1], ours["cells"], theirs["cells"], strict=True):
            for column, a, b in zip(columns[1], mine, real, strict=True):
                lines.append(f"| {row}, {column} | {_text(a)} | {_text(b)} |")
    return "\n".join(lines) + "\n"


def _text(value: float | None) -> str:
    """A value with two decimal places; a dash if it is missing."""
    return "–" if value is None else f"{value:.2f}"


def written() -> str:
    """The text of the page from the stored live result and a simulation."""
    with tempfile.TemporaryDirectory() as into:
        simulated = measured("sim", into)
    return page(simulated, json.loads(STORED.read_text(encoding="utf-8")))


def main() -> int:
    """Measures if requested, and writes the page."""
    parser = argparse.ArgumentParser(prog="python -m validation.live_study", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="run the live study first")
    if parser.parse_args().measure:
        live = measured("live", str(RUNS))
        STORED.write_text(json.dumps(live, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(written(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
