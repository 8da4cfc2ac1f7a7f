"""Experiments on the shares of competing flows: fairness, BBR FAQ, late flows, policers, models of
share and queue.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from narrows.reproduce.lab import Lab, again, fair, finished, goodput, mid, part, queue_ms, total
from narrows.reproduce.losses import exponent, lossy
from narrows.runs.model import measured
from narrows.runs.scenario import Flow, Hop, Host, Path, Ping, Scenario

_HALF = 50.0


def fairness(lab: Lab) -> dict[str, float]:
    """Share and retransmits of BBR beside CUBIC at 1 Gbit/s and 20 ms, for several buffer sizes."""

    def both(buffer: str) -> Scenario:
        return Scenario(
            Path(rate="1Gbit", rtt="20ms", buffer=buffer),
            flows=[Flow("bbr"), Flow("cubic")],
            host=Host(like="linux-4.15"),
            duration=lab.seconds(60),
            warmup="0s",
        )

    found = lab.play({name: both(name) for name in ("10kB", "100kB", "5MB", "10MB")}, seeds=3)
    ours = {f"share-{name}": mid(found[name], part("bbr")) for name in ("10kB", "5MB")}
    ours["ratio-10MB"] = mid(found["10MB"], lambda one: goodput(1)(one) / goodput(0)(one))
    ours["again-bbr-100kB"] = mid(found["100kB"], again("bbr"))
    ours["again-ratio-100kB"] = mid(
        found["100kB"], lambda one: again("bbr")(one) / max(again("cubic")(one), 1)
    )
    ours["again-fall"] = ours["again-bbr-100kB"] / max(mid(found["10MB"], again("bbr")), 1)
    half = crossover(
        lambda buffer: mid(lab.play({"": both(f"{buffer:.4f}bdp")}, seeds=3)[""], part("bbr")),
        4 if lab.quick else 7,
    )
    if half is None:
        lab.failed["crossover"] = (
            f"not found: BBR's share does not cross one half between {_LEAST_BDP:g} and "
            f"{_MOST_BDP:g} BDP"
        )
        return ours
    return ours | {"crossover": half}


_LEAST_BDP, _MOST_BDP = 0.25, 16.0


def crossover(share: Callable[[float], float], times: int) -> float | None:
    """Buffer size, in bandwidth-delay products, at which a share in % falls below 50 %, by
    bisection of its logarithm.

    The result is None if there is none in the range from `_LEAST_BDP` to `_MOST_BDP`. If the
    bisection ends at a limit of the range, this limit is tested as well.

    >>> round(crossover(lambda buffer: 100 if buffer < 2 else 0, 20), 3)
    2.0
    >>> crossover(lambda _: 100, 4) is None, crossover(lambda _: 0, 4) is None
    (True, True)
    """
    first, last = math.log(_LEAST_BDP), math.log(_MOST_BDP)
    low, high = first, last
    for _ in range(times):
        middle = (low + high) / 2
        if share(math.exp(middle)) >= _HALF:
            low = middle
        else:
            high = middle
    if (low == first and share(_LEAST_BDP) < _HALF) or (high == last and share(_MOST_BDP) >= _HALF):
        return None
    return math.exp((low + high) / 2)


def faq(lab: Lab) -> dict[str, float]:
    """Values that the list of frequently asked questions about BBR states."""
    whole = lab.seconds(60)

    def path(buffer: str, **more: object) -> Path:
        return Path(rate="50Mbit", rtt="40ms", buffer=buffer, **more)  # type: ignore[arg-type]

    pair = [Flow("bbr"), Flow("cubic")]
    shared = {
        f"fair-{bdp:g}": Scenario(path(f"{bdp:g}bdp"), flows=pair, duration=lab.seconds(120))
        for bdp in (0.5, 1.5, 3, 6)
    }
    shared["fq-share"] = Scenario(path("1000p", queue="fq_codel"), flows=pair, duration=whole)
    ours = {name: mid(runs, fair(0)) for name, runs in lab.play(shared).items()}

    losses = (0.1, 0.2, 0.5, 1)
    lost = {
        (cc, loss): lossy(cc, loss, rate="50Mbit", rtt="100ms", buffer="1bdp", duration=whole)
        for cc in ("reno", "bbr")
        for loss in losses
    }
    got = {key: mid(runs, goodput()) for key, runs in lab.play(lost).items()}
    for cc in ("reno", "bbr"):
        ours[f"sqrt-{cc}"] = exponent([(loss, got[cc, loss]) for loss in losses])

    halved = Hop(rate="1Gbit", buffer="1000p", loss={"probability": "50%", "per": "packet"})
    clumped = Hop(rate="1Gbit", buffer="1000p", jitter="10ms")
    alone = {
        "plain": Scenario(path("1bdp"), flows=[Flow("bbr")], duration=whole),
        "ack-bbr": Scenario(path("1bdp", reverse=halved), flows=[Flow("bbr")], duration=whole),
        "ack-thin": Scenario(path("1bdp", reverse=clumped), flows=[Flow("bbr")], duration=whole),
        "pacing-internal": Scenario(
            path("1bdp"), flows=[Flow("bbr")], host=Host(pacing="fq"), duration=whole
        ),
    }
    found = lab.play(alone)
    plain = mid(found["plain"], goodput())
    for name in ("ack-bbr", "ack-thin"):
        ours[name] = mid(found[name], goodput()) / plain
    ours["pacing-internal"] = plain / mid(found["pacing-internal"], goodput())

    small = Path(rate="20Mbit", rtt="40ms", buffer="15kB")
    bursts = {
        pacing: Scenario(small, flows=[Flow("bbr")], host=Host(pacing=pacing), duration=whole)
        for pacing in ("auto", "off")
    }
    sent = {name: mid(runs, again()) for name, runs in lab.play(bursts).items()}
    ours["pacing"] = sent["off"] / max(sent["auto"], 1)

    deep = {
        queue: Scenario(
            path(buffer, queue=queue), flows=pair, probes=[Ping(interval="20ms")], duration=whole
        )
        for queue, buffer in (("fifo", "8bdp"), ("fq_codel", "2000p"))
    }
    waits = {
        queue: mid(runs, lambda one: measured(one["probes"][0]["rtt_ms"]["mean"]) - 40)
        for queue, runs in lab.play(deep).items()
    }
    ours["fq-queue"] = waits["fq_codel"] / waits["fifo"]

    short = {
        (name, cc): Scenario(
            path("1bdp", loss={"probability": loss, "per": "packet"}),
            flows=[Flow(cc, size=size)],
            duration="60s",
            start_jitter="0s",
        )
        for name, size, loss in (
            ("15", "15kB", "0%"),
            ("100", "100kB", "0%"),
            ("loss", "1MB", "2%"),
        )
        for cc in ("bbr", "cubic")
    }
    times = {
        key: mid(runs, finished(60))
        for key, runs in lab.play(short, seeds=20, quick_seeds=7).items()
    }
    return ours | {
        f"short-{name}": times[name, "bbr"] / times[name, "cubic"] for name in ("15", "100", "loss")
    }


def joiners(lab: Lab) -> dict[str, float]:
    """A flow that starts later, several flows, and flows with different RTTs, in a small and in a
    large buffer.
    """
    rtt_ms = 20.0
    buffers = {"small": "0.8bdp", "large": "8bdp"}

    def on(size: str, *flows: Flow, warmup: str = "20s", whole: str = "60s") -> Scenario:
        return Scenario(
            Path(rate="1Gbit", rtt="20ms", buffer=buffers[size]),
            flows=flows,
            duration=whole,
            warmup=warmup,
        )

    def joined(size: str, first: str, second: str) -> Scenario:
        flows = (Flow(first, id="first"), Flow(second, id="second", start="20s"))
        return on(size, *flows, warmup="50s", whole="80s")

    cases = {
        "alone-queue": on("large", Flow("bbr")),
        "two-queue": on("large", Flow("bbr", count=2)),
        "six-queue": on("large", Flow("bbr", count=6)),
        "six-bbr": on("small", Flow("bbr", count=6)),
        "six-cubic": on("small", Flow("cubic", count=6)),
        "bbr-joins": joined("large", "bbr", "bbr"),
        "bbr-joins-small": joined("small", "bbr", "bbr"),
        "cubic-joins-small": joined("small", "bbr", "cubic"),
        "cubic-joins-large": joined("large", "bbr", "cubic"),
        "bbr-joins-cubic-small": joined("small", "cubic", "bbr"),
        "rtt-bbr": on("large", Flow("bbr", id="near"), Flow("bbr", id="far", rtt="60ms")),
        "rtt-cubic": on("small", Flow("cubic", id="near"), Flow("cubic", id="far", rtt="60ms")),
    }
    found = lab.play(cases, seeds=3, quick_seeds=1)
    ours = {
        name: mid(found[name], queue_ms) / rtt_ms
        for name in ("alone-queue", "two-queue", "six-queue")
    }
    rate = {
        cc: mid(found[f"six-{cc}"], lambda one: measured(one["flows"][0]["run_retransmit_rate"]))
        for cc in ("bbr", "cubic")
    }
    ours["six-again"] = 100 * rate["bbr"]
    ours["six-ratio"] = mid(found["six-bbr"], again()) / max(mid(found["six-cubic"], again()), 1)
    for name in cases:
        if "joins" in name:
            ours[name] = mid(found[name], fair(1))
    for cc in ("bbr", "cubic"):
        ours[f"rtt-{cc}"] = mid(
            found[f"rtt-{cc}"], lambda one: goodput(1)(one) / max(goodput(0)(one), 1e-9)
        )
    return ours


_PLACES: dict[str, tuple[Path, float]] = {
    "police": (
        Path(rate="10Gbit", buffer="1000p", policer={"rate": "2Mbit", "burst": "62500B"}),
        2,
    ),
    "shape": (Path(rate="2Mbit", buffer="128000B", link={"kind": "tbf", "burst": "3080B"}), 2),
    "peak": (Path(rate="4Mbit", buffer="128000B", link={"kind": "tbf", "burst": "3080B"}), 4),
}
"""The published paths, with the rate to which each limits its flows, in Mbit/s."""


def mixes(lab: Lab) -> dict[str, float]:
    """Share of BBR in the goodput, in %, behind a policer, a shaper, and a shaper with a peak rate.
    If all flows have one congestion control, it is the share of the rate.
    """
    kinds = ("bbr4", "cubic4", "bbr2cubic2", "bbr4cubic4", "bbr4reno4")
    wanted = {
        "police": [(k, 10) for k in kinds] + [("bbr4cubic4", 50), ("bbr4reno4", 50)],
        "shape": [(k, 10) for k in kinds] + [("bbr4cubic4", 50), ("bbr4reno4", 50)],
        "peak": [(k, 10) for k in kinds[2:]] + [("bbr4cubic4", 50)],
    }
    cases, rates = {}, {}
    for place, mixed in wanted.items():
        for mix, rtt in mixed:
            names = [cc for cc in ("bbr", "cubic", "reno") if cc in mix]
            each = int(mix[-1])
            ccs = [cc for cc in names for _ in range(each)]
            name = f"{place}-{mix}-{rtt}"
            cases[name] = Scenario(
                replace(_PLACES[place][0], rtt=f"{rtt}ms"),
                flows=[Flow(cc, id=f"{n}{cc}", start=f"{0.05 * n:g}s") for n, cc in enumerate(ccs)],
                duration="60s",
                warmup="12s",
            )
            rates[name] = _PLACES[place][1]
    ours = {}
    for name, runs in lab.play(cases).items():
        alone = name.split("-")[1] in {"bbr4", "cubic4"}
        ours[name] = 100 * mid(runs, total) / rates[name] if alone else mid(runs, part("bbr"))
    return ours


def share_model(lab: Lab) -> dict[str, float]:
    """Share of BBR in the goodput, in %: one or more BBR flows beside one CUBIC flow, and one BBR
    flow beside sixteen CUBIC flows.
    """
    cases: dict[str, tuple[float, int, int]] = {}
    for number, depths in ((1, (0.5, 2, 4, 8, 16, 32, 64)), (2, (4, 16, 64)), (10, (4, 16, 64))):
        for depth in depths:
            cases[f"{depth:g}-{number}"] = (float(depth), number, 1)
    cases["32-16"] = (32.0, 1, 16)
    scenarios = {
        name: Scenario(
            Path(rate="10Mbit", rtt="40ms", buffer=f"{depth:g}bdp"),
            flows=[Flow("bbr", count=number), Flow("cubic", count=others)],
            duration="240s",
            warmup="0s",
        )
        for name, (depth, number, others) in cases.items()
    }
    return {name: mid(runs, part("bbr")) for name, runs in lab.play(scenarios, seeds=3).items()}


def queue_model(lab: Lab) -> dict[str, float]:
    """Mean queueing delay of several BBR or BBRv2 flows, divided by the base RTT."""
    rtt_ms = 40.0
    cases = {
        f"{cc}-{number}": Scenario(
            Path(rate="100Mbit", rtt="40ms", buffer="4bdp"),
            flows=[Flow(cc, count=number)],
            duration="60s",
        )
        for cc in ("bbr", "bbr2")
        for number in (2, 5, 10)
    }
    ours = {name: mid(runs, queue_ms) / rtt_ms for name, runs in lab.play(cases, seeds=3).items()}
    return ours | {"fall-10": ours["bbr2-10"] / ours["bbr-10"]}
