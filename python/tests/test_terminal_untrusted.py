"""Every text field of every kind of file, and a server's refusal: none of their control characters
is printed.
"""

from __future__ import annotations

import io
import json
import re
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from conftest import NARROWS, TINY
from test_compare_latency import result
from test_files import IPERF2, IPERF3_J
from test_terminal import HOSTILE, is_shown

import narrows as nw
from narrows import cli, files
from narrows.kernel import machine, store
from narrows.measure import history
from narrows.measure.result import Measurement
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
    """The output of a command on both streams."""
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
    whole.write_text(json.dumps(result("far", 1, 80, n=1000)), encoding="utf-8")
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


def test_a_title_that_the_font_of_a_picture_lacks(tmp_path: Path) -> None:
    """Matplotlib warns of such characters, and its warning contains them."""
    hostile = "".join(f"\\U{ord(letter):08x}" for letter in HOSTILE.replace("\ud800", ""))
    text = TINY.replace('"tiny"', f'"{hostile}"')
    (tmp_path / "a.toml").write_text(text, encoding="utf-8")
    command = [NARROWS, "run", "a.toml", "--plot", "a.png", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert b"missing from" in done.stderr
    assert is_shown(done.stderr.decode())


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


def test_files_of_other_programs(tmp_path: Path) -> None:
    path = nw.Path(rate="2Mbit", rtt="20ms", reverse=nw.Hop(rate="2Mbit"))
    flent = tmp_path / "whole.flent"
    files.write(measure(path, Plan(load_s=2.0, directions=("up",), streams=1)), flent)
    trees = {".json": IPERF3_J, ".flent": json.loads(flent.read_text(encoding="utf-8"))}
    for suffix, tree in trees.items():
        for name, changed in with_hostile_texts(tree):
            file = tmp_path / f"changed{suffix}"
            file.write_text(json.dumps(changed), encoding="utf-8")
            assert is_shown(printed("compare", file, file)), name
            assert is_shown(printed("convert", file, tmp_path / "out.csv")), name


def test_reports_of_iperf2(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    for match in re.finditer(r"[\w.]+", IPERF2):
        hostile = HOSTILE.replace("\ud800", "")
        file.write_text(f"{IPERF2[: match.start()]}{hostile}{IPERF2[match.start() :]}")
        assert is_shown(printed("compare", file, file)), match[0]


def test_path_models(tmp_path: Path) -> None:
    model = {
        "path": {"rate": "2Mbit", "rtt": "20ms", "buffer": "50kB"},
        "up": {
            "loss": {"value": None, "low": 0.0, "high": 0.01, "why": "unknown"},
            "buffer_bytes": {"value": 50_000, "low": 49_000, "high": 51_000, "why": "unknown"},
            "sure": "likely", "why": "unknown", "family": "drop-tail",
        },
    }  # fmt: skip
    file = tmp_path / "model.json"
    for name, changed in with_hostile_texts(model):
        file.write_text(json.dumps(changed), encoding="utf-8")
        words = ("--for", "retransmissions", "--kernel", "cubic", "--no-seal")
        assert is_shown(printed("advise", file, *words)), name


def test_plans(tmp_path: Path) -> None:
    change = {
        "id": "sysctl:x", "kind": "sysctl", "phase": "live", "from": "cubic", "to": "bbr",
        "target": "net.ipv4.tcp_congestion_control", "why": "because",
    }  # fmt: skip
    plan = {
        "plan": 1, "title": "t", "netns": "n", "effects": ["e"], "changes": [change],
        "needs": [{"why": "w", "command": ["c"]}], "left": [{"what": "w", "why": "y", "fix": "f"}],
    }  # fmt: skip
    file = tmp_path / "plan.json"
    for name, changed in with_hostile_texts(plan):
        file.write_text(json.dumps(changed), encoding="utf-8")
        # Nobody confirms, so that nothing is changed.
        words = ("tune", "apply", file, "--state", tmp_path, "--root", tmp_path)
        assert is_shown(printed(*words)), name


def test_tables_of_plots(tmp_path: Path) -> None:
    hostile = HOSTILE.replace("\ud800", "").replace("\r", "")
    columns = ["x", "y", "by"]
    for at in range(3):
        named = [hostile + FORGED if n == at else name for n, name in enumerate(columns)]
        table = pa.table({name: [1, 2] for name in named})
        pq.write_table(table, tmp_path / "a.parquet")
        words = ("--x", "absent", "--y", "y", "--out", tmp_path / "a.svg")
        assert is_shown(printed("plot", tmp_path / "a.parquet", *words))


@pytest.mark.skipif(not history.installed(), reason="DuckDB is not installed")
def test_rows_of_the_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = nw.Path(rate="2Mbit", rtt="20ms", reverse=nw.Hop(rate="2Mbit"))
    measured = measure(path, Plan(load_s=2.0, directions=("up",), streams=1)).json
    monkeypatch.setenv("NARROWS_HISTORY", str(tmp_path / "history.duckdb"))
    for field in ("id", "started"):
        for hostile in (HOSTILE.replace("\ud800", ""), FORGED):
            history.keep(Measurement.of(json.loads(json.dumps(measured)) | {field: hostile}))
    assert is_shown(printed("history"))
    assert is_shown(printed("history", "--get", "x", "--out", tmp_path / "a.csv"))


SWEEP = """
title = "many"
scenario = "base.toml"
columns = ["goodput_mbit"]
[over]
"flow[0].cc" = ["reno", "cubic"]
"path.rate" = { from = "1Mbit", to = "2Mbit", scale = "log", steps = 2 }
"""


def test_sweep_files(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(TINY, encoding="utf-8")
    file = tmp_path / "sweep.toml"
    hostile = json.dumps((HOSTILE + FORGED).replace("\ud800", ""))[1:-1]
    hostile = hostile.replace("\\u009b", "\\u009B")
    for match in re.finditer(r'"', SWEEP):
        # Within a text, and between two of them, where the text is an error of syntax.
        file.write_text(f"{SWEEP[: match.end()]}{hostile}{SWEEP[match.end() :]}", encoding="utf-8")
        words = ("sweep", file, "--dry-run", "--into", tmp_path / "results")
        assert is_shown(printed(*words)), match


def test_journals(tmp_path: Path) -> None:
    change = {
        "id": "sysctl:x", "kind": "sysctl", "phase": "live", "from": "cubic", "to": "bbr",
        "target": "net.ipv4.tcp_congestion_control", "why": "because",
    }  # fmt: skip
    drop_in = {
        "id": "file:x", "kind": "file", "phase": "boot", "target": "/etc/sysctl.d/99-narrows.conf",
        "from": None, "to": {"text": "a = 1\n", "mode": "0644"}, "why": "",
    }  # fmt: skip
    journal = {
        "journal": 1, "narrows": "0", "id": "0a", "phase": "applied", "title": "t", "netns": None,
        "made": "2026-01-01T00:00:00Z", "deadline": {"uptime_s": 1.5, "boot": "b"}, "below": None,
        "entries": [
            {"change": change, "before": "cubic"}, {"change": drop_in, "before": None},
        ],
    }  # fmt: skip
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    file = state / "journal.json"
    file.touch(mode=0o600)
    for name, changed in with_hostile_texts(journal):
        file.write_text(json.dumps(changed), encoding="utf-8")
        assert is_shown(printed("tune", "verify", "--state", state)), name
    file.write_text(json.dumps(journal), encoding="utf-8")
    assert "file:x: is absent" in printed("tune", "verify", "--state", state)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_cells_of_plots(tmp_path: Path, suffix: str) -> None:
    hostile = (HOSTILE + FORGED).replace("\ud800", "")
    table = pa.table({"x": [1, 2], "y": [3, 4], "text": [hostile, hostile + "b"], "seed": [1, 1]})
    file = tmp_path / f"a{suffix}"
    if suffix == ".csv":
        quoted = [f'"{text}"' for text in table["text"].to_pylist()]
        rows = [f"{n},{n},{text},1" for n, text in enumerate(quoted)]
        file.write_text("x,y,text,seed\n" + "\n".join(rows), encoding="utf-8", newline="")
    else:
        pq.write_table(table, file)
    for out in ("a.svg", "a.tex"):
        for words in (
            ("--x", "x", "--y", "y", "--by", "text"),
            ("--x", "text", "--y", "y"),
            ("--x", "x", "--y", "text"),
            ("--x", "x", "--y", "y", "--where", f"text={hostile}"),
            ("--x", "x", "--y", "y", "--where", "text=absent"),
        ):
            assert is_shown(printed("plot", file, *words, "--out", tmp_path / out)), words
            made = tmp_path / out
            assert not made.exists() or is_shown(made.read_text(encoding="utf-8")), words
            made.unlink(missing_ok=True)


def machine_that(
    monkeypatch: pytest.MonkeyPatch,
    *,
    console: list[str],
    **files_: bytes,
) -> None:
    """Replaces the machine of the engine linux: it prints these lines and leaves these files."""
    built = store.Kernel(
        name="6.12", release="6.12.1", key="k", configuration="c", source="s", origin="o",
        patches={}, build_s=1.0,
    )  # fmt: skip

    def boot(_kernel: store.Kernel, folder: Path, *_: object, **__: object) -> list[str]:
        for name, content in files_.items():
            (folder / name).write_bytes(content)
        lines: list[str] = []
        watch = machine.Watchdog(0, threading.Event())
        text = "\n".join(console).encode(errors="replace")
        machine._listen(io.BytesIO(text), lines, None, watch)
        return lines

    monkeypatch.setattr(machine, "_ready", lambda _: built)
    monkeypatch.setattr(machine, "_boot", boot)


def test_messages_of_a_guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.toml"
    file.write_text(TINY, encoding="utf-8")
    hostile = HOSTILE.replace("\ud800", "")
    # The messages of the program in the machine may have several lines.
    raw = hostile.encode()
    for console, left in (
        ([f"Kernel panic - not syncing: {hostile}"], {}),
        ([f"ptrace {hostile} failed"], {}),
        ([hostile, "progress 1 x", "progress nan"], {}),
        ([], {"code": b"1", "stdout": b"", "stderr": raw}),
        ([], {"code": raw, "stdout": b"", "stderr": b""}),
        ([], {"code": b"0", "stdout": raw, "stderr": b""}),
        ([], {"code": b"0", "stdout": b"run x 1\n", "stderr": b""}),
        ([], {"code": b"0", "stdout": b"run 2 0\n\xff\xfe", "stderr": b""}),
    ):
        machine_that(monkeypatch, console=console, **left)
        assert is_shown(printed("run", file, "--engine", "linux")), (console, left)


def test_results_of_a_guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.toml"
    file.write_text(TINY, encoding="utf-8")
    document = json.loads(printed("run", file, "--json"))
    # Eight tables of samples, all of them empty.
    samples = bytes(8 * 8)
    for name, changed in with_hostile_texts(document):
        text = json.dumps(changed).replace("\\ud800", "").encode()
        stdout = b"run %d %d\n%s%s" % (len(text), len(samples), text, samples)
        machine_that(monkeypatch, console=[], code=b"0", stdout=stdout, stderr=b"")
        assert is_shown(printed("run", file, "--engine", "linux")), name
        assert is_shown(printed("compare", file, file, "--engine", "linux")), name
