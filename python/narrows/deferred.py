"""Delays signals until a block of code is complete, so that the program reports its actions before
it ends.

A signal must not end the program between a change of the host and the report of this change, or
while a result is printed.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from narrows.operating_system import SIGNALS


@contextmanager
def deferred(then: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Runs a block without interruption by SIGINT, SIGTERM or SIGHUP; the `KeyboardInterrupt` of
    such a signal is raised after the block.

    Only signals whose handler raises `KeyboardInterrupt` are delayed. Blocks may be nested; the
    exception is raised after the outermost one. An exception of the block itself takes precedence.
    If a signal came, an `OSError` of the block is suppressed, because writes to a terminal that has
    hung up fail.

    Args:
        then: Function that is called as soon as a signal arrives, before the block is complete.
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
                # Only the main thread can set handlers, and signals raise exceptions only there.
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
