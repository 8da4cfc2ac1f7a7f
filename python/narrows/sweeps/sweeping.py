"""A sweep: a scenario, the keys that vary in it, and the execution of each case."""

from __future__ import annotations

import copy
import hashlib
import json
import re
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

from narrows import _core, extras
from narrows.errors import NarrowsError, OutputError, Problem, ScenarioError
from narrows.json_object import JsonObject
from narrows.models import loaded
from narrows.render.html import fragment
from narrows.runs.engines import SIM, EngineChoice, choose
from narrows.runs.metric import Function, Metric
from narrows.runs.run import Engine
from narrows.runs.scenario import Scenario, load
from narrows.sweeps import keys as scenario_keys
from narrows.sweeps.claims import Claims
from narrows.sweeps.design import Design, Values
from narrows.sweeps.executors import Crew
from narrows.sweeps.executors import crew as crew_of
from narrows.sweeps.store import Medians, Store
from narrows.sweeps.worker import Case, Columns

extras.require_pyarrow()
import pyarrow as pa  # noqa: E402 - behind the error that names the extra
import pyarrow.compute as pc  # noqa: E402

Progress = Callable[[int, int, int], object]
"""A function that is called repeatedly with the numbers of finished, failed and planned runs."""

INTO = "sweep-results"
"""Default directory of the results."""

_LAND_S = 0.5
_CHUNK = 10_000
_SEED = "seed"
_LARGEST_SEED = 2**63 - 1
_MOST_SEEDS = 100_000
"""Maximum number of seeds of each case, the same as for the option `--seeds`."""

_NAMING = ("trace", "tree")
"""Keys of a scenario whose values may name a file."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A run that failed.

    Attributes:
        case: Number of its case in the sweep, from 0.
        seed: Seed of the run.
        reason: The reason.
        file: Scenario file with which `narrows run` reproduces the failure.
        key: The key of the run.
    """

    case: int
    seed: int
    reason: str
    file: Path
    key: str = ""


@dataclass(frozen=True, kw_only=True)
class _Pass:
    """The runs that are to be executed, given the content of the store.

    Attributes:
        here: The keys of the runs that are in the store.
        failed: The keys of the runs that have already failed.
        doubled: The marks (`_mark`) of the runs that several cases share.
        wanting: The number of runs that are neither stored nor failed.
    """

    here: pa.Array
    failed: set[str]
    doubled: set[int]
    wanting: int


@dataclass
class Sweep:
    """A set of scenarios that differ in a few keys; the function `sweep` creates it.

    Attributes:
        base: The scenario that all cases have in common, as nested tables.
        design: The keys that vary, and their values.
        seeds: The seeds of each case.
        title: The name of the sweep for users.
        into: The directory of its results.
        metric: The metric that the caller defined for each run; None without one.
        engine: The engine of all runs.
        failures: The runs that failed in the last call of `run` or `finish`.
    """

    base: JsonObject
    design: Design
    seeds: tuple[int, ...]
    title: str = "sweep"
    into: Path = Path(INTO)
    metric: Metric | None = None
    engine: EngineChoice = SIM
    failures: list[Failure] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Stores the scenario as text, because parsing it is the fastest way to copy it."""
        self._text = json.dumps(self.base)

    def __len__(self) -> int:
        """Number of runs: cases times seeds."""
        return len(self.design) * len(self.seeds)

    def scenario(self, case: int) -> JsonObject:
        """The scenario of a case, as nested tables.

        >>> from narrows import Flow, Path, Scenario, sweep
        >>> scenario = Scenario(Path(rate="1Mbit", rtt="10ms"), flows=[Flow("cubic")],
        ...     duration="1s")
        >>> sweep(scenario, {"path.rate": ["1Mbit", "2Mbit"]}).scenario(1)["path"]
        {'rate': '2Mbit', 'rtt': '10ms'}
        """
        return self._with(self.design[case])

    def _with(self, values: Mapping[str, Any]) -> JsonObject:
        tree: JsonObject = json.loads(self._text)
        for key, value in values.items():
            scenario_keys.put(
                tree, key, value if isinstance(value, (str, int, float)) else copy.deepcopy(value)
            )
        return tree

    def check(self) -> None:
        """Checks the values of all keys without a run: all values of lists and both ends of ranges.
        One error reports all mistakes.

        Raises:
            ScenarioError: If values are not valid.
            NarrowsError: If a key has no place in the scenario.
        """
        said: dict[str, None] = {}
        nowhere = False
        found: dict[tuple[str, str | None, str], Problem] = {}
        for values in self.design.ends():
            tree: JsonObject = json.loads(self._text)
            for key, value in values.items():
                try:
                    scenario_keys.put(tree, key, copy.deepcopy(value))
                except NarrowsError as error:
                    nowhere = True
                    said[str(error)] = None
            try:
                _core.scenario_to_toml(tree)
            except ScenarioError as error:
                # The values of an unknown key make no difference.
                new = {
                    (
                        one.key,
                        one.value if "is not a key" not in one.problem else None,
                        one.problem,
                    ): one
                    for one in error.errors
                }
                told = [one.message for at, one in new.items() if at not in found]
                found |= new
                if told:
                    where = ", ".join(
                        f"{key} = {json.dumps(value)}" for key, value in values.items()
                    )
                    said["\n".join([f"the case of {where}:", *told])] = None
        if nowhere:
            raise NarrowsError("\n".join(said))
        if said:
            raise ScenarioError("\n".join(said), list(found.values()))

    def run(
        self, *, on: str | Crew = "local", jobs: int | None = None, progress: Progress | None = None
    ) -> pa.Table:
        """Calls `finish` and returns the table of `frame`."""
        self.finish(on=on, jobs=jobs, progress=progress)
        return self.frame()

    def finish(
        self, *, on: str | Crew = "local", jobs: int | None = None, progress: Progress | None = None
    ) -> None:
        """Executes the runs that the directory does not contain yet.

        Results are stored while the sweep runs, at most twice per second, so that an interrupted
        sweep can be continued.

        Args:
            on: `"local"` (a process for each core), `"ray"`, or `"ray://HOST:10001"`.
            jobs: Number of processes or threads of `"local"`.
            progress: A function that is called repeatedly; an exception that it raises ends the
                sweep.

        Raises:
            ScenarioError: If a value is not valid, before anything is run.
            OutputError: If the results cannot be written.
        """
        self.check()
        crew = crew_of(on, jobs, self.metric, self.engine) if isinstance(on, str) else on
        store = Store(self.into)
        self.failures = []
        tell = progress or (lambda *_: None)
        planned = False
        with store.claims() as claims:
            while True:
                # Claims are renewed before the store is read, so that the runs of a sweep that has
                # just ended are found in the store.
                claims.renew()
                here = store.keys()
                if not planned:
                    self._plan(store)
                    planned = True
                elsewhere = self._pass(store, crew, self._wanting(store, here), claims, tell)
                if not elsewhere:
                    return
                self._wait(store, claims, elsewhere, tell)

    def _pass(
        self, store: Store, crew: Crew, todo: _Pass, claims: Claims, tell: Progress
    ) -> set[str]:
        """Executes the runs that no other sweep has claimed, and returns the keys of the others."""
        planned = len(self)
        done, landed = planned - todo.wanting, time.monotonic()
        rows: list[Columns] = []
        elsewhere: set[str] = set()
        numbers: dict[str, tuple[int, int]] = {}
        tell(done, len(self.failures), planned)
        if not todo.wanting:
            return elsewhere
        outcomes = crew.outcomes(self._todo(store, todo, claims, numbers, elsewhere), todo.wanting)
        try:
            for batch in outcomes:
                for key in batch.finished():
                    del numbers[key]
                for key, why in batch.failed.items():
                    self._failed(store, *numbers.pop(key), key, why)
                done += len(batch)
                if batch.rows:
                    rows.append(batch.rows)
                if rows and time.monotonic() - landed > _LAND_S:
                    store.add(rows)
                    rows, landed = [], time.monotonic()
                tell(done, len(self.failures), planned)
        finally:
            try:
                # Finished runs are stored even if the sweep ends early.
                store.add(rows)
            finally:
                # This call ends the processes, even if the disk is full.
                close = getattr(outcomes, "close", None)
                if close is not None:
                    close()
        return elsewhere

    def _wait(self, store: Store, claims: Claims, elsewhere: set[str], tell: Progress) -> None:
        """Waits until the runs that other sweeps execute are stored, or these sweeps have ended."""
        seen: frozenset[str] = frozenset()
        while elsewhere := claims.in_work(elsewhere):
            now = store.parts()
            if now == seen:
                time.sleep(_LAND_S / 2)
                continue
            seen = now
            keys = pa.array(sorted(elsewhere), pa.string())
            elsewhere = set(
                keys.filter(pc.invert(pc.is_in(keys, value_set=store.keys()))).to_pylist()
            )
            tell(len(self) - len(elsewhere), len(self.failures), len(self))

    def frame(self, columns: Sequence[str] | None = None) -> pa.Table:
        """A table with a row for each case, seed and flow of finished runs. Its columns are the
        keys that vary, then all metrics or those in `columns`.

        `to_pandas()` and `polars.from_arrow` convert it to a data frame.
        """
        store = Store(self.into)
        cases = store.cases(self._name(), schema=self._columns(), rows=len(self))
        runs = store.runs(None if columns is None else ["flow_number", *columns])
        runs = runs.filter(pc.is_in(runs["key"], value_set=pc.unique(cases["key"])))
        joined = cases.join(runs, "key", join_type="inner").sort_by(
            [("case", "ascending"), (_SEED, "ascending"), ("flow_number", "ascending")]
        )
        order = [*cases.column_names, *(name for name in runs.column_names if name != "key")]
        assert isinstance(joined, pa.Table)
        found = joined.select(order).combine_chunks()
        return _with_metrics(found) if "metrics" in order else found

    def _repr_html_(self) -> str:
        """The medians over the rows of finished runs by congestion control as HTML, for
        notebooks.
        """
        from narrows.sweeps.render import SHOWN, summary  # noqa: PLC0415 - a sweep needs no Rich

        keys = ", ".join(self.design.keys)
        title = f"{self.title}: {len(self)} runs over {keys}"
        try:
            rows, medians = self.medians(SHOWN)
        except OutputError:
            return fragment([(title, "bold"), "No run is finished; call run()."])
        return fragment([(f"{title}; {rows} rows", "bold"), summary(medians)])

    def medians(self, columns: Sequence[str]) -> tuple[int, Medians]:
        """The number of rows of finished runs, and the medians of these columns for each congestion
        control.

        The memory for a million runs is a million numbers for each of these columns, and not whole
        rows.
        """
        store = Store(self.into)
        keys = pc.unique(
            store.cases(self._name(), ["key"], schema=self._columns(), rows=len(self))["key"]
        )
        rows, found = store.medians(keys, "cc", columns)
        return rows, dict(sorted(found.items()))

    def _plan(self, store: Store) -> None:
        """Writes the table of the sweep's cases to the store."""
        schema = self._columns()
        chunk: list[JsonObject] = []
        with store.writing_cases(self._name(), schema) as writer:
            for case in range(len(self.design)):
                values = {
                    key: _shown(schema, key, value) for key, value in self.design[case].items()
                }
                chunk += [
                    {"case": case, _SEED: seed, "key": key, **values}
                    for seed, key in self._keys_of(case)
                ]
                if len(chunk) >= _CHUNK or case == len(self.design) - 1:
                    writer.write_table(pa.Table.from_pylist(chunk, schema=schema))
                    chunk = []

    def _pieces(self, store: Store, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The table of cases in pieces."""
        return store.cases_in_pieces(
            self._name(), columns, _CHUNK, schema=self._columns(), rows=len(self)
        )

    def _wanting(self, store: Store, here: pa.Array) -> _Pass:
        """The runs that are to be executed if the store contains the keys `here`."""
        missing = array("Q")  # Eight bytes for each.
        for batch in self._pieces(store, ["key"]):
            new = batch["key"].filter(pc.invert(pc.is_in(batch["key"], value_set=here)))
            missing.extend(map(_mark, new.to_pylist()))
        marks = pa.Array.from_buffers(pa.uint64(), len(missing), [None, pa.py_buffer(missing)])
        counted = pc.value_counts(marks)
        twice = counted.field("values").filter(pc.greater(counted.field("counts"), 1))
        failed = {failure.key for failure in self.failures}
        return _Pass(
            here=here,
            failed=failed,
            doubled=set(twice.to_pylist()),
            wanting=len(counted) - len(failed),
        )

    def _todo(
        self,
        store: Store,
        todo: _Pass,
        claims: Claims,
        numbers: dict[str, tuple[int, int]],
        elsewhere: set[str],
    ) -> Iterator[Case]:
        """Yields the runs that are neither in the store nor claimed by other sweeps, each once.

        The case and seed of each run are added to `numbers`, and the keys of claimed runs to
        `elsewhere`.
        """
        handed: set[int] = set()
        for batch in self._pieces(store, ["case", _SEED, "key"]):
            for row in batch.filter(
                pc.invert(pc.is_in(batch["key"], value_set=todo.here))
            ).to_pylist():
                mark, key = _mark(row["key"]), row["key"]
                if mark in handed or key in todo.failed:
                    continue
                if mark in todo.doubled:
                    handed.add(mark)
                if claims.take(key):
                    numbers[key] = (row["case"], row[_SEED])
                    yield key, self.scenario(row["case"]), row[_SEED]
                else:
                    elsewhere.add(key)

    def _keys_of(self, case: int) -> Iterator[tuple[int, str]]:
        tree = self.scenario(case)
        try:
            text = _core.scenario_to_toml(tree)
            if any(key in text for key in _NAMING):
                for name, held in _core.scenario_files(text, self.title, built=True).items():
                    text = text.replace(
                        json.dumps(name, ensure_ascii=False),
                        hashlib.sha256(held.encode()).hexdigest(),
                    )
        except NarrowsError:
            text = json.dumps(tree, sort_keys=True)  # The run fails and reports the reason.
        about = (build(), "" if self.metric is None else self.metric.about(), self.engine.about())
        made = " ".join(part for part in about if part)
        models = loaded.used(tree)
        if models:
            # Another version of a model may have other results.
            kept = {name: one.get("sha256", one) for name, one in models.items()}
            made += " " + json.dumps(kept, sort_keys=True)
        for seed in self.seeds:
            yield seed, hashlib.sha256(f"{made} {seed} {text}".encode()).hexdigest()[:32]

    def _columns(self) -> pa.Schema:
        kinds = []
        for key in self.design.keys:
            values = [value for ends in self.design.ends() if (value := ends.get(key)) is not None]
            whole = all(isinstance(v, int) and not isinstance(v, bool) for v in values)
            number = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)
            kinds.append((key, pa.int64() if whole else pa.float64() if number else pa.string()))
        return pa.schema([("case", pa.int64()), (_SEED, pa.int64()), ("key", pa.string()), *kinds])

    def _failed(self, store: Store, case: int, seed: int, key: str, reason: str) -> None:
        tree = self.scenario(case)
        try:
            text = _core.scenario_to_toml(tree | {_SEED: seed})
        except NarrowsError:
            text = "".join(f"# {line}\n" for line in json.dumps(tree, indent=1).splitlines())
        file = store.failed(key, text, reason)
        self.failures.append(Failure(case=case, seed=seed, reason=reason, file=file, key=key))

    def _name(self) -> str:
        """The name of the table of cases: the title and a hash, so that different sweeps with the
        same title have different names.
        """
        more = [] if self.metric is None else [self.metric.about()]
        if self.engine != SIM:
            more.append(self.engine.about())
        about = json.dumps([self.base, self.design.about(), self.seeds, *more], sort_keys=True)
        slug = re.sub(r"[^A-Za-z0-9]+", "-", self.title).strip("-").lower()[:40] or "sweep"
        return f"{slug}-{hashlib.sha256(about.encode()).hexdigest()[:10]}"


def _with_metrics(found: pa.Table) -> pa.Table:
    """The table with the caller's metrics as separate columns instead of the JSON column
    `metrics`.
    """
    own = [json.loads(text) if text else {} for text in found["metrics"].to_pylist()]
    found = found.drop_columns(["metrics"])
    for name in dict.fromkeys(name for one in own for name in one):
        column = pa.array([one.get(name) for one in own], pa.float64())
        place = f"metric.{name}" if name in found.column_names else name
        found = found.append_column(place, column)
    return found


def _mark(key: str) -> int:
    """The first 64 bits of a key as a number, which suffices to distinguish the runs of a sweep."""
    return int(key[:16], 16)


def _shown(schema: pa.Schema, key: str, value: object) -> object:
    """A value as it is stored in the column of its key: as JSON if the column contains text and the
    value is not text.
    """
    return (
        value
        if value is None or schema.field(key).type != "string" or isinstance(value, str)
        else json.dumps(value)
    )


@cache
def build() -> str:
    """Version and build of narrows, a part of the keys of runs, because another build may have
    other results.
    """
    extension = _core.__file__ or ""
    return f"{_core.__version__} {hashlib.sha256(Path(extension).read_bytes()).hexdigest()}"


def sweep(
    scenario: Scenario | str | PathLike[str],
    over: Mapping[str, Values] | Sequence[Mapping[str, Any]],
    *,
    seeds: int | Sequence[int] = 1,
    design: str | None = None,
    cases: int | None = None,
    design_seed: int = 1,
    title: str = "sweep",
    into: str | PathLike[str] = INTO,
    engine: Engine = "sim",
    kernel: str | None = None,
    metric: Function | None = None,
    sample_interval: str = "off",
) -> Sweep:
    """Creates a sweep of one scenario; its method `run` returns a table of the results.

    >>> import narrows as nw, tempfile
    >>> path = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp")
    >>> scenario = nw.Scenario(path, flows=[nw.Flow("cubic")], duration="2s")
    >>> with tempfile.TemporaryDirectory() as there:
    ...     grid = nw.sweep(scenario, {"path.rate": ["5Mbit", "10Mbit"], "flow.cc": ["bbr",
    ...     "cubic"]}, into=there)
    ...     df = grid.run()
    >>> df.num_rows, df.column_names[:6]
    (4, ['case', 'seed', 'key', 'path.rate', 'flow.cc', 'flow_number'])

    Args:
        scenario: The scenario that all cases have in common, or the name of its file.
        over: The keys that vary, each with a list of values or a range; or a list of cases, each
            with its keys and values.
        seeds: Number of seeds, which then begin with 1, or a list of seeds.
        design: `"grid"` (every combination, the default), `"random"`, `"latin_hypercube"`; for a
            list of cases `"list"`.
        cases: Number of cases of a random design or a Latin hypercube.
        design_seed: Seed of the random choice of cases.
        title: The name of the sweep for users, also used for the table of its cases.
        into: The directory of the results; several sweeps may share one.
        engine: The engine of all runs. A live run whose self-check fails is repeated.
        kernel: The kernel of the engine `linux`; the newest built one by default.
        metric: A function that computes a number from a run, or several numbers by name, which
            become columns. With it, the local executor runs cases in threads of this process.
        sample_interval: Time between two samples of the runs that `metric` receives.

    Raises:
        NarrowsError: If the arguments are not valid.
        EngineError: If the kernel is not built.
    """
    chosen = choose(engine, kernel)
    wrong: list[str] = []
    base: JsonObject = {}
    plan: Design | None = None
    try:
        base = (scenario if isinstance(scenario, Scenario) else load(scenario)).tree()
    except NarrowsError as error:
        wrong.append(str(error))
        if isinstance(scenario, Scenario):
            raise
    kind = design or ("grid" if isinstance(over, Mapping) else "list")
    if isinstance(seeds, int) and seeds > _MOST_SEEDS:
        wrong.append(f"seeds = {seeds}: a case has from 1 to {_MOST_SEEDS} seeds: seeds = 5")
        seeds = 1
    numbers = range(1, seeds + 1) if isinstance(seeds, int) else seeds
    if not numbers:
        wrong.append("a sweep needs a seed: seeds = 1")
    wrong += [
        f"{seed!r} is no seed; seeds are whole numbers from 0: seeds = [1, 2, 3]"
        for seed in numbers
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= _LARGEST_SEED
    ]
    try:
        plan = Design(kind, over, cases=cases, seed=design_seed)
    except NarrowsError as error:
        wrong.append(str(error))
        right = Design.of_right_axes(over)
        if base and right is not None:
            # Mistakes in ranges do not hide mistakes in values.
            try:
                Sweep(base, right, (1,)).check()
            except NarrowsError as also:
                wrong.append(str(also))
    if plan is not None and _SEED in plan.keys:
        wrong.append(
            "`seed` is no key to vary; every case is run with each seed: seeds = [1, 2, 3]"
        )
    if wrong or plan is None:
        raise NarrowsError("\n".join(wrong))
    own = None if metric is None else Metric(metric, sample_interval)
    if own is not None:
        own.about()
    return Sweep(base, plan, tuple(dict.fromkeys(numbers)), title, Path(into), own, chosen)
