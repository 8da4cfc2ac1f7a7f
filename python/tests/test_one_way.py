"""One-way delays of `narrows latency`, and its requests over TCP."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import NARROWS
from test_latency import answering, measure_latency
from test_live import ready
from test_serve import far_end, free_port, low_port
from test_shell import shell

from narrows.host.live import HOST
from narrows.latency import render, result

TIMES: dict[str, Any] = {
    "n": 1000, "min": 100.0, "mean": 150.0, "max": 900.0, "p50": 120.0, "histogram_ns": [[1, 1000]],
}  # fmt: skip


def latency_result(**ways: Any) -> Any:  # noqa: ANN401
    way = {"delay_us": None, "pdv_us": TIMES, "ipdv_us": TIMES}
    one_way = {"clocks": "separate", "drift_us": None, "forward": way, "reverse": way} | ways
    return result._filled(
        {"kind": "latency", "sent": 1000, "lost": 0, "rtt_us": TIMES, "response_us": TIMES,
         "one_way": one_way}
    )  # fmt: skip


def test_separate_clocks_are_stated() -> None:
    said = " ".join(render.sentences(latency_result(drift_us=-42.0)))
    assert "only the variation of the one-way delays is meaningful" in said
    assert "The clocks drifted by 42.0 µs during the measurement" in said
    assert "one-way delay was" not in said
    names = [row[0].text for row in render.figures(latency_result()).rows]
    assert names[2:] == ["PDV, forward", "PDV, reverse", "IPDV, forward", "IPDV, reverse"]
    assert "drifted" not in " ".join(render.sentences(latency_result()))


def test_a_common_clock_has_absolute_delays() -> None:
    way = {"delay_us": TIMES, "pdv_us": TIMES, "ipdv_us": None}
    said = " ".join(render.sentences(latency_result(clocks="common", forward=way, reverse=way)))
    assert "The one-way delay was 120.0 µs (median; max 900.0 µs) in the forward direction" in said
    assert "so the one-way delays are absolute" in said


def test_one_way_delays_are_those_that_the_protocol_shows() -> None:
    every = ("--echo", str(low_port()), "--stamp", "0", "--irtt", "0")
    clocks = {"serving": ("narrows", "common"), "stamp": ("stamp", "separate"),
              "irtt": ("irtt", "separate"), "echo": ("echo", None)}  # fmt: skip
    with answering(*every) as ports:
        for answers, (speaks, kind) in clocks.items():
            seen = measure_latency(ports[answers], "--speaks", speaks, "--count", 200)
            ways = seen["one_way"]
            if kind is None:
                assert ways is None
                continue
            assert ways["clocks"] == kind
            for name in ("forward", "reverse"):
                way = ways[name]
                assert way["pdv_us"]["min"] == 0
                assert (way["delay_us"] is None) == (kind == "separate")
            if kind == "common":
                wire = sum(ways[name]["delay_us"]["mean"] for name in ("forward", "reverse"))
                assert wire == pytest.approx(seen["parts_us"]["wire"]["mean"], rel=0.05, abs=2)


def test_a_time_namespace_is_another_clock() -> None:
    inside = ["unshare", "--time", "--monotonic", "5000", "true"]
    if not shutil.which("unshare") or subprocess.run(inside, check=False).returncode:
        pytest.skip("no time namespace can be made")
    command = [*inside[:-1], str(HOST), "serve", "--bind", "127.0.0.1", "--port", "0", "--tied"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        port = int(child.stdout.readline().rpartition(":")[2])
        ways = measure_latency(port, "--count", 200)["one_way"]
        child.terminate()
    assert ways["clocks"] == "separate"
    assert ways["forward"]["delay_us"] is None
    # The clocks differ by 5000 s, but the variation does not.
    assert ways["forward"]["pdv_us"]["p50"] < 1e6


def test_each_direction_has_its_own_delay() -> None:
    ready()
    command = f"{NARROWS} latency far --count 100 --interval 10ms --json"
    done = shell("--rate", "20Mbit", "--rtt", "40ms", "--far", f"{HOST} serve",
                 command=command.split())  # fmt: skip
    assert done.returncode == 0, done.stderr
    ways = json.loads(done.stdout)["one_way"]
    both = [ways[name]["delay_us"]["min"] / 1e3 for name in ("forward", "reverse")]
    assert both == [pytest.approx(20, abs=2), pytest.approx(20, abs=2)]


def test_handshakes_measure_open_and_closed_ports() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        seen = measure_latency(port, "--speaks", "tcp", "--count", 20, "--interval", "10ms")
    assert (seen["sent"], seen["lost"], seen["peer"]["carrier"]) == (20, 0, "tcp handshakes")
    closed = measure_latency(free_port(), "--speaks", "tcp", "--count", 20, "--interval", "10ms")
    assert (closed["sent"], closed["lost"]) == (20, 0)
    assert closed["one_way"] is None
    assert "TCP handshakes with port" in " ".join(render.sentences(result._filled(closed)))


def test_messages_use_the_session() -> None:
    with answering() as ports:
        seen = measure_latency(ports["serving"], "--speaks", "narrows-tcp", "--count", 200)
    assert (seen["sent"], seen["lost"], seen["peer"]["carrier"]) == (200, 0, "tcp messages")


def test_messages_replace_datagrams_where_udp_is_blocked() -> None:
    ready()
    blocked = f"ip rule add ipproto udp sport 5201 blackhole && exec {HOST} serve"
    command = f"{NARROWS} latency far --count 50 --interval 20ms"
    done = shell("--rate", "20Mbit", "--rtt", "40ms", "--far", blocked, command=command.split())
    assert done.returncode == 0, done.stderr
    assert "The host does not reply over UDP on port 5201" in done.stdout
    assert "All 50 requests were answered." in done.stdout


def test_messages_replace_datagrams_that_a_firewall_rejects() -> None:
    ready()
    # The rule precedes that of the table `local`, and sends ICMP errors (administratively
    # prohibited).
    rules = ("add pref 100 lookup local", "del pref 0",
             "add pref 50 ipproto udp dport 5201 prohibit")  # fmt: skip
    rejected = "".join(f"ip -6 rule {rule} && " for rule in rules) + f"exec {HOST} serve"
    command = f"{NARROWS} latency far6 --count 50 --interval 20ms"
    done = shell("--rate", "20Mbit", "--rtt", "40ms", "--far", rejected, command=command.split())
    assert done.returncode == 0, done.stderr
    assert "The host does not reply over UDP on port 5201" in done.stdout
    assert "All 50 requests were answered." in done.stdout


@pytest.mark.parametrize(("speaks", "port"), [("echo", 7), ("stamp", 862), ("irtt", 2112)])
def test_rejected_datagrams_are_an_error_with_a_remedy(speaks: str, port: int) -> None:
    ready()
    rules = ("add pref 100 lookup local", "del pref 0",
             f"add pref 50 ipproto udp dport {port} prohibit")  # fmt: skip
    rejected = "".join(f"ip -6 rule {rule} && " for rule in rules) + f"exec {HOST} serve"
    command = f"{NARROWS} latency far6 --speaks {speaks} --count 5"
    done = shell("--rate", "20Mbit", "--rtt", "40ms", "--far", rejected, command=command.split())
    assert done.returncode == 2, done.stderr
    assert f"a firewall rejects datagrams to it; permit UDP port {port} in" in done.stderr


def test_a_token_of_a_file_opens_the_session(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(" correct-horse \nsecond line", encoding="utf-8")
    with far_end("--token-file", str(file)) as (port, _):
        command = [NARROWS, "latency", "127.0.0.1", "--port", str(port), "--count", "20", "--json"]
        words = [*command, "--token-file", str(file)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["answered"] == 20


def test_the_end_of_a_session_keeps_the_results() -> None:
    port = free_port()
    serve = [HOST, "serve", "--port", str(port), "--bind", "127.0.0.1"]
    latency = [NARROWS, "latency", "127.0.0.1", "--port", str(port), "--speaks", "narrows-tcp",
               "--duration", "60s", "--json"]  # fmt: skip
    with subprocess.Popen(serve, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        with subprocess.Popen(latency, stdout=subprocess.PIPE, text=True) as asking:
            time.sleep(4)
            server.terminate()
            said, _ = asking.communicate(timeout=20)
    assert asking.returncode == 0
    seen = json.loads(said)
    assert seen["answered"] == seen["sent"] > 100
    assert seen["lost"] == 0
    assert seen["lasted_s"] < 20
    (note,) = seen["notes"]
    assert note.startswith("The measurement ended early, after")
    assert note in render.sentences(result._filled(seen))


def test_messages_over_tcp_have_a_fixed_size() -> None:
    for speaks in ("tcp", "narrows-tcp"):
        words = [NARROWS, "latency", "127.0.0.1", "--size", "200B", "--speaks", speaks]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert f"--size: has no effect with --speaks {speaks}" in done.stderr
