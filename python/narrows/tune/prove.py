"""Does a change do on this path what is said of it? Measured without and with it in turn: A B A B A B.

In turn, because paths change over the day: two measurements an hour apart differ by themselves. And in the direction in
which this host *sends*, because that is what its congestion control and its queues act on. Who changes the receiver
and then measures a download has measured the weather; such a question is answered by "cannot have this effect".
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from narrows.compare import measurements
from narrows.compare.measurements import Difference
from narrows.errors import NarrowsError
from narrows.measure.result import Direction, Measurement
from narrows.render.words import listed
from narrows.tune.apply import Interrupted, Json, Place, have, live_only

if TYPE_CHECKING:
    from narrows.advise.forecasts import Scored

ROUNDS = 3
"""Each is one measurement without and one with the change; three are the fewest that tell loads apart."""

SENDS = frozenset({
    "net.core.default_qdisc", "net.core.wmem_max", "net.ipv4.tcp_congestion_control", "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_notsent_lowat", "net.ipv4.tcp_limit_output_bytes", "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_no_metrics_save", "net.ipv4.tcp_mtu_probing", "net.ipv4.tcp_base_mss",
})  # fmt: skip
"""Settings that act on what this host sends."""

RECEIVES = frozenset({
    "net.core.rmem_max", "net.core.netdev_max_backlog", "net.ipv4.tcp_rmem", "net.ipv4.tcp_moderate_rcvbuf",
})  # fmt: skip
"""Settings that act on what it receives."""

AGREED = frozenset({
    "net.ipv4.tcp_ecn", "net.ipv4.tcp_ecn_fallback", "net.ipv4.tcp_window_scaling", "net.ipv4.tcp_sack",
    "net.ipv4.tcp_timestamps",
})  # fmt: skip
"""Settings that both ends agree on when a connection begins: they act both ways."""

_WAYS: dict[Direction, str] = {"up": "what this host sends", "down": "what this host receives"}
_SECONDS_OF_A_WATCH = 86_400

Measure = Callable[[Direction], Measurement]
"""Measures the path once, loaded in a direction."""


class Unfinished(Exception):  # noqa: N818 - an event, as KeyboardInterrupt is
    """A signal or an error ended it before the last round; the change is off again.

    Attributes:
        proof: What the complete rounds show; None where there is none.
    """

    def __init__(self, proof: Proof | None) -> None:
        """With the complete rounds; what ended it is the cause."""
        super().__init__()
        self.proof = proof


@dataclass(frozen=True)
class Proof:
    """What came of it.

    Attributes:
        direction: In which it was measured.
        found: Each figure, without and with the change.
        without: The measurements without it, in their order.
        with_it: Those with it.
    """

    direction: Direction
    found: list[Difference]
    without: list[Measurement]
    with_it: list[Measurement]

    @property
    def verdict(self) -> str:
        """`better`, `worse`, `better and worse`, `no difference seen` or `cannot tell`."""
        seen = {d.verdict for d in self.found}
        if {"better", "worse"} <= seen:
            return "better and worse"
        for word in ("better", "worse", "cannot tell"):
            if word in seen:
                return word
        return "no difference seen"

    def json(self) -> Json:
        """For programs."""
        return {
            "direction": self.direction,
            "verdict": self.verdict,
            "rounds": len(self.without),
            "figures": {d.figure.key: d.json() for d in self.found},
        }


def acts_on(plan: Json) -> set[Direction]:
    """The directions in which a plan can have an effect, `up` being what this host sends.

    >>> acts_on({"changes": [{"kind": "sysctl", "target": "net.ipv4.tcp_congestion_control"}]})
    {'up'}
    >>> acts_on({"changes": [{"kind": "sysctl", "target": "net.ipv4.tcp_rmem"}]})
    {'down'}
    """
    ways: set[Direction] = set()
    for change in plan["changes"]:
        key = change["target"]
        if change["kind"] in {"qdisc", "route"} or (change["kind"] == "sysctl" and key in SENDS):
            ways.add("up")
        elif change["kind"] == "ingress" or (change["kind"] == "sysctl" and key in RECEIVES):
            ways.add("down")
        elif change["kind"] == "sysctl" and key in AGREED:
            ways |= {"up", "down"}
    return ways


def direction(plan: Json, asked: str | None) -> Direction:
    """In which direction it is to be measured.

    Raises:
        NarrowsError: If the plan cannot have an effect there, or nowhere.
    """
    ways = acts_on(plan)
    if not ways:
        raise NarrowsError("nothing in this plan acts on connections by itself, so there is nothing to measure")
    if asked is None:
        return "up" if "up" in ways else "down"
    way = cast("Direction", asked)
    if way in ways:
        return way
    other: Direction = "down" if way == "up" else "up"
    names = listed([str(c["target"]) for c in plan["changes"] if c["kind"] in {"sysctl", "qdisc", "ingress", "route"}])
    who = "the far end sends, and its congestion control and queues decide" if way == "down" else "this host sends"
    raise NarrowsError(
        f"cannot have this effect: {names} acts on {_WAYS[other]}, and in the direction `{way}` {who}.\n"
        f"    measure where it acts: --direction {other}"
        + ("; or apply the plan at the far end and measure from there" if way == "down" else "")
    )


@contextlib.contextmanager
def changed(plan: Json, place: Place, *, replace: bool) -> Iterator[None]:
    """The change is on, for the next boot nothing is written, and whatever happens it is off again."""
    within = ["--confirm-within", f"{_SECONDS_OF_A_WATCH}s"]
    # Its own process watches: it undoes the change when it is told to end, as it is with a session or the machine.
    stopped: Interrupted | None = None
    try:
        done, _ = have(["apply", *within, *(["--replace"] if replace else [])], place, plan=live_only(plan))
    except Interrupted as stop:
        done, stopped = stop.done, stop
    if done.get("nothing_to_do"):
        # Undoing the last plan would undo another.
        raise NarrowsError("nothing to prove: it is so already; narrows tune revert, or a plan for something else")
    try:
        if stopped is not None:
            raise stopped
        yield
    finally:
        have(["revert", "--last"], place)


def prove(
    plan: Json,
    place: Place,
    measure: Measure,
    *,
    way: Direction,
    rounds: int = ROUNDS,
    replace: bool = False,
    progress: Callable[[float, float], object] | None = None,
) -> Proof:
    """Measures without and with it in turn; afterwards it is off.

    Raises:
        Unfinished: If a signal stopped it, or if it cannot be measured or applied, with the rounds that were complete.
    """
    without: list[Measurement] = []
    with_it: list[Measurement] = []
    try:
        for at in range(rounds):
            if progress is not None:
                progress(2 * at, 2 * rounds)
            without.append(measure(way))
            if progress is not None:
                progress(2 * at + 1, 2 * rounds)
            with changed(plan, place, replace=replace):
                with_it.append(measure(way))
    except (KeyboardInterrupt, NarrowsError) as stop:
        # A measurement without its counterpart is of no use.
        del without[len(with_it) :]
        raise Unfinished(Proof(way, compared(without, with_it, way), without, with_it) if with_it else None) from stop
    return Proof(way, compared(without, with_it, way), without, with_it)


def compared(without: Sequence[Measurement], with_it: Sequence[Measurement], way: Direction) -> list[Difference]:
    """The figures of that direction, and the idle round trip."""
    from narrows.measure.run import joined  # noqa: PLC0415 - which brings the live engine

    test = f"tcp_n{way}"
    other = "down" if way == "up" else "up"
    found = measurements.differences(joined(without, test), joined(with_it, test))
    return [d for d in found if other not in d.figure.key.split("_")]


def scored(proof: Proof, plan: Json) -> list[Scored]:
    """What became of the open sealed forecasts, by the measurements with the change.

    Raises:
        NarrowsError: If the forecasts cannot be read, or a score cannot be written.
    """
    from narrows.advise import forecasts  # noqa: PLC0415 - which brings what advises
    from narrows.measure.run import joined  # noqa: PLC0415

    queues = [c["to"] for c in plan["changes"] if c["target"] == "net.core.default_qdisc"]
    return forecasts.score_open(joined(proof.with_it, f"tcp_n{proof.direction}"), queue=queues[-1] if queues else None)


def proof_lines(proof: Proof) -> list[str]:
    """The verdict first, then each figure."""
    words = {
        "better": "It is better with the change.",
        "worse": "It is worse with the change.",
        "better and worse": "Some of it is better with the change, and some worse.",
        "no difference seen": "No difference seen: not the same as that there is none.",
        "cannot tell": "Too few values to tell.",
    }
    way = "up" if proof.direction == "up" else "down"
    head = f"Measured {way}, {_WAYS[proof.direction]}: without and with it in turn, {len(proof.without)} times each."
    # One sentence each, but for what was too short.
    return [
        words[proof.verdict],
        head,
        *measurements.sentences(proof.found, "without", "with"),
        measurements.caution([*proof.without, *proof.with_it])
        if len(proof.without) < ROUNDS
        else "Intervals are of 99 %.",
    ]
