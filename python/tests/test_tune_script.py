"""`narrows tune`: the scripts that it writes, the collector, other hosts and namespaces."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path as File

import pytest
from conftest import NARROWS, Cli
from test_tune import NAMES, read

from narrows.errors import NarrowsError
from narrows.tune.collect import collect, facts, host, script
from narrows.tune.facts import parse
from narrows.tune.plan import Ask, Plan
from narrows.tune.planner import plan
from narrows.tune.script import script as shell_script

SHELLS = [words for words in (["dash"], ["busybox", "sh"]) if shutil.which(words[0])]


shells = pytest.mark.parametrize("sh", SHELLS, ids=" ".join)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "sysctl", "target": "net.ipv4.tcp_ecn", "from": "2", "to": "1; reboot"},
        {"kind": "sysctl", "target": "kernel.core_pattern", "from": "core", "to": "x"},
        {"kind": "module", "target": "a b", "from": "absent", "to": "loaded"},
        {
            "kind": "file",
            "target": "/etc/passwd",
            "from": None,
            "to": {"text": "x", "mode": "0644"},
        },
        {
            "kind": "file",
            "target": "/etc/x/../narrows",
            "from": None,
            "to": {"text": "x", "mode": "0644"},
        },
        {
            "kind": "file",
            "target": "/etc/a.d/99-narrows.conf",
            "from": None,
            "to": {"text": "x\0", "mode": "0644"},
        },
        {
            "kind": "route",
            "target": {"family": "inet", "table": "main", "prefix": "default"},
            "from": None,
            "to": ["default", "dev", "a;b", "congctl", "bbr"],
        },
        {
            "kind": "qdisc",
            "target": {"dev": "-x", "parent": "root"},
            "from": None,
            "to": {"kind": "fq", "handle": None, "options": {}},
        },
        {"kind": "package", "target": "x;y", "from": "absent", "to": "installed"},
        {"kind": "uci", "target": "sqm.a.b", "from": None, "to": "$(x)"},
        {"kind": "shell", "target": "x", "from": "", "to": ""},
    ],
)
def test_a_plan_that_was_tampered_with_is_no_script(change: dict[str, object]) -> None:
    made = plan(read("debian-12"), Ask(cc="bbr")).json()
    made["changes"] = [change]
    with pytest.raises(NarrowsError):
        shell_script(Plan.of(made))


@shells
@pytest.mark.parametrize("name", NAMES)
def test_each_script_is_one_for_a_small_shell(sh: list[str], name: str) -> None:
    text = shell_script(plan(read(name), Ask(cc="bbr", qdisc="fq", ecn="on", install=True)))
    done = subprocess.run([*sh, "-n"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    asked = subprocess.run([*sh, "-s"], input=text, capture_output=True, text=True, check=False)
    assert (asked.returncode, "apply | revert | verify" in asked.stderr) == (2, True)


@shells
def test_the_collector_reads_a_tree_and_changes_nothing(sh: list[str], tmp_path: File) -> None:
    tree = tmp_path / "tree"
    for path, text in {
        "proc/sys/kernel/osrelease": "5.15.1-test\n",
        "proc/sys/net/ipv4/tcp_congestion_control": "cubic\n",
        "proc/sys/net/ipv4/tcp_fastopen_key": "secret\n",
        "proc/sys/net/core/default_qdisc": "fq_codel\n",
        "lib/modules/5.15.1-test/modules.dep": "kernel/net/ipv4/tcp_bbr.ko.zst:\n",
        "etc/sysctl.d/90-x.conf": "# a remark\nnet.ipv4.tcp_ecn = 1",
        "sys/class/net/eth0/ifindex": "2\n",
        "sys/class/net/eth0/operstate": "up\n",
        "sys/class/net/$(reboot)/ifindex": "3\n",
    }.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text, encoding="utf-8")
    before = sorted((str(p), p.stat().st_mtime_ns) for p in tree.rglob("*"))
    done = subprocess.run(
        [*sh, "-s", str(tree)],
        input=script(),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted((str(p), p.stat().st_mtime_ns) for p in tree.rglob("*")) == before
    assert "secret" not in done.stdout
    seen = parse(done.stdout)
    assert (seen.release, seen.default_cc, seen.cc_states(["bbr"])["bbr"]) == (
        "5.15.1-test",
        "cubic",
        "loadable",
    )
    assert [(line["file"], line["key"], line["value"]) for line in seen.boot] == [
        ("etc/sysctl.d/90-x.conf", "net.ipv4.tcp_ecn", "1")
    ]
    assert {one.name for one in seen.interfaces} == {"eth0", "$(reboot)"}
    assert plan(seen, Ask(cc="bbr")).json()["changes"][0]["target"] == "tcp_bbr"


def test_the_collector_has_the_same_output_in_every_shell() -> None:
    told = []
    for sh in SHELLS:
        done = subprocess.run(
            [*sh, "-s"], input=script(), capture_output=True, text=True, check=True
        )
        seen = dict(parse(done.stdout))
        # What changes from one moment to the next.
        for moving in ("interfaces", "sockets", "spaces", "container", "debug"):
            seen.pop(moving)
        told.append(seen)
    assert all(each == told[0] for each in told)


def test_invalid_or_truncated_output_of_the_collector_is_an_error() -> None:
    with pytest.raises(NarrowsError, match="not the output of the script"):
        parse("hello", "x.txt")
    with pytest.raises(NarrowsError, match="ends in the middle"):
        parse("@ collector 1\n@ who\n|uid 0\n", "x.txt")
    with pytest.raises(NarrowsError, match="version"):
        parse("@ collector 2\n@ end\n", "x.txt")


def test_another_host_over_ssh_with_nothing_installed_there(
    tmp_path: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shutil.which("busybox"):
        pytest.skip("busybox is not installed")
    ssh = tmp_path / "ssh"
    ssh.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/words\nexec busybox sh -s\n', encoding="utf-8"
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    seen = facts(ssh="root@router")
    assert seen.release == File("/proc/sys/kernel/osrelease").read_text(encoding="utf-8").strip()
    assert (tmp_path / "words").read_text(encoding="utf-8").splitlines() == [
        "-T",
        "--",
        "root@router",
        "sh",
    ]


@pytest.mark.parametrize("name", ["-oProxyCommand=id", "a b", "a;b", "$(id)", "", "a@-b", "x\ny"])
def test_a_name_that_ssh_or_a_shell_would_misread_is_refused(name: str) -> None:
    with pytest.raises(NarrowsError):
        host(name)


def in_namespaces(text: str, **env: str) -> str:
    """What a script prints, run as root of namespaces of its own: users, network, mounts,
    processes.

    They are a whole container, with the mark of a manager, so that files for the next boot belong
    to it.
    """
    if not shutil.which("unshare") or not shutil.which("ip") or not shutil.which("tc"):
        pytest.skip("unshare and iproute2 are not all installed")
    apart = ["unshare", "-Urnmpf", "--mount-proc"]
    able = subprocess.run([*apart, "true"], capture_output=True, check=False)
    if able.returncode:
        pytest.skip("user namespaces are forbidden here")
    mark = "mount -t tmpfs none /run\nmkdir /run/systemd\necho lxc > /run/systemd/container\n"
    prepared = f"set -e\n{mark}mount -t tmpfs none /etc/sysctl.d\nip link set lo up\n"
    done = subprocess.run(
        [*apart, "sh", "-c", prepared + text],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"NARROWS": str(NARROWS)} | env,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def other_cc() -> tuple[str, str]:
    """The default here, and another one that this kernel has."""
    here = File("/proc/sys/net/ipv4/tcp_congestion_control").read_text(encoding="utf-8").strip()
    return here, "reno" if here != "reno" else "cubic"


_STATE = "cat /proc/sys/net/ipv4/tcp_congestion_control; tc qdisc show dev v0; ls -A /etc/sysctl.d"


@shells
def test_a_script_applies_and_reverts_a_plan(sh: list[str], tmp_path: File) -> None:
    _, other = other_cc()
    words = (
        f"$NARROWS tune plan --cc {other} --qdisc pfifo --dev v0 --replace --sh "
        f"{tmp_path}/plan.sh --json > /dev/null"
    )
    run = f"{' '.join(sh)} {tmp_path}/plan.sh"
    out = in_namespaces(
        "ip link add v0 type veth peer name v1; ip link set v0 up; ip link set v1 up\n"
        f"echo == before; {_STATE}; echo == apply\n{words}\n{run} apply\n{run} verify\n{run} "
        "apply\n"
        f"echo == after; {_STATE}; cat /etc/sysctl.d/99-narrows.conf\n"
        f"{run} revert\necho == end; {_STATE}; echo ==\n{run} verify 2> /dev/null && exit 1 || :\n",
        SH=" ".join(sh),
    )
    assert "failed" not in out
    before, end = (
        re.findall(rf"^== {name}\n(.*?)^==", out, re.DOTALL | re.MULTILINE)
        for name in ("before", "end")
    )
    assert before == end != []
    after = out.partition("== after")[2].partition("==")[0]
    assert after.split()[0] == other
    assert "qdisc pfifo 8" in after
    assert f"net.ipv4.tcp_congestion_control = {other}" in after
    assert "all changes are in effect" in out
    assert "already in effect" in out


@shells
def test_a_script_changes_and_reverts_each_queue_of_mq(sh: list[str], tmp_path: File) -> None:
    run = f"{' '.join(sh)} {tmp_path}/plan.sh"
    show = "tc qdisc show dev i0 | sort"
    out = in_namespaces(
        # The default of a card with three queues; ifb is the only virtual device with this default.
        "ip link add i0 numtxqueues 3 type ifb && ip link set i0 up || { echo no ifb; exit 0; }\n"
        "mount -t tmpfs none /etc/udev 2> /dev/null && mkdir /etc/udev/rules.d || { echo no udev; "
        "exit 0; }\n"
        f"echo == before; {show}; echo ==\n$NARROWS tune plan --qdisc bfifo --dev i0 --sh "
        f"{tmp_path}/plan.sh > "
        f"/dev/null\n"
        f"{run} apply\necho == after; {show}; cat /etc/udev/rules.d/*; echo ==\n{run} "
        "revert\necho == end; "
        f"{show}; echo ==\n"
    )
    if "== before" not in out:
        pytest.skip(f"this machine has {out.strip()}")
    before, after, end = (
        re.findall(rf"^== {name}\n(.*?)^==", out, re.DOTALL | re.MULTILINE)[0]
        for name in ("before", "after", "end")
    )
    if "qdisc mq 0: root" not in before:
        pytest.skip(f"here it has something else by default: {before}")
    assert before == end
    assert len(re.findall(r"qdisc bfifo [0-9a-f]+: parent 1:[123] ", after)) == 3
    assert "parent 1:3 bfifo" in after


@shells
def test_a_script_that_fails_puts_everything_back(sh: list[str], tmp_path: File) -> None:
    here, other = other_cc()
    made = {
        "title": "x",
        "needs": [],
        "netns": None,
        "changes": [
            {
                "kind": "sysctl",
                "target": "net.ipv4.tcp_congestion_control",
                "from": here,
                "to": other,
            },
            {
                "kind": "file",
                "target": "/etc/sysctl.d/99-narrows.conf",
                "from": None,
                "to": {"text": "a = 'b'\n", "mode": "0644"},
            },
            {
                "kind": "qdisc",
                "target": {"dev": "nonesuch", "parent": "root"},
                "from": None,
                "to": {"kind": "pfifo", "handle": None, "options": {}},
            },
        ],
    }
    (tmp_path / "plan.sh").write_text(shell_script(Plan.of(made)), encoding="utf-8")
    run = f"{' '.join(sh)} {tmp_path}/plan.sh"
    out = in_namespaces(
        f"{run} apply 2>&1 && exit 1 || :\ncat /proc/sys/net/ipv4/tcp_congestion_control; ls -A "
        "/etc/sysctl.d\n"
        # A host that is neither as before nor as wanted is left alone.
        "echo 1 > /proc/sys/net/ipv4/tcp_ecn; echo x > /etc/sysctl.d/99-narrows.conf\n"
        f"{run} apply 2>&1 && exit 1 || :\ncat /etc/sysctl.d/99-narrows.conf\n"
        # A link is not followed.
        f"rm /etc/sysctl.d/*; echo mine > {tmp_path}/mine; ln -s {tmp_path}/mine "
        "/etc/sysctl.d/99-narrows.conf\n"
        f"{run} apply > /dev/null 2>&1 && exit 1 || :\ncat {tmp_path}/mine\n"
    )
    assert "all changes are reverted" in out
    assert f"all changes are reverted\n{here}\n" in out
    assert "its state is not the one in the plan" in out
    assert out.endswith("x\nmine\n")


def test_an_audit_sees_its_own_namespace() -> None:
    here, other = other_cc()
    out = in_namespaces(
        f"echo {other} > /proc/sys/net/ipv4/tcp_congestion_control\n"
        "ip link add v0 type veth peer name v1; ip link set v0 up\n"
        "tc qdisc replace dev v0 root tbf rate 1mbit burst 10k latency 50ms\n"
        "$NARROWS tune audit --json"
    )
    findings = {(f["id"], f["subject"]): f for f in json.loads(out)["findings"]}
    assert findings["cc-default", ""]["what"].startswith(f"new connections use {other}")
    assert "tbf, configured by an administrator" in findings["qdisc", "v0"]["what"]
    assert not any(subject == "eth0" for _, subject in findings)
    assert here != other


def test_an_audit_counts_the_congestion_controls_of_connections() -> None:
    if not shutil.which("ss"):
        pytest.skip("ss is not installed")
    _, other = other_cc()
    text = (
        "import socket, subprocess\n"
        "held = []\n"
        "listener = socket.create_server(('127.0.0.1', 0))\n"
        "for _ in range(3):\n"
        "    near = socket.socket()\n"
        f"    near.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b'{other}')\n"
        "    near.connect(listener.getsockname())\n"
        "    held += [near, listener.accept()]\n"
        f"print(subprocess.run(['{NARROWS}', 'tune', 'audit', '--json'], capture_output=True, "
        "text=True).stdout)\n"
    )
    out = in_namespaces(f'{sys.executable} -c "$TEXT"', TEXT=text)
    (finding,) = [f for f in json.loads(out)["findings"] if f["id"] == "cc-sockets"]
    assert f"3 {other}" in finding["what"]


def test_a_plan_for_a_named_namespace(tmp_path: File, cli: Cli) -> None:
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("namespaces with names are root's, and need iproute2")
    name = f"narrows-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        pytest.skip("namespaces cannot be made here")
    try:
        _, other = other_cc()
        seen = cli("tune", "plan", "--cc", other, "--netns", name, "--json")
        made = json.loads(seen.stdout)
        assert made["netns"] == name
        assert [(c["kind"], c["to"], c["persist"]) for c in made["changes"]] == [
            ("sysctl", other, None)
        ]
        assert "The changes last as long as the namespace." in made["effects"]
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def test_no_privilege_is_needed() -> None:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("to give privilege up one must have it")
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-s"]
    done = subprocess.run(words, input=script(), capture_output=True, text=True, check=True)
    seen = parse(done.stdout)
    assert seen.uid == 65534
    assert seen.default_cc is not None
    assert collect().startswith("@ collector 1\n")
    assert sys.platform.startswith("linux")
