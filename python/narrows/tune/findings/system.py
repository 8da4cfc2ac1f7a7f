"""Files that decide at boot, what the machine is, and what a router must know."""

from __future__ import annotations

import re
from collections.abc import Iterator

from narrows.render.words import listed
from narrows.tune import kernels
from narrows.tune.facts import Facts
from narrows.tune.findings.finding import Finding, Path
from narrows.tune.persist import SECTIONS

_CONTAINERS = (
    "docker",
    "podman",
    "lxc",
    "lxc-libvirt",
    "systemd-nspawn",
    "openvz",
    "rkt",
    "wsl",
    "container-other",
)
"""As systemd-detect-virt names them."""

_WATCHED = ("net.ipv4.tcp_congestion_control", "net.core.default_qdisc")


def files(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Who decides at boot, and who is overruled."""
    for key in _WATCHED:
        lines = [line for line in facts.boot_order() if line.key == key]
        if not lines:
            continue
        last = lines[-1]
        losers = [line for line in lines[:-1] if line.value != last.value]
        yield Finding(
            id="boot-files",
            severity="warning" if losers else "good",
            subject=key,
            what=f"/{last.file} decides it at boot: {last.value}"
            + "".join(f"; /{line.file} says {line.value} and is overruled" for line in losers),
            why="files are read in the order of their names, whatever folder they are in, and the "
            "last one wins",
            fix="take the line out of the files that are overruled" if losers else "",
            source="sysctl.d(5)" if not facts.openwrt else "OpenWrt's /etc/init.d/sysctl",
        )
    for line in facts.boot:
        if re.search(r"\s[#;]", line.value) or line.value.endswith(("#", ";")):
            yield Finding(
                id="boot-comment",
                severity="error",
                subject=f"/{line.file}",
                what=f"`{line.text}`: a comment behind a value is part of the value",
                why="the kernel refuses such a value, and the old one stays",
                fix="put the comment on a line of its own",
                source="sysctl.d(5): a comment is a line that begins with # or ;",
            )


def modules(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Will the module be there when the file is read?"""
    for key, prefix in (
        ("net.ipv4.tcp_congestion_control", "tcp_"),
        ("net.core.default_qdisc", "sch_"),
    ):
        line = facts.decided(key)
        if line is None:
            continue
        module = prefix + line.value
        where = facts.has_module(module)
        if where == "missing" and line.value not in [*facts.available, facts.value(key)]:
            yield Finding(
                id="boot-module",
                severity="error",
                subject=f"/{line.file}",
                what=f"it asks for {line.value}, and this kernel has no {module}",
                why="the setting fails at every boot, and whoever reads the file believes it",
                fix="`narrows tune plan` says which package would bring it",
                source="/lib/modules, the kernel's configuration",
            )


def networkd(facts: Facts, _path: Path) -> Iterator[Finding]:
    """systemd-networkd gives interfaces queue disciplines, and routes congestion controls, of its
    own.
    """
    for file, lines in sorted(facts.networkd.items()):
        sections = [line.strip("[]") for line in lines if line.startswith("[")]
        kinds = [section for section in sections if section in SECTIONS.values()]
        chosen = [
            line.partition("=")[2]
            for line in lines
            if line.startswith("TCPCongestionControlAlgorithm=")
        ]
        if not kinds and not chosen:
            continue
        told = [f"a queue discipline ({', '.join(kinds)})"] if kinds else []
        told += [f"a route's congestion control ({', '.join(chosen)})"] if chosen else []
        yield Finding(
            id="boot-networkd",
            severity="note",
            subject=f"/{file}",
            what=f"it sets {listed(told)}",
            why="networkd sets it again whenever it configures the interface, whatever was set by "
            "hand or is "
            "the default",
            source="systemd.network(5)",
        )


def openwrt(facts: Facts, _path: Path) -> Iterator[Finding]:
    """OpenWrt's own way: a package that changes the default."""
    if not facts.openwrt:
        return
    if "kmod-tcp-bbr" in facts.packages:
        yield Finding(
            id="openwrt-bbr",
            severity="note",
            what="the package kmod-tcp-bbr is installed",
            why="it makes BBR the default by a file of its own, /etc/sysctl.d/12-tcp-bbr.conf, "
            "and removing it "
            "undoes that; "
            "only connections that end on this router use it",
            source="OpenWrt's package/kernel/linux/modules/netsupport.mk",
        )
    sqm = any("option enabled '1'" in line for line in facts.sqm)
    if facts.forwards and not sqm:
        yield Finding(
            id="openwrt-sqm",
            severity="note",
            what="no SQM is switched on"
            + ("" if "sqm-scripts" in facts.packages else ", nor is sqm-scripts installed"),
            why="what makes a home line slow under load is the queue at its narrow place; a "
            "shaper with cake or "
            "fq_codel on "
            "this router takes that queue away for everybody behind it, and BBR here does not",
            fix="measure the line, then `opkg install sqm-scripts` and set its rates a little "
            "below",
            source="OpenWrt's documentation of SQM",
        )


def router(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Forwarded flows."""
    if not facts.forwards:
        return
    yield Finding(
        id="router",
        severity="note",
        what="this host forwards packets",
        why="forwarded connections have their congestion control at their ends; this host's "
        "touches only what "
        "ends here. "
        "What it can do for the others is its queue discipline",
        fix="fq_codel or cake on the interface to the slow side, shaped a little below its rate, "
        "not BBR and not fq",
        source="/proc/sys/net/ipv4/ip_forward",
    )


def machine(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Virtual machine or container, and what that forbids."""
    kind = container(facts)
    if kind is not None:
        yield Finding(
            id="container",
            severity="note",
            what=f"this is a container ({kind})"
            + ("; its sysctls cannot be written" if facts.locked else ""),
            why="modules, net.core.default_qdisc and the real interfaces are the host's that runs "
            "it; a "
            "namespace has only its "
            "own default congestion control"
            + (
                ""
                if kernels.has(facts.kernel, "cc_netns") is not False
                else ", and before Linux 4.15 not even that"
            ),
            fix="run narrows on that host, or start the container with --sysctl "
            "net.ipv4.tcp_congestion_control=…, "
            "with the module loaded outside before",
            source=kernels.FEATURES["cc_netns"].told,
        )
    elif facts.uid not in {None, 0} and facts.default_cc is not None:
        yield Finding(
            id="privilege",
            severity="note",
            what="looked at without privilege",
            why="other namespaces and debugfs are root's; everything else was seen",
            source="id -u",
        )
    virtual = hypervisor(facts)
    if virtual is not None and kind is None:
        yield Finding(
            id="virtual",
            severity="note",
            what=f"this is a virtual machine ({virtual})",
            why="its processor may be taken away in the middle of a burst, so pacing and "
            "timestamps are "
            "coarser, and its card's "
            "queue is the hypervisor's",
            source="DMI, /proc/cpuinfo",
        )


def container(facts: Facts) -> str | None:
    """The kind of container, or None; one that may do what a host may is none here."""
    if facts.uid == 0 and facts.writes_sysctl and facts.value("net.core.default_qdisc") is not None:
        return None
    if facts.container:
        return facts.container
    if facts.virtual in _CONTAINERS:
        return facts.virtual
    for there, hidden, name in (
        ("/run/.containerenv", "", "podman"),
        ("/proc/vz", "/proc/bc", "openvz"),
    ):
        if there in facts.there and hidden not in facts.there:
            return name
    if any(re.search(r"/(docker|lxc|kubepods|containerd)", line) for line in facts.cgroup):
        return "docker or alike"
    return "docker" if "/.dockerenv" in facts.there and not facts.writes_sysctl else None


def hypervisor(facts: Facts) -> str | None:
    """The kind of virtual machine, or None."""
    if facts.virtual and facts.virtual not in {"none", *_CONTAINERS}:
        return facts.virtual
    told = f"{facts.vendor or ''} {facts.product or ''}"
    for mark, name in (
        ("QEMU", "QEMU"),
        ("KVM", "KVM"),
        ("VMware", "VMware"),
        ("VirtualBox", "VirtualBox"),
        ("Xen", "Xen"),
        ("Amazon EC2", "Amazon EC2"),
        ("Google Compute", "Google Compute Engine"),
        ("Virtual Machine", "Hyper-V"),
    ):
        if mark in told:
            return name
    return (
        "a hypervisor"
        if any(line.startswith("flags") and " hypervisor" in line for line in facts.cpu)
        else None
    )


RULES = (files, modules, networkd, openwrt, router, machine)
