"""Functions that the commands of `validation` share: types of arguments, and pools of processes
that end with Ctrl-C.
"""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


def positive(text: str) -> int:
    """Converts the text of an integer of at least one; a type for argparse.

    >>> positive("3")
    3
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: a whole number from 1")
    return int(text)


def span(text: str) -> range:
    """Converts the text of a range of integers, both ends included, or of one integer; a type for
    argparse.

    >>> span("9000-9002"), span("7")
    (range(9000, 9003), range(7, 8))
    """
    first, _, last = text.partition("-")
    last = last or first
    if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
        raise argparse.ArgumentTypeError(f"{text}: a whole number, or two such as 9000-9039")
    return range(int(first), int(last) + 1)


class _Pool(ProcessPoolExecutor):
    """A pool that starts its workers with SIGINT blocked, so that no worker receives it before
    `_ends_by_sigint` runs.
    """

    def submit(self, fn: Callable[..., T], /, *args: object, **kwargs: object) -> Future[T]:
        """Submits as the base class does, but with SIGINT blocked while workers start."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(fn, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ends_by_sigint() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def processes(jobs: int | None) -> Iterator[ProcessPoolExecutor]:
    """A pool of worker processes. Ctrl-C ends the workers and this program at once, with one line.

    After Ctrl-C the executor cannot be shut down. If a worker is killed while it holds a lock of
    the executor's queues, `shutdown` and the exit of the interpreter wait for ever. Therefore the
    program ends itself by the signal.
    """
    with _Pool(jobs, initializer=_ends_by_sigint) as pool:
        try:
            yield pool
        except KeyboardInterrupt:
            for child in multiprocessing.active_children():
                child.kill()
            sys.stderr.write("stopped\n")
            sys.stderr.flush()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.raise_signal(signal.SIGINT)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
