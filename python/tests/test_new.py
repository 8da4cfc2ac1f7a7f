"""`narrows new`, and models in Rust: the skeletons are built, tested and run."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import NARROWS, ROOT, Cli

CARGO = shutil.which("cargo")
needs_cargo = pytest.mark.skipif(CARGO is None, reason="cargo is not installed")

FAULTS = """
    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        if ev.now.as_s() > 0.5 {
            match self.increase as u32 {
                1 => panic!("no more ideas"),
                2 => loop { std::hint::black_box(()); },
                3 => {
                    w.cwnd = (f64::NAN * f64::from(w.cwnd)) as u32;
                    return;
                }
                4 => std::process::abort(),
                _ => {}
            }
        }
"""


def cargo(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    assert CARGO is not None
    env = os.environ | {"CARGO_TARGET_DIR": str(folder.parent / "target")}
    return subprocess.run(
        [CARGO, *words, "--offline", "--quiet"],
        cwd=folder, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(NARROWS), *words], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both skeletons in Rust, built: a folder with `cc`, `queue` and their libraries. The processes
    of one run of the tests build them once.
    """
    mine, base = tmp_path_factory.mktemp("rust"), tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    shared = base / "built"
    with (base / "built.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            build(mine)
            shutil.rmtree(mine / "target")
            mine.rename(shared)
    # The tests write files, so each process has its own copy.
    shutil.copytree(shared, mine, dirs_exist_ok=True)
    return mine


def build(folder: Path) -> None:
    """Writes both skeletons into a folder, and builds them."""
    for kind in ("cc", "queue"):
        core = str(ROOT / "core")
        done = run(
            folder, "new", kind, f"own_{kind}", "--lang", "rust", "--dir", kind, "--core", core
        )
        assert done.returncode == 0, done.stderr
        made = cargo(folder / kind, "build")
        assert made.returncode == 0, made.stderr
    source = folder / "cc" / "src" / "lib.rs"
    good = source.read_text(encoding="utf-8")
    head = "\n    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {\n"
    assert head in good
    shutil.copy(folder / "target/debug/libown_cc.so", folder / "good.so")
    source.write_text(good.replace(head, FAULTS).replace("own_cc", "bad_cc"), encoding="utf-8")
    made = cargo(folder / "cc", "build")
    assert made.returncode == 0, made.stderr
    shutil.copy(folder / "target/debug/libown_cc.so", folder / "bad.so")
    source.write_text(good, encoding="utf-8")
    shutil.copy(folder / "target/debug/libown_queue.so", folder / "queue.so")
    (folder / "cc.toml").write_text((folder / "cc/own_cc.toml").read_text())
    (folder / "queue.toml").write_text((folder / "queue/own_queue.toml").read_text())


@needs_cargo
def test_a_congestion_control_in_rust_is_one_of_narrows(built: Path) -> None:
    done = run(built, "run", "cc.toml", "--plugin", "good.so", "--json", "--out", "out")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["flows"][0]["cc"] == "own_cc"
    assert figures["flows"][0]["goodput_mbit"] > 17
    about = figures["provenance"]["models"]["own_cc"]
    assert about["from"] == "good.so"
    assert len(about["sha256"]) == 64
    listed = run(built, "list", "cc", "own_cc", "--plugin", "good.so")
    assert "factor = 0.5  [0.1 to 0.95]" in listed.stdout


@needs_cargo
def test_a_queue_discipline_in_rust_limits_the_delay(built: Path) -> None:
    done = run(built, "run", "queue.toml", "--plugin", "queue.so", "--json")
    assert done.returncode == 0, done.stderr
    queue = json.loads(done.stdout)["queue"]
    assert queue["delay_ms"]["p95"] < 25
    assert queue["drops"] > 0


@needs_cargo
def test_rust_in_a_sweep_and_a_race(built: Path, tmp_path: Path) -> None:
    (built / "sweep.toml").write_text(
        'title = "s"\nscenario = "cc.toml"\n[over]\n"path.buffer" = ["0.5bdp", "1bdp"]\n'
    )
    words = ("--plugin", "good.so", "--json")
    swept = run(built, "sweep", "sweep.toml", "--jobs", "2", "--into", str(tmp_path), *words)
    assert swept.returncode == 0, swept.stderr
    raced = run(built, "race", "--only", "own_cc", "--duration", "4s", "--seeds", "1", *words)
    assert raced.returncode == 0, raced.stderr


@needs_cargo
@pytest.mark.parametrize(
    ("increase", "problem"),
    [
        (1, r"panic: no more ideas \(src/lib\.rs:\d+\)"),
        (2, r"did not return within 5 s of processor time"),
        (3, r"cwnd is 0"),
    ],
)
def test_a_fault_in_rust_names_the_library(built: Path, increase: int, problem: str) -> None:
    text = (built / "cc.toml").read_text().replace("own_cc", "bad_cc")
    (built / "bad.toml").write_text(text.replace("factor = 0.7", f"increase = {increase}"))
    done = run(built, "run", "bad.toml", "--plugin", "bad.so")
    assert done.returncode == 2, done.stderr
    assert re.match(rf"bad\.so: bad_cc: on_ack at 0\.5\d* s: {problem}", done.stderr), done.stderr


@needs_cargo
def test_a_loop_in_rust_ends_its_case_of_a_sweep_only(built: Path, tmp_path: Path) -> None:
    (built / "sweep2.toml").write_text(
        'title = "s"\nscenario = "bad.toml"\n[over]\n"flow[0].cc" = '
        '[{ kind = "bad_cc", increase = 2 }, "cubic", "reno"]\n'
    )
    text = (built / "cc.toml").read_text().replace("own_cc", "bad_cc")
    (built / "bad.toml").write_text(text)
    swept = run(
        built, "sweep", "sweep2.toml", "--jobs", "1", "--into", str(tmp_path), "--json",
        "--plugin", "bad.so",
    )  # fmt: skip
    assert swept.returncode == 1
    found = json.loads(swept.stdout)
    assert len(found["failed"]) == 1
    assert "bad.so: bad_cc: on_ack" in json.dumps(found["failed"])


def on_ray(folder: Path, over: str, *plugins: str) -> dict[str, Any]:
    """The JSON of a sweep on a Ray cluster that the command starts."""
    pytest.importorskip("ray", reason="Ray is not installed: make ray")
    (folder / "ray.toml").write_text(f'title = "r"\nscenario = "cc.toml"\n[over]\n{over}\n')
    words = [word for plugin in plugins for word in ("--plugin", plugin)]
    quiet = {"RAY_BACKEND_LOG_LEVEL": "fatal", "RAY_USAGE_STATS_ENABLED": "0"}
    # A cluster of another test must not be joined.
    kept = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    done = subprocess.run(
        [str(NARROWS), "sweep", "ray.toml", "--on", "ray", "--into", "on-ray", "--json", *words],
        cwd=folder, capture_output=True, text=True, check=False, timeout=300, env=kept | quiet,
    )  # fmt: skip
    assert done.returncode in {0, 1}, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@needs_cargo
def test_models_in_rust_and_python_run_on_ray(built: Path) -> None:
    (built / "py.py").write_text(
        "from narrows.models import CongestionControl\n\n\nclass Py(CongestionControl):\n"
        '    name = "py"\n\n    def on_ack(self, window, ack):\n        window.cwnd += 0.1\n'
    )
    over = '"flow.cc" = ["own_cc", "py"]\n"path.queue" = ["own_queue", "fifo"]'
    found = on_ray(built, over, "good.so", "queue.so", "py.py")
    assert (found["rows"], found["failed"]) == (4, [])


@needs_cargo
def test_a_crash_on_ray_ends_only_its_case_and_names_the_library(built: Path) -> None:
    cases = ", ".join(f"{{ kind = 'own_cc', factor = 0.{n} }}" for n in range(2, 8))
    over = f'"flow.cc" = [{cases}, {{ kind = "bad_cc", increase = 4 }}]'
    found = on_ray(built, over, "good.so", "bad.so")
    (failure,) = found["failed"]
    assert failure["reason"].startswith("the process that ran it died")
    assert failure["reason"].endswith("; the run used the plugin of bad_cc (bad.so)")
    assert found["rows"] == 6


@needs_cargo
def test_a_plugin_of_another_build_is_refused(built: Path) -> None:
    library = (built / "good.so").read_bytes()
    tag = re.search(rb"interface 1 ([0-9a-f]{16})|([0-9a-f]{16}), rustc", library)
    assert tag is not None
    number = tag[1] or tag[2]
    (built / "old.so").write_bytes(library.replace(number, b"0" * 16))
    done = run(built, "run", "cc.toml", "--plugin", "old.so")
    assert done.returncode == 2
    assert done.stderr.startswith("old.so: was built for another narrows or by another compiler")
    assert "interface 1 0000000000000000" in done.stderr
    assert "build the plugin again" in done.stderr


def test_another_library_is_no_plugin(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "text.so").write_text("no library")
    done = cli("list", "--plugin", "text.so")
    assert done.returncode == 2
    assert done.stderr.startswith("text.so: cannot be loaded")


@pytest.mark.parametrize("kind", ["cc", "queue"])
def test_a_skeleton_in_python_works_as_its_readme_says(kind: str, tmp_path: Path, cli: Cli) -> None:
    made = cli("new", kind, "own")
    assert made.returncode == 0, made.stderr
    folder = tmp_path / "own"
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_own.py"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout
    readme = (folder / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"\$ narrows (.*)", readme)
    assert len(commands) == 2
    for command in commands:
        done = run(folder, *command.split())
        assert done.returncode == 0, done.stderr


def test_the_skeleton_in_rust_without_a_checkout_names_the_crates(tmp_path: Path) -> None:
    from narrows.models.skeleton import Skeleton  # noqa: PLC0415

    Skeleton(kind="cc", name="own", language="rust", folder=tmp_path / "own").write()
    manifest = (tmp_path / "own" / "Cargo.toml").read_text(encoding="utf-8")
    assert re.search(r'narrows-plugin = "\d+\.\d+"', manifest)


def test_nothing_is_overwritten_and_names_are_checked(tmp_path: Path, cli: Cli) -> None:
    assert cli("new", "cc", "own").returncode == 0
    (tmp_path / "own" / "own.py").write_text("mine")
    again = cli("new", "cc", "own")
    assert again.returncode == 2
    assert "own: exists" in again.stderr
    assert (tmp_path / "own" / "own.py").read_text() == "mine"
    for name, problem in (("cubic", "my_cubic"), ("Own", "lower-case"), ("class", "lower-case")):
        wrong = cli("new", "cc", name)
        assert wrong.returncode == 2
        assert problem in wrong.stderr
    assert cli("new", "cc", "b", "--core", ROOT / "core").returncode == 2
    core = cli("new", "cc", "b", "--lang", "rust", "--core", tmp_path)
    assert "--core" in core.stderr
