"""The types of the JSON of `narrows sweep`, and of the arguments of its processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from narrows.json_object import JsonObject

if TYPE_CHECKING:
    from typing_extensions import NotRequired

    from narrows.runs.model import KernelJson


class PluginJson(TypedDict):
    """A plugin that the parent process has loaded."""

    name: str
    path: str | None
    sha256: str | None


class FailureJson(TypedDict):
    """A run that failed: its case, seed, reason and scenario file."""

    case: int
    seed: int
    reason: str
    file: str


class SweepJson(TypedDict):
    """A sweep, as `narrows sweep --json` prints it."""

    title: str
    engine: str
    kernel: NotRequired[KernelJson]
    cases: int
    runs: int
    rows: int
    into: str
    took_s: float
    failed: list[FailureJson]
    by_cc: list[JsonObject]
    """The medians of each congestion control by metric."""
