"""Rules of congestion controls, and the comparison of the features of a sender with them.

A rule consists of a backoff (the window after a loss, divided by the window before) and the growth
between losses, in segments per RTT:

- Reno has a backoff of 0.5 and a growth of 1 (RFC 5681, 3.1 and 3.2).
- CUBIC has a backoff of 0.7. Its growth is 3 (1 - 0.7) / (1 + 0.7) = 0.53, or that of the cubic
  function if it is larger (RFC 9438, 4.2 to 4.6).

BBR has no such rule: version 1 restores its window after a loss, and the backoff of later versions
varies. Its feature is ProbeRTT. Version 1 has four segments in flight every 10 s. Versions 2 and 3
have half of a BDP every 5 s (draft-ietf-ccwg-bbr, 5.3.4).

Many congestion controls use the rule of Reno under some conditions. `like` lists them. A sender
whose features fit no rule, or that has too few of them, is not identified.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from narrows.identify.features import Features, Probe

FEWEST = 3
"""Minimum number of backoffs for an identification."""

_MANY = 20
"""Number of loss events that would be enough for an identification."""

_BELOW, _ABOVE = 0.06, 0.04
"""Largest difference of a median from its rule. Segments that are sent between a loss and its
detection make the observed value smaller."""

_SCATTER = 0.12
"""Largest interquartile range of the backoffs of one rule."""

_BACKOFF = {"reno": 0.5, "cubic": 0.7}
"""The backoff of each congestion control."""

LIKE = {
    "reno": (
        "newreno", "vegas", "veno", "westwood", "hybla", "lp", "htcp", "highspeed", "compound",
        "yeah", "cdg",
    ),
    "cubic": (),
    "bbr": (),
    "bbr3": ("bbr2",),
}  # fmt: skip
"""Others with the same features, at least under some conditions."""

_FRIENDLY = 3 * (1 - 0.7) / (1 + 0.7)
"""Growth of CUBIC where it is as fast as Reno, in segments per RTT (RFC 9438, 4.3)."""
_CUBIC = 0.4
"""The factor C of the cubic function, in segments per s³ (RFC 9438, 5.1)."""
_SLOWER, _FASTER = 0.75, 1.25
"""Range of the growth, divided by that of the rule, where it is constant."""
_VARIES = 3.0
"""The same with the cubic function, in both directions: the growth depends on the start of its
convex part, and on fast convergence."""

_VERSION_1, _LATER = (9.5, 13.0), (4.5, 6.0)
"""Intervals of ProbeRTT, in s. They begin when the minimum RTT is 10 or 5 s old, and BBR waits for
the data in flight to leave."""

_PROBE_SEGMENTS = 4
_EMPTY_QUEUE, _QUEUE_S = 0.1, 0.002
"""RTT above the minimum that counts as no queue, divided by the minimum, and in s."""
_MOST_SHARE = 0.8
"""Share of the loss events that determines whether losses follow a queue."""


@dataclass(frozen=True)
class Identified:
    """A congestion control, or the reason for which there is none.

    Attributes:
        cc: The congestion control; None if the features fit no rule.
        like: Others with the same features.
        reason: The reason, as a sentence.
    """

    cc: str | None
    like: tuple[str, ...]
    reason: str


def quartiles(values: list[float]) -> tuple[float, float]:
    """The lower and upper quartile.

    >>> quartiles([1, 2, 3, 4, 5, 6, 7, 8])
    (3, 7)
    """
    ordered = sorted(values)
    return ordered[len(ordered) // 4], ordered[3 * len(ordered) // 4]


def identify(of: Features) -> Identified:
    """The congestion control that fits the features."""
    if of.rtt_s is None:
        return Identified(None, (), "The capture has no ACK of data, so there is no RTT.")
    found = _probing(of)
    if found is not None:
        return found
    count = len(of.backoffs)
    if count >= FEWEST:
        return _reducing(of)
    if not of.events:
        return Identified(
            None,
            (),
            "The sender had no loss. It has a congestion control that avoids losses, or something "
            "else limits it: the application, the receive window or the duration.",
        )
    seen = f"Of {len(of.events)} loss events, {count} show a backoff"
    if len(of.events) >= _MANY:
        return Identified(None, (), f"{seen}; the others follow each other within two RTTs.")
    fix = f"an identification needs {FEWEST}. Capture for a longer time."
    return Identified(None, (), f"{seen}; {fix}")


def _probing(of: Features) -> Identified | None:
    """The version of BBR whose ProbeRTT the sender has."""
    deep = [one for one in of.probes if one.flight <= _PROBE_SEGMENTS * of.mss]
    between = _between(deep)
    if deep and all(one >= _VERSION_1[0] for one in between) and not _reduces(of):
        each = f" every {median(between):.1f} s" if between else ""
        return Identified(
            "bbr",
            LIKE["bbr"],
            f"The sender reduced its data in flight to four segments{each} (ProbeRTT).",
        )
    between = _between(of.probes)
    near = [one for one in between if _LATER[0] <= one <= _LATER[1]]
    if len(near) >= 2 and len(near) >= len(between) / 2:  # noqa: PLR2004
        return Identified(
            "bbr3",
            LIKE["bbr3"],
            f"The sender halved its data in flight every {median(near):.1f} s without a loss "
            "(ProbeRTT).",
        )
    return None


def _between(probes: list[Probe]) -> list[float]:
    return [b.at - a.at for a, b in pairwise(probes)]


def _reduces(of: Features) -> bool:
    """Whether the sender has the backoff of a loss-based congestion control."""
    return len(of.backoffs) >= FEWEST and _reducing(of).cc is not None


def _reducing(of: Features) -> Identified:
    """The congestion control with the observed backoff and growth."""
    middle = median(of.backoffs)
    low, high = quartiles(of.backoffs)
    seen = (
        f"The backoff after losses is {middle:.2f} (median of {len(of.backoffs)}, quartiles "
        f"{low:.2f} and {high:.2f})"
    )
    if high - low > _SCATTER:
        return Identified(None, (), f"{seen}; its values differ too much for a rule.")
    cc = min(_BACKOFF, key=lambda name: abs(_BACKOFF[name] - middle))
    rule = _BACKOFF[cc]
    if not rule - _BELOW <= middle <= rule + _ABOVE:
        return Identified(None, (), f"{seen}, which fits no rule.")
    seen += f"; {cc} has {rule:.2f}"
    if not of.growths:
        return Identified(None, (), f"{seen}. The losses are too frequent to determine the growth.")
    growth = median(of.growths)
    least, most = _growth(cc, of)
    if not least <= growth <= most:
        return Identified(
            None,
            (),
            f"{seen}. The growth is {growth:.2f} segments per RTT; that of {cc} is between "
            f"{least:.2f} and {most:.2f} on this path.",
        )
    return Identified(
        cc, LIKE[cc], f"{seen}. The growth is {growth:.2f} segments per RTT, which fits as well."
    )


def _growth(cc: str, of: Features) -> tuple[float, float]:
    """Range of the growth of a congestion control on this path, in segments per RTT."""
    if cc == "reno":
        return _SLOWER, _FASTER
    least, most = _SLOWER * _FRIENDLY, _FASTER * _FRIENDLY
    waits = [one.queue_s for one in of.events]
    window = of.window or 0.0
    rtt = (of.rtt_s or 0.0) + (median(waits) if waits else 0.0)
    lost = (1 - _BACKOFF["cubic"]) * window
    # The cubic function returns to the window before the loss after K (RFC 9438, 4.2).
    per_rtt = lost * rtt / max((lost / _CUBIC) ** (1 / 3), rtt)
    return least, max(most, per_rtt * _VARIES)


def loss_kind(of: Features) -> str | None:
    """Whether losses follow a queue: `full queue`, `no queue` (a policer or random loss), or
    `both`; None without loss events.
    """
    waits = [one.queue_s for one in of.events]
    if not waits or of.rtt_s is None:
        return None
    empty = sum(one <= max(_EMPTY_QUEUE * of.rtt_s, _QUEUE_S) for one in waits)
    if empty >= _MOST_SHARE * len(waits):
        return "no queue"
    return "full queue" if empty <= (1 - _MOST_SHARE) * len(waits) else "both"
