"""Renders the report of `narrows-host doctor` about live runs on this machine."""

from __future__ import annotations

import json

from narrows.host import live
from narrows.host.model import DoctorJson
from narrows.render.terminal import console
from narrows.runs.run import Progress

_MARKS = {"good": "good", "poor": "poor", "missing": "MISSING"}


def examine(progress: Progress | None = None) -> DoctorJson:
    """Examines this machine, which takes some seconds, and returns the report.

    Raises:
        EngineError: If the operating system is not Linux.
    """
    found: DoctorJson = json.loads(live.ask("doctor", "--stream", progress=progress))
    return found


def lines(found: DoctorJson) -> list[str]:
    r"""One line per result, with its remedy in the next line; the verdict is last.

    >>> tick = {"what": "tick", "grade": "good", "found": "250 Hz", "cure": ""}
    >>> slow = {"what": "idle wake-up", "grade": "poor", "found": "p50 300 µs",
    ...     "cure": "less sleep"}
    >>> print("\n".join(lines({"findings": [tick, slow], "verdict": "live runs of any RTT"})))
    good     tick          250 Hz
    poor     idle wake-up  p50 300 µs
                           to improve: less sleep
    This machine supports live runs of any RTT.
    """
    wide = max(len(finding["what"]) for finding in found["findings"])
    told = []
    for finding in found["findings"]:
        told.append(f"{_MARKS[finding['grade']]:<8} {finding['what']:<{wide}}  {finding['found']}")
        if finding["cure"]:
            told.append(f"{'':<8} {'':<{wide}}  to improve: {finding['cure']}")
    return [*told, f"This machine supports {found['verdict']}."]


def show(found: DoctorJson) -> None:
    """Prints it for a person."""
    out = console()
    for line in lines(found):
        out.print(line, markup=False, soft_wrap=True)
