"""The types of the JSON document of a report page, which the code in `web/` displays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from narrows.json_object import JsonObject

if TYPE_CHECKING:
    from typing_extensions import NotRequired


class PageTableJson(TypedDict):
    """A table. Each cell is a pair: its text, and the path of its value in `figures`."""

    caption: str
    words: Sequence[str]
    numbers: Sequence[str]
    rows: list[list[list[str]]]


class PictureLineJson(TypedDict):
    """A line of a picture; `x` is the index of its list of x values in `xs`. `queue` is the index
    of its colour if it belongs to a queue.
    """

    label: str
    flow: int | None
    queue: NotRequired[int]
    style: str
    x: int
    y: list[float | None]


class PictureJson(TypedDict):
    """A picture; `time` is true if its x axis is the time of the run."""

    key: str
    title: str
    x: str
    y: str
    about: str
    time: bool
    lines: list[PictureLineJson]


class DrawnJson(TypedDict):
    """Pictures, and the lists of their x values; equal lists are stored once."""

    pictures: list[PictureJson]
    xs: list[list[float]]


class TopologyTextJson(TypedDict):
    """A line of text. `box` is the x coordinate and the width of its background. Each part is a
    pair: its text, and the path of its value in `figures`.
    """

    x: float
    y: float
    anchor: str
    box: list[float]
    parts: list[list[str]]


class TopologyLinkJson(TypedDict):
    """A link: a path of SVG, the position and angle of its arrow, its load from 0 to 1, and a
    sentence with its metrics.
    """

    name: str
    curve: str
    arrow: list[float]
    load: float | None
    about: str


class TopologyJson(TypedDict):
    """The picture of a network, in pixels from the upper left corner."""

    width: float
    height: float
    about: str
    nodes: list[list[float]]
    links: list[TopologyLinkJson]
    texts: list[TopologyTextJson]


class PageRunJson(DrawnJson):
    """A run, measurement or latency result on a page."""

    name: str
    answer: list[str]
    sure: list[str]
    tables: list[PageTableJson]
    notes: list[str]
    topology: TopologyJson | None
    verdicts: JsonObject | None
    """Dropped, marked and lost packets by column, and the names to which the numbers in columns of
    names refer."""
    flows: list[str]
    toml: str
    canonical: str
    command: str
    provenance: list[list[str]]
    evidence: PageTableJson | None
    figures: Mapping[str, object]
    """The JSON object of the run, without the time series of flows and with at most `MOST_ROWS`
    flows."""


class PageJson(TypedDict):
    """A page; `lesson` has the texts of a lesson, if the page is one."""

    narrows: str
    title: str
    first: str
    runs: list[PageRunJson]
    lesson: NotRequired[JsonObject]
