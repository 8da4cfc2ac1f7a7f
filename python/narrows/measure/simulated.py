"""Measures a simulated path with only the data that a real client would have.

A client has its pings and the `TCP_INFO` of each sender: acknowledged bytes, window, smoothed RTT
and retransmits. In a download, the server transmits its `TCP_INFO` to the client. Queues, drops and
the parameters of the path are not part of the measurement.

The measurement has an idle phase, a download, a pause and an upload, so that each direction is
loaded alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from narrows import __version__
from narrows.json_object import JsonObject
from narrows.measure.result import (
    DIRECTIONS,
    Column,
    Direction,
    Measurement,
    Phase,
    Pings,
    Spread,
    short,
)
from narrows.measure.result import Flow as Flow_
from narrows.runs.run import Run, run
from narrows.runs.scenario import Flow, Path, Ping, Scenario

_MSS = 1448
_ROUNDING_S = 1e-9
_SAMPLED = ("delivered_bytes", "cwnd_packets", "rtt_ms", "retransmits", "pacing_mbit")
_COLUMNS = ("acked_bytes", "cwnd_packets", "rtt_ms", "retransmits", "pacing_mbit")
"""Names of the sampled columns in the simulator and in a measurement."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The parameters of a simulated measurement.

    Attributes:
        cc: Congestion control of the load.
        streams: Number of flows per direction.
        idle_s: Duration of the idle phase before the first load, in s.
        load_s: Duration of each load, in s.
        pause_s: Pause between the loads and after the last one, in s.
        ping_ms: Mean interval between pings, in ms.
        at_random: Whether each interval has one ping at a random time, instead of equal intervals.
        sample_ms: Sample interval of a flow, in ms.
        directions: The loaded directions, in this order.
        at_once: Whether all directions are loaded at the same time instead of in sequence.
        dscps: Traffic classes of the flows of a direction, in turn; each class has its own pings.
        test: Name of the test in the result.
    """

    cc: str = "cubic"
    streams: int = 4
    idle_s: float = 3.0
    load_s: float = 10.0
    pause_s: float = 2.0
    ping_ms: float = 20.0
    at_random: bool = True
    sample_ms: float = 100.0
    directions: tuple[Direction, ...] = DIRECTIONS[::-1]
    at_once: bool = False
    dscps: tuple[str, ...] = ("BE",)
    test: str = "simulated"

    def classes(self) -> dict[str, str]:
        """The traffic class of each flow, by its name in the scenario.

        >>> Plan(streams=3, directions=("up",), dscps=("BE", "CS1")).classes()
        {'up0': 'BE', 'up1': 'CS1', 'up2': 'BE'}
        """
        return {
            f"{direction}{number}": self.dscps[number % len(self.dscps)]
            for direction in self.directions
            for number in range(self.streams)
        }

    def spacing(self) -> Literal["random", "constant"]:
        """The spacing of the pings, as in a scenario."""
        return "random" if self.at_random else "constant"

    def times(self) -> dict[Direction, tuple[float, float]]:
        """Start and end of the load of each direction, in s after the start of the measurement."""
        out: dict[Direction, tuple[float, float]] = {}
        at = self.idle_s
        for direction in self.directions:
            out[direction] = (at, at + self.load_s)
            at += 0.0 if self.at_once else self.load_s + self.pause_s
        return out

    def flows(self) -> dict[str, str]:
        """The name in the measurement of each flow of the scenario.

        A real measurement numbers flows from 1. In the scenario, flows are numbered from 0, as in
        every scenario. The name of a flow in the scenario determines its random start time.

        >>> Plan(streams=1).flows()
        {'down0': 'down1', 'up0': 'up1'}
        """
        return {
            f"{direction}{number}": f"{direction}{number + 1}"
            for direction in self.directions
            for number in range(self.streams)
        }

    def end_s(self) -> float:
        """End of the measurement, in s."""
        return self.idle_s + (1 if self.at_once else len(self.directions)) * (
            self.load_s + self.pause_s
        )


def scenario(path: Path, plan: Plan, *, seed: int, beside: Sequence[Flow] = ()) -> Scenario:
    """The scenario that the simulator runs. `beside` is cross traffic, which is not part of the
    measurement.
    """
    classes = plan.classes()
    flows = [
        Flow(
            plan.cc,
            id=f"{direction}{n}",
            direction=direction,
            start=f"{begin}s",
            stop=f"{end}s",
            dscp=classes[f"{direction}{n}"],
        )
        for direction, (begin, end) in plan.times().items()
        for n in range(plan.streams)
    ]
    return Scenario(
        path,
        flows=[*flows, *beside],
        probes=[
            Ping(interval=f"{plan.ping_ms:g}ms", spacing=plan.spacing(), dscp=dscp)
            for dscp in plan.dscps
        ],
        duration=f"{plan.end_s()}s",
        warmup="0s",
        seed=seed,
        start_jitter="50ms",
    )


def measure(
    path: Path,
    plan: Plan | None = None,
    *,
    seed: int = 1,
    beside: Sequence[Flow] = (),
    progress: Callable[[float, float], object] | None = None,
) -> Measurement:
    """Measures a path in the simulator.

    >>> path = Path(rate="20Mbit", rtt="20ms", buffer="1bdp", reverse=Path(rate="5Mbit",
    ...     buffer="50kB"))
    >>> seen = measure(path, Plan(load_s=3.0))
    >>> round(seen.rate_mbit("down")), seen.latency("idle").min < 21
    (18, True)

    Raises:
        ScenarioError: If the path is invalid.
    """
    seen = watch(path, plan or Plan(), seed=seed, beside=beside, progress=progress)
    return Measurement.of(_tree(seen, plan or Plan()) | {"latency_ms": seen.latency_json()})


def watch(
    path: Path,
    plan: Plan,
    *,
    seed: int,
    beside: Sequence[Flow] = (),
    progress: Callable[[float, float], object] | None = None,
) -> Measurement:
    """Like `measure`, but the result has no JSON object, which saves time if many paths are
    simulated.
    """
    done = run(
        scenario(path, plan, seed=seed, beside=beside),
        sample_interval=f"{plan.sample_ms:g}ms",
        progress=progress,
    )
    times = plan.times()
    samples = done.columns("samples")
    t_s, *values = (samples[name] for name in ("t_s", *_SAMPLED))
    rows: dict[str, list[int]] = {}
    for at, name in enumerate(samples["flow"]):
        rows.setdefault(name, []).append(at)
    flows = []
    own, classes = plan.flows(), plan.classes()
    for told in done.flows:
        if told["id"] not in own:
            continue
        direction: Direction = "up" if told["id"].startswith("up") else "down"
        begin, end = times[direction]
        mine = [at for at in rows.get(told["id"], ()) if t_s[at] <= end + _ROUNDING_S]
        columns: dict[str, Column] = {"t_s": [begin, *(t_s[at] for at in mine)]}
        for name, zero, column in zip(_COLUMNS, (0, None, None, 0, None), values, strict=True):
            columns[name] = [zero, *(column[at] for at in mine)]
        acked = columns["acked_bytes"][-1] or 0
        about = {
            "bytes": acked,
            "goodput_mbit": short(acked * 8e-6 / (end - begin)),
            "retransmits": told["retransmits"],
            "retransmit_rate": told["run_retransmit_rate"],
            "mss_bytes": _MSS,
            "dscp": classes[told["id"]],
        }
        flows.append(
            Flow_(own[told["id"]], direction, "tcp", told["cc"], begin, end, about, columns)
        )
    trains = [_train(done, number, plan) for number in range(len(plan.dscps))]
    phases = [Phase("idle", 0.0, plan.idle_s)]
    for begin, end in dict.fromkeys(times.values()):
        phases += [Phase("loaded", begin, end, plan.cc), Phase("recovery", end, end + plan.pause_s)]
    return Measurement({}, [p for p in phases if p.to_s > p.from_s], flows, trains)


def _train(done: Run, number: int, plan: Plan) -> Pings:
    """The pings of the probe with this number."""
    pings = done.columns("pings")
    mine = [at for at, probe in enumerate(pings["probe"]) if probe == number]
    sent, rtts = ([pings[name][at] for at in mine] for name in ("t_s", "rtt_ms"))
    return Pings(
        f"ping{number}",
        "udp",
        plan.dscps[number] if len(plan.dscps) > 1 else None,
        plan.ping_ms,
        len(rtts),
        sum(rtt is not None for rtt in rtts),
        {"t_s": sent, "rtt_ms": rtts},
        {"spacing": plan.spacing()},
    )


def _tree(seen: Measurement, plan: Plan) -> JsonObject:
    return {
        "measurement": 1,
        "narrows": __version__,
        "id": "",
        "started": "",
        "asked": {
            "host": "simulated",
            "test": plan.test,
            "streams": plan.streams,
            "cc": [plan.cc],
            "duration_s": plan.load_s,
            "idle_s": plan.idle_s,
        },
        "peer": {"address": "simulated", "speaks": "simulator"},
        "phases": [
            {"name": p.name, "from_s": p.from_s, "to_s": p.to_s, "cc": p.cc} for p in seen.phases
        ],
        "flows": [_flow(flow) for flow in seen.flows],
        "pings": [
            {
                "id": train.id,
                "protocol": train.protocol,
                "dscp": train.dscp,
                "interval_ms": train.interval_ms,
                "spacing": plan.spacing(),
                "sent": train.sent,
                "received": train.received,
                "columns": list(train.columns),
                "samples": _rows(train.columns),
            }
            for train in seen.pings
        ],
    }


def _rows(columns: Mapping[str, Column]) -> list[list[float | None]]:
    return [[short(value) for value in row] for row in zip(*columns.values(), strict=True)]


def _flow(flow: Flow_) -> JsonObject:
    return {
        "id": flow.id,
        "direction": flow.direction,
        "protocol": flow.protocol,
        "cc": flow.cc,
        "ecn": None,
        "from_s": flow.from_s,
        "to_s": flow.to_s,
        **flow.told,
        "rtt_ms": Spread.of(flow.columns["rtt_ms"]).flow_json(),
        "columns": list(flow.columns),
        # Byte counts keep all digits.
        "samples": [
            [
                value if name == "acked_bytes" else short(value)
                for name, value in zip(flow.columns, row, strict=True)
            ]
            for row in zip(*flow.columns.values(), strict=True)
        ],
    }
