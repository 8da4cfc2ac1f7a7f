"""Every Python parser with valid texts that were damaged at random: each text is read, or refused
with a `NarrowsError`.
"""

from __future__ import annotations

import functools
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_compare_latency import result
from test_files import IPERF2, IPERF3_J
from test_sweep_file import FILE, SCENARIO

import narrows as nw
from narrows import files, forecasts
from narrows.advise import measured as place_of
from narrows.compare import measurements
from narrows.compare import render as comparison
from narrows.errors import NarrowsError
from narrows.latency import render as latency_render
from narrows.latency import result as latency
from narrows.measure import render
from narrows.measure.result import Measurement
from narrows.measure.simulated import Plan, measure
from narrows.measure.summary import answer
from narrows.storage.durable import Chain
from narrows.sweeps import file as sweep
from narrows.tune import apply, collect
from narrows.tune.diff import lines

HOSTS = Path(__file__).parent / "data/hosts"

ODD = (
    "", "\x00", "\n", "-", "-1", "0", "1e999", "9" * 400, "nan", "null", "true", "[", "{}", '"',
    "\ud7ff", "é", "NaN", "Infinity", "1e-400", ",", ":", " ", "[" * 3000, "0.0",
    "18446744073709551615",
)  # fmt: skip
"""Pieces of text that replace others."""


@st.composite
def damaged(draw: st.DrawFn, text: str) -> str:
    """The text after one to four changes: a piece is removed, repeated, moved or replaced."""
    for _ in range(draw(st.integers(1, 4))):
        tokens = [match.span() for match in re.finditer(r"[\w.+-]+|[^\w\s]", text)]
        if not tokens:
            return text
        begin, end = draw(st.sampled_from(tokens))
        kind = draw(st.integers(0, 3))
        if kind == 0:
            text = text[:begin] + draw(st.sampled_from(ODD)) + text[end:]
        elif kind == 1:
            text = text[:begin] + text[max(end, draw(st.integers(begin, len(text)))) :]
        elif kind == 2:
            _, last = draw(st.sampled_from(tokens))
            text = text[:end] + text[min(begin, last) : max(begin, last)][:400] + text[end:]
        else:
            other, last = draw(st.sampled_from(tokens))
            text = text[:begin] + text[other:last] + text[end:]
    return text


def shown(measured: Measurement) -> None:
    """The use of a measurement by commands."""
    render.sentences(measured)
    comparison.sentences(measurements.differences(measured, measured), "a", "b")
    answer(measured).json()


def of_measurement(text: str) -> None:
    shown(files.of_text(text.encode(), "file"))


_FOLDERS: list[Path] = []


@pytest.fixture(scope="module", autouse=True)
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The folder of the tests of this file, which pytest removes later."""
    _FOLDERS.append(tmp_path_factory.mktemp("parsers"))
    yield
    _FOLDERS.pop()


def folder() -> Path:
    return _FOLDERS[-1]


def written(text: str, name: str) -> Path:
    file = folder() / name
    file.write_text(text, encoding="utf-8", newline="")
    return file


def of_latency(text: str) -> None:
    told = latency.read(written(text, "a.json"))
    latency_render.sentences(told)
    latency_render.figures(told)
    latency_render.episodes(told)


def of_forecasts(text: str) -> None:
    """Lines with correct hashes and arbitrary content."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NARROWS_HISTORY", str(folder() / "history.duckdb"))
        file = forecasts.file()
        file.unlink(missing_ok=True)
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            file.write_text(text + "\n", encoding="utf-8")
        else:
            if not isinstance(line, dict):
                return
            Chain(file).append(line)
        forecasts.rate(forecasts.read())


def of_path_model(text: str) -> None:
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(tree, dict):
        place_of(tree, role="sender", source="file")


def of_sweep(text: str) -> None:
    written(SCENARIO.toml(), "base.toml")
    sweep.load(written(text, "sweep.toml"))


def of_plan(text: str) -> None:
    lines(apply.read(str(written(text, "plan.json"))))


def of_facts(text: str) -> None:
    collect.facts(file=str(written(text, "facts.txt")))


KINDS = (
    "iperf2", "iperf3", "iperf3 stream", "flent", "latency", "forecasts", "path model", "sweep",
    "plan", "facts", "facts of a router",
)  # fmt: skip


@functools.cache
def valid() -> dict[str, tuple[str, Callable[[str], None]]]:
    """A valid text of each kind, and its reader."""
    path = nw.Path(rate="2Mbit", rtt="20ms", buffer="1bdp", reverse=nw.Hop(rate="2Mbit"))
    measured = measure(
        path, Plan(load_s=2.0, idle_s=1.0, directions=("up",), streams=1, ping_ms=200)
    )
    # This runs before the first test, which has a folder of pytest.
    with tempfile.TemporaryDirectory() as place:
        files.write(measured, Path(place) / "a.flent")
        flent = (Path(place) / "a.flent").read_text(encoding="utf-8")
    stream = [
        {"event": "start", "data": IPERF3_J["start"]},
        *({"event": "interval", "data": one} for one in IPERF3_J["intervals"]),
        {"event": "end", "data": IPERF3_J["end"]},
    ]
    forecast = {
        "kind": "forecast", "at": "2026-01-01T00:00:00+00:00", "host": "far", "measurement": "m",
        "way": "down", "as": "sender", "for": ["bulk"], "now": "cubic", "leave": False,
        "choice": {"key": "bbr", "cc": "bbr", "queue": None, "shaper_share": None}, "runs": 1,
        "figures": [{"name": "rate_mbit", "before": 1.0, "low": 1.0, "high": 2.0}],
    }  # fmt: skip
    model: dict[str, Any] = {
        "path": {"rate": "10Mbit", "rtt": "40ms", "buffer": "50kB"},
        "up": {
            "loss": {"value": 0.001, "low": 0.0, "high": 0.01, "why": "x"},
            "buffer_bytes": {"value": 50_000, "low": 45_000, "high": 55_000},
            "rate_mbit": {"value": 10.0, "low": 9.0, "high": 11.0},
        },
    }
    change = {
        "id": "sysctl:x", "kind": "sysctl", "phase": "live", "from": "cubic", "to": "bbr",
        "target": "net.ipv4.tcp_congestion_control", "why": "",
    }  # fmt: skip
    answers = json.dumps(result("far", 1, 80, n=50))
    return {
        "iperf2": (IPERF2, of_measurement),
        "iperf3": (json.dumps(IPERF3_J), of_measurement),
        "iperf3 stream": ("\n".join(map(json.dumps, stream)), of_measurement),
        "flent": (flent, of_measurement),
        "latency": (answers, of_latency),
        "forecasts": (json.dumps(forecast), of_forecasts),
        "path model": (json.dumps(model), of_path_model),
        "sweep": (FILE, of_sweep),
        "plan": (json.dumps({"plan": 1, "title": "t", "changes": [change]}), of_plan),
        "facts": ((HOSTS / "debian-12.txt").read_text(encoding="utf-8"), of_facts),
        "facts of a router": (
            (HOSTS / "openwrt-23.05.txt").read_text(encoding="utf-8"),
            of_facts,
        ),
    }


def test_every_kind_is_tested() -> None:
    assert tuple(valid()) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_valid_text_is_read(kind: str) -> None:
    text, read = valid()[kind]
    read(text)


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_that_nests_too_deeply_is_refused_or_read(kind: str) -> None:
    _, read = valid()[kind]
    for nested in ("[" * 100_000, '{"a":' * 100_000, '{"changes": ' + "[" * 100_000):
        with suppress(NarrowsError):
            read(nested)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150)
@given(data=st.data())
def test_a_damaged_text_is_read_or_refused(kind: str, data: st.DataObject) -> None:
    text, read = valid()[kind]
    with suppress(NarrowsError):
        read(data.draw(damaged(text)))
