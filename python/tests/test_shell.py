"""Programs over an emulated path. What the machine cannot is left out with the reason, a run that was too late too."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import NARROWS
from test_live import ready, running
from test_record import packets

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


def shell(*words: str | Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    whole = [NARROWS, "shell", *words, "--", *command]
    return subprocess.run(whole, capture_output=True, text=True, timeout=60, check=False)


def python(tmp_path: Path, name: str, text: str) -> str:
    """A line that runs `text`."""
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return f"{sys.executable} {file}"


def number(tmp_path: Path, server: str, client: str, *path: str) -> float:
    """What the client prints, unless the instruments do not trust it."""
    seen = tmp_path / "seen.json"
    far = python(tmp_path, "server.py", server)
    done = shell(*path, "--far", far, "--json", seen, command=python(tmp_path, "client.py", client).split())
    assert done.returncode == 0, done.stderr
    instruments = json.loads(seen.read_text(encoding="utf-8"))["instruments"]
    if not instruments["trusted"]:
        pytest.skip(f"not to be trusted: {'; '.join(instruments['why'])}")
    return float(done.stdout)


def test_the_rate_is_as_asked(tmp_path: Path) -> None:
    ready("cubic")
    goodput = number(tmp_path, SERVER, CLIENT, "--rate", "20Mbit", "--rtt", "10ms")
    # Of the rate, 1448 of each 1514 bytes are payload; connecting takes a few round trips.
    assert goodput == pytest.approx(20 * 1448 / 1514, rel=0.03)


def test_the_rtt_is_as_asked(tmp_path: Path) -> None:
    ready()
    assert number(tmp_path, ECHO, ASK, "--rate", "20Mbit", "--rtt", "40ms") == pytest.approx(40, rel=0.03)


def test_a_scenario_is_a_path_and_its_figures_are_told(tmp_path: Path) -> None:
    ready()
    file = tmp_path / "path.toml"
    file.write_text(
        'duration = "1s"\n[path]\nrate = "10Mbit"\nrtt = "10ms"\nqueue = "fq_codel"\n[[flow]]\ncc = "cubic"\n',
        encoding="utf-8",
    )
    seen = tmp_path / "seen.json"
    done = shell(file, "--json", seen, "--at", "far", command=["sh", "-c", "echo $NARROWS_END; exit 7"])
    assert (done.returncode, done.stdout) == (7, "far\n")
    assert "path: fq_codel, 0 drops, 0 marks" in done.stderr
    told = json.loads(seen.read_text(encoding="utf-8"))
    assert (told["exit_code"], told["at"], told["queues"][0]["kind"]) == (7, "far", "fq_codel")


def test_every_packet_may_be_recorded(tmp_path: Path) -> None:
    ready()
    capture = tmp_path / "out.pcapng"
    far = python(tmp_path, "server.py", ECHO)
    client = python(tmp_path, "client.py", ASK).split()
    done = shell("--rate", "20Mbit", "--rtt", "10ms", "--record", capture, "--far", far, command=client)
    assert done.returncode == 0, done.stderr
    assert {packet.interface for packet in packets(capture)} == {0, 1}


def test_both_names_are_known_and_nothing_else_is_there() -> None:
    ready()
    text = "import socket; print(socket.gethostbyname('near'), socket.gethostbyname('far'), socket.if_nameindex()[1:])"
    done = shell("--rate", "1Mbit", "--quiet", command=[sys.executable, "-c", text])
    assert done.stdout.split()[:2] == ["10.0.0.1", "10.0.0.2"]
    assert (done.stdout.count("e0"), done.stderr) == (1, "")
    assert "far" not in Path("/etc/hosts").read_text(encoding="utf-8").split()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["shell"], "--rate 20Mbit"),
        (["shell", "--rate", "2xbit"], "rate"),
        (["shell", "--rate", "1Mbit", "--", "no-such-program"], "no-such-program: there is no such program"),
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
def test_what_is_wrong_is_told_before_anything_starts(words: list[str], said: str) -> None:
    ready()
    done = subprocess.run([NARROWS, *words], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    assert said in done.stderr


def test_without_a_command_it_is_a_shell() -> None:
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
    own = [int(p) for task in tasks for p in (task / "children").read_text(encoding="utf-8").split()]
    return own + [p for child in own for p in all_below(child)]


def test_ctrl_c_at_the_terminal_ends_it_and_leaves_nothing() -> None:
    ready()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(NARROWS, ["narrows", "shell", "--rate", "1Mbit", "--far", "sleep 60", "--", "sleep", "60"])
    time.sleep(3)
    below = all_below(pid)
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


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_nothing_is_left_however_it_ends(how: signal.Signals, code: int) -> None:
    ready()
    words = [NARROWS, "shell", "--rate", "1Mbit", "--far", "sleep 60", "--", "sleep", "60"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as front:
        time.sleep(3)
        below = all_below(front.pid)
        front.send_signal(how)
        assert front.wait(10) == code
    assert len(below) >= 4
    for _ in range(20):
        if not any(running(p) for p in below):
            return
        time.sleep(0.1)
    raise AssertionError([p for p in below if running(p)])
