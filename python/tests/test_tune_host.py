"""Changes of a host, in a network namespace with its own tree of files: this machine is not
changed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from narrows.host.live import HOST

KILLED = -signal.SIGKILL
CC = "net.ipv4.tcp_congestion_control"
WMEM = "net.ipv4.tcp_wmem"
LOWAT = "net.ipv4.tcp_notsent_lowat"
DEVICE = "v0"

Json = dict[str, Any]


class Space:
    """A network namespace with one pair of interfaces, and a tree in which /etc and the journal
    are.
    """

    def __init__(self, root: Path) -> None:
        """Makes it."""
        self.root = root
        for folder in ("etc/sysctl.d", "var/lib"):
            (root / folder).mkdir(parents=True)
        for path in (root, *root.rglob("*")):
            path.chmod(0o755)
        words = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]
        self.holder = subprocess.Popen(
            [*words, "sh", "-c", "echo; exec sleep 600"], stdout=subprocess.PIPE
        )
        assert self.holder.stdout is not None
        if not self.holder.stdout.readline():
            pytest.skip("this user may not make network namespaces")
        user = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
        self.enter = ["nsenter", "-t", str(self.holder.pid), *user, "-n", "--"]
        for line in (
            "link set lo up",
            f"link add {DEVICE} type veth peer name v1",
            f"addr add 192.0.2.1/24 dev {DEVICE}",
            f"link set {DEVICE} up",
            "link set v1 up",
            "route add default via 192.0.2.2",
            f"route add 198.51.100.0/24 via 192.0.2.2 dev {DEVICE} initcwnd 20",
        ):
            self.run("ip", *line.split())

    def end(self) -> None:
        """Takes the namespace away."""
        with self.holder:
            self.holder.kill()

    def run(self, *words: str | Path, check: bool = True) -> str:
        """The output of a command in the namespace."""
        done = subprocess.run(
            [*self.enter, *words], capture_output=True, text=True, check=False, timeout=60
        )
        assert not check or done.returncode == 0, (words, done.stderr)
        return done.stdout

    def tune(self, *words: str, plan: Json | None = None) -> subprocess.CompletedProcess[str]:
        """Has `narrows-host tune` do something."""
        given = None if plan is None else json.dumps(plan)
        command = [*self.enter, HOST, "tune", *words, "--root", self.root]
        return subprocess.run(
            command, input=given, capture_output=True, text=True, check=False, timeout=60
        )

    def done(self, *words: str, plan: Json | None = None) -> Json:
        """The JSON output of a subcommand that must succeed."""
        done = self.tune(*words, plan=plan)
        assert done.returncode == 0, done.stderr
        found: Json = json.loads(done.stdout)
        return found

    def get(self, key: str) -> str:
        """A setting, byte for byte."""
        return self.run("cat", f"/proc/sys/{key.replace('.', '/')}")

    def set(self, key: str, value: str) -> None:
        """Somebody else changes one."""
        self.run("sh", "-c", 'printf %s "$1" > "$0"', f"/proc/sys/{key.replace('.', '/')}", value)

    def seen(self) -> Json:
        """Everything that a change could change."""
        settings = self.run(
            "sh", "-c", "cd /proc/sys/net/ipv4; grep -rH . tcp_* 2> /dev/null", check=False
        )
        place = self.root / "etc"
        files = {
            str(path.relative_to(place)): (
                path.read_bytes() if path.is_file() else None,
                path.stat().st_mode,
            )
            for path in place.rglob("*")
        }
        return {
            "settings": settings.splitlines(),
            # HTB prints a counter among its options.
            "qdiscs": re.sub(
                r"direct_packets_stat \d+", "", self.run("tc", "qdisc", "show")
            ).splitlines(),
            "classes": self.run("tc", "class", "show", "dev", DEVICE).splitlines(),
            "routes": self.run("ip", "-d", "route").splitlines(),
            "files": files,
        }

    def journal(self) -> Path:
        """Its file."""
        return self.root / "var/lib/narrows/tune/journal.json"


@pytest.fixture
def space(tmp_path: Path) -> Iterator[Space]:
    made = Space(tmp_path / "root")
    yield made
    made.end()


def change(kind: str, target: Any, before: Any, after: Any, **more: Any) -> Json:  # noqa: ANN401
    name = target if isinstance(target, str) else ":".join(target.values())
    phase = "boot" if kind == "file" else "live"
    row = {"kind": kind, "target": target, "from": before, "to": after, "phase": phase}
    return {"id": f"{kind}:{name}", "why": "a test wants it", "persist": None, **row, **more}


def plan(*changes: Json) -> Json:
    return {
        "narrows": "0.1.0",
        "plan": 1,
        "title": "For a test",
        "netns": None,
        "able": True,
        "changes": list(changes),
    }


def other_cc(space: Space) -> tuple[str, str]:
    """The default, and another that a namespace may have."""
    now = space.get(CC).strip()
    others = [
        name for name in space.get("net.ipv4.tcp_allowed_congestion_control").split() if name != now
    ]
    if not others:
        pytest.skip("this kernel lets a namespace choose no second congestion control")
    return now, others[0]


def queue(kind: str, before: str = "noqueue") -> Json:
    target = {"dev": DEVICE, "parent": "root"}
    found = {"kind": before, "handle": "0:", "options": {}}
    return change("qdisc", target, found, {"kind": kind, "handle": None, "options": {}})


def everything(space: Space) -> Json:
    """A plan with each kind of change that this kernel can make in a namespace."""
    now, then = other_cc(space)
    wmem = " ".join(space.get(WMEM).split())
    prefix = {"family": "inet", "table": "main", "prefix": "198.51.100.0/24"}
    new = {"family": "inet", "table": "main", "prefix": "203.0.113.0/24"}
    way = ["via", "192.0.2.2", "dev", DEVICE]
    return plan(
        change("module", "tcp_reno", "absent", "loaded"),
        queue("pfifo_fast"),
        change("sysctl", CC, now, then),
        change("sysctl", WMEM, wmem, "4096 16384 8388608"),
        change(
            "route", prefix, [prefix["prefix"], *way], [prefix["prefix"], *way, "congctl", "reno"]
        ),
        change("route", new, None, [new["prefix"], *way, "congctl", "reno"]),
        change(
            "file",
            "/etc/sysctl.d/99-narrows.conf",
            None,
            {"text": f"{CC} = {then}\n", "mode": "0644"},
        ),
        change(
            "file", "/etc/modules-load.d/narrows.conf", None, {"text": "tcp_reno\n", "mode": "0644"}
        ),
        change(
            "file",
            f"/etc/systemd/network/10-{DEVICE}.network.d/99-narrows.conf",
            None,
            {"text": "[PFIFOFast]\nParent=root\n", "mode": "0644"},
        ),
    )


def test_an_applied_plan_is_verified_and_reverted_completely(space: Space) -> None:
    before, whole = space.seen(), everything(space)
    done = space.done("apply", plan=whole)
    wanted = other_wanted(whole)
    assert space.get(CC).strip() == wanted
    assert done["proof"]["cc"] == done["proof"]["listed"] == wanted
    assert "qdisc pfifo_fast 8" in space.run("tc", "qdisc", "show", "dev", DEVICE)
    routes = space.run("ip", "route")
    assert "198.51.100.0/24 via 192.0.2.2 dev v0 initcwnd 20 congctl reno" in " ".join(
        routes.split()
    )
    assert "203.0.113.0/24 via 192.0.2.2 dev v0 proto static congctl reno" in " ".join(
        routes.split()
    )
    assert (space.root / "etc/sysctl.d/99-narrows.conf").read_text(
        encoding="utf-8"
    ) == f"{CC} = {wanted}\n"
    journal = space.journal()
    assert (journal.stat().st_mode & 0o777, journal.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert space.done("verify")["so"]

    again = space.done("apply", plan=whole)
    assert again["nothing_to_do"]
    assert again["steps"] == 0

    reverted = space.done("revert")
    assert not reverted["notes"]
    assert space.seen() == before
    assert not journal.exists()
    assert space.done("revert")["nothing_to_do"]


IPV6 = Path("/proc/sys/net/ipv6")
needs_ipv6 = pytest.mark.skipif(not IPV6.exists(), reason="this kernel has no IPv6")


@needs_ipv6
def test_ipv6_routes_get_a_congestion_control_and_are_reverted(space: Space) -> None:
    space.set(f"net.ipv6.conf.{DEVICE}.disable_ipv6", "0")
    for line in (
        f"-6 addr add 2001:db8:1::1/64 dev {DEVICE} nodad",
        "-6 route add default via 2001:db8:1::2",
        f"-6 route add 2001:db8:2::/48 via 2001:db8:1::2 dev {DEVICE} initcwnd 20",
    ):
        space.run("ip", *line.split())

    def routes() -> str:
        return " ".join(space.run("ip", "-6", "route").split())

    before = routes()
    # A route that exists, a new one below the default route, and the default route.
    prefixes = ["2001:db8:2::/48", "2001:db8:3::/48", "::/0"]
    words = [word for prefix in prefixes for word in ("--to", prefix)]
    asked = [*space.enter, HOST, "tune", "plan", "--cc", "reno", *words, "--json"]
    planned = json.loads(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
    found = {row["id"]: row["to"] for row in planned["changes"] if row["kind"] == "route"}
    way = ["via", "2001:db8:1::2", "dev", DEVICE]
    assert found["route:inet6:2001:db8:3::/48"] == [prefixes[1], *way, "congctl", "reno"]
    assert space.done("apply", plan=planned)["steps"] >= len(prefixes)
    now = routes()
    assert f"2001:db8:2::/48 via 2001:db8:1::2 dev {DEVICE} metric 1024 initcwnd 20 congctl" in now
    assert f"2001:db8:3::/48 via 2001:db8:1::2 dev {DEVICE} proto static" in now
    assert now.count("congctl reno") == len(prefixes)
    assert space.done("verify")["so"]
    assert not space.done("revert")["notes"]
    assert routes() == before


def other_wanted(whole: Json) -> str:
    return next(str(row["to"]) for row in whole["changes"] if row["target"] == CC)


def kill_after_each_step(attempt: Callable[[int], int], after: Callable[[], None]) -> int:
    """Kill the program after one step, after two, and so on, until it completes; return the number
    of steps.
    """
    for step in range(1, 1000):
        code = attempt(step)
        if code == 0:
            return step - 1
        assert code == KILLED, code
        after()
    raise AssertionError


def test_apply_killed_after_any_step_is_reverted_completely(space: Space) -> None:
    before, whole = space.seen(), everything(space)

    def back() -> None:
        text = space.journal().read_text(encoding="utf-8") if space.journal().exists() else ""
        cut_short = '"phase": "applying"' in text
        assert (space.tune("verify").returncode == 1) == cut_short
        done = space.tune("revert")
        assert done.returncode == 0, done.stderr
        assert space.seen() == before
        assert not space.journal().exists()

    steps = kill_after_each_step(
        lambda n: space.tune("apply", "--stop-after", str(n), plan=whole).returncode, back
    )
    # The journal alone takes five.
    assert steps > 5 + len(whole["changes"])


def test_revert_killed_after_any_step_is_completed_by_another_revert(space: Space) -> None:
    before, whole = space.seen(), everything(space)

    def attempt(step: int) -> int:
        if not space.journal().exists():
            space.done("apply", plan=whole)
        return space.tune("revert", "--stop-after", str(step)).returncode

    def back() -> None:
        space.done("revert")
        assert space.seen() == before

    steps = kill_after_each_step(attempt, back)
    assert steps > len(whole["changes"]) - 1
    assert space.seen() == before


def test_a_second_plan_killed_after_any_step_is_reverted_with_the_first(space: Space) -> None:
    before = space.seen()
    wmem = " ".join(space.get(WMEM).split())
    first = plan(change("sysctl", WMEM, wmem, "4096 16384 8388608"))
    second = plan(
        change("sysctl", WMEM, "4096 16384 8388608", "4096 16384 7340032"), queue("pfifo_fast")
    )

    def attempt(step: int) -> int:
        if not space.journal().exists():
            space.done("apply", plan=first)
        return space.tune("apply", "--stop-after", str(step), plan=second).returncode

    def back() -> None:
        space.done("revert")
        assert space.seen() == before

    kill_after_each_step(attempt, back)
    assert space.get(WMEM).split()[2] == "7340032"
    space.done("revert", "--last")
    assert space.get(WMEM).split()[2] == "8388608"
    assert space.done("verify")["so"]
    space.done("revert")
    assert space.seen() == before


def test_any_failure_reverts_the_whole_plan(space: Space) -> None:
    before, whole = space.seen(), everything(space)
    # A file stands where a directory would have to be made: the last change fails.
    (space.root / "etc/systemd").write_text("in the way", encoding="utf-8")
    expected = space.seen()
    done = space.tune("apply", plan=whole)
    # It is seen before anything is done.
    assert done.returncode == 2
    assert "symbolic link or not a directory" in done.stderr
    assert space.seen() == expected
    (space.root / "etc/systemd").unlink()

    # And a value that the kernel refuses is only seen when it is tried.
    large = "4294967296"
    whole["changes"].insert(4, change("sysctl", LOWAT, space.get(LOWAT).strip(), large))
    done = space.tune("apply", plan=whole)
    assert done.returncode == 1
    assert f"tcp_notsent_lowat = {large}" in done.stderr
    assert "everything was restored" in done.stderr
    assert space.seen() == before
    assert not space.journal().exists()


def test_verify_reports_foreign_changes_and_revert_preserves_them(space: Space) -> None:
    before, whole = space.seen(), everything(space)
    space.done("apply", plan=whole)
    space.set(WMEM, "4096 16384 1234567")
    verified = space.tune("verify")
    assert verified.returncode == 1
    drifted = json.loads(verified.stdout)["drifted"]
    assert [row["id"] for row in drifted] == [f"sysctl:{WMEM}"]
    refused = space.tune("revert")
    assert refused.returncode == 1
    assert "1234567" in refused.stderr
    assert "--force" in refused.stderr
    assert space.get(CC).strip() == other_wanted(whole), "nothing at all was put back"
    space.done("revert", "--force")
    assert space.seen() == before
    never = space.tune("verify")
    assert never.returncode == 2
    assert "no plan is applied here" in never.stderr


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (["root handle 5: tbf rate 20mbit burst 16kb latency 50ms"], "tbf 5:"),
        (
            [
                "root handle 1: htb default 20",
                "parent 1: classid 1:1 htb rate 50mbit burst 15k",
                "parent 1:1 classid 1:10 htb rate 30mbit ceil 50mbit prio 1",
                "parent 1:1 classid 1:20 htb rate 10mbit ceil 50mbit",
                "parent 1:10 handle 10: pfifo limit 77",
                "parent 1:20 handle 20: tbf rate 5mbit burst 10kb latency 20ms",
            ],
            "htb 1:",
        ),
    ],
)
def test_a_foreign_qdisc_is_replaced_only_on_request_and_restored(
    space: Space, made: list[str], name: str
) -> None:
    for words in made:
        what = "class" if "classid" in words else "qdisc"
        space.run("tc", what, "add", "dev", DEVICE, *words.split())
    before = space.seen()
    kind = name.split(maxsplit=1)[0]
    refused = space.tune("apply", plan=plan(queue("pfifo_fast", kind)))
    assert refused.returncode == 2
    assert name in refused.stderr
    assert "--replace" in refused.stderr
    assert space.seen() == before

    def attempt(step: int) -> int:
        words = ["apply", "--replace", "--stop-after", str(step)]
        return space.tune(*words, plan=plan(queue("pfifo_fast", kind))).returncode

    def back() -> None:
        space.done("revert")
        assert space.seen() == before

    kill_after_each_step(attempt, back)
    assert "pfifo_fast" in space.run("tc", "qdisc", "show", "dev", DEVICE)
    back()


def test_a_qdisc_with_filters_is_never_replaced(space: Space) -> None:
    space.run("tc", *f"qdisc add dev {DEVICE} root handle 1: htb".split())
    space.run("tc", *f"class add dev {DEVICE} parent 1: classid 1:1 htb rate 5mbit".split())
    words = (
        f"filter add dev {DEVICE} parent 1: protocol ip prio 1 u32 match ip dport 80 0xffff "
        "flowid 1:1"
    )
    done = subprocess.run(
        [*space.enter, "tc", *words.split()],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    if done.returncode:
        pytest.skip(f"no filters here: {done.stderr.strip()}")
    refused = space.tune("apply", "--replace", plan=plan(queue("pfifo_fast", "htb")))
    assert refused.returncode == 2
    assert "filters" in refused.stderr


def test_a_plan_for_another_state_is_refused(space: Space) -> None:
    before = space.seen()
    done = space.tune("apply", plan=plan(change("sysctl", WMEM, "1 2 3", "4096 16384 8388608")))
    assert done.returncode == 2
    assert "create the plan again" in done.stderr
    assert space.seen() == before
    assert not space.journal().parent.exists(), "not even a directory was made"


def test_existing_connections_are_reported_with_their_programs(space: Space) -> None:
    now, then = other_cc(space)
    script = (
        "import socket, sys\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "near = socket.create_connection(server.getsockname())\n"
        "far, _ = server.accept()\n"
        "print(flush=True)\n"
        "sys.stdin.read()\n"
        "later = socket.create_connection(server.getsockname())\n"
        "accepted, _ = server.accept()\n"
        "print(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, "
        "16).rstrip(b'\\0').decode())\n"
    )
    pipe = subprocess.PIPE
    command = [*space.enter, "python3", "-c", script]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdin is not None and child.stdout is not None  # noqa: PT018
        child.stdout.readline()
        done = space.done("apply", plan=plan(change("sysctl", CC, now, then)))
        child.stdin.close()
        accepted = child.stdout.read().strip()
    assert [(row["cc"], row["connections"]) for row in done["still"]] == [(now, 2)]
    assert "python" in done["still"][0]["programs"][0]["program"]
    # A listener hands the default to whom it accepts, however old it is: nothing has to be
    # restarted.
    assert accepted == then


def waited(what: Callable[[], bool], seconds: float = 30) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if what():
            return True
        time.sleep(0.1)
    return False


def test_an_unconfirmed_plan_is_reverted_after_the_session_has_ended(
    space: Space, tmp_path: Path
) -> None:
    before, whole = space.seen(), everything(space)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(whole), encoding="utf-8")
    file.chmod(0o600)
    # A shell in a session of its own, as ssh gives one; it is killed with everything that is still
    # in that session.
    words = [
        *map(str, space.enter),
        str(HOST),
        "tune",
        "apply",
        str(file),
        "--confirm-within",
        "4s",
        "--root",
    ]
    script = '"$@"; echo; exec sleep 600'
    command = ["sh", "-c", script, "sh", *words, str(space.root)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as session:
        assert session.stdout is not None
        answer = json.loads(session.stdout.readline())
        os.killpg(session.pid, signal.SIGHUP)
        os.killpg(session.pid, signal.SIGKILL)
    assert answer["unconfirmed_s"] == 4
    assert not (space.root / "etc/sysctl.d/99-narrows.conf").exists(), (
        "nothing is written for the next boot"
    )
    assert waited(lambda: not space.journal().exists())
    assert space.seen() == before
    late = space.tune("confirm")
    assert late.returncode == 2
    assert "no plan is to be confirmed" in late.stderr


def test_killed_in_the_middle_the_watcher_undoes_that_too(space: Space) -> None:
    before, whole = space.seen(), everything(space)
    done = space.tune("apply", "--confirm-within", "1s", "--stop-after", "11", plan=whole)
    assert done.returncode == KILLED
    assert waited(lambda: not space.journal().exists())
    assert space.seen() == before


def test_confirm_killed_after_any_step_can_be_reverted(
    space: Space,
) -> None:
    before, whole = space.seen(), everything(space)

    def attempt(step: int) -> int:
        if not space.journal().exists():
            space.done("apply", "--confirm-within", "1h", plan=whole)
            assert space.done("verify")["unconfirmed"]
            refused = space.tune(
                "apply", plan=plan(change("sysctl", "net.ipv4.tcp_sack", "1", "0"))
            )
            assert "is not confirmed" in refused.stderr
        return space.tune("confirm", "--stop-after", str(step)).returncode

    def back() -> None:
        space.done("revert")
        assert space.seen() == before

    steps = kill_after_each_step(attempt, back)
    assert steps > 10
    verified = space.done("verify")
    assert verified["so"]
    assert not verified["unconfirmed"]
    assert (space.root / "etc/sysctl.d/99-narrows.conf").exists()
    back()


def test_a_plan_too_large_for_the_journal_changes_nothing(space: Space) -> None:
    now, then = other_cc(space)
    wmem = " ".join(space.get(WMEM).split())
    before = space.seen()
    long = "a test wants it, " * 35_000
    space.done("apply", plan=plan(change("sysctl", WMEM, wmem, "4096 16384 8388608", why=long)))
    between = space.seen()
    done = space.tune("apply", plan=plan(change("sysctl", CC, now, then, why=long)))
    assert done.returncode == 2
    assert "nothing was changed" in done.stderr
    assert space.seen() == between
    space.done("revert")
    assert space.seen() == before


def test_a_later_sysctl_file_with_another_value_is_named(space: Space) -> None:
    now, then = other_cc(space)
    (space.root / "etc/sysctl.d/99-zzz.conf").write_text(f"{CC} = {now}\n", encoding="utf-8")
    row = change(
        "file", "/etc/sysctl.d/99-narrows.conf", None, {"text": f"{CC} = {then}\n", "mode": "0644"}
    )
    done = space.done("apply", plan=plan(change("sysctl", CC, now, then), row))
    assert len(done["overridden"]) == 1
    assert (
        "/etc/sysctl.d/99-zzz.conf is read after /etc/sysctl.d/99-narrows.conf"
        in done["overridden"][0]
    )
    assert space.done("verify")["overridden"] == done["overridden"]


def test_links_and_files_writable_by_others_are_refused(space: Space, tmp_path: Path) -> None:
    _, then = other_cc(space)
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    row = change(
        "file", "/etc/sysctl.d/99-narrows.conf", None, {"text": f"{CC} = {then}\n", "mode": "0644"}
    )
    (space.root / "etc/sysctl.d/99-narrows.conf").symlink_to(victim)
    done = space.tune("apply", plan=plan(row))
    assert done.returncode == 2
    assert "link" in done.stderr
    (space.root / "etc/sysctl.d/99-narrows.conf").unlink()

    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan(row)), encoding="utf-8")
    file.chmod(0o666)
    assert "chmod go-w" in space.tune("apply", str(file)).stderr
    link = tmp_path / "link.json"
    file.chmod(0o600)
    link.symlink_to(file)
    assert "link" in space.tune("apply", str(link)).stderr

    (space.root / "etc/sysctl.d").chmod(0o777)
    assert "other users may write" in space.tune("apply", str(file)).stderr
    (space.root / "etc/sysctl.d").chmod(0o755)
    (space.root / "var/lib/narrows").symlink_to(tmp_path)
    assert "is a symbolic link or not a directory" in space.tune("apply", str(file)).stderr
    assert victim.read_text(encoding="utf-8") == "precious"


def test_a_journal_that_others_may_read_or_changed_is_refused(space: Space) -> None:
    wmem = " ".join(space.get(WMEM).split())
    space.done("apply", plan=plan(change("sysctl", WMEM, wmem, "4096 16384 8388608")))
    text = space.journal().read_text(encoding="utf-8")
    space.journal().chmod(0o644)
    assert "chmod 0600" in space.tune("revert").stderr
    space.journal().chmod(0o600)
    space.journal().write_text(
        text.replace("net.ipv4.tcp_wmem", "kernel.core_pattern"), encoding="utf-8"
    )
    refused = space.tune("revert")
    assert refused.returncode == 2
    assert "not a journal" in refused.stderr
    space.journal().write_text(text, encoding="utf-8")
    space.done("revert")


def test_a_plan_in_a_network_namespace_has_its_own_journal(space: Space) -> None:
    if os.geteuid():
        pytest.skip("named network namespaces need root")
    whole = plan(change("sysctl", "net.ipv4.tcp_sack", "1", "0")) | {"netns": "blue"}
    (space.root / "plan.json").write_text(json.dumps(whole), encoding="utf-8")
    (space.root / "plan.json").chmod(0o600)
    tune = f"{HOST} tune"
    at = f"--root {space.root}"
    look = "cat /proc/sys/net/ipv4/tcp_sack; ip netns exec blue cat /proc/sys/net/ipv4/tcp_sack"
    script = (
        "mount -t tmpfs none /run && ip netns add blue && "
        f"{tune} apply {space.root}/plan.json {at} > /dev/null && {look} && {tune} verify --netns "
        f"blue {at} > /dev/null"
        f" && {tune} revert --netns blue {at} > /dev/null && {look}; ip netns del blue"
    )
    done = subprocess.run(
        [*space.enter, "unshare", "-m", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.split() == ["1", "0", "1", "1"], done.stderr
    assert not space.journal().exists()
    (own,) = (space.root / "run/narrows/tune").iterdir()
    assert own.name.startswith("netns-")


@pytest.mark.parametrize("steps", [["apply"], ["confirm"], ["revert"]])
def test_without_privilege_apply_and_confirm_fail(space: Space, steps: list[str]) -> None:
    if os.geteuid():
        pytest.skip("this user is the one without")
    wmem = " ".join(space.get(WMEM).split())
    command = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        str(HOST),
        "tune",
        *steps,
    ]
    whole = json.dumps(plan(change("sysctl", WMEM, wmem, "4096 16384 8388608")))
    state = ["--state", "/run/narrows-no-such"]
    done = subprocess.run(
        [*space.enter, *command, *state],
        input=whole,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    if "execute" in done.stderr and "ermission" in done.stderr:
        pytest.skip("another user cannot start this program")
    assert done.returncode == (0 if steps == ["revert"] else 2)
