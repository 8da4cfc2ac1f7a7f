"""Signals that wait until a block is done: what was done is then reported before the program ends.

A block in which a host is changed, or in which a result is printed, must not be cut short between
the two.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from narrows.operating_system import SIGNALS


@contextmanager
def deferred(then: Callable[[], object] = lambda: None) -> Iterator[None]:
    """A block that no signal cuts short; the `KeyboardInterrupt` of a signal is raised after it.

    It acts on signals that are a `KeyboardInterrupt` otherwise. Blocks may be nested; the exception
    follows the outermost one. An exception of the block itself takes precedence, except an
    `OSError`: nothing can be written to a terminal that has hung up.

    Args:
        then: Called at once when a signal comes.
    """
    came: list[KeyboardInterrupt] = []
    held: dict[int, Callable[[int, FrameType | None], object]] = {}

    def hold(number: int, frame: FrameType | None) -> None:
        try:
            held[number](number, frame)
        except KeyboardInterrupt as stop:
            came.append(stop)
        then()

    try:
        for number in SIGNALS:
            before = signal.getsignal(number)
            if callable(before):
                held[number] = before
                # Only the main thread may set handlers, and only there signals are exceptions.
                with suppress(ValueError):
                    signal.signal(number, hold)
        yield
    except OSError:
        if not came:
            raise
    finally:
        for held_number, handler in held.items():
            with suppress(ValueError):
                signal.signal(held_number, handler)
    if came:
        raise KeyboardInterrupt
