"""The pictures of a run: the same for Matplotlib, the terminal and the report page.

The module draws columns of the run's tables as they are. A line is a column for one flow, one queue
or one probe. The label of every axis contains the unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from narrows.errors import NarrowsError
from narrows.render.picture import MOST_FLOWS, STATE, TIME, Line, Picture, Style
from narrows.render.words import has_links

if TYPE_CHECKING:
    from narrows.runs.run import Run

_FEW_QUEUES = 2
"""Maximum number of queues of a path whose lines are black and grey; more of them have colours."""

_LOSSES: tuple[tuple[str, str, Style], ...] = (
    ("dropped", "drops", "line"),
    ("marked", "marks", "dotted"),
)
"""The counters of a queue in the picture of losses, their columns and their line styles."""


def pictures(run: Run, also: Sequence[str] = ()) -> list[Picture]:
    """Every picture of a run, in the order of `EVERY`; pictures without data are left out. `also`
    may request `pacing` and `state`.

    Raises:
        NarrowsError: If the run took no samples.
    """
    if not run.columns("queue_samples")["t_s"]:
        raise NarrowsError(
            'there are no samples to draw; write a sample_interval that is not "off" and that is '
            "shorter than the run"
        )
    flows = list(_flows(run))
    # Senders of datagrams have neither RTT, window nor retransmits.
    senders = [one for one in flows if run.flows[one[0]]["cc"] != "udp"]
    queues, drawn = _queues(run), _drawn(run)
    each = "the queue" if len(queues) == 1 else "each queue"
    place = "the queue of the bottleneck" if len(queues) == 1 else each
    network = has_links(run.json)
    dotted = "" if network else "Dotted: rate of the path. "

    def colour(nth: int) -> int | None:
        return nth if network or len(queues) > _FEW_QUEUES else None

    throughput = Picture(
        "throughput", "Goodput", TIME, "goodput (Mbit/s)",
        "Acknowledged payload of each flow over the last tenth of a second (in runs shorter than "
        f"a second: a hundredth of the run) or since the previous sample. {dotted}"
        "After a loss is repaired, one ACK covers the data of several intervals. The curve "
        f"therefore has dips, and peaks above the rate.{drawn}",
        [*_column(flows, "goodput_mbit"), *_rate(run)],
    )  # fmt: skip
    rtt = Picture(
        "rtt", "Round-trip time", TIME, "RTT (ms)",
        f"Smoothed RTT of each sender, while it is connected. Points: RTTs of pings.{drawn}",
        [*_pings(run), *map(_measured, _column(senders, "rtt_ms"))],
    )  # fmt: skip
    window = Picture(
        "window", "Window and packets in flight", TIME, "packets",
        f"Congestion window of each flow. Dashed: packets in flight.{drawn}",
        [
            *_column(senders, "cwnd_packets", " cwnd"),
            *_column(senders, "in_flight_packets", " in flight", "dashed"),
        ],
    )  # fmt: skip
    queue = Picture(
        "queue", "Queue", TIME, "backlog (kB)", f"Bytes in {place}.",
        [
            Line(
                name,
                None,
                "line",
                rows["t_s"],
                [b / 1000 for b in rows["backlog_bytes"]],
                queue=colour(nth),
            )
            for nth, (name, rows) in enumerate(queues)
        ],
    )  # fmt: skip
    losses = Picture(
        "losses", "Losses and marks", TIME, "packets, cumulative",
        f"Packets dropped and marked by {each}, and packets retransmitted by each sender, "
        f"since the start.{drawn}",
        [
            *(
                Line(f"{name}: {what}", None, style, rows["t_s"], rows[of], queue=colour(nth))
                for what, of, style in _LOSSES
                for nth, (name, rows) in enumerate(queues)
                if of == "drops" or not network or _marks(run, name)
            ),
            *_column(senders, "retransmits", " retransmitted", "dashed"),
        ],
    )  # fmt: skip
    delay = Picture(
        "delay", "Distribution of delay", "delay (ms)", "share of packets",
        "Share of the packets whose queueing delay, and share of the pings whose RTT, is at most "
        "the delay on the x axis, after the warm-up.",
        list(_delays(run, [name for name, _ in queues], colour)),
    )  # fmt: skip
    work = Picture(
        "work", "Response times of applications", "time (ms)", "share",
        "Share of the pages, responses, transfers or datagrams of each flow with an application "
        "whose time is at most the time on the x axis.",
        list(_works(run)),
    )  # fmt: skip
    pacing = Picture(
        "pacing", "Pacing", TIME, "rate (Mbit/s)",
        "Pacing rate of each sender. A sender without pacing uses it only for the size of its "
        f"bursts. {dotted}".rstrip() + drawn,
        [*_column(senders, "pacing_mbit"), *_rate(run)],
    )  # fmt: skip
    every = [
        throughput,
        rtt,
        window,
        queue,
        losses,
        delay,
        work,
        *([pacing] if "pacing" in also else []),
        *(_states(run) if STATE in also else []),
    ]
    return [picture for picture in every if any(line.x for line in picture.lines)]


def _states(run: Run) -> Iterator[Picture]:
    """A picture for each state variable of the congestion controls. A named mode is drawn as a
    number, which the label explains.
    """
    values: dict[str, dict[str, tuple[list[float], list[float | None]]]] = {}
    modes: dict[str, int] = {}
    flows = {flow["id"]: place for place, flow in enumerate(run.flows)}
    places: dict[str, int] = {}
    for row in _rows(run.columns("states")):
        word = row["word"]
        value = row["value"] if word is None else float(modes.setdefault(word, len(modes)))
        connection = row["connection"]
        sender = row["flow"] if connection is None else f"{row['flow']} #{connection}"
        places.setdefault(sender, flows[row["flow"]])
        times, of = values.setdefault(row["name"], {}).setdefault(sender, ([], []))
        times.append(row["t_s"])
        of.append(value)
    for name, by_flow in values.items():
        numbers = ", ".join(f"{number} {mode}" for mode, number in modes.items())
        yield Picture(
            f"{STATE}.{name}",
            name,
            TIME,
            f"{name}: {numbers}" if name == "mode" else name,
            f"The value {name} of the congestion control of each flow, of a workload that of each "
            "connection (#).",
            [
                Line(sender, places[sender], "line", times, of)
                for sender, (times, of) in list(by_flow.items())[:MOST_FLOWS]
            ],
        )


Columns = Mapping[str, list[Any]]


def _rows(columns: Columns) -> Iterator[dict[str, Any]]:
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def _by(columns: Columns, name: str) -> dict[Any, Columns]:
    """The rows of the table, grouped by the values of a column, in the order in which the values
    first occur.
    """
    found: dict[Any, list[int]] = {}
    for at, value in enumerate(columns[name]):
        found.setdefault(value, []).append(at)
    return {
        value: {of: [values[at] for at in here] for of, values in columns.items()}
        for value, here in found.items()
    }


def _of(columns: Columns, name: str, value: object) -> Columns:
    """The rows with this value in the column `name`."""
    return _by(columns, name).get(value) or {of: [] for of in columns}


def _drawn(run: Run) -> str:
    flows = len(run.flows)
    return "" if flows <= MOST_FLOWS else f" The first {MOST_FLOWS} of {flows} flows are drawn."


def _flows(run: Run) -> Iterator[tuple[int, str, Columns]]:
    samples = run.columns("samples")
    by_flow = _by(samples, "flow")
    none: Columns = {name: [] for name in samples}
    for place, figures in enumerate(run.flows[:MOST_FLOWS]):
        yield place, figures["id"], by_flow.get(figures["id"], none)


def _column(
    flows: list[tuple[int, str, Columns]], name: str, suffix: str = "", style: Style = "line"
) -> Iterator[Line]:
    for place, id_, rows in flows:
        yield Line(id_ + suffix, place, style, rows["t_s"], rows[name])


def _measured(line: Line) -> Line:
    """Replaces RTTs of zero by None, because zero means that there is no RTT sample yet."""
    return replace(line, y=[y or None for y in line.y])


def _queues(run: Run) -> list[tuple[str, Columns]]:
    """The name and the samples of every queue; if there is only one queue, its name is `queue`."""
    rows = run.columns("queue_samples")
    names = [queue["name"] for queue in run.json["queues"]]
    if len(names) == 1:
        return [("queue", rows)]
    return [(name, _of(rows, "queue", name)) for name in names]


def _marks(run: Run, name: str) -> bool:
    """Whether the queue of a link may mark packets. A FIFO marks only above a threshold."""
    queue = run.json["scenario"]["link"].get(name, {}).get("queue", {"kind": "fifo"})
    return bool(queue.get("kind") != "fifo" or "mark_above" in queue)


def _rate(run: Run) -> Iterator[Line]:
    """The rate of the path. In a network of links, flows have different rates."""
    if has_links(run.json):
        return
    times = run.columns("queue_samples")["t_s"]
    path = run.json["path"]
    rate = path["rate_mbit"]
    yield Line(
        "mean rate of the path" if path["varies"] else "rate of the path",
        None,
        "dotted",
        [times[0], times[-1]],
        [rate, rate],
    )


def _pings(run: Run) -> Iterator[Line]:
    pings = run.columns("pings")
    for number in range(len(run.json["probes"])):
        rows = _of(pings, "probe", number)
        yield Line(f"ping{number}", None, "points", rows["t_s"], rows["rtt_ms"])


def _delays(run: Run, queues: list[str], colour: Callable[[int], int | None]) -> Iterator[Line]:
    delays = run.columns("delays")
    kinds: tuple[tuple[str, Style], ...] = (("queue", "line"), ("probe", "dashed"))
    for kind, style in kinds:
        for number, rows in _by(_of(delays, "of", kind), "number").items():
            if kind == "probe":
                label = f"ping{number} RTT"
            else:
                label = "queueing delay"
                if len(queues) > 1:
                    at = queues[number] if number < len(queues) else f"queue {number}"
                    label = f"{label} in {at}"
            of = colour(number) if kind == "queue" else None
            yield Line(label, None, style, rows["delay_ms"], rows["share"], queue=of)


_WAITS_FOR = {
    "web": "pages",
    "rpc": "responses",
    "poisson": "transfers",
    "empirical": "transfers",
    "partition": "queries",
    "gcc": "frames",
    "scream": "frames",
}


def _works(run: Run) -> Iterator[Line]:
    works = _of(run.columns("delays"), "of", "workload")
    for place, rows in _by(works, "number").items():
        flow = run.flows[place]
        label = f"{flow['id']}: {_WAITS_FOR.get(flow['workload']['kind'], 'datagrams')}"
        waits = rows["delay_ms"]
        # The curve starts at the share 0, so that even a single value gives a visible line.
        yield Line(label, place, "line", waits[:1] + waits, [0.0, *rows["share"]])
