"""The echo over lwIP (`host/boards/echo_lwip.c`), built with Debian's liblwip-dev and measured at a
TAP device in a network namespace of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "host" / "boards" / "echo_lwip.c"
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")

PROGRAM = """
set -eu
ip link set lo up
ip tuntap add dev tap7 mode tap
ip addr add 192.0.2.1/24 dev tap7
ip link set tap7 up
PRECONFIGURED_TAPIF=tap7 "$1" 192.0.2.2 255.255.255.0 > "$2" &
echo=$!
trap 'kill $echo' EXIT
for _ in $(seq 100); do grep -q port "$2" && break; sleep 0.05; done
for speaks in board echo; do
  "$3" -m narrows latency 192.0.2.2 --port 5207 --speaks $speaks --duration 1s --json > "$4/$speaks"
done
"""


def _lwip(*words: str) -> list[str]:
    if shutil.which("cc") is None or shutil.which("pkg-config") is None:
        pytest.skip("cc or pkg-config is not installed")
    done = subprocess.run(
        ["pkg-config", *words, "lwip"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("lwIP is not installed: apt install liblwip-dev")
    return done.stdout.split()


def test_the_source_has_at_most_80_lines() -> None:
    lines = SOURCE.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 80
    assert max(map(len, lines)) <= 132


def test_only_the_raw_api_of_lwip_is_used(tmp_path: Path) -> None:
    command = ["cc", *FLAGS, *_lwip("--cflags"), "-c", "-o", str(tmp_path / "raw.o"), str(SOURCE)]
    subprocess.run(command, check=True, timeout=60)
    needed = subprocess.run(
        ["nm", "--undefined-only", str(tmp_path / "raw.o")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()[1::2]
    # No operating system: only functions of lwIP, of a C library without one, and of the board.
    own = {"memcmp", "memcpy", "memset", "echo_ns", "_GLOBAL_OFFSET_TABLE_"}
    names = {name for name in needed if name != "ip_data"} - own
    assert "udp_recv" in names
    assert all(name.startswith(("udp_", "pbuf_", "ip_addr_")) for name in names)


def test_the_echo_replies_to_both_protocols_of_narrows_latency(tmp_path: Path) -> None:
    if os.geteuid() != 0 or not Path("/dev/net/tun").exists() or shutil.which("ip") is None:
        pytest.skip("needs root, /dev/net/tun and ip")
    program = tmp_path / "program"
    command = ["cc", *FLAGS, "-DECHO_TAP", *_lwip("--cflags"), "-o", str(program), str(SOURCE)]
    subprocess.run([*command, *_lwip("--libs")], check=True, timeout=60)
    words = [program, tmp_path / "ready", sys.executable, tmp_path]
    subprocess.run(
        ["unshare", "--net", "bash", "-c", PROGRAM, "-", *map(str, words)],
        check=True,
        cwd=tmp_path,
        timeout=120,
    )
    for speaks in ("board", "echo"):
        told = json.loads((tmp_path / speaks).read_text(encoding="utf-8"))
        assert told["sent"] > 0
        assert (told["answered"], told["corrupted"]) == (told["sent"], 0)
