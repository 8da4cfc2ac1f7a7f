"""`narrows from`: policies of Cisco's IOS and of VyOS."""

from __future__ import annotations

from typing import Any

import pytest
from test_from import ROUTER

from narrows.advise.importers import ConfigError, read


def test_an_action_that_marks_and_transmits_does_not_drop() -> None:
    police = "police cir 2000000 bc 62500 be 62500 conform-action transmit exceed-action"
    for action, exceed in (
        ("set-dscp-transmit af11", "af11"),
        ("set-dscp-transmit 10", "af11"),
        ("set-qos-transmit 4", "pass"),
        ("drop", None),
    ):
        policer = read(f"{police} {action} violate-action drop").path.tree()["policer"]
        assert policer.get("exceed") == exceed, action


def test_units_of_ios_xr_are_converted() -> None:
    policer = read("policy-map x\n class y\n  police rate 10 mbps burst 250 kbytes\n").path.tree()[
        "policer"
    ]
    assert policer == {"kind": "cir", "cir": "10Mbit", "bc": "250000B"}
    with pytest.raises(ConfigError, match="`burst` in ms"):
        read("police rate 10 mbps burst 100 ms")


def test_vyos_interfaces_are_no_part_of_a_policy_and_a_second_policy_is_an_assumption() -> None:
    lines = [
        "qos policy cake W bandwidth 30mbit",
        "qos interface eth0 egress W",
        "interfaces ethernet eth0 traffic-policy out W",
        "interfaces ethernet eth0 mtu 1400",
    ]
    found = read("\n".join(f"set {line}" for line in lines))
    assert found.left == ["line 4: `set interfaces ethernet eth0 mtu 1400`"]
    assert not any("reverse" in one for one in found.assumed)
    both = read(
        "\n".join(f"set {line}" for line in [*lines, "qos policy network-emulator N delay 20"])
    )
    assert any("the reverse path uses N" in one for one in both.assumed)


def test_wrapped_lines_of_a_router_are_one_command() -> None:
    wrapped = ROUTER.replace(" be 125000 conform-action", "\n    be 125000 conform-action").replace(
        "exceed", "\n  exceed"
    )
    assert read(wrapped).path.tree() == read(ROUTER).path.tree()
    car = (
        "interface e0\n rate-limit input 2000000 62500\n 125000 conform-action transmit "
        "exceed-action\n drop\n"
    )
    assert read(car).path.tree()["policer"] == {
        "kind": "car",
        "cir": "2Mbit",
        "bc": "62500B",
        "be": "125000B",
    }
    passing = ROUTER.replace("exceed-action drop", "exceed-action transmit")
    assert read(passing).path.tree()["policer"]["exceed"] == "pass"


def test_lines_that_are_not_modelled_are_shown_as_the_file_has_them() -> None:
    found = read(
        "class-map match-all VOICE\npolicy-map P\n class C\n  priority Level 1\n"
        "  police cir 2000000 bc 62500 conform-action set-MPLS-exp-transmit 3 Exceed-Action DROP\n"
    )
    assert found.left == [
        "line 1: `class-map match-all VOICE`",
        "line 4: `priority Level 1`",
        "line 5: `conform-action set-MPLS-exp-transmit 3`: the packet is sent without the mark",
    ]
    assert found.path.tree()["policer"]["cir"] == "2Mbit"


@pytest.mark.parametrize(
    ("lines", "path"),
    [
        (
            [
                "shaper WAN bandwidth '50mbit'",
                "shaper WAN default bandwidth '100%'",
                "shaper WAN default queue-type 'fq-codel'",
                "shaper WAN default target 10",
            ],
            {
                "rate": "50Mbit",
                "rtt": "40ms",
                "link": {"kind": "htb"},
                "queue": {"kind": "fq_codel", "target": "10ms"},
            },
        ),
        (
            [
                "network-emulator N network-delay 50",
                "network-emulator N bandwidth 10mbit",
                "network-emulator N packet-loss 1",
                "network-emulator N queue-limit 200",
            ],
            {"rate": "10Mbit", "rtt": "50ms", "buffer": "158p", "loss": "1%"},
        ),
        (
            ["limiter L default bandwidth 2mbit", "limiter L default burst 62500"],
            {
                "rate": "1Gbit",
                "rtt": "40ms",
                "policer": {"kind": "police", "rate": "2Mbit", "burst": "62500B"},
            },
        ),
        (
            [
                "rate-control R bandwidth 5000",
                "rate-control R burst 15k",
                "rate-control R latency 50",
            ],
            {
                "rate": "5Mbit",
                "rtt": "40ms",
                "buffer": "46610B",
                "link": {"kind": "tbf", "burst": "15360B"},
            },
        ),
    ],
)
@pytest.mark.parametrize("begin", ["set traffic-policy", "set qos policy"])
def test_vyos_policies_become_a_path(begin: str, lines: list[str], path: dict[str, Any]) -> None:
    found = read("\n".join(f"{begin} {line}" for line in lines))
    assert (found.dialect, found.path.tree(), found.left) == ("vyos", path, [])


def test_unsupported_words_of_vyos_are_reported() -> None:
    lines = [
        "shaper W bandwidth 5mbit",
        "shaper W class 10 bandwidth 50%",
        "priority-queue P default",
        "shaper W description x",
    ]
    found = read("\n".join(f"set traffic-policy {line}" for line in lines))
    assert found.left == [
        "line 2: `class 10 bandwidth 50%`",
        "line 3: priority-queue, which narrows does not support",
        "line 4: `description x`",
    ]
    with pytest.raises(ConfigError, match="line 1: bandwidth auto needs the rate"):
        read("set traffic-policy shaper W bandwidth auto")


_CHILD = "policy-map CHILD\n class class-default\n  fair-queue\n  queue-limit 128 packets\n"
_PARENT = (
    "policy-map PARENT\n class class-default\n  shape average 20000000\n  service-policy CHILD\n"
)


@pytest.mark.parametrize("text", [_CHILD + _PARENT, _PARENT + _CHILD], ids=["before", "after"])
def test_the_child_policy_of_a_shaper_is_its_queue(text: str) -> None:
    found = read(text + "interface Gi0/1\n service-policy output PARENT\n")
    assert (found.path.queue, found.path.buffer, found.left) == ("sfq", "128p", [])


def test_the_queue_of_another_policy_or_class_is_reported() -> None:
    other = "policy-map OTHER\n class class-default\n  fair-queue\n"
    voice = _CHILD.replace("class-default", "VOICE")
    found = read(other + _PARENT + voice)
    assert (found.path.queue, found.path.buffer) == (None, "64p")
    assert found.left == ["line 3: `fair-queue`", "line 10: `fair-queue`",
                          "line 11: `queue-limit 128 packets`"]  # fmt: skip


def test_a_child_policy_that_the_text_lacks_is_reported() -> None:
    assert read(_PARENT).left == ["line 4: `service-policy CHILD`"]


def test_interfaces_with_a_queue_only_are_reported() -> None:
    found = read("tc qdisc add dev eth0 root netem delay 10ms\ntc qdisc add dev eth1 root fq_codel")
    assert found.left == ["the interfaces eth1"]
    plain = "qdisc noqueue 0: dev lo root refcnt 2\nqdisc netem 1: dev eth0 root limit 9 delay 9ms"
    assert read(plain).left == []


def test_braces_of_vyos_are_refused_with_the_command_that_prints_lines() -> None:
    with pytest.raises(ConfigError, match=r"line 3: VyOS .*\n.*show configuration commands"):
        read("interfaces {\n}\ntraffic-policy {\n    shaper WAN {\n    }\n}\n")
