"""Files that anybody may have written: no reader blocks on a pipe or reads a device to its end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from narrows import cli, files
from narrows.errors import NarrowsError
from narrows.latency.result import read as read_latency
from narrows.runs.scenario import load
from narrows.storage import untrusted_input
from narrows.sweeps.file import load as load_sweep
from narrows.tune.collect import facts

COMMANDS = (
    ["check", "FILE"],
    ["run", "FILE"],
    ["sweep", "FILE"],
    ["twin", "FILE"],
    ["convert", "FILE", "b.csv"],
    ["compare", "FILE", "FILE"],
    ["from", "FILE"],
    ["advise", "FILE"],
    ["remy", "FILE", "-o", "b.remy"],
)


@pytest.fixture(params=["pipe", "device"])
def endless(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "device":
        return Path("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_no_command_reads_a_pipe_or_a_device(endless: Path, words: list[str]) -> None:
    done = CliRunner().invoke(
        cli.main, [str(endless) if word == "FILE" else word for word in words]
    )
    assert done.exit_code == 2, done.output
    assert (
        f"{endless}: not a regular file but a {'device' if 'zero' in endless.name else 'pipe'}"
        in done.output
    )


@pytest.mark.parametrize(
    "reader", [load, load_sweep, files.read, read_latency, lambda file: facts(file=str(file))]
)
def test_no_reader_reads_a_pipe_or_a_device(endless: Path, reader: object) -> None:
    assert callable(reader)
    with pytest.raises(NarrowsError, match="not a regular file"):
        reader(endless)


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"x" * 2_000_000)
    assert len(untrusted_input.read(file)) == 2_000_000
    assert untrusted_input.head(file, 3) == b"xxx"
    with pytest.raises(OSError, match="Larger than 1 MiB"):
        untrusted_input.read(file, 1 << 20)
    with pytest.raises(IsADirectoryError):
        untrusted_input.read(tmp_path)


def test_a_text_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "a.toml").open("wb") as file:
        file.truncate(untrusted_input.MOST_TEXT_BYTES + 1)
    with pytest.raises(NarrowsError, match=r"a\.toml: larger than 8 MiB"):
        load(tmp_path / "a.toml")
