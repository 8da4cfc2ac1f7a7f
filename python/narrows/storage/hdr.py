"""Writes latency histograms for the tools of HdrHistogram, in its log format, version 1.3, with V2
compressed payloads.

Source: the HdrHistogram project's description of its log and of its V2 encoding; tests with the
package hdrhistogram 0.10. Values are microseconds with three significant digits. A histogram has
buckets of 2048 counts, each with twice the width of the one before. All counts of the first bucket
are used, but only the upper half of those of the other buckets. Each count stands for all values
with the same leading 11 bits. The payload contains the counts as ZigZag LEB128 varints; a negative
number stands for that many consecutive zeros. A header of seven big-endian fields precedes it. The
whole is compressed by zlib and encoded in base64.

The logs of narrows have a line for each phase and direction, tagged (`Tag=idle`, `Tag=loaded`), so
that HdrHistogram's plotters and processors show them separately.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping

DIGITS = 3
"""Number of significant digits. With three digits, each of the first 2 × 10³ values has its own
count."""

HALF = 1024
"""Half of the number of counts in a bucket; this number, 2048, is the next power of two above 2 ×
10³."""

HIGHEST_US = 3_600_000_000
"""Largest value, in µs: an hour; larger values are counted as this value."""

_COOKIE, _PACKED = 0x1C849303 | 0x10, 0x1C849304 | 0x10
_HALF_BITS = HALF.bit_length() - 1


def head(what: str, unit: str) -> list[str]:
    """The header lines of a log."""
    return [
        f"#[narrows: {what}, unit: {unit}]",
        "#[Histogram log format version 1.3]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]


def place(value_us: int) -> int:
    """The index of the count to which a value belongs.

    >>> place(0), place(2047), place(2048), place(2049), place(4096)
    (0, 2047, 2048, 2048, 3072)
    """
    bucket = max(0, value_us.bit_length() - _HALF_BITS - 1)
    return bucket * HALF + (value_us >> bucket)


def encode(values_us: Iterable[int]) -> str:
    """A histogram of these values, in µs, as a compressed payload in base64."""
    return _packed(
        Counter(place(min(max(0, value), HIGHEST_US)) for value in values_us), HIGHEST_US
    )


def encode_counts(counts: Mapping[int, int], highest: int = 1000 * HIGHEST_US) -> str:
    """A histogram as a compressed payload in base64. `counts` has the number of occurrences of each
    value. Values and `highest` have the same unit.
    """
    placed: Counter[int] = Counter()
    for value, count in counts.items():
        placed[place(min(max(0, value), highest))] += count
    return _packed(placed, highest)


def _packed(counts: Counter[int], highest: int) -> str:
    words = bytearray()
    last = -1
    for at in sorted(counts):
        zeros = at - last - 1
        if zeros:
            words += _varint(-zeros if zeros > 1 else 0)
        words += _varint(counts[at])
        last = at
    header = struct.pack(">IIIIQQd", _COOKIE, len(words), 0, DIGITS, 1, highest, 1.0)
    packed = zlib.compress(header + bytes(words))
    return base64.b64encode(struct.pack(">II", _PACKED, len(packed)) + packed).decode()


def _varint(value: int) -> bytes:
    r"""An integer in ZigZag LEB128 encoding: seven bits per byte, the least significant first.

    >>> _varint(0), _varint(-1), _varint(64)
    (b'\x00', b'\x01', b'\x80\x01')
    """
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:  # noqa: PLR2004 - seven bits
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
