"""`narrows measure` with a server that violates the protocol: memory and time stay bounded."""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from conftest import NARROWS

from narrows.host.live import HOST
from narrows.render.terminal import printable

HELLO, NONCE = 37, 16
HOSTILE = "\u009b31m\u202e\x7f"
"""What a terminal obeys: a C1 control sequence, an override of the direction, and a control
character.
"""
ROW = [0] * 16
MANY = 100
"""Rows of a frame."""


class FarEnd:
    """One session of the protocol, in which each stream is flooded with rows from its start on."""

    def __init__(self, server: socket.socket, name: str) -> None:
        """At a port, with its own name."""
        self.server, self.name = server, name
        self.rows = 0
        self.stopped = threading.Event()

    def serve(self) -> None:
        """Takes connections until it is stopped."""
        while not self.stopped.is_set():
            with suppress(OSError):
                link, _ = self.server.accept()
                threading.Thread(target=self.session, args=(link,), daemon=True).start()

    def session(self, link: socket.socket) -> None:
        """A control connection, or a flow."""
        with link, suppress(OSError, ValueError):
            hello = link.recv(HELLO, socket.MSG_WAITALL)
            if hello[5:6] == b"d":
                # A flow: it gets nothing, and stays open.
                self.control(json.dumps({"is": "joined", "class": 0, "cc": self.name}))
                self.stopped.wait(30)
                return
            self.link = link
            you = "{}:{}".format(*link.getpeername())
            self.control(
                json.dumps(
                    {
                        "is": "greeting",
                        "narrows": self.name,
                        "nonce": "00" * NONCE,
                        "you": you,
                        "token": False,
                    }
                )
            )
            while text := self.request():
                for answer in self.answers(text):
                    self.control(answer)

    def control(self, text: str) -> None:
        """Sends a frame."""
        content = text.encode()
        self.link.sendall(struct.pack(">I", len(content)) + content)

    def request(self) -> dict[str, Any]:
        """The next frame."""
        head = self.link.recv(4, socket.MSG_WAITALL)
        if len(head) < 4:
            return {}
        return dict(json.loads(self.link.recv(struct.unpack(">I", head)[0], socket.MSG_WAITALL)))

    def answers(self, text: dict[str, Any]) -> Iterator[str]:
        """To a request; to the start of streams without end."""
        if "proof" in text:
            yield json.dumps(
                {
                    "is": "welcome",
                    "cookie": "00" * 16,
                    "boot": "",
                    "kernel": self.name,
                    "ccs": [self.name],
                    "limits": {self.name: 1},
                }
            )
        what = text.get("do")
        if what == "clock":
            yield json.dumps({"is": "clock", "at": text["at"], "here": time.monotonic_ns()})
        elif what in {"open", "report", "forget"}:
            yield json.dumps({"is": {"forget": "forgotten"}.get(what, what), "why": None})
        elif what == "latency":
            yield json.dumps({"is": "latency", "thread": True, "policy": self.name})
        elif what == "start":
            flood = json.dumps(
                {"is": "samples", "stream": text["streams"][0], "rows": [ROW] * MANY}
            )
            while not self.stopped.is_set():
                self.rows += MANY
                yield flood


@contextmanager
def far_end(name: str) -> Iterator[tuple[int, FarEnd]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        far = FarEnd(server, name)
        thread = threading.Thread(target=far.serve)
        thread.start()
        try:
            yield server.getsockname()[1], far
        finally:
            far.stopped.set()
            thread.join()


def test_rows_without_end_end_the_measurement_and_not_the_memory() -> None:
    with far_end("a\nFORGED: b\u061c") as (port, far):
        words = [
            "--test",
            "tcp_down",
            "--idle",
            "100ms",
            "--duration",
            "20s",
            "--no-history",
            "--no-model",
        ]
        command = [NARROWS, "measure", "127.0.0.1", "--port", str(port), *words, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "the server sends more samples of down1 than requested" in done.stdout + done.stderr
    assert done.returncode == 1, done.stderr
    # 20 s of samples each 50 ms, and a hundred beside them.
    assert far.rows > 500
    told = json.loads(done.stdout)
    (flow,) = told["flows"]
    assert len(flow["samples"]) <= 500
    assert told["data"]["stopped_by"] == "lost"
    assert (flow["cc"], told["peer"]["version"]) == ("a\\u000aFORGED: b\\u061c",) * 2
    assert "\nFORGED" not in done.stderr


Session = Callable[[socket.socket, threading.Event], None]
"""The function that serves a connection until the event."""


@contextmanager
def listening(session: Session) -> Iterator[int]:
    """A port, each of whose connections has a thread."""
    stopped = threading.Event()

    def visited(link: socket.socket) -> None:
        with link, suppress(OSError):
            session(link, stopped)

    def serve() -> None:
        while not stopped.is_set():
            with suppress(OSError):
                link, _ = server.accept()
                threading.Thread(target=visited, args=(link,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            stopped.set()
            thread.join()


def frame(text: str) -> bytes:
    content = text.encode()
    return struct.pack(">I", len(content)) + content


def dribbled(link: socket.socket, begun: threading.Event, stopped: threading.Event) -> None:
    """A byte at a time, none of which is the last; `begun` once the other end reads them."""
    for sent in range(10_000):
        link.sendall(b"a")
        if sent == 10:
            begun.set()
        if stopped.wait(0.02):
            return


def interrupted(words: Sequence[str], begun: threading.Event) -> tuple[int, str, str]:
    """How the program ends that gets Ctrl-C once something has begun: its code, and what it
    printed.
    """
    with subprocess.Popen(
        [HOST, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            assert begun.wait(60)
            child.send_signal(signal.SIGINT)
            out, said = child.communicate(timeout=60)
        finally:
            child.kill()
    return child.returncode, out, said


@pytest.mark.parametrize("command", ["measure", "latency"])
def test_a_greeting_without_end_can_be_interrupted(command: str) -> None:
    begun = threading.Event()

    def greet(link: socket.socket, stopped: threading.Event) -> None:
        link.recv(HELLO, socket.MSG_WAITALL)
        many = frame('{"is":"x"}') * 1000
        for sent in range(1_000_000):
            link.sendall(many)
            if sent == 100:
                begun.set()
            if stopped.is_set():
                return

    with listening(greet) as port:
        words = ["--test", "tcp_down"] if command == "measure" else []
        code, out, said = interrupted([command, "127.0.0.1", "--port", str(port), *words], begun)
    assert (code, out, said) == (128 + signal.SIGINT, "", "stopped\n")


@pytest.mark.parametrize(
    "head", [None, b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n"]
)
def test_a_page_that_never_arrives_can_be_interrupted(head: bytes | None) -> None:
    begun = threading.Event()

    def serve(link: socket.socket, stopped: threading.Event) -> None:
        # A ping is a connection without a request.
        if not link.recv(4096):
            return
        if head is None:
            link.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            dribbled(link, begun, stopped)
        else:
            link.sendall(head)
            begun.set()
            stopped.wait(120)

    with listening(serve) as port:
        words = [
            "measure",
            f"http://127.0.0.1:{port}/",
            "--test",
            "page",
            "--idle",
            "100ms",
            "--duration",
            "30s",
        ]
        code, out, _ = interrupted(words, begun)
    assert code == 128 + signal.SIGINT
    told = json.loads(out)
    assert told["data"]["stopped_by"] == "user"
    # The page that was under way is none that failed.
    assert (told["page"]["idle_s"]["n"], told["page"]["idle_s"]["failed"]) == (0, 0)


def test_results_of_iperf3_that_never_arrive_can_be_interrupted() -> None:
    begun, joined = threading.Event(), threading.Event()
    cookies: list[bytes] = []

    def serve(link: socket.socket, stopped: threading.Event) -> None:
        cookie = link.recv(HELLO, socket.MSG_WAITALL)
        cookies.append(cookie)
        if cookies.count(cookie) > 1:
            # A flow, which gets nothing.
            joined.set()
            stopped.wait(120)
            return
        link.sendall(b"\x09")
        (size,) = struct.unpack(">I", link.recv(4, socket.MSG_WAITALL))
        link.recv(size, socket.MSG_WAITALL)
        link.sendall(b"\x0a")
        assert joined.wait(60)
        link.sendall(b"\x01\x02")
        while link.recv(1) not in {b"\x04", b""}:
            pass
        link.sendall(b"\x0d" + struct.pack(">I", 60_000) + b'{"a":"')
        dribbled(link, begun, stopped)

    with listening(serve) as port:
        words = [
            "measure",
            "127.0.0.1",
            "--port",
            str(port),
            "--test",
            "tcp_down",
            "--idle",
            "100ms",
        ]
        code, out, _ = interrupted([*words, "--duration", "500ms"], begun)
    assert code == 128 + signal.SIGINT
    assert json.loads(out)["data"]["stopped_by"] == "user"


def test_a_refusal_is_one_short_line() -> None:
    def refuse(link: socket.socket, _: threading.Event) -> None:
        link.recv(HELLO, socket.MSG_WAITALL)
        link.sendall(frame(json.dumps({"is": "refused", "why": f"no\n{HOSTILE}\x1b[2J" * 1500})))

    with listening(refuse) as port:
        command = [HOST, "measure", "127.0.0.1", "--port", str(port), "--test", "tcp_down"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    place, _, why = line.partition(": ")
    assert place == f"127.0.0.1:{port}"
    assert len(why) <= 301
    assert why.startswith("no\\u000a\\u009b31m")


@pytest.mark.parametrize("command", ["measure", "latency"])
def test_json_has_no_control_characters(command: str) -> None:
    with far_end(HOSTILE) as (port, _), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", port))
        udp.settimeout(0.1)
        over = threading.Event()

        def answer() -> None:
            # A question becomes its answer: `q` an `a`, and `t` an `s`.
            while not over.is_set():
                with suppress(OSError):
                    asked, of = udp.recvfrom(2000)
                    udp.sendto(
                        asked[:5] + asked[5:6].translate(bytes.maketrans(b"qt", b"as")) + asked[6:],
                        of,
                    )

        thread = threading.Thread(target=answer)
        thread.start()
        words = {
            "measure": ["--test", "tcp_down", "--idle", "100ms", "--duration", "5s"],
            "latency": ["--count", "20"],
        }
        line = [HOST, command, "127.0.0.1", "--port", str(port), *words[command]]
        try:
            done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
        finally:
            over.set()
            thread.join()
    assert done.stdout, done.stderr
    assert printable(done.stdout) == done.stdout
    peer = json.loads(done.stdout)["peer"]
    shown = r"\u009b31m\u202e\u007f"
    if command == "measure":
        assert (peer["kernel"], peer["ccs"], peer["limits"]) == (shown, [shown], {shown: 1})
    else:
        assert (peer["told"]["kernel"], peer["told"]["policy"]) == (shown, shown)
