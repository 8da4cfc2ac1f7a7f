"""Untrusted files: no reader blocks on a pipe or reads a device to its end."""

from __future__ import annotations

import contextlib
import io
import os
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from narrows import cli, files
from narrows.errors import EngineError, NarrowsError
from narrows.kernel import build, machine
from narrows.latency.result import read as read_latency
from narrows.measure.simulated import Plan, measure
from narrows.render import chart, parquet_pages
from narrows.runs.scenario import Path as NetworkPath
from narrows.runs.scenario import load
from narrows.storage import output, untrusted_input
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
    ["shell", "FILE"],
    ["agree", "FILE"],
    ["record", "--score", "FILE"],
    ["tune", "audit", "--facts", "FILE"],
    ["tune", "plan", "--cc", "bbr", "--facts", "FILE"],
    ["tune", "apply", "FILE"],
    ["tune", "prove", "::1", "FILE"],
    ["history", "--add", "FILE"],
    ["advise", "MEASURED", "--single-flow", "FILE"],
    ["kernel", "build", "--patch", "FILE"],
)


@pytest.fixture(params=["pipe", "device"])
def endless(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "device":
        return Path("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with a measurement."""
    file = tmp_path_factory.mktemp("measured") / "a.json"
    path = NetworkPath(rate="4Mbit", rtt="10ms")
    output.write(file, measure(path, Plan(load_s=2.0, directions=("down",))).text())
    return str(file)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_reads_a_pipe_or_a_device(
    endless: Path, words: list[str], measured: str
) -> None:
    named = {"FILE": str(endless), "MEASURED": measured}
    done = CliRunner().invoke(cli.main, [named.get(word, word) for word in words])
    assert done.exit_code == 2, done.output
    assert f"{endless}: not a regular file" in done.output


@pytest.mark.parametrize("to", ["pipe", "device"])
@pytest.mark.parametrize(
    "words",
    [
        ["measure", "a.toml"],
        ["plot", "a.parquet", "--x", "seed", "--y", "goodput_mbit", "--out", "a.svg"],
        ["plot", "a.csv", "--x", "seed", "--y", "goodput_mbit", "--out", "a.svg"],
    ],
    ids=" ".join,
)
def test_no_command_reads_a_pipe_or_device_with_a_suffix_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], to: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if to == "pipe":
        os.mkfifo(words[1])
    else:
        Path(words[1]).symlink_to("/dev/zero")
    done = CliRunner().invoke(cli.main, words)
    assert done.exit_code == 2, done.output
    assert f"{words[1]}: not a regular file but a {to}" in done.output


def test_a_table_is_unpacked_up_to_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.parquet"
    # A text of a kilobyte, ten thousand times: a few kilobytes in a file.
    table = pa.table({"seed": [1] * 10_000, "text": ["x" * 1000] * 10_000, "list": [[1]] * 10_000})
    pq.write_table(table, file, write_page_checksum=True)
    assert file.stat().st_size < 100_000
    assert chart.read(file).equals(table.drop_columns(["list"]))
    for name, most in (("MOST_TABLE_BYTES", 1 << 20), ("MOST_VALUES", 10_000)):
        with monkeypatch.context() as patch:
            patch.setattr(chart, name, most)
            with pytest.raises(NarrowsError, match=r"a\.parquet: larger than [0-9]+ MiB or "):
                chart.read(file)
    with (tmp_path / "b.csv").open("wb") as large:
        large.truncate(untrusted_input.MOST_DATA_BYTES + 1)
    with pytest.raises(NarrowsError, match=r"b\.csv: larger than 512 MiB"):
        chart.read(tmp_path / "b.csv")


def _number(n: int, length: int = 0) -> bytes:
    """A number of Thrift's compact protocol, in so many bytes at least."""
    parts, n = [], 2 * n
    while n or len(parts) < max(length, 1):
        parts.append(n & 0x7F | 0x80)
        n >>= 7
    parts[-1] &= 0x7F
    return bytes(parts)


def test_a_page_that_is_larger_than_the_footer_states_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, size = tmp_path / "a.parquet", 4 << 20
    table = pa.table({"text": [b"\0" * size], "seed": [1]})
    pq.write_table(table, file, compression="zstd", use_dictionary=False, write_statistics=False)
    content, about = file.read_bytes(), pq.read_metadata(file).row_group(0)
    footer = -8 - int.from_bytes(content[-8:-4], "little")
    head, foot = content[:footer], content[footer:]
    for stated in (about.total_byte_size, about.column(0).total_uncompressed_size):
        right = _number(stated)
        assert foot.count(right) == 1
        foot = foot.replace(right, _number(1000, len(right)))
    file.write_bytes(head + foot)
    assert pq.read_metadata(file).row_group(0).total_byte_size == 1000
    # Within the limit, and beyond it.
    assert chart.read(file).num_rows == 1
    monkeypatch.setattr(chart, "MOST_TABLE_BYTES", size - 1)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", None)
    with pytest.raises(NarrowsError, match=r"a\.parquet: larger than 3 MiB"):
        chart.read(file)
    # A header that is none of a page.
    begin = about.column(0).data_page_offset
    file.write_bytes(head[:begin] + b"\xff" * 20 + head[begin + 20 :] + foot)
    with pytest.raises(NarrowsError, match=r"a\.parquet: is damaged or no table"):
        chart.read(file)


def test_a_damaged_page_of_a_table_is_found(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    table = pa.table({"seed": list(range(1000))})
    pq.write_table(table, file, write_page_checksum=True, use_dictionary=False, compression="none")
    content = bytearray(file.read_bytes())
    content[2000] ^= 1
    file.write_bytes(content)
    with pytest.raises(NarrowsError, match=r"a\.parquet: could not verify page integrity"):
        chart.read(file)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_the_pages_of_a_table_add_up_to_the_size_in_its_footer(
    tmp_path: Path, version: str, compression: str, dictionary: bool
) -> None:
    file = tmp_path / "a.parquet"
    table = pa.table(
        {
            "n": list(range(5000)),
            "name": [f"flow {n % 7}" for n in range(5000)],
            "lists": [[n, n + 1] for n in range(5000)],
        }
    )
    pq.write_table(
        table, file, row_group_size=2000, compression=compression, use_dictionary=dictionary,
        data_page_version=version,
    )  # fmt: skip
    about = pq.read_metadata(file)
    groups = [about.row_group(n) for n in range(about.num_row_groups)]
    stated = sum(g.column(n).total_uncompressed_size for g in groups for n in range(3))
    # The size in the footer includes the headers of the pages.
    assert 0.9 * stated < parquet_pages.unpacked_bytes(file.read_bytes(), 1 << 40) <= stated


def test_a_header_with_a_field_twice_is_damaged() -> None:
    """Arrow took the first size, of 1.1 GB, and the check the second one."""
    size, again, packed, stop = b"\x25\xd0\x0f", b"\x06\x04\x02", b"\x15\x02", b"\x00"
    assert parquet_pages._page(size + packed + stop, 0) == (1000, 1, 6)
    with pytest.raises(parquet_pages.DamagedError, match="a field twice"):
        parquet_pages._page(size + again + packed + stop, 0)
    # A size of another type is none.
    with pytest.raises(parquet_pages.DamagedError, match="no size"):
        parquet_pages._page(b"\x26\xd0\x0f" + packed + stop, 0)


def test_any_footer_is_read_or_damaged(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3], "b": ["x", "y", "x"]}), file)
    right = file.read_bytes()
    begin = len(right) - 8 - int.from_bytes(right[-8:-4], "little")
    for at in range(begin, len(right)):
        for value in (0, 1, 0x15, 0x19, 0x7F, 0xFF):
            content = right[:at] + bytes([value]) + right[at + 1 :]
            with contextlib.suppress(parquet_pages.DamagedError):
                parquet_pages.unpacked_bytes(content, 1 << 30)


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    column = pa.array([1, 2])
    pq.write_table(pa.Table.from_arrays([column, column], ["a", "a"]), file)
    with pytest.raises(NarrowsError, match=r"a\.parquet: two columns have the same name"):
        chart.read(file)


def test_a_large_patch_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "a.patch").open("wb") as file:
        file.truncate(build.MOST_PATCH_BYTES + 1)
    with pytest.raises(EngineError, match=r"a\.patch: larger than 64 MiB"):
        build._hashes([tmp_path / "a.patch"])


def test_a_guest_s_files_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "code").write_text("0")
    (tmp_path / "stderr").write_bytes(b"x" * 1_000_000)
    os.mkfifo(tmp_path / "stdout")
    with pytest.raises(OSError, match="Not a regular file but a pipe"):
        machine._result(tmp_path, [], None)
    (tmp_path / "stdout").unlink()
    with (tmp_path / "stdout").open("wb") as file:
        file.truncate(untrusted_input.MOST_DATA_BYTES + 1)
    with pytest.raises(OSError, match="Larger than 512 MiB"):
        machine._result(tmp_path, [], None)
    (tmp_path / "stdout").write_bytes(b"")
    with pytest.raises(EngineError) as refused:
        machine._result(tmp_path, [], None)
    assert len(str(refused.value)) < 100_000


def test_an_endless_line_of_a_guest_s_console_is_cut() -> None:
    lines: list[str] = []
    watch = machine.Watchdog(os.getpid(), threading.Event())
    machine._listen(io.BytesIO(b"x" * 1_000_000 + b"\nend\n"), lines, None, watch)
    assert lines[-1] == "end"
    assert max(map(len, lines)) <= 1 << 16


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
