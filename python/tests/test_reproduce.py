"""Published experiments: their descriptions are valid, have implementations, and results outside of
the accepted ranges are reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import ROOT

from narrows.cli import main
from narrows.errors import EngineError
from narrows.reproduce import losses, maps, pages, published, render
from narrows.reproduce.checks import Check, Miss, Outcome, experiments, misses
from narrows.reproduce.lab import Lab, finished, goodput
from narrows.reproduce.maps import published_gains
from narrows.reproduce.running import ANSWERS, SETUPS
from narrows.reproduce.shares import crossover
from narrows.runs.engines import EngineChoice
from narrows.runs.scenario import Flow, Scenario
from narrows.runs.scenario import Path as ScenarioPath


def test_every_experiment_has_an_implementation_and_accepted_ranges() -> None:
    assert list(ANSWERS) == list(experiments())
    for one in experiments().values():
        ids = [check.id for check in one.checks]
        assert len(ids) == len(set(ids))
        assert one.source
        assert one.setup
        assert all(
            check.accept is None or check.accept[0] <= check.accept[1] for check in one.checks
        )


def test_every_explanation_belongs_to_a_check_and_has_evidence() -> None:
    for name, one in experiments().items():
        assert set(misses(name)) <= {check.id for check in one.checks if check.accept is not None}
        checks = {check.id: check for check in one.checks}
        for id_, miss in misses(name).items():
            assert (ROOT / miss.evidence).exists(), miss.evidence
            low, high = miss.range(checks[id_])
            assert low < high, id_


class Listing(Lab):
    """A lab that keeps the releases of the hosts in the first scenarios, and simulates nothing."""

    def __init__(self) -> None:
        """A quick lab without runs."""
        super().__init__(quick=True)
        self.likes: set[str] = set()

    def play(self, cases: Mapping[Any, Any], **_: object) -> dict[Any, Any]:
        """Keeps the releases."""
        trees = [one.tree() if isinstance(one, Scenario) else one for one in cases.values()]
        self.likes |= {tree.get("host", {}).get("like", "linux-6.12") for tree in trees}
        raise EngineError("enough")


@pytest.mark.parametrize(
    "name", ["fairness", "cliff", "loss-by-law", "loss-and-delay", "fairness-by-buffer"]
)
def test_an_experiment_simulates_the_release_that_its_text_names(name: str) -> None:
    lab = Listing()
    with pytest.raises(EngineError, match="enough"):
        ANSWERS[name](lab)
    assert releases(name) <= lab.likes


def releases(name: str) -> set[str]:
    """The releases that the text of an experiment names for its hosts."""
    one = experiments()[name]
    told = " ".join([one.setup, *(check.of for check in one.checks)])
    parts = re.findall(r"hosts like Linux (\d+\.\d+(?: and \d+\.\d+)*)", told)
    return {f"linux-{release}" for part in parts for release in part.split(" and ")}


def test_the_cells_of_the_published_maps_have_hosts_of_their_release() -> None:
    named = {name for name in experiments() if releases(name)}
    tested = {"fairness", "cliff", "loss-by-law", "loss-and-delay", "fairness-by-buffer"}
    assert named - tested == {"grid", "replication"}
    assert releases("grid") | releases("replication") == {"linux-4.15", "linux-5.15"}
    for kernel, like in published.LIKE.items():
        cell = published.cells(published.MAPS[kernel][0], kernel)[0]
        assert cell.scenario().tree()["host"]["like"] == like
        assert like.startswith(f"linux-{kernel}")


def test_every_module_with_experiments_is_in_setups() -> None:
    there = {file.stem for file in (ROOT / "python/narrows/reproduce").glob("*.py")}
    others = {"__init__", "checks", "command", "model", "published", "render", "running"}
    assert there - set(SETUPS) == others


def test_the_limits_of_an_accepted_range_are_inside() -> None:
    check = Check(id="a", of="A", published="2", unit="s", accept=(1.0, 3.0))
    assert [check.word(ours) for ours in (0.99, 1.0, 3.0, 3.01, None)] == [
        "outside",
        "inside",
        "inside",
        "outside",
        "left out",
    ]
    assert Check(id="a", of="A", published="2", unit="s").word(7.0) == "shown"


def test_an_explanation_applies_only_near_the_result_of_its_experiment() -> None:
    """Ours 4.59 was once explained by an experiment that has 1.3, and counted as explained."""
    ratio = next(check for check in experiments()["fairness"].checks if check.id == "ratio-10MB")
    miss = misses("fairness")["ratio-10MB"]
    assert ratio.accept == (2.0, 4.5)
    for ours, explained in (
        (1.19, True),
        (1.4, True),
        (4.59, False),
        (0.5, False),
        (1.99, False),
        (3.0, False),
    ):
        assert miss.explains(ratio, ours) is explained, ours


def test_every_stored_value_outside_of_its_range_is_explained() -> None:
    text = (ROOT / "docs/reference/reproduced.md").read_text(encoding="utf-8")
    for name, one in experiments().items():
        _, _, part = text.partition(f"\n## {name}\n")
        rows = [
            line for line in part.partition("\n## ")[0].splitlines() if line.endswith(" OUTSIDE |")
        ]
        for row in rows:
            of, _, published, _, ours = (cell.strip() for cell in row.strip("|").split("|")[:5])
            (check,) = [
                check
                for check in one.checks
                if (check.of, check.published) == (of, published)
                and check.word(float(ours)) == "outside"
            ]
            assert misses(name)[check.id].explains(check, float(ours)), row


def test_a_bisection_without_a_result_is_reported() -> None:
    assert crossover(lambda buffer: 60 if buffer < 3 else 40, 12) == pytest.approx(3, rel=0.01)
    assert crossover(lambda _: 60, 7) is None
    assert crossover(lambda _: 40, 7) is None
    experiment = experiments()["cliff"]
    told = {
        check.id: sum(check.accept or ()) / 2
        for check in experiment.checks
        if check.id != "law-1.5"
    }
    why = {
        "law-1.5": "not found: goodput does not cross half of the rate between 27.3 and 39.3 % loss"
    }
    found = Outcome(
        experiment=experiment, ours=told, quick=True, runs=1, seconds=1.0, made="1", failed=why
    )
    assert (found.count("failed"), found.count("outside")) == (1, 0)
    assert "Not determined: 1." in render.verdict([found])
    assert f"| {why['law-1.5']} | – |" in render.markdown([found], "x")
    assert (
        next(one for one in found.json()["checks"] if one["id"] == "law-1.5")["reason"]
        == why["law-1.5"]
    )


class Steep(Lab):
    """Every flow has all of the path below a loss, and nothing above it."""

    def __init__(self, falls: float) -> None:
        """Below this loss, in %."""
        super().__init__(quick=True)
        self.falls = falls
        self.tried: set[float] = set()

    def play(self, cases: Mapping[Any, Any], **_: Any) -> dict[Any, Any]:  # noqa: ANN401
        """Without running any."""
        out = {}
        for key in cases:
            loss = key[1] if isinstance(key, tuple) else 0.0
            if isinstance(key, tuple) and key[0] == "law-1.25":
                self.tried.add(loss)
            out[key] = [{"flows": [{"goodput_mbit": 100.0 if loss < self.falls else 0.0}]}]
        return out


def test_the_range_of_loss_rates_is_extended_at_most_four_times() -> None:
    # Around 20 %, four points of 1.5 % each side, and as many further out each time: beyond 44 %
    # with the fourth.
    assert losses._WIDENED == 4
    lab = Steep(45.0)
    assert losses.cliff(lab)["law-1.25"] == pytest.approx(45.0, abs=1.5)
    assert max(lab.tried) == pytest.approx(50.0)
    assert "law-1.25" not in lab.failed
    lab = Steep(51.0)
    losses.cliff(lab)
    assert (
        lab.failed["law-1.25"]
        == "not found: goodput does not cross half of the rate between 14 and 50 % loss"
    )


class Counted(EngineChoice):
    """An engine that runs nothing and counts its runs."""

    done = 0
    broken = False

    def about(self) -> str:
        """Nothing of this machine."""
        return "counted"

    def run(self, scenario: Any, **_: Any) -> Any:  # noqa: ANN401
        """A run with a made-up figure; while it is broken, long paths fail."""
        if self.broken and scenario.path.rtt == "20ms":
            raise EngineError("late packets")
        Counted.done += 1
        return SimpleNamespace(json={"flows": [{"goodput_mbit": float(Counted.done)}]})


def test_runs_of_another_engine_are_stored_and_an_interrupted_experiment_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Counted, "done", 0)
    monkeypatch.setattr(Counted, "broken", True)
    cases = {
        rtt: Scenario(ScenarioPath(rate="1Mbit", rtt=rtt), flows=[Flow("cubic")], duration="1s")
        for rtt in ("10ms", "20ms")
    }
    lab = Lab(engine=Counted("live"), store=tmp_path)
    with pytest.raises(EngineError, match="late packets"):
        lab.play(cases, seeds=2)
    # A run that fails is omitted on request.
    partial = lab.play(cases, seeds=2, partial=True)
    assert {key: len(runs) for key, runs in partial.items()} == {"10ms": 2, "20ms": 0}
    assert Counted.done == 2
    monkeypatch.setattr(Counted, "broken", False)
    found = lab.play(cases, seeds=2)
    assert {key: [goodput()(run) for run in runs] for key, runs in found.items()} == {
        "10ms": [1.0, 2.0],
        "20ms": [3.0, 4.0],
    }
    assert lab.play(cases, seeds=2) == found
    assert Counted.done == 4
    anew = Lab(engine=Counted("live"), store=tmp_path, anew=True).play(cases, seeds=2)
    assert Counted.done == 8
    assert lab.play(cases, seeds=2) == anew != found


def test_the_search_for_a_response_time_needs_this_machine(tmp_path: Path) -> None:
    args = ["reproduce", "response-time", "--into", str(tmp_path), "--json"]
    (one,) = json.loads(CliRunner().invoke(main, args).output)["experiments"]
    assert {check["verdict"] for check in one["checks"]} == {"left out"}
    assert all("--engine live" in check["reason"] for check in one["checks"])


def test_engines_are_checked() -> None:
    wrong = CliRunner().invoke(main, ["reproduce", "mixes", "--engine", "sim,ns3"])
    assert wrong.exit_code == 2
    assert "ns3: no engine; write sim, live, linux" in wrong.output


def test_tables_are_part_of_every_output(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    args = ["reproduce", "map-cells", "--quick", "--into", str(tmp_path / "kept")]
    (one,) = json.loads(CliRunner().invoke(main, [*args, "--json"]).output)["experiments"]
    titles = [table["title"] for table in one["tables"]]
    assert "100 KiB: retransmits of BBR / CUBIC; narrows|published" in titles
    assert len(titles) == 4 * 3
    text = CliRunner().invoke(main, [*args, "--markdown", str(page)]).output
    assert all(title in text for title in titles)
    rows = page.read_text(encoding="utf-8").splitlines()
    # The separator of the two values is not one of columns.
    assert {row.replace("\\|", "").count("|") for row in rows if "Mbit/s |" in row} >= {4}


def test_a_quick_run_needs_no_explanations() -> None:
    bad = replace(outcome(bbr_5=8.0), quick=True)
    text = render.markdown([bad], "x")
    assert "| not explained |" not in text
    assert (
        "| BBR, 5 flows: mean queue | not explained; a full run is decisive: narrows reproduce "
        "queue-model | – |" in text
    )


def test_the_tree_of_the_cells_needs_no_other_package() -> None:
    lab = Played()
    assert maps.tree(lab)["own-tree"] == pytest.approx(100)
    assert not lab.lacks


class Played(Lab):
    """Runs nothing: BBR is a little faster everywhere."""

    def play(self, cases: Mapping[Any, Any], **_: Any) -> dict[Any, Any]:  # noqa: ANN401
        """Made-up figures."""
        return {
            key: [{"flows": [{"goodput_mbit": 2.0 if key[-1] == "bbr" else 1.0}]}] for key in cases
        }


def outcome(**ours: float) -> Outcome:
    """The queue model with made-up figures."""
    experiment = experiments()["queue-model"]
    told = {
        check.id: ours.get(check.id.replace("-", "_"), sum(check.accept or ()) / 2)
        for check in experiment.checks
    }
    why = {
        "bbr-2": Miss(
            why="It rained.",
            evidence="validation/evidence/reading.md",
            side="above",
            seen=(8.0, 9.0),
        )
    }
    return Outcome(
        experiment=experiment, ours=told, quick=False, runs=3, seconds=1.0, made="1", misses=why
    )


def test_pages_list_values_outside_of_their_ranges_with_explanations() -> None:
    good, bad = outcome(), outcome(bbr_2=9.0, bbr_5=8.0)
    assert render.verdict([good]).startswith("7 of 7 published values (100.0 %)")
    text = render.markdown([bad], "narrows reproduce queue-model")
    assert "5 of 7 published values (71.4 %)" in text
    assert (
        "Further experiments, named with each explanation, explain 1 of the 2 values outside."
        in " ".join(text.split())
    )
    assert (
        "| BBR, 2 flows: mean queue | It rained. | "
        "[reading.md](../../validation/evidence/reading.md) |" in text
    )
    assert "| BBR, 5 flows: mean queue | not explained | – |" in text
    shown = render.page([bad], "narrows reproduce queue-model")
    assert shown.count("OUTSIDE") == 2
    assert "It rained." in shown
    assert shown.count("<svg") == 7


def test_the_command_lists_experiments_and_stores_runs_and_pages(tmp_path: Path) -> None:
    listed = CliRunner().invoke(main, ["reproduce"])
    assert [line.split()[0] for line in listed.output.splitlines()] == list(ANSWERS)
    wrong = CliRunner().invoke(main, ["reproduce", "gird"])
    assert wrong.exit_code == 2
    assert "gird: no such experiment; write one of grid" in wrong.output
    into = tmp_path / "kept"
    args = [
        "reproduce",
        "mixes",
        "--quick",
        "--into",
        str(into),
        "--json",
        "--html",
        str(tmp_path / "a.html"),
    ]
    first = json.loads(CliRunner().invoke(main, args).output)
    (file,) = into.glob("*.json")
    again = json.loads(CliRunner().invoke(main, args).output)
    assert again == first
    assert json.loads(file.read_text())["runs"] == first["experiments"][0]["runs"] > 0
    checks = {check["id"]: check for check in first["experiments"][0]["checks"]}
    assert checks["shape-bbr4-10"]["verdict"] == "inside"
    assert checks["police-bbr4cubic4-50"]["ours"] > 50
    assert (tmp_path / "a.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    # What could not be answered, perhaps for want of an extra, is tried again.
    kept = json.loads(file.read_text())
    del kept["ours"]["shape-bbr4-10"]
    file.write_text(json.dumps(kept))
    assert json.loads(CliRunner().invoke(main, args).output)["verdict"] == first["verdict"]
    file.write_text("{")
    assert json.loads(CliRunner().invoke(main, args).output)["verdict"] == first["verdict"]


@pytest.mark.parametrize(
    "name", ["share-model", "queue-model", "bbr-faq", "loss-by-law", "loss-and-delay"]
)
def test_a_quick_run_has_a_value_for_every_check_that_is_not_omitted(
    name: str, tmp_path: Path
) -> None:
    done = CliRunner().invoke(
        main, ["reproduce", name, "--quick", "--into", str(tmp_path), "--json"]
    )
    (one,) = json.loads(done.output)["experiments"]
    quick = {check.id for check in experiments()[name].checks if not check.full}
    assert {check["id"] for check in one["checks"] if check["ours"] is not None} == quick


def test_cao_has_a_gain_for_every_cell() -> None:
    assert {place[0] for place in published_gains()} == {100, 10000}
    assert len(published_gains()) == 128


def test_the_stored_page_is_of_these_experiments() -> None:
    """It is made by the command, which takes minutes: what is compared is what it is about."""
    text = (ROOT / "docs/reference/reproduced.md").read_text(encoding="utf-8")
    for one in experiments().values():
        assert f"## {one.name}\n" in text
        for check in one.checks:
            assert (
                f"| {check.of} | {check.unit} | {check.published} | {render.accepted(check)} |"
                in text
            )


def test_a_median_of_incomplete_transfers_is_no_time() -> None:
    """The duration of a run is not the completion time of a transfer that did not complete."""

    def runs(*times: float | None) -> list[Any]:
        return [{"flows": [{"fct_s": time}]} for time in times]

    lab = Lab()
    assert lab.median_time("a", runs(3.0, 5.0, None), finished(120), 120) == {"a": 5.0}
    assert lab.median_time("b", runs(3.0, None, None), finished(120), 120) == {}
    assert lab.failed == {"b": "not found: less than half of the 3 runs completed within 120 s"}


def test_a_page_that_does_not_load_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    unloaded = {"flows": [{"workload": {"page_load_s": {"p50": None}}}]}

    def play(_: Lab, cases: dict[str, Any], **__: object) -> dict[str, list[Any]]:
        return {name: [unloaded] * 3 for name in cases}

    monkeypatch.setattr(Lab, "play", play)
    lab = Lab()
    assert pages.page(lab) == {}
    assert lab.failed["loaded"].endswith("completed within 410 s")
    assert set(lab.failed) == {check.id for check in experiments()["page-under-load"].checks}


def test_a_live_transfer_has_the_limit_of_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(_: Lab, cases: dict[Any, Any], **__: object) -> dict[Any, list[Any]]:
        return {key: [{"flows": [{"fct_s": None, "goodput_mbit": 1.0}]}] * 3 for key in cases}

    monkeypatch.setattr(Lab, "play", play)
    lab = Lab(engine=EngineChoice("live"))
    assert "1MB-bbr" not in pages.loss_by_rtt(lab)
    assert lab.failed["1MB-bbr"].endswith("within 120 s")
    assert lab.failed["1MB-cubic"].endswith("within 450 s")
    (times,) = (table for table in lab.tables if table.title.startswith("1 MB"))
    assert {row[-1] for row in times.rows} == {"above 120", "above 450"}


class Fetching(EngineChoice):
    """A live engine that loads each page at once."""

    def about(self) -> str:
        """Nothing of this machine."""
        return "fetching"

    def run(self, scenario: Any, *, progress: Any, **_: Any) -> Any:  # noqa: ANN401
        """A run that reports its half."""
        seconds = float(scenario.duration.removesuffix("s"))
        progress(seconds / 2, seconds)
        loaded = 232.0 if len(scenario.flows) > 1 else 8.0
        keys = ("setup_s", "waiting_s", "receiving_s", "setup_share", "before_data_share")
        workload = {"page_load_s": {"p50": loaded}, **dict.fromkeys(keys, 0.5)}
        probes = [{"rtt_ms": {"p50": 900.0}}]
        return SimpleNamespace(json={"flows": [{"workload": workload}], "probes": probes})


def test_a_live_page_takes_one_run_of_each_case_and_its_time_is_shown(tmp_path: Path) -> None:
    shown: list[tuple[int, int, str]] = []
    lab = Lab(engine=Fetching("live"), store=tmp_path, told=lambda *parts: shown.append(parts))
    ours = pages.page(lab)
    times = [current for _, _, current in shown if current]
    assert times == ["15 of 30 s of a run", "150 of 300 s of a run"]
    assert {planned for _, planned, _ in shown} == {2}
    assert shown[-1] == (2, 2, "")
    assert ours["loaded"] / ours["alone"] == ours["factor"] == 29
    # A page that takes as long as is accepted completes within the run.
    (loaded,) = (check for check in experiments()["page-under-load"].checks if check.id == "loaded")
    assert loaded.accept is not None
    assert pages._PAGE_START_S + loaded.accept[1] < pages._LIVE_PAGE_S["loaded"]


def test_the_column_of_figures_names_another_engine() -> None:
    live = replace(outcome(), engine=EngineChoice("live"))
    linux = replace(outcome(), engine=EngineChoice("linux", "0", "6.12"))
    for one, head in ((outcome(), "narrows"), (live, "live"), (linux, "linux 6.12")):
        text = render.markdown([one], "x")
        assert f"| metric | unit | published | accepted | {head} | result |" in text
        assert f"<th scope=col>{head}</th>" in render.page([one], "x")
