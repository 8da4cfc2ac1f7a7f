"""Measures the effect of a change: measures a path alternately without and with the change (A B A B
A B).

The measurements alternate because the state of a path changes over the day. The load has the
direction in which the change acts: congestion control and queue disciplines act on data that this
host sends. Another `--direction` is rejected, because the change has no effect on it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from narrows import forecasts
from narrows.compare import measurements
from narrows.compare import render as comparison
from narrows.compare.measurements import Difference
from narrows.deferred import deferred
from narrows.errors import NarrowsError
from narrows.measure.result import Direction, Measurement
from narrows.measure.run import joined
from narrows.registry import sysctls
from narrows.render.words import listed
from narrows.tune.apply import Place, have
from narrows.tune.model import AppliedJson, ProofJson
from narrows.tune.plan import Plan

if TYPE_CHECKING:
    from narrows.forecasts import Scored

ROUNDS = 3
"""Default number of rounds, each with a measurement without and one with the change; a comparison
of loads needs at least three.
"""

_ACTS: dict[str, set[Direction]] = {
    "sent": {"up"},
    "received": {"down"},
    "negotiated": {"up", "down"},
}
"""Directions of the data on which a sysctl acts, by its key `acts` in the registry; `up` is data
that this host sends."""

_DIRECTIONS: dict[Direction, str] = {
    "up": "data that this host sends",
    "down": "data that this host receives",
}
_SECONDS_OF_A_WATCH = 86_400

Measure = Callable[[Direction, Sequence[str]], Measurement]
"""A function that measures the path once under load in a direction, with additional options of
`narrows measure`."""

USUAL_DATA = "2GB"
"""Default of `--max-data` of `narrows measure`, the maximum payload of one measurement."""


class Unfinished(Exception):  # noqa: N818 - an event, as KeyboardInterrupt is
    """A signal or an error ended the measurements before the last round; the change was reverted.

    Attributes:
        proof: The result of the complete rounds, or None without any.
    """

    def __init__(self, proof: Proof | None) -> None:
        """Creates the exception with the result of the complete rounds; the signal or error is its
        `__cause__`.
        """
        super().__init__()
        self.proof = proof


@dataclass(frozen=True)
class Proof:
    """The result of the measurements without and with a change.

    Attributes:
        direction: Direction of the load.
        found: The comparison of each metric without and with the change.
        without: The measurements without the change, in order.
        with_it: The measurements with the change, in order.
        ended: Reason why rounds are missing, as a sentence; empty if all rounds are complete.
    """

    direction: Direction
    found: list[Difference]
    without: list[Measurement]
    with_it: list[Measurement]
    ended: str = ""

    @property
    def verdict(self) -> str:
        """The verdict over all metrics: `better`, `worse`, `better and worse`, `no difference seen`
        or `cannot tell`.
        """
        seen = {d.verdict for d in self.found}
        if {"better", "worse"} <= seen:
            return "better and worse"
        for word in ("better", "worse", "cannot tell"):
            if word in seen:
                return word
        return "no difference seen"

    def json(self) -> ProofJson:
        """The JSON object of the result, without the information whether the change was kept."""
        return {
            "direction": self.direction,
            "verdict": self.verdict,
            "rounds": len(self.without),
            "moved_bytes": sum(map(moved, [*self.without, *self.with_it])),
            "ended": self.ended or None,
            "figures": {d.figure.key: d.json() for d in self.found},
        }


def moved(measured: Measurement) -> int:
    """Payload that a measurement transferred, in bytes."""
    return int((measured.json.get("data") or {}).get("moved_bytes") or 0)


class Budget:
    """The maximum payload of all rounds together.

    Each measurement is limited to the rest of the budget. A round starts only if the rest is at
    least the payload of the largest round so far.
    """

    def __init__(self, most: str | None) -> None:
        """Takes the value of `--max-data`. Without it (None), only the default limit of each
        measurement applies, and no limit of the sum.
        """
        self._most = most
        self._bytes = 0
        self._moved: list[int] = []

    def stated(self, rounds: int) -> str:
        """A sentence about the maximum payload that the measurements transfer.

        >>> Budget("5MB").stated(3)
        'The measurement transfers at most 5MB of payload in 3 rounds (--max-data).'
        """
        if self._most is not None:
            several = "" if rounds == 1 else "s"
            return (
                f"The measurement transfers at most {self._most} of payload in {rounds} "
                f"round{several} (--max-data)."
            )
        each = f"{USUAL_DATA} of payload in each of {2 * rounds} phases"
        return f"The measurement transfers at most {each}; --max-data limits the total."

    def words(self) -> list[str]:
        """Options of `narrows measure` that limit the payload of the next measurement."""
        if self._most is None:
            return []
        if not self._moved:
            # The rate of the path is unknown: the second measurement may need as much as the first.
            return ["--max-data", self._most, "--parts", "2"]
        # The first measurement of a round leaves enough for the second one.
        reserve = max(self._moved) if len(self._moved) % 2 == 0 else 0
        return ["--max-data", f"{max(1, self._left() - reserve)}B"]

    def spent(self, measured: Measurement) -> bool:
        """Counts the payload of a measurement; returns whether the limit ended the measurement
        early.
        """
        if not self._moved:
            self._bytes = int((measured.json.get("asked") or {}).get("max_data_bytes") or 0)
        self._moved.append(moved(measured))
        return self._most is not None and measured.stopped_by == "max_data"

    def ended(self, done: int, rounds: int) -> str:
        """The reason for not starting another round, as a sentence; empty if one is started."""
        each = [sum(self._moved[at : at + 2]) for at in range(0, 2 * done, 2)]
        if self._most is None or not each or max(each) <= self._left():
            return ""
        return (
            f"The measurement ended after {done} of {rounds} rounds: another round could exceed "
            f"--max-data {self._most}. All rounds transferred {_mb(sum(self._moved))}, the largest "
            f"one {_mb(max(each))}."
        )

    def too_little(self) -> NarrowsError:
        """The error if the first round exceeds the limit."""
        return NarrowsError(
            f"--max-data {self._most}: reached before the first round was complete\n"
            "    write: a larger --max-data, or a shorter --duration"
        )

    def _left(self) -> int:
        return self._bytes - sum(self._moved)


def _mb(size: int) -> str:
    return f"{size / 1e6:.3g} MB"


def acts_on(plan: Plan) -> set[Direction]:
    """The directions of the data on which a plan can have an effect; `up` is data that this host
    sends.

    >>> row = {"kind": "sysctl", "phase": "live", "from": "", "to": "", "why": ""}
    >>> acts_on(Plan.of({"changes": [row | {"target": "net.ipv4.tcp_congestion_control"}]}))
    {'up'}
    >>> acts_on(Plan.of({"changes": [row | {"target": "net.ipv4.tcp_rmem"}]}))
    {'down'}
    """
    directions: set[Direction] = set()
    for change in plan.changes:
        if change.kind in {"qdisc", "route"}:
            directions.add("up")
        elif change.kind == "ingress":
            directions.add("down")
        elif change.kind == "sysctl":
            row = sysctls().get(str(change.target), {})
            directions |= _ACTS.get(row.get("acts", ""), set())
    return directions


def load_direction(plan: Plan, asked: str | None) -> Direction:
    """The direction of the load: `asked` or, without it, a direction in which the plan has an
    effect, preferably `up`.

    Raises:
        NarrowsError: If the plan has no effect in the requested direction, or in any.
    """
    directions = acts_on(plan)
    if not directions:
        raise NarrowsError(
            "no change of this plan affects connections directly, so there is nothing to measure"
        )
    if asked is None:
        return "up" if "up" in directions else "down"
    direction = cast("Direction", asked)
    if direction in directions:
        return direction
    other: Direction = "down" if direction == "up" else "up"
    names = listed(
        [str(c.target) for c in plan.changes if c.kind in {"sysctl", "qdisc", "ingress", "route"}]
    )
    who = "the far host" if direction == "down" else "this host"
    raise NarrowsError(
        f"--direction {direction}: {names} affects only {_DIRECTIONS[other]}. With "
        f"--direction {direction}, {who} sends.\n    write: --direction {other}"
        + (
            ", or apply the plan on the far host and measure from that host"
            if direction == "down"
            else ""
        )
    )


@contextlib.contextmanager
def changed(plan: Plan, place: Place, *, replace: bool) -> Iterator[None]:
    """Applies the change for the duration of the block, without files for the next boot, and
    reverts it even after an error.
    """
    within = ["--confirm-within", f"{_SECONDS_OF_A_WATCH}s"]
    # A watchdog process reverts the change if it receives SIGTERM, as at the end of a session or a
    # shutdown.
    done: AppliedJson = {"done": [], "already": [], "nothing_to_do": True}
    try:
        with deferred():
            done, _ = have(
                ["apply", *within, *(["--replace"] if replace else [])],
                place,
                plan=plan.live().json(),
            )
        if done.get("nothing_to_do"):
            # A revert now would revert an earlier plan.
            raise NarrowsError(
                "nothing to prove: the host already has these settings\n"
                "    write: narrows tune revert, or a plan with other changes"
            )
        yield
    finally:
        if not done.get("nothing_to_do"):
            with deferred():
                have(["revert", "--last"], place)


def prove(
    plan: Plan,
    place: Place,
    measure: Measure,
    *,
    direction: Direction,
    rounds: int = ROUNDS,
    replace: bool = False,
    max_data: str | None = None,
    progress: Callable[[float, float], object] | None = None,
) -> Proof:
    """Measures alternately without and with a change. The change is reverted after each measurement
    with it.

    Args:
        plan: The change.
        place: The network namespace and the directory of the records that a revert uses.
        measure: Measures the path once.
        direction: Direction of the load.
        rounds: Number of rounds, unless `max_data` ends the measurements before.
        replace: Whether to replace a queue discipline that an administrator configured.
        max_data: Maximum payload of all rounds together, such as `500MB`.
        progress: Called before each measurement with the number of finished and of all
            measurements.

    Raises:
        Unfinished: If a signal or an error stopped the measurements; it contains the complete
            rounds.
    """
    without: list[Measurement] = []
    with_it: list[Measurement] = []
    budget, ended = Budget(max_data), ""

    def once(at: int, into: list[Measurement]) -> bool:
        if progress is not None:
            progress(at, 2 * rounds)
        measured = measure(direction, budget.words())
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
                    f"The measurement ended after {len(with_it)} of {rounds} rounds: --max-data "
                    f"{max_data} was reached before the next round was complete."
                )
                break
    except (KeyboardInterrupt, NarrowsError) as stop:
        # A measurement without its counterpart cannot be compared.
        del without[len(with_it) :]
        raise Unfinished(
            Proof(direction, compared(without, with_it, direction), without, with_it)
            if with_it
            else None
        ) from stop
    del without[len(with_it) :]
    return Proof(direction, compared(without, with_it, direction), without, with_it, ended)


def compared(
    without: Sequence[Measurement], with_it: Sequence[Measurement], direction: Direction
) -> list[Difference]:
    """The comparisons of the metrics of this direction, and of metrics without a direction, such as
    the idle RTT.
    """
    test = f"tcp_n{direction}"
    other = "down" if direction == "up" else "up"
    found = measurements.differences(joined(without, test), joined(with_it, test))
    return [d for d in found if other not in d.figure.key.split("_")]


def scored(proof: Proof, plan: Plan) -> list[Scored]:
    """Scores the sealed forecasts that have no score yet, by the measurements with the change.

    Raises:
        NarrowsError: If the forecasts cannot be read, or a score cannot be written.
    """
    queues = [c.after for c in plan.changes if c.target == "net.core.default_qdisc"]
    return forecasts.score_open(
        joined(proof.with_it, f"tcp_n{proof.direction}"), queue=queues[-1] if queues else None
    )


def proof_lines(proof: Proof) -> list[str]:
    """The result as lines of text: the verdict first, then each metric."""
    words = {
        "better": "The path is better with the change.",
        "worse": "The path is worse with the change.",
        "better and worse": "Some metrics are better with the change, others are worse.",
        "no difference seen": "No difference seen between the measurements; a small one may exist.",
        "cannot tell": "No verdict: there are too few values.",
    }
    direction = "upload" if proof.direction == "up" else "download"
    times = "once" if len(proof.without) == 1 else f"{len(proof.without)} times"
    head = (
        f"Direction of the load: {direction} ({_DIRECTIONS[proof.direction]}); measured "
        f"alternately without and with the change, {times} each."
    )
    return [
        words[proof.verdict],
        head,
        *([proof.ended] if proof.ended else []),
        *comparison.sentences(proof.found, "without", "with"),
        comparison.caution([*proof.without, *proof.with_it])
        if len(proof.without) < ROUNDS
        else "All intervals together are right with a confidence of 99 %.",
    ]
