"""Sensitivity of a recommendation: paths that differ from the given one in a single property, and
on which another candidate would be better.

The module also returns the rule of the decision tree that applies to the path (`data/tree.json`,
written by `narrows study decision-tree`). The rules depend on rate, RTT, buffer and random loss,
and consider only goodput.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path as FilePath

from narrows.advise.asked import Asked, place
from narrows.advise.candidates import Candidate
from narrows.advise.search import Found, surely
from narrows.advise.trial import OF_CARE, RIVAL, Trial, packets, play, side
from narrows.errors import NarrowsError
from narrows.runs.parallel import everywhere
from narrows.runs.run import Progress
from narrows.runs.scenario import Path
from narrows.study.model import RuleJson

TREE = FilePath(__file__).parents[1] / "data" / "tree.json"
"""File with the rules of the decision tree."""

CLEARLY = 0.05
"""Minimum relative gain in utility of the other candidate, at the lower end of its 90 % interval
over the seeds.
"""

SEEDS = 4
"""Number of seeds on a path whose first seed favours the other candidate."""

SECONDS = 30
"""Duration of a trial, in s."""

MOST_MBIT = 200.0
"""Rate in Mbit/s above which trials are shorter in proportion."""

PACKETS = 300_000_000
"""Packet budget of the paths around this one. If the trials would exceed this budget, no boundary
is searched.
"""

BUFFERS = (0.125, 0.25, 0.5, 2.0, 4.0, 8.0)
RTTS = (0.25, 0.5, 2.0, 4.0)
LOSSES = (0.0, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2)
"""Tested values: multiples of the buffer, multiples of the RTT, and random loss."""


@dataclass(frozen=True)
class _Step:
    """A path that differs from the given one in the property `what`, with the value `value`."""

    what: str
    value: float
    path: Path


@cache
def _rules() -> list[RuleJson]:
    if not TREE.exists():
        return []
    told = json.loads(TREE.read_text(encoding="utf-8"))
    rules: list[RuleJson] = told["rules"] if told.get("format") == "narrows-rules-1" else []
    return rules


def rule(asked: Asked) -> str:
    """The rule of the decision tree that applies to the likeliest path, in words; empty if none
    applies.
    """
    where = asked.place
    path = where.variants[0].path
    # The rules depend on the buffer size, which is unknown if a measurement does not show the
    # queue.
    if (
        side(asked) != "sender"
        or not where.told
        or where.buffer_bdp is None
        or path.policer is not None
        or path.hop is not None
    ):
        return ""
    here = {"rate_mbit": where.rate_mbit, "rtt_ms": where.rtt_ms, "buffer_bdp": where.buffer_bdp,
            "loss_pct": 100 * where.loss}  # fmt: skip
    for one in _rules():
        parts = [(here.get(part["feature"]), part) for part in one["when"]]
        if all(
            v is not None and part.get("at_least", v) <= v < part.get("below", v + 1)
            for v, part in parts
        ):
            return str(one["words"])
    return ""


def sentences(asked: Asked, choice: Candidate, other: Candidate) -> list[str]:
    """The boundaries of buffer, RTT and loss beyond which `other` has a clearly higher utility.

    A boundary is reported only if `other` is better at this value and at every tested value beyond
    it. Each time, the gain must exceed the random variation.
    """
    if choice.key == other.key or exceeds(asked):
        return []
    tried, flipped = _flips(asked, choice, other)
    here = {
        "buffer": asked.place.buffer_bdp or 0.0,
        "loss": asked.place.loss,
        "round trip": asked.place.rtt_ms,
    }
    out = []
    for what, say in _SAYS.items():
        for beyond, word in ((True, "or more"), (False, "or less")):
            side_ = [
                v for w, v in tried if w == what and (v > here[what]) is beyond and v != here[what]
            ]
            nearest = boundary(side_, {v for w, v in flipped if w == what}, beyond=beyond)
            if nearest is not None:
                unknown = what == "buffer" and not asked.place.told
                known = (
                    f"this path: {say(here[what])}"
                    if (here[what] or what == "loss") and not unknown
                    else "this path: unknown"
                )
                out.append(f"with {say(nearest)} {word} ({known}), {other.key} would be better")
    return out


def exceeds(asked: Asked) -> bool:
    """Whether the search for boundaries exceeds the packet budget."""
    settings, seconds = _settings(asked), _seconds(asked)
    cost = math.fsum(packets(asked, Trial(RIVAL, name, 0, 1, seconds)) for name in settings)
    # At most two candidates and the reference, with all seeds on every path.
    return 3 * SEEDS * len(_steps(asked)) * cost > PACKETS


def _settings(asked: Asked) -> list[str]:
    of = side(asked)
    return sorted({setting for care in asked.cares for setting in OF_CARE[of][care]})


def _seconds(asked: Asked) -> int:
    """Duration of a trial, in s."""
    return max(5, round(SECONDS * min(1.0, MOST_MBIT / asked.place.rate_mbit)))


def boundary(tried: Sequence[float], flipped: AbstractSet[float], *, beyond: bool) -> float | None:
    """The tested value nearest to that of the path such that it and all values beyond it are in
    `flipped`; None if there is none.

    >>> boundary([2.0, 4.0, 8.0], {4.0, 8.0}, beyond=True)
    4.0
    >>> boundary([0.1, 0.2, 0.5], {0.5}, beyond=False) is None
    True
    """
    nearest = None
    for value in sorted(tried, reverse=beyond):
        if value not in flipped:
            break
        nearest = value
    return nearest


_SAYS: dict[str, Callable[[float], str]] = {
    "buffer": lambda bdp: f"a buffer of {bdp:.2g} BDP",
    "loss": lambda share: f"{100 * share:.2g} % random loss",
    "round trip": lambda ms: f"an RTT of {ms:.3g} ms",
}


def _steps(asked: Asked) -> list[_Step]:
    likeliest = asked.place.variants[0].path
    if likeliest.hop is not None or likeliest.trace is not None or likeliest.policer is not None:
        return []
    steps = [
        _Step("round trip", m * asked.place.rtt_ms, _with_rtt(asked, likeliest, m)) for m in RTTS
    ]
    bdp = asked.place.buffer_bdp
    if bdp:
        steps += [
            _Step("buffer", m * bdp, replace(likeliest, buffer=f"{m * bdp:.4g}bdp"))
            for m in BUFFERS
        ]
    if likeliest.loss is None or not isinstance(likeliest.loss, dict):
        steps += [
            _Step("loss", p, replace(likeliest, loss=f"{100 * p:g}%"))
            for p in LOSSES
            if p != asked.place.loss
        ]
    return steps


def _with_rtt(asked: Asked, path: Path, times: float) -> Path:
    """The path with `times` its RTT and the same buffer in bytes, as if the path were longer or
    shorter.
    """
    changed = replace(path, rtt=f"{times * asked.place.rtt_ms:.6g}ms")
    bdp = asked.place.buffer_bdp
    return changed if bdp is None else replace(changed, buffer=f"{bdp / times:.6g}bdp")


def _flips(
    asked: Asked, choice: Candidate, other: Candidate
) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
    """The tested values, and those at which the utility of `other` is clearly higher than that of
    `choice`.
    """
    of, settings, seconds = side(asked), _settings(asked), _seconds(asked)
    worlds: dict[int, Found] = {}
    plans: list[_Step] = []
    for step in _steps(asked):
        try:
            where = place([(step.path, "")], source="beside")
        except NarrowsError:
            continue  # The path is invalid, such as a buffer below one packet.
        # `surely` compares the other candidate with the first one, the choice.
        worlds[len(plans)] = Found(replace(asked, place=where), {c.key: c for c in (choice, other)})
        plans.append(step)
    keys = [choice.key, other.key]
    rivals = [RIVAL] if of == "sender" and "beside" in settings and RIVAL not in keys else []
    reference = Candidate(key=RIVAL, says=RIVAL, cc=RIVAL)

    def one(item: tuple[int, Trial], keep_on: Progress) -> None:
        n, trial = item
        world = worlds[n]
        world.trials[trial] = play(
            world.asked, world.candidates.get(trial.key, reference), trial, keep_on
        )

    def tried(where: Sequence[int], seeds: Sequence[int]) -> None:
        todo = [
            *(
                (n, Trial(k, setting, 0, s, seconds))
                for n in where
                for s in seeds
                for k in keys
                for setting in settings
            ),
            *(
                (n, Trial(rival, "beside", 0, s, seconds))
                for n in where
                for s in seeds
                for rival in rivals
            ),
        ]
        everywhere(todo, one, cost=lambda item: item[1].seconds)

    def ahead(n: int) -> bool:
        mine, its = worlds[n].utility(choice.key), worlds[n].utility(other.key)
        return mine is not None and its is not None and its > (1 + CLEARLY) * mine

    tried(range(len(plans)), [asked.seed])
    perhaps = [n for n in range(len(plans)) if ahead(n)]
    tried(perhaps, range(asked.seed + 1, asked.seed + SEEDS))
    sure = [n for n in perhaps if surely(worlds[n], other.key) > CLEARLY]
    return [(s.what, s.value) for s in plans], [(plans[n].what, plans[n].value) for n in sure]
