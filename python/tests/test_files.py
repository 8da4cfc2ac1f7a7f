"""Measurements in files of other tools. The tools themselves are used if they are installed."""

from __future__ import annotations

import bz2
import csv
import gzip
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from test_serve import free_port

import narrows as nw
from narrows import files
from narrows.errors import OutputError
from narrows.measure import summary
from narrows.measure.result import Measurement, MeasurementError
from narrows.measure.simulated import Plan, measure
from narrows.storage import hdr

FLENT = shutil.which("flent")
FLENT_DATA = os.environ.get("NARROWS_FLENT_DATA", "")
IPERF3 = shutil.which("iperf3")


@pytest.fixture(scope="module")
def measured() -> Measurement:
    path = nw.Path(
        rate="20Mbit", rtt="30ms", buffer="200kB", reverse=nw.Hop(rate="5Mbit", buffer="100kB")
    )
    return measure(path, Plan(streams=2, load_s=3.0, idle_s=1.0, pause_s=1.0))


@pytest.fixture(scope="module")
def down() -> Measurement:
    path = nw.Path(rate="20Mbit", rtt="30ms", buffer="200kB")
    return measure(path, Plan(streams=3, load_s=3.0, idle_s=1.0, pause_s=1.0, directions=("down",)))


def test_a_json_file_preserves_the_measurement(measured: Measurement, tmp_path: Path) -> None:
    files.write(measured, tmp_path / "a.json")
    assert files.read(tmp_path / "a.json").json == measured.json


def test_a_flent_file_preserves_the_measurement(measured: Measurement, tmp_path: Path) -> None:
    files.write(measured, tmp_path / "a.flent.gz")
    assert files.read(tmp_path / "a.flent.gz").json == measured.json


def test_a_foreign_flent_file_is_read_from_its_series(down: Measurement, tmp_path: Path) -> None:
    files.write(down, tmp_path / "a.flent.gz")
    tree = json.loads(gzip.decompress((tmp_path / "a.flent.gz").read_bytes()))
    del tree["NARROWS"]
    (tmp_path / "b.flent").write_text(json.dumps(tree))
    theirs = files.read(tmp_path / "b.flent")
    assert [flow.direction for flow in theirs.flows] == ["down"] * 3
    said, ours = summary.answer(theirs), summary.answer(down)
    assert said.rates_mbit["down"] == pytest.approx(ours.rates_mbit["down"], rel=0.05)
    assert said.loaded["down"].p95 == pytest.approx(ours.loaded["down"].p95, rel=0.03)
    # flent has no phases: what comes before the first byte is idle.
    assert said.idle.p50 == pytest.approx(ours.idle.p50, rel=0.01)


@pytest.mark.parametrize(
    "tree",
    [
        {"x_values": [0.0], "results": {"Ping (ms) ICMP": [1.0, 2.0]}, "version": 4},
        {"x_values": ["a"], "results": {}, "version": 4},
        {"x_values": [0.0], "results": [], "version": 4},
        {"x_values": [0.0], "results": {}, "version": 5},
        {"x_values": [0.0], "results": {"Ping (ms) ICMP": [[]]}, "version": 4},
    ],
)
def test_a_wrong_flent_file_is_an_error(tree: object, tmp_path: Path) -> None:
    (tmp_path / "a.flent").write_text(json.dumps(tree))
    with pytest.raises(MeasurementError, match=r"a\.flent"):
        files.read(tmp_path / "a.flent")


@pytest.mark.skipif(FLENT is None, reason="flent is not installed")
@pytest.mark.parametrize("which", ["both", "down", "idle"])
def test_flent_opens_files_of_narrows(
    which: str, measured: Measurement, down: Measurement, tmp_path: Path
) -> None:
    assert FLENT is not None
    idle = Measurement.of(
        measured.json | {"flows": [], "phases": [{"name": "idle", "from_s": 0, "to_s": 9}]}
    )
    files.write({"both": measured, "down": down, "idle": idle}[which], tmp_path / "a.flent.gz")
    done = subprocess.run(
        [FLENT, "-f", "summary", "a.flent.gz"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Ping (ms) ICMP" in done.stdout
    if which == "down":
        total = next(line for line in done.stdout.splitlines() if "TCP download sum" in line)
        assert any(word.startswith(("18.", "19.")) for word in total.split()), total


@pytest.mark.skipif(
    not FLENT_DATA, reason="NARROWS_FLENT_DATA does not name flent's unittests/test_data"
)
def test_files_of_flent_are_read() -> None:
    found = sorted(Path(FLENT_DATA).glob("*.flent.gz"))
    assert found
    for file in found:
        theirs = files.read(file)
        said = summary.answer(theirs)
        assert theirs.pings or theirs.flows or theirs.test == "http", file
        assert all(rate >= 0 for rate in said.rates_mbit.values())


IPERF3_J = {
    "start": {
        "connected": [{"socket": 5}],
        "version": "iperf 3.12",
        "timestamp": {"timesecs": 1_700_000_000},
        "connecting_to": {"host": "192.0.2.1", "port": 5201},
        "cookie": "abc",
        "tcp_mss_default": 1448,
        "test_start": {"protocol": "TCP", "num_streams": 1, "duration": 2, "reverse": 0},
    },
    "intervals": [
        {"streams": [{"socket": 5, "start": 0, "end": 1.0, "seconds": 1.0, "bytes": 1_250_000,
        "retransmits": 3,
                      "snd_cwnd": 144_800, "rtt": 40_000, "sender": True}]},
        {"streams": [{"socket": 5, "start": 1.0, "end": 2.0, "seconds": 1.0, "bytes": 2_500_000,
        "retransmits": 1,
                      "snd_cwnd": 289_600, "rtt": 60_000, "sender": True}]},
    ],
    "end": {
        "streams": [
            {"sender": {"socket": 5, "bytes": 3_750_000}, "receiver": {"socket": 5,
            "bits_per_second": 14.8e6}}
        ],
        "cpu_utilization_percent": {"host_total": 1.5},
        "sender_tcp_congestion": "cubic",
    },
}  # fmt: skip


def test_iperf3s_json_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(IPERF3_J))
    theirs = files.read(tmp_path / "a.json")
    (flow,) = theirs.flows
    assert (flow.direction, flow.cc, flow.goodput_mbit, flow.figure("retransmits")) == (
        "up",
        "cubic",
        14.8,
        4,
    )
    assert flow.columns["rtt_ms"] == [None, 40.0, 60.0]
    assert flow.columns["cwnd_packets"] == [None, 100.0, 200.0]
    assert theirs.host == "192.0.2.1"
    assert theirs.started.startswith("2023-11-14T")


def test_the_json_stream_of_iperf3_is_read_even_if_truncated(tmp_path: Path) -> None:
    events = [{"event": "start", "data": IPERF3_J["start"]}]
    events += [{"event": "interval", "data": interval} for interval in IPERF3_J["intervals"]]
    events += [{"event": "end", "data": IPERF3_J["end"]}]
    lines = [json.dumps(event) for event in events]
    (tmp_path / "a.json").write_text(json.dumps(IPERF3_J))
    (tmp_path / "whole.json").write_text("\n".join(lines))
    (tmp_path / "cut.json").write_text("\n".join(lines)[:-200])
    whole, plain, cut = (
        files.read(tmp_path / name) for name in ("whole.json", "a.json", "cut.json")
    )
    assert whole.json == plain.json
    assert cut.flows[0].columns["acked_bytes"] == [0, 1_250_000, 3_750_000]


def test_retransmits_of_2_to_the_64_minus_1_are_unknown(tmp_path: Path) -> None:
    tree = json.loads(json.dumps(IPERF3_J))
    for interval in tree["intervals"]:
        interval["streams"][0]["retransmits"] = 2**64 - 1
    (tmp_path / "a.json").write_text(json.dumps(tree))
    (flow,) = files.read(tmp_path / "a.json").flows
    assert flow.columns["retransmits"] == [None, None, None]


@pytest.mark.skipif(IPERF3 is None, reason="iperf3 is not installed")
@pytest.mark.parametrize(
    "more", [[], ["-R"], ["--bidir"], ["-u", "-b", "5M"], ["-P", "2"]], ids=" ".join
)
def test_the_output_of_iperf3_is_read(more: list[str], tmp_path: Path) -> None:
    assert IPERF3 is not None
    port = str(free_port())
    with subprocess.Popen(
        [IPERF3, "-s", "-1", "-p", port, "--forceflush"], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        server.stdout.readline()
        server.stdout.readline()
        done = subprocess.run(
            [IPERF3, "-c", "127.0.0.1", "-p", port, "-t", "1", "-b", "10M", *more, "-J"],
            capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
        server.wait(10)
    (tmp_path / "a.json").write_text(done.stdout)
    theirs = files.read(tmp_path / "a.json")
    directions = {"-R": {"down"}, "--bidir": {"down", "up"}}.get(more[0] if more else "", {"up"})
    assert {flow.direction for flow in theirs.flows} == directions
    for flow in theirs.flows:
        assert flow.goodput_mbit == pytest.approx(5 if "-u" in more else 10, rel=0.3)


def _udp(loss_percent: float, *, bitrate: float = 30e6, near_sends: bool = True) -> dict[str, Any]:
    """Output of iperf3 3.12: the `udp` of a stream has the sent data, on either end."""
    sent = bitrate / 8
    seen = sent if near_sends else sent * (1 - loss_percent / 100)
    return {
        "start": {"connecting_to": {"host": "192.0.2.1", "port": 5201},
                  "test_start": {"protocol": "UDP", "num_streams": 1, "duration": 4,
                  "reverse": int(not near_sends),
                                 "target_bitrate": bitrate, "tos": 184}},
        "intervals": [
            {"streams": [{"socket": 5, "start": t, "end": t + 1.0, "bytes": seen,
            "sender": near_sends}]}
            for t in range(4)
        ],
        "end": {
            "streams": [{"udp": {"socket": 5, "seconds": 4.0, "bytes": 4 * sent,
            "bits_per_second": bitrate,
                                 "jitter_ms": 0.5, "lost_percent": loss_percent,
                                 "sender": near_sends}}],
            "sum_received": {"seconds": 4.0},
        },
    }  # fmt: skip


@pytest.mark.parametrize("near_sends", [True, False])
def test_the_goodput_of_udp_is_the_received_data(near_sends: bool, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(_udp(20, near_sends=near_sends)))
    theirs = files.read(tmp_path / "a.json")
    (flow,) = theirs.flows
    assert flow.goodput_mbit == pytest.approx(24)
    assert flow.columns["sent_bytes" if near_sends else "acked_bytes"][-1] == pytest.approx(
        flow.figure("bytes")
    )
    assert bool(flow.acked()) != near_sends
    assert theirs.json["asked"]["pacing_mbit"] == 30
    assert theirs.json["asked"]["dscp"] == 46


def test_udp_without_the_report_of_its_receiver_has_no_goodput(tmp_path: Path) -> None:
    tree = _udp(20)
    tree["end"] = {}
    (tmp_path / "a.json").write_text(json.dumps(tree))
    (tmp_path / "b.txt").write_text(
        "Client connecting to 192.0.2.1, UDP port 5001\n"
        "[  3]  0.0- 1.0 sec  1.25 MBytes  10.5 Mbits/sec\n[  3]  1.0- 2.0 sec  1.25 MBytes  10.5 "
        "Mbits/sec\n"
        "[  3]  0.0- 2.0 sec  2.50 MBytes  10.5 Mbits/sec\n"
    )
    for name in ("a.json", "b.txt"):
        (flow,) = files.read(tmp_path / name).flows
        assert flow.goodput_mbit is None, name


IPERF2 = """\
------------------------------------------------------------
Client connecting to 192.0.2.1, TCP port 5001
------------------------------------------------------------
[  1] local 192.0.2.9%lo port 57512 connected with 192.0.2.1 port 5001
[ ID] Interval            Transfer    Bandwidth       Write/Err  Rtry     Cwnd/RTT(var)    NetPwr
[  1] 0.0000-1.0000 sec  1.25 MBytes  10.5 Mbits/sec  10/0          2     1131K/1375(2529) us  953
[  1] 1.0000-2.0000 sec  1.25 MBytes  10.5 Mbits/sec  10/0          1     1131K/371(494) us  3533
[  1] 0.0000-2.0144 sec  2.63 MBytes  10.9 Mbits/sec  21/0          3     1131K/2085(3799) us  655
"""


def test_iperf2s_text_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(IPERF2)
    (flow,) = files.read(tmp_path / "a.txt").flows
    assert (flow.direction, flow.to_s, flow.figure("retransmits")) == ("up", 2.0, 3)
    # As it prints it for the whole stream.
    assert flow.goodput_mbit == pytest.approx(10.9)
    assert flow.columns["rtt_ms"] == [None, 1.375, 0.371]


def test_unknown_formats_are_errors_that_name_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x00\xffhello")
    with pytest.raises(MeasurementError, match="neither narrows' JSON, nor flent's"):
        files.read(tmp_path / "a")
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"{" * 10)[:-4])
    with pytest.raises(MeasurementError, match=r"b\.gz"):
        files.read(tmp_path / "b.gz")
    with pytest.raises(MeasurementError, match="no such file"):
        files.read(tmp_path / "c")
    with pytest.raises(MeasurementError, match="not JSON"):
        files.of_text(b"{" * 100_000, "deep")
    with pytest.raises(OutputError, match=r"\.flent\.gz"):
        files.write(Measurement.of({"measurement": 1}), tmp_path / "a.doc")


def test_a_file_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 1000)
    (tmp_path / "a.gz").write_bytes(gzip.compress(b" " * 2000))
    with pytest.raises(MeasurementError, match="more than"):
        files.read(tmp_path / "a.gz")


def test_tables_have_a_row_for_every_sample(measured: Measurement, tmp_path: Path) -> None:
    samples = sum(len(f.columns["t_s"]) for f in measured.flows) + len(
        measured.pings[0].columns["t_s"]
    )
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        files.write(measured, tmp_path / name)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text())))
    assert len(rows) == samples
    first, *lines = (json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines())
    assert (first["kind"], len(lines)) == ("measurement", samples)
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.num_rows == samples
    last = [row for row in rows if row["id"] == "down1"][-1]
    acked = measured.flows[0].columns["acked_bytes"][-1]
    assert float(last["acked_bytes"]) == acked
    assert [r for r in table.to_pylist() if r["id"] == "down1"][-1]["acked_bytes"] == acked
    assert json.loads(table.schema.metadata[b"narrows"])["measurement"] == 1


def test_the_same_measurement_is_the_same_file(measured: Measurement, tmp_path: Path) -> None:
    for ending in files.WRITTEN:
        for name in ("a", "b"):
            files.write(measured, tmp_path / f"{name}{ending}")
        assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


def test_a_histogram_has_the_encoding_of_hdrhistogram() -> None:
    # A worked example: one value of 1 µs. One zero, one count, as varints 0 and 2.
    import base64  # noqa: PLC0415
    import struct  # noqa: PLC0415
    import zlib  # noqa: PLC0415

    raw = base64.b64decode(hdr.encode([1]))
    assert raw[:4] == bytes.fromhex("1c849314")
    body = zlib.decompress(raw[8:])
    cookie, length, offset, digits, low, high, ratio = struct.unpack(">IIIIQQd", body[:40])
    assert (f"{cookie:x}", length, offset, digits, low, ratio) == ("1c849313", 2, 0, 3, 1, 1.0)
    assert high == hdr.HIGHEST_US
    assert body[40:] == b"\x00\x02"


@pytest.mark.skipif(
    importlib.util.find_spec("hdrh") is None, reason="the package hdrhistogram is not installed"
)
def test_the_library_hdrhistogram_reads_the_histogram(
    measured: Measurement, tmp_path: Path
) -> None:
    from hdrh.histogram import HdrHistogram  # noqa: PLC0415
    from hdrh.log import HistogramLogReader  # noqa: PLC0415

    files.write(measured, tmp_path / "a.hlog")
    reader = HistogramLogReader(str(tmp_path / "a.hlog"), HdrHistogram(1, hdr.HIGHEST_US, 3))
    idle = reader.get_next_interval_histogram()
    loaded = reader.get_next_interval_histogram()
    assert (idle.get_tag(), loaded.get_tag()) == ("idle", "loaded")
    for histogram, phase in ((idle, measured.phases[0]), (loaded, measured.phases[1])):
        values = sorted(
            rtt for rtt in measured.rtts([(phase.from_s, phase.to_s)]) if rtt is not None
        )
        assert histogram.get_total_count() == len(values)
        assert histogram.get_value_at_percentile(50) == pytest.approx(
            1000 * values[len(values) // 2], rel=0.02
        )
        assert histogram.get_max_value() == pytest.approx(1000 * values[-1], rel=2e-3)


def test_reading_files_imports_neither_pyarrow_nor_numpy() -> None:
    program = (
        "import sys, narrows.files; sys.exit('pyarrow' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, cwd="/").returncode == 0


def test_classes_keep_their_names_in_flents_test_of_classes(
    measured: Measurement, tmp_path: Path
) -> None:
    tree = json.loads(measured.text())
    for flow, dscp in zip(tree["flows"], (0, 46, 0, 46), strict=True):
        flow["dscp"] = dscp
    tree["pings"] = [tree["pings"][0] | {"dscp": dscp} for dscp in (0, 8, 40, 46)]
    files.write(Measurement.of(tree), tmp_path / "a.flent")
    told = json.loads((tmp_path / "a.flent").read_text())
    assert told["metadata"]["NAME"] == "rrul"
    assert {name for name in told["raw_values"] if name.startswith("TCP")} == {
        "TCP download BE", "TCP download EF", "TCP upload BE", "TCP upload EF",
    }  # fmt: skip
    assert {name for name in told["raw_values"] if name.startswith("Ping")} == {
        "Ping (ms) UDP EF", "Ping (ms) UDP BK", "Ping (ms) UDP BE",
    }  # fmt: skip
    if FLENT is not None:
        command = [FLENT, "-f", "summary", "a.flent"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "TCP download EF" in done.stdout


def test_a_number_beyond_any_float_was_not_measured(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        '{"measurement": 1, "other": [1e999, -1e999, NaN, Infinity], "flows": [{"id": "a", '
        '"direction": "up", '
        '"from_s": 0, "to_s": 1, "goodput_mbit": 1e999, "columns": ["t_s", "rtt_ms"], "samples": '
        "[[0.5, 1e999]]}]}"
    )
    for ending in files.WRITTEN:
        files.write(files.read(tmp_path / "a.json"), tmp_path / f"b{ending}")
    read = files.read(tmp_path / "b.json")
    assert read.flows[0].goodput_mbit is None
    assert read.flows[0].columns["rtt_ms"] == [None]
    assert read.json["other"] == [None] * 4


def test_a_compressed_file_has_a_limit_of_its_unpacked_size(tmp_path: Path) -> None:
    text = b'{"measurement": 1, "x": [' + b"[]," * 2_000_000 + b"[]]}"
    for name, pack in (("a.flent.gz", gzip.compress), ("a.flent.bz2", bz2.compress)):
        (tmp_path / name).write_bytes(pack(text))
        assert (tmp_path / name).stat().st_size < 65_000
        with pytest.raises(MeasurementError, match=r"bytes unpack to more than 4194304 bytes"):
            files.read(tmp_path / name)


def test_packed_files_of_ours_are_far_from_the_limit(measured: Measurement, tmp_path: Path) -> None:
    files.write(measured, tmp_path / "a.flent.gz")
    packed = (tmp_path / "a.flent.gz").read_bytes()
    assert len(gzip.decompress(packed)) < files.MOST_RATIO / 2 * len(packed)
