"""`narrows identify`: the congestion controls of senders in captures."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import pytest
from conftest import Cli
from validation.identify import at_one_end

import narrows as nw
from narrows.errors import NarrowsError
from narrows.files.packets import segments
from narrows.identify.model import FlowJson
from narrows.identify.running import identified

SENDER, RECEIVER = 0, 1


def recorded(folder: Path, path: nw.Path, cc: str, duration: str = "30s") -> bytes:
    file = folder / "run.pcapng"
    nw.run(nw.Scenario(path, flows=[nw.Flow(cc)], duration=duration), record=str(file))
    return file.read_bytes()


def flow_of(folder: Path, content: bytes, end: int = SENDER) -> FlowJson:
    file = folder / "end.pcap"
    file.write_bytes(at_one_end(content, end))
    (flow,) = identified(file)["flows"]
    return flow


@pytest.mark.parametrize("cc", ["reno", "cubic", "bbr", "bbr3"])
@pytest.mark.parametrize("end", [SENDER, RECEIVER])
def test_a_sender_is_identified_at_both_ends_of_the_path(tmp_path: Path, cc: str, end: int) -> None:
    content = recorded(tmp_path, nw.Path(rate="10Mbit", rtt="40ms", buffer="1bdp"), cc)
    flow = flow_of(tmp_path, content, end)
    assert (flow["cc"], flow["losses"]) == (cc, "full queue")
    assert flow["rtt_min_ms"] == pytest.approx(41.2, abs=1.5)


def test_the_signs_are_those_of_the_rules(tmp_path: Path) -> None:
    path = nw.Path(rate="20Mbit", rtt="20ms", buffer="0.5bdp")
    reno = flow_of(tmp_path, recorded(tmp_path, path, "reno"))["features"]
    assert reno["backoff"] == pytest.approx(0.5, abs=0.04)
    assert reno["growth_segments"] == pytest.approx(1.0, abs=0.1)
    cubic = flow_of(tmp_path, recorded(tmp_path, path, "cubic"))["features"]
    assert cubic["backoff"] == pytest.approx(0.7, abs=0.04)
    # CUBIC in the region in which it is as fast as Reno: 3 (1 - 0.7) / (1 + 0.7).
    assert cubic["growth_segments"] == pytest.approx(0.53, abs=0.05)
    bbr = flow_of(tmp_path, recorded(tmp_path, path, "bbr"))["features"]
    assert bbr["probe_rtts"] == 2
    assert bbr["probe_rtt_interval_s"] == pytest.approx(10.2, abs=0.3)


def test_a_policer_causes_losses_without_a_queue(tmp_path: Path) -> None:
    path = nw.Path(
        rate="100Mbit", rtt="40ms", buffer="1bdp", policer={"rate": "10Mbit", "burst": "50kB"}
    )
    flow = flow_of(tmp_path, recorded(tmp_path, path, "cubic"))
    assert flow["losses"] == "no queue"
    assert flow["features"]["queue_before_loss_ms"] == pytest.approx(0.0, abs=2.0)


def test_too_few_losses_are_no_identification(tmp_path: Path) -> None:
    path = nw.Path(rate="20Mbit", rtt="100ms", buffer="1bdp")
    short = flow_of(tmp_path, recorded(tmp_path, path, "cubic", "6s"))
    assert short["cc"] is None
    assert "needs 3" in short["reason"]
    # Vegas has no loss, and neither has a sender that something else limits.
    path = nw.Path(rate="10Mbit", rtt="40ms", buffer="4bdp")
    vegas = flow_of(tmp_path, recorded(tmp_path, path, "vegas"))
    assert (vegas["cc"], vegas["losses"]) == (None, None)
    assert "no loss" in vegas["reason"]


def test_bic_fits_no_rule(tmp_path: Path) -> None:
    path = nw.Path(rate="10Mbit", rtt="40ms", buffer="1bdp")
    flow = flow_of(tmp_path, recorded(tmp_path, path, "bic"))
    assert flow["cc"] is None
    assert "fits no rule" in flow["reason"]


def test_the_command_prints_a_row_and_a_reason(cli: Cli, tmp_path: Path) -> None:
    recorded(tmp_path, nw.Path(rate="10Mbit", rtt="40ms", buffer="1bdp"), "reno")
    # The capture of narrows has both ends; the one near the sender counts.
    done = cli("identify", tmp_path / "run.pcapng")
    assert done.returncode == 0, done.stderr
    assert "192.0.2.1:10000 → 198.51.100.1:5001  reno" in done.stdout
    assert "have the same features: newreno, vegas" in done.stdout
    document = json.loads(cli("identify", tmp_path / "run.pcapng", "--json").stdout)
    (flow,) = document["flows"]
    assert (flow["cc"], flow["source"]) == ("reno", "192.0.2.1:10000")


def tcp(flags: int, size: int) -> bytes:
    """A TCP header with timestamps 7 and 9, and payload."""
    head = struct.pack(">HHIIBBHHH", 80, 4000, 1000, 2000, 8 << 4, flags, 100, 0, 0)
    return head + bytes([1, 1, 8, 10]) + struct.pack(">II", 7, 9) + bytes(size)


def pcap(link: int, *packets: bytes, order: str = "<") -> bytes:
    out = [struct.pack(f"{order}IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link)]
    for n, packet in enumerate(packets):
        out += [struct.pack(f"{order}IIII", 5, n, len(packet), len(packet)), packet]
    return b"".join(out)


def ipv4(payload: bytes, protocol: int = 6, fragment: int = 0) -> bytes:
    head = struct.pack(
        ">BBHHHBBH4s4s",
        0x45, 0, 20 + len(payload), 1, fragment, 64, protocol, 0, bytes([10, 0, 0, 1]), b"\n\0\0\2",
    )  # fmt: skip
    return head + payload


def ipv6(payload: bytes) -> bytes:
    # A hop-by-hop header of eight bytes comes before TCP.
    front = bytes([6, 0]) + bytes(6)
    head = struct.pack(">IHBB", 6 << 28, len(front) + len(payload), 0, 64)
    return head + bytes(15) + b"\1" + bytes(15) + b"\2" + front + payload


ETHER = bytes(12)


@pytest.mark.parametrize(
    ("link", "packet"),
    [
        (1, ETHER + b"\x08\x00" + ipv4(tcp(16, 50))),
        (1, ETHER + b"\x81\x00\x00\x05\x08\x00" + ipv4(tcp(16, 50))),
        (101, ipv4(tcp(16, 50))),
        (101, ipv6(tcp(16, 50))),
        (113, bytes(16) + ipv4(tcp(16, 50))),
        (276, bytes(20) + ipv6(tcp(16, 50))),
    ],
)
@pytest.mark.parametrize("order", ["<", ">"])
def test_headers_of_each_link_type(link: int, packet: bytes, order: str) -> None:
    (one,) = segments(pcap(link, packet, order=order), "x")
    assert (one.at, one.source[1], one.target[1], one.size) == (5.0, 80, 4000, 50)
    assert (one.sequence, one.acknowledged, one.flags) == (1000, 2000, 16)
    assert (one.stamp, one.echo) == (7, 9)


def test_packets_without_a_tcp_header_are_skipped() -> None:
    others = [
        b"",
        ipv4(tcp(16, 50), protocol=17),
        ipv4(tcp(16, 50), fragment=3),
        ipv4(tcp(16, 50)[:12]),
        b"\xff" * 60,
    ]
    assert not list(segments(pcap(101, *others), "x"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a capture in the format pcap or pcapng"),
        (b"hello, this is no capture", "is not a capture in the format pcap or pcapng"),
        (pcap(101, ipv4(tcp(16, 50)))[:-5], "a packet is cut off"),
        (pcap(147, ipv4(tcp(16, 50))), "link type 147 is not known"),
        (pcap(101, ipv4(tcp(16, 50))), "has no TCP flow with 100 kB of data"),
    ],
)
def test_an_invalid_capture_is_an_error(
    cli: Cli, tmp_path: Path, content: bytes, words: str
) -> None:
    file = tmp_path / "x.pcap"
    file.write_bytes(content)
    done = cli("identify", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("form", ["pcapng", "pcap"])
def test_a_truncated_capture_is_read_up_to_its_last_complete_packet(
    cli: Cli, tmp_path: Path, form: str
) -> None:
    path = nw.Path(rate="10Mbit", rtt="40ms", buffer="1bdp")
    content = recorded(tmp_path, path, "reno", "10s")
    whole = content if form == "pcapng" else at_one_end(content, SENDER)
    file = tmp_path / "cut.pcap"
    file.write_bytes(whole)
    (flow,) = identified(file)["flows"]
    assert identified(file)["cut_bytes"] == 0
    for size in (3, 21):
        file.write_bytes(whole[:-size])
        found = identified(file)
        assert found["cut_bytes"] > 0
        assert flow["bytes"] - found["flows"][0]["bytes"] in {0, 1448}
        assert found["flows"][0]["cc"] == flow["cc"]
    done = cli("identify", file)
    assert (done.returncode, done.stderr) == (
        0,
        f"{file}: warning: the last packet is cut off, as after an interruption of the capture; "
        "all packets before it are analysed\n",
    )


def test_a_packet_without_an_interface_is_damage_and_names_no_part_of_the_program(
    tmp_path: Path,
) -> None:
    content = recorded(tmp_path, nw.Path(rate="1Mbit", rtt="20ms"), "cubic", "1s")
    changed, at = bytearray(content), 0
    while (kind_and_size := struct.unpack_from("<II", content, at))[0] != 6:
        at += kind_and_size[1]
    struct.pack_into("<I", changed, at + 8, 99)
    with pytest.raises(NarrowsError, match=r"pcapng, or is damaged; write one with tcpdump -w"):
        list(segments(bytes(changed), "x"))


def test_a_changed_capture_is_read_or_refused(tmp_path: Path) -> None:
    path = nw.Path(rate="10Mbit", rtt="20ms", buffer="0.5bdp")
    content = recorded(tmp_path, path, "cubic", "2s")[:60_000]
    stream = random.Random(1)
    refused = 0
    for _ in range(100):
        changed = bytearray(content)
        for _ in range(20):
            changed[stream.randrange(len(changed))] = stream.randrange(256)
        file = tmp_path / "changed.pcapng"
        file.write_bytes(changed)
        try:
            # The cut is within a block.
            assert identified(file)["cut_bytes"] > 0
        except NarrowsError:
            refused += 1
    # A changed size or interface is damage; other changes are in a field of a packet.
    assert 0 < refused < 100
    whole = at_one_end(recorded(tmp_path, path, "cubic", "2s"), SENDER)
    for _ in range(30):
        changed = bytearray(whole)
        for _ in range(5):
            # Headers of IP and TCP: the records stay whole.
            changed[24 + 30 + 100 * stream.randrange(100)] = stream.randrange(256)
        (tmp_path / "changed.pcap").write_bytes(changed)
        try:
            identified(tmp_path / "changed.pcap")
        except NarrowsError:
            refused += 1
