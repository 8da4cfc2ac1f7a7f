"""`narrows remy`, and scenarios that use its trees."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from conftest import TINY, Cli

import narrows as nw


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(n: int) -> bytes:
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def double(number: int, x: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", x)


def domain(low: float, high: float) -> bytes:
    def memory(ratio: float, others: float) -> bytes:
        return double(21, others) + double(22, others) + double(23, ratio)

    return field(1, field(11, memory(low, 0.0)) + field(12, memory(high, 163840.0)))


def leaf(low: float, high: float, increment: int, intersend: float) -> bytes:
    whisker = varint(31 << 3) + varint(2 * increment) + double(32, 1.0) + double(33, intersend)
    return domain(low, high) + field(3, whisker)


DNA = (
    domain(0.0, 163840.0) + field(2, leaf(0.0, 2.0, 1, 3.0)) + field(2, leaf(2.0, 163840.0, 0, 6.0))
)
TREE = """\
remy-tree 1
rtt_ratio < 2
  multiple 1 increment 1 intersend 3
  multiple 1 increment 0 intersend 6
"""


def test_a_file_of_remy_is_converted_to_a_tree_for_scenarios(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "two.dna").write_bytes(DNA)
    done = cli("remy", tmp_path / "two.dna", "-o", tmp_path / "two.remy")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 rules; ")
    assert (tmp_path / "two.remy").read_text(encoding="utf-8") == TREE

    scenario = tmp_path / "scenario.toml"
    scenario.write_text(
        TINY.replace('"cubic"', '{ kind = "remy", tree = "two.remy" }'), encoding="utf-8"
    )
    assert cli("check", scenario).returncode == 0
    # Found relative to the scenario, from everywhere.
    loaded = nw.load(scenario)
    assert isinstance(loaded.flows[0].cc, nw.cc.Remy)
    run = nw.run(loaded)
    assert list(run.files.values()) == [TREE]
    assert run.flows[0]["goodput_mbit"] == pytest.approx(1448 * 8 / 3000, rel=0.2)


def test_a_tree_beside_the_scenario_is_found_from_another_directory(
    cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "two.remy").write_text(TREE, encoding="utf-8")
    text = TINY.replace('"cubic"', '{ kind = "remy", tree = "two.remy" }')
    (tmp_path / "scenario.toml").write_text(text, encoding="utf-8")
    sums = []
    for tree in (TREE, TREE.replace("intersend 3", "intersend 4")):
        (tmp_path / "two.remy").write_text(tree, encoding="utf-8")
        done = cli("run", tmp_path / "scenario.toml", "--json")
        assert done.returncode == 0, done.stderr
        sums.append(json.loads(done.stdout)["provenance"]["scenario_sha256"])
    # The content of the file is part of the scenario.
    assert sums[0] != sums[1]


def test_a_tree_may_be_given_as_text() -> None:
    path = nw.Path(rate="10Mbit", rtt="20ms")
    texts = [nw.cc.Remy(tree=tree) for tree in (TREE, "small")] + [nw.cc.Remy()]
    own, small, default = (
        nw.run(nw.Scenario(path, flows=[nw.Flow(cc)], duration="3s", seed=1)) for cc in texts
    )
    assert own.flows[0]["goodput_mbit"] < small.flows[0]["goodput_mbit"]
    assert small.flows[0]["goodput_mbit"] == default.flows[0]["goodput_mbit"]


@pytest.mark.parametrize("content", [b"", b"\x00", b"hello", DNA[:-1], field(2, b"") * 1000])
def test_an_invalid_file_of_remy_is_an_error(cli: Cli, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.dna").write_bytes(content)
    done = cli("remy", tmp_path / "x.dna", "-o", tmp_path / "x.remy")
    assert (done.returncode, done.stdout) == (2, "")
    assert "use a .dna file that Remy wrote" in done.stderr
    assert not (tmp_path / "x.remy").exists()
