"""A registered name with its parameters, as an object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

Value = bool | int | float | str | list[str]
"""What a parameter may be; quantities with a dimension are text with their unit (`"5ms"`), some are lists of those."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Base of what a scenario chooses by name; a parameter left at None has the default of `narrows list`."""

    kind: ClassVar[str]

    def tree(self) -> dict[str, Value]:
        """The table as a scenario file has it."""
        given = ((f.name, getattr(self, f.name)) for f in fields(self))
        return {"kind": self.kind} | {name: value for name, value in given if value is not None}


Chosen = str | Choice | Mapping[str, Value]
"""A name, a name with parameters as an object, or the same as a table."""
