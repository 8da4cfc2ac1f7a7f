"""Converts nested queue disciplines to a path: a shaper, a queue, netem, a policer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from narrows import _core
from narrows.advise.importers.disciplines import OPTIONS, counts_otherwise
from narrows.advise.importers.reading import ConfigError, Reading, Warned, bits, size, span
from narrows.errors import ScenarioError
from narrows.json_object import JsonObject
from narrows.runs.scenario import Hop, Path

RTT = "40ms"
"""Assumed RTT of a path without a delay."""

RATE = "1Gbit"
"""Assumed rate of a link without a rate."""

_RATE_BITS = 1e9

NETEM_LIMIT = 1000
"""Default limit of netem in packets, delayed ones included."""

FRAME = 1514

_STRUCTURE = ("noqueue", "ingress", "clsact", "class")
"""Entries of the output of tc that hold no packets."""

Dialect = str


@dataclass(frozen=True)
class Layer:
    """A discipline, class or policer.

    Attributes:
        kind: Name in tc.
        is_class: Whether it is a class instead of a queue discipline.
        verb: `add`, `replace`, `change`, or empty in output of tc.
        dev: Interface.
        parent: `root`, `ingress`, or a class.
        handle: Handle.
        options: Options, in bit/s, bytes, s or percent.
        line: Line, from 1.
    """

    kind: str
    is_class: bool
    verb: str
    dev: str
    parent: str
    handle: str
    options: JsonObject
    line: int


def compose(
    dialect: Dialect,
    name: str,
    layers: Sequence[Layer],
    warned: Sequence[Warned] = (),
    left: Sequence[str] = (),
) -> Reading:
    """Converts the layers of a configuration to a path.

    The first interface with netem, a policer or a rate is the forward path, and a second such
    interface is the reverse path. If no interface has any of these, the first one is the forward
    path.

    Raises:
        ConfigError: If the path is invalid.
    """
    told = [*warned, *_classics(layers)]
    devs = list(dict.fromkeys(layer.dev for layer in layers))
    mattering = [
        dev for dev in devs if any(_matters(layer) for layer in layers if layer.dev == dev)
    ] or devs[:1]
    assumed: list[str] = []
    out = list(left)
    forward = _hop([one for one in layers if one.dev == mattering[0]], assumed, out)
    reverse = (
        _hop([one for one in layers if one.dev == mattering[1]], [], out) if mattering[1:] else {}
    )
    if reverse:
        assumed.append(f"the reverse path uses {mattering[1]}, the second interface of the text")
    rest = [
        dev
        for dev in devs
        if dev not in mattering[:2] and any(x.dev == dev and x.kind != "noqueue" for x in layers)
    ]
    if rest:
        out.append(f"the interfaces {', '.join(rest)}")
    delays = [forward.pop("delay", 0.0), reverse.pop("delay", 0.0)]
    if not any(delays):
        assumed.append(f"an RTT of {RTT}, because the text has none")
    keys: JsonObject = {"rtt": span(sum(delays)) if any(delays) else RTT}
    if delays[1] and delays[0]:
        keys["delay_forward"] = span(delays[0])
    held = _held([one for one in layers if one.dev == mattering[0]], forward, assumed)
    if "rate" not in forward and "policer" not in forward:
        assumed.append(f"a link of {RATE}, because the text has no rate")
    forward |= held
    forward.setdefault("rate", RATE)
    if reverse:
        reverse.setdefault("rate", RATE)
    told += _limits(layers, keys["rtt"], forward["rate"], said="rate" in (layers[0].options or {}))
    path = Path(**keys, **forward, reverse=Hop(**reverse) if reverse else None)
    _check(path, name)
    return Reading(dialect=dialect, path=path, assumed=assumed, warned=told, left=out)


def refuse(kind: str, place: str) -> None:
    """Raises an error for a queue discipline that determines the path and that narrows cannot
    model.

    Raises:
        ConfigError: If the queue discipline is hfsc.
    """
    if kind == "hfsc":
        raise ConfigError(
            f"{place}: hfsc is not supported, because narrows has no model of its service "
            "curves\n"
            "    write: the same rates as htb: tc class add dev eth0 parent 1: classid 1:1 htb "
            "rate 10mbit ceil 20mbit"
        )


def _check(path: Path, name: str) -> None:
    try:
        _core.scenario_to_toml({"path": path.tree(), "flow": [{"cc": "reno"}], "duration": "1s"})
    except ScenarioError as error:
        raise ConfigError(f"{name}: line 1: the path is invalid:\n{error}") from error


def _polices(layer: Layer) -> bool:
    """Whether the layer is a policer with a rate and a burst."""
    return layer.kind == "police" and {"rate", "burst"} <= layer.options.keys()


def _matters(layer: Layer) -> bool:
    return layer.kind in {"netem", "tbf", "police"} or "rate" in layer.options


def _classics(layers: Sequence[Layer]) -> list[Warned]:
    """Warnings about common mistakes."""
    found = []
    roots: dict[str, Layer] = {}
    for layer in layers:
        if layer.parent != "root" or layer.is_class or not layer.verb:
            continue
        before = roots.get(layer.dev)
        if before is not None and layer.verb in {"add", "replace"}:
            where = f"on {layer.dev}" if layer.dev else "there"
            what = (
                f"a second root {where} is refused (File exists); only {before.kind} remains"
                if layer.verb == "add"
                else f"it replaces {before.kind}"
            )
            # The second discipline goes below the first one if the first one can have a child.
            outer, inner = (
                (before, layer) if before.kind in {"netem", "htb", "tbf"} else (layer, before)
            )
            fix = (
                f"tc qdisc add dev {layer.dev or 'DEV'} root handle 1: {outer.kind} …, then "
                f"parent 1: {inner.kind} …"
            )
            found.append(Warned(layer.line, what, fix))
            if {before.kind, layer.kind} == {"fq", "netem"}:
                found.append(
                    Warned(
                        layer.line,
                        "netem replaces fq: TCP's own timers then pace BBR, and netem's limit "
                        "includes delayed packets",
                        "netem on a host on the path, or on an ifb; fq at the sender",
                    )
                )
        roots.setdefault(layer.dev, layer)
    for layer in layers:
        if (
            layer.kind == "fq"
            and layer.parent not in {"root", ""}
            and any(one.kind == "netem" and one.dev == layer.dev for one in layers)
        ):
            found.append(
                Warned(
                    layer.line,
                    "fq below netem paces packets that netem then delays in bunches",
                    "fq at the sender",
                )
            )
        rate, peak = layer.options.get("rate"), layer.options.get("peakrate")
        if rate and peak and peak >= 2 * rate and layer.kind in {"tbf", "police"}:
            found.append(
                Warned(
                    layer.line,
                    f"bursts leave at {peak / rate:g} times the rate: the next queue must hold it",
                )
            )
        if _polices(layer) and layer.options["burst"] < layer.options["rate"] / 8 * 0.01:
            need = layer.options["rate"] / 8 * 0.05
            found.append(
                Warned(
                    layer.line,
                    f"a burst of {layer.options['burst']:.0f} bytes is less than 10 ms of the "
                    "rate, which reduces the goodput of TCP",
                    f"burst {need:.0f} (50 ms) or more",
                )
            )
    return found


def _limits(layers: Sequence[Layer], rtt: str, rate: str, *, said: bool) -> list[Warned]:
    """Warnings about netem's limit, which includes delayed packets."""
    found = []
    for layer in layers:
        delay = layer.options.get("delay", 0.0)
        bit_s = layer.options.get("rate")
        if layer.kind == "netem" and delay and bit_s:
            need = math.ceil(delay * bit_s / 8 / FRAME)
            limit = layer.options.get("limit", NETEM_LIMIT)
            if limit < need:
                found.append(
                    Warned(
                        layer.line,
                        f"its limit of {limit} packets includes delayed packets, and "
                        f"{delay * 1000:g} ms at this rate "
                        f"are {need}",
                        f"limit {2 * need}",
                    )
                )
        elif (
            layer.kind == "netem"
            and delay
            and not said
            and layer.options.get("limit", NETEM_LIMIT) <= NETEM_LIMIT
        ):
            fits = layer.options.get("limit", NETEM_LIMIT) * FRAME * 8 / delay / 1e6
            found.append(
                Warned(
                    layer.line,
                    f"its limit of {layer.options.get('limit', NETEM_LIMIT)} packets includes "
                    "delayed packets: above "
                    f"{fits:.0f} Mbit/s, packets are lost",
                    "limit 100000, if the link behind is faster",
                )
            )
    return found


def _hop(layers: Sequence[Layer], assumed: list[str], left: list[str]) -> JsonObject:
    """The scenario keys of the hop that these layers form, and its one-way `delay` in s."""
    keys: JsonObject = {}
    roots = [
        one for one in layers if one.parent == "root" and not one.is_class and one.verb != "change"
    ]
    refused = {id(one) for n, one in enumerate(roots) if n and one.verb == "add"} | {
        id(roots[n]) for n in range(len(roots) - 1) if roots[-1].verb == "replace"
    }
    for layer in layers:
        if id(layer) in refused:
            continue
        if layer.kind == "netem":
            _netem(layer.options, keys, left)
        elif layer.kind == "tbf":
            _tbf(layer.options, keys)
        elif layer.kind == "htb":
            if layer.is_class and "rate" in layer.options:
                if "rate" in keys and keys.get("link", {}).get("kind") == "htb":
                    left.append(f"line {layer.line}: all classes except the first")
                    continue
                keys["rate"] = bits(max(layer.options["rate"], layer.options.get("ceil", 0.0)))
                burst = layer.options.get("burst")
                keys["link"] = {"kind": "htb"} | ({"burst": size(burst)} if burst else {})
        elif _polices(layer):
            o = layer.options
            extra = {"peakrate": bits(o["peakrate"])} if "peakrate" in o else {}
            extra |= {"mtu": size(o["mtu"])} if "mtu" in o else {}
            keys["policer"] = {
                "kind": "police",
                "rate": bits(o["rate"]),
                "burst": size(o["burst"]),
            } | extra
            if "rate" not in keys:
                assumed.append(f"a link of {RATE} behind the policer")
        else:
            _queue(layer, keys, left)
    return keys


def _held(layers: Sequence[Layer], keys: JsonObject, assumed: list[str]) -> JsonObject:
    """The policer or buffer that models the limit of a netem with a delay, which includes delayed
    packets.

    If the limit is below the number of packets that the link carries during the delay, the limit
    bounds the rate. A token bucket of as many frames as the limit, which fills within the delay,
    allows the same bursts and the same long-term rate. Otherwise the buffer is the limit minus the
    packets that are delayed while the link is full.

    Source: Linux's net/sched/sch_netem.c, `netem_enqueue`: `sch->q.qlen >= sch->limit` drops.
    """
    netem = next((one for one in layers if one.kind == "netem" and one.options.get("delay")), None)
    if netem is None:
        return {}
    limit, delay = max(1, netem.options.get("limit", NETEM_LIMIT)), netem.options["delay"]
    most = limit * FRAME * 8 / delay
    own = netem.options.get("rate")
    other = next(
        (one.options["rate"] for one in layers if one is not netem and "rate" in one.options),
        _RATE_BITS,
    )
    if own and most > own:
        if keys.get("buffer") != f"{limit}p":
            return {}
        delayed = math.ceil(delay * own / 8 / FRAME)
        room = max(1, limit - delayed)
        assumed.append(
            f"a buffer of {room} packets: netem's limit of {limit} packets includes the {delayed} "
            f"packets that are delayed by {span(delay)} at {bits(own)}"
        )
        return {"buffer": f"{room}p"}
    if most >= (own or other) or "policer" in keys:
        return {}
    assumed.append(
        f"a bucket of {limit} frames that fills in {span(delay)}, for netem's limit, which "
        "includes delayed packets"
    )
    return {
        "policer": {
            "kind": "police",
            "rate": bits(most),
            "burst": size(limit * FRAME),
            "header": "0B",
        }
    }


def _netem(o: JsonObject, keys: JsonObject, left: list[str]) -> None:
    keys["delay"] = o.get("delay", 0.0)
    if "rate" in o:
        keys["rate"] = bits(o["rate"])
    if ("rate" in o or "limit" in o or o.get("delay")) and "queue" not in keys:
        keys.setdefault("buffer", f"{max(1, o.get('limit', NETEM_LIMIT))}p")
    if o.get("jitter"):
        keys["jitter"] = {
            "kind": o.get("distribution", "uniform"),
            "spread": span(o["jitter"]),
            "ordered": False,
        }
        keys["jitter"] |= {"correlation": o["correlation"]} if o.get("correlation") else {}
    if "gemodel" in o:
        names = ("p", "r", "loss_bad", "loss_good")
        keys["loss"] = {"kind": "gilbert_elliott"} | dict(zip(names, o["gemodel"], strict=False))
    elif o.get("loss"):
        plain = f"{o['loss']:g}%"
        correlated = {"probability": plain, "correlation": o.get("loss_correlation")}
        keys["loss"] = correlated if o.get("loss_correlation") else plain
    for name in ("corrupt", "duplicate"):
        if o.get(name):
            correlation = o.get(f"{name}_correlation")
            plain = f"{o[name]:g}%"
            keys[name] = (
                {"probability": plain, "correlation": correlation} if correlation else plain
            )
    if o.get("reorder"):
        if o.get("delay"):
            # netem sends reordered packets early; narrows delays them.
            left.append(
                "reorder: netem sends some packets early, narrows sends some packets late only"
            )
        else:
            left.append("reorder without a delay, which has no effect")
    if o.get("gap"):
        left.append(f"gap {o['gap']}")


def _tbf(o: JsonObject, keys: JsonObject) -> None:
    if "rate" not in o:
        return
    keys["rate"] = bits(o["rate"])
    link = {"kind": "tbf"} | ({"burst": size(o["burst"])} if o.get("burst") else {})
    link |= {"peakrate": bits(o["peakrate"])} if o.get("peakrate") else {}
    keys["link"] = link | ({"mtu": size(max(FRAME, o["mtu"]))} if o.get("mtu") else {})
    limit = o.get("limit")
    if limit is None and "latency" in o:
        limit = o["rate"] / 8 * o["latency"] + o.get("burst", 0.0)
    if limit:
        keys["buffer"] = size(max(FRAME, limit))


def _queue(layer: Layer, keys: JsonObject, left: list[str]) -> None:
    o = layer.options
    if layer.kind in {"pfifo", "bfifo"}:
        if o.get("limit"):
            keys["buffer"] = f"{o['limit']}p" if layer.kind == "pfifo" else size(o["limit"])
        return
    if layer.kind not in OPTIONS:
        if layer.kind not in _STRUCTURE:
            left.append(f"line {layer.line}: {layer.kind}, which narrows does not support")
        return
    params = dict(o.get("params", {}))
    if layer.kind == "cake" and o.get("rate"):
        keys["rate"] = bits(o["rate"])
        if counts_otherwise(params):
            # These parameters affect only cake's shaper, which exists only with a bandwidth.
            params["bandwidth"] = bits(o["rate"])
    keys["queue"] = {"kind": layer.kind} | params
    keys.pop("buffer", None)
