"""Base classes of the Python objects in a scenario: `Choice` for a registered name with its
parameters, and `Part` for a table of keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from keyword import iskeyword
from typing import ClassVar

from narrows.json_object import JsonObject

Value = bool | int | float | str | list[str]
"""Value of a parameter. A quantity with a dimension is a text with its unit (`"5ms"`); a list
contains such texts.
"""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Base of the classes of registered names, such as congestion controls. A parameter that is
    None has the default that `narrows list --verbose` shows.
    """

    kind: ClassVar[str]

    def tree(self) -> JsonObject:
        """The table as a scenario file has it."""
        return {"kind": self.kind} | _given(self)


@dataclass(frozen=True, kw_only=True)
class Part:
    """Base of tables of keys: the sections of a scenario, and the tables in a list parameter of a
    `Choice`.
    """

    kind: ClassVar[str | None] = None

    def tree(self) -> JsonObject:
        """The table as a scenario file has it."""
        return ({} if self.kind is None else {"kind": self.kind}) | _given(self)


def python_name(key: str) -> str:
    """The Python name of a key: an underscore is appended to a Python keyword.

    >>> python_name("from"), python_name("to")
    ('from_', 'to')
    """
    return f"{key}_" if iskeyword(key) else key


def _given(table: Choice | Part) -> JsonObject:
    """The parameters that are not None, with the names of a scenario file."""
    named = ((f.name, getattr(table, f.name)) for f in fields(table))
    return {name.rstrip("_"): _written(value) for name, value in named if value is not None}


def _written(value: object) -> object:
    if isinstance(value, Choice):
        return Choice.tree(value)  # one choice has a parameter `tree`, which hides the method
    if isinstance(value, Part):
        return value.tree()
    if isinstance(value, Mapping):
        return {name: _written(v) for name, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_written(v) for v in value]
    return value


Chosen = str | Choice | Mapping[str, Value]
"""A registered name, or a registered name with its parameters as an object or as a table."""

Element = str | float | Mapping[str, Value]
"""A model of loss, delay or another effect on packets: a table of its parameters, or only the value
of its first parameter.
"""
