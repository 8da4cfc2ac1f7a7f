"""Renders a measurement as sentences, tables, pictures and a report page.

`measure.summary` and `path_model` compute the values.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from narrows import __version__
from narrows.measure.result import DIRECTIONS, Direction, Flow, Measurement, Spread
from narrows.measure.summary import FEWEST_PINGS, SCALE, Answer, answer
from narrows.render.model import PageJson, PageRunJson
from narrows.render.picture import TIME, Line, Picture
from narrows.render.report import drawn
from narrows.render.styled import table
from narrows.render.tables import Cell, Table
from narrows.render.words import listed, millis, number, percent

if TYPE_CHECKING:
    from rich.console import Console

    from narrows.path_model import DirectionModel, Known, PathModel
    from narrows.render.run import Part

_SPREAD = ("min", "mean", "p50", "p95", "p99", "max")
_MOST_FLOWS = 4
"""Number of flows that are named or drawn individually (drawn: per direction)."""

_LATE_MS = 1.0
_BUSY_PCT = 80.0

_LOADS: dict[Direction, str] = {"down": "download", "up": "upload"}
_BOTH = "both directions"


def sentences(measured: Measurement) -> list[str]:
    """The results in sentences, the most important ones first."""
    said = answer(measured)
    return [
        *_ended(measured),
        *_outages(said),
        *_rates(said),
        *_datagrams(measured),
        *_latency(said),
        *_voip(measured),
        *_page(measured),
        *_held_back(measured),
    ]


def _ended(measured: Measurement) -> list[str]:
    """The reason for a premature end of the measurement."""
    after = max((phase.to_s for phase in measured.phases), default=0.0)
    most = (measured.json.get("asked") or {}).get("max_data_bytes")
    data = f" of {most / 1e6:g} MB" if isinstance(most, int | float) else ""
    why = {
        "user": "was stopped",
        "max_data": f"reached its data limit (--max-data{data})",
        "peer": "was ended by the far host",
        "lost": "lost contact with the far host",
    }.get(measured.stopped_by)
    if not why:
        return []
    return [f"The measurement {why} after {number(after, 1)} s; the results end at that time."]


def _outages(said: Answer) -> list[str]:
    out = []
    for outage in said.outages:
        until = f"to {number(outage.to_s, 1)} s" if outage.ended else "to the end"
        span = f"from {number(outage.from_s, 1)} s {until}"
        what = (
            f"No ping was answered {span}, but data arrived"
            if outage.data_arrived
            else f"Connectivity was lost {span}: no ping was answered and no data arrived"
        )
        out.append(f"{what}. The measurement has no bufferbloat grade.")
    return out


def _datagrams(measured: Measurement) -> list[str]:
    """Counts, rates and loss of a UDP load."""
    told = measured.json.get("udp_load") or {}
    if not isinstance(sent := told.get("sent"), int):
        return []
    direction = _LOADS["up" if told.get("direction") == "up" else "down"]
    words = f"The UDP {direction} sent {sent:,} datagrams at {_mbit(told.get('sent_mbit'))}"
    if isinstance(received := told.get("received"), int):
        words += f"; {received:,} arrived at {_mbit(told.get('received_mbit'))}"
    else:
        words += "; the number of received datagrams is unknown"
    loss = told.get("loss")
    words += f"; {percent(float(loss))} were lost" if isinstance(loss, int | float) else ""
    unsent = told.get("unsent")
    rest = (
        [f"This host dropped {unsent:,} further datagrams because its queue was full."]
        if isinstance(unsent, int) and unsent
        else []
    )
    return [f"{words}.", *rest]


def _mbit(rate: object) -> str:
    return (
        f"{number(float(rate), 2)} Mbit/s" if isinstance(rate, int | float) else "an unknown rate"
    )


def _rates(said: Answer) -> list[str]:
    told = [
        f"{number(rate, 2)} Mbit/s ({_LOADS[direction]})"
        for direction in DIRECTIONS[::-1]
        if (rate := said.rates_mbit.get(direction)) is not None
    ]
    return [f"The goodput was {listed(told)}."] if told else []


def _increase(said: Answer) -> str:
    """The mean RTTs idle and under load, in each direction if both were loaded in sequence, and the
    increase.
    """
    loaded = sorted(said.loaded.items())
    means = {way: spread.mean for way, spread in loaded if spread.mean is not None}
    idle, more = millis(said.idle.mean), millis(said.increase_ms)
    if len(means) < 2 or said.together:  # noqa: PLR2004
        under = next(iter(means.values()), said.every.mean)
        return f"from {idle} to {millis(under)} ms (+{more} ms)"
    parts = [f"{millis(mean)} ms during the {_LOADS[way]}" for way, mean in means.items()]
    return f"from {idle} ms to {listed(parts)} (+{more} ms on average)"


def _latency(said: Answer) -> list[str]:
    out = []
    graded = said.increase_ms is not None and said.grade is not None
    if graded:
        out.append(
            f"Load increased the mean RTT {_increase(said)}: bufferbloat grade {said.grade}."
        )
    elif said.increase_ms is not None and said.too_few and not said.outages:
        counts = "{} idle and {} under load".format(*said.too_few)
        out.append(
            f"Too few pings were answered for a bufferbloat grade: {counts}; the grade needs "
            f"{FEWEST_PINGS} of each."
        )
    if said.idle.p50 is not None:
        out.append(f"The idle RTT was {_spread(said.idle)}.")
    if len(said.loaded) > 1 and not said.together:
        out += [
            f"The RTT during the {_LOADS[direction]} was {_spread(said.loaded[direction])}."
            for direction in DIRECTIONS[::-1]
        ]
    elif said.every.p50 is not None:
        out.append(f"The RTT under load was {_spread(said.every)}.")
    if graded:
        idle = f" and {60_000 / said.idle.mean:.0f} idle" if said.idle.mean else ""
        out += [
            f"Round trips per minute (60 s / mean RTT): {number(said.trips_per_minute, 0)} under "
            f"load{idle}.",
            f"Grades of the RTT increase (DSLReports scale): {SCALE}.",
        ]
    for share, when in zip(said.lost, ("while idle", "under load"), strict=True):
        if share:
            out.append(f"{percent(share)} of the pings {when} were not answered.")
    return out


def _spread(spread: Spread) -> str:
    rest = (("p95", spread.p95), ("p99", spread.p99), ("max", spread.max))
    known = [f"{name} {millis(value)} ms" for name, value in rest if value is not None]
    more = f"; {', '.join(known)}" if known else ""
    return f"{millis(spread.p50)} ms (median{more})"


def _voip(measured: Measurement) -> list[str]:
    """The estimated quality of a call: the lower score of the two directions."""
    told = measured.json.get("voip") or {}
    scores = []
    for phase, when in (("idle", "idle"), ("loaded", "under load")):
        directions = [
            direction.get("mos")
            for direction in (told.get(phase) or {}).values()
            if isinstance(direction, dict)
        ]
        known = [float(mos) for mos in directions if isinstance(mos, int | float)]
        scores += [f"{min(known):.1f} {when}"] if known else []
    return (
        [f"The estimated voice quality is MOS {listed(scores)} (E-model, scale 1 to 4.4)."]
        if scores
        else []
    )


def _page(measured: Measurement) -> list[str]:
    told = measured.json.get("page") or {}
    out, failed, waited = [], 0, []
    for phase, when in (("idle", "without load"), ("loaded", "under load")):
        took = told.get(f"{phase}_s") or {}
        if isinstance(took.get("p50"), int | float):
            out.append(f"{millis(took['p50'] * 1e3)} ms {when}")
        if isinstance(took.get("waiting_share"), int | float):
            waited.append(f"{percent(took['waiting_share'])} {when}")
        failed += took["failed"] if isinstance(took.get("failed"), int) else 0
    lost = [f"{failed} {'page' if failed == 1 else 'pages'} failed to load."] if failed else []
    turns = " in sequence" if told.get("connections") == 1 and told.get("objects") != 1 else ""
    said = (
        [f"A page of {told.get('objects')} objects{turns} loaded in {listed(out)} (median)."]
        if out
        else []
    )
    said += (
        [f"The time to first byte was {listed(waited)} of the load time of its objects."]
        if waited
        else []
    )
    return [*said, *lost]


def _held_back(measured: Measurement) -> list[str]:
    """Flows whose rate a host limited instead of the path."""
    out = []
    for key, what in (
        ("rwnd_limited_pct", "receive window"),
        ("sndbuf_limited_pct", "send buffer"),
    ):
        held = [f.id for f in measured.flows if (f.figure(key) or 0) > _BUSY_PCT / 4]
        if held:
            flows, was = ("flow", "was") if len(held) == 1 else ("flows", "were")
            rest = [f"{len(held) - _MOST_FLOWS} more"] if len(held) > _MOST_FLOWS else []
            ids = listed([*held[:_MOST_FLOWS], *rest])
            out.append(f"The {flows} {ids} {was} limited by the {what}, not by the path.")
    return out


def own_error(measured: Measurement) -> str:
    """The error of the measurement itself, in one or two sentences."""
    if (measured.json.get("peer") or {}).get("speaks") == "simulator":
        unused = (measured.json.get("asked") or {}).get("flows_left_out")
        alone = (
            " The flows of the scenario were left out; only its path was measured."
            if unused
            else ""
        )
        return f"The simulator ran this measurement, so it has no measurement error.{alone}"
    told = measured.json.get("own_error") or {}
    late = told.get("lateness_ms") or {}
    parts = []
    if late.get("p99") is not None:
        p50, p99, most = (
            number(value, 2) for value in (late.get("p50"), late.get("p99"), late.get("max"))
        )
        parts.append(f"pings left {p50} ms late (median; p99 {p99} ms, max {most} ms)")
    if told.get("socket_drops") is not None:
        drops = told["socket_drops"]
        count = "no packets" if not drops else "1 packet" if drops == 1 else f"{drops} packets"
        parts.append(f"the sockets dropped {count}")
    if told.get("cpu_pct") is not None:
        parts.append(f"narrows used {number(told['cpu_pct'], 0)} % of a CPU")
    clock = told.get("clock")
    if isinstance(clock, dict) and clock.get("kind"):
        off = (
            "the clocks of both hosts were compared with an error of "
            f"{number(clock.get('error_ms'), 2)} ms"
        )
        known = {
            "common": "both ends use the same clock",
            "none": "the clocks of both hosts were not compared",
        }
        parts.append(known.get(str(clock["kind"]), off))
    if not parts:
        return "The measurement has no information about its own error."
    doubt = []
    if (late.get("p99") or 0) > _LATE_MS:
        doubt.append("Latencies of a few ms are therefore unreliable.")
    if (told.get("cpu_pct") or 0) > _BUSY_PCT:
        doubt.append("The CPU of this host may have been the bottleneck.")
    return " ".join([f"Measurement error: {', '.join(parts)}.", *doubt])


def notes(measured: Measurement) -> list[str]:
    """The notes of the measuring program, one sentence each."""
    told = (measured.json.get("own_error") or {}).get("notes") or []
    return [f"{note[:1].upper()}{note[1:]}." for note in told if isinstance(note, str) and note]


def latencies(measured: Measurement) -> Table:
    """A row for the idle phase and one for each load."""
    said = answer(measured)
    rows = [("idle", said.idle, "latency_ms.idle")]
    if said.together or not said.loaded:
        rows.append((_BOTH if said.together else "load", said.every, "latency_ms.loaded"))
    else:
        rows += [
            (_LOADS[direction], said.loaded[direction], f"latency_ms.{direction}")
            for direction in DIRECTIONS[::-1]
            if direction in said.loaded
        ]
    loads: dict[str, str] = dict(_LOADS.items())
    rows += [
        (
            f"{loads.get(direction, _BOTH)}, {cc}",
            spread,
            f"latency_by_cc_ms.{cc}.{direction}",
        )
        for cc, directions in said.by_cc.items()
        for direction, spread in directions.items()
    ]
    cells = [
        [
            Cell(name),
            *(Cell(millis(getattr(s, k)), f"{at}.{k}") for k in _SPREAD),
            Cell(str(s.n), f"{at}.n"),
        ]
        for name, s, at in rows
        if s.mean is not None
    ]
    return Table("RTT", ("RTT of pings",), (*(f"{k} ms" for k in _SPREAD), "pings"), cells)


def flows(measured: Measurement, most: int = 200) -> Table:
    """A row per flow."""
    rows = []
    for i, flow in enumerate(measured.flows[:most]):
        at = f"flows.{i}"
        rtts = flow.told.get("rtt_ms") if isinstance(flow.told.get("rtt_ms"), dict) else {}
        again = flow.figure("retransmits")
        rows.append([
            Cell(flow.id, f"{at}.id"),
            Cell(_LOADS[flow.direction], f"{at}.direction"),
            Cell(flow.cc or "–", f"{at}.cc"),
            Cell(number(flow.goodput_mbit, 2), f"{at}.goodput_mbit"),
            Cell(millis((rtts or {}).get("p50")), f"{at}.rtt_ms.p50"),
            Cell(millis((rtts or {}).get("p95")), f"{at}.rtt_ms.p95"),
            Cell("–" if again is None else f"{again:.0f}", f"{at}.retransmits"),
            Cell(percent(flow.figure("retransmit_rate")), f"{at}.retransmit_rate"),
        ])  # fmt: skip
    return Table(
        "Flows",
        ("flow", "direction", "cc"),
        ("goodput Mbit/s", "RTT p50 ms", "RTT p95 ms", "retransmits", "retransmission rate"),
        rows,
    )


def known(value: Known, unit: str, digits: int, scale: float = 1.0) -> str:
    """A value with its interval.

    >>> from narrows.path_model import Known
    >>> known(Known(20.0, 19.5, 20.4), "Mbit/s", 1), known(Known(None, why="an AQM"), "kB", 0)
    ('20.0 Mbit/s (19.5 to 20.4)', 'unknown: an AQM')
    """
    if value.value is None:
        both = (("at least", value.low), ("at most", value.high))
        ends = [f"{word} {number(end * scale, digits)} {unit}" for word, end in both if end]
        return f"unknown{f' ({listed(ends)})' if ends else ''}: {value.why}"
    text = f"{number(value.value * scale, digits)} {unit}"
    if value.high is None:
        least = f" (at least {number(value.low * scale, digits)})" if value.low is not None else ""
        return f"{text}{least}{f': {value.why}' if value.why else ''}"
    if value.low is None:
        return text
    return f"{text} ({number(value.low * scale, digits)} to {number(value.high * scale, digits)})"


_KINDS = {
    "drop-tail": "drop-tail buffer",
    "policer": "policer",
    "aqm": "AQM with one queue for all flows",
    "fair": "fair queueing, one queue per flow",
}
_CERTAINTY = {"sure": "no other family of queue disciplines fits", "likely": "likely"}


_UNMEASURED = "unknown"


def model_lines(model: PathModel) -> list[str]:
    """The path model in words."""
    out = [
        "Path model, with 90 % intervals in parentheses:",
        f"Base RTT: {known(model.rtt, 'ms', 2)}.",
    ]
    for name, direction in model.directions.items():
        out += [f"{_LOADS[name].capitalize()} {line}" for line in _direction(direction)]
    out.append(f"Cross traffic: {_others(model)}.")
    marks = {
        "ECN negotiated": model.marks.get("negotiated"),
        "DSCP preserved by the path": model.marks.get("dscp_survives"),
    }
    ce = model.marks.get("ce_rate")
    if ce is None and all(told is None for told in marks.values()):
        # As in a simulation.
        return [*out, "ECN, DSCP and CE marks: not measured."]
    for what, told in marks.items():
        out.append(f"{what}: {_UNMEASURED if told is None else 'yes' if told else 'no'}.")
    out.append(f"CE marks: {_UNMEASURED if ce is None else percent(ce) + ' of packets'}.")
    return out


def _others(model: PathModel) -> str:
    """Whether cross traffic was seen, and the directions for which this is unknown."""
    if model.others:
        return listed(
            list(
                dict.fromkeys(
                    f"detected: {one.others.why}"
                    for one in model.directions.values()
                    if one.others.seen
                )
            )
        )
    unknown = {
        name: one.others.why for name, one in model.directions.items() if one.others.seen is None
    }
    if not unknown:
        limits = [one.others.why for one in model.directions.values() if one.others.why]
        return f"none detected; {'; '.join(dict.fromkeys(limits))}" if limits else "none detected"
    directions = listed([_LOADS[name] for name in unknown])
    return f"unknown ({directions}): {'; '.join(dict.fromkeys(unknown.values()))}"


def _direction(model: DirectionModel) -> list[str]:
    varies = {None: "", True: "; the rate varies", False: "; the rate is constant"}[model.varies]
    out = [f"bottleneck rate: {known(model.rate, 'Mbit/s', 2)}{varies}."]
    if model.rate.high is None and model.left.high is not None:
        out.append(f"rate available to this load: {known(model.left, 'Mbit/s', 2)}.")
    if model.sure == "cannot tell":
        return [*out, f"queue: unknown: {model.why}.", _loss(model)]
    sure = f"{_CERTAINTY.get(model.sure, model.sure)}{f': {model.why}' if model.why else ''}"
    out.append(f"queue: {_KINDS[model.family]} ({sure}).")
    if model.family == "drop-tail":
        out.append(f"buffer size: {known(model.depth, 'kB', 0, 1e-3)}.")
    if model.family in ("aqm", "fair"):
        out.append(f"most similar qdisc: {model.guess.kind}.")
        out.append(f"buffer size: unknown: {model.depth.why}.")
    if model.family == "policer":
        out.append(f"burst size: {known(model.burst, 'kB', 0, 1e-3)}.")
    return [*out, _loss(model)]


def _loss(model: DirectionModel) -> str:
    """Random loss in words: packet loss that the queue does not explain."""
    if model.loss.value is None:
        most = f" (at most {percent(model.loss.high)})" if model.loss.high else ""
        return f"random loss: unknown{most}: {model.loss.why}."
    if model.loss.value:
        ends = (
            ""
            if model.loss.high is None
            else f" ({percent(model.loss.low)} to {percent(model.loss.high)})"
        )
        return f"random loss: about {percent(model.loss.value)}{ends}."
    return "random loss: none detected."


def pictures(measured: Measurement) -> list[Picture]:
    """Goodput, RTT, congestion window, retransmits and latency distribution, without empty
    pictures.
    """
    shown = [
        f
        for direction in DIRECTIONS[::-1]
        for f in [f for f in measured.flows if f.direction == direction][:_MOST_FLOWS]
    ]
    left = (
        f" Only the first {_MOST_FLOWS} flows of each direction are drawn."
        if len(shown) < len(measured.flows)
        else ""
    )
    throughput = Picture(
        "throughput", "Goodput", TIME, "goodput (Mbit/s)",
        "Lines: acknowledged payload of each flow per sample interval. Dotted: sum of all flows of "
        f"a direction.{left}",
        [*(_goodput(i, f) for i, f in enumerate(shown)), *_together(measured)],
    )  # fmt: skip
    rtt = Picture(
        "rtt", "Round-trip time", TIME, "RTT (ms)",
        f"Points: pings. Lines: smoothed RTT (srtt) of each sender.{left}",
        [*_pings(measured), *(_column(i, f, "rtt_ms") for i, f in enumerate(shown))],
    )  # fmt: skip
    window = Picture(
        "window", "Congestion window", TIME, "packets", f"Congestion window of each flow.{left}",
        [_column(i, f, "cwnd_packets") for i, f in enumerate(shown)],
    )  # fmt: skip
    losses = Picture(
        "losses", "Retransmits", TIME, "packets, cumulative",
        f"Retransmitted packets of each flow since its start.{left}",
        [_column(i, f, "retransmits") for i, f in enumerate(shown)],
    )  # fmt: skip
    delay = Picture(
        "delay", "Latency distribution", "RTT (ms)", "share of pings",
        "Share of the pings with at most this RTT, idle and under load.",
        list(_distributions(measured)),
    )  # fmt: skip
    every = (throughput, rtt, window, losses, delay)
    for picture in every:
        picture.lines[:] = [line for line in picture.lines if any(y is not None for y in line.y)]
    return [picture for picture in every if picture.lines]


def combined(measured: Sequence[Measurement], names: Sequence[str]) -> list[Picture]:
    """Goodput, RTT of pings and latency distribution of several measurements in the same axes.

    Each measurement has a colour. The goodput of a direction is that of all its flows.
    """
    found: dict[str, Picture] = {}
    lines: dict[str, list[Line]] = {}
    for place, (one, name) in enumerate(zip(measured, names, strict=True)):
        single = {d for d in DIRECTIONS if len([f for f in one.flows if f.direction == d]) == 1}
        alone = {flow.id for flow in one.flows if flow.direction in single}
        for picture in pictures(one):
            if picture.key not in _COMBINED:
                continue
            found.setdefault(picture.key, picture)
            lines.setdefault(picture.key, []).extend(
                replace(line, label=f"{name}: {line.label}", flow=place)
                for line in picture.lines
                if line.flow is None or (picture.key == "throughput" and line.label in alone)
            )
    return [
        replace(
            picture,
            about=f"{_COMBINED[key]} Each measurement has its own colour.",
            lines=lines[key],
        )
        for key, picture in found.items()
    ]


_COMBINED = {
    "throughput": "Goodput of all flows of a direction.",
    "rtt": "RTT of each ping.",
    "delay": "Share of the pings with at most this RTT, idle and under load.",
}


def _column(place: int, flow: Flow, name: str) -> Line:
    rows = [
        (t, y)
        for t, y in zip(flow.columns.get("t_s", ()), flow.columns.get(name, ()), strict=False)
        if t is not None
    ]
    return Line(flow.id, place, "line", [t for t, _ in rows], [y for _, y in rows])


def _goodput(place: int, flow: Flow) -> Line:
    acked = flow.acked()
    steps = [(t1, (b1 - b0) * 8e-6 / (t1 - t0)) for (t0, b0), (t1, b1) in itertools.pairwise(acked)]
    return Line(flow.id, place, "line", [t for t, _ in steps], [rate for _, rate in steps])


def _together(measured: Measurement) -> list[Line]:
    out = []
    for direction in DIRECTIONS[::-1]:
        flows = [f.acked() for f in measured.flows if f.direction == direction]
        if len(flows) < 2:  # noqa: PLR2004 - one is drawn already
            continue
        times: list[float] = []
        rates: list[float | None] = []
        for begin, end in measured.loads(direction):
            # Equal steps of about a second between the first and the last sample, so that every
            # step is full.
            inside = [t for acked in flows for t, _ in acked if begin <= t <= end]
            if not inside or max(inside) <= min(inside):
                continue
            first, last = min(inside), max(inside)
            count = max(1, round(last - first))
            edges = [first + (last - first) * i / count for i in range(count + 1)]
            for t0, t1 in itertools.pairwise(edges):
                bits = 8e-6 * sum(
                    _delivered(acked, t1) - _delivered(acked, t0) for acked in flows if acked
                )
                times.append((t0 + t1) / 2)
                rates.append(bits / (t1 - t0))
            # A gap between two loads.
            times.append(last)
            rates.append(None)
        out.append(Line(f"all, {_LOADS[direction]}", None, "dotted", times, rates))
    return out


def _delivered(acked: Sequence[tuple[float, float]], at: float) -> float:
    """Bytes delivered until a time, interpolated between samples."""
    place = bisect.bisect_right(acked, at, key=lambda row: row[0])
    if place == 0:
        return acked[0][1]
    if place == len(acked):
        return acked[-1][1]
    (t0, b0), (t1, b1) = acked[place - 1], acked[place]
    return b0 + (b1 - b0) * (at - t0) / (t1 - t0)


def _pings(measured: Measurement) -> list[Line]:
    out = []
    for train in measured.pings:
        rows = list(train.rtts())
        out.append(
            Line(
                train.id or "pings", None, "points", [t for t, _ in rows], [rtt for _, rtt in rows]
            )
        )
    return out


def _distributions(measured: Measurement) -> list[Line]:
    out = []
    styles: tuple[Any, ...] = ("dashed", "line", "dotted")
    directions = [(_LOADS[direction], measured.loads(direction)) for direction in DIRECTIONS[::-1]]
    if measured.together:
        directions = [(_BOTH, measured.loads())]
    for style, (name, spans) in zip(
        styles, [("idle", measured.spans("idle")), *directions], strict=False
    ):
        values = sorted(rtt for rtt in measured.rtts(spans) if rtt is not None)
        if values:
            every = max(1, len(values) // 500)
            kept = list(range(every - 1, len(values), every))
            out.append(
                Line(
                    name,
                    None,
                    style,
                    [values[i] for i in kept],
                    [(i + 1) / len(values) for i in kept],
                )
            )
    return out


def parts(measured: Measurement) -> Iterator[Part]:
    """The sentences and tables of a measurement."""
    for at, sentence in enumerate(sentences(measured)):
        yield (sentence, "bold") if at == 0 else sentence
    yield from (shown for shown in (latencies(measured), flows(measured)) if shown.rows)
    yield own_error(measured)
    yield from notes(measured)


def show(measured: Measurement, out: Console, model: PathModel | None = None) -> None:
    """Prints the results, the tables, the measurement error and the path model."""
    for at, sentence in enumerate(sentences(measured)):
        out.print(sentence, style="bold" if at == 0 else "", markup=False, soft_wrap=True)
    for shown in (latencies(measured), flows(measured)):
        if shown.rows:
            out.print()
            table(out, shown)
    out.print()
    for line in (own_error(measured), *notes(measured)):
        out.print(line, markup=False, soft_wrap=True)
    if model is not None:
        out.print()
        for line in model_lines(model):
            out.print(line, markup=False, soft_wrap=True)


def document(
    measured: Sequence[Measurement], names: Sequence[str], models: Sequence[PathModel | None]
) -> PageJson:
    """The content of the report page of measurements."""
    runs = [
        _run(one, name, model) for one, name, model in zip(measured, names, models, strict=True)
    ]
    return {"narrows": __version__, "title": " · ".join(names), "first": "", "runs": runs}


def _run(measured: Measurement, name: str, model: PathModel | None) -> PageRunJson:
    toml = model.toml() if model else ""
    told = measured.json
    return {
        "name": name,
        "answer": sentences(measured),
        "sure": [own_error(measured), *notes(measured), *(model_lines(model) if model else [])],
        "tables": [
            {
                "caption": t.caption,
                "words": t.words,
                "numbers": t.numbers,
                "rows": [[[c.text, c.path] for c in r] for r in t.rows],
            }
            for t in (latencies(measured), flows(measured))
        ],
        "notes": [],
        **drawn(pictures(measured)),
        "verdicts": None,
        "flows": [flow.id for flow in measured.flows],
        "toml": toml,
        "canonical": toml,
        "command": "narrows run scenario.toml, with flows of your choice added",
        "provenance": [
            ["narrows", str(told.get("narrows") or __version__)],
            ["host", measured.host],
            ["test", measured.test],
            ["started", measured.started],
            ["kernel", str((told.get("host") or {}).get("kernel") or "")],
        ],
        "evidence": None,
        "figures": answer(measured).json()
        | {"flows": [{"id": f.id, **f.told} for f in measured.flows[:200]]},
    }
