"""Findings about boot files, virtual machines, containers and routers."""

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
"""Names of container types that systemd-detect-virt prints."""

_WATCHED = ("net.ipv4.tcp_congestion_control", "net.core.default_qdisc")


def files(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Files that set the congestion control or the default qdisc at boot, files that are
    overridden, and lines with comments after the value.
    """
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
            what=f"/{last.file} sets it to {last.value} at boot"
            + "".join(f"; /{line.file} sets {line.value} and is overridden" for line in losers),
            why="files are read in the order of their names in all folders, and the last one wins",
            fix="remove the line from the overridden files" if losers else "",
            source="sysctl.d(5)" if not facts.openwrt else "OpenWrt's /etc/init.d/sysctl",
        )
    for line in facts.boot:
        if re.search(r"\s[#;]", line.value) or line.value.endswith(("#", ";")):
            yield Finding(
                id="boot-comment",
                severity="error",
                subject=f"/{line.file}",
                what=f"`{line.text}`: the comment after the value is part of the value",
                why="the kernel rejects this value and keeps the old one",
                fix="write the comment on its own line",
                source="sysctl.d(5): a comment is a line that begins with # or ;",
            )


def modules(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Reports boot files that select a congestion control or qdisc whose kernel module is
    missing.
    """
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
                what=f"it selects {line.value}, but this kernel has no {module}",
                why="the setting fails at every boot, although the file contains it",
                fix="`narrows tune plan` names the package that contains it",
                source="/lib/modules, the kernel's configuration",
            )


def networkd(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Queue disciplines and congestion controls of routes that systemd-networkd sets."""
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
            why="networkd sets it each time it configures the interface and overrides other "
            "settings",
            source="systemd.network(5)",
        )


def openwrt(facts: Facts, _path: Path) -> Iterator[Finding]:
    """OpenWrt: the package of BBR, and a router without SQM."""
    if not facts.openwrt:
        return
    if "kmod-tcp-bbr" in facts.packages:
        yield Finding(
            id="openwrt-bbr",
            severity="note",
            what="the package kmod-tcp-bbr is installed",
            why="its file /etc/sysctl.d/12-tcp-bbr.conf makes BBR the default until the package is "
            "removed; only connections that end on this router use BBR",
            source="OpenWrt's package/kernel/linux/modules/netsupport.mk",
        )
    sqm = any("option enabled '1'" in line for line in facts.sqm)
    if facts.forwards and not sqm:
        yield Finding(
            id="openwrt-sqm",
            severity="note",
            what="SQM is off"
            + ("" if "sqm-scripts" in facts.packages else ", and sqm-scripts is not installed"),
            why="the queue at the bottleneck makes a home connection slow under load; a shaper "
            "with cake or fq_codel on this router removes it for all hosts behind it, and BBR on "
            "this router does not",
            fix="measure the connection, then `opkg install sqm-scripts` and set its rates "
            "slightly below",
            source="OpenWrt's documentation of SQM",
        )


def router(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Reports that the host forwards packets, so that its congestion control does not affect the
    forwarded flows.
    """
    if not facts.forwards:
        return
    yield Finding(
        id="router",
        severity="note",
        what="this host forwards packets",
        why="the congestion control of this host applies only to connections that end here; for "
        "forwarded connections, only its queue disciplines matter",
        fix="fq_codel or cake on the interface to the slower side, shaped slightly below its rate; "
        "not BBR and not fq",
        source="/proc/sys/net/ipv4/ip_forward",
    )


def machine(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Virtual machines and containers, and their restrictions."""
    kind = container(facts)
    if kind is not None:
        yield Finding(
            id="container",
            severity="note",
            what=f"this host is a container ({kind})"
            + ("; its sysctls are read-only" if facts.locked else ""),
            why="modules, net.core.default_qdisc and physical interfaces belong to the host of the "
            "container; a namespace has only its own default congestion control"
            + (
                ""
                if kernels.has(facts.kernel, "cc_netns") is not False
                else ", and before Linux 4.15 not even that"
            ),
            fix="run narrows on that host, or load the module there and start the container with "
            "--sysctl net.ipv4.tcp_congestion_control=…",
            source=kernels.FEATURES["cc_netns"].told,
        )
    elif facts.uid not in {None, 0} and facts.default_cc is not None:
        yield Finding(
            id="privilege",
            severity="note",
            what="the audit ran without root privileges",
            why="other network namespaces and debugfs were not checked because they require root",
            source="id -u",
        )
    virtual = hypervisor(facts)
    if virtual is not None and kind is None:
        yield Finding(
            id="virtual",
            severity="note",
            what=f"this host is a virtual machine ({virtual})",
            why="the hypervisor may suspend its CPU during a burst, so pacing and timestamps are "
            "less accurate; the queue of its network card belongs to the hypervisor",
            source="DMI, /proc/cpuinfo",
        )


def container(facts: Facts) -> str | None:
    """The type of the container, or None if the host is not a container. A container in which root
    can change all settings of the host counts as no container.
    """
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
        return "docker or similar"
    return "docker" if "/.dockerenv" in facts.there and not facts.writes_sysctl else None


def hypervisor(facts: Facts) -> str | None:
    """The type of the virtual machine, or None if none is detected."""
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
        "hypervisor detected"
        if any(line.startswith("flags") and " hypervisor" in line for line in facts.cpu)
        else None
    )


RULES = (files, modules, networkd, openwrt, router, machine)
