"""The command `narrows sweep`."""

from __future__ import annotations

import json
import time
from pathlib import Path
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
)
from narrows.cli.outputs import every
from narrows.errors import OutputError, reason
from narrows.render.terminal import echo
from narrows.storage import output
from narrows.storage.durable import replacing
from narrows.sweeps.file import load
from narrows.sweeps.model import FailureJson, SweepJson
from narrows.sweeps.render import SHOWN, Count, show

if TYPE_CHECKING:
    import pyarrow as pa

    from narrows.runs.run import Engine
    from narrows.sweeps.store import Medians
    from narrows.sweeps.sweeping import Sweep


def _table_format(file: str) -> None:
    if not file.endswith((".parquet", ".csv")) and not output.is_stream(file):
        raise click.BadParameter(
            f"{file} has no suffix .parquet or .csv; write --table rows.csv", param_hint="--table"
        )


@command(
    "narrows sweep sweeps/who-wins.toml --into results",
    "narrows sweep sweeps/who-wins.toml --jobs 2 --table rows.csv",
    "narrows sweep sweeps/who-wins.toml --on ray",
    "narrows sweep sweeps/who-wins.toml --engine linux --kernel 6.12",
)
@argument(
    "file",
    type=click.Path(dir_okay=False),
    help="Sweep (TOML); docs/how-to/sweep.md describes the format",
)
@files_option
@plugin_option
@engine_option("Engine of all runs; results of different engines are stored separately")
@option(
    "--on",
    group="Execution",
    metavar="EXECUTOR",
    default="local",
    help="Where the runs are executed: local (this host), ray (a Ray cluster, https://ray.io) or "
    "ray://HOST:PORT",
)
@jobs_option(
    "Maximum number of simultaneous runs on this host; runs of --engine live are sequential"
)
@into_option("Directory of the results; several sweeps may share it")
@file_option(
    "--table",
    "table_file",
    suffix=_table_format,
    what="Write one row per flow of each run, as Parquet or CSV, selected by the suffix; CSV if "
    "FILE is a pipe",
)
@json_option("Print one JSON object instead of a table")
@quiet_option()
def sweep(  # noqa: PLR0917 - Click calls it by keyword
    file: str,
    engine: str,
    kernel: str | None,
    on: str,
    jobs: int | None,
    into: str,
    table_file: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run the cases of a sweep file.

    A sweep file names a scenario, the values of its keys that vary, and the seeds. The cases are
    all combinations of these values, random combinations, or combinations that the file lists. The
    command runs each case with each seed.

    Results are stored while the sweep runs. After an interruption, the same command continues with
    the runs that have no result. The exit code is 1 if a run failed.
    """
    need_linux(engine, kernel=kernel)
    output.check_folder(into, "--into")
    asked = load(file, into, engine=cast("Engine", engine), kernel=kernel)
    count = Count(quiet=quiet or as_json)
    begin = time.monotonic()
    try:
        asked.finish(on=on, jobs=jobs, progress=count)
    finally:
        count.stop()
    with every() as attempt:
        if table_file is not None:
            with attempt():
                _write(asked.frame(), table_file)
        if as_json:
            echo(json.dumps(_json(asked, *asked.medians(SHOWN), time.monotonic() - begin)))
        elif not quiet:
            show(asked, *asked.medians(SHOWN))
    if asked.failures:
        click.get_current_context().exit(1)


def _write(rows: pa.Table, file: str) -> None:
    def put(into: Any) -> None:  # noqa: ANN401 - a name or an open file
        import pyarrow.csv as pc  # noqa: PLC0415 - the help needs no Arrow
        import pyarrow.parquet as pq  # noqa: PLC0415

        (pq.write_table if file.endswith(".parquet") else pc.write_csv)(rows, into)

    target = Path(file).resolve()
    try:
        if output.is_stream(file):
            with output.streaming(file) as opened:
                put(opened)
            return
        with replacing(target.parent, target.name) as part:
            put(str(part))
    except OSError as error:
        raise OutputError(f"{file}: {reason(error)}") from error


def _json(asked: Sweep, rows: int, medians: Medians, took_s: float) -> SweepJson:
    failed: list[FailureJson] = [
        {"case": f.case, "seed": f.seed, "reason": f.reason, "file": str(f.file)}
        for f in asked.failures
    ]
    return {
        "title": asked.title,
        **asked.engine.json(),
        "cases": len(asked.design),
        "runs": len(asked),
        "rows": rows,
        "into": str(asked.into),
        "took_s": round(took_s, 3),
        "failed": failed,
        "by_cc": [{"cc": cc, **of} for cc, of in medians.items()],
    }
