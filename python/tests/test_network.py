"""The picture of a network: its graph is that of the scenario, its values are those of the run, and
texts do not overlap.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import Opened, chromium
from conftest import ROOT, Cli

import narrows as nw
from narrows.errors import NarrowsError
from narrows.render import words
from narrows.render.layout import Drawing, draw
from narrows.render.pictures import pictures
from narrows.render.plot import COLOURS, check_room
from narrows.render.report import drawn, topology
from narrows.render.style import Style
from narrows.render.topology import graph

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FILES = [
    *sorted((ROOT / "scenarios/topologies").glob("*.toml")),
    ROOT / "scenarios/first/cubic.toml",
    ROOT / "scenarios/wifi/three-stations.toml",
    ROOT / "scenarios/wifi/behind-wan.toml",
]


def tree(subscribers: int, sites: int = 5) -> str:
    """An access network: a core link, a link to each site, a link to each subscriber."""
    text = 'duration = "300ms"\n'
    down, up = '[link.{}]\nrate = "200Mbit"\n', '[link.{}_up]\nrate = "50Mbit"\n'
    names = ["core", *(f"site{i}" for i in range(sites)), *(f"sub{i}" for i in range(subscribers))]
    text += "".join(down.format(name) + up.format(name) for name in names)
    for i in range(subscribers):
        route = ["core", f"site{i % sites}", f"sub{i}"]
        back = [f"{name}_up" for name in reversed(route)]
        text += f'[[flow]]\nid = "flow{i}"\ncc = "cubic"\nroute = {json.dumps(route)}\n'
        text += f"route_back = {json.dumps(back)}\n"
    return text


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium."""
    with chromium() as started:
        yield started


def run(text: str, folder: Path) -> nw.Run:
    """A short run."""
    file = folder / "network.toml"
    file.write_text(text)
    return nw.run(str(file), sample_interval="pictures")


def short(file: Path, folder: Path) -> nw.Run:
    """A short run of a shipped scenario: the graph is the same."""
    text = re.sub(r'^duration *= *"[^"]*"', 'duration = "2s"', file.read_text(), flags=re.MULTILINE)
    text = re.sub(r'^warmup *= *"[^"]*"\n', "", text, flags=re.MULTILINE)
    text = re.sub(r"^(reroute|outages) *=.*\n", "", text, flags=re.MULTILINE)
    return run(text, folder)


def ends(made: nw.Run) -> dict[str, tuple[int, int]]:
    """The nodes of each link."""
    return {link.name: (link.begin, link.end) for link in graph(made.json).links}


def test_links_of_a_parking_lot_are_a_chain(tmp_path: Path) -> None:
    made = short(ROOT / "scenarios/topologies/parking-lot.toml", tmp_path)
    found = ends(made)
    assert found["first"][1] == found["second"][0]
    assert found["second"][1] == found["third"][0]
    nodes = graph(made.json).nodes
    assert nodes[found["second"][0]].lines() == ["sender of cross2", "receiver of cross1"]
    assert nodes[found["third"][1]].lines() == ["receivers of long, cross3"]


def test_routes_in_both_directions_cross_the_same_nodes(tmp_path: Path) -> None:
    found = ends(run(tree(20), tmp_path))
    for name, (begin, end) in found.items():
        if not name.endswith("_up"):
            assert found[f"{name}_up"] == (end, begin)
    assert len({node for pair in found.values() for node in pair}) == 1 + 1 + 5 + 20


def test_named_nodes_are_those_of_the_scenario(tmp_path: Path) -> None:
    made = short(ROOT / "scenarios/topologies/leaf-spine.toml", tmp_path)
    assert sorted(node.name for node in graph(made.json).nodes) == sorted(
        ["leaf1", "leaf2", *(f"spine{i}" for i in range(1, 5))]
    )
    shown = draw(graph(made.json))
    at = {node.name: place for node, place in zip(graph(made.json).nodes, shown.nodes, strict=True)}
    assert at["leaf1"][0] < at["spine1"][0] == at["spine4"][0] < at["leaf2"][0]


def overlaps(shown: Drawing) -> list[tuple[str, str]]:
    """The pairs of texts that hide parts of each other."""
    boxes = [
        ("".join(part.text for part in t.parts), t.left, t.left + t.width, t.y - 9, t.y + 2)
        for t in shown.texts
    ]
    return [
        (a[0], b[0])
        for a, b in itertools.combinations(boxes, 2)
        if a[1] < b[2] and b[1] < a[2] and a[3] < b[4] and b[3] < a[4]
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_text_hides_another_one(file: Path, tmp_path: Path) -> None:
    shown = draw(graph(short(file, tmp_path).json))
    assert overlaps(shown) == []
    for text in shown.texts:
        assert 0 <= text.left <= text.left + text.width <= shown.width
        assert 0 <= text.y <= shown.height


def test_a_tree_of_fifty_subscribers_is_readable(tmp_path: Path) -> None:
    shown = draw(graph(run(tree(50), tmp_path).json))
    assert overlaps(shown) == []
    assert shown.width < 1200
    assert shown.height < 1800
    rows = sorted(y for x, y in shown.nodes if x == max(x for x, _ in shown.nodes))
    assert len(rows) == 50
    assert min(b - a for a, b in itertools.pairwise(rows)) >= 20


def test_cycles_and_parallel_links_have_places(tmp_path: Path) -> None:
    text = 'duration = "100ms"\n'
    for name, a, b in (("ab", "a", "b"), ("bc", "b", "c"), ("ca", "c", "a"), ("ab2", "a", "b")):
        text += f'[link.{name}]\nrate = "10Mbit"\nfrom = "{a}"\nto = "{b}"\n'
    for a, b in ("ab", "bc", "ca"):
        text += f'[[flow]]\ncc = "reno"\nfrom = "{a}"\nto = "{b}"\n'
    shown = draw(graph(run(text, tmp_path).json))
    assert len(set(shown.nodes)) == 3
    assert len({(c.start, c.control, c.end) for c in shown.curves}) == 4


def test_the_values_of_the_picture_are_those_of_the_run(tmp_path: Path) -> None:
    made = short(ROOT / "scenarios/topologies/isp-tree.toml", tmp_path)
    parts = [part for text in topology(made.json)["texts"] for part in text["parts"]]
    seen = set()
    for text, path in parts:
        if not path:
            continue
        value: Any = made.json
        for key in path.split("."):
            value = value[int(key)] if key.isdigit() else value[key]
        if isinstance(value, str):
            assert text == value
        else:
            assert abs(float(text.removesuffix(" %")) / 100 - value) <= 0.005
        seen.add(path)
    assert {f"queues.{i}.utilisation" for i in range(8)} <= seen


def test_the_network_is_a_picture_that_is_drawn_alone(tmp_path: Path) -> None:
    made = short(ROOT / "scenarios/topologies/leaf-spine.toml", tmp_path)
    made.plot(tmp_path / "network.svg", only=["network"])
    text = (tmp_path / "network.svg").read_text()
    assert "spine3" in text
    assert "down4" in text
    with pytest.raises(NarrowsError, match="cannot be drawn with other plots"):
        made.plot(only=["network", "queue"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_figure_of_a_network_clips_no_text_and_has_a_legend(file: Path, tmp_path: Path) -> None:
    figure: Any = short(file, tmp_path).plot(only=["network"])
    figure.draw_without_rendering()
    (ax,) = figure.axes
    page = figure.bbox
    legend = ax.get_legend()
    texts = [*ax.texts, ax._left_title, *legend.get_texts()]
    for text in texts:
        box = text.get_window_extent()
        inside = page.x0 <= box.x0 < box.x1 <= page.x1 and page.y0 <= box.y0 < box.y1 <= page.y1
        assert inside, text.get_text()
    assert [one.get_text() for one in legend.get_texts()] == [
        "below 50 %", "50 to 90 %", "from 90 %",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "context",
    [
        {"color_scheme": "light"},
        {"color_scheme": "dark"},
        {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
    ],
    ids=["light", "dark", "phone"],
)
def test_a_browser_shows_the_network(
    browser: Browser, tmp_path: Path, context: dict[str, Any]
) -> None:
    made = run(tree(50), tmp_path)
    made.report(tmp_path / "page.html")
    opened = Opened(browser, tmp_path / "page.html", **context)
    picture = opened.page.locator("#network svg")
    assert picture.bounding_box()["height"] > 900
    assert opened.page.locator("#network svg .link").count() == 112
    names = opened.page.locator("#network svg text").all_text_contents()
    assert any(text.startswith("sub49 ") for text in names)
    colour = "el => getComputedStyle(el).fill"
    text, ground = (
        opened.page.eval_on_selector(f"#network svg {s}", colour) for s in ("text", "rect")
    )
    assert text != ground
    # The picture scrolls in its own region; the page does not.
    wide = opened.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= opened.page.viewport_size["width"]
    # The estimated width of a text contains the text.
    boxes = opened.page.evaluate(
        "[...document.querySelectorAll('#network svg text')].map(t => [t.textContent, "
        "t.getComputedTextLength(), +t.previousElementSibling.getAttribute('width')])"
    )
    for text, width, ground in boxes:
        assert width <= ground + 2, text
    assert opened.wrong == []


def test_the_metrics_of_links_are_consistent(tmp_path: Path) -> None:
    text = 'duration = "4s"\nwarmup = "1s"\n'
    text += '[link.slow]\nrate = "10Mbit"\nbuffer = "20kB"\nloss = "0.5%"\n'
    text += '[link.fair]\nrate = "8Mbit"\nqueue = "fq_codel"\n'
    text += '[[flow]]\nid = "a"\ncc = "cubic"\nrtt = "20ms"\ncount = 4\nroute = ["slow", "fair"]\n'
    text += '[[flow]]\nid = "b"\ncc = "cubic"\nrtt = "20ms"\ncount = 4\nroute = ["slow"]\n'
    made = run(text, tmp_path)
    rows = made.links.to_pylist()
    assert [row["link"] for row in rows] == ["slow", "fair"]
    for row, queue in zip(rows, made.json["queues"], strict=True):
        lost = queue["lost"]
        assert queue["drops"] == lost["overflow"] + lost["aqm"] + lost["policer"]
        assert row["carried_bytes"] * 8e-6 / 3 == pytest.approx(row["carried_mbit"], rel=1e-4)
        assert row["utilisation"] == pytest.approx(row["carried_mbit"] / row["rate_mbit"], rel=1e-4)
        assert (row["lost_aqm"], row["marks"]) == (lost["aqm"], queue["marks"])
    slow, fair = rows
    assert slow["lost_overflow"] > 0
    assert slow["lost_loss"] > 0
    assert fair["lost_loss"] == 0
    # At least the random losses, and not more than all lost packets of the run in the interval.
    frames = slow["carried_bytes"] / 1514
    lost = slow["lost_overflow"] + slow["lost_loss"]
    assert 0.003 < slow["loss_rate"] < 1.2 * lost / frames
    made.save(tmp_path / "out")
    assert (tmp_path / "out" / "links.parquet").exists()


def test_a_path_has_no_table_of_links(tmp_path: Path) -> None:
    made = short(ROOT / "scenarios/first/cubic.toml", tmp_path)
    assert made.links.num_rows == 0
    made.save(tmp_path / "out")
    assert not (tmp_path / "out" / "links.parquet").exists()


def leaf_spine(spines: int = 3) -> str:
    """Two leaves; each spine has links in both directions to both leaves."""
    text = 'duration = "500ms"\n'
    for i in range(1, spines + 1):
        for name, a, b in (
            (f"up{i}", "leaf1", f"s{i}"),
            (f"dn{i}", f"s{i}", "leaf2"),
            (f"bu{i}", "leaf2", f"s{i}"),
            (f"bd{i}", f"s{i}", "leaf1"),
        ):
            text += f'[link.{name}]\nrate = "100Mbit"\ndelay = "20us"\nbuffer = "50kB"\n'
            text += f'from = "{a}"\nto = "{b}"\n'
    return text + '[[flow]]\ncc = "cubic"\ncount = 6\nfrom = "leaf1"\nto = "leaf2"\n'


def test_the_sentences_describe_the_link_that_they_name(tmp_path: Path) -> None:
    made = run(leaf_spine(), tmp_path)
    by_name = {queue["name"]: queue for queue in made.json["queues"]}
    told = re.match(
        r"Of the (\d) busiest links \(loads within 1 %\), (\w+) had the largest mean "
        r"queueing delay and a utilisation of 100 %; mean queueing delay of (\w+) ([\d.]+) ms "
        r"\(p95 ([\d.]+)",
        words.sentence(made.json),
    )
    assert told is not None, words.sentence(made.json)
    highest = max(queue["utilisation"] for queue in by_name.values())
    near = [queue for queue in by_name.values() if queue["utilisation"] > 0.99 * highest]
    assert int(told[1]) == len(near)
    assert told[2] == told[3] == max(near, key=lambda queue: queue["delay_ms"]["mean"])["name"]
    delay = by_name[told[2]]["delay_ms"]
    assert (told[4], told[5]) == (words.waited(delay["mean"]), words.waited(delay["p95"]))
    answer = " ".join(words.answer(made.json))
    assert f"delay of the link {told[2]} was {told[4]} ms" in answer
    total = sum(queue["drops"] for queue in by_name.values())
    most = max(by_name.values(), key=lambda queue: queue["drops"])
    told_drops = f"{total} packets ({most['drops']} of them in the queue of {most['name']})"
    assert f"all queues together dropped {told_drops}" in answer


def test_the_busiest_link_is_not_that_with_the_lowest_rate(tmp_path: Path) -> None:
    text = 'duration = "2s"\n'
    text += (
        '[link.idle]\nrate = "5Mbit"\ndelay = "9ms"\n[link.busy]\nrate = "8Mbit"\nbuffer = "20kB"\n'
    )
    text += '[[flow]]\nid = "a"\ncc = "cubic"\nrtt = "20ms"\nroute = ["busy"]\n'
    text += '[[flow]]\nid = "b"\nroute = ["idle"]\n'
    text += 'workload = { kind = "udp", rate = "1Mbit" }\n'
    made = run(text, tmp_path)
    busy = next(queue for queue in made.json["queues"] if queue["name"] == "busy")
    told = words.sentence(made.json)
    assert told.startswith("The busiest link, busy, had a utilisation of ")
    assert f"mean queueing delay of busy {words.waited(busy['delay_ms']['mean'])} ms" in told


def columns_of(made: nw.Run) -> dict[str, float]:
    """The x coordinate of each named node."""
    places = draw(graph(made.json)).nodes
    return {n.name: at[0] for n, at in zip(graph(made.json).nodes, places, strict=True) if n.name}


@pytest.mark.parametrize("count", [1, 6])
@pytest.mark.parametrize("both", [False, True], ids=["one way", "both ways"])
def test_return_links_do_not_move_the_nodes(tmp_path: Path, count: int, both: bool) -> None:
    """With one flow, most links are idle. With data in both directions, the first sender counts."""
    text = leaf_spine().replace("count = 6", f"count = {count}")
    if both:
        text += f'[[flow]]\ncc = "reno"\ncount = {count}\nfrom = "leaf2"\nto = "leaf1"\n'
    made = run(text, tmp_path)
    at = columns_of(made)
    assert set(at) == {"leaf1", "leaf2", "s1", "s2", "s3"}
    assert at["leaf1"] < at["s1"] == at["s2"] == at["s3"] < at["leaf2"]
    assert overlaps(draw(graph(made.json))) == []
    assert len(set(draw(graph(made.json)).nodes)) == 5


def test_each_link_has_a_line_of_its_own(tmp_path: Path) -> None:
    made = run(leaf_spine(2), tmp_path)
    names = [queue["name"] for queue in made.json["queues"]]
    figure = made.plot(only=["queue", "losses"])
    for ax, suffix in zip(figure.axes, ("", ": dropped"), strict=True):
        lines = {line.get_label(): line for line in ax.get_lines()}
        found = [lines[name + suffix] for name in names]
        assert [line.get_color() for line in found] == list(COLOURS)
        assert {line.get_linestyle() for line in found} == {"-"}
        # A FIFO marks no packets.
        assert not [label for label in lines if label.endswith(": marked")]
    marking = run(leaf_spine(2).replace('buffer = "50kB"', 'queue = "codel"'), tmp_path)
    assert len([x for x in pictures(marking)[4].lines if x.label.endswith(": marked")]) == 8
    page = {picture["key"]: picture for picture in drawn(pictures(made))["pictures"]}
    assert [line["queue"] for line in page["queue"]["lines"]] == list(range(8))
    assert [line["queue"] for line in page["delay"]["lines"]] == list(range(8))


def test_a_network_has_no_rate_of_the_path(tmp_path: Path) -> None:
    shown = pictures(run(leaf_spine(2), tmp_path), ["pacing"])
    for picture in shown:
        assert not [line for line in picture.lines if "rate of the path" in line.label]
        assert "rate of the path" not in picture.about
    path = pictures(short(ROOT / "scenarios/first/cubic.toml", tmp_path))
    assert "rate of the path" in [line.label for line in path[0].lines]
    assert "rate of the path" in path[0].about


@pytest.mark.parametrize("spines", [4, 30])
def test_a_figure_of_many_links_has_room_for_their_names(tmp_path: Path, spines: int) -> None:
    made = run(leaf_spine(spines).replace('buffer = "50kB"', 'queue = "codel"'), tmp_path)
    figure = made.plot(tmp_path / "a.png")
    figure.draw_without_rendering()
    boxes = [ax.get_legend().get_window_extent() for ax in figure.axes]
    for above, below in itertools.pairwise(boxes):
        assert above.y0 > below.y1
    names = [text.get_text() for text in figure.axes[3].get_legend().get_texts()]
    assert names[:2] == ["up1", "dn1"]
    assert len(names) == min(4 * spines, 40)
    assert (names[-1] == "and 81 more") == (spines == 30)


def test_a_size_without_room_is_refused_before_the_run(
    tmp_path: Path, command: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("long.toml").write_text(leaf_spine(4))
    words = ["run", "long.toml", "--plot", "a.png", "--size", "200x100mm"]
    done = command(*words)
    # The result of a run would be printed.
    assert (done.returncode, done.stdout) == (2, "")
    assert "a.png: 6 plots have no room in 200x100mm" in done.stderr
    check_room("a.png", Style(inches=(8, 24)), flows=6, queues=16)
    check_room("a.png", None, flows=6, queues=16)
