"""Reads a scenario file and detects whether it is a scenario or a sweep."""

from __future__ import annotations

from os import PathLike

from narrows import _core
from narrows.errors import NarrowsError
from narrows.storage.text import name_of, text_of


def read(file: str | PathLike[str]) -> str:
    """The text of a scenario file.

    Raises:
        NarrowsError: If the file cannot be read, or if it is JSON or a sweep, which other commands
            read.
    """
    text, name = text_of(file), name_of(file)
    if text.lstrip().startswith("{"):
        raise NarrowsError(
            f"{name}: JSON, not a scenario; the path of a measurement: narrows model {name}"
        )
    if kind_of(text, name) == "sweep":
        raise NarrowsError(f"{name}: a sweep, not a scenario: narrows sweep {name}")
    return text


def kind_of(text: str, name: str) -> str | None:
    """`"scenario"` or `"sweep"` if the keys of the file show which of them it is; otherwise
    None.
    """
    try:
        keys = _core.toml_tables(text, name).keys()
    except NarrowsError:
        return None
    if "scenario" in keys and keys & {"over", "case"}:
        return "sweep"
    return "scenario" if keys & {"path", "wifi"} and "scenario" not in keys else None
