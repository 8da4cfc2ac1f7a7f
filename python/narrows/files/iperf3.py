"""iperf3's output, `-J` and `--json-stream`, as a measurement.

Sources: output of iperf3 3.12; for later versions its release notes. `--json-stream` exists since
3.17 and has an object with `event` and `data` on each line. RTTs are smoothed RTTs of the kernel,
in µs, and the window is in bytes. RTT and window are those of the sender, and are missing unless
the sender printed the output. The RTTs of the connections are the only latencies, because iperf3
has no pings. The goodput of UDP counts received data. The output of a UDP sender has the received
data as a total only, so that its samples are `sent_bytes`. Version 3.12 prints -1 as an unsigned
number of 64 bits; 2⁶³ and more are therefore unknown values.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from narrows.json_object import JsonObject
from narrows.measure.result import (
    Direction,
    Measurement,
    MeasurementError,
    Spread,
    parse,
    short,
)

MOST_STREAMS = 10_000
_UNKNOWN = 2.0**63
_MSS = 1448


def is_event(line: str) -> bool:
    """Whether a line is one of `--json-stream`.

    >>> is_event('{"event":"start","data":{}}'), is_event('{"start":{}}'), is_event('{"event"')
    (True, False, False)
    """
    try:
        row = parse(line, "")
    except MeasurementError:
        return False
    return (
        isinstance(row, dict)
        and row.get("event") in ("start", "interval", "end", "error")
        and "data" in row
    )


def read_stream(text: str, name: str) -> Measurement:
    """The measurement in output of `--json-stream`. Of truncated output, the complete lines are
    read.

    Raises:
        MeasurementError: If the output is not valid.
    """
    tree: JsonObject = {"start": {}, "intervals": [], "end": {}}
    lines = [line for line in text.splitlines() if line.strip()]
    for at, line in enumerate(lines):
        try:
            row = parse(line, f"{name}:{at + 1}")
        except MeasurementError:
            if at == len(lines) - 1:
                break  # Cut off in the middle of a line.
            raise
        if not isinstance(row, dict):
            raise MeasurementError(f"{name}:{at + 1}: an object is needed")
        if row.get("event") == "interval":
            tree["intervals"].append(row.get("data"))
        elif row.get("event") in ("start", "end", "error"):
            tree[row["event"]] = row.get("data")
    return read(tree, name)


def read(tree: JsonObject, name: str) -> Measurement:
    """The measurement in output of `-J`.

    Raises:
        MeasurementError: If the JSON is not valid.
    """
    try:
        return Measurement.of(_tree(tree, name), name)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise MeasurementError(f"{name}: iperf3's JSON, but not right: {error!r}") from error


def _tree(tree: JsonObject, name: str) -> JsonObject:
    start, end = tree.get("start") or {}, tree.get("end") or {}
    asked = start.get("test_start") or {}
    if not tree["intervals"] and not end.get("streams"):
        told = tree.get("error") or "neither an interval nor an end"
        raise MeasurementError(f"{name}: iperf3 measured nothing: {told}")
    streams: dict[tuple[int, bool], list[JsonObject]] = {}
    for interval in tree["intervals"]:
        # After the intervals that `--omit` leaves out, the clock of a stream begins anew.
        for row in interval["streams"]:
            if row.get("omitted"):
                continue
            if len(streams) > MOST_STREAMS:
                raise MeasurementError(f"{name}: more than {MOST_STREAMS} streams")
            # The host that printed the output is the near end; it is `sender` of uploads.
            streams.setdefault(
                (int(row["socket"]), bool(row.get("sender", not asked.get("reverse")))), []
            ).append(row)
    arrived_s = _known((end.get("sum_received") or {}).get("seconds"))
    ends = {
        int(who["socket"]): row | {"arrived_s": arrived_s}
        for row in end.get("streams", ())
        for who in row.values()
        if "socket" in who
    }
    protocol = str(asked.get("protocol", "TCP")).lower()
    mss = start.get("tcp_mss_default") or _MSS
    about = {"protocol": protocol, "cc": end.get("sender_tcp_congestion"), "mss_bytes": mss}
    flows = []
    for at, ((socket, up), rows) in enumerate(streams.items()):
        direction: Direction = "up" if up else "down"
        flows.append(_flow(f"{direction}{at}", direction, rows, ends.get(socket, {}), about))
    stamp = (start.get("timestamp") or {}).get("timesecs")
    began = (
        datetime.fromtimestamp(float(stamp), timezone.utc).isoformat().replace("+00:00", "Z")
        if stamp
        else ""
    )
    to = start.get("connecting_to") or start.get("accepted_connection") or {}
    directions = {f["direction"] for f in flows}
    cpu = end.get("cpu_utilization_percent") or {}
    bitrate, tos = _known(asked.get("target_bitrate")), _known(asked.get("tos"))
    return {
        "measurement": 1,
        "id": str(start.get("cookie") or name),
        "started": began,
        "asked": {
            "host": to.get("host"),
            "port": to.get("port"),
            "test": "bidir"
            if len(directions) == 2  # noqa: PLR2004
            else f"{protocol}_{next(iter(directions), 'up')}",
            "duration_s": asked.get("duration"),
            "streams": asked.get("num_streams"),
            **(
                {"pacing_mbit": short(bitrate / 1e6) if bitrate else None}
                if bitrate is not None
                else {}
            ),
            "dscp": int(tos) >> 2 if tos is not None else None,
        },
        "peer": {
            "address": to.get("host"),
            "port": to.get("port"),
            "speaks": "iperf3",
            "version": start.get("version"),
        },
        "phases": [
            {
                "name": "loaded",
                "from_s": min(f["from_s"] for f in flows),
                "to_s": max(f["to_s"] for f in flows),
                "cc": None,
            }
        ]
        if flows
        else [],
        "flows": flows,
        "pings": [],
        "own_error": {
            "lateness_ms": None,
            "socket_drops": None,
            "cpu_pct": _known(cpu.get("host_total")),
            "clock": None,
        },
        "host": _machine(start.get("system_info")),
    }


def _machine(told: object) -> JsonObject:
    """Name and kernel of this host, from `system_info`: the output of `uname -a`.

    >>> _machine("Linux box 6.1.0-9-amd64 #1 SMP Debian x86_64")
    {'kernel': '6.1.0-9-amd64', 'name': 'box'}
    """
    words = told.split() if isinstance(told, str) else []
    if len(words) < 3:  # noqa: PLR2004 - system, name and release
        return {"kernel": told if isinstance(told, str) else None}
    return {"kernel": words[2], "name": words[1]}


def _flow(
    id_: str, direction: Direction, rows: list[JsonObject], end: JsonObject, about: JsonObject
) -> JsonObject:
    mss = about["mss_bytes"]
    so_far, again = 0.0, 0.0
    samples: list[list[float | None]] = [[float(rows[0]["start"]), 0, None, None, None]]
    rtts = []
    for row in rows:
        so_far += _known(row["bytes"]) or 0
        more = _known(row.get("retransmits"))
        again = again + more if more is not None else again
        rtt, window = _known(row.get("rtt")), _known(row.get("snd_cwnd"))
        ms = rtt / 1000 if rtt else None
        rtts.append(ms)
        cwnd = short(window / mss) if window else None
        samples.append([float(row["end"]), so_far, cwnd, ms, again if more is not None else None])
    begin, last = float(rows[0]["start"]), float(rows[-1]["end"])
    sent_by_near = about["protocol"] == "udp" and direction == "up"
    if about["protocol"] == "udp":
        measured = (
            _arrived_mbit(end.get("udp") or {}, end.get("arrived_s"))
            if sent_by_near
            else _mbit(so_far, last - begin)
        )
    else:
        # The goodput counts the received data if the receiver reported them, otherwise the sent
        # data.
        rate = _known((end.get("receiver") or {}).get("bits_per_second"))
        measured = rate / 1e6 if rate else _mbit(so_far, last - begin)
    sent = _known((end.get("sender") or {}).get("bytes")) or so_far
    known = any("retransmits" in row for row in rows)
    udp = end.get("udp") or {}
    return {
        "id": id_,
        "direction": direction,
        **about,
        "dscp": None,
        "ecn": None,
        "from_s": begin,
        "to_s": last,
        "bytes": so_far,
        "goodput_mbit": short(measured),
        "retransmits": again if known else None,
        "retransmit_rate": short(again * mss / sent) if known and sent else None,
        "rtt_ms": Spread.of(rtts).flow_json(),
        "lost_share": short((_known(udp.get("lost_percent")) or 0) / 100) if udp else None,
        "jitter_ms": _known(udp.get("jitter_ms")),
        "columns": [
            "t_s",
            "sent_bytes" if sent_by_near else "acked_bytes",
            "cwnd_packets",
            "rtt_ms",
            "retransmits",
        ],
        "samples": samples,
    }


def _mbit(so_far: float, took_s: float) -> float | None:
    return so_far * 8e-6 / took_s if took_s > 0 else None


def _arrived_mbit(udp: JsonObject, arrived_s: float | None) -> float | None:
    """The goodput of a stream that the near host sent, in Mbit/s.

    The result is None if the report of the receiver is missing.
    """
    sent, lost = _known(udp.get("bytes")), _known(udp.get("lost_percent"))
    took_s = arrived_s or _known(udp.get("seconds"))
    return (
        None
        if sent is None or lost is None or not took_s
        else _mbit(sent * (1 - lost / 100), took_s)
    )


def _known(value: Any) -> float | None:  # noqa: ANN401 - whatever the file has
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _UNKNOWN:
        return None
    return float(value)
