"""Compares narrows with stored cases of Linux, the engine `linux`, papers and the cliff of BBR."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from narrows.reference import agreement as agreement_of_cases
from narrows.reference import record
from validation import agreement, cliff, explained, linux, papers, report
from validation.asked import positive
from validation.stored import HERE, Case, cases, missing

if TYPE_CHECKING:
    from rich.table import Table

REPORT = HERE / "REPORT.md"
PARTS = ("linux", "engines", "recorded", "papers", "cliff")
RECORDED = HERE / "reference"
"""Default folder of cases that `narrows record-reference` recorded."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the selected parts; returns 1 if a criterion is not met.

    With --strict, it also returns 1 if a disagreement is unexplained.
    """
    args = _arguments(arguments)
    try:
        explanations = explained.load()
    except ValueError as error:
        print(f"validation: {error}", file=sys.stderr)
        return 2
    wanted = [case for case in cases() if _selected(case, args)]
    if "linux" in args.part and not wanted:
        print("validation: no stored case has this name", file=sys.stderr)
        return 2
    begin = time.monotonic()
    v = _run(args, wanted, tuple(explanations))
    if args.report:
        Path(args.report).write_text(report.markdown(v), encoding="utf-8")
    if args.json:
        print(json.dumps(v.document(), indent=1))
    else:
        _show(v, verbose=args.verbose, wall_s=time.monotonic() - begin)
    unexplained = any(v.explanation(d) is None for d in v.disagreements())
    return int(not all(c.met for c in v.criteria()) or (args.strict and unexplained))


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m validation", description=__doc__)
    parser.add_argument(
        "--part", help="parts to run, of linux,engines,recorded,papers,cliff [default: all]"
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=RECORDED,
        help="directory of recorded cases, as of narrows record-reference "
        "[default: validation/reference]",
    )
    parser.add_argument("--only", help="families of the stored cases: A,D [default: all]")
    parser.add_argument(
        "--cases", help="patterns of the names of cases: 'C-bbr-*,H-*' [default: all]"
    )
    parser.add_argument("--cc", help="congestion controls: only cases that use no others")
    parser.add_argument(
        "--up-to",
        type=float,
        default=1000,
        help="maximum rate of published cells, in Mbit/s [default: 1000]",
    )
    parser.add_argument(
        "--like", help="rules of the hosts of the published maps [default: nearest to each set]"
    )
    parser.add_argument(
        "--seeds", type=positive, default=3, help="number of seeds of each case [default: 3]"
    )
    parser.add_argument(
        "--jobs", type=positive, help="number of parallel processes [default: one per core]"
    )
    parser.add_argument(
        "--report", help="file of the report [default: validation/REPORT.md if all parts run]"
    )
    parser.add_argument(
        "--strict", action="store_true", help="return 1 also for an unexplained disagreement"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--verbose", action="store_true", help="print every metric of every stored case"
    )
    args = parser.parse_args(arguments)
    given = sys.argv[1:] if arguments is None else arguments
    args.command = shlex.join(["python", "-m", "validation", *given])
    everything = not (
        args.part
        or args.only
        or args.cases
        or args.cc
        or args.up_to < 1000  # noqa: PLR2004
        or args.like
    )
    # If stored cases are selected, the other parts are left out.
    args.part = (
        args.part or ("linux" if args.only or args.cases or args.cc else ",".join(PARTS))
    ).split(",")
    if unknown := set(args.part) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    args.report = args.report or (str(REPORT) if everything else None)
    return args


def _selected(case: Case, args: argparse.Namespace) -> bool:
    return (
        (not args.only or case.family in args.only.split(","))
        and (
            not args.cases
            or any(fnmatchcase(case.name, pattern) for pattern in args.cases.split(","))
        )
        and (not args.cc or case.ccs <= set(args.cc.split(",")))
    )


def _run(
    args: argparse.Namespace,
    wanted: Sequence[Case],
    explanations: tuple[explained.Explanation, ...],
) -> report.Validation:
    todo = [case for case in wanted if linux.can_run(case)]
    outcomes, maps, found, reason, engines, recorded = None, None, None, None, None, None
    if "linux" in args.part:
        with _progress("stored cases", args.seeds * sum(case.cost for case in todo)) as done:
            outcomes = linux.play(todo, seeds=args.seeds, jobs=args.jobs, done=done)
    if "engines" in args.part and (store := agreement.stored("linux")) is not None:
        engines = agreement.compare([store], controls=False)
    files = sorted(args.data.glob("*.txt")) if "recorded" in args.part else []
    if files:
        cases_ = [case for case in record.load(files) if linux.can_run(case)]
        with _progress("recorded cases", args.seeds * sum(case.cost for case in cases_)) as done:
            recorded = linux.play(cases_, seeds=args.seeds, jobs=args.jobs, done=done)
    if "papers" in args.part:
        with _progress("published maps", papers.cost(up_to_mbit=args.up_to)) as done:
            maps = papers.play(up_to_mbit=args.up_to, like=args.like, jobs=args.jobs, done=done)
    if "cliff" in args.part:
        reason = cliff.left_out()
        if reason is None:
            with _progress("the cliff", cliff.cost(seeds=args.seeds)) as done:
                found = cliff.play(seeds=args.seeds, jobs=args.jobs, done=done)
    return report.Validation(
        command=args.command,
        seeds=args.seeds,
        outcomes=outcomes,
        left_out=tuple(case for case in wanted if not linux.can_run(case))
        if outcomes is not None
        else (),
        engines=engines,
        recorded=recorded,
        left_unmeasured=tuple(
            part
            for part, of in (("engines", engines), ("recorded", recorded))
            if part in args.part and of is None
        ),
        maps=maps,
        cliff=found,
        cliff_left_out=reason,
        explanations=explanations,
    )


@contextmanager
def _progress(what: str, total: float) -> Iterator[Callable[[float], object]]:
    """Shows a progress bar if stderr is a terminal. Yields the function that advances the bar."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda cost: bar.advance(task, cost)


def _show(v: report.Validation, *, verbose: bool, wall_s: float) -> None:
    from rich.table import Table  # noqa: PLC0415

    from narrows.render.terminal import console  # noqa: PLC0415

    def table(*columns: str) -> Table:
        made = Table(box=None, pad_edge=False, header_style="bold")
        for i, column in enumerate(columns):
            made.add_column(column, justify="left" if i < 2 else "right")  # noqa: PLR2004
        return made

    out = console(None)
    if verbose:
        every = table("case", "figure", "linux", "ours", "tolerance", "")
        for o in v.outcomes or ():
            for x in o.verdicts:
                numbers = (f"{n:.4g}" for n in (x.linux, x.ours, x.tolerance))
                every.add_row(x.case.name, x.figure.label, *numbers, "" if x.agrees else "OFF")
        out.print(every)
    worst = table("worst", "figure", "reference", "ours", "explained")
    for d in v.disagreements()[: report.WORST]:
        e = v.explanation(d)
        worst.add_row(
            d.case, d.figure, f"{d.published:.4g}", f"{d.ours:.4g}", e.evidence if e else "no"
        )
    if worst.row_count:
        out.print(worst)
        out.print()
    if v.outcomes is not None:
        families: dict[str, list[bool]] = {}
        for o in v.outcomes:
            families.setdefault(o.case.family, []).append(o.agrees)
        told = (f"{name} {sum(good)} of {len(good)}" for name, good in sorted(families.items()))
        out.print(f"agree: {', '.join(told)}")
        out.print(linux.headline(v.outcomes))
        own, known = report.linux_itself(v.outcomes)
        naive = [linux.naive(o.case) for o in v.outcomes]
        full, nothing = (sum(x[name] for x in naive) for name in ("a full pipe", "nothing"))
        out.print(
            f"for comparison: Linux against itself {own} of {known}, a full link {full}, "
            f"no traffic {nothing}"
        )
    for family in agreement_of_cases.families(v.recorded or ()):
        out.print(report.family_words(family), markup=False)
    for line in _left_out(v):
        out.print(f"left out: {line}", style="yellow", markup=False)
    for criterion in v.criteria():
        style = "green" if criterion.met else "red"
        out.print(
            f"{report.in_words(criterion)}: {'met' if criterion.met else 'not met'}", style=style
        )
    out.print(f"{wall_s:.0f} s")


def _left_out(v: report.Validation) -> Iterator[str]:
    """Yields a sentence for the parts and cases that were not run, with the reason."""
    if v.left_out:
        names = sorted({name for case in v.left_out for name in missing(case)})
        yield f"{', '.join(names)} ({len(v.left_out)} cases)"
    for part in v.left_unmeasured:
        yield f"{part}, because {report.UNMEASURED[part]}"
    if v.maps is not None and papers.can_run()[1]:
        yield f"{', '.join(papers.can_run()[1])} (the published map)"
    if v.cliff_left_out:
        yield f"bbr (the cliff): {v.cliff_left_out}"


if __name__ == "__main__":
    sys.exit(main())
