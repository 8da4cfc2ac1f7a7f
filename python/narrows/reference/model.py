"""The types of the JSON of comparisons with stored cases of Linux."""

from __future__ import annotations

from typing import TypedDict


class VerdictJson(TypedDict):
    """A figure of a case, compared with Linux; a value that is not finite is None."""

    case: str
    figure: str
    linux: float | None
    linux_runs: list[float | None]
    ours: float | None
    tolerance: float | None
    agrees: bool


class FamilyJson(TypedDict):
    """Numbers of cases of a family, and those in which Linux agrees with itself."""

    family: str
    cases: int
    agree: int
    linux_itself: int
    linux_known: int
