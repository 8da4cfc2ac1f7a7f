"""Which candidates are good, in little time: successive halving.

All of them run shortly on the likeliest path; the better half longer and on every variant; the best
few, beside what there is and what everybody knows, as long as the reference runs are, with several
seeds. Trials of one variant and seed are compared with each other, so that what chance does to all
of them alike does not count.

Trials are on every core; Ctrl-C and the end of the time keep what is known.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from narrows.advise.asked import Asked
from narrows.advise.candidates import Candidate
from narrows.advise.trial import OF_CARE, RIVAL, Trial, packets, page_seconds, play, side
from narrows.advise.utility import utility
from narrows.inference import student
from narrows.runs.parallel import everywhere
from narrows.runs.run import Progress

PLAIN = ("cubic", "bbr", "reno", "fq_codel", "cake", "fq_codel at 90%", "cake at 90%")
"""What everybody knows: wins a tie, and is never sorted out before the last round."""

KEPT, LAST = 0.5, 3
"""The part of them that goes to the second round, and how many come to the last beside what there
is.
"""

ROUNDS = ((15, 1), (30, 2), (60, 4))
"""Seconds of a trial, and seeds, of each round."""

GUARDED = 2.0
"""Who takes more than so many times a fair share from CUBIC is not recommended,"""

SPARED = 2 / 3
"""unless CUBIC keeps so much of what it has among its own: then most of that it could not use."""

Values = dict[str, float | None]


@dataclass
class Found:
    """What is known so far.

    Attributes:
        asked: The question.
        candidates: By key, what there is first.
        trials: What each came to.
        rounds: So many are complete.
        finalists: Who is in the last complete round, the best first.
        stopped: By Ctrl-C.
        seconds: How long it took.
    """

    asked: Asked
    candidates: dict[str, Candidate]
    trials: dict[Trial, Values] = field(default_factory=dict)
    rounds: int = 0
    finalists: list[str] = field(default_factory=list)
    stopped: bool = False
    seconds: float = 0.0

    @property
    def present(self) -> str:
        """The key of what there is."""
        return next(iter(self.candidates))

    def draws(self, key: str) -> dict[tuple[int, int], Values]:
        """The figures of a candidate by variant and seed, the longest trials of each setting."""
        found: dict[tuple[int, int], Values] = {}
        for trial, values in sorted(self.trials.items(), key=lambda item: item[0].seconds):
            if trial.key == key:
                found.setdefault((trial.variant, trial.seed), {}).update(values)
        if side(self.asked) == "sender":
            for trial, values in sorted(self.trials.items(), key=lambda item: item[0].seconds):
                at = (trial.variant, trial.seed)
                if trial.key == RIVAL and trial.setting == "beside" and at in found:
                    # Two of a kind share by chance: each one's part is half of what both get.
                    half = (_known(values["beside_mbit"]) + _known(values["rival_mbit"])) / 2
                    found[at]["rival_fair_mbit"] = half
                    if key == RIVAL:
                        found[at] |= {"beside_mbit": half, "rival_mbit": half}
        return found

    def utilities(self, key: str) -> dict[tuple[int, int], float]:
        """Its utility by variant and seed, where all that it needs was tried."""
        place, cares = self.asked.place, self.asked.cares
        needed = {"bulk": "goodput_mbit", "calls": "p95_ms", "pages": "page_s",
        "fairness": "rival_mbit",
                  "retransmissions": "again_pct"}  # fmt: skip
        return {
            at: utility(values, cares, rate_mbit=place.rate_mbit, rtt_ms=place.rtt_ms)
            for at, values in self.draws(key).items()
            if all(needed[care] in values for care in cares)
        }

    def utility(self, key: str) -> float | None:
        """Its utility over all variants by their weights; None where it was not tried."""
        by_variant: dict[int, list[float]] = {}
        for (variant, _), value in self.utilities(key).items():
            by_variant.setdefault(variant, []).append(math.log(value))
        if not by_variant:
            return None
        weights = {variant: self.asked.place.variants[variant].weight for variant in by_variant}
        whole = math.fsum(weights.values())
        return math.exp(
            math.fsum(weights[v] * fmean(values) for v, values in by_variant.items()) / whole
        )

    def greedy(self, key: str) -> float | None:
        """How many times its fair share it takes among CUBIC flows, where that is too much; None
        where it is not.
        """
        if side(self.asked) != "sender":
            return None
        times, kept = [], []
        fair = {(t.variant, t.seed, t.seconds): v["others_mbit"] for t, v in self._among(RIVAL)}
        for trial, values in self._among(key):
            others = fair.get((trial.variant, trial.seed, trial.seconds))
            if values["times_fair"] is not None and others and values["others_mbit"] is not None:
                times.append(values["times_fair"])
                kept.append(values["others_mbit"] / others)
        if not times or fmean(times) <= GUARDED or fmean(kept) >= SPARED:
            return None
        return fmean(times)

    def _among(self, key: str) -> list[tuple[Trial, Values]]:
        return [(t, v) for t, v in self.trials.items() if t.key == key and t.setting == "among"]

    def allowed(self, key: str) -> bool:
        """May it be recommended?"""
        return not self.candidates[key].only and (
            self.candidates[key].present or self.greedy(key) is None
        )

    def goodput(self, key: str) -> float | None:
        """Its mean goodput over all variants by their weights, Mbit/s; None where it was not
        tried.
        """
        return self.mean(key, "goodput_mbit")

    def mean(self, key: str, name: str) -> float | None:
        """The mean of a figure over all variants by their weights; None where it was not seen."""
        by_variant: dict[int, list[float]] = {}
        for (variant, _), values in self.draws(key).items():
            if (value := values.get(name)) is not None:
                by_variant.setdefault(variant, []).append(value)
        if not by_variant:
            return None
        weights = {variant: self.asked.place.variants[variant].weight for variant in by_variant}
        whole = math.fsum(weights.values())
        return math.fsum(weights[v] * fmean(values) for v, values in by_variant.items()) / whole

    def fastest(self, among: Sequence[str] | None = None) -> str | None:
        """Which of these has the highest goodput, whatever else it does; None where nothing is
        known.
        """
        known = {
            key: got for key in among or self.candidates if (got := self.goodput(key)) is not None
        }
        return max(known, key=lambda key: known[key], default=None)

    def ranking(self, among: Sequence[str] | None = None) -> list[str]:
        """Keys from the best; who was not tried is not in it."""
        known = [
            (value, key)
            for key in among or self.candidates
            if (value := self.utility(key)) is not None
        ]
        order = list(self.candidates)
        return [key for _, key in sorted(known, key=lambda item: (-item[0], order.index(item[1])))]


def surely(found: Found, key: str) -> float:
    """The nearer end of the 90 % interval of a candidate's gain, as chance has it; the gain where
    one seed is all.
    """
    mine, its = found.utilities(found.present), found.utilities(key)
    by_variant: dict[int, list[float]] = {}
    for at in its:
        if at in mine:
            by_variant.setdefault(at[0], []).append(math.log(its[at] / mine[at]))
    if not by_variant:
        return 0.0
    weights = {variant: found.asked.place.variants[variant].weight for variant in by_variant}
    whole = math.fsum(weights.values())
    gain = math.fsum(weights[v] * fmean(of) for v, of in by_variant.items()) / whole
    free = sum(len(of) - 1 for of in by_variant.values())
    if not free:
        return math.expm1(gain)
    # Variants are what may be, no sample of it: only what differs within one is chance.
    spread = math.fsum((x - fmean(of)) ** 2 for of in by_variant.values() for x in of) / free
    error = math.sqrt(
        spread * math.fsum((weights[v] / whole) ** 2 / len(of) for v, of in by_variant.items())
    )
    return math.expm1(gain - student(0.9, free) * error)


Tell = Callable[[str, float, float], object]
"""Called with what is being done, and how much of it is."""


def search(
    asked: Asked,
    candidates: Sequence[Candidate],
    *,
    within_s: float | None = None,
    first: Callable[[Found], object] | None = None,
    tell: Tell | None = None,
    jobs: int | None = None,
    rounds: Sequence[tuple[int, int]] = ROUNDS,
    known: Mapping[Trial, Values] | None = None,
) -> Found:
    """Runs the rounds; Ctrl-C answers what is known, if anything is.

    Args:
        asked: The question.
        candidates: What there is, first, and what could be switched on.
        within_s: After so long `first` is told what is known, if the last round is not over.
        first: Who is told.
        tell: Told the progress.
        jobs: Simulations at once; every core without.
        rounds: Seconds and seeds of each.
        known: What trials came to that another search of the same place and seed made; they are not
            played again.
    """
    found = Found(asked, {candidate.key: candidate for candidate in candidates})
    begin = time.monotonic()
    pending = within_s

    def finished(_trial: Trial) -> None:
        nonlocal pending
        found.seconds = time.monotonic() - begin
        # A second round that is not over compares no two with each other; the first one whole does.
        if pending is not None and found.seconds >= pending and found.rounds:
            pending = None
            if first is not None:
                first(found)

    keys = list(found.candidates)
    try:
        for number, (seconds, seeds) in enumerate(rounds):
            last = number == len(rounds) - 1
            variants = range(len(asked.place.variants)) if number else range(1)
            if number:
                keys = _kept(found, keys, last=last)
            todo = [
                t
                for t in _trials(asked, keys, variants, seeds, seconds, last=last)
                if t not in found.trials
            ]
            done = _Done(
                todo,
                asked,
                tell,
                ("first round", "second round", "last round")[min(number, 2)],
                finished,
            )
            everywhere(
                todo,
                _player(asked, found, known or {}),
                cost=lambda t: packets(asked, t),
                done=done,
                jobs=jobs,
            )
            found.rounds, found.finalists = number + 1, found.ranking(keys)
    except KeyboardInterrupt:
        found.stopped = True
        if not found.rounds:
            raise
    found.seconds = time.monotonic() - begin
    return found


def _known(value: float | None) -> float:
    return value or 0.0


class _Done:
    """Counts what is finished, by cost."""

    def __init__(
        self,
        todo: Sequence[Trial],
        asked: Asked,
        tell: Tell | None,
        name: str,
        then: Callable[[Trial], None],
    ) -> None:
        self._asked, self._tell, self._name, self._then = asked, tell, name, then
        self._whole, self._now = math.fsum(packets(asked, trial) for trial in todo), 0.0

    def __call__(self, trial: Trial) -> None:
        self._now += packets(self._asked, trial)
        if self._tell is not None:
            self._tell(self._name, self._now, self._whole)
        self._then(trial)


def _player(
    asked: Asked, found: Found, known: Mapping[Trial, Values]
) -> Callable[[Trial, Progress], None]:
    reference = Candidate(key=RIVAL, says=RIVAL, cc=RIVAL)

    def one(trial: Trial, keep_on: Progress) -> None:
        candidate = found.candidates.get(trial.key, reference)
        found.trials[trial] = (
            known[trial] if trial in known else play(asked, candidate, trial, keep_on)
        )

    return one


def _kept(found: Found, keys: Sequence[str], *, last: bool) -> list[str]:
    """Who goes on: the best, the fastest, what there is, what everybody knows."""
    ranking = [key for key in found.ranking(keys) if not found.candidates[key].only or not last]
    fair = [key for key in ranking if found.allowed(key)] if last else ranking
    count = LAST if last else max(LAST + 2, math.ceil(KEPT * len(ranking)))
    stay = {found.present, *fair[:count]} | (
        set() if last else {key for key in PLAIN if key in ranking}
    )
    # The best of those that may not be recommended is shown, too, and so is the fastest.
    stay |= {*ranking[:1], found.fastest(keys) or found.present}
    return [key for key in keys if key in stay]


def _trials(
    asked: Asked,
    keys: Sequence[str],
    variants: Sequence[int],
    seeds: int,
    seconds: int,
    *,
    last: bool,
) -> list[Trial]:
    of = side(asked)
    settings = {setting for care in asked.cares for setting in OF_CARE[of][care]} | {
        "alone",
        "beside",
    }
    settings = (
        settings & {"alone", "beside", "page"}
        if of == "sender"
        else settings - {"alone", "beside"} | {"mix"}
    )
    page_s = page_seconds(asked.place.rate_mbit, asked.place.rtt_ms)
    trials: list[Trial] = []
    for variant in variants:
        for seed in range(asked.seed, asked.seed + seeds):
            for key in keys:
                trials += [
                    Trial(key, setting, variant, seed, page_s if setting == "page" else seconds)
                    for setting in sorted(settings)
                ]
                # The price, for all that may come to be recommended; and pages, which everybody
                # asks for.
                if seeds > 1 and of == "sender":
                    trials.append(Trial(key, "among", variant, seed, seconds))
                if last and of == "queue":
                    trials.append(Trial(key, "rivals", variant, seed, seconds))
                if last and "page" not in settings:
                    trials.append(Trial(key, "page", variant, seed, page_s))
            if of == "sender" and RIVAL not in keys:
                trials.append(Trial(RIVAL, "beside", variant, seed, seconds))
                if seeds > 1:
                    trials.append(Trial(RIVAL, "among", variant, seed, seconds))
    return list(dict.fromkeys(trials))
