"""Findings about wireless interfaces: queues, airtime fairness and link rate."""

from __future__ import annotations

import re
from collections.abc import Iterator

from narrows.tune import kernels
from narrows.tune.facts import Facts, Interface
from narrows.tune.findings.finding import Finding, Path

INTERMEDIATE = {
    "ath9k": (4, 10),
    "ath10k_pci": (4, 10),
    "ath10k_core": (4, 10),
    "mt76": (4, 16),
    "mt7603e": (4, 16),
    "mt76x2e": (4, 16),
    "mt7615e": (5, 1),
    "mt7915e": (5, 10),
    "mt7921e": (5, 12),
    "iwlwifi": (5, 1),
    "rtw88": (5, 2),
    "rtw88_8822be": (5, 2),
    "ath11k_pci": (5, 6),
}
"""Drivers that use the fair queues of mac80211, each with the first release of Linux in which it
does. The qdisc of such an interface is `noqueue`.
"""

_BACKPORTED = (4, 4)
"""OpenWrt builds mac80211 and the drivers from later kernels (its package `mac80211`). Therefore
its drivers use these queues since OpenWrt 17.01 with Linux 4.4."""

_MHZ = re.compile(r"(\d+) ?MHz")
_RATE = re.compile(r"tx bitrate: ([\d.]+) MBit/s(.*)")
_SIGNAL = re.compile(r"signal: (-?\d+) dBm")
_WEAK_DBM = -75


def queue(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Findings about the queues of wireless interfaces."""
    for one in facts.interfaces:
        if not one.wireless:
            continue
        inner = _fair(facts, one)
        driver = one.driver or "an unnamed driver"
        yield Finding(
            id="wifi-queue",
            severity="good" if inner else "warning",
            subject=one.name,
            what=f"{driver}: packets wait in the fair queues of mac80211, one per station"
            if inner
            else f"{driver}: packets wait in the queue discipline and then in the network card",
            why="packets to a slow station do not delay those to a fast one"
            if inner
            else "the card queues more packets than it can send soon, which a queue discipline "
            "cannot control",
            fix="" if inner else _cure(facts, one),
            source=kernels.FEATURES["wifi_fq"].told,
        )


def _fair(facts: Facts, one: Interface) -> bool:
    """Whether packets wait in the fair queues of mac80211. The result follows from visible settings
    or, without them, from the driver and the release of Linux.
    """
    if one.root is not None and one.root.kind == "noqueue":
        return True
    if (
        any(path.endswith("/aqm") for path in facts.debug)
        and sum(i.wireless for i in facts.interfaces) == 1
    ):
        # mac80211 creates this file only for a driver with queues per station.
        return True
    since = INTERMEDIATE.get(one.driver or "")
    if since is None or facts.kernel is None:
        return False
    if facts.openwrt and facts.kernel >= _BACKPORTED:
        return True
    return one.root is None and facts.kernel >= since


def _cure(facts: Facts, one: Interface) -> str:
    since = INTERMEDIATE.get(one.driver or "")
    if since is not None and facts.kernel is not None and facts.kernel < since:
        return f"Linux {since[0]}.{since[1]} or newer, where {one.driver} uses the mac80211 queues"
    if since is not None and one.root is not None:
        return (
            f"`tc qdisc replace dev {one.name} root noqueue`: {one.driver} has the queues of "
            "mac80211 below it"
        )
    return "a driver that uses the queues of mac80211 (ath9k, ath10k, mt76, iwlwifi from 5.1)"


def air(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Airtime queue limits (AQL) and airtime fairness of wireless drivers."""
    if not any(one.wireless for one in facts.interfaces):
        return
    aql = [
        line for path, lines in facts.debug.items() if path.endswith("aql_enable") for line in lines
    ]
    seen = any("ieee80211" in path for path in facts.debug)
    if not seen:
        # OpenWrt's mac80211 is newer than its kernel.
        old = kernels.has(facts.kernel, "aql") is False and not facts.openwrt
        yield Finding(
            id="wifi-airtime",
            severity="note",
            what="could not check airtime fairness and airtime queue limits (AQL), because debugfs "
            "requires root" + ("; this kernel has no airtime queue limits" if old else ""),
            why="if a driver lacks them, one slow station can take most of the airtime",
            fix="run the audit as root, with debugfs mounted",
            source=f"{kernels.FEATURES['airtime'].told}; {kernels.FEATURES['aql'].told}",
        )
        return
    on = bool(aql) and aql[0].strip() == "1"
    yield Finding(
        id="wifi-airtime",
        severity="good" if on else "warning" if aql else "note",
        what=f"airtime queue limits are {'on' if on else 'off' if aql else 'missing'}",
        why="they limit the queue of the card by time, which keeps the latency of a slow link low",
        fix=""
        if on
        else "`echo 1 > /sys/kernel/debug/ieee80211/PHY/aql_enable`"
        if aql
        else "OpenWrt from 21.02 on"
        if facts.openwrt
        else "Linux 5.5 or newer",
        source=kernels.FEATURES["aql"].told,
    )


def link(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Bit rate, signal and channel width of a wireless link; the channel width is compared with
    that of the card.
    """
    for one in facts.interfaces:
        if not one.wireless or not one.link:
            continue
        rate, rest, signal = _link(one)
        if rate is None:
            continue
        wide, most = _MHZ.search(rest), _widest(facts)
        narrow = wide is not None and most is not None and int(wide[1]) < most
        weak = signal is not None and signal < _WEAK_DBM
        yield Finding(
            id="wifi-link",
            severity="warning" if weak else "note" if narrow else "good",
            subject=one.name,
            what=f"transmit bit rate {rate:g} Mbit/s"
            + ("" if wide is None else f", channel width {wide[1]} MHz")
            + ("" if signal is None else f", signal {signal} dBm")
            + (f" (weak: below {_WEAK_DBM} dBm)" if weak else "")
            + (f". The card supports {most} MHz" if narrow else ""),
            why="a slow link needs more airtime for each packet, at the expense of all stations on "
            "the channel; no queue discipline or congestion control can compensate it",
            fix="a shorter distance to the access point, another band or channel; the access point "
            "selects the channel width"
            if weak or narrow
            else "",
            source=f"iw dev {one.name} link; iw phy",
        )


def _link(one: Interface) -> tuple[float | None, str, int | None]:
    rate, rest, signal = None, "", None
    for line in one.link:
        found, level = _RATE.search(line), _SIGNAL.search(line)
        if found:
            rate, rest = float(found[1]), found[2]
        if level:
            signal = int(level[1])
    return rate, rest, signal


def _widest(facts: Facts) -> int | None:
    """The largest channel width that the cards support, in MHz, from `iw phy`; None if unknown."""
    text = " ".join(facts.phys)
    if "HE160" in text or "Supported Channel Width: 160 MHz" in text:
        return 160
    if "VHT Capabilities" in text:
        return 80
    return 40 if "HT20/HT40" in text else None


RULES = (queue, air, link)
