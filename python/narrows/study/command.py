"""The command `narrows study`."""

from __future__ import annotations

import json
from typing import cast

import click

from narrows.cli.command import argument, command, option
from narrows.cli.options import (
    engine_option,
    figure_options,
    file_option,
    into_option,
    json_option,
    latex_option,
    need_linux,
    picture_option,
    plugin_option,
    seeds_option,
)
from narrows.cli.outputs import every
from narrows.errors import NarrowsError
from narrows.render.style import Style
from narrows.render.terminal import echo
from narrows.runs.run import Engine
from narrows.storage import output
from narrows.study import paths, queues, render, tools, tree
from narrows.study.model import RulesJson
from narrows.study.study import Study, run
from narrows.sweeps.render import Count


def _studies() -> dict[str, Study]:
    found = [
        value
        for module in (paths, queues, tools, tree)
        for value in vars(module).values()
        if isinstance(value, Study)
    ]
    return {study.name: study for study in found}


@command(
    "narrows study",
    "narrows study fairness --quick --plot fairness.png",
    "narrows study fairness --quick --seeds 5 --latex fairness.tex",
    "narrows study fairness --quick --json | jq .verdict",
)
@argument("name", metavar="[NAME]", required=False, help="Study; without NAME, list the studies")
@plugin_option
@option("--quick", group="Execution", is_flag=True, help="Run fewer and shorter cases")
@seeds_option(
    "Run each case with N seeds and print 95 % confidence intervals",
    show_default="the seeds of the study; prints medians without intervals",
)
@engine_option("Engine of all runs; results of different engines are stored separately")
@option(
    "--on",
    group="Execution",
    metavar="EXECUTOR",
    default="local",
    help="Executor, as in `narrows sweep`",
)
@into_option("Directory of the results; stored runs are reused")
@picture_option
@latex_option
@figure_options(log=False)
@file_option(
    "--rules",
    "rules_file",
    what="Write the decision rules that the study derived from its results to FILE as JSON",
)
@json_option("Print one JSON object instead of text")
def study(  # noqa: PLR0917
    name: str | None,
    quick: bool,
    seeds: int | None,
    engine: str,
    kernel: str | None,
    on: str,
    into: str,
    plot: str | None,
    latex: str | None,
    style: Style | None,
    rules_file: str | None,
    as_json: bool,
) -> None:
    """Run a predefined study: a sweep that answers one question.

    The result of a study is a verdict and tables, and with --plot a figure. Without a name, the
    command lists the studies and their questions.
    """
    need_linux(engine, kernel=kernel)
    known = _studies()
    if name is None:
        for each in known.values():
            echo(f"{each.name:16} {each.question}")
        return
    if name not in known:
        raise NarrowsError(f"{name}: no such study; write one of {', '.join(known)}")

    asked = known[name]
    if rules_file is not None and not asked.rules:
        ones = ", ".join(f"narrows study {each.name}" for each in known.values() if each.rules)
        raise NarrowsError(f"--rules: the study {name} has no rules; omit --rules, or run {ones}")
    output.check_folder(into, "--into")
    count = Count(quiet=as_json)
    try:
        found = run(
            asked,
            quick=quick,
            on=on,
            into=into,
            seeds=seeds,
            engine=cast("Engine", engine),
            kernel=kernel,
            progress=count,
        )
    finally:
        count.stop()
    with every() as attempt:
        if plot is not None:
            with attempt():
                render.draw(found, plot, style=style)
        if latex is not None:
            with attempt():
                output.write(latex, render.latex(found))
        if rules_file is not None:
            with attempt():
                _write_rules(found.answer.rules, rules_file)
        if as_json:
            echo(json.dumps(found.json()))
        else:
            render.tell(found)
    if found.failures:
        click.get_current_context().exit(1)


def _write_rules(rules: RulesJson | None, file: str) -> None:
    output.write(file, json.dumps(rules, indent=1, ensure_ascii=False) + "\n")
