"""`narrows measure --transport quic`: QUIC over a real path, its errors, and hostile servers."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import test_measure_udp
from conftest import NARROWS
from test_live import HOST, ready
from test_measure_far_end import FarEnd
from test_measure_udp import QUICK
from test_serve import far_end, memory_kb
from test_serve_limits import TOKEN, frame, received_frame, session
from test_shell import shell

from narrows import files

measure = partial(test_measure_udp.measure, transport="quic")
OPENING = 64
"""Length of the datagram that opens a stream."""


@pytest.mark.parametrize("test", ["tcp_down", "tcp_up"])
def test_quic_fills_a_real_path(test: str, tmp_path: Path) -> None:
    ready("cubic")
    made = tmp_path / "m.json"
    command = [NARROWS, "measure", "far", "--test", test, "--transport", "quic"]
    done = shell(
        "--rate", "20Mbit", "--rtt", "20ms", "--buffer", "2bdp", "--far", f"{HOST} serve",
        command=[*command, *QUICK, "--out", str(made)],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    measured = files.read(made)
    (flow,) = measured.flows
    assert (flow.protocol, flow.cc) == ("quic", "cubic")
    # The payload of full datagrams of 1452 bytes at the rate, or less on a busy machine.
    assert flow.goodput_mbit is not None
    assert 10 < flow.goodput_mbit <= 20 * 1452 / 1494
    row = measured.json["flows"][0]
    assert 1200 <= row["mss_bytes"] <= 1472
    assert row["rtt_ms"]["min"] >= 20
    assert row["retransmits"] is not None
    # The stack does not report these values.
    assert row["busy_pct"] is None
    assert "delivery_mbit" not in flow.columns or not any(flow.columns["delivery_mbit"])


def test_each_congestion_control_of_the_stack_is_measured(tmp_path: Path) -> None:
    made = tmp_path / "m.json"
    with far_end("--token", TOKEN) as (port, _):
        done = measure(
            port, "--token", TOKEN, "--test", "tcp_down", "--cc", "cubic,newreno,bbr",
            "--max-data", "60MB", "--out", str(made),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    flows = files.read(made).flows
    assert {flow.cc for flow in flows} <= {"cubic", "newreno", "bbr"}
    assert all(flow.protocol == "quic" and flow.goodput_mbit for flow in flows)


def test_a_missing_or_wrong_token_is_an_error() -> None:
    with far_end("--token", TOKEN) as (port, _):
        for words, why in ([], "requires a token"), (["--token", "wrong-horse"], "wrong token"):
            done = measure(port, "--test", "tcp_up", *words)
            assert done.returncode == 2
            assert why in done.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--cc", "reno"], "with --transport quic, write --cc with one of cubic, newreno, bbr"),
        (["--pacing", "5Mbit"], "--pacing: not supported with --transport quic"),
    ],
)
def test_unsupported_options_are_errors(words: list[str], why: str) -> None:
    with far_end() as (port, _):
        for test in ("tcp_down", "tcp_up"):
            done = measure(port, "--test", test, *words)
            assert done.returncode == 2
            assert why in done.stderr.replace("\n", " ")


class Silent(FarEnd):
    """A server that opens streams of QUIC, and sends no datagram of QUIC."""

    def __init__(self, server: socket.socket, datagrams: socket.socket | None) -> None:
        """With a socket for datagrams, it answers the first ones, which open a stream."""
        super().__init__(server, "silent")
        self.datagrams = datagrams

    def answers(self, text: dict[str, Any]) -> Iterator[str]:
        """As `FarEnd`, with the transport and without samples."""
        if "proof" in text:
            (welcome,) = super().answers(text)
            yield json.dumps({**json.loads(welcome), "transports": ["udp", "quic"]})
            return
        if text.get("do") == "start":
            return
        yield from super().answers(text)
        if text.get("do") == "open" and self.datagrams:
            threading.Thread(target=self.open, args=(text["stream"],), daemon=True).start()

    def open(self, stream: int) -> None:
        """Answers until the client has proved its address."""
        key, sockets = os.urandom(8), self.datagrams
        assert sockets is not None
        while True:
            request, peer = sockets.recvfrom(2000)
            if len(request) != OPENING or request[5:6] != b"o":
                continue
            sockets.sendto(request[:5] + b"k" + request[6:24] + key + request[32:], peer)
            if request[24:32] == key:
                break
        self.control(
            json.dumps({"is": "joined", "stream": stream, "cc": "cubic", "key": "00" * 44})
        )


@contextmanager
def silent_far_end(*, opens: bool) -> Iterator[int]:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
    ):
        server.settimeout(0.1)
        port = server.getsockname()[1]
        datagrams.bind(("127.0.0.1", port))
        datagrams.settimeout(20)
        far = Silent(server, datagrams if opens else None)
        thread = threading.Thread(target=far.serve)
        thread.start()
        try:
            yield port
        finally:
            far.stopped.set()
            thread.join()


def test_a_server_without_datagrams_is_an_error() -> None:
    with silent_far_end(opens=False) as port:
        done = measure(port, "--test", "tcp_up")
    assert done.returncode == 1, done.stderr
    assert "no datagram of the server arrives" in done.stdout.replace("\n", " ")


def test_a_server_without_a_handshake_gets_no_data(tmp_path: Path) -> None:
    made = tmp_path / "m.json"
    begun = time.monotonic()
    with silent_far_end(opens=True) as port:
        measure(port, "--test", "tcp_up", "--out", str(made))
    assert time.monotonic() - begun < 40
    if made.exists():
        flows = json.loads(made.read_text("utf-8"))["flows"]
        assert all(not flow["bytes"] for flow in flows)


def opened(port: int) -> tuple[socket.socket, socket.socket]:
    """A control connection with a stream of QUIC whose sender is this host, and its datagrams."""
    control, welcome = session(port)
    assert "quic" in welcome["transports"]  # type: ignore[operator]
    cookie = bytes.fromhex(str(welcome["cookie"]))
    control.sendall(frame({"do": "open", "stream": 1, "direction": "up", "transport": "quic"}))
    assert received_frame(control)["is"] == "open"
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.connect(("127.0.0.1", port))
    datagrams.settimeout(10)
    key = bytes(8)
    for _ in range(2):
        datagrams.send((b"NARP\x01o\0\x01" + cookie + key).ljust(OPENING, b"\0"))
        key = datagrams.recv(2000)[24:32]
    joined = received_frame(control)
    assert joined["is"] == "joined"
    assert len(bytes.fromhex(str(joined["key"]))) == 44
    return control, datagrams


def test_garbage_gets_no_reply_and_no_memory() -> None:
    with far_end() as (port, child):
        control, datagrams = opened(port)
        with control, datagrams:
            before = memory_kb(child.pid)
            # Long and short headers with random content; Initial packets of version 1 among them.
            for i in range(20_000):
                bytes_ = bytearray(os.urandom(1200))
                if i % 2:
                    bytes_[:6] = b"\xc3\0\0\0\x01\x08"
                with suppress(OSError):
                    datagrams.send(bytes_)
            datagrams.settimeout(1)
            with pytest.raises(TimeoutError):
                datagrams.recv(2000)
            assert memory_kb(child.pid) - before < 10_000
            assert child.poll() is None
            done = measure(port, "--test", "tcp_down", "--max-data", "20MB")
            assert done.returncode == 0, done.stderr
