"""`narrows study`: the command."""

from __future__ import annotations

import json

import click

from narrows.errors import NarrowsError
from narrows.sweeps.command import Count


def _studies() -> dict[str, object]:
    from narrows.study import paths, queues  # noqa: PLC0415 - only this command needs them
    from narrows.study.study import Study  # noqa: PLC0415

    found = [value for module in (paths, queues) for value in vars(module).values() if isinstance(value, Study)]
    return {study.name: study for study in found}


@click.command()
@click.argument("name", required=False)
@click.option("--quick", is_flag=True, help="Fewer cases and shorter runs. Example: --quick")
@click.option("--on", default="local", show_default=True, help="Who runs it, as of `narrows sweep`. Example: --on ray")
@click.option(
    "--into",
    default="sweep-results",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Directory of the results; what is there is not run again. Example: --into results",
)
@click.option("--plot", type=click.Path(dir_okay=False), help="Draw it into a PNG, SVG or PDF. Example: --plot map.png")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object instead of tables. Example: --json | jq .verdict"
)
def study(name: str | None, quick: bool, on: str, into: str, plot: str | None, as_json: bool) -> None:  # noqa: PLR0917
    """Answer a question by a sweep: a verdict, tables, a picture. Without NAME: which questions there are.

    Example: narrows study fairness --quick --plot fairness.png
    """
    known = _studies()
    if name is None:
        for each in known.values():
            click.echo(f"{each.name:16} {each.question}")  # type: ignore[attr-defined]
        return
    if name not in known:
        raise NarrowsError(f"there is no study `{name}`; there are {', '.join(known)}")
    from narrows.study import show  # noqa: PLC0415
    from narrows.study.study import Study, run  # noqa: PLC0415

    asked = known[name]
    assert isinstance(asked, Study)
    if plot is not None:
        show.check(plot)
    count = Count(quiet=as_json)
    try:
        found = run(asked, quick=quick, on=on, into=into, progress=count)
    finally:
        count.stop()
    if plot is not None:
        show.draw(found, plot)
    if as_json:
        click.echo(json.dumps(found.json()))
    else:
        show.tell(found)
    if found.failures:
        click.get_current_context().exit(1)
