"""The command `narrows record-reference`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from narrows.cli.command import command, option
from narrows.cli.options import jobs_option, json_option, quiet_option
from narrows.errors import NarrowsError
from narrows.kernel import store
from narrows.reference import agreement, families, record
from narrows.reference.stored import Case
from narrows.render import tables
from narrows.render.progress import ProgressBar
from narrows.render.styled import table
from narrows.render.terminal import console, echo
from narrows.render.words import percent
from narrows.runs.engines import choose
from narrows.storage import output

SEEDS = 3
"""Number of simulations of each case, with different seeds."""


@command(
    "narrows record-reference",
    "narrows record-reference --families fifo,loss --kernel 6.12 --out reference",
    "narrows record-reference --families fifo --cases 'fifo-bbr-*' --json",
    "narrows record-reference --families all --compare --out reference",
)
@option(
    "--families",
    "names",
    group="Simulation",
    metavar="NAME,...",
    show_default="list the families",
    help="Families of cases to record, separated by commas, or all",
)
@option(
    "--cases",
    "only",
    group="Simulation",
    metavar="PATTERN",
    default="*",
    help="Record only cases whose name matches PATTERN",
)
@option(
    "--kernel",
    group="Simulation",
    metavar="NAME",
    show_default="the newest built kernel",
    help="Kernel to record: a name that `narrows kernel list` prints",
)
@option(
    "--runs",
    group="Simulation",
    metavar="N",
    type=click.IntRange(1, 100),
    default=record.RUNS,
    help="Runs of each case",
)
@jobs_option("Simultaneous runs")
@option(
    "--compare",
    group="Execution",
    is_flag=True,
    help="Compare the simulator with the stored cases of --out; record nothing",
)
@option(
    "--out",
    group="Output",
    metavar="DIR",
    default="reference",
    type=output.Folder(),
    help="Directory of the case files; a case that has a file is not recorded again",
)
@json_option()
@quiet_option()
def record_reference(  # noqa: PLR0917 - Click calls it by keyword
    names: str | None,
    only: str,
    kernel: str | None,
    runs: int,
    jobs: int | None,
    compare: bool,
    out: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run validation scenarios on a real kernel, and store the results.

    The results are the reference with which simulations are compared. The kernel runs each scenario
    (case) several times in virtual time. Then the simulator runs the same case.
    The command reports the number of cases in which simulator and kernel agree in every metric.
    For comparison, it also reports the number of cases in which the last run of the kernel agrees
    with the other runs of the kernel.
    """
    if names is None:
        for family in families.families().values():
            echo(f"{family.name:10} {len(family.cases):3} cases: {family.about}")
        return
    asked = families.chosen(names, only)
    into = Path(out)
    if compare:
        files = sorted(file for name in asked for file in into.glob(f"linux-*-{name}.txt"))
        found = record.Recording(files=files)
        if not files:
            raise NarrowsError(f"--out {out}: contains no cases of {names}; omit --compare")
    else:
        used = store.find(kernel)
        with ProgressBar(quiet=quiet or as_json, of="runs") as bar:
            found = record.record(
                asked, choose("linux", used.key), used, into, runs=runs, jobs=jobs, progress=bar
            )
    wanted = {case for family in asked.values() for case in family.cases}
    stored = record.load([file for file in found.files if file.exists()])
    cases = [case for case in stored if case.name in wanted and agreement.can_run(case)]
    outcomes = agreement.play(cases, seeds=SEEDS)
    if as_json:
        echo(json.dumps(_json(found, outcomes)))
    elif not quiet:
        _show(found, outcomes, into)
    if found.failed:
        click.get_current_context().exit(1)


def _json(found: record.Recording, outcomes: list[agreement.Outcome[Case]]) -> dict[str, object]:
    return {
        "files": [str(file) for file in found.files],
        "recorded": found.recorded,
        "kept": found.kept,
        "failed": found.failed,
        "families": [one.json() for one in agreement.families(outcomes)],
        "disagreements": [
            verdict.json() for one in outcomes for verdict in one.verdicts if not verdict.agrees
        ],
    }


def _show(found: record.Recording, outcomes: list[agreement.Outcome[Case]], into: Path) -> None:
    out = console()
    out.print(
        f"{found.recorded} cases recorded, {found.kept} kept, in {into}.",
        style="bold",
        markup=False,
    )
    rows = [
        [
            tables.Cell(word)
            for word in (
                one.name,
                f"{one.agree} of {one.cases}",
                f"{one.itself} of {one.known}" if one.known else "-",
                "-" if one.relative is None else percent(one.relative),
            )
        ]
        for one in agreement.families(outcomes)
    ]
    heads = ("simulator agrees", "Linux agrees with itself", "relative")
    out.print()
    table(out, tables.Table("Families", ("family",), heads, rows))
    apart = [v for one in outcomes for v in one.verdicts if not v.agrees]
    if apart:
        out.print("\nLargest differences:")
        worst = sorted(apart, key=lambda v: -v.off)[:10]
        lines = [
            [
                tables.Cell(word)
                for word in (v.case.name, v.figure.label, f"{v.linux:.4g}", f"{v.ours:.4g}")
            ]
            for v in worst
        ]
        table(out, tables.Table("Largest differences", ("case", "figure"), ("linux", "sim"), lines))
    for name, why in found.failed.items():
        out.print(f"Not recorded: {name} ({why}).", markup=False)
