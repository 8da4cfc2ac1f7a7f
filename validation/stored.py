"""Reads the recorded cases of Linux in `sim/tests/data/reference/*.txt`. The headers of these files
describe their format and source.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from narrows.json_object import JsonObject
from narrows.reference import stored
from narrows.reference.stored import (
    Figure,
    Verdict,
    judge,
    kind,
    known,
    missing,
    number,
    value,
)

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "sim/tests/data/reference"

GRID = frozenset(
    {
        ("A", 10.0, 20.0),
        ("A", 50.0, 40.0),
        ("A", 50.0, 100.0),
        ("B", 50.0, 100.0),
        ("C", 40.0, 40.0),
    }
    | {("D", 100.0, 40.0), ("H", 20.0, 200.0), ("I", 40.0, 40.0), ("F", 20.0, 40.0)}
    | {("G", 100.0, 1.0), ("G", 100.0, 5.0), ("G", 20.0, 40.0)}
    | {("E", rate, rtt) for rate in (2.0, 4.0) for rtt in (10.0, 50.0)}
)
"""Family, rate (Mbit/s) and RTT (ms) of the cases that were recorded first. The criteria of the
report apply to these cases. The other cases were added later, to test other paths.
"""

__all__ = ["Case", "Figure", "JsonObject", "Verdict", "cases", "judge", "kind", "known", "missing",
    "number", "value"]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Case(stored.Case):
    """A recorded case of Linux that is part of the project."""

    @property
    def on_grid(self) -> bool:
        """Whether the case is one of those recorded first."""
        return (self.family, self.rate_mbit, self.rtt_ms) in GRID and self.flows[0]["start"] == "0s"


def cases() -> list[Case]:
    """Every stored case, by name.

    >>> " ".join(sorted({case.family for case in cases()}))
    'A B C D E F G H I N O'
    """
    files = sorted(DATA.glob("*.txt"))
    every = [
        case for file in files for case in stored.parse(file.read_text(encoding="utf-8"), Case)
    ]
    return sorted(every, key=lambda case: case.name)
