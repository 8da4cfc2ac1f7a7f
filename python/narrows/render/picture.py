"""A picture of results and its lines, whatever draws it, and the names of a run's pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

MOST_FLOWS = 24
"""Maximum number of flows that are drawn: eight colours, three kinds of line."""

Style = Literal["line", "dashed", "dotted", "points"]
"""How a line is drawn."""


@dataclass(frozen=True)
class Line:
    """One curve; y is None where nothing was measured.

    Attributes:
        label: Its label in the legend.
        flow: Index of the flow whose colour it has; None if it belongs to no flow.
        style: The kind of line.
        x: Values of the x axis in the unit of the picture, ascending.
        y: Values of the y axis in the unit of the picture.
        low: Lower ends of the 95 % confidence intervals of y, if it is a mean over runs.
        high: Upper ends of these intervals.
    """

    label: str
    flow: int | None
    style: Style
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None


@dataclass(frozen=True)
class Picture:
    """One pair of axes.

    Attributes:
        key: Its name for programs.
        title: Its name for users.
        x: Label of the x axis, with its unit; time for most.
        y: Label of the y axis, with its unit.
        about: Description of the picture; readers who cannot see it need no more.
        lines: The curves.
    """

    key: str
    title: str
    x: str
    y: str
    about: str
    lines: list[Line] = field(default_factory=list)


TIME = "time (s)"
"""Label of the x axis of time series."""

KEYS = ("throughput", "rtt", "window", "queue", "losses", "delay")
"""The pictures of every run, in the order in which they are shown."""

EVERY = (*KEYS, "work")
"""These, and the response times of applications, if a flow has one that waits."""

STATE = "state"
"""The internal state of congestion controls: a picture for each value, drawn on request only."""
