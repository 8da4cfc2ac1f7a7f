"""Scheduling policies in alternating rounds: sentences, picture and page, missing permissions, and
the effect of a real-time class.

Times are checked for slow responses under a load that causes hundreds of them. If the hypervisor
takes processor time away, the test is skipped with this reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli
from test_latency import answering
from wires import FAR, Wire, wire

from narrows.host.live import HOST
from narrows.latency import policies, render

FEWER = 10


def lab(port: int, *words: str) -> dict[str, Any]:
    command = [
        HOST,
        "latency",
        "127.0.0.1",
        "--port",
        str(port),
        "--rounds",
        "2",
        "--duration",
        "400ms",
        *words,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def hogs() -> list[int]:
    """Processes of load that are there now."""
    found = []
    for of in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = of.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"narrows-host") and words[1:2] == [b"hog"]:
            found.append(int(of.parent.name))
    return found


def test_policies_alternate_and_have_separate_results(cli: Cli, tmp_path: Path) -> None:
    with answering() as ports:
        out, plot, page = (tmp_path / name for name in ("lab.json", "lab.svg", "lab.html"))
        done = cli(
            "latency", "127.0.0.1", "--port", str(ports["serving"]), "--policy",
            "default,spin,awake",
            "--load", "none,cpu", "--rounds", "2", "--duration", "400ms",
            "--out", str(out), "--plot", str(plot), "--report", str(page),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    told = json.loads(out.read_text(encoding="utf-8"))
    tried = [(one["policy"], one["load"]) for one in told["setups"]]
    assert tried == [
        (policy, load) for load in ("none", "cpu") for policy in ("default", "spin", "awake")
    ]
    for one in told["setups"]:
        assert one["refused"] is None
        # Two slices of 200 questions each; the first of each are not counted, and a busy machine
        # skips some.
        assert 100 < one["latency"]["sent"] <= 400
        assert one["latency"]["policy"] == one["policy"]
        assert one["cpu_s"] > 0
        assert (one["load_cpu_s"] is None) == (one["load"] == "none")
        assert one["called_off"] is False
        assert (one["awake_by"] is not None) == (one["policy"] == "awake")
        assert f"{policies.name(one)}:" in done.stdout
    assert told["setups"][1]["cpu_s"] > 3 * told["setups"][0]["cpu_s"]
    assert plot.read_text(encoding="utf-8").startswith("<?xml")
    assert "CPU load" in page.read_text(encoding="utf-8")
    assert "Cost:" in done.stdout
    assert told["surroundings"]["device"]["name"] == "lo"


def test_no_load_process_remains() -> None:
    with answering() as ports:
        before = set(hogs())
        lab(ports["serving"], "--load", "cpu")
        assert set(hogs()) <= before
        # Nor when it is ended in the middle, however that is.
        command = [HOST, "latency", "127.0.0.1", "--port", str(ports["serving"]), "--load", "cpu"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
            end = time.monotonic() + 20
            while not set(hogs()) - before and time.monotonic() < end:
                time.sleep(0.02)
            assert set(hogs()) - before
            child.kill()
        end = time.monotonic() + 20
        while set(hogs()) - before and time.monotonic() < end:
            time.sleep(0.02)
        assert set(hogs()) <= before


def test_a_policy_without_permission_is_reported_and_others_are_measured() -> None:
    with answering() as ports:
        told = lab(ports["serving"], "--policy", "default,pin=1000")
        assert "pin=1000" in told["setups"][1]["refused"]
        assert "latency" not in told["setups"][1]
        assert any("Policy pin=1000" in sentence for sentence in policies.sentences(told))
        assert [name for name, _ in policies.several(told)] == ["default, no load"]
        for words in (
            ["--policy", "pin=1000"],
            ["--policy", "fifo+spin"],
            ["--policy", "pin=1000,pin=1001"],
        ):
            command = [HOST, "latency", "127.0.0.1", "--port", str(ports["serving"]), *words]
            refused = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=20
            )
            assert refused.returncode == 2, words
            assert refused.stderr.count("\n") == 1
        if os.geteuid() == 0:
            words = [
                "setpriv",
                "--reuid=65534",
                "--clear-groups",
                "--inh-caps=-all",
                "--bounding-set=-all",
            ]
            told_ = subprocess.run(
                [*words, HOST, "latency", "127.0.0.1", "--port", str(ports["serving"]), "--policy",
                "rr"],
                capture_output=True, text=True, check=False, timeout=20,
            )  # fmt: skip
            assert "ulimit -r" in told_.stderr or told_.returncode == 127, told_.stderr


def stolen() -> tuple[int, int]:
    """Ticks that this machine's host took, and all of them."""
    numbers = [
        int(n)
        for n in Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:9]
    ]
    return numbers[7], sum(numbers)


def served(between: Wire, *words: str) -> subprocess.Popen[str]:
    command = [*between.far, str(HOST), "serve", "--tied", *words]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert server.stdout.readline()
    return server


def test_a_real_time_class_reduces_slow_responses_under_load() -> None:
    with wire() as between, served(between, "--policy", "rr") as server:
        try:
            before = stolen()
            command = [
                *between.near, str(HOST), "latency", FAR, "--policy", "default,rr", "--load", "cpu",
                "--rounds", "4", "--duration", "3s",
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
            assert done.returncode == 0, done.stderr
            after = stolen()
        finally:
            server.kill()
    told = json.loads(done.stdout)
    default, urgent = told["setups"]
    if urgent["refused"]:
        pytest.skip(urgent["refused"])
    share = (after[0] - before[0]) / max(1, after[1] - before[1])
    if share > 0.01:
        pytest.skip(f"this machine's own host took {100 * share:.0f} % of its time")
    slow = [one["latency"]["slow"]["count"] for one in (default, urgent)]
    if slow[0] < 5 * FEWER:
        pytest.skip(f"the load made only {slow[0]} answers slow: too few to compare")
    assert slow[1] * FEWER <= slow[0]
    sentence = policies.sentences(told)[1]
    assert "fewer slow responses" in sentence or "no slow responses" in sentence


def test_findings_are_printed_with_their_remedy() -> None:
    told = {
        "findings": [
            {"what": "a", "says": "It is slow.", "cure": "a faster one"},
            {"what": "b", "says": "So.", "cure": None},
        ]
    }
    assert render.findings(told) == ["It is slow. Remedy: a faster one.", "So."]
    assert render.findings({}) == []
