"""`--seeds`: replications of a scenario, their intervals, and the output of the commands."""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import narrows as nw
from narrows.cli import main
from narrows.compare.replications import differences
from narrows.errors import NarrowsError
from narrows.inference import of_mean
from narrows.render.replications import ended
from narrows.reproduce import running
from narrows.reproduce.checks import experiments
from narrows.reproduce.lab import Lab, goodput, mid
from narrows.runs.replications import replicate, whole_metrics, with_jitter
from narrows.study.paths import FAIRNESS
from narrows.study.study import run as run_study

PATH = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp")
TWO = nw.Scenario(PATH, flows=[nw.Flow("cubic"), nw.Flow("reno")], duration="8s", seed=3)
TOML = """
title = "Two flows"
duration = "8s"
[path]
rate = "10Mbit"
rtt = "20ms"
buffer = "1bdp"
[[flow]]
cc = "cubic"
[[flow]]
cc = "CC"
"""


def files(place: Path, *ccs: str) -> list[str]:
    """Scenario files that differ in the second flow."""
    found = []
    for cc in ccs:
        file = place / f"{cc}.toml"
        file.write_text(TOML.replace("CC", cc))
        found.append(str(file))
    return found


def test_means_and_intervals_are_those_of_the_runs() -> None:
    found = replicate(TWO, seeds=4)
    assert list(found.seeds) == [3, 4, 5, 6]
    single = [
        nw.run(nw.Scenario(PATH, flows=TWO.flows, duration="8s", seed=seed, start_jitter="1s"))
        for seed in found.seeds
    ]
    values = [one.flows[1]["goodput_mbit"] for one in single]
    one = found.flows()[1]["goodput_mbit"]
    assert one.mean == pytest.approx(fmean(values))
    assert one.high == pytest.approx(fmean(values) + 3.182446 * stdev(values) / 2)
    assert (one.sd, one.runs) == (pytest.approx(stdev(values)), 4)
    whole = found.whole()
    assert whole["goodput_mbit"].mean == pytest.approx(
        fmean(sum(flow["goodput_mbit"] for flow in one.flows) for one in single)
    )
    assert whole["jain"].high <= 1
    assert found.table().num_rows == 8
    rows = found.intervals().to_pylist()
    assert {row["flow"] for row in rows} == {None, "cubic0", "reno0"}


def test_a_scenario_keeps_its_own_start_jitter() -> None:
    wide, changed = with_jitter(TWO)
    assert (wide.start_jitter, changed) == ("1s", True)
    own = nw.Scenario(PATH, flows=TWO.flows, duration="8s", start_jitter="5ms")
    assert with_jitter(own) == (own, False)
    # Flows start before the warm-up ends, and before the run does.
    late = nw.Scenario(PATH, flows=[nw.Flow("reno", start="7s")], duration="8s")
    assert with_jitter(late)[0].start_jitter == "0.125s"
    short = nw.Scenario(PATH, flows=TWO.flows, duration="60s", warmup="2s")
    assert with_jitter(short)[0].start_jitter == "2s"


def test_a_metric_of_the_caller_has_an_interval() -> None:
    found = replicate(
        TWO, seeds=3, metric=lambda run: {"late": run.flows[1]["goodput_mbit"], "none": None}
    )
    assert found.whole()["late"] == found.flows()[1]["goodput_mbit"]
    assert "none" not in found.whole()
    assert found.rows()[0]["late"] == found.runs[0].flows[1]["goodput_mbit"]
    assert replicate(TWO, seeds=1, metric=lambda run: 4.0).whole()["metric"].mean == 4


def test_intervals_of_independent_values_cover_their_mean() -> None:
    draw = random.Random(1)
    inside = 0
    for _ in range(2000):
        one = of_mean([draw.gauss(5, 1) for _ in range(6)])
        inside += one.low <= 5 <= one.high  # type: ignore[operator]
    assert 0.935 < inside / 2000 < 0.965


def test_run_prints_means_and_writes_tables(tmp_path: Path) -> None:
    (file,) = files(tmp_path, "reno")
    printed = CliRunner().invoke(main, ["run", file, "--seeds", "3"])
    assert printed.exit_code == 0, printed.output
    assert "means over 3 runs (seeds 1 to 3)" in printed.output
    assert "Each flow starts up to 1s later than its `start`, at random" in printed.output
    told = CliRunner().invoke(main, ["run", file, "--seeds", "3", "--json"])
    document = json.loads(told.output)
    assert (document["seeds"], document["level"]) == (3, 0.95)
    assert document["scenario"]["start_jitter"] == "1s"
    out = tmp_path / "out"
    saved = CliRunner().invoke(main, ["run", file, "--seeds", "2", "--out", str(out), "--quiet"])
    assert saved.exit_code == 0, saved.output
    names = {"intervals.parquet", "metrics.parquet", "replications.json", "seed-1", "seed-2"}
    assert {entry.name for entry in out.iterdir()} == names
    assert pq.read_table(out / "seed-2" / "samples.parquet").num_rows > 0


@pytest.mark.parametrize("option", ["--record=a.pcapng", "--report=a.html", "--strict"])
def test_options_of_single_runs_are_refused(option: str, tmp_path: Path) -> None:
    (file,) = files(tmp_path, "reno")
    place = option.replace("=", f"={tmp_path}/")
    done = CliRunner().invoke(main, ["run", file, "--seeds", "3", place])
    assert done.exit_code == 2
    assert "is for a single run; omit --seeds" in done.output


def test_seeds_must_exist() -> None:
    with pytest.raises(NarrowsError, match="seeds = 0"):
        replicate(TWO, seeds=0)
    with pytest.raises(NarrowsError, match="from 0 to"):
        replicate(TWO, seed=2**64 - 1, seeds=2)


def test_scenarios_are_compared_by_pairs_of_runs(tmp_path: Path) -> None:
    same = replicate(TWO, seeds=4)
    assert all(one.p == 1 and not one.differs for one in differences(same, same))
    other = replicate(
        nw.Scenario(nw.Path(rate="20Mbit", rtt="20ms", buffer="1bdp"), flows=TWO.flows,
        duration="8s", seed=3),
        seeds=4,
    )  # fmt: skip
    found = {one.metric: one for one in differences(same, other)}
    assert found["goodput_mbit"].differs
    pairs = zip(same.runs, other.runs, strict=True)
    apart = [
        whole_metrics(b.rows())["goodput_mbit"] - whole_metrics(a.rows())["goodput_mbit"]
        for a, b in pairs
    ]
    assert found["goodput_mbit"].difference.mean == pytest.approx(fmean(apart))
    first, second = files(tmp_path, "reno", "bbr")
    told = CliRunner().invoke(main, ["compare", first, second, "--seeds", "3", "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.output)["after"]["bbr.toml"]["goodput_mbit"]["before"]["runs"] == 3
    printed = CliRunner().invoke(main, ["compare", first, second, "--seeds", "3"])
    assert "no difference seen" in printed.output or "differs" in printed.output
    alone = CliRunner().invoke(main, ["compare", first, "--seeds", "3"])
    assert (alone.exit_code, "a second scenario is missing" in alone.output) == (2, True)


def test_cells_of_a_study_have_intervals(tmp_path: Path) -> None:
    made: dict[str, Any] = {}

    def answer(rows: Any) -> Any:  # noqa: ANN401
        made.setdefault("seeds", []).append({row["seed"] for row in rows["buffer"]})
        return FAIRNESS.answer(rows)

    from dataclasses import replace  # noqa: PLC0415

    def parts(quick: bool) -> Any:  # noqa: ANN401
        found = FAIRNESS.parts(quick)
        return {
            name: replace(part, scenario=replace(part.scenario, duration="2s"))
            for name, part in found.items()
        }

    small = replace(FAIRNESS, answer=answer, parts=parts)
    found = run_study(small, quick=True, into=tmp_path, seeds=2)
    assert made["seeds"] == [{1, 2}, {1}, {2}]
    grid = found.json()["grids"][0]
    low, mean, high = grid["low"][0][0], grid["mean"][0][0], grid["high"][0][0]
    assert low <= mean <= high
    assert found.json()["seeds"] == 2


def test_a_reproduced_figure_has_an_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(lab: Lab) -> dict[str, float]:
        runs = lab.play({"": TWO}, seeds=3, quick_seeds=2)[""]
        made.append([one["seed"] for one in runs])
        return {id_: mid(runs, goodput()) for id_ in ids}

    made: list[list[int]] = []
    ids = [check.id for check in experiments()["queue-model"].checks]
    monkeypatch.setitem(running.ANSWERS, "queue-model", answer)
    found = running.reproduce("queue-model", quick=True, into=tmp_path, replications=3)
    assert made == [[1, 2], [1001, 1002], [2001, 2002]]
    assert (found.replications, found.runs) == (3, 6)
    one = found.json()["checks"][0]
    assert one["interval"][0] <= one["ours"] <= one["interval"][1]
    again = running.reproduce("queue-model", quick=True, into=tmp_path, replications=3)
    assert again.intervals == found.intervals
    assert len(made) == 3
    single = running.reproduce("queue-model", quick=True, into=tmp_path)
    assert single.intervals == {}
    assert "interval" not in single.json()["checks"][0]


CUT = nw.Scenario(
    nw.Path(rate="10Mbit", rtt="50ms", steps=[{"at": "4s", "loss": "100%"}]),
    host=nw.Host(retries2=2, rto_max="1s"),
    flows=[nw.Flow("cubic", id="cut"), nw.Flow("reno", id="whole", stop="2s")],
    duration="9s",
)


def test_the_summary_reports_connections_that_ended(tmp_path: Path) -> None:
    found = replicate(CUT, seeds=3)
    ends = sorted(run.flows[0]["timed_out_s"] for run in found.runs)
    unused, notice = found.notices()
    assert unused.startswith('rto_max = "1s" of [host] has no effect')
    assert notice == (
        f"flow cut: its sender ended the connection in 3 of 3 runs, at {ends[0]:.3f} to "
        f"{ends[-1]:.3f} s, because nothing was acknowledged for too long (ETIMEDOUT)."
    )
    cut, whole = found.flows()
    assert (cut["timed_out_s"].runs, "timed_out_s" in whole) == (3, False)
    assert cut["timed_out_s"].mean == pytest.approx(fmean(ends))
    assert found.json()["notices"] == found.notices()
    assert f"Note: {notice}" in found._repr_html_()
    assert replicate(TWO, seeds=1).json()["notices"] == []
    file, other = tmp_path / "a.toml", tmp_path / "b.toml"
    for each in (file, other):
        each.write_text(CUT.toml(), encoding="utf-8")
    printed = CliRunner().invoke(main, ["run", str(file), "--seeds", "3"])
    assert f"Note: {notice}\n" in printed.output
    printed = CliRunner().invoke(main, ["compare", str(file), str(other), "--seeds", "3"])
    assert f'"b.toml": note: {notice}\n' in printed.output or f"b.toml: note: {notice}\n" in (
        printed.output
    )


def test_a_connection_that_ended_in_some_runs_is_counted() -> None:
    whole: Any = {"id": "a"}
    parts = [[whole, {"id": "b", "timed_out_s": 9.0}], [whole, {"id": "b"}]]
    (one,) = ended(parts)
    assert one.startswith("flow b: its sender ended the connection in 1 of 2 runs, at 9.000 s, ")
    parts = [*parts, [{"id": "a", "timed_out_s": 8.0}, {"id": "b"}]]
    (two,) = ended(parts)
    assert two.startswith(
        "2 flows, a the first of them: their senders ended the connections in 2 of 3 runs, at "
        "8.000 to 9.000 s, "
    )
