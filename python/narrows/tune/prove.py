"""Does a change do on this path what is said of it? Measured without and with it in turn: A B A B A
B.

In turn, because paths change over the day: two measurements an hour apart differ by themselves. And
in the direction in which this host *sends*, because that is what its congestion control and its
queues act on. Who changes the receiver and then measures a download has measured the weather; such
a question is answered by "cannot have this effect".
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from narrows.advise import forecasts
from narrows.compare import measurements
from narrows.compare.measurements import Difference
from narrows.deferred import deferred
from narrows.errors import NarrowsError
from narrows.measure.result import Direction, Measurement
from narrows.measure.run import joined
from narrows.render.words import listed
from narrows.tune.apply import Json, Place, have, live_only

if TYPE_CHECKING:
    from narrows.advise.forecasts import Scored

ROUNDS = 3
"""Each is one measurement without and one with the change; three are the fewest that tell loads
apart.
"""

SENDS = frozenset({
    "net.core.default_qdisc", "net.core.wmem_max", "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_notsent_lowat", "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_no_metrics_save", "net.ipv4.tcp_mtu_probing", "net.ipv4.tcp_base_mss",
})  # fmt: skip
"""Settings that act on what this host sends."""

RECEIVES = frozenset({
    "net.core.rmem_max", "net.core.netdev_max_backlog", "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_moderate_rcvbuf",
})  # fmt: skip
"""Settings that act on what it receives."""

AGREED = frozenset({
    "net.ipv4.tcp_ecn", "net.ipv4.tcp_ecn_fallback", "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_timestamps",
})  # fmt: skip
"""Settings that both ends agree on when a connection begins: they act both ways."""

_WAYS: dict[Direction, str] = {"up": "what this host sends", "down": "what this host receives"}
_SECONDS_OF_A_WATCH = 86_400

Measure = Callable[[Direction, Sequence[str]], Measurement]
"""Measures the path once, loaded in a direction, with these options besides."""

USUAL_DATA = "2GB"
"""Payload that one measurement moves at most without `--max-data`, as `narrows measure` has it."""


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
        ended: Why it has fewer rounds than asked for, as a sentence; empty where it has all of
            them.
    """

    direction: Direction
    found: list[Difference]
    without: list[Measurement]
    with_it: list[Measurement]
    ended: str = ""

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
            "moved_bytes": sum(map(moved, [*self.without, *self.with_it])),
            "ended": self.ended or None,
            "figures": {d.figure.key: d.json() for d in self.found},
        }


def moved(measured: Measurement) -> int:
    """Payload of a measurement, in bytes."""
    return int((measured.json.get("data") or {}).get("moved_bytes") or 0)


class Budget:
    """The payload that all rounds together may move at most.

    A measurement is limited to what is left. A round is begun only if it may move as much as the
    largest one so far.
    """

    def __init__(self, most: str | None) -> None:
        """With the value of `--max-data`; None: each measurement has its own maximum, and all
        together have none.
        """
        self._most = most
        self._bytes = 0
        self._moved: list[int] = []

    def stated(self, rounds: int) -> str:
        """How much may be moved, as a sentence.

        >>> Budget("5MB").stated(3)
        'It moves at most 5MB of payload in 3 rounds (--max-data).'
        """
        if self._most is not None:
            several = "" if rounds == 1 else "s"
            return (
                f"It moves at most {self._most} of payload in {rounds} round{several} (--max-data)."
            )
        each = f"{USUAL_DATA} of payload in each of {2 * rounds} measurements"
        return f"It moves at most {each}; --max-data limits the sum."

    def words(self) -> list[str]:
        """Options of the next measurement."""
        if self._most is None:
            return []
        if not self._moved:
            # Nothing is known of the path yet: the second measurement may move as much as the first
            # one.
            return ["--max-data", self._most, "--parts", "2"]
        # The first of a round leaves room for its counterpart.
        reserve = max(self._moved) if len(self._moved) % 2 == 0 else 0
        return ["--max-data", f"{max(1, self._left() - reserve)}B"]

    def spent(self, measured: Measurement) -> bool:
        """Counts a measurement; was it cut short because nothing was left?"""
        if not self._moved:
            self._bytes = int((measured.json.get("asked") or {}).get("max_data_bytes") or 0)
        self._moved.append(moved(measured))
        return self._most is not None and measured.stopped_by == "max_data"

    def ended(self, done: int, rounds: int) -> str:
        """Why no other round is begun, as a sentence; empty where one is."""
        each = [sum(self._moved[at : at + 2]) for at in range(0, 2 * done, 2)]
        if self._most is None or not each or max(each) <= self._left():
            return ""
        return (
            f"It ended after {done} of {rounds} rounds: another one could exceed --max-data "
            f"{self._most}. "
            f"{_mb(sum(self._moved))} were moved, and up to {_mb(max(each))} in a round."
        )

    def too_little(self) -> NarrowsError:
        """The first round did not fit."""
        return NarrowsError(
            f"--max-data {self._most}: it was moved before one round was complete\n"
            "    write: a larger --max-data, or a shorter --duration"
        )

    def _left(self) -> int:
        return self._bytes - sum(self._moved)


def _mb(size: int) -> str:
    return f"{size / 1e6:.3g} MB"


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
        raise NarrowsError(
            "nothing in this plan acts on connections by itself, so there is nothing to measure"
        )
    if asked is None:
        return "up" if "up" in ways else "down"
    way = cast("Direction", asked)
    if way in ways:
        return way
    other: Direction = "down" if way == "up" else "up"
    names = listed(
        [
            str(c["target"])
            for c in plan["changes"]
            if c["kind"] in {"sysctl", "qdisc", "ingress", "route"}
        ]
    )
    who = (
        "the far end sends, and its congestion control and queues decide"
        if way == "down"
        else "this host sends"
    )
    raise NarrowsError(
        f"cannot have this effect: {names} acts on {_WAYS[other]}, and in the direction `{way}` "
        f"{who}.\n"
        f"    measure where it acts: --direction {other}"
        + ("; or apply the plan at the far end and measure from there" if way == "down" else "")
    )


@contextlib.contextmanager
def changed(plan: Json, place: Place, *, replace: bool) -> Iterator[None]:
    """The change is on, for the next boot nothing is written, and whatever happens it is off
    again.
    """
    within = ["--confirm-within", f"{_SECONDS_OF_A_WATCH}s"]
    # Its own process watches: it undoes the change when it is told to end, as it is with a session
    # or the machine.
    done: Json = {"nothing_to_do": True}
    try:
        with deferred():
            done, _ = have(
                ["apply", *within, *(["--replace"] if replace else [])], place, plan=live_only(plan)
            )
        if done.get("nothing_to_do"):
            # Undoing the last plan would undo another.
            raise NarrowsError(
                "nothing to prove: it is so already; narrows tune revert, or a plan for something "
                "else"
            )
        yield
    finally:
        if not done.get("nothing_to_do"):
            with deferred():
                have(["revert", "--last"], place)


def prove(
    plan: Json,
    place: Place,
    measure: Measure,
    *,
    way: Direction,
    rounds: int = ROUNDS,
    replace: bool = False,
    max_data: str | None = None,
    progress: Callable[[float, float], object] | None = None,
) -> Proof:
    """Measures without and with it in turn; afterwards it is off.

    Args:
        plan: The change.
        place: Where the journal is.
        measure: Measures the path once.
        way: The direction that is loaded.
        rounds: So many, unless `max_data` ends it before.
        replace: Also over a queue discipline that somebody set up.
        max_data: Payload of all rounds at most.
        progress: Called before each measurement with how many are done, and how many there are.

    Raises:
        Unfinished: If a signal stopped it, or if it cannot be measured or applied, with the rounds
            that were complete.
    """
    without: list[Measurement] = []
    with_it: list[Measurement] = []
    budget, ended = Budget(max_data), ""

    def once(at: int, into: list[Measurement]) -> bool:
        if progress is not None:
            progress(at, 2 * rounds)
        measured = measure(way, budget.words())
        cut = budget.spent(measured)
        if not cut:
            into.append(measured)
        return not cut

    try:
        for at in range(rounds):
            if ended := budget.ended(at, rounds):
                break
            complete = once(2 * at, without)
            if complete:
                with changed(plan, place, replace=replace):
                    complete = once(2 * at + 1, with_it)
            if not complete:
                if not with_it:
                    raise budget.too_little()
                ended = (
                    f"It ended after {len(with_it)} of {rounds} rounds: --max-data {max_data} was "
                    "moved before "
                    "the next one was complete."
                )
                break
    except (KeyboardInterrupt, NarrowsError) as stop:
        # A measurement without its counterpart is of no use.
        del without[len(with_it) :]
        raise Unfinished(
            Proof(way, compared(without, with_it, way), without, with_it) if with_it else None
        ) from stop
    del without[len(with_it) :]
    return Proof(way, compared(without, with_it, way), without, with_it, ended)


def compared(
    without: Sequence[Measurement], with_it: Sequence[Measurement], way: Direction
) -> list[Difference]:
    """The figures of that direction, and the idle round trip."""
    test = f"tcp_n{way}"
    other = "down" if way == "up" else "up"
    found = measurements.differences(joined(without, test), joined(with_it, test))
    return [d for d in found if other not in d.figure.key.split("_")]


def scored(proof: Proof, plan: Json) -> list[Scored]:
    """What became of the open sealed forecasts, by the measurements with the change.

    Raises:
        NarrowsError: If the forecasts cannot be read, or a score cannot be written.
    """
    queues = [c["to"] for c in plan["changes"] if c["target"] == "net.core.default_qdisc"]
    return forecasts.score_open(
        joined(proof.with_it, f"tcp_n{proof.direction}"), queue=queues[-1] if queues else None
    )


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
    head = (
        f"Measured {way}, {_WAYS[proof.direction]}: without and with it in turn, "
        f"{len(proof.without)} times each."
    )
    # One sentence each, but for what was too short.
    return [
        words[proof.verdict],
        head,
        *([proof.ended] if proof.ended else []),
        *measurements.sentences(proof.found, "without", "with"),
        measurements.caution([*proof.without, *proof.with_it])
        if len(proof.without) < ROUNDS
        else "Intervals are of 99 %.",
    ]
