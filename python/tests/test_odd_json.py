"""Changed JSON files: each is read, or refused in one sentence with its place.

Every value of a valid file is replaced by each type of JSON value, and every key is removed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_compare_latency import result

import narrows as nw
from narrows import files, forecasts
from narrows.advise import measured as place_of
from narrows.compare import latency as compare_latency
from narrows.compare import measurements as compare
from narrows.compare import render as comparison
from narrows.errors import NarrowsError
from narrows.latency import render as latency_render
from narrows.latency import result as latency
from narrows.measure import render as measured
from narrows.measure import summary as answers
from narrows.measure.result import Measurement
from narrows.measure.simulated import Plan
from narrows.measure.simulated import measure as simulate
from narrows.path_model import infer
from narrows.render import report
from narrows.storage.durable import Chain

Json = dict[str, Any]

OTHERS: tuple[Any, ...] = (None, True, -1, 1e300, 10**400, "a\nb", [1, "x"], {"a": None})
"""Every kind of JSON value, and numbers that no program expects."""

FEW = 2
"""So many values of a list are changed; the others are like them."""


def changed(document: Json) -> Iterator[tuple[str, Json]]:
    """The document with one change, and the place of the change."""

    def places(of: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401
        items = (
            of.items()
            if isinstance(of, dict)
            else enumerate(of[:FEW])
            if isinstance(of, list)
            else ()
        )
        for step, inner in items:
            yield (*path, step)
            yield from places(inner, (*path, step))

    text = json.dumps(document)
    for path in places(document, ()):
        name = ".".join(map(str, path))
        for value in (*OTHERS, ...):
            other = json.loads(text)
            inner: Any = other
            for step in path[:-1]:
                inner = inner[step]
            if value is ...:
                del inner[path[-1]]
            else:
                inner[path[-1]] = value
            yield f"{name} = {value!r:.40}", other


def holds(
    document: Json, read: Callable[[bytes], object], refusal: str = r"file: [^\n]+"
) -> tuple[int, int]:
    """How many changed documents were read, and how many refused."""
    counts = [0, 0]
    for what, other in changed(document):
        said = None
        try:
            read(json.dumps(other).encode())
        except NarrowsError as error:
            said = str(error)
        except Exception as error:
            raise AssertionError(what) from error
        assert said is None or re.fullmatch(refusal, said), (what, said)
        counts[said is not None] += 1
    return counts[0], counts[1]


@pytest.fixture(scope="module")
def document() -> Json:
    """A short measurement with everything that one may have."""
    path = nw.Path(rate="2Mbit", rtt="20ms", buffer="1bdp", reverse=nw.Hop(rate="2Mbit"))
    told: Json = json.loads(
        simulate(
            path, Plan(load_s=4.0, idle_s=1.0, directions=("up",), streams=1, ping_ms=100)
        ).text()
    )
    # One sample of twenty is enough to be judged by.
    for row in (*told["flows"], *told["pings"]):
        row["samples"] = row["samples"][::10]
    spread = {"n": 9, "min": 1.0, "mean": 2.0, "p50": 2.0, "p95": 3.0, "p99": 3.0, "max": 3.0}
    call = {direction: {"mos": 4.1} for direction in ("up", "down")}
    load = {"n": 3, "failed": 1, "p50": 0.2, "max": 0.3, "waiting_share": 0.5}
    return told | {
        "id": "7f", "started": "2026-03-02T00:00:00Z",
        "asked": {
            "host": "far", "test": "rrul", "dscp": 46, "ecn": True, "pacing_mbit": 5.0,
            "max_data_bytes": 5_000_000,
        },
        "peer": {"address": "192.0.2.1", "speaks": "narrows"},
        "own_error": {
            "lateness_ms": {"p50": 0.1, "p99": 2.0, "max": 3.0}, "leaving_ms": 0.1,
            "socket_drops": 2, "cpu_pct": 90.0,
            "clock": {"kind": "estimated", "error_ms": 0.1}, "far": {"answering_ms": 0.1},
            "notes": ["it was late"],
        },
        "data": {"planned_bytes": 9, "moved_bytes": 9, "stopped_by": "max_data"},
        "host": {"kernel": "6.12", "name": "near"},
        "latency_ms": {"idle": spread, "loaded": spread},
        "voip": {"idle": call, "loaded": call},
        "page": {"objects": 31, "connections": 6, "idle_s": load, "loaded_s": load},
        "udp_load": {
            "direction": "up", "sent": 10, "received": 9, "unsent": 1, "loss": 0.1,
            "sent_mbit": 10.0,
            "received_mbit": 9.0,
        },
    }  # fmt: skip


def shown(one: Measurement) -> None:
    """Everything that commands show of a measurement."""
    measured.sentences(one)
    measured.own_error(one)
    report.page(measured.document([one], ["a"]))
    answers.answer(one).json()
    one.text()
    for suffix in files.WRITTEN:
        if suffix != ".parquet":
            files.writer_of(f"a{suffix}")(one)


def test_measurements(document: Json, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NARROWS_HISTORY", str(tmp_path / "history.duckdb"))
    right = Measurement.of(document)

    def read(content: bytes) -> None:
        one = files.of_text(content, "file")
        shown(one)
        found = compare.differences(right, one)
        comparison.sentences(found, "a", "b")
        comparison.table(found, "a", "b")
        comparison.warnings(right, one, ("a", "b"))
        compare.differences(one, right)
        forecasts.score_open(one)

    was_read, was_refused = holds(document, read)
    assert min(was_read, was_refused) > 100


def test_latency_results(tmp_path: Path) -> None:
    right = result("far", 1, 80, n=1000)
    for key in ("rtt_us", "response_us", "late_us"):
        right[key]["histogram_ns"] = right[key]["histogram_ns"][::100]
    right["parts_us"]["client_kernel"] = right["rtt_us"]
    file = tmp_path / "file"

    def read(content: bytes) -> None:
        file.write_bytes(content)
        one = latency.read(file)
        for a, b in ((right, one), (one, right)):
            found = compare_latency.differences(a, b)
            comparison.latency_sentences(found, a, b, ("a", "b"))
            for each in compare_latency.by_clock(found):
                comparison.latency_table(each, ("a", "b"))
        report.page(latency_render.document([("a", right), ("b", one)]))
        latency.hlog([("b", one)])

    was_read, was_refused = holds(right, read, rf"{re.escape(str(file))}: [^\n]+")
    assert min(was_read, was_refused) > 100


def test_a_plot_of_changed_latency_results(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    right = result("far", 1, 80, n=1000)
    for odd in (
        {"response_us": None},
        {"rtt_us": None, "response_us": None},
        {"slow": None, "parts_us": None},
    ):
        file = tmp_path / "file"
        file.write_text(json.dumps(right | odd), encoding="utf-8")
        latency_render.plot([("a", right), ("b", latency.read(file))], tmp_path / "a.svg")


def test_path_models(document: Json) -> None:
    model = infer(
        simulate(
            nw.Path(rate="5Mbit", rtt="20ms", buffer="1bdp"),
            Plan(load_s=4.0, directions=("down",), streams=1),
        )
    )

    def read(content: bytes) -> None:
        place_of(json.loads(content), role="receiver", source="file")

    was_read, _ = holds(json.loads(json.dumps(model.json())), read, r"(?s).+")
    assert was_read > 100


def test_forecasts(document: Json, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later = Measurement.of(document | {"data": {"stopped_by": "duration"}})
    forecast: Json = {
        "kind": "forecast", "at": "2026-03-01T00:00:00+00:00", "host": "far",
        "measurement": "before", "way": "up",
        "load": {"flows": 1, "cc": "cubic", "both_ways": False}, "now": "cubic", "leave": False,
        "as": "sender",
        "for": ["bulk"], "choice": {"key": "bbr", "cc": "bbr", "queue": None,
        "shaper_share": None}, "runs": 1,
        "figures": [{"name": "rate_mbit", "before": 1.0, "low": 1.0, "high": 2.0}],
    }  # fmt: skip
    score: Json = {
        "kind": "score", "at": "2026-03-01T00:00:00+00:00", "forecast": "0" * 64,
        "measurement": "later",
        "figures": [{"name": "rate_mbit", "low": 1.0, "high": 2.0, "measured": 1.5, "hit": True}],
    }  # fmt: skip
    at = 0

    def read(content: bytes) -> None:
        nonlocal at
        at += 1
        monkeypatch.setenv("NARROWS_HISTORY", str(tmp_path / f"{at}/history.duckdb"))
        for line in (json.loads(content), forecast, score):
            Chain(forecasts.file()).append(line)
        forecasts.rate(forecasts.read())
        forecasts.sentences(forecasts.score_open(later))

    for line in (forecast, score):
        was_read, was_refused = holds(line, read, r"(?s).+forecasts\.jsonl: line \d: [^\n]+")
        assert min(was_read, was_refused) > 20
