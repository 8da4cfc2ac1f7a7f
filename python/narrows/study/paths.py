"""Studies of congestion controls by path: gain map, fairness, random loss, late flows, number of
BBR flows.
"""

from __future__ import annotations

import json
import math
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from narrows.json_object import JsonObject
from narrows.models import loaded
from narrows.runs.scenario import Flow, Path, Ping, Scenario, Station, Wifi
from narrows.study.study import (
    Answer,
    Axes,
    Grid,
    Part,
    Rows,
    Study,
    by,
    first,
    mean,
    share,
    table,
)
from narrows.sweeps.design import Values
from narrows.sweeps.rows import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RATES = ("10Mbit", "20Mbit", "50Mbit", "100Mbit", "250Mbit", "500Mbit", "750Mbit", "1000Mbit")
_RTTS = ("5ms", "10ms", "25ms", "50ms", "75ms", "100ms", "150ms", "200ms")
_BUFFERS = ("100kB", "1MB", "10MB", "20MB", "50MB")
_CLEAR = 0.1
"""Smallest relative difference of goodput that counts as a gain."""


def _gain_parts(quick: bool) -> dict[str, Part]:
    scenario = Scenario(
        Path(
            rate="10Mbit",
            rtt="5ms",
            buffer="100kB",
            link={"kind": "htb", "burst": "1600B"},
            offload=True,
        ),
        flows=[Flow("cubic")],
        duration="20s" if quick else "60s",
        warmup="0s",
        start_jitter="0s",
    )
    over: dict[str, Values] = {
        "path.buffer": _BUFFERS[::2] if quick else _BUFFERS,
        "path.rate": _RATES[::3] if quick else _RATES,
        "path.rtt": _RTTS[::3] if quick else _RTTS,
        "flow[0].cc": ["cubic", "bbr"],
    }
    return {"": Part(scenario=scenario, over=over, seeds=1)}


def _gain_answer(rows: dict[str, Rows]) -> Answer:
    grids, better, worse, cells = [], 0, 0, 0
    for (buffer,), some in by(rows[""], "path.buffer").items():
        pairs = by(some, "path.rate", "path.rtt", "flow[0].cc")
        gain = []
        for rate, rtt in dict.fromkeys((key[0], key[1]) for key in pairs):
            bbr, cubic = (pairs[rate, rtt, cc][0]["goodput_mbit"] for cc in ("bbr", "cubic"))
            gain.append(
                {
                    "path.rate": rate,
                    "path.rtt": rtt,
                    "seed": 1,
                    "gain": 100 * (bbr / max(cubic, 1e-9) - 1),
                }
            )
        cells += len(gain)
        better += sum(one["gain"] >= 100 * _CLEAR for one in gain)
        worse += sum(one["gain"] <= -100 * _CLEAR for one in gain)
        about: dict[str, Any] = {
            "title": f"Gain of BBR over CUBIC, buffer of {buffer}",
            "unit": "%",
            "digits": 0,
            "middle": 0.0,
        }
        grids.append(
            table(gain, "path.rate", "path.rtt", first("gain"), row="rate", column="rtt", **about)
        )
        percent = lambda of: 100 * of[0]["summary_retransmit_rate"]  # noqa: E731
        for cc in ("bbr", "cubic"):
            again = [row for row in some if row["flow[0].cc"] == cc]
            title = f"Retransmission rate of {cc.upper()}, buffer of {buffer}"
            about = {"title": title, "unit": "%", "digits": 2}
            grids.append(
                table(again, "path.rate", "path.rtt", percent, row="rate", column="rtt", **about)
            )
    verdict = (
        f"Of {cells} paths, BBR has at least 10 % more goodput on {better}, and CUBIC on {worse}. "
        "On the other "
        f"{cells - better - worse}, the difference is smaller."
    )
    return Answer(verdict, grids)


GAIN_MAP = Study(
    name="gain-map",
    question="On which paths has a single BBR flow more goodput than a single CUBIC flow?",
    parts=_gain_parts,
    answer=_gain_answer,
)


def _fair_parts(quick: bool) -> dict[str, Part]:
    path = Path(rate="40Mbit", rtt="40ms", buffer="1bdp")
    whole = "40s" if quick else "120s"
    buffers = [f"{2.0**power:g}bdp" for power in range(-2, 6, 2 if quick else 1)]
    many = Scenario(path, flows=[Flow("bbr"), Flow("cubic")], duration=whole)
    mixes = [[n, m] for n, m in ((1, 1), (1, 5), (2, 8), (5, 5), (8, 2), (5, 1))][
        :: 3 if quick else 1
    ]
    cases = [
        {"path.buffer": f"{buffer}bdp", "flow[0].count": n, "flow[1].count": m}
        for buffer in (1, 4, 16)
        for n, m in mixes
    ]
    near = Scenario(
        path,
        flows=[Flow("bbr", id="near"), Flow("bbr", id="far"), Flow("cubic", id="other")],
        duration=whole,
    )
    distances = {"path.buffer": ["1bdp", "4bdp"], "flow[1].rtt": ["0ms", "40ms", "120ms", "280ms"]}
    return {
        "buffer": Part(
            scenario=many,
            over={"path.buffer": buffers, "flow[0].cc": ["bbr", "bbr2", "bbr3", "reno"]},
        ),
        "numbers": Part(scenario=many, over=cases),
        "distance": Part(scenario=near, over=distances),
    }


_CLOSER = "closer "
_PAIR = "buffer"


def _fair_more(quick: bool, rows: dict[str, Rows]) -> dict[str, Part] | None:
    """The next bisection step: for each congestion control, a buffer between the two neighbouring
    ones where its share falls below 1. None after the last step.
    """
    steps = sum(name.startswith(_CLOSER) for name in rows)
    if steps == (2 if quick else 5):
        return None
    part = _fair_parts(quick)[_PAIR]
    between = {cc: _bracket(points) for cc, points in _shares(rows).items()}
    cases = [
        {"path.buffer": f"{math.sqrt(ends[0] * ends[1]):.4g}bdp", "flow[0].cc": cc}
        for cc, ends in between.items()
        if ends is not None
    ]
    return (
        {f"{_CLOSER}{steps + 1}": Part(scenario=part.scenario, over=cases, seeds=part.seeds)}
        if cases
        else None
    )


def _shares(rows: dict[str, Rows]) -> dict[str, list[tuple[float, float]]]:
    """For each congestion control, the buffer sizes in BDP and the share of one flow beside one
    CUBIC flow, as multiple of an equal share.
    """
    every = [
        row
        for name, some in rows.items()
        if name == _PAIR or name.startswith(_CLOSER)
        for row in some
    ]
    found: dict[str, list[tuple[float, float]]] = {}
    for (buffer, cc), some in by(every, "path.buffer", "flow[0].cc").items():
        value = median(_first_flow(one) for one in by(some, "seed").values())
        found.setdefault(str(cc), []).append((float(str(buffer).removesuffix("bdp")), value))
    return {cc: sorted(points) for cc, points in found.items()}


def _first_flow(of: Rows) -> float:
    return float(2 * of[0]["goodput_mbit"] / sum(row["goodput_mbit"] for row in of))


def _fair_answer(rows: dict[str, Rows]) -> Answer:
    about: dict[str, Any] = {"unit": "of a fair share", "digits": 2, "middle": 1.0}
    by_buffer = table(
        rows["buffer"], "path.buffer", "flow[0].cc", _first_flow, row="buffer", column="cc",
        title="Share of one flow beside one CUBIC flow", **about,
    )  # fmt: skip
    mixed = [
        row | {"mix": f"{row['flow[0].count']} bbr, {row['flow[1].count']} cubic"}
        for row in rows["numbers"]
    ]
    numbers = table(
        mixed, "path.buffer", "mix", share("bbr"), row="buffer", column="flows",
        title="Share of a BBR flow by the number of flows", **about,
    )  # fmt: skip

    def far(of: Rows) -> float:
        near, away, _ = of
        return float(away["goodput_mbit"] / max(near["goodput_mbit"], 1e-9))

    distance = table(
        rows["distance"], "path.buffer", "flow[1].rtt", far, row="buffer", column="rtt added",
        title="Goodput ratio of a BBR flow with a longer RTT to one with a shorter RTT, beside "
              "CUBIC",
        unit="times", digits=2, middle=1.0,
    )  # fmt: skip
    crossings = {cc: _crossover(points) for cc, points in _shares(rows).items()}
    crossing = crossings.get("bbr")
    where = (
        f"with buffers above about {crossing:.1f} BDP" if crossing else "with none of these buffers"
    )
    equal = Grid(
        title="Buffer with equal shares, by bisection", unit="BDP", row="cc", column="", digits=2,
        rows=list(crossings), columns=["buffer"], cells=[[value] for value in crossings.values()],
    )  # fmt: skip
    widest = max((value, rtt, buffer) for rtt in distance.columns for buffer in distance.rows
                 if (value := distance.at(buffer, rtt)))  # fmt: skip
    verdict = (
        f"Beside CUBIC, BBR has more than an equal share with shallow buffers, and less {where}. "
        "A BBR flow with "
        f"{widest[1]} more RTT has {widest[0]:.1f} times the goodput of the other, with a buffer "
        f"of {widest[2]}."
    )
    return Answer(verdict, [by_buffer, equal, numbers, distance])


def _bracket(points: list[tuple[float, float]]) -> tuple[float, float] | None:
    """The two neighbouring buffer sizes between which the share falls below 1; None if there are
    none.

    >>> _bracket([(1, 1.5), (4, 0.5), (16, 0.4)])
    (1, 4)
    """
    return next(
        ((low, high) for (low, above), (high, below) in pairwise(points) if above >= 1 > below),
        None,
    )


def _crossover(points: list[tuple[float, float]]) -> float | None:
    """Buffer size at which the share falls below 1, by interpolation on the logarithm of the size;
    None if there is none.

    >>> _crossover([(1, 1.5), (4, 0.5)])
    2.0
    """
    for (low, above), (high, below) in pairwise(points):
        if above >= 1 > below:
            part = (above - 1) / (above - below)
            return math.exp(math.log(low) + part * (math.log(high) - math.log(low)))
    return None


FAIRNESS = Study(
    name="fairness",
    question="How do BBR and CUBIC share a link, by buffer, number of flows and RTT?",
    parts=_fair_parts,
    answer=_fair_answer,
    more=_fair_more,
)


def _cliff_parts(quick: bool) -> dict[str, Part]:
    scenario = Scenario(
        Path(rate="50Mbit", rtt="40ms", buffer="1bdp"),
        flows=[Flow("bbr")],
        duration="20s" if quick else "60s",
    )
    loss = (
        [0, 0.1, 1, 5, 10, 15, 20, 30]
        if quick
        else [0, 0.01, 0.1, 0.5, 1, 2, 5, 8, 10, 12, 14, 16, 18, 20, 25, 30]
    )
    plain = {"kind": "bbr", "policer_detection": False}
    meek = plain | {"probe_gain": 1.1}
    over: dict[str, Values] = {
        "path.loss": [{"probability": f"{percent}%", "per": "packet"} for percent in loss],
        "flow[0].cc": ["cubic", "reno", "bbr", plain, meek, "bbr3"],
    }
    return {"": Part(scenario=scenario, over=over)}


def _cliff_answer(rows: dict[str, Rows]) -> Answer:
    def named(row: Row) -> Row:
        cc, loss = row["flow[0].cc"], json.loads(row["path.loss"])["probability"]
        if cc.startswith("{"):
            cc = "bbr, gain 1.1, no policer" if "probe_gain" in cc else "bbr, no policer"
        return row | {"cc": cc, "loss": loss}

    grid = table(
        [named(row) for row in rows[""]], "loss", "cc", lambda of: 100 * of[0]["goodput_mbit"] / 50,
        row="loss", column="cc", title="Goodput, in percent of 50 Mbit/s", unit="%",
    )  # fmt: skip
    falls = {cc: _half(grid, cc) for cc in grid.columns}
    losses = "; ".join(
        f"{cc} {'never' if at is None else f'{at:.2g} %'}" for cc, at in falls.items()
    )
    return Answer(
        f"Loss rate at which goodput falls to half of that without loss: {losses}.", [grid]
    )


def _half(grid: Grid, column: str) -> float | None:
    """Loss rate in % at which the goodput falls below half of that without loss, by linear
    interpolation; None if it does not.
    """
    points = [(float(row.removesuffix("%")), grid.at(row, column)) for row in grid.rows]
    half = points[0][1] / 2
    for (low, above), (high, below) in pairwise(points):
        if above >= half > below:
            return low + (above - half) / (above - below) * (high - low)
    return None


CLIFF = Study(
    name="cliff",
    question="How much goodput remains under random loss, by congestion control?",
    parts=_cliff_parts,
    answer=_cliff_answer,
)


def _late_parts(quick: bool) -> dict[str, Part]:
    late = "20s"
    scenario = Scenario(
        Path(rate="40Mbit", rtt="40ms", buffer="1bdp"),
        flows=[Flow("cubic", id="first"), Flow("cubic", id="late", start=late)],
        duration="60s" if quick else "80s",
        warmup=late,
    )
    ccs = ["cubic", "bbr", "bbr3", "reno", *loaded.names("cc")]
    cases = [
        {"path.buffer": buffer, "flow[0].cc": one, "flow[1].cc": other}
        for buffer in ("0.5bdp", "2bdp", "8bdp")
        for one in ccs
        for other in ccs
    ]
    return {"": Part(scenario=scenario, over=cases, seeds=2 if quick else 5)}


def _late_answer(rows: dict[str, Rows]) -> Answer:
    def late(of: Rows) -> float:
        return float(2 * of[1]["goodput_mbit"] / sum(row["goodput_mbit"] for row in of))

    grids = [
        table(
            some, "flow[0].cc", "flow[1].cc", late, row="there", column="late comer",
            title=f"Share of the late flow in its first minute, buffer of {buffer}",
            unit="of a fair share", digits=2,
            middle=1.0,
        )
        for (buffer,), some in by(rows[""], "path.buffer").items()
    ]  # fmt: skip
    places = [(grid, r, c) for grid in grids for r in grid.rows for c in grid.columns]
    grid, there, comer = min(places, key=lambda place: place[0].at(*place[1:]))
    verdict = (
        f"The smallest share is that of {comer}, starting late beside {there} "
        f"({grid.title.rpartition(', ')[2]}): "
        f"{grid.at(there, comer):.2f} of a fair share."
    )
    return Answer(verdict, grids)


LATE = Study(
    name="late-comer",
    question="Which share does a flow obtain that starts late?",
    parts=_late_parts,
    answer=_late_answer,
)


def _number_parts(quick: bool) -> dict[str, Part]:
    scenario = Scenario(
        Path(rate="100Mbit", rtt="40ms", buffer="1bdp"),
        flows=[Flow("bbr", count=1)],
        probes=[Ping(interval="50ms")],
        duration="20s" if quick else "40s",
    )
    over: dict[str, Values] = {
        "flow[0].count": [1, 2, 4, 16, 64] if quick else [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64],
        "flow[0].cc": ["bbr", "bbr3", "cubic"],
        "path.buffer": ["1bdp", "8bdp"],
    }
    return {"": Part(scenario=scenario, over=over, seeds=2)}


def _number_answer(rows: dict[str, Rows]) -> Answer:
    grids = []
    for (buffer,), some in by(rows[""], "path.buffer").items():
        keys = ("flow[0].count", "flow[0].cc")
        about: Axes = {"row": "flows", "column": "cc"}
        kept, fair, again = (
            first("queue_delay_mean_ms"),
            first("jain"),
            mean("summary_retransmit_rate", 100),
        )
        grids += [
            table(
                some,
                *keys,
                kept,
                title=f"Mean queueing delay, buffer of {buffer}",
                unit="ms",
                **about,
            ),
            table(
                some,
                *keys,
                fair,
                title=f"Jain's index, buffer of {buffer}",
                unit="",
                digits=2,
                **about,
            ),
            table(
                some,
                *keys,
                again,
                title=f"Retransmission rate, buffer of {buffer}",
                unit="%",
                digits=2,
                **about,
            ),
        ]
    deep = grids[3]
    most = deep.rows[-1]
    verdict = (
        f"With a buffer of 8 BDP, the mean queueing delay is {deep.at(deep.rows[0], 'bbr'):.0f} "
        "ms with one BBR flow, "
        f"{deep.at(most, 'bbr'):.0f} ms with {most} BBR flows, and {deep.at(most, 'cubic'):.0f} "
        f"ms with {most} CUBIC "
        "flows."
    )
    return Answer(verdict, grids)


NUMBER = Study(
    name="bbr-by-number",
    question="How long is the queue of many BBR flows?",
    parts=_number_parts,
    answer=_number_answer,
)

_PLACES: dict[str, JsonObject] = {
    "data centre": {"path.rate": "1Gbit", "path.rtt": "0.5ms", "path.buffer": "300kB"},
    "fibre": {"path.rate": "300Mbit", "path.rtt": "15ms", "path.buffer": "1bdp"},
    "cable": {"path.rate": "100Mbit", "path.rtt": "30ms", "path.buffer": "8bdp"},
    "DSL": {"path.rate": "16Mbit", "path.rtt": "40ms", "path.buffer": "10bdp"},
    "LTE": {"path.rate": "30Mbit", "path.rtt": "60ms", "path.buffer": "2MB", "path.jitter": "3ms"},
    "satellite": {"path.rate": "20Mbit", "path.rtt": "600ms", "path.buffer": "1bdp"},
    "policed": {
        "path.rate": "1Gbit",
        "path.rtt": "30ms",
        "path.policer": {"rate": "20Mbit", "burst": "250kB"},
        "path.buffer": "1000p",
    },
    "lossy": {"path.rate": "50Mbit", "path.rtt": "40ms", "path.buffer": "1bdp", "path.loss": "1%"},
}
_LIMITS_MBIT = {"policed": 20.0}
_WIFI = "Wi-Fi"


_FEW_CCS = ["reno", "cubic", "bbr", "bbr3", "vegas", "copa"]
_FEW_CCS += ["htcp", "illinois", "westwood", "ledbat", "yeah", "compound"]
_MORE_CCS = ["bbr2", "bic", "cdg", "highspeed", "hybla", "lp", "newreno"]
_MORE_CCS += ["nv", "remy", "scalable", "timely", "veno", "dctcp", "prague"]
"""XCP is not in the list, because these paths have no XCP routers."""


def _tournament_parts(quick: bool) -> dict[str, Part]:
    ccs = [*_FEW_CCS, *([] if quick else _MORE_CCS), *loaded.names("cc")]
    scenario = Scenario(
        Path(rate="1Mbit", rtt="10ms"),
        flows=[Flow("cubic")],
        probes=[Ping(interval="20ms")],
        duration="20s" if quick else "40s",
    )
    cases = [{"flow[0].cc": cc, **place} for place in _PLACES.values() for cc in ccs]
    air = Scenario(
        wifi=Wifi(standard="n", station=[Station(name="laptop", mcs=7, rtt="20ms")]),
        flows=scenario.flows,
        probes=scenario.probes,
        duration=scenario.duration,
    )
    seeds = 1 if quick else 3
    return {
        "": Part(scenario=scenario, over=cases, seeds=seeds),
        _WIFI: Part(scenario=air, over={"flow[0].cc": ccs}, seeds=seeds),
    }


def _place(row: Row) -> str:
    return next(
        name
        for name, keys in _PLACES.items()
        if (row["path.rate"], row["path.rtt"], row["path.policer"] is None)
        == (keys["path.rate"], keys["path.rtt"], "path.policer" not in keys)
    )


def _tournament_answer(rows: dict[str, Rows]) -> Answer:
    rated = [row | {"place": _place(row)} for row in rows[""]]
    rated += [row | {"place": _WIFI} for row in rows[_WIFI]]

    def used(of: Rows) -> float:
        limit = _LIMITS_MBIT.get(of[0]["place"], of[0]["rate_mbit"])
        return float(100 * of[0]["goodput_mbit"] / limit)

    about: Axes = {"row": "cc", "column": "path"}
    keys = ("flow[0].cc", "place")
    goodput = table(
        rated,
        *keys,
        used,
        title="Goodput, in percent of the rate of the path",
        unit="%",
        digits=0,
        **about,
    )
    delay = table(
        rated, *keys, first("ping_p95_ms"), title="RTT of a ping beside it, p95", unit="ms", **about
    )
    best = _front(goodput, delay)
    verdict = "Pareto-optimal in goodput and delay on most paths: " + ", ".join(
        f"{cc} ({count} of {len(goodput.columns)})" for cc, count in best[:4]
    )
    return Answer(
        f"{verdict}.", [goodput, delay], picture=lambda figure: _pareto(figure, goodput, delay)
    )


def _unbeaten(goodput: Grid, delay: Grid, path: str) -> list[str]:
    """The congestion controls that are Pareto-optimal on a path in goodput and delay, by the
    rounded values in the tables.
    """
    points = {
        cc: (round(goodput.at(cc, path), goodput.digits), -round(delay.at(cc, path), delay.digits))
        for cc in goodput.rows
    }
    return [
        cc
        for cc, (rate, wait) in points.items()
        if not any(r >= rate and w >= wait and (r, w) != (rate, wait) for r, w in points.values())
    ]


def _front(goodput: Grid, delay: Grid) -> list[tuple[str, int]]:
    """The congestion controls with the number of paths on which each is Pareto-optimal, the highest
    number first.
    """
    counts = dict.fromkeys(goodput.rows, 0)
    for path in goodput.columns:
        for cc in _unbeaten(goodput, delay, path):
            counts[cc] += 1
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


_ACROSS, _NAMED = 4, 2


def _pareto(figure: Figure, goodput: Grid, delay: Grid) -> None:
    """Draws a plot for each path: goodput over the RTT of a ping, with the Pareto front."""
    down = math.ceil(len(goodput.columns) / _ACROSS)
    figure.set_size_inches(3.0 * _ACROSS, 2.6 * down + 0.6)
    figure.suptitle(f"{TOURNAMENT.question} Up and left is better; labels: Pareto-optimal")
    places = list(figure.subplots(down, _ACROSS, squeeze=False).flat)
    for place, path in zip(places, goodput.columns, strict=False):
        best = _unbeaten(goodput, delay, path)
        for cc in goodput.rows:
            x, y = delay.at(cc, path), goodput.at(cc, path)
            place.plot(x, y, "o", markersize=4, color="#0072b2" if cc in best else "#aaaaaa")
        # Equal results share a label; labels alternate between right and left to avoid overlap.
        same: dict[tuple[float, float], list[str]] = {}
        for cc in best:
            at = (
                round(delay.at(cc, path), delay.digits),
                round(goodput.at(cc, path), goodput.digits),
            )
            same.setdefault(at, []).append(cc)
        for turn, ((x, y), names) in enumerate(sorted(same.items())):
            label = (
                ", ".join(names)
                if len(names) <= _NAMED
                else f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
            )
            side: dict[str, Any] = (
                {"xytext": (4, -7)} if turn % 2 == 0 else {"xytext": (-4, 3), "ha": "right"}
            )
            place.annotate(label, (x, y), textcoords="offset points", fontsize=6, **side)
        front = sorted((delay.at(cc, path), goodput.at(cc, path)) for cc in best)
        place.plot(
            [x for x, _ in front], [y for _, y in front], color="#0072b2", linewidth=0.8, zorder=0
        )
        place.set_title(path, fontsize=8)
        place.set_xlabel("ping p95, ms", fontsize=7)
        place.set_ylabel("goodput, %", fontsize=7)
        place.tick_params(labelsize=6)
    for place in places[len(goodput.columns) :]:
        place.set_visible(False)


TOURNAMENT = Study(
    name="tournament",
    question="Which congestion control is best for a single flow, by type of path?",
    parts=_tournament_parts,
    answer=_tournament_answer,
)
