"""Selects the best candidates in a short time, by successive halving.

In the first round, all candidates are simulated for a short time on the likeliest path. In the
second round, the better half, the current state and the common candidates are simulated for longer
and on every variant of the path. In the last round, the best candidates and the current state are
simulated for the longest time, with more seeds. Trials with the same variant and seed are compared
with each other, so that common random variation cancels out.

Trials run on all cores. After Ctrl-C or at the time limit, the search returns the results so far. A
packet budget limits the cost and shortens the trials on fast paths. A round that the rest of the
budget does not allow is omitted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from narrows import registry
from narrows.advise.asked import Asked, Variant
from narrows.advise.candidates import Candidate
from narrows.advise.trial import (
    OF_CARE,
    PACKETS,
    RIVAL,
    Trial,
    affordable,
    packets,
    page_seconds,
    play,
    side,
)
from narrows.advise.utility import utility
from narrows.errors import NarrowsError
from narrows.inference import student
from narrows.runs.parallel import everywhere
from narrows.runs.run import Progress

PLAIN = (
    *registry.linux_ccs(common=True),
    *registry.below_shaper(),
    *(f"{queue} at 90%" for queue in registry.below_shaper()),
)
"""Common candidates: they win a tie of utilities, and all of them stay in every round except the
last.
"""

KEPT, LAST = 0.5, 3
"""Share of the candidates that stay for the second round, and number that stay for the last round
in addition to the current state.
"""

ROUNDS = ((15, 1), (30, 2), (60, 4))
"""Duration of a trial in s, and number of seeds, by round."""

SHARES = (0.15, 0.35, 0.5)
"""Share of the packet budget for each round. A round also gets packets that earlier rounds did not
use.
"""

QUICK_PER_S = 2e6
"""Packet budget of the first round for each second of the time limit: half of the packets that one
core simulates in a second.
"""

GUARDED = 2.0
"""A candidate whose share of the goodput among CUBIC flows exceeds the fair share by more than this
factor is not recommended, unless `SPARED` applies.
"""

SPARED = 2 / 3
"""Exception to `GUARDED`: CUBIC flows beside the candidate keep at least this share of their
goodput beside another CUBIC flow. The candidate can then be recommended. CUBIC could then not have
used most of the goodput that the candidate gains.
"""

TIE = 0.02
"""Relative difference of utilities below which candidates are equal. The more common of equal
candidates is recommended. A smaller relative loss on a variant of the path does not exclude a
candidate.
"""

Values = dict[str, float | None]


@dataclass
class Found:
    """The results of a search.

    Attributes:
        asked: The request.
        candidates: Candidates by key, the current state first.
        trials: Metrics of each trial.
        rounds: Number of complete rounds.
        finalists: Keys of the candidates of the last complete round, the best first.
        stopped: Whether Ctrl-C or the time limit stopped the search.
        seconds: Wall-clock duration of the search, in s.
        durations: Intended and simulated duration of the trials of each round, in s.
        omitted: Number of rounds that the packet budget did not allow.
        late: Whether the time limit stopped the search.
    """

    asked: Asked
    candidates: dict[str, Candidate]
    trials: dict[Trial, Values] = field(default_factory=dict)
    rounds: int = 0
    finalists: list[str] = field(default_factory=list)
    stopped: bool = False
    seconds: float = 0.0
    durations: list[tuple[int, int]] = field(default_factory=list)
    omitted: int = 0
    late: bool = False

    @property
    def limited(self) -> bool:
        """Whether the packet budget shortened trials or omitted rounds."""
        return self.omitted > 0 or any(lasts < planned for planned, lasts in self.durations)

    @property
    def present(self) -> str:
        """Key of the current state."""
        return next(iter(self.candidates))

    def draws(self, key: str) -> dict[tuple[int, int], Values]:
        """Metrics of a candidate by variant and seed, from the longest trials of each setting."""
        found: dict[tuple[int, int], Values] = {}
        for trial, values in sorted(self.trials.items(), key=lambda item: item[0].seconds):
            if trial.key == key:
                found.setdefault((trial.variant, trial.seed), {}).update(values)
        if side(self.asked) == "sender":
            for trial, values in sorted(self.trials.items(), key=lambda item: item[0].seconds):
                at = (trial.variant, trial.seed)
                if trial.key == RIVAL and trial.setting == "beside" and at in found:
                    # How two flows of CUBIC share the path is random; each is counted with half of
                    # their total goodput.
                    half = (_known(values["beside_mbit"]) + _known(values["rival_mbit"])) / 2
                    found[at]["rival_fair_mbit"] = half
                    if key == RIVAL:
                        found[at] |= {"beside_mbit": half, "rival_mbit": half}
        return found

    def utilities(self, key: str) -> dict[tuple[int, int], float]:
        """Utility of a candidate by variant and seed, where all necessary trials exist."""
        place, cares = self.asked.place, self.asked.cares
        needed = {"bulk": "goodput_mbit", "calls": "p95_ms", "pages": "page_s",
        "fairness": "rival_mbit",
                  "retransmissions": "again_pct"}  # fmt: skip
        rates = [variant.rate_mbit or place.rate_mbit for variant in place.variants]
        return {
            at: utility(values, cares, rate_mbit=rates[at[0]], rtt_ms=place.rtt_ms)
            for at, values in self.draws(key).items()
            if all(needed[care] in values for care in cares)
        }

    def utility(self, key: str) -> float | None:
        """Geometric mean of the utility over the simulated variants, by weight; None without
        trials.
        """
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
        """Share of the goodput among CUBIC flows as a multiple of the fair share, if it is too
        large by `GUARDED` and `SPARED`; otherwise None.
        """
        times = self.times_fair(key)
        if side(self.asked) != "sender" or times is None or times <= GUARDED:
            return None
        fair = {(t.variant, t.seed, t.seconds): v["others_mbit"] for t, v in self._among(RIVAL)}
        longest = {(t.variant, t.seed): (t, v) for t, v in self._among(key)}
        kept = [
            mine / others
            for trial, values in longest.values()
            if (others := fair.get((trial.variant, trial.seed, trial.seconds)))
            and (mine := values["others_mbit"]) is not None
        ]
        return None if not kept or fmean(kept) >= SPARED else times

    def times_fair(self, key: str) -> float | None:
        """Mean share among CUBIC flows as a multiple of the fair share, of the longest trial of
        each variant and seed; None without trials.
        """
        times = [
            fair for v in self.draws(key).values() if (fair := v.get("times_fair")) is not None
        ]
        return fmean(times) if times else None

    def _among(self, key: str) -> list[tuple[Trial, Values]]:
        """Trials of a candidate among CUBIC flows, the longest ones last."""
        found = [(t, v) for t, v in self.trials.items() if t.key == key and t.setting == "among"]
        return sorted(found, key=lambda item: item[0].seconds)

    def allowed(self, key: str) -> bool:
        """Whether the candidate can be recommended."""
        return not self.candidates[key].only and (
            self.candidates[key].present or self.greedy(key) is None
        )

    def goodput(self, key: str) -> float | None:
        """Mean goodput over all variants by weight, in Mbit/s; None without trials."""
        return self.mean(key, "goodput_mbit")

    def mean(self, key: str, name: str) -> float | None:
        """Mean of a metric over all variants by weight; None without values."""
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
        """The candidate with the highest goodput, without regard to other metrics; None without
        trials.
        """
        known = {
            key: got for key in among or self.candidates if (got := self.goodput(key)) is not None
        }
        return max(known, key=lambda key: known[key], default=None)

    def ranking(self, among: Sequence[str] | None = None) -> list[str]:
        """Keys of the candidates with trials, the best first."""
        known = [
            (value, key)
            for key in among or self.candidates
            if (value := self.utility(key)) is not None
        ]
        order = list(self.candidates)
        return [key for _, key in sorted(known, key=lambda item: (-item[0], order.index(item[1])))]


def losing(found: Found, key: str) -> tuple[Variant, float] | None:
    """The variant of a measured path on which a candidate loses most utility compared with the
    current state, and the lost share.

    The result is None if it loses no more than `TIE` on any variant, or if the path was not
    measured.

    A measurement does not show which variant is the real path. A candidate that is better on one
    variant and worse on another would be recommended because of an unknown property.
    """
    if not found.asked.place.inferred:
        return None
    mine, its = found.utilities(found.present), found.utilities(key)
    by_variant: dict[int, list[float]] = {}
    for at in its:
        if at in mine:
            by_variant.setdefault(at[0], []).append(math.log(its[at] / mine[at]))
    if not by_variant:
        return None
    worst = min(by_variant, key=lambda variant: fmean(by_variant[variant]))
    lost = -math.expm1(fmean(by_variant[worst]))
    return (found.asked.place.variants[worst], lost) if lost > TIE else None


def surely(found: Found, key: str) -> float:
    """The lower end of the 90 % confidence interval of the relative gain in utility over the
    current state; the gain itself with a single seed.
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
    # Variants are possible paths, not samples: only differences within a variant are random.
    spread = math.fsum((x - fmean(of)) ** 2 for of in by_variant.values() for x in of) / free
    error = math.sqrt(
        spread * math.fsum((weights[v] / whole) ** 2 / len(of) for v, of in by_variant.items())
    )
    return math.expm1(gain - student(0.9, free) * error)


Tell = Callable[[str, float, float], object]
"""Called with the name of the round, and its completed and total cost in packets."""


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
    limit_s: float | None = None,
    budget: float = PACKETS,
) -> Found:
    """Runs the rounds. After Ctrl-C, returns the results so far if a round is complete; otherwise
    raises `KeyboardInterrupt`.

    Args:
        asked: The request.
        candidates: The current state first, then the other candidates.
        within_s: Time in s after which `first` is called once, when at least one round is complete
            and the last one is not.
        first: Called with the results so far.
        tell: Called with the progress after each trial.
        jobs: Number of concurrent simulations [default: number of cores].
        rounds: Duration and seeds of each round.
        known: Results of trials of another search of the same place and seed, which are reused.
        limit_s: Time in s after which the search ends with the results so far, even within a round.
        budget: Maximum number of packets of all trials.

    Raises:
        NarrowsError: If the budget does not allow the first round, or if the time limit ends before
            two candidates were simulated.
    """
    found = Found(asked, {candidate.key: candidate for candidate in candidates})
    begin = time.monotonic()
    pending = within_s

    def finished(_trial: Trial) -> None:
        nonlocal pending
        found.seconds = time.monotonic() - begin
        # Candidates can be compared only when the first round is complete.
        if pending is not None and found.seconds >= pending and found.rounds:
            pending = None
            if first is not None:
                first(found)

    keys = list(found.candidates)
    player = _player(asked, found, known or {}, None if limit_s is None else begin + limit_s)
    left = budget
    try:
        for number in range(len(rounds)):
            last = number == len(rounds) - 1
            if number:
                keys = _kept(found, keys, last=last)
            shares = [SHARES[min(n, len(SHARES) - 1)] for n in range(number, len(rounds))]
            allotted = left * shares[0] / math.fsum(shares)
            if limit_s is not None and not number:
                allotted = min(allotted, limit_s * QUICK_PER_S)
            todo = _affordable(found, keys, rounds, number, allotted)
            left -= _cost(asked, todo)
            if left < 0:
                if not number:
                    raise NarrowsError(
                        f"{asked.place.rate_mbit:g} Mbit/s: the candidates on this path exceed the "
                        f"budget of {budget / 1e6:g} million packets; write a lower --rate"
                    )
                found.omitted = len(rounds) - number
                found.durations.pop()
                break
            done = _Done(
                todo,
                asked,
                tell,
                ("first round", "second round", "last round")[min(number, 2)],
                finished,
            )
            everywhere(todo, player, cost=lambda t: packets(asked, t), done=done, jobs=jobs)
            found.rounds, found.finalists = number + 1, found.ranking(keys)
    except _TimeLimit:
        found.stopped = found.late = True
        compared = found.ranking()
        if found.present not in compared or len(compared) < min(2, len(candidates)):
            raise NarrowsError(
                f"--quick: the candidates could not be compared in {limit_s:g} s; omit --quick"
            ) from None
    except KeyboardInterrupt:
        found.stopped = True
        if not found.rounds:
            raise
    found.seconds = time.monotonic() - begin
    return found


class _TimeLimit(Exception):  # noqa: N818 - the end of a search, not an error
    """The time limit of a search has passed."""


def _affordable(
    found: Found,
    keys: Sequence[str],
    rounds: Sequence[tuple[int, int]],
    number: int,
    most: float,
) -> list[Trial]:
    """The new trials of a round. The duration of these trials is the planned one, or a shorter one
    that costs at most `most` packets, but at least the minimum duration.
    """
    asked, (planned, seeds) = found.asked, rounds[number]
    variants = range(len(asked.place.variants)) if number else range(1)

    def trials(seconds: int) -> list[Trial]:
        last = number == len(rounds) - 1
        every = _trials(asked, keys, variants, seeds, seconds, last=last)
        return [trial for trial in every if trial not in found.trials]

    seconds = affordable(asked, planned, lambda s: _cost(asked, trials(s)), most)
    found.durations.append((planned, seconds))
    return trials(seconds)


def _cost(asked: Asked, trials: Sequence[Trial]) -> float:
    return math.fsum(packets(asked, trial) for trial in trials)


def _known(value: float | None) -> float:
    return value or 0.0


class _Done:
    """Counts completed trials by cost."""

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
    asked: Asked, found: Found, known: Mapping[Trial, Values], end: float | None
) -> Callable[[Trial, Progress], None]:
    reference = Candidate(key=RIVAL, says=RIVAL, cc=RIVAL)

    def one(trial: Trial, keep_on: Progress) -> None:
        def progress(now_s: float, end_s: float) -> None:
            keep_on(now_s, end_s)
            if end is not None and time.monotonic() >= end:
                raise _TimeLimit

        # A short simulation never calls `progress`, so the time limit is checked here, too.
        progress(0, trial.seconds)
        candidate = found.candidates.get(trial.key, reference)
        found.trials[trial] = (
            known[trial] if trial in known else play(asked, candidate, trial, progress)
        )

    return one


def _kept(found: Found, keys: Sequence[str], *, last: bool) -> list[str]:
    """The candidates of the next round: the best ones, the one with the highest goodput, and the
    current state. Rounds before the last one also have the common candidates.
    """
    ranking = [key for key in found.ranking(keys) if not found.candidates[key].only or not last]
    fair = [key for key in ranking if found.allowed(key)] if last else ranking
    count = LAST if last else max(LAST + 2, math.ceil(KEPT * len(ranking)))
    stay = {found.present, *fair[:count]} | (
        set() if last else {key for key in PLAIN if key in ranking}
    )
    # The best candidate stays even if it cannot be recommended, and so does the one with the
    # highest goodput.
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
                # Further trials show the effect on other flows and, in the last round, page loads.
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
