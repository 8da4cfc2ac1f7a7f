"""Compares the simulator with Linux in virtual time and with live runs under random loss.

    python -m validation.loss_by_engine                     writes evidence/loss-by-engine.md
    python -m validation.loss_by_engine --measure ENGINE    first runs what the stored runs lack;
                                                            with linux, --kernel NAME as well

The cases are the grid of `narrows reproduce loss-rtt-grid` and its transfer of 1 MB. In each
engine, the seed determines the lost packets, so that the same seed is comparable. Runs are stored
in evidence/loss-by-engine.csv, with one row per run.
"""

from __future__ import annotations

import argparse
import csv
import sys
from dataclasses import dataclass
from statistics import median
from textwrap import fill

from narrows.errors import EngineError
from narrows.reproduce.lab import Lab, finished, goodput
from narrows.runs.engines import choose
from narrows.runs.run import Engine
from narrows.runs.scenario import Flow, Path, Scenario
from validation.stored import HERE

PAGE = HERE / "evidence/loss-by-engine.md"
STORED = HERE / "evidence/loss-by-engine.csv"
LOSSES, RTTS, CCS = (0, 5, 10, 20, 40), (3, 50, 100, 200), ("bbr", "cubic")
GRID_SEEDS = 3
TRANSFER_SEEDS = {"bbr": 12, "cubic": 3}
DURATION_S = {"bbr": 60, "cubic": 150}
"""Duration of a run with a transfer, in s; a live run does not end when its transfer completes."""
HEADS = ["engine", "case", "seed", "value"]


@dataclass(frozen=True)
class Case:
    """A case: `grid-CC-LOSS-RTT` (Mbit/s) or `transfer-CC` (s).

    Attributes:
        name: The name.
        scenario: The scenario.
        seeds: The seeds.
    """

    name: str
    scenario: Scenario
    seeds: range

    def value(self, engine: Engine, kernel: str | None, seed: int) -> float:
        """Goodput in Mbit/s, or completion time in s, of a run with an engine."""
        run = choose(engine, kernel).run(self.scenario, seed=seed, sample_interval="off")
        of = goodput() if self.name.startswith("grid") else finished(DURATION_S["cubic"])
        return round(of(run.json), 3)


def cases() -> list[Case]:
    """All cases: the transfers, then the grid."""
    found = [
        Case(
            f"transfer-{cc}",
            Scenario(
                Path(rate="20Mbit", rtt="200ms", buffer="500000B", loss="20%"),
                flows=[Flow(cc, size="1000000B")],
                duration=f"{DURATION_S[cc]}s",
                start_jitter="0s",
            ),
            range(1, TRANSFER_SEEDS[cc] + 1),
        )
        for cc in CCS
    ]
    found += [
        Case(
            f"grid-{cc}-{loss}-{rtt}",
            Scenario(
                Path(
                    rate="100Mbit",
                    rtt=f"{rtt}ms",
                    buffer="1000p",
                    loss=f"{loss}%" if loss else None,
                ),
                flows=[Flow(cc)],
                duration="10s",
                warmup="0s",
                start_jitter="0s",
            ),
            range(1, GRID_SEEDS + 1),
        )
        for cc in CCS
        for loss in LOSSES
        for rtt in RTTS
    ]
    return found


def stored() -> dict[tuple[str, str, int], float]:
    """The stored values, by engine, case and seed."""
    with STORED.open(encoding="utf-8", newline="") as file:
        return {
            (row["engine"], row["case"], int(row["seed"])): float(row["value"])
            for row in csv.DictReader(file)
        }


def measure(engine: Engine, kernel: str | None) -> None:
    """Runs the cases that the stored runs lack, and stores each."""
    name, have = engine if kernel is None else f"{engine} {kernel}", stored()
    for case in cases():
        for seed in case.seeds:
            if (name, case.name, seed) in have:
                continue
            try:
                value = case.value(engine, kernel, seed)
            except EngineError as error:
                print(f"{case.name}, seed {seed}: {error}", file=sys.stderr)
                continue
            with STORED.open("a", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow([name, case.name, seed, value])


def simulated() -> dict[tuple[str, str, int], float]:
    """The values of the simulator."""
    lab, found = Lab(), {}
    for case in cases():
        runs = lab.play({"": case.scenario}, seeds=len(case.seeds))[""]
        of = goodput() if case.name.startswith("grid") else finished(DURATION_S["cubic"])
        for seed, run in zip(case.seeds, runs, strict=True):
            found["sim", case.name, seed] = of(run)
    return found


def page(values: dict[tuple[str, str, int], float]) -> str:
    """The page in Markdown."""
    engines = list(dict.fromkeys(engine for engine, _, _ in values))
    gridded = list(dict.fromkeys(engine for engine, case, _ in values if case.startswith("grid")))
    lines = [
        "# Random loss with each engine",
        "",
        "Written by",
        "",
        "```console",
        "$ python -m validation.loss_by_engine",
        "```",
        "",
        *fill(
            "The cases are those of `narrows reproduce loss-rtt-grid`. Linux runs in virtual time "
            "(`linux`), and this machine's kernel sends real packets (`live`). All live runs "
            "passed their self-check. [The runs](loss-by-engine.csv) are stored.",
            98,
        ).splitlines(),
        "",
        "## 1 MB at 20 % loss and 200 ms: completion time in s",
        "",
        *fill(
            "The seed determines which packets are lost. With the same seed, the engines lose the "
            "same packets until their order differs. A seed with a long live run is also long in "
            "virtual time. Times above 20 s are therefore those of Linux and of these losses, "
            "and not of the live engine. The times have a long tail, so that a median of few seeds "
            "differs much from one of many.",
            98,
        ).splitlines(),
    ]
    for cc in CCS:
        name = f"transfer-{cc}"
        seeds = sorted({seed for _, case, seed in values if case == name})
        lines += [
            "",
            f"| {cc.upper()}, seed | {' | '.join(engines)} |",
            "|---" * (len(engines) + 1) + "|",
        ]
        for seed in seeds:
            lines.append(f"| {seed} | {' | '.join(_one(values, e, name, seed) for e in engines)} |")
        middles = []
        for engine in engines:
            own = [values[engine, name, seed] for seed in seeds if (engine, name, seed) in values]
            middles.append(f"{median(own):.1f}" if len(own) == len(seeds) else "–")
        lines.append(f"| {cc.upper()}, median | {' | '.join(middles)} |")
    for cc in CCS:
        lines += [
            "",
            f"## {cc.upper()}: goodput in Mbit/s, median of three runs (smallest to largest)",
            "",
            "| loss | RTT | " + " | ".join(gridded) + " |",
            "|---|---|" + "---|" * len(gridded),
        ]
        for loss in LOSSES:
            for rtt in RTTS:
                name = f"grid-{cc}-{loss}-{rtt}"
                row = [_three(values, engine, name) for engine in gridded]
                lines.append(f"| {loss} % | {rtt} ms | {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _one(values: dict[tuple[str, str, int], float], engine: str, case: str, seed: int) -> str:
    value = values.get((engine, case, seed))
    return "–" if value is None else f"{value:.1f}"


def _three(values: dict[tuple[str, str, int], float], engine: str, case: str) -> str:
    """Median and range of the runs of a case, with three significant digits."""
    own = sorted(value for (e, c, _), value in values.items() if (e, c) == (engine, case))
    if not own:
        return "–"
    return f"{median(own):.3g} ({own[0]:.3g} to {own[-1]:.3g})"


def main() -> int:
    """Measures if requested, and writes the page."""
    parser = argparse.ArgumentParser(prog="python -m validation.loss_by_engine")
    parser.add_argument("--measure", choices=("live", "linux"))
    parser.add_argument("--kernel")
    asked = parser.parse_args()
    if asked.measure:
        measure(asked.measure, asked.kernel)
    PAGE.write_text(page(simulated() | stored()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
