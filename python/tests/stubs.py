"""The typing stubs of the modules whose classes are made from the core's tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from narrows.runs import schema, sections
from narrows.runs.schema import Keys, Table

MODULES = {"cc": "narrows.cc", "queue": "narrows.queue", "sections": "narrows.runs.sections"}

_HEAD = {
    "cc": (
        "Congestion controls as objects",
        ["from dataclasses import dataclass", "", "from narrows.runs.choice import Choice"],
    ),
    "queue": (
        "Queue disciplines as objects",
        [
            "from collections.abc import Mapping, Sequence",
            "from dataclasses import dataclass",
            "",
            "from narrows.runs.choice import Choice, Chosen, Part",
        ],
    ),
    "sections": (
        "Sections of a scenario as objects",
        [
            "from collections.abc import Mapping, Sequence",
            "from dataclasses import KW_ONLY, dataclass",
            "",
            "from narrows.runs.choice import Chosen, Element, Part, Value",
        ],
    ),
}


def tables(module: str) -> Mapping[str, Table]:
    """The classes of a module."""
    return sections.TABLES if module == "sections" else schema.tables(module)


def stub(module: str) -> str:
    """The stub of a module of `narrows`."""
    return "\n".join(_lines(module)) + "\n"


def _lines(module: str) -> Iterator[str]:
    of, imports = _HEAD[module]
    yield f'"""{of}.'
    yield ""
    yield "Written by `make renew`."
    yield '"""'
    yield from ["", *imports, ""]
    yield "__all__ = ["
    yield from (f'    "{name}",' for name in sorted(tables(module)))
    yield "]"
    for table in tables(module).values():
        yield from _class(table)


def _class(table: Table) -> Iterator[str]:
    positional = table.section.positional if isinstance(table, Keys) else ""
    arguments = "frozen=True" if positional else "frozen=True, kw_only=True"
    yield from ["", f"@dataclass({arguments})", f"class {table.name}({table.base.__name__}):"]
    first, *rest = table.doc(example=False).split("\n")
    yield f'    """{first}'
    yield from (f"    {line}" if line else "" for line in rest)
    yield '    """'
    params = sorted(table.ordered(), key=lambda param: param["name"] != positional)
    if params:
        yield ""
    for param in params:
        default = "" if param["name"] in table.required else " = None"
        # A parameter may have the name of a method of the base; what makes tables calls the base's
        # own.
        odd = "  # type: ignore[assignment]" if hasattr(table.base, param["name"]) else ""
        yield f"    {param['name']}: {table.annotation(param)}{default}{odd}"
        if param["name"] == positional:
            yield "    _: KW_ONLY"
