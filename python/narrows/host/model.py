"""The types of the JSON of `narrows doctor` and `narrows agree`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired


class DoctorFindingJson(TypedDict):
    """A property of this machine, its grade and its remedy."""

    what: str
    grade: str
    found: str
    cure: str


class DoctorJson(TypedDict):
    """The examination of this machine for live runs."""

    findings: list[DoctorFindingJson]
    verdict: str
    able: bool


class MachineJson(TypedDict):
    """A machine that runs real TCP."""

    release: str
    hz: int
    like: str
    key: NotRequired[str]
    ccs: NotRequired[list[str]]


class RowJson(TypedDict):
    """A metric of two engines; a value that was not measured is None."""

    figure: str
    ours: float | None
    reference: float | None
    spread: float | None
    tolerance: float | None
    verdict: str


class OutcomeJson(TypedDict):
    """The comparison of a scenario between two engines."""

    engines: list[str]
    verdict: str
    runs: int
    flagged: list[str]
    figures: list[RowJson]


class AgreementJson(TypedDict):
    """The comparison of a scenario between all pairs of engines. Each metric has a value for each
    engine and a verdict.
    """

    scenario: str
    verdict: str
    figures: list[dict[str, str | float | None]]
    pairs: list[OutcomeJson]


class CountsJson(TypedDict):
    """Number of metrics by verdict."""

    agreed: int
    parted: int
    undecided: int


class ComparedJson(TypedDict):
    """The comparison of engines, as `narrows agree --json` prints it."""

    narrows: str
    machines: dict[str, MachineJson]
    counts: CountsJson
    pairs: dict[str, CountsJson]
    scenarios: list[AgreementJson]
