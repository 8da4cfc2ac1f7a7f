"""Builds Python classes from the tables of the core: one for each congestion control, queue
discipline and section of a scenario.

`narrows list --verbose` and docs/reference/scenario.md show the same tables. A parameter or key
that is added to them becomes a keyword argument of a class. A class of `narrows.cc` or
`narrows.queue` is built at the first access to it. A program that uses one class need not wait for
all classes. Editors and mypy read the stubs `cc.pyi`, `queue.pyi` and `sections.pyi`.
`tests/test_schema.py` compares the stubs with the tables.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, make_dataclass
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any

from narrows import registry
from narrows.json_object import JsonObject
from narrows.registry import Parameter
from narrows.runs.choice import Choice, Part, python_name

WIDTH = 100

_MAKING = Lock()

_SPELLED = {"dualpi2": "DualPi2", "highspeed": "HighSpeed", "newreno": "NewReno"}
"""Class names with more capitals than the first letter of each word."""

_TYPES = {
    "bool": "bool",
    "count": "int",
    "number": "float",
    "time": "str",
    "bytes": "str",
    "rate": "str",
    "packets": "str",
    "probability": "float | str",
    "word": "str",
    "file": "str",
    "class": "str",
    "name": "str",
    "list of bytes": "Sequence[str]",
    "list of rates": "Sequence[str]",
    "queue": "Chosen",
    "match": "Mapping[str, str | int | Sequence[str | int]]",
}
"""The Python type of each kind of parameter. A quantity with a dimension is a text with its
unit."""

_TAKES = _TYPES | {
    "text": "str",
    "choice": "str",
    "decibels": "str",
    "buffer": "str",
    "bytes…bytes": "str",
    "bytes, packets or bdp": "str",
    "boolean": "bool",
    "list of names": "Sequence[str]",
    "release": "str",
    "boolean or bytes": "bool | str",
    "boolean or name": "bool | str",
    "on, off, packets or bytes": "str | bool",
    "probability": "str | float",
    "name or count": "str | int",
    "name or { kind, parameters }": "Chosen",
    "file name or { file, repeat }": "str | Mapping[str, Value]",
    "section": "Mapping[str, Value]",
    "list of { at, route, route_back }": "Sequence[Mapping[str, Value]]",
}
"""The Python type of a key of a scenario, by its type in a scenario file."""

_INNER = {"path.reverse": "Hop", "path.hop": "Sequence[Hop]", "wifi.station": "Sequence[Station]"}
"""Keys whose values are sections, and the Python types of these."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """Properties of the class of a section that the core's table of keys does not contain."""

    of: str
    help: str
    base: type
    example: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    positional: str = ""
    kind: str | None = None

    def keys(self) -> list[Parameter]:
        """The keys of the section, without those of its base class. The key `kind` of a probe is
        left out, because the class determines it.
        """
        inherited = {f.name for f in fields(self.base)} if is_dataclass(self.base) else set()
        tables = {"path.hop": ("path",), "link": ("path", "link")}.get(self.of, (self.of,))
        return [
            key | {"name": python_name(key["name"])}
            for key in registry.table("scenario")
            if key["section"] in tables and key["supported"] and self.of not in key["without"]
            if key["name"] not in inherited and (self.kind is None or key["name"] != "kind")
            if self.of or "section" not in key["takes"]
        ]


def class_name(kind: str) -> str:
    """The class name for a name in the registry.

    >>> class_name("fq_codel"), class_name("dualpi2")
    ('FqCodel', 'DualPi2')
    """
    return _SPELLED.get(kind) or "".join(part.capitalize() for part in kind.split("_"))


class Table:
    """The description of a class of the registry: its parameters and its documentation."""

    def __init__(
        self, row: JsonObject, name: str, *, required: tuple[str, ...] = (), of: str | None = None
    ) -> None:
        """Takes the description from a row of the registry. `of` is the class whose list contains
        objects of this class; None for registered names.
        """
        self.name = name
        self.kind: str | None = None if of else row["name"]
        self.params: list[Parameter] = row["params"]
        self.help: str = row["help"]
        self.source: str = row["source"]
        self.required = required
        self.base: type = Part if of else Choice

    def ordered(self) -> Iterator[Parameter]:
        """The parameters, required ones first."""
        yield from (p for p in self.params if p["name"] in self.required)
        yield from (p for p in self.params if p["name"] not in self.required)

    def annotation(self, param: Parameter) -> str:
        """The Python type of a parameter, as text."""
        if param["kind"] == "list":
            given = f"Sequence[{self.name}{class_name(param['one'])} | Mapping[str, object]]"
        else:
            given = _TYPES[param["kind"]]
        return given if param["name"] in self.required else f"{given} | None"

    def example(self) -> list[str]:
        """Lines of an example in the docstring, with the first parameter of a simple type at its
        default.
        """
        plain = ("bool", "count", "number", "time", "bytes", "rate", "packets", "word")
        if self.kind is None or any(p["name"] == "tree" for p in self.params):
            return []
        first = next((p for p in self.params if p["kind"] in plain), None)
        given = {} if first is None else {first["name"]: first["default"]}
        words = ", ".join(f"{name}={_literal(value)}" for name, value in given.items())
        return ["", f">>> {self.name}({words}).tree()", _literal({"kind": self.kind} | given)]

    def doc(self, *, example: bool = True) -> str:
        """The docstring of the class."""
        lines = [*_wrapped(sentence(self.help)), "", *_wrapped(f"Source: {self.source}.")]
        lines += self.example() if example else []
        if self.params:
            lines += ["", "Attributes:"]
            for param in self.ordered():
                lines += _wrapped(
                    f"{param['name']}: {sentence(param['help'])}{self.range(param)}",
                    "    ",
                    "        ",
                )
        return "\n".join(lines)

    def range(self, param: Parameter) -> str:
        """The accepted values of a parameter, its default, and its source, as text."""
        default, told = param["default"], []
        if param["kind"] in {"word", "file"}:
            told.append("one of " + ", ".join(f"`{word}`" for word in param["words"]))
        elif "min" in param:
            of = f"{param['kind']} " if param["kind"] not in {"count", "number"} else ""
            told.append(f"{of}from {param['min']} to {param['max']}")
        if default not in ("", []) and param["name"] not in self.required:
            told.append(f"default {str(default).lower() if isinstance(default, bool) else default}")
        if not told:
            return f" ({param['source']})"
        return f" {sentence(', '.join(told))[:-1]} ({param['source']})."

    def made(self, module: str) -> type:
        """Builds the class, with this name of its module."""
        named: list[Any] = [
            (
                p["name"],
                self.annotation(p),
                field(default=MISSING if p["name"] in self.required else None),
            )
            for p in self.ordered()
        ]
        said = {"__doc__": self.doc(), "__module__": module} | (
            {} if self.kind is None else {"kind": self.kind}
        )
        made = make_dataclass(
            self.name, named, bases=(self.base,), namespace=said, frozen=True, kw_only=True
        )
        # From Python 3.12 on, `make_dataclass` sets this to the module of its caller.
        made.__module__ = module
        return made


def _wrapped(text: str, first: str = "", rest: str = "") -> list[str]:
    """Wraps a text into lines of a docstring. `textwrap` is ten times slower, and this runs at
    import.
    """
    lines, line = [], first
    for word in text.split():
        if len(line) + len(word) >= WIDTH - len('    """') and line.strip():
            lines.append(line.rstrip())
            line = rest
        line += word + " "
    return [*lines, line.rstrip()]


def sentence(text: str) -> str:
    """A help text of the registry as a sentence.

    >>> sentence("the tree of classes")
    'The tree of classes.'
    """
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _literal(value: object) -> str:
    """A literal in the style of ruff and the interpreter.

    >>> _literal({"kind": "bbr", "min_rtt_window": "10s"}), _literal("10s")
    ("{'kind': 'bbr', 'min_rtt_window': '10s'}", '"10s"')
    """
    return json.dumps(value) if isinstance(value, str) else repr(value)


class Keys(Table):
    """The description of the class of a section of a scenario."""

    def __init__(self, name: str, section: Section) -> None:
        """Takes the description from the keys of the section in the core."""
        row = {"name": section.kind, "help": section.help, "source": "", "params": section.keys()}
        super().__init__(row, name, required=section.required)
        self.section = section
        self.base = section.base

    def annotation(self, param: Parameter) -> str:
        """The Python type of a key, as text."""
        place, takes = f"{param['section']}.{param['name']}", param["takes"]
        given = _INNER.get(place) or _TAKES.get(takes)
        if given is None:
            given = "Sequence[Mapping[str, str]]" if takes.startswith("list of") else "Element"
        return given if param["name"] in self.required else f"{given} | None"

    def doc(self, *, example: bool = True) -> str:
        """The docstring of the class."""
        shown = ["", *self.section.example] if example and self.section.example else []
        return "\n".join([*_wrapped(self.help), *shown, *attributes(self.ordered())])

    def made(self, module: str) -> type:
        """Builds the class, in which one parameter may be positional."""
        positional = self.section.positional
        named: list[Any] = [
            (
                p["name"],
                self.annotation(p),
                field(
                    default=MISSING if p["name"] in self.required else None,
                    kw_only=p["name"] != positional,
                ),
            )
            for p in self.ordered()
        ]
        said = {"__doc__": self.doc()} | ({} if self.kind is None else {"kind": self.kind})
        made = make_dataclass(self.name, named, bases=(self.base,), namespace=said, frozen=True)
        made.__module__ = module
        return made


def attributes(keys: Iterable[Parameter]) -> list[str]:
    """The lines of a docstring that describe keys of a scenario."""
    lines = ["", "Attributes:"]
    for key in keys:
        told = [part for part in (key["takes"], key["range"]) if part]
        text = (
            f"{key['name']}: {sentence(key['help'])} {sentence('; '.join(told))[:-1]} "
            f"(default: {key['default']})."
        )
        lines += _wrapped(text, "    ", "        ")
    return lines


@cache
def tables(what: str) -> dict[str, Table]:
    """The descriptions of the classes for a list of the registry (`cc` or `queue`), by class name.

    The class of the elements of a list precedes the class with the list.
    """
    found: dict[str, Table] = {}
    for row in registry.table(what):
        name = class_name(row["name"])
        for param in row["params"]:
            if param["kind"] == "list":
                inner = f"{name}{class_name(param['one'])}"
                said = param | {"help": f"a {param['one']} of `{name}`"}
                found[inner] = Table(said, inner, required=tuple(param["required"]), of=name)
        found[name] = Table(row, name)
    return found


def _forget() -> None:
    """Removes the classes of models from plugins, so that they are built again when they are next
    used.
    """
    tables.cache_clear()
    for what, name in registry.EXTERNAL:
        vars(import_module(f"narrows.{what}")).pop(class_name(name), None)


registry.FOLLOWERS.append(_forget)


def attribute(what: str, name: str) -> object:
    """Implements `__getattr__` of the modules `narrows.cc` and `narrows.queue`: builds and returns
    the class `name`.

    Raises:
        AttributeError: If the registry has no such name.
    """
    module = f"narrows.{what}"
    if name == "__all__":
        return list(tables(what))
    if name.startswith("__") or name not in tables(what):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    with _MAKING:
        # Another thread may have built the class meanwhile; there must be only one class for each
        # name.
        made = vars(sys.modules[module]).get(name)
        if made is None:
            made = tables(what)[name].made(module)
            setattr(sys.modules[module], name, made)
    return made


def of_kind(what: str, kind: object) -> type[Choice] | None:
    """The class for a name in the registry; None if the name is unknown.

    >>> of_kind("cc", "cubic")
    <class 'narrows.cc.Cubic'>
    """
    if not isinstance(kind, str) or class_name(kind) not in tables(what):
        return None
    found: type[Choice] = getattr(import_module(f"narrows.{what}"), class_name(kind))
    return found
