"""`narrows race`: the ranking of congestion controls on one path."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from click.testing import CliRunner

import narrows as nw
from narrows import cli
from narrows.errors import NarrowsError
from narrows.runs.race import FAIR, FIGURES, LIMITS, Lap, Race, plot, race, sentence

PATH = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp")


def test_a_race_is_reproducible() -> None:
    once, again = (
        race(PATH, only=["reno", "bbr"], duration_s=12, seeds=2).json() for _ in range(2)
    )
    assert once == again
    assert [lap["cc"] for lap in once["laps"]] == ["reno", "bbr"]


def test_results_are_those_of_separate_runs() -> None:
    lap = race(PATH, only=["bbr"], duration_s=12, seeds=1).laps[0]
    assert lap.intervals == {}
    alone = nw.run(
        nw.Scenario(PATH, flows=[nw.Flow("bbr", id="it")], duration="12s", seed=1)
    ).flows[0]
    assert lap.goodput_mbit == alone["goodput_mbit"]
    beside = [nw.Flow("bbr", id="it"), nw.Flow("cubic", id="rival")]
    it, rival = nw.run(
        nw.Scenario(PATH, flows=beside, duration="12s", seed=1, start_jitter="1.5s")
    ).flows
    assert lap.share_pct == pytest.approx(
        100 * it["goodput_mbit"] / (it["goodput_mbit"] + rival["goodput_mbit"])
    )
    assert 0.5 <= lap.jain <= 1


def test_in_a_fair_queue_a_later_flow_gets_its_share_at_once() -> None:
    path = nw.Path(rate="10Mbit", rtt="20ms", queue="fq_codel")
    lap = race(path, only=["cubic"], duration_s=12, seeds=2).laps[0]
    assert FAIR < 1
    assert lap.fair_in == 2
    assert lap.fair_after_s is not None
    assert lap.fair_after_s <= 2  # a fair queue gives it at once
    assert lap.jain > 0.99


def test_figures_are_means_over_seeds_with_their_intervals() -> None:
    found = race(PATH, only=["cubic", "vegas"], duration_s=12, seed=3, seeds=4)
    alone = [
        race(PATH, only=["cubic", "vegas"], duration_s=12, seed=seed, seeds=1).laps
        for seed in (3, 4, 5, 6)
    ]
    for nth, lap in enumerate(found.laps):
        assert (lap.seeds, found.seeds) == (4, 4)
        for name in ("goodput_mbit", "delay_p95_ms", "sent_again_pct", "share_pct", "jain"):
            values = [getattr(laps[nth], name) for laps in alone]
            assert getattr(lap, name) == pytest.approx(fmean(values))
            half = 3.182446 * stdev(values) / 2
            low, high = lap.intervals[name]
            assert low == pytest.approx(max(0.0, fmean(values) - half))
            assert high == pytest.approx(fmean(values) + half) or high == LIMITS[name]
        waits = [laps[nth].fair_after_s for laps in alone]
        assert lap.fair_in == sum(wait is not None for wait in waits)
    told = json.loads(json.dumps(found.json()))
    assert told["seeds"] == 4
    assert set(told["laps"][0]["intervals"]) <= set(FIGURES)


def test_the_sentence_names_results_without_a_significant_difference() -> None:
    of = {
        "family": "loss",
        "goodput_mbit": 9.5,
        "sent_again_pct": 0.0,
        "jain": 1.0,
        "fair_after_s": 1.0,
    }

    def lap(cc: str, share: float, half: float) -> Lap:
        spread = {"share_pct": (share - half, share + half), "delay_p95_ms": (share, share)}
        return Lap(
            cc=cc, delay_p95_ms=share, share_pct=share, intervals=spread, seeds=5, fair_in=5, **of
        )

    laps = [lap("a", 40.0, 6.0), lap("b", 44.0, 3.0), lap("c", 80.0, 2.0)]
    said = sentence(Race(path={}, duration_s=1, seed=1, laps=laps, left_out={}, seeds=5))
    assert "smallest for a (40 ± 6 %; no significant difference from b)" in said
    assert said.endswith("largest for c (80 ± 2 %).")


def test_a_race_has_every_listed_congestion_control() -> None:
    done = CliRunner().invoke(
        cli.main, ["race", "--rate", "5Mbit", "--duration", "4s", "--seeds", "1", "--json"]
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    listed = CliRunner().invoke(cli.main, ["list", "cc", "--json"])
    names = {kind["name"] for kind in json.loads(listed.output)["cc"]}
    assert {lap["cc"] for lap in found["laps"]} | set(found["left_out"]) == names


def test_a_table_and_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "race.svg"
    done = CliRunner().invoke(
        cli.main,
        [
            "race",
            "--only",
            "reno, cubic",
            "--duration",
            "8",
            "--seeds",
            "2",
            "--plot",
            str(picture),
        ],
    )
    assert done.exit_code == 0, done.output
    assert "beside CUBIC %" in done.output
    text = picture.read_text(encoding="utf-8")
    assert text.startswith("<?xml")


def test_an_invalid_argument_is_reported_once() -> None:
    with pytest.raises(
        NarrowsError, match="--only quick: not a known congestion control; known: reno"
    ):
        race(PATH, only=["quick"])
    done = CliRunner().invoke(cli.main, ["race", "--rate", "5Mbite"])
    assert done.exit_code == 2
    assert done.output.startswith("--rate 5Mbite: ")
    assert done.output.count("5Mbite") <= 2


def test_a_race_without_a_usable_congestion_control_is_an_error() -> None:
    done = CliRunner().invoke(cli.main, ["race", "--only", "xcp", "--duration", "4s"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "--only xcp: xcp needs routers that write into its packets; write --queue xcp, or other "
        "names\n"
    )
    found = race(PATH, only=["xcp", "reno"], duration_s=4, seeds=1)
    assert ([lap.cc for lap in found.laps], list(found.left_out)) == (["reno"], ["xcp"])


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("1x1mm", "write width and height from 20 mm to 50 inches"),
        ("20x20mm", "2 plots have no room in 20x20mm\n    write a larger size"),
    ],
)
def test_a_size_without_room_is_refused_before_the_simulations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str, said: str
) -> None:
    monkeypatch.setattr("narrows.runs.race.race", lambda *_, **_more: pytest.fail("it simulated"))
    words = ["race", "--only", "cubic", "--plot", str(tmp_path / "a.png"), "--size", size]
    done = CliRunner().invoke(cli.main, words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Warning" not in done.stderr


def test_names_in_the_picture_do_not_overlap() -> None:
    about: dict[str, Any] = {
        "family": "loss",
        "sent_again_pct": 0.0,
        "share_pct": 50.0,
        "jain": 1.0,
        "fair_after_s": 1.0,
    }
    laps = [
        Lap(cc=f"control{n}", goodput_mbit=18 + 0.01 * n, delay_p95_ms=40 + 0.2 * n, **about)
        for n in range(20)
    ]
    figure = plot(Race(path={}, duration_s=10, seed=1, laps=laps, left_out={}))
    points = figure.axes[0]
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in points.texts]
    assert len(boxes) == len(laps)
    together = [
        (a, b)
        for n, a in enumerate(boxes)
        for b in boxes[:n]
        if a.padded(-1).overlaps(b.padded(-1))
    ]
    assert not together
    assert all(box.x1 <= points.bbox.x1 + 4 for box in boxes)


def test_a_race_without_an_arrived_packet_has_no_results_and_a_reason(tmp_path: Path) -> None:
    # The first packet takes longer than the race.
    found = race(
        nw.Path(rate="50bit", rtt="20ms", buffer="10p"),
        only=["reno", "cubic"],
        duration_s=4,
        seeds=2,
    )
    for lap in found.laps:
        assert (lap.goodput_mbit, lap.delay_p95_ms, lap.share_pct, lap.jain) == (
            0,
            None,
            None,
            None,
        )
    assert sentence(found).startswith(
        "No packet arrived after the warm-up within 4 s: nothing can be compared"
    )
    plot(found, tmp_path / "race.svg")
    known = {
        "family": "loss",
        "goodput_mbit": 9.5,
        "sent_again_pct": 0,
        "jain": 1,
        "fair_after_s": 1,
    }
    one = Lap(cc="a", delay_p95_ms=3, share_pct=None, **known)  # type: ignore[arg-type]
    assert sentence(Race(path={}, duration_s=4, seed=1, laps=[one, *found.laps], left_out={})) == (
        "Lowest p95 queueing delay: a (3.0 ms)."
    )


def test_a_race_of_one_has_one_share() -> None:
    found = race(PATH, only=["vegas"], duration_s=12, seeds=2)
    assert "Share of the goodput beside a CUBIC flow: " in sentence(found)
    assert "smallest" not in sentence(found)
