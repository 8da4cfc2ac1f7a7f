"""Response times: every protocol over loopback, misbehaving servers, other tools, and attribution.

irtt (Debian's `irtt`) and tshark are references; a test is skipped if its tool is not installed.
Times are checked in order of magnitude only, because the machine may be busy.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import BEGUN, Cli, until
from test_serve import free_port, low_port

from narrows.host.live import HOST
from narrows.latency import render, result

FILL = 0x6E
FIVE = ["client_application", "client_kernel", "wire", "server_kernel", "server_application"]


@contextlib.contextmanager
def answering(*options: str) -> Iterator[dict[str, int]]:
    """A server on loopback, and its ports by protocol."""
    command = [str(HOST), "serve", "--bind", "127.0.0.1", "--port", "0", "--tied", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            ports = {}
            for _ in range(
                1 + sum(option in {"--echo", "--stamp", "--irtt", "--board"} for option in options)
            ):
                what, at = child.stdout.readline().split(" at ")
                ports[what] = int(at.rsplit(":", 1)[1])
            yield ports
        finally:
            child.send_signal(signal.SIGINT)
            child.wait(10)


def measure_latency(port: int, *words: str | int) -> dict[str, Any]:
    command = [HOST, "latency", "127.0.0.1", "--port", str(port), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def known_components(told: dict[str, Any]) -> set[str]:
    return {name for name, part in told["parts_us"].items() if part}


def test_each_protocol_reports_the_delay_components_it_can_measure() -> None:
    every = ("--echo", str(low_port()), "--stamp", "0", "--irtt", "0", "--board", "0")
    parts = {
        "serving": ("narrows", FIVE),
        "board": ("board", FIVE),
        "echo": ("echo", ["client_application", "client_kernel", "beyond"]),
        "stamp": ("stamp", ["client_application", "client_kernel", "wire", "server"]),
        "irtt": ("irtt", ["client_application", "client_kernel", "server_application", "beyond"]),
    }
    with answering(*every) as ports:
        assert set(ports) == set(parts)
        for answers, (speaks, told_apart) in parts.items():
            for pace in ("even", "pingpong"):
                told = measure_latency(
                    ports[answers], "--speaks", speaks, "--count", 300, "--pace", pace
                )
                counted = [
                    told[key]
                    for key in ("sent", "answered", "lost", "duplicates", "mismatches", "foreign")
                ]
                assert counted == [300, 300, 0, 0, 0, 0], (speaks, told)
                assert told["contradicted"] == 0
                assert known_components(told) == set(told_apart), speaks
                # The means of the components add up to the mean response time.
                whole = sum(told["parts_us"][part]["mean"] for part in told_apart)
                assert whole == pytest.approx(told["response_us"]["mean"], rel=0.02, abs=2), speaks
                assert told["rtt_us"]["p50"] is not None
                # Some protocols need more than the requested size.
                assert told["size_bytes"] == {"narrows": 88, "board": 88, "stamp": 72}.get(
                    speaks, 64
                )
                assert told["rtt_us"]["p99"] is None
        told = measure_latency(ports["serving"], "--count", 200, "--size", "1200B", "--dscp", "EF")
        assert told["peer"]["told"]["thread"] is True
        assert told["class"] == {"there": 46 << 2, "back": 46 << 2}
        assert told["size_bytes"] == 1200


def test_without_timestamps_the_kernel_has_no_part_and_a_closed_port_is_an_error() -> None:
    with answering("--echo", str(low_port())) as ports:
        told = measure_latency(ports["echo"], "--speaks", "echo", "--count", 200, "--no-stamps")
        assert known_components(told) == {"client_application", "beyond"}
    command = [
        HOST,
        "latency",
        "127.0.0.1",
        "--speaks",
        "echo",
        "--port",
        str(free_port()),
        "--count",
        "3",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "narrows serve --echo" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_duration_above_the_limit_of_the_server_is_an_error() -> None:
    with answering("--duration", "5s") as ports:
        command = [
            HOST,
            "latency",
            "127.0.0.1",
            "--port",
            str(ports["serving"]),
            "--duration",
            "10s",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "--duration 5s" in done.stderr


Misbehaves = Callable[[int, bytes], list[bytes]]


@contextlib.contextmanager
def echo(answers: Misbehaves) -> Iterator[int]:
    """An echo server whose reply to the n-th request is a function."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(0.1)
        stop = threading.Event()

        def serve() -> None:
            n = 0
            while not stop.is_set():
                try:
                    question, client = server.recvfrom(70_000)
                except TimeoutError:
                    continue
                for answer in answers(n, question):
                    server.sendto(answer, client)
                n += 1

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            stop.set()
            thread.join()


def test_duplicate_late_wrong_and_lost_replies_are_counted() -> None:
    held: list[bytes] = []

    def odd(n: int, question: bytes) -> list[bytes]:
        # The first twenty are not counted.
        match (n - 20) % 50 if n >= 20 else -1:
            case 10:
                return [question, question]
            case 20:
                held.append(question)
                return []
            case 22:
                return [question, held.pop()]
            case 30:
                return [question[:-1] + b"!"]
            case 40:
                return []
        return [question]

    with echo(odd) as port:
        told = measure_latency(port, "--speaks", "echo", "--count", 200, "--timeout", "300ms")
    seen = {
        key: told[key]
        for key in ("sent", "answered", "lost", "duplicates", "reordered", "mismatches")
    }
    assert seen == {
        "sent": 200,
        "answered": 192,
        "lost": 4,
        "duplicates": 4,
        "reordered": 4,
        "mismatches": 4,
    }
    assert told["corrupted"] == 4
    first = render.sentences(told)[0]
    assert first.startswith("The response time was ")
    assert "Of 200 requests, 4 were unanswered and 4 were answered with wrong content." in first


def test_a_reply_is_never_longer_than_its_request() -> None:
    with answering(
        "--echo", str(low_port()), "--stamp", "0", "--irtt", "0", "--board", "0"
    ) as ports:
        timed = b"NARP\x01t" + bytes(82)
        opens = bytes.fromhex("14a75b0101020280c2d72f0380dac409050606060706")
        questions = [
            b"",
            b"x",
            bytes(14),
            bytes(43),
            bytes(44),
            bytes(1400),
            timed,
            timed[:87],
            timed + bytes(100),
        ]
        for answers, port in ports.items():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.connect(("127.0.0.1", port))
                for question in [*questions, opens]:
                    client.settimeout(0.15)
                    client.send(question)
                    with contextlib.suppress(TimeoutError):
                        answer = client.recv(70_000)
                        # irtt's answer to an open has the token besides.
                        more = 8 if answers == "irtt" and question == opens else 0
                        assert len(answer) <= len(question) + more, (answers, question)
                        # A client without a session gets no reply from the server's own port.
                        assert answers != "serving"


def stamp_reflector(server: socket.socket, stop: threading.Event) -> None:
    """RFC 8762, section 4.3, with the class of service and follow-up telemetry of RFC 8972, from
    their text alone.
    """
    server.settimeout(0.1)
    era, own, last = 2_208_988_800, 0, (0, 0)

    def ntp() -> int:
        ns = time.time_ns()
        return (ns // 10**9 + era) << 32 | (ns % 10**9 << 32) // 10**9

    while not stop.is_set():
        try:
            packet, client = server.recvfrom(9000)
        except TimeoutError:
            continue
        received = ntp()
        sequence, sent, error, session = struct.unpack_from(">IQHH", packet)
        tlvs, at = b"", 44
        while at < len(packet):
            kind, length = packet[at + 1], int.from_bytes(packet[at + 2 : at + 4], "big")
            assert packet[at] == 0x80, "a sender sets the U flag of every TLV"
            value = packet[at + 4 : at + 4 + length]
            assert len(value) == length
            if kind == 4:  # DSCP1, DSCP2, ECN, RP, reserved
                value = struct.pack(">HH", value[0] >> 2 << 10 | 46 << 4, 0)
            elif kind == 7:
                value = struct.pack(">IQB3x", *last, 2 if last[1] else 0)
            tlvs += bytes([0, kind]) + packet[at + 2 : at + 4] + value
            at += 4 + length
        answered = ntp()
        head = struct.pack(">IQHH", own, answered, 0x0101, session)
        base = head + struct.pack(">QIQHHB3x", received, sequence, sent, error, 0, 64)
        assert len(base) == 44
        last = (own, ntp())
        server.sendto(base + tlvs, client)
        own += 1


def test_a_stamp_reflector_made_from_the_rfc_is_understood() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        stop = threading.Event()
        thread = threading.Thread(target=stamp_reflector, args=(server, stop))
        thread.start()
        try:
            told = measure_latency(
                server.getsockname()[1], "--speaks", "stamp", "--count", 300, "--size", "200B"
            )
        finally:
            stop.set()
            thread.join()
    assert (told["answered"], told["mismatches"], told["contradicted"]) == (300, 0, 0)
    assert told["class"]["there"] >> 2 == 46
    assert known_components(told) == {"client_application", "client_kernel", "wire", "server"}
    assert told["far_count"] == 320


def pcap(packets: list[tuple[int, int, bytes]], file: Path) -> None:
    """Datagrams, by their ports, as a capture of raw IP."""
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
    for source, target, payload in packets:
        udp = struct.pack(">HHHH", source, target, 8 + len(payload), 0) + payload
        ip = (
            struct.pack(
                ">BBHIBBH4s4s", 0x45, 0, 20 + len(udp), 0, 64, 17, 0, b"\x7f\0\0\1", b"\x7f\0\0\1"
            )
            + udp
        )
        out += struct.pack("<IIII", 0, 0, len(ip), len(ip)) + ip
    file.write_bytes(out)


def test_tshark_reads_our_stamp(tmp_path: Path) -> None:
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    packets: list[tuple[int, int, bytes]] = []
    with (
        answering("--stamp", "0") as ports,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tap,
    ):
        reflector = ports["stamp"]
        tap.connect(("127.0.0.1", reflector))

        def through(_n: int, question: bytes) -> list[bytes]:
            tap.send(question)
            tap.settimeout(2)
            answer = tap.recv(9000)
            packets.extend([(50_000, 862, question), (862, 50_000, answer)])
            return [answer]

        with echo(through) as port:
            told = measure_latency(
                port, "--speaks", "stamp", "--count", 20, "--size", "120B", "--dscp", "AF41"
            )
    assert told["answered"] == 20
    pcap(packets, tmp_path / "stamp.pcap")
    fields = [
        "twamp.test.seq_number",
        "twamp.test.sender_seq_number",
        "twamp.test.error_estimate.multiplier",
    ]
    command = [
        "tshark",
        "-r",
        str(tmp_path / "stamp.pcap"),
        "-d",
        "udp.port==862,twamp.test",
        "-T",
        "fields",
    ]
    done = subprocess.run(
        [*command, *(w for f in fields for w in ("-e", f))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows[::2]] == [str(n) for n in range(40)], done.stdout
    assert [row[1] for row in rows[1::2]] == [str(n) for n in range(40)]
    assert {row[2].split(",")[0] for row in rows} == {"1"}
    # No malformed packet, nothing that it does not understand.
    done = subprocess.run(
        [*command[:5], "-Y", "_ws.malformed"], capture_output=True, text=True, check=False
    )
    assert done.stdout == ""


def irtt() -> str:
    found = shutil.which("irtt")
    if found is None:
        pytest.skip("irtt is not installed")
    return found


def test_an_irtt_client_gets_replies() -> None:
    words = ["-d", "300ms", "-i", "10ms", "-l", "100", "--fill=rand", "-o", "-", "-Q"]
    with answering("--irtt", "0") as ports:
        command = [irtt(), "client", *words, f"127.0.0.1:{ports['irtt']}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    # Those whose time its own timer has missed it leaves out; of those that it sent none may be
    # missing.
    sent = told["stats"]["packets_sent"]
    assert 20 <= sent <= 30
    assert (
        told["stats"]["packets_received"]
        == told["stats"]["server_packets_received"]
        == len(told["round_trips"])
        == sent
    )
    for trip in told["round_trips"]:
        assert trip["lost"] == "false"
        server = trip["timestamps"]["server"]
        assert 0 <= server["send"]["monotonic"] - server["receive"]["monotonic"] < 10**9
        assert abs(server["send"]["wall"] - trip["timestamps"]["client"]["send"]["wall"]) < 10**9


def test_an_irtt_server_is_measured() -> None:
    port = free_port()
    with subprocess.Popen(
        [irtt(), "server", "-b", f"127.0.0.1:{port}", "-i", "0"], stdout=subprocess.DEVNULL
    ) as far:
        try:
            told = measure_latency(
                port, "--speaks", "irtt", "--count", 200, "--interval", "2ms", "--size", "300B"
            )
        finally:
            far.terminate()
    assert (told["answered"], told["mismatches"], told["size_bytes"]) == (200, 0, 300)
    assert told["parts_us"]["server_application"]["n"] == 200
    assert told["far_count"] == 220


def test_the_command_prints_and_writes_the_result(cli: Cli, tmp_path: Path) -> None:
    with answering() as ports:
        done = cli(
            "latency", "127.0.0.1", "--port", ports["serving"], "--count", 1500, "--interval",
            "200us",
            "--out", "a.json", "--hlog", "a.hlog", "--report", "a.html", "--plot", "a.png",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    assert re.match(
        r"The response time was \S+ .s \(median; p99 \S+ .s, max \S+ .s\)\. "
        r"All 1,500 requests were answered\. p99\.9 needs 10,000 replies\.$",
        first,
    )
    assert re.match(r"The RTT was \S+ .s \(median; p99 ", rest[0])
    assert any(line.startswith("Median delay of each component: ") for line in rest)
    told = result.read(tmp_path / "a.json")
    assert told["rtt_us"]["n"] == sum(count for _, count in told["rtt_us"]["histogram_ns"]) == 1500
    assert (tmp_path / "a.png").stat().st_size > 10_000
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert first in page.replace("\\u00a0", " ")
    # HdrHistogram's V2 encoding: a header of seven fields, then the counts, whose sum is all of
    # them.
    packed = base64.b64decode(
        (tmp_path / "a.hlog").read_text(encoding="utf-8").splitlines()[-1].rsplit(",", 1)[1]
    )
    payload = zlib.decompress(packed[8:])[40:]
    assert sum(n for n in varints(payload) if n > 0) == 1500


def varints(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value >> 1 ^ -(value & 1)
            value = shift = 0


def test_invalid_arguments_are_errors_with_a_remedy(cli: Cli) -> None:
    for words, fix in (
        (["--interval", "10"], "write --interval"),
        (["--size", "100kB"], "65507B or less"),
        (["--policy", "fast"], "default"),
        (["--stall", "4ms"], "4ms@100ms"),
        (["--duration", "10us"], "write --duration 1s"),
        (["--out", "nowhere/a.json"], "nowhere/a.json: there is no directory"),
    ):
        done = cli("latency", "127.0.0.1", *words)
        assert done.returncode == 2, words
        assert fix in done.stderr, done.stderr
        assert "Traceback" not in done.stderr


def test_a_stall_of_the_client_is_one_episode_and_in_the_headline() -> None:
    # The client stands still for 100 ms: its questions leave late, and what is late is in the
    # headline.
    with answering() as ports:
        told = measure_latency(
            ports["serving"], "--duration", "1s", "--slow", "20ms", "--stall", "100ms@700ms"
        )
    assert told["sent"] + told["skipped"] + told["unsent"] == 1000
    assert told["response_us"]["max"] > 90_000
    assert told["slow"]["episodes"]["count"] < told["slow"]["count"] / 10
    worst = max(told["slow"]["episodes"]["kept"], key=lambda one: one["response_us"])
    assert worst["blamed"] == "client_application"
    assert worst["lasted_us"] >= worst["response_us"] > 90_000
    assert worst["answers"] > 50
    said = render.sentences(told)
    assert f"max {render.span(told['response_us']['max'])})" in said[0]
    listed = "The table lists the 12 episodes with the longest response times."
    assert (listed in " ".join(render.sentences(told))) == (told["slow"]["episodes"]["count"] > 12)
    table = render.episodes(told)
    assert len(table.rows) <= told["slow"]["episodes"]["count"]
    assert render.figures(told).numbers[:5] == ("min µs", "mean µs", "p50 µs", "p90 µs", "p99 µs")
    assert not any(name.startswith("p99.99") for name in render.figures(told).numbers)


def test_the_default_duration_suffices_for_the_percentiles_of_the_headline() -> None:
    with answering("--echo", str(low_port())) as ports:
        told = measure_latency(ports["echo"], "--speaks", "echo")
    assert told["sent"] + told["skipped"] + told["unsent"] == 11_000
    if told["answered"] < 10_000:
        pytest.skip("this machine stood still for a second")
    assert told["response_us"]["p99_9"] is not None
    assert " needs " not in render.sentences(told)[0]


def test_a_measurement_continues_after_a_restart_of_the_server() -> None:
    port = free_port()
    command = [str(HOST), "serve", "--bind", "127.0.0.1", "--port", str(port), "--tied"]

    def serve() -> subprocess.Popen[str]:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline()
        return child

    first = serve()
    asks = [
        str(HOST),
        "latency",
        "127.0.0.1",
        "--port",
        str(port),
        "--stream",
        "--interval",
        "10ms",
    ]
    with subprocess.Popen(asks, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None

        def until(answered: int) -> None:
            for line in client.stdout or ():
                match line.split():
                    case ["live", many, *_] if int(many) >= answered:
                        return

        until(20)
        first.kill()
        first.communicate()
        second = serve()
        try:
            # They cannot be the first one's: it had a second's worth at most.
            until(300)
            client.send_signal(signal.SIGINT)
            out, _ = client.communicate(timeout=30)
        finally:
            second.kill()
            second.communicate()
    told = json.loads(out.splitlines()[-1])
    assert told["reconnections"] == 1
    assert told["answered"] >= 300
    assert any("narrows opened a new one once" in said for said in render.sentences(told))


def test_a_server_that_stops_replying_is_reported() -> None:
    with echo(lambda n, question: [question] if n < 520 else []) as port:
        told = measure_latency(port, "--speaks", "echo", "--count", 2500, "--timeout", "100ms")
    assert (told["answered"], told["lost"]) == (500, 2000)
    assert any(said.startswith("The host stopped replying 0.") for said in render.sentences(told))


def test_ctrl_c_keeps_the_results(tmp_path: Path) -> None:
    with answering() as ports:
        for words in ([], ["--policy", "default,lock", "--rounds", "60"]):
            files = [tmp_path / f"{len(words)}.{end}" for end in ("json", "hlog", "html", "svg")]
            wanted = [w for option, file in zip(("--out", "--hlog", "--report", "--plot"), files,
            strict=True)
                      for w in (option, str(file))]  # fmt: skip
            begun = tmp_path / f"{len(words)}.begun"
            asked_for = [
                "latency",
                "127.0.0.1",
                "--port",
                str(ports["serving"]),
                "--duration",
                "60s",
                *words,
                *wanted,
            ]
            command = [sys.executable, "-c", BEGUN, str(begun), *asked_for]
            with subprocess.Popen(
                command, cwd=tmp_path, stdout=subprocess.PIPE, text=True
            ) as child:
                until(begun.exists, child)
                child.send_signal(signal.SIGINT)
                out, _ = child.communicate(timeout=30)
            assert child.returncode == 130
            assert "The measurement was stopped " in out
            assert all(file.stat().st_size > 500 for file in files)
            told = json.loads(files[0].read_text(encoding="utf-8"))
            assert told["interrupted"] is True
            one = told["setups"][0]["latency"] if words else told
            assert one["lost"] == 0
            assert 100 < one["answered"] == one["sent"] == one["rtt_us"]["n"] < 10_000


def test_a_stall_is_attributed_to_its_cause() -> None:
    attribution = pytest.importorskip("validation.latency_attribution")
    if missing := attribution.missing_requirements():
        pytest.skip(missing)
    with attribution.hosts() as pids:
        found = []
        if attribution.machine_is_idle(pids, 20):
            found = [attribution.trial(pids, place, trials=20) for place in attribution.PLACES]
        # Most attributions must be right here; validation/latency_attribution.py requires 95 %.
        wrong = [each for each in found if each["blamed"].get(each["right"], 0) <= 12]
        # Another program may have stalled the machine meanwhile, so a failure needs a longer check.
        if not found or not attribution.machine_is_idle(pids, 100 if wrong else 20):
            pytest.skip("the machine has stalls of its own")
    assert not wrong


def test_percentiles_agree_with_those_of_packets_in_the_kernel() -> None:
    tools = pytest.importorskip("validation.latency_tools")
    referee = pytest.importorskip("validation.latency_referee")
    if missing := referee.missing_requirements():
        pytest.skip(missing)
    with (
        tools.two_hosts() as (near, far),
        referee.Referee(tools.NEAR_DEVICE, tools.SIZE).ready() as watcher,
    ):
        command = [*far, HOST, "serve", "--tied", "--echo", str(tools.OURS_PORT)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            server.stdout.readline()
            server.stdout.readline()
            try:
                turn = tools.narrows_latency(near, *tools.ECHO, "--count", "500")(watcher)
            finally:
                server.kill()
    assert len(turn.saw) == turn.told.total() == 500
    assert all(
        tools.agree(turn.quantile(name), turn.seen(name), tools.OWN_US) for name in ("p50", "p90")
    )
