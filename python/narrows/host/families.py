"""Hosts with addresses of IPv4 and IPv6, whose paths may differ and are measured separately."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit


def notice(host: str, used: str | None) -> str:
    """A sentence that names the family that was not measured; empty if the host has one family.

    Args:
        host: The host as requested: a name, an address, or a URL.
        used: The address that was measured.
    """
    try:
        address = ipaddress.ip_address(used or "")
    except ValueError:
        return ""
    if address.is_loopback:
        return ""
    family = address.version
    name = (urlsplit(host).hostname if "://" in host else host) or ""
    other = 10 - family
    of = socket.AF_INET if other == 4 else socket.AF_INET6  # noqa: PLR2004 - IPv4
    try:
        # An address is a host with one family.
        found = socket.getaddrinfo(name.strip("[]"), None, of, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ""
    if not found:
        return ""
    return (
        f"{name} also has an IPv{other} address, and its path may differ from that of "
        f"IPv{family}; to measure it, write --ip {other}"
    )
