"""Compares quantiles of `narrows latency` with irtt and sockperf, and with a kernel reference.

    python -m validation.latency_tools             three minutes, root, irtt and sockperf installed
    python -m validation.latency_tools --rounds 3  fewer

There are two hosts (network namespaces) with a veth pair between them. The tools run in alternating
rounds. In each round a tool runs for one second in ping-pong mode, or else four times for a quarter
of a second. All tools and servers run in the same real-time class, so that other load on the
machine has no effect. The quantiles over all rounds are compared. Two quantiles agree if they
differ by at most 5 % or 20 µs.

- sockperf and narrows run in ping-pong mode. Each has its own server, because neither supports the
  protocol of the other. By default, sockperf prints half of the RTT.
- Both irtt and narrows send a question every millisecond to the same irtt server. In another run,
  the runtime of irtt has one processor (`GOMAXPROCS=1`). This shows the delay that wake-ups between
  the threads of the runtime add.

The kernel records timestamps of each exchange ([the reference](latency_referee.py)). A tool is
wrong if a quantile of its own exchanges differs from the kernel's by more than 5 % and more than 5
µs. If two correct tools differ, their exchanges really took different times. The command then
prints which part of the exchange differs. It also prints how often the same runs differ as much if
they are assigned to the two tools at random. This separates slow tools from times at which the
machine was slow.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from narrows.host.live import HOST
from validation import latency_referee
from validation.asked import positive
from validation.latency_referee import Exchange, Referee

NEAR, FAR = "198.51.100.1", "198.51.100.2"
NEAR_DEVICE, FAR_DEVICE = "narrows-near", "narrows-far"
QUANTILES = ("p50", "p90", "p99")
RELATIVE, ABSOLUTE_US = 0.05, 20.0
OWN_US = 5.0
"""Permitted difference of a tool from the kernel, in µs."""
SHUFFLES = 400
NEAR_US = 5.0
"""Maximum difference of two timestamps of the same event, in µs."""
SIZE = 64
TURN, TURNS = "250ms", 4
"""Duration and number of runs per round of tools that send a question each millisecond."""
IRTT_PORT, OURS_PORT, SOCKPERF_PORT = 2112, 7007, 11111
ECHO = ("--speaks", "echo", "--port", str(OURS_PORT))
IRTT = ("--speaks", "irtt", "--port", str(IRTT_PORT))
URGENT = ("chrt", "--rr", "10")
"""The command prefix that sets the scheduling class of all tools."""
PAIRS = (
    ("sockperf, ping-pong", "ours, ping-pong"),
    ("irtt", "ours of irtt's server"),
    ("irtt, GOMAXPROCS=1", "ours of irtt's server"),
)


def missing_requirements() -> str:
    """The requirements of this test that are not met, or an empty text."""
    if os.geteuid() != 0:
        return "two network namespaces need root"
    return ", ".join(
        f"{name} is not installed" for name in ("irtt", "sockperf") if shutil.which(name) is None
    )


@contextlib.contextmanager
def two_hosts() -> Iterator[tuple[list[str], list[str]]]:
    """Creates the two hosts. Yields the command prefixes that run a command on the host near and on
    the host far.
    """
    with contextlib.ExitStack() as held:
        into = []
        outside = Path("/proc/self/ns/net").readlink()
        for _ in range(2):
            child = subprocess.Popen(["unshare", "-n", "sleep", "600"])
            held.callback(child.wait)
            held.callback(child.kill)
            while Path(f"/proc/{child.pid}/ns/net").readlink() == outside:
                time.sleep(0.01)
            into.append(["nsenter", "-t", str(child.pid), "-n"])
        pair = [
            "ip",
            "link",
            "add",
            NEAR_DEVICE,
            "type",
            "veth",
            "peer",
            "name",
            FAR_DEVICE,
            "netns",
            into[1][2],
        ]
        subprocess.run([*into[0], *pair], check=True)
        for words, address, own in zip(into, (NEAR, FAR), (NEAR_DEVICE, FAR_DEVICE), strict=True):
            subprocess.run([*words, "ip", "addr", "add", f"{address}/24", "dev", own], check=True)
            for device in ("lo", own):
                subprocess.run([*words, "ip", "link", "set", device, "up"], check=True)
        yield into[0], into[1]


@dataclass
class Turn:
    """The RTTs of some exchanges as reported by a tool, and as recorded by the kernel, in µs."""

    told: Counter[float] = field(default_factory=Counter)
    saw: list[Exchange] = field(default_factory=list)
    turns: list[list[float]] = field(default_factory=list)
    """The reported RTTs of each run."""

    def __iadd__(self, other: Turn) -> Turn:
        self.told += other.told
        self.saw += other.saw
        self.turns.append(list(other.told.elements()))
        return self

    def quantile(self, name: str) -> float:
        """The quantile of the reported RTTs, in µs."""
        return _below(self.told, name)

    def seen(
        self, name: str, of: Callable[[Exchange], int] = lambda each: each.took
    ) -> float | None:
        """The quantile of the times that the kernel recorded, in µs; `of` is the RTT or a part."""
        return _below(Counter(map(of, self.saw)), name) if self.saw else None


PARTS: dict[str, Callable[[Exchange], int]] = {
    "sending it": lambda each: each.leaves - each.asks,
    "the server": lambda each: each.comes - each.leaves,
    "waking up for the answer": lambda each: each.has - each.comes,
}


def _below(counts: Counter[float] | Counter[int], name: str) -> float:
    before, wanted = 0, counts.total() * int(name[1:]) / 100
    for us, count in sorted(counts.items()):
        before += count
        if before >= wanted:
            return us
    raise ValueError("no answers")


Tool = Callable[[Referee | None], Turn]


def started(command: Sequence[str], referee: Referee | None) -> str:
    """Runs a command, traced by the referee; returns its output."""
    words = list(command) if referee is None else referee.watched(command)
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def narrows_latency(near: list[str], *words: str) -> Tool:
    """A run of `narrows latency`."""

    def turn(referee: Referee | None) -> Turn:
        told = json.loads(
            started(
                [
                    *near,
                    str(HOST),
                    "latency",
                    FAR,
                    *words,
                ],
                referee,
            )
        )
        counts = Counter({ns / 1000: count for ns, count in told["rtt_us"]["histogram_ns"]})
        # `narrows latency` does not report the exchanges of its warm-up, so they are removed here.
        saw = referee.seen() if referee else []
        return Turn(counts, saw[len(saw) - told["answered"] :])

    return turn


def sockperf(near: list[str]) -> Tool:
    """A run of sockperf's ping-pong of one second.

    Its log of messages has number, time sent, time received (s), and half of the RTT.
    """

    def turn(referee: Referee | None) -> Turn:
        with tempfile.NamedTemporaryFile("r", suffix=".csv") as log:
            command = [
                "sockperf",
                "ping-pong",
                "-i",
                FAR,
                "-p",
                str(SOCKPERF_PORT),
                "-t",
                "1",
                "-m",
                str(SIZE),
            ]
            started([*near, *command, "--full-log", log.name], referee)
            rows = [line.split(",") for line in log if line[:1].isdigit()]
        times = [
            (1e6 * float(sent), 1e6 * float(back)) for _, sent, back, *_ in rows if float(back) > 0
        ]
        counts = Counter(back - sent for sent, back in times)
        return Turn(counts, logged(times, referee.seen()) if referee else [])

    return turn


def logged(times: Sequence[tuple[float, float]], saw: Sequence[Exchange]) -> list[Exchange]:
    """The exchanges that a log contains.

    The log lacks the first and the last exchanges and uses another clock than the kernel's trace.
    """
    gaps = [after[0] - before[0] for before, after in pairwise(times)]
    longest = max(range(len(gaps)), key=gaps.__getitem__)
    for at, (before, after) in enumerate(pairwise(saw)):
        first = at - longest
        if first < 0 or abs(after.asks - before.asks - gaps[longest]) > NEAR_US:
            continue
        those = saw[first : first + len(times)]
        drifts = [
            abs(one.asks - those[0].asks - (sent - times[0][0]))
            for one, (sent, _) in zip(those, times, strict=False)
        ]
        if len(those) == len(times) and sorted(drifts)[len(drifts) // 2] < NEAR_US:
            return list(those)
    return []


def irtt(near: list[str], *environment: str) -> Tool:
    """A run of irtt."""

    def turn(referee: Referee | None) -> Turn:
        words = [
            "irtt",
            "client",
            "-i",
            "1ms",
            "-d",
            TURN,
            "-l",
            str(SIZE),
            "-o",
            "-",
            "-Q",
            f"{FAR}:{IRTT_PORT}",
        ]
        trips = json.loads(started([*near, "env", *environment, *words], referee))["round_trips"]
        counts = Counter(trip["delay"]["rtt"] / 1000 for trip in trips if trip["lost"] == "false")
        return Turn(counts, referee.seen() if referee else [])

    return turn


def rounds(near: list[str], count: int, referee: Referee | None) -> dict[str, Turn]:
    """Runs all tools in alternating rounds; every other round is in reverse order."""
    tools = {
        "sockperf, ping-pong": sockperf(near),
        "ours, ping-pong": narrows_latency(
            near, *ECHO, "--pace", "pingpong", "--no-stamps", "--duration", "1s"
        ),
        "irtt": irtt(near),
        "irtt, GOMAXPROCS=1": irtt(near, "GOMAXPROCS=1"),
        "ours of irtt's server": narrows_latency(
            near,
            *IRTT,
            "--interval",
            "1ms",
            "--lead",
            "0s",
            "--size",
            f"{SIZE}B",
            "--duration",
            TURN,
        ),
    }
    seen = {name: Turn() for name in tools}
    turns = [*list(tools)[:2], *list(tools)[2:] * TURNS]
    for at in range(count):
        for name in turns[:: -1 if at % 2 else 1]:
            turn = tools[name](referee)
            if referee is not None and len(turn.saw) != turn.told.total():
                print(
                    f"{name}: the kernel recorded {len(turn.saw)} exchanges of "
                    f"{turn.told.total()}; this run is not counted",
                    file=sys.stderr,
                )
                continue
            seen[name] += turn
    return seen


def agree(a: float, b: float, absolute_us: float) -> bool:
    """Whether two values differ by at most 5 % or by at most `absolute_us`."""
    return abs(a - b) <= max(RELATIVE * max(a, b), absolute_us)


def row(name: str, turn: Turn) -> str:
    """The row of the table for one tool."""
    cells = []
    for quantile in QUANTILES:
        saw = turn.seen(quantile)
        cells.append(f"{turn.quantile(quantile):.1f} | {'–' if saw is None else saw}")
    return f"| {name} | {' | '.join(cells)} | {turn.told.total():,} |"


def disagreements(name: str, turn: Turn) -> list[str]:
    """A line for each quantile at which a tool differs from the kernel."""
    said = []
    for quantile in QUANTILES:
        told, saw = turn.quantile(quantile), turn.seen(quantile)
        if saw is not None and not agree(told, saw, OWN_US):
            said.append(
                f"{name} is wrong at {quantile}: it reports {told:.1f} µs for exchanges that took "
                f"{saw} µs"
            )
    return said


def probability_by_chance(a: Turn, b: Turn, name: str) -> float:
    """The probability that two tools differ as much at this quantile if their runs are assigned at
    random.
    """
    share, rng = int(name[1:]) / 100, np.random.default_rng(1)
    turns = [np.array(turn) for turn in (*a.turns, *b.turns)]

    def apart(order: Sequence[int]) -> float:
        one, two = (
            [turns[at] for at in part] for part in (order[: len(a.turns)], order[len(a.turns) :])
        )
        return float(
            abs(np.quantile(np.concatenate(one), share) - np.quantile(np.concatenate(two), share))
        )

    seen = apart(range(len(turns)))
    return (
        sum(apart(rng.permutation(len(turns)).tolist()) >= seen for _ in range(SHUFFLES)) / SHUFFLES
    )


def comparison_lines(other: str, own: str, seen: dict[str, Turn]) -> list[str]:
    """Lines about the agreement of two tools, and the part of the exchange in which they differ."""
    a, b, said = seen[other], seen[own], []
    apart = [
        name for name in QUANTILES if not agree(a.quantile(name), b.quantile(name), ABSOLUTE_US)
    ]
    if not apart:
        return [f"{other} and {own} agree."]
    for name in apart:
        words = (
            f"{other} and {own} differ at {name}, {a.quantile(name):.1f} and "
            f"{b.quantile(name):.1f} µs"
        )
        parts = {
            what: ((a.seen(name, of) or 0), (b.seen(name, of) or 0)) for what, of in PARTS.items()
        }
        what, (of_a, of_b) = max(parts.items(), key=lambda item: abs(item[1][0] - item[1][1]))
        if a.saw and b.saw:
            words += (
                f"; most of it is {what}: {of_a} and {of_b} µs at {name}, recorded by the kernel"
            )
        words += (
            "; with the runs assigned to the two tools at random, they differ as much in "
            f"{100 * probability_by_chance(a, b, name):.0f} of 100 cases"
        )
        said.append(words + ".")
    return said


def main() -> int:
    """Runs the comparison and prints the tables; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=positive, default=8)
    asked = parser.parse_args()
    if missing := missing_requirements():
        print(missing, file=sys.stderr)
        return 2
    with two_hosts() as hosts, contextlib.ExitStack() as held:
        near, far = ([*words, *URGENT] for words in hosts)
        for command in (
            [str(HOST), "serve", "--tied", "--echo", str(OURS_PORT)],
            ["irtt", "server", "-i", "0"],
            ["sockperf", "server", "-i", FAR, "-p", str(SOCKPERF_PORT)],
        ):
            child = subprocess.Popen(
                [*far, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            held.callback(child.wait)
            held.callback(child.terminate)
        time.sleep(1)
        if no_referee := latency_referee.missing_requirements():
            print(f"the kernel records no exchanges: {no_referee}", file=sys.stderr)
        referee = None if no_referee else held.enter_context(Referee(NEAR_DEVICE, SIZE).ready())
        seen = rounds(near, asked.rounds, referee)
    head = " | ".join(f"{name} reported | {name} kernel" for name in QUANTILES)
    print(f"| µs, {asked.rounds} rounds | {head} | answers |")
    print(f"|---|{'---|' * 2 * len(QUANTILES)}---|")
    for name, turn in seen.items():
        print(row(name, turn))
    print()
    told = [said for name, turn in seen.items() for said in disagreements(name, turn)]
    print(
        "".join(f"{said}.\n" for said in told)
        or "Each tool reports the values that the kernel recorded for its exchanges.\n",
        end="",
    )
    for other, own in PAIRS:
        print("\n".join(comparison_lines(other, own, seen)))
    # Without the kernel as the reference it is unknown which tool is right.
    differ = any(
        "differ" in said for other, own in PAIRS for said in comparison_lines(other, own, seen)
    )
    return 1 if any(said.startswith("ours") for said in told) or (referee is None and differ) else 0


if __name__ == "__main__":
    sys.exit(main())
