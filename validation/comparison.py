"""False verdicts and power of `narrows compare`.

    python -m validation.comparison             200 pairs per path, about four minutes
    python -m validation.comparison --pairs 20  fewer pairs; the result is only printed

The first command writes evidence/comparison.md. Pairs of measurements of the same path differ only
in the seed and in the start of the load. Every verdict "better" or "worse" on them is false. The
simulated paths have one or several flows of CUBIC, Reno and BBR, short and deep buffers, AQMs, a
policer, random loss and jitter. Files have the format of iperf2 or iperf3, with intervals from a
first-order autoregressive process, and are read like any other. For the power, the path of the
second measurement is changed by 10 %.

There are two criteria. At most 1 % of all pairs may have a false verdict in a family of metrics.
The number of false verdicts of one kind of measurement must have a probability of at least 1 % at
an error rate of 1 %.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any

from narrows.compare.measurements import ERROR_RATE, differences
from narrows.files import of_text
from narrows.measure.result import Measurement
from narrows.measure.simulated import Plan, watch
from narrows.runs.scenario import Hop, Path
from narrows.storage import output

PAIRS = 200
EVIDENCE = FilePath(__file__).parent / "evidence/comparison.md"

METRICS = {
    "rate": ("down_mbit", "up_mbit"),
    "idle round trip": ("idle_ms",),
    "round trip under load": ("loaded_down_ms", "loaded_up_ms"),
    "its p95": ("loaded_down_p95_ms", "loaded_up_p95_ms"),
}
"""Families of metrics by their keys."""

UP = Hop(rate="5Mbit", buffer="1bdp")


@dataclass(frozen=True)
class Case:
    """A kind of measurement.

    Attributes:
        name: The name in the table.
        measure: Returns a measurement with a seed; the rate of the path is multiplied by a factor.
        changed: The metrics that must be found changed if the rate is; empty if the power is not
            measured.
    """

    name: str
    measure: Callable[[int, float], Measurement]
    changed: tuple[str, ...] = ()


def _simulated(path: Path, plan: Plan) -> Callable[[int, float], Measurement]:
    def measure(seed: int, factor: float) -> Measurement:
        idle = plan.idle_s + random.Random(seed).random()
        hop = replace(path, rate=f"{float(str(path.rate).removesuffix('Mbit')) * factor:g}Mbit")
        return watch(hop, replace(plan, idle_s=idle), seed=seed)

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
    """Output of iperf2, with its rounding and a short last interval."""
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


def _three(value: float) -> str:
    """Three digits, as in byte_snprintf of iperf2."""
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0  # noqa: PLR2004
    return f"{value:.{digits}f}"


def iperf3(
    seed: int, mbit: float, *, seconds: int, spread: float = 0.05, correlation: float = 0.5
) -> str:
    """Output of `iperf3 -J`, shortened."""
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


CUBIC = Path(rate="20Mbit", rtt="30ms", buffer="1bdp", reverse=UP)
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
    """The verdict of each metric of a pair."""
    before, after = case.measure(2 * pair + 1, 1.0), case.measure(2 * pair + 2, factor)
    return {d.figure.key: d.verdict for d in differences(before, after)}


def _row(at: int, pairs: int) -> tuple[str, Counter[str], dict[str, float]]:
    """The number of pairs with a false verdict, by family of metrics, and the share of detected
    changes, by metric.
    """
    case = CASES[at]
    false: Counter[str] = Counter()
    for pair in range(pairs):
        wrong = {
            key for key, verdict in verdicts(case, pair).items() if verdict in {"better", "worse"}
        }
        false.update(family for family, keys in METRICS.items() if wrong & set(keys))
        false.update(["any"] if wrong else [])
    found: Counter[str] = Counter()
    if case.changed:
        for pair in range(pairs):
            changed = verdicts(case, pair, 0.9)
            found.update(key for key in case.changed if changed.get(key) in {"better", "worse"})
    return case.name, false, {key: found[key] / pairs for key in case.changed if found[key]}


def lines(rows: list[tuple[str, Counter[str], dict[str, float]]], pairs: int) -> Iterator[str]:
    """The page."""
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
    pairs = parser.parse_args().pairs
    with ProcessPoolExecutor() as pool:
        rows = list(pool.map(_row, range(len(CASES)), [pairs] * len(CASES)))
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
