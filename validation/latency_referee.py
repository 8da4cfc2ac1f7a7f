"""The kernel as referee of tools that time answers: when the call that sends began, when the answer
was in hand.

Tracepoints (tracefs, root) with the kernel's own stamps, taken outside the tool, of every exchange:

    asks     the call that sends begins
    sent     it ends
    leaves   the question is handed to the device
    comes    the answer is taken from the device
    has      the call that brings the answer ends

`has - asks` is what a program can know of a round trip at best: by how much a tool tells more or
less is its own error. What lies between says where the time went. Stamps are of the even clock, to
the µs; taking them costs each watched call well below a µs, whichever tool it is.

Source: Documentation/trace/ftrace.rst and events.rst of Linux (instances, set_event_pid,
    event-fork, trace_clock).
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/kernel/tracing")
BUFFER_KB = 65_536
"""For each processor: a second of ping-pong is some 300,000 events of 50 bytes."""

CALLS = ("sendto", "sendmsg", "write", "recvfrom", "recvmsg", "read")
SENDS = CALLS[:3]

_LINE = re.compile(r"-(\d+)\s+\[\d+\] .*?\s(\d+)\.(\d{6}): (\w+)(\(| -> |: )(.*)")
"""Process, s, µs, what, how it goes on, and the rest."""


def lacking() -> str:
    """What would be needed, or nothing."""
    if os.geteuid() != 0:
        return "tracepoints need root"
    if not (ROOT / "instances").is_dir():
        subprocess.run(
            ["mount", "-t", "tracefs", "none", str(ROOT)], check=False, capture_output=True
        )
    return (
        ""
        if (ROOT / "events/syscalls").is_dir()
        else "this kernel has no tracepoints of system calls"
    )


@dataclass(frozen=True)
class Exchange:
    """One question and its answer, µs."""

    asks: int
    sent: int
    leaves: int
    comes: int
    has: int

    @property
    def took(self) -> int:
        """The round trip, as the program can know it."""
        return self.has - self.asks


class Referee:
    """Watches one program at a time."""

    def __init__(self, device: str, size: int) -> None:
        """For datagrams of `size` bytes, all alike, that leave by `device`."""
        self._program = ROOT / f"instances/narrows-program-{os.getpid()}"
        self._wire = ROOT / f"instances/narrows-wire-{os.getpid()}"
        self._device, self._size = device, size

    @contextlib.contextmanager
    def ready(self) -> Iterator[Referee]:
        """Tracepoints of its own, beside whoever else traces, until the end."""
        with contextlib.ExitStack() as held:
            for where in (self._program, self._wire):
                where.mkdir()
                held.callback(where.rmdir)
                held.callback(_put, where / "tracing_on", "0")
                _put(where / "trace_clock", "mono")
                _put(where / "buffer_size_kb", str(BUFFER_KB))
            _put(self._program / "options/event-fork", "1")
            for call in CALLS:
                _put(
                    self._program / f"events/syscalls/sys_exit_{call}/filter",
                    f"ret == {self._size}",
                )
                _put(self._program / f"events/syscalls/sys_exit_{call}/enable", "1")
                if call in SENDS:
                    _put(self._program / f"events/syscalls/sys_enter_{call}/enable", "1")
            for event in ("net_dev_start_xmit", "netif_receive_skb"):
                _put(self._wire / f"events/net/{event}/filter", f'name == "{self._device}"')
                _put(self._wire / f"events/net/{event}/enable", "1")
            for where in (self._program, self._wire):
                # Events cannot be switched off by removing the instance alone while somebody reads
                # it.
                held.callback(_put, where / "events/enable", "0")
            yield self

    def watched(self, command: Sequence[str]) -> list[str]:
        """The same command, whose process is watched, and all that it starts."""
        for where in (self._program, self._wire):
            _put(where / "trace", "")
        return [
            "sh",
            "-c",
            'echo $$ > "$0" && exec "$@"',
            str(self._program / "set_event_pid"),
            *command,
        ]

    def seen(self) -> list[Exchange]:
        """Of the program that has just ended, in order; none at all if one of them was not
        answered.
        """
        calls, has = self._calls()
        leaves, comes = self._frames()
        # A call that no frame left in wrote as many bytes to something else.
        asks = [(began, ended) for began, ended in calls if _any_in(leaves, began, ended)]
        has = [at for at in has if asks and at > asks[0][0]]
        # Who stops may leave the last question alone.
        if len(asks) - len(has) not in {0, 1} or not len(asks) == len(leaves) == len(comes):
            return []
        rows = zip(asks, leaves, comes, has, strict=False)
        return [Exchange(asked, sent, left, came, had) for (asked, sent), left, came, had in rows]

    def _calls(self) -> tuple[list[tuple[int, int]], list[int]]:
        began: dict[str, int] = defaultdict(int)
        asks, has = [], []
        for process, at, what, how, rest in _events(self._program):
            name = what.removeprefix("sys_")
            if how == "(":
                began[process] = at
            elif name in SENDS:
                asks.append((began[process], at))
            elif int(rest, 16) == self._size:
                has.append(at)
        return sorted(asks), sorted(has)

    def _frames(self) -> tuple[list[int], list[int]]:
        # Headers of IP and UDP; on the way out that of Ethernet, too.
        leaves, comes = [], []
        for _, at, what, _, rest in _events(self._wire):
            size = int(next(word[4:] for word in rest.split() if word.startswith("len=")))
            if what == "net_dev_start_xmit" and size == self._size + 42:
                leaves.append(at)
            elif what == "netif_receive_skb" and size == self._size + 28:
                comes.append(at)
        return sorted(leaves), sorted(comes)


def _any_in(times: Sequence[int], first: int, last: int) -> bool:
    at = bisect_left(times, first)
    return at < len(times) and times[at] <= last


def _put(file: Path, text: str) -> None:
    file.write_text(text, encoding="ascii")


def _events(where: Path) -> Iterator[tuple[str, int, str, str, str]]:
    with (where / "trace").open(encoding="ascii", errors="replace") as lines:
        for line in lines:
            if found := _LINE.search(line):
                process, s, us, what, how, rest = found.groups()
                yield process, int(s) * 1_000_000 + int(us), what, how, rest
