"""The command `race`."""

from __future__ import annotations

import json

import click

from narrows.cli.command import command, option
from narrows.cli.options import SEED, json_option, path_option, seeds_option
from narrows.cli.outputs import Picture, every
from narrows.errors import named_by
from narrows.render.progress import ProgressBar
from narrows.render.styled import table
from narrows.render.terminal import console, echo
from narrows.runs import race as races
from narrows.runs.scenario import Path as NetworkPath


@command(
    "narrows race --rate 50Mbit --rtt 40ms --only reno,cubic,bbr",
    "narrows race --only cubic,bbr --buffer 0.5bdp --loss 0.1% --seeds 8",
    "narrows race --only cubic,bbr --queue fq_codel --plot race.png",
)
@path_option("rate", "Rate of the bottleneck", default="20Mbit")
@path_option("rtt", "Base RTT", default="40ms")
@path_option("buffer", "Size of the bottleneck buffer", show_default="1bdp with fifo")
@path_option("queue", "Queue discipline of the bottleneck", show_default="fifo")
@path_option("loss", "Random loss before the queue")
@option(
    "--only",
    group="Simulation",
    metavar="CC,...",
    show_default="all",
    help="Congestion controls to compare, separated by commas",
)
@option(
    "--duration",
    group="Simulation",
    metavar="SECONDS",
    type=click.IntRange(4, 3600),
    default=40,
    help="Duration of each simulation",
)
@option("--seed", group="Simulation", metavar="N", type=SEED, default=1, help="First seed")
@seeds_option("Number of seeds for each simulation", default=5)
@option(
    "--plot",
    group="Output",
    metavar="FILE",
    type=Picture(),
    help="Write a figure as PNG, SVG or PDF",
)
@json_option("Print one JSON object instead of a table")
def race(  # noqa: PLR0917 - Click calls it by keyword
    rate: str,
    rtt: str,
    buffer: str | None,
    queue: str | None,
    loss: str | None,
    only: str | None,
    duration: int,
    seed: int,
    seeds: int,
    as_json: bool,
    plot: str | None,
) -> None:
    """Compare congestion controls on one path.

    Each congestion control runs alone, beside one CUBIC flow, and with a second flow of its own
    that starts later.
    """
    given = {"rate": rate, "rtt": rtt, "buffer": buffer, "queue": queue, "loss": loss}
    if buffer is None and queue in {None, "fifo"}:
        buffer = "1bdp"
    names = None if only is None else [name.strip() for name in only.split(",")]
    path = NetworkPath(rate=rate, rtt=rtt, buffer=buffer, queue=queue, loss=loss)
    with named_by(given), ProgressBar(quiet=as_json, of="simulations") as bar:
        found = races.race(
            path, only=names, duration_s=duration, seed=seed, seeds=seeds, progress=bar
        )
    with every() as attempt:
        if plot:
            with attempt():
                races.plot(found, plot)
        _print_race(found, as_json=as_json)


def _print_race(found: races.Race, *, as_json: bool) -> None:
    if as_json:
        echo(json.dumps(found.json()))
        return

    out = console()
    out.print(races.sentence(found), style="bold")
    out.print()
    table(out, races.table(found))
    if found.seeds > 1:
        out.print(
            f"\nMeans over {found.seeds} seeds; ± is half the 95 % confidence interval of the mean."
        )
    for left, needs in found.left_out.items():
        out.print(f"Not simulated: {left}, which needs {needs}.")
