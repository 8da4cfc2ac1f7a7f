"""Sealed forecasts: predictions that are stored before a change, and their later scores.

The file `forecasts.jsonl` beside the history has one JSON object per line, and lines are only
appended (`storage.Chain`). Each line has its own SHA-256 and that of the line before it, so that a
changed line is detected. The owner of the file could rewrite all of it. Each hash is therefore also
written to the system log. `narrows advise` prints the hash of its forecast, and `narrows record`
that of the last line. `narrows record --verify HASH` reports whether the file still has the line
with that hash.

A line is a forecast or the score of a forecast.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, cast

from narrows import operating_system
from narrows.errors import NarrowsError, OutputError, reason
from narrows.measure import history
from narrows.measure.result import DIRECTIONS, Direction, Measurement, short
from narrows.measure.simulated import Plan, watch
from narrows.measure.summary import outages
from narrows.storage import json_kinds
from narrows.storage.durable import Chain
from narrows.storage.json_kinds import flag, number, rows, table, text, whole, word

if TYPE_CHECKING:
    from narrows.advise.candidates import Candidate
    from narrows.advise.model import (
        ForecastFigureJson,
        ForecastJson,
        JudgedJson,
        LineJson,
        LoadJson,
        ScoredJson,
    )
    from narrows.advise.verdict import Advice


SEEDS = 6
"""Number of simulated measurements of each variant of the path without the change, and number with
it.
"""

OWN = 0.05
"""Share by which each end of an interval is moved outwards, for the difference between simulation
and real path.
"""

LEAST = {"rate_mbit": 0.0, "loaded_p95_ms": 1.0, "again_pct": 0.1}
"""Amount by which each end of an interval is moved outwards in addition, in the unit of the metric.
"""

FIGURES = {"rate_mbit": "Mbit/s", "loaded_p95_ms": "ms", "again_pct": "%"}
"""Metrics that are forecast for a measured path, with their units."""

LABELS = {
    "rate_mbit": "goodput Mbit/s",
    "goodput_mbit": "goodput Mbit/s",
    "loaded_p95_ms": "RTT under load p95 ms",
    "p95_ms": "RTT under load p95 ms",
    "again_pct": "retransmission rate %",
}
"""Names of the metrics in tables and sentences."""

UNLIKE = 0.25
"""Maximum difference between the simulation of a variant and the measurement (`_unlike`). Variants
with a larger difference are not used, unless all have one; then only the nearest is used.
"""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A forecast metric and its measured value.

    Attributes:
        name: Name of the metric.
        low: Lower end of the forecast interval.
        high: Upper end of the forecast interval.
        measured: Measured value.
    """

    name: str
    low: float
    high: float
    measured: float

    @property
    def hit(self) -> bool:
        """Whether the measured value is in the interval."""
        return self.low <= self.measured <= self.high

    def json(self) -> JudgedJson:
        """The JSON object."""
        return {
            "name": self.name,
            "low": self.low,
            "high": self.high,
            "measured": self.measured,
            "hit": self.hit,
        }


def file() -> Path:
    """The file of the forecasts, beside the history."""
    return history.file().with_name("forecasts.jsonl")


def seen(measured: Measurement, direction: str) -> dict[str, float]:
    """The measured values of the metrics in `FIGURES` for one direction; metrics that the
    measurement does not have are left out.
    """
    of: Any = direction
    out: dict[str, float | None] = {"rate_mbit": measured.rate_mbit(of)}
    out["loaded_p95_ms"] = measured.under_load(of).p95
    again = [f.figure("retransmit_rate") for f in measured.flows if f.direction == direction]
    known = [rate for rate in again if rate is not None]
    out["again_pct"] = 100 * fmean(known) if known else None
    return {name: value for name, value in out.items() if value is not None}


def forecast(advice: Advice, measured: Measurement | None) -> ForecastJson:
    """The forecast, with an interval for each metric. For a measured path, the forecast predicts a
    repetition of the measurement after the change. For a stated path, the forecast has the
    simulated values.
    """
    choice, asked = advice.choice, advice.found.asked
    direction: Direction = "down" if measured is None else _direction(measured, asked.role)
    figures: list[ForecastFigureJson] = (
        _measured_again(advice, measured, direction)
        if measured is not None
        else [
            {
                "name": e.name,
                "before": short(e.before),
                "low": short(e.before + e.low),
                "high": short(e.before + e.high),
            }
            for e in advice.effects
            if e.name in {"goodput_mbit", "p95_ms", "again_pct"} and not advice.leave
        ]
    )
    return {
        "kind": "forecast",
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "host": "" if measured is None else measured.host,
        "measurement": "" if measured is None else measured.id,
        "way": direction,
        "load": None if measured is None else {**_load(measured, direction), **_changes(choice)},
        "path": asked.place.json(),
        "as": asked.role,
        "for": list(asked.cares),
        "now": asked.now,
        "choice": {
            "key": choice.key,
            "cc": choice.cc,
            "queue": choice.queue,
            "shaper_share": choice.share,
        },
        "leave": advice.leave,
        "runs": len(advice.found.trials),
        "figures": figures,
    }


def _load(measured: Measurement, direction: str) -> LoadJson:
    """The load of a direction: number of concurrent flows, their congestion control (None for
    several), and whether both directions were loaded at the same time.
    """
    flows = [flow for flow in measured.flows if flow.direction == direction]
    ccs = sorted({flow.cc for flow in flows if flow.cc})
    spans = measured.loads("up" if direction == "up" else "down")
    return {
        "flows": len(flows) // max(1, len(spans)),
        "cc": ccs[0] if len(ccs) == 1 else None,
        "both_ways": measured.together,
        **({"family": measured.family} if measured.family else {}),
    }


def _changes(choice: Candidate) -> LoadJson:
    return {} if choice.present or choice.cc is None else {"cc": choice.cc}


def _direction(measured: Measurement, role: str) -> Direction:
    directions: list[Direction] = [
        direction
        for direction in DIRECTIONS
        if any(flow.direction == direction for flow in measured.flows)
    ]
    return (directions[0] if role == "sender" else directions[-1]) if directions else "down"


def _measured_again(
    advice: Advice, measured: Measurement, direction: Direction
) -> list[ForecastFigureJson]:
    """Simulates the measurement without and with the change. The ends of an interval are the
    measured value multiplied by the 5th and 95th percentile of the simulated ratios (after /
    before). `OWN` and `LEAST` widen the interval.
    """
    found = advice.found
    flows = [flow for flow in measured.flows if flow.direction == direction]
    span = max((flow.to_s - flow.from_s for flow in flows), default=10.0)
    ping = next((train.interval_ms for train in measured.pings if train.interval_ms), 20.0)
    cc = next((flow.cc for flow in flows if flow.cc), found.asked.now)
    before = seen(measured, direction)
    tried: list[tuple[float, dict[str, list[float]]]] = []
    for variant in found.asked.place.variants:
        played: list[list[dict[str, float]]] = []
        for nth, candidate in enumerate((found.candidates[found.present], advice.choice)):
            # If a congestion control is recommended, the measurement after the change uses it
            # (--cc).
            used = (candidate.cc if not candidate.present else None) or cc
            plan = Plan(cc=used, streams=max(1, len(flows)), idle_s=1.0, load_s=span, pause_s=0.5,
            ping_ms=ping,
                        directions=("down",))  # fmt: skip
            path = candidate.on(variant.path, found.asked.place.rate_mbit)
            seeds = range(found.asked.seed + nth * SEEDS, found.asked.seed + (nth + 1) * SEEDS)
            played.append([seen(watch(path, plan, seed=seed), "down") for seed in seeds])
        # Simulations before and after have different seeds and independent random variation, so the
        # ratios of all pairs are used.
        ratios = {
            name: [
                after[name] / earlier[name]
                for earlier in played[0]
                for after in played[1]
                if earlier.get(name) and name in after
            ]
            for name in before
        }
        tried.append((_unlike(before, played[0]), ratios))
    # Variants that do not reproduce the measurement are not used, unless none reproduces it.
    likely = [ratios for unlike, ratios in tried if unlike <= UNLIKE] or [
        min(tried, key=lambda one: one[0])[1]
    ]
    ratios = {name: [value for one in likely for value in one[name]] for name in before}
    out: list[ForecastFigureJson] = []
    for name, values in ratios.items():
        if values:
            order = sorted(values)
            low, high = (
                order[math.floor(0.05 * len(order))],
                order[math.ceil(0.95 * len(order)) - 1],
            )
            least = LEAST[name]
            bounds = (
                max(0.0, low * (1 - OWN) * before[name] - least),
                high * (1 + OWN) * before[name] + least,
            )
            out.append(
                {
                    "name": name,
                    "before": short(before[name]),
                    "low": short(bounds[0]),
                    "high": short(bounds[1]),
                }
            )
    return out


def _unlike(before: Mapping[str, float], played: Sequence[Mapping[str, float]]) -> float:
    """Difference between the simulations of a variant and the measurement: the absolute natural
    logarithm of the ratio of mean simulated to measured value. The larger one of the differences in
    goodput and in p95 RTT under load is returned.
    """
    off = []
    for name in ("rate_mbit", "loaded_p95_ms"):
        values = [one[name] for one in played if one.get(name)]
        if values and before.get(name):
            off.append(abs(math.log(fmean(values) / before[name])))
    return max(off, default=0.0)


def seal(advice: Advice, measured: Measurement | None = None) -> str:
    """Stores a forecast and returns its hash.

    Raises:
        OutputError: If the forecast cannot be written.
    """
    return _append(forecast(advice, measured))


def score(measured: Measurement, *, forecast: str | None = None) -> list[Judged]:
    """Scores a forecast with a measurement made after the change, and stores the score.

    Args:
        measured: The measurement.
        forecast: Hash of the forecast, or its first digits. By default, the last forecast without a
            score that is for the same host or a stated path, and for the same load.

    Raises:
        NarrowsError: If there is no such forecast, the measurement has another load, or the file
            was changed by hand.
        OutputError: If the score cannot be written.
    """
    lines = list(read())
    scored = {line["forecast"] for line in lines if line["kind"] == "score"}
    fitting = [
        line
        for line in lines
        if line["kind"] == "forecast"
        and (line["hash"].startswith(forecast) if forecast else line["hash"] not in scored)
        and (forecast is not None or not line["host"] or line["host"] == measured.host)
    ]
    if not fitting:
        raise NarrowsError(
            "no forecast that has not been compared yet fits this measurement\n"
            "    write: narrows advise MEASUREMENT"
        )
    unlike = {line["hash"]: _other_load(line, measured) for line in fitting}
    alike = [line for line in fitting if not unlike[line["hash"]]]
    if not alike:
        last = fitting[-1]
        raise NarrowsError(
            f"forecast {last['hash'][:12]} ({_named(last)}) cannot be compared with this "
            f"measurement: {unlike[last['hash']]}"
        )
    return _judge(alike[-1], measured)


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A forecast with its score, or with the reason why it has none.

    Attributes:
        forecast: Hash of the forecast.
        key: Key of the recommended change, or `no change`.
        judged: The metrics of the forecast with their measured values; empty if it was not scored.
        why: The reason why the forecast was not scored; empty if it was scored.
    """

    forecast: str
    key: str
    judged: tuple[Judged, ...] = ()
    why: str = ""

    def json(self) -> ScoredJson:
        """The JSON object."""
        return {
            "forecast": self.forecast,
            "choice": self.key,
            "figures": [one.json() for one in self.judged],
            "not_scored": self.why or None,
        }


def score_open(measured: Measurement, *, queue: str | None = None) -> list[Scored]:
    """Scores every open forecast for the same host that this later measurement can score, and
    stores the scores.

    A forecast applies to a repetition of the same load after the change. The load must have the
    direction, the number of flows, the congestion control and the address family of the forecast.
    Both or neither must load two directions at the same time. A measurement does not show the queue
    discipline of the host. A forecast for another queue discipline than `queue`, which is known to
    be in use, or for a shaper is therefore not scored.

    Raises:
        NarrowsError: If the file was changed by hand.
        OutputError: If a score cannot be written.
    """
    lines = list(read())
    done = {line["forecast"] for line in lines if line["kind"] == "score"}
    out = []
    for line in lines:
        if line["kind"] != "forecast" or line["hash"] in done or not _later(line, measured):
            continue
        why = _unlike_load(line, measured, queue)
        judged = () if why else tuple(_judge(line, measured))
        out.append(Scored(forecast=line["hash"], key=_named(line), judged=judged, why=why))
    return out


def _named(line: ForecastJson) -> str:
    return "no change" if line["leave"] else str(line["choice"]["key"])


def _later(line: ForecastJson, measured: Measurement) -> bool:
    """Whether the measurement is of the host of the forecast, was started after the forecast, was
    not stopped early, and had no outage.
    """
    if not line["host"] or line["host"] != measured.host or line["measurement"] == measured.id:
        return False
    try:
        started, at = (datetime.fromisoformat(text) for text in (measured.started, line["at"]))
    except ValueError:
        return False
    # A date without a time zone is interpreted as UTC.
    started, at = (
        when if when.tzinfo else when.replace(tzinfo=timezone.utc) for when in (started, at)
    )
    return started >= at and measured.stopped_by not in {"user", "lost"} and not outages(measured)


def _other_load(line: ForecastJson, measured: Measurement) -> str:
    """The difference between the load of a measurement and that of a forecast; empty if none."""
    direction, choice = line["way"], line["choice"]
    wanted = line.get("load") or {"cc": choice.get("cc") or line.get("now")}
    if not any(flow.direction == direction for flow in measured.flows):
        return f"it is for the direction {direction}, which this measurement did not load"
    load = _load(measured, direction)
    if wanted.get("cc") is not None and load["cc"] != wanted["cc"]:
        return (
            f"it is for a load with {wanted['cc']}, and this load was with "
            f"{load['cc'] or 'several congestion controls'}; write --cc {wanted['cc']}"
        )
    if wanted.get("flows") not in {None, load["flows"]}:
        return (
            f"it is for {wanted['flows']} flows, and this load had {load['flows']}; "
            f"write --streams {wanted['flows']}"
        )
    families = wanted.get("family"), load.get("family")
    if None not in families and families[0] != families[1]:
        return (
            f"it is for {families[0]}, and this load used {families[1]}; write --ip "
            f"{str(families[0])[-1]}"
        )
    if wanted.get("both_ways") not in {None, load["both_ways"]}:
        return (
            "it is for another test: one of the tests loads both directions at the same time, the "
            "other does not"
        )
    return ""


def _unlike_load(line: ForecastJson, measured: Measurement, queue: str | None) -> str:
    """The reason why a measurement cannot score a forecast; empty if it can."""
    if why := _other_load(line, measured):
        return why
    choice = line["choice"]
    discipline, share = choice.get("queue"), choice.get("shaper_share")
    if (
        not line["leave"]
        and (discipline is not None or share is not None)
        and not (share is None and queue == discipline)
    ):
        return (
            "a measurement does not show whether its queue discipline is in use; if it is, run "
            f"narrows record --score FILE --forecast {line['hash'][:12]}"
        )
    return ""


def sentences(scored: Sequence[Scored]) -> list[str]:
    """The scores of open forecasts as sentences."""
    out = []
    for one in scored:
        name = f"The sealed forecast {one.forecast[:12]} ({one.key})"
        if one.why:
            out.append(f"{name} is not scored: {one.why}.")
            continue
        hits = sum(judged.hit for judged in one.judged)
        figures = [
            f"{LABELS.get(j.name, j.name)} {j.measured:.4g} ({'within' if j.hit else 'outside'} "
            f"{j.low:.4g} to {j.high:.4g})"
            for j in one.judged
        ]
        out.append(
            f"{name} is scored: {hits} of {len(one.judged)} metrics were within their intervals; "
            f"{', '.join(figures)}."
        )
    return out


def _judge(of: ForecastJson, measured: Measurement) -> list[Judged]:
    """Compares the metrics of a forecast with their measured values, stores this score and returns
    it.
    """
    found = seen(measured, of["way"])
    found |= {"goodput_mbit": found["rate_mbit"]} if "rate_mbit" in found else {}
    found |= {"p95_ms": found["loaded_p95_ms"]} if "loaded_p95_ms" in found else {}
    judged = [
        Judged(name=f["name"], low=f["low"], high=f["high"], measured=found[f["name"]])
        for f in of["figures"]
        if f["name"] in found
    ]
    _append({
        "kind": "score",
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "forecast": of["hash"],
        "measurement": measured.id,
        "figures": [one.json() for one in judged],
    })  # fmt: skip
    return judged


def chain() -> Chain:
    """The stored forecasts and scores."""
    return Chain(file())


_FORECAST = table({"name": text, "low": number, "high": number}, required=("name", "low", "high"))
_SCORE = table(
    {"name": text, "measured": number, "hit": flag}, required=("name", "measured", "hit")
)
_LINES = {
    "forecast": table(
        {
            "at": text, "host": text, "measurement": text, "way": word("up", "down"), "now": text,
            "leave": flag,
            "load": table({"flows": whole, "cc": text, "both_ways": flag, "family": text}),
            "choice": table({"key": text, "cc": text, "queue": text, "shaper_share": number},
            required=("key",)),
            "figures": rows(_FORECAST),
        },
        required=("at", "host", "measurement", "way", "leave", "choice", "figures"),
    ),
    "score": table(
        {
            "forecast": text,
            "figures": rows(_SCORE),
        },
        required=("forecast", "figures"),
    ),
}  # fmt: skip
"""Fields that are read from each kind of line; later versions of narrows may add kinds of lines."""


def read() -> list[LineJson]:
    """The lines of the file of forecasts, the oldest first; their hashes and fields are checked.

    Raises:
        NarrowsError: If a line was changed after it was written, or has an invalid field.
    """
    lines = chain().lines()
    for at, line in enumerate(lines, 1):
        name = f"{file()}: line {at}"
        json_kinds.check(line, table({"kind": text}, required=("kind",)), name)
        json_kinds.check(line, _LINES.get(line["kind"], table({})), name)
    return cast("list[LineJson]", lines)


def rate(lines: Sequence[LineJson]) -> tuple[int, int]:
    """Number of metrics inside their intervals, and number of scored metrics, over all scores.

    >>> rate([{"kind": "score", "figures": [{"hit": True}, {"hit": False}]}, {"kind": "forecast"}])
    (1, 2)
    """
    hits = [
        figure["hit"] for line in lines if line["kind"] == "score" for figure in line["figures"]
    ]
    return sum(hits), len(hits)


def _append(line: LineJson) -> str:
    try:
        kept = chain().append(line)
    except OSError as error:
        raise OutputError(f"{file()}: {reason(error)}") from error
    # The system log has a copy of the hash: after a rewrite of the file, it still has the old one.
    operating_system.log(f"narrows: {line['kind']} sealed, hash {kept}")
    return kept
