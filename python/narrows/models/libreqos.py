"""The files of LibreQoS that describe the subscribers of an internet provider.

`ShapedDevices.csv` lists the devices of subscribers. Devices with the same circuit share its rates.
`network.json` is the tree of sites and access points with their bandwidths. An error has its place
in the file.

Sources: ShapedDevices.example.csv and network.example.json of LibreQoS 1.5.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from narrows.errors import NarrowsError, reason
from narrows.storage import untrusted_input
from narrows.storage.text import name_of

MOST_DEVICES = 2000
"""Maximum number of rows of ShapedDevices.csv, and of nodes of network.json."""
MOST_DEPTH = 6
"""Maximum depth of network.json: HTB has 8 levels, and root and circuits take two of them."""
MOST_HOSTS = 63
"""Maximum number of devices of a circuit: far hosts have a number of their own."""

RATES = ("Download Min Mbps", "Upload Min Mbps", "Download Max Mbps", "Upload Max Mbps")
NEEDED = ("Circuit ID", "Device ID", "Parent Node", *RATES)
"""The columns that are read; LibreQoS also has names, addresses and a comment."""

LEAST_MBPS, _MOST_MBPS = 0.1, 1_000_000.0
_QUEUES = {"": "cake", "cake": "cake", "fq_codel": "fq_codel", "none": "fifo"}
"""The values of the optional column `sqm`, and the queue disciplines."""


@dataclass
class Circuit:
    """A circuit: the connection of a subscriber.

    Attributes:
        name: Circuit ID.
        title: Circuit Name; empty if the file has none.
        parent: Name of its node; empty for the root.
        rates: Minimum rates down and up, then maximum rates down and up, in Mbit/s.
        queues: Queue disciplines down and up.
        line: Line of its first device in the file.
        devices: IDs of its devices.
    """

    name: str
    parent: str
    rates: tuple[float, float, float, float]
    queues: tuple[str, str]
    line: int
    devices: list[str] = field(default_factory=list)
    title: str = ""


@dataclass
class Site:
    """A node of network.json; `rates` are its bandwidths down and up in Mbit/s."""

    name: str
    parent: str
    rates: tuple[float, float]


def _text(file: str | PathLike[str]) -> str:
    try:
        return untrusted_input.read(file).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NarrowsError(f"{name_of(file)}: is not UTF-8 at byte {error.start}") from error
    except OSError as error:
        raise NarrowsError(f"{name_of(file)}: {reason(error)}") from error


class _Table:
    """ShapedDevices.csv: its header and its rows with the numbers of their lines."""

    def __init__(self, file: str | PathLike[str]) -> None:
        self.name = name_of(file)
        self.lines = re.split(r"\r\n|\n|\r", _text(file))
        reader = csv.reader(self._data(), strict=True)
        self._reader = reader
        try:
            header = next((fields for fields in reader if any(map(str.strip, fields))), None)
        except csv.Error as error:
            raise self.error(reader.line_num, 1, str(error)) from error
        if header is None:
            raise self.error(1, 1, f"has no header; write {','.join(NEEDED)}")
        self.header = [title.strip() for title in header]
        for title in NEEDED:
            if title not in self.header:
                known = ", ".join(self.header[:20])
                raise self.error(reader.line_num, 1, f"has no column {title!r}; it has {known}")

    def _data(self) -> Iterator[str]:
        """The lines; comments are empty lines, so that the numbers of lines stay."""
        for line in self.lines:
            yield "\n" if line.startswith("#") else f"{line}\n"

    def error(self, line: int, column: int, problem: str) -> NarrowsError:
        """An error at a place of the file."""
        return NarrowsError(f"{self.name}:{line}:{column}: {problem}")

    def wrong(self, line: int, title: str, problem: str) -> NarrowsError:
        """An error in a field of a row."""
        return self.error(line, self.place(line, title), f"{title}: {problem}")

    def place(self, line: int, title: str) -> int:
        """The column of the text at which a field begins; 1 if a quoted field spans lines."""
        text, at, quoted = self.lines[line - 1], 0, False
        index = self.header.index(title)
        for column, letter in enumerate(text):
            if at == index:
                return column + 1
            quoted ^= letter == '"'
            at += letter == "," and not quoted
        return len(text) + 1 if at == index else 1

    def rows(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Each row with the number of its line."""
        count = 0
        try:
            for fields in self._reader:
                line = self._reader.line_num
                if not any(text.strip() for text in fields):
                    continue
                if len(fields) != len(self.header):
                    problem = (
                        f"has {len(fields)} fields, but the header has {len(self.header)}; write a "
                        "field with a comma in quotes"
                    )
                    raise self.error(line, 1, problem)
                count += 1
                if count > MOST_DEVICES:
                    raise self.error(line, 1, f"has more than {MOST_DEVICES} devices")
                yield line, dict(zip(self.header, map(str.strip, fields), strict=True))
        except csv.Error as error:
            raise self.error(self._reader.line_num, 1, str(error)) from error
        if not count:
            raise self.error(len(self.lines) or 1, 1, "has no devices")


def read_circuits(
    file: str | PathLike[str],
    sites: Mapping[str, Site],
    network: str | PathLike[str] | None,
) -> list[Circuit]:
    """The circuits of ShapedDevices.csv below the `sites` of the file `network`; without this file,
    all circuits are below the root.

    Raises:
        NarrowsError: If the file cannot be read, or has an error.
    """
    table, circuits = _Table(file), dict[str, Circuit]()
    for line, row in table.rows():
        made = _circuit(table, line, row)
        device = made.devices.pop()
        if network is None:
            made.parent = ""
        elif made.parent and made.parent not in sites:
            problem = f"{made.parent!r} is not a node of {name_of(network)}"
            raise table.wrong(line, "Parent Node", problem)
        known = circuits.setdefault(made.name, made)
        if (known.parent, known.rates) != (made.parent, made.rates):
            problem = f"{made.name!r} has other rates or another parent in line {known.line}"
            raise table.wrong(line, "Circuit ID", problem)
        if device in known.devices:
            problem = f"{device!r} occurs twice in circuit {made.name!r}"
            raise table.wrong(line, "Device ID", problem)
        if len(known.devices) == MOST_HOSTS:
            problem = f"circuit {made.name!r} has more than {MOST_HOSTS} devices"
            raise table.wrong(line, "Device ID", problem)
        known.devices.append(device)
    return list(circuits.values())


def _circuit(table: _Table, line: int, row: Mapping[str, str]) -> Circuit:
    """The circuit of a row, with one device."""
    for title in ("Circuit ID", "Device ID"):
        if not row[title]:
            raise table.wrong(line, title, "is missing")
    rates = []
    for title in RATES:
        if (mbps := _number(row[title])) is None:
            problem = f"{row[title]!r} is not a rate from {LEAST_MBPS:g} to {_MOST_MBPS:.0f}"
            raise table.wrong(line, title, problem)
        rates.append(mbps)
    for least, most in ((0, 2), (1, 3)):
        if rates[least] > rates[most]:
            raise table.wrong(line, RATES[least], f"{rates[least]:g} is above {RATES[most]}")
    sqm = [word.strip() for word in row.get("sqm", "").lower().split("/")]
    if len(sqm) > 2 or any(word not in _QUEUES for word in sqm):  # noqa: PLR2004
        known = ", ".join(filter(None, _QUEUES))
        problem = f"{row['sqm']!r} is not valid; write one of {known}, or two with / between"
        raise table.wrong(line, "sqm", problem)
    return Circuit(
        row["Circuit ID"],
        row["Parent Node"],
        (rates[0], rates[1], rates[2], rates[3]),
        (_QUEUES[sqm[0]], _QUEUES[sqm[-1]]),
        line,
        [row["Device ID"]],
        row.get("Circuit Name", ""),
    )


def _number(text: str) -> float | None:
    """A rate in Mbit/s.

    >>> _number("2.5"), _number("1e3"), _number("nan"), _number("0"), _number("-1")
    (2.5, 1000.0, None, None, None)
    """
    try:
        value = float(text)
    except ValueError:
        return None
    return value if LEAST_MBPS <= value <= _MOST_MBPS else None


def read_sites(file: str | PathLike[str]) -> dict[str, Site]:
    """The nodes of network.json; parents precede their children.

    Raises:
        NarrowsError: If the file cannot be read, or has an error.
    """
    name, text = name_of(file), _text(file)
    try:
        tree = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise NarrowsError(f"{name}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise NarrowsError(f"{name}:1:1: is nested too deeply") from error

    def wrong(node: str, problem: str) -> NarrowsError:
        # Names are unique, so the place of the name is that of the node.
        found = re.search(rf"{re.escape(json.dumps(node, ensure_ascii=False))}\s*:", text)
        at = found.start() if found else 0
        line = text.count("\n", 0, at) + 1
        column = at - (text.rfind("\n", 0, at) + 1) + 1
        return NarrowsError(f"{name}:{line}:{column}: {node or 'the file'}: {problem}")

    sites: dict[str, Site] = {}
    waiting: list[tuple[str, Any, int]] = [("", tree, 1)]
    while waiting:
        parent, children, depth = waiting.pop(0)
        if not isinstance(children, dict):
            raise wrong(parent, "is not an object of nodes")
        if children and depth > MOST_DEPTH:
            raise wrong(next(iter(children)), f"is below more than {MOST_DEPTH} nodes")
        for node, about in children.items():
            if node in sites:
                raise wrong(node, "occurs twice")
            if len(sites) == MOST_DEVICES:
                raise wrong(node, f"is one of more than {MOST_DEVICES} nodes")
            if not isinstance(about, dict):
                raise wrong(node, "is not an object")
            mbps = []
            for key in ("downloadBandwidthMbps", "uploadBandwidthMbps"):
                if key not in about:
                    raise wrong(node, f"{key} is missing; write a rate in Mbit/s")
                value = about[key]
                number = value if isinstance(value, int | float) and value is not True else -1.0
                if not LEAST_MBPS <= number <= _MOST_MBPS:
                    allowed = f"{LEAST_MBPS:g} to {_MOST_MBPS:.0f}"
                    raise wrong(node, f"{key} is {json.dumps(value)}, not a rate from {allowed}")
                mbps.append(float(number))
            sites[node] = Site(node, parent, (mbps[0], mbps[1]))
            waiting.append((node, about.get("children", {}), depth + 1))
    return sites


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are unique; `json` would keep only the last one of equal keys."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for i, (key, _) in enumerate(pairs) if key in dict(pairs[:i]))
        raise json.JSONDecodeError(f"the key {twice!r} occurs twice in an object", "", 0)
    return found
