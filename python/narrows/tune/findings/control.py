"""The kernel, its congestion controls, who uses which."""

from __future__ import annotations

from collections.abc import Iterator

from narrows.render.words import listed
from narrows.tune import kernels
from narrows.tune.facts import Facts
from narrows.tune.findings.finding import Finding, Path

_DOC = "Documentation/networking/ip-sysctl.rst of Linux"
_RESTRICTED = {"dctcp", "prague", "lp", "cdg"}
"""Made for networks of their own, or to give way."""


def kernel(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Which release, and what it can."""
    release = facts.kernel
    if release is None:
        yield Finding(
            id="kernel",
            severity="note",
            what="the kernel's release was not seen",
            why="what it can is told by what it shows alone",
            source="/proc/sys/kernel/osrelease",
        )
        return
    names = ("bbr", "pacing", "edt", "bbr_aggregation")
    has = [kernels.FEATURES[name] for name in names if kernels.has(release, name)]
    lacks = [kernels.FEATURES[name] for name in names if not kernels.has(release, name)]
    without = (
        ""
        if not lacks
        else "; it is older than "
        + listed([f"{f.what} ({f.since[0]}.{f.since[1]})" for f in lacks])
    )
    present = facts.has_cc("bbr") in {"builtin", "loaded", "loadable"}
    old = kernels.has(release, "bbr") is False and not present
    cure = (
        kernels.newer_kernel(*facts.distribution, facts.machine, kernels.FEATURES["bbr"].since)
        if old
        else None
    )
    yield Finding(
        id="kernel",
        severity="note" if old or lacks else "good",
        what=f"{facts.system}, Linux {facts.release}{without}",
        why="which congestion controls there are and whether pacing is exact depend on the release",
        fix=""
        if cure is None
        else f"`{' '.join(cure.command)}` and a reboot: {cure.why}; it is never installed unasked",
        source="; ".join(f.told for f in (lacks or has)),
    )


def default(facts: Facts, _path: Path) -> Iterator[Finding]:
    """What new connections use."""
    cc = facts.default_cc
    if cc is None:
        yield Finding(
            id="cc-default",
            severity="note",
            what="the default congestion control cannot be seen here",
            why="nothing can be said of new connections",
            fix="a container may hide it; look at the host that runs it",
            source="/proc/sys/net/ipv4/tcp_congestion_control",
        )
        return
    odd = cc in _RESTRICTED
    reno = cc == "reno"
    yield Finding(
        id="cc-default",
        severity="warning" if odd or reno else "good",
        what=f"new connections use {cc}, unless their program or their route says otherwise",
        why=f"{cc} is not made for the open Internet: it is unfair there, or starves"
        if odd
        else "reno takes minutes to fill a long fast path again after a loss"
        if reno
        else "it decides how what this host sends shares a path; what it receives is decided by "
        "the senders",
        fix="`narrows tune plan --cc cubic`" if odd or reno else "",
        source=f"{_DOC}: tcp_congestion_control",
    )


def available(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Which there are, and which could be."""
    if not facts.available:
        return
    loadable = [
        module.removeprefix("tcp_")
        for module in sorted(set(facts.loadable))
        if module.startswith("tcp_")
        and module.removeprefix("tcp_") not in [*facts.available, "diag"]
    ]
    loads = f"; could be loaded: {', '.join(loadable)}" if loadable else ""
    allowed = (facts.value("net.ipv4.tcp_allowed_congestion_control") or "").split()
    yield Finding(
        id="cc-available",
        severity="note",
        what=f"there: {', '.join(facts.available)}{loads}; any user may choose: "
        f"{', '.join(allowed) or 'not known'}",
        why="a program without privilege may choose among the allowed ones only; the default is "
        "always allowed",
        fix="`narrows with --cc NAME -- COMMAND` chooses for one program",
        source=f"{_DOC}: tcp_available_congestion_control, tcp_allowed_congestion_control",
    )
    where = facts.has_cc("bbr")
    if where in {"missing", None}:
        option = facts.config.get("CONFIG_TCP_CONG_BBR")
        cure = None
        if option == "m" or (facts.openwrt and kernels.has(facts.kernel, "bbr")):
            cure = kernels.module_package(
                facts.distribution[0], "tcp_bbr", facts.release, apk="/usr/bin/apk" in facts.there
            )
        told = (
            "this kernel is built without BBR"
            if option == "n"
            else "BBR was not found on this host"
        )
        if option == "m":
            told = "this kernel has BBR as a module, and the module is not installed"
        yield Finding(
            id="cc-bbr",
            severity="note",
            what=told,
            why="switching it on would fail, and a boot file that names it would be ignored",
            fix=f"`{' '.join(cure.command)}`: {cure.why}" if cure is not None else "",
            source=kernels.FEATURES["bbr"].told,
        )


def half(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Does the live default agree with the files?"""
    line = facts.decided("net.ipv4.tcp_congestion_control")
    if line is None or facts.default_cc is None or line.value == facts.default_cc:
        return
    where = facts.has_cc(line.value)
    missing = where in {"missing", None}
    late = where == "loadable" and not any(
        name == f"tcp_{line.value}" for _, name in facts.boot_modules
    )
    yield Finding(
        id="cc-files",
        severity="error",
        subject=f"/{line.file}",
        what=f"it says `{line.text}`, and the kernel uses {facts.default_cc}",
        why="the file was not read, its value was refused, or the value was changed since; the "
        "next boot may "
        "change it back"
        + ("; this kernel has no such congestion control" if missing else "")
        + ("; its module is not loaded at boot, before the file is read" if late else ""),
        fix="`narrows tune plan` writes module and value together, in the order in which they are "
        "read",
        source="sysctl.d(5)",
    )


def sockets(facts: Facts, _path: Path) -> Iterator[Finding]:
    """What running connections use."""
    if "ss" in facts.lacks:
        yield Finding(
            id="cc-sockets",
            severity="note",
            what="what running connections use cannot be seen: there is no `ss`",
            why="a change of the default does not touch connections that are open",
            fix="install iproute2 (OpenWrt: ss)",
            source="ss(8)",
        )
        return
    if not facts.sockets or facts.default_cc is None:
        return
    other = {cc: n for cc, n in facts.sockets.items() if cc != facts.default_cc}
    told = listed([f"{n} {cc}" for cc, n in facts.sockets.items()])
    yield Finding(
        id="cc-sockets",
        severity="note" if other else "good",
        what=f"running connections use: {told}",
        why="a connection keeps the congestion control it began with; only new ones, accepted "
        "too, take the default",
        fix=f"they end by themselves; restart what should use {facts.default_cc} at once"
        if other
        else "",
        source="ss -ti, of the kernel's sock_diag",
    )


def spaces(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Other namespaces: containers."""
    for space in facts.spaces:
        if space.cc is None:
            continue
        used = listed([f"{n} {cc}" for cc, n in space.sockets.items()]) or "no connections"
        differs = facts.default_cc is not None and space.cc != facts.default_cc
        yield Finding(
            id="cc-namespaces",
            severity="note" if differs else "good",
            subject=f"namespace of process {space.pid}",
            what=f"its default is {space.cc}; running connections use: {used}",
            why="each network namespace has a default of its own, which it took from the first "
            "one when it was made",
            fix="`narrows tune plan --netns NAME`, or restart the container" if differs else "",
            source=kernels.FEATURES["cc_netns"].told,
        )


RULES = (kernel, default, available, half, sockets, spaces)
