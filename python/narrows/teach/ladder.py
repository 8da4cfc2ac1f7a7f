"""The lesson `ladder` of `narrows explain`: how Linux 3.3 to 4.13 shortened the queue in the
sending host.

A host sends a bulk transfer and web pages through its interface of 100 Mbit/s. Each step enables
one more change of Linux, in the order of the releases. The scenario files are in scenarios/ladder
of the repository.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from narrows.render import plot
from narrows.render.words import number
from narrows.runs.model import measured

if TYPE_CHECKING:
    from os import PathLike

    from narrows.render.figure import Figure
    from narrows.runs.model import RunJson


@dataclass(frozen=True)
class Rung:
    """A step: a change of a Linux release.

    Attributes:
        since: Release of Linux that introduced the change.
        date: Date of the release.
        what: Name of the change.
        source: Subject of the commit, with its author.
        host: Keys of `[host]` that change with this step.
        cc: Congestion control from this step on.
        beyond: True if the step is also run on a path whose bottleneck is outside the host.
        added: True for a step whose file has the number of the step before it and a letter.
    """

    since: str
    date: str
    what: str
    source: str
    host: dict[str, str] = field(default_factory=dict)
    cc: str | None = None
    beyond: bool = False
    added: bool = False

    @property
    def name(self) -> str:
        """The label of the step in plots and tables."""
        return f"{self.since} {self.what}"


RUNGS = (
    Rung(
        "3.2", "January 2012", "before", "",
        {
            "ring": "256", "bql": "false", "qdisc": '"pfifo_fast"', "tsq": "false",
            "autosize": "false",
            "pacing": '"off"', "hz": "250", "clock": '"jiffies"',
        },
        "cubic", beyond=True,
    ),
    Rung("3.3", "March 2012", "BQL", "bql: Byte queue limits (Herbert)", {"bql": "true"}),
    Rung(
        "3.4", "May 2012", "SFQ with RED",
        "net_sched: sfq: add optional RED on top of SFQ (Dumazet)",
        # The example of tc-sfq(8), without ECN.
        {
            "qdisc": '{ kind = "sfq", redflowlimit = "100kB", min = "8kB", max = "60kB", '
            "probability = 0.2 }"
        },
        added=True,
    ),
    Rung("3.5", "July 2012", "fq_codel", "fq_codel: Fair Queue Codel AQM (Dumazet)",
    {"qdisc": '"fq_codel"'}),
    Rung("3.6", "September 2012", "small queues", "tcp: TCP Small Queues (Dumazet)",
    {"tsq": '"128KiB"'}),
    Rung(
        "3.12", "November 2013", "autosizing",
        "tcp: TSO packets automatic sizing; tcp: TSQ can use a dynamic limit (Dumazet)",
        {"autosize": "true", "tsq": "true"}, beyond=True,
    ),
    Rung(
        "3.12", "November 2013", "fq", "pkt_sched: fq: Fair Queue packet scheduler (Dumazet)",
        {"qdisc": '"fq"', "pacing": '"auto"'}, beyond=True,
    ),
    Rung(
        "3.15", "June 2014", "microseconds", "tcp: switch rtt estimations to usec resolution "
                                             "(Dumazet)",
        {"clock": '"us"'}, beyond=True,
    ),
    Rung("4.9", "December 2016", "BBR", "tcp_bbr: add BBR congestion control (Cardwell)", {},
    "bbr", beyond=True),
    Rung(
        "4.13", "September 2017", "pacing by TCP", "tcp: internal implementation for pacing "
                                                   "(Dumazet)",
        {"qdisc": '"fq_codel"'}, beyond=True,
    ),
)  # fmt: skip
"""The steps, in the order of the releases."""

BEYOND = "20 Mbit/s bottleneck, "
"""Prefix of the names of the scenarios in which the bottleneck is a link outside the host."""

_PATH = 'rate   = "1Gbit"\nrtt    = "20ms"\nbuffer = "1000p"\n'
_BEYOND = 'rate   = "20Mbit"\nrtt    = "20ms"\nbuffer = "4bdp"\n'


def scenario(rung: int, *, beyond: bool = False) -> str:
    """Text of the scenario of a step, without a title. With `beyond`, the bottleneck is a link
    outside the host.
    """
    host: dict[str, str] = {}
    cc = ""
    for below in RUNGS[: rung + 1]:
        host |= below.host
        cc = below.cc or cc
    own = "".join(f"{key:<8} = {value}\n" for key, value in host.items())
    return (
        f'duration = "30s"\nwarmup   = "5s"\n\n[path]\n{_BEYOND if beyond else _PATH}\n'
        '[host]\nlike     = "linux-4.15"\nrmem     = "128KiB…6MiB"\nwmem     = "16KiB…4MiB"\nnic  '
        '    = "100Mbit"\n'
        f'{own}\n[[flow]]\ncc = "{cc}"\nid = "large"\n\n'
        "# A browser on the other side: DNS query, handshakes, 30 objects on six connections.\n"
        f'[[flow]]\ncc       = "{cc}"\nid       = "page"\nstart    = "6s"\n'
        'workload = { kind = "web", objects = 30, total = "300kB", pages = 10, think = "1s" }\n'
        '\n[[probe]]\nkind = "ping"\n\n# Type of service "low delay", as set by ssh.\n'
        '[[probe]]\nkind = "ping"\ndscp = 4\n'
    )


def file(rung: int) -> tuple[str, str]:
    """Name and text of the scenario file of a step in scenarios/ladder."""
    it = RUNGS[rung]
    number = f"{sum(not step.added for step in RUNGS[: rung + 1]):02}{'b' if it.added else ''}"
    name = f"{number}-{it.what.lower().replace(' ', '-')}.toml"
    step = "Linux 3.2" if rung == 0 else f"Linux {it.since}: {it.what}"
    text = f"# How long are packets queued in the sending host with {step}?\n"
    if it.source:
        text += f"# Commit: {it.source}\n"
    return name, f'{text}title    = "Linux {it.name}"\n{scenario(rung)}'


def scenarios() -> dict[str, str]:
    """Texts of the scenarios by name: those of all steps, then those with a bottleneck outside the
    host.
    """
    return {rung.name: scenario(i) for i, rung in enumerate(RUNGS)} | {
        f"{BEYOND}{rung.name}": scenario(i, beyond=True)
        for i, rung in enumerate(RUNGS)
        if rung.beyond
    }


@dataclass(frozen=True)
class Row:
    """Results of a step; times are in ms, goodputs in Mbit/s."""

    ping: float
    ping_p95: float
    low_delay_p95: float
    page: float
    large_mbit: float
    large_rtt: float
    again: int
    dropped: int


def row(figures: RunJson) -> Row:
    """The results of one run of a step."""
    large, page = figures["flows"]
    ping, low_delay = (probe["rtt_ms"] for probe in figures["probes"])
    return Row(
        ping=measured(ping["p50"]),
        ping_p95=measured(ping["p95"]),
        low_delay_p95=measured(low_delay["p95"]),
        page=1000 * page["workload"]["page_load_s"]["p50"],
        large_mbit=measured(large["goodput_mbit"]),
        large_rtt=measured(large["rtt_ms"]["mean"]),
        again=sum(flow["retransmits"] for flow in figures["flows"]),
        dropped=figures["queues"][-1]["drops"],
    )


def picture(rows: Sequence[Row], file: str | PathLike[str] | None = None) -> Figure:
    """Draws the queueing delay of the ping (p95 of its RTT minus 20 ms) and the median page load
    time of each step. The scales are logarithmic.

    Raises:
        NarrowsError: If Matplotlib is not installed.
        OutputError: If the file cannot be written.
    """
    mpl = plot.matplotlib()
    format_ = plot.check(file) if file is not None else None
    names = [f"{rung.name} ({rung.date[-4:]})" for rung in RUNGS]
    with mpl.rc_context({"font.size": 9, "axes.titlesize": 9}):
        figure = plot.new_figure(figsize=(8, 3.2), layout="constrained")
        axes: Any = figure.subplots(1, 2, sharey=True)
        for at, title, values in (
            (axes[0], "queueing delay of the ping, p95, in ms", [of.ping_p95 - 20 for of in rows]),
            (axes[1], "median page load time (30 objects), in ms", [of.page for of in rows]),
        ):
            bars = at.barh(names, values, color="#3b6ea5")
            at.bar_label(
                bars,
                [number(value, 0 if value >= 100 else 1) for value in values],  # noqa: PLR2004
                padding=3,
            )
            at.set_xscale("log")
            least, most = 0.5 * min(values), 4 * max(values)
            decades = [10.0**power for power in range(6) if least <= 10.0**power <= most]
            at.set_xticks(decades, [number(ms, 0) for ms in decades])
            at.set_xticks([], minor=True)
            at.set_xlim(least, most)
            at.grid(axis="x", color="#d0d0d0", linewidth=0.6)
            at.set_axisbelow(b=True)
            at.set_xlabel("logarithmic")
            at.set_title(title, loc="left")
            at.spines[["top", "right"]].set_visible(False)
        axes[0].invert_yaxis()
        if file is not None:
            plot.write(figure, file, format_, kernels=["linux-4.15"])
    return figure


HEADS = (
    "ping p50 ms",
    "ping p95 ms",
    "low-delay ping p95 ms",
    "page load p50 ms",
    "bulk goodput Mbit/s",
    "bulk RTT mean ms",
    "retransmits",
    "drops in the host",
)
"""Headings of the columns."""


def _ms(x: float | None) -> str:
    return number(x, 0 if x is not None and x >= 100 else 1)  # noqa: PLR2004


def cells(of: Row) -> tuple[str, ...]:
    """The cells of a table row for the results of a step."""
    return (
        _ms(of.ping), _ms(of.ping_p95), _ms(of.low_delay_p95),
        number(of.page, 0), number(of.large_mbit), number(of.large_rtt, 1), str(of.again),
        str(of.dropped),
    )  # fmt: skip


def sentence(name: str, of: Row) -> str:
    """The results of a step as a sentence."""
    return (
        f"{name}: ping RTT median {number(of.ping)} ms, p95 {number(of.ping_p95)} ms, p95 with "
        f"low-delay type of service {number(of.low_delay_p95)} ms; median page load time "
        f"{number(of.page, 0)} ms; bulk transfer {number(of.large_mbit)} Mbit/s with a mean RTT "
        f"of {number(of.large_rtt)} ms; {of.again} retransmits."
    )


_BAR = 8.0
"""Queueing delay, in ms, for each character of a bar."""

_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(name: str, of: Row) -> str:
    """A line with the queueing delay of the ping (p95) as a bar, and the p95 of its RTT as a
    number.
    """
    eighths = max(1, round(8 * (of.ping_p95 - 20) / _BAR))
    drawn = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
    return f"{name:<18} {drawn} {number(of.ping_p95)} ms"


Step = tuple[str, tuple[str, ...], tuple[tuple[int, str], ...]]
"""A section of the lesson: heading, paragraphs, and plots. A plot is the index of a run and the key
of the picture."""


def steps(runs: Sequence[RunJson]) -> list[Step]:
    """The sections of the lesson, computed from the runs in the order of `scenarios`."""
    rows = [row(run) for run in runs]
    home, beyond = rows[: len(RUNGS)], rows[len(RUNGS) :]
    by = {rung.what: of for rung, of in zip(RUNGS, home, strict=True)}
    tried = [rung for rung in RUNGS if rung.beyond]
    before, bql, codel, small = by["before"], by["BQL"], by["fq_codel"], by["small queues"]
    sizes, fq, us, bbr = by["autosizing"], by["fq"], by["microseconds"], by["BBR"]
    far = {rung.what: of for rung, of in zip(tried, beyond, strict=True)}
    return [
        (
            "Overview",
            (
                "A host sends through its interface of 100 Mbit/s, which is the bottleneck. The "
                "base RTT is 20 ms. The "
                "load is a bulk transfer, and a browser that fetches pages of 30 objects. The bars "
                "show the queueing delay of the ping; the numbers are the 95th percentiles of its "
                "RTT:",
                *(bar(rung.name, of) for rung, of in zip(RUNGS, home, strict=True)),
            ),
            (),
        ),
        (
            "All results",
            tuple(sentence(rung.name, of) for rung, of in zip(RUNGS, home, strict=True)),
            (),
        ),
        (
            "The ring of the device",
            (
                "In Linux 3.2, the ring of the device holds 256 super-packets of up to 64 KiB, "
                "below any queue "
                "discipline. All packets wait behind those of the bulk transfer: the 95th "
                "percentile of the ping is "
                f"{number(before.ping_p95)} ms.",
                "Byte queue limits restrict the ring to the data that keeps the device busy. The "
                "queue is as long as "
                "before, but it is in the queue discipline, which can reorder packets. Packets "
                "with low-delay type of "
                "service are served first; their 95th percentile is "
                f"{number(bql.low_delay_p95)} ms.",
            ),
            ((0, "rtt"), (1, "rtt")),
        ),
        (
            "Fair queueing, AQM and small queues",
            (
                "fq_codel gives each flow its own queue and drops packets that wait too long. The "
                "95th percentile of "
                f"the ping is {number(codel.ping_p95)} ms, and the median page load time is "
                f"{number(codel.page, 0)} ms instead of "
                f"{number(before.page, 0)} ms. The cost is {codel.dropped} packets that are "
                "dropped in the sending "
                "host.",
                "TCP small queues limit the data that TCP passes to the queue discipline to 128 "
                "KiB per connection. "
                f"The number of drops is {small.dropped}. 128 KiB correspond to 10 ms at 100 "
                "Mbit/s, and to 100 ms at "
                "10 Mbit/s.",
            ),
            ((2, "rtt"), (2, "losses")),
        ),
        (
            "Autosizing and pacing",
            (
                "A super-packet of 64 KiB occupies this interface for 5 ms. TSO autosizing limits "
                "super-packets to one millisecond of the rate of the flow. Small queues have the "
                "same limit, but at least two super-packets. The 95th percentile of "
                "the ping is "
                f"{number(sizes.ping_p95)} ms instead of {number(small.ping_p95)} ms.",
                f"With fq, which paces each flow, it is {number(fq.ping_p95)} ms. Before Linux "
                "3.15, the pacing rate was computed from RTTs in ticks, here of 4 ms. With RTTs in "
                f"microseconds, the 95th percentile is {number(us.ping_p95)} ms.",
            ),
            ((4, "rtt"), (6, "rtt")),
        ),
        (
            "A bottleneck outside the host",
            (
                "The same host sends over a second path. The bottleneck of this path is a link of "
                "20 Mbit/s outside the host, with a buffer of four bandwidth-delay products. The "
                "queue disciplines of the host do not shorten the queue of this link:",
                *(sentence(rung.name, of) for rung, of in zip(tried, beyond, strict=True)),
                "Only a congestion control that does not fill the buffer reduces the delay. With "
                "BBR, the median of "
                f"the ping is {number(far['BBR'].ping)} ms instead of "
                f"{number(far['microseconds'].ping)} ms. If the "
                f"interface is the bottleneck, BBR has little effect: the 95th percentile is "
                f"{number(bbr.ping_p95)} ms instead of {number(us.ping_p95)} ms. BBR requires "
                "pacing. Before Linux 4.13, only fq paced; since then, TCP also paces by itself.",
            ),
            ((len(RUNGS), "queue"), (len(RUNGS) + tried.index(RUNGS[7]), "queue")),
        ),
    ]
