"""`narrows reproduce`: the command."""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from narrows.errors import NarrowsError
from narrows.render import tables
from narrows.render.run import table
from narrows.render.terminal import console, echo
from narrows.reproduce import page
from narrows.reproduce.checks import experiments
from narrows.reproduce.running import reproduce as run
from narrows.storage import output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from narrows.reproduce.checks import Outcome


@click.command()
@click.argument("name", required=False)
@click.option("--all", "every", is_flag=True, help="Run every experiment. Example: --all --quick")
@click.option(
    "--quick",
    is_flag=True,
    help="Run fewer and shorter cases; about two minutes for --all. Example: --quick",
)
@click.option(
    "--into",
    default="reproduced",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Directory of the results; results of this build are reused. Example: --into results",
)
@click.option("--anew", is_flag=True, help="Ignore stored results. Example: --anew")
@click.option(
    "--html", "html_file", type=output.File(), help="Write an HTML page. Example: --html page.html"
)
@click.option(
    "--markdown",
    "markdown_file",
    type=output.File(),
    help="Write a Markdown page. Example: --markdown a.md",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object. Example: --json | jq .verdict"
)
@click.option(
    "--check",
    "strict",
    is_flag=True,
    help="Exit with code 1 if less than 80 % are inside. Example: --check",
)
def reproduce(  # noqa: PLR0917
    name: str | None,
    every: bool,
    quick: bool,
    into: str,
    anew: bool,
    html_file: str | None,
    markdown_file: str | None,
    as_json: bool,
    strict: bool,
) -> None:
    """Repeat published experiments and compare the results. Without NAME, list the experiments.

    Example: narrows reproduce share-model --quick
    """
    known = experiments()
    if name is None and not every:
        for one in known.values():
            echo(f"{one.name:15} {one.title}")
        return
    if name is not None and every:
        raise NarrowsError("NAME and --all cannot be combined")
    if name is not None and name not in known:
        raise NarrowsError(f"there is no experiment `{name}`; there are {', '.join(known)}")

    outcomes = []
    for each in [name] if name is not None else list(known):
        with _progress(each, quiet=as_json) as told:
            outcomes.append(run(each, quick=quick, into=into, anew=anew, told=told))
    command = f"narrows reproduce {name or '--all'}{' --quick' if quick else ''}"
    with output.every() as attempt:
        if html_file is not None:
            with attempt():
                output.write(html_file, page.page(outcomes, command))
        if markdown_file is not None:
            with attempt():
                output.write(markdown_file, page.markdown(outcomes, command))
        if as_json:
            document = {
                "verdict": page.verdict(outcomes),
                "experiments": [one.json() for one in outcomes],
            }
            echo(json.dumps(document))
        else:
            _tell(outcomes)
    if strict and not _enough(outcomes):
        click.get_current_context().exit(1)


_ENOUGH = 0.8


def _enough(outcomes: Sequence[Outcome]) -> bool:
    inside, outside = (sum(one.count(word) for one in outcomes) for word in ("inside", "outside"))
    return inside >= _ENOUGH * (inside + outside)


def _tell(outcomes: Sequence[Outcome]) -> None:
    out = console()
    for outcome in outcomes:
        out.print(f"{outcome.experiment.title}.", style="bold")
        out.print(f"Source: {outcome.experiment.source}.")
        rows = [
            [
                tables.Cell(check.of),
                tables.Cell(word),
                *map(
                    tables.Cell,
                    (check.published, page.accepted(check), page.figure(ours), check.unit),
                ),
            ]
            for check, ours, word in outcome.words()
        ]
        table(
            out,
            tables.Table(
                "", ("figure", "verdict"), ("published", "accepted", "narrows", "unit"), rows
            ),
        )
        for check, why, evidence in page.reasons(outcome):
            out.print(
                f"{check.of}: {why}{f' (in the repository: {evidence})' if evidence else ''}",
                markup=False,
            )
        out.print(f"{page.sentence(outcome)}\n")
    out.print(page.verdict(outcomes), style="bold")


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
