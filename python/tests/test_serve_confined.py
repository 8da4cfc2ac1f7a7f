"""The privileges that a server drops after it has opened its sockets, and its systemd unit."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_serve import HELLO, far_end, low_port
from test_serve_limits import connect, frame, received_frame, session, until

from narrows.host.live import HOST

CAP_NET_ADMIN, CAP_IPC_LOCK, CAP_SYS_NICE, CAP_SYS_RESOURCE = 12, 14, 23, 24


def status(thread: Path) -> dict[str, str]:
    """The status of a thread in /proc."""
    lines = (thread / "status").read_text(encoding="utf-8").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def capabilities(held: str) -> set[int]:
    return {bit for bit in range(64) if int(held, 16) >> bit & 1}


def niceness(pid: int) -> set[int]:
    stats = (thread / "stat" for thread in Path(f"/proc/{pid}/task").iterdir())
    return {int(stat.read_text(encoding="utf-8").rsplit(")", 1)[1].split()[16]) for stat in stats}


@pytest.mark.parametrize(
    ("words", "user", "kept"),
    [
        ([], 65520, set()),
        (["--user", "4242"], 4242, set()),
        (["--net-admin"], 65520, {CAP_NET_ADMIN}),
        (["--policy", "lock"], 65520, {CAP_IPC_LOCK}),
        (["--policy", "fifo=5"], 65520, {CAP_SYS_NICE}),
    ],
)
def test_a_server_drops_root_capabilities_and_system_calls(
    words: list[str], user: int, kept: set[int]
) -> None:
    root = os.geteuid() == 0
    if words and not root:
        pytest.skip("not root: there is no user to leave and no capability to keep")
    with far_end("--echo", str(low_port()), *words) as (port, child):
        # Every thread, not only the first one: those that carry load are started afterwards.
        threads = [status(thread) for thread in Path(f"/proc/{child.pid}/task").iterdir()]
        # A thread of a single client has its own socket at the same address, which is of the same
        # user.
        control, _welcome = session(port)
        with control:
            control.sendall(frame({"do": "latency", "port": 20_000}))
            assert received_frame(control)["thread"] is True
            if CAP_SYS_RESOURCE in capabilities(status(Path("/proc/self"))["CapEff"]):
                # The thread for datagrams, by a limit that was raised before.
                assert until(lambda: -10 in niceness(child.pid))
    assert len(threads) > 2
    for seen in threads:
        assert (seen["NoNewPrivs"], seen["Seccomp"]) == ("1", "2")
        if root:
            assert (seen["Uid"].split(), seen["Gid"].split(), seen["Groups"]) == (
                [str(user)] * 4,
                [str(user)] * 4,
                "",
            )
            for held in ("CapEff", "CapPrm"):
                assert capabilities(seen[held]) <= kept, held


def congestion_controls(what: str) -> list[str]:
    return (
        Path(f"/proc/sys/net/ipv4/tcp_{what}_congestion_control")
        .read_text(encoding="utf-8")
        .split()
    )


def chosen(port: int, cc: str) -> dict[str, object]:
    """The reply to a client that has requested a download with that congestion control."""
    control, welcome = session(port)
    with control, connect(port) as load:
        control.sendall(frame({"do": "open", "stream": 1, "direction": "down", "cc": cc}))
        assert received_frame(control)["is"] == "open"
        cookie = bytes.fromhex(str(welcome["cookie"]))
        load.sendall((b"NARR\x02d\0\1" + cookie).ljust(HELLO, b"\0"))
        return received_frame(control)


@pytest.mark.skipif(os.geteuid() != 0, reason="not root: the kernel refuses by itself")
def test_a_client_cannot_make_the_kernel_load_a_congestion_control() -> None:
    loaded, allowed = congestion_controls("available"), congestion_controls("allowed")
    unloaded = next(
        name
        for name in ("vegas", "westwood", "hybla", "illinois", "nonsense")
        if name not in loaded
    )
    restricted = [name for name in loaded if name not in allowed]
    for words in ([], ["--net-admin"]):
        with far_end(*words) as (port, _):
            assert chosen(port, allowed[0])["is"] == "joined"
            refused = chosen(port, unloaded)
            assert refused["is"] == "refused"
            assert "congestion_control does not have it" in str(refused["why"])
            for name in restricted:
                assert chosen(port, name)["is"] == ("joined" if words else "refused"), (name, words)
    assert congestion_controls("available") == loaded


def test_root_and_unknown_names_are_invalid_users() -> None:
    words = [str(HOST), "serve", "--bind", "127.0.0.1", "--port", "0", "--user"]
    for user, why in (("0", "that is root"), ("nobody-has-this-name", "getent passwd")):
        refused = subprocess.run(
            [*words, user], capture_output=True, text=True, check=False, timeout=20
        )
        assert refused.returncode == 2
        assert refused.stderr.startswith(f"--user {user}: ")
        assert why in refused.stderr


def without_net_admin() -> None:
    """Root does not get the capability by starting a program: PR_CAPBSET_DROP of linux/prctl.h."""
    ctypes.CDLL(None).prctl(24, CAP_NET_ADMIN, 0, 0, 0)


def test_net_admin_without_the_capability_is_refused() -> None:
    words = [str(HOST), "serve", "--bind", "127.0.0.1", "--port", "0", "--net-admin"]
    refused = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=20, preexec_fn=without_net_admin
    )
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("--net-admin: this process does not have CAP_NET_ADMIN")


@pytest.mark.parametrize("option", ["--help", "-h"])
@pytest.mark.parametrize(
    "command", ["serve", "measure", "latency", "tune", "with", "shell", "doctor"]
)
def test_help_of_a_subcommand_is_its_usage(command: str, option: str) -> None:
    done = subprocess.run(
        [str(HOST), command, option], capture_output=True, text=True, check=False, timeout=20
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"narrows-host {command}" in done.stdout
    assert "unknown option" not in done.stdout


def test_a_tied_server_ends_with_its_parent() -> None:
    # Changing the user makes the kernel forget that.
    program = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)\n"
        "child.stdout.readline(); print(child.pid, flush=True)"
    )
    command = [
        sys.executable,
        "-c",
        program,
        str(HOST),
        "serve",
        "--bind",
        "127.0.0.1",
        "--port",
        "0",
        "--tied",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    ended = Path(f"/proc/{int(done.stdout)}/stat")
    until = time.monotonic() + 20
    while ended.exists() and ended.read_text().rsplit(")", 1)[1].split()[0] != "Z":
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
def test_the_unit_is_confined(tmp_path: Path) -> None:
    unit = tmp_path / "narrows-serve.service"
    unit.write_bytes(
        subprocess.run([HOST, "serve", "--systemd-unit"], capture_output=True, check=True).stdout
    )
    command = ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze cannot look at a file")
    found = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert found, done.stderr
    assert float(found[1]) <= 1.5
