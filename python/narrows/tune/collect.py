"""Running the collector: here, over ssh, in a namespace, or on a tree. It is one POSIX script that reads and prints."""

from __future__ import annotations

import re
import subprocess
from importlib import resources
from pathlib import Path

from narrows import untrusted_input
from narrows.errors import EngineError, NarrowsError, reason
from narrows.tune.facts import Facts, parse

_HOST = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9\[:][A-Za-z0-9_.:%\[\]-]*")
_NAMESPACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_PATIENCE_S = 120


def script() -> str:
    """The collector."""
    return (resources.files("narrows.tune") / "collect.sh").read_text(encoding="utf-8")


def host(name: str) -> str:
    """A name that ssh may be given: no option, nothing that a shell would read.

    >>> host("root@router.lan")
    'root@router.lan'

    Raises:
        NarrowsError: If it is something else.
    """
    if not _HOST.fullmatch(name):
        raise NarrowsError(f"--ssh {name!r}: a host is written NAME, USER@NAME or an address")
    return name


def namespace(name: str) -> str:
    """The name of a network namespace.

    Raises:
        NarrowsError: If it is none.
    """
    if not _NAMESPACE.fullmatch(name):
        raise NarrowsError(f"--netns {name!r}: a name as `ip netns list` prints it")
    return name


def collect(*, ssh: str | None = None, netns: str | None = None, root: str | None = None) -> str:
    """The collector's text.

    Raises:
        NarrowsError: If the host cannot be reached, or the script cannot run there.
    """
    words = ["sh", "-s", *([root] if root is not None else [])]
    where = "the collector"
    if root is not None and not Path(root).is_dir():
        raise NarrowsError(f"{root}: there is no such directory")
    if root is not None and not (Path(root) / "proc/sys").is_dir():
        raise NarrowsError(f"{root}: there is no proc/sys in it; name the tree of a host, with its proc, sys and etc")
    if ssh is not None:
        # Only this word reaches the far shell; the script comes on stdin.
        words, where = ["ssh", "-T", "--", host(ssh), "sh"], ssh
    elif netns is not None:
        words, where = ["ip", "netns", "exec", namespace(netns), "sh", "-s"], f"namespace {netns}"
    try:
        done = subprocess.run(
            words, input=script(), capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S, check=False
        )
    except FileNotFoundError as error:
        raise EngineError(f"{where}: `{words[0]}` is not installed here") from error
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"{where}: no answer within {_PATIENCE_S} s") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise EngineError(f"{where}: {said[-1] if said else f'ended with {done.returncode}'}")
    return done.stdout


def facts(
    *, ssh: str | None = None, netns: str | None = None, root: str | None = None, file: str | None = None
) -> Facts:
    """Facts of a host: this one without any argument.

    Raises:
        NarrowsError: If they cannot be had.
    """
    if file is not None:
        try:
            return parse(untrusted_input.read(file).decode(errors="replace"), file)
        except OSError as error:
            raise NarrowsError(f"{file}: {reason(error)}") from error
    return parse(collect(ssh=ssh, netns=netns, root=root), ssh or netns or root or "the collector's text")
