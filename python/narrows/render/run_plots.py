"""Plots of runs: Matplotlib figures with one column for each run, and plots in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

from rich.text import Text

from narrows.errors import NarrowsError
from narrows.render.network_plot import plot_networks
from narrows.render.picture import EVERY, NETWORK, STATE
from narrows.render.pictures import pictures
from narrows.render.plot import check, draw_columns, kernels_of, matplotlib
from narrows.render.sketch import draw
from narrows.render.style import Look, Style
from narrows.render.words import sentence

if TYPE_CHECKING:
    from narrows.render.figure import Figure
    from narrows.runs.run import Run


def plot(
    run: Run,
    file: str | PathLike[str] | None = None,
    *,
    only: Sequence[str] | None = None,
    look: Look = "screen",
    style: Style | None = None,
) -> Figure:
    """Draws one run; see `Run.plot`."""
    return compare_plot([run], file, only=EVERY if only is None else only, look=look, style=style)


def compare_plot(
    runs: Sequence[Run],
    file: str | PathLike[str] | None = None,
    *,
    names: Sequence[str] | None = None,
    only: Sequence[str] = EVERY,
    look: Look = "screen",
    style: Style | None = None,
) -> Figure:
    """Draws runs side by side, one column for each run; the axes of a row are shared.

    >>> import narrows as nw
    >>> path = nw.Path(rate="20Mbit", rtt="20ms", buffer="1bdp")
    >>> two = [nw.run(nw.Scenario(path, flows=[nw.Flow(cc)], duration="2s")) for cc in ("cubic",
    ...     "bbr")]
    >>> figure = nw.compare_plot(two, only=["throughput", "queue"])
    >>> len(figure.axes)
    4

    Args:
        runs: The runs to draw.
        file: The file to write; its suffix selects PNG, SVG or PDF. Without it, the figure is only
            returned.
        names: Names of the runs; by default the titles of their scenarios, or their seeds.
        only: The pictures to draw: throughput, rtt, window, queue, losses, delay, work, state; all
            but the last by default. Or `["network"]` alone: nodes and links, with load and loss.
        look: `"screen"` in colour, `"print"` in black and white.
        style: Size, fonts, resolution, axes and colours of the figure, instead of `look`.

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
    unknown = [key for key in only if key not in {*EVERY, STATE, NETWORK}]
    if unknown or look not in {"screen", "print"}:
        known = (
            f"`{unknown[0]}` among the plots; known: {', '.join((*EVERY, NETWORK))}"
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
    if NETWORK in only:
        if len(only) > 1:
            raise NarrowsError(
                f'`{NETWORK}` cannot be drawn with other plots; write only=["{NETWORK}"]'
            )
        shown = [(title, run.json) for title, run in zip(titles, runs, strict=True)]
        return plot_networks(shown, file, look=look, style=style, kernels=kernels_of(runs))
    columns = [
        (title, [p for p in pictures(run, only) if p.key.partition(".")[0] in only])
        for title, run in zip(titles, runs, strict=True)
    ]
    return draw_columns(columns, file, look=look, style=style, kernels=kernels_of(runs))


def sketch(run: Run, width: int, only: Sequence[str] = EVERY) -> list[Text]:
    """The pictures of a run as lines of text, at most `width` characters wide."""
    return [
        line
        for picture in pictures(run, only)
        if picture.key.partition(".")[0] in only
        for line in draw(picture, width)
    ]


def _wrapped(text: str) -> str:
    first, _, rest = text.partition("; ")
    return f"{first};\n{rest}" if rest else first
