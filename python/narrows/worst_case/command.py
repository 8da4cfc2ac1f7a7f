"""The command `narrows worst-case`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import click

from narrows.cli.command import argument, command, option
from narrows.cli.options import (
    engine_option,
    file_option,
    files_option,
    into_option,
    jobs_option,
    json_option,
    need_linux,
    plugin_option,
    quiet_option,
    seed_option,
    seeds_option,
)
from narrows.cli.outputs import every
from narrows.errors import NarrowsError
from narrows.render.progress import ProgressBar
from narrows.render.styled import table
from narrows.render.terminal import console, echo
from narrows.storage import output

if TYPE_CHECKING:
    from narrows.runs.run import Engine


class _Percent(click.ParamType):  # type: ignore[type-arg] # generic from click 8.2 on
    """The type of `--limit`: a percentage."""

    name = "percent"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - Click defines the signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """The number of a percentage."""
        try:
            number = float(str(value).removesuffix("%"))
        except ValueError:
            number = -1.0
        if not 0 <= number < float("inf"):
            raise click.BadParameter(f"{value}: is not a percentage; write --limit 20%", ctx, param)
        return number


@command(
    "narrows worst-case scenario.toml --over path.rtt=5ms:200ms --over path.buffer=0.1bdp:8bdp "
    "--for share",
    "narrows worst-case scenario.toml --over path.jitter=0ms:20ms --for starvation --out w.toml",
    "narrows worst-case scenario.toml --over path.queue=fifo,codel,pie --for queue --on ray",
)
@argument("file", metavar="FILE", type=click.Path(dir_okay=False), help="Scenario (TOML)")
@option(
    "--over",
    group="Search",
    metavar="KEY=VALUES",
    multiple=True,
    required=True,
    help="Key that varies, with a range LOW:HIGH or a list A,B,C; may be repeated. A range whose "
    "ends have the ratio 10 or more is searched on a logarithmic scale",
)
@option(
    "--for",
    "objective",
    group="Search",
    type=click.Choice(("share", "starvation", "queue", "collapse")),
    required=True,
    help="Problem to search for: a flow with little goodput (share), unequal goodputs "
    "(starvation), a standing queue (queue), or an idle bottleneck (collapse)",
)
@option(
    "--flow",
    group="Search",
    metavar="ID",
    show_default="the flow with the smallest goodput",
    help="Flow of --for share",
)
@option(
    "--limit",
    group="Search",
    metavar="PERCENT",
    type=_Percent(),
    show_default="share 20%, starvation 10%, queue 100%, collapse 50%",
    help="Value beyond which a scenario has the problem",
)
@option(
    "--budget",
    group="Search",
    metavar="N",
    type=click.IntRange(2, 1_000_000),
    default=400,
    help="Number of scenarios after which the search ends; a generation is finished",
)
@option(
    "--population",
    group="Search",
    metavar="N",
    type=click.IntRange(4, 10_000),
    default=16,
    help="Number of scenarios in a generation, which run simultaneously",
)
@seed_option("Seed of the search, and first seed of the runs", default=1,
    type=click.IntRange(0, 2**62))  # fmt: skip
@seeds_option("Number of seeds of each scenario of the search", default=3)
@option(
    "--checks",
    group="Simulation",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=5,
    help="Number of further seeds of the check and the reduction, and of the final measurement",
)
@files_option
@plugin_option
@engine_option()
@option(
    "--on",
    group="Execution",
    metavar="EXECUTOR",
    default="local",
    help="Where the runs are executed: local (this host), ray (a Ray cluster, https://ray.io) or "
    "ray://HOST:PORT",
)
@jobs_option("Maximum number of simultaneous runs on this host")
@into_option("Directory of the results; sweeps and other searches may share it")
@file_option("--out", "-o", "out_file", what="Write the smallest scenario to FILE (TOML)")
@json_option("Print one JSON object instead of text")
@quiet_option()
def worst_case(  # noqa: PLR0917 - Click calls it by keyword
    file: str,
    over: tuple[str, ...],
    objective: str,
    flow: str | None,
    limit: float | None,
    budget: int,
    population: int,
    seed: int,
    seeds: int,
    checks: int,
    engine: str,
    kernel: str | None,
    on: str,
    jobs: int | None,
    into: str,
    out_file: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Search for the scenario values that cause the largest problem.

    The search evaluates scenarios with other values of these keys, and adapts the values to the
    results (CMA-ES). The worst scenario is checked with further seeds. If it is beyond the limit
    with each of them, the command reduces it: it removes keys and flows, and rounds the values, as
    long as the problem remains. It prints the smallest scenario with its values for seeds that no
    earlier step used. The exit code is 1 if a run failed.

    Results are stored while the search runs. After an interruption, the same command continues.
    The result depends on the seed and not on the number of processes.
    """
    from narrows.worst_case import render, running  # noqa: PLC0415 - the help needs no Arrow
    from narrows.worst_case.objectives import OBJECTIVES  # noqa: PLC0415
    from narrows.worst_case.space import axis  # noqa: PLC0415

    need_linux(engine, kernel=kernel)
    if flow is not None and not OBJECTIVES[objective].one_flow:
        raise NarrowsError(
            f"--flow {flow}: applies only to --for share; omit it, or write --for share"
        )
    wrong, axes = [], []
    for text in over:
        try:
            axes.append(axis(text))
        except NarrowsError as error:
            wrong.append(str(error))
    if wrong:
        raise NarrowsError("\n".join(wrong))
    output.check_folder(into, "--into")
    with ProgressBar(quiet=quiet or as_json, of="search") as bar:
        found = running.worst_case(
            file,
            axes,
            objective,
            flow=flow,
            limit=limit,
            budget=budget,
            population=population,
            seed=seed,
            seeds=seeds,
            checks=checks,
            on=on,
            jobs=jobs,
            engine=cast("Engine", engine),
            kernel=kernel,
            into=into,
            progress=lambda work, done, planned: bar(
                done, planned, f"{work}, {done} of {planned} runs"
            ),
        )
    with every() as attempt:
        if out_file is not None:
            with attempt():
                output.write(out_file, render.toml(found))
        if as_json:
            echo(json.dumps(found.json()))
        elif not quiet:
            out = console()
            for line in render.sentences(found):
                echo(line)
            echo("")
            table(out, render.runs(found))
            if out_file is None:
                echo("")
                echo(render.toml(found).rstrip("\n"))
    if found.failed:
        if not as_json:
            echo(render.failures(found), err=True)
        click.get_current_context().exit(1)
