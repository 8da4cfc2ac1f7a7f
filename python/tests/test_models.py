"""User-defined models in Python: registration, every command, provenance."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from conftest import NARROWS, Cli

import narrows as nw
from narrows import _core, models, registry
from narrows.errors import EngineError, NarrowsError, ScenarioError
from narrows.models import plugins
from narrows.runs.race import race

PATH = nw.Path(rate="20Mbit", rtt="40ms", buffer="1bdp")

AIMD = '''\
"""A congestion control and a queue discipline for tests."""

from narrows.models import CongestionControl, QueueDiscipline, parameter


class Aimd(CongestionControl):
    """Additive increase, multiplicative decrease."""

    name = "aimd"
    factor = parameter(0.5, 0.1, 0.95, help="part of the window that remains after a loss")
    quiet = parameter("5ms", "1ms", "1s", help="a time")

    def on_ack(self, window, ack):
        if ack.may_grow and ack.cwnd_limited:
            window.cwnd += ack.delivered * (1 if window.in_slow_start else 1 / window.cwnd)

    def on_loss(self, window, loss):
        window.ssthresh = max(2, window.cwnd * self.factor)

    def describe(self):
        return {"mode": "avoidance", "quiet_s": self.quiet}


class Plain(QueueDiscipline):
    """First in, first out."""

    name = "plain"
'''

SCENARIO = """\
title    = "mine"
duration = "5s"
seed     = 3

[path]
rate   = "20Mbit"
rtt    = "40ms"
buffer = "100p"
queue  = "plain"

[[flow]]
cc = { kind = "aimd", factor = 0.7 }
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A plugin file, and a scenario beside it."""
    file = tmp_path / "aimd.py"
    file.write_text(AIMD, encoding="utf-8")
    (tmp_path / "mine.toml").write_text(SCENARIO, encoding="utf-8")
    return file


@pytest.fixture
def loaded(plugin: Path) -> Iterator[Path]:
    """The plugin file, loaded."""
    models.load(plugin)
    yield plugin
    for of, name in (("cc", "aimd"), ("queue", "plain")):
        _core.unregister(of, name)
    plugins._forget((("cc", "aimd"), ("queue", "plain")))
    registry.forget()


def flow_of(run: nw.Run) -> dict[str, Any]:
    return run.flows[0]


def test_a_model_in_python_runs_and_its_state_is_a_table(loaded: Path) -> None:
    run = nw.run(loaded.with_name("mine.toml"), states=True)
    assert flow_of(run)["cc"] == "aimd"
    assert flow_of(run)["goodput_mbit"] > 17
    states = run.state("aimd0").to_pylist()
    assert states[5]["mode"] == "avoidance"
    assert states[5]["quiet_s"] == pytest.approx(0.005)
    assert run.json["scenario"]["path"]["queue"] == "plain"
    again = nw.run(loaded.with_name("mine.toml"), states=True)
    assert again.samples.equals(run.samples)


def test_a_queue_in_python_is_that_of_narrows(loaded: Path) -> None:
    flows = [nw.Flow("cubic"), nw.Flow("bbr", start="1s")]
    mine, fifo = (
        nw.run(nw.Scenario(nw.Path(rate="20Mbit", rtt="40ms", buffer="60p", queue=queue),
        flows=flows, probes=[nw.Ping(interval="20ms")], duration="4s"))
        for queue in ("plain", "fifo")
    )  # fmt: skip
    assert mine.samples.equals(fifo.samples)
    assert mine.queue_samples.equals(fifo.queue_samples)
    assert mine.json["queue"]["drops"] == fifo.json["queue"]["drops"] > 0


def test_classes_and_suggestions_are_those_of_a_model_of_narrows(loaded: Path) -> None:
    assert nw.cc.Aimd(factor=0.6).tree() == {"kind": "aimd", "factor": 0.6}
    row = next(row for row in registry.table("cc") if row["name"] == "aimd")
    assert row["params"][0]["max"] == 0.95
    flows = [nw.Flow({"kind": "aimd", "factor": 1.5})]
    with pytest.raises(ScenarioError, match="factor"):
        nw.run(nw.Scenario(PATH, flows=flows, duration="1s"))
    with pytest.raises(ScenarioError, match="aimd"):
        nw.run(nw.Scenario(PATH, flows=[nw.Flow("aimdd")], duration="1s"))


def test_the_provenance_names_the_file_and_its_hash(loaded: Path) -> None:
    found = nw.run(loaded.with_name("mine.toml")).json["provenance"]["models"]
    assert set(found) == {"aimd", "plain"}
    assert found["aimd"]["from"] == str(loaded)
    assert len(found["aimd"]["sha256"]) == 64
    plain = nw.run(nw.Scenario(PATH, flows=[nw.Flow("reno")], duration="1s"))
    assert "models" not in plain.json["provenance"]


def test_a_race_and_replications_run_a_model_of_a_plugin(loaded: Path) -> None:
    laps = race(PATH, only=["aimd", "reno"], duration_s=4, seeds=2).laps
    assert [lap.cc for lap in laps] == ["aimd", "reno"]
    found = nw.replicate(loaded.with_name("mine.toml"), seeds=2)
    assert len(found.runs) == 2


def test_a_sweep_repeats_runs_of_a_changed_model(loaded: Path, tmp_path: Path) -> None:
    scenario = nw.Scenario(PATH, flows=[nw.Flow("cubic")], duration="2s")
    over = {"flow.cc": ["aimd", "cubic"], "path.buffer": ["0.5bdp", "1bdp"]}

    def keys() -> set[str]:
        swept = nw.sweep(scenario, over, into=tmp_path / "results")
        rows = swept.run(jobs=2).to_pylist()
        assert not swept.failures
        return {row["key"] for row in rows if row["flow.cc"] == "aimd"}

    first = keys()
    assert len(first) == 2
    loaded.write_text(AIMD + "# another version\n", encoding="utf-8")
    models.load(loaded)
    assert not first & keys()


@pytest.mark.parametrize(
    "words",
    [
        ("run", "mine.toml"),
        ("check", "mine.toml"),
        ("list", "cc", "aimd"),
        ("compare", "mine.toml", "mine.toml", "--seeds", "2"),
        ("race", "--only", "aimd,reno", "--duration", "4s", "--seeds", "1"),
        ("run", "mine.toml", "--report", "page.html", "--out", "out"),
    ],
)
def test_commands_take_a_plugin_and_fail_without_it(
    plugin: Path, cli: Cli, words: tuple[str, ...]
) -> None:
    done = cli(*words, "--plugin", plugin.name)
    assert done.returncode == 0, done.stderr
    without = cli(*words)
    assert without.returncode == 2
    assert "aimd" in without.stderr


def test_a_sweep_and_a_study_take_a_plugin(plugin: Path, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(
        'title = "s"\nscenario = "mine.toml"\n[over]\n"path.buffer" = ["50p", "100p"]\n'
    )
    done = cli("sweep", "sweep.toml", "--plugin", plugin.name, "--jobs", 2, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["failed"] == []
    listed = cli("study", "--plugin", plugin.name)
    assert listed.returncode == 0


def test_a_study_has_the_models_of_a_plugin(loaded: Path) -> None:
    from narrows.study import paths  # noqa: PLC0415

    cases = paths.TOURNAMENT.parts(True)[""].over
    assert "aimd" in {case["flow[0].cc"] for case in cases}  # type: ignore[index]


def test_a_module_is_a_plugin(plugin: Path, tmp_path: Path) -> None:
    command = [str(NARROWS), "run", "mine.toml", "--plugin", "aimd", "--json"]
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["provenance"]["models"]["aimd"]["from"] == "aimd"


def test_a_scenario_never_loads_code(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "evil.py").write_text(
        "from pathlib import Path\nPath('ran').touch()\n" + AIMD, encoding="utf-8"
    )
    (tmp_path / "aimd.py").write_text((tmp_path / "evil.py").read_text(), encoding="utf-8")
    for text in (
        SCENARIO,
        'plugin = "evil.py"\n' + SCENARIO,
        SCENARIO.replace('"aimd"', '"evil.py"'),
        SCENARIO.replace('"aimd"', '"evil:Aimd"'),
        SCENARIO.replace('"plain"', '"./evil"'),
        '[plugins]\naimd = "evil.py"\n' + SCENARIO,
    ):
        (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
        for command in ("run", "check", "compare"):
            done = cli(command, "mine.toml")
            assert done.returncode == 2, text
    assert not (tmp_path / "ran").exists()


def installed(folder: Path, value: str, code: str = AIMD) -> None:
    """A package with an entry point."""
    (folder / "own_models.py").write_text(code, encoding="utf-8")
    about = folder / "own_models-1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-models\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text(f"[narrows.models]\naimd = {value}\n")


def by_package(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(folder / "packages")}
    return subprocess.run(
        [str(NARROWS), *words], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def test_an_installed_package_is_found_by_its_model(plugin: Path, tmp_path: Path) -> None:
    (tmp_path / "packages").mkdir()
    installed(tmp_path / "packages", "own_models:Aimd")
    text = SCENARIO.replace('queue  = "plain"\n', "")
    plugin.with_name("mine.toml").write_text(text, encoding="utf-8")
    done = by_package(tmp_path, "run", "mine.toml", "--json")
    assert done.returncode == 0, done.stderr
    about = json.loads(done.stdout)["provenance"]["models"]["aimd"]
    assert (about["from"], about["version"]) == ("package own-models", "1.2")
    race_done = by_package(
        tmp_path, "race", "--only", "aimd", "--duration", "4s", "--seeds", "1", "--json"
    )
    assert race_done.returncode == 0, race_done.stderr
    assert "aimd" in by_package(tmp_path, "list", "cc").stdout


def test_a_package_that_fails_is_named(plugin: Path, tmp_path: Path) -> None:
    (tmp_path / "packages").mkdir()
    installed(tmp_path / "packages", "own_models:Aimd", "1 / 0\n")
    (points,) = (tmp_path / "packages").glob("*/entry_points.txt")
    with points.open("a", encoding="utf-8") as more:
        more.write("other = own_models:Other\n")
    done = by_package(tmp_path, "run", "mine.toml")
    assert done.returncode == 2
    assert "package own-models: ZeroDivisionError: division by zero" in done.stderr
    assert "Traceback" not in done.stderr
    listed = by_package(tmp_path, "list", "cc")
    assert listed.returncode == 0
    assert listed.stderr.count("package own-models") == 1


def test_the_version_does_not_search_for_packages(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['narrows', '--version']\n"
        "from narrows import cli\n"
        "try: cli.main()\nexcept SystemExit: pass\n"
        "print([m for m in sys.modules if m.startswith(('narrows.models.', 'importlib.metadata'))"
        " if m != 'narrows.models.loaded'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


class Vector(models.CongestionControl):
    """The ACKs of an RTT at once."""

    name = "vector"
    intervals: list[Any] = []  # noqa: RUF012

    def on_interval(self, window: _core.Window, acks: np.ndarray) -> None:
        """Grows by a packet per interval."""
        Vector.intervals.append(acks)
        if not acks["lost"].any():
            window.cwnd += acks["delivered"].sum() if window.in_slow_start else 1


def test_the_vectorised_variant_has_every_ack_once() -> None:
    models.register(Vector)
    try:
        Vector.intervals.clear()
        run = nw.run(nw.Scenario(PATH, flows=[nw.Flow("vector")], duration="5s"))
        acks = np.concatenate(Vector.intervals)
        assert flow_of(run)["goodput_mbit"] > 15
        assert 60 < len(Vector.intervals) < 140
        assert np.all(np.diff(acks["time_s"]) >= 0)
        assert acks["delivered"].sum() > 5000
        assert np.nanmin(acks["rtt_s"]) > 0.0399
    finally:
        models.unregister(Vector)


def test_a_class_of_this_program_works_in_a_sweep(tmp_path: Path) -> None:
    models.register(Vector)
    try:
        scenario = nw.Scenario(PATH, flows=[nw.Flow("vector")], duration="1s")
        swept = nw.sweep(scenario, {"path.rate": ["5Mbit", "10Mbit"]}, into=tmp_path)
        assert swept.run().num_rows == 2
        assert not swept.failures
    finally:
        models.unregister(Vector)


def test_the_content_of_plugins_is_sent_to_other_machines(loaded: Path) -> None:
    (sent,) = plugins.cargo(content=True)
    assert sent.content == loaded.read_bytes()
    loaded.unlink()
    _core.unregister("cc", "aimd")
    plugins.LOADED.clear()
    sent.unpack()
    assert nw.run(nw.Scenario(PATH, flows=[nw.Flow("aimd")], duration="1s")).flows


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("x = 1\n", "has no model"),
        ("1 / 0\n", "ZeroDivisionError: division by zero (bad.py:1)"),
        ("def f(:\n", "(bad.py:1)"),
        (AIMD.replace('"aimd"', '"cubic"'), "narrows has a model of this name"),
        (AIMD.replace('"aimd"', '"My CC"'), "lower-case letters"),
        (AIMD.replace("def on_ack", "def on_nothing"), "neither on_ack nor on_interval"),
        (AIMD.replace("def on_ack", "async def on_ack"), "write def on_ack(self, window, ack)"),
        (AIMD.replace("def on_ack(self, window, ack)", "def on_ack(self, window)"), "arguments"),
        (AIMD + "    enqueue = 5\n", "write def enqueue(self, now_s, packet)"),
        (AIMD.replace("0.5, 0.1, 0.95", "5.0, 0.1, 0.95"), "default 5.0 is not between"),
        (AIMD.replace("0.5, 0.1, 0.95", "float('nan'), 0.1, 0.95"), "not a finite number"),
        (
            AIMD.replace("0.5, 0.1, 0.95", '"5ms", "10ms", "1s"'),
            "factor = 5ms: the default is not between 10ms and 1s",
        ),
        (AIMD.replace('    name = "aimd"', '    name = "aimd"\n    interval = -1.0'), "at least 0"),
        (AIMD.replace("0.5, 0.1, 0.95", '"5ms", "1xs"'), "1xs"),
        (AIMD + "    def __init__(self):\n        self.x = missing\n", "NameError"),
    ],
)
def test_a_plugin_with_an_error_names_its_file(
    cli: Cli, tmp_path: Path, code: str, problem: str
) -> None:
    (tmp_path / "bad.py").write_text(code, encoding="utf-8")
    (tmp_path / "mine.toml").write_text(SCENARIO, encoding="utf-8")
    done = cli("run", "mine.toml", "--plugin", "bad.py")
    assert done.returncode == 2
    assert done.stderr.startswith("bad.py: "), done.stderr
    assert problem in done.stderr
    assert "Traceback" not in done.stderr


def test_two_plugins_with_a_model_of_one_name_are_refused(
    plugin: Path, cli: Cli, tmp_path: Path
) -> None:
    other = tmp_path / "other.py"
    other.write_text(AIMD, encoding="utf-8")
    done = cli("run", plugin.with_name("mine.toml"), "--plugin", plugin, "--plugin", other)
    assert done.returncode == 2
    assert f"{plugin} and {other} both contain the model aimd" in done.stderr


def test_a_missing_or_invalid_plugin_is_an_error(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SCENARIO, encoding="utf-8")
    for name, problem in (
        ("missing.py", "no such file"),
        ("missing.so", "no such file"),
        ("no_such_module_here", "No module named 'no_such_module_here'\n"),
        ("a/b.txt", "no such file"),
        ("mine.toml", "a plugin is a Python file (.py) or a shared library (.so)"),
    ):
        done = cli("list", "--plugin", name)
        assert done.returncode == 2
        assert done.stderr.startswith(f"{name}: ")
        assert problem in done.stderr


@pytest.mark.parametrize("engine", ["live", "linux"])
def test_engines_of_real_packets_refuse_models_in_python(
    loaded: Path, engine: Literal["live", "linux"]
) -> None:
    why = rf"aimd\.py: the congestion control of --engine {engine} is the kernel's; write --engine"
    with pytest.raises(EngineError, match=why):
        nw.run(loaded.with_name("mine.toml"), engine=engine)
    flows = [nw.Flow("cubic")]
    queued = nw.Scenario(
        nw.Path(rate="20Mbit", rtt="40ms", queue="plain"), flows=flows, duration="1s"
    )
    with pytest.raises(NarrowsError, match=rf"plain: .* --engine {engine} runs no Python; write"):
        nw.run(queued, engine=engine)
