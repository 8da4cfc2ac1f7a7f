"""Figures for papers: charts of tables, bands over seeds, fonts, sizes, metadata, LaTeX tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import narrows as nw
from narrows.cli import main
from narrows.errors import NarrowsError
from narrows.inference import of_mean
from narrows.render.bands import _over_time, bands
from narrows.render.chart import chart, draw, table
from narrows.render.latex import latex
from narrows.render.picture import Line
from narrows.render.style import Style
from narrows.runs.replications import replicate

PATH = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp")
TWO = nw.Scenario(PATH, flows=[nw.Flow("cubic"), nw.Flow("bbr")], duration="4s", title="Two")

ROWS = [
    {"case": c, "seed": s, "path.rtt": rtt, "cc": cc, "y": 10.0 * (c + 1) + s + f, "flow_number": f}
    for c, rtt in enumerate(["5ms", "40ms", "1s"])
    for s in (1, 2, 3)
    for cc in ("cubic", "bbr")
    for f in (0, 1)
]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A table as a sweep writes it."""
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist([row | {"like": "linux-6.12"} for row in ROWS]), file)
    return file


def test_a_line_has_the_mean_over_seeds_with_its_interval() -> None:
    found = chart(pa.Table.from_pylist(ROWS), x="path.rtt", y="y", by="cc")
    assert found.x == "path.rtt (s)"
    assert [series.name for series in found.series] == ["cubic", "bbr"]
    assert found.series[0].x == pytest.approx([0.005, 0.04, 1.0])
    # The flows of a run are averaged first: three values, and not six.
    assert found.series[0].y[0] == of_mean([11.5, 12.5, 13.5])
    only = chart(pa.Table.from_pylist(ROWS), x="path.rtt", y="y", where={"cc": "bbr"})
    assert only.series[0].y[2].runs == 3


def test_a_distribution_has_a_step_for_each_row() -> None:
    found = chart(pa.Table.from_pylist(ROWS), y="y", by="cc", kind="cdf")
    (cubic, _) = found.series
    assert len(cubic.x) == 19
    assert [one.mean for one in cubic.y][:2] == [0.0, 1 / 18]
    assert cubic.y[-1].mean == 1
    assert table(found).rows[0][-1].text == "18"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"x": "path.rrt", "y": "y"}, "no column path.rrt; did you mean path.rtt?"),
        ({"y": "y"}, "write --x COLUMN, or --kind cdf"),
        ({"x": "path.rtt", "y": "y", "kind": "cdf"}, "omit --x"),
        ({"x": "path.rtt", "y": "cc"}, "column cc has no numbers"),
        ({"x": "path.rtt", "y": "y", "where": {"cc": "vegas"}}, "no numbers where cc = vegas"),
    ],
)
def test_data_that_cannot_be_drawn_are_errors(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(NarrowsError, match=re.escape(said)):
        chart(pa.Table.from_pylist(ROWS), name="rows.parquet", **asked)


def test_files_have_fonts_size_and_metadata(rows: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for suffix in ("pdf", "svg", "png"):
        words = [
            "plot", str(rows), "--x", "path.rtt", "--y", "y", "--by", "cc", "--log", "x,y",
            "--size", "84x60mm", "--font", "serif", "--font-size", "8", "--dpi", "300",
            "--out", str(tmp_path / f"a.{suffix}"),
        ]  # fmt: skip
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
    pdf = (tmp_path / "a.pdf").read_bytes()
    assert b"/Type3" not in pdf
    assert b"/CIDFontType2" in pdf
    assert b"narrows plot" in pdf
    media = re.search(rb"/MediaBox \[ 0 0 ([0-9.]+) ([0-9.]+) \]", pdf)
    assert media is not None
    assert [float(x) / 72 * 25.4 for x in media.groups()] == pytest.approx([84, 60], abs=0.1)
    svg = (tmp_path / "a.svg").read_text()
    assert "<text" in svg
    assert "path.rtt (s)" in svg
    assert "Kernel rules: linux-6.12." in svg
    assert f"Version: narrows {nw.__version__}" in svg
    png = (tmp_path / "a.png").read_bytes()
    assert b"Command: narrows plot" in png
    assert int.from_bytes(png[16:20], "big") == pytest.approx(84 / 25.4 * 300, abs=1)


def test_a_latex_table_has_the_means_and_the_command(rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.tex"
    words = ["plot", str(rows), "--x", "path.rtt", "--y", "y", "--by", "cc", "--out", str(out)]
    assert CliRunner().invoke(main, words).exit_code == 0
    text = out.read_text()
    assert text.startswith("% Command: narrows plot ")
    assert r"path.rtt (s) & cubic & bbr \\" in text
    assert r"0.005 & 12 $\pm$ 2 & 12 $\pm$ 2 \\" in text
    assert text.count(r"\midrule") == 1
    odd = chart(pa.Table.from_pylist([{"a_b": "50%", "y": 1.0}]), x="a_b", y="y")
    assert r"a\_b (\%)" in latex(table(odd))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "a.gif"], "write --out figure.pdf"),
        (["--out", "a.pdf", "--size", "8"], "write width and height"),
        (["--out", "a.pdf", "--log", "z"], "write x, y or x,y"),
        (["--out", "a.pdf", "--where", "cc"], "write COLUMN=VALUE"),
        (["--out", "a.pdf", "--font", "No Such Font"], "is not installed"),
    ],
)
def test_wrong_options_are_errors(
    words: list[str], said: str, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["plot", str(rows), "--x", "path.rtt", "--y", "y", *words])
    assert (done.exit_code, said in done.output) == (2, True), done.output


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        ("seed,x,y\n1,1,1e308\n2,1,1e308\n", ["--x", "x"], "column y has values beyond ±1e+100"),
        ("seed,x,y\n1,1,1e308\n2,1,-1e308\n", ["--kind", "cdf"], "column y has values beyond"),
        ("seed,x,y\n1,-1e300,1\n1,2,1\n", ["--x", "x"], "column x has values beyond"),
        ("seed,x,y\n1,0,-1\n2,0,-2\n", ["--x", "x", "--log", "y"], "--log y: y has no positive"),
        ("seed,x,y\n1,0,1\n2,0,2\n", ["--x", "x", "--log", "x"], "--log x: x has no positive"),
        ("seed,x,y\n1,a,1\n2,b,2\n", ["--x", "x", "--log", "x,y"], "--log x: x has no positive"),
        ("", ["--x", "x"], "is damaged or no table"),
        ("seed,x,y\n", ["--x", "x"], "column y has no numbers"),
        ("seed,x,y\n1,1,nan\n2,1,inf\n", ["--x", "x"], "column y has no numbers"),
    ],
)
def test_values_that_no_figure_can_show_are_errors(
    content: str, words: list[str], said: str, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "a.csv").write_text(content)
    out = tmp_path / "b.svg"
    done = CliRunner().invoke(
        main, ["plot", str(tmp_path / "a.csv"), "--y", "y", "--out", str(out), *words]
    )
    assert (done.exit_code, said in done.output) == (2, True), done.output
    assert "Traceback" not in done.output
    assert not out.exists()


def test_a_png_has_a_limit_of_its_pixels(rows: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "a.png"
    words = ["plot", str(rows), "--x", "path.rtt", "--y", "y", "--out", str(out)]
    done = CliRunner().invoke(main, [*words, "--size", "500x500mm", "--dpi", "2400"])
    assert done.exit_code == 2
    assert "a.png: 2232 million pixels; a figure has at most 200 million" in done.output
    assert "or --dpi 718" in done.output
    assert not out.exists()


def test_a_damaged_table_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    file.write_bytes(b"no table")
    done = CliRunner().invoke(
        main, ["plot", str(file), "--y", "y", "--out", str(tmp_path / "b.tex")]
    )
    assert (done.exit_code, "is damaged or no table" in done.output) == (2, True)


def test_a_token_is_in_no_figure() -> None:
    import click  # noqa: PLC0415

    from narrows.storage.command_line import command, remember  # noqa: PLC0415

    with click.Context(click.Command("a")) as context:
        remember(context, ["measure", "--token", "secret", "--plot=a.png", "--token=hidden"])
        assert command() == "narrows measure --token … --plot=a.png --token=…".replace(
            "--token …", "--token '…'"
        ).replace("--token=…", "'--token=…'")


def test_bands_are_means_of_the_runs(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = replicate(TWO, seeds=3, sample_interval="100ms")
    by_key = {picture.key: picture for picture in bands(found.runs)}
    line = by_key["throughput"].lines[0]
    at = line.x.index(2.0)
    values = [
        row["goodput_mbit"]
        for run in found.runs
        for row in run.samples.to_pylist()
        if row["flow"] == "cubic0" and abs(row["t_s"] - 2) < 1e-9
    ]
    one = of_mean(values)
    assert (line.y[at], line.high[at]) == (one.mean, one.high)  # type: ignore[index]
    delay = by_key["delay"].lines[0]
    assert delay.y[-1] == 1
    assert list(delay.y) == sorted(delay.y)  # type: ignore[type-var]
    figure = found.plot(tmp_path / "a.svg", only=["throughput", "queue"])
    assert len(figure.axes) == 2
    assert "linux-6.12" in (tmp_path / "a.svg").read_text()
    file = tmp_path / "two.toml"
    file.write_text(TWO.toml())
    words = ["run", str(file), "--seeds", "2", "--quiet", "--plot", str(tmp_path / "b.png")]
    assert CliRunner().invoke(main, words).exit_code == 0
    both = ["compare", str(file), str(file), "--seeds", "2", "--plot", str(tmp_path / "c.png")]
    assert CliRunner().invoke(main, both).exit_code == 0


def test_the_band_of_a_negative_state_contains_its_mean() -> None:
    values: list[list[float | None]] = [[-5.0, 1.0], [-3.0, 2.0], [-4.0, 4.0]]
    lines = [Line("state", None, "line", [0.0, 1.0], y) for y in values]
    found = _over_time(lines)
    assert found.low is not None
    assert found.high is not None
    assert found.y[0] == -4
    assert found.low[0] == pytest.approx(-4 - 2.4841, abs=1e-3)
    assert found.high[0] == pytest.approx(-4 + 2.4841, abs=1e-3)
    positive = _over_time([Line("goodput", None, "line", [0.0], [y]) for y in (0.1, 5.0)])
    assert positive.low == [0.0]


def test_charts_of_many_values_have_bands_and_of_few_have_bars() -> None:
    pytest.importorskip("matplotlib")
    found = chart(pa.Table.from_pylist(ROWS), x="path.rtt", y="y")
    bars = draw([found], style=Style())
    assert len(bars.axes[0].containers) == 1
    band = draw([found], style=Style(look="print"), spread="band")
    assert len(band.axes[0].collections) == 1
    assert list(draw([found], style=Style(), spread="none").axes[0].collections) == []


def test_internal_states_are_pictures() -> None:
    pytest.importorskip("matplotlib")
    run = nw.run(TWO, states=True)
    figure = run.plot(only=["throughput", "state"])
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels[:3] == ["goodput (Mbit/s)", "w_max", "epoch_start_s"]
    assert any(label.startswith("mode: 0 startup, 1 ") for label in labels)
    assert "bw_packets_per_s" in labels
    assert len(nw.run(TWO).plot(only=["throughput", "state"]).axes) == 1
