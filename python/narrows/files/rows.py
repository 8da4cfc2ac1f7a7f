"""A measurement as rows: CSV, JSON lines, Parquet. One row per sample of a flow or a ping, all in
one table.

`kind` is `flow` or `ping`, and `id` identifies the flow or the series of pings. A column that does
not apply is empty. Times are seconds from the start of the measurement; the units are in the names.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from narrows import extras
from narrows.json_object import JsonObject
from narrows.measure.result import FLOW_COLUMNS, PING_COLUMNS, Measurement, short

COLUMNS = (
    "kind",
    "id",
    "direction",
    "cc",
    *FLOW_COLUMNS,
    *(c for c in PING_COLUMNS if c not in FLOW_COLUMNS),
)


Row = dict[str, "str | float | None"]
"""A sample by column."""


def rows(measured: Measurement) -> Iterator[Row]:
    """Every sample, flows first, in the order of time within each."""
    for flow in measured.flows:
        about: Row = {"kind": "flow", "id": flow.id, "direction": flow.direction, "cc": flow.cc}
        yield from _samples(about, flow.columns, FLOW_COLUMNS)
    for train in measured.pings:
        yield from _samples({"kind": "ping", "id": train.id}, train.columns, PING_COLUMNS)


def _samples(
    about: Row,
    columns: Any,  # noqa: ANN401
    names: tuple[str, ...],
) -> Iterator[Row]:
    known = [name for name in names if name in columns]
    for values in zip(*(columns[name] for name in known), strict=True):
        yield about | dict(zip(known, values, strict=True))


def csv_text(measured: Measurement) -> str:
    """The samples as CSV with a header, in the format of RFC 4180 but with Unix line ends."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows(measured):
        writer.writerow({k: _plain(v) for k, v in row.items()})
    return out.getvalue()


def json_lines(measured: Measurement) -> str:
    """One line with the measurement without its samples, then one line per sample.

    Unknown values are left out.
    """
    top = {k: v for k, v in measured.json.items() if k not in {"flows", "pings"}}
    top["flows"] = [
        {k: v for k, v in f.items() if k not in {"columns", "samples"}}
        for f in measured.json.get("flows") or ()
    ]
    top["pings"] = [
        {k: v for k, v in p.items() if k not in {"columns", "samples"}}
        for p in measured.json.get("pings") or ()
    ]
    lines: list[JsonObject] = [{"kind": "measurement", **top}]
    lines += [{k: v for k, v in row.items() if v is not None} for row in rows(measured)]
    return "".join(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines)


def parquet(measured: Measurement) -> bytes:
    """The samples as Parquet. The metadata of the schema contain the measurement without samples
    under `narrows`.
    """
    extras.require_pyarrow()
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    words = ("kind", "id", "direction", "cc")
    schema = pa.schema([(name, pa.string() if name in words else pa.float64()) for name in COLUMNS])
    about = json_lines(measured).split("\n", 1)[0].encode(errors="backslashreplace")
    values = [{name: _unicode(value) for name, value in row.items()} for row in rows(measured)]
    table = pa.Table.from_pylist(values, schema=schema.with_metadata({"narrows": about}))
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def _unicode(value: object) -> object:
    r"""A text in which half of a surrogate pair, which untrusted JSON may have, is written as
    `\ud800`.

    >>> _unicode("a\ud800")
    'a\\ud800'
    """
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    return value


def _plain(value: object) -> object:
    """The value for CSV: whole numbers have no decimal point, and None is empty."""
    if isinstance(value, float):
        return (
            int(value)
            if value.is_integer() and abs(value) < 2**53
            else short(value)
            if abs(value) < 1
            else value
        )
    return "" if value is None else value
