"""`narrows conform`: verdicts, the checks on sound and broken congestion controls, transports."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from conftest import Cli

import narrows as nw
from narrows import _core, registry
from narrows.conform.check import Check
from narrows.conform.metrics import retransmits
from narrows.conform.running import conform
from narrows.conform.suites import SUITES, checks
from narrows.conform.target import Target, find
from narrows.errors import NarrowsError
from narrows.models import loaded, plugins
from narrows.runs.scenario import from_tree

ROOT = Path(__file__).parents[2]
MUTANTS = {
    "deaf": "share-of-reno-1",
    "stubborn": "closed-form-reno",
    "meek": "reduction-reno",
    "hasty": "initial-window",
    "steep": "start-up-growth",
    "flat": "start-up-goodput",
    "greedy": "closed-form-reno",
    "timid": "closed-form-reno",
    "small": "steady-goodput",
    "fixed": "retransmits",
    "sleepy": "idle-restart",
}
"""Each broken Reno of `validation/conform_mutants.py`, and a check that it fails."""

TRANSPORTS = ("quinn:cubic", "noq:cubic", "smoltcp:reno", "quiche:cubic")


def check(least: float, most: float) -> Check:
    return Check(
        name="it",
        suite="basics",
        question="it",
        source="this test",
        scenario=lambda target: {"flow": [target.flow()]},
        metric=retransmits,
        least=least,
        most=most,
    )


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([2.0, 2.1, 2.2], "pass"),
        ([4.0, 4.1, 4.2], "fail"),
        ([2.5, 3.0, 3.5], "not decided"),
        ([2.0, None], "not decided"),
        ([2.0], "pass"),
    ],
)
def test_a_verdict_follows_from_the_interval(values: list[float | None], verdict: str) -> None:
    assert check(1, 3).judge(values).verdict == verdict


def test_an_undecided_check_states_how_many_seeds_would_decide_it() -> None:
    # Mean 2.8 and standard deviation 0.36. 15 seeds have an interval of 2.6 to 3.0.
    result = check(1, 3).judge([2.4, 2.9, 3.1])
    assert result.reason == "the interval contains a limit; some 15 seeds would decide it"
    result = check(1, 3).judge([2.9, 3.1001])
    assert "more than 200 seeds" in result.reason


def test_names_of_checks_are_unique_and_each_has_a_source() -> None:
    every = checks("all")
    assert len({one.name for one in every}) == len(every)
    assert all(one.source and one.least < one.most for one in every)
    assert all({one.name for one in checks(suite)} <= {c.name for c in every} for suite in SUITES)


@pytest.fixture(scope="module")
def mutants() -> Iterator[None]:
    """The mutants are loaded while a test of this module runs; other tests list all models."""
    plugins.load(ROOT / "validation" / "conform_mutants.py")
    added = loaded.LOADED[-1].models
    yield
    for of, name in added:
        _core.unregister(of, name)
    plugins._forget(added)
    registry.forget()


@pytest.mark.usefixtures("mutants")
@pytest.mark.parametrize(("name", "broken"), MUTANTS.items())
def test_a_broken_reno_fails(name: str, broken: str) -> None:
    found = conform(find(name, "reno"), "all", seeds=3, only=[broken])
    assert [result.verdict for result in found.results] == ["fail"], found.json()


@pytest.mark.usefixtures("mutants")
def test_the_unmodified_reno_passes() -> None:
    names = set(MUTANTS.values())
    found = conform(find("sound", "reno"), "all", seeds=3, only=sorted(names))
    assert found.count("pass") == len(names), found.json()


def test_an_unknown_target_names_the_remedy() -> None:
    with pytest.raises(NarrowsError, match="--plugin nothing"):
        find("nothing")
    with pytest.raises(NarrowsError, match="the transport is missing; write cubic or"):
        find(":cubic")


def test_an_adapter_that_is_not_built_names_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(plugins, "ADAPTERS", tmp_path)
    with pytest.raises(NarrowsError, match="not built; write make adapters ADAPTERS='noq'"):
        plugins.load("noq")


def test_a_check_of_another_suite_names_the_suite(command: Cli) -> None:
    done = command("conform", "cubic", "--suite", "basics", "--only", "late-flow")
    assert done.returncode == 2
    assert "--only late-flow: this check is not in suite basics" in done.stderr
    assert "write --suite fairness" in done.stderr


def test_the_total_counts_checks_that_do_not_apply(command: Cli) -> None:
    done = command("conform", "cubic", "--only", "rtt,bbr-drain-gain", "--seeds", 1)
    assert "1 check passed, 0 failed, 0 not decided, 1 not applicable" in done.stdout


def test_the_command_writes_json_and_junit(command: Cli, tmp_path: Path) -> None:
    done = command(
        "conform", "cubic", "--only", "steady-goodput,reduction-reno", "--seeds", 2, "--json",
        "--junit", "it.xml",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [each["verdict"] for each in found["checks"]] == ["pass", "not applicable"]
    suite = Xml.parse(tmp_path / "it.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "0", "1")


def test_the_exit_code_is_that_of_a_failure(cli: Cli) -> None:
    plugin = ROOT / "validation" / "conform_mutants.py"
    done = cli(
        "conform", "small", "--plugin", plugin, "--only", "steady-goodput", "--seeds", 2,
        "--report", "it.html",
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "fail" in done.stdout
    assert "expected 85 to 100 %" in done.stdout


@pytest.mark.parametrize("name", TRANSPORTS)
def test_a_transport_reaches_the_closed_form_and_repeats(name: str) -> None:
    transport, _, cc = name.partition(":")
    if not list(plugins.ADAPTERS.glob(f"libnarrows_{transport}.*")):
        pytest.skip("the adapters are not built (make adapters)")
    plugins.load(transport)
    target = find(name)
    assert target.version.startswith(transport)
    found = conform(target, "basics", seeds=2, only=["steady-goodput", "rtt", "initial-window"])
    verdicts = {result.check.name: result.verdict for result in found.results}
    assert verdicts["rtt"] == "pass", found.json()
    if transport != "smoltcp":
        assert set(verdicts.values()) == {"pass"}, found.json()
    beside = from_tree(
        {
            "duration": "10s",
            "path": {"rate": "20Mbit", "rtt": "40ms", "buffer": "1bdp", "loss": 0.001},
            "flow": [Target(cc=cc, family="loss", transport=transport).flow(), {"cc": "cubic"}],
        }
    )
    once, again = (nw.run(beside).json for _ in range(2))
    assert once["flows"] == again["flows"]
    assert all((flow["goodput_mbit"] or 0) > 0.5 for flow in once["flows"])


def test_a_transport_that_is_not_loaded_is_an_error_with_its_remedy(
    cli: Cli, tmp_path: Path
) -> None:
    text = '[path]\nrate = "10Mbit"\nrtt = "20ms"\n[[flow]]\ntransport = "nothing"\n'
    (tmp_path / "it.toml").write_text(text)
    done: subprocess.CompletedProcess[str] = cli("run", "it.toml")
    assert done.returncode == 2
    assert "it.toml:5: flow[0].transport" in done.stderr
    assert "make adapters" in done.stderr


def test_the_page_has_every_check_with_its_range_and_source() -> None:
    page = (ROOT / "docs/reference/conform.md").read_text(encoding="utf-8")
    for one in checks("all"):
        allowed = f"{one.least:.6g} to {one.most:.6g} {one.unit}".strip()
        row = f"| `{one.name}` | {one.suite} | {one.question} | {allowed} | {one.source} |"
        assert row in page, row
