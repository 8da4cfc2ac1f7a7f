"""The recommendation: its effects, its cost for other flows, and their intervals.

The intervals consist of the spread of the simulations (variants of the path and seeds) and of the
errors of such simulations compared with Linux. `validation/advise.py` measures these errors on
paths that are not used for the validation, and writes them to `data/advise.json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path as FilePath
from statistics import fmean
from typing import TYPE_CHECKING

from narrows.advise import sensitivity
from narrows.advise.asked import Asked, Variant
from narrows.advise.candidates import Candidate, Kernel, lacking
from narrows.advise.model import AdviceJson, CandidateJson, EffectJson, PriceJson
from narrows.advise.search import PLAIN, TIE, Found, losing, surely
from narrows.advise.trial import RIVAL, Trial, run, scenario, side
from narrows.json_object import JsonObject
from narrows.registry import paced
from narrows.storage.provenance import evidence

if TYPE_CHECKING:
    from narrows.runs.model import EvidenceJson

CALIBRATION = FilePath(__file__).parents[1] / "data" / "advise.json"
"""File with two numbers for each metric: the factor on the random spread, and the error of
simulations as share of the value. With these numbers, the intervals contain 90 % of the
measurements.
"""

WORTH = 0.05
"""Minimum relative gain in utility for a recommendation, at the lower end of its 90 % interval."""

OFTEN = 0.7
"""Minimum share of variants and seeds in which a recommended candidate has a higher utility than
the current state.
"""

NEAR, AGREED = 1.4, 0.75
"""A path is validated if the distance of a reference case is at most `NEAR` and at least the share
`AGREED` of its metrics agrees. `NEAR` is about the distance of a case that differs by a factor of
two in two of its numbers.
"""


FIGURES: dict[str, tuple[str, str, bool]] = {
    "goodput_mbit": ("goodput", "Mbit/s", True),
    "p95_ms": ("p95 latency under load", "ms", False),
    "again_pct": ("retransmission rate", "%", False),
    "page_s": ("page load time", "s", False),
    "beside_mbit": ("goodput beside one CUBIC flow", "Mbit/s", True),
    "rival_mbit": ("goodput of that CUBIC flow", "Mbit/s", True),
}
"""Name and unit of each metric, and whether a higher value is better."""

OF_QUEUES = {
    "goodput_mbit": "goodput of four CUBIC flows",
    "rival_mbit": "goodput of a CUBIC flow beside BBR",
}
"""Names of the metrics that differ from `FIGURES` if queues are changed."""

UNKNOWN = (1.0, 0.05)
"""For a metric without calibration: the factor on the random spread, and the share of the value."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """The predicted change of a metric.

    Attributes:
        name: Key of `FIGURES`.
        before: Value without the change.
        after: Value with the change.
        low: Lower end of the 90 % interval of the change.
        high: Upper end of this interval.
        of_queues: Whether queues are changed instead of flows.
    """

    name: str
    before: float
    after: float
    low: float
    high: float
    of_queues: bool = False

    @property
    def says(self) -> str:
        """Name of the metric."""
        return (
            OF_QUEUES.get(self.name, FIGURES[self.name][0])
            if self.of_queues
            else FIGURES[self.name][0]
        )

    @property
    def unit(self) -> str:
        """Unit of all values."""
        return FIGURES[self.name][1]

    @property
    def change(self) -> float:
        """The change, in the unit of the metric."""
        return self.after - self.before

    @property
    def clear(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0

    def json(self) -> EffectJson:
        """The JSON object."""
        _, unit, more = FIGURES[self.name]
        return {
            "name": self.name,
            "says": self.says,
            "unit": unit,
            "more_is_better": more,
            "before": _short(self.before),
            "after": _short(self.after),
            "change": _short(self.change),
            "low": _short(self.low),
            "high": _short(self.high),
            "clear": self.clear,
        }


@dataclass(frozen=True, kw_only=True)
class Price:
    """The cost for other flows.

    Attributes:
        share_pct: Share of the total goodput that a flow of the candidate gets beside one CUBIC
            flow. If queues are changed, `share_pct` is the share of a BBR flow beside a CUBIC flow.
        times_fair: Share of a flow of the candidate among three CUBIC flows, relative to a fair
            share.
        kept_pct: Goodput of a CUBIC flow beside one flow of the candidate, in percent of its
            goodput beside another CUBIC flow. If queues are changed, `kept_pct` is the goodput of a
            CUBIC flow beside a BBR flow, in percent of half of their total goodput.
    """

    share_pct: float | None
    times_fair: float | None
    kept_pct: float | None

    def json(self) -> PriceJson:
        """The JSON object."""
        return {
            "share_pct": _short(self.share_pct),
            "times_fair": _short(self.times_fair),
            "kept_pct": _short(self.kept_pct),
        }


@dataclass(frozen=True, kw_only=True)
class Row:
    """A candidate with its metrics.

    Attributes:
        key: Key of the candidate.
        marks: Any of `in use`, `recommended`, `fastest`.
        figures: `FIGURES` and `utility` as weighted means over the variants; None if not simulated.
        price: Cost for other flows.
        runs: Number of simulated combinations of a variant and a seed.
        why_not: Reason why the candidate is not recommended although its utility may be high; empty
            if there is none.
        needs: The command that installs missing kernel modules; empty if none is missing.
    """

    key: str
    marks: tuple[str, ...]
    figures: dict[str, float | None]
    price: Price
    runs: int
    why_not: str
    needs: str

    def json(self) -> JsonObject:
        """The JSON object."""
        return {
            "key": self.key,
            "marks": list(self.marks),
            **{name: _short(value) for name, value in self.figures.items()},
            **self.price.json(),
            "runs": self.runs,
            "why_not": self.why_not,
            "needs": self.needs,
        }


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The complete recommendation.

    Attributes:
        found: The result of the search.
        has: The kernel.
        choice: The recommended candidate; the present one if no change is recommended.
        gain: Relative gain of utility; 0 without a change.
        effects: Predicted changes; without a recommendation, those of the best candidate.
        best: The candidate whose effects are reported.
        price: Cost for other flows.
        shown: Better candidates that are not recommended, with the reason.
        wrong: Conditions under which the recommendation would be wrong, in sentences.
        rule: The rule of the decision tree that applies to the path; empty if none does.
        inside: Whether the path is inside the validated range.
        cases: The nearest reference cases.
        rows: Every candidate with its metrics, the best first.
        fastest: The finalist with the highest goodput alone, regardless of other flows. If several
            finalists are within 2 % of the highest goodput, the recommended candidate or the
            current state is named.
        lacking: Candidates that the kernel cannot load, with the missing modules.
        wakeups_per_s: Timer wakeups of pacing per flow and second.
        preliminary: Whether the last round is missing.
        unbounded: Whether the packet budget did not allow the search for `wrong`.
        commands: The commands that apply the change.
    """

    found: Found
    has: Kernel
    choice: Candidate
    gain: float
    effects: list[Effect]
    best: Candidate
    price: Price
    shown: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    rule: str = ""
    inside: bool = False
    cases: list[EvidenceJson] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    fastest: str = ""
    lacking: dict[str, list[str]] = field(default_factory=dict)
    wakeups_per_s: float | None = None
    preliminary: bool = False
    unbounded: bool = False
    commands: list[str] = field(default_factory=list)

    @property
    def leave(self) -> bool:
        """Whether the recommendation is to change nothing."""
        return self.choice.present

    def json(self) -> AdviceJson:
        """The JSON object."""
        found, asked = self.found, self.found.asked
        return {
            "advice": 1,
            "asked": {
                "as": asked.role,
                "for": list(asked.cares),
                "now": asked.now,
                "data_centre": asked.data_centre,
                "seed": asked.seed,
                "kernel": self.has.says,
            },
            "path": asked.place.json(),
            "leave": self.leave,
            "choice": _candidate(self.choice),
            "best": _candidate(self.best),
            "gain": _short(self.gain),
            "effects": [effect.json() for effect in self.effects],
            "price": self.price.json(),
            "candidates": [row.json() for row in self.rows],
            "fastest": self.fastest,
            "kernel_lacks": self.lacking,
            "not_recommended": self.shown,
            "wrong_when": self.wrong,
            "rule": self.rule,
            "inside_validated": self.inside,
            "extrapolated": not self.inside,
            "evidence": self.cases,
            "pacing_wakeups_per_s": _short(self.wakeups_per_s),
            "ranking": [
                {"key": key, "utility": _short(found.utility(key)), "allowed": found.allowed(key)}
                for key in found.ranking()
            ],
            "finalists": found.finalists,
            "runs": len(found.trials),
            "rounds": found.rounds,
            "preliminary": self.preliminary,
            "budget": {
                "reached": found.limited or self.unbounded,
                "time_limit_reached": found.late,
                "durations_s": [lasts for _, lasts in found.durations],
                "intended_s": [planned for planned, _ in found.durations],
                "rounds_omitted": found.omitted,
                "boundaries_omitted": self.unbounded,
            },
            "commands": self.commands,
        }


def _candidate(of: Candidate) -> CandidateJson:
    return {
        "key": of.key,
        "says": of.says,
        "cc": of.cc,
        "queue": of.queue,
        "shaper_share": of.share,
    }


def _short(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def decide(found: Found) -> tuple[str, str, float]:
    """The key of the recommended candidate, the key of the best alternative to the current state,
    and the relative gain in utility of this alternative.

    The alternative is the best candidate that can be recommended. The alternative is recommended if
    it is clearly better than the current state, and worse on no variant of a measured path.
    """
    present = found.present
    order = [key for key in (found.finalists or found.ranking()) if found.allowed(key)]
    here = found.utility(present)
    others = [key for key in order if key != present]
    if here is None or not others:
        return present, present, 0.0
    safe = [key for key in others if losing(found, key) is None]
    others = safe or others
    most = found.utility(others[0]) or 0.0
    near = [key for key in others if (found.utility(key) or 0.0) >= (1 - TIE) * most]
    best = min(
        near, key=lambda key: (PLAIN.index(key) if key in PLAIN else len(PLAIN), near.index(key))
    )
    gain = (found.utility(best) or 0.0) / here - 1
    mine, its = found.utilities(present), found.utilities(best)
    better = [its[at] > mine[at] for at in its if at in mine]
    clear = (
        best in safe and surely(found, best) >= WORTH and bool(better) and fmean(better) >= OFTEN
    )
    return (best if clear else present), best, gain


def advise(found: Found, has: Kernel, *, thorough: bool = True) -> Advice:
    """The recommendation from a search.

    Args:
        found: The result of the search.
        has: The kernel.
        thorough: Whether to search, with further simulations, for conditions under which the
            recommendation would be wrong.
    """
    asked = found.asked
    key, best, gain = decide(found)
    choice, other = found.candidates[key], found.candidates[best]
    rival = found.candidates[found.present] if key == best else other
    wrong = sensitivity.sentences(asked, choice, rival) if thorough else []
    cases = _cases(asked, choice)
    inside = any(case["distance"] <= NEAR and case["agreement"] >= AGREED for case in cases)
    ahead = found.ranking(found.finalists or None)
    shown = (
        {k: _why_not(found, k) for k in ahead[: ahead.index(best)] if not found.allowed(k)}
        if best in ahead
        else {}
    )
    return Advice(
        found=found,
        has=has,
        choice=choice,
        gain=gain if not choice.present else 0.0,
        best=other,
        effects=effects(found, best) if best != found.present else [],
        price=_price(found, best),
        shown=shown,
        wrong=wrong,
        rule=sensitivity.rule(asked),
        rows=rows(found, key),
        fastest=fastest(found, key)[0],
        lacking=lacking(asked, has),
        inside=inside,
        cases=cases,
        wakeups_per_s=_wakeups(found, best),
        preliminary=found.rounds < len(_ALL_ROUNDS),
        unbounded=thorough and choice.key != rival.key and sensitivity.exceeds(asked),
        commands=[] if choice.present else commands(asked, choice, has),
    )


def fastest(found: Found, choice: str) -> list[str]:
    """The finalists whose goodput alone is within 2 % of the highest: first the recommended
    candidate, then the current state, then the others.
    """
    known = {
        key: got
        for key in found.finalists or found.ranking()
        if (got := found.goodput(key)) is not None
    }
    near = [key for key, got in known.items() if got >= (1 - TIE) * max(known.values())]
    return sorted(near, key=lambda key: (key != choice, key != found.present, -known[key])) or [
        choice
    ]


def rows(found: Found, choice: str) -> list[Row]:
    """Every candidate that was tried, the best first."""
    fast = fastest(found, choice)
    out = []
    for key in found.ranking():
        candidate = found.candidates[key]
        marks = {"in use": candidate.present, "recommended": key == choice, "fastest": key in fast}
        draws = found.draws(key)
        out.append(
            Row(
                key=key,
                marks=tuple(mark for mark, has_it in marks.items() if has_it),
                figures={name: found.mean(key, name) for name in FIGURES}
                | {"utility": found.utility(key)},
                price=_price(found, key),
                runs=sum("goodput_mbit" in values for values in draws.values()),
                why_not=_why_not(found, key) if not found.allowed(key) else _doubtful(found, key),
                needs=candidate.needs,
            )
        )
    return out


_ALL_ROUNDS = ("first", "second", "last")


def effects(found: Found, key: str) -> list[Effect]:
    """The predicted changes of all metrics that were simulated with and without the change."""
    mine, its = found.draws(found.present), found.draws(key)
    out = []
    for name in FIGURES:
        pairs = [
            (at, before, after)
            for at in its
            if at in mine
            and (before := mine[at].get(name)) is not None
            and (after := its[at].get(name)) is not None
        ]
        if pairs:
            out.append(_effect(found.asked, name, pairs))
    return out


def _effect(
    asked: Asked, name: str, pairs: Sequence[tuple[tuple[int, int], float, float]]
) -> Effect:
    by_variant: dict[int, list[tuple[float, float]]] = {}
    for (variant, _), earlier, later in pairs:
        by_variant.setdefault(variant, []).append((earlier, later))
    weights = {variant: asked.place.variants[variant].weight for variant in by_variant}
    whole = math.fsum(weights.values())
    before, after = (
        math.fsum(weights[v] * fmean(pair[side_] for pair in of) for v, of in by_variant.items())
        / whole
        for side_ in (0, 1)
    )
    factor, share = calibration(inferred=asked.place.inferred).get(name, UNKNOWN)
    # Random variation and errors of the simulator apply to each variant. The real one is unknown,
    # so the interval covers those of all variants.
    ends = [
        _ends([later - earlier for earlier, later in of], of, factor, share)
        for of in by_variant.values()
    ]
    return Effect(
        name=name,
        before=before,
        after=after,
        low=min(low for low, _ in ends),
        high=max(high for _, high in ends),
        of_queues=side(asked) == "queue",
    )


def _ends(
    changes: Sequence[float], pairs: Sequence[tuple[float, float]], factor: float, share: float
) -> tuple[float, float]:
    """The interval of a change on one variant. The range of the changes is widened at both ends by
    `share` of the mean value, and then stretched by `factor` around the mean change.

    >>> _ends([1.0, 2.0, 3.0], [(9.0, 10.0), (9.0, 11.0), (9.0, 12.0)], 2.0, 0.05)
    (-1.0, 5.0)
    """
    middle = fmean(changes)
    own = share * fmean(abs(earlier) + abs(later) for earlier, later in pairs) / 2
    return middle - factor * (middle - min(changes) + own), middle + factor * (
        max(changes) - middle + own
    )


@cache
def calibration(*, inferred: bool = False) -> dict[str, tuple[float, float]]:
    """The factor on the random spread and the error as share of the value, by metric. With
    `inferred`, the numbers are those of measured paths, otherwise those of stated paths.
    """
    if not CALIBRATION.exists():
        return {}
    told = json.loads(CALIBRATION.read_text(encoding="utf-8"))
    kept: Mapping[str, Sequence[float]] = told.get(
        "measured" if inferred else "widths", told["widths"]
    )
    return {name: (float(pair[0]), float(pair[1])) for name, pair in kept.items()}


_ABOUT = {
    "bulk": ("goodput_mbit", "beside_mbit"),
    "calls": ("p95_ms",),
    "pages": ("page_s",),
    "fairness": ("rival_mbit",),
    "retransmissions": ("again_pct",),
}
"""The metrics of each goal."""


def claim(told: Sequence[Effect], cares: Sequence[str]) -> Effect | None:
    """The main effect: the metric of the goals with the largest relative improvement, at the end of
    the interval nearer to zero. The result is None if no improvement has an interval that excludes
    zero.
    """
    about = {name for care in cares for name in _ABOUT[care]}
    better = [
        e for e in told if e.name in about and e.clear and (e.change > 0) is FIGURES[e.name][2]
    ]

    def surely(of: Effect) -> float:
        """Relative change at the end of the interval nearer to zero."""
        after = of.before + (of.low if of.low > 0 else of.high)
        return abs(math.log(max(after, 1e-9) / max(of.before, 1e-9)))

    return max(better, key=surely, default=None)


def worse(told: Sequence[Effect]) -> list[Effect]:
    """The effects on goodput and p95 latency that are worse by 5 % or more, and whose intervals
    exclude zero.
    """
    return [
        e
        for e in told
        if e.name in {"goodput_mbit", "p95_ms"}
        and e.clear
        and (e.change > 0) is not FIGURES[e.name][2]
        and abs(e.change) >= WORTH * abs(e.before)
    ]


def _price(found: Found, key: str) -> Price:
    draws = found.draws(key).values()
    shares = [share for v in draws if (share := v.get("share_pct")) is not None]
    kept = [
        100 * has / fair
        for v in draws
        if (fair := v.get("rival_fair_mbit")) and (has := v.get("rival_mbit"))
    ]
    share_pct, kept_pct = (fmean(of) if of else None for of in (shares, kept))
    return Price(share_pct=share_pct, times_fair=found.times_fair(key), kept_pct=kept_pct)


def _why_not(found: Found, key: str) -> str:
    candidate = found.candidates[key]
    if candidate.only:
        return candidate.only
    times = found.greedy(key)
    return "" if times is None else f"it takes {times:.1f} times its fair share among CUBIC flows"


def _doubtful(found: Found, key: str) -> str:
    """The reason why a candidate with a clearly higher mean utility is not recommended: its utility
    is lower on a possible path. The text is empty if there is no such path.
    """
    lost, here = losing(found, key), found.utility(found.present)
    if lost is None or here is None or (found.utility(key) or 0.0) < (1 + WORTH) * here:
        return ""
    variant, share = lost
    return f"it reduces the utility by {100 * share:.0f} % on {_possible(variant)}"


def _possible(variant: Variant) -> str:
    """A possible path in words."""
    return f"a possible path with {variant.why}" if variant.why else "the most likely path"


def _wakeups(found: Found, key: str) -> float | None:
    """Timer wake-ups per second of a paced flow; None if the candidate is not paced. Linux sends
    data for about a millisecond at once: at least two segments, at most 64 KiB.
    """
    cc = found.candidates[key].cc
    goodputs = [v["goodput_mbit"] for v in found.draws(key).values() if v.get("goodput_mbit")]
    if cc not in paced() or not goodputs:
        return None
    bytes_per_s = fmean([g for g in goodputs if g is not None]) * 1e6 / 8
    burst = min(65536.0, max(2 * 1448.0, bytes_per_s / 1024))
    return bytes_per_s / burst


def _cases(asked: Asked, choice: Candidate) -> list[EvidenceJson]:
    """The reference cases nearest to a simulation of the recommended candidate on the likeliest
    path; empty for a shaper.
    """
    if choice.share is not None:
        return []
    setting = "alone" if side(asked) == "sender" else "mix"
    done = run(
        scenario(asked, choice, Trial(choice.key, setting, 0, asked.seed, 1)).tree(), asked.seed
    )
    return evidence(done) or []


def commands(asked: Asked, choice: Candidate, has: Kernel) -> list[str]:
    """The commands that apply a candidate."""
    if choice.cc is not None:
        # From 4.13 on, Linux paces without fq; with fq, pacing costs less. Older kernels need fq.
        fq = not has.paces or "sch_fq" not in has.missing
        change = (
            "narrows tune plan --cc "
            f"{choice.cc}{' --qdisc fq' if choice.cc in paced() and fq else ''}"
        )
    elif choice.share is None:
        change = f"narrows tune plan --qdisc {choice.queue} --dev DEV"
    else:
        way = "down" if choice.behind else "up"
        rate = f"{choice.share * asked.place.rate_mbit:.4g}Mbit"
        change = f"narrows tune plan --shape DEV --{way} {rate} --qdisc {choice.queue}"
    return [*([choice.needs] if choice.needs else []), change]


__all__ = [
    "FIGURES",
    "RIVAL",
    "Advice",
    "Effect",
    "Price",
    "advise",
    "calibration",
    "claim",
    "commands",
    "decide",
    "effects",
    "surely",
    "worse",
]
