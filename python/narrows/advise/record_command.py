"""The command `narrows record`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from narrows import files, forecasts
from narrows.cli.command import command, option
from narrows.cli.options import json_option
from narrows.errors import NarrowsError
from narrows.render.styled import table
from narrows.render.tables import Cell, Table, significant
from narrows.render.terminal import console, echo
from narrows.storage.durable import LEAST_HEAD, is_hash

if TYPE_CHECKING:
    from narrows.storage.durable import Chain


@command(
    "narrows record",
    "narrows record --score after.json",
    "narrows record --verify 3f2a91bc04d5",
)
@option(
    "--score",
    group="Forecasts",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Compare a forecast with this measurement",
)
@option(
    "--forecast",
    group="Forecasts",
    metavar="ID",
    show_default="the last one that has not been compared",
    help="Forecast to compare with --score",
)
@option(
    "--verify",
    group="Forecasts",
    metavar="HASH",
    help="Check that the record still contains the line with this hash; exit with code 1 if not",
)
@json_option("Print one JSON object instead of a table")
def record(as_json: bool, score: str | None, forecast: str | None, verify: str | None) -> None:
    """Check predictions of `narrows advise` against later measurements.

    With each recommendation for a measured path, `narrows advise` stores a sealed forecast: a
    prediction of the same measurement after the change. `narrows measure` and `narrows tune prove`
    compare each later measurement to the same host with these forecasts. The measurement must have
    the direction, the number of flows and the congestion control of the forecast.
    """
    if verify is not None:
        _verify(forecasts.chain(), verify, as_json=as_json)
        return

    if forecast is not None and score is None:
        raise click.BadParameter("needs --score FILE", param_hint="--forecast")
    if score is not None:
        forecasts.score(files.read(score), forecast=forecast)

    lines = forecasts.read()
    hits, of = forecasts.rate(lines)
    if as_json:
        echo(
            json.dumps(
                {
                    "hits": hits,
                    "of": of,
                    "lines": lines,
                    "head": lines[-1]["hash"] if lines else None,
                }
            )
        )
        return
    out = console()
    stored = {line["hash"]: line for line in lines if line["kind"] == "forecast"}
    scores = {line["forecast"]: line for line in lines if line["kind"] == "score"}
    if not stored:
        out.print("There are no forecasts yet. narrows advise MEASUREMENT.json seals one.")
        return
    said = (
        f"{len(scores)} tested: {hits} of {of} metrics were within their 90 % intervals"
        if of
        else "none tested yet"
    )
    s = "" if len(stored) == 1 else "s"
    out.print(
        f"{len(stored)} forecast{s}, {said}.",
        style="bold",
        markup=False,
    )
    rows = [
        [
            Cell(hash_[:12]),
            Cell(line["at"]),
            Cell(line["host"]),
            Cell("no change" if line["leave"] else line["choice"]["key"]),
            Cell(forecasts.LABELS.get(figure["name"], figure["name"])),
            Cell(f"{significant(figure['low'])} … {significant(figure['high'])}"),
            Cell(_became(scores.get(hash_), figure["name"])),
        ]
        for hash_, line in stored.items()
        for figure in line["figures"]
    ]
    out.print()
    table(
        out,
        Table(
            "Forecasts",
            ("forecast", "time", "host", "change", "metric"),
            ("forecast", "measured"),
            rows,
        ),
    )
    out.print(f"\nThe last line has the hash {lines[-1]['hash']}.")
    out.print(
        "Keep the hash elsewhere: `narrows record --verify HASH` reports whether the record was "
        "rewritten since."
    )


def _verify(chain: Chain, head: str, *, as_json: bool) -> None:
    if not is_hash(head):
        raise NarrowsError(
            f"--verify {head}: not a hash; write at least {LEAST_HEAD} hexadecimal digits of it"
        )
    try:
        number, of = chain.find(head), len(chain.lines())
    except NarrowsError as error:
        if as_json:
            echo(json.dumps({"holds": False, "why": str(error)}))
        else:
            echo(str(error), err=True)
        click.get_current_context().exit(1)
    if as_json:
        echo(json.dumps({"holds": True, "line": number, "of": of}))
        return
    since = f"{of - number} lines were added since" if number < of else "no line was added since"
    echo(
        f"{chain.file}: line {number} of {of} has this hash, and every line fits the one before "
        f"it; {since}."
    )


def _became(score: Mapping[str, Any] | None, name: str) -> str:
    if score is None:
        return "not tested yet"
    judged = next((figure for figure in score["figures"] if figure["name"] == name), None)
    if judged is None:
        return "not measured"
    return f"{judged['measured']:.4g} {'hit' if judged['hit'] else 'MISSED'}"
