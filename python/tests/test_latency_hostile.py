"""Invalid requests and replies of timed protocols: wrong, truncated, and too many."""

from __future__ import annotations

import random
import socket
import struct
import subprocess
from pathlib import Path

from test_latency import echo, known_components, measure_latency
from test_serve import free_port, low_port

from narrows.host.live import HOST

STAMP = struct.pack(">IQHH28x", 1, 0, 0x0101, 7)
TIMED = b"NARP\x01t" + bytes(82)
IRTT = bytes.fromhex("14a75b")


def tlv(kind: int, length: int, value: bytes, flags: int = 0x80) -> bytes:
    return struct.pack(">BBH", flags, kind, length) + value


def hostile(rng: random.Random) -> list[bytes]:
    """One of each kind."""
    noise = rng.randbytes(rng.randrange(200))
    session = struct.pack(
        ">IQHH28x", rng.getrandbits(32), rng.getrandbits(64), 1, rng.getrandbits(16)
    )
    return [
        noise,
        # TLVs that end too early, say too much, nothing, or are half a head; a class of service
        # with no room for it.
        STAMP + tlv(4, 4, b"\x2e"),
        STAMP + tlv(7, 65535, noise),
        STAMP + tlv(4, 0, b"") * 300,
        STAMP + tlv(rng.getrandbits(8), rng.getrandbits(5), noise) + b"\x80\x07",
        # Sessions by the thousand.
        session + tlv(7, 16, bytes(16)),
        TIMED[:8] + rng.randbytes(80),
        # irtt: an HMAC without a key, a token that the server did not issue, opens, and closes
        # without a session.
        IRTT + b"\x08" + rng.randbytes(60),
        IRTT + b"\x00" + rng.randbytes(60),
        IRTT + b"\x01" + rng.randbytes(20),
        IRTT + b"\x01" + bytes.fromhex("0101020280c2d72f0380dac409050606060706"),
        IRTT + b"\x04" + rng.randbytes(8),
    ]


def resident_kb(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def test_invalid_datagrams_use_no_memory_and_other_clients_get_replies() -> None:
    rng = random.Random(4)
    kinds = ("echo", "stamp", "irtt", "board")
    ports = {kind: low_port() if kind == "echo" else free_port() for kind in kinds}
    words = [word for kind, port in ports.items() for word in (f"--{kind}", str(port))]
    command = [HOST, "serve", "--bind", "127.0.0.1", "--port", "0", "--tied", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        for _ in range(1 + len(kinds)):
            server.stdout.readline()
        try:
            sizes = []
            for _ in range(3):
                for _ in range(20):
                    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                        for _ in range(12):
                            for datagram in hostile(rng):
                                for port in ports.values():
                                    stranger.sendto(datagram, ("127.0.0.1", port))
                for kind, port in ports.items():
                    told = measure_latency(port, "--speaks", kind, "--count", 30)
                    assert (told["answered"], told["mismatches"]) == (30, 0), kind
                sizes.append(resident_kb(server.pid))
            assert server.poll() is None
        finally:
            server.kill()
    # A thousand clients are remembered from the first round on.
    assert sizes[-1] < sizes[0] + 1024, sizes


def test_forged_and_truncated_replies_are_not_counted_as_replies() -> None:
    rng = random.Random(5)

    def liar(n: int, question: bytes) -> list[bytes]:
        """The correct reply to every request, among forged, outdated and truncated ones."""
        answer = bytearray(question)
        answer[5:6] = b"s"
        others = bytes(answer[:8]) + rng.randbytes(16) + bytes(answer[24:])
        long_ago = (
            bytes(answer[:24]) + struct.pack(">I", (n - 20_000) & 0xFFFFFFFF) + bytes(answer[28:])
        )
        forged = bytes(answer[:28]) + bytes(8) + bytes(answer[36:])
        return [
            others,
            long_ago,
            forged,
            bytes(answer[:40]),
            rng.randbytes(90),
            b"",
            question,
            bytes(answer),
        ]

    with echo(liar) as port:
        told = measure_latency(port, "--speaks", "board", "--count", 200, "--interval", "2ms")
    assert (told["sent"], told["answered"], told["lost"], told["duplicates"]) == (200, 200, 0, 0)
    # The forged time is a wrong answer, and so may be what is cut; the rest is not for this client.
    assert told["mismatches"] + told["foreign"] == 7 * 220
    assert told["mismatches"] >= 220
    assert {"client_application", "client_kernel"} <= known_components(told)


def test_stamp_replies_with_invalid_tlvs_or_length_do_no_harm() -> None:
    rng = random.Random(6)

    def reflector(_n: int, question: bytes) -> list[bytes]:
        sequence, sent, error, session = struct.unpack_from(">IQHH", question)
        base = struct.pack(
            ">IQHHQIQHHB3x", sequence, sent, 0x0101, session, sent, sequence, sent, error, 0, 64
        )
        rest = len(question) - len(base)
        lies = (tlv(7, 65535, b"") + tlv(4, 0, b"") * 40 + rng.randbytes(rest))[:rest]
        return [base[:43], base + lies[:5], base + lies]

    with echo(reflector) as port:
        told = measure_latency(
            port, "--speaks", "stamp", "--count", 200, "--interval", "2ms", "--size", "200B"
        )
    assert told["sent"] == 200
    assert told["answered"] + told["lost"] == 200
    assert told["far_count"] is None or told["far_count"] <= 2**32
