"""How advice is judged: which runs count, the interval of a difference, and calibrated widths."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from validation import advise, advise_linux

CARES = ("bulk", "fairness")
FIGURES = {
    "goodput_mbit": 9.0,
    "p95_ms": 30.0,
    "again_pct": 1.0,
    "beside_mbit": 5.0,
    "rival_mbit": 4.0,
}


def path(of_run: dict[tuple[int, str], float]) -> advise.Recorded:
    """One that differs in goodput alone."""
    seen = {at: FIGURES | {"goodput_mbit": goodput} for at, goodput in of_run.items()}
    return advise.Recorded("Linux", 0, 10.0, 20.0, 25_000, 0.0, seen)


def test_a_run_counts_if_every_congestion_control_has_it() -> None:
    of = path(
        {(0, "cubic"): 8.0, (0, "bbr"): 9.0, (1, "cubic"): 8.0, (1, "bbr"): 9.0, (2, "bbr"): 1.0}
    )
    assert of.runs == [0, 1]
    # Of two that are cared for, one is the root of a part in ten.
    truth = advise.true_utilities(of, CARES)
    assert truth["bbr"] / truth["cubic"] == pytest.approx((9 / 8) ** 0.25)


def test_the_interval_of_a_difference_within_the_noise_contains_zero() -> None:
    one = {(run, "cubic"): 8.0 for run in range(4)}
    sure = path(one | {(run, "bbr"): 9.0 + 0.01 * run for run in range(4)})
    unsure = path(one | {(run, "bbr"): 4.0 + 2 * run for run in range(4)})
    low, high = advise.ahead(sure, CARES, "bbr", "cubic") or (math.nan, math.nan)
    assert 0.029 < low < (9.015 / 8) ** 0.25 - 1 < high < 0.032
    low, high = advise.ahead(unsure, CARES, "bbr", "cubic") or (math.nan, math.nan)
    assert low < 0 < high
    assert advise.ahead(path({(0, "cubic"): 8.0, (0, "bbr"): 9.0}), CARES, "bbr", "cubic") is None


def test_calibrated_widths_contain_nine_of_ten_values() -> None:
    parts = [(10.0, 9.0, 12.0, 50.0)]
    told = [{"name": "p95_ms", "true": 10 + 0.1 * n, "parts": parts} for n in range(100)]
    found = advise.calibrate(told, [])
    factor, share = found["widths"]["p95_ms"]
    reach = factor * (2 + share * 50)
    assert sum(row["true"] - 10 <= reach for row in told) / len(told) == pytest.approx(
        advise.HELD, abs=0.02
    )
    assert found["measured"] == found["widths"]


def test_intervals_of_measured_paths_are_not_narrower() -> None:
    parts = [(10.0, 9.0, 12.0, 50.0)]
    near, far = (
        [{"name": "p95_ms", "true": 10 + x * n, "parts": parts} for n in range(50)]
        for x in (0.1, 1.0)
    )
    for told, measured in ((near, far), (far, near)):
        found = advise.calibrate(told, measured)
        assert all(
            a <= b
            for a, b in zip(found["widths"]["p95_ms"], found["measured"]["p95_ms"], strict=True)
        )


def test_every_recorded_path_has_runs_of_all_congestion_controls() -> None:
    """The advice on a path must not influence its recorded runs."""
    _, rows = advise_linux.rows()
    assert [advise_linux.at(row) for row in rows] == sorted(set(map(advise_linux.at, rows)))
    for of in advise.recorded():
        assert of.runs == list(range(len(of.runs))), of.number
        assert of.ccs == sorted(advise_linux.CCS)


def test_a_case_is_a_single_flow_or_a_flow_beside_cubic() -> None:
    of = advise_linux.drawn(45)
    alone, beside = (advise_linux.case(of, "bbr", 2, beside=b) for b in (False, True))
    assert alone["flows"] == [{"id": "it", "cc": "bbr", "start": 0.311}]
    assert [flow["cc"] for flow in beside["flows"]] == ["bbr", "cubic"]
    assert (alone["ping"], beside["ping"]) == (True, False)
    assert all(2 <= float(advise_linux.drawn(n)["rate_mbit"]) <= 25 for n in range(50))
    assert all(a < b for a, b in pairwise(advise_linux.STARTS))
