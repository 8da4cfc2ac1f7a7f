"""Results in folders: each file is replaced as a whole, whichever system call fails."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from test_storage import failures

import narrows
from narrows.errors import OutputError
from narrows.runs.replications import replicate

ERRORS = (errno.ENOSPC, errno.EROFS, errno.EIO)


def scenario() -> narrows.Scenario:
    path = narrows.Path(rate="2Mbit", rtt="10ms")
    return narrows.Scenario(path, flows=[narrows.Flow("reno")], duration="2s")


def all_or_nothing(folder: Path, error: int, save: Callable[[], None]) -> list[str]:
    """Names of the failed system calls; each file is the old or the new one after each."""
    save()
    new = {file.name: file.read_bytes() for file in folder.iterdir()}
    failed = []
    for name in new:
        (folder / name).write_bytes(b"old")

    def act() -> None:
        try:
            save()
        except OutputError as refused:
            raise OSError(str(refused)) from refused

    for name, refused in failures(error, act):
        failed.append(name)
        now = {file.name: file.read_bytes() for file in folder.iterdir()}
        assert set(now) == set(new), name
        assert all(now[file] in {b"old", new[file]} for file in new), name
        assert refused or now == new
        # No file takes its name before all files are written.
        assert name == "replace" or now == new or set(now.values()) == {b"old"}
        for file in new:
            (folder / file).write_bytes(b"old")
    save()
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == new
    return failed


@pytest.mark.parametrize("error", ERRORS)
def test_each_file_of_a_run_is_the_old_or_the_new_one(tmp_path: Path, error: int) -> None:
    run = narrows.run(scenario())
    failed = all_or_nothing(tmp_path / "out", error, lambda: run.save(tmp_path / "out"))
    assert {"open", "fsync", "replace", "mkdir"} <= set(failed)


@pytest.mark.parametrize("error", ERRORS)
def test_each_file_of_replications_is_the_old_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    found = replicate(scenario(), seeds=2)
    # The folders of the runs have a test of their own.
    monkeypatch.setattr("narrows.runs.save.save", lambda *_: None)
    failed = all_or_nothing(tmp_path / "out", error, lambda: found.save(tmp_path / "out"))
    assert {"open", "fsync", "replace", "mkdir"} <= set(failed)


@pytest.mark.parametrize("error", ERRORS)
def test_a_capture_is_the_old_or_the_new_one(tmp_path: Path, error: int) -> None:
    capture = tmp_path / "a.pcapng"
    narrows.run(scenario(), record=capture)
    new = capture.read_bytes()
    capture.write_bytes(b"old")

    def act() -> None:
        try:
            narrows.run(scenario(), record=capture)
        except OutputError as refused:
            raise OSError(str(refused)) from refused

    failed = []
    for name, refused in failures(error, act):
        failed.append(name)
        assert [*tmp_path.iterdir()] == [capture]
        assert capture.read_bytes() in {b"old", new}
        assert refused or capture.read_bytes() == new
        capture.write_bytes(b"old")
    assert {"fsync", "replace"} <= set(failed)
    assert capture.read_bytes() == new


def test_a_planted_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"mine")
    out = tmp_path / "out"
    out.mkdir()
    names = ["replications.json", "metrics.parquet", "intervals.parquet"]
    for name in names:
        (out / name).symlink_to(other)
    replicate(scenario(), seeds=2).save(out)
    assert other.read_bytes() == b"mine"
    assert not any((out / name).is_symlink() for name in names)


def test_tables_have_page_checksums(tmp_path: Path) -> None:
    narrows.run(scenario()).save(tmp_path)
    file = tmp_path / "samples.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 4] ^= 1
    file.write_bytes(content)
    with pytest.raises(OSError, match=r"CRC|page|decompress|Corrupt"):
        pq.read_table(file, page_checksum_verification=True)
