"""The package as `pip install narrows` installs it: without extras, and on other systems."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import tomllib
from click.testing import CliRunner
from conftest import ROOT, TINY

from narrows import operating_system
from narrows.cli import main

_SPEC = importlib.util.spec_from_file_location("build_backend", ROOT / "python/build_backend.py")
assert _SPEC is not None
assert _SPEC.loader is not None
build_backend = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(build_backend)

MOST_BYTES = 60_000_000
_NAME = re.compile(r"[\w.-]+")


def default_packages() -> list[importlib.metadata.Distribution]:
    """The package and its dependencies without extras."""
    found: dict[str, importlib.metadata.Distribution] = {}
    wanted = ["narrows"]
    while wanted:
        of = importlib.metadata.distribution(wanted.pop())
        if found.setdefault(of.name.lower(), of) is not of:
            continue
        for line in of.requires or ():
            words = _NAME.match(line)
            if words is not None and ";" not in line:
                wanted.append(words[0])
    return list(found.values())


def test_the_default_installation_is_small() -> None:
    packages = default_packages()
    assert {"click", "narrows", "rich"} <= {package.name.lower() for package in packages}
    size = sum(
        Path(file.locate()).stat().st_size
        for package in packages
        for file in package.files or ()
        if Path(file.locate()).is_file()
    )
    assert size < MOST_BYTES


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess]:
    """Runs `narrows` with no package but those of the default installation."""
    packages, work = (tmp_path_factory.mktemp(name) for name in ("packages", "work"))
    for package in default_packages():
        for top in {file.parts[0] for file in package.files or () if len(file.parts) > 1}:
            from_ = Path(package.locate_file(top))
            if top.isidentifier() and from_.is_dir() and top != "__pycache__":
                (packages / top).symlink_to(from_)
    (work / "tiny.toml").write_text(TINY, encoding="utf-8")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        # -S: without site-packages.
        return subprocess.run(
            [sys.executable, "-S", "-m", "narrows", *words],
            env={"PYTHONPATH": str(packages), "HOME": str(work), "PATH": "/usr/bin:/bin"},
            cwd=work, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip

    return run


@pytest.mark.parametrize(
    "words",
    [
        ["run", "tiny.toml"],
        ["run", "tiny.toml", "--json"],
        ["run", "tiny.toml", "--report", "page.html"],
        ["run", "tiny.toml", "--plot"],
        ["run", "tiny.toml", "--seeds", "2"],
        ["check", "tiny.toml"],
        ["measure", "tiny.toml", "--out", "m.json"],
        ["race", "--rate", "20Mbit", "--rtt", "20ms", "--only", "cubic,reno", "--seeds", "1"],
        ["explain", "--help"],
        ["list", "cc"],
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_commands_need_no_extra(
    alone: Callable[..., subprocess.CompletedProcess[str]], words: list[str]
) -> None:
    done = alone(*words)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["run", "tiny.toml", "--out", "out"], "tables"),
        (["measure", "tiny.toml", "--out", "m.parquet"], "tables"),
        (["plot", "rows.csv", "--x", "a", "--y", "b", "--out", "t.tex"], "tables"),
        (["run", "tiny.toml", "--plot", "p.png"], "plot"),
        (["history"], "history"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else words,
)
def test_other_commands_name_their_extra(
    alone: Callable[..., subprocess.CompletedProcess[str]], words: list[str], extra: str
) -> None:
    done = alone(*words)
    assert done.returncode == 2
    assert f"pip install 'narrows[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["run", "tiny.toml", "--engine", "live"],
        ["run", "tiny.toml", "--engine", "linux"],
        ["shell", "tiny.toml", "--", "true"],
        ["measure", "127.0.0.1"],
        ["latency", "127.0.0.1"],
        ["serve"],
        ["tune", "audit"],
        ["tune", "revert"],
        ["with", "--cc", "reno", "--", "true"],
        ["doctor"],
    ],
    ids=" ".join,
)
def test_commands_that_need_linux_report_it(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(TINY, encoding="utf-8")
    monkeypatch.setattr(operating_system, "LINUX", False)
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2, done.output
    assert "needs Linux" in done.output


# Modules and functions that Windows lacks. `make lint` checks the types of all others.
_WITHOUT_POSIX = """
import os, signal, subprocess, sys, tempfile, multiprocessing
for name in ("fcntl", "pwd", "grp", "termios", "syslog"):
    sys.modules[name] = None
for name in ("sched_getaffinity", "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW",
             "statvfs", "geteuid", "killpg"):
    delattr(os, name)
from narrows import operating_system
assert not operating_system.LOCKS
operating_system.LINUX = False
from narrows.cli import main
main(sys.argv[1:], prog_name="narrows")
"""


@pytest.mark.parametrize(
    "words",
    [
        ["run", "tiny.toml"],
        ["run", "tiny.toml", "--seeds", "2"],
        ["run", "tiny.toml", "--report", "page.html", "--out", "out"],
        ["check", "tiny.toml"],
        ["measure", "tiny.toml", "--out", "m.json"],
        ["race", "--rate", "20Mbit", "--rtt", "20ms", "--only", "cubic,reno", "--seeds", "1"],
        ["advise", "--rate", "20Mbit", "--rtt", "20ms", "--kernel", "cubic,reno", "--for", "bulk"],
        ["sweep", "grid.toml", "--jobs", "2"],
        ["bundle", "recipe.txt", "--out", "b.zip"],
    ],
    ids=lambda words: words[0],
)
def test_the_simulator_runs_without_posix_modules(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY, encoding="utf-8")
    (tmp_path / "grid.toml").write_text(
        'scenario = "tiny.toml"\nseeds = 1\n[over]\n"path.rtt" = ["10ms", "20ms"]\n',
        encoding="utf-8",
    )
    (tmp_path / "recipe.txt").write_text("narrows run tiny.toml\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_POSIX, *words],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_source_distribution_has_all_sources_and_fitting_paths(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / build_backend.build_sdist(str(tmp_path))) as tar:
        tar.extractall(tmp_path, filter="data")
        names = {name.partition("/")[2] for name in tar.getnames()}
        top = next(iter(tar.getnames())).partition("/")[0]
        held = tar.extractfile(f"{top}/pyproject.toml")
        assert held is not None
        project = tomllib.loads(held.read().decode())
    assert {
        "PKG-INFO",
        "Cargo.toml",
        "Cargo.lock",
        "host/src/main.rs",
        "core/src/lib.rs",
        "python/bindings/src/lib.rs",
        "python/narrows/cli/entry.py",
    } <= names
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    assert {f"{member}/Cargo.toml" for member in workspace["members"]} <= names
    assert not any("narrows/bin" in name or "__pycache__" in name for name in names)
    assert project["project"]["readme"] in names
    assert project["tool"]["maturin"]["manifest-path"] in names
    assert f"{project['build-system']['backend-path'][0]}/build_backend.py" in names
    # cargo reads every manifest of the workspace, and looks for the files that they name.
    subprocess.run(
        ["cargo", "metadata", "--no-deps", "--offline", "--quiet", "--format-version", "1"],
        cwd=tmp_path / top, stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    packed = {file for file in names if file.startswith("core/src")}
    assert packed == {
        str(file.relative_to(ROOT)) for file in (ROOT / "core/src").rglob("*") if file.is_file()
    }
