"""Tests why some published metrics are not reproduced, by changing one property at a time.

`narrows reproduce` compares published metrics with results of narrows. Metrics outside the
tolerance are listed in `python/narrows/data/misses.toml`, with the section of the page that
explains them. `python -m validation.reproduced` runs the variants (a minute or two) and writes
`validation/evidence/reproduced.md`. Results of Linux 6.12 in virtual time, with which the variants
are compared, are stored in `evidence/reproduced-linux-6.12.csv`, with one row per run.
"""

from __future__ import annotations

import argparse
import csv
import math
import random
import statistics
import sys
from collections.abc import Callable, Mapping
from textwrap import fill
from typing import Any

from narrows.json_object import JsonObject
from narrows.reproduce.lab import Lab, Of, again, finished, goodput, mid, part, queue_ms
from narrows.reproduce.losses import lossy
from narrows.reproduce.maps import published_gains
from narrows.runs.model import RunJson, measured
from narrows.runs.scenario import Flow, Hop, Host, Path, Scenario
from validation.stored import HERE

EVIDENCE = HERE / "evidence/reproduced.md"
LINUX = HERE / "evidence/reproduced-linux-6.12.csv"

CLEAR_PCT, DEEP_KB, FAST_MBIT = 10, 10000, 1000
LOW_WINDOW = 38
"""Largest window for which HighSpeed behaves as Reno, in packets (RFC 3649)."""

Table = tuple[list[str], list[list[str]]]


def linux() -> dict[str, list[float]]:
    """The stored values of Linux, by case."""
    lines = LINUX.read_text(encoding="utf-8").splitlines()
    found: dict[str, list[float]] = {}
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        found.setdefault(row["case"], []).append(float(row["value"]))
    return found


def sorted_values(values: list[float], digits: int = 1) -> str:
    """The values of all runs in ascending order, as text."""
    return ", ".join(f"{value:.{digits}f}" for value in sorted(values))


def by_case(
    lab: Lab, cases: Mapping[Any, Scenario] | Mapping[Any, JsonObject], of: Of, seeds: int
) -> dict[Any, list[float]]:
    """Runs all cases, and returns the metric `of` of every run, by case."""
    return {key: [of(one) for one in runs] for key, runs in lab.play(cases, seeds=seeds).items()}


def share(lab: Lab) -> Table:
    """The share of BBR in competition with CUBIC at 10 Mbit/s and 40 ms, by buffer."""
    model = {2: "78", 4: "63", 8: "55", 16: "49", 32: "44", 64: "37"}
    cases = {
        (depth, like): Scenario(
            Path(rate="10Mbit", rtt="40ms", buffer=f"{depth}bdp"),
            flows=[Flow("bbr"), Flow("cubic")],
            host=Host(like=like),
            duration="240s",
            warmup="0s",
        )
        for depth in model
        for like in ("linux-6.12", "linux-4.15")
    }
    got, real = by_case(lab, cases, part("bbr"), 5), linux()
    rows = [
        [
            f"{depth} BDP",
            value,
            sorted_values(real.get(f"share-{depth}", [])) or "–",
            sorted_values(got[depth, "linux-6.12"]),
            sorted_values(got[depth, "linux-4.15"]),
        ]
        for depth, value in model.items()
    ]
    several = {
        (depth, some, others): Scenario(
            Path(rate="10Mbit", rtt="40ms", buffer=f"{depth}bdp"),
            flows=[Flow("bbr", count=some), Flow("cubic", count=others)],
            duration="240s",
            warmup="0s",
        )
        for depth, some, others in ((16, 2, 1), (16, 10, 1), (64, 2, 1), (32, 1, 16))
    }
    said = {
        (16, 2, 1): ("50", "many-16-2"),
        (16, 10, 1): ("55", "many-16-10"),
        (64, 2, 1): ("37", "many-64-2"),
        (32, 1, 16): ("about 40", "share-32-16"),
    }
    for key, ours in by_case(lab, several, part("bbr"), 5).items():
        depth, some, others = key
        value, name = said[key]
        path = f"{depth} BDP, {some} of BBR, {others} of CUBIC"
        rows.append(
            [path, value, sorted_values(real.get(name, [])) or "–", sorted_values(ours), "–"]
        )
    return ["buffer", "model", "Linux 6.12", "narrows", "narrows, like 4.15"], rows


def queues(lab: Lab) -> Table:
    """The mean queue of BBRv2 flows, by buffer."""
    cases = {
        (buffer, cc, number): Scenario(
            Path(rate="100Mbit", rtt="40ms", buffer=f"{buffer:g}bdp"),
            flows=[Flow(cc, count=number)],
            duration="60s",
        )
        for buffer in (0.25, 0.5, 1, 2, 4)
        for cc in ("bbr", "bbr2")
        for number in (2, 10)
    }
    runs = lab.play(cases, seeds=3)

    def lost(figures: RunJson) -> float:
        return float(figures["queue"]["drops"])

    rows = [
        [
            f"{buffer:g} BDP",
            cc,
            str(number),
            f"{mid(one, queue_ms) / 40:.2f}",
            f"{mid(one, lost):.0f}",
        ]
        for (buffer, cc, number), one in runs.items()
    ]
    return ["buffer", "cc", "flows", "queue, BDP", "drops in 60 s"], rows


def eight_flows(lab: Lab) -> Table:
    """Eight BBR flows at 128 kbit/s that start together or one after the other."""
    cases = {
        (apart, packets): Scenario(
            Path(rate="128kbit", rtt="40ms", buffer=f"{packets}p"),
            flows=[Flow("bbr", id=f"f{n}", start=f"{n * apart}s") for n in range(8)],
            duration="600s",
            warmup="200s",
        )
        for apart in (0, 20)
        for packets in (64, 128, 256)
    }

    def rtt(figures: RunJson) -> float:
        return (
            float(statistics.median(measured(flow["rtt_ms"]["p50"]) for flow in figures["flows"]))
            / 1000
        )

    got, real = by_case(lab, cases, rtt, 3), linux()
    rows = [
        [
            "simultaneous" if apart == 0 else f"{apart} s apart",
            f"{packets} packets, {packets * 1514 * 8 / 128000:.1f} s",
            sorted_values(real.get(f"eight-{packets}", []), 2) or "–" if apart == 0 else "–",
            sorted_values(values, 2),
        ]
        for (apart, packets), values in got.items()
    ]
    return ["start of the flows", "buffer", "Linux 6.12: median RTT, s", "narrows, s"], rows


def short_rtts(lab: Lab) -> Table:
    """The goodput of CUBIC with 1 % of random loss over short RTTs."""
    cases = {
        rtt: Scenario(
            Path(
                rate="100Mbit",
                rtt=f"{rtt}ms",
                buffer="20bdp",
                loss={"probability": "1%", "per": "packet"},
            ),
            flows=[Flow("cubic")],
            host=Host(like="linux-4.15"),
            duration="60s",
            warmup="0s",
        )
        for rtt in (2, 3, 4, 5)
    }
    got, real = by_case(lab, cases, lambda one: goodput()(one) * 1514 / 1448 / 0.99, 5), linux()
    rows = [
        [f"{rtt} ms", sorted_values(real.get(f"near-{rtt}", [])) or "–", sorted_values(values)]
        for rtt, values in got.items()
    ]
    return ["RTT", "Linux 6.12, Mbit/s sent", "narrows, like 4.15"], rows


def westwood(lab: Lab) -> Table:
    """The goodput of Westwood under random loss, by Linux release and by maximum receive buffer."""
    own = Host(like="linux-4.15", rmem="87380B…6291456B", wmem="16KiB…4MiB")
    hosts = {"6.12": Host(), "4.15": Host(like="linux-4.15"), "own": own}
    cases = {
        (loss, name): Scenario(
            Path(
                rate="100Mbit",
                rtt="100ms",
                buffer="20bdp",
                loss={"probability": f"{loss:g}%", "per": "packet"},
            ),
            flows=[Flow("westwood")],
            host=host,
            duration="60s",
            warmup="0s",
        )
        for loss in (0.1, 1)
        for name, host in hosts.items()
    }
    runs, real = lab.play(cases), linux()

    def sent(mbit: float, loss: float) -> float:
        return mbit * 1514 / 1448 / (1 - loss / 100)

    rows = []
    for loss, published in ((0.1, "14.1"), (1, "2.51")):
        ours = [
            sorted_values([sent(goodput()(one), loss) for one in runs[loss, name]])
            for name in hosts
        ]
        stored = [
            sorted_values([sent(v, loss) for v in real.get(f"{of}-{loss:g}", [])])
            for of in ("westwood", "singly")
        ]
        rows.append([f"{loss:g} %", published, *stored, *ours])
    heads = ["loss", "published, Mbit/s", "Linux 6.12", "and SACKs one by one"]
    return [*heads, "narrows", "narrows, like 4.15", "and the buffers of 4.15"], rows


def single_transfer(lab: Lab) -> Table:
    """The completion time of a single transfer of 100 kB, with and without pacing."""
    cases = {
        (cc, pacing): Scenario(
            Path(rate="50Mbit", rtt="40ms", buffer="1bdp"),
            flows=[Flow(cc, size="100kB")],
            host=Host(pacing=pacing),
            duration="60s",
            start_jitter="0s",
        )
        for pacing in ("auto", "off", "fq")
        for cc in ("bbr", "cubic")
    }
    got = by_case(lab, cases, finished(60), 1)
    names = {"auto": "BBR only, which requests it", "off": "no flow", "fq": "all flows"}
    rows = [
        [names[pacing], *(f"{1000 * got[cc, pacing][0]:.0f}" for cc in ("bbr", "cubic"))]
        for pacing in ("auto", "off", "fq")
    ]
    return ["paced flows", "BBR, ms", "CUBIC, ms"], rows


def queue_of_flows(lab: Lab) -> Table:
    """The queue of several BBR flows at 1 Gbit/s and 20 ms with a buffer of 8 BDP."""
    cases = {
        (number, like, gain): Scenario(
            Path(rate="1Gbit", rtt="20ms", buffer="8bdp"),
            flows=[Flow({"kind": "bbr", "aggregation_gain": gain}, count=number)],
            host=Host(like=like),
            duration="40s",
        )
        for number in (2, 6)
        for like, gain in (("linux-6.12", 1.0), ("linux-6.12", 0.0), ("linux-4.15", 0.0))
    }
    got, real = by_case(lab, cases, lambda one: queue_ms(one) / 20, 2), linux()
    rows = [
        [
            str(number),
            like,
            "yes" if gain else "no",
            (sorted_values(real.get(f"standing-{number}", []), 2) or "–")
            if like == "linux-6.12" and gain
            else "–",
            sorted_values(values, 2),
        ]
        for (number, like, gain), values in got.items()
    ]
    return [
        "BBR flows",
        "hosts",
        "room for aggregated ACKs",
        "Linux: queue, BDP",
        "narrows: queue, BDP",
    ], rows


def megabyte_transfer(lab: Lab) -> Table:
    """The completion time of a transfer of 1 MB with 20 % of loss and an RTT of 200 ms, by the
    direction of the loss.
    """
    hosts = {"Linux 6.12": Host(), "like 4.15": Host(like="linux-4.15")}
    cases = {
        (cc, name, acks): Scenario(
            Path(
                rate="20Mbit",
                rtt="200ms",
                buffer="500000B",
                loss="20%",
                reverse=Hop(rate="1Gbit", buffer="1000p", loss="20%") if acks else None,
            ),
            flows=[Flow(cc, size="1000000B")],
            host=host,
            duration="1200s",
            start_jitter="0s",
        )
        for cc in ("bbr", "cubic")
        for name, host in hosts.items()
        for acks in (False, True)
    }
    got = by_case(lab, cases, finished(1200), 40)
    rows = [
        _times(cc, f"narrows, {name}", "data and ACKs" if acks else "data", values)
        for (cc, name, acks), values in got.items()
    ]
    real = linux()
    rows += [
        _times("bbr", name, "data", real[case])
        for case, name in (
            ("image-bbr", "Linux 6.12"),
            ("image-bbr-7.3", "Linux 7.3 in virtual time"),
            ("image-bbr-live", "Linux 6.18, engine live"),
        )
        if case in real
    ]
    return ["cc", "hosts", "lost", "runs", "median, s", "eight in ten, s"], rows


def _times(cc: str, hosts: str, lost: str, values: list[float]) -> list[str]:
    """A row of the table: median and range of completion times."""
    ordered = sorted(values)
    tenth = len(ordered) // 10
    spread = f"{ordered[tenth]:.0f} to {ordered[-1 - tenth]:.0f}"
    return [cc, hosts, lost, str(len(ordered)), f"{statistics.median(ordered):.1f}", spread]


def startup(lab: Lab) -> Table:
    """The goodput of BBR at 100 Mbit/s and 100 ms with random loss, by loss and duration of the
    test.
    """
    cases = {
        (loss, duration): Scenario(
            Path(rate="100Mbit", rtt="100ms", buffer="1000p", loss=f"{loss}%" if loss else None),
            flows=[Flow("bbr")],
            duration=f"{duration}s",
            warmup="0s",
            start_jitter="0s",
        )
        for loss in (0, 5)
        for duration in (10, 30, 60)
    }
    got = by_case(lab, cases, goodput(), 9)
    rows = [
        [f"{loss} %", f"{duration} s", f"{statistics.median(got[loss, duration]):.1f}",
         sorted_values(got[loss, duration])]
        for loss, duration in cases
    ]  # fmt: skip
    return ["loss", "duration", "median of 9, Mbit/s", "all runs"], rows


def varying_rtts(lab: Lab) -> Table:
    """The goodput of BBR of Linux 4.15 with a buffer of 100 KiB over long paths, by the variation
    of the RTT.
    """
    from narrows.reproduce.published import cells  # noqa: PLC0415

    jitters = {"none": None, "10 µs": "10us", "50 µs": "50us"}
    places = [
        c
        for c in cells("bbr", "4.15")
        if c.buffer_kib == 100 and c.rate_mbit >= 500 and c.rtt_ms >= 100  # noqa: PLR2004
    ]
    cases: dict[tuple[int, int, str], JsonObject] = {}
    for c in places:
        for name, spread in jitters.items():
            tree = c.scenario().tree()
            jitter = {} if spread is None else {"jitter": {"kind": "normal", "spread": spread}}
            tree["path"] = {**tree["path"], "delay_forward": "1ms", **jitter}
            cases[c.rate_mbit, c.rtt_ms, name] = dict(tree)
    got = by_case(lab, cases, goodput(), 3)
    rows = [
        [
            f"{c.rate_mbit} Mbit/s, {c.rtt_ms} ms",
            f"{c.goodput_mbit:.1f}",
            *(sorted_values(got[c.rate_mbit, c.rtt_ms, name]) for name in jitters),
        ]
        for c in places
    ]
    return ["path", "Datta and Fund, 4.15", *(f"narrows, jitter {name}" for name in jitters)], rows


def maps(_: Lab) -> Table:
    """Compares two publications about the same paths, without runs of narrows."""
    from narrows.reproduce.published import cells  # noqa: PLC0415

    theirs = published_gains()
    anew = {
        (c.buffer_kib, c.rate_mbit, c.rtt_ms, cc): (c.goodput_mbit, c.retransmits)
        for cc in ("bbr", "cubic")
        for c in cells(cc, "4.15")
    }

    def gain(buffer: int, rate: int, rtt: int) -> float:
        return 100 * (anew[buffer, rate, rtt, "bbr"][0] / anew[buffer, rate, rtt, "cubic"][0] - 1)

    clear = [
        key for key, value in theirs.items() if abs(value) >= CLEAR_PCT and key[:2] != (DEEP_KB, 10)
    ]
    right = sum((gain(*key) > 0) == (theirs[key] > 0) for key in clear)
    fast = [key for key in theirs if key[1] == FAST_MBIT]

    def count(gains: list[float]) -> str:
        return f"{sum(value > 0 for value in gains)} of {len(gains)}"

    long, middle = (100, 500, 200), (100, 500, 25)
    return ["metric", "Cao et al. 2019", "Datta and Fund 2023, Linux 4.15"], [
        [
            "cells with a gain of 10 % or more: the same sign",
            f"{len(clear)} cells",
            f"{right} of them",
        ],
        ["CUBIC, 100 KiB, 500 Mbit/s, 200 ms: Mbit/s", "179.6", f"{anew[*long, 'cubic'][0]:.1f}"],
        ["BBR, likewise", "386.0", f"{anew[*long, 'bbr'][0]:.1f}"],
        ["CUBIC, 100 KiB, 500 Mbit/s, 25 ms: retransmits", "1649", str(anew[*middle, "cubic"][1])],
        ["mean loss, 100 KiB, BBR and CUBIC: %", "10.1, 0.9", "5.0, 0.12"],
        ["mean loss, 10 MB, BBR and CUBIC: %", "0.8, 1.3", "0.27, 1.65"],
        [
            "at 1 Gbit/s, 100 and 10 000 KiB: BBR is faster",
            count([theirs[key] for key in fast]),
            count([gain(*key) for key in fast]),
        ],
        [
            "at 1 Gbit/s, 10 MB: BBR is faster",
            count([theirs[key] for key in fast if key[0] == DEEP_KB]),
            count([gain(*key) for key in fast if key[0] == DEEP_KB]),
        ],
    ]


def one_and_one(lab: Lab) -> Table:
    """The share of BBR in competition with CUBIC in deep buffers, by rate."""
    cases = {
        (rate, rtt, depth): Scenario(
            Path(rate=f"{rate}Mbit", rtt=f"{rtt}ms", buffer=f"{depth}bdp"),
            flows=[Flow("bbr"), Flow("cubic", start="100ms")],
            duration="60s",
        )
        for rate, rtt in ((10, 40), (40, 40), (1000, 20))
        for depth in (2, 4, 8)
    }
    runs, real = lab.play(cases, seeds=3), linux()
    rows = []
    for (rate, rtt, depth), some in runs.items():
        stored = sorted_values(real.get(f"pair-{rate}-{rtt}-{depth}", [])) or "–"
        lost = {cc: mid(some, again(cc)) for cc in ("bbr", "cubic")}
        shares = sorted_values([part("bbr")(one) for one in some])
        rows.append(
            [
                f"{rate} Mbit/s, {rtt} ms",
                f"{depth} BDP",
                stored,
                shares,
                f"{lost['bbr']:.0f}, {lost['cubic']:.0f}",
            ]
        )
    return [
        "path",
        "buffer",
        "Linux 6.12: share of BBR, %",
        "narrows",
        "narrows: retransmits of BBR, CUBIC",
    ], rows


def windows(lab: Lab) -> Table:
    """The mean windows of the algorithms without a network, with losses at constant and at random
    distances, and all runs of narrows.
    """
    published = {
        ("highspeed", 4): 263,
        ("highspeed", 5): 1795,
        ("cubic", 4): 187,
        ("cubic", 5): 1054,
    }
    cases = {
        (cc, power): lossy(
            cc,
            100 * 10.0**-power,
            rate="10Gbit",
            rtt="100ms",
            buffer="1bdp",
            duration="600s",
            warmup="120s",
        )
        for cc, power in published
    }
    got, real = by_case(lab, cases, lambda one: goodput()(one) * 1e6 * 0.1 / 8 / 1448, 9), linux()
    rows = []
    for (cc, power), value in published.items():
        loss = 10.0**-power
        alone = [average_window(cc, loss, even=True), average_window(cc, loss, even=False)]
        alone.append(average_window(cc, loss, even=False, growth=0.5))
        ours = sorted(got[cc, power])
        spread = f"{statistics.median(ours):.0f} ({ours[0]:.0f} to {ours[-1]:.0f})"
        stored = sorted_values(real.get(f"window-{cc}-{power}", []), 0) or "–"
        rows.append(
            [cc, f"10^-{power}", str(value), *(f"{one:.0f}" for one in alone), stored, spread]
        )
    heads = [
        "cc",
        "loss",
        "RFC 9438, even",
        "algorithm alone, even",
        "algorithm alone, random",
        "and half the growth",
    ]
    return [*heads, "Linux 6.12", "narrows, median of 9"], rows


def average_window(
    law: str,
    loss: float,
    *,
    even: bool,
    growth: float = 1.0,
    losses: int = 4000,
    rtt_s: float = 0.1,
) -> float:
    """The mean window, in packets, of an algorithm that loses one packet after each gap between
    losses. The gaps are all equal (`even`) or random.

    >>> 110 < average_window("reno", 1e-4, even=True) < 125
    True
    """
    chance = random.Random(1)
    window, most, since_s, sent, whole, rounds = 10.0, 10.0, 0.0, 0.0, 0.0, 0
    gap = 1 / loss
    for nth in range(losses):
        gap = 1 / loss if even else chance.expovariate(loss)
        while sent < gap:
            sent += window
            if nth > losses // 10:
                whole, rounds = whole + window, rounds + 1
            since_s += rtt_s
            window += growth * (_grown(law, window, most, since_s, rtt_s) - window)
        sent, since_s = 0.0, 0.0
        if law == "cubic":
            most = window if window >= most else 0.85 * window
            window *= 0.7
        else:
            window *= 1 - _decrease(law, window)
        window = max(window, 2.0)
    return whole / rounds


def _decrease(law: str, window: float) -> float:
    if law == "reno" or window <= LOW_WINDOW:
        return 0.5
    return 0.5 - 0.4 * (math.log(window) - math.log(LOW_WINDOW)) / (
        math.log(83000) - math.log(LOW_WINDOW)
    )


def _grown(law: str, window: float, most: float, since_s: float, rtt_s: float) -> float:
    if law == "cubic":
        distance = (most * 0.3 / 0.4) ** (1 / 3)
        target = 0.4 * (since_s - distance) ** 3 + most
        friendly = 0.7 * most + 3 * 0.3 / 1.7 * since_s / rtt_s
        return float(max(window, min(target, 1.5 * window), friendly))
    if law == "reno" or window <= LOW_WINDOW:
        return window + 1
    decrease = _decrease(law, window)
    return window + math.pow(window, 0.8) * 0.078 * 2 * decrease / (2 - decrease)


SECTIONS: dict[str, tuple[str, Callable[[Lab], Table], str]] = {
    "maps": (
        "The maps of BBR and CUBIC, published twice",
        maps,
        "This section contains no run of narrows. Two teams measured the same paths, with "
        "different values of the metrics that narrows does not reproduce. narrows agrees with the"
        " later team (`narrows reproduce replication`). The goodput in the testbed of Cao et al. "
        "saturates at 1 Gbit/s. Their loss may be the drops of their router, counted in another "
        "way than the retransmits of TCP.",
    ),
    "ties": (
        "BBR like 4.15 in 100 KiB of buffer over long paths",
        varying_rtts,
        "With the rules of Linux 4.15, narrows is 4 to 8 % above the measurement in 100 KiB of "
        "buffer over 100 to 200 ms. In 10 MB, it is within 1 %. Before Linux 5.10, an RTT equal to "
        "the minimum renews the minimum. In virtual time, every cycle has an RTT that equals the "
        "minimum to the microsecond. Therefore ProbeRTT, which costs half a second of every ten "
        "at 200 ms, never starts. With a jitter of some microseconds (normal distribution with "
        "the given spread), it starts sometimes. The variation of the machines of the testbed is "
        "not published, so the setup has none.",
    ),
    "pair": (
        "BBR beside CUBIC in deep buffers",
        one_and_one,
        "Published for 1 Gbit/s and 20 ms in Mininet: equal shares at 2 BDP, and three times the "
        "share of BBR for CUBIC at 4 BDP. On the same path, Linux 6.12 has BBR ahead at 2 BDP, "
        "and CUBIC ahead by a factor of 1.3 at 4 BDP. At 40 Mbit/s, CUBIC is ahead by a factor of"
        " 1.4 at 4 BDP and of 2.2 at 8 BDP. narrows agrees with Linux. BBR retransmits whenever "
        "CUBIC fills the buffer, so that the number of retransmits shows how often this happens.",
    ),
    "windows": (
        "Windows under random loss",
        windows,
        "The tables of RFC 9438 apply to losses at even distances. With these losses, a model of "
        "the algorithms alone, with one step per round trip, agrees with them within 2 %. The "
        "simulator draws losses at random, which makes the window of CUBIC a tenth larger. In 480"
        " s, a window of a thousand packets has so few losses that single runs vary widely. "
        "HighSpeed is lower for another reason: Linux counts its growth in ACKs, and a receiver "
        "with delayed ACKs sends one ACK for two packets. With half the growth, the algorithm "
        "alone is below narrows. Linux 6.12 agrees with narrows.",
    ),
    "share": (
        "BBR's share beside CUBIC",
        share,
        "The model (Ware et al.) predicts a larger share than BBR gets, both in narrows and in "
        "Linux. narrows agrees with Linux 6.12 within the spread of its runs, or within a few "
        "percentage points. So the model deviates, not the simulation. The older rules of 4.15 do"
        " not reduce the deviation.",
    ),
    "queues": (
        "BBRv2's queue by buffer",
        queues,
        "In the model (Scherrer et al.), losses bound the window of BBRv2, so that its queue is a"
        " quarter of a BDP. With a buffer of 4 BDP there is never a loss, and the window of two "
        "BDP is the bound, as for BBR. With one BDP, where losses occur, narrows has a queue of "
        "0.2 to 0.3 BDP.",
    ),
    "eight": (
        "Eight BBR flows at 128 kbit/s",
        eight_flows,
        "Eight flows that start at the same time never measure the empty path. Their minimum RTT "
        "includes the queue that they made, and the buffer determines it. If they start one after"
        " the other, the queue stays bounded: from 64 to 256 packets of buffer, it grows by far "
        "less than the buffer. It is not small, because the minimum window is four packets per "
        "flow, 3 s at this rate. The article does not specify when its flows start.",
    ),
    "near": (
        "CUBIC at 1 % of loss and 2 ms",
        short_rtts,
        "The published goodput at 2 ms is 25.2 Mbit/s. narrows has this goodput at 4 ms. The "
        "published runs used mahimahi. Its two shells (delay and link) forward packets at whole "
        "milliseconds, so that its RTT is longer than the configured delay. The publication does "
        "not state the RTT.",
    ),
    "westwood": (
        "Westwood under random loss",
        westwood,
        "Linux 6.12, and narrows with the same rules, agree with the publication. The rules of "
        "Linux 4.15, which stand for those of the measured 4.11, give two to three times the "
        "goodput. Before 4.18, the receiver answers each segment beyond a hole. Before 4.19, it "
        "answers the segment that fills the hole only when the application has read. Westwood "
        "counts a segment for each answer of the first kind and subtracts these segments from the"
        " jump that follows. If this jump reports an unchanged window, it takes the fast path of "
        "the kernel, which counts all of it again. The first rule alone has no effect in Linux, "
        "whose receiver can be configured to answer each segment. The effect of the second rule "
        "together with the first follows from the algorithm, not from a run. With the default "
        "buffers of Linux, the window depends on the waiting data, and most of the effect is "
        "gone. The publication does not state the receive window of its runs.",
    ),
    "short": (
        "100 kB alone, BBR for CUBIC",
        single_transfer,
        "BBR is paced from the first window on, CUBIC is not. Without pacing, both take the same "
        "time. If all flows are paced, CUBIC takes longer, too. The claim ``the same`` is wrong "
        "by the cost of pacing within a round trip.",
    ),
    "standing": (
        "The queue of several BBR flows",
        queue_of_flows,
        "Two BDP are in flight. Linux adds room for super-packets and, since 5.1, for ACKs that "
        "arrive in clumps. The result is a queue of slightly more than one BDP. Without this "
        "room, it is a tenth of a BDP less. This is at the edge of the published range "
        "(remembered as 0.5 to 1 BDP, of Linux 4.9). The rules of 4.15 make no difference. Linux "
        "6.12 over the same path of 1 Gbit/s has the same queue as narrows.",
    ),
    "slide": (
        "1 MB at 20 % of loss and 200 ms",
        megabyte_transfer,
        "A slide states 11 s for BBR, and 400 s or a timeout for CUBIC. With loss of data packets, "
        "Linux in virtual time and narrows have a median of 4 s for BBR. One transfer in ten "
        "takes 15 s or more. BBR then interprets the losses as those of a policer, or waits for a "
        "retransmission timeout. Live runs of Linux 6.18 are within the same range. So the times "
        "above 20 s that live runs have are those of Linux, not of the live engine. Neither the "
        "release nor pacing causes the difference from the slide. Loss of ACKs causes most of it: "
        "with it, the median of CUBIC is above 200 s, and one transfer in ten takes longer than "
        "the slide states. The time of BBR is between that of Linux and that of the slide.",
    ),
    "startup": (
        "BBR at 5 % loss, by the duration of the test",
        startup,
        "A mean over 10 s includes Startup and Drain, in which BBR has less than the full rate. The"
        " published chart shows the steady state.",
    ),
}
"""The sections by name: title, function that makes the table, and explanation."""


def markdown(made: Mapping[str, Table]) -> str:
    """The page with all sections."""
    lines = [
        "# Experiments: causes of published metrics that are not reproduced",
        "",
        "Written by",
        "",
        "```console",
        "$ python -m validation.reproduced",
        "```",
        "",
        "All runs are listed unless a column is a median. *Linux 6.12* is Linux in virtual time "
        "(`ARCH=um`, time travel),",
        "with sender, router and receiver in namespaces. [Its runs](reproduced-linux-6.12.csv) "
        "differ in the start of the",
        "flows, those of narrows in the seed.",
    ]
    for name, (title, _, words) in SECTIONS.items():
        heads, rows = made[name]
        lines += ["", f"## {title}", "", *fill(words, 118).splitlines(), ""]
        lines += [
            f"| {' | '.join(heads)} |",
            "|" + "---|" * len(heads),
            *(f"| {' | '.join(row)} |" for row in rows),
        ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Runs the variants and writes the page."""
    argparse.ArgumentParser(
        prog="python -m validation.reproduced", description=__doc__
    ).parse_args()
    lab = Lab()
    made = {}
    for name, (_, run, _) in SECTIONS.items():
        made[name] = run(lab)
        print(f"{name}: {lab.runs} runs so far", file=sys.stderr)
    EVIDENCE.write_text(markdown(made), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
