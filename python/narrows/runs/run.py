"""Runs a scenario; the class `Run` contains the result."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from narrows import _core, extras
from narrows.errors import EngineError, OutputError, RecordError, reason
from narrows.models import loaded
from narrows.runs.source import read
from narrows.storage import provenance
from narrows.storage.text import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path as FilePath

    import pyarrow as pa

    from narrows.json_object import JsonObject
    from narrows.kernel.store import Kernel
    from narrows.render.figure import Figure
    from narrows.render.style import Look, Style
    from narrows.runs.model import FlowJson, RunJson, Spread, StationJson
    from narrows.runs.scenario import Scenario
    from narrows.sweeps.rows import Row

Engine = Literal["sim", "live", "linux"]
Queues = Literal["kernel", "narrows"]
"""`Engine` is the engine of a run: the simulator, this host's TCP with real packets, or the TCP of
a built kernel in simulated time. `Queues` selects the queue disciplines of the engine `linux`.
"""

ENGINES: tuple[str, ...] = get_args(Engine)

Progress = Callable[[float, float], object]
"""A function that is called repeatedly with the time in the run and the duration of the scenario,
both in s."""

TABLES = ("samples", "queue_samples", "class_samples", "pings", "states", "transfers")
"""The tables that `Run.save` writes."""

_ALL = (*TABLES, "delays", "verdicts")
_SPREADS = {
    "rtt_ms": "rtt_{}_ms",
    "sampled_rtt_ms": "sampled_rtt_{}_ms",
    "cwnd_packets": "cwnd_{}_packets",
    "limits": "{}",
}


class Run:
    """The result of a run: metrics, tables of samples, provenance.

    The metrics are plain Python values. The tables are Arrow tables that use the engine's memory
    without a copy. A run can be pickled, so that other processes can return it.

    >>> from narrows import Flow, Path, Scenario, run
    >>> path = Path(rate="20Mbit", rtt="20ms", buffer="1bdp")
    >>> one = run(Scenario(path, flows=[Flow("cubic")], duration="2s", seed=7))
    >>> [flow["id"] for flow in one.flows]
    ['cubic0']
    >>> one.summary().num_rows
    1
    """

    def __init__(
        self,
        *,
        figures: RunJson,
        toml: str,
        tables: _core.Run | dict[str, pa.Table | dict[str, list[Any]]],
        verdicts: tuple[int, int] = (0, 0),
        files: Mapping[str, str] | None = None,
    ) -> None:
        """`run` calls this; users need not call it."""
        self._figures = figures
        self._toml = toml
        self._source = tables
        self._tables: dict[str, pa.Table] = {}
        self._verdicts = verdicts
        self._files = dict(files or {})

    @property
    def json(self) -> RunJson:
        """The whole summary, as `narrows run --json` prints it."""
        return self._figures

    @property
    def flows(self) -> list[FlowJson]:
        """The metrics of each flow, in the order of the scenario."""
        return self._figures["flows"]

    @property
    def workloads(self) -> list[JsonObject]:
        """The metrics of the applications of flows with a workload, with the `id` of the flow."""
        return [{"id": flow["id"], **flow["workload"]} for flow in self.flows if "workload" in flow]

    @property
    def stations(self) -> list[StationJson]:
        """The metrics of each station of a Wi-Fi network, in the order of the scenario; empty for
        other scenarios.
        """
        return self._figures.get("stations", [])

    @property
    def toml(self) -> str:
        """The scenario as given; `json` contains it with every default filled in."""
        return self._toml

    @property
    def files(self) -> dict[str, str]:
        """The content of the files that the scenario names (`trace`), by that name."""
        return self._files

    def summary(self) -> pa.Table:
        """A table with a row for each flow; `to_pandas()` and `polars.from_arrow` convert it to a
        data frame.
        """
        extras.require_pyarrow()
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        rows = []
        for flow in self.flows:
            row: JsonObject = {}
            for name, value in flow.items():
                if name in _SPREADS:
                    of = cast("Spread", value)
                    row |= {_SPREADS[name].format(which): x for which, x in of.items()}
                elif name not in ("series", "workload"):
                    row[name] = value
            rows.append(row)
        # The type of a column depends on its name and not on its values, so that the summaries of
        # several runs fit into one table.
        words, counts = ("id", "cc"), ("retransmits", "summary_retransmits")
        names = rows[0] if rows else ()
        types = [
            pa.string() if n in words else pa.int64() if n in counts else pa.float64()
            for n in names
        ]
        return pa.Table.from_pylist(rows, schema=pa.schema(list(zip(names, types, strict=True))))

    @property
    def samples(self) -> pa.Table:
        """The samples of the flows over time, a row for each flow and sample."""
        return self._table("samples")

    @property
    def queue_samples(self) -> pa.Table:
        """The samples of the queues over time, a row for each queue and sample."""
        return self._table("queue_samples")

    @property
    def class_samples(self) -> pa.Table:
        """The samples of the classes or bands of queues, a row for each class and sample; empty if
        no queue has classes.
        """
        return self._table("class_samples")

    @property
    def pings(self) -> pa.Table:
        """A row for each ping that was sent."""
        return self._table("pings")

    @property
    def states(self) -> pa.Table:
        """The internal state of congestion controls, a row for each flow, sample and state
        variable; empty unless `run` was called with `states=True`.

        For a flow with a workload, there are rows for each connection, for at most six connections
        at a time. The column `connection` is null for other flows.
        """
        return self._table("states")

    def state(self, flow: str) -> pa.Table:
        """The internal state of the congestion control of a flow, with a column for each state
        variable.

        There is a row for each sample; for a flow with a workload, a row for each sample and
        `connection`.

        >>> from narrows import Flow, Path, Scenario, run
        >>> path = Path(rate="20Mbit", rtt="20ms", buffer="1bdp")
        >>> one = run(Scenario(path, flows=[Flow("bbr")], duration="2s"), states=True)
        >>> one.state("bbr0").column_names[:4]
        ['t_s', 'mode', 'bw_packets_per_s', 'min_rtt_ms']
        """
        extras.require_pyarrow()
        import pyarrow as pa  # noqa: PLC0415

        found: dict[tuple[float, int | None], Row] = {}
        columns: dict[str, None] = {"t_s": None}
        for row in self.states.to_pylist():
            if row["flow"] == flow:
                at = {"t_s": row["t_s"]}
                if row["connection"] is not None:
                    at["connection"] = row["connection"]
                value = row["value"] if row["word"] is None else row["word"]
                one = found.setdefault((row["t_s"], row["connection"]), at)
                one[row["name"]] = value
                columns |= dict.fromkeys(one)
        rows = list(found.values())
        return pa.table({name: [row.get(name) for row in rows] for name in columns})

    @property
    def transfers(self) -> pa.Table:
        """The transfers of flows with a `size` and of the workload `poisson`: start, size,
        completion time and slowdown.
        """
        return self._table("transfers")

    @property
    def links(self) -> pa.Table:
        """The metrics of the links, a row for each link; empty unless the scenario is a network of
        links, or a Wi-Fi behind a path.
        """
        extras.require_pyarrow()
        import pyarrow as pa  # noqa: PLC0415

        return pa.table(_links(self._figures))

    def rows(self) -> list[Row]:
        """The metrics as rows with the columns of a sweep, one row for each flow."""
        numbers = {flow["id"]: number for number, flow in enumerate(self.flows)}
        done = self.columns("transfers")
        transfers = [
            (numbers[flow], fct_s, slowdown)
            for flow, fct_s, slowdown in zip(
                done["flow"], done["fct_s"], done["slowdown"], strict=True
            )
            if fct_s is not None
        ]
        rows = _core.rows_of(json.dumps(self._figures), transfers)
        return [{"key": "", **row} for row in rows]

    @property
    def delays(self) -> pa.Table:
        """The distributions of delay. In each row, `share` is the share of packets (queueing
        delay), pings (RTT) or application waits (response time) with a delay of at most `delay_ms`.
        """
        return self._table("delays")

    @property
    def verdicts(self) -> pa.Table:
        """A row for each packet that was dropped, marked or lost; empty unless `verdicts` was
        passed to `run`.
        """
        return self._table("verdicts")

    @property
    def verdicts_asked(self) -> int:
        """Maximum number of rows of the table `verdicts`, as passed to `run`."""
        return self._verdicts[0]

    @property
    def verdicts_left_out(self) -> int:
        """Number of dropped, marked or lost packets beyond the maximum `verdicts_asked`, which have
        no row.
        """
        return self._verdicts[1]

    def plot(
        self,
        file: str | PathLike[str] | None = None,
        *,
        only: Sequence[str] | None = None,
        look: Look = "screen",
        style: Style | None = None,
    ) -> Figure:
        """Draws throughput, round-trip times, windows, the queue, losses and the distribution of
        delay.

        Args:
            file: The file to write; its suffix selects PNG, SVG or PDF. Without it, the figure is
                only returned.
            only: The pictures to draw: throughput, rtt, window, queue, losses, delay, work
                (response times of applications); all of these by default. `state` draws the
                internal state of congestion controls, for a run with `states=True`. `["network"]`
                draws the nodes and links.
            look: `"screen"` in colour, `"print"` in black and white.
            style: Size, fonts, resolution, axes and colours of the figure, instead of `look`.

        Raises:
            NarrowsError: If Matplotlib is not installed (`narrows[plot]`), or the run took no
                samples.
            OutputError: If the file cannot be written.
        """
        from narrows.render.run_plots import plot  # noqa: PLC0415

        return plot(self, file, only=only, look=look, style=style)

    def report(self, file: str | PathLike[str], *, also: Sequence[str] = ()) -> None:
        """Writes a self-contained HTML page with the results, the pictures, and the stored
        reference runs that support the results.

        With `run(..., verdicts=20_000)`, it shows individual packets that were dropped, marked or
        lost. The sample interval `"pictures"` is suitable for this page.

        Args:
            file: The file to write.
            also: Additional pictures: `pacing`, and `state` for the internal state of congestion
                controls of a run with `states=True`.

        Raises:
            NarrowsError: If the run took no samples.
            OutputError: If the file cannot be written.
        """
        from narrows.render.report import compare_report  # noqa: PLC0415

        compare_report([self], file, also=also)

    def lab(self, *, height: int = 900) -> Any:  # noqa: ANN401 - anywidget has no types
        """Returns the interactive lab with the scenario of this run, as a widget for a notebook.

        With anywidget (`pip install 'narrows[notebook]'`), its trait `scenario` is the text of the
        scenario that the page shows; it can be read and set. Without anywidget, the result is a
        frame of a server on this machine, so the browser has to run here.

        Args:
            height: Height in pixels.

        Raises:
            NarrowsError: If this installation has no lab (`make lab` builds it).
        """
        from narrows.render.lab import Widget  # noqa: PLC0415
        from narrows.render.notebook import widget  # noqa: PLC0415

        return widget(self._toml, self._files, height) or Widget(self._toml, self._files, height)

    def _table(self, name: str) -> pa.Table:
        extras.require_pyarrow()
        import pyarrow as pa  # noqa: PLC0415

        if name not in self._tables:
            source = self._source
            # A run that was pickled without pyarrow contains columns instead of tables.
            self._tables[name] = pa.table(
                source[name] if isinstance(source, dict) else source.table(name)
            )
        return self._tables[name]

    def columns(self, table: str) -> dict[str, list[Any]]:
        """The columns of a table, such as `"samples"`, as lists. This needs no pyarrow.

        >>> from narrows import Flow, Path, Scenario, run
        >>> path = Path(rate="20Mbit", rtt="20ms", buffer="1bdp")
        >>> one = run(Scenario(path, flows=[Flow("cubic")], duration="2s"))
        >>> list(one.columns("pings"))
        ['t_s', 'probe', 'rtt_ms']

        Args:
            table: Name of the attribute of the table.
        """
        if not isinstance(self._source, dict):
            return self._source.table(table).columns()
        held: Any = self._source[table]
        return cast("dict[str, list[Any]]", held if isinstance(held, dict) else held.to_pydict())

    def names(self, table: str, column: str) -> list[str]:
        """All names that a column of text may contain, in the order of their internal numbers.

        >>> from narrows import Flow, Path, Scenario, run
        >>> path = Path(rate="20Mbit", rtt="20ms", buffer="1bdp")
        >>> one = run(Scenario(path, flows=[Flow("cubic"), Flow("bbr")], duration="2s"))
        >>> one.names("samples", "flow")
        ['cubic0', 'bbr0']
        """
        if not isinstance(self._source, dict):
            return self._source.table(table).names(column)
        held: Any = self._source[table]
        if isinstance(held, dict):
            return list(dict.fromkeys(name for name in held[column] if name is not None))
        chunks = held[column].combine_chunks()
        return cast("list[str]", chunks.dictionary.to_pylist() if len(chunks) else [])

    def save(self, directory: str | PathLike[str]) -> None:
        """Writes `run.json`, `scenario.toml` and a Parquet file for each table; if one cannot be
        written, no file is changed.

        Files that the scenario names are copied into the directory, and the written scenario names
        the copies.

        Raises:
            OutputError: If the files cannot be written.
        """
        from narrows.runs.save import save  # noqa: PLC0415

        save(self, directory)

    def __getstate__(self) -> dict[str, Any]:
        """The state for pickling. It contains copies of the tables, because other processes cannot
        use the memory of the engine.
        """
        from importlib.util import find_spec  # noqa: PLC0415 - few runs are pickled

        of = self._table if find_spec("pyarrow") else self.columns
        tables = {name: of(name) for name in _ALL}
        return {
            "figures": self._figures,
            "toml": self._toml,
            "tables": tables,
            "verdicts": self._verdicts,
            "files": self._files,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores the state that `__getstate__` returned."""
        self.__init__(**state)  # type: ignore[misc]

    def _repr_html_(self) -> str:
        """The sentences and tables of `narrows run` as HTML, for notebooks."""
        from narrows.render.html import fragment  # noqa: PLC0415
        from narrows.render.run import parts_of  # noqa: PLC0415

        return fragment(parts_of(self._figures))

    def __repr__(self) -> str:
        """The flows, the engine and the seed."""
        ids = ", ".join(flow["id"] for flow in self.flows)
        return (
            f"<narrows.Run of {ids}: engine {self._figures['engine']}, seed "
            f"{self._figures['seed']}>"
        )


_LINK_COLUMNS = {
    "link": ("name",),
    "queue": ("kind",),
    **{of: (of,) for of in ("rate_mbit", "carried_mbit", "carried_bytes", "utilisation")},
    "delay_mean_ms": ("delay_ms", "mean"),
    "delay_p95_ms": ("delay_ms", "p95"),
    "loss_rate": ("loss_rate",),
    **{f"lost_{of}": ("lost", of) for of in ("overflow", "aqm", "policer", "loss")},
    "marks": ("marks",),
}
"""The columns of the table of links, and the places of their values in the JSON."""


def _links(figures: RunJson) -> dict[str, list[Any]]:
    rows: list[Any] = [queue for queue in figures["queues"] if "utilisation" in queue]
    columns: dict[str, list[Any]] = {}
    for column, places in _LINK_COLUMNS.items():
        values = rows
        for place in places:
            values = [value[place] for value in values]
        columns[column] = values
    return columns


def run(
    scenario: Scenario | str | PathLike[str],
    *,
    seed: int | None = None,
    engine: Engine = "sim",
    kernel: str | None = None,
    queues: Queues | None = None,
    sample_interval: str | None = None,
    verdicts: int = 0,
    states: bool = False,
    threads: int | None = None,
    record: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Run:
    """Runs a scenario, or the scenario file of that name.

    Args:
        scenario: The scenario, or the name of its file.
        seed: The seed; by default the seed of the scenario.
        engine: The engine of the run.
        kernel: The kernel of the engine `linux`, such as `"6.12"`; the newest built one by default.
        queues: The queue disciplines of the engine `linux`: those of the `"kernel"`, the default,
            or those of `"narrows"`.
        sample_interval: The time between two samples of the tables, `"100ms"` by default. `"off"`
            takes no samples; `"pictures"` takes some hundred samples, whatever the duration.
        verdicts: Maximum number of dropped, marked or lost packets that are recorded individually,
            from the first one; none by default.
        states: Whether the table `states` has the internal state of congestion controls. With the
            engines `live` and `linux`, the table contains the values that the kernel reports in
            `TCP_CC_INFO`.
        threads: The largest number of threads of the engine `sim` for this run, 1 or 2; by default
            1. The result does not depend on it. `json["provenance"]["threads"]` is the number that
            was used, because two threads need the conditions of docs/performance.md.
        record: A capture file (pcapng, for Wireshark) for all packets. The file exists only after
            the end of the run.
        progress: Called repeatedly; an exception that it raises stops the run.

    Raises:
        ScenarioError: If the scenario is not valid; the error contains all mistakes.
        EngineError: If this engine cannot run the scenario.
        OutputError: If `record` cannot be written. If this happens during the run, the error is a
            `RecordError`, which contains the run.
    """
    check_engine(engine, kernel)
    if seed is not None and not 0 <= seed < 2**64:
        raise EngineError(f"seed = {seed} is not from 0 to 2^64 - 1")
    if not 0 <= verdicts < 2**32:
        raise EngineError(f"verdicts = {verdicts} is not from 0 to 2^32 - 1")
    if threads is not None and (type(threads) is not int or threads not in {1, 2}):
        raise EngineError(f"threads = {threads!r} is not the integer 1 or 2")
    if threads is not None and engine != "sim":
        raise EngineError(
            f"threads = {threads}: the engine `{engine}` has no such option; write the engine `sim`"
        )
    how: JsonObject = {
        "sample_interval": sample_interval,
        "verdicts": verdicts,
        "states": states,
        "progress": progress,
    }
    if threads is not None:
        how["threads"] = threads
    if engine == "linux":
        how |= {"kernel": kernel, "queues": queues or "kernel"}
    elif queues is not None:
        raise EngineError(
            f"queues {queues}: the engine `{engine}` has those of narrows; write the engine `linux`"
        )
    if record is None:
        return _run(scenario, engine, seed, record=None, **how)[0]
    from pathlib import Path as FilePath  # noqa: PLC0415 - few runs are recorded

    return _recorded(
        FilePath(record), lambda part: _run(scenario, engine, seed, record=part, **how)
    )


def check_engine(engine: str, kernel: str | None) -> None:
    """Checks the name of an engine, and that only the engine `linux` has a kernel.

    Raises:
        EngineError: If there is no such engine, or if another engine than `linux` has a kernel.
    """
    if engine not in ENGINES:
        raise EngineError(
            f"there is no engine `{engine}`; there are {', '.join(f'`{name}`' for name in ENGINES)}"
        )
    if engine != "linux" and kernel is not None:
        raise EngineError(
            f"kernel {kernel}: the engine `{engine}` has no kernel to select; write the engine "
            "`linux`"
        )


def _recorded(whole: FilePath, play: Callable[[str], tuple[Run, str | None]]) -> Run:
    """Executes a run with a capture file, which has a temporary name until the run ends.

    An incomplete capture file is removed.
    """
    from narrows.storage.output import is_stream  # noqa: PLC0415 - likewise

    if is_stream(whole):
        done, wrong = play(str(whole))
    else:
        done, wrong = _replaced(whole, play)
    if wrong is not None:
        raise RecordError(
            f"{whole}: {wrong}; the capture was not kept, but the run is complete", done
        )
    return done


def _replaced(
    whole: FilePath, play: Callable[[str], tuple[Run, str | None]]
) -> tuple[Run, str | None]:
    """The run, and the reason if its capture is not complete."""
    from narrows.storage.durable import replacing  # noqa: PLC0415 - likewise

    played: list[tuple[Run, str | None]] = []
    try:
        whole.parent.stat()  # Fails if the directory does not exist, which is not created.
        with replacing(whole.parent, whole.name) as part:
            played.append(play(str(part)))
            if played[0][1] is not None:
                raise OSError
    except OSError as error:
        if not played:
            raise OutputError(f"{whole}: {reason(error)}") from error
        return played[0][0], played[0][1] or reason(error)
    return played[0]


def _run(
    scenario: Scenario | str | PathLike[str],
    engine: Engine,
    seed: int | None,
    *,
    verdicts: int,
    **how: Any,  # noqa: ANN401 - what the core takes
) -> tuple[Run, str | None]:
    """The run, and the reason if its capture is not complete."""
    watch = provenance.Watch()
    how |= {"seed": seed, "verdicts": verdicts}
    used: Kernel | None = None
    if engine != "sim":
        built = not isinstance(scenario, str | PathLike)
        toml, name = (
            (read(scenario), name_of(scenario))
            if isinstance(scenario, str | PathLike)
            else (scenario.toml(), "scenario")
        )
        files = _core.scenario_files(toml, name, built=built)
        how["plugins"] = loaded.check_live(_core.toml_tables(toml, name), engine)
        if engine == "live":
            from narrows.host import live  # noqa: PLC0415 - most runs need no other process

            raw = live.run(toml, name, built=built, **how)
        else:
            from narrows.kernel import machine  # noqa: PLC0415 - likewise

            raw, used = machine.run(toml, name, built=built, **how)
    elif not isinstance(scenario, str | PathLike):
        raw = _core.run_tree(scenario.tree(), **how)
        toml, files = scenario.toml(), raw.files
    else:
        toml = read(scenario)
        raw = _core.run_toml(toml, name_of(scenario), **how)
        files = raw.files
    figures: RunJson = json.loads(raw.json())
    figures["provenance"] = made = provenance.of(figures, watch, files)
    if used is not None:
        made["kernel"] = {
            "name": used.name,
            "release": used.release,
            "key": used.key,
            "patches": used.patches,
        }
    if "threads" in how:
        made["threads"] = raw.threads
    if models := loaded.used(figures["scenario"]):
        made["models"] = models
    done = Run(
        figures=figures,
        toml=toml,
        tables=raw,
        verdicts=(verdicts, raw.verdicts_left_out),
        files=files,
    )
    wrong = raw.record_error and re.sub(r" \(os error \d+\)$", "", raw.record_error)
    return done, wrong and wrong[:1].lower() + wrong[1:]
