"""Reads a capture and identifies the congestion control of each sender with enough data."""

from __future__ import annotations

import ipaddress
from itertools import pairwise
from os import PathLike
from statistics import median

from narrows import __version__
from narrows.errors import NarrowsError, reason
from narrows.files.packets import segments
from narrows.identify.features import Features, features
from narrows.identify.flow import Flow, Peer, flows
from narrows.identify.model import FlowJson, IdentifiedJson
from narrows.identify.rules import identify, loss_kind, quartiles
from narrows.storage import untrusted_input
from narrows.storage.text import name_of

_IPV4 = 4
"""Size of an address of IPv4, in bytes."""

LEAST_BYTES = 100_000
"""Least data of a flow that is analysed."""


def identified(file: str | PathLike[str]) -> IdentifiedJson:
    """The flows of a capture with their congestion controls, the largest flow first.

    Raises:
        NarrowsError: If the file cannot be read, is no capture, or has no flow with enough data.
    """
    try:
        content = untrusted_input.read(file, untrusted_input.MOST_DATA_BYTES)
    except OSError as error:
        raise NarrowsError(f"{name_of(file)}: {reason(error)}") from error
    cut: list[int] = []
    found, refused = flows(segments(content, name_of(file), cut.append))
    large = [one for one in found if max(one.end) - one.start[0] >= LEAST_BYTES]
    if not large:
        raise NarrowsError(
            f"{name_of(file)}: has no TCP flow with {LEAST_BYTES // 1000} kB of data and its ACKs"
            f"{' before its end, at which a packet is cut off' if cut else ''}; capture both "
            "directions of a longer transfer"
        )
    results = sorted((_result(one) for one in large), key=lambda flow: -flow["bytes"])
    return {
        "narrows": __version__,
        "file": str(file),
        "flows": results,
        "left_out": len(found) - len(large) + refused,
        "cut_bytes": sum(cut),
    }


def _result(flow: Flow) -> FlowJson:
    seen = features(flow)
    of = identify(seen)
    return {
        "source": _peer(flow.source),
        "target": _peer(flow.target),
        "bytes": seen.bytes,
        "duration_s": round(seen.duration_s, 6),
        "rtt_min_ms": None if seen.rtt_s is None else round(seen.rtt_s * 1e3, 6),
        "cc": of.cc,
        "like": list(of.like),
        "reason": of.reason,
        "losses": loss_kind(seen),
        "features": {
            "loss_events": len(seen.events),
            "backoff": median(seen.backoffs) if seen.backoffs else None,
            "backoff_low": quartiles(seen.backoffs)[0] if seen.backoffs else None,
            "backoff_high": quartiles(seen.backoffs)[1] if seen.backoffs else None,
            "growth_segments": median(seen.growths) if seen.growths else None,
            "probe_rtts": len(seen.probes),
            "probe_rtt_interval_s": _interval(seen),
            "queue_before_loss_ms": _queue_ms(seen),
        },
    }


def _interval(seen: Features) -> float | None:
    """Median time between two ProbeRTTs, in s."""
    ats = [one.at for one in seen.probes]
    return median(b - a for a, b in pairwise(ats)) if len(ats) > 1 else None


def _queue_ms(seen: Features) -> float | None:
    """Median of the RTT before a loss event less the minimum RTT, in ms."""
    waits = [one.queue_s for one in seen.events]
    return median(waits) * 1e3 if waits else None


def _peer(peer: Peer) -> str:
    """Address and port as text.

    >>> _peer((bytes([192, 0, 2, 1]), 80))
    '192.0.2.1:80'
    """
    address = ipaddress.ip_address(peer[0])
    return f"{address}:{peer[1]}" if len(peer[0]) == _IPV4 else f"[{address}]:{peer[1]}"
