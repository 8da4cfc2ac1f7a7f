"""Experiments with random loss: probing gains of BBR, the article on BBR, loss-based congestion
controls, response.
"""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import median
from typing import Any

from narrows.reproduce.lab import Lab, Runs, finished, goodput, mid
from narrows.runs.model import RunJson, measured
from narrows.runs.scenario import Flow, Hop, Host, Path, Scenario

_PAYLOAD, _FRAME = 1448, 1514

_WIDENED, _MOST_LOSS_PCT = 4, 60.0
"""Maximum number of times that the range of loss rates is extended, and upper limit of the loss
rates, in %."""


def lossy(
    cc: Any,  # noqa: ANN401 - a name or a table
    loss_pct: float,
    *,
    rate: str,
    rtt: str,
    buffer: str,
    duration: str,
    host: Host | None = None,
    warmup: str = "0s",
) -> Scenario:
    """One flow over a path with independent random loss of packets."""
    return Scenario(
        Path(
            rate=rate,
            rtt=rtt,
            buffer=buffer,
            loss={"probability": f"{loss_pct:g}%", "per": "packet"},
        ),
        flows=[Flow(cc)],
        host=host,
        duration=duration,
        warmup=warmup,
        start_jitter="0s",
    )


def _half(points: list[tuple[float, float]], whole: float) -> float | None:
    """Loss rate in % at which the goodput falls below half of `whole`, by linear interpolation;
    None if there is none.

    >>> _half([(1.0, 90.0), (2.0, 10.0)], 100.0)
    1.5
    >>> _half([(1.0, 40.0), (2.0, 10.0)], 100.0) is None
    True
    """
    for (low, more), (high, less) in pairwise(points):
        if more >= whole / 2 > less:
            return low + (high - low) * (more - whole / 2) / (more - less)
    return None


def cliff(lab: Lab) -> dict[str, float]:
    """Loss rates at which the goodput falls to half of the rate of the path, and goodput at some
    points of the published graph.
    """
    plain = {"kind": "bbr", "policer_detection": False}
    old = Host(like="linux-4.15")

    def at(cc: Any, loss: float, host: Host | None = None) -> Scenario:  # noqa: ANN401
        whole = lab.seconds(60)
        return lossy(cc, loss, rate="100Mbit", rtt="25ms", buffer="10MB", duration=whole, host=host)

    configurations: dict[str, tuple[Any, Host | None, float]] = {
        "law-1.1": (plain | {"probe_gain": 1.1}, None, 9.1),
        "law-1.25": (plain, None, 20.0),
        "law-1.5": (plain | {"probe_gain": 1.5}, None, 33.3),
        "linux-6.12": ("bbr", None, 15.3),
        "figure-4.15": ("bbr", old, 17.0),
    }
    # The loss rates have steps of 0.5 % (quick run: 1.5 %) around the expected one. If the goodput
    # does not cross half of the rate there, the range is extended.
    step, points = (1.5, 4) if lab.quick else (0.5, 12)
    around = {
        name: [middle + step * n for n in range(-points, points + 1)]
        for name, (_, _, middle) in configurations.items()
    }
    got: dict[str, dict[float, float]] = {name: {} for name in configurations}
    ours: dict[str, float] = {}
    for _ in range(1 + _WIDENED):
        cases = {
            (name, loss): at(configurations[name][0], loss, configurations[name][1])
            for name, losses in around.items()
            for loss in losses
            if 0 < loss < _MOST_LOSS_PCT and name not in ours and loss not in got[name]
        }
        if not cases:
            break
        for (name, loss), runs in lab.play(cases).items():
            got[name][loss] = mid(runs, goodput())
        for name, seen in got.items():
            half = _half(sorted(seen.items()), 100.0)
            if half is not None:
                ours[name] = half
                continue
            low, high = min(seen), max(seen)
            further = [
                low - step * (n + 1) if seen[low] < 100.0 / 2 else high + step * (n + 1)
                for n in range(points)
            ]
            around[name] = further
    for name in configurations.keys() - ours.keys():
        low, high = min(got[name]), max(got[name])
        lab.failed[name] = (
            f"not found: goodput does not cross half of the rate between {low:g} and {high:g} % "
            "loss"
        )
    gentle = plain | {"probe_gain": 1.1}
    single = {
        "bbr-5": at("bbr", 5, old),
        "bbr-1.1-11": at(gentle, 11, old),
        "bbr-1.1-18": at(gentle, 18, old),
        "cubic-1": at("cubic", 1, old),
        "reno-1": at("reno", 1, old),
    }
    return ours | {name: mid(runs, goodput()) for name, runs in lab.play(single).items()}


def article(lab: Lab) -> dict[str, float]:
    """Values of the article on BBR: goodput under loss, fairness of five flows, steps of the rate,
    and RTT of eight flows.
    """
    whole = lab.seconds(60, 30)
    cases = {
        f"{cc}-{loss:g}": lossy(
            cc, loss, rate="100Mbit", rtt="100ms", buffer="1bdp", duration=whole
        )
        for cc, losses in (("cubic", (0.1, 1)), ("bbr", (0.1, 1, 2, 5, 15, 50)))
        for loss in losses
    }
    ours = {name: mid(runs, goodput()) for name, runs in lab.play(cases).items()}
    five = Scenario(
        Path(rate="100Mbit", rtt="10ms", buffer="10bdp"),
        flows=[Flow("bbr", id=f"f{n}", start=f"{2 * n}s") for n in range(5)],
        duration="60s",
        warmup="30s",
    )
    steps = Scenario(
        Path(
            rate="10Mbit",
            rtt="40ms",
            buffer="1MB",
            steps=[{"at": "20s", "rate": "20Mbit"}, {"at": "40s", "rate": "10Mbit"}],
        ),
        flows=[Flow("bbr")],
        duration="60s",
        warmup="0s",
    )
    eights = {
        (cc, packets): Scenario(
            Path(rate="128kbit", rtt="40ms", buffer=f"{packets}p"),
            flows=[Flow(cc, count=8)],
            duration=lab.seconds(300, 200),
            warmup="60s",
        )
        for cc in ("bbr", "cubic")
        for packets in (64, 128)
    }
    ours["five-jain"] = mid(
        lab.play({"": five})[""], lambda figures: measured(figures["fairness"]["jain"])
    )
    stepped = lab.play({"": steps}, interval="100ms")[""]
    ours["step-up"] = mid(
        stepped, lambda figures: _reached(figures, 20.0, 0.9 * 20 * _PAYLOAD / _FRAME)
    )
    ours["step-down"] = mid(stepped, lambda figures: _calm(figures, 40.0, 60.0))
    waits = {
        key: mid(
            runs,
            lambda figures: median(measured(flow["rtt_ms"]["p50"]) for flow in figures["flows"]),
        )
        for key, runs in lab.play(eights, seeds=3).items()
    }
    return ours | {f"eight-{cc}": waits[cc, 128] / waits[cc, 64] for cc in ("bbr", "cubic")}


def _reached(figures: RunJson, from_s: float, mbit: float) -> float:
    """Time from `from_s` until the mean delivery rate between two points of the series (one per
    second) reaches `mbit`, in s; infinite if never.
    """
    rows = [row for row in figures["flows"][0]["series"] if row[0] >= from_s]
    for row in rows:
        later = next((other for other in rows if other[0] >= row[0] + 0.5), None)
        if later is not None and (later[1] - row[1]) * 8e-6 / (later[0] - row[0]) >= mbit:
            return float(row[0] - from_s)
    return math.inf


def _calm(figures: RunJson, from_s: float, rtt_ms: float) -> float:
    """Time from `from_s` until the smoothed RTT, after it rose above `rtt_ms`, falls below it
    again, in s. It is 0 if the RTT never rises above `rtt_ms`.
    """
    rows = [row for row in figures["flows"][0]["series"] if row[0] >= from_s]
    risen = next((n for n, row in enumerate(rows) if row[3] > rtt_ms), None)
    if risen is None:
        return 0.0
    return next((float(row[0] - from_s) for row in rows[risen:] if row[3] < rtt_ms), math.inf)


def loss_based(lab: Lab) -> dict[str, float]:
    """Rate of sent frames, before random loss, of loss-based congestion controls, in Mbit/s."""
    old = Host(like="linux-4.15")
    cases: dict[tuple[str, float], Scenario] = {}
    for cc, losses in (
        ("cubic", (0.1, 1, 5)),
        ("reno", (0.1, 1)),
        ("bic", (0.1, 1)),
        ("vegas", (0.1, 1)),
        ("westwood", (0.1, 1)),
    ):
        for loss in losses:
            name = f"{cc}-{loss:g}"
            cases[name, loss] = lossy(
                cc,
                loss,
                rate="100Mbit",
                rtt="100ms",
                buffer="20bdp",
                duration=lab.seconds(60),
                host=old,
            )
    for rtt in ("2ms", "10ms", "200ms"):
        cases[f"cubic-{rtt}", 1] = lossy(
            "cubic", 1, rate="100Mbit", rtt=rtt, buffer="20bdp", duration=lab.seconds(60), host=old
        )
    found = lab.play(cases)
    return {
        name: mid(runs, goodput()) * _FRAME / _PAYLOAD / (1 - loss / 100)
        for (name, loss), runs in found.items()
    }


_LONGEST_S = 600
_SMALL = 1e-3


def megabyte(lab: Lab) -> dict[str, float]:
    """Completion time of a 1 MB transfer at 20 % loss and 200 ms RTT, with variants, and goodput
    for several loss rates and RTTs.
    """

    def transfer(cc: str, host: Host | None = None, acks: bool = False) -> Scenario:
        reverse = (
            Hop(rate="1Gbit", buffer="1000p", loss={"probability": "20%", "per": "packet"})
            if acks
            else None
        )
        return Scenario(
            Path(
                rate="20Mbit",
                rtt="200ms",
                buffer="500000B",
                link={"kind": "tbf", "burst": "3080B"},
                loss="20%",
                reverse=reverse,
            ),
            flows=[Flow(cc, size="1000000B")],
            host=host,
            duration=f"{_LONGEST_S}s",
            start_jitter="0s",
        )

    old, unpaced = Host(like="linux-4.15"), Host(pacing="off")
    cases = {
        "1MB-bbr": transfer("bbr"),
        "1MB-cubic": transfer("cubic"),
        "1MB-bbr-4.15": transfer("bbr", old),
        "1MB-cubic-4.15": transfer("cubic", old),
        "1MB-bbr-unpaced": transfer("bbr", unpaced),
        "1MB-bbr-acks": transfer("bbr", acks=True),
        "1MB-cubic-acks": transfer("cubic", acks=True),
        "1MB-bbr-all": transfer("bbr", Host(like="linux-4.15", pacing="off"), acks=True),
        "1MB-cubic-all": transfer("cubic", old, acks=True),
    }
    done = lab.play(cases, seeds=20, quick_seeds=9)
    # The values from the slides have no accepted range.
    done |= {f"{name}-slide": done[name] for name in ("1MB-bbr", "1MB-cubic")}
    ours: dict[str, float] = {}
    for name, runs in done.items():
        ours |= lab.median_time(name, runs, finished(_LONGEST_S), _LONGEST_S)

    def steady(cc: str, loss: float) -> Scenario:
        return Scenario(
            Path(
                rate="50Mbit",
                rtt="100ms",
                buffer="625000B",
                link={"kind": "tbf", "burst": "3080B"},
                loss=f"{loss:g}%",
            ),
            flows=[Flow(cc)],
            duration="40s",
            start_jitter="0s",
        )

    swept = {
        f"{cc}-{loss:g}": steady(cc, loss)
        for cc, losses in (
            ("bbr", (0.01, 0.1, 1, 5, 15, 25, 30, 40)),
            ("cubic", (0.01, 0.1, 1, 15, 25, 30)),
        )
        for loss in losses
    }
    ours |= {name: mid(runs, goodput()) for name, runs in lab.play(swept).items()}
    far = {
        (cc, rtt): lossy(
            cc, 1, rate="100Mbit", rtt=f"{rtt}ms", buffer="2bdp", duration=lab.seconds(60)
        )
        for cc in ("cubic", "bbr")
        for rtt in (3, 10, 30, 100, 200)
    }
    got = {key: mid(runs, goodput()) for key, runs in lab.play(far).items()}
    ours["delay-cubic"] = exponent(
        [(rtt, value) for (cc, rtt), value in got.items() if cc == "cubic"]
    )
    ours["delay-bbr"] = got["bbr", 200] / got["bbr", 3]
    return ours


def exponent(points: list[tuple[float, float]]) -> float:
    """Exponent of a power law: slope of the least-squares line through the logarithms of the
    points.

    >>> round(exponent([(1, 10), (10, 1), (100, 0.1)]), 6)
    -1.0
    """
    logs = [(math.log(x), math.log(max(y, _SMALL))) for x, y in points]
    mean_x, mean_y = (sum(one[i] for one in logs) / len(logs) for i in (0, 1))
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum(
        (x - mean_x) ** 2 for x, _ in logs
    )


def response(lab: Lab) -> dict[str, float]:
    """Mean window that corresponds to the goodput, in packets of 1448 bytes, for several loss-based
    congestion controls and loss rates.
    """
    cases = {}
    for name, cc, rtt in (
        ("reno", "reno", 100),
        ("highspeed", "highspeed", 100),
        ("cubic", "cubic", 100),
        ("cubic-10", "cubic", 10),
    ):
        for power in (3, 4, 5):
            loss = 100 * 10.0**-power
            cases[f"{name}-1e-{power}", rtt] = lossy(
                cc,
                loss,
                rate="10Gbit",
                rtt=f"{rtt}ms",
                buffer="1bdp",
                duration=lab.seconds(600),
                warmup=lab.seconds(120),
            )
    found = lab.play(cases, seeds=3)

    def window(runs: Runs, rtt_ms: int) -> float:
        return mid(runs, goodput()) * 1e6 * rtt_ms / 1000 / 8 / _PAYLOAD

    return {name: window(runs, rtt) for (name, rtt), runs in found.items()}
