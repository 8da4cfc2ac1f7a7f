"""`narrows-host tune audit` and `tune plan` print what the command of the package prints."""

from __future__ import annotations

import json
import subprocess

import pytest
from conftest import Cli
from test_tune import HOSTS, NAMES

from narrows.host.live import HOST

PLANS = [
    ["plan", "--cc", "bbr", "--qdisc", "fq"],
    ["plan", "--ecn", "on", "--rate", "1Gbit", "--rtt", "80ms", "--set", "net.ipv4.tcp_sack=1"],
]


def host(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [HOST, "tune", *words], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("name", NAMES)
def test_both_programs_print_the_same(command: Cli, name: str) -> None:
    file = str(HOSTS / f"{name}.txt")
    for words in (["audit"], ["audit", "--rate", "100Mbit", "--rtt", "40ms"], *PLANS):
        package = command("tune", *words, "--facts", file, "--json")
        own = host(*words, "--facts", file, "--json")
        assert (own.returncode, own.stderr) == (package.returncode, package.stderr)
        assert json.loads(own.stdout) == json.loads(package.stdout)
        assert (
            host(*words, "--facts", file).stdout == command("tune", *words, "--facts", file).stdout
        )


def test_both_programs_print_the_same_findings_and_collector(command: Cli) -> None:
    file = str(HOSTS / "laptop.txt")
    every = ["tune", "audit", "--all", "--facts", file]
    assert host(*every[1:]).stdout == command(*every).stdout
    assert host("audit", "--collector").stdout == command("tune", "audit", "--collector").stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["audit", "--cc", "bbr"], "--cc: belongs to tune plan; leave it out"),
        (["audit", "--rate", "1Gbit"], "--rate, --rtt: write both"),
        (["plan", "--qdisc", "fq_cdel", "--facts", "FILE"], "write --qdisc fq_codel"),
        (["audit", "--root", "/etc"], "/etc: there is no proc/sys in it"),
    ],
)
def test_errors_name_the_option(words: list[str], says: str) -> None:
    file = str(HOSTS / "debian-12.txt")
    refused = host(*(file if word == "FILE" else word for word in words))
    assert (refused.returncode, says in refused.stderr) == (2, True), refused.stderr
