"""The Python package as programs use it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import pickle
import subprocess
import sys
import threading
import time
from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import LONG, ROOT, TINY, scenario
from hypothesis import given, settings
from hypothesis import strategies as st

import narrows as nw
from narrows import _core
from narrows.render import words
from narrows.storage.provenance import evidence


def test_a_file_and_the_same_in_objects_give_the_same_bytes(tiny: Path) -> None:
    from_file, from_objects, loaded = nw.run(tiny), nw.run(scenario()), nw.run(nw.load(tiny))
    for other in (from_objects, loaded):
        assert other.samples.equals(from_file.samples)
        assert (
            other.json["provenance"]["scenario_sha256"]
            == from_file.json["provenance"]["scenario_sha256"]
        )
        for key in set(from_file.json) - {"provenance"}:
            assert other.json[key] == from_file.json[key]


def test_a_scenario_written_as_toml_is_read_unchanged(tmp_path: Path) -> None:
    full = scenario(
        flows=[
            nw.Flow(nw.cc.Cubic(hystart="off"), start="10ms", stop="1s", id="first"),
            nw.Flow("reno", size="100kB", rtt="7ms"),
        ],
        host=nw.Host(
            like="linux-4.15",
            iw=4,
            clock="ms",
            pacing="fq",
            gso="17p",
            rmem="128kB…6MB",
            wmem="16KiB…4MiB",
            notsent_lowat="64KiB",
            read_latency="5us",
        ),
        start_jitter="0s",
        warmup="500ms",
    )
    file = tmp_path / "full.toml"
    file.write_text(full.toml(), encoding="utf-8")
    assert nw.run(nw.load(file)).json["scenario"] == nw.run(full).json["scenario"]


def test_arrow_columns_have_names_with_units_and_no_gaps() -> None:
    run = nw.run(scenario())
    for table, names in (
        (
            run.samples,
            {"t_s", "flow", "cwnd_packets", "rtt_ms", "delivered_bytes", "pacing_mbit", "phase"},
        ),
        (run.queue_samples, {"t_s", "queue", "backlog_bytes", "backlog_packets", "drops"}),
        (run.pings, {"t_s", "probe", "rtt_ms"}),
    ):
        assert isinstance(table, pa.Table)
        assert table.num_rows > 10
        assert names <= set(table.column_names)
        table.validate(full=True)
    assert set(run.samples["flow"].to_pylist()) == {"cubic0", "cubic1"}


def test_tables_cross_without_a_copy() -> None:
    raw = _core.run_tree(scenario().tree())
    first, second = (pa.table(raw.table("samples"))["t_s"].chunk(0).buffers()[1] for _ in range(2))
    assert first.address == second.address


def test_sample_interval_changes_the_samples_and_not_the_run() -> None:
    coarse, fine = (nw.run(scenario(), sample_interval=interval) for interval in ("200ms", "50ms"))
    assert fine.queue_samples.num_rows > 3 * coarse.queue_samples.num_rows
    assert fine.json["flows"] == coarse.json["flows"]


def test_threads_do_not_change_the_run() -> None:
    path = nw.Path(rate="200Mbit", rtt="20ms", buffer="1bdp")
    many = nw.Scenario(path, flows=[nw.Flow("cubic", count=20)], duration="2s")
    one, two = (nw.run(many, threads=threads, states=True) for threads in (1, 2))
    for key in one.json.keys() - {"provenance"}:
        assert one.json[key] == two.json[key]
    assert one.samples.equals(two.samples)
    assert one.states.equals(two.states)
    assert [run.json["provenance"]["threads"] for run in (one, two)] == [1, 2]
    alone = nw.Scenario(path, flows=[nw.Flow("cubic")], duration="2s")
    assert nw.run(alone, threads=2).json["provenance"]["threads"] == 1
    assert "threads" not in nw.run(alone).json["provenance"]
    with pytest.raises(nw.EngineError, match="threads = 3 is not the integer 1 or 2"):
        nw.run(many, threads=3)
    with pytest.raises(nw.EngineError, match=r"`live` has no such option; write the engine `sim`"):
        nw.run(many, threads=2, engine="live")


def test_summary_has_a_row_per_flow() -> None:
    summary = nw.run(scenario()).summary()
    assert summary.num_rows == 2
    assert {"id", "cc", "goodput_mbit", "rtt_mean_ms", "rtt_p95_ms", "cwnd_mean_packets"} <= set(
        summary.column_names
    )


def test_summaries_of_different_runs_go_into_one_table() -> None:
    sizes = ("100kB", "1GB")  # the second does not finish
    summaries = [nw.run(scenario(flows=[nw.Flow("cubic", size=size)])).summary() for size in sizes]
    finished, unfinished = pa.concat_tables(summaries)["fct_s"].to_pylist()
    assert finished > 0
    assert unfinished is None


def test_save(tmp_path: Path) -> None:
    run = nw.run(scenario())
    run.save(tmp_path / "out")
    assert pq.read_table(tmp_path / "out/samples.parquet").equals(run.samples)
    assert json.loads((tmp_path / "out/run.json").read_text(encoding="utf-8")) == run.json
    assert nw.run(tmp_path / "out/scenario.toml").json["flows"] == run.json["flows"]


def test_everything_pickles() -> None:
    whole = scenario(flows=[nw.Flow(nw.cc.Cubic(hystart="off"))], host=nw.Host(iw=4))
    assert pickle.loads(pickle.dumps(whole)) == whole
    run = nw.run(whole)
    again = pickle.loads(pickle.dumps(run))
    assert again.json == run.json
    assert again.samples.equals(run.samples)
    assert pickle.loads(pickle.dumps(again)).pings.equals(run.pings)


def test_other_processes_run_scenarios_and_send_runs_and_errors_back() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        first, second = pool.map(nw.run, [scenario(), scenario(seed=8)])
        assert first.samples.equals(nw.run(scenario()).samples)
        assert not second.samples.equals(first.samples)
        with pytest.raises(nw.ScenarioError, match="cubik") as caught:
            pool.apply(nw.run, (scenario(flows=[nw.Flow("cubik")]),))
        assert caught.value.errors[0].key == "flow[0].cc"


def test_random_loss_per_packet_in_both_directions(tmp_path: Path) -> None:
    path = nw.Path(rate="10Mbit", rtt="20ms", loss={"probability": "1%", "per": "packet"})
    given = nw.Scenario(path, flows=[nw.Flow("reno")], duration="1s")
    file = tmp_path / "loss.toml"
    file.write_text(given.toml(), encoding="utf-8")
    assert nw.load(file).path.loss == {"probability": "1%", "per": "packet"}
    assert nw.run(nw.load(file)).samples.equals(nw.run(given).samples)


def test_every_scenario_error_has_key_value_line_and_fix(tmp_path: Path) -> None:
    path = nw.Path(rate="50", rtt="40ms", loss="200%")
    wrong = nw.Scenario(path, flows=[nw.Flow("cubic")], duration="30")
    with pytest.raises(nw.ScenarioError) as caught:
        nw.run(wrong)
    assert {e.key for e in caught.value.errors} == {"duration", "path.rate", "path.loss"}
    assert all(e.line is None and e.message in str(caught.value) for e in caught.value.errors)

    file = tmp_path / "wrong.toml"
    file.write_text(TINY.replace('"10Mbit"', '"10"'), encoding="utf-8")
    with pytest.raises(nw.ScenarioError) as caught:
        nw.load(file)
    (error,) = caught.value.errors
    assert (error.file, error.line, error.key, error.value) == (str(file), 6, "path.rate", '"10"')
    assert error.fix is not None
    assert "10Mbit" in error.fix


KEYS = (
    st.sampled_from(
        ["path", "flow", "probe", "host", "duration", "rate", "rtt", "queue", "cc", "kind", "size"]
    )
    | st.text()
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["1s", "1Mbit", "fifo"])
)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5)
)


@given(st.dictionaries(KEYS, TREES))
@settings(deadline=None, derandomize=True, database=None)
def test_any_tree_is_valid_or_a_scenario_error(tree: dict[str, object]) -> None:
    with contextlib.suppress(nw.ScenarioError):
        _core.scenario_to_toml(tree)


@pytest.mark.parametrize(
    "odd", [None, 1j, b"bytes", [[[]]], {"a": {}}, float("nan"), 2**200, "\ud800"]
)
def test_values_of_a_wrong_type_are_errors_and_not_a_crash(odd: object) -> None:
    with pytest.raises(nw.ScenarioError, match=r"path\.rate"):
        _core.run_tree(
            {"duration": "1s", "path": {"rate": odd, "rtt": "10ms"}, "flow": [{"cc": "cubic"}]}
        )


def test_a_recursive_table_is_an_error() -> None:
    tree: dict[str, object] = {}
    tree["path"] = tree
    with pytest.raises(nw.ScenarioError):
        _core.run_tree(tree)


def test_no_such_file_engine_or_table() -> None:
    with pytest.raises(nw.NarrowsError, match=r"absent\.toml: no such file"):
        nw.load("absent.toml")
    with pytest.raises(nw.EngineError, match="no engine `abacus`"):
        nw.run(scenario(), engine="abacus")  # type: ignore[arg-type]
    for seed in (-1, 2**64):
        with pytest.raises(nw.EngineError, match=f"seed = {seed} is not from 0"):
            nw.run(scenario(), seed=seed)
    with pytest.raises(nw.EngineError, match="too short for this run"):
        nw.run(scenario(duration="24h"), sample_interval="1ms")
    with pytest.raises(KeyError):
        _core.run_tree(scenario().tree()).table("nothing")


def test_the_progress_callback_gets_the_time_and_may_stop_a_run(tmp_path: Path) -> None:
    file = tmp_path / "long.toml"
    file.write_text(LONG, encoding="utf-8")
    told: list[float] = []

    def progress(now_s: float, end_s: float) -> None:
        assert end_s == 72_000
        told.append(now_s)
        if len(told) == 4:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        nw.run(file, progress=progress)
    assert told == sorted(told)


def test_ctrl_c_reaches_python(tmp_path: Path) -> None:
    file = tmp_path / "long.toml"
    file.write_text(LONG, encoding="utf-8")
    # A process of its own: a signal that comes late must not end the one that runs the tests.
    program = (
        "import signal, sys, threading\n"
        "import narrows as nw\n"
        "threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()\n"
        "try:\n"
        "    nw.run('long.toml')\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(7)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False, timeout=120)
    assert done.returncode == 7


def test_other_threads_work_while_rust_runs() -> None:
    counted = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal counted
        while not stop.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    begin = time.monotonic()
    nw.run(scenario(duration="600s"))
    took = time.monotonic() - begin
    stop.set()
    thread.join()
    assert counted > took / 0.001 / 20


def scenario_files() -> list[Path]:
    return sorted((ROOT / "scenarios").rglob("*.toml"))


def test_there_are_scenarios() -> None:
    assert scenario_files()


@pytest.mark.parametrize("file", scenario_files(), ids=lambda f: str(f.relative_to(ROOT)))
def test_every_scenario_loads_and_runs(file: Path) -> None:
    loaded, read = nw.run(nw.load(file)).json, nw.run(file).json
    assert loaded["provenance"]["scenario_sha256"] == read["provenance"]["scenario_sha256"]
    for key in ("flows", "queues", "probes", "path"):
        assert loaded[key] == read[key]


def test_the_objects_have_the_keys_of_the_core() -> None:
    objects = {"": nw.Scenario, "path": nw.Path, "host": nw.Host, "flow": nw.Flow, "probe": nw.Ping}
    names = {
        "flows": "flow",
        "probes": "probe",
        "links": "link",
        "hosts": "host",
        "switches": "switch",
        "from_": "from",
    }
    for section, cls in objects.items():
        keys = {
            k["name"]
            for k in json.loads(_core.list_json())["scenario"]
            if k["section"] == section and k["supported"]
        }
        assert {names.get(f.name, f.name) for f in fields(cls)} == keys - (
            {"kind"} if cls is nw.Ping else set()
        )


def test_evidence_has_the_nearest_reference_cases(tmp_path: Path) -> None:
    figures = nw.run(scenario()).json
    file = tmp_path / "evidence.json"
    assert evidence(figures, file) is None
    near = {
        "case": "near", "cc": ["cubic"], "queue": "fifo", "policer": None, "besides": [],
        "rate_mbit": 10, "rtt_ms": 40,
        "buffer_bdp": 1, "headroom": 1, "loss": 0,
    }  # fmt: skip
    cases = [
        near | {"case": "other", "cc": ["cubic", "reno"]},
        near | {"case": "far", "rate_mbit": 1000},
        near | {"case": "unbounded", "buffer_bdp": None},
        near,
    ]
    file.write_text(json.dumps({"cases": cases}), encoding="utf-8")
    told = evidence(figures, file)
    assert told is not None
    assert [(c["case"], c["distance"]) for c in told] == [("near", 0.693), ("far", 5.298)]
    far = nw.run(scenario(flows=[nw.Flow("cubic"), nw.Flow("cubic", rtt="60ms")])).json
    assert [c["distance"] for c in evidence(far, file) or []] == [0.693, 5.298]
    assert evidence(nw.run(scenario(host=nw.Host(like="linux-4.15"))).json, file) == []
    policed = nw.Path(
        rate="10Mbit", rtt="20ms", buffer="1bdp", policer={"rate": "5Mbit", "burst": "30kB"}
    )
    assert (
        evidence(nw.run(nw.Scenario(policed, flows=[nw.Flow("cubic")], duration="1s")).json, file)
        == []
    )


RATES = "t_s,rate_mbit\n0,8\n1,2\n2,4\n"
TRACED = (
    'duration = "4s"\n[path]\ntrace = "rates.csv"\nrtt = "20ms"\nbuffer = '
    '"60kB"\n[[flow]]\ncc = "cubic"\n'
)


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    """A scenario beside its trace, in a directory that is not the current one."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there/rates.csv").write_text(RATES, encoding="utf-8")
    file = tmp_path / "there/traced.toml"
    file.write_text(TRACED, encoding="utf-8")
    return file


def test_a_trace_is_found_beside_its_scenario(traced: Path) -> None:
    from_file, loaded = nw.run(traced), nw.load(traced)
    from_objects = nw.run(loaded)
    assert from_objects.flows == from_file.flows
    # The mean of the summary interval, from 0.8 to 4 s: 8, 2, 4 and 8, a second each.
    assert from_file.json["path"]["rate_mbit"] == pytest.approx(
        (0.2 * 8 + 2 + 4 + 8) / 3.2, rel=1e-5
    )
    assert from_file.json["path"]["varies"]
    provenance = from_file.json["provenance"]
    assert provenance["files_sha256"] == {"rates.csv": hashlib.sha256(RATES.encode()).hexdigest()}
    assert from_objects.json["provenance"]["scenario_sha256"] == provenance["scenario_sha256"]
    # What counts is in the file.
    (traced.parent / "rates.csv").write_text(RATES.replace("2,4", "2,5"), encoding="utf-8")
    assert nw.run(traced).json["provenance"]["scenario_sha256"] != provenance["scenario_sha256"]


def test_a_copy_of_a_loaded_scenario_finds_its_trace(traced: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.toml"
    copy.write_text(nw.load(traced).toml(), encoding="utf-8")
    assert nw.run(copy).flows == nw.run(traced).flows


def test_a_saved_run_with_a_trace_can_be_repeated(traced: Path, tmp_path: Path) -> None:
    for run in (
        nw.run(traced),
        nw.run(nw.load(traced)),
        pickle.loads(pickle.dumps(nw.run(traced))),
    ):
        run.save(tmp_path / "out")
        assert (tmp_path / "out/rates.csv").read_text(encoding="utf-8") == RATES
        assert 'trace = "rates.csv"' in (tmp_path / "out/scenario.toml").read_text(encoding="utf-8")
        assert nw.run(tmp_path / "out/scenario.toml").flows == run.flows


def test_a_page_of_a_traced_run_needs_no_file(traced: Path, tmp_path: Path) -> None:
    run = nw.run(traced)
    (traced.parent / "rates.csv").unlink()
    run.report(tmp_path / "page.html")
    with pytest.raises(
        nw.ScenarioError, match=r"rates\.csv.* does not exist \(as .*there/rates\.csv\)"
    ):
        nw.run(traced)


def test_hops_and_directions_as_objects() -> None:
    up = nw.Hop(rate="2Mbit", queue=nw.queue.Fifo(), buffer="30kB", jitter="1ms")
    hops = [
        nw.Hop(rate="50Mbit", rtt="2ms"),
        nw.Hop(rate="10Mbit", rtt="20ms", buffer="1bdp", loss="0.1%"),
    ]
    whole = nw.Scenario(
        nw.Path(hop=hops, reverse=up),
        flows=[nw.Flow("cubic", dscp="AF41"), nw.Flow("cubic", id="up", direction="up")],
        duration="3s",
    )
    run = nw.run(whole)
    assert [queue["name"] for queue in run.json["queues"]] == ["hop0", "hop1", "reverse"]
    assert run.json["queue"] == run.json["queues"][1]
    assert (run.json["path"]["rate_mbit"], run.json["path"]["reverse_mbit"]) == (10, 2)
    told = words.sentence(run.json)
    assert "1 cubic flow used" in told
    assert "of 10 Mbit/s down; 1 cubic flow used" in told
    assert "of 2 Mbit/s up; mean queueing delay" in told


def test_utilization_is_relative_to_the_rate_with_saved_tokens() -> None:
    path = nw.Path(rate="100Mbit", rtt="20ms", policer={"rate": "2Mbit", "burst": "62.5kB"})
    run = nw.run(nw.Scenario(path, flows=[nw.Flow("cubic")], duration="5s"))
    # The tokens saved before the summary interval of 4 s, 62.5 kB, may also be used in it.
    assert "of 2.125 Mbit/s (2 Mbit/s and saved tokens)" in words.sentence(run.json)
    shaped = nw.Path(
        rate="2Mbit", rtt="20ms", link={"kind": "shape_peak", "bc": "25kB", "be": "25kB"}
    )
    run = nw.run(nw.Scenario(shaped, flows=[nw.Flow("cubic")], duration="5s"))
    assert "of 4.1 Mbit/s (4 Mbit/s and saved tokens)" in words.sentence(run.json)


@pytest.mark.parametrize(
    ("whole", "summary", "said"),
    [
        (0, 0, "nothing retransmitted."),
        (3, 0, "nothing retransmitted after the warm-up."),
        (3, 1, "only handshakes retransmitted."),
    ],
)
def test_a_run_without_retransmitted_data_names_the_interval(
    whole: int, summary: int, said: str
) -> None:
    flow = nw.Flow("cubic", size="30kB")
    run = nw.run(nw.Scenario(nw.Path(rate="10Mbit", rtt="20ms"), flows=[flow], duration="3s")).json
    run["flows"][0] |= {
        "goodput_mbit": 1.0,
        "retransmits": whole,
        "summary_retransmits": summary,
        "retransmit_rate": 0.0,
        "summary_retransmit_rate": 0.0,
    }
    assert words.sentence(run).endswith(f"; {said}")


def test_flows_that_end_before_the_warm_up_are_named_and_short_times_have_digits(
    tmp_path: Path,
) -> None:
    file = tmp_path / "s.toml"
    short = "[[flow]]\ncc = 'dctcp'\ncount = 4\nsize = '30kB'\n"
    file.write_text(
        "duration = '7ms'\n[path]\nrate = '1Gbit'\nrtt = '100us'\nbuffer = "
        f"'100p'\n{short}[[flow]]\nworkload = 'rpc'\n"
    )
    seen = nw.run(file)
    assert "4 of 5 flows sent no data after the warm-up" in words.sentence(seen.json)
    assert words.seconds(seen.flows[0]["fct_s"]).startswith("0.00")
    assert len(words.seconds(seen.flows[0]["fct_s"])) == len("0.000942")


@pytest.mark.parametrize(
    "kind",
    ["[path]\nrate = '3Mbit'\nrtt = '1ms'\n", "[wifi]\n[[wifi.station]]\nname = 'a'\nmcs = 0\n"],
)
def test_a_summary_interval_of_a_few_packets_has_a_notice(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    for warmup, many in (("198ms", 1), ("0ms", 0)):
        file.write_text(f"duration = '200ms'\nwarmup = '{warmup}'\n{kind}[[flow]]\ncc = 'reno'\n")
        notices = nw.run(file).json.get("notices", [])
        assert [n for n in notices if "goodput may exceed the rate of the" in n] == notices
        assert len(notices) == many
