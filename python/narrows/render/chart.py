"""Charts of tables: the rows of a sweep, of replications, of samples or of transfers.

A line chart has the mean of `y` for each value of `x` and each group (`by`). Its 95 % confidence
interval is over the seeds (Student's t). Rows with the same seed, such as the flows of a run, are
averaged first, because they are not independent. A cumulative distribution (`cdf`) has a step for
each row.

If all values of `x` have units of one dimension (`40ms` and `1s`, for example), they are converted
to numbers in the largest unit that occurs. Other texts are categories in the order of the table.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from narrows import extras
from narrows.errors import NarrowsError, reason
from narrows.inference import Interval, of_mean
from narrows.render import parquet_pages, tables
from narrows.render.plot import (
    COLOURS,
    DASHES,
    GREYS,
    MARKERS,
    matplotlib,
    new_figure,
    write,
)
from narrows.render.style import Look, Style
from narrows.render.terminal import within_line
from narrows.render.words import with_half
from narrows.storage import untrusted_input
from narrows.storage.text import name_of
from narrows.sweeps.rows import limits

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes

    from narrows.render.figure import Figure

Kind = Literal["line", "cdf"]
"""Kinds of chart: a line chart of means, or a cumulative distribution (`cdf`)."""

KINDS = ("line", "cdf")

Spread = Literal["auto", "bars", "band", "none"]
"""How intervals are drawn: error bars, a band, or bars for at most `_FEW_BARS` values of x."""

SPREADS = ("auto", "bars", "band", "none")

_FEW_BARS = 16
_FEW_TICKS = 12
_LEGEND_COLUMNS = 5
_DIGITS = 4
_MOST_GROUPS = 40
_LARGEST = 1e100
"""Largest absolute value that is drawn; sums and axes of larger ones overflow."""

_QUANTITY = re.compile(r"([-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z%]+)")
_UNITS = (
    {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0},
    {"bit": 1.0, "kbit": 1e3, "Mbit": 1e6, "Gbit": 1e9},
    {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1024.0, "MiB": 1048576.0},
    {"bdp": 1.0},
    {"p": 1.0},
    {"%": 1.0},
)
"""The units of each dimension, with their values in its smallest or base unit."""


@dataclass(frozen=True)
class Series:
    """One group of a chart.

    Attributes:
        name: The value of the column `by`; empty without one.
        x: Values of x: numbers in rising order, or categories.
        y: The mean for each value of x, with its confidence interval. In a distribution, y is the
            share of rows with at most this value.
    """

    name: str
    x: list[float | str]
    y: list[Interval]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart of one column of a table.

    Attributes:
        x: Heading of the x axis.
        y: Heading of the y axis.
        by: Name of the column whose values define the groups; empty without groups.
        kind: Kind of chart.
        series: The groups.
    """

    x: str
    y: str
    by: str
    kind: Kind
    series: list[Series] = field(default_factory=list)


MOST_TABLE_BYTES = 1 << 30
"""Maximum size of an unpacked table, in bytes. A Parquet file can be a thousand times smaller than
its unpacked table."""

MOST_VALUES = 200_000_000
"""Maximum number of values of a table."""

_BATCH_ROWS = 65_536


def read(file: str | PathLike[str]) -> pa.Table:
    """The table in a Parquet or CSV file. Nested columns of Parquet are omitted.

    Raises:
        NarrowsError: If the file cannot be read, or its table is too large.
    """
    extras.require_pyarrow()
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv  # noqa: PLC0415

    name = name_of(file)
    if not name.endswith((".parquet", ".csv")):
        raise NarrowsError(f"{name}: no table; write a file that ends in .parquet or .csv")
    try:
        content = untrusted_input.read(file, untrusted_input.MOST_DATA_BYTES)
        if name.endswith(".parquet"):
            return _parquet(content, name)
        return csv.read_csv(pa.BufferReader(content))
    except OSError as error:
        raise NarrowsError(f"{name}: {reason(error)}") from error
    except (pa.ArrowException, UnicodeDecodeError, parquet_pages.DamagedError) as error:
        said = (str(error).splitlines() or ["unknown"])[0].rstrip(".")
        raise NarrowsError(f"{name}: is damaged or no table ({said})") from error


def _parquet(content: bytes, name: str) -> pa.Table:
    """The table of a Parquet file, read in batches so that no more than the limits is unpacked."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    large = NarrowsError(
        f"{name}: larger than {MOST_TABLE_BYTES >> 20} MiB or {MOST_VALUES // 10**6} million "
        "values when unpacked, the most that is read"
    )
    source = pa.BufferReader(content)
    plain = pq.ParquetFile(source)
    fields = [field for field in plain.schema_arrow if not pa.types.is_nested(field.type)]
    # Repeated texts stay encoded as a dictionary until the unpacked size is known.
    texts = [f.name for f in fields if pa.types.is_string(f.type) or pa.types.is_binary(f.type)]
    about = plain.metadata
    groups = [about.row_group(n) for n in range(about.num_row_groups)]
    if (
        about.num_rows * max(1, about.num_columns) > MOST_VALUES
        or sum(group.total_byte_size for group in groups) > MOST_TABLE_BYTES
        or parquet_pages.unpacked_bytes(content, MOST_TABLE_BYTES) > MOST_TABLE_BYTES
    ):
        raise large
    columns = [field.name for field in fields]
    if len(set(columns)) < len(columns):
        raise NarrowsError(f"{name}: two columns have the same name")
    source.seek(0)
    opened = pq.ParquetFile(source, read_dictionary=texts, page_checksum_verification=True)
    batches, taken = [], 0
    for batch in opened.iter_batches(_BATCH_ROWS, columns=columns):
        taken += batch.nbytes
        for column in batch.columns:
            if pa.types.is_dictionary(column.type):
                lengths = pc.binary_length(column.dictionary).take(column.indices)
                taken += pc.sum(lengths).as_py() or 0
        if taken > MOST_TABLE_BYTES:
            raise large
        batches.append(batch)
    schema = pa.schema(fields)
    if not batches:
        return schema.empty_table()
    return pa.Table.from_batches(batches).select(columns).cast(schema)


def chart(
    table: pa.Table,
    *,
    y: str,
    x: str | None = None,
    by: str | None = None,
    kind: Kind = "line",
    where: Mapping[str, str] | None = None,
    name: str = "table",
) -> Chart:
    """Computes a chart.

    >>> import pyarrow as pa
    >>> rows = [{"seed": s, "rtt": r, "cc": c, "g": s + f} for s in (1, 2) for r in ("9ms", "10ms")
    ...     for f, c in enumerate(["reno", "bbr"])]
    >>> found = chart(pa.Table.from_pylist(rows), x="rtt", y="g", by="cc")
    >>> found.x, found.series[0].name, found.series[0].x, found.series[0].y[0].mean
    ('rtt (ms)', 'reno', [9.0, 10.0], 1.5)

    Args:
        table: The rows.
        y: The column that is drawn.
        x: The column of the x axis; a cumulative distribution has none.
        by: The column whose values define the groups.
        kind: Kind of chart.
        where: The values, as text, that rows must have in these columns; other rows are left out.
        name: Name of the table in errors.

    Raises:
        NarrowsError: If a column does not exist or has no numbers.
    """
    wanted = [column for column in (y, x, by, *(where or {})) if column is not None]
    _require(table, wanted, name)
    if (x is None) == (kind == "line"):
        raise NarrowsError(
            f"{name}: a line needs a column for the x axis; write --x COLUMN, or --kind cdf"
            if x is None
            else f"{name}: a distribution has no column for the x axis; omit --x"
        )
    extra = ["seed"] if "seed" in table.column_names else []
    rows = table.select(list(dict.fromkeys([*wanted, *extra]))).to_pylist()
    rows = [
        row for row in rows if all(_text(row[column]) == value for column, value in
        (where or {}).items())
    ]  # fmt: skip
    known = [row for row in rows if _is_number(row[y])]
    if not known:
        some = f" where {', '.join(f'{c} = {v}' for c, v in where.items())}" if where else ""
        raise NarrowsError(f"{name}: column {y} has no numbers{some}")
    for column in (y, x):
        if column is not None and any(_is_large(row[column]) for row in known):
            raise NarrowsError(
                f"{name}: column {column} has values beyond ±{_LARGEST:g}, which a chart cannot "
                "show"
            )
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in known:
        groups.setdefault("" if by is None else _text(row[by]), []).append(row)
    if len(groups) > _MOST_GROUPS:
        raise NarrowsError(
            f"{name}: column {by} has {len(groups)} values; a chart has at most {_MOST_GROUPS} "
            "groups"
        )
    if x is None:
        found = [_distribution(group, [row[y] for row in of]) for group, of in groups.items()]
        return Chart(x=y, y="share", by=by or "", kind=kind, series=found)
    places, heading = _axis(x, [row[x] for row in known])
    series = [_means(group, of, x, y, places) for group, of in groups.items()]
    return Chart(x=heading, y=y, by=by or "", kind=kind, series=series)


def _require(table: pa.Table, columns: Sequence[str], name: str) -> None:
    for column in columns:
        if column not in table.column_names:
            near = difflib.get_close_matches(column, table.column_names, 1)
            hint = f"did you mean {near[0]}?" if near else ", ".join(table.column_names)
            raise NarrowsError(f"{name}: no column {column}; {within_line(hint)}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _is_large(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) > _LARGEST


def _text(value: object) -> str:
    """A value as text, a whole number without a fraction.

    >>> _text(2.0), _text("40ms"), _text(None)
    ('2', '40ms', '–')
    """
    if value is None:
        return "–"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _axis(column: str, values: Sequence[object]) -> tuple[dict[str, float | str], str]:
    """The number or category at which each value is drawn, and the heading of the axis."""
    distinct = list(dict.fromkeys(values))
    if all(_is_number(value) for value in distinct):
        return {_text(value): float(value) for value in distinct}, column  # type: ignore[arg-type]
    parsed = [_QUANTITY.fullmatch(_text(value).strip()) for value in distinct]
    units = {match[2] for match in parsed if match is not None}
    dimension = next((of for of in _UNITS if units <= set(of)), None)
    if dimension is None or None in parsed:
        return {_text(value): _text(value) for value in distinct}, column
    shown = max(units, key=lambda unit: dimension[unit])
    numbers = {
        _text(value): float(match[1]) * dimension[match[2]] / dimension[shown]
        for value, match in zip(distinct, parsed, strict=True)
        if match is not None
    }
    return {**numbers}, f"{column} ({shown})"


def _means(
    group: str,
    rows: Sequence[Mapping[str, Any]],
    x: str,
    y: str,
    places: Mapping[str, float | str],
) -> Series:
    """The mean over the seeds for each value of x."""
    found: dict[float | str, dict[object, list[float]]] = {}
    for row in rows:
        by_seed = found.setdefault(places[_text(row[x])], {})
        by_seed.setdefault(row.get("seed"), []).append(row[y])
    numeric = all(isinstance(place, float) for place in places.values())
    # Categories have the order of the table, which all groups share.
    order = list(dict.fromkeys(places.values()))
    keys = sorted(found, key=float) if numeric else sorted(found, key=order.index)
    least, most = limits(y)
    intervals = [
        of_mean([math.fsum(of) / len(of) for of in found[key].values()], most, least)
        for key in keys
    ]
    return Series(group, list(keys), intervals)


def _distribution(group: str, values: Sequence[float]) -> Series:
    """For each value, the share of the values that are at most as large."""
    in_order = sorted(values)
    n = len(in_order)
    shares = [Interval((at + 1) / n, None, None, None, n) for at in range(n)]
    return Series(group, [in_order[0], *in_order], [Interval(0.0, None, None, None, n), *shares])


def draw(
    charts: Sequence[Chart],
    file: str | PathLike[str] | None = None,
    *,
    style: Style,
    spread: Spread = "auto",
    title: str = "",
    kernels: Sequence[str] = (),
) -> Figure:
    """Draws charts below each other.

    Raises:
        NarrowsError: If Matplotlib is not installed, or the font is not; or if an axis cannot be
            logarithmic.
        OutputError: If the file cannot be written.
    """
    mpl = matplotlib()
    for one in charts:
        _check_log(one, style)
    with mpl.rc_context(style.rc()):
        size = style.inches or (5.0, 3.2 * len(charts))
        figure = new_figure(figsize=size, layout="constrained")
        places: Any = figure.subplots(len(charts), 1, squeeze=False)
        for place, one in zip(places[:, 0], charts, strict=True):
            _panel(place, one, style, spread)
        if title:
            figure.suptitle(title)
        handles, labels = places[0, 0].get_legend_handles_labels()
        if charts[0].by:
            figure.legend(
                handles,
                labels,
                title=charts[0].by,
                loc="outside lower center",
                ncols=min(_LEGEND_COLUMNS, len(labels)),
                frameon=False,
            )
        if file is not None:
            write(figure, file, kernels=kernels, dpi=style.dpi)
    return figure


def _check_log(one: Chart, style: Style) -> None:
    """Raises an error if a logarithmic axis has no positive number."""
    shown: dict[str, tuple[str, list[float | str]]] = {
        "x": (one.x, [x for series in one.series for x in series.x]),
        "y": (one.y, [y.mean for series in one.series for y in series.y]),
    }
    for axis, (heading, values) in shown.items():
        if axis in style.log and not any(isinstance(v, int | float) and v > 0 for v in values):
            raise NarrowsError(f"--log {axis}: {heading} has no positive numbers; omit {axis}")


def _panel(place: Axes, one: Chart, style: Style, spread: Spread) -> None:
    for nth, series in enumerate(one.series):
        form = _form(nth, style.look)
        means = [interval.mean for interval in series.y]
        x: Any = series.x
        if one.kind == "cdf":
            form.pop("marker")
            place.step(x, means, where="post", label=series.name, **form)
            continue
        ends = [
            (i.mean, i.mean) if i.low is None or i.high is None else (i.low, i.high)
            for i in series.y
        ]
        wide = any(low < high for low, high in ends)
        bars = spread == "bars" or (spread == "auto" and len(means) <= _FEW_BARS)
        if not wide or spread == "none":
            place.plot(x, means, label=series.name, **form)
        elif bars:
            below = [mean - low for mean, (low, _) in zip(means, ends, strict=True)]
            above = [high - mean for mean, (_, high) in zip(means, ends, strict=True)]
            place.errorbar(x, means, yerr=[below, above], capsize=2, label=series.name, **form)
        else:
            form["marker"] = ""
            place.plot(x, means, label=series.name, **form)
            low, high = [low for low, _ in ends], [high for _, high in ends]
            place.fill_between(x, low, high, color=form["color"], alpha=0.2, linewidth=0)
    place.set_xlabel(one.x)
    place.set_ylabel(one.y)
    if "x" in style.log:
        place.set_xscale("log")
    if "y" in style.log:
        place.set_yscale("log")
    values = list(dict.fromkeys(x for series in one.series for x in series.x))
    if "x" in style.log and one.kind == "line" and len(values) <= _FEW_TICKS:
        # The values themselves are more legible than powers of ten.
        place.set_xticks(values, [_text(value) for value in values])
        place.set_xticks([], minor=True)
    place.grid(visible=True, linewidth=0.4, alpha=0.5)


def _form(nth: int, look: Look) -> dict[str, Any]:
    """Colour, dashes and marker of the group with this index."""
    colour = GREYS[nth % len(GREYS)] if look == "print" else COLOURS[nth % len(COLOURS)]
    dashes = nth if look == "print" else nth // len(COLOURS)
    return {
        "color": colour,
        "linestyle": DASHES[dashes % len(DASHES)],
        "marker": MARKERS[nth % len(MARKERS)],
        "markersize": 3.5,
        "linewidth": 1.2,
    }


def table(one: Chart) -> tables.Table:
    """A chart as a table. A line chart gives a row for each x and a column for each group. A
    distribution gives a row of quantiles for each group.
    """
    if one.kind == "cdf":
        heads = ("p5", "p50", "p95", "p99", "rows")
        rows = [
            [tables.Cell(series.name or one.x), *map(tables.Cell, _quantiles(series))]
            for series in one.series
        ]
        return tables.Table(one.x, (one.by or "column",), heads, rows)
    places = list(dict.fromkeys(x for series in one.series for x in series.x))
    if all(isinstance(place, float) for place in places):
        places.sort(key=float)
    by_place = [dict(zip(series.x, series.y, strict=True)) for series in one.series]
    rows = [
        [tables.Cell(_text(place)), *(tables.Cell(_cell(of.get(place))) for of in by_place)]
        for place in places
    ]
    return tables.Table(one.y, (one.x,), tuple(series.name or one.y for series in one.series), rows)


def _cell(one: Interval | None) -> str:
    if one is None:
        return "–"
    return with_half(one.mean, one.half(), _DIGITS) if one.half() else tables.significant(one.mean)


def _quantiles(series: Series) -> list[str]:
    values = [float(x) for x in series.x[1:]]
    n = len(values)
    found = (values[min(n - 1, int(q * n))] for q in (0.05, 0.5, 0.95, 0.99))
    return [*(tables.significant(x) for x in found), str(n)]
