"""Renders a sweep: its progress, and the medians over all cases by congestion control."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from narrows.render import tables
from narrows.render.progress import ProgressBar
from narrows.render.styled import table
from narrows.render.terminal import console
from narrows.render.words import fine, number, percent, waited

if TYPE_CHECKING:
    from narrows.sweeps.store import Medians
    from narrows.sweeps.sweeping import Sweep

_FIGURES = (
    ("goodput_mbit", "goodput Mbit/s"),
    ("queue_delay_p95_ms", "bottleneck queueing delay p95 ms"),
)

_APPLICATION = (
    ("page_load_p95_s", "page load p95 s", 2),
    ("completion_p99_ms", "completion p99 ms", 0),
    ("fct_s", "completion s", 2),
    ("response_p95_ms", "response p95 ms", 1),
    ("mos", "MOS", 2),
    ("stalled_s", "stalled s", 2),
    ("udp_loss", "datagrams lost", None),
)
"""Metrics of applications, shown if a flow has them: column, heading, and number of decimal places.
None instead of a number means that the value is a share, shown in percent.
"""

SHOWN = [
    *(name for name, _ in _FIGURES),
    "summary_retransmit_rate",
    *(name for name, _, _ in _APPLICATION),
]
"""Columns of a sweep whose medians are shown."""

_FEW = 5
"""Maximum number of reasons that are printed; the directory of results contains all failures."""


def summary(medians: Medians) -> tables.Table:
    """A table with a row for each congestion control: medians over all rows of the sweep with
    it.
    """
    seen = [one for one in _APPLICATION if any(of[one[0]] is not None for of in medians.values())]
    lines = []
    for cc, of in medians.items():
        figures = [number(of["goodput_mbit"], 2), waited(of["queue_delay_p95_ms"])]
        also = [
            percent(of[name]) if digits is None else fine(of[name], digits)
            for name, _, digits in seen
        ]
        cells = [cc, str(of["rows"]), *figures, percent(of["summary_retransmit_rate"]), *also]
        lines.append([tables.Cell(cell) for cell in cells])
    heads = (
        "rows",
        *(head for _, head in _FIGURES),
        "retransmission rate",
        *(head for _, head, _ in seen),
    )
    return tables.Table("Medians", ("cc",), heads, lines)


def show(asked: Sweep, rows: int, medians: Medians) -> None:
    """Prints the medians, and the failed runs."""
    out = console()
    keys = ", ".join(asked.design.keys)
    runs = (
        f"{len(asked.design)} cases × {len(asked.seeds)} seeds = {len(asked)} runs"
        if len(asked.seeds) > 1
        else f"{len(asked)} cases"
    )
    out.print(
        f"{asked.title}: {runs}; keys of the cases: {keys}; {rows} rows in the directory "
        f"{asked.into}.",
        style="bold",
    )
    out.print("\nMedians over all rows (one row per flow of a run):")
    table(out, summary(medians))
    for line in failed([(one.file, one.reason) for one in asked.failures]):
        out.print(line, markup=False)


def failed(runs: Sequence[tuple[FilePath, str]]) -> list[str]:
    """The failed runs as lines, given the scenario file and the reason of each.

    The first line has the number of runs. Each reason has a line with the first file.

    >>> failed([(FilePath("a.toml"), "no cc x"), (FilePath("b.toml"), "no cc x")])
    ['', '2 runs failed:', '  no cc x: a.toml and 1 more']
    """
    if not runs:
        return []
    reasons: dict[str, list[FilePath]] = {}
    for file, reason in runs:
        reasons.setdefault((reason.splitlines() or [""])[0], []).append(file)
    lines = [
        f"  {reason}: {files[0]}{f' and {len(files) - 1} more' if len(files) > 1 else ''}"
        for reason, files in [*reasons.items()][:_FEW]
    ]
    rest = len(reasons) - _FEW
    more = [f"  and {rest} other reasons; see {runs[0][0].parent}"] if rest > 0 else []
    return ["", f"{len(runs)} run{'s' if len(runs) != 1 else ''} failed:", *lines, *more]


class Count:
    """Shows the progress of a sweep on stderr, if it is a terminal: finished and failed runs, runs
    per second, and the remaining time.
    """

    def __init__(self, *, quiet: bool) -> None:
        """Creates the progress bar; with `quiet`, it shows nothing."""
        self._bar = ProgressBar(quiet=quiet, of="runs")
        self._begin, self._before = time.monotonic(), -1

    def __call__(self, done: int, failed: int, planned: int) -> None:
        """Shows the numbers of finished, failed and planned runs."""
        if self._before < 0:
            self._before = done
        elapsed_s = time.monotonic() - self._begin
        rate = (done - self._before) / elapsed_s if elapsed_s > 0 else 0.0
        left = f", {_span((planned - done) / rate)} left" if rate > 0 else ""
        wrong = f", {failed} failed" if failed else ""
        about = f"{done} of {planned}{wrong}, {rate:.3g} per second{left}"
        self._bar(done, planned, about)

    def stop(self) -> None:
        """Removes the progress bar."""
        self._bar.stop()


def _span(seconds: float) -> str:
    """The remaining time as text, rounded to minutes from one minute on.

    >>> _span(42), _span(125), _span(7300)
    ('42 s', '2 min', '2 h 1 min')
    """
    minutes = math.floor(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours else f"{rest} min"
