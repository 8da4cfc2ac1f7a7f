"""`narrows serve` and `narrows measure` over real packets, and the path model of a path."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import BEGUN, NARROWS, until
from test_live import HOST, ready
from test_shell import shell

from narrows import files
from narrows.path_model import infer


@pytest.fixture
def far() -> Iterator[str]:
    """The port of a server on this machine."""
    command = [NARROWS, "serve", "--port", "0", "--bind", "127.0.0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        if "serving at" not in line:
            child.kill()
            pytest.skip(f"no server: {line.strip()}")
        yield line.strip().rpartition(":")[2]
        child.send_signal(signal.SIGINT)
        assert child.wait(10) in {0, 130}


def test_a_measurement_on_this_machine_has_the_rate_of_the_pacing(far: str, tmp_path: Path) -> None:
    made = tmp_path / "m.json"
    words = [
        "--port",
        far,
        "--test",
        "tcp_down",
        "--duration",
        "1s",
        "--idle",
        "500ms",
        "--pacing",
        "20Mbit",
    ]
    command = [
        NARROWS,
        "measure",
        "127.0.0.1",
        *words,
        "--no-history",
        "--no-model",
        "--out",
        str(made),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "The goodput was " in done.stdout
    assert "Measurement error: pings left" in done.stdout
    measured = files.read(made)
    assert measured.rate_mbit("down") == pytest.approx(20, rel=0.2)
    assert measured.latency("idle").n >= 20


def test_pings_are_handshakes_where_udp_is_blocked(tmp_path: Path) -> None:
    ready("cubic")
    made = tmp_path / "m.json"
    # Answers of the server find no route.
    blocked = f"ip rule add ipproto udp sport 5201 blackhole && exec {HOST} serve"
    measure = f"{NARROWS} measure far --test ping --duration 2s --idle 2s --no-history --no-model"
    done = shell(
        "--rate", "20Mbit", "--rtt", "40ms", "--far", blocked,
        command=[*measure.split(), "--out", str(made)],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "because UDP to the server's port is blocked" in done.stdout
    measured = files.read(made)
    assert [train.protocol for train in measured.pings] == ["tcp"]
    assert measured.latency("idle").mean == pytest.approx(40, abs=4)


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("page", "A page of 31 objects loaded in "),
        ("page_sequential", "A page of 62 objects in sequence loaded in "),
        ("voip", "The estimated voice quality is MOS "),
    ],
)
def test_each_test_prints_its_main_metric_idle_and_under_load(
    far: str, test: str, words: str
) -> None:
    asked = [
        "--port",
        far,
        "--test",
        test,
        "--duration",
        "2s",
        "--idle",
        "1s",
        "--pacing",
        "20Mbit",
    ]
    command = [NARROWS, "measure", "127.0.0.1", *asked, "--no-history", "--no-model"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    line = next((line for line in done.stdout.splitlines() if words in line), "")
    assert " idle and " in line or " without load and " in line, done.stdout
    assert " under load" in line, done.stdout


@pytest.mark.parametrize("end", ["near", "far"])
def test_an_outage_before_the_first_load_keeps_the_idle_results(end: str, tmp_path: Path) -> None:
    ready("cubic")
    begun, made, history = tmp_path / "begun", tmp_path / "m.json", tmp_path / "history.duckdb"
    script = tmp_path / "measure.py"
    script.write_text(BEGUN, encoding="utf-8")
    cut = f"until test -e {begun}; do sleep 0.05; done; ip link set dev e0 down"
    measure = (
        f"{sys.executable} {script} {begun} measure far --test tcp_down --idle 5s "
        f"--duration 2s --no-model "
        f"--out {made}"
    )
    far = f"{HOST} serve" if end == "near" else f"({cut}) & exec {HOST} serve"
    near = f"({cut}) & {measure}" if end == "near" else measure
    environment = {**os.environ, "NARROWS_HISTORY": str(history)}
    words = [NARROWS, "shell", "--rate", "20Mbit", "--rtt", "20ms", "--quiet", "--far", far]
    done = subprocess.run(
        [*words, "--", "sh", "-c", near],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    assert "The idle RTT was " in done.stdout
    assert "The measurement lost contact with the far host after " in done.stdout
    assert "Connectivity was lost from " in done.stdout
    assert "The load did not start: " in done.stdout
    measured = files.read(made)
    assert (measured.stopped_by, measured.flows) == ("lost", [])
    assert measured.latency("idle").n >= 50
    told = subprocess.run(
        [NARROWS, "history", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if told.returncode == 0:
        assert json.loads(told.stdout)["host"] == "far"


def stopped(far: str, folder: Path, *words: str) -> tuple[int, str]:
    """The exit code and the words of a measurement that gets Ctrl-C once it has lasted for two
    seconds.
    """
    begun = folder / "begun"
    asked = ["measure", "127.0.0.1", "--port", far, "--duration", "60s", "--no-history", *words]
    command = [sys.executable, "-c", BEGUN, str(begun), *asked]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        until(begun.exists, child)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=20)
        return child.returncode, out


def test_ctrl_c_ends_a_measurement_and_keeps_the_idle_results(far: str, tmp_path: Path) -> None:
    made = tmp_path / "m.json"
    code, out = stopped(far, tmp_path, "--test", "ping", "--out", str(made))
    assert code == 130
    assert "The measurement was stopped after " in out and "The idle RTT was " in out  # noqa: PT018
    measured = files.read(made)
    assert measured.interrupted
    assert measured.latency("idle").n >= 20


def test_ctrl_c_under_load_keeps_the_load(far: str, tmp_path: Path) -> None:
    made = tmp_path / "m.json"
    words = ["--test", "bidir", "--idle", "200ms", "--pacing", "20Mbit"]
    code, out = stopped(far, tmp_path, *words, "--out", str(made))
    assert code == 130
    assert "The measurement was stopped after " in out and "The goodput was " in out  # noqa: PT018
    measured = files.read(made)
    assert measured.interrupted
    assert {flow.direction for flow in measured.flows} == {"up", "down"}
    assert all((flow.goodput_mbit or 0) > 1 for flow in measured.flows)


def test_the_path_model_of_an_emulated_path_is_that_path(tmp_path: Path) -> None:
    ready("cubic")
    path = tmp_path / "path.toml"
    path.write_text(
        'duration = "60s"\n[path]\nrate = "20Mbit"\nrtt = "40ms"\nbuffer = "150kB"\n'
        '[path.reverse]\nrate = "10Mbit"\nqueue = "fq_codel"\n[[flow]]\ncc = "cubic"\n',
        encoding="utf-8",
    )
    seen, made = tmp_path / "seen.json", tmp_path / "m.json"
    measure = [
        str(NARROWS), "measure", "far", "--cc", "cubic", "--duration", "5s", "--idle", "1s",
        "--no-history", "--no-model", "--quiet", "--out", str(made),
    ]  # fmt: skip
    done = shell(
        path, "--quiet", "--json", seen, "--far", f"{HOST} serve --net-admin", command=measure
    )
    assert done.returncode == 0, done.stderr
    instruments = json.loads(seen.read_text(encoding="utf-8"))["instruments"]
    if not instruments["trusted"]:
        pytest.skip(f"not to be trusted: {'; '.join(instruments['why'])}")
    measured = files.read(made)
    if (measured.json["own_error"]["lateness_ms"]["p50"] or 0) > 1:
        pytest.skip("this machine was too busy to ping in time")
    found = infer(measured)
    # Download is towards near: [path] is what near receives.
    up, down = found.directions["up"], found.directions["down"]
    assert down.rate.value == pytest.approx(20, rel=0.05)
    assert up.rate.value == pytest.approx(10, rel=0.05)
    assert found.rtt.value == pytest.approx(40, abs=1)
    assert (down.family, up.family) == ("drop-tail", "fair")
    assert down.depth.value == pytest.approx(150e3, rel=0.15)
