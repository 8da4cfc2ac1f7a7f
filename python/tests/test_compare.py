"""Comparisons of measurements: differences are detected, and unchanged paths show none."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import narrows as nw
from narrows import cli, files, forecasts, inference
from narrows.compare import command, measurements
from narrows.compare import render as comparison
from narrows.errors import EngineError, NarrowsError
from narrows.measure import history, run, summary
from narrows.measure import render as telling
from narrows.measure.result import Measurement
from narrows.measure.simulated import Plan
from narrows.measure.simulated import measure as simulate


def seen(seed: int, **down: object) -> Measurement:
    hop: dict[str, Any] = {"rate": "20Mbit", "buffer": "200kB"} | down
    path = nw.Path(rtt="30ms", reverse=nw.Hop(rate="5Mbit", buffer="50kB"), **hop)
    return simulate(path, Plan(streams=4, load_s=6.0), seed=seed)


@pytest.fixture(scope="module")
def before() -> Measurement:
    return seen(1)


def verdicts(a: Measurement, b: Measurement) -> dict[str, str]:
    return {d.figure.key: d.verdict for d in measurements.differences(a, b)}


def test_the_same_path_twice_shows_no_difference(before: Measurement) -> None:
    for seed in range(2, 6):
        assert set(verdicts(before, seen(seed)).values()) == {"no difference seen"}


def test_a_shorter_queue_improves_only_the_latency_of_its_direction(before: Measurement) -> None:
    found = verdicts(before, seen(2, buffer=None, queue="fq_codel"))
    assert (found["loaded_down_ms"], found["loaded_down_p95_ms"]) == ("better", "better")
    assert {found[key] for key in ("up_mbit", "idle_ms", "loaded_up_ms")} == {"no difference seen"}


def test_a_slower_path_is_worse(before: Measurement) -> None:
    assert verdicts(before, seen(2, rate="16Mbit"))["down_mbit"] == "worse"


def test_two_values_are_too_few() -> None:
    pings = [{"columns": ["t_s", "rtt_ms"], "samples": [[t / 10, 5.0] for t in range(14)]}]
    short = Measurement.of(
        {"measurement": 1, "pings": pings, "phases": [{"name": "idle", "from_s": 0, "to_s": 1.4}]}
    )
    assert verdicts(short, short) == {"idle_ms": "cannot tell"}
    assert (
        "too few data: fewer than 3 intervals"
        in comparison.sentences(measurements.differences(short, short), "a", "b")[0]
    )
    assert comparison.sentences([], "a", "b") == ["The measurements have no metric in common."]


def test_three_values_far_apart_bound_no_difference() -> None:
    rtts = (0.05, 5.0, 0.5)
    pings = [
        {"columns": ["t_s", "rtt_ms"], "samples": [[t / 10, rtts[t // 10]] for t in range(30)]}
    ]
    wide = Measurement.of(
        {"measurement": 1, "pings": pings, "phases": [{"name": "idle", "from_s": 0, "to_s": 3.0}]}
    )
    [found] = measurements.differences(wide, wide)
    assert found.verdict == "cannot tell"
    assert found.why == "too few data: the second value could be over 10 times as large"


def test_a_small_interval_is_no_relevant_difference(before: Measurement) -> None:
    figure = next(
        d.figure for d in measurements.differences(before, before) if d.figure.key == "idle_ms"
    )

    def of(low: float, high: float) -> measurements.Difference:
        return measurements.Difference(figure=figure, before=40.0, after=40.0, low=low, high=high)

    same, near, far = of(0.002, 0.002), of(-0.3, 0.9), of(-0.3, 1.3)
    assert {d.verdict for d in (same, near, far)} == {"no difference seen"}
    start = "Mean idle RTT: {}; 40.0 ms in a, 40.0 ms in b; the difference is {}."
    least = "within the threshold of 1.2 ms (3 % of the value in the first file)"
    assert comparison.sentences([same, near, far], "a", "b") == [
        start.format("no relevant difference", f"+0.002 ms, {least}"),
        start.format("no relevant difference", f"between -0.3 and +0.9 ms, {least}"),
        start.format("no difference seen", "between -0.3 and +1.3 ms"),
    ]


def series(draw: random.Random, count: int, correlation: float) -> list[float]:
    """Standard normal values, each correlated with the one before."""
    at, out = draw.gauss(0, 1), []
    for _ in range(count):
        out.append(at)
        at = correlation * at + math.sqrt(1 - correlation**2) * draw.gauss(0, 1)
    return out


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.5])
def test_the_interval_of_correlated_values_has_its_coverage(
    correlation: float,
) -> None:
    draw = random.Random(4)
    held = 0
    for _ in range(400):
        values = series(draw, 28, correlation)
        held += abs(math.fsum(values) / 28) <= inference.half_width(
            0.99, inference.of_series(values)
        )
    assert held >= 0.97 * 400


def test_the_interval_of_a_few_correlated_values_holds_the_truth() -> None:
    # Five intervals of `iperf2 -i 2`, of two measurements.
    draw = random.Random(4)
    held = 0
    for _ in range(2000):
        a, b = series(draw, 5, 0.5), series(draw, 5, 0.5)
        both = inference.of_sum([(1.0, inference.of_series(a)), (-1.0, inference.of_series(b))])
        held += abs(math.fsum(a) - math.fsum(b)) / 5 <= inference.half_width(0.99, both)
    assert held >= 0.98 * 2000


def iperf3(
    seed: int, mbit: float, *, cc: str = "cubic", streams: int = 1, reverse: bool = False
) -> str:
    """The output of `iperf3 -J` in 10 s."""
    draw = random.Random(seed)
    rates = [
        [mbit / streams * (1 + 0.04 * v) for v in series(draw, 10, 0.5)] for _ in range(streams)
    ]
    intervals, ends = [], [0.0]
    for i in range(10):
        ends.append(i + 1 + draw.uniform(-2e-4, 2e-4))
        rows = [
            {
                "socket": 5 + n,
                "start": ends[-2],
                "end": ends[-1],
                "sender": not reverse,
                "omitted": False,
            }
            | {"bytes": round(rates[n][i] * 125e3 * (ends[-1] - ends[-2]))}
            for n in range(streams)
        ]
        intervals.append({"streams": rows})
    totals = [
        {"socket": 5 + n, "bits_per_second": math.fsum(rates[n]) * 1e5, "start": 0, "end": 10}
        for n in range(streams)
    ]
    start = {
        "connecting_to": {"host": "192.0.2.1"},
        "test_start": {"protocol": "TCP", "reverse": int(reverse)},
    }
    end = {
        "streams": [{"sender": one, "receiver": one} for one in totals],
        "sender_tcp_congestion": cc,
    }
    return json.dumps({"start": start, "intervals": intervals, "end": end})


def iperf2(seed: int, mbit: float, every: int, *, digits: int = 1) -> str:
    """The output of `iperf -i EVERY` in 10 s, with a short last interval and the report of the
    whole stream.
    """
    draw = random.Random(seed)
    rows = [
        (i * every, (i + 1) * every, mbit * (1 + 0.02 * v))
        for i, v in enumerate(series(draw, 10 // every, 0.3))
    ]
    rows += [(10, 10.04, mbit), (0, 10.04, math.fsum((e - b) * r for b, e, r in rows) / 10)]
    return "Client connecting to 192.0.2.1, TCP port 5001\n" + "".join(
        f"[  3] {b:.{digits}f}-{e:.{digits}f} sec  {(e - b) * r * 125e3 / 2**20:.3g} MBytes  "
        f"{r:.3g} Mbits/sec\n"
        for b, e, r in rows
    )


def read(text: str) -> Measurement:
    return files.of_text(text.encode(), "file")


def test_iperf3s_ten_seconds_are_enough_for_a_verdict() -> None:
    (found,) = measurements.differences(read(iperf3(1, 20)), read(iperf3(2, 30)))
    assert (found.figure.key, found.verdict) == ("up_mbit", "better")
    assert found.before == pytest.approx(20, rel=0.05)
    assert found.after == pytest.approx(30, rel=0.05)


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("digits", [1, 4])
def test_iperf2s_intervals_of_a_second_or_two_are_enough_for_a_verdict(
    every: int, digits: int
) -> None:
    (found,) = measurements.differences(
        *(read(iperf2(seed, mbit, every, digits=digits)) for seed, mbit in ((1, 9.96), (2, 14)))
    )
    assert (found.figure.key, found.verdict) == ("up_mbit", "better")
    assert found.before == pytest.approx(9.96, rel=0.02)
    assert found.after == pytest.approx(14, rel=0.02)


def test_total_reports_of_iperf2_are_not_counted_as_intervals() -> None:
    # One interval as long as the test, and over UDP the report of the server.
    text = (
        "[  3]  0.0-10.0 sec  11.9 MBytes  9.96 Mbits/sec\n[  3]  0.0-10.1 sec  11.9 MBytes  "
        "9.90 Mbits/sec\n"
    )
    (flow,) = read(text).flows
    assert (flow.goodput_mbit, flow.to_s, len(flow.columns["t_s"])) == (9.9, 10.0, 2)
    server = "[  3]  0.0-10.0 sec  1.25 MBytes  1.05 Mbits/sec   0.045 ms    9/  900 (1%)\n"
    (flow,) = read(f"UDP port 5001\n{text}{server}").flows
    assert (flow.goodput_mbit, flow.figure("lost_share"), flow.figure("jitter_ms")) == (
        1.05,
        0.01,
        0.045,
    )
    (flow,) = read("[SUM]  0.0- 1.0 sec  1.25 MBytes  10.5 Mbits/sec\n").flows
    assert flow.goodput_mbit == pytest.approx(10.5)
    # Bits have a K of 1000, bytes one of 1024.
    (flow,) = read("[  3]  0.0- 1.0 sec  1.25 MBytes  1.25 MBytes/sec\n").flows
    assert flow.goodput_mbit == pytest.approx(8 * 1.25 * 1.048576, rel=1e-5)


def test_intervals_omitted_by_iperf3_are_excluded() -> None:
    tree = json.loads(iperf3(1, 20))
    omitted = [json.loads(json.dumps(one)) for one in tree["intervals"][:2]]
    for one in omitted:
        one["streams"][0] |= {"omitted": True, "bytes": 10**9}
    tree["intervals"] = omitted + tree["intervals"]
    whole, plain = read(json.dumps(tree)), read(iperf3(1, 20))
    assert whole.flows[0].acked() == plain.flows[0].acked()


def test_udp_at_another_bitrate_causes_a_warning_and_no_verdict() -> None:
    def udp(bitrate: float, lost_percent: float) -> str:
        tree = json.loads(iperf3(1, 20))
        tree["start"]["test_start"] |= {"protocol": "UDP", "target_bitrate": bitrate}
        for interval in tree["intervals"]:
            interval["streams"][0]["bytes"] = bitrate / 8
        sent = {
            "socket": 5,
            "seconds": 10.0,
            "bytes": bitrate / 8 * 10,
            "lost_percent": lost_percent,
        }
        tree["end"] = {"streams": [{"udp": sent}]}
        return json.dumps(tree)

    before, after = read(udp(10e6, 0)), read(udp(30e6, 22))
    found, loss = measurements.differences(before, after)
    assert (found.before, found.after) == (pytest.approx(10), pytest.approx(23.4))
    assert (loss.figure.key, loss.before, loss.after) == ("udp_loss_percent", 0, 22)
    assert (found.verdict, found.why) == (
        "cannot tell",
        "the sender of the UDP load knows only the total of the received data",
    )
    assert "pacing (10 Mbit/s, 30 Mbit/s)" in comparison.warnings(before, after, ("a", "b"))[0]


def flooded(seed: int, asked_mbit: float, queue_ms: float) -> Measurement:
    """A measurement of `--test udp_flood`: pings, and the totals of the datagrams."""
    draw = random.Random(seed)
    pings = [[t / 50, 20 + draw.random() + (queue_ms if t >= 150 else 0)] for t in range(650)]
    phases = [("idle", 0.0, 3.0), ("loaded", 3.0, 13.0)]
    load = {"direction": "up", "asked_mbit": asked_mbit, "sent": 1000, "received": 600, "loss": 0.4}
    return Measurement.of(
        {
            "measurement": 1,
            "asked": {"test": "udp_flood"},
            "phases": [{"name": n, "from_s": begin, "to_s": end} for n, begin, end in phases],
            "pings": [{"columns": ["t_s", "rtt_ms"], "samples": pings}],
            "udp_load": load,
        }
    )


def test_the_rtt_and_the_loss_of_a_udp_load_are_compared() -> None:
    a = flooded(1, 10, 30)
    same, longer = (measurements.differences(a, flooded(2, 10, ms)) for ms in (30, 60))
    assert {d.figure.key: d.verdict for d in same} == {
        "idle_ms": "no difference seen",
        "udp_rtt_ms": "no difference seen",
        "udp_rtt_p95_ms": "no difference seen",
        "udp_loss_percent": "cannot tell",
    }
    assert {d.figure.key: d.verdict for d in longer if d.figure.key.startswith("udp_rtt")} == {
        "udp_rtt_ms": "worse",
        "udp_rtt_p95_ms": "worse",
    }
    said = comparison.sentences(same, "a", "b")[-1]
    assert said.startswith("Lost datagrams: cannot tell; 40.0 % in a, 40.0 % in b; ")
    other = comparison.warnings(a, flooded(2, 20, 30), ("a", "b"))[0]
    assert "UDP load (10 Mbit/s of upload, 20 Mbit/s of upload)" in other


def test_load_times_of_a_page_are_shown_side_by_side() -> None:
    def paged(ms: float) -> Measurement:
        page = {"idle_s": {"n": 6, "p50": ms / 1000}, "loaded_s": {"n": 2, "p50": 3 * ms / 1000}}
        return Measurement.of({"measurement": 1, "page": page})

    found = measurements.differences(paged(900), paged(1200))
    assert [(d.figure.key, d.before, d.after, d.verdict) for d in found] == [
        ("page_ms", 900, 1200, "cannot tell"),
        ("page_loaded_ms", 2700, 3600, "cannot tell"),
    ]


def test_bytes_are_interpolated_at_the_edges_of_stretches() -> None:
    acked = [(0.0, 0.0), (2.0, 2_000_000.0), (4.0, 3_000_000.0)]
    assert measurements._bytes(acked, 1.5) == 1_500_000
    assert measurements._bytes(acked, 3.0) == 2_500_000
    assert (measurements._bytes(acked, -1.0), measurements._bytes(acked, 9.0)) == (0, 3_000_000)
    assert measurements._rates([acked], (1.0, 4.0)) == [pytest.approx(8.0), pytest.approx(4.0)]


def test_unchanged_paths_have_no_false_verdicts() -> None:
    false = 0
    for pair in range(200):
        a, b = (read(iperf3(2 * pair + n, 20)) for n in (1, 2))
        c, d = (read(iperf2(2 * pair + n, 20, 2)) for n in (1, 2))
        false += len(
            [
                v
                for v in (*verdicts(a, b).values(), *verdicts(c, d).values())
                if v != "no difference seen"
            ]
        )
    assert false <= 0.01 * 400


def test_a_change_of_a_tenth_over_half_a_minute_is_found() -> None:
    path = nw.Path(rate="20Mbit", rtt="30ms", buffer="1bdp")
    plan = Plan(streams=2, load_s=30.0, directions=("down",))
    a = simulate(path, plan, seed=1)
    assert verdicts(a, simulate(path, plan, seed=2))["down_mbit"] == "no difference seen"
    slower = nw.Path(rate="18Mbit", rtt="30ms", buffer="1bdp")
    assert verdicts(a, simulate(slower, plan, seed=2))["down_mbit"] == "worse"


def test_three_short_loads_are_enough_for_a_large_change() -> None:
    path = nw.Path(rate="20Mbit", rtt="40ms", buffer="1bdp", loss="1%")
    both = []
    for cc in ("cubic", "bbr"):
        plan = Plan(cc=cc, streams=1, load_s=3.0, directions=("down",))
        both.append(
            run.joined([simulate(path, plan, seed=seed) for seed in (1, 2, 3)], "tcp_ndown")
        )
    assert both[0].rate_mbit("down") < 10 < both[1].rate_mbit("down")  # type: ignore[operator]
    assert verdicts(*both)["down_mbit"] == "better"


def test_tests_that_differ_are_named_and_other_loads_are_not_judged(before: Measurement) -> None:
    path = nw.Path(
        rate="20Mbit", rtt="30ms", buffer="200kB", reverse=nw.Hop(rate="5Mbit", buffer="50kB")
    )
    other = simulate(path, Plan(cc="bbr", streams=1, load_s=12.0), seed=1)
    other.json["asked"] |= {"test": "rrul", "dscp": "EF"}
    other.json["peer"] = {"address": "2001:db8::1", "speaks": "simulator"}
    before = Measurement.of(before.json | {"peer": {"address": "192.0.2.1", "speaks": "simulator"}})
    found = {
        m.what: (m.before, m.after, m.direction) for m in measurements.mismatches(before, other)
    }
    assert found == {
        "test": ("simulated", "rrul", None),
        "address family": ("IPv4", "IPv6", None),
        "download": ("4 TCP flows", "1 TCP flow", "down"),
        "upload": ("4 TCP flows", "1 TCP flow", "up"),
        "duration of the download": ("6.0 s", "12.0 s", None),
        "duration of the upload": ("6.0 s", "12.0 s", None),
        "congestion control of the download": ("cubic", "bbr", None),
        "congestion control of the upload": ("cubic", "bbr", None),
    }
    told = verdicts(before, other)
    assert told.pop("idle_ms") == "no difference seen"
    assert set(told.values()) == {"cannot tell"}
    (warned,) = comparison.warnings(before, other, ("a.json", "b.json"))
    assert warned.startswith(
        "a.json and b.json are different tests: test (simulated, rrul), address family (IPv4, "
        "IPv6), download"
    )
    assert comparison.warnings(before, seen(2), ("a", "b")) == []


def test_a_bidirectional_load_is_compared_once_although_its_flows_start_microseconds_apart() -> (
    None
):
    path = nw.Path(
        rate="20Mbit", rtt="30ms", buffer="100kB", reverse=nw.Hop(rate="5Mbit", buffer="50kB")
    )
    both = simulate(path, Plan(streams=2, load_s=8.0, at_once=True))
    apart = json.loads(both.text())
    for flow in apart["flows"]:
        flow["from_s"] += 3e-6 if flow["direction"] == "up" else 0.0
        flow["to_s"] += 7e-6 if flow["direction"] == "up" else 0.0
    live = Measurement.of(apart)
    assert live.loaded("up") != live.loaded("down")
    for one in (both, live):
        assert set(verdicts(one, one)) == {
            "down_mbit",
            "up_mbit",
            "idle_ms",
            "loaded_down_ms",
            "loaded_down_p95_ms",
        }
    # The value is that of all pings under that load, as every command shows it.
    (found,) = (d for d in measurements.differences(live, live) if d.figure.key == "loaded_down_ms")
    assert found.before == live.latency("loaded").mean


def test_another_direction_is_named() -> None:
    up, down = read(iperf3(1, 20)), read(iperf3(2, 20, reverse=True))
    (warned,) = comparison.warnings(up, down, ("a", "b"))
    assert "test (tcp_up, tcp_down)" in warned
    assert "download (none, 1 TCP flow)" in warned
    assert comparison.sentences(measurements.differences(up, down), "a", "b") == [
        "The measurements have no metric in common."
    ]


def test_every_command_shows_the_same_percentile(before: Measurement) -> None:
    measured = run.summarized(Measurement.of(json.loads(before.text())))
    said = summary.answer(measured)
    (figure,) = (
        d
        for d in measurements.differences(measured, measured)
        if d.figure.key == "loaded_down_p95_ms"
    )
    assert figure.before == said.loaded["down"].p95
    assert forecasts.seen(measured, "down")["loaded_p95_ms"] == figure.before
    one = Measurement.of(
        measured.json | {"flows": [f for f in measured.json["flows"] if f["direction"] == "down"]}
    )
    told = run.summarized(one).json["latency_ms"]["loaded"]["p95"]
    assert told == pytest.approx(figure.before, rel=1e-5)
    shown = {row[0].text: row[4].text for row in telling.latencies(measured).rows}
    assert float(shown["download"]) == pytest.approx(figure.before, abs=0.06)


def test_files_are_compared_and_converted_by_the_command(
    before: Measurement, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text(before.text())
    runner = CliRunner()
    made = runner.invoke(
        cli.main, ["convert", str(tmp_path / "a.json"), str(tmp_path / "b.flent.gz")]
    )
    assert made.exit_code == 0, made.output
    both = [str(tmp_path / name) for name in ("a.json", "b.flent.gz")]
    page = tmp_path / "c.html"
    done = runner.invoke(
        cli.main,
        ["compare", *both, "--json", "--report", str(page), "--plot", str(tmp_path / "c.svg")],
    )
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)["after"]["b.flent.gz"]
    assert {figure["verdict"] for figure in told.values()} == {"no difference seen"}
    assert "no difference seen" in page.read_text(encoding="utf-8")
    assert (tmp_path / "c.svg").stat().st_size > 10_000
    words = runner.invoke(cli.main, ["compare", *both])
    assert "Download goodput: no relevant difference" in words.output
    assert runner.invoke(cli.main, ["compare", both[0]]).exit_code == 2


def instead(monkeypatch: pytest.MonkeyPatch, *measured: Measurement) -> list[list[str]]:
    """Instead of the program that measures."""
    asked: list[list[str]] = []
    left = list(measured)

    def live(arguments: list[str], progress: object, _interval: object) -> tuple[str, str]:
        assert callable(progress)
        progress(1.0, 2.0)
        asked.append(list(arguments))
        return left.pop(0).text(), ""

    monkeypatch.setattr("narrows.host.live.measure", live)
    return asked


def test_measurements_of_both_directions_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    path = nw.Path(
        rate="20Mbit", rtt="30ms", buffer="100kB", reverse=nw.Hop(rate="5Mbit", buffer="50kB")
    )
    down = simulate(path, Plan(streams=2, load_s=3.0, directions=("down",)))
    up = simulate(path, Plan(streams=2, load_s=3.0, directions=("up",)))
    asked = instead(monkeypatch, down, up)
    told: list[float] = []
    whole, _ = run.measure(
        "h", ["--duration", "3s"], progress=lambda now, end: told.append(now / end)
    )
    more = ["--duration", "3s", "--cc", "cubic"]
    assert asked == [
        ["h", "--test", "tcp_ndown", *more, "--parts", "2"],
        ["h", "--test", "tcp_nup", *more],
    ]
    assert told == [0.25, 0.75]
    assert [p.name for p in whole.phases] == ["idle", "loaded", "recovery"] * 2
    assert whole.rate_mbit("up") == pytest.approx(up.rate_mbit("up"))
    (begin, _end) = whole.loaded("up")[0]
    assert begin == pytest.approx(8 + 3)
    assert whole.latency("idle").n == down.latency("idle").n + up.latency("idle").n


def test_an_interrupted_measurement_raises_keyboard_interrupt(
    monkeypatch: pytest.MonkeyPatch, before: Measurement
) -> None:
    full, cut = (
        Measurement.of(before.json | {"data": {"stopped_by": why}}) for why in ("duration", "user")
    )
    asked = instead(monkeypatch, full, cut)
    with pytest.raises(KeyboardInterrupt) as stop:
        run.measure("h", progress=lambda _now, _end: None)
    assert isinstance(stop.value, run.Interrupted)
    # Both ways were begun, and what was seen of both is there.
    assert len(asked) == 2
    assert len(stop.value.measured.flows) == 2 * len(full.flows)
    assert stop.value.measured.interrupted
    # Stopped in the first, the second way is not begun.
    asked = instead(monkeypatch, cut, full)
    with pytest.raises(run.Interrupted):
        run.measure("h", progress=lambda _now, _end: None)
    assert len(asked) == 1


def test_both_directions_share_the_limit_of_data(
    monkeypatch: pytest.MonkeyPatch, before: Measurement
) -> None:
    told: list[list[str]] = []

    def live(arguments: list[str], *_: object) -> tuple[str, str]:
        told.append(list(arguments))
        data = {"planned_bytes": 2_500_000, "moved_bytes": 2_000_000, "stopped_by": "duration"}
        return Measurement.of(
            before.json | {"asked": {"max_data_bytes": 5_000_000}, "data": data}
        ).text(), ""

    monkeypatch.setattr("narrows.host.live.measure", live)
    whole, _ = run.measure("h", ["--max-data", "5MB"])
    # The first may move half of it, the second what is left.
    assert told[0][-2:] == ["--parts", "2"]
    assert told[1][-2:] == ["--max-data", "3000000B"]
    assert whole.json["data"]["moved_bytes"] <= whole.json["data"]["planned_bytes"] <= 5_000_000


def test_a_failure_in_the_second_direction_keeps_the_first(
    monkeypatch: pytest.MonkeyPatch, before: Measurement
) -> None:
    def live(arguments: list[str], *_: object) -> tuple[str, str]:
        if "tcp_nup" in arguments:
            raise EngineError("the server has gone")
        return before.text(), ""

    monkeypatch.setattr("narrows.host.live.measure", live)
    measured, said = run.measure("h")
    assert len(measured.flows) == len(before.flows)
    assert said == ["the test tcp_nup failed: the server has gone"]
    with pytest.raises(EngineError):
        run.measure("h", test="tcp_nup")


def test_the_command_prints_writes_and_plots_the_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: Measurement
) -> None:
    monkeypatch.setenv("NARROWS_HISTORY", str(tmp_path / "h.duckdb"))
    asked = instead(monkeypatch, before, before)
    files = [str(tmp_path / name) for name in ("a.json", "a.flent.gz", "a.hlog")]
    done = CliRunner().invoke(
        cli.main,
        ["measure", "server", "--test", "tcp_down", "--max-data", "1GB", "--report",
        str(tmp_path / "r.html"), "--plot",
         *(word for file in files for word in ("--out", file)), "--path", str(tmp_path / "p.toml")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert asked == [["server", "--test", "tcp_down", "--max-data", "1GB"]]
    assert "The goodput was 18." in done.output
    assert "bufferbloat grade C (60 to 200 ms)." in done.output
    assert (
        "Download queue: drop-tail buffer (no other family of queue disciplines fits)."
        in done.output
    )
    assert "Goodput (Mbit/s)" in done.output
    for file in files:
        assert Path(file).stat().st_size > 500
    assert "[path.reverse]" in (tmp_path / "p.toml").read_text()
    assert "DSLReports" in (tmp_path / "r.html").read_text(encoding="utf-8")
    plain = CliRunner().invoke(cli.main, ["measure", "server", "--test", "tcp_down", "--json"])
    assert json.loads(plain.output)["measurement"] == 1


def test_an_unknown_suffix_is_an_error_before_the_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = instead(monkeypatch)
    done = CliRunner().invoke(cli.main, ["measure", "server", "--out", "a.doc"])
    assert done.exit_code == 2
    assert ".flent.gz" in done.output
    assert asked == []


def test_a_path_that_cannot_be_inferred_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: Measurement
) -> None:
    def infer(*_: object, **__: object) -> None:
        raise NarrowsError("too little was sent")

    monkeypatch.setattr("narrows.measure.command.infer", infer)
    asked = instead(monkeypatch, before)
    words = [
        "measure",
        "server",
        "--test",
        "tcp_down",
        "--no-history",
        "--path",
        str(tmp_path / "p.toml"),
    ]
    done = CliRunner().invoke(cli.main, [*words, "--no-model"])
    assert (done.exit_code, asked) == (2, [])
    assert "--path: needs the path model; omit --no-model" in done.output
    done = CliRunner().invoke(cli.main, words)
    assert done.exit_code == 2
    assert "The goodput was 18." in done.output
    assert "p.toml: not written: too little was sent" in done.output


def test_scenarios_are_still_compared_as_scenarios(tiny: Path) -> None:
    assert not command.are_measurements([str(tiny)])
    assert CliRunner().invoke(cli.main, ["compare", str(tiny), "--json"]).exit_code == 2


@pytest.mark.skipif(not history.installed(), reason="DuckDB is not installed")
def test_the_history_stores_each_measurement_once_and_returns_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: Measurement
) -> None:
    monkeypatch.setenv("NARROWS_HISTORY", str(tmp_path / "deep/h.duckdb"))
    runner = CliRunner()
    none = runner.invoke(cli.main, ["history"])
    assert (none.exit_code, "no history exists yet" in none.output) == (2, True)
    for name, started in (("aa01", "2026-01-01T00:00:00Z"), ("ab02", "2026-01-02T00:00:00Z")):
        (tmp_path / f"{name}.json").write_text(
            json.dumps(before.json | {"id": name, "started": started})
        )
    for _ in range(2):
        files = (str(tmp_path / name) for name in ("aa01.json", "ab02.json"))
        done = runner.invoke(
            cli.main, ["history", *(word for file in files for word in ("--add", file))]
        )
        assert done.exit_code == 0, done.output
    rows = [
        json.loads(line)
        for line in runner.invoke(cli.main, ["history", "--json"]).output.splitlines()
    ]
    assert [row["id"] for row in rows] == ["ab02", "aa01"]
    assert rows[0]["down_mbit"] == pytest.approx(18.5, rel=0.05)
    assert "ab02" in runner.invoke(cli.main, ["history", "--last", "1"]).output
    assert history.get("aa").id == "aa01"
    both = runner.invoke(cli.main, ["history", "--get", "a", "--out", str(tmp_path / "x.json")])
    assert (both.exit_code, "several measurements" in both.output) == (2, True)
    told = runner.invoke(cli.main, ["compare", "aa01", "ab02"])
    assert "no difference seen" in told.output
    out = runner.invoke(cli.main, ["history", "--get", "aa01", "--out", str(tmp_path / "x.json")])
    assert out.exit_code == 0, out.output
    assert json.loads((tmp_path / "x.json").read_text())["id"] == "aa01"


def test_a_scenario_is_measured_in_the_simulator(tmp_path: Path) -> None:
    file = tmp_path / "path.toml"
    path = '[path]\nrate = "20Mbit"\nrtt = "30ms"\nbuffer = "100kB"\n'
    file.write_text(f'duration = "5s"\n\n{path}\n[[flow]]\ncc = "cubic"\n')
    runner = CliRunner()
    done = runner.invoke(cli.main, ["measure", str(file), "--streams", "4"])
    assert done.exit_code == 0, done.output
    assert "so the measuring hosts neither delayed nor lost pings" in done.output
    assert (
        "Download queue: drop-tail buffer (no other family of queue disciplines fits)."
        in done.output
    )
    again = runner.invoke(cli.main, ["measure", str(file), "--streams", "4"])
    assert again.output == done.output
    odd = runner.invoke(cli.main, ["measure", str(file), "--max-data", "1MB"])
    assert (odd.exit_code, "--max-data: not supported for a scenario file" in odd.output) == (
        2,
        True,
    )
