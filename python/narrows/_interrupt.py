"""Handlers of SIGINT (Ctrl-C), SIGTERM and SIGHUP. The command line imports this module before all
others, and calls `loaded` after its other imports.

Until `loaded` is called, each of these signals ends the process at once. Afterwards, each of them
raises `KeyboardInterrupt`, so that a command that keeps partial results at Ctrl-C also keeps them
at SIGTERM and SIGHUP. The exit code is 128 plus the number of the signal. A signal that was ignored
when the process started, as SIGHUP is under `nohup`, stays ignored.
"""

import os
import signal
import sys
import time
from types import FrameType

from narrows.operating_system import SIGNALS

_SAME_S = 1.0
"""Time in s after a signal during which further signals count as the same request and are ignored.
`timeout` and terminals signal a command and then its whole process group.
"""

_came: int | None = None
_came_at = 0.0


def code() -> int:
    """The exit code of a command that was stopped: 128 plus the number of the last signal that
    raised `KeyboardInterrupt`. Without a signal, the number is that of SIGINT.
    """
    return 128 + (_came or signal.SIGINT)


def _stop(number: int, _frame: FrameType | None) -> None:
    try:  # noqa: SIM105 - nothing else is imported here
        os.write(2, b"stopped\n")
    except OSError:
        pass  # stderr may be a terminal that was closed.
    os._exit(128 + number)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    global _came, _came_at
    now = time.monotonic()
    if _came is not None and now < _came_at + _SAME_S:
        return
    _came, _came_at = number, now
    raise KeyboardInterrupt


def loaded() -> None:
    """Makes each signal that is not ignored raise `KeyboardInterrupt` from now on."""
    for number in SIGNALS:
        if signal.getsignal(number) is _stop:
            signal.signal(number, _interrupt)


def silence() -> None:
    """Redirects stdout and stderr to the null device if they can no longer be written. They can no
    longer be written after a terminal has hung up, or if a pipe has no reader.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except (OSError, ValueError):
            # The rest of the buffer and all later output are written to the null device.
            os.dup2(nowhere, stream.fileno())


for _number in SIGNALS:
    if signal.getsignal(_number) in {signal.SIG_DFL, signal.default_int_handler}:
        signal.signal(_number, _stop)
