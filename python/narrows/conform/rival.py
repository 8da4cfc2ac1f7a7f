"""A TCP flow of Linux beside a pair of commands. Python runs this file alone, on a host.

`rival.py send PORT CC` accepts a connection at PORT and sends zeros with the congestion control CC.
`rival.py receive HOST PORT SECONDS` connects and reads for this time.
"""

from __future__ import annotations

import socket
import sys
import time

CHUNK = bytes(1 << 16)
ATTEMPTS = 50


def send(port: int, cc: str) -> None:
    """Sends until the receiver closes the connection."""
    with socket.create_server(("0.0.0.0", port)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
        connection, _ = listener.accept()
    with connection:
        try:
            while True:
                connection.sendall(CHUNK)
        except OSError:
            return


def receive(host: str, port: int, seconds: float) -> None:
    """Reads for `seconds`."""
    for attempt in range(ATTEMPTS):
        try:
            connection = socket.create_connection((host, port), timeout=seconds)
            break
        except OSError:
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(0.1)
    end = time.monotonic() + seconds
    with connection:
        while time.monotonic() < end and connection.recv(1 << 18):
            pass


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(int(sys.argv[2]), sys.argv[3])
    else:
        receive(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
