"""Compares congestion controls on one path: alone, beside CUBIC, and with a late flow of the same
congestion control.

Each congestion control is simulated in three settings, each with several seeds. *Alone*: one flow.
*Beside CUBIC*: one flow of the congestion control and one CUBIC flow from the beginning. *Late
flow*: a second flow of the same congestion control starts after a quarter of the duration. The late
flow has its fair share when its goodput over one second is 80 % of half the goodput of one flow
alone. Jain's index is that of both flows in the last quarter of the duration.

Each metric is a mean over the seeds, with its 95 % confidence interval (Student's t). Beside CUBIC,
both flows start at random times within an eighth of the duration (at most 5 s) instead of one RTT.
Flows that start almost together interact in the same way in every run, and the interval over such
runs is too narrow. One example is the share of one CUBIC flow beside another CUBIC flow. If the
starts differ by up to one RTT, the relative variation of this share between runs is 14 %. If they
differ by up to 5 s, it is 24 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import cycle, pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any

from narrows import _core, registry
from narrows.errors import EngineError, NarrowsError
from narrows.inference import of_mean
from narrows.json_object import JsonObject
from narrows.render import tables
from narrows.render.html import fragment
from narrows.render.plot import COLOURS, GREYS, MARKERS, drawing, fitting
from narrows.render.style import Style
from narrows.render.words import HALF, millis, with_half
from narrows.runs.engines import SIM, EngineChoice, choose
from narrows.runs.model import RaceEngineJson, RaceJson, RunJson
from narrows.runs.parallel import everywhere
from narrows.runs.replications import start_jitter
from narrows.runs.run import Engine, Progress, Run
from narrows.runs.scenario import Flow, Path, Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from narrows.render.figure import Figure

RIVAL = "cubic"
"""Congestion control of the competing flow."""

FAIR = 0.8
"""A late flow has its fair share if its goodput is at least this part of half the goodput of
one flow alone."""

LATE = 4
"""Number of parts of the duration: the late flow starts after the first part, and Jain's index is
that of the last part.
"""

SETTINGS = ("alone", "beside", "late")

SEEDS = 5
"""Default number of seeds of each simulation."""

_LARGEST_SEED = 2**64 - 1

FIGURES = ("goodput_mbit", "delay_p95_ms", "sent_again_pct", "share_pct", "jain", "fair_after_s")
"""The metrics of a congestion control that are averaged over the seeds."""

LIMITS: dict[str, float] = {"sent_again_pct": 100.0, "share_pct": 100.0, "jain": 1.0}
"""Maximum possible value of each bounded metric, beyond which its confidence interval does not
extend; the minimum is 0."""


@dataclass(frozen=True, kw_only=True)
class Lap:
    """The results of one congestion control: means over the seeds.

    Attributes:
        cc: Name of the congestion control.
        family: The basis on which it sets its rate: losses, delay, or a model of the path.
        goodput_mbit: Goodput alone, in Mbit/s.
        delay_p95_ms: 95th percentile of the queueing delay alone, in ms; None if no packet passed
            the queue after the warm-up.
        sent_again_pct: Retransmitted share of the bytes sent alone, in percent; None if none were
            sent.
        share_pct: Share of the congestion control in the goodput of both flows beside CUBIC, in
            percent; 50 is fair. None if neither flow had any goodput.
        jain: Jain's index of two flows of the congestion control in the last quarter; 1 is fair.
            None if neither had any goodput.
        fair_after_s: Time from the start of the late flow until it has its fair share, in s. The
            mean is over the seeds in which it had its fair share; None if there are none.
        fair_in: Number of seeds in which the late flow had its fair share.
        seeds: Number of seeds.
        intervals: The 95 % confidence interval of each mean, by the name of the metric; empty for
            one seed.
    """

    cc: str
    family: str
    goodput_mbit: float
    delay_p95_ms: float | None
    sent_again_pct: float | None
    share_pct: float | None
    jain: float | None
    fair_after_s: float | None
    fair_in: int = 0
    seeds: int = 1
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)

    def half(self, name: str) -> float | None:
        """Half-width of the confidence interval of a metric; None without an interval."""
        return (
            None
            if name not in self.intervals
            else (self.intervals[name][1] - self.intervals[name][0]) / 2
        )


@dataclass(frozen=True, kw_only=True)
class Race:
    """The results of all congestion controls. `left_out` has those that the path cannot run, with
    what they need.

    `refused` has those that the engine `linux` or `live` could not run, with its reason.

    >>> laps = race(Path(rate="10Mbit", rtt="20ms", buffer="1bdp"), only=["reno", "cubic"],
    ...     duration_s=8, seeds=2).laps
    >>> [lap.cc for lap in laps]
    ['reno', 'cubic']
    """

    path: JsonObject
    duration_s: int
    seed: int
    laps: list[Lap]
    left_out: dict[str, str]
    seeds: int = 1
    like: str = ""
    engine: EngineChoice = SIM
    refused: dict[str, str] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """The sentence and the table of `narrows race`, for notebooks."""
        return fragment([(sentence(self), "bold"), table(self), *notes(self)])

    def json(self) -> RaceJson:
        """The JSON object that `narrows race --json` prints."""
        return {
            "path": self.path,
            "duration_s": self.duration_s,
            "seed": self.seed,
            "seeds": self.seeds,
            "laps": [asdict(lap) for lap in self.laps],
            "left_out": self.left_out,
            "like": self.like,
            **self._engine(),
        }

    def _engine(self) -> RaceEngineJson:
        if self.engine == SIM:
            return {}
        return {**self.engine.json(), "refused": self.refused}


def race(
    path: Path,
    *,
    only: Sequence[str] | None = None,
    duration_s: int = 40,
    seed: int = 1,
    seeds: int = SEEDS,
    engine: Engine = "sim",
    kernel: str | None = None,
    progress: Progress | None = None,
) -> Race:
    """Runs the simulations.

    Args:
        path: The path.
        only: The congestion controls, in this order; all by default.
        duration_s: Duration of each simulation, in s.
        seed: The first seed.
        seeds: Number of seeds, from `seed`.
        engine: The engine of all runs. A live run whose self-check fails is repeated.
        kernel: The kernel of the engine `linux`; the newest built one by default.
        progress: Called with the number of finished simulations and their total number.

    Raises:
        NarrowsError: If there is no such congestion control, or if there are no seeds.
        ScenarioError: If the path is not valid.
        EngineError: If the engine cannot run any.
    """
    chosen = choose(engine, kernel)
    for name in only or ():
        registry.check_cc("--only", name)
    kinds = {kind["name"]: kind for kind in registry.table("cc")}
    if seeds < 1 or seed + seeds - 1 > _LARGEST_SEED:
        raise NarrowsError(
            f"seed = {seed}, seeds = {seeds}: seeds are whole numbers from 0 to {_LARGEST_SEED}"
        )
    names = list(only) if only is not None else list(kinds)
    # A short run reports all mistakes of the path once, before the many simulations.
    first = chosen.run(_scenario(path, "reno", "alone", 1, seed), sample_interval="off")
    left_out = {}
    for name in list(names):
        try:
            _core.scenario_to_toml(_scenario(path, name, "alone", duration_s, seed).tree())
        except NarrowsError:
            left_out[name] = ", ".join(kinds[name]["needs"])
            names.remove(name)
    if left_out and not names:
        needs = ", ".join(f"{name} needs {need}" for name, need in left_out.items())
        own = next((name for name in left_out if name in registry.names("queue")), None)
        fix = "other names" if own is None else f"--queue {own}, or other names"
        raise NarrowsError(f"--only {','.join(left_out)}: {needs}; write {fix}")
    each = range(seed, seed + seeds)
    todo = [
        (name, setting, one_seed) for name in names for setting in SETTINGS for one_seed in each
    ]
    finished = 0

    refused: dict[str, str] = {}

    def one(item: tuple[str, str, int], keep_on: Progress) -> Run | None:
        name, setting, one_seed = item
        if name in refused:
            return None
        asked = _scenario(path, name, setting, duration_s, one_seed)
        try:
            return chosen.run(asked, sample_interval="off", progress=keep_on)
        except EngineError as error:
            if chosen == SIM:
                raise
            refused[name] = str(error)
            return None

    def done(_item: tuple[str, str, int]) -> None:
        nonlocal finished
        finished += 1
        if progress is not None:
            progress(finished, len(todo))

    results = everywhere(todo, one, cost=lambda item: len(item[1]), done=done, jobs=chosen.jobs())
    runs = {item: result for item, result in zip(todo, results, strict=True) if result is not None}
    names = [name for name in names if name not in refused]
    if refused and not names:
        raise EngineError("\n".join(refused.values()))
    laps = [
        _mean([
            _lap(kinds[name], *(runs[name, setting, nth].json for setting in SETTINGS),
            duration_s=duration_s)
            for nth in each
        ])
        for name in names
    ]  # fmt: skip
    return Race(
        path=_scenario(path, RIVAL, "alone", 1, seed).tree()["path"],
        duration_s=duration_s,
        seed=seed,
        laps=laps,
        left_out=left_out,
        seeds=seeds,
        like=first.json["scenario"]["host"]["like"],
        engine=chosen,
        refused=refused,
    )


def _scenario(path: Path, cc: str, setting: str, duration_s: int, seed: int) -> Scenario:
    flows = [Flow(cc, id="it")]
    if setting == "beside":
        flows.append(Flow(RIVAL, id="rival"))
    elif setting == "late":
        flows.append(Flow(cc, id="late", start=f"{duration_s * 1000 // LATE}ms"))
    apart = start_jitter(duration_s) if setting == "beside" else None
    return Scenario(path, flows=flows, duration=f"{duration_s}s", seed=seed, start_jitter=apart)


def _lap(
    kind: JsonObject,
    alone: RunJson,
    beside: RunJson,
    late: RunJson,
    *,
    duration_s: int,
) -> Lap:
    it, rival = (flow["goodput_mbit"] or 0.0 for flow in beside["flows"])
    rates = [_rates(flow["series"]) for flow in late["flows"]]
    total = alone["flows"][0]["goodput_mbit"] or 0.0
    start = duration_s // LATE
    fair = (second for second, mbit in rates[1] if mbit >= FAIR * total / 2)
    ends = [sum(mbit for second, mbit in of if second > duration_s - start) for of in rates]
    squares = sum(end * end for end in ends)
    first = next(fair, None)
    again = alone["flows"][0]["summary_retransmit_rate"]
    return Lap(
        cc=kind["name"],
        family=kind["family"],
        goodput_mbit=total,
        delay_p95_ms=alone["queue"]["delay_ms"]["p95"],
        sent_again_pct=None if again is None else 100 * again,
        share_pct=100 * it / (it + rival) if it + rival else None,
        jain=sum(ends) ** 2 / (2 * squares) if squares else None,
        fair_after_s=None if first is None else first - duration_s / LATE,
    )


def _mean(laps: Sequence[Lap]) -> Lap:
    """The means over several seeds, with their confidence intervals."""
    by_name = {
        name: [value for lap in laps if (value := getattr(lap, name)) is not None]
        for name in FIGURES
    }
    found = {name: of_mean(values, LIMITS.get(name)) for name, values in by_name.items() if values}
    means: dict[str, Any] = {name: found[name].mean if name in found else None for name in by_name}
    intervals = {
        name: (one.low, one.high)
        for name, one in found.items()
        if one.low is not None and one.high is not None
    }
    return replace(
        laps[0], **means, fair_in=len(by_name["fair_after_s"]), seeds=len(laps), intervals=intervals
    )


def _rates(series: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """The time of each sample, in s, and the goodput since the previous sample (a second before),
    in Mbit/s.
    """
    points = [(0.0, 0.0), *((point[0], point[1]) for point in series)]
    pairs = pairwise(points)
    return [
        (now, 8e-6 * (bytes_ - before) / (now - then))
        for (then, before), (now, bytes_) in pairs
        if now > then
    ]


_FEWEST = 3
"""Minimum number of runs that reach the fair share for which the interval of the time to it is
printed."""

_COLUMNS: tuple[tuple[str, str, int], ...] = (
    ("goodput Mbit/s", "goodput_mbit", 2),
    ("queueing delay p95 ms", "delay_p95_ms", 1),
    ("retransmitted %", "sent_again_pct", 2),
    ("share beside CUBIC %", "share_pct", 0),
    ("Jain index, two flows of the same cc", "jain", 2),
    ("time to fair share s", "fair_after_s", 0),
)
"""Heading of each column, its metric, and the maximum number of decimal places."""


def told(lap: Lap, name: str, most: int) -> str:
    """A metric as text with the half-width of its confidence interval; see `with_half`.

    >>> lap = Lap(cc="a", family="loss", goodput_mbit=47.81234, delay_p95_ms=3, sent_again_pct=0,
    ...     share_pct=42.4,
    ...           jain=1, fair_after_s=None, seeds=5,
    ...           intervals={"goodput_mbit": (47.81, 47.8147), "share_pct": (35.9, 48.9)})
    >>> told(lap, "goodput_mbit", 2), told(lap, "share_pct", 0), told(lap, "fair_after_s", 0)
    ('47.81', '42 ± 6', '-')
    >>> told(replace(lap, delay_p95_ms=0.0123), "delay_p95_ms", 1)
    '0.012'

    The half-width is left out for fewer than three runs, because it would be too wide to be of use:

    >>> slow = replace(lap, fair_after_s=10, fair_in=2, intervals={"fair_after_s": (0, 28)})
    >>> told(slow, "fair_after_s", 0), told(replace(slow, fair_in=3), "fair_after_s", 0)
    ('10 (2 of 5)', '10 ± 14 (3 of 5)')
    """
    value, half = getattr(lap, name), lap.half(name)
    if value is None:
        return "-"
    if name == "fair_after_s" and lap.fair_in < _FEWEST:
        half = None
    text = with_half(value, half, most)
    if name == "delay_p95_ms" and value > 0 and text == f"{0:.{most}f}":
        text = millis(value)
    return (
        f"{text} ({lap.fair_in} of {lap.seeds})"
        if name == "fair_after_s" and lap.fair_in < lap.seeds
        else text
    )


def table(found: Race) -> tables.Table:
    """A table of the results, with a row for each congestion control."""
    rows = [
        [
            tables.Cell(word)
            for word in (lap.cc, lap.family, *(told(lap, name, most) for _, name, most in _COLUMNS))
        ]
        for lap in found.laps
    ]
    return tables.Table("Results", ("cc", "family"), tuple(head for head, _, _ in _COLUMNS), rows)


def sentence(found: Race) -> str:
    """A sentence about the lowest delay and the smallest and largest share. It also names the
    congestion controls whose confidence intervals overlap that of the extreme.

    >>> lap = dict(family="loss", goodput_mbit=9.5, sent_again_pct=0, jain=1, fair_after_s=1)
    >>> laps = [Lap(cc="a", delay_p95_ms=3, share_pct=20, **lap), Lap(cc="b", delay_p95_ms=30,
    ...     share_pct=61, **lap)]
    >>> sentence(Race(path={}, duration_s=1, seed=1, laps=laps, left_out={}))
    'Lowest p95 queueing delay: a (3.0 ms). Share of the goodput beside a CUBIC flow: smallest for \
a (20 %), largest for b (61 %).'
    """
    if not found.laps:
        return "No congestion control could be simulated."
    delayed = [lap for lap in found.laps if lap.delay_p95_ms is not None]
    sharing = [lap for lap in found.laps if lap.share_pct is not None]
    parts = []
    if delayed:
        quick, also = _ends(delayed, "delay_p95_ms", sign=1)
        parts.append(
            f"Lowest p95 queueing delay: {quick.cc} ({told(quick, 'delay_p95_ms', 1)} ms{also})."
        )
    if sharing:
        meek, equal = _ends(sharing, "share_pct", sign=1)
        bold, also = _ends(sharing, "share_pct", sign=-1)
        parts.append(
            f"Share of the goodput beside a CUBIC flow: {told(bold, 'share_pct', 0)} %."
            if len(sharing) == 1
            else "Share of the goodput beside a CUBIC flow: smallest for "
            f"{meek.cc} ({told(meek, 'share_pct', 0)} %{equal}), largest for "
            f"{bold.cc} ({told(bold, 'share_pct', 0)} %{also})."
        )
    if not parts:
        return (
            f"No packet arrived after the warm-up within {found.duration_s} s: nothing can be "
            "compared. Write a higher --rate, a lower --loss or a longer --duration."
        )
    return " ".join(parts)


def _some(found: Race) -> list[str]:
    """The explanation of values such as `(2 of 5)`, if the table contains one."""
    part = next((lap for lap in found.laps if 0 < lap.fair_in < lap.seeds), None)
    if part is None:
        return []
    return [
        f"Time to fair share, ({part.fair_in} of {part.seeds}): the second flow reached this "
        f"goodput in only {part.fair_in} of the {part.seeds} runs (one run per seed); the time "
        "excludes the other runs."
    ]


def notes(found: Race) -> list[str]:
    """The notes below the table."""
    means = [f"Each value is the mean of {found.seeds} seeds. {HALF}"] if found.seeds > 1 else []
    return [
        *means,
        "Family: the basis on which a congestion control sets its rate: losses, delay, or a model "
        "of the path (estimates of rate and RTT). Fair share: half of the goodput of one flow "
        "alone. Time to fair share: from the start of the second flow until its goodput over one "
        f"second is {100 * FAIR:.0f} % of the fair share.",
        *_some(found),
        *(f"Not simulated: {left}, which needs {needs}." for left, needs in found.left_out.items()),
        *(f"Not run: {name} ({why})." for name, why in found.refused.items()),
    ]


def _ends(laps: Sequence[Lap], name: str, *, sign: int) -> tuple[Lap, str]:
    """The result with the least value of a metric, and a text that names the others whose intervals
    overlap its interval.

    With the sign -1, it is the result with the greatest value. All `laps` must have the metric.
    """

    def ends(lap: Lap) -> tuple[float, float]:
        value = float(getattr(lap, name))
        return lap.intervals.get(name, (value, value))

    first = min(laps, key=lambda lap: float(sign * getattr(lap, name)))
    low, high = ends(first)
    others = [
        lap.cc
        for lap in laps
        if lap is not first and lap.seeds > 1 and ends(lap)[0] <= high and low <= ends(lap)[1]
    ]
    return first, f"; no significant difference from {', '.join(others)}" if others else ""


def check_room(names: Sequence[str], file: str | PathLike[str], style: Style | None) -> None:
    """Checks that the plot of these congestion controls fits into the size of a figure, before the
    simulations. Their results are replaced by other values.

    Raises:
        NarrowsError: If Matplotlib is not installed, or the plot does not fit.
    """
    if style is None or style.inches is None:
        return
    families = {kind["name"]: kind["family"] for kind in registry.table("cc")}
    laps = [
        Lap(
            cc=name, family=families.get(name, ""), goodput_mbit=10.0, delay_p95_ms=float(nth),
            sent_again_pct=0.0, share_pct=50.0, jain=1.0, fair_after_s=1.0
        )
        for nth, name in enumerate(names, 1)
    ]  # fmt: skip
    short = Race(path={}, duration_s=1, seed=1, laps=laps, left_out={})
    figure = plot(short, style=style)
    with fitting(figure, file):
        figure.draw_without_rendering()


def _label(figure: Figure, points: Axes, laps: list[Lap], style: Style) -> None:
    """Writes each name beside its point, at the nearest free place."""
    laps = [lap for lap in laps if lap.delay_p95_ms is not None]
    if not laps:
        return
    # The layout determines the positions of the points, and with them the free places.
    figure.draw_without_rendering()
    scale = figure.dpi / 72
    dots = (
        points.transData.transform([(lap.delay_p95_ms, lap.goodput_mbit) for lap in laps]) / scale
    )
    right = points.bbox.x1 / scale
    taken = [(x - 3, y - 3, x + 3, y + 3) for x, y in dots]
    for lap, (x, y) in sorted(zip(laps, dots, strict=True), key=lambda item: -item[1][1]):
        wide, high = style.pt(4.2) * len(lap.cc), style.pt(8.0)
        ring = (
            (side, up) for up in sorted(range(-160, 168, 4), key=abs) for side in (4, -4 - wide)
        )
        box = next(
            (
                (x + side, y + up - high / 2, x + side + wide, y + up + high / 2)
                for side, up in ring
                if x + side + wide <= right
                and not any(
                    x + side < x1
                    and x0 < x + side + wide
                    and y + up - high / 2 < y1
                    and y0 < y + up + high / 2
                    for x0, y0, x1, y1 in taken
                )
            ),
            (x + 4, y, x + 4 + wide, y + high),
        )
        taken.append(box)
        at = (box[0] - x, (box[1] + box[3]) / 2 - y)
        far = abs(at[1]) > high
        line = (
            {"arrowstyle": "-", "color": "#b3b3b3", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
            if far
            else None
        )
        points.annotate(
            lap.cc, (lap.delay_p95_ms or 0.0, lap.goodput_mbit), at, textcoords="offset points",
            fontsize=style.pt(7),
            va="center", arrowprops=line,
        )  # fmt: skip


def plot(
    found: Race, file: str | PathLike[str] | None = None, *, style: Style | None = None
) -> Figure:
    """Draws goodput over queueing delay in one panel, and the share beside CUBIC in another.

    Logarithmic axes of `style` apply to the first panel.

    Raises:
        NarrowsError: If Matplotlib is not installed, or if nothing could be simulated.
        OutputError: If the file cannot be written.
    """
    if not found.laps:
        raise NarrowsError("--plot: no congestion control could be simulated")
    style = style or Style()
    families = sorted({lap.family for lap in found.laps})
    colours = GREYS if style.look == "print" else COLOURS
    colour = {family: colours[nth % len(colours)] for nth, family in enumerate(families)}
    marker = dict(zip(families, MARKERS if style.look == "print" else cycle("o"), strict=False))
    size = (11, max(4.0, 0.28 * len(found.laps) + 1.5))
    with drawing(file, style, size, [found.like] if found.like else []) as figure:
        points, bars = figure.subplots(1, 2)
        for family in families:
            own = [
                lap for lap in found.laps if lap.family == family and lap.delay_p95_ms is not None
            ]
            points.errorbar(
                [lap.delay_p95_ms for lap in own],
                [lap.goodput_mbit for lap in own],
                xerr=[lap.half("delay_p95_ms") or 0.0 for lap in own],
                yerr=[lap.half("goodput_mbit") or 0.0 for lap in own],
                fmt=marker[family],
                elinewidth=0.8,
                color=colour[family],
                label=family,
            )
        points.set_xlabel("queueing delay p95, ms")
        points.set_ylabel("goodput alone, Mbit/s")
        if "x" in style.log:
            points.set_xscale("log")
        if "y" in style.log:
            points.set_yscale("log")
        points.legend(frameon=False)
        known = [(lap, lap.share_pct) for lap in found.laps if lap.share_pct is not None]
        known.sort(key=lambda item: item[1])
        order = [lap for lap, _ in known]
        shares = [(share, *lap.intervals.get("share_pct", (share, share))) for lap, share in known]
        bars.barh(
            [lap.cc for lap in order],
            [share for share, _, _ in shares],
            xerr=[
                [share - low for share, low, _ in shares],
                [high - share for share, _, high in shares],
            ],
            color=[colour[lap.family] for lap in order],
            error_kw={"elinewidth": 0.8, "ecolor": "#4d4d4d"},
        )
        bars.axvline(50, color="#4d4d4d", linestyle=":")
        bars.set_xlim(0, 100)
        bars.set_xlabel("share beside CUBIC, %; 50 is fair; lines: 95 % intervals")
        with fitting(figure, "--plot" if file is None else file):
            _label(figure, points, found.laps, style)
    return figure
