"""The picture of a run's network as a Matplotlib figure; see `narrows.render.layout`."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from narrows.render.layout import Curve, Drawing, draw
from narrows.render.plot import drawing, matplotlib
from narrows.render.style import Look, Style
from narrows.render.topology import graph

if TYPE_CHECKING:
    from narrows.render.figure import Figure
    from narrows.runs.model import RunJson

_INCH = 96.0
"""Pixels of the layout in an inch."""

_LEVELS = (
    (0.5, "#5f6f7e", "#999999", "below 50 %"),
    (0.9, "#00689f", "#666666", "50 to 90 %"),
    (2.0, "#b83c0a", "#000000", "from 90 %"),
)
"""Upper end of a range of the load, its colours on the screen and in print, and its name."""

_HINTING = 1.08
"""Maximum ratio of the drawn width of a text to its width without hinting of the font."""

_MARGIN_PX = 12.0
"""Space at the sides of a title."""


def plot_networks(
    columns: Sequence[tuple[str, RunJson]],
    file: str | PathLike[str] | None,
    *,
    look: Look,
    style: Style | None,
    kernels: Sequence[str],
) -> Figure:
    """Draws the networks of runs side by side, each under its title.

    Raises:
        NarrowsError: If Matplotlib is not installed.
        OutputError: If the file cannot be written.
    """
    style = style or Style(look=look)
    drawn = [(title, draw(graph(figures))) for title, figures in columns]
    wide = sum(max(360.0, one.width, _title_px(title, style)) for title, one in drawn) / _INCH
    high = max(one.height for _, one in drawn) / _INCH + 1.0
    with drawing(file, style, (wide, high), kernels) as figure:
        axes: Any = figure.subplots(1, len(drawn), squeeze=False)
        for ax, (title, one) in zip(axes[0], drawn, strict=True):
            _draw(ax, one, style)
            _name_colours(ax, one, style)
            ax.set_title(title, fontsize=style.pt(8), loc="left")
    return figure


def _title_px(title: str, style: Style) -> float:
    """The width of a title with its margins, in pixels of the layout."""
    with matplotlib().rc_context(style.rc()):
        from matplotlib.textpath import TextPath  # noqa: PLC0415

        lines = [TextPath((0, 0), line, size=style.pt(8)) for line in title.splitlines() if line]
    points = max((line.get_extents().width for line in lines), default=0.0)
    return float(points) * _HINTING * _INCH / 72 + _MARGIN_PX


def _name_colours(ax: Any, network: Drawing, style: Style) -> None:  # noqa: ANN401 - Axes
    from matplotlib.lines import Line2D  # noqa: PLC0415

    if all(curve.link.load is None for curve in network.curves):
        return
    which = 2 if style.look == "print" else 1
    lines = [
        Line2D([], [], color=level[which], linewidth=width, label=level[3])
        for level, width in zip(_LEVELS, (1.5, 3.0, 4.0), strict=True)
    ]
    ax.legend(
        handles=lines, title="utilisation", title_fontsize=style.pt(8), fontsize=style.pt(8),
        loc="upper left", bbox_to_anchor=(0, 0), ncols=len(lines), frameon=False,
        alignment="left",
    )  # fmt: skip


def _draw(ax: Any, network: Drawing, style: Style) -> None:  # noqa: ANN401 - Axes
    ax.set_xlim(0, network.width)
    ax.set_ylim(network.height, 0)
    ax.set_aspect("equal", anchor="W")
    ax.axis("off")
    for curve in network.curves:
        _draw_link(ax, curve, style)
    x, y = zip(*network.nodes, strict=True)
    ax.plot(x, y, "o", markersize=6, markerfacecolor="white", markeredgecolor="black", zorder=3)
    aligned = {"start": "left", "middle": "center", "end": "right"}
    for text in network.texts:
        ax.text(
            text.x,
            text.y - 4,
            "".join(part.text for part in text.parts),
            ha=aligned[text.anchor],
            va="center",
            fontsize=style.pt(8),
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.8},
            parse_math=False,
            zorder=4,
        )


def _draw_link(ax: Any, curve: Curve, style: Style) -> None:  # noqa: ANN401 - Axes
    from matplotlib.patches import PathPatch  # noqa: PLC0415
    from matplotlib.path import Path  # noqa: PLC0415

    load = curve.link.load
    level = next(level for level in _LEVELS if (load or 0) < level[0])
    colour = "#4a4f55" if load is None else level[2 if style.look == "print" else 1]
    path = Path([curve.start, curve.control, curve.end], [Path.MOVETO, Path.CURVE3, Path.CURVE3])
    width = 1.0 + 3.0 * min(1.0, load or 0.1)
    ax.add_patch(PathPatch(path, facecolor="none", edgecolor=colour, linewidth=width, zorder=1))
    x, y, angle = curve.arrow()
    # Matplotlib's angles are those of a picture whose y increases upwards.
    marker = (3, 0, -angle - 90)
    ax.plot([x], [y], marker=marker, markersize=4 + width, color=colour, zorder=2)
