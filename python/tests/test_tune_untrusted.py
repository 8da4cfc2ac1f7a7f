"""Output of an untrusted host: unexpected facts, and more of them than the limit."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from test_tune import HOSTS

from narrows.errors import EngineError, NarrowsError
from narrows.tune import collect
from narrows.tune.diff import lines
from narrows.tune.facts import parse
from narrows.tune.findings import Path as Line
from narrows.tune.findings import audit
from narrows.tune.plan import Ask
from narrows.tune.planner import plan
from narrows.tune.render import audit_json, audit_lines

MANY = "9" * 5000
SECTIONS = [
    *(
        "@ ",
        "@ files",
        "@ files system",
        "@ list",
        "@ link x",
        "@ module",
        "@ space",
        "@ space 1",
        "@ lacks",
        "@ config",
    ),
    *(
        "@ sockets",
        "@ interface",
        "@ says",
        "@ says tc",
        "@ says ethtool",
        "@ says ethtool -k",
        "@ says iw dev",
    ),
    *("@ says iw dev lo", "@ interface lo", "@ who"),
]
LINES = [
    *(
        "|",
        "|:",
        "|=",
        "|x:y:z",
        "|qdisc",
        "|qdisc fq dev",
        "|qdisc fq 1: dev",
        "|qdisc fq 1: dev lo parent",
    ),
    *(
        "|qdisc dev 1: dev lo refcnt",
        f"|uid {MANY}",
        f"|sys/class/net/lo/mtu:{MANY}",
        f"|net/ipv4/tcp_wmem:{MANY}",
    ),
    *(
        f"| Sent dropped {MANY}, overlimits 1",
        f"|proc/sys/kernel/osrelease:{MANY}.1",
        "|\x1b]0;title\x07",
    ),
]


@pytest.mark.parametrize("seed", range(60))
def test_damaged_facts_are_read_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    text = chance.choice(sorted(HOSTS.glob("*.txt"))).read_text(encoding="utf-8").splitlines()
    for _ in range(chance.randint(1, 60)):
        at = chance.randrange(1, len(text) - 1)
        match chance.randrange(5):
            case 0:
                text.insert(at, chance.choice(SECTIONS))
            case 1:
                text.insert(at, chance.choice(LINES))
            case 2:
                text[at] = text[at][: chance.randrange(len(text[at]) + 1)]
            case 3:
                del text[at]
            case _:
                words = text[at].split(" ")
                chance.shuffle(words)
                text[at] = " ".join(words)
    try:
        facts = parse("\n".join(text))
        found = audit(facts, Line())
        audit_json(facts, found)
        said = audit_lines(facts, found, every=True)
        for ask in (
            Ask(cc="bbr", qdisc="fq"),
            Ask(cc="bbr", to=["192.0.2.0/24"]),
            Ask(shape="eth0", up_kbit=1000),
        ):
            try:
                said += lines(plan(facts, ask))
            except NarrowsError as error:
                said.append(str(error))
    except NarrowsError as error:
        said = [str(error)]
    assert not any("\x1b" in line or "\x07" in line for line in said)


def replace_ssh(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace ssh by a program that runs this script."""
    ssh = folder / "ssh"
    ssh.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_endless_output_of_a_host_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "_MOST", 1 << 20)
    replace_ssh(tmp_path, "exec yes", monkeypatch)
    with pytest.raises(EngineError, match="sent more than 1 MiB"):
        collect.collect(ssh="far")
    # Its stderr is read, so that it can end, and the last line is shown.
    replace_ssh(
        tmp_path,
        "head -c 3000000 /dev/zero >&2; printf '\\n\\033[31mno\\n' >&2; exit 3",
        monkeypatch,
    )
    with pytest.raises(EngineError) as refused:
        collect.collect(ssh="far")
    assert str(refused.value) == "far: ?[31mno"
    (tmp_path / "facts.txt").write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(NarrowsError, match="larger than 1 MiB"):
        collect.facts(file=str(tmp_path / "facts.txt"))


def test_a_silent_host_causes_a_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "_PATIENCE_S", 0.2)
    replace_ssh(tmp_path, "exec sleep 60", monkeypatch)
    with pytest.raises(EngineError, match="no answer within"):
        collect.collect(ssh="far")


def test_the_collector_is_sent_completely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_ssh(tmp_path, "cat", monkeypatch)
    assert collect.collect(ssh="far") == collect.script()
