"""The dead-man switch, full and read-only disks, and files that remain after a revert."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from test_tune_host import WMEM, Json, Space, change, everything, plan, queue, space, waited

from narrows.host.live import HOST
from narrows.tune.verify import verified_lines

__all__ = ["space"]

BUFFERS = "4096 16384 8388608"


def buffers(space: Space) -> Json:
    return change("sysctl", WMEM, " ".join(space.get(WMEM).split()), BUFFERS)


def watchers(journal: str) -> list[int]:
    """The processes that watch a journal."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            state = (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except OSError:
            continue
        if b"watch" in words and journal.encode() in words and state != "Z":
            found.append(int(process.name))
    return sorted(found)


def state(process: int) -> str:
    """`T` where it is stopped (proc_pid_stat(5))."""
    return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


def killed(processes: list[int]) -> None:
    """All of them at once: none sees that another one has gone."""
    for kill in (signal.SIGSTOP, signal.SIGKILL):
        for process in processes:
            os.kill(process, kill)


def log(space: Space) -> list[Json]:
    text = (space.journal().parent / "undone.log").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_watchdogs_killed_one_after_another_still_revert_the_plan(space: Space) -> None:
    before, whole = space.seen(), everything(space)
    done = space.done("apply", "--confirm-within", "6s", plan=whole)
    seen = watchers(done["id"])
    assert len(seen) == 2
    for nth in (0, 1, 0):
        os.kill(seen[nth], signal.SIGKILL)
        gone = {seen[nth]}
        assert waited(lambda: len({*watchers(done["id"])} - gone) == 2)  # noqa: B023
        seen = watchers(done["id"])
    assert waited(lambda: not space.journal().exists())
    assert space.seen() == before
    assert waited(lambda: not watchers(done["id"]))
    (entry,) = log(space)
    assert entry["title"] == "For a test"
    assert entry["why"] == "nobody confirmed it within 6 s"
    assert entry["error"] is None
    late = space.tune("confirm")
    assert late.returncode == 2
    assert f"was undone on {entry['at']}" in late.stderr


def test_without_watchdogs_verify_fails_and_a_late_confirm_is_refused(
    space: Space,
) -> None:
    before, whole = space.seen(), everything(space)
    done = space.done("apply", "--confirm-within", "1h", plan=whole)
    assert space.done("verify")["watched"]
    killed(watchers(done["id"]))
    left = space.tune("verify")
    assert left.returncode == 1
    found = json.loads(left.stdout)
    assert (found["so"], found["watched"]) == (True, False)
    assert found["remaining_s"] > 0

    # Its time passes: what the journal says is all that a late confirmation could go by.
    journal = json.loads(space.journal().read_text(encoding="utf-8"))
    journal["deadline"]["uptime_s"] = 1.0
    space.journal().write_text(json.dumps(journal), encoding="utf-8")
    late = space.tune("confirm")
    assert late.returncode == 2
    assert "too late by" in late.stderr
    assert f"narrows tune revert --root {space.root}" in late.stderr
    assert not (space.root / "etc/sysctl.d/99-narrows.conf").exists()
    assert json.loads(space.tune("verify").stdout)["remaining_s"] < 0

    journal["deadline"] |= {"uptime_s": 1e9, "boot": "another"}
    space.journal().write_text(json.dumps(journal), encoding="utf-8")
    booted = space.tune("confirm")
    assert booted.returncode == 2
    assert "has booted since" in booted.stderr
    space.done("revert")
    assert space.seen() == before


def test_stopped_watchdogs_are_reported_by_verify(space: Space) -> None:
    done = space.done("apply", "--confirm-within", "1h", plan=plan(buffers(space)))
    both = watchers(done["id"])
    os.kill(both[0], signal.SIGSTOP)
    assert waited(lambda: state(both[0]) == "T")
    found = space.done("verify")
    assert found["watched"]
    assert {one["pid"]: one["state"] for one in found["watchers"]} == {
        both[0]: "stopped",
        both[1]: "running",
    }
    os.kill(both[1], signal.SIGSTOP)
    assert waited(lambda: state(both[1]) == "T")
    left = space.tune("verify")
    assert left.returncode == 1
    found = json.loads(left.stdout)
    assert (found["so"], found["watched"]) == (True, False)
    (told,) = [line for line in verified_lines(found) if line.startswith("Warning")]
    assert f"are stopped (kill -CONT {both[0]} {both[1]} continues them)" in told
    for process in both:
        os.kill(process, signal.SIGCONT)
    assert waited(lambda: {state(process) for process in both} <= {"S", "R", "D"})
    assert space.done("verify")["watched"]
    space.done("revert")


def test_a_watchdog_that_receives_sigterm_reverts_at_once_and_logs_it(space: Space) -> None:
    before, whole = space.seen(), everything(space)
    (space.root / "dev").mkdir(mode=0o755)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
        syslog.bind(str(space.root / "dev/log"))
        syslog.settimeout(30)
        done = space.done("apply", "--confirm-within", "1h", plan=whole)
        os.kill(watchers(done["id"])[1], signal.SIGTERM)
        message = syslog.recv(4096).decode()
    assert message.startswith("<28>narrows[")
    assert 'reverted "For a test": the watchdog received SIGTERM' in message
    assert "everything is as it was before" in message
    assert waited(lambda: not space.journal().exists())
    assert space.seen() == before


def test_a_confirmed_plan_has_no_watchdog(space: Space) -> None:
    done = space.done("apply", "--confirm-within", "1h", plan=plan(buffers(space)))
    space.done("confirm")
    assert waited(lambda: not watchers(done["id"]))
    assert space.done("verify")["watched"] is None
    assert not (space.journal().parent / "watch.lock").exists()
    space.done("revert")
    assert not (space.journal().parent / "undone.log").exists()


def test_directories_of_the_system_are_open_to_all(space: Space) -> None:
    (space.root / "var/lib").rmdir()
    (space.root / "var").rmdir()
    old = os.umask(0o077)
    try:
        space.done("apply", plan=plan(buffers(space)))
    finally:
        os.umask(old)
    modes = {
        path: (space.root / path).stat().st_mode & 0o777
        for path in ("var", "var/lib", "var/lib/narrows")
    }
    assert set(modes.values()) == {0o755}, modes
    assert (space.root / "var/lib/narrows/tune").stat().st_mode & 0o777 == 0o700
    space.done("revert")


FILL = (
    "dd if=/dev/zero of={0}/fill bs=4096 2> /dev/null || :\n"
    "if dd if=/dev/zero of={0}/more bs=4096 count=1 2> /dev/null; then exit 9; fi"
)


@pytest.mark.parametrize("plans", [1, 2], ids=["a plan", "a plan over a plan"])
@pytest.mark.parametrize("disk", ["full", "read-only"])
def test_revert_needs_no_disk_space(space: Space, disk: str, plans: int) -> None:
    if os.geteuid():
        pytest.skip("to mount a disk needs root here")
    before = space.get(WMEM)
    now = " ".join(before.split())
    files = [space.root / f"plan-{n}.json" for n in range(plans)]
    for file, (was, wanted) in zip(
        files, ((now, BUFFERS), (BUFFERS, "4096 16384 7340032")), strict=False
    ):
        file.write_text(json.dumps(plan(change("sysctl", WMEM, was, wanted))), encoding="utf-8")
        file.chmod(0o600)
    var = space.root / "var"
    # The other disk, in memory, is the one that a system has for /run.
    run = space.root / "run"
    run.mkdir(mode=0o755)
    spoil = FILL.format(var) if disk == "full" else f"mount -o remount,ro {var}"
    tune = f"{HOST} tune"
    look = "cat /proc/sys/net/ipv4/tcp_wmem"
    script = "\n".join(
        [
            f"set -e; mount -t tmpfs -o size=256k,mode=755 none {var}; mkdir -m 755 {var}/lib",
            *(f"{tune} apply {file} --root {space.root} > /dev/null" for file in files),
            f"{spoil}\n{look}; {tune} revert --root {space.root}; {look}",
            f"test -e {var}/lib/narrows/tune/journal.json && echo left || echo gone",
            # Later, with room again.
            f"mount -o remount,rw {var}; rm -f {var}/fill {var}/more; {tune} revert --root "
            f"{space.root}; {look}",
            f"test -e {var}/lib/narrows/tune/journal.json && echo left || echo gone; find {run} "
            "-type f",
        ]
    )
    done = subprocess.run(
        [*space.enter, "unshare", "-m", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    changed, reverted, undone, record, again, later, last, *rest = done.stdout.splitlines()
    assert changed.split()[2] in {"8388608", "7340032"}
    assert undone.split() == later.split() == before.split()
    assert len(json.loads(reverted)["reverted"]) == plans
    assert (record, last, rest) == ("gone" if disk == "full" else "left", "gone", [])
    if disk == "full":
        assert json.loads(reverted)["notes"] == []
        assert json.loads(again)["nothing_to_do"]
    else:
        assert "Read-only file system" in json.loads(reverted)["notes"][0]


def test_revert_killed_on_a_full_disk_is_completed_by_another_revert(space: Space) -> None:
    if os.geteuid():
        pytest.skip("to mount a disk needs root here")
    # The classes of a tree come back one after another, and nothing in between is as anybody made
    # it.
    made = [
        "qdisc add dev v0 root handle 1: htb default 20",
        "class add dev v0 parent 1: classid 1:1 htb rate 50mbit burst 15k",
        "class add dev v0 parent 1:1 classid 1:20 htb rate 10mbit ceil 50mbit",
        "qdisc add dev v0 parent 1:20 handle 20: pfifo limit 77",
    ]
    for words in made:
        space.run("tc", *words.split())
    file = space.root / "plan.json"
    file.write_text(json.dumps(plan(queue("pfifo_fast", "htb"), buffers(space))), encoding="utf-8")
    file.chmod(0o600)
    var, at = space.root / "var", f"--root {space.root}"
    (space.root / "run").mkdir(mode=0o755)
    # HTB prints a counter among its options.
    look = (
        "tc qdisc show dev v0 | sed 's/direct_packets_stat [0-9]*//'; tc class show dev v0; "
        "sysctl -n " + WMEM
    )
    script = "\n".join(
        [
            f"mount -t tmpfs -o size=256k,mode=755 none {var} && mkdir -m 755 {var}/lib || exit 8",
            f"before=$({look}); n=1; code=137",
            "while [ $code = 137 ]; do",
            f"{HOST} tune apply {file} --replace {at} > /dev/null || exit 7",
            FILL.format(var),
            f"{HOST} tune revert {at} --stop-after $n > /dev/null; code=$?",
            f"[ $code = 0 ] || [ $code = 137 ] && {HOST} tune revert {at} > /dev/null || exit 6",
            f'[ "$({look})" = "$before" ] || exit 5',
            f"rm {var}/fill; n=$((n + 1)); done; echo $n",
        ]
    )
    done = subprocess.run(
        [*space.enter, "unshare", "-m", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    (steps,) = done.stdout.split()
    assert int(steps) > 5


def test_a_journal_of_an_earlier_version_is_reverted(space: Space) -> None:
    before = space.seen()
    space.done("apply", plan=plan(buffers(space)))
    journal = json.loads(space.journal().read_text(encoding="utf-8"))
    del journal["namespace"]
    space.journal().write_text(json.dumps(journal), encoding="utf-8")
    assert space.done("verify")["so"]
    space.done("revert")
    assert space.seen() == before


def test_a_previous_file_is_restored_on_a_full_disk(space: Space) -> None:
    if os.geteuid():
        pytest.skip("to mount a disk needs root here")
    path = "/etc/sysctl.d/99-narrows.conf"
    old, new = "# as it was\n", "# as it is now, and longer than before\n"
    wanted = plan(
        change("file", path, {"text": old, "mode": "0644"}, {"text": new, "mode": "0644"}),
        buffers(space),
    )
    file = space.root / "plan.json"
    file.write_text(json.dumps(wanted), encoding="utf-8")
    file.chmod(0o600)
    etc = space.root / "etc"
    script = "\n".join(
        [
            f"set -e; mount -t tmpfs -o size=256k,mode=755 none {etc}; mkdir -m 755 {etc}/sysctl.d",
            f"printf '{old}' > {space.root}{path}; chmod 644 {space.root}{path}",
            f"{HOST} tune apply {file} --root {space.root} > /dev/null",
            FILL.format(etc),
            f"{HOST} tune revert --root {space.root} > /dev/null; cat {space.root}{path}; ls -A "
            f"{etc}/sysctl.d",
        ]
    )
    done = subprocess.run(
        [*space.enter, "unshare", "-m", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{old}99-narrows.conf\n"


def test_if_a_file_cannot_be_restored_everything_else_is(space: Space) -> None:
    if os.geteuid():
        pytest.skip("to mount a disk needs root here")
    whole = everything(space)
    file = space.root / "plan.json"
    file.write_text(json.dumps(whole), encoding="utf-8")
    file.chmod(0o600)
    before = space.seen()
    etc, tune = space.root / "etc", f"{HOST} tune"
    script = "\n".join(
        [
            f"mount --bind {etc} {etc}",
            f"{tune} apply {file} --root {space.root} > /dev/null || exit 1",
            f"mount -o remount,bind,ro {etc}; {tune} revert --root {space.root}; echo $?",
            "cat /proc/sys/net/ipv4/tcp_wmem",
            f"mount -o remount,bind,rw {etc}; {tune} revert --root {space.root} > /dev/null",
        ]
    )
    done = subprocess.run(
        [*space.enter, "unshare", "-m", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    code, wmem = done.stdout.splitlines()
    assert code == "1"
    assert "Read-only file system" in done.stderr
    assert "everything else was restored" in done.stderr
    assert f"net.ipv4.tcp_wmem:{wmem}".split(":")[1] in "".join(before["settings"])
    assert space.seen() == before
