"""Two hosts and a wire between them: network namespaces and a veth pair, for tests that need a real
device.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

NEAR, FAR = "198.51.100.1", "198.51.100.2"
DEVICE = "e0"


@dataclass
class Wire:
    """Words to put before a command so that it runs at that end; both have a device `e0`."""

    near: list[str]
    far: list[str]


def run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=20).stdout


@contextlib.contextmanager
def wire() -> Iterator[Wire]:
    """For root only; others are left out with the reason. Nothing is left behind: a namespace goes
    with its process.
    """
    lacking = [name for name in ("ip", "unshare", "nsenter") if shutil.which(name) is None]
    if lacking or os.geteuid() != 0:
        pytest.skip(
            "network namespaces: "
            f"{'not root' if not lacking else ', '.join(lacking) + ' not installed'}"
        )
    with contextlib.ExitStack() as ends:
        into = []
        for _ in range(2):
            held = subprocess.Popen(["unshare", "-n", "sleep", "300"])
            ends.callback(held.wait)
            ends.callback(held.kill)
            own, end = Path("/proc/self/ns/net").readlink(), time.monotonic() + 10
            while Path(f"/proc/{held.pid}/ns/net").readlink() == own:
                if held.poll() is not None or time.monotonic() > end:
                    pytest.skip("network namespaces: this machine allows none")
                time.sleep(0.01)
            into.append(["nsenter", "-t", str(held.pid), "-n"])
        pair = ("type", "veth", "peer", "name", DEVICE, "netns", into[1][2])
        try:
            run(*into[0], "ip", "link", "add", DEVICE, *pair)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"a veth pair: {error.stderr.strip()}")
        for words, address in zip(into, (NEAR, FAR), strict=True):
            run(*words, "ip", "addr", "add", f"{address}/24", "dev", DEVICE)
            for device in ("lo", DEVICE):
                run(*words, "ip", "link", "set", device, "up")
        yield Wire(*into)
