"""The report page: its values are those of the run, it loads nothing else, and it is accessible."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import Opened, chromium
from conftest import ROOT, TINY, Cli, scenario
from pages import RENEW

import narrows as nw
from narrows.render import report
from narrows.teach import explain
from narrows.teach.lessons import LESSONS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TIMED = ("throughput", "rtt", "window", "queue", "losses")


@pytest.fixture(scope="module")
def run() -> nw.Run:
    """A run with everything that a page shows."""
    return nw.run(
        scenario(duration="10s"), sample_interval="pictures", verdicts=report.MOST_VERDICTS
    )


@pytest.fixture(scope="module")
def page(run: nw.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its page."""
    file = tmp_path_factory.mktemp("pages") / "a page.html"
    run.report(file)
    return file


@pytest.fixture(scope="module")
def both(run: nw.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with two runs."""
    other = nw.run(
        scenario(flows=[nw.Flow("bbr")], duration="10s"),
        sample_interval="pictures",
        verdicts=report.MOST_VERDICTS,
    )
    file = tmp_path_factory.mktemp("pages") / "both.html"
    nw.compare_report([run, other], file, names=["CUBIC", "BBR"])
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium."""
    with chromium() as started:
        yield started


def document(file: Path) -> dict[str, Any]:
    """The data of a page."""
    text = file.read_text(encoding="utf-8")
    found = re.search(
        r'<script id="document" type="application/json">(.*?)</script>', text, re.DOTALL
    )
    assert found
    made: dict[str, Any] = json.loads(found[1])
    return made


def at(figures: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    """The value of a place in JSON."""
    for part in path.split("."):
        figures = figures[int(part)] if part.isdigit() else figures[part]
    return figures


def says(text: str, value: float | str | None) -> bool:
    """Does a cell show this value, rounded as far as its digits go?"""
    if value is None:
        return text == "–"
    if isinstance(value, str):
        return text == value
    shown, _, percent = text.partition(" %")
    digits = len(shown.partition(".")[2])
    return (
        abs(float(shown) - value * (100 if percent or text.endswith("%") else 1))
        <= 0.5001 * 10**-digits
    )


def spoken(opened: Opened) -> str:
    """The text of a page, its empty lines left out."""
    text: str = opened.page.inner_text("main").replace("\N{NO-BREAK SPACE}", " ")
    return re.sub(r"\n+", "\n", text)


def test_a_page_is_one_file_that_names_no_other(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    markup = re.sub(r"<script.*?</script>|<style.*?</style>", "", text, flags=re.DOTALL)
    assert set(re.findall(r'(?:src|href)="([^"]*)"', markup)) == {"data:,"}
    assert "@import" not in text
    assert "url(" not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


def test_a_minute_of_eight_flows_is_under_two_megabytes(tmp_path: Path) -> None:
    eight = [nw.Flow("cubic", count=4), nw.Flow("bbr", count=4)]
    path = nw.Path(rate="100Mbit", rtt="20ms", buffer="0.2bdp")
    busy = nw.Scenario(path, flows=eight, probes=[nw.Ping(interval="20ms")], duration="60s")
    long = nw.run(busy, sample_interval="pictures", verdicts=report.MOST_VERDICTS)
    long.report(tmp_path / "page.html")
    size = (tmp_path / "page.html").stat().st_size
    print(f"{size} bytes with {long.verdicts.num_rows} verdicts")
    assert size < 2_000_000


def test_the_pictures_of_a_page_are_the_tables_of_the_run(run: nw.Run, page: Path) -> None:
    (shown,) = document(page)["runs"]
    (throughput,) = (picture for picture in shown["pictures"] if picture["key"] == "throughput")
    (line,) = (line for line in throughput["lines"] if line["label"] == "cubic1")
    rows = [row for row in run.samples.to_pylist() if row["flow"] == "cubic1"]
    for value, row in zip(line["y"], rows, strict=True):
        assert value == (
            None if row["goodput_mbit"] is None else float(f"{row['goodput_mbit']:.6g}")
        )
    assert shown["xs"][line["x"]] == [float(f"{row['t_s']:.6g}") for row in rows]
    verdicts = run.verdicts.to_pylist()
    told = shown["verdicts"]
    assert told["left_out"] == 0
    assert [told["flow_names"][i] for i in told["flow"]] == [row["flow"] for row in verdicts]
    assert told["t_s"] == [round(row["t_s"], 6) for row in verdicts]


def test_more_verdicts_than_a_page_holds_are_counted(tmp_path: Path) -> None:
    every = nw.run(scenario(duration="5s"), verdicts=10)
    every.report(tmp_path / "page.html")
    told = document(tmp_path / "page.html")["runs"][0]["verdicts"]
    assert (len(told["t_s"]), told["left_out"]) == (10, every.json["queue"]["drops"] - 10)


def test_a_title_with_html_is_escaped(tmp_path: Path) -> None:
    title = '</script><script>alert("x")</script>'
    nw.run(scenario(title=title)).report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert title not in text
    assert document(tmp_path / "page.html")["runs"][0]["name"] == title


def test_the_scenario_on_the_page_gives_the_same_run(command: Cli, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY, encoding="utf-8")
    first = json.loads(
        command("run", "tiny.toml", "--seed", 8, "--json", "--report", "page.html").stdout
    )
    (shown,) = document(tmp_path / "page.html")["runs"]
    assert shown["toml"] == TINY
    for text, seed in ((shown["canonical"], []), (shown["toml"], ["--seed", 8])):
        (tmp_path / "again.toml").write_text(text, encoding="utf-8")
        again = json.loads(command("run", "again.toml", "--json", *seed).stdout)
        assert {**again, "provenance": 0} == {**first, "provenance": 0}


def test_a_page_loads_without_errors_and_without_requests(
    browser: Browser, page: Path, both: Path
) -> None:
    for file in (page, both):
        opened = Opened(browser, file)
        assert opened.wrong == []
        assert [url for url in opened.asked if not url.startswith(("data:", "blob:"))] == [
            file.as_uri()
        ]
        assert opened.page.locator("canvas").count() > 6


def test_the_numbers_on_the_page_are_those_of_the_json(
    browser: Browser, run: nw.Run, page: Path
) -> None:
    opened = Opened(browser, page)
    cells = opened.page.eval_on_selector_all(
        "[data-path]", "all => all.map(e => [e.dataset.path, e.textContent])"
    )
    told = [(path, text) for path, text in cells if path]
    assert len(told) > 40
    for path, text in told:
        values = [at(run.json, one) for one in path.split()]
        if len(values) > 1:
            assert [int(n) for n in re.findall(r"\d+", text)] == values, path
        else:
            assert says(text, values[0]), (path, text, values[0])


def test_the_page_begins_with_the_answer_and_the_evidence(
    browser: Browser, run: nw.Run, page: Path
) -> None:
    opened = Opened(browser, page)
    words = spoken(opened)
    goodput = run.flows[0]["goodput_mbit"]
    assert words.startswith(f"Answer\nGoodput and share of the total: cubic0 {goodput:.2f} Mbit/s")
    order = ["Evidence", "Summary", "Pictures", "Packets", "Scenario", "Provenance"]
    places = [words.index(f"{heading}\n") for heading in order]
    assert places == sorted(places)


def test_hover_shows_the_value_of_the_nearest_sample(
    browser: Browser, run: nw.Run, page: Path
) -> None:
    opened = Opened(browser, page)
    where = opened.box("window")
    opened.page.mouse.move(where["x"] + where["width"] * 0.5, where["y"] + 30)
    shown = opened.page.locator('#pictures [data-key="window"]')
    time = float(shown.locator(".at").inner_text().split()[0])
    low, high = opened.scale("window")
    assert abs(time - (low + high) / 2) < 0.02
    rows = [row for row in run.samples.to_pylist() if row["flow"] == "cubic0"]
    nearest = min(rows, key=lambda row: abs(row["t_s"] - time))
    assert shown.locator(".value").first.inner_text() == str(nearest["cwnd_packets"])
    # The other pictures tell the same instant.
    assert (
        opened.page.locator('#pictures [data-key="queue"] .at').inner_text()
        == shown.locator(".at").inner_text()
    )


def test_zoom_is_one_for_all_times_and_not_for_delays(browser: Browser, page: Path) -> None:
    opened = Opened(browser, page)
    whole = opened.scale("queue")
    assert whole == (0, 10)
    delays = opened.scale("delay")
    opened.drag("rtt", 0.25, 0.5)
    low, high = opened.scale("rtt")
    assert 2.4 < low < 2.6
    assert 4.9 < high < 5.1
    assert {opened.scale(key) for key in TIMED} == {(low, high)}
    assert opened.scale("delay") == delays
    told = opened.page.inner_text(".window")
    assert [round(float(n), 1) for n in re.findall(r"[\d.]+", told)] == [
        round(low, 1),
        round(high, 1),
    ]
    opened.page.locator('#pictures [data-key="queue"] .u-over').dblclick()
    assert opened.scale("rtt") == whole
    assert opened.wrong == []


def test_zoom_by_buttons_and_keys(browser: Browser, page: Path) -> None:
    opened = Opened(browser, page)
    opened.page.get_by_role("button", name="zoom in").click()
    assert opened.scale("rtt") == (2.5, 7.5)
    opened.page.get_by_role("button", name="later").click()
    assert opened.scale("rtt") == (5, 10)
    plot = opened.page.locator('#pictures [data-key="rtt"] .plot')
    plot.focus()
    opened.page.keyboard.press("0")
    assert opened.scale("queue") == (0, 10)
    opened.page.keyboard.press("ArrowRight")
    opened.page.keyboard.press("+")
    low, high = opened.scale("queue")
    assert round(high - low, 6) == 5
    assert re.match(r"[\d.]+ s: .*cubic0 \d", opened.page.inner_text(".unseen"))
    opened.page.keyboard.press("Escape")
    assert opened.scale("queue") == (0, 10)


def test_every_control_is_reached_by_tab(browser: Browser, page: Path) -> None:
    opened = Opened(browser, page)
    reached = set()
    for _ in range(80):
        opened.page.keyboard.press("Tab")
        reached.add(
            opened.page.evaluate(
                "document.activeElement.className || document.activeElement.tagName"
            )
        )
    assert {"skip", "plot", "BUTTON", "SELECT", "wide tall", "SUMMARY"} <= reached


def test_a_name_in_the_legend_hides_its_line(browser: Browser, page: Path) -> None:
    opened = Opened(browser, page)
    entry = opened.page.locator('#pictures [data-key="window"] .legend button').first
    before = opened.page.locator('#pictures [data-key="window"] canvas').first.screenshot()
    entry.click()
    assert entry.get_attribute("aria-pressed") == "false"
    assert opened.page.locator('#pictures [data-key="window"] canvas').first.screenshot() != before


def test_runs_side_by_side_share_their_axes(browser: Browser, both: Path) -> None:
    opened = Opened(browser, both)
    assert spoken(opened).startswith("Answer\nOf these 2 runs, ")
    opened.drag("queue", 0.2, 0.6)
    for key in TIMED:
        shown = opened.page.eval_on_selector_all(
            f'#pictures [data-key="{key}"]', "all => all.map(e => [e.dataset.x, e.dataset.y])"
        )
        assert len(shown) == 2
        assert shown[0] == shown[1], key


def test_verdicts_follow_the_time_that_is_shown(browser: Browser, run: nw.Run, page: Path) -> None:
    opened = Opened(browser, page)
    total = run.verdicts.num_rows
    assert f"of {total} in this interval" in opened.page.inner_text("#packets .said")
    opened.drag("queue", 0.0, 0.5)
    low, high = opened.scale("queue")
    within = sum(low <= t <= high for t in run.verdicts["t_s"].to_pylist())
    assert 0 < within < total
    assert f"of {within} in this interval" in opened.page.inner_text("#packets .said")
    opened.page.locator("#packets select").first.select_option("cubic1")
    names = opened.page.eval_on_selector_all(
        "#packets tbody tr td:nth-child(2)", "all => all.map(e => e.textContent)"
    )
    assert set(names) == {"cubic1"}
    assert "queue full" in opened.page.inner_text("#packets tbody")


def test_the_scenario_can_be_copied(browser: Browser, run: nw.Run, page: Path) -> None:
    opened = Opened(browser, page)
    opened.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened.page.get_by_text("As specified").click()
    opened.page.locator("#scenario button").first.click()
    opened.page.get_by_text("copied").first.wait_for()
    assert opened.page.evaluate("navigator.clipboard.readText()") == run.toml


PLACES = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
}


@pytest.mark.parametrize("place", PLACES)
def test_contrast_labels_and_the_rest_of_axe(browser: Browser, both: Path, place: str) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright",
        reason="axe is not installed: `make test-physical` does it",
    )
    opened = Opened(browser, both, **PLACES[place])
    for summary in opened.page.locator("summary").all():
        summary.click()
    results = axe.Axe().run(opened.page)
    assert results.violations_count == 0, results.generate_report()


def test_light_and_dark_by_the_system_and_by_hand(browser: Browser, page: Path) -> None:
    opened = Opened(browser, page, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = opened.page.evaluate(ground)
    opened.page.get_by_role("button", name="Light or dark").click()
    assert (dark, opened.page.evaluate(ground)) == ("rgb(20, 24, 29)", "rgb(255, 255, 255)")
    assert opened.wrong == []


def test_a_page_fits_on_a_phone_and_a_tap_shows_values(browser: Browser, both: Path) -> None:
    opened = Opened(browser, both, **PLACES["phone"])
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 390
    plane = opened.page.locator('#pictures [data-key="window"] .u-over').first
    plane.tap()
    assert opened.page.locator('#pictures [data-key="window"] .value').first.inner_text() != ""
    assert opened.wrong == []


def test_the_printed_page_has_no_colours(browser: Browser, page: Path) -> None:
    opened = Opened(browser, page)
    opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    pixels = opened.page.locator('#pictures [data-key="throughput"] .u-wrap canvas').first.evaluate(
        """canvas => {
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width,
            canvas.height); const spread = (i) => Math.max(...data.slice(i, i + 3)) -
            Math.min(...data.slice(i, i + 3)); let coloured = 0; for (let i = 0; i < data.length; i
            += 4) if (spread(i) > 8) coloured += 1; return coloured;
        }"""
    )
    assert pixels == 0


def test_without_javascript_the_page_has_its_text(browser: Browser, page: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(page.as_uri())
    assert "Goodput and share of the total: cubic0 " in opened.inner_text("body").replace(
        "\N{NO-BREAK SPACE}", " "
    )


@pytest.mark.parametrize("topic", ["bufferbloat", "bbr"])
def test_a_lesson_is_a_page_too(browser: Browser, cli: Cli, tmp_path: Path, topic: str) -> None:
    done = cli("explain", topic, "--report", "lesson.html")
    assert done.returncode == 0, done.stderr
    opened = Opened(browser, tmp_path / "lesson.html")
    assert opened.wrong == []
    assert opened.page.inner_text("h1") == LESSONS[topic].title
    assert opened.page.locator("#lesson figure.chart").count() >= 5


SHOTS = ROOT / "docs/pictures"


@pytest.mark.parametrize("shot", ["report-light", "report-dark", "report-phone", "explain-bbr"])
def test_the_screenshots_of_the_docs(
    request: pytest.FixtureRequest, tmp_path: Path, shot: str
) -> None:
    """A person has looked at them; they are made anew on purpose, and pixels are not compared."""
    if not RENEW:
        assert (SHOTS / f"{shot}.png").read_bytes().startswith(b"\x89PNG")
        return
    browser = request.getfixturevalue("browser")
    file = tmp_path / "page.html"
    if shot.startswith("explain"):
        explain.write("bbr", file)
    else:
        shallow = ROOT / "scenarios/fairness/shallow.toml"
        nw.run(shallow, sample_interval="pictures", verdicts=report.MOST_VERDICTS).report(file)
    opened = Opened(browser, file, **PLACES.get(shot.partition("-")[2], {}))
    if shot == "report-dark":
        opened.drag("rtt", 0.15, 0.4)
        opened.page.locator("#pictures").scroll_into_view_if_needed()
        opened.page.evaluate("document.getElementById('pictures').scrollIntoView()")
        where = opened.page.locator('#pictures [data-key="rtt"] .u-over').bounding_box()
        assert where
        opened.page.mouse.move(where["x"] + where["width"] * 0.3, where["y"] + 40)
    opened.page.screenshot(path=SHOTS / f"{shot}.png")


def test_the_plot_of_the_readme() -> None:
    if RENEW:
        run = nw.run(ROOT / "scenarios/fairness/shallow.toml", sample_interval="pictures")
        run.plot(SHOTS / "shallow.png", only=["throughput", "window", "queue"])
    assert (SHOTS / "shallow.png").read_bytes().startswith(b"\x89PNG")
