"""The types of the JSON of `narrows demo --story`."""

from __future__ import annotations

from typing import TypedDict

from narrows.advise.model import JudgedJson


class StoryJson(TypedDict):
    """The measurements before and after the change, and the outcome of the sealed forecast."""

    live: bool
    why_not_live: str
    path: dict[str, str]
    before: dict[str, float]
    after: dict[str, float]
    choice: str
    forecast: list[JudgedJson]
    seconds: float
