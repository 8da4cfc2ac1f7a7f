"""What `narrows explain` teaches: scenarios that show a thing, and words beside their pictures.

Every number in the words is taken from the run that has just been made; the rest is what the laws' own pages say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from narrows.render.words import listed, number, percent, waited
from narrows.teach import ladder

Figures = dict[str, Any]


@dataclass(frozen=True)
class Show:
    """A picture of one run, and which part of its time.

    Attributes:
        run: Its place among the lesson's scenarios.
        key: Of `narrows.render.pictures`.
        start: Seconds.
        end: Seconds; the end of the run where it is None.
    """

    run: int
    key: str
    start: float = 0
    end: float | None = None


@dataclass(frozen=True)
class Block:
    """A step of a lesson."""

    heading: str
    text: tuple[str, ...]
    show: tuple[Show, ...] = ()


@dataclass(frozen=True)
class Lesson:
    """One topic.

    Attributes:
        title: What it is called.
        intro: What it is, before any picture.
        scenarios: By name, in the order in which blocks count them.
        blocks: The steps, once there are figures.
        needs: A queue discipline that must be there.
        sample_interval: Between two rows of samples.
    """

    title: str
    intro: tuple[str, ...]
    scenarios: Mapping[str, str]
    blocks: Callable[[Sequence[Figures]], list[Block]]
    needs: str | None = None
    sample_interval: str = "pictures"


def _scenario(
    *flows: str, rate: str = "20Mbit", rtt: str = "40ms", buffer: str = "1bdp", more: str = "", duration: str = "30s"
) -> str:
    ping = '\n[[probe]]\nkind     = "ping"\ninterval = "20ms"\n'
    path = f'[path]\nrate   = "{rate}"\nrtt    = "{rtt}"\nbuffer = "{buffer}"\n{more}'
    return f'duration = "{duration}"\n\n{path}' + "".join(f"\n[[flow]]\n{flow}\n" for flow in flows) + ping


def _goodput(figures: Figures, flow: int = 0) -> str:
    return f"{number(figures['flows'][flow]['goodput_mbit'], 1)} Mbit/s"


def _goodputs(figures: Figures) -> str:
    return f"{number(sum(flow['goodput_mbit'] or 0 for flow in figures['flows']), 1)} Mbit/s"


def _ping(figures: Figures, which: str = "p50") -> str:
    return f"{number(figures['probes'][0]['rtt_ms'][which], 0)} ms"


def _wait(figures: Figures, which: str = "mean") -> str:
    return f"{waited(figures['queue']['delay_ms'][which])} ms"


def _bufferbloat(runs: Sequence[Figures]) -> list[Block]:
    big, small = runs
    return [
        Block(
            "An empty queue",
            (
                "For the first five seconds nobody sends but a ping, 50 small packets a second. There is nothing to "
                "wait for, and each comes back after the path's own 40 ms.",
            ),
            (Show(0, "rtt", 0, 8),),
        ),
        Block(
            "A queue that fills",
            (
                "Then one flow begins. Its sender cannot see the path: it sends more and more until a packet is "
                "lost. This buffer loses none before a thousand packets wait in it, and a thousand full packets take "
                "0.6 s to leave at 20 Mbit/s. So they wait there, for as long as the flow goes on.",
            ),
            (Show(0, "queue"), Show(0, "window")),
        ),
        Block(
            "Who pays",
            (
                f"The flow itself loses nothing by it: {_goodput(big)}. But everybody who shares this path waits "
                f"behind its packets: half of the pings now take {_ping(big)} or more. A call, a game, a click wait "
                "as long.",
            ),
            (Show(0, "rtt"), Show(0, "delay")),
        ),
        Block(
            "The same flow, a smaller buffer",
            (
                "With room for one bandwidth-delay product (what the path itself holds: 20 Mbit/s × 40 ms = 100 kB) "
                f"the same flow gets {_goodput(small)}, and half of the pings take {_ping(small)} or more. The "
                "standing queue was of no use to anyone.",
            ),
            (Show(1, "queue"), Show(1, "rtt")),
        ),
        Block(
            "What to do",
            (
                "Make the buffer smaller, where you may; or put a queue discipline there that tells senders to slow "
                "down before the buffer is full (`narrows explain codel`). A buffer that is too small costs goodput: "
                "try it, by changing one line of the scenario below.",
            ),
        ),
    ]


def _bbr(runs: Sequence[Figures]) -> list[Block]:
    bbr, cubic = runs
    return [
        Block(
            "Startup and drain",
            (
                "BBR, version 1, asks two things of a path: how fast does it deliver, and how short is its round "
                "trip? At the start it sends 2.89 times as fast as it was last delivered, each round trip, until the "
                "rate grows no more. By then a queue stands; so it drains: it sends slower than it is delivered "
                "until no more is in flight than the path itself holds.",
            ),
            (Show(0, "throughput", 0, 2), Show(0, "pacing", 0, 2), Show(0, "queue", 0, 2)),
        ),
        Block(
            "Probe, drain, cruise",
            (
                "Then it cruises at the rate it has measured. Every eight round trips it probes: for one it sends a "
                "quarter faster, to see whether there is more; for the next a quarter slower, so that what it has "
                "queued drains. The teeth of the pacing rate are these two, and the queue answers.",
            ),
            (Show(0, "pacing", 4, 7), Show(0, "queue", 4, 7)),
        ),
        Block(
            "A look at the empty path",
            (
                "While its own packets queue, it cannot see how short the path is. If it has seen no shorter round "
                "trip for ten seconds, it keeps only four packets in flight for 200 ms, and looks.",
            ),
            (Show(0, "window", 9, 12), Show(0, "rtt", 9, 12)),
        ),
        Block(
            "Beside CUBIC",
            (
                f"Alone on this path (four bandwidth-delay products of buffer), BBR gets {_goodput(bbr)} and packets "
                f"wait {_wait(bbr)} on average. CUBIC fills the buffer until it loses something: {_goodput(cubic)}, "
                f"and {_wait(cubic)}. When both share one buffer it is another story: `narrows explain fairness`.",
            ),
            (Show(0, "queue"), Show(1, "queue")),
        ),
    ]


def _cubic(runs: Sequence[Figures]) -> list[Block]:
    cubic, reno = runs
    drops = [figures["queue"]["drops"] for figures in runs]
    return [
        Block(
            "The curve",
            (
                "After a loss CUBIC reduces its window to 0.7 of what it was, and remembers where that was. Then it "
                "grows by a cubic function of the time since the loss, not of round trips: fast at first, slowly "
                "around the window at which it lost, where it waits and sees; and if nothing happens there, faster "
                "and faster to find out what has changed.",
            ),
            (Show(0, "window", 10),),
        ),
        Block(
            "What Reno does",
            (
                "Reno halves its window and adds one packet per round trip. On a path that holds many packets that "
                "takes long, the longer the round trip the longer; CUBIC's time does not depend on it.",
            ),
            (Show(1, "window", 10),),
        ),
        Block(
            "What it comes to",
            (
                "On this path (100 Mbit/s, 80 ms, half a bandwidth-delay product of buffer) CUBIC gets "
                f"{_goodput(cubic)}, Reno {_goodput(reno)}; the queue dropped {drops[0]} packets of CUBIC's and "
                f"{drops[1]} of Reno's. Both still take a full buffer to tell them: neither keeps the queue short.",
            ),
            (Show(0, "throughput"), Show(1, "throughput"), Show(0, "queue", 10), Show(1, "queue", 10)),
        ),
    ]


def _codel(runs: Sequence[Figures]) -> list[Block]:
    fifo, codel, many = runs
    return [
        Block(
            "A plain queue",
            (
                "A first-in-first-out queue of a thousand packets says nothing until it is full: on average packets "
                f"wait {_wait(fifo)}.",
            ),
            (Show(0, "queue"),),
        ),
        Block(
            "CoDel looks at the waiting, not at the length",
            (
                "CoDel stamps each packet when it comes, and sees how long it has waited when it leaves. A queue "
                "that empties within an interval (100 ms) is a good one: it takes up bursts. If every packet of an "
                "interval waited longer than the target (5 ms), the queue stands, and CoDel drops one packet (or "
                "marks it, where both ends agree on that), to tell its sender.",
                "One flow needs no more than that. The queue of its start is gone after the first drops; afterwards "
                "the window grows, the queue with it, and each tooth ends with one packet.",
            ),
            (Show(1, "queue", 0, 8), Show(1, "losses", 0, 8)),
        ),
        Block(
            "The control law",
            (
                f"{len(many['flows'])} flows that start together are not told by one drop: it reaches one of them. The "
                "next comes sooner, after the interval divided by the square root of how many there have been, so the "
                "curve of the drops gets steeper for as long as packets wait longer than the target; when they do "
                "not, CoDel stops, and its curve is flat. For senders whose rate goes with one over the square root "
                "of their losses, that takes the rate down in a straight line.",
            ),
            (Show(2, "losses", 0, 4), Show(2, "queue", 0, 4)),
        ),
        Block(
            "What it comes to",
            (
                f"The one flow gets {_goodput(codel)} instead of {_goodput(fifo)}, and half of the pings take "
                f"{_ping(codel)} or more instead of {_ping(fifo)}; the queue dropped {codel['queue']['drops']} packets "
                f"instead of {fifo['queue']['drops']}. What it gives away is the time that the link is idle: behind "
                "each drop a single CUBIC flow sends less than the path holds, and there is no standing queue to "
                "live on meanwhile.",
                f"The {len(many['flows'])} flows together get {_goodputs(many)}, and half of the pings beside them "
                f"take {_ping(many)} or more.",
            ),
            (Show(0, "rtt"), Show(1, "rtt"), Show(2, "rtt")),
        ),
    ]


_BUFFERS = ("0.5", "1", "4", "8")


def _fairness(runs: Sequence[Figures]) -> list[Block]:
    def shares(figures: Figures) -> tuple[float, float]:
        one, two = (flow["goodput_mbit"] or 0.0 for flow in figures["flows"])
        return one, two

    rows = [
        f"{buffer} BDP: BBR {number(bbr)} Mbit/s ({percent(bbr / (bbr + cubic))}), CUBIC {number(cubic)} Mbit/s"
        for buffer, (bbr, cubic) in zip(_BUFFERS, map(shares, runs), strict=True)
    ]
    by = [
        listed([b for b, (bbr, cubic) in zip(_BUFFERS, map(shares, runs), strict=True) if (bbr > cubic) == wins])
        for wins in (True, False)
    ]
    turns = (
        f"BBR has more than half with buffers of {by[0]} BDP, CUBIC with {by[1]}."
        if all(by)
        else f"{'BBR' if by[0] else 'CUBIC'} has more than half with every one of these buffers."
    )
    return [
        Block(
            "Two that take turns to win",
            (
                "One BBR flow and one CUBIC flow share a bottleneck; only the buffer differs. One BDP is what the path "
                "itself holds.",
                *rows,
                turns,
            ),
        ),
        Block(
            "A shallow buffer",
            (
                "CUBIC takes each loss for congestion and gives way. BBR, version 1, asks for rates and round trips "
                "and does not slow down for losses as such: it keeps the short buffer full of its probes, and CUBIC "
                "never gets to grow.",
            ),
            (Show(0, "throughput"), Show(0, "window")),
        ),
        Block(
            "A deep buffer",
            (
                "Here CUBIC has room to grow: it fills the buffer. BBR lets at most two bandwidth-delay products be "
                "in flight, by the shortest round trip that it sees; what waits beyond that is CUBIC's, and who has "
                "more packets in the queue gets more of the link.",
            ),
            (Show(3, "throughput"), Show(3, "window")),
        ),
        Block(
            "How to read it",
            (
                "Fairness is no property of a flow: it depends on the buffer, on who else is there, on round trips. "
                f"Jain's index is {number(runs[0]['fairness']['jain'], 2)} with the first of these buffers and "
                f"{number(runs[-1]['fairness']['jain'], 2)} with the last; 1 is an equal share, and for two flows 0.5 "
                "is one that has everything.",
            ),
        ),
    ]


def _policer(runs: Sequence[Figures]) -> list[Block]:
    shaped, cubic, bbr = runs

    def cost(figures: Figures) -> str:
        flow = figures["flows"][0]
        again = percent(flow["retransmit_rate"])
        return f"{_goodput(figures)}, {again} sent again, {_wait(figures)} of waiting on average"

    return [
        Block(
            "Two ways to keep a rate",
            (
                "A shaper lets packets wait until they may go. A policer has no queue: it counts tokens, which come "
                "at the rate that is allowed, up to a burst; who finds none is dropped. Here a burst of 62.5 kB "
                "passes, 50 ms of the rate, onto a link of 100 Mbit/s.",
            ),
            (Show(0, "queue"), Show(1, "queue")),
        ),
        Block(
            "CUBIC behind a shaper and behind a policer",
            (
                f"Behind the shaper: {cost(shaped)}. Behind the policer: {cost(cubic)}. Nothing slows the sender down "
                "before the loss, as waiting would; after a pause the bucket is full, a burst passes at the speed of "
                "the link, and then packets go missing all at once.",
            ),
            (Show(0, "throughput"), Show(1, "throughput"), Show(1, "losses")),
        ),
        Block(
            "BBR behind a policer",
            (
                "BBR measures how fast it is delivered, and a burst that passes looks like a faster path. It has a "
                "part of its own for this (`policer_detection`): where losses go on while the rate stays the same, "
                f"it takes that rate for the allowed one. Here: {cost(bbr)}.",
            ),
            (Show(2, "throughput"), Show(2, "losses")),
        ),
        Block(
            "How to tell",
            (
                "Losses without waiting. If goodput stays below the rate, packets are lost and the round trip does "
                "not grow, no buffer is full on the way: something polices.",
            ),
            (Show(0, "rtt"), Show(1, "rtt")),
        ),
    ]


def _air(figures: Figures, station: int) -> str:
    return percent(figures["stations"][station]["airtime_share"])


def _at_once(figures: Figures, station: int) -> str:
    aggregate = figures["stations"][station]["aggregate"]
    return f"{number(aggregate['frames'], 0)} frames"


def _wifi(runs: Sequence[Figures]) -> list[Block]:
    alone, before, fq_mac, airtime = runs
    alone_each, slow = alone["flows"][0]["goodput_mbit"], before["stations"][2]

    def told(figures: Figures) -> str:
        fast = listed([f"{number(flow['goodput_mbit'], 1)}" for flow in figures["flows"][:2]])
        return f"the near stations get {fast} Mbit/s, the far one {_goodput(figures, 2)}"

    return [
        Block(
            "Two near stations by themselves",
            (
                f"They share what the medium gives: {_goodputs(alone)} together. Nobody gets the 144 Mbit/s of "
                "their symbols: before each transmission everybody waits some slots, then comes a preamble, and "
                "afterwards an answer. So that this is not paid for each packet, many go at once: here "
                f"{_at_once(alone, 0)} on average.",
            ),
            (Show(0, "throughput"),),
        ),
        Block(
            "One slow station",
            (
                "Then a third one joins, far away: its symbols carry 7 Mbit/s, a twentieth. A full packet to it "
                f"takes 1.7 ms of air. Now {told(before)}: a near station has {number(alone_each, 1)} Mbit/s no "
                "longer.",
                "The reason is whose turn it is. The access point has one queue for all, and serves stations in "
                "turn, one transmission each. A turn of the far station lasts as long as four milliseconds allow, "
                f"and holds {_at_once(before, 2)}. It is on the air {_air(before, 2)} of the time, each near one "
                f"{_air(before, 0)}.",
            ),
            (Show(1, "throughput"),),
        ),
        Block(
            "Where the packets wait",
            (
                "A pfifo_fast of a thousand packets stands above a driver that takes 123 more, and most of those "
                f"are for the far station: half of its packets wait {number(slow['delay_ms']['driver']['p50'], 0)} "
                "ms in the driver alone. Everybody waits in the same queue, so a ping to a near station takes "
                f"{_ping(before)}.",
            ),
            (Show(1, "queue"), Show(1, "rtt")),
        ),
        Block(
            "A queue for each station, inside mac80211",
            (
                "Since Linux 4.8 there is no qdisc over Wi-Fi. Each station has its own queue, with FQ-CoDel in it, "
                "and the hardware holds two transmissions at most; the next is filled when it is its turn, with "
                f"whatever waits then. The ping takes {_ping(fq_mac)}. But turns are still turns: {told(fq_mac)}, "
                f"and the far one is on the air {_air(fq_mac, 2)} of the time.",
            ),
            (Show(2, "queue"), Show(2, "rtt"), Show(2, "throughput")),
        ),
        Block(
            "Turns of time",
            (
                "Since Linux 4.11 an access point (first with ath9k) counts the time that each station is on the "
                "air, received packets included. Who has used up its time waits until the others have used theirs. "
                f"Now the shares are {_air(airtime, 0)}, {_air(airtime, 1)} and {_air(airtime, 2)}, and "
                f"{told(airtime)}: {_goodputs(airtime)} in all, instead of {_goodputs(before)}.",
            ),
            (Show(3, "throughput"), Show(3, "rtt")),
        ),
        Block(
            "What it does not do",
            (
                "Nobody becomes faster than the air allows, and a far station does not get what a near one gets: it "
                "gets as much time. What is sent up contends with what is sent down and collides now and then: here "
                f"{percent(airtime['stations'][0]['collision_share'])} of the transmissions to and from a near "
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


def _ladder(runs: Sequence[Figures]) -> list[Block]:
    return [
        Block(heading, text, tuple(Show(run, key) for run, key in show)) for heading, text, show in ladder.steps(runs)
    ]


_POLICED = 'policer = { rate = "10Mbit", burst = "62.5kB" }\n'

LESSONS: dict[str, Lesson] = {
    "bufferbloat": Lesson(
        "Bufferbloat: a queue that fills",
        (
            "A buffer takes up bursts. One that is larger than needed does more: it fills, and everybody who shares "
            "the path waits behind it.",
        ),
        {
            "a thousand packets": _scenario('cc    = "cubic"\nstart = "5s"', buffer="1000p"),
            "one BDP": _scenario('cc    = "cubic"\nstart = "5s"'),
        },
        _bufferbloat,
    ),
    "bbr": Lesson(
        "BBR: startup, probe, drain and cruise",
        ("Most congestion controls send more until a packet is lost. BBR measures the path, and sends what it holds.",),
        {
            "BBR": _scenario('cc = "bbr"', rate="50Mbit", buffer="4bdp", duration="14s"),
            "CUBIC": _scenario('cc = "cubic"', rate="50Mbit", buffer="4bdp", duration="14s"),
        },
        _bbr,
        # The teeth of BBR are a round trip long: they need more rows than a picture of the whole has.
        sample_interval="10ms",
    ),
    "cubic": Lesson(
        "CUBIC: a curve of time",
        ("CUBIC is Linux's default. It grows by the clock: quickly, carefully, quickly again.",),
        {
            "CUBIC": _scenario('cc = "cubic"', rate="100Mbit", rtt="80ms", buffer="0.5bdp", duration="60s"),
            "Reno": _scenario('cc = "reno"', rate="100Mbit", rtt="80ms", buffer="0.5bdp", duration="60s"),
        },
        _cubic,
    ),
    "codel": Lesson(
        "CoDel: how long is too long",
        ("A queue discipline that lets bursts pass and speaks up against a queue that stands.",),
        {
            "fifo": _scenario('cc = "cubic"', buffer="1000p"),
            "CoDel": _scenario('cc = "cubic"', buffer="1000p", more='queue  = "codel"\n'),
            "CoDel, ten flows": _scenario('cc    = "cubic"\ncount = 10', buffer="1000p", more='queue  = "codel"\n'),
        },
        _codel,
        needs="codel",
    ),
    "fairness": Lesson(
        "Fairness: who wins at which buffer",
        ("The same two flows, the same path: the buffer decides who gets how much.",),
        {
            f"{buffer} BDP": _scenario(
                'cc = "bbr"', 'cc = "cubic"', rate="40Mbit", buffer=f"{buffer}bdp", duration="60s"
            )
            for buffer in _BUFFERS
        },
        _fairness,
    ),
    "policer": Lesson(
        "A policer: a rate without a queue",
        ("What is sold as 10 Mbit/s may be kept by letting packets wait, or by dropping them. Senders feel it.",),
        {
            "CUBIC, shaper": _scenario('cc = "cubic"', rate="10Mbit"),
            "CUBIC, policer": _scenario('cc = "cubic"', rate="100Mbit", more=_POLICED),
            "BBR, policer": _scenario('cc = "bbr"', rate="100Mbit", more=_POLICED),
        },
        _policer,
    ),
    "wifi": Lesson(
        "Wi-Fi: why one slow station slowed everybody, and what changed",
        (
            "On Wi-Fi only one may speak at a time. What everybody shares is not bits but time, and a slow station "
            "needs more of it for the same packet.",
        ),
        {
            "two near stations": _air_scenario("before", far=False),
            "and a far one, before": _air_scenario("before"),
            "a queue for each station": _air_scenario("fq_mac"),
            "airtime fairness": _air_scenario("airtime"),
        },
        _wifi,
    ),
    "ladder": Lesson(
        "The ladder: from Linux 3.2 to 4.13",
        (
            "Where a host's own interface is the narrow place, the queue is in the host. Release by release it became "
            "shorter.",
        ),
        ladder.scenarios(),
        _ladder,
        needs="fq",
    ),
}  # fmt: skip
"""Every lesson by its name on the command line."""
