"""OpenWrt's sqm: `/etc/config/sqm`, `uci show sqm`, or sqm-scripts' own file. Rates in these files
are in kbit/s.
"""

from __future__ import annotations

import re

from narrows.advise.importers.disciplines import counts_otherwise
from narrows.advise.importers.layers import RTT, _check
from narrows.advise.importers.reading import ConfigError, Reading, Warned, Words, bits
from narrows.advise.importers.tc import cake_options
from narrows.json_object import JsonObject
from narrows.runs.scenario import Hop, Path

_LINES = (
    re.compile(r"\s*option\s+(\w{1,40})\s+['\"]?([^'\"]{0,80}?)['\"]?\s*$"),
    re.compile(r"\s*sqm\.[\w@\[\]-]{1,60}\.(\w{1,40})=['\"]?([^'\"]{0,80}?)['\"]?\s*$"),
    re.compile(r"\s*(?:export\s+)?([A-Z_]{1,40})\s*=\s*['\"]?([^'\"]{0,80}?)['\"]?\s*$"),
)
_NAMES = {"downlink": "download", "uplink": "upload", "iface": "interface"}
_SLOW, _FAST = 1000, 2_000_000
_KNOWN = {"enabled", "interface", "download", "upload", "qdisc", "debug_logging", "verbosity"}
_OFF = {"", "0", "none", "default", "auto"}
_CELLS = {"ethernet": "noatm", "atm": "atm", "adsl": "atm", "ptm": "ptm"}
"""sqm's linklayer as cake's cells (sqm-scripts, get_cake_lla_string)."""

_SCRIPTS = {"piece_of_cake.qos": "besteffort", "layer_cake.qos": "diffserv3"}
_ADVANCED = ("qdisc_advanced", "qdisc_really_advanced", "qdisc_really_really_advanced")


def read(text: str, name: str) -> Reading:
    """Reads the first queue of the file.

    Raises:
        ConfigError: If the queue has neither a download nor an upload rate, or an invalid rate.
    """
    found: dict[str, tuple[str, int]] = {}
    warned: list[Warned] = []
    left: list[str] = []
    queues = 0
    for number, line in enumerate(text.splitlines(), 1):
        queues += bool(re.match(r"\s*config\s+queue|sqm\.[\w@\[\]-]{1,60}=queue", line))
        if queues > 1:
            left.append(f"line {number}: a second queue")
            break
        match = next((m for pattern in _LINES if (m := pattern.match(line))), None)
        if match:
            key = match[1].lower()
            found[_NAMES.get(key, key)] = (match[2].strip(), number)
    down, up = (_rate(found, key, name, warned) for key in ("download", "upload"))
    if not down and not up:
        raise ConfigError(
            f"{name}: line 1: sqm has neither download nor upload\n    write: option "
            "download '20000'"
        )
    if found.get("enabled", ("1", 0))[0] == "0":
        warned.append(Warned(found["enabled"][1], "the queue is not enabled", "option enabled '1'"))
    queue = found.get("qdisc", ("fq_codel", 0))[0]
    if queue not in {"cake", "fq_codel", "codel", "pie", "sfq", "fifo"}:
        left.append(f"line {found['qdisc'][1]}: qdisc {queue[:40]}; fq_codel instead")
        queue = "fq_codel"
    options: dict[str, JsonObject] = {"download": {}, "upload": {}}
    read_ = set(_KNOWN)
    if queue == "cake":
        read_ |= _cake(found, name, options, left)
    left += [
        f"line {at}: `{key} {value}`"
        for key, (value, at) in found.items()
        if key not in read_ and value not in _OFF
    ]
    if found.get("linklayer", ("none", 0))[0] == "none" and "overhead" not in found:
        warned.append(Warned(1, "without linklayer and overhead the headers of DSL can fill the "
                                "queue of the modem",
                             "option linklayer 'ethernet' and option overhead '44' (DSL, cable 18 "
                             "to 44)"))  # fmt: skip
    assumed = [f"an RTT of {RTT}, because sqm has none"]
    if not down:
        assumed.append("an unlimited download, because it is not shaped")
    ahead = bits(down * 1e3) if down else "1Gbit"
    queues_ = {
        key: {"kind": queue} | ({"bandwidth": bits(rate * 1e3)} if counts_otherwise(o) else {}) | o
        if o
        else queue
        for (key, o), rate in zip(options.items(), (down, up), strict=True)
    }
    reverse = Hop(rate=bits(up * 1e3), queue=queues_["upload"]) if up else None
    path = Path(rate=ahead, rtt=RTT, queue=queues_["download"] if down else None, reverse=reverse)
    _check(path, name)
    return Reading(dialect="sqm", path=path, assumed=assumed, warned=warned, left=left)


def _cake(
    found: dict[str, tuple[str, int]], name: str, options: dict[str, JsonObject], left: list[str]
) -> set[str]:
    """Adds cake's parameters of each direction to `options`; returns the keys that were read."""
    both: JsonObject = {}
    read_ = set()
    layer = found.get("linklayer", ("none", 0))[0]
    if layer in _CELLS:
        both["cells"] = _CELLS[layer]
        read_.add("linklayer")
    for key, param in (("overhead", "overhead"), ("tcmpu", "mpu")):
        text, _ = found.get(key, ("", 0))
        if re.fullmatch(r"-?\d{1,3}", text) and layer in _CELLS:
            if int(text):
                both[param] = int(text) if param == "overhead" else f"{text}B"
            read_.add(key)
    script, _ = found.get("script", ("", 0))
    if script in _SCRIPTS:
        both["diffserv"] = _SCRIPTS[script]
        read_.add("script")
    # sqm uses these option strings only if the advanced options are enabled.
    used = all(found.get(key, ("1", 0))[0] == "1" for key in _ADVANCED)
    for direction, key in (("download", "iqdisc_opts"), ("upload", "eqdisc_opts")):
        options[direction] |= both
        text, line = found.get(key, ("", 0))
        if text and used:
            options[direction] |= cake_options(
                Words(name, line, tuple(text.split())), text.split(), left
            )
            read_ |= {key, *_ADVANCED}
    return read_


def _rate(found: dict[str, tuple[str, int]], key: str, name: str, warned: list[Warned]) -> int:
    text, line = found.get(key, ("0", 0))
    if not re.fullmatch(r"\d{1,9}", text or "0"):
        raise ConfigError(
            f"{name}: line {line}: {key} `{text[:40]}` is not a number in kbit/s"
            f"\n    write: option {key} '20000'"
        )
    kbit = int(text or 0)
    if 0 < kbit < _SLOW:
        warned.append(
            Warned(
                line,
                f"{key} {kbit} is {kbit} kbit/s, because the unit of sqm is kbit/s",
                f"{key} {1000 * kbit}, if the unit is Mbit/s",
            )
        )
    elif kbit > _FAST:
        warned.append(
            Warned(
                line,
                f"{key} {kbit} is {kbit / 1e6:g} Gbit/s, because the unit of sqm is kbit/s",
                f"{key} {kbit // 1000}, if the unit is bit/s",
            )
        )
    return kbit
