"""`narrows with`: the congestion control of one program's sockets, and the behaviour that must not
change.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import NARROWS

from narrows import _core
from narrows.host.live import HOST

HERE = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text(encoding="utf-8").strip()
OTHER = "reno" if HERE != "reno" else "cubic"
"""Reno is in every kernel, and everybody may choose it."""

TELL = """
import socket
CC = (socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
told = []
for family in (socket.AF_INET, socket.AF_INET6):
    try:
        made = socket.socket(family, socket.SOCK_STREAM)
    except OSError:  # A host without IPv6
        continue
    told.append(made)
listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname())
far, _ = listener.accept()
near.sendall(b"x")
assert far.recv(1) == b"x"
assert not near.get_inheritable()
names = {one.getsockopt(*CC).rstrip(bytes(1)).decode() for one in (*told, near, far)}
print(*names)
"""


def run(
    *command: str,
    cc: str = OTHER,
    **more: Any,  # noqa: ANN401 - options of `subprocess.run`
) -> subprocess.CompletedProcess[str]:
    words = [str(NARROWS), "with", "--cc", cc, "--", *command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, **more)


@pytest.fixture(autouse=True)
def able() -> None:
    text = Path("/proc/sys/kernel/osrelease").read_text(encoding="utf-8")
    here = _core.kernel_release(text)
    if here is None or here < (5, 9):
        pytest.skip("this kernel cannot give a socket to a program: it needs Linux 5.9")
    tried = run("true")
    if tried.returncode == 2 and "seccomp" in tried.stderr:
        pytest.skip(tried.stderr.strip())


def test_sockets_of_the_program_have_the_cc_and_the_host_keeps_its_default() -> None:
    done = run(sys.executable, "-c", TELL)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{OTHER}\n", "")
    outside = subprocess.run(
        [sys.executable, "-c", TELL], capture_output=True, text=True, check=True
    )
    assert outside.stdout == f"{HERE}\n"
    assert (
        Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text(encoding="utf-8").strip()
        == HERE
    )


def test_no_privilege_is_needed() -> None:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("to give privilege up one must have it")
    # The user nobody cannot read root's home, so use the program itself and the system's Python.
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    words = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        str(HOST),
        "with",
        "--cc",
        OTHER,
        "--",
    ]
    allowed = (
        Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
        .read_text(encoding="utf-8")
        .split()
    )
    if python is None:
        pytest.skip("there is no Python outside of root's home")
    done = subprocess.run([*words, python, "-c", TELL], capture_output=True, text=True, check=False)
    if "ermission denied" in done.stderr:
        pytest.skip(f"nobody may not run what is tested: {done.stderr.strip()}")
    if OTHER in allowed:
        assert (done.returncode, done.stdout) == (0, f"{OTHER}\n"), done.stderr
    known = (
        Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .read_text(encoding="utf-8")
        .split()
    )
    for forbidden in set(known) - set(allowed) - {HERE}:
        words[words.index("--cc") + 1] = forbidden
        refused = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
        assert refused.returncode == 2
        assert "only root may select it here" in refused.stderr


def test_a_program_in_its_own_network_namespace_has_the_cc() -> None:
    if os.geteuid() != 0:
        pytest.skip("another network namespace can be entered by root alone")
    done = run("unshare", "-n", "sh", "-c", f"ip link set lo up && {sys.executable} -c '{TELL}'")
    assert (done.returncode, done.stdout) == (0, f"{OTHER}\n"), done.stderr


def test_background_processes_still_have_the_cc(tmp_path: Path) -> None:
    (tmp_path / "tell.py").write_text(TELL, encoding="utf-8")
    begin = time.monotonic()
    done = run(
        "sh",
        "-c",
        f"(sleep 1; {sys.executable} {tmp_path}/tell.py > {tmp_path}/out 2>&1; mv {tmp_path}/out "
        f"{tmp_path}/done) > /dev/null 2>&1 &",
    )
    assert done.returncode == 0
    while not (tmp_path / "done").exists() and time.monotonic() - begin < 30:
        time.sleep(0.05)
    assert (tmp_path / "done").read_text(encoding="utf-8") == f"{OTHER}\n"


def test_exit_codes_streams_and_signals_are_the_programs_own() -> None:
    assert run("sh", "-c", "exit 7").returncode == 7
    assert run("sh", "-c", "kill -TERM $$").returncode == 128 + signal.SIGTERM
    missing = run("nonesuch-of-narrows")
    assert (missing.returncode, "nonesuch-of-narrows: " in missing.stderr) == (127, True)
    assert run("cat", input="through").stdout == "through"
    words = [
        str(NARROWS),
        "with",
        "--cc",
        OTHER,
        "--",
        "sh",
        "-c",
        "trap 'echo caught; exit 3' TERM; echo on; while :; do sleep 0.05; done",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "on\n"
        program.terminate()
        assert program.stdout.readline() == "caught\n"
        assert program.wait(10) == 3


def test_many_threads_at_once_get_their_sockets() -> None:
    text = """
import socket, threading
seen = []
def ask():
    for _ in range(50):
        with socket.socket() as one:
            seen.append(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION,
            16).rstrip(bytes(1)).decode())
threads = [threading.Thread(target=ask) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(seen), *set(seen))
"""
    assert run(sys.executable, "-c", text).stdout == f"400 {OTHER}\n"


def test_a_limit_of_descriptors_is_the_programs_own() -> None:
    text = """
import errno, resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
held = []
try:
    while len(held) < 100:
        held.append(socket.socket())
except OSError as error:
    print(errno.errorcode[error.errno], len(held) < 32)
"""
    assert run(sys.executable, "-c", text).stdout == "EMFILE True\n"


def test_other_sockets_are_unchanged() -> None:
    text = """
import socket
a, b = socket.socketpair()
a.sendall(b"x"); assert b.recv(1) == b"x"
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
socket.socket(socket.AF_UNIX).close()
try:
    socket.socket(socket.AF_INET, socket.SOCK_STREAM, 253)
except OSError as error:
    print("refused")
"""
    assert run(sys.executable, "-c", text).stdout == "refused\n"


def test_invalid_arguments_are_errors_before_the_program_starts(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    unknown = run("touch", str(mark), cc="nonesuch")
    assert unknown.returncode == 2
    assert "nonesuch: this kernel has no such congestion control; select one of " in unknown.stderr
    odd = run("touch", str(mark), cc="a;b")
    assert (odd.returncode, "must consist of lower-case letters" in odd.stderr) == (2, True)
    nested = run(str(NARROWS), "with", "--cc", HERE, "--", "touch", str(mark))
    assert (nested.returncode, "of another `narrows with`" in nested.stderr) == (2, True)
    assert not mark.exists()
    nothing = subprocess.run(
        [NARROWS, "with", "--cc", OTHER], capture_output=True, text=True, check=False
    )
    assert (nothing.returncode, "PROGRAM: this argument is missing" in nothing.stderr) == (2, True)
