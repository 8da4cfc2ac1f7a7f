"""Differences between operating systems: what narrows needs from Linux or from POSIX.

The simulator runs on Linux, macOS and Windows. Everything that accesses a network or changes a host
needs Linux and calls `require_linux`. `lock` does nothing on Windows, so only one program at a time
may write a sweep or sealed forecasts there. The history has the locks of DuckDB. `make lint` checks
the types of all other modules for Windows, except those of `narrows.kernel` and `narrows.tune`.
"""

from __future__ import annotations

import errno
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # The import of `typing` takes longer than most commands.
    from collections.abc import Callable
    from typing import NoReturn

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

LINUX = sys.platform.startswith("linux")

LOCKS = fcntl is not None
"""Whether files and folders can be locked, and folders can be synced; false on Windows."""

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""The signals that end a command; those that the operating system does not have are left out."""

SHARED = getattr(fcntl, "LOCK_SH", 0)
EXCLUSIVE = getattr(fcntl, "LOCK_EX", 0)
AT_ONCE = getattr(fcntl, "LOCK_NB", 0)
NONE = getattr(fcntl, "LOCK_UN", 0)
"""Kinds of locks, as in flock(2). With `AT_ONCE`, `lock` fails instead of waiting."""

BYTES = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Flags of open(2) for a file of bytes that child processes do not inherit."""

WITHOUT_WAITING = getattr(os, "O_NONBLOCK", 0)
"""The flag of open(2) that does not wait for the writer of a FIFO."""

SYNCED = os.O_RDONLY if LOCKS else os.O_RDWR
"""The flag of open(2) for a file that is synced; Windows syncs only files open for writing."""


def lock(file: int | object, kind: int) -> None:
    """Locks a whole open file; does nothing on Windows, which has no such locks.

    Raises:
        BlockingIOError: With `AT_ONCE`, if another process holds the lock.
        OSError: If the file cannot be locked.
    """
    if hasattr(fcntl, "flock"):
        fcntl.flock(file, kind)  # type: ignore[arg-type]


def locked_folder(folder: str | os.PathLike[str], kind: int) -> int:
    """Opens and locks a folder of this user, and returns the file descriptor, which holds the lock.
    `LOCKS` must be true.

    Raises:
        OSError: If the folder cannot be opened or locked, is a link or belongs to another user.
    """
    if sys.platform == "win32":
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(opened).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        lock(opened, kind)
    except BaseException:
        os.close(opened)
        raise
    return opened


def processors() -> int:
    """Number of logical processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def is_read_only(place: str | os.PathLike[str]) -> bool:
    """Whether the file system of this file is mounted read-only; false on Windows."""
    if sys.platform == "win32":
        return False
    return bool(os.statvfs(place).f_flag & os.ST_RDONLY)


def log(text: str) -> None:
    """Writes a line to the system log, if there is one."""
    if sys.platform == "win32":
        return
    import syslog  # noqa: PLC0415 - rarely needed

    syslog.syslog(syslog.LOG_INFO, text)


def limiter(most_file_bytes: int) -> Callable[[], None] | None:
    """A function that limits the size of files and forbids core dumps in its process; `None` on
    Windows, which has no such limits.
    """
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415 - rarely needed

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_file_bytes, most_file_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    return limit


def block_signals() -> set[int]:
    """Blocks `SIGNALS` in this thread, and returns the signals that were blocked before. Windows
    cannot block signals.
    """
    if sys.platform == "win32":
        return set()
    return set(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)))


def restore_signals(blocked: set[int]) -> None:
    """Blocks exactly these signals in this thread; does nothing on Windows."""
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def die_with_parent() -> None:
    """Ends this process when its parent ends, even if the parent is killed; on Linux only."""
    if sys.platform.startswith("linux"):
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
