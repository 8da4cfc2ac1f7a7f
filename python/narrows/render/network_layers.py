"""The layer of each node of a network's picture.

A node is one layer behind the nodes that send data to it (longest path). If data cross the nodes in
both directions, the layer is the distance from the first sender.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from narrows.render.topology import Graph, Link


def layers(graph: Graph) -> list[int]:
    """The layer of each node: the length of the longest route of data to it. Links that lead back
    to the senders do not count, and links without data only place nodes that no data crosses.
    """
    count = len(graph.nodes)
    carrying = [link for link in graph.links if not link.back and not link.idle]
    carrying = carrying or [link for link in graph.links if not link.back]
    reached = {end for link in carrying for end in (link.begin, link.end)}
    ahead: dict[int, list[int]] = defaultdict(list)
    for link in carrying:
        ahead[link.begin].append(link.end)
    senders = [i for i, node in enumerate(graph.nodes) if node.sends and i in ahead]
    targets = {end for ends in ahead.values() for end in ends}
    roots = [i for i in range(count) if i not in targets and i in ahead]
    order, cycles = _search(ahead, [*roots, *senders, *ahead])
    if cycles:
        # Data crosses the nodes in both directions, so the distance from the first sender counts.
        return _attached(graph, _distances(carrying, roots or senders or list(ahead)))
    layer = dict.fromkeys(reached, 0)
    for node in order:
        for end in ahead[node]:
            layer[end] = max(layer[end], layer[node] + 1)
    return _attached(graph, layer)


def _distances(links: Sequence[Link], roots: Sequence[int]) -> dict[int, int]:
    """The number of links between the first root and each node, in any direction (breadth-first
    search). Nodes that are not connected with it have the distance from the next root.
    """
    near: dict[int, list[int]] = defaultdict(list)
    for link in links:
        near[link.begin].append(link.end)
        near[link.end].append(link.begin)
    far: dict[int, int] = {}
    for root in (*roots, *near):
        level = [root] if root not in far else []
        far |= dict.fromkeys(level, 0)
        while level:
            found = {end: far[node] + 1 for node in level for end in near[node] if end not in far}
            level = list(found)
            far |= found
    return far


def _attached(graph: Graph, layer: dict[int, int]) -> list[int]:
    """The layers of all nodes. Nodes without a layer are one layer behind the nodes that send to
    them, or before the nodes to which they send.
    """
    ways = [(link.end, link.begin) if link.back else (link.begin, link.end) for link in graph.links]
    before, behind = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for begin, end in ways:
        before[end].append(begin)
        behind[begin].append(end)
    level = list(layer) or [0]
    layer.setdefault(level[0], 0)
    while len(layer) < len(graph.nodes):
        near = {n for node in level for n in (*behind[node], *before[node]) if n not in layer}
        # Without a link to the nodes so far, the next part of the network begins.
        level = sorted(near) or [next(i for i in range(len(graph.nodes)) if i not in layer)]
        found = {}
        for node in level:
            above = [layer[n] + 1 for n in before[node] if n in layer]
            below = [layer[n] - 1 for n in behind[node] if n in layer]
            found[node] = min(above) if above else min(below, default=0)
        layer |= found
    first = min(layer.values())
    return [layer[i] - first for i in range(len(graph.nodes))]


def _search(ahead: Mapping[int, Sequence[int]], roots: Sequence[int]) -> tuple[list[int], bool]:
    """The nodes in an order in which links lead ahead (depth-first search), and whether a link
    closes a cycle.
    """
    open_, done = set[int](), dict[int, None]()
    cycles = False
    for root in roots:
        stack = [(root, iter(ahead.get(root, ())))] if root not in done else []
        open_ |= {node for node, _ in stack}
        while stack:
            node, rest = stack[-1]
            end = next(rest, None)
            if end is None:
                open_.discard(node)
                done[node] = None
                stack.pop()
            elif end in open_:
                cycles = True
            elif end not in done:
                open_.add(end)
                stack.append((end, iter(ahead.get(end, ()))))
    return list(reversed(done)), cycles
