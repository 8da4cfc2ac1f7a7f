"""Holds `narrows latency` against irtt and sockperf: the same hosts, the same seconds, quantile by quantile.

    python -m validation.latency_tools             two minutes, root, irtt and sockperf installed
    python -m validation.latency_tools --rounds 3  fewer

Two hosts (network namespaces) with a veth pair between them. In each round the tools take turns, a second each, so that
a busy machine is busy for all of them alike; what is compared is the median over the rounds of each quantile. They
agree when they differ by at most 5 % or 20 µs.

- sockperf in ping-pong, beside ours in ping-pong; each with a server of its own, since neither understands the
  other's. It prints half of the round trip unless asked otherwise.
- irtt each 5 ms, beside ours that asks the same irtt server each 5 ms. irtt takes its stamp after its call that sends
  has returned, so that what that call takes is missing from its round trips; it tells the call's length, which is added
  back in a row of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
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


def ours(near: list[str], *words: str) -> Json:
    """One second of ours: quantiles in µs."""
    done = subprocess.run([*near, str(HOST), "latency", FAR, *words], check=True, capture_output=True, text=True)
    return quantiles(json.loads(done.stdout)["rtt_us"]["histogram_ns"])


def quantiles(places: list[list[int]]) -> Json:
    """Of a histogram's places; a second cannot carry all of them, but the rounds together can."""
    total = sum(count for _, count in places)
    found, seen = {}, 0
    for ns, count in places:
        seen += count
        for name in QUANTILES:
            if name not in found and seen >= total * int(name[1:]) / 100:
                found[name] = ns / 1000
    return found


def sockperf(near: list[str]) -> Json:
    """One second of sockperf's ping-pong."""
    command = ["sockperf", "ping-pong", "-i", FAR, "-p", str(SOCKPERF_PORT), "-t", "1", "-m", "64", "--full-rtt"]
    done = subprocess.run([*near, *command], check=True, capture_output=True, text=True)
    found = re.findall(r"percentile (\d+)\.000 = +([\d.]+)", done.stdout)
    return {f"p{int(name)}": float(us) for name, us in found if f"p{int(name)}" in QUANTILES}


def irtt(near: list[str]) -> tuple[Json, float]:
    """One second of irtt, and how long its call that sends takes on average."""
    words = ["irtt", "client", "-i", "5ms", "-d", "1s", "-l", "64", "-o", "-", "-Q", f"{FAR}:{IRTT_PORT}"]
    done = subprocess.run([*near, *words], check=True, capture_output=True, text=True)
    told = json.loads(done.stdout)
    rtts = sorted(trip["delay"]["rtt"] for trip in told["round_trips"] if trip["lost"] == "false")
    found = {name: rtts[min(len(rtts) - 1, len(rtts) * int(name[1:]) // 100)] / 1000 for name in QUANTILES}
    return found, told["stats"]["send_call"]["mean"] / 1000


def rounds(near: list[str], count: int) -> dict[str, list[Json]]:
    """Everybody's turn, so often."""
    seen: dict[str, list[Json]] = {
        "sockperf": [],
        "ours, ping-pong": [],
        "irtt": [],
        "irtt and its call": [],
        "ours": [],
    }
    second = ("--duration", "1s")
    for _ in range(count):
        seen["sockperf"].append(sockperf(near))
        pingpong = ("--speaks", "echo", "--port", str(OURS_PORT), "--pace", "pingpong", "--no-stamps")
        seen["ours, ping-pong"].append(ours(near, *pingpong, *second))
        told, call = irtt(near)
        seen["irtt"].append(told)
        seen["irtt and its call"].append({name: us + call for name, us in told.items()})
        paced = ("--speaks", "irtt", "--port", str(IRTT_PORT), "--interval", "5ms", "--lead", "0s", "--size", "64B")
        seen["ours"].append(ours(near, *paced, *second))
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
    middle = {
        who: {name: statistics.median(told[name] for told in each) for name in QUANTILES} for who, each in seen.items()
    }
    print(f"| µs, medians of {asked.rounds} rounds | {' | '.join(QUANTILES)} |")
    print(f"|---|{'---|' * len(QUANTILES)}")
    for who, told in middle.items():
        print(f"| {who} | {' | '.join(f'{told[name]:.1f}' for name in QUANTILES)} |")
    right = True
    for other, own in (("sockperf", "ours, ping-pong"), ("irtt and its call", "ours")):
        apart = [name for name in QUANTILES if not agree(middle[other][name], middle[own][name])]
        right &= not apart
        print(f"\n{other}: {'differs in ' + ', '.join(apart) if apart else 'agrees'}.")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
