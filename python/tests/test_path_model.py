"""Path models of measured paths. `validation/path_models.py` tries 50 random paths."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from validation import path_models, path_models_shared

import narrows as nw
from narrows.errors import NarrowsError
from narrows.measure.result import Measurement
from narrows.measure.simulated import Plan, measure
from narrows.path_model import (
    CHANGES,
    FAMILIES,
    DirectionModel,
    Known,
    PathModel,
    features,
    features_of,
    infer,
    inference,
)
from narrows.path_model.doubt import Doubt
from narrows.path_model.fit import Budget, Fitted, Guess, Setting, distance
from narrows.path_model.others import Others, Watch, _excluded, drained, noticed
from narrows.path_model.render import model_lines

PLAN = Plan(streams=6, load_s=8.0, directions=("down",))


DROPS = nw.Path(rate="20Mbit", rtt="40ms", buffer="150kB")
"""A path that several tests measure."""


@cache
def of_drops(seed: int) -> PathModel:
    """The model of a measurement of `DROPS`."""
    return model_of(DROPS, seed=seed)


def model_of(path: nw.Path, plan: Plan = PLAN, seed: int = 3) -> PathModel:
    return infer(measure(path, plan, seed=seed), seed=8)


def test_a_drop_tail_buffer_is_identified_with_its_depth() -> None:
    found = of_drops(3)
    down = found.directions["down"]
    assert (down.family, down.sure, down.varies) == ("drop-tail", "sure", False)
    assert found.rtt.value == pytest.approx(40, rel=0.01)
    assert down.rate.value == pytest.approx(20, rel=0.03)
    assert down.depth.value == pytest.approx(150e3, rel=0.1)
    assert down.burst.value is None


def test_a_policer_is_identified_with_its_burst() -> None:
    policer = {"rate": "10Mbit", "burst": "250kB"}
    down = model_of(nw.Path(rate="80Mbit", rtt="30ms", policer=policer)).directions["down"]
    assert (down.family, down.sure) == ("policer", "sure")
    assert down.rate.value == pytest.approx(10, rel=0.03)
    assert down.burst.value == pytest.approx(250e3, rel=0.4)
    assert down.depth.value is None


@pytest.mark.parametrize(("queue", "family"), [("fq_codel", "fair"), ("codel", "aqm")])
def test_an_aqm_is_identified_without_a_depth(queue: str, family: str) -> None:
    # Which of the fair ones it is, one measurement in twenty takes for another.
    directions = [
        model_of(nw.Path(rate="30Mbit", rtt="25ms", queue=queue), seed=seed).directions["down"]
        for seed in (3, 4, 5)
    ]
    assert [model.family for model in directions] == [family] * 3
    assert statistics.mode(model.guess.kind for model in directions) == queue
    down = directions[0]
    assert down.rate.value == pytest.approx(30, rel=0.03)
    assert down.depth.value is None
    assert "keeps the queue" in down.depth.why


def test_random_loss_is_distinguished_from_losses_of_the_queue() -> None:
    # A buffer that twelve flows fill although they lose by chance; in a larger one nothing but
    # chance would lose.
    path = nw.Path(
        rate="20Mbit", rtt="40ms", buffer="100kB", loss={"probability": 0.004, "per": "packet"}
    )
    down = model_of(path).directions["down"]
    assert down.family == "drop-tail"
    assert down.loss.value == pytest.approx(0.004, rel=0.4)


def test_each_direction_has_its_own_model_and_the_path_runs(tmp_path: Path) -> None:
    path = nw.Path(
        rate="30Mbit", rtt="20ms", buffer="200kB", reverse=nw.Hop(rate="5Mbit", queue="fq_codel")
    )
    found = model_of(path, Plan(streams=4, load_s=6.0))
    assert (found.directions["down"].family, found.directions["up"].family) == ("drop-tail", "fair")
    assert found.directions["up"].rate.value == pytest.approx(5, rel=0.05)
    file = tmp_path / "model.toml"
    file.write_text(f'duration = "2s"\n\n{found.toml()}\n[[flow]]\ncc = "bbr"\n')
    done = nw.run(file)
    assert done.json["path"]["rate_mbit"] == pytest.approx(30, rel=0.05)


def test_the_path_model_predicts_another_congestion_control() -> None:
    path = nw.Path(rate="25Mbit", rtt="50ms", buffer="400kB")

    def asked(of: nw.Path) -> tuple[float, float]:
        scenario = nw.Scenario(
            of, flows=[nw.Flow("bbr")], probes=[nw.Ping(interval="20ms")], duration="15s", seed=5
        )
        done = nw.run(scenario, sample_interval="off").json
        return done["flows"][0]["goodput_mbit"], done["probes"][0]["rtt_ms"]["p95"]

    assert asked(model_of(path).path()) == pytest.approx(asked(path), rel=0.15)


@pytest.mark.parametrize(
    ("queue", "rates"), [("fifo", (20, 10)), ("fq_codel", (12, 8)), ("fifo", (40, 4))]
)
def test_bidirectional_loads_are_simulated_together(queue: str, rates: tuple[int, int]) -> None:
    down, up = rates
    path = nw.Path(
        rate=f"{down}Mbit", rtt="30ms", queue=queue, reverse=nw.Hop(rate=f"{up}Mbit", queue=queue)
    )
    path = (
        replace(path, buffer="150kB", reverse=replace(path.reverse, buffer="60kB"))
        if queue == "fifo"
        else path
    )
    found = infer(measure(path, Plan(streams=2, load_s=6.0, at_once=True), seed=3), seed=8)
    for direction, true in (("down", down), ("up", up)):
        model = found.directions[direction]  # type: ignore[index]
        assert model.rate.holds(true)
        assert model.sure in ("likely", "cannot tell")
        assert model.depth.value is None
        assert model.rate.value is None or model.rate.value == pytest.approx(true, rel=0.1)
    values = [model.rate.value for model in found.directions.values()]
    if rates == (20, 10):
        # ACKs of each direction wait in the other queue, so that flows use neither link fully: on
        # the true path, simulations with other seeds have upload rates with a standard deviation of
        # 8 %. A download link of 32 Mbit/s has a 17 % higher rate.
        assert values == [None, None]
        lows = [found.directions[direction].rate.low or 0.0 for direction in ("down", "up")]
        assert lows[0] > 0.9 * down
        assert lows[1] > 0.7 * up
        for model in found.directions.values():
            assert model.rate.why.startswith("a faster link would show nearly the same")
    else:
        assert any(values)
    assert "# up: " in found.toml()


numbers = st.none() | st.floats(allow_nan=True, allow_infinity=True)


@given(value=numbers, low=numbers, high=numbers)
def test_a_value_never_lies_outside_its_interval(
    value: float | None, low: float | None, high: float | None
) -> None:
    known = Known(value, low, high)
    for made in (
        known,
        replace(known, high=low),
        replace(known, low=high),
        replace(known, value=low),
    ):
        assert made.value is None or made.holds(made.value)
        assert made.low is None or made.high is None or made.low <= made.high
        told = made.json()
        ends = [told[name] for name in ("low", "value", "high") if told[name] is not None]
        assert ends == sorted(ends)


def disturbed(
    path: nw.Path, change: Callable[[float, float], float], plan: Plan = PLAN
) -> Measurement:
    """A measurement whose pings under load take otherwise: `change` gets the time and what a ping
    waited.
    """
    tree = measure(path, plan, seed=3).json
    rows = tree["pings"][0]["samples"]
    base = min(rtt for _, rtt in rows)
    begin = plan.idle_s
    tree["pings"][0]["samples"] = [
        [t, base + change(t, rtt - base) if t >= begin else rtt] for t, rtt in rows
    ]
    return Measurement.of(tree)


def test_a_few_late_pings_are_no_queue() -> None:
    path = nw.Path(rate="20Mbit", rtt="40ms", queue="fq_codel")
    seen = disturbed(path, lambda t, wait: wait + (9.0 if round(t / 0.02) % 97 == 0 else 0.0))
    seen.json["own_error"] = {"lateness_ms": {"p50": 0.1, "p99": 2.8, "max": 9.7}}
    down = infer(seen, seed=8).directions["down"]
    assert (down.family, down.sure) == ("fair", "sure")
    assert down.rate.value == pytest.approx(20, rel=0.03)
    assert down.rate.holds(20)


def test_a_measurement_that_fits_no_path_has_no_values_and_a_reason() -> None:
    # Pings wait in a long queue, of which the flows know nothing.
    seen = disturbed(
        nw.Path(rate="20Mbit", rtt="40ms", queue="fq_codel"), lambda _t, wait: 40 + 20 * wait
    )
    found = infer(seen, seed=8)
    down = found.directions["down"]
    assert down.sure == "cannot tell"
    assert "two simulations of it" in down.why
    assert (down.rate.value, down.rate.high, down.loss.value, down.depth.value) == (
        None,
        None,
        None,
        None,
    )
    assert down.rate.holds(20)
    assert "the queue is assumed" in found.toml()


def test_a_search_reports_that_it_reached_its_ceiling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = measure(
        nw.Path(rate="10Mbit", rtt="20ms", buffer="50kB"),
        Plan(streams=2, load_s=3.0, directions=("down",)),
    )
    spent: list[Budget] = []
    monkeypatch.setattr("narrows.path_model.inference.CEILING", 10_000.0)
    monkeypatch.setattr(
        "narrows.path_model.inference.Budget", lambda most: spent.append(Budget(most)) or spent[-1]
    )
    down = infer(seen, chance=True).directions["down"]
    assert down.sure == "cannot tell"
    assert down.why == "the search reached its ceiling of 10 thousand simulated packets"
    # Two directions that are loaded one after the other have a half each.
    path = nw.Path(
        rate="10Mbit", rtt="20ms", buffer="50kB", reverse=nw.Hop(rate="10Mbit", buffer="50kB")
    )
    apart = infer(measure(path, Plan(streams=2, load_s=3.0)))
    told = {model.why for model in apart.directions.values()}
    assert told == {"the search reached its ceiling of 5 thousand simulated packets"}
    assert all(budget.reached and budget.spent <= 10_000 for budget in spent)
    assert down.rate.value is None
    assert down.rate.holds(10)


def stream(mbit: float) -> list[nw.Flow]:
    return [
        nw.Flow(id="others", workload={"kind": "udp", "rate": f"{mbit}Mbit", "packet": "1400B"})
    ]


@pytest.mark.parametrize("queue", ["fifo", "fq_codel", "codel"])
def test_steady_cross_traffic_leaves_the_rate_without_an_upper_bound(queue: str) -> None:
    path = nw.Path(
        rate="20Mbit", rtt="40ms", queue=queue, buffer="150kB" if queue == "fifo" else None
    )
    seen = measure(path, PLAN, seed=3, beside=stream(8))
    found = infer(seen, seed=8)
    down = found.directions["down"]
    assert down.others.seen is not False
    assert found.others is not False
    assert down.rate.high is None
    assert down.rate.holds(20)
    assert down.rate.low is not None
    assert down.rate.low > 10


@pytest.mark.parametrize("off", ["900ms", "4s"])
def test_intermittent_cross_traffic_is_not_excluded(off: str) -> None:
    # On for a tenth of the time: at most one idle ping in twenty waits; or silent while the path is
    # idle, and on and off during the load.
    path = nw.Path(rate="20Mbit", rtt="40ms", buffer="150kB")
    on, start = ("100ms", "0s") if off == "900ms" else ("4s", "3s")
    workload = {"kind": "on_off", "rate": "8Mbit", "packet": "1400B", "on": on, "off": off}
    for seed in range(1, 4):
        seen = measure(
            path, PLAN, seed=seed, beside=[nw.Flow(id="others", workload=workload, start=start)]
        )
        down = infer(seen, seed=8).directions["down"]
        assert down.others.seen is not False
        assert down.others.why
        assert down.rate.high is None


def test_the_detection_limit_is_stated_if_no_cross_traffic_was_detected() -> None:
    found = of_drops(3)
    others = found.directions["down"].others
    assert others.seen is False
    assert "20 % of the bottleneck rate" in others.why
    assert f"Cross traffic: none detected; {others.why}." in model_lines(found)
    # A queue that drains at the link rate has no cross traffic then, but does not exclude it.
    noisy = disturbed(nw.Path(rate="20Mbit", rtt="40ms", buffer="300kB"), lambda _t, wait: wait)
    rows = noisy.json["pings"][0]["samples"]
    noisy.json["pings"][0]["samples"] = [
        [t, rtt + 0.3 if t < PLAN.idle_s and n % 5 == 0 else rtt] for n, (t, rtt) in enumerate(rows)
    ]
    noisy = Measurement.of(noisy.json)
    shown = features_of(noisy, "down")
    assert shown is not None
    assert drained(noisy, "down", shown) == pytest.approx(0.0, abs=0.08)
    assert infer(noisy, seed=8).directions["down"].others.seen is None


def test_fewer_idle_pings_notice_less() -> None:
    assert noticed(0, 300) == pytest.approx(noticed(0, 150) / 2)
    assert noticed(2, 150) > noticed(1, 150) > noticed(0, 150)
    # The wait of QUIET frame times is shorter beside a larger share.
    assert noticed(0, 150, 0.4) < noticed(0, 150, 0.2)


def test_a_link_that_waited_for_acks_has_no_upper_end() -> None:
    # Both directions were loaded at once.
    row = path_models_shared.one(9117)
    known, true = row["model"]["down"]["rate_mbit"], row["truth"]["down"]["rate_mbit"]
    assert path_models_shared.holds(known, true)
    assert known["high"] is None
    assert not row["model"]["down"]["filled"]


@pytest.mark.parametrize("seed", range(1, 5))
def test_traffic_in_step_with_the_pings_is_found(seed: int) -> None:
    # Exactly four packets per ping interval, which use 23 % of the link. Pings of equal intervals
    # met a gap between two packets each time: no cross traffic and a rate of 8.0 Mbit/s.
    path = nw.Path(rate="10Mbit", rtt="40ms", queue="fq_codel")
    seen = measure(path, PLAN, seed=seed, beside=stream(2.24))
    assert infer(seen, seed=8).directions["down"].others.seen is not False


def test_traffic_in_step_with_pings_of_equal_intervals_is_a_stated_exception() -> None:
    excluded = _excluded(Watch((0.0,) * 150, 3.0), 1.0, synchronized=True)
    assert excluded.seen is False
    assert excluded.why.endswith(" and it is not synchronized with the pings")
    excluded = _excluded(Watch((0.0,) * 150, 3.0), 1.0, synchronized=False)
    assert "synchronized" not in excluded.why
    assert excluded.why.endswith(" and its pauses last at most 1.0 s on average")


def test_a_queue_that_drains_slowly_indicates_cross_traffic() -> None:
    path = nw.Path(rate="20Mbit", rtt="40ms", buffer="250kB")
    for others, share in (([], 0.0), (stream(8), 0.4)):
        seen = measure(path, PLAN, seed=3, beside=others)
        shown = features_of(seen, "down")
        assert shown is not None
        assert drained(seen, "down", shown) == pytest.approx(share, abs=0.08)


def test_pings_of_one_moment_are_no_slope() -> None:
    tree = measure(
        nw.Path(rate="10Mbit", rtt="20ms", buffer="200kB"),
        Plan(streams=2, load_s=3.0, directions=("down",)),
    ).json
    rows = tree["pings"][0]["samples"]
    tree["pings"][0]["samples"] = [row for row in rows for _ in range(2)]
    seen = Measurement.of(tree)
    shown = features_of(seen, "down")
    assert shown is not None
    assert drained(seen, "down", shown) == pytest.approx(0.0, abs=0.08)


def test_losses_of_a_queue_are_not_random_ones() -> None:
    path = nw.Path(rate="50Mbit", rtt="20ms", buffer="1MB")
    for chance in (False, True):
        loss = (
            infer(measure(path, Plan(streams=4, load_s=6.0, directions=("down",))), chance=chance)
            .directions["down"]
            .loss
        )
        assert loss.value == 0


def test_random_loss_has_no_value_if_another_queue_would_show_the_same() -> None:
    """The losses of PIE and of fair queues are none of the path."""
    pie = path_models_shared.one(7534)
    assert pie["truth"]["up"]["loss"] == 0
    # Pings at random times determine the queue discipline, which explains all losses.
    up = pie["model"]["up"]
    assert (up["family"], up["sure"], up["others_traffic"]) == ("aqm", "sure", None)
    assert (up["loss"]["value"], up["loss"]["low"]) == (0.0, 0.0)
    # The load of 2600 packets contains five random losses (0.19 %). In simulations of this hop, the
    # random difference of the statistics (2.7) exceeds the distance of a hop without random loss
    # from the measurement (1.3): a value cannot be known.
    fair = path_models_shared.one(7500)
    told, true = fair["model"]["up"]["loss"], fair["truth"]["up"]["loss"]
    assert true > 0
    assert (told["value"], told["low"]) == (None, 0.0)
    assert told["why"] == "a queue alone would show nearly the same"
    assert path_models_shared.holds(told, true)


def test_random_loss_behind_an_uncertain_queue_has_no_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An unknown queue discipline may drop at random as well."""
    plan = Plan(streams=2, load_s=3.0, directions=("down",))
    lossy = {"probability": 0.01, "per": "packet"}
    path = nw.Path(rate="10Mbit", rtt="20ms", queue="codel", loss=lossy)
    seen = measure(path, plan, seed=3)
    shown = features_of(seen, "down")
    assert shown is not None
    hop = Guess("codel", 10.0, 1e5, 1e5, 60.0, loss=0.01)
    other = replace(hop, kind="fifo", loss=0.0)
    found = [Fitted(hop, shown, 0.3), Fitted(other, shown, 0.6)]
    near = [
        (fitted, Doubt(apart, 0.3, 1.0, 0.001))
        for fitted, apart in zip(found, (0.3, 0.9), strict=True)
    ]
    monkeypatch.setattr(inference, "_judged", lambda *_: near)
    monkeypatch.setattr(inference, "_precise", lambda _s, _g, doubted, _t: doubted)
    setting = Setting("down", plan, 20.0, None, 1)
    down = inference._direction(shown, found, inference.Grain(1e-3, 0.0), setting)
    assert down.sure == "likely"
    assert (down.loss.value, down.loss.low, down.guess.loss) == (None, 0.0, 0.0)
    assert down.loss.why == down.why == "another queue discipline would show nearly the same"


@pytest.mark.parametrize("others", ["udp", "tcp"])
def test_pie_beside_cross_traffic_is_no_policer(others: str) -> None:
    """Two of six emulated paths with PIE and cross traffic had a likely policer."""
    for seed, rate in ((1, 4), (2, 8)):
        flow = stream(0.4 * rate) if others == "udp" else [nw.Flow("cubic", id="others", count=2)]
        path = nw.Path(rate=f"{rate}Mbit", rtt="30ms", queue="pie")
        down = infer(measure(path, PLAN, seed=seed, beside=flow), seed=8).directions["down"]
        assert down.others.seen is not False
        assert (down.family, down.sure) == ("aqm", "sure") or down.sure == "cannot tell"
        assert down.rate.high is None
        assert down.rate.holds(rate)


@pytest.mark.parametrize("kind", ["policer", "fifo"])
def test_a_likely_queue_beside_cross_traffic_is_not_identified(kind: str) -> None:
    """No candidate has cross traffic, so that small differences exclude none of them."""
    rival = "another queue discipline would show nearly the same"
    hop = Guess(kind, 4.0, 1e5, 1e5, 60.0, loss=0.0)
    likely = DirectionModel(
        hop, FAMILIES[kind], "likely", Known(4.0, 3.9, 4.1), False,
        Known(1e5, 9e4, 1.1e5) if kind == "fifo" else Known(None, why="a policer has no buffer"),
        Known(None), Known(0.0, 0.0, 0.01), True, why=rival,
    )  # fmt: skip
    told = inference._beside(likely, Others(None))
    assert told.sure == "cannot tell"
    assert told.why == f"{rival}, and cross traffic may use a part of the link"
    assert (told.depth.value, told.depth.high) == (None, None)
    assert (told.rate.low, told.rate.high) == (3.9, None)
    assert inference._beside(likely, Others(seen=False)).sure == "likely"
    certain = inference._beside(replace(likely, sure="sure"), Others(None))
    assert certain.sure == "sure"


@pytest.mark.parametrize(("filled", "assumed"), [(True, 0.0), (False, 0.002)])
def test_random_loss_beside_cross_traffic_is_not_identified(
    filled: bool,
    assumed: float,
) -> None:
    """Behind a fair queue without random loss, beside cross traffic in the other direction, the
    model reported 0.2 % random loss.
    """
    hop = Guess("fq", 6.5, 0.0, 0.0, 9.0, loss=0.002)
    alone = DirectionModel(
        hop, "fair", "sure", Known(6.5, 6.4, 6.6), False, Known(None), Known(None),
        Known(0.002, 0.0, 0.004), filled,
    )  # fmt: skip
    for seen in (None, True):
        told = inference._beside(alone, Others(seen))
        assert (told.loss.value, told.loss.low, told.loss.high) == (None, 0.0, 0.004)
        assert "cross traffic" in told.loss.why
    assert inference._beside(alone, Others(None)).guess.loss == assumed
    assert inference._beside(alone, Others(seen=False)).loss.value == 0.002


@pytest.mark.parametrize("at_once", [False, True])
def test_a_path_shorter_than_the_frames_of_a_ping_has_a_path_model(at_once: bool) -> None:
    """The base RTT of such a path was estimated as zero, which no scenario may have."""
    hop = nw.Hop(rate="4Mbit", buffer="60kB")
    path = nw.Path(rate="4Mbit", rtt="2us", buffer="60kB", reverse=hop)
    plan = Plan(cc="reno", load_s=4.0, at_once=at_once)
    found = infer(measure(path, plan, seed=3), seed=3)
    assert found.rtt.value is not None
    assert found.rtt.value < 0.5
    for model in found.directions.values():
        assert model.rate.holds(4.0)
    nw.run(nw.Scenario(found.path(), flows=[nw.Flow("reno")], duration="1s"))


@pytest.mark.parametrize("seed", [8000, 8001, 8002, 8003])
def test_intervals_contain_the_truth_on_ambiguous_paths(seed: int) -> None:
    row = path_models_shared.one(seed)
    for direction in ("down", "up"):
        told, true = row["model"][direction], row["truth"][direction]
        assert path_models_shared.holds(told["rate_mbit"], true["rate_mbit"])
        assert path_models_shared.holds(told["loss"], true["loss"])
        assert true["depth_bytes"] is None or path_models_shared.holds(
            told["buffer_bytes"], true["depth_bytes"]
        )
        if told["sure"] != "cannot tell":
            assert told["family"] == path_models_shared.FAMILY[true["kind"]]
        if path_models_shared.beside(row, direction):
            assert told["others_traffic"] is not False


def test_without_pings_or_load_there_is_no_path_model() -> None:
    with pytest.raises(NarrowsError, match="a path model needs pings during TCP flows"):
        infer(Measurement.of({"measurement": 1}))


def test_a_load_that_ends_soon_after_the_first_pings_has_no_busy_rate() -> None:
    total = [(0.0, 0.0), (0.1, 1e6), (0.2, 2e6)]
    waits = [(0.12 + n / 1000, 5.0) for n in range(50)]
    for end in (0.1, 0.14):
        assert features._busy(total, waits, end, 0.0) == (None, None)


def test_a_buffer_without_drops_has_no_upper_bound_of_its_depth() -> None:
    host = nw.Path(rate="10Mbit", rtt="20ms", buffer="100MB")
    down = model_of(host, Plan(streams=1, load_s=4.0, directions=("down",))).directions["down"]
    if down.family == "drop-tail":
        assert down.depth.high is None
        assert "never full" in down.depth.why


def test_an_exception_of_the_progress_callback_stops_the_search() -> None:
    def stop(_now: float, _end: float) -> None:
        raise KeyboardInterrupt

    seen = measure(
        nw.Path(rate="10Mbit", rtt="20ms", buffer="50kB"),
        Plan(streams=2, load_s=3.0, directions=("down",)),
    )
    with pytest.raises(KeyboardInterrupt):
        infer(seen, progress=stop)


def test_the_intervals_are_those_of_paths_drawn_at_random() -> None:
    held = 0
    for seed in range(3, 13):
        down = of_drops(seed).directions["down"]
        assert down.rate.low is not None
        assert down.rate.high is not None
        assert down.rate.value is not None
        assert 0.98 * 20 < down.rate.low < down.rate.value < down.rate.high < 1.02 * 20
        held += down.rate.low <= 20 <= down.rate.high
    # Nine of ten.
    assert held >= 8


@pytest.mark.parametrize("unit", ["packets", "bytes"])
def test_intervals_contain_the_truth_for_few_and_many_flows(unit: str) -> None:
    """A buffer with a limit in packets holds pings, too: 42 kB less than full frames of 1500 kB."""
    rates, depths = [], []
    for n, (mbit, streams, bdp) in enumerate(
        ((5, 1, 15), (5, 2, 4), (5, 4, 1), (20, 1, 4), (20, 4, 15), (20, 8, 1), (60, 2, 1))
    ):
        frames = round(mbit * 1e6 / 8 * 0.04 * bdp / 1514)
        buffer = f"{frames}p" if unit == "packets" else f"{1514 * frames}B"
        path = nw.Path(rate=f"{mbit}Mbit", rtt="40ms", buffer=buffer)
        plan = Plan(streams=streams, directions=("down",))
        down = infer(measure(path, plan, seed=20 + n), seed=8).directions["down"]
        assert down.rate.high is not None
        assert down.rate.low is not None
        assert down.rate.high < 1.1 * down.rate.low
        rates.append(down.rate.holds(mbit))
        depths.append(down.depth.holds(1514 * frames))
    # Nine of ten.
    assert sum(rates) >= len(rates) - 1
    assert sum(depths) >= len(depths) - 1


def test_holes_at_the_ends_of_a_load_do_not_move_a_rate() -> None:
    # One flow and a buffer of 0.6 s. Without the rate of the full queue, this was 4.79 to 4.82.
    path = nw.Path(rate="5Mbit", rtt="40ms", buffer="248p")
    down = infer(measure(path, Plan(streams=1, directions=("down",)), seed=1)).directions["down"]
    assert down.rate.value == pytest.approx(5, rel=0.005)
    assert down.rate.holds(5)


def relative_width(of: Known) -> float:
    assert of.value is not None
    assert of.low is not None
    assert of.high is not None
    return (of.high - of.low) / of.value


def test_a_rate_is_counted_in_packets_and_a_buffer_in_frames() -> None:
    def width(path: nw.Path, load_s: float) -> tuple[float, float]:
        down = model_of(path, Plan(streams=6, load_s=load_s, directions=("down",))).directions[
            "down"
        ]
        rate, depth = down.rate, down.depth
        return relative_width(rate), relative_width(depth)

    short, long = (
        width(nw.Path(rate="5Mbit", rtt="40ms", buffer="60kB"), load_s) for load_s in (4.0, 16.0)
    )
    shallow, deep = (
        width(nw.Path(rate="20Mbit", rtt="40ms", buffer=buffer), 8.0)
        for buffer in ("25kB", "250kB")
    )
    assert short[0] > 2 * long[0]
    assert shallow[1] > 3 * deep[1]


def test_the_own_error_of_the_measurement_lowers_the_base_rtt_interval() -> None:
    seen = measure(DROPS, PLAN, seed=3)
    plain = of_drops(3).rtt
    seen.json["own_error"] = {"leaving_ms": 0.04, "far": {"answering_ms": 0.03}}
    told = infer(seen, seed=8).rtt
    assert plain.low is not None
    assert told.value == plain.value
    assert told.low == pytest.approx(plain.low - 0.07)


def test_low_ping_loss_is_evidence_against_random_loss_and_red() -> None:
    path = nw.Path(
        rate="20Mbit", rtt="40ms", buffer="150kB", loss={"probability": 0.05, "per": "packet"}
    )
    shown = features_of(measure(path, PLAN, seed=3), "down")
    assert shown is not None
    assert shown.pings_lost > 0.02
    spared, lost_more = (replace(shown, pings_lost=share) for share in (0.0, 0.2))
    lossy = Guess("fifo", 20.0, 150e3, 0.0, 100.0, loss=0.05)
    for guess in (lossy, replace(lossy, kind="red", loss=0.0)):
        assert distance(spared, shown, guess) > 0.5
        assert distance(lost_more, shown, guess) == distance(shown, shown, guess) == 0
    # A full buffer may have room for a ping.
    assert distance(spared, shown, replace(lossy, loss=0.0)) == 0


def test_a_varying_rate_is_reported_without_an_upper_bound() -> None:
    steps = [{"at": f"{3 + 2 * i}s", "rate": "10Mbit" if i % 2 else "20Mbit"} for i in range(1, 5)]
    down = model_of(nw.Path(rate="20Mbit", rtt="30ms", buffer="150kB", steps=steps)).directions[
        "down"
    ]
    assert down.varies
    assert (down.rate.high, down.rate.why) == (None, "the mean of a rate that varies")
    assert 10 < (down.rate.value or 0) < 20
    # Delays and retransmissions are of several rates: they show neither the depth nor random loss.
    assert (down.depth.value, down.depth.low, down.depth.high) == (None, None, None)
    assert down.loss.value in (None, 0.0)
    assert down.guess.loss == 0
    assert [why for why in (down.depth.why, down.loss.why) if why].count(CHANGES) >= 1


def test_intermittent_cross_traffic_does_not_distort_the_depth() -> None:
    path = nw.Path(
        rate="14Mbit", rtt="44ms", buffer="150kB", reverse=nw.Hop(rate="5Mbit", buffer="50kB")
    )
    others = nw.Flow(workload={"kind": "on_off", "rate": "6Mbit"}, id="others")
    down = infer(
        measure(path, Plan(streams=4, load_s=8), seed=902, beside=[others]), seed=2
    ).directions["down"]
    low, high = down.depth.low or 0.0, down.depth.high or 1e12
    assert low <= 150e3 <= high, down.depth


def test_a_measurement_with_one_flow_narrows_the_interval_of_random_loss() -> None:
    for loss in (0.002, 0.0):
        path = nw.Path(
            rate="8Mbit",
            rtt="40ms",
            buffer="1bdp",
            **({"loss": {"probability": loss, "per": "packet"}} if loss else {}),
        )
        full = measure(path, Plan(streams=8, load_s=6.0, directions=("down",)))
        alone = measure(path, Plan(streams=1, load_s=20.0, directions=("down",)), seed=2)
        wide, near = (
            infer(full, chance=True, lone=lone).directions["down"].loss for lone in (None, alone)
        )
        assert near.low is not None
        assert near.high is not None
        assert near.low <= loss <= near.high
        assert wide.high is not None
        # Pings that are not lost say much already.
        assert near.high <= wide.high / 2 < 0.01


def test_few_retransmits_are_no_random_loss() -> None:
    found = infer(
        measure(
            nw.Path(rate="20Mbit", rtt="10ms", buffer="60kB"),
            Plan(streams=1, load_s=5.0, directions=("down",)),
        ),
        chance=True,
    )
    loss = found.directions["down"].loss
    assert loss.low == 0
    assert loss.high is not None
    assert loss.high < 0.01


def test_an_interval_that_always_contains_the_truth_meets_its_criterion() -> None:
    known = {"value": 10.0, "low": 9.0, "high": 11.0}
    told = {"rate_mbit": known, "buffer_bytes": known, "burst_bytes": None}
    model = told | {"filled": True, "family": "drop-tail", "sure": "sure"}
    truth = {"kind": "fifo", "rate_mbit": 10.0, "depth_bytes": 10.0, "burst_bytes": None}
    row = {
        "seed": 1,
        "truth": {"rtt_ms": 10.0, "down": truth, "up": truth},
        "model": {"rtt_ms": known, "down": model, "up": model},
    }
    criteria = path_models.criteria_of([row] * 30)
    intervals = [c for c in criteria if c.name.startswith("interval of rate")]
    assert [(c.found, c.met) for c in intervals] == [("100.0 % of 60", True)]
