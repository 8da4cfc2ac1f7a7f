"""Commands with many runs and another engine: what is stored, shown and repeated.

A simulation takes the place of the virtual machine; `test_kernel_machine.py` runs a kernel.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import TINY

import narrows as nw
from narrows import _core
from narrows.cli import main
from narrows.errors import EngineError, NarrowsError
from narrows.host import live
from narrows.kernel import machine, store
from narrows.runs import engines
from narrows.runs.race import race
from narrows.runs.replications import replicate
from narrows.runs.run import Engine
from narrows.study.study import Answer, Part, Study
from narrows.study.study import run as run_study
from narrows.sweeps.file import load
from narrows.sweeps.sweeping import sweep

NAMES = ("6.12", "6.12+beta")


class Machine:
    """A machine that simulates, and lacks BBRv2."""

    def __init__(self) -> None:
        """It has run nothing."""
        self.runs: list[tuple[str | None, int | None]] = []
        self.at_once, self.most = 0, 0
        self.lock = threading.Lock()
        self.hook: Callable[[Callable[[float, float], object] | None], None] = lambda _: None

    def run(
        self,
        toml: str,
        name: str,
        *,
        kernel: str | None,
        **how: Any,  # noqa: ANN401 - those of `machine.run`
    ) -> tuple[_core.Run, store.Kernel]:
        """As `machine.run`."""
        for option in ("built", "plugins", "queues"):
            how.pop(option, None)
        progress = how.get("progress")
        if "bbr2" in toml:
            raise EngineError("this kernel has no congestion control bbr2")
        with self.lock:
            self.runs.append((kernel, how["seed"]))
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        try:
            self.hook(progress)
            raw = _core.run_toml(toml, name, **how)
        finally:
            with self.lock:
                self.at_once -= 1
        checks = {"trusted": True, "why": [], "kernel": "6.12.9"}
        text = json.dumps(json.loads(raw.json()) | {"engine": "linux", "instruments": checks})
        return Raw(raw, text), store.find(kernel)  # type: ignore[return-value]


class Raw:
    """A run with another text."""

    def __init__(self, raw: _core.Run, text: str) -> None:
        """The run `raw` with the JSON `text`."""
        self._raw, self._text = raw, text

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._raw, name)

    def json(self) -> str:
        """The JSON."""
        return self._text


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Two kernels, and a machine for both."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    binary = tmp_path / "linux"
    binary.write_text("no kernel", encoding="utf-8")
    for number, name in enumerate(NAMES):
        kernel = store.Kernel(
            name=name,
            release="6.12.9",
            key=f"{number:016x}",
            configuration=store.configuration_hash(),
            source="",
            origin="",
            patches={"beta": "0"} if "+" in name else {},
            build_s=1.0,
        )
        store.add(kernel, binary)
        assert asdict(kernel)["name"] == name
    made = Machine()
    monkeypatch.setattr(machine, "run", made.run)
    return made


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.toml"
    file.write_text(TINY, encoding="utf-8")
    return file


def test_a_kernel_without_its_engine_is_an_error(tiny: Path) -> None:
    sweep_file = tiny.with_name("sweep.toml")
    sweep_file.write_text('scenario = "tiny.toml"\n[over]\n"flow.cc" = ["reno"]\n')
    for words in (
        ["run", str(tiny)],
        ["run", str(tiny), "--seeds", "2"],
        ["sweep", str(sweep_file)],
        ["study", "fairness"],
        ["race", "--only", "reno"],
        ["compare", str(tiny), str(tiny)],
    ):
        done = CliRunner().invoke(main, [*words, "--kernel", "6.12"])
        assert done.exit_code == 2, words
        assert "this option requires --engine linux" in done.output, words


def test_replications_use_the_kernel_and_report_it(tiny: Path, fake: Machine) -> None:
    done = CliRunner().invoke(
        main,
        ["run", str(tiny), "--seeds", "2", "--engine", "linux", "--kernel", NAMES[1], "--json"],
    )
    found = json.loads(done.stdout)
    assert found["engine"] == "linux"
    assert found["provenance"]["kernel"]["name"] == NAMES[1]
    assert sorted(fake.runs) == [(f"{1:016x}", 7), (f"{1:016x}", 8)]
    rows = replicate(tiny, seeds=2, engine="linux").rows()
    assert {(row["engine"], row["kernel"]) for row in rows} == {("linux", NAMES[0])}
    assert "provenance" not in replicate(tiny, seeds=2).json()
    with pytest.raises(EngineError, match=r"--kernel 7.3: this kernel is not built"):
        replicate(tiny, seeds=2, engine="linux", kernel="7.3")


def test_results_of_engines_and_kernels_are_stored_separately(
    tiny: Path, fake: Machine, tmp_path: Path
) -> None:
    over = {"flow.cc": ["reno", "cubic"]}
    into = tmp_path / "results"
    each: list[tuple[Engine, str | None]] = [("sim", None), *(("linux", name) for name in NAMES)]
    for engine, kernel in each:
        one = sweep(tiny, over, seeds=2, into=into, engine=engine, kernel=kernel)
        rows = one.run().to_pylist()
        assert len(rows) == 2 * 2 * 2
        assert {(row["engine"], row["kernel"]) for row in rows} == {(engine, kernel)}
        assert not one.failures
    assert len(fake.runs) == 2 * 2 * 2
    again = sweep(tiny, over, seeds=3, into=into, engine="linux", kernel=NAMES[1])
    assert again.run().num_rows == 2 * 3 * 2
    # Only the third seed was missing.
    assert len(fake.runs) == 2 * 2 * 2 + 2


def test_a_metric_receives_the_run_of_the_engine(tiny: Path, fake: Machine, tmp_path: Path) -> None:
    def metric(run: nw.Run) -> dict[str, float | None]:
        return {"samples": float(run.samples.num_rows), "linux": run.json["engine"] == "linux"}

    over = {"path.rtt": ["10ms", "20ms"]}
    one = sweep(
        tiny, over, into=tmp_path / "r", engine="linux", metric=metric, sample_interval="100ms"
    )
    rows = one.run(jobs=1)
    assert rows["linux"].to_pylist() == [1.0] * 4
    assert min(rows["samples"].to_pylist()) > 10
    assert fake.most == 1


def test_a_case_that_the_kernel_cannot_run_is_a_failure(
    tiny: Path, fake: Machine, tmp_path: Path
) -> None:
    text = 'scenario = "tiny.toml"\n[over]\n"flow.cc" = ["reno", "bbr2"]\n'
    tiny.with_name("sweep.toml").write_text(text, encoding="utf-8")
    into = ["--into", str(tmp_path / "r"), "--engine", "linux"]
    words = ["sweep", str(tiny.with_name("sweep.toml")), *into]
    done = CliRunner().invoke(main, [*words, "--json"])
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert found["kernel"]["name"] == NAMES[0]
    shown = CliRunner().invoke(main, words).output
    assert "\n1 run failed:\n  this kernel has no congestion control bbr2: " in shown
    assert [one["reason"] for one in found["failed"]] == [
        "this kernel has no congestion control bbr2"
    ]
    assert found["rows"] == 2
    assert len(fake.runs) == 1


def test_ctrl_c_ends_all_machines_and_the_sweep_continues(
    tiny: Path, fake: Machine, tmp_path: Path
) -> None:
    ended = []
    both = threading.Barrier(2)

    def machine_runs(progress: Callable[[float, float], object] | None) -> None:
        assert progress is not None
        if both.wait(60) == 0:
            return
        try:
            while True:
                progress(0.0, 1.0)
                time.sleep(0.01)
        except KeyboardInterrupt as error:
            ended.append(error)
            raise

    def interrupt(done: int, _failed: int, _planned: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    fake.hook = machine_runs
    one = sweep(tiny, {"flow.cc": ["reno", "cubic"]}, into=tmp_path / "r", engine="linux")
    with pytest.raises(KeyboardInterrupt):
        one.run(jobs=2, progress=interrupt)
    assert (len(ended), fake.at_once) == (1, 0)
    fake.hook = lambda _: None
    assert one.run().num_rows == 4
    # The run that had ended is stored.
    assert len(fake.runs) == 3


def test_memory_limits_the_number_of_machines(
    fake: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = engines.choose("linux")
    monkeypatch.setattr(machine, "most", lambda: 3)
    assert [chosen.jobs(n) for n in (1, 2, 64)] == [1, 2, 3]
    assert engines.choose("live").jobs(64) == 1
    assert engines.SIM.jobs(64) == 64
    monkeypatch.undo()
    monkeypatch.setattr(machine, "_free", lambda _place: 5 * machine.MEMORY // 2)
    assert machine.most() <= 2
    monkeypatch.setattr(machine, "_free", lambda _place: 0)
    assert machine.most() == 1
    assert not fake.runs


def test_other_machines_run_only_the_simulator(tiny: Path, fake: Machine, tmp_path: Path) -> None:
    one = sweep(tiny, {"flow.cc": ["reno"]}, into=tmp_path / "r", engine="linux")
    with pytest.raises(NarrowsError, match=r"--on ray: the engine `linux` runs on this machine"):
        one.run(on="ray")
    assert not fake.runs


def test_a_race_names_congestion_controls_that_the_kernel_lacks(fake: Machine) -> None:
    found = race(
        nw.Path(rate="5Mbit", rtt="20ms", buffer="1bdp"), only=["reno", "bbr2"], duration_s=4,
        seeds=1, engine="linux", kernel=NAMES[1],
    )  # fmt: skip
    assert [lap.cc for lap in found.laps] == ["reno"]
    assert found.refused == {"bbr2": "this kernel has no congestion control bbr2"}
    assert found.json()["kernel"]["name"] == NAMES[1]
    with pytest.raises(EngineError, match="no congestion control bbr2"):
        race(nw.Path(rate="5Mbit", rtt="20ms"), only=["bbr2"], duration_s=4, engine="linux")
    assert {kernel for kernel, _ in fake.runs} == {f"{1:016x}", f"{0:016x}"}


def test_compare_runs_scenarios_with_the_engine(tiny: Path, fake: Machine) -> None:
    words = ["compare", str(tiny), str(tiny), "--engine", "linux"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert fake.runs == [(f"{0:016x}", None)] * 2
    done = CliRunner().invoke(main, [*words, "--seeds", "2", "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    assert json.loads(done.stdout)["kernel"]["name"] == NAMES[0]
    assert len(fake.runs) == 6


def test_a_study_runs_with_the_engine(fake: Machine, tmp_path: Path) -> None:
    scenario = nw.Scenario(
        nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp"), flows=[nw.Flow("cubic")], duration="1s"
    )
    part = Part(scenario=scenario, over={"path.rate": ["5Mbit"]}, seeds=1)
    asked = Study(
        name="one",
        question="Does it run?",
        parts=lambda _quick: {"": part},
        answer=lambda rows: Answer(f"{len(rows['']):d} row.", []),
    )
    found = run_study(asked, into=tmp_path / "r", engine="linux", kernel=NAMES[1]).json()
    assert (found["kernel"]["name"], found["verdict"]) == (NAMES[1], "1 row.")
    assert fake.runs == [(f"{1:016x}", 1)]


def test_a_live_run_that_is_not_trusted_is_repeated(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts = iter([False, False, True, True])
    seen = []

    def run(toml: str, name: str, **how: Any) -> Any:  # noqa: ANN401
        for option in ("built", "plugins", "queues"):
            how.pop(option, None)
        raw = _core.run_toml(toml, name, **how)
        seen.append(how["seed"])
        figures = json.loads(raw.json())
        trusted = next(verdicts)
        figures |= {
            "engine": "live",
            "instruments": {"trusted": trusted, "why": ["late"], "kernel": "6.18.1"},
        }
        return Raw(raw, json.dumps(figures))

    monkeypatch.setattr(live, "run", run)
    one = sweep(tiny, {"flow.cc": ["reno", "cubic"]}, into=tmp_path / "r", engine="live")
    rows = one.run().to_pylist()
    assert seen == [1, 1, 1, 1]
    assert {(row["engine"], row["kernel"]) for row in rows} == {("live", "6.18.1")}
    verdicts = iter([False] * engines.TRIES)
    with pytest.raises(EngineError, match=r"runs failed their self-check \(late\); write"):
        engines.choose("live").run(tiny, seed=1)


def test_a_sweep_file_names_a_kernel_that_is_not_built(tiny: Path, fake: Machine) -> None:
    file = tiny.with_name("sweep.toml")
    file.write_text('scenario = "tiny.toml"\n[over]\n"flow.cc" = ["reno"]\n', encoding="utf-8")
    with pytest.raises(NarrowsError, match="this kernel is not built"):
        load(file, engine="linux", kernel="5.4")
    assert not fake.runs
