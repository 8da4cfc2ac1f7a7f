"""The ladder: what Linux 3.3 to 4.13 did about the queue in a sender's own host, one release after the other.

One host sends through its own interface of 100 Mbit/s: something large without end, and now and then a page.
On each rung one thing more is as in the release that brought it. The scenarios are scenarios/ladder in the repository.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from narrows.render import plot
from narrows.render.words import number

if TYPE_CHECKING:
    from os import PathLike

    from matplotlib.figure import Figure

Figures = dict[str, Any]


@dataclass(frozen=True)
class Rung:
    """One release.

    Attributes:
        since: Of Linux.
        date: Of that release.
        what: What it brought, in a few words.
        source: Where that stands: the commit's subject.
        host: The keys of `[host]` that are otherwise from here on.
        cc: The congestion control, from here on.
        beyond: Is it tried on the narrower path, too?
    """

    since: str
    date: str
    what: str
    source: str
    host: dict[str, str] = field(default_factory=dict)
    cc: str | None = None
    beyond: bool = False

    @property
    def name(self) -> str:
        """As pictures and tables call it."""
        return f"{self.since} {self.what}"


RUNGS = (
    Rung(
        "3.2", "January 2012", "before", "",
        {
            "ring": "256", "bql": "false", "qdisc": '"pfifo_fast"', "tsq": "false", "autosize": "false",
            "pacing": '"off"', "hz": "250", "clock": '"jiffies"',
        },
        "cubic", beyond=True,
    ),
    Rung("3.3", "March 2012", "BQL", "bql: Byte queue limits (Herbert)", {"bql": "true"}),
    Rung("3.5", "July 2012", "fq_codel", "fq_codel: Fair Queue Codel AQM (Dumazet)", {"qdisc": '"fq_codel"'}),
    Rung("3.6", "September 2012", "small queues", "tcp: TCP Small Queues (Dumazet)", {"tsq": '"128KiB"'}),
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
        "3.15", "June 2014", "microseconds", "tcp: switch rtt estimations to usec resolution (Dumazet)",
        {"clock": '"us"'}, beyond=True,
    ),
    Rung("4.9", "December 2016", "BBR", "tcp_bbr: add BBR congestion control (Cardwell)", {}, "bbr", beyond=True),
    Rung(
        "4.13", "September 2017", "pacing by TCP", "tcp: internal implementation for pacing (Dumazet)",
        {"qdisc": '"fq_codel"'}, beyond=True,
    ),
)  # fmt: skip
"""From the bottom."""

_PATH = 'rate   = "1Gbit"\nrtt    = "20ms"\nbuffer = "1000p"\n'
_BEYOND = 'rate   = "20Mbit"\nrtt    = "20ms"\nbuffer = "4bdp"\n'


def scenario(rung: int, *, beyond: bool = False) -> str:
    """A rung as a scenario, without a title; `beyond`: on a path that is narrower farther on."""
    host: dict[str, str] = {}
    cc = ""
    for below in RUNGS[: rung + 1]:
        host |= below.host
        cc = below.cc or cc
    own = "".join(f"{key:<8} = {value}\n" for key, value in host.items())
    return (
        f'duration = "30s"\nwarmup   = "5s"\n\n[path]\n{_BEYOND if beyond else _PATH}\n'
        '[host]\nlike     = "linux-4.15"\nrmem     = "128KiB…6MiB"\nwmem     = "16KiB…4MiB"\nnic      = "100Mbit"\n'
        f'{own}\n[[flow]]\ncc = "{cc}"\nid = "large"\n\n'
        "# A browser on the other side: look-up, handshakes, 30 objects on six connections.\n"
        f'[[flow]]\ncc       = "{cc}"\nid       = "page"\nstart    = "6s"\n'
        'workload = { kind = "web", objects = 30, total = "300kB", pages = 10, think = "1s" }\n'
        '\n[[probe]]\nkind = "ping"\n\n# Type of service "low delay", as ssh asks for.\n'
        '[[probe]]\nkind = "ping"\ndscp = 4\n'
    )


def file(rung: int) -> tuple[str, str]:
    """The name and the text of a rung's file in scenarios/ladder."""
    it = RUNGS[rung]
    name = f"{rung + 1:02}-{it.what.lower().replace(' ', '-')}.toml"
    asked = "with Linux 3.2" if rung == 0 else f"since Linux {it.since}: {it.what}"
    text = f"# How long does a click wait in its own host, {asked}?\n"
    if it.source:
        text += f"# {it.source}\n"
    return name, f'{text}title    = "Linux {it.name}"\n{scenario(rung)}'


def scenarios() -> dict[str, str]:
    """Every run of the ladder: first each rung, then those that are tried farther on."""
    return {rung.name: scenario(i) for i, rung in enumerate(RUNGS)} | {
        f"farther on, {rung.name}": scenario(i, beyond=True) for i, rung in enumerate(RUNGS) if rung.beyond
    }


@dataclass(frozen=True)
class Row:
    """What a rung comes to: milliseconds, but for shares and counts."""

    ping: float
    ping_p95: float
    low_delay_p95: float
    page: float
    large_mbit: float
    large_rtt: float
    again: int
    dropped: int


def row(figures: Figures) -> Row:
    """Of one run."""
    large, page = figures["flows"]
    ping, low_delay = (probe["rtt_ms"] for probe in figures["probes"])
    return Row(
        ping=ping["p50"],
        ping_p95=ping["p95"],
        low_delay_p95=low_delay["p95"],
        page=1000 * page["workload"]["page_load_s"]["p50"],
        large_mbit=large["goodput_mbit"],
        large_rtt=large["rtt_ms"]["mean"],
        again=sum(flow["retransmits"] for flow in figures["flows"]),
        dropped=figures["queues"][-1]["drops"],
    )


def picture(rows: Sequence[Row], file: str | PathLike[str] | None = None) -> Figure:
    """The rungs from the top: what a ping waits beyond the path's own 20 ms and what a page takes; logarithmic scales.

    Raises:
        NarrowsError: If Matplotlib is not installed.
        OutputError: If the file cannot be written.
    """
    mpl = plot.matplotlib()
    from matplotlib.figure import Figure as New  # noqa: PLC0415 - without pyplot: no window, no state of its own

    format_ = plot.check(file) if file is not None else None
    names = [f"{rung.name} ({rung.date[-4:]})" for rung in RUNGS]
    with mpl.rc_context({"svg.hashsalt": "narrows", "font.size": 9, "axes.titlesize": 9}):
        figure = New(figsize=(8, 3.2), layout="constrained")
        axes: Any = figure.subplots(1, 2, sharey=True)
        for at, title, values in (
            (axes[0], "ping in its own host, 95 %: ms beyond the path", [of.ping_p95 - 20 for of in rows]),
            (axes[1], "a page of 30 objects: ms", [of.page for of in rows]),
        ):
            bars = at.barh(names, values, color="#3b6ea5")
            at.bar_label(bars, [number(value, 0 if value >= 100 else 1) for value in values], padding=3)  # noqa: PLR2004
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
            plot.write(figure, file, format_)
    return figure


HEADS = (
    "ping, half",
    "ping, 95 %",
    "low delay, 95 %",
    "page",
    "large Mbit/s",
    "large RTT",
    "sent again",
    "dropped here",
)
"""Of a table of rows, in milliseconds where nothing else is said."""


def cells(of: Row) -> tuple[str, ...]:
    """Of a table."""
    return (
        *(number(x, 0 if x >= 100 else 1) for x in (of.ping, of.ping_p95, of.low_delay_p95)),  # noqa: PLR2004
        number(of.page, 0), number(of.large_mbit), number(of.large_rtt, 1), str(of.again), str(of.dropped),
    )  # fmt: skip


def told(name: str, of: Row) -> str:
    """A row as a sentence."""
    return (
        f"{name}: ping {number(of.ping)} ms, 95 % within {number(of.ping_p95)} ms, of low delay within "
        f"{number(of.low_delay_p95)} ms; a page takes {number(of.page, 0)} ms; the large one gets "
        f"{number(of.large_mbit)} Mbit/s at a round trip of {number(of.large_rtt)} ms; {of.again} sent again."
    )


_BAR = 8.0
"""Milliseconds of waiting beyond the path's own 20 that a sign of a bar stands for."""

_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(name: str, of: Row) -> str:
    """How much longer than the path's own round trip 95 % of the pings take at most."""
    eighths = max(1, round(8 * (of.ping_p95 - 20) / _BAR))
    drawn = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
    return f"{name:<18} {drawn} {number(of.ping_p95)} ms"


Step = tuple[str, tuple[str, ...], tuple[tuple[int, str], ...]]
"""A heading, its text, and pictures: the place of a run, and which."""


def steps(runs: Sequence[Figures]) -> list[Step]:
    """The lesson."""
    rows = [row(run) for run in runs]
    home, beyond = rows[: len(RUNGS)], rows[len(RUNGS) :]
    by = {rung.what: of for rung, of in zip(RUNGS, home, strict=True)}
    tried = [rung for rung in RUNGS if rung.beyond]
    before, bql, codel, small = by["before"], by["BQL"], by["fq_codel"], by["small queues"]
    sizes, fq, us, bbr = by["autosizing"], by["fq"], by["microseconds"], by["BBR"]
    far = {rung.what: of for rung, of in zip(tried, beyond, strict=True)}
    return [
        (
            "The ladder",
            (
                "A host sends through its own interface of 100 Mbit/s, which is the narrow place; the path takes 20 ms."
                " Something large is sent without end, now and then somebody fetches a page of 30 objects."
                " 95 % of the pings take no longer than:",
                *(bar(rung.name, of) for rung, of in zip(RUNGS, home, strict=True)),
            ),
            (),
        ),
        (
            "All of it, in numbers",
            tuple(told(rung.name, of) for rung, of in zip(RUNGS, home, strict=True)),
            (),
        ),
        (
            "A ring that nobody sees into",
            (
                "In 3.2 the device takes 256 super-packets of up to 64 KiB before any queue discipline has a say. "
                f"Everybody waits behind what the large transfer has put there: {number(before.ping_p95)} ms.",
                "Byte queue limits give the device only what keeps it busy. What waits is as much as before, but it "
                "waits in the queue discipline, where the next fix can see it; and who asks for low delay passes it: "
                f"{number(bql.low_delay_p95)} ms.",
            ),
            ((0, "rtt"), (1, "rtt")),
        ),
        (
            "A queue for each, and a law",
            (
                "fq_codel gives each flow a queue of its own and drops where packets wait too long: "
                f"{number(codel.ping_p95)} ms, and a page in {number(codel.page, 0)} ms instead of "
                f"{number(before.page, 0)}. Its price are {codel.dropped} drops in the sender's own host, of packets "
                "that had got nowhere.",
                "Small queues ask TCP itself not to hand down what would only wait: "
                f"{small.dropped} drops. 128 KiB of each connection are 10 ms here; at a tenth of the rate they "
                "would be 100.",
            ),
            ((2, "rtt"), (2, "losses")),
        ),
        (
            "Smaller bursts",
            (
                "A super-packet of 64 KiB takes 5 ms on this wire, and nothing passes it. Sized by the rate of the "
                "flow, a millisecond of it, with small queues of that size, it takes one: "
                f"{number(sizes.ping_p95)} ms instead of {number(small.ping_p95)}.",
                f"fq paces what TCP hands it ({number(fq.ping_p95)} ms). Until 3.15 the rate came from round trips in "
                f"ticks of 4 ms; in microseconds it is right: {number(us.ping_p95)} ms.",
            ),
            ((4, "rtt"), (6, "rtt")),
        ),
        (
            "Farther on",
            (
                "Then the same host on a path with a narrower place behind it: 20 Mbit/s, and a buffer of four "
                "bandwidth-delay products that is nobody's to change. No queue of its own matters there:",
                *(told(rung.name, of) for rung, of in zip(tried, beyond, strict=True)),
                "Only a sender that does not fill the buffer helps there: with BBR half of the pings take "
                f"{number(far['BBR'].ping)} ms instead of {number(far['microseconds'].ping)}. In its own host it "
                f"changes little: {number(bbr.ping_p95)} ms. It has to be paced; before 4.13 that took fq, since then "
                "TCP does it by itself.",
            ),
            ((len(RUNGS), "queue"), (len(RUNGS) + tried.index(RUNGS[7]), "queue")),
        ),
    ]
