"""Writes a run into a directory: its metrics, its scenario and its tables."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from narrows import extras
from narrows.errors import OutputError, reason
from narrows.runs.run import TABLES
from narrows.storage.durable import replacing_all
from narrows.storage.text import name_of

if TYPE_CHECKING:
    import pyarrow as pa

    from narrows.runs.replications import Replications
    from narrows.runs.run import Run


def save(run: Run, directory: str | PathLike[str]) -> None:
    """See `Run.save`."""
    extras.require_pyarrow()
    try:
        with replacing_all(FilePath(directory)) as part:
            (part / "run.json").write_text(json.dumps(run.json, indent=1) + "\n", encoding="utf-8")
            toml = run.toml
            for name, text in run.files.items():
                copy = _copy_of(name, {file.name for file in part.iterdir()})
                (part / copy).write_text(text, encoding="utf-8", newline="")
                toml = toml.replace(
                    json.dumps(name, ensure_ascii=False), json.dumps(copy, ensure_ascii=False)
                )
            (part / "scenario.toml").write_text(toml, encoding="utf-8")
            like = run.json["scenario"]["host"]["like"]
            about = {"narrows.version": run.json["narrows"], "narrows.like": like}
            # Few scenarios have links, so a table of them is written only if it has rows.
            for name in (*TABLES, *(["links"] if run.links.num_rows else [])):
                _write(getattr(run, name).replace_schema_metadata(about), part, name)
    except OSError as error:
        raise OutputError(f"{name_of(directory)}: {reason(error)}") from error


def _write(table: pa.Table, part: FilePath, name: str) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415

    # Arrow accepts no file name that is not UTF-8, and therefore gets an open file.
    with (part / f"{name}.parquet").open("wb") as sink:
        pq.write_table(table, sink, write_page_checksum=True)


def _copy_of(name: str, taken: set[str]) -> str:
    """The name of the copy of this file in the directory of the results; it differs from the names
    in `taken`.
    """
    base = FilePath(name).name
    taken |= {"scenario.toml", *(f"{table}.parquet" for table in (*TABLES, "links"))}
    return next(
        copy for n in range(len(taken) + 1) if (copy := f"{n}-{base}" if n else base) not in taken
    )


def save_replications(found: Replications, directory: str | PathLike[str]) -> None:
    """See `Replications.save`."""
    extras.require_pyarrow()
    target = FilePath(directory)
    for seed, run in zip(found.seeds, found.runs, strict=True):
        save(run, target / f"seed-{seed}")
    try:
        with replacing_all(target) as part:
            text = json.dumps(found.json(), indent=1) + "\n"
            (part / "replications.json").write_text(text, encoding="utf-8")
            _write(found.table(), part, "metrics")
            _write(found.intervals(), part, "intervals")
    except OSError as error:
        raise OutputError(f"{name_of(directory)}: {reason(error)}") from error
