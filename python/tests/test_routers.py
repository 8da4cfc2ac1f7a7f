"""`narrows-host` for routers (`make routers`), run by qemu-user on other processors."""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, Cli

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
KINDS = {
    "x86_64-unknown-linux-gnu": "x86_64",
    "aarch64-unknown-linux-musl": "aarch64",
    "armv7-unknown-linux-gnueabihf": "arm",
    "mips-unknown-linux-musl": "mips",
    "mipsel-unknown-linux-musl": "mipsel",
}
# The processor of many routers, which has no floating-point unit.
MIPS = ["-cpu", "24Kc"]
MOST_BYTES = 4_000_000
PLAN = {
    "narrows": "0.1.0",
    "plan": 1,
    "title": "TCP probes smaller packets after timeouts",
    "asked": {},
    "host": {"name": "router", "kernel": "6.12.0", "system": "OpenWrt"},
    "netns": None,
    "able": True,
    "needs": [],
    "left": [],
    "effects": [],
}


@pytest.fixture(params=KINDS)
def host(request: pytest.FixtureRequest) -> list[str]:
    """The command that runs the program for one processor."""
    program = TARGET / request.param / "small" / "narrows-host"
    if not program.exists():
        pytest.skip(f"{request.param} is not built: `make routers` does it")
    processor = KINDS[request.param]
    if processor == platform.machine():
        return [str(program)]
    runner = shutil.which(f"qemu-{processor}-static")
    if runner is None:
        pytest.skip(f"qemu-{processor}-static is not installed")
    return [runner, *(MIPS if processor.startswith("mips") else []), str(program)]


def free_port() -> int:
    """An unused TCP port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def serving(host: list[str]) -> Iterator[int]:
    """The port at which the program serves on loopback."""
    port = free_port()
    command = [*host, "serve", "--port", str(port), "--bind", "127.0.0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert f"127.0.0.1:{port}" in server.stdout.readline()
            yield port
        finally:
            server.terminate()


def test_the_program_is_one_small_file(host: list[str]) -> None:
    assert Path(host[-1]).stat().st_size < MOST_BYTES
    told = subprocess.run([*host, "--version"], capture_output=True, text=True, check=True)
    assert told.stdout.startswith("narrows-host ")
    told = subprocess.run([*host, "--help"], capture_output=True, text=True, check=True)
    assert "narrows-host tune audit" in told.stdout


@pytest.mark.parametrize("transport", ["quic", "udp"])
def test_unsupported_transports_are_errors_with_a_remedy(
    host: list[str], serving: int, transport: str
) -> None:
    words = ["measure", "127.0.0.1", "--port", str(serving), "--test", "tcp_down", "--transport"]
    own = subprocess.run([*host, *words, transport], capture_output=True, text=True, check=False)
    assert own.returncode == 2
    assert f"--transport {transport}: this narrows-host was built without it" in own.stderr
    assert "use the narrows-host of a wheel or of `make setup`" in own.stderr

    from narrows.host.live import HOST  # noqa: PLC0415 - it needs the package with this program

    far = subprocess.run([HOST, *words, transport], capture_output=True, text=True, check=False)
    assert far.returncode == 2
    assert f"does not have --transport {transport}" in far.stderr
    assert "a small build" in far.stderr


def test_the_program_serves_pings(serving: int) -> None:
    from narrows.host.live import HOST  # noqa: PLC0415 - it needs the package with this program

    measure = [HOST, "measure", "127.0.0.1", "--port", str(serving), "--test", "ping"]
    begin = time.monotonic()
    told = subprocess.run(
        [*measure, "--idle", "1s", "--duration", "1s"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["phases"]
    assert time.monotonic() - begin < 30


def test_the_program_measures_and_audits(host: list[str]) -> None:
    from narrows.host.live import HOST  # noqa: PLC0415 - it needs the package with this program

    port = free_port()
    command = [HOST, "serve", "--port", str(port), "--bind", "127.0.0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            server.stdout.readline()
            to = ["measure", "127.0.0.1", "--port", str(port), "--test", "tcp_ndown"]
            told = subprocess.run(
                [*host, *to, "--idle", "1s", "--duration", "2s", "--pacing", "500kbit"],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        finally:
            server.terminate()
    assert told.returncode == 0, told.stderr
    made = json.loads(told.stdout)
    assert sum(flow["bytes"] for flow in made["flows"]) > 500_000
    told = subprocess.run([*host, "tune", "audit"], capture_output=True, text=True, check=False)
    assert told.returncode in {0, 1}, told.stderr
    assert "The audit found" in told.stdout


def test_a_plan_is_applied_verified_and_reverted(host: list[str], tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc/sysctl.d").mkdir(parents=True)
    file = "/etc/sysctl.d/99-narrows.conf"
    # A file for the next boot, so that the test changes nothing of this host.
    change = {
        "id": f"file:{file}",
        "kind": "file",
        "phase": "boot",
        "target": file,
        "from": None,
        "to": {"text": "net.ipv4.tcp_mtu_probing = 1\n", "mode": "0644"},
        "why": "settings without a file are lost at a reboot",
        "persist": None,
    }
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(PLAN | {"changes": [change]}))

    def tune(*words: str) -> subprocess.CompletedProcess[str]:
        where = ("--root", str(root), "--state", str(tmp_path / "state"))
        return subprocess.run(
            [*host, "tune", *words, *where], capture_output=True, text=True, check=False
        )

    applied = tune("apply", str(plan))
    assert applied.returncode == 0, applied.stderr
    assert (root / file[1:]).read_text() == "net.ipv4.tcp_mtu_probing = 1\n"
    assert tune("verify").returncode == 0
    (root / file[1:]).write_text("net.ipv4.tcp_mtu_probing = 2\n")
    assert tune("verify").returncode == 1
    assert tune("revert", "--force").returncode == 0
    assert not (root / file[1:]).exists()


@pytest.mark.parametrize("words", [["audit"], ["plan", "--cc", "bbr", "--qdisc", "fq"]])
def test_audits_and_plans_are_those_of_the_package(
    host: list[str], command: Cli, words: list[str]
) -> None:
    for name in ("debian-9", "openwrt-23.05"):
        told = [*words, "--facts", str(ROOT / f"python/tests/data/hosts/{name}.txt"), "--json"]
        own = subprocess.run([*host, "tune", *told], capture_output=True, text=True, check=False)
        package = command("tune", *told)
        assert own.returncode == package.returncode, own.stderr
        assert json.loads(own.stdout) == json.loads(package.stdout)
