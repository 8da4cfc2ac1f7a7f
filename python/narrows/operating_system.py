"""Differences between operating systems: what narrows needs from Linux or from POSIX.

The simulator runs on Linux, macOS and Windows. Everything that accesses a network or changes a host
needs Linux and calls `require_linux`. `lock` does nothing on Windows, so only one program at a time
may write a sweep or sealed forecasts there. The history has the locks of DuckDB.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # The import of `typing` takes longer than most commands.
    from typing import NoReturn

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

LINUX = sys.platform.startswith("linux")

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""The signals that end a command; those that the operating system does not have are left out."""

_UNLOCKED = 0
SHARED = _UNLOCKED if fcntl is None else fcntl.LOCK_SH
EXCLUSIVE = _UNLOCKED if fcntl is None else fcntl.LOCK_EX
AT_ONCE = _UNLOCKED if fcntl is None else fcntl.LOCK_NB
NONE = _UNLOCKED if fcntl is None else fcntl.LOCK_UN
"""Kinds of locks, as in flock(2). With `AT_ONCE`, `lock` fails instead of waiting."""


def lock(file: int | object, kind: int) -> None:
    """Locks a whole open file; does nothing on Windows, which has no such locks.

    Raises:
        BlockingIOError: With `AT_ONCE`, if another process holds the lock.
        OSError: If the file cannot be locked.
    """
    if fcntl is not None:
        fcntl.flock(file, kind)  # type: ignore[arg-type]


def die_with_parent() -> None:
    """Ends this process when its parent ends, even if the parent is killed; on Linux only."""
    if LINUX:
        import ctypes  # noqa: PLC0415 - for child processes only

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def require_linux(what: str) -> None:
    """Checks that this is Linux.

    Args:
        what: The command or option that needs Linux; the error message begins with it.

    Raises:
        EngineError: If the operating system is not Linux.
    """
    if not LINUX:
        _refuse(what)


def _refuse(what: str) -> NoReturn:
    from narrows.errors import EngineError  # noqa: PLC0415 - rarely needed

    raise EngineError(
        f"{what} needs Linux, and this is {machine()[0]}\n"
        "    here, narrows simulates: write narrows run, race, advise or measure FILE.toml"
    )


def machine() -> tuple[str, str, str, str]:
    """Name, release and version of the operating system, and the architecture of the machine."""
    if hasattr(os, "uname"):
        about = os.uname()
        return about.sysname, about.release, about.version, about.machine
    import platform  # noqa: PLC0415 - Windows only

    return platform.system(), platform.release(), platform.version(), platform.machine()
