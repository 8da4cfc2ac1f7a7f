"""The history, the results of sweeps and their claims: every system call fails once."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_storage import failures

from narrows.errors import NarrowsError, OutputError
from narrows.measure import history
from narrows.measure.result import Measurement
from narrows.sweeps.claims import Claims
from narrows.sweeps.store import Store
from narrows.sweeps.worker import Columns

ERRORS = (errno.ENOSPC, errno.EROFS, errno.EIO)


def refusals(error: int, act: Callable[[], object]) -> Iterator[tuple[str, bool]]:
    """As `failures`; `act` refuses with an `OutputError`, and with nothing else."""

    def refuses() -> None:
        try:
            act()
        except OutputError as refused:
            raise OSError(str(refused)) from refused
        except OSError as other:
            raise AssertionError("not an OutputError") from other

    yield from failures(error, refuses)


def keys(directory: Path) -> list[str]:
    return sorted(Store(directory).keys().to_pylist())


def row(key: str) -> Columns:
    return {"key": [key], "goodput_mbit": [1.0]}


@pytest.mark.parametrize("error", ERRORS)
def test_rows_are_added_or_not_after_any_failed_system_call(tmp_path: Path, error: int) -> None:
    failed = []
    Store(tmp_path).add([row("0")])
    wanted = {"0"}
    attempts = iter(range(1, 1000))
    last: list[str] = []

    def add() -> None:
        last[:] = [str(next(attempts))]
        Store(tmp_path).add([row(last[0])])

    for name, refused in refusals(error, add):
        failed.append(name)
        there = set(keys(tmp_path))
        # Where only the directory cannot be synced, the rows may be there nevertheless.
        assert there - set(last) == wanted
        assert refused or last[0] in there
        assert not [*(tmp_path / "runs").glob(".*")]
        wanted = there
    assert {"open", "fsync", "replace"} <= set(failed)
    assert set(keys(tmp_path)) == wanted | set(last)


@pytest.mark.parametrize("error", ERRORS)
def test_merged_parts_keep_every_row_after_any_failed_system_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    monkeypatch.setattr("narrows.sweeps.store._MANY", 2)
    before, now = tmp_path / "before", tmp_path / "now"
    for key in "abc":
        monkeypatch.setattr("narrows.sweeps.store._MANY", 100)
        Store(now).add([row(key)])
    monkeypatch.setattr("narrows.sweeps.store._MANY", 2)
    shutil.copytree(now, before)
    failed = []
    for name, refused in refusals(error, lambda: Store(now).add([row("d")])):
        failed.append(name)
        there = keys(now)
        assert {"a", "b", "c"} <= set(there)
        assert len(there) == len(set(there))
        assert refused or there == ["a", "b", "c", "d"]
        shutil.rmtree(now)
        shutil.copytree(before, now)
    assert {"open", "fsync", "replace"} <= set(failed)
    assert keys(now) == ["a", "b", "c", "d"]
    assert len([*(now / "runs").glob("*.parquet")]) == 1


@pytest.mark.parametrize("error", ERRORS)
def test_a_claim_is_taken_or_refused_after_any_failed_system_call(
    tmp_path: Path, error: int
) -> None:
    numbers = iter(range(1000))
    taken: list[str] = []

    def take() -> None:
        taken.clear()
        key = f"key-{next(numbers)}"
        with Claims(tmp_path) as claims:
            assert claims.take(key)
            taken.append(key)
            with Claims(tmp_path) as other:
                assert not other.take(key)

    failed = []
    for name, refused in refusals(error, take):
        failed.append(name)
        assert refused or taken
        # After any failure, no claim is held any more: every key can be claimed.
        with Claims(tmp_path) as later:
            assert later.in_work({"key-0"}) == set()
            assert later.take("key-0")
    assert "open" in failed


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_claim_that_cannot_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    with Claims(tmp_path) as claims:
        assert claims._file is not None
        claims._file.close()

        class Full:
            def write(self, _: bytes) -> int:
                raise OSError(error, os.strerror(error))

            def close(self) -> None:
                pass

        monkeypatch.setattr(claims, "_file", Full())
        with pytest.raises(OutputError, match=os.strerror(error).lower()[:8]):
            claims.take("a")


HISTORY = """
import resource, sys
from narrows.errors import OutputError
from narrows.measure import history
from narrows.measure.result import Measurement
import json
one = Measurement.of(json.loads(open(sys.argv[1]).read()))
# As on a full disk: no file grows beyond this size.
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    history.keep(one)
except OutputError as error:
    print("refused", error)
else:
    print("kept")
"""


@pytest.mark.skipif(not history.installed(), reason="DuckDB is not installed")
def test_the_history_survives_a_disk_that_is_full_at_any_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB writes with its own code, so that the kernel fails its calls: each write beyond a size
    of the file does.
    """
    import narrows as nw  # noqa: PLC0415
    from narrows.measure.simulated import Plan, measure  # noqa: PLC0415

    file = tmp_path / "history.duckdb"
    monkeypatch.setenv("NARROWS_HISTORY", str(file))
    path = nw.Path(rate="2Mbit", rtt="20ms", reverse=nw.Hop(rate="2Mbit"))
    plan = Plan(load_s=2.0, idle_s=1.0, directions=("up",), streams=1)
    first, second = (measure(path, plan, seed=seed) for seed in (1, 2))
    name = history.keep(first)
    before = file.read_bytes()
    (tmp_path / "second.json").write_text(second.text(), encoding="utf-8")
    said = []
    # DuckDB writes blocks of 256 KiB after headers of 4 KiB, and a log.
    sizes = [
        0,
        1,
        4096,
        8192,
        12_288,
        100_000,
        *range(len(before) - 4096, len(before) + 300_000, 65_536),
    ]
    for size in sizes:
        file.write_bytes(before)
        Path(f"{file}.wal").unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, "-c", HISTORY, str(tmp_path / "second.json"), str(size)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.split(maxsplit=1)[0])
        there = [one["id"] for one in history.rows()]
        assert name in there, (size, done.stdout)
        assert len(there) == (2 if said[-1] == "kept" else 1), (size, done.stdout)
        assert history.get(name).text() == first.text()
    assert {"refused", "kept"} <= set(said)


@pytest.mark.skipif(not history.installed(), reason="DuckDB is not installed")
@pytest.mark.parametrize("damage", ["other", "short", "changed"])
def test_a_damaged_history_is_named_with_a_fix(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "history.duckdb"
    monkeypatch.setenv("NARROWS_HISTORY", str(file))
    history.keep(Measurement.of({"measurement": 1, "id": "a" * 16}))
    whole = file.read_bytes()
    # DuckDB reads the headers at 4096 and at 8192, each with a checksum.
    changed = whole[:4100] + bytes(5000) + whole[9100:]
    file.write_bytes({"other": b"hello", "short": whole[:13_000], "changed": changed}[damage])
    with pytest.raises(NarrowsError) as wrong:
        history.rows()
    said = str(wrong.value)
    assert said.startswith(f"{file}: ")
    assert said.endswith(f"\n    write: mv {file} {file}.damaged"), said


@pytest.mark.skipif(not history.installed(), reason="DuckDB is not installed")
@pytest.mark.parametrize("error", ERRORS)
def test_a_history_whose_folder_cannot_be_made_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    monkeypatch.setenv("NARROWS_HISTORY", str(tmp_path / "new/history.duckdb"))

    def fails(*_: object, **__: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "mkdir", fails)
    with pytest.raises(NarrowsError, match=r"history\.duckdb: "):
        history._ask("SELECT 1", [], write=True)
