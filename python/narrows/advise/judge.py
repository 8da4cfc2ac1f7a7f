"""Simulations for `narrows from`: CUBIC alone, BBR alone, and both together on a path."""

from __future__ import annotations

from dataclasses import dataclass

from narrows.advise.model import MixJson
from narrows.advise.trial import run
from narrows.json_object import JsonObject
from narrows.render.words import listed
from narrows.runs.parallel import everywhere
from narrows.runs.run import Progress
from narrows.runs.scenario import Flow, Path, Ping, Scenario

SECONDS, PACKETS = 30, 2_000_000
"""Duration of each simulation in s, and the maximum number of packets of each, which shortens
simulations of fast paths.
"""

MIXES = {"CUBIC": ("cubic",), "BBR": ("bbr",), "both": ("cubic", "bbr")}


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The results of three simulations.

    Attributes:
        rate_mbit: Rate of the bottleneck, in Mbit/s.
        rtt_ms: Base RTT, in ms.
        rows: For each mix, the goodput of each congestion control (`goodput_mbit`), the p95 RTT of
            a ping (`p95_ms`), and the retransmission rate (`again_pct`).
    """

    rate_mbit: float
    rtt_ms: float
    rows: dict[str, MixJson]

    def sentences(self) -> list[str]:
        """One sentence for each case, and the shares of CUBIC and BBR."""
        out = []
        for name, row in self.rows.items():
            got = sum(row["goodput_mbit"])
            wait = max(0.0, (row["p95_ms"] or self.rtt_ms) - self.rtt_ms)
            who, s = ("Both together", "") if name == "both" else (f"{name} alone", "s")
            told = [
                f"use{s} {100 * got / self.rate_mbit:.0f} % of {self.rate_mbit:.4g} Mbit/s",
                f"add{s} {wait:.0f} ms to the RTT (p95)",
                f"retransmit{s} {row['again_pct']:.1f} % of the data",
            ]
            out.append(f"{who} {listed(told)}.")
        first, second = self.rows["both"]["goodput_mbit"]
        if first + second:
            share = 100 * first / (first + second)
            out.append(
                f"If they compete, CUBIC gets {share:.0f} % and BBR {100 - share:.0f} % of the "
                "total goodput."
            )
        return out


def judge(
    path: Path,
    *,
    flows: int = 1,
    seed: int = 1,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Judgement:
    """Runs the three simulations with this number of flows of each congestion control.

    Raises:
        ScenarioError: If the path is invalid.
    """
    about = run(_scenario(path, ("reno",), 1, 1), seed)["path"]
    seconds = max(3, min(SECONDS, round(PACKETS * 1514 * 8 / 1e6 / max(0.001, about["rate_mbit"]))))
    rows: dict[str, MixJson] = {}

    def one(name: str, keep_on: Progress) -> None:
        done = run(_scenario(path, MIXES[name], flows, seconds), seed, keep_on)
        rows[name] = {
            "goodput_mbit": [
                sum(flow["goodput_mbit"] or 0.0 for flow in done["flows"] if flow["cc"] == cc)
                for cc in MIXES[name]
            ],
            "p95_ms": done["probes"][0]["rtt_ms"]["p95"],
            "again_pct": 100
            * sum(flow["run_retransmit_rate"] or 0.0 for flow in done["flows"])
            / len(done["flows"]),
        }
        if progress is not None:
            progress(len(rows), len(MIXES))

    everywhere(list(MIXES), one, cost=len, jobs=jobs)
    return Judgement(
        rate_mbit=about["rate_mbit"],
        rtt_ms=about["rtt_ms"],
        rows={name: rows[name] for name in MIXES},
    )


def _scenario(path: Path, ccs: tuple[str, ...], count: int, seconds: int) -> JsonObject:
    flows = [Flow(cc, count=count) if count > 1 else Flow(cc) for cc in ccs]
    return Scenario(
        path, flows=flows, probes=[Ping(interval="20ms")], duration=f"{seconds}s"
    ).tree()
