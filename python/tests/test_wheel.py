"""The wheel as it is installed elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from browser import Opened, chromium
from conftest import ROOT, TINY

import narrows
from narrows.render.picture import KEYS


def test_the_stub_agrees_with_the_binary(tmp_path: Path) -> None:
    # The stub in a package of its own: mypy would otherwise check all of narrows first.
    stubs = tmp_path / "stubs/narrows"
    stubs.mkdir(parents=True)
    (stubs / "__init__.pyi").touch()
    shutil.copy(Path(narrows.__file__).with_name("_core.pyi"), stubs)
    config = ROOT / "python/pyproject.toml"
    command = [sys.executable, "-m", "mypy.stubtest", "--mypy-config-file", config, "narrows._core"]
    env = os.environ | {"MYPYPATH": str(stubs.parent)}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_wheel_works_in_an_empty_environment_elsewhere(tmp_path: Path) -> None:
    (wheel,) = (ROOT / "target/wheels").glob("narrows-*.whl")
    there = tmp_path / "elsewhere"
    venv.create(there, with_pip=False)
    (site,) = there.glob("lib/python*/site-packages")
    # Dependencies are lent by the environment of the tests; the package itself must come out of the
    # wheel.
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        there / "bin/python",
        "install",
        "--quiet",
        "--no-deps",
        wheel,
    ]
    subprocess.run(pip, check=True, capture_output=True)
    (site / "lent.pth").write_text(str(Path(pytest.__file__).parents[1]), encoding="utf-8")

    (tmp_path / "tiny.toml").write_text(TINY, encoding="utf-8")
    done = subprocess.run(
        [there / "bin/narrows", "run", "tiny.toml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("2 cubic flows used ")
    report = [there / "bin/narrows", "run", "tiny.toml", "--quiet", "--report", "page.html"]
    subprocess.run(report, cwd=tmp_path, check=True)
    where = [there / "bin/python", "-c", "import narrows; print(narrows.__file__)"]
    assert subprocess.run(
        where, cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.startswith(str(there))

    with chromium() as browser:
        opened = Opened(browser, tmp_path / "page.html")
        assert opened.wrong == []
        assert opened.page.inner_text("h1") == "tiny"
        assert opened.page.locator("#pictures figure.chart").count() == len(KEYS)
