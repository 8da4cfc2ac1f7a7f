"""Two networks with the same files: a host and a network namespace of it, with interfaces of the
same names.

The host is a whole container that is made here: network, mounts, processes, a container manager's
mark, file systems in memory where narrows writes. This machine is never changed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import NARROWS
from test_tune_host import CC, Json, Space, change, other_cc, plan

from narrows.host.live import HOST

ALLOWED = "net.ipv4.tcp_allowed_congestion_control"
CONF = "/etc/sysctl.d/99-narrows.conf"
DEVICE = "at0"

PREPARE = f"""
set -e
mount -t tmpfs none /run
mkdir -p /run/systemd /run/netns
echo lxc > /run/systemd/container
mount -t tmpfs -o mode=755 none /etc/sysctl.d
mount -t tmpfs -o mode=755 none /var/lib
ip link set lo up
ip link add {DEVICE} type veth peer name at1
ip link set {DEVICE} up
ip netns add qt
ip netns exec qt ip link set lo up
ip netns exec qt ip link add {DEVICE} type veth peer name at1
ip netns exec qt ip link set {DEVICE} up
echo
exec sleep 600
"""

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("ip", "tc", "unshare", "nsenter"))),
    reason="there is no iproute2, or no util-linux",
)


class Host:
    """A host, and its network namespace `qt`."""

    def __init__(self) -> None:
        """Makes it."""
        user = [] if os.geteuid() == 0 else ["-Ur"]
        words = ["unshare", *user, "-nmpf", "--kill-child", "--mount-proc"]
        words += ["setsid", "sh", "-c", PREPARE]
        self.holder = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.holder.stdout is not None
        assert self.holder.stderr is not None
        if not self.holder.stdout.readline():
            said = self.holder.stderr.read().decode()
            self.holder.wait()
            pytest.skip(f"no container can be made here: {said.strip()}")
        task = Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children")
        first = task.read_text(encoding="ascii").split()[0]
        entered = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
        self.enter = ["nsenter", "-t", first, *entered, "-m", "-n", "-p", "--"]

    def end(self) -> None:
        """Takes it away."""
        with self.holder:
            self.holder.kill()

    def run(
        self, *words: str | Path, netns: str | None = None, given: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the host, or in a network namespace of it."""
        inner = [] if netns is None else ["ip", "netns", "exec", netns]
        command = [*self.enter, *inner, *words]
        return subprocess.run(
            command, input=given, capture_output=True, text=True, check=False, timeout=60
        )

    def tune(self, *words: str, netns: str | None = None, plan: Json | None = None) -> Json:
        """The JSON output of `narrows-host tune`, with its exit code and messages."""
        done = self.run(
            HOST, "tune", *words, netns=netns, given="" if plan is None else json.dumps(plan)
        )
        found: Json = json.loads(done.stdout) if done.stdout.strip() else {}
        return found | {"code": done.returncode, "said": done.stderr}

    def seen(self, netns: str | None = None) -> list[str]:
        """Settings and queue disciplines of one of both."""
        show = (
            "cd /proc/sys/net/ipv4; grep -H . tcp_congestion_control tcp_wmem; tc qdisc show "
            f"dev {DEVICE}"
        )
        return self.run("sh", "-c", show, netns=netns).stdout.splitlines()

    def files(self) -> list[str]:
        """The files of the host that survive a boot."""
        return sorted(self.run("find", "/etc/sysctl.d", "/var/lib", "-type", "f").stdout.split())

    def records(self) -> list[str]:
        """Journals of network namespaces."""
        return self.run("find", "/run/narrows", "-name", "journal.json").stdout.split()


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host()
    yield made
    made.end()


def whole(host: Host) -> Json:
    """A plan for either of them: a default, a queue discipline, a file."""
    now = host.run("sysctl", "-n", CC).stdout.strip()
    others = [name for name in host.run("sysctl", "-n", ALLOWED).stdout.split() if name != now]
    if not others:
        pytest.skip("this kernel lets a namespace choose no second congestion control")
    was = {"kind": "noqueue", "handle": "0:", "options": {}}
    wanted = {"kind": "pfifo", "handle": None, "options": {}}
    return plan(
        change("qdisc", {"dev": DEVICE, "parent": "root"}, was, wanted),
        change("sysctl", CC, now, others[0]),
        change("file", CONF, None, {"text": f"{CC} = {others[0]}\n", "mode": "0644"}),
    )


@pytest.mark.parametrize("inside", [False, True], ids=["--netns", "ip netns exec"])
def test_a_namespace_is_changed_without_the_host_and_undone_only_there(
    host: Host, inside: bool
) -> None:
    wanted = whole(host)
    before, inner = host.seen(), host.seen("qt")
    words = [] if inside else ["--netns", "qt"]
    done = host.tune("apply", *words, netns="qt" if inside else None, plan=wanted)
    assert done["code"] == 0, done
    assert [row["id"] for row in done["left"]] == [f"file:{CONF}"]
    changed = host.seen("qt")
    assert changed != inner
    assert (host.seen(), host.files()) == (before, [])
    (record,) = host.records()

    # On the host nothing was applied: each command says where, and leaves the record and the
    # namespace alone.
    for verb in ("revert", "verify", "confirm"):
        refused = host.tune(verb)
        assert refused["code"] == 2, refused
        assert f"write: narrows tune {verb} --netns qt" in refused["said"]
        assert host.tune(verb, "--force" if verb == "revert" else "--last")["code"] == 2
    assert (host.records(), host.seen("qt"), host.seen()) == ([record], changed, before)

    # The same on the host, with interfaces of the same names: two records, undone apart.
    outer = host.tune("apply", plan=wanted)
    assert outer["code"] == 0, outer
    assert outer["left"] == []
    assert host.files() == [CONF, "/var/lib/narrows/tune/journal.json"]
    assert host.tune("verify")["so"]
    reverted = host.tune("revert")
    assert reverted["code"] == 0, reverted
    assert [row["revert"] for row in reverted["elsewhere"]] == ["narrows tune revert --netns qt"]
    assert (host.seen(), host.files(), host.seen("qt")) == (before, [], changed)

    assert host.tune("verify", netns="qt")["so"]
    assert host.tune("verify", "--netns", "qt")["so"]
    back = host.tune("revert", "--netns", "qt") if inside else host.tune("revert", netns="qt")
    assert back["code"] == 0, back
    assert (host.seen("qt"), host.records()) == (inner, [])
    assert host.tune("revert")["nothing_to_do"]


def test_a_plan_of_the_host_is_not_reverted_from_a_namespace(host: Host) -> None:
    wanted = whole(host)
    before = host.seen("qt")
    assert host.tune("apply", plan=wanted)["code"] == 0
    changed = host.seen()
    refused = host.tune("revert", netns="qt")
    assert refused["code"] == 2
    assert "write: nsenter --net=/proc/1/ns/net narrows tune revert\n" in refused["said"]
    assert (host.seen(), host.seen("qt")) == (changed, before)
    assert host.files() == [CONF, "/var/lib/narrows/tune/journal.json"]
    # The command that it says works.
    words = ["nsenter", "--net=/proc/1/ns/net", str(HOST), "tune", "revert"]
    assert host.run(*words, netns="qt").returncode == 0
    assert host.files() == []


def test_a_namespace_without_a_name_is_reached_by_a_process(host: Host) -> None:
    now, then = (row.split("=") for row in ("net.ipv4.tcp_sack=1", "net.ipv4.tcp_sack=0"))
    wanted = plan(change("sysctl", now[0], now[1], then[1]))
    script = f"{HOST} tune apply > /dev/null && cat /proc/sys/net/ipv4/tcp_sack && sleep 60"
    child = subprocess.Popen(
        [*host.enter, "unshare", "-n", "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(wanted))
        child.stdin.close()
        assert child.stdout.readline() == "0\n"
        refused = host.tune("revert")
        assert refused["code"] == 2
        command = re.search(
            r"write: (nsenter --net=/proc/\d+/ns/net) narrows (tune revert)\n", refused["said"]
        )
        assert command is not None, refused
        assert host.run(*command[1].split(), HOST, *command[2].split()).returncode == 0
        assert host.records() == []
        child.kill()


def test_a_new_namespace_with_the_name_of_an_earlier_one_is_distinguished(host: Host) -> None:
    wanted = whole(host)
    assert host.tune("apply", netns="qt", plan=wanted)["code"] == 0
    host.run(
        "sh",
        "-c",
        f"ip netns del qt; ip netns add qt; ip netns exec qt ip link add {DEVICE} type veth peer "
        "name at1",
    )
    host.run("sh", "-c", f"ip link set lo up; ip link set {DEVICE} up", netns="qt")
    before = host.seen("qt")
    assert host.tune("revert", netns="qt")["nothing_to_do"]
    assert host.tune("verify", netns="qt")["code"] == 2
    assert host.tune("revert")["nothing_to_do"], "an ended namespace does not block the host"
    assert host.seen("qt") == before
    assert host.tune("apply", netns="qt", plan=wanted)["code"] == 0
    assert host.tune("revert", netns="qt")["code"] == 0
    assert host.seen("qt") == before


def test_the_journal_of_a_restarted_container_is_reverted_only_with_force(host: Host) -> None:
    before = host.seen()
    assert host.tune("apply", plan=whole(host))["code"] == 0
    edit = (
        "import json, pathlib\n"
        "file = pathlib.Path('/var/lib/narrows/tune/journal.json')\n"
        "journal = json.loads(file.read_text())\n"
        "journal['namespace'] |= {'inode': 1, 'cookie': None}\n"
        "file.write_text(json.dumps(journal))\n"
    )
    assert host.run(sys.executable, "-c", edit).returncode == 0
    for verb in ("verify", "confirm", "revert"):
        refused = host.tune(verb)
        assert refused["code"] == 2
        assert "narrows tune revert --force" in refused["said"]
    assert (
        host.tune("apply", plan=plan(change("sysctl", "net.ipv4.tcp_sack", "1", "0")))["code"] == 2
    )
    assert host.tune("revert", "--force")["code"] == 0
    assert (host.seen(), host.files()) == (before, [])


def test_a_tree_of_one_namespace_is_not_changed_from_another(tmp_path: Path) -> None:
    one = Space(tmp_path / "root")
    try:
        now, then = other_cc(one)
        one.done("apply", plan=plan(change("sysctl", CC, now, then)))
        other = Space(tmp_path / "other")
        try:
            other.root = one.root
            for verb in ("revert", "verify", "confirm"):
                refused = other.tune(verb)
                assert refused.returncode == 2
                assert "nothing was changed" in refused.stderr
            assert one.journal().exists()
        finally:
            other.end()
        one.done("revert")
    finally:
        one.end()


def test_a_plan_in_a_namespace_is_confirmed_with_the_printed_command(host: Host) -> None:
    wanted = whole(host)
    given = json.dumps(wanted)
    words = [NARROWS, "tune", "apply", "-", "--confirm-within", "10min"]
    done = host.run(*words, "--netns", "qt", given=given)
    assert done.returncode == 0, done.stderr
    assert "unless you run: narrows tune confirm --netns qt\n" in done.stdout
    assert f"Left out: file:{CONF}" in done.stdout
    verified = host.run(NARROWS, "tune", "verify", "--netns", "qt")
    assert "unless you run: narrows tune confirm --netns qt\n" in verified.stdout
    assert host.run(NARROWS, "tune", "confirm", "--netns", "qt").returncode == 0
    assert host.files() == []
    assert host.run(NARROWS, "tune", "revert", "--netns", "qt").stdout.endswith(
        "All previous settings are restored.\n"
    )


def test_prove_in_a_namespace_changes_and_undoes_only_that(host: Host) -> None:
    wanted = whole(host)
    before, inner = host.seen(), host.seen("qt")
    script = (
        "import json, sys\n"
        "from narrows.tune.apply import Place\n"
        "from narrows.tune.plan import Plan\n"
        "from narrows.tune.prove import changed\n"
        "with changed(Plan.of(json.load(sys.stdin)), Place(), replace=False):\n"
        f"    print(open('/proc/sys/{CC.replace('.', '/')}').read().strip())\n"
    )
    done = host.run(sys.executable, "-c", script, netns="qt", given=json.dumps(wanted))
    assert done.stdout.strip() == wanted["changes"][1]["to"], done.stderr
    assert (host.seen(), host.seen("qt")) == (before, inner)
    assert (host.files(), host.records()) == ([], [])


def test_a_plan_in_a_namespace_has_no_files_and_reports_restrictions(host: Host) -> None:
    wanted = whole(host)
    cc = wanted["changes"][1]["to"]
    for words, netns in ((["--netns", "qt"], None), ([], "qt")):
        done = host.run(NARROWS, "tune", "plan", "--cc", cc, "--json", *words, netns=netns)
        assert done.returncode == 0, done.stderr
        made = json.loads(done.stdout)
        assert {row["kind"] for row in made["changes"]} == {"sysctl"}
        assert all(row["persist"] is None for row in made["changes"])
    outer = json.loads(host.run(NARROWS, "tune", "plan", "--cc", cc, "--json").stdout)
    assert "file" in {row["kind"] for row in outer["changes"]}, (
        "of a whole container they are its own"
    )

    available = host.run("sysctl", "-n", "net.ipv4.tcp_available_congestion_control").stdout.split()
    allowed = host.run("sysctl", "-n", ALLOWED).stdout.split()
    now = wanted["changes"][1]["from"]
    restricted = [name for name in available if name not in {*allowed, now}]
    if not restricted:
        pytest.skip("this kernel has no restricted congestion control")
    done = host.run(NARROWS, "tune", "plan", "--cc", restricted[0], "--netns", "qt")
    assert done.returncode == 1
    assert f"{restricted[0]} is restricted" in done.stdout
    assert f"sysctl -w '{ALLOWED}=" in done.stdout
    # A plan of another host fails with the same message before any change.
    late = host.tune("apply", netns="qt", plan=plan(change("sysctl", CC, now, restricted[0])))
    assert late["code"] == 2
    assert "sysctl -w" in late["said"]


def test_a_module_is_not_loaded_for_the_host_from_a_namespace(host: Host) -> None:
    done = host.tune(
        "apply", netns="qt", plan=plan(change("module", "tcp_nonesuch", "absent", "loaded"))
    )
    assert done["code"] == 2
    assert "outside of it: modprobe tcp_nonesuch" in done["said"]


def test_a_script_leaves_the_files_of_the_host_alone_in_a_namespace(
    host: Host, tmp_path: Path
) -> None:
    wanted = whole(host)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(wanted), encoding="utf-8")
    make = (
        "import json, sys; from narrows.tune.plan import Plan\n"
        "from narrows.tune.script import script\n"
        "print(script(Plan.of(json.load(sys.stdin) | {'needs': []})))"
    )
    made = host.run(sys.executable, "-c", make, given=json.dumps(wanted))
    assert made.returncode == 0, made.stderr
    for netns, files in (("qt", []), (None, [CONF])):
        before = host.seen(netns)
        done = host.run("sh", "-s", "apply", netns=netns, given=made.stdout)
        assert done.returncode == 0, done.stderr
        assert ("not changed" in done.stdout) == (netns is not None)
        assert host.files() == files
        assert host.run("sh", "-s", "verify", netns=netns, given=made.stdout).returncode == 0
        assert host.run("sh", "-s", "revert", netns=netns, given=made.stdout).returncode == 0
        assert (host.seen(netns), host.files()) == (before, [])


def test_namespaces_inside_a_container_with_a_process_1_of_their_own_own_no_files(
    host: Host,
) -> None:
    wanted = whole(host)
    before = host.seen()
    # `unshare` shares the files of the container, and its mark.
    prepare = (
        f"ip link set lo up; ip link add {DEVICE} type veth peer name at1; "
        f"ip link set {DEVICE} up; {HOST} tune apply; echo; exec sleep 60"
    )
    child = subprocess.Popen(
        [*host.enter, "unshare", "-nmpf", "--kill-child", "--mount-proc", "sh", "-c", prepare],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(wanted))
        child.stdin.close()
        assert [row["id"] for row in json.loads(child.stdout.readline())["left"]] == [
            f"file:{CONF}"
        ]
        assert (host.seen(), host.files()) == (before, [])
        refused = host.tune("revert")
        assert refused["code"] == 2
        command = re.search(
            r"write: (nsenter --net=/proc/\d+/ns/net) narrows (tune revert)\n", refused["said"]
        )
        assert command is not None, refused
        assert host.run(*command[1].split(), HOST, *command[2].split()).returncode == 0
        assert (host.records(), host.files(), host.seen()) == ([], [], before)
        child.kill()


def test_a_container_with_read_only_settings_remains_unchanged(host: Host) -> None:
    wanted = whole(host)
    # As Docker mounts them: settings read-only, and single files of /etc from outside.
    mount = (
        "for file in hosts hostname resolv.conf; do "
        "test -e /etc/$file && cp /etc/$file /run/$file && mount --bind /run/$file /etc/$file; "
        "done; mount -o bind,ro /proc/sys /proc/sys; mount -t sysfs -o ro none /sys; true"
    )
    assert host.run("sh", "-c", mount).returncode == 0
    before, files = host.seen(), host.files()
    outside = {name: Path("/etc", name).read_bytes() for name in ("hosts", "resolv.conf")}
    refused = host.tune("apply", plan=wanted)
    assert refused["code"] not in {0, 101}, refused
    assert "Read-only file system" in refused["said"]
    assert (host.seen(), host.files()) == (before, files)
    assert host.tune("revert")["nothing_to_do"]
    # Queue disciplines need no settings.
    done = host.tune("apply", plan={**wanted, "changes": wanted["changes"][:1]})
    assert done["code"] == 0, done
    assert host.seen() != before
    assert host.tune("revert")["code"] == 0
    assert (host.seen(), host.files()) == (before, files)
    assert outside == {name: Path("/etc", name).read_bytes() for name in outside}


def test_a_plan_in_a_shell_inside_a_container_is_reverted_only_there(
    host: Host, tmp_path: Path
) -> None:
    wanted = whole(host)
    wanted["changes"][0]["target"]["dev"] = "e0"
    plan_file, applied, done = (tmp_path / name for name in ("plan.json", "applied", "done"))
    plan_file.write_text(json.dumps(wanted), encoding="utf-8")
    # The host of the container has an interface of the same name.
    host.run("ip", "link", "add", "e0", "type", "veth", "peer", "name", "e1")
    host.run("ip", "link", "set", "e0", "up")
    before = host.run("tc", "qdisc", "show", "dev", "e0").stdout
    inside = (
        f"{HOST} tune apply < {plan_file} > {applied}.tmp; mv {applied}.tmp {applied}; "
        f"until test -e {done}; do sleep 0.1; done; {HOST} tune revert"
    )
    shell = [NARROWS, "shell", "--rate", "20Mbit", "--quiet", "--", "sh", "-c", inside]
    child = subprocess.Popen(
        [*host.enter, *map(str, shell)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with child:
        for _ in range(300):
            if applied.exists() or child.poll() is not None:
                break
            time.sleep(0.1)
        if child.poll() is not None:
            assert child.stderr is not None
            pytest.skip(f"no shell in a container here: {child.stderr.read().strip()[-200:]}")
        told = json.loads(applied.read_text(encoding="utf-8"))
        assert [row["id"] for row in told["left"]] == [f"file:{CONF}"]
        assert (host.files(), host.run("tc", "qdisc", "show", "dev", "e0").stdout) == ([], before)
        refused = host.tune("revert")
        command = re.search(
            r"write: (nsenter --net=/proc/\d+/ns/net) narrows (tune revert)\n", refused["said"]
        )
        assert refused["code"] == 2
        assert command is not None, refused
        done.touch()
        out, said = child.communicate(timeout=60)
        assert child.returncode == 0, said
    assert json.loads(out)
    assert (host.files(), host.records()) == ([], [])
    assert host.run("tc", "qdisc", "show", "dev", "e0").stdout == before
