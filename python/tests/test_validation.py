"""The arithmetic of the statistical tier: the comparison, the metrics of a run, and the
explanations of disagreements.
"""

from __future__ import annotations

import doctest
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib
from conftest import ROOT, interrupted, until
from pages import RENEW
from validation import __main__ as validation
from validation import (
    advise,
    cliff,
    digest,
    explained,
    linux,
    live_study,
    loss_by_engine,
    mutations,
    own_tcp,
    page_parts,
    papers,
    side_by_side,
    sources,
    spread,
    stored,
)
from validation import agreement as engines

from narrows import _core
from narrows.host import agreement as agree
from narrows.host.agree import number
from narrows.reference import agreement, record
from narrows.reproduce.checks import experiments, misses
from narrows.reproduce.published import Cell, Result, cells
from narrows.runs.engines import SIM

VECTORS = (Path(__file__).parent / "data/agreement.txt").read_text(encoding="utf-8")
CASES = {case.name: case for case in stored.cases()}


def test_an_invalid_range_of_seeds_is_an_argument_error() -> None:
    words = [sys.executable, "-m", "validation.path_models_live", "--seeds", "x"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("argument --seeds: x: a whole number, or two such as 9000-9039\n")


POOL = """
import time
from validation.asked import processes
with processes(2) as pool:
    waiting = [pool.submit(time.sleep, 60) for _ in range(20)]
    print("begun", flush=True)
    [one.result() for one in waiting]
"""


def test_ctrl_c_ends_all_processes_and_prints_one_line() -> None:
    assert interrupted(POOL, ROOT) == (-signal.SIGINT, "stopped\n")


def test_each_mutation_changes_one_place_of_the_source() -> None:
    """A rule whose text was renamed would otherwise be found by `make mutations` only."""
    listed = [mutation for of_model in mutations.listed("*").values() for mutation in of_model]
    assert [f"{m.model}: {m.rule}: {m.problem}" for m in listed if m.problem] == []


@pytest.mark.parametrize(
    ("part", "only", "text"),
    [
        ("mutations", "nagle", "error: no model is called nagle\n"),
        ("agreement", "nagle", "error: there is no row nagle; there are "),
        ("advise", "99999", "error: there is no path 99999; there are "),
    ],
)
def test_unknown_models_rows_and_paths_are_argument_errors(part: str, only: str, text: str) -> None:
    words = [sys.executable, "-m", f"validation.{part}", "--only", only]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def waits(pid: int) -> bool:
    """Does the process sleep?"""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    return stat.rpartition(")")[2].split()[0] == "S"


def test_ctrl_c_ends_the_tests_of_a_mutation(tmp_path: Path) -> None:
    # Builds at once, and then tests for ever.
    cargo = tmp_path / "cargo"
    cargo.write_text(
        '#!/bin/sh\ncase "$*" in *--no-run*) exit;; esac\necho $$ > pid\nexec sleep 60\n'
    )
    cargo.chmod(0o755)
    code = (
        "from pathlib import Path; from validation.mutations import tried; tried(Path.cwd(), "
        "Path.cwd())"
    )
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", code]
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as child:
        pid = tmp_path / "pid"
        # Its own child has begun, and it waits for that.
        until(lambda: pid.exists() and pid.read_text().strip() != "" and waits(child.pid), child)
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=10)
    assert told == "stopped\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.mark.parametrize(
    "line", [line for line in VECTORS.splitlines() if not line.startswith("#")]
)
def test_the_measure_is_that_of_the_vectors(line: str) -> None:
    name, runs, ours, conditions, expected = line.split(";")
    rate_mbit, rtt_ms, duration_s, flows = map(float, conditions.split())
    agrees, reference, tolerance = _core.compare_metric(
        name,
        [float(x) for x in runs.split()],
        float(ours),
        rate_mbit=rate_mbit,
        rtt_ms=rtt_ms,
        duration_s=duration_s,
        flows=int(flows),
    )
    yes, *numbers = expected.split()
    assert agrees == (yes == "yes")
    assert [reference, tolerance] == pytest.approx([float(x) for x in numbers], nan_ok=True)


def test_an_unknown_metric_is_an_error() -> None:
    with pytest.raises(KeyError):
        _core.compare_metric("speed", [1.0], 1.0, rate_mbit=1, rtt_ms=1, duration_s=1, flows=1)


def test_the_grid_has_all_its_cases() -> None:
    grid = [case for case in CASES.values() if case.on_grid]
    families = {family: sum(case.family == family for case in grid) for family in "ABCDEFGHI"}
    assert families == {
        "A": 62,
        "B": 33,
        "C": 38,
        "D": 14,
        "E": 30,
        "F": 29,
        "G": 35,
        "H": 28,
        "I": 4,
    }
    recorded = {
        family: {c.recorded for c in grid if c.family == family and "bbr" in c.ccs}
        for family in "ABCDHI"
    }
    assert recorded == {"A": {2}, "B": {5}, "C": {2}, "D": {2}, "H": {4}, "I": {2}}


def test_the_cases_in_which_linux_disagrees_with_itself_are_known() -> None:
    """An independent implementation of the measure found these."""
    grid = [case for case in CASES.values() if case.on_grid]
    not_itself = {case.name for case in grid if linux.itself(case) is False}
    assert not_itself == {
        "B-bbr-0.25",
        "B-cubic-0.0001",
        "B-newreno-0.001",
        "B-newreno-0.03",
        "B-vegas-0.001",
        "E-peak-bbr2cubic2-10",
        "E-peak-bbr4cubic4-50",
        "E-police-bbr2cubic2-10",
        "E-police-bbr4cubic4-50",
        "E-police-cubic1-50",
        "F-sfb-c4",
        "E-shape-bbr4reno4-10",
    }
    naive = {case.name: linux.naive(case) for case in grid}
    assert not any(answer["nothing"] for answer in naive.values())
    assert {name for name, answer in naive.items() if answer["a full pipe"]} == {
        "B-bbr-0.15",
        "B-cubic-0.0001",
        "H-bbr-15000-0.2",
        "H-cubic-15000-0.02",
        "H-cubic-15000-0.2",
        "H-reno-15000-0.2",
    }


def test_numbers_of_a_case_are_those_of_the_one_parser() -> None:
    for case in CASES.values():
        if linux.can_run(case):
            numbers = json.loads(_core.path_json(_core.toml_to_tree(case.toml, case.name)))
            bdp_bytes = case.rate_mbit * case.rtt_ms * 1e3 / 8
            assert numbers["rate_mbit"] == pytest.approx(case.rate_mbit)
            assert numbers["rtts_ms"] == pytest.approx([case.rtt_ms])
            if case.buffer_bytes is not None:
                assert numbers["buffer_bdp"] == pytest.approx(
                    case.buffer_bytes / bdp_bytes, rel=1e-3
                )


def figure(name: str, cc: str = "reno") -> stored.Figure:
    return stored.Figure(name=name, cc=cc, runs=(1.0,), late=False)


def test_metrics_are_computed_from_a_run() -> None:
    flows = [
        {
            "cc": "reno",
            "active_goodput_mbit": goodput,
            "sampled_rtt_ms": {"mean": rtt},
            "run_retransmit_rate": rate,
            "cwnd_packets": {"mean": 10.5, "p5": 7, "p95": None},
            "fct_s": fct_s,
            "series": [[1.0, 1_000_000], [2.0, 3_000_000], [3.0, 4_000_000]],
        }
        for goodput, rtt, rate, fct_s in (
            (3.0, 40.0, 0.01, None),
            (1.0, 60.0, 0.03, 2.5),
            (None, None, None, 9.0),
        )
    ]
    other = {"cc": "cubic", "fct_s": None, "active_goodput_mbit": 0.0}
    run = {"flows": [*flows, other], "probes": [{"rtt_ms": {"p50": 41.0, "p95": 77.0}}]}
    expected = {
        "goodput_mbit": 4.0,
        "jain": 16 / 30,
        "srtt_ms": 100 / 3,
        "retransmit_pct": 4 / 3,
        "cwnd_mean": 10.5,
        "cwnd_p5": 7,
        "cwnd_p95": 0,
        "fct_s": 2.5,
        "acked_mb_at_1s": 1.0,
        "acked_mb_at_5s": 4.0,
    }
    assert {name: stored.value(run, figure(name)) for name in expected} == pytest.approx(expected)
    assert stored.value(run, figure("ping_p95_ms", cc="")) == 77.0
    assert stored.value(run, figure("fct_s", "cubic")) == math.inf
    assert stored.value(run, figure("jain", "cubic")) == 0


def test_readme_report_and_the_rust_test_have_one_headline() -> None:
    headline, agreement = linux.exact()
    agree = sum(share == 1 for share in agreement.values())
    assert set(agreement) == set(CASES)
    assert headline.startswith(f"{agree} of {len(CASES)} simulated cases ")
    assert f"**{headline}.**" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"\n{headline}. " in (ROOT / "docs/reference/validation.md").read_text(encoding="utf-8")
    assert f"\n{headline}.\n" in (ROOT / "validation/REPORT.md").read_text(encoding="utf-8")


def test_a_case_of_each_family_agrees_as_in_the_rust_test() -> None:
    _, exact = linux.exact()
    cheapest = [
        min((case for case in CASES.values() if case.family == family), key=lambda case: case.cost)
        for family in sorted({case.family for case in CASES.values()})
    ]
    for outcome in linux.play(cheapest, seeds=3, jobs=1):
        share = sum(v.agrees for v in outcome.verdicts) / len(outcome.verdicts)
        assert share == pytest.approx(exact[outcome.case.name], abs=0.0006), outcome.case.name


def test_the_doctests_of_the_tier_pass() -> None:
    for module in (advise, linux, spread, stored):
        found = doctest.testmod(module)
        assert found.attempted
        assert not found.failed


def test_every_stored_figure_can_be_read() -> None:
    for case in CASES.values():
        linux.naive(case)


def test_evidence_needs_a_title_commands_and_results(tmp_path: Path) -> None:
    assert explained.load()
    toml = tmp_path / "explained.toml"
    toml.write_text(
        '[[explained]]\ncase = "A-*"\nfigure = "*"\nevidence = "e.md"\nbecause = "so"\n',
        encoding="utf-8",
    )
    evidence = tmp_path / "e.md"
    good = "# Trace: what it was\n\n```console\n$ true\n```\n\n| a | b |\n|---|---|\n| x | 3 |\n"
    with pytest.raises(ValueError, match="no such file"):
        explained.load(toml)
    evidence.write_text(good, encoding="utf-8")
    (entry,) = explained.load(toml)
    assert entry.covers("A-reno-1", "srtt_ms reno")
    assert not entry.covers("B-reno-1", "srtt_ms reno")
    for part in ("# Trace: ", "$ true", "| x | 3 |"):
        evidence.write_text(good.replace(part, ""), encoding="utf-8")
        with pytest.raises(ValueError, match=r"e\.md: "):
            explained.load(toml)


def test_the_cliff_is_the_loss_rate_at_which_goodput_collapses() -> None:
    def ideal(job: cliff.Job, _keep_on: object) -> float:
        gain, detection, loss, _ = job
        return 95.0 if gain * (1 - loss) > 1 and not (detection and loss > 0.15) else 3.0

    told: list[float] = []
    found = cliff.play(seeds=2, one=ideal, done=told.append)
    assert [c.found for c in found] == pytest.approx(
        [0.2, 1 / 11, 1 / 3, 0.15], abs=cliff.RESOLUTION
    )
    assert all(c.met for c in found)
    assert sum(told) == cliff.cost(seeds=2)
    assert {c.found for c in cliff.play(seeds=1, one=lambda _job, _keep_on: 95.0)} == {None}


def test_the_cliff_of_linux_lies_between_its_runs() -> None:
    runs = cliff.linux()
    assert all(len(goodputs) >= 2 for goodputs in runs.values())
    assert (
        max(p for p in runs if min(runs[p]) > 70)
        < cliff.half(runs)
        < min(p for p in runs if max(runs[p]) < 25)
    )
    with pytest.raises(ValueError, match="nowhere"):
        cliff.half({0.1: [90.0], 0.2: [80.0]})


def test_zero_retransmits_agree_only_with_zero() -> None:
    def result(ours: int, theirs: int) -> Result:
        cell = Cell(
            cc="bbr",
            buffer_kib=100,
            rate_mbit=10,
            rtt_ms=5,
            trials=5,
            goodput_mbit=9.5,
            goodput_mbit_sd=0.0,
            goodput_mbit_min=9.5,
            goodput_mbit_max=9.5,
            retransmits=theirs,
        )
        return Result(cell=cell, goodput_mbit=9.1, retransmits=ours, rtt_ms=5.0)

    pairs = {
        (0, 0): True,
        (1, 0): False,
        (0, 1): False,
        (100, 150): True,
        (100, 151): False,
        (151, 100): False,
    }
    assert {pair: result(*pair).sends_again_as_often for pair in pairs} == pairs
    assert papers.again_agrees_leniently(result(2, 0))
    assert not papers.again_agrees_leniently(result(9, 0))
    assert result(0, 0).agrees


@pytest.mark.parametrize(
    ("kernel", "cc", "goodput_mbit", "retransmits"),
    [
        ("4.15", "cubic", 27_209.75, 147_839),
        ("4.15", "bbr", 39_018.93, 8_441_229),
        ("5.15", "cubic", 26_567.16, 145_942),
        ("5.15", "bbr", 38_997.74, 4_894_088),
        ("5.13.12", "bbr2", 36_949.48, 686_016),
    ],
)
def test_the_published_cells_are_complete(
    kernel: str, cc: str, goodput_mbit: float, retransmits: int
) -> None:
    every = cells(cc, kernel)
    assert [(c.buffer_kib, c.rate_mbit, c.rtt_ms) for c in every] == [
        (c.buffer_kib, c.rate_mbit, c.rtt_ms) for c in cells()
    ]
    assert {(c.kernel, c.cc, c.trials) for c in every} == {(kernel, cc, 5)}
    assert sum(c.goodput_mbit for c in every) == pytest.approx(goodput_mbit)
    assert sum(c.retransmits for c in every) == retransmits


def test_the_sets_are_judged_one_by_one() -> None:
    def result(cell: Cell) -> Result:
        goodput_mbit = cell.goodput_mbit * (2 if cell.kernel == "5.15" else 1)
        return Result(
            cell=cell, goodput_mbit=goodput_mbit, retransmits=cell.retransmits, rtt_ms=5.0
        )

    good, bad = (
        papers.Maps(
            kernel=kernel,
            like="linux-6.12",
            results={"bbr": [result(c) for c in cells("bbr", kernel)]},
        )
        for kernel in ("4.15", "5.15")
    )
    assert [c.met for c in papers.criteria(good)] == [True, True]
    assert [c.met for c in papers.criteria(bad)] == [False, True]
    assert {off.case for off in papers.disagreements(bad)} >= {"P-5.15-bbr-100-10-5"}


def test_the_command_runs_a_case_and_omits_unsupported_ones() -> None:
    command = [
        sys.executable,
        "-m",
        "validation",
        "--cases",
        "A-*-10-20-4",
        "--seeds",
        "1",
        "--json",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    unknown = [name for name in ("A-bbr-10-20-4",) if not linux.can_run(CASES[name])]
    assert answer["linux"]["left_out"] == unknown
    assert {f["case"] for f in answer["linux"]["figures"]} >= {"A-cubic-10-20-4", "A-reno-10-20-4"}
    assert done.returncode == int(not all(c["met"] for c in answer["criteria"]))


def test_invalid_arguments_are_errors() -> None:
    for arguments in (["--cases", "Z-*"], ["--part", "luck"], ["--seeds", "0"]):
        command = [sys.executable, "-m", "validation", *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stdout


def test_the_spread_of_a_metric_begins_with_the_compared_simulations() -> None:
    (case,) = (
        case
        for case in record.load([ROOT / "validation/reference/linux-6.12-rates.txt"])
        if case.name == "rates-reno-up"
    )
    figures = [figure for figure in case.compared if figure.kind == "acked_mb"]
    found = spread.values(case, figures, range(3), SIM, 1)
    (outcome,) = agreement.play([case], seeds=3)
    for figure in figures:
        (verdict,) = (one for one in outcome.verdicts if one.figure == figure)
        assert statistics.median(found[figure.label]) == verdict.ours
    assert spread.main(["no-such-case", "*", "--runs", "0"]) == 2


def test_engines_side_by_side_have_a_column_each() -> None:
    on = agree.Machine(hz=1000, like="linux-6.12", release="6.12.9", key="0")
    scenario = side_by_side.BBR_WITH_LOSS
    results = {"sim": side_by_side.measure(scenario, SIM, on)}
    results["none"] = side_by_side.Result(figures={}, cpu_s=0.0, why="the kernel stopped")
    lines = list(side_by_side.section("BBR", scenario, results))
    assert "| metric | sim | none |" in lines
    goodput = results["sim"].figures["goodput_mbit"]
    assert 10 < goodput < 20
    assert f"| goodput, Mbit/s | {number(goodput)} | – |" in lines
    assert lines[-2] == "No run of none: the kernel stopped."


def test_programs_side_by_side_print_what_their_client_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = side_by_side.Pair(far=["server"], near=["client"], module="no_such_module")
    assert side_by_side.client(pair, SIM) == ("not run, because no_such_module is not installed", 0)
    monkeypatch.setattr(side_by_side, "client", lambda pair, _engine: (pair.near[-1], 1.5))
    lines = list(side_by_side.programs({"Linux 6.12": SIM}))
    assert "| curl | Linux 6.12 | http://far/page | 1.5 |" in lines


@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (1.5, 1)])
def test_a_disagreement_with_the_engine_linux_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float, code: int
) -> None:
    kept = json.loads((engines.HERE / "agreement-linux.json").read_text(encoding="utf-8"))
    row = kept["rows"]["reno-1bdp"]
    row["figures"]["srtt_ms"][0] *= factor
    kept["rows"] = {"reno-1bdp": row}
    (tmp_path / "agreement-linux.json").write_text(json.dumps(kept), encoding="utf-8")
    monkeypatch.setattr(engines, "HERE", tmp_path)
    assert validation.main(["--part", "engines"]) == code


def test_results_equal_the_stored_digest(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--write"] if RENEW else []
    assert digest.main(arguments) == 0, capsys.readouterr().out


def test_the_page_of_the_sources_is_that_of_the_stored_results() -> None:
    if RENEW:
        sources.PAGE.write_text(sources.written(), encoding="utf-8")
    assert sources.PAGE.read_text(encoding="utf-8") == sources.written()


def test_a_stored_live_value_has_the_present_explanation(monkeypatch: pytest.MonkeyPatch) -> None:
    row = sources.live("SCHED_RR", "response-time/rr", "")
    assert (row.agrees, row.why[:10]) == ("no", "the server")
    monkeypatch.setattr(sources, "misses", lambda _: {})
    assert sources.live("SCHED_RR", "response-time/rr", "").why == "not explained"


def test_the_page_about_the_parts_of_a_page_load_is_that_of_its_runs() -> None:
    text = page_parts.written()
    if RENEW:
        page_parts.PAGE.write_text(text, encoding="utf-8")
    assert page_parts.PAGE.read_text(encoding="utf-8") == text


def test_the_page_of_random_loss_is_that_of_its_runs() -> None:
    """The page has the stored runs of Linux and live runs, and those of the simulator."""
    text = loss_by_engine.page(loss_by_engine.simulated() | loss_by_engine.stored())
    if RENEW:
        loss_by_engine.PAGE.write_text(text, encoding="utf-8")
    assert loss_by_engine.PAGE.read_text(encoding="utf-8") == text


def test_the_same_seed_has_a_long_transfer_in_each_engine() -> None:
    """The engines lose the same packets, so that times of a seed are alike over the engines."""
    times = loss_by_engine.stored()
    engines = {engine for engine, case, _ in times if case == "transfer-bbr"}
    assert engines == {"linux 6.12", "linux 7.3", "live"}
    for engine in engines:
        own = {seed: times[engine, "transfer-bbr", seed] for seed in range(1, 13)}
        assert sorted(own, key=lambda seed: own[seed])[-2:] == [1, 3]


def test_the_sentences_about_random_loss_follow_from_the_runs() -> None:
    slow = {1: 40.0, 2: 4.0, 3: 4.0}

    def runs(engine: str, times: dict[int, float]) -> dict[tuple[str, str, int], float]:
        return {(engine, "transfer-bbr", seed): time for seed, time in times.items()}

    alike = runs("linux 6.12", slow) | runs("live", slow)
    assert "not the live engine" in loss_by_engine._long(alike)
    alone = runs("linux 6.12", dict.fromkeys(slow, 4.0)) | runs("live", slow)
    assert "Some seeds have a long transfer in the live engine only." in loss_by_engine._long(alone)
    grid = {("live", "grid-bbr-5-100", seed): float(seed) for seed in (1, 2, 3)}
    assert loss_by_engine._runs(grid, "bbr", ["live"]) == "3 runs"
    grid["sim", "grid-bbr-5-100", 1] = 3.1
    assert loss_by_engine._runs(grid, "bbr", ["live", "sim"]) == "1 to 3 runs"
    told = loss_by_engine._overlaps(grid, "bbr", ["live", "sim"])
    assert told.endswith("in 1 of 1 cells.")
    grid["sim", "grid-bbr-5-100", 1] = 3.2
    assert loss_by_engine._overlaps(grid, "bbr", ["live", "sim"]).endswith("in 0 of 1 cells.")


def test_the_page_of_the_live_study_is_that_of_its_runs() -> None:
    text = live_study.written()
    if RENEW:
        live_study.PAGE.write_text(text, encoding="utf-8")
    assert live_study.PAGE.read_text(encoding="utf-8") == text


def test_stored_live_results_have_the_texts_of_their_experiments() -> None:
    """A changed title or check needs another `python -m validation.sources --measure`."""
    for one in json.loads(sources.LIVE.read_text(encoding="utf-8"))["experiments"]:
        known = experiments()[one["experiment"]]
        assert (one["title"], one["source"], one["setup"]) == (
            known.title,
            known.source,
            known.setup,
        )
        assert [(c["id"], c["of"], c["published"]) for c in one["checks"]] == [
            (c.id, c.of, c.published) for c in known.checks
        ]


def test_the_numbers_of_an_explanation_are_in_its_evidence() -> None:
    number = re.compile(r"\d+(?:\.\d+)?")
    for name in experiments():
        for id_, miss in misses(name).items():
            page = (ROOT / miss.evidence).read_text(encoding="utf-8").replace(",", "")
            values = [float(one) for one in number.findall(page)]
            for text in number.findall(miss.why):
                step = 10 ** -len(text.partition(".")[2])
                near = [value for value in values if abs(value - float(text)) <= step / 2 + 1e-9]
                assert near, f"{name}.{id_}: {text} is not in {miss.evidence}"


def test_a_reason_is_not_given_for_another_disagreement(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    claim = {
        "of": "A", "published": "11", "unit": "s", "accept": [5.5, 22], "command": "narrows",
        "figure": f"cell:{page}:live:BBR", "why": "Linux has it.", "side": "below", "seen": [4.0],
    }  # fmt: skip
    reasons = {}
    for value in ("4.2", "6", "2", "40"):
        page.write_text(f"| case | live |\n|---|---|\n| BBR | {value} |\n", encoding="utf-8")
        row = sources.row(claim)
        reasons[value] = (row.agrees, row.why)
    assert reasons == {
        "4.2": ("no", "Linux has it."),
        "6": ("yes", ""),
        "2": ("no", "not explained"),
        "40": ("no", "not explained"),
    }


def test_no_value_of_narrows_is_written_by_hand() -> None:
    claims = tomllib.loads(sources.CLAIMS.read_text(encoding="utf-8"))
    for source in claims["source"]:
        for claim in source["claim"]:
            kind = claim["figure"].partition(":")[0]
            assert kind in {"reproduced", "live", "ratio", "cell", "word", "none"}
            allowed = {"of", "figure", "why"}
            if kind in {"ratio", "cell"}:
                allowed |= {"published", "accept", "unit", "command", "side", "seen"}
                # A reason of such a row applies to a side and a range.
                assert ("why" in claim) == ("side" in claim) == ("seen" in claim), claim["of"]
            if kind == "word":
                allowed |= {"published", "accept", "command"}
            if kind == "none":
                allowed |= {"agrees", "command", "published"}
            assert set(claim) <= allowed, claim["of"]


def test_the_page_of_transports_over_udp_has_the_stored_results() -> None:
    kernel, results = own_tcp.read()
    page = own_tcp.page(kernel, results)
    if RENEW:
        own_tcp.PAGE.write_text(page, encoding="utf-8")
    assert own_tcp.PAGE.read_text(encoding="utf-8") == page
    assert own_tcp.unexplained(results) == []
    assert {case.transport for case in results} == set(own_tcp.TRANSPORTS)


def test_a_transport_outside_of_the_tolerance_needs_a_reason(tmp_path: Path) -> None:
    path = next(iter(own_tcp.PATHS))
    kernel, quic = (own_tcp.Case(path, "upload", "cubic", name) for name in ("tcp", "quic"))
    for goodput, rtt, bad in ((9.6, 57.0, []), (9.4, 50.0, [quic]), (10.0, 58.0, [quic])):
        results = {
            kernel: own_tcp.Metrics(10.0, 50.0, 0.0), quic: own_tcp.Metrics(goodput, rtt, 1.0),
        }  # fmt: skip
        assert own_tcp.unexplained(results) == bad
        own_tcp.write("6.12", results, tmp_path / "stored.json")
        assert own_tcp.read(tmp_path / "stored.json") == ("6.12", results)
        assert ("- `cubic`: not explained" in own_tcp.page("6.12", results)) == bool(bad)
