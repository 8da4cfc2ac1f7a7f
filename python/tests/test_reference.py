"""Reference cases: their families, their recording and their files.

A simulation takes the place of the kernel.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import ROOT

import narrows as nw
from narrows import _core
from narrows.cli import main
from narrows.errors import EngineError, NarrowsError
from narrows.kernel import store
from narrows.reference import agreement, record
from narrows.reference.command import SEEDS
from narrows.reference.families import Family, chosen, families
from narrows.reference.stored import Case, parse, written
from narrows.runs import engines

EASY = ("fifo", "loss", "pairs")
HARD = (
    "reverse", "jitter", "rates", "onoff", "applimited", "many", "fast", "hostfq", "hostqueue",
    "hops", "fct",
)  # fmt: skip


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> store.Kernel:
    """A kernel that the cache contains."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    binary = tmp_path / "linux"
    binary.write_text("no kernel", encoding="utf-8")
    made = store.Kernel(
        name="6.12",
        release="6.12.9",
        key="0123456789abcdef",
        configuration=store.configuration_hash(),
        source="",
        origin="linux-source-6.12 6.12.9-1",
        patches={},
        build_s=1.0,
    )
    store.add(made, binary)
    return made


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The runs of the engine `linux`, as start and seed; each one is a simulation."""
    runs = []
    run = nw.run

    def one(scenario: nw.Scenario, **how: Any) -> nw.Run:  # noqa: ANN401 - those of `run`
        flows = scenario.tree()["flow"]
        if flows[0]["cc"] == "westwood":
            raise EngineError("this kernel has no congestion control westwood")
        runs.append((flows[0].get("start", "0s"), how["seed"]))
        return run(scenario, **how | {"engine": "sim", "kernel": None})

    monkeypatch.setattr(engines, "run", one)
    return runs


def test_each_family_has_twenty_cases_that_the_engine_supports() -> None:
    known = families()
    assert tuple(known) == (*EASY, *HARD)
    for family in known.values():
        assert len(family.cases) >= 20, family.name
        for name, tree in family.cases.items():
            text = record.text(tree)
            _core.check_toml(text, name)
            case = parse(f"== {name}\n{text}--\n", Case)[0]
            assert case.family == family.name
            assert agreement.can_run(case)
            assert case.rate_mbit > 0
            assert case.rtt_ms > 0
            assert list(record.wanted(case))
            for flow in tree["flow"]:
                assert isinstance(flow["cc"], str), "a kernel takes no parameters"


def test_later_runs_start_later_on_the_same_path() -> None:
    (family,) = chosen("onoff", "onoff-cubic-2-2").values()
    (tree,) = family.cases.values()
    later = record.shifted(tree, 2)
    assert later["path"] == tree["path"]
    assert (
        later["flow"][0] | {"start": "0.311s", "stop": "4.311s", "restart": "6.311s"}
        == (later["flow"][0])
    )
    assert record.shifted(tree, 0) == tree
    transfers = record.shifted(next(iter(families()["fct"].cases.values())), 1)["flow"]
    assert transfers[0]["start"] == "0.137s"


def test_a_written_case_is_read_unchanged() -> None:
    for family, only in (("fifo", "fifo-bbr-10-20-1"), ("fct", "fct-cubic-15-0-2")):
        (name, tree), = chosen(family, only)[family].cases.items()  # fmt: skip
        runs = [
            json.loads(
                _core.run_tree(record.shifted(tree, n), seed=n + 1, sample_interval="off").json()
            )
            for n in range(3)
        ]
        case = record.measured(name, tree, runs)
        (again,) = parse("# a comment\n\n" + written(case), Case)
        assert (again.name, again.toml) == (case.name, case.toml)
        assert again.scenario == case.scenario
        labels = [figure.label for figure in again.figures]
        if family == "fct":
            assert labels == ["fct_p50_s cubic", "fct_p95_s cubic", "fct_p99_s cubic"]
            p50, p95, p99 = (figure.runs[0] for figure in again.figures)
            assert 0.04 < p50 <= p95 <= p99
        else:
            assert labels[:3] == ["goodput_mbit bbr", "srtt_ms bbr", "retransmit_pct bbr"]
            assert labels[-2:] == ["ping_p50_ms", "ping_p95_ms"]
        assert [len(f.runs) for f in again.figures] == [
            1 if f.kind == "acked_mb" else 3 for f in again.figures
        ]
        assert agreement.itself(again) is True


def test_stored_cases_of_the_project_keep_their_text() -> None:
    for file in sorted((ROOT / "sim/tests/data/reference").glob("*.txt")):
        cases = parse(file.read_text(encoding="utf-8"), Case)
        assert cases
        assert parse("\n".join(map(written, cases)), Case) == cases


def test_a_recording_is_compared_and_continues(
    kernel: store.Kernel, simulated: list[tuple[str, int]], tmp_path: Path
) -> None:
    into = tmp_path / "reference"
    words = ["record-reference", "--families", "fifo", "--out", str(into), "--json", "--cases"]
    done = CliRunner().invoke(main, [*words, "fifo-*-10-20-1"])
    found = json.loads(done.stdout)
    assert done.exit_code == 1, "westwood is missing"
    assert found["failed"] == {
        "fifo-westwood-10-20-1": "this kernel has no congestion control westwood"
    }
    assert found["recorded"] == 3
    assert sorted(simulated) == sorted(3 * [("0s", 1), ("0.137s", 2), ("0.311s", 3)])
    (family,) = found["families"]
    assert (family["family"], family["cases"], family["linux_known"]) == ("fifo", 3, 3)
    # The reference is the simulator itself.
    assert family["agree"] == 3
    file = into / "linux-6.12-fifo.txt"
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# Reference cases of Linux 6.12.9: one flow at a drop-tail queue.\n")
    assert f"key {kernel.key}" in text
    again = json.loads(CliRunner().invoke(main, [*words, "fifo-bbr-10-20-*"]).stdout)
    assert (again["recorded"], again["kept"]) == (2, 1)
    compared = CliRunner().invoke(main, [*words, "*", "--compare"])
    assert json.loads(compared.stdout)["families"][0]["cases"] == 5
    assert compared.exit_code == 0
    names = [case.name for case in record.load([file])]
    assert names == [name for name in families()["fifo"].cases if name in names]
    # Another kernel does not add to the file.
    file.write_text(text.replace(kernel.key, "f" * 16), encoding="utf-8")
    done = CliRunner().invoke(main, [*words, "fifo-reno-*"])
    assert done.exit_code == 2
    assert "was recorded with another kernel; write --out DIR" in done.stderr


def test_super_packets_use_the_queue_disciplines_of_narrows() -> None:
    trees = [(name, tree) for name, of in families().items() for tree in of.cases.values()]
    assert {name for name, tree in trees if record.queues_of(tree)} == {"fast"}


def test_the_table_has_the_agreement_of_linux_with_itself(
    kernel: store.Kernel, simulated: list[tuple[str, int]], tmp_path: Path
) -> None:
    done = CliRunner().invoke(
        main,
        ["record-reference", "--families", "fifo", "--cases", "fifo-bbr-10-20-1", "--out",
         str(tmp_path / "r")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert kernel.name in "".join(path.name for path in (tmp_path / "r").iterdir())
    assert "1 cases recorded, 0 kept" in done.output
    assert "Linux agrees with itself" in done.output
    assert "1 of 1" in done.output
    assert len(simulated) == SEEDS


@pytest.mark.parametrize(
    ("names", "only", "said"),
    [
        ("fifo,luck", "*", "--families luck: no such family; write all, or some of fifo, loss"),
        ("all", "Z-*", r"--cases Z-\*: no case has such a name"),
    ],
)
def test_unknown_families_and_cases_are_errors(names: str, only: str, said: str) -> None:
    with pytest.raises(NarrowsError, match=said):
        chosen(names, only)


def test_without_families_the_command_lists_them() -> None:
    done = CliRunner().invoke(main, ["record-reference"])
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.output.splitlines()] == [*EASY, *HARD]


def test_the_rate_is_relative_to_that_of_linux() -> None:
    one = agreement.Family(name="x", cases=10, agree=9, itself=18, known=20)
    assert one.relative == pytest.approx(1.0)
    assert agreement.Family(name="x", cases=1, agree=1, itself=0, known=0).relative is None
    assert isinstance(families()["fifo"], Family)
