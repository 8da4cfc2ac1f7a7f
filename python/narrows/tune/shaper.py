"""Shapers of an interface, which move the bottleneck to a queue that this host manages;
`core/src/tune/shaper.rs` describes them.
"""

from __future__ import annotations

import json
from typing import TypedDict

from narrows import _core

KINDS = tuple(_core.shaper_kinds())
"""Queue disciplines of a shaper, the best first. The last one stands for the buffer of `tbf`
itself.
"""


class Discipline(TypedDict):
    """A queue discipline as the state in a change."""

    kind: str
    handle: str | None
    """The handle of the queue discipline; None if the kernel selects it."""
    options: dict[str, str]
    """The options of the queue discipline, as `tc` writes them."""


def modules(kind: str, *, incoming: bool) -> list[str]:
    """The kernel modules that a shaper with this queue discipline requires; with `incoming`, also
    those for incoming traffic.

    >>> modules("fq_codel", incoming=True)
    ['sch_tbf', 'sch_fq_codel', 'ifb', 'sch_ingress', 'cls_u32', 'act_mirred']
    """
    return _core.shaper_modules(kind, incoming)


def disciplines(kind: str, kbit: int, handle: str) -> dict[str, Discipline]:
    """The queue disciplines of a shaper with the rate `kbit` (kbit/s), by their parent (`root` or a
    class).

    >>> disciplines("cake", 18000, "1:")
    {'root': {'kind': 'cake', 'handle': None, 'options': {'bandwidth': '18000kbit'}}}
    >>> disciplines("fq_codel", 18000, "1:")["root"]["options"]
    {'rate': '18000kbit', 'burst': '3028b', 'limit': '112500b'}
    """
    made: dict[str, Discipline] = json.loads(_core.shaper_disciplines(kind, kbit, handle))
    return made
