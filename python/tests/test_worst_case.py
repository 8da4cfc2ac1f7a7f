"""`narrows worst-case`: its objectives, its search, its reduction, and its interruption."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, Cli

import narrows as nw
from narrows.errors import NarrowsError
from narrows.json_object import JsonObject
from narrows.sweeps import executors
from narrows.worst_case import shrinking
from narrows.worst_case.evaluation import Evaluation, Measured
from narrows.worst_case.objectives import OBJECTIVES
from narrows.worst_case.running import worst_case
from narrows.worst_case.searching import Search
from narrows.worst_case.space import Space, axis, number_of

UNFAIR = """\
title    = "Two flows, one farther away"
duration = "10s"

[path]
rate   = "10Mbit"
rtt    = "20ms"
buffer = "2bdp"

[host]
like = "linux-6.12"

[[flow]]
cc = "reno"

[[flow]]
cc  = "reno"
rtt = "20ms"

[[flow]]
cc = "cubic"

[[probe]]
kind = "ping"
"""

SEARCH = (
    "--over", "path.buffer=0.5bdp:8bdp", "--over", "flow[1].rtt=10ms:200ms", "--for", "share",
    "--flow", "reno1", "--budget", "40", "--population", "8", "--seeds", "2", "--checks", "2",
    "--limit", "30%",
)  # fmt: skip


def _rows(*goodputs: float | None, **whole: float | None) -> list[JsonObject]:
    rest = {"queue_delay_p50_ms": None, "rtt_ms": 40.0, "rate_mbit": 20.0, **whole}
    return [{"flow": f"f{i}", "goodput_mbit": g, **rest} for i, g in enumerate(goodputs)]


def test_each_objective_is_a_percentage_of_its_reference() -> None:
    def value(name: str, rows: list[JsonObject], flow: str | None = None) -> float | None:
        return OBJECTIVES[name].measure(rows, flow)

    rows = _rows(2.0, 8.0, 5.0, queue_delay_p50_ms=60.0)
    assert value("share", rows) == pytest.approx(40.0)
    assert value("share", rows, "f1") == pytest.approx(160.0)
    assert value("share", rows, "absent") is None
    assert value("starvation", rows) == pytest.approx(25.0)
    assert value("queue", rows) == pytest.approx(150.0)
    assert value("collapse", rows) == pytest.approx(75.0)
    # Without goodput, only the collapse has a value; without a rate, not even that.
    assert value("share", _rows(0.0, 0.0)) is value("starvation", _rows(0.0, 0.0)) is None
    assert value("collapse", _rows(0.0, 0.0)) == 0.0
    assert value("collapse", _rows(1.0, rate_mbit=None)) is None
    assert value("collapse", _rows(1.0, None)) is value("share", _rows(1.0, None)) is None


def test_a_limit_is_crossed_in_the_direction_of_the_problem() -> None:
    share, queue = OBJECTIVES["share"], OBJECTIVES["queue"]
    assert share.beyond(19.9, 20.0)
    assert not share.beyond(20.0, 20.0)
    assert queue.beyond(100.1, 100.0)
    assert not queue.beyond(None, 0.0)
    assert share.cost(5.0) < share.cost(6.0)
    assert queue.cost(6.0) < queue.cost(5.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("path.rtt", "has no values; write --over path.rtt=5ms:200ms"),
        ("path.rtt=5ms", "is neither a range nor a list"),
        ("path.queue=fifo,fifo", "is neither a range nor a list of different values"),
        ("path.rtt=5ms:1s", "from is in `ms` and to in `s`; use one unit"),
        (
            "path.rtt=9ms:5ms",
            "the first value of a range must be below the second; write --over path.rtt=LOW:HIGH",
        ),
        ("path rtt=5ms:9ms", "`path rtt` is no key of a scenario"),
        ("path.loss=nan:0.1", "nan is not a number; write --over path.loss=LOW:HIGH"),
        ("path.loss=0,-Inf", "-Inf is not a number; write --over path.loss=LOW:HIGH"),
    ],
)
def test_values_that_are_neither_a_range_nor_a_list_are_named(text: str, said: str) -> None:
    with pytest.raises(NarrowsError, match=re.escape(said)):
        axis(text)


def test_a_wide_range_is_logarithmic_and_a_narrow_one_linear() -> None:
    wide, narrow = axis("path.rtt=1ms:100ms"), axis("path.rtt=10ms:90ms")
    assert isinstance(wide, type(narrow))
    assert getattr(wide, "log", None) is True
    assert getattr(narrow, "log", None) is False
    space = Space([axis("flow[0].count=1:4"), axis("path.loss=0%:5%"), axis("path.queue=fifo,pie")])
    assert [len(each) for each in (space.continuous, space.whole, space.listed)] == [1, 1, 1]
    shares = space.numbers(space.whole[0])
    assert [space.values([0.5], [share], [1])["flow[0].count"] for share in shares] == [1, 2, 3, 4]


def _invented(values: Sequence[JsonObject]) -> list[float | None]:
    """A function with its minimum at 30 ms, 7 flows and `pie`; above 90 ms, it is not valid."""
    costs: list[float | None] = []
    for one in values:
        rtt, flows = number_of(one["path.rtt"]), one["flow[0].count"]
        cost = abs(rtt - 30) + 5 * abs(flows - 7) + (0 if one["path.queue"] == "pie" else 50)
        costs.append(None if rtt > 90 else cost)
    return costs


def _searched(budget: int, seed: int = 1) -> Search:
    space = Space(
        [axis("path.rtt=10ms:100ms"), axis("flow[0].count=1:20"), axis("path.queue=fifo,red,pie")]
    )
    search = Search(space, _invented, budget=budget, seed=seed, population=10)
    search.run()
    return search


def test_the_search_finds_the_minimum_of_an_invented_function() -> None:
    pytest.importorskip("cmaes", reason="cmaes is not installed")
    search = _searched(300)
    assert 300 <= search.evaluated < 310
    best = search.found()[0]
    assert best.values["path.queue"] == "pie"
    assert best.values["flow[0].count"] == 7
    assert abs(number_of(best.values["path.rtt"]) - 30) < 2
    # Latin hypercubes alone, with the same number of scenarios, are worse.
    assert best.cost < _searched(30).found()[0].cost


def test_the_seed_determines_the_search() -> None:
    pytest.importorskip("cmaes", reason="cmaes is not installed")
    one, same, other = _searched(120), _searched(120), _searched(120, seed=2)
    assert one.found() == same.found()
    assert one.found() != other.found()


def test_a_search_of_a_finite_space_ends() -> None:
    pytest.importorskip("cmaes", reason="cmaes is not installed")
    space = Space([axis("path.queue=fifo,red,pie"), axis("flow[0].count=1:2")])
    search = Search(space, lambda values: [1.0 for _ in values], budget=1000, seed=1)
    search.run()
    assert search.evaluated == 6


@pytest.mark.parametrize("over", [["path.rtt=10ms:100ms"], ["path.queue=fifo,red,pie"]])
@pytest.mark.filterwarnings("error")
def test_equal_costs_and_lists_alone_cause_no_warning(over: list[str]) -> None:
    pytest.importorskip("cmaes", reason="cmaes is not installed")
    space = Space([axis(text) for text in over])
    Search(space, lambda values: [1.0 for _ in values], budget=60, seed=1).run()


BASE: JsonObject = {
    "title": "x",
    "duration": "10s",
    "path": {"rate": "10Mbit", "rtt": "20ms", "queue": {"kind": "codel", "target": "5ms"}},
    "host": {"like": "linux-6.12"},
    "flow": [
        {"cc": "reno", "start": "1s"},
        {"cc": {"kind": "cubic", "hystart": "off"}},
        {"cc": "bbr"},
    ],
    "probe": [{"kind": "ping", "interval": "20ms"}],
}


def _lossy(trees: Sequence[JsonObject]) -> list[bool]:
    """An invented problem: more than 1 % of loss, codel, and a base RTT from 70 ms."""
    found = []
    for tree in trees:
        path = tree.get("path", {})
        queue = path.get("queue")
        codel = queue == "codel" or (isinstance(queue, dict) and queue.get("kind") == "codel")
        lossy = number_of(path.get("loss", "0%")) > 1
        found.append(codel and lossy and number_of(path.get("rtt", "40ms")) >= 70)
    return found


def test_the_reduction_keeps_only_necessary_keys() -> None:
    space = Space([axis("path.loss=0%:5%"), axis("path.rtt=5ms:200ms")])
    values = {"path.loss": "3.37%", "path.rtt": "137ms"}
    small = shrinking.shrink(BASE, space, values, _lossy, kept_flow=1)
    # 1 % is rounder than 5 %, but does not cause the problem.
    assert small == {
        "path": {"rtt": "100ms", "queue": "codel", "loss": "5%"},
        "flow": [{"cc": "cubic"}],
    }
    # No single removal keeps the problem.
    for key in ("rtt", "queue", "loss"):
        rest = {name: value for name, value in small["path"].items() if name != key}
        assert _lossy([{**small, "path": rest}]) == [False]


def test_the_reduction_keeps_one_of_two_sufficient_flows() -> None:
    """An invented problem that needs one of two flows, whichever it is."""

    def one_flow(trees: Sequence[JsonObject]) -> list[bool]:
        return [len(tree.get("flow", [])) >= 1 for tree in trees]

    base = {"duration": "1s", "flow": [{"cc": "reno"}, {"cc": "cubic"}]}
    space = Space([axis("path.rtt=5ms:200ms")])
    small = shrinking.shrink(base, space, {"path.rtt": "137ms"}, one_flow)
    assert len(small["flow"]) == 1
    assert "path" not in small


def test_congestion_controls_of_flows_remain() -> None:
    space = Space([axis("path.rtt=5ms:200ms")])
    small = shrinking.shrink(
        BASE, space, {"path.rtt": "7ms"}, lambda trees: [len(t.get("flow", [])) == 3 for t in trees]
    )
    assert small == {"flow": [{"cc": "reno"}, {"cc": "cubic"}, {"cc": "bbr"}]}


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    pytest.importorskip("cmaes", reason="cmaes is not installed")
    folder = tmp_path_factory.mktemp("searched")
    return folder, _search(folder, "into", "--jobs", "1")


def _command(folder: Path, into: str, *words: str) -> list[str]:
    (folder / "unfair.toml").write_text(UNFAIR, encoding="utf-8")
    own = "import sys; from narrows.cli.entry import main; main()"
    command = [sys.executable, "-c", own, "worst-case", str(folder / "unfair.toml"), *SEARCH]
    return [*command, "--json", "--into", str(folder / into), *words]


def _search(folder: Path, into: str, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        _command(folder, into, *words),
        capture_output=True, text=True, check=False, timeout=300, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_the_smallest_scenario_shows_the_values_that_are_printed(
    searched: tuple[Path, dict[str, Any]],
) -> None:
    _, told = searched
    assert told["found"] is True
    assert told["failed"] == []
    small = told["smallest"]
    assert [run["seed"] for run in small["runs"]] == [5, 6]
    assert small["high_percent"] < told["limit_percent"] == 30
    assert all(value < 30 for value in told["checked_percent"])
    # The flow that was named remains, the probe and the title do not.
    assert "probe" not in small["scenario"]
    assert "title" not in small["scenario"]
    for run in small["runs"]:
        scenario = nw.Scenario(
            nw.Path(**small["scenario"]["path"]),
            flows=[nw.Flow(**flow) for flow in small["scenario"]["flow"]],
            **{k: v for k, v in small["scenario"].items() if isinstance(v, str)},
        )
        flows = nw.run(scenario, seed=run["seed"]).flows
        assert [(f["id"], f["goodput_mbit"]) for f in flows] == [
            (f["flow"], f["goodput_mbit"]) for f in run["flows"]
        ]
        own = next(f["goodput_mbit"] for f in flows if f["id"] == "reno1")
        mean = sum(f["goodput_mbit"] or 0.0 for f in flows) / len(flows)
        assert run["value_percent"] == pytest.approx(100 * (own or 0.0) / mean)


def test_the_number_of_processes_does_not_change_the_result(
    searched: tuple[Path, dict[str, Any]],
) -> None:
    folder, told = searched
    assert {**_search(folder, "two", "--jobs", "2"), "into": ""} == {**told, "into": ""}


def _runs(folder: Path, into: str) -> int:
    parts = (folder / into / "runs").glob("part-*.parquet")
    pq = pytest.importorskip("pyarrow.parquet")
    return sum(pq.read_metadata(part).num_rows for part in parts)


def test_a_stopped_search_continues_and_has_the_same_result(
    searched: tuple[Path, dict[str, Any]],
) -> None:
    folder, told = searched
    with subprocess.Popen(
        _command(folder, "stopped"),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        while child.poll() is None and not _runs(folder, "stopped"):
            time.sleep(0.01)
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGINT)
        _, said = child.communicate(timeout=60)
    assert (child.returncode, said) == (130, "stopped\n")
    before = _runs(folder, "stopped")
    assert before > 0
    assert {**_search(folder, "stopped"), "into": ""} == {**told, "into": ""}
    # Nothing ran a second time.
    assert _runs(folder, "stopped") == _runs(folder, "into") > before


def test_without_a_problem_the_worst_scenario_is_printed(cli: Cli, tmp_path: Path) -> None:
    pytest.importorskip("cmaes", reason="cmaes is not installed")
    (tmp_path / "tiny.toml").write_text(TINY, encoding="utf-8")
    words = ["worst-case", str(tmp_path / "tiny.toml"), "--over", "path.rtt=10ms:30ms"]
    words += ["--for", "collapse", "--limit", "1%", "--budget", "8", "--population", "4"]
    words += ["--seeds", "1", "--checks", "1", "--into", str(tmp_path / "into")]
    out = tmp_path / "worst.toml"
    done = cli(*words, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "No scenario is below the limit of 1 % with every seed of the check" in done.stdout
    assert out.read_text(encoding="utf-8").startswith("# Goodput of all flows, in percent")
    assert nw.load(out).path is not None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--over", "path.rtt=5ms:50ms", "--for", "queue", "--flow", "cubic0"),
            "applies only to --for share",
        ),
        (("--over", "path.rtt=5ms:50ms", "--for", "share", "--flow", "x"), "no such flow; the "
         "scenario has cubic0, cubic1"),
        (("--over", "path.rt=5ms:50ms", "--for", "share"), "rt"),
        (("--over", "path.rtt=5:50", "--over", "x", "--for", "share"), "--over x: has no values"),
        (("--over", "path.rtt=5ms:50ms", "--over", "path.rtt=5ms:60ms", "--for", "share"),
         "--over path.rtt: is given twice"),
        (("--over", "path.rtt=5ms:50ms", "--for", "share", "--limit", "much"), "write --limit 20%"),
        (("--over", "seed=1:5", "--for", "share"), "write --seeds 5"),
    ],
)  # fmt: skip
def test_errors_name_the_place_and_the_correction(
    cli: Cli, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    pytest.importorskip("cmaes", reason="cmaes is not installed")
    (tmp_path / "tiny.toml").write_text(TINY, encoding="utf-8")
    done = cli("worst-case", str(tmp_path / "tiny.toml"), *words, "--into", str(tmp_path / "into"))
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("is not a key") <= 1
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize("objective", ["share", "starvation"])
def test_one_flow_cannot_be_compared(cli: Cli, tmp_path: Path, objective: str) -> None:
    pytest.importorskip("cmaes", reason="cmaes is not installed")
    one = tmp_path / "one.toml"
    one.write_text(
        'duration = "2s"\n[path]\nrate = "10Mbit"\nrtt = "20ms"\n[[flow]]\ncc = "cubic"\n',
        encoding="utf-8",
    )
    words = ["worst-case", str(one), "--over", "path.rtt=5ms:50ms", "--for", objective]
    done = cli(*words, "--into", str(tmp_path / "into"))
    assert done.returncode == 2
    assert f"--for {objective}: compares flows, and {one} has one" in done.stderr
    assert not (tmp_path / "into").exists()


def test_runs_that_fail_are_reported_and_do_not_count(cli: Cli, tmp_path: Path) -> None:
    pytest.importorskip("cmaes", reason="cmaes is not installed")
    model = """
from narrows.models import CongestionControl

class Bad(CongestionControl):
    name = "bad"

    def on_ack(self, window, ack):
        if ack.rtt_ms and ack.rtt_ms > 50:
            1 / 0
        window.cwnd = 4.0
"""
    (tmp_path / "bad.py").write_text(model, encoding="utf-8")
    (tmp_path / "tiny.toml").write_text(TINY.replace('"cubic"', '"bad"'), encoding="utf-8")
    words = ["worst-case", str(tmp_path / "tiny.toml"), "--plugin", str(tmp_path / "bad.py")]
    words += ["--over", "path.rtt=10ms:90ms", "--for", "collapse", "--limit", "90%", "--seeds", "1"]
    words += ["--budget", "16", "--population", "4", "--into", str(tmp_path / "into")]
    done = cli(*words, "--json")
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert told["found"] is True
    assert number_of(told["values"]["path.rtt"]) < 50
    assert told["failed"]
    assert all("ZeroDivisionError" in one["reason"] for one in told["failed"])
    # In text, the failures are on stderr, even if the results are not printed.
    quiet = cli(*words, "--quiet")
    assert (quiet.returncode, quiet.stdout) == (1, "")
    assert "failed; the search ignores their scenarios." in quiet.stderr
    again = cli("run", told["failed"][0]["file"], "--plugin", str(tmp_path / "bad.py"))
    assert again.returncode == 2
    assert "ZeroDivisionError" in again.stderr


def test_final_runs_without_a_value_are_replaced_by_those_of_the_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def values(self: Evaluation, tree: JsonObject, seeds: Sequence[int]) -> Measured:
        found = measured(self, tree, seeds)
        return found if seeds[0] < 3 else replace(found, seeds=[], values=[], rows=[])

    measured = Evaluation.measured
    monkeypatch.setattr(Evaluation, "measured", values)
    scenario = tmp_path / "unfair.toml"
    scenario.write_text(UNFAIR, encoding="utf-8")
    over = [axis("flow[1].rtt=100ms:200ms")]
    found = worst_case(
        scenario, over, "share", limit=90.0, budget=2, population=2, seeds=1, checks=1, jobs=1,
        into=tmp_path / "into",
    )  # fmt: skip
    assert found.smallest is not None
    assert list(found.smallest.seeds) == [2]


def test_processes_wait_for_further_cases_and_end_with_close() -> None:
    tree = {"duration": "1s", "path": {"rate": "1Mbit", "rtt": "10ms"}, "flow": [{"cc": "reno"}]}
    own = executors.Local(2, keep=True)
    pids = []
    with contextlib.closing(own):
        for batch in range(3):
            cases = iter([(f"{batch}-{i}", tree, i) for i in range(4)])
            keys = [key for found in own.outcomes(cases, 4) for key in found.finished()]
            assert sorted(keys) == [f"{batch}-{i}" for i in range(4)]
            pids.append({w._child.pid for w in own._waiting if w._child is not None})
        # A process that died between two calls is replaced.
        dead = min(pids[-1])
        os.kill(dead, signal.SIGKILL)
        cases = iter([(f"again-{i}", tree, i) for i in range(4)])
        outcomes = list(own.outcomes(cases, 4))
        assert [found.failed for found in outcomes] == [{}] * len(outcomes)
        assert sum(map(len, outcomes)) == 4
        last = {w._child.pid for w in own._waiting if w._child is not None}
    assert pids[0] <= pids[1] <= pids[2]
    assert dead not in last
    for pid in last:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_the_function_finds_what_the_command_finds(tmp_path: Path) -> None:
    file = tmp_path / "unfair.toml"
    file.write_text(UNFAIR, encoding="utf-8")
    wide = {"path.buffer": "0.5bdp:8bdp", "flow[0].cc": ["reno", "cubic"]}
    few = {"budget": 8, "population": 4, "seeds": 1, "checks": 1, "into": tmp_path / "results"}
    found = nw.find_worst_case(nw.load(file), wide, "queue", **few)  # type: ignore[arg-type]
    axes = [axis("path.buffer=0.5bdp:8bdp"), axis("flow[0].cc=reno,cubic")]
    by_file = worst_case(file, axes, "queue", **few)  # type: ignore[arg-type]
    assert found.values == by_file.values
    assert set(found.values) == set(wide)
    assert found.shown.values == by_file.shown.values


@pytest.mark.parametrize(
    ("objective", "flow", "why"),
    [("fairness", None, "write one of share, starvation, queue"), ("queue", "reno0", "share")],
)
def test_invalid_arguments_of_the_function_are_errors(
    objective: str, flow: str | None, why: str
) -> None:
    scenario = nw.Scenario(nw.Path(rate="10Mbit", rtt="20ms"), flows=[nw.Flow(nw.cc.Reno())])
    with pytest.raises(NarrowsError, match=why):
        nw.find_worst_case(scenario, {"path.rtt": "5ms:50ms"}, objective, flow=flow)
