"""Shapers of an interface, which move the bottleneck to a good queue.

Outgoing traffic is shaped on the interface itself. Incoming traffic cannot be queued there, so an
`ifb` device receives it and shapes its own outgoing traffic. `cake` shapes by itself. Any other
queue discipline is the child of a token bucket filter (`tbf`). Without a better one, the short
buffer of `tbf` is used.
"""

from __future__ import annotations

from typing import TypedDict

from narrows.tune.facts import Facts, Interface

KINDS = ("cake", "fq_codel", "sfq", "bfifo")
"""Queue disciplines of a shaper, the best first. The last one is the buffer of `tbf`, which every
kernel has.
"""

FRAME_BYTES = 1514
BURST_S, LEAST_BURST = 1e-3, 2 * FRAME_BYTES
"""Burst size: 1 ms of the rate, at least two full frames."""

BUFFER_S, LEAST_BUFFER = 0.05, 10 * FRAME_BYTES
"""Buffer size without an AQM: 50 ms of the rate, at least ten full frames."""


class Discipline(TypedDict):
    """A queue discipline as a value of a change."""

    kind: str
    handle: str | None
    """Its handle; None if the kernel selects it."""
    options: dict[str, str]
    """Its options in the notation of `tc`."""


def modules(kind: str, *, incoming: bool) -> list[str]:
    """The required kernel modules.

    >>> modules("fq_codel", incoming=True)
    ['sch_tbf', 'sch_fq_codel', 'ifb', 'sch_ingress', 'cls_u32', 'act_mirred']
    """
    own = {"cake": ["sch_cake"], "bfifo": ["sch_tbf"]}.get(kind, ["sch_tbf", f"sch_{kind}"])
    return own + (["ifb", "sch_ingress", "cls_u32", "act_mirred"] if incoming else [])


def present(facts: Facts, module: str) -> bool:
    """Whether the kernel has or can load a module. If this is unknown, it counts as present, and
    applying the plan reports an error.
    """
    return facts.has_module(module) != "missing"


def best(facts: Facts) -> str:
    """The best queue discipline that this kernel has."""
    return next(kind for kind in KINDS if kind == KINDS[-1] or present(facts, f"sch_{kind}"))


def nearest(facts: Facts, kind: str) -> str | None:
    """The best other queue discipline that this kernel supports completely."""
    whole = (
        k
        for k in KINDS
        if k != kind and all(present(facts, name) for name in modules(k, incoming=False))
    )
    return next(whole, None)


def disciplines(kind: str, kbit: int, handle: str | None) -> dict[str, Discipline]:
    """The queue disciplines by their place.

    >>> disciplines("cake", 18000, None)
    {'root': {'kind': 'cake', 'handle': None, 'options': {'bandwidth': '18000kbit'}}}
    >>> disciplines("fq_codel", 18000, "1:")["root"]["options"]
    {'rate': '18000kbit', 'burst': '3028b', 'limit': '112500b'}
    """
    if kind == "cake":
        return {"root": {"kind": "cake", "handle": None, "options": {"bandwidth": f"{kbit}kbit"}}}
    per_s = kbit * 125
    options = {
        "rate": f"{kbit}kbit",
        "burst": f"{max(LEAST_BURST, round(BURST_S * per_s))}b",
        "limit": f"{max(LEAST_BUFFER, round(BUFFER_S * per_s))}b",
    }
    made: dict[str, Discipline] = {"root": {"kind": "tbf", "handle": handle, "options": options}}
    if kind != KINDS[-1]:
        made[f"{handle}1"] = {"kind": kind, "handle": None, "options": {}}
    return made


def free(one: Interface) -> str:
    """A handle that nothing on the interface has; a token bucket that is there keeps its own."""
    root = one.root
    if root is not None and root.kind == "tbf" and not root.attached_by_kernel:
        return root.handle
    taken = {q.handle for q in one.qdiscs}
    return next(handle for n in range(1, 256) if (handle := f"{n:x}:") not in taken)


def ifb(device: str) -> str:
    """The name of the device that what comes in by another is led through; the kernel's names have
    15 letters.

    >>> ifb("eth0"), ifb("enp0s31f6"), ifb("a-long-name-150")
    ('ifb-eth0', 'ifb-enp0s31f6', 'ifb-a-long-name')
    """
    return f"ifb-{device}"[:15]
