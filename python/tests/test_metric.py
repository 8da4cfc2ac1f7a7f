"""Metrics of the caller and of transfers in sweeps; tables of transfers and of internal states."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from statistics import fmean

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import narrows as nw
from narrows.cli import main
from narrows.errors import NarrowsError
from narrows.runs.metric import Metric

PATH = nw.Path(rate="20Mbit", rtt="20ms", buffer="1bdp")
ONE = nw.Scenario(PATH, flows=[nw.Flow("cubic")], duration="2s")


def test_a_metric_of_each_run_is_a_column(tmp_path: Path) -> None:
    def late(run: nw.Run) -> dict[str, float | None]:
        return {"late": run.flows[0]["goodput_mbit"], "rows": run.samples.num_rows, "none": None}

    grid = nw.sweep(
        ONE, {"path.rate": ["5Mbit", "10Mbit"]}, seeds=2, into=tmp_path, metric=late,
        sample_interval="100ms",
    )  # fmt: skip
    table = grid.run(jobs=2)
    assert grid.failures == []
    assert table["late"].to_pylist() == table["goodput_mbit"].to_pylist()
    assert table["rows"].to_pylist() == [20.0] * 4
    assert table["none"].null_count == 4
    assert "metrics" not in table.column_names
    # Another metric is another result; without one, the rows have no such column.
    other = nw.sweep(ONE, {"path.rate": ["5Mbit"]}, into=tmp_path, metric=lambda run: 4.0).run()
    assert other["metric"].to_pylist() == [4.0]
    plain = nw.sweep(ONE, {"path.rate": ["5Mbit"]}, into=tmp_path).run()
    assert "late" not in plain.column_names
    assert plain.num_rows == 1


def test_a_metric_that_fails_is_a_failed_case(tmp_path: Path) -> None:
    def wrong(run: nw.Run) -> dict[str, float | None]:
        return {"late": "much"}  # type: ignore[dict-item]

    grid = nw.sweep(ONE, {"path.rate": ["5Mbit"]}, into=tmp_path, metric=wrong)
    assert grid.run().num_rows == 0
    assert "metric late: 'much' is no number" in grid.failures[0].reason


def test_the_digest_of_a_metric_follows_its_code() -> None:
    def of(factor: int) -> Metric:
        return Metric(lambda run: factor * len(run.flows))

    assert of(2).about() == of(2).about()
    assert of(2).about() != of(3).about()
    assert Metric(of(2).function, "1s").about() != of(2).about()
    with pytest.raises(NarrowsError, match="write a function"):
        Metric(print).about()


def test_transfers_have_a_table_and_slowdowns_in_every_row(tmp_path: Path) -> None:
    flows = [nw.Flow("cubic", size="500kB"), nw.Flow(workload="poisson"), nw.Flow("reno")]
    scenario = nw.Scenario(PATH, flows=flows, duration="6s")
    run = nw.run(scenario)
    rows = run.transfers.to_pylist()
    (sized,) = [row for row in rows if row["flow"] == "cubic0"]
    assert (sized["bytes"], sized["fct_s"]) == (500_000, pytest.approx(run.flows[0]["fct_s"]))
    known = [
        row["slowdown"] for row in rows if row["flow"] == "poisson0" and row["slowdown"] is not None
    ]
    found = nw.sweep(scenario, {"path.rtt": ["20ms"]}, into=tmp_path).run().to_pylist()
    assert found[1]["slowdown_mean"] == pytest.approx(fmean(known))
    assert found[1]["slowdown_p50"] in known
    assert found[0]["slowdown_mean"] == sized["slowdown"]
    assert found[2]["slowdown_mean"] is None
    assert found[1]["completed"] == len(known)
    assert run.rows()[1]["slowdown_p99"] == found[1]["slowdown_p99"]


def test_transfers_of_several_flows_have_percentiles_together(tmp_path: Path) -> None:
    flows = [nw.Flow("cubic", size=f"{size}kB", start=f"{at}ms") for at, size in enumerate(
        (100, 200, 300, 400, 2000))]  # fmt: skip
    scenario = nw.Scenario(PATH, flows=[*flows, nw.Flow("reno")], duration="8s")
    run = nw.run(scenario)
    done = [row for row in run.transfers.to_pylist() if row["fct_s"] is not None]
    assert len(done) == 5
    times = sorted(row["fct_s"] for row in done)
    slow = sorted(row["slowdown"] for row in done)
    found = nw.sweep(scenario, {"path.rtt": ["20ms"]}, into=tmp_path).run().to_pylist()
    for rows in (found, run.rows()):
        assert {row["transfers_fct_p50_s"] for row in rows} == {times[2]}
        assert {row["transfers_fct_p99_s"] for row in rows} == {times[4]}
        assert {row["transfers_slowdown_p50"] for row in rows} == {slow[2]}
        assert {row["transfers_slowdown_mean"] for row in rows} == {fmean(slow)}
    many = nw.replicate(scenario, seeds=2).whole()["transfers_fct_p99_s"]
    assert (many.runs, many.low is not None) == (2, True)
    assert nw.run(ONE).rows()[0]["transfers_fct_p50_s"] is None


def test_internal_states_have_a_table(tmp_path: Path) -> None:
    flows = [nw.Flow("bbr"), nw.Flow("cubic")]
    scenario = nw.Scenario(PATH, flows=flows, duration="3s")
    assert nw.run(scenario).states.num_rows == 0
    run = nw.run(scenario, states=True)
    state = run.state("bbr0")
    assert state["mode"].to_pylist()[0] == "startup"
    assert state["bw_packets_per_s"].to_pylist()[-1] == pytest.approx(1660, rel=0.2)
    assert 19 < state["min_rtt_ms"].to_pylist()[-1] < 30
    assert "epoch_start_s" in run.state("cubic0").column_names
    assert run.json["flows"] == nw.run(scenario).json["flows"]
    file = tmp_path / "a.toml"
    file.write_text(scenario.toml())
    done = CliRunner().invoke(main, ["run", str(file), "--out", str(tmp_path / "out"), "--quiet"])
    assert done.exit_code == 0, done.output
    saved = pq.read_table(tmp_path / "out/states.parquet")
    assert saved.num_rows == run.states.num_rows
    assert pq.read_table(tmp_path / "out/transfers.parquet").num_rows == 0


def test_samples_of_ten_microseconds() -> None:
    scenario = nw.Scenario(
        nw.Path(rate="10Gbit", rtt="100us", buffer="1bdp"), flows=[nw.Flow("dctcp")],
        duration="5ms", start_jitter="0s",
    )  # fmt: skip
    samples = nw.run(scenario, sample_interval="10us").samples
    times = samples["t_s"].to_pylist()
    assert times[-1] - times[0] > 0.004
    assert min(b - a for a, b in pairwise(times)) == pytest.approx(10e-6)


def test_a_connection_without_progress_ends() -> None:
    """Three timeouts and one more, of 0.2 s and doubled, last 3 s; the path is cut after 5 s."""
    cut = nw.Scenario(
        nw.Path(rate="10Mbit", rtt="50ms", steps=[{"at": "5s", "loss": "100%"}]),
        host=nw.Host(retries2=3),
        flows=[nw.Flow("cubic", id="cut"), nw.Flow("cubic", id="whole", start="14s")],
        duration="15s",
    )
    run = nw.run(cut)
    flow, other = run.json["flows"]
    assert 8 < flow["timed_out_s"] < 11
    assert flow["active_s"] == pytest.approx(flow["timed_out_s"] - 3, abs=0.01)
    assert "timed_out_s" not in other
    (notice,) = run.json["notices"]
    assert notice.startswith(f"flow cut: its sender ended the connection at {flow['timed_out_s']}")


def test_many_connections_without_progress_have_one_notice() -> None:
    cut = nw.Scenario(
        nw.Path(rate="10Mbit", rtt="50ms", steps=[{"at": "3s", "loss": "100%"}]),
        host=nw.Host(retries2=2),
        flows=[nw.Flow("cubic", id=f"flow{n}") for n in range(20)],
        duration="12s",
    )
    run = nw.run(cut)
    ends = sorted(flow["timed_out_s"] for flow in run.json["flows"])
    (notice,) = run.json["notices"]
    assert notice == (
        "20 flows, flow0 the first of them: their senders ended the connections at "
        f"{ends[0]:.3f} to {ends[-1]:.3f} s, because nothing was acknowledged for too long "
        "(ETIMEDOUT)."
    )
