"""Compares path models of random emulated paths (real packets) with the true parameters of these
paths.

Commands:

    python -m validation.path_models_live
        40 paths, 1 h: write docs/reference/path-models-live.md
    python -m validation.path_models_live --only 7
        test one path and print it
    python -m validation.path_models_live --retry
        continue an interrupted run; repeat runs that were not trusted
    python -m validation.path_models_live --measure 3
        run three missing measurements; no inference
    python -m validation.path_models_live --infer
        infer from stored measurements in target/path-models/live, without packets

Each path is emulated between two network namespaces. The far host runs `narrows serve`. The client
runs `narrows measure far`, which has no other information about the path. TCP is that of this
kernel. Runs that the self-check of the emulator rejects are reported and not counted. The intervals
were calibrated on simulated paths, and this test checks whether they are valid for real packets.

Each path is measured with CUBIC, from which the path model is inferred. Then it is loaded with two
flows of this kernel's BBR; this live run is the reference. The simulator runs the same load on the
path model and on the true path. An error that both simulations have is not an error of the path
model.

The emulator adds delay to the configured base RTT. Therefore the true base RTT is measured by ICMP
echoes over the same idle links, without losses, jitter and policers. The far kernel replies to
them, and this kernel timestamps them (`validation.echo`). The true base RTT is the minimum RTT of
these echoes, minus the transmission time of their frames.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import fmean

import narrows as nw
from narrows import files, path_model
from narrows.errors import NarrowsError
from narrows.host.live import HOST
from narrows.json_object import JsonObject
from narrows.measure.result import DIRECTIONS, Measurement
from narrows.measure.simulated import Plan, measure
from validation.asked import positive, span
from validation.echo import FRAME_BYTES
from validation.path_models import (
    KEPT,
    UNSEEN,
    UNSEEN_OFF,
    Criterion,
    Truth,
    build,
    criteria_of,
    criterion,
    directions,
    drawn,
)
from validation.stored import HERE

PAGE = HERE.parent / "docs/reference/path-models-live.md"

TESTED = range(9100, 9140)
FASTEST = 60.0
"""Maximum rate of the emulated paths, in Mbit/s. A busy machine with two processors emulates this
rate without lateness.
"""

LOAD, IDLE = "8s", "2s"

UNSEEN_PLAN = Plan(cc=UNSEEN, streams=2, idle_s=2.0, load_s=12.0)
"""The load that is predicted. In 12 s, BBR drains its queue once, because it does so every 10 s."""

TIMES = 3
"""Number of simulations per prediction; their mean is used."""

KEPT_LIVE = KEPT / "live"
"""Folder of the stored measurements."""

NARROWS = [sys.executable, "-m", "narrows"]
QUIET = ("--quiet", "--no-history", "--no-model")


def path_of(seed: int) -> tuple[nw.Path, Truth]:
    """The seed's first random path with a rate of at most `FASTEST`, and its true parameters."""
    draw = random.Random(seed)
    while True:
        path, truth = drawn(draw.randrange(10_000, 10**9))
        fastest = max(truth.down.rate_mbit, truth.up.rate_mbit)
        if fastest <= FASTEST and truth.rtt_ms <= 120:  # noqa: PLR2004
            return path, truth


def measured(seed: int) -> JsonObject:
    """Emulates and measures the path of a seed, and stores all results."""
    path, truth = path_of(seed)
    row: JsonObject = {
        "seed": seed,
        "truth": {"rtt_ms": truth.rtt_ms, "down": asdict(truth.down), "up": asdict(truth.up)},
    }
    back = path.reverse
    assert back is not None
    plain = nw.Path(rtt=path.rtt, rate=path.rate, reverse=nw.Hop(rate=back.rate))
    echoed, told = _between(plain, sys.executable, "-m", "validation.echo", "far")
    if "error" not in told:
        row["echo_ms"] = json.loads(echoed)
        _, told = _loaded(path, "cubic", LOAD, IDLE, "--out", str(_stored(seed, "json")))
    return _store(seed, "row", row | told)


def measured_under_load(seed: int) -> JsonObject:
    """Emulates the path of a seed under the load of the prediction, and stores the results."""
    path, _ = path_of(seed)
    load, idle = (f"{t:g}s" for t in (UNSEEN_PLAN.load_s, UNSEEN_PLAN.idle_s))
    more = ("--streams", str(UNSEEN_PLAN.streams), "--out", str(_stored(seed, f"{UNSEEN}.json")))
    _, told = _loaded(path, UNSEEN, load, idle, *more)
    return _store(seed, f"{UNSEEN}.row", {"seed": seed} | told)


def _loaded(path: nw.Path, cc: str, load: str, idle: str, *more: str) -> tuple[str, JsonObject]:
    asked = ("--cc", cc, "--duration", load, "--idle", idle)
    return _between(
        path, *NARROWS, "measure", "far", *asked, *QUIET, *more, far=f"{HOST} serve --net-admin"
    )


def _between(path: nw.Path, *command: str, far: str | None = None) -> tuple[str, JsonObject]:
    """Runs a command on the client of an emulated path. Returns its output, and the self-check of
    the emulator or its error.
    """
    with tempfile.TemporaryDirectory() as there:
        scenario, seen = (Path(there) / name for name in ("path.toml", "seen.json"))
        scenario.write_text(
            nw.Scenario(path, flows=[nw.Flow("cubic")], duration="60s").toml(), encoding="utf-8"
        )
        around = [
            *NARROWS,
            "shell",
            str(scenario),
            "--quiet",
            "--json",
            str(seen),
            *(["--far", far] if far else []),
        ]
        done = subprocess.run(
            [*around, "--", *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
            cwd=HERE.parent,
        )
        if done.returncode:
            return "", {"error": done.stderr.strip()}
        told = json.loads(seen.read_text(encoding="utf-8"))["instruments"]
        return done.stdout, {"instruments": {"trusted": told["trusted"], "why": told["why"]}}


def _store(seed: int, what: str, row: JsonObject) -> JsonObject:
    _stored(seed, what).write_text(json.dumps(row) + "\n", encoding="utf-8")
    return row


def _stored(seed: int, what: str) -> Path:
    return KEPT_LIVE / f"{seed}.{what}"


def known(seed: int, what: str = "row") -> JsonObject | None:
    """The stored results of a path, or None."""
    file = _stored(seed, what)
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def _trusted(row: JsonObject | None) -> bool:
    return bool(row and row.get("instruments", {}).get("trusted"))


def missing(seeds: Sequence[int], *, anew: bool) -> list[Callable[[], JsonObject]]:
    """Functions that do the missing runs, followed by the runs that were not trusted. With `anew`,
    all runs are returned.
    """
    runs = [
        (seed, what, run)
        for seed in seeds
        for what, run in (("row", measured), (f"{UNSEEN}.row", measured_under_load))
    ]
    due = [one for one in runs if anew or not _trusted(known(*one[:2]))]
    due.sort(key=lambda one: not anew and known(*one[:2]) is not None)
    return [partial(run, seed) for seed, _, run in due]


def inferred(row: JsonObject) -> JsonObject:
    """Infers the path model of a stored measurement, and adds the true parameters."""
    if "error" in row:
        return row
    path, _ = path_of(row["seed"])
    mbit = [
        float(hop.rate.removesuffix("bit")) / 1e6
        for hop in (path, path.reverse)
        if hop and hop.rate
    ]
    asked = row["truth"]["rtt_ms"]
    found = min(row["echo_ms"]) - sum(FRAME_BYTES * 8e-3 / rate for rate in mbit)
    row = row | {"truth": row["truth"] | {"rtt_ms": found}, "asked_ms": asked}
    try:
        found = path_model.infer(files.read(_stored(row["seed"], "json")), seed=row["seed"])
    except NarrowsError as error:
        return row | {"error": str(error)}
    row |= {"model": found.json()}
    if _trusted(known(row["seed"], f"{UNSEEN}.row")):
        row["unseen"] = compared(row["seed"], path, found.path())
    return row


def compared(seed: int, path: nw.Path, model: nw.Path) -> JsonObject:
    """Results under the load of the prediction by direction: of the live run, of the path model,
    and of the simulated true path.
    """
    live = _figures(files.read(_stored(seed, f"{UNSEEN}.json")))
    from_model = _played(model, seed)
    from_path = _played(path, seed)
    return {
        direction: {
            "live": live[direction],
            "model": from_model[direction],
            "path": from_path[direction],
        }
        for direction in DIRECTIONS
    }


def _played(path: nw.Path, seed: int) -> JsonObject:
    runs = [_figures(measure(path, UNSEEN_PLAN, seed=seed + more)) for more in range(TIMES)]
    return {
        direction: {name: fmean(run[direction][name] for run in runs) for name in FIGURES}
        for direction in DIRECTIONS
    }


FIGURES = ("goodput_mbit", "p95_ms")


def _figures(of: Measurement) -> JsonObject:
    """Goodput and p95 ping RTT under load, by direction."""
    return {
        direction: {
            "goodput_mbit": of.rate_mbit(direction) or 0.0,
            "p95_ms": of.under_load(direction).p95 or 0.0,
        }
        for direction in DIRECTIONS
    }


def predicted(rows: Sequence[JsonObject], by: str = "model") -> list[Criterion]:
    """The criteria for predictions, for single directions and for whole paths."""
    asked = [row["unseen"] for row in rows if "unseen" in row]
    if not asked:
        return []
    near = [
        [
            [_near(direction[by][name], direction["live"][name]) for name in FIGURES]
            for direction in row.values()
        ]
        for row in asked
    ]
    ways_ = [direction for row in near for direction in row]
    hits = {name: [direction[n] for direction in ways_] for n, name in enumerate(FIGURES)}
    hits |= {"both metrics": [all(direction) for direction in ways_]}
    hits |= {"both metrics, both directions": [all(map(all, row)) for row in near]}
    return [
        criterion(f"prediction for {UNSEEN}: {name}", "within 15 % in 80 %", hit, least=0.8)
        for name, hit in hits.items()
    ]


def _near(a: float, b: float) -> bool:
    return bool(b) and abs(a / b - 1) <= UNSEEN_OFF


def markdown(rows: Sequence[JsonObject]) -> str:
    """The text of the page."""
    good = [row for row in rows if "model" in row and row["instruments"]["trusted"]]
    late = sum("model" in row and not row["instruments"]["trusted"] for row in rows)
    failed = [row for row in rows if "error" in row]
    lines = [
        "# Accuracy of path models: emulated paths", "",
        "This page compares path models inferred by `narrows model` with the true parameters of "
        "random",
        "emulated paths. `python -m validation.path_models_live` writes it.", build(), "",
        "| | |", "|---|---|",
        f"| paths | {len(rows)}, up to {FASTEST:g} Mbit/s and 120 ms, each between two network "
        "namespaces |",
        "| measurement | `narrows measure far` with this kernel's CUBIC; it receives only the "
        "host name |",
        f"| valid runs | {len(good)} |",
        f"| runs rejected by the emulator's self-check | {late} |",
        f"| failed runs | {len(failed)} |", "",
        "| quantity | criterion | result | |", "|---|---|---|---|",
        *(
            f"| {c.name} | {c.asked} | {c.found} | {'met' if c.met else 'NOT met'} |"
            for c in every_criterion(good)
        ), "",
        *_unseen(good),
        "## Results by direction", "",
        "| seed | direction | true path | path model | rate error | 90 % interval | buffer error "
        "| 90 % interval |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for w in directions(good):
        rate = _off(w["model"]["rate_mbit"], w["truth"]["rate_mbit"])
        depth = _off(w["model"]["buffer_bytes"], w["truth"]["depth_bytes"])
        lines.append(
            f"| {w['seed']} | {w['way']} | {_truth(w['truth'])} | {w['model']['family']}, "
            f"{w['model']['sure']} "
            f"| {rate} | {depth} |"
        )
    lines += [
        "", "## Base RTT", "",
        "The emulator adds delay of its own. The true base RTT is therefore measured: the minimum "
        "RTT of",
        "200 ICMP echoes over the idle links, minus the transmission time of their frames.", "",
        "| seed | configured, ms | true, ms | path model, ms | 90 % interval, ms |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    for row in good:
        rtt, true = row["model"]["rtt_ms"], row["truth"]["rtt_ms"]
        holds = "" if rtt["low"] <= true <= rtt["high"] else ", missed"
        lines.append(
            f"| {row['seed']} | {row['asked_ms']:.3f} | {true:.3f} | {rtt['value']:.3f} "
            f"| {rtt['low']:.3f} to {rtt['high']:.3f}{holds} |"
        )
    lines += [f"\nSeed {row['seed']} failed: {row['error'].splitlines()[0]}." for row in failed]
    return "\n".join(lines) + "\n"


def every_criterion(rows: Sequence[JsonObject]) -> list[Criterion]:
    """All criteria, for parameters and for predictions."""
    return criteria_of(rows) + predicted(rows)


def _unseen(rows: Sequence[JsonObject]) -> list[str]:
    """The lines of the section on predictions, with the largest errors first."""
    plan = UNSEEN_PLAN
    told = [
        (row, direction, row["unseen"][direction])
        for row in rows
        if "unseen" in row
        for direction in DIRECTIONS
    ]
    if not told:
        return []
    told.sort(
        key=lambda one: (
            -max(abs(math.log(one[2]["model"][name] / one[2]["live"][name])) for name in FIGURES)
        )
    )
    lines = [
        f"## Prediction for {UNSEEN.upper()}", "",
        "The path models are inferred from loads with CUBIC. Afterwards each direction of "
        f"{len(told) // 2} of",
        f"{len(rows)} paths was loaded for {plan.load_s:g} s by {plan.streams} {UNSEEN.upper()} "
        "flows of this kernel.",
        "The same load was simulated on the path model and on the true path. The errors of "
        "goodput and of",
        "the 95th percentile of the ping RTT are relative to the live run. The other paths were "
        "not loaded",
        f"with {UNSEEN.upper()}, or their live runs were rejected by the self-check. The largest "
        "errors come "
        "first.", "",
        "Simulation of the true path:", "",
        *(f"- {c.name.partition(': ')[2]} within 15 %: {c.found}." for c in predicted(rows,
        "path")), "",
        "| seed | direction | true path | live goodput, Mbit/s | error, path model | error, true "
        "path "
        "| live p95 RTT, ms | error, path model | error, true path |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row, direction, of in told:
        cells = [f"{row['seed']}", direction, _truth(row["truth"][direction])]
        for name in FIGURES:
            live = of["live"][name]
            cells += [
                f"{live:.4g}",
                *(f"{100 * (of[by][name] / live - 1):+.1f} %" for by in ("model", "path")),
            ]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _truth(of: JsonObject) -> str:
    return f"{of['kind']} {of['rate_mbit']:.3g} Mbit/s, loss {100 * of['loss']:.2g} %"


def _off(told: JsonObject, true: float | None) -> str:
    """Two cells of a table: the error of a quantity, and its interval."""
    if true is None or told["value"] is None:
        return "| "
    off = f"{100 * (told['value'] / true - 1):+.1f} %"
    if told["low"] is None or told["high"] is None:
        return f"{off} | "
    low, high = (100 * (told[end] / true - 1) for end in ("low", "high"))
    return f"{off} | {low:+.1f} to {high:+.1f} %{'' if low <= 0 <= high else ', missed'}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and writes the page."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.path_models_live",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", type=int, help="test only this seed")
    parser.add_argument(
        "--seeds", type=span, help="range of other seeds, such as 9000-9039; writes no page"
    )
    parser.add_argument(
        "--retry",
        action="store_true",
        help="measure only missing runs and runs that were not trusted",
    )
    parser.add_argument(
        "--measure", type=positive, metavar="N", help="measure only N paths, half a minute each"
    )
    parser.add_argument("--infer", action="store_true", help="measure nothing")
    args = parser.parse_args(arguments)
    KEPT_LIVE.mkdir(parents=True, exist_ok=True)
    seeds = TESTED
    if args.only is not None:
        seeds = range(args.only, args.only + 1)
    elif args.seeds:
        seeds = args.seeds
    if not args.infer:
        _measure(missing(seeds, anew=not args.retry and args.measure is None), args.measure)
    if args.measure is not None:
        return 0
    rows = [inferred(row) for seed in seeds if (row := known(seed))]
    if args.only is not None:
        print(json.dumps(rows, indent=1))
        return 0
    if not args.seeds:
        PAGE.write_text(markdown(rows), encoding="utf-8")
    found = every_criterion([row for row in rows if "model" in row and _trusted(row)])
    for c in found:
        print(f"{'met    ' if c.met else 'NOT met'}  {c.name}: {c.found} ({c.asked})")
    return int(not all(c.met for c in found))


def _measure(runs: Sequence[Callable[[], JsonObject]], most: int | None) -> None:
    """Executes the runs in order, at most `most` of them, and reports the result of each."""
    for run in runs[:most]:
        row = run()
        told = row.get("instruments", {})
        how = "trusted" if _trusted(row) else row.get("error") or "; ".join(told["why"])
        print(f"{row['seed']}: {how}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped; the rows measured before remain", file=sys.stderr)
        sys.exit(130)
