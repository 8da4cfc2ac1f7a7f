"""`narrows new topology shaped-devices`: the scenario has the rates of the files, HTB and CAKE
share them accordingly, and errors have a place.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from conftest import Cli

import narrows as nw
from narrows.errors import NarrowsError
from narrows.models.libreqos import MOST_DEVICES
from narrows.models.shaped_devices import scenario
from narrows.render.tables import waits
from narrows.render.topology import graph

HEAD = (
    "Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,Download Min Mbps,"
    "Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment\n"
)


def row(circuit: str, device: str, parent: str, rates: str = "2,1,50,10") -> str:
    """A row of ShapedDevices.csv."""
    return f'{circuit},"Street {circuit}, Town",{device},Router,{parent},,100.64.0.1,,{rates},\n'


ROWS = (
    row("1", "1", "AP")
    + row("2", "2", "AP", "6,3,50,10")
    + row("2", "3", "AP", "6,3,50,10")
    + row("3", "4", "Site", "4,2,25,5")
)
TREE = {
    "Site": {
        "downloadBandwidthMbps": 60,
        "uploadBandwidthMbps": 30,
        "children": {"AP": {"downloadBandwidthMbps": 40, "uploadBandwidthMbps": 20}},
    }
}


def written(folder: Path, rows: str = HEAD + ROWS, tree: object = TREE) -> tuple[Path, Path]:
    """Both files."""
    devices, network = folder / "ShapedDevices.csv", folder / "network.json"
    devices.write_text(rows)
    network.write_text(tree if isinstance(tree, str) else json.dumps(tree, indent=2))
    return devices, network


def goodput(run: nw.Run, start: str) -> float:
    """The goodput of the flows whose id has this start, in Mbit/s."""
    return sum(f["goodput_mbit"] or 0 for f in run.flows if f["id"].startswith(start))


def played(text: str, folder: Path) -> nw.Run:
    """A run of a scenario."""
    file = folder / "isp.toml"
    file.write_text(text)
    return nw.run(str(file))


def test_classes_have_the_rates_of_the_files(tmp_path: Path) -> None:
    text = scenario(*written(tmp_path))
    down, up = text.split("[path.reverse]")
    rates = dict(re.findall(r' name = "(.*?)".* rate = "(.*?)"', down))
    assert rates == {
        "uplink": "60Mbit",
        "Site": "12Mbit",
        "AP": "8Mbit",
        "Street_1_Town": "2Mbit",
        "Street_2_Town": "6Mbit",
        "Street_3_Town": "4Mbit",
    }
    ceils = dict(re.findall(r'ceil = "(.*?)".*# (.*)', up))
    assert set(ceils) == {"30Mbit", "20Mbit", "10Mbit", "5Mbit"}
    assert up.count("dual-srchost") == down.count("dual-dsthost") == 3


def test_circuits_share_a_node_in_proportion_to_their_rates(tmp_path: Path) -> None:
    """Circuits 1 and 2 have guaranteed rates of 2 and 6 Mbit/s and share 40 Mbit/s. With quanta in
    the same ratio, the shares of the rest have this ratio, too, whatever the number of flows.
    """
    text = scenario(*written(tmp_path), flows=2, duration="40s")
    run = played(text, tmp_path)
    one, two = goodput(run, "1-"), goodput(run, "2-")
    assert two / one == pytest.approx(3, rel=0.05)
    assert one + two == pytest.approx(40 * 1448 / 1514, rel=0.06)
    assert one > 2
    assert goodput(run, "3-") < 25 * 1448 / 1514


def test_cake_shares_a_circuit_equally_among_devices(tmp_path: Path) -> None:
    """The first device of circuit 2 has 16 flows, the second device has four: both have half of the
    circuit. The circuit has three times the rate of circuit 1, whatever the number of its flows.
    """
    text = scenario(*written(tmp_path), flows=4, duration="40s")
    few = 'id    = "2-2-flow"\ncc    = "cubic"\nhost  = 1\ncount = '
    assert f"{few}4" in text
    run = played(text.replace(f"{few}4", f"{few}16"), tmp_path)
    first, second = goodput(run, "2-2-"), goodput(run, "2-3-")
    assert len(run.flows) == 4 + 16 + 4 + 4
    assert first == pytest.approx(second, rel=0.05)
    assert first + second == pytest.approx(3 * goodput(run, "1-"), rel=0.05)


def test_guaranteed_rates_never_exceed_the_rate_of_the_node(tmp_path: Path) -> None:
    """HTB does not check it, so that narrows would warn of it."""
    rows = "".join(row(str(i), str(i), "AP", "10,5,50,20") for i in range(20))
    text = scenario(*written(tmp_path, HEAD + rows), duration="5s")
    run = played(text, tmp_path)
    assert not run.json.get("notices")
    total = goodput(run, "")
    assert total <= 40
    assert total == pytest.approx(40 * 1448 / 1514, rel=0.05)


def test_rows_name_the_devices_of_a_circuit_and_the_number_of_a_ping(tmp_path: Path) -> None:
    run = played(scenario(*written(tmp_path), duration="3s"), tmp_path)
    labels = [row[0].text for row in waits(run.json).rows]
    circuits = ["  Street_1_Town (1-1-flow, ping0)"]
    circuits += ["  Street_2_Town (2-2-flow, 2-3-flow and 1 more)"]
    circuits += ["  Street_3_Town (3-4-flow, ping2)"]
    assert labels == [
        "queueing delay, path",
        *circuits,
        "queueing delay, reverse",
        *circuits,
        *(f"ping{number} RTT" for number in range(3)),
    ]


def test_results_have_the_names_of_circuits(tmp_path: Path) -> None:
    run = played(scenario(*written(tmp_path), duration="3s"), tmp_path)
    names = ["Street_1_Town", "Street_2_Town", "Street_3_Town", "direct"]
    assert [part["name"] for part in run.json["queue"]["classes"]] == names


def test_equal_names_of_circuits_have_numbers(tmp_path: Path) -> None:
    rows = ROWS.replace("Street 2", "Street 1").replace('"Street 3, Town"', '"direct"')
    text = scenario(*written(tmp_path, HEAD + rows), duration="3s")
    names = re.findall(r' name = "(.*?)"', text.split("[path.reverse]")[0])
    assert names == ["uplink", "Site", "AP", "Street_1_Town", "Street_1_Town-2", "direct-2"]


def test_the_network_is_the_tree_in_both_directions(tmp_path: Path) -> None:
    made = graph(played(scenario(*written(tmp_path), duration="10s"), tmp_path).json)
    names = [node.name for node in made.nodes]
    ends = {
        (link.name, names[link.begin], names[link.end]): link for link in made.links if link.load
    }
    for circuit, parent in (("1", "AP"), ("2", "AP"), ("3", "Site")):
        name = f"Street_{circuit}_Town"
        down, up = ends[name, parent, name], ends[name, name, parent]
        assert up.back
        assert not down.back
        assert (down.load or 0) > (up.load or 0) > 0
    total = ends["uplink", "", "uplink"]
    below = [ends[name, "AP", name].load or 0 for name in ("Street_1_Town", "Street_2_Town")]
    assert total.load == pytest.approx(1, abs=0.1)
    # Both circuits have 50 Mbit/s at most, and their node has 40 Mbit/s.
    assert ends["AP", "Site", "AP"].load == pytest.approx(sum(below) * 50 / 40, rel=1e-6)


def test_rows_of_counted_classes_have_no_flows(tmp_path: Path) -> None:
    text = 'duration = "2s"\n[path]\nrate = "10Mbit"\nrtt = "20ms"\n'
    text += '[path.queue]\nkind = "drr"\nclasses = 4\n[[flow]]\ncc = "cubic"\n'
    labels = [row[0].text for row in waits(played(text, tmp_path).json).rows]
    assert labels[0] == "queueing delay"
    assert not [label for label in labels if "(" in label]


def test_without_a_network_circuits_share_the_uplink(tmp_path: Path) -> None:
    devices, _ = written(tmp_path)
    text = scenario(devices, rate="30Mbit", duration="20s")
    assert 'parent = "1:1"' in text
    assert 'parent = "1:2"' not in text
    assert goodput(played(text, tmp_path), "") <= 30


def test_queues_of_the_column_sqm(tmp_path: Path) -> None:
    head = HEAD.replace("Comment", "Comment,sqm")
    rows = row("1", "1", "AP").replace("\n", ",fq_codel/none\n")
    text = scenario(*written(tmp_path, "# a comment\n\n" + head + rows))
    down, up = text.split("[path.reverse]")
    assert 'queue = "fq_codel"' in down
    assert 'queue = "fifo"' in up


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("", "ShapedDevices.csv:1:1: has no header"),
        (HEAD.replace("Parent Node,", "") + ROWS, "ShapedDevices.csv:1:1: has no column 'Parent"),
        (HEAD, "ShapedDevices.csv:2:1: has no devices"),
        (HEAD + row("1", "1", "AP", "2,1,50"), "ShapedDevices.csv:2:1: has 12 fields"),
        (HEAD + row("1", "1", "AP") + row("2", "2", "AP", "x,1,50,10"),
         "ShapedDevices.csv:3:45: Download Min Mbps: 'x' is not a rate from 0.1 to 1000000"),
        (HEAD + row("1", "1", "AP", "nan,1,50,10"), "'nan' is not a rate"),
        (HEAD + row("1", "1", "AP", "60,1,50,10"), "60 is above Download Max Mbps"),
        (HEAD + row("1", "1", "Ap"), "ShapedDevices.csv:2:29: Parent Node: 'Ap' is not a node"),
        (HEAD + row("", "1", "AP"), "ShapedDevices.csv:2:1: Circuit ID: is missing"),
        (HEAD + row("1", "1", "AP") * 2, "'1' occurs twice in circuit '1'"),
        (HEAD + row("1", "1", "AP") + row("1", "2", "AP", "2,1,40,10"),
         "has other rates or another parent in line 2"),
        (HEAD + '1,"open', "ShapedDevices.csv:2:1: unexpected end of data"),
        (HEAD + "".join(row(str(i), "1", "AP") for i in range(MOST_DEVICES + 1)),
         f"has more than {MOST_DEVICES} devices"),
        (HEAD + "".join(row("1", str(i), "AP") for i in range(64)), "has more than 63 devices"),
    ],
)  # fmt: skip
def test_errors_in_the_devices_have_a_place(tmp_path: Path, rows: str, told: str) -> None:
    with pytest.raises(NarrowsError) as error:
        scenario(*written(tmp_path, rows))
    assert told in str(error.value)


def _deep(depth: int) -> object:
    made: dict[str, object] = {}
    for i in range(depth):
        about = {"downloadBandwidthMbps": 10, "uploadBandwidthMbps": 10, "children": made}
        made = {f"n{i}": about}
    return made


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        ('{\n  "AP": {,}\n}', "network.json:2:10: "),
        ("[]", "network.json:1:1: the file: is not an object of nodes"),
        ({"A": {"downloadBandwidthMbps": 1}},
         'network.json:2:3: A: uploadBandwidthMbps is missing; write a rate in Mbit/s'),
        ({"A": {"downloadBandwidthMbps": True, "uploadBandwidthMbps": 1}}, "is true, not a rate"),
        ({"A": {"downloadBandwidthMbps": float("nan"), "uploadBandwidthMbps": 1}}, "is NaN"),
        ({"A": 5}, "network.json:2:3: A: is not an object"),
        ({**TREE, "AP": TREE["Site"]["children"]["AP"]}, "AP: occurs twice"),
        ('{"A": {}, "A": {}}', "the key 'A' occurs twice in an object"),
        (_deep(7), "is below more than 6 nodes"),
        ("[" * 100_000, "network.json:1:1: is nested too deeply"),
    ],
)  # fmt: skip
def test_errors_in_the_network_have_a_place(tmp_path: Path, tree: object, told: str) -> None:
    with pytest.raises(NarrowsError) as error:
        scenario(*written(tmp_path, tree=tree))
    assert told in str(error.value)


def test_no_text_causes_another_error(tmp_path: Path) -> None:
    draw, whole = random.Random(1), HEAD + ROWS
    for _ in range(300):
        text = list(whole)
        for _ in range(draw.randint(1, 6)):
            at = draw.randrange(len(text))
            text[at] = draw.choice(['"', ",", "\n", "\r", "\0", "é", "\u2028", "9" * 20, "#", ""])
        files = written(tmp_path, "".join(text))
        told = ""
        try:
            made = scenario(*files)
        except NarrowsError as error:
            told, made = str(error), ""
        assert "classes" in made or "ShapedDevices.csv:" in told, told


def test_the_command_writes_a_scenario_that_runs(
    tmp_path: Path, command: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    words = ["new", "topology", "shaped-devices", "ShapedDevices.csv", "isp.toml"]
    done = command(*words, "--network", "network.json", "--duration", "2s")
    assert done.returncode == 0, done.stderr
    assert nw.run("isp.toml").json["scenario"]["duration"] == "2s"
    again = command(*words)
    assert again.returncode == 2
    wrong = command(*words[:-1], "other.toml", "--rate", "fast")
    assert wrong.returncode == 2
    assert "--rate fast" in wrong.stderr
