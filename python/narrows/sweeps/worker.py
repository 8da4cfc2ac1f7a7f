"""A process that runs cases. It reads and writes lines of JSON; the first line reports that it is
ready.

It is a separate process, because a thread would wait for the interpreter lock. It is no fork of the
caller, because the caller may be a notebook. It ends at the end of its input.
"""

from __future__ import annotations

import json
import signal
import sys
from contextlib import suppress
from typing import Any

from narrows import _core
from narrows.runs.metric import Metric
from narrows.sweeps.rows import Transfers, completed, has_transfers, rows

Case = tuple[str, dict[str, Any], int]
"""Key, scenario, seed."""

Outcome = tuple[str, list[dict[str, Any]], str | None]
"""Key, rows, and the error message, if any."""


READY = "ready\n"
"""First line of the output."""


def work(cases: list[Case], metric: Metric | None = None) -> list[Outcome]:
    """Runs some cases; a failing case does not end the others."""
    return [_one(*case, metric) for case in cases]


def _one(key: str, tree: dict[str, Any], seed: int, metric: Metric | None) -> Outcome:
    try:
        raw = _core.run_tree(
            tree, seed=seed, sample_interval="off" if metric is None else metric.sample_interval
        )
        figures = json.loads(raw.json())
        found = rows(key, figures, transfers(raw) if has_transfers(figures) else None)
        if metric is not None:
            own = json.dumps(metric.of(raw, figures, tree))
            found = [row | {"metrics": own} for row in found]
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # A panic of the engine is one, and stops this case only.
        return key, [], str(error) or type(error).__name__
    return key, found, None


def transfers(raw: _core.Run) -> Transfers:
    """The completed transfers of a run."""
    import pyarrow as pa  # noqa: PLC0415 - most cases have no transfers

    table = pa.table(raw.table("transfers")).select(["flow", "fct_s", "slowdown"])
    return completed(table.to_pylist())


def main() -> None:
    """Processes each line of the input."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Signals are for the caller, but may be sent to the whole group.
        signal.signal(number, signal.SIG_IGN)
    _die_with_parent()
    # The caller may have ended before the reply.
    with suppress(BrokenPipeError):
        print(READY, end="", flush=True)
        for line in sys.stdin:
            print(json.dumps(work(json.loads(line))), flush=True)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
