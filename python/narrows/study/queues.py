"""Studies of queues: latency, BBR over CoDel, policers and shapers, asymmetric links."""

from __future__ import annotations

import json

from narrows.json_object import JsonObject
from narrows.models import loaded
from narrows.runs.scenario import Flow, Hop, Path, Ping, Scenario
from narrows.study.study import (
    Answer,
    Axes,
    Grid,
    Part,
    Rows,
    Study,
    first,
    mean,
    share,
    table,
    total,
)
from narrows.sweeps.design import Values
from narrows.sweeps.rows import Row

_CCS = ("cubic", "reno", "bbr", "bbr3", "vegas", "copa", "ledbat")
_QUEUES = ("codel", "fq_codel", "pie", "fq_pie", "sfq")


def _named(row: Row, key: str) -> Row:
    """The row with a choice that has parameters (as JSON) replaced by its kind."""
    value = row[key]
    return row | {
        key: json.loads(value)["kind"]
        if isinstance(value, str) and value.startswith("{")
        else value
    }


def _latency_parts(quick: bool) -> dict[str, Part]:
    scenario = Scenario(
        Path(rate="20Mbit", rtt="40ms"),  # CAKE has a limit of memory and no buffer.
        flows=[Flow("cubic", count=4)],
        probes=[Ping(interval="20ms")],
        duration="20s" if quick else "40s",
    )
    queues: list[JsonObject] = [
        {"path.queue": "fifo", "path.buffer": size} for size in ("1bdp", "8bdp")
    ]
    queues += [
        {"path.queue": queue, "path.buffer": "1000p"}
        for queue in (*_QUEUES, *loaded.names("queue"))
        if queue not in {"fifo", "red", "cake"}
    ]
    queues += [{"path.queue": "cake"}]
    ccs = _CCS[::2] if quick else _CCS
    cases = [queue | {"flow[0].cc": cc} for queue in queues for cc in ccs]
    return {"": Part(scenario=scenario, over=cases, seeds=1 if quick else 3)}


def _latency_answer(rows: dict[str, Rows]) -> Answer:
    def queue(row: Row) -> Row:
        deep = f", {row['path.buffer']}" if row["path.queue"] == "fifo" else ""
        return row | {"queue": f"{row['path.queue']}{deep}"}

    named = [queue(row) for row in rows[""]]
    about: Axes = {"row": "queue", "column": "cc"}
    keys = ("queue", "flow[0].cc")
    whole = total("goodput_mbit")
    delay = table(
        named,
        *keys,
        first("ping_p95_ms"),
        title="RTT of a ping beside four flows, p95",
        unit="ms",
        **about,
    )
    goodput = table(
        named,
        *keys,
        whole,
        title="Total goodput of four flows, link of 20 Mbit/s",
        unit="Mbit/s",
        **about,
    )
    again = table(
        named,
        *keys,
        mean("summary_retransmit_rate", 100),
        title="Retransmission rate",
        unit="%",
        digits=2,
        **about,
    )
    pings = [
        f"{delay.at(queue, cc):.0f}"
        for cc in ("cubic", "bbr")
        for queue in ("fifo, 8bdp", "fq_codel")
    ]
    verdict = (
        f"Beside four CUBIC flows, the p95 RTT of a ping is {pings[0]} ms with a fifo of 8 BDP and "
        f"{pings[1]} ms with fq_codel. Beside four BBR flows, this RTT is {pings[2]} ms with the "
        f"fifo and {pings[3]} ms with fq_codel."
    )
    return Answer(verdict, [delay, goodput, again])


LATENCY = Study(
    name="latency",
    question="How long is the queueing delay, by congestion control and queue discipline?",
    parts=_latency_parts,
    answer=_latency_answer,
)


def _codel_parts(quick: bool) -> dict[str, Part]:
    scenario = Scenario(
        Path(rate="40Mbit", rtt="40ms", buffer="1000p"),
        flows=[Flow("bbr", count=2), Flow("cubic", count=2)],
        probes=[Ping(interval="20ms")],
        duration="20s" if quick else "60s",
    )
    over = {
        "path.queue": ["fifo", "codel", "pie", "fq_codel", "fq_pie", "fq", "sfq"],
        "flow[0].cc": ["bbr", "bbr3"],
    }
    return {"": Part(scenario=scenario, over=over)}


def _codel_answer(rows: dict[str, Rows]) -> Answer:
    def own(of: Rows) -> float | None:
        return share(of[0]["cc"])(of)

    about: Axes = {"row": "queue", "column": "cc"}
    fair = table(
        rows[""], "path.queue", "flow[0].cc", own, title="Share of two BBR flows beside two CUBIC "
                                                         "flows",
        unit="of a fair share", digits=2, middle=1.0, **about,
    )  # fmt: skip
    keys = ("path.queue", "flow[0].cc")

    def retransmitted(of: Rows) -> float | None:
        return mean("summary_retransmit_rate", 100)([row for row in of if row["cc"] != "cubic"])

    delay = table(
        rows[""],
        *keys,
        first("ping_p95_ms"),
        title="RTT of a ping beside them, p95",
        unit="ms",
        **about,
    )
    again = table(
        rows[""],
        *keys,
        retransmitted,
        title="Retransmission rate of BBR",
        unit="%",
        digits=2,
        **about,
    )
    verdict = (
        f"Under CoDel, BBR has {fair.at('codel', 'bbr'):.2f} times its fair share beside CUBIC, "
        "because CUBIC responds "
        "to the drops. With a queue for each flow (fq_codel), it has "
        f"{fair.at('fq_codel', 'bbr'):.2f} times."
    )
    return Answer(verdict, [fair, delay, again])


CODEL = Study(
    name="bbr-over-codel",
    question="How does BBR behave with active queue management?",
    parts=_codel_parts,
    answer=_codel_answer,
)

_MIXES: dict[str, tuple[tuple[str, int], ...]] = {
    "BBR ×4": (("bbr", 4),),
    "CUBIC ×4": (("cubic", 4),),
    "BBR ×2 + CUBIC ×2": (("bbr", 2), ("cubic", 2)),
    "BBR ×4 + CUBIC ×4": (("bbr", 4), ("cubic", 4)),
    "BBR ×4 + Reno ×4": (("bbr", 4), ("reno", 4)),
}
_PLACES: dict[str, JsonObject] = {
    "policer": {
        "rate": "10Gbit",
        "buffer": "1000p",
        "policer": {"rate": "2Mbit", "burst": "62500B"},
    },
    "shaper": {"rate": "2Mbit", "buffer": "128kB", "link": {"kind": "tbf", "burst": "3080B"}},
    "shaper, peak": {"rate": "4Mbit", "buffer": "128kB", "link": {"kind": "tbf", "burst": "3080B"}},
}
_CIR_MBIT = {"policer": 2.0, "shaper": 2.0, "shaper, peak": 4.0}
_BURSTS_MS = (10, 20, 50, 100, 200, 400, 800, 1600)
_ENOUGH = 90.0


def _police_parts(quick: bool) -> dict[str, Part]:
    whole = "30s" if quick else "60s"
    parts = {}
    for place, keys in _PLACES.items():
        for mix, who in _MIXES.items():
            flows = [Flow(cc, count=count) for cc, count in who]
            scenario = Scenario(Path(rtt="50ms", **keys), flows=flows, duration=whole)
            parts[f"{place} {mix}"] = Part(
                scenario=scenario, over={"path.rtt": ["50ms"]}, seeds=2 if quick else 5
            )
    one = Scenario(Path(rtt="50ms", **_PLACES["policer"]), flows=[Flow("cubic")], duration=whole)
    over: dict[str, Values] = {
        "path.policer.burst": [f"{milliseconds * 250}B" for milliseconds in _BURSTS_MS],
        "flow[0].cc": ["bbr", "bbr3", "cubic", "reno"],
    }
    return parts | {"burst": Part(scenario=one, over=over, seeds=2 if quick else 5)}


def _police_answer(rows: dict[str, Rows]) -> Answer:
    mixed = [
        row | {"place": place, "mix": mix}
        for place in _PLACES
        for mix in _MIXES
        for row in rows[f"{place} {mix}"]
    ]

    def used(of: Rows) -> float:
        return float(100 * sum(row["goodput_mbit"] for row in of) / _CIR_MBIT[of[0]["place"]])

    def others(of: Rows) -> float | None:
        return share("bbr")(of) if any(row["cc"] != "bbr" for row in of) else None

    about: Axes = {"row": "flows", "column": "place"}
    whole = table(
        mixed,
        "mix",
        "place",
        used,
        title="Total goodput, in percent of the rate",
        unit="%",
        digits=0,
        **about,
    )
    fair = table(
        mixed,
        "mix",
        "place",
        others,
        title="Share of BBR",
        unit="of a fair share",
        digits=2,
        middle=1.0,
        **about,
    )
    again = table(
        mixed,
        "mix",
        "place",
        mean("summary_retransmit_rate", 100),
        title="Retransmission rate",
        unit="%",
        digits=1,
        **about,
    )

    def of_rate(of: Rows) -> float:
        return float(100 * of[0]["goodput_mbit"] / _CIR_MBIT["policer"])

    burst = table(
        rows["burst"], "path.policer.burst", "flow[0].cc", of_rate, row="burst", column="cc",
        title="Goodput of one flow behind a policer of 2 Mbit/s at 50 ms, by burst size", unit="%",
        digits=0,
    )  # fmt: skip
    bursts = "; ".join(f"{cc} {_least(burst, cc)}" for cc in burst.columns)
    verdict = (
        f"Beside CUBIC, BBR has {fair.at('BBR ×4 + CUBIC ×4', 'policer'):.1f} times its fair "
        "share behind a policer, "
        f"and {fair.at('BBR ×4 + CUBIC ×4', 'shaper'):.1f} times behind a shaper. Smallest burst "
        "size for "
        f"{_ENOUGH:.0f} % of the rate: {bursts}."
    )
    return Answer(verdict, [whole, fair, again, burst])


def _least(grid: Grid, column: str) -> str:
    """Smallest burst size such that the goodput with it and with all larger ones is at least
    `_ENOUGH` % of the rate.
    """
    enough = [
        row
        for row in grid.rows
        if all(grid.at(r, column) >= _ENOUGH for r in grid.rows[grid.rows.index(row) :])
    ]
    return enough[0] if enough else "none of these"


POLICER = Study(
    name="policer",
    question="How do BBR, CUBIC and both together behave behind a policer and a shaper of 2 "
    "Mbit/s?",
    parts=_police_parts,
    answer=_police_answer,
)


def _line_parts(quick: bool) -> dict[str, Part]:
    up = Hop(rate="5Mbit", buffer="312kB", queue="fifo")
    scenario = Scenario(
        Path(rate="100Mbit", rtt="20ms", buffer="1bdp", reverse=up),
        flows=[Flow("cubic", id="down"), Flow("cubic", id="up", direction="up")],
        probes=[Ping(interval="20ms")],
        duration="20s" if quick else "40s",
    )
    over: dict[str, Values] = {
        "path.reverse.queue": [
            "fifo",
            "codel",
            "fq_codel",
            {"kind": "cake", "ack_filter": "ack-filter"},
        ],
        "flow.cc": ["cubic", "bbr", "reno"],
    }
    return {"": Part(scenario=scenario, over=over, seeds=2 if quick else 5)}


def _line_answer(rows: dict[str, Rows]) -> Answer:
    named = [_named(row, "path.reverse.queue") for row in rows[""]]
    about: Axes = {"row": "queue up", "column": "cc"}
    keys = ("path.reverse.queue", "flow.cc")
    down = table(
        named,
        *keys,
        first("goodput_mbit"),
        title="Goodput of the download, link of 100 Mbit/s",
        unit="Mbit/s",
        **about,
    )
    up = table(
        named,
        *keys,
        lambda of: of[1]["goodput_mbit"],
        title="Goodput of the upload, link of 5 Mbit/s",
        unit="Mbit/s",
        digits=2,
        **about,
    )
    ping = table(named, *keys, first("ping_p95_ms"), title="RTT of a ping, p95", unit="ms", **about)
    verdict = (
        f"With a fifo for the upload, a CUBIC download has {down.at('fifo', 'cubic'):.0f} of 100 "
        "Mbit/s, and the p95 "
        f"RTT of a ping is {ping.at('fifo', 'cubic'):.0f} ms. With fq_codel, it is "
        f"{down.at('fq_codel', 'cubic'):.0f} Mbit/s and {ping.at('fq_codel', 'cubic'):.0f} ms."
    )
    return Answer(verdict, [down, up, ping])


LINE = Study(
    name="asymmetric-line",
    question="How does an upload affect a download on an access link of 100 and 5 Mbit/s?",
    parts=_line_parts,
    answer=_line_answer,
)
