"""Imports configurations: lines of tc, its JSON, a router's policy-map, VyOS, OpenWrt's sqm.

A configuration becomes a `Reading`: a path, assumptions, and warnings about probable mistakes. The
text is untrusted: invalid text raises a `ConfigError` with the line, and no command in the text is
run.
"""

from __future__ import annotations

import re

from narrows.advise.importers import router, sqm, tc, tcjson, vyos
from narrows.advise.importers.reading import ConfigError, Reading, Warned

MOST_BYTES = 1_000_000
"""Maximum length of a configuration, in characters."""

DIALECTS = ("tc", "tc -j", "router", "vyos", "sqm")


def read(text: str, name: str = "text") -> Reading:
    """Detects the syntax of a configuration and reads it.

    >>> found = read("tc qdisc add dev eth0 root netem delay 100ms loss 1%")
    >>> found.dialect, found.path.rtt, found.path.loss
    ('tc', '100ms', '1%')

    Raises:
        ConfigError: If the configuration cannot be read.
    """
    if len(text) > MOST_BYTES:
        raise ConfigError(f"{name}: {len(text)} characters are more than {MOST_BYTES}")
    if "\0" in text:
        raise ConfigError(f"{name}: line {text[: text.index(chr(0))].count(chr(10)) + 1}: not text")
    begin = text.lstrip()[:1]
    if begin in {"[", "{"}:
        return tcjson.read(text, name)
    if re.search(
        r"(?m)^\s*(?:tc\s|(?:sudo|ip\s+netns\s+exec\s+\S+)\s+tc\s|qdisc\s|class\s+(?:htb|hfsc)\s)",
        text,
    ):
        return tc.read(text, name)
    if vyos.LINE.search(text):
        return vyos.read(text, name)
    if found := vyos.BRACES.search(text):
        line = text[: found.start()].count("\n") + 1
        raise ConfigError(
            f"{name}: line {line}: VyOS prints this form without the commands that narrows reads\n"
            "    write: the output of `show configuration commands`"
        )
    if re.search(r"(?mi)^\s*(?:policy-map|police|shape|rate-limit)\b", text):
        return router.read(text, name)
    if re.search(
        r"(?mi)^\s*(?:config\s+queue|option\s+(?:download|upload)|sqm\.|(?:UP|DOWN)LINK\s*=)", text
    ):
        return sqm.read(text, name)
    raise ConfigError(
        f"{name}: line 1: neither tc, `tc -j`, a policy-map, VyOS nor OpenWrt's sqm\n"
        "    write: narrows from 'tc qdisc add dev eth0 root netem delay 100ms loss 1%'"
    )


__all__ = ["DIALECTS", "ConfigError", "Reading", "Warned", "read"]
