"""Compares path models of random simulated paths with the true parameters of these paths.

Commands:

    python -m validation.path_models --calibrate
        determine the widths of the intervals on other paths and write
        python/narrows/data/path_model.json
    python -m validation.path_models
        test 50 other paths and write docs/reference/path-models.md; exit code 1 if a criterion is
        not met
    python -m validation.path_models --only 7
        test one path and print it

The inference receives only the data that the client of a measurement has. Some paths have
properties that no candidate of the inference has: a token bucket as link, jitter, SFQ. Each path is
measured with CUBIC flows. Then the path model predicts the result of another load, which is two BBR
flows.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import narrows as nw
from narrows import path_model
from narrows.errors import NarrowsError
from narrows.json_object import JsonObject
from narrows.measure.result import DIRECTIONS
from narrows.measure.simulated import Plan, measure
from validation.asked import positive, processes
from validation.stored import HERE

PAGE = HERE.parent / "docs/reference/path-models.md"
KEPT = HERE.parent / "target/path-models"

TESTED = range(1000, 1050)
"""Seeds of the tested paths."""

CALIBRATED = range(5000, 5080)
"""Seeds of the paths that calibrate the intervals. Every second of them is loaded by only `FEW`
flows.
"""

FEW = 4
"""Number of flows on every second path of the calibration."""

PLAN = Plan(streams=12)
MORE = 48
"""Number of flows of a second measurement, if 12 flows did not fill the path."""

UNSEEN = "bbr"
"""The congestion control of the load that is predicted."""

SHARES = {
    "fifo": 0.40,
    "policer": 0.18,
    "fq_codel": 0.12,
    "codel": 0.08,
    "pie": 0.08,
    "cake": 0.08,
    "red": 0.03,
    "sfq": 0.03,
}
TBF, LOSSY, JITTERY = 0.2, 0.3, 0.2
"""Probabilities that the link of a direction is a token bucket, that a direction has random loss,
and that it has jitter.
"""

RATE, BASE, DEPTH, UNSEEN_OFF = 0.05, 0.05, 0.15, 0.15
"""Tolerated relative errors of the path model: rate, base RTT, buffer, and prediction for another
load.
"""

CANNOT = "cannot tell"
ENOUGH = 20
"""Minimum number of true values from which an interval is calibrated."""

SURE = 0.9
"""Confidence that an interval contains its share of true values."""

FAMILY = {"sfq": "fair"} | path_model.FAMILIES


@dataclass(frozen=True)
class Hop:
    """The true parameters of one direction."""

    kind: str
    rate_mbit: float
    depth_bytes: float | None
    burst_bytes: float | None
    link: str
    loss: float


@dataclass(frozen=True)
class Truth:
    """The true parameters of a path."""

    rtt_ms: float
    down: Hop
    up: Hop


def _log(draw: random.Random, low: float, high: float) -> float:
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def _hop(draw: random.Random, rate_mbit: float, rtt_ms: float) -> tuple[Hop, JsonObject]:
    kind = draw.choices(list(SHARES), list(SHARES.values()))[0]
    per_s = rate_mbit / 8e-6
    keys: JsonObject = {"rate": path_model.bits(rate_mbit)}
    depth = burst = None
    link = "serial"
    if kind == "fifo":
        depth = round(min(1.5 * per_s, max(15 * 1514, per_s * rtt_ms / 1000 * _log(draw, 0.2, 5))))
        keys["buffer"] = f"{depth}B"
        if draw.random() < TBF:
            link = "tbf"
            keys["link"] = {
                "kind": "tbf",
                "burst": f"{round(max(5000, per_s * _log(draw, 0.001, 0.01)))}B",
            }
    elif kind == "policer":
        burst = round(max(20 * 1514, per_s * _log(draw, 0.02, 0.5)))
        wire = rate_mbit * draw.uniform(2, 10)
        keys = {
            "rate": path_model.bits(wire),
            "buffer": f"{round(max(100e3, wire / 8e-6 * 0.05))}B",
        }
        keys["policer"] = {"rate": path_model.bits(rate_mbit), "burst": f"{burst}B"}
    else:
        keys["queue"] = kind
    if kind == "red":
        most = max(30 * 1514, round(per_s * 0.05))
        keys["buffer"] = f"{4 * most}B"
    loss = _log(draw, 5e-5, 5e-3) if draw.random() < LOSSY else 0.0
    if loss:
        keys["loss"] = {"probability": float(f"{loss:.3g}"), "per": "packet"}
    if draw.random() < JITTERY:
        keys["jitter"] = f"{draw.uniform(0.05, 0.3):.3f}ms"
    return Hop(kind, rate_mbit, depth, burst, link, loss), keys


def drawn(seed: int) -> tuple[nw.Path, Truth]:
    """The path of a seed, and its true parameters.

    >>> drawn(7)[1] == drawn(7)[1]
    True
    """
    draw = random.Random(seed)
    down = _log(draw, 2, 300)
    rtt = _log(draw, 4, 200)
    up = _log(draw, max(1.0, down / 20), max(1.5, down))
    ahead, keys = _hop(draw, down, rtt)
    back, reverse = _hop(draw, up, rtt)
    path = nw.Path(rtt=f"{round(rtt * 1000)}us", reverse=nw.Hop(**reverse), **keys)
    return path, Truth(rtt, ahead, back)


def inferred(seed: int, plan: Plan = PLAN) -> tuple[JsonObject, path_model.PathModel | None]:
    """Measures the path of a seed and infers its path model. The model is None if the inference
    failed.
    """
    path, truth = drawn(seed)
    try:
        found = path_model.infer(measure(path, plan, seed=seed), seed=seed)
        if not all(model.filled for model in found.directions.values()):
            plan = replace(PLAN, streams=MORE)
            found = path_model.infer(measure(path, plan, seed=seed), seed=seed)
    except NarrowsError as error:
        return {"seed": seed, "truth": asdict(truth), "error": str(error)}, None
    return {
        "seed": seed,
        "truth": asdict(truth),
        "model": found.json(),
        "streams": plan.streams,
    }, found


def calibrated(seed: int) -> JsonObject:
    """The path model of a path of the calibration, with the resolution of each quantity."""
    row, found = inferred(seed, replace(PLAN, streams=FEW) if seed % 2 else PLAN)
    if found is None:
        return row
    scales: JsonObject = {"rtt_ms": [found.rtt.unit, found.rtt.grain]}
    for direction, model in found.directions.items():
        known = {"rate_mbit": model.rate, "buffer_bytes": model.depth, "burst_bytes": model.burst}
        scales[direction] = {name: [value.unit, value.grain] for name, value in known.items()}
    return row | {"scales": scales}


def one(seed: int) -> JsonObject:
    """The path model of a tested path, with its prediction for another load."""
    row, found = inferred(seed)
    if found is None:
        return row
    path, _ = drawn(seed)
    ahead = {"true": _loaded_metrics(path, seed), "model": _loaded_metrics(found.path(), seed + 1)}
    return row | {"unseen": ahead}


def _loaded_metrics(path: nw.Path, seed: int) -> JsonObject:
    """Goodput of two flows of `UNSEEN` and p95 ping RTT under this load, as means of three runs."""
    goodput, p95 = [], []
    for more in range(3):
        scenario = nw.Scenario(
            path,
            flows=[nw.Flow(UNSEEN, count=2)],
            probes=[nw.Ping(interval="20ms")],
            duration="20s",
            seed=seed + more,
        )
        done = nw.run(scenario, sample_interval="off").json
        goodput.append(sum(flow["goodput_mbit"] or 0 for flow in done["flows"]))
        p95.append(done["probes"][0]["rtt_ms"]["p95"] or 0)
    return {"goodput_mbit": sum(goodput) / 3, "p95_ms": sum(p95) / 3}


QUANTITIES: dict[str, Callable[[JsonObject], tuple[JsonObject | None, float | None]]] = {
    "rate_mbit": lambda row: (row["model"]["rate_mbit"], row["truth"]["rate_mbit"]),
    "buffer_bytes": lambda row: (row["model"]["buffer_bytes"], row["truth"]["depth_bytes"]),
    "burst_bytes": lambda row: (row["model"]["burst_bytes"], row["truth"]["burst_bytes"]),
}


def directions(rows: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Yields every direction of every path, with its true parameters and its path model."""
    for row in rows:
        for direction in DIRECTIONS:
            if direction in row.get("model", {}):
                both = {"truth": row["truth"][direction], "model": row["model"][direction]}
                yield {
                    "seed": row["seed"],
                    "way": direction,
                    **both,
                    "scales": row.get("scales", {}).get(direction),
                }


Off = tuple[float, float, float]
"""True value minus estimate, the unit of this error, and the resolution of the quantity."""

GRAINS = (0.0, *(2 ** (n / 2) for n in range(-8, 31)))
"""Candidates for the number of resolution steps that are added to the unit of an error."""


def off(rows: Sequence[JsonObject], kind: str = "") -> JsonObject:
    """For each quantity and family of queue, the range that contains the errors of nine of ten
    estimates. The range is in multiples of the unit plus a number of resolution steps.

    Args:
        rows: Paths with their path models.
        kind: Name of these paths that replaces their family in the keys; base RTTs are then left
            out.
    """
    found: dict[str, list[Off]] = {}
    for row in rows:
        if "model" in row and not kind:
            error = row["truth"]["rtt_ms"] - row["model"]["rtt_ms"]["value"]
            found.setdefault("rtt_ms any", []).append((error, *row["scales"]["rtt_ms"]))
    for direction in directions(rows):
        for name, of in QUANTITIES.items():
            told, true = of(direction)
            if (
                told
                and told["value"]
                and true
                and direction["model"]["filled"]
                and direction["scales"][name][0]
            ):
                error = true - told["value"]
                found.setdefault(f"{name} {kind or direction['model']['family']}", []).append(
                    (error, *direction["scales"][name])
                )
    return {
        name: _narrowest(values) for name, values in sorted(found.items()) if len(values) >= ENOUGH
    }


def _narrowest(values: Sequence[Off]) -> JsonObject:
    """The number of resolution steps that gives the narrowest intervals for nine of ten values, and
    the ends of these intervals.

    To select the number of steps, widths are compared by the mean of their logarithm. The returned
    ends contain nine of ten values with confidence `SURE` (`outside`). Half of the values outside
    are below and half above; an odd one is placed where the interval becomes narrower. These ends
    depend on few extreme values, so they are not used to select the number of steps.
    """
    best: tuple[float, JsonObject] | None = None
    n = len(values)
    for grains in GRAINS:
        scales = [unit + grains * grain for _, unit, grain in values]
        errors = sorted(error / scale for (error, _, _), scale in zip(values, scales, strict=True))
        low, high = _between(errors, 0.05 * (n + 1), 0.05 * (n + 1))
        width = sum(math.log((high - low) * scale) for scale in scales) / n
        if best is None or width < best[0]:
            few, more = outside(n) // 2, outside(n) - outside(n) // 2
            ends = [_between(errors, few, more), _between(errors, more, few)]
            low, high = min(ends, key=lambda pair: pair[1] - pair[0])
            best = width, {"low": low, "high": high, "grains": float(f"{grains:.7g}")}
    assert best is not None
    return best[1]


def outside(n: int) -> int:
    """How many of n values may lie outside the interval, counting both ends (Wilks 1941).

    The range of the other values then contains at least the share `path_model.SHARE` of all such
    values with confidence `SURE`. If m values lie outside, this confidence is the probability that
    at most n - m of n values are below the quantile `SHARE`. Intervals that contain nine of ten
    values on average contain fewer in about every second trial. With fewer than 38 values the
    confidence is lower than `SURE`. The range of 30 values contains nine of ten with a confidence
    of 82 %, and that of 23 values with 68 %.

    >>> outside(52), outside(101)
    (3, 6)
    """
    share, m = path_model.SHARE, 2
    while m < n // 2 and _at_most(n - m - 1, n, share) >= SURE:
        m += 1
    return m


def _at_most(k: int, n: int, p: float) -> float:
    """The probability of at most k successes in n trials with probability p each."""
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))


def _between(values: list[float], below: float, above: float) -> list[float]:
    """The values at rank `below` from the lower end and at rank `above` from the upper end,
    interpolated between two values.

    On average, a share p of all other values is below the value of rank p (n + 1) of n (Weibull
    1939).
    """
    n = len(values)

    def at(rank: float) -> float:
        whole = math.floor(rank)
        after = values[min(n, whole + 1) - 1]
        return float(f"{values[whole - 1] + (rank - whole) * (after - values[whole - 1]):.7g}")

    return [at(min(n / 2, max(1.0, below))), at(n + 1 - min(n / 2, max(1.0, above)))]


@dataclass(frozen=True)
class Criterion:
    """A criterion of the test, and its result."""

    name: str
    asked: str
    found: str
    met: bool


def _share(of: Sequence[bool]) -> float:
    return sum(of) / len(of) if of else 0.0


def criteria(rows: Sequence[JsonObject]) -> list[Criterion]:
    """All criteria for these paths, for parameters and for predictions."""
    whole = [row for row in rows if "model" in row]
    out = criteria_of(whole)
    for figure in ("goodput_mbit", "p95_ms"):
        hits = [_near(row, figure) for row in whole]
        out.append(
            criterion(f"prediction for {UNSEEN}: {figure}", "within 15 % in 80 %", hits, least=0.8)
        )
    both = [_near(row, "goodput_mbit") and _near(row, "p95_ms") for row in whole]
    out.append(
        criterion(f"prediction for {UNSEEN}: both metrics", "within 15 % in 80 %", both, least=0.8)
    )
    return out


def criterion(
    name: str, asked: str, hits: Sequence[bool], *, least: float, most: float = 1.0
) -> Criterion:
    """A criterion that is met if the share of hits is between `least` and `most`."""
    share = _share(hits)
    return Criterion(name, asked, f"{100 * share:.1f} % of {len(hits)}", least <= share <= most)


def criteria_of(whole: Sequence[JsonObject]) -> list[Criterion]:
    """The criteria for the parameters of path models."""
    every = list(directions(whole))
    told = [
        w for w in every if w["model"]["filled"] and w["model"]["rate_mbit"]["value"] is not None
    ]
    out = []

    def add(
        name: str, asked: str, hits: Sequence[bool], *, least: float, most: float = 1.0
    ) -> None:
        out.append(criterion(name, asked, hits, least=least, most=most))

    near = [
        abs(w["model"]["rate_mbit"]["value"] / w["truth"]["rate_mbit"] - 1) <= RATE for w in told
    ]
    add("rate, if the link was fully used", "within 5 % in 95 %", near, least=0.95)
    anyhow = [
        abs((w["model"]["rate_mbit"]["value"] or 0) / w["truth"]["rate_mbit"] - 1) <= RATE
        for w in every
    ]
    add("rate, all paths", "within 5 % in 90 %", anyhow, least=0.9)
    rtts = [(row["model"]["rtt_ms"]["value"], row["truth"]["rtt_ms"]) for row in whole]
    add(
        "base RTT",
        "within 1 ms or 5 % in 95 %",
        [abs(a - b) <= max(1, BASE * b) for a, b in rtts],
        least=0.95,
    )
    depths = [
        abs(w["model"]["buffer_bytes"]["value"] / w["truth"]["depth_bytes"] - 1) <= DEPTH
        for w in every
        if w["truth"]["depth_bytes"] and w["model"]["buffer_bytes"]["high"] is not None
    ]
    add("buffer size, if determined", "within 15 % in 95 %", depths, least=0.95)
    for family, what in (
        ("policer", "policer present"),
        ("fair", "fair queueing present"),
        ("drop-tail", "drop-tail present"),
    ):
        kinds = [
            (w["truth"]["kind"], w["model"]["family"])
            for w in every
            if w["model"]["sure"] != "cannot tell"
        ]
        right = [(FAMILY[kind] == family) == (found == family) for kind, found in kinds]
        add(what, "correct in 95 % if determined", right, least=0.95)
    add(
        "queue discipline determined",
        "in 90 %",
        [w["model"]["sure"] != "cannot tell" for w in every],
        least=0.9,
    )
    for name, of in {"rtt_ms": None, **QUANTITIES}.items():
        if of is None:
            held = [(row["model"]["rtt_ms"], row["truth"]["rtt_ms"]) for row in whole]
        else:
            held = [pair for w in told if (pair := of(w)) and pair[0] and pair[1]]
        inside = [
            known["low"] <= true <= known["high"]
            for known, true in held
            if known["low"] is not None and known["high"] is not None
        ]
        add(f"interval of {name}", "contains the true value in 90 %", inside, least=0.9)
    return out


def _near(row: JsonObject, figure: str) -> bool:
    a, b = row["unseen"]["model"][figure], row["unseen"]["true"][figure]
    return bool(b) and abs(a / b - 1) <= UNSEEN_OFF


def markdown(rows: Sequence[JsonObject]) -> str:
    """The text of the page."""
    whole = [row for row in rows if "model" in row]
    seeds = f"{CALIBRATED.start} to {CALIBRATED.stop - 1}"
    lines = [
        "# Accuracy of path models: simulated paths", "",
        "This page compares path models inferred by `narrows model` with the true parameters of "
        "random",
        "simulated paths. `python -m validation.path_models` writes it.", build(), "",
        "| | |", "|---|---|",
        f"| paths | {len(rows)}, seeds {rows[0]['seed']} to {rows[-1]['seed']} |",
        "| rate | download 2 to 300 Mbit/s, upload at least 1/20 of it |",
        "| base RTT | 4 to 200 ms |",
        "| buffer | 0.2 to 5 BDP; one fifth of the drop-tail buffers behind a token bucket |",
        "| random loss | 0.005 to 0.5 % in one third of the directions |",
        "| jitter | in one fifth of the directions |",
        "| measurement | 12 CUBIC flows per direction (48 if 12 did not fill the path), and "
        "pings; client side only |",
        f"| interval calibration | {len(CALIBRATED)} other paths, seeds {seeds}, half of them "
        f"with {FEW} flows |",
        "| queue disciplines | those of the table below; inference does not consider SFQ |", "",
        "| quantity | criterion | result | |", "|---|---|---|---|",
        *(
            f"| {c.name} | {c.asked} | {c.found} | {'met' if c.met else 'NOT met'} |"
            for c in criteria(rows)
        ), "",
        f"The predictions are goodput and p95 ping RTT of two {UNSEEN.upper()} flows, simulated "
        "on the path model.",
        "They are compared with a simulation of the true path. The intervals are those that "
        "`narrows model`",
        "prints as 90 % intervals. If an interval contains the true value in almost all cases, it "
        "is wider",
        "than 90 % require. The true value is then usually closer to the estimate than to the "
        "ends.", "",
        "## Identified family of queue disciplines", "",
    ]  # fmt: skip
    kinds = list(SHARES)
    seen = [*dict.fromkeys(path_model.FAMILIES.values()), CANNOT]
    lines += [f"| true discipline | {' | '.join(seen)} |", f"|---|{'---|' * len(seen)}"]
    for kind in kinds:
        mine = [
            w["model"]["family"] if w["model"]["sure"] != "cannot tell" else CANNOT
            for w in directions(whole)
            if w["truth"]["kind"] == kind
        ]
        lines.append(f"| `{kind}` | {' | '.join(str(mine.count(family)) for family in seen)} |")
    heads = ["seed", "direction", "true path", "path model", "rate error"]
    lines += [
        "",
        "## Largest rate errors",
        "",
        f"| {' | '.join(heads)} |",
        f"|{'---|' * len(heads)}",
    ]
    told = [w for w in directions(whole) if w["model"]["rate_mbit"]["value"] is not None]
    worst = sorted(
        told,
        key=lambda w: -abs(math.log(w["model"]["rate_mbit"]["value"] / w["truth"]["rate_mbit"])),
    )
    for w in worst[:10]:
        off = 100 * (w["model"]["rate_mbit"]["value"] / w["truth"]["rate_mbit"] - 1)
        full = "" if w["model"]["filled"] else ", reported as never fully used"
        lines.append(
            f"| {w['seed']} | {w['way']} | {w['truth']['kind']} {w['truth']['rate_mbit']:.3g} "
            "Mbit/s, loss "
            f"{100 * w['truth']['loss']:.2g} % | {w['model']['family']}, "
            f"{w['model']['sure']}{full} "
            f"| {off:+.1f} % |"
        )
    return "\n".join(lines) + "\n"


INFERENCE = (
    "python/narrows/path_model",
    "python/narrows/data/path_model.json",
    "python/narrows/measure/simulated.py",
    "core/src",
    "sim/src",
)
"""Files and folders that determine path models and simulated measurements."""


def build() -> str:
    """The last commit that changed the inference, its calibration or the simulator, in words."""
    done = subprocess.run(
        ["git", "log", "-1", "--format=%h of %cs", "--", *INFERENCE],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parent,
    )
    commit = done.stdout.strip() or "unknown"
    return f"Last commit that changed the inference or the simulator: {commit}."


def rows_of(
    of: Callable[[int], JsonObject], seeds: Sequence[int], *, jobs: int, keep: str, resume: bool
) -> list[JsonObject]:
    """The result of each seed. With `resume`, stored results of an interrupted run are used."""
    KEPT.mkdir(parents=True, exist_ok=True)
    file = KEPT / f"{keep}.jsonl"
    if not resume:
        file.unlink(missing_ok=True)
    known = {}
    if file.exists():
        known = {
            row["seed"]: row
            for line in file.read_text(encoding="utf-8").splitlines()
            if (row := json.loads(line))
        }
    todo = [seed for seed in seeds if seed not in known]
    with file.open("a", encoding="utf-8") as sink, processes(jobs) as pool:
        for row in pool.map(of, todo):
            known[row["seed"]] = row
            sink.write(json.dumps(row) + "\n")
            sink.flush()
            print(f"{len(known)}/{len(seeds)}", end="\r", file=sys.stderr, flush=True)
    return [known[seed] for seed in seeds]


def main(arguments: Sequence[str] | None = None) -> int:
    """Calibrates the intervals, or tests other paths and writes the page."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.path_models",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--calibrate", action="store_true", help="determine the intervals and write them"
    )
    parser.add_argument("--only", type=int, help="test only this seed")
    parser.add_argument(
        "--first",
        type=positive,
        default=len(TESTED),
        help="test only this number of paths, and write no page",
    )
    parser.add_argument("--resume", action="store_true", help="continue an interrupted run")
    parser.add_argument(
        "--jobs", type=positive, default=2, help="number of parallel processes [default: 2]"
    )
    args = parser.parse_args(arguments)
    if args.only is not None:
        print(json.dumps(one(args.only), indent=1))
        return 0
    if args.calibrate:
        rows = rows_of(
            calibrated, CALIBRATED, jobs=args.jobs, keep="calibrated", resume=args.resume
        )
        from validation import path_models_shared  # noqa: PLC0415 - which needs this module

        seeds = path_models_shared.CALIBRATED
        shared = rows_of(
            path_models_shared.calibrated,
            seeds,
            jobs=args.jobs,
            keep="calibrated-shared",
            resume=args.resume,
        )
        fair, both = (
            [row for row in shared if row["load"]["kind"] == kind] for kind in ("fair", "both")
        )
        made: dict[str, Any] = {
            "made_by": "python -m validation.path_models --calibrate",
            "seeds": [CALIBRATED.start, CALIBRATED.stop],
            "seeds_shared": [seeds.start, seeds.stop],
            "off": off([*rows, *fair]) | off(both, "both"),
        }
        path_model.CALIBRATION.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
        return 0
    rows = rows_of(one, TESTED[: args.first], jobs=args.jobs, keep="tested", resume=args.resume)
    if args.first >= len(TESTED):
        PAGE.write_text(markdown(rows), encoding="utf-8")
    for c in criteria(rows):
        print(f"{'met    ' if c.met else 'NOT met'}  {c.name}: {c.found} ({c.asked})")
    return int(not all(c.met for c in criteria(rows)))


if __name__ == "__main__":
    sys.exit(main())
