"""`narrows from`: others' configurations read, their mistakes told, and nothing of them crashes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import Cli
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows.advise.dialects import ConfigError, read
from narrows.errors import NarrowsError

NETEM = "tc qdisc add dev eth0 root netem delay 100ms 10ms 25% distribution normal loss 1% rate 20mbit limit 500"
ROUTER = """policy-map OUT
 class class-default
  police cir 2000000 bc 62500 be 125000 conform-action transmit exceed-action drop
"""
SQM = """config queue 'eth1'
\toption enabled '1'
\toption interface 'eth1'
\toption download '20000'
\toption upload '5000'
\toption qdisc 'cake'
\toption linklayer 'ethernet'
\toption overhead '44'
"""
SHOWN = [
    {
        "kind": "netem", "handle": "8001:", "dev": "eth0", "root": True, "refcnt": 2,
        "options": {"limit": 1000, "delay": {"delay": 0.1, "jitter": 0.01, "correlation": 0},
                    "loss-random": {"loss": 0.01, "correlation": 0},
                    "rate": {"rate": 2500000, "packetoverhead": 0, "cellsize": 0, "celloverhead": 0},
                    "ecn": False, "gap": 0},
    }
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (
            NETEM,
            {
                "rate": "20Mbit", "rtt": "100ms", "buffer": "500p", "loss": "1%",
                "jitter": {"kind": "normal", "spread": "10ms", "ordered": False, "correlation": 0.25},
            },
        ),
        (
            "tc qdisc add dev e root handle 1: tbf rate 5mbit burst 15k limit 30000",
            {"rate": "5Mbit", "rtt": "40ms", "buffer": "30000B", "link": {"kind": "tbf", "burst": "15360B"}},
        ),
        (
            "tc qdisc add dev e root handle 1: htb default 1\n"
            "tc class add dev e parent 1: classid 1:1 htb rate 5mbit burst 15k\n"
            "tc qdisc add dev e parent 1:1 handle 10: fq_codel target 10ms limit 600 noecn",
            {
                "rate": "5Mbit", "rtt": "40ms", "link": {"kind": "htb", "burst": "15360B"},
                "queue": {"kind": "fq_codel", "target": "10ms", "ecn": False, "limit": "600p"},
            },
        ),
        (
            "tc qdisc replace dev e root cake bandwidth 18mbit besteffort rtt 50ms nat",
            {"rate": "18Mbit", "rtt": "40ms", "queue": {"kind": "cake", "rtt": "50ms", "diffserv": "besteffort"}},
        ),
        (
            "tc qdisc add dev a root netem delay 30ms rate 10mbit; tc qdisc add dev b root netem delay 10ms rate 2mbit",
            {
                "rate": "10Mbit", "rtt": "40ms", "delay_forward": "30ms", "buffer": "1000p",
                "reverse": {"rate": "2Mbit", "buffer": "1000p"},
            },
        ),
        (
            "tc filter add dev e parent ffff: matchall action police rate 2mbit burst 62500 conform-exceed drop",
            {"rate": "1Gbit", "rtt": "40ms", "policer": {"kind": "police", "rate": "2Mbit", "burst": "62500B"}},
        ),
        (
            json.dumps(SHOWN),
            {
                "rate": "20Mbit", "rtt": "100ms", "buffer": "1000p", "loss": "1%",
                "jitter": {"kind": "uniform", "spread": "10ms", "ordered": False},
            },
        ),
        (
            ROUTER,
            {
                "rate": "1Gbit", "rtt": "40ms",
                "policer": {"kind": "cir", "cir": "2Mbit", "bc": "62500B", "be": "125000B"},
            },
        ),
        (
            "shape average 2000000 64000\nqueue-limit 85 packets",
            {"rate": "2Mbit", "rtt": "40ms", "buffer": "85p", "link": {"kind": "shape_average", "bc": "8000B"}},
        ),
        (SQM, {"rate": "20Mbit", "rtt": "40ms", "queue": "cake", "reverse": {"rate": "5Mbit", "queue": "cake"}}),
        (
            "qdisc fq_codel 0: dev eth0 root refcnt 2 limit 10240p flows 1024 target 5ms interval 100ms ecn",
            {
                "rate": "1Gbit", "rtt": "40ms",
                "queue": {
                    "kind": "fq_codel", "target": "5ms", "interval": "100ms", "flows": 1024, "ecn": True,
                    "limit": "10240p",
                },
            },
        ),
    ],
)  # fmt: skip
def test_a_configuration_becomes_a_path(text: str, path: dict[str, Any]) -> None:
    assert read(text).path.tree() == path


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (
            "tc qdisc add dev e root fq_codel\ntc qdisc add dev e root netem delay 10ms",
            2,
            "second root on e is refused",
        ),
        ("tc qdisc add dev e root fq\ntc qdisc replace dev e root netem delay 10ms", 2, "fq is lost to netem"),
        ("tc qdisc add dev e root tbf rate 200000 burst 15k latency 50ms", 1, "200000 without a unit is 200 kbit/s"),
        ("tc qdisc add dev e root tbf rate 200kbps burst 15k latency 50ms", 1, "bps is bytes per second"),
        ("policy-map x\n class y\n  police 200000 6250", 3, "200000 is 0.2 Mbit/s"),
        ("class y\nshape peak 2000000", 2, "= 4 Mbit/s, 2 times 2"),
        ("police cir 20000000 bc 12500", 1, "5 ms of the rate"),
        ("shape average 8000000 4000", 1, "in bits here"),
        ("tc qdisc add dev e root netem delay 100ms rate 1gbit", 1, "holds also what it delays"),
        (
            "tc qdisc add dev e root tbf rate 2mbit burst 15k latency 50ms peakrate 4mbit mtu 1540",
            1,
            "2 times the rate",
        ),
        ("tc filter add dev e parent ffff: matchall action police rate 100mbit burst 10k", 1, "less than 10 ms"),
        ("option download '20'\noption upload '5000'\noption overhead '44'", 1, "sqm counts kbit/s"),
    ],
)
def test_classic_mistakes_are_told_with_their_line(text: str, line: int, says: str) -> None:
    found = [warned for warned in read(text).warned if says in warned.says]
    assert len(found) == 1
    assert found[0].line == line


def test_a_right_configuration_is_not_warned_of() -> None:
    for text in (NETEM, ROUTER, SQM, "tc qdisc add dev e root cake bandwidth 20mbit"):
        assert read(text).warned == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("hello", "line 1: neither"),
        ("", "line 1: neither"),
        ("[", "not JSON"),
        ("[1]", "entry 1"),
        ('[{"kind": "netem", "options": {"delay": {"delay": -1}}}]', "entry 1: delay"),
        ("tc qdisc add dev e root netem delay x", "line 1: `x` is no time"),
        ("\ntc qdisc add dev e root netem loss 101%", "line 2: `101%` is no probability"),
        ("tc qdisc add dev e root tbf rate 5apples", "line 1: `5apples` is no rate"),
        ("tc qdisc add dev e root", "line 1: it names no discipline"),
        ("police", "line 1: it has no rate"),
        ("police cir percent 10", "line 1: percent of which rate"),
        ("option download 'fast'", "line 1: download"),
        ("tc qdisc add dev e root netem delay 100ms\0", "line 1: not text"),
        ("tc qdisc add dev e root netem delay 900s 1s 10% rate 9999999gbit", "line 1: "),
    ],
)
def test_what_cannot_be_read_names_its_line(text: str, place: str) -> None:
    with pytest.raises(ConfigError, match=r"(?s).*") as caught:
        read(text)
    assert place in str(caught.value)


WORDS = st.sampled_from(
    [
        "tc", "qdisc", "class", "filter", "add", "replace", "dev", "eth0", "root", "parent", "1:", "handle", "netem",
        "delay", "100ms", "10ms", "loss", "1%", "25%", "gemodel", "rate", "2mbit", "200000", "tbf", "burst", "15k",
        "latency", "htb", "cake", "bandwidth", "fq_codel", "limit", "1000", "police", "cir", "bc", "be", "shape",
        "average", "peak", "2000000", "62500", "queue-limit", "policy-map", "option", "download", "'20000'", "sqm.",
        "config", "queue", "action", ";", "&&", "#", "\\", "-1", "1e999", "\n", "distribution", "normal", "reorder",
        "gap", "5", "seed", "slot", "ecn", "refcnt",
    ]
)  # fmt: skip
TREES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8) | st.sampled_from(["netem", "tbf"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["kind", "options", "delay", "rate", "loss-random", "limit", "dev", "root", "burst", "lat"])
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(
    st.text(max_size=300)
    | st.lists(WORDS, max_size=30).map(" ".join)
    | TREES.map(lambda tree: json.dumps([tree]))
    | st.lists(WORDS, max_size=8).map(lambda words: "tc qdisc add dev e root " + " ".join(words))
)
def test_no_text_breaks_it(text: str) -> None:
    try:
        said = read(text).path.rtt
    except NarrowsError as error:
        said = str(error)
    assert said


def test_the_command(cli: Cli, tmp_path: Any) -> None:  # noqa: ANN401
    done = cli("from", "tc qdisc add dev e root fq\ntc qdisc replace dev e root netem delay 50ms rate 200000")
    assert done.returncode == 0
    assert "line 2: fq is lost to netem" in done.stdout
    assert 'rate = "200kbit"' in done.stdout
    out = tmp_path / "path.toml"
    told = json.loads(cli("from", "shape peak 2000000", "--json", "--rtt", "20ms", "-o", str(out)).stdout)
    assert told["path"]["rtt"] == "20ms"
    assert told["rate_mbit"] == 4
    assert cli("check", str(out)).returncode == 0
    wrong = cli("from", "tc qdisc add dev e root netem delay x")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("text: line 1: `x` is no time")
    assert "Traceback" not in wrong.stderr
    assert cli("from", "nosuch.conf").stderr.startswith("no file nosuch.conf; as text: line 1: ")
    unused = cli("from", "tc qdisc add dev e root netem delay 50ms rate 200000", "--rtt", "20")
    assert (unused.returncode, unused.stderr) == (2, 'path.rtt = "20" needs a unit\n    write: rtt = "20ms"\n')
