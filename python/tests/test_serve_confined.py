"""What a far end gives up once its sockets are open, and the unit that systemd confines it with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_serve import far_end, free_port

from narrows.host.live import HOST


def status(thread: Path) -> dict[str, str]:
    """What the kernel says of a thread."""
    lines = (thread / "status").read_text(encoding="utf-8").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_a_far_end_gives_up_root_files_and_calls() -> None:
    with far_end("--echo", str(free_port())) as (_, child):
        # Every thread, not only the first one: those that carry load are started afterwards.
        threads = [status(thread) for thread in Path(f"/proc/{child.pid}/task").iterdir()]
    assert len(threads) > 2
    for told in threads:
        assert (told["NoNewPrivs"], told["Seccomp"]) == ("1", "2")
        if os.geteuid() == 0:
            assert (told["Uid"].split(), told["Gid"].split(), told["Groups"]) == (["65534"] * 4, ["65534"] * 4, "")
            # CAP_NET_BIND_SERVICE (10), CAP_NET_ADMIN (12), CAP_IPC_LOCK (14) and CAP_SYS_NICE (23) at most.
            kept = 1 << 10 | 1 << 12 | 1 << 14 | 1 << 23
            for held in ("CapEff", "CapPrm"):
                assert int(told[held], 16) & ~kept == 0


def test_a_far_end_that_is_tied_still_ends_with_its_parent() -> None:
    # Changing the user makes the kernel forget that.
    program = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)\n"
        "child.stdout.readline(); print(child.pid, flush=True)"
    )
    command = [sys.executable, "-c", program, str(HOST), "serve", "--bind", "127.0.0.1", "--port", "0", "--tied"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    ended = Path(f"/proc/{int(done.stdout)}/stat")
    until = time.monotonic() + 20
    while ended.exists() and ended.read_text().rsplit(")", 1)[1].split()[0] != "Z":
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_unit_is_confined(tmp_path: Path) -> None:
    unit = tmp_path / "narrows-serve.service"
    unit.write_bytes(subprocess.run([HOST, "serve", "--systemd-unit"], capture_output=True, check=True).stdout)
    command = ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze cannot look at a file")
    found = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert found, done.stderr
    assert float(found[1]) <= 1.5
