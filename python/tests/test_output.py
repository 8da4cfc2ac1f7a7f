"""Results in files: they are written completely or not at all, and a failed output affects no other
result of a command.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from test_compare_latency import result

import narrows as nw
from narrows import cli
from narrows.cli.outputs import every
from narrows.errors import EngineError, NarrowsError, OutputError
from narrows.measure import history
from narrows.measure import run as measuring
from narrows.measure.result import Measurement
from narrows.measure.simulated import Plan
from narrows.measure.simulated import measure as simulate
from narrows.path_model import PathModel, infer
from narrows.storage import output

FULL = "no space left on device"
HOSTS = Path(__file__).parent / "data/hosts"


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "answer.json"
    output.write(file, "old")
    file.chmod(0o640)
    output.write(file, "ü")
    assert (file.read_text(encoding="utf-8"), file.stat().st_mode & 0o777) == ("ü", 0o640)
    assert list(file.parent.iterdir()) == [file]


def test_the_target_of_a_symbolic_link_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    output.write(tmp_path / "link", b"1")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"1"


def test_a_planted_link_at_the_temporary_name_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "precious").write_text("mine")
    guessed = uuid.UUID(int=0)
    monkeypatch.setattr(uuid, "uuid4", lambda: guessed)
    (tmp_path / f".{guessed.hex}.part").symlink_to("precious")
    with pytest.raises(OutputError, match="file exists"):
        output.write(tmp_path / "answer.json", "{}")
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_path_that_cannot_be_written_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"file/answer\.json: not a directory"):
        output.write(tmp_path / "file" / "answer.json", "{}")
    with pytest.raises(OutputError, match=r"file/a\.json: there is no directory .*/file"):
        output.check(tmp_path / "file" / "a.json")
    output.check(tmp_path / "new" / "folders" / "a.json")
    with pytest.raises(OutputError, match=r"/dev/full: is not a directory; write another name"):
        output.check_folder("/dev/full")
    with pytest.raises(OutputError, match=r"a\.json: there is no directory .*/new"):
        output.check(tmp_path / "new" / "a.json", makes_folders=False)


def test_every_output_is_tried_and_errors_are_reported_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def outputs(errors: list[Exception | None], end: BaseException | None = None) -> list[int]:
        tried = []
        with every() as attempt:
            for at, error in enumerate(errors):
                with attempt():
                    tried.append(at)
                    if error is not None:
                        raise error
            if end is not None:
                raise end
        return tried

    full = OutputError("a: full")
    assert outputs([None, None]) == [0, 1]
    with pytest.raises(OutputError, match=r"^a: full\noutput: disk$"):
        outputs([full, None, OSError(5, "Disk")])
    # One alone keeps its kind.
    with pytest.raises(EngineError, match="gone"):
        outputs([EngineError("gone"), None])
    assert capsys.readouterr().err == ""
    # A fault of narrows' own, and what ends the command otherwise, hide none of the errors.
    with pytest.raises(ZeroDivisionError):
        outputs([full, ZeroDivisionError()])
    assert capsys.readouterr().err == "a: full\n"
    with pytest.raises(KeyboardInterrupt):
        outputs([full], KeyboardInterrupt())
    assert capsys.readouterr().err == "a: full\n"


def commands(of: click.Command, name: str = "narrows") -> Iterator[tuple[str, click.Command]]:
    yield name, of
    if isinstance(of, click.Group):
        context = click.Context(of)
        for inner in of.list_commands(context):
            command = of.get_command(context, inner)
            assert command is not None
            yield from commands(command, f"{name} {inner}")


def test_every_option_that_names_a_file_to_write_is_checked_first() -> None:
    types = (output.File, output.Folder)
    written = {
        "--out",
        "-o",
        "--plot",
        "--report",
        "--junit",
        "--hlog",
        "--path",
        "--table",
        "--html",
        "--markdown",
        "--rules",
        "--sh",
    }
    found = set()
    for name, command in commands(cli.main):
        for param in command.params:
            if written & set(param.opts) and name not in {"narrows shell", "narrows kernel diff"}:
                assert isinstance(param.type, types), (name, param.opts)
                found.add(name)
    assert {
        "narrows run",
        "narrows measure",
        "narrows latency",
        "narrows sweep",
        "narrows tune plan",
    } <= found


@pytest.mark.parametrize(
    "words",
    [
        ["reproduce", "queue-model", "--quick"],
        ["study", "latency", "--quick"],
        ["sweep", "sweep.toml"],
        ["train", "remy", "training.toml"],
        ["worst-case", "tiny.toml", "--over", "path.rtt=5ms:50ms", "--for", "queue"],
    ],
)
def test_a_directory_of_results_is_checked_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Path, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_bytes(tiny.read_bytes())
    (tmp_path / "training.toml").touch()
    (tmp_path / "sweep.toml").write_text('scenario = "tiny.toml"\n[over]\n"flow.cc" = ["bbr"]\n')
    for name in ("run_toml", "run_tree"):
        monkeypatch.setattr(f"narrows._core.{name}", lambda *_, **__: pytest.fail("it simulated"))
    for into in ("/proc/x", "training.toml/x"):
        done = CliRunner().invoke(cli.main, [*words, "--into", into])
        assert done.exit_code == 2
        assert done.stderr.startswith(f"--into {into}: ")
        assert done.stderr.endswith("; write another directory\n")


@pytest.fixture(scope="module")
def measured() -> Measurement:
    path = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp", reverse=nw.Hop(rate="10Mbit"))
    return simulate(path, Plan(load_s=4.0, directions=("up",), streams=1))


@pytest.fixture(scope="module")
def model(measured: Measurement) -> PathModel:
    return infer(measured)


@pytest.fixture
def prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Measurement, model: PathModel
) -> Path:
    """A folder with a scenario and results, and simulated servers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NARROWS_HISTORY", str(tmp_path / "history.duckdb"))
    told = result("far", 1, 80, n=1000)
    monkeypatch.setattr(
        measuring, "measure", lambda *_, **__: (Measurement.of(json.loads(measured.text())), [])
    )
    monkeypatch.setattr("narrows.latency.run.measure", lambda *_, **__: told)
    monkeypatch.setattr("narrows.path_model.infer", lambda *_, **__: model)
    for command in ("narrows.measure.command", "narrows.path_model.command"):
        monkeypatch.setattr(f"{command}.infer", lambda *_, **__: model)
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(measured.text(), encoding="utf-8")
        (tmp_path / f"{name}-latency.json").write_text(
            json.dumps(result(name, 1, 80, n=1000)), encoding="utf-8"
        )
        flows = '[[flow]]\ncc = "reno"\n'
        (tmp_path / f"{name}.toml").write_text(
            f'duration = "1s"\n[path]\nrate = "5Mbit"\nrtt = "20ms"\n{flows}'
        )
    (tmp_path / "sweep.toml").write_text(
        'base = "a.toml"\n[vary]\n"path.rate" = ["5Mbit"]\n', encoding="utf-8"
    )
    (tmp_path / "good-sweep.toml").write_text(
        'scenario = "a.toml"\n[over]\n"path.rate" = ["5Mbit"]\n', encoding="utf-8"
    )
    (tmp_path / "rows.csv").write_text("rate,seed,goodput_mbit\n1,1,2\n2,1,3\n", encoding="utf-8")
    if history.installed():
        history.keep(Measurement.of(json.loads(measured.text()) | {"id": "kept"}))
    return tmp_path


OUTPUTS: dict[str, tuple[list[str], list[tuple[str, str]], str]] = {
    "run": (["run", "a.toml"], [("--plot", ".svg"), ("--report", ".html")], "goodput"),
    "compare scenarios": (["compare", "a.toml", "b.toml"], [("--plot", ".svg"), ("--report",
    ".html")], "a.toml: "),
    "compare measurements": (["compare", "a.json", "b.json"], [("--plot", ".svg"), ("--report",
    ".html")], "Upload goodput"),
    "compare latencies": (
        ["compare", "a-latency.json", "b-latency.json"], [("--plot", ".svg"), ("--report",
        ".html")], "No difference",
    ),
    "measure": (
        ["measure", "far"],
        [("--out", ".json"), ("--out", ".csv"), ("--plot", ".png"), ("--report", ".html"),
        ("--path", ".toml")],
        "The goodput was",
    ),
    "latency": (
        ["latency", "far"], [("--out", ".json"), ("--hlog", ".hlog"), ("--plot", ".svg"),
        ("--report", ".html")],
        "requests were answered",
    ),
    "race": (["race", "--only", "reno", "--duration", "4", "--seeds", "1"], [("--plot", ".svg")],
    "Lowest p95 queueing delay"),
    "from": (["from", "tc qdisc add dev eth0 root netem delay 20ms rate 5mbit"], [("-o", ".toml")],
    "CUBIC"),
    "twin": (["twin", "a.json"], [("--path", ".toml")], "Base RTT"),
    "advise": (
        ["advise", "--rate", "4Mbit", "--rtt", "20ms", "--buffer", "1bdp", "--kernel",
        "cubic,reno"], [("--report", ".html")], "Path (stated)",
    ),
    "plot": (
        ["plot", "rows.csv", "--x", "rate", "--y", "goodput_mbit"], [("--out", ".svg")], "",
    ),
    "sweep": (["sweep", "good-sweep.toml"], [("--table", ".csv")], "Medians over all rows"),
    "tune plan": (
        ["tune", "plan", "--cc", "bbr", "--facts", str(HOSTS / "debian-12.txt")],
        [("--sh", ".sh")], "bbr",
    ),
    "reproduce": (
        ["reproduce", "share-model", "--quick"], [("--html", ".html"), ("--markdown", ".md")],
        "share-model",
    ),
    "study": (
        ["study", "asymmetric-line", "--quick"], [("--plot", ".svg"), ("--latex", ".tex")],
        "RTT of a ping",
    ),
    "history": (["history", "--get", "kept"], [("--out", ".csv")], ""),
}  # fmt: skip
"""Of each command: its words, its options for files with their suffixes, and what it prints."""


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.usefixtures("one_picture")
def test_an_output_that_fails_affects_no_other_output(name: str, prepared: Path) -> None:
    words, options, says = OUTPUTS[name]
    named = [(option, f"out{at}{suffix}") for at, (option, suffix) in enumerate(options)]
    for at in sorted({0, len(named) - 1}):
        for _, file in named:
            (prepared / file).unlink(missing_ok=True)
        # A disk that is full when the command has done its work.
        (prepared / named[at][1]).symlink_to("/dev/full")
        more = [word for pair in named for word in pair]
        done = CliRunner().invoke(cli.main, [*words, *more])
        assert done.exit_code == 2, done.output
        assert f"{named[at][1]}: {FULL}" in done.stderr
        assert says in done.stdout
        for _, file in [*named[:at], *named[at + 1 :]]:
            assert (prepared / file).stat().st_size > 50, file


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_that_cannot_be_written_are_errors_before_the_work(
    name: str, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, options, _ = OUTPUTS[name]
    (prepared / "file").touch()

    def works(*_: object, **__: object) -> None:
        pytest.fail("the work began")

    for where in (
        "narrows.runs.command.run_scenario",
        "narrows.files.read",
        "narrows.compare.command.read_latency",
        "narrows.latency.run.measure",
    ):
        monkeypatch.setattr(where, works)
    monkeypatch.setattr(measuring, "measure", works)
    monkeypatch.setattr("narrows.runs.race.race", works)
    monkeypatch.setattr("narrows.advise.judge.judge", works)
    for option, suffix in options:
        done = CliRunner().invoke(cli.main, [*words, option, f"file/x{suffix}"])
        assert (done.exit_code, "there is no directory" in done.stderr) == (2, True), done.output
        if option == "--plot":
            with monkeypatch.context() as absent:
                absent.setitem(sys.modules, "matplotlib", None)
                done = CliRunner().invoke(cli.main, [*words, option, f"x{suffix}"])
            assert (done.exit_code, "pip install 'narrows[plot]'" in done.stderr) == (2, True), (
                done.output
            )
            done = CliRunner().invoke(cli.main, [*words, option, "x.doc"])
            assert (done.exit_code, "PNG, SVG or PDF" in done.stderr) == (2, True), done.output


def measure(*more: str) -> Result:
    return CliRunner().invoke(cli.main, ["measure", "far", *more])


@pytest.mark.skipif(not history.installed(), reason="DuckDB is not installed")
def test_history_and_forecasts_do_not_depend_on_each_other(
    prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (prepared / "history.duckdb").write_text("not a database")
    scored: list[Measurement] = []
    monkeypatch.setattr("narrows.forecasts.score_open", lambda one: scored.append(one) or [])
    done = measure("--no-model", "--out", "m.json")
    assert (done.exit_code, len(scored)) == (0, 1), done.output
    assert "the measurement was not stored in the history: " in done.stderr
    assert "The goodput was" in done.stdout
    (prepared / "history.duckdb").unlink()

    def fails(_: Measurement) -> None:
        raise NarrowsError("forecasts.jsonl: line 1: changed since it was written")

    monkeypatch.setattr("narrows.forecasts.score_open", fails)
    done = measure("--no-model")
    assert done.exit_code == 0, done.output
    assert "no forecast was scored: forecasts.jsonl: line 1" in done.stderr
    assert len(history.rows()) == 1


def test_ctrl_c_during_inference_loses_only_the_path_model(
    prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def infer(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("narrows.measure.command.infer", infer)
    done = measure("--no-history", "--report", "page.html")
    assert done.exit_code == 130, done.output
    assert "The goodput was" in done.stdout
    assert (prepared / "page.html").stat().st_size > 100


def test_an_internal_error_loses_no_measurement(
    prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def infer(*_: object, **__: object) -> Any:  # noqa: ANN401 - never
        raise ZeroDivisionError

    monkeypatch.setattr("narrows.measure.command.infer", infer)
    done = measure("--no-history", "--out", "m.json")
    assert isinstance(done.exception, ZeroDivisionError)
    assert "The goodput was" in done.stdout
    assert (prepared / "m.json").stat().st_size > 100


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("from", "tc qdisc add dev a root tbf rate 9mbit burst 9k limit 90k"), "--out"),
        (("advise", "--rate", "9Mbit", "--rtt", "20ms", "--quick"), "--report"),
        (("race", "--only", "reno"), "--plot"),
        (("race", "--only", "reno"), "--latex"),
        (("explain", "codel"), "--report"),
    ],
)
def test_no_command_makes_the_directory_of_a_file(
    command: Callable[..., CompletedProcess[str]],
    tmp_path: Path,
    arguments: tuple[str, ...],
    option: str,
) -> None:
    name = {"--plot": "a.svg", "--latex": "a.tex", "--report": "a.html"}.get(option, "a.csv")
    done = command(*arguments, option, tmp_path / "new" / name)
    assert done.returncode == 2
    assert f"{name}: there is no directory" in done.stderr
    assert not (tmp_path / "new").exists()
