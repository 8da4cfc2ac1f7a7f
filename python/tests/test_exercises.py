"""The exercises of the course: each has an accepted answer, which a run confirms."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import Cli

import narrows as nw
from narrows.errors import NarrowsError
from narrows.teach import exercises

EVERY = exercises.load()


def written(folder: Path, toml: str) -> Path:
    file = folder / "handed-in.toml"
    file.write_text(toml, encoding="utf-8")
    return file


def test_the_course_has_ten_exercises_and_each_is_complete() -> None:
    assert len(EVERY) == 10
    for one in EVERY.values():
        assert one.questions or one.conditions
        assert one.text.strip()
        assert one.solution.strip()
        assert one.source


@pytest.mark.parametrize("name", [e.name for e in EVERY.values() if e.scenario and e.questions])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_run_shows_the_accepted_answer(name: str, seed: int, tmp_path: Path) -> None:
    one = exercises.exercise(name)
    done = nw.run(written(tmp_path, one.scenario), seed=seed, sample_interval="off").json
    shown = {q.id: exercises.find(done, q.figure) for q in one.questions if q.figure}
    assert shown
    for question in one.questions:
        if question.id in shown:
            assert question.low <= shown[question.id] <= question.high, question.id
    if name == "rtt-fairness":
        assert "Their base RTTs are 60 ms (near)\nand 120 ms (far)" in one.text
        assert done["path"]["rtts_ms"] == [60, 120]
        near, far = (flow["rtt_ms"]["mean"] for flow in done["flows"])
        (ratio,) = [q for q in one.questions if q.id == "rtt_ratio"]
        assert ratio.low <= far / near <= ratio.high


@pytest.mark.parametrize("name", [e.name for e in EVERY.values() if e.conditions])
def test_the_solution_is_accepted_and_the_start_is_not(name: str, tmp_path: Path) -> None:
    one = exercises.exercise(name)
    assert all(part.right for part in exercises.check(one, {}, written(tmp_path, one.solved())))
    start = exercises.check(one, {}, written(tmp_path, one.scenario))
    assert not all(part.right for part in start)


@pytest.mark.parametrize(
    ("name", "change", "figure", "said"),
    [
        ("slow-start", None, "flows.0.fct_s", "The run gives {:.2f} s"),
        ("loss-rate", None, "flows.0.goodput_mbit", "the run gives {:.1f} Mbit/s"),
        ("aqm", ('"fifo"', '"codel"'), "probes.0.rtt_ms.p95", "its ping RTT is {:.0f} ms"),
        ("aqm", ('"fifo"', '"fq_codel"'), "probes.0.rtt_ms.p95", "its RTT is {:.0f} ms"),
        ("rtt-fairness", None, "flows.0.rtt_ms.mean", "19 ms: {:.0f} ms and"),
        ("rtt-fairness", None, "flows.1.rtt_ms.mean", "and {:.0f} ms, a ratio of 1.8"),
        ("rtt-fairness", None, "flows.0.goodput_mbit", "The goodputs are {:.1f} and"),
        ("rtt-fairness", None, "flows.1.goodput_mbit", "and {:.1f} Mbit/s. Their ratio"),
        ("policer", ('"15kB"', '"62.5kB"'), "flows.0.goodput_mbit", "the goodput is {:.1f} Mbit/s"),
        ("bbr-and-loss", None, "flows.0.goodput_mbit", "The run gives {:.1f} Mbit/s"),
    ],
)
def test_the_figures_in_a_solution_are_those_of_its_run(
    name: str, change: tuple[str, str] | None, figure: str, said: str, tmp_path: Path
) -> None:
    one = exercises.exercise(name)
    toml = one.scenario.replace(*change) if change else one.scenario
    done = nw.run(written(tmp_path, toml), sample_interval="off").json
    assert said.format(exercises.find(done, figure)) in " ".join(one.solution.split())


@pytest.mark.parametrize(
    ("name", "before", "values"),
    [
        ("bbr-fairness", '"1bdp"', ("1.5bdp", "2bdp", "4bdp", "6bdp")),
        ("policer", '"15kB"', ("62.5kB", "100kB", "150kB")),
        ("aqm", '"fifo"', ("codel", "fq_codel", "cake", "fq", "drr")),
    ],
)
def test_every_value_that_a_solution_names_is_accepted(
    name: str, before: str, values: tuple[str, ...], tmp_path: Path
) -> None:
    one = exercises.exercise(name)
    for value in values:
        toml = one.scenario.replace(before, f'"{value}"')
        wrong = [p for p in exercises.check(one, {}, written(tmp_path, toml)) if not p.right]
        assert not wrong, (value, wrong)


def test_the_help_and_the_course_do_not_give_away_an_answer(command: Cli) -> None:
    course = Path(__file__).parents[2] / "docs/tutorial/course.md"
    shown = [command("exercise", *words, "--help").stdout for words in ((), ("check",))]
    for text in (*shown, course.read_text(encoding="utf-8")):
        for word in re.findall(r"check slow-start (.*)", text):
            numbers = [w for w in word.split() if not w.endswith(("=NUMBER", "=TIME"))]
            given = [exercises.answer(w, EVERY["slow-start"]) for w in numbers]
            ranges = {q.id: q for q in EVERY["slow-start"].questions}
            assert not any(ranges[id_].low <= n <= ranges[id_].high for id_, n in given)


def test_closed_forms_lie_in_the_accepted_ranges() -> None:
    closed = {
        ("slow-start", "bdp"): 100e6 * 0.1 / 8 / 1514,
        ("slow-start", "rounds"): 7,
        ("loss-rate", "window"): (1.5 / 0.001) ** 0.5,
        ("loss-rate", "goodput"): (1.5 / 0.001) ** 0.5 * 1448 * 8 / 0.05 / 1e6,
        ("bufferbloat", "rtt"): 30 + 1e6 * 8 / 10e6 * 1e3,
        ("bufferbloat", "bdp"): 10e6 * 0.03 / 8 / 1e3,
        ("cubic", "k_1000"): (0.3 * 1000 / 0.4) ** (1 / 3),
        ("cubic", "k_10000"): (0.3 * 10000 / 0.4) ** (1 / 3),
        ("cubic", "reno_1000"): 1000 / 2 * 0.1,
        ("bbr-and-loss", "goodput"): 50 * 0.98 * 1448 / 1514,
        ("bbr-and-loss", "reno"): (1.5 / 0.02) ** 0.5 * 1448 * 8 / 0.04 / 1e6,
    }
    for (name, id_), value in closed.items():
        (question,) = [q for q in EVERY[name].questions if q.id == id_]
        assert question.low <= value <= question.high, (name, id_)


def test_fixed_keys_of_an_exercise_must_not_change(tmp_path: Path) -> None:
    one = exercises.exercise("buffer-size")
    for before, after, key in (
        ('"20Mbit"', '"40Mbit"', "path.rate"),
        ('"120s"', '"60s"', "duration"),
        ('cc = "reno"', 'cc = "reno"\nstart = "1s"', "flow.0.start"),
        ('cc = "reno"', 'cc = "reno"\n[[flow]]\ncc = "reno"', "flow.1"),
    ):
        toml = one.solved().replace(before, after)
        parts = exercises.check(one, {}, written(tmp_path, toml))
        assert next(part.text for part in parts if not part.right) == f"{key} is unchanged"


def test_a_scenario_with_changed_keys_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exercises, "run", None)
    one = exercises.exercise("buffer-size")
    toml = one.solved().replace('"120s"', '"24h"').replace('"20Mbit"', '"100Gbit"')
    parts = exercises.check(one, {}, written(tmp_path, toml))
    assert [part.why[:7] for part in parts] == ["do not ", "do not ", "not run", "not run"]
    with pytest.raises(NarrowsError, match="flow is missing"):
        exercises.check(one, {}, written(tmp_path, ""))


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("bdp", "write bdp=NUMBER rounds=NUMBER fct=NUMBER"),
        ("speed=7", "write bdp=NUMBER rounds=NUMBER fct=NUMBER"),
        ("bdp=many", "write a number in frames"),
        ("bdp=nan", "write a number in frames"),
        ("bdp=1e999", "write a number in frames"),
    ],
)
def test_an_invalid_answer_is_an_error_with_a_remedy(word: str, said: str) -> None:
    with pytest.raises(NarrowsError, match=said):
        exercises.answer(word, exercises.exercise("slow-start"))


def test_the_commands_list_show_and_check_exercises(command: Cli, tmp_path: Path) -> None:
    assert [row["name"] for row in json.loads(command("exercise", "list", "--json").stdout)] == [
        *EVERY
    ]
    assert "slow-start" in command("exercise", "list").stdout
    task = command("exercise", "show", "1").stdout
    assert task.startswith("Slow start\n")
    assert "Solution" not in task
    assert (
        "Accepted: bdp 815 to 837 frames" in command("exercise", "show", "1", "--solution").stdout
    )

    right = command("exercise", "check", "slow-start", "bdp=826", "rounds=7", "fct=0.8s")
    assert right.returncode == 0, right.stderr
    assert "3 of 3 parts are right." in right.stdout
    wrong = command("exercise", "check", "slow-start", "bdp=100", "--json")
    assert wrong.returncode == 1
    told = json.loads(wrong.stdout)
    assert (told["right"], told["parts"][0]["why"]) == (0, "too low")
    assert told["parts"][1]["why"] == "not answered: write rounds=NUMBER"

    file = tmp_path / "mine.toml"
    assert command("exercise", "show", "aqm", "--out", "mine.toml").returncode == 0
    file.write_text(
        file.read_text(encoding="utf-8").replace('"fifo"', '"fq_codel"'), encoding="utf-8"
    )
    done = command("exercise", "check", "aqm", "--file", "mine.toml")
    assert (done.returncode, "2 of 2 parts are right." in done.stdout) == (0, True)


def test_invalid_arguments_are_errors_with_a_remedy(command: Cli) -> None:
    for words, said in (
        (("show", "12"), "narrows exercise list"),
        (("check", "cubic", "--file", "x.toml"), "omit --file"),
        (("check", "slow-start", "bdp=1", "bdp=2"), "bdp: is given twice"),
        (("show", "cubic", "--out", "x.toml"), "cubic has no scenario"),
        (("check", "aqm", "--file", "absent.toml"), "absent.toml"),
    ):
        done = command("exercise", *words)
        assert done.returncode == 2
        assert said in done.stderr
        assert "Traceback" not in done.stderr
