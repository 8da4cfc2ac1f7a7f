"""The command `narrows history`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from narrows import files
from narrows.cli.command import argument, command, option
from narrows.cli.options import anonymize_option, file_option, json_option
from narrows.files import writer_of
from narrows.measure import history as stored
from narrows.render.styled import table
from narrows.render.tables import Cell, Table
from narrows.render.terminal import console, echo
from narrows.render.words import fine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from narrows.json_object import JsonObject


@command(
    "narrows history",
    "narrows history --host server.example --last 5",
    "narrows history --get 3f2a --out a.json",
    "narrows history forget --older-than 90",
)
@argument(
    "action",
    metavar="[forget]",
    required=False,
    type=click.Choice(["forget"]),
    help="Delete the selected measurements",
)
@option("--host", group="Selection", metavar="HOST", help="Only measurements to this host")
@option(
    "--older-than",
    group="Selection",
    metavar="DAYS",
    type=click.IntRange(0, stored.MOST_DAYS),
    help="Delete only measurements that are older than this",
)
@option("--id", "name", group="Selection", metavar="ID", help="Delete only this measurement")
@option("--all", "everything", group="Selection", is_flag=True, help="Delete all measurements")
@option(
    "--last",
    group="Selection",
    metavar="N",
    type=click.IntRange(1, 100_000),
    default=20,
    help="Number of measurements, newest first",
)
@json_option("Print one JSON object for each measurement")
@option(
    "--get",
    group="Files",
    metavar="ID",
    help="Export the measurement with this ID to the file given with --out",
)
@file_option(
    "--out",
    suffix=writer_of,
    group="Files",
    what="File to write; the suffix selects the format as in `narrows convert`",
)
@option(
    "--add",
    group="Files",
    metavar="FILE",
    multiple=True,
    type=click.Path(dir_okay=False),
    help="Add the measurement file FILE to the history; may be repeated",
)
@anonymize_option
def history(  # noqa: PLR0917 - Click calls it by keyword
    action: str | None,
    host: str | None,
    older_than: int | None,
    name: str | None,
    everything: bool,
    last: int,
    as_json: bool,
    add: tuple[str, ...],
    get: str | None,
    out: str | None,
    anonymize: bool,
) -> None:
    """List stored measurements.

    The measurements are in a DuckDB file: $NARROWS_HISTORY, or narrows/history.duckdb under
    $XDG_DATA_HOME (~/.local/share if it is not set). `narrows history forget` deletes them. If
    $NARROWS_HISTORY_DAYS is set, `narrows measure` and --add delete measurements that are older
    than this number of days. The command needs DuckDB: `pip install 'narrows[history]'`.
    """
    selected = (host, older_than, name)
    if action is not None:
        if everything == any(value is not None for value in selected):
            raise click.UsageError(
                "forget: write --host, --older-than or --id to select measurements, or --all"
            )
        _refuse_with_forget(
            {"--get": get, "--out": out, "--add": add, "--json": as_json, "--anonymize": anonymize}
        )
        gone = stored.forget(host=host, older_than_days=older_than, name=name)
        echo(f"{gone} measurement{'' if gone == 1 else 's'} deleted from {stored.file()}")
        return
    if add and get is not None:
        raise click.UsageError("--add and --get: write two commands")
    if everything or older_than is not None or name is not None:
        raise click.UsageError("--all, --older-than and --id: write narrows history forget")
    if (get is None) != (out is None):
        raise click.UsageError("--get and --out: one needs the other; write --get ID --out FILE")
    if get is not None and out is not None:
        found = stored.get(get)
        files.write(found.anonymous() if anonymize else found, out)
        return
    for file in add:
        read = files.read(file)
        stored.keep(read.anonymous() if anonymize else read)
    if add:
        return
    rows = stored.rows(host=host, last=last)
    if anonymize:
        rows = [_anonymous(row) for row in rows]
    if as_json:
        for row in rows:
            echo(json.dumps(row))
        return

    cells = [
        [
            *(Cell(str(row[name] or "")) for name in ("id", "started", "host", "test", "grade")),
            *(Cell(fine(row[name], 1)) for name in _NUMBERS),
        ]
        for row in rows
    ]
    words = ("id", "started", "host", "test", "grade")
    table(
        console(),
        Table("History", words, _HEADERS, cells),
    )


def _anonymous(row: JsonObject) -> JsonObject:
    """A row of the history with the pseudonyms of its measurement."""
    found = stored.get(row["id"]).anonymous()
    return row | {"id": found.id or row["id"], "host": found.host, "test": found.test}


def _refuse_with_forget(others: Mapping[str, object]) -> None:
    """Refuses options that have no effect on a deletion.

    Raises:
        click.UsageError: If an option is given.
    """
    given = [name for name, value in others.items() if value]
    last = click.get_current_context().get_parameter_source("last")
    if last is click.core.ParameterSource.COMMANDLINE:
        given.append("--last")
    if given:
        raise click.UsageError(
            f"{given[0]}: does not apply to forget; write --host, --older-than or --id to select "
            "measurements"
        )


_NUMBERS = ("down_mbit", "up_mbit", "idle_p50_ms", "loaded_p50_ms", "loaded_p95_ms")
_HEADERS = (
    "download Mbit/s",
    "upload Mbit/s",
    "idle RTT p50 ms",
    "loaded RTT p50 ms",
    "loaded RTT p95 ms",
)
