"""Published Wi-Fi experiments, each with two of the three Wi-Fi stacks. The scenarios are those of
`scenarios/wifi`.
"""

from __future__ import annotations

from statistics import median

from narrows.json_object import JsonObject
from narrows.reproduce.lab import Lab, Of, Runs, mid
from narrows.runs.model import RunJson, measured
from narrows.runs.scenario import Flow, Ping, Scenario, Station, Wifi

_MOVED = 100_000
# Maximum size of an aggregate: the data of 4 ms at 57.8 Mbit/s; see
# scenarios/wifi/three-stations.toml.
_ATH9K = {"bytes": "28883B"}


def _three(*flows: Flow, probes: tuple[Ping, ...] = ()) -> Scenario:
    stations = [Station(name="fast", count=2, mcs=15), Station(name="slow", mcs=0)]
    wifi = Wifi(standard="n", station=stations, aggregate=_ATH9K)
    return Scenario(wifi=wifi, flows=flows, probes=probes, duration="30s", warmup="5s")


def _scenarios() -> dict[str, Scenario]:
    udp = {"kind": "udp", "rate": "50Mbit"}
    laptop = Wifi(standard="n", station=[Station(name="laptop", mcs=1, rtt="10ms")])
    thirty = Wifi(
        standard="n",
        band="2.4GHz",
        station=[Station(name="fast", count=29, mcs=15), Station(name="slow", rate="1Mbit")],
        aggregate=_ATH9K,
    )
    hundred = Wifi(
        standard="n",
        band="2.4GHz",
        station=[
            Station(name="near", count=78, mcs=15, rtt="20ms"),
            Station(name="far", count=22, rate="1Mbit", rtt="20ms"),
        ],
        aggregate=_ATH9K,
    )
    # An HTTPS request as of 2016: a DNS query and two round trips for TLS.
    file: dict[str, bool | int | float | str | list[str]] = {
        "kind": "web",
        "sizes": ["130kB"],
        "dns": True,
        "tls": 2,
    }
    readers = Wifi(
        standard="n",
        station=[
            Station(name="reader", mcs=7, rtt="20ms"),
            Station(name="other", count=3, mcs=7, rtt="20ms"),
        ],
    )
    return {
        "udp": _three(Flow(workload=udp, station="fast"), Flow(workload=udp, station="slow")),
        "tcp": _three(
            Flow("cubic", station="fast"),
            Flow("cubic", station="slow"),
            probes=(Ping(station="fast0"), Ping(station="slow")),
        ),
        "thirty": Scenario(
            wifi=thirty,
            flows=[Flow("cubic", station="fast"), Flow("cubic", station="slow")],
            probes=[Ping(station="fast0")],
            duration="30s",
            warmup="10s",
        ),
        "hundred": Scenario(
            wifi=hundred,
            flows=[Flow(workload=file, station="near"), Flow(workload=file, station="far")],
            duration="30s",
            warmup="0s",
        ),
        "load": Scenario(
            wifi=laptop,
            flows=[Flow("cubic", count=4)],
            probes=[Ping()],
            duration="30s",
            warmup="5s",
        ),
        "page": Scenario(
            wifi=readers,
            flows=[
                Flow("cubic", station="other", count=4),
                Flow(workload="web", station="reader", start="20s"),
            ],
            probes=[Ping(station="reader")],
            duration="60s",
            warmup="10s",
        ),
    }


def _all(figures: RunJson) -> float:
    return float(sum(measured(station["goodput_mbit"]) for station in figures["stations"]))


def _station(number: int) -> Of:
    return lambda figures: measured(figures["stations"][number]["goodput_mbit"])


def _air(number: int) -> Of:
    return lambda figures: 100 * measured(figures["stations"][number]["airtime_share"])


def _moved(figures: RunJson) -> float:
    """Number of flows that transferred at least 100 kB."""
    return float(
        sum(1 for flow in figures["flows"] if flow["series"] and flow["series"][-1][1] >= _MOVED)
    )


def _longest(figures: RunJson) -> float:
    """Maximum over the flows of the 99th percentile of the RTT, in s."""
    return (
        max(
            measured(flow["sampled_rtt_ms"]["p99"])
            for flow in figures["flows"]
            if flow["sampled_rtt_ms"]
        )
        / 1000
    )


def _median_rtt(figures: RunJson) -> float:
    return float(
        median(
            measured(flow["sampled_rtt_ms"]["p50"])
            for flow in figures["flows"]
            if flow["sampled_rtt_ms"]
        )
    )


def _page(figures: RunJson) -> float:
    return next(
        float(flow["workload"]["page_load_s"]["mean"])
        for flow in figures["flows"]
        if "workload" in flow
    )


def wifi(lab: Lab) -> dict[str, float]:
    """Goodput, airtime and delay with few, 30 and 100 stations, and load time of a page beside
    downloads.
    """
    needed = dict.fromkeys(("udp", "hundred", "load", "page"), ("before", "airtime"))
    needed |= dict.fromkeys(("tcp", "thirty"), ("fq_mac", "airtime"))
    cases: dict[tuple[str, str], JsonObject] = {}
    for name, scenario in _scenarios().items():
        for stack in needed[name]:
            tree = scenario.tree()
            tree["wifi"] = {**tree["wifi"], "stack": stack}
            cases[name, stack] = dict(tree)
    found = lab.play(cases, seeds=3, quick_seeds=1, interval="1s")

    def of(name: str, stack: str, figure: Of) -> float:
        runs: Runs = found[name, stack]
        return mid(runs, figure)

    def ratio(name: str, figure: Of) -> float:
        return of(name, "airtime", figure) / of(name, "fq_mac", figure)

    def ping(figures: RunJson) -> float:
        return measured(figures["probes"][0]["rtt_ms"]["p99"])

    return {
        "udp-before": of("udp", "before", _all),
        "udp-airtime": of("udp", "airtime", _all),
        "air-before-slow": of("udp", "before", _air(2)),
        "air-fast": of("udp", "airtime", _air(0)),
        "air-slow": of("udp", "airtime", _air(2)),
        "tcp-total": ratio("tcp", _all),
        "tcp-fast": ratio("tcp", _station(0)),
        "tcp-slow": ratio("tcp", _station(2)),
        "tcp-fast-mbit": of("tcp", "fq_mac", _station(0)),
        "tcp-slow-mbit": of("tcp", "fq_mac", _station(2)),
        "thirty": ratio("thirty", _all),
        "hundred-before": of("hundred", "before", _moved),
        "hundred-delay": of("hundred", "before", _longest),
        "hundred-airtime": of("hundred", "airtime", _moved),
        "hundred-rtt": of("hundred", "airtime", _median_rtt),
        "load-before": of("load", "before", ping),
        "load-airtime": of("load", "airtime", ping),
        "page": of("page", "before", _page) / of("page", "airtime", _page),
    }
