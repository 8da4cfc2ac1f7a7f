"""Findings about TCP: buffers for a path, TCP features, ECN, MTU probing, and the CPU governor."""

from __future__ import annotations

from collections.abc import Iterator

from narrows.tune import kernels
from narrows.tune.facts import Facts
from narrows.tune.findings.finding import Finding, Path

_DOC = "Documentation/networking/ip-sysctl.rst of Linux"
_SHARE = 0.5
"""Share of a socket buffer that payload can use; Linux counts the rest as overhead
(tcp_adv_win_scale 1 until Linux 6.6, measured for each connection since)."""

_RTT_MS = 100.0
_BIG = 1e6


def _size(value: float) -> str:
    return f"{value / 1e6:.1f} MB" if value >= _BIG else f"{value / 1e3:.0f} kB"


def buffers(facts: Facts, path: Path) -> Iterator[Finding]:
    """Reports whether the TCP buffers let one connection fill the path."""
    for key, what in (("net.ipv4.tcp_wmem", "send"), ("net.ipv4.tcp_rmem", "receive")):
        limits = facts.numbers(key)
        if len(limits) != 3:  # noqa: PLR2004 - least, default, most
            continue
        usable = limits[2] * _SHARE
        rate = usable * 8 / 1e6 / (_RTT_MS / 1e3)
        bdp = path.bdp_bytes
        short = bdp is not None and usable < bdp
        told = (
            f"the {what} buffer of a connection is at most {_size(limits[2])} (about half of it is "
            "payload, the rest is overhead of the kernel)"
        )
        if bdp is None:
            held = f"{told}: enough for {rate:.0f} Mbit/s at an RTT of {_RTT_MS:.0f} ms"
        else:
            held = f"{told}; the bandwidth-delay product of the path is {_size(bdp)}"
        yield Finding(
            id="buffers",
            severity="warning" if short else "good" if bdp is not None else "note",
            subject=key,
            what=held,
            why=f"the {what} buffer limits the data in flight, here to "
            f"{usable * 8 / 1e3 / (path.rtt_ms or 1):.0f} Mbit/s at {path.rtt_ms:.0f} ms"
            if short
            else f"the {what} buffer limits the data in flight"
            + (
                "; `narrows tune audit --rate 1Gbit --rtt 80ms` checks it for a given path"
                if bdp is None
                else ""
            ),
            fix=f"`narrows tune plan --rate {path.rate_mbit:g}Mbit --rtt {path.rtt_ms:g}ms`"
            if short
            else "",
            source=f"{_DOC}: {key.rpartition('.')[2]}",
        )


def switches(facts: Facts, _path: Path) -> Iterator[Finding]:
    """TCP features that are off, and the restart of slow start after an idle period."""
    for key, off, severity, why in (
        (
            "net.ipv4.tcp_window_scaling",
            "0",
            "error",
            "windows are limited to 64 kB: 5 Mbit/s at an RTT of 100 ms",
        ),
        (
            "net.ipv4.tcp_moderate_rcvbuf",
            "0",
            "warning",
            "receive buffers stay at their default and do not grow",
        ),
        (
            "net.ipv4.tcp_sack",
            "0",
            "warning",
            "after losses, the sender retransmits only one packet per round trip",
        ),
        (
            "net.ipv4.tcp_timestamps",
            "0",
            "note",
            "RTT samples are less frequent, and old segments cannot be detected (PAWS)",
        ),
        ("net.ipv4.tcp_no_metrics_save", "0", "", ""),
    ):
        if severity and facts.value(key) == off:
            yield Finding(
                id="tcp-switches",
                severity=severity,  # type: ignore[arg-type]
                subject=key,
                what="this feature is off",
                why=why,
                fix=f"`narrows tune plan --set {key}=1`",
                source=f"{_DOC}: {key.rpartition('.')[2]}",
            )
    if facts.value("net.ipv4.tcp_slow_start_after_idle") == "1":
        yield Finding(
            id="tcp-idle",
            severity="note",
            subject="net.ipv4.tcp_slow_start_after_idle",
            what="after an idle period, a connection restarts with a window of ten packets",
            why="this adds round trips to large responses on persistent connections; it protects "
            "the path from bursts",
            fix="`narrows tune plan --set net.ipv4.tcp_slow_start_after_idle=0`, if the path can "
            "buffer such bursts",
            source=f"{_DOC}; RFC 5681, 4.1; RFC 7661",
        )


def ecn(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Finding about explicit congestion notification (ECN)."""
    value = facts.value("net.ipv4.tcp_ecn")
    meaning = {
        "0": ("neither requested nor accepted", "note"),
        "1": ("requested and accepted", "good"),
        "2": ("accepted but not requested", "note"),
    }.get((value or "")[:1])
    if meaning is None:
        return
    fallback = facts.value("net.ipv4.tcp_ecn_fallback") != "0"
    what, severity = meaning
    yield Finding(
        id="ecn",
        severity=severity,  # type: ignore[arg-type]
        subject="net.ipv4.tcp_ecn",
        what=f"ECN is {what}"
        + ("" if fallback else "; connections hang on paths that do not pass ECN"),
        why="a queue that marks packets (fq_codel, cake) signals congestion without loss; on paths "
        "without such a queue, ECN has no effect",
        fix="" if value == "1" else "`narrows tune plan --ecn on`",
        source=f"{_DOC}: tcp_ecn; RFC 3168; {kernels.FEATURES['ecn_fallback'].told}",
    )


def mtu(facts: Facts, _path: Path) -> Iterator[Finding]:
    """TCP MTU probing, which detects paths on which large packets are lost without an ICMP
    message.
    """
    value = facts.value("net.ipv4.tcp_mtu_probing")
    if value is None:
        return
    yield Finding(
        id="mtu-probing",
        severity="note" if value == "0" else "good",
        subject="net.ipv4.tcp_mtu_probing",
        what={
            "0": "TCP MTU probing (RFC 4821) is off",
            "1": "TCP MTU probing (RFC 4821) begins after repeated timeouts",
        }.get(value, "TCP MTU probing (RFC 4821) is on for every connection"),
        why="if a path has a smaller MTU and ICMP is filtered (often with tunnels), full-size "
        "packets are lost and connections stall",
        fix="`narrows tune plan --mtu-probing`" if value == "0" else "",
        source=f"{_DOC}: tcp_mtu_probing; RFC 4821",
    )


def governor(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Finding about the CPU frequency governor."""
    slow = sorted(
        {name for name in facts.governors if name in {"powersave", "ondemand", "conservative"}}
    )
    if not facts.governors:
        return
    yield Finding(
        id="governor",
        severity="note" if slow else "good",
        what=f"the CPU frequency governor is {', '.join(sorted(set(facts.governors)))}",
        why="a CPU at low frequency adds tens of microseconds to a response",
        fix="`cpupower frequency-set -g performance`, if latency is worth the power consumption"
        if slow
        else "",
        source="Documentation/admin-guide/pm/cpufreq.rst of Linux",
    )


RULES = (buffers, switches, ecn, mtu, governor)
