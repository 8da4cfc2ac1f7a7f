"""Draws pictures in a terminal with Braille characters, which have eight dots each. Needs no
Matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rich.text import Text

from narrows.render.picture import Line, Picture

HEIGHT = 7
"""Height of the plot area of a picture, in lines of text."""

_LEFT = 9
_LEAST_WIDTH = 30
_COLOURS = ("blue", "red", "green", "magenta", "yellow", "cyan", "bright_blue", "bright_red")
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of the dots of a Braille character, by row and column."""


def heading(picture: Picture, name: str = "") -> str:
    """The heading of a picture: the name of its run, if given, and the quantity with its unit.

    >>> heading(Picture("", "Goodput", "", "goodput (Mbit/s)", "", []), "CUBIC")
    'CUBIC – goodput (Mbit/s)'
    >>> heading(Picture("", "Queue", "", "backlog (kB)", "", []))
    'Queue: backlog (kB)'
    """
    title, y = picture.title, picture.y
    if title == y:
        return f"{name} – {y}" if name else y
    if y.startswith(title.lower()):
        return f"{name} – {y}" if name else f"{y[:1].upper()}{y[1:]}"
    return f"{name} – {title[:1].lower()}{title[1:]}: {y}" if name else f"{title}: {y}"


_PERIOD = {"dashed": 6, "dotted": 5}
"""Period of dashed and dotted lines, in columns of dots, so that curves differ without colours."""

_DRAWN = 3
"""Length of each dash, in columns of dots."""


def draw(
    picture: Picture, width: int, start: float = 0, end: float | None = None, name: str = ""
) -> list[Text]:
    """A picture as lines of text, for the range from `start` to `end` of its x axis. The heading
    contains `name`, the name of its run.
    """
    columns = max(_LEAST_WIDTH, width - _LEFT - 1)
    lines = [line for line in picture.lines if any(y is not None for y in line.y)]
    right = end if end is not None else max((line.x[-1] for line in lines), default=1.0) or 1.0
    shown = [(line, *_points(line, start, right)) for line in lines]
    top = max((y for _, _, ys in shown for y in ys), default=1.0) or 1.0
    dots = [[0] * columns for _ in range(HEIGHT)]
    whose = [[""] * columns for _ in range(HEIGHT)]
    for line, xs, ys in shown:
        colour = _colour(line)
        for column, row in _raster(
            [(x - start) / (right - start) for x in xs],
            [y / top for y in ys],
            2 * columns,
            4 * HEIGHT,
            joined=line.style != "points",
        ):
            if column % _PERIOD.get(line.style, 1) >= _DRAWN:
                continue
            dots[row // 4][column // 2] |= _DOTS[row % 4][column % 2]
            whose[row // 4][column // 2] = colour
    out = [Text(heading(picture, name), style="bold")]
    for at in range(HEIGHT):
        label = {0: f"{top:.4g}", HEIGHT - 1: "0"}.get(at, "")
        text = Text(f"{label:>{_LEFT - 2}} ┤")
        for cell, colour in zip(dots[at], whose[at], strict=True):
            text.append(chr(0x2800 + cell) if cell else " ", style=colour)
        out.append(text)
    axis = f"{start:<{columns - 8}g}{f'{right:.4g}':>8}"
    out.append(Text(" " * _LEFT + axis))
    out.append(Text(" " * _LEFT + picture.x + "   ").append_text(_legend(lines)))
    out.append(Text(""))
    return out


def _colour(line: Line) -> str:
    nth = line.coloured
    return "" if nth is None else _COLOURS[nth % len(_COLOURS)]


def _legend(lines: Sequence[Line]) -> Text:
    signs = {"line": "─", "dashed": "╌", "dotted": "┈", "points": "·"}
    parts = [Text(f"{signs[line.style]} {line.label}", style=_colour(line)) for line in lines]
    return Text("  ").join(parts)


def _points(line: Line, start: float, end: float) -> tuple[list[float], list[float]]:
    # A line of at most two points is constant, and is drawn from one end of the axis to the other.
    x, y = (line.x, line.y) if line.x[2:] else ([start, end], [line.y[0], line.y[0]])
    known = [(x, y) for x, y in zip(x, y, strict=True) if y is not None and start <= x <= end]
    return [x for x, _ in known], [y for _, y in known]


def _raster(
    xs: list[float], ys: list[float], width: int, height: int, *, joined: bool
) -> set[tuple[int, int]]:
    """The dots of a curve whose coordinates are scaled to 0 to 1. Each column has all dots from its
    least to its greatest value, so that no extreme is lost.
    """
    spans: dict[int, tuple[float, float]] = {}
    for x, y in zip(xs, ys, strict=True):
        column = min(width - 1, int(x * width))
        low, high = spans.get(column, (y, y))
        spans[column] = (min(low, y), max(high, y))

    def row(y: float) -> int:
        return height - 1 - min(height - 1, max(0, int(y * height)))

    dots = {
        (column, r) for column, (low, high) in spans.items() for r in range(row(high), row(low) + 1)
    }
    if joined and xs:
        # Two consecutive samples are joined by a straight line.
        ordered = sorted(zip(xs, ys, strict=True))
        for (x, y), (x2, y2) in pairwise(ordered):
            a, b = (min(width - 1, int(v * width)) for v in (x, x2))
            for c in range(a, b):
                ends = sorted(row(y + (y2 - y) * (k - a) / (b - a)) for k in (c, c + 1))
                dots |= {(c, r) for r in range(ends[0], ends[1] + 1)}
    return dots
