"""The commands `agree` and `doctor`; `serve`, `shell` and `with` have modules of their own."""

from __future__ import annotations

import json

import click

from narrows.cli.options import files_option
from narrows.host import doctor as examination
from narrows.host.agree import command
from narrows.render.progress import ProgressBar
from narrows.render.terminal import echo


@click.command()
@click.argument(
    "files", metavar="SCENARIO...", nargs=-1, required=True, type=click.Path(dir_okay=False)
)
@files_option
@click.option(
    "--runs",
    type=click.IntRange(3, 100),
    default=5,
    show_default=True,
    help="Live runs. Example: --runs 3",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    default=15,
    show_default=True,
    help="Simulations. Example: --seeds 30",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="One JSON object instead of tables. Example: --json | jq .counts",
)
@click.option("--quiet", is_flag=True, help="Neither tables nor progress. Example: --quiet")
def agree(files: tuple[str, ...], runs: int, seeds: int, as_json: bool, quiet: bool) -> None:
    """Run scenarios by both engines and say whether they come to the same.

    The simulator's hosts get the tick and the rules of this kernel. A figure whose live runs lie
    apart by more than 15 % is undecided; a live run that its own instruments flagged is repeated,
    and that is told. Exit code 1: some figure parted, or none was decided.

    Example: narrows agree scenarios/first/cubic.toml --runs 5

    Example: narrows agree scenarios/*/*.toml --json > agreement.json
    """
    with ProgressBar(quiet=quiet, of="time of the live runs") as bar:
        together = command(
            files, runs=runs, seeds=seeds, as_json=as_json, quiet=quiet, progress=bar
        )
    if not together:
        click.get_current_context().exit(1)


@click.command()
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="One JSON object instead of a table. Example: --json | jq .verdict",
)
def doctor(as_json: bool) -> None:
    """Say what this machine can do for live runs, and how to improve it: privilege, congestion
    controls, timing.

    It takes some seconds, for it measures: how late threads wake up, what a packet costs. Exit code
    1: no live run is possible.

    Example: narrows doctor
    """
    with ProgressBar(quiet=False, of="examination") as bar:
        found = examination.examine(bar)
    if as_json:
        echo(json.dumps(found))
    else:
        examination.show(found)
    if not found["able"]:
        click.get_current_context().exit(1)
