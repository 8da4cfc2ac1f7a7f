"""The study `decision-tree`: rules that predict on which paths BBR has more goodput than CUBIC.

Cao et al. (IMC 2019) derived a tree from 640 cells. Here, the paths are a Latin hypercube sample of
rate, RTT, buffer size and random loss. The tree is CART (`cart`), limited to a small number of
leaves. Its thresholds are rounded to two significant digits, and the statistics of each leaf are
computed with the rounded thresholds. Cross-validation measures the accuracy on unseen paths.

`narrows study decision-tree --rules FILE` writes the rules to a file. The package contains such a
file, `python/narrows/data/tree.json`.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from narrows import __version__
from narrows.json_object import JsonObject
from narrows.render.words import listed
from narrows.runs.scenario import Flow, Path, Scenario
from narrows.study import cart
from narrows.study.model import ConditionJson, RuleJson, RulesJson
from narrows.study.study import Answer, Grid, Part, Rows, Study, by
from narrows.sweeps.design import Design

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = "narrows-rules-1"
"""Format of the rule file."""

CLEAR_PCT = 10.0
"""Smallest gain of one congestion control over the other that counts, in percent."""

LEAVES, LEAST_SHARE, FOLDS = 10, 0.02, 10
"""Maximum number of rules, minimum share of the sampled paths to which a rule applies, and number
of folds of the cross-validation.
"""

_PACKET = 1514
_LEAST_PACKETS = 10
_LOSSLESS, _LEAST_LOSS_PCT, _MOST_LOSS_PCT = 0.4, 0.001, 20.0


@dataclass(frozen=True)
class Feature:
    """A property of a path that a rule may test, such as the rate.

    Attributes:
        name: Name in rows and rules.
        words: Name in sentences.
        unit: Unit.
        least: Minimum value in the sample.
        most: Maximum value in the sample.
    """

    name: str
    words: str
    unit: str
    least: float
    most: float

    def below(self, limit: float) -> str:
        """The condition below a limit, as text."""
        return f"{self.words} below {limit:g} {self.unit}"

    def at_least(self, limit: float) -> str:
        """The condition at or above a limit, as text."""
        return f"{self.words} of {limit:g} {self.unit} or more"


FEATURES = (
    Feature("rate_mbit", "a rate", "Mbit/s", 1, 1000),
    Feature("rtt_ms", "an RTT", "ms", 2, 300),
    Feature("buffer_bdp", "a buffer", "BDP", 0.05, 20),
    Feature("loss_pct", "random loss", "%", 0, _MOST_LOSS_PCT),
)

OUTCOMES = {
    "bbr": "BBR had at least 10 % more goodput than CUBIC",
    "cubic": "CUBIC had at least 10 % more goodput than BBR",
    "even": "the goodputs of BBR and CUBIC differed by less than 10 %",
}
"""The possible predictions of a rule, with their descriptions."""

_NAMES = {"bbr": "BBR", "cubic": "CUBIC", "even": "neither"}


def paths(cases: int) -> list[JsonObject]:
    """A Latin hypercube sample of this number of paths.

    40 % of the paths have no random loss. The others have 0.001 to 20 %, distributed evenly on a
    logarithmic scale. A buffer holds at least ten packets.
    """
    axes: dict[str, JsonObject] = {
        "path.rate": {"from": "1Mbit", "to": "1000Mbit", "scale": "log"},
        "path.rtt": {"from": "2ms", "to": "300ms", "scale": "log"},
        "path.buffer": {"from": "0.05bdp", "to": "20bdp", "scale": "log"},
        "path.loss": {"from": 0.0, "to": 1.0},
    }
    design = Design("latin_hypercube", axes, cases=cases)
    return [_path(design[number]) for number in range(cases)]


def _path(drawn: JsonObject) -> JsonObject:
    rate, rtt = (
        float(drawn["path.rate"].removesuffix("Mbit")),
        float(drawn["path.rtt"].removesuffix("ms")),
    )
    buffer = float(drawn["path.buffer"].removesuffix("bdp")) * rate * rtt * 1000 / 8
    share = (drawn["path.loss"] - _LOSSLESS) / (1 - _LOSSLESS)
    loss = 0.0 if share < 0 else _LEAST_LOSS_PCT * (_MOST_LOSS_PCT / _LEAST_LOSS_PCT) ** share
    return {
        "path.rate": drawn["path.rate"],
        "path.rtt": drawn["path.rtt"],
        "path.buffer": f"{max(round(buffer), _LEAST_PACKETS * _PACKET)}B",
        "path.loss": {"probability": f"{loss:.3g}%", "per": "packet"},
    }


def _parts(quick: bool) -> dict[str, Part]:
    scenario = Scenario(
        Path(rate="10Mbit", rtt="5ms", buffer="100kB"),
        flows=[Flow("cubic")],
        duration="10s" if quick else "30s",
        warmup="0s",
        start_jitter="0s",
    )
    cases = [
        path | {"flow[0].cc": cc}
        for path in paths(150 if quick else 1500)
        for cc in ("cubic", "bbr")
    ]
    return {"": Part(scenario=scenario, over=cases, seeds=1)}


@dataclass(frozen=True)
class Seen:
    """Results of BBR and CUBIC on a path.

    Attributes:
        at: Values of the features of the path, in the order of `FEATURES`.
        gain_pct: Gain of BBR over CUBIC, in percent.
        again_pct: Retransmission rate in percent, by congestion control.
    """

    at: tuple[float, ...]
    gain_pct: float
    again_pct: dict[str, float]

    @property
    def outcome(self) -> str:
        """The class of the path, a key of `OUTCOMES`."""
        return (
            "bbr"
            if self.gain_pct >= CLEAR_PCT
            else "cubic"
            if self.gain_pct <= -CLEAR_PCT
            else "even"
        )


def seen(rows: Rows) -> list[Seen]:
    """The results for each path of a sweep; paths with a failed run are left out."""
    keys = ("path.rate", "path.rtt", "path.buffer", "path.loss")
    found = []
    for pair in by(rows, *keys).values():
        one = {row["flow[0].cc"]: row for row in pair}
        if set(one) != {"bbr", "cubic"}:
            continue  # one of the runs failed
        first = pair[0]
        rate, rtt = (
            float(first["path.rate"].removesuffix("Mbit")),
            float(first["path.rtt"].removesuffix("ms")),
        )
        buffer = float(first["path.buffer"].removesuffix("B")) * 8 / (rate * rtt * 1000)
        loss = float(json.loads(first["path.loss"])["probability"].removesuffix("%"))
        # Limits the gain if CUBIC has no goodput.
        gain = 100 * (one["bbr"]["goodput_mbit"] / max(one["cubic"]["goodput_mbit"], 1e-3) - 1)
        again = {cc: 100 * (row["summary_retransmit_rate"] or 0.0) for cc, row in one.items()}
        found.append(Seen((rate, rtt, buffer, loss), gain, again))
    return found


@dataclass
class Node:
    """A node of the tree; a node without children is a leaf.

    Attributes:
        feature: Index of the tested feature in `FEATURES`.
        limit: Threshold of the feature.
        below: Child for paths below the threshold.
        above: Child for paths at or above the threshold.
        there: Paths of this node.
    """

    feature: int = -1
    limit: float = 0.0
    below: Node | None = None
    above: Node | None = None
    there: list[Seen] = field(default_factory=list)

    @property
    def says(self) -> str:
        """The most frequent class of the paths of this node, which is its prediction."""
        return (
            Counter(one.outcome for one in self.there).most_common(1)[0][0]
            if self.there
            else "even"
        )

    @property
    def right(self) -> int:
        """Number of the paths of this node that have the predicted class."""
        return sum(one.outcome == self.says for one in self.there)

    def leaves(self) -> list[Node]:
        """The leaves below this node, from left to right."""
        if self.below is None or self.above is None:
            return [self]
        return self.below.leaves() + self.above.leaves()


@dataclass(frozen=True)
class Rule:
    """A leaf with its conditions.

    Attributes:
        when: For each tested feature, by its index, the least value and the upper limit
            (exclusive); None without one.
        leaf: The leaf.
    """

    when: dict[int, tuple[float | None, float | None]]
    leaf: Node

    def condition(self) -> str:
        """The conditions of the rule as text."""
        conditions = [
            _bounds(FEATURES[feature], *bounds) for feature, bounds in sorted(self.when.items())
        ]
        return listed(conditions) or "any path"

    def words(self) -> str:
        """The rule as a sentence."""
        gains = sorted(one.gain_pct for one in self.leaf.there)
        low, high = quantile(gains, 0.1), quantile(gains, 0.9)
        whole = len(self.leaf.there)
        condition = self.condition()
        return (
            f"With {condition}, {OUTCOMES[self.leaf.says]} on {self.leaf.right} of {whole} "
            "simulated paths of this kind. Median gain of BBR in goodput over CUBIC: "
            f"{signed(median(gains))} % (p10 {signed(low)} %, p90 {signed(high)} %)."
        )

    def json(self) -> RuleJson:
        """The rule as a JSON object of the rule file."""
        gains = sorted(one.gain_pct for one in self.leaf.there)
        when: list[ConditionJson] = []
        for feature, (least, limit) in sorted(self.when.items()):
            condition: ConditionJson = {"feature": FEATURES[feature].name}
            if least is not None:
                condition["at_least"] = least
            if limit is not None:
                condition["below"] = limit
            when.append(condition)
        spread = {"p10": quantile(gains, 0.1), "median": median(gains), "p90": quantile(gains, 0.9)}
        again = {
            cc: median(one.again_pct[cc] for one in self.leaf.there) for cc in ("bbr", "cubic")
        }
        return {
            "when": when,
            "gains": self.leaf.says,
            "share": round(self.leaf.right / len(self.leaf.there), 3),
            "cases": len(self.leaf.there),
            "gain_pct": {name: round(value, 1) for name, value in spread.items()},
            "sent_again_pct": {cc: round(value, 2) for cc, value in again.items()},
            "words": self.words(),
        }


def signed(value: float) -> str:
    """A number with its sign and a typographic minus.

    >>> signed(12.3), signed(-0.2), signed(-40)
    ('+12', '0', '−40')
    """
    whole = round(value)
    return "0" if whole == 0 else f"{whole:+d}".replace("-", "−")


def quantile(values: Sequence[float], part: float) -> float:
    """Quantile of sorted values, by linear interpolation.

    >>> quantile([0.0, 10.0], 0.1)
    1.0
    """
    place = part * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def _bounds(feature: Feature, least: float | None, limit: float | None) -> str:
    if least is not None and limit is not None:
        return f"{feature.words} of {least:g} to {limit:g} {feature.unit}"
    return feature.at_least(least) if least is not None else feature.below(limit or 0.0)


def rules(
    node: Node, when: dict[int, tuple[float | None, float | None]] | None = None
) -> list[Rule]:
    """A rule for each leaf of the tree; exactly one rule applies to each path."""
    when = when or {}
    if node.below is None or node.above is None:
        return [Rule(when, node)]
    least, limit = when.get(node.feature, (None, None))
    # A split divides the range that the splits above it left, so that the new limit is always
    # tighter.
    under, over = (
        when | {node.feature: (least, node.limit)},
        when | {node.feature: (node.limit, limit)},
    )
    return rules(node.below, under) + rules(node.above, over)


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


@dataclass(frozen=True)
class Grown:
    """A decision tree with its accuracy.

    Attributes:
        root: Root node.
        cases: Number of paths.
        cross_validated: Accuracy on unseen paths, by cross-validation.
        commonest: Accuracy of predicting the most frequent class for all paths.
    """

    root: Node
    cases: int
    cross_validated: float
    commonest: float


def grow(every: list[Seen]) -> Grown:
    """Grows a tree from the results on these paths."""
    least = max(5, round(LEAST_SHARE * len(every)))
    at, said = [one.at for one in every], [one.outcome for one in every]
    score = cart.cross_validated(at, said, leaves=LEAVES, least=least, folds=min(FOLDS, len(every)))

    def node(branch: cart.Branch) -> Node:
        if branch.children is None:
            return Node()
        low, high = map(node, branch.children)
        return Node(branch.feature, _two_digits(branch.limit), low, high)

    root = _joined(_filled(node(cart.grow(at, said, leaves=LEAVES, least=least)), every))
    commonest = max(Counter(said).values()) / len(said)
    return Grown(root, len(every), score, commonest)


def _filled(node: Node, every: list[Seen]) -> Node:
    """Assigns the paths to the nodes of the tree, by the rounded thresholds."""
    node.there = every
    if node.below is not None and node.above is not None:
        _filled(node.below, [one for one in every if one.at[node.feature] < node.limit])
        _filled(node.above, [one for one in every if one.at[node.feature] >= node.limit])
    return node


def _joined(node: Node) -> Node:
    """Merges neighbouring leaves that predict the same class."""
    if node.below is None or node.above is None:
        return node
    node.below, node.above = _joined(node.below), _joined(node.above)
    ends = (node.below, node.above)
    if all(end.below is None for end in ends) and len({end.says for end in ends if end.there}) <= 1:
        return Node(there=node.there)
    return node


def document(grown: Grown) -> RulesJson:
    """The content of the rule file."""
    return {
        "format": FORMAT,
        "question": DECISION_TREE.question,
        "made_by": "narrows study decision-tree --rules FILE",
        "narrows": __version__,
        "about": "one flow for 30 s, slow start included, Linux 6.12 on both hosts, fifo, "
        "independent loss of packets",
        "features": [
            {"name": f.name, "words": f.words, "unit": f.unit, "from": f.least, "to": f.most}
            for f in FEATURES
        ],
        "outcomes": OUTCOMES,
        "accuracy": {
            "cases": grown.cases,
            "folds": FOLDS,
            "cross_validated": round(grown.cross_validated, 3),
            "always_the_commonest": round(grown.commonest, 3),
        },
        "rules": [rule.json() for rule in rules(grown.root)],
    }


def _answer(rows: dict[str, Rows]) -> Answer:
    every = seen(rows[""])
    grown = grow(every)
    found = rules(grown.root)
    labels = [rule.condition() for rule in found]
    columns = [
        "paths",
        "BBR better",
        "CUBIC better",
        "neither",
        "gain, p10",
        "gain, median",
        "gain, p90",
    ]
    cells: list[list[float | None]] = []
    for rule in found:
        gains = sorted(one.gain_pct for one in rule.leaf.there)
        counts = Counter(one.outcome for one in rule.leaf.there)
        shares = [100 * counts[outcome] / len(gains) for outcome in ("bbr", "cubic", "even")]
        spread = [quantile(gains, 0.1), median(gains), quantile(gains, 0.9)]
        cells.append([float(round(value)) for value in (len(gains), *shares, *spread)])
    grid = Grid(
        title="For each rule, the results on the paths that match it", unit="paths, then %",
        row="when", column="", rows=labels, columns=columns, cells=cells, digits=0,
    )  # fmt: skip
    counts = Counter(one.outcome for one in every)
    verdict = (
        f"Of {len(every)} paths, BBR has at least 10 % more goodput on {counts['bbr']}, and CUBIC "
        "on "
        f"{counts['cubic']}. {len(found)} rules predict this correctly for "
        f"{100 * grown.cross_validated:.0f} % of "
        "unseen paths. Predicting the most frequent class for all paths is correct for "
        f"{100 * grown.commonest:.0f} %."
    )
    lines = [f"- {rule.words()}" for rule in found]
    return Answer(
        verdict,
        [grid],
        words=lines,
        rules=document(grown),
        picture=lambda figure: draw(figure, grown.root),
    )


def draw(figure: Figure, root: Node) -> None:
    """Draws the tree; paths below a threshold go to the left."""
    place = figure.subplots()
    place.axis("off")
    leaves = {id(leaf): number for number, leaf in enumerate(root.leaves())}
    colours = {"bbr": "#cfe3f5", "cubic": "#fbdcc4", "even": "#eeeeee"}

    def put(node: Node, deep: int) -> tuple[float, int]:
        if node.below is None or node.above is None:
            x = float(leaves[id(node)])
            gains = [one.gain_pct for one in node.there] or [0.0]
            text = (
                f"{_NAMES[node.says]}\n{node.right} of {len(node.there)}\ngain "
                f"{signed(median(gains))} %"
            )
            box = {"boxstyle": "round", "facecolor": colours[node.says], "edgecolor": "#555555"}
            place.text(x, -deep, text, ha="center", va="center", fontsize=7, bbox=box)
            return x, deep
        (left, one), (right, other) = put(node.below, deep + 1), put(node.above, deep + 1)
        x = (left + right) / 2
        for end in (left, right):
            place.plot([x, end], [-deep, -deep - 1], color="#888888", linewidth=1, zorder=0)
        asked = FEATURES[node.feature]
        box = {"boxstyle": "round", "facecolor": "white", "edgecolor": "#555555"}
        text = f"{asked.words}\nbelow {node.limit:g} {asked.unit}?"
        place.text(x, -deep, text, ha="center", va="center", fontsize=7, bbox=box)
        place.text((x + left) / 2, -deep - 0.5, "yes", fontsize=6, ha="right", color="#555555")
        place.text((x + right) / 2, -deep - 0.5, "no", fontsize=6, ha="left", color="#555555")
        return x, max(one, other)

    _, deep = put(root, 0)
    place.set_xlim(-0.7, len(leaves) - 0.3)
    place.set_ylim(-deep - 0.6, 0.6)
    figure.set_size_inches(max(6.0, 1.15 * len(leaves)), 1.1 * deep + 2)
    figure.suptitle(
        f"{DECISION_TREE.question}\nSingle flow; leaves: number of paths, median gain of BBR"
    )


DECISION_TREE = Study(
    name="decision-tree",
    question="Which properties of a path predict whether BBR or CUBIC has more goodput?",
    parts=_parts,
    answer=_answer,
    rules=True,
)
