"""Replaces addresses and names of hosts by pseudonyms that depend on a secret key.

The pseudonyms of addresses preserve prefixes: if two addresses have the same first n bits, so do
their pseudonyms. Addresses of one network therefore remain in one network. A keyed hash of the
preceding bits determines whether a bit is inverted. The mapping is that of Xu, Fan, Ammar and Moon,
"Prefix-preserving IP address anonymization" (ICNP 2002, section 3), with HMAC-SHA-256 as the
pseudorandom function. It does not hide the structure of a network. An attacker who sends packets
with known addresses can find their pseudonyms (RFC 6973, section 5.2.2).

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
from functools import lru_cache
from pathlib import Path
from typing import Any

from narrows.errors import OutputError, reason
from narrows.operating_system import BYTES

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_KEY_BYTES = 32
_NAMES = frozenset({"host", "hostname", "nodename", "url", "server_name"})
"""JSON keys whose value is the name of a host."""

_ADDRESS = re.compile(
    r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)"
    r"|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:\d{1,3}(?:\.\d{1,3}){3})?(?![\w:]))"
)


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
        """The pseudonym of an address; loopback, unspecified and multicast addresses are
        unchanged.
        """
        given = ipaddress.ip_address(address)
        if given.is_loopback or given.is_unspecified or given.is_multicast:
            return given
        return self._of(given)

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
        digest = hmac.digest(self._key, b"name " + bare.lower().encode(errors="replace"), "sha256")
        return f"host-{digest.hex()[:12]}"

    def text(self, text: str) -> str:
        """The text with each address replaced by its pseudonym."""

        def replaced(found: re.Match[str]) -> str:
            try:
                return str(self.address(found[0]))
            except ValueError:
                return found[0]

        return _ADDRESS.sub(replaced, text)

    def tree(self, tree: Any) -> Any:  # noqa: ANN401 - JSON
        """A copy of a JSON value in which addresses and host names are replaced by pseudonyms."""
        return self._tree(copy.deepcopy(tree), "")

    def _tree(self, tree: Any, under: str) -> Any:  # noqa: ANN401
        if isinstance(tree, dict):
            inside = {}
            for name, value in tree.items():
                named = name in _NAMES or (name == "name" and under in _NAMES)
                inside[self.text(name)] = (
                    self.name(value)
                    if named and isinstance(value, str)
                    else self._tree(value, name)
                )
            return inside
        if isinstance(tree, list):
            return [self._tree(value, under) for value in tree]
        return self.text(tree) if isinstance(tree, str) else tree

    def _pseudonym(self, address: Address) -> Address:
        bits, value = address.max_prefixlen, int(address)
        flipped = 0
        for place in range(bits):
            prefix = value >> (bits - place) << (bits - place)
            known = b"%d %d %x" % (bits, place, prefix)
            flipped = flipped << 1 | hmac.digest(self._key, known, "sha256")[0] & 1
        return type(address)(value ^ flipped)
