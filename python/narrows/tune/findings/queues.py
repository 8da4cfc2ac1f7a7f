"""Findings about queue disciplines, pacing and the layers below them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from narrows import registry
from narrows.registry import is_fifo, paced
from narrows.render.words import listed
from narrows.tune import kernels
from narrows.tune.facts import Facts, Interface, Qdisc
from narrows.tune.findings.finding import Finding, Path

_RING_MS = 10.0
_FRAME = 1514
_USED_BYTES = 1_000_000
"""After this number of sent bytes, a driver that supports byte queue limits has set a limit."""
_SLOW_MBIT = 100
_COALESCED_US = 100


def carriers(facts: Facts) -> list[Interface]:
    """Interfaces that are up and queue packets: network cards, and other interfaces with a queue
    discipline.
    """
    found = []
    for one in facts.interfaces:
        if one.loopback or not one.up:
            continue
        root = one.root
        if one.hardware or (root is not None and root.kind != "noqueue"):
            found.append(one)
    return found


def somebody_configured(one: Qdisc) -> bool:
    """Whether an administrator configured this queue discipline: it is not the kernel's default and
    of a kind, such as a shaper, that no default sets.
    """
    return not one.attached_by_kernel and registry.configured(one.kind)


def _fair(facts: Facts, dev: str = "") -> str:
    """The remedy (a command) that gives each flow its own queue."""
    kinds = [kind for kind in ("fq", "fq_codel") if facts.has_module("sch_" + kind) != "missing"]
    if facts.forwards:
        kinds.reverse()
    if not kinds:
        return (
            "this kernel has neither sch_fq nor sch_fq_codel: install the package that contains "
            "them, or use another kernel; then run `narrows tune plan --qdisc fq_codel`"
        )
    return f"`narrows tune plan --qdisc {kinds[0]}{dev and f' --dev {dev}'}`"


def _shared(kind: str) -> str:
    """The effect of a queue discipline in which flows share a queue, as text."""
    other = (
        "the other packets of the same priority band"
        if kind == "pfifo_fast"
        else ("all other packets that this host sends")
    )
    return f"it has no queue for each flow and no AQM; a bulk transfer delays {other}"


def default(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Finding about the default queue discipline of new interfaces."""
    kind = facts.value("net.core.default_qdisc")
    if kind is None:
        yield Finding(
            id="qdisc-default",
            severity="note",
            what="net.core.default_qdisc is not visible here",
            why="it belongs to the initial network namespace; a container cannot read it",
            source=kernels.FEATURES["default_qdisc"].told,
        )
        return
    yield Finding(
        id="qdisc-default",
        severity="note" if is_fifo(kind) else "good",
        what=f"new interfaces use the queue discipline {kind}",
        why=_shared(kind) if is_fifo(kind) else "each flow has its own queue",
        fix=_fair(facts) if is_fifo(kind) else "",
        source=kernels.FEATURES["default_qdisc"].told,
    )


def interfaces(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Findings about the queue discipline of each interface."""
    if "tc" in facts.lacks:
        yield Finding(
            id="qdisc",
            severity="note",
            what="the queue disciplines of the interfaces are unknown: `tc` is missing",
            why="the default applies only to interfaces that come up afterwards",
            fix="install iproute2 (OpenWrt: tc-tiny)",
            source="tc(8)",
        )
        return
    wanted = facts.value("net.core.default_qdisc")
    for one in carriers(facts):
        root = one.root
        if root is None:
            continue
        kinds = Counter(leaf.kind for leaf in one.leaves)
        told = listed([f"{n} × {kind}" if n > 1 else kind for kind, n in kinds.items()])
        if root.kind in {"mq", "mqprio"}:
            told = f"{root.kind} with {told or 'no leaves'}"
        own = any(somebody_configured(q) for q in one.qdiscs)
        stale = (
            wanted is not None
            and not own
            and all(leaf.attached_by_kernel for leaf in one.leaves)
            and bool(kinds)
            and set(kinds) != {wanted}
            and "noqueue" not in kinds
        )
        fifo = any(is_fifo(kind) for kind in kinds)
        if own:
            yield Finding(
                id="qdisc",
                severity="good",
                subject=one.name,
                what=f"it uses {told}, configured by an administrator",
                why="narrows does not replace a configured shaper or emulator without --replace",
                source="tc -s qdisc show",
            )
        elif stale:
            yield Finding(
                id="qdisc",
                severity="warning",
                subject=one.name,
                what=f"it uses {told}, but the default is {wanted}",
                why="the default applies when an interface comes up for the first time; this one "
                "was up before",
                fix=f"`narrows tune plan --qdisc {wanted} --dev {one.name}`",
                source=kernels.FEATURES["default_qdisc"].told,
            )
        else:
            yield Finding(
                id="qdisc",
                severity="note" if fifo else "good",
                subject=one.name,
                what=f"it uses {told}",
                why=_shared(next(kind for kind in kinds if is_fifo(kind)))
                if fifo
                else "it is not a plain FIFO queue",
                fix=_fair(facts, one.name) if fifo else "",
                source="tc -s qdisc show",
            )


def pacing(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Reports whether congestion controls that require pacing are paced, by fq or by TCP."""
    asks = [cc for cc in dict.fromkeys([facts.default_cc or "", *facts.sockets]) if cc in paced()]
    internal = kernels.has(facts.kernel, "pacing")
    carrying = carriers(facts)
    without = [
        one.name
        for one in carrying
        if any(leaf.kind != "fq" for leaf in one.leaves) or not one.leaves
    ]
    told = kernels.FEATURES["pacing"].told
    if not asks:
        return
    who = listed(asks)
    if internal is None:
        return
    if not without and carrying:
        yield Finding(
            id="pacing",
            severity="good",
            what=f"{who} is paced by fq on {listed([one.name for one in carrying])}",
            why="packets leave at the pacing rate of the congestion control",
            source=kernels.FEATURES["fq"].told,
        )
    elif internal:
        yield Finding(
            id="pacing",
            severity="good",
            what=f"{who} is paced by TCP itself; fq is not needed"
            + (f" ({', '.join(without)})" if without else ""),
            why="since Linux 4.13, sockets pace themselves without fq; fq paces with less CPU time "
            "if there are thousands of flows"
            + (
                ""
                if kernels.has(facts.kernel, "edt")
                else "; before Linux 4.20, each packet needs its own timer"
            ),
            source=told,
        )
    else:
        yield Finding(
            id="pacing",
            severity="error",
            subject=", ".join(without),
            what=f"{who} is not paced: Linux {facts.release} paces only in fq, "
            + (
                f"which {listed(without)} {'does' if len(without) == 1 else 'do'} not have"
                if without
                else "and the queue disciplines are unknown"
            ),
            why="it sends bursts of a whole window, which overflow the queue of the bottleneck",
            fix="`narrows tune plan --qdisc fq`, or Linux 4.13 or newer",
            source=told,
        )


def bql(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Findings about byte queue limits of drivers, below the queue discipline."""
    for one in carriers(facts):
        if not one.hardware or one.wireless:
            continue
        used = one.tx_bytes is not None and one.tx_bytes > _USED_BYTES
        works = any(limit > 0 for limit in one.bql_limits)
        driver = one.driver or "an unnamed driver"
        if works:
            yield Finding(
                id="bql",
                severity="good",
                subject=one.name,
                what=f"its driver ({driver}) has a byte queue limit of {max(one.bql_limits)} bytes",
                why="packets therefore wait in the queue discipline",
                source=kernels.FEATURES["bql"].told,
            )
        elif used or (one.ring_tx is not None and not one.bql_limits):
            waits = _ring_ms(one)
            deep = waits is not None and waits > _RING_MS
            ring = "" if one.ring_tx is None else f"; its ring holds {one.ring_tx} packets"
            yield Finding(
                id="bql",
                severity="warning" if deep else "note",
                subject=one.name,
                what=f"its driver ({driver}) has no byte queue limits{ring}"
                + (f", {waits:.0f} ms at {one.speed_mbit} Mbit/s" if waits is not None else ""),
                why="no queue discipline can manage packets in the ring",
                fix=f"shape slightly below the link rate, or `ethtool -G {one.name} tx 64`"
                if deep
                else "",
                source=kernels.FEATURES["bql"].told,
            )


def _ring_ms(one: Interface) -> float | None:
    if one.ring_tx is None or one.speed_mbit is None:
        return None
    return one.ring_tx * _FRAME * 8 / one.speed_mbit / 1e3


def offloads(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Findings about segmentation and receive offload."""
    for one in carriers(facts):
        if not one.offloads:
            continue
        off = [
            short
            for name, short in (
                ("tcp-segmentation-offload", "TSO"),
                ("generic-segmentation-offload", "GSO"),
                ("generic-receive-offload", "GRO"),
            )
            if one.offloads.get(name) == "off"
        ]
        slow = one.speed_mbit is not None and one.speed_mbit < _SLOW_MBIT
        lro = one.offloads.get("large-receive-offload") == "on"
        if lro and facts.forwards:
            yield Finding(
                id="offloads",
                severity="error",
                subject=one.name,
                what="large receive offload is on, and this host forwards packets",
                why="merged packets cannot be split into the original ones, so forwarding breaks",
                fix=f"`ethtool -K {one.name} lro off`",
                source="Documentation/networking/netdevices.rst of Linux: NETIF_F_LRO",
            )
        if off:
            yield Finding(
                id="offloads",
                severity="note",
                subject=one.name,
                what=f"off: {', '.join(off)}",
                why="each packet passes the stack individually; on a slow link this avoids bursts"
                if slow
                else "each packet passes the stack individually, which limits fast links",
                fix=""
                if slow
                else f"`ethtool -K {one.name} {' '.join(name.lower() + ' on' for name in off)}`",
                source="ethtool(8)",
            )
        elif slow and one.offloads.get("tcp-segmentation-offload") == "on":
            yield Finding(
                id="offloads",
                severity="note",
                subject=one.name,
                what=f"segmentation offload is on, on a link of {one.speed_mbit} Mbit/s",
                why="up to 64 kB leave as one burst, which delays other packets by "
                f"{65536 * 8 / (one.speed_mbit or 1) / 1e3:.0f} ms",
                fix="cake splits them if it shapes; otherwise the limits of TCP keep bursts small",
                source="Documentation/networking/segmentation-offloads.rst of Linux",
            )


def coalescing(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Findings about the delay of interrupts (coalescing) of network cards."""
    for one in carriers(facts):
        text = one.coalesce.get("rx-usecs", "")
        adaptive = one.coalesce.get("Adaptive RX", "").startswith("on")
        if not text.isdecimal():
            continue
        long = int(text) >= _COALESCED_US and not adaptive
        yield Finding(
            id="coalescing",
            severity="note" if long else "good",
            subject=one.name,
            what=f"interrupts are delayed by up to {text} µs"
            + (" and adapt to the load" if adaptive else ""),
            why="on short paths this can be the largest part of the delay; it saves CPU time at "
            "high throughput",
            fix=f"`ethtool -C {one.name} rx-usecs 0` for latency-sensitive traffic" if long else "",
            source="ethtool(8), -C",
        )


RULES = (default, interfaces, pacing, bql, offloads, coalescing)
