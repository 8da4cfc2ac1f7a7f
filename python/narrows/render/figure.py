"""Matplotlib figures that a notebook displays, as PNG and as SVG.

This module imports Matplotlib. Therefore `narrows.render.plot.new_figure` imports this module only
when a figure is drawn.
"""

from __future__ import annotations

import io

import matplotlib as mpl
from matplotlib.figure import Figure as Bare

from narrows.render.plot import shown
from narrows.render.style import FILES


class Figure(Bare):
    """A figure that a notebook displays when the figure is the result of a cell."""

    def _repr_png_(self) -> bytes:
        """The picture as the content of a PNG file."""
        return self._picture("png")

    def _repr_svg_(self) -> str:
        """The picture as SVG, in which texts stay texts instead of outlines."""
        return self._picture("svg").decode()

    def _picture(self, format_: str) -> bytes:
        sink = io.BytesIO()
        metadata = {"Date": None} if format_ == "svg" else None
        with mpl.rc_context(FILES):
            self.savefig(sink, format=format_, metadata=metadata)
        return shown(sink.getvalue(), format_)
