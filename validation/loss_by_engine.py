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
from itertools import combinations
from statistics import median
from textwrap import fill

from narrows.errors import EngineError
from narrows.reproduce.lab import Lab, counted, finished, goodput
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
LONG = 2
"""A transfer is long if its completion time exceeds the median by this factor."""
NEAR = 0.05
"""Tolerance of the comparison of two ranges."""

Values = dict[tuple[str, str, int], float]
"""Values by engine, case and seed."""


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


def stored() -> Values:
    """The stored values, by engine, case and seed."""
    with STORED.open(encoding="utf-8", newline="") as file:
        return {
            (row["engine"], row["case"], int(row["seed"])): float(row["value"])
            for row in csv.DictReader(file)
        }


def measure(engine: Engine, kernel: str | None) -> None:
    """Runs the cases that the stored runs lack, and stores each.

    Cases with few packets and first seeds precede others, so that an interruption leaves a table
    with as many cells as possible.
    """
    name, have = engine if kernel is None else f"{engine} {kernel}", stored()
    lacking = [
        (case, seed)
        for case in cases()
        for seed in case.seeds
        if (name, case.name, seed) not in have
    ]
    lacking.sort(key=lambda job: job[1] * have.get(("live", job[0].name, 1), 0.0))
    for number, (case, seed) in enumerate(lacking):
        print(f"{number} of {len(lacking)} runs; now {case.name}, seed {seed}", file=sys.stderr)
        try:
            value = case.value(engine, kernel, seed)
        except EngineError as error:
            print(f"{case.name}, seed {seed}: {error}", file=sys.stderr)
            continue
        with STORED.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow([name, case.name, seed, value])


def simulated() -> Values:
    """The values of the simulator."""
    lab, found = Lab(), {}
    for case in cases():
        runs = lab.play({"": case.scenario}, seeds=len(case.seeds))[""]
        of = goodput() if case.name.startswith("grid") else finished(DURATION_S["cubic"])
        for seed, run in zip(case.seeds, runs, strict=True):
            found["sim", case.name, seed] = of(run)
    return found


def page(values: Values) -> str:
    """The page in Markdown."""
    engines = list(dict.fromkeys(engine for engine, _, _ in values))
    gridded = list(dict.fromkeys(engine for engine, case, _ in values if case.startswith("grid")))
    lines = [
        "# Random loss with each engine",
        "",
        "This command writes the page:",
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
            f"same packets until their order differs. {_long(values)}",
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
            f"## {cc.upper()}: goodput in Mbit/s, median of {_runs(values, cc, gridded)} "
            "(smallest to largest)",
            "",
            *fill(_overlaps(values, cc, gridded), 98).splitlines(),
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


def _long(values: Values) -> str:
    """Which transfers of BBR are long, by engine, and what follows for the live engine."""
    times = {
        engine: {
            s: t for (e, case, s), t in values.items() if (e, case) == (engine, "transfer-bbr")
        }
        for engine in dict.fromkeys(engine for engine, _, _ in values)
    }
    long = {
        engine: {seed for seed, time in own.items() if time > LONG * median(own.values())}
        for engine, own in times.items()
        if own
    }
    sentences = [f"A transfer is long here if it takes more than {LONG} times the median."]
    for engine, seeds in long.items():
        most = max(times[engine].values()) / median(times[engine].values())
        named = ", ".join(map(str, sorted(seeds))) or "none"
        sentences.append(
            f"Seeds with a long transfer of BBR, {engine}: {named}. The longest takes {most:.1f} "
            "times the median."
        )
    kernels = [seeds for engine, seeds in long.items() if engine.startswith("linux")]
    if "live" in long and kernels:
        same = all(long["live"] <= seeds for seeds in kernels)
        sentences.append(
            "Each seed with a long live transfer has a long one in virtual time, too. So Linux and "
            "these losses cause the long times, not the live engine."
            if same
            else "Some seeds have a long transfer in the live engine only."
        )
    return " ".join(sentences)


def _runs(values: Values, cc: str, engines: list[str]) -> str:
    """The number of runs of each cell, such as `3 runs` or `1 to 3 runs`."""
    every = [own for engine in engines for own in _cells(values, cc, engine).values()]
    return counted(len(own) for own in every if own)


def _cells(values: Values, cc: str, engine: str) -> dict[str, list[float]]:
    """The values of each cell of the grid in ascending order."""
    names = [f"grid-{cc}-{loss}-{rtt}" for loss in LOSSES for rtt in RTTS]
    return {
        name: sorted(v for (e, case, _), v in values.items() if (e, case) == (engine, name))
        for name in names
    }


def _overlaps(values: Values, cc: str, engines: list[str]) -> str:
    """In how many cells the ranges of two engines overlap, within a tolerance."""
    sentences = []
    for one, other in combinations(engines, 2):
        mine, theirs = _cells(values, cc, one), _cells(values, cc, other)
        both = [(mine[n], theirs[n]) for n in mine if mine[n] and theirs[n]]
        meet = sum(a[0] <= b[-1] * (1 + NEAR) and b[0] <= a[-1] * (1 + NEAR) for a, b in both)
        sentences.append(
            f"The ranges of {one} and {other} overlap or are at most {100 * NEAR:.0f} % apart in "
            f"{meet} of {len(both)} cells."
        )
    return " ".join(sentences)


def _one(values: Values, engine: str, case: str, seed: int) -> str:
    value = values.get((engine, case, seed))
    return "–" if value is None else f"{value:.1f}"


def _three(values: Values, engine: str, case: str) -> str:
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
