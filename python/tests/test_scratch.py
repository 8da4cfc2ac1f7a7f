"""Temporary folders: none remains, however its process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import until

from narrows import operating_system
from narrows.errors import NarrowsError
from narrows.models.plugins import Cargo
from narrows.storage import scratch

OPEN = """
import sys, time
from narrows import _interrupt
from narrows.storage import scratch
_interrupt.loaded()
with scratch.folder("test", sys.argv[1]) as made:
    (made / "a").touch()
    while True:
        time.sleep(0.01)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_no_folder_remains_after_a_signal(tmp_path: Path, how: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OPEN, str(tmp_path)], stderr=subprocess.DEVNULL
    ) as child:
        until(lambda: bool(list(tmp_path.glob("*/a"))), child)
        with scratch.folder("test", tmp_path) as other:
            # That of a process that is running is left alone.
            assert len(list(tmp_path.iterdir())) == 2
            assert other.stat().st_mode & 0o777 == 0o700
        child.send_signal(how)
        child.wait(timeout=20)
    if how == signal.SIGKILL:
        assert len(list(tmp_path.iterdir())) == 1
        with scratch.folder("test", tmp_path):
            assert len(list(tmp_path.iterdir())) == 1
    assert not list(tmp_path.iterdir())


def test_no_folder_remains_after_an_error(tmp_path: Path) -> None:
    def fail() -> None:
        with scratch.folder("test", tmp_path) as made:
            (made / "a").mkdir()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_another_process_removes_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = operating_system.locked_folder
    removed = []

    def late(folder: Path, kind: int) -> int:
        if not removed:
            removed.append(folder)
            folder.rmdir()
        return locked(folder, kind)

    monkeypatch.setattr(operating_system, "locked_folder", late)
    with scratch.folder("test", tmp_path) as made:
        assert made.is_dir()
        assert removed != [made]
    assert not list(tmp_path.iterdir())


def test_links_and_folders_of_other_users_remain(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "narrows-test.link").symlink_to("precious")
    if os.geteuid() == 0:
        (tmp_path / "narrows-test.theirs").mkdir()
        os.chown(tmp_path / "narrows-test.theirs", 65520, 65520)
    there = set(tmp_path.iterdir())
    with scratch.folder("test", tmp_path):
        pass
    assert set(tmp_path.iterdir()) == there


def test_code_from_another_machine_needs_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sent = Cargo(name="bad.py", path="/nowhere/bad.py", content=b"1 / 0\n", sha256=None)
    with pytest.raises(NarrowsError, match=r"ZeroDivisionError: division by zero \(bad.py:1\)"):
        sent.unpack()
    assert not list(tmp_path.iterdir())
