"""Compares simulated Wi-Fi with published results. The scenarios (`scenarios/wifi`) are run with
each queueing stack.

Every value is the median of several seeds. A criterion is met if the value is within the tolerance
of the published one. The sources are Høiland-Jørgensen et al., *Ending the Anomaly* (ATC 2017),
table 1, and Linux commit 63fefa050477. Some properties of the testbed's medium are not known:
interference, rates chosen by the hardware, retries. Therefore most metrics are ratios between two
stacks.

`python -m validation.wifi` prints the table and writes it to `validation/evidence/wifi.md`. It
exits with 1 if a criterion is not met and no cause is known. `--spread 200 --live 3` instead
measures the random variation of the ping RTTs of the thirty stations. It runs 200 seeds in the
simulator, and three runs of 100 s with real packets, for which the machine must be idle.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

from narrows import _core
from validation.asked import positive
from validation.stored import HERE

SCENARIOS = HERE.parent / "scenarios/wifi"
EVIDENCE = HERE / "evidence/wifi.md"
RATIO = 0.15
STACKS = ("before", "fq_mac", "airtime")

Figures = dict[str, Any]
Runs = dict[str, dict[str, list[Figures]]]
"""The results of all seeds, by scenario and stack."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One published metric.

    Attributes:
        what: The metric, in words.
        published: The published value.
        ours: The value of narrows.
        least, most: Limits of accepted values.
        known: The known cause if the criterion is not met, or an empty text.
    """

    what: str
    published: str
    ours: float
    least: float
    most: float
    known: str = ""

    @property
    def met(self) -> bool:
        """Whether the value is within the limits."""
        return self.least <= self.ours <= self.most


def _near(what: str, value: float, ours: float, known: str = "") -> Row:
    least, most = value * (1 - RATIO), value * (1 + RATIO)
    return Row(what=what, published=f"{value:g}", ours=ours, least=least, most=most, known=known)


def _within(what: str, least: float, most: float, ours: float, known: str = "") -> Row:
    published = f"at least {least:g}" if math.isinf(most) else f"{least:g}–{most:g}"
    return Row(what=what, published=published, ours=ours, least=least, most=most, known=known)


def play(names: tuple[str, ...], seeds: int) -> Runs:
    """Runs each scenario with each stack and `seeds` seeds."""
    runs: Runs = {}
    for name in names:
        toml = (SCENARIOS / f"{name}.toml").read_text(encoding="utf-8")
        tree = _core.toml_to_tree(toml, name)
        for stack in STACKS:
            made = [
                _run({**tree, "wifi": {**tree["wifi"], "stack": stack}, "seed": seed})
                for seed in range(1, seeds + 1)
            ]
            runs.setdefault(name, {})[stack] = made
    return runs


def _run(tree: Figures, engine: Literal["sim", "live"] = "sim") -> Figures:
    from narrows.runs.run import run  # noqa: PLC0415
    from narrows.runs.scenario import from_tree  # noqa: PLC0415

    return cast("Figures", run(from_tree(tree), engine=engine).json)


def _of(runs: list[Figures], figure: Callable[[Figures], float]) -> float:
    return float(statistics.median(figure(one) for one in runs))


def _total(figures: Figures) -> float:
    return float(sum(station["goodput_mbit"] for station in figures["stations"]))


def _goodput(station: int) -> Callable[[Figures], float]:
    return lambda figures: float(figures["stations"][station]["goodput_mbit"])


def _air(station: int) -> Callable[[Figures], float]:
    return lambda figures: 100 * float(figures["stations"][station]["airtime_share"])


def _moved(figures: Figures) -> float:
    """Number of flows that have transferred 100 kB."""
    return sum(
        1
        for flow in figures["flows"]
        if flow["series"] and flow["series"][-1][1] >= 100_000  # noqa: PLR2004
    )


def _ping(which: str) -> Callable[[Figures], float]:
    return lambda figures: float(figures["probes"][0]["rtt_ms"][which])


def _in_stack(which: str) -> Callable[[Figures], float]:
    return lambda figures: float(figures["probes"][0]["delay_ms"]["mac80211"][which])


def _in_qdisc(figures: Figures) -> float:
    return float(figures["queues"][0]["delay_ms"]["p99"]) / 1000


def _longest(figures: Figures) -> float:
    """The largest p99 RTT of all flows, in s."""
    return max(float(flow["rtt_ms"]["p99"]) for flow in figures["flows"] if flow["rtt_ms"]) / 1000


def _median_rtt(figures: Figures) -> float:
    return float(
        statistics.median(flow["rtt_ms"]["p50"] for flow in figures["flows"] if flow["rtt_ms"])
    )


def _page(figures: Figures) -> float:
    return next(
        float(f["workload"]["page_load_s"]["mean"]) for f in figures["flows"] if "workload" in f
    )


def rows(runs: Runs) -> list[Row]:
    """The rows of the table."""
    udp, tcp, many = (
        runs[name] for name in ("three-stations-udp", "three-stations", "thirty-stations")
    )
    crowd, loaded, page = (runs[name] for name in NAMES[3:])

    def ratio(of: dict[str, list[Figures]], figure: Callable[[Figures], float]) -> float:
        return _of(of["airtime"], figure) / _of(of["fq_mac"], figure)

    def shares(stack: str, station: int) -> float:
        return _of(udp[stack], _air(station))

    pages = _of(page["before"], _page) / _of(page["airtime"], _page)
    who = enumerate(("the first", "the second", "the slow one"))
    return [
        _near("UDP, two fast and one slow, before: total Mbit/s", 18.7, _of(udp["before"], _total)),
        _near("the same, airtime", 76.4, _of(udp["airtime"], _total)),
        _within("the same, before: airtime of the slow one, %", 75, 82, shares("before", 2)),
        *(
            _within(f"the same, airtime: airtime of {name}, %", 30, 36, shares("airtime", i))
            for i, name in who
        ),
        _near("TCP, the same stations, fq_mac → airtime: total", 1.25, ratio(tcp, _total)),
        _near("the same: a fast one", 1.3, ratio(tcp, _goodput(0))),
        _near("the same: the slow one", 0.69, ratio(tcp, _goodput(2))),
        _near("the same, fq_mac: a fast one, Mbit/s", 19.5, _of(tcp["fq_mac"], _goodput(0))),
        _near("the same, fq_mac: the slow one, Mbit/s", 2.58, _of(tcp["fq_mac"], _goodput(2))),
        _near("30 stations, one at 1 Mbit/s, fq_mac → airtime: total", 8.3, ratio(many, _total)),
        _within(
            "100 stations at once, before: have 100 kB after 30 s",
            0,
            10,
            _of(crowd["before"], _moved),
        ),
        _within(
            "the same: RTT of the one that waits longest, p99, s",
            10,
            math.inf,
            _of(crowd["before"], _longest),
        ),
        _within(
            "the same, airtime: have 100 kB after 30 s", 100, 100, _of(crowd["airtime"], _moved)
        ),
        _within("the same: median RTT, ms", 150, 300, _of(crowd["airtime"], _median_rtt)),
        _within(
            "One station under load, before: ping p99, ms",
            1000,
            2000,
            _of(loaded["before"], _ping("p99")),
        ),
        _within("the same, airtime", 0, 60, _of(loaded["airtime"], _ping("p99"))),
        _within(
            "the same: of it in mac80211, median, ms",
            2,
            12,
            _of(loaded["airtime"], _in_stack("p50")),
        ),
        _within("the same: in mac80211, p95, ms", 2, 12, _of(loaded["airtime"], _in_stack("p95"))),
        _within("A page beside twelve downloads: before over airtime", 1, math.inf, pages),
    ]


def _tree(name: str) -> Figures:
    return _core.toml_to_tree((SCENARIOS / f"{name}.toml").read_text(encoding="utf-8"), name)


def thirty(seeds: int) -> list[str]:
    """The lines about the cost of one slow station among thirty, by the rates and the aggregate
    limits of the others.
    """
    lines = [
        "## Thirty stations: factors of the gain",
        "",
        "`thirty-stations.toml` with other rates of the 29 fast stations, and with the limit of "
        "aggregates of the",
        "standard instead of that of ath9k. At each of its turns, the slow station fills the "
        "hardware with single frames.",
        "The cost rises with the rates of the other stations. Published: 2.14 and 17.76 Mbit/s, "
        "without these rates.",
        "",
        "| MCS of the 29 | aggregates | fq_mac, Mbit/s | airtime of the slow station | airtime, "
        "Mbit/s | factor |",
        "|---|---|---|---|---|---|",
    ]
    tree = _tree("thirty-stations")
    limits: tuple[dict[str, object], ...] = (tree["wifi"]["aggregate"], {})
    cases = [(mcs, limit) for limit in limits for mcs in (0, 3, 5, 7, 15)]
    for mcs, limit in cases:
        fast, slow = tree["wifi"]["station"]
        wifi = {**tree["wifi"], "aggregate": limit, "station": [{**fast, "mcs": mcs}, slow]}
        runs = {
            stack: [
                _run({**tree, "wifi": {**wifi, "stack": stack}, "seed": seed})
                for seed in range(1, seeds + 1)
            ]
            for stack in ("fq_mac", "airtime")
        }
        before, after = (_of(runs[stack], _total) for stack in runs)
        whose, slow_air = "ath9k" if limit else "802.11", _of(runs["fq_mac"], _air(29))
        lines.append(
            f"| {mcs} | {whose} | {before:.3g} | {slow_air:.0f} % | {after:.3g} | "
            f"{after / before:.2g} |"
        )
    return lines


WIRE = "20ms"
"""RTT of the wired path behind the access point, for the runs of thirty stations with real packets.
"""

SPREAD: dict[str, Callable[[Figures], float]] = {
    "total, Mbit/s": _total,
    "airtime of the slow one, %": _air(29),
    "ping to a fast one, median, ms": _ping("p50"),
    "p95, ms": _ping("p95"),
    "p99, ms": _ping("p99"),
}


def spread(seeds: int, live: int) -> list[str]:
    """The lines about the random variation over seeds of thirty stations without airtime fairness.
    They also state where runs with real packets lie in this distribution.
    """
    tree = _tree("thirty-stations")
    stations = [{**station, "rtt": WIRE} for station in tree["wifi"]["station"]]
    tree = {**tree, "wifi": {**tree["wifi"], "stack": "fq_mac", "station": stations}}
    played = [_run({**tree, "seed": seed}) for seed in range(1, seeds + 1)]
    real = [_run({**tree, "seed": seed}, "live") for seed in range(1, live + 1)]
    lines = [
        f"| metric | sim, {seeds} seeds: 5 %, median, 95 % | live, and the share of seeds below |",
        "|---|---|---|",
    ]
    for name, figure in SPREAD.items():
        values = sorted(figure(one) for one in played)
        low, middle, high = (values[int(share * len(values))] for share in (0.05, 0.5, 0.95))
        runs = [figure(one) for one in real]
        told = [
            f"{run:.4g} ({100 * sum(v < run for v in values) / len(values):.0f} %)" for run in runs
        ]
        lines.append(f"| {name} | {low:.4g}, {middle:.4g}, {high:.4g} | {', '.join(told)} |")
    for n, one in enumerate(real):
        told_by = one["instruments"]
        lines += [f"\nLive run {n + 1} is not trusted: {'; '.join(told_by['why'])}"] * (
            not told_by["trusted"]
        )
    return lines


AIR_S = 30
"""Duration of a run of the hundred stations, in s."""
SLOW: dict[str, dict[str, object]] = {
    "1 Mbit/s": {"rate": "1Mbit"},
    "2 Mbit/s": {"rate": "2Mbit"},
    "MCS 0": {"mcs": 0},
}
ENDLESS: Figures = {"cc": "cubic"}


def _file(size: str, tls: int = 2) -> Figures:
    return {"workload": {"kind": "web", "sizes": [size], "dns": bool(tls), "tls": tls}}


TRANSFERS = {
    "page, TLS 1.2": _file("130kB"),
    "page, TLS 1.3": _file("130kB", 1),
    "page of 300 kB": _file("300kB"),
    "file": _file("130kB", 0),
    "endless": ENDLESS,
}
"""Possible transfers of each of the hundred stations: over HTTPS with a name lookup, over HTTP
without one, or endless.
"""


def hundred(seeds: int) -> list[str]:
    """The lines about a hundred stations with the old and the new stack, with rates and transfers
    that the demonstration may have used.
    """
    lines = [
        "## A hundred stations: effect of unpublished properties",
        "",
        "The first row is `hundred-stations.toml`. The others have more or fewer slow stations, "
        "other rates, another RTT",
        "behind the access point, or other transfers. A page over HTTPS needs four RTTs before its "
        "first byte is requested:",
        "one for the name, one for TCP and two for TLS 1.2. A file over HTTP needs only the one "
        "for TCP. The fast stations",
        "have MCS 15. Published before: at most 10 stations have 100 kB after 30 s, and delays "
        "exceed 10 s. Published after:",
        "all stations have 100 kB, and the median RTT is 150 to 300 ms.",
        "",
        "| transfer | slow | rate | wire | before: have 100 kB | in the qdisc, p99 | longest RTT | "
        "airtime: have 100 kB | median RTT |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    tree = _tree("hundred-stations")
    fast, _ = tree["wifi"]["station"]
    cases = [
        ("page, TLS 1.2", 22, "1 Mbit/s", "20ms"),
        *(("page, TLS 1.2", slow, "1 Mbit/s", "20ms") for slow in (10, 20, 21, 23, 25, 30)),
        *(("page, TLS 1.2", 22, "1 Mbit/s", wire) for wire in ("0ms", "50ms", "100ms")),
        *(
            (transfer, 22, "1 Mbit/s", "20ms")
            for transfer in TRANSFERS
            if transfer != "page, TLS 1.2"
        ),
        *(("file", slow, "1 Mbit/s", "20ms") for slow in (10, 30, 50, 100)),
        ("page, TLS 1.2", 44, "2 Mbit/s", "20ms"),
        *(("page, TLS 1.2", slow, "MCS 0", "20ms") for slow in (0, 50, 100)),
        *(("endless", slow, "MCS 0", "20ms") for slow in (0, 50, 100)),
    ]
    for transfer, count, rate, wire in cases:
        sort = [
            {**fast, "count": 100 - count, "rtt": wire},
            {"name": "far", "count": count, "rtt": wire, **SLOW[rate]},
        ]
        stations = [one for one in sort if one["count"]]
        several = {
            **tree,
            "wifi": {**tree["wifi"], "station": stations},
            "flow": [{**TRANSFERS[transfer], "station": one["name"]} for one in stations],
        }
        before, after = (
            [
                _run({**several, "wifi": {**several["wifi"], "stack": stack}, "seed": seed})
                for seed in range(1, seeds + 1)
            ]
            for stack in ("before", "airtime")
        )
        lines.append(
            f"| {transfer} | {count} | {rate} | {wire.replace('ms', ' ms')} | "
            f"{_of(before, _moved):.0f} | {_of(before, _in_qdisc):.2g} s | "
            f"{_of(before, _longest):.3g} s | "
            f"{_of(after, _moved):.0f} | {_of(after, _median_rtt):.0f} ms |"
        )
    frames, bits = 1123, 1514 * 8
    # The airtime of 70 exchanges of long preamble, frame, SIFS, and an ACK of 14 bytes with its own
    # preamble, all at 1 Mbit/s.
    file_s = 70 * (192 + 1538 * 8 + 10 + 192 + 14 * 8) / 1e6
    told = (
        "The published results of before and after limit the number of slow stations from both "
        f"sides. Qdisc and driver hold {frames} full frames. They last 10 s only if all stations "
        f"together get at most {frames * bits / 10e6:.2f} Mbit/s, which needs many slow stations. "
        "But the airtime of their data is the same before and after. With preambles and ACKs, "
        f"100 kB at 1 Mbit/s take {file_s:.2f} s. So {int(AIR_S / file_s)} stations fill {AIR_S} "
        "s, independent of the share of airtime; with collisions, fewer stations do. Both limits "
        "permit about 21 to 23 slow stations, and only if RTTs precede the data. These take "
        "seconds each before, and almost no time after. Then all of a hundred pages complete "
        "after, and fewer than ten before. Beside endless transfers, a slow station has a "
        "hundredth of the time, 0.3 s, which at 1 Mbit/s are 37 kB."
    )
    return [*lines, "", *textwrap.wrap(told, 118)]


def markdown(made: list[Row], seeds: int) -> str:
    """The text of the whole page."""
    lines = [
        "# Wi-Fi: published results and narrows",
        "",
        f"Written by `python -m validation.wifi`: the median of {seeds} seeds of each scenario in "
        "`scenarios/wifi`,",
        "with each stack. The last column contains known causes of criteria that are not met.",
        "",
        "| metric | published | accepted | narrows | |",
        "|---|---|---|---|---|",
    ]
    for row in made:
        word = "met" if row.met else f"not met: {row.known}" if row.known else "not met"
        lines.append(
            f"| {row.what} | {row.published} | {row.least:.4g} to {row.most:.4g} | {row.ours:.4g} "
            f"| {word} |"
        )
    return "\n".join([*lines, "", *thirty(seeds), "", *hundred(seeds)]) + "\n"


NAMES = (
    "three-stations-udp",
    "three-stations",
    "thirty-stations",
    "hundred-stations",
    "one-station-under-load",
    "page-beside-downloads",
)


def main() -> int:
    """Runs the comparison; returns 1 if a criterion is not met and no cause is known."""
    parser = argparse.ArgumentParser(prog="python -m validation.wifi", description=__doc__)
    parser.add_argument(
        "--seeds", type=positive, default=3, help="number of seeds of each scenario [default: 3]"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--spread",
        type=positive,
        metavar="SEEDS",
        help="print only the spread of the pings of thirty stations, with this number of seeds",
    )
    parser.add_argument(
        "--live",
        type=positive,
        default=0,
        metavar="RUNS",
        help="number of runs over real packets, with --spread [default: 0]",
    )
    args = parser.parse_args()
    if args.spread:
        print("\n".join(spread(args.spread, args.live)))
        return 0
    made = rows(play(NAMES, args.seeds))
    text = markdown(made, args.seeds)
    if args.json:
        print(
            json.dumps(
                [
                    {"what": r.what, "published": r.published, "ours": r.ours, "met": r.met}
                    for r in made
                ],
                indent=1,
            )
        )
    else:
        print(text)
        EVIDENCE.write_text(text, encoding="utf-8")
    return int(any(not row.met and not row.known for row in made))


if __name__ == "__main__":
    sys.exit(main())
