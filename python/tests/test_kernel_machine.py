"""The engine `linux` with a built kernel; left out where none is built (`narrows kernel build`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import LONG, NARROWS, TINY, Cli, until

import narrows as nw
from narrows.errors import EngineError
from narrows.kernel import store
from narrows.reference import agreement, record
from narrows.reference.families import Family, families
from narrows.runs import engines
from narrows.runs.run import Engine
from narrows.sweeps.sweeping import sweep

NEAR_ENOUGH = 0.1
"""The simulator and the kernel may differ by this."""


@pytest.fixture(autouse=True)
def kernel() -> store.Kernel:
    """The newest kernel without patches."""
    try:
        return store.find(None)
    except EngineError as error:
        pytest.skip(str(error))


def figures(file: Path, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - those of `run`
    """The metrics of a run."""
    return nw.run(file, engine="linux", **options).json


def without_provenance(run: dict[str, Any]) -> str:
    """The part of a result that does not change."""
    return json.dumps({key: value for key, value in run.items() if key != "provenance"})


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A scenario of two seconds."""
    file = tmp_path / "tiny.toml"
    file.write_text(TINY, encoding="utf-8")
    return file


def test_the_same_seed_gives_the_same_bytes(tiny: Path, kernel: store.Kernel) -> None:
    one, two = figures(tiny), figures(tiny)
    assert without_provenance(one) == without_provenance(two)
    assert one["engine"] == "linux"
    assert one["provenance"]["kernel"]["key"] == kernel.key
    assert one["instruments"]["trusted"] is True
    assert one["instruments"]["kernel"].startswith(kernel.release)
    assert one["instruments"]["lateness_us"]["max"] < 10
    assert without_provenance(figures(tiny, seed=8)) != without_provenance(one)


def test_a_run_has_samples_and_a_capture(tiny: Path, tmp_path: Path) -> None:
    capture = tmp_path / "tiny.pcapng"
    run = nw.run(tiny, engine="linux", record=capture)
    assert capture.stat().st_size > 500_000
    assert run.samples.num_rows == 2 * 20
    assert run.pings.num_rows > 90


@pytest.mark.parametrize("queue", ["fifo", "fq_codel", "cake", "pie", "choke"])
def test_the_kernel_and_the_simulator_agree(tmp_path: Path, queue: str) -> None:
    file = tmp_path / "queue.toml"
    buffer = 'buffer = "1bdp"' if queue == "fifo" else ""
    file.write_text(
        f'duration = "20s"\nwarmup = "5s"\n[path]\nrate = "20Mbit"\nrtt = "40ms"\n{buffer}\n'
        f'queue = "{queue}"\n[[flow]]\ncc = "cubic"\n[[probe]]\nkind = "ping"\n'
        'interval = "20ms"\n',
        encoding="utf-8",
    )
    linux, sim = figures(file), nw.run(file).json
    ours, theirs = sim["flows"][0], linux["flows"][0]
    assert theirs["goodput_mbit"] == pytest.approx(ours["goodput_mbit"], rel=NEAR_ENOUGH)
    assert theirs["rtt_ms"]["mean"] == pytest.approx(ours["rtt_ms"]["mean"], rel=NEAR_ENOUGH)


def test_what_the_kernel_cannot_do_is_refused_by_name(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "xcp.toml"
    text = TINY.replace('"cubic"', '"xcp"').replace("[path]", '[path]\nqueue = "xcp"')
    file.write_text(text, encoding="utf-8")
    done = cli("run", str(file), "--engine", "linux")
    assert done.returncode == 2
    assert "kernels do not support xcp" in done.stderr


def test_a_sweep_keeps_the_runs_of_each_engine(tiny: Path, kernel: store.Kernel) -> None:
    over = {"flow.cc": ["reno", "cubic"]}
    into = tiny.with_name("results")
    both: tuple[Engine, ...] = ("sim", "linux")
    rows = [
        row
        for engine in both
        for row in sweep(tiny, over, into=into, engine=engine).run().to_pylist()
    ]
    assert [(row["engine"], row["kernel_key"]) for row in rows[::2]] == [
        ("sim", None), ("sim", None), ("linux", kernel.key), ("linux", kernel.key),
    ]  # fmt: skip
    sim, linux = (sum(row["goodput_mbit"] for row in of) for of in (rows[2:4], rows[6:8]))
    assert linux == pytest.approx(sim, rel=NEAR_ENOUGH)


def test_a_recorded_case_agrees(tmp_path: Path, kernel: store.Kernel) -> None:
    tree = families()["fifo"].cases["fifo-reno-10-20-1"] | {"duration": "4s"}
    family = Family(name="fifo", about="one case", cases={"fifo-short": tree})
    chosen = engines.choose("linux")
    done = record.record({"fifo": family}, chosen, kernel, tmp_path / "r")
    assert (done.recorded, done.failed) == (1, {})
    cases = record.load(done.files)
    assert cases[0].recorded == 3
    (outcome,) = agreement.play(cases, seeds=3)
    assert outcome.agrees, [verdict.json() for verdict in outcome.verdicts if not verdict.agrees]


@pytest.mark.parametrize("words", [["run", "long.toml"], ["sweep", "sweep.toml", "--jobs", "2"]])
def test_ctrl_c_ends_the_machine(tmp_path: Path, kernel: store.Kernel, words: list[str]) -> None:
    (tmp_path / "long.toml").write_text(LONG, encoding="utf-8")
    text = 'scenario = "long.toml"\n[over]\n"flow.cc" = ["reno", "cubic"]\n'
    (tmp_path / "sweep.toml").write_text(text, encoding="utf-8")
    files = {"long.toml", "sweep.toml", "sweep-results"}
    child = subprocess.Popen(
        [NARROWS, *words, "--engine", "linux"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )

    def machines() -> list[str]:
        found = subprocess.run(
            ["pgrep", "-f", f"{kernel.binary}.*{tmp_path}"],
            capture_output=True,
            text=True,
            check=False,
        )
        return found.stdout.split()

    until(lambda: bool(machines()), child)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=30)
    assert (child.returncode, said) == (130, b"stopped\n")
    # The kernel of this host may still be ending the processes.
    for _ in range(200):
        if not machines():
            break
        time.sleep(0.02)
    assert not machines()
    assert {p.name for p in tmp_path.iterdir()} <= files
