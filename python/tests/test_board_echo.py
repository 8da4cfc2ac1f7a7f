"""The echo for small boards (`host/boards/echo.c`), built for three processors and tested with
requests; qemu-user runs foreign processors.
"""

from __future__ import annotations

import platform
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "host" / "boards" / "echo.c"
TIMED = 88
KINDS = {
    "here": ("cc", ()),
    "armv7": ("arm-linux-gnueabihf-gcc", ("qemu-arm-static",)),
    "aarch64": ("aarch64-linux-gnu-gcc", ("qemu-aarch64-static",)),
}


@pytest.fixture(scope="module", params=KINDS)
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of one of the programs on loopback."""
    compiler, runner = KINDS[request.param]
    for needed in (compiler, *runner):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is not installed")
    program = tmp_path_factory.mktemp("board") / request.param
    flags = ("-std=gnu11", "-O2", "-static", "-Wall", "-Wextra", "-Werror")
    subprocess.run([compiler, *flags, "-o", program, SOURCE], check=True, timeout=60)
    with subprocess.Popen([*runner, program, "0"], stdout=subprocess.PIPE, text=True) as echo:
        try:
            assert echo.stdout is not None
            yield int(echo.stdout.readline().split()[-1])
        finally:
            echo.kill()


@pytest.fixture
def client(port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(5)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0xB8)
        sock.connect(("127.0.0.1", port))
        yield sock


def question(cookie: int, number: int, length: int) -> bytes:
    head = struct.pack(
        ">4s2B2x16sIQ", b"NARP", 1, ord("t"), bytes([cookie] * 16), number, 1234567890123
    )
    return head.ljust(TIMED, b"\0").ljust(length, b"\x6e")


def test_the_source_has_at_most_60_lines() -> None:
    lines = SOURCE.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 132


def test_other_payloads_are_echoed_unchanged(client: socket.socket) -> None:
    for payload in (
        b"",
        b"x",
        bytes(64),
        question(1, 1, TIMED)[:-1],
        b"NARP\x01q".ljust(100, b"\0"),
        b"\xff" * 1400,
    ):
        client.send(payload)
        assert client.recv(2000) == payload


def test_a_timed_request_is_answered_with_counter_and_timestamps(client: socket.socket) -> None:
    for cookie, number, count, length in (
        (7, 0, 1, TIMED),
        (7, 5, 2, 100),
        (7, 6, 3, 1400),
        (8, 0, 1, TIMED),
    ):
        asked = question(cookie, number, length)
        before = time.monotonic_ns()
        client.send(asked)
        got = client.recv(2000)
        after = time.monotonic_ns()
        assert got[:6] == b"NARP\x01s"
        assert got[7:36] == asked[7:36]
        assert got[TIMED:] == asked[TIMED:]
        received, answered, counted, ready, read, departed, which, zero = struct.unpack(
            ">QQIQQQII", got[36:TIMED]
        )
        assert counted == count
        assert (departed, which, zero) == (0, 0, 0)
        assert before <= read <= answered <= after
        # qemu-user does not always pass the class and the kernel's stamp on; then they are not
        # known, and never wrong.
        assert got[6] in (0xB8, 0)
        # The kernel's stamp comes from the clock of dates, which is compared with the even one a
        # moment later.
        if received:
            assert before - 1_000_000 <= received <= ready <= read + 1_000_000
        else:
            assert ready == 0


def test_a_native_processor_has_kernel_receive_timestamps(
    client: socket.socket, request: pytest.FixtureRequest
) -> None:
    if (built := request.node.callspec.params["port"]) != "here":
        pytest.skip(f"{built} is emulated on {platform.machine()}")
    client.send(question(9, 0, TIMED))
    got = client.recv(2000)
    assert got[6] == 0xB8
    assert struct.unpack_from(">Q", got, 36)[0] > 0


def test_an_invalid_priority_is_an_error(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("cc is not installed")
    program = tmp_path / "echo"
    subprocess.run(["cc", "-O2", "-o", program, SOURCE], check=True, timeout=60)
    refused = subprocess.run(
        [program, "0", "100"], capture_output=True, text=True, check=False, timeout=5
    )
    assert refused.returncode == 2
    assert "PRIORITY" in refused.stderr
