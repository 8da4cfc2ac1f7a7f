"""Pseudonyms, and the deletion of measurements."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import struct
from pathlib import Path

import pytest
from conftest import Cli
from hypothesis import given
from hypothesis import strategies as st
from test_record import packets

import narrows as nw
from narrows.errors import NarrowsError
from narrows.files import capture
from narrows.files.blocks import MAGIC
from narrows.files.packets import captured
from narrows.measure import history
from narrows.measure.result import Measurement
from narrows.storage.anonymous import Anonymizer, key, key_file

ONE = Anonymizer(bytes(range(32)))
PCAP = b"\xd4\xc3\xb2\xa1"


def shared(first: object, second: object, bits: int) -> int:
    """Number of equal leading bits."""
    return bits - (int(first) ^ int(second)).bit_length()  # type: ignore[call-overload]


@given(st.ip_addresses(v=4), st.ip_addresses(v=4))
def test_pseudonyms_of_ipv4_preserve_prefixes(
    first: ipaddress.IPv4Address, second: ipaddress.IPv4Address
) -> None:
    assert shared(ONE.address(first), ONE.address(second), 32) == shared(first, second, 32)


@given(st.ip_addresses(v=6), st.ip_addresses(v=6), st.integers(0, 128))
def test_pseudonyms_of_ipv6_preserve_prefixes(
    first: ipaddress.IPv6Address, other: ipaddress.IPv6Address, alike: int
) -> None:
    mask = (1 << 128) - (1 << (128 - alike))
    second = ipaddress.IPv6Address(int(first) & mask | int(other) & ~mask & (1 << 128) - 1)
    assert shared(ONE.address(first), ONE.address(second), 128) == shared(first, second, 128)


def test_pseudonyms_of_ipv6_preserve_prefixes_and_depend_on_the_key() -> None:
    first, second = ONE.address("2001:db8:1::1"), ONE.address("2001:db8:1:8000::1")
    assert shared(first, second, 128) == 48
    assert first != Anonymizer(bytes(32)).address("2001:db8:1::1")
    assert str(ONE.address("::1")) == "::1"


KEPT = ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4", "::/128", "::1/128", "ff00::/8")
BLOCKS = (
    *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16"),
    *("2000::/3", "fd00::/8", "fe80::/64", "::ffff:0:0/96"),
)


@given(st.data(), st.binary(min_size=32, max_size=32))
def test_special_addresses_keep_their_block_and_public_addresses_stay_public(
    data: st.DataObject, secret: bytes
) -> None:
    by = Anonymizer(secret)
    for block in map(ipaddress.ip_network, KEPT):
        one = data.draw(st.ip_addresses(network=block))
        assert by.address(one) == one
    for block in map(ipaddress.ip_network, BLOCKS):
        assert by.address(data.draw(st.ip_addresses(network=block))) in block
    public = data.draw(
        st.ip_addresses(v=4).filter(lambda one: one.is_global and not one.is_multicast)
    )
    assert not any(
        by.address(public) in block for block in map(ipaddress.ip_network, (*KEPT, *BLOCKS))
    )


def test_an_ipv4_address_in_ipv6_has_the_same_pseudonym() -> None:
    mapped = ipaddress.ip_address(f"::ffff:{ONE.address('192.0.2.1')}")
    assert ONE.address("::ffff:192.0.2.1") == mapped


def test_different_addresses_have_different_pseudonyms() -> None:
    block = ipaddress.ip_network("198.51.100.0/22", strict=False)
    assert len({ONE.address(one) for one in block}) == block.num_addresses
    # Every first octet, too.
    firsts = {int(ONE.address(f"{n}.1.2.3")) >> 24 for n in range(256)}
    assert len(firsts) == 256


def test_texts_and_trees_have_no_address_left() -> None:
    tree = {
        "host": "server.example",
        "peer": {"address": "192.0.2.1", "port": 5201},
        "notes": ["192.0.2.1:5201 and [2001:db8::5]:80 via fe80::1%eth0; 12:30:11, version 1.2.3"],
        "192.0.2.1": 1,
        "rates": [1.5, None, True],
    }
    found = ONE.tree(tree)
    text = json.dumps(found)
    for secret in ("server.example", "192.0.2.1", "2001:db8::5", "fe80::1%"):
        assert secret not in text
    assert "12:30:11, version 1.2.3" in text
    assert found["rates"] == tree["rates"]
    assert found["peer"]["address"] in found["notes"][0]
    assert tree["host"] == "server.example"


def test_names_and_mac_addresses_in_sentences_are_replaced() -> None:
    tree = {
        "asked": {"host": "https://files.example:8443/private/a.iso"},
        "host": {"name": "laptop", "kernel": "6.12.0"},
        "narrows": "laptop",
        "own_error": {
            "notes": [
                "Files.Example sent no data; laptop has 52:54:00:AB:cd:01 and 52-54-00-ab-cd-01",
                "other.files.example and laptop2 at 192.000.002.001, sent at 12:30:11",
            ]
        },
    }
    found = ONE.tree(tree)
    first, second = found["own_error"]["notes"]
    assert ONE.name("files.example") in first
    assert ONE.name("laptop") in first
    assert first.count(ONE.mac("52:54:00:ab:cd:01")) == 2
    assert ONE.mac("52:54:00:ab:cd:01").startswith("02:")
    # Other names that contain the name are other names.
    assert "other.files.example and laptop2" in second
    assert str(ONE.address("192.0.2.1")) in second
    assert "12:30:11" in second
    assert (found["narrows"], found["host"]["kernel"]) == ("laptop", "6.12.0")
    assert "private" not in json.dumps(found)


def test_measurements_of_other_programs_keep_no_name(tmp_path: Path, command: Cli) -> None:
    row = {
        "socket": 5, "start": 0, "end": 1, "seconds": 1, "bytes": 1e6, "bits_per_second": 8e6,
        "omitted": False, "sender": True,
    }  # fmt: skip
    tree = {
        "start": {
            "cookie": "laptop.1700000000.5",
            "system_info": "Linux laptop 6.1.0-9-amd64 #1 SMP Debian x86_64",
            "connecting_to": {"host": "server.example", "port": 5201},
            "test_start": {"protocol": "TCP", "num_streams": 1, "duration": 1, "reverse": 0},
            "timestamp": {"timesecs": 1_700_000_000},
        },
        "intervals": [{"streams": [row], "sum": row}],
        "end": {"streams": [{"sender": row, "receiver": row}]},
    }
    plain, public = tmp_path / "iperf3.json", tmp_path / "public.json"
    plain.write_text(json.dumps(tree), encoding="utf-8")
    done = command("convert", plain, public, "--anonymize")
    assert done.returncode == 0, done.stderr
    text = public.read_text(encoding="utf-8")
    assert "laptop" not in text
    assert "server.example" not in text
    assert "6.1.0-9-amd64" in text


def test_response_times_have_pseudonyms(
    command: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {
        "kind": "latency", "host": "server.example", "interrupted": False,
        "peer": {"address": "192.0.2.1", "port": 5201},
        "findings": [{"says": "The link to server.example (52:54:00:ab:cd:01) is slow."}],
    }  # fmt: skip
    monkeypatch.setattr("narrows.latency.run.measure", lambda *_, **__: told)
    out = tmp_path / "l.json"
    done = command("latency", "server.example", "--anonymize", "--json", "--out", out)
    assert done.returncode == 0, done.stderr
    for text in (done.stdout, done.stderr, out.read_text(encoding="utf-8")):
        assert not any(s in text for s in ("server.example", "192.0.2.1", "52:54:00"))
    assert json.loads(done.stdout)["peer"]["port"] == 5201


def test_the_key_is_made_once_and_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert key() == key()
    assert key_file().stat().st_mode & 0o777 == 0o600
    key_file().write_bytes(b"short")
    with pytest.raises(NarrowsError, match="not a key"):
        key()


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f">{len(data) // 2}H", data + bytes(len(data) % 2)))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def test_a_capture_keeps_its_times_and_valid_checksums(tmp_path: Path, tiny: Path) -> None:
    made = tmp_path / "run.pcapng"
    nw.run(tiny, record=made)
    before = packets(made)
    public = tmp_path / "public.pcapng"
    public.write_bytes(capture.anonymize(made.read_bytes(), ONE))
    after = packets(public)
    assert [one.ns for one in after] == [one.ns for one in before]
    for old, new in zip(before, after, strict=True):
        for at in (12, 16):
            pseudonym = ONE.address(ipaddress.ip_address(old.head[at : at + 4]))
            assert new.head[at : at + 4] == pseudonym.packed
        assert checksum(new.head[:20]) == 0xFFFF
        assert new.head[20:36] == old.head[20:36]
        assert new.comment == ""


@given(st.binary(max_size=200))
def test_damaged_captures_are_errors(data: bytes) -> None:
    with contextlib.suppress(NarrowsError):
        capture.anonymize(MAGIC + data, ONE)
    with contextlib.suppress(NarrowsError):
        capture.anonymize(PCAP + data, ONE)
    with pytest.raises(NarrowsError, match="unknown first bytes"):
        capture.anonymize(b"\0\0\0\0" + data, ONE)


def test_payload_and_macs_of_a_foreign_capture_are_removed() -> None:
    ip = bytearray(bytes.fromhex("450000240000400040110000c0000201c0000202"))
    udp = bytes.fromhex("1f903039001000 00".replace(" ", ""))
    frame = bytes(range(1, 13)) + b"\x08\x00" + bytes(ip) + udp + b"secret12"
    section = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    interface = struct.pack("<IIHHII", 1, 20, 1, 0, 0, 20)
    body = struct.pack("<IIIII", 0, 0, 7, len(frame), len(frame)) + frame + bytes(-len(frame) % 4)
    size = 12 + len(body)
    packet = struct.pack("<II", 6, size) + body + struct.pack("<I", size)
    names = struct.pack("<II", 4, 16) + b"name" + struct.pack("<I", 16)
    found = capture.anonymize(section + interface + names + packet, ONE)
    assert b"secret" not in found
    assert b"name" not in found
    assert bytes(range(1, 13)) not in found
    assert ONE.address("192.0.2.1").packed in found


def in_pcap(link: int, *frames: bytes, magic: int = 0xA1B2C3D4) -> bytes:
    """A capture as tcpdump writes it; the frames begin at 1.000007 s or 1.000000007 s."""
    heads = (struct.pack("<IIII", 1, 7, len(frame), len(frame) + 5) for frame in frames)
    parts = (head + frame for head, frame in zip(heads, frames, strict=True))
    return struct.pack("<IHHiIII", magic, 2, 4, 0, 0, 262144, link) + b"".join(parts)


DATAGRAM = (
    struct.pack(">BBHHHBBH", 0x45, 0, 36, 1, 0, 64, 17, 0)
    + bytes([192, 0, 2, 1, 192, 0, 2, 2])
    + struct.pack(">HHHH", 8080, 12345, 16, 0)
    + b"secret12"
)
MACS = bytes(range(1, 13))
COOKED = bytes([0, 4, 0, 1, 0, 6]) + bytes(range(1, 9)) + b"\x08\x00"
COOKED2 = b"\x08\x00\0\0" + bytes(4) + bytes([0, 1, 4, 6]) + bytes(range(1, 9))


@pytest.mark.parametrize(
    ("link", "front", "kept"),
    [
        (1, MACS + b"\x08\x00", bytes(12) + b"\x08\x00"),
        (1, MACS + b"\x81\x00\0\7\x08\x00", bytes(12) + b"\x81\x00\0\7\x08\x00"),
        (101, b"", b""),
        (113, COOKED, b""),
        (276, COOKED2, b""),
        (0, b"\2\0\0\0", b""),
    ],
)
def test_captures_of_tcpdump_are_anonymized(link: int, front: bytes, kept: bytes) -> None:
    for magic, ns in ((0xA1B2C3D4, 1_000_007_000), (0xA1B23C4D, 1_000_000_007)):
        made = in_pcap(link, front + DATAGRAM, magic=magic)
        ((interface, at, made_link, data, length),) = captured(capture.anonymize(made, ONE))
        assert (interface, round(at * 1e9)) == (0, ns)
        assert made_link == (1 if link == 1 else 101)
        assert data[: len(kept)] == kept
        ip = data[len(kept) :]
        assert ip[12:20] == ONE.address("192.0.2.1").packed + ONE.address("192.0.2.2").packed
        assert ip[20:24] == DATAGRAM[20:24]
        assert len(ip) == 28
        assert length == len(kept) + len(DATAGRAM) + 5


@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_a_capture_that_ends_within_a_packet_is_anonymized_up_to_it(
    kind: str, command: Cli, tmp_path: Path
) -> None:
    whole = in_pcap(101, DATAGRAM, DATAGRAM)
    if kind == "pcapng":
        one = in_capture(DATAGRAM)
        whole = one + one[one.index(struct.pack("<I", 6), 48) :]
    made, public = tmp_path / "cut.pcap", tmp_path / "public.pcapng"
    for less in (0, 1, 40):
        made.write_bytes(whole[: len(whole) - less])
        done = command("convert", made, public, "--anonymize")
        assert done.returncode == 0, done.stderr
        assert ("the last packet is cut off" in done.stderr) == (less > 0)
        assert len(list(captured(public.read_bytes()))) == (1 if less else 2)


def test_the_format_of_a_written_capture_is_named(command: Cli, tmp_path: Path) -> None:
    made = tmp_path / "a.pcap"
    made.write_bytes(in_pcap(101, DATAGRAM))
    done = command("convert", made, tmp_path / "b.pcap", "--anonymize")
    assert done.returncode == 2
    assert f"write {tmp_path / 'b'}.pcapng" in done.stderr


def test_a_header_that_is_too_short_keeps_no_payload() -> None:
    damaged = bytes([0x40]) + DATAGRAM[1:]
    assert b"secret" not in capture.anonymize(in_pcap(101, damaged), ONE)


def test_an_unknown_link_type_is_named() -> None:
    with pytest.raises(NarrowsError, match=r"a\.pcap: .*link type 127 is not known"):
        capture.anonymize(in_pcap(127, DATAGRAM), ONE, "a.pcap")


def in_capture(packet: bytes) -> bytes:
    """A capture with one packet of IP."""
    section = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    interface = struct.pack("<IIHHII", 1, 20, 101, 0, 0, 20)
    body = struct.pack("<IIIII", 0, 0, 7, len(packet), len(packet)) + packet
    body += bytes(-len(packet) % 4)
    size = 12 + len(body)
    return section + interface + struct.pack("<II", 6, size) + body + struct.pack("<I", size)


def test_options_that_contain_addresses_are_overwritten() -> None:
    route = bytes([7, 7, 8, 203, 0, 113, 9, 0])
    join = bytes([30, 8, 0x30, 1, 203, 0, 113, 9])
    times = bytes([1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6])
    tcp = bytearray(struct.pack(">HHIIBBHHH", 5201, 80, 1, 2, 10 << 4, 16, 9, 0, 0) + join + times)
    ip = bytearray(struct.pack(">BBHHHBBH", 0x47, 0, 68, 1, 0, 64, 6, 0) + bytes(8) + route)
    ip[12:20] = bytes([192, 0, 2, 1, 192, 0, 2, 2])
    ip[10:12] = (0xFFFF - checksum(bytes(ip))).to_bytes(2, "big")
    pseudo = bytes(ip[12:20]) + bytes([0, 6, 0, len(tcp)])
    tcp[16:18] = (0xFFFF - checksum(pseudo + bytes(tcp))).to_bytes(2, "big")
    found = capture.anonymize(in_capture(bytes(ip + tcp)), ONE)
    assert bytes([203, 0, 113, 9]) not in found
    assert times[2:] in found
    new = found[found.index(b"\x47\0\0\x44") :][:68]
    assert checksum(new[:28]) == 0xFFFF
    assert checksum(new[12:20] + bytes([0, 6, 0, 40]) + new[28:]) == 0xFFFF


def test_addresses_of_a_routing_header_are_overwritten() -> None:
    via = ipaddress.ip_address("2001:db8::99").packed
    ends = (ipaddress.ip_address(f"2001:db8::{n}").packed for n in (1, 2))
    ip = struct.pack(">IHBB", 6 << 28, 32, 43, 64) + b"".join(ends)
    packet = ip + bytes([17, 2, 0, 1, 0, 0, 0, 0]) + via + struct.pack(">HHHH", 1, 2, 8, 0)
    assert via not in capture.anonymize(in_capture(packet), ONE)


def test_options_of_ipv6_are_overwritten() -> None:
    home = ipaddress.ip_address("2001:db8::77").packed
    ends = b"".join(ipaddress.ip_address(f"2001:db8::{n}").packed for n in (1, 2))
    # Destination options: PadN of 4 bytes, and the option of a home address (RFC 6275).
    options = bytes([17, 2, 1, 2, 0, 0, 201, 16]) + home
    packet = struct.pack(">IHBB", 6 << 28, 32, 60, 64) + ends + options
    found = capture.anonymize(in_capture(packet + struct.pack(">HHHH", 1, 2, 8, 0)), ONE)
    assert home not in found
    assert bytes([17, 2, 1, 20, *bytes(20)]) + struct.pack(">HHHH", 1, 2, 8, 0) in found


def test_the_gateway_of_a_redirect_is_a_pseudonym() -> None:
    icmp = bytearray(bytes([5, 1, 0, 0, 203, 0, 113, 9]))
    icmp[2:4] = (0xFFFF - checksum(bytes(icmp))).to_bytes(2, "big")
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 28, 1, 0, 64, 1, 0) + bytes([192, 0, 2, 1, 192, 0, 2, 2])
    found = capture.anonymize(in_capture(ip + bytes(icmp)), ONE)
    assert bytes([203, 0, 113, 9]) not in found
    gateway = ONE.address("203.0.113.9").packed
    new = found[found.index(gateway) - 4 :][:8]
    assert new[:2] == bytes([5, 1])
    assert checksum(new) == 0xFFFF


def test_the_offset_of_times_is_kept() -> None:
    plain = in_capture(struct.pack(">BBHHHBBH", 0x45, 0, 20, 1, 0, 64, 6, 0) + bytes(8))
    offset = struct.pack("<HHqI", 14, 8, -7, 0)
    interface = struct.pack("<IIHHI", 1, 36, 101, 0, 0) + offset + struct.pack("<I", 36)
    made = plain[:28] + interface + plain[48:]
    assert offset[:-4] in capture.anonymize(made, ONE)


def measurement(id_: str, host: str, started: str) -> Measurement:
    return Measurement.of(
        {"measurement": 1, "id": id_, "started": started, "asked": {"host": host}, "flows": [],
         "pings": []}
    )  # fmt: skip


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("duckdb")
    file = tmp_path / "it's.duckdb"
    monkeypatch.setenv("NARROWS_HISTORY", str(file))
    for number in range(3):
        history.keep(
            measurement(f"a{number}", f"host{number}.example", f"20{20 + number}-01-01T00:00:00Z")
        )
    return file


def test_a_forgotten_measurement_leaves_no_bytes(stored: Path) -> None:
    assert b"host1.example" in stored.read_bytes()
    assert history.forget(host="host1.example") == 1
    assert [row["id"] for row in history.rows()] == ["a2", "a0"]
    assert not any(b"host1.example" in file.read_bytes() for file in stored.parent.iterdir())
    assert history.forget(host="host1.example") == 0
    history.keep(measurement("b", "host4.example", "2026-01-01T00:00:00Z"))
    assert len(history.rows()) == 3


@pytest.mark.parametrize("other", [["--get", "a0", "--out", "m.json"], ["--json"], ["--last", "3"]])
def test_forget_cannot_be_combined_with_other_options(
    stored: Path, command: Cli, other: list[str]
) -> None:
    done = command("history", "forget", "--all", *other)
    assert done.returncode == 2
    assert f"{other[0]}: does not apply to forget" in done.stderr
    assert len(history.rows()) == 3
    assert stored.exists()


def test_files_are_added_with_pseudonyms(stored: Path, command: Cli, tmp_path: Path) -> None:
    plain = tmp_path / "m.json"
    plain.write_text(measurement("b", "secret.example", "2026-01-01T00:00:00Z").text())
    done = command("history", "--add", plain, "--anonymize")
    assert done.returncode == 0, done.stderr
    assert b"secret.example" not in stored.read_bytes()
    assert len(history.rows()) == 4


def test_a_measurement_gets_pseudonyms_once(stored: Path, command: Cli, tmp_path: Path) -> None:
    plain, public, again = (tmp_path / name for name in ("m.json", "public.json", "again.json"))
    foreign = measurement("flent on host0.example", "host0.example", "2026-01-01T00:00:00Z")
    plain.write_text(foreign.text())
    for one, other in ((plain, public), (public, again)):
        assert command("convert", one, other, "--anonymize").returncode == 0
    assert public.read_bytes() == again.read_bytes()
    assert json.loads(public.read_text())["anonymized"] is True
    for file in (plain, public):
        assert command("history", "--add", file).returncode == 0
    done = command("history", "--anonymize", "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert "host0.example" not in done.stdout
    assert len({(row["id"], row["host"]) for row in found[:2]}) == 1
    # The same host without and with a name in the identifier.
    assert found[0]["host"] == found[-1]["host"]


def test_old_measurements_are_forgotten_at_the_next_one(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NARROWS_HISTORY_DAYS", "365000")
    history.keep(measurement("b", "host4.example", "1026-01-01T00:00:00Z"))
    assert len(history.rows()) == 3
    monkeypatch.setenv("NARROWS_HISTORY_DAYS", "soon")
    with pytest.raises(NarrowsError, match="NARROWS_HISTORY_DAYS=soon"):
        history.keep(measurement("c", "host4.example", "2026-01-01T00:00:00Z"))
    assert stored.exists()


def test_the_command_forgets_the_selected_measurements(stored: Path, command: Cli) -> None:
    assert "select measurements" in command("history", "forget").stderr
    assert "select measurements" in command("history", "forget", "--all", "--id", "a0").stderr
    assert "narrows history forget" in command("history", "--all").stderr
    done = command("history", "forget", "--id", "a0")
    assert done.stdout.startswith("1 measurement deleted from ")
    done = command("history", "forget", "--all")
    assert done.stdout.startswith("2 measurements deleted from ")
    assert stored.exists()


def test_files_have_pseudonyms_on_request(command: Cli, tmp_path: Path) -> None:
    plain = tmp_path / "m.json"
    plain.write_text(measurement("a", "server.example", "2026-01-01T00:00:00Z").text())
    public = tmp_path / "public.json"
    done = command("convert", plain, public, "--anonymize")
    assert done.returncode == 0, done.stderr
    assert "server.example" not in public.read_text(encoding="utf-8")
    assert "add --anonymize" in command("convert", plain, tmp_path / "a.pcapng").stderr
