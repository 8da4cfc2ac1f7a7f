"""A shaper on an interface: the narrow place is moved to where the queue is a good one.

What goes out meets it on the interface itself. What comes in cannot be queued there, so it is led
through a device of the kind `ifb`, whose way out is shaped instead. Cake shapes by itself; any
other discipline hangs below a token bucket (`tbf`), whose own buffer is the last resort: a short
one, where the kernel has no better.
"""

from __future__ import annotations

from typing import Any

from narrows.tune.facts import Facts, Interface

KINDS = ("cake", "fq_codel", "sfq", "bfifo")
"""Disciplines of a shaper, the best first; the last is the token bucket's own buffer, which every
kernel has.
"""

FRAME_BYTES = 1514
BURST_S, LEAST_BURST = 1e-3, 2 * FRAME_BYTES
"""What may leave at once: a millisecond of the rate, or two full frames."""

BUFFER_S, LEAST_BUFFER = 0.05, 10 * FRAME_BYTES
"""What may wait where nothing keeps the queue short: 50 ms of the rate, or ten full frames."""

Json = dict[str, Any]


def modules(kind: str, *, incoming: bool) -> list[str]:
    """What the kernel must have.

    >>> modules("fq_codel", incoming=True)
    ['sch_tbf', 'sch_fq_codel', 'ifb', 'sch_ingress', 'cls_u32', 'act_mirred']
    """
    own = {"cake": ["sch_cake"], "bfifo": ["sch_tbf"]}.get(kind, ["sch_tbf", f"sch_{kind}"])
    return own + (["ifb", "sch_ingress", "cls_u32", "act_mirred"] if incoming else [])


def present(facts: Facts, module: str) -> bool:
    """Has the kernel it, or could it load it? What nobody could see is there: it is said when it is
    applied.
    """
    return facts.has_module(module) != "missing"


def best(facts: Facts) -> str:
    """The best discipline that this kernel has."""
    return next(kind for kind in KINDS if kind == KINDS[-1] or present(facts, f"sch_{kind}"))


def nearest(facts: Facts, kind: str) -> str | None:
    """The best other discipline that needs nothing more than this kernel has."""
    whole = (
        k
        for k in KINDS
        if k != kind and all(present(facts, name) for name in modules(k, incoming=False))
    )
    return next(whole, None)


def disciplines(kind: str, kbit: int, handle: str | None) -> dict[str, Json]:
    """What hangs where.

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
    made = {"root": {"kind": "tbf", "handle": handle, "options": options}}
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
