"""Lines of tc(8): `tc qdisc add …`, `tc class add …`, `tc filter … action police …`, and what `tc
qdisc show` prints.

The module reads the options of netem, tbf, htb, the fifos and the disciplines of
`disciplines.OPTIONS`. Every other option is reported by its name as left out.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator

from narrows.advise.importers.disciplines import OPTIONS, unusual, value
from narrows.advise.importers.layers import Layer, compose, refuse
from narrows.advise.importers.reading import (
    ConfigError,
    Reading,
    Warned,
    Words,
    bare,
    percent,
    quantity,
    whole,
)
from narrows.json_object import JsonObject
from narrows.registry import qdiscs

_BEFORE = re.compile(r"^\s*(?:sudo\s+)?(?:ip\s+netns\s+exec\s+\S+\s+)?(?:tc\s+(?:-\S+\s+)*)?")

_DISTRIBUTIONS = ("uniform", "normal", "pareto", "paretonormal")

_STAB = ("mtu", "tsize", "mpu", "overhead", "linklayer")

_SMALL_BITS = 1e6
"""A rate without a unit below this value, in bit/s, is reported, because its unit is probably
wrong.
"""


def read(text: str, name: str) -> Reading:
    """Reads lines of tc.

    Raises:
        ConfigError: If a line cannot be read, or if no line describes a path.
    """
    layers: list[Layer] = []
    warned: list[Warned] = []
    left: list[str] = []
    for words in _lines(text, name):
        layer = _line(words, warned, left)
        if layer is not None:
            layers.append(layer)
    if not layers:
        raise ConfigError(f"{name}: line 1: there is no qdisc, class or police action")
    return compose("tc", name, layers, warned, left)


def _lines(text: str, name: str) -> Iterator[Words]:
    joined = ""
    first = 1
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0].rstrip()
        if not joined:
            first = number
        joined += " " + line.removesuffix("\\")
        if line.endswith("\\"):
            continue
        for part in re.split(r"&&|;", joined):
            words = tuple(_BEFORE.sub("", part).split())
            if words:
                yield Words(name, first, words)
        joined = ""
    if joined.strip():
        yield Words(name, first, tuple(_BEFORE.sub("", joined).split()))


def _line(at: Words, warned: list[Warned], left: list[str]) -> Layer | None:
    what, *rest = at.words
    if what not in {"qdisc", "class", "filter", "actions"}:
        left.append(f"line {at.line}: `{' '.join(at.words)[:60]}`")
        return None
    verb = (
        rest[0] if rest and rest[0] in {"add", "replace", "change", "del", "delete", "show"} else ""
    )
    if verb in {"del", "delete", "show"}:
        return None
    if what in {"filter", "actions"}:
        return _police(at, warned, left)
    return (
        _shown(at, what, rest, warned, left)
        if not verb
        else _added(at, what, verb, rest[1:], warned, left)
    )


def _added(  # noqa: PLR0917 - one place each
    at: Words, what: str, verb: str, words: list[str], warned: list[Warned], left: list[str]
) -> Layer | None:
    """Reads a command, such as `qdisc add dev eth0 root handle 1: netem …`, from the word after
    `add`.
    """
    about: JsonObject = {"dev": "", "parent": "", "handle": ""}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in {"dev", "parent", "handle", "classid"}:
            if not rest:
                raise at.wrong(
                    f"`{word}` has no value", f"{word} {'eth0' if word == 'dev' else '1:'}"
                )
            about["handle" if word == "classid" else word] = rest.pop(0)
        elif word in {"root", "ingress", "clsact"}:
            about["parent"] = word
            if word != "root":
                return None
        elif word == "estimator":
            left.append(f"line {at.line}: `estimator {' '.join(rest[:2])}`")
            del rest[:2]
        elif word == "stab":
            table = []
            while len(rest) > 1 and rest[0] in _STAB:
                table += [rest.pop(0), rest.pop(0)]
            left.append(
                f"line {at.line}: `stab {' '.join(table)}`: sizes are those of Ethernet frames"
            )
        else:
            return _layer(at, what, word, rest, about, verb, warned, left)
    raise at.wrong(
        "the queue discipline is missing", "tc qdisc add dev eth0 root netem delay 100ms"
    )


def _shown(
    at: Words, what: str, rest: list[str], warned: list[Warned], left: list[str]
) -> Layer | None:
    """Reads a line of output, such as `qdisc netem 8001: dev eth0 root refcnt 2 limit 1000`."""
    if not rest:
        raise at.wrong(f"`{what}` is incomplete", "tc qdisc add dev eth0 root netem delay 100ms")
    kind, *words = rest
    about: JsonObject = {"dev": "", "parent": "", "handle": words[0] if words else ""}
    words = words[1:]
    while words and words[0] in {
        "dev",
        "root",
        "parent",
        "refcnt",
        "offloaded",
        "leaf",
        "prio",
        "ingress_block",
    }:
        word = words.pop(0)
        if word == "root":
            about["parent"] = "root"
        elif word != "offloaded" and words:
            value = words.pop(0)
            if word in {"dev", "parent"}:
                about[word] = value
    return _layer(at, what, kind, words, about, "", warned, left)


def _layer(  # noqa: PLR0917 - one place each
    at: Words,
    what: str,
    kind: str,
    words: list[str],
    about: JsonObject,
    verb: str,
    warned: list[Warned],
    left: list[str],
) -> Layer | None:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_]{0,31}", kind):
        raise at.wrong(
            f"`{kind[:40]}` is no queue discipline", "tc qdisc add dev eth0 root netem delay 100ms"
        )
    refuse(kind, f"{at.name}: line {at.line}")
    if verb and kind not in qdiscs():
        # A name in the output of tc exists in the kernel; a name in a command can be misspelt.
        close = difflib.get_close_matches(kind, sorted(qdiscs()), 1)
        raise at.wrong(f"`{kind}` is not a queue discipline of Linux", close[0] if close else "")
    reader = _KINDS.get(kind)
    options: JsonObject = {}
    if reader is not None:
        reader(_Words(at, words, warned, left), options)
    elif words:
        left.append(f"line {at.line}: the options of {kind}: `{' '.join(words)[:60]}`")
    return Layer(
        kind,
        what == "class",
        verb,
        about["dev"],
        about["parent"],
        about["handle"],
        options,
        at.line,
    )


class _Words:
    """The options of a line, read one by one."""

    def __init__(self, at: Words, words: list[str], warned: list[Warned], left: list[str]) -> None:
        self.at, self.warned, self.left = at, warned, left
        self._rest = list(words)

    def __bool__(self) -> bool:
        return bool(self._rest)

    def next(self) -> str:
        if not self._rest:
            raise self.at.wrong(f"`{self.at.words[-1][:40]}` has no value")
        return self._rest.pop(0)

    def peek(self, pattern: str) -> bool:
        return bool(self._rest) and re.fullmatch(pattern, self._rest[0]) is not None

    def rate(self, what: str) -> float:
        text = self.next()
        value = quantity("rate", text, self.at)
        if bare(text) and value < _SMALL_BITS:
            meant = (
                f"{10 * value / 1e6:g}mbit" if value >= _SMALL_BITS / 10 else f"{value / 1e3:g}kbit"
            )
            self.warned.append(
                Warned(
                    self.at.line,
                    f"{what} {text} without a unit is {value / 1e3:g} kbit/s, because the unit of "
                    "tc is bit/s",
                    f"{what} {meant}, if this is the intended rate",
                )
            )
        elif re.search(r"[0-9][kmgt]?i?bps$", text.lower()):
            self.warned.append(
                Warned(
                    self.at.line,
                    f"{what} {text} is {value / 1e6:g} Mbit/s, because bps means bytes per second "
                    "in tc",
                    f"{what} {text.lower().replace('bps', 'bit')}, if the unit is bit/s",
                )
            )
        return value

    def size(self) -> float:
        return quantity("size", self.next(), self.at)

    def time(self) -> float:
        return quantity("time", self.next(), self.at)

    def percent(self) -> float:
        return percent(self.next(), self.at)

    def count(self) -> int:
        return whole(self.next(), self.at)

    def number(self, option: str) -> float:
        """Reads a value of the type `option`, and returns it in s, bytes, bit/s or packets, or
        without a unit.
        """
        text = self.next()
        if option in _QUANTITIES:
            kind, unit = _QUANTITIES[option]
            return quantity(kind, text + unit if bare(text) else text, self.at)
        if option == "packets":
            return float(whole(text.removesuffix("p").removesuffix("b"), self.at))
        if option == "share":
            return percent(text, self.at) / 100
        # sfq shows two numbers, such as `flows 127/1024`; the first one is used.
        found = re.match(r"-?(?:\d{1,15}(?:\.\d{0,12})?|\.\d{1,12})", text)
        if found is None:
            raise self.at.wrong(f"`{text[:40]}` is not a number")
        return float(found[0])

    def unknown(self, word: str) -> None:
        """Reports an option that is not modelled, with the numbers that follow it."""
        words = [word]
        while self.peek(r"-?(?:0x[0-9a-f]+|\d.*)"):
            words.append(self.next())
        self.left.append(f"line {self.at.line}: `{' '.join(words)[:60]}`")


_QUANTITIES = {
    "rate": ("rate", ""), "time": ("time", ""), "bytes": ("size", ""), "seconds": ("time", "s"),
    "milliseconds": ("time", "ms"),
}  # fmt: skip
"""Type of a quantity, and the unit of a bare number if it is not the usual one of tc."""

_NUMBER = r"(?:\d{1,15}(?:\.\d*)?|\.\d+)%?"
_TIME = r"(?:\d{1,15}(?:\.\d*)?|\.\d+)[a-z]*"


def _netem(of: _Words, out: JsonObject) -> None:  # noqa: PLR0912 - a word each
    while of:
        word = of.next()
        if word == "limit":
            out["limit"] = of.count()
        elif word in {"delay", "latency"}:
            out["delay"] = of.time()
            if of.peek(_TIME):
                out["jitter"] = of.time()
                if of.peek(_NUMBER):
                    out["correlation"] = of.percent() / 100
        elif word == "distribution":
            out["distribution"] = of.next()
            if out["distribution"] not in _DISTRIBUTIONS:
                raise of.at.wrong(
                    f"there is no distribution `{out['distribution'][:40]}`", "distribution normal"
                )
        elif word in {"loss", "drop"}:
            _loss(of, out)
        elif word in {"corrupt", "duplicate", "reorder"}:
            out[word] = of.percent()
            if of.peek(_NUMBER):
                out[f"{word}_correlation"] = of.percent() / 100
        elif word == "gap":
            out["gap"] = of.count()
        elif word == "rate":
            out["rate"] = of.rate("rate")
            if of.peek(r"-?\d+"):
                of.unknown("rate's overhead and cells:")
        elif word == "slot":
            told = ["slot"]
            while of.peek(r"(?!limit|delay|loss|rate).*"):
                told.append(of.next())
            of.unknown(" ".join(told))
        else:
            of.unknown(word)


def _loss(of: _Words, out: JsonObject) -> None:
    if of.peek("random"):
        of.next()
    if of.peek("gemodel"):
        of.next()
        model = [of.percent() / 100]
        while of.peek(_NUMBER):
            model.append(of.percent() / 100)
        out["gemodel"] = model
    elif of.peek("state"):
        of.next()
        of.unknown("loss state")
    else:
        out["loss"] = of.percent()
        if of.peek(_NUMBER):
            out["loss_correlation"] = of.percent() / 100


def _tbf(of: _Words, out: JsonObject) -> None:
    while of:
        word = of.next()
        if word in {"rate", "peakrate"}:
            out[word] = of.rate(word)
        elif word in {"burst", "buffer", "maxburst", "limit"}:
            out["limit" if word == "limit" else "burst"] = quantity(
                "size", of.next().split("/")[0], of.at
            )
        elif word in {"latency", "lat"}:
            out["latency"] = of.time()
        elif word in {"mtu", "minburst"} and of:
            out["mtu"] = quantity("size", of.next().split("/")[0], of.at)
        elif word == "linklayer" and of:
            of.unknown(f"{word} {of.next()}")
        else:
            of.unknown(word)


def _htb(of: _Words, out: JsonObject) -> None:
    while of:
        word = of.next()
        if word in {"rate", "ceil"}:
            out[word] = of.rate(word)
        elif word == "burst":
            out[word] = quantity("size", of.next().split("/")[0], of.at)
        elif word in {"direct_qlen", "direct_packets_stat"} and of:
            # Counters that `tc qdisc show` prints.
            of.next()
        elif word == "linklayer" and of:
            of.unknown(f"{word} {of.next()}")
        else:
            of.unknown(word)


def _options(kind: str) -> Callable[[_Words, JsonObject], None]:
    """Returns the function that reads the options of a queue discipline; the parameters of narrows
    have the same names.
    """

    def reader(of: _Words, out: JsonObject) -> None:
        params: JsonObject = {}
        while of:
            word = of.next()
            option = OPTIONS[kind].get(word)
            if word == "bandwidth" and kind == "cake":
                if of.peek("unlimited"):
                    of.next()
                else:
                    out["rate"] = of.rate(word)
            elif word == "weights" and kind == "fq":
                params |= {f"weight_{band}": of.count() for band in ("high", "middle", "low")}
            elif option is None:
                of.unknown(word)
            elif isinstance(option, tuple):
                params[option[0]] = option[1]
            else:
                params[word] = value(option, of.number(option))
        out["params"] = unusual(kind, params)

    return reader


def cake_options(at: Words, words: list[str], left: list[str]) -> JsonObject:
    """The parameters of cake that these words set; other words are appended to `left`."""
    out: JsonObject = {}
    _options("cake")(_Words(at, words, [], left), out)
    params: JsonObject = out["params"]
    return params


def _fifo(unit: str) -> Callable[[_Words, JsonObject], None]:
    def reader(of: _Words, out: JsonObject) -> None:
        while of:
            word = of.next()
            if word == "limit":
                out["limit"] = int(of.number(unit))
            else:
                of.unknown(word)

    return reader


_KINDS: dict[str, Callable[[_Words, JsonObject], None]] = {
    **{kind: _options(kind) for kind in OPTIONS},
    "netem": _netem,
    "tbf": _tbf,
    "htb": _htb,
    "pfifo": _fifo("packets"),
    "bfifo": _fifo("bytes"),
}


def _police(at: Words, warned: list[Warned], left: list[str]) -> Layer | None:
    """Reads a policer, such as `filter add dev eth0 parent ffff: … action police rate 2mbit burst
    62500 conform-exceed drop`.
    """
    if "police" not in at.words:
        left.append(f"line {at.line}: `{' '.join(at.words)[:60]}`")
        return None
    place = at.words.index("police")
    chosen = [w for w in ("u32", "flower", "basic", "bpf", "fw") if w in at.words[:place]]
    if chosen:
        left.append(f"line {at.line}: the filter {chosen[0]}; all packets are policed")
    of = _Words(at, list(at.words[place + 1 :]), warned, left)
    out: JsonObject = {}
    while of:
        word = of.next()
        if word in {"rate", "peakrate"}:
            out[word] = of.rate(word)
        elif word in {"burst", "buffer", "maxburst"}:
            out["burst"] = quantity("size", of.next().split("/")[0], at)
        elif word == "mtu" and of:
            out["mtu"] = of.size()
        elif word == "conform-exceed" and of:
            action = of.next()
            if action.split("/")[0] != "drop":
                of.unknown(f"conform-exceed {action}")
        elif word in {"action", "index", "ref", "bind"} and of:
            of.next()
        elif word not in {"drop", "flowid"}:
            of.unknown(word)
    if "rate" not in out or "burst" not in out:
        raise at.wrong(
            "a policer needs a rate and a burst", "action police rate 2mbit burst 62500 drop"
        )
    dev = at.words[at.words.index("dev") + 1] if "dev" in at.words[:-1] else ""
    return Layer("police", False, "", dev, "ingress", "", out, at.line)
