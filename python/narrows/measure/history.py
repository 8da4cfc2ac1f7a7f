"""The local history of measurements: a DuckDB file with one row per measurement, which contains the
main metrics and the JSON object.

DuckDB is an extra (`pip install 'narrows[history]'`) because it is larger than narrows. The file is
`$NARROWS_HISTORY`, or `narrows/history.duckdb` under `$XDG_DATA_HOME` (`~/.local/share`). DuckDB
itself can query it: `SELECT started, host, down_mbit, loaded_p95_ms FROM measurements`.

Measurements stay until `forget` deletes them. If `$NARROWS_HISTORY_DAYS` is set, `keep` deletes
measurements that are older than this number of days. DuckDB leaves deleted rows in its file.
`forget` therefore writes a new file with the remaining rows.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import closing
from datetime import datetime, timedelta, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows.errors import NarrowsError, OutputError
from narrows.json_object import JsonObject
from narrows.measure.result import Measurement
from narrows.measure.summary import answer
from narrows.storage.durable import replacing, retried

if TYPE_CHECKING:
    from collections.abc import Sequence

COLUMNS = (
    "id", "started", "host", "test", "down_mbit", "up_mbit", "idle_p50_ms", "loaded_p50_ms",
    "loaded_p95_ms",
    "increase_ms", "grade",
)  # fmt: skip
"""The columns of a row, except `json`."""

_DAMAGED = ("not a valid DuckDB database", "Could not read enough bytes", "Corrupt database")
"""Parts of DuckDB's messages about a file whose content is invalid."""

MOST_DAYS = 365_000
"""The largest number of days after which measurements are deleted."""

_TABLE = """
CREATE TABLE IF NOT EXISTS measurements (
    id VARCHAR PRIMARY KEY, started VARCHAR, host VARCHAR, test VARCHAR, down_mbit DOUBLE,
    up_mbit DOUBLE,
    idle_p50_ms DOUBLE, loaded_p50_ms DOUBLE, loaded_p95_ms DOUBLE, increase_ms DOUBLE,
    grade VARCHAR, json VARCHAR
)
"""


def file() -> Path:
    """Path of the history file."""
    told = os.environ.get("NARROWS_HISTORY")
    if told:
        return Path(told)
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    return Path(home) / "narrows/history.duckdb"


def installed() -> bool:
    """Whether DuckDB is installed."""
    return find_spec("duckdb") is not None


def keep(measured: Measurement) -> str:
    """Stores a measurement, replacing one with the same id, and returns the id.

    Raises:
        NarrowsError: If DuckDB is not installed.
        OutputError: If the history cannot be written.
    """
    said, text = answer(measured), measured.text()
    name = measured.id or hashlib.sha256(text.encode()).hexdigest()[:16]
    row = (
        name,
        measured.started,
        measured.host,
        measured.test,
        said.rates_mbit.get("down"),
        said.rates_mbit.get("up"),
        said.idle.p50,
        said.every.p50,
        said.every.p95,
        said.increase_ms,
        said.grade,
        text,
    )
    _ask(
        f"INSERT OR REPLACE INTO measurements VALUES ({', '.join('?' * len(row))})", row, write=True
    )
    days = retention_days()
    if days is not None:
        forget(older_than_days=days)
    return name


def retention_days() -> int | None:
    """The number of days after which `keep` deletes measurements (`$NARROWS_HISTORY_DAYS`). The
    result is None if `keep` never deletes measurements.

    Raises:
        NarrowsError: If the variable is not a whole number.
    """
    told = os.environ.get("NARROWS_HISTORY_DAYS")
    if not told:
        return None
    if not told.isdecimal() or int(told) > MOST_DAYS:
        raise NarrowsError(
            f"NARROWS_HISTORY_DAYS={told}: write a whole number of days from 0 to {MOST_DAYS}"
        )
    return int(told)


def forget(
    *, host: str | None = None, older_than_days: int | None = None, name: str | None = None
) -> int:
    """Deletes the measurements that meet all conditions, and returns their number.

    A measurement without a start time counts as older than any number of days.

    Args:
        host: Only measurements to this host.
        older_than_days: Only measurements that started more than this number of days ago.
        name: Only the measurement with this id or with this unique prefix of it.

    Raises:
        NarrowsError: If DuckDB is not installed, no history exists, or `name` is not unique.
        OutputError: If the history cannot be written.
    """
    conditions: list[str] = []
    values: list[object] = []
    if host is not None:
        conditions.append("host = ?")
        values.append(host)
    if older_than_days is not None:
        since = datetime.now(timezone.utc) - timedelta(days=older_than_days)
        # As text, because ISO 8601 in UTC sorts by time.
        conditions.append("started < ?")
        values.append(since.strftime("%Y-%m-%dT%H:%M:%S"))
    if name is not None:
        conditions.append("id = ?")
        values.append(_unique(name)[0])
    where = " AND ".join(conditions) or "true"
    ((gone,),) = _ask(f"SELECT count(*) FROM measurements WHERE {where}", values)
    if gone:
        _rewrite(where, values)
    return int(gone)


def _rewrite(where: str, values: Sequence[object]) -> None:
    """Replaces the history file by a new one without the rows that meet a condition."""
    import duckdb  # noqa: PLC0415

    whole = file()
    try:
        # The lock of the old file keeps other writers out until the new one has its name.
        opened = retried(lambda: duckdb.connect(str(whole)), _is_locked)
        with closing(opened) as base, replacing(whole.parent, whole.name) as part:
            base.execute("CHECKPOINT")
            # DuckDB makes the file itself.
            part.unlink(missing_ok=True)
            base.execute(f"ATTACH '{str(part).replace(chr(39), 2 * chr(39))}' AS kept")
            base.execute(_TABLE.replace("EXISTS ", "EXISTS kept."))
            base.execute(
                f"INSERT INTO kept.measurements SELECT * FROM measurements WHERE NOT ({where})",
                list(values),
            )
            base.execute("DETACH kept")
    except (OSError, duckdb.Error) as error:
        raise _unusable(whole, error) from error


def rows(*, host: str | None = None, last: int = 20) -> list[JsonObject]:
    """The last measurements, newest first; only those of `host` if it is given.

    Raises:
        NarrowsError: If DuckDB is not installed or no history exists.
    """
    where, values = ("WHERE host = ?", [host]) if host else ("", [])
    found = _ask(
        f"SELECT {', '.join(COLUMNS)} FROM measurements {where} ORDER BY started DESC, id LIMIT ?",
        [*values, last],
    )
    return [dict(zip(COLUMNS, row, strict=True)) for row in found]


def get(name: str) -> Measurement:
    """The measurement with this id or with this unique prefix of its id.

    Raises:
        NarrowsError: If no measurement or several match.
    """
    found = _unique(name)
    return Measurement.parse(found[1], f"{file()}: {found[0]}")


def _unique(name: str) -> tuple[str, str]:
    found = _ask(
        "SELECT id, json FROM measurements WHERE starts_with(id, ?) ORDER BY id LIMIT 3", [name]
    )
    exact = [row for row in found if row[0] == name] or found
    if len(exact) != 1:
        many = "several measurements" if exact else "no measurement of the history"
        verb = "begin" if exact else "begins"
        raise NarrowsError(f"{many} {verb} with `{name}`\n    write: narrows history")
    return exact[0][0], exact[0][1]


def _ask(question: str, values: Sequence[object], *, write: bool = False) -> list[tuple[Any, ...]]:
    try:
        import duckdb  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise NarrowsError(
            "the history needs DuckDB, which is not installed\n"
            "    write: pip install 'narrows[history]'"
        ) from error
    where = file()
    if not write and not where.exists():
        raise NarrowsError(f"{where}: no history exists yet\n    write: narrows measure HOST")
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        # DuckDB allows one writer at a time and no reader meanwhile; each access takes
        # milliseconds.
        opened = retried(lambda: duckdb.connect(str(where), read_only=not write), _is_locked)
        with closing(opened) as base:
            if write:
                base.execute(_TABLE)
            return list(base.execute(question, list(values)).fetchall())
    except (OSError, duckdb.Error) as error:
        raise _unusable(where, error) from error


def _unusable(where: Path, error: Exception) -> OutputError:
    """The error of a history file that cannot be read or written. If its content is invalid, the
    error proposes to begin a new one.
    """
    said = str(error).splitlines()[0]
    damaged = any(sign in said for sign in _DAMAGED)
    fix = f"\n    write: mv {where} {where}.damaged" if damaged else ""
    return OutputError(f"{where}: {said}{fix}")


def _is_locked(error: Exception) -> bool:
    """Whether the error means that another process has the history file open."""
    return "lock on file" in str(error)
