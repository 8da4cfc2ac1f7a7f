"""Results of `narrows latency`: their JSON, and distributions of times.

`narrows-host` computes all values. The response time counts from the scheduled send time of a
request to its reply. The summary, slow responses and episodes use the response time. The RTT counts
from the actual send time. Times are in µs. A percentile with fewer than ten replies beyond it is
`None`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from os import PathLike
from typing import Any, cast, get_args

from narrows.errors import NarrowsError
from narrows.json_object import JsonObject
from narrows.latency.model import LatencyJson, Percentile, PoliciesJson
from narrows.storage import json_kinds as kinds
from narrows.storage import untrusted_input
from narrows.storage.hdr import encode_counts, head
from narrows.storage.json_kinds import amount, flag, number, rows, table, text, whole, word
from narrows.storage.text import name_of, unread

PARTS = {
    "client_application": "client application",
    "client_kernel": "client kernel",
    "wire": "network",
    "server_kernel": "server kernel",
    "server_application": "server application",
    "server": "server",
    "beyond": "network and server",
}
"""Components to which a delay is attributed. The last two are for protocols that do not show the
server or the network separately.
"""

PERCENTILES: tuple[Percentile, ...] = get_args(Percentile)
BEYOND = 10
"""Minimum number of replies beyond a reported percentile."""


def read(file: str | PathLike[str]) -> LatencyJson:
    """Reads a file that `narrows latency --json` wrote.

    Raises:
        NarrowsError: If the file is not such a result.
    """
    told, name = _parsed(file), name_of(file)
    if told.get("kind") == "latency_lab":
        raise NarrowsError(
            f"{name}: a result of several policies or loads; one of them is needed here\n"
            f"    write it to a file: jq '.setups[0].latency' {shlex.quote(name)} > one.json"
        )
    if told.get("kind") != "latency":
        raise NarrowsError(f"{name}: not a result of narrows latency")
    kinds.check(told, _RESULT, name)
    return _filled(told)


def _parsed(file: str | PathLike[str]) -> JsonObject:
    name = name_of(file)
    try:
        told = kinds.parse(untrusted_input.read(file, untrusted_input.MOST_DATA_BYTES))
    except OSError as error:
        raise NarrowsError(unread(file, error)) from error
    except ValueError as error:
        raise NarrowsError(f"{name}: not a result of narrows latency ({error})") from error
    if not isinstance(told, dict):
        raise NarrowsError(f"{name}: not a result of narrows latency")
    return told


def read_policies(file: str | PathLike[str]) -> PoliciesJson:
    """Reads a file that `narrows latency --json` wrote with several policies or loads.

    Raises:
        NarrowsError: If the file is not such a result.
    """
    told = _parsed(file)
    kinds.check(told, _POLICIES, name_of(file))
    for setup in told["setups"]:
        if not setup.get("refused"):
            setup["latency"] = _filled(setup["latency"])
    return cast("PoliciesJson", told)


def is_result(file: str | PathLike[str]) -> bool:
    """Whether a file is a result of `narrows latency`; `read` checks the rest."""
    try:
        raw = untrusted_input.read(file, untrusted_input.MOST_DATA_BYTES)
    except OSError:
        return False
    return re.search(rb'"kind"\s*:\s*"latency', raw) is not None


def _filled(told: JsonObject) -> LatencyJson:
    """Adds default values of missing keys to an incomplete result or one of an earlier version."""
    known = {key: value for key, value in told.items() if value is not None}
    slow = _EMPTY["slow"] | {
        key: value for key, value in known.get("slow", {}).items() if value is not None
    }
    slow["blamed"] = {part: many for part, many in slow["blamed"].items() if many is not None}
    return cast("LatencyJson", _EMPTY | known | {"slow": slow})


def _places(value: Any, place: str) -> None:  # noqa: ANN401 - any JSON value
    """Checks a histogram: pairs of a time in ns and a count, with ascending times."""
    kinds.rows(kinds.rows(kinds.whole, least=2), least=1)(value, place)
    before = -1
    for at, (ns, many, *_) in enumerate(value):
        if ns <= before or not many:
            needed = "a larger span than the one before, and a count above zero, are needed"
            raise kinds.KindError(f"{place}[{at}]", needed)
        before = ns


_TIMES = table(
    {
        **dict.fromkeys(("min", "mean", "max", *PERCENTILES), amount),
        "n": whole,
        "histogram_ns": _places,
    },
    required=("n", "min", "mean", "max", "histogram_ns"),
)
_WHOSE = word(*PARTS)
_SLOW = table(
    {
        "t_s": number,
        "blamed": _WHOSE,
        "at": text,
        **dict.fromkeys(("response_us", "rtt_us", "late_us"), amount),
    },
    required=("t_s",),
)
_EPISODE = table(
    {
        "t_s": number,
        "blamed": _WHOSE,
        "at": text,
        "answers": whole,
        **dict.fromkeys(("lasted_us", "response_us", "rtt_us", "late_us"), amount),
    },
    required=("t_s", "blamed", "at", "answers", "lasted_us", "response_us", "rtt_us", "late_us"),
)
_CLASS = table(dict.fromkeys(("there", "back"), whole))
_DELAYS = table(dict.fromkeys(("delay_us", "pdv_us", "ipdv_us"), _TIMES))
_RESULT = table(
    {
        "kind": text,
        "host": text,
        "narrows": text,
        "began": text,
        "kernel": text,
        "policy": text,
        "pace": text,
        "interrupted": flag,
        "notes": rows(text),
        "stamps": flag,
        "lasted_s": amount,
        "last_answer_s": amount,
        "interval_us": amount,
        "size_bytes": whole,
        **dict.fromkeys(
            (
                "sent",
                "lost",
                "corrupted",
                "duplicates",
                "reordered",
                "mismatches",
                "unsent",
                "skipped",
                "refused",
                "socket_drops",
                "reconnections",
                "contradicted",
            ),
            whole,
        ),
        "peer": table({"speaks": text, "carrier": text, "address": text, "port": whole}),
        "class": _CLASS,
        "rtt_us": _TIMES,
        "response_us": _TIMES,
        "late_us": _TIMES,
        "parts_us": table(dict.fromkeys(PARTS, _TIMES)),
        "one_way": table(
            {
                "clocks": word("common", "separate"),
                "drift_us": number,
                "forward": _DELAYS,
                "reverse": _DELAYS,
            },
            required=("clocks",),
        ),
        "slow": table(
            {
                "limit_us": amount,
                "count": whole,
                "blamed": table(dict.fromkeys(PARTS, whole), others=_WHOSE),
                "kept": rows(_SLOW),
                "episodes": table(
                    {"count": whole, "kept": rows(_EPISODE)}, required=("count", "kept")
                ),
            }
        ),
        "findings": rows(table({"says": text, "cure": text}, required=("says",))),
    },
    required=("sent", "lost"),
)
"""The values of a result that narrows reads, and their types."""

_POLICIES = table(
    {
        "kind": word("latency_lab"),
        "setups": rows(
            table(
                {"policy": text, "load": word("none", "cpu"), "refused": text, "latency": _RESULT},
                required=("policy", "load"),
            )
        ),
    },
    required=("kind", "setups"),
)
"""The values of a result with several policies that a plot needs."""

_EMPTY: JsonObject = {
    "rtt_us": None,
    "response_us": None,
    "late_us": None,
    "parts_us": {},
    "class": {},
    "peer": {},
    "corrupted": 0,
    "interrupted": False,
    "stamps": True,
    "contradicted": 0,
    "lasted_s": 0.0,
    "interval_us": 0.0,
    "findings": [],
    "slow": {
        "limit_us": None,
        "count": 0,
        "blamed": {},
        "kept": [],
        "episodes": {"count": 0, "kept": []},
    },
}
"""Default values of keys that results of earlier versions lack."""


def needed(percentile: str) -> int:
    """Minimum number of replies for a percentile: `BEYOND` replies must lie beyond it.

    >>> needed("p50"), needed("p99"), needed("p99_999")
    (20, 1000, 1000000)
    """
    return round(BEYOND / (1 - float(percentile[1:].replace("_", ".")) / 100))


def cumulative(places: Sequence[Sequence[int]]) -> tuple[list[float], list[float]]:
    """Values of a histogram (pairs of ns and count) in µs, and the share of counts beyond each.

    >>> cumulative([[1000, 3], [2000, 1]])
    ([1.0, 2.0], [0.25, 0.0])
    """
    total = sum(count for _, count in places)
    left, values, shares = total, [], []
    for ns, count in places:
        left -= count
        values.append(ns / 1000)
        shares.append(left / total)
    return values, shares


def hlog(several: Sequence[tuple[str, LatencyJson]]) -> str:
    """An HdrHistogram log of RTTs in nanoseconds, with one line per result."""
    lines = head("round-trip times", "nanoseconds")
    for name, told in several:
        tag = "".join(c if c.isalnum() else "_" for c in name)
        rtt = told["rtt_us"]
        if rtt is None:
            continue
        packed = encode_counts({place[0]: place[1] for place in rtt["histogram_ns"]})
        lines.append(f"Tag={tag},0.000,{told['lasted_s']:.3f},{rtt['max'] / 1000:.3f},{packed}")
    return "\n".join(lines) + "\n"
