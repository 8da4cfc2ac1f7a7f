"""The files that make a change persistent, for each kind of configuration: sysctl.d,
systemd-networkd, udev and OpenWrt.
"""

from __future__ import annotations

import re

from narrows.tune.facts import Facts, Interface

SYSCTL_FILE = "/etc/sysctl.d/99-narrows.conf"
SYSCTL_FILE_LAST = "/etc/sysctl.d/99-zz-narrows.conf"
"""The file for sysctls if another file, which is read after `SYSCTL_FILE`, sets another value, such
as Debian's link 99-sysctl.conf.
"""

HEAD = "# Written by narrows tune; `narrows tune revert` removes it.\n"

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_NETWORK_FILE = re.compile(r"/(?:etc|run|usr/lib|lib)/systemd/network/([A-Za-z0-9_.@-]+\.network)")
SECTIONS = {
    "fq": "FairQueueing",
    "fq_codel": "FairQueueingControlledDelay",
    "cake": "CAKE",
    "pfifo_fast": "PFIFOFast",
    "pfifo": "PFIFO",
    "bfifo": "BFIFO",
}
"""Names of queue disciplines in systemd-networkd (systemd.network(5))."""

File = tuple[str, str, str]
"""A file: its path, text and mode."""


def sysctl_text(settings: dict[str, str]) -> str:
    """The text of a sysctl.d file with these settings.

    >>> print(sysctl_text({"net.ipv4.tcp_congestion_control": "bbr"}).splitlines()[1])
    net.ipv4.tcp_congestion_control = bbr
    """
    return HEAD + "".join(f"{key} = {value}\n" for key, value in sorted(settings.items()))


def modules_file(facts: Facts) -> str | None:
    """The path of the file that lists modules to load at boot, before sysctls are set; None if
    unknown.
    """
    if facts.openwrt:
        return "/etc/modules.d/99-narrows"
    return "/etc/modules-load.d/narrows.conf" if facts.os else None


def _network(facts: Facts, one: Interface) -> str | None:
    """The name of the file with which networkd configures an interface; None if networkd does
    not.
    """
    for each in facts.network_files:
        index, _, file = each.partition(" ")
        found = _NETWORK_FILE.fullmatch(file)
        if found and index == str(one.index):
            return found[1]
    return None


def qdisc_file(facts: Facts, one: Interface, kind: str) -> File | None:
    """The file that sets the queue discipline of an interface at boot; None if the system is
    unknown.
    """
    several = one.root is not None and one.root.kind == "mq"
    name = _network(facts, one)
    if name is not None and kind in SECTIONS and not several:
        text = f"{HEAD}[{SECTIONS[kind]}]\nParent=root\n"
        return f"/etc/systemd/network/{name}.d/99-narrows.conf", text, "0644"
    commands = ["root handle 1: mq" if several else f"root {kind}"]
    if several:
        commands += [
            f"parent 1:{leaf.parent.rpartition(':')[2]} {kind}" for leaf in reversed(one.leaves)
        ]
    if facts.openwrt:
        text = (
            "#!/bin/sh\n" + HEAD + f'[ "$ACTION" = ifup ] && [ "$DEVICE" = {one.name} ] || exit 0\n'
        )
        text += "".join(f"tc qdisc replace dev {one.name} {command}\n" for command in commands)
        return "/etc/hotplug.d/iface/99-narrows", text, "0755"
    if not facts.os:
        return None
    match = f'KERNEL=="{one.name}"'
    if (
        one.address
        and _MAC.fullmatch(one.address)
        and one.address != "00:00:00:00:00:00"
        and one.hardware
    ):
        match = f'ATTR{{address}}=="{one.address}"'
    runs = "".join(f', RUN+="/sbin/tc qdisc replace dev $name {command}"' for command in commands)
    text = f'{HEAD}ACTION=="add", SUBSYSTEM=="net", {match}{runs}\n'
    return f"/etc/udev/rules.d/99-narrows-{one.name}.rules", text, "0644"


def route_file(facts: Facts, family: str, words: list[str]) -> File | None:
    """The file that sets a route with its congestion control at boot; None if no way to do it is
    known.
    """
    told = dict(zip(words[1::2], words[2::2], strict=False))
    one = facts.interface(told.get("dev", ""))
    name = None if one is None else _network(facts, one)
    if name is not None:
        destination = (
            ("0.0.0.0/0" if family == "inet" else "::/0") if words[0] == "default" else words[0]
        )
        text = f"{HEAD}[Route]\nDestination={destination}\n"
        if "via" in told:
            text += f"Gateway={told['via']}\n"
        if "metric" in told:
            text += f"Metric={told['metric']}\n"
        text += f"TCPCongestionControlAlgorithm={told['congctl']}\n"
        return f"/etc/systemd/network/{name}.d/99-narrows.conf", text, "0644"
    version = "-4" if family == "inet" else "-6"
    command = f"ip {version} route replace {' '.join(words)}\n"
    if facts.openwrt:
        text = (
            "#!/bin/sh\n"
            + HEAD
            + f'[ "$ACTION" = ifup ] && [ "$DEVICE" = {told.get("dev", "")} ] || exit 0\n{command}'
        )
        return "/etc/hotplug.d/iface/99-narrows", text, "0755"
    return None
