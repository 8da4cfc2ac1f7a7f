"""The command `narrows plot`: figures and LaTeX tables from tables of results, and figures of
several results.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import click

from narrows.cli.command import command, option
from narrows.cli.options import figure_options, file_option, files_argument
from narrows.render import chart
from narrows.render.latex import latex
from narrows.render.plot import FORMATS, about, check, draw_columns
from narrows.render.report import unique
from narrows.render.style import Style
from narrows.storage import output
from narrows.storage.text import name_of
from narrows.sweeps import results


def _format(file: str) -> None:
    if not file.endswith(".tex"):
        if not file.endswith(FORMATS):
            raise click.BadParameter(
                f"{file} has no suffix .png, .svg, .pdf or .tex; write --out figure.pdf",
                param_hint="--out",
            )
        check(file)


@command(
    "narrows plot rows.parquet --x path.buffer --y goodput_mbit --by flow.cc --out figure.pdf",
    "narrows plot rows.csv --x path.rtt --y jain --log x --size 84x60mm --font serif --out a.svg",
    "narrows plot result/transfers.parquet --y slowdown --kind cdf --log x --out slowdown.pdf",
    "narrows plot monday.json tuesday.json run.json --out days.pdf",
)
@files_argument(
    "A table (Parquet or CSV), or results to draw in the same axes: measurements, results of "
    "narrows latency, runs (narrows run --json)",
    name="names",
)
@option(
    "--y",
    "ys",
    group="Data",
    metavar="COLUMN",
    multiple=True,
    help="Column of a table to draw; may be repeated, for several panels",
)
@option("--x", group="Data", metavar="COLUMN", help="Column of the x axis of a curve")
@option("--by", group="Data", metavar="COLUMN", help="Draw a curve for each value of COLUMN")
@option(
    "--where",
    group="Data",
    metavar="COLUMN=VALUE",
    multiple=True,
    help="Use only rows with this value; may be repeated",
)
@option(
    "--kind",
    group="Data",
    type=click.Choice(("line", "cdf")),
    default="line",
    help="line draws means over the seeds; cdf draws the cumulative distribution of all rows",
)
@option(
    "--interval",
    group="Appearance of --out",
    type=click.Choice(("auto", "bars", "band", "none")),
    default="auto",
    help="Style of the 95 % confidence intervals over the seeds",
)
@figure_options(file="out")
@option(
    "--title",
    group="Appearance of --out",
    metavar="TEXT",
    default="",
    show_default="none",
    help="Title of the figure",
)
@file_option(
    "--out",
    "out",
    suffix=_format,
    required=True,
    what="Write a figure (.png, .svg, .pdf) or a LaTeX table (.tex)",
)
def plot(  # noqa: PLR0917 - Click calls it by keyword
    names: tuple[str, ...],
    ys: tuple[str, ...],
    x: str | None,
    by: str | None,
    where: tuple[str, ...],
    kind: str,
    interval: str,
    title: str,
    out: str,
    style: Style | None,
) -> None:
    """Plot a table of results, or results in the same axes.

    A curve of a table shows the mean over the seeds for each value of --x, with its 95 %
    confidence interval. If a point of a curve has several rows with the same seed, such as one row
    per flow, the plot first computes the mean of each seed.

    Results of different kinds share their axes, with a colour for each. Measurements have goodput
    and RTT over time. Measurements and response times have a distribution of RTTs. Measurements
    and runs have goodput against p95 RTT.

    The column `slowdown` of transfers.parquet is the completion time of a transfer divided by the
    time that it needs on an empty path without slow start.
    """
    if not names[0].endswith((".parquet", ".csv")):
        if ys or x or by or where:
            raise click.UsageError(
                f"{name_of(names[0])}: --y, --x, --by and --where are only for a table; write a "
                "file that ends in .parquet or .csv, or omit these options"
            )
        _measurements(names, out, style or Style())
        return
    if len(names) > 1:
        raise click.UsageError(f"{names[1]}: write one table, or measurements only")
    if not ys:
        raise click.UsageError("--y: missing; write --y COLUMN")
    (file,) = names
    rows = chart.read(file)
    only = dict(_pair(one) for one in where)
    charts = [
        chart.chart(rows, y=y, x=x, by=by, kind=cast("chart.Kind", kind), where=only, name=file)
        for y in ys
    ]
    kernels = _kernels(rows)
    if out.endswith(".tex"):
        texts = [latex(chart.table(one), about(kernels)) for one in charts]
        output.write(out, "\n".join(texts))
        return
    spread = cast("chart.Spread", interval)
    chart.draw(charts, out, style=style or Style(), spread=spread, title=title, kernels=kernels)


def _measurements(names: Sequence[str], out: str, style: Style) -> None:
    if out.endswith(".tex"):
        raise click.BadParameter(
            "results are drawn, not written as a table; write --out figure.pdf",
            param_hint="--out",
        )
    several = [
        (f"{name}, {inside}" if inside else name, one)
        for file, name in zip(names, unique([Path(name).name for name in names]), strict=True)
        for inside, one in results.read(file)
    ]
    draw_columns([("", results.combined(several))], out, style=style)


def _pair(text: str) -> tuple[str, str]:
    column, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text}: write COLUMN=VALUE", param_hint="--where")
    return column, value


def _kernels(rows: Any) -> Sequence[str]:  # noqa: ANN401 - Arrow's table
    """The kernel rules of the rows, from a column, or from the metadata of the file that `Run.save`
    wrote.
    """
    for column in ("host.like", "like"):
        if column in rows.column_names:
            found = (str(one) for one in rows[column].to_pylist() if one is not None)
            return list(dict.fromkeys(found))
    kept = (rows.schema.metadata or {}).get(b"narrows.like")
    return [] if kept is None else [kept.decode(errors="replace")]
