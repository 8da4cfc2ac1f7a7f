"""Shapers of an interface, which move the bottleneck to a queue that this host manages.

Outgoing traffic is shaped on the interface itself. Incoming traffic cannot be queued there.
Incoming traffic is redirected to an `ifb` device, which shapes it as outgoing traffic. `cake`
shapes by itself. Any other queue discipline is the child of a token bucket filter (`tbf`). If the
kernel has none of them, the short buffer of `tbf` is used alone.
"""

from __future__ import annotations

from typing import TypedDict

from narrows.tune.facts import Facts, Interface

KINDS = ("cake", "fq_codel", "sfq", "bfifo")
"""Queue disciplines of a shaper, the best first. The last one stands for the buffer of `tbf`
itself.
"""

FRAME_BYTES = 1514
BURST_S, LEAST_BURST = 1e-3, 2 * FRAME_BYTES
"""Burst size of `tbf`: the data of 1 ms at its rate, at least two full frames."""

BUFFER_S, LEAST_BUFFER = 0.05, 10 * FRAME_BYTES
"""Buffer size of `tbf`: the data of 50 ms at its rate, at least ten full frames."""


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
    own = {"cake": ["sch_cake"], "bfifo": ["sch_tbf"]}.get(kind, ["sch_tbf", f"sch_{kind}"])
    return own + (["ifb", "sch_ingress", "cls_u32", "act_mirred"] if incoming else [])


def present(facts: Facts, module: str) -> bool:
    """Whether the kernel has or can load a module. An unknown module counts as present; if it is
    missing, applying the plan reports an error.
    """
    return facts.has_module(module) != "missing"


def best(facts: Facts) -> str:
    """The best queue discipline of `KINDS` that this kernel has."""
    return next(kind for kind in KINDS if kind == KINDS[-1] or present(facts, f"sch_{kind}"))


def nearest(facts: Facts, kind: str) -> str | None:
    """The best queue discipline other than `kind` whose modules this kernel all has; None if there
    is none.
    """
    whole = (
        k
        for k in KINDS
        if k != kind and all(present(facts, name) for name in modules(k, incoming=False))
    )
    return next(whole, None)


def disciplines(kind: str, kbit: int, handle: str | None) -> dict[str, Discipline]:
    """The queue disciplines of a shaper with the rate `kbit` (kbit/s), by their parent (`root` or a
    class).

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
    """A handle that no queue discipline of the interface has; if the root is a configured token
    bucket, its handle.
    """
    root = one.root
    if root is not None and root.kind == "tbf" and not root.attached_by_kernel:
        return root.handle
    taken = {q.handle for q in one.qdiscs}
    return next(handle for n in range(1, 256) if (handle := f"{n:x}:") not in taken)


def ifb(device: str) -> str:
    """The name of the `ifb` device for the incoming traffic of an interface, cut to the 15
    characters that Linux allows.

    >>> ifb("eth0"), ifb("enp0s31f6"), ifb("a-long-name-150")
    ('ifb-eth0', 'ifb-enp0s31f6', 'ifb-a-long-name')
    """
    return f"ifb-{device}"[:15]
