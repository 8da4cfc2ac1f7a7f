"""Pictures of replications: the mean over the runs and the band of its 95 % confidence interval.

A curve over time has the mean at each sample time. A distribution has the mean share of the runs at
each delay. Single points, such as pings, are left out.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from narrows.inference import of_mean
from narrows.render.picture import TIME, Line, Picture
from narrows.render.pictures import pictures

if TYPE_CHECKING:
    from narrows.runs.run import Run

_STEPS = 200
"""Approximate number of delays at which distributions are averaged."""

_LEAST = 2
"""A point of a curve over time needs values of at least this number of runs, or of all runs if
there are fewer."""


def bands(runs: Sequence[Run]) -> list[Picture]:
    """The pictures of runs of one scenario with several seeds.

    Raises:
        NarrowsError: If the runs took no samples.
    """
    each = [{picture.key: picture for picture in pictures(run)} for run in runs]
    keys = list(dict.fromkeys(key for one in each for key in one))
    found = []
    for key in keys:
        alike = [one[key] for one in each if key in one]
        first = alike[0]
        labels = list(
            dict.fromkeys(line.label for one in alike for line in one.lines if _is_curve(line))
        )
        lines = []
        for label in labels:
            of = [line for one in alike for line in one.lines if line.label == label]
            lines.append(_over_time(of) if first.x == TIME else _distribution(of))
        about = f"{first.about} Each line is the mean over {len(runs)} runs; bands are 95 % "
        found.append(
            replace(
                first,
                about=f"{about}confidence intervals.",
                lines=[line for line in lines if line.x],
            )
        )
    return [picture for picture in found if picture.lines]


def _is_curve(line: Line) -> bool:
    return line.style != "points"


def _over_time(lines: Sequence[Line]) -> Line:
    by_time: dict[float, list[float]] = {}
    for line in lines:
        for x, y in zip(line.x, line.y, strict=True):
            if y is not None and not math.isnan(y):
                by_time.setdefault(round(x, 9), []).append(y)
    enough = min(_LEAST, len(lines))
    return _means(lines[0], {x: of for x, of in sorted(by_time.items()) if len(of) >= enough})


def _distribution(lines: Sequence[Line]) -> Line:
    delays = sorted({x for line in lines for x in line.x})
    step = max(1, len(delays) // _STEPS)
    shown = list(dict.fromkeys([*delays[::step], delays[-1]]))
    shares = {
        delay: [
            (line.y[at - 1] or 0.0) if (at := bisect.bisect_right(line.x, delay)) else 0.0
            for line in lines
        ]
        for delay in shown
    }
    return _means(lines[0], shares, most=1.0)


def _means(line: Line, by_x: dict[float, list[float]], most: float | None = None) -> Line:
    # Internal states may be negative, unlike most metrics.
    negative = any(value < 0 for values in by_x.values() for value in values)
    least = -math.inf if negative else 0.0
    found = [of_mean(values, most, least) for values in by_x.values()]
    return replace(
        line,
        x=list(by_x),
        y=[one.mean for one in found],
        low=[one.mean if one.low is None else one.low for one in found],
        high=[one.mean if one.high is None else one.high for one in found],
    )
