"""Clients of the server that do not read, and broadcast and multicast requests."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import time
from pathlib import Path

from test_serve import HELLO, far_end
from test_serve_limits import SERVICES, connect, frame, received_frame, session, started, until
from wires import DEVICE, run, wire

from narrows.host.live import HOST


def ask(control: socket.socket, request: dict[str, object], expected: str) -> None:
    """A request, and its reply among samples."""
    control.sendall(frame(request))
    while received_frame(control)["is"] != expected:
        pass


def downloads(port: int, source: str, streams: int) -> tuple[socket.socket, list[socket.socket]]:
    """A session with streams that the server is about to send."""
    control, welcome = session(port, source)
    links = []
    for n in range(streams):
        ask(control, {"do": "open", "stream": n, "direction": "down"}, "open")
        link = connect(port, source)
        hello = b"NARR\x02d" + struct.pack(">H", n) + bytes.fromhex(str(welcome["cookie"]))
        link.sendall(hello.ljust(HELLO, b"\0"))
        assert received_frame(control)["is"] == "joined"
        links.append(link)
    return control, links


def start(control: socket.socket, streams: int) -> None:
    request = {"do": "start", "streams": list(range(streams)), "sample_ms": 1000}
    ask(control, request, "started")


def queues(port: int) -> tuple[int, int]:
    """Bytes in the kernel that the peers of the server at this port have not acknowledged, and
    that the server has not read.
    """
    rows = Path("/proc/net/tcp").read_text(encoding="utf-8").splitlines()[1:]
    own = [row.split()[4] for row in rows if row.split()[1].endswith(f":{port:04X}")]
    sent, came = ([int(part.split(":")[n], 16) for part in own] for n in (0, 1))
    return sum(sent), sum(came)


def received(link: socket.socket, seconds: float) -> int:
    got, end = 0, time.monotonic() + seconds
    link.settimeout(0.2)
    while time.monotonic() < end:
        with contextlib.suppress(TimeoutError):
            part = len(link.recv(1 << 16))
            got += part
            if part == 0:
                break
    return got


def closed(control: socket.socket) -> bool:
    with contextlib.suppress(BlockingIOError, ConnectionResetError):
        while control.recv(1 << 16, socket.MSG_DONTWAIT):
            pass
        return True
    return False


def test_slow_readers_do_not_block_the_memory_of_other_sessions() -> None:
    with far_end("--memory", "8MB") as (port, _), contextlib.ExitStack() as open_:
        readers = []
        for source in ("127.1.0.1", "127.2.0.1"):
            for _ in range(2):
                control, links = downloads(port, source, 8)
                for one in (control, *links):
                    open_.enter_context(one)
                start(control, 8)
                readers.append((control, links))
        # All of them have sent what they may, and all of the memory is in use.
        time.sleep(1)
        control, (load,) = downloads(port, "127.3.0.1", 1)
        with control, load:
            start(control, 1)
            assert received(load, 2) > 10_000_000

        # One of their streams makes progress, which does not keep their sessions.
        def over() -> bool:
            for _, links in readers:
                with contextlib.suppress(OSError):
                    links[0].recv(1 << 18, socket.MSG_DONTWAIT)
            return all(closed(control) for control, _ in readers)

        assert until(over, 40)
        assert until(lambda: queues(port)[0] == 0)


def test_data_for_a_send_only_stream_are_not_stored() -> None:
    with far_end() as (port, _):
        control, links = downloads(port, "127.0.0.1", 8)
        with control, contextlib.ExitStack() as open_:
            for link in links:
                open_.enter_context(link)
                link.setblocking(False)
            for _ in range(10):
                for link in links:
                    with contextlib.suppress(BlockingIOError):
                        while link.send(bytes(1 << 18)):
                            pass
                time.sleep(0.02)
            # One packet of loopback, of up to 64 KiB, is more than the limit of the kernel.
            assert queues(port)[1] < len(links) * 70_000
            # They still send.
            start(control, len(links))
            links[0].setblocking(True)
            assert received(links[0], 0.5) > 100_000


def test_unread_objects_leave_no_data_in_the_kernel() -> None:
    with far_end() as (port, _), contextlib.ExitStack() as open_:
        for last in ("", "Connection: close\r\n"):
            control, welcome = session(port)
            size = 200_000 if last else 8_000_000
            request = f"GET /{welcome['cookie']}/{size} HTTP/1.1\r\n{last}\r\n".encode()
            for _ in range(8):
                link = open_.enter_context(socket.socket())
                link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                link.connect(("127.0.0.1", port))
                link.sendall(request)
            assert until(lambda: queues(port)[0] > 8 * 50_000)
            if not last:
                # With their session they end at once.
                control.close()
            assert until(lambda: queues(port)[0] == 0, 8), last
            control.close()


QUESTIONS = f"""
import socket, struct, time
opening = bytes([0x14, 0xa7, 0x5b, 1, 1, 2])
questions = {{
    {SERVICES[1]}: [b"what is asked of all %d" % n for n in range(3)],
    {SERVICES[3]}: [bytes(44)] * 3,
    {SERVICES[5]}: [opening] * 12,
    {SERVICES[7]}: [b"NARP\\x01t".ljust(88, b"\\0")] * 3,
}}
def answers(family, address, source):
    got = 0
    for n, (port, each) in enumerate(questions.items()):
        with socket.socket(family, socket.SOCK_DGRAM) as ask:
            ask.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            ask.bind((source, 30_000 + n))
            ask.settimeout(0.3)
            for question in each:
                rest = (0, socket.if_nametoindex({DEVICE!r})) if family == socket.AF_INET6 else ()
                ask.sendto(question, (address, port, *rest))
                time.sleep(0.01)
            try:
                ask.recv(2000)
                got += 1
            except TimeoutError:
                pass
            time.sleep(0.2)
    return got
print(answers(socket.AF_INET, "198.51.100.2", "198.51.100.1"),
      answers(socket.AF_INET, "198.51.100.255", "198.51.100.1"),
      answers(socket.AF_INET6, "2001:db8:ffff::2", "2001:db8:ffff::1"),
      answers(socket.AF_INET6, "ff02::1", "2001:db8:ffff::1"))
"""


def test_broadcast_and_multicast_requests_get_no_reply() -> None:
    with wire() as between, contextlib.ExitStack() as open_:
        for words, address in (
            (between.near, "2001:db8:ffff::1"),
            (between.far, "2001:db8:ffff::2"),
        ):
            run(*words, "ip", "addr", "add", f"{address}/64", "dev", DEVICE, "nodad")
        run(*between.far, "ip", "addr", "change", "198.51.100.2/24", "brd", "+", "dev", DEVICE)
        run(*between.near, "ip", "addr", "change", "198.51.100.1/24", "brd", "+", "dev", DEVICE)
        started(open_, 5, *between.far, str(HOST), "serve", "--tied", *SERVICES)
        seen = run(*between.near, sys.executable, "-c", QUESTIONS).split()
        # One at a time they are answered, of both families, and never those to all.
        assert seen == ["4", "0", "4", "0"]
