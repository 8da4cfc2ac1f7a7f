"""Bundles: their creation from a recipe, their verification by repetition, and the checks of
untrusted bundles.
"""

from __future__ import annotations

import hashlib
import io
import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from conftest import Cli

import narrows as nw
from narrows.bundle import archive, execution, recipe
from narrows.bundle.archive import packed, unpacked
from narrows.cli import main
from narrows.errors import NarrowsError
from narrows.storage import output

SCENARIO = """\
title = "bundled"
duration = "2s"
[path]
rtt = "20ms"
buffer = "1bdp"
trace = "rates.csv"
[[flow]]
cc = "cubic"
[[flow]]
cc = "bbr"
"""
RATES = "t_s,rate_mbit\n0,10\n1,5\n"
SWEEP = """\
scenario = "a.toml"
seeds = 2
[over]
"flow[0].cc" = ["cubic", "reno"]
"""
RECIPE = """\
# Figure 1
narrows run scenarios/a.toml --out result --plot 'figure 1.png' --json
narrows run scenarios/a.toml --seeds 2 --latex table.tex \\
    --quiet
narrows run scenarios/a.toml --quiet --report report.html
narrows sweep scenarios/s.toml --table rows.parquet --jobs 1
narrows plot rows.parquet --x flow[0].cc --y goodput_mbit --out b.pdf --size 84x60mm
narrows race --only cubic --duration 4s --seeds 2
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a recipe and its scenarios, and the bundle that is made from them."""
    pytest.importorskip("matplotlib")
    place = tmp_path_factory.mktemp("artefact")
    (place / "scenarios").mkdir()
    (place / "scenarios/a.toml").write_text(SCENARIO)
    (place / "scenarios/rates.csv").write_text(RATES)
    (place / "scenarios/s.toml").write_text(SWEEP)
    (place / "recipe.txt").write_text(RECIPE)
    done = call("bundle", place / "recipe.txt", "--out", place / "a.zip")
    assert done.exit_code == 0, done.output
    assert "6 commands" in done.output
    return place


def call(*words: object) -> Result:
    return CliRunner().invoke(main, list(map(str, words)))


def changed(
    place: Path, into: Path, change: Callable[[dict[str, bytes], dict[str, Any]], None]
) -> Path:
    """A copy of the bundle with other members; the manifest describes them."""
    members = unpacked(place / "a.zip")
    manifest = json.loads(members.pop("bundle.json"))
    change(members, manifest)
    manifest["files"] = {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in members.items()
        if name != "README.md"
    }
    file = into / "changed.zip"
    file.write_bytes(packed({"bundle.json": json.dumps(manifest).encode(), **members}))
    return file


def test_a_bundle_has_inputs_results_commands_and_versions(place: Path) -> None:
    members = unpacked(place / "a.zip")
    manifest = json.loads(members["bundle.json"])
    assert manifest["narrows"] == nw.__version__
    assert manifest["scenario_format"] == 1
    assert manifest["commands"][0][:2] == ["run", "scenarios/a.toml"]
    inputs = {"inputs/scenarios/a.toml", "inputs/scenarios/rates.csv", "inputs/scenarios/s.toml"}
    assert inputs == {name for name in members if name.startswith("inputs/")}
    assert {
        "results/result/run.json",
        "results/result/samples.parquet",
        "results/figure 1.png",
        "results/table.tex",
        "results/report.html",
        "results/rows.parquet",
        "results/b.pdf",
        "results/stdout/1.json",
        "results/stdout/6.txt",
    } <= set(members)
    assert not any("sweep-results" in name for name in members)
    assert json.loads(members["results/result/run.json"])["scenario"]["format"] == 1
    assert b"narrows bundle --verify a.zip" in members["README.md"]
    assert members["inputs/scenarios/rates.csv"].decode() == RATES


def test_a_bundle_is_verified_by_repetition(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call("bundle", "--verify", place / "a.zip")
    assert done.exit_code == 0, done.output
    assert "same     result/run.json" in done.output
    assert "same     rows.parquet" in done.output
    assert "written  figure 1.png: figure, not compared" in done.output
    assert "DIFFERS" not in done.output
    assert list(tmp_path.iterdir()) == []


OWN = """\
from narrows.models import CongestionControl


class Own(CongestionControl):
    name = "own_of_bundle"

    def on_ack(self, window, ack):
        window.cwnd += GAIN
"""


@pytest.fixture
def with_plugin(tmp_path: Path, cli: Cli) -> Path:
    """A directory with a plugin and a bundle whose commands use its congestion control."""
    (tmp_path / "a.toml").write_text(SCENARIO.replace("cubic", "own_of_bundle"))
    (tmp_path / "rates.csv").write_text(RATES)
    (tmp_path / "s.toml").write_text(SWEEP.replace("reno", "own_of_bundle"))
    (tmp_path / "own.py").write_text(OWN.replace("GAIN", "0.5"))
    (tmp_path / "recipe.txt").write_text(
        "narrows run a.toml --out result --json\nnarrows sweep s.toml --table rows.csv --jobs 1\n"
    )
    done = cli("bundle", "recipe.txt", "--plugin", "own.py", "--out", "a.zip")
    assert done.returncode == 0, done.stderr
    return tmp_path


def test_a_bundle_with_a_plugin_is_verified_with_it(with_plugin: Path, cli: Cli) -> None:
    members = unpacked(with_plugin / "a.zip")
    sha256 = hashlib.sha256((with_plugin / "own.py").read_bytes()).hexdigest()
    assert json.loads(members["bundle.json"])["plugins"] == [
        {"name": "own.py", "models": ["own_of_bundle"], "sha256": sha256}
    ]
    assert not any(name.endswith(".py") for name in members)
    assert b"narrows bundle --verify a.zip --plugin own.py" in members["README.md"]
    done = cli("bundle", "--verify", "a.zip", "--plugin", "own.py")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "same     rows.csv" in done.stdout
    assert "note" not in done.stdout


def test_a_bundle_loads_no_plugin_itself(with_plugin: Path, cli: Cli) -> None:
    done = cli("bundle", "--verify", "a.zip")
    assert done.returncode == 2
    assert done.stderr.startswith("a.zip: needs the model own_of_bundle of the plugin own.py with")
    assert "write: narrows bundle --verify a.zip --plugin own.py" in done.stderr


def test_another_version_of_a_plugin_is_noted(with_plugin: Path, cli: Cli) -> None:
    (with_plugin / "own.py").write_text(OWN.replace("GAIN", "0.1"))
    done = cli("bundle", "--verify", "a.zip", "--plugin", "own.py")
    assert done.returncode == 1, done.stderr
    assert "note: own_of_bundle: the plugin differs from that of the bundle" in done.stdout
    assert "DIFFERS  result/run.json" in done.stdout
    told = cli("bundle", "--verify", "a.zip", "--plugin", "own.py", "--json")
    assert json.loads(told.stdout)["other_plugins"] == ["own_of_bundle"]


def test_a_fault_in_a_plugin_is_an_error_that_names_the_plugin(with_plugin: Path, cli: Cli) -> None:
    (with_plugin / "own.py").write_text(OWN.replace("GAIN", "1 / 0"))
    done = cli("bundle", "recipe.txt", "--plugin", "own.py", "--out", "b.zip")
    assert done.returncode == 2
    assert "own.py: own_of_bundle: on_ack at " in done.stderr


def test_the_plugins_of_a_manifest_have_the_right_types(place: Path, tmp_path: Path) -> None:
    for wrong in (3, [3], [{"name": "a"}], [{"name": "a", "models": [3]}], {"name": "a"}):

        def change(_members: dict[str, bytes], manifest: dict[str, Any], w: object = wrong) -> None:
            manifest["plugins"] = w

        done = call("bundle", "--verify", changed(place, tmp_path, change))
        assert done.exit_code == 2
        assert "has values of other types" in done.output


def test_differences_are_named_and_exit_with_one(place: Path, tmp_path: Path) -> None:
    def change(members: dict[str, bytes], manifest: dict[str, Any]) -> None:
        # Without the commands of which nothing is changed.
        first, table, _, sweep, *_ = manifest["commands"]
        at = first.index("--plot")
        del first[at : at + 2]
        manifest["commands"] = [first, table, sweep]
        run = json.loads(members["results/result/run.json"])
        run["flows"][0]["goodput_mbit"] = 99.5
        run["provenance"]["started"] = "another day"
        members["results/result/run.json"] = json.dumps(run).encode()
        members["results/table.tex"] = b"% Another comment\n\\begin{tabular}\n"
        members["results/lost.json"] = b"{}"
        manifest["contents"]["rows.parquet"] = "0" * 64

    done = call("bundle", "--verify", changed(place, tmp_path, change), "--json")
    assert done.exit_code == 1, done.output
    told = json.loads(done.output)
    states = {one["name"]: one for one in told["results"]}
    assert not told["agrees"]
    assert states["result/run.json"]["about"].startswith("flows.0.goodput_mbit: 99.5 before, ")
    assert "started" not in states["result/run.json"]["about"]
    assert states["table.tex"] == {"name": "table.tex", "state": "differs", "about": "line 1"}
    assert states["rows.parquet"]["state"] == "differs"
    assert states["lost.json"]["state"] == "missing"
    assert states["stdout/1.json"]["state"] == "same"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("narrows measure host.example", "narrows measure: is no command of bundles"),
        ("narrows run a.toml --engine live", "--engine: no option of bundles"),
        ("narrows run a.toml --record a.pcapng", "--record: no option of bundles"),
        ("narrows run a.toml --files-from /etc", "--files-from: no option of bundles"),
        ("narrows sweep a.toml --on ray", "--on: no option of bundles"),
        ("narrows run ../a.toml", "only files below its own folder"),
        ("narrows run /etc/passwd", "only files below its own folder"),
        ("narrows run a.toml --out=../b", "only files below its own folder"),
        ("narrows run a.toml --plot a.py", "no programs and no settings"),
        ("narrows run a.toml --plot matplotlibrc", "no programs and no settings"),
        ("narrows race --queue ../x", "only plain values"),
        ("narrows race --only x:y", "only plain values"),
        ("narrows run a.toml --seeds", "the value is missing"),
        ("rm -rf .", "rm: no command of narrows"),
        ("narrows run 'a.toml", "No closing quotation"),
        ("# nothing", "has no command"),
    ],
)
def test_a_recipe_has_only_simulations_and_figures(line: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.txt").write_text(line + "\n")
    done = call("bundle", tmp_path / "recipe.txt", "--out", tmp_path / "a.zip")
    assert (done.exit_code, said in done.output) == (2, True), done.output
    assert not (tmp_path / "a.zip").exists()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.toml", SCENARIO.replace("rates.csv", "../rates.csv"), "../rates.csv"),
        ("a.toml", SCENARIO.replace("rates.csv", "/etc/passwd"), "/etc/passwd"),
        ("s.toml", SWEEP.replace("a.toml", "../../x.toml"), "only files below its own folder"),
        ("s.toml", SWEEP + '"path.trace" = ["/etc/passwd"]\n', "varies no file"),
        (
            "s.toml",
            SWEEP.replace('"reno"', '{ kind = "remy", tree = "/etc/passwd" }'),
            "varies no file",
        ),
    ],
)
def test_inputs_name_no_other_files(
    place: Path, tmp_path: Path, name: str, text: str, said: str
) -> None:
    def change(members: dict[str, bytes], _: dict[str, Any]) -> None:
        members[f"inputs/scenarios/{name}"] = text.encode()

    done = call("bundle", "--verify", changed(place, tmp_path, change))
    assert (done.exit_code, said in done.output) == (2, True), done.output


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SCENARIO)
    (tmp_path / "own").mkdir()
    (tmp_path / "own/a.toml").symlink_to(tmp_path / "secret")
    (tmp_path / "own/recipe.txt").write_text("narrows run a.toml --out b\n")
    done = call("bundle", tmp_path / "own/recipe.txt", "--out", tmp_path / "a.zip")
    assert (done.exit_code, "is a link out of the folder" in done.output) == (2, True)


def archived(*members: tuple[zipfile.ZipInfo | str, bytes]) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members:
            made.writestr(name, content)
    return sink.getvalue()


def link(name: str) -> zipfile.ZipInfo:
    about = zipfile.ZipInfo(name)
    about.external_attr = (stat.S_IFLNK | 0o777) << 16
    return about


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no archive", "is damaged or no bundle"),
        (archived(("../evil.toml", b"")), "only files below its own folder"),
        (archived(("/etc/evil.toml", b"")), "only files below its own folder"),
        (archived(("a/../../b", b"")), "only files below its own folder"),
        (archived(("inputs\\..\\x", b"")), "only files below its own folder"),
        (archived(("inputs/json.py", b"")), "no programs"),
        (archived((link("inputs/a"), b"/etc/passwd")), "is no regular file"),
        (archived(("inputs/a", b""), ("inputs/a/b/c", b"")), "a.zip: inputs/a: is a file and a"),
        (archived(("inputs/a/b", b""), ("inputs/a", b"")), "a.zip: inputs/a: is a file and a"),
        (archived(("a.toml", b"1")), "has no valid bundle.json"),
        (archived(("bundle.json", b"[" * 100_000)), "has no valid bundle.json"),
        (archived(("bundle.json", b'{"kind": "narrows bundle"}')), "has no valid bundle.json"),
    ],
)
def test_an_invalid_bundle_is_refused_before_anything_is_written(
    content: bytes, said: str, tmp_path: Path
) -> None:
    (tmp_path / "a.zip").write_bytes(content)
    done = call("bundle", "--verify", tmp_path / "a.zip")
    assert (done.exit_code, said in done.output) == (2, True), done.output
    assert [file.name for file in tmp_path.iterdir()] == ["a.zip"]


def test_bombs_and_devices_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_BYTES", 1 << 20)
    (tmp_path / "a.zip").write_bytes(archived(("a", b"\0" * (1 << 22))))
    with pytest.raises(NarrowsError, match=r"a: exceeds the most that is unpacked: .* 1 MiB or"):
        unpacked(tmp_path / "a.zip")
    monkeypatch.undo()
    # 70 KB of archive for 70 MB, and a manifest of 17 MB.
    for name, size in (("a", 70 << 20), ("bundle.json", 17 << 20)):
        (tmp_path / "a.zip").write_bytes(archived((name, b" " * size)))
        with pytest.raises(NarrowsError, match=f"{name}: exceeds the most that is unpacked"):
            unpacked(tmp_path / "a.zip")
    monkeypatch.setattr(archive, "MOST_MEMBERS", 2)
    (tmp_path / "a.zip").write_bytes(archived(*((f"a{n}", b"") for n in range(3))))
    with pytest.raises(NarrowsError, match="has 3 files; the most is 2"):
        unpacked(tmp_path / "a.zip")
    with pytest.raises(NarrowsError, match="regular file"):
        unpacked("/dev/zero")


def test_a_changed_file_and_a_newer_format_are_named(place: Path, tmp_path: Path) -> None:
    members = unpacked(place / "a.zip")
    members["inputs/scenarios/rates.csv"] += b"2,1\n"
    (tmp_path / "a.zip").write_bytes(packed(members))
    done = call("bundle", "--verify", tmp_path / "a.zip")
    assert (done.exit_code, "does not agree with its SHA-256" in done.output) == (2, True)

    def newer(_: dict[str, bytes], manifest: dict[str, Any]) -> None:
        manifest["format"] = 2

    done = call("bundle", "--verify", changed(place, tmp_path, newer))
    assert (done.exit_code, "install a newer version" in done.output) == (2, True)

    def foreign(_: dict[str, bytes], manifest: dict[str, Any]) -> None:
        manifest["commands"][0] += ["--engine", "live"]

    done = call("bundle", "--verify", changed(place, tmp_path, foreign))
    assert (done.exit_code, "--engine: no option" in done.output) == (2, True)


def test_a_command_stops_at_its_time_limit(place: Path, tmp_path: Path) -> None:
    (tmp_path / "long.toml").write_text(
        SCENARIO.replace('"2s"', '"20h"').replace('trace = "rates.csv"', 'rate = "1Gbit"')
    )
    (tmp_path / "recipe.txt").write_text("narrows run long.toml\n")
    done = call("bundle", tmp_path / "recipe.txt", "--out", tmp_path / "a.zip", "--timeout", "1")
    assert (done.exit_code, "write a longer --timeout" in done.output) == (2, True), done.output


def test_a_command_loads_no_code_of_its_folder_and_has_no_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for name in ("narrows", "json"):
        (work / f"{name}.py").write_text("raise SystemExit('loaded')")
    (work / "a.toml").write_text(SCENARIO)
    (work / "rates.csv").write_text("t_s,rate_mbit\n0,10\n")
    monkeypatch.setenv("PYTHONPATH", str(work))
    monkeypatch.setenv("NARROWS_FILES_FROM", "/")
    command = recipe.command(["run", "a.toml", "--json"])
    told = json.loads(execution.execute(command, work, 60))
    assert told["scenario"]["title"] == "bundled"


def test_a_search_is_a_command_of_bundles(tmp_path: Path) -> None:
    pytest.importorskip("cmaes")
    (tmp_path / "a.toml").write_text(SCENARIO)
    (tmp_path / "rates.csv").write_text("t_s,rate_mbit\n0,10\n")
    words = "worst-case a.toml --over path.buffer=0.5bdp:8bdp --for queue --budget 4 --population 4"
    line = [*words.split(), "--seeds", "1", "--checks", "1", "--out", "worst.toml", "--json"]
    one = recipe.command(line)
    assert (one.inputs, one.outputs, one.store) == (("a.toml",), ("worst.toml",), "sweep-results")
    told = json.loads(execution.execute(one, tmp_path, 60))
    assert told["scenarios"] >= 4
    assert "[path]" in (tmp_path / "worst.toml").read_text()
    for more in ["--on", "ray"], ["--over", "path.trace=/etc/passwd,b"], ["--into", "../x"]:
        with pytest.raises(NarrowsError):
            recipe.command([*line, *more])


def test_the_grammar_of_bundles_has_options_of_the_commands() -> None:
    context = click.Context(main)
    for name, grammar in recipe.COMMANDS.items():
        command = main.get_command(context, name)
        assert command is not None
        options = {
            option: param
            for param in command.params
            if isinstance(param, click.Option)
            for option in param.opts
        }
        for option in grammar.flags:
            assert options[option].is_flag, (name, option)
        for option in grammar.values:
            assert not options[option].is_flag, (name, option)
            assert not isinstance(options[option].type, click.Path), (name, option)
        for option in grammar.outputs:
            assert isinstance(options[option].type, output.File | click.Path | output.Folder)
        written = {o for o, p in options.items() if isinstance(p.type, output.File | output.Folder)}
        assert written - {"--record"} <= set(grammar.outputs), name
