"""Lines about each interval, while `narrows latency` runs: requests, replies and their RTT.

`narrows-host latency` computes the values. A request and its reply may belong to different
intervals, so an interval can have more replies than requests.
"""

from __future__ import annotations

from collections.abc import Sequence

_WIDTHS = (13, 8, 7, 12, 12, 12)

HEAD = "  ".join(
    name.rjust(width)
    for name, width in zip(
        ("time s", "requests", "replies", "min RTT ms", "mean RTT ms", "max RTT ms"),
        _WIDTHS,
        strict=True,
    )
)
"""The names of the columns."""


def line(words: Sequence[str]) -> str:
    """The line of an interval, from the words of a line of `narrows-host`.

    >>> line("0.000 1.000 1000 998 40012.4 40100 41500".split()).split()
    ['0.00–', '1.00', '1000', '998', '40.012', '40.100', '41.500']
    """
    begin, end, sent, answered, *rtts_us = words
    shown = ["–" if rtt == "-" else f"{float(rtt) / 1e3:.3f}" for rtt in rtts_us]
    cells = (f"{float(begin):6.2f}–{float(end):6.2f}", sent, answered, *shown)
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True))
