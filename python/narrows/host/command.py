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
    separated,
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

    The simulated hosts have the timer tick of the kernel that they are compared with, and the TCP
    behaviour of its release. A metric agrees if the medians differ by at most 10 % or by the
    smallest tolerance of the metric (core/src/metrics/engine_comparison.rs). The metric is
    undecided if the runs of the kernel differ by more than this tolerance and by more than 15 % of
    their median.

    A live run is repeated if packets were late, sent at a wrong rate, or dropped by this host. If
    more than five runs of a scenario fail this self-check, no further run is made. The exit code is
    1 if a metric differs, or if no metric is decided.
    """
    on = machines(separated("--engines", engines), kernel)
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

    The check takes some seconds: it measures the delay of wake-ups and the smallest RTT of a live
    run. It reports privileges, congestion controls and timing, and how to improve them. The exit
    code is 1 if no live run is possible.
    """
    with ProgressBar(quiet=False, of="examination") as bar:
        found = examination.examine(bar)
    if as_json:
        echo(json.dumps(found))
    else:
        examination.show(found)
    if not found["able"]:
        click.get_current_context().exit(1)
