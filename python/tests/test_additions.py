"""Adding a scenario key, a parameter, a queue discipline or a subcommand: each is one patch of at
most two hand-written files. The new package and the test of a subcommand are two more.

CONTRIBUTING.md shows the patches. `make additions` builds a copy of the sources with all of them,
and runs `patches/check.py` on it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

PATCHES = sorted((ROOT / "python/tests/patches").glob("*.patch"))
MOST = 2
"""Hand-written files of one addition, without tests and without `__init__.py`."""


def files(patch: Path, side: str) -> list[str]:
    """The files that a patch names before (`---`) or after (`+++`) it."""
    return re.findall(
        rf"^{re.escape(side)} [ab]/(.+)$", patch.read_text(encoding="utf-8"), re.MULTILINE
    )


def test_there_is_a_patch_of_each_kind() -> None:
    assert [patch.stem for patch in PATCHES] == [
        "parameter", "queue-discipline", "scenario-key", "subcommand",
    ]  # fmt: skip


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_an_addition_applies_and_touches_two_files_at_most(patch: Path, tmp_path: Path) -> None:
    for name in files(patch, "---"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    done = subprocess.run(
        ["git", "apply", str(patch)], cwd=tmp_path, text=True, capture_output=True, check=False,
        env=os.environ | {"GIT_CEILING_DIRECTORIES": str(tmp_path.parent)},
    )  # fmt: skip
    assert done.returncode == 0, (
        f"{patch.name}: {done.stderr}; make the patch anew from the sources as they are"
    )
    after = files(patch, "+++")
    counted = [name for name in after if not re.search(r"/(test_\w+|__init__)\.py$", name)]
    assert 1 <= len(counted) <= MOST
    for name in after:
        original = ROOT / name
        assert not original.exists() or original.read_bytes() != (tmp_path / name).read_bytes()


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_contributing_names_the_patch(patch: Path) -> None:
    assert f"python/tests/patches/{patch.name}" in (ROOT / "CONTRIBUTING.md").read_text(
        encoding="utf-8"
    )
