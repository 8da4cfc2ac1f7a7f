"""`narrows conform` with a pair of commands: the traffic of a path, refusals, a live run."""

from __future__ import annotations

import json
import struct
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import Cli
from test_live import ready

from narrows.conform import pair, rival, running, traffic
from narrows.conform.suites import checks
from narrows.json_object import JsonObject

ROOT = Path(__file__).parents[2]
RIVAL = Path(rival.__file__)
SERVER = f"{sys.executable} -IS {RIVAL} send {{port}} reno"
CLIENT = f"{sys.executable} -IS {RIVAL} receive far {{port}} {{seconds}}"
FAR, NEAR, INSIDE = 0, 1, 2
OUT, IN = 2, 1


def block(kind: int, body: bytes) -> bytes:
    size = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + size + body + size


def packet(interface: int, direction: int, t_s: float, port: int, size: int) -> bytes:
    """A packet of UDP from the server with `size` bytes of payload."""
    length = 20 + 8 + size
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, length, 0, 0, 64, 17, 0, 0x0A000002, 0x0A000001)
    head = ip + struct.pack(">HHHH", port, 9, 8 + size, 0)
    ns = round(t_s * 1e9)
    body = struct.pack("<IIIII", interface, ns >> 32, ns & 0xFFFFFFFF, len(head), length)
    return block(6, body + head + struct.pack("<HHIHH", 2, 4, direction, 0, 0))


def metrics(**queue: object) -> JsonObject:
    down = {"direction": "down", "marks": 0, "delay_ms": {"p50": 3.0, "p95": 30.0}} | queue
    return {"queues": [down], "instruments": {"trusted": True, "why": []}}


def capture(tmp_path: Path) -> Path:
    """Two flows: 1000 packets of the pair, of which one in ten is lost, and 100 of the rival."""
    blocks = [block(0x0A0D0D0A, bytes(16)), block(1, bytes(8))]
    for i in range(1000):
        t_s = 1.0 + i * 0.01
        blocks.append(packet(FAR, OUT, t_s, 5301, 1250))
        if i % 10:
            blocks.append(packet(NEAR, IN, t_s, 5301, 1250))
        else:
            blocks.append(packet(INSIDE, 0, t_s, 5301, 1250))
            blocks.append(packet(NEAR, IN, t_s, 5402, 1250))
            blocks.append(packet(NEAR, OUT, t_s, 5301, 1250))
    file = tmp_path / "it.pcapng"
    file.write_bytes(b"".join(blocks))
    return file


def seen(tmp_path: Path, ports: dict[int, str], **queue: object) -> traffic.Traffic:
    return traffic.read(capture(tmp_path), metrics(**queue), ports, warmup_s=2.0, duration_s=9.0)


def test_quantities_of_a_capture(tmp_path: Path) -> None:
    found = seen(tmp_path, {5301: "target0", 5402: "rival1"})
    assert found.begin_s == pytest.approx(1.01)
    assert traffic.lost(found) == pytest.approx(10.0)
    assert traffic.share("rival")(found) == pytest.approx(10.0, abs=0.2)
    assert traffic.utilization(2.0)(found) == pytest.approx(50.0, abs=0.5)
    assert traffic.between(0.0, 1.0, 2.0)(found) == pytest.approx(45.0, abs=1.0)
    assert traffic.rtt_p95(40.0)(found) == 70.0
    assert traffic.queue_p50(found) == 3.0
    assert traffic.marked_lost(found) is None
    assert not found.ended()


def test_a_queue_that_marks_decides_the_check_of_marks(tmp_path: Path) -> None:
    found = seen(tmp_path, {5301: "target0"}, marks=1)
    assert traffic.marked_lost(found) == pytest.approx(10.0)


def test_a_pair_without_ports_has_all_other_packets(tmp_path: Path) -> None:
    assert seen(tmp_path, {0: "target0"}).flows["target0"].totals[-1] == 1000 * 1250


def test_a_transfer_that_ends_early_is_reported(tmp_path: Path) -> None:
    found = traffic.read(
        capture(tmp_path), metrics(), {5301: "target0"}, warmup_s=2.0, duration_s=30.0
    )
    assert "ended after 10.0 s, but the check needs 30 s; use {seconds} in" in found.ended()
    assert "needs 30 s; --client must transfer data" in found.ended("client -t {seconds}")
    missing = seen(tmp_path, {5301: "target0", 5303: "rival1"})
    assert missing.ended() == "no data of the flow rival1 arrived"


def test_each_check_names_a_quantity_of_the_path_or_a_reason() -> None:
    of = pair.pair(SERVER, CLIENT, "cubic")
    single = pair.pair("serve", "fetch {seconds}", "cubic")
    refused = {one.name: single.refusal(one) for one in checks("all")}
    assert {name for name, reason in refused.items() if "{port}" in reason} == {
        "late-flow", "many", "share-of-reno-5", "share-of-cubic-5", "share-of-bbr-5",
    }  # fmt: skip
    assert not any(of.refusal(one) for one in checks("fairness"))
    assert "variable of the stack" in of.refusal(
        next(one for one in checks("basics") if one.name == "reduction-cubic")
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--server", "x"], "--server: a pair of programs needs both --server and --client"),
        ([], "TARGET: is missing; write cubic"),
        (["cubic", "--engine", "linux"], "--engine: a pair of programs needs both"),
        (["cubic", "--server", "x", "--client", "y"], "cubic: excluded by --server and --client"),
        (["--server", "x", "--client", "y", "--report", "it.html"], "omit --report"),
        (
            ["--server", "x", "--client", "y", "--engine", "linux", "--kernel", "nosuch"],
            "--kernel nosuch: this kernel is not built",
        ),
        (["cubic", "--junit", "/proc/it.xml"], "/proc/it.xml: no file can be created in /proc"),
    ],
)
def test_contradictory_arguments_name_the_remedy(
    command: Cli, arguments: list[str], message: str
) -> None:
    done = command("conform", *arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_pair_runs_over_an_emulated_path(cli: Cli) -> None:
    ready()
    done = cli(
        "conform", "--server", SERVER, "--client", CLIENT, "--as", "reno", "--seeds", 1, "--json",
        "--only", "start-up-goodput,short-flow,reduction-reno,closed-form-cubic",
    )  # fmt: skip
    assert done.returncode in {0, 1}, done.stderr
    found = {one["check"]: one for one in json.loads(done.stdout)["checks"]}
    if "self-check" in found["start-up-goodput"]["reason"]:
        pytest.skip(found["start-up-goodput"]["reason"])
    assert found["start-up-goodput"]["mean"] > 5.0, found
    assert found["short-flow"]["verdict"] == "not decided"
    assert found["closed-form-cubic"]["verdict"] == "not applicable"


def test_programs_that_send_nothing_are_an_error(cli: Cli) -> None:
    ready()
    done = cli(
        "conform", "--server", "sleep 1", "--client", "echo no reply; true", "--only",
        "start-up-goodput", "--seeds", 1,
    )  # fmt: skip
    assert done.returncode == 2
    assert "no data of the server arrived" in done.stderr
    assert "no reply" in done.stderr
    assert "-c far" in done.stderr
    silent = cli(
        "conform", "--server", "true", "--client", "true", "--only", "start-up-goodput",
        "--seeds", 1,
    )  # fmt: skip
    assert silent.returncode == 2
    assert "the programs printed nothing" in silent.stderr


def test_programs_that_send_nothing_after_the_first_run_leave_the_check_undecided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of = pair.pair(SERVER, CLIENT, "reno")
    seen = iter([True, False])

    def play(*_: object) -> object:
        if not next(seen):
            raise pair.NoDataError("no data")
        return SimpleNamespace(trusted=True, ended=lambda _: "it ended")

    monkeypatch.setattr(running.pair, "play", play)
    (result,) = running.conform(of, "all", seeds=2, only=["steady-goodput"]).results
    assert result.verdict == "not decided"
    assert "not measured in 2 of 2 runs" in result.reason
    seen = iter([False])
    with pytest.raises(pair.NoDataError):
        running.conform(of, "all", seeds=1, only=["steady-goodput"])


def test_a_pair_of_quic_programs(cli: Cli) -> None:
    ready()
    if find_spec("aioquic") is None:
        pytest.skip("aioquic is not installed (pip install aioquic)")
    program = f"{sys.executable} {ROOT / 'validation' / 'quic_pair.py'}"
    done = cli(
        "conform", "--server", f"{program} serve {{port}} cubic", "--client",
        f"{program} fetch far {{port}} {{seconds}}", "--as", "cubic", "--seeds", 1, "--json",
        "--only", "start-up-goodput",
    )  # fmt: skip
    assert done.returncode in {0, 1}, done.stderr
    (found,) = json.loads(done.stdout)["checks"]
    if "self-check" in found["reason"]:
        pytest.skip(found["reason"])
    assert found["mean"] > 5.0, found
