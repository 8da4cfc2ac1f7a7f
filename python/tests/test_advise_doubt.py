"""`narrows advise` on path models that do not determine every property of the path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from narrows.advise import Asked, Kernel, advise, candidates, measured, search
from narrows.advise.render import sentences
from narrows.advise.verdict import Advice
from narrows.measure.result import Measurement
from narrows.measure.simulated import Plan, measure
from narrows.path_model import infer
from narrows.runs.scenario import Flow, Hop
from narrows.runs.scenario import Path as NetworkPath

FEW = Kernel(ccs=("cubic", "bbr", "reno", "vegas"), says="few")
SHORT = ((5, 1), (10, 2), (20, 2))


def answer(question: Asked) -> Advice:
    """The advice of a short search."""
    return advise(search(question, candidates(question, FEW), rounds=SHORT), FEW, thorough=False)


def both_ways() -> Measurement:
    """Both directions of a path with fair queueing, loaded at once."""
    path = NetworkPath(
        rate="12Mbit", rtt="30ms", queue="fq_codel", reverse=Hop(rate="8Mbit", queue="fq_codel")
    )
    return measure(path, Plan(streams=2, load_s=6.0, at_once=True), seed=3)


def with_cross_traffic() -> Measurement:
    """A link of 20 Mbit/s with 8 Mbit/s of cross traffic."""
    others = Flow(id="others", workload={"kind": "udp", "rate": "8Mbit", "packet": "1400B"})
    path = NetworkPath(rate="20Mbit", rtt="40ms", buffer="300kB")
    plan = Plan(streams=6, load_s=8.0, directions=("down",))
    return measure(path, plan, seed=3, beside=[others])


def no_path() -> Measurement:
    """Pings that wait in a queue of which the flows know nothing."""
    plan = Plan(streams=6, load_s=8.0, directions=("down",))
    tree = measure(NetworkPath(rate="20Mbit", rtt="40ms", queue="fq_codel"), plan, seed=3).json
    rows = tree["pings"][0]["samples"]
    base = min(rtt for _, rtt in rows)
    tree["pings"][0]["samples"] = [
        [t, base + 40 + 20 * (rtt - base) if t >= plan.idle_s else rtt] for t, rtt in rows
    ]
    return Measurement.of(tree)


@pytest.mark.parametrize(
    ("seen", "reason", "worse_on"),
    [
        (both_ways, "both directions were loaded at once", "the queue discipline fq_codel"),
        (with_cross_traffic, "cross traffic uses a part of the link", "a rate of"),
        (no_path, "no path that was tried shows what was measured", "a rate of"),
    ],
)
def test_the_advice_states_the_uncertainty_of_the_path_model(
    seen: Callable[[], Measurement], reason: str, worse_on: str
) -> None:
    model = infer(seen(), seed=8).json()
    assert model["down"]["sure"] == "cannot tell"
    place = measured(model, role="receiver", source="x")
    for what in ("buffer", "type of the queue"):
        assert any(line.startswith(f"the {what}: {reason}") for line in place.open)
    tried = [variant.why for variant in place.variants]
    assert {
        "a buffer of 1bdp", "a buffer of 0.3bdp", "a buffer of 4bdp",
        "the queue discipline fq_codel", "the queue discipline codel",
    } < set(tried)  # fmt: skip
    assert any("random loss" in why for why in tried)
    # A shaper below a drop-tail buffer of this rate would be better than none: the model does not
    # know that there is one.
    question = Asked(place=place, role="receiver")
    found = answer(question)
    assert found.leave
    assert found.best.share is not None
    assert found.gain == 0
    said = sentences(found)
    assert any(line.startswith(f"Not known: the type of the queue: {reason}") for line in said)
    (row,) = [row for row in found.rows if row.key == "fq_codel at 95%"]
    assert (row.figures["utility"] or 0) > 1.05 * (found.found.utility("as it is") or 1)
    assert row.why_not.startswith("it reduces the utility by")
    assert worse_on in row.why_not
    assert f"fq_codel at 95% is not recommended because {row.why_not}." in said
    assert found.rule == ""
    # A user who knows the properties gets a recommendation for them.
    if reason.startswith("both"):
        sure = measured(model, role="receiver", source="x", known={"buffer": "4bdp", "loss": "0%"})
        assert not answer(Asked(place=sure, role="receiver")).leave


def direction_of(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """A direction of a path model."""
    known = {"value": 10.0, "low": 9.9, "high": 10.1, "why": ""}
    return {
        "family": "drop-tail",
        "sure": "sure",
        "why": "",
        "unlike": {"fifo": 0.1, "pie": 0.3, "fq": 4.0},
        "rate_mbit": known,
        "buffer_bytes": {"value": 98_000, "low": 97_000, "high": 99_000, "why": ""},
        "loss": {"value": 0.0, "low": 0.0, "high": 0.0, "why": ""},
    } | changes


def place_with(**changes: Any) -> Any:  # noqa: ANN401
    """The path of such a model."""
    path = {"rate": "10Mbit", "rtt": "40ms", "buffer": "98kB"}
    rtt = changes.pop("rtt_ms", {"value": 40.0, "low": 40.0, "high": 40.1, "why": ""})
    model = {"path": path, "rtt_ms": rtt, "up": direction_of(**changes)}
    return measured(model, role="sender", source="x")


def test_a_sure_path_model_has_no_variants() -> None:
    place = place_with()
    assert [variant.why for variant in place.variants] == [""]
    assert (place.open, place.told) == ((), True)


def test_a_likely_queue_has_its_alternatives_as_variants() -> None:
    why = "another queue discipline would show nearly the same"
    place = place_with(sure="likely", why=why)
    assert [variant.why for variant in place.variants] == ["", "the queue discipline codel"]
    assert place.open == (f"the type of the queue: {why}",)
    assert not place.told


@pytest.mark.parametrize(
    ("low", "high", "rates"),
    [
        (9.0, 11.0, []),
        (6.0, 11.0, [6.0]),
        (6.0, 15.0, [6.0, 15.0]),
        (9.9, None, [20.0]),
        (None, None, [5.0, 20.0]),
    ],
)
def test_the_ends_of_a_wide_interval_of_the_rate_are_variants(
    low: float | None, high: float | None, rates: list[float]
) -> None:
    why = "" if high else "cross traffic may use a part of the link"
    place = place_with(rate_mbit={"value": 10.0, "low": low, "high": high, "why": why})
    assert [variant.rate_mbit for variant in place.variants] == [None, *rates]
    assert all(line.startswith("the rate: ") for line in place.open)
    assert bool(place.open) is bool(rates)


def test_an_unknown_base_rtt_is_stated() -> None:
    why = "cross traffic delayed idle pings, perhaps all of them"
    place = place_with(rtt_ms={"value": 40.0, "low": 0.0, "high": 40.1, "why": why})
    assert place.open == (f"the base RTT: {why}",)
