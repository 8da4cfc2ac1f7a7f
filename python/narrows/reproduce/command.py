"""The command `narrows reproduce`."""

from __future__ import annotations

import itertools
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import click

from narrows.cli import outputs
from narrows.cli.command import argument, command, option
from narrows.cli.options import (
    file_option,
    json_option,
    kernel_option,
    need_linux,
    seeds_option,
)
from narrows.errors import EngineError, NarrowsError
from narrows.render.progress import ProgressBar
from narrows.render.terminal import echo
from narrows.reproduce import render
from narrows.reproduce.checks import experiments
from narrows.reproduce.running import reproduce as run
from narrows.runs.engines import EngineChoice, choose
from narrows.runs.run import ENGINES
from narrows.storage import output

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from narrows.reproduce.checks import Outcome
    from narrows.reproduce.lab import Told
    from narrows.runs.run import Engine


class _Engines(click.ParamType):  # type: ignore[type-arg]
    """Names of engines, separated by commas."""

    name = "engines"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - text, or the names
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[Engine, ...]:
        """The names of engines in the text, each once."""
        names = tuple(dict.fromkeys(value.split(",")))
        wrong = [name for name in names if name not in ENGINES]
        if wrong:
            self.fail(f"{wrong[0]}: no engine; write {', '.join(ENGINES)}", param, ctx)
        return cast("tuple[Engine, ...]", names)


@command(
    "narrows reproduce",
    "narrows reproduce share-model --quick",
    "narrows reproduce --all --quick --html results.html",
    "narrows reproduce page-under-load --engine sim,live",
)
@argument(
    "name", metavar="[NAME]", required=False, help="Experiment; without NAME, list the experiments"
)
@option("--all", "every", group="Execution", is_flag=True, help="Run every experiment")
@option(
    "--quick",
    group="Execution",
    is_flag=True,
    help="Run fewer and shorter cases; about two minutes for --all",
)
@option(
    "--engine",
    "engines",
    group="Simulation",
    metavar="ENGINES",
    type=_Engines(),
    default="sim",
    help="Engines of the runs, separated by commas: sim, live, linux. Runs of live and linux are "
    "stored one by one, so that an interrupted experiment continues",
)
@kernel_option
@seeds_option("Repeat each experiment N times with other seeds and print 95 % confidence intervals")
@option("--anew", group="Execution", is_flag=True, help="Ignore stored results")
@option(
    "--into",
    group="Output",
    metavar="DIR",
    default="reproduced",
    type=click.Path(file_okay=False),
    help="Directory of the results; results of this build are reused",
)
@file_option(
    "--html",
    "html_file",
    what="Write an HTML page",
)
@file_option(
    "--markdown",
    "markdown_file",
    what="Write a Markdown page",
)
@json_option("Print one JSON object instead of text")
@option(
    "--check",
    "strict",
    is_flag=True,
    help="Exit with code 1 if fewer than 80 % of the values are inside the accepted ranges",
)
def reproduce(  # noqa: PLR0917
    name: str | None,
    every: bool,
    quick: bool,
    engines: tuple[Engine, ...],
    kernel: str | None,
    seeds: int | None,
    into: str,
    anew: bool,
    html_file: str | None,
    markdown_file: str | None,
    as_json: bool,
    strict: bool,
) -> None:
    """Repeat published experiments and compare the results.

    Most published values have an accepted range, which was fixed before the first run. The others
    are only shown.
    """
    need_linux("linux" if "linux" in engines else engines[0], kernel=kernel)
    if name is None and not every:
        for one in experiments().values():
            echo(f"{one.name:18} {one.title}")
        return
    names = _names(name, every=every)
    output.check_folder(into, "--into")

    outcomes, refused = [], []
    chosen = {one: choose(one, kernel if one == "linux" else None) for one in engines}
    for engine, each in itertools.product(chosen.values(), names):
        label = each if engine.name == "sim" else f"{each}, engine {engine.name}"
        with _progress(label, quiet=as_json) as told:
            try:
                outcomes.append(
                    run(
                        each,
                        quick=quick,
                        into=into,
                        anew=anew,
                        replications=seeds,
                        engine=engine,
                        told=told,
                    )
                )
            except EngineError as error:
                if len(names) == len(engines) == 1:
                    raise
                refused.append(f"{each}, engine {engine.name}: {error}")
    written = _written(name, chosen, quick=quick, seeds=seeds)
    with outputs.every() as attempt:
        if html_file is not None:
            with attempt():
                output.write(html_file, render.page(outcomes, written))
        if markdown_file is not None:
            with attempt():
                output.write(markdown_file, render.markdown(outcomes, written))
        if as_json:
            document = {
                "verdict": render.verdict(outcomes),
                "experiments": [one.json() for one in outcomes],
            }
            echo(json.dumps(document))
        else:
            render.tell(outcomes)
    for reason in refused:
        click.echo(reason, err=True)
    if refused or (strict and not _enough(outcomes)):
        click.get_current_context().exit(1)


def _names(name: str | None, *, every: bool) -> list[str]:
    """The names of the experiments to run."""
    known = experiments()
    if name is None:
        return list(known)
    if every:
        raise NarrowsError(f"{name} --all: NAME and --all cannot be combined; omit one of them")
    if name not in known:
        raise NarrowsError(f"{name}: no such experiment; write one of {', '.join(known)}")
    return [name]


def _written(
    name: str | None,
    engines: Mapping[Engine, EngineChoice],
    *,
    quick: bool,
    seeds: int | None,
) -> str:
    """The command line that a page shows."""
    words = ["narrows reproduce", name or "--all"]
    words += ["--quick"] if quick else []
    words += [f"--seeds {seeds}"] if seeds is not None else []
    words += [f"--engine {','.join(engines)}"] if tuple(engines) != ("sim",) else []
    words += [
        f"--kernel {one.kernel_name}" for one in engines.values() if one.kernel_name is not None
    ]
    return " ".join(words)


_ENOUGH = 0.8


def _enough(outcomes: Sequence[Outcome]) -> bool:
    inside, outside = (sum(one.count(word) for one in outcomes) for word in ("inside", "outside"))
    return inside >= _ENOUGH * (inside + outside)


@contextmanager
def _progress(name: str, *, quiet: bool) -> Iterator[Told]:
    """A progress bar with the numbers of completed and planned runs, and the current live run."""
    with ProgressBar(quiet=quiet, of=name) as bar:

        def told(runs: int, planned: int, current: str) -> None:
            parts = [f"{name}: {runs} of {planned} runs", *([current] if current else [])]
            bar(runs, planned, ", ".join(parts))

        yield told
