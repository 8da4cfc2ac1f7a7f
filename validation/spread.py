"""Compares the spread of a metric in many runs of Linux and of the simulator.

    python -m validation.spread 'jitter-cubic-*' cwnd_p5 [--kernel 6.12] [--runs 8] [--seeds 30]

Three recorded runs do not show the whole spread of a metric. This program runs a recorded case more
often with the engine `linux` and with the simulator, and prints a table in Markdown. The table has
the stored values of Linux, and the values of its further runs in ascending order. For the
simulator, it has the least value, the quartiles and the greatest value.

The flows start later by the times of `narrows.reference.record.SHIFTS_S`, in turn and with both
engines. Runs for metrics of the first seconds have no shift, as in the stored cases. The seeds of
the further runs of Linux follow those of the stored runs. `--runs 0` needs no kernel.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from narrows import _core
from narrows.errors import NarrowsError
from narrows.reference import record
from narrows.reference.stored import Case, Figure, judge, value
from narrows.runs.engines import EngineChoice, choose
from narrows.runs.model import RunJson
from narrows.runs.parallel import everywhere
from narrows.runs.run import Progress
from narrows.runs.scenario import from_tree
from validation.asked import positive
from validation.stored import HERE

FEW = 4
"""Number of values below which quartiles have no meaning."""


def run(
    case: Case, number: int, engine: EngineChoice, keep_on: Progress, *, early: bool
) -> RunJson:
    """The run of a case with this number, from 0 on. Its seed is the number plus one. `early`: the
    run is for metrics of the first seconds.
    """
    tree = record.shifted(case.scenario, 0 if early else number)
    if engine.name == "sim":
        found: RunJson = json.loads(
            _core.run_toml(record.text(tree), case.name, seed=number + 1, sample_interval="off")
            .json()
        )  # fmt: skip
        return found
    scenario = from_tree(_core.toml_to_tree(record.text(tree), case.name), Path.cwd())
    return engine.run(
        scenario,
        seed=number + 1,
        sample_interval="off",
        progress=keep_on,
        **record.queues_of(tree),
    ).json


def values(
    case: Case, figures: Sequence[Figure], numbers: range, engine: EngineChoice, jobs: int | None
) -> dict[str, list[float]]:
    """The values of the metrics in runs with these numbers, in their order, by label."""
    found: dict[str, list[float]] = {}
    for early in (False, True):
        wanted = [figure for figure in figures if (figure.kind == "acked_mb") == early]

        def one(number: int, keep_on: Progress, early: bool = early) -> RunJson:
            return run(case, number, engine, keep_on, early=early)

        if wanted:
            runs = everywhere(list(numbers), one, cost=float, jobs=engine.jobs(jobs))
            found |= {figure.label: [value(each, figure) for each in runs] for figure in wanted}
    return found


def words(found: Sequence[float]) -> str:
    """Values as text, separated by commas."""
    return ", ".join(f"{x:.4g}" for x in found) or "–"


def quartiles(found: Sequence[float]) -> str:
    """The least value, the quartiles and the greatest value.

    >>> quartiles([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    '1, 2, 4, 6, 7'
    """
    if len(found) < FEW:
        return words(sorted(found))
    return words([min(found), *statistics.quantiles(found, n=4), max(found)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; returns 2 if there is no such case or kernel."""
    assert __doc__
    parser = argparse.ArgumentParser(
        prog="python -m validation.spread", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("cases", help="pattern of case names: 'jitter-cubic-*'")
    parser.add_argument("figures", help="pattern of metrics: 'cwnd_p5 *'")
    parser.add_argument("--data", type=Path, default=HERE / "reference", help="directory of cases")
    parser.add_argument("--kernel", default="6.12", help="kernel (default: 6.12)")
    parser.add_argument("--runs", type=int, default=8, help="runs of Linux (default: 8)")
    parser.add_argument("--seeds", type=positive, default=30, help="simulations (default: 30)")
    parser.add_argument("--jobs", type=positive, help="simultaneous runs of Linux")
    args = parser.parse_args(arguments)
    try:
        linux = choose("linux", args.kernel) if args.runs else None
        every = record.load(sorted(args.data.glob("*.txt")))
    except NarrowsError as error:
        print(error, file=sys.stderr)
        return 2
    wanted = [case for case in every if fnmatchcase(case.name, args.cases)]
    if not wanted:
        print(f"validation.spread: there is no case {args.cases}", file=sys.stderr)
        return 2
    heads = ("case", "metric", "Linux, stored", "Linux, further runs", "simulator", "allowed")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for case in wanted:
        figures = [f for f in case.compared if fnmatchcase(f.label, args.figures)]
        ours = values(case, figures, range(args.seeds), choose("sim"), args.jobs)
        more: dict[str, list[float]] = {figure.label: [] for figure in figures}
        if linux is not None:
            numbers = range(case.recorded, case.recorded + args.runs)
            more = values(case, figures, numbers, linux, args.jobs)
        for figure in figures:
            allowed = judge(case, figure, statistics.median(ours[figure.label])).tolerance
            cells = (
                f"`{case.name}`", f"`{figure.label}`", words(figure.runs),
                words(sorted(more[figure.label])), quartiles(ours[figure.label]), f"{allowed:.3g}",
            )  # fmt: skip
            print(f"| {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
