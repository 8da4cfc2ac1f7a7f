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
"""What can be explained."""


@click.command()
@click.argument("topic", type=click.Choice(_TOPICS))
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="Of every random choice. Example: --seed 7")
@report_option
def explain(topic: str, seed: int | None, page: str | None) -> None:
    """Teach one thing, with pictures that the simulator makes on the spot.

    Example: narrows explain bufferbloat --report bufferbloat.html
    """
    if page is not None:
        lessons.write(topic, page, seed=seed)
        return
    out = console()
    lessons.show(topic, out, min(out.width, WIDEST_SKETCH), seed=seed)


@click.command()
@click.option("--quick", is_flag=True, help="A third of the cells, every rate and RTT among them. Example: --quick")
@click.option(
    "--up-to",
    type=click.IntRange(min=10),
    help="Only rates up to so many. Example: --up-to 100",
    metavar="MBIT",
)
@click.option("--goodput", is_flag=True, help="Maps of each one's goodput too. Example: --goodput | less -R")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of maps. Example: --json | jq .criteria")
@click.option("--check", "strict", is_flag=True, help="Exit with 1 unless the criteria are met. Example: --check")
@click.option("--story", is_flag=True, help="A bad path, measured, advised on, changed, measured. Example: --story")
@click.option("--engine", type=click.Choice(ENGINES), help="Of the story; live where it can be. Example: --engine sim")
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
    """Run a published experiment again: BBR against CUBIC, ours beside theirs, and what it teaches.

    With --story: a bad path is made, measured, advised on, changed, and measured again, over real packets where this
    machine can.

    Example: narrows demo

    Example: narrows demo --story --report story.html
    """
    if story:
        of_maps = {"--quick": quick, "--up-to": up_to, "--goodput": goodput, "--check": strict}
        for option in (name for name, given in of_maps.items() if given):
            raise click.BadParameter("that is of the maps, not of the story", param_hint=option)

        command(live=None if engine is None else engine == "live", as_json=as_json, page=page)
        return
    if engine is not None or page is not None:
        raise click.BadParameter("that is of the story", param_hint="--engine" if engine else "--report")

    met = show_demo(quick=quick, up_to=up_to, goodput=goodput, as_json=as_json)
    if strict and not met:
        click.get_current_context().exit(1)
