"""Ctrl-C, SIGTERM and SIGHUP end a command in order, and the results until then are kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import BEGUN, LONG, NARROWS, until
from test_serve import far_end

from narrows import files

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def far() -> Iterator[int]:
    """The port of a server on this machine."""
    with far_end() as (port, _):
        yield port


def words(command: str, port: int, made: Path, *, lasts: str = "50s") -> list[str]:
    more = {
        "measure": ["--test", "tcp_up", "--idle", "500ms", "--pacing", "20Mbit", "--no-history"],
        "latency": [],
    }
    return [
        sys.executable, "-c", BEGUN, str(made.with_name("begun")), command, "127.0.0.1", "--port",
        str(port),
        "--duration", lasts, "--out", str(made), *more[command],
    ]  # fmt: skip


def check(command: str, made: Path) -> None:
    """A part of it is there."""
    if command == "measure":
        measured = files.read(made)
        assert measured.interrupted
        assert (measured.rate_mbit("up") or 0) > 1
        assert measured.latency("idle").n >= 15
    else:
        told = json.loads(made.read_text(encoding="utf-8"))
        assert told["interrupted"] is True
        assert told["answered"] > 100


@pytest.mark.parametrize("command", ["measure", "latency"])
@pytest.mark.parametrize("how", SIGNALS)
@pytest.mark.parametrize("group", [False, True])
def test_a_signal_keeps_the_results(
    command: str, how: signal.Signals, group: bool, far: int, tmp_path: Path
) -> None:
    made = tmp_path / "m.json"
    with subprocess.Popen(
        words(command, far, made),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=tmp_path,
    ) as child:
        until(made.with_name("begun").exists, child)
        if group:
            # As `timeout` has it: the command, and then everybody in its group.
            child.send_signal(how)
            os.killpg(child.pid, how)
        else:
            child.send_signal(how)
        out, said = child.communicate(timeout=30)
    assert (child.returncode, said.splitlines()[-1]) == (128 + how, "stopped"), said
    assert "The measurement was stopped after " in out
    check(command, made)


@pytest.mark.parametrize("command", ["measure", "latency"])
def test_a_hang_up_with_a_closed_terminal_keeps_the_results(
    command: str, far: int, tmp_path: Path
) -> None:
    made = tmp_path / "m.json"
    main, terminal = os.openpty()
    with subprocess.Popen(
        words(command, far, made),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        cwd=tmp_path,
    ) as child:
        os.close(terminal)
        until(made.with_name("begun").exists, child)
        # The terminal closes first: later writes to it fail.
        os.close(main)
        child.send_signal(signal.SIGHUP)
        assert child.wait(30) == 128 + signal.SIGHUP
    check(command, made)


def test_a_hang_up_that_is_ignored_ends_nothing(far: int, tmp_path: Path) -> None:
    made = tmp_path / "m.json"
    command = ["nohup", *words("measure", far, made, lasts="3s")]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=tmp_path,
    ) as child:
        until(made.with_name("begun").exists, child)
        os.killpg(child.pid, signal.SIGHUP)
        child.communicate(timeout=60)
    assert child.returncode == 0
    assert files.read(made).stopped_by == "duration"


@pytest.mark.parametrize("how", SIGNALS)
def test_a_run_and_a_sweep_end_with_the_signals_code(how: signal.Signals, tmp_path: Path) -> None:
    file = tmp_path / "long.toml"
    file.write_text(LONG, encoding="utf-8")
    program = (
        "import sys, threading; from narrows import cli; import narrows.runs.run as runs\n"
        "before = runs._core.run_toml\n"
        "def run(*args, progress=None, **more):\n"
        "    def tell(now, end):\n"
        "        print('begun', flush=True)\n"
        "        return progress(now, end) if progress else None\n"
        "    return before(*args, progress=tell, **more)\n"
        "runs._core.run_toml = run\n"
        f"sys.argv = ['narrows', 'run', {str(file)!r}]\n"
        "cli.main()\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"
        child.send_signal(how)
        _, said = child.communicate(timeout=30)
    assert (child.returncode, said) == (128 + how, "stopped\n")
    table = tmp_path / "sweep.toml"
    table.write_text(
        'scenario = "long.toml"\nseeds = 2\n[over]\n"path.rate" = ["10Mbit", "20Mbit"]\n',
        encoding="utf-8",
    )
    store = tmp_path / "kept"
    with subprocess.Popen(
        [NARROWS, "sweep", table, "--into", store, "--jobs", "1"], cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as child:  # fmt: skip
        tasks = Path(f"/proc/{child.pid}/task")
        until(lambda: any(one.read_text() for one in tasks.glob("*/children")), child)
        os.killpg(child.pid, how)
        out, said = child.communicate(timeout=30)
    assert child.returncode == 128 + how, (out, said)
    assert said.splitlines()[-1] == "stopped"
    assert "died" not in out + said


def test_a_signal_that_wakes_no_thread_ends_a_sweep(tmp_path: Path) -> None:
    """As a signal that arrives between the last check of Python and the wait for a thread."""
    (tmp_path / "long.toml").write_text(LONG, encoding="utf-8")
    program = (
        "import _thread, threading\n"
        "from narrows.runs.scenario import load\n"
        "from narrows.sweeps.executors import Local\n"
        "case = ('key', load('long.toml').tree(), 1)\n"
        "threading.Timer(1, _thread.interrupt_main).start()\n"
        "list(Local(1).outcomes(iter([case]), 1))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=8,
    )
    assert done.returncode == -signal.SIGINT, done.stderr
