"""`narrows reproduce`: the command."""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from narrows.cli import outputs
from narrows.cli.command import argument, command, option
from narrows.cli.options import file_option, json_option, seeds_option
from narrows.errors import NarrowsError
from narrows.render.terminal import echo
from narrows.reproduce import render
from narrows.reproduce.checks import experiments
from narrows.reproduce.running import reproduce as run
from narrows.storage import output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from narrows.reproduce.checks import Outcome


@command(
    "narrows reproduce",
    "narrows reproduce share-model --quick",
    "narrows reproduce --all --quick --html results.html",
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
    seeds: int | None,
    into: str,
    anew: bool,
    html_file: str | None,
    markdown_file: str | None,
    as_json: bool,
    strict: bool,
) -> None:
    """Repeat published experiments and compare the results.

    Each published value has an accepted range, which was fixed before the first run.
    """
    known = experiments()
    if name is None and not every:
        for one in known.values():
            echo(f"{one.name:15} {one.title}")
        return
    if name is not None and every:
        raise NarrowsError(f"{name} --all: NAME and --all cannot be combined; omit one of them")
    if name is not None and name not in known:
        raise NarrowsError(f"{name}: no such experiment; write one of {', '.join(known)}")

    outcomes = []
    for each in [name] if name is not None else list(known):
        with _progress(each, quiet=as_json) as told:
            outcomes.append(
                run(each, quick=quick, into=into, anew=anew, replications=seeds, told=told)
            )
    written = f"narrows reproduce {name or '--all'}{' --quick' if quick else ''}"
    written += f" --seeds {seeds}" if seeds is not None else ""
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
    if strict and not _enough(outcomes):
        click.get_current_context().exit(1)


_ENOUGH = 0.8


def _enough(outcomes: Sequence[Outcome]) -> bool:
    inside, outside = (sum(one.count(word) for one in outcomes) for word in ("inside", "outside"))
    return inside >= _ENOUGH * (inside + outside)


@contextmanager
def _progress(name: str, *, quiet: bool) -> Iterator[Callable[[int], object]]:
    """Shows the number of runs on stderr, if it is a terminal, after the first second."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    begin = time.monotonic()

    def told(runs: int) -> None:
        seconds = time.monotonic() - begin
        if seconds > 1:
            print(
                f"\r{name}: {runs} runs, {runs / seconds:.1f} per second ",
                end="",
                file=sys.stderr,
                flush=True,
            )

    yield told
    print("\r\x1b[K", end="", file=sys.stderr, flush=True)
