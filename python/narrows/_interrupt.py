"""Ctrl-C while the command is still being loaded: it imports this first, and calls `loaded` last."""

import os
import signal
from types import FrameType


def _stop(_signal: int, _frame: FrameType | None) -> None:
    os.write(2, b"stopped\n")
    os._exit(130)


def loaded() -> None:
    """From now on Ctrl-C is an exception, as everywhere in Python."""
    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _stop)
