"""The question of `narrows advise`: path, role and goals, and the unknown properties of the path.

Each possible value of an unknown property gives a variant of the path, and the candidates are
simulated on all variants. A path of which only rate and RTT are known may have an ordinary, a short
or a bloated buffer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from narrows import _core
from narrows.advise.model import PlaceJson
from narrows.errors import NarrowsError
from narrows.json_object import JsonObject
from narrows.path_model import CLEAR, FAMILIES
from narrows.runs.scenario import Flow, Hop, Path, Scenario

ROLES = ("sender", "forwarder", "receiver", "operator")
"""Roles of the user: sender of the data, host that forwards it, receiver, and network operator."""

CARES = ("bulk", "pages", "calls", "fairness", "retransmissions")
"""Goals of the user."""

CARED = {
    "sender": ("bulk", "fairness"),
    "forwarder": ("bulk", "calls"),
    "receiver": ("bulk", "calls"),
    "operator": ("bulk", "calls", "fairness"),
}
"""Default goals of each role."""

OPEN_BUFFERS = ("1bdp", "0.3bdp", "4bdp")
"""Possible sizes of an unknown buffer, the most likely first: ordinary, short, bloated."""

FRAME, MOST = 1514, 1e10
"""Minimum and maximum size of a buffer, in bytes."""

LOSSY, RENO = 2e-3, 1.5
"""Random loss matters from the probability `LOSSY`, or from a lower one that keeps the congestion
window of Reno too small.

With the loss probability p, this window is √(`RENO` / p) packets (RFC 5681; Mathis et al. 1997).
The window is too small below one bandwidth-delay product plus the buffer."""

WIDE = 1.25
"""Only one buffer size is simulated if the upper end of its interval is less than this multiple of
the lower end. An end of the interval of the rate is simulated if it differs from the value by at
least this factor.
"""

FAR, FAR_APART = 2.0, 4.0
"""`FAR` is the ratio above which an end of the interval of the loss rate is simulated as well.
`FAR_APART` is the ratio of the upper end to a third loss rate, which is simulated if it exceeds the
most likely one.
"""

OTHER_QUEUES = {"fair": "fq_codel", "aqm": "codel"}
"""For each family of queue disciplines that the bottleneck may have, the discipline that is
simulated.
"""

LIKELIEST = 0.5
"""Weight of the most likely variant if there are several; the others share the rest equally."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A possible path.

    Attributes:
        path: The path.
        weight: Weight of the variant; all weights add up to 1.
        why: The assumption of the variant, in words; empty without an assumption.
        rate_mbit: Rate of the path in Mbit/s; None if it is that of the most likely variant.
    """

    path: Path
    weight: float
    why: str
    rate_mbit: float | None = None


@dataclass(frozen=True, kw_only=True)
class Place:
    """A path with its unknown properties.

    Attributes:
        variants: The possible paths, the most likely first.
        rate_mbit: Rate of the bottleneck, in Mbit/s.
        rtt_ms: Base RTT, in ms.
        buffer_bdp: Buffer of the most likely variant, in bandwidth-delay products; None if a queue
            discipline determines it.
        loss: Random loss as share of packets.
        source: Source of the path, in words.
        open: Unknown properties, in words.
        inferred: Whether a measurement is the source, so that the numbers have errors.
        told: Whether the source determines the type of the queue.
    """

    variants: tuple[Variant, ...]
    rate_mbit: float
    rtt_ms: float
    buffer_bdp: float | None
    loss: float
    source: str
    open: tuple[str, ...]
    inferred: bool = False
    told: bool = True

    def json(self) -> PlaceJson:
        """The JSON object."""
        return {
            "source": self.source,
            "rate_mbit": self.rate_mbit,
            "rtt_ms": self.rtt_ms,
            "buffer_bdp": self.buffer_bdp,
            "loss": self.loss,
            "open": list(self.open),
            "variants": [
                {"why": v.why, "weight": v.weight, "path": v.path.tree()} for v in self.variants
            ],
        }


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The question of `narrows advise`.

    Attributes:
        place: The path, with its unknown properties.
        role: Role of the user, one of `ROLES`.
        cares: Goals of the user, with equal weights.
        now: The congestion control in use.
        data_centre: Whether the path is inside a data centre, so that congestion controls for
            controlled networks are candidates.
        seed: Seed of all random choices.
    """

    place: Place
    role: str = "sender"
    cares: tuple[str, ...] = ()
    now: str = "cubic"
    data_centre: bool = False
    seed: int = 1

    def __post_init__(self) -> None:
        """Checks role and goals, and sets the default goals.

        Raises:
            NarrowsError: If a role or goal does not exist.
        """
        if self.role not in ROLES:
            raise NarrowsError(
                f"--as {self.role}: there is no such role\n    write: --as {'|'.join(ROLES)}"
            )
        unknown = [care for care in self.cares if care not in CARES]
        if unknown:
            raise NarrowsError(
                f"--for {unknown[0]}: there is no such goal\n    write: --for {','.join(CARES)}"
            )
        if not self.cares:
            object.__setattr__(self, "cares", CARED[self.role])


def place(paths: Sequence[tuple[Path, str]], *, source: str, left: Sequence[str] = ()) -> Place:
    """Combines possible paths, the most likely first, into a `Place` with a weight for each.

    >>> here = place([(Path(rate="10Mbit", rtt="20ms", buffer="2bdp"), "")], source="stated")
    >>> here.rate_mbit, here.rtt_ms, here.buffer_bdp, here.loss
    (10.0, 20.0, 2.0, 0.0)

    Raises:
        ScenarioError: If a path is invalid.
    """
    others = len(paths) - 1
    weights = [
        LIKELIEST if others else 1.0,
        *([(1 - LIKELIEST) / others] * others if others else []),
    ]
    numbers = _numbers(paths[0][0])
    return Place(
        variants=tuple(
            Variant(
                path=p,
                weight=w,
                why=why,
                rate_mbit=None if p.rate == paths[0][0].rate else _numbers(p)["rate_mbit"],
            )
            for (p, why), w in zip(paths, weights, strict=True)
        ),
        rate_mbit=numbers["rate_mbit"],
        rtt_ms=min(numbers["rtts_ms"]),
        buffer_bdp=numbers["buffer_bdp"],
        loss=numbers["loss"],
        source=source,
        open=tuple(left),
    )


def _numbers(path: Path) -> JsonObject:
    """Rate, RTT, buffer and loss of a path as numbers; the core converts the text with units."""
    scenario = Scenario(path, flows=[Flow("reno")], duration="1s", start_jitter="0s").tree()
    filled = json.loads(_core.run_tree(scenario, seed=1, sample_interval="off").json())["scenario"]
    return _core.path_numbers(filled)


def stated(path: Path, *, source: str = "stated") -> Place:
    """The place of a path as specified. A path with neither buffer, queue discipline, policer,
    trace nor several hops has one variant for each of three buffer sizes.

    >>> [v.why for v in stated(Path(rate="10Mbit", rtt="20ms")).variants]
    ['a buffer of 1bdp', 'a buffer of 0.3bdp', 'a buffer of 4bdp']

    Raises:
        NarrowsError: If the path has no rate or no RTT.
        ScenarioError: If the path is invalid.
    """
    if path.hop is None and path.trace is None:
        for name, example in (("rate", "50Mbit"), ("rtt", "40ms")):
            if getattr(path, name) is None and not (name == "rate" and path.policer is not None):
                raise NarrowsError(f"the path has no {name}\n    write: --{name} {example}")
    shaped = path.hop is not None or path.trace is not None or path.policer is not None
    if path.buffer is not None or path.queue not in {None, "fifo"} or shaped:
        return place([(path, "")], source=source)
    guesses = [(replace(path, buffer=b), f"a buffer of {b}") for b in OPEN_BUFFERS]
    return place(guesses, source=source, left=["the size of the buffer"])


def from_scenario(tree: Mapping[str, Any], *, source: str) -> Place:
    """The place of the path in a scenario file, or in a file with only a `[path]`.

    Raises:
        NarrowsError: If the file has no path.
        ScenarioError: If the path is invalid.
    """
    if not isinstance(tree.get("path"), Mapping):
        raise NarrowsError(
            f"{source}: there is no [path]; narrows model FILE --path here.toml writes one"
        )
    return stated(path_of(cast("JsonObject", tree["path"])), source=source)


def path_of(tree: Mapping[str, Any]) -> Path:
    """The `Path` of a `[path]` table.

    Raises:
        ScenarioError: If the table has keys that no path has.
    """
    scenario = {"path": dict(tree), "flow": [{"cc": "reno"}], "duration": "1s"}
    _core.scenario_to_toml(scenario)
    rest = dict(tree)
    if isinstance(rest.get("reverse"), Mapping):
        rest["reverse"] = Hop(**rest["reverse"])
    if "hop" in rest:
        rest["hop"] = tuple(Hop(**hop) for hop in rest["hop"])
    return Path(**rest)


def measured(
    model: Mapping[str, Any],
    *,
    role: str,
    source: str,
    lone: bool = False,
    known: Mapping[str, str] | None = None,
) -> Place:
    """The place of a path model's JSON; the intervals of its properties become variants.

    If both directions were measured, the upload is used for a sender, and the download for the
    other roles.

    Args:
        model: Output of `narrows model --json`.
        role: Role of the user.
        source: Name of the source.
        lone: Whether the path was also measured with a single flow; if not, the result may suggest
            such a measurement.
        known: Properties that are known from elsewhere: `buffer`, `queue`, `loss`, as in a
            scenario.

    Raises:
        NarrowsError: If `model` is not the JSON of a path model.
        ScenarioError: If the path of the model is invalid.
    """
    tree, told = (
        model.get("path"),
        [direction for direction in ("up", "down") if isinstance(model.get(direction), Mapping)],
    )
    if not isinstance(tree, Mapping) or not told:
        raise NarrowsError(f"{source}: not a path model; narrows model FILE --json prints one")
    direction = told[0] if role == "sender" else told[-1]
    forward = _turned(dict(tree)) if direction == "up" and "reverse" in tree else dict(tree)
    known = known or {}
    sure = model[direction].get("sure") != "cannot tell"
    why = model[direction].get("why")
    if not sure:
        # The queue of the model is only an assumption, so other buffers and queues are simulated
        # below.
        forward = {
            key: value
            for key, value in forward.items()
            if key not in {"queue", "policer", "loss", "buffer"}
        }
    path = replace(path_of(forward), **cast("JsonObject", known))
    left = [
        f"the {name}: {about['why']}"
        for name, about in _unsure(model[direction])
        if name not in known
    ]
    rivals = [] if {"buffer", "queue"} & set(known) else _rivals(model[direction])
    determined = sure and not rivals
    if not determined and "queue" not in known:
        left.append(f"the type of the queue: {why or 'no type matches the measurement'}")
    left += _base_rtt(model)
    guesses = [(path, "")] if {"buffer", "queue"} & set(known) else _buffers(path, model[direction])
    guesses += _other_queues(path, rivals)
    path = guesses[0][0]
    rates = _other_rates(path, model[direction])
    guesses += rates
    if rates and not any(line.startswith("the rate:") for line in left):
        # The model gives no reason for the uncertain rate, but its interval is wide.
        others = " or ".join(said.removeprefix("a rate of ") for _, said in rates)
        left.append(f"the rate: {others} is possible, too")
    of = _numbers(path)
    rounds = (
        of["rate_mbit"]
        * 1e6
        / 8
        * min(of["rtts_ms"])
        / 1000
        / FRAME
        * (1 + (of["buffer_bdp"] or 0.0))
    )
    least = min(LOSSY, RENO / max(1.0, rounds) ** 2)
    losses = _other_losses(of["loss"], model[direction], least=least) if "loss" not in known else []
    ask = (
        ""
        if lone or role != "sender"
        else "; a measurement with --streams 1 for --single-flow shows more"
    )
    if losses and (path.loss is None or isinstance(path.loss, dict)):
        # Drops by a full queue hide random loss, so its rate is uncertain.
        could = " or ".join(f"{100 * loss:.2g} %" for loss in [of["loss"], *losses])
        left.append(f"the random loss: {could}{ask}")
        for loss in losses:
            lossy = {"probability": f"{100 * loss:.3g}%", "per": "packet"} if loss else None
            guesses.append((replace(path, loss=lossy), f"{100 * loss:.2g} % random loss"))
    elif "loss" not in known and (most := _unseen(model[direction])) >= least:
        left.append(
            f"the random loss: none was observed, up to {100 * most:.2g} % would not be "
            f"visible{ask}"
        )
    return replace(
        place(guesses, source=source, left=left),
        inferred=True,
        told=determined or bool({"buffer", "queue"} & set(known)),
    )


def _rivals(direction: Mapping[str, Any]) -> list[str]:
    """The other families of queue disciplines that the measurement does not exclude.

    If the model cannot determine the family, all other families are possible. If the family is only
    `likely`, others whose simulations are nearly as similar to the measurement are possible. The
    distance of their simulations to the measurement is at most `CLEAR` larger than the smallest
    distance.
    """
    family, sure = direction.get("family"), direction.get("sure")
    if sure == "cannot tell":
        # The path of the model already has a drop-tail buffer.
        return [other for other in dict.fromkeys(FAMILIES.values()) if other != "drop-tail"]
    told = direction.get("unlike")
    if sure != "likely" or not isinstance(told, Mapping):
        return []
    away = {
        kind: float(value)
        for kind, value in told.items()
        if kind in FAMILIES and isinstance(value, int | float) and not isinstance(value, bool)
    }
    near = [kind for kind, value in away.items() if value <= min(away.values()) + CLEAR]
    return list(dict.fromkeys(FAMILIES[kind] for kind in near if FAMILIES[kind] != family))


def _other_queues(path: Path, families: Sequence[str]) -> list[tuple[Path, str]]:
    """Variants of the path with a queue discipline of each of these families. There is no variant
    with a policer, because a policer drops packets like a short buffer, which is among the
    drop-tail buffer sizes.
    """
    bare = replace(path, policer=None)
    out = [
        (replace(bare, queue=queue, buffer=None), f"the queue discipline {queue}")
        for family, queue in OTHER_QUEUES.items()
        if family in families
    ]
    if "drop-tail" in families:
        sizes = ((size, f"a drop-tail buffer of {size}") for size in OPEN_BUFFERS)
        out += [(replace(bare, queue=None, buffer=size), why) for size, why in sizes]
    return out


def _base_rtt(model: Mapping[str, Any]) -> list[str]:
    """The reason why the base RTT is uncertain, if it is."""
    told = model.get("rtt_ms")
    why = told.get("why") if isinstance(told, Mapping) else None
    return [f"the base RTT: {why}"] if why else []


def _buffers(path: Path, direction: Mapping[str, Any]) -> list[tuple[Path, str]]:
    """Variants of the path by buffer size: the path itself and the ends of a wide interval. If the
    size is unknown, the variants have the sizes of `OPEN_BUFFERS`.
    """
    depth = direction.get("buffer_bytes")
    known = depth if isinstance(depth, Mapping) else {}
    if path.queue not in {None, "fifo"} or path.policer is not None:
        return [(path, "")]
    if isinstance(depth, Mapping) and _size(known.get("value")) is None and known.get("why"):
        return [(replace(path, buffer=size), f"a buffer of {size}") for size in OPEN_BUFFERS]
    whole = [size for key in ("low", "high") if (size := _size(known.get(key))) is not None]
    if known.get("value") is None:
        return [(path, "")]
    is_narrow = not whole[1:] or whole[1] < WIDE * whole[0]
    if known.get("high") is not None and is_narrow:
        return [(path, "")]
    if known.get("high") is None:
        # A buffer that was never full has the observed size or a larger one.
        assumed = _size(
            int(path.buffer[:-1]) if path.buffer and path.buffer[:-1].isdecimal() else None
        )
        whole = [size for size in whole if assumed is None or WIDE * size < assumed]
    return [
        (path, ""),
        *(
            (replace(path, buffer=f"{size}B"), f"a buffer of {size / 1000:.0f} kB")
            for size in whole
        ),
    ]


def _other_rates(path: Path, direction: Mapping[str, Any]) -> list[tuple[Path, str]]:
    """The path with the other rates that the measurement does not exclude.

    The other rates are the ends of a wide interval. An open end is replaced by the value divided or
    multiplied by `FAR`. Without a value, the only other rate is `FAR` times the lower end.
    """
    told = direction.get("rate_mbit")
    known = told if isinstance(told, Mapping) else {}
    value, low, high = (_mbit(known.get(key)) for key in ("value", "low", "high"))
    if path.rate is None or (value is None and low is None):
        return []
    if value is None:
        buffer = "1bdp" if path.queue in {None, "fifo"} else path.buffer
        return [
            (
                replace(path, rate=f"{FAR * (low or 0.0) * 1e6:.0f}bit", buffer=buffer),
                f"a rate of {FAR * (low or 0.0):.3g} Mbit/s",
            )
        ]
    ends = [
        known_end or factor * value
        for key, known_end, factor in (("low", low, 1 / FAR), ("high", high, FAR))
        if key in known
    ]
    return [
        (replace(path, rate=f"{end * 1e6:.0f}bit"), f"a rate of {end:.3g} Mbit/s")
        for end in ends
        if not 1 / WIDE < end / value < WIDE
    ]


def _mbit(value: object) -> float | None:
    """A valid rate in Mbit/s; None for anything else that a file may contain."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < MOST / 1e6:
        return None
    return float(value)


def _other_losses(likeliest: float, direction: Mapping[str, Any], *, least: float) -> list[float]:
    """Other values of the random loss: ends of the interval that differ from `likeliest` by more
    than the factor `FAR`, and one between them. A value below `least` counts as no loss. If the
    measurement shows no random loss, there are no other values: the queue explains all losses.
    """
    told = direction.get("loss")
    known = told if isinstance(told, Mapping) else {}
    if known.get("value") == 0:
        return []
    low, high = (_share(known.get(key)) for key in ("low", "high"))
    out = []
    if likeliest >= least and low < likeliest / FAR:
        out.append(low if low >= least else 0.0)
    if high >= least and high > FAR * likeliest:
        between = high / FAR_APART
        out += [between, high] if between > max(least, likeliest) else [high]
    return out


def _unseen(direction: Mapping[str, Any]) -> float:
    """Highest random loss that the measurement would not show; 0 if it shows random loss."""
    told = direction.get("loss")
    known = told if isinstance(told, Mapping) else {}
    return _share(known.get("high")) if known.get("value") == 0 else 0.0


def _share(value: object) -> float:
    """A valid share of packets; 0 for anything else that a file may contain."""
    return (
        float(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1
        else 0.0
    )


def _size(value: object) -> int | None:
    """A valid buffer size in bytes; None for anything else that a file may contain."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not FRAME <= value <= MOST:
        return None
    return round(value)


def _unsure(direction: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    names = {"rate_mbit": "rate", "buffer_bytes": "buffer", "loss": "loss"}
    found = ((name, direction.get(key)) for key, name in names.items())
    return [
        (name, about) for name, about in found if isinstance(about, Mapping) and about.get("why")
    ]


def _turned(tree: JsonObject) -> JsonObject:
    """The same path for data that goes in the other direction."""
    ends = {"rtt", "offload"}
    reverse = {key: value for key, value in tree.items() if key not in {*ends, "reverse"}}
    return {
        **tree["reverse"],
        **{key: tree[key] for key in ends if key in tree},
        "reverse": reverse,
    }
