"""Findings about the kernel, its congestion controls, and the connections and namespaces that use
them.
"""

from __future__ import annotations

from collections.abc import Iterator

from narrows.render.words import listed
from narrows.tune import kernels
from narrows.tune.facts import Facts
from narrows.tune.findings.finding import Finding, Path

_DOC = "Documentation/networking/ip-sysctl.rst of Linux"
_RESTRICTED = {"dctcp", "prague", "lp", "cdg"}
"""Congestion controls for controlled networks or for background traffic."""

_FEW = 3
"""Maximum number of congestion controls that are named individually."""


def kernel(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Finding about the release and the features of the kernel."""
    release = facts.kernel
    if release is None:
        yield Finding(
            id="kernel",
            severity="note",
            what="the release of the kernel is unknown",
            why="only visible settings show the features of the kernel",
            source="/proc/sys/kernel/osrelease",
        )
        return
    names = ("bbr", "pacing", "edt", "bbr_aggregation")
    has = [kernels.FEATURES[name] for name in names if kernels.has(release, name)]
    lacks = [kernels.FEATURES[name] for name in names if not kernels.has(release, name)]
    without = (
        ""
        if not lacks
        else ". This kernel lacks: "
        + "; ".join(f"{f.what} (since Linux {f.since[0]}.{f.since[1]})" for f in lacks)
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
        why="the available congestion controls and the accuracy of pacing depend on the release",
        fix=""
        if cure is None
        else f"`{' '.join(cure.command)}` and a reboot: {cure.why}; narrows does not install it",
        source="; ".join(f.told for f in (lacks or has)),
    )


def default(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Finding about the default congestion control of new connections."""
    cc = facts.default_cc
    if cc is None:
        yield Finding(
            id="cc-default",
            severity="note",
            what="the default congestion control is not visible here",
            why="the congestion control of new connections is therefore unknown",
            fix="a container may hide it; audit the host that runs the container",
            source="/proc/sys/net/ipv4/tcp_congestion_control",
        )
        return
    odd = cc in _RESTRICTED
    reno = cc == "reno"
    yield Finding(
        id="cc-default",
        severity="warning" if odd or reno else "good",
        what=f"new connections use {cc}, unless their program or route selects another one",
        why=f"{cc} is not designed for the open Internet, where it is unfair or starves"
        if odd
        else "after a loss, reno needs minutes to fill a fast path with a long RTT again"
        if reno
        else "it determines how traffic from this host shares a path; the senders determine it for "
        "received traffic",
        fix="`narrows tune plan --cc cubic`" if odd or reno else "",
        source=f"{_DOC}: tcp_congestion_control",
    )


def available(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Findings about the available and loadable congestion controls, and about BBR."""
    if not facts.available:
        return
    loadable = [
        module.removeprefix("tcp_")
        for module in sorted(set(facts.loadable))
        if module.startswith("tcp_")
        and module.removeprefix("tcp_") not in [*facts.available, "diag"]
    ]
    loads = f"; loadable as modules: {', '.join(loadable)}" if loadable else ""
    first = [cc for cc in facts.available if cc == facts.default_cc]
    named = [
        *(f"{cc} (default)" for cc in first),
        *(cc for cc in facts.available if cc not in first),
    ]
    yield Finding(
        id="cc-available",
        severity="note",
        what=f"congestion controls: {', '.join(named)}{loads}. {_allowed(facts, loadable)}",
        why="a program can select its own congestion control only from those that it can use. To "
        "run one program with another one: `narrows with --cc NAME -- COMMAND`",
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
            told = "BBR is a module of this kernel, but the module is not installed"
        yield Finding(
            id="cc-bbr",
            severity="note",
            what=told,
            why="selecting it would fail, and a boot file that names it would have no effect",
            fix=f"`{' '.join(cure.command)}`: {cure.why}" if cure is not None else "",
            source=kernels.FEATURES["bbr"].told,
        )


def _allowed(facts: Facts, loadable: list[str]) -> str:
    """A sentence, without its full stop, about the congestion controls that unprivileged programs
    can use.
    """
    allowed = (facts.value("net.ipv4.tcp_allowed_congestion_control") or "").split()
    if not allowed:
        return "It is unknown which of them unprivileged programs can use"
    rest = [cc for cc in [*facts.available, *loadable] if cc not in allowed]
    others = "the others" if len(rest) > _FEW else listed(rest)
    root = f"; {others} require{'s' * (len(rest) == 1)} root" if rest else ""
    return f"Unprivileged programs can use {listed(allowed)}{root}"


def half(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Reports a default congestion control that differs from the one in the files read at boot."""
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
        what=f"it contains `{line.text}`, but the kernel uses {facts.default_cc}",
        why="the file was not read, its value was rejected, or the value was changed since; the "
        "next boot may change it back"
        + ("; this kernel does not have this congestion control" if missing else "")
        + ("; its module is not loaded before the file is read at boot" if late else ""),
        fix="`narrows tune plan` writes module and value in the right order",
        source="sysctl.d(5)",
    )


def sockets(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Finding about the congestion controls of existing connections."""
    if "ss" in facts.lacks:
        yield Finding(
            id="cc-sockets",
            severity="note",
            what="the congestion controls of existing connections are unknown: `ss` is missing",
            why="a change of the default does not affect existing connections",
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
        what=f"existing connections use: {told}",
        why="a connection keeps its congestion control; only new connections, including accepted "
        "ones, use the default",
        fix=f"restart programs that should use {facts.default_cc} immediately" if other else "",
        source="ss -ti, of the kernel's sock_diag",
    )


def spaces(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Findings about the congestion controls of other network namespaces (containers)."""
    for space in facts.spaces:
        if space.cc is None:
            continue
        used = listed([f"{n} {cc}" for cc, n in space.sockets.items()])
        differs = facts.default_cc is not None and space.cc != facts.default_cc
        yield Finding(
            id="cc-namespaces",
            severity="note" if differs else "good",
            subject=f"namespace of process {space.pid}",
            what=f"its default is {space.cc}; "
            + (f"existing connections use: {used}" if used else "it has no connections"),
            why="each network namespace has its own default, which it copied from the initial "
            "namespace when it was created",
            fix="`narrows tune plan --netns NAME`, or restart the container" if differs else "",
            source=kernels.FEATURES["cc_netns"].told,
        )


RULES = (kernel, default, available, half, sockets, spaces)
