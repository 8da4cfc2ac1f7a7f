"""Tests why SCHED_RR reduces the slow responses of `narrows reproduce response-time` less than the
source reports, by a change of the server only.

    python -m validation.response_time             writes evidence/response-time.md, four minutes
    python -m validation.response_time --rounds 2  fewer measurements

In the source, the server is a board that runs no other program. In the experiment, both programs
share the busy processors of one host. The server runs once in the default class, as in the
experiment, and once in the class SCHED_RR, in which the load cannot delay it. `narrows latency`
attributes each response of over 1 ms to the client, to the network or to the server.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import fill

from narrows.reproduce import response
from validation.asked import positive
from validation.stored import HERE

PAGE = HERE / "evidence/response-time.md"
ROUNDS = 4
SERVERS = {"default": "default", "rr": "SCHED_RR"}
"""Policies of the server, with the names of their scheduling classes on the page."""
CLIENTS = {"default": "default", "nice": "nice −20", "rr": "SCHED_RR 99"}
"""Policies of the client, with their names on the page."""


@dataclass(frozen=True)
class Measured:
    """The responses of one policy of the client in one measurement.

    Attributes:
        responses: Number of responses.
        slow: Number of slow responses.
        places: Number of slow responses by the place to which they are attributed.
    """

    responses: int
    slow: int
    places: Counter[str]


def measure(server: str, seconds: int) -> dict[str, Measured]:
    """One measurement with busy processors: the responses by policy of the client."""
    with response.server("--policy", server) as port:
        setups = response.policies(port, tuple(CLIENTS), rounds=4, seconds=f"{seconds}s")["setups"]
    found = {}
    for one in setups:
        if one["refused"]:
            sys.exit(f"{one['policy']}: {one['refused']}")
        places: Counter[str] = Counter()
        for part, count in one["latency"]["slow"]["blamed"].items():
            places[part.partition("_")[0]] += count
        times = one["latency"]["response_us"]
        assert times is not None
        found[one["policy"]] = Measured(times["n"], response.slow(times), places)
    return found


def ratios(runs: Sequence[dict[str, Measured]], over: str, under: str) -> list[float]:
    """The ratio of the slow responses of two policies of the client, by measurement."""
    return [run[over].slow / max(run[under].slow, 1) for run in runs]


def _span(values: Sequence[float], form: str) -> str:
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    return low if low == high else f"{low} to {high}"


def _share(runs: Sequence[dict[str, Measured]], client: str, place: str) -> str:
    slow = sum(run[client].slow for run in runs)
    return f"{100 * sum(run[client].places[place] for run in runs) / slow:.0f} %" if slow else "–"


def _rows(found: dict[str, list[dict[str, Measured]]]) -> Iterator[str]:
    for server, runs in found.items():
        for client, name in CLIENTS.items():
            cells = [
                SERVERS[server], name,
                _span([run[client].responses for run in runs], "d"),
                _span([run[client].slow for run in runs], "d"),
                _share(runs, client, "client"), _share(runs, client, "server"),
            ]  # fmt: skip
            yield f"| {' | '.join(cells)} |"


def page(found: dict[str, list[dict[str, Measured]]], load: tuple[float, float]) -> str:
    """The text of the page."""
    rounds = len(next(iter(found.values())))
    lines = [
        "# Slow responses, by scheduling class of client and server",
        "",
        "Written by",
        "",
        "```console",
        "$ python -m validation.response_time",
        "```",
        "",
        *fill(
            "`narrows reproduce response-time --engine live` runs client and server on one host "
            "with busy processors. In the source, the server is a board that runs no other "
            "program. Here, the server runs in the default class, as in the experiment, and in "
            "the class SCHED_RR, in which the load cannot delay it. All else is equal. A response "
            f"is slow if it takes over 1 ms. There are {rounds} measurements with each class of "
            "the server, in alternating order. The last two columns contain the share of the slow "
            "responses that narrows attributes to the host of the client or of the server.",
            98,
        ).splitlines(),
        "",
        f"The machine has {os.cpu_count()} processors and Linux {os.uname().release}; its load "
        f"average was {load[0]:.1f} before and {load[1]:.1f} after.",
        "",
        "| server | client | responses | slow responses | client | server |",
        "|---|---|---|---|---|---|",
        *_rows(found),
        "",
        "| server | default / SCHED_RR 99 | nice −20 / default |",
        "|---|---|---|",
    ]
    for server, runs in found.items():
        rr, nice = ratios(runs, "default", "rr"), ratios(runs, "nice", "default")
        lines.append(f"| {SERVERS[server]} | {_span(rr, '.1f')} | {_span(nice, '.2f')} |")
    return "\n".join(lines) + "\n"


@contextmanager
def _load() -> Iterator[list[float]]:
    """The load average of the machine before and after."""
    found = [os.getloadavg()[0]]
    yield found
    found.append(os.getloadavg()[0])


def main() -> int:
    """Measures and writes the page."""
    parser = argparse.ArgumentParser(prog="python -m validation.response_time")
    parser.add_argument("--rounds", type=positive, default=ROUNDS)
    parser.add_argument("--seconds", type=positive, default=10)
    asked = parser.parse_args()
    found: dict[str, list[dict[str, Measured]]] = {server: [] for server in SERVERS}
    with _load() as load:
        for number in range(asked.rounds):
            for server, runs in found.items():
                print(f"round {number + 1} of {asked.rounds}, server {server}", file=sys.stderr)
                runs.append(measure(server, asked.seconds))
    PAGE.write_text(page(found, (load[0], load[1])), encoding="utf-8")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.TimeoutExpired as error:
        sys.exit(str(error))
