"""`narrows study`: the command."""

from __future__ import annotations

import json

import click

from narrows.errors import NarrowsError
from narrows.render.terminal import echo
from narrows.storage import output
from narrows.study import paths, queues, render, tools, tree
from narrows.study.study import Study, run
from narrows.sweeps.command import Count


def _studies() -> dict[str, Study]:
    found = [
        value
        for module in (paths, queues, tools, tree)
        for value in vars(module).values()
        if isinstance(value, Study)
    ]
    return {study.name: study for study in found}


@click.command()
@click.argument("name", required=False)
@click.option("--quick", is_flag=True, help="Run fewer and shorter cases. Example: --quick")
@click.option(
    "--on",
    default="local",
    show_default=True,
    help="Executor, as in `narrows sweep`. Example: --on ray",
)
@click.option(
    "--into",
    default="sweep-results",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Directory of the results; stored runs are reused. Example: --into results",
)
@click.option(
    "--plot",
    type=output.Picture(),
    help="Write a figure as PNG, SVG or PDF. Example: --plot map.png",
)
@click.option(
    "--rules",
    "rules_file",
    type=output.File(),
    help="Write the rules of the study as JSON. Example: --rules tree.json",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object. Example: --json | jq .verdict"
)
def study(  # noqa: PLR0917
    name: str | None,
    quick: bool,
    on: str,
    into: str,
    plot: str | None,
    rules_file: str | None,
    as_json: bool,
) -> None:
    """Answer a question with a sweep: a verdict, tables and a figure. Without NAME, list the
    studies.

    Example: narrows study fairness --quick --plot fairness.png
    """
    known = _studies()
    if name is None:
        for each in known.values():
            echo(f"{each.name:16} {each.question}")
        return
    if name not in known:
        raise NarrowsError(f"there is no study `{name}`; there are {', '.join(known)}")

    asked = known[name]
    if rules_file is not None and not asked.rules:
        ones = ", ".join(f"narrows study {each.name}" for each in known.values() if each.rules)
        raise NarrowsError(f"the study {name} finds no rules; omit --rules, or run {ones}")
    count = Count(quiet=as_json)
    try:
        found = run(asked, quick=quick, on=on, into=into, progress=count)
    finally:
        count.stop()
    with output.every() as attempt:
        if plot is not None:
            with attempt():
                render.draw(found, plot)
        if rules_file is not None:
            with attempt():
                _write_rules(found.answer.rules, rules_file)
        if as_json:
            echo(json.dumps(found.json()))
        else:
            render.tell(found)
    if found.failures:
        click.get_current_context().exit(1)


def _write_rules(rules: dict[str, object] | None, file: str) -> None:
    output.write(file, json.dumps(rules, indent=1, ensure_ascii=False) + "\n")
