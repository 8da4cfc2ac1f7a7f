"""Sweeps: designs and the data set. After any interruption, stored rows are correct and the other
runs follow later.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from enum import Enum, IntEnum
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import narrows as nw
from narrows.errors import NarrowsError, OutputError, ScenarioError
from narrows.sweeps.design import Design
from narrows.sweeps.store import SCHEMA, Store
from narrows.sweeps.worker import Case, Outcomes, columns, work

PATH = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp")
SCENARIO = nw.Scenario(PATH, flows=[nw.Flow("bbr"), nw.Flow("cubic")], duration="2s")
OVER = {"path.rate": ["5Mbit", "10Mbit"], "flow[0].cc": ["bbr", "reno", "vegas"]}


class Counting:
    """Runs cases here, and counts them."""

    def __init__(self) -> None:
        """None so far."""
        self.ran: list[str] = []

    def outcomes(self, cases: Iterator[Case], count: int) -> Iterator[Outcomes]:
        """Each alone."""
        for case in cases:
            self.ran.append(case[0])
            yield work([case])
        assert len(self.ran) == count


# Designs


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_a_grid_has_each_combination_once(sizes: list[int]) -> None:
    axes = {f"host.k{i}": list(range(size)) for i, size in enumerate(sizes)}
    grid = Design("grid", axes)
    seen = {tuple(grid[i].items()) for i in range(len(grid))}
    product = 1
    for size in sizes:
        product *= size
    assert len(seen) == len(grid) == product


@settings(max_examples=25)
@given(st.integers(1, 200), st.integers(0, 9))
def test_a_latin_hypercube_visits_each_stratum_of_each_range_once(
    cases: int | None, seed: int
) -> None:
    axes = {"a.x": {"from": 0.0, "to": 1.0}, "a.y": {"from": 0.0, "to": 1.0}}
    design = Design("latin_hypercube", axes, cases=cases, seed=seed)
    for key in axes:
        # Six digits are kept: a value at the edge of its stratum may be rounded into the next.
        strata = sorted(design[i][key] * cases for i in range(cases))
        assert all(i - 1e-3 <= at <= i + 1 + 1e-3 for i, at in enumerate(strata))


@given(st.integers(0, 999))
def test_a_random_case_is_a_function_of_its_number(number: int) -> None:
    axes = {"path.rtt": {"from": "1ms", "to": "200ms", "scale": "log"}, "flow.cc": ["bbr", "cubic"]}
    one, other = (Design("random", axes, cases=1000, seed=3)[number] for _ in range(2))
    assert one == other
    assert 1 <= float(one["path.rtt"].removesuffix("ms")) <= 200


def test_a_logarithmic_range_in_a_grid() -> None:
    grid = Design("grid", {"path.rtt": {"from": "1ms", "to": "100ms", "scale": "log", "steps": 3}})
    assert [grid[i]["path.rtt"] for i in range(3)] == ["1ms", "10ms", "100ms"]


def test_an_array_is_a_list_of_values() -> None:
    grid = Design("grid", {"flow.count": np.array([1, 2])})
    assert [grid[i] for i in range(len(grid))] == [{"flow.count": 1}, {"flow.count": 2}]


@pytest.mark.parametrize(
    ("kind", "axes", "cases", "said"),
    [
        ("cube", {"a": [1]}, None, "there is no design `cube`"),
        ("grid", {"a": []}, None, "`a` needs a list of values"),
        ("grid", {"a": "bbr"}, None, "`a` needs a list of values"),
        ("grid", {"a": 5}, None, "`a` needs a list of values"),
        ("grid", {"a": {"from": 1, "to": 2}}, None, "needs steps"),
        ("random", {"a": {"from": 1, "to": 2, "steps": 3}}, 5, "only a grid has steps"),
        ("random", {"a": [1]}, None, "needs the number of its cases"),
        ("grid", {"a": [1]}, 5, "has as many cases as it has"),
        ("random", {"a": {"from": "1ms", "to": "1s"}}, 5, "use one unit"),
        ("random", {"a": {"from": "2ms", "to": "1ms"}}, 5, "from has to be less"),
        ("random", {"a": {"from": 0, "to": 1, "scale": "log"}}, 5, "begins above 0"),
        ("random", {"a": {"from": 0, "to": 1, "by": 2}}, 5, "has no `by`"),
        ("random", {"a": {"from": "fast", "to": 1}}, 5, "is not a limit of a range"),
        ("grid", {"a b": [1]}, None, "is no key of a scenario"),
    ],
)
def test_an_invalid_design_is_an_error(
    kind: str, axes: dict[str, Any], cases: int | None, said: str
) -> None:
    with pytest.raises(NarrowsError, match=said):
        Design(kind, axes, cases=cases)


# Keys


def test_an_invalid_value_is_an_error_before_the_first_run(tmp_path: Path) -> None:
    wrong = nw.sweep(SCENARIO, {"path.rate": ["5Mbit", "5 apples"]}, into=tmp_path)
    with pytest.raises(ScenarioError, match="5 apples"):
        wrong.run()
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("key", ["flow[7].cc", "probe[0].interval", "path[0].rate"])
def test_a_key_without_a_place_in_the_scenario_is_an_error(key: str, tmp_path: Path) -> None:
    with pytest.raises(NarrowsError, match="the scenario has"):
        nw.sweep(SCENARIO, {key: ["bbr"]}, into=tmp_path).run()


@pytest.mark.parametrize("seeds", [[], [-1], [1.5], ["1"], [2**63], [True]])
def test_an_invalid_seed_is_an_error(seeds: list[int]) -> None:
    with pytest.raises(NarrowsError, match="seed"):
        nw.sweep(SCENARIO, OVER, seeds=seeds)


def test_the_seed_is_no_key_to_vary() -> None:
    with pytest.raises(NarrowsError, match=r"seeds = \[1, 2, 3\]"):
        nw.sweep(SCENARIO, {"seed": [1, 2]})


# The data set


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """The rows of a sweep without interruption."""
    return nw.sweep(SCENARIO, OVER, seeds=4, into=tmp_path_factory.mktemp("whole")).run(jobs=2)


def test_a_row_per_case_seed_and_flow(whole: pa.Table) -> None:
    assert whole.num_rows == 6 * 4 * 2
    first = whole.slice(0, 1).to_pylist()[0]
    assert (first["case"], first["seed"], first["path.rate"], first["flow[0].cc"]) == (
        0,
        1,
        "5Mbit",
        "bbr",
    )
    assert first["rate_mbit"] == 5
    alone = nw.run(
        nw.Scenario(
            nw.Path(rate="5Mbit", rtt="20ms", buffer="1bdp"), flows=SCENARIO.flows, duration="2s"
        )
    )
    assert first["goodput_mbit"] == alone.flows[0]["goodput_mbit"]


def test_the_order_and_number_of_processes_change_nothing(whole: pa.Table, tmp_path: Path) -> None:
    for jobs in (1, 3):
        again = nw.sweep(SCENARIO, OVER, seeds=4, into=tmp_path / str(jobs)).run(jobs=jobs)
        assert again.equals(whole)


def test_stored_runs_are_not_repeated_and_are_shared_by_sweeps(
    whole: pa.Table, tmp_path: Path
) -> None:
    crew = Counting()
    smaller = {"path.rate": ["5Mbit"], "flow[0].cc": ["bbr", "reno"]}
    nw.sweep(SCENARIO, smaller, seeds=4, into=tmp_path).run(on=crew)
    assert len(crew.ran) == 8
    crew = Counting()
    assert nw.sweep(SCENARIO, OVER, seeds=4, into=tmp_path).run(on=crew).equals(whole)
    assert len(crew.ran) == 24 - 8
    crew = Counting()
    nw.sweep(SCENARIO, OVER, seeds=5, into=tmp_path).run(on=crew)
    assert len(crew.ran) == 6, "one more seed"


def test_a_changed_trace_repeats_its_runs(tmp_path: Path) -> None:
    trace = tmp_path / "rates.csv"
    scenario = nw.Scenario(
        nw.Path(trace=str(trace), rtt="20ms"), flows=[nw.Flow("cubic")], duration="1s"
    )
    ran = []
    for rates in ("0,5\n0.5,9", "0,5\n0.5,9", "0,5\n0.5,7"):
        trace.write_text(f"t_s,rate_mbit\n{rates}\n")
        crew = Counting()
        nw.sweep(scenario, {"flow.cc": ["cubic"]}, into=tmp_path / "results").run(on=crew)
        ran.append(len(crew.ran))
    assert ran == [1, 0, 1]


def test_many_parts_are_merged_without_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narrows.sweeps.store._MANY", 16)
    store = Store(tmp_path)
    for number in range(40):
        store.add([columns([{"key": f"{number:032}", "flow_number": 0, "flow": "f", "cc": "bbr"}])])
    assert len(list((tmp_path / "runs").iterdir())) < 20
    assert sorted(store.runs()["key"].to_pylist()) == [f"{n:032}" for n in range(40)]


def test_duplicate_rows_count_once(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    row = {"key": "k", "flow_number": 0, "flow": "f", "cc": "bbr"}
    store.add([columns([row, row | {"flow_number": 1}])])
    store.add([columns([row, row | {"flow_number": 1}, {"key": "other", "cc": "bbr"}])])
    assert store.runs().num_rows == 3
    assert sorted(store.keys().to_pylist()) == ["k", "other"]
    found = pa.concat_tables(pq.read_table(part) for part in (tmp_path / "runs").iterdir())
    assert sorted(found["key"].to_pylist()) == ["k", "k", "other"]


def test_equal_cases_are_run_once_and_each_has_its_rows(tmp_path: Path) -> None:
    crew = Counting()
    cases = [{"path.rate": rate} for rate in ("5Mbit", "10Mbit", "5Mbit", "10Mbit")]
    rows = nw.sweep(SCENARIO, cases, into=tmp_path).run(on=crew)
    assert len(crew.ran) == 2
    assert rows["case"].to_pylist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert rows["goodput_mbit"].to_pylist()[:2] == rows["goodput_mbit"].to_pylist()[4:6]


def test_one_reads_while_another_merges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("narrows.sweeps.store._MANY", 16)
    over = False

    def write() -> None:
        store = Store(tmp_path)
        for number in range(50):
            store.add([columns([{"key": f"{number:032}", "flow_number": 0, "cc": "bbr"}])])

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    seen = 0
    while not over:
        over = not any(writer.is_alive() for writer in writers)
        now = len(Store(tmp_path).keys())
        assert now >= seen
        seen = now
    assert seen == Store(tmp_path).runs().num_rows == 50


def only(parts: Path) -> Path:
    """The one file with the rows of a sweep, which a slow machine writes as several."""
    Store(parts.parent)._merge()
    [part] = parts.iterdir()
    return part


@pytest.mark.parametrize("held", [b"", b"PAR1 cut short"])
def test_an_unreadable_part_is_an_error_with_a_remedy(held: bytes, tmp_path: Path) -> None:
    sweep = nw.sweep(SCENARIO, {"path.rate": ["5Mbit"]}, into=tmp_path)
    rows = sweep.run()
    part = only(tmp_path / "runs")
    part.write_bytes(held)
    for read in (sweep.run, sweep.frame, lambda: sweep.medians(["goodput_mbit"])):
        with pytest.raises(OutputError, match=rf"{part.name}: cannot be read .*; take it away"):
            read()
    part.unlink()
    assert sweep.run().equals(rows)


def flipped(whole: bytes, chance: random.Random) -> bytes:
    """The same with one bit changed."""
    held = bytearray(whole)
    held[chance.randrange(len(held))] ^= 1 << chance.randrange(8)
    return bytes(held)


def test_a_part_with_one_changed_bit_is_an_error(tmp_path: Path) -> None:
    nw.sweep(SCENARIO, OVER, into=tmp_path).run()
    part = only(tmp_path / "runs")
    whole, chance = part.read_bytes(), random.Random(1)
    for _ in range(400):
        part.write_bytes(flipped(whole, chance))
        with pytest.raises(OutputError, match=rf"{part.name}: cannot be read .*; take it away"):
            Store(tmp_path).runs()
    part.write_bytes(whole)
    assert Store(tmp_path).runs().num_rows == 12


def test_cases_with_one_changed_bit_are_an_error_or_read_correctly(tmp_path: Path) -> None:
    sweep = nw.sweep(SCENARIO, OVER, into=tmp_path)
    rows = sweep.run()
    [file] = (tmp_path / "cases").iterdir()
    whole, chance, told = file.read_bytes(), random.Random(1), 0
    for _ in range(400):
        file.write_bytes(flipped(whole, chance))
        try:
            assert sweep.frame().equals(rows)
        except OutputError as error:
            told += f"{file.name}: cannot be read" in str(error)
    assert told > 200  # The others hit statistics, which nothing here reads.


def test_a_part_of_an_earlier_version_is_read_without_a_digest(tmp_path: Path) -> None:
    nw.sweep(SCENARIO, OVER, into=tmp_path).run()
    part = only(tmp_path / "runs")
    part.rename(part.with_name("part-0123456789abcdef0123456789abcdef.parquet"))
    assert Store(tmp_path).runs().num_rows == 12


def test_a_part_is_synced_before_it_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, rename = os.fsync, Path.replace

    def noted_sync(handle: int) -> None:
        done.append("directory" if Path(f"/proc/self/fd/{handle}").resolve().is_dir() else "file")
        sync(handle)

    def noted_rename(self: Path, target: Path) -> Path:
        done.append("name")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "replace", noted_rename)
    Store(tmp_path).add([columns([{"key": "k", "cc": "bbr"}])])
    assert done == ["file", "name", "directory"]


def test_a_sweep_that_was_never_run_has_no_table(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="was not run into"):
        nw.sweep(SCENARIO, {"path.rate": ["5Mbit"]}, into=tmp_path).frame()


# Several at once


def test_three_sweeps_at_once_run_each_case_once(whole: pa.Table, tmp_path: Path) -> None:
    begin = threading.Barrier(3)
    crews = [Together(begin) for _ in range(3)]
    sweeps = [nw.sweep(SCENARIO, OVER, seeds=4, into=tmp_path) for _ in crews]
    found: list[pa.Table] = []
    threads = [
        threading.Thread(target=lambda s=s, c=c: found.append(s.run(on=c)))
        for s, c in zip(sweeps, crews, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(len(crew.ran) for crew in crews) == 24
    assert len({key for crew in crews for key in crew.ran}) == 24
    assert len(found) == 3
    assert all(table.equals(whole) for table in found)
    assert not list((tmp_path / "claims").glob("*.keys"))


class Together(Counting):
    """Begins when all the others do, and so looked into an empty store."""

    def __init__(self, begin: threading.Barrier) -> None:
        """At this barrier."""
        super().__init__()
        self._begin = begin

    def outcomes(self, cases: Iterator[Case], count: int) -> Iterator[Outcomes]:
        """Each alone, and fewer than there were where another sweep has some."""
        if not self.ran:
            self._begin.wait()
        for case in cases:
            self.ran.append(case[0])
            yield work([case])


CLAIMING = """
import sys
from narrows.sweeps.store import Store
with Store(sys.argv[1]).claims() as claims:
    print(all(claims.take(key) for key in sys.argv[2:]), flush=True)
    sys.stdin.read()
"""


def test_claims_of_a_killed_sweep_are_run_by_another_sweep(whole: pa.Table, tmp_path: Path) -> None:
    """A sweep claims three cases and is killed when the other one, which was refused them, has run
    the rest.
    """
    sweep = nw.sweep(SCENARIO, OVER, seeds=4, into=tmp_path)
    keys = [key for case in range(6) for _, key in sweep._keys_of(case)]
    command = [sys.executable, "-c", CLAIMING, str(tmp_path), *keys[:3]]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as dying:
        assert dying.stdout is not None
        assert dying.stdout.readline() == "True\n"

        class Killing(Counting):
            """Runs cases here; when there are no more it kills the other sweep."""

            def outcomes(self, cases: Iterator[Case], count: int) -> Iterator[Outcomes]:
                """Each alone."""
                for case in cases:
                    self.ran.append(case[0])
                    yield work([case])
                dying.kill()
                dying.wait()

        crew = Killing()
        assert sweep.run(on=crew).equals(whole)
    assert crew.ran[-3:] == keys[:3]
    assert len(crew.ran) == 24


def test_medians_are_those_of_the_table(whole: pa.Table, tmp_path: Path) -> None:
    sweep = nw.sweep(SCENARIO, OVER, seeds=4, into=tmp_path)
    sweep.run()
    nw.sweep(SCENARIO, {"path.rate": ["2Mbit"]}, into=tmp_path).run()
    rows, found = sweep.medians(["goodput_mbit", "fct_s"])
    values = {
        cc: whole.filter(pc.equal(whole["cc"], cc))["goodput_mbit"].to_pylist() for cc in found
    }
    assert rows == whole.num_rows
    assert found == {
        cc: {"rows": len(of), "goodput_mbit": pytest.approx(median(of)), "fct_s": None}
        for cc, of in values.items()
    }


def test_duckdb_and_pandas_read_the_files_as_they_are(whole: pa.Table, tmp_path: Path) -> None:
    nw.sweep(SCENARIO, OVER, into=tmp_path).run()
    tables = [pq.read_table(part) for part in (tmp_path / "runs").iterdir()]
    assert sum(table.num_rows for table in tables) == 12
    assert {"key", "cc", "goodput_mbit"} <= set(tables[0].column_names)


def test_results_of_applications_are_columns(tmp_path: Path) -> None:
    path = nw.Path(
        rate="10Mbit", rtt="20ms", buffer="1bdp", reverse=nw.Hop(rate="10Mbit", buffer="1bdp")
    )
    kinds = ["web", "video", "voip", "rpc", "poisson", "torrent", "udp", "gcc"]
    flows = [nw.Flow(workload=kind, id=kind) for kind in kinds]
    scenario = nw.Scenario(path, flows=flows, duration="8s", warmup="1s")
    rows = {
        row["flow"]: row
        for row in nw.sweep(scenario, {"path.rtt": ["20ms"]}, into=tmp_path).run().to_pylist()
    }
    assert [rows[kind]["workload"] for kind in kinds] == kinds
    seen = {flow["id"]: flow["workload"] for flow in nw.run(scenario).flows}
    for which in ("mean", "p50", "p95", "p99"):
        assert rows["web"][f"page_load_{which}_s"] == seen["web"]["page_load_s"][which]
        assert rows["rpc"][f"response_{which}_ms"] == seen["rpc"]["response_ms"][which]
        assert rows["poisson"][f"completion_{which}_ms"] == seen["poisson"]["completion_ms"][which]
    assert (
        rows["poisson"]["completion_to_100kB_p99_ms"]
        == seen["poisson"]["by_size"]["to_100kB"]["completion_ms"]["p99"]
    )
    for name in ("stalls", "stalled_s", "startup_delay_s", "mean_bitrate_mbit"):
        assert rows["video"][name] == seen["video"][name]
    for name in ("frames", "frame_loss_share", "stalls", "mean_bitrate_mbit"):
        assert rows["gcc"][name] == seen["gcc"][name]
    assert rows["gcc"]["frame_delay_p95_ms"] == seen["gcc"]["frame_delay_ms"]["p95"]
    assert rows["gcc"]["udp_loss"] == seen["gcc"]["loss"]
    assert rows["torrent"]["up_mbit"] == seen["torrent"]["up_mbit"] > 0
    call = seen["voip"]["ways"].values()
    assert rows["voip"]["mos"] == seen["voip"]["mos"]
    assert rows["voip"]["udp_loss"] == max(way["loss"] for way in call)
    assert rows["voip"]["udp_delay_p95_ms"] == max(way["delay_ms"]["p95"] for way in call)
    assert rows["udp"]["udp_loss"] == seen["udp"]["loss"]
    assert rows["web"]["mos"] is None


# Failures


def test_a_case_that_cannot_be_run_is_listed_and_others_are_run(tmp_path: Path) -> None:
    over = {"warmup": ["1s", "5s"], "duration": ["2s", "10s"]}
    sweep = nw.sweep(SCENARIO, over, into=tmp_path)
    rows = sweep.run()
    assert sorted(set(rows["case"].to_pylist())) == [0, 1, 3]
    [failure] = sweep.failures
    assert failure.case == 2
    assert "warmup" in failure.reason
    assert "warmup" in failure.file.read_text()


def test_a_process_that_dies_is_replaced_and_loses_nothing(whole: pa.Table, tmp_path: Path) -> None:
    over, killed = False, 0

    def kill() -> None:
        nonlocal killed
        while not over and killed < 3:
            time.sleep(0.02)
            for child in _children(os.getpid()):
                with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                    if (
                        killed < 3
                        and b"narrows.sweeps" in Path(f"/proc/{child}/cmdline").read_bytes()
                    ):
                        os.kill(child, signal.SIGKILL)
                        killed += 1
                        time.sleep(0.3)

    killer = threading.Thread(target=kill)
    killer.start()
    sweep = nw.sweep(SCENARIO, OVER, seeds=4, into=tmp_path)
    rows = sweep.run(jobs=2)
    over = True
    killer.join()
    failed = {(failure.case, failure.seed) for failure in sweep.failures}
    kept = [
        (c, s) for c, s in zip(whole["case"].to_pylist(), whole["seed"].to_pylist(), strict=True)
    ]
    assert rows.num_rows == sum(pair not in failed for pair in kept)
    assert all("died" in failure.reason for failure in sweep.failures)


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def test_results_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"not a directory|file exists"):
        nw.sweep(SCENARIO, {"flow[0].cc": ["bbr"]}, into=tmp_path / "file").run()


# Interruption

PROGRAM = """
import sys, narrows as nw
path = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp")
scenario = nw.Scenario(path, flows=[nw.Flow("bbr"), nw.Flow("cubic")], duration="20s")
over = {"path.rate": ["5Mbit", "10Mbit", "15Mbit"], "flow[0].cc": ["bbr", "reno", "vegas", "cubic"]}
nw.sweep(scenario, over, seeds=12, into=sys.argv[1]).run(jobs=2)
"""


def test_killed_twenty_times_the_data_set_is_the_same_row_for_row(tmp_path: Path) -> None:
    chance = random.Random(5)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(tmp_path / "killed")]
    assert (
        subprocess.run([*command[:2], str(tmp_path / "alone")], check=False, timeout=300).returncode
        == 0
    )
    alone = _all_rows(tmp_path / "alone")
    assert len(alone) == 12 * 12 * 2
    kills, ended = 0, False
    while kills < 20 or not ended:
        if ended:
            shutil.rmtree(tmp_path / "killed")
        child = subprocess.Popen(command)
        try:
            ended = child.wait(chance.uniform(0.2, 1.2) if kills < 20 else 300) == 0
            assert ended
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            kills, ended = kills + 1, False
        if ended:
            assert _all_rows(tmp_path / "killed") == alone
    assert not (tmp_path / "killed" / "failures").exists()


def _all_rows(directory: Path) -> list[dict[str, Any]]:
    rows = Store(directory).runs().to_pylist()
    return sorted(rows, key=lambda row: (row["key"], row["flow_number"]))


def test_an_interrupted_sweep_keeps_finished_runs(tmp_path: Path) -> None:
    def enough(done: int, _failed: int, _planned: int) -> None:
        if done >= 3:
            raise KeyboardInterrupt

    sweep = nw.sweep(SCENARIO, OVER, seeds=4, into=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        sweep.run(jobs=1, progress=enough)
    assert len(Store(tmp_path).keys()) >= 3
    assert not [
        child
        for child in _children(os.getpid())
        if b"sweeps" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def test_rows_of_an_earlier_version_are_null_in_new_columns(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    (tmp_path / "runs").mkdir()
    old = pa.schema([field for field in SCHEMA if not field.name.startswith("udp_")])
    pq.write_table(
        pa.Table.from_pylist([{"key": "old"}], schema=old), tmp_path / "runs/part-0.parquet"
    )
    store.add([columns([{"key": "new", "udp_loss": 0.5}])])
    found = dict(
        zip(*(store.runs()[name].to_pylist() for name in ("key", "udp_loss")), strict=True)
    )
    assert found == {"old": None, "new": 0.5}


def test_cases_that_are_read_in_pieces_are_not_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    names = [f"{i:032d}" for i in range(10_000)]
    piece = pa.table({"case": range(10_000), "seed": [1] * 10_000, "key": names})
    with store.writing_cases("many", piece.schema) as writer:
        for _ in range(20):
            writer.write_table(piece)
    before = pa.total_allocated_bytes()
    pieces = store.cases_in_pieces(
        "many", piece.schema.names, 10_000, schema=piece.schema, rows=200_000
    )
    kept = [pa.total_allocated_bytes() - before for _ in pieces]
    assert len(kept) == 20
    assert max(kept) < 5 * piece.nbytes


def test_the_engine_has_a_value_for_each_column_that_is_stored(tmp_path: Path) -> None:
    """Rows from columns of the engine are the same as those from the JSON of runs."""
    (row, other) = nw.run(SCENARIO, seed=3).rows()
    assert row.keys() == set(SCHEMA.names) - {"metrics"}
    sweep = nw.sweep(SCENARIO, {"path.rtt": ["20ms"]}, seeds=[3], into=tmp_path)
    names = [name for name in SCHEMA.names if name not in {"key", "metrics"}]
    stored = sweep.run().select(names).to_pylist()
    assert stored == [{name: one[name] for name in names} for one in (row, other)]


class Initial(IntEnum):
    """Initial windows."""

    LARGE = 20


class Delay(str, Enum):
    """Round-trip times."""

    SHORT = "5ms"


def test_values_of_an_enumeration_count_as_plain_values(tmp_path: Path) -> None:
    """The processes of a sweep do not know the classes of the program that calls it."""
    axes = {"host.iw": [Initial.LARGE], "path.rtt": [Delay.SHORT]}
    sweep = nw.sweep(SCENARIO, axes, into=tmp_path)
    assert sweep.run().num_rows == 2
    assert sweep.failures == []


def test_a_finished_run_is_stored_while_the_next_one_lasts(tmp_path: Path) -> None:
    """A sweep that is killed has lost no finished run."""

    class Slow:
        """The second run lasts until the row of the first one is on the disk."""

        def outcomes(self, cases: Iterator[Case], count: int) -> Iterator[Outcomes]:
            first, *others = cases
            yield work([first])
            until = time.monotonic() + 30
            while not Store(tmp_path).runs().num_rows:
                assert time.monotonic() < until
                yield Outcomes()
                time.sleep(0.05)
            yield work(others)
            assert 1 + len(others) == count

    assert nw.sweep(SCENARIO, OVER, seeds=1, into=tmp_path).run(on=Slow()).num_rows
