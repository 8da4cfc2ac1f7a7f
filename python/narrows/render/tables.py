"""The tables of a run. `narrows run` prints them, and the report page shows the same cells.

Each cell contains the path of its value in the JSON of the run (`flows.0.goodput_mbit`), so that a
test can compare both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from narrows.render.words import number, percent, seconds, some, waited

if TYPE_CHECKING:
    from narrows.json_object import JsonObject
    from narrows.runs.model import ClassJson, QueueJson, RunJson, Spread

MOST_ROWS = 200
"""Maximum number of flows, stations or links in a table; if there are more, the first ones are
shown."""

_WAITS = ("mean", "p50", "p95", "p99")

_EMPTY = "–"
"""A cell without a value."""

_WHOLE = "packets, whole run"
"""Heading of the last column of the table of queues and probes."""


class Cell(NamedTuple):
    """The text of a cell and the path of its value in the JSON; the path is empty if the text is
    not a value.
    """

    text: str
    path: str = ""


class Table(NamedTuple):
    """A table: columns of words first, then columns of numbers."""

    caption: str
    words: tuple[str, ...]
    numbers: tuple[str, ...]
    rows: list[list[Cell]]

    def _repr_html_(self) -> str:
        """The table as HTML, for notebooks."""
        from narrows.render.html import table  # noqa: PLC0415

        return table(self)


def interval(figures: RunJson) -> str:
    """A sentence that states the time that the tables of a run cover.

    >>> interval({"scenario": {"warmup": "2s"}})
    'Values after the warm-up (the first 2 s), except in the column "packets, whole run":'
    >>> interval({"scenario": {"warmup": "0s"}})
    'Values of the whole run:'
    """
    warmup = figures["scenario"]["warmup"]
    length = warmup.rstrip("nums")
    if not float(length):
        return "Values of the whole run:"
    first = f"{length} {warmup.removeprefix(length)}"
    return f'Values after the warm-up (the first {first}), except in the column "{_WHOLE}":'


def flows(figures: RunJson, most: int | None = None) -> Table:
    """A row per flow, of the first `most`."""
    sized = any("size" in flow for flow in figures["scenario"].get("flow", []))
    rows = []
    for i, flow in enumerate(figures["flows"][:most]):
        at = f"flows.{i}"
        row = [
            Cell(flow["id"], f"{at}.id"),
            Cell(flow["cc"], f"{at}.cc"),
            Cell(number(flow["goodput_mbit"], 2), f"{at}.goodput_mbit"),
            Cell(waited(flow["rtt_ms"]["mean"]), f"{at}.rtt_ms.mean"),
            Cell(waited(flow["rtt_ms"]["p95"]), f"{at}.rtt_ms.p95"),
            Cell(
                str(flow.get("summary_retransmits", flow["retransmits"])),
                f"{at}.summary_retransmits",
            ),
            Cell(
                percent(flow.get("summary_retransmit_rate", flow["retransmit_rate"])),
                f"{at}.summary_retransmit_rate",
            ),
            Cell(number(flow["cwnd_packets"]["mean"]), f"{at}.cwnd_packets.mean"),
        ]
        if sized:
            row.append(Cell(seconds(flow["fct_s"]), f"{at}.fct_s"))
        rows.append(row)
    head = [
        "goodput Mbit/s",
        "RTT mean ms",
        "RTT p95 ms",
        "retransmits",
        "retransmission rate",
        "cwnd mean packets",
    ]
    return Table("Flows", ("flow", "cc"), (*head, *(["done after s"] if sized else [])), rows)


def waits(figures: RunJson) -> Table:
    """A row for each queue, for each class or band of a queue, and for each probe. The last column
    counts packets over the whole run.
    """
    rows = []
    queues = figures["queues"]
    for i, queue in enumerate(queues):
        at = f"queues.{i}"
        counts = Cell(
            f"{queue['drops']} dropped, {queue['marks']} marked", f"{at}.drops {at}.marks"
        )
        name = _queue_label(queue["name"], alone=len(queues) == 1, wifi=has_stations(figures))
        rows.append([Cell(name), *_waiting(queue, at), counts])
        # Bands without packets are left out, and stations have a separate table.
        classes = [] if has_stations(figures) else queue.get("classes", [])
        used = ((k, c) for k, c in enumerate(classes) if c["delay_ms"]["mean"] is not None)
        matched = _matched(figures, queue["name"])
        rows += [
            [
                _class_label(part["name"], matched, f"{at}.classes.{k}.name"),
                *_waiting(part, f"{at}.classes.{k}"),
                _counted(part, f"{at}.classes.{k}"),
            ]
            for k, part in used
        ]
    for i, probe in enumerate(figures["probes"]):
        answered = Cell(
            f"{probe['received']} of {probe['sent']} answered",
            f"probes.{i}.received probes.{i}.sent",
        )
        rows.append(
            [
                Cell(_probe_label(figures, i)),
                *_spread(probe["rtt_ms"], f"probes.{i}.rtt_ms"),
                Cell(_EMPTY),
                answered,
            ]
        )
    head = (*(f"{which} ms" for which in _WAITS), "mean backlog packets", _WHOLE)
    return Table("Queueing delay and RTT", ("",), head, rows)


def _queue_label(name: str, *, alone: bool, wifi: bool) -> str:
    """The label of a queue's row. In Wi-Fi, the queue `air` holds packets from the first attempt to
    transmit them until their delivery. The queue `up` holds packets that wait at the stations.

    >>> _queue_label("path", alone=True, wifi=False), _queue_label("hop0", alone=False, wifi=False)
    ('queueing delay', 'queueing delay, hop0')
    """
    if alone:
        return "queueing delay"
    if wifi and name == "air":
        return "delay on the channel, with retries"
    return f"queueing delay, {'stations (upload)' if wifi and name == 'up' else name}"


def _matched(figures: RunJson, queue: str) -> dict[str, list[str]]:
    """The flows and probes that each class of a queue names, by the name of the class."""
    path = figures["scenario"].get("path", {})
    owner = path.get("reverse", {}) if queue == "reverse" else path
    if "link" in figures["scenario"]:
        owner = figures["scenario"]["link"].get(queue, {})
    written = owner.get("queue", {})
    classes = written.get("classes") if isinstance(written, dict) else None
    if not isinstance(classes, list):
        # Some queue disciplines only count their classes.
        return {}
    from narrows.render.class_tree import label  # noqa: PLC0415 - most runs have no classes

    return {label(one): flows for one in classes if (flows := one.get("match", {}).get("flow"))}


def _class_label(name: str, matched: dict[str, list[str]], path: str) -> Cell:
    """The label of a class's row, with the flows that the class names.

    >>> _class_label("1:5", {"1:5": ["tv", "router", "ping0"]}, "").text
    '  1:5 (tv, router and 1 more)'
    >>> _class_label("band 1", {}, "").text
    '  band 1'
    """
    flows = matched.get(name)
    return Cell(f"  {name} ({some(flows)})") if flows else Cell(f"  {name}", path)


def _probe_label(figures: RunJson, index: int) -> str:
    """The label of a probe's row, with its station if it has one. Several probes without stations
    have numbers, and their hosts if these are specified.

    >>> figures = {"probes": [{"kind": "ping"}] * 2, "scenario": {"probe": [{}, {"host": 3}]}}
    >>> _probe_label(figures, 0), _probe_label(figures, 1)
    ('ping0 RTT', 'ping1 RTT, host 3')
    """
    probes = figures["probes"]
    kind = probes[index]["kind"]
    written = figures["scenario"].get("probe", [])
    own = written[index] if index < len(written) else {}
    if station := own.get("station"):
        return f"{kind} RTT, {station}"
    number = f"{index}" if len(probes) > 1 else ""
    host = f", host {own['host']}" if number and own.get("host") else ""
    return f"{kind}{number} RTT{host}"


def _counted(part: ClassJson, at: str) -> Cell:
    """The counters of a class that can borrow bandwidth; an empty cell for other classes."""
    if "borrowed" not in part:
        return Cell(_EMPTY)
    words = f"{part['drops']} dropped, {part['borrowed']} of {part['sent_packets']} borrowed"
    return Cell(words, f"{at}.drops {at}.borrowed {at}.sent_packets")


def _waiting(queue: QueueJson | ClassJson, at: str) -> list[Cell]:
    """The queueing delay, in ms, and the mean backlog, in packets."""
    mean = Cell(number(queue["backlog_packets"]["mean"]), f"{at}.backlog_packets.mean")
    return [*_spread(queue["delay_ms"], f"{at}.delay_ms"), mean]


def _spread(of: Spread, at: str) -> list[Cell]:
    return [Cell(waited(of[which]), f"{at}.{which}") for which in _WAITS]


def has_stations(figures: RunJson) -> bool:
    """Whether the run simulated a Wi-Fi network."""
    return "stations" in figures


def stations(figures: RunJson, most: int | None = None) -> Table:
    """A row for each of the first `most` stations. Delays are medians over the packets to the
    station.
    """
    rows = []
    shown = figures["stations"][:most]
    levels = [level for level, delay in shown[0]["delay_ms"].items() if delay is not None]
    for i, station in enumerate(shown):
        at = f"stations.{i}"
        rows.append([
            Cell(station["name"], f"{at}.name"),
            Cell(number(station["goodput_mbit"], 2), f"{at}.goodput_mbit"),
            Cell(percent(station["airtime_share"]), f"{at}.airtime_share"),
            Cell(number(station["aggregate"]["frames"]), f"{at}.aggregate.frames"),
            Cell(number(station["aggregate"]["bytes"], 0), f"{at}.aggregate.bytes"),
            Cell(str(station["retries"]), f"{at}.retries"),
            *(Cell(waited((station["delay_ms"][x] or {})["p50"]),
            f"{at}.delay_ms.{x}.p50") for x in levels),
        ])  # fmt: skip
    head = (
        "goodput Mbit/s",
        "airtime share",
        "frames per aggregate",
        "bytes per aggregate",
        "retried frames",
    )
    return Table("Stations", ("station",), (*head, *(f"{level} p50 ms" for level in levels)), rows)


_REASONS: tuple[tuple[Literal["overflow", "aqm", "policer", "loss"], str], ...] = (
    ("overflow", "queue full"),
    ("aqm", "AQM"),
    ("policer", "policer"),
    ("loss", "random loss"),
)
"""The drop reasons of a link, and their columns."""


def measures_links(figures: RunJson) -> bool:
    """Whether the run has metrics of single links."""
    return any("utilisation" in queue for queue in figures["queues"])


def links(figures: RunJson, most: int | None = None) -> Table:
    """A row for each of the first `most` links, with its packets that were lost in the whole run by
    reason. Reasons that apply to no link have no column.
    """
    found = [(i, q) for i, q in enumerate(figures["queues"]) if "utilisation" in q]
    reasons = [
        (reason, head) for reason, head in _REASONS if any(q["lost"][reason] for _, q in found)
    ]
    marked = any(queue["marks"] for _, queue in found)
    rows = []
    for i, queue in found[:most]:
        at = f"queues.{i}"
        rows.append(
            [
                Cell(queue["name"], f"{at}.name"),
                Cell(number(queue.get("rate_mbit"), 2), f"{at}.rate_mbit"),
                Cell(number(queue.get("carried_mbit"), 2), f"{at}.carried_mbit"),
                Cell(f"{queue['carried_bytes']}", f"{at}.carried_bytes"),
                Cell(percent(queue.get("utilisation")), f"{at}.utilisation"),
                *(
                    Cell(waited(queue["delay_ms"][which]), f"{at}.delay_ms.{which}")
                    for which in ("mean", "p95")
                ),
                Cell(percent(queue.get("loss_rate")), f"{at}.loss_rate"),
                *(Cell(f"{queue['lost'][of]}", f"{at}.lost.{of}") for of, _ in reasons),
                *([Cell(f"{queue['marks']}", f"{at}.marks")] if marked else []),
            ]
        )
    head = (
        "rate Mbit/s",
        "carried Mbit/s",
        "carried bytes",
        "utilisation",
        "mean delay ms",
        "p95 delay ms",
        "loss rate",
        *(head for _, head in reasons),
        *(["marked"] if marked else []),
    )
    return Table("Links; columns with a drop reason cover the whole run", ("link",), head, rows)


def has_workloads(figures: RunJson) -> bool:
    """Whether a flow has a workload."""
    return any("workload" in flow for flow in figures["flows"])


def workloads(figures: RunJson, most: int | None = None) -> Table:
    """A row for each metric of the applications of the first `most` flows."""
    rows = []
    for i, flow in enumerate(figures["flows"][:most]):
        if "workload" in flow:
            rows += _seen(flow["id"], flow["workload"], f"flows.{i}.workload")
    return Table("Applications", ("flow", "metric"), ("value or mean", *_WAITS[1:]), rows)


def _seen(who: str, seen: JsonObject, at: str, of: str = "") -> list[list[Cell]]:
    """A row for each metric of an application, or of a size class of its transfers. Classes without
    completed transfers have no rows.
    """
    rows = []
    for name, value in seen.items():
        path, what = f"{at}.{name}", f"{of}{_said(name)}"
        if name == "kind":
            continue
        if isinstance(value, dict) and set(value) == set(_WAITS):
            spread = [Cell(significant(value[which]), f"{path}.{which}") for which in _WAITS]
            if value["mean"] is not None:
                rows.append([Cell(who), Cell(what, ""), *spread])
        elif isinstance(value, dict):
            for part, its in value.items():
                rows += (
                    _seen(who, its, f"{path}.{part}", f"{_said(part)}: ")
                    if its.get("completed", 1)
                    else []
                )
        else:
            share = name == "loss" or name.endswith("share")
            text = percent(value) if share else significant(value)
            rows.append(
                [Cell(who), Cell(what, ""), Cell(text, path), *(Cell(_EMPTY) for _ in _WAITS[1:])]
            )
    return rows


def _said(name: str) -> str:
    """The name of a metric in words, with its unit in the usual notation.

    >>> _said("page_load_s"), _said("received_mbit"), _said("to_10kB")
    ('page load s', 'received Mbit/s', 'to 10kB')
    """
    return name.replace("_", " ").replace("mbit", "Mbit/s")


def significant(value: float | None) -> str:
    """An integer unchanged, and any other number with four significant digits, but without a
    fraction from 10 000 on.

    >>> significant(62), significant(231.84), significant(0.04567), significant(None)
    ('62', '231.8', '0.04567', '–')
    >>> significant(12345.6)
    '12346'
    """
    if value is None:
        return "–"
    return (
        str(value)
        if isinstance(value, int)
        else f"{value:.4g}"
        if abs(value) < 1e4  # noqa: PLR2004
        else f"{value:.0f}"
    )
