"""The command `race`."""

from __future__ import annotations

import json

import click

from narrows.render.progress import ProgressBar
from narrows.render.run import table
from narrows.render.terminal import console, echo
from narrows.runs import race as races
from narrows.runs.scenario import Path as NetworkPath
from narrows.storage import output


@click.command()
@click.option(
    "--rate", default="20Mbit", show_default=True, help="Of the path. Example: --rate 100Mbit"
)
@click.option(
    "--rtt", default="40ms", show_default=True, help="Two-way propagation. Example: --rtt 20ms"
)
@click.option(
    "--buffer", help="What the queue holds; 1bdp of a fifo without. Example: --buffer 0.5bdp"
)
@click.option("--queue", help="Discipline of the queue; fifo without. Example: --queue fq_codel")
@click.option("--loss", help="By chance, before the queue. Example: --loss 0.1%")
@click.option("--only", help="These, with commas between. Example: --only cubic,bbr")
@click.option(
    "--duration",
    type=click.IntRange(4, 3600),
    default=40,
    show_default=True,
    help="Of each simulation, seconds. Example: --duration 60",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    default=1,
    help="The first of all seeds. Example: --seed 7",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    help="Runs of each simulation, with successive seeds. Example: --seeds 8",
)
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object instead of a table. Example: --json"
)
@click.option(
    "--plot",
    type=output.Picture(),
    help="Draw it into a PNG, SVG or PDF. Example: --plot race.png",
)
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
    """Every congestion control on one path: alone, beside CUBIC, and with a late comer of its own
    kind.

    Example: narrows race --rate 50Mbit --rtt 40ms --only reno,cubic,bbr
    """
    if buffer is None and queue in {None, "fifo"}:
        buffer = "1bdp"
    names = None if only is None else [name.strip() for name in only.split(",")]
    path = NetworkPath(rate=rate, rtt=rtt, buffer=buffer, queue=queue, loss=loss)
    with ProgressBar(quiet=as_json, of="simulations") as bar:
        found = races.race(
            path, only=names, duration_s=duration, seed=seed, seeds=seeds, progress=bar
        )
    with output.every() as attempt:
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
            f"\nMeans over {found.seeds} seeds; ±: half the 95 % confidence interval of the mean."
        )
    for left, needs in found.left_out.items():
        out.print(f"left out: {left}, which needs {needs}")
