"""Lines of tc(8): `tc qdisc add …`, `tc class add …`, `tc filter … action police …`, and what `tc qdisc show` prints.

Options are netem's, tbf's, htb's, cake's, fq_codel's, codel's, pie's and the fifos', as Linux 6.12's manual pages have
them; others are named among what is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from narrows.advise.dialects.layers import Layer, compose
from narrows.advise.dialects.reading import (
    ConfigError,
    Json,
    Reading,
    Warned,
    Words,
    bare,
    percent,
    quantity,
    whole,
)

_BEFORE = re.compile(r"^\s*(?:sudo\s+)?(?:ip\s+netns\s+exec\s+\S+\s+)?(?:tc\s+(?:-\S+\s+)*)?")

_DISTRIBUTIONS = ("uniform", "normal", "pareto", "paretonormal")

_SMALL_BITS = 1e6
"""A bare rate below it was perhaps meant in something else."""


def read(text: str, name: str) -> Reading:
    """Reads the lines.

    Raises:
        ConfigError: If one cannot be read, or none makes a path.
    """
    layers: list[Layer] = []
    warned: list[Warned] = []
    left: list[str] = []
    for words in _lines(text, name):
        layer = _line(words, warned, left)
        if layer is not None:
            layers.append(layer)
    if not layers:
        raise ConfigError(f"{name}: line 1: no qdisc, class or police action in it")
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
    verb = rest[0] if rest and rest[0] in {"add", "replace", "change", "del", "delete", "show"} else ""
    if verb in {"del", "delete", "show"}:
        return None
    if what in {"filter", "actions"}:
        return _police(at, warned)
    return _shown(at, what, rest, warned, left) if not verb else _added(at, what, verb, rest[1:], warned, left)


def _added(  # noqa: PLR0917 - one place each
    at: Words, what: str, verb: str, words: list[str], warned: list[Warned], left: list[str]
) -> Layer | None:
    """`qdisc add dev eth0 root handle 1: netem …`."""
    about: Json = {"dev": "", "parent": "", "handle": ""}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in {"dev", "parent", "handle", "classid"}:
            if not rest:
                raise at.wrong(f"`{word}` says nothing", f"{word} {'eth0' if word == 'dev' else '1:'}")
            about["handle" if word == "classid" else word] = rest.pop(0)
        elif word in {"root", "ingress", "clsact"}:
            about["parent"] = word
            if word != "root":
                return None
        elif word == "estimator":
            del rest[:2]
        else:
            return _layer(at, what, word, rest, about, verb, warned, left)
    raise at.wrong("it names no discipline", "tc qdisc add dev eth0 root netem delay 100ms")


def _shown(at: Words, what: str, rest: list[str], warned: list[Warned], left: list[str]) -> Layer | None:
    """`qdisc netem 8001: dev eth0 root refcnt 2 limit 1000 delay 100ms`."""
    if not rest:
        raise at.wrong(f"`{what}` says nothing", "tc qdisc add dev eth0 root netem delay 100ms")
    kind, *words = rest
    about: Json = {"dev": "", "parent": "", "handle": words[0] if words else ""}
    words = words[1:]
    while words and words[0] in {"dev", "root", "parent", "refcnt", "offloaded", "leaf", "prio", "ingress_block"}:
        word = words.pop(0)
        if word == "root":
            about["parent"] = "root"
        elif word != "offloaded" and words:
            value = words.pop(0)
            if word in {"dev", "parent"}:
                about[word] = value
    return _layer(at, what, kind, words, about, "", warned, left)


def _layer(  # noqa: PLR0917 - one place each
    at: Words, what: str, kind: str, words: list[str], about: Json, verb: str, warned: list[Warned], left: list[str]
) -> Layer | None:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_]{0,31}", kind):
        raise at.wrong(f"`{kind[:40]}` is no discipline", "tc qdisc add dev eth0 root netem delay 100ms")
    reader = _KINDS.get(kind)
    options: Json = {}
    if reader is not None:
        reader(_Words(at, words, warned, left), options)
    elif words:
        left.append(f"line {at.line}: the options of {kind}")
    return Layer(kind, what == "class", verb, about["dev"], about["parent"], about["handle"], options, at.line)


class _Words:
    """The options of a line, taken one by one."""

    def __init__(self, at: Words, words: list[str], warned: list[Warned], left: list[str]) -> None:
        self.at, self.warned, self.left = at, warned, left
        self._rest = list(words)

    def __bool__(self) -> bool:
        return bool(self._rest)

    def next(self) -> str:
        if not self._rest:
            raise self.at.wrong(f"`{self.at.words[-1][:40]}` is followed by nothing")
        return self._rest.pop(0)

    def peek(self, pattern: str) -> bool:
        return bool(self._rest) and re.fullmatch(pattern, self._rest[0]) is not None

    def rate(self, what: str) -> float:
        text = self.next()
        value = quantity("rate", text, self.at)
        if bare(text) and value < _SMALL_BITS:
            meant = f"{10 * value / 1e6:g}mbit" if value >= _SMALL_BITS / 10 else f"{value / 1e3:g}kbit"
            self.warned.append(
                Warned(
                    self.at.line,
                    f"{what} {text} without a unit is {value / 1e3:g} kbit/s: tc counts bits",
                    f"{what} {meant}, if that is meant",
                )
            )
        elif re.search(r"[0-9][kmgt]?i?bps$", text.lower()):
            self.warned.append(
                Warned(
                    self.at.line,
                    f"{what} {text} is {value / 1e6:g} Mbit/s: bps is bytes per second in tc",
                    f"{what} {text.lower().replace('bps', 'bit')}, if bits are meant",
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

    def unknown(self, word: str) -> None:
        self.left.append(f"line {self.at.line}: `{word[:40]}`")


_NUMBER = r"(?:\d{1,15}(?:\.\d*)?|\.\d+)%?"
_TIME = r"(?:\d{1,15}(?:\.\d*)?|\.\d+)[a-z]*"


def _netem(of: _Words, out: Json) -> None:  # noqa: PLR0912 - a word each
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
                raise of.at.wrong(f"no distribution is called `{out['distribution'][:40]}`", "distribution normal")
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
            while of.peek(r"-?\d+"):
                of.next()
        elif word in {"seed"}:
            of.next()
        elif word == "slot":
            of.unknown("slot")
            while of.peek(r"(?!limit|delay|loss|rate).*"):
                of.next()
        else:
            of.unknown(word)


def _loss(of: _Words, out: Json) -> None:
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
        while of.peek(_NUMBER):
            of.next()
    else:
        out["loss"] = of.percent()
        if of.peek(_NUMBER):
            out["loss_correlation"] = of.percent() / 100


def _tbf(of: _Words, out: Json) -> None:
    while of:
        word = of.next()
        if word in {"rate", "peakrate"}:
            out[word] = of.rate(word)
        elif word in {"burst", "buffer", "maxburst", "limit"}:
            out["limit" if word == "limit" else "burst"] = quantity("size", of.next().split("/")[0], of.at)
        elif word in {"latency", "lat"}:
            out["latency"] = of.time()
        elif word in {"mtu", "minburst", "mpu", "overhead", "linklayer"}:
            of.next()
        else:
            of.unknown(word)


def _htb(of: _Words, out: Json) -> None:
    while of:
        word = of.next()
        if word in {"rate", "ceil"}:
            out[word] = of.rate(word)
        elif word in {"burst", "cburst"}:
            out[word] = quantity("size", of.next().split("/")[0], of.at)
        elif word in {"default", "r2q", "prio", "quantum", "mtu", "direct_qlen", "direct_packets_stat", "mpu"}:
            if of:
                of.next()
        else:
            of.unknown(word)


def _cake(of: _Words, out: Json) -> None:
    while of:
        word = of.next()
        if word == "bandwidth":
            if of.peek("unlimited"):
                of.next()
            else:
                out["rate"] = of.rate("bandwidth")
        elif word in {"rtt", "overhead", "mpu", "memlimit", "fwmark"}:
            value = of.next()
            if word == "rtt":
                out["rtt"] = quantity("time", value, of.at)
        elif word in {"besteffort", "diffserv3", "diffserv4", "diffserv8", "precedence"}:
            out["diffserv"] = word
        elif word in {"flowblind", "srchost", "dsthost", "hosts", "flows", "dual-srchost", "dual-dsthost",
                      "triple-isolate"}:  # fmt: skip
            out["flows"] = word
        elif not re.fullmatch(r"no-?\w[\w-]*|nat|wash|split-gso|raw|conservative|ack-filter|ingress|\w[\w-]*", word):
            of.unknown(word)


def _plain(names: dict[str, str]) -> Callable[[_Words, Json], None]:
    """Options of a discipline: which are times, sizes, counts, or flags."""

    def reader(of: _Words, out: Json) -> None:
        while of:
            word = of.next()
            kind = names.get(word)
            if kind == "time":
                out[word] = of.time()
            elif kind == "size":
                out[word] = of.size()
            elif kind == "count":
                text = of.next()
                out[word] = whole(text.removesuffix("p"), of.at)
            elif kind == "flag":
                out[word] = True
            elif kind == "skip":
                of.next()
            else:
                of.unknown(word)

    return reader


_CODEL = {"limit": "count", "target": "time", "interval": "time", "ecn": "flag", "noecn": "flag",
          "ce_threshold": "time"}  # fmt: skip

_KINDS: dict[str, Callable[[_Words, Json], None]] = {
    "netem": _netem,
    "tbf": _tbf,
    "htb": _htb,
    "cake": _cake,
    "codel": _plain(_CODEL),
    "fq_codel": _plain(_CODEL | {"flows": "count", "quantum": "size", "memory_limit": "size", "drop_batch": "count"}),
    "pie": _plain({"limit": "count", "target": "time", "tupdate": "time", "alpha": "skip", "beta": "skip",
                   "ecn": "flag", "noecn": "flag"}),
    "pfifo": _plain({"limit": "count"}),
    "bfifo": _plain({"limit": "size"}),
    "pfifo_fast": _plain({"bands": "skip"}),
}  # fmt: skip


def _police(at: Words, warned: list[Warned]) -> Layer | None:
    """`filter add dev eth0 parent ffff: … action police rate 2mbit burst 62500 conform-exceed drop`."""
    if "police" not in at.words:
        return None
    of = _Words(at, list(at.words[at.words.index("police") + 1 :]), warned, [])
    out: Json = {}
    while of:
        word = of.next()
        if word in {"rate", "peakrate"}:
            out[word] = of.rate(word)
        elif word in {"burst", "buffer", "maxburst"}:
            out["burst"] = quantity("size", of.next().split("/")[0], at)
        elif word in {"mtu", "avrate", "overhead", "conform-exceed", "action", "index"} and of:
            of.next()
    if "rate" not in out or "burst" not in out:
        raise at.wrong("a policer needs a rate and a burst", "action police rate 2mbit burst 62500 drop")
    dev = at.words[at.words.index("dev") + 1] if "dev" in at.words[:-1] else ""
    return Layer("police", False, "", dev, "ingress", "", out, at.line)
