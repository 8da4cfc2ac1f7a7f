"""Reads and writes measurements: JSON of narrows, flent and iperf3, text of iperf2, tables, and
histograms.

The content of a file selects its reader; the name selects its writer. Files are untrusted input, so
their size is limited. At most `MOST_BYTES` are read. A compressed file may unpack to at most
`MOST_RATIO` times its size, or to `ALWAYS_BYTES` if this is more. JSON takes about twenty times its
text in memory. Without the ratio, 60 kB of gzip become more than a gigabyte.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import zlib
from collections.abc import Callable
from os import PathLike

from narrows.errors import OutputError
from narrows.files import flent, iperf2, iperf3, rows
from narrows.measure.result import Measurement, MeasurementError, parse
from narrows.runs.source import kind_of
from narrows.storage import hdr, output, untrusted_input
from narrows.storage.text import name_of, unread

MOST_BYTES = 128 << 20
"""Maximum size of an unpacked file, in bytes. An hour with twelve flows has some 40 MB."""

MOST_RATIO = 50
"""Maximum compression ratio; files of flent have a ratio of 5 to 20."""

ALWAYS_BYTES = 4 * 1024 * 1024
"""Size in bytes to which every compressed file may unpack, even if its ratio is higher."""

WRITTEN = (".json", ".flent.gz", ".flent", ".csv", ".jsonl", ".hlog", ".parquet")
"""Suffixes of files that can be written."""


def read(file: str | PathLike[str]) -> Measurement:
    """The measurement in a file: narrows' JSON, `.flent.gz`, iperf3's `-J` or `--json-stream`,
    iperf2's text.

    Raises:
        MeasurementError: If the file has none of these formats, or cannot be read.
    """
    name = name_of(file)
    try:
        raw = _unpacked(untrusted_input.read(file, MOST_BYTES), name)
    except OSError as error:
        raise MeasurementError(unread(file, error)) from error
    except (EOFError, zlib.error) as error:
        raise MeasurementError(f"{name}: {str(error).lower()}") from error
    return of_text(raw, name)


def of_text(raw: bytes, name: str) -> Measurement:
    """The measurement in the content of a file; see `read`."""
    text = raw.decode("utf-8", errors="replace").lstrip("\N{ZERO WIDTH NO-BREAK SPACE} \t\r\n")
    if not text.startswith("{"):
        if iperf2.is_iperf2(text):
            return iperf2.read(text, name)
        if kind_of(text, name) == "scenario":
            raise MeasurementError(f"{name}: a scenario, not a measurement: narrows measure {name}")
        if not text:
            raise MeasurementError(f"{name}: the file is empty; write a measurement")
        raise MeasurementError(
            f"{name}: neither narrows' JSON, nor flent's, nor iperf3's (-J, --json-stream), nor "
            "iperf2's text"
        )
    first = text.split("\n", 1)[0]
    if '"event"' in first and iperf3.is_event(first):
        return iperf3.read_stream(text, name)
    tree = parse(text, name)
    if isinstance(tree, dict):
        if "measurement" in tree:
            return Measurement.of(tree, name)
        if "x_values" in tree and "results" in tree:
            return flent.read(tree, name)
        if "start" in tree and "intervals" in tree:
            return iperf3.read(tree, name)
    raise MeasurementError(f"{name}: JSON, but neither narrows' nor flent's nor iperf3's")


def write(measured: Measurement, file: str | PathLike[str]) -> None:
    """Writes a measurement in the format of the suffix, one of `WRITTEN`; completely or not at all.

    Raises:
        OutputError: If the file cannot be written, or the suffix is unknown.
    """
    writer = writer_of(file)
    output.write(file, writer(measured))


def writer_of(file: str | PathLike[str]) -> Callable[[Measurement], bytes]:
    """The writer of the format that the suffix of the name selects.

    Raises:
        OutputError: If the suffix is unknown.
    """
    name = name_of(file)
    ending = next((e for e in WRITTEN if name.endswith(e)), None)
    if ending is None:
        raise OutputError(
            f"{name}: a measurement is written as one of {', '.join(WRITTEN)}\n    write: "
            f"{name}.json"
        )
    return _WRITERS[ending]


def _unpacked(raw: bytes, name: str) -> bytes:
    if raw[:2] == b"\x1f\x8b":
        packed: gzip.GzipFile | bz2.BZ2File = gzip.GzipFile(fileobj=io.BytesIO(raw))
    elif raw[:3] == b"BZh":
        packed = bz2.BZ2File(io.BytesIO(raw))
    else:
        return raw
    most = min(MOST_BYTES, max(ALWAYS_BYTES, MOST_RATIO * len(raw)))
    content = packed.read(most + 1)
    if len(content) > most:
        raise MeasurementError(
            f"{name}: {len(raw)} bytes unpack to more than {most} bytes, the most that is read; "
            "if that is right, unpack it yourself and name the unpacked file"
        )
    return content


def _json(measured: Measurement) -> bytes:
    return json.dumps(measured.json, ensure_ascii=False, allow_nan=False, indent=1).encode() + b"\n"


def _flent(measured: Measurement) -> bytes:
    return flent.text(measured)


def _flent_gz(measured: Measurement) -> bytes:
    out = io.BytesIO()
    # The header of gzip has no name and no date, so that the same measurement gives the same bytes.
    with gzip.GzipFile(fileobj=out, mode="wb", filename="", mtime=0) as packed:
        packed.write(_flent(measured))
    return out.getvalue()


def _csv(measured: Measurement) -> bytes:
    return rows.csv_text(measured).encode(errors="backslashreplace")


def _jsonl(measured: Measurement) -> bytes:
    return rows.json_lines(measured).encode(errors="backslashreplace")


def _hlog(measured: Measurement) -> bytes:
    """A log of HdrHistogram: a line for each phase that had pings."""
    lines = hdr.head("round-trip times of pings", "microseconds")
    for phase in measured.phases:
        values = [rtt for rtt in measured.rtts([(phase.from_s, phase.to_s)]) if rtt is not None]
        if values:
            most = min(max(values), hdr.HIGHEST_US / 1000)
            lines.append(
                f"Tag={''.join(c if c.isalnum() else '_' for c in phase.name)},{phase.from_s:.3f},"
                f"{phase.to_s - phase.from_s:.3f},{most:.3f},"
                f"{hdr.encode(round(1000 * v) for v in values)}"
            )
    return ("\n".join(lines) + "\n").encode()


def _parquet(measured: Measurement) -> bytes:
    return rows.parquet(measured)


_WRITERS: dict[str, Callable[[Measurement], bytes]] = {
    ".json": _json,
    ".flent.gz": _flent_gz,
    ".flent": _flent,
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".hlog": _hlog,
    ".parquet": _parquet,
}
