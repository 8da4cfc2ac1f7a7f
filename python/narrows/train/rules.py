"""A tree of rules for the search: text, rule of a memory, replacement of a rule, and split.

`docs/reference/remy-tree.md` describes the text. `core/src/cc/remy/tree.rs` reads it in a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from narrows.errors import NarrowsError

AXES = ("rec_send_ewma", "rec_rec_ewma", "rtt_ratio")
"""Signals of a sender's memory in the paper: two moving averages (ms), and the ratio of RTTs."""

FARTHEST = 1e9
"""Upper end of every signal."""

HEAD = "remy-tree 1"
_INDENT = 2

Memory: TypeAlias = Sequence[float]
"""A value for each of `AXES`."""


def plain(x: float) -> float:
    """The number with six significant digits, so that text and value are equal.

    >>> plain(1 / 3)
    0.333333
    """
    return float(f"{x:.6g}")


@dataclass(frozen=True)
class Rule:
    """An action: the window becomes `multiple` · window + `increment`.

    Attributes:
        multiple: Factor of the window.
        increment: Packets to add.
        intersend: Gap between packets, ms.
        epoch: Epoch in which the search visits the rule; it is not part of the text.
    """

    multiple: float = 1.0
    increment: int = 1
    intersend: float = 3.0
    epoch: int = 0

    def text(self) -> str:
        """The line of the rule."""
        return (
            f"multiple {_number(self.multiple)} increment {self.increment} "
            f"intersend {_number(self.intersend)}"
        )


@dataclass(frozen=True)
class Split:
    """Two subtrees: `below` applies if the signal number `axis` is below `at`."""

    axis: int
    at: float
    below: Tree
    above: Tree


Tree: TypeAlias = Rule | Split


def _number(x: float) -> str:
    """The number as a plain decimal.

    >>> _number(3.0), _number(1e-05)
    ('3', '0.00001')
    """
    text = f"{x:.12f}".rstrip("0").rstrip(".")
    return text or "0"


def text_of(tree: Tree, head: Sequence[str] = ()) -> str:
    """The text of the tree, with the lines `head` as comments.

    >>> print(text_of(Split(2, 1.5, Rule(), Rule(0.5, 0, 4.0))), end="")
    remy-tree 1
    rtt_ratio < 1.5
      multiple 1 increment 1 intersend 3
      multiple 0.5 increment 0 intersend 4
    """
    lines = [HEAD, *(f"# {line}".rstrip() for line in head), *_lines(tree, 0)]
    return "\n".join(lines) + "\n"


def _lines(tree: Tree, depth: int) -> Iterator[str]:
    indent = " " * (_INDENT * depth)
    if isinstance(tree, Rule):
        yield indent + tree.text()
        return
    yield f"{indent}{AXES[tree.axis]} < {_number(tree.at)}"
    yield from _lines(tree.below, depth + 1)
    yield from _lines(tree.above, depth + 1)


def read(text: str) -> Tree:
    """The tree of a text that uses the signals of the paper.

    Raises:
        NarrowsError: If the text is no such tree.
    """
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if not lines or lines.pop(0) != HEAD:
        raise NarrowsError(f"a tree of rules begins with the line `{HEAD}`")
    todo = iter(lines)
    try:
        tree = _read(todo)
    except (StopIteration, ValueError, IndexError) as error:
        raise NarrowsError(f"not a tree of rules with the signals {', '.join(AXES)}") from error
    if next(todo, None) is not None:
        raise NarrowsError("the tree of rules has lines after its end")
    return tree


def _read(lines: Iterator[str]) -> Tree:
    words = next(lines).split()
    if words[0] == "multiple":
        return Rule(float(words[1]), int(words[3]), float(words[5]))
    below = _read(lines)
    return Split(AXES.index(words[0]), float(words[2]), below, _read(lines))


def rules(tree: Tree) -> list[Rule]:
    """The rules in the order of the text."""
    if isinstance(tree, Rule):
        return [tree]
    return rules(tree.below) + rules(tree.above)


def number_of(tree: Tree, memory: Memory) -> int:
    """The number of the rule that applies to a memory, in the order of the text.

    >>> number_of(Split(2, 1.5, Rule(), Rule()), (0.0, 0.0, 1.5))
    1
    """
    number = 0
    while isinstance(tree, Split):
        if memory[tree.axis] < tree.at:
            tree = tree.below
        else:
            number += len(rules(tree.below))
            tree = tree.above
    return number


def with_rule(tree: Tree, number: int, new: Tree) -> Tree:
    """The tree with `new` in place of the rule with this number."""
    if isinstance(tree, Rule):
        return new
    count = len(rules(tree.below))
    if number < count:
        return replace(tree, below=with_rule(tree.below, number, new))
    return replace(tree, above=with_rule(tree.above, number - count, new))


def in_epoch(tree: Tree, epoch: int) -> Tree:
    """The tree with all rules in this epoch."""
    if isinstance(tree, Rule):
        return replace(tree, epoch=epoch)
    return replace(tree, below=in_epoch(tree.below, epoch), above=in_epoch(tree.above, epoch))


def box(tree: Tree, number: int) -> list[tuple[float, float]]:
    """The lower and upper bound of each signal for the rule with this number."""
    bounds = [(0.0, FARTHEST)] * len(AXES)
    while isinstance(tree, Split):
        low, high = bounds[tree.axis]
        count = len(rules(tree.below))
        if number < count:
            bounds[tree.axis] = (low, tree.at)
            tree = tree.below
        else:
            bounds[tree.axis] = (tree.at, high)
            tree, number = tree.above, number - count
    return bounds


def divided(tree: Tree, number: int, medians: Memory) -> Tree:
    """The tree with a rule split at these values: one rule for each octant, with the same action.

    A value at an end of the rule's box splits nothing, and is left out.

    >>> len(rules(divided(Rule(), 0, (1.0, 2.0, 1.5)))), len(rules(divided(Rule(), 0, (0, 2.0, 0))))
    (8, 2)
    """
    part: Tree = rules(tree)[number]
    for axis, (low, high) in enumerate(box(tree, number)):
        at = plain(medians[axis])
        if low < at < high:
            part = Split(axis, at, part, part)
    return with_rule(tree, number, part)
