"""Measures reference RTTs by ICMP echoes with kernel timestamps of departure and arrival.

    python -m validation.echo HOST [COUNT]    RTTs in ms, as JSON; needs a raw socket

The kernel of the far host replies. No program is involved between departure and arrival, so the RTT
is that of the path. The departure is the time at which the network device gets the request
(`SOF_TIMESTAMPING_TX_SOFTWARE`, Documentation/networking/timestamping.rst).
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time
from collections.abc import Sequence

PAYLOAD = 64
FRAME_BYTES = 14 + 20 + 8 + PAYLOAD
"""Frame size, in bytes; the same as that of a ping of `narrows measure`."""

EVERY_S, WAIT_S = 0.01, 1.0

SO_TIMESTAMPING = 37
TX_SOFTWARE, RX_SOFTWARE, SOFTWARE, OPT_ID, OPT_TSONLY = 1 << 1, 1 << 3, 1 << 4, 1 << 7, 1 << 11
OURS = 0x6E77


def _sum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def _request(at: int) -> bytes:
    body = bytes(PAYLOAD)
    empty = struct.pack("!BBHHH", 8, 0, 0, OURS, at) + body
    return struct.pack("!BBHHH", 8, 0, _sum(empty), OURS, at) + body


def _stamp(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPING:
            s, ns = struct.unpack_from("qq", data)
            stamp: int = s * 10**9 + ns
            return stamp
    return None


def echoes(host: str, count: int) -> list[float]:
    """RTTs of the echoes with a reply and timestamps, in ms."""
    left: dict[int, int] = {}
    came: dict[int, int] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as near:
        flags = TX_SOFTWARE | RX_SOFTWARE | SOFTWARE | OPT_TSONLY | OPT_ID
        near.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, flags)
        near.connect((host, 0))
        near.setblocking(False)
        poll = select.poll()
        poll.register(near, select.POLLIN)
        begin = time.monotonic()
        for at in range(count):
            near.send(_request(at))
            until = begin + (at + 1) * EVERY_S if at + 1 < count else time.monotonic() + WAIT_S
            while (left_s := until - time.monotonic()) > 0 and (
                at + 1 < count or len(came) < count
            ):
                for _, events in poll.poll(1000 * left_s):
                    if events & select.POLLERR:
                        _, told, _, _ = near.recvmsg(256, 512, socket.MSG_ERRQUEUE)
                        numbers = [d for level, _, d in told if level == socket.SOL_IP]
                        stamp = _stamp(told)
                        if stamp is not None and numbers:
                            left[struct.unpack_from("I", numbers[0], 12)[0]] = stamp
                    if events & select.POLLIN:
                        data, told, _, _ = near.recvmsg(2048, 512)
                        stamp = _stamp(told)
                        kind, _, _, number, which = struct.unpack_from("!BBHHH", data, 20)
                        if kind == 0 and number == OURS and stamp is not None:
                            came[which] = stamp
    return [(came[at] - left[at]) / 1e6 for at in sorted(came) if at in left]


def main(arguments: Sequence[str] | None = None) -> int:
    """Sends the echoes and prints the RTTs."""
    host, *count = sys.argv[1:] if arguments is None else arguments
    print(json.dumps([round(ms, 4) for ms in echoes(host, int(count[0]) if count else 200)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
