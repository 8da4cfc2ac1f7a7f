"""The checks of each suite, with their sources.

`ccwg` has the criteria of RFC 9743 for proposed congestion controls. The suite `ccwg` contains the
checks of both other suites that these criteria name, and two of its own. If a document has no
number, `source` states how the range follows from it. Checks omit targets to which their source
does not apply, such as:

- Hybla multiplies its growth by the RTT divided by 25 ms, so `start-up-growth` omits it. The source
of Hybla is Caini and Firrincieli, International Journal of Satellite Communications and Networking
22, 2004.
- A control that responds to delay treats jitter as a queue, so `jitter` omits the family `delay`.
- The checks `closed-form-…` and `reduction-…` exist for Reno and CUBIC only.

The packets of a pair of commands are visible only on the path. `path_metric` of a check is its
quantity there, or the reason for which the path does not show it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from narrows.conform import metrics, traffic
from narrows.conform.appendix import BBR
from narrows.conform.check import Check

if TYPE_CHECKING:
    from narrows.conform.target import Target
    from narrows.json_object import JsonObject

SUITES = ("basics", "fairness", "ccwg", "bbr", "all")

RATE, RTT_MS = 20.0, 40.0
"""The path of most checks: rate in Mbit/s, RTT in ms. A buffer of one BDP empties in one RTT."""

LEAST_SHARE = 10.0
"""A flow with less than this share of the total goodput, in percent, counts as starved.

Arun, Alizadeh and Balakrishnan ("Starvation in End-to-End Congestion Control", SIGCOMM 2022) call a
flow starved if the ratio of throughputs is not bounded. This limit corresponds to a ratio of nine.
"""

RIVALS = ("reno", "cubic", "bbr")

_HANDSHAKE = "the path does not show where the handshake ends and the data begins"
_WINDOW = "the congestion window is a variable of the stack"
_ON_REQUEST = "the programs do not stop and resume on request"
_SIZE = "the programs choose the size of their transfer"


def _path(**keys: object) -> JsonObject:
    return {"rate": f"{RATE:g}Mbit", "rtt": f"{RTT_MS:g}ms", "buffer": "1bdp", **keys}


def _alone(
    duration: str = "30s", flow: JsonObject | None = None, **path: object
) -> Callable[[Target], JsonObject]:
    """A scenario with one flow of the target."""
    return lambda target: {
        "duration": duration,
        "path": _path(**path),
        "flow": [target.flow(id="target", **(flow or {}))],
    }


def _long(target: Target) -> JsonObject:
    """A flow on a path with a long RTT, whose round trips are distinct in the samples, and with a
    rate that no start-up reaches.
    """
    return {
        "duration": "4s",
        "path": {"rate": "1Gbit", "rtt": "200ms", "buffer": "1bdp"},
        "flow": [target.flow(id="target")],
    }


def _named(*names: str) -> Callable[[Target], bool]:
    return lambda target: target.rules in names


def _family(*names: str) -> Callable[[Target], bool]:
    return lambda target: target.family in names


def mathis(loss: float, rtt_ms: float) -> float:
    """The goodput of Reno in Mbit/s with random loss and an ACK for each packet.

    Mathis, Semke, Mahdavi and Ott, Computer Communication Review 27 (3), 1997.

    >>> round(mathis(0.01, 40), 2)
    3.55
    """
    return 1448 * 8e-3 / rtt_ms * math.sqrt(1.5 / loss)


BASICS: Sequence[Check] = (
    Check(
        name="initial-window",
        suite="basics",
        question="data of the first flight",
        source="RFC 6928 section 2; RFC 9002 section 7.2",
        scenario=_long,
        metric=metrics.first_flight(0.2),
        least=1,
        most=14_720,
        unit="B",
        samples="10ms",
        path_metric=_HANDSHAKE,
    ),
    Check(
        name="start-up-growth",
        suite="basics",
        question="ratio of the data of a round trip to those of the one before",
        source="RFC 5681 section 3.1; RFC 9002 section 7.3.1: at most doubled",
        scenario=_long,
        metric=metrics.growth(0.2),
        least=1,
        most=2.1,
        applies=lambda target: target.rules != "hybla",
        samples="10ms",
        path_metric=_HANDSHAKE,
    ),
    Check(
        name="start-up-goodput",
        suite="basics",
        question="goodput of the first two seconds",
        source="RFC 5681 section 3.1; RFC 9002 section 7.3.1: exponential growth fills 1 BDP",
        scenario=_alone("10s"),
        metric=metrics.delivered_between(0, 2, RATE),
        least=25,
        most=100,
        unit="%",
        samples="100ms",
        path_metric=traffic.between(0, 2, RATE),
    ),
    Check(
        name="steady-goodput",
        suite="basics",
        question="goodput with a buffer of 1 BDP",
        source="Appenzeller, Keslassy and McKeown, SIGCOMM 2004: 1 BDP keeps the link busy",
        scenario=_alone(),
        metric=metrics.utilization(RATE),
        least=85,
        most=100,
        unit="%",
        path_metric=traffic.utilization(RATE),
    ),
    Check(
        name="rtt",
        suite="basics",
        question="95th percentile of the smoothed RTT with a buffer of 1 BDP",
        source="path: base RTT, and at most base RTT and a full buffer",
        scenario=_alone(),
        metric=metrics.rtt_p95,
        least=RTT_MS,
        most=2.1 * RTT_MS,
        unit="ms",
        path_metric=traffic.rtt_p95(RTT_MS),
    ),
    Check(
        name="retransmits",
        suite="basics",
        question="retransmitted bytes of a flow alone, with a buffer of 10 packets",
        source='RFC 2914 section 5; RFC 9743, "Protection Against Congestion Collapse"',
        scenario=_alone(buffer="10p"),
        metric=metrics.retransmits,
        least=0,
        most=30,
        unit="%",
        path_metric=traffic.lost,
    ),
    Check(
        name="closed-form-reno",
        suite="basics",
        question="goodput at 1 % random loss, divided by the closed form",
        source="Mathis et al. 1997; half of it with delayed ACKs and timeouts",
        scenario=_alone("120s", rate="100Mbit", loss={"probability": 0.01, "per": "packet"}),
        metric=metrics.utilization(mathis(0.01, RTT_MS)),
        least=50,
        most=125,
        unit="%",
        applies=_named("reno", "newreno"),
        path_metric=traffic.utilization(mathis(0.01, RTT_MS)),
    ),
    Check(
        name="closed-form-cubic",
        suite="basics",
        question="goodput at 1 % random loss, divided by the closed form of Reno",
        source="RFC 9438 section 4.3: at least as much as Reno; section 5.1",
        scenario=_alone("120s", rate="100Mbit", loss={"probability": 0.01, "per": "packet"}),
        metric=metrics.utilization(mathis(0.01, RTT_MS)),
        least=50,
        most=200,
        unit="%",
        applies=_named("cubic"),
        path_metric=traffic.utilization(mathis(0.01, RTT_MS)),
    ),
    Check(
        name="reduction-reno",
        suite="basics",
        question="window after a loss, divided by that before",
        source="RFC 5681 section 3.1, equation 4; RFC 9002 section 7.3.2",
        scenario=_alone("60s"),
        metric=metrics.reduction,
        least=0.4,
        most=0.6,
        applies=_named("reno", "newreno"),
        samples="10ms",
        path_metric=_WINDOW,
    ),
    Check(
        name="reduction-cubic",
        suite="basics",
        question="window after a loss, divided by that before",
        source="RFC 9438 section 4.6: 0.7",
        scenario=_alone("60s"),
        metric=metrics.reduction,
        least=0.6,
        most=0.8,
        applies=_named("cubic"),
        samples="10ms",
        path_metric=_WINDOW,
    ),
    Check(
        name="idle",
        suite="basics",
        question="goodput while the application writes nothing",
        source="RFC 9002 section 7.8; RFC 5681 section 4.1",
        scenario=_alone("20s", {"stop": "10s", "restart": "15s"}),
        metric=metrics.delivered_between(12, 14.9, RATE),
        least=0,
        most=1,
        unit="%",
        samples="100ms",
        path_metric=_ON_REQUEST,
    ),
    Check(
        name="idle-restart",
        suite="basics",
        question="goodput in the two seconds after an idle time of 5 s",
        source="RFC 9002 section 7.8; RFC 5681 section 4.1: slow start from the restart window",
        scenario=_alone("20s", {"stop": "10s", "restart": "15s"}),
        metric=metrics.delivered_between(15, 17, RATE),
        least=25,
        most=100,
        unit="%",
        samples="100ms",
        path_metric=_ON_REQUEST,
    ),
    Check(
        name="asymmetric-path",
        suite="basics",
        question="goodput with a reverse path of 1 Mbit/s",
        source="RFC 3449 section 2; RFC 9000 section 13.2.1: ACKs of every second packet fit",
        scenario=_alone(reverse={"rate": "1Mbit"}),
        metric=metrics.utilization(RATE),
        least=70,
        most=100,
        unit="%",
        path_metric=traffic.utilization(RATE),
    ),
    Check(
        name="reordering",
        suite="basics",
        question="goodput if 1 % of the packets arrive 1 ms late, behind one later packet",
        source="RFC 9002 section 6.1.1; RFC 5681 section 3.2: losses need three later packets",
        scenario=_alone(reorder={"probability": 0.01, "late": "1ms"}),
        metric=metrics.utilization(RATE),
        least=80,
        most=100,
        unit="%",
        path_metric=traffic.utilization(RATE),
    ),
    Check(
        name="jitter",
        suite="basics",
        question="goodput with a jitter of 5 ms that keeps the order",
        source="RFC 9002 section 6.1.2: the time threshold is above the smoothed RTT",
        scenario=_alone(jitter={"spread": "5ms"}),
        metric=metrics.utilization(RATE),
        least=60,
        most=100,
        unit="%",
        applies=_family("loss", "model"),
        path_metric=traffic.utilization(RATE),
    ),
    Check(
        name="ecn",
        suite="basics",
        question="retransmitted bytes on a path whose queue marks",
        source="RFC 3168 section 6.1.2; RFC 9002 section 7.1: a mark is a congestion event",
        scenario=_alone(flow={"ecn": True}, queue={"kind": "codel", "ecn": True}, buffer=None),
        metric=metrics.marked_retransmits,
        least=0,
        most=1,
        unit="%",
        applies=_family("loss"),
        path_metric=traffic.marked_lost,
    ),
    Check(
        name="policer",
        suite="basics",
        question="goodput behind a policer of 10 Mbit/s, divided by its rate",
        source="Flach et al., SIGCOMM 2016: goodput behind policers",
        scenario=_alone(policer={"rate": "10Mbit", "burst": "50kB"}),
        metric=metrics.utilization(10.0),
        least=40,
        most=100,
        unit="%",
        path_metric=traffic.utilization(10.0),
    ),
)


def _beside(rival: str, count: int) -> Callable[[Target], JsonObject]:
    def scenario(target: Target) -> JsonObject:
        rate = RATE * count
        return {
            "duration": "60s",
            "warmup": "20s",
            "start_jitter": "5s",
            "path": {"rate": f"{rate:g}Mbit", "rtt": f"{RTT_MS:g}ms", "buffer": "2bdp"},
            "flow": [
                target.flow(id="target", count=count),
                {"cc": rival, "id": "rival", "count": count},
            ],
        }

    return scenario


def _late(target: Target) -> JsonObject:
    return {
        "duration": "80s",
        "warmup": "40s",
        "path": _path(),
        "flow": [target.flow(id="first"), target.flow(id="late", start="20s")],
    }


def _rivals() -> list[Check]:
    found = []
    for rival in RIVALS:
        for count in (1, 5):
            who = f"{count} flow of {rival}" if count == 1 else f"{count} flows of {rival} each"
            found.append(
                Check(
                    name=f"share-of-{rival}-{count}",
                    suite="fairness",
                    question=f"share of {rival} beside the target, {who}, buffer of 2 BDP",
                    source='RFC 9743, "Existing General-Purpose Congestion Control": no starvation',
                    scenario=_beside(rival, count),
                    metric=metrics.share("rival"),
                    least=LEAST_SHARE,
                    most=100,
                    unit="%",
                    path_metric=traffic.share("rival"),
                )
            )
    return found


FAIRNESS: Sequence[Check] = (
    *_rivals(),
    Check(
        name="late-flow",
        suite="fairness",
        question="share of a flow of the target that starts 20 s after another one",
        source='RFC 9743, "Fairness Within the Proposed Congestion Control Algorithm"',
        scenario=_late,
        metric=metrics.share("late"),
        least=LEAST_SHARE,
        most=100 - LEAST_SHARE,
        unit="%",
        path_metric=traffic.share("late"),
    ),
    Check(
        name="many",
        suite="fairness",
        question="goodput of ten flows of the target",
        source='RFC 9743, "Single Algorithm Behavior"',
        scenario=lambda target: {
            "duration": "30s",
            "path": _path(),
            "flow": [target.flow(id="target", count=10)],
        },
        metric=metrics.utilization(RATE),
        least=85,
        most=100,
        unit="%",
        path_metric=traffic.utilization(RATE),
    ),
)

OF_CCWG = frozenset({
    "start-up-growth", "steady-goodput", "retransmits", "policer", "reordering", "jitter",
    "share-of-reno-1", "share-of-cubic-1", "late-flow",
})  # fmt: skip
"""The checks of the other suites that the criteria of RFC 9743 name."""

CCWG: Sequence[Check] = (
    Check(
        name="standing-queue",
        suite="ccwg",
        question="median queueing delay in a buffer of 8 BDP",
        source='draft-ietf-ccwg-bbr-06: cwnd_gain of 2; RFC 9743, "Protection Against Bufferbloat"',
        scenario=_alone("60s", buffer="8bdp"),
        metric=metrics.queue_p50,
        least=0,
        most=1.25 * RTT_MS,
        unit="ms",
        applies=_family("model"),
        path_metric=traffic.queue_p50,
    ),
    Check(
        name="short-flow",
        suite="ccwg",
        question="completion time of a transfer of 100 kB, in round trips",
        source='RFC 9743, "Short Flows"; RFC 6928: four flights and the handshake',
        scenario=_alone("5s", {"size": "100kB"}),
        metric=lambda run: _round_trips(run.flows[0]["fct_s"]),
        least=2,
        most=10,
        path_metric=_SIZE,
    ),
)


def _round_trips(fct_s: float | None) -> float | None:
    return None if fct_s is None else fct_s * 1e3 / RTT_MS


def checks(suite: str) -> list[Check]:
    """The checks of a suite.

    >>> len(checks("all")) > len(checks("basics"))
    True
    """
    if suite == "basics":
        return list(BASICS)
    if suite == "fairness":
        return list(FAIRNESS)
    both = [*BASICS, *FAIRNESS]
    if suite == "ccwg":
        return [*(check for check in both if check.name in OF_CCWG), *CCWG]
    if suite == "bbr":
        return list(BBR)
    return [*both, *CCWG, *BBR]
