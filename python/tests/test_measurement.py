"""The measurement: how it is read, and its summary."""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import narrows as nw
from narrows import forecasts
from narrows.errors import NarrowsError
from narrows.host import families
from narrows.measure import run, summary
from narrows.measure.pictures import pictures
from narrows.measure.render import by_cc, latencies, own_error, sentences
from narrows.measure.result import Measurement, MeasurementError, Spread
from narrows.measure.simulated import Plan, measure
from narrows.render.words import millis

PATH = nw.Path(
    rate="20Mbit", rtt="30ms", buffer="200kB", reverse=nw.Hop(rate="5Mbit", buffer="100kB")
)
PLAN = Plan(streams=2, load_s=5.0)


@pytest.fixture(scope="module")
def measured() -> Measurement:
    return measure(PATH, PLAN)


def bare(**more: object) -> dict[str, Any]:
    return {"measurement": 1, "phases": [], "flows": [], "pings": [], **more}


def test_the_results_are_those_of_the_path(measured: Measurement) -> None:
    said = summary.answer(measured)
    # Payload is 1448 of a frame's 1514 bytes.
    assert said.rates_mbit["down"] == pytest.approx(20 * 1448 / 1514, rel=0.05)
    assert said.rates_mbit["up"] == pytest.approx(5 * 1448 / 1514, rel=0.06)
    assert said.idle.min == pytest.approx(30, abs=0.5)
    assert said.loaded["down"].max == pytest.approx(30 + 200e3 * 8 / 20e6 * 1e3, abs=3)
    assert said.loaded["up"].max == pytest.approx(30 + 100e3 * 8 / 5e6 * 1e3, abs=5)


def test_the_latency_increase_is_the_mean_of_both_directions(measured: Measurement) -> None:
    said = summary.answer(measured)
    more = [
        spread.mean - said.idle.mean
        for spread in said.loaded.values()
        if spread.mean and said.idle.mean
    ]
    assert said.increase_ms == pytest.approx(sum(more) / 2)
    assert said.grade == summary.grade(sum(more) / 2)
    assert said.trips_per_minute == pytest.approx(60_000 / (said.every.mean or 0))


@pytest.mark.parametrize(
    ("increase", "grade"),
    [(0, "A+"), (4.99, "A+"), (5, "A"), (30, "B"), (60, "C"), (200, "D"), (400, "F"), (1e9, "F")],
)
def test_grades_are_those_of_dslreports(increase: float, grade: str) -> None:
    assert summary.grade(increase) == grade
    assert (
        "A+ below 5 ms, A below 30 ms, B below 60 ms, C below 200 ms, D below 400 ms, F"
        in summary.SCALE
    )


def test_missing_results_are_none_and_not_zero() -> None:
    said = summary.answer(Measurement.of(bare()))
    assert said.rates_mbit == {}
    assert (said.increase_ms, said.grade, said.trips_per_minute, said.lost) == (
        None,
        None,
        None,
        (None, None),
    )


def test_a_stored_latency_summary_is_used_without_samples() -> None:
    told = {"idle": {"n": 50, "mean": 10.0, "p50": 9.0}, "loaded": {"n": 90, "mean": 50.0}}
    said = summary.answer(Measurement.of(bare(latency_ms=told)))
    assert (said.idle.p50, said.idle.max, said.increase_ms, said.grade) == (9.0, None, 40.0, "B")


def test_a_measurement_written_as_json_is_read_unchanged(measured: Measurement) -> None:
    again = Measurement.parse(measured.text())
    assert again.json == measured.json
    assert summary.answer(again) == summary.answer(measured)


@pytest.mark.parametrize(
    ("tree", "place"),
    [
        ([], "an object is needed"),
        ({}, "measurement: a number"),
        ({"measurement": 2}, "version 2"),
        (bare(flows=3), "flows: a list"),
        (
            bare(flows=[{"id": "a", "direction": "left", "from_s": 0, "to_s": 1}]),
            "flows[0].direction",
        ),
        (bare(flows=[{"id": "a", "direction": "up", "from_s": "0", "to_s": 1}]), "flows[0].from_s"),
        (
            bare(pings=[{"columns": ["t_s", "rtt_ms"], "samples": [[1]]}]),
            "pings[0].samples[0]: 2 values",
        ),
        (bare(phases=[{"name": "idle"}]), "phases[0].from_s"),
        (bare(asked=7), "asked"),
    ],
)
def test_an_invalid_measurement_is_an_error_with_its_place(tree: object, place: str) -> None:
    with pytest.raises(MeasurementError, match=r"here\.json: ") as error:
        Measurement.of(tree, "here.json")
    assert place in str(error.value)


def test_values_that_are_not_numbers_are_unknown() -> None:
    samples = [[0.0, 10.0], [0.1, float("nan")], [0.2, None], [0.3, True]]
    pings = [{"columns": ["t_s", "rtt_ms"], "samples": samples}]
    assert Spread.of(rtt for _, rtt in Measurement.of(bare(pings=pings)).pings[0].rtts()).n == 1


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "measurement",
                    "phases",
                    "flows",
                    "pings",
                    "from_s",
                    "to_s",
                    "columns",
                    "samples",
                    "id",
                    "t_s",
                ]
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
def test_an_arbitrary_tree_is_read_or_is_an_error(tree: object) -> None:
    if isinstance(tree, dict):
        tree["measurement"] = 1
    with contextlib.suppress(MeasurementError):
        summary.answer(Measurement.of(tree)).json()


def test_keys_of_the_summary_have_units(measured: Measurement) -> None:
    said = summary.answer(measured).json()
    assert json.dumps(said)
    assert set(said) == {
        "rates_mbit", "latency_ms", "increase_ms", "grade", "grade_scale", "trips_per_minute",
        "pings_lost",
        "latency_by_cc_ms", "outages", "classes", "controls",
    }  # fmt: skip


def test_voice_quality_and_page_load_times_are_reported() -> None:
    def voip(up: float, down: float) -> dict[str, object]:
        return {"up": {"mos": up}, "down": {"mos": down}}

    page = {
        "objects": 31,
        "idle_s": {"p50": 0.0424, "failed": 0},
        "loaded_s": {"p50": 2.5, "failed": 1},
    }
    told = sentences(
        Measurement.of(bare(voip={"idle": voip(4.36, 4.4), "loaded": voip(4.2, 2.31)}, page=page))
    )
    assert (
        "The estimated voice quality is MOS 4.4 idle and 2.3 under load (E-model, scale 1 to 4.4)."
        in told
    )
    assert (
        "A page of 31 objects loaded in 42.4 ms without load and 2500.0 ms under load (median)."
        in told
    )
    assert "1 page failed to load." in told


@settings(max_examples=100, deadline=None)
@given(ANYTHING, st.sampled_from(["voip", "page", "data", "asked"]))
def test_arbitrary_values_of_a_key_are_not_a_crash(told: object, key: str) -> None:
    with contextlib.suppress(MeasurementError):
        sentences(Measurement.of(bare(**{key: told})))


def pinged(
    rtts: list[float | None], *, flows: list[dict[str, Any]], idle_s: float = 1.0
) -> Measurement:
    """A measurement of pings alone, idle and then loaded by some flows."""
    every_s = 0.1
    end = len(rtts) * every_s
    rows = [[round(at * every_s, 3), rtt] for at, rtt in enumerate(rtts)]
    phases = [
        {"name": "idle", "from_s": 0, "to_s": idle_s},
        {"name": "loaded", "from_s": idle_s, "to_s": end},
    ]
    return Measurement.of(
        bare(phases=phases, flows=flows, pings=[{"columns": ["t_s", "rtt_ms"], "samples": rows}])
    )


def flow(
    name: str, begin: float, end: float, *, cc: str = "cubic", stops: float | None = None
) -> dict[str, Any]:
    """A flow of 8 Mbit/s, or one that delivers nothing any more from a time on."""
    stop = end if stops is None else stops
    samples = [
        [begin + at / 10, min(at / 10, stop - begin) * 1e6]
        for at in range(round((end - begin) * 10) + 1)
    ]
    return {
        "id": name, "direction": name.rstrip("0123456789"), "cc": cc, "from_s": begin, "to_s": end,
        "goodput_mbit": 8.0, "columns": ["t_s", "acked_bytes"], "samples": samples,
    }  # fmt: skip


def test_an_outage_is_reported_and_prevents_a_grade() -> None:
    alive: list[float | None] = [20.0] * 60
    dead: list[float | None] = [None] * 40
    gone = pinged(alive + dead, flows=[flow("down1", 3, 10, stops=6)], idle_s=3)
    (outage,) = summary.answer(gone).outages
    assert (outage.from_s, outage.ended, outage.data_arrived) == (6.0, False, False)
    assert (summary.answer(gone).grade, summary.answer(gone).connectivity_lost) == (None, True)
    lost = (
        "Connectivity was lost from 6.0 s to the end: no ping was answered and no data arrived. "
        "The measurement has no bufferbloat grade."
    )
    assert lost in sentences(gone)
    back = pinged(alive + dead + alive, flows=[flow("down1", 3, 16, stops=6)], idle_s=3)
    again = lost.replace("to the end", "to 10.0 s")
    assert again in sentences(back)
    # Where data still arrives it is the pings that were not answered, and there is no grade either.
    mute = pinged(alive + dead, flows=[flow("down1", 3, 10)], idle_s=3)
    assert (summary.answer(mute).grade, summary.answer(mute).connectivity_lost) == (None, False)


def test_a_measurement_that_lost_the_server_gets_no_grade() -> None:
    whole = pinged([20.0] * 100, flows=[flow("down1", 3, 10)], idle_s=3)
    lost = Measurement.of(whole.json | {"data": {"stopped_by": "lost"}})
    assert (summary.answer(whole).grade, summary.answer(lost).grade) == ("A+", None)
    assert summary.answer(lost).connectivity_lost


def test_a_measurement_without_load_gets_no_grade() -> None:
    idle = flow("down1", 3, 10, stops=3) | {"goodput_mbit": 0.0}
    for flows in ([idle], [flow("up1", 3, 10), idle]):
        without = pinged([20.0] * 100, flows=flows, idle_s=3)
        said = summary.answer(without)
        assert (said.grade, said.unloaded) == (None, ["down"])
        reason = (
            "The download transferred no data during the load phase, so the path had no load. The "
            "measurement has no bufferbloat grade."
        )
        assert reason in sentences(without)
    assert summary.answer(pinged([20.0] * 100, flows=[flow("up1", 3, 10)], idle_s=3)).grade == "A+"


def test_random_loss_and_late_replies_are_not_an_outage() -> None:
    every_third = [None if at % 3 else 20.0 for at in range(120)]
    assert summary.answer(pinged(every_third, flows=[flow("down1", 3, 12)], idle_s=3)).outages == ()
    # With round trips of 4 s the pings of the last seconds are answered after the end.
    slow: list[float | None] = [*([20.0] * 40), *([4000.0] * 40), *([None] * 40)]
    assert summary.answer(pinged(slow, flows=[flow("down1", 3, 12)], idle_s=3)).outages == ()


def test_two_pings_are_too_few_for_a_grade() -> None:
    few = pinged([20.0] * 4, flows=[flow("down1", 0.2, 0.4)], idle_s=0.2)
    assert summary.answer(few).grade is None
    assert any(
        one == "Too few pings were answered for a bufferbloat grade: 2 idle and 1 under load; the "
        "grade needs 20 of each."
        for one in sentences(few)
    )


def test_bidirectional_loads_have_one_latency_row_and_one_per_cc() -> None:
    rtts: list[float | None] = [*([20.0] * 30), *([100.0] * 100), *([20.0] * 20), *([30.0] * 100)]
    flows = [flow(f"{way}{at}", begin, begin + 10, cc=cc)
             for at, (begin, cc) in enumerate([(3, "cubic"), (15, "bbr")]) for way in ("up",
             "down")]  # fmt: skip
    both = pinged(rtts, flows=flows, idle_s=3)
    said = summary.answer(both)
    assert said.together
    assert said.loaded["up"] == said.loaded["down"] == said.every
    names = [row[0].text for row in latencies(both).rows]
    assert names == ["idle", "both directions", "both directions, cubic", "both directions, bbr"]
    assert (said.by_cc["cubic"]["both"].p50, said.by_cc["bbr"]["both"].p50) == (100.0, 30.0)
    rows = [[cell.text for cell in row] for row in by_cc(both).rows]
    assert [row[:3] for row in rows] == [
        ["cubic", "download", "1"], ["cubic", "upload", "1"],
        ["bbr", "download", "1"], ["bbr", "upload", "1"],
    ]  # fmt: skip
    one = pinged(rtts, flows=[f for f in flows if f["direction"] == "down"], idle_s=3)
    assert [row[0].text for row in latencies(one).rows][1:] == [
        "download",
        "download, cubic",
        "download, bbr",
    ]


def test_every_output_has_the_same_p95(measured: Measurement) -> None:
    said = summary.answer(measured)
    assert measured.json["latency_ms"]["down"] == said.loaded["down"].json()
    assert measured.json["latency_ms"]["loaded"] == said.every.json()
    table = {row[0].text: row[4].text for row in latencies(measured).rows}
    assert table["download"] == millis(said.loaded["down"].p95)
    assert forecasts.seen(measured, "down")["loaded_p95_ms"] == said.loaded["down"].p95


def test_the_sum_of_steady_flows_is_constant() -> None:
    steady = pinged(
        [20.0] * 100, flows=[flow("down1", 3.3, 9.9), flow("down2", 3.3, 9.9)], idle_s=3
    )
    line = next(line for line in pictures(steady)[0].lines if line.label == "all, download")
    assert [y for y in line.y if y is not None] == pytest.approx([16.0] * 7, rel=0.02)


def test_received_lost_and_dropped_datagrams_are_reported() -> None:
    load = {
        "direction": "up",
        "sent": 1000,
        "unsent": 5,
        "received": 900,
        "sent_mbit": 10.0,
        "received_mbit": 9.0,
        "loss": 0.1,
    }
    told = sentences(Measurement.of(bare(udp_load=load)))
    assert (
        "The UDP upload sent 1,000 datagrams at 10.00 Mbit/s; 900 arrived at 9.00 Mbit/s; "
        "10 % were lost." in told
    )
    assert "This host dropped 5 further datagrams because its queue was full." in told


def test_omitted_flows_of_a_measured_scenario_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    for flows, said in (("[[flow]]\ncc = 'bbr'\n", True), ("[[probe]]\nkind = 'ping'\n", False)):
        file.write_text(f"duration = '1s'\n[path]\nrate = '2Mbit'\nrtt = '10ms'\n{flows}")
        seen = run.simulated(str(file), {"streams": "1"})
        assert ("flows of the scenario were left out" in own_error(seen)) == said
    with pytest.raises(NarrowsError, match=r"write: narrows measure .* with --streams and --cc"):
        run.simulated(str(file), {"duration": "3s"})


def test_flows_have_the_same_names_in_simulated_and_real_measurements(tmp_path: Path) -> None:
    """`narrows-host` numbers the flows of a direction from 1 (host/src/measure/seen.rs)."""
    file = tmp_path / "s.toml"
    file.write_text("duration = '1s'\n[path]\nrate = '2Mbit'\nrtt = '10ms'\n[[flow]]\ncc = 'bbr'\n")
    seen = run.simulated(str(file), {"streams": "2"})
    assert [flow.id for flow in seen.flows] == ["down1", "down2"]


def test_an_unknown_congestion_control_is_reported_once(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text("duration = '1s'\n[path]\nrate = '2Mbit'\nrtt = '10ms'\n[[flow]]\ncc = 'bbr'\n")
    with pytest.raises(NarrowsError, match="--cc cubik") as wrong:
        run.simulated(str(file), {"cc": "cubik"})
    assert str(wrong.value).count("cubik") == 1
    assert str(wrong.value).endswith("; write --cc cubic")


def test_the_limit_of_data_is_named_as_specified() -> None:
    for most, said in ((300_000, "0.3 MB"), (2_500_000, "2.5 MB"), (2_000_000_000, "2000 MB")):
        told = {
            "measurement": 1,
            "asked": {"max_data_bytes": most},
            "data": {"stopped_by": "max_data"},
        }
        assert f"(--max-data of {said})" in sentences(Measurement.of(told))[0]
    # Paced flows may move less than --max-data.
    told = {
        "measurement": 1,
        "asked": {"max_data_bytes": 2_000_000_000, "pacing_mbit": 8.0},
        "data": {"stopped_by": "max_data", "planned_bytes": 11_048_576},
    }
    limit = "(11 MB, the most that flows with --pacing 8Mbit move in --duration)"
    assert limit in sentences(Measurement.of(told))[0]
    told["data"]["planned_bytes"] = 2_000_000_000
    assert "(--max-data of 2000 MB)" in sentences(Measurement.of(told))[0]


def test_the_other_family_of_a_host_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {("far.example", socket.AF_INET), ("far.example", socket.AF_INET6)}

    def addresses(name: str, _port: None, family: int, _kind: int) -> list[str]:
        if (name, family) not in known:
            raise socket.gaierror
        return ["address"]

    monkeypatch.setattr(socket, "getaddrinfo", addresses)
    said = (
        "far.example also has an IPv4 address, and its path may differ from that of IPv6; to "
        "measure it, write --ip 4"
    )
    assert families.notice("far.example", "2001:db8::1") == said
    assert families.notice("https://far.example:8443/a", "192.0.2.1").endswith("write --ip 6")
    known.discard(("far.example", socket.AF_INET))
    for host, used in [("far.example", "2001:db8::1"), ("192.0.2.1", "192.0.2.1"),
                       ("a.toml", "simulated"), ("far.example", "127.0.0.1")]:  # fmt: skip
        assert families.notice(host, used) == ""
