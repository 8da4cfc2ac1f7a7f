"""A model that fails ends the run with an error that names the model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Cli

HEAD = """\
from narrows.models import CongestionControl, QueueDiscipline


class Bad(CongestionControl):
    name = "bad"

    def on_ack(self, window, ack):
        if ack.may_grow:
            window.cwnd += ack.delivered
        if ack.now_s > 0.5:
            FAULT

    def describe(self):
        return {"x": VALUE}


class Queue(QueueDiscipline):
    name = "bad_queue"

    def dequeue(self, now_s):
        packet = super().dequeue(now_s)
        if now_s > 0.5:
            QUEUED
        return packet
"""

SCENARIO = """\
duration = "3s"
[path]
rate   = "10Mbit"
rtt    = "20ms"
buffer = "1bdp"
queue  = "fifo"
[[flow]]
cc = "bad"
"""


def plugin(
    folder: Path, fault: str = "pass", value: str = "1.0", queued: str = "pass", queue: str = "fifo"
) -> None:
    code = HEAD.replace("FAULT", fault).replace("VALUE", value).replace("QUEUED", queued)
    (folder / "bad.py").write_text(code, encoding="utf-8")
    text = SCENARIO.replace('"fifo"', f'"{queue}"')
    (folder / "bad.toml").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero (bad.py:11)"),
        ("window.cwnd = float('nan')", "window.cwnd is NaN"),
        ("window.cwnd = float('inf')", "window.cwnd is inf"),
        ("window.cwnd = -3", "window.cwnd is -3"),
        ("window.ssthresh = float('nan')", "window.ssthresh is NaN"),
        ("window.pacing_mbit = -1.0", "window.pacing_mbit is -1"),
        ("window.pacing_mbit = float('nan')", "window.pacing_mbit is NaN"),
        ("window.cwnd = 'many'", "TypeError"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise SystemExit(7)", "SystemExit: 7"),
    ],
)
def test_a_fault_names_file_model_event_and_time(
    tmp_path: Path, cli: Cli, fault: str, problem: str
) -> None:
    plugin(tmp_path, fault)
    done = cli("run", "bad.toml", "--plugin", "bad.py")
    assert done.returncode == 2
    assert re.match(r"bad\.py: bad: on_ack at 0\.5\d* s: ", done.stderr), done.stderr
    assert problem in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("acks['nope']", "ValueError: no field of name nope (bad.py:8)"),
        ("window.cwnd = float('nan')", "window.cwnd is NaN"),
    ],
)
def test_a_fault_of_many_acks_names_the_method(
    tmp_path: Path, cli: Cli, fault: str, problem: str
) -> None:
    pytest.importorskip("numpy")
    plugin(tmp_path)
    (tmp_path / "bad.py").write_text(
        "from narrows.models import CongestionControl\n\n\nclass Bad(CongestionControl):\n"
        f'    name = "bad"\n\n    def on_interval(self, window, acks):\n        {fault}\n'
    )
    done = cli("run", "bad.toml", "--plugin", "bad.py")
    assert done.returncode == 2
    assert re.match(r"bad\.py: bad: on_interval at 0\.\d* s: ", done.stderr), done.stderr
    assert problem in done.stderr


def test_a_state_that_is_no_number_is_a_fault(tmp_path: Path, cli: Cli) -> None:
    plugin(tmp_path, value="float('nan')")
    done = cli("run", "bad.toml", "--plugin", "bad.py", "--out", "out")
    assert done.returncode == 2
    assert "bad.py: bad: describe at " in done.stderr
    assert "x is NaN" in done.stderr


@pytest.mark.parametrize("method", ["describe", "__init__"])
def test_the_method_of_a_fault_is_that_of_the_class(tmp_path: Path, cli: Cli, method: str) -> None:
    plugin(tmp_path)
    file = tmp_path / "bad.py"
    code = file.read_text(encoding="utf-8").replace("def describe(self):", "def other(self):")
    code = code.replace(
        '    name = "bad"\n',
        f'    name = "bad"\n\n    def {method}(self, **_):\n        1 / 0\n',
        1,
    )
    file.write_text(code, encoding="utf-8")
    done = cli("run", "bad.toml", "--plugin", "bad.py", "--states", "--plot", "a.svg")
    assert done.returncode == 2
    assert f"bad.py: bad: {method} at 0.0" in done.stderr


@pytest.mark.parametrize(
    ("queued", "problem"),
    [
        ("packet = 5", "neither a packet nor None"),
        ("packet and packet.drop('aqm')", "not in the queue"),
        ("packet and packet.drop('fun')", 'write "aqm" or "overflow"'),
        ("self.fifo.append(packet)", "not in the queue"),
        ("1 / 0", "ZeroDivisionError: division by zero (bad.py:23)"),
    ],
)
def test_a_fault_of_a_queue_names_it(tmp_path: Path, cli: Cli, queued: str, problem: str) -> None:
    plugin(tmp_path, queued=queued, queue="bad_queue")
    done = cli("run", "bad.toml", "--plugin", "bad.py")
    assert done.returncode == 2
    assert re.match(r"bad\.py: bad_queue: (de|en)queue at 0\.5\d* s: ", done.stderr), done.stderr
    assert problem in done.stderr


@pytest.mark.parametrize(
    "fault",
    [
        "while True: pass",
        "try:\n                while True: pass\n            except Exception: pass",
    ],
)
def test_an_event_that_does_not_return_ends_the_run(tmp_path: Path, cli: Cli, fault: str) -> None:
    plugin(tmp_path, fault)
    done = cli("run", "bad.toml", "--plugin", "bad.py")
    assert done.returncode == 2
    assert re.match(r"bad\.py: bad: on_ack at 0\.5\d* s: did not return within 5 s", done.stderr)


def test_an_event_that_cannot_be_interrupted_ends_the_run_too(tmp_path: Path, cli: Cli) -> None:
    stubborn = (
        "\n            while True:\n                try:\n                    while True: pass\n"
        "                except BaseException: pass"
    )
    plugin(tmp_path, stubborn)
    done = cli("run", "bad.toml", "--plugin", "bad.py")
    assert done.returncode == 2
    assert "did not return within 5 s of processor time" in done.stderr


LOCKED = "sum(range(10**15))"
"""A loop in C, which holds the interpreter lock: no thread and no signal can interrupt it."""


def test_an_event_that_holds_the_interpreter_lock_ends_the_run(tmp_path: Path, cli: Cli) -> None:
    plugin(tmp_path, LOCKED)
    done = cli("run", "bad.toml", "--plugin", "bad.py")
    assert done.returncode == 2
    assert re.match(r"bad\.py: bad: on_ack at 0\.5\d* s: did not return within 5 s", done.stderr)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.long
def test_an_event_that_holds_the_lock_ends_its_case_of_a_sweep_only(
    tmp_path: Path, cli: Cli
) -> None:
    plugin(tmp_path, LOCKED)
    (tmp_path / "sweep.toml").write_text(
        'title = "s"\nscenario = "bad.toml"\n[over]\n"flow[0].cc" = ["bad", "cubic", "reno"]\n'
    )
    done = cli("sweep", "sweep.toml", "--plugin", "bad.py", "--jobs", 1, "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    (failure,) = found["failed"]
    assert failure["reason"] == (
        "the process that ran it died; the run used the plugin of bad (bad.py)"
    )
    assert found["rows"] == 2
    assert "bad.py: bad: on_ack at 0.5" in done.stderr


def test_a_program_gets_a_message_about_an_event_that_holds_the_lock(tmp_path: Path) -> None:
    plugin(tmp_path, LOCKED)
    text = "import narrows as nw; nw.models.load('bad.py'); nw.run('bad.toml')"
    with subprocess.Popen(
        [sys.executable, "-c", text], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stderr is not None
        line = program.stderr.readline()
        assert program.poll() is None
        program.kill()
    assert line.startswith("bad.py: bad: on_ack at 0.5")
    assert line.endswith("; it holds the interpreter lock, so narrows cannot end the run\n")


def test_a_race_ends_with_the_name_of_the_model(tmp_path: Path, cli: Cli) -> None:
    plugin(tmp_path, "1 / 0")
    done = cli("race", "--only", "bad", "--duration", "4s", "--seeds", "1", "--plugin", "bad.py")
    assert done.returncode == 2
    assert "bad.py: bad: on_ack at " in done.stderr


def test_a_sweep_reports_the_fault_of_each_case(tmp_path: Path, cli: Cli) -> None:
    plugin(tmp_path, "1 / 0")
    (tmp_path / "sweep.toml").write_text(
        'title = "s"\nscenario = "bad.toml"\n[over]\n"flow[0].cc" = ["bad", "cubic"]\n'
    )
    done = cli("sweep", "sweep.toml", "--plugin", "bad.py", "--jobs", 2, "--json")
    assert done.returncode == 1
    (failure,) = json.loads(done.stdout)["failed"]
    assert "bad.py: bad: on_ack at " in json.dumps(failure)


def test_a_queue_that_forgets_a_packet_ends_the_run(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "bad.py").write_text(
        "from narrows.models import QueueDiscipline\n\n\n"
        "class Queue(QueueDiscipline):\n"
        '    name = "bad_queue"\n\n'
        "    def enqueue(self, now_s, packet):\n"
        "        if self.state.admits(packet):\n"
        "            self.fifo.append(packet)\n"
    )
    text = SCENARIO.replace('"fifo"', '"bad_queue"').replace('"bad"', '"cubic"')
    (tmp_path / "bad.toml").write_text(text, encoding="utf-8")
    done = cli("run", tmp_path / "bad.toml", "--plugin", tmp_path / "bad.py")
    assert done.returncode == 2
    assert "bad_queue: dequeue at" in done.stderr
    assert "a packet that is not stored must be passed to drop()" in done.stderr


def test_a_model_may_print_in_a_sweep(tmp_path: Path) -> None:
    plugin(tmp_path, "print('hello')")
    (tmp_path / "sweep.toml").write_text(
        'title = "s"\nscenario = "bad.toml"\n[over]\n"flow[0].cc" = ["bad", "cubic"]\n'
    )
    # A module of the working directory must not be imported in place of one of Python.
    (tmp_path / "json.py").write_text("raise RuntimeError('imported')\n", encoding="utf-8")
    narrows = Path(sys.executable).with_name("narrows")
    words = [narrows, "sweep", "sweep.toml", "--plugin", "bad.py", "--jobs", "1", "--into", "out"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "hello" not in done.stdout
    assert "hello" in done.stderr
