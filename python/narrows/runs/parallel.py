"""Executes runs in parallel on all cores; Ctrl-C stops all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from narrows.operating_system import processors
from narrows.runs.run import Progress

Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")


def everywhere(
    todo: Sequence[Item],
    one: Callable[[Item, Progress], Result],
    *,
    cost: Callable[[Item], float],
    done: Callable[[Item], object] = lambda _: None,
    jobs: int | None = None,
) -> list[Result]:
    """Calls `one` for each item, in up to `jobs` threads, and returns the results in the order of
    the items. `done` is called with each finished item.

    `one` must pass its second argument on as the `progress` of its run. Only the main thread
    receives Ctrl-C, and this argument then stops the runs in the other threads. The Rust code
    releases the interpreter lock while it runs, so that threads suffice. Items with the highest
    `cost` start first, so that no long run is left at the end while other cores are idle.

    >>> everywhere([3, 1, 2], lambda item, keep_on: 2 * item, cost=float)
    [6, 2, 4]
    """
    stop = threading.Event()

    def keep_on(_now_s: float, _end_s: float) -> None:
        # Rust calls this several times per second.
        if stop.is_set():
            raise KeyboardInterrupt

    with ThreadPoolExecutor(max_workers=jobs or processors()) as pool:
        dearest = sorted(todo, key=cost, reverse=True)
        waiting = {pool.submit(one, item, keep_on): item for item in dearest}
        try:
            for future in as_completed(waiting):
                future.result()
                done(waiting[future])
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    by_item = {item: future.result() for future, item in waiting.items()}
    return [by_item[item] for item in todo]
