"""Texts of servers in each protocol: neither their control characters nor additional lines are
printed.

A relay stands between `narrows` and a server of narrows and changes one text of the server at a
time. Servers for HTTP and for datagrams send hostile texts by themselves.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_serve import far_end, free_port, listening
from test_terminal import HOSTILE, is_shown
from test_terminal_untrusted import FORGED, printed

TEXT = (HOSTILE + FORGED).replace("\ud800", "")
HELLO, COOKIE, EXCHANGE_RESULTS = 37, b"c", 13

Json = dict[str, Any]


class Relay:
    """Passes everything on but one text of the server, which becomes hostile.

    Attributes:
        wanted: The number of that text, in the order of their first appearance.
        names: The names of the texts that were seen.
    """

    def __init__(self, far: int, wanted: int, *, iperf3: bool) -> None:
        """A relay to the server at port `far`."""
        self.wanted = wanted
        self.names: list[str] = []
        self._far, self._iperf3 = far, iperf3
        self._tests: list[bytes] = []
        self._ended = threading.Event()
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._tcp.getsockname()[1])
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", self.port))
        self._udp.settimeout(0.1)
        for of in (self._accept, self._datagrams):
            threading.Thread(target=of, daemon=True).start()

    def close(self) -> None:
        """Ends it."""
        self._ended.set()
        with contextlib.suppress(OSError):
            self._tcp.shutdown(socket.SHUT_RDWR)
        self._tcp.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._tcp.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _datagrams(self) -> None:
        with self._udp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
            far.connect(("127.0.0.1", self._far))
            far.settimeout(0.1)
            near: Any = None

            def back() -> None:
                while not self._ended.is_set():
                    with contextlib.suppress(OSError):
                        data = far.recv(1 << 16)
                        self._udp.sendto(data, near)

            threading.Thread(target=back, daemon=True).start()
            while not self._ended.is_set():
                with contextlib.suppress(OSError):
                    data, near = self._udp.recvfrom(1 << 16)
                    far.send(data)

    def _serve(self, near: socket.socket) -> None:
        with (
            near,
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self._far)) as far,
        ):
            hello = near.recv(HELLO, socket.MSG_WAITALL)
            far.sendall(hello)
            threading.Thread(target=pump, args=(near, far), daemon=True).start()
            if self._iperf3:
                # The first connection with a cookie controls the test; the others are its load.
                if hello not in self._tests:
                    self._tests.append(hello)
                    self._states(far, near)
            elif hello[5:6] == COOKIE:
                while head := far.recv(4, socket.MSG_WAITALL):
                    self._frame(far, near, head)
            pump(far, near)

    def _states(self, far: socket.socket, near: socket.socket) -> None:
        """The states of a test; after the exchange of results, those of the server."""
        while state := far.recv(1):
            near.sendall(state)
            if state[0] == EXCHANGE_RESULTS:
                self._frame(far, near, far.recv(4, socket.MSG_WAITALL))

    def _frame(self, far: socket.socket, near: socket.socket, head: bytes) -> None:
        value = json.loads(far.recv(struct.unpack(">I", head)[0], socket.MSG_WAITALL))
        text = json.dumps(self._changed(value, "")).encode()
        near.sendall(struct.pack(">I", len(text)) + text)

    def _changed(self, value: Any, name: str) -> Any:  # noqa: ANN401 - any JSON value
        if isinstance(value, dict):
            kind = f"{value['is']}." if "is" in value else name
            return {
                key: inner if key == "is" else self._changed(inner, kind + key)
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [self._changed(inner, name) for inner in value]
        if not isinstance(value, str):
            return value
        if name not in self.names:
            self.names.append(name)
        return TEXT + value if self.names.index(name) == self.wanted else value


def pump(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := one.recv(1 << 16):
            other.sendall(part)
        other.shutdown(socket.SHUT_WR)


MEASURE = (
    "measure", "127.0.0.1", "--duration", "500ms", "--idle", "100ms", "--no-history", "--no-model",
    "--quiet", "--port",
)  # fmt: skip


@contextlib.contextmanager
def iperf3_server() -> Iterator[int]:
    """A server of iperf3, and its port."""
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed")
    port = free_port()
    words = ["iperf3", "-s", "-p", str(port)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        try:
            listening(port)
            yield port
        finally:
            child.kill()


def check_every_text(port: int, to: Path, *words: str) -> set[str]:
    """Measures through relays, each of which changes another text; returns the names of all."""
    seen: set[str] = set()
    number = 0
    while number == 0 or number < len(seen):
        relay = Relay(port, number, iperf3="iperf3" in words)
        try:
            outs = [to / name for name in ("a.csv", "a.json")]
            files = [word for out in outs for word in ("--out", out)]
            shown = printed(*MEASURE, relay.port, *words, *files)
            for text in shown, *(o.read_text(encoding="utf-8") for o in outs if o.exists()):
                assert is_shown(text), relay.names[number:]
        finally:
            relay.close()
        seen.update(relay.names)
        number += 1
    return seen


def test_texts_of_a_server_of_narrows(tmp_path: Path) -> None:
    with far_end() as (port, _):
        seen = check_every_text(port, tmp_path, "--test", "tcp_ndown", "--cc", "reno")
    assert seen >= {
        "greeting.narrows", "greeting.nonce", "greeting.you", "welcome.boot", "welcome.ccsallowed",
        "welcome.ccsavailable", "welcome.cookie", "welcome.kernel", "joined.cc", "stopped.cc",
    }  # fmt: skip


def test_texts_of_a_server_of_iperf3(tmp_path: Path) -> None:
    with iperf3_server() as port:
        seen = check_every_text(port, tmp_path, "--test", "tcp_down", "--speaks", "iperf3")
    assert "congestion_used" in seen


@contextlib.contextmanager
def serving(answer: Callable[[bytes], bytes]) -> Iterator[int]:
    """A server that replies to each request with these bytes and closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    link, _ = server.accept()
                    with link, contextlib.suppress(OSError):
                        link.settimeout(5)
                        link.sendall(answer(link.recv(4096)))

        threading.Thread(target=serve, daemon=True).start()
        yield int(server.getsockname()[1])
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


def test_texts_of_web_servers() -> None:
    hostile = TEXT.encode()
    for answer in (
        b"HTTP/1.1 200 " + hostile + b"\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 404 " + hostile + b"\r\n\r\n",
        b"HTTP/1.1 301 Moved\r\nLocation: http://" + hostile + b"/\r\n\r\n",
        b"HTTP/1.1 301 Moved\r\nLocation: " + hostile + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + hostile + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: " + hostile + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + hostile + b"\r\n",
        b"HTTP/1.1 200 OK\r\n" + hostile + b": x\r\nContent-Length: 5\r\n\r\nhello",
        hostile,
        b"HTTP/1.1 " + hostile,
    ):
        with serving(lambda _, answer=answer: answer) as port:
            words = [*MEASURE[:-1], "--test", "tcp_down"]
            words[1] = f"http://127.0.0.1:{port}/a"
            assert is_shown(printed(*words)), answer


@pytest.mark.parametrize("speaks", ["irtt", "stamp", "echo", "board", "narrows"])
def test_datagrams_and_first_bytes_of_servers(speaks: str) -> None:
    hostile = TEXT.encode()
    with (
        serving(lambda _: hostile) as port,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
    ):
        server.bind(("127.0.0.1", port))
        server.settimeout(0.1)
        ended = threading.Event()

        def answer() -> None:
            while not ended.is_set():
                with contextlib.suppress(OSError):
                    data, near = server.recvfrom(1 << 16)
                    # Garbage, and the question with a hostile end.
                    server.sendto(hostile, near)
                    server.sendto((data[: len(data) // 2] + hostile)[: len(data)], near)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            words = ["latency", "127.0.0.1", "--port", port, "--speaks", speaks, "--count", 20]
            assert is_shown(printed(*words, "--timeout", "100ms", "--interval", "5ms"))
        finally:
            ended.set()
            thread.join()
