"""A QUIC server and a QUIC client of aioquic, as a pair of commands for `narrows conform`.

    python validation/quic_pair.py serve PORT CC
    python validation/quic_pair.py fetch HOST PORT SECONDS

The server sends zeros on each stream that the client opens, as fast as the congestion control `CC`
of aioquic (`reno` or `cubic`) permits. The client reads for SECONDS, and prints the duration of the
handshake and the number of received bytes. Both use IPv4. The server creates its certificate at its
start.
"""

from __future__ import annotations

import asyncio
import datetime
import socket
import ssl
import sys

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import QuicEvent, StreamDataReceived
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PROTOCOL = ["narrows"]
CHUNK = bytes(1 << 18)
WAITING_BYTES = 1 << 20
"""The server adds data to a stream while fewer bytes than these wait in aioquic's buffer."""
INTERVAL_S = 0.005


class Server(QuicConnectionProtocol):  # type: ignore[misc]
    """One connection of the server."""

    task: asyncio.Task[None] | None = None

    def quic_event_received(self, event: QuicEvent) -> None:
        """Starts to send when a stream arrives."""
        if isinstance(event, StreamDataReceived) and self.task is None:
            self.task = asyncio.get_running_loop().create_task(self.send(event.stream_id))

    async def send(self, stream: int) -> None:
        """Keeps the buffer of a stream filled."""
        while True:
            buffer = self._quic._streams[stream].sender
            while buffer._buffer_stop - buffer._buffer_start < WAITING_BYTES:
                self._quic.send_stream_data(stream, CHUNK)
            self.transmit()
            await asyncio.sleep(INTERVAL_S)


def certificate(configuration: QuicConfiguration) -> None:
    """Gives the configuration a certificate that the server signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "narrows")])
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    configuration.certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=36500))
        .sign(key, hashes.SHA256())
    )
    configuration.private_key = key


async def run_server(port: int, cc: str) -> None:
    """Serves for ever."""
    configuration = QuicConfiguration(
        is_client=False, alpn_protocols=PROTOCOL, congestion_control_algorithm=cc
    )
    certificate(configuration)
    await serve("0.0.0.0", port, configuration=configuration, create_protocol=Server)
    await asyncio.Event().wait()


class Client(QuicConnectionProtocol):  # type: ignore[misc]
    """The connection of the client.

    Attributes:
        received: Number of bytes that arrived on its streams.
    """

    received = 0

    def quic_event_received(self, event: QuicEvent) -> None:
        """Counts the bytes that arrive."""
        if isinstance(event, StreamDataReceived):
            self.received += len(event.data)


async def run_client(host: str, port: int, seconds: float) -> None:
    """Requests data and reads for `seconds`."""
    configuration = QuicConfiguration(
        is_client=True, alpn_protocols=PROTOCOL, verify_mode=ssl.CERT_NONE, server_name="narrows"
    )
    connection = QuicConnection(configuration=configuration)
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_datagram_endpoint(
        lambda: Client(connection), family=socket.AF_INET, local_addr=("0.0.0.0", 0)
    )
    begin = loop.time()
    protocol.connect((socket.gethostbyname(host), port))
    await protocol.wait_connected()
    handshake_ms = 1000 * (loop.time() - begin)
    connection.send_stream_data(connection.get_next_available_stream_id(), b"send")
    protocol.transmit()
    await asyncio.sleep(seconds)
    print(f"handshake {handshake_ms:.1f} ms, {protocol.received} bytes in {seconds:g} s")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(run_server(int(sys.argv[2]), sys.argv[3]))
    else:
        asyncio.run(run_client(sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
