"""Every later measurement that permits it scores a sealed forecast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import narrows as nw
from narrows import forecasts
from narrows.errors import NarrowsError
from narrows.measure.result import Measurement
from narrows.measure.simulated import Plan, measure
from narrows.tune import plan as tune_plan
from narrows.tune.prove import Proof, scored


@pytest.fixture(autouse=True)
def _record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NARROWS_HISTORY", str(tmp_path / "history.duckdb"))


@pytest.fixture(scope="module")
def simulated() -> dict[str, Any]:
    path = nw.Path(
        rate="10Mbit", rtt="20ms", buffer="50kB", reverse=nw.Hop(rate="10Mbit", buffer="50kB")
    )
    return measure(path, Plan(cc="bbr", streams=2, idle_s=1.0, load_s=3.0, directions=("up",))).json


def measured(tree: dict[str, Any], **more: object) -> Measurement:
    told = {
        "id": "later",
        "started": "2026-03-02T00:00:00.000Z",
        "asked": tree["asked"] | {"host": "server"},
    }
    return Measurement.of(tree | told | more)


def forecast(**more: object) -> str:
    line: dict[str, Any] = {
        "kind": "forecast", "at": "2026-03-01T00:00:00+00:00", "host": "server",
        "measurement": "before", "way": "up",
        "load": {"flows": 2, "cc": "bbr", "both_ways": False}, "now": "cubic", "leave": False,
        "choice": {"key": "bbr", "cc": "bbr", "queue": None, "shaper_share": None},
        "figures": [
            {"name": "rate_mbit", "before": 8.0, "low": 5.0, "high": 12.0},
            {"name": "loaded_p95_ms", "before": 80.0, "low": 1.0, "high": 2.0},
        ],
    }  # fmt: skip
    return forecasts._append(line | more)


def test_a_forecast_of_no_change_is_named_as_in_the_record(simulated: dict[str, Any]) -> None:
    forecast(leave=True)
    (one,) = forecasts.score_open(measured(simulated))
    assert "(no change) is scored" in forecasts.sentences([one])[0]


def test_a_later_measurement_scores_and_only_once(simulated: dict[str, Any]) -> None:
    name = forecast()
    (one,) = forecasts.score_open(measured(simulated))
    assert (one.forecast, [judged.hit for judged in one.judged]) == (name, [True, False])
    assert "is scored: 1 of 2 metrics were within their intervals" in forecasts.sentences([one])[0]
    assert forecasts.rate(list(forecasts.read())) == (1, 2)
    assert f"{name[:12]} (bbr) is scored" in forecasts.sentences([one])[0]
    assert forecasts.score_open(measured(simulated)) == []


def test_a_measurement_with_another_load_is_not_compared_by_hand_either(
    simulated: dict[str, Any],
) -> None:
    other = forecast(load={"flows": 2, "cc": "cubic", "both_ways": False})
    for chosen in (None, other[:12]):
        with pytest.raises(NarrowsError, match="it is for a load with cubic"):
            forecasts.score(measured(simulated), forecast=chosen)
    # Without a hash, the last forecast for this load is chosen.
    alike = forecast()
    forecast(load={"flows": 4, "cc": "bbr", "both_ways": False})
    forecasts.score(measured(simulated))
    (score,) = (line for line in forecasts.read() if line["kind"] == "score")
    assert score["forecast"] == alike


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"host": "another"}, {}),
        ({"measurement": "later"}, {}),
        ({}, {"started": "2026-02-01T00:00:00.000Z"}),
        ({}, {"data": {"stopped_by": "user"}}),
    ],
)
def test_only_later_complete_measurements_are_scored(
    more: dict[str, Any], told: dict[str, Any], simulated: dict[str, Any]
) -> None:
    forecast(**more)
    assert forecasts.score_open(measured(simulated, **told)) == []


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"way": "down"}, "the direction down, which this measurement did not load"),
        (
            {"load": {"flows": 2, "cc": "cubic", "both_ways": False}},
            "a load with cubic, and this load was with bbr; write --cc cubic",
        ),
        ({"load": {"flows": 12, "cc": "bbr", "both_ways": False}}, "--streams 12"),
        ({"load": {"flows": 2, "cc": "bbr", "both_ways": True}}, "another test"),
        (
            {"choice": {"key": "fq_codel", "cc": None, "queue": "fq_codel", "shaper_share": None}},
            "narrows record --score",
        ),
    ],
)
def test_a_forecast_that_cannot_be_scored_has_a_reason(
    more: dict[str, Any], why: str, simulated: dict[str, Any]
) -> None:
    forecast(**more)
    (one,) = forecasts.score_open(measured(simulated))
    assert one.judged == ()
    assert why in forecasts.sentences([one])[0]
    assert forecasts.rate(list(forecasts.read())) == (0, 0)


def test_prove_scores_the_forecast_of_its_change(simulated: dict[str, Any]) -> None:
    name = forecast(choice={"key": "fq", "cc": None, "queue": "fq", "shaper_share": None})
    proof = Proof("up", [], [], [measured(simulated)])
    change = {"kind": "sysctl", "target": "net.core.default_qdisc", "from": "", "to": "fq"}
    (one,) = scored(proof, tune_plan.Plan.of({"changes": [change]}))
    assert (one.forecast, one.why, len(one.judged)) == (name, "", 2)


def test_a_forecast_for_one_address_family_is_not_scored_by_the_other(
    simulated: dict[str, Any],
) -> None:
    forecast(load={"flows": 2, "cc": "bbr", "both_ways": False, "family": "IPv6"})
    (one,) = forecasts.score_open(measured(simulated, peer={"address": "192.0.2.1"}))
    assert one.why == "it is for IPv6, and this load used IPv4; write --ip 6"
    (one,) = forecasts.score_open(measured(simulated, peer={"address": "2001:db8::1"}))
    assert one.why == ""
