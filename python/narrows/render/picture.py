"""A picture of results and its lines, independent of the program that draws it, and the names of a
run's pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

MOST_FLOWS = 24
"""Maximum number of flows that are drawn: eight colours times three line styles."""

Style = Literal["line", "dashed", "dotted", "points"]
"""How a line is drawn: solid, dashed or dotted, or as separate points."""


@dataclass(frozen=True)
class Line:
    """One curve; y is None at x values without a measurement.

    Attributes:
        label: Its label in the legend.
        flow: Index of the flow that the line belongs to, which determines its colour; None if it
            belongs to no flow.
        style: The line style.
        x: Values of the x axis in the unit of the picture, ascending.
        y: Values of the y axis in the unit of the picture.
        low: Lower ends of the 95 % confidence intervals of y, if it is a mean over runs.
        high: Upper ends of these intervals.
        queue: Index of the queue that the line belongs to, which determines its colour; None for
            a line in black or grey.
    """

    label: str
    flow: int | None
    style: Style
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    queue: int | None = None

    @property
    def coloured(self) -> int | None:
        """The index of its colour among those of flows; None for a line in black or grey."""
        return self.queue if self.flow is None else self.flow


@dataclass(frozen=True)
class Picture:
    """A picture: one pair of axes with its curves.

    Attributes:
        key: Its name for programs.
        title: Its name for users.
        x: Label of the x axis, with its unit; most pictures have the time.
        y: Label of the y axis, with its unit.
        about: Description of the picture in words, also for readers who cannot see it.
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
"""Keys of the pictures of every run, in the order in which they are shown."""

EVERY = (*KEYS, "work")
"""`KEYS`, and the response times of applications, for runs with a flow whose application waits for
data."""

STATE = "state"
"""Key of the pictures of the internal state of congestion controls: one picture for each state
variable, drawn on request only."""

NETWORK = "network"
"""Key of the picture of the nodes and links, which is drawn alone."""
