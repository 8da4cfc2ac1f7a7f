"""Measures the rate of false verdicts and the statistical power of `narrows compare`.

    python -m validation.comparison             200 pairs per path, about ten minutes
    python -m validation.comparison --pairs 20  fewer pairs; the result is only printed
    python -m validation.comparison --resume    continue an interrupted run
    python -m validation.comparison --live DIR  count false verdicts of the results of `narrows
                                                latency` in DIR; write evidence/comparison-live.json

The first command writes evidence/comparison.md. Pairs of measurements of the same path differ only
in the seed and in the start of the load. Every verdict "better" or "worse" on them is false. The
simulated paths have one or several flows of CUBIC, Reno and BBR, short and deep buffers, AQMs, a
policer, random loss and jitter. One or both directions are loaded by TCP flows, by TCP flows during
page loads (`--test page`), or by datagrams (`--test udp_flood`). Some measurements have several
loads (`--repeats`). Some measurements are files in the format of iperf2 or iperf3, with rates from
a first-order autoregressive process. Results of `narrows latency` are made from pings over
simulated paths, and from a model of a host that is interrupted. For the power, the rate of the path
is changed by 10 % in the second measurement.

There are two criteria. In each family of metrics, at most 1 % of all pairs may have a false
verdict. At an error rate of 1 %, the number of false verdicts of each kind of measurement must have
a probability of at least 1 %.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from statistics import median
from typing import TYPE_CHECKING, Any, cast

from narrows.compare import latency
from narrows.compare.measurements import ERROR_RATE, differences
from narrows.files import of_text
from narrows.json_object import JsonObject
from narrows.latency.result import PERCENTILES, needed
from narrows.latency.result import read as read_latency
from narrows.measure.result import Column, Measurement, Phase, Pings
from narrows.measure.result import Flow as LoadFlow
from narrows.measure.simulated import Plan, watch
from narrows.runs.run import run
from narrows.runs.scenario import Flow, Hop, Path, Ping, Scenario
from narrows.storage import output
from validation.asked import processes

if TYPE_CHECKING:
    from narrows.latency.model import LatencyJson
    from narrows.measure.model import UdpLoadJson

PAIRS = 200
EVIDENCE = FilePath(__file__).parent / "evidence/comparison.md"
LIVE = EVIDENCE.with_name("comparison-live.json")
"""The file with the number of false verdicts on pairs of real runs."""

KEPT = FilePath(__file__).parent.parent / "target/comparison.jsonl"
"""The file with the finished rows of an interrupted run."""

METRICS = {
    "rate": ("down_mbit", "up_mbit"),
    "idle round trip": ("idle_ms",),
    "round trip under load": ("loaded_down_ms", "loaded_up_ms", "udp_rtt_ms"),
    "its p95": ("loaded_down_p95_ms", "loaded_up_p95_ms", "udp_rtt_p95_ms"),
    "loss, page": ("udp_loss_percent", "page_ms", "page_loaded_ms"),
    "response time": tuple(f"response_us {key}" for key in PERCENTILES),
    "its round trip": tuple(f"rtt_us {key}" for key in PERCENTILES),
}
"""The families of metrics, each with the keys of its metrics."""

CHANGED = {"better", "worse", "faster", "slower"}
"""Verdicts that are false on an unchanged path."""

Result = Measurement | JsonObject
"""A measurement, or a result of `narrows latency`."""

UP = Hop(rate="5Mbit", buffer="1bdp")


@dataclass(frozen=True)
class Case:
    """A kind of measurement.

    Attributes:
        name: The name in the table.
        measure: Returns a measurement for a seed and a factor on the rate of the path.
        changed: The metrics that must be reported as changed if the rate has changed; empty if the
            power is not measured.
    """

    name: str
    measure: Callable[[int, float], Result]
    changed: tuple[str, ...] = ()


def _simulated(path: Path, plan: Plan) -> Callable[[int, float], Measurement]:
    def measure(seed: int, factor: float) -> Measurement:
        idle = plan.idle_s + random.Random(seed).random()
        hop = replace(path, rate=f"{float(str(path.rate).removesuffix('Mbit')) * factor:g}Mbit")
        return watch(hop, replace(plan, idle_s=idle), seed=seed)

    return measure


def repeated_measurement(path: Path, plan: Plan, loads: int) -> Callable[[int, float], Measurement]:
    """A measurement with `--repeats`: independent loads of the same path, one after the other."""
    once = _simulated(path, plan)

    def measure(seed: int, factor: float) -> Measurement:
        parts = [once(1000 * seed + number, factor) for number in range(loads)]
        phases: list[Phase] = []
        flows: list[LoadFlow] = []
        sent: Column = []
        rtts: Column = []
        begin = 0.0
        for part in parts:
            shift = begin

            def later(times: Column, shift: float = shift) -> Column:
                return [None if t is None else t + shift for t in times]

            phases += [
                replace(p, from_s=p.from_s + shift, to_s=p.to_s + shift) for p in part.phases
            ]
            flows += [
                replace(
                    f,
                    from_s=f.from_s + shift,
                    to_s=f.to_s + shift,
                    columns={**f.columns, "t_s": later(f.columns["t_s"])},
                )
                for f in part.flows
            ]
            sent += later(part.pings[0].columns["t_s"])
            rtts += part.pings[0].columns["rtt_ms"]
            begin = max(p.to_s for p in phases)
        train = replace(parts[0].pings[0], columns={"t_s": sent, "rtt_ms": rtts})
        return Measurement({}, phases, flows, [train])

    return measure


def page_measurement(path: Path, fetch: str) -> Callable[[int, float], Measurement]:
    """A measurement with `--test page`: one flow in each direction while a page is loaded
    repeatedly.
    """
    plan = Plan(streams=1, at_once=True)

    def measure(seed: int, factor: float) -> Measurement:
        del factor
        web: JsonObject = {
            "kind": "web",
            "fetch": fetch,
            "keepalive": True,
            "pages": 1000,
            "think": "100ms",
        }
        web |= {"objects": 31, "total": "1.8MB"}
        begin = plan.idle_s + random.Random(seed).random()
        page = Flow(id="page", workload=web, start=f"{begin}s", stop=f"{begin + plan.load_s}s")
        seen = watch(path, plan, seed=seed, beside=[page])
        seen.json["page"] = {
            phase: {"n": 3, "p50": random.Random(f"{phase} {seed}").lognormvariate(0, 0.3)}
            for phase in ("idle_s", "loaded_s")
        }
        return seen

    return measure


def udp_flood_measurement(path: Path, stream: JsonObject) -> Callable[[int, float], Measurement]:
    """A measurement with `--test udp_flood`: pings, and datagrams of which only the totals are
    known.
    """
    idle_s, load_s = 3.0, 10.0

    def measure(seed: int, factor: float) -> Measurement:
        del factor
        times: JsonObject = {
            "start": f"{idle_s + random.Random(seed).random()}s",
            "stop": f"{idle_s + load_s}s",
        }
        scenario = Scenario(
            path,
            flows=[Flow(id="load", workload=stream, **times)],
            probes=[Ping(interval="20ms")],
            duration=f"{idle_s + load_s}s",
            warmup="0s",
            seed=seed,
        )
        sent, rtts = (run(scenario, sample_interval="1s").pings[n].to_pylist() for n in _PINGED)
        load: UdpLoadJson = {
            "direction": "down",
            "loss": 0.2 + 0.1 * random.Random(f"loss {seed}").random(),
        }
        return Measurement(
            {"udp_load": load},
            [Phase("idle", 0.0, idle_s), Phase("loaded", idle_s, idle_s + load_s)],
            [],
            [
                Pings(
                    "ping0", "udp", None, 20.0, len(rtts), len(rtts), {"t_s": sent, "rtt_ms": rtts}
                )
            ],
        )

    return measure


_PINGED = ("t_s", "rtt_ms")


def times(ns: list[int]) -> JsonObject:
    """Times as a distribution in the format of a result of `narrows latency`."""
    ordered, n = sorted(ns), len(ns)
    known = {key: float(key[1:].replace("_", ".")) / 100 for key in PERCENTILES}
    return {
        "n": n,
        **{key: ordered[int(q * n)] / 1e3 for key, q in known.items() if n >= needed(key)},
        "histogram_ns": sorted(Counter(ns).items()),
    }


def _nanoseconds(took_s: float) -> int:
    """A time in ns, rounded to the resolution of the histogram of a result (0.1 to 1 %)."""
    return round(float(f"{1e9 * took_s:.3g}"))


def latency_result(sent: list[float], response_s: list[float], rtt_s: list[float]) -> JsonObject:
    """A result of `narrows latency` with these times, and its list of the slowest responses."""
    limit = sorted(response_s)[len(response_s) // 2] + 1e-3
    slow = sorted((took, t) for t, took in zip(sent, response_s, strict=True) if took > limit)[
        -1000:
    ]
    return {
        "response_us": times([_nanoseconds(took) for took in response_s]),
        "rtt_us": times([_nanoseconds(took) for took in rtt_s]),
        "slow": {"kept": [{"t_s": t} for _, t in slow]},
    }


def ping_measurement(path: Path, *flows: Flow) -> Callable[[int, float], JsonObject]:
    """A measurement with one request per millisecond over a simulated path that also carries these
    flows.
    """

    def measure(seed: int, factor: float) -> JsonObject:
        del factor
        scenario = Scenario(
            path,
            flows=list(flows),
            probes=[Ping(interval="1ms")],
            duration="13s",
            warmup="0s",
            seed=seed,
            start_jitter="500ms",
        )
        sent, rtts = (run(scenario, sample_interval="1s").pings[n].to_pylist() for n in _PINGED)
        # The first two seconds are left out, because the flows start in them.
        sent_and_rtt = zip(sent, rtts, strict=True)
        known = [(t, rtt / 1e3) for t, rtt in sent_and_rtt if rtt and t >= 2]  # noqa: PLR2004
        took = [rtt for _, rtt in known]
        return latency_result([t for t, _ in known], took, took)

    return measure


def interrupted_measurement(
    per_s: float, mean_s: float, *, seconds: int = 11
) -> Callable[[int, float], JsonObject]:
    """A measurement with one request per millisecond to a host that is interrupted. Interruptions
    begin at Poisson times and have exponential durations.
    """

    def measure(seed: int, factor: float) -> JsonObject:
        del factor
        draw = random.Random(f"host {seed}")
        at, until = draw.expovariate(per_s), 0.0
        stops: list[tuple[float, float]] = []
        while at < seconds:
            until = max(until, at) + draw.expovariate(1 / mean_s)
            stops.append((at, until))
            at += draw.expovariate(per_s)
        sent = [n / 1000 for n in range(1000 * seconds)]
        which, response, rtt = 0, [], []
        for t in sent:
            while which < len(stops) and stops[which][1] <= t:
                which += 1
            stopped = which < len(stops) and stops[which][0] <= t
            late = stops[which][1] - t if stopped else 0.0
            took = 80e-6 * draw.lognormvariate(0, 0.3)
            rtt.append(took)
            response.append(took + late)
        return latency_result(sent, response, rtt)

    return measure


def _intervals(
    seed: int, count: int, mbit: float, spread: float, correlation: float
) -> list[float]:
    """Rates of a first-order autoregressive process, in Mbit/s."""
    draw = random.Random(f"intervals {seed}")
    at, out = draw.gauss(0, 1), []
    for _ in range(count):
        out.append(max(0.01, mbit * (1 + spread * at)))
        at = correlation * at + (1 - correlation**2) ** 0.5 * draw.gauss(0, 1)
    return out


def iperf2(
    seed: int,
    mbit: float,
    *,
    every: int,
    seconds: int,
    spread: float = 0.05,
    correlation: float = 0.5,
) -> str:
    """Output in the format of iperf2, with its rounding and a short last interval."""
    rates = _intervals(seed, seconds // every, mbit, spread, correlation)
    rows: list[tuple[float, float, float]] = [
        (i * every, (i + 1) * every, rate) for i, rate in enumerate(rates)
    ]
    extra = random.Random(seed).uniform(0.01, 0.09)
    rows.append((seconds, seconds + extra, mbit))
    total = sum((end - begin) * rate for begin, end, rate in rows)
    rows.append((0, seconds + extra, total / (seconds + extra)))
    head = "Client connecting to 192.0.2.1, TCP port 5001\n"
    return head + "".join(
        f"[  3] {begin:4.1f}-{end:4.1f} sec  {_three((end - begin) * rate / 8 * 1e6 / 2**20)} "
        "MBytes  "
        f"{_three(rate)} Mbits/sec\n"
        for begin, end, rate in rows
    )


def iperf2_udp(seed: int, mbit: float, *, seconds: int) -> str:
    """Output in the format of an iperf2 server that receives datagrams, some of which are lost."""
    draw = random.Random(f"udp {seed}")
    rows, lost, sent = [], 0, 0
    for i, rate in enumerate(_intervals(seed, seconds, mbit, 0.05, 0.5)):
        of = round(1.2 * mbit * 1e6 / 8 / 1470)
        arrived = min(of, round(rate * 1e6 / 8 / 1470))
        rows.append((float(i), i + 1.0, arrived, of - arrived, of))
        lost, sent = lost + of - arrived, sent + of
    rows.append((0.0, float(seconds), sent - lost, lost, sent))
    head = "Server listening on UDP port 5001\nReceiving 1470 byte datagrams\n"
    return head + "".join(
        f"[  3] {begin:4.1f}-{end:4.1f} sec  {_three(arrived * 1470 / 2**20)} MBytes  "
        f"{_three(arrived * 1470 * 8e-6 / (end - begin))} Mbits/sec   "
        f"{draw.uniform(0.01, 0.3):.3f} ms {missed:4d}/{of:5d} ({100 * missed / of:.2g}%)\n"
        for begin, end, arrived, missed, of in rows
    )


def _three(value: float) -> str:
    """A value with three significant digits, as byte_snprintf of iperf2 writes it."""
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0  # noqa: PLR2004
    return f"{value:.{digits}f}"


def iperf3(
    seed: int, mbit: float, *, seconds: int, spread: float = 0.05, correlation: float = 0.5
) -> str:
    """Output in the format of `iperf3 -J`, shortened."""
    draw = random.Random(seed)
    at, intervals, total = 0.0, [], 0.0
    for i, rate in enumerate(_intervals(seed, seconds, mbit, spread, correlation)):
        end = i + 1 + draw.uniform(0, 2e-4)
        sent = rate * 1e6 / 8 * (end - at)
        stream = {
            "socket": 5,
            "start": at,
            "end": end,
            "seconds": end - at,
            "bytes": round(sent),
            "sender": True,
        }
        intervals.append(
            {"streams": [stream | {"bits_per_second": sent * 8 / (end - at), "omitted": False}]}
        )
        at, total = end, total + sent
    told = {
        "socket": 5,
        "start": 0,
        "end": at,
        "bytes": round(total),
        "bits_per_second": total * 8 / at,
    }
    start: dict[str, Any] = {
        "connecting_to": {"host": "192.0.2.1", "port": 5201},
        "test_start": {"protocol": "TCP", "num_streams": 1, "duration": seconds, "reverse": 0},
    }
    end_: dict[str, Any] = {
        "streams": [{"sender": told, "receiver": told}],
        "sender_tcp_congestion": "cubic",
    }
    return json.dumps({"start": start, "intervals": intervals, "end": end_})


def _text(
    write: Callable[..., str], mbit: float, **how: float
) -> Callable[[int, float], Measurement]:
    return lambda seed, factor: of_text(write(seed, mbit * factor, **how).encode(), "file")


def _udp(rate: str) -> JsonObject:
    return {"kind": "udp", "rate": rate, "packet": "1400B"}


CUBIC = Path(rate="20Mbit", rtt="30ms", buffer="1bdp", reverse=UP)
FAIR = replace(CUBIC, buffer=None, queue="fq_codel")
PIE = replace(CUBIC, buffer=None, queue="pie")
LATENCY = ("loaded_down_ms", "loaded_down_p95_ms")

CASES = (
    Case("1 CUBIC flow, 10 s", _simulated(CUBIC, Plan(streams=1))),
    Case(
        "1 CUBIC flow, 30 s",
        _simulated(CUBIC, Plan(streams=1, load_s=30, directions=("down",))),
        ("down_mbit",),
    ),
    Case(
        "12 CUBIC flows, 10 s",
        _simulated(replace(CUBIC, rate="50Mbit", rtt="40ms"), Plan(streams=12)),
    ),
    Case("4 CUBIC flows, 6 s, 200 kB", _simulated(replace(CUBIC, buffer="200kB"), Plan(load_s=6))),
    Case(
        "4 CUBIC flows, 30 s, 200 kB",
        _simulated(replace(CUBIC, buffer="200kB"), Plan(load_s=30, directions=("down",))),
        ("down_mbit", *LATENCY),
    ),
    Case(
        "1 CUBIC flow, 0.1 % loss, 10 s", _simulated(replace(CUBIC, loss="0.1%"), Plan(streams=1))
    ),
    Case(
        "1 CUBIC flow, 0.1 % loss, 30 s",
        _simulated(replace(CUBIC, loss="0.1%"), Plan(streams=1, load_s=30)),
    ),
    Case(
        "2 Reno flows, 0.1 % loss, 30 s",
        _simulated(
            replace(CUBIC, rtt="50ms", loss="0.1%"),
            Plan(cc="reno", streams=2, load_s=30, directions=("down",)),
        ),
    ),
    Case("2 BBR flows, 10 s", _simulated(replace(CUBIC, buffer="2bdp"), Plan(cc="bbr", streams=2))),
    Case(
        "4 flows, fq_codel, 10 s", _simulated(replace(CUBIC, buffer=None, queue="fq_codel"), Plan())
    ),
    Case("4 flows, pie, 10 s", _simulated(replace(CUBIC, buffer=None, queue="pie"), Plan())),
    Case(
        "2 flows, jitter 3 ms, 10 s",
        _simulated(replace(CUBIC, buffer="4bdp", jitter="3ms"), Plan(streams=2)),
    ),
    Case(
        "2 flows, policer, 10 s",
        _simulated(
            replace(
                CUBIC,
                rate="100Mbit",
                policer={"kind": "police", "rate": "20Mbit", "burst": "62500B"},
            ),
            Plan(streams=2),
        ),
    ),
    Case("1 flow each way at once, 10 s", _simulated(CUBIC, Plan(streams=1, at_once=True))),
    Case("4 flows each way at once (rrul), 10 s", _simulated(CUBIC, Plan(at_once=True))),
    Case("the same, 30 s", _simulated(CUBIC, Plan(load_s=30, at_once=True)), ("down_mbit",)),
    Case("the same, BBR, 10 s", _simulated(CUBIC, Plan(cc="bbr", at_once=True))),
    Case("the same, fq_codel, 10 s", _simulated(FAIR, Plan(at_once=True))),
    Case(
        "3 loads of 2 CUBIC flows, 5 s",
        repeated_measurement(CUBIC, Plan(streams=2, load_s=5, directions=("down",)), 3),
        ("down_mbit",),
    ),
    Case(
        "5 loads of 1 CUBIC flow, 0.1 % loss, 5 s",
        repeated_measurement(
            replace(CUBIC, loss="0.1%"), Plan(streams=1, load_s=5, directions=("down",)), 5
        ),
    ),
    Case("page in parallel", page_measurement(CUBIC, "parallel")),
    Case("page in sequence, fq_codel", page_measurement(FAIR, "sequential")),
    Case("UDP 24 Mbit/s over 20 Mbit/s", udp_flood_measurement(CUBIC, _udp("24Mbit"))),
    Case("UDP 24 Mbit/s over 20 Mbit/s, pie", udp_flood_measurement(PIE, _udp("24Mbit"))),
    Case(
        "UDP on and off, 30 Mbit/s",
        udp_flood_measurement(
            CUBIC, _udp("30Mbit") | {"kind": "on_off", "on": "200ms", "off": "300ms"}
        ),
    ),
    Case("iperf2 -u, server, 10 s", _text(iperf2_udp, 20, seconds=10)),
    Case("iperf2 -u, server, 30 s", _text(iperf2_udp, 20, seconds=30)),
    Case(
        "latency, path with jitter 1 ms",
        ping_measurement(Path(rate="100Mbit", rtt="5ms", jitter="1ms")),
    ),
    Case("latency, beside 1 CUBIC flow", ping_measurement(CUBIC, Flow("cubic"))),
    Case("latency, beside 4 flows, fq_codel", ping_measurement(FAIR, Flow("cubic", count=4))),
    Case(
        "latency, beside UDP on and off",
        ping_measurement(
            CUBIC,
            Flow(workload=_udp("30Mbit") | {"kind": "on_off", "on": "200ms", "off": "300ms"}),
        ),
    ),
    Case("latency, 1 interruption of 5 ms per s", interrupted_measurement(1, 0.005)),
    Case("latency, 10 interruptions of 2 ms per s", interrupted_measurement(10, 0.002)),
    Case("latency, 2 interruptions of 300 ms per s", interrupted_measurement(2, 0.3)),
    Case("iperf2 -i 1, 10 s", _text(iperf2, 20, every=1, seconds=10)),
    Case("iperf2 -i 2, 10 s", _text(iperf2, 9.96, every=2, seconds=10)),
    Case(
        "iperf2 -i 1, 30 s",
        _text(iperf2, 20, every=1, seconds=30, spread=0.03),
        ("down_mbit", "up_mbit"),
    ),
    Case("iperf3 -J, 10 s", _text(iperf3, 20, seconds=10)),
    Case("iperf3 -J, 30 s", _text(iperf3, 20, seconds=30, spread=0.03), ("down_mbit", "up_mbit")),
    Case("iperf3 -J, 30 s, correlation 0.8", _text(iperf3, 20, seconds=30, correlation=0.8)),
)


def verdicts(case: Case, pair: int, factor: float = 1.0) -> dict[str, str]:
    """The verdict on each metric of a pair of measurements; `factor` changes the rate of the
    second.
    """
    before, after = case.measure(2 * pair + 1, 1.0), case.measure(2 * pair + 2, factor)
    if isinstance(before, Measurement) and isinstance(after, Measurement):
        return {d.figure.key: d.verdict for d in differences(before, after)}
    assert isinstance(before, dict) and isinstance(after, dict)  # noqa: PT018
    two = cast("LatencyJson", before), cast("LatencyJson", after)
    return {f"{d.clock} {d.key}": d.verdict for d in latency.differences(*two)}


Row = tuple[str, Counter[str], dict[str, float]]


def _row(at: int, pairs: int) -> Row:
    """The number of pairs with a false verdict, by family of metrics, and the share of detected
    changes, by metric.
    """
    case = CASES[at]
    false: Counter[str] = Counter()
    for pair in range(pairs):
        wrong = {key for key, verdict in verdicts(case, pair).items() if verdict in CHANGED}
        false.update(family for family, keys in METRICS.items() if wrong & set(keys))
        false.update(["any"] if wrong else [])
    found: Counter[str] = Counter()
    if case.changed:
        for pair in range(pairs):
            changed = verdicts(case, pair, 0.9)
            found.update(key for key in case.changed if changed.get(key) in CHANGED)
    return case.name, false, {key: found[key] / pairs for key in case.changed if found[key]}


def _rows(pairs: int, *, resume: bool) -> list[Row]:
    """All rows of the page. With `resume`, the finished rows of an interrupted run are reused."""
    KEPT.parent.mkdir(exist_ok=True)
    known: dict[int, Row] = {}
    if resume and KEPT.exists():
        for line in KEPT.read_text(encoding="utf-8").splitlines():
            at, of, name, false, found = json.loads(line)
            if (of, name) == (pairs, CASES[at].name):
                known[at] = name, Counter(false), found
    else:
        KEPT.unlink(missing_ok=True)
    todo = [at for at in range(len(CASES)) if at not in known]
    with KEPT.open("a", encoding="utf-8") as sink, processes(None) as pool:
        for at, row in zip(todo, pool.map(_row, todo, [pairs] * len(todo)), strict=True):
            known[at] = row
            sink.write(json.dumps([at, pairs, *row]) + "\n")
            sink.flush()
    return [known[at] for at in range(len(CASES))]


def live(folder: FilePath) -> JsonObject:
    """Counts false verdicts on results of one host. Every two consecutive results form a pair."""
    files = sorted(folder.glob("*.json"))
    results = [read_latency(file) for file in files]
    pairs = list(zip(results[::2], results[1::2], strict=False))
    wrong = [{d.clock for d in latency.differences(*pair) if d.sure} for pair in pairs]
    loads = [
        float(found["says"].split("load is ")[1].split()[0])
        for one in results
        for found in one["findings"]
        if found["what"] == "load"
    ]
    return {
        "pairs": len(pairs),
        "false": {
            "response time": sum("response_us" in clocks for clocks in wrong),
            "its round trip": sum("rtt_us" in clocks for clocks in wrong),
            "any": sum(bool(clocks) for clocks in wrong),
        },
        "lasted_s": round(median(one["lasted_s"] for one in results), 1),
        "load": [min(loads, default=None), max(loads, default=None)],
        "began": results[0]["began"],
        "kernel": results[0]["kernel"],
    }


def _live_row() -> Iterator[str]:
    """The stored result of `live`, in words."""
    if not LIVE.exists():
        return
    told = json.loads(LIVE.read_text(encoding="utf-8"))
    yield ""
    yield (
        f"There are {told['pairs']} pairs of real runs of `narrows latency` over loopback, of "
        f"{told['lasted_s']:g} s each. They started on {told['began'][:10]} on Linux "
        f"{told['kernel']}, with a load of {told['load'][0]:g} to {told['load'][1]:g} on two "
        f"processors. {told['false']['response time']} pairs have a false verdict on the response "
        f"time, and {told['false']['its round trip']} on the round trip. Interruptions delayed "
        "most responses, so that these pairs show errors but no power."
    )


def lines(rows: list[Row], pairs: int) -> Iterator[str]:
    """The lines of the page."""
    yield "# False verdicts and power of `narrows compare`"
    yield ""
    yield (
        f"`python -m validation.comparison --pairs {pairs}`: {pairs} pairs of measurements of the "
        "same path per row; "
        "the number of pairs with a false verdict in each family of metrics, and in any. The last "
        "column is the share "
        "of pairs in which a change of the rate by 10 % was found."
    )
    yield ""
    yield (
        "Lost datagrams and page load times never have a verdict, because a result contains only "
        "their totals. Results of `narrows latency` come from pings of simulated paths, and from a "
        "model of a host with interruptions."
    )
    yield ""
    families = (*METRICS, "any")
    yield f"| measurement | {' | '.join(families)} | 10 % found |"
    yield f"|---{'|--:' * len(families)}|---|"
    for name, false, found in rows:
        power = ", ".join(f"{key} {share:.0%}".replace("%", " %") for key, share in found.items())
        yield f"| {name} | {' | '.join(str(false[family]) for family in families)} | {power} |"
    every = len(rows) * pairs
    total = " | ".join(
        f"{100 * sum(false[f] for _, false, _ in rows) / every:.2f} %" for f in families
    )
    yield f"| **share of all {every}** | {total} | |"
    yield from _live_row()


def _most(pairs: int) -> int:
    """The largest number of false verdicts with a probability of at least 1 % at `ERROR_RATE`."""
    beyond = 1.0
    for count in range(pairs + 1):
        beyond -= math.comb(pairs, count) * ERROR_RATE**count * (1 - ERROR_RATE) ** (pairs - count)
        if beyond < 0.01:  # noqa: PLR2004 - that probability
            return count
    return pairs


def main() -> int:
    """Measures and writes the page; returns 1 if false verdicts are too frequent."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--resume", action="store_true", help="continue an interrupted run")
    parser.add_argument(
        "--live", metavar="DIR", type=FilePath, help="results of narrows latency, in pairs"
    )
    args = parser.parse_args()
    if args.live is not None:
        output.write(LIVE, json.dumps(live(args.live), indent=1) + "\n")
        return 0
    pairs = args.pairs
    rows = _rows(pairs, resume=args.resume)
    text = "\n".join(lines(rows, pairs)) + "\n"
    print(text)
    if pairs >= PAIRS:
        output.write(EVIDENCE, text)
    every = sum((false for _, false, _ in rows), Counter[str]())
    counts = [("all", every, pairs * len(rows), ERROR_RATE * pairs * len(rows))]
    counts += [(name, false, pairs, _most(pairs)) for name, false, _ in rows]
    too_many = [
        f"{name}, {family}: {count} of {of}"
        for name, false, of, most in counts
        for family, count in false.items()
        if count > most
    ]
    for one in too_many:
        print(f"more than {100 * ERROR_RATE:g} % false: {one}")
    return 1 if too_many else 0


if __name__ == "__main__":
    sys.exit(main())
