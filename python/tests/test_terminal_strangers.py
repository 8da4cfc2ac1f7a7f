"""Every text field of every kind of file, and a far end's refusal: none of their control characters
is printed.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import NARROWS, TINY
from test_compare_latency import result
from test_terminal import HOSTILE, is_shown

import narrows as nw
from narrows import cli
from narrows.measure.simulated import Plan, measure
from narrows.storage.durable import Chain

Json = dict[str, Any]


FORGED = "\nFORGED: all is well\n"
"""A line of its own within a field."""


def with_hostile_texts(value: Json) -> Iterator[tuple[str, Json]]:
    """The document twice for each name of a text field: with control characters in that field, and
    with a line.
    """
    seen: set[str] = set()

    def places(
        of: Any,  # noqa: ANN401 - any JSON value
        name: str,
        path: tuple[Any, ...],
    ) -> Iterator[tuple[str, tuple[Any, ...]]]:
        if isinstance(of, str):
            yield name, path
        elif isinstance(of, dict):
            for key, inner in of.items():
                yield from places(inner, str(key), (*path, key))
        elif isinstance(of, list):
            for at, inner in enumerate(of):
                yield from places(inner, name, (*path, at))

    for name, path in places(value, "", ()):
        if name in seen or not path:
            continue
        seen.add(name)
        for hostile in (HOSTILE, FORGED):
            changed = json.loads(json.dumps(value))
            inner = changed
            for step in path[:-1]:
                inner = inner[step]
            inner[path[-1]] = hostile + str(inner[path[-1]])
            yield f"{name}{len(hostile)}", changed


def printed(*words: object) -> str:
    """What a command prints, on both streams."""
    done = CliRunner().invoke(cli.main, [str(word) for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "\nFORGED" not in f"\n{done.output}"
    return done.output


def test_measurements(tmp_path: Path) -> None:
    path = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp", reverse=nw.Hop(rate="10Mbit"))
    measured = measure(path, Plan(load_s=4.0, directions=("up",), streams=1)).json
    whole = tmp_path / "whole.json"
    whole.write_text(json.dumps(measured), encoding="utf-8")
    names = []
    for name, changed in with_hostile_texts(json.loads(whole.read_text(encoding="utf-8"))):
        names.append(name)
        file = tmp_path / "changed.json"
        file.write_text(json.dumps(changed), encoding="utf-8")
        assert is_shown(printed("compare", whole, file)), name
        assert is_shown(printed("convert", file, tmp_path / "out.csv")), name
    assert {f"{name}{len(HOSTILE)}" for name in ("host", "cc", "test")} <= set(names)


def test_latency_results(tmp_path: Path) -> None:
    whole = tmp_path / "whole.json"
    whole.write_text(json.dumps(result("far", 1, 80)), encoding="utf-8")
    for name, changed in with_hostile_texts(json.loads(whole.read_text(encoding="utf-8"))):
        file = tmp_path / "changed.json"
        file.write_text(json.dumps(changed), encoding="utf-8")
        assert is_shown(printed("compare", whole, file)), name


def test_scenarios(tmp_path: Path) -> None:
    text = TINY.replace("\n\n[path]", '\nnonsense = "x"\n\n[path]')
    # In TOML a control character is written as an escape; the scenario then holds the character
    # itself.
    written = json.dumps(HOSTILE.replace("\ud800", ""))[1:-1].replace("\\u009b", "\\u009B")
    for at, line in enumerate(text.splitlines()):
        if '"' not in line:
            continue
        lines = text.splitlines()
        lines[at] = line.replace('= "', f'= "{written}', 1)
        file = tmp_path / "changed.toml"
        file.write_text("\n".join(lines), encoding="utf-8")
        for command in (("check",), ("run",), ("compare", file)):
            assert is_shown(printed(*command, file)), line


def test_forecasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NARROWS_HISTORY", str(tmp_path / "history.duckdb"))
    line = {
        "kind": "forecast", "at": "2026-01-01T00:00:00+00:00", "host": "far", "measurement": "m",
        "way": "down",
        "as": "sender", "for": ["bulk"], "now": "cubic", "leave": False,
        "choice": {"key": "bbr", "cc": "bbr", "queue": None, "shaper_share": None},
        "runs": 1, "figures": [{"name": "rate_mbit", "before": 1.0, "low": 1.0, "high": 2.0}],
    }  # fmt: skip
    shown = []
    for name, changed in with_hostile_texts(line):
        monkeypatch.setenv("NARROWS_HISTORY", str(tmp_path / name / "history.duckdb"))
        Chain(tmp_path / name / "forecasts.jsonl").append(changed)
        shown.append(printed("record"))
        assert is_shown(shown[-1]), name
    assert any(r"\u001b]0;title" in text for text in shown)


def test_refusals_of_a_far_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            for _ in range(2):
                link, _ = server.accept()
                with link:
                    link.recv(64)
                    text = json.dumps(
                        {
                            "is": "refused",
                            "why": HOSTILE.replace("\ud800", "") + FORGED,
                            "narrows": HOSTILE[:5],
                        }
                    ).encode()
                    link.sendall(struct.pack(">I", len(text)) + text)

        thread = threading.Thread(target=refuse, daemon=True)
        thread.start()
        command = [
            NARROWS,
            "measure",
            "127.0.0.1",
            "--port",
            str(server.getsockname()[1]),
            "--no-history",
        ]
        done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert done.returncode != 0
    assert is_shown(done.stderr.decode())
    assert is_shown(done.stdout.decode())
    assert b"\nFORGED" not in done.stderr + done.stdout
