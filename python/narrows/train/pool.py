"""The processes that evaluate trees: on this machine, or on a Ray cluster.

A process or node that dies loses only the tasks that it runs. They run again elsewhere.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Protocol

from narrows.errors import EngineError, NarrowsError
from narrows.operating_system import SIGNALS, die_with_parent, processors
from narrows.sweeps.executors import Ray, signals_blocked
from narrows.train.network import evaluate

if TYPE_CHECKING:
    from narrows.train.model import ResultJson, TaskJson

_ATTEMPTS = 5
"""Maximum number of times that a pool is replaced before any further task ends."""

_PATIENCE_S = 0.2


class Pool(Protocol):
    """An executor of tasks."""

    @property
    def workers(self) -> int:
        """Number of simultaneous tasks."""

    def results(self, tasks: Sequence[TaskJson]) -> Iterator[tuple[int, ResultJson]]:
        """Yields the number and the result of each task, in any order."""

    def close(self) -> None:
        """Ends its processes on this machine."""


def _quietly() -> None:
    """Prepares a process, which ends with the driver. It ignores signals, also those to the process
    group; the driver handles them.
    """
    die_with_parent()
    parent = multiprocessing.parent_process()
    if parent is not None and os.getppid() != parent.pid:
        os._exit(1)  # The driver was killed while this process started.
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


class Local:
    """Processes on this machine, by default one for each core."""

    def __init__(self, jobs: int | None = None) -> None:
        """Uses `jobs` processes; the default is the number of cores that this process may use."""
        self.workers = jobs or processors()
        self._pool: ProcessPoolExecutor | None = None

    def _begin(self) -> ProcessPoolExecutor:
        if self._pool is None:
            if hasattr(signal, "pthread_sigmask"):
                resource_tracker.ensure_running()  # Its start would unblock signals.
            self._pool = ProcessPoolExecutor(
                self.workers, multiprocessing.get_context("spawn"), initializer=_quietly
            )
        return self._pool

    def close(self) -> None:
        """Ends the processes, also those that run a task."""
        pool, self._pool = self._pool, None
        if pool is not None:
            processes = list((getattr(pool, "_processes", None) or {}).values())
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                with suppress(OSError, ValueError):
                    process.kill()

    def results(self, tasks: Sequence[TaskJson]) -> Iterator[tuple[int, ResultJson]]:
        """Yields the results. Tasks of a process that died run again in a new one.

        Raises:
            EngineError: If processes end repeatedly before a task finishes.
        """
        left = dict(enumerate(tasks))
        attempts = 0
        while left:
            try:
                for number, result in self._some(left):
                    attempts = 0
                    del left[number]
                    yield number, result
            except BrokenProcessPool as error:
                self.close()
                attempts += 1
                if attempts >= _ATTEMPTS:
                    raise EngineError(
                        "the processes of the training ended repeatedly before a task finished"
                    ) from error

    def _some(self, left: dict[int, TaskJson]) -> Iterator[tuple[int, ResultJson]]:
        pool = self._begin()
        with signals_blocked():  # The first tasks start the processes.
            waiting: dict[Future[ResultJson], int] = {
                pool.submit(evaluate, task): number for number, task in left.items()
            }
        while waiting:
            ready, _ = wait(waiting, _PATIENCE_S, FIRST_COMPLETED)
            for one in ready:
                result = one.result()
                yield waiting.pop(one), result


class OnRay:
    """A Ray cluster: that of this machine (`ray`), or that at an address (`ray://HOST:PORT`)."""

    def __init__(self, address: str | None = None) -> None:
        """Joins the cluster.

        Raises:
            NarrowsError: If Ray is not installed.
            EngineError: If the cluster does not respond.
        """
        self._cluster = Ray(address)

    @property
    def workers(self) -> int:
        """The present number of cores of the cluster."""
        return self._cluster.workers

    def close(self) -> None:
        """Leaves the cluster as it is."""

    def results(self, tasks: Sequence[TaskJson]) -> Iterator[tuple[int, ResultJson]]:
        """Yields the results. If a node dies, other nodes run its tasks."""
        return self._cluster.results(evaluate, tasks)


def pool(on: str, jobs: int | None = None) -> Pool:
    """The executor with the name `local`, `ray` or `ray://HOST:PORT`.

    Raises:
        NarrowsError: If there is no executor of this name.
    """
    if on == "local":
        return Local(jobs)
    if on == "ray" or on.startswith("ray://"):
        return OnRay(None if on == "ray" else on)
    raise NarrowsError(f"--on {on}: no such executor; write local, ray or ray://HOST:10001")
