"""Infers a path model from a measurement; the docstring of the package describes the method."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path as FilePath
from statistics import median

from narrows import registry
from narrows.errors import NarrowsError
from narrows.json_object import JsonObject
from narrows.measure.result import DIRECTIONS, Direction, Flow, Measurement
from narrows.measure.simulated import Plan
from narrows.path_model import both
from narrows.path_model.chance import Chance, losses
from narrows.path_model.doubt import PLAYS, REPLAYS, Doubt, doubt
from narrows.path_model.features import FRAME, PING_BYTES, Features, features_of, idle_ms
from narrows.path_model.fit import (
    AQM,
    CEILING,
    FAIR,
    FEW,
    FILLED,
    Budget,
    Fitted,
    Guess,
    Setting,
    first,
    fit,
    frames_ms,
    nearer,
    packets,
    search,
)
from narrows.path_model.known import Known
from narrows.path_model.model import DirectionModel, MarksJson, PathModel
from narrows.path_model.others import Others, idle_waits, in_idle_pings, of_direction
from narrows.runs.scenario import Hop

CALIBRATION = FilePath(__file__).parents[1] / "data" / "path_model.json"
"""Errors of the inference on random paths with known properties."""

SHARE = 0.9
"""Share of the true values that the intervals contain."""

CLEAR = 0.5
"""Another family of queue disciplines is excluded if its best hop is farther from the measurement
than the best hop by more than this."""

APART = 1.5
"""The limit instead of `CLEAR` if both directions were loaded at once. Each distance is then the
mean of both directions, and not every pair of hops is simulated."""

ALMOST, CLEARLY = 0.3, 0.75
"""Additional distances of a hop without random loss, in units of random differences. Up to the
first, this hop explains the measurement as well as a hop with random loss. Beyond the second, it
explains the measurement clearly worse."""

CLOSE, MORE = 2, 5
"""Maximum number of nearly equal candidates that are simulated with other seeds. Number of further
search rounds if the best candidate does not explain the measurement."""

FASTER, FOLLOWS = 1.2, 0.5
"""Test whether a link was full: its rate is multiplied by `FASTER`. The link was full if the
logarithm of the flows' rate rises by more than `FOLLOWS` times that of `FASTER`."""

CLOCK_MS = 1e-3
"""Resolution of RTTs, in ms."""

VARIES = 0.25
"""A rate varies if its spread over windows, divided by its median, exceeds twice that of
simulations by more than this.
"""

CHANGES = "delays and retransmissions do not show it because the rate varies"

BOTH = "both directions were loaded at once, so that pings crossed both queues"
OTHERS = "cross traffic may use a part of the link"

ACKS = "ACKs of cross traffic may have used a part of it"

SWINGS = "the rate of the load changed as if cross traffic came and went"
SHORT = "the load was too short to exclude varying cross traffic"
UNTOLD = "no simulated path explains this load; varying cross traffic may be the reason"

HIDDEN = {
    "drop-tail": "",
    "policer": "a policer has no buffer",
    "aqm": "an AQM keeps the queue shorter than the buffer",
    "fair": "fair queueing keeps the queue of a ping shorter than the buffer",
}
"""Reasons why a load does not show the buffer size."""

DRAINS = ("drop-tail", "aqm")
"""Families with one queue for all packets, so that pings show how this queue drains."""

FAMILIES = {"fifo": "drop-tail", "policer": "policer"} | {
    kind: "fair" if kind in FAIR else "aqm" for kind in AQM
}


def infer(
    measured: Measurement,
    *,
    seed: int = 1,
    chance: bool = False,
    lone: Measurement | None = None,
    progress: Callable[[float, float], object] | None = None,
) -> PathModel:
    """The model of the measured path.

    >>> from narrows.measure.simulated import measure
    >>> from narrows.runs.scenario import Path
    >>> path = Path(rate="20Mbit", rtt="40ms", buffer="100kB")
    >>> model = infer(measure(path, Plan(streams=4, load_s=5.0, directions=("down",))))
    >>> down = model.directions["down"]
    >>> down.family, round(down.rate.value), round(model.rtt.value)
    ('drop-tail', 20, 40)

    Args:
        measured: A measurement with pings in an idle phase and under TCP load. Separate loads of
            each direction show more than one load of both directions.
        seed: Seed of the simulations.
        chance: Whether to estimate random loss, which doubles the time. Otherwise its upper limit
            is the retransmission rate.
        lone: Another measurement of the path with one flow. If given, random loss is estimated from
            both measurements.
        progress: Called periodically with the finished and the total work; its exceptions stop the
            inference.

    Raises:
        NarrowsError: If the measurement has no pings or no TCP load with enough pings during it.
    """
    base = idle_ms(measured)
    seen = {
        direction: s
        for direction in DIRECTIONS[::-1]
        if (s := features_of(measured, direction)) is not None
    }
    if base is None or not seen:
        raise NarrowsError(
            "a path model needs pings during TCP flows that fill the path, and this measurement "
            "lacks one of them\n"
            "    write: narrows measure HOST"
        )
    rtt = max(0.0, base - frames_ms(*(s.busy_mbit or s.rate_mbit for s in seen.values())))
    waits = idle_waits(measured, base)
    differ = median(waits) if waits else 0.0
    in_idle = in_idle_pings(waits, min(s.rate_mbit for s in seen.values()))
    directions: dict[Direction, DirectionModel] = {}
    shared = False
    at_once = len(seen) > 1 and _overlap(*(s.span for s in seen.values()))
    if at_once:
        directions = _both(measured, seen, rtt, seed=seed, progress=progress)
    for done, (direction, sign) in enumerate(() if at_once else seen.items()):
        grain = Grain(
            math.sqrt(max(1, len(_flows(measured, direction, sign)))) / max(1.0, sign.packets),
            differ,
        )
        other = seen.get("up" if direction == "down" else "down")
        hop = Hop(**first(other).keys()) if other else None
        setting = Setting(
            direction, _plan(measured, direction, sign), rtt, hop, seed, Budget(CEILING / len(seen))
        )
        found = search(sign, setting, progress=_part(progress, done, len(seen)))
        directions[direction] = model = _direction(sign, found, grain, setting)
        could = (
            (chance or lone)
            and model.sure != "cannot tell"
            and model.family != "policer"
            and not model.varies
        )
        if could and sign.again is not None:
            alone = None if lone is None else features_of(lone, direction)
            again = replace(setting, budget=Budget(CEILING / len(seen)))
            also = []
            if lone is not None and alone is not None:
                also = [(alone, replace(again, plan=_plan(lone, direction, alone)))]
            directions[direction] = _with_chance(
                model, losses([(sign, again), *also], model.guess), grain, again
            )
    for direction, model in directions.items():
        drains = not at_once and model.family in DRAINS
        there = of_direction(
            measured, direction, seen[direction], drains=drains, unsteady=model.unsteady
        )
        shared = shared or bool(there.seen)
        directions[direction] = _beside(
            model,
            Others(seen=True, why="idle pings waited longer than for a frame or two")
            if in_idle
            else there,
        )
    if shared:
        # The ACKs of cross traffic cross the link of the other direction.
        directions = {
            w: _beside(m, Others(None, ACKS)) if m.others.seen is False else m
            for w, m in directions.items()
        }
    frames = frames_ms(*(model.guess.wire_mbit for model in directions.values()))
    known = _interval(
        "rtt_ms", "any", max(0.0, base - frames), differ + CLOCK_MS, frames, above=_own_ms(measured)
    )
    known = _with_frames(known, list(directions.values()))
    if in_idle:
        known = replace(known, low=0.0, why="cross traffic delayed idle pings, perhaps all of them")
    return PathModel(
        known,
        directions,
        _any(model.others.seen for model in directions.values()),
        _marks(measured),
    )


def _with_frames(rtt: Known, directions: list[DirectionModel]) -> Known:
    """The base RTT with a wider interval. It allows for the serialization delay of a ping's frame
    at every rate in the interval of a link's rate.
    """
    if rtt.low is None or rtt.high is None:
        return rtt
    low, high = rtt.low, rtt.high
    for model in directions:
        if model.guess.kind != "policer":
            assumed = frames_ms(model.guess.wire_mbit)
            low -= max(0.0, frames_ms(model.rate.low) - assumed)
            high += max(0.0, assumed - frames_ms(model.rate.high))
    return replace(rtt, low=max(0.0, low), high=high)


def _any(seen: Iterable[bool | None]) -> bool | None:
    """True if any value is true; otherwise None if any value is unknown, else False."""
    known = list(seen)
    return True if any(known) else None if None in known else False


def _flows(measured: Measurement, direction: Direction, seen: Features) -> list[Flow]:
    return [
        f
        for f in measured.flows
        if f.direction == direction and seen.span[0] <= f.from_s < seen.span[1]
    ]


@dataclass(frozen=True)
class Grain:
    """The resolution of rate and buffer size in a load.

    Attributes:
        rate: Relative error of the rate, because packets behind a lost packet at the start or the
            end of the load may count or not. It is the square root of the number of flows, divided
            by the number of packets.
        differ_ms: Spread of the idle RTTs, in ms.
    """

    rate: float
    differ_ms: float

    def depth_bytes(self, rate_mbit: float) -> float:
        """A frame plus the data that passes during the spread of the idle RTTs, in bytes."""
        return FRAME + rate_mbit / 8e-3 * self.differ_ms


def _own_ms(measured: Measurement) -> float:
    """Delay that both hosts add to a measured RTT, in ms: a program takes its timestamp before the
    kernel sends the packet.
    """
    own = measured.json.get("own_error") or {}
    near = own.get("leaving_ms") or 0.0
    return float(near + ((own.get("far") or {}).get("answering_ms") or near))


def _part(
    progress: Callable[[float, float], object] | None, done: int, of: int
) -> Callable[[float, float], object] | None:
    return None if progress is None else lambda now, end: progress(done * end + now, of * end)


def _overlap(a: tuple[float, float], b: tuple[float, float]) -> bool:
    shared = min(a[1], b[1]) - max(a[0], b[0])
    # An overlap of more than a fifth of the shorter load is no accident.
    return shared > 0.2 * min(a[1] - a[0], b[1] - b[0])


def _plan(measured: Measurement, direction: Direction, seen: Features) -> Plan:
    """The measured load as a plan, with which guesses are simulated."""
    flows = _flows(measured, direction, seen)
    told = Counter(f.cc for f in flows if f.cc)
    known = registry.names("cc")
    cc = next((cc for cc, _ in told.most_common() if cc in known), "cubic")
    steps = [b - a for f in flows for a, b in _pairs(f.columns.get("t_s", [])) if b > a]
    sent = [
        t for train in measured.pings for t, _ in train.rtts() if seen.span[0] <= t < seen.span[1]
    ]
    every_ms = 1000 * (seen.span[1] - seen.span[0]) / max(1, len(sent))
    return Plan(
        cc=cc,
        streams=max(1, len(flows)),
        idle_s=1.0,
        load_s=round(seen.span[1] - seen.span[0], 3),
        pause_s=0.5,
        ping_ms=float(f"{min(1000.0, max(1.0, every_ms)):.3g}"),
        at_random=any(train.at_random for train in measured.pings),
        sample_ms=float(f"{min(1000.0, max(10.0, 1000 * median(steps) if steps else 100.0)):.3g}"),
        directions=(direction,),
    )


def _pairs(times: list[float | None]) -> list[tuple[float, float]]:
    known = [t for t in times if t is not None]
    return list(pairwise(known))


def _judged(seen: Features, found: list[Fitted], setting: Setting) -> list[tuple[Fitted, Doubt]]:
    """The best few candidates, each simulated with other seeds, because one simulation alone may
    resemble the measurement by chance.
    """
    judged = _simulated(seen, found, setting)
    if judged and judged[0][1].misfit:
        # The parameters may not have been adjusted enough.
        moved = fit(seen, setting, nearer(judged[0][0], seen), rounds=MORE, best=judged[0][0])
        if moved is not None and moved is not judged[0][0]:
            judged = sorted(
                [*judged, *_simulated(seen, [moved], setting)], key=lambda pair: pair[1].apart
            )
    return judged


def _simulated(seen: Features, found: list[Fitted], setting: Setting) -> list[tuple[Fitted, Doubt]]:
    close = [f for f in found if f.distance <= found[0].distance + CLEAR][:CLOSE] if found else []
    plain = next((f for f in found if not f.guess.loss), None)
    out = []
    for one in [*close, *([plain] if plain is not None and plain not in close else [])]:
        plays = [setting.play(one.guess, seed=setting.seed + 101 + n) for n in range(PLAYS)]
        of = doubt(seen, [shown for shown in plays if shown is not None], one.guess)
        out += [(one, of)] if of is not None else []
    return sorted(out, key=lambda pair: pair[1].apart)


def _precise(seen: Features, guess: Guess, sure_of: Doubt, setting: Setting) -> Doubt:
    """The comparison with `REPLAYS` simulations of the chosen guess, or the previous comparison if
    the budget does not suffice.
    """
    if not setting.budget.leaves(REPLAYS * packets(guess, setting.plan.load_s)):
        return sure_of
    plays = [setting.play(guess, seed=setting.seed + 201 + n) for n in range(REPLAYS)]
    return doubt(seen, [shown for shown in plays if shown is not None], guess) or sure_of


def _direction(
    seen: Features, found: list[Fitted], grain: Grain, setting: Setting
) -> DirectionModel:
    """The model of a direction that was loaded alone."""
    judged = _judged(seen, found, setting)
    loss, chosen = _loss(seen, judged)
    alike: dict[str, float] = {}
    for one in found:
        alike.setdefault(one.guess.kind, one.distance)
    if chosen is None:
        why = "the simulator could not simulate this load"
        return _untold(
            seen, grain, _ceiling(setting.budget) if setting.budget.reached else why, alike
        )
    best, sure_of = chosen
    guess = best.guess
    varies = _varies(seen.spread, best.shown.spread)
    if sure_of.misfit and not varies:
        return _untold(
            seen, grain, _ceiling(setting.budget) if setting.budget.reached else sure_of.why, alike
        )
    alike_as = sure_of.unlike + CLEARLY
    sure_of = _precise(seen, guess, sure_of, setting)
    family = FAMILIES[guess.kind]
    other = min((f.distance for f in found if FAMILIES[f.guess.kind] != family), default=math.inf)
    sure, why = (
        ("sure", "")
        if other - best.distance > CLEAR
        else ("likely", "another queue discipline would show nearly the same")
    )
    if setting.budget.reached:
        sure, why = "likely", _ceiling(setting.budget)
    # If the queue discipline is not certain, it may be one that was not tried and that drops
    # packets at random. Then losses do not prove random loss.
    alone = any(not of.guess.loss and not doubted.misfit for of, doubted in judged)
    if loss.value and alone and sure == "likely":
        loss, guess = Known(None, 0.0, loss.high, why), replace(guess, loss=0.0)
    filled = guess.kind == "policer" or best.shown.rate_mbit > FILLED * guess.rate_mbit
    if filled and seen.busy_mbit is None and guess.kind != "policer":
        filled = _fills(seen, guess, sure_of, setting)
    rate = _rate(guess, sure_of, family, grain)
    for one, of in judged:
        # Random loss may have kept the flows below the rate of the link, for example.
        if one is not best and not of.misfit and of.unlike <= alike_as:
            rate = _hull(rate, _rate(one.guess, of, FAMILIES[one.guess.kind], grain))
    # The measurement shows the delay of a full buffer, so that the inferred buffer size is
    # proportional to the rate.
    right = (rate.value or guess.rate_mbit) / guess.rate_mbit
    guess = replace(guess, rate_mbit=right * guess.rate_mbit, depth_bytes=right * guess.depth_bytes)
    if not filled:
        rate = Known(
            guess.rate_mbit,
            _least(seen, grain),
            None,
            "the link was never full: losses kept the flows slow",
        )
    depth = Known(None, why=HIDDEN[family])
    if family == "drop-tail":
        depth = _depth(guess, grain, setting.plan.ping_ms)
        if not seen.again:
            depth = Known(
                guess.depth_bytes, guess.depth_bytes, None, "nothing was lost: it was never full"
            )
            guess = replace(guess, depth_bytes=2 * guess.depth_bytes)
    burst = Known(None, why="no policer")
    if family == "policer":
        burst = _interval("burst_bytes", family, guess.burst_bytes, guess.burst_bytes, 0.0)
    unsteady = SWINGS if varies else _unsteady(seen, sure_of)
    direction = DirectionModel(
        guess,
        family,
        sure,
        rate,
        varies,
        depth,
        burst,
        loss,
        filled,
        alike,
        why=why,
        unsteady=unsteady,
    )
    return _varying(direction) if varies else direction


def _varies(seen: float | None, shown: float | None) -> bool | None:
    """Whether the rates of windows differ by more than random differences explain; None if there
    are too few windows.
    """
    return None if seen is None or shown is None else seen > 2 * shown + VARIES


def _unsteady(seen: Features, sure_of: Doubt) -> str:
    """The reason why a load does not exclude cross traffic that starts and stops; empty if the load
    excludes it.
    """
    return {True: SWINGS, None: SHORT, False: ""}[_varies(seen.swing, sure_of.swing)]


def _varying(model: DirectionModel) -> DirectionModel:
    """The model of a direction whose rate varies: a mean rate without an interval, and neither
    buffer size nor random loss.

    The calibration of the intervals used paths with constant rates only.
    """
    rate = Known(model.guess.rate_mbit, None, None, "the mean of a rate that varies")
    depth = Known(None, why=CHANGES) if model.family == "drop-tail" else model.depth
    out = replace(model, rate=rate, depth=depth, sure="likely")
    if not model.loss.value:
        return out
    return replace(
        out,
        loss=replace(model.loss, value=None, why=CHANGES),
        guess=replace(model.guess, loss=0.0),
    )


def _fills(seen: Features, guess: Guess, sure_of: Doubt, setting: Setting) -> bool:
    """Whether the flows would have a higher rate on a faster link. If not, the link was rarely
    full, and only a lower limit of its rate is known.
    """
    shown = setting.play(replace(guess, rate_mbit=FASTER * guess.rate_mbit))
    now = seen.rate_mbit / sure_of.ratio
    return shown is not None and math.log(shown.rate_mbit / now) > FOLLOWS * math.log(FASTER)


def _loss(
    seen: Features, judged: list[tuple[Fitted, Doubt]]
) -> tuple[Known, tuple[Fitted, Doubt] | None]:
    """Random loss and the best candidate. A candidate without random loss is preferred if it
    explains the measurement about as well.
    """
    if not judged:
        return Known(None, 0.0, None, "the simulator could not simulate this load"), None
    if seen.again is None:
        return Known(None, 0.0, None, "the number of retransmits is unknown"), judged[0]
    most = _most_lost(seen)
    plain = next((one for one in judged if not one[0].guess.loss), None)
    lossy = next((one for one in judged if one[0].guess.loss), None)
    if plain is not None and (lossy is None or plain[1].unlike <= lossy[1].unlike + ALMOST):
        return Known(0.0, 0.0, most), plain
    assert lossy is not None
    if plain is not None and not plain[1].misfit and plain[1].unlike <= lossy[1].unlike + CLEARLY:
        return Known(None, 0.0, most, "a queue alone would show nearly the same"), plain
    return Known(lossy[0].guess.loss, 0.0, most), lossy


def _most_lost(seen: Features) -> float | None:
    """Upper limit of random loss, as share of packets: all retransmits plus two standard
    deviations, divided by the delivered packets.
    """
    if seen.again is None:
        return None
    again = seen.again * seen.packets
    return min(1.0, (again + 2 * math.sqrt(again + 1) + 1) / seen.packets)


def _rate(guess: Guess, sure_of: Doubt, family: str, grain: Grain) -> Known:
    """The rate of the hop at which its simulations would have the measured rate.

    There are two such rates: of all data in the steady state, and of the data while the queue was
    never empty. The first depends on holes: data behind a lost packet at the start or the end of
    the steady state are counted late. A full buffer holds a large part of the data of a load. If
    there are few flows, their holes are the same in all simulations of a hop, so that the
    simulations do not show this error. The second rate is a median, which holes do not change. For
    drop-tail, the second rate is the value, and the interval contains the intervals of both rates.
    For other families, only the first rate is used: an AQM keeps holes small, and its queue is
    often empty.
    """

    def known(ratio: float, error: float) -> Known:
        rate = guess.rate_mbit * ratio
        return _interval("rate_mbit", family, rate, rate, rate * math.hypot(error, grain.rate))

    whole = known(sure_of.ratio, sure_of.error)
    if family != "drop-tail" or sure_of.busy is None:
        return whole
    return _hull(known(*sure_of.busy), whole)


def _hull(known: Known, other: Known) -> Known:
    """The interval that contains both intervals, with the value of the first."""
    if None in (known.low, known.high, other.low, other.high):
        return known
    low, high = (
        extreme(end for end in ends if end is not None)
        for extreme, ends in ((min, (known.low, other.low)), (max, (known.high, other.high)))
    )
    return replace(known, low=low, high=high)


def _depth(guess: Guess, grain: Grain, ping_ms: float) -> Known:
    """The size of a drop-tail buffer.

    The inferred size is that of the bytes in the full buffer, which determine the measured delay.
    If the limit is in packets (Linux `pfifo`), some packets of the full buffer were pings. Its size
    in full frames then exceeds the bytes that it held. The measurement does not show the unit of
    the limit, so that the interval contains both sizes.
    """
    known = _interval(
        "buffer_bytes",
        "drop-tail",
        guess.depth_bytes,
        guess.depth_bytes,
        grain.depth_bytes(guess.rate_mbit),
    )
    pings = guess.depth_bytes * 8e-3 / guess.rate_mbit / ping_ms
    high = None if known.high is None else known.high + pings * (FRAME - PING_BYTES)
    return replace(known, high=high)


def _least(seen: Features, grain: Grain) -> float:
    """The lower limit of the link's rate if only the rate of the flows is known, in Mbit/s."""
    least = seen.rate_mbit if seen.least_mbit is None else min(seen.rate_mbit, seen.least_mbit)
    return least * (1 - 2 * grain.rate)


def _ceiling(budget: Budget) -> str:
    """The sentence that reports that a search reached its budget. If two directions are searched
    separately, each has half of `CEILING`.
    """
    most = budget.most
    unit, name = (1e6, "million") if most >= 1e6 else (1e3, "thousand")  # noqa: PLR2004
    return f"the search reached its ceiling of {most / unit:.3g} {name} simulated packets"


def _untold(seen: Features, grain: Grain, why: str, alike: dict[str, float]) -> DirectionModel:
    """The model of a direction of which only lower limits of the rate and upper limits of random
    loss are known.
    """
    none = Known(None, why=why)
    rate = Known(None, _least(seen, grain), None, why)
    loss = Known(None, 0.0, _most_lost(seen), why)
    full = seen.busy_mbit is not None
    guess = first(seen)
    return DirectionModel(
        guess,
        "drop-tail",
        "cannot tell",
        rate,
        None,
        none,
        none,
        loss,
        full,
        alike,
        why=why,
        unsteady=UNTOLD,
    )


def _with_chance(
    model: DirectionModel, found: Chance, grain: Grain, setting: Setting
) -> DirectionModel:
    """The model of the direction with the estimated random loss and its interval."""
    if setting.budget.reached:
        return replace(model, loss=Known(None, 0.0, model.loss.high, _ceiling(setting.budget)))
    depth = model.depth
    if model.family == "drop-tail" and not depth.why:
        depth = _depth(found.guess, grain, setting.plan.ping_ms)
    if found.without:
        guess = replace(found.guess if not depth.why else model.guess, loss=0.0)
        return replace(model, guess=guess, depth=depth, loss=Known(0.0, 0.0, found.high))
    guess = replace(model.guess, loss=found.guess.loss) if depth.why else found.guess
    known = Known(guess.loss, found.low, found.high)
    if found.low <= 0:
        known = Known(None, 0.0, found.high, "a queue alone would show nearly the same")
        guess = replace(guess, loss=0.0)
    return replace(model, guess=guess, depth=depth, loss=known)


def _beside(model: DirectionModel, others: Others) -> DirectionModel:
    """The model of the direction with the result for cross traffic. Unless cross traffic is
    excluded, the inferred rate may be only the rest of the link, so that it is a lower limit.
    """
    model = replace(model, others=others, left=model.rate)
    if others.seen is False:
        return model
    why = OTHERS if others.seen is None else "cross traffic uses a part of the link"
    out = replace(model, rate=replace(model.rate, high=None, why=model.rate.why or why))
    if model.family == "drop-tail" and model.depth.value is not None:
        # The idle RTT, which is the base of all delays, may contain cross traffic.
        known = (
            Known(None, why=why)
            if others.seen
            else replace(model.depth, high=None, why=model.depth.why or why)
        )
        out = replace(out, depth=known)
    if model.loss.value:
        # The simulations have no cross traffic, which may cause the same losses, or slow the flows
        # as much. If flows did not fill the link, random loss or cross traffic was the cause.
        cause = "caused losses" if model.filled else "slowed the flows"
        loss = replace(model.loss, value=None, low=0.0, why=f"cross traffic may have {cause}")
        guess = replace(model.guess, loss=0.0) if model.filled else model.guess
        out = replace(out, loss=loss, guess=guess)
    elif others.seen and model.loss.value is not None:
        out = replace(out, loss=replace(model.loss, value=None, why=why))
    if others.seen is None and model.sure == "likely":
        # No simulation has cross traffic. Cross traffic changes the statistics by more than another
        # queue discipline does. Hops with many parameters, such as a policer with its burst and its
        # link, imitate cross traffic best.
        rival = f"{model.why}, and {why}" if model.why else why
        depth = out.depth if out.depth.value is None else Known(None, why=rival)
        out = replace(out, sure="cannot tell", why=rival, depth=depth)
    if others.seen:
        # It is also unknown whether the load or cross traffic filled the queue that delayed the
        # pings.
        guess = replace(model.guess, loss=0.0)
        out = replace(out, sure="cannot tell", why=why, varies=None, guess=guess)
    return out


def _both(
    measured: Measurement,
    seen: dict[Direction, Features],
    rtt_ms: float,
    *,
    seed: int,
    progress: Callable[[float, float], object] | None,
) -> dict[Direction, DirectionModel]:
    """The models of both directions of a measurement that loaded them at once."""
    flows = {direction: _flows(measured, direction, sign) for direction, sign in seen.items()}
    grains = {
        direction: Grain(math.sqrt(max(1, len(flows[direction]))) / max(1.0, s.packets), 0.0)
        for direction, s in seen.items()
    }
    plan = replace(_plan(measured, "down", seen["down"]), directions=DIRECTIONS[::-1], at_once=True)
    together = both.Together(seen, plan, rtt_ms, seed)
    found = both.search(together, progress=progress)
    if found is None:
        unplayed = f"the simulator could not simulate this load: {BOTH}"
        why = _ceiling(together.budget) if together.budget.reached else unplayed
        return {
            direction: _untold(sign, grains[direction], why, {}) for direction, sign in seen.items()
        }
    wrong = next((d.why for d in found.doubts.values() if d.misfit), None)
    if wrong or together.budget.reached:
        why = wrong or _ceiling(together.budget)
        return {
            direction: _untold(sign, grains[direction], why, found.alike[direction])
            for direction, sign in seen.items()
        }
    none = Known(None, why=BOTH)
    out: dict[Direction, DirectionModel] = {}
    for direction, sign in seen.items():
        guess, family = found.best.guesses[direction], FAMILIES[found.best.guesses[direction].kind]
        known = _rate_of_both(guess, found.doubts[direction], grains[direction])
        rate = known.value or guess.rate_mbit
        for pair, of in found.likely:
            other = _rate_of_both(pair.guesses[direction], of[direction], grains[direction])
            known = _hull(known, other)
        if not found.full[direction]:
            least = _least(sign, grains[direction])
            known = Known(None, least, None, f"a faster link would show nearly the same: {BOTH}")
        unlike = min(
            (d for kind, d in found.alike[direction].items() if FAMILIES[kind] != family),
            default=math.inf,
        )
        same = all(FAMILIES[pair.guesses[direction].kind] == family for pair, _ in found.likely)
        sure = "likely" if same and unlike - found.best.distance > APART else "cannot tell"
        guess = replace(guess, rate_mbit=rate, loss=0.0)
        loss = Known(None, 0.0, _most_lost(sign), BOTH)
        if sign.again is not None and sign.again * sign.packets < FEW:
            loss = Known(0.0, 0.0, _most_lost(sign))
        full, alike, unsteady = (
            found.full[direction],
            found.alike[direction],
            _unsteady(sign, found.doubts[direction]),
        )
        out[direction] = DirectionModel(
            guess,
            family,
            sure,
            known,
            None,
            none,
            none,
            loss,
            full,
            alike,
            why=BOTH,
            unsteady=unsteady,
        )
    return out


def _rate_of_both(guess: Guess, sure_of: Doubt, grain: Grain) -> Known:
    """The rate of a link that was loaded together with the other direction.

    Pings cross both queues and do not show when one of the queues was never empty.
    """
    rate = guess.rate_mbit * sure_of.ratio
    return _interval("rate_mbit", "both", rate, rate, rate * math.hypot(sure_of.error, grain.rate))


def _marks(measured: Measurement) -> MarksJson:
    told = [flow.told["ecn"] for flow in measured.flows if isinstance(flow.told.get("ecn"), dict)]

    def values(key: str) -> list[float]:
        return [ecn[key] for ecn in told if ecn.get(key) is not None]

    negotiated, survives = values("negotiated"), values("dscp_survives")
    return {
        "negotiated": all(negotiated) if negotiated else None,
        "ce_rate": max(values("ce_rate"), default=None),
        "dscp_survives": all(survives) if survives else None,
    }


@cache
def _calibration() -> JsonObject:
    if not CALIBRATION.exists():
        return {}
    off: JsonObject = json.loads(CALIBRATION.read_text(encoding="utf-8"))["off"]
    return off


def _interval(
    quantity: str, family: str, value: float, unit: float, grain: float, *, above: float = 0.0
) -> Known:
    """The value with an interval that contains at least 90 % of the true values of this family,
    with a confidence of 90 %. Without a calibration, both ends are open.

    Args:
        quantity: The quantity.
        family: The family of queue disciplines.
        value: The most likely value.
        unit: Scale to which the calibrated errors are proportional.
        grain: Resolution of the measurement, which is added to the scale with a calibrated weight.
        above: Maximum amount by which the measurement overestimates the value.
    """
    off = _calibration().get(f"{quantity} {family}")
    if off is None:
        return Known(value, None, None, "no interval: not calibrated", unit, grain)
    scale = unit + off["grains"] * grain
    low, high = value + off["low"] * scale - above, value + off["high"] * scale
    return Known(value, max(0.0, low), high, "", unit, grain)
