"""`--record`: a run of either engine as a capture file, read back block by block, and by tshark if
it is installed.
"""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
from conftest import NARROWS, TINY, Cli
from test_live import ready

import narrows as nw
from narrows.errors import OutputError
from narrows.host.live import HOST

SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6
NEAR, FAR, PATH = 0, 1, 2
INBOUND, OUTBOUND = 1, 2

SCENARIO = """
duration = "3s"
[path]
rate   = "5Mbit"
rtt    = "20ms"
queue  = { kind = "codel", ecn = true }
loss   = "1%"
[[flow]]
cc  = "cubic"
ecn = true
[[flow]]
cc  = "reno"
[[probe]]
kind     = "ping"
interval = "50ms"
"""


@dataclass(frozen=True)
class Packet:
    """One record."""

    interface: int
    ns: int
    head: bytes
    length: int
    comment: str
    direction: int


def options(body: bytes) -> dict[int, bytes]:
    """Options of a block by their code."""
    found, at = {}, 0
    while at + 4 <= len(body):
        code, size = struct.unpack_from("<HH", body, at)
        if code == 0:
            break
        found[code] = body[at + 4 : at + 4 + size]
        at += 4 + (size + 3) // 4 * 4
    return found


def packets(file: Path) -> list[Packet]:
    """Every record of a capture, its framing checked."""
    data, at, found, interfaces = file.read_bytes(), 0, [], 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        assert size % 4 == 0
        assert struct.unpack_from("<I", data, at + size - 4)[0] == size
        body = data[at + 8 : at + size - 4]
        if kind == INTERFACE:
            assert options(body[8:])[9] == b"\x09"  # nanoseconds
            interfaces += 1
        elif kind == PACKET:
            interface, high, low, kept, length = struct.unpack_from("<IIIII", body)
            assert interface < interfaces
            rest = options(body[20 + (kept + 3) // 4 * 4 :])
            direction = struct.unpack("<I", rest.get(2, bytes(4)))[0]
            comment = rest.get(1, b"").decode()
            found.append(
                Packet(
                    interface, high << 32 | low, body[20 : 20 + kept], length, comment, direction
                )
            )
        else:
            assert kind == SECTION
        at += size
    return found


def in_time(run: nw.Run, seen: list[Packet]) -> None:
    """The packets are in the order of their times and, as in the metrics, of the run only."""
    assert all(a.ns <= b.ns for a, b in pairwise(seen))
    assert seen[-1].ns <= 3e9  # `duration` of each scenario


def check_capture(run: nw.Run, seen: list[Packet]) -> None:
    """Check that the capture agrees with the results of a run."""
    in_time(run, seen)
    comments = Counter(p.comment for p in seen if p.interface == PATH)
    assert all(p.comment for p in seen if p.interface == PATH)
    queue = run.json["queue"]
    assert (
        comments[f"marked CE by hop {queue['name']}: its control law decided so"]
        == queue["marks"]
        > 0
    )
    # 5001 to 20000: the receivers' ports of either engine.
    ports = [struct.unpack_from("!HH", p.head, 20) for p in seen]
    data = [
        p
        for p, (_, to) in zip(seen, ports, strict=True)
        if p.interface == NEAR
        and p.direction == OUTBOUND
        and p.head[9] == 6
        and to in {5001, 20000, 20001}
    ]
    sent = sum(max(p.length - (p.head[0] & 15) * 4 - (p.head[32] >> 4) * 4, 0) for p in data)
    assert sent >= sum(flow["series"][-1][1] for flow in run.flows)
    arrived = [p for p in seen if p.interface == FAR and p.direction == INBOUND]
    assert any(p.head[1] & 3 == 3 for p in arrived)
    assert any(p.head[9] == 17 for p in arrived)


def judged(file: Path) -> None:
    """Read by tshark without a complaint."""
    tshark = shutil.which("tshark")
    if tshark is None:
        pytest.skip("tshark is not installed: only the file's own structure was checked")
    fields = [
        "frame.interface_name",
        "frame.comment",
        "tcp.options.sack_perm",
        "tcp.analysis.retransmission",
    ]
    command = [tshark, "-r", str(file), "-T", "fields"] + [
        word for field in fields for word in ("-e", field)
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert {row[0] for row in rows} == {"near", "far", "path"}
    bad = subprocess.run(
        [tshark, "-r", str(file), "-Y", "_ws.malformed"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert not bad.stdout


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[nw.Run, Path]:
    """A simulated run and its capture."""
    folder = tmp_path_factory.mktemp("record")
    scenario = folder / "marked.toml"
    scenario.write_text(SCENARIO, encoding="utf-8")
    return nw.run(scenario, record=folder / "sim.pcapng"), folder / "sim.pcapng"


def test_a_simulated_run_is_a_capture(simulated: tuple[nw.Run, Path]) -> None:
    run, file = simulated
    seen = packets(file)
    check_capture(run, seen)
    lost = sum(p.comment.endswith("the path lost it at random") for p in seen)
    assert lost > 0


def test_tshark_reads_a_simulated_run(simulated: tuple[nw.Run, Path]) -> None:
    judged(simulated[1])


def test_recording_changes_nothing(simulated: tuple[nw.Run, Path]) -> None:
    run, file = simulated
    assert nw.run(file.with_name("marked.toml")).flows == run.flows


def test_a_live_run_is_a_capture(tmp_path: Path) -> None:
    ready("cubic", "reno")
    file, capture = tmp_path / "marked.toml", tmp_path / "live.pcapng"
    file.write_text(SCENARIO, encoding="utf-8")
    run = nw.run(file, engine="live", record=capture)
    check_capture(run, packets(capture))
    judged(capture)


LINKS = """
duration = "3s"
[link.first]
rate  = "5Mbit"
delay = "5ms"
[link.second]
rate   = "4Mbit"
delay  = "5ms"
buffer = "20p"
[link.back]
rate  = "5Mbit"
delay = "10ms"
[[flow]]
cc         = "cubic"
route      = ["first", "second"]
route_back = ["back"]
[[flow]]
cc    = "cubic"
route = ["second"]
[[probe]]
kind       = "ping"
interval   = "50ms"
route      = ["first"]
route_back = ["back"]
"""


def check_capture_of_links(run: nw.Run, seen: list[Packet]) -> None:
    """Check the capture of a network of links: every packet is there once at each host, and drops
    name their link.
    """
    in_time(run, seen)
    comments = Counter(p.comment for p in seen if p.interface == PATH)
    for queue in run.json["queues"]:
        told = [text for text in comments if f" {queue['name']}:" in text]
        assert sum(comments[text] for text in told) == queue["drops"], queue["name"]
    assert run.json["queues"][1]["drops"] > 0
    counts = Counter((p.interface, p.direction) for p in seen if p.interface != PATH)
    # Of the packets that a host sends, all but the drops and those still on their way arrive.
    for one, other in ((NEAR, FAR), (FAR, NEAR)):
        lost = counts[one, OUTBOUND] - counts[other, INBOUND]
        assert 0 <= lost <= sum(q["drops"] for q in run.json["queues"]) + 100
    data = [p for p in seen if p.interface == FAR and p.direction == INBOUND and p.head[9] == 6]
    arrived = sum(max(p.length - (p.head[0] & 15) * 4 - (p.head[32] >> 4) * 4, 0) for p in data)
    assert arrived >= sum(flow["series"][-1][1] for flow in run.flows)


def linked(folder: Path, engine: Literal["sim", "live", "linux"]) -> tuple[nw.Run, list[Packet]]:
    """A run of a network of links, and its capture."""
    file, capture = folder / "links.toml", folder / f"{engine}.pcapng"
    file.write_text(LINKS, encoding="utf-8")
    run = nw.run(file, engine=engine, record=capture)
    return run, packets(capture)


def test_a_network_of_links_is_a_capture(tmp_path: Path) -> None:
    check_capture_of_links(*linked(tmp_path, "sim"))


def test_a_live_network_of_links_is_a_capture(tmp_path: Path) -> None:
    ready("cubic")
    check_capture_of_links(*linked(tmp_path, "live"))


def test_a_capture_that_cannot_be_written_prevents_the_run(tmp_path: Path, command: Cli) -> None:
    file = tmp_path / "marked.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    with pytest.raises(OutputError, match="no such file or directory"):
        nw.run(file, record=tmp_path / "missing/out.pcapng")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["marked.toml"]
    done = command("run", str(file), "--record", "")
    assert done.returncode == 2


def test_a_full_disk_loses_the_capture_and_not_the_run(tmp_path: Path) -> None:
    file, result, capture = tmp_path / "tiny.toml", tmp_path / "result", tmp_path / "out.pcapng"
    file.write_text(TINY, encoding="utf-8")
    command = [NARROWS, "run", file, "--record", capture, "--out", result, "--json"]
    # No file may be as large as the capture.
    limit = ["prlimit", "--fsize=200000"]
    done = subprocess.run(
        [*limit, *command], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2, done.stderr
    said = f"{capture}: file too large; the capture was not kept, but the run is complete"
    assert done.stderr.splitlines()[-1] == said
    figures = json.loads(done.stdout)
    assert figures["flows"] == nw.run(file).flows
    assert (
        json.loads((result / "run.json").read_text(encoding="utf-8"))["flows"] == figures["flows"]
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["result", "tiny.toml"]


def test_a_full_disk_does_not_lose_a_live_run(tmp_path: Path) -> None:
    ready("cubic", "reno")
    file = tmp_path / "marked.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    command = [HOST, "run", file, "--record", "/dev/full"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (
        2,
        "--record /dev/full: No space left on device (os error 28)\n",
    )
    assert json.loads(done.stdout)["flows"]


def test_a_run_that_was_wrong_leaves_no_capture(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(SCENARIO.replace("5Mbit", "5Mbite"), encoding="utf-8")
    with pytest.raises(nw.ScenarioError):
        nw.run(file, record=tmp_path / "out.pcapng")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["wrong.toml"]
