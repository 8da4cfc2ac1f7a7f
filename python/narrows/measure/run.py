"""Measures a path with `narrows-host measure`, once for each part of the test, and joins the parts
into one measurement.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from narrows import registry
from narrows.errors import EngineError, NarrowsError
from narrows.host import live
from narrows.json_object import JsonObject
from narrows.measure.classes import RRUL
from narrows.measure.intervals import Interval
from narrows.measure.model import AskedJson, DataJson, MeasurementJson
from narrows.measure.result import Direction, Measurement
from narrows.measure.simulated import Plan
from narrows.measure.simulated import measure as play
from narrows.render.words import listed
from narrows.runs.scenario import load

TESTS = registry.measurement_tests()
"""Each test with its parts, which are measured in sequence."""

DEFAULT = next(iter(TESTS))
"""The default test: many download flows, then many upload flows. A path model needs loads of single
directions.
"""

SIMULATED = [DEFAULT, "bidir", "rrul", "rrul_be"]
"""The tests that the simulator runs on the path of a scenario."""

LOADER = "cubic"
"""Default congestion control. Every Linux host has CUBIC, and CUBIC fills buffers, which shows most
properties of a path.
"""

Progress = Callable[[float, float], object]


class Interrupted(KeyboardInterrupt):
    """A measurement was stopped by Ctrl-C, SIGTERM or SIGHUP after it had begun.

    Attributes:
        measured: The measurement so far.
        said: Notes of `narrows-host`.
    """

    def __init__(self, measured: Measurement, said: list[str]) -> None:
        """Stores the results up to the time of the signal."""
        super().__init__()
        self.measured = measured
        self.said = said


def measure(
    host: str,
    arguments: Sequence[str] = (),
    *,
    test: str = DEFAULT,
    progress: Progress | None = None,
    interval: Callable[[Interval], object] | None = None,
) -> tuple[Measurement, list[str]]:
    """Measures a path; returns the measurement and the notes of `narrows-host`.

    Args:
        host: A name, an address, or the URL of an object to download.
        arguments: Options of `narrows-host measure`.
        test: One of `TESTS`.
        progress: Called periodically with the elapsed time and the end time, in s; its exceptions
            stop the measurement.
        interval: Called with each interval, if `arguments` request them.

    Raises:
        EngineError: If the path cannot be measured. If only a later part of the test fails, a note
            reports this failure instead.
        Interrupted: If the user stopped the measurement. This exception contains the results so
            far, and is a `KeyboardInterrupt`.
    """
    if test == DEFAULT and host.startswith(("http://", "https://")):
        # A web server only sends, with its own congestion control.
        test = TESTS[DEFAULT][0]
    parts = TESTS[test]
    if len(parts) > 1 and "--cc" not in arguments:
        arguments = [*arguments, "--cc", LOADER]
    done: list[Measurement] = []
    said: list[str] = []
    for at, part in enumerate(parts):
        tell = None if progress is None else _part(progress, at, len(parts))
        begin = sum(_end(one) for one in done)
        try:
            text, beside = live.measure(
                [host, "--test", part, *_limited(arguments, done, len(parts))],
                tell,
                None if interval is None else _later(interval, begin),
            )
        except EngineError as error:
            if not done:
                raise
            said.append(f"the test {part} failed: {error}")
            break
        except KeyboardInterrupt:
            # The next part had not begun: the previous ones are complete.
            if not done:
                raise
            data: DataJson = done[-1].json.get("data") or {}
            data["stopped_by"] = "user"
            done[-1].json["data"] = data
            break
        done.append(Measurement.parse(text, "the measurement"))
        said += [beside] if beside else []
        if done[-1].stopped_by in _FINAL:
            break
    measured = joined(done, test)
    if done[-1].interrupted:
        raise Interrupted(measured, said)
    return measured, said


def _limited(arguments: Sequence[str], done: Sequence[Measurement], parts: int) -> list[str]:
    """The arguments of the next part of the test. The limit of data of the next part is a share of
    what the earlier parts left of `--max-data`.
    """
    words = (
        [*arguments, "--parts", str(parts - len(done))]
        if parts > len(done) + 1
        else list(arguments)
    )
    most = (done[0].json.get("asked") or {}).get("max_data_bytes") if done else None
    if most is not None:
        moved = sum(int((one.json.get("data") or {}).get("moved_bytes") or 0) for one in done)
        words += ["--max-data", f"{max(1, most - moved)}B"]
    return words


def simulated(
    file: str,
    passed: Mapping[str, str | None],
    *,
    test: str = DEFAULT,
    progress: Progress | None = None,
) -> Measurement:
    """Measures the path of a scenario in the simulator, as a client of a real path would.

    Raises:
        NarrowsError: If the file is not a scenario, or an option applies only to real paths.
    """
    odd = [name for name, value in passed.items() if value and name not in {"streams", "cc"}]
    if odd or test not in SIMULATED:
        what = f"--{odd[0].replace('_', '-')}" if odd else f"--test {test}"
        raise NarrowsError(
            f"{what}: not supported for a scenario file, only for a host\n"
            f"    write: narrows measure {file}, with --streams and --cc as needed, and --test "
            f"{listed(SIMULATED, 'or')}"
        )
    scenario = load(file)
    path = scenario.path
    if path is None:
        raise NarrowsError(f"{file}: the scenario has no [path], which a measurement needs")
    directions: tuple[Direction, ...] = ("down", "up") if path.reverse is not None else ("down",)
    together = test != DEFAULT
    if together and len(directions) == 1:
        raise NarrowsError(
            f"--test {test}: loads both directions, but the scenario has no [path.reverse]; add it"
        )
    streams, most = passed.get("streams") or str(registry.streams(test)), registry.most_streams()
    if not streams.isdecimal() or not 1 <= int(streams) <= most:
        raise NarrowsError(f"--streams {streams}: not a number from 1 to {most}")
    cc = passed.get("cc") or LOADER
    if "," in cc:
        raise NarrowsError(
            f"--cc {cc}: the measurement of a scenario has one congestion control; write --cc "
            f"{cc.partition(',')[0]}"
        )
    registry.check_cc("--cc", cc)
    plan = Plan(
        cc=cc,
        streams=int(streams),
        directions=directions,
        at_once=together,
        dscps=RRUL if test == "rrul" else ("BE",),
        test=test if together else "simulated",
    )
    measured = play(path, plan, progress=progress)
    asked: AskedJson = measured.json.get("asked") or {}
    stated = {**asked, "host": file, "flows_left_out": len(scenario.flows)}
    return Measurement.of({**measured.json, "asked": stated})


def _part(progress: Progress, at: int, of: int) -> Progress:
    return lambda now, end: progress(at * end + now, of * end)


def _later(interval: Callable[[Interval], object], by_s: float) -> Callable[[list[str]], object]:
    return lambda words: interval(Interval.of(words).later(by_s))


_FINAL = frozenset({"user", "lost", "circuit_breaker"})
"""Reasons for which no further part of a test follows."""

_LISTS: tuple[Literal["phases", "flows", "pings"], ...] = ("phases", "flows", "pings")
_AMOUNTS: tuple[Literal["planned_bytes", "moved_bytes"], ...] = ("planned_bytes", "moved_bytes")


def joined(parts: Sequence[Measurement], test: str) -> Measurement:
    """Joins consecutive measurements on one time axis. `_add` combines amounts of data and errors,
    and all other values come from the first measurement.
    """
    whole = copy.deepcopy(parts[0].json)
    if len(parts) > 1:
        asked: AskedJson = whole.get("asked") or {}
        whole["asked"] = asked | {"test": test}
    end = _end(parts[0])
    for part in parts[1:]:
        more = copy.deepcopy(part.json)
        for phase in more.get("phases") or []:
            phase["from_s"] += end
            phase["to_s"] += end
        for flow in more.get("flows") or []:
            flow["from_s"] += end
            flow["to_s"] += end
            _shift(flow, end)
        for train in more.get("pings") or []:
            _shift(train, end)
        for key in _LISTS:
            whole[key] = [*(whole.get(key) or []), *(more.get(key) or [])]
        _add(whole, more)
        end += _end(part)
    return summarized(Measurement.of(whole))


def summarized(measured: Measurement) -> Measurement:
    """Adds the latency distributions that all commands use to the JSON of the measurement."""
    measured.json["latency_ms"] = (measured.json.get("latency_ms") or {}) | measured.latency_json()
    return measured


def _end(measured: Measurement) -> float:
    times = [p.to_s for p in measured.phases] + [f.to_s for f in measured.flows]
    return max([*times, *(t for train in measured.pings for t, _ in train.rtts())], default=0.0)


def _shift(row: JsonObject, by: float) -> None:
    at = row["columns"].index("t_s") if "t_s" in (row.get("columns") or []) else None
    for sample in row.get("samples") or []:
        if at is not None and sample[at] is not None:
            sample[at] = round(sample[at] + by, 6)


def _add(whole: MeasurementJson, more: MeasurementJson) -> None:
    """Adds the amounts of data of `more` to those of `whole`, and keeps the larger one of each
    error.
    """
    data, also = whole.get("data"), more.get("data")
    if data and also:
        for key in _AMOUNTS:
            data[key] = (data.get(key) or 0) + (also.get(key) or 0)
        most = (whole.get("asked") or {}).get("max_data_bytes")
        if most:
            # The second part may use the rest of the first part's share.
            data["planned_bytes"] = min(data["planned_bytes"] or 0, most)
        if data.get("stopped_by") == "duration" or also.get("stopped_by") in _FINAL:
            data["stopped_by"] = also.get("stopped_by")
    error, worse = whole.get("own_error"), more.get("own_error")
    if error and worse:
        late, later = error.get("lateness_ms") or {}, worse.get("lateness_ms") or {}
        error["lateness_ms"] = {
            "p50": max(late.get("p50") or 0, later.get("p50") or 0),
            "p99": max(late.get("p99") or 0, later.get("p99") or 0),
            "max": max(late.get("max") or 0, later.get("max") or 0),
        }
        said = [*(error.get("notes") or []), *(worse.get("notes") or [])]
        error["notes"] = list(dict.fromkeys(said))
        leaving, left = error.get("leaving_ms"), worse.get("leaving_ms")
        if leaving is not None and left is not None:
            error["leaving_ms"] = max(leaving, left)
        error["socket_drops"] = max(error.get("socket_drops") or 0, worse.get("socket_drops") or 0)
        error["cpu_pct"] = max(error.get("cpu_pct") or 0, worse.get("cpu_pct") or 0)
