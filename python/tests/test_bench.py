"""The scripts of bench/: invalid arguments and Ctrl-C. The measured values are not tested."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import interrupted

BENCH = Path(__file__).resolve().parents[2] / "bench"
WRONG = {
    "bulk.py": "--rounds",
    "latency.py": "--count",
    "congestion_controls.py": "--seconds",
    "growth.py": "--repeat",
    "live.py": "--seconds",
    "peers/run.py": "--repeat",
    "scale.py": "--repeat",
    "threads.py": "--repeat",
    "sweep.py": "--run",
}


@pytest.mark.parametrize("script", WRONG)
def test_an_invalid_number_is_an_argument_error(script: str) -> None:
    words = [sys.executable, str(BENCH / script), WRONG[script], "0"]
    done = subprocess.run(words, cwd=BENCH, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith(f"error: argument {WRONG[script]}: 0: a whole number from 1\n")


def test_a_missing_scenario_is_reported_once() -> None:
    words = [sys.executable, str(BENCH / "process.py"), "nowhere.toml"]
    done = subprocess.run(words, cwd=BENCH, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "nowhere.toml: no such file or directory\n")


def test_an_unknown_congestion_control_is_an_argument_error() -> None:
    words = [sys.executable, str(BENCH / "congestion_controls.py"), "nagle"]
    done = subprocess.run(words, cwd=BENCH, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "error: there is no congestion control nagle; there are reno, cubic, bbr," in done.stderr


def test_every_script_is_known_and_uses_the_common_module() -> None:
    scripts = {str(file.relative_to(BENCH)) for file in BENCH.rglob("*.py")}
    others = {"common.py", "engines.py", "lab.py", "process.py", "revisions.py"}
    assert scripts == set(WRONG) | others
    # The lab is measured in the browser.
    for script in scripts - {"common.py", "lab.py"}:
        assert "from common import" in (BENCH / script).read_text(encoding="utf-8")


def test_ctrl_c_prints_one_line() -> None:
    waiting = "import common, time; print('begun', flush=True); time.sleep(60)"
    assert interrupted(waiting, BENCH) == (-signal.SIGINT, "stopped\n")
