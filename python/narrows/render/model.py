"""The type of the document of a report page, which `web/` displays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from narrows.json_object import JsonObject

if TYPE_CHECKING:
    from typing_extensions import NotRequired


class PageTableJson(TypedDict):
    """A table; each cell is its text and the place of its value in `figures`."""

    caption: str
    words: Sequence[str]
    numbers: Sequence[str]
    rows: list[list[list[str]]]


class PictureLineJson(TypedDict):
    """A line of a picture; `x` is the number of its x values in `xs`."""

    label: str
    flow: int | None
    style: str
    x: int
    y: list[float | None]


class PictureJson(TypedDict):
    """A picture; `time` states whether its x axis is the time of the run."""

    key: str
    title: str
    x: str
    y: str
    about: str
    time: bool
    lines: list[PictureLineJson]


class DrawnJson(TypedDict):
    """Pictures, and their x values: equal ones are stored once."""

    pictures: list[PictureJson]
    xs: list[list[float]]


class PageRunJson(DrawnJson):
    """A run, measurement or latency result on a page."""

    name: str
    answer: list[str]
    sure: list[str]
    tables: list[PageTableJson]
    notes: list[str]
    verdicts: JsonObject | None
    """Packet events by column, and the names in the columns of words."""
    flows: list[str]
    toml: str
    canonical: str
    command: str
    provenance: list[list[str]]
    evidence: PageTableJson | None
    figures: Mapping[str, object]
    """The JSON of the run, without long lists."""


class PageJson(TypedDict):
    """A page; `lesson` has the text of a lesson."""

    narrows: str
    title: str
    first: str
    runs: list[PageRunJson]
    lesson: NotRequired[JsonObject]
