"""The search for a short UDP response time, measured on this machine.

The module repeats three measurements of the source: through a slow adapter, without it, and with
several scheduling policies of the client on busy processors. The adapter is an emulated path whose
delay is the difference of the published means. All other responses cross the loopback interface.
"""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from narrows.errors import EngineError
from narrows.host.live import HOST
from narrows.json_object import JsonObject
from narrows.latency.model import LatencyJson, PoliciesJson, TimesJson
from narrows.reproduce.lab import Grid, Lab
from narrows.runs.scenario import Path, Ping, Scenario

_ADAPTER_MS = 4.52 - 0.08
"""Published mean response time with the adapter minus that without it, in ms."""

_SLOW_NS = 1_000_000
_NEEDS = {"default": ("client", "nice", "rr"), "nice": ("nice",), "rr": ("rr",)}
"""Scheduling policies, and the checks that need the result of each."""

_PATIENCE_S = 120
_CHECKS = (
    "slow-mean", "slow-where", "fast-mean", "fast-min", "fast-max", "gain", "client", "nice", "rr",
)  # fmt: skip


def search(lab: Lab) -> dict[str, float]:
    """Response times of the three measurements, and the shares that the search found."""
    if lab.engine.name != "live":
        why = "left out: it measures this machine: narrows reproduce response-time --engine live"
        lab.lacks |= dict.fromkeys(_CHECKS, why)
        return {}
    seconds = lab.seconds(10, 2)
    adapter = _through_adapter(seconds)
    lab.did()
    with server() as port:
        fast = _asked("127.0.0.1", "--port", port, "--pace", "pingpong", "--duration", seconds)
        lab.did()
        busy = policies(port, tuple(_NEEDS), 2 if lab.quick else 4, seconds)
        lab.did()
    return _figures(lab, adapter, fast, busy)


def policies(port: str, names: Sequence[str], rounds: int, seconds: str) -> PoliciesJson:
    """Response times of a server on this host by scheduling policy of the client, with
    CPU-bound processes.
    """
    words = ["--policy", ",".join(names), "--load", "cpu", "--rounds", str(rounds)]
    told = ["127.0.0.1", "--port", port, *words, "--duration", seconds]
    return _asked(*told)  # type: ignore[return-value]


def slow(times: TimesJson) -> int:
    """Number of responses that took over 1 ms."""
    return sum(count for ns, count in times["histogram_ns"] if ns > _SLOW_NS)


def _figures(
    lab: Lab, adapter: LatencyJson, fast: LatencyJson, busy: PoliciesJson
) -> dict[str, float]:
    first, then = _times(adapter), _times(fast)
    wire = adapter["parts_us"]["wire"]
    ours = {
        "slow-mean": first["mean"] / 1000,
        "fast-mean": then["mean"] / 1000,
        "fast-min": then["min"] / 1000,
        "fast-max": then["max"] / 1000,
        "gain": first["mean"] / then["mean"],
    }
    if wire is None:
        lab.failed["slow-where"] = "the clocks of both programs gave no part for the network"
    else:
        ours["slow-where"] = 100 * wire["mean"] / first["mean"]
    rows = [_row("adapter of 100 Mbit/s", first), _row("without it", then)]
    counts: dict[str, float] = {}
    for setup in busy["setups"]:
        name = setup["policy"]
        if setup["refused"]:
            reason = f"the kernel refused the policy {name}: {setup['refused']}"
            lab.failed |= dict.fromkeys(_NEEDS[name], reason)
            continue
        times = setup["latency"]["response_us"]
        assert times is not None
        counts[name] = slow(times)
        rows.append(_row(f"busy processors, {name}", times))
        if name == "default":
            blamed = setup["latency"]["slow"]["blamed"]
            client = sum(count for part, count in blamed.items() if part.startswith("client"))
            if blamed:
                ours["client"] = 100 * client / sum(blamed.values())
            else:
                lab.failed["client"] = "no response was slow"
    heads = ("step", "mean, ms", "smallest, ms", "largest, ms", "over 1 ms", "responses")
    lab.tables.append(Grid("Response times", heads, tuple(rows)))
    for id_, over, under in (("nice", "nice", "default"), ("rr", "default", "rr")):
        if over in counts and under in counts:
            ours[id_] = counts[over] / max(counts[under], 1)
    return ours


def _times(result: LatencyJson) -> TimesJson:
    times = result["rtt_us"]
    if times is None:
        raise EngineError("response-time: no response arrived")
    return times


def _row(name: str, times: TimesJson) -> tuple[str, ...]:
    figures = (times["mean"], times["min"], times["max"])
    return (name, *(f"{one / 1000:.3g}" for one in figures), str(slow(times)), str(times["n"]))


def _through_adapter(seconds: str) -> LatencyJson:
    """Response times over an emulated path with the delay of the adapter."""
    port = str(_free_port())
    scenario = Scenario(
        Path(rate="100Mbit", rtt=f"{_ADAPTER_MS:g}ms"), probes=[Ping()], duration="10s"
    )
    far = shlex.join([str(HOST), "serve", "--tied", "--port", port])
    words = ["shell", "--toml", scenario.toml(), "--name", "response-time", "--at", "near"]
    words += ["--quiet", "--far", far, "--", str(HOST), "latency", "far", "--port", port]
    words += ["--pace", "pingpong", "--duration", seconds]
    return _told(words)  # type: ignore[return-value]


def _asked(*words: str) -> LatencyJson:
    return _told(["latency", *words])  # type: ignore[return-value]


def _told(words: Sequence[str]) -> JsonObject:
    """The JSON object that `narrows-host` prints when called with these arguments.

    Raises:
        EngineError: If the program fails.
    """
    done = subprocess.run(
        [str(HOST), *words], capture_output=True, text=True, check=False, timeout=_PATIENCE_S
    )
    if done.returncode != 0:
        raise EngineError(f"response-time: {done.stderr.strip()}")
    found: JsonObject = json.loads(done.stdout)
    return found


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def server(*words: str) -> Iterator[str]:
    """Runs a server with these arguments on the loopback interface and yields its port."""
    port = str(_free_port())
    command = [str(HOST), "serve", "--tied", "--bind", "127.0.0.1", "--port", port, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            if not program.stdout.readline():
                raise EngineError("response-time: narrows-host serve did not start")
            yield port
        finally:
            program.kill()
