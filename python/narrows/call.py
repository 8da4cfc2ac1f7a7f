"""How a call would sound: the mean opinion score of a voice over the pings of a call, idle and under load.

Source: Cole and Rosenbluth, *Voice over IP Performance Monitoring* (2001), which reduce the E-model (ITU-T G.107) to
two impairments for G.711: of delay, 0.024 d + 0.11 (d - 177.3) beyond 177.3 ms one way, and of loss, 30 ln(1 + 15 e).
R = 94.2 less both; the score is G.107's, 1 + 0.035 R + 7e-6 R (R - 60) (100 - R). A packet that comes after the
jitter buffer has played its place is lost: the buffer here holds what nineteen in twenty packets need, at most 60 ms.
One way is half of a round trip unless both ends have one clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from narrows.measurement import Measurement, Pings

PAYLOAD_BYTES = 172
"""Of a call's packet: 20 ms of G.711 and 12 bytes of RTP."""

BUFFER_MS = 60.0
CODING_MS = 25.0
"""A frame of 20 ms, and 5 ms of look-ahead."""

KNEE_MS = 177.3
BEST = 94.2


def call(measured: Measurement) -> Pings | None:
    """The train of pings that plays a call, where there is one."""
    return next((t for t in measured.pings if t.told.get("payload_bytes") == PAYLOAD_BYTES), None)


def score(measured: Measurement, phase: str) -> float | None:
    """The mean opinion score of a phase, 1 to 4.4; None where there was no call."""
    train = call(measured)
    if train is None:
        return None
    spans = measured.spans(phase)
    rtts = [rtt for t, rtt in train.rtts() if any(begin <= t < end for begin, end in spans)]
    return of(rtts)


def of(rtts: Sequence[float | None]) -> float | None:
    """Of round trips in ms; None for a packet that never came back.

    >>> round(of([40.0] * 100), 2), round(of([40.0] * 95 + [None] * 5), 2), round(of([800.0] * 100), 2)
    (4.41, 3.88, 2.93)
    """
    known = sorted(rtt / 2 for rtt in rtts if rtt is not None)
    if not known:
        return 1.0 if rtts else None
    held = min(BUFFER_MS, known[min(len(known) - 1, math.floor(0.95 * len(known)))] - known[0])
    played = known[0] + held
    lost = (len(rtts) - sum(one <= played for one in known)) / len(rtts)
    delay = played + CODING_MS
    impaired = 0.024 * delay + 0.11 * max(0.0, delay - KNEE_MS) + 30 * math.log(1 + 15 * lost)
    r = min(100.0, max(0.0, BEST - impaired))
    return max(1.0, 1 + 0.035 * r + 7e-6 * r * (r - 60) * (100 - r))
