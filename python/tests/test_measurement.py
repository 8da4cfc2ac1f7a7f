"""The measurement: read with care, and what it answers."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import narrows as nw
from narrows import answers
from narrows.measured import sentences
from narrows.measurement import Measurement, MeasurementError, Spread
from narrows.simulated import Plan, measure

PATH = nw.Path(rate="20Mbit", rtt="30ms", buffer="200kB", reverse=nw.Hop(rate="5Mbit", buffer="100kB"))
PLAN = Plan(streams=2, load_s=5.0)


@pytest.fixture(scope="module")
def measured() -> Measurement:
    return measure(PATH, PLAN)


def bare(**more: object) -> dict[str, Any]:
    return {"measurement": 1, "phases": [], "flows": [], "pings": [], **more}


def test_what_the_near_end_sees_is_what_the_path_does(measured: Measurement) -> None:
    said = answers.answer(measured)
    # Payload is 1448 of a frame's 1514 bytes.
    assert said.rates_mbit["down"] == pytest.approx(20 * 1448 / 1514, rel=0.05)
    assert said.rates_mbit["up"] == pytest.approx(5 * 1448 / 1514, rel=0.06)
    assert said.idle.min == pytest.approx(30, abs=0.5)
    assert said.loaded["down"].max == pytest.approx(30 + 200e3 * 8 / 20e6 * 1e3, abs=3)
    assert said.loaded["up"].max == pytest.approx(30 + 100e3 * 8 / 5e6 * 1e3, abs=5)


def test_the_increase_is_the_mean_of_both_ways_and_has_its_grade(measured: Measurement) -> None:
    said = answers.answer(measured)
    more = [spread.mean - said.idle.mean for spread in said.loaded.values() if spread.mean and said.idle.mean]
    assert said.increase_ms == pytest.approx(sum(more) / 2)
    assert said.grade == answers.grade(sum(more) / 2)
    assert said.trips_per_minute == pytest.approx(60_000 / (said.every.mean or 0))


@pytest.mark.parametrize(
    ("increase", "grade"), [(0, "A+"), (4.99, "A+"), (5, "A"), (30, "B"), (60, "C"), (200, "D"), (400, "F"), (1e9, "F")]
)
def test_grades_are_those_of_dslreports(increase: float, grade: str) -> None:
    assert answers.grade(increase) == grade
    assert "A+ below 5 ms, A below 30 ms, B below 60 ms, C below 200 ms, D below 400 ms, F" in answers.SCALE


def test_what_was_not_measured_is_none_and_not_zero() -> None:
    said = answers.answer(Measurement.of(bare()))
    assert said.rates_mbit == {}
    assert (said.increase_ms, said.grade, said.trips_per_minute, said.lost) == (None, None, None, (None, None))


def test_latency_that_was_only_told_is_taken_as_told() -> None:
    told = {"idle": {"n": 5, "mean": 10.0, "p50": 9.0}, "loaded": {"n": 9, "mean": 50.0}}
    said = answers.answer(Measurement.of(bare(latency_ms=told)))
    assert (said.idle.p50, said.idle.max, said.increase_ms, said.grade) == (9.0, None, 40.0, "B")


def test_its_text_is_itself(measured: Measurement) -> None:
    again = Measurement.parse(measured.text())
    assert again.json == measured.json
    assert answers.answer(again) == answers.answer(measured)


@pytest.mark.parametrize(
    ("tree", "place"),
    [
        ([], "an object is needed"),
        ({}, "measurement: a number"),
        ({"measurement": 2}, "version 2"),
        (bare(flows=3), "flows: a list"),
        (bare(flows=[{"id": "a", "direction": "left", "from_s": 0, "to_s": 1}]), "flows[0].direction"),
        (bare(flows=[{"id": "a", "direction": "up", "from_s": "0", "to_s": 1}]), "flows[0].from_s"),
        (bare(pings=[{"columns": ["t_s", "rtt_ms"], "samples": [[1]]}]), "pings[0].samples[0]: 2 values"),
        (bare(phases=[{"name": "idle"}]), "phases[0].from_s"),
        (bare(asked=7), "asked"),
    ],
)
def test_a_mistake_is_told_with_its_place(tree: object, place: str) -> None:
    with pytest.raises(MeasurementError, match=r"here\.json: ") as error:
        Measurement.of(tree, "here.json")
    assert place in str(error.value)


def test_numbers_that_are_none_are_unknown() -> None:
    samples = [[0.0, 10.0], [0.1, float("nan")], [0.2, None], [0.3, True]]
    pings = [{"columns": ["t_s", "rtt_ms"], "samples": samples}]
    assert Spread.of(rtt for _, rtt in Measurement.of(bare(pings=pings)).pings[0].rtts()).n == 1


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["measurement", "phases", "flows", "pings", "from_s", "to_s", "columns", "samples", "id", "t_s"]
            )
            | st.text(max_size=4),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(ANYTHING)
def test_no_tree_of_a_stranger_gets_further_than_an_error(tree: object) -> None:
    if isinstance(tree, dict):
        tree["measurement"] = 1
    with contextlib.suppress(MeasurementError):
        answers.answer(Measurement.of(tree)).json()


def test_json_of_an_answer_has_its_units(measured: Measurement) -> None:
    said = answers.answer(measured).json()
    assert json.dumps(said)
    assert set(said) == {
        "rates_mbit", "latency_ms", "increase_ms", "grade", "grade_scale", "trips_per_minute", "pings_lost",
    }  # fmt: skip


def test_what_a_call_and_a_page_came_to_is_told() -> None:
    def voip(up: float, down: float) -> dict[str, object]:
        return {"up": {"mos": up}, "down": {"mos": down}}

    page = {"objects": 31, "idle_s": {"p50": 0.0424, "failed": 0}, "loaded_s": {"p50": 2.5, "failed": 1}}
    told = sentences(Measurement.of(bare(voip={"idle": voip(4.36, 4.4), "loaded": voip(4.2, 2.31)}, page=page)))
    assert "A call would score 4.4 idle and 2.3 under load (mean opinion, 1 to 4.4, by the E-model)." in told
    assert "A page of 31 objects loaded in 42.4 ms idle and 2500.0 ms under load (median)." in told
    assert "1 of the pages did not come." in told


@settings(max_examples=100, deadline=None)
@given(ANYTHING, st.sampled_from(["voip", "page", "data", "asked"]))
def test_whatever_a_stranger_says_of_them_is_no_crash(told: object, key: str) -> None:
    with contextlib.suppress(MeasurementError):
        sentences(Measurement.of(bare(**{key: told})))
