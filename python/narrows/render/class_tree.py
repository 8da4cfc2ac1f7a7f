"""The tree of classes of an HTB queue, as part of the picture of a run's network.

The tree begins behind the hop of the queue. A class is a link from its parent to a node of its own.
The load of a link is the mean rate of its class over the whole run, as a share of its maximum rate.
A class with children has the traffic of its leaves. If the reverse hop has a tree with the same
classes, its links lead back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from narrows import _core
from narrows.render import words

if TYPE_CHECKING:
    from narrows.json_object import JsonObject
    from narrows.runs.model import RunJson

MOST_CLASSES = 250
"""Maximum number of classes of a tree that is drawn."""

_MBIT = {"bit": 1e-6, "kbit": 1e-3, "Mbit": 1.0, "Gbit": 1e3, "Tbit": 1e6}


def _mbps(rate: str) -> float:
    """A rate as a run writes it, in Mbit/s.

    >>> _mbps("1250kbit"), _mbps("2.5Gbit")
    (1.25, 2500.0)
    """
    unit = rate.lstrip("0123456789.")
    return float(rate.removesuffix(unit)) * _MBIT[unit]


@dataclass
class TreeClass:
    """A class with the packets that it sent and dropped in the whole run.

    Attributes:
        name: Its name, or its id if it has no name.
        parent: Index of its parent in the list of classes; None if it has none.
        most_mbit: Its maximum rate in Mbit/s.
        flows: Flows and probes that it names.
        path: The path of its metrics in the JSON of the run; empty for a class with children.
        sent_bytes: Bytes sent.
        sent: Packets sent.
        drops: Packets dropped.
    """

    name: str
    parent: int | None
    most_mbit: float
    flows: list[str] = field(default_factory=list)
    path: str = ""
    sent_bytes: int = 0
    sent: int = 0
    drops: int = 0

    def load(self, seconds: float) -> float:
        """Its mean rate as a share of its maximum rate."""
        return self.sent_bytes * 8e-6 / seconds / self.most_mbit

    def loss_rate(self) -> float:
        """Share of its packets that were dropped."""
        return self.drops / (self.sent + self.drops) if self.drops else 0.0

    def about(self, seconds: float) -> str:
        """All its values in one sentence."""
        mbit = self.sent_bytes * 8e-6 / seconds
        flows = f" of {words.some(self.flows)}" if self.flows else ""
        return (
            f"Class {self.name}{flows}: {words.number(mbit, 2)} of "
            f"{words.number(self.most_mbit, 2)} Mbit/s; packets dropped in the whole run: "
            f"{self.drops}."
        )


def label(written: Mapping[str, Any]) -> str:
    """The name of a class in results: that of the scenario, or else its id."""
    return str(written.get("name") or written["id"])


def classes(figures: RunJson, queue: int, hop: JsonObject) -> list[TreeClass]:
    """The classes of the HTB queue of a hop, parents first; empty if the hop has no such queue, or
    too many classes. `queue` is the index of its metrics.
    """
    written = hop.get("queue")
    if not isinstance(written, dict) or written.get("kind") != "htb":
        return []
    rows: list[JsonObject] = list(_parents_first(written.get("classes", [])))
    if len(rows) > MOST_CLASSES:
        return []
    place = {row["id"]: i for i, row in enumerate(rows)}
    found = []
    for row in rows:
        ceil = _mbps(row.get("ceil", "0bit"))
        flows = row.get("match", {}).get("flow", [])
        found.append(
            TreeClass(
                label(row),
                place.get(row.get("parent", "")),
                ceil or _mbps(row["rate"]),
                [flows] if isinstance(flows, str) else list(flows),
            )
        )
    by_name = {one.name: one for one in found}
    for k, part in enumerate(figures["queues"][queue].get("classes", [])):
        one = by_name.get(part["name"])
        if one is None or "sent_bytes" not in part:
            continue
        one.path = f"queues.{queue}.classes.{k}"
        above: TreeClass | None = one
        while above is not None:
            above.sent_bytes += part["sent_bytes"]
            above.sent += part["sent_packets"]
            above.drops += part["drops"]
            above = None if above.parent is None else found[above.parent]
    return found


def _parents_first(rows: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """The classes in an order in which parents precede their children."""
    known = {row["id"] for row in rows}
    below: dict[str, list[JsonObject]] = {}
    for row in rows:
        parent = row.get("parent", "")
        below.setdefault(parent if parent in known else "", []).append(row)
    waiting = below.get("", [])[:]
    while waiting:
        row = waiting.pop(0)
        yield row
        waiting += below.get(row["id"], [])


def same(one: Sequence[TreeClass], other: Sequence[TreeClass]) -> bool:
    """Whether two trees have the same classes."""
    return [(c.name, c.parent) for c in one] == [(c.name, c.parent) for c in other]


def seconds(figures: RunJson) -> float:
    """The duration of the run."""
    return _core.seconds(figures["scenario"]["duration"])
