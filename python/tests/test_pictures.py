"""Pictures: all drawn values are columns of the tables of the run, in the terminal, the plot and
the page.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import TINY, Cli, scenario

import narrows as nw
from narrows import _core
from narrows.render import words
from narrows.render.picture import KEYS, MOST_FLOWS
from narrows.render.pictures import pictures
from narrows.render.run_plots import sketch
from narrows.render.sketch import heading
from narrows.runs.scenario import from_tree
from narrows.teach import wifi_dials
from narrows.teach.lessons import LESSONS

QUEUES = {kind["name"] for kind in json.loads(_core.list_json())["queue"]}


@pytest.fixture(scope="module")
def run() -> nw.Run:
    """A run with everything that pictures need."""
    return nw.run(scenario(duration="5s"), sample_interval="pictures", verdicts=1000)


def test_every_picture_is_a_column_of_the_tables(run: nw.Run) -> None:
    drawn = {picture.key: picture for picture in pictures(run)}
    assert tuple(drawn) == KEYS
    samples = run.samples.to_pylist()
    for key, column, suffix in (
        ("throughput", "goodput_mbit", ""),
        ("rtt", "rtt_ms", ""),
        ("window", "cwnd_packets", " cwnd"),
        ("window", "in_flight_packets", " in flight"),
        ("losses", "retransmits", " retransmitted"),
    ):
        for place, flow in enumerate(run.flows):
            (line,) = (line for line in drawn[key].lines if line.label == flow["id"] + suffix)
            rows = [row for row in samples if row["flow"] == flow["id"]]
            assert line.flow == place
            values = [(r[column] or None) if key == "rtt" else r[column] for r in rows]
            assert (list(line.x), list(line.y)) == ([r["t_s"] for r in rows], values)
    queue = run.queue_samples.to_pylist()
    (backlog,) = drawn["queue"].lines
    assert list(backlog.y) == [row["backlog_bytes"] / 1000 for row in queue]
    by_label = {line.label: list(line.y) for line in drawn["losses"].lines}
    assert by_label["queue: dropped"] == [row["drops"] for row in queue]
    assert by_label["queue: marked"] == [row["marks"] for row in queue]
    (pings,) = (line for line in drawn["rtt"].lines if line.style == "points")
    assert list(pings.y) == run.pings["rtt_ms"].to_pylist()


def test_the_distribution_of_delays_has_the_percentiles_of_the_run(run: nw.Run) -> None:
    drawn = {picture.key: picture for picture in pictures(run)}
    wait = next(line for line in drawn["delay"].lines if line.label == "queueing delay")
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        at = next(x for x, y in zip(wait.x, wait.y, strict=True) if y is not None and y > share)
        assert float(f"{at:.6g}") == run.json["queue"]["delay_ms"][name]


def test_a_plot_of_response_times_has_its_own_axis() -> None:
    """Its axis in ms was that of the times of the run in s."""
    web = nw.Flow(id="page", workload={"kind": "web"})
    done = nw.run(nw.Scenario(nw.Path(rate="20Mbit", rtt="40ms"), flows=[web], duration="12s"))
    goodput, response = done.plot(only=["throughput", "work"]).axes
    work = {picture.key: picture for picture in pictures(done)}["work"]
    assert response.get_xlim()[1] >= max(x for line in work.lines for x in line.x)
    assert goodput.get_xlim()[1] < 20


def test_distributions_of_response_times_have_the_percentiles_of_the_run() -> None:
    path = nw.Path(rate="20Mbit", rtt="40ms", buffer="1bdp")
    flows = [
        nw.Flow(id="ask", workload={"kind": "rpc"}),
        nw.Flow(id="page", workload={"kind": "web", "objects": 5, "total": "50kB"}),
    ]
    run = nw.run(nw.Scenario(path=path, flows=flows, duration="5s"))
    work = {picture.key: picture for picture in pictures(run)}["work"]
    assert [line.label for line in work.lines] == ["ask: responses", "page: pages"]
    ask, page = work.lines
    at = next(x for x, y in zip(ask.x, ask.y, strict=True) if y is not None and y > 0.5)
    assert float(f"{at:.6g}") == run.json["flows"][0]["workload"]["response_ms"]["p50"]
    load_ms = 1000 * run.json["flows"][1]["workload"]["page_load_s"]["p50"]
    assert (page.x, page.y) == (pytest.approx([load_ms, load_ms], rel=1e-5), [0.0, 1.0])
    rtt = {picture.key: picture for picture in pictures(run)}["rtt"].lines[1]
    assert rtt.label == "page"
    assert rtt.y[-1] is None, "the page is there, and nothing is connected"


def test_the_last_sample_has_the_counts_of_the_run(run: nw.Run) -> None:
    last = run.queue_samples.to_pylist()[-1]
    assert (last["t_s"], last["drops"], last["marks"]) == (
        5.0,
        run.json["queue"]["drops"],
        run.json["queue"]["marks"],
    )


def test_every_axis_has_a_unit(run: nw.Run) -> None:
    for picture in pictures(run, ["pacing"]):
        assert re.search(r"\(\w+\)", picture.x), picture.x
        assert re.search(r"\(\S+\)|packets", picture.y), picture.y


def test_only_the_first_flows_are_drawn_and_the_caption_states_it() -> None:
    many = nw.run(
        scenario(flows=[nw.Flow("cubic", count=MOST_FLOWS + 3)]), sample_interval="pictures"
    )
    throughput = pictures(many)[0]
    assert len([line for line in throughput.lines if line.flow is not None]) == MOST_FLOWS
    assert f"The first {MOST_FLOWS} of {MOST_FLOWS + 3} flows" in throughput.about


def test_several_queues_have_separate_lines() -> None:
    hops = [nw.Hop(rate="20Mbit", rtt="5ms"), nw.Hop(rate="10Mbit", rtt="15ms", buffer="1bdp")]
    two = nw.Path(hop=hops, reverse=nw.Hop(rate="5Mbit"))
    several = nw.run(
        nw.Scenario(two, flows=[nw.Flow("cubic")], duration="3s"), sample_interval="pictures"
    )
    drawn = {picture.key: picture for picture in pictures(several)}
    assert [line.label for line in drawn["queue"].lines] == ["hop0", "hop1", "reverse"]


def test_a_run_without_samples_has_nothing_to_draw() -> None:
    with pytest.raises(nw.NarrowsError, match="no samples to draw"):
        nw.run(scenario(), sample_interval="off").plot()


@pytest.mark.parametrize(
    ("name", "begins"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("deep/a.pdf", b"%PDF")]
)
def test_the_suffix_selects_the_format_of_a_plot(
    run: nw.Run, tmp_path: Path, name: str, begins: bytes
) -> None:
    run.plot(tmp_path / name, only=["throughput"])
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_the_same_run_is_the_same_picture(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        nw.run(scenario()).plot(tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_print_needs_no_colour(run: nw.Run, tmp_path: Path) -> None:
    run.plot(tmp_path / "print.svg", look="print")
    colours = set(re.findall(r"#[0-9a-f]{6}", (tmp_path / "print.svg").read_text(encoding="utf-8")))
    assert {c for c in colours if not c[1:3] == c[3:5] == c[5:7]} == set()
    run.plot(tmp_path / "screen.svg", only=["throughput"])
    assert "#d55e00" in (tmp_path / "screen.svg").read_text(encoding="utf-8")


def test_flows_differ_in_print_without_colour(run: nw.Run) -> None:
    axes = run.plot(only=["throughput"], look="print").axes[0]
    lines = [line for line in axes.get_lines() if line.get_label() in {"cubic0", "cubic1"}]
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines}) == len(lines) == 2


def test_runs_side_by_side_have_the_same_axes(run: nw.Run) -> None:
    other = nw.run(scenario(flows=[nw.Flow("bbr")]), sample_interval="pictures")
    figure = nw.compare_plot([run, other], names=["two", "one"], only=["throughput", "delay"])
    grid = [figure.axes[0:2], figure.axes[2:4]]
    for row in grid:
        assert row[0].get_ylim() == row[1].get_ylim()
        assert row[0].get_xlim() == row[1].get_xlim()
    assert grid[0][0].get_xlim() != grid[1][0].get_xlim()
    assert grid[0][1].get_title(loc="left").startswith("one\n1 bbr flow used ")


def test_a_line_has_the_values_of_the_samples(run: nw.Run) -> None:
    axes = run.plot(only=["throughput"]).axes[0]
    (line,) = (line for line in axes.get_lines() if line.get_label() == "cubic0")
    rows = [row for row in run.samples.to_pylist() if row["flow"] == "cubic0"]
    points = zip(line.get_xdata(), line.get_ydata(), strict=True)
    known = [(x, y) for x, y in points if not math.isnan(y)]
    assert known == [(r["t_s"], r["goodput_mbit"]) for r in rows if r["goodput_mbit"] is not None]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"only": ["throughput", "weather"]},
            "`weather` among the plots; known: throughput, rtt",
        ),
        ({"look": "sepia"}, "look `sepia`"),
        ({"file": "plot.gif"}, "PNG, SVG or PDF"),
    ],
)
def test_invalid_arguments_are_errors(run: nw.Run, given: dict[str, object], told: str) -> None:
    with pytest.raises(nw.NarrowsError, match=re.escape(told)):
        run.plot(**given)  # type: ignore[arg-type]


def test_a_plot_that_cannot_be_written(run: nw.Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(nw.OutputError, match="file"):
        run.plot(tmp_path / "file" / "a.png", only=["throughput"])


def test_a_sketch_fits_and_shows_every_picture(run: nw.Run) -> None:
    for width in (60, 100):
        lines = [line.plain for line in sketch(run, width)]
        assert max(map(len, (line for line in lines if "┤" in line))) <= width
        assert {heading(picture) for picture in pictures(run)} <= set(lines)


@pytest.mark.usefixtures("one_picture")
def test_the_command_plots(command: Cli, tiny: Path, tmp_path: Path) -> None:
    plain = command("run", tiny)
    done = command("run", tiny, "--plot", "out.svg")
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, "")
    assert (tmp_path / "out.svg").exists()
    here = command("run", tiny, "--plot")
    assert here.stdout.startswith(plain.stdout)
    assert "Goodput (Mbit/s)" in here.stdout
    assert "\x1b" not in here.stdout


@pytest.mark.usefixtures("one_picture")
def test_plots_do_not_change_the_json(command: Cli, tiny: Path) -> None:
    def told(*args: str) -> dict[str, object]:
        done = command("run", tiny, "--json", *args)
        assert done.returncode == 0, done.stderr
        return {key: value for key, value in json.loads(done.stdout).items() if key != "provenance"}

    assert told() == told("--plot") == told("--plot", "a.png") == told("--report", "a.html")


def test_a_scenario_after_plot_is_an_error_with_a_remedy(command: Cli, tiny: Path) -> None:
    done = command("run", "--plot", tiny)
    assert done.returncode == 2
    assert "--plot tiny.png" in done.stderr
    assert "write --plot last" in done.stderr


@pytest.mark.parametrize("words", [["race"], ["study", "latency"], ["latency", "h"]])
def test_an_unknown_suffix_of_a_plot_is_an_error_with_a_remedy(
    command: Cli, words: list[str]
) -> None:
    done = command(*words, "--plot", "x.foo")
    assert (done.returncode, done.stderr.splitlines()) == (
        2, ["x.foo: a plot is written as PNG, SVG or PDF", "    write: --plot x.png"]
    )  # fmt: skip


def test_without_matplotlib_a_plot_is_an_error_and_a_sketch_works(tiny: Path) -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None; from narrows.cli import main; "
        "main(sys.argv[1:])"
    )  # fmt: skip
    for args, exit_code in ((["--plot", "a.png"], 2), (["--plot"], 0)):
        command = [sys.executable, "-c", code, "run", str(tiny), *args]
        done = subprocess.run(command, cwd=tiny.parent, capture_output=True, text=True, check=False)
        assert done.returncode == exit_code, done.stderr
        assert ("pip install 'narrows[plot]'" in done.stderr) == (exit_code == 2)
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("args", [["--report", "a.html"], ["--plot"]])
def test_only_a_plot_into_a_file_loads_matplotlib(tiny: Path, args: list[str]) -> None:
    code = (
        "import sys; from narrows.cli import main; main(sys.argv[1:], standalone_mode=False);"
        "print(*sorted({m.split('.')[0] for m in sys.modules}))"
    )
    command = [sys.executable, "-c", code, "run", str(tiny), *args]
    done = subprocess.run(command, cwd=tiny.parent, capture_output=True, text=True, check=True)
    assert "matplotlib" not in done.stdout.splitlines()[-1].split()


@pytest.mark.usefixtures("one_picture")
def test_several_scenarios_side_by_side(command: Cli, tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(TINY.replace("cubic", "bbr"), encoding="utf-8")
    done = command("compare", tiny, "b.toml", "--plot", "both.png", "--report", "both.html")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("tiny.toml: 2 cubic flows used ")
    assert lines[1].startswith("b.toml: 2 bbr flows used ")
    assert lines[2].startswith("Of these 2 runs, ")
    assert (tmp_path / "both.png").exists()
    assert (tmp_path / "both.html").exists()


def test_help_shows_the_optional_file_of_a_plot(command: Cli) -> None:
    assert "--plot [FILE]" in command("run", "--help").stdout
    assert "--report FILE" in command("run", "--help").stdout


def test_verdicts_are_a_table_of_bounded_length() -> None:
    every = nw.run(scenario(), verdicts=100_000)
    count = every.verdicts.num_rows
    assert count == every.json["queue"]["drops"] + every.json["queue"]["marks"] > 3
    assert every.verdicts_left_out == 0
    few = nw.run(scenario(), verdicts=3)
    assert (few.verdicts.num_rows, few.verdicts_left_out) == (3, count - 3)
    assert few.verdicts.to_pylist() == every.verdicts.to_pylist()[:3]
    assert nw.run(scenario()).verdicts.num_rows == 0


def figures(**more: object) -> dict[str, object]:
    """The figures of a small run, changed."""
    return nw.run(scenario(), sample_interval="off").json | more


def case(**more: object) -> dict[str, object]:
    """A reference case."""
    return {
        "case": "X", "cc": ["cubic"], "queue": "fifo", "policer": None, "besides": [],
        "rate_mbit": 10.0,
        "rtt_ms": 20.0, "buffer_bdp": 1.0, "headroom": 1, "loss": 0, "agreement": 1.0,
        "distance": 0.0, **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("evidence", "told"),
    [
        (None, "these results have not been compared with Linux"),
        ([], "these results have not been compared with Linux"),
        ([], "over a path with the queue discipline fifo and a buffer that the scenario sets"),
        ([case()], "the same queue discipline. Its rate, RTT and buffer differ by at most 5 %."),
        (
            [case(distance=0.69, rate_mbit=20.0)],
            " (X in sim/tests/data/reference) has a rate of 20 instead of 10 Mbit/s.",
        ),
        ([case(distance=0.69, agreement=0.75)], "75 % of the compared metrics"),
        ([case(distance=2.3)], "rely on the direction of the results"),
        ([case(distance=3.2, policer="police", buffer_bdp=25.0)], "a burst of 25 instead of 1 BDP"),
        ([case(distance=6.9, loss=0.01)], "a random loss of 1 instead of 0 %"),
    ],
)
def test_the_stated_certainty_follows_the_evidence(evidence: object, told: str) -> None:
    made = figures()
    provenance = made["provenance"]
    assert isinstance(provenance, dict)
    sure = words.how_sure(made | {"provenance": provenance | {"evidence": evidence}})
    assert told in sure[0]
    assert any("one seed (7)" in text for text in sure)


def test_the_answer_has_goodput_queueing_delay_and_rtt() -> None:
    made = nw.run(scenario(flows=[nw.Flow("bbr"), nw.Flow("cubic")]), sample_interval="off").json
    first, second, *_ = words.answer(made)
    for flow in made["flows"]:
        assert f"{flow['id']} {flow['goodput_mbit']:.2f} Mbit/s" in first
    delay, ping = made["queue"]["delay_ms"], made["probes"][0]["rtt_ms"]
    assert f"The mean queueing delay was {delay['mean']:.1f} ms" in second
    assert f"The median RTT of the ping was {ping['p50']:.1f} ms (base RTT 20 ms)" in second


@pytest.mark.parametrize(
    "given",
    [
        {"flows": []},
        {"probes": []},
        {"flows": [nw.Flow("cubic", size="10kB")]},
        {"flows": [nw.Flow("cubic", size="1GB")]},
        {"flows": [nw.Flow("cubic", start="1.9s", stop="1.95s")]},
        {"flows": [nw.Flow("cubic", count=7), nw.Flow("bbr", rtt="50ms")]},
        {"duration": "20ms"},
    ],
)
def test_every_type_of_run_has_sentences_and_pictures(
    given: dict[str, object], tmp_path: Path
) -> None:
    odd = nw.run(
        scenario(**given), sample_interval="1ms" if "duration" in given else "pictures", verdicts=10
    )
    assert all(words.answer(odd.json))
    odd.report(tmp_path / "page.html")
    odd.plot(tmp_path / "plot.svg")
    assert sketch(odd, 80)


@pytest.mark.parametrize("topic", LESSONS)
def test_a_lesson_has_the_goodput_of_its_run(command: Cli, topic: str) -> None:
    done = command("explain", topic)
    if LESSONS[topic].needs not in {None, *QUEUES}:
        assert done.returncode == 2
        assert f"no queue discipline `{LESSONS[topic].needs}`" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(LESSONS[topic].title)
    assert "Validation" in done.stdout
    text = " ".join(done.stdout.split())

    def told(name: str, toml: str) -> bool:
        run = nw.run(from_tree(_core.toml_to_tree(f'title = "{name}"\n{toml}', name)))
        return any(f"{flow['goodput_mbit']:.1f} Mbit/s" in text for flow in run.flows)

    # The first scenario with such a number ends the search.
    assert any(told(*scenario) for scenario in LESSONS[topic].scenarios.items())


def test_an_unknown_lesson_is_an_error(command: Cli) -> None:
    done = command("explain", "weather")
    assert done.returncode == 2
    assert "bufferbloat" in done.stderr


def test_lessons_are_the_topics_of_the_command() -> None:
    from narrows.teach.command import _TOPICS  # noqa: PLC0415

    assert [*LESSONS] == [*_TOPICS]


def test_a_sketch_in_colour_for_a_terminal(tiny: Path) -> None:
    environment = os.environ | {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    code = "from narrows.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "run", str(tiny), "--plot"],
        cwd=tiny.parent, capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    assert "\x1b[34m" in done.stdout


def test_a_legend_is_no_higher_than_its_picture(
    recwarn: pytest.WarningsRecorder, tmp_path: Path
) -> None:
    path = nw.Path(rate="40Mbit", rtt="1ms", buffer="50p")
    run = nw.run(nw.Scenario(path, flows=[nw.Flow("reno", count=30)], duration="30ms"))
    figure = run.plot(tmp_path / "many.svg")
    assert not [str(w.message) for w in recwarn if "layout" in str(w.message)]
    texts = [[text.get_text() for text in ax.get_legend().get_texts()] for ax in figure.axes]
    assert all(len(told) <= 12 for told in texts)
    # Entries that belong to no flow stay: the rate of the path, the queue.
    assert "rate of the path" in texts[0]
    assert any(re.fullmatch(r"and \d+ more", one) for one in texts[0])


def test_runs_with_the_same_result_have_no_winner(run: nw.Run) -> None:
    same = words.comparison([("a", run.json), ("b", run.json)])
    assert "all have the same goodput" in same
    assert "highest" not in same


def test_aql_limits_the_share_of_a_station_with_a_larger_weight(tmp_path: Path) -> None:
    step = _dial("weight = 4096 of the far station")
    limited = wifi_dials.scenario(step)
    usual = re.sub(r"aql_(low|high) = .*\n", "", limited)
    shares = [_far_airtime(tmp_path, text) for text in (limited, usual)]
    assert shares == pytest.approx([0.45, 0.65], abs=0.005)
    assert "its share is 65 %" in wifi_dials.DIALS[step].what


def test_the_access_category_of_a_download_moves_its_airtime(tmp_path: Path) -> None:
    names = ("aggregate of 64 frames", "far download in category BK", "far download in category VI")
    texts = [wifi_dials.scenario(_dial(name)) for name in names]
    assert ["aggregate" in text for text in texts] == [False] * 3
    usual, background, video = (_far_airtime(tmp_path, text) for text in texts)
    assert background < usual / 2
    assert video > 1.5 * usual


def _dial(name: str) -> int:
    return [dial.name for dial in wifi_dials.DIALS].index(name)


def _far_airtime(tmp_path: Path, text: str) -> float:
    """The share of the airtime that the far station has in a run."""
    (tmp_path / "wifi.toml").write_text(text, encoding="utf-8")
    run = nw.run(tmp_path / "wifi.toml", sample_interval="off").json
    return run["stations"][2]["airtime_share"]
