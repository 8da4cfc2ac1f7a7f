"""Replications: one scenario with several seeds, and 95 % confidence intervals of the metrics.

The interval is that of the mean of independent runs, by Student's t distribution
(`narrows.inference.of_mean`). Runs with different seeds are independent. They sample all states of
a path only if the start times of their flows differ enough. Flows that start within one RTT of each
other interact in nearly the same way in every run. Replications of a scenario without
`start_jitter` therefore use a jitter of an eighth of the time from the last `start` to the end.
This jitter is at most 5 s and at most the warm-up. `python -m validation.coverage` compares the
intervals with means over 2,000 runs.

The metrics are the same as in the rows of a sweep (`narrows.sweeps.rows`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING

from narrows import _core, extras
from narrows.errors import NarrowsError
from narrows.inference import LEVEL, Interval, of_mean
from narrows.json_object import JsonObject
from narrows.render.bands import bands
from narrows.render.html import fragment
from narrows.render.plot import draw_columns, kernels_of
from narrows.render.replications import ended, flows, metrics
from narrows.render.words import HALF
from narrows.runs.engines import choose
from narrows.runs.metric import Function, numbers
from narrows.runs.parallel import everywhere
from narrows.runs.run import Engine, Run, run
from narrows.runs.save import save_replications
from narrows.runs.scenario import Scenario, load
from narrows.sweeps.rows import MOST, Row

if TYPE_CHECKING:
    import pyarrow as pa

    from narrows.render.figure import Figure
    from narrows.render.style import Look, Style
    from narrows.render.tables import Table
    from narrows.runs.model import ReplicationsJson, UsedKernelJson
    from narrows.runs.run import Progress

JITTER_PART, JITTER_MOST_S = 8, 5.0
"""Flows of replications start within the duration divided by `JITTER_PART`, but at most within
`JITTER_MOST_S`, in s."""

LARGEST_SEED = 2**64 - 1

ABOUT = (
    "key",
    "version",
    "scenario_format",
    "like",
    "engine",
    "kernel",
    "kernel_key",
    "rate_mbit",
    "rtt_ms",
    "buffer_bdp",
    "flow_number",
    "flow",
    "cc",
    "workload",
)
"""Columns that describe a row and are not metrics."""

_WHOLE = ("queue_", "backlog_", "ping_", "jain", "transfers_")
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True, kw_only=True)
class Replications:
    """The runs of one scenario with consecutive seeds.

    Attributes:
        scenario: The scenario with all defaults filled in, as nested tables.
        seed: The first seed.
        runs: One run per seed, in the order of the seeds.
        own: Values of the caller's metrics by name, one element per seed.
        widened: True if the default start jitter of replications was used; false if that of the
            scenario was.
    """

    scenario: JsonObject
    seed: int
    runs: list[Run]
    own: list[dict[str, float | None]] = field(default_factory=list)
    widened: bool = False

    @property
    def seeds(self) -> range:
        """The seeds of the runs."""
        return range(self.seed, self.seed + len(self.runs))

    def rows(self) -> list[Row]:
        """A row for each seed and flow, with the columns of a sweep and the caller's metrics."""
        found = []
        for seed, one, own in zip(self.seeds, self.runs, self._own(), strict=True):
            found += [{"seed": seed} | row | own for row in one.rows()]
        return [{name: value for name, value in row.items() if name != "key"} for row in found]

    def table(self) -> pa.Table:
        """`rows` as a table."""
        extras.require_pyarrow()
        import pyarrow as pa  # noqa: PLC0415

        return pa.Table.from_pylist(self.rows())

    def whole(self) -> dict[str, Interval]:
        """The means and intervals, by name, of the metrics of the whole run and of all flows
        together. They include the caller's own metrics (`own`).
        """
        by_name: dict[str, list[float]] = {}
        for one, own in zip(self.runs, self._own(), strict=True):
            values = whole_metrics(one.rows()) | own
            for name, value in values.items():
                by_name.setdefault(name, []).extend(_known(value))
        return _intervals(by_name)

    def flows(self) -> list[dict[str, Interval]]:
        """The means and intervals of the metrics of each flow, in the order of the scenario.

        `timed_out_s` covers only the runs in which the sender ended the connection.
        """
        found: list[dict[str, list[float]]] = [{} for _ in self.runs[0].flows]
        for one in self.runs:
            for by_name, row in zip(found, one.rows(), strict=False):
                for name, value in _of_flow(row).items():
                    by_name.setdefault(name, []).extend(_known(value))
            for by_name, flow in zip(found, one.flows, strict=True):
                by_name.setdefault("timed_out_s", []).extend(_known(flow.get("timed_out_s")))
        return [_intervals(by_name) for by_name in found]

    def notices(self) -> list[str]:
        """The warnings about the scenario, and a sentence about connections that senders ended in
        any run.
        """
        first = self.runs[0]
        own = first.json.get("notices", [])
        # The last notice of a run reports the connections that ended in this run.
        own = own[:-1] if any("timed_out_s" in flow for flow in first.flows) else own
        return [*own, *ended([one.flows for one in self.runs])]

    def intervals(self) -> pa.Table:
        """A row per metric: `flow` (null for the whole run), `metric`, `mean`, `low`, `high`,
        `sd`, `runs`.
        """
        extras.require_pyarrow()
        import pyarrow as pa  # noqa: PLC0415

        ids = [None, *(flow["id"] for flow in self.runs[0].flows)]
        found = [
            {"flow": id_, "metric": name} | asdict(one)
            for id_, metrics in zip(ids, [self.whole(), *self.flows()], strict=True)
            for name, one in metrics.items()
        ]
        numbers = [(name, pa.float64()) for name in ("mean", "low", "high", "sd")]
        schema = [("flow", pa.string()), ("metric", pa.string()), *numbers, ("runs", pa.int64())]
        return pa.Table.from_pylist(found, schema=pa.schema(schema))

    def tables(self) -> list[Table]:
        """A table of the flows and a table of the metrics of the whole run: means with their
        confidence intervals.
        """
        about = [(flow["id"], flow["cc"]) for flow in self.runs[0].flows]
        return [*([flows(about, self.flows())] if about else []), metrics(self.whole())]

    def title(self, name: str = "Scenario") -> str:
        """The title of the scenario, or `name`, and the seeds."""
        return (
            f"{self.scenario['title'] or name}: means over {len(self.runs)} runs (seeds "
            f"{self.seed} to {self.seeds[-1]})."
        )

    def _repr_html_(self) -> str:
        """The sentences and tables of `narrows run --seeds`, for notebooks."""
        notices = [(f"Note: {notice}", "yellow") for notice in self.notices()]
        return fragment([(self.title(), "bold"), *notices, *self.tables(), HALF])

    def json(self) -> ReplicationsJson:
        """The JSON object that `narrows run --seeds --json` prints."""
        first = self.runs[0].json
        return {
            "narrows": first["narrows"],
            "engine": first["engine"],
            **self._kernel(),
            "scenario": self.scenario,
            "seed": self.seed,
            "seeds": len(self.runs),
            "level": LEVEL,
            "run": {name: asdict(one) for name, one in self.whole().items()},
            "flows": [
                {"id": flow["id"], "cc": flow["cc"]}
                | {name: asdict(one) for name, one in metrics.items()}
                for flow, metrics in zip(first["flows"], self.flows(), strict=True)
            ],
            "notices": self.notices(),
        }

    def plot(
        self,
        file: str | PathLike[str] | None = None,
        *,
        only: Sequence[str] | None = None,
        look: Look = "screen",
        style: Style | None = None,
    ) -> Figure:
        """Draws the means over the runs, with bands of their 95 % confidence intervals.

        Args:
            file: The file; its suffix selects PNG, SVG or PDF. Without it, the figure is only
                returned.
            only: The pictures, as for `Run.plot`.
            look: `"screen"` in colour, `"print"` in black and white.
            style: Size, fonts, resolution, axes and colours of the figure, instead of `look`.

        Raises:
            NarrowsError: If Matplotlib is not installed, or the runs took no samples.
            OutputError: If the file cannot be written.
        """
        shown = [one for one in bands(self.runs) if only is None or one.key in only]
        title = f"{self.scenario['title'] or 'Scenario'}: means over {len(self.runs)} runs"
        return draw_columns(
            [(f"{title}, 95 % confidence intervals", shown)], file, look=look, style=style,
            kernels=kernels_of(self.runs),
        )  # fmt: skip

    def save(self, directory: str | PathLike[str]) -> None:
        """Writes `replications.json`, `metrics.parquet`, `intervals.parquet`, and a directory
        `seed-N` with the run of each seed.

        Raises:
            OutputError: If the files cannot be written.
        """
        save_replications(self, directory)

    def _kernel(self) -> UsedKernelJson:
        """The kernel of the engine `linux`, as in the result of a run."""
        used = self.runs[0].json["provenance"].get("kernel")
        return {} if used is None else {"provenance": {"kernel": used}}

    def _own(self) -> list[dict[str, float | None]]:
        return self.own or [{} for _ in self.runs]


def whole_metrics(found: Sequence[Row]) -> Row:
    """The metrics of a run as a whole, from its rows.

    They are the metrics of its queue, pings and fairness, and the metrics of all flows together.
    The metrics in `SUMS` are added over the flows; other metrics of flows are averaged.
    """
    whole: Row = {}
    for name in found[0]:
        if name in ABOUT:
            continue
        values = [value for row in found for value in _known(row[name])]
        if name.startswith(_WHOLE):
            whole[name] = found[0][name]
        elif values:
            total = math.fsum(values)
            whole[name] = total if name in SUMS else total / len(values)
    return whole


SUMS = ("goodput_mbit", "retransmits", "summary_retransmits", "completed", "answers_per_s",
    "down_mbit", "up_mbit", "stalls", "asked", "refused")  # fmt: skip
"""Metrics of flows that `whole_metrics` adds."""


def _of_flow(row: Row) -> Row:
    return {
        name: value
        for name, value in row.items()
        if name not in ABOUT and not name.startswith(_WHOLE)
    }


def _known(value: object) -> list[float]:
    """A list that contains the number; an empty list for None and other values."""
    number = isinstance(value, int | float) and math.isfinite(value)
    return [float(value)] if number else []  # type: ignore[arg-type]


def _intervals(by_name: Mapping[str, Sequence[float]]) -> dict[str, Interval]:
    return {name: of_mean(values, MOST.get(name)) for name, values in by_name.items() if values}


def start_jitter(duration_s: float) -> str:
    """The default start jitter of replications for this duration.

    >>> start_jitter(12), start_jitter(60)
    ('1.5s', '5s')
    """
    return f"{min(JITTER_MOST_S, duration_s / JITTER_PART):g}s"


def seconds(text: str) -> float:
    """A time with its unit, as in a scenario with all defaults filled in, converted to s.

    >>> seconds("1.5s"), seconds("2min"), seconds("300ms")
    (1.5, 120.0, 0.3)
    """
    unit = text.lstrip("0123456789.")
    return float(text.removesuffix(unit)) * _UNITS[unit]


def replicate(
    scenario: Scenario | str | PathLike[str],
    *,
    seeds: int = 20,
    seed: int | None = None,
    engine: Engine = "sim",
    kernel: str | None = None,
    metric: Function | None = None,
    sample_interval: str | None = "off",
    states: bool = False,
    progress: Progress | None = None,
) -> Replications:
    """Runs a scenario with several seeds.

    >>> from narrows import Flow, Path
    >>> path = Path(rate="10Mbit", rtt="20ms", buffer="1bdp")
    >>> two = Scenario(path, flows=[Flow("cubic"), Flow("reno")], duration="8s")
    >>> found = replicate(two, seeds=3, metric=lambda run: {"first": run.flows[0]["goodput_mbit"]})
    >>> found.whole()["goodput_mbit"].runs, len(found.flows())
    (3, 2)
    >>> found.whole()["first"] == found.flows()[0]["goodput_mbit"]
    True

    Args:
        scenario: The scenario, or the name of its file.
        seeds: Number of seeds.
        seed: The first seed; the scenario's own by default.
        engine: The engine; runs of `"live"` are executed one after another.
        kernel: As for `run`.
        metric: A function that computes additional metrics of a run.
        sample_interval: As for `run`.
        states: As for `run`.
        progress: Called with the number of finished runs and their total number.

    Raises:
        ScenarioError: If the scenario has errors.
        EngineError: If this engine cannot run the scenario.
        NarrowsError: If there are no seeds, or a seed is out of range.
    """
    if seeds < 1:
        raise NarrowsError(f"seeds = {seeds}: is not at least 1; write seeds = 20")
    chosen = choose(engine, kernel)
    given = scenario if isinstance(scenario, Scenario) else load(scenario)
    asked, widened = with_jitter(given)
    defaults = _core.scenario_defaults(asked.tree())
    first = int(defaults["seed"]) if seed is None else seed
    if not 0 <= first <= LARGEST_SEED - seeds + 1:
        raise NarrowsError(
            f"seed = {first}, seeds = {seeds}: seeds are whole numbers from 0 to {LARGEST_SEED}"
        )
    each = range(first, first + seeds)
    finished = 0

    def one(one_seed: int, keep_on: Progress) -> Run:
        return run(
            asked,
            seed=one_seed,
            engine=engine,
            kernel=chosen.kernel,
            sample_interval=sample_interval,
            states=states,
            progress=keep_on,
        )

    def done(_: int) -> None:
        nonlocal finished
        finished += 1
        if progress is not None:
            progress(finished, seeds)

    runs = everywhere(each, one, cost=lambda _: 0.0, done=done, jobs=chosen.jobs())
    return Replications(
        scenario=defaults | {"seed": first},
        seed=first,
        runs=runs,
        own=[numbers(metric(one)) for one in runs] if metric is not None else [],
        widened=widened,
    )


def with_jitter(scenario: Scenario) -> tuple[Scenario, bool]:
    """The scenario, and whether its start jitter was changed. It gets the default start jitter of
    replications unless it sets its own or the default is not larger.
    """
    if scenario.start_jitter is not None or not scenario.flows:
        return scenario, False
    tree = _core.scenario_defaults(scenario.tree())
    latest = max(seconds(flow.get("start", "0s")) for flow in tree["flow"])
    wide = min(
        JITTER_MOST_S, (seconds(tree["duration"]) - latest) / JITTER_PART, seconds(tree["warmup"])
    )
    if wide <= seconds(tree["start_jitter"]):
        return scenario, False
    return replace(scenario, start_jitter=f"{wide:g}s"), True
