"""A process that runs cases, told by lines of JSON and answering likewise, the first time that it
is ready.

A process of its own, and neither a thread, which would wait for the others' Python, nor a fork of
who asked, which may be a notebook. It ends when nobody asks any more.
"""

from __future__ import annotations

import json
import signal
import sys
from contextlib import suppress
from typing import Any

from narrows import _core
from narrows.runs.metric import Metric
from narrows.sweeps.rows import has_transfers, rows

Case = tuple[str, dict[str, Any], int]
"""Key, scenario, seed."""

Outcome = tuple[str, list[dict[str, Any]], str | None]
"""Key, rows, and what went wrong."""


READY = "ready\n"
"""What it says first."""


def work(cases: list[Case], metric: Metric | None = None) -> list[Outcome]:
    """Runs some cases; nothing that a case does ends the others."""
    return [_one(*case, metric) for case in cases]


def _one(key: str, tree: dict[str, Any], seed: int, metric: Metric | None) -> Outcome:
    try:
        raw = _core.run_tree(
            tree, seed=seed, sample_interval="off" if metric is None else metric.sample_interval
        )
        figures = json.loads(raw.json())
        found = rows(key, figures, slowdowns(raw) if has_transfers(figures) else None)
        if metric is not None:
            own = json.dumps(metric.of(raw, figures, tree))
            found = [row | {"metrics": own} for row in found]
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # A panic of the engine is one, and stops this case only.
        return key, [], str(error) or type(error).__name__
    return key, found, None


def slowdowns(raw: _core.Run) -> dict[str, list[float]]:
    """The slowdowns of the completed transfers of a run, by flow."""
    import pyarrow as pa  # noqa: PLC0415 - most cases have no transfers

    found: dict[str, list[float]] = {}
    for row in pa.table(raw.table("transfers")).select(["flow", "slowdown"]).to_pylist():
        if row["slowdown"] is not None:
            found.setdefault(row["flow"], []).append(row["slowdown"])
    return found


def main() -> None:
    """Answers each line."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(
            number, signal.SIG_IGN
        )  # They are for who asked, and may come to the whole group.
    _die_with_parent()
    # Who asked may be gone by the time of the answer.
    with suppress(BrokenPipeError):
        print(READY, end="", flush=True)
        for line in sys.stdin:
            print(json.dumps(work(json.loads(line))), flush=True)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
