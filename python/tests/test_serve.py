"""The server and the client over real sockets: loopback, and an emulated path for rates.

iperf3 (Debian's `iperf3`) is the reference, as client and as server; tests that need it are skipped
if it is not installed.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import NARROWS
from test_live import ready

from narrows.host.live import HOST

HELLO = 37


@contextlib.contextmanager
def far_end(*options: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A server on loopback, and its port."""
    command = [str(HOST), "serve", "--bind", "127.0.0.1", "--port", "0", "--tied", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            yield int(child.stdout.readline().rsplit(":", 1)[1]), child
        finally:
            child.send_signal(signal.SIGINT)
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                raise


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def low_port() -> int:
    """A UDP port below those that the kernel gives to clients, as an echo should have."""
    for port in range(20_100, 32_000, 7):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as at, contextlib.suppress(OSError):
            at.bind(("127.0.0.1", port))
            return port
    pytest.fail("no UDP port is free")


def listening(port: int) -> None:
    """Waits until something listens there, without connecting: an iperf3 server takes whoever comes
    for a client.
    """
    end = time.monotonic() + 20
    while time.monotonic() < end:
        rows = [
            row
            for name in ("tcp", "tcp6")
            for row in Path(f"/proc/net/{name}").read_text("utf-8").splitlines()
        ]
        fields = [row.split() for row in rows[1:]]
        # The local address, and the state LISTEN.
        if any(
            row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in fields if len(row) > 3
        ):
            return
        time.sleep(0.02)
    pytest.fail(f"nobody listens at port {port}")


def iperf3(*words: str | int, seconds: float = 30) -> dict[str, Any]:
    """The JSON output of an iperf3 client."""
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed")
    done = subprocess.run(
        ["iperf3", "-J", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    return dict(json.loads(done.stdout))


def measure(port: int, *words: str, host: str = "127.0.0.1") -> dict[str, Any]:
    command = [HOST, "measure", host, "--port", str(port), "--idle", "200ms", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def counters(at: int) -> dict[str, int]:
    with urllib.request.urlopen(f"http://127.0.0.1:{at}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.split() for line in lines if not line.startswith("#"))
    return {name.removeprefix("narrows_serve_"): int(value) for name, value in pairs}


def memory_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


def test_an_iperf3_client_is_served_in_every_mode() -> None:
    with far_end() as (port, _):
        for way in ([], ["-R"], ["--bidir"], ["-P", 4], ["-R", "-P", 4], ["-O", 1, "-t", 2]):
            seen = iperf3("-c", "127.0.0.1", "-p", port, "-t", 1, *way)
            assert "error" not in seen, (way, seen["error"])
            sent, received = seen["end"]["sum_sent"]["bytes"], seen["end"]["sum_received"]["bytes"]
            assert received > 1_000_000
            assert received == pytest.approx(sent, rel=0.1)
            assert len(seen["start"]["connected"]) == (
                4 if 4 in way else 2 if "--bidir" in way else 1
            )
        for udp in ([], ["-R"], ["-P", 3], ["--bidir"]):
            seen = iperf3(
                "-c", "127.0.0.1", "-p", port, "-t", 1, "-u", "-b", "20M", "-l", 1200, *udp
            )
            assert "error" not in seen, (udp, seen["error"])
            assert seen["end"]["sum"]["packets"] > 1500
            assert seen["end"]["sum"]["lost_percent"] < 5


def test_two_iperf3_clients_at_once_are_both_served() -> None:
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed")
    with far_end() as (port, _), ThreadPoolExecutor() as pool:
        words = ("-c", "127.0.0.1", "-p", port, "-t", 1, "-b", "50M")
        both = list(
            pool.map(lambda more: iperf3(*words, *more), [[], ["-R"], ["-u"], ["-u", "-R"]])
        )
    for seen in both:
        assert "error" not in seen, seen["error"]
        # A paced TCP begins with a window at once.
        assert seen["end"].get("sum_received", seen["end"].get("sum"))[
            "bits_per_second"
        ] == pytest.approx(50e6, rel=0.25)


def test_an_iperf3_server_is_measured() -> None:
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed")
    port = free_port()
    with subprocess.Popen(["iperf3", "-s", "-p", str(port)], stdout=subprocess.DEVNULL) as server:
        try:
            listening(port)
            for test in ("tcp_up", "tcp_down", "bidir"):
                seen = measure(port, "--test", test, "--duration", "1s", "--pacing", "40Mbit")
                assert seen["peer"]["speaks"] == "iperf3"
                for flow in seen["flows"]:
                    assert flow["goodput_mbit"] == pytest.approx(40, rel=0.25), (test, flow["id"])
                    assert flow["retransmits"] is not None
                assert seen["latency_ms"]["loaded"]["n"] > 20
                assert {ping["protocol"] for ping in seen["pings"]} == {"tcp"}
        finally:
            server.terminate()


def test_a_measurement_has_the_requested_flows_and_tests(tmp_path: Path) -> None:
    with far_end("--token", "correct-horse") as (port, _):
        (tmp_path / "token").write_text("correct-horse\nsecond line", encoding="utf-8")
        token = ("--token-file", str(tmp_path / "token"), "--duration", "700ms",
                 "--pacing", "20Mbit")  # fmt: skip
        seen = measure(port, "--test", "rrul", *token)
        ways = [(flow["direction"], flow["dscp"]) for flow in seen["flows"]]
        assert ways == [(way, dscp) for way in ("up", "down") for dscp in (0, 8, 40, 46)]
        for flow in seen["flows"]:
            assert flow["goodput_mbit"] == pytest.approx(20, rel=0.3)
            assert flow["ecn"]["dscp_survives"] is True
            # A paced sender that passed so much was busy for that share of its time at least.
            assert flow["busy_pct"] > 0.8 * 100 * min(1, flow["goodput_mbit"] / 20)
            # The share is that of the samples' own columns over the time that they span.
            first, last = (
                dict(zip(flow["columns"], flow["samples"][at], strict=True)) for at in (0, -1)
            )
            span = last["t_s"] - first["t_s"]
            for key in ("busy", "rwnd_limited", "sndbuf_limited"):
                share = 100 * (last[f"{key}_s"] - first[f"{key}_s"]) / span
                assert flow[f"{key}_pct"] == pytest.approx(share, rel=1e-4, abs=1e-4)
            assert len(flow["samples"]) >= 6
            assert all(len(row) == len(flow["columns"]) for row in flow["samples"])
        assert [ping["dscp_arrived"] for ping in seen["pings"]] == [0, 8, 40, 46]
        assert [phase["name"] for phase in seen["phases"]] == ["idle", "loaded", "recovery"]
        assert seen["own_error"]["clock"]["kind"] == "common"
        error = seen["own_error"]
        # On loopback, a send call returns after the delivery of its packet, so it may last longer
        # than the round trip.
        for sending in (error["leaving_ms"], error["far"]["answering_ms"]):
            assert 0 < sending < 5
        assert seen["data"]["stopped_by"] == "duration"
        call = measure(port, "--test", "voip", *token)["voip"]
        assert call["loaded"]["up"]["mos"] > 3
        page = measure(port, "--test", "page", *token, "--idle", "600ms")["page"]
        assert page["objects"] == 31
        assert page["idle_s"]["n"] >= 1
        assert page["idle_s"]["failed"] == 0
        assert 0 < page["idle_s"]["waiting_share"] < 1
        flood = measure(port, "--test", "udp_flood", *token)["udp_load"]
        assert flood["received_mbit"] == pytest.approx(20, rel=0.2)
        asked = measure(
            port,
            "--test",
            "tcp_up",
            "--max-data",
            "5MB",
            "--duration",
            "5s",
            "--token",
            "correct-horse",
        )
        assert asked["data"]["stopped_by"] == "max_data"
        assert asked["data"]["planned_bytes"] == 5_000_000
        assert 4_000_000 < asked["data"]["moved_bytes"] <= 5_000_000


def test_congestion_controls_alternate() -> None:
    allowed = (
        Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
        .read_text(encoding="utf-8")
        .split()
    )
    if len(allowed) < 2:
        pytest.skip("this kernel allows one congestion control")
    with far_end() as (port, _):
        words = ("--test", "bidir", "--duration", "500ms", "--pacing", "20Mbit", "--repeats", "2")
        seen = measure(port, *words, "--cc", ",".join(allowed[:2]))
        for way in ("up", "down"):
            used = [flow["cc"] for flow in seen["flows"] if flow["direction"] == way]
            assert used == allowed[:2] * 2
        refused = subprocess.run(
            [HOST, "measure", "127.0.0.1", "--port", str(port), "--test", "tcp_up", "--cc",
            "nonsense"],
            capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
        assert refused.returncode == 2
        assert f"write --cc {allowed[0]}" in refused.stderr
        refused = subprocess.run(
            [HOST, "measure", "127.0.0.1", "--port", str(port), "--test", "tcp_down", "--cc",
            "nonsense"],
            capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
        assert refused.returncode == 2
        assert f"write --cc {allowed[0]}" in refused.stderr


def test_500_simultaneous_clients_all_make_progress() -> None:
    with far_end("--clients", "600", "--clients-per-address", "600") as (port, _):
        cookies, controls, loads = [], [], []

        def frame(value: dict[str, Any]) -> bytes:
            text = json.dumps(value).encode()
            return struct.pack(">I", len(text)) + text

        def answer(of: socket.socket) -> dict[str, Any]:
            need = lambda n: of.recv(n, socket.MSG_WAITALL)  # noqa: E731
            return dict(json.loads(need(struct.unpack(">I", need(4))[0])))

        with contextlib.ExitStack() as open_:
            for _ in range(500):
                control = open_.enter_context(
                    socket.create_connection(("127.0.0.1", port), timeout=20)
                )
                control.sendall(b"NARR\x02c".ljust(HELLO, b"\0"))
                controls.append(control)
            for control in controls:
                assert answer(control)["is"] == "greeting"
                control.sendall(frame({"proof": None}))
            for control in controls:
                welcome = answer(control)
                assert welcome["is"] == "welcome", welcome
                cookies.append(bytes.fromhex(welcome["cookie"]))
                control.sendall(frame({"do": "open", "stream": 1, "direction": "up"}))
                assert answer(control)["is"] == "open"
            for cookie in cookies:
                load = open_.enter_context(
                    socket.create_connection(("127.0.0.1", port), timeout=20)
                )
                load.sendall((b"NARR\x02d\0\1" + cookie).ljust(HELLO, b"\0"))
                load.setblocking(False)
                loads.append(load)
            # All of them want to send all the time; they may take what they are given.
            chooser = selectors.DefaultSelector()
            for load in loads:
                chooser.register(load, selectors.EVENT_WRITE)
            piece, end = bytes(16 << 10), time.monotonic() + 2
            while time.monotonic() < end:
                for key, _ in chooser.select(0.1):
                    with contextlib.suppress(BlockingIOError):
                        key.fileobj.send(piece)  # type: ignore[union-attr]
            moved = []
            for control in controls:
                control.sendall(frame({"do": "stop", "streams": [1]}))
                told = answer(control)
                while told["is"] != "stopped":
                    told = answer(control)
                moved.append(told["moved"])
    moved.sort()
    # Loopback shares evenly: the minimum is a fair part of the median.
    assert moved[0] > 0.2 * moved[250] > 0


def test_the_wrong_token_and_garbage_are_refused_and_counted() -> None:
    at = free_port()
    with far_end("--token", "correct-horse", "--metrics", f"127.0.0.1:{at}") as (port, child):
        for token in (["--token", "wrong-horses"], []):
            words = [HOST, "measure", "127.0.0.1", "--test", "tcp_up", "--port", str(port), *token]
            refused = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
            assert refused.returncode == 2
            assert "token" in refused.stderr
        if shutil.which("iperf3"):
            words_ = ("-c", "127.0.0.1", "-p", port, "-t", 1)
            assert "error" in iperf3(*words_)
            assert "error" not in iperf3(*words_, "--extra-data", "correct-horse")
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/{'0' * 32}/1000", timeout=5)
            pytest.fail("an object without a session")

        def pester(n: int) -> None:
            garbage = [
                os.urandom(2000),
                b"\0" * 500,
                b"GET /" + b"x" * 4000,
                b"NARR\x02c".ljust(HELLO, b"\0") + b"\xff" * 999,
            ]
            for i in range(n):
                with (
                    contextlib.suppress(OSError),
                    socket.create_connection(("127.0.0.1", port), timeout=5) as peer,
                ):
                    peer.sendall(garbage[i % len(garbage)])
                    peer.settimeout(1)
                    while peer.recv(4096):
                        pass
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
                peer.connect(("127.0.0.1", port))
                peer.setblocking(False)
                for i in range(20 * n):
                    with contextlib.suppress(OSError):
                        peer.send([os.urandom(70), b"9876", b"NARP\x01q" + os.urandom(58)][i % 3])
                time.sleep(0.1)
                with pytest.raises(BlockingIOError):
                    peer.recv(100)

        pester(100)
        before = memory_kb(child.pid)
        pester(400)
        assert memory_kb(child.pid) < before + 2000
        seen = counters(at)
        assert seen["dropped_garbage_total"] > 300
        assert seen["dropped_datagrams_total"] > 1000
        assert seen["refused_token_total"] >= 1
        assert seen["clients"] == 0
        assert child.poll() is None


def test_silent_connections_are_closed_and_block_no_other_client() -> None:
    at = free_port()
    with far_end("--metrics", f"127.0.0.1:{at}") as (port, _), contextlib.ExitStack() as open_:
        for _ in range(600):
            open_.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        seen = measure(port, "--test", "ping", "--duration", "500ms")
        assert seen["pings"][0]["received"] > 20
        end = time.monotonic() + 15
        while counters(at)["connections"] > 1 and time.monotonic() < end:
            time.sleep(0.2)
        told = counters(at)
        assert told["connections"] == 1
        assert told["dropped_full_total"] + told["dropped_timeout_total"] >= 600


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_exit_code_is_that_of_the_signal(how: signal.Signals) -> None:
    with far_end() as (_, child):
        child.send_signal(how)
        assert child.wait(10) == 128 + how


def test_limits_are_enforced_and_ctrl_c_ends_the_server() -> None:
    with far_end("--rate", "30Mbit", "--clients", "1", "--duration", "5s") as (port, child):
        for test in ("tcp_up", "tcp_down"):
            seen = measure(port, "--test", test, "--duration", "2s", "--streams", "2")
            total = sum(flow["received_bytes"] for flow in seen["flows"]) * 8 / 2e6
            assert total == pytest.approx(30, rel=0.15), test
        with socket.create_connection(("127.0.0.1", port)) as first:
            first.sendall(b"abcdefghijklmnopqrstuvwxyz234567abcd\0")
            assert first.recv(1) == b"\x09"
            with socket.create_connection(("127.0.0.1", port)) as second:
                second.sendall(b"bbcdefghijklmnopqrstuvwxyz234567abcd\0")
                assert second.recv(1) == b"\xff"
        if shutil.which("iperf3"):
            assert "too long" in iperf3("-c", "127.0.0.1", "-p", port, "-t", 20)["error"]
        child.send_signal(signal.SIGINT)
        assert child.wait(5) == 130


def test_rates_agree_with_iperf3_on_the_same_path(tmp_path: Path) -> None:
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed")
    ready()
    seen, script = tmp_path / "seen.json", tmp_path / "both.py"
    script.write_text(
        "import json, subprocess\n"
        "def ask(*w): return json.loads(subprocess.run(w, capture_output=True, text=True, "
        "check=True).stdout)\n"
        "end = ask('iperf3', '-c', 'far', '-p', '5300', '-t', '4', '-O', '1', '-J')['end']\n"
        "theirs = end['sum_received']['bits_per_second'] / 1e6\n"
        f"m = ask({str(HOST)!r}, 'measure', 'far', '--test', 'tcp_up', '--duration', '5s', "
        "'--idle', '300ms')\n"
        "flow = m['flows'][0]; rows = [r for r in flow['samples'] if r[0] > flow['from_s'] + 1]\n"
        "ours = (rows[-1][1] - rows[0][1]) * 8e-6 / (rows[-1][0] - rows[0][0])\n"
        "print(json.dumps([theirs, ours]))\n",
        encoding="utf-8",
    )
    words = [
        str(NARROWS), "shell", "--rate", "40Mbit", "--rtt", "10ms", "--json", str(seen), "--far",
        "iperf3 -s -p 5300",
        "--far", f"{HOST} serve", "--", sys.executable, str(script),
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 0, done.stderr
    instruments = json.loads(seen.read_text(encoding="utf-8"))["instruments"]
    if not instruments["trusted"]:
        pytest.skip(f"not to be trusted: {'; '.join(instruments['why'])}")
    theirs, ours = json.loads(done.stdout)
    assert ours == pytest.approx(theirs, rel=0.02)


def test_the_systemd_unit_is_printed_and_a_port_in_use_is_an_error() -> None:
    done = subprocess.run(
        [NARROWS, "serve", "--systemd-unit"], capture_output=True, text=True, check=True, timeout=30
    )
    assert "ExecStart=" in done.stdout
    assert "DynamicUser=yes" in done.stdout
    with far_end() as (port, _):
        words = [NARROWS, "serve", "--bind", "127.0.0.1", "--port", str(port)]
        refused = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
        assert refused.returncode == 2
        assert "--port" in refused.stderr
