"""Sends and receives cross traffic between the two ends of an emulated path: UDP at a constant
rate, or bulk TCP.

    python -m validation.cross far             receives until it is stopped
    python -m validation.cross near udp MBIT   sends paced datagrams of 1400 bytes
    python -m validation.cross near tcp FLOWS sends bulk data over this number of connections

MBIT is the rate of whole frames, in Mbit/s.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time

PORT = 7777
PAYLOAD, FRAME = 1400, 1442
LONGEST_S = 120.0
"""Maximum time for which data is sent, in s."""


def far() -> None:
    """Receives data and discards it."""
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("", PORT))
    with socket.create_server(("", PORT)) as door:
        threading.Thread(target=_each, args=(door,), daemon=True).start()
        while True:
            datagrams.recv(2048)


def _each(door: socket.socket) -> None:
    while True:
        one, _ = door.accept()
        threading.Thread(target=_drain, args=(one,), daemon=True).start()


def _drain(one: socket.socket) -> None:
    while one.recv(1 << 16):
        pass


def udp(mbit: float) -> None:
    """Sends datagrams at a constant rate."""
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    begin = due = time.monotonic()
    while due < begin + LONGEST_S:
        with contextlib.suppress(OSError):
            out.sendto(bytes(PAYLOAD), ("far", PORT))
        due += FRAME * 8e-6 / mbit
        time.sleep(max(0.0, due - time.monotonic()))


def tcp() -> None:
    """Sends as much data as one TCP connection can carry."""
    end = time.monotonic() + LONGEST_S
    while time.monotonic() < end:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("far", PORT), timeout=5) as out,
        ):
            while time.monotonic() < end:
                out.sendall(bytes(1 << 16))
        time.sleep(0.1)


def main(words: list[str]) -> None:
    """Runs the end that the arguments name."""
    if words[:1] == ["far"]:
        far()
    elif words[1] == "udp":
        udp(float(words[2]))
    else:
        flows = [threading.Thread(target=tcp, daemon=True) for _ in range(int(words[2]))]
        for flow in flows:
            flow.start()
        for flow in flows:
            flow.join()


if __name__ == "__main__":
    main(sys.argv[1:])
