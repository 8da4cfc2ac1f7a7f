"""The ladder: its files, and the effect of each rung."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import ROOT
from pages import RENEW, TOLD

import narrows as nw
from narrows import _core
from narrows.runs.scenario import from_tree
from narrows.teach import ladder

FOLDER = ROOT / "scenarios/ladder"


@pytest.fixture(scope="module")
def rows() -> dict[str, ladder.Row]:
    """The results of every run, by its name."""
    return {
        name: ladder.row(
            nw.run(from_tree(_core.toml_to_tree(f'title = "{name}"\n{toml}', name))).json
        )
        for name, toml in ladder.scenarios().items()
    }


def test_the_files_are_the_rungs() -> None:
    rungs = dict(ladder.file(i) for i in range(len(ladder.RUNGS)))
    if RENEW:
        FOLDER.mkdir(exist_ok=True)
        for name, text in rungs.items():
            (FOLDER / name).write_text(text, encoding="utf-8")
    assert {file.name: file.read_text(encoding="utf-8") for file in FOLDER.glob("*")} == rungs, TOLD


def test_the_picture_has_the_values_of_the_rungs(
    rows: dict[str, ladder.Row], tmp_path: Path
) -> None:
    """The picture of the page is not compared; `make renew` writes it."""
    stored = ROOT / "docs/pictures/ladder.png"
    home = list(rows.values())[: len(ladder.RUNGS)]
    figure = ladder.picture(home, stored if RENEW else tmp_path / "ladder.png")
    ping, page = (axes.patches for axes in figure.axes)
    assert [bar.get_width() for bar in ping] == [row.ping_p95 - 20 for row in home]
    assert [bar.get_width() for bar in page] == [row.page for row in home]
    assert stored.read_bytes().startswith(b"\x89PNG")


def test_byte_queue_limits_reduce_the_delay_of_the_low_delay_class_only(
    rows: dict[str, ladder.Row],
) -> None:
    before, bql = rows["3.2 before"], rows["3.3 BQL"]
    assert bql.low_delay_p95 < before.low_delay_p95 / 5
    assert bql.ping_p95 > 0.9 * before.ping_p95


def test_random_drops_from_the_queue_of_a_flow_cost_goodput(rows: dict[str, ladder.Row]) -> None:
    bql, sfq, codel = rows["3.3 BQL"], rows["3.4 SFQ with RED"], rows["3.5 fq_codel"]
    assert sfq.large_rtt < bql.large_rtt / 5
    assert sfq.large_mbit < 0.9 * codel.large_mbit


def test_fq_codel_reduces_the_delay_of_pings_and_pages(rows: dict[str, ladder.Row]) -> None:
    bql, codel = rows["3.3 BQL"], rows["3.5 fq_codel"]
    assert codel.ping_p95 < bql.ping_p95 / 5
    assert codel.page < bql.page / 5
    assert codel.dropped > 0


def test_tcp_small_queues_cause_no_drops_in_the_sending_host(rows: dict[str, ladder.Row]) -> None:
    """The commit that added them reports less than 8 ms at 100 Mbit/s, instead of 132."""
    codel, small = rows["3.5 fq_codel"], rows["3.6 small queues"]
    assert (small.dropped, small.again) == (0, 0)
    assert small.large_rtt < codel.large_rtt
    assert 20 + 5 < small.large_rtt < 20 + 8


def test_smaller_bursts_and_a_finer_clock_are_shorter_waits(rows: dict[str, ladder.Row]) -> None:
    names = ("3.6 small queues", "3.12 autosizing", "3.12 fq", "3.15 microseconds")
    waits = [rows[name].ping_p95 - 20 for name in names]
    assert waits == sorted(waits, reverse=True)
    assert waits[1] < waits[0] / 2
    assert waits[3] < waits[1] * 0.7


def test_beyond_the_host_only_bbr_reduces_the_delay_with_or_without_fq(
    rows: dict[str, ladder.Row],
) -> None:
    before, fine, bbr, by_itself = (
        rows[f"{ladder.BEYOND}{name}"]
        for name in ("3.2 before", "3.15 microseconds", "4.9 BBR", "4.13 pacing by TCP")
    )
    assert fine.ping > 0.9 * before.ping
    assert bbr.ping < 0.7 * fine.ping
    assert by_itself.ping == pytest.approx(bbr.ping, rel=0.05)
