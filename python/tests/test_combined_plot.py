"""`narrows plot` with several measurements."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Cli

import narrows as nw
from narrows import files
from narrows.errors import NarrowsError
from narrows.measure.pictures import combined
from narrows.measure.simulated import Plan, measure
from narrows.render.picture import Line, Picture
from narrows.render.plot import draw_columns
from narrows.sweeps import results


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two simulated measurements."""
    folder = tmp_path_factory.mktemp("two")
    found = []
    for name, rate in (("a", "10Mbit"), ("b", "20Mbit")):
        path = nw.Path(rate=rate, rtt="20ms", buffer="1bdp", reverse=nw.Hop(rate=rate))
        file = folder / f"{name}.json"
        files.write(measure(path, Plan(load_s=2, idle_s=1, directions=("down",)), seed=1), file)
        found.append(file)
    return found


def test_measurements_share_their_axes(two: list[Path]) -> None:
    shown = combined([files.read(file) for file in two], ["a", "b"])
    assert [picture.key for picture in shown] == ["throughput", "rtt", "delay"]
    for picture in shown:
        assert {line.flow for line in picture.lines} == {0, 1}
        assert {line.label.partition(":")[0] for line in picture.lines} == {"a", "b"}


def test_the_command_draws_measurements(two: list[Path], command: Cli, tmp_path: Path) -> None:
    figure = tmp_path / "days.svg"
    done = command("plot", *two, "--out", figure)
    assert done.returncode == 0, done.stderr
    assert "<svg" in figure.read_text(encoding="utf-8")


def test_the_frame_hides_no_part_of_a_single_point() -> None:
    points = [Line(name, nth, "points", [50.0 + nth], [19.0]) for nth, name in enumerate("ab")]
    figure = draw_columns([("", [Picture("tradeoff", "Goodput and RTT", "x", "y", "", points)])])
    assert [line.get_clip_on() for line in figure.axes[0].get_lines()] == [False, False]


def test_tables_and_measurements_have_their_own_options(
    two: list[Path], command: Cli, tmp_path: Path
) -> None:
    out = tmp_path / "a.svg"
    assert "are only for a table" in command("plot", *two, "--y", "rtt", "--out", out).stderr
    assert "--y: missing" in command("plot", "rows.csv", "--out", out).stderr
    assert "one table" in command("plot", "rows.csv", *two, "--y", "a", "--out", out).stderr
    assert "not written as a table" in command("plot", *two, "--out", tmp_path / "a.tex").stderr


RESPONSES = {
    "kind": "latency", "sent": 4, "lost": 0,
    "rtt_us": {
        "n": 4, "min": 1000, "mean": 1750, "max": 4000,
        "histogram_ns": [[1_000_000, 3], [4_000_000, 1]],
    },
}  # fmt: skip
RUN = {
    "engine": "sim", "scenario": {},
    "flows": [{"id": "cubic0", "goodput_mbit": 19.1, "rtt_ms": {"p95": 80.6}},
              {"id": "bbr0", "goodput_mbit": None, "rtt_ms": None}],
}  # fmt: skip


def stored(folder: Path, name: str, tree: object) -> Path:
    file = folder / name
    file.write_text(json.dumps(tree), encoding="utf-8")
    return file


def test_results_of_all_kinds_share_their_axes(two: list[Path], tmp_path: Path) -> None:
    policies = {
        "kind": "latency_lab",
        "setups": [
            {"policy": "default", "load": "none", "refused": None, "latency": RESPONSES},
            {"policy": "rr", "load": "none", "refused": "not permitted"},
        ],
    }
    named = [
        ("a", two[0]),
        ("l", stored(tmp_path, "l.json", RESPONSES)),
        ("p", stored(tmp_path, "p.json", policies)),
        ("r", stored(tmp_path, "r.json", RUN)),
    ]
    several = [(name, one) for name, file in named for _, one in results.read(file)]
    shown = {picture.key: picture for picture in results.combined(several)}
    assert list(shown) == ["throughput", "rtt", "delay", "tradeoff"]
    delay = {line.label: line for line in shown["delay"].lines}
    assert {"a: idle", "l: RTT", "p: RTT"} <= delay.keys()
    assert (delay["l: RTT"].x, delay["l: RTT"].y) == ([1.0, 4.0], [0.75, 1.0])
    assert {line.flow for line in shown["delay"].lines} == {0, 1, 2}
    points = {line.label: (line.x, line.y) for line in shown["tradeoff"].lines}
    assert points["r: cubic0"] == ([80.6], [19.1])
    assert set(points) == {"a: download", "r: cubic0"}


def test_response_times_alone_are_drawn(tmp_path: Path, command: Cli) -> None:
    file = stored(tmp_path, "l.json", RESPONSES)
    figure = tmp_path / "l.svg"
    assert command("plot", file, file, "--out", figure).returncode == 0
    assert "<svg" in figure.read_text(encoding="utf-8")


def test_a_file_that_is_no_result_is_named(tmp_path: Path) -> None:
    damaged = stored(tmp_path, "r.json", RUN | {"flows": [{"goodput_mbit": "fast"}]})
    with pytest.raises(NarrowsError, match=r"r\.json: flows"):
        results.read(damaged)
    with pytest.raises(NarrowsError, match="the results have no data"):
        results.combined([("r", RUN)])
