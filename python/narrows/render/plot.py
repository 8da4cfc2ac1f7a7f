"""Pictures by Matplotlib, which is an extra: `pip install 'narrows[plot]'`.

Colours are told apart by who does not see red and green alike, and flows by the kind of their line
as well: the style `"print"` needs no colour at all.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from importlib.util import find_spec
from os import PathLike
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal

from narrows.errors import NarrowsError
from narrows.render.pictures import EVERY, Line, Picture, pictures
from narrows.render.words import sentence
from narrows.storage import output
from narrows.storage.text import name_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from narrows.runs.run import Run

Look = Literal["screen", "print"]
"""In colour, or in black and white."""

FORMATS = (".png", ".svg", ".pdf")
"""What a picture may be written as."""

COLOURS = ("#0072b2", "#d55e00", "#007a5a", "#b0488a", "#7a5c00", "#3d7fb8", "#6a3d9a", "#4d4d4d")
"""Of the flows, one after the other; each is dark enough on white."""

_GREYS = ("#000000", "#555555", "#888888")
_DASHES: tuple[Any, ...] = (
    "-",
    (0, (6, 2)),
    (0, (2, 1.5)),
    (0, (8, 2, 2, 2)),
    (0, (1, 1)),
    (0, (4, 1, 1, 1, 1, 1)),
)
_MARKERS = "os^Dv*Px"
_MARKS = 9
"""Markers on a line in black and white: enough to find it, too few to hide it."""


_MISSING = (
    "plots need Matplotlib\n    write: pip install 'narrows[plot]'\n    without a file, "
    "--plot draws in the terminal"
)


def matplotlib() -> Any:  # noqa: ANN401 - a module
    """The package, or what to install."""
    try:
        import matplotlib as mpl  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise NarrowsError(_MISSING) from error
    return mpl


def check(file: str | PathLike[str]) -> str:
    """The format that a file's name asks for; Matplotlib is looked for and not imported, which
    takes half a second.

    Raises:
        NarrowsError: If the format is none of `FORMATS`, or if Matplotlib is not installed.
    """
    suffix = FilePath(file).suffix.lower()
    if suffix not in FORMATS:
        raise NarrowsError(
            f"{name_of(file)}: a plot is written as PNG, SVG or PDF\n"
            f"    write: --plot {FilePath(name_of(file)).stem}.png\n"
            f"    without a file, write --plot last, behind the scenario"
        )
    if find_spec("matplotlib") is None:
        raise NarrowsError(_MISSING)
    return suffix[1:]


def plot(
    run: Run,
    file: str | PathLike[str] | None = None,
    *,
    only: Sequence[str] = EVERY,
    look: Look = "screen",
) -> Figure:
    """Draws one run; see `Run.plot`."""
    return compare_plot([run], file, only=only, look=look)


def compare_plot(
    runs: Sequence[Run],
    file: str | PathLike[str] | None = None,
    *,
    names: Sequence[str] | None = None,
    only: Sequence[str] = EVERY,
    look: Look = "screen",
) -> Figure:
    """Draws runs side by side, a column each; the axes of a row are the same.

    >>> import narrows as nw
    >>> path = nw.Path(rate="20Mbit", rtt="20ms", buffer="1bdp")
    >>> two = [nw.run(nw.Scenario(path, flows=[nw.Flow(cc)], duration="2s")) for cc in ("cubic",
    ...     "bbr")]
    >>> figure = nw.compare_plot(two, only=["throughput", "queue"])
    >>> len(figure.axes)
    4

    Args:
        runs: What to draw.
        file: Where to write it, as PNG, SVG or PDF by its name; without it the figure is only
            answered.
        names: Of the runs; their scenarios' titles by default.
        only: Which pictures: throughput, rtt, window, queue, losses, delay.
        look: `"screen"` in colour, `"print"` in black and white.

    Raises:
        NarrowsError: If Matplotlib is not installed, there is nothing to draw, or a name is not
            known.
        OutputError: If the file cannot be written.
    """
    matplotlib()
    if not runs:
        raise NarrowsError("compare_plot needs a run")
    if file is not None:
        check(file)
    unknown = [key for key in only if key not in EVERY]
    if unknown or look not in {"screen", "print"}:
        known = (
            f"`{unknown[0]}` among the pictures; known: {', '.join(EVERY)}"
            if unknown
            else f"look `{look}`"
        )
        raise NarrowsError(f"there is no {known}")
    titles = [
        names[at] if names else run.json["scenario"].get("title") or f"seed {run.json['seed']}"
        for at, run in enumerate(runs)
    ]
    titles = [
        f"{title}\n{_wrapped(sentence(run.json))}" for title, run in zip(titles, runs, strict=True)
    ]
    columns = [
        (title, [p for p in pictures(run) if p.key in only])
        for title, run in zip(titles, runs, strict=True)
    ]
    return draw_columns(columns, file, look=look)


def draw_columns(
    columns: Sequence[tuple[str, Sequence[Picture]]],
    file: str | PathLike[str] | None = None,
    *,
    look: Look = "screen",
) -> Figure:
    """Draws pictures under their titles, a column each; the axes of a row are the same.

    Raises:
        NarrowsError: If Matplotlib is not installed.
        OutputError: If the file cannot be written.
    """
    mpl = matplotlib()
    # Without pyplot there is no window and no global state.
    from matplotlib.figure import Figure as New  # noqa: PLC0415

    format_ = check(file) if file is not None else None
    drawn = [{p.key: p for p in shown} for _, shown in columns]
    keys = [key for key in EVERY if any(key in row for row in drawn)]
    with mpl.rc_context({"svg.hashsalt": "narrows", "font.size": 9, "axes.titlesize": 9}):
        figure = New(figsize=(max(8, 5 * len(columns)), 2 * len(keys) + 0.8), layout="constrained")
        # Time axes of one run are linked, and so are both axes of a row.
        axes: Any = figure.subplots(max(1, len(keys)), len(columns), squeeze=False, sharey="row")
        _link(axes, keys)
        for column, ((title, _), row) in enumerate(zip(columns, drawn, strict=True)):
            for at, key in enumerate(keys):
                if key in row:
                    _draw(axes[at][column], row[key], look)
            axes[0][column].set_title(title, fontsize=8, loc="left")
        if file is not None:
            write(figure, file, format_)
    return figure


_LEGEND = 12
"""So many lines of a legend are as high as a picture."""


def _wrapped(text: str) -> str:
    first, _, rest = text.partition("; ")
    return f"{first};\n{rest}" if rest else first


def _link(axes: Any, keys: Sequence[str]) -> None:  # noqa: ANN401 - an array of Axes
    for key_is_time in (True, False):
        rows = [
            row for row, key in zip(axes, keys, strict=False) if (key != "delay") == key_is_time
        ]
        every = [ax for row in rows for ax in row]
        for ax in every[1:]:
            ax.sharex(every[0])


def _draw(ax: Axes, picture: Picture, look: Look) -> None:
    others = 0
    for line in picture.lines:
        nth = line.flow if line.flow is not None else others
        others += line.flow is None
        ax.plot(
            line.x,
            [math.nan if y is None else y for y in line.y],
            label=line.label,
            **_form(line, nth, look),
        )
    ax.set_xlabel(picture.x, fontsize=8)
    ax.set_ylabel(picture.y, fontsize=8)
    ax.margins(x=0.01)
    ax.set_ylim(bottom=0)
    ax.set_xlim(left=0)
    ax.grid(visible=True, linewidth=0.4, alpha=0.5)
    ax.tick_params(labelsize=8)
    shown = _in_legend(ax.get_lines(), picture.lines)
    ax.legend(
        handles=shown,
        fontsize=7,
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        frameon=False,
        handlelength=3,
    )


def _in_legend(drawn: Sequence[Any], lines: Sequence[Line]) -> list[Any]:
    """The lines that the legend has room for: those of no flow, and the first flows'."""
    if len(lines) <= _LEGEND:
        return list(drawn)
    from matplotlib.lines import Line2D  # noqa: PLC0415

    others = sum(line.flow is None for line in lines)
    room = max(1, _LEGEND - 1 - others)
    flows = [one for one, line in zip(drawn, lines, strict=True) if line.flow is not None]
    rest = [one for one, line in zip(drawn, lines, strict=True) if line.flow is None]
    more = Line2D([], [], linestyle="none", label=f"and {len(flows) - room} more")
    return [*flows[:room], *([more] if len(flows) > room else []), *rest]


def _form(line: Line, nth: int, look: Look) -> dict[str, Any]:
    """How a line is drawn; `nth` counts flows, or what is no flow's."""
    if line.style == "points":
        colour = "#999999"
        return {"linestyle": "none", "marker": ".", "markersize": 2, "color": colour, "zorder": 1}
    width = {"line": 1.3, "dashed": 0.9, "dotted": 1.0}[line.style]
    if look == "print":
        # Each flow has a kind of line and a marker; its second line is the same, thinner and grey.
        grey = _GREYS[0 if line.style == "line" else 1 if line.style == "dashed" else 2]
        every = max(1, len(line.x) // _MARKS)
        return {
            "color": grey,
            "linestyle": ":" if line.style == "dotted" else _DASHES[nth % len(_DASHES)],
            "linewidth": width,
            "marker": "" if line.style == "dotted" else _MARKERS[nth % len(_MARKERS)],
            "markersize": 3.5,
            "markevery": (every * nth // 7 % every, every),
            "fillstyle": "full" if line.style == "line" else "none",
        }
    colour = (
        COLOURS[nth % len(COLOURS)] if line.flow is not None else ("#000000", "#777777")[nth % 2]
    )
    again = nth // len(COLOURS)
    solid: Any = ("-", (0, (6, 2)), (0, (2, 1.5)))[again % 3]
    style: Any = {"line": solid, "dashed": (0, (3, 2)), "dotted": ":"}[line.style]
    return {"color": colour, "linestyle": style, "linewidth": width}


def write(figure: Figure, file: str | PathLike[str], format_: str | None) -> None:
    """Writes a picture; the same figure gives the same file."""
    # No date: the same run gives the same file.
    dateless = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    sink = io.BytesIO()
    figure.savefig(sink, format=format_, dpi=120, metadata=dateless.get(format_ or "", {}))
    output.write(file, sink.getvalue())
