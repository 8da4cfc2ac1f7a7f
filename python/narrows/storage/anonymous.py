"""Replaces addresses and names of hosts by pseudonyms that depend on a secret key.

The pseudonyms of addresses preserve prefixes: if two addresses have the same first n bits, so do
their pseudonyms. Addresses of one network therefore remain in one network. A keyed hash of the
preceding bits determines whether a bit is inverted. The mapping is that of Xu, Fan, Ammar and Moon,
"Prefix-preserving IP address anonymization" (ICNP 2002, section 3), with HMAC-SHA-256 as the
pseudorandom function. It does not hide the structure of a network. An attacker who sends packets
with known addresses can find their pseudonyms (RFC 6973, section 5.2.2).

Deviation: a bit is never inverted if the bits before it are the beginning of a block of special
addresses (`_BLOCKS`). Each block is therefore mapped onto itself, and the mapping is still a
permutation that preserves prefixes. A private address has a private pseudonym, and a public unicast
address has a public unicast one. Networks beside a block keep more leading bits: 11.0.0.0/8, which
is beside 10.0.0.0/8, keeps eight.

The key is generated at its first use, and only its owner can read its file. With the same key, a
host has the same pseudonym in every output. Without the key, pseudonyms cannot be computed back.
"""

from __future__ import annotations

import copy
import hmac
import ipaddress
import os
import re
import secrets
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from narrows.errors import OutputError, reason
from narrows.operating_system import BYTES

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_KEPT = tuple(
    map(ipaddress.ip_network, ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3", "::/127", "ff00::/8"))
)
"""Blocks whose addresses belong to no single host (RFC 6890, RFC 4291): this network, loopback,
multicast, and the reserved block with the broadcast address. They have no pseudonyms."""

_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
"""IPv4 addresses as IPv6 addresses (RFC 4291, section 2.5.5.2)."""

_BLOCKS = (
    *_KEPT,
    _MAPPED,
    # Private and shared addresses (RFC 1918, RFC 6598), link-local addresses (RFC 3927).
    *map(ipaddress.ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")),
    *map(ipaddress.ip_network, ("100.64.0.0/10", "169.254.0.0/16")),
    # Global unicast, unique local (RFC 4193) and link-local addresses.
    *map(ipaddress.ip_network, ("2000::/3", "fd00::/8", "fe80::/64")),
)
"""Blocks of special addresses, each of which is mapped onto itself."""

_FIXED = frozenset(
    (block.max_prefixlen, place, int(block.network_address) >> (block.max_prefixlen - place))
    for block in _BLOCKS
    for place in range(block.prefixlen)
)
"""Address size, length and value of each beginning of a block."""

_KEY_BYTES = 32
_NAMES = frozenset({"address", "host", "hostname", "nodename", "url", "server_name"})
"""JSON keys whose value is the name or the address of a host."""

_ADDRESS = re.compile(
    r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)"
    r"|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:\d{1,3}(?:\.\d{1,3}){3})?(?![\w:]))"
)


_MAC = re.compile(
    r"(?<![\w:-])[0-9A-Fa-f]{2}(?:([:-])[0-9A-Fa-f]{2})(?:\1[0-9A-Fa-f]{2}){4}(?![\w:-])"
)
_LEAST_NAME = 2
"""Length of the shortest name that is replaced inside of sentences."""


def key_file() -> Path:
    """The file of the key, below `$XDG_DATA_HOME` or `~/.local/share`."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    return Path(home) / "narrows/anonymize.key"


def key() -> bytes:
    """The key of this user, which is generated if there is none.

    Raises:
        OutputError: If the key file can neither be read nor be created, or is not a key.
    """
    file = key_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BYTES, 0o600)
        except FileExistsError:
            found = file.read_bytes()
        else:
            found = secrets.token_bytes(_KEY_BYTES)
            with os.fdopen(opened, "wb") as made:
                made.write(found)
    except OSError as error:
        raise OutputError(f"{file}: {reason(error)}") from error
    if len(found) != _KEY_BYTES:
        raise OutputError(f"{file}: not a key; remove the file")
    return found


class Anonymizer:
    """Computes the pseudonyms that belong to one key.

    >>> one = Anonymizer(bytes(32))
    >>> first, second = (int(one.address(f"192.0.2.{n}")) for n in (1, 2))
    >>> (first ^ second) >> 2
    0
    """

    def __init__(self, key: bytes) -> None:
        """Uses this key."""
        self._key = key
        self._of = lru_cache(maxsize=100_000)(self._pseudonym)

    def address(self, address: str | Address) -> Address:
        """The pseudonym of an address; addresses in `_KEPT`, such as loopback and multicast
        addresses, are unchanged.
        """
        return self._of(ipaddress.ip_address(address))

    def name(self, name: str) -> str:
        """The pseudonym of a host name. If the name is an address, it is the pseudonym of the
        address. The names `localhost` and `simulated` are unchanged.
        """
        bare = name.strip("[]")
        try:
            return str(self.address(bare))
        except ValueError:
            pass
        if bare in {"", "localhost", "simulated"}:
            return name
        return f"host-{self.digest('name', bare.lower())[:12]}"

    def text(self, text: str) -> str:
        """The text with each IP address and each MAC address replaced by its pseudonym."""

        def replaced(found: re.Match[str]) -> str:
            try:
                return str(self.address(_without_zeros(found[0])))
            except ValueError:
                return found[0]

        return _ADDRESS.sub(replaced, _MAC.sub(lambda found: self.mac(found[0]), text))

    def mac(self, mac: str) -> str:
        """The pseudonym of a MAC address: a locally administered unicast address."""
        bare = mac.lower().replace("-", ":")
        digest = self.digest("mac", bare)
        return ":".join(["02", *(digest[at : at + 2] for at in range(0, 10, 2))])

    def digest(self, kind: str, value: str) -> str:
        """A keyed hash of a value, as hexadecimal digits."""
        text = f"{kind} {value}".encode(errors="replace")
        return hmac.digest(self._key, text, "sha256").hex()

    def tree(self, tree: Any) -> Any:  # noqa: ANN401 - JSON
        """A copy of a JSON value in which addresses and host names are replaced by pseudonyms.

        The values of some keys are names of hosts. These names are also replaced inside of
        sentences, which are the values that contain a space.
        """
        names = sorted(set(_names(tree, "")), key=len, reverse=True)
        inside = "|".join(re.escape(name) for name in names)
        known = re.compile(rf"(?<![\w.-])({inside})(?![\w-]|\.\w)", re.IGNORECASE)
        return self._tree(copy.deepcopy(tree), "", known if names else None)

    def sentence(self, text: str, names: re.Pattern[str] | None) -> str:
        """The text with addresses and these names of hosts replaced by pseudonyms."""
        if names is None or " " not in text:
            return self.text(text)
        # Names and the text between them are replaced apart, so that nothing is replaced twice.
        parts = names.split(text)
        return "".join(
            self.name(part) if at % 2 else self.text(part) for at, part in enumerate(parts)
        )

    def _tree(self, tree: Any, under: str, names: re.Pattern[str] | None) -> Any:  # noqa: ANN401
        if isinstance(tree, dict):
            return {
                self.text(name): self.name(value)
                if isinstance(value, str) and _is_name(name, under)
                else self._tree(value, name, names)
                for name, value in tree.items()
            }
        if isinstance(tree, list):
            return [self._tree(value, under, names) for value in tree]
        return self.sentence(tree, names) if isinstance(tree, str) else tree

    def _pseudonym(self, address: Address) -> Address:
        if any(address in block for block in _KEPT):
            return address
        bits, value = address.max_prefixlen, int(address)
        if address in _MAPPED:
            base = int(_MAPPED.network_address)
            return ipaddress.IPv6Address(base | int(self._of(ipaddress.IPv4Address(value ^ base))))
        flipped = 0
        for place in range(bits):
            prefix = value >> (bits - place)
            flip = 0
            if (bits, place, prefix) not in _FIXED:
                known = b"%d %d %x" % (bits, place, prefix << (bits - place))
                flip = hmac.digest(self._key, known, "sha256")[0] & 1
            flipped = flipped << 1 | flip
        return type(address)(value ^ flipped)


def _is_name(key: str, under: str) -> bool:
    """Whether the value of a key is the name of a host. `under` is the key of its object."""
    return key in _NAMES or (key == "name" and under in _NAMES)


def _names(tree: Any, under: str) -> Iterator[str]:  # noqa: ANN401 - JSON
    """The names of hosts in a JSON value, and the hosts of its URLs."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if isinstance(value, str) and _is_name(key, under):
                host = urlsplit(value).hostname if "://" in value else None
                found = (name for name in (value, host) if name and len(name) >= _LEAST_NAME)
                yield from (name for name in found if not _is_address(name))
            else:
                yield from _names(value, key)
    elif isinstance(tree, list):
        for value in tree:
            yield from _names(value, under)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _without_zeros(address: str) -> str:
    """An IPv4 address without leading zeros, with which it is no address for Python."""
    parts = address.split(".")
    if ":" in address or not all(part.isdecimal() for part in parts):
        return address
    return ".".join(str(int(part)) for part in parts)
