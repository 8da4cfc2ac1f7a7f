"""The test `rrul` in the simulator, and the table of its traffic classes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Cli

from narrows.measure.classes import classes
from narrows.measure.render import by_class
from narrows.measure.result import Measurement
from narrows.render.words import percent

LINE = """\
duration = "30s"
[path]
rate   = "20Mbit"
rtt    = "20ms"
buffer = "250kB"
{queue}
[path.reverse]
rate   = "20Mbit"
buffer = "250kB"
{queue}
[[flow]]
cc = "cubic"
"""


def _measured(cli: Cli, folder: Path, queue: str, *options: str) -> Measurement:
    (folder / "line.toml").write_text(LINE.format(queue=queue), encoding="utf-8")
    done = cli("measure", folder / "line.toml", "--test", "rrul", "--json", *options)
    assert done.returncode == 0, done.stderr
    return Measurement.of(json.loads(done.stdout))


def test_a_fifo_gives_all_classes_the_same_rtt(cli: Cli, tmp_path: Path) -> None:
    measured = _measured(cli, tmp_path, 'queue = "fifo"')
    assert measured.test == "rrul"
    assert [flow.told["dscp"] for flow in measured.flows] == ["BE", "CS1", "CS5", "EF"] * 2
    found = classes(measured)
    assert [one.name for one in found] == ["BE", "CS1", "CS5", "EF"]
    total = sum(one.rates_mbit["down"] for one in found)
    assert total == pytest.approx(measured.rate_mbit("down"), rel=1e-3)
    # All pings wait in the same queues, so that their means differ by their sampling only.
    means = [one.rtt.mean or 0.0 for one in found]
    assert max(means) < 1.05 * min(means)


def test_a_queue_with_classes_separates_them(cli: Cli, tmp_path: Path) -> None:
    queue = 'queue = { kind = "cake", diffserv = "diffserv4", bandwidth = "19Mbit" }'
    found = {one.name: one for one in classes(_measured(cli, tmp_path, queue))}
    # CAKE's tin for background traffic has at most a sixteenth of the rate against full load.
    assert found["CS1"].rates_mbit["down"] < 0.2 * found["BE"].rates_mbit["down"]
    ef, cs1 = found["EF"].rtt.mean, found["CS1"].rtt.mean
    assert ef is not None
    assert cs1 is not None
    assert ef < cs1


def test_a_cell_of_the_table_is_in_the_json(cli: Cli, tmp_path: Path) -> None:
    measured = _measured(cli, tmp_path, 'queue = "fifo"', "--streams", "5")
    shown = by_class(measured)
    first = [cell.text for cell in shown.rows[0]]
    one = classes(measured)[0]
    # The fifth flow of a direction has the first class again.
    of_be = [f for f in measured.flows if f.told["dscp"] == "BE"]
    assert len(of_be) == 4
    assert first[:2] == ["BE", f"{one.rates_mbit['down']:.2f}"]
    assert first[-1] == percent(one.lost)


def test_one_class_has_no_table(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "line.toml").write_text(LINE.format(queue=""), encoding="utf-8")
    done = cli("measure", tmp_path / "line.toml", "--test", "rrul_be", "--json")
    measured = Measurement.of(json.loads(done.stdout))
    assert measured.together
    assert not classes(measured)
    assert not by_class(measured).rows


@pytest.mark.parametrize(
    ("test", "without", "said"),
    [
        ("voip", False, "--test voip: not supported for a scenario file"),
        (
            "rrul",
            True,
            "--test rrul: loads both directions, but the scenario has no [path.reverse]",
        ),
    ],
)
def test_other_tests_and_paths_are_refused(
    cli: Cli, tmp_path: Path, test: str, without: bool, said: str
) -> None:
    text = LINE.format(queue="")
    if without:
        text = text[: text.index("[path.reverse]")] + text[text.index("[[flow]]") :]
    (tmp_path / "line.toml").write_text(text, encoding="utf-8")
    done = cli("measure", tmp_path / "line.toml", "--test", test)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
