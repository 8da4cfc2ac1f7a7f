"""`narrows from`: configurations of other programs are read, their errors are reported, and no text
causes a crash.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import Cli
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows.advise.importers import ConfigError, read
from narrows.advise.judge import judge
from narrows.errors import NarrowsError

NETEM = (
    "tc qdisc add dev eth0 root netem delay 100ms 10ms 25% distribution normal loss 1% rate "
    "20mbit limit 500"
)
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
        "kind": "netem",
        "handle": "8001:",
        "dev": "eth0",
        "root": True,
        "refcnt": 2,
        "options": {
            "limit": 1000,
            "delay": {"delay": 0.1, "jitter": 0.01, "correlation": 0},
            "loss-random": {"loss": 0.01, "correlation": 0},
            "rate": {"rate": 2500000, "packetoverhead": 0, "cellsize": 0, "celloverhead": 0},
            "ecn": False,
            "gap": 0,
        },
    }
]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (
            NETEM,
            {
                "rate": "20Mbit",
                "rtt": "100ms",
                "buffer": "334p",
                "loss": "1%",
                "jitter": {
                    "kind": "normal",
                    "spread": "10ms",
                    "ordered": False,
                    "correlation": 0.25,
                },
            },
        ),
        (
            "tc qdisc add dev e root handle 1: tbf rate 5mbit burst 15k limit 30000",
            {
                "rate": "5Mbit",
                "rtt": "40ms",
                "buffer": "30000B",
                "link": {"kind": "tbf", "burst": "15360B"},
            },
        ),
        (
            "tc qdisc add dev e root handle 1: htb default 1\n"
            "tc class add dev e parent 1: classid 1:1 htb rate 5mbit burst 15k\n"
            "tc qdisc add dev e parent 1:1 handle 10: fq_codel target 10ms limit 600 noecn",
            {
                "rate": "5Mbit",
                "rtt": "40ms",
                "link": {"kind": "htb", "burst": "15360B"},
                "queue": {"kind": "fq_codel", "target": "10ms", "ecn": False, "limit": "600p"},
            },
        ),
        (
            "tc qdisc replace dev e root cake bandwidth 18mbit besteffort rtt 50ms nat",
            {
                "rate": "18Mbit",
                "rtt": "40ms",
                "queue": {"kind": "cake", "rtt": "50ms", "diffserv": "besteffort", "nat": True},
            },
        ),
        (
            "tc qdisc add dev a root netem delay 30ms rate 10mbit; tc qdisc add dev b root netem "
            "delay 10ms rate 2mbit",
            {
                "rate": "10Mbit",
                "rtt": "40ms",
                "delay_forward": "30ms",
                "buffer": "975p",
                "reverse": {"rate": "2Mbit", "buffer": "1000p"},
            },
        ),
        (
            "tc filter add dev e parent ffff: matchall action police rate 2mbit burst 62500 "
            "conform-exceed drop",
            {
                "rate": "1Gbit",
                "rtt": "40ms",
                "policer": {"kind": "police", "rate": "2Mbit", "burst": "62500B"},
            },
        ),
        (
            json.dumps(SHOWN),
            {
                "rate": "20Mbit",
                "rtt": "100ms",
                "buffer": "834p",
                "loss": "1%",
                "jitter": {"kind": "uniform", "spread": "10ms", "ordered": False},
            },
        ),
        (
            ROUTER,
            {
                "rate": "1Gbit",
                "rtt": "40ms",
                "policer": {"kind": "cir", "cir": "2Mbit", "bc": "62500B", "be": "125000B"},
            },
        ),
        (
            "shape average 2000000 64000\nqueue-limit 85 packets",
            {
                "rate": "2Mbit",
                "rtt": "40ms",
                "buffer": "85p",
                "link": {"kind": "shape_average", "bc": "8000B"},
            },
        ),
        (
            SQM,
            {
                "rate": "20Mbit",
                "rtt": "40ms",
                "queue": {"kind": "cake", "bandwidth": "20Mbit", "cells": "noatm", "overhead": 44},
                "reverse": {
                    "rate": "5Mbit",
                    "queue": {
                        "kind": "cake",
                        "bandwidth": "5Mbit",
                        "cells": "noatm",
                        "overhead": 44,
                    },
                },
            },
        ),
        (
            "qdisc fq_codel 0: dev eth0 root refcnt 2 limit 10240p flows 1024 target 5ms interval "
            "100ms ecn",
            {
                "rate": "1Gbit",
                "rtt": "40ms",
                "queue": {
                    "kind": "fq_codel",
                    "target": "5ms",
                    "interval": "100ms",
                    "flows": 1024,
                    "ecn": True,
                    "limit": "10240p",
                },
            },
        ),
    ],
)
def test_a_configuration_becomes_a_path(text: str, path: dict[str, Any]) -> None:
    assert read(text).path.tree() == path


def test_a_queue_discipline_that_tc_printed_is_not_an_error() -> None:
    found = read("qdisc prio 1: dev eth0 root refcnt 2\nqdisc newest 2: dev eth0 parent 1:1")
    assert any("newest" in sentence for sentence in found.left)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (
            "tc qdisc add dev e root fq_codel\ntc qdisc add dev e root netem delay 10ms",
            2,
            "second root on e is refused",
        ),
        (
            "tc qdisc add dev e root fq\ntc qdisc replace dev e root netem delay 10ms",
            2,
            "netem replaces fq",
        ),
        (
            "tc qdisc add dev e root tbf rate 200000 burst 15k latency 50ms",
            1,
            "200000 without a unit is 200 kbit/s",
        ),
        (
            "tc qdisc add dev e root tbf rate 200kbps burst 15k latency 50ms",
            1,
            "bps means bytes per second",
        ),
        ("policy-map x\n class y\n  police 200000 6250", 3, "200000 is 0.2 Mbit/s"),
        ("class y\nshape peak 2000000", 2, "= 4 Mbit/s, 2 times the configured 2 Mbit/s"),
        ("police cir 20000000 bc 12500", 1, "5 ms of the rate"),
        ("shape average 8000000 4000", 1, "in bits here"),
        ("tc qdisc add dev e root netem delay 100ms rate 1gbit", 1, "includes delayed packets"),
        (
            "tc qdisc add dev e root tbf rate 2mbit burst 15k latency 50ms peakrate 4mbit mtu 1540",
            1,
            "2 times the rate",
        ),
        (
            "tc filter add dev e parent ffff: matchall action police rate 100mbit burst 10k",
            1,
            "less than 10 ms",
        ),
        (
            "option download '20'\noption upload '5000'\noption overhead '44'",
            1,
            "the unit of sqm is kbit/s",
        ),
    ],
)
def test_common_errors_are_reported_with_their_line(text: str, line: int, says: str) -> None:
    found = [warned for warned in read(text).warned if says in warned.says]
    assert len(found) == 1
    assert found[0].line == line


def test_a_correct_configuration_has_no_warning() -> None:
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
        ("tc qdisc add dev e root netem delay x", "line 1: `x` is not a time"),
        ("\ntc qdisc add dev e root netem loss 101%", "line 2: `101%` is not a probability"),
        ("tc qdisc add dev e root tbf rate 5apples", "line 1: `5apples` is not a rate"),
        ("tc qdisc add dev e root", "line 1: the queue discipline is missing"),
        ("police", "line 1: the rate is missing"),
        ("police cir percent 10", "line 1: a percentage needs the rate"),
        ("option download 'fast'", "line 1: download"),
        ("tc qdisc add dev e root netem delay 100ms\0", "line 1: not text"),
        ("tc qdisc add dev e root netem delay 900s 1s 10% rate 9999999gbit", "line 1: "),
    ],
)
def test_invalid_configurations_are_errors_with_their_line(text: str, place: str) -> None:
    with pytest.raises(ConfigError, match=r"(?s).*") as caught:
        read(text)
    assert place in str(caught.value)


WORDS = st.sampled_from(
    [
        "tc",
        "qdisc",
        "class",
        "filter",
        "add",
        "replace",
        "dev",
        "eth0",
        "root",
        "parent",
        "1:",
        "handle",
        "netem",
        "delay",
        "100ms",
        "10ms",
        "loss",
        "1%",
        "25%",
        "gemodel",
        "rate",
        "2mbit",
        "200000",
        "tbf",
        "burst",
        "15k",
        "latency",
        "htb",
        "cake",
        "bandwidth",
        "fq_codel",
        "limit",
        "1000",
        "police",
        "cir",
        "bc",
        "be",
        "shape",
        "average",
        "peak",
        "2000000",
        "62500",
        "queue-limit",
        "policy-map",
        "option",
        "download",
        "'20000'",
        "sqm.",
        "config",
        "queue",
        "action",
        ";",
        "&&",
        "#",
        "\\",
        "-1",
        "1e999",
        "\n",
        "distribution",
        "normal",
        "reorder",
        "gap",
        "5",
        "seed",
        "slot",
        "ecn",
        "refcnt",
        "fq",
        "buckets",
        "sfq",
        "perturb",
        "weights",
        "stab",
        "overhead",
        "hfsc",
        "set",
        "traffic-policy",
        "shaper",
        "conform-exceed",
    ]
)
TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["netem", "tbf"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "kind",
                    "options",
                    "delay",
                    "rate",
                    "loss-random",
                    "limit",
                    "dev",
                    "root",
                    "burst",
                    "lat",
                ]
            )
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
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        said = read(text).path.rtt
    except NarrowsError as error:
        said = str(error)
    assert said


@pytest.mark.parametrize(
    ("text", "queue"),
    [
        (
            "tc qdisc add dev e root fq quantum 2000 initial_quantum 4000 flow_limit 50 maxrate "
            "10mbit "
            "ce_threshold 4ms",
            {
                "kind": "fq",
                "quantum": "2000B",
                "initial_quantum": "4000B",
                "flow_limit": "50p",
                "maxrate": "10Mbit",
                "ce_threshold": "4ms",
            },
        ),
        (
            "tc qdisc add dev e root sfq perturb 10 limit 100 headdrop flows 64/1024",
            {"kind": "sfq", "perturb": "10000ms", "limit": "100p", "headdrop": True, "flows": 64},
        ),
        (
            "tc qdisc add dev e root cake bandwidth 20mbit docsis nat ack-filter ingress",
            {
                "kind": "cake",
                "bandwidth": "20Mbit",
                "line": "docsis",
                "nat": True,
                "ack_filter": "ack-filter",
                "ingress": True,
            },
        ),
        (
            "qdisc cake 8001: dev e root refcnt 2 bandwidth 20Mbit diffserv3 triple-isolate nonat "
            "nowash no-ack-filter "
            "split-gso rtt 100ms raw overhead 0",
            {"kind": "cake", "diffserv": "diffserv3", "flows": "triple-isolate", "rtt": "100ms"},
        ),
        (
            "tc qdisc add dev e root cake bandwidth 20mbit overhead 44 mpu 84 atm",
            {"kind": "cake", "bandwidth": "20Mbit", "overhead": 44, "mpu": "84B", "cells": "atm"},
        ),
        (
            json.dumps(
                [
                    {
                        "kind": "fq",
                        "dev": "e",
                        "root": True,
                        "options": {
                            "limit": 10000,
                            "flow_limit": 100,
                            "quantum": 3028,
                            "maxrate": 1250000,
                            "horizon": 10000000,
                            "timer_slack": 10000,
                            "horizon_drop": True,
                            "refill_delay": 40000,
                        },
                    }
                ]
            ),
            {
                "kind": "fq",
                "limit": "10000p",
                "flow_limit": "100p",
                "quantum": "3028B",
                "maxrate": "10Mbit",
                "horizon": "10000ms",
                "timer_slack": "0.01ms",
                "horizon_drop": True,
                "refill_delay": "40ms",
            },
        ),
        (
            json.dumps(
                [
                    {
                        "kind": "cake",
                        "dev": "e",
                        "root": True,
                        "options": {
                            "bandwidth": 2500000,
                            "diffserv": "besteffort",
                            "flowmode": "dual-dsthost",
                            "nat": True,
                            "wash": False,
                            "ingress": False,
                            "ack-filter": "enabled",
                            "split_gso": True,
                            "rtt": 50000,
                            "raw": False,
                            "atm": "atm",
                            "overhead": 44,
                        },
                    }
                ]
            ),
            {
                "kind": "cake",
                "diffserv": "besteffort",
                "flows": "dual-dsthost",
                "nat": True,
                "cells": "atm",
                "ack_filter": "ack-filter",
                "rtt": "50ms",
                "overhead": 44,
                "bandwidth": "20Mbit",
            },
        ),
    ],
)
def test_a_discipline_keeps_its_options(text: str, queue: dict[str, Any]) -> None:
    found = read(text)
    assert found.path.tree()["queue"] == queue
    assert found.left == []


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            "tc qdisc add dev e root fq buckets 2048 defrate 1mbit",
            ["`buckets 2048`", "`defrate 1mbit`"],
        ),
        (
            "tc qdisc add dev e root cake bandwidth 9mbit fwmark 0xff bogus",
            ["`fwmark 0xff`", "`bogus`"],
        ),
        ("tc qdisc add dev e root netem delay 5ms seed 7", ["`seed 7`"]),
        (
            "tc qdisc add dev e root netem delay 5ms rate 1mbit 20 48 5",
            ["`rate's overhead and cells: 20 48 5`"],
        ),
        ("tc qdisc add dev e root netem delay 5ms slot 1ms 2ms", ["`slot 1ms 2ms`"]),
        (
            "tc class add dev e parent 1: classid 1:1 htb rate 5mbit prio 1 quantum 1500 cburst "
            "15k linklayer atm",
            ["`prio 1`", "`quantum 1500`", "`cburst 15k`", "`linklayer atm`"],
        ),
        (
            "tc qdisc add dev e root stab overhead 44 linklayer atm tbf rate 5mbit burst 15k "
            "latency 50ms mpu 64",
            ["`stab overhead 44 linklayer atm`", "`mpu 64`"],
        ),
        ("tc qdisc add dev e root estimator 1s 4s fq", ["`estimator 1s 4s`"]),
        (
            "tc qdisc add dev e root ets bands 3 quanta 1500",
            ["of ets: `bands 3 quanta 1500`", "ets, which"],
        ),
        (
            "tc qdisc add dev e root prio bands 3",
            ["options of prio: `bands 3`", "prio, which narrows does not"],
        ),
        (
            "tc qdisc add dev e root fq\ntc filter add dev e parent 1: protocol ip u32 match ip "
            "dport 80 flowid 1:1",
            ["`filter add dev e parent 1: protocol ip u32 match ip"],
        ),
        (
            "tc filter add dev e parent ffff: u32 match u32 0 0 police rate 2mbit burst 62500 "
            "overhead 24 "
            "conform-exceed reclassify/ok flowid :1",
            ["the filter u32", "`overhead 24`", "`conform-exceed reclassify/ok`", "`:1`"],
        ),
        (
            json.dumps(
                [{"kind": "fq", "dev": "e", "root": True, "options": {"buckets": 1024, "bands": 0}}]
            ),
            ["entry 1: `buckets 1024`"],
        ),
        (SQM.replace("cake", "fq_codel"), ["`linklayer ethernet`", "`overhead 44`"]),
        (
            "policy-map x\n class y\n  police cir 2000000 bc 62500 exceed-action "
            "set-dscp-transmit cs1\n  set dscp ef",
            ["`set dscp ef`"],
        ),
        (
            "police cir 2000000 bc 62500 exceed-action set-prec-transmit 3",
            ["`exceed-action set-prec-transmit 3`"],
        ),
    ],
)
def test_every_unsupported_option_is_reported(text: str, left: list[str]) -> None:
    found = read(text).left
    assert len(found) == len(left), found
    for one, told in zip(left, found, strict=True):
        assert one in told


def test_overhead_and_advanced_options_of_sqm_are_imported() -> None:
    text = SQM.replace("ethernet", "atm").replace("'44'", "'40'") + (
        "\toption script 'piece_of_cake.qos'\n\toption qdisc_advanced '1'\n\toption "
        "qdisc_really_really_advanced '1'\n"
        "\toption iqdisc_opts 'nat dual-dsthost ingress'\n\toption eqdisc_opts 'nat dual-srchost "
        "ack-filter bogus'\n"
    )
    found = read(text)
    both = {"kind": "cake", "cells": "atm", "overhead": 40, "diffserv": "besteffort", "nat": True}
    tree = found.path.tree()
    assert tree["queue"] == both | {"bandwidth": "20Mbit", "flows": "dual-dsthost", "ingress": True}
    assert tree["reverse"]["queue"] == both | {
        "bandwidth": "5Mbit",
        "flows": "dual-srchost",
        "ack_filter": "ack-filter",
    }
    assert found.left == ["line 13: `bogus`"]


def test_the_limit_of_netem_includes_delayed_packets() -> None:
    found = read("tc qdisc add dev e root netem delay 200ms")
    tree = found.path.tree()
    assert tree["buffer"] == "1000p"
    # 1000 frames of 1514 bytes in 200 ms.
    assert tree["policer"] == {
        "kind": "police",
        "rate": "60.56Mbit",
        "burst": "1514000B",
        "header": "0B",
    }
    assert any("netem's limit" in sentence for sentence in found.assumed)
    judged = judge(found.path)
    assert 40 < judged.rows["CUBIC"]["goodput_mbit"][0] < 61
    assert 40 < judged.rows["BBR"]["goodput_mbit"][0] < 61
    # Where the link is slower, or the limit does not bind, there is no bucket.
    for text in (
        "netem delay 5ms",
        "netem delay 200ms limit 100000",
        "netem delay 100ms rate 20mbit",
    ):
        assert "policer" not in read(f"tc qdisc add dev e root {text}").path.tree()


def test_the_limit_of_netem_with_a_rate_includes_delayed_packets() -> None:
    # 200 ms at 5 Mbit/s are 83 frames of 1514 bytes: 50 of them let 3.03 Mbit/s pass.
    found = read("tc qdisc add dev e root netem delay 200ms rate 5mbit limit 50")
    assert found.path.tree()["policer"]["rate"] == "3.028Mbit"
    assert judge(found.path).rows["BBR"]["goodput_mbit"][0] < 3.03
    # Where more fit, they wait: 100 of 183.
    tree = read("tc qdisc add dev e root netem delay 200ms rate 5mbit limit 183").path.tree()
    assert tree["buffer"] == "100p"
    assert "policer" not in tree


def test_hfsc_is_not_supported() -> None:
    shown = json.dumps([{"kind": "hfsc", "dev": "e", "root": True, "options": {}}])
    for text in (
        "tc qdisc add dev e root handle 1: hfsc default 1",
        "tc class add dev e parent 1: classid 1:1 hfsc sc rate 5mbit",
        "qdisc hfsc 1: dev e root",
        shown,
    ):
        with pytest.raises(ConfigError, match="hfsc is not supported"):
            read(text)


def test_a_path_is_judged_with_several_flows_of_each_mix() -> None:
    path = read("tc qdisc add dev e root netem delay 20ms rate 20mbit limit 100").path
    judged = judge(path, flows=3)
    assert [len(judged.rows[mix]["goodput_mbit"]) for mix in judged.rows] == [1, 1, 2]
    assert 15 < sum(judged.rows["both"]["goodput_mbit"]) < 20


def test_the_command_prints_a_path_and_errors(command: Cli, tmp_path: Any) -> None:  # noqa: ANN401
    done = command(
        "from",
        "tc qdisc add dev e root fq\ntc qdisc replace dev e root netem delay 50ms rate 200000",
    )
    assert done.returncode == 0
    assert "line 2: warning: netem replaces fq" in done.stdout
    assert 'rate = "200kbit"' in done.stdout
    out = tmp_path / "path.toml"
    spaced = tmp_path / "my router.cfg"
    spaced.write_text("tc qdisc add dev e root netem rate 3mbit\n", encoding="utf-8")
    assert 'rate = "3Mbit"' in command("from", str(spaced)).stdout
    told = json.loads(
        command("from", "shape peak 2000000", "--json", "--rtt", "20ms", "-o", str(out)).stdout
    )
    assert told["path"]["rtt"] == "20ms"
    assert told["rate_mbit"] == 4
    assert command("check", str(out)).returncode == 0
    wrong = command("from", "tc qdisc add dev e root netem delay x")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("text: line 1: `x` is not a time")
    assert "Traceback" not in wrong.stderr
    assert command("from", "nosuch.conf").stderr.startswith(
        "no file nosuch.conf; as text: line 1: "
    )
    unused = command("from", "tc qdisc add dev e root netem delay 50ms rate 200000", "--rtt", "20")
    assert (unused.returncode, unused.stderr) == (2, "--rtt 20: needs a unit; write --rtt 20ms\n")
