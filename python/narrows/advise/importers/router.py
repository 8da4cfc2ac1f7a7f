"""A router's policy-map: `police`, `shape average`, `shape peak`, `queue-limit`, and the older
`rate-limit`.

The syntax is that of Cisco (Quality of Service configuration guides, IOS 12.2T and 15.1). Rates are
in bit/s, bursts of `police` and `rate-limit` in bytes, and bursts of `shape` in bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from narrows.advise.importers.layers import RATE, RTT, _check
from narrows.advise.importers.reading import ConfigError, Reading, Warned, Words, bits, size
from narrows.json_object import JsonObject
from narrows.runs.scenario import Path

TC_S = 0.025
"""Default interval of a shaper (Policing and Shaping Overview: Tc = 25 ms)."""

BC_POLICE = 1500.0
"""Minimum of the default burst of a policer, in bytes. The default burst is 250 ms of the rate (IOS
12.2T).
"""

SLOW = 1e6
_PACKETS = 64
"""Default limit of a shaper's queue (IOS: queue-limit 64 packets)."""

_DEFAULT = "class-default"
"""The class of a child policy whose queue is that of the path."""


def read(text: str, name: str) -> Reading:
    """Reads the first policer or shaper, and the queue of a shaper from its class or from its child
    policy. The policy-map of the child may precede or follow. All else is reported with its line.

    Raises:
        ConfigError: If there is no policer or shaper, or if it cannot be read.
    """
    found = _Found(assumed=[f"an RTT of {RTT}, because a policy-map has none"])
    for at in _lines(text, name):
        found.add(at)
    keys = found.keys
    if not keys:
        raise ConfigError(
            f"{name}: line 1: there is neither police nor shape\n    write: police cir 2000000 bc "
            "62500"
        )
    found.read_queue()
    if "policer" in keys:
        found.assumed.append(f"a link of {RATE} behind the policer")
    elif "buffer" not in keys:
        keys["buffer"] = f"{_PACKETS}p"
        found.assumed.append(f"a queue of {_PACKETS} packets, the router's default")
    whole: JsonObject = {"rtt": RTT, "rate": RATE} | keys
    path = Path(**whole)
    _check(path, name)
    left = sorted(found.left, key=lambda one: int(one.split(":")[0].removeprefix("line ")))
    return Reading(
        dialect="router", path=path, assumed=found.assumed, warned=found.warned, left=left
    )


@dataclass(frozen=True)
class _Place:
    """The policy-map and the class of a command, in lower case; empty outside of them."""

    policy: str = ""
    of: str = ""

    def after(self, at: Words) -> _Place:
        """The place of the command `at` and of those that follow it."""
        if at.words[0] == "policy-map":
            return _Place(at.words[-1])
        if at.words[0] == "class":
            return _Place(self.policy, at.words[-1])
        return _Place() if at.words[0] == "interface" else self


@dataclass
class _Found:
    """Results of the commands so far.

    Attributes:
        assumed: The assumptions.
        keys: The keys of the path, from the first policer or shaper.
        shaped: The place of the shaper.
        warned: The warnings.
        left: The lines that are not modelled.
        place: The place of the next command.
        policies: The names of the policy-maps.
        named: The commands that name a policy-map, with their places.
        queues: The commands about a queue, with their places.
    """

    assumed: list[str]
    keys: JsonObject = field(default_factory=dict)
    shaped: _Place = _Place()
    warned: list[Warned] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    place: _Place = _Place()
    policies: set[str] = field(default_factory=set)
    named: list[tuple[_Place, Words]] = field(default_factory=list)
    queues: list[tuple[_Place, Words]] = field(default_factory=list)

    def add(self, at: Words) -> None:
        """Reads a command. Queues wait until all policy-maps are known."""
        first = at.words[0]
        self.place = self.place.after(at)
        if first in {"police", "rate-limit", "shape"}:
            self._limit(at)
        elif first == "policy-map":
            self.policies.add(at.words[-1])
        elif first == "service-policy":
            self.named.append((self.place, at))
        elif first in {"queue-limit", "fair-queue"}:
            self.queues.append((self.place, at))
        elif first not in _NAMES:
            self.left.append(_whole(at))

    def _limit(self, at: Words) -> None:
        first = at.words[0]
        if self.keys:
            self.left.append(f"line {at.line}: a second {first}; only the first is modelled")
        elif first == "police":
            self.keys = _police(at, self.warned, self.assumed, self.left)
        elif first == "rate-limit":
            self.keys = _car(at, self.warned, self.left)
        else:
            self.keys, self.shaped = _shape(at, self.warned, self.assumed, self.left), self.place

    def read_queue(self) -> None:
        """Reads the queue of the shaper: that of its class, or of its child policy."""
        self.left += [_whole(at) for _, at in self.named if at.words[-1] not in self.policies]
        children = [at.words[-1] for where, at in self.named if where == self.shaped]
        inside = {self.shaped, *(_Place(child, _DEFAULT) for child in children)}
        for where, at in self.queues:
            if "link" not in self.keys or where not in inside:
                self.left.append(_whole(at))
            elif at.words[0] == "queue-limit":
                self.keys["buffer"] = _queue_limit(at)
            else:
                self.keys["queue"] = "sfq"
                self.assumed.append("sfq for fair-queue: both serve flows in round-robin order")


def _whole(at: Words) -> str:
    return f"line {at.line}: `{' '.join(at.raw)[:60]}`"


def _lines(text: str, name: str) -> Iterator[Words]:
    """The commands. A line that continues the previous one, as terminals and documents wrap them,
    is joined to it.
    """
    number = 0
    words: tuple[str, ...] = ()
    for at, line in enumerate(text.splitlines(), 1):
        more = tuple(line.split())
        if not more or more[0].startswith("!"):
            continue
        first = more[0].lower()
        if words and (first in _CONTINUED or re.fullmatch(r"\d+", first)):
            words += more
            continue
        if words:
            yield _in_lower_case(name, number, words)
        number, words = at, more
    if words:
        yield _in_lower_case(name, number, words)


def _in_lower_case(name: str, number: int, words: tuple[str, ...]) -> Words:
    return Words(name, number, tuple(word.lower() for word in words), words)


def _actions(
    rest: tuple[str, ...], at: Words, names: Mapping[str, tuple[str, str]], left: list[str]
) -> dict[str, str]:
    """The scenario keys of the actions that differ from their defaults in `names`. Actions that
    narrows does not model are appended to `left`.
    """
    out: dict[str, str] = {}
    words = list(rest)
    while words:
        word = words.pop(0)
        if word.endswith("-action") and words:
            action = words.pop(0)
            known = {"transmit": "pass", "drop": "drop"}.get(action)
            if known is None and re.fullmatch(r"set-[a-z-]+-transmit", action):
                # An action `set-…-transmit` sends the packet, whichever value it sets.
                mark = words.pop(0) if words and not words[0].endswith("-action") else ""
                known = (_code_point(mark) if action == "set-dscp-transmit" else None) or "pass"
                if known == "pass" and word in names:
                    left.append(
                        f"line {at.line}: `{at.written(word, action[:40], mark[:20])}`: the packet "
                        "is sent without the mark"
                    )
            if word in names and known is not None:
                name, usual = names[word]
                out |= {name: known} if known != usual else {}
            else:
                left.append(f"line {at.line}: `{at.written(word, action)[:80]}`")
        elif not re.fullmatch(r"\d+", word) and word not in _UNITS:
            left.append(f"line {at.line}: `{at.written(word)[:40]}`")
    return out


_CLASSES = [
    "le",
    "va",
    "ef",
    *(f"cs{n}" for n in range(8)),
    *(f"af{a}{b}" for a in range(1, 5) for b in range(1, 4)),
]
_OF_NUMBER = {"0": "cs0", "1": "le", "44": "va", "46": "ef"}
_OF_NUMBER |= {str(8 * n): f"cs{n}" for n in range(8)}
_OF_NUMBER |= {str(8 * a + 2 * b): f"af{a}{b}" for a in range(1, 5) for b in range(1, 4)}


def _code_point(mark: str) -> str | None:
    """The name of a DSCP in a scenario; None if a scenario has no name for it.

    >>> _code_point("af11"), _code_point("10"), _code_point("default"), _code_point("7")
    ('af11', 'af11', 'cs0', None)
    """
    named = "cs0" if mark == "default" else mark
    return named if named in _CLASSES else _OF_NUMBER.get(mark)


_NAMES = {"class", "exit", "end", "interface", "description"}
"""Commands that do not affect the path."""

_CONTINUED = {
    "conform-action", "exceed-action", "violate-action", "bc", "be", "pir", "burst", "peak-burst",
    "peak-rate",
    "transmit", "drop", "bytes", "packets", "average", "peak",
}  # fmt: skip
_UNITS = {"bps", "bytes", "cir", "rate", "bc", "be", "pir", "burst", "peak-burst", "peak-rate",
"average", "peak",
          "input", "output", "packets", "kbps", "mbps", "gbps", "kbytes", "mbytes"}  # fmt: skip
_SCALES = {"kbps": 1e3, "mbps": 1e6, "gbps": 1e9, "kbytes": 1e3, "mbytes": 1e6, "gbytes": 1e9}
"""Units of IOS XR: `police rate 10 mbps burst 15 kbytes`."""
_CIR = {
    "conform-action": ("conform", "pass"),
    "exceed-action": ("exceed", "drop"),
    "violate-action": ("violate", "drop"),
}
_TRTCM = {
    "conform-action": ("green", "pass"),
    "exceed-action": ("yellow", "pass"),
    "violate-action": ("red", "drop"),
}
_CAR = {"conform-action": ("conform", "pass"), "exceed-action": ("exceed", "drop")}


def _numbers(at: Words, words: list[str]) -> list[float]:
    """The numbers before the first other word."""
    out = []
    for word in words:
        if not re.fullmatch(r"\d{1,13}", word):
            break
        out.append(float(word))
    return out


def _named(at: Words, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
    """Reads values with names (`cir 2000000 bc 62500`) and values by position (`2000000 62500
    125000`), in the order of `names`.
    """
    words = list(at.words[1:])
    found: dict[str, float] = {}
    order = list(names)
    plain = _numbers(at, words)
    found |= dict(zip(order, plain, strict=False))
    rest = words[len(plain) :]
    if plain:
        found[order[min(len(plain), len(order)) - 1]] *= _unit(at, at.words[0], rest)
    while rest:
        word = rest.pop(0)
        name = next((key for key, also in names.items() if word in also), None)
        if name is not None:
            if rest and rest[0] == "percent":
                raise at.wrong(
                    "a percentage needs the rate of the link in bit/s", f"{word} 2000000"
                )
            if not rest or not re.fullmatch(r"\d{1,13}", rest[0]):
                raise at.wrong(f"`{word}` needs a number", f"{word} 2000000")
            found[name] = float(rest.pop(0)) * _unit(at, word, rest)
            found |= dict(zip(order[order.index(name) + 1 :], _numbers(at, rest), strict=False))
        elif word == "percent":
            raise at.wrong("a percentage needs the rate of the link in bit/s", "police cir 2000000")
    return found


def _unit(at: Words, word: str, rest: list[str]) -> float:
    if rest and rest[0] in {"ms", "us", "cells", "pps"}:
        raise at.wrong(
            f"`{word}` in {rest[0]}: bursts are read in bytes and rates in bit/s", f"{word} 62500"
        )
    return _SCALES.get(rest[0], 1.0) if rest else 1.0


def _rate(at: Words, found: dict[str, float], name: str, warned: list[Warned]) -> float:
    rate = found.get(name)
    if not rate:
        raise at.wrong(
            "the rate is missing",
            f"{at.words[0]} {'average ' if at.words[0] == 'shape' else 'cir '}2000000",
        )
    if rate < SLOW:
        warned.append(
            Warned(
                at.line,
                f"{rate:.0f} is {rate / 1e6:g} Mbit/s, because the unit of routers is bit/s",
                f"{10 * rate:.0f}, if {10 * rate / 1e6:g} Mbit/s is the intended rate",
            )
        )
    return rate


def _police(at: Words, warned: list[Warned], assumed: list[str], left: list[str]) -> JsonObject:
    names = {
        "cir": ("cir", "rate"),
        "bc": ("bc", "burst"),
        "be": ("be", "peak-burst"),
        "pir": ("pir", "peak-rate"),
    }
    found = _named(at, names)
    rate = _rate(at, found, "cir", warned)
    bc = found.get("bc")
    if bc is None:
        bc = max(BC_POLICE, rate / 32)
        assumed.append(f"a burst of {bc:.0f} bytes, which is 250 ms of the rate")
    _burst(at, rate, bc, "bc", warned)
    if "pir" in found:
        pbs = found.get("be", bc)
        actions = _actions(at.words[1:], at, _TRTCM, left)
        rates = {"cir": bits(rate), "pir": bits(max(rate, found["pir"]))}
        return {
            "policer": {
                "kind": "trtcm",
                **rates,
                "cbs": size(bc),
                "pbs": size(pbs),
                "header": "0B",
                **actions,
            }
        }
    actions = _actions(at.words[1:], at, _CIR, left)
    return {"policer": {"kind": "cir", "cir": bits(rate), "bc": size(bc), **_be(found), **actions}}


def _be(found: dict[str, float]) -> dict[str, str]:
    return {"be": size(found["be"])} if found.get("be") else {}


def _burst(at: Words, rate: float, bc: float, word: str, warned: list[Warned]) -> None:
    """Warns about a burst of less than 50 ms of the rate, which is probably a confusion of bits and
    bytes.
    """
    wait = 8 * bc / rate
    if wait < 0.05:  # noqa: PLR2004 - s: a round trip of TCP
        warned.append(
            Warned(
                at.line,
                f"{word} {bc:.0f} bytes are {1000 * wait:.0f} ms of the rate: the policer drops "
                "bursts of TCP",
                f"{word} {rate / 8 * 0.25:.0f} (a quarter of a second), bytes",
            )
        )


def _car(at: Words, warned: list[Warned], left: list[str]) -> JsonObject:
    words = [w for w in at.words[1:] if w not in {"input", "output"}]
    found = dict(zip(("cir", "bc", "be"), _numbers(at, words), strict=False))
    rate = _rate(at, found, "cir", warned)
    if "bc" not in found:
        raise at.wrong(
            "the burst is missing",
            "rate-limit input 2000000 62500 125000 conform-action transmit exceed-action drop",
        )
    _burst(at, rate, found["bc"], "its normal burst:", warned)
    return {
        "policer": {
            "kind": "car",
            "cir": bits(rate),
            "bc": size(found["bc"]),
            **_be(found),
            **_actions(at.words[1:], at, _CAR, left),
        }
    }


def _shape(at: Words, warned: list[Warned], assumed: list[str], left: list[str]) -> JsonObject:
    if len(at.words) < 2 or at.words[1] not in {"average", "peak"}:  # noqa: PLR2004
        raise at.wrong("average or peak is missing", "shape average 2000000")
    how = at.words[1]
    _actions(at.words[2:], at, {}, left)
    inner = Words(at.name, at.line, at.words[1:])
    found = _named(inner, {"cir": ("cir",), "bc": ("bc",), "be": ("be",)})
    rate = _rate(Words(at.name, at.line, ("shape", *at.words[2:])), found, "cir", warned)
    bc = found.get("bc", rate * TC_S) / 8
    be = found.get("be", rate * TC_S if how == "peak" else 0.0) / 8
    if "bc" not in found:
        assumed.append(f"bursts of {8 * bc:.0f} bits, which is {1000 * TC_S:.0f} ms of the rate")
    elif bc < rate / 8 * 0.004:
        warned.append(
            Warned(at.line, f"bc {8 * bc:.0f} is in bits here, {8000 * bc / rate:.1f} ms of the "
                            "rate",
                   f"{64 * bc:.0f}, if the unit is bytes")
        )  # fmt: skip
    if how == "peak":
        peak = rate * (1 + be / bc) if bc else rate
        warned.append(
            Warned(
                at.line,
                f"`shape peak` sends at CIR × (1 + Be / Bc) = {peak / 1e6:g} Mbit/s, "
                f"{peak / rate:g} times the configured {rate / 1e6:g} Mbit/s",
                f"shape average {rate:.0f} (if {rate / 1e6:g} Mbit/s is the intended rate)",
            )
        )
    link = {"kind": f"shape_{how}", "bc": size(max(1514.0, bc))} | ({"be": size(be)} if be else {})
    return {"rate": bits(rate), "link": link}


def _queue_limit(at: Words) -> str:
    if not at.words[1:] or not re.fullmatch(r"\d{1,9}", at.words[1]):
        raise at.wrong("the number is missing", "queue-limit 64 packets")
    unit = at.words[2] if len(at.words) > 2 else "packets"  # noqa: PLR2004
    number = max(1, int(at.words[1]))
    return f"{number}B" if unit == "bytes" else f"{number}p"
