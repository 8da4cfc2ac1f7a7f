"""`narrows train remy`: the search, its journal, and the effects of killed processes."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import TINY, Cli

from narrows import _core
from narrows.errors import EngineError, NarrowsError
from narrows.operating_system import SIGNALS
from narrows.train import network, pool, rules
from narrows.train.journal import Journal
from narrows.train.model import ResultJson, TaskJson, TrainedJson, TrainingJson, UseJson
from narrows.train.rules import Rule, Split
from narrows.train.search import Search, candidates
from narrows.train.training import JOURNAL

SMALL = """\
title = "small"
[network]
rate     = "10Mbit"
rtt      = ["50ms", "100ms"]
senders  = [1, 2]
on       = "2s"
off      = "1s"
duration = "4s"
buffer   = "200p"
[search]
seed             = 3
specimens        = 2
epochs_per_split = 1
multiple  = { first = 0.08, count = 1, most = 1 }
increment = { first = 1, count = 1 }
intersend = { first = 0.4, count = 1 }
"""


@pytest.fixture
def training(tmp_path: Path) -> TrainingJson:
    file = tmp_path / "small.toml"
    file.write_text(SMALL, encoding="utf-8")
    return network.load(file)


def _train(folder: Path, *words: str) -> list[str]:
    (folder / "small.toml").write_text(SMALL, encoding="utf-8")
    own = "import sys; from narrows.cli.entry import main; main()"
    return [sys.executable, "-c", own, "train", "remy", str(folder / "small.toml"), *words]


def _done(folder: Path, into: str, *words: str) -> TrainedJson:
    command = _train(folder, "--json", "--into", str(folder / into), *words)
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    told: TrainedJson = json.loads(done.stdout)
    return told


def _same(one: TrainedJson, other: TrainedJson) -> None:
    """Asserts that two trainings took the same steps to the same tree."""
    assert one["training_sha256"] == other["training_sha256"]
    assert one["tree_sha256"] == other["tree_sha256"]
    assert one["score_before"] == other["score_before"]
    assert one["score_after"] == other["score_after"]
    for a, b in zip(one["steps"], other["steps"], strict=True):
        assert {**a, "cpu_s": 0} == {**b, "cpu_s": 0}


def test_a_text_reads_back_and_core_reads_it() -> None:
    tree = rules.divided(Rule(0.92, 11, 0.6), 0, (0.65334, 2.5, 1.00306))
    tree = rules.with_rule(tree, 7, Rule(1, -3, 0.00005))
    text = rules.text_of(tree, ["a comment"])
    assert rules.read(text) == tree
    assert len(rules.rules(tree)) == 8
    scenario = {
        "duration": "1s",
        "path": {"rate": "1Mbit", "rtt": "10ms"},
        "flow": [{"cc": {"kind": "remy", "tree": text}}],
    }
    _core.scenario_defaults(scenario)
    with pytest.raises(NarrowsError, match="lines after its end"):
        rules.read(text + "multiple 1 increment 1 intersend 3\n")
    with pytest.raises(NarrowsError, match="not a tree of rules"):
        rules.read("remy-tree 1\nrtt_ratio < 2\n  multiple 1 increment 1 intersend 3\n")


def test_a_memory_finds_the_rule_whose_box_contains_it() -> None:
    tree = rules.divided(Rule(), 0, (1.0, 2.0, 1.5))
    for memory in [(0.5, 1.0, 1.2), (1.0, 1.0, 1.2), (0.5, 3.0, 9.0), (2.0, 3.0, 1.5)]:
        number = rules.number_of(tree, memory)
        for x, (low, high) in zip(memory, rules.box(tree, number), strict=True):
            assert low <= x < high
    # A value at an end of the box splits nothing.
    assert rules.divided(tree, 0, (0.0, 0.0, 0.0)) == tree


def test_candidates_are_all_combinations_of_geometric_steps(training: TrainingJson) -> None:
    near = candidates(Rule(0.5, 4, 3.0), training)
    assert len(near) == len(set(near)) == 3**3 - 1
    assert Rule(0.58, 3, 3.4) in near
    # A step beyond a limit is left out: 1 is the largest multiple of the file.
    assert len(candidates(Rule(1.0, 4, 3.0), training)) == 2 * 9 - 1


def test_specimens_depend_on_seed_round_and_number_only(training: TrainingJson) -> None:
    one = network.specimen(training, "1", 0)
    assert one == network.specimen(training, "1", 0)
    assert one != network.specimen(training, "2", 0)
    assert one.rate_mbit == 10
    assert all(50 <= network.specimen(training, "1", n).rtt_ms <= 100 for n in range(50))
    periods = [p for n in range(300) for of in network.specimen(training, "1", n).on for p in of]
    whole = [stop - start for start, stop in periods if stop < 4000]
    # Periods that end within 4 s are shorter than the mean of the distribution, 2 s.
    assert 0 < sum(whole) / len(whole) < 2000


def test_the_objective_counts_time_on_and_mean_rtt(training: TrainingJson) -> None:
    one = network.Specimen(10.0, 100.0, [[(0, 1000)], [(0, 1000)]], {}, 1)
    flows = [
        {"id": "0-0", "active_s": 1.0, "active_goodput_mbit": 6.0, "rtt_ms": {"mean": 100.0}},
        {"id": "0-1", "active_s": 1.0, "active_goodput_mbit": 4.0, "rtt_ms": {"mean": 150.0}},
        {"id": "1-0", "active_s": 2.0, "active_goodput_mbit": 2.5, "rtt_ms": {"mean": 200.0}},
    ]
    assert network.senders(flows, one) == [(1.0, 1.2), (0.5, 2.0)]
    expected = ((0 - math.log(1.2)) + (math.log(0.5) - math.log(2.0))) / 2
    assert network.score_of(flows, one, training) == pytest.approx(expected)


def test_the_search_improves_and_splits_the_most_used_rule(training: TrainingJson) -> None:
    """An invented network: the best gap is 2 ms, and below an RTT ratio of 1.5 it is 1 ms."""

    def evaluate(tasks: list[TaskJson]) -> list[ResultJson]:
        return [_invented(task) for task in tasks]

    search = Search(training, evaluate)  # type: ignore[arg-type]
    did = []
    for step in search.steps():
        did.append(step.did)
        if len(rules.rules(step.tree)) > 1 and step.did == "epoch":
            break
        if len(did) > 200:
            break
    assert did[0] == "improved"
    assert did.index("split") == did.index("kept") + 1
    below = rules.rules(search.tree)[rules.number_of(search.tree, (1.0, 1.0, 1.2))]
    above = rules.rules(search.tree)[rules.number_of(search.tree, (1.0, 1.0, 1.8))]
    assert (below.intersend, above.intersend) == (pytest.approx(1.0), pytest.approx(2.2))


def _invented(task: TaskJson) -> ResultJson:
    tree = rules.read(task["tree"])
    seen = [(1.0, 1.0, 1.2), (1.0, 1.0, 1.8)]
    actions = [rules.rules(tree)[rules.number_of(tree, memory)] for memory in seen]
    score = -abs(actions[0].intersend - 1.0) - abs(actions[1].intersend - 2.2)
    score -= sum(abs(one.multiple - 1) + abs(one.increment - 1) for one in actions)
    numbers = [rules.number_of(tree, memory) for memory in seen]
    uses: list[UseJson] = [
        {"rule": n, "count": numbers.count(n), "medians": [0.0, 0.0, 1.5]}
        for n in sorted(set(numbers))
    ]
    return {"scores": [score for _ in task["specimens"]], "cpu_s": 0.0, "uses": uses}


def test_the_shortlist_runs_only_the_best_on_all_specimens(training: TrainingJson) -> None:
    counts: list[int] = []

    def evaluate(tasks: list[TaskJson]) -> list[ResultJson]:
        counts.append(len(tasks))
        return [_invented(task) for task in tasks]

    training["search"]["shortlist"] = {"specimens": 1, "keep": 3}
    next(Search(training, evaluate).steps())  # type: ignore[arg-type]
    assert counts == [1, len(candidates(Rule(), training)), 3]


def test_a_training_repeats_and_its_tree_runs(cli: Cli, tmp_path: Path) -> None:
    done = _done(tmp_path, "a", "--steps", "8")
    assert [step["step"] for step in done["steps"]] == list(range(1, 9))
    # On the specimens of its round, each improvement is better than the step before it.
    scores = [step["score"] for step in done["steps"] if step["did"] == "improved"]
    first = scores[: [step["did"] for step in done["steps"]].index("kept")]
    assert len(first) > 1
    assert first == sorted(set(first))
    file = tmp_path / "scenario.toml"
    tree = (tmp_path / "a/tree.remy").read_text(encoding="utf-8")
    (tmp_path / "tree.remy").write_text(tree, encoding="utf-8")
    file.write_text(TINY.replace('"cubic"', '{ kind = "remy", tree = "tree.remy" }'))
    assert cli("check", file).returncode == 0
    assert "unseen specimens" in tree
    # One process instead of several, and a second run from the journal: the same result.
    _same(done, _done(tmp_path, "b", "--steps", "8", "--jobs", "1"))
    _same(done, _done(tmp_path, "a", "--steps", "8"))
    # A larger limit continues; without a step the tree is the first one.
    more = _done(tmp_path, "a", "--steps", "9")
    assert more["steps"][:8] == done["steps"]
    assert _done(tmp_path, "c", "--budget", "0")["steps"] == []


def test_a_killed_driver_loses_nothing(tmp_path: Path) -> None:
    whole = _done(tmp_path, "whole", "--steps", "8")
    command = _train(tmp_path, "--json", "--into", str(tmp_path / "killed"), "--steps", "8")
    journal = tmp_path / "killed" / JOURNAL
    finished = 0
    for _ in range(3):
        driver = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        # Killed as soon as the journal has grown, in the middle of a step.
        until = time.monotonic() + 120
        while driver.poll() is None and time.monotonic() < until:
            lines = journal.read_bytes().count(b"\n") if journal.exists() else 0
            if lines >= finished + 7:
                break
            time.sleep(0.005)
        assert driver.poll() is None
        driver.kill()
        driver.wait()
        lines = journal.read_bytes().count(b"\n")
        assert lines >= finished + 7
        finished = lines
    with journal.open("ab") as torn:
        torn.write(b"0123 a line that a crash cut")
    _same(whole, _done(tmp_path, "killed", "--steps", "8"))
    # Each task is in the journal once: nothing ran a second time.
    lines_of = (tmp_path / "killed" / JOURNAL).read_text(encoding="utf-8").splitlines()
    keys = [line.split()[0] for line in lines_of if len(line.split()[0]) == 64]
    assert len(keys) == len(set(keys)) >= finished


def test_a_killed_worker_loses_nothing(tmp_path: Path, training: TrainingJson) -> None:
    tasks: list[TaskJson] = [
        {
            "training": training,
            "round": "1",
            "tree": rules.text_of(Rule(1.0, 1, 1.0 + n / 10)),
            "specimens": [0, 1],
            "uses": n == 0,
        }
        for n in range(12)
    ]
    expected = [network.evaluate(task) for task in tasks]
    found: dict[int, ResultJson] = {}
    with contextlib.closing(pool.Local(2)) as own:
        for number, result in own.results(tasks):
            assert number not in found
            found[number] = result
            if len(found) in {2, 5}:
                process = next(iter(own._pool._processes.values()))  # type: ignore[union-attr]
                os.kill(process.pid, signal.SIGKILL)
    for number, result in enumerate(expected):
        assert found[number]["scores"] == result["scores"]
        assert found[number].get("uses") == result.get("uses")


def _dies(_task: TaskJson) -> ResultJson:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_processes_that_always_die_are_an_error(
    training: TrainingJson, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "evaluate", _dies)
    task: TaskJson = {
        "training": training, "round": "1", "tree": "", "specimens": [0], "uses": False,
    }  # fmt: skip
    own = pool.Local(1)
    with contextlib.closing(own), pytest.raises(EngineError, match="ended repeatedly"):
        list(own.results([task]))


def _blocked(_task: TaskJson) -> ResultJson:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    return {"scores": [float(one) for one in blocked], "cpu_s": 0}


def test_a_signal_to_the_group_does_not_reach_a_process_that_starts(
    training: TrainingJson, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "evaluate", _blocked)
    task: TaskJson = {
        "training": training, "round": "1", "tree": "", "specimens": [0], "uses": False,
    }  # fmt: skip
    with contextlib.closing(pool.Local(1)) as own:
        ((_, found),) = own.results([task])
    assert {int(one) for one in found["scores"]} >= set(SIGNALS)
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, []) & set(SIGNALS)


def test_one_is_singular(tmp_path: Path) -> None:
    command = _train(tmp_path, "--steps", "1", "--into", str(tmp_path / "into"))
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=300, cwd=tmp_path
    )
    assert done.stdout.startswith("1 rule after 1 step and ")
    assert "; 1 rule, epoch 0" in done.stderr


def test_a_changed_line_of_the_journal_is_not_used(tmp_path: Path, training: TrainingJson) -> None:
    task: TaskJson = {
        "training": training, "round": "1", "tree": "x", "specimens": [0], "uses": False,
    }  # fmt: skip
    file = tmp_path / JOURNAL
    with Journal(file) as journal:
        journal.add(task, {"scores": [-1.25], "cpu_s": 0.5})
    with Journal(file) as journal:
        assert journal.find(task) == {"scores": [-1.25], "cpu_s": 0.5}
        assert journal.find({**task, "round": "2"}) is None
        with pytest.raises(NarrowsError, match="another process uses it"), Journal(file):
            pass
    file.write_text(file.read_text().replace("-1.25", "-1.26"))
    with Journal(file) as journal:
        assert journal.find(task) is None


def test_journal_entries_of_another_build_are_not_used(
    tmp_path: Path, training: TrainingJson, monkeypatch: pytest.MonkeyPatch
) -> None:
    task: TaskJson = {
        "training": training, "round": "1", "tree": "x", "specimens": [0], "uses": False,
    }  # fmt: skip
    with Journal(tmp_path / JOURNAL) as journal:
        journal.add(task, {"scores": [-1.25], "cpu_s": 0.5})
        monkeypatch.setattr("narrows.train.journal.build", lambda: "another build")
        assert journal.find(task) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[net]", "`net` is not a key; write one of: title, network, objective, search"),
        ("[network]\nspeed = 1", "network.speed: not a key of [network]"),
        ('[network]\nrate = "10"', 'network.rate: not valid; write rate = ["10Mbit", "20Mbit"]'),
        ("[network]\nsenders = [4, 1]", "network.senders: not valid"),
        ('[network]\nqueue = "nothing"', "nothing"),
        ("[search]\nspecimens = 0", "search.specimens: not valid"),
        ("[search]\nmultiple = 3", "search.multiple: write multiple"),
        ("[search]\nmultiple = { factor = 1 }", "`factor` above 1"),
        ("[search]\nshortlist = { specimens = 40, keep = 1 }", "search.shortlist: write"),
        ("[objective]\ndelta = -1", "objective.delta: not valid"),
        ("[objective]\nalpha = nan", "objective.alpha: not valid"),
        ('[network]\nrate = "nanMbit"', "network.rate: not valid"),
        ("[network]\nsenders = [1, inf]", "network.senders: not valid"),
        ("[search]\nmultiple = { first = nan }", "search.multiple: `first` must be above 0"),
        ("[objective]\ndelta = nan", "objective.delta: not valid; write delta = 1.0"),
        ("[search]\nseed = 1.5", "search.seed: not valid; write seed = 1"),
        ("[search]\nmultiple = { count = 1.5 }", "`count` 0 to 8"),
        ("[search]\nintersend = { least = 5, most = 1 }", "search.intersend: `least` must be"),
        ("[search]\nshortlist = { specimens = 4, keep = 0 }", "search.shortlist: write"),
        ('[network]\nqueue = "nothing"', "wrong.toml: network.queue = "),
        ("[network]\nbuffer = 5", "network.buffer = 5 needs a unit: bdp, p (packets) or bytes; "),
        ("[network]\nsenders = [1, 1000000]", "network.senders: they have 10000000 on periods"),
    ],
)
def test_an_error_in_the_file_names_its_key(cli: Cli, tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(line, encoding="utf-8")
    done = cli("train", "remy", file, "--into", tmp_path / "into")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert not (tmp_path / "into").exists()


def test_an_unknown_executor_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL, encoding="utf-8")
    done = cli("train", "remy", tmp_path / "small.toml", "--on", "cloud")
    assert done.returncode == 2
    assert "--on cloud: no such executor" in done.stderr


def test_the_tree_of_a_rule_is_a_split_or_a_rule() -> None:
    assert rules.in_epoch(Split(0, 1.0, Rule(), Rule()), 2) == Split(
        0, 1.0, Rule(epoch=2), Rule(epoch=2)
    )
