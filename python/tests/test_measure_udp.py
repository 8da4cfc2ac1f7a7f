"""`narrows measure --transport udp`: any congestion control over a real path, and its errors."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import NARROWS
from test_live import HOST, ready
from test_serve import far_end
from test_shell import shell

from narrows import files

QUICK = ("--duration", "2s", "--idle", "500ms", "--no-history", "--no-model")


@pytest.fixture
def far() -> Iterator[int]:
    """The port of a server on this machine."""
    with far_end() as (port, _):
        yield port


def measure(port: int, *words: str, transport: str = "udp") -> subprocess.CompletedProcess[str]:
    """Measures the path to a server on this machine."""
    command = [NARROWS, "measure", "127.0.0.1", "--port", str(port), "--transport", transport]
    return subprocess.run(
        [*command, *QUICK, *words], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("test", ["tcp_down", "tcp_up"])
def test_a_control_that_no_kernel_has_fills_a_real_path(test: str, tmp_path: Path) -> None:
    ready("cubic")
    made = tmp_path / "m.json"
    command = [NARROWS, "measure", "far", "--test", test, "--transport", "udp", "--cc", "bbr3"]
    done = shell(
        "--rate", "20Mbit", "--rtt", "20ms", "--buffer", "2bdp", "--far", f"{HOST} serve",
        command=[*command, *QUICK, "--out", str(made)],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    measured = files.read(made)
    (flow,) = measured.flows
    assert (flow.protocol, flow.cc) == ("udp", "bbr3")
    # The payload of full segments at the rate, or less on a busy machine.
    # `validation.own_tcp` compares goodput and RTT with those of a kernel, in virtual time.
    assert flow.goodput_mbit is not None
    assert 10 < flow.goodput_mbit <= 20 * 1448 / 1514
    row = measured.json["flows"][0]
    assert row["mss_bytes"] == 1448
    assert row["rtt_ms"]["min"] >= 20


def test_each_congestion_control_is_measured(far: int, tmp_path: Path) -> None:
    made = tmp_path / "m.json"
    done = measure(
        far, "--test", "tcp_down", "--cc", "reno,bbr3", "--max-data", "20MB", "--out", str(made)
    )
    assert done.returncode == 0, done.stderr
    flows = files.read(made).flows
    assert {flow.cc for flow in flows} <= {"reno", "bbr3"}
    assert all(flow.protocol == "udp" for flow in flows)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--cc", "xcp"], "needs routers that write into its packets"),
        (["--cc", "nothing"], "nothing: unknown; with --transport udp, write --cc with one of"),
        (["--pacing", "5Mbit"], "--pacing: not supported with --transport udp"),
        (["--transport", "sctp"], "--transport sctp: unknown; write one of tcp udp"),
        (["--pacer", "fq"], "--pacer fq: unknown; write one of timer txtime"),
        (["--pacer", "txtime"], "--pacer txtime: the queue discipline noqueue of lo ignores"),
        (["--pacer", "txtime", "--transport", "tcp"], "only flows of --transport udp have it"),
    ],
)
def test_unsupported_options_are_errors(far: int, words: list[str], why: str) -> None:
    for test in ("tcp_down", "tcp_up"):
        done = measure(far, "--test", test, *words)
        assert done.returncode == 2
        assert why in done.stderr.replace("\n", " ")


def test_a_server_without_the_transport_is_named() -> None:
    command = [NARROWS, "measure", "http://127.0.0.1:9/x", "--transport", "udp", *QUICK]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "requires `narrows serve` on the far host" in done.stderr
