"""The shared options of figures: size, fonts, axes, LaTeX tables, internal states; and figures in
notebooks.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from test_compare_latency import result

import narrows as nw
from narrows.cli import main
from narrows.latency.render import plot as plot_latency
from narrows.render.style import Style
from narrows.runs.race import plot as plot_race
from narrows.runs.race import race

PATH = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp")
TWO = nw.Scenario(PATH, flows=[nw.Flow("cubic"), nw.Flow("bbr")], duration="4s", title="Two")

COMMANDS = {
    "run": ["run", "two.toml"],
    "seeds": ["run", "two.toml", "--seeds", "2"],
    "race": ["race", "--only", "cubic,bbr", "--duration", "4s", "--seeds", "2"],
    "compare": ["compare", "two.toml", "two.toml"],
    "compare seeds": ["compare", "two.toml", "two.toml", "--seeds", "2"],
}
"""Commands that draw, with few and short runs."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a scenario."""
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    Path("two.toml").write_text(TWO.toml(), encoding="utf-8")
    return tmp_path


def call(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.mark.usefixtures("one_picture")
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_that_draws_has_the_options_of_figures(name: str, place: Path) -> None:
    appearance = ["--size", "150x250mm", "--font", "serif", "--font-size", "6", "--look", "print"]
    done = call(*COMMANDS[name], "--plot", "a.pdf", *appearance, "--log", "x,y")
    assert done.exit_code == 0, done.output
    pdf = (place / "a.pdf").read_bytes()
    media = re.search(rb"/MediaBox \[ 0 0 ([0-9.]+) ([0-9.]+) \]", pdf)
    assert media is not None
    assert [float(x) / 72 * 25.4 for x in media.groups()] == pytest.approx([150, 250], abs=0.1)
    assert b"Serif" in pdf
    assert b"Kernel rules: linux-6.12" in pdf
    done = call(*COMMANDS[name], "--plot", "a.png", "--dpi", "50", "--size", "10x8in")
    assert done.exit_code == 0, done.output
    png = (place / "a.png").read_bytes()
    assert (int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")) == (500, 400)
    assert b"Command: narrows " in png


def test_a_study_has_the_options_of_figures(place: Path) -> None:
    words = ["study", "fairness", "--quick", "--seeds", "2", "--plot", "a.svg", "--latex", "a.tex"]
    done = call(*words, "--look", "print", "--font-size", "12", "--size", "200x200mm")
    assert done.exit_code == 0, done.output
    svg = (place / "a.svg").read_text(encoding="utf-8")
    assert "Kernel rules: linux-6.12." in svg
    assert f'width="{200 / 25.4 * 72:.6f}pt"'[:12] in svg
    colours = set(re.findall(r"#[0-9a-f]{6}", svg))
    assert {c for c in colours if not c[1:3] == c[3:5] == c[5:7]} == set()
    tex = (place / "a.tex").read_text(encoding="utf-8")
    assert tex.count(r"\begin{tabular}") == tex.count("% Command: narrows study fairness") > 1
    assert r"$\pm$" in tex


def test_the_font_size_scales_every_text() -> None:
    pytest.importorskip("matplotlib")
    run = nw.run(TWO, sample_interval="pictures")
    small, large = (run.plot(style=Style(font_size=size)) for size in (9, 18))
    for of in ("xaxis", "yaxis"):
        sizes = [getattr(one.axes[0], of).label.get_size() for one in (small, large)]
        assert sizes == [8, 16]
        ticks = [getattr(one.axes[0], of).get_ticklabels()[0].get_size() for one in (small, large)]
        assert ticks == [8, 16]


def test_logarithmic_axes_are_those_that_were_requested() -> None:
    pytest.importorskip("matplotlib")
    run = nw.run(TWO, sample_interval="pictures")
    axes = run.plot(only=["rtt"], style=Style(log=frozenset({"x"}))).axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    found = race(PATH, only=["cubic"], duration_s=4, seeds=2)
    points, bars = plot_race(found, style=Style(log=frozenset({"x", "y"}))).axes
    assert (points.get_xscale(), points.get_yscale()) == ("log", "log")
    assert (bars.get_xscale(), bars.get_yscale()) == ("linear", "linear")


def test_a_plot_of_response_times_names_the_kernel(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    told = result("a", 1, 200.0, n=1000) | {"kernel": "6.12.48"}
    plot_latency([("a", told), ("b", told)], tmp_path / "a.svg", style=Style(look="print"))
    svg = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "Kernel rules: 6.12.48." in svg
    assert f"Version: narrows {nw.__version__}" in svg


@pytest.mark.parametrize("name", ["run", "seeds", "race", "compare seeds"])
def test_tables_are_written_as_latex(name: str, place: Path) -> None:
    done = call(*COMMANDS[name], "--latex", "a.tex")
    assert done.exit_code == 0, done.output
    tex = (place / "a.tex").read_text(encoding="utf-8")
    assert tex.startswith("% ")
    assert "% Command: narrows " in tex
    assert "Kernel rules: linux-6.12." in tex
    assert tex.count(r"\toprule") == tex.count(r"\bottomrule") >= 1
    assert "cubic" in tex or "goodput" in tex
    assert (r"$\pm$" in tex) == (name != "run")


def test_internal_states_are_drawn_on_request(place: Path) -> None:
    done = call("run", "two.toml", "--states", "--plot", "a.svg", "--report", "a.html")
    assert done.exit_code == 0, done.output
    assert "bw_packets_per_s" in (place / "a.svg").read_text(encoding="utf-8")
    html = (place / "a.html").read_text(encoding="utf-8")
    data = html.partition('type="application/json">')[2].partition("</script>")[0]
    keys = {picture["key"] for picture in json.loads(data)["runs"][0]["pictures"]}
    assert {"state.mode", "state.w_max"} <= keys
    assert call("run", "two.toml", "--plot", "b.svg").exit_code == 0
    assert "bw_packets_per_s" not in (place / "b.svg").read_text(encoding="utf-8")
    sketch = call("run", "two.toml", "--states", "--plot")
    assert "bw_packets_per_s" in sketch.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "two.toml", "--dpi", "300"], "--dpi: is for a file; write --plot figure.pdf"),
        (["run", "two.toml", "--plot", "--look", "print"], "--look: is for a file"),
        (["run", "two.toml", "--states"], "--states: requires --plot or --report"),
        (["run", "two.toml", "--latex", "a.txt"], "write --latex table.tex"),
        (["compare", "two.toml", "two.toml", "--latex", "a.tex"], "requires scenarios and --seeds"),
        (["run", "two.toml", "--plot", "a.pdf", "--size", "20x20mm"], "have no room in 20x20mm"),
        (["race", "--size", "9", "--plot", "a.png"], "write width and height"),
    ],
)
def test_options_without_effect_are_errors(words: list[str], said: str, place: Path) -> None:
    done = call(*words)
    assert (done.exit_code, said in done.output) == (2, True), done.output
    assert list(place.iterdir()) == [place / "two.toml"]


def test_a_notebook_shows_every_figure(place: Path) -> None:
    run = nw.run(TWO, sample_interval="pictures")
    found = nw.replicate(TWO, seeds=2, sample_interval="pictures")
    raced = race(PATH, only=["cubic"], duration_s=4, seeds=2)
    for figure in (
        run.plot(only=["throughput"]),
        nw.compare_plot([run, run], only=["queue"]),
        found.plot(only=["rtt"]),
        plot_race(raced),
        plot_latency([("a", result("a", 1, 200.0, n=1000))]),
    ):
        assert figure._repr_png_().startswith(b"\x89PNG")
        assert "<text" in figure._repr_svg_()


def test_options_of_a_command_have_different_names() -> None:
    context = click.Context(main)
    found = 0
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        options = [option for param in command.params for option in param.opts]
        assert len(options) == len(set(options)), name
        found += "--font-size" in options
    assert found == 7
