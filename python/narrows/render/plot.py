"""Draws pictures with Matplotlib, an optional dependency: `pip install 'narrows[plot]'`.

Readers with red-green colour blindness can distinguish the colours. The look `"print"` needs no
colour: flows differ by dashes and markers.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from os import PathLike
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from narrows import _core
from narrows.errors import NarrowsError
from narrows.render.picture import EVERY, KEYS, MOST_FLOWS, Line, Picture
from narrows.render.style import DPI, FILES, Look, Style
from narrows.render.terminal import printable
from narrows.storage import output
from narrows.storage.command_line import command
from narrows.storage.text import name_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from narrows.render.figure import Figure
    from narrows.runs.run import Run

FORMATS = (".png", ".svg", ".pdf")
"""File name suffixes of the supported formats."""

COLOURS = ("#0072b2", "#d55e00", "#007a5a", "#b0488a", "#7a5c00", "#3d7fb8", "#6a3d9a", "#4d4d4d")
"""Colours of the flows, in this order; each has enough contrast on white."""

GREYS = ("#000000", "#555555", "#888888")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (6, 2)),
    (0, (2, 1.5)),
    (0, (8, 2, 2, 2)),
    (0, (1, 1)),
    (0, (4, 1, 1, 1, 1, 1)),
)
MARKERS = "os^Dv*Px"
_MARKS = 9
"""Approximate number of markers on each line in black and white."""


_MISSING = (
    "plots need Matplotlib\n    write: pip install 'narrows[plot]'\n    without a file, "
    "--plot draws in the terminal"
)


def matplotlib() -> Any:  # noqa: ANN401 - a module
    """The package Matplotlib. If it is not installed, the function raises an error that contains
    the command to install it.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise NarrowsError(_MISSING) from error
    return mpl


def new_figure(**attributes: Any) -> Figure:  # noqa: ANN401 - Matplotlib's own
    """An empty figure, which a notebook displays if it is the result of a cell.

    The function does not use pyplot, so that there is no window and no global state.
    """
    from narrows.render.figure import Figure as New  # noqa: PLC0415

    return New(**attributes)


@contextmanager
def drawing(
    file: str | PathLike[str] | None,
    style: Style,
    size: tuple[float, float],
    kernels: Sequence[str] = (),
) -> Iterator[Figure]:
    """An empty figure of the size of the style, or of `size` in inches. At the end, it is written
    to `file` if there is one.

    Raises:
        NarrowsError: If Matplotlib is not installed, or if `write` refuses the figure.
        OutputError: If the file cannot be written.
    """
    mpl = matplotlib()
    format_ = check(file) if file is not None else None
    with mpl.rc_context(style.rc()):
        figure = new_figure(figsize=style.inches or size, layout="constrained")
        yield figure
        if file is not None:
            write(figure, file, format_, kernels=kernels, dpi=style.dpi)


def scale_texts(figure: Figure, factor: float) -> None:
    """Multiplies the sizes of all texts of a figure, tick labels included."""
    from matplotlib.text import Text  # noqa: PLC0415

    if factor == 1:
        return
    ticks = [axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)]
    # Matplotlib creates tick labels anew when it draws a figure. The present ones give only the
    # font size, which is then set on the axis.
    labels = [axis.get_ticklabels() for axis in ticks]
    sizes = [float(of[0].get_fontsize()) if of else 0.0 for of in labels]
    for text in figure.findobj(Text):
        text.set_fontsize(float(text.get_fontsize()) * factor)
    for axis, size in zip(ticks, sizes, strict=True):
        if size:
            axis.set_tick_params(labelsize=size * factor)


def check(file: str | PathLike[str], *, optional: bool = False) -> str:
    """The format (`png`, `svg` or `pdf`) that the suffix of a file name selects.

    The function searches Matplotlib without importing it, because an import takes half a second.

    Args:
        file: The file.
        optional: Whether the option of the file may have no value, for a plot in the terminal.

    Raises:
        NarrowsError: If the format is none of `FORMATS`, or if Matplotlib is not installed.
    """
    suffix = FilePath(file).suffix.lower()
    if suffix not in FORMATS:
        last = "\n    without a file, write --plot last" if optional else ""
        raise NarrowsError(
            f"{name_of(file)}: a plot is written as PNG, SVG or PDF\n"
            f"    write: --plot {FilePath(name_of(file)).stem}.png{last}"
        )
    if find_spec("matplotlib") is None:
        raise NarrowsError(_MISSING)
    return suffix[1:]


def draw_columns(
    columns: Sequence[tuple[str, Sequence[Picture]]],
    file: str | PathLike[str] | None = None,
    *,
    look: Look = "screen",
    style: Style | None = None,
    kernels: Sequence[str] = (),
) -> Figure:
    """Draws one column of pictures for each element of `columns`, under its title. The y axis of a
    row is shared.

    A `style` replaces `look`.

    Raises:
        NarrowsError: If Matplotlib is not installed.
        OutputError: If the file cannot be written.
    """
    style = style or Style(look=look)
    drawn = [{p.key: p for p in shown} for _, shown in columns]
    first = [key for key in EVERY if any(key in row for row in drawn)]
    keys = list(dict.fromkeys([*first, *(key for row in drawn for key in row)]))
    highs = [_height([row[key] for row in drawn if key in row], style) for key in keys]
    size = (max(8, 5 * len(columns)), sum(highs) + 0.8)
    with drawing(file, style, size, kernels) as figure:
        ratios = {"height_ratios": highs} if len(set(highs)) > 1 else {}
        # All time axes are linked, and so are the y axes of a row.
        axes: Any = figure.subplots(
            max(1, len(keys)), len(columns), squeeze=False, sharey="row", gridspec_kw=ratios
        )
        _link(axes, keys)
        for column, ((title, _), row) in enumerate(zip(columns, drawn, strict=True)):
            for at, key in enumerate(keys):
                if key in row:
                    _draw(axes[at][column], row[key], style)
            axes[0][column].set_title(title, fontsize=style.pt(8), loc="left")
    return figure


_LEGEND = 12
"""Maximum number of entries of a legend for lines that belong to no queue."""

_LEGEND_QUEUES = 40
"""Maximum number of entries of a legend for the queues of a network."""

_FEW_POINTS = 20
"""Number of points of a line up to which each point is drawn large."""

_HEIGHT, _AXIS = 2.0, 0.35
"""Least height of a picture, and the height of the texts below it, in inches."""

_ENTRY_PT = 11.7
"""Height of an entry of a legend at the default font size, in points."""


def _height(shown: Sequence[Picture], style: Style) -> float:
    """The height of a row of pictures in inches, with room for the longest legend."""
    most = max((_entries(picture.lines) for picture in shown), default=0)
    return max(_HEIGHT, round(style.pt(_ENTRY_PT) * most / 72 + _AXIS, 2))


def _entries(lines: Sequence[Line]) -> int:
    """The number of entries of a legend; see `_in_legend`."""
    queues = sum(line.queue is not None for line in lines)
    return min(len(lines) - queues, _LEGEND) + min(queues, _LEGEND_QUEUES)


def check_room(file: str | PathLike[str], style: Style | None, *, flows: int, queues: int) -> None:
    """Checks that the plots of a run fit into the size of a figure, before the run. Its flows,
    queues and texts are replaced by short ones.

    Raises:
        NarrowsError: If Matplotlib is not installed, or the plots do not fit.
    """
    if style is None:
        return
    senders = [Line("a", nth, "line", [0, 1], [0, 1]) for nth in range(min(flows, MOST_FLOWS))]
    links = [
        Line("a", None, "line", [0, 1], [0, 1], queue=nth if queues > 1 else None)
        for nth in range(queues)
    ]
    lines = {"queue": links, "delay": links, "losses": [*links, *senders]}
    shown = [Picture(key, key, "x", "y", "", lines.get(key, senders)) for key in KEYS]
    figure = draw_columns([("a\na", shown)], style=style)
    with matplotlib().rc_context(style.rc()), fitting(figure, file):
        figure.draw_without_rendering()


@contextmanager
def fitting(figure: Figure, file: str | PathLike[str]) -> Iterator[None]:
    """Turns Matplotlib's warning that plots do not fit into an error, which names `file`."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "constrained_layout not applied")
        try:
            yield
        except UserWarning as error:
            wide, high = (25.4 * side for side in figure.get_size_inches())
            count = len(figure.axes)
            plots = "1 plot has" if count == 1 else f"{count} plots have"
            larger = f"{max(60, wide):.0f}x{max(40, 2 * high):.0f}mm"
            raise NarrowsError(
                f"{name_of(file)}: {plots} no room in {wide:.0f}x{high:.0f}mm\n"
                f"    write a larger size, such as --size {larger}"
            ) from error


_DISTRIBUTIONS = frozenset({"delay", "tradeoff", "work"})
"""The pictures whose x axis is not the time of the run, but a delay or a response time."""


def _link(axes: Any, keys: Sequence[str]) -> None:  # noqa: ANN401 - an array of Axes
    """Gives all x axes of the same quantity the same range."""
    alike: dict[str, list[Axes]] = {}
    for row, key in zip(axes, keys, strict=False):
        alike.setdefault(key if key in _DISTRIBUTIONS else "time", []).extend(row)
    for first, *others in alike.values():
        for ax in others:
            ax.sharex(first)


def _draw(ax: Axes, picture: Picture, style: Style) -> None:
    others = 0
    for line in picture.lines:
        nth = line.coloured if line.coloured is not None else others
        others += line.coloured is None
        ax.plot(
            line.x,
            [math.nan if y is None else y for y in line.y],
            label=line.label,
            # The frame may be at a single point; it must not hide a half of it.
            clip_on=len(line.x) > 1,
            **_form(line, nth, style.look),
        )
        if line.low is not None and line.high is not None:
            low, high = (
                [math.nan if y is None else y for y in end] for end in (line.low, line.high)
            )
            colour = _form(line, nth, style.look)["color"]
            ax.fill_between(line.x, low, high, color=colour, alpha=0.2, linewidth=0)
    ax.set_xlabel(picture.x, fontsize=style.pt(8))
    ax.set_ylabel(picture.y, fontsize=style.pt(8))
    ax.margins(x=0.01)
    # A logarithmic axis shows only values above zero.
    if "y" in style.log and any(y and y > 0 for line in picture.lines for y in line.y):
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=0)
    if "x" in style.log:
        ax.set_xscale("log")
    else:
        ax.set_xlim(left=0)
    ax.grid(visible=True, linewidth=0.4, alpha=0.5)
    ax.tick_params(labelsize=style.pt(8))
    shown = _in_legend(ax.get_lines(), picture.lines)
    ax.legend(
        handles=shown,
        fontsize=style.pt(7),
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        frameon=False,
        handlelength=3,
    )


def _in_legend(drawn: Sequence[Any], lines: Sequence[Line]) -> list[Any]:
    """The entries of the legend: lines that belong to no flow, and as many flows and queues as
    there is room for. Entries count the remaining ones.
    """
    if len(lines) <= _LEGEND:
        return list(drawn)
    pairs = list(zip(drawn, lines, strict=True))
    flows = [one for one, line in pairs if line.flow is not None]
    queues = [one for one, line in pairs if line.queue is not None]
    rest = [one for one, line in pairs if line.coloured is None]
    return [*_first(flows, max(1, _LEGEND - len(rest))), *_first(queues, _LEGEND_QUEUES), *rest]


def _first(entries: list[Any], most: int) -> list[Any]:
    """At most `most` entries of a legend; if there are more, the last one counts the rest."""
    if len(entries) <= most:
        return entries
    from matplotlib.lines import Line2D  # noqa: PLC0415

    shown = entries[: max(1, most - 1)]
    return [*shown, Line2D([], [], linestyle="none", label=f"and {len(entries) - len(shown)} more")]


def _form(line: Line, nth: int, look: Look) -> dict[str, Any]:
    """The Matplotlib properties of a line; `nth` is the index of its flow or queue, or its index
    among the other lines.
    """
    if line.style == "points":
        colours = GREYS if look == "print" else COLOURS
        colour = "#999999" if line.coloured is None else colours[nth % len(colours)]
        many = len(line.x) > _FEW_POINTS
        marker = MARKERS[nth % len(MARKERS)] if look == "print" and not many else "."
        size = 2 if many else 8
        return {
            "linestyle": "none", "marker": marker, "markersize": size, "color": colour, "zorder": 1
        }  # fmt: skip
    width = {"line": 1.3, "dashed": 0.9, "dotted": 1.0}[line.style]
    if look == "print":
        # Each flow has its own dashes and marker. Its second line has the same, but is thinner and
        # grey.
        grey = GREYS[0 if line.style == "line" else 1 if line.style == "dashed" else 2]
        every = max(1, len(line.x) // _MARKS)
        return {
            "color": grey,
            "linestyle": ":" if line.style == "dotted" else DASHES[nth % len(DASHES)],
            "linewidth": width,
            "marker": "" if line.style == "dotted" else MARKERS[nth % len(MARKERS)],
            "markersize": 3.5,
            "markevery": (every * nth // 7 % every, every),
            "fillstyle": "full" if line.style == "line" else "none",
        }
    colour = (
        COLOURS[nth % len(COLOURS)]
        if line.coloured is not None
        else ("#000000", "#777777")[nth % 2]
    )
    again = nth // len(COLOURS)
    solid: Any = ("-", (0, (6, 2)), (0, (2, 1.5)))[again % 3]
    style: Any = {"line": solid, "dashed": (0, (3, 2)), "dotted": ":"}[line.style]
    return {"color": colour, "linestyle": style, "linewidth": width}


def about(kernels: Sequence[str] = ()) -> str:
    """The command, the version and the kernel rules with which an output was made, in one line.

    >>> about(["linux-6.12"])
    'Command: Python. Version: narrows ... Kernel rules: linux-6.12.'
    """
    rules = f" Kernel rules: {', '.join(kernels)}." if kernels else ""
    return f"Command: {command()}. Version: narrows {_core.__version__}.{rules}"


def kernels_of(runs: Sequence[Run]) -> list[str]:
    """The kernel rules of simulated runs, and the kernel of other runs, each once."""
    found = (
        run.json["scenario"]["host"]["like"]
        if run.json["engine"] == "sim"
        else run.json["instruments"]["kernel"]
        for run in runs
    )
    return list(dict.fromkeys(found))


MOST_PIXELS = 200e6
"""Maximum number of pixels of a PNG, which need 800 MB of memory."""


def shown(picture: bytes, format_: str) -> bytes:
    """The content of a picture's file. In SVG, control characters in texts are made visible."""
    return printable(picture.decode()).encode() if format_ == "svg" else picture


def write(
    figure: Figure,
    file: str | PathLike[str],
    format_: str | None = None,
    *,
    kernels: Sequence[str] = (),
    dpi: float = DPI,
) -> None:
    """Writes a picture, with the command, the version and the kernel rules in its metadata.

    The same figure of the same command gives the same file. PDF embeds TrueType fonts (Type 42), as
    publishers require. SVG contains texts as text, which other programs can edit.

    Raises:
        NarrowsError: If the plots do not fit into the size of the figure, or if a PNG has too many
            pixels.
        OutputError: If the file cannot be written.
    """
    format_ = format_ or check(file)
    version = f"narrows {_core.__version__}"
    # Without a date, the same run gives the same file.
    metadata: dict[str, dict[str, str | None]] = {
        "png": {"Software": version, "Description": about(kernels)},
        "svg": {"Date": None, "Creator": version, "Description": about(kernels)},
        "pdf": {"CreationDate": None, "Creator": version, "Subject": about(kernels)},
    }
    pixels = math.prod(side * dpi for side in figure.get_size_inches())
    if format_ == "png" and pixels > MOST_PIXELS:
        raise NarrowsError(
            f"{name_of(file)}: {pixels / 1e6:.0f} million pixels; a figure has at most "
            f"{MOST_PIXELS / 1e6:.0f} million\n"
            f"    write a smaller --size, or --dpi {dpi * math.sqrt(MOST_PIXELS / pixels):.0f}"
        )
    sink = io.BytesIO()
    with matplotlib().rc_context(FILES), fitting(figure, file):
        figure.savefig(sink, format=format_, dpi=dpi, metadata=metadata[format_])
    output.write(file, shown(sink.getvalue(), format_))
