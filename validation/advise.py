"""Compares recommendations of `narrows advise` with results of Linux 6.12 and of simulated paths.

    python -m validation.advise --calibrate    determine the width of intervals:
                                               python/narrows/data/advise.json
    python -m validation.advise                docs/reference/advise-record.md;
                                               1 if a criterion is not met
    python -m validation.advise --only 23      one of the Linux paths, in the terminal
    python -m validation.advise --within 200   continue for 200 s; 75 if simulations are still
                                               missing

*Linux*: `advise-linux-6.12.csv` has random paths with the results of Linux's own TCP. The rate is 2
  to 25 Mbit/s, the RTT 8 to 180 ms, the buffer 0.15 to 8 BDP. Half of the paths have 0.01 to 6 %
  random loss. Four congestion controls were recorded, each alone with a ping every 20 ms, and each
  in competition with a CUBIC flow (`validation/advise_linux.py`). `narrows advise` receives rate,
  RTT, buffer, loss and the duration of the flows. The first paths are used to calibrate the
  intervals, and the others to test them.

A run of a path counts only if it exists for every congestion control. The true utility of a
candidate is the mean of the utility's logarithm over the runs, as in `narrows advise` over seeds.
The advantage of the best candidate has a 90 % interval (Student's t over the runs). If this
interval includes 0, the difference is not significant. Regrets are computed from these means. They
are overestimated, because the candidate with the highest mean is partly the one with the luckiest
runs.

*Live*: `advise-live.csv` has the same for live runs (`validation/advise_live.py`).

*Measured*: `narrows advise` receives only two measurements of each simulated path, one of them with
  a single flow, and infers a path model. The true results come from the same simulator on the true
  path with other seeds. They show the effect of the inferred path model, and not errors of the
  simulator.

The utility is `narrows.advise.utility` for all methods. A regret is the relative shortfall of the
utility of a choice from that of the best candidate.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import math
import os
import pickle
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import Any

import narrows as nw
from narrows import path_model
from narrows.advise import Asked, Kernel, candidates, kernel, measured, search, stated
from narrows.advise.candidates import Candidate
from narrows.advise.search import ROUNDS, Found, losing
from narrows.advise.trial import RIVAL, Trial, play
from narrows.advise.utility import utility
from narrows.advise.verdict import claim, decide, effects
from narrows.errors import NarrowsError
from narrows.inference import half_width, of_independent
from narrows.json_object import JsonObject
from narrows.measure.simulated import Plan, measure
from validation import advise_linux, advise_live
from validation.advise_page import (
    CALIBRATED,
    CALIBRATED_MEASURED,
    LEFT,
    PLAYED,
    criteria,
    markdown,
)
from validation.asked import positive, processes
from validation.stored import HERE

PAGE = HERE.parent / "docs/reference/advise-record.md"
WIDTHS = HERE.parent / "python/narrows/data/advise.json"
STORE = Path(os.environ.get("CARGO_TARGET_DIR") or HERE.parent / "target") / "advise"
"""Folder of stored simulations, which are reused after an interruption or a change of the criteria.
Their key includes a hash of the package. Remove the folder after a change of the paths in this
file.
"""


MEASURED = range(400, 438)
"""Seeds of the tested measured paths."""

FULL, LONE = Plan(streams=8, load_s=8.0), Plan(streams=1, load_s=20.0)
"""Plans of the two measurements of a path: eight flows, and a single flow."""

CARES = (
    ("bulk", "fairness"),
    ("bulk", "calls", "fairness"),
    ("bulk", "fairness", "retransmissions"),
)
"""Goals of a sender. All include fairness; without it the most aggressive candidate is always
best.
"""

QUEUE_CARES = (("bulk", "calls"),)

MUCH_LOSS, FAR_MS = 0.015, 50
"""Thresholds of the rules of thumb: loss rate as a share, RTT in ms."""


LOSSY = 0.5
"""Share of the measured sender paths with random loss."""

HELD = 0.92
"""Share of the measured values that calibrated intervals must contain. With 0.9, intervals
calibrated on twenty paths contained 84.9 % of the values of other paths.
"""


SHARES = (0.003, 0.006, 0.012, 0.025, 0.05, 0.08)
"""Candidates for the part of an interval's width that is a share of the metric."""

LASTED_S = {"Linux": advise_linux.SECONDS, "live": advise_live.SECONDS}
"""Duration of the recorded flows, in seconds."""

AGAIN = 75
"""Exit code if the time ended before all simulations were complete (EX_TEMPFAIL)."""

TRUE_SEEDS, TRUE_S = 4, 60
"""Seeds and duration (s) of the simulations of the true path."""


@dataclass(frozen=True)
class Recorded:
    """A path with its recorded results, by run and name of the congestion control. The kind is
    `Linux` or `live`.
    """

    kind: str
    number: int
    rate_mbit: float
    rtt_ms: float
    buffer_bytes: int
    loss: float
    seen: dict[tuple[int, str], dict[str, float]]

    @property
    def ccs(self) -> list[str]:
        """The recorded congestion controls."""
        return sorted({cc for _, cc in self.seen})

    @property
    def runs(self) -> list[int]:
        """The runs that exist for every congestion control."""
        return [
            run
            for run in sorted({run for run, _ in self.seen})
            if all((run, cc) in self.seen for cc in self.ccs)
        ]

    def path(self) -> nw.Path:
        """The path as `narrows advise` receives it."""
        if self.kind == "live":
            return advise_live.path(advise_live.drawn(self.number))
        burst = max(3080, round(self.rate_mbit * 1e6 / 8 * 0.00025))
        return nw.Path(
            rate=f"{self.rate_mbit:g}Mbit",
            rtt=f"{self.rtt_ms:g}ms",
            buffer=f"{self.buffer_bytes}B",
            link={"kind": "tbf", "burst": f"{burst}B"},
            loss=f"{100 * self.loss:g}%" if self.loss else None,
        )

    def says(self) -> str:
        """A short description of the path."""
        bdp = self.buffer_bytes / (self.rate_mbit * 1e6 / 8 * self.rtt_ms / 1000)
        return (
            f"{self.rate_mbit:g} Mbit/s, {self.rtt_ms:g} ms, {bdp:.2g} BDP, loss "
            f"{100 * self.loss:.2g} %"
        )


@cache
def recorded(kind: str = "Linux") -> tuple[Recorded, ...]:
    """Every path of the file of `kind` that has at least one complete run."""
    data = {"Linux": advise_linux.DATA, "live": advise_live.DATA}[kind]
    if not data.exists():
        return ()
    lines = [
        line for line in data.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    ]
    found: dict[int, Recorded] = {}
    for row in csv.DictReader(lines):
        n = int(row["path"])
        if n not in found:
            numbers = (
                float(row["rate_mbit"]),
                float(row["rtt_ms"]),
                int(row["buffer_bytes"]),
                float(row["loss"]),
            )
            found[n] = Recorded(kind, n, *numbers, {})
        seen = {name: float(row[name]) for name in PLAYED}
        if row["cc"] == RIVAL:
            # Two flows of the same congestion control share the rate by chance, so each is assigned
            # half of the sum.
            seen |= dict.fromkeys(
                ("beside_mbit", "rival_mbit"), (seen["beside_mbit"] + seen["rival_mbit"]) / 2
            )
        found[n].seen[int(row["run"]), row["cc"]] = seen
    everybody = {cc for of in found.values() for cc in of.ccs}
    return tuple(
        found[n] for n in sorted(found) if set(found[n].ccs) == everybody and found[n].runs
    )


@cache
def code() -> str:
    """The hash of the package's files, so that stored results of another version are not used."""
    whole = hashlib.sha256()
    here = Path(nw.__file__).parent
    for file in sorted([*here.rglob("*.py"), *here.glob("_core*.so")]):
        whole.update(file.relative_to(here).as_posix().encode() + file.read_bytes())
    return whole.hexdigest()[:16]


def stored(name: str, play_it: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it plays
    """Returns the stored result for this name and version of the code, or runs `play_it` and stores
    its result.
    """
    file = STORE / f"{code()}-{name}.pickle"
    if file.exists():
        return pickle.loads(file.read_bytes())
    done = play_it()
    STORE.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}")
    part.write_bytes(pickle.dumps(done))
    part.replace(file)
    return done


def logs(of: Recorded, cares: Sequence[str]) -> dict[str, list[float]]:
    """The logarithm of the utility in each run for the goals `cares`, by congestion control."""
    return {
        cc: [
            math.log(
                utility(
                    of.seen[run, cc] | {"rival_fair_mbit": of.seen[run, RIVAL]["rival_mbit"]},
                    cares,
                    rate_mbit=of.rate_mbit,
                    rtt_ms=of.rtt_ms,
                )
            )
            for run in of.runs
        ]
        for cc in of.ccs
    }


def true_utilities(of: Recorded, cares: Sequence[str]) -> dict[str, float]:
    """The mean of the logarithm of the utility over the runs, by congestion control."""
    return {cc: math.exp(fmean(values)) for cc, values in logs(of, cares).items()}


def ahead(of: Recorded, cares: Sequence[str], one: str, other: str) -> tuple[float, float] | None:
    """The 90 % interval of the relative difference of two utilities; None for a single run."""
    of_run = logs(of, cares)
    more = [a - b for a, b in zip(of_run[one], of_run[other], strict=True)]
    if len(more) < 2:  # noqa: PLR2004
        return None
    reach = half_width(0.9, of_independent(more))
    return math.expm1(fmean(more) - reach), math.expm1(fmean(more) + reach)


def live(number: int) -> JsonObject:
    """The recommendations for one live path."""
    return linux(number, kind="live")


def advise_simulations(of: Recorded) -> list[Found]:
    """The simulations of `narrows advise` for a recorded path, one for each of `CARES`. They do not
    depend on the recorded results.
    """
    has = Kernel(ccs=tuple(dict.fromkeys(["cubic", *of.ccs])), says="recorded")
    out = []
    known: dict[Trial, dict[str, float | None]] = {}
    for cares in CARES:
        asked = Asked(place=stated(of.path()), cares=cares, now="cubic", seed=1 + 100 * of.number)
        # The last round lasts as long as the recorded flows, because shares of flows that still
        # converge depend on the duration.
        rounds = (*ROUNDS[:-1], (LASTED_S[of.kind], ROUNDS[-1][1]))
        out.append(search(asked, candidates(asked, has), jobs=1, rounds=rounds, known=known))
        known |= out[-1].trials
    return out


def linux(number: int, *, widths: bool = True, kind: str = "Linux") -> JsonObject:
    """The recommendations for one recorded path and all goals, beside the recorded results."""
    of = next(path for path in recorded(kind) if path.number == number)
    name = f"{kind} {number}"
    rows = []
    told: list[JsonObject] = []
    for cares, found in zip(
        CARES, stored(f"{kind}-{number}", lambda: advise_simulations(of)), strict=True
    ):
        choice = decide(found)[0]
        truth = true_utilities(of, cares)
        row = _row(name, of.says(), found, choice, truth)
        sure = ahead(of, cares, row["best"], found.present)
        by = ahead(of, cares, row["best"], choice)
        row |= {
            "rules": _rules(of, truth),
            "runs": len(of.runs),
            "same": row["differs"] < LEFT or (sure is not None and sure[0] <= 0),
            "regret_of": None if by is None else [x / (1 + x) for x in by],
        }
        rows.append(row)
        if not widths:
            others = [key for key in found.finalists if key != found.present]
            told += [
                row for key in others for row in _draws(found, key, _measured_changes(of, key))
            ]
            continue
        for key in found.finalists:
            stated_ = effects(found, key) if key != found.present else []
            main = claim(stated_, cares) if key == choice else None
            # All effects are compared for the first goals, and only the headline effect for the
            # other goals.
            once = cares == CARES[0]
            for effect in stated_ if once else [main] if main is not None else []:
                about = {"claimed": effect is main, "counted": once, "name_of": name}
                told += _predicted_and_measured(of, key, effect.json() | about)
    return {"rows": rows, "told": told}


def _predicted_and_measured(of: Recorded, key: str, effect: JsonObject) -> list[JsonObject]:
    """A predicted effect of a candidate together with the measured effect of each run."""
    if effect["name"] not in PLAYED:
        return []
    name = effect["name"]
    return [
        effect
        | {"key": key, "run": run, "true": of.seen[run, key][name] - of.seen[run, RIVAL][name]}
        for run in of.runs
    ]


def _measured_changes(of: Recorded, key: str) -> dict[str, list[float]]:
    """The measured change from CUBIC to a candidate in each run, by metric."""
    return {
        name: [of.seen[run, key][name] - of.seen[run, RIVAL][name] for run in of.runs]
        for name in PLAYED
    }


def _draws(found: Found, key: str, trues: dict[str, list[float]]) -> list[JsonObject]:
    """For the calibration: the simulated changes on each variant of the path, and the measured
    change.
    """
    mine, its = found.draws(found.present), found.draws(key)
    out = []
    for name in PLAYED:
        parts = []
        for variant in sorted({variant for variant, _ in its}):
            pairs = [
                (mine[at].get(name), its[at].get(name))
                for at in its
                if at in mine and at[0] == variant
            ]
            whole = [(a, b) for a, b in pairs if a is not None and b is not None]
            if whole:
                changes = [b - a for a, b in whole]
                level = fmean(abs(a) + abs(b) for a, b in whole) / 2
                parts.append((fmean(changes), min(changes), max(changes), level))
        if parts:
            out += [{"name": name, "true": true, "parts": parts} for true in trues.get(name, [])]
    return out


def _factor(row: JsonObject, share: float) -> float:
    """The factor by which the interval of the simulations must be widened to contain the measured
    value.

    >>> part = (2.0, 1.0, 4.0, 10.0)
    >>> [_factor({"true": true, "parts": [part]}, 0.0) for true in (0.0, 2.0, 3.0)]
    [2.0, 0.0, 0.5]

    A value between the medians of two parts is always contained:

    >>> _factor({"true": 3.0, "parts": [part, (5.0, 4.0, 6.0, 10.0)]}, 0.0)
    0.0
    """
    own = [share * level + 1e-9 for *_, level in row["parts"]]
    above, below = (
        min(
            max(0.0, sign * (row["true"] - middle)) / (abs(end - middle) + more)
            for (middle, end), more in zip(
                ((part[0], part[at]) for part in row["parts"]), own, strict=True
            )
        )
        for sign, at in ((1, 2), (-1, 1))
    )
    return float(round(max(above, below), 6))


def _row(name: str, says: str, found: Found, choice: str, truth: dict[str, float]) -> JsonObject:
    """A recommendation compared with the best allowed candidate."""
    allowed = [key for key in truth if key in found.candidates and found.allowed(key)]
    best = max(allowed, key=lambda key: truth[key])
    return {
        "name": name,
        "says": says,
        "role": found.asked.role,
        "for": list(found.asked.cares),
        "choice": choice,
        "best": best,
        "regret": max(0.0, 1 - truth[choice] / truth[best]),
        "left": choice == found.present,
        "differs": truth[best] / truth[found.present] - 1,
        "same": truth[best] / truth[found.present] - 1 < LEFT,
        "truth": {key: float(f"{value:.4g}") for key, value in truth.items()},
    }


def _rules(of: Recorded, truth: dict[str, float]) -> JsonObject:
    """The regret of each rule of thumb, relative to the best of all candidates."""
    bdp = of.buffer_bytes / (of.rate_mbit * 1e6 / 8 * of.rtt_ms / 1000)
    picks = {
        "always CUBIC": "cubic",
        "always BBR": "bbr",
        "BBR above 1.5 % loss, else CUBIC": "bbr" if of.loss > MUCH_LOSS else "cubic",
        "BBR with less than 1 BDP of buffer, else CUBIC": "bbr" if bdp < 1 else "cubic",
        "BBR for long paths (RTT above 50 ms), else CUBIC": "bbr"
        if of.rtt_ms > FAR_MS
        else "cubic",
    }
    best = max(truth.values())
    return {name: max(0.0, 1 - truth[cc] / best) for name, cc in picks.items()}


def drawn(seed: int) -> tuple[nw.Path, str]:
    """The path of a seed, and the role of the user on it.

    >>> drawn(300)[1]
    'sender'
    """
    draw = random.Random(seed)
    role = ("sender", "receiver", "forwarder")[seed % 3]

    def log(low: float, high: float) -> float:
        return math.exp(draw.uniform(math.log(low), math.log(high)))

    rate, rtt = log(4, 40), log(10, 120)
    up = log(max(1.5, rate / 8), rate)
    depth = log(0.3, 6) if role == "sender" else log(1, 12)
    loss = log(5e-4, 1e-2) if role == "sender" and draw.random() < LOSSY else 0.0
    directions: list[dict[str, Any]] = [
        {
            "rate": path_model.bits(mbit),
            "buffer": f"{max(20_000, round(depth * mbit * 1e6 / 8 * rtt / 1000))}B",
        }
        for mbit in (rate, up)
    ]
    if loss:
        directions[0 if role != "sender" else 1]["loss"] = f"{100 * loss:.3g}%"
    return nw.Path(rtt=f"{rtt:.4g}ms", **directions[0], reverse=nw.Hop(**directions[1])), role


def simulations_of_seed(seed: int) -> list[tuple[Found, Found]] | str:
    """For a measured path, the simulations of `narrows advise` and those of the true path, or the
    text of an error.
    """
    path, role = drawn(seed)
    try:
        first = measure(path, FULL, seed=seed)
        found_model = path_model.infer(first, seed=seed, lone=measure(path, LONE, seed=seed + 1000))
    except NarrowsError as error:
        return f"{seed}: {error}"
    place = measured(found_model.json(), role=role, source="measured")
    true_path = _with_upload_forward(path) if role == "sender" else path
    has = kernel("cubic,bbr,reno,vegas,westwood,illinois,htcp")
    out = []
    for cares in CARES[:1] if role == "sender" else QUEUE_CARES:
        asked = Asked(place=place, role=role, cares=cares, now="cubic", seed=seed)
        found = search(asked, candidates(asked, has), jobs=1)
        world = Asked(
            place=stated(true_path), role=role, cares=cares, now="cubic", seed=seed + 5000
        )
        out.append((found, _candidate_simulations(world, found)))
    return out


def from_measurement(seed: int, *, widths: bool = True) -> JsonObject:
    """The recommendations for a measured path, with the results on the true path."""
    rows = []
    told: list[JsonObject] = []
    both = stored(f"measured-{seed}", lambda: simulations_of_seed(seed))
    if isinstance(both, str):
        return {"rows": [], "told": [], "error": both}
    for found, true in both:
        place, role = found.asked.place, found.asked.role
        truth = {key: value for key in found.candidates if (value := true.utility(key)) is not None}
        rates = f"{place.rate_mbit:.3g} Mbit/s, {place.rtt_ms:.3g} ms"
        choice = decide(found)[0]
        row = _row(f"measured {seed}", rates, found, choice, truth)
        if row["left"] and (lost := losing(found, row["best"])):
            variant, share = lost
            row["kept_for"] = f"with {variant.why}, {row['best']} loses {100 * share:.1f} %"
        if role != "sender":
            best = max(truth.values())
            names = {"as it is": "queue unchanged", "cake at 90%": "cake at 90 %"}
            row["rules"] = {name: max(0.0, 1 - truth[key] / best) for key, name in names.items()}
        after = _prediction_row(found, true, choice, f"measured {seed}")
        if not widths:
            trues = {name: [row["true"] for row in after if row["name"] == name] for name in PLAYED}
            after = _draws(found, choice, trues) if choice != found.present else []
        told += after
        rows.append(row)
    return {"rows": rows, "told": told}


def _with_upload_forward(path: nw.Path) -> nw.Path:
    """The same path with the upload direction as its forward direction."""
    back = path.reverse
    assert back is not None
    return nw.Path(rate=back.rate, buffer=back.buffer, loss=back.loss, rtt=path.rtt,
                   reverse=nw.Hop(rate=path.rate, buffer=path.buffer))  # fmt: skip


def _prediction_row(found: Found, true: Found, choice: str, name: str) -> list[JsonObject]:
    """The predicted effects of a choice, and the results of each run on the true path."""
    if choice == found.present:
        return []
    stated_ = effects(found, choice)
    main = claim(stated_, found.asked.cares)
    before, after = true.draws(found.present), true.draws(choice)
    out = []
    for effect in stated_:
        for run, at in enumerate(sorted(after)):
            pair = before[at].get(effect.name), after[at].get(effect.name)
            if pair[0] is not None and pair[1] is not None:
                about = {
                    "claimed": effect is main,
                    "counted": True,
                    "name_of": name,
                    "key": choice,
                    "run": run,
                }
                out.append(effect.json() | about | {"true": pair[1] - pair[0]})
    return out


def _candidate_simulations(world: Asked, found: Found) -> Found:
    """The simulations of every candidate on the true path."""
    true = Found(world, found.candidates)
    settings = ("alone", "beside") if world.role == "sender" else ("mix",)
    for key, candidate in found.candidates.items():
        # A shaper's rate is a share of the measured rate, even if the measured rate is wrong.
        for setting in settings:
            for seed in range(world.seed, world.seed + TRUE_SEEDS):
                trial = Trial(key, setting, 0, seed, TRUE_S)
                true.trials[trial] = _with_rate(world, found, trial, candidate)
    return true


def _with_rate(
    world: Asked, found: Found, trial: Trial, candidate: Candidate
) -> dict[str, float | None]:
    if candidate.share is None:
        return play(world, candidate, trial)
    ratio = found.asked.place.rate_mbit / world.place.rate_mbit
    return play(world, replace(candidate, share=candidate.share * ratio), trial)


def calibrate(told: Sequence[JsonObject], measured_: Sequence[JsonObject]) -> JsonObject:
    """The widths of the intervals for stated paths, and those for measured paths, which are at
    least as wide.
    """
    stated_, own = _widths(told), _widths(measured_)
    both = {
        name: [max(a, b) for a, b in zip(stated_[name], own.get(name, [0, 0]), strict=True)]
        for name in stated_
    }
    return {
        "made_by": "python -m validation.advise --calibrate",
        "paths": len(CALIBRATED),
        "measured_paths": len(CALIBRATED_MEASURED),
        "widths": stated_,
        "measured": both,
    }


def _widths(told: Sequence[JsonObject]) -> dict[str, list[float]]:
    """The width parameters of each metric: a factor on the spread of the simulations, and a share
    of the metric. They give the narrowest intervals that contain the share `HELD` of the measured
    values.
    """
    widths = {}
    for name in PLAYED:
        mine = [row for row in told if row["name"] == name]
        found = []
        for share in SHARES if mine else ():
            ratios = sorted(_factor(row, share) for row in mine)
            factor = ratios[min(len(ratios) - 1, math.ceil(HELD * (len(ratios) + 1)) - 1)]
            whole = []
            for middle, low, high, level in (row["parts"][0] for row in mine):
                width = factor * ((high - low) / 2 + share * level)
                whole.append(width / (abs(middle) + 0.02 * level + 1e-9))
            found.append((median(whole), factor, share))
        if found:
            _, factor, share = min(found)
            widths[name] = [float(f"{factor:.4g}"), share]
    return widths


def _all(
    tasks: Sequence[tuple[Callable[..., JsonObject], int]],
    jobs: int | None,
    what: str,
    within_s: float | None = None,
) -> list[JsonObject] | None:
    """The results of all tasks, or None if the time ended before all tasks were complete."""
    begin = time.monotonic()
    with processes(jobs) as pool:
        waiting = [pool.submit(task, number) for task, number in tasks]
        out = []
        for done, one in enumerate(waiting, 1):
            try:
                left = None if within_s is None else max(0.0, within_s - (time.monotonic() - begin))
                out.append(one.result(left))
            except TimeoutError:
                pool.shutdown(cancel_futures=True)
                print(
                    f"{what}: more than {done - 1} of {len(waiting)}; again to go on",
                    file=sys.stderr,
                )
                return None
            if sys.stderr.isatty():
                print(f"\r{what}: {done} of {len(waiting)}", end="", file=sys.stderr)
    return out


def _bare(number: int) -> JsonObject:
    return linux(number, widths=False)


def _bare_measured(seed: int) -> JsonObject:
    return from_measurement(seed, widths=False)


def main() -> int:
    """Runs the validation and returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calibrate", action="store_true", help="write the widths of intervals")
    parser.add_argument(
        "--only", type=int, help="number of one Linux path; print its rows, write no page"
    )
    parser.add_argument("--jobs", type=positive, help="number of processes [default: all cores]")
    parser.add_argument(
        "--within", type=float, help="start no path after this time in seconds; repeat to continue"
    )
    parser.add_argument("--rows", help="file for the rows as JSON")
    args = parser.parse_args()
    numbers = [path.number for path in recorded()]
    if args.only is not None:
        if args.only not in numbers:
            parser.error(
                f"there is no path {args.only}; there are {', '.join(map(str, sorted(numbers)))}"
            )
        print(json.dumps(linux(args.only), indent=1))
        return 0
    if args.calibrate:
        begun: list[tuple[Callable[[int], JsonObject], int]] = [
            (_bare, n) for n in numbers if n in CALIBRATED
        ]
        begun += [(_bare_measured, seed) for seed in CALIBRATED_MEASURED]
        done = _all(begun, args.jobs, "calibration", args.within)
        if done is None:
            return AGAIN
        by_kind: dict[bool, list[JsonObject]] = {False: [], True: []}
        for (task, _), of in zip(begun, done, strict=True):
            by_kind[task is _bare_measured] += of["told"]
        found = calibrate(by_kind[False], by_kind[True])
        WIDTHS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(json.dumps({name: found[name] for name in ("widths", "measured")}))
        return 0
    tasks: list[tuple[Callable[[int], JsonObject], int]] = [
        (linux, n) for n in numbers if n not in CALIBRATED
    ]
    tasks += [(live, of.number) for of in recorded("live")]
    tasks += [(from_measurement, seed) for seed in MEASURED]
    done = _all(tasks, args.jobs, "paths", args.within)
    if done is None:
        return AGAIN
    rows, told = ([row for one in done for row in one[part]] for part in ("rows", "told"))
    if args.rows:
        Path(args.rows).write_text(json.dumps({"rows": rows, "told": told}), encoding="utf-8")
    PAGE.write_text(
        markdown(rows, told, [one["error"] for one in done if "error" in one]), encoding="utf-8"
    )
    for one in criteria(rows, told):
        met = "met" if one.met else "NOT MET"
        print(f"{one.name}: required {one.asked}, found {one.found}: {met}")
    return 0 if all(one.met for one in criteria(rows, told)) else 1


if __name__ == "__main__":
    sys.exit(main())
