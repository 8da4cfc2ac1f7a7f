"""`narrows measure URL`: web servers without support for narrows, with and without TLS."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from conftest import NARROWS

from narrows import files

# A ping of ours is a connection that ends at once, and Python's server forgets to close what it
# made of it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
HERE = Path(__file__).parent / "data/web"
BLOCK = bytes(64_000)
AHEAD = 4
"""The least number of objects of a megabyte that are requested in advance."""


class Handler(BaseHTTPRequestHandler):
    """`/BYTES` is an object of that size, `?close` the last of its connection, `?once` the last of
    all. With `?short`, only half of it is sent, and then the connection ends; with `?shortonce`, so
    is the first one.

    `/chunked` does not tell its size. The second `?ahead` of a connection waits until others were
    asked for behind it.
    """

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        """Answers."""
        what = self.path[1:]
        if what == "moved":
            self.send_response(301)
            self.send_header("Location", "https://elsewhere/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        asked = self.server.connections.setdefault(self.client_address, [])
        asked.append(what)
        if what.endswith("?ahead") and len(asked) == 2:
            self.server.waiting = self.waiting(AHEAD)
        if what.endswith("?once") and self.server.given:
            self.send_error(429)
            return
        first = not self.server.given
        self.server.given = True
        self.send_response(200)
        if what == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for _ in range(3):
                self.wfile.write(b"2710\r\n" + bytes(10_000) + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
            return
        size = int(what.partition("?")[0])
        self.send_header("Content-Length", str(size))
        if what.endswith(("?close", "?once")):
            self.send_header("Connection", "close")
        self.end_headers()
        if what.endswith("?short") or (first and what.endswith("?shortonce")):
            self.close_connection = True
            size //= 2
        for at in range(0, size, len(BLOCK)):
            self.wfile.write(BLOCK[: size - at])

    def waiting(self, wanted: int) -> int:
        """How many requests lie behind this one before it is answered, once there are so many; for
        20 s at most.
        """
        until = time.monotonic() + 20
        while time.monotonic() < until:
            # Data in the buffer of this process, and in the kernel.
            behind = self.rfile.peek().count(b"GET ") if self.rfile.peek() else 0
            with contextlib.suppress(BlockingIOError):
                behind += self.connection.recv(
                    1 << 16, socket.MSG_PEEK | socket.MSG_DONTWAIT
                ).count(b"GET ")
            if behind >= wanted:
                return behind
            time.sleep(0.01)
        return 0

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class Server(ThreadingHTTPServer):
    """Whoever hangs up in the middle of an object is no mistake."""

    given = False
    waiting = 0

    def __init__(self, *arguments: Any) -> None:  # noqa: ANN401 - as of the class above
        """No object was requested yet."""
        super().__init__(*arguments)
        self.connections: dict[tuple[str, int], list[str]] = {}
        """The requests of each connection, in order."""

    def handle_error(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def served(*, tls: bool) -> Iterator[str]:
    """Where it is."""
    with serving(tls=tls) as server:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"


@contextmanager
def serving(*, tls: bool) -> Iterator[Server]:
    """A web server at work."""
    with Server(("127.0.0.1", 0), Handler) as server:
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(HERE / "server.pem")
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


QUICK = ("--no-history", "--no-model", "--idle", "300ms")


def trusting(root: Path) -> dict[str, str]:
    return os.environ | {"SSL_CERT_FILE": str(root)}


def measure(
    url: str, test: str, *more: str, root: Path = HERE / "root.pem"
) -> subprocess.CompletedProcess[str]:
    command = [NARROWS, "measure", url, "--test", test, *QUICK, *more]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env=trusting(root)
    )


@pytest.mark.parametrize("tls", [False, True])
def test_a_web_server_is_measured(tls: bool, tmp_path: Path) -> None:
    made = tmp_path / "m.json"
    with served(tls=tls) as url:
        words = ["--duration", "1s", "--streams", "2", "--max-data", "20GB", "--out", str(made)]
        done = measure(f"{url}/900000000", "tcp_ndown", *words)
        assert done.returncode == 0, done.stderr
        measured = files.read(made)
        assert len(measured.flows) == 2
        # Each flow moved more data than one request.
        assert all(flow.told["received_bytes"] > 1_000_000 for flow in measured.flows)
        assert "closed the connection" not in done.stdout
        # Small objects are requested before the previous one has ended, over the same connection.
        done = measure(f"{url}/1000000", "tcp_down", "--duration", "1s", "--out", str(made))
        assert done.returncode == 0, done.stderr
        assert files.read(made).flows[0].told["received_bytes"] > 2_000_000
        assert "closed the connection" not in done.stdout
        # Without a test it is the one that a web server can do.
        done = subprocess.run(
            [NARROWS, "measure", f"{url}/900000000", *QUICK, "--duration", "500ms", "--out",
            str(made)],
            capture_output=True, text=True, check=False, timeout=60,
            env=trusting(HERE / "root.pem"),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert {flow.direction for flow in files.read(made).flows} == {"down"}
        # Where a server keeps no connection, that is said.
        done = measure(f"{url}/1000000?close", "tcp_down", "--duration", "1s", "--out", str(made))
        assert done.returncode == 0, done.stderr
        assert "The server closed the connection after the object " in done.stdout


def test_objects_are_requested_before_the_previous_one_has_arrived(tmp_path: Path) -> None:
    made = tmp_path / "m.json"
    with serving(tls=False) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/1000000?ahead"
        done = measure(
            url, "tcp_down", "--duration", "10s", "--max-data", "12MB", "--out", str(made)
        )
        assert done.returncode == 0, done.stderr
    assert server.waiting >= AHEAD
    # One connection has all requests, and the received objects are the requested ones.
    (flow,) = files.read(made).flows
    (asked,) = server.connections.values()
    assert flow.told["received_bytes"] <= len(asked) * 1_000_200


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("what", ["30000", "chunked"])
def test_an_object_with_or_without_content_length_is_a_page(
    tls: bool, what: str, tmp_path: Path
) -> None:
    made = tmp_path / "m.json"
    with serving(tls=tls) as server:
        url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
        done = measure(f"{url}/{what}", "page", "--duration", "1s", "--out", str(made))
    assert done.returncode == 0, done.stderr
    page = files.read(made).json["page"]
    assert page["idle_s"]["n"] > 0
    assert page["idle_s"]["failed"] == page["loaded_s"]["failed"] == 0
    assert 0 < page["idle_s"]["waiting_share"] <= 1
    # Each counted page was requested over its own connection, which also carries its objects.
    pages = page["idle_s"]["n"] + page["loaded_s"]["n"]
    assert pages * page["objects"] <= sum(len(asked) for asked in server.connections.values())


def test_redirects_and_untrusted_certificates_are_errors(tmp_path: Path) -> None:
    with served(tls=True) as url:
        done = measure(f"{url}/moved", "tcp_down")
        assert (done.returncode, "it has moved to https://elsewhere/" in done.stderr) == (2, True)
        name = url.replace("127.0.0.1", "127.0.0.2")
        for wrong in (
            measure(f"{url}/9", "tcp_down", root=HERE / "server.pem"),
            measure(f"{name}/9", "tcp_down"),
        ):
            assert wrong.returncode == 2, wrong.stderr
        assert "SSL_CERT_FILE" in measure(f"{url}/9", "tcp_down", root=HERE / "server.pem").stderr
        done = measure(
            f"{url}/900000",
            "tcp_down",
            "--insecure",
            "--duration",
            "500ms",
            root=HERE / "server.pem",
        )
        assert done.returncode == 0, done.stderr
        assert "--insecure" in measure(f"{url}/9", "tcp_down", root=HERE / "server.pem").stderr
        empty = tmp_path / "no.pem"
        empty.write_text("")
        assert "no root certificates" in measure(f"{url}/9", "tcp_down", root=empty).stderr
        plain = measure(url.replace("https", "http") + "/9", "tcp_down")
        assert plain.returncode == 2
    with served(tls=False) as url:
        done = measure(url.replace("http", "https") + "/9", "tcp_down")
        assert (done.returncode, "write http://" in done.stderr) == (2, True), done.stderr


def test_a_web_server_without_a_url_is_named_and_so_is_a_missing_directory(tmp_path: Path) -> None:
    def refuse(server: socket.socket) -> None:
        peer, _ = server.accept()
        with peer:
            peer.recv(100)
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=refuse, args=(server,), daemon=True).start()
        command = [NARROWS, "measure", "127.0.0.1", "--port", str(server.getsockname()[1]), *QUICK]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, "a web server answers there" in done.stderr) == (2, True), (
            done.stderr
        )
    with served(tls=False) as url:
        there = tmp_path / "nowhere"
        done = measure(f"{url}/9", "tcp_down", "--out", str(there / "m.json"))
        assert (done.returncode, "m.json: there is no directory" in done.stderr) == (2, True), (
            done.stderr
        )
        assert not there.exists()


@pytest.mark.parametrize(
    ("what", "problem"),
    [
        ("0", "the object is empty; write the URL of an object with data"),
        ("-5", "the response has an invalid Content-Length; write the URL of another server"),
        ("30000000?short", "the server closed the connection before the end of the object"),
        ("600?short", "the server closed the connection before the end of the object"),
    ],
)
def test_an_object_without_load_is_an_error(what: str, problem: str) -> None:
    with served(tls=False) as url:
        done = measure(f"{url}/{what}", "tcp_down", "--duration", "1s")
    assert (done.returncode, f"{url}/{what}: {problem}" in done.stderr) == (2, True), done.stderr
    assert "grade" not in done.stdout


def test_an_object_that_is_cut_short_is_reported() -> None:
    with served(tls=False) as url:
        done = measure(f"{url}/30000000?shortonce", "tcp_down", "--duration", "1s")
    assert done.returncode == 0, done.stderr
    assert "the server closed the connection before the end of the object" in done.stdout
    assert "(number of connections: 1)" in done.stdout


@pytest.mark.parametrize("tls", [False, True])
def test_received_data_count_if_the_server_refuses_further_requests(
    tls: bool, tmp_path: Path
) -> None:
    made = tmp_path / "m.json"
    with served(tls=tls) as url:
        done = measure(f"{url}/3000000?once", "tcp_down", "--duration", "2s", "--out", str(made))
    assert done.returncode == 0, done.stderr
    measured = files.read(made)
    # The object once, and not twice.
    (flow,) = measured.flows
    assert measured.stopped_by == "peer"
    assert 2_900_000 < flow.told["received_bytes"] < 3_100_000, flow.told
    assert "The server sent no more data: " in done.stdout
    assert "status 429" in done.stdout
