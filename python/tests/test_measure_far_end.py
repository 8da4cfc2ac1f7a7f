"""`narrows measure` of a far end that does not keep to the protocol: this end's memory and time stay bounded."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from conftest import NARROWS

HELLO, NONCE = 37, 16
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
                json.dumps({"is": "greeting", "narrows": self.name, "nonce": "00" * NONCE, "you": you, "token": False})
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
                {"is": "welcome", "cookie": "00" * 16, "boot": "", "kernel": self.name, "ccs": [], "limits": {}}
            )
        what = text.get("do")
        if what == "clock":
            yield json.dumps({"is": "clock", "at": text["at"], "here": time.monotonic_ns()})
        elif what in {"open", "report", "forget"}:
            yield json.dumps({"is": {"forget": "forgotten"}.get(what, what), "why": None})
        elif what == "start":
            flood = json.dumps({"is": "samples", "stream": text["streams"][0], "rows": [ROW] * MANY})
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
        words = ["--test", "tcp_down", "--idle", "100ms", "--duration", "20s", "--no-history", "--no-twin"]
        command = [NARROWS, "measure", "127.0.0.1", "--port", str(port), *words, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "the far end sends more samples of down1 than were asked for" in done.stdout + done.stderr
    assert done.returncode == 1, done.stderr
    # 20 s of samples each 50 ms, and a hundred beside them.
    assert far.rows > 500
    told = json.loads(done.stdout)
    (flow,) = told["flows"]
    assert len(flow["samples"]) <= 500
    assert told["data"]["stopped_by"] == "lost"
    assert (flow["cc"], told["peer"]["version"]) == ("a\\u000aFORGED: b\\u061c",) * 2
    assert "\nFORGED" not in done.stderr
