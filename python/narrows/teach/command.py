"""The commands `narrows explain` and `narrows demo`."""

from __future__ import annotations

import click

from narrows.cli.command import argument, command, option
from narrows.cli.options import WIDEST_SKETCH, json_option, report_option, seed_option
from narrows.render.terminal import console
from narrows.teach import explain as lessons
from narrows.teach.demo import demo as show_demo
from narrows.teach.story import command as tell_story

_TOPICS = {
    "bufferbloat": "excessive queueing delay in large buffers",
    "bbr": "the states of BBR: Startup, Drain, ProbeBW and ProbeRTT",
    "cubic": "growth of the window of CUBIC with the time since the last loss",
    "codel": "how the queue discipline CoDel controls the queueing delay",
    "fairness": "how BBR and CUBIC share a bottleneck, for several buffer sizes",
    "policer": "rate limits that drop packets instead of queueing them",
    "wifi": "the performance anomaly and airtime fairness of Wi-Fi",
    "wifi-queues": "the settings of the Wi-Fi queues of Linux, one after another",
    "ladder": "steps by which Linux 3.3 to 4.13 shortened the queue in the sending host (BQL, TSQ, "
    "pacing)",
}
"""Topics of the lessons, with their descriptions."""


@command(
    "narrows explain bufferbloat",
    "narrows explain bufferbloat --report bufferbloat.html",
    "narrows explain fairness --seed 7",
    lists={"Topics": _TOPICS},
)
@argument("topic", metavar="TOPIC", type=click.Choice([*_TOPICS]), help="Topic from the list below")
@seed_option(show_default="the seeds of the topic")
@report_option
def explain(topic: str, seed: int | None, page: str | None) -> None:
    """Explain a topic with simulations."""
    if page is not None:
        lessons.write(topic, page, seed=seed)
        return
    out = console()
    lessons.show(topic, out, min(out.width, WIDEST_SKETCH), seed=seed)


@command(
    "narrows demo",
    "narrows demo --quick --up-to 100",
    "narrows demo --story --report story.html",
)
@option(
    "--quick",
    group="Experiment",
    is_flag=True,
    help="Run one third of the simulations: each rate, RTT and buffer size, but fewer combinations "
    "of them",
)
@option(
    "--up-to",
    group="Experiment",
    type=click.IntRange(min=10),
    help="Highest rate in Mbit/s",
    metavar="MBIT",
)
@option(
    "--goodput",
    group="Experiment",
    is_flag=True,
    help="Also print the goodput, as a map of rates and RTTs",
)
@option(
    "--check",
    "strict",
    group="Experiment",
    is_flag=True,
    help="Exit with code 1 if the results do not match the publication",
)
@option(
    "--story",
    group="Story",
    is_flag=True,
    help="Measure a path with bufferbloat, improve it, measure again",
)
@option(
    "--engine",
    group="Story",
    type=click.Choice(["sim", "live"]),
    show_default="live if possible",
    help="Engine of --story",
)
@report_option
@json_option("Print one JSON object instead of text")
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
    """Repeat a published experiment with BBR and CUBIC.

    The experiment is one BBR flow alone and one CUBIC flow alone on each of 128 paths (Cao et al.,
    IMC 2019, replicated by Datta and Fund, IMC 2023). The command compares the simulated goodput
    and retransmissions with the published ones.

    With --story, the command runs another demonstration. It creates a path with bufferbloat,
    measures it, changes the congestion control as advised, and measures it again. It uses real
    packets (engine live) if the host supports this, and the simulator otherwise.
    """
    if story:
        of_maps = {"--quick": quick, "--up-to": up_to, "--goodput": goodput, "--check": strict}
        for option in (name for name, given in of_maps.items() if given):
            raise click.BadParameter(
                "this option cannot be combined with --story", param_hint=option
            )

        tell_story(live=None if engine is None else engine == "live", as_json=as_json, page=page)
        return
    if engine is not None or page is not None:
        raise click.BadParameter(
            "this option requires --story", param_hint="--engine" if engine else "--report"
        )

    met = show_demo(quick=quick, up_to=up_to, goodput=goodput, as_json=as_json)
    if strict and not met:
        click.get_current_context().exit(1)
