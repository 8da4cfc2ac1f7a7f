"""A process that runs cases. It reads batches of cases and writes their outcomes as pickles. Its
first line reports that it is ready.

It is a separate process, because threads would wait for the interpreter lock. It is not a fork of
the caller, because the caller may be a notebook. The process ends at the end of its input.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows import _core, operating_system
from narrows.json_object import JsonObject
from narrows.models.plugins import Cargo
from narrows.runs.metric import Metric, numbers
from narrows.runs.run import Run
from narrows.runs.scenario import from_tree
from narrows.sweeps.rows import Row

if TYPE_CHECKING:
    from narrows.runs.engines import EngineChoice
    from narrows.runs.run import Progress
    from narrows.sweeps.model import PluginJson

Case = tuple[str, JsonObject, int]
"""A case: the key of the run, the scenario and the seed."""

Columns = dict[str, list[Any]]
"""Rows of runs, by column. Columns without a value, which are most columns, are missing."""


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of a batch of cases.

    Attributes:
        rows: The rows of the finished runs.
        failed: The keys of the runs that failed, and the reasons.
    """

    rows: Columns = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        """Number of cases."""
        return len(self.finished()) + len(self.failed)

    def finished(self) -> list[str]:
        """The keys of the finished runs."""
        return list(dict.fromkeys(self.rows.get("key", ())))


READY = b"ready\n"
"""First line that the process writes."""


def work(
    cases: list[Case],
    metric: Metric | None = None,
    engine: EngineChoice | None = None,
    progress: Progress | None = None,
) -> Outcomes:
    """Runs cases and returns their outcomes; a case that fails does not affect the others.

    Without `engine`, the simulator runs the cases. With another engine, `progress` is called
    repeatedly.
    """
    simulated, rows, failed = _core.Rows(), list[Row](), dict[str, str]()
    for case in cases:
        try:
            if metric is None and engine is None:
                simulated.run(*case)
            else:
                rows += _rows(case, metric, engine, progress)
        except (KeyboardInterrupt, SystemExit):
            raise
        except (
            BaseException
        ) as error:  # A panic of the engine is also an exception; it stops only this case.
            failed[case[0]] = str(error) or type(error).__name__
    return Outcomes(columns(rows) if rows else simulated.columns(), failed)


def _rows(
    case: Case, metric: Metric | None, engine: EngineChoice | None, progress: Progress | None
) -> list[Row]:
    """The rows of a case with a metric of the caller, or of another engine than the simulator."""
    key, tree, seed = case
    interval = "off" if metric is None else metric.sample_interval
    toml = _core.scenario_to_toml(tree)  # Reports mistakes of the case.
    if engine is None:
        raw = _core.run_tree(tree, seed=seed, sample_interval=interval)
        done = Run(figures=json.loads(raw.json()), toml=toml, tables=raw, files=raw.files)
    else:
        done = engine.run(
            from_tree(tree, Path.cwd()), seed=seed, sample_interval=interval, progress=progress
        )
    about = {"key": key}
    if metric is not None:
        about["metrics"] = json.dumps(numbers(metric.function(done)))
    return [row | about for row in done.rows()]


def columns(rows: Sequence[Row]) -> Columns:
    """Rows by column.

    >>> columns([{"key": "a", "cc": None}, {"key": "b", "cc": "bbr", "fct_s": None}])
    {'key': ['a', 'b'], 'cc': [None, 'bbr']}
    """
    names = dict.fromkeys(name for row in rows for name, value in row.items() if value is not None)
    return {name: [row.get(name) for row in rows] for name in names}


def main(loaded: list[PluginJson]) -> None:
    """Loads the plugins of the parent process, and then processes each batch of the input."""
    for number in operating_system.SIGNALS:
        # The caller handles signals, but a signal may be sent to the whole process group.
        signal.signal(number, signal.SIG_IGN)
    operating_system.die_with_parent()
    _core.exit_if_locked()
    if loaded:
        for plugin in loaded:
            Cargo(**plugin).unpack()
    # What a model prints goes to stderr, so that stdout has nothing but replies.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # The caller may have ended before the reply, or within a request.
    with suppress(BrokenPipeError, EOFError, pickle.UnpicklingError):
        replies.write(READY)
        replies.flush()
        while True:
            pickle.dump(work(pickle.load(sys.stdin.buffer)), replies)
            replies.flush()
            if _core.stuck_runs():
                os._exit(0)  # A model goes on in a thread; another process takes the next cases.
