"""Holds `narrows latency` against irtt and sockperf: the same hosts, the same seconds, quantile by quantile.

    python -m validation.latency_tools             a minute, root, irtt and sockperf installed
    python -m validation.latency_tools --rounds 3  fewer

Two hosts (network namespaces) with a veth pair between them. In each round the tools take turns, a second each, so that
a busy machine is busy for all of them alike; what is compared are the quantiles of all rounds together. They agree when
they differ by at most 5 % or 20 µs.

- sockperf in ping-pong, beside ours in ping-pong; each with a server of its own, since neither understands the
  other's. It prints half of the round trip unless asked otherwise.
- irtt each millisecond, beside ours that asks the same irtt server each millisecond. irtt takes its stamp after its
  call that sends has returned, so that what that call takes is missing from its round trips, and its answers come by
  way of Go's poller, which adds to them: what remains of the two can lie on either side.
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
from collections.abc import Iterator
from pathlib import Path

from narrows.live import HOST
from validation.stored import Json

NEAR, FAR = "198.51.100.1", "198.51.100.2"
QUANTILES = ("p50", "p90", "p99")
RELATIVE, ABSOLUTE_US = 0.05, 20.0
IRTT_PORT, OURS_PORT, SOCKPERF_PORT = 2112, 7007, 11111


def lacking() -> str:
    """What would be needed, or nothing."""
    if os.geteuid() != 0:
        return "two network namespaces need root"
    return ", ".join(f"{name} is not installed" for name in ("irtt", "sockperf") if shutil.which(name) is None)


@contextlib.contextmanager
def two() -> Iterator[tuple[list[str], list[str]]]:
    """Words that bring a command to the near and to the far host."""
    with contextlib.ExitStack() as held:
        into = []
        own = Path("/proc/self/ns/net").readlink()
        for _ in range(2):
            child = subprocess.Popen(["unshare", "-n", "sleep", "600"])
            held.callback(child.wait)
            held.callback(child.kill)
            while Path(f"/proc/{child.pid}/ns/net").readlink() == own:
                time.sleep(0.01)
            into.append(["nsenter", "-t", str(child.pid), "-n"])
        pair = ["ip", "link", "add", "e0", "type", "veth", "peer", "name", "e0", "netns", into[1][2]]
        subprocess.run([*into[0], *pair], check=True)
        for words, address in zip(into, (NEAR, FAR), strict=True):
            subprocess.run([*words, "ip", "addr", "add", f"{address}/24", "dev", "e0"], check=True)
            for device in ("lo", "e0"):
                subprocess.run([*words, "ip", "link", "set", device, "up"], check=True)
        yield into[0], into[1]


def ours(near: list[str], *words: str) -> Counter[float]:
    """One second of ours: round trips in µs, and how many took that long."""
    done = subprocess.run([*near, str(HOST), "latency", FAR, *words], check=True, capture_output=True, text=True)
    return Counter({ns / 1000: count for ns, count in json.loads(done.stdout)["rtt_us"]["histogram_ns"]})


def sockperf(near: list[str]) -> Counter[float]:
    """One second of sockperf's ping-pong, of its log of messages: number, sent, back (s), half of that."""
    with tempfile.NamedTemporaryFile("r", suffix=".csv") as log:
        command = ["sockperf", "ping-pong", "-i", FAR, "-p", str(SOCKPERF_PORT), "-t", "1", "-m", "64"]
        subprocess.run([*near, *command, "--full-log", log.name], check=True, capture_output=True, text=True)
        rows = [line.split(",") for line in log if line[:1].isdigit()]
    return Counter(1e6 * (float(back) - float(sent)) for _, sent, back, *_ in rows if float(back) > 0)


def irtt(near: list[str]) -> Counter[float]:
    """One second of irtt."""
    words = ["irtt", "client", "-i", "1ms", "-d", "1s", "-l", "64", "-o", "-", "-Q", f"{FAR}:{IRTT_PORT}"]
    done = subprocess.run([*near, *words], check=True, capture_output=True, text=True)
    trips = json.loads(done.stdout)["round_trips"]
    return Counter(trip["delay"]["rtt"] / 1000 for trip in trips if trip["lost"] == "false")


def quantiles(seen: Counter[float]) -> Json:
    """Of all rounds together."""
    total = seen.total()
    found, before = {}, 0
    for us, count in sorted(seen.items()):
        before += count
        for name in QUANTILES:
            if name not in found and before >= total * int(name[1:]) / 100:
                found[name] = us
    return found


def rounds(near: list[str], count: int) -> dict[str, Counter[float]]:
    """Everybody's turn, so often."""
    names = ("sockperf", "ours, ping-pong", "irtt", "ours")
    seen: dict[str, Counter[float]] = {name: Counter() for name in names}
    second = ("--duration", "1s")
    pingpong = ("--speaks", "echo", "--port", str(OURS_PORT), "--pace", "pingpong", "--no-stamps")
    paced = ("--speaks", "irtt", "--port", str(IRTT_PORT), "--interval", "1ms", "--lead", "0s", "--size", "64B")
    for _ in range(count):
        seen["sockperf"] += sockperf(near)
        seen["ours, ping-pong"] += ours(near, *pingpong, *second)
        seen["irtt"] += irtt(near)
        seen["ours"] += ours(near, *paced, *second)
    return seen


def agree(a: float, b: float) -> bool:
    """Within 5 % or 20 µs."""
    return abs(a - b) <= max(RELATIVE * max(a, b), ABSOLUTE_US)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    if missing := lacking():
        print(missing, file=sys.stderr)
        return 2
    with two() as (near, far), contextlib.ExitStack() as servers:
        for command in (
            [str(HOST), "serve", "--tied", "--echo", str(OURS_PORT)],
            ["irtt", "server", "-i", "0"],
            ["sockperf", "server", "-i", FAR, "-p", str(SOCKPERF_PORT)],
        ):
            child = subprocess.Popen([*far, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            servers.callback(child.wait)
            servers.callback(child.terminate)
        time.sleep(1)
        seen = rounds(near, asked.rounds)
    told = {who: quantiles(all_rounds) for who, all_rounds in seen.items()}
    print(f"| µs, {asked.rounds} rounds of a second | {' | '.join(QUANTILES)} | answers |")
    print(f"|---|{'---|' * len(QUANTILES)}---|")
    for who, each in told.items():
        print(f"| {who} | {' | '.join(f'{each[name]:.1f}' for name in QUANTILES)} | {seen[who].total():,} |")
    right = True
    for other, own in (("sockperf", "ours, ping-pong"), ("irtt", "ours")):
        apart = [name for name in QUANTILES if not agree(told[other][name], told[own][name])]
        right &= not apart
        print(f"\n{other}: {'differs in ' + ', '.join(apart) if apart else 'agrees'}.")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
