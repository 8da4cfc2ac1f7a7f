"""Base classes of the classes of a scenario: a registered name with its parameters, and a table of
keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from keyword import iskeyword
from typing import ClassVar

from narrows.json_object import JsonObject

Value = bool | int | float | str | list[str]
"""Value of a parameter; quantities with a dimension are text with their unit (`"5ms"`), or lists of
such texts.
"""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Base of the classes of registered names; a parameter left at None has the default of `narrows
    list`.
    """

    kind: ClassVar[str]

    def tree(self) -> JsonObject:
        """The table as a scenario file has it."""
        return {"kind": self.kind} | _given(self)


@dataclass(frozen=True, kw_only=True)
class Part:
    """Base of tables of keys: the sections of a scenario, and the tables of which a choice has a
    list.
    """

    kind: ClassVar[str | None] = None

    def tree(self) -> JsonObject:
        """The table as a scenario file has it."""
        return ({} if self.kind is None else {"kind": self.kind}) | _given(self)


def python_name(key: str) -> str:
    """The name of a key in Python: a keyword has an underscore behind it.

    >>> python_name("from"), python_name("to")
    ('from_', 'to')
    """
    return f"{key}_" if iskeyword(key) else key


def _given(table: Choice | Part) -> JsonObject:
    """The parameters that are not left at None."""
    named = ((f.name, getattr(table, f.name)) for f in fields(table))
    return {name.rstrip("_"): _written(value) for name, value in named if value is not None}


def _written(value: object) -> object:
    if isinstance(value, Choice):
        return Choice.tree(value)  # one of them has a parameter of that name
    if isinstance(value, Part):
        return value.tree()
    if isinstance(value, Mapping):
        return {name: _written(v) for name, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_written(v) for v in value]
    return value


Chosen = str | Choice | Mapping[str, Value]
"""A name, a name with parameters as an object, or the same as a table."""

Element = str | float | Mapping[str, Value]
"""A model of loss, delay or another effect on packets: a table of its parameters, or the bare value
of its first parameter.
"""
