"""Recommendations for an operator that limits the rate of a line: a policer or a shaper, its
bursts, and its queue.

Every offer allows the same long-term rate. Each one is simulated three times: with two CUBIC flows,
with two BBR flows, and with two flows of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from narrows.advise.asked import CARED, Asked
from narrows.advise.model import OffersJson
from narrows.advise.render import GOALS, path_line
from narrows.advise.trial import Trial, affordable, packets, run
from narrows.advise.utility import LATE_MS, LEAST
from narrows.errors import NarrowsError
from narrows.json_object import JsonObject
from narrows.render import tables
from narrows.render.styled import table as draw
from narrows.render.tables import Cell
from narrows.render.words import listed
from narrows.runs.parallel import everywhere
from narrows.runs.run import Progress
from narrows.runs.scenario import Flow, Path, Ping, Scenario

if TYPE_CHECKING:
    from rich.console import Console

    from narrows.runs.model import RunJson

WIRE = 10
"""Rate of the link behind a policer, as a multiple of the policed rate."""

POLICED_S = ((0.01, 0.0), (0.05, 0.0), (0.25, 0.0), (0.25, 0.5), (1.5, 0.0))
"""Burst (Bc) and excess burst (Be) of each policer, in seconds of the rate.

A burst of 10 ms is too short for TCP, and 50 ms is a typical RTT. The default burst of routers is
CIR / 32 bytes (0.25 s), which is offered without an excess burst and with one of twice its size.
Older guides recommend 1.5 s.
"""

SHAPED_S = 0.025
"""Burst (Bc) of shapers, in seconds of the rate: the default interval of routers."""

QUEUED = (
    ("0.25bdp", "fifo"),
    ("1bdp", "fifo"),
    ("4bdp", "fifo"),
    (None, "codel"),
    (None, "fq_codel"),
)
"""Limit and queue discipline of the queue of each shaper; None is the default limit."""

LEAST_BDP_BYTES = 15_140
"""Minimum limit of a queue, in bytes: ten full frames."""

MIXES = {"cubic": ("cubic",), "bbr": ("bbr",), "both": ("cubic", "bbr")}
EACH, SECONDS, SEEDS = 2, 30, 2

PACKETS = 300_000_000
"""Packet budget of all simulations, which shortens those of fast paths."""


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A rate limiter that allows the rate, and its results with each mix of flows.

    Attributes:
        says: Description of the rate limiter.
        policy: Configuration of the rate limiter in the syntax of a router.
        path: The path with this rate limiter.
        cubic_pct: Goodput of CUBIC alone, in % of the rate.
        bbr_pct: Goodput of BBR alone, in % of the rate.
        share_pct: Share of CUBIC in the total goodput of both, in %; 50 is fair.
        p95_ms: 95th percentile of the RTT of a ping beside both.
        again_pct: Retransmission rate of CUBIC alone, in %.
        bbr_again_pct: Retransmission rate of BBR alone, in %.
    """

    says: str
    policy: str
    path: Path
    cubic_pct: float = 0.0
    bbr_pct: float = 0.0
    share_pct: float = 0.0
    p95_ms: float = 0.0
    again_pct: float = 0.0
    bbr_again_pct: float = 0.0

    def utility(self, cares: Sequence[str], rtt_ms: float) -> float:
        """The geometric mean of the scores of the goals. The score of `bulk` is the geometric mean
        of the goodputs of CUBIC and BBR, that of `retransmissions` uses the mean of their rates.
        """
        scores = {
            "bulk": (self.cubic_pct * self.bbr_pct) ** 0.5 / 100,
            "calls": 1 / (1 + max(0.0, self.p95_ms - rtt_ms) / LATE_MS),
            "fairness": min(1.0, min(self.share_pct, 100 - self.share_pct) / 50),
            "retransmissions": 1 - (self.again_pct + self.bbr_again_pct) / 200,
            "pages": 1 / (1 + max(0.0, self.p95_ms - rtt_ms) / LATE_MS),
        }
        product = 1.0
        for care in cares:
            product *= min(1.0, max(LEAST, scores[care]))
        return float(product ** (1 / len(cares)))


@dataclass(frozen=True, kw_only=True)
class Offers:
    """All offers, the best first."""

    asked: Asked
    offers: list[Offer]
    runs: int
    seconds: int

    def json(self) -> OffersJson:
        """The JSON object."""
        names = ("cubic_pct", "bbr_pct", "share_pct", "p95_ms", "again_pct", "bbr_again_pct")
        rtt = self.asked.place.rtt_ms
        return {
            "advice": 1,
            "asked": {"as": "operator", "for": list(self.asked.cares), "seed": self.asked.seed},
            "path": self.asked.place.json(),
            "runs": self.runs,
            "budget": {
                "reached": self.seconds < SECONDS,
                "durations_s": [self.seconds],
                "intended_s": [SECONDS],
            },
            "offers": [
                {
                    "says": o.says,
                    "policy": o.policy,
                    "path": o.path.tree(),
                    "utility": o.utility(self.asked.cares, rtt),
                }
                | {name: float(f"{getattr(o, name):.6g}") for name in names}
                for o in self.offers
            ],
        }


def _offers(asked: Asked) -> list[Offer]:
    path = asked.place.variants[0].path
    if path.hop is not None or path.trace is not None:
        raise NarrowsError(
            "--as operator: the path has several hops or a trace, but a rate limiter has one rate; "
            "write narrows advise --as operator --rate 20Mbit --rtt 30ms"
        )
    rate = asked.place.rate_mbit
    cir, per_s = f"{round(rate * 1e6)}", rate * 1e6 / 8
    bare = replace(path, rate=f"{cir}bit", buffer=None, queue=None, policer=None, link=None)
    out = []
    for bc_s, be_s in POLICED_S:
        bc, be = max(1514, round(bc_s * per_s)), round(be_s * per_s)
        policer: JsonObject = {"kind": "cir", "cir": f"{cir}bit", "bc": f"{bc}B"} | (
            {"be": f"{be}B", "exceed": "pass"} if be else {}
        )
        wire = replace(bare, rate=f"{round(WIRE * rate * 1e6)}bit", policer=policer, buffer="1bdp")
        excess = f", Be {be_s:g} s" if be else ""
        # Be has no effect if exceeding packets are dropped.
        more = (
            f" be {be} conform-action transmit exceed-action transmit violate-action drop"
            if be
            else ""
        )
        out.append(
            Offer(
                says=f"policer, Bc {bc_s:g} s{excess}",
                policy=f"police cir {cir} bc {bc}{more}",
                path=wire,
            )
        )
    bc = max(1514, round(SHAPED_S * per_s))
    link: JsonObject = {"kind": "shape_average", "bc": f"{bc}B"}
    for limit, queue in QUEUED:
        bdp = per_s * asked.place.rtt_ms / 1000
        packets = (
            ""
            if limit is None
            else f", queue-limit {max(10, round(float(limit[:-3]) * bdp / 1514))} packets"
        )
        buffer = (
            None if limit is None else f"{max(LEAST_BDP_BYTES, round(float(limit[:-3]) * bdp))}B"
        )
        named = f"{queue} of {limit.replace('bdp', ' BDP')}" if limit else queue
        shaped = replace(bare, link=link, queue=queue, buffer=buffer)
        out.append(
            Offer(
                says=f"shaper with {named}",
                policy=f"shape average {cir} {8 * bc}{packets}",
                path=shaped,
            )
        )
    return out


def offers(asked: Asked, *, jobs: int | None = None, progress: Progress | None = None) -> Offers:
    """Simulates all offers.

    Raises:
        NarrowsError: If the path has several hops or a trace, or if the simulations exceed the
            packet budget.
    """
    tried = _offers(asked)
    todo = [
        (n, mix, asked.seed + s) for n in range(len(tried)) for mix in MIXES for s in range(SEEDS)
    ]
    seen: dict[tuple[int, str, int], RunJson] = {}

    def cost(seconds: int) -> float:
        return len(todo) * packets(asked, Trial("", "rivals", 0, asked.seed, seconds))

    seconds = affordable(asked, SECONDS, cost, PACKETS)
    if cost(seconds) > 2 * PACKETS:
        raise NarrowsError(
            f"{asked.place.rate_mbit:g} Mbit/s: the rate limiters on this path exceed the budget "
            f"of {PACKETS / 1e6:g} million packets; write a lower --rate"
        )

    def one(item: tuple[int, str, int], keep_on: Progress) -> None:
        n, mix, seed = item
        flows = [Flow(cc, count=EACH) for cc in MIXES[mix]]
        scenario = Scenario(
            tried[n].path, flows=flows, probes=[Ping(interval="20ms")], duration=f"{seconds}s"
        )
        seen[item] = run(scenario.tree(), seed, keep_on)

    def done(_item: tuple[int, str, int]) -> None:
        if progress is not None:
            progress(len(seen), len(todo))

    everywhere(todo, one, cost=lambda item: len(MIXES[item[1]]), done=done, jobs=jobs)
    rate = asked.place.rate_mbit

    def got(n: int, mix: str, cc: str) -> float:
        runs = [seen[n, mix, asked.seed + s]["flows"] for s in range(SEEDS)]
        return fmean(
            [sum(f["goodput_mbit"] or 0.0 for f in flows if f["cc"] == cc) for flows in runs]
        )

    def again(n: int, mix: str) -> float:
        runs = [seen[n, mix, asked.seed + s]["flows"] for s in range(SEEDS)]
        return 100 * fmean([f["run_retransmit_rate"] or 0.0 for flows in runs for f in flows])

    found = []
    for n, offer in enumerate(tried):
        cubic, bbr = got(n, "both", "cubic"), got(n, "both", "bbr")
        pings = [
            seen[n, "both", asked.seed + s]["probes"][0]["rtt_ms"]["p95"] or 0.0
            for s in range(SEEDS)
        ]
        found.append(
            replace(
                offer,
                cubic_pct=100 * got(n, "cubic", "cubic") / rate,
                bbr_pct=100 * got(n, "bbr", "bbr") / rate,
                share_pct=100 * cubic / (cubic + bbr) if cubic + bbr else 50.0,
                p95_ms=fmean(pings),
                again_pct=again(n, "cubic"),
                bbr_again_pct=again(n, "bbr"),
            )
        )
    order = sorted(found, key=lambda offer: -offer.utility(asked.cares, asked.place.rtt_ms))
    return Offers(asked=asked, offers=order, runs=len(seen), seconds=seconds)


def table(found: Offers) -> tables.Table:
    """A row for each offer, the best first."""
    rows = [
        [
            Cell(offer.says),
            *(
                Cell(f"{value:.{digits}f}")
                for value, digits in (
                    (offer.cubic_pct, 0), (offer.bbr_pct, 0), (offer.share_pct, 0), (offer.p95_ms,
                    0),
                    (offer.again_pct, 1), (offer.bbr_again_pct, 1),
                    (offer.utility(found.asked.cares, found.asked.place.rtt_ms), 2),
                )
            ),
        ]
        for offer in found.offers
    ]  # fmt: skip
    head = (
        "CUBIC alone %",
        "BBR alone %",
        "CUBIC share beside BBR %",
        "RTT p95 ms",
        "CUBIC retransmitted %",
        "BBR retransmitted %",
        "utility",
    )
    return tables.Table("Rate limiters", ("rate limiter",), head, rows)


LEGEND = (
    "Alone: goodput of two flows of this congestion control without others, in % of the rate. "
    "Share: goodput of two CUBIC flows beside two BBR flows, in % of the goodput of all four; 50 "
    "is fair. RTT: that of a ping beside these four flows. Bc is the burst and Be the excess "
    "burst, in seconds of the rate."
)
"""The meaning of the columns, printed below the table."""


def show(found: Offers, out: Console) -> None:
    """Prints the best offer, the table of all offers, and the router configuration of the best."""
    best = found.offers[0]
    out.print(f"Recommended rate limiter: {best.says}.", style="bold", markup=False)
    out.print(path_line(found.asked.place), markup=False, soft_wrap=True)
    out.print()
    draw(out, table(found))
    out.print(f"\n{LEGEND}", markup=False, soft_wrap=True)
    goals = listed([GOALS[care] for care in found.asked.cares])
    for what in found.asked.place.open:
        out.print(f"\nNot known: {what}.", markup=False, soft_wrap=True)
    if found.seconds < SECONDS:
        out.print(
            f"\nThe packet budget was reached: simulations last {found.seconds} s instead of "
            f"{SECONDS} s."
        )
    default = " (default of this role)" if found.asked.cares == CARED["operator"] else ""
    out.print(f"\nRole: operator. Goal: {goals}{default}. Based on {found.runs} simulations.")
    queue = best.path.queue
    bits = "bits" if best.policy.startswith("shape") else "bytes"
    also = f"; configure {queue} in addition" if queue not in {None, "fifo"} else ""
    syntax = f"In the syntax of a Cisco IOS policy-map (rate in bit/s, Bc in {bits}){also}:"
    for line in ("", syntax, f"  {best.policy}"):
        out.print(line, markup=False, soft_wrap=True)
