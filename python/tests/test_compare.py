"""Before and after: a difference that is there is seen, one that is not is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import narrows as nw
from narrows import cli, compare, history, measure, measuring
from narrows.errors import EngineError, NarrowsError
from narrows.measurement import Measurement
from narrows.simulated import Plan
from narrows.simulated import measure as simulate


def seen(seed: int, **down: object) -> Measurement:
    hop = {"rate": "20Mbit", "buffer": "200kB"} | down
    path = nw.Path(rtt="30ms", reverse=nw.Hop(rate="5Mbit", buffer="50kB"), **hop)  # type: ignore[arg-type]
    return simulate(path, Plan(streams=4, load_s=6.0), seed=seed)


@pytest.fixture(scope="module")
def before() -> Measurement:
    return seen(1)


def verdicts(a: Measurement, b: Measurement) -> dict[str, str]:
    return {d.figure.key: d.verdict for d in compare.differences(a, b)}


def test_the_same_path_twice_shows_no_difference(before: Measurement) -> None:
    for seed in range(2, 6):
        assert set(verdicts(before, seen(seed)).values()) == {"no difference seen"}


def test_a_shorter_queue_is_seen_where_it_is_and_nowhere_else(before: Measurement) -> None:
    found = verdicts(before, seen(2, buffer=None, queue="fq_codel"))
    assert (found["loaded_down_ms"], found["loaded_down_p95_ms"]) == ("better", "better")
    assert {found[key] for key in ("up_mbit", "idle_ms", "loaded_up_ms")} == {"no difference seen"}


def test_a_slower_path_is_worse(before: Measurement) -> None:
    assert verdicts(before, seen(2, rate="16Mbit"))["down_mbit"] == "worse"


def test_two_values_are_too_few() -> None:
    pings = [{"columns": ["t_s", "rtt_ms"], "samples": [[t / 10, 5.0] for t in range(15)]}]
    short = Measurement.of({"measurement": 1, "pings": pings, "phases": [{"name": "idle", "from_s": 0, "to_s": 1.5}]})
    assert verdicts(short, short) == {"idle_ms": "cannot tell"}
    assert compare.sentences([], "a", "b") == ["They have nothing in common that could be compared."]


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    import random  # noqa: PLC0415

    draw = random.Random(4)
    held = 0
    for _ in range(150):
        a, b = ([draw.gauss(mean, 2) for _ in range(8)] for mean in (10, 11))
        low, high = compare.interval(a, b)
        held += low <= 1 <= high
    assert held >= 0.93 * 150


def test_files_are_compared_and_converted_by_the_command(before: Measurement, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(before.text())
    runner = CliRunner()
    made = runner.invoke(cli.main, ["convert", str(tmp_path / "a.json"), str(tmp_path / "b.flent.gz")])
    assert made.exit_code == 0, made.output
    both = [str(tmp_path / name) for name in ("a.json", "b.flent.gz")]
    page = tmp_path / "c.html"
    done = runner.invoke(
        cli.main, ["compare", *both, "--json", "--report", str(page), "--plot", str(tmp_path / "c.svg")]
    )
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)["after"]["b.flent.gz"]
    assert {figure["verdict"] for figure in told.values()} == {"no difference seen"}
    assert "no difference seen" in page.read_text(encoding="utf-8")
    assert (tmp_path / "c.svg").stat().st_size > 10_000
    words = runner.invoke(cli.main, ["compare", *both])
    assert "rate down: no difference seen" in words.output
    assert runner.invoke(cli.main, ["compare", both[0]]).exit_code == 2


def answers(monkeypatch: pytest.MonkeyPatch, *measured: Measurement) -> list[list[str]]:
    """Instead of the program that measures."""
    asked: list[list[str]] = []
    left = list(measured)

    def live(arguments: list[str], progress: object) -> tuple[str, str]:
        assert callable(progress)
        progress(1.0, 2.0)
        asked.append(list(arguments))
        return left.pop(0).text(), ""

    monkeypatch.setattr("narrows.live.measure", live)
    return asked


def test_both_ways_become_one_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    path = nw.Path(rate="20Mbit", rtt="30ms", buffer="100kB", reverse=nw.Hop(rate="5Mbit", buffer="50kB"))
    down, up = (simulate(path, Plan(streams=2, load_s=3.0, ways=(way,))) for way in ("down", "up"))  # type: ignore[arg-type]
    asked = answers(monkeypatch, down, up)
    told: list[float] = []
    whole, _ = measuring.measure("h", ["--duration", "3s"], progress=lambda now, end: told.append(now / end))
    more = ["--duration", "3s", "--cc", "cubic"]
    assert asked == [["h", "--test", "tcp_ndown", *more], ["h", "--test", "tcp_nup", *more]]
    assert told == [0.25, 0.75]
    assert [p.name for p in whole.phases] == ["idle", "loaded", "recovery"] * 2
    assert whole.rate_mbit("up") == pytest.approx(up.rate_mbit("up"))
    (begin, _end) = whole.loaded("up")[0]
    assert begin == pytest.approx(8 + 3)
    assert whole.latency("idle").n == down.latency("idle").n + up.latency("idle").n


def test_ctrl_c_is_ctrl_c_to_whoever_does_not_look(monkeypatch: pytest.MonkeyPatch, before: Measurement) -> None:
    full, cut = (Measurement.of(before.json | {"data": {"stopped_by": why}}) for why in ("duration", "user"))
    asked = answers(monkeypatch, full, cut)
    with pytest.raises(KeyboardInterrupt) as stop:
        measuring.measure("h", progress=lambda _now, _end: None)
    assert isinstance(stop.value, measuring.Interrupted)
    # Both ways were begun, and what was seen of both is there.
    assert len(asked) == 2
    assert len(stop.value.measured.flows) == 2 * len(full.flows)
    assert stop.value.measured.interrupted
    # Stopped in the first, the second way is not begun.
    asked = answers(monkeypatch, cut, full)
    with pytest.raises(measuring.Interrupted):
        measuring.measure("h", progress=lambda _now, _end: None)
    assert len(asked) == 1


def test_a_second_way_that_fails_does_not_take_the_first_with_it(
    monkeypatch: pytest.MonkeyPatch, before: Measurement
) -> None:
    def live(arguments: list[str], _progress: object) -> tuple[str, str]:
        if "tcp_nup" in arguments:
            raise EngineError("the far end has gone")
        return before.text(), ""

    monkeypatch.setattr("narrows.live.measure", live)
    measured, said = measuring.measure("h")
    assert len(measured.flows) == len(before.flows)
    assert said == ["tcp_nup was not measured: the far end has gone"]
    with pytest.raises(EngineError):
        measuring.measure("h", test="tcp_nup")


def test_the_command_says_writes_draws_and_keeps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: Measurement
) -> None:
    monkeypatch.setenv("NARROWS_HISTORY", str(tmp_path / "h.duckdb"))
    asked = answers(monkeypatch, before, before)
    files = [str(tmp_path / name) for name in ("a.json", "a.flent.gz", "a.hlog")]
    done = CliRunner().invoke(
        cli.main,
        ["measure", "server", "--test", "tcp_down", "--max-data", "1GB", "--report", str(tmp_path / "r.html"), "--plot",
         *(word for file in files for word in ("--out", file)), "--path", str(tmp_path / "p.toml")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert asked == [["server", "--test", "tcp_down", "--max-data", "1GB"]]
    assert "Payload passed at 18." in done.output
    assert "grade C (DSLReports' scale" in done.output
    assert "down: a buffer that drops what does not fit (sure)." in done.output
    assert "Throughput: goodput (Mbit/s)" in done.output
    for file in files:
        assert Path(file).stat().st_size > 500
    assert "[path.reverse]" in (tmp_path / "p.toml").read_text()
    assert "DSLReports" in (tmp_path / "r.html").read_text(encoding="utf-8")
    plain = CliRunner().invoke(cli.main, ["measure", "server", "--test", "tcp_down", "--json"])
    assert json.loads(plain.output)["measurement"] == 1


def test_a_wrong_name_is_told_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch)
    done = CliRunner().invoke(cli.main, ["measure", "server", "--out", "a.doc"])
    assert done.exit_code == 2
    assert ".flent.gz" in done.output
    assert asked == []


def test_a_path_that_is_not_written_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: Measurement
) -> None:
    def infer(*_: object, **__: object) -> None:
        raise NarrowsError("too little was sent")

    monkeypatch.setattr("narrows.twin.infer", infer)
    asked = answers(monkeypatch, before)
    words = ["measure", "server", "--test", "tcp_down", "--no-history", "--path", str(tmp_path / "p.toml")]
    done = CliRunner().invoke(cli.main, [*words, "--no-twin"])
    assert (done.exit_code, asked) == (2, [])
    assert "leave --no-twin out" in done.output
    done = CliRunner().invoke(cli.main, words)
    assert done.exit_code == 2
    assert "Payload passed at 18." in done.output
    assert "p.toml: not written: too little was sent" in done.output


def test_scenarios_are_still_compared_as_scenarios(tiny: Path) -> None:
    assert not measure.are_measurements([str(tiny)])
    assert CliRunner().invoke(cli.main, ["compare", str(tiny), "--json"]).exit_code == 2


@pytest.mark.skipif(not history.installed(), reason="DuckDB is not installed")
def test_the_history_keeps_each_once_and_gives_it_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: Measurement
) -> None:
    monkeypatch.setenv("NARROWS_HISTORY", str(tmp_path / "deep/h.duckdb"))
    runner = CliRunner()
    none = runner.invoke(cli.main, ["history"])
    assert (none.exit_code, "there is no history yet" in none.output) == (2, True)
    for name, started in (("aa01", "2026-01-01T00:00:00Z"), ("ab02", "2026-01-02T00:00:00Z")):
        (tmp_path / f"{name}.json").write_text(json.dumps(before.json | {"id": name, "started": started}))
    for _ in range(2):
        files = (str(tmp_path / name) for name in ("aa01.json", "ab02.json"))
        done = runner.invoke(cli.main, ["history", *(word for file in files for word in ("--add", file))])
        assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in runner.invoke(cli.main, ["history", "--json"]).output.splitlines()]
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
    assert "no packet went over a wire" in done.output
    assert "down: a buffer that drops what does not fit (sure)." in done.output
    again = runner.invoke(cli.main, ["measure", str(file), "--streams", "4"])
    assert again.output == done.output
    odd = runner.invoke(cli.main, ["measure", str(file), "--max-data", "1MB"])
    assert (odd.exit_code, "--max-data is for a host" in odd.output) == (2, True)
