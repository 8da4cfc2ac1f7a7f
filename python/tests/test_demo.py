"""The published experiment: its data, its criteria, and the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from functools import cache
from io import StringIO
from pathlib import Path

import pytest
from conftest import NARROWS, Cli, cpu_s, until

from narrows.reproduce.published import Cell, Gain, Result, cells, criteria, received_mbit, third
from narrows.teach.demo import document
from narrows.teach.render import show_maps
from narrows.teach.story import Story, story


def test_the_published_data_are_complete() -> None:
    every = cells()
    assert len(every) == 128
    places = {(c.buffer_kib, c.rate_mbit, c.rtt_ms) for c in every}
    rates, rtts = (10, 20, 50, 100, 250, 500, 750, 1000), (5, 10, 25, 50, 75, 100, 150, 200)
    assert places == {
        (buffer, rate, rtt) for buffer in (100, 10_000) for rate in rates for rtt in rtts
    }
    assert {c.trials for c in every} == {5}
    assert sum(c.goodput_mbit for c in every) == pytest.approx(27_209.75)
    assert sum(c.retransmits for c in every) == 147_839
    for c in every:
        assert 0 < c.goodput_mbit_min <= c.goodput_mbit <= c.goodput_mbit_max
        assert (
            c.goodput_mbit_max < 1.1 * c.rate_mbit
        )  # the receiver also counts what still queues at the end
    assert sum(c.deep for c in every) == 69


def test_a_third_of_the_cells_has_every_rate_rtt_and_buffer() -> None:
    every, some = cells(), third(cells())
    assert len(every) // 3 <= len(some) <= len(every) // 3 + 1
    for buffer in (100, 10_000):
        here = [c for c in some if c.buffer_kib == buffer]
        assert {c.rate_mbit for c in here} == {c.rate_mbit for c in every}
        assert {c.rtt_ms for c in here} == {c.rtt_ms for c in every}


def cell(
    *, cc: str = "cubic", rate_mbit: int = 10, rtt_ms: int = 5, goodput_mbit: float = 100.0
) -> Cell:
    """An example cell; by default its buffer is deep."""
    return Cell(
        cc=cc,
        buffer_kib=100,
        rate_mbit=rate_mbit,
        rtt_ms=rtt_ms,
        trials=5,
        goodput_mbit=goodput_mbit,
        goodput_mbit_sd=1.0,
        goodput_mbit_min=goodput_mbit,
        goodput_mbit_max=goodput_mbit,
        retransmits=100,
    )


SHALLOW = {"rate_mbit": 1000, "rtt_ms": 200}


def result(where: Cell, goodput_mbit: float) -> Result:
    return Result(cell=where, goodput_mbit=goodput_mbit, retransmits=50, rtt_ms=10.0)


def test_a_cell_is_deep_when_the_buffer_holds_one_bdp() -> None:
    assert cell(rate_mbit=8, rtt_ms=102).deep
    assert not cell(rate_mbit=8, rtt_ms=103).deep


@pytest.mark.parametrize(
    ("goodput_mbit", "deep", "shallow"),
    [
        (100, True, True),
        (90.1, True, True),
        (109.9, True, True),
        (89.9, False, True),
        (110.1, False, True),
        (65.1, False, True),
        (62.6, False, True),  # the factor reaches farther down than 35 % does
        (62.4, False, False),
        (159.9, False, True),
        (160.1, False, False),
    ],
)
def test_agreement(goodput_mbit: float, deep: bool, shallow: bool) -> None:
    assert cell().agrees(goodput_mbit) is deep
    assert cell(**SHALLOW).agrees(goodput_mbit) is shallow


def test_every_deep_cell_and_four_fifths_of_the_others_must_agree() -> None:
    good = (
        [result(cell(), 100.0)] * 10
        + [result(cell(**SHALLOW), 100.0)] * 4
        + [result(cell(**SHALLOW), 10.0)]
    )
    deep, shallow = criteria(good)  # without BBR there is no gain to judge
    assert (deep.cells, deep.agree, deep.needed, deep.met) == (10, 10, 10, True)
    assert (shallow.cells, shallow.agree, shallow.needed, shallow.met) == (5, 4, 4, True)

    one_off = [*good[1:], result(cell(), 80.0)]
    assert [c.met for c in criteria(one_off)] == [False, True]
    two_off = [*good, result(cell(**SHALLOW), 10.0)]
    assert [c.met for c in criteria(two_off)] == [True, False]
    assert document(two_off, 1.0)["met"] is False


def test_data_queued_at_the_end_count_as_received() -> None:
    # One megabyte per second from 1 s on, the RTT 2 s with its queue: 60 s are over at 60.5 s, all
    # is there at 62.5 s.
    series = [(float(t), 1_000_000 * (t - 1), 100, 2000.0) for t in range(1, 66)]
    assert received_mbit(series, 500) == pytest.approx(61.5e6 * 8 / 60 / 1e6)


@pytest.mark.parametrize(
    ("published", "ours", "clear", "agrees"),
    [
        (5.25, 4.0, True, True),
        (0.09, -0.5, True, True),
        (0.11, 0.02, True, True),
        (0.11, -0.02, True, False),
        (-0.3, 0.01, True, False),
        (0.02, -0.02, False, True),
    ],
)
def test_the_sign_of_a_large_published_gain_must_agree(
    published: float, ours: float, clear: bool, agrees: bool
) -> None:
    gain = Gain(
        bbr=result(cell(cc="bbr", goodput_mbit=100 * (1 + published)), 50 * (1 + ours)),
        cubic=result(cell(), 50.0),
    )
    assert (gain.published, gain.ours) == (pytest.approx(published), pytest.approx(ours))
    assert (gain.clear, gain.agrees) == (clear, agrees)


def test_the_maps_are_readable_without_colour() -> None:
    out = StringIO()
    starved = [
        result(cell(**SHALLOW, goodput_mbit=47.0), 96.0),
        result(cell(cc="bbr", **SHALLOW), 840.0),
    ]
    turned = [result(cell(goodput_mbit=9.6), 9.56), result(cell(cc="bbr", goodput_mbit=5.0), 9.6)]
    show_maps([*turned, *starved], 1.5, out, goodput=True)
    text = out.getvalue()
    assert "\x1b" not in text
    assert " 0|-48!" in text
    assert " 775|113" in text
    assert " 9.6|9.6 " in text
    assert " 96|47!" in text
    assert "in 1 of 2 cells (2 needed): not met." in text
    words = " ".join(text.split())
    assert "!: disagrees with the publication" in words
    assert "CUBIC has little goodput on paths with a large bandwidth-delay product" in words
    assert "CUBIC has 96 Mbit/s (published 47), BBR 840 Mbit/s (published 100)" in words


def test_cells_up_to_50_mbit_meet_the_criteria_of_agreement(command: Cli) -> None:
    done = command("demo", "--quick", "--up-to", 50, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    out = json.loads(done.stdout)
    assert {c["rate_mbit"] for c in out["cells"]} == {10, 20, 50}
    assert {c["buffer_bytes"] for c in out["cells"]} == {102_400, 10_240_000}
    shallow = [c for c in out["cells"] if c["cc"] == "cubic" and c["buffer_bytes"] == 102_400]
    assert all(c["agrees"] for c in shallow)
    assert out["met"]
    assert [c["met"] for c in out["criteria"]] == [
        c["agree"] >= c["needed"] for c in out["criteria"]
    ]
    assert out["met"] is all(c["met"] for c in out["criteria"])
    again = json.loads(command("demo", "--quick", "--up-to", 50, "--json").stdout)
    assert again["cells"] == out["cells"]


def test_the_exit_code_of_check_is_the_result(command: Cli) -> None:
    done = command("demo", "--quick", "--up-to", 20, "--check")
    assert done.returncode == (1 if "not met" in done.stdout else 0)
    assert "Traceback" not in done.stderr


def test_ctrl_c_stops_the_work_on_all_cores_and_prints_one_line() -> None:
    started = os.times().children_user + os.times().children_system
    with subprocess.Popen(
        [NARROWS, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        # All cores are at work: it has computed for longer than its start takes.
        until(lambda: cpu_s(child.pid) > 2, child)
        before = cpu_s(child.pid)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
        used = os.times().children_user + os.times().children_system
    assert (child.returncode, out, err) == (130, "", "stopped\n")
    assert used - started - before < 2


@cache
def simulated_story() -> tuple[Story, list[str]]:
    """The story in the simulator, and the messages during its run."""
    said: list[str] = []
    return story(said.append, live=False), said


def test_the_story_is_printed_and_written_as_a_page(
    command: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def known(say: Callable[[str], None], *, live: bool, **_: object) -> Story:
        assert not live
        found, said = simulated_story()
        for line in said:
            say(line)
        return found

    monkeypatch.setattr("narrows.teach.story.story", known)
    done = command("demo", "--story", "--engine", "sim", "--report", "story.html")
    assert done.returncode == 0, done.stderr
    for part in (
        "Path in the simulator",
        "Sealed forecast",
        "Measurement with bbr",
        "Effect on others",
    ):
        assert part in done.stdout
    assert "narrows: measurement, advice, change, measurement" in (
        tmp_path / "story.html"
    ).read_text(encoding="utf-8")


def test_the_json_of_the_story_has_the_improvement_and_its_forecast() -> None:
    found, said = simulated_story()
    tree = found.json()
    assert tree["choice"] == "bbr"
    assert tree["after"]["loaded_p95_ms"] < tree["before"]["loaded_p95_ms"] / 3
    assert tree["after"]["rate_mbit"] > 0.9 * tree["before"]["rate_mbit"]
    assert all(figure["hit"] for figure in tree["forecast"])
    assert len(said) >= 5


def test_options_of_the_maps_are_refused_with_the_story(command: Cli) -> None:
    for option in (["--quick"], ["--up-to", "100"], ["--goodput"], ["--check"]):
        done = command("demo", "--story", *option)
        assert (done.returncode, "cannot be combined with --story" in done.stderr) == (2, True)


def test_the_story_s_options_are_refused_without_it(command: Cli) -> None:
    for option in (("--report", "story.html"), ("--engine", "sim")):
        assert command("demo", *option).returncode == 2
