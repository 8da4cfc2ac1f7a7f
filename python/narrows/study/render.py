"""Output of a study in the terminal, as LaTeX and as a figure."""

from __future__ import annotations

import math
from os import PathLike
from textwrap import fill
from typing import TYPE_CHECKING

from narrows import _core
from narrows.render import tables
from narrows.render.latex import document
from narrows.render.plot import about, check, matplotlib, new_figure, scale_texts, write
from narrows.render.replications import cell
from narrows.render.style import FONT_SIZE, Style
from narrows.render.styled import table
from narrows.render.terminal import console
from narrows.render.words import HALF, number
from narrows.study.study import Found, Grid, Intervals
from narrows.sweeps.render import failed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["check", "draw", "shown", "tell"]

_WIDE = 3.4
_TALL = 3.0
_ACROSS = 3
_DARK = 0.45
_TITLE = 36
_WHOLE_PCT = 100.0
_CLOSE = 0.1
"""If the range of the values is less than this share of the largest value, the colour scale starts
at zero."""


def shown(grid: Grid, intervals: Intervals | None = None) -> tables.Table:
    """A grid as a table. With `intervals`, the cells are means with their confidence intervals."""
    cells = (
        [[number(value, grid.digits) for value in line] for line in grid.cells]
        if intervals is None
        else [[cell(one, most=grid.digits) for one in line] for line in intervals]
    )
    rows = [
        [tables.Cell(label), *map(tables.Cell, line)]
        for label, line in zip(grid.rows, cells, strict=True)
    ]
    return tables.Table(grid.title, (f"{grid.row} \\ {grid.column}",), tuple(grid.columns), rows)


def tell(found: Found) -> None:
    """Prints the question, the verdict and the tables."""
    out = console()
    out.print(found.study.question, style="bold")
    out.print(found.answer.verdict)
    for line in found.answer.words:
        out.print(line)
    for grid, one in zip(found.answer.grids, tables_of(found), strict=True):
        out.print(f"\n{grid.title}{f' ({grid.unit})' if grid.unit else ''}:")
        table(out, one)
    if any(found.intervals):
        out.print(f"\nEach value is the mean of {found.seeds} seeds. {HALF}")
    out.print(f"\nNumber of runs: {found.runs}.")
    for line in failed(found.failures):
        out.print(line, markup=False)


def tables_of(found: Found) -> list[tables.Table]:
    """The grids of a study as tables."""
    return [
        shown(grid, found.intervals[nth] if found.intervals else None)
        for nth, grid in enumerate(found.answer.grids)
    ]


def latex(found: Found) -> str:
    """The tables of a study as LaTeX."""
    return document(tables_of(found), f"{found.answer.verdict}\n{about(_kernels(found))}")


def draw(found: Found, file: str | PathLike[str], *, style: Style | None = None) -> None:
    """Draws each grid as a map, or the figure that the study defines.

    A figure that the study defines has its own text sizes, which are scaled with the font size of
    the style.

    Raises:
        NarrowsError: If Matplotlib is not installed.
        OutputError: If the file cannot be written.
    """
    mpl = matplotlib()
    style = style or Style()
    kernels = _kernels(found)
    format_ = check(file)
    grids = found.answer.grids
    across = 2 if len(grids) % _ACROSS and not len(grids) % 2 else min(_ACROSS, len(grids))
    down = math.ceil(len(grids) / across)
    with mpl.rc_context(style.rc() | {"font.size": style.pt(8)}):
        figure = new_figure(layout="constrained")
        if found.answer.picture is not None:
            found.answer.picture(figure)
            scale_texts(figure, style.font_size / FONT_SIZE)
        else:
            figure.set_size_inches(max(6.0, _WIDE * across), _TALL * down + 0.8)
            figure.suptitle(found.study.question)
            places = list(figure.subplots(down, across, squeeze=False).flat)
            for place, grid in zip(places, grids, strict=False):
                _map(place, grid, style)
            for place in places[len(grids) :]:
                place.set_visible(False)
        if style.inches is not None:
            figure.set_size_inches(*style.inches)
        write(figure, file, format_, kernels=kernels, dpi=style.dpi)


def _kernels(found: Found) -> list[str]:
    """The kernel rules (`host.like`) of the scenarios of a study, each once."""
    trees = [part.scenario.tree() for part in found.study.parts(False).values()]
    likes = [_core.scenario_defaults(tree)["host"]["like"] for tree in trees]
    return list(dict.fromkeys(map(str, likes)))


def _map(place: Axes, grid: Grid, style: Style) -> None:
    """Draws one grid as a map: cells with a colour and a number."""
    values = [[math.nan if value is None else value for value in line] for line in grid.cells]
    there = [value for line in values for value in line if not math.isnan(value)]
    if not there:
        place.set_visible(False)
        return
    if grid.middle is None:
        colours, least, most = "viridis", min(there), max(there)
        if least >= 0 and most - least < _CLOSE * most:
            least = 0.0
    else:
        # The same scale in each map: it begins at the least possible value, a gain of -100 % or a
        # ratio of 0. Larger values than its end have the last colour.
        reach = _WHOLE_PCT if grid.unit == "%" else grid.middle
        colours, least, most = "PuOr_r", grid.middle - reach, grid.middle + reach
    if style.look == "print":
        colours = "Greys"
    image = place.imshow(values, cmap=colours, vmin=least, vmax=most, aspect="auto")
    for r, line in enumerate(values):
        for c, value in enumerate(line):
            if not math.isnan(value):
                red, green, blue, _ = image.get_cmap()((value - least) / (most - least or 1.0))
                dark = 0.3 * red + 0.6 * green + 0.1 * blue < _DARK
                text = number(value, grid.digits)
                colour = "w" if dark else "k"
                size = style.pt(6)
                place.text(c, r, text, ha="center", va="center", size=size, color=colour)
    title = f"{grid.title}{f', {grid.unit}' if grid.unit else ''}"
    place.set_title(fill(title, _TITLE), fontsize=style.pt(8))
    place.set_xticks(range(len(grid.columns)), grid.columns, rotation=30, ha="right")
    place.set_yticks(range(len(grid.rows)), grid.rows)
    place.set_xlabel(grid.column)
    place.set_ylabel(grid.row)
