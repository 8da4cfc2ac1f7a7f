"""`narrows agree` compares engines: the compared metrics, repeated runs and undecided results. Also
the checks of the machine.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import ROOT, TINY, Cli
from validation import agreement

from narrows import _core
from narrows import cli as command
from narrows.errors import EngineError
from narrows.host import agreement as agree
from narrows.host import command as host
from narrows.host import doctor
from narrows.host.live import HOST
from narrows.kernel import store
from narrows.runs.engines import EngineChoice

HERE = agree.Machine(hz=250, like="linux-6.12", release="6.12.1", ccs=("reno", "cubic", "bbr"))
WHAT = agree.subject(TINY, "tiny", HERE)


def sim(seed: int) -> dict[str, Any]:
    """A run of the simulator that passes for one of the live engine."""
    run: dict[str, Any] = json.loads(
        _core.run_toml(WHAT.toml, "tiny", seed=seed, sample_interval="off").json()
    )
    return run | {"instruments": {"trusted": True, "why": []}}


def flagged(seed: int) -> dict[str, Any]:
    return sim(seed) | {"instruments": {"trusted": False, "why": ["late"]}}


def test_hosts_take_the_rules_of_this_machine_and_keep_other_keys() -> None:
    text = TINY.replace("[path]", "[host]\nhz = 100\niw = 4\n[path]")
    assert agree.subject(text, "tiny", HERE).tree["host"] == {
        "hz": 250,
        "like": "linux-6.12",
        "iw": 4,
    }


def test_the_same_engine_agrees_with_itself() -> None:
    runs = [sim(seed) for seed in range(1, 6)]
    done = agree.beside(WHAT, runs, runs, [])
    assert {row.verdict for row in done.rows} <= {"agreed", "undecided"}
    assert done.verdict == "agreed"
    labels = {row.label for row in done.rows}
    assert labels == {
        "goodput_mbit", "srtt_ms", "cwnd_mean", "retransmit_pct", "jain", "ping_p50_ms",
        "ping_p95_ms",
    }  # fmt: skip


def test_half_of_the_goodput_does_not_agree() -> None:
    runs = [sim(seed) for seed in range(1, 4)]
    half = json.loads(json.dumps(runs))
    for run in half:
        for flow in run["flows"]:
            flow["goodput_mbit"] /= 2
    done = agree.beside(WHAT, half, runs, [])
    assert {row.label: row.verdict for row in done.rows}["goodput_mbit"] == "parted"
    assert done.verdict == "parted"


def test_too_few_trusted_runs_are_undecided() -> None:
    runs = [sim(seed) for seed in range(1, 4)]
    assert agree.beside(WHAT, runs, runs[:2], ["late"]).verdict == "undecided"


def test_only_flagged_runs_are_repeated_and_their_reasons_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def once(_what: agree.Subject, seed: int, _progress: object) -> dict[str, Any]:
        asked.append(seed)
        return flagged(seed) if seed == 2 else sim(seed)

    monkeypatch.setattr(agree, "once", once)
    trusted, why = agree.measure(WHAT, runs=3)
    assert (asked, [run["seed"] for run in trusted], why) == ([1, 2, 3, 4], [1, 3, 4], ["late"])


def test_untrusted_runs_are_repeated_a_limited_number_of_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agree, "once", lambda _what, seed, _progress: flagged(seed))
    trusted, why = agree.measure(WHAT, runs=3, repeats=2)
    assert (trusted, len(why)) == ([], 3)


@pytest.mark.parametrize(("wrong", "code"), [(1.0, 0), (0.5, 1)])
def test_the_command_reports_metrics_that_disagree(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, wrong: float, code: int
) -> None:
    def once(_what: agree.Subject, seed: int, _progress: object) -> dict[str, Any]:
        run = sim(seed)
        for flow in run["flows"]:
            flow["goodput_mbit"] *= wrong
        return run

    monkeypatch.setattr(agree, "once", once)
    monkeypatch.setattr(agree, "machine", lambda: HERE)
    monkeypatch.setattr(agree, "ready", lambda _ccs: None)
    asked = ["agree", str(tiny), "--runs", "3", "--seeds", "3"]
    done = CliRunner().invoke(command.main, asked)
    assert done.exit_code == code, done.output
    assert "goodput_mbit" in done.output
    assert "metrics agree" in done.output
    told = json.loads(CliRunner().invoke(command.main, [*asked, "--json"]).stdout)
    assert told["counts"]["parted"] == code
    (scenario,) = told["scenarios"]
    assert (scenario["pairs"][0]["engines"], scenario["pairs"][0]["runs"]) == (["sim", "live"], 3)
    assert {"sim", "live", "verdict"} <= set(scenario["figures"][0])
    assert told["machines"] == {"live": HERE.json()}


def test_an_error_in_any_scenario_is_reported_before_the_first_run(
    cli: Cli, tiny: Path, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(TINY.replace('"20ms"', "20", 1), encoding="utf-8")
    done = cli("agree", tiny, wrong)
    assert (done.returncode, done.stdout) == (2, "")
    assert "write: rtt" in done.stderr


def test_kernels_run_the_text_of_a_file_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "wave.toml"
    text = TINY.replace("[path]", '# A comment.\n[path]\ndelay_trace = "wave.txt"')
    file.write_text(text, encoding="utf-8")
    (tmp_path / "wave.txt").write_text("0 0\n500 5\n", encoding="utf-8")
    tree, read = agree.load(file, {"sim": HERE})
    what = agree.of_tree(tree, str(file), HERE, read)
    assert agree.simulate(what, seeds=1)[0]["flows"]
    passed: list[tuple[str, str, bool]] = []

    def run(toml: str, name: str, *, built: bool, **_how: object) -> None:
        passed.append((toml, name, built))
        raise EngineError("not run")

    monkeypatch.setattr(agree.live, "run", run)
    monkeypatch.setattr(agree.virtual, "run", run)
    with pytest.raises(EngineError, match="not run"):
        agree.once(what, 1)
    with pytest.raises(EngineError, match="not run"):
        agree.emulate(what, EngineChoice("linux", "key", "name"), runs=1)
    # With the text of the file, errors have its lines.
    assert passed == [(text, str(file), False)] * 2


def emulated(wrong: float) -> Callable[..., list[dict[str, Any]]]:
    """The runs of a kernel whose goodput is wrong by this factor."""

    def emulate(
        _what: agree.Subject, _kernel: object, *, runs: int, progress: Callable[[float], object]
    ) -> list[dict[str, Any]]:
        found = [sim(seed) for seed in range(1, runs + 1)]
        for run in found:
            for flow in run["flows"]:
                flow["goodput_mbit"] *= wrong
        progress(1.0)
        return found

    return emulate


KERNEL = agree.Machine(hz=1000, like="linux-6.12", release="6.12.9", key="0123456789abcdef")


@pytest.mark.parametrize(("wrong", "code"), [(1.0, 0), (0.5, 1)])
def test_three_engines_are_compared_in_pairs(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, wrong: float, code: int
) -> None:
    on = {"sim": KERNEL, "linux": KERNEL, "live": HERE}
    monkeypatch.setattr(agree, "emulate", emulated(wrong))
    monkeypatch.setattr(agree, "choose", lambda *_: None)
    monkeypatch.setattr(agree, "once", lambda _what, seed, _progress: sim(seed))
    monkeypatch.setattr(host, "machines", lambda engines, _kernel: {n: on[n] for n in engines})
    monkeypatch.setattr(agree, "ready", lambda _ccs: None)
    asked = ["agree", str(tiny), "--engines", "sim,linux,live", "--runs", "3", "--seeds", "3"]
    done = CliRunner().invoke(command.main, asked)
    assert done.exit_code == code, done.output
    assert done.output.count("metrics agree") == 3
    assert "sim and linux: " in done.output
    told = json.loads(CliRunner().invoke(command.main, [*asked, "--json"]).stdout)
    by_pair = {name: of["parted"] for name, of in told["pairs"].items()}
    assert by_pair == {"sim-linux": code, "sim-live": 0, "linux-live": code}
    (goodput,) = [f for f in told["scenarios"][0]["figures"] if f["figure"] == "goodput_mbit"]
    assert goodput["linux"] == pytest.approx(wrong * goodput["live"])


@pytest.mark.parametrize(
    ("engines", "kernel", "said"),
    [
        (["sim"], None, "a comparison needs two engines; write sim,linux"),
        (["sim", "ns3"], None, "--engines ns3: no such engine; write sim, linux, live"),
        (["sim", "live"], "6.12", "--kernel 6.12: this option requires --engines sim,linux"),
        (["sim", "linux"], "6.12", "--kernel 6.12: this kernel is not built"),
    ],
)
def test_wrong_engines_are_errors(
    engines: list[str],
    kernel: str | None,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(EngineError, match=said):
        agree.machines(engines, kernel)


@pytest.mark.parametrize(
    ("release", "like"), [("6.12.117", "6.12"), ("5.17.1", "5.17"), ("4.4.1", "4.4")]
)
def test_a_kernel_follows_the_newest_rules_that_are_not_newer(release: str, like: str) -> None:
    kernel = store.Kernel(
        name="x", release=release, key="0" * 16, configuration="", source="", origin="",
        patches={}, build_s=0,
    )  # fmt: skip
    assert agree.of_kernel(kernel).like == f"linux-{like}"


def test_wifi_is_an_error_for_the_engine_linux() -> None:
    text = (ROOT / "scenarios/wifi/three-stations.toml").read_text(encoding="utf-8")
    tree = _core.toml_to_tree(text, "three")
    agree.check(tree, "three", {"live": HERE})
    with pytest.raises(EngineError, match=r"three: wifi: .* write --engines sim,live"):
        agree.check(tree, "three", {"linux": KERNEL})


def test_the_table_covers_disciplines_policers_and_marks() -> None:
    rows = agreement.table()
    assert len(rows) >= 40
    assert sum("policer" in row for row in rows.values()) >= 4
    assert sum(bool(row.get("ecn")) for row in rows.values()) >= 4
    kinds = {row["queue"] if isinstance(row["queue"], str) else row["queue"]["kind"]
             for row in rows.values()}  # fmt: skip
    assert kinds >= {"fifo", "codel", "fq_codel", "pie", "fq_pie", "cake", "red", "choke", "sfq"}


def test_stored_rows_are_compared_without_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"tiny": agreement.table()["cubic-2bdp"] | {"seconds": 2}}
    monkeypatch.setattr(agreement, "table", lambda: rows)
    what = agreement.scenario("tiny", rows["tiny"], KERNEL)
    figures = agreement.summary(agree.simulate(what, seeds=3))
    row = {"scenario": agreement.words(rows["tiny"]), "runs": 3, "flagged": [], "figures": figures}
    linux = agreement.Store("linux", KERNEL, {"tiny": row})
    live = agreement.Store("live", HERE, {"tiny": row})
    found = agreement.compare([linux, live], seeds=3)
    assert found.pairs == [("sim", "linux"), ("sim", "live"), ("linux", "live")]
    assert {one.verdict for one in found.of(("sim", "linux"))} <= {"agreed", "undecided"}
    assert found.controls["linux"]["tiny"]
    page = agreement.markdown(found)
    assert "| sim | linux | live | range of linux | range of live | sim and linux |" in page
    assert "Linux 6.12.9, 1000 Hz | Linux 6.12.1, 250 Hz" in page
    # Another scenario of this name is not compared with the stored row.
    rows["tiny"] = rows["tiny"] | {"rate": "9Mbit"}
    assert not agreement.compare([linux, live], seeds=3).metrics


def test_every_row_and_every_control_of_the_table_is_a_valid_scenario() -> None:
    rows = agreement.table()
    assert len(rows) >= 24
    for name, row in rows.items():
        agreement.scenario(name, row, HERE)
        if "control" in row:
            agreement.scenario(name, row | row["control"], HERE)
    assert sum("control" in row for row in rows.values()) >= 4


def test_doctor_proposes_a_remedy_for_every_finding_that_is_not_good(cli: Cli) -> None:
    done = cli("doctor", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == (0 if found["able"] else 1)
    assert {finding["what"] for finding in found["findings"]} >= {
        "privilege",
        "congestion controls",
        "tick",
        "timer slack",
        "real-time class",
        "idle wake-up",
        "tick of 100 µs",
    }
    assert all(finding["cure"] for finding in found["findings"] if finding["grade"] != "good")
    assert doctor.lines(found)[-1].startswith("This machine supports ")


@pytest.mark.parametrize("name", ["cubic-2bdp", pytest.param("bbr-2bdp", marks=pytest.mark.long)])
def test_the_engines_agree_on_this_machine(name: str) -> None:
    """The physical tier; `make agree` runs all rows."""
    row = agreement.table()[name]
    ready = subprocess.run(
        [HOST, "ready", "reno", "cubic", "bbr"], capture_output=True, text=True, check=False
    )
    if ready.returncode:
        pytest.skip(ready.stderr.strip())
    found = agreement.run(name, row | {"seconds": 8}, agree.machine(), runs=3, seeds=9)
    if found["verdict"] == "undecided":
        pytest.skip(f"not to be trusted: {found['flagged'][-1]}")
    assert found["verdict"] == "agreed", json.dumps(found["figures"])
    unsteady = [figure["figure"] for figure in found["figures"] if figure["verdict"] == "undecided"]
    if found["control"]["verdict"] != "parted" and unsteady:
        pytest.skip(f"live runs lay too far apart to tell a wrong one by {', '.join(unsteady)}")
    assert found["control"]["verdict"] == "parted"
