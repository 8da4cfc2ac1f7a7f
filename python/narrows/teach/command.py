"""The commands `explain` and `demo`."""

from __future__ import annotations

import click

from narrows.cli.options import WIDEST_SKETCH, report_option
from narrows.render.terminal import console
from narrows.runs.run import ENGINES
from narrows.teach import explain as lessons
from narrows.teach.demo import demo as show_demo
from narrows.teach.story import command

_TOPICS = ("bufferbloat", "bbr", "cubic", "codel", "fairness", "policer", "wifi", "ladder")
"""Topics of the lessons."""


@click.command()
@click.argument("topic", type=click.Choice(_TOPICS))
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    help="Seed of all random choices. Example: --seed 7",
)
@report_option
def explain(topic: str, seed: int | None, page: str | None) -> None:
    """Explain a topic, with figures from simulations that are run on the spot.

    Example: narrows explain bufferbloat --report bufferbloat.html
    """
    if page is not None:
        lessons.write(topic, page, seed=seed)
        return
    out = console()
    lessons.show(topic, out, min(out.width, WIDEST_SKETCH), seed=seed)


@click.command()
@click.option(
    "--quick",
    is_flag=True,
    help="Run a third of the cells, with every rate and RTT. Example: --quick",
)
@click.option(
    "--up-to",
    type=click.IntRange(min=10),
    help="Highest rate in Mbit/s. Example: --up-to 100",
    metavar="MBIT",
)
@click.option(
    "--goodput",
    is_flag=True,
    help="Print maps of the goodput as well. Example: --goodput | less -R",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object. Example: --json | jq .criteria"
)
@click.option(
    "--check",
    "strict",
    is_flag=True,
    help="Exit with code 1 if a criterion is not met. Example: --check",
)
@click.option(
    "--story",
    is_flag=True,
    help="Measure a path with bufferbloat, improve it, measure again. Example: --story",
)
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help="Engine of --story [default: live if possible]. Example: --engine sim",
)
@report_option
def demo(  # noqa: PLR0917 - Click calls it by keyword
    quick: bool,
    up_to: int | None,
    goodput: bool,
    as_json: bool,
    strict: bool,
    story: bool,
    engine: str | None,
    page: str | None,
) -> None:
    """Repeat a published experiment with BBR and CUBIC, and compare the results with the
    publication.

    With --story: create a path with bufferbloat, measure it, change the congestion control as
    advised, and measure it again. This uses real packets if the machine supports it.

    Example: narrows demo

    Example: narrows demo --story --report story.html
    """
    if story:
        of_maps = {"--quick": quick, "--up-to": up_to, "--goodput": goodput, "--check": strict}
        for option in (name for name, given in of_maps.items() if given):
            raise click.BadParameter(
                "this option cannot be combined with --story", param_hint=option
            )

        command(live=None if engine is None else engine == "live", as_json=as_json, page=page)
        return
    if engine is not None or page is not None:
        raise click.BadParameter(
            "this option requires --story", param_hint="--engine" if engine else "--report"
        )

    met = show_demo(quick=quick, up_to=up_to, goodput=goodput, as_json=as_json)
    if strict and not met:
        click.get_current_context().exit(1)
