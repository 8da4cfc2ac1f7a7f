"""Changes of a whole host, its next boot, and their reversal: a user-mode kernel with modules, fq,
fq_codel and cake.

Debian's package `user-mode-linux` has one. Its root is a small tree that is created here: it
contains only copied files of this machine. It boots in a second or two; the tests are skipped if it
is not installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_tune_host import change, plan

from narrows.host.live import HOST
from narrows.tune.plan import Plan
from narrows.tune.shaper import disciplines, modules

KERNEL = shutil.which("linux.uml")
MODULES = Path("/usr/lib/uml/modules")
CC = "net.ipv4.tcp_congestion_control"
ALLOWED = "net.ipv4.tcp_allowed_congestion_control"
QDISC = "net.core.default_qdisc"
WANTED = (
    "tcp_bbr",
    "sch_fq",
    "sch_fq_codel",
    "sch_cake",
    "sch_netem",
    "sch_htb",
    "sch_tbf",
    "sch_ingress",
    "cls_u32",
    "act_mirred",
    "ifb",
    "veth",
    "tcp_diag",
    "inet_diag",
)
LOADED = (
    "for m in tcp_bbr sch_fq; do echo $m $(test -d /sys/module/$m && echo loaded || echo "
    "absent); done"
)

Json = dict[str, Any]

BEGIN = """#!/bin/busybox sh
export PATH=/bin:/sbin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
ip link set lo up
modprobe -q inet_diag; modprobe -q tcp_diag; modprobe -q ifb numifbs=0
for file in /etc/modules-load.d/*.conf; do
    [ -f "$file" ] && grep -v '^#' "$file" | while read -r name; do modprobe -q "$name"; done
done
for file in /etc/sysctl.d/*.conf; do [ -f "$file" ] && sysctl -q -p "$file"; done
ip link add d0 type ifb
ip link set d0 up
ip link add d1 numtxqueues 2 type ifb
ip link set d1 up
say() { echo "<$1>"; shift; "$@" 2>&1; echo; echo "</>"; }
"""
END = "\necho o > /proc/sysrq-trigger; sleep 20\n"

pytestmark = pytest.mark.skipif(
    KERNEL is None or shutil.which("busybox") is None or shutil.which("tc") is None,
    reason="there is no user-mode kernel, or no busybox or tc: apt install user-mode-linux "
    "busybox iproute2",
)


def libraries(program: Path) -> set[Path]:
    told = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return {Path(path) for path in re.findall(r"(/\S+) \(0x", told)}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The root of a host: busybox, ip, tc, this narrows-host, and the kernel's modules."""
    root = tmp_path / "host"
    for folder in (
        "bin",
        "sbin",
        "proc",
        "sys",
        "run",
        "dev",
        "tmp",
        "etc/sysctl.d",
        "var/lib",
        "usr",
    ):
        (root / folder).mkdir(parents=True)
    for name in ("busybox", "tc", "ip"):
        found = Path(str(shutil.which(name)))
        shutil.copy(found.resolve(), root / "bin" / name)
    shutil.copy(HOST, root / "bin/narrows-host")
    for program in (root / "bin").iterdir():
        for library in libraries(program):
            place = root / str(library).lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library.resolve(), place)
    for name in (
        "sh",
        "mount",
        "modprobe",
        "sysctl",
        "cat",
        "grep",
        "ls",
        "sleep",
        "printf",
        "test",
        "kill",
        "find",
        "md5sum",
        "sort",
    ):
        (root / "bin" / name).symlink_to("busybox")
    (root / "sbin/modprobe").symlink_to("../bin/busybox")
    release = next(MODULES.iterdir())
    place = root / "lib/modules" / release.name
    place.mkdir(parents=True, exist_ok=True)
    for file in release.glob("modules.*"):
        shutil.copy(file, place)
    for name in WANTED:
        for file in release.rglob(f"{name}.ko"):
            there = place / file.relative_to(release)
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, there)
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n", encoding="utf-8")
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o755)
    return root


def booted(tree: Path, script: str) -> dict[str, str]:
    """Boot the host, run a script, and return its output under each name."""
    init = tree / "init"
    init.write_text(BEGIN + script + END, encoding="utf-8")
    init.chmod(0o755)
    assert KERNEL is not None
    words = [
        "rootfstype=hostfs",
        f"rootflags={tree}",
        "rw",
        "init=/init",
        "mem=96M",
        "con=null",
        "con0=null,fd:1",
        "quiet",
    ]
    temporary = {**os.environ, "TMPDIR": "/tmp"}
    done = subprocess.run(
        [KERNEL, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        errors="replace", timeout=100,
        check=False, env=temporary, start_new_session=True,
    )  # fmt: skip
    told = dict(re.findall(r"^<([\w ]+)>\r?\n(.*?)\r?\n</>", done.stdout, re.DOTALL | re.MULTILINE))
    if not told:
        pytest.skip(f"the user-mode kernel does not run here: {(done.stdout + done.stderr)[-300:]}")
    return {name: text.replace("\r", "").strip() for name, text in told.items()}


def queue(kind: str, before: str) -> Json:
    target = {"dev": "d0", "parent": "root"}
    found = {"kind": before, "handle": "0:", "options": {}}
    return change("qdisc", target, found, {"kind": kind, "handle": None, "options": {}})


def queues(kind: str) -> list[Json]:
    """The two leaves of a device with two hardware queues; they can be told apart once their root
    has a handle.
    """
    none = {"handle": "0:", "options": {}}
    rows = [("root", {"kind": "mq", **none}, {"kind": "mq", "handle": "1:", "options": {}})]
    leaf = {"kind": kind, "handle": None, "options": {}}
    rows += [(f"1:{n}", {"kind": "pfifo_fast", **none}, leaf) for n in (1, 2)]
    return [
        change("qdisc", {"dev": "d1", "parent": parent}, found, wanted)
        for parent, found, wanted in rows
    ]


def bbr_and(kind: str) -> Json:
    settings = f"{QDISC} = {kind}\n{CC} = bbr\n"
    return plan(
        change("module", "tcp_bbr", "absent", "loaded"),
        change("module", f"sch_{kind}", "absent", "loaded"),
        queue(kind, "pfifo_fast"),
        *queues(kind),
        change("sysctl", QDISC, "pfifo_fast", kind),
        change("sysctl", CC, "cubic", "bbr"),
        change("file", "/etc/sysctl.d/99-narrows.conf", None, {"text": settings, "mode": "0644"}),
        change(
            "file",
            "/etc/modules-load.d/narrows.conf",
            None,
            {"text": f"tcp_bbr\nsch_{kind}\n", "mode": "0644"},
        ),
    )


SEEN = f"""
seen() {{
    say "$1 cc" sysctl -n {CC}
    say "$1 allowed" sysctl -n {ALLOWED}
    say "$1 default" sysctl -n {QDISC}
    say "$1 queue" tc qdisc show dev d0
    say "$1 queues" tc qdisc show dev d1
    say "$1 modules" sh -c '{LOADED}'
    say "$1 files" sh -c 'find /etc -type f | sort'
}}
"""


def seen(told: dict[str, str], when: str) -> list[str]:
    return [
        told[f"{when} {what}"]
        for what in ("cc", "allowed", "default", "queue", "queues", "modules", "files")
    ]


@pytest.mark.parametrize("kind", ["fq", "cake"])
def test_bbr_and_a_queue_discipline_survive_a_boot_and_are_reverted(tree: Path, kind: str) -> None:
    (tree / "plan.json").write_text(json.dumps(bbr_and(kind)), encoding="utf-8")
    (tree / "plan.json").chmod(0o600)
    script = SEEN + "seen before\nsay applied narrows-host tune apply /plan.json\nseen with\n"
    first = booted(tree, script)
    applied = json.loads(first["applied"])
    assert applied["proof"]["cc"] == "bbr"
    assert applied["proof"]["module_users"] >= 1
    assert first["with cc"] == "bbr"
    assert first["with default"] == kind
    assert f"qdisc {kind} 8" in first["with queue"]
    assert first["with queues"].count(f"qdisc {kind} 8") == 2
    # Setting the default also allows it to all users, although the plan does not request that.
    assert "bbr" in first["with allowed"]
    assert "bbr" not in first["before allowed"]

    # The power has gone; what is booted is what the files say.
    script = (
        SEEN + "say verified narrows-host tune verify\nsay reverted narrows-host tune revert\nseen "
        "after\n"
    )
    second = booted(tree, script)
    verified = json.loads(second["verified"])
    assert verified["so"], verified
    assert verified["new_connection"] == "bbr"
    after, before = seen(second, "after"), seen(first, "before")
    assert not json.loads(second["reverted"])["notes"], "the modules were unloaded, too"
    # The kernel attached another discipline when it booted; the old one comes back by a name of its
    # own.
    assert after[:3] == before[:3]
    assert "pfifo_fast" in after[3]
    assert after[4].count("pfifo_fast") == 2
    assert after[5:] == before[5:]


def test_apply_killed_after_any_step_is_reverted_on_a_whole_host(tree: Path) -> None:
    # Files are the same on every kernel, and are tried so in a namespace.
    whole = Plan.of(bbr_and("fq")).live().json()
    (tree / "plan.json").write_text(json.dumps(whole), encoding="utf-8")
    (tree / "plan.json").chmod(0o600)
    # Every program that is started costs a user-mode kernel some milliseconds.
    (tree / "bin/look").write_text(
        f"cd /proc/sys; cat {' '.join(key.replace('.', '/') for key in (CC, ALLOWED, QDISC))}\n"
        f"tc qdisc show; {LOADED}; find /etc | sort\n",
        encoding="utf-8",
    )
    loop = """
say before sh /bin/look
n=1
while [ $n -lt 99 ]; do
    narrows-host tune apply /plan.json --stop-after $n > /run/applied 2>&1 && break
    narrows-host tune revert > /run/reverted 2>&1 || say "failed $n" cat /run/reverted
    say "after $n" sh /bin/look
    n=$((n + 1))
done
say applied cat /run/applied
say steps echo $n
narrows-host tune revert > /run/reverted 2>&1
say finally sh /bin/look
"""
    told = booted(tree, loop)
    steps = int(told["steps"])
    assert 15 < steps < 99, told.get("applied")
    assert [name for name in told if name.startswith("failed")] == []
    for when in [*(f"after {n}" for n in range(1, steps)), "finally"]:
        assert told[when] == told["before"], when


MADE = (
    "cake bandwidth 20mbit besteffort rtt 50ms nat",
    "netem delay 10ms 2ms loss 1%",
    "fq_codel target 10ms interval 120ms limit 900",
)


def test_a_foreign_qdisc_is_restored_with_its_options(tree: Path) -> None:
    script = ""
    for made, wanted in zip(MADE, ("fq", "fq_codel", "cake"), strict=True):
        kind, _, _ = made.partition(" ")
        file = tree / f"{kind}.json"
        file.write_text(json.dumps(plan(queue(wanted, kind))), encoding="utf-8")
        file.chmod(0o600)
        script += f"""
modprobe -q sch_{kind}; modprobe -q sch_{wanted}
say "made {kind}" tc qdisc replace dev d0 root handle 7: {made}
say "before {kind}" tc qdisc show dev d0
say "refused {kind}" narrows-host tune apply /{kind}.json
say "between {kind}" tc qdisc show dev d0
say "applied {kind}" narrows-host tune apply /{kind}.json --replace
say "with {kind}" tc qdisc show dev d0
say "reverted {kind}" narrows-host tune revert
say "after {kind}" tc qdisc show dev d0
tc qdisc del dev d0 root
"""
    told = booted(tree, script)
    for kind, wanted in (("cake", "fq"), ("netem", "fq_codel"), ("fq_codel", "cake")):
        shaper = kind in {"cake", "netem"}
        # The options of the other come back as well, but it is nothing that a line depends on.
        assert ("--replace" in told[f"refused {kind}"]) == shaper
        if shaper:
            assert told[f"between {kind}"] == told[f"before {kind}"]
        assert f"qdisc {wanted} 8" in told[f"with {kind}"]
        assert told[f"after {kind}"] == told[f"before {kind}"]


@pytest.mark.parametrize("kind", ["cake", "fq_codel"])
def test_both_directions_are_shaped_and_reverted(tree: Path, kind: str) -> None:
    before = {"kind": "pfifo_fast", "handle": "0:", "options": {}}
    out = [
        change("qdisc", {"dev": "d0", "parent": parent}, before if parent == "root" else None, to)
        for parent, to in disciplines(kind, 18_000, "1:").items()
    ]
    into = change("ingress", {"dev": "d0", "ifb": "ifb-d0"}, None, disciplines(kind, 50_000, "1:"))
    loads = [change("module", name, "absent", "loaded") for name in modules(kind, incoming=True)]
    file = tree / "shape.json"
    file.write_text(json.dumps(plan(*loads, *out, into)), encoding="utf-8")
    file.chmod(0o600)
    show = "sh -c 'tc qdisc show; ip link | grep -c :; grep -c . /proc/modules'"
    told = booted(
        tree,
        f"""
say "before" {show}
say "applied" narrows-host tune apply /shape.json
say "with" tc qdisc show
say "filter" tc filter show dev d0 parent ffff:
say "verified" narrows-host tune verify
say "reverted" narrows-host tune revert
say "after" {show}
""",
    )
    assert json.loads(told["verified"])["so"], told
    first = (
        r"qdisc cake \w+: dev {} root .*bandwidth {}"
        if kind == "cake"
        else r"qdisc tbf 1: dev {} root .*rate {}"
    )
    for device, rate in (("d0", "18Mbit"), ("ifb-d0", "50Mbit")):
        assert re.search(first.format(device, rate), told["with"])
        if kind != "cake":
            assert re.search(rf"qdisc {kind} \w+: dev {device} parent 1:1 ", told["with"])
    assert "redirect to device ifb-d0" in told["filter"].lower()
    assert told["after"] == told["before"]


def test_a_namespace_does_not_affect_the_host_and_a_boot_reverts_unconfirmed_plans(
    tree: Path,
) -> None:
    key, conf = "net.ipv4.tcp_sack", "/etc/sysctl.d/99-narrows.conf"
    file = change("file", conf, None, {"text": f"{key} = 0\n", "mode": "0644"})
    whole = plan(change("sysctl", key, "1", "0"), file, queue("pfifo", "noqueue"))
    (tree / "plan.json").write_text(json.dumps(whole), encoding="utf-8")
    (tree / "plan.json").chmod(0o600)
    look = f"sh -c 'sysctl -n {key}; tc qdisc show dev d0; find /etc/sysctl.d /var/lib -type f'"
    first = booted(
        tree,
        f"""
ip link del d0; ip link add d0 type ifb; ip link set d0 txqueuelen 0; ip link set d0 up
tc qdisc replace dev d0 root noqueue
ip netns add qt
ip netns exec qt ip link set lo up
ip netns exec qt ip link add d0 type ifb
ip netns exec qt tc qdisc replace dev d0 root noqueue
ip netns exec qt ip link set d0 up
say before {look}
say "in qt" ip netns exec qt narrows-host tune apply /plan.json
say after {look}
say refused narrows-host tune revert
say undone narrows-host tune revert --netns qt
say applied narrows-host tune apply /plan.json --confirm-within 1h
say changed {look}
""",
    )
    applied = json.loads(first["in qt"])
    assert [row["id"] for row in applied["done"]] == [f"sysctl:{key}", "qdisc:d0:root"]
    assert [row["id"] for row in applied["left"]] == [f"file:{conf}"]
    assert first["after"] == first["before"]
    assert "the host's initial network namespace" in first["refused"]
    assert first["refused"].endswith("write: narrows tune revert --netns qt")
    assert json.loads(first["undone"])["reverted"]
    assert json.loads(first["applied"])["unconfirmed_s"] == 3600
    assert first["changed"].splitlines()[0] == "0"

    second = booted(
        tree,
        f"""
say verified narrows-host tune verify
say late narrows-host tune confirm
say refused narrows-host tune apply /plan.json
say reverted narrows-host tune revert
say after {look}
""",
    )
    verified = json.loads(second["verified"])
    assert (verified["unconfirmed"], verified["booted"], verified["remaining_s"]) == (
        True,
        True,
        None,
    )
    assert "has booted since" in second["late"]
    assert "is not confirmed" in second["refused"]
    assert json.loads(second["reverted"])["reverted"]
    after = second["after"].splitlines()
    assert after[0] == "1"
    assert not [line for line in after if line.endswith((".json", ".conf"))]
