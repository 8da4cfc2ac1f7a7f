"""The appearance of a figure: size, fonts, resolution, axes, colours."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Any, Literal

from narrows.errors import NarrowsError

Look = Literal["screen", "print"]
"""`"screen"` is in colour, `"print"` in black and white."""

FONT_SIZE = 9.0
"""Default size of texts, in points."""

DPI = 120
"""Default resolution of PNG, in dots per inch."""

AXES = ("x", "y")
"""Names of the axes, each of which may be logarithmic."""

FILES: dict[str, Any] = {
    "svg.hashsalt": "narrows",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
}
"""Matplotlib settings for every file."""

_GENERIC = ("serif", "sans-serif", "monospace")
_INCH = {"mm": 25.4, "cm": 2.54, "in": 1.0}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)x([0-9]+(?:\.[0-9]+)?)(mm|cm|in)")
_LEAST_MM, _LARGEST_INCHES = 20.0, 50.0


@dataclass(frozen=True, kw_only=True)
class Style:
    """The appearance of a figure.

    Attributes:
        inches: Width and height, in inches; None for the default.
        dpi: Resolution of PNG, in dots per inch.
        font: A generic family (`serif`, `sans-serif`, `monospace`) or the name of a font.
        font_size: Size of texts in points.
        log: The axes that are logarithmic, of `x` and `y`.
        look: `"screen"` in colour, or `"print"` in black and white.
    """

    inches: tuple[float, float] | None = None
    dpi: float = DPI
    font: str | None = None
    font_size: float = FONT_SIZE
    log: frozenset[str] = frozenset()
    look: Look = "screen"

    def pt(self, points: float) -> float:
        """The size, in points, of a text whose size is `points` at the default font size; it grows
        with `font_size`.

        >>> Style(font_size=18).pt(8)
        16.0
        """
        return points * self.font_size / FONT_SIZE

    def rc(self) -> dict[str, Any]:
        """The Matplotlib settings of this style.

        Raises:
            NarrowsError: If the font is not installed.
        """
        found: dict[str, Any] = {**FILES, "font.size": self.font_size}
        found |= dict.fromkeys(("axes.titlesize", "legend.title_fontsize"), self.font_size)
        found |= {"legend.fontsize": 0.9 * self.font_size}
        if self.font is None:
            return found
        if self.font in _GENERIC:
            return found | {"font.family": self.font}
        from matplotlib.font_manager import fontManager  # noqa: PLC0415

        names = fontManager.get_font_names()
        if self.font not in names:
            near = difflib.get_close_matches(self.font, names, 3) or sorted(names)[:3]
            raise NarrowsError(
                f"--font {self.font}: is not installed; write {', '.join(_GENERIC)}, or a font "
                f"such as {', '.join(near)}"
            )
        return found | {"font.family": self.font}


def size(text: str) -> tuple[float, float]:
    """Width and height in inches.

    >>> size("84x60mm"), size("3.5x2.4in")
    ((3.307..., 2.362...), (3.5, 2.4))

    Raises:
        NarrowsError: If the text is not a size, or if a side is below 20 mm or above 50 inches.
    """
    match = _SIZE.fullmatch(text)
    sides = [float(match[nth]) / _INCH[match[3]] for nth in (1, 2)] if match else []
    least = _LEAST_MM / _INCH["mm"]
    if not sides or not all(least <= side <= _LARGEST_INCHES for side in sides):
        raise NarrowsError(
            f"{text}: not a size; write width and height from {_LEAST_MM:g} mm to "
            f"{_LARGEST_INCHES:g} inches: 84x60mm, 8.4x6cm or 3.3x2.4in"
        )
    return sides[0], sides[1]
