"""The command `compare`."""

from __future__ import annotations

from pathlib import Path

import click

from narrows.cli.command import argument, command, option
from narrows.cli.options import (
    IN_TERMINAL,
    SEED,
    files_option,
    json_option,
    plot_option,
    report_option,
)
from narrows.cli.outputs import every
from narrows.measure.command import are_measurements, compare_measurements
from narrows.render import words
from narrows.render.plot import compare_plot
from narrows.render.progress import ProgressBar
from narrows.render.report import compare_report, name, unique
from narrows.render.terminal import echo, one_line
from narrows.runs.command import print_sketch, samples_for
from narrows.runs.run import run as run_scenario


@command(
    "narrows compare before.json after.json",
    "narrows compare scenarios/fairness/shallow.toml scenarios/first/cubic.toml",
    "narrows compare before.json after.json --report both.html",
)
@argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(dir_okay=False),
    help="Measurements, results of narrows latency, or scenarios; all of one kind",
)
@files_option
@option(
    "--seed",
    group="Simulation",
    metavar="N",
    type=SEED,
    show_default="the seeds of the scenarios",
    help="Seed of all random numbers",
)
@plot_option
@report_option
@json_option("Print one JSON object instead of text, for measurements only")
def compare(
    files: tuple[str, ...], seed: int | None, as_json: bool, plot: str | None, page: str | None
) -> None:
    """Compare measurements or scenarios.

    Each measurement is compared with the first: difference, interval and verdict. Formats are
    those of `narrows measure` and `narrows latency`, .flent.gz, iperf3's JSON and iperf2's text. An
    ID of `narrows history` can replace a file. Scenarios are run, and their metrics are printed
    side by side.
    """
    if are_measurements(files):
        compare_measurements(files, plot=plot, page=page, as_json=as_json)
        return
    if as_json:
        raise click.BadParameter(
            "is for measurements; write narrows run FILE --json", param_hint="--json"
        )

    runs = []
    for file in files:
        with ProgressBar(quiet=False) as bar:
            runs.append(
                run_scenario(file, seed=seed, **samples_for(None, plot, page, None), progress=bar)
            )
    titles = [name(done) for done in runs]
    # Copies of one scenario have its title; their files have names.
    names = (
        titles if len(set(titles)) == len(titles) else unique([Path(file).name for file in files])
    )
    with every() as attempt:
        if plot:
            with attempt():
                compare_plot(runs, plot, names=names)
        if page is not None:
            with attempt():
                compare_report(runs, page, names=names)
        for called, done in zip(names, runs, strict=True):
            echo(one_line(f"{called}: {words.sentence(done.json)}"))
            for notice in done.json.get("notices", []):
                echo(one_line(f"{called}: note: {notice}"))
            if plot == IN_TERMINAL:
                print_sketch(done)
        if len(runs) > 1:
            echo(
                one_line(
                    words.comparison(
                        [(called, done.json) for called, done in zip(names, runs, strict=True)]
                    )
                )
            )
