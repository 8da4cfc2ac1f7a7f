"""Files that survive a crash: every system call fails once; a last line is cut at every byte."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from narrows.errors import NarrowsError
from narrows.measure import history
from narrows.storage import durable
from narrows.storage.durable import FIRST, Chain, replacing, retried

CALLS = ("open", "write", "fsync", "replace", "mkdir")
"""Functions of `os` that writing a file uses; `io.open` is added to them."""


class Failing:
    """Makes the system call number `at` fail, and every later call of the same function, as a full
    disk does.
    """

    def __init__(self, patch: pytest.MonkeyPatch, at: int, error: int) -> None:
        """Patches `os` and `io` until `patch` is undone."""
        self.left, self.error, self.failed = at, error, ""
        for module, name in [*((os, name) for name in CALLS), (io, "open")]:
            patch.setattr(module, name, self.failing(getattr(module, name), name))

    def failing(self, call: Callable[..., object], name: str) -> Callable[..., object]:
        """The same function, which fails when its turn has come."""

        def called(*args: object, **named: object) -> object:
            if self.left == 0 and not self.failed:
                self.failed = name
                if name == "write" and isinstance(args[1], bytes):
                    # A disk that becomes full takes a part of what is written.
                    call(args[0], args[1][: len(args[1]) // 2])
            if self.failed == name:
                raise OSError(self.error, os.strerror(self.error))
            self.left -= 1
            return call(*args, **named)

        return called


def failures(error: int, act: Callable[[], object]) -> Iterator[tuple[str, bool]]:
    """Runs `act` with each of its system calls failing in turn; which failed, and whether `act`
    raised that.
    """
    for at in range(100):
        with pytest.MonkeyPatch.context() as patch:
            failing = Failing(patch, at, error)
            refused = False
            try:
                act()
            except OSError:
                refused = True
        if not failing.failed:
            return
        yield failing.failed, refused
    raise AssertionError("more calls than expected")


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_chain_is_unchanged_after_any_failed_system_call(tmp_path: Path, error: int) -> None:
    chain = Chain(tmp_path / "kept.jsonl")
    chain.append({"n": 0})
    before = chain.file.read_bytes()
    failed = []
    for name, refused in failures(error, lambda: chain.append({"n": 1})):
        failed.append(name)
        # A directory that is there already need not be made.
        assert refused or name == "mkdir"
        assert [line["n"] for line in chain.lines()] == ([0] if refused else [0, 1])
        chain.file.write_bytes(before)
    assert {"open", "write", "fsync"} <= set(failed)
    assert [line["n"] for line in chain.lines()] == [0, 1]
    assert not chain.file.with_name("kept.jsonl.torn").exists()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_file_is_replaced_or_unchanged_after_any_failed_system_call(
    tmp_path: Path, error: int
) -> None:
    file = tmp_path / "result.json"

    def write() -> None:
        with replacing(tmp_path, "result.json") as part:
            part.write_bytes(b"new")

    file.write_bytes(b"old")
    failed = []
    for name, refused in failures(error, write):
        failed.append(name)
        # Where the directory cannot be synced, the new file has its name already.
        assert file.read_bytes() == b"new" or refused
        assert [*tmp_path.iterdir()] == [file]
        file.write_bytes(b"old")
    assert {"open", "fsync", "replace"} <= set(failed)
    assert file.read_bytes() == b"new"


def test_a_line_cut_at_any_byte_is_moved_to_another_file(tmp_path: Path) -> None:
    chain = Chain(tmp_path / "kept.jsonl")
    for n in range(3):
        chain.append({"n": n, "text": "ü"})
    whole = chain.file.read_bytes()
    begin = whole[:-1].rindex(b"\n") + 1
    for end in range(begin, len(whole)):
        chain.file.write_bytes(whole[:end])
        assert [line["n"] for line in chain.lines()] == [0, 1]
        chain.append({"n": 2, "text": "ü"})
        assert chain.file.read_bytes() == whole
    torn = chain.file.with_name("kept.jsonl.torn").read_bytes()
    assert torn.count(b"\n") == len(whole) - begin - 1


def test_a_last_block_of_zeros_is_no_line(tmp_path: Path) -> None:
    chain = Chain(tmp_path / "kept.jsonl")
    head = chain.append({"n": 0})
    with chain.file.open("ab") as opened:
        opened.write(b"\0" * 4096)
    assert chain.head() == head
    chain.append({"n": 1})
    assert len(chain.lines()) == 2


def test_a_changed_line_and_a_rewritten_chain_are_detected(tmp_path: Path) -> None:
    chain = Chain(tmp_path / "kept.jsonl")
    assert chain.head() == FIRST
    heads = [chain.append({"n": n}) for n in range(4)]
    whole = chain.file.read_text()
    chain.file.write_text(whole.replace('"n": 1', '"n": 7'))
    with pytest.raises(NarrowsError, match=r"line 2: changed since it was written"):
        chain.lines()
    # The last line cut off, and all of them written anew: each line fits the one before, but a
    # known head is missing.
    chain.file.write_text("".join(whole.splitlines(keepends=True)[:3]))
    assert chain.find(heads[2][:12]) == 3
    with pytest.raises(NarrowsError, match=r"none of its 3 lines has the hash"):
        chain.find(heads[3])
    chain.file.unlink()
    for n in range(4):
        chain.append({"n": n + 1})
    with pytest.raises(NarrowsError, match=r"cut or rewritten"):
        chain.find(heads[0])
    with pytest.raises(NarrowsError, match=r"at least 12 hexadecimal digits"):
        chain.find("abc")


def test_lines_that_are_appended_at_once_all_stay(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from narrows.storage.durable import Chain\n"
        "for n in range(25): Chain(Path(sys.argv[1])).append({'by': sys.argv[2], 'n': n})"
    )
    file = tmp_path / "kept.jsonl"
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(file), str(by)]) for by in range(3)
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    assert len(Chain(file).lines()) == 75


def test_an_attempt_is_repeated_while_a_lock_is_held_and_not_for_ever() -> None:
    tries: list[int] = []

    def attempt() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("lock")
        return "done"

    assert retried(attempt, lambda error: str(error) == "lock") == "done"
    with pytest.raises(OSError, match="other"):
        retried(lambda: (_ for _ in ()).throw(OSError("other")), lambda error: str(error) == "lock")
    with pytest.raises(OSError, match="lock"):
        retried(lambda: (_ for _ in ()).throw(OSError("lock")), lambda _: True, seconds=0)


def test_the_history_waits_until_another_process_closes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "history.duckdb"
    monkeypatch.setenv("NARROWS_HISTORY", str(file))
    program = (
        "import duckdb, sys; base = duckdb.connect(sys.argv[1]); print('open', flush=True); "
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            # The other process ends at the first pause: nothing here waits for a time.
            pauses.append(seconds)
            assert other.stdin is not None
            other.stdin.close()
            other.wait(timeout=60)

        monkeypatch.setattr(durable, "time", SimpleNamespace(sleep=pause, monotonic=time.monotonic))
        assert history._ask("SELECT 1", [], write=True) == [(1,)]
    assert pauses


def test_a_line_has_the_appended_values(tmp_path: Path) -> None:
    chain = Chain(tmp_path / "folder" / "kept.jsonl")
    chain.append({"kind": "forecast", "low": 1.5})
    (line,) = map(json.loads, chain.file.read_text(encoding="utf-8").splitlines())
    assert (line["kind"], line["low"], line["before"]) == ("forecast", 1.5, FIRST)
