"""A classification tree with a maximum number of leaves, and its cross-validation.

The tree is CART (Breiman et al. 1984) with the Gini impurity. In each step, the leaf is split whose
best split reduces the impurity of the sample most. The tree grows up to the maximum number of
leaves. A threshold is the middle between two neighbouring values. If several splits are equally
good, the first feature and the smallest threshold are used, so that the tree depends on the sample
only.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

Point = Sequence[float]

_LEAST_GAIN = 1e-9
"""Reductions of impurity below this value are rounding errors."""


@dataclass
class Branch:
    """A node of the tree; a leaf has no children.

    Attributes:
        rows: Indices of the points of this node.
        feature: Index of the tested feature.
        limit: Threshold of the feature; points below it belong to the first child.
        children: The child for points below the threshold, and the child for points at or above it;
            None for a leaf.
    """

    rows: list[int]
    feature: int = -1
    limit: float = 0.0
    children: tuple[Branch, Branch] | None = None

    def leaf(self, point: Point) -> Branch:
        """The leaf to which a point belongs."""
        if self.children is None:
            return self
        return self.children[point[self.feature] >= self.limit].leaf(point)


@dataclass(frozen=True)
class _Split:
    gain: float
    feature: int
    limit: float


def grow(points: Sequence[Point], classes: Sequence[str], *, leaves: int, least: int) -> Branch:
    """Grows the tree for these points, with at most `leaves` leaves, each of at least `least`
    points.

    >>> points = [(x, y) for x in range(8) for y in range(4)]
    >>> tree = grow(points, ["a" if x < 3 else "b" for x, _ in points], leaves=8, least=1)
    >>> tree.feature, tree.limit, [len(child.rows) for child in tree.children]
    (0, 2.5, [12, 20])
    """
    root = Branch(list(range(len(points))))
    ends = [(root, _best(root.rows, points, classes, least))]
    while len(ends) < leaves:
        chosen = max(range(len(ends)), key=lambda n: ends[n][1].gain)
        node, split = ends[chosen]
        if split.gain <= 0:
            break
        low = [row for row in node.rows if points[row][split.feature] < split.limit]
        high = [row for row in node.rows if points[row][split.feature] >= split.limit]
        node.feature, node.limit = split.feature, split.limit
        node.children = (Branch(low), Branch(high))
        ends[chosen : chosen + 1] = [
            (child, _best(child.rows, points, classes, least)) for child in node.children
        ]
    return root


def _best(rows: list[int], points: Sequence[Point], classes: Sequence[str], least: int) -> _Split:
    """The split of a node that reduces the impurity most; its gain is 0 if no split reduces the
    impurity.
    """
    whole = Counter(classes[row] for row in rows)
    best = _Split(0.0, -1, 0.0)
    impurity = _impurity(whole, len(rows))
    for feature in range(len(points[0])):
        ordered = sorted(rows, key=lambda row: points[row][feature])
        low: Counter[str] = Counter()
        high = Counter(whole)
        for place, row in enumerate(ordered[:-1], 1):
            low[classes[row]] += 1
            high[classes[row]] -= 1
            value, following = points[row][feature], points[ordered[place]][feature]
            if value == following or not least <= place <= len(rows) - least:
                continue
            gain = impurity - _impurity(low, place) - _impurity(high, len(rows) - place)
            if gain > max(best.gain, _LEAST_GAIN):
                best = _Split(gain, feature, (value + following) / 2)
    return best


def _impurity(counts: Counter[str], number: int) -> float:
    """The Gini impurity of a node times its number of points."""
    return number - sum(count * count for count in counts.values()) / number


def predicted(leaf: Branch, classes: Sequence[str]) -> str:
    """The most frequent class of the points of a leaf; if several are equally frequent, the first
    in alphabetical order.
    """
    counts = Counter(classes[row] for row in leaf.rows)
    return min(counts, key=lambda name: (-counts[name], name))


def cross_validated(
    points: Sequence[Point], classes: Sequence[str], *, leaves: int, least: int, folds: int
) -> float:
    """Cross-validated accuracy: share of a fold's points whose class is predicted by a tree grown
    from the other folds, as mean over the folds.

    >>> points = [(float(x),) for x in range(100)]
    >>> classes = ["a" if x < 50 else "b" for x in range(100)]
    >>> cross_validated(points, classes, leaves=4, least=1, folds=10) >= 0.98
    True
    """
    order = list(range(len(points)))
    random.Random(1).shuffle(order)
    shares = []
    for fold in range(folds):
        tested = set(order[fold::folds])
        rest = [row for row in order if row not in tested]
        known = [classes[row] for row in rest]
        tree = grow([points[row] for row in rest], known, leaves=leaves, least=least)
        right = [predicted(tree.leaf(points[row]), known) == classes[row] for row in tested]
        shares.append(sum(right) / len(right))
    return sum(shares) / len(shares)
