"""The lab in the browser: it computes the same results as the native engine and is accessible."""

from __future__ import annotations

import base64
import functools
import hashlib
import http.client
import json
import random
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import chromium
from conftest import ROOT, scenario

import narrows as nw
from narrows import _core
from narrows.errors import NarrowsError
from narrows.render import lab, notebook

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SCENARIOS = sorted(
    str(file.relative_to(ROOT / "scenarios")) for file in (ROOT / "scenarios").rglob("*.toml")
)
LESSONS = ROOT / "web" / "lab" / "lessons"
SHORT = """\
duration = "5s"
[path]
rate   = "20Mbit"
rtt    = "40ms"
buffer = "1bdp"
[[flow]]
cc = "bbr"
[[flow]]
cc = "cubic"
[[probe]]
kind = "ping"
"""
WAIT_MS = 120_000


def built() -> bool:
    """Whether this installation has the lab."""
    try:
        lab.folder()
    except NarrowsError:
        return False
    return True


needs_lab = pytest.mark.skipif(not built(), reason="the lab is not built: `make lab` does it")


def test_without_the_lab_the_error_names_the_command_that_builds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(lab, "FOLDER", tmp_path)
    with pytest.raises(NarrowsError, match=r"missing: .*engine.wasm\)\n    write: make lab"):
        lab.server()


@contextmanager
def served() -> Iterator[str]:
    """The address of a server of the lab."""
    with lab.server() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://localhost:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@needs_lab
def test_the_server_offers_its_files_only_with_a_policy_and_only_to_this_machine() -> None:
    with served() as address:
        place = address.removeprefix("http://")
        connection = http.client.HTTPConnection(place, timeout=10)

        def get(path: str, **headers: str) -> http.client.HTTPResponse:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            answer.read()
            return answer

        page = get("/")
        assert page.status == 200
        policy = page.headers["Content-Security-Policy"]
        assert "script-src 'self' 'wasm-unsafe-eval'" in policy
        assert "unsafe-inline" not in policy
        assert get("/engine.wasm").headers["Content-Type"] == "application/wasm"
        assert get("/../teach/lab.py").status == 404
        assert get("/", Host="example.org").status == 403
        connection.close()


class Quiet(SimpleHTTPRequestHandler):
    """A static web host."""

    def log_message(self, *_: Any) -> None:  # noqa: ANN401 - the library's own
        """Logs nothing."""


class Lab:
    """The lab in the browser, with all that went wrong in it."""

    def __init__(self, browser: Browser, address: str, **context: Any) -> None:  # noqa: ANN401
        """Opens a context of the browser."""
        # Playwright evaluates the conditions of its waits, which the policy of the page forbids.
        context = {"viewport": {"width": 1280, "height": 900}, "bypass_csp": True, **context}
        self.context = browser.new_context(**context)
        self.page: Page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on("console", lambda message: self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.address = address

    def open(self, text: str | None = None) -> None:
        """Opens the lab, with a scenario or with its first one, and waits for the run."""
        self.page.goto(self.address + "/" + (lab.fragment(text) if text else ""))
        self.finished()

    def finished(self) -> None:
        """Waits until the run is complete."""
        self.page.wait_for_function("window.lab?.json || window.lab?.failed", timeout=WAIT_MS)

    def run(self, text: str) -> dict[str, Any]:
        """Loads a scenario, runs it, and returns its state."""
        self.page.evaluate(
            "text => { const l = window.lab; window.lab = null; l.load(text); }", text
        )
        self.finished()
        state: dict[str, Any] = self.page.evaluate("window.lab")
        return state

    @property
    def text(self) -> str:
        """The scenario in the editor."""
        return self.page.input_value("textarea")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium."""
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of the lab."""
    with served() as address:
        yield address


@pytest.fixture
def opened(browser: Browser, address: str) -> Iterator[Lab]:
    """The lab with a short scenario."""
    one = Lab(browser, address)
    one.open(SHORT)
    yield one
    assert not one.wrong
    one.context.close()


def digest(text: str) -> str:
    """The digest of a run's metrics."""
    return hashlib.sha256(text.encode()).hexdigest()


@needs_lab
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(SCENARIOS[::8], id="every eighth"),
        pytest.param(SCENARIOS, id="all", marks=pytest.mark.long),
    ],
)
def test_a_shipped_scenario_has_the_same_digest_as_natively(
    browser: Browser, address: str, names: list[str]
) -> None:
    one = Lab(browser, address)
    one.open(SHORT)
    different = []
    for name in names:
        file = ROOT / "scenarios" / name
        text = file.read_text()
        state = one.run(text)
        native = _core.run_toml(text, str(file)).json()
        if state["failed"] or digest(native) != digest(state["json"]):
            different.append((name, state["failed"]))
    assert not different
    assert not one.wrong


@needs_lab
def test_an_address_contains_the_whole_set_up(browser: Browser, address: str, opened: Lab) -> None:
    select = opened.page.locator("#c-flow-0-cc")
    select.select_option("reno")
    opened.page.wait_for_function('window.lab?.json?.includes(\'"cc":"reno"\')')
    opened.page.wait_for_timeout(300)
    other = Lab(browser, address)
    other.page.goto(opened.page.url)
    other.finished()
    assert other.text == opened.text
    assert 'cc = "reno"' in other.text
    assert other.page.evaluate("lab.json") == opened.page.evaluate("lab.json")
    other.context.close()


@needs_lab
def test_errors_of_the_engine_are_under_their_line(opened: Lab) -> None:
    broken = SHORT.replace('rtt    = "40ms"', "rtt    = 40")
    opened.page.fill("textarea", broken)
    opened.page.wait_for_selector("#errors .error")
    try:
        _core.check_toml(broken, "scenario.toml")
    except Exception as error:
        expected = str(error)
    shown = opened.page.inner_text("#errors .error pre")
    assert expected.splitlines()[0] in shown
    assert opened.page.inner_text("#errors .error button") == "Line 4"
    opened.page.fill("textarea", SHORT)
    opened.page.wait_for_selector(".error", state="detached")


@needs_lab
def test_a_slider_changes_the_scenario_and_undo_restores_it(opened: Lab) -> None:
    slider = opened.page.locator('input[type="range"][data-key="rate"]').first
    slider.focus()
    for _ in range(3):
        opened.page.keyboard.press("ArrowRight")
    opened.page.wait_for_function("!document.querySelector('textarea').value.includes('20Mbit')")
    assert "[[probe]]" in opened.text
    for _ in range(6):
        opened.page.keyboard.press("Control+z")
    opened.page.wait_for_function("document.querySelector('textarea').value.includes('20Mbit')")
    assert opened.text == SHORT


@needs_lab
def test_a_drag_with_the_pointer_runs_on_the_way_and_is_undone_at_once(opened: Lab) -> None:
    page = opened.page
    slider = page.locator('input[type="range"][data-key="rate"]').first
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.57 * box["width"], middle)
    page.mouse.down()
    ran = set()
    for step in range(1, 5):
        page.mouse.move(box["x"] + (0.57 + 0.05 * step) * box["width"], middle)
        opened.finished()
        page.wait_for_timeout(200)
        opened.finished()
        ran.add(json.loads(page.evaluate("lab.json"))["path"]["rate_mbit"])
    page.mouse.up()
    assert len(ran) == 4
    assert min(ran) > 20
    page.get_by_role("button", name="Undo", exact=True).click()
    page.wait_for_function("document.querySelector('textarea').value.includes('20Mbit')")
    assert opened.text == SHORT
    page.get_by_role("button", name="Redo", exact=True).click()
    page.wait_for_function("!document.querySelector('textarea').value.includes('20Mbit')")


@needs_lab
def test_a_static_host_serves_it_below_a_path_and_it_works_without_a_network(
    browser: Browser, tmp_path: Path
) -> None:
    lab.copy(tmp_path / "course" / "lab")
    handler = functools.partial(Quiet, directory=tmp_path)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://localhost:{server.server_address[1]}/course/lab"
    one = Lab(browser, address)
    asked: list[str] = []
    one.page.on("request", lambda request: asked.append(request.url))
    one.open(SHORT)
    assert all(url.startswith(f"{address}/") for url in asked)
    # The first pictures and the drawing have loaded their workers.
    one.page.wait_for_selector("canvas[data-packets]")
    server.shutdown()
    server.server_close()
    one.context.set_offline(True)
    assert one.run(SHORT.replace("20Mbit", "5Mbit"))["json"]
    one.page.select_option("header select >> nth=0", "first/cubic.toml")
    one.page.wait_for_function("document.querySelector('textarea').value.includes('CUBIC')")
    one.finished()
    assert one.page.evaluate("lab.failed") is None
    assert not one.wrong
    one.context.close()


@needs_lab
def test_files_are_saved_and_loaded(opened: Lab, tmp_path: Path) -> None:
    page = opened.page
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save", exact=True).click()
    assert Path(saved.value.path()).read_text() == opened.text
    own = tmp_path / "own.toml"
    own.write_text(SHORT.replace("20Mbit", "7Mbit"))
    page.set_input_files("input[type=file]", own)
    page.wait_for_function("document.querySelector('textarea').value.includes('7Mbit')")
    page.wait_for_function("window.lab?.json && JSON.parse(lab.json).path.rate_mbit === 7")


@needs_lab
def test_a_teacher_opens_a_lesson_from_a_file(opened: Lab, tmp_path: Path) -> None:
    page = opened.page
    own = tmp_path / "own.md"
    text = (ROOT / "docs" / "how-to" / "lab.md").read_text().partition("````markdown\n")[2]
    own.write_text(text.partition("````")[0])
    page.set_input_files("input[type=file]", own)
    page.wait_for_selector(".lesson h2:has-text('Title of the lesson')")
    page.locator(".choice input").nth(1).check()
    page.get_by_role("button", name="This is my prediction").click()
    page.get_by_role("button", name="Text of the button").click()
    page.wait_for_selector(".lesson p:has-text('The explanation.')")
    page.wait_for_function("document.querySelector('textarea').value.includes('10Mbit')")


@needs_lab
def test_seeds_are_the_replications_of_the_command(opened: Lab, tmp_path: Path) -> None:
    page = opened.page
    page.get_by_role("button", name="Run 8 seeds").click()
    page.wait_for_selector("section[aria-label=Seeds] li", timeout=WAIT_MS)
    assert page.locator(".smalls figure").count() == 8
    file = tmp_path / "short.toml"
    file.write_text(SHORT)
    found = nw.replicate(file, seeds=8, seed=1)
    for (name, flow), shown in zip(
        (("bbr0", 0), ("cubic0", 1)),
        page.locator("section[aria-label=Seeds] li").all_inner_texts(),
        strict=True,
    ):
        mean, half = re.findall(r"[\d.]+", shown.partition(": ")[2])[:2]
        interval = found.flows()[flow]["goodput_mbit"]
        assert interval.low is not None
        assert shown.startswith(name)
        assert float(mean) == pytest.approx(interval.mean, rel=1e-3)
        assert float(half) == pytest.approx(interval.mean - interval.low, rel=0.05)


@needs_lab
def test_a_station_is_added_and_removed(browser: Browser, address: str) -> None:
    one = Lab(browser, address)
    one.open((ROOT / "scenarios" / "wifi" / "three-stations-udp.toml").read_text())
    stations = one.page.locator("[aria-label=Stations] fieldset")
    before = stations.count()
    one.page.get_by_role("button", name="Add station").click()
    one.page.wait_for_function(
        f"document.querySelectorAll('[aria-label=Stations] fieldset').length === {before + 1}"
    )
    one.finished()
    assert one.page.evaluate("lab.failed") is None
    one.page.get_by_role("button", name=f"Remove station {before + 1}").click()
    one.page.wait_for_function(
        f"document.querySelectorAll('[aria-label=Stations] fieldset').length === {before}"
    )
    assert not one.wrong
    one.context.close()


@needs_lab
def test_controls_set_policer_jitter_ecn_and_workload(opened: Lab) -> None:
    page = opened.page
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    kinds = [one["name"] for one in json.loads(_core.list_json("policer"))["policer"]]
    for kind in kinds:
        page.select_option("#c-path-0-policer", kind)
        page.wait_for_function(
            f'window.lab?.json?.includes(\'"kind":"{kind}"\') || window.lab?.failed'
        )
        assert page.evaluate("lab.failed") is None
    page.select_option("#c-path-0-policer", "police")
    page.get_by_text("Parameters of police", exact=True).click()
    page.fill("#c-path-policer-0-rate", "4Mbit")
    page.press("#c-path-policer-0-rate", "Enter")
    page.fill("#c-path-0-jitter", "2ms")
    page.press("#c-path-0-jitter", "Enter")
    page.select_option("#c-host-0-ecn", "on")
    page.select_option("#c-flow-0-workload", "web")
    for part in (
        'policer = { kind = "police", burst = "50kB", rate = "4Mbit" }',
        'jitter = "2ms"',
        'ecn = "on"',
        'workload = "web"',
    ):
        page.wait_for_function(
            "part => document.querySelector('textarea').value.includes(part)", arg=part
        )
    page.wait_for_function('window.lab?.json?.includes(\'"kind":"web"\')')
    page.wait_for_function(
        "JSON.parse(lab.json).scenario.path.policer.rate === '4Mbit'", timeout=WAIT_MS
    )


@needs_lab
def test_every_control_has_an_explanation(opened: Lab) -> None:
    bare = """() => [...document.querySelectorAll("button, select, input:not([hidden]), summary")]
      .filter((e) => !e.closest("[title]")).map((e) => e.outerHTML)"""
    assert opened.page.evaluate(bare) == []


@needs_lab
def test_flows_are_added_and_removed_with_the_keyboard(opened: Lab) -> None:
    opened.page.get_by_role("button", name="Add flow").press("Enter")
    opened.page.wait_for_function("window.lab?.json && JSON.parse(lab.json).flows.length === 3")
    opened.page.get_by_role("button", name="Remove flow 1").press("Enter")
    opened.page.wait_for_function("window.lab?.json && JSON.parse(lab.json).flows.length === 2")
    assert '"bbr"' not in opened.text


@needs_lab
def test_packets_move_on_the_path(opened: Lab) -> None:
    opened.page.wait_for_selector("canvas[data-packets]")
    time = opened.page.locator("output")
    before = time.inner_text()
    opened.page.get_by_role("button", name="Play").click()
    opened.page.wait_for_timeout(700)
    opened.page.get_by_role("button", name="Pause").click()
    after = time.inner_text()
    assert before != after
    opened.page.get_by_role("button", name="Step", exact=True).click()
    assert time.inner_text() != after


@needs_lab
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_axe_has_no_findings(browser: Browser, address: str, dark: bool, width: int) -> None:
    axe = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
    if not axe.is_file():
        pytest.skip("axe-core is not installed: `make lab` does it")
    one = Lab(
        browser,
        address,
        viewport={"width": width, "height": 844},
        color_scheme="dark" if dark else "light",
    )
    one.open(SHORT)
    one.page.select_option("header select >> nth=1", index=1)
    one.page.add_script_tag(path=str(axe))
    found = one.page.evaluate("axe.run().then(r => r.violations)")
    assert [(f["id"], [n["html"] for n in f["nodes"]]) for f in found] == []
    assert one.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    one.context.close()


def _random_setup(draw: random.Random) -> str:
    """A scenario with random values, most of them valid."""
    queues = [q["name"] for q in json.loads(_core.list_json("queue"))["queue"]]
    ccs = [c["name"] for c in json.loads(_core.list_json("cc"))["cc"]]
    lines = [f'duration = "{draw.randint(1, 4)}s"', f"seed = {draw.randint(0, 2**32)}", "[path]"]
    lines += [f'rate = "{draw.choice([1, 3, 10, 30])}Mbit"', f'rtt = "{draw.randint(1, 200)}ms"']
    if draw.random() < 0.7:
        lines.append(f'queue = "{draw.choice(queues)}"')
    if draw.random() < 0.7:
        lines.append(f'buffer = "{draw.choice(["0.2bdp", "1bdp", "10bdp", "50p", "1p"])}"')
    if draw.random() < 0.4:
        lines.append(f'loss = "{draw.choice([0, 0.1, 1, 10, 100])}%"')
    if draw.random() < 0.3:
        lines.append(f'jitter = "{draw.randint(1, 50)}ms"')
    for _ in range(draw.randint(1, 4)):
        lines += ["[[flow]]", f'cc = "{draw.choice(ccs)}"', f"count = {draw.randint(1, 4)}"]
    return "\n".join(lines) + "\n"


@needs_lab
@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.long)])
def test_random_set_ups_neither_trap_nor_need_more_memory(
    browser: Browser, address: str, count: int
) -> None:
    draw = random.Random(36)
    one = Lab(browser, address)
    one.open(SHORT)
    heaps = []
    for _ in range(count):
        state = one.run(_random_setup(draw))
        if state["failed"]:
            assert "scenario.toml" in state["failed"]
        else:
            heaps.append(state["heap"])
    # The largest run needs 5 MiB. The slices of a run depend on the machine, and with them how
    # memory is fragmented. Every byte that a run does not free is found by lab/tests/answers.rs.
    assert max(heaps) < 8 << 20
    assert not one.wrong
    one.context.close()


@pytest.mark.parametrize("lesson", sorted(LESSONS.glob("*.md")), ids=lambda file: file.stem)
def test_lessons_have_a_question_predictions_and_valid_scenarios(lesson: Path) -> None:
    text = lesson.read_text()
    assert text.startswith("# ")
    assert [h for h in ("## Question", "## Prediction", "## Answer") if h not in text] == []
    assert text.count("- [x] ") == 1
    blocks = [
        # In a map, the template follows the settings; its smallest path stands for all cells.
        re.sub(r"\{\w+\}", "10", block.split("\n\n", 1)[1].replace("{variant}", "bbr"))
        if kind == "map"
        else block
        for kind, block in re.findall(
            r"^```(scenario|map)(.*?)^```", text, re.DOTALL | re.MULTILINE
        )
    ]
    assert blocks
    for block in blocks:
        _core.check_toml(block.partition("\n")[2].partition("```")[0], "lesson.toml")


@needs_lab
def test_a_lesson_shows_its_runs_after_the_prediction_and_its_answer_after_a_run(
    opened: Lab,
) -> None:
    page = opened.page
    page.select_option("header select >> nth=1", "1-bufferbloat")
    assert page.get_by_role("button", name="Run the upload").count() == 0
    page.locator(".choice input").first.check()
    assert page.locator("h3", has_text="Answer").count() == 0
    page.get_by_role("button", name="This is my prediction").click()
    assert page.locator(".choice input").first.is_disabled()
    page.get_by_role("button", name="Run the upload").click()
    page.wait_for_function("document.querySelector('textarea').value.includes('upload')")
    page.wait_for_selector(".lesson h3:has-text('Answer')")
    # A later scenario of the lesson is compared with the first one.
    page.get_by_role("button", name="Run it with fq_codel").click()
    page.wait_for_selector(".legend:has-text('dashed: pinned set-up')", timeout=WAIT_MS)
    # Another lesson begins without the comparison.
    page.select_option("header select >> nth=1", "3-codel")
    page.wait_for_selector(".legend:not(:has-text('dashed'))")


@needs_lab
def test_the_drawing_goes_on_after_a_path_that_is_too_fast_for_it(opened: Lab) -> None:
    fast = SHORT.replace('"20Mbit"', '"10Tbit"').replace('"40ms"', '"1ms"')
    opened.page.evaluate("text => window.lab.load(text)", fast)
    opened.page.wait_for_timeout(2000)
    state = opened.run(SHORT)
    assert state["json"]
    opened.page.wait_for_function("document.querySelector('canvas[data-packets]')")
    opened.page.wait_for_function(
        "/[1-9]\\d* (in queues|on links)/.test(document.querySelector('output').textContent)",
        timeout=WAIT_MS,
    )


@needs_lab
def test_a_damaged_link_and_an_invalid_value_are_reported_on_the_page(
    browser: Browser, address: str
) -> None:
    one = Lab(browser, address)
    one.page.goto(f"{address}/#s=AAAA")
    one.page.wait_for_selector("#state:has-text('The link is damaged')", timeout=WAIT_MS)
    one.finished()
    rate = one.page.locator("#c-path-0-rate")
    rate.fill("abc")
    rate.press("Enter")
    one.page.wait_for_selector(".error.short:has-text('path.rate')", timeout=WAIT_MS)
    one.page.get_by_role("button", name="Undo this change").click()
    one.page.wait_for_selector(".error.short", state="detached", timeout=WAIT_MS)
    assert not one.wrong
    one.context.close()


@needs_lab
def test_a_cell_of_a_published_map_opens_as_a_run_beside_its_rival(opened: Lab) -> None:
    opened.page.select_option("header select >> nth=1", "6-when-to-use-bbr")
    opened.page.locator(".choice input").first.check()
    opened.page.get_by_role("button", name="This is my prediction").click()
    opened.page.select_option(".map select", "100")
    assert opened.page.locator(".cell").count() == 64
    # 427.88 Mbit/s of BBR and 68.44 Mbit/s of CUBIC at 500 Mbit/s and 200 ms.
    opened.page.get_by_role("button", name="525; RTT, ms: 200; rate, Mbit/s: 500").click()
    opened.page.wait_for_function("document.querySelector('textarea').value.includes('500Mbit')")
    assert 'cc = "bbr"' in opened.text
    assert 'rtt           = "200ms"' in opened.text
    opened.page.wait_for_selector(".legend:has-text('dashed: pinned set-up')", timeout=WAIT_MS)


@needs_lab
def test_a_change_while_it_runs_becomes_a_step_of_the_path(opened: Lab) -> None:
    opened.page.get_by_role("button", name="Add change").click()
    opened.page.wait_for_function("document.querySelector('textarea').value.includes('steps')")
    opened.finished()
    assert '[[path.steps]]\nat = "3s"\nrate = "10Mbit"' in opened.text
    opened.page.get_by_role("button", name="Remove change 1").click()
    opened.page.wait_for_function("!document.querySelector('textarea').value.includes('steps')")


@needs_lab
def test_without_anywidget_a_notebook_shows_a_frame_of_a_local_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    html = nw.run(scenario(duration="2s")).lab(height=700)._repr_html_()
    assert 'src="http://localhost:' in html
    assert 'height="700"' in html


NOTEBOOK = """
async ([esm, bytes, state]) => {
  const code = await import(URL.createObjectURL(new Blob([esm], { type: "text/javascript" })));
  const files = Object.fromEntries(Object.entries(bytes).map(
    ([name, text]) => [name, Uint8Array.from(atob(text), (c) => c.charCodeAt(0))]));
  const listeners = {};
  window.model = {
    state: { ...state, _files: files },
    saved: 0,
    get(name) { return this.state[name]; },
    set(name, value) { this.state[name] = value; },
    save_changes() { this.saved += 1; },
    on(name, listener) { listeners[name] = listener; },
    off(name) { delete listeners[name]; },
  };
  window.assign = (text) => { window.model.state.scenario = text; listeners["change:scenario"](); };
  window.end = code.default.render({ model: window.model, el: document.body });
}
"""
"""The part of a notebook that calls a widget: the model of its state, and an element."""


@needs_lab
def test_the_widget_runs_the_lab_and_follows_the_scenario_in_both_directions(
    browser: Browser, address: str
) -> None:
    pytest.importorskip("anywidget")
    widget = nw.run(scenario(duration="2s")).lab(height=700)
    assert widget.height == 700
    page = browser.new_context(bypass_csp=True).new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(f"{address}/engine.wasm.html")
    files = {name: base64.b64encode(data).decode() for name, data in widget._files.items()}
    state = {"_shared": widget._shared, "scenario": widget.scenario, "height": widget.height}
    esm = (Path(notebook.__file__).with_name("notebook.js")).read_text()
    page.evaluate(NOTEBOOK, [esm, files, state])
    inside = page.frame_locator("iframe")
    inside.locator("#state[data-finished=true]").wait_for(timeout=WAIT_MS)
    page.evaluate("text => window.assign(text)", SHORT)
    inside.locator("textarea").wait_for()
    page.wait_for_function(
        "frames[0].document.querySelector('textarea').value.includes('20Mbit')", timeout=WAIT_MS
    )
    inside.get_by_role("button", name="Add flow").click()
    page.wait_for_function("window.model.state.scenario.split('[[flow]]').length === 4")
    assert not wrong
    page.evaluate("window.end()")
