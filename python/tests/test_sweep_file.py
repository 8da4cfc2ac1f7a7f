"""Sweep files, and the command `narrows sweep`."""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from conftest import NARROWS, ROOT

import narrows as nw
from narrows.cli import main
from narrows.errors import NarrowsError, OutputError
from narrows.sweeps.executors import Local
from narrows.sweeps.file import load
from narrows.sweeps.store import SCHEMA, Store
from narrows.sweeps.worker import Case, Outcomes

PATH = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp")
SCENARIO = nw.Scenario(PATH, flows=[nw.Flow("bbr"), nw.Flow("cubic")], duration="2s")


FILE = """
title = "who wins"
scenario = "base.toml"
seeds = 2
[over]
"path.buffer" = { from = "0.5bdp", to = "2bdp", scale = "log", steps = 3 }
"flow[0].cc" = ["bbr", "reno"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "base.toml").write_text(SCENARIO.toml())
    (tmp_path / "sweep.toml").write_text(FILE)
    return tmp_path / "sweep.toml"


def test_the_command_prints_its_results_and_writes_a_table(file: Path, tmp_path: Path) -> None:
    args = [
        "sweep",
        str(file),
        "--into",
        str(tmp_path / "out"),
        "--table",
        str(tmp_path / "rows.csv"),
    ]
    said = CliRunner().invoke(main, args)
    assert said.exit_code == 0, said.output
    assert "who wins: 6 cases × 2 seeds = 12 runs; keys of the cases: path.buffer, " in said.output
    assert "flow[0].cc; 24 rows" in said.output
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 25
    again = json.loads(CliRunner().invoke(main, [*args[:4], "--json"]).output)
    assert (again["runs"], again["failed"], [row["cc"] for row in again["by_cc"]]) == (
        12,
        [],
        ["bbr", "cubic", "reno"],
    )


def test_a_row_has_retransmissions_of_both_intervals_and_fairness_of_both_directions(
    tmp_path: Path,
) -> None:
    path = nw.Path(
        rate="10Mbit", rtt="20ms", buffer="0.3bdp", reverse=nw.Hop(rate="2Mbit", buffer="1bdp")
    )
    flows = [nw.Flow("cubic", count=2), nw.Flow("reno", count=2, direction="up")]
    scenario = nw.Scenario(path, flows=flows, duration="3s", warmup="2s")
    (row, *_, last) = (
        nw.sweep(scenario, {"path.rtt": ["20ms"]}, into=tmp_path).run(on=Local(1)).to_pylist()
    )
    told = nw.run(scenario, seed=1).json
    names = ("retransmits", "retransmit_rate", "summary_retransmits", "summary_retransmit_rate")
    for name in (*names, "run_retransmit_rate"):
        assert (row[name], last[name]) == (told["flows"][0][name], told["flows"][-1][name])
    assert row["retransmits"] > row["summary_retransmits"]
    assert (row["jain"], row["jain_down"], row["jain_up"]) == (
        told["fairness"]["jain"],
        told["fairness"]["by_direction"]["down"]["jain"],
        told["fairness"]["by_direction"]["up"]["jain"],
    )


def test_a_table_can_be_written_to_a_pipe_and_to_stdout(file: Path, tmp_path: Path) -> None:
    sweep = [NARROWS, "sweep", file, "--into", tmp_path / "out", "--quiet", "--table"]
    pipe = tmp_path / "rows"
    os.mkfifo(pipe)
    script = ["sh", "-c", 'timeout 60 cat "$0" & "$@"; wait', pipe, *sweep, pipe]
    rows = subprocess.run(script, capture_output=True, text=True, check=True, timeout=90).stdout
    assert len(rows.splitlines()) == 25
    # A pipe and a file in its place, each with something before it and behind it.
    piped = subprocess.run(
        [*sweep, "/dev/stdout"], capture_output=True, text=True, check=True, timeout=60
    )
    assert piped.stdout == rows
    made = tmp_path / "made.csv"
    with made.open("w", encoding="utf-8") as out:
        script = ["sh", "-c", 'echo before; "$@"; echo behind', "sh", *sweep, "/dev/stdout"]
        subprocess.run(script, stdout=out, check=True, timeout=60)
    assert made.read_text(encoding="utf-8") == f"before\n{rows}behind\n"


def test_processes_end_if_rows_cannot_be_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[bool] = []

    class OneCase:
        def outcomes(self, cases: Iterator[Case], count: int) -> Iterator[Outcomes]:
            try:
                key = next(cases)[0]
                yield Outcomes({"key": [key]})
                yield Outcomes()
            finally:
                closed.append(True)

    def full(_store: Store, _rows: object) -> None:
        raise OutputError("no space left on device")

    monkeypatch.setattr(Store, "add", full)
    made = nw.sweep(SCENARIO, {"flow[0].cc": ["bbr", "reno"]}, into=tmp_path)
    with pytest.raises(OutputError) as told:
        made.finish(on=OneCase())
    # While the exception still holds the frame, as a reader of its traceback does.
    assert closed == [True], told


def test_a_table_that_cannot_be_written_keeps_the_older_one(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("older")

    def full(_rows: pa.Table, at: str) -> None:
        Path(at).write_text("half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.csv.write_csv", full)
    said = CliRunner().invoke(
        main, ["sweep", str(file), "--into", str(tmp_path / "out"), "--table", str(table)]
    )
    assert (said.exit_code, said.output.splitlines()[-1]) == (
        2,
        f"{table}: no space left on device",
    )
    assert table.read_text() == "older"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "needs the file of its scenario"),
        ('scenario = "base.toml"', r"needs \[over\]"),
        ('scenario = "base.toml"\nover = 3', r"needs \[over\]"),
        ('scenario = "base.toml"\ndesign = "list"', r"needs \[\[case\]\]"),
        ('scenario = "absent.toml"\n[over]\n"flow.cc" = ["bbr"]', "absent.toml: no such file"),
        ('scenario = "base.toml"\nseed = 3\n[over]\n"flow.cc" = ["bbr"]', "has no `seed`"),
        ('scenario = "base.toml"\nseeds = "3"\n[over]\n"flow.cc" = ["bbr"]', "seeds is how many"),
        ("scenario = [", "sweep.toml"),
    ],
)
def test_an_invalid_sweep_file_is_an_error(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    with pytest.raises(NarrowsError, match=said):
        load(file)


def test_every_error_of_a_sweep_file_is_reported_at_once(file: Path) -> None:
    file.write_text(
        'scenario = "base.toml"\nseed = 3\nseeds = "3"\n[over]\n"path rate" = ["1Mbit"]\n'
        '"path.rtt" = { from = "1ms", to = "2s" }\n"flow.cc" = []\n'
    )
    with pytest.raises(NarrowsError) as told:
        load(file)
    lines = str(told.value).splitlines()
    assert all("sweep.toml: " in line for line in lines)
    for said in (
        "has no `seed`",
        "seeds is how many",
        "`path rate` is no key",
        "use one unit",
        "needs a list",
    ):
        assert sum(said in line for line in lines) == 1, said


def test_every_wrong_value_is_reported_at_once_and_once(file: Path) -> None:
    file.write_text(
        'scenario = "base.toml"\n[over]\n"path.rate" = ["5 apples", "1Mbit", "6 pears"]\n'
        '"flow[0].cc" = ["bbrr", "cubic"]\n"flow[5].cc" = ["reno"]\n'
    )
    said = CliRunner().invoke(main, ["sweep", str(file)])
    assert said.exit_code == 2
    for part in (
        'path.rate = "5 apples" has',
        'path.rate = "6 pears" has',
        'flow[0].cc = "bbrr" is',
        "`flow[5].cc`: the",
    ):
        assert said.output.count(part) == 1, part


def test_errors_of_ranges_do_not_hide_errors_of_values(file: Path) -> None:
    file.write_text(
        'scenario = "base.toml"\n[over]\n"path.rate" = ["5 apples", "1Mbit"]\n'
        '"path.rtt" = { from = "9 weeks", to = "1 weeks", scale = "cubic", stops = 3 '
        '}\n"flow[0].cc" = ["bbrr"]\n'
    )
    with pytest.raises(NarrowsError) as told:
        load(file)
    text = str(told.value)
    for part in (
        "a range has no `stops`",
        "there is no scale `cubic`",
        "from has to be less than to",
        'path.rate = "5 apples" has',
        'path.rtt = "9 weeks" has',
        'flow[0].cc = "bbrr" is',
    ):
        assert text.count(part) == 1, (part, text)


def test_an_unknown_design_does_not_hide_an_error_of_the_scenario(file: Path) -> None:
    file.write_text('scenario = "absent.toml"\ndesign = "latin"\n[over]\n"flow.cc" = ["bbr"]\n')
    with pytest.raises(NarrowsError, match=r"no design `latin`(?s:.*)absent.toml: no such file"):
        load(file)


@pytest.mark.parametrize("file", sorted((ROOT / "sweeps").iterdir()), ids=lambda file: file.stem)
def test_the_included_sweeps_are_valid(file: Path, tmp_path: Path) -> None:
    assert file.read_text().startswith("# ")
    load(file, tmp_path).check()


def test_a_list_of_cases_is_a_design(file: Path, tmp_path: Path) -> None:
    file.write_text(
        'scenario = "base.toml"\n[[case]]\n"path.rate" = "2Mbit"\n[[case]]\n"path.rtt" = "40ms"\n'
    )
    rows = load(file, tmp_path / "out").run(on=Local(1))
    assert rows["path.rate"].to_pylist() == ["2Mbit", "2Mbit", None, None]
    assert rows["rtt_ms"].to_pylist() == [20, 20, 40, 40]


def test_every_column_is_on_the_page() -> None:
    text = (ROOT / "docs/how-to/sweep.md").read_text(encoding="utf-8")
    told = set()
    for pattern in re.findall(r"`([a-z0-9_{},A-Z]+)`", text):
        parts = [part.split(",") for part in re.split(r"[{}]", pattern)]
        told |= {"".join(one) for one in itertools.product(*parts)}
    assert set(SCHEMA.names) <= told


class SlowRay:
    """Stands in for Ray where a node does not start in time: Ray then raises a bare `Exception`."""

    __spec__ = None

    @staticmethod
    def is_initialized() -> bool:
        """No."""
        return False

    @staticmethod
    def init(**_: object) -> None:
        """The error and the warning of Ray 2.x."""
        warnings.warn("Ray Client connection timed out", stacklevel=1)
        logging.getLogger("ray.util.client_builder").info("Passing the following kwargs")
        raise Exception(
            "The current node timed out during startup. This could happen because some of\nthe "
            "processes"
        )


@pytest.mark.parametrize("on", ["ray", "ray://127.0.0.1:1"])
def test_a_ray_cluster_that_does_not_start_is_an_error_of_one_line(
    on: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", SlowRay)  # type: ignore[arg-type]
    said = CliRunner().invoke(main, ["sweep", str(file), "--on", on])
    assert said.exit_code == 2
    assert said.output == (
        f"{on}: no Ray cluster answers there (The current node timed out during startup); "
        "to run on this machine's own cores: --on local\n"
    )


@pytest.mark.parametrize(
    "values",
    [
        '[over]\n"path.trace" = ["NAME"]',
        '[over]\n"path.trace" = [{ file = "NAME", repeat = false }]',
        '[over]\npath = [{ trace = "NAME", rtt = "20ms" }]',
        '[over]\n"flow[0].cc" = ["reno", { kind = "remy", tree = "NAME" }]',
        '[[case]]\n"path.trace" = "NAME"',
    ],
)
def test_a_sweep_reads_files_from_its_own_folder_only(
    tmp_path: Path, values: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scenario is refused if it names other files; a sweep of it is, too."""
    folder, secret = tmp_path / "sweep", tmp_path / "secret"
    folder.mkdir()
    secret.write_text("1\n2\n3\n")
    (folder / "link").symlink_to(secret)
    (folder / "base.toml").write_text(
        'duration = "1s"\n[path]\nrate = "10Mbit"\nrtt = "20ms"\n[[flow]]\ncc = "reno"\n'
    )
    file = folder / "sweep.toml"
    monkeypatch.chdir(folder)
    for named in (str(secret), "../secret", "link", "./link", "/proc/self/environ"):
        said = refusal(file, values.replace("NAME", named))
        assert "lies outside of the sweep's folder" in said, named
        assert "--files-from" in said
    monkeypatch.setenv("NARROWS_FILES_FROM", str(tmp_path))
    assert "lies outside" in refusal(file, values.replace("NAME", "/proc/self/environ"))
    # It is read, and may be no trace and no tree.
    assert "lies outside" not in refusal(file, values.replace("NAME", "../secret"))


def refusal(file: Path, values: str) -> str:
    """The error of a sweep with these values; empty if it has none."""
    file.write_text(f'scenario = "base.toml"\n{values}\n')
    try:
        load(file)
    except NarrowsError as error:
        return str(error)
    return ""


def test_a_number_of_seeds_above_the_limit_is_an_error(file: Path) -> None:
    file.write_text(FILE.replace("seeds = 2", "seeds = 1000000000000"))
    with pytest.raises(NarrowsError, match="a case has from 1 to 100000 seeds"):
        load(file)


def test_the_text_of_a_scenario_instead_of_its_file_is_one_error(tmp_path: Path) -> None:
    """Each line of the text was printed, and that the name of the file was too long."""
    file = tmp_path / "sweep.toml"
    text = '[path]\nrate = "10Mbit"\n'
    file.write_text(f'scenario = """{text * 50}"""\n[over]\n"path.rate" = ["1Mbit"]\n')
    with pytest.raises(NarrowsError, match="a sweep needs the file of its scenario") as error:
        load(file)
    assert len(str(error.value)) < 300
