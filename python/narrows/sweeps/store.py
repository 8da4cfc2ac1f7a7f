"""Where results stay: a directory of Parquet files that DuckDB, Polars and pandas read as they are.

    runs/part-*.parquet    a row per flow of each finished run, by the run's key
    cases/NAME.parquet     a sweep's cases: number, seed, key, and what was varied
    failures/KEY.toml      a scenario that could not be run, with the reason

A run's key is the hash of the scenario, the files it names, its seed, and the version and build of narrows: a sweep
runs what it does not find here, whoever put the rest there. A part appears whole, by renaming, or not at all; so
whatever ends a sweep, all that had landed stays right. Parts are merged when there are many, under a lock; should that
be cut short, some rows are there twice, and readers take the first.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from narrows.errors import OutputError
from narrows.sweeps.rows import DATAGRAMS, SPREADS, WAITS, Row

SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("flow_number", pa.int32()),
        ("flow", pa.string()),
        ("cc", pa.string()),
        ("rate_mbit", pa.float64()),
        ("rtt_ms", pa.float64()),
        ("buffer_bdp", pa.float64()),
        ("goodput_mbit", pa.float64()),
        ("retransmits", pa.int64()),
        ("retransmit_rate", pa.float64()),
        *((name.format(which), pa.float64()) for _, name, of in SPREADS for which in of),
        ("fct_s", pa.float64()),
        *((f"queue_delay_{which}_ms", pa.float64()) for which in WAITS),
        ("queue_drops", pa.int64()),
        ("queue_marks", pa.int64()),
        ("backlog_mean_packets", pa.float64()),
        *((f"ping_{which}_ms", pa.float64()) for which in WAITS),
        ("jain", pa.float64()),
        *((name, pa.float64()) for name in DATAGRAMS),
        ("version", pa.string()),
    ]
)
"""The columns of `runs`: figures of a flow, then of its whole run (`queue_…`: the bottleneck; `ping_…`: a probe)."""

_MANY = 64
_SMALL_BYTES = 4 << 20


class Store:
    """One directory of results."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """The store in this directory, which is made with the first thing that is put there."""
        self.directory = Path(directory)
        self._runs = self.directory / "runs"

    def keys(self) -> pa.Array:
        """Every run that is here, some perhaps twice."""
        parts = [pq.read_table(part, columns=["key"])["key"].unique() for part in self._parts()]
        return pa.concat_arrays(parts) if parts else pa.array([], pa.string())

    def add(self, new: Sequence[Row]) -> None:
        """Puts rows in; they are there when this returns.

        Raises:
            OutputError: If they cannot be written.
        """
        if new:
            with _told(self.directory):
                self._write(pa.Table.from_pylist(list(new), schema=SCHEMA))
                parts = self._parts()
                if len(parts) > _MANY:
                    self._merge()

    def runs(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows, each run once; of all columns, or of `key` and these."""
        names = SCHEMA.names if columns is None else list(dict.fromkeys(["key", *columns]))
        schema = pa.schema([SCHEMA.field(name) for name in names])
        return pa.concat_tables([schema.empty_table(), *_each_once(self._parts(), names)])

    @contextmanager
    def writing_cases(self, name: str, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
        """The table of a sweep's cases, to be written in pieces; it appears when it is whole.

        Raises:
            OutputError: If it cannot be written.
        """
        file = self.directory / "cases" / f"{name}.parquet"
        with _told(self.directory), _whole(file) as part, pq.ParquetWriter(part, schema) as writer:
            yield writer

    def cases(self, name: str) -> pq.ParquetFile:
        """The cases of a sweep."""
        return pq.ParquetFile(self.directory / "cases" / f"{name}.parquet")

    def failed(self, key: str, scenario: str, reason: str) -> Path:
        """Keeps what could not be run; the file that has it.

        Raises:
            OutputError: If it cannot be written.
        """
        file = self.directory / "failures" / f"{key}.toml"
        comment = "".join(f"# {line}\n" for line in reason.splitlines())
        with _told(self.directory), _whole(file) as part:
            part.write_text(comment + scenario, encoding="utf-8")
        return file

    def forgive(self, keys: Iterable[str]) -> None:
        """Forgets that these failed: they are to be tried again."""
        for key in keys:
            (self.directory / "failures" / f"{key}.toml").unlink(missing_ok=True)

    def _parts(self) -> list[Path]:
        return sorted(self._runs.glob("part-*.parquet"))

    def _write(self, table: pa.Table) -> None:
        with _whole(self._runs / f"part-{uuid.uuid4().hex}.parquet") as part:
            pq.write_table(table, part)

    def _merge(self) -> None:
        """Many small parts become one."""
        with (self.directory / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return  # Another does it.
            small = [part for part in self._parts() if part.stat().st_size < _SMALL_BYTES]
            self._write(pa.concat_tables(_each_once(small, SCHEMA.names)))
            for part in small:
                part.unlink()


def _each_once(parts: Iterable[Path], columns: list[str]) -> list[pa.Table]:
    """The rows of these parts, without those of runs that an earlier part had."""
    seen, tables = pa.array([], pa.string()), []
    for part in parts:
        table = _read(part, columns)
        table = table.filter(pc.invert(pc.is_in(table["key"], value_set=seen)))
        seen = pa.concat_arrays([seen, table["key"].unique()])
        tables.append(table)
    return tables


def _read(part: Path, columns: list[str]) -> pa.Table:
    """These columns of a part, with nulls where an earlier version did not know one."""
    there = set(pq.read_schema(part).names)
    table = pq.read_table(part, columns=[name for name in columns if name in there])
    for name in columns:
        if name not in there:
            field = SCHEMA.field(name)
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(columns)


@contextmanager
def _whole(file: Path) -> Iterator[Path]:
    """A name to write under; it gets its own when all is written, and a write that is cut short leaves no such file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    try:
        yield part
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _told(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"{directory}: {(error.strerror or str(error)).lower()}") from error
