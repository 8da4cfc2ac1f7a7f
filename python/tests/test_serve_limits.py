"""The limits of the server per session, per address and in total: seats, connections, bytes, rate,
packets, silence.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from pages import RENEW
from test_serve import HELLO, counters, far_end, free_port, memory_kb
from wires import DEVICE, FAR, NEAR, run, wire

from narrows.host.live import HOST

TOKEN = "correct-horse"
COOKIE = b"abcdefghijklmnopqrstuvwxyz234567abcd\0"


def frame(value: object) -> bytes:
    text = json.dumps(value).encode()
    return struct.pack(">I", len(text)) + text


def received_frame(of: socket.socket) -> dict[str, object]:
    """The content of the next frame."""
    head = of.recv(4, socket.MSG_WAITALL)
    assert len(head) == 4, "it hung up"
    return dict(json.loads(of.recv(struct.unpack(">I", head)[0], socket.MSG_WAITALL)))


def connect(port: int, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(source, 0))


def proof(token: str, role: str, nonces: tuple[bytes, bytes], addresses: tuple[str, str]) -> str:
    """As docs/reference/far-end.md has it: of the client's nonce and address first."""
    parts = (
        b"narrows protocol 2",
        role.encode(),
        *nonces,
        *(address.encode() for address in addresses),
    )
    message = b"".join(struct.pack(">I", len(part)) + part for part in parts)
    return hmac.new(token.encode(), message, hashlib.sha256).hexdigest()


def session(
    port: int, source: str = "127.0.0.1", token: str | None = None, to: str | None = None
) -> tuple[socket.socket, dict[str, object]]:
    """A control connection, and the reply to the proof."""
    control, nonce = connect(port, source), os.urandom(16)
    control.sendall((b"NARR\x02c\0\0" + nonce).ljust(HELLO, b"\0"))
    greeting = received_frame(control)
    assert (greeting["is"], greeting["protocol"]) == ("greeting", 2)
    here, there = f"{source}:{control.getsockname()[1]}", to or f"127.0.0.1:{port}"
    assert greeting["you"] == here
    nonces = (nonce, bytes.fromhex(str(greeting["nonce"])))
    proved = token and proof(token, "client", nonces, (here, there))
    control.sendall(frame({"proof": proved, "to": there}))
    answer = received_frame(control)
    if token and answer["is"] == "welcome":
        assert answer["proof"] == proof(token, "server", nonces, (here, there))
    return control, answer


def until(done: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether it happens, sooner or later."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def test_the_table_of_limits_is_that_of_the_program() -> None:
    printed = subprocess.run(
        [HOST, "serve", "--limits"], capture_output=True, text=True, check=True, timeout=20
    )
    rows = json.loads(printed.stdout)
    file = ROOT / "python/narrows/data/serve_limits.json"
    text = "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n"
    if RENEW:
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text
    help_text = subprocess.run(
        [HOST, "--help"], capture_output=True, text=True, check=True, timeout=20
    ).stdout
    for row in rows:
        assert not row["option"] or f"  {row['option']} {row['metavar']} " in help_text


def test_sessions_are_limited_per_address_and_network() -> None:
    with (
        far_end("--clients", "4", "--clients-per-address", "3") as (port, _),
        contextlib.ExitStack() as open_,
    ):
        for n in range(5):
            control, answer = session(port)
            open_.enter_context(control)
            assert answer["is"] == ("welcome" if n < 3 else "refused"), answer
        assert "your address" in str(answer["why"])
        iperf = open_.enter_context(connect(port))
        iperf.sendall(COOKIE)
        assert iperf.recv(1) == b"\xff"
        # Another address of the same network finds the share of its network taken.
        control, answer = session(port, "127.0.0.2")
        open_.enter_context(control)
        assert (answer["is"], "your network" in str(answer["why"])) == ("refused", True)
        control, answer = session(port, "127.1.0.2")
        open_.enter_context(control)
        assert answer["is"] == "welcome"
        # All seats are taken now; a returned seat is free for another client.
        control.sendall(frame({"do": "bye"}))
        assert control.recv(1) == b""
        control, answer = session(port, "127.1.0.3")
        open_.enter_context(control)
        assert answer["is"] == "welcome"


@pytest.mark.parametrize(
    "first", [b"", b"G", b"GET /", b"NARR", (b"NARR\x02c").ljust(HELLO, b"\0"), b"abc"]
)
def test_unauthenticated_connections_with_data_are_limited(first: bytes) -> None:
    at = free_port()
    with far_end("--metrics", f"127.0.0.1:{at}") as (port, _), contextlib.ExitStack() as open_:
        for _ in range(150):
            crowd = open_.enter_context(connect(port, "127.0.0.66"))
            crowd.sendall(first)
        assert until(lambda: counters(at)["connections"] <= 64 + 2)
        _control, answer = session(port)
        assert answer["is"] == "welcome"
        _control.close()


def test_with_exhausted_descriptors_other_addresses_are_accepted() -> None:
    serve = f"{HOST} serve --bind 127.0.0.1 --port 0 --tied"
    words = ["sh", "-c", f"ulimit -n 64; exec {serve}"]
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child,
        contextlib.ExitStack() as open_,
    ):
        try:
            assert child.stdout is not None
            port = int(child.stdout.readline().rsplit(":", 1)[1])
            for _ in range(60):
                # Connections beyond the share of the address are reset, on a busy machine even
                # before `connect` returns.
                with contextlib.suppress(ConnectionResetError):
                    open_.enter_context(connect(port, "127.0.0.66"))
            for source in ("127.0.0.1", "127.0.0.2"):
                control, answer = session(port, source)
                open_.enter_context(control)
                assert answer["is"] == "welcome"
            # It sleeps without connections.
            spent = (  # noqa: E731
                lambda: sum(
                    map(
                        int,
                        Path(f"/proc/{child.pid}/stat")
                        .read_text()
                        .rsplit(")", 1)[1]
                        .split()[11:13],
                    )
                )
            )
            before = spent()
            time.sleep(0.5)
            assert (spent() - before) / os.sysconf("SC_CLK_TCK") < 0.25
        finally:
            child.kill()


def test_a_flood_of_connections_is_reset_and_another_address_accepted() -> None:
    at = free_port()
    with far_end("--metrics", f"127.0.0.1:{at}", "--new-connections", "20") as (port, _):
        for _ in range(400):
            with contextlib.suppress(OSError), connect(port, "127.0.0.66"):
                pass
        assert counters(at)["dropped_full_total"] > 100
        control, answer = session(port)
        control.close()
        assert answer["is"] == "welcome"


CROWD = """
import json, resource, socket, struct
resource.setrlimit(resource.RLIMIT_NOFILE, (5000, 5000))
far = ("2001:db8:ffff::2", 5201)
def connected(source):
    link = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    # IPV6_FREEBIND of linux/in6.h: the address is of the local route, not of a device.
    link.setsockopt(socket.IPPROTO_IPV6, 78, 1)
    link.bind((source, 0))
    link.settimeout(20)
    link.connect(far)
    return link
def received_frame(link):
    return json.loads(link.recv(struct.unpack(">I", link.recv(4, socket.MSG_WAITALL))[0],
    socket.MSG_WAITALL))
client = connected("2001:db8:ffff::1")
client.sendall(b"NARR\\x02c".ljust(37, b"\\0"))
greeting = received_frame(client)
# Each of another /64; all of them stay open and say nothing.
crowd = [connected(f"2001:db8:1:{n:x}::1") for n in range(2000)]
text = json.dumps({"proof": None}).encode()
client.sendall(struct.pack(">I", len(text)) + text)
print(received_frame(client)["is"])
"""


def test_clients_of_many_networks_block_no_other_client() -> None:
    with wire() as between, contextlib.ExitStack() as open_:
        for words, address in (
            (between.near, "2001:db8:ffff::1"),
            (between.far, "2001:db8:ffff::2"),
        ):
            run(*words, "ip", "addr", "add", f"{address}/64", "dev", DEVICE, "nodad")
        # The near end has every address of a /48 that the kernel orders before its own.
        run(*between.near, "ip", "route", "add", "local", "2001:db8:1::/48", "dev", "lo")
        run(*between.far, "ip", "route", "add", "2001:db8:1::/48", "via", "2001:db8:ffff::1")
        started(open_, 1, *between.far, str(HOST), "serve", "--tied")
        assert run(*between.near, sys.executable, "-c", CROWD).strip() == "welcome"


def fetch(port: int, cookie: object, size: int, seconds: float, n: int) -> int:
    """Bytes that `n` connections get within this time, each asking again and again."""
    got, end = [0] * n, time.monotonic() + seconds

    def one(i: int) -> None:
        with contextlib.suppress(OSError), connect(port) as link:
            link.settimeout(0.2)
            while time.monotonic() < end:
                link.sendall(f"GET /{cookie}/{size} HTTP/1.1\r\n\r\n".encode())
                body = 0
                while body < size and time.monotonic() < end:
                    with contextlib.suppress(TimeoutError):
                        part = len(link.recv(1 << 16))
                        body, got[i] = body + part, got[i] + part
                        if part == 0:
                            return

    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(got)


def test_objects_of_pages_are_charged_to_their_session() -> None:
    with far_end("--rate", "8Mbit", "--bytes", "3MB") as (port, _):
        control, welcome = session(port)
        with control:
            # A second of 8 Mbit/s is 1 MB; a part of an object and a kernel's buffer more come at
            # once.
            first = fetch(port, welcome["cookie"], 2_000_000, 1, 4)
            assert 100_000 < first < 2_500_000
            # Not more than all bytes, but for heads of answers.
            assert first + fetch(port, welcome["cookie"], 8_000_000, 4, 4) < 3_000_000 + 10_000
            answer = received_frame(control)
            assert (answer["is"], "limit" in str(answer["why"])) == ("over", True)
    with far_end() as (port, child):
        control, welcome = session(port)
        with control, contextlib.ExitStack() as open_:
            before, served = memory_kb(child.pid), 0
            for _ in range(60):
                link = open_.enter_context(connect(port))
                link.sendall(f"GET /{welcome['cookie']}/8000000 HTTP/1.1\r\n\r\n".encode())
                served += b"200 OK" in link.recv(100)
            assert served == 32
            assert memory_kb(child.pid) < before + 32 * 400
            # Another address can use them as little as the session.
            with connect(port, "127.0.0.2") as other:
                other.sendall(f"GET /{welcome['cookie']}/1000 HTTP/1.1\r\n\r\n".encode())
                assert b"404" in other.recv(100)


def test_a_rate_holds_for_the_heads_of_empty_objects() -> None:
    with far_end("--rate", "100kbit") as (port, _):
        control, welcome = session(port)
        ask = f"GET /{welcome['cookie']}/0 HTTP/1.1\r\n\r\n".encode()
        with control, connect(port) as link:
            link.setblocking(False)
            got, pending, begun = 0, b"", time.monotonic()
            while time.monotonic() < begun + 3:
                pending = pending or 20 * ask
                with contextlib.suppress(BlockingIOError):
                    pending = pending[link.send(pending) :]
                with contextlib.suppress(BlockingIOError):
                    got += len(link.recv(1 << 16))
                time.sleep(0.001)
            # The session also has the credit of a second.
            assert 10_000 < got < 100e3 / 8 * (1 + time.monotonic() - begun) * 1.1


def test_a_rate_holds_for_datagrams_that_the_far_end_sends() -> None:
    params = {
        "udp": True,
        "omit": 0,
        "time": 30,
        "parallel": 1,
        "len": 1200,
        "bandwidth": 10_000_000_000,
        "reverse": True,
    }
    with (
        far_end("--rate", "8Mbit") as (port, _),
        connect(port) as control,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as data,
    ):
        control.sendall(COOKIE)
        assert control.recv(1) == b"\x09"
        control.sendall(frame(params))
        assert control.recv(1) == b"\x0a"
        data.connect(("127.0.0.1", port))
        data.settimeout(5)
        data.send(b"9876")
        assert data.recv(10) == b"6789"
        got, begun = 0, time.monotonic()
        while time.monotonic() < begun + 1:
            got += len(data.recv(2000))
        assert 2e6 < got * 8 / (time.monotonic() - begun) < 12e6


def test_wrong_tokens_make_their_address_wait() -> None:
    with far_end("--token", TOKEN) as (port, _):
        for n in range(5):
            control, answer = session(port, token="wrong-horses")
            control.close()
            assert answer["is"] == "refused"
            assert ("wrong token" if n < 3 else "too many wrong tokens") in str(answer["why"]), n
        control, answer = session(port, token=TOKEN)
        control.close()
        assert "too many wrong tokens" in str(answer["why"])
        control, answer = session(port, "127.0.0.2", token=TOKEN)
        control.close()
        assert answer["is"] == "welcome"
        # No token is no guess.
        for _ in range(6):
            control, answer = session(port, "127.0.0.3")
            control.close()
            assert "no token" in str(answer["why"])


def pump(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := one.recv(4096):
            other.sendall(part)
        other.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def relay(to: int) -> Iterator[int]:
    """Somebody who passes everything on, and the port at which he waits."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                client, _ = server.accept()
                with client, connect(to) as far:
                    back = threading.Thread(target=pump, args=(far, client))
                    back.start()
                    pump(client, far)
                    back.join()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield int(server.getsockname()[1])
        finally:
            thread.join(20)


def asked(port: int, *words: str) -> subprocess.CompletedProcess[str]:
    command = [
        HOST,
        "measure",
        "127.0.0.1",
        "--port",
        str(port),
        "--test",
        "ping",
        "--duration",
        "500ms",
        "--idle",
        "0s",
    ]
    return subprocess.run(
        [*command, *words], capture_output=True, text=True, check=False, timeout=40
    )


def test_a_relay_between_client_and_server_is_detected() -> None:
    with far_end("--token", TOKEN) as (port, _), relay(port) as false:
        refused = asked(false, "--token", TOKEN)
        assert refused.returncode == 2
        assert f"--public 127.0.0.1:{false}" in refused.stderr
    # The one that knows of its NAT says so.
    with far_end("--token", TOKEN) as (port, _):
        control, answer = session(port, token=TOKEN, to="192.0.2.1:5201")
        control.close()
        assert "--public 192.0.2.1:5201" in str(answer["why"])
    with far_end("--token", TOKEN, "--public", "192.0.2.1:5201") as (port, _):
        control, answer = session(port, token=TOKEN, to="192.0.2.1:5201")
        control.close()
        assert answer["is"] == "welcome"


@contextlib.contextmanager
def false_far_end(answers: list[list[dict[str, object]]]) -> Iterator[tuple[int, list[bytes]]]:
    """One that says to the n-th connection what is given, a frame for each part that comes; what it
    was told first.
    """
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for frames in answers:
                with contextlib.suppress(OSError):
                    client, _ = server.accept()
                    with client:
                        client.settimeout(10)
                        heard.append(client.recv(HELLO, socket.MSG_WAITALL))
                        for value in frames:
                            client.sendall(frame(value))
                            heard.append(client.recv(4096))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield int(server.getsockname()[1]), heard
        finally:
            thread.join(20)


def test_a_server_must_prove_that_it_knows_the_token() -> None:
    greeting: dict[str, object] = {
        "is": "greeting",
        "narrows": "9",
        "protocol": 2,
        "nonce": "00" * 16,
        "you": "127.0.0.1:9",
    }
    welcome = {"is": "welcome", "cookie": "00" * 16, "proof": "00" * 32}
    with false_far_end([[{**greeting, "token": True}, welcome]]) as (port, _):
        refused = asked(port, "--token", TOKEN)
        assert (refused.returncode, "does not know the token" in refused.stderr) == (2, True), (
            refused.stderr
        )
    with false_far_end([[{**greeting, "token": False}]]) as (port, heard):
        refused = asked(port, "--token", TOKEN)
        assert (refused.returncode, "requires no token" in refused.stderr) == (2, True), (
            refused.stderr
        )
        assert heard[1:] in ([], [b""])


def test_another_protocol_version_is_refused_with_the_reason() -> None:
    with far_end("--token", TOKEN) as (port, _):
        for version, words in ((1, "update your narrows"), (3, "update this server")):
            with connect(port) as older:
                older.sendall(b"NARR" + bytes([version]) + b"c".ljust(HELLO - 5, b"\0"))
                answer = received_frame(older)
                assert answer["is"] == "refused"
                assert words in str(answer["why"])
                assert older.recv(1) == b""
    old: dict[str, object] = {
        "is": "greeting",
        "narrows": "0.0.9",
        "protocol": 1,
        "nonce": "00" * 16,
        "token": True,
    }
    with false_far_end([[], [old]]) as (port, heard):
        refused = asked(port, "--token", TOKEN)
        assert refused.returncode == 2
        assert "narrows 0.0.9 with version 1" in refused.stderr
        # It received no proof: a proof of version 1 is valid for other servers.
        assert heard[0].startswith(b"NARR\x02c")
        assert heard[1].startswith(b"NARR\x01c")
        assert heard[2:] == [b""]


def test_the_threads_for_timed_requests_are_limited() -> None:
    with far_end() as (port, _):
        control, _welcome = session(port)
        with control:
            control.sendall(
                b"".join(frame({"do": "latency", "port": 20_000 + n}) for n in range(100))
            )
            made = [received_frame(control)["thread"] for _ in range(100)]
    assert made[0] is True
    assert sum(map(bool, made)) < 10


def test_a_thread_for_timed_requests_needs_an_unprivileged_port() -> None:
    with far_end("--echo", str(ECHO)) as (port, _):
        control, _welcome = session(port)
        with control:
            for refused in (0, 1, 53, 1023, port, ECHO):
                control.sendall(frame({"do": "latency", "port": refused}))
                answer = received_frame(control)
                assert (answer["is"], answer["thread"]) == ("latency", False), refused
                assert "above 1023" in str(answer["why"])
            control.sendall(frame({"do": "latency", "port": 20_000}))
            assert received_frame(control)["thread"] is True


ECHO, STAMP, IRTT, BOARD = 20_001, 20_002, 20_003, 20_004
SERVICES = ["--echo", str(ECHO), "--stamp", str(STAMP), "--irtt", str(IRTT), "--board", str(BOARD)]

PAIRS = """
import itertools, os, socket, struct, sys, time
here, there, first, second = sys.argv[1], sys.argv[2], *(list(map(int,
words.split(","))) for words in sys.argv[3:5])
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
raw.setsockopt(socket.IPPROTO_IP, socket.IP_HDRINCL, 1)
def out():
    names, values = [line.split()[1:] for line in open("/proc/net/snmp") if line.startswith("Udp:")]
    return int(dict(zip(names, values))["OutDatagrams"])
timed = b"NARP\\x01t".ljust(88, b"\\0")
payloads = [bytes(44), b"hello", bytes(4) + os.urandom(12) + b"n" * 48, timed, timed.replace(b"t",
b"s"),
    bytes([0x14, 0xa7, 0x5b, 1, 1, 2]), b"NARP\\x01q".ljust(64, b"\\0"), b"9876"]
payloads += [os.urandom(64) for _ in range(20)]
before, sent = out(), 0
for source, target in itertools.product(first, second):
    for payload in payloads:
        udp = struct.pack(">HHHH", source, target, 8 + len(payload), 0) + payload
        head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0,
            socket.inet_aton(here), socket.inet_aton(there))
        raw.sendto(head + udp, (there, 0))
        sent += 1
last, end = -1, time.monotonic() + 20
while (now := out()) != last and time.monotonic() < end:
    last = now
    time.sleep(0.4)
print(sent, now - before, now == last)
"""


def started(open_: contextlib.ExitStack, lines: int, *words: str) -> subprocess.Popen[str]:
    """A process that has printed so many lines; it is killed in the end."""
    child = open_.enter_context(
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    )
    open_.callback(child.kill)
    assert child.stdout is not None
    for _ in range(lines):
        assert child.stdout.readline()
    return child


def stormy(
    between: list[str], here: str, there: str, first: list[int], second: list[int]
) -> tuple[int, int, bool]:
    """Datagrams sent in the name of one of these services to another, how many they sent then, and
    whether it ended.
    """
    words = [",".join(map(str, ports)) for ports in (first, second)]
    sent, answers, over = run(*between, sys.executable, "-c", PAIRS, here, there, *words).split()
    return int(sent), int(answers), over == "True"


def test_two_servers_do_not_reply_to_each_other_endlessly() -> None:
    with wire() as between, contextlib.ExitStack() as open_:
        others = [str(int(word) + 100) if word.isdigit() else word for word in SERVICES]
        serve = (*between.far, str(HOST), "serve", "--tied", "--port")
        servers = [
            started(open_, 5, *serve, "5201", *SERVICES),
            started(open_, 5, *serve, "5301", *others),
        ]
        one = [5201, ECHO, STAMP, IRTT, BOARD]
        other = [5301, *(port + 100 for port in one[1:])]
        # On one host no port of its own is answered at all.
        assert stormy(between.far, "127.0.0.1", "127.0.0.1", one, one)[1:] == (0, True)
        # Of two servers each answers what is a question, and never an answer to it.
        sent, answers, over = stormy(between.far, "127.0.0.1", "127.0.0.1", one, other)
        assert over
        assert 0 < answers <= 2 * sent
        assert all(server.poll() is None for server in servers)


KERNEL = 20_005


def test_servers_of_two_hosts_do_not_reply_endlessly_with_xdp() -> None:
    with wire() as between, contextlib.ExitStack() as open_:
        at = "127.0.0.1:9"
        others = [str(int(word) + 100) if word.isdigit() else word for word in SERVICES]
        for end, services, port, kernel in (
            (between.near, SERVICES, 5201, KERNEL),
            (between.far, others, 5301, KERNEL + 100),
        ):
            words = ["--port", str(port), *services, "--metrics", at]
            words += ["--xdp", DEVICE, "--xdp-port", str(kernel)]
            serve = [*end, str(HOST), "serve", "--tied", *words]
            child = started(open_, 0, *serve)
            assert child.stdout is not None
            if not child.stdout.readline():
                pytest.skip("this machine attaches no XDP program")

        def answers() -> list[int]:
            """Datagrams that both hosts sent, raw ones not included, and answers by the kernel."""
            count = (
                "names, values = (line.split()[1:] for line in open('/proc/net/snmp') "
                "if line.startswith('Udp:'))\n"
                "print(dict(zip(names, values))['OutDatagrams'])\n"
                "import urllib.request as u\n"
                f"text = u.urlopen('http://{at}/metrics').read().decode()\n"
                "print(text.split('\\nnarrows_serve_kernel_answers_total ')[1].split()[0])\n"
            )
            ends = (between.near, between.far)
            told = [run(*end, sys.executable, "-c", count).split() for end in ends]
            return [sum(int(n) for n in column) for column in zip(*told, strict=True)]

        first = [5201, ECHO, STAMP, IRTT, BOARD, KERNEL]
        second = [5301, *(port + 100 for port in first[1:])]
        for end, here, there, sources, targets in (
            (between.near, NEAR, FAR, first, second),
            (between.far, FAR, NEAR, second, first),
        ):
            before = answers()
            words = [",".join(map(str, ports)) for ports in (sources, targets)]
            out = run(*end, sys.executable, "-c", PAIRS, here, there, *words).split()
            assert out[2] == "True"
            counts = [answers()]

            def over(counts: list[list[int]] = counts) -> bool:
                counts.append(answers())
                return counts[-1] == counts[-2]

            assert until(over)
            sent, kernel = (now - then for now, then in zip(counts[-1], before, strict=True))
            # The kernel answers, and each datagram causes at most two answers.
            assert kernel > 0
            assert sent + kernel <= 2 * int(out[0])


def test_an_unvalidated_address_gets_no_more_than_it_sent() -> None:
    ports = {"echo": ECHO, "stamp": STAMP, "irtt": IRTT, "board": BOARD}
    with far_end(*SERVICES), contextlib.ExitStack() as open_:
        ask = open_.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        ask.bind(("127.0.0.1", 0))
        ask.settimeout(0.3)
        opening = bytes([0x14, 0xA7, 0x5B, 1, 1, 2])
        questions = {
            "echo": [os.urandom(n) for n in (1, 100, 1400)],
            "stamp": [bytes(44), bytes(200), bytes(43)],
            "irtt": [opening] * 12,
            "board": [b"NARP\x01t".ljust(n, b"\0") for n in (88, 500)],
        }
        sent = got = opened = 0
        for name, list_ in questions.items():
            for question in list_:
                ask.sendto(question, ("127.0.0.1", ports[name]))
                sent += len(question)
                with contextlib.suppress(TimeoutError):
                    answer = ask.recv(2000)
                    got += len(answer)
                    opened += name == "irtt"
                    assert len(answer) <= len(question) or name == "irtt"
                assert got <= sent
        assert opened > 0


def test_an_echo_sends_at_most_100_replies_per_second() -> None:
    with far_end(*SERVICES), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ask:
        ask.connect(("127.0.0.1", ECHO))
        ask.settimeout(0.5)
        begun, got = time.monotonic(), 0
        for n in range(1000):
            ask.send(b"x%d" % n)
        with contextlib.suppress(TimeoutError):
            while ask.recv(100):
                got += 1
        assert 5 < got <= 100 * (time.monotonic() - begun) + 12
        # The same bytes again within a second are an echo of an echo.
        time.sleep(0.1)
        seen = 0
        for _ in range(10):
            ask.send(b"again")
        with contextlib.suppress(TimeoutError):
            while ask.recv(100):
                seen += 1
        assert seen == 1


VANISH = f"""
import json, socket, struct, subprocess, sys
def frame(value):
    text = json.dumps(value).encode()
    return struct.pack(">I", len(text)) + text
control = socket.create_connection(({FAR!r}, 5201), timeout=10)
control.sendall({COOKIE!r})
assert control.recv(1) == b"\\x09"
params = {{"udp": True, "omit": 0, "time": 500, "parallel": 1, "len": 1200, "bandwidth": 5_000_000,
"reverse": True}}
control.sendall(frame(params))
assert control.recv(1) == b"\\x0a"
data = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
data.connect(({FAR!r}, 5201))
data.settimeout(10)
data.send(b"9876")
assert data.recv(10) == b"6789"
for _ in range(3 * 500):
    data.recv(2000)
print("flows", flush=True)
sys.stdin.read()
"""


def test_a_flood_ends_when_its_client_vanishes() -> None:
    with wire() as between, contextlib.ExitStack() as open_:
        near = json.loads(run(*between.near, "ip", "-j", "link", "show", DEVICE))[0]["address"]
        # Nobody in between says that the host is gone: what is sent to it leaves.
        run(*between.far, "ip", "neigh", "replace", NEAR, "lladdr", near, "dev", DEVICE)
        started(open_, 1, *between.far, str(HOST), "serve", "--tied")
        # Three seconds of it: a client that only listens is alive.
        started(open_, 1, *between.near, sys.executable, "-c", VANISH)
        run(*between.near, "ip", "addr", "flush", "dev", DEVICE)

        def sent() -> int:
            link = json.loads(run(*between.far, "ip", "-j", "-s", "link", "show", DEVICE))[0]
            return int(link["stats64"]["tx"]["packets"])

        before, begun = sent(), time.monotonic()

        def silent() -> bool:
            now = sent()
            time.sleep(0.5)
            # A probe each second is all that is left; the flood has 520 packets a second.
            return sent() - now < 20

        assert until(silent)
        assert sent() - before < 520 * (time.monotonic() - begun + 1)
