"""Ctrl-C (SIGINT), SIGTERM and SIGHUP: the command line imports this first, and calls `loaded`
last.

While the command is being loaded, each of them ends it at once. Afterwards each is a
`KeyboardInterrupt`: a command that keeps what it has seen at Ctrl-C does so for all of them. The
exit code is 128 and the signal's number. A signal that was ignored before, as SIGHUP is under
`nohup`, stays ignored.
"""

import os
import signal
import sys
import time
from types import FrameType

from narrows.operating_system import SIGNALS

_SAME_S = 1.0
"""`timeout` and terminals signal a command and then its whole group: within this time it is the
same request.
"""

_came: int | None = None
_came_at = 0.0


def code() -> int:
    """The exit code of a command that was stopped: of the last signal, or of Ctrl-C where none came
    to this process.
    """
    return 128 + (_came or signal.SIGINT)


def _stop(number: int, _frame: FrameType | None) -> None:
    try:  # noqa: SIM105 - nothing else is imported here
        os.write(2, b"stopped\n")
    except OSError:
        pass  # A terminal that has gone reads nothing.
    os._exit(128 + number)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    global _came, _came_at
    now = time.monotonic()
    if _came is not None and now < _came_at + _SAME_S:
        return
    _came, _came_at = number, now
    raise KeyboardInterrupt


def loaded() -> None:
    """From now on each signal is an exception."""
    for number in SIGNALS:
        if signal.getsignal(number) is _stop:
            signal.signal(number, _interrupt)


def silence() -> None:
    """Nobody reads any more what is printed: a terminal has hung up, a pipe was closed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except (OSError, ValueError):
            # What is left in the buffer goes nowhere, and so does everything that follows.
            os.dup2(nowhere, stream.fileno())


for _number in SIGNALS:
    if signal.getsignal(_number) in {signal.SIG_DFL, signal.default_int_handler}:
        signal.signal(_number, _stop)
