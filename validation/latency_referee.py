"""Uses kernel tracepoints as the reference for tools that measure response times.

Tracepoints (tracefs, root) record kernel timestamps of every exchange, outside the tool:

    asks     the send call begins
    sent     the send call ends
    leaves   the device gets the question
    comes    the kernel gets the answer from the device
    has      the receive call with the answer ends

`has - asks` is the RTT that an ideal program measures. The error of a tool is its difference from
this RTT. The other timestamps show which part of the exchange took the time. Timestamps use the
monotonic clock with a resolution of 1 µs. A timestamp takes well below 1 µs of each traced call,
for every tool.

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
"""Size of the trace buffer of each processor, in KiB. A second of ping-pong has about 300,000
events of 50 bytes.
"""

CALLS = ("sendto", "sendmsg", "write", "recvfrom", "recvmsg", "read")
SENDS = CALLS[:3]

_LINE = re.compile(r"-(\d+)\s+\[\d+\] .*?\s(\d+)\.(\d{6}): (\w+)(\(| -> |: )(.*)")
"""A line of the trace: process id, s, µs, event, delimiter, and the rest of the line."""


def missing_requirements() -> str:
    """The requirements of tracing that are not met, or an empty text."""
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
    """The timestamps of one question and its answer, in µs."""

    asks: int
    sent: int
    leaves: int
    comes: int
    has: int

    @property
    def took(self) -> int:
        """The RTT that an ideal program measures, in µs."""
        return self.has - self.asks


class Referee:
    """Traces one program at a time."""

    def __init__(self, device: str, size: int) -> None:
        """Traces datagrams of `size` bytes that leave by `device`; all must have this size."""
        self._program = ROOT / f"instances/narrows-program-{os.getpid()}"
        self._wire = ROOT / f"instances/narrows-wire-{os.getpid()}"
        self._device, self._size = device, size

    @contextlib.contextmanager
    def ready(self) -> Iterator[Referee]:
        """Enables tracepoints in separate trace instances, which leave other users undisturbed."""
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
                # An instance that another program reads cannot be removed, so its events are
                # disabled explicitly.
                held.callback(_put, where / "events/enable", "0")
            yield self

    def watched(self, command: Sequence[str]) -> list[str]:
        """The command with a prefix that enables tracing of its process and of the children of this
        process.
        """
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
        """The exchanges of the traced program that has just ended, in order. The list is empty if
        an answer is missing.
        """
        calls, has = self._calls()
        leaves, comes = self._frames()
        # A send call during which no frame was transmitted wrote the same number of bytes to
        # another file.
        asks = [(began, ended) for began, ended in calls if _any_in(leaves, began, ended)]
        has = [at for at in has if asks and at > asks[0][0]]
        # A program may end without waiting for the last answer.
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
        # The frame length includes the headers of IP and UDP, and on transmission that of Ethernet,
        # too.
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
