"""Lines about each interval, while `narrows measure` and `narrows latency` run."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import NARROWS, Cli
from test_latency import answering

from narrows.host.live import HOST
from narrows.measure.intervals import HEAD, Interval


def test_a_line_has_the_columns_of_the_header() -> None:
    words = ["1.000", "3.000", "loaded", "down", "cubic", "2500000", "41.5", "7"]
    interval = Interval.of(words).later(10.0)
    assert (interval.from_s, interval.to_s, interval.goodput_mbit) == (11.0, 13.0, 10.0)
    line = interval.line()
    assert len(line) == len(HEAD)
    shown = line.split()
    assert shown[:4] == ["11.00–", "13.00", "download,", "cubic"]
    assert shown[4:] == ["2.50", "10.00", "41.5", "7"]


def test_an_interval_without_a_load_has_only_the_rtt() -> None:
    line = Interval.of(["0.000", "1.000", "idle", "-", "-", "-", "20.25", "-"]).line()
    assert line.split() == ["0.00–", "1.00", "idle", "–", "–", "20.2", "–"]


def lines(*words: str) -> tuple[list[list[str]], dict[str, Any]]:
    """The words of the interval lines of `narrows-host`, and its result."""
    done = subprocess.run([HOST, *words, "--stream"], capture_output=True, check=True, timeout=60)
    found, rest = [], done.stdout
    while rest:
        line, _, rest = rest.partition(b"\n")
        first = line.split()[0].decode()
        if first == "interval":
            found.append(line.decode().split()[1:])
        if first == words[0] or (first, words[0]) == ("measurement", "measure"):
            return found, json.loads(rest)
    raise AssertionError("no result")


def test_intervals_of_a_measurement_add_up_to_its_flows() -> None:
    with answering() as ports:
        found, made = lines(
            "measure", "127.0.0.1", "--port", str(ports["serving"]), "--test", "bidir",
            "--duration", "2s", "--idle", "1s", "--pacing", "20Mbit", "--interval-lines", "500ms",
        )  # fmt: skip
    every = [Interval.of(words) for words in found]
    idle = [one for one in every if one.phase == "idle"]
    assert len(idle) == 2
    assert all(one.direction is None and one.rtt_ms is not None for one in idle)
    for way in ("down", "up"):
        own = [one for one in every if one.direction == way]
        assert [round(one.to_s - one.from_s, 1) for one in own] == [0.5] * 4
        assert all((one.retransmits is None) == (way == "down") for one in own)
        moved = sum(one.moved_bytes or 0 for one in own)
        (flow,) = [flow for flow in made["flows"] if flow["direction"] == way]
        assert moved == pytest.approx(flow["bytes"], rel=0.15)
    ends = [one.to_s for one in every if one.direction != "up"]
    assert ends == sorted(ends)


def test_intervals_of_response_times_add_up() -> None:
    with answering() as ports:
        found, made = lines(
            "latency", "127.0.0.1", "--port", str(ports["serving"]), "--duration", "1s",
            "--interval-lines", "300ms",
        )  # fmt: skip
    assert len(found) >= 3
    assert sum(int(words[2]) for words in found) == made["sent"]
    assert sum(int(words[3]) for words in found) == made["answered"]
    assert [words[0] for words in found[1:]] == [words[1] for words in found[:-1]]


@pytest.mark.parametrize("command", ["measure", "latency"])
def test_lines_never_mix_with_json(command: str, tmp_path: Path) -> None:
    ping = ["--test", "ping", "--idle", "0s", "--no-history"] if command == "measure" else []
    with answering() as ports:
        asked = [NARROWS, command, "127.0.0.1", "--port", str(ports["serving"]), *ping, "--json",
                 "--duration", "1s"]  # fmt: skip
        plain = subprocess.run(asked, capture_output=True, text=True, check=True)
        told = subprocess.run(
            [*asked, "--interval-lines", "500ms"], capture_output=True, text=True, check=True
        )
    assert json.loads(plain.stdout).keys() == json.loads(told.stdout).keys()
    assert "RTT" not in plain.stderr
    assert "time s" in told.stderr.splitlines()[0]
    assert len(told.stderr.splitlines()) >= 2


def test_a_terminal_has_lines_unless_they_are_switched_off() -> None:
    with answering() as ports:
        asked = [NARROWS, "latency", "127.0.0.1", "--port", str(ports["serving"]), "--duration",
                 "1200ms"]  # fmt: skip
        for words, expected in (
            ([], True),
            (["--interval-lines", "0s"], False),
            (["--quiet"], False),
        ):
            ours, theirs = pty.openpty()
            with subprocess.Popen(
                [*asked, *words], stdout=subprocess.DEVNULL, stderr=theirs
            ) as child:
                os.close(theirs)
                out = b""
                try:
                    while part := os.read(ours, 65536):
                        out += part
                except OSError:  # how Linux says that the other end is closed
                    pass
            os.close(ours)
            assert child.returncode == 0
            assert (b"mean RTT ms" in out) == expected


def test_a_scenario_has_no_lines_and_a_wrong_interval_is_named(cli: Cli, tiny: Path) -> None:
    done = cli("measure", tiny, "--interval-lines", "1s")
    assert done.returncode == 2
    assert "--interval-lines: not supported for a scenario file" in done.stderr
    done = cli("latency", "127.0.0.1", "--interval-lines", "1ms")
    assert done.returncode == 2
    assert "--interval-lines 1ms: too short; write 100ms or more" in done.stderr
