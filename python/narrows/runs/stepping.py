"""A simulated run that its caller advances step by step, and in which the caller can control one
flow.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, SupportsFloat, cast

from narrows import _core
from narrows.errors import EngineError
from narrows.models import loaded
from narrows.runs.model import FlowJson, RunJson
from narrows.runs.run import Run
from narrows.runs.scenario import Scenario
from narrows.runs.source import read
from narrows.storage import provenance
from narrows.storage.text import name_of

_LEAST_MBIT, _MOST_MBIT = 1e-6, 1e9
"""Accepted range of the pacing rate, in Mbit/s."""


_LATEST_S = 9e9
"""Largest accepted time, in s; in ns it is a number of 64 bits."""


def _within(value: object, least: float, most: float, *, whole: bool = False) -> bool:
    """Whether a value is a number in this range, and whole if requested. NumPy's numbers are, too.

    >>> _within(2, 1, 3, whole=True), _within(2.5, 1, 3, whole=True), _within("2", 1, 3)
    (True, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, SupportsFloat):
        return False
    try:
        number = float(value)
    except (OverflowError, TypeError):
        return False
    return least <= number <= most and (not whole or number.is_integer())


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The state of the observed flow after a step; counters cover this step only.

    Attributes:
        t_s: Time in the run, in s.
        finished: Whether the run is over.
        cwnd: Congestion window, in packets.
        rtt_ms: Last RTT sample, in ms; None before the first one.
        srtt_ms: Smoothed RTT, in ms; 0 before the first RTT sample.
        min_rtt_ms: Minimum RTT, in ms; 0 before the first RTT sample.
        pacing_mbit: Pacing rate, in Mbit/s. It also determines the size of bursts of a flow without
            pacing.
        in_flight: Packets in flight.
        acks: ACKs that arrived in this step.
        delivered: Packets that were delivered in this step.
        lost: Packets that were found to be lost in this step.
        marked: Packets that the receiver reported as ECN-marked in this step.
        goodput_mbit: Data acknowledged in this step divided by its length, in Mbit/s; None if the
            step took no time.
    """

    t_s: float
    finished: bool
    cwnd: int
    rtt_ms: float | None
    srtt_ms: float
    min_rtt_ms: float
    pacing_mbit: float
    in_flight: int
    acks: int
    delivered: int
    lost: int
    marked: int
    goodput_mbit: float | None


class SteppedRun(Run):
    """A run that is advanced with `step`; after its end, it has all results of a `Run`.

    >>> from narrows import Flow, Path, Scenario, start
    >>> path = Path(rate="10Mbit", rtt="20ms", buffer="1bdp")
    >>> stepped = start(Scenario(path, flows=[Flow("cubic")], duration="3s"))
    >>> seen = stepped.step(until="1s")
    >>> seen.t_s, seen.finished
    (1.0, False)
    >>> seen = stepped.step(until=2.0, cwnd=10)
    >>> seen.cwnd
    10
    >>> round(stepped.finish().flows[0]["cwnd_packets"]["mean"]) < 20
    True
    """

    def __init__(self, stepper: _core.Stepper, toml: str, watch: provenance.Watch) -> None:
        """`start` calls this; users need not call it."""
        super().__init__(figures=cast("RunJson", {}), toml=toml, tables={})
        self._complete = False
        self._stepper, self._watch = stepper, watch
        self._held: list[dict[str, float | None]] = []

    @property
    def json(self) -> RunJson:
        """The whole summary, as of `Run`; raises an `EngineError` before the end of the run."""
        if not self._complete:
            now, end = (ns / 1e9 for ns in self._stepper.times_ns())
            raise EngineError(
                f"the run is at {now:g} s of {end:g} s; step(until={end:g}) or finish() completes "
                "it"
            )
        return super().json

    @property
    def flows(self) -> list[FlowJson]:
        """The metrics of each flow; raises an `EngineError` before the end of the run."""
        return self.json["flows"]

    @property
    def finished(self) -> bool:
        """Whether the run is over."""
        if self._complete:
            return True
        now, end = self._stepper.times_ns()
        return now >= end

    def step(
        self,
        *,
        until: float | str | None = None,
        acks: int | None = None,
        cwnd: int | None = None,
        pacing_mbit: float | None = None,
    ) -> Observation:
        """Sets the window or the pacing rate, and advances the run to a time or by ACKs.

        From the first call with `cwnd` or `pacing_mbit` on, both are set by the caller instead of
        the flow's congestion control. A value that is not given keeps its last value. If neither is
        ever given, the results are those of `run`.

        Args:
            until: The time in the run at which the step ends, in s or as text with a unit.
            acks: The number of ACKs of the flow after which the step ends; 1 if `until` is not
                given either. ACKs that arrive at the same time belong to the same step.
            cwnd: The congestion window, in packets.
            pacing_mbit: The pacing rate, in Mbit/s.

        Raises:
            EngineError: If a value is out of its range, or the run is over.
        """
        if until is not None and acks is not None:
            raise EngineError("step: until and acks cannot be combined; omit one of them")
        if acks is not None and not _within(acks, 1, 2**64 - 1, whole=True):
            raise EngineError(f"step: acks = {acks!r}: write a whole number of at least 1")
        if cwnd is not None and not _within(cwnd, 1, 2**31 - 1, whole=True):
            raise EngineError(
                f"step: cwnd = {cwnd!r}: write a whole number of packets from 1 to {2**31 - 1}"
            )
        if pacing_mbit is not None and not _within(pacing_mbit, _LEAST_MBIT, _MOST_MBIT):
            raise EngineError(
                f"step: pacing_mbit = {pacing_mbit!r}: write a rate in Mbit/s, above 0"
            )
        if self._complete:
            raise EngineError("step: the run is over; start() begins another one")
        seen = self._stepper.step(
            until_ns=None if until is None else self._ns(until),
            acks=None if acks is None else int(acks),
            cwnd=None if cwnd is None else int(cwnd),
            pacing_bit=None if pacing_mbit is None else int(pacing_mbit * 1e6),
        )
        if cwnd is not None or pacing_mbit is not None:
            self._held.append({"cwnd": cwnd, "pacing_mbit": pacing_mbit})
        return Observation(**seen)

    def _ns(self, until: float | str) -> int:
        if not isinstance(until, str) and not _within(until, -math.inf, _LATEST_S):
            raise EngineError(
                f"step: until = {until!r}: write a time in s, or a text with a unit such as '2s'"
            )
        seconds = _core.seconds(until) if isinstance(until, str) else float(until)
        now = self._stepper.times_ns()[0]
        if not now <= seconds * 1e9:
            raise EngineError(
                f"step: until = {until!r} is before the present time, {now / 1e9:g} s"
            )
        return round(seconds * 1e9)

    def finish(self) -> SteppedRun:
        """Advances the run to its end; returns the run with its results."""
        if not self._complete:
            raw = self._stepper.finish()
            figures: RunJson = json.loads(raw.json())
            figures["provenance"] = made = provenance.of(figures, self._watch, raw.files)
            if models := loaded.used(figures["scenario"]):
                made["models"] = models
            if self._held:
                made["steps_with_control"] = len(self._held)
            self._figures, self._source, self._files = figures, raw, dict(raw.files)
            self._complete = True
        return self

    def __getstate__(self) -> dict[str, Any]:
        """The state for pickling, as of `Run`; a run before its end cannot be pickled."""
        _ = self.json
        return super().__getstate__()

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `__getstate__` returned."""
        Run.__init__(self, **state)
        self._complete = True

    def _repr_html_(self) -> str:
        """The present time in the run, or after its end what a `Run` shows, for notebooks."""
        if self._complete:
            return super()._repr_html_()
        from narrows.render.html import fragment  # noqa: PLC0415

        return fragment([repr(self)])

    def __repr__(self) -> str:
        """The present time in the run, or the flows, engine and seed after its end."""
        if self._complete:
            return super().__repr__()
        now, end = (ns / 1e9 for ns in self._stepper.times_ns())
        return f"<narrows.SteppedRun at {now:g} s of {end:g} s>"


def start(
    scenario: Scenario | str | PathLike[str],
    *,
    control: str | None = None,
    seed: int | None = None,
    sample_interval: str | None = None,
    states: bool = False,
) -> SteppedRun:
    """Begins a simulated run that `step` advances.

    Args:
        scenario: The scenario, or the name of its file.
        control: The ID of the flow that `step` observes and controls; the first one by default.
        seed: The seed; by default the seed of the scenario.
        sample_interval: The time between two samples, as for `run`.
        states: Whether to record the table `states`, as for `run`.

    Raises:
        ScenarioError: If the scenario has errors.
        EngineError: If the flow `control` does not exist or has a workload.
    """
    if seed is not None and not 0 <= seed < 2**64:
        raise EngineError(f"seed = {seed} is not from 0 to 2^64 - 1")
    watch = provenance.Watch()
    given: Mapping[str, Any] | str
    if isinstance(scenario, Scenario):
        given, name, toml = scenario.tree(), "", scenario.toml()
    else:
        given = toml = read(scenario)
        name = name_of(scenario)
    stepper = _core.start_run(
        given, name, control=control, seed=seed, sample_interval=sample_interval, states=states
    )
    return SteppedRun(stepper, toml, watch)
