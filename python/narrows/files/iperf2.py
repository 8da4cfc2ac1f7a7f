"""Reads iperf2's text as a measurement.

Source: output of iperf 2.0 and 2.1 (tested with 2.1.8). A line of a stream has its number in
brackets, an interval, the transferred amount and the rate. The units differ from line to line. With
`-e` a client also prints retransmits, window and RTT. A client sends in the direction `up`. The
last lines of a stream are reports of the whole stream, which are left out of the samples. The first
of these reports is that of the sender. Over UDP, the report of the receiver ("Server Report")
follows, with the received amount.

The goodput of UDP counts received data. The text of a client has the received data only in the
report of the receiver, so that the samples are `sent_bytes`. A text that has only lines of the sum
over all streams (`--sum-only`) is read as one stream.
"""

from __future__ import annotations

import re
from typing import Any

from narrows.json_object import JsonObject
from narrows.measure.result import Direction, Measurement, MeasurementError, Spread, short

_NUMBER = r"\d{1,15}(?:\.\d{1,9})?"
"""Pattern of a number with so few digits that it is finite as a float."""

_LINE = re.compile(
    rf"^\[ *(?P<id>\d{{1,15}}|SUM)\] +(?P<from>{_NUMBER}) *- *(?P<to>{_NUMBER}) sec +"
    rf"(?P<amount>{_NUMBER}) (?P<amount_unit>[KMGT]?)(?P<of>Bytes|bits|bytes) +"
    rf"(?P<rate>{_NUMBER}) (?P<rate_unit>[KMGT]?)(?P<rate_of>Bytes|bits|bytes)/sec(?P<more>.*)$",
    re.MULTILINE,
)
_MORE = re.compile(
    r"(?:\d+/\d+ +)?(?<!\d)(?P<again>\d{1,15}) +"
    r"(?P<window>\d{1,15})K/(?P<rtt>\d{1,15})(?:\(\d+\))? us"
)
_DATAGRAMS = re.compile(
    rf"(?<![\d.])(?P<jitter>{_NUMBER}) ms +(?P<lost>\d{{1,15}})/ *(?P<sent>\d{{1,15}})"
)
_PEER = re.compile(
    r"^(?P<who>Client connecting to|Server listening on) ?(?P<host>[^,\s]*).*?"
    r"port (?P<port>\d{1,5})",
    re.MULTILINE,
)
_UDP = re.compile(r"^.*\bUDP port\b", re.MULTILINE)

_LINES = 1_000_000
_AMOUNT = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_RATE = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_MSS = 1448


def is_iperf2(text: str) -> bool:
    """Whether a text has a line of iperf2.

    >>> is_iperf2("[  3]  0.0- 1.0 sec  1.12 MBytes  9.44 Mbits/sec"), is_iperf2("hello")
    (True, False)
    """
    return _LINE.search(text) is not None


def read(text: str, name: str) -> Measurement:
    """Reads the output of iperf2.

    Raises:
        MeasurementError: If the text has too many lines.
    """
    peer = _PEER.search(text)
    server = peer is not None and peer["who"].startswith("Server")
    direction: Direction = "down" if server else "up"
    streams: dict[str, list[re.Match[str]]] = {}
    for at, line in enumerate(_LINE.finditer(text)):
        if at > _LINES:
            raise MeasurementError(f"{name}: more than {_LINES} lines")
        streams.setdefault(line["id"], []).append(line)
    if len(streams) > 1:
        streams.pop("SUM", None)
    protocol = "udp" if _UDP.search(text) else "tcp"
    flows = [
        _flow(f"{direction}{number.lower()}", direction, protocol, lines)
        for number, lines in streams.items()
    ]
    host = peer["host"] if peer and not server else None
    whole = {
        "measurement": 1,
        "id": name,
        "started": "",
        "asked": {"host": host, "test": f"{protocol}_{direction}", "streams": len(flows)},
        "peer": {"address": host, "port": int(peer["port"]) if peer else None, "speaks": "iperf2"},
        "phases": [
            {
                "name": "loaded",
                "from_s": 0.0,
                "to_s": max((f["to_s"] for f in flows), default=0.0),
                "cc": None,
            }
        ],
        "flows": flows,
        "pings": [],
    }
    return Measurement.of(whole, name)


def _flow(id_: str, direction: Direction, protocol: str, lines: list[re.Match[str]]) -> JsonObject:
    begin = float(lines[0]["from"])
    # An interval begins where the one before ended; a report of the whole stream begins where the
    # stream did.
    count = next(
        (i for i, line in enumerate(lines) if i and float(line["from"]) <= begin), len(lines)
    )
    parts, reports = lines[:count], lines[count:]
    usual = float(parts[0]["to"]) - begin
    so_far, again = 0.0, 0
    rtts: list[float | None] = []
    samples: list[list[Any]] = [[begin, 0, None, None, None]]
    for line in parts:
        took = float(line["to"]) - float(line["from"])
        if took <= 0:
            continue
        # The times of a short last interval are rounded by a large part of its length. For it, the
        # transferred amount is more precise than the rate multiplied by the time.
        so_far += _amount(line) if took < usual / 2 else _rate(line) * took / 8
        more = _MORE.search(line["more"])
        if more:
            again += int(more["again"])
            rtts.append(int(more["rtt"]) / 1000)
        window = short(int(more["window"]) * 1024 / _MSS) if more else None
        samples.append(
            [
                float(line["to"]),
                round(so_far),
                window,
                rtts[-1] if more else None,
                again if more else None,
            ]
        )
    last = float(parts[-1]["to"])
    goodput = (
        _rate(reports[-1]) * 1e-6
        if reports
        else so_far * 8e-6 / (last - begin)
        if last > begin
        else None
    )
    datagrams = _DATAGRAMS.search((reports or parts)[-1]["more"])
    sent_by_near = protocol == "udp" and direction == "up"
    if sent_by_near and not datagrams:
        goodput = None
    return {
        "id": id_,
        "direction": direction,
        "protocol": protocol,
        "cc": None,
        "dscp": None,
        "ecn": None,
        "from_s": begin,
        "to_s": last,
        "bytes": round(_amount(reports[-1]) if reports else so_far),
        "goodput_mbit": short(goodput),
        "retransmits": again if rtts else None,
        "retransmit_rate": None,
        "rtt_ms": Spread.of(rtts).flow_json(),
        "lost_share": short(int(datagrams["lost"]) / max(1, int(datagrams["sent"])))
        if datagrams
        else None,
        "jitter_ms": float(datagrams["jitter"]) if datagrams else None,
        "columns": [
            "t_s",
            "sent_bytes" if sent_by_near else "acked_bytes",
            "cwnd_packets",
            "rtt_ms",
            "retransmits",
        ],
        "samples": samples,
    }


def _rate(line: re.Match[str]) -> float:
    """Bit/s."""
    # As in the source of iperf2 (byte_snprintf), K means 1000 for bits and 1024 for bytes.
    in_bits = line["rate_of"] == "bits"
    return (
        float(line["rate"])
        * (_RATE if in_bits else _AMOUNT)[line["rate_unit"]]
        * (1 if in_bits else 8)
    )


def _amount(line: re.Match[str]) -> float:
    """Bytes."""
    return float(line["amount"]) * _AMOUNT[line["amount_unit"]] / (8 if line["of"] == "bits" else 1)
