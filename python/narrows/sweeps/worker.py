"""A process that runs cases. It reads cases and writes outcomes as lines of JSON. Its first line
reports that it is ready.

It is a separate process, because threads would wait for the interpreter lock. It is not a fork of
the caller, because the caller may be a notebook. The process ends at the end of its input.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from narrows import _core, operating_system
from narrows.json_object import JsonObject
from narrows.models.plugins import Cargo
from narrows.runs.metric import Metric, numbers
from narrows.runs.scenario import from_tree
from narrows.sweeps.rows import Row, Transfers, completed, has_transfers, rows

if TYPE_CHECKING:
    from narrows.runs.engines import EngineChoice
    from narrows.runs.run import Progress
    from narrows.sweeps.model import PluginJson

Case = tuple[str, JsonObject, int]
"""A case: the key of the run, the scenario and the seed."""

Outcome = tuple[str, list[Row], str | None]
"""The outcome of a case: the key of the run, its rows, and the error message or None. The rows lack
columns without a value, which are most columns.
"""


READY = "ready\n"
"""First line that the process writes."""


def work(
    cases: list[Case],
    metric: Metric | None = None,
    engine: EngineChoice | None = None,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Runs cases and returns their outcomes; a case that fails does not affect the others.

    Without `engine`, the simulator runs the cases. With another engine, `progress` is called
    repeatedly.
    """
    return [_one(case, metric, engine, progress) for case in cases]


def _one(
    case: Case, metric: Metric | None, engine: EngineChoice | None, progress: Progress | None
) -> Outcome:
    key, tree, seed = case
    interval = "off" if metric is None else metric.sample_interval
    try:
        if engine is None:
            raw = _core.run_tree(tree, seed=seed, sample_interval=interval)
            figures = json.loads(raw.json())
            found = rows(key, figures, transfers(raw) if has_transfers(figures) else None)
            own = None if metric is None else metric.of(raw, figures, tree)
        else:
            _core.scenario_to_toml(tree)  # Reports mistakes of the case.
            done = engine.run(
                from_tree(tree, Path.cwd()), seed=seed, sample_interval=interval, progress=progress
            )
            found = [row | {"key": key} for row in done.rows()]
            own = None if metric is None else numbers(metric.function(done))
        if own is not None:
            found = [row | {"metrics": json.dumps(own)} for row in found]
    except (KeyboardInterrupt, SystemExit):
        raise
    except (
        BaseException
    ) as error:  # A panic of the engine is also an exception; it stops only this case.
        return key, [], str(error) or type(error).__name__
    short = [{name: value for name, value in row.items() if value is not None} for row in found]
    return key, short, None


def transfers(raw: _core.Run) -> Transfers:
    """The completed transfers of a simulated run, by flow."""
    return completed(raw.table("transfers").columns())


def main(loaded: list[PluginJson]) -> None:
    """Loads the plugins of the parent process, and then processes each line of the input."""
    for number in operating_system.SIGNALS:
        # The caller handles signals, but a signal may be sent to the whole process group.
        signal.signal(number, signal.SIG_IGN)
    operating_system.die_with_parent()
    _core.exit_if_locked()
    if loaded:
        for plugin in loaded:
            Cargo(**plugin).unpack()
    # What a model prints goes to stderr, so that stdout has nothing but replies.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # The caller may have ended before the reply.
    with suppress(BrokenPipeError):
        print(READY, end="", flush=True, file=replies)
        for line in sys.stdin:
            print(json.dumps(work(json.loads(line))), flush=True, file=replies)
            if _core.stuck_runs():
                os._exit(0)  # A model goes on in a thread; another process takes the next cases.
