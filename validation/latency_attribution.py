"""Tests the delay attribution of `narrows latency` with stalls of 4 ms at each of the five places.

    python -m validation.latency_attribution
        200 stalls at each place, two minutes, root
    python -m validation.latency_attribution --trials 20
        fewer

There are three hosts (network namespaces) in a row: near, a router, far. All stalls are real, and
the program has no information about them:

- An application stalls: it does not run although a packet is ready (`--stall`, at each end).
- A kernel stalls on transmission: other packets fill the queue of a token bucket on the device, and
  the question or answer waits behind them.
- A kernel stalls on reception: a thread of the highest scheduling class occupies the processor to
  which the application is bound.
- The wire stalls: the same token bucket is in the router.

Each stall has a random phase relative to the questions, one of which is sent every millisecond. The
result is the attribution of the slowest answer around the stall. If no answer is slow, the stall
counts as attributed wrongly.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from narrows.host.live import HOST
from narrows.json_object import JsonObject
from validation.asked import positive

STALL_S = 0.004
BETWEEN_S = 0.025
"""Mean time from one stall to the next, in s."""

SLOW = "2ms"
WITHIN_S = 0.012
"""Time after the start of a stall, in s. An answer belongs to the stall if its question was due
within this time, or at most `STALL_S` before the stall.
"""

RATE_BYTES_S = 10_000_000
BURST = 20_000
FILL = BURST + int(RATE_BYTES_S * STALL_S)
"""Bytes that empty the token bucket and then occupy it for the duration of a stall."""

WANTED = 0.95
TRIALS = 200

_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Place:
    """The place and the cause of a stall.

    Attributes:
        name: The name in the table.
        right: The correct attribution.
        how: The cause in words.
        fill: The host whose queue is filled, if that is the cause.
        hog: The processor that is occupied, if that is the cause.
        near: Additional options of the client.
        far: Additional options of the server.
    """

    name: str
    right: str
    how: str
    fill: str = ""
    hog: int | None = None
    near: tuple[str, ...] = ()
    far: tuple[str, ...] = ()


_EACH = f"4ms@{BETWEEN_S * 1000:.0f}ms"
PLACES = (
    Place("client application", "client_application", "it stands still", near=("--stall", _EACH)),
    Place("client kernel, out", "client_kernel", "its queue is full", fill="near"),
    Place("client kernel, in", "client_kernel", "its processor is taken", hog=0),
    Place("wire", "wire", "the router's queue is full", fill="mid"),
    Place("server kernel, out", "server_kernel", "its queue is full", fill="far"),
    Place("server kernel, in", "server_kernel", "its processor is taken", hog=1),
    Place("server application", "server_application", "it stands still", far=("--stall", _EACH)),
)


def run(*words: str) -> None:
    """Runs a command, and raises an exception if it fails."""
    subprocess.run(words, check=True, capture_output=True, text=True)


def missing_requirements() -> str:
    """The requirements of this test that are not met, or an empty text."""
    if os.geteuid() != 0:
        return "network namespaces with token buckets need root"
    if (os.cpu_count() or 1) < 2:  # noqa: PLR2004
        return "two processors: one for each end"
    return ""


@contextlib.contextmanager
def hosts() -> Iterator[dict[str, int]]:
    """Creates the hosts near, mid and far. Yields the id of the process that keeps the namespace of
    each, by name.
    """
    with contextlib.ExitStack() as held:
        pids = {}
        own = Path("/proc/self/ns/net").readlink()
        for name in ("near", "mid", "far"):
            child = subprocess.Popen(["unshare", "-n", "sleep", "600"])
            held.callback(child.wait)
            held.callback(child.kill)
            while Path(f"/proc/{child.pid}/ns/net").readlink() == own:
                time.sleep(0.01)
            pids[name] = child.pid
        into = {name: ["nsenter", "-t", str(pid), "-n"] for name, pid in pids.items()}
        for name, to, address, there in (
            ("near", "a", "198.51.100.1", "198.51.100.2"), ("far", "b", "203.0.113.1",
            "203.0.113.2"),
        ):  # fmt: skip
            run(
                *into[name],
                "ip",
                "link",
                "add",
                "e0",
                "type",
                "veth",
                "peer",
                "name",
                to,
                "netns",
                str(pids["mid"]),
            )
            run(*into[name], "ip", "addr", "add", f"{address}/24", "dev", "e0")
            run(*into["mid"], "ip", "addr", "add", f"{there}/24", "dev", to)
            for host, device in ((name, "lo"), (name, "e0"), ("mid", to)):
                run(*into[host], "ip", "link", "set", "dev", device, "up")
            run(*into[name], "ip", "route", "add", "default", "via", there)
        run(*into["mid"], "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        for host, device in (("near", "e0"), ("mid", "b"), ("far", "e0")):
            # No host has this address, so the packets that fill the queue are discarded at the next
            # host.
            nobody = {"near": "198.51.100.99", "mid": "203.0.113.99", "far": "203.0.113.99"}[host]
            run(
                *into[host],
                "ip",
                "neigh",
                "add",
                nobody,
                "lladdr",
                "02:00:00:00:00:99",
                "dev",
                device,
            )
            bucket = (
                "tbf",
                "rate",
                f"{8 * RATE_BYTES_S}bit",
                "burst",
                str(BURST),
                "limit",
                "1000000",
            )
            run(*into[host], "tc", "qdisc", "add", "dev", device, "root", *bucket)
        yield pids


def socket_in(pid: int) -> socket.socket:
    """A datagram socket in a host's namespace; the thread then returns to its own namespace."""
    own, other = Path("/proc/self/ns/net"), Path(f"/proc/{pid}/ns/net")
    with own.open(encoding="ascii") as here, other.open(encoding="ascii") as there:
        if _LIBC.setns(there.fileno(), _NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        try:
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1_000_000)
            return made
        finally:
            _LIBC.setns(here.fileno(), _NEWNET)


def queue_filler(sender: socket.socket, host: str) -> Callable[[], None]:
    """A function that fills the queue of a host through a socket of this host."""
    nobody = {"near": "198.51.100.99", "mid": "203.0.113.99", "far": "203.0.113.99"}[host]
    load = bytes(FILL)

    def fill() -> None:
        sender.sendto(load, (nobody, 9))

    return fill


def processor_load(processor: int) -> Callable[[], None]:
    """A function that occupies a processor for the time of a stall."""

    def take() -> None:
        os.sched_setaffinity(0, {processor})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99))
        end = time.perf_counter() + STALL_S
        while time.perf_counter() < end:
            pass

    def taken() -> None:
        # The thread is new for each stall, so that its scheduling class ends with it.
        thread = threading.Thread(target=take)
        thread.start()
        thread.join()

    return taken


def trial(pids: dict[str, int], place: Place, trials: int, seed: int = 1) -> JsonObject:
    """Causes `trials` stalls at one place. Returns the number of attributions to each part."""
    count = int(trials * BETWEEN_S * 1.3 / 0.001) + 1500
    far = ["nsenter", "-t", str(pids["far"]), "-n", "taskset", "-c", "1", str(HOST), "serve"]
    near = [
        "nsenter",
        "-t",
        str(pids["near"]),
        "-n",
        "taskset",
        "-c",
        "0",
        str(HOST),
        "latency",
        "203.0.113.1",
    ]
    command = [*near, "--count", str(count), "--slow", SLOW, *place.near]
    with subprocess.Popen(
        [*far, "--tied", *place.far], stdout=subprocess.PIPE, text=True
    ) as serving:
        try:
            assert serving.stdout is not None
            serving.stdout.readline()
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asking:
                began = cause_stalls(pids, place, trials, seed)
                told = json.loads(asking.communicate(timeout=120)[0])
        finally:
            serving.terminate()
    blamed = Counter(_whose(told, began) if began else _attribution_of_stalls(told, trials))
    return {
        "place": place.name,
        "right": place.right,
        "how": place.how,
        "blamed": dict(blamed),
        "trials": trials,
    }


def machine_is_idle(pids: dict[str, int], trials: int) -> bool:
    """Whether the machine itself causes at most a tenth as many stalls. More of them would make the
    attribution useless.
    """
    nothing = Place("nothing", "nobody", "nothing is done")
    found = trial(pids, nothing, trials)["blamed"]
    nobody: int = found.get("nobody", 0)
    return trials - nobody <= trials // 10


def cause_stalls(pids: dict[str, int], place: Place, trials: int, seed: int) -> list[float]:
    """Causes the stalls of a place. Returns the start of each, in s since 1970.

    Stalls that client or server cause by `--stall` are not caused here.
    """
    if not place.fill and place.hog is None:
        return []
    draw = random.Random(seed)
    began = []
    with contextlib.ExitStack() as held:
        if place.fill:
            stall = queue_filler(held.enter_context(socket_in(pids[place.fill])), place.fill)
        else:
            stall = processor_load(place.hog or 0)
        time.sleep(0.5)
        for _ in range(trials):
            time.sleep(BETWEEN_S * draw.uniform(0.7, 1.3))
            began.append(time.time())
            stall()
    return began


def _slow(told: JsonObject) -> list[tuple[float, float, str]]:
    """For each slow answer: due time of its question (in s since 1970), response time in µs,
    attribution.
    """
    kept = told["slow"]["kept"]
    return [
        (datetime.fromisoformat(s["at"]).timestamp(), s["response_us"], s["blamed"]) for s in kept
    ]


def _whose(told: JsonObject, began: list[float]) -> Iterator[str]:
    slow = _slow(told)
    for at in began:
        near = [s for s in slow if at - STALL_S < s[0] < at + WITHIN_S]
        yield max(near, key=lambda s: s[1])[2] if near else "nobody"


def _attribution_of_stalls(told: JsonObject, trials: int) -> Iterator[str]:
    """The attribution of each stall that client or server caused by `--stall`. Adjacent slow
    answers belong to one stall.
    """
    groups: list[list[tuple[float, float, str]]] = []
    for one in sorted(_slow(told)):
        if not groups or one[0] - groups[-1][-1][0] > BETWEEN_S / 2:
            groups.append([])
        groups[-1].append(one)
    found = [max(group, key=lambda s: s[1])[2] for group in groups[:trials]]
    yield from found
    yield from ["nobody"] * (trials - len(found))


def row(found: JsonObject) -> str:
    """A line of the table."""
    right = found["blamed"].get(found["right"], 0)
    others = ", ".join(
        f"{who} {n}" for who, n in sorted(found["blamed"].items()) if who != found["right"]
    )
    return f"| {found['place']} | {found['how']} | {right} of {found['trials']} | {others or '–'} |"


def main() -> int:
    """Runs the test and prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=positive, default=TRIALS)
    parser.add_argument("--only", help="test only this place")
    asked = parser.parse_args()
    if missing := missing_requirements():
        print(missing, file=sys.stderr)
        return 2
    right = True
    print("| stall of 4 ms at | cause | attributed correctly | other attributions |")
    print("|---|---|---|---|")
    with hosts() as pids:
        for place in PLACES:
            if asked.only in {None, place.name}:
                found = trial(pids, place, asked.trials)
                right &= found["blamed"].get(place.right, 0) >= WANTED * asked.trials
                print(row(found), flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
