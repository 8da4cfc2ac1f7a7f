"""The type of the description of a model in Python, which the core receives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired

SpecificationJson = TypedDict(
    "SpecificationJson",
    {
        "name": str,
        "from": str,
        "file": str,
        "help": str,
        "source": str,
        "params": "list[tuple[Any, ...]]",
        "events": "NotRequired[list[str]]",
        "interval_s": "NotRequired[float]",
        "family": "NotRequired[str]",
        "year": "NotRequired[int]",
        "paced": "NotRequired[bool]",
        "owns_recovery": "NotRequired[bool]",
        "needs": "NotRequired[list[str]]",
        "send_buffer_windows": "NotRequired[float]",
        "wakes": "NotRequired[bool]",
    },
)
"""A model: the keys of all models, of a congestion control (`events` to `send_buffer_windows`), and
of a queue discipline (`wakes`).
"""
