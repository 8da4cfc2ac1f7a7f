"""The graph of a run's network: nodes, and links with their load and loss.

Nodes are the values of `from` and `to` of the links. If a scenario has only routes, the nodes
follow from them: consecutive links meet in a node, and so do the links of a switch. The routes of a
flow in both directions and its later routes have the same ends. If a route back is as long as the
route and the nodes have no names, both cross the same nodes.

A path is a chain. If its queue is an HTB tree, the classes follow (`class_tree`). A Wi-Fi is an
access point with its stations, and its load is their airtime.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from narrows.render import class_tree, words

if TYPE_CHECKING:
    from narrows.json_object import JsonObject
    from narrows.runs.model import RunJson


@dataclass(frozen=True)
class Part:
    """A text, and the path of its value in the JSON of the run; the path is empty for words and
    punctuation.
    """

    text: str
    path: str = ""


@dataclass
class Node:
    """A node, with the flows and probes that begin and end there.

    Attributes:
        name: Its name in the scenario; empty if it has none.
        sends: Ids of the flows that enter the network here.
        receives: Ids of the flows that leave the network here.
    """

    name: str = ""
    sends: list[str] = field(default_factory=list)
    receives: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The texts at the node."""
        texts = [self.name] if self.name else []
        for what, ids in (("sender", self.sends), ("receiver", self.receives)):
            if ids:
                texts.append(f"{what}{'s' if len(ids) > 1 else ''} of {words.some(ids)}")
        return texts


@dataclass(frozen=True)
class Link:
    """A link in one direction.

    Attributes:
        name: Its name.
        begin: Index of the node where it begins.
        end: Index of the node where it ends.
        load: Its load, from 0 to 1; None if it is unknown.
        texts: Its name, load and loss; together they are one line of text.
        back: Whether only traffic of the reverse direction crosses it.
        about: All its metrics in one sentence.
        idle: Whether no flow and no probe crosses it.
    """

    name: str
    begin: int
    end: int
    load: float | None
    texts: tuple[Part, ...]
    back: bool
    about: str
    idle: bool = False


@dataclass(frozen=True)
class Graph:
    """A network."""

    nodes: list[Node]
    links: list[Link]


def graph(figures: RunJson) -> Graph:
    """The network of a run.

    >>> figures = {"scenario": {"path": {"rate": "1Mbit"}}, "flows": [], "queue": {"name":
    ...     "path"}, "queues": [{"name": "path", "drops": 0, "marks": 0, "delay_ms": {"mean": None,
    ...     "p95": None}}]}
    >>> [(link.name, link.begin, link.end) for link in graph(figures).links]
    [('path', 0, 1)]
    """
    scenario: JsonObject = figures["scenario"]
    if "link" in scenario:
        return _network(figures, scenario)
    if "wifi" in scenario:
        return _wifi(figures, scenario)
    nodes = [Node("senders" if figures["flows"] else "near")]
    links = list(_hops(figures, scenario, nodes, range(len(figures["queues"]))))
    if trees := list(_classes(figures, scenario, nodes)):
        return Graph(nodes, links + trees)
    nodes[-1].name = "receivers" if figures["flows"] else "far"
    return Graph(nodes, links)


def _classes(figures: RunJson, scenario: JsonObject, nodes: list[Node]) -> Iterator[Link]:
    """The links of the HTB tree of a path behind its last node, for which the nodes of the classes
    are added. The tree of the reverse hop, if it has the same classes, leads back.
    """
    path = scenario["path"]
    hops, reverse = path.get("hop", [path]), path.get("reverse")
    last = len(hops) - 1
    tree, root = class_tree.classes(figures, last, hops[-1]), len(nodes) - 1
    nodes += [Node(one.name) for one in tree]
    for one, place in zip(tree, range(root + 1, len(nodes)), strict=True):
        begin = root if one.parent is None else root + 1 + one.parent
        yield _class_link(figures, one, (begin, place), back=False)
    back = class_tree.classes(figures, last + 1, reverse) if reverse else []
    if not class_tree.same(tree, back):
        return
    for one, place in zip(back, range(root + 1, len(nodes)), strict=True):
        end = root if one.parent is None else root + 1 + one.parent
        yield _class_link(figures, one, (place, end), back=True)


def _class_link(
    figures: RunJson, one: class_tree.TreeClass, ends: tuple[int, int], *, back: bool
) -> Link:
    seconds = class_tree.seconds(figures)
    load, values = one.load(seconds), [(Part(words.percent(one.load(seconds))),)]
    if one.drops:
        values.append((Part(f"{words.percent(one.loss_rate())} dropped"),))
    name = Part("up" if back else "down")
    return Link(one.name, *ends, load, _line(name, values), back, one.about(seconds))


def _link(figures: RunJson, index: int, ends: tuple[int, int], *, back: bool) -> Link:
    """The link behind a queue. The load of the bottleneck and of the reverse hop of a path is the
    share of the rate that flows used.
    """
    queue, at = figures["queues"][index], f"queues.{index}"
    name, load = queue["name"], queue.get("utilisation")
    values: list[tuple[Part, ...]] = []
    about = []
    if "utilisation" in queue:
        values.append((Part(words.percent(load), f"{at}.utilisation"),))
        about.append(
            f"utilisation {words.percent(load)} of {words.number(queue.get('rate_mbit'), 2)} Mbit/s"
        )
    elif back or name == figures["queue"]["name"]:
        load = words.used(figures, reverse=back)
        if load is not None:
            values.append((Part(words.percent(load)),))
            about.append(f"{words.percent(load)} of its rate is used")
    if queue.get("loss_rate"):
        values.append((Part(words.percent(queue["loss_rate"]), f"{at}.loss_rate"), Part(" lost")))
        about.append(f"loss rate {words.percent(queue.get('loss_rate'))}")
    elif "utilisation" not in queue and queue["drops"]:
        values.append((Part(f"{queue['drops']}", f"{at}.drops"), Part(" dropped")))
    delay = queue["delay_ms"]
    about += [
        f"mean queueing delay {words.waited(delay['mean'])} ms (p95 {words.waited(delay['p95'])} "
        "ms)",
        f"{queue['drops']} packets dropped and {queue['marks']} marked in the whole run",
    ]
    texts = _line(Part(name, f"{at}.name"), values)
    return Link(name, *ends, load, texts, back, f"{name}: {', '.join(about)}.")


def _line(name: Part, values: Sequence[tuple[Part, ...]]) -> tuple[Part, ...]:
    """A name and its values, with punctuation.

    >>> "".join(part.text for part in _line(Part("a"), [(Part("9 %"),), (Part("1 %"),)]))
    'a 9 %, 1 %'
    """
    line = [name]
    for i, value in enumerate(values):
        line += [Part(", " if i else " "), *value]
    return tuple(line)


def _hops(
    figures: RunJson, scenario: JsonObject, nodes: list[Node], queues: Sequence[int]
) -> Iterator[Link]:
    """The hops of a `[path]` from the last node on; a reverse hop leads back to it."""
    first = len(nodes) - 1
    queues = list(queues)
    reverse = queues.pop() if "reverse" in scenario["path"] else None
    for index in queues:
        nodes.append(Node())
        yield _link(figures, index, (len(nodes) - 2, len(nodes) - 1), back=False)
    if reverse is not None:
        yield _link(figures, reverse, (len(nodes) - 1, first), back=True)


_LEVELS = 4
"""Number of the queues of a Wi-Fi; those of the path before it follow."""


def _wifi(figures: RunJson, scenario: JsonObject) -> Graph:
    nodes = [Node("senders")]
    links: list[Link] = []
    if "path" in scenario:
        links += _hops(figures, scenario, nodes, range(_LEVELS, len(figures["queues"])))
    nodes[-1].name = "access point"
    ap = len(nodes) - 1
    for i, station in enumerate(figures["stations"]):
        at = f"stations.{i}"
        share, mbit = station["airtime_share"], station["goodput_mbit"]
        texts = (
            Part(words.percent(share), f"{at}.airtime_share"),
            Part(" airtime, "),
            Part(words.number(mbit, 2), f"{at}.goodput_mbit"),
            Part(" Mbit/s"),
        )
        about = (
            f"Station {station['name']}: airtime {words.percent(share)}, goodput "
            f"{words.number(mbit, 2)} Mbit/s."
        )
        nodes.append(Node(station["name"]))
        links.append(Link(station["name"], ap, len(nodes) - 1, share, texts, False, about))
    return Graph(nodes, links)


class _Sets:
    """Sets of points that are the same node (union-find)."""

    def __init__(self, count: int) -> None:
        self._above = list(range(count))

    def of(self, point: int) -> int:
        """The representative of the set of a point."""
        while self._above[point] != point:
            self._above[point] = self._above[self._above[point]]
            point = self._above[point]
        return point

    def join(self, a: int, b: int) -> None:
        """Makes two points the same node; the smaller representative stays."""
        low, high = sorted((self.of(a), self.of(b)))
        self._above[high] = low


def _routes(flow: Mapping[str, Any]) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """The first and all later routes of a flow, in both directions."""
    for one in (flow, *flow.get("reroute", [])):
        yield one["route"], one.get("route_back", [])


def _network(figures: RunJson, scenario: JsonObject) -> Graph:
    """The graph of a network of links. Link `i` begins at point `2 i` and ends at `2 i + 1`."""
    named: Mapping[str, JsonObject] = scenario["link"]
    queues = enumerate(queue["name"] for queue in figures["queues"])
    number = {name: i for i, name in queues if name in named}
    specs = {name: named[name] for name in number}
    sets = _Sets(2 * len(specs))
    begin = {name: 2 * i for name, i in number.items()}
    end = {name: 2 * i + 1 for name, i in number.items()}
    names: dict[str, int] = {}
    for name, spec in specs.items():
        for key, points in (("from", begin), ("to", end)):
            if key in spec:
                sets.join(names.setdefault(spec[key], points[name]), points[name])
        if "switch" in spec and "from" not in spec:
            label = f"switch {spec['switch']}"
            sets.join(names.setdefault(label, begin[name]), begin[name])
    known = {name for name, spec in specs.items() if {"from", "to"} & set(spec)}
    flows = [*scenario.get("flow", []), *scenario.get("probe", [])]
    seen = {str(list(_routes(flow))): flow for flow in flows}
    for flow in seen.values():
        _meet(sets, begin, end, list(_routes(flow)), known)
    places = sorted({sets.of(point) for point in range(2 * len(specs))})
    index = {point: i for i, point in enumerate(places)}
    nodes = [Node() for _ in places]
    for name, point in names.items():
        nodes[index[sets.of(point)]].name = name
    for flow in scenario.get("flow", []):
        route = flow["route"]
        ends = [index[sets.of(point)] for point in (begin[route[0]], end[route[-1]])]
        if flow.get("direction") == "up":
            ends.reverse()
        nodes[ends[0]].sends.append(flow["id"])
        nodes[ends[1]].receives.append(flow["id"])
    ahead = {name for flow in seen.values() for route, _ in _routes(flow) for name in route}
    behind = {name for flow in seen.values() for _, back in _routes(flow) for name in back}
    links = [
        replace(
            _link(
                figures,
                i,
                (index[sets.of(begin[name])], index[sets.of(end[name])]),
                back=name in behind and name not in ahead,
            ),
            idle=name not in ahead | behind,
        )
        for name, i in number.items()
    ]
    return Graph(nodes, links)


def _meet(
    sets: _Sets,
    begin: Mapping[str, int],
    end: Mapping[str, int],
    routes: Sequence[tuple[Sequence[str], Sequence[str]]],
    known: Set[str],
) -> None:
    """Joins the points where the links of a flow's routes meet. The nodes of the links `known` are
    named, so that their return links may cross other nodes.
    """
    first = routes[0][0]
    sender, receiver = begin[first[0]], end[first[-1]]
    for route, back in routes:
        sets.join(sender, begin[route[0]])
        sets.join(receiver, end[route[-1]])
        for way in (route, back):
            for one, other in itertools.pairwise(way):
                sets.join(end[one], begin[other])
        if back:
            sets.join(receiver, begin[back[0]])
            sets.join(sender, end[back[-1]])
        if len(back) == len(route) and known.isdisjoint((*route, *back)):
            for one, other in zip(route, reversed(back), strict=True):
                sets.join(end[one], begin[other])
