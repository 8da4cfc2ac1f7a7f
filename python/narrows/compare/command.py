"""The command `compare`."""

from __future__ import annotations

from pathlib import Path

import click

from narrows.cli.options import IN_TERMINAL, files_option, plot_option, report_option
from narrows.measure.command import are_measurements, compare_measurements
from narrows.render import words
from narrows.render.plot import compare_plot
from narrows.render.progress import ProgressBar
from narrows.render.report import compare_report, name, unique
from narrows.render.terminal import echo, one_line
from narrows.runs.command import print_sketch, samples_for
from narrows.runs.run import run as run_scenario
from narrows.storage import output


@click.command()
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(dir_okay=False)
)
@files_option
@click.option(
    "--seed", type=click.IntRange(0, 2**64 - 1), help="Instead of the scenarios'. Example: --seed 7"
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Of measurements: one JSON object. Example: --json | jq .after",
)
@plot_option
@report_option
def compare(
    files: tuple[str, ...], seed: int | None, as_json: bool, plot: str | None, page: str | None
) -> None:
    """Run several scenarios and show them side by side; or compare measurements, before and after.

    A measurement is a file that `narrows measure` wrote, a .flent.gz, iperf3's JSON, iperf2's text,
    or an id of `narrows history`. Results of `narrows latency` are compared with each other.
    Each is compared with the first: the difference, its interval, and a verdict that can be "no
    difference seen".

    Example: narrows compare a.toml b.toml --report both.html

    Example: narrows compare before.json after.json
    """
    if are_measurements(files):
        compare_measurements(files, plot=plot, page=page, as_json=as_json)
        return
    if as_json:
        raise click.BadParameter(
            "of scenarios there is none: narrows run FILE --json", param_hint="--json"
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
    with output.every() as attempt:
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
