"""The command `compare`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import click

from narrows import files as stored
from narrows.cli.command import command
from narrows.cli.options import (
    IN_TERMINAL,
    engine_option,
    figure_options,
    files_argument,
    files_option,
    json_option,
    latex_option,
    need_linux,
    plot_option,
    plugin_option,
    report_option,
    seed_option,
    seeds_option,
)
from narrows.cli.outputs import every
from narrows.compare import latency as judged
from narrows.compare import measurements
from narrows.compare import render as comparison
from narrows.compare.render import replications_table
from narrows.compare.replications import Comparison, differences
from narrows.errors import NarrowsError
from narrows.inference import LEVEL
from narrows.latency import render as latencies
from narrows.latency.result import is_result
from narrows.latency.result import read as read_latency
from narrows.measure import history, render
from narrows.measure.pictures import pictures
from narrows.measure.result import Measurement
from narrows.render import words
from narrows.render.bands import bands
from narrows.render.latex import document
from narrows.render.plot import about, draw_columns, kernels_of
from narrows.render.progress import ProgressBar
from narrows.render.report import compare_report, unique, write
from narrows.render.report import name as title_of
from narrows.render.run_plots import compare_plot
from narrows.render.style import Style
from narrows.render.styled import table as show
from narrows.render.terminal import console, echo, one_line
from narrows.runs.command import samples_for
from narrows.runs.engines import EngineChoice, choose
from narrows.runs.outputs import print_sketch
from narrows.runs.replications import replicate
from narrows.runs.run import Engine, Run
from narrows.storage import output, untrusted_input


@command(
    "narrows compare before.json after.json",
    "narrows compare scenarios/fairness/shallow.toml scenarios/first/cubic.toml",
    "narrows compare scenarios/fairness/shallow.toml scenarios/first/cubic.toml --seeds 20",
    "narrows compare before.json after.json --report both.html",
)
@files_argument("Measurements, results of narrows latency, or scenarios; all of one kind")
@files_option
@plugin_option
@seed_option(show_default="the seeds of the scenarios")
@engine_option("Engine of the runs of scenarios")
@seeds_option("Run each scenario with the same N seeds and compare means with 95 % intervals")
@plot_option
@report_option
@latex_option
@figure_options()
@json_option(
    "Print one JSON object instead of text; comparisons of scenarios support it only with --seeds"
)
def compare(  # noqa: PLR0917 - Click calls it by keyword
    files: tuple[str, ...],
    seed: int | None,
    engine: str,
    kernel: str | None,
    seeds: int | None,
    as_json: bool,
    plot: str | None,
    page: str | None,
    latex: str | None,
    style: Style | None,
) -> None:
    """Compare measurements or scenarios.

    Measurements: FILE is a result of `narrows measure`, .flent.gz, iperf3's JSON, iperf2's text, or
    an ID of `narrows history`. Each is compared with the first one. The command prints the
    difference of each metric, its confidence interval and a verdict: better, worse, no difference
    seen, no relevant difference, or cannot tell. The level of an interval is 99 %, and higher if
    several metrics are compared, so that all verdicts together have one error rate. "No relevant
    difference" means that the whole interval of the difference lies between -3 % and +3 % of the
    value in the first file. For metrics in ms, these limits are at least -0.1 and +0.1 ms. "Cannot
    tell" means that there is no interval; the reason is printed.

    Results of `narrows latency`: each percentile is faster, slower, or without a difference seen.
    Percentiles differ if their 99 % intervals do not overlap and one is over 10 % larger.

    Scenarios: the command runs each FILE and prints a sentence on each run. The last sentence names
    the runs with the highest goodput and the lowest queueing delay. With --seeds, the command
    compares the means of each scenario with those of the first one; the verdict is "differs" or
    "no difference seen". --latex requires --seeds, and --report cannot be used with --seeds.
    """
    need_linux(engine, kernel=kernel)
    if latex is not None and seeds is None:
        raise click.BadParameter("requires scenarios and --seeds", param_hint="--latex")
    if are_measurements(files):
        for word, given in {"--engine": engine != "sim", "--seeds": seeds is not None}.items():
            if given:
                raise click.BadParameter("is for scenarios; omit it", param_hint=word)
        _measurements(files, plot=plot, page=page, as_json=as_json, style=style)
        return
    if seeds is not None:
        _replicated(
            files,
            seed,
            seeds,
            engine=choose(cast("Engine", engine), kernel),
            as_json=as_json,
            plot=plot,
            page=page,
            latex=latex,
            style=style,
        )
        return
    if as_json:
        raise click.BadParameter(
            "is for measurements and --seeds; write narrows run FILE --json", param_hint="--json"
        )

    runs = []
    chosen = choose(cast("Engine", engine), kernel)
    for file in files:
        with ProgressBar(quiet=False) as bar:
            runs.append(
                chosen.run(file, seed=seed, **samples_for(None, plot, page, None), progress=bar)
            )
    titles = [title_of(done) for done in runs]
    # Copies of one scenario have the same title, so the names of the files are used instead.
    names = (
        titles if len(set(titles)) == len(titles) else unique([Path(file).name for file in files])
    )
    with every() as attempt:
        if plot:
            with attempt():
                compare_plot(runs, plot, names=names, style=style)
        if page is not None:
            with attempt():
                compare_report(runs, page, names=names)
        _print_runs(names, runs, sketched=plot == IN_TERMINAL)


def _print_runs(names: Sequence[str], runs: Sequence[Run], *, sketched: bool) -> None:
    """Prints the runs, and their comparison if there are several."""
    for name, done in zip(names, runs, strict=True):
        echo(one_line(f"{words.called(name)}: {words.sentence(done.json)}"))
        for notice in done.json.get("notices", []):
            echo(one_line(f"{words.called(name)}: note: {notice}"))
        if sketched:
            print_sketch(done)
    if len(runs) > 1:
        compared = [(name, done.json) for name, done in zip(names, runs, strict=True)]
        echo(one_line(words.comparison(compared)))


def _replicated(
    files: tuple[str, ...],
    seed: int | None,
    seeds: int,
    *,
    engine: EngineChoice,
    as_json: bool,
    plot: str | None,
    page: str | None,
    latex: str | None,
    style: Style | None,
) -> None:
    """Compares each scenario with the first one by replications with common seeds."""
    if page is not None:
        raise click.BadParameter("is for single runs; omit --seeds", param_hint="--report")
    if plot == IN_TERMINAL:
        raise click.BadParameter("the file is missing; write --plot both.pdf", param_hint="--plot")
    if len(files) < 2:  # noqa: PLR2004 - one is compared with another
        raise click.UsageError(
            "FILE: a second scenario is missing; write narrows compare a.toml b.toml --seeds 20"
        )
    if seeds < 2:  # noqa: PLR2004 - one has no interval
        raise click.BadParameter(
            "a comparison needs at least two seeds; write --seeds 20", param_hint="--seeds"
        )
    found = []
    for file in files:
        with ProgressBar(quiet=as_json, of="runs") as bar:
            found.append(
                replicate(
                    file,
                    seeds=seeds,
                    seed=seed,
                    engine=engine.name,
                    kernel=engine.kernel,
                    sample_interval="off" if plot is None else "pictures",
                    progress=bar,
                )
            )
        seed = found[0].seed
    titles = [
        one.scenario["title"] or Path(file).name for one, file in zip(found, files, strict=True)
    ]
    names = (
        titles if len(set(titles)) == len(titles) else unique([Path(file).name for file in files])
    )
    compared = [
        (name_, differences(found[0], one)) for name_, one in zip(names[1:], found[1:], strict=True)
    ]
    kernels = kernels_of([run for one in found for run in one.runs])
    with every() as attempt:
        if latex is not None:
            shown = [replications_table(each, (names[0], name_)) for name_, each in compared]
            with attempt():
                output.write(latex, document(shown, about(kernels)))
        if plot is not None:
            columns = [(name_, bands(one.runs)) for name_, one in zip(names, found, strict=True)]
            with attempt():
                draw_columns(columns, plot, style=style, kernels=kernels)
        if not as_json:
            for name, one in zip(names, found, strict=True):
                for notice in one.notices():
                    echo(one_line(f"{words.called(name)}: note: {notice}"))
        _print_differences(
            compared, names, engine, seed=found[0].seed, seeds=seeds, as_json=as_json
        )


def _print_differences(
    compared: Sequence[tuple[str, Comparison]],
    names: Sequence[str],
    engine: EngineChoice,
    *,
    seed: int,
    seeds: int,
    as_json: bool,
) -> None:
    """Prints the differences over common seeds as tables or as JSON."""
    if as_json:
        echo(
            json.dumps(
                {
                    "before": names[0],
                    "seed": seed,
                    "seeds": seeds,
                    **engine.json(),
                    "level": LEVEL,
                    "after": {
                        name_: {one.metric: one.json() for one in each} for name_, each in compared
                    },
                }
            )
        )
        return
    out = console()
    for name_, each in compared:
        out.print(f"{name_}, compared with {names[0]} over {seeds} common seeds:", style="bold")
        out.print()
        show(out, replications_table(each, (names[0], name_)))
        out.print()
    out.print(
        f"{words.HALF} The verdict is stricter than this interval, so that the probability of "
        "any false verdict in one table is at most 5 %.",
        soft_wrap=True,
    )


def _read(named: Sequence[str]) -> Iterator[Measurement]:
    """The measurements of these files, or those with these IDs in the history if no such file
    exists.
    """
    for name in named:
        yield (
            stored.read(name)
            if Path(name).exists() or not history.installed()
            else history.get(name)
        )


def are_measurements(named: Sequence[str]) -> bool:
    """Whether the first name is that of a measurement or of a result of `narrows latency`, not of a
    scenario.

    Raises:
        NarrowsError: If the file is empty, unless its suffix is `.toml`.
    """
    file = Path(named[0])
    if file.suffix == ".toml":
        return False
    try:
        begin = untrusted_input.head(file, 4096)
    except OSError:
        # An ID of the history has neither a dot nor a slash.
        return not file.exists() and "." not in file.name and "/" not in named[0]
    if not begin.strip():
        raise NarrowsError(f"{named[0]}: the file is empty; write a measurement or a scenario")
    return (
        begin.lstrip()[:1] == b"{"
        or begin[:2] == b"\x1f\x8b"
        or begin[:3] == b"BZh"
        or b" sec " in begin
    )


def _measurements(
    named: Sequence[str],
    *,
    plot: str | None,
    page: str | None,
    as_json: bool = False,
    style: Style | None = None,
) -> None:
    """Compares each measurement, or each result of `narrows latency`, with the first one."""
    if len(named) < 2:  # noqa: PLR2004 - one is compared with another
        raise click.UsageError(
            "FILE: a second file is missing; write narrows compare before.json after.json"
        )
    if any(is_result(name) for name in named):
        _latencies(named, plot=plot, page=page, as_json=as_json, style=style)
        return
    several = list(_read(named))
    names = unique([Path(name).name for name in named])
    found = [
        (name, measurements.differences(several[0], one))
        for name, one in zip(names[1:], several[1:], strict=True)
    ]
    warned = {
        name: comparison.warnings(several[0], one, (names[0], name))
        for name, one in zip(names[1:], several[1:], strict=True)
    }
    said = [
        s
        for name, each in found
        for s in (*warned[name], *comparison.sentences(each, names[0], name))
    ]
    with every() as attempt:
        if plot:
            with attempt():
                draw_columns(
                    [(name, pictures(one)) for name, one in zip(names, several, strict=True)],
                    plot,
                    style=style,
                )
        if page is not None:
            with attempt():
                made = render.document(several, names)
                write(made | {"first": " ".join([*said, comparison.caution(several)])}, page)
        if as_json:
            told = {name: {d.figure.key: d.json() for d in each} for name, each in found}
            echo(json.dumps({"before": names[0], "after": told, "warnings": warned}))
            return
        out = console()
        for name, each in found:
            for line in warned[name]:
                out.print(line, style="bold yellow", markup=False, soft_wrap=True)
            for line in comparison.sentences(each, names[0], name):
                out.print(line, markup=False, soft_wrap=True)
            out.print()
            if each:
                show(out, comparison.table(each, names[0], name))
                out.print()
        if any(each for _, each in found):
            out.print(comparison.caution(several), markup=False, soft_wrap=True)


def _latencies(
    named: Sequence[str],
    *,
    plot: str | None,
    page: str | None,
    as_json: bool,
    style: Style | None,
) -> None:
    """Compares each result of `narrows latency` with the first."""
    several = [read_latency(name) for name in named]
    hosts = [str(one.get("host") or "") for one in several]
    # Host names identify the results, if they differ.
    names = (
        hosts
        if all(hosts) and len(set(hosts)) == len(hosts)
        else unique([Path(name).name for name in named])
    )
    if plot == IN_TERMINAL:
        raise click.BadParameter(
            "the name of a file is missing; write --plot out.png", param_hint="--plot"
        )
    found = [
        (name, one, judged.differences(several[0], one))
        for name, one in zip(names[1:], several[1:], strict=True)
    ]
    said = {
        name: comparison.latency_sentences(each, several[0], one, (names[0], name))
        for name, one, each in found
    }
    with every() as attempt:
        if plot:
            with attempt():
                latencies.plot(list(zip(names, several, strict=True)), plot, style=style)
        if page is not None:
            with attempt():
                made = latencies.document(list(zip(names, several, strict=True)))
                write(
                    made | {"first": " ".join(line for lines in said.values() for line in lines)},
                    page,
                )
        if as_json:
            told = {
                name: [{d.key: d.json() for d in of} for of in judged.by_clock(each)]
                for name, _, each in found
            }
            warned = {
                name: comparison.latency_warnings(several[0], one, (names[0], name))
                for name, one, _ in found
            }
            echo(
                json.dumps(
                    {
                        "before": names[0],
                        "after": {
                            name: clocks[0] if clocks else {} for name, clocks in told.items()
                        },
                        "round_trip": {
                            name: clocks[1] if clocks[1:] else {} for name, clocks in told.items()
                        },
                        "warnings": warned,
                    }
                )
            )
            return
        out = console()
        for name, _, each in found:
            for at, line in enumerate(said[name]):
                out.print(line, style="" if at else "bold", markup=False, soft_wrap=True)
            out.print()
            for of in judged.by_clock(each):
                show(out, comparison.latency_table(of, (names[0], name)))
                out.print()
        out.print(comparison.LATENCY_CAUTION, markup=False, soft_wrap=True)
