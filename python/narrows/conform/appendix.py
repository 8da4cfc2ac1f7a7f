"""The test cases of the appendix "BBR Example Test Cases" of draft-ietf-ccwg-bbr-06 (July 2026).

Most of them observe the phases and the variables of BBR. narrows records these for its own
congestion controls (`run(..., states=True)`), with the resolution of the samples. The state of
another stack is not visible, so only the cases about goodput, window and losses apply to it.

PROBE_RTT can begin in each phase (section 5.3.4.3), so a phase that PROBE_RTT ended does not count.

Seven of the 22 test cases have no check:

- "Exiting DRAIN Based on Time" and "Exiting PROBE_DOWN After Max Time" change the path at the
  beginning of a phase. A scenario changes the path only at fixed times.
- "Handling Application-Limited Sending During PROBE_REFILL" changes the application at the
  beginning of a phase, for the same reason.
- Both cases of spurious recovery need the variables `BBR.undo_…`, which Linux does not export.
- Two cases need aggregation of ACKs, which no element of a path has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from narrows.conform import metrics, traffic
from narrows.conform.check import Check

if TYPE_CHECKING:
    from narrows.conform.metrics import Metric
    from narrows.conform.target import Target
    from narrows.json_object import JsonObject
    from narrows.runs.run import Run

DRAFT = "draft-ietf-ccwg-bbr-06, appendix"
RATE, RTT_MS = 20.0, 40.0
_FRAME_BYTES = 1514
_SLOW = 0.1
_STARTUP, _DRAIN, _PROBE_BW, _PROBE_RTT = "startup", "drain", "probe_bw", "probe_rtt"
_DOWN, _UP, _CRUISE = "probe_bw_down", "probe_bw_up", "probe_bw_cruise"
_STEP_S, _AFTER_S = 15.0, 25.0
_LOW, _HIGH = 10.0, 100.0


def _scenario(duration: str, flow: JsonObject, **path: object) -> Callable[[Target], JsonObject]:
    base = {"rate": f"{RATE:g}Mbit", "rtt": f"{RTT_MS:g}ms", "buffer": "8bdp"}
    return lambda target: {
        "duration": duration,
        "path": {**base, **path},
        "flow": [target.flow(id="target", **flow)],
    }


def _modes(run: Run) -> list[tuple[float, str]]:
    """Time and phase of each sample."""
    rows = run.columns("states")
    found = zip(rows["t_s"], rows["name"], rows["word"], strict=True)
    return [(t, str(word)) for t, name, word in found if name == "mode"]


def _values(run: Run, of: str) -> list[tuple[float, str, float]]:
    """Time, phase and value of a variable in each sample."""
    modes = dict(_modes(run))
    rows = run.columns("states")
    found = zip(rows["t_s"], rows["name"], rows["value"], strict=True)
    return [(t, modes[t], float(value)) for t, name, value in found if name == of and t in modes]


def _phases(run: Run) -> list[tuple[float, float, str]]:
    """Begin, end and name of each phase that ended before the end of the run."""
    found: list[tuple[float, float, str]] = []
    begin_s, last = 0.0, ""
    for t, mode in _modes(run):
        if mode != last:
            if last:
                found.append((begin_s, t, last))
            begin_s, last = t, mode
    return found


def _ends(run: Run, phase: str) -> list[tuple[float, str]]:
    """The time of each end of a phase, and the phase after it, without ends by PROBE_RTT."""
    phases = _phases(run)
    names = [name for _, _, name in phases] + [mode for _, mode in _modes(run)[-1:]]
    found = zip(phases, pairwise(names), strict=True)
    return [(end, b) for (_, end, _), (a, b) in found if a == phase and b != _PROBE_RTT]


def _followed(phase: str, by: str) -> Metric:
    """The percentage of the ends of a phase that a phase whose name begins with `by` follows."""

    def metric(run: Run) -> float | None:
        found = [after.startswith(by) for _, after in _ends(run, phase)]
        return 100.0 * sum(found) / len(found) if found else None

    return metric


def _median(variable: str, phase: str) -> Metric:
    """The median of a variable in a phase."""

    def metric(run: Run) -> float | None:
        found = sorted(value for _, mode, value in _values(run, variable) if mode == phase)
        return found[len(found) // 2] if found else None

    return metric


def _lengths(phase: str) -> Metric:
    """The mean duration of a phase in ms."""

    def metric(run: Run) -> float | None:
        found = [end - begin for begin, end, name in _phases(run) if name == phase]
        return 1e3 * sum(found) / len(found) if found else None

    return metric


def _interval(phase: str) -> Metric:
    """The mean time in s between two beginnings of a phase."""

    def metric(run: Run) -> float | None:
        begins = [begin for begin, _, name in _phases(run) if name == phase]
        return (begins[-1] - begins[0]) / (len(begins) - 1) if len(begins) > 1 else None

    return metric


def _in_flight_after(phase: str, by: str) -> Metric:
    """The mean data in flight at the ends of a phase that another phase, whose name begins with
    `by`, follows. In percent of the BDP.
    """

    def metric(run: Run) -> float | None:
        ends = {end for end, after in _ends(run, phase) if after.startswith(by)}
        rows = run.columns("samples")
        found = [
            float(count)
            for t, count in zip(rows["t_s"], rows["in_flight_packets"], strict=True)
            if t in ends
        ]
        bdp = RATE * 1e6 * RTT_MS * 1e-3 / 8 / _FRAME_BYTES
        return 100.0 * sum(found) / len(found) / bdp if found else None

    return metric


def _bandwidth(rate_mbit: float, at: Callable[[Run], float | None]) -> Metric:
    """BBR.max_bw at a time, in percent of the rate of the bottleneck."""

    def metric(run: Run) -> float | None:
        end_s = at(run)
        rows = _values(run, "max_bw_packets_per_s")
        found = [value for t, _, value in rows if end_s is not None and t <= end_s]
        return 100.0 * found[-1] * _FRAME_BYTES * 8e-6 / rate_mbit if found else None

    return metric


def _startup_share(run: Run) -> float | None:
    """The percentage of the samples in STARTUP, without those in PROBE_RTT."""
    modes = [mode for _, mode in _modes(run) if mode != _PROBE_RTT]
    return 100.0 * modes.count(_STARTUP) / len(modes) if modes else None


def _end_of_startup(run: Run) -> float | None:
    return next((end for _, end, name in _phases(run) if name == _STARTUP), None)


def _probe_rtt_after_idle(run: Run) -> float | None:
    """The number of samples in PROBE_RTT in the second after an idle time."""
    modes = [mode for t, mode in _modes(run) if _AFTER_S <= t < _AFTER_S + 1.0]
    return float(modes.count(_PROBE_RTT)) if modes else None


def _least_window(run: Run) -> float | None:
    """The smallest window in packets after the first ten seconds."""
    rows = run.columns("samples")
    found = [
        float(count)
        for t, count in zip(rows["t_s"], rows["cwnd_packets"], strict=True)
        if t > _LOW and count
    ]
    return min(found, default=None)


def _limited_after_up(run: Run) -> float | None:
    """The percentage of the ends of PROBE_UP that PROBE_DOWN with a limit on the data in flight
    follows. With little data in flight, PROBE_CRUISE follows within the same sample.
    """
    limits = {t: value for t, _, value in _values(run, "inflight_longterm")}
    found = [
        after in {_DOWN, _CRUISE} and limits.get(end, 0.0) > 0.0 for end, after in _ends(run, _UP)
    ]
    return 100.0 * sum(found) / len(found) if found else None


def _startup_after_probe_rtt(run: Run) -> float | None:
    """100 if STARTUP follows the first PROBE_RTT, and 0 otherwise; None if STARTUP ended before."""
    names = [name for _, _, name in _phases(run)]
    if names[:2] != [_STARTUP, _PROBE_RTT] or not names[2:]:
        return None
    return 100.0 * (names[2] == _STARTUP)


def _case(  # noqa: PLR0917 - a row of a table
    name: str,
    title: str,
    question: str,
    scenario: Callable[[Target], JsonObject],
    metric: Metric,
    least: float,
    most: float,
    unit: str = "",
    *,
    samples: str = "10ms",
    path_metric: traffic.PathMetric | None = None,
    states: bool = True,
) -> Check:
    return Check(
        name=f"bbr-{name}",
        suite="bbr",
        question=question,
        source=f'{DRAFT}, "{title}"',
        scenario=scenario,
        metric=metric,
        least=least,
        most=most,
        unit=unit,
        samples=samples,
        applies=lambda target: target.rules == "bbr3",
        states=states,
        **({} if path_metric is None else {"path_metric": path_metric}),
    )


def _cases() -> Iterator[Check]:
    alone = _scenario("60s", {})
    short = _scenario("3s", {})
    title = "Exiting STARTUP on Bandwidth Plateau"
    yield _case(
        "startup-bandwidth", title,
        "BBR.max_bw at the end of STARTUP, divided by the bottleneck rate", short,
        _bandwidth(RATE, _end_of_startup), 98, 102, "%",
    )  # fmt: skip
    yield _case(
        "startup-exit", title, "ends of STARTUP that DRAIN follows",
        short, _followed(_STARTUP, _DRAIN), 100, 100.1, "%",
    )  # fmt: skip
    # At 100 Mbit/s, a round trip has 330 packets, so 5 % loss meets both criteria of the draft: the
    # rate, and the number of separate losses (BBR.StartupFullLossCnt, six).
    limited: JsonObject = {
        "workload": {
            "kind": "on_off", "rate": "100Mbit", "on": "1000s", "off": "1ms", "transport": "tcp",
        }
    }  # fmt: skip
    wide: JsonObject = {"rate": "200Mbit"}
    loss: JsonObject = {"loss": {"probability": 0.05, "per": "packet"}, **wide}
    yield _case(
        "startup-loss", "Exiting STARTUP on Loss When Application-Limited",
        "part of the run in STARTUP, with data at half of the bottleneck rate and 5 % loss",
        _scenario("10s", limited, **loss), _startup_share, 0, 50, "%",
    )  # fmt: skip
    yield _case(
        "startup-limited", "Never Exiting PROBE_UP (or STARTUP) When Application-Limited With No "
        "Loss",
        "part of the run in STARTUP, with data at half of the bottleneck rate, without PROBE_RTT",
        _scenario("10s", limited, **wide), _startup_share, 100, 100.1, "%",
    )  # fmt: skip
    yield _case(
        "up-limited", "Exiting PROBE_UP on Loss When Application-Limited",
        "ends of PROBE_UP that PROBE_DOWN with BBR.inflight_longterm follows, with data at half of "
        "the bottleneck rate and 5 % loss",
        _scenario("20s", limited, **loss), _limited_after_up, 100, 100.1, "%",
    )  # fmt: skip
    title = "Exiting DRAIN Based on Inflight"
    yield _case(
        "drain-gain", title, "BBR.pacing_gain in DRAIN", short,
        _median("pacing_gain", _DRAIN), 0.49, 0.51, samples="1ms",
    )  # fmt: skip
    yield _case(
        "drain-exit", title, "data in flight at the end of DRAIN, divided by the BDP",
        short, _in_flight_after(_DRAIN, _PROBE_BW), 0, 110, "%", samples="1ms",
    )  # fmt: skip
    yield _case(
        "up-exit", "Exiting PROBE_UP on Bandwidth Plateau", "ends of PROBE_UP that PROBE_DOWN "
        "follows", alone, _followed(_UP, _DOWN), 100, 100.1, "%",
    )  # fmt: skip
    title = "Exiting PROBE_DOWN on Inflight"
    yield _case(
        "down-gain", title, "BBR.pacing_gain in PROBE_DOWN", alone,
        _median("pacing_gain", _DOWN), 0.89, 0.91,
    )  # fmt: skip
    yield _case(
        "down-exit", title, "data in flight at the end of PROBE_DOWN, divided by the BDP",
        alone, _in_flight_after(_DOWN, _CRUISE), 0, 110, "%",
    )  # fmt: skip
    title = "Entering and Exiting PROBE_RTT"
    yield _case(
        "probe-rtt-gain", title, "BBR.cwnd_gain in PROBE_RTT", alone,
        _median("cwnd_gain", _PROBE_RTT), 0.49, 0.51,
    )  # fmt: skip
    yield _case(
        "probe-rtt-duration", title, "duration of PROBE_RTT: 200 ms and a round trip, with the "
        "round trip to drain", alone, _lengths(_PROBE_RTT), 190, 200 + 2 * RTT_MS + 10, "ms",
    )  # fmt: skip
    yield _case(
        "probe-rtt-interval", title, "time between two beginnings of PROBE_RTT",
        alone, _interval(_PROBE_RTT), 5, 10, "s",
    )  # fmt: skip
    yield _case(
        "probe-rtt-exit", title, "ends of PROBE_RTT that PROBE_BW follows",
        alone, _followed(_PROBE_RTT, _PROBE_BW), 100, 100.1, "%",
    )  # fmt: skip
    yield _case(
        "probe-rtt-idle", "Skipping PROBE_RTT Due to Application-Limited Sending",
        "samples in PROBE_RTT in the second after an idle time of 10 s",
        _scenario("27s", {"stop": f"{_STEP_S:g}s", "restart": f"{_AFTER_S:g}s"}),
        _probe_rtt_after_idle, 0, 0.1,
    )  # fmt: skip
    slow = _scenario("60s", {}, rate=f"{_SLOW:g}Mbit", rtt="10ms", buffer="30p")
    title = "Correctly Managing Sub-Packet BDPs"
    yield _case(
        "sub-packet-window", title, "smallest window at 100 kbit/s and 10 ms, in packets",
        slow, _least_window, 4, 1000, states=False,
    )  # fmt: skip
    yield _case(
        "sub-packet-goodput", title, "goodput at 100 kbit/s and 10 ms", slow,
        metrics.utilization(_SLOW), 85, 100, "%",
        states=False, path_metric=traffic.utilization(_SLOW),
    )  # fmt: skip
    yield _case(
        "increase", "Increasing Bandwidth 10x and Ensuring Full Bandwidth is Reached",
        "goodput from 10 s on after the rate has risen from 10 to 100 Mbit/s",
        _scenario(
            "45s", {}, rate=f"{_LOW:g}Mbit", buffer="2bdp",
            steps=[{"at": f"{_STEP_S:g}s", "rate": f"{_HIGH:g}Mbit"}],
        ),
        metrics.delivered_between(_AFTER_S, 45, _HIGH), 80, 100, "%",
        samples="100ms", states=False, path_metric=traffic.between(_AFTER_S, 45, _HIGH),
    )  # fmt: skip
    yield _case(
        "decrease", "Decreasing Bandwidth 10x and Ensuring Max Bandwidth Adapts Down",
        "BBR.max_bw 25 s after the rate has fallen from 100 to 10 Mbit/s, divided by the new rate",
        _scenario(
            "40s", {}, rate=f"{_HIGH:g}Mbit", buffer="1bdp",
            steps=[{"at": f"{_STEP_S:g}s", "rate": f"{_LOW:g}Mbit"}],
        ),
        _bandwidth(_LOW, lambda _run: 40.0), 95, 105, "%", samples="100ms",
    )  # fmt: skip
    yield _case(
        "policer-loss", "Handling Token Bucket Policers",
        "retransmitted bytes behind a policer of 10 Mbit/s; the draft states no number",
        _scenario("60s", {}, policer={"rate": "10Mbit", "burst": "50kB"}),
        metrics.retransmits, 0, 10, "%",
        samples="off", states=False, path_metric=traffic.lost,
    )  # fmt: skip
    yield _case(
        "startup-probe-rtt", "Entering and Exiting PROBE_RTT During STARTUP",
        "ends of the first PROBE_RTT that STARTUP follows, at 100 kbit/s", slow,
        _startup_after_probe_rtt, 100, 100.1, "%",
    )  # fmt: skip
    yield _case(
        "up-loss", "Handling Loss During PROBE_UP After inflight_longterm is Set",
        "ends of PROBE_UP that PROBE_DOWN with BBR.inflight_longterm follows, buffer of 0.1 BDP",
        _scenario("60s", {}, buffer="0.1bdp"), _limited_after_up, 100, 100.1, "%",
    )  # fmt: skip


BBR: Sequence[Check] = tuple(_cases())
