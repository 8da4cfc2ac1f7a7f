"""The twin: a path that would have shown what a measurement saw, as a `[path]` that `narrows run` takes.

Of each way that was loaded: its rate and whether that varies, the depth of its buffer or the law that keeps it short,
fair queueing or not, a policer or not, losses by chance; and the base round trip, traces of others' traffic, what
became of ECN and DSCP. Everything says how sure it is, and what a measurement cannot tell is said to be unknown: a
depth behind an AQM, a rate that was never reached.

How it is found: `signs` are the statistics of a load, `fit` asks the simulator which path shows the same ones.
Intervals are not the fit's own: they are how far off the truth it was on paths drawn at random, whose truth is known
(`validation/twin.py` writes `data/twin.json`), in units of what limits each measurement: a rate is counted in packets,
a buffer in frames, and idle round trips differ. What the instrument itself adds to a round trip, it tells.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path as FilePath
from statistics import median
from typing import Any

from narrows import _core
from narrows.errors import NarrowsError
from narrows.measurement import DIRECTIONS, Direction, Json, Measurement, short
from narrows.scenario import Hop, Path
from narrows.simulated import Plan
from narrows.twin.chance import Chance, losses
from narrows.twin.fit import AQM, FAIR, FILLED, Fitted, Guess, Setting, bits, first, frames_ms, search
from narrows.twin.signs import FRAME, Signs, idle_ms, longest, signs

CALIBRATION = FilePath(__file__).parents[1] / "data" / "twin.json"
"""How far off the truth the inference is on paths drawn at random."""

SHARE = 0.9
"""The share of truths that a stated interval holds."""

CLEAR, POOR = 0.5, 3.0
"""How much less another family must look like it for the kind to be sure; how little alike nothing known looks."""

CLOCK_MS = 1e-3
"""Round trips are not told apart below a microsecond."""

VARIES = 0.25
"""By so much of itself a rate differs between windows, beyond what chance does in the twin, when it varies."""

OTHERS_MS, OTHERS = 1.0, 0.05
"""Idle pings that took so much longer than the least, and the share of them that says there is somebody else."""

FAMILIES = {"fifo": "drop-tail", "policer": "policer"} | {kind: "fair" if kind in FAIR else "aqm" for kind in AQM}


@dataclass(frozen=True)
class Known:
    """A value and how sure it is.

    Attributes:
        value: The likeliest; None where it cannot be told.
        low: The interval's lower end.
        high: Its upper end; None where there is none.
        why: Why it cannot be told, or not better.
        unit: What its errors are measured in.
        grain: What limits the measurement of it; how many times that adds to the unit is calibrated.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    why: str = ""
    unit: float = 0.0
    grain: float = 0.0

    def json(self) -> Json:
        """For programs."""
        return {"value": short(self.value), "low": short(self.low), "high": short(self.high), "why": self.why}


@dataclass(frozen=True)
class Way:
    """What one direction is like.

    Attributes:
        guess: The hop of the twin.
        family: `drop-tail`, `policer`, `aqm` or `fair`.
        sure: `sure`, `likely` or `cannot tell`, of the family.
        rate: Of the link or the policer, Mbit/s of whole frames.
        varies: Does the rate vary? None where that cannot be told.
        depth: Of a drop-tail buffer, bytes.
        burst: Of a policer, bytes.
        loss: By chance, share of packets.
        filled: Was it ever full?
        alike: By kind, how unlike the measurement it looks; about 0.2 is chance.
    """

    guess: Guess
    family: str
    sure: str
    rate: Known
    varies: bool | None
    depth: Known
    burst: Known
    loss: Known
    filled: bool
    alike: dict[str, float] = field(default_factory=dict)

    def json(self) -> Json:
        """For programs; rates in Mbit/s, sizes in bytes."""
        return {
            "queue": self.guess.kind if self.guess.kind != "policer" else "fifo",
            "family": self.family,
            "sure": self.sure,
            "rate_mbit": self.rate.json(),
            "rate_varies": self.varies,
            "buffer_bytes": self.depth.json(),
            "policer": self.family == "policer",
            "burst_bytes": self.burst.json(),
            "aqm": self.family == "aqm" or self.guess.kind in FAIR,
            "fair_queueing": self.family == "fair",
            "loss": self.loss.json(),
            "filled": self.filled,
            "unlike": {kind: short(value) for kind, value in self.alike.items()},
        }


@dataclass(frozen=True)
class Twin:
    """The model of a path.

    Attributes:
        rtt: The base round trip, ms.
        ways: By direction that was loaded.
        others: Does somebody else's traffic show in the idle pings? None where there were none.
        marks: What became of ECN and DSCP, as the measurement says: `negotiated`, `ce_rate`, `dscp_survives`.
    """

    rtt: Known
    ways: dict[Direction, Way]
    others: bool | None
    marks: Json

    def path(self) -> Path:
        """The path as Python has it."""
        rtt = f"{max(0.001, self.rtt.value or 0.001):.4g}ms"
        down, up = (self.ways.get(way) for way in ("down", "up"))
        ahead, back = (_keys(down), _keys(up)) if down else (_keys(up), None)
        reverse = None if back is None or up is None else Hop(**back)
        return Path(rtt=rtt, reverse=reverse, **(ahead or {}))

    def toml(self) -> str:
        """A `[path]`, to which `narrows run` needs flows only."""
        return _section(self.path().tree(), "path")

    def json(self) -> Json:
        """For programs."""
        return {
            "rtt_ms": self.rtt.json(),
            **{way: model.json() for way, model in self.ways.items()},
            "others_traffic": self.others,
            "marks": self.marks,
            "path": self.path().tree(),
        }


def _keys(way: Way | None) -> dict[str, Any] | None:
    return None if way is None else way.guess.keys()


def _section(table: Json, name: str) -> str:
    plain = {k: v for k, v in table.items() if not (isinstance(v, dict) and k == "reverse")}
    lines = [f"[{name}]", *(f"{k} = {_value(v)}" for k, v in plain.items())]
    text = "\n".join(lines) + "\n"
    return text + ("\n" + _section(table["reverse"], f"{name}.reverse") if "reverse" in table else "")


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_value(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def infer(
    measured: Measurement,
    *,
    seed: int = 1,
    chance: bool = False,
    lone: Measurement | None = None,
    progress: Callable[[float, float], object] | None = None,
) -> Twin:
    """The twin of the path that was measured.

    >>> from narrows.simulated import measure
    >>> path = Path(rate="20Mbit", rtt="40ms", buffer="100kB")
    >>> twin = infer(measure(path, Plan(streams=4, load_s=5.0, ways=("down",))))
    >>> down = twin.ways["down"]
    >>> down.family, round(down.rate.value), round(twin.rtt.value)
    ('drop-tail', 20, 40)

    Args:
        measured: With an idle phase, and each way loaded alone.
        seed: Of the simulations.
        chance: Also ask how much may be lost by chance, which takes as long again; otherwise that may be anything up
            to all that was sent again.
        lone: Another measurement of the path, with one flow, which tells more of that.
        progress: Called now and then with how much is done, of how much; what it raises stops it.

    Raises:
        NarrowsError: If the measurement has no load that pings watched.
    """
    base = idle_ms(measured)
    seen = {way: s for way in DIRECTIONS[::-1] if (s := signs(measured, way)) is not None}
    if base is None or not seen:
        raise NarrowsError(
            "a twin needs pings beside TCP flows that fill the path, and this measurement has not both\n"
            "    write: narrows measure HOST"
        )
    rtt = max(0.0, base - frames_ms(*(s.busy_mbit or s.rate_mbit for s in seen.values())))
    differ = _differ_ms(measured, base)
    ways: dict[Direction, Way] = {}
    at_once = len(seen) > 1 and _overlap(*(s.span for s in seen.values()))
    for done, (way, sign) in enumerate(seen.items()):
        if at_once:
            ways[way] = _both_at_once(sign)
            continue
        flows = sum(f.direction == way and sign.span[0] <= f.from_s < sign.span[1] for f in measured.flows)
        grain = Grain(math.sqrt(max(1, flows)) / max(1.0, sign.packets), differ)
        other = seen.get("up" if way == "down" else "down")
        plan = _plan(measured, way, sign)
        hop = Hop(**first(other).keys()) if other else None
        setting = Setting(way, plan, rtt, hop, seed)
        found = search(sign, setting, progress=_part(progress, done, len(seen)))
        ways[way] = _way(sign, found, grain)
        if (chance or lone) and found and found[0].guess.kind != "policer" and sign.again is not None:
            alone = None if lone is None else signs(lone, way)
            also = [] if lone is None or alone is None else [(alone, replace(setting, plan=_plan(lone, way, alone)))]
            ways[way] = _with_chance(ways[way], losses([(sign, setting), *also], found[0].guess), grain)
    rate = min((w.rate.value for w in ways.values() if w.rate.value), default=None)
    frames = frames_ms(*(way.guess.wire_mbit for way in ways.values()))
    known = _interval("rtt_ms", "any", max(0.0, base - frames), differ + CLOCK_MS, frames, above=_own_ms(measured))
    return Twin(known, ways, _others(measured, base, rate), _marks(measured))


@dataclass(frozen=True)
class Grain:
    """How finely a load tells a rate and a depth.

    Attributes:
        rate: What of the packets may lie behind a hole at either end, of each flow one, by chance: the share of all.
        differ_ms: By how much idle round trips differ.
    """

    rate: float
    differ_ms: float

    def depth_bytes(self, rate_mbit: float) -> float:
        """A frame, and what passes in the time by which pings differ."""
        return FRAME + rate_mbit / 8e-3 * self.differ_ms


def _differ_ms(measured: Measurement, base: float) -> float:
    """What an idle ping takes longer than the least, the median."""
    idle = [rtt for rtt in measured.rtts(measured.spans("idle")) if rtt is not None]
    return median(idle) - base if idle else 0.0


def _own_ms(measured: Measurement) -> float:
    """What the two ends add to a round trip: a ping and its answer bear the time before the kernel has sent them."""
    own = measured.json.get("own_error") or {}
    near = own.get("leaving_ms") or 0.0
    return float(near + ((own.get("far") or {}).get("answering_ms") or near))


def _part(
    progress: Callable[[float, float], object] | None, done: int, of: int
) -> Callable[[float, float], object] | None:
    return None if progress is None else lambda now, end: progress(done * end + now, of * end)


def _overlap(a: tuple[float, float], b: tuple[float, float]) -> bool:
    shared = min(a[1], b[1]) - max(a[0], b[0])
    # A fifth of it is no accident.
    return shared > 0.2 * min(a[1] - a[0], b[1] - b[0])


def _plan(measured: Measurement, way: Direction, seen: Signs) -> Plan:
    """The load as it was, to be put on guesses."""
    flows = [f for f in measured.flows if f.direction == way and seen.span[0] <= f.from_s < seen.span[1]]
    told = Counter(f.cc for f in flows if f.cc)
    known = {kind["name"] for kind in json.loads(_core.list_json())["cc"]}
    cc = next((cc for cc, _ in told.most_common() if cc in known), "cubic")
    steps = [b - a for f in flows for a, b in _pairs(f.columns.get("t_s", [])) if b > a]
    sent = [t for train in measured.pings for t, _ in train.rtts() if seen.span[0] <= t < seen.span[1]]
    every_ms = 1000 * (seen.span[1] - seen.span[0]) / max(1, len(sent))
    return Plan(
        cc=cc,
        streams=max(1, len(flows)),
        idle_s=1.0,
        load_s=round(seen.span[1] - seen.span[0], 3),
        pause_s=0.5,
        ping_ms=float(f"{min(1000.0, max(1.0, every_ms)):.3g}"),
        sample_ms=float(f"{min(1000.0, max(10.0, 1000 * median(steps) if steps else 100.0)):.3g}"),
        ways=(way,),
    )


def _pairs(times: list[float | None]) -> list[tuple[float, float]]:
    known = [t for t in times if t is not None]
    return list(pairwise(known))


def _way(seen: Signs, found: list[Fitted], grain: Grain) -> Way:
    if not found:
        return _both_at_once(seen, why="the simulator could not play this load")
    best = found[0]
    family = FAMILIES[best.guess.kind]
    other = next((f.distance for f in found if FAMILIES[f.guess.kind] != family), POOR + CLEAR)
    sure = "sure" if other - best.distance > CLEAR and best.distance < POOR else "likely"
    sure = "cannot tell" if best.distance > POOR else sure
    guess, shown = best.guess, best.shown
    filled = guess.kind == "policer" or shown.rate_mbit > FILLED * guess.rate_mbit
    rate = _interval("rate_mbit", family, guess.rate_mbit, guess.rate_mbit, guess.rate_mbit * grain.rate)
    if not filled:
        rate = Known(guess.rate_mbit, seen.rate_mbit, None, "the link was never full: losses kept the flows slow")
    depth = Known(None, why="an AQM keeps the queue short of it" if guess.kind in AQM else "a policer has no buffer")
    if family == "drop-tail":
        depth = _depth(guess, grain)
        if not seen.again:
            depth = Known(guess.depth_bytes, guess.depth_bytes, None, "nothing was lost: it was never full")
            guess = replace(guess, depth_bytes=2 * guess.depth_bytes)
    burst = Known(None, why="no policer")
    if family == "policer":
        burst = _interval("burst_bytes", family, guess.burst_bytes, guess.burst_bytes, 0.0)
    varies = None
    if seen.spread is not None and shown.spread is not None:
        varies = seen.spread > 2 * shown.spread + VARIES
    if varies:
        # What was tried to calibrate the intervals did not vary.
        rate = Known(guess.rate_mbit, None, None, "the mean of a rate that varies")
        sure = "likely" if sure == "sure" else sure
    loss = Known(guess.loss, 0.0, seen.again, "" if seen.again is not None else "packets sent again are not known")
    alike = {f.guess.kind: f.distance for f in found}
    return Way(guess, family, sure, rate, varies, depth, burst, loss, filled, alike)


def _depth(guess: Guess, grain: Grain) -> Known:
    return _interval(
        "buffer_bytes", "drop-tail", guess.depth_bytes, guess.depth_bytes, grain.depth_bytes(guess.rate_mbit)
    )


def _with_chance(way: Way, found: Chance, grain: Grain) -> Way:
    """The way with the likeliest of its losses by chance, and all that are possible."""
    depth = way.depth
    if way.family == "drop-tail" and not depth.why:
        depth = _depth(found.guess, grain)
    guess = replace(way.guess, loss=found.guess.loss) if depth.why else found.guess
    return replace(way, guess=guess, depth=depth, loss=Known(guess.loss, found.low, found.high))


def _both_at_once(seen: Signs, why: str = "both ways were loaded at once, and pings crossed both queues") -> Way:
    guess = first(seen)
    rate = Known(guess.rate_mbit, seen.rate_mbit, seen.top_mbit, why)
    none = Known(None, why=why)
    return Way(guess, "drop-tail", "cannot tell", rate, None, none, none, none, filled=seen.busy_mbit is not None)


def _others(measured: Measurement, base: float, rate_mbit: float | None) -> bool | None:
    idle = [rtt for rtt in measured.rtts(measured.spans("idle")) if rtt is not None]
    if not idle:
        return None
    least = OTHERS_MS + (2 * FRAME * 8e-3 / rate_mbit if rate_mbit else 0.0)
    return sum(rtt - base > least for rtt in idle) > OTHERS * len(idle)


def _marks(measured: Measurement) -> Json:
    told = [flow.told["ecn"] for flow in measured.flows if isinstance(flow.told.get("ecn"), dict)]
    out: Json = {}
    for key in ("negotiated", "ce_rate", "dscp_survives"):
        values = [ecn[key] for ecn in told if ecn.get(key) is not None]
        out[key] = None if not values else max(values) if key == "ce_rate" else all(values)
    return out


@cache
def _calibration() -> Json:
    if not CALIBRATION.exists():
        return {}
    off: Json = json.loads(CALIBRATION.read_text(encoding="utf-8"))["off"]
    return off


def _interval(quantity: str, family: str, value: float, unit: float, grain: float, *, above: float = 0.0) -> Known:
    """The interval that held nine of ten truths of this family; none where no such paths were tried.

    Args:
        quantity: Which.
        family: Which.
        value: The likeliest.
        unit: What errors are measured in.
        grain: What limits the measurement; how many times that adds to the unit was calibrated, too.
        above: So much too large the instrument may show it.
    """
    off = _calibration().get(f"{quantity} {family}")
    if off is None:
        return Known(value, None, None, "no interval: not calibrated", unit, grain)
    scale = unit + off["grains"] * grain
    low, high = value + off["low"] * scale - above, value + off["high"] * scale
    return Known(value, max(0.0, low), high, "", unit, grain)


__all__ = ["Guess", "Known", "Twin", "Way", "bits", "infer", "longest", "signs"]
