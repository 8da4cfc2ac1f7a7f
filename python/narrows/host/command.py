"""The commands `agree` and `doctor`; `serve`, `shell` and `with` have modules of their own."""

from __future__ import annotations

import json

import click

from narrows.cli.command import command, option
from narrows.cli.options import (
    files_argument,
    files_option,
    json_option,
    plugin_option,
    quiet_option,
)
from narrows.host import doctor as examination
from narrows.host.agree import command as compare
from narrows.host.agreement import machines
from narrows.render.progress import ProgressBar
from narrows.render.terminal import echo


@command(
    "narrows agree scenarios/first/cubic.toml --runs 5",
    "narrows agree scenarios/*/*.toml --json > agreement.json",
    "narrows agree scenarios/first/cubic.toml --engines sim,linux,live --kernel 6.12",
)
@files_argument("Scenarios (TOML)", metavar="SCENARIO...")
@files_option
@plugin_option
@option(
    "--engines",
    group="Simulation",
    metavar="ENGINE,...",
    default="sim,live",
    help="Engines to compare: sim, linux, live",
)
@option(
    "--kernel",
    group="Simulation",
    metavar="NAME",
    show_default="the newest built kernel",
    help="Kernel of the engine linux: a name that `narrows kernel list` prints",
)
@option(
    "--runs",
    group="Simulation",
    metavar="N",
    type=click.IntRange(3, 100),
    default=5,
    help="Number of runs with linux and with live",
)
@option(
    "--seeds",
    group="Simulation",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=15,
    help="Number of simulations",
)
@json_option()
@quiet_option()
def agree(  # noqa: PLR0917 - Click calls it by keyword
    files: tuple[str, ...],
    engines: str,
    kernel: str | None,
    runs: int,
    seeds: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Compare the simulator with Linux kernels on the same scenarios.

    The simulated hosts have the timer tick and the rules of the kernel that they are compared
    with. A metric is undecided if the runs of that kernel differ by more than 15 % of their median
    and by more than the tolerated difference. A live run whose self-check fails is repeated and
    reported. The exit code is 1 if a metric differs, or if
    no metric is decided.
    """
    on = machines([name.strip() for name in engines.split(",")], kernel)
    with ProgressBar(quiet=quiet, of="time of the runs") as bar:
        together = compare(
            files, on=on, runs=runs, seeds=seeds, as_json=as_json, quiet=quiet, progress=bar
        )
    if not together:
        click.get_current_context().exit(1)


@command("narrows doctor", "narrows doctor --json | jq .verdict")
@json_option("Print one JSON object instead of text")
def doctor(as_json: bool) -> None:
    """Check whether this host supports runs with real packets.

    The check takes some seconds: it measures the delay of wake-ups and the cost of a packet. It
    reports privileges, congestion controls and timing, and how to improve them. The exit code is 1
    if no live run is possible.
    """
    with ProgressBar(quiet=False, of="examination") as bar:
        found = examination.examine(bar)
    if as_json:
        echo(json.dumps(found))
    else:
        examination.show(found)
    if not found["able"]:
        click.get_current_context().exit(1)
