"""A sweep: one scenario, what is varied in it, and every case run once."""

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
from typing import TYPE_CHECKING, Any

from narrows import _core
from narrows.errors import NarrowsError, ScenarioError
from narrows.scenario import Scenario, load
from narrows.sweeps import keys as scenario_keys
from narrows.sweeps.crews import Crew
from narrows.sweeps.crews import crew as crew_of
from narrows.sweeps.design import Design, Values
from narrows.sweeps.store import Medians, Store
from narrows.sweeps.worker import Case

if TYPE_CHECKING:
    import pyarrow as pa

Progress = Callable[[int, int, int], object]
"""Called now and then with the cases done, failed, and to be done in all."""

INTO = "sweep-results"
"""Where results stay unless another place is named."""

_LAND_S = 0.5
_CHUNK = 10_000
_SEED = "seed"
_LARGEST_SEED = 2**63 - 1
_NAMING = ("trace", "tree")
"""The keys of a scenario that may name a file."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A case that could not be run.

    Attributes:
        case: Its number in the sweep.
        seed: Its seed.
        reason: Why.
        file: A scenario that shows it, with `narrows run FILE`.
    """

    case: int
    seed: int
    reason: str
    file: Path


@dataclass
class Sweep:
    """Many scenarios that differ in a few keys; made by `sweep`.

    Attributes:
        base: The scenario that all have in common, as nested tables.
        design: What is varied.
        seeds: Each case is run with each of these.
        title: What people call it.
        into: The directory of its results.
        failures: What could not be run, after `run`.
    """

    base: dict[str, Any]
    design: Design
    seeds: tuple[int, ...]
    title: str = "sweep"
    into: Path = Path(INTO)
    failures: list[Failure] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Copies are made of a text: that is quickest."""
        self._text = json.dumps(self.base)

    def __len__(self) -> int:
        """Runs in all."""
        return len(self.design) * len(self.seeds)

    def scenario(self, case: int) -> dict[str, Any]:
        """The scenario of a case, as nested tables.

        >>> from narrows import Flow, Path, Scenario, sweep
        >>> scenario = Scenario(Path(rate="1Mbit", rtt="10ms"), flows=[Flow("cubic")], duration="1s")
        >>> sweep(scenario, {"path.rate": ["1Mbit", "2Mbit"]}).scenario(1)["path"]
        {'rate': '2Mbit', 'rtt': '10ms'}
        """
        return self._with(self.design[case])

    def _with(self, values: Mapping[str, Any]) -> dict[str, Any]:
        tree: dict[str, Any] = json.loads(self._text)
        for key, value in values.items():
            scenario_keys.put(tree, key, value if isinstance(value, (str, int, float)) else copy.deepcopy(value))
        return tree

    def check(self) -> None:
        """Tries the values of each key, without running any.

        Raises:
            ScenarioError: If one is not right.
            NarrowsError: If a key has no place in the scenario.
        """
        for values in self.design.ends():
            tree = self._with(values)
            try:
                _core.scenario_to_toml(tree)
            except ScenarioError as error:
                where = ", ".join(f"{key} = {json.dumps(value)}" for key, value in values.items())
                raise ScenarioError(f"the case of {where}:\n{error}", error.errors) from None

    def run(self, *, on: str | Crew = "local", jobs: int | None = None, progress: Progress | None = None) -> pa.Table:
        """`finish` and `frame` at once."""
        self.finish(on=on, jobs=jobs, progress=progress)
        return self.frame()

    def finish(self, *, on: str | Crew = "local", jobs: int | None = None, progress: Progress | None = None) -> None:
        """Runs what the directory does not have yet.

        Every finished case is kept within a second, so a sweep that was ended, however, goes on where it was.

        Args:
            on: `"local"` (a process for each core), `"ray"`, or `"ray://HOST:10001"`.
            jobs: So many processes, of `"local"`.
            progress: Called now and then; what it raises ends the sweep.

        Raises:
            ScenarioError: If a value is not right, before anything is run.
            OutputError: If the results cannot be written.
        """
        self.check()
        crew = crew_of(on, jobs) if isinstance(on, str) else on
        store = Store(self.into)
        self.failures = []
        here = store.keys()
        wanting, doubled = self._plan(store, here)
        planned = len(self)
        numbers: dict[str, tuple[int, int]] = {}
        done, rows, landed = planned - wanting, [], time.monotonic()
        tell = progress or (lambda *_: None)
        tell(done, 0, planned)
        outcomes = crew.outcomes(self._todo(store, here, doubled, numbers), wanting)
        try:
            for batch in outcomes:
                for key, found, error in batch:
                    case, seed = numbers.pop(key)
                    rows += found
                    done += 1
                    if error is not None:
                        self._failed(store, case, seed, key, error)
                if time.monotonic() - landed > _LAND_S:
                    store.add(rows)
                    rows, landed = [], time.monotonic()
                tell(done, len(self.failures), planned)
        finally:
            # What is finished is kept, also when this ends early.
            store.add(rows)
            close = getattr(outcomes, "close", None)
            if close is not None:
                close()

    def frame(self, columns: Sequence[str] | None = None) -> pa.Table:
        """A row per case, seed and flow: what was varied, then the figures, all or these; of what is finished.

        `to_pandas()` and `polars.from_arrow` make a data frame of it.
        """
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415

        store = Store(self.into)
        cases = store.cases(self._name()).read()
        runs = store.runs(None if columns is None else ["flow_number", *columns])
        runs = runs.filter(pc.is_in(runs["key"], value_set=pc.unique(cases["key"])))
        joined = cases.join(runs, "key", join_type="inner").sort_by(
            [("case", "ascending"), (_SEED, "ascending"), ("flow_number", "ascending")]
        )
        order = [*cases.column_names, *(name for name in runs.column_names if name != "key")]
        assert isinstance(joined, pa.Table)
        return joined.select(order).combine_chunks()

    def medians(self, columns: Sequence[str]) -> tuple[int, Medians]:
        """How many rows the finished runs have, and medians of these columns by congestion control.

        Of a million runs this keeps so many numbers, and no row.
        """
        import pyarrow.compute as pc  # noqa: PLC0415

        store = Store(self.into)
        keys = pc.unique(store.cases(self._name()).read(["key"])["key"])
        rows, found = store.medians(keys, "cc", columns)
        return rows, dict(sorted(found.items()))

    def _plan(self, store: Store, here: pa.Array) -> tuple[int, set[int]]:
        """Writes the table of cases; how many runs are wanting, and the marks of those that several cases share."""
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415

        schema = self._columns()
        missing = array("Q")  # Eight bytes for each.
        chunk: list[dict[str, Any]] = []
        with store.writing_cases(self._name(), schema) as writer:
            for case in range(len(self.design)):
                values = {key: _shown(schema, key, value) for key, value in self.design[case].items()}
                chunk += [{"case": case, _SEED: seed, "key": key, **values} for seed, key in self._keys_of(case)]
                if len(chunk) >= _CHUNK or case == len(self.design) - 1:
                    table = pa.Table.from_pylist(chunk, schema=schema)
                    writer.write_table(table)
                    new = table["key"].filter(pc.invert(pc.is_in(table["key"], value_set=here)))
                    missing.extend(map(_mark, new.to_pylist()))
                    chunk = []
        marks = pa.Array.from_buffers(pa.uint64(), len(missing), [None, pa.py_buffer(missing)])
        counted = pc.value_counts(marks)
        twice = counted.field("values").filter(pc.greater(counted.field("counts"), 1))
        return len(counted), set(twice.to_pylist())

    def _todo(
        self, store: Store, here: pa.Array, doubled: set[int], numbers: dict[str, tuple[int, int]]
    ) -> Iterator[Case]:
        """What was not in the store, each once, by the table of cases; `numbers` is told of each that is handed out."""
        import pyarrow.compute as pc  # noqa: PLC0415

        handed: set[int] = set()
        for batch in store.cases(self._name()).iter_batches(batch_size=_CHUNK, columns=["case", _SEED, "key"]):
            for row in batch.filter(pc.invert(pc.is_in(batch["key"], value_set=here))).to_pylist():
                mark = _mark(row["key"])
                if mark not in handed:
                    if mark in doubled:
                        handed.add(mark)
                    numbers[row["key"]] = (row["case"], row[_SEED])
                    yield row["key"], self.scenario(row["case"]), row[_SEED]

    def _keys_of(self, case: int) -> Iterator[tuple[int, str]]:
        tree = self.scenario(case)
        try:
            text = _core.scenario_to_toml(tree)
            if any(key in text for key in _NAMING):
                for name, held in _core.scenario_files(text, self.title).items():
                    text = text.replace(json.dumps(name, ensure_ascii=False), hashlib.sha256(held.encode()).hexdigest())
        except NarrowsError:
            text = json.dumps(tree, sort_keys=True)  # It will fail, and say why.
        for seed in self.seeds:
            yield seed, hashlib.sha256(f"{build()} {seed} {text}".encode()).hexdigest()[:32]

    def _columns(self) -> pa.Schema:
        import pyarrow as pa  # noqa: PLC0415

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
        self.failures.append(Failure(case=case, seed=seed, reason=reason, file=store.failed(key, text, reason)))

    def _name(self) -> str:
        """The title, and what tells this sweep from another of the same title."""
        about = json.dumps([self.base, self.design.about(), self.seeds], sort_keys=True)
        slug = re.sub(r"[^A-Za-z0-9]+", "-", self.title).strip("-").lower()[:40] or "sweep"
        return f"{slug}-{hashlib.sha256(about.encode()).hexdigest()[:10]}"


def _mark(key: str) -> int:
    """The first 64 bits of a key: enough to tell those of a sweep apart."""
    return int(key[:16], 16)


def _shown(schema: pa.Schema, key: str, value: object) -> object:
    """A value as the column of its key has it."""
    return value if value is None or schema.field(key).type != "string" or isinstance(value, str) else json.dumps(value)


@cache
def build() -> str:
    """Version and build: another build may come to other figures."""
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
) -> Sweep:
    """Many cases of one scenario: `run` them, and a tidy table comes back.

    >>> import narrows as nw, tempfile
    >>> path = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp")
    >>> scenario = nw.Scenario(path, flows=[nw.Flow("cubic")], duration="2s")
    >>> with tempfile.TemporaryDirectory() as there:
    ...     grid = nw.sweep(scenario, {"path.rate": ["5Mbit", "10Mbit"], "flow.cc": ["bbr", "cubic"]}, into=there)
    ...     df = grid.run()
    >>> df.num_rows, df.column_names[:6]
    (4, ['case', 'seed', 'key', 'path.rate', 'flow.cc', 'flow_number'])

    Args:
        scenario: What all cases have in common, or the name of its file.
        over: The keys that vary, with their values or ranges; or a list of cases, each with its keys.
        seeds: So many seeds, from 1, or these.
        design: `"grid"` (every combination, the default), `"random"`, `"latin_hypercube"`; of a list of cases `"list"`.
        cases: How many, of a random design or a Latin hypercube.
        design_seed: Of their choice.
        title: What people call it; the table of its cases has that name.
        into: The directory of the results; several sweeps may share one.

    Raises:
        NarrowsError: If that makes no sense.
    """
    base = (scenario if isinstance(scenario, Scenario) else load(scenario)).tree()
    kind = design or ("grid" if isinstance(over, Mapping) else "list")
    numbers = range(1, seeds + 1) if isinstance(seeds, int) else seeds
    if not numbers:
        raise NarrowsError("a sweep needs a seed: seeds = 1")
    for seed in numbers:
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= _LARGEST_SEED:
            raise NarrowsError(f"{seed!r} is no seed; seeds are whole numbers from 0: seeds = [1, 2, 3]")
    plan = Design(kind, over, cases=cases, seed=design_seed)
    if _SEED in plan.keys:
        raise NarrowsError("`seed` is no key to vary; every case is run with each seed: seeds = [1, 2, 3]")
    return Sweep(base, plan, tuple(dict.fromkeys(numbers)), title, Path(into))
