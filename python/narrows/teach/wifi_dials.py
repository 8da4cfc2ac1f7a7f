"""The lesson `wifi-queues` of `narrows explain`: the settings of the Wi-Fi queues of Linux, one
after another.

Two near stations and a far one receive downloads. Each step changes one or a few settings and keeps
those of the steps before it. The steps lead from two FIFOs to FQ-CoDel for each station, airtime
fairness and AQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from narrows.render.words import listed, number, percent

if TYPE_CHECKING:
    from narrows.runs.model import RunJson


@dataclass(frozen=True)
class Dial:
    """A step of the lesson.

    Attributes:
        name: Name of the step.
        what: The change and its effect, in one or two sentences.
        wifi: Keys of the scenario's `[wifi]` section that change, with their new values; None
            removes a key.
        far: Keys of the far station that change, with their new values.
        flow: Keys of the download of the far station that change, with their new values.
    """

    name: str
    what: str
    wifi: dict[str, str | None]
    far: dict[str, str] = field(default_factory=dict)
    flow: dict[str, str] = field(default_factory=dict)


DIALS = (
    Dial(
        "before",
        "A pfifo_fast of 1000 packets is above a driver that accepts 123 frames, as before Linux "
        "4.8.",
        {"stack": '"before"'},
    ),
    Dial(
        "driver = 16",
        "The driver accepts 16 frames. Packets wait in the qdisc instead, which is still a FIFO.",
        {"driver": "16"},
    ),
    Dial(
        "qdisc = fq_codel",
        "FQ-CoDel replaces the FIFO above the driver. It separates flows and drops packets that "
        "wait too long.",
        {"qdisc": '"fq_codel"'},
    ),
    Dial(
        "stack = fq_mac, driver = 123",
        "FQ-CoDel moves into mac80211, with queues for each station. The driver below it still "
        "has a queue of 123 frames.",
        {"stack": '"fq_mac"', "driver": "123", "qdisc": None},
    ),
    Dial(
        "no driver queue, txops = 16",
        "The driver takes packets from mac80211 when it creates a transmission. The hardware "
        "holds up to 16 transmissions.",
        {"driver": None, "txops": "16"},
    ),
    Dial(
        "txops = 2",
        "The hardware holds two transmissions: one on the air and one that is ready.",
        {"txops": "2"},
    ),
    Dial(
        "codel_target = 5ms",
        "CoDel tolerates a delay of 5 ms instead of the 20 ms of mac80211.",
        {"codel_target": '"5ms"', "codel_interval": '"100ms"'},
    ),
    Dial(
        "codel_slow_rate = 6Mbit",
        "CoDel tolerates 50 ms at stations whose expected throughput is below 18 Mbit/s, as in "
        "Linux 6.1. With three stations, this is the far one.",
        {"codel_slow_rate": '"6Mbit"'},
    ),
    Dial(
        "quantum = 1514B",
        "A flow sends a full packet in its turn instead of 300 bytes. The shares of the flows do "
        "not depend on the quantum.",
        {"quantum": '"1514B"'},
    ),
    Dial(
        "stack = airtime, driver = 123, aql = false",
        "Stations are scheduled by airtime instead of transmissions. The driver has a queue "
        "again, as a device with queues in its firmware, without a limit of airtime.",
        {"stack": '"airtime"', "driver": "123", "aql": "false"},
    ),
    Dial(
        "aql = true",
        "AQL limits the airtime in this queue to 12 ms for each station, or to 5 ms if the queue "
        "holds more than 24 ms for all stations.",
        {"aql": "true"},
    ),
    Dial(
        "aql_low = 2ms, aql_high = 5ms",
        "The driver holds at most 5 ms for each station.",
        {"aql_low": '"2ms"', "aql_high": '"5ms"'},
    ),
    Dial(
        "no driver queue",
        "The driver takes packets from mac80211 when it creates a transmission, as ath9k does.",
        {"driver": None},
    ),
    Dial(
        "weight = 1024 of all stations",
        "A station gets 1024 µs of airtime in each round instead of 256 µs. The shares of airtime "
        "depend only on the ratio of the weights.",
        {"weight": "1024"},
    ),
    Dial(
        "weight = 4096 of the far station",
        "In each round, the far station gets four times the airtime credit of a near one. Its "
        "share is less than four sixths, because AQL with a limit of 5 ms ends its turns before "
        "the credit is used. With the default limits of AQL, its share is 65 %.",
        {},
        {"weight": "4096"},
    ),
    Dial(
        "aggregate of 64 frames",
        "A transmission has up to 64 frames instead of 19, as the standard permits, or 4 ms.",
        {"aggregate": None},
    ),
    Dial(
        "far download in category BK",
        "The download of the far station has the DSCP CS1, and with it the access category of "
        "background traffic, which waits longer for the medium. Others have the category BE, "
        "except the second ping (VO).",
        {},
        flow={"dscp": '"CS1"'},
    ),
    Dial(
        "far download in category VI",
        "The download of the far station has the DSCP AF41, and with it the access category of "
        "video, which waits less for the medium than BE.",
        {},
        flow={"dscp": '"AF41"'},
    ),
)
"""The steps, in the order in which they are applied."""


def scenario(step: int) -> str:
    """Text of the scenario of a step."""
    wifi: dict[str, str] = {"standard": '"n"', "aggregate": "{ frames = 19 }"}
    far: dict[str, str] = {"name": '"far"', "mcs": "0"}
    flow: dict[str, str] = {"cc": '"cubic"', "station": '"far"'}
    for dial in DIALS[: step + 1]:
        wifi |= {key: value for key, value in dial.wifi.items() if value is not None}
        for key in (key for key, value in dial.wifi.items() if value is None):
            del wifi[key]
        far |= dial.far
        flow |= dial.flow

    def table(head: str, keys: dict[str, str]) -> str:
        return f"{head}\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())

    near = {"name": '"near"', "count": "2", "mcs": "15"}
    parts = [table("[wifi]", wifi), table("[[wifi.station]]", near)]
    parts.append(table("[[wifi.station]]", far))
    parts.append(table("[[flow]]", {"cc": '"cubic"', "station": '"near"'}))
    parts.append(table("[[flow]]", flow))
    # The second ping is in the access category of voice (DSCP 46).
    for dscp in ("0", "46"):
        ping = {"kind": '"ping"', "interval": '"20ms"', "station": '"near0"', "dscp": dscp}
        parts.append(table("[[probe]]", ping))
    return 'duration = "20s"\n\n' + "\n".join(parts)


def scenarios() -> dict[str, str]:
    """Texts of the scenarios of all steps, by the names of the steps."""
    return {dial.name: scenario(step) for step, dial in enumerate(DIALS)}


def result(figures: RunJson) -> str:
    """The results of a step in two sentences."""
    near = listed([number(flow["goodput_mbit"], 1) for flow in figures["flows"][:2]])
    far = number(figures["flows"][2]["goodput_mbit"], 1)
    best, voice = (probe["rtt_ms"] for probe in figures["probes"])
    return (
        f"The near stations have {near} Mbit/s, the far station {far} Mbit/s and "
        f"{percent(figures['stations'][2]['airtime_share'])} of the airtime. The RTT of a ping to "
        f"a near station is {number(best['p50'], 0)} ms (p50) and {number(best['p95'], 0)} ms "
        f"(p95), with voice priority {number(voice['p95'], 0)} ms (p95)."
    )


Step = tuple[str, tuple[str, ...], int]
"""A section of the lesson: heading, paragraphs, and index of the run."""


def steps(runs: Sequence[RunJson]) -> list[Step]:
    """The sections of the lesson."""
    return [
        (dial.name, (dial.what, result(figures)), place)
        for place, (dial, figures) in enumerate(zip(DIALS, runs, strict=True))
    ]
