"""Writes the files and plots of `narrows run`, and executes runs with several seeds. A run whose
result is only printed does not import this module, which saves time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from narrows import _core
from narrows.cli.options import IN_TERMINAL, WIDEST_SKETCH
from narrows.cli.outputs import Attempt, every
from narrows.render.latex import document
from narrows.render.picture import EVERY, STATE
from narrows.render.plot import about, check_room, kernels_of
from narrows.render.progress import ProgressBar
from narrows.render.replications import show
from narrows.render.run import tables_of
from narrows.render.run_plots import sketch
from narrows.render.terminal import console, echo
from narrows.runs.replications import replicate as all_seeds
from narrows.runs.source import read
from narrows.storage import output
from narrows.storage.text import name_of

if TYPE_CHECKING:
    from narrows.render.style import Style
    from narrows.render.tables import Table
    from narrows.runs.run import Engine, Run


def write(
    done: Run,
    attempt: Attempt,
    *,
    out: str | None,
    plot: str | None,
    page: str | None,
    latex: str | None,
    style: Style | None,
    states: bool,
) -> None:
    """Writes the directory, the plot, the report page and the tables of a run.

    With `states`, the plot and the page show the internal state of congestion controls.
    """
    if out is not None:
        with attempt():
            done.save(out)
    if plot:
        with attempt():
            done.plot(plot, only=_pictures(states=states), style=style)
    if page is not None:
        with attempt():
            done.report(page, also=(STATE,) if states else ())
    if latex is not None:
        with attempt():
            _write_latex(tables_of(done.json), latex, kernels_of([done]))


def check_plot(file: str, plot: str, style: Style | None) -> None:
    """Checks, before the run of a scenario file, that the size of its plot has room for it."""
    if style is None:
        return
    text, name = read(file), name_of(file)
    _core.check_toml(text, name)
    tree = _core.toml_tables(text, name)
    check_room(
        plot, style, flows=len(tree.get("flow", ())), queues=max(1, len(tree.get("link", ())))
    )


def _pictures(*, states: bool) -> Sequence[str]:
    return (*EVERY, STATE) if states else EVERY


def replicate(
    file: str,
    *,
    seed: int | None,
    seeds: int,
    engine: Engine,
    kernel: str | None,
    out: str | None,
    samples: str | None,
    plot: str | None,
    latex: str | None,
    style: Style | None,
    as_json: bool,
    quiet: bool,
    refused: dict[str, object],
) -> None:
    """Executes `narrows run --seeds`: runs a scenario with several seeds and writes the outputs."""
    for name, value in refused.items():
        if value not in {None, False}:
            raise click.BadParameter("is for a single run; omit --seeds", param_hint=name)
    if plot == IN_TERMINAL:
        raise click.BadParameter(
            "the file is missing; write --plot figure.pdf", param_hint="--plot"
        )
    with ProgressBar(quiet=quiet, of="runs") as bar:
        found = all_seeds(
            file,
            seeds=seeds,
            seed=seed,
            engine=engine,
            kernel=kernel,
            sample_interval=samples,
            states=out is not None,
            progress=bar,
        )
    with every() as attempt:
        if out is not None:
            with attempt():
                found.save(out)
        if plot is not None:
            with attempt():
                found.plot(plot, style=style)
        if latex is not None:
            with attempt():
                _write_latex(found.tables(), latex, kernels_of(found.runs))
        if as_json:
            echo(json.dumps(found.json()))
        elif not quiet:
            jitter = found.scenario["start_jitter"] if found.widened else None
            about = [(flow["id"], flow["cc"]) for flow in found.runs[0].flows]
            show(
                found.title(name_of(file)),
                about,
                found.flows(),
                found.whole(),
                jitter=jitter,
                notices=found.notices(),
            )


def _write_latex(shown: Iterable[Table], file: str, kernels: Sequence[str]) -> None:
    """Writes tables as LaTeX, with the command, version and kernel rules as a comment."""
    output.write(file, document(shown, about(kernels)))


def print_sketch(done: Run, *, states: bool = False) -> None:
    """Draws a run's pictures in the terminal."""
    out = console()
    out.print()
    for line in sketch(done, min(out.width, WIDEST_SKETCH), _pictures(states=states)):
        out.print(line, no_wrap=True, overflow="crop")
