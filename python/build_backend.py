"""The build backend of the package: maturin, and the program `narrows-host`.

A wheel for Linux contains `narrows-host`, which is built by cargo from the same sources. A source
distribution contains these sources: the crates, their lock file and the package. In a source
distribution the `pyproject.toml` is at the top, so its paths begin with `python/` there.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import maturin

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def _members() -> list[str]:
    """Returns every member of the workspace, because cargo reads their manifests."""
    manifest = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    # Python 3.10 has no module for TOML.
    listed = re.search(r"^members = \[(.*?)\]", manifest, re.MULTILINE | re.DOTALL)
    if listed is None:
        raise RuntimeError("Cargo.toml: the list `members` is missing")
    return re.findall(r'"(.*?)"', listed[1])


_PATHS = {
    'backend-path = ["."]': 'backend-path = ["python"]',
    'license-files = ["LICENSE-*"]': 'license-files = ["python/LICENSE-*"]',
    'readme = "README.md"': 'readme = "python/README.md"',
    'manifest-path = "bindings/Cargo.toml"': 'manifest-path = "python/bindings/Cargo.toml"',
    'python-source = "."': 'python-source = "python"',
    'data = "narrows.data"': 'data = "python/narrows.data"',
    'path = "narrows/bin/narrows-host"': 'path = "python/narrows/bin/narrows-host"',
}
"""Lines of `pyproject.toml`, and their form in a source distribution."""

_BUILT = {"target", "__pycache__", "node_modules"}
"""Names of folders with files that are built."""

_BUILT_IN_PACKAGE = ("bin", "lab", "adapters")
"""Folders of the package `narrows` with files that are built."""

_EPOCH = 315_532_800
"""1980-01-01, the time of every file, so that equal sources give equal archives."""

get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
prepare_metadata_for_build_wheel = maturin.prepare_metadata_for_build_wheel


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Builds `narrows-host`, where it can run, and the wheel."""
    if sys.platform.startswith("linux"):
        _build_host()
    return str(maturin.build_wheel(wheel_directory, config_settings, metadata_directory))


def _build_host() -> None:
    command = ["cargo", "build", "--release", "--locked", "--package", "narrows-host"]
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    subprocess.run([*command, "--target-dir", target], cwd=ROOT, check=True, stdout=sys.stderr)
    to = HERE / "narrows/bin/narrows-host"
    to.parent.mkdir(exist_ok=True)
    shutil.copy2(target / "release/narrows-host", to)
    # Debugging information is most of the program.
    if shutil.which("strip"):
        subprocess.run(["strip", to], check=True)


def get_requires_for_build_sdist(_config_settings: dict[str, Any] | None = None) -> list[str]:
    """Nothing: the archive is written here."""
    return []


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """Writes the source distribution: crates, lock file, package and metadata."""
    # maturin's functions call its program, which is beside the interpreter outside of pip, too.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    held = Path(sdist_directory)
    made = HERE / maturin.prepare_metadata_for_build_wheel(str(held), config_settings)
    about = held / made.name
    metadata = (about / "METADATA").read_bytes()
    shutil.rmtree(about)
    name = about.name.removesuffix(".dist-info")
    archive = held / f"{name}.tar.gz"
    with (
        archive.open("wb") as plain,
        gzip.GzipFile("", "wb", fileobj=plain, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        _add(tar, f"{name}/PKG-INFO", metadata)
        _add(tar, f"{name}/pyproject.toml", _pyproject().encode())
        for file in _sources():
            _add(tar, f"{name}/{file.relative_to(ROOT)}", file.read_bytes())
    return archive.name


def _pyproject() -> str:
    text = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    for here, there in _PATHS.items():
        if text.count(here) != 1:
            raise RuntimeError(f"pyproject.toml: `{here}` is needed exactly once")
        text = text.replace(here, there)
    return text


def _sources() -> list[Path]:
    found = [ROOT / "Cargo.toml", ROOT / "Cargo.lock"]
    found += [HERE / name for name in ("build_backend.py", "README.md")]
    found += HERE.glob("LICENSE-*")
    for folder in (*_members(), "python/narrows", "python/narrows.data"):
        for file in (ROOT / folder).rglob("*"):
            if file.is_file() and not _is_built(file):
                found.append(file)
    return sorted(
        file for file in found if not _is_test_data(file) and file.suffix not in {".pyc", ".so"}
    )


def _is_built(file: Path) -> bool:
    package = HERE / "narrows"
    return bool(_BUILT.intersection(file.relative_to(ROOT).parts)) or any(
        file.is_relative_to(package / name) for name in _BUILT_IN_PACKAGE
    )


def _is_test_data(file: Path) -> bool:
    """Whether only tests read a file. A manifest names the files directly in `tests`."""
    tests = {ROOT / crate / "tests" for crate in _members()}
    return bool(tests.intersection(file.parents)) and file.parent not in tests


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(content), _EPOCH, 0o644
    tar.addfile(entry, io.BytesIO(content))
