"""`narrows tune`: findings and plans for hosts of many systems, and names with shell code."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path as File

import pytest
from conftest import Cli

from narrows.errors import NarrowsError
from narrows.tune import changing
from narrows.tune.collect import script
from narrows.tune.diff import lines
from narrows.tune.facts import Facts, parse
from narrows.tune.findings import Finding, Path, audit
from narrows.tune.plan import Ask, Plan
from narrows.tune.planner import plan
from narrows.tune.script import script as shell_script

HOSTS = File(__file__).parent / "data/hosts"
NAMES = sorted(file.stem for file in HOSTS.glob("*.txt"))


def read(name: str, *changes: tuple[str, str]) -> Facts:
    """A host's facts, single lines of its text changed."""
    text = (HOSTS / f"{name}.txt").read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return parse(text)


def found(facts: Facts, rule: str, path: Path | None = None) -> list[Finding]:
    return [finding for finding in audit(facts, path) if finding.id == rule]


def told(facts: Facts, rule: str) -> str:
    return " ".join(
        f"{f.severity}: {f.subject} {f.what} | {f.why} | {f.fix} | {f.source}"
        for f in found(facts, rule)
    )


BBR = ("net/ipv4/tcp_congestion_control:cubic", "net/ipv4/tcp_congestion_control:bbr")


@pytest.mark.parametrize("name", NAMES)
def test_every_finding_has_description_reason_and_source(name: str) -> None:
    findings = audit(read(name))
    assert findings
    for finding in findings:
        assert finding.what
        assert finding.why
        assert finding.source
        assert not finding.what.endswith(".")
        if finding.severity in {"error", "warning"}:
            assert finding.fix, finding


@pytest.mark.parametrize("name", NAMES)
def test_the_default_settings_of_distributions_have_no_error(name: str) -> None:
    assert [finding for finding in audit(read(name)) if finding.severity == "error"] == []


def test_the_facts_of_each_host_are_parsed() -> None:
    rows = {
        name: (
            f.release,
            f.cc_states(["bbr"])["bbr"],
            f.value("net.core.default_qdisc"),
            f.module_states(["sch_fq"])["sch_fq"],
            f.forwards,
        )
        for name in NAMES
        if (f := read(name))
    }
    assert rows == {
        "container": ("5.15.0-119-generic", None, None, None, False),
        "debian-9": ("4.9.0-19-amd64", "loadable", "pfifo_fast", "loadable", False),
        "debian-10": ("4.19.0-27-amd64", "loadable", "pfifo_fast", "loadable", False),
        "debian-11": ("5.10.0-32-amd64", "loadable", "pfifo_fast", "loadable", False),
        "debian-12": ("6.1.0-25-amd64", "loadable", "fq_codel", "loadable", False),
        "debian-13": ("6.12.41+deb13-amd64", "loadable", "fq_codel", "loadable", False),
        "laptop": ("6.8.0-41-generic", "loadable", "fq_codel", "loadable", False),
        "no-bbr": ("5.15.148", "missing", "fq_codel", "missing", False),
        "openwrt-18.06": ("4.14.206", "missing", "fq_codel", "missing", True),
        "openwrt-19.07": ("4.14.275", "missing", "fq_codel", "missing", True),
        "openwrt-21.02": ("5.4.238", "missing", "fq_codel", "missing", True),
        "openwrt-22.03": ("5.10.221", "missing", "fq_codel", "missing", True),
        "openwrt-23.05": ("5.15.167", "missing", "fq_codel", "missing", True),
        "openwrt-24.10": ("6.6.93", "missing", "fq_codel", "missing", True),
        "ubuntu-16.04": ("4.4.0-210-generic", "missing", "pfifo_fast", "loadable", False),
        "ubuntu-18.04": ("4.15.0-213-generic", "loadable", "fq_codel", "loadable", False),
        "ubuntu-20.04": ("5.4.0-190-generic", "loadable", "fq_codel", "loadable", False),
        "ubuntu-22.04": ("5.15.0-119-generic", "loadable", "fq_codel", "loadable", False),
        "ubuntu-24.04": ("6.8.0-41-generic", "loadable", "fq_codel", "loadable", False),
    }


def test_bbr_without_pacing_is_an_error_before_4_13_only() -> None:
    assert "error: ens18 bbr is not paced: Linux 4.9" in told(read("debian-9", BBR), "pacing")
    assert 'Linux 4.13, commit "tcp: internal implementation for pacing"' in told(
        read("debian-9", BBR), "pacing"
    )
    fq = ("qdisc pfifo_fast 0: dev ens18", "qdisc fq 8001: dev ens18")
    assert "good:  bbr is paced by fq on ens18" in told(read("debian-9", BBR, fq), "pacing")
    assert "good:  bbr is paced by TCP itself" in told(read("ubuntu-18.04", BBR), "pacing")
    assert "each packet needs its own timer" in told(read("ubuntu-18.04", BBR), "pacing")
    assert "each packet needs its own timer" not in told(read("debian-12", BBR), "pacing")
    assert found(read("debian-9"), "pacing") == []


def test_sockets_with_bbr_count_with_any_default() -> None:
    bbr = ("|\t cubic wscale:7,7", "|\t bbr wscale:7,7")
    assert "bbr is not paced" in told(read("debian-9", bbr), "pacing")
    assert "existing connections use: 3 bbr" in told(read("debian-9", bbr), "cc-sockets")


def test_leaves_under_mq_count() -> None:
    fq = [
        (f"qdisc fq_codel 0: dev enp3s0 parent :{n}", f"qdisc fq 8002: dev enp3s0 parent :{n}")
        for n in (1, 2, 3)
    ]
    mixed = read("ubuntu-24.04", BBR, *fq)
    assert "mq with 1 × fq_codel and 3 × fq" in told(mixed, "qdisc").replace(
        "mq with fq_codel", "mq with 1 × fq_codel"
    )


def test_an_interface_with_an_earlier_default_qdisc_is_reported() -> None:
    later = ("net/core/default_qdisc:pfifo_fast", "net/core/default_qdisc:fq")
    assert "warning: ens18 it uses pfifo_fast, but the default is fq" in told(
        read("debian-11", later), "qdisc"
    )
    assert "narrows tune plan --qdisc fq --dev ens18" in told(read("debian-11", later), "qdisc")


def test_the_effective_and_the_overridden_sysctl_files_are_named() -> None:
    # Debian's link 99-sysctl.conf is read behind a 90-bbr.conf.
    both = read(
        "debian-12",
        (
            "@ files boot\n",
            "@ files boot\n|etc/sysctl.d/90-bbr.conf:net.ipv4.tcp_congestion_control = bbr\n"
            "|etc/sysctl.conf:net.ipv4.tcp_congestion_control=cubic\n"
            "|etc/sysctl.d/99-sysctl.conf:net.ipv4.tcp_congestion_control=cubic\n",
        ),
        ("|99-sysctl.conf\n", "|90-bbr.conf\n|99-sysctl.conf\n"),
    )
    assert "/etc/sysctl.d/99-sysctl.conf sets it to cubic at boot" in told(both, "boot-files")
    assert "/etc/sysctl.d/90-bbr.conf sets bbr and is overridden" in told(both, "boot-files")
    made = plan(both, Ask(cc="bbr"))
    assert [c["target"] for c in made.json()["changes"] if c["kind"] == "file"][
        -1
    ] == "/etc/sysctl.d/99-zz-narrows.conf"


def test_a_name_in_etc_hides_the_same_one_in_usr_lib() -> None:
    hidden = read(
        "debian-13",
        ("|README.sysctl", "|50-default.conf\n|README.sysctl"),
        (
            "@ files boot\n",
            "@ files boot\n|etc/sysctl.d/50-default.conf:net.core.default_qdisc = fq\n",
        ),
        ("net/core/default_qdisc:fq_codel", "net/core/default_qdisc:fq"),
    )
    assert "sets it to fq at boot |" in told(hidden, "boot-files")


def test_queue_disciplines_of_networkd_are_reported() -> None:
    file = "etc/systemd/network/10-lan.network"
    lines = (
        "@ files "
        f"networkd\n|{file}:[Match]\n|{file}:Name=enp3s0\n|{file}:[CAKE]\n|{file}:Bandwidth=90M\n"
    )
    assert f"/{file} it sets a queue discipline (CAKE)" in told(
        read("ubuntu-22.04", ("@ files links\n", lines + "@ files links\n")), "boot-networkd"
    )
    assert found(read("ubuntu-22.04"), "boot-networkd") == []


def test_a_boot_file_that_differs_from_the_running_kernel_is_an_error() -> None:
    file = (
        "@ files boot\n",
        "@ files boot\n|etc/sysctl.d/90-bbr.conf:net.ipv4.tcp_congestion_control = bbr\n",
    )
    assert "the kernel uses cubic" in told(read("debian-12", file), "cc-files")
    assert "its module is not loaded before the file is read at boot" in told(
        read("debian-12", file), "cc-files"
    )
    assert "does not have this congestion control" in told(read("no-bbr", file), "cc-files")
    assert "this kernel has no tcp_bbr" in told(read("no-bbr", file), "boot-module")


def test_a_comment_behind_a_value_is_an_error() -> None:
    file = (
        "@ files boot\n",
        "@ files boot\n|etc/sysctl.d/90-bbr.conf:net.ipv4.tcp_congestion_control=bbr # fast\n",
    )
    assert "the comment after the value is part of the value" in told(
        read("debian-12", file), "boot-comment"
    )


def test_buffers_are_compared_with_the_path() -> None:
    slow, fast = Path(rate_mbit=100, rtt_ms=40), Path(rate_mbit=10_000, rtt_ms=100)
    assert {f.severity for f in found(read("debian-12"), "buffers", slow)} == {"good"}
    (send, receive) = found(read("debian-12"), "buffers", fast)
    assert send.severity == "warning"
    # 4 MiB, half of it payload, 8 bits each, every 100 ms.
    assert "168 Mbit/s at 100 ms" in send.why
    assert "252 Mbit/s at 100 ms" in receive.why
    changes = {
        c["target"]: c
        for c in plan(read("debian-12"), Ask(path=fast)).json()["changes"]
        if c["kind"] == "sysctl"
    }
    assert changes["net.ipv4.tcp_wmem"]["to"].split()[:2] == ["4096", "16384"]
    # Twice 125 MB, in whole 64 KiB.
    assert int(changes["net.ipv4.tcp_wmem"]["to"].split()[2]) == 250_019_840


def test_a_router_gets_findings_about_forwarding_and_sqm() -> None:
    for name in NAMES:
        assert bool(found(read(name), "router")) == name.startswith("openwrt")
    assert "the congestion control of this host applies only to connections that end here" in told(
        read("openwrt-23.05"), "router"
    )
    assert "SQM is off" in told(read("openwrt-23.05"), "openwrt-sqm")
    sqm = (
        "@ files packages\n",
        "@ files sqm\n|etc/config/sqm:\toption enabled '1'\n@ files packages\n",
    )
    assert found(read("openwrt-23.05", sqm), "openwrt-sqm") == []


def test_wifi_findings_name_the_queue_and_the_link() -> None:
    laptop = read("laptop")
    assert "good: wlp2s0 iwlwifi: packets wait in the fair queues of mac80211" in told(
        laptop, "wifi-queue"
    )
    assert (
        "warning: wlp2s0 transmit bit rate 117 Mbit/s, channel width 40 MHz, signal -78 dBm (weak: "
        "below -75 dBm). The card supports 160 MHz" in told(laptop, "wifi-link")
    )
    assert "warning: wlan0" in told(
        read(
            "openwrt-23.05",
            ("DRIVER=mt7915e", "DRIVER=odd"),
            ("|qdisc noqueue 0: dev wlan0", "|qdisc pfifo_fast 0: dev wlan0"),
        ),
        "wifi-queue",
    )


def test_openwrt_has_a_newer_mac80211_than_its_kernel() -> None:
    odd = (
        ("|qdisc noqueue 0: dev wlan0", "|qdisc fq_codel 0: dev wlan0"),
        ("DRIVER=mt7915e", "DRIVER=ath9k"),
        ("5.15.167", "4.9.184"),
    )
    router = read("openwrt-23.05", *odd)
    assert "good: wlan0 ath9k: packets wait in the fair queues of mac80211" in told(
        router, "wifi-queue"
    )
    assert "from 5.5" not in told(router, "wifi-airtime")
    assert "this kernel has no airtime" not in told(router, "wifi-airtime")
    # Elsewhere the release decides, and nobody is sent for a driver that he has.
    router.openwrt.clear()
    assert "warning: wlan0 ath9k" in told(router, "wifi-queue")
    assert "Linux 4.10 or newer, where ath9k uses" in told(router, "wifi-queue")
    # What the host shows counts more than its release.
    router.debug["sys/kernel/debug/ieee80211/phy0/aqm"] = ["access name value"]
    wireless = [one for one in router.interfaces if one.wireless]
    assert ("good: wlan0 ath9k" in told(router, "wifi-queue")) == (len(wireless) == 1)


def test_a_plan_with_internal_pacing_states_that_bbr_needs_no_fq() -> None:
    old = plan(read("ubuntu-18.04"), Ask(cc="bbr")).json()
    assert any("bbr needs no fq on this kernel" in effect for effect in old["effects"])
    assert not any(change["kind"] == "qdisc" for change in old["changes"])
    assert not any(
        "needs no fq" in effect
        for effect in plan(read("debian-12"), Ask(cc="bbr")).json()["effects"]
    )


def test_settings_that_a_container_cannot_write_are_reported() -> None:
    inside = read("container")
    assert "its sysctls are read-only" in told(inside, "container")
    made = plan(inside, Ask(cc="bbr", qdisc="fq"))
    assert made.json()["changes"] == []
    assert "settings cannot be written in this container" in made.needs[0].why
    inside.uid = 1000
    assert "cannot be written" not in told(inside, "container")
    assert not plan(inside, Ask(cc="reno")).needs


def test_drivers_without_byte_queue_limits_are_reported() -> None:
    assert "good: ens18" in told(read("debian-12"), "bql")
    none = ("byte_queue_limits/limit:14762", "byte_queue_limits/limit:0")
    assert "note: ens18 its driver (e1000e) has no byte queue limits; its ring holds 256" in told(
        read("debian-12", none), "bql"
    )
    deep = read("debian-12", none, ("net/ens18/speed:1000", "net/ens18/speed:100"))
    assert "31 ms at 100 Mbit/s" in told(deep, "bql")
    assert deep.interface("ens18") is not None


def test_further_findings() -> None:
    assert "what passes" not in told(read("debian-12"), "mtu-probing")
    assert "accepted but not requested" in told(read("debian-12"), "ecn")
    assert "powersave" in told(read("ubuntu-16.04"), "governor")
    assert "windows are limited to 64 kB" in told(
        read("debian-12", ("tcp_window_scaling:1", "tcp_window_scaling:0")), "tcp-switches"
    )
    lro = (
        ("large-receive-offload: off [fixed]", "large-receive-offload: on"),
        ("ip_forward:0", "ip_forward:1"),
    )
    assert "error: ens18 large receive offload" in told(read("debian-12", *lro), "offloads")
    assert "rx-usecs 0" in told(read("debian-12", ("rx-usecs: 3", "rx-usecs: 250")), "coalescing")


# Plans


def changes(facts: Facts, **asked: object) -> dict[str, tuple[object, object]]:
    made = plan(facts, Ask(**asked))  # type: ignore[arg-type]
    return {change["id"]: (change["from"], change["to"]) for change in made.json()["changes"]}


def test_the_changes_of_a_plan_are_ordered() -> None:
    made = plan(read("debian-12"), Ask(cc="bbr", qdisc="fq")).json()
    assert [change["id"] for change in made["changes"]] == [
        "module:tcp_bbr",
        "module:sch_fq",
        "qdisc:ens18:root",
        "sysctl:net.ipv4.tcp_congestion_control",
        "sysctl:net.core.default_qdisc",
        "file:/etc/modules-load.d/narrows.conf",
        "file:/etc/sysctl.d/99-narrows.conf",
    ]
    assert made["able"]
    assert made["title"] == (
        "New TCP connections use bbr; ens18 gets fq; interfaces that come up later get fq"
    )
    assert {change["phase"] for change in made["changes"][:5]} == {"live"}
    assert {change["phase"] for change in made["changes"][5:]} == {"boot"}
    assert made["changes"][2]["from"] == {"kind": "fq_codel", "handle": "0:", "options": {}}
    assert json.loads(json.dumps(made)) == made


def test_nothing_is_planned_twice() -> None:
    text = (HOSTS / "debian-12.txt").read_text(encoding="utf-8")
    made = plan(parse(text), Ask(cc="bbr", ecn="on"))
    files = {c["target"]: c["to"]["text"] for c in made.json()["changes"] if c["kind"] == "file"}
    own = "@ files own\n" + "".join(
        f"|{path[1:]}:{line}\n" for path, content in files.items() for line in content.splitlines()
    )
    boot = "".join(
        f"|etc/sysctl.d/99-narrows.conf:{line}\n"
        for line in files["/etc/sysctl.d/99-narrows.conf"].splitlines()
        if line.startswith("net")
    )
    text = (
        text.replace(BBR[0], BBR[1])
        .replace("tcp_ecn:2", "tcp_ecn:1")
        .replace("@ files boot\n", "@ files boot\n" + boot)
    )
    text = text.replace(
        "@ files loaded\n", "@ files loaded\n|proc/modules:tcp_bbr 20480 0 - Live 0x0\n"
    )
    text = text.replace(
        "available_congestion_control:reno cubic", "available_congestion_control:reno cubic bbr"
    )
    text = text.replace("@ end\n", own + "@ end\n")
    again = plan(parse(text), Ask(cc="bbr", ecn="on"))
    assert again.json()["changes"] == []
    assert again.title == "No changes are needed"


def test_a_plan_for_an_old_kernel_names_the_required_package() -> None:
    made = plan(read("ubuntu-16.04"), Ask(cc="bbr", qdisc="fq", install=True)).json()
    assert (made["able"], made["changes"]) == (False, [])
    assert made["needs"][0]["name"] == "linux-generic-hwe-16.04"
    assert made["needs"][0]["command"] == [
        "apt-get",
        "install",
        "--install-recommends",
        "linux-generic-hwe-16.04",
    ]
    for name in NAMES:
        if name.startswith("openwrt"):
            (need,) = plan(read(name), Ask(cc="bbr")).needs
            assert need.command == ["opkg", "install", "kmod-tcp-bbr"]
            assert (
                plan(read(name), Ask(cc="bbr", install=True)).json()["changes"][0]["kind"]
                == "package"
            )
    (need,) = plan(read("no-bbr"), Ask(cc="bbr")).needs
    assert "is built without it" in need.why


def test_a_required_command_can_be_copied_into_a_shell() -> None:
    value = "net.ipv4.tcp_allowed_congestion_control=reno bbr cubic"
    need = {"what": "setting", "name": "a", "command": ["sysctl", "-w", value], "why": "first"}
    made = Plan.of({"title": "Nothing", "changes": [], "needs": [need]})
    (line,) = [line for line in lines(made) if "sysctl" in line]
    assert shlex.split(line) == ["sysctl", "-w", value]


def test_bbr_requires_fq_on_kernels_without_internal_pacing() -> None:
    assert "sysctl:net.core.default_qdisc" in changes(read("debian-9"), cc="bbr")
    assert "sysctl:net.core.default_qdisc" not in changes(read("debian-10"), cc="bbr")
    assert "sysctl:net.core.default_qdisc" not in changes(read("debian-9"), cc="bbr", qdisc="keep")


@pytest.mark.parametrize("kind", ["htb", "cake", "netem", "tbf"])
def test_queue_disciplines_of_an_administrator_are_not_replaced(kind: str) -> None:
    own = ("qdisc fq_codel 0: dev ens18 root", f"qdisc {kind} 8005: dev ens18 root")
    made = plan(read("debian-12", own), Ask(qdisc="fq"))
    assert "qdisc:ens18:root" not in {change["id"] for change in made.json()["changes"]}
    assert {
        "what": "ens18",
        "why": f"it has {kind}, configured by an administrator",
        "fix": "--replace replaces it",
    } in made.json()["left"]
    assert changes(read("debian-12", own), qdisc="fq", replace=True)["qdisc:ens18:root"][0] == {
        "kind": kind,
        "handle": "8005:",
        "options": {},
    }


def test_mq_gets_a_handle_so_that_its_classes_can_be_changed() -> None:
    found = changes(read("ubuntu-24.04"), qdisc="fq", devices=["enp3s0"])
    assert found["qdisc:enp3s0:root"][1] == {"kind": "mq", "handle": "1:", "options": {}}
    assert [name for name in found if name.startswith("qdisc:enp3s0:1")] == [
        f"qdisc:enp3s0:1:{n}" for n in (1, 2, 3, 4)
    ]
    assert [found[f"qdisc:enp3s0:1:{n}"] for n in (1, 2, 3, 4)] == [
        (None, {"kind": "fq", "handle": None, "options": {}})
    ] * 4
    (file,) = [of for of in found if of.startswith("file:") and "udev" in of]
    text = found[file][1]["text"]  # type: ignore[index]
    assert 'ATTR{address}=="02:00:5e:00:53:02"' in text
    assert text.count("RUN+=") == 5


def test_one_interface_by_networkd() -> None:
    found = changes(read("ubuntu-22.04"), qdisc="fq", devices=["enp3s0"])
    (text,) = [
        of[1]["text"]
        for name, of in found.items()
        if name.endswith("10-netplan-enp3s0.network.d/99-narrows.conf")
    ]  # type: ignore[index]
    assert text.endswith("[FairQueueing]\nParent=root\n")


def test_one_destination() -> None:
    found = changes(read("debian-12"), cc="bbr", to=["198.51.100.0/24", "default", "192.0.2.0/24"])
    assert found["route:inet:198.51.100.0/24"] == (
        None,
        [
            "198.51.100.0/24",
            "via",
            "192.0.2.1",
            "dev",
            "ens18",
            "src",
            "192.0.2.10",
            "congctl",
            "bbr",
        ],
    )
    before, after = found["route:inet:default"]
    assert after == [*before, "congctl", "bbr"]  # type: ignore[misc]
    assert "sysctl:net.ipv4.tcp_congestion_control" not in found
    by_networkd = changes(read("ubuntu-22.04"), cc="bbr", to=["default"])
    (written,) = [of[1] for name, of in by_networkd.items() if "netplan" in name]
    assert isinstance(written, dict)
    text = written["text"]
    assert (
        "Destination=0.0.0.0/0\nGateway=192.0.2.1\nMetric=100\nTCPCongestionControlAlgorithm=bbr\n"
        in text
    )
    with pytest.raises(NarrowsError, match="a network is written"):
        plan(read("debian-12"), Ask(cc="bbr", to=["192.0.2.1/24"]))
    with pytest.raises(NarrowsError, match="this host has no route to this destination"):
        plan(read("debian-12"), Ask(cc="bbr", to=["2001:db8::/32"]))


def test_a_destination_of_ipv6() -> None:
    announced = "fe80::/64 dev ens18 proto kernel metric 256 pref medium"
    facts = read("debian-12", (announced, "default via fe80::1 dev ens18 metric 1024 pref medium"))
    whole = plan(facts, Ask(cc="bbr", to=["2001:db8::/32", "::/0"]))
    (_, new), (before, after) = (
        changes(facts, cc="bbr", to=["2001:db8::/32", "::/0"])[f"route:inet6:{prefix}"]
        for prefix in ("2001:db8::/32", "default")
    )
    assert new == ["2001:db8::/32", "via", "fe80::1", "dev", "ens18", "congctl", "bbr"]
    assert " ".join(before) == "default via fe80::1 dev ens18 metric 1024 pref medium"
    assert " ".join(after) == "default via fe80::1 dev ens18 metric 1024 congctl bbr"
    text = " ".join(" ".join(lines(whole)).split())
    assert "ip -6 route replace 2001:db8::/32 via fe80::1 dev ens18 congctl bbr" in text


def test_a_diff_shows_the_present_and_the_planned_value() -> None:
    text = "\n".join(lines(plan(read("debian-12"), Ask(cc="bbr"))))
    assert (
        "sysctl net.ipv4.tcp_congestion_control\n- cubic\n+ bbr\n  reason: new connections" in text
    )
    assert "+ net.ipv4.tcp_congestion_control = bbr" in text
    assert "The changes need no reboot and no `sysctl -p`" in text


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"cc": "bbr; reboot"}, "a name has lower-case letters"),
        ({"qdisc": "fq codel"}, "a name has lower-case letters"),
        ({"qdisc": "fq", "devices": ["eth0;reboot"]}, "not a valid name of an interface"),
        ({"qdisc": "fq", "devices": ["../x"]}, "not a valid name of an interface"),
        ({"settings": ["kernel.core_pattern=|/tmp/x"]}, "not one of"),
        ({"settings": ["net.ipv4.tcp_ecn=1; reboot"]}, "is not a value"),
        ({"cc": "bbr", "to": ["0/0; reboot"]}, "a network is written"),
        ({"cc": "bbr9"}, "--cc bbr9: not a known congestion control.*; write --cc bbr"),
        ({"qdisc": "fq_cdel"}, "--qdisc fq_cdel: not a queue discipline of Linux; write --qdisc "),
        ({}, "no change is requested"),
        ({"devices": ["ens18"]}, "an interface needs a queue discipline"),
    ],
)
def test_invalid_names_and_settings_are_errors(asked: dict[str, object], says: str) -> None:
    with pytest.raises(NarrowsError, match=says):
        plan(read("debian-12"), Ask(**asked))  # type: ignore[arg-type]


def test_shell_code_in_facts_does_not_enter_a_plan() -> None:
    """Facts come from another machine: no part of them becomes a command."""
    evil = "$(touch$IFS/tmp/narrows-was-here);`id`"
    facts = read(
        "debian-12",
        ("ens18", evil),
        ("net/ipv4/tcp_ecn:2", "net/ipv4/tcp_ecn:2; reboot"),
        ("proc/sys/kernel/hostname:debian-12", f"proc/sys/kernel/hostname:{evil}'\\\""),
    )
    made = plan(facts, Ask(cc="bbr", qdisc="fq")).json()
    assert [c["id"] for c in made["changes"] if evil in json.dumps(c)] == []
    assert evil not in shell_script(Plan.of(made))
    with pytest.raises(NarrowsError, match="could not be restored"):
        plan(facts, Ask(ecn="on"))
    with pytest.raises(NarrowsError, match="unsupported word"):
        plan(facts, Ask(cc="bbr", to=["default"]))


def test_a_plan_is_not_confirmed_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    made = plan(read("debian-12"), Ask(cc="bbr"))
    with pytest.raises(NarrowsError, match=r"^standard input: not a terminal.*; write --yes"):
        changing._sure(made, yes=False, question="Apply these changes?")
    changing._sure(made, yes=True, question="Apply these changes?")


# The collector


# In namespaces


# The command


def test_the_commands_audit_and_plan(command: Cli, tmp_path: File) -> None:
    debian = HOSTS / "debian-9.txt"
    done = command("tune", "audit", "--facts", debian)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "debian-9: Debian GNU/Linux 9 (stretch), Linux 4.9.0-19-amd64. The audit found no errors"
    )
    bad = tmp_path / "bad.txt"
    bad.write_text(debian.read_text(encoding="utf-8").replace(*BBR), encoding="utf-8")
    worse = command("tune", "audit", "--facts", bad, "--rate", "1Gbit", "--rtt", "80ms", "--json")
    assert worse.returncode == 1
    shown = json.loads(worse.stdout)
    assert shown["counts"]["error"] == 1
    assert {"id", "severity", "subject", "what", "why", "fix", "source"} == set(
        shown["findings"][0]
    )
    old = command("tune", "plan", "--cc", "bbr", "--facts", HOSTS / "ubuntu-16.04.txt")
    assert (old.returncode, "linux-generic-hwe-16.04" in old.stdout) == (1, True)
    made = command(
        "tune",
        "plan",
        "--cc",
        "bbr",
        "--facts",
        HOSTS / "openwrt-23.05.txt",
        "--install",
        "--sh",
        "-",
    )
    assert made.stdout.startswith("#!/bin/sh\n")
    assert "opkg install kmod-tcp-bbr" in made.stdout
    wrong = command("tune", "plan", "--facts", debian, "--rate", "1000", "--rtt", "80ms")
    assert (wrong.returncode, "needs a unit" in wrong.stderr) == (2, True)
    assert command("tune", "audit", "--facts", debian, "--root", "/").returncode == 2
    assert command("tune", "audit", "--facts", tmp_path / "none").returncode == 2
    bare = command("tune", "audit", "--root", tmp_path)
    assert (bare.returncode, "no proc/sys" in bare.stderr) == (2, True)
    assert command("tune", "audit", "--collector").stdout == script()
