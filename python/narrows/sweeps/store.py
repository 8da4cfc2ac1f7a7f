"""The store of results: a directory of Parquet files that DuckDB, Polars and pandas can read.

    runs/part-*.parquet    a row per flow of each finished run, by the run's key
    cases/NAME.parquet     a sweep's cases: number, seed, key, and the keys that vary
    failures/KEY.toml      a scenario that could not be run, with the reason
    claims/*.keys          the runs that each running sweep has begun (`claims`)

The key of a run is a hash of the scenario, the files that it names, its seed, and the version and
build of narrows. A sweep executes only runs whose keys are not in the store. Any other sweep may
have stored the others. A part is written under a temporary name and then renamed. Therefore stored
results remain valid even if a sweep is killed. The data of a part is on the disk before its name
(fsync of the file, then of the directory). If there are many parts, they are merged under a lock.
If a merge is interrupted, some rows are stored twice. Readers use the first copy, and the next
sweep removes the others.

A damaged file is never read as other data. The name of a part holds the SHA-256 of its bytes, which
is compared before the part is read. The table of cases has a checksum for each page (Parquet's
CRC-32). Page checksums do not cover the footer, so that alone they miss one flipped bit in forty.
Therefore its columns and the number of its rows are compared with those of the sweep.
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from narrows import extras, operating_system
from narrows.errors import OutputError, reason
from narrows.storage.durable import replacing
from narrows.sweeps.claims import Claims
from narrows.sweeps.rows import (
    APPLICATION,
    DATAGRAMS,
    DIRECTIONS,
    SLOWDOWNS,
    SPREADS,
    TRANSFERS,
    WAITS,
)

if TYPE_CHECKING:
    from narrows.sweeps.worker import Columns

extras.require_pyarrow()
import pyarrow as pa  # noqa: E402 - behind the error that names the extra
import pyarrow.compute as pc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

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
        ("run_retransmit_rate", pa.float64()),
        ("summary_retransmits", pa.int64()),
        ("summary_retransmit_rate", pa.float64()),
        *((name.format(which), pa.float64()) for _, name, of in SPREADS for which in of),
        ("fct_s", pa.float64()),
        *((f"queue_delay_{which}_ms", pa.float64()) for which in WAITS),
        ("queue_drops", pa.int64()),
        ("queue_marks", pa.int64()),
        ("backlog_mean_packets", pa.float64()),
        *((f"ping_{which}_ms", pa.float64()) for which in WAITS),
        ("jain", pa.float64()),
        *((f"jain_{way}", pa.float64()) for way in DIRECTIONS),
        *((name, pa.float64()) for name in DATAGRAMS),
        ("workload", pa.string()),
        *((name, pa.float64()) for name in APPLICATION),
        *((name, pa.float64()) for name in SLOWDOWNS),
        *((name, pa.float64()) for name in TRANSFERS),
        ("metrics", pa.string()),
        ("like", pa.string()),
        ("version", pa.string()),
        ("scenario_format", pa.int32()),
        ("engine", pa.string()),
        ("kernel", pa.string()),
        ("kernel_key", pa.string()),
    ]
)
"""The columns of the tables in `runs`: metrics of a flow, then of its whole run, then of its
application.

`queue_…` describes the bottleneck queue and `ping_…` the first probe. `metrics` has the caller's
metrics as JSON.
"""

Read = TypeVar("Read")
"""Type of the result of a function that reads parts."""

Medians = dict[str, dict[str, float | None]]
"""For each value of a column, the number of rows (`rows`) and the medians of other columns."""

_MANY = 64
_TRIES = 100
_SMALL_BYTES = 4 << 20
_DIGEST = re.compile(r"part-[0-9a-f]+-sha256-([0-9a-f]{40})")
_DIGITS = 40
"""Number of hexadecimal digits of SHA-256 in the name of a part (160 bits). Names of parts from an
earlier version have no digits."""

_PIECE = 1 << 20

_DAMAGED = (OSError, pa.ArrowException, ValueError)
"""Exceptions that reading a damaged file can raise; column names that are no longer UTF-8 raise a
`ValueError`."""


class Store:
    """The store in one directory of results."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """The store in this directory, which is created when the first rows are added."""
        self.directory = Path(directory)
        self._runs = self.directory / "runs"
        self._grown = 0  # Parts that were too large to be merged at the last check.
        self._sound: set[str] = set()  # Parts whose digest was compared; a part never changes.

    def keys(self) -> pa.Array:
        """The keys of all stored runs, each once.

        Raises:
            OutputError: If a part cannot be read.
        """
        found: pa.ChunkedArray = pa.chunked_array(
            self._settled(lambda parts: [_read(part, ["key"])["key"].unique() for part in parts]),
            pa.string(),
        )
        keys = pc.unique(found)
        if len(keys) < len(found):
            self._tidy()
        return keys

    def add(self, new: Sequence[Columns]) -> None:
        """Stores the rows of several batches, which are on the disk when the call returns.

        Raises:
            OutputError: If the rows cannot be written.
        """
        if new:
            with _told(self.directory):
                self._write(pa.concat_tables(map(_table, new)))
                if len(self._parts()) - self._grown > _MANY:
                    self._merge()

    def runs(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows, each run once, with all columns, or with `key` and the given columns.

        Raises:
            OutputError: If a part cannot be read.
        """
        names = SCHEMA.names if columns is None else list(dict.fromkeys(["key", *columns]))
        schema = pa.schema([SCHEMA.field(name) for name in names])
        found = self._settled(lambda parts: [table for _, table in _each_once(parts, names)])
        return pa.concat_tables([schema.empty_table(), *found])

    def medians(
        self, keys: pa.Array, by: str, columns: Sequence[str]
    ) -> tuple[int, dict[str, dict[str, float | None]]]:
        """The number of rows of the runs with these keys, and the medians of `columns` for each
        value of the column `by`.

        One part is read at a time, and only the numbers of the columns are kept.

        Raises:
            OutputError: If a part cannot be read.
        """
        rows, found = self._settled(lambda parts: _sorted_out(parts, keys, by, columns))
        return rows, {one: _medians(of) for one, of in found.items()}

    @contextmanager
    def writing_cases(self, name: str, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
        """A context manager that writes the table of a sweep's cases in pieces. The file gets its
        name when it is complete.

        Raises:
            OutputError: If it cannot be written.
        """
        file = self.directory / "cases" / f"{name}.parquet"
        with (
            _told(self.directory),
            replacing(file.parent, file.name) as part,
            pq.ParquetWriter(part, schema, write_page_checksum=True) as writer,
        ):
            yield writer

    def cases(
        self, name: str, columns: Sequence[str] | None = None, *, schema: pa.Schema, rows: int
    ) -> pa.Table:
        """The cases of a sweep as a table, with all columns or with the given columns.

        Raises:
            OutputError: If it was never run into this directory, or if the file is damaged.
        """
        names = schema.names if columns is None else columns
        pieces = list(self.cases_in_pieces(name, names, rows, schema=schema, rows=rows))
        wanted = pa.schema([schema.field(column) for column in names])
        return pa.Table.from_batches(pieces, wanted)

    def cases_in_pieces(
        self, name: str, columns: Sequence[str], size: int, *, schema: pa.Schema, rows: int
    ) -> Iterator[pa.RecordBatch]:
        """The given columns of the cases of a sweep, in pieces.

        Args:
            name: The name of the sweep.
            columns: The columns.
            size: Maximum number of rows of a piece.
            schema: The columns that the table must have.
            rows: The number of rows that the table must have; a file with another number is
                damaged, or belongs to another sweep.

        Raises:
            OutputError: If it was never run into this directory, or if the file is damaged.
        """
        file = self.directory / "cases" / f"{name}.parquet"
        try:
            # Without pre-buffering, the whole file is not in memory at once.
            held = pq.ParquetFile(file, pre_buffer=False, page_checksum_verification=True)
            if not held.schema_arrow.equals(schema) or held.metadata.num_rows != rows:
                raise OutputError(
                    _unreadable(file, "its columns or its number of rows are not this sweep's")
                )
            left = rows
            for piece in held.iter_batches(batch_size=size, columns=list(columns)):
                left -= piece.num_rows
                yield piece
            if left:
                raise OutputError(
                    _unreadable(file, f"{abs(left)} of its rows are missing or too many")
                )
        except FileNotFoundError:
            raise OutputError(
                f"{file}: no such file; this sweep was not run into {self.directory} yet"
            ) from None
        except _DAMAGED as error:
            raise OutputError(_unreadable(file, error)) from error

    def failed(self, key: str, scenario: str, reason: str) -> Path:
        """Stores a scenario that could not be run; returns its file.

        Raises:
            OutputError: If it cannot be written.
        """
        file = self.directory / "failures" / f"{key}.toml"
        comment = "".join(f"# {line}\n" for line in reason.splitlines())
        with _told(self.directory), replacing(file.parent, file.name) as part:
            part.write_text(comment + scenario, encoding="utf-8")
        return file

    def claims(self) -> Claims:
        """The claims of a sweep in this directory: a context manager for the time in which the
        sweep runs.
        """
        return Claims(self.directory)

    def parts(self) -> frozenset[str]:
        """The names of the stored parts. If the set of names changes, there may be new rows."""
        return frozenset(part.name for part in self._parts())

    def _parts(self) -> list[Path]:
        return sorted(self._runs.glob("part-*.parquet"))

    def _write(self, table: pa.Table) -> None:
        # The random part of the name distinguishes parts with equal content.
        unique = uuid.uuid4().hex[:12]
        with replacing(
            self._runs, lambda part: f"part-{unique}-sha256-{_digest(part)}.parquet"
        ) as part:
            pq.write_table(table, part, write_page_checksum=True)

    def _checked(self, parts: list[Path]) -> list[Path]:
        """Returns the same parts, after each was compared, once, with the digest in its name."""
        for part in parts:
            named = _DIGEST.fullmatch(part.stem)
            if named is None or part.name in self._sound:
                continue
            try:
                digest = _digest(part)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise OutputError(_unreadable(part, reason(error))) from error
            if digest != named[1]:
                raise OutputError(
                    _unreadable(part, "it is damaged: its SHA-256 is not the one in its name")
                )
            self._sound.add(part.name)
        return parts

    def _settled(self, read: Callable[[list[Path]], Read]) -> Read:
        """Reads all parts with `read`, again if another sweep merges some of them at the same
        time.
        """
        for _ in range(_TRIES):
            try:
                return read(self._checked(self._parts()))
            except FileNotFoundError as error:
                gone = error
        raise OutputError(
            f"{self.directory}: its parts go away while they are read: {gone}"
        ) from gone

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Locks the directory for the removal of parts and yields True; yields False if another
        sweep holds the lock.
        """
        with _told(self.directory), (self.directory / ".lock").open("w") as lock:
            try:
                operating_system.lock(lock, operating_system.EXCLUSIVE | operating_system.AT_ONCE)
            except BlockingIOError:
                yield False
            else:
                yield True

    def _merge(self) -> None:
        """Merges the small parts into one, unless another sweep holds the lock."""
        with self._alone() as alone:
            if not alone:
                return
            parts = self._parts()
            small = [part for part in parts if part.stat().st_size < _SMALL_BYTES]
            self._grown = len(parts) - len(small)
            if len(small) > 1:
                self._write(
                    pa.concat_tables(
                        [table for _, table in _each_once(self._checked(small), SCHEMA.names)]
                    )
                )
                for part in small:
                    part.unlink()

    def _tidy(self) -> None:
        """Removes rows of runs that an earlier part also contains, so that other programs find each
        run once.
        """
        with self._alone() as alone:
            if not alone:
                return
            for part, table in _each_once(self._checked(self._parts()), SCHEMA.names):
                if table.num_rows < pq.read_metadata(part).num_rows:
                    if table.num_rows:
                        self._write(table)
                    part.unlink()


def _table(rows: Columns) -> pa.Table:
    """Rows as a table with the columns of `SCHEMA`."""
    count = len(rows["key"])
    arrays = [
        pa.array(rows[field.name], field.type)
        if field.name in rows
        else pa.nulls(count, field.type)
        for field in SCHEMA
    ]
    return pa.table(arrays, schema=SCHEMA)


def _each_once(parts: Sequence[Path], columns: list[str]) -> Iterator[tuple[Path, pa.Table]]:
    """The rows of each of these parts, without runs that an earlier part contains."""
    keys = [_read(part, ["key"])["key"].unique() for part in parts]
    counted = pc.value_counts(pa.chunked_array(keys, pa.string()))
    doubled = counted.field("values").filter(pc.greater(counted.field("counts"), 1))
    seen: set[str] = set()
    for part, own in zip(parts, keys, strict=True):
        table = _read(part, columns)
        if len(doubled):
            here = own.filter(pc.is_in(own, value_set=doubled)).to_pylist()
            twice = pa.array([key for key in here if key in seen], pa.string())
            table = table.filter(pc.invert(pc.is_in(table["key"], value_set=twice)))
            seen.update(here)
        yield part, table


Groups = dict[str, dict[str, list[pa.Array]]]
"""For each value of a column, the values of other columns, in pieces."""


def _medians(of: Mapping[str, list[pa.Array]]) -> dict[str, float | None]:
    held = {name: pa.chunked_array(pieces, SCHEMA.field(name).type) for name, pieces in of.items()}
    rows = max(map(len, held.values()))
    return {"rows": rows} | {
        name: pc.quantile(values, q=0.5)[0].as_py() for name, values in held.items()
    }


def _sorted_out(
    parts: Sequence[Path], keys: pa.Array, by: str, columns: Sequence[str]
) -> tuple[int, Groups]:
    """The number of rows of the runs with these keys, and the values of `columns` for each value of
    the column `by`.
    """
    rows, found = 0, Groups()
    for _, table in _each_once(parts, ["key", by, *columns]):
        table = table.filter(pc.is_in(table["key"], value_set=keys))  # noqa: PLW2901
        rows += table.num_rows
        for one in pc.unique(table[by]).drop_null().to_pylist():
            of = table.filter(pc.equal(table[by], one))
            for name in columns:
                found.setdefault(one, {}).setdefault(name, []).extend(of[name].chunks)
    return rows, found


def _read(part: Path, columns: list[str]) -> pa.Table:
    """Reads columns of a part; columns that an earlier version did not have are null.

    Raises:
        FileNotFoundError: If the part does not exist any more.
        OutputError: If the part cannot be read for another reason.
    """
    try:
        there = set(pq.read_schema(part).names)
        if "key" not in there:
            raise OutputError(_unreadable(part, "it has no column `key`"))
        known = [name for name in columns if name in there]
        table = pq.read_table(part, columns=known, page_checksum_verification=True)
        table = table.select(known).cast(pa.schema([SCHEMA.field(name) for name in known]))
    except FileNotFoundError:
        raise
    except _DAMAGED as error:
        raise OutputError(_unreadable(part, error)) from error
    for name in columns:
        if name not in there:
            field = SCHEMA.field(name)
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(columns)


def _digest(file: Path) -> str:
    """The digits of the SHA-256 of a file, as in the name of a part."""
    digest = hashlib.sha256()
    with file.open("rb") as held:
        while piece := held.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()[:_DIGITS]


def _unreadable(file: Path, why: object) -> str:
    reason = " ".join(str(why).split())
    return f"{file}: cannot be read ({reason}); take it away, and what it held is run again"


@contextmanager
def _told(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"{directory}: {reason(error)}") from error
