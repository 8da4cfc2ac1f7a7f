"""Records reference cases: runs each case several times with the engine `linux`.

The runs of a case have the seeds 1, 2, 3 …, and their flows start a little later in each run
(`SHIFTS_S`). The range of the results therefore shows the effect of chance. Each file contains the
cases of one family, recorded with one kernel. The file is written after each case. An interrupted
recording therefore continues with the cases that the file does not contain.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from narrows import __version__, _core
from narrows.errors import EngineError, NarrowsError, OutputError, reason
from narrows.json_object import JsonObject
from narrows.kernel import store
from narrows.reference.families import Family, families
from narrows.reference.stored import Case, Figure, parse, value, written
from narrows.runs.engines import EngineChoice
from narrows.runs.parallel import everywhere
from narrows.runs.replications import seconds
from narrows.runs.run import Progress
from narrows.runs.scenario import from_tree
from narrows.storage.durable import replacing
from narrows.storage.text import text_of

if TYPE_CHECKING:
    from narrows.runs.model import RunJson

RUNS = 3
"""Default number of runs of a case."""

SHIFTS_S = (0.0, 0.137, 0.311, 0.523, 0.747)
"""Time by which all flows start later in the first, second … run, in s. Runs after the fifth use
these values again."""

MANY = 20
"""Minimum number of transfers with one congestion control for which percentiles of the completion
time are recorded instead of a single time."""

LOST = 0.1
"""From this share of random loss on, the RTT of a case is not recorded, because a flow has too few
RTT samples."""

_TIMES_S = (1, 2, 5)
_SHIFTED = ("start", "stop", "restart")


@dataclass
class Recording:
    """The result of a recording.

    Attributes:
        files: The files of the cases.
        recorded: Number of cases that were recorded.
        kept: Number of cases that the files already contained.
        failed: The reason why a case could not be recorded, by the name of the case.
    """

    files: list[Path] = field(default_factory=list)
    recorded: int = 0
    kept: int = 0
    failed: dict[str, str] = field(default_factory=dict)


def file_name(kernel: store.Kernel, family: str) -> str:
    """The name of the file for the cases of a family.

    >>> kernel = store.Kernel(name="6.12+beta", release="6.12.9", key="0", configuration="",
    ...     source="", origin="", patches={}, build_s=0)
    >>> file_name(kernel, "fifo")
    'linux-6.12+beta-fifo.txt'
    """
    return f"linux-{kernel.name}-{family}.txt"


def load(files: Sequence[Path]) -> list[Case]:
    """Reads the cases in files.

    Raises:
        NarrowsError: If a file cannot be read.
    """
    return [case for file in files for case in parse(text_of(file, "a file of cases"), Case)]


def record(
    asked: Mapping[str, Family],
    engine: EngineChoice,
    kernel: store.Kernel,
    into: Path,
    *,
    runs: int = RUNS,
    jobs: int | None = None,
    progress: Callable[[float, float], object] = lambda _done, _total: None,
) -> Recording:
    """Records the cases that the files in `into` do not contain yet. `progress` is called with the
    number of finished runs and their total number.

    Raises:
        OutputError: If a file cannot be written.
    """
    found = Recording()
    have: dict[str, dict[str, Case]] = {}
    todo: list[tuple[Family, str]] = []
    for family in asked.values():
        file = into / file_name(kernel, family.name)
        found.files.append(file)
        have[family.name] = _present(file, kernel)
        for name, tree in family.cases.items():
            known = have[family.name].get(name)
            if known is not None and known.toml == text(tree) and known.recorded >= runs:
                found.kept += 1
            else:
                todo.append((family, name))
    results: dict[str, dict[int, RunJson]] = {name: {} for _, name in todo}

    def one(item: tuple[str, str, int], keep_on: Progress) -> None:
        family, name, run = item
        if name in found.failed:
            return
        tree = shifted(asked[family].cases[name], run)
        try:
            done = engine.run(
                from_tree(tree, Path.cwd()),
                seed=run + 1,
                sample_interval="off",
                progress=keep_on,
                **queues_of(tree),
            )
            results[name][run] = done.json
        except EngineError as error:
            found.failed[name] = str(error)

    over = 0

    def done(item: tuple[str, str, int]) -> None:
        nonlocal over
        over += 1
        progress(over, len(todo) * runs)
        family, name, _ = item
        if len(results[name]) == runs:
            by_run = results.pop(name)
            tree = asked[family].cases[name]
            have[family][name] = measured(name, tree, [by_run[run] for run in range(runs)])
            found.recorded += 1
            _write(into, asked[family], kernel, have[family])
            results[name] = {}

    items = [(family.name, name, run) for family, name in todo for run in range(runs)]
    order = {item: -place for place, item in enumerate(items)}
    everywhere(items, one, cost=lambda item: order[item], done=done, jobs=engine.jobs(jobs))
    return found


def queues_of(tree: JsonObject) -> dict[str, str]:
    """The option `queues` of a run: the queue disciplines of narrows if those of the kernel cannot
    be used, otherwise no option.

    The queue disciplines of the kernel receive single packets, but on a path with offload, the
    packets are super-packets.

    >>> queues_of({"path": {"offload": True}}), queues_of({"path": {}})
    ({'queues': 'narrows'}, {})
    """
    return {"queues": "narrows"} if tree["path"].get("offload") else {}


def shifted(tree: JsonObject, run: int) -> JsonObject:
    """The scenario of a run with this index: all flows start, stop and restart later by the value
    in `SHIFTS_S`.

    >>> shifted({"flow": [{"cc": "bbr", "stop": "4s"}]}, 1)["flow"]
    [{'cc': 'bbr', 'stop': '4.137s', 'start': '0.137s'}]
    """
    later = copy.deepcopy(tree)
    shift_s = SHIFTS_S[run % len(SHIFTS_S)]
    for flow in later["flow"] if shift_s else ():
        flow.setdefault("start", "0s")
        for key in _SHIFTED:
            if key in flow:
                flow[key] = f"{seconds(flow[key]) + shift_s:g}s"
    return later


def text(tree: JsonObject) -> str:
    """The scenario of a case as TOML."""
    lines = _core.scenario_to_toml(tree).splitlines()
    return "\n".join(line for line in lines if line) + "\n"


def measured(name: str, tree: JsonObject, runs: Sequence[RunJson]) -> Case:
    """The case with its metrics in the runs of the kernel."""
    toml = text(tree)
    scenario = _core.toml_tables(toml, f"case {name}")
    empty = Case(name=name, toml=toml, figures=(), scenario=scenario)
    figures = []
    for figure in wanted(empty):
        # Metrics of the first seconds are taken from the first run only, because the other runs
        # start later.
        compared = runs[:1] if figure.kind == "acked_mb" else runs
        values = tuple(value(run, figure) for run in compared)
        figures.append(Figure(name=figure.name, cc=figure.cc, runs=values, late=False))
    return Case(name=name, toml=toml, figures=tuple(figures), scenario=scenario)


def wanted(case: Case) -> Iterator[Figure]:
    """The metrics that are recorded for a case, without values."""

    def figure(name: str, cc: str = "") -> Figure:
        return Figure(name=name, cc=cc, runs=(), late=False)

    by_cc: dict[str, list[JsonObject]] = {}
    for flow in case.flows:
        by_cc.setdefault(flow["cc"], []).append(flow)
    for cc, flows in by_cc.items():
        count = sum(flow.get("count", 1) for flow in flows)
        if all("size" in flow for flow in flows):
            names = [f"fct_p{q}_s" for q in (50, 95, 99)] if count >= MANY else ["fct_s"]
            yield from (figure(name, cc) for name in names)
            continue
        yield figure("goodput_mbit", cc)
        if count > 1:
            yield figure("jain", cc)
        if case.loss < LOST:
            yield figure("srtt_ms", cc)
        yield figure("retransmit_pct", cc)
        if case.flow_count == 1 and not case.loss:
            yield from (figure(f"cwnd_{which}", cc) for which in ("mean", "p5", "p95"))
            yield from (figure(f"acked_mb_at_{t_s}s", cc) for t_s in _TIMES_S)
    if case.scenario.get("probe"):
        yield from (figure("ping_p50_ms"), figure("ping_p95_ms"))


def _present(file: Path, kernel: store.Kernel) -> dict[str, Case]:
    """The cases that a file contains; raises an error if the file was recorded with another
    kernel.
    """
    if not file.exists():
        return {}
    cases = load([file])
    if f"key {kernel.key}" not in text_of(file):
        raise NarrowsError(f"{file}: was recorded with another kernel; write --out DIR")
    return {case.name: case for case in cases}


def header(family: Family, kernel: store.Kernel) -> str:
    """The comment at the beginning of a file."""
    patches = f", patches {', '.join(kernel.patches)}" if kernel.patches else ""
    whole = any(queues_of(tree) for tree in family.cases.values())
    queues = ["Queue disciplines of narrows, because the path has offload."] if whole else []
    lines = [
        f"Reference cases of Linux {kernel.release}{patches}: {family.about}.",
        "",
        f"Recorded with narrows {__version__}: narrows record-reference --families {family.name} "
        f"--kernel {kernel.name}",
        f"Kernel: {kernel.origin}, key {kernel.key}; TCP of the kernel in virtual time, path of "
        "narrows.",
        *queues,
        "Runs of a case have the seeds 1, 2, 3 and start 0, 0.137 and 0.311 s later.",
        "The format is that of narrows.reference.stored.",
    ]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def _write(into: Path, family: Family, kernel: store.Kernel, cases: Mapping[str, Case]) -> None:
    # The cases have the order of the whole family, even if only some of them were selected.
    whole_family = families().get(family.name, family)
    order = {name: place for place, name in enumerate(whole_family.cases)}
    each = sorted(cases.values(), key=lambda case: (order.get(case.name, len(order)), case.name))
    try:
        into.mkdir(parents=True, exist_ok=True)
        with replacing(into, file_name(kernel, family.name)) as part:
            whole = "\n".join([header(family, kernel), *map(written, each)])
            part.write_text(whole, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{into}: {reason(error)}") from error
