"""A scenario reads no files outside of its folder, and no message shows the content of a file."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import NARROWS

import narrows as nw
from narrows.cli import main
from narrows.host.live import HOST

SECRET = "root:$6$a-hash:19000:0:99999:7:::\n"
RATES = "t_s,rate_mbit\n0,12\n1,6\n"


def scenario(folder: Path, trace: str) -> Path:
    file = folder / "s.toml"
    file.write_text(
        f'duration = "2s"\n[path]\nrtt = "20ms"\ntrace = "{trace}"\n[[flow]]\ncc = "reno"\n'
    )
    return file


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """The scenario's own folder, and another one that has a file of rates and one that is nobody's
    business.
    """
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    (other / "shadow").write_text(SECRET)
    (other / "rates.csv").write_text(RATES)
    return own, other


@pytest.mark.parametrize("name", ["{other}/shadow", "../other/shadow", "link"])
def test_a_scenario_reads_nothing_outside_of_its_folder(
    folders: tuple[Path, Path], name: str
) -> None:
    own, other = folders
    (own / "link").symlink_to(other / "shadow")
    file = scenario(own, name.format(other=other))
    done = CliRunner().invoke(main, ["check", str(file)])
    assert done.exit_code == 2
    assert "lies outside of the scenario's folder" in done.output
    assert not any(word in done.output for word in ("root:", "a-hash", "19000"))


def test_a_trace_that_is_no_regular_file_is_refused_by_every_reader(
    folders: tuple[Path, Path],
) -> None:
    own, other = folders
    os.mkfifo(own / "pipe")
    said = "not a regular file but a pipe"
    file = scenario(own, "pipe")
    for command in ("check", "run"):
        done = CliRunner().invoke(main, [command, str(file)])
        assert (done.exit_code, said in done.output.lower()) == (2, True), done.output
    shell = ["shell", "--toml", file.read_text(), "--name", str(file), "--", "true"]
    for words in (["run", str(file)], shell):
        host = subprocess.run(
            [HOST, *words], capture_output=True, text=True, check=False, timeout=30
        )
        assert (host.returncode, said in host.stderr) == (2, True), host.stderr
    # A shell reads nothing outside of the scenario's folder either.
    text = scenario(own, str(other / "rates.csv")).read_text()
    words = [HOST, "shell", "--toml", text, "--name", str(file), "--", "true"]
    host = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
    assert (host.returncode, "lies outside of the scenario's folder" in host.stderr) == (2, True), (
        host.stderr
    )


def test_no_message_shows_the_content_of_a_file(folders: tuple[Path, Path]) -> None:
    own, _ = folders
    (own / "shadow").write_text(SECRET)
    done = CliRunner().invoke(main, ["check", str(scenario(own, "shadow"))])
    assert done.exit_code == 2
    assert "line 1" in done.output
    assert not any(word in done.output for word in ("root:", "a-hash", "19000"))


def test_another_folder_is_allowed_by_the_command_line(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = folders
    monkeypatch.setenv("NARROWS_FILES_FROM", "")  # which is undone after the test
    file = scenario(own, "../other/rates.csv")
    assert CliRunner().invoke(main, ["run", str(file), "--quiet"]).exit_code == 2
    done = CliRunner().invoke(main, ["run", str(file), "--quiet", "--files-from", str(other)])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    "words",
    [["sweep", "{sweep}", "--quiet", "--into", "{into}"], ["measure", "{scenario}", "--quiet",
    "--no-model"],
     ["agree", "{scenario}", "nowhere.toml"], ["shell", "{scenario}", "--quiet", "--", "true"]],
)  # fmt: skip
def test_each_command_that_names_the_option_has_it(
    folders: tuple[Path, Path], words: list[str]
) -> None:
    own, other = folders
    file, sweep = scenario(own, "../other/rates.csv"), own / "sweep.toml"
    sweep.write_text('scenario = "s.toml"\n[over]\n"path.rtt" = ["20ms"]\n')
    command, *rest = [word.format(sweep=sweep, scenario=file, into=own / "into") for word in words]

    def said(*options: str) -> str:
        line = [NARROWS, command, *options, *rest]
        return subprocess.run(line, capture_output=True, text=True, check=False, timeout=60).stderr

    assert "allow its folder with --files-from" in said()
    # What follows may lack a privilege or fail for another reason.
    with_option = said("--files-from", str(other))
    assert "lies outside" not in with_option
    assert "No such option" not in with_option


def test_a_scenario_built_in_python_may_use_any_file(folders: tuple[Path, Path]) -> None:
    _, other = folders
    path = nw.Path(rtt="20ms", trace=str(other / "rates.csv"))
    run = nw.run(nw.Scenario(path, flows=[nw.Flow("reno")], duration="2s"))
    assert (
        7 < run.json["path"]["rate_mbit"] < 9
    )  # 12 until 1 s and 6 from then on; the summary begins at 0.4 s


def test_a_short_run_is_observed() -> None:
    path = nw.Path(rate="100Mbit", rtt="1ms", buffer="4bdp")
    run = nw.run(nw.Scenario(path, flows=[nw.Flow("reno")], duration="50ms"))
    assert run.samples.num_rows > 90
    assert sum(x is not None for x in run.samples["goodput_mbit"].to_pylist()) > 80
    flow = run.flows[0]
    assert flow["rtt_ms"]["mean"] > 1
    assert run.json["queue"]["backlog_packets"]["mean"] > 1
