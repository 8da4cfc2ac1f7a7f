"""Shapers: plans for many types of hosts, applied in a network namespace, killed at every step, and
reverted.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_tune import read
from test_tune_host import DEVICE, Json, Space, change, kill_after_each_step
from test_tune_host import plan as whole
from test_tune_script import SHELLS, in_namespaces

from narrows.advise.candidates import SHAPED
from narrows.errors import NarrowsError
from narrows.tune.plan import Ask, Plan
from narrows.tune.planner import plan
from narrows.tune.prove import acts_on
from narrows.tune.script import script
from narrows.tune.shaper import KINDS, disciplines, modules

IFB = f"ifb-{DEVICE}"
UP, DOWN = 18_000, 50_000

pytestmark = pytest.mark.skipif(
    shutil.which("tc") is None, reason="there is no tc: apt install iproute2"
)


@pytest.fixture
def space(tmp_path: Path) -> Iterator[Space]:
    made = Space(tmp_path / "root")
    probe = (
        "tc qdisc add dev v1 root tbf rate 1mbit burst 5kb limit 9kb && tc qdisc del dev v1 root"
    )
    there = made.run(
        "sh", "-c", f"{probe} && ip link add i type ifb && ip link del i && echo yes", check=False
    )
    if not there.strip():
        made.holder.kill()
        pytest.skip("this kernel has no tbf, or no ifb")
    yield made
    with made.holder:
        made.holder.kill()


def both(up: int = UP, down: int = DOWN, kind: str = "bfifo") -> Json:
    """A plan as `narrows tune plan` makes it: each way."""
    was = {"kind": "noqueue", "handle": "0:", "options": {}}
    out = [
        change("qdisc", {"dev": DEVICE, "parent": parent}, was if parent == "root" else None, to)
        for parent, to in disciplines(kind, up, "1:").items()
    ]
    into = change("ingress", {"dev": DEVICE, "ifb": IFB}, None, disciplines(kind, down, "1:"))
    return whole(*out, into) | {"needs": []}


def seen(space: Space) -> Json:
    """Everything that a shaper could change."""
    links = [line.split()[:2] for line in space.run("ip", "-br", "link").splitlines()]
    filters = space.run("tc", "filter", "show", "dev", DEVICE, "parent", "ffff:", check=False)
    return space.seen() | {"links": links, "filters": filters}


def test_both_directions_are_shaped_and_reverted(space: Space) -> None:
    before = seen(space)
    done = space.done("apply", plan=both())
    assert [row["after"] for row in done["done"]] == [
        ["tbf 1: root rate 18000kbit"],
        "shaped by tbf rate 50000kbit",
    ]
    assert "rate 18Mbit" in space.run("tc", "qdisc", "show", "dev", DEVICE)
    assert "rate 50Mbit" in space.run("tc", "qdisc", "show", "dev", IFB)
    assert space.done("verify")["so"]
    assert space.done("apply", plan=both())["nothing_to_do"]
    # Another rate over it, and both are undone.
    space.done("apply", plan=both(up=9_000, down=20_000))
    assert "rate 20Mbit" in space.run("tc", "qdisc", "show", "dev", IFB)
    space.done("revert", "--last")
    assert "rate 50Mbit" in space.run("tc", "qdisc", "show", "dev", IFB)
    assert space.done("verify")["so"]
    space.done("revert")
    assert seen(space) == before


def test_apply_or_revert_killed_after_any_step_is_reverted(space: Space) -> None:
    before = seen(space)

    def back() -> None:
        space.done("revert")
        assert seen(space) == before

    steps = kill_after_each_step(
        lambda n: space.tune("apply", "--stop-after", str(n), plan=both()).returncode, back
    )
    # The journal, and six things by the kernel.
    assert steps > 10

    def attempt(step: int) -> int:
        if not space.journal().exists():
            space.done("apply", plan=both())
        return space.tune("revert", "--stop-after", str(step)).returncode

    assert kill_after_each_step(attempt, back) > 3
    assert seen(space) == before


def test_an_unconfirmed_shaper_is_reverted(space: Space) -> None:
    before = seen(space)
    space.done("apply", "--confirm-within", "1s", plan=both())
    for _ in range(100):
        if not space.journal().exists():
            break
        time.sleep(0.1)
    assert seen(space) == before


def test_a_kernel_without_the_discipline_changes_nothing(space: Space) -> None:
    before = seen(space)
    done = space.tune("apply", plan=both(kind="sfq"))
    if done.returncode == 0:
        pytest.skip("this kernel has sfq")
    assert "everything was restored" in done.stderr
    assert seen(space) == before


@pytest.mark.parametrize(
    "made",
    [
        f"tc qdisc add dev {DEVICE} handle ffff: ingress",
        f"tc qdisc add dev {DEVICE} clsact",
        f"ip link add {IFB} type ifb",
    ],
)
def test_foreign_qdiscs_and_devices_are_not_replaced(space: Space, made: str) -> None:
    space.run(*made.split())
    before = seen(space)
    done = space.tune("apply", "--replace", plan=both())
    assert done.returncode == 2
    assert "another program has configured it" in done.stderr
    assert seen(space) == before


def test_a_foreign_filter_is_removed_only_with_force(space: Space) -> None:
    space.done("apply", plan=both())
    space.run(
        *f"tc filter add dev {DEVICE} parent ffff: prio 9 protocol ip u32".split(),
        *("match", "u32", "0", "0", "flowid", "1:2"),
    )
    assert space.tune("verify").returncode == 1
    refused = space.tune("revert")
    assert refused.returncode == 1
    assert "narrows did not set" in refused.stderr
    space.done("revert", "--force")
    assert IFB not in space.run("ip", "link")


def test_a_partly_removed_shaper_is_reverted_without_force(space: Space) -> None:
    """Somebody takes a part of the shaper away: nothing of his own is lost with the rest."""
    before = seen(space)
    for part, told in (
        (f"ip link del {IFB}", "redirected to a removed device"),
        (f"tc qdisc del dev {DEVICE} ingress", "not led to tbf rate 50000kbit"),
    ):
        space.done("apply", plan=both())
        space.run(*part.split())
        verified = space.tune("verify")
        assert verified.returncode == 1
        assert [row["is"] for row in json.loads(verified.stdout)["drifted"]] == [told]
        space.done("revert")
        assert seen(space) == before


def test_a_rate_that_was_changed_is_reported(space: Space) -> None:
    space.done("apply", plan=both())
    space.run(
        *f"tc qdisc change dev {DEVICE} root handle 1: tbf rate 9mbit".split(),
        *("burst", "3028b", "limit", "112500b"),
    )
    verified = space.tune("verify")
    assert [row["is"] for row in json.loads(verified.stdout)["drifted"]] == [
        ["tbf 1: root rate 9000kbit"]
    ]
    refused = space.tune("revert")
    assert refused.returncode == 1
    # A sentence, with the queue discipline as `tc qdisc show` prints it.
    assert refused.stderr.startswith(
        f"qdisc:{DEVICE}:root: is qdisc tbf 1: root rate 9000kbit now, which narrows did not "
        "set; before it was qdisc "
    )
    assert "to restore everything nevertheless: narrows tune revert" in refused.stderr
    assert "--force" in refused.stderr
    assert "[" not in refused.stderr
    space.done("revert", "--force")


def test_options_that_were_changed_are_reported(space: Space) -> None:
    space.run(*f"tc qdisc add dev {DEVICE} root handle 7: pfifo limit 77".split())
    wanted = {"kind": "pfifo_fast", "handle": None, "options": {}}
    found = {"kind": "pfifo", "handle": "7:", "options": {}}
    space.done(
        "apply", plan=whole(change("qdisc", {"dev": DEVICE, "parent": "root"}, found, wanted))
    )
    space.run(*f"tc qdisc replace dev {DEVICE} root handle 7: pfifo limit 78".split())
    refused = space.tune("revert")
    assert refused.returncode == 1
    assert (
        "is qdisc pfifo 7: root now, with other options than narrows found or set" in refused.stderr
    )
    space.done("revert", "--force")
    assert "limit 77p" in space.run("tc", "qdisc", "show", "dev", DEVICE)


def test_the_shaper_limits_the_rate_in_both_directions(space: Space) -> None:
    """What leaves in two seconds is what the shaper lets through, on the way out and on the way
    in.
    """
    space.done("apply", plan=both(up=4_000, down=8_000))
    space.run("ip", "addr", "add", "192.0.2.2/24", "dev", "v1", check=False)

    def sent(dev: str) -> int:
        told = re.search(r"Sent (\d+) bytes", space.run("tc", "-s", "qdisc", "show", "dev", dev))
        assert told is not None
        return int(told[1])

    flood = (
        "import socket, sys, time\n"
        "to = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n"
        "to.bind((sys.argv[1], 0))\n"
        "frame = b'\\xff' * 6 + bytes(6) + b'\\x88\\xb5' + bytes(1486)\n"
        "end = time.monotonic() + 2\n"
        "while time.monotonic() < end:\n"
        "    try: to.send(frame)\n"
        "    except OSError: pass\n"
        "    time.sleep(0.0005)\n"
    )
    for through, into, mbit in ((DEVICE, DEVICE, 4), ("v1", IFB, 8)):
        before, began = sent(into), time.monotonic()
        space.run("python3", "-c", flood, through)
        rate = (sent(into) - before) * 8e-6 / (time.monotonic() - began)
        assert 0.5 * mbit < rate < 1.15 * mbit, (into, rate)


# Plans


def test_a_plan_for_debian() -> None:
    made = plan(read("debian-12"), Ask(shape="ens18", up_kbit=UP, qdisc="fq_codel")).json()
    kinds = [(row["kind"], row["target"]) for row in made["changes"] if row["kind"] != "module"]
    assert kinds == [
        ("qdisc", {"dev": "ens18", "parent": "root"}),
        ("qdisc", {"dev": "ens18", "parent": "1:1"}),
    ]
    assert "tbf with fq_codel shapes outgoing traffic of ens18 to 18000 kbit/s" in made["title"]
    assert acts_on(Plan.of(made)) == {"up"}
    incoming = plan(read("debian-12"), Ask(shape="ens18", down_kbit=DOWN, qdisc="cake")).json()
    (ingress,) = (row for row in incoming["changes"] if row["kind"] == "ingress")
    assert ingress["target"] == {"dev": "ens18", "ifb": "ifb-ens18"}
    assert ingress["to"] == {
        "root": {"kind": "cake", "handle": None, "options": {"bandwidth": "50000kbit"}}
    }
    assert acts_on(Plan.of(incoming)) == {"down"}
    # Whatever advice may name can be planned.
    assert set(SHAPED) <= set(KINDS)


def test_a_missing_qdisc_is_reported_with_an_alternative() -> None:
    facts = read("debian-12")
    facts.loadable.remove("sch_cake")
    made = plan(facts, Ask(shape="ens18", up_kbit=UP, qdisc="cake")).json()
    assert not made["able"]
    assert "nearest available alternative: --qdisc fq_codel" in made["needs"][0]["why"]
    best = plan(facts, Ask(shape="ens18", up_kbit=UP)).json()
    assert "fq_codel" in best["title"]


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (Ask(shape="ens18"), "a rate is missing"),
        (Ask(shape="nonesuch", up_kbit=1), "nonesuch: this host has no interface nonesuch"),
        (Ask(shape="lo", up_kbit=1), "the loopback interface has no link to shape"),
        (Ask(shape="ens18", up_kbit=1, qdisc="fq"), "a shaper has one of"),
        (
            Ask(shape="ens18", up_kbit=1, devices=("ens18",), qdisc="sfq"),
            "omit --sqm and --dev",
        ),
    ],
)
def test_contradictory_requests_are_errors(ask: Ask, told: str) -> None:
    with pytest.raises(NarrowsError, match=told):
        plan(read("debian-12"), ask)


@pytest.mark.parametrize("sh", SHELLS, ids=" ".join)
def test_a_script_shapes_and_undoes_it(sh: list[str], tmp_path: Path) -> None:
    (tmp_path / "plan.sh").write_text(script(Plan.of(both())), encoding="utf-8")
    run = f"{' '.join(sh)} {tmp_path}/plan.sh"
    show = "tc qdisc show; tc filter show dev v0 parent ffff:; ip -br link | cut -d ' ' -f 1"
    out = in_namespaces(
        "ip link add v0 type veth peer name v1; ip link set v0 up; ip link set v1 up\n"
        "ip link add i type ifb && ip link del i || { echo no ifb; exit 0; }\n"
        f"echo == before; {show}; echo == apply; {run} apply; {run} verify; {show}\n"
        f"{run} apply; {run} revert; echo == end; {show}; echo ==\n"
    )
    if "no ifb" in out:
        pytest.skip("this kernel has no ifb")
    before, end = (
        re.findall(rf"^== {name}\n(.*?)^==", out, re.DOTALL | re.MULTILINE)
        for name in ("before", "end")
    )
    assert before == end != []
    assert "all changes are in effect" in out
    assert out.count("already in effect") == 2
    assert "rate 50Mbit" in out


def test_modules_are_named_once() -> None:
    for kind in KINDS:
        names = modules(kind, incoming=True)
        assert len(names) == len(set(names))
