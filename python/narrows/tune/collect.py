"""Runs the collector on this host, on another host over SSH, in a network namespace, or on a
directory tree. The collector is a POSIX script that only reads and prints.
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import time
from pathlib import Path
from typing import IO

from narrows import _core, operating_system
from narrows.errors import EngineError, NarrowsError, reason
from narrows.storage import untrusted_input
from narrows.tune.facts import Facts, parse

_HOST = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9\[:][A-Za-z0-9_.:%\[\]-]*")
_NAMESPACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_PATIENCE_S: float
_MOST: int
_PATIENCE_S, _MOST = _core.collector_limits()
"""Maximum duration of the collector in s, and maximum size of its text in bytes."""
_MOST_SAID = 1 << 16
"""Maximum number of bytes of a program's stderr that are kept: the last ones."""
_LINE = 300
"""Maximum length of a line of stderr in a message, in characters."""
_PIECE = 1 << 16


def script() -> str:
    """The text of the collector script."""
    return _core.host_collector()


def host(name: str) -> str:
    """Returns a host name for ssh after a check that it is not an option and contains no characters
    that a shell interprets.

    >>> host("root@router.lan")
    'root@router.lan'

    Raises:
        NarrowsError: If the text is not such a host name.
    """
    if not _HOST.fullmatch(name):
        raise NarrowsError(f"--ssh {name!r}: a host is written NAME, USER@NAME or an address")
    return name


def namespace(name: str) -> str:
    """Returns the name of a network namespace after a check of its characters.

    Raises:
        NarrowsError: If the text cannot be the name of a namespace.
    """
    if not _NAMESPACE.fullmatch(name):
        raise NarrowsError(
            f"--netns {name!r}: not the name of a namespace; write one that `ip netns list` prints"
        )
    return name


def collect(*, ssh: str | None = None, netns: str | None = None, root: str | None = None) -> str:
    """Runs the collector and returns the text that it prints.

    Raises:
        NarrowsError: If the host cannot be reached, or the script cannot run there.
    """
    if ssh is None and root is None:
        operating_system.require_linux("an audit of this host")
    words = ["sh", "-s", *([root] if root is not None else [])]
    where = "the collector"
    if root is not None and not Path(root).is_dir():
        raise NarrowsError(f"{root}: there is no such directory")
    if root is not None and not (Path(root) / "proc/sys").is_dir():
        raise NarrowsError(
            f"{root}: there is no proc/sys in it; name the tree of a host, with its proc, sys and "
            "etc"
        )
    if ssh is not None:
        # The remote shell receives only the word `sh`; the script is passed on stdin.
        words, where = ["ssh", "-T", "--", host(ssh), "sh"], ssh
    elif netns is not None:
        words, where = ["ip", "netns", "exec", namespace(netns), "sh", "-s"], f"namespace {netns}"
    try:
        code, out, err = _limited(words, script(), where)
    except FileNotFoundError as error:
        raise EngineError(f"{where}: `{words[0]}` is not installed here") from error
    if code != 0:
        said = re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", "?", err).strip().splitlines()
        raise EngineError(f"{where}: {said[-1][:_LINE] if said else f'ended with {code}'}")
    return out


def _limited(words: list[str], given: str, where: str) -> tuple[int, str, str]:
    """Runs a program whose output is untrusted, with limits on its time and on the size of its
    output. Returns its exit code, stdout and stderr.
    """
    pipe = subprocess.PIPE
    until = time.monotonic() + _PATIENCE_S
    with (
        subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe) as child,
        selectors.DefaultSelector() as ready,
    ):
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        kept = {child.stdout.fileno(): bytearray(), child.stderr.fileno(): bytearray()}
        left = memoryview(given.encode())
        os.set_blocking(child.stdin.fileno(), False)
        ready.register(child.stdin, selectors.EVENT_WRITE)
        for fd in kept:
            ready.register(fd, selectors.EVENT_READ)
        try:
            while ready.get_map():
                events = ready.select(max(0.0, until - time.monotonic()))
                if not events and time.monotonic() >= until:
                    raise EngineError(f"{where}: no answer within {_PATIENCE_S} s")
                for key, _ in events:
                    if key.fileobj is child.stdin:
                        left = _given(child.stdin, left)
                        if not left:
                            ready.unregister(child.stdin)
                            child.stdin.close()
                        continue
                    piece = os.read(key.fd, _PIECE)
                    if not piece:
                        ready.unregister(key.fd)
                    kept[key.fd] += piece
                    if key.fd == child.stderr.fileno():
                        del kept[key.fd][:-_MOST_SAID]
                    elif len(kept[key.fd]) > _MOST:
                        raise EngineError(
                            f"{where}: sent more than {_MOST >> 20} MiB, which no collector does"
                        )
            child.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise EngineError(f"{where}: no answer within {_PATIENCE_S} s") from error
        finally:
            if child.poll() is None:
                child.kill()
        out, err = (bytes(kept[fd]).decode("utf-8", "replace") for fd in kept)
    return child.returncode, out, err


def _given(stdin: IO[bytes], left: memoryview) -> memoryview:
    """Writes a part of the input and returns the rest; the rest is empty if the pipe was closed."""
    try:
        return left[os.write(stdin.fileno(), left[:_PIECE]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:
        return left[:0]


def facts(
    *,
    ssh: str | None = None,
    netns: str | None = None,
    root: str | None = None,
    file: str | None = None,
) -> Facts:
    """The facts about a host; without an argument, about this host.

    Raises:
        NarrowsError: If the facts cannot be collected or read.
    """
    if file is not None:
        try:
            return parse(untrusted_input.read(file, _MOST).decode(errors="replace"), file)
        except OSError as error:
            raise NarrowsError(f"{file}: {reason(error)}") from error
    return parse(
        collect(ssh=ssh, netns=netns, root=root), ssh or netns or root or "the collector's text"
    )
