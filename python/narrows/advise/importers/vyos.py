"""Imports VyOS: lines of `set traffic-policy …` (1.3) and `set qos policy …` (1.4).

The module reads the policies shaper, limiter, rate-control, network-emulator, and the queues
fair-queue, fq-codel, drop-tail, random-detect and cake.

Source: VyOS's documentation of traffic policies. VyOS converts these policies to queue disciplines
of tc. The first policy is the forward path, and a second one is the reverse path. Rates without a
unit are in kbit/s, times in ms.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from narrows.advise.importers.layers import Layer, compose
from narrows.advise.importers.reading import (
    ConfigError,
    Reading,
    Words,
    percent,
    quantity,
    size,
    span,
    whole,
)
from narrows.json_object import JsonObject

LINE = re.compile(r"(?m)^\s*set\s+(?:traffic-policy|qos\s+policy)\s")
BRACES = re.compile(r"(?m)^[ \t]*(?:traffic-policy|qos)\s*\{")
"""The form of `show configuration`, which the module does not read."""

_KINDS = {
    "shaper": "htb", "limiter": "police", "rate-control": "tbf", "network-emulator": "netem",
    "fair-queue": "sfq",
    "fq-codel": "fq_codel", "drop-tail": "pfifo", "random-detect": "red", "cake": "cake",
}  # fmt: skip
_QUEUES = {
    "fair-queue": "sfq",
    "fq-codel": "fq_codel",
    "drop-tail": "pfifo",
    "random-detect": "red",
}
_NETEM: Mapping[str, tuple[str, str]] = {
    "delay": ("delay", "time"), "network-delay": ("delay", "time"), "bandwidth": ("rate", "rate"),
    "loss": ("loss", "percent"), "packet-loss": ("loss", "percent"), "corruption": ("corrupt",
    "percent"),
    "packet-corruption": ("corrupt", "percent"), "duplicate": ("duplicate", "percent"),
    "reordering": ("reorder", "percent"), "packet-reordering": ("reorder", "percent"),
    "queue-limit": ("limit", "count"),
}  # fmt: skip
_SHAPED: Mapping[str, tuple[str, str]] = {
    "bandwidth": ("rate", "rate"), "burst": ("burst", "size"), "latency": ("latency", "time"),
}  # fmt: skip
_FQ_CODEL: Mapping[str, tuple[str, str]] = {
    "queue-limit": ("limit", "packets"), "flows": ("flows", "number"), "target": ("target", "span"),
    "interval": ("interval", "span"), "codel-quantum": ("quantum", "bytes"),
}  # fmt: skip

_OPTIONS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "shaper": _SHAPED,
    "limiter": _SHAPED,
    "rate-control": _SHAPED,
    "network-emulator": _NETEM,
    "fq-codel": _FQ_CODEL,
    "drop-tail": {"queue-limit": ("limit", "count")},
    "cake": {"rtt": ("rtt", "span"), "bandwidth": ("rate", "rate")},
    "fair-queue": {},
    "random-detect": {},
}


def read(text: str, name: str) -> Reading:
    """Reads lines of VyOS.

    Raises:
        ConfigError: If a line cannot be read, or if no line has a supported policy.
    """
    policies: dict[str, Layer] = {}
    queues: dict[str, Layer] = {}
    left: list[str] = []
    for number, raw in enumerate(text.splitlines(), 1):
        try:
            words = shlex.split(raw, comments=True)
        except ValueError as error:
            raise ConfigError(f"{name}: line {number}: {error}") from error
        at = Words(name, number, tuple(words))
        if _attaches(words):
            continue
        policy_line = words[:2] == ["set", "traffic-policy"] or words[:3] == [
            "set",
            "qos",
            "policy",
        ]
        tail = words[2:] if words[1:2] == ["traffic-policy"] else words[3:]
        if not policy_line or len(tail) < 2:  # noqa: PLR2004 - a kind and a name
            left += [f"line {number}: `{raw.strip()[:60]}`"] if words else []
            continue
        kind, policy, *rest = tail
        if kind not in _KINDS:
            left.append(f"line {number}: {kind[:40]}, which narrows does not support")
            continue
        layer = policies.setdefault(
            policy, _layer(_KINDS[kind], policy, number, is_class=kind == "shaper")
        )
        if not _option(at, kind, layer, rest, queues):
            left.append(f"line {number}: `{' '.join(rest)[:60]}`")
    layers = [
        one
        for policy, layer in policies.items()
        for one in (layer, queues.get(policy))
        if one is not None
    ]
    if not layers:
        raise ConfigError(
            f"{name}: line 1: there is no policy that narrows supports\n    write: set "
            "traffic-policy shaper …"
        )
    for layer in layers:
        if layer.kind == "police" and not {"rate", "burst"} <= layer.options.keys():
            raise ConfigError(
                f"{name}: line {layer.line}: a limiter needs a bandwidth and a burst\n"
                f"    write: set traffic-policy limiter {layer.dev} default burst 15k"
            )
    return compose("vyos", name, layers, left=left)


def _attaches(words: list[str]) -> bool:
    """Whether the line only attaches a policy to an interface, such as `set interfaces ethernet
    eth0 traffic-policy out WAN` or `set qos interface eth0 egress WAN`.
    """
    old = (
        words[:2] == ["set", "interfaces"]
        and words[-3:-2] == ["traffic-policy"]
        and words[-2] in {"in", "out"}
    )
    return old or (words[:3] == ["set", "qos", "interface"] and words[-2] in {"ingress", "egress"})


def _layer(kind: str, policy: str, line: int, *, is_class: bool = False) -> Layer:
    return Layer(kind, is_class, "", policy, "root", "", {}, line)


def _option(at: Words, kind: str, layer: Layer, rest: list[str], queues: dict[str, Layer]) -> bool:
    """Reads an option; returns False if a path has no such property."""
    # The default class represents all classes; a shaper's bandwidth is that of the path.
    inner = rest[:1] == ["default"]
    words = rest[1:] if inner else rest
    if kind in {"limiter", "shaper"} and rest[:1] == ["class"]:
        return False
    if len(words) < 2:  # noqa: PLR2004 - a name and a value
        return not words
    key, text = words[0], words[1]
    if kind == "shaper" and inner:
        if key == "queue-type" and text in _QUEUES:
            queues[layer.dev] = _layer(_QUEUES[text], layer.dev, at.line)
        elif key in _FQ_CODEL and layer.dev in queues and queues[layer.dev].kind == "fq_codel":
            _take(at, _FQ_CODEL, key, text, queues[layer.dev].options)
        else:
            # A bandwidth or ceiling of 100 % is the default.
            return key in {"bandwidth", "ceiling"} and text == "100%"
        return True
    return _take(at, _OPTIONS[kind], key, text, layer.options)


def _take(
    at: Words, table: Mapping[str, tuple[str, str]], key: str, text: str, out: JsonObject
) -> bool:
    if key not in table:
        return False
    name, kind = table[key]
    if kind in {"span", "bytes", "packets", "number"}:
        # A parameter of the discipline, in the syntax of a scenario.
        out = out.setdefault("params", {})
    if kind == "rate":
        if text == "auto" or text.endswith("%"):
            raise at.wrong(f"bandwidth {text} needs the rate of the link", f"{key} 20mbit")
        out[name] = quantity("rate", f"{text}kbit" if text.isdigit() else text, at)
    elif kind in {"time", "span"}:
        seconds = quantity("time", f"{text}ms" if text.isdigit() else text, at)
        out[name] = seconds if kind == "time" else span(seconds)
    elif kind == "percent":
        out[name] = percent(text, at)
    elif kind in {"size", "bytes"}:
        number = quantity("size", text, at)
        out[name] = number if kind == "size" else size(number)
    else:
        count = whole(text, at)
        out[name] = f"{count}p" if kind == "packets" else count
    return True
