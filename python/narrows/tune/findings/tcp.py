"""Buffers against a path, and the switches of TCP that matter."""

from __future__ import annotations

from collections.abc import Iterator

from narrows.tune import kernels
from narrows.tune.facts import Facts
from narrows.tune.findings.finding import Finding, Path

_DOC = "Documentation/networking/ip-sysctl.rst of Linux"
_SHARE = 0.5
"""Of a buffer that is payload: Linux counts its own bookkeeping to the buffer (tcp_adv_win_scale 1
until 6.6, measured for each connection since)."""

_RTT_MS = 100.0
_BIG = 1e6


def _size(value: float) -> str:
    return f"{value / 1e6:.1f} MB" if value >= _BIG else f"{value / 1e3:.0f} kB"


def buffers(facts: Facts, path: Path) -> Iterator[Finding]:
    """Can one connection fill the path?"""
    for key, what, way in (
        ("net.ipv4.tcp_wmem", "send", "sends"),
        ("net.ipv4.tcp_rmem", "receive", "receives"),
    ):
        limits = facts.numbers(key)
        if len(limits) != 3:  # noqa: PLR2004 - least, default, most
            continue
        usable = limits[2] * _SHARE
        rate = usable * 8 / 1e6 / (_RTT_MS / 1e3)
        bdp = path.bdp_bytes
        short = bdp is not None and usable < bdp
        told = (
            f"a connection that {way} may have {_size(limits[2])} of buffer, some "
            f"{_size(usable)} of it payload"
        )
        if bdp is None:
            held = f"{told}: enough for {rate:.0f} Mbit/s at {_RTT_MS:.0f} ms"
        else:
            held = f"{told}; the path's bandwidth-delay product is {_size(bdp)}"
        yield Finding(
            id="buffers",
            severity="warning" if short else "good" if bdp is not None else "note",
            subject=key,
            what=held,
            why=f"a connection cannot have more in flight than its {what} buffer holds: "
            f"{usable * 8 / 1e3 / (path.rtt_ms or 1):.0f} Mbit/s at {path.rtt_ms:.0f} ms"
            if short
            else f"a connection cannot have more in flight than its {what} buffer holds"
            + (" (hold it against a path: --rate 1Gbit --rtt 80ms)" if bdp is None else ""),
            fix=f"`narrows tune plan --rate {path.rate_mbit:g}Mbit --rtt {path.rtt_ms:g}ms`"
            if short
            else "",
            source=f"{_DOC}: {key.rpartition('.')[2]}",
        )


def switches(facts: Facts, _path: Path) -> Iterator[Finding]:
    """What somebody switched off once."""
    for key, off, severity, why in (
        (
            "net.ipv4.tcp_window_scaling",
            "0",
            "error",
            "no window can be larger than 64 kB: 5 Mbit/s at 100 ms",
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
            "after a loss the sender guesses what is missing, one packet per round trip",
        ),
        (
            "net.ipv4.tcp_timestamps",
            "0",
            "note",
            "round trips are measured less often; old segments cannot be told",
        ),
        ("net.ipv4.tcp_no_metrics_save", "0", "", ""),
    ):
        if severity and facts.value(key) == off:
            yield Finding(
                id="tcp-switches",
                severity=severity,  # type: ignore[arg-type]
                subject=key,
                what="it is off",
                why=why,
                fix=f"`narrows tune plan --set {key}=1`",
                source=f"{_DOC}: {key.rpartition('.')[2]}",
            )
    if facts.value("net.ipv4.tcp_slow_start_after_idle") == "1":
        yield Finding(
            id="tcp-idle",
            severity="note",
            subject="net.ipv4.tcp_slow_start_after_idle",
            what="a connection that was idle begins anew with ten packets",
            why="it costs round trips where connections are kept open and answers are large; it "
            "is kind to the path",
            fix="`narrows tune plan --set net.ipv4.tcp_slow_start_after_idle=0`",
            source=f"{_DOC}; RFC 5681, 4.1; RFC 7661",
        )


def ecn(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Explicit congestion notification."""
    value = facts.value("net.ipv4.tcp_ecn")
    meaning = {
        "0": ("neither asked for nor answered", "note"),
        "1": ("asked for and answered", "good"),
        "2": ("answered, and not asked for", "note"),
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
        + ("" if fallback else ", and where it does not pass, connections hang"),
        why="a queue that marks instead of dropping (fq_codel, cake) tells without loss; where "
        "nobody marks it "
        "changes nothing",
        fix="" if value == "1" else "`narrows tune plan --ecn on`",
        source=f"{_DOC}: tcp_ecn; RFC 3168; {kernels.FEATURES['ecn_fallback'].told}",
    )


def mtu(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Black holes of path MTU discovery."""
    value = facts.value("net.ipv4.tcp_mtu_probing")
    if value is None:
        return
    yield Finding(
        id="mtu-probing",
        severity="note" if value == "0" else "good",
        subject="net.ipv4.tcp_mtu_probing",
        what={
            "0": "packets are never tried smaller",
            "1": "after repeated timeouts smaller packets are tried",
        }.get(value, "every connection tries which size passes"),
        why="a tunnel whose ICMP messages are filtered lets small packets pass and swallows full "
        "ones",
        fix="`narrows tune plan --mtu-probing`" if value == "0" else "",
        source=f"{_DOC}: tcp_mtu_probing; RFC 4821",
    )


def governor(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Does the processor sleep?"""
    slow = sorted(
        {name for name in facts.governors if name in {"powersave", "ondemand", "conservative"}}
    )
    if not facts.governors:
        return
    yield Finding(
        id="governor",
        severity="note" if slow else "good",
        what=f"the processors' governor is {', '.join(sorted(set(facts.governors)))}",
        why="a processor that runs slowly or sleeps answers tens of microseconds later; where "
        "those matter it counts",
        fix="`cpupower frequency-set -g performance`, where latency is worth the power"
        if slow
        else "",
        source="Documentation/admin-guide/pm/cpufreq.rst of Linux",
    )


RULES = (buffers, switches, ecn, mtu, governor)
