"""Reactions of a sender to losses, growth of its window, and pauses in which it probes the RTT.

The window of a sender is not in its packets. The data in flight of a sender that always has data
equal its window, so this module reads the window from them:

- A loss event begins with a retransmit and ends when all data sent before it are acknowledged (the
  recovery of RFC 6675). The backoff is the data in flight in the RTT after its end, divided by the
  maximum in the RTT before its beginning. Events after a pause of the sender (a timeout), and
  events that follow another one within two RTTs, have no backoff.
- The growth is the slope of the data in flight between two events, in segments per RTT.
- BBR reduces the data in flight to four segments for 200 ms when it has not seen the minimum RTT
  for 10 s (ProbeRTT, draft-cardwell-iccrg-bbr-congestion-control). Such a pause has no retransmit
  and continues to send.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from statistics import median

from narrows.identify.flow import Course, Flow, course

LEAST_TIMEOUT_S = 0.2
"""Minimum of the retransmission timeout of Linux, in s."""

_PROBE_S = 0.2
"""Duration of ProbeRTT, in s."""
_SHALLOW = 0.65
"""Data in flight of ProbeRTT, divided by the BDP, at most: half of it in BBRv3, and a margin."""
_FEWEST_ROUNDS = 8
"""Minimum number of RTTs between two events for a slope."""
_MOST_ROUNDS = 500_000
"""Maximum number of RTTs of a flow that are read for slopes. The times of a capture can be years
apart.
"""
_SAMPLES = 8
"""Number of RTT samples before a loss event whose minimum shows the queue. A delayed ACK makes
single samples larger."""
_APART = 2.0
"""Minimum time from the end of an event to the next one, in RTTs."""


@dataclass(frozen=True)
class Event:
    """A loss event.

    Attributes:
        begin: Time of the first retransmit, in s.
        end: Time at which all data sent before are acknowledged, in s.
        backoff: Data in flight after the event, divided by those before; None if unknown.
        queue_s: RTT before the event less the minimum RTT, in s.
        window: Maximum of the data in flight in the RTT before the event, in bytes.
    """

    begin: float
    end: float
    backoff: float | None
    queue_s: float
    window: int


@dataclass(frozen=True)
class Probe:
    """A ProbeRTT.

    Attributes:
        at: Its begin, in s.
        flight: The minimum of the data in flight, in bytes.
    """

    at: float
    flight: int


@dataclass(frozen=True)
class Features:
    """The reactions of a sender.

    Attributes:
        rtt_s: The minimum RTT, in s; None without a sample.
        window: Median of the data in flight before a loss event, in segments; None without one.
        duration_s: Time from the first data segment to the last one, in s.
        bytes: Bytes of data, without retransmits.
        mss: Payload of a full segment, in bytes.
        events: The loss events.
        backoffs: The backoff of each event that has one, without the first event of slow start.
        growths: Slopes between events, in segments per RTT.
        probes: Each ProbeRTT.
    """

    rtt_s: float | None
    window: float | None
    duration_s: float
    bytes: int
    mss: int
    events: list[Event]
    backoffs: list[float]
    growths: list[float]
    probes: list[Probe]


def features(flow: Flow) -> Features:
    """The reactions of the sender of a flow."""
    of, mss = course(flow), flow.mss
    rtt = min((one for _, one in of.rtts), default=0.0)
    begin, end = flow.at[0], flow.at[-1]
    plain = Features(
        rtt_s=rtt if rtt > 0 else None,
        window=None,
        duration_s=end - begin,
        bytes=of.ahead[-1] - flow.start[0],
        mss=mss,
        events=[],
        backoffs=[],
        growths=[],
        probes=[],
    )
    if rtt <= 0:
        return plain
    events = _events(of, rtt)
    windows = [one.window / mss for one in events if one.window]
    # The first event ends slow start, in which the window still grows until the loss is detected.
    usable = events[1:] if len(events) > 1 else events
    return replace(
        plain,
        window=median(windows) if windows else None,
        events=events,
        backoffs=[one.backoff for one in usable if one.backoff is not None],
        growths=_growths(of, events, rtt, mss),
        probes=_probes(of, events, rtt),
    )


def _rtt_at(of: Course, when: float, rtt: float) -> float:
    """The last RTT sample before a time, in s."""
    at = bisect_left(of.rtts, (when, 0.0))
    return of.rtts[at - 1][1] if at else rtt


def _events(of: Course, rtt: float) -> list[Event]:
    spans: list[tuple[float, float, bool]] = []
    index, count = 0, len(of.at)
    starts = [gap[0] for gap in of.gaps]
    while index < count:
        if not of.again[index]:
            index += 1
            continue
        begin = of.at[index]
        pause = begin - of.at[index - 1] if index else 0.0
        late = pause >= max(LEAST_TIMEOUT_S, _rtt_at(of, begin, rtt))
        # Behind the place of a loss, the missing data show it before their retransmit.
        gap = bisect_right(starts, of.ahead[index]) - 1
        while gap >= 0 and of.gaps[gap][1] > of.known[index]:
            begin = min(begin, of.gaps[gap][2])
            gap -= 1
        following = bisect_left(of.known, of.ahead[index], index)
        end = of.at[min(following, count - 1)]
        index = max(following, index + 1)
        spans.append((begin, end, late))
    found = []
    for number, (begin, end, late) in enumerate(spans):
        now = _rtt_at(of, begin, rtt)
        before = _flights(of, begin - now, begin)
        after = _flights(of, end, end + now)
        following_at = spans[number + 1][0] if number + 1 < len(spans) else of.at[-1]
        former = spans[number - 1][1] if number else of.at[0]
        alone = following_at - end >= _APART * now and begin - former >= _APART * now
        usable = alone and not late and len(before) > 1 and len(after) > 1 and max(before) > 0
        backoff = median(after) / max(before) if usable else None
        last = bisect_left(of.rtts, (begin, 0.0))
        samples = [sample for _, sample in of.rtts[max(last - _SAMPLES, 0) : last]]
        queue = min(samples, default=now) - rtt
        found.append(Event(begin, end, backoff, queue, max(before, default=0)))
    return found


def _flights(of: Course, begin: float, end: float) -> list[int]:
    """Data in flight after each new data segment in an interval, in bytes."""
    first, last = bisect_left(of.at, begin), bisect_left(of.at, end)
    return [of.flight[n] for n in range(first, last) if not of.again[n]]


def _growths(of: Course, events: list[Event], rtt: float, mss: int) -> list[float]:
    """Slopes of the data in flight between events, by least squares over RTTs."""
    found = []
    left = _MOST_ROUNDS
    for one, following in pairwise(events):
        # The first RTT has samples of data that waited in the queue before the event.
        now, rounds = one.end + _rtt_at(of, one.end, rtt), []
        while now < following.begin and left:
            left -= 1
            rounds.append(of.flight[min(bisect_left(of.at, now), len(of.at) - 1)] / mss)
            now += _rtt_at(of, now, rtt)
        if len(rounds) >= _FEWEST_ROUNDS:
            found.append(_slope([(float(n), flight) for n, flight in enumerate(rounds)]))
    return found


def _slope(points: list[tuple[float, float]]) -> float:
    """The slope of the least-squares line.

    >>> _slope([(0, 1), (1, 3), (2, 5)])
    2.0
    """
    x = sum(one[0] for one in points) / len(points)
    y = sum(one[1] for one in points) / len(points)
    spread = sum((one[0] - x) ** 2 for one in points)
    return sum((one[0] - x) * (one[1] - y) for one in points) / spread if spread else 0.0


def _probes(of: Course, events: list[Event], rtt: float) -> list[Probe]:
    """Times at which the flow kept at most half of a BDP in flight for 200 ms, while it continued
    to send. Before and after, it had more than this in flight.
    """
    rate = (of.ahead[-1] - of.ahead[0]) / max(of.at[-1] - of.at[0], 1e-9)
    most = _SHALLOW * rate * rtt
    ends = [one.end for one in events]
    # For each event, the earliest begin of it and all later ones.
    earliest = list(accumulate((one.begin for one in reversed(events)), min))[::-1]
    found = []
    index, count = 0, len(of.at)
    while index < count:
        if of.flight[index] > most:
            index += 1
            continue
        first = index
        while index < count and of.flight[index] <= most:
            index += 1
        begin, end = of.at[first], of.at[index - 1]
        longest = max(LEAST_TIMEOUT_S, 2 * _rtt_at(of, begin, rtt))
        # A pause as long as a timeout is no ProbeRTT.
        paused = any(of.at[n] - of.at[n - 1] >= longest for n in range(first + 1, index))
        near = max(rtt, _PROBE_S)
        after = bisect_left(ends, begin - 2 * near)
        lost = after < len(events) and earliest[after] <= end + rtt
        whole = first > 0 and index < count
        brief = 0.5 * _PROBE_S <= end - begin <= _PROBE_S + 3 * rtt
        if whole and brief and not (paused or lost) and begin - of.at[0] > 1.0:
            found.append(Probe(begin, min(of.flight[first:index])))
    return found
