"""The command `narrows race`."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import click

from narrows import registry
from narrows.cli.command import command, option
from narrows.cli.options import (
    engine_option,
    figure_options,
    json_option,
    latex_option,
    need_linux,
    path_option,
    picture_option,
    plugin_option,
    seed_option,
    seeds_option,
    separated,
)
from narrows.cli.outputs import every
from narrows.errors import named_by
from narrows.render.latex import document
from narrows.render.plot import about
from narrows.render.progress import ProgressBar
from narrows.render.style import Style
from narrows.render.styled import table
from narrows.render.terminal import console, echo
from narrows.runs import race as races
from narrows.runs.run import Engine
from narrows.runs.scenario import Path as NetworkPath
from narrows.storage import output

_LEAST_S, _MOST_S = 4, 3600
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "": 1.0}


class _Duration(click.ParamType):  # type: ignore[type-arg]
    """A time in whole seconds: `40s`, `2min`, or a number without a unit."""

    name = "time"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - text, or a number from Python
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> int:
        """The duration in seconds; raises an error for other values."""
        found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(us|ms|s|min|)", str(value))
        seconds = float(found[1]) * _UNITS[found[2]] if found else 40.0
        if not found or not _LEAST_S <= seconds <= _MOST_S or not seconds.is_integer():
            self.fail(
                f"must be a time from {_LEAST_S}s to {_MOST_S}s in whole seconds; write --duration "
                f"{max(_LEAST_S, min(_MOST_S, round(seconds)))}s",
                param,
                ctx,
            )
        return int(seconds)


@command(
    "narrows race --rate 50Mbit --rtt 40ms --only reno,cubic,bbr",
    "narrows race --only cubic,bbr --buffer 0.5bdp --loss 0.1% --seeds 8",
    "narrows race --only cubic,bbr --queue fq_codel --plot race.pdf --look print",
    "narrows race --only cubic,bbr --latex race.tex",
)
@path_option("rate", "Rate of the bottleneck", default="20Mbit")
@path_option("rtt", "Base RTT", default="40ms")
@path_option(
    "buffer",
    "Size of the bottleneck buffer",
    show_default="1bdp with --queue fifo, otherwise the default limit of the queue discipline",
)
@path_option("queue", "Queue discipline of the bottleneck", show_default="fifo")
@path_option("loss", "Random loss before the queue")
@plugin_option
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
    metavar="TIME",
    type=_Duration(),
    default="40s",
    help="Duration of each simulation, in whole seconds",
)
@engine_option()
@seed_option("First seed", default=1)
@seeds_option("Number of runs of each simulation, with consecutive seeds", default=5)
@picture_option
@latex_option
@figure_options()
@json_option("Print one JSON object instead of a table")
def race(  # noqa: PLR0917 - Click calls it by keyword
    rate: str,
    rtt: str,
    buffer: str | None,
    queue: str | None,
    loss: str | None,
    only: str | None,
    duration: int,
    engine: str,
    kernel: str | None,
    seed: int,
    seeds: int,
    as_json: bool,
    plot: str | None,
    latex: str | None,
    style: Style | None,
) -> None:
    """Compare congestion controls on one path.

    Each congestion control is simulated in three ways: one flow alone, one flow beside a CUBIC
    flow, and two flows of which the second starts later.

    Goodput, queueing delay and retransmission rate are those of the flow alone. The share beside
    CUBIC is the flow's share of the goodput of both flows; 50 % is fair. Jain's index is that of
    the two flows of the same congestion control in the last quarter of the duration; 1 is fair. The
    fair share is half of the goodput of one flow alone. The time to the fair share runs from the
    start of the second flow until its goodput over one second is 80 % of the fair share.
    """
    need_linux(engine, kernel=kernel)
    given = {"rate": rate, "rtt": rtt, "buffer": buffer, "queue": queue, "loss": loss}
    if buffer is None and queue in {None, "fifo"}:
        buffer = "1bdp"
    names = None if only is None else separated("--only", only)
    if plot:
        races.check_room(registry.names("cc") if names is None else names, plot, style)
    path = NetworkPath(rate=rate, rtt=rtt, buffer=buffer, queue=queue, loss=loss)
    with named_by(given), ProgressBar(quiet=as_json, of="simulations") as bar:
        found = races.race(
            path,
            only=names,
            duration_s=duration,
            seed=seed,
            seeds=seeds,
            engine=cast("Engine", engine),
            kernel=kernel,
            progress=bar,
        )
    with every() as attempt:
        if plot:
            with attempt():
                races.plot(found, plot, style=style)
        if latex is not None:
            with attempt():
                text = document([races.table(found)], about([found.like]))
                output.write(latex, text)
        _print_race(found, as_json=as_json)


def _print_race(found: races.Race, *, as_json: bool) -> None:
    if as_json:
        echo(json.dumps(found.json()))
        return

    out = console()
    out.print(races.sentence(found), style="bold", soft_wrap=True)
    out.print()
    table(out, races.table(found))
    if found.seeds > 1:
        out.print()
    for note in races.notes(found):
        out.print(note, soft_wrap=True)
