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
from narrows.sweeps.rows import rows

Case = tuple[str, dict[str, Any], int]
"""Key, scenario, seed."""

Outcome = tuple[str, list[dict[str, Any]], str | None]
"""Key, rows, and what went wrong."""


READY = "ready\n"
"""What it says first."""


def work(cases: list[Case]) -> list[Outcome]:
    """Runs some cases; nothing that a case does ends the others."""
    return [_one(*case) for case in cases]


def _one(key: str, tree: dict[str, Any], seed: int) -> Outcome:
    try:
        figures = json.loads(_core.run_tree(tree, seed=seed, sample_interval="off").json())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # A panic of the engine is one, and stops this case only.
        return key, [], str(error) or type(error).__name__
    return key, rows(key, figures), None


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
