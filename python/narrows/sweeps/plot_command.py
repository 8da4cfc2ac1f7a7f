"""The command `plot`: figures and LaTeX tables of tables of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import click

from narrows.cli.command import argument, command, option
from narrows.errors import NarrowsError
from narrows.render.plot import FORMATS, Look, Style, about, check, size
from narrows.storage import output

_AXES = ("x", "y")


def _format(file: str) -> None:
    if not file.endswith(".tex"):
        if not file.endswith(FORMATS):
            raise click.BadParameter(
                f"{file} has no suffix .png, .svg, .pdf or .tex; write --out figure.pdf",
                param_hint="--out",
            )
        check(file)


class _Size(click.ParamType):  # type: ignore[type-arg] # generic from click 8.2 on
    """The type of `--size`."""

    name = "size"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - Click defines the signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[float, float]:
        """Width and height in inches."""
        try:
            return size(value)
        except NarrowsError as error:
            raise click.BadParameter(str(error), ctx, param) from error


class _Axes(click.ParamType):  # type: ignore[type-arg] # generic from click 8.2 on
    """The type of `--log`."""

    name = "axes"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - Click defines the signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> frozenset[str]:
        """The axes, separated by commas."""
        found = frozenset(value.split(","))
        if not found <= set(_AXES):
            raise click.BadParameter(f"{value}: no axes; write x, y or x,y", ctx, param)
        return found


@command(
    "narrows plot rows.parquet --x path.buffer --y goodput_mbit --by flow.cc --out figure.pdf",
    "narrows plot rows.csv --x path.rtt --y jain --log x --size 84x60mm --font serif --out a.svg",
    "narrows plot result/transfers.parquet --y slowdown --kind cdf --log x --out slowdown.pdf",
    "narrows plot rows.parquet --x path.buffer --y goodput_mbit --by flow.cc --out table.tex",
)
@argument("file", metavar="TABLE", type=click.Path(dir_okay=False), help="Table (Parquet or CSV)")
@option(
    "--y",
    "ys",
    group="Data",
    metavar="COLUMN",
    multiple=True,
    required=True,
    help="Column to draw; may be repeated, for several panels",
)
@option("--x", group="Data", metavar="COLUMN", help="Column of the x axis of a line")
@option("--by", group="Data", metavar="COLUMN", help="Draw a line for each value of COLUMN")
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
    group="Appearance",
    type=click.Choice(("auto", "bars", "band", "none")),
    default="auto",
    help="How 95 % confidence intervals over the seeds are drawn",
)
@option("--log", group="Appearance", metavar="AXES", type=_Axes(), help="Logarithmic axes: x,y")
@option(
    "--size",
    group="Appearance",
    metavar="WxH",
    type=_Size(),
    help="Width and height: 84x60mm, 8.4x6cm, 3.3x2.4in",
)
@option(
    "--font",
    group="Appearance",
    metavar="FONT",
    help="serif, sans-serif, monospace or the name of a font",
)
@option(
    "--font-size",
    group="Appearance",
    metavar="PT",
    type=click.FloatRange(1, 100),
    default=9.0,
    help="Size of the texts in points",
)
@option(
    "--dpi",
    group="Appearance",
    metavar="N",
    type=click.IntRange(10, 2400),
    default=120,
    help="Resolution of PNG",
)
@option(
    "--look",
    group="Appearance",
    type=click.Choice(("screen", "print")),
    default="screen",
    help="screen draws in colour, print in black and white",
)
@option("--title", group="Appearance", metavar="TEXT", default="", help="Title of the figure")
@option(
    "--out",
    "out",
    group="Output",
    metavar="FILE",
    type=output.File(suffix=_format),
    required=True,
    help="Write a figure (.png, .svg, .pdf) or a LaTeX table (.tex)",
)
def plot(  # noqa: PLR0917 - Click calls it by keyword
    file: str,
    ys: tuple[str, ...],
    x: str | None,
    by: str | None,
    where: tuple[str, ...],
    kind: str,
    interval: str,
    log: frozenset[str] | None,
    size: tuple[float, float] | None,  # noqa: A002, RUF100
    font: str | None,
    font_size: float,
    dpi: int,
    look: str,
    title: str,
    out: str,
) -> None:
    """Draw a table of results, such as the rows of a sweep.

    A line has the mean over the seeds for each value of the x axis, with its 95 % confidence
    interval. Rows of one seed, such as the flows of a run, are averaged first.
    """
    from narrows.render import chart  # noqa: PLC0415 - it needs Arrow

    rows = chart.read(file)
    only = dict(_pair(one) for one in where)
    charts = [
        chart.chart(rows, y=y, x=x, by=by, kind=cast("chart.Kind", kind), where=only, name=file)
        for y in ys
    ]
    kernels = _kernels(rows)
    if out.endswith(".tex"):
        from narrows.render.latex import latex  # noqa: PLC0415

        texts = [latex(chart.table(one), about(kernels)) for one in charts]
        output.write(out, "\n".join(texts))
        return
    style = Style(
        inches=size,
        dpi=dpi,
        font=font,
        font_size=font_size,
        log=log or frozenset(),
        look=cast("Look", look),
    )
    spread = cast("chart.Spread", interval)
    chart.draw(charts, out, style=style, spread=spread, title=title, kernels=kernels)


def _pair(text: str) -> tuple[str, str]:
    column, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text}: write COLUMN=VALUE", param_hint="--where")
    return column, value


def _kernels(rows: Any) -> Sequence[str]:  # noqa: ANN401 - Arrow's table
    """The kernel rules of the rows: a column of them, or what `Run.save` wrote beside the rows."""
    for column in ("host.like", "like"):
        if column in rows.column_names:
            found = (str(one) for one in rows[column].to_pylist() if one is not None)
            return list(dict.fromkeys(found))
    kept = (rows.schema.metadata or {}).get(b"narrows.like")
    return [] if kept is None else [kept.decode(errors="replace")]
