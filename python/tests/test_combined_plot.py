"""`narrows plot` with several measurements."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Cli

import narrows as nw
from narrows import files
from narrows.measure.pictures import combined
from narrows.measure.simulated import Plan, measure


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


def test_tables_and_measurements_have_their_own_options(
    two: list[Path], command: Cli, tmp_path: Path
) -> None:
    out = tmp_path / "a.svg"
    assert "only for a table" in command("plot", *two, "--y", "rtt", "--out", out).stderr
    assert "--y: missing" in command("plot", "rows.csv", "--out", out).stderr
    assert "one table" in command("plot", "rows.csv", *two, "--y", "a", "--out", out).stderr
    assert "not written as a table" in command("plot", *two, "--out", tmp_path / "a.tex").stderr
