"""The executors of a sweep's cases: processes or threads on this machine, or a Ray cluster. All
receive batches of cases and return outcomes.

A batch of short cases takes about half a second, so that the cost of its transfer is negligible.
Towards the end, batches are smaller, so that all processes finish at about the same time.
"""

from __future__ import annotations

import json
import logging
import pickle
import queue
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from narrows import _core
from narrows.errors import EngineError, NarrowsError
from narrows.models import loaded
from narrows.models.plugins import cargo
from narrows.operating_system import block_signals, processors, restore_signals
from narrows.runs.metric import Metric
from narrows.sweeps.model import PluginJson
from narrows.sweeps.worker import READY, Case, Outcomes, work

if TYPE_CHECKING:
    from narrows.models.plugins import Cargo
    from narrows.runs.engines import EngineChoice
    from narrows.runs.run import Progress

Item = TypeVar("Item")
Result = TypeVar("Result")

BATCH_S = 0.5
"""Approximate run time of a batch of small cases, in s."""

_LARGEST = 2000
_AHEAD = 4
"""Maximum number of finished batches that wait to be stored, per process."""

_Done = queue.Queue[Outcomes | BaseException | None]
"""The outcomes of a process: finished batches, an exception, or None at the end."""

_BEGIN = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from narrows.sweeps.worker import "
    "main; main(json.loads(sys.argv[2]))"
)
"""Program of a child process, which uses the import path of this process."""

_PATIENCE_S = 0.2
"""Maximum time of a single wait for a thread, in s. Python does not notice a signal that arrives
just before the wait begins.
"""


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Blocks signals in this block. A process that is started in it inherits the blocked signals. A
    signal to the whole process group therefore does not end that process, not even while it starts.
    """
    before = block_signals()
    try:
        yield
    finally:
        restore_signals(before)


def _loaded() -> list[PluginJson]:
    """The loaded plugins, for a child process on this machine."""
    return [
        {"name": one.name, "path": one.path, "sha256": one.sha256}
        for one in _plugins(content=False)
    ]


def _plugins(*, content: bool) -> Sequence[Cargo]:
    """The loaded plugins, for another process; `content` includes their files."""
    if not loaded.LOADED:
        return ()
    return cargo(content=content)


def _plain(value: object) -> object:
    """The value of a scenario with objects of subclasses replaced by those of the built-in types.
    Another process may not know a class, for example an enumeration of the user's program.
    """
    if isinstance(value, Mapping):
        return {str.__str__(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int.__int__(value)
    return float.__float__(value) if isinstance(value, float) else value


class Batches:
    """Divides a stream of cases into batches. The size of a batch depends on the run times of cases
    so far.
    """

    def __init__(self, cases: Iterator[Case], count: int, workers: int) -> None:
        """Divides `count` cases among `workers` processes."""
        self._cases, self._left, self._workers = cases, count, workers
        self._case_s: float | None = None
        self._lock = threading.Lock()

    def next(self) -> list[Case]:
        """The next batch; empty if none is left."""
        with self._lock:
            size = 1 if not self._case_s else int(BATCH_S / self._case_s)
            size = max(1, min(size, self._left // (2 * self._workers), _LARGEST))
            batch = list(islice(self._cases, size))
            self._left -= len(batch)
            return batch

    def took(self, cases: int, seconds: float) -> None:
        """Records the run time of some cases, in s."""
        with self._lock:
            each = seconds / cases
            self._case_s = each if self._case_s is None else 0.8 * self._case_s + 0.2 * each


class Crew(Protocol):
    """An executor of cases."""

    def outcomes(self, cases: Iterator[Case], count: int) -> Iterator[Outcomes]:
        """Yields outcomes as cases end, in any order. While no case ends, it yields empty outcomes
        several times per second.
        """

    def close(self) -> None:
        """Ends the processes that wait for further cases on this machine."""


class Local:
    """Executes cases in several processes, by default one for each core."""

    def __init__(self, jobs: int | None = None, *, keep: bool = False) -> None:
        """Uses `jobs` processes; the default is the number of cores that this process may use.

        With `keep`, the processes wait for the cases of further calls until `close`.
        """
        self.workers = jobs or processors()
        self._keep = keep
        self._waiting: list[_Worker] = []

    def close(self) -> None:
        """Ends the processes that wait for further cases."""
        while self._waiting:
            self._waiting.pop().end()

    def outcomes(self, cases: Iterator[Case], count: int) -> Iterator[Outcomes]:
        """Yields the outcomes of the cases. After an error, and without `keep`, the processes end
        when this generator ends.
        """
        batches = Batches(cases, count, self.workers)
        workers = [
            self._waiting.pop() if self._waiting else _Worker()
            for _ in range(min(self.workers, count))
        ]
        # If rows are stored more slowly than the processes produce them, the processes wait, so
        # that rows do not accumulate.
        done: _Done = queue.Queue(_AHEAD * len(workers))
        for worker in workers:
            worker.begin(batches, done)
        working = len(workers)
        try:
            while working:
                try:
                    found = done.get(timeout=_PATIENCE_S)
                except queue.Empty:
                    yield Outcomes()
                    continue
                if isinstance(found, BaseException):
                    raise found
                if found is None:
                    working -= 1
                else:
                    yield found
        finally:
            for worker in workers:
                if self._keep and not working:
                    self._waiting.append(worker)
                else:
                    worker.end()


class Threads:
    """Executes cases in threads of this process.

    Metrics of the caller may be any functions, and models any classes. Runs of the engines `linux`
    and `live` are separate processes, which end with the thread that waits for them.
    """

    def __init__(
        self, metric: Metric | None, jobs: int | None = None, engine: EngineChoice | None = None
    ) -> None:
        """The default of `jobs` is the number of cores that this process may use.

        The engine limits the number of threads. Without `engine`, the simulator runs the cases.
        """
        self._metric, self._engine = metric, engine
        self.workers = (jobs or processors()) if engine is None else engine.jobs(jobs)
        self._stop = threading.Event()

    def close(self) -> None:
        """Does nothing: all threads end with their cases."""

    def outcomes(self, cases: Iterator[Case], count: int) -> Iterator[Outcomes]:
        """Yields outcomes in batches. If this generator is closed early, simulations that have
        begun are finished, but runs of other engines are stopped.
        """
        batches = Batches(cases, count, self.workers)
        with ThreadPoolExecutor(max_workers=self.workers) as pool:
            waiting: set[Future[tuple[Outcomes, float]]] = set()
            try:
                while True:
                    while len(waiting) < self.workers and (batch := batches.next()):
                        waiting.add(
                            pool.submit(_timed, batch, self._metric, self._engine, self._keep_on)
                        )
                    if not waiting:
                        return
                    ready, waiting = wait(waiting, _PATIENCE_S, FIRST_COMPLETED)
                    if not ready:
                        yield Outcomes()
                    for one in ready:
                        outcomes, seconds = one.result()
                        batches.took(len(outcomes), seconds)
                        yield outcomes
            except BaseException:
                self._stop.set()
                raise

    def _keep_on(self, _now_s: float, _end_s: float) -> None:
        """The progress function of runs; it stops a run after the generator has ended."""
        if self._stop.is_set():
            raise KeyboardInterrupt


class _Worker:
    """A child process and the thread that communicates with it. A process that dies is replaced."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._over = threading.Event()
        self._todo: queue.SimpleQueue[tuple[Batches, _Done] | None] = queue.SimpleQueue()
        # The process ends with the thread that started it (`die_with_parent`), so the thread waits
        # for further cases, too.
        threading.Thread(target=self._run, daemon=True).start()

    def begin(self, batches: Batches, done: _Done) -> None:
        """Begins to serve these batches; the outcomes, and None at the end, go to `done`."""
        self._todo.put((batches, done))

    def _run(self) -> None:
        while (work := self._todo.get()) is not None:
            self._serve(*work)

    def _serve(self, batches: Batches, done: _Done) -> None:
        if self._child is not None and self._child.poll() is not None:
            self._close()  # The process died between two calls.
        try:
            while not self._over.is_set() and (batch := batches.next()):
                if self._over.is_set():  # The reader ended while the batch was prepared.
                    return
                begin = time.monotonic()
                outcomes: list[Outcomes | None] = [self._ask(batch)]
                if outcomes == [None] and not self._over.is_set():
                    # A case of the batch killed the process. Each case is run again alone, to
                    # identify this case and to obtain the outcomes of the others.
                    outcomes = [self._ask([case]) or _died(case) for case in batch]
                if self._over.is_set():
                    return
                batches.took(len(batch), time.monotonic() - begin)
                for one in filter(None, outcomes):
                    self._tell(done, one)
            self._tell(done, None)
        except BaseException as error:
            self._tell(done, error)
        finally:
            if self._over.is_set():
                self.end()  # The process may have been started after the reader ended.

    def _tell(self, done: _Done, what: Outcomes | BaseException | None) -> None:
        """Puts an object into the queue as soon as there is room, unless the reader has ended."""
        while not self._over.is_set():
            with suppress(queue.Full):
                done.put(what, timeout=0.1)
                return

    def _ask(self, batch: list[Case]) -> Outcomes | None:
        if self._child is None:
            with signals_blocked():
                self._child = subprocess.Popen(
                    [
                        sys.executable,
                        "-I",
                        "-c",
                        _BEGIN,
                        json.dumps(sys.path),
                        json.dumps(_loaded()),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            assert self._child.stdout is not None
            # A process that was killed while it started counts as dead. A process that ended by
            # itself would do so again, so that an error is raised.
            if self._child.stdout.readline() != READY and self._child.wait() > 0:
                raise EngineError("a process to run cases could not be started")
        child = self._child
        assert child.stdin is not None and child.stdout is not None  # noqa: PT018
        try:
            pickle.dump([(key, _plain(tree), seed) for key, tree, seed in batch], child.stdin)
            child.stdin.flush()
            outcomes = pickle.load(child.stdout)
        except (OSError, ValueError, EOFError, pickle.UnpicklingError):
            self._close()
            return None
        assert isinstance(outcomes, Outcomes)
        return outcomes

    def end(self) -> None:
        """Ends the process in any state, and its thread."""
        self._over.set()
        self._todo.put(None)
        self._close()

    def _close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    with suppress(OSError):  # Unsent data is no longer needed.
                        pipe.close()


_DIED = "the process that ran it died"


def _died(case: Case, why: str = "") -> Outcomes:
    """The outcome of a case whose process died. A model of a plugin may be the reason, so the
    outcome names those of the case.
    """
    key, tree, _ = case
    reason = f"{_DIED}: {why}" if why else _DIED
    used = [f"{name} ({about['from']})" for name, about in loaded.used(tree).items()]
    if used:
        reason += f"; the run used the plugin of {', '.join(used)}"
    return Outcomes(failed={key: reason})


_GOES_ON = "what had landed is kept, and the same command goes on with the rest"

_HINT = "to run on this machine's own cores: --on local"


def _first_line(error: BaseException) -> str:
    """The message of an exception, up to its first full stop or line break.

    >>> _first_line(Exception("The node timed out during startup. This could happen because …"))
    'The node timed out during startup'
    >>> _first_line(TimeoutError())
    'TimeoutError'
    """
    lines = str(error).strip().splitlines()
    return lines[0].split(". ")[0].rstrip(".") if lines else type(error).__name__


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses the logs and warnings of Ray while it searches for a cluster; an error contains
    their reason.
    """
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # Each of Ray's loggers sets a level of its own.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


class Ray:
    """Executes cases on a Ray cluster: that of this machine (`ray`), or that at an address
    (`ray://head:10001`).
    """

    def __init__(self, address: str | None = None, metric: Metric | None = None) -> None:
        """Joins the cluster at this address, the cluster of this process, or a new one that
        consists of this machine.

        Raises:
            NarrowsError: If Ray is not installed.
            EngineError: If the cluster does not answer.
        """
        try:
            import ray  # noqa: PLC0415 - an extra, and a heavy one
        except ImportError as error:
            raise NarrowsError("Ray is not installed: pip install 'narrows[ray]'") from error
        self._ray: Any = ray
        self._metric = metric
        if not ray.is_initialized():
            try:
                with _quiet():
                    self._join(address)
            except Exception as error:  # Ray raises bare exceptions, too.
                where = "ray" if address is None else address
                raise EngineError(
                    f"{where}: no Ray cluster answers there ({_first_line(error)}); {_HINT}"
                ) from error
        self._work: Any = ray.remote(num_cpus=1, max_retries=5)(_timed)
        self._single: Any = self._work.options(max_retries=1)
        self._plugins = ray.put(_plugins(content=True))

    def _join(self, address: str | None) -> None:
        # Despite log_to_driver, Ray prints the deaths of processes to stdout, which may be JSON.
        # Outcomes contain them. There is no public setting.
        with suppress(AttributeError):
            self._ray._private.worker._worker_logs_enabled = False
        try:
            self._ray.init(
                address=address,
                log_to_driver=False,
                include_dashboard=False if address is None else None,
            )
        except (ConnectionError, OSError, RuntimeError):
            if address is not None:
                raise
            # Ray remembers the last cluster of this machine, which may no longer exist; a new one
            # is started.
            self._ray.init(address="local", log_to_driver=False, include_dashboard=False)

    def close(self) -> None:
        """Leaves the cluster as it is."""

    @property
    def workers(self) -> int:
        """The present number of cores of the cluster."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    @contextmanager
    def _in_flight(self) -> Iterator[dict[Any, Any]]:
        """The tasks whose results are awaited, and what they compute. At the end, the remaining
        ones are cancelled.

        Raises:
            EngineError: If the cluster is lost.
        """
        waiting: dict[Any, Any] = {}
        try:
            yield waiting
        except self._ray.exceptions.RayError as error:
            raise EngineError(
                f"ray: the cluster was lost ({_first_line(error)}); {_GOES_ON}"
            ) from error
        finally:
            for one in waiting:
                with suppress(Exception):  # A cluster that is gone has nothing left to cancel.
                    self._ray.cancel(one, force=True)

    def results(
        self, function: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        """Yields the number and the result of `function` for each item, in any order. If a node
        dies, other nodes run its items.

        Raises:
            EngineError: If the cluster is lost.
        """
        remote = self._ray.remote(num_cpus=1, max_retries=-1)(function)
        todo = iter(enumerate(items))
        waiting: dict[Any, int]
        with self._in_flight() as waiting:
            while True:
                for number, item in islice(todo, max(0, 2 * self.workers - len(waiting))):
                    waiting[remote.remote(item)] = number
                if not waiting:
                    return
                ready, _ = self._ray.wait(list(waiting), num_returns=1, timeout=_PATIENCE_S)
                for one in ready:
                    yield waiting.pop(one), self._ray.get(one)

    def outcomes(self, cases: Iterator[Case], count: int) -> Iterator[Outcomes]:
        """Yields the outcomes of the cases. If a node dies, other nodes run its batches. If a
        batch ends its process repeatedly, each of its cases is run again alone.
        """
        batches = Batches(cases, count, self.workers)
        waiting: dict[Any, list[Case]]
        with self._in_flight() as waiting:
            while True:
                # There are two batches for each core: while the outcomes of one are returned, the
                # other one runs.
                while len(waiting) < 2 * self.workers and (batch := batches.next()):
                    waiting[self._work.remote(batch, self._metric, models=self._plugins)] = batch
                if not waiting:
                    return
                ready, _ = self._ray.wait(list(waiting), num_returns=1, timeout=_PATIENCE_S)
                if not ready:
                    yield Outcomes()
                for one in ready:
                    batch = waiting.pop(one)
                    try:
                        outcomes, seconds = self._ray.get(one)
                    except self._ray.exceptions.RayTaskError as error:
                        # Raised before the first run, such as by a plugin that cannot be loaded.
                        reason = str(error.cause) or _first_line(error)
                        outcomes = Outcomes(failed={key: reason for key, _, _ in batch})
                        seconds = BATCH_S
                    except self._ray.exceptions.RayError as error:
                        if len(batch) > 1:
                            for case in batch:
                                again = self._single.remote(
                                    [case], self._metric, models=self._plugins
                                )
                                waiting[again] = [case]
                            continue
                        outcomes, seconds = _died(batch[0], _first_line(error)), BATCH_S
                    batches.took(len(batch), seconds)
                    yield outcomes


def _timed(
    batch: list[Case],
    metric: Metric | None = None,
    engine: EngineChoice | None = None,
    progress: Progress | None = None,
    models: Sequence[Cargo] = (),
) -> tuple[Outcomes, float]:
    if models:
        _core.exit_if_locked()
    for plugin in models:
        plugin.unpack()
    begin = time.monotonic()
    return work(batch, metric, engine, progress), time.monotonic() - begin


def crew(
    on: str,
    jobs: int | None = None,
    metric: Metric | None = None,
    engine: EngineChoice | None = None,
    *,
    keep: bool = False,
) -> Crew:
    """The executor with the name `local`, `ray` or `ray://HOST:PORT`. With `keep`, its processes
    wait for the cases of further calls until `close`.

    Raises:
        NarrowsError: If there is no executor of this name, or if it cannot run the engine.
    """
    if engine is not None and engine.name != "sim":
        if on != "local":
            raise NarrowsError(
                f"--on {on}: the engine `{engine.name}` runs on this machine only; write --on local"
            )
        return Threads(metric, jobs, engine)
    if on == "local":
        here = metric is not None or loaded.only_here()
        return Threads(metric, jobs) if here else Local(jobs, keep=keep)
    if on == "ray":
        return Ray(metric=metric)
    if on.startswith("ray://"):
        return Ray(on, metric)
    raise NarrowsError(
        f'on = `{on}`: no such executor; write on = "local", "ray" or "ray://HOST:10001"'
    )
