"""The types of the JSON of comparisons with stored cases of Linux."""

from __future__ import annotations

from typing import TypedDict


class VerdictJson(TypedDict):
    """A metric of a case in the simulator (`ours`), compared with Linux (median and single runs).
    Values that are not finite are None.
    """

    case: str
    figure: str
    linux: float | None
    linux_runs: list[float | None]
    ours: float | None
    tolerance: float | None
    agrees: bool


class FamilyJson(TypedDict):
    """Numbers of cases of a family: all, those in which the simulator agrees, and those in which
    Linux agrees with itself (of `linux_known`).
    """

    family: str
    cases: int
    agree: int
    linux_itself: int
    linux_known: int
