"""Runs that are advanced step by step."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from conftest import scenario

import narrows as nw
from narrows import _core
from narrows.errors import EngineError

PATH = nw.Path(rate="20Mbit", rtt="40ms", buffer="1bdp")


def metrics(run: nw.Run) -> dict[str, Any]:
    return {key: value for key, value in run.json.items() if key != "provenance"}


@pytest.mark.parametrize("cc", ["cubic", "bbr", "prague"])
def test_steps_without_changes_give_the_results_of_a_run(cc: str) -> None:
    # With a second flow, the order of the events of several flows matters, too.
    flows = [nw.Flow(cc), nw.Flow("reno", start="500ms")]
    one = nw.Scenario(PATH, flows=flows, probes=[nw.Ping(interval="20ms")], duration="4s", seed=5)
    whole = nw.run(one, states=True)
    stepped = nw.start(one, states=True)
    for nth in range(1, 9):
        stepped.step(until=nth / 4)
    while stepped.step(acks=100).t_s < 3:
        pass
    assert metrics(stepped.finish()) == metrics(whole)
    assert stepped.samples.equals(whole.samples)
    assert stepped.states.equals(whole.states)
    assert stepped.pings.equals(whole.pings)


def test_a_step_by_acks_stops_at_an_ack() -> None:
    stepped = nw.start(scenario())
    first, second = stepped.step(), stepped.step(acks=5)
    assert first.acks >= 1
    assert 5 <= second.acks < 8
    assert second.t_s > first.t_s > 0.02
    assert second.delivered > 0
    assert second.rtt_ms is not None
    assert second.rtt_ms > 19


def test_observations_add_up() -> None:
    one = nw.Scenario(PATH, flows=[nw.Flow("cubic")], duration="5s", start_jitter="0s")
    stepped = nw.start(one)
    seen = [stepped.step(until=f"{nth * 500}ms") for nth in range(1, 11)]
    assert seen[-1].finished
    assert stepped.finished
    acked = sum((each.goodput_mbit or 0) * 0.5 for each in seen) * 1e6 / 8
    run = stepped.finish()
    total = run.flows[0]["series"][-1]
    assert acked == pytest.approx(total[1], rel=0.02)
    assert sum(each.lost for each in seen) >= run.flows[0]["retransmits"]


def test_a_held_window_limits_the_flow() -> None:
    one = nw.Scenario(PATH, flows=[nw.Flow("cubic")], duration="6s")
    stepped = nw.start(one)
    stepped.step(until="2s")
    stepped.step(until="3s", cwnd=10)
    seen = stepped.step(until="5s")
    assert seen.cwnd == 10
    # Ten packets of 1448 bytes per RTT of 40 ms.
    assert seen.goodput_mbit == pytest.approx(10 * 1448 * 8 / 0.0404 / 1e6, rel=0.08)
    wide = stepped.step(until="6s", cwnd=60)
    assert wide.in_flight > 30
    assert stepped.finish().json["provenance"]["steps_with_control"] == 2


def test_a_held_rate_paces_the_flow() -> None:
    stepped = nw.start(nw.Scenario(PATH, flows=[nw.Flow("cubic")], duration="6s"))
    stepped.step(until=1)
    stepped.step(until=3, cwnd=500, pacing_mbit=8.0)
    seen = stepped.step(until=5)
    assert seen.goodput_mbit == pytest.approx(8, rel=0.1)
    assert seen.srtt_ms < 45


def test_one_of_several_flows_is_controlled() -> None:
    flows = [nw.Flow("cubic", id="rival"), nw.Flow("reno", id="mine")]
    stepped = nw.start(nw.Scenario(PATH, flows=flows, duration="6s"), control="mine")
    stepped.step(until="1s", cwnd=4)
    run = stepped.finish()
    rival, mine = (flow["goodput_mbit"] for flow in run.flows)
    assert mine < 2
    assert rival > 10


def test_a_model_in_python_can_be_stepped() -> None:
    class Slow(nw.models.CongestionControl):
        """One packet more per ACK."""

        name = "slow_of_test"

        def on_ack(self, window: _core.Window, ack: _core.Ack) -> None:
            if ack.may_grow:
                window.cwnd += 1

    nw.models.register(Slow)
    try:
        one = nw.Scenario(PATH, flows=[nw.Flow("slow_of_test")], duration="3s")
        stepped = nw.start(one)
        stepped.step(until=1)
        assert metrics(stepped.finish()) == metrics(nw.run(one))
    finally:
        nw.models.unregister(Slow)


def test_numbers_of_numpy_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    stepped = nw.start(scenario())
    seen = stepped.step(acks=numpy.int64(3), cwnd=numpy.int32(7), pacing_mbit=numpy.float64(5))
    assert (seen.cwnd, seen.pacing_mbit) == (7, 5.0)
    assert stepped.step(until=numpy.float64(1.5)).t_s == 1.5


def test_a_notebook_shows_a_run_before_and_after_its_end() -> None:
    stepped = nw.start(scenario())
    stepped.step(until=1)
    assert stepped._repr_html_() == "<p>&lt;narrows.SteppedRun at 1 s of 2 s&gt;</p>"
    assert "<table>" in stepped.finish()._repr_html_()


def test_errors_name_the_value() -> None:
    stepped = nw.start(scenario())
    stepped.step(until=1)
    for given, problem in (
        ({"until": 0.5}, "before the present time, 1 s"),
        ({"until": "1x"}, "1x"),
        ({"until": 2, "acks": 3}, "cannot be combined"),
        ({"acks": 0}, "acks = 0"),
        ({"cwnd": 0}, "cwnd = 0"),
        ({"pacing_mbit": float("nan")}, "pacing_mbit = nan"),
        ({"cwnd": "10"}, "cwnd = '10'"),
        ({"cwnd": 2.5}, "cwnd = 2.5: write a whole number"),
        ({"cwnd": 2**31}, "from 1 to 2147483647"),
        ({"cwnd": True}, "cwnd = True"),
        ({"acks": 1.5}, "acks = 1.5"),
        ({"acks": "3"}, "acks = '3'"),
        ({"acks": 10**400}, "acks = 1000"),
        ({"pacing_mbit": "3"}, "pacing_mbit = '3'"),
        ({"until": float("inf")}, "until = inf: write a time in s"),
        ({"until": [1]}, "until = .1.: write a time in s"),
    ):
        with pytest.raises(EngineError, match=problem):
            stepped.step(**given)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="the run is at 1 s of 2 s"):
        _ = stepped.json
    with pytest.raises(EngineError, match='control = "none": no such flow'):
        nw.start(scenario(), control="none")
    stepped.finish()
    with pytest.raises(EngineError, match="the run is over"):
        stepped.step()
    assert pickle.loads(pickle.dumps(stepped)).flows == stepped.flows
