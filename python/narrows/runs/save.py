"""Writes a run into a directory: its figures, its scenario and its tables."""

from __future__ import annotations

import json
import shutil
import tempfile
from os import PathLike
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from narrows.errors import OutputError, reason
from narrows.runs.run import TABLES
from narrows.storage.text import name_of

if TYPE_CHECKING:
    from narrows.runs.replications import Replications
    from narrows.runs.run import Run


def save(run: Run, directory: str | PathLike[str]) -> None:
    """See `Run.save`."""
    target = FilePath(directory)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = FilePath(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
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
            for name in TABLES:
                # A file and not its name: Arrow takes no name that is not UTF-8.
                with (part / f"{name}.parquet").open("wb") as sink:
                    table = getattr(run, name).replace_schema_metadata(about)
                    pq.write_table(table, sink)
            target.mkdir(exist_ok=True)
            for file in sorted(part.iterdir()):
                file.replace(target / file.name)
        finally:
            shutil.rmtree(part)
    except OSError as error:
        raise OutputError(f"{name_of(directory)}: {reason(error)}") from error


def _copy_of(name: str, taken: set[str]) -> str:
    """The name of a copy of this file beside the results."""
    base = FilePath(name).name
    taken |= {"scenario.toml", *(f"{table}.parquet" for table in TABLES)}
    return next(
        copy for n in range(len(taken) + 1) if (copy := f"{n}-{base}" if n else base) not in taken
    )


def save_replications(found: Replications, directory: str | PathLike[str]) -> None:
    """See `Replications.save`."""
    target = FilePath(directory)
    for seed, run in zip(found.seeds, found.runs, strict=True):
        save(run, target / f"seed-{seed}")
    try:
        text = json.dumps(found.json(), indent=1) + "\n"
        (target / "replications.json").write_text(text, encoding="utf-8")
        for name, table in (("metrics", found.table()), ("intervals", found.intervals())):
            with (target / f"{name}.parquet").open("wb") as sink:
                pq.write_table(table, sink)
    except OSError as error:
        raise OutputError(f"{name_of(directory)}: {reason(error)}") from error
