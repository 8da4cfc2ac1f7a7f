"""Every congestion control on one path: alone, beside CUBIC, and against a late comer of its own kind.

Three simulations each. *Alone*: one flow. *Beside CUBIC*: one flow of it and one of CUBIC from the beginning. *Late
comer*: a second flow of the same kind starts after a quarter of the time; when it has had four fifths of half the rate
over one second, it has its fair share, and Jain's index is that of the last quarter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any

from narrows import _core, tables
from narrows._parallel import everywhere
from narrows.errors import NarrowsError
from narrows.runs import Progress, Run, run
from narrows.scenario import Flow, Path, Scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RIVAL = "cubic"
"""Who everyone is put beside."""

FAIR = 0.8
"""The part of an equal share that counts as fair."""

LATE = 4
"""The late comer starts after one of so many parts of the time, and the last of them is what Jain's index is of."""

SETTINGS = ("alone", "beside", "late")


@dataclass(frozen=True, kw_only=True)
class Lap:
    """What one congestion control came to.

    Attributes:
        cc: Its name.
        family: What moves it.
        goodput_mbit: Alone, Mbit/s.
        delay_p95_ms: Of the queue, alone.
        sent_again_pct: Of the bytes sent, alone.
        share_pct: Of the goodput of both, beside CUBIC; 50 is fair.
        jain: Among its own in the last quarter; 1 is fair.
        fair_after_s: From the late comer's start to its fair share; None when it never had it.
    """

    cc: str
    family: str
    goodput_mbit: float
    delay_p95_ms: float
    sent_again_pct: float
    share_pct: float
    jain: float
    fair_after_s: float | None


@dataclass(frozen=True, kw_only=True)
class Race:
    """All of them, and who could not take part: its name and what it needs.

    >>> laps = race(Path(rate="10Mbit", rtt="20ms", buffer="1bdp"), only=["reno", "cubic"], duration_s=8).laps
    >>> [lap.cc for lap in laps]
    ['reno', 'cubic']
    """

    path: dict[str, Any]
    duration_s: int
    seed: int
    laps: list[Lap]
    left_out: dict[str, str]

    def json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "path": self.path,
            "duration_s": self.duration_s,
            "seed": self.seed,
            "laps": [asdict(lap) for lap in self.laps],
            "left_out": self.left_out,
        }


def race(
    path: Path,
    *,
    only: Sequence[str] | None = None,
    duration_s: int = 40,
    seed: int = 1,
    progress: Progress | None = None,
) -> Race:
    """Runs it.

    Args:
        path: Where.
        only: These, in this order; all by default.
        duration_s: Of each simulation.
        seed: Of all of them.
        progress: Called with how many simulations are done and how many there are.

    Raises:
        NarrowsError: If there is no such congestion control.
        ScenarioError: If the path is not right.
    """
    kinds = {kind["name"]: kind for kind in json.loads(_core.list_json())["cc"]}
    unknown = [name for name in only or () if name not in kinds]
    if unknown:
        raise NarrowsError(f"no congestion control is called `{unknown[0]}`; known: {', '.join(kinds)}")
    names = list(only) if only is not None else list(kinds)
    # Every mistake of the path before many simulations, told once.
    run(_scenario(path, "reno", "alone", 1, seed), sample_interval="off")
    left_out = {}
    for name in list(names):
        try:
            _core.scenario_to_toml(_scenario(path, name, "alone", duration_s, seed).tree())
        except NarrowsError:
            left_out[name] = ", ".join(kinds[name]["needs"])
            names.remove(name)
    todo = [(name, setting) for name in names for setting in SETTINGS]
    finished = 0

    def one(item: tuple[str, str], keep_on: Progress) -> Run:
        name, setting = item
        return run(_scenario(path, name, setting, duration_s, seed), sample_interval="off", progress=keep_on)

    def done(_item: tuple[str, str]) -> None:
        nonlocal finished
        finished += 1
        if progress is not None:
            progress(finished, len(todo))

    runs = dict(zip(todo, everywhere(todo, one, cost=lambda item: len(item[1]), done=done), strict=True))
    laps = [
        _lap(kinds[name], *(runs[name, setting].json for setting in SETTINGS), duration_s=duration_s) for name in names
    ]
    return Race(
        path=_scenario(path, RIVAL, "alone", 1, seed).tree()["path"],
        duration_s=duration_s,
        seed=seed,
        laps=laps,
        left_out=left_out,
    )


def _scenario(path: Path, cc: str, setting: str, duration_s: int, seed: int) -> Scenario:
    flows = [Flow(cc, id="it")]
    if setting == "beside":
        flows.append(Flow(RIVAL, id="rival"))
    elif setting == "late":
        flows.append(Flow(cc, id="late", start=f"{duration_s * 1000 // LATE}ms"))
    return Scenario(path, flows=flows, duration=f"{duration_s}s", seed=seed)


def _lap(
    kind: dict[str, Any], alone: dict[str, Any], beside: dict[str, Any], late: dict[str, Any], *, duration_s: int
) -> Lap:
    it, rival = (flow["goodput_mbit"] for flow in beside["flows"])
    rates = [_rates(flow["series"]) for flow in late["flows"]]
    total = alone["flows"][0]["goodput_mbit"]
    start = duration_s // LATE
    fair = (second for second, mbit in rates[1] if mbit >= FAIR * total / 2)
    ends = [sum(mbit for second, mbit in of if second > duration_s - start) for of in rates]
    squares = sum(end * end for end in ends)
    first = next(fair, None)
    return Lap(
        cc=kind["name"],
        family=kind["family"],
        goodput_mbit=total,
        delay_p95_ms=alone["queue"]["delay_ms"]["p95"],
        sent_again_pct=100 * alone["flows"][0]["retransmit_rate"],
        share_pct=100 * it / (it + rival) if it + rival else 0.0,
        jain=sum(ends) ** 2 / (2 * squares) if squares else 0.0,
        fair_after_s=None if first is None else first - duration_s / LATE,
    )


def _rates(series: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """Mbit/s acknowledged in the second that ends then."""
    points = [(0.0, 0.0), *((point[0], point[1]) for point in series)]
    pairs = pairwise(points)
    return [(now, 8e-6 * (bytes_ - before) / (now - then)) for (then, before), (now, bytes_) in pairs if now > then]


_COLUMNS: tuple[tuple[str, Callable[[Lap], str]], ...] = (
    ("goodput Mbit/s", lambda lap: f"{lap.goodput_mbit:.2f}"),
    ("queue p95 ms", lambda lap: f"{lap.delay_p95_ms:.1f}"),
    ("sent again %", lambda lap: f"{lap.sent_again_pct:.2f}"),
    ("beside CUBIC %", lambda lap: f"{lap.share_pct:.0f}"),
    ("Jain with itself", lambda lap: f"{lap.jain:.2f}"),
    ("fair after s", lambda lap: "-" if lap.fair_after_s is None else f"{lap.fair_after_s:.0f}"),
)


def table(found: Race) -> tables.Table:
    """A row for each."""
    rows = [
        [tables.Cell(word) for word in (lap.cc, lap.family, *(of(lap) for _, of in _COLUMNS))] for lap in found.laps
    ]
    return tables.Table("The race", ("cc", "family"), tuple(name for name, _ in _COLUMNS), rows)


def sentence(found: Race) -> str:
    """Who was where, in one line.

    >>> lap = dict(family="loss", goodput_mbit=9.5, sent_again_pct=0, jain=1, fair_after_s=1)
    >>> laps = [Lap(cc="a", delay_p95_ms=3, share_pct=20, **lap), Lap(cc="b", delay_p95_ms=30, share_pct=61, **lap)]
    >>> sentence(Race(path={}, duration_s=1, seed=1, laps=laps, left_out={}))
    'Least delay: a (p95 3.0 ms); least share beside CUBIC: a (20 %); most: b (61 %).'
    """
    if not found.laps:
        return "Nobody could take part."
    quick = min(found.laps, key=lambda lap: lap.delay_p95_ms)
    meek = min(found.laps, key=lambda lap: lap.share_pct)
    bold = max(found.laps, key=lambda lap: lap.share_pct)
    return (
        f"Least delay: {quick.cc} (p95 {quick.delay_p95_ms:.1f} ms); least share beside CUBIC: {meek.cc} "
        f"({meek.share_pct:.0f} %); most: {bold.cc} ({bold.share_pct:.0f} %)."
    )


def plot(found: Race, file: str | PathLike[str] | None = None) -> Figure:
    """Draws it: goodput over delay, and the share beside CUBIC.

    Raises:
        NarrowsError: If Matplotlib is not installed, or nobody took part.
        OutputError: If the file cannot be written.
    """
    from narrows.plot import COLOURS, check, matplotlib, write  # noqa: PLC0415 - which is an extra

    if not found.laps:
        raise NarrowsError("nobody could take part: there is nothing to draw")
    mpl = matplotlib()
    from matplotlib.figure import Figure as New  # noqa: PLC0415

    format_ = check(file) if file is not None else None
    families = sorted({lap.family for lap in found.laps})
    colour = dict(zip(families, COLOURS, strict=False))
    with mpl.rc_context({"svg.hashsalt": "narrows", "font.size": 9}):
        figure = New(figsize=(11, max(4.0, 0.28 * len(found.laps) + 1.5)), layout="constrained")
        points, bars = figure.subplots(1, 2)
        for family in families:
            own = [lap for lap in found.laps if lap.family == family]
            xs, ys = [lap.delay_p95_ms for lap in own], [lap.goodput_mbit for lap in own]
            points.plot(xs, ys, "o", color=colour[family], label=family)
        for nth, lap in enumerate(sorted(found.laps, key=lambda lap: lap.goodput_mbit)):
            at = (4, 3 if nth % 2 else -9)
            points.annotate(lap.cc, (lap.delay_p95_ms, lap.goodput_mbit), at, textcoords="offset points", fontsize=7)
        points.set_xlabel("queue delay p95, ms")
        points.set_ylabel("goodput alone, Mbit/s")
        points.legend(frameon=False)
        order = sorted(found.laps, key=lambda lap: lap.share_pct)
        bars.barh(
            [lap.cc for lap in order], [lap.share_pct for lap in order], color=[colour[lap.family] for lap in order]
        )
        bars.axvline(50, color="#4d4d4d", linestyle=":")
        bars.set_xlim(0, 100)
        bars.set_xlabel("share beside CUBIC, %; 50 is fair")
        if file is not None:
            write(figure, file, format_)
    return figure
