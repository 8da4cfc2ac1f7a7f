"""The lessons of `narrows explain`: scenarios with explanations and plots.

Results in a text come from the runs of the lesson. The descriptions of algorithms follow the pages
in docs/reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from narrows.render.words import listed, number, percent, waited
from narrows.teach import ladder, wifi_dials

if TYPE_CHECKING:
    from narrows.runs.model import RunJson


@dataclass(frozen=True)
class Show:
    """A plot of one run, limited to a time range.

    Attributes:
        run: Index of the scenario in the lesson.
        key: Key of the picture in `narrows.render.pictures`.
        start: Start of the range, in seconds of the run.
        end: End of the range, in seconds of the run; None for the end of the run.
    """

    run: int
    key: str
    start: float = 0
    end: float | None = None


@dataclass(frozen=True)
class Block:
    """A section of a lesson: heading, paragraphs and plots."""

    heading: str
    text: tuple[str, ...]
    show: tuple[Show, ...] = ()


@dataclass(frozen=True)
class Lesson:
    """One topic.

    Attributes:
        title: Title of the lesson.
        intro: Introduction, before the first plot.
        scenarios: Texts of the scenarios (TOML) by name; `Show.run` is the index in this order.
        blocks: A function that computes the sections of the lesson from the results of the runs.
        needs: Queue discipline that the lesson requires; None if it requires none.
        sample_interval: Time between two samples of the runs.
    """

    title: str
    intro: tuple[str, ...]
    scenarios: Mapping[str, str]
    blocks: Callable[[Sequence[RunJson]], list[Block]]
    needs: str | None = None
    sample_interval: str = "pictures"


def _scenario(
    *flows: str,
    rate: str = "20Mbit",
    rtt: str = "40ms",
    buffer: str = "1bdp",
    more: str = "",
    duration: str = "30s",
) -> str:
    ping = '\n[[probe]]\nkind     = "ping"\ninterval = "20ms"\n'
    path = f'[path]\nrate   = "{rate}"\nrtt    = "{rtt}"\nbuffer = "{buffer}"\n{more}'
    return (
        f'duration = "{duration}"\n\n{path}'
        + "".join(f"\n[[flow]]\n{flow}\n" for flow in flows)
        + ping
    )


def _goodput(figures: RunJson, flow: int = 0) -> str:
    return f"{number(figures['flows'][flow]['goodput_mbit'], 1)} Mbit/s"


def _goodputs(figures: RunJson) -> str:
    return f"{number(sum(flow['goodput_mbit'] or 0 for flow in figures['flows']), 1)} Mbit/s"


def _ping(figures: RunJson, which: str = "p50") -> str:
    return f"{number(figures['probes'][0]['rtt_ms'][which], 0)} ms"


def _wait(figures: RunJson, which: str = "mean") -> str:
    return f"{waited(figures['queue']['delay_ms'][which])} ms"


def _bufferbloat(runs: Sequence[RunJson]) -> list[Block]:
    big, small = runs
    return [
        Block(
            "Empty queue",
            (
                "During the first five seconds, only a ping uses the path, with 50 small packets "
                "per second. The queue "
                "is empty, and each RTT is the base RTT of 40 ms.",
            ),
            (Show(0, "rtt", 0, 8),),
        ),
        Block(
            "The queue fills",
            (
                "Then a CUBIC flow starts. It leaves slow start early, because the RTT grows "
                "(HyStart), and then increases its window slowly until a packet is lost. This "
                "buffer holds 1000 packets, which take 0.6 s to leave at 20 Mbit/s. No packet is "
                "lost before the buffer is full, about 12 s after the start of the flow. Each time "
                "the "
                "buffer overflows, some tens of packets are lost within one RTT. CUBIC then "
                "reduces "
                "its window once, by 30 %, and the queue falls to about 70 % of the buffer. Then "
                "the "
                "queue grows again; it never empties.",
            ),
            (Show(0, "queue"), Show(0, "window")),
        ),
        Block(
            "Effect on other traffic",
            (
                f"The goodput of the flow itself is not affected: it is {_goodput(big)}. All other "
                "packets on this path wait "
                f"behind its packets. The median RTT of the ping is {_ping(big)}. (Goodputs and "
                f"medians "
                "of this topic exclude the warm-up, which is the first 6 s of a run.) Packets of "
                "calls, games and web pages have the same delay.",
            ),
            (Show(0, "rtt"), Show(0, "delay")),
        ),
        Block(
            "A smaller buffer",
            (
                "The second run has a buffer of one bandwidth-delay product (20 Mbit/s × 40 ms = "
                "100 kB). The goodput "
                f"of the same flow is {_goodput(small)}, and the median RTT of the ping is "
                f"{_ping(small)}. The longer "
                "queue did not increase the goodput.",
            ),
            (Show(1, "queue"), Show(1, "rtt")),
        ),
        Block(
            "Remedies",
            (
                "Reduce the buffer, or use a queue discipline with active queue management (RFC "
                "7567). It drops or "
                "marks packets before the buffer is full (`narrows explain codel`). A buffer that "
                "is too small reduces the goodput. To try this, take the scenario from the HTML "
                "report (--report) and change its key `buffer`.",
            ),
        ),
    ]


def _bbr(runs: Sequence[RunJson]) -> list[Block]:
    bbr, cubic = runs
    return [
        Block(
            "Startup and Drain",
            (
                "BBR version 1 estimates the bottleneck bandwidth and the base RTT. In Startup, "
                "it paces at 2.89 times "
                "the measured delivery rate until the delivery rate stops growing. By then, a "
                "queue has "
                "built up. In Drain, it "
                "paces below the delivery rate until data in flight has fallen to one "
                "bandwidth-delay product.",
            ),
            (Show(0, "throughput", 0, 2), Show(0, "pacing", 0, 2), Show(0, "queue", 0, 2)),
        ),
        Block(
            "Bandwidth probing",
            (
                "In ProbeBW, BBR paces at 99 % of its bandwidth estimate, multiplied by a pacing "
                "gain. The estimate counts payload only, so the pacing rate is below the rate of "
                "the path. In each cycle of eight phases, one phase has a pacing gain of 1.25, to "
                "probe for more bandwidth. The next has a gain of 0.75, to drain the queue of the "
                "probe. The other six have a gain of 1. The pacing rate and the queue show the "
                "first two phases.",
            ),
            (Show(0, "pacing", 4, 7), Show(0, "queue", 4, 7)),
        ),
        Block(
            "RTT probing",
            (
                "While its own packets are queued, BBR cannot measure the base RTT. If the "
                "minimum RTT has not "
                "decreased for ten seconds, BBR enters ProbeRTT: it limits the data in flight to "
                "four "
                "packets for at least 200 ms.",
            ),
            (Show(0, "window", 9, 12), Show(0, "rtt", 9, 12)),
        ),
        Block(
            "Comparison with CUBIC",
            (
                f"BBR alone has a goodput of {_goodput(bbr)} and a "
                f"mean queueing delay of {_wait(bbr)}. CUBIC alone has {_goodput(cubic)} and "
                f"{_wait(cubic)}, because "
                "it fills the buffer before it reduces its window. `narrows explain fairness` "
                "shows both in one "
                "buffer.",
            ),
            (Show(0, "queue"), Show(1, "queue")),
        ),
    ]


def _cubic(runs: Sequence[RunJson]) -> list[Block]:
    cubic, reno = runs
    drops = [figures["queue"]["drops"] for figures in runs]
    return [
        Block(
            "The cubic function",
            (
                "After a loss, CUBIC reduces its window to 0.7 of its size. It stores the previous "
                "size as W_max, or 0.85 of it if the window had not reached the last W_max. The "
                "window then follows a cubic function of the time since the loss (RFC 9438, "
                "section 4.2). It grows "
                "quickly at first, slowly near W_max, and more and more quickly beyond W_max. The "
                "plot begins at 10 s, after slow start.",
            ),
            (Show(0, "window", 10),),
        ),
        Block(
            "Comparison with Reno",
            (
                "Reno halves its window and adds one packet per round trip (RFC 5681, section "
                "3.1). With a large "
                "bandwidth-delay product, the recovery takes many round trips, and it takes "
                "longer with a longer RTT. "
                "Where CUBIC follows its cubic function, as here, its recovery time does not "
                "depend on "
                "the RTT.",
            ),
            (Show(1, "window", 10),),
        ),
        Block(
            "Results",
            (
                "The goodput is "
                f"{_goodput(cubic)} with CUBIC and {_goodput(reno)} with Reno. The queue dropped "
                f"{drops[0]} packets with "
                f"CUBIC and {drops[1]} with Reno. Reno loses most of these packets at the end of "
                "slow start; CUBIC ends slow start earlier (HyStart). After slow start, both fill "
                "the buffer before they reduce their windows; neither keeps the queue short. The "
                "plots of the queue begin at 10 s, after slow start.",
            ),
            (
                Show(0, "throughput"),
                Show(1, "throughput"),
                Show(0, "queue", 10),
                Show(1, "queue", 10),
            ),
        ),
    ]


def _codel(runs: Sequence[RunJson]) -> list[Block]:
    fifo, codel, many = runs
    return [
        Block(
            "Drop-tail queue",
            (
                "A FIFO of 1000 packets drops no packet until it is full. The mean queueing delay "
                "of one CUBIC flow is "
                f"{_wait(fifo)}.",
            ),
            (Show(0, "queue"),),
        ),
        Block(
            "Sojourn time",
            (
                "CoDel measures the sojourn time of each packet: the time between its arrival and "
                "its departure. A "
                "queue that empties within an interval (100 ms) absorbs a burst and is left "
                "alone. If the sojourn time "
                "stays above the target (5 ms) for a whole interval, CoDel drops one packet, or "
                "marks it if ECN is in "
                "use (RFC 8289, section 3).",
                "For one flow, single drops suffice. The queue of slow start disappears after the "
                "first drops. Then "
                "the window and the queue grow, and one drop ends each cycle.",
            ),
            (Show(1, "queue", 0, 8), Show(1, "losses", 0, 8)),
        ),
        Block(
            "Control law",
            (
                f"If {len(many['flows'])} flows start at nearly the same time, one drop reaches "
                f"only one of "
                "them. CoDel therefore "
                "drops more and more often while the sojourn time exceeds the target: after the "
                "n-th drop of a dropping phase, the next one follows after interval/√n. (If the "
                "previous phase ended recently, n does not begin at 1.) "
                "Once the sojourn time is below the "
                "target, CoDel drops nothing. The more packets a TCP flow loses, the lower its "
                "throughput is. The rising drop "
                "rate therefore slows the flows down until the queue is short.",
            ),
            (Show(2, "losses", 0, 4), Show(2, "queue", 0, 4)),
        ),
        Block(
            "Results",
            (
                f"One flow: the goodput is {_goodput(codel)} with CoDel and {_goodput(fifo)} with "
                "the FIFO. The median "
                f"RTT of the ping is {_ping(codel)} instead of {_ping(fifo)}. The queue dropped "
                f"{codel['queue']['drops']} packets instead of {fifo['queue']['drops']}. The "
                "difference in goodput is "
                "idle time of the link: after each drop, a single CUBIC flow has "
                "fewer packets in flight than the path holds, and the queue is too short to keep "
                "the link busy meanwhile.",
                f"{len(many['flows'])} flows: the total goodput is {_goodputs(many)}, and the "
                "median RTT of the ping "
                f"is {_ping(many)}.",
            ),
            (Show(0, "rtt"), Show(1, "rtt"), Show(2, "rtt")),
        ),
    ]


_BUFFERS = ("0.5", "1", "4", "8")


def _fairness(runs: Sequence[RunJson]) -> list[Block]:
    def shares(figures: RunJson) -> tuple[float, float]:
        one, two = (flow["goodput_mbit"] or 0.0 for flow in figures["flows"])
        return one, two

    rows = [
        f"{buffer} BDP: BBR {number(bbr)} Mbit/s ({percent(bbr / (bbr + cubic))}), CUBIC "
        f"{number(cubic)} Mbit/s"
        for buffer, (bbr, cubic) in zip(_BUFFERS, map(shares, runs), strict=True)
    ]
    by = [
        listed(
            [
                b
                for b, (bbr, cubic) in zip(_BUFFERS, map(shares, runs), strict=True)
                if (bbr > cubic) == wins
            ]
        )
        for wins in (True, False)
    ]
    larger = (
        f"BBR has the larger share with buffers of {by[0]} BDP, CUBIC with {by[1]} BDP."
        if all(by)
        else f"{'BBR' if by[0] else 'CUBIC'} has the larger share with each of these buffers."
    )
    return [
        Block(
            "Shares by buffer size",
            (
                "One BBR flow and one CUBIC flow share a bottleneck. The runs differ only in the "
                "buffer. BDP is the "
                "bandwidth-delay product of the path.",
                *rows,
                larger,
            ),
        ),
        Block(
            "Shallow buffer",
            (
                "CUBIC interprets each loss as congestion and reduces its window. BBR version 1 "
                "does not reduce its "
                "rate because of single losses. Its probes keep the shallow buffer full, so CUBIC "
                "loses "
                "packets before its "
                "window can grow.",
            ),
            (Show(0, "throughput"), Show(0, "window")),
        ),
        Block(
            "Deep buffer",
            (
                "In a deep buffer, the window of CUBIC can grow until the buffer is full. BBR "
                "limits its data in "
                "flight to about two bandwidth-delay products, which it computes with its minimum "
                "RTT. CUBIC occupies the rest of the buffer. The "
                "share of a flow in the queue determines its share of the link.",
            ),
            (Show(3, "throughput"), Show(3, "window")),
        ),
        Block(
            "Jain's fairness index",
            (
                "Fairness is not a property of one congestion control. It depends on the buffer, "
                "on the RTTs, and on "
                "the competing flows. Jain's fairness index is "
                f"{number(runs[0]['fairness']['jain'], 2)} with the first of these buffers and "
                f"{number(runs[-1]['fairness']['jain'], 2)} with the last. An index of 1 means "
                "equal shares. With two "
                "flows, 0.5 means that one flow has the whole link.",
            ),
        ),
    ]


def _policer(runs: Sequence[RunJson]) -> list[Block]:
    shaped, cubic, bbr = runs

    def cost(figures: RunJson) -> str:
        flow = figures["flows"][0]
        again = percent(flow["summary_retransmit_rate"])
        return (
            f"a goodput of {_goodput(figures)}, a retransmission rate of {again} and a mean "
            f"queueing delay of {_wait(figures)}"
        )

    return [
        Block(
            "Shaper and policer",
            (
                "Both limit a rate with a token bucket, which fills at that rate up to the burst "
                "size. A shaper queues "
                "a packet until there are tokens. A policer has no queue and drops a packet "
                "for which there are no tokens. Here, the shaper is a link of 10 Mbit/s, which "
                "permits no bursts. The "
                "policer has a rate of 10 Mbit/s and a burst of 62.5 kB (50 ms of its rate), and "
                "the link behind it has 100 Mbit/s.",
            ),
            (Show(0, "queue"), Show(1, "queue")),
        ),
        Block(
            "CUBIC",
            (
                f"Behind the shaper, CUBIC has {cost(shaped)}. Behind the policer, it has "
                f"{cost(cubic)}. With a "
                "policer, no queueing "
                "delay precedes the loss. During a pause, the bucket fills. A burst then passes "
                "at the rate of the "
                "link until the tokens are used up, and further packets are lost together.",
            ),
            (Show(0, "throughput"), Show(1, "throughput"), Show(1, "losses")),
        ),
        Block(
            "BBR",
            (
                "BBR measures its delivery rate. A burst that passes the policer appears as a "
                "faster path. BBR "
                "version 1 therefore detects policers (`policer_detection`): if losses continue "
                "at a constant delivery "
                f"rate, it uses this rate as its bandwidth. Behind the policer, BBR has "
                f"{cost(bbr)}.",
            ),
            (Show(2, "throughput"), Show(2, "losses")),
        ),
        Block(
            "Detection of a policer",
            (
                "A policer causes losses without queueing delay. If goodput is below the link "
                "rate, packets are lost, "
                "and the RTT does not increase, no buffer on the path is full. The likely cause is "
                "then a policer or random loss.",
            ),
            (Show(0, "rtt"), Show(1, "rtt")),
        ),
    ]


def _air(figures: RunJson, station: int) -> str:
    return percent(figures["stations"][station]["airtime_share"])


def _at_once(figures: RunJson, station: int) -> str:
    aggregate = figures["stations"][station]["aggregate"]
    return number(aggregate["frames"], 0)


def _wifi(runs: Sequence[RunJson]) -> list[Block]:
    alone, before, fq_mac, airtime = runs
    driver = before["stations"][2]["delay_ms"]["driver"] or {}
    alone_each = listed([number(flow["goodput_mbit"], 1) for flow in alone["flows"][:2]])

    def goodputs(figures: RunJson) -> str:
        fast = listed([f"{number(flow['goodput_mbit'], 1)}" for flow in figures["flows"][:2]])
        return f"the near stations have {fast} Mbit/s, the far station {_goodput(figures, 2)}"

    return [
        Block(
            "Two near stations",
            (
                f"Two near stations share the channel: {_goodputs(alone)} in total. This is less "
                "than the PHY rate of "
                "144 Mbit/s. Each transmission is preceded by a backoff and a preamble, and "
                "followed by an "
                "acknowledgement. Aggregation spreads this overhead over many packets, here "
                f"{_at_once(alone, 0)} and {_at_once(alone, 1)} frames per transmission on "
                f"average.",
            ),
            (Show(0, "throughput"),),
        ),
        Block(
            "A slow station joins",
            (
                "A third station is far away. Its PHY rate is 7 Mbit/s, a twentieth of 144 "
                "Mbit/s. A full packet to it "
                f"takes 1.7 ms of airtime. Now {goodputs(before)}. Without the far station, the "
                f"near stations had {alone_each} Mbit/s.",
                "The access point has one queue for all stations and serves them in turn, with "
                "one transmission each. "
                "A transmission to the far station lasts up to four milliseconds and contains "
                f"{_at_once(before, 2)} frames on average. The far station uses "
                f"{_air(before, 2)} of the airtime, the near stations "
                f"{_air(before, 0)} and {_air(before, 1)}. This is the performance anomaly of "
                f"802.11 (Heusse et al. "
                "2003).",
            ),
            (Show(1, "throughput"),),
        ),
        Block(
            "Queueing delay",
            (
                "The access point has a pfifo_fast of 1000 packets above a driver with 123 more. "
                "Most of the packets "
                "in the driver are for the far station: their median delay in the driver alone is "
                f"{number(driver['p50'], 0)} ms. All stations share this "
                "queue. The median RTT of "
                f"a ping to a near station is {_ping(before)}.",
            ),
            (Show(1, "queue"), Show(1, "rtt")),
        ),
        Block(
            "FQ-CoDel in mac80211",
            (
                "Since Linux 4.8, mac80211 has queues with FQ-CoDel for each station. Drivers "
                "that use them, such as ath9k since 4.10, have no qdisc above. "
                "The hardware holds two transmissions at most, and each is filled when it is "
                "created. The median RTT "
                f"of the ping falls to {_ping(fq_mac)}. Stations are still served in turn: "
                f"{goodputs(fq_mac)}, and the "
                f"far station uses {_air(fq_mac, 2)} of the airtime.",
            ),
            (Show(2, "queue"), Show(2, "rtt"), Show(2, "throughput")),
        ),
        Block(
            "Airtime fairness",
            (
                "Since Linux 4.11 (first with ath9k), the access point measures the airtime of "
                "each station, received "
                "packets included. A station that has used its share waits for the others. Now "
                "the stations use "
                f"{_air(airtime, 0)}, {_air(airtime, 1)} and {_air(airtime, 2)} of the airtime, "
                "and "
                f"{goodputs(airtime)}. The total goodput is {_goodputs(airtime)} instead of "
                f"{_goodputs(before)} before Linux 4.8 "
                "(Høiland-Jørgensen et al. 2017).",
            ),
            (Show(3, "throughput"), Show(3, "rtt")),
        ),
        Block(
            "Limits",
            (
                "Airtime fairness gives the far station equal airtime, not equal goodput. "
                "Upstream transmissions "
                "contend with downstream transmissions and collide: here "
                f"{percent(airtime['stations'][0]['collision_share'])} of the transmissions to "
                "and from a near "
                "station.",
            ),
        ),
    ]


def _air_scenario(stack: str, *, far: bool = True) -> str:
    stations = '[[wifi.station]]\nname  = "near"\ncount = 2\nmcs   = 15\n'
    flows = '\n[[flow]]\ncc      = "cubic"\nstation = "near"\n'
    if far:
        stations += '\n[[wifi.station]]\nname = "far"\nmcs  = 0\n'
        flows += '\n[[flow]]\ncc      = "cubic"\nstation = "far"\n'
    ping = '\n[[probe]]\nkind     = "ping"\ninterval = "20ms"\nstation  = "near0"\n'
    wifi = f'[wifi]\nstandard  = "n"\nstack     = "{stack}"\naggregate = {{ frames = 19 }}\n'
    return f'duration = "20s"\n\n{wifi}\n{stations}{flows}{ping}'


def _ladder(runs: Sequence[RunJson]) -> list[Block]:
    return [
        Block(heading, text, tuple(Show(run, key) for run, key in show))
        for heading, text, show in ladder.steps(runs)
    ]


def _wifi_dials(runs: Sequence[RunJson]) -> list[Block]:
    return [
        Block(heading, text, (Show(run, "rtt"),)) for heading, text, run in wifi_dials.steps(runs)
    ]


_POLICED = 'policer = { rate = "10Mbit", burst = "62.5kB" }\n'

LESSONS: dict[str, Lesson] = {
    "bufferbloat": Lesson(
        "Bufferbloat: excessive queueing delay in large buffers",
        (
            "A buffer absorbs bursts. A buffer that is larger than needed can also hold a "
            "permanent "
            "queue, which delays "
            "all traffic on the path. Two runs differ only in the buffer: it holds 1000 packets in "
            "the first run, and one bandwidth-delay product (BDP) in the second. Both paths have "
            "20 Mbit/s and a base RTT of 40 ms.",
        ),
        {
            "1000 packets": _scenario('cc    = "cubic"\nstart = "5s"', buffer="1000p"),
            "one BDP": _scenario('cc    = "cubic"\nstart = "5s"'),
        },
        _bufferbloat,
    ),
    "bbr": Lesson(
        "BBR: Startup, Drain, ProbeBW and ProbeRTT",
        (
            "Loss-based congestion controls increase their window until a packet is lost. BBR "
            "measures "
            "bandwidth and RTT of "
            "the path, and limits its rate and its data in flight accordingly. The path of both "
            "runs has 50 Mbit/s, a base RTT of 40 ms and a buffer of four bandwidth-delay "
            "products.",
        ),
        {
            "BBR": _scenario('cc = "bbr"', rate="50Mbit", buffer="4bdp", duration="14s"),
            "CUBIC": _scenario('cc = "cubic"', rate="50Mbit", buffer="4bdp", duration="14s"),
        },
        _bbr,
        # A phase of ProbeBW lasts one RTT. A plot of it needs more samples than a plot of the whole
        # run.
        sample_interval="10ms",
    ),
    "cubic": Lesson(
        "CUBIC: window growth as a function of time",
        ("CUBIC is the default congestion control of Linux. Its window grows as a cubic function "
         "of time. The path of both runs has 100 Mbit/s, a base RTT of 80 ms and a buffer of half "
         "a bandwidth-delay product.",),
        {
            "CUBIC": _scenario('cc = "cubic"', rate="100Mbit", rtt="80ms", buffer="0.5bdp",
            duration="60s"),
            "Reno": _scenario('cc = "reno"', rate="100Mbit", rtt="80ms", buffer="0.5bdp",
            duration="60s"),
        },
        _cubic,
    ),
    "codel": Lesson(
        "CoDel: control of the queueing delay",
        ("CoDel is a queue discipline that accepts bursts and drops packets only if a queue "
         "persists. The path of all runs has 20 Mbit/s, a base RTT of 40 ms and a buffer of 1000 "
         "packets.",),
        {
            "fifo": _scenario('cc = "cubic"', buffer="1000p"),
            "CoDel": _scenario('cc = "cubic"', buffer="1000p", more='queue  = "codel"\n'),
            "CoDel, ten flows": _scenario('cc    = "cubic"\ncount = 10', buffer="1000p",
            more='queue  = "codel"\n'),
        },
        _codel,
        needs="codel",
    ),
    "fairness": Lesson(
        "Fairness: how BBR and CUBIC share a bottleneck, for several buffer sizes",
        (
            "A BBR flow and a CUBIC flow share a bottleneck of 40 Mbit/s with a base RTT of 40 ms. "
            "The buffer size determines their shares.",
        ),
        {
            f"{buffer} BDP": _scenario(
                'cc = "bbr"', 'cc = "cubic"', rate="40Mbit", buffer=f"{buffer}bdp", duration="60s"
            )
            for buffer in _BUFFERS
        },
        _fairness,
    ),
    "policer": Lesson(
        "Policers: rate limits that drop packets instead of queueing them",
        ("A shaper enforces a rate limit by queueing packets, a policer by dropping them.",),
        {
            "CUBIC, shaper": _scenario('cc = "cubic"', rate="10Mbit"),
            "CUBIC, policer": _scenario('cc = "cubic"', rate="100Mbit", more=_POLICED),
            "BBR, policer": _scenario('cc = "bbr"', rate="100Mbit", more=_POLICED),
        },
        _policer,
    ),
    "wifi": Lesson(
        "Wi-Fi: the performance anomaly and airtime fairness",
        (
            "Only one station of a Wi-Fi network can transmit at a time. The stations share "
            "airtime, and a slow "
            "station needs more airtime for the same packet.",
        ),
        {
            "two near stations": _air_scenario("before", far=False),
            "with a far station, before Linux 4.8": _air_scenario("before"),
            "with a far station, FQ-CoDel in mac80211": _air_scenario("fq_mac"),
            "with a far station, airtime fairness": _air_scenario("airtime"),
        },
        _wifi,
    ),
    "wifi-queues": Lesson(
        "Wi-Fi queues: the settings of the stack of Linux, one after another",
        (
            "Two near stations and a far one receive downloads. Each step changes the settings in "
            "its "
            "heading and keeps the other settings of the step before it.",
        ),
        wifi_dials.scenarios(),
        _wifi_dials,
    ),
    "ladder": Lesson(
        "The queue in the sending host: Linux 3.2 to 4.13",
        (
            "If the interface of a host is the bottleneck, the queue is in the host. Several "
            "releases of Linux "
            "shortened it.",
        ),
        ladder.scenarios(),
        _ladder,
        needs="fq",
    ),
}  # fmt: skip
"""Lessons by their name on the command line."""
