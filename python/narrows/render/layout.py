"""The positions of the nodes and links of a network, in layers from left to right.

`network_layers` selects the layer of each node. Within a layer, the order follows the mean position
of the neighbours. This is the barycentre heuristic of Sugiyama, Tagawa and Toda (IEEE Transactions
on Systems, Man, and Cybernetics 11(2), 1981). The layer with the most nodes determines the height.
In the other layers, a node is at the mean height of its neighbours.

Links between the same nodes are parallel curves, and traffic keeps to the right. A node whose
only neighbour has many such nodes has a row of its own. There is no room at its links, so their
texts follow the text of the node.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from narrows.render.network_layers import layers
from narrows.render.topology import Graph, Link, Part

ROW = 22.0
"""Height of a row of text with its node."""
GAP = 76.0
"""Distance of nodes above each other whose links have texts of their own."""
LINE = 15.0
"""Distance of lines of text."""
LETTER = 6.6
"""Mean width of a letter."""
MANY = 5
"""Minimum number of nodes with the same single neighbour that have rows."""
BEND = 11.0
"""Distance between parallel links."""
BEND_IN_ROW = 3.0
"""The same for links of nodes that have rows."""
MARGIN = 16.0
_ARROW = 22.0
"""Distance of an arrow from the node where the link ends."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Text:
    """A line of text; `anchor` is start, middle or end."""

    x: float
    y: float
    anchor: str
    parts: tuple[Part, ...]

    @property
    def width(self) -> float:
        """Its approximate width."""
        return LETTER * sum(len(part.text) for part in self.parts)

    @property
    def left(self) -> float:
        """The x coordinate of its left end."""
        return self.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor] * self.width


@dataclass(frozen=True)
class Curve:
    """A link as a quadratic Bézier curve."""

    link: Link
    start: Point
    control: Point
    end: Point
    crowded: bool = False

    def at(self, t: float) -> Point:
        """The point of the curve at the parameter `t`, from 0 to 1."""
        (x1, y1), (cx, cy), (x2, y2) = self.start, self.control, self.end
        a, b, c = (1 - t) ** 2, 2 * t * (1 - t), t**2
        return (a * x1 + b * cx + c * x2, a * y1 + b * cy + c * y2)

    def arrow(self) -> tuple[float, float, float]:
        """The position of its arrow, and the angle of its direction in degrees. The arrow is near
        the end of the link, or near its start if links to many nodes end there.
        """
        long = math.dist(self.start, self.end)
        part = min(0.4, _ARROW / max(1.0, long))
        t = part if self.crowded else 1 - part
        (x, y), (ahead_x, ahead_y) = self.at(t), self.at(t + 0.02)
        angle = math.degrees(math.atan2(ahead_y - y, ahead_x - x))
        return (round(x, 1), round(y, 1), round(angle, 1))


@dataclass(frozen=True)
class Drawing:
    """A network with positions, in pixels from the upper left corner."""

    width: float
    height: float
    nodes: list[Point]
    curves: list[Curve]
    texts: list[Text]


def _neighbours(graph: Graph) -> list[list[int]]:
    found: list[dict[int, None]] = [{} for _ in graph.nodes]
    for link in graph.links:
        if link.begin != link.end:
            found[link.begin][link.end] = None
            found[link.end][link.begin] = None
    return [list(of) for of in found]


def _ordered(layer: Sequence[int], near: Sequence[Sequence[int]]) -> list[list[int]]:
    """The nodes of each layer from top to bottom."""
    rows: list[list[int]] = [[] for _ in range(max(layer) + 1)]
    for node, at in enumerate(layer):
        rows[at].append(node)
    for sweep in range(8):
        place = {node: i / max(1, len(row) - 1) for row in rows for i, node in enumerate(row)}
        forward = sweep % 2 == 0
        for at in range(len(rows)) if forward else reversed(range(len(rows))):
            weight: dict[int, float] = {}
            for node in rows[at]:
                sides = [n for n in near[node] if (layer[n] < at) == forward and layer[n] != at]
                own = place[node]
                weight[node] = sum(place[n] for n in sides) / len(sides) if sides else own
            rows[at].sort(key=weight.__getitem__)
            for i, node in enumerate(rows[at]):
                place[node] = i / max(1, len(rows[at]) - 1)
    return rows


def _has_row(layer: Sequence[int], near: Sequence[Sequence[int]]) -> list[bool]:
    """Whether a node has one of many rows behind its only neighbour, in the last or first layer."""
    crowds: dict[tuple[int, int], list[int]] = defaultdict(list)
    for node, others in enumerate(near):
        if len(others) == 1:
            crowds[others[0], layer[node]].append(node)
    rows = [False] * len(near)
    for (_, at), crowd in crowds.items():
        if len(crowd) >= MANY and at in {0, max(layer)}:
            for node in crowd:
                rows[node] = True
    return rows


def _heights(
    rows: Sequence[Sequence[int]], near: Sequence[Sequence[int]], gaps: Sequence[float]
) -> list[float]:
    """The y coordinate of each node: at least half of both gaps between neighbours of a layer."""
    y = [0.0] * len(near)
    need = [sum(gaps[node] for node in row) for row in rows]
    main = need.index(max(need))
    at = 0.0
    for node in rows[main]:
        y[node] = at + gaps[node] / 2
        at += gaps[node]
    placed = set(rows[main])
    others = sorted((i for i in range(len(rows)) if i != main), key=lambda i: abs(i - main))
    for i in others:
        wanted = []
        for node in rows[i]:
            known = [y[n] for n in near[node] if n in placed]
            wanted.append(sum(known) / len(known) if known else at / 2)
        for node, height in zip(rows[i], _apart(wanted, [gaps[n] for n in rows[i]]), strict=True):
            y[node] = height
        placed |= set(rows[i])
    return y


def _apart(wanted: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Positions in the given order that are near to the wanted ones and far enough apart. Blocks of
    touching neighbours are centred at the mean of their wanted positions.

    >>> _apart([10.0, 10.0], [4.0, 4.0])
    [8.0, 12.0]
    """
    blocks: list[tuple[list[float], float]] = []
    offset = 0.0
    for i, (wish, gap) in enumerate(zip(wanted, gaps, strict=True)):
        offset += (gaps[i - 1] + gap) / 2 if i else 0.0
        blocks.append(([wish - offset], 1.0))
        while len(blocks) > 1 and _mean(blocks[-2][0]) > _mean(blocks[-1][0]):
            last = blocks.pop()
            blocks[-1] = (blocks[-1][0] + last[0], 1.0)
    out, offset = [], 0.0
    shifts = [_mean(block) for block, _ in blocks for _ in block]
    for i, shift in enumerate(shifts):
        offset += (gaps[i - 1] + gaps[i]) / 2 if i else 0.0
        out.append(shift + offset)
    return out


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def draw(graph: Graph) -> Drawing:
    """The positions of a network's nodes, links and texts."""
    layer, near = layers(graph), _neighbours(graph)
    has_row = _has_row(layer, near)
    pairs: dict[tuple[int, int], list[Link]] = defaultdict(list)
    for link in graph.links:
        low, high = sorted((link.begin, link.end))
        pairs[low, high].append(link)
    gaps = []
    for node, row in enumerate(has_row):
        lines = len(graph.nodes[node].lines())
        parallel = max((len(pairs[min(node, n), max(node, n)]) for n in near[node]), default=1)
        gaps.append(ROW if row else max(GAP, LINE * (lines + 2), 48 * parallel))
    y = _heights(_ordered(layer, near), near, gaps)
    x = _columns(graph, layer, has_row, pairs)
    nodes = [(x[layer[i]], y[i]) for i in range(len(y))]
    curves: list[Curve] = []
    texts: list[Text] = []
    for (low, high), links in pairs.items():
        rows = {i for i in (low, high) if has_row[i]}
        curves += _parallel(nodes, links, rows)
        if not rows:
            texts += _link_texts(curves[len(curves) - len(links) :])
    for i, at in enumerate(nodes):
        if has_row[i]:
            texts.append(_row(graph, i, at, last=layer[i] > 0))
        else:
            texts += _node_texts(graph.nodes[i].lines(), at, layer[i], max(layer))
    return _moved(nodes, curves, texts)


def _node_texts(lines: Sequence[str], at: Point, layer: int, last: int) -> list[Text]:
    """The texts of a node: beside nodes of the outer layers, below other nodes."""
    if layer in {0, last} and last:
        side, anchor = (-13, "end") if layer == 0 else (13, "start")
        first = at[1] + 4 - LINE * (len(lines) - 1) / 2
        x = at[0] + side
    else:
        x, anchor, first = at[0], "middle", at[1] + 22
    return [Text(x, first + LINE * n, anchor, (Part(line),)) for n, line in enumerate(lines)]


def _columns(
    graph: Graph,
    layer: Sequence[int],
    has_row: Sequence[bool],
    pairs: dict[tuple[int, int], list[Link]],
) -> list[float]:
    """The x coordinate of each layer."""
    room = [150.0] * (max(layer) + 1)
    for i, node in enumerate(graph.nodes):
        wide = max((LETTER * len(line) for line in node.lines()), default=0.0)
        if not has_row[i] and 0 < layer[i] < max(layer):
            room[layer[i]] = max(room[layer[i]], wide / 2 + 90)
    for (low, high), links in pairs.items():
        if has_row[low] or has_row[high]:
            continue
        at = max(layer[low], layer[high])
        wide = max(Text(0, 0, "start", link.texts).width for link in links)
        room[at] = max(room[at], wide + 90)
    room[0] = 0.0
    return list(itertools.accumulate(room))


def _parallel(nodes: Sequence[Point], links: Sequence[Link], rows: set[int]) -> list[Curve]:
    """Curves between two nodes. Each link is bent to its right, those of one direction in
    succession. Links to a node in `rows` have little room.
    """
    bend = BEND_IN_ROW if rows else BEND
    count: dict[tuple[int, int], int] = defaultdict(int)
    curves = []
    alone = len(links) == 1
    for link in links:
        (x1, y1), (x2, y2) = nodes[link.begin], nodes[link.end]
        long = max(1.0, ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5)
        nth = count[link.begin, link.end]
        count[link.begin, link.end] += 1
        shift = 0.0 if alone else bend * (1 + 2.4 * nth)
        # In a picture, y increases downwards; the right of (dx, dy) is (-dy, dx).
        across = (-(y2 - y1) / long * shift, (x2 - x1) / long * shift)
        ends = 6.0 if not rows and not alone else 0.0
        side = (across[0] / max(shift, 1.0) * ends, across[1] / max(shift, 1.0) * ends)
        curves.append(
            Curve(
                link,
                (x1 + side[0], y1 + side[1]),
                ((x1 + x2) / 2 + 2 * across[0], (y1 + y2) / 2 + 2 * across[1]),
                (x2 + side[0], y2 + side[1]),
                crowded=link.begin in rows,
            )
        )
    return curves


def _link_texts(curves: Sequence[Curve]) -> list[Text]:
    """The texts of parallel links, on the middle of each link or as near to it as possible."""
    middles = [curve.at(0.5) for curve in curves]
    order = sorted(range(len(curves)), key=lambda i: middles[i][1])
    heights = _apart([middles[i][1] for i in order], [LINE] * len(order))
    return [
        Text(middles[i][0], y + 4, "middle", curves[i].link.texts)
        for i, y in zip(order, heights, strict=True)
    ]


def _row(graph: Graph, node: int, at: Point, *, last: bool) -> Text:
    """The texts of a node and of its links, in one line."""
    of = [link for link in graph.links if node in {link.begin, link.end}]
    named = graph.nodes[node].name
    parts: list[Part] = [Part(f"{named}: ")] if named else []
    for i, link in enumerate(of):
        parts += [*([Part(" · ")] if i else []), *link.texts]
    x = at[0] + (12 if last else -12)
    return Text(x, at[1] + 4, "start" if last else "end", tuple(parts))


def _moved(nodes: list[Point], curves: Sequence[Curve], texts: Sequence[Text]) -> Drawing:
    """The picture with its upper left corner at the origin."""
    bends = [curve.at(t) for curve in curves for t in (0.25, 0.5, 0.75)]
    points = [*nodes, *bends]
    left = min([p[0] - 8 for p in points] + [text.left for text in texts])
    right = max([p[0] + 8 for p in points] + [text.left + text.width for text in texts])
    top = min([p[1] - 8 for p in points] + [text.y - 12 for text in texts])
    low = max([p[1] + 8 for p in points] + [text.y + 4 for text in texts])

    def move(point: Point) -> Point:
        return (round(point[0] - left + MARGIN, 1), round(point[1] - top + MARGIN, 1))

    return Drawing(
        round(right - left + 2 * MARGIN, 1),
        round(low - top + 2 * MARGIN, 1),
        [move(node) for node in nodes],
        [replace(c, start=move(c.start), control=move(c.control), end=move(c.end)) for c in curves],
        [Text(*move((t.x, t.y)), t.anchor, t.parts) for t in texts],
    )
