"""Programs over an emulated path. A test is skipped, with the reason, if the machine lacks a
feature or if the run failed its self-check.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shlex
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import NARROWS
from test_live import ready, running
from test_record import INBOUND, OUTBOUND, packets

from narrows import files
from narrows.host.live import HOST
from narrows.measure.simulated import Plan
from narrows.measure.simulated import measure as simulate
from narrows.runs.scenario import load

SERVER = """
import socket
with socket.create_server(("far", 9000)) as server:
    socket, _ = server.accept()
    while socket.recv(1 << 16):
        pass
    socket.sendall(b"!")
"""
CLIENT = """
import socket, time
with socket.create_connection(("far", 9000)) as s:
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    begin = time.monotonic()
    s.sendall(bytes(5_000_000))
    s.shutdown(socket.SHUT_WR)
    s.recv(1)
    print(5_000_000 * 8 / 1e6 / (time.monotonic() - begin))
"""
ECHO = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("far", 9001))
for _ in range(20):
    s.sendto(*s.recvfrom(100))
"""
ASK = """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("far", 9001))
s.settimeout(5)
took = []
for _ in range(20):
    begin = time.monotonic()
    s.send(b"x")
    s.recv(100)
    took.append(time.monotonic() - begin)
print(sorted(took)[10] * 1e3)
"""


def shell(
    *words: str | Path, command: list[str], longest_s: float = 60
) -> subprocess.CompletedProcess[str]:
    whole = [NARROWS, "shell", *words, "--", *command]
    return subprocess.run(whole, capture_output=True, text=True, timeout=longest_s, check=False)


def python(tmp_path: Path, name: str, text: str) -> str:
    """A line that runs `text`."""
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return f"{sys.executable} {file}"


def number(tmp_path: Path, server: str, client: str, *path: str) -> float:
    """The output of the client; the test is skipped if the run failed its self-check."""
    seen = tmp_path / "seen.json"
    far = python(tmp_path, "server.py", server)
    done = shell(
        *path, "--far", far, "--json", seen, command=python(tmp_path, "client.py", client).split()
    )
    assert done.returncode == 0, done.stderr
    instruments = json.loads(seen.read_text(encoding="utf-8"))["instruments"]
    if not instruments["trusted"]:
        pytest.skip(f"not to be trusted: {'; '.join(instruments['why'])}")
    return float(done.stdout)


def test_the_goodput_is_that_of_the_option_rate(tmp_path: Path) -> None:
    ready("cubic")
    goodput = number(tmp_path, SERVER, CLIENT, "--rate", "20Mbit", "--rtt", "10ms")
    # Of the rate, 1448 of each 1514 bytes are payload; connecting takes a few round trips.
    assert goodput == pytest.approx(20 * 1448 / 1514, rel=0.03)


def test_the_rtt_is_that_of_the_option_rtt(tmp_path: Path) -> None:
    ready()
    assert number(tmp_path, ECHO, ASK, "--rate", "20Mbit", "--rtt", "40ms") == pytest.approx(
        40, rel=0.03
    )


ROOT = Path(__file__).parent.parent.parent
SEND = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 9002))
for _ in range(int(sys.argv[1])):
    s.sendto(bytes(100), ("far", 9003))
"""


def seen_by(tmp_path: Path, *path: str | Path, command: list[str]) -> tuple[dict[str, Any], str]:
    """The counters of each direction of a shell, as JSON and as text."""
    seen = tmp_path / "seen.json"
    done = shell(*path, "--json", seen, command=command)
    assert done.returncode == 0, done.stderr
    queues = json.loads(seen.read_text(encoding="utf-8"))["queues"]
    return {queue["direction"]: queue for queue in queues}, done.stderr


def test_a_rate_limits_both_directions_and_random_losses_are_reported(tmp_path: Path) -> None:
    ready()
    send = [*python(tmp_path, "send.py", SEND).split(), "100"]
    # Everything that near sends is lost: these are the packets of the upload.
    by, words = seen_by(tmp_path, "--rate", "20Mbit", "--loss", "100%", command=send)
    assert {way: (queue["drops"], queue["random_losses"]) for way, queue in by.items()} == {
        "down": (0, 0),
        "up": (0, 100),
    }
    assert "down (path, 20Mbit): fifo, 0 drops, 0 random losses, 0 marks" in words
    assert "up (reverse, 20Mbit): fifo, 0 drops, 100 random losses, 0 marks" in words
    # Drops of a full queue are no random losses; one packet is in transmission, one waits.
    by, words = seen_by(
        tmp_path, "--down", "50Mbit", "--up", "10kbit", "--buffer", "1p", command=send
    )
    assert by["down"]["drops"] == by["up"]["random_losses"] == 0
    assert by["up"]["drops"] >= 95
    assert "down (path, 50Mbit)" in words
    assert "up (reverse, 10kbit)" in words
    by, words = seen_by(tmp_path, "--down", "50Mbit", "--loss", "100%", command=send)
    assert list(by) == ["down"]
    assert "up: no rate limit" in words
    by, _ = seen_by(tmp_path, "--up", "50Mbit", "--loss", "100%", command=send)
    assert (by["down"]["random_losses"], by["up"]["random_losses"]) == (0, 100)


def test_up_and_down_are_those_of_a_simulated_measurement(tmp_path: Path) -> None:
    ready("cubic")
    scenario, made, seen = (
        ROOT / "scenarios/asymmetric/down-and-up.toml",
        tmp_path / "m.json",
        tmp_path / "seen.json",
    )
    measure = [
        str(NARROWS), "measure", "far", "--cc", "cubic", "--streams", "4", "--duration", "2s",
        "--idle", "300ms",
        "--no-history", "--no-model", "--quiet", "--out", str(made),
    ]  # fmt: skip
    done = shell(
        scenario, "--quiet", "--json", seen, "--far", f"{HOST} serve --net-admin", command=measure
    )
    assert done.returncode == 0, done.stderr
    live = files.read(made)
    path = load(scenario).path
    assert path is not None
    simulated = simulate(path, Plan(streams=4, load_s=2.0, idle_s=0.3))
    # [path] is the download of the client, here and there; its rate is twenty times that of the
    # upload.
    for measured in (live, simulated):
        assert (measured.rate_mbit("down") or 0) > 10 * (measured.rate_mbit("up") or 0) > 0
    instruments = json.loads(seen.read_text(encoding="utf-8"))["instruments"]
    if not instruments["trusted"]:
        pytest.skip(f"not to be trusted: {'; '.join(instruments['why'])}")
    for way, rate in (("down", 100), ("up", 5)):
        assert live.rate_mbit(way) == pytest.approx(simulated.rate_mbit(way), rel=0.1)
        assert live.rate_mbit(way) == pytest.approx(rate * 1448 / 1514, rel=0.1)


def self_check(
    tmp_path: Path, *, command: list[str], beside: list[str]
) -> tuple[dict[str, Any], str]:
    """The self-check of a shell in which `beside` runs on the far host, and its messages."""
    seen = tmp_path / "seen.json"
    far = [word for line in beside for word in ("--far", line)]
    done = shell("--rate", "20Mbit", "--json", seen, *far, command=command)
    assert seen.stat().st_size > 0, done.stderr
    return json.loads(seen.read_text(encoding="utf-8"))["instruments"], done.stderr


def test_a_shell_without_a_packet_has_no_self_check_result(tmp_path: Path) -> None:
    ready()
    # A device that comes up sends packets of its own: without an address it has nothing to say.
    by = self_check(
        tmp_path,
        command=["ip", "link", "set", "e0", "down"],
        beside=["ip link set e0 down; sleep 60"],
    )
    instruments, words = by
    if instruments["packets"]:
        pytest.skip("the kernel sent packets of its own")
    assert (instruments["trusted"], instruments["why"]) == (None, ["no packet crossed the path"])
    assert "self-check: no result, because no packet crossed the path" in words


def test_tune_on_a_host_of_the_shell_writes_no_files_for_the_next_boot(tmp_path: Path) -> None:
    # Inside a container, its mark is visible on the hosts of the shell, too.
    ready()
    other = "reno" if kernel_default() != "reno" else "cubic"
    told = tmp_path / "plan.json"
    plan = f"{shlex.join(map(str, [NARROWS]))} tune plan --cc {other} --json > {told}"
    done = shell("--rate", "20Mbit", command=["sh", "-c", plan])
    assert done.returncode in {0, 1}, done.stderr
    changes = json.loads(told.read_text(encoding="utf-8"))["changes"]
    assert [change for change in changes if change["phase"] == "boot"] == []


def kernel_default() -> str:
    return Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text(encoding="utf-8").strip()


def test_packets_to_a_device_that_is_down_are_counted_as_lost(
    tmp_path: Path,
) -> None:
    ready()
    send = [*python(tmp_path, "send.py", SEND).split(), "100"]
    instruments, words = self_check(
        tmp_path, command=send, beside=["ip link set e0 down; echo > /dev/null; sleep 60"]
    )
    assert instruments["device"]["down"] >= 100
    assert instruments["trusted"] is False
    assert "the device of a host was down" in words


def test_after_the_deletion_of_a_device_the_counters_are_reported(tmp_path: Path) -> None:
    ready()
    ask = shlex.join(python(tmp_path, "client.py", ASK).split())
    # The answers have crossed the path when the device goes.
    instruments, words = self_check(
        tmp_path,
        command=["sh", "-c", f"{ask} && ip link del e0; sleep 60"],
        beside=[python(tmp_path, "server.py", ECHO)],
    )
    assert instruments["packets"] >= 40
    assert instruments["trusted"] is False
    assert "forwarding ended before the run, as after the device of a host is deleted" in words


def test_a_path_alone_is_enough_of_a_scenario(tmp_path: Path) -> None:
    ready()
    file = tmp_path / "path.toml"
    file.write_text('[path]\nrate = "10Mbit"\nrtt = "10ms"\n', encoding="utf-8")
    by, _ = seen_by(tmp_path, file, command=["true"])
    assert list(by) == ["down"]
    file.write_text('[path]\nrate = "10xbit"\nrtt = "10ms"\n', encoding="utf-8")
    done = shell(file, command=["true"])
    assert done.returncode == 2
    assert done.stderr.startswith(f'{file}:2: path.rate = "10xbit" has no known unit')


def test_a_scenario_is_a_path_and_its_counters_are_reported(tmp_path: Path) -> None:
    ready()
    file = tmp_path / "path.toml"
    file.write_text(
        'duration = "1s"\n[path]\nrate = "10Mbit"\nrtt = "10ms"\nqueue = "fq_codel"\n[[flow]]\ncc '
        '= "cubic"\n',
        encoding="utf-8",
    )
    seen = tmp_path / "seen.json"
    done = shell(
        file, "--json", seen, "--at", "far", command=["sh", "-c", "echo $NARROWS_END; exit 7"]
    )
    assert (done.returncode, done.stdout) == (7, "far\n")
    assert "down (path, 10Mbit): fq_codel, 0 drops, 0 random losses, 0 marks" in done.stderr
    told = json.loads(seen.read_text(encoding="utf-8"))
    assert (told["exit_code"], told["at"], told["queues"][0]["kind"]) == (7, "far", "fq_codel")


def test_every_packet_may_be_recorded(tmp_path: Path) -> None:
    ready()
    capture = tmp_path / "out.pcapng"
    far = python(tmp_path, "server.py", ECHO)
    client = python(tmp_path, "client.py", ASK).split()
    done = shell(
        "--rate", "20Mbit", "--rtt", "10ms", "--record", capture, "--far", far, command=client
    )
    assert done.returncode == 0, done.stderr
    assert {packet.interface for packet in packets(capture)} == {0, 1}
    # The interfaces are in the order of the path's ports: the first one is far's, and near sends
    # the requests.
    raw = capture.read_bytes()
    assert 0 < raw.index(b"far\0") < raw.index(b"near")
    asked = [
        packet
        for packet in packets(capture)
        if struct.unpack_from("!H", packet.head, 22)[0] == 9001
    ]
    assert {(packet.interface, packet.direction) for packet in asked} == {
        (1, OUTBOUND),
        (0, INBOUND),
    }


def test_the_names_near_and_far_resolve_in_the_shell_only() -> None:
    ready()
    text = (
        "import socket; print(socket.gethostbyname('near'), socket.gethostbyname('far'), "
        "socket.if_nameindex()[1:])"
    )
    done = shell("--rate", "1Mbit", "--quiet", command=[sys.executable, "-c", text])
    assert done.stdout.split()[:2] == ["10.0.0.1", "10.0.0.2"]
    assert (done.stdout.count("e0"), done.stderr) == (1, "")
    assert "far" not in Path("/etc/hosts").read_text(encoding="utf-8").split()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["shell"], "--rate 20Mbit"),
        (["shell", "--rate", "2xbit"], "--rate 2xbit: has no known unit"),
        (
            ["shell", "--down", "50Mbit", "--up", "5", "--", "true"],
            "--up 5: needs a unit; write --up 5Mbit",
        ),
        (
            ["shell", "--rate", "5Mbit", "--loss", "2", "--", "true"],
            "--loss 2: is not a probability",
        ),
        (
            ["shell", "--rate", "1Mbit", "--", "no-such-program"],
            "no-such-program: no such program",
        ),
        (
            ["shell", "--rate", "1Mbit", "--json", "nowhere/seen.json", "--", "true"],
            "--json nowhere/seen.json: No such",
        ),
        (
            ["shell", "--rate", "1Mbit", "--record", "nowhere/a.pcapng", "--", "true"],
            "--record nowhere/a.pcapng: No such",
        ),
    ],
)
def test_invalid_arguments_are_errors_before_the_program_starts(
    words: list[str], said: str
) -> None:
    ready()
    done = subprocess.run(
        [NARROWS, *words], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 2
    assert said in done.stderr


def test_without_a_command_a_shell_is_started() -> None:
    ready()
    done = subprocess.run(
        [NARROWS, "shell", "--rate", "1Mbit"],
        input="echo in $NARROWS_END\nexit 3\n",
        env=os.environ | {"SHELL": "/bin/sh"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (3, "in near\n")


def all_below(parent: int) -> list[int]:
    """Every process that `parent` or one of its children started."""
    tasks = Path(f"/proc/{parent}/task").iterdir()
    own = [
        int(p) for task in tasks for p in (task / "children").read_text(encoding="utf-8").split()
    ]
    return own + [p for child in own for p in all_below(child)]


def asleep(front: int) -> list[int]:
    """Everything that a shell has started, once both its programs, each a `sleep 60`, run."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            below = all_below(front)
            programs = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in below]
            if programs.count(b"sleep\x0060\x00") == 2:
                return below
        time.sleep(0.02)
    raise AssertionError("its programs did not start")


def test_ctrl_c_at_the_terminal_ends_all_processes() -> None:
    ready()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(
            NARROWS,
            ["narrows", "shell", "--rate", "1Mbit", "--far", "sleep 60", "--", "sleep", "60"],
        )
    below = asleep(pid)
    os.write(terminal, b"\x03")
    for _ in range(50):
        time.sleep(0.1)
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
    os.close(terminal)
    assert len(below) >= 4
    assert (done, os.waitstatus_to_exitcode(status)) == (pid, 130)
    assert [p for p in below if running(p)] == []


@pytest.mark.parametrize(
    ("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_no_process_remains_after_any_signal(how: signal.Signals, code: int) -> None:
    ready()
    words = [NARROWS, "shell", "--rate", "1Mbit", "--far", "sleep 60", "--", "sleep", "60"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as front:
        below = asleep(front.pid)
        front.send_signal(how)
        assert front.wait(10) == code
    assert len(below) >= 4
    for _ in range(20):
        if not any(running(p) for p in below):
            return
        time.sleep(0.1)
    raise AssertionError([p for p in below if running(p)])
