"""Parses routes that `ip -o route` prints, and makes the words of a new route."""

from __future__ import annotations

import ipaddress

from narrows.errors import NarrowsError

_ROUTE_FLAGS = {"linkdown", "onlink", "dead", "pervasive", "offload", "trap"}
_ROUTE_DROPPED = {"expires": 2, "error": 1, "pref": 1, "cache": 0, "congctl": 1}
"""Words that `ip route` prints and that a new route must not contain, each with the number of its
arguments."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def network(text: str) -> Network:
    """The network of a destination text.

    >>> network("default")
    IPv4Network('0.0.0.0/0')

    Raises:
        NarrowsError: If the text is not a network.
    """
    if text in {"default", "0.0.0.0/0"}:
        return ipaddress.ip_network("0.0.0.0/0")
    try:
        return ipaddress.ip_network(text, strict=True)
    except ValueError as error:
        raise NarrowsError(
            f"--to {text}: a network is written 192.0.2.0/24, 2001:db8::/32, or default ({error})"
        ) from error


def words(line: str) -> list[str]:
    """The words of a line of `ip -o route`; the first one is the prefix with its length. Empty for
    routes that plans do not support.
    """
    words = [word for word in line.replace("\\", " ").split() if word not in _ROUTE_FLAGS]
    if words and words[0] in {
        "unreachable",
        "blackhole",
        "prohibit",
        "broadcast",
        "local",
        "multicast",
        "unicast",
    }:
        return []
    if words and words[0] != "default" and "/" not in words[0]:
        words[0] += "/128" if ":" in words[0] else "/32"
    return words if "nexthop" not in words else []


def stripped(words: list[str]) -> list[str]:
    """The words of a route without those that a new route must not contain."""
    kept, skip = [], 0
    for word in words:
        if skip:
            skip -= 1
        elif word in _ROUTE_DROPPED:
            skip = _ROUTE_DROPPED[word]
        else:
            kept.append(word)
    return kept


def next_hop(words: list[str]) -> list[str]:
    """The words for the next hop, interface and source address of a route."""
    found: list[str] = []
    for key in ("via", "dev", "src"):
        if key in words:
            at = words.index(key)
            found += words[at : at + 2]
    return found


def congctl(words: list[str]) -> str | None:
    """The congestion control of a route; None if it has none.

    >>> congctl(["default", "dev", "eth0", "congctl", "bbr"])
    'bbr'
    """
    return words[words.index("congctl") + 1] if "congctl" in words[:-1] else None


def covering(network: Network, routes: list[list[str]]) -> list[str] | None:
    """The most specific of these routes that contains the whole destination; None if there is
    none.
    """
    best: tuple[int, list[str]] | None = None
    for words in routes:
        default = {4: "0.0.0.0/0", 6: "::/0"}[network.version]
        text = words[0] if words[0] != "default" else default
        try:
            route = ipaddress.ip_network(text)
        except ValueError:
            continue
        if route.version != network.version or route.prefixlen > network.prefixlen:
            continue
        if network.network_address in route and (best is None or route.prefixlen > best[0]):
            best = (route.prefixlen, words)
    return best[1] if best else None
