"""Renders a measurement as sentences, tables and a report page.

`measure.summary` computes the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from narrows import __version__
from narrows.measure.pictures import MOST_FLOWS, pictures
from narrows.measure.result import BOTH, DIRECTIONS, LOADS, Measurement, Spread
from narrows.measure.summary import FEWEST_PINGS, SCALE, SCALE_OF, Answer, answer
from narrows.render.model import PageJson, PageRunJson
from narrows.render.report import drawn
from narrows.render.styled import table
from narrows.render.tables import Cell, Table
from narrows.render.words import listed, millis, number, percent

if TYPE_CHECKING:
    from rich.console import Console

    from narrows.render.run import Part

_SPREAD = ("min", "mean", "p50", "p95", "p99", "max")
_OF_CLASS = ("mean", "p50", "p95", "p99")
_LATE_MS = 1.0
_BUSY_PCT = 80.0
_HELD_PCT = 20.0
"""Share of the time above which a flow is reported as limited by a host, in %."""


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
    """A sentence with the reason for an early end of the measurement; empty if it was complete."""
    after = max((phase.to_s for phase in measured.phases), default=0.0)
    why = {
        "user": "was stopped",
        "max_data": f"reached its data limit ({_limit(measured)})",
        "peer": "was ended by the far host",
        "circuit_breaker": "was ended by the circuit breaker",
        "lost": "lost contact with the far host",
    }.get(measured.stopped_by)
    if not why:
        return []
    return [f"The measurement {why} after {number(after, 1)} s; the results end at that time."]


def _limit(measured: Measurement) -> str:
    """The limit of data that applied: that of --pacing, or else that of --max-data."""
    asked, data = measured.json.get("asked") or {}, measured.json.get("data") or {}
    most, planned = asked.get("max_data_bytes"), data.get("planned_bytes")
    if not isinstance(most, int | float):
        return "--max-data"
    rate = asked.get("pacing_mbit")
    if isinstance(rate, int | float) and isinstance(planned, int | float) and planned < most:
        return (
            f"{planned / 1e6:.3g} MB, the most that flows with --pacing {rate:g}Mbit move in "
            "--duration"
        )
    return f"--max-data of {most / 1e6:g} MB"


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
    """Sentences with counts, rates and loss of a UDP load; empty without such a load."""
    told = measured.json.get("udp_load") or {}
    if not isinstance(sent := told.get("sent"), int):
        return []
    direction = LOADS["up" if told.get("direction") == "up" else "down"]
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
        f"{number(rate, 2)} Mbit/s ({LOADS[direction]})"
        for direction in DIRECTIONS[::-1]
        if (rate := said.rates_mbit.get(direction)) is not None
    ]
    out = [f"The goodput was {listed(told)}."] if told else []
    if said.unloaded:
        directions = listed([LOADS[direction] for direction in said.unloaded])
        out.append(
            f"The {directions} transferred no data during the load phase, so the path had no load. "
            "The measurement has no bufferbloat grade."
        )
    return out


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
    parts = [f"{millis(mean)} ms during the {LOADS[way]}" for way, mean in means.items()]
    return f"from {idle} ms to {listed(parts)} (+{more} ms on average)"


def _latency(said: Answer) -> list[str]:
    out = []
    grade = None if said.increase_ms is None else said.grade
    if grade is not None:
        out.append(
            f"Load increased the mean RTT {_increase(said)}: bufferbloat grade {grade} "
            f"({SCALE_OF[grade]})."
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
            f"The RTT during the {LOADS[direction]} was {_spread(said.loaded[direction])}."
            for direction in DIRECTIONS[::-1]
        ]
    elif said.every.p50 is not None:
        out.append(f"The RTT under load was {_spread(said.every)}.")
    if grade is not None:
        idle = f", {60_000 / said.idle.mean:.0f} while idle" if said.idle.mean else ""
        out += [
            f"Round trips per minute: {number(said.trips_per_minute, 0)} under load{idle} (60 s "
            f"divided by the mean RTT of the pings{' in each case' if idle else ''}).",
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
    """A sentence with the estimated quality of a call, idle and under load: each time, the lower
    score of the two directions.
    """
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
    """Sentences about flows whose rate was limited by the receive window or the send buffer of a
    host.
    """
    out = []
    for key, what in (
        ("rwnd_limited_pct", "receive window"),
        ("sndbuf_limited_pct", "send buffer"),
    ):
        held = [f.id for f in measured.flows if (f.figure(key) or 0) > _HELD_PCT]
        if held:
            flows, was = ("flow", "was") if len(held) == 1 else ("flows", "were")
            rest = [f"{len(held) - MOST_FLOWS} more"] if len(held) > MOST_FLOWS else []
            ids = listed([*held[:MOST_FLOWS], *rest])
            out.append(
                f"The {flows} {ids} {was} limited by the {what}, not by the path, for more than "
                f"{_HELD_PCT:g} % of the time."
            )
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
        return (
            "The simulator ran this measurement, so the measuring hosts neither delayed nor lost "
            f"pings.{alone}"
        )
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
    """A row for the idle phase, and one for the load of each direction and congestion control."""
    said = answer(measured)
    rows = [("idle", said.idle, "latency_ms.idle")]
    if said.together or not said.loaded:
        rows.append((BOTH if said.together else "load", said.every, "latency_ms.loaded"))
    else:
        rows += [
            (LOADS[direction], said.loaded[direction], f"latency_ms.{direction}")
            for direction in DIRECTIONS[::-1]
            if direction in said.loaded
        ]
    loads: dict[str, str] = dict(LOADS.items())
    rows += [
        (
            f"{loads.get(direction, BOTH)}, {cc}",
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


def by_class(measured: Measurement) -> Table:
    """A row per traffic class; empty if all flows have the same DSCP."""
    rows = []
    for i, one in enumerate(answer(measured).classes):
        at = f"classes.{i}"
        rows.append([
            Cell(one.name, f"{at}.dscp"),
            *(
                Cell(number(one.rates_mbit.get(way), 2), f"{at}.rates_mbit.{way}")
                for way in DIRECTIONS[::-1]
            ),
            *(Cell(millis(getattr(one.rtt, k)), f"{at}.rtt_ms.{k}") for k in _OF_CLASS),
            Cell(percent(one.lost), f"{at}.pings_lost"),
        ])  # fmt: skip
    return Table(
        "Traffic classes",
        ("DSCP",),
        (
            *(f"{LOADS[way]} Mbit/s" for way in DIRECTIONS[::-1]),
            *(f"RTT {k} ms" for k in _OF_CLASS),
            "pings lost",
        ),
        rows,
    )


def by_cc(measured: Measurement) -> Table:
    """A row per congestion control and direction; empty if there is only one congestion control."""
    rows = []
    for i, one in enumerate(answer(measured).controls):
        at = f"controls.{i}"
        again = one.retransmits
        rows.append([
            Cell(one.cc, f"{at}.cc"),
            Cell(LOADS[one.direction], f"{at}.direction"),
            Cell(str(one.flows), f"{at}.flows"),
            Cell(number(one.goodput_mbit, 2), f"{at}.goodput_mbit"),
            Cell("–" if again is None else str(again), f"{at}.retransmits"),
        ])  # fmt: skip
    return Table(
        "Congestion controls",
        ("cc", "direction"),
        ("flows", "goodput Mbit/s", "retransmits"),
        rows,
    )


def flows(measured: Measurement, most: int = 200) -> Table:
    """A row per flow."""
    rows = []
    for i, flow in enumerate(measured.flows[:most]):
        at = f"flows.{i}"
        rtts = flow.told.get("rtt_ms") if isinstance(flow.told.get("rtt_ms"), dict) else {}
        again = flow.figure("retransmits")
        rows.append([
            Cell(flow.id, f"{at}.id"),
            Cell(LOADS[flow.direction], f"{at}.direction"),
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


def _tables(measured: Measurement) -> tuple[Table, ...]:
    """The tables of a measurement. That of its traffic classes needs several of them."""
    several = (by_class(measured),) if answer(measured).classes else ()
    controls = (by_cc(measured),) if answer(measured).controls else ()
    return (latencies(measured), *several, *controls, flows(measured))


def parts(measured: Measurement) -> Iterator[Part]:
    """The sentences and tables of a measurement."""
    for at, sentence in enumerate(sentences(measured)):
        yield (sentence, "bold") if at == 0 else sentence
    yield from (shown for shown in _tables(measured) if shown.rows)
    yield own_error(measured)
    yield from notes(measured)


def show(measured: Measurement, out: Console) -> None:
    """Prints the results, the tables and the measurement error."""
    for at, sentence in enumerate(sentences(measured)):
        out.print(sentence, style="bold" if at == 0 else "", markup=False, soft_wrap=True)
    for shown in _tables(measured):
        if shown.rows:
            out.print()
            table(out, shown)
    out.print()
    for line in (own_error(measured), *notes(measured)):
        out.print(line, markup=False, soft_wrap=True)


def document(measured: Sequence[Measurement], names: Sequence[str]) -> PageJson:
    """The content of the report page of measurements."""
    runs = [_run(one, name) for one, name in zip(measured, names, strict=True)]
    return {"narrows": __version__, "title": " · ".join(names), "first": "", "runs": runs}


def _run(measured: Measurement, name: str) -> PageRunJson:
    told = measured.json
    return {
        "name": name,
        "answer": sentences(measured),
        "sure": [own_error(measured), *notes(measured)],
        "tables": [
            {
                "caption": t.caption,
                "words": t.words,
                "numbers": t.numbers,
                "rows": [[[c.text, c.path] for c in r] for r in t.rows],
            }
            for t in _tables(measured)
        ],
        "notes": [],
        "topology": None,
        **drawn(pictures(measured)),
        "verdicts": None,
        "flows": [flow.id for flow in measured.flows],
        "toml": "",
        "canonical": "",
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
