"""Holds the twin against paths that are hard to tell: fair queues, both ways loaded at once, and others' traffic.

    python -m validation.twin_shared              60 paths, 36 simulated and 24 over real packets: twin-shared.md
    python -m validation.twin_shared --only 7001  one of them, on the terminal
    python -m validation.twin_shared --measure 6  measures six of the live ones that are not kept, and no more
    python -m validation.twin_shared --infer      from what is kept in target/twin; nothing is sent

Each path is of one of four kinds, by its seed: fair queueing in both directions, loaded by few flows, each way alone;
both ways loaded at once, over any queue; an evenly paced UDP stream of others along one way; long TCP flows of others.
Every interval that the twin states is held against the truth; an interval with an open end holds what lies beyond. It
is counted, too, how much the twin tells at all, since "cannot tell" is never wrong.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

import narrows as nw
from narrows import files, path_model
from narrows.errors import NarrowsError
from narrows.measure.result import Measurement
from narrows.measure.simulated import Plan, measure
from validation.asked import positive
from validation.stored import HERE, Json
from validation.twin import FAMILY, KEPT, Criterion, Hop, Truth, _log, criterion, rows_of, ways

PAGE = HERE.parent / "docs/reference/twin-shared.md"
KEPT_SHARED = KEPT / "shared"

SIMULATED, LIVE = range(7200, 7236), range(7036, 7060)
"""Seeds of the paths that are tried, stated before the first of them was drawn; none calibrates anything.

The simulated ones were tried twice before, and what was learned was mended: 7000 to 7035 missed rates behind fair
queues, of which the calibration had too few and `fq` not at all, and of both-way loads, where random loss was no
explanation; 7100 to 7135 held 92.5 % of the rates, and missed base round trips by the time of a ping's frame where a
rate could not be told. Nothing was learned from these."""

CALIBRATED = range(6000, 6080)
"""Seeds of simulated paths from which the intervals come, too: of fair queues, and of both-way loads, in turn."""

KINDS = ("fair", "both", "udp", "tcp")
"""By the seed, in turn."""

FASTEST_LIVE = 25.0
LOAD, IDLE = "8s", "2s"
OTHERS = ("udp", "tcp")


def _hop(draw: random.Random, kind: str, rate_mbit: float, rtt_ms: float) -> tuple[Hop, Json]:
    fair = ("fq_codel", "cake", "fq")
    queue = draw.choice(fair if kind == "fair" else ("fifo", "fifo", "fifo", "codel", "pie", *fair))
    keys: Json = {"rate": path_model.bits(rate_mbit)}
    depth = None
    if queue == "fifo":
        depth = round(max(15 * 1514, rate_mbit / 8e-6 * rtt_ms / 1000 * _log(draw, 0.5, 3)))
        keys["buffer"] = f"{depth}B"
    else:
        keys["queue"] = queue
    loss = _log(draw, 5e-4, 5e-3) if draw.random() < 0.2 else 0.0  # noqa: PLR2004 - one way of five
    if loss:
        keys["loss"] = {"probability": float(f"{loss:.3g}"), "per": "packet"}
    return Hop(queue, rate_mbit, depth, None, "serial", loss), keys


def drawn(seed: int, fastest: float = 50.0) -> tuple[nw.Path, Truth, Json]:
    """The path of a seed, its truth, and how it is loaded.

    >>> drawn(7001)[1] == drawn(7001)[1], drawn(7001)[2]["kind"]
    (True, 'both')
    """
    draw = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    down, rtt = _log(draw, 3, fastest), _log(draw, 8, 90)
    up = _log(draw, max(2.0, down / 6), down)
    ahead, keys = _hop(draw, kind, down, rtt)
    back, reverse = _hop(draw, kind, up, rtt)
    path = nw.Path(rtt=f"{round(rtt * 1000)}us", reverse=nw.Hop(**reverse), **keys)
    load: Json = {"kind": kind, "streams": draw.choice((1, 2, 4, 8)), "cc": draw.choice(("cubic", "cubic", "bbr"))}
    load["test"] = draw.choice(("bidir", "rrul_be"))
    if kind in OTHERS:
        # Along the path's own direction.
        load["others"] = round(down * draw.uniform(0.15, 0.6), 2) if kind == "udp" else draw.choice((1, 2))
    return path, Truth(rtt, ahead, back), load


def plan(load: Json) -> Plan:
    """The load of a simulated measurement."""
    if load["kind"] == "both":
        streams = 1 if load["test"] == "bidir" else 4
        return Plan(cc=load["cc"], streams=streams, load_s=8.0, at_once=True)
    return Plan(streams=max(2, load["streams"]), load_s=8.0)


def others(load: Json, until_s: float) -> list[nw.Flow]:
    """The traffic of others of a simulated path."""
    if load["kind"] == "udp":
        stream = {"kind": "udp", "rate": path_model.bits(load["others"]), "packet": "1400B"}
        return [nw.Flow(id="others", workload=stream, stop=f"{until_s}s")]
    if load["kind"] == "tcp":
        return [nw.Flow("cubic", id="others", count=load["others"], stop=f"{until_s}s")]
    return []


def simulated(seed: int) -> tuple[Measurement, Truth, Json]:
    """A measurement of a path in the simulator."""
    path, truth, load = drawn(seed)
    how = plan(load)
    return measure(path, how, seed=seed, beside=others(load, how.end_s())), truth, load


def row_of(seed: int, found: path_model.Twin, truth: Json, load: Json, *, live: bool) -> Json:
    """What the twin says of a path, beside the truth."""
    scales: Json = {"rtt_ms": [found.rtt.unit, found.rtt.grain]}
    for way, model in found.ways.items():
        known = {"rate_mbit": model.rate, "buffer_bytes": model.depth, "burst_bytes": model.burst}
        scales[way] = {name: [value.unit, value.grain] for name, value in known.items()}
    return {"seed": seed, "truth": truth, "twin": found.json(), "load": load, "live": live, "scales": scales}


def calibrated(seed: int) -> Json:
    """A path with fair queueing, or one of which both ways are loaded at once, with what limits each figure."""
    which = len(KINDS) * (seed // 2) + seed % 2
    measured, truth, load = simulated(which)
    return row_of(seed, path_model.infer(measured, seed=which), asdict(truth), load, live=False)


def one(seed: int) -> Json:
    """A simulated path, measured and inferred."""
    measured, truth, load = simulated(seed)
    try:
        found = path_model.infer(measured, seed=seed)
    except NarrowsError as error:
        return {"seed": seed, "error": str(error)}
    return row_of(seed, found, asdict(truth), load, live=False)


def measured_live(seed: int) -> Json:
    """A path measured over real packets; what goes along the path is the near end's `up`."""
    path, truth, load = drawn(seed, FASTEST_LIVE)
    told = {"rtt_ms": truth.rtt_ms, "up": asdict(truth.down), "down": asdict(truth.up)}
    test = ["--test", load["test"]] if load["kind"] == "both" else ["--streams", str(max(2, load["streams"]))]
    cc = load["cc"] if load["kind"] == "both" else "cubic"
    narrows = f"{sys.executable} -m narrows"
    cross = f"{sys.executable} -m validation.cross"
    ready = "until (echo > /dev/tcp/far/5201) 2>/dev/null; do sleep 0.1; done"
    ask = [*test, "--cc", cc, "--duration", LOAD, "--idle", IDLE, "--quiet", "--no-history", "--no-twin"]
    ask += ["--out", str(KEPT_SHARED / f"{seed}.json")]
    beside = ["--near", f"{cross} near {load['kind']} {load['others']}"] if load["kind"] in OTHERS else []
    with tempfile.TemporaryDirectory() as there:
        scenario, seen = (Path(there) / name for name in ("path.toml", "seen.json"))
        scenario.write_text(nw.Scenario(path, flows=[nw.Flow("cubic")], duration="60s").toml(), encoding="utf-8")
        shell = [*narrows.split(), "shell", str(scenario), "--quiet", "--json", str(seen), *beside]
        shell += ["--far", f"bash -c '{cross} far & exec {narrows} serve'"]
        command = ["bash", "-c", f"{ready}; exec {narrows} measure far {' '.join(ask)}"]
        done = subprocess.run(
            [*shell, "--", *command], capture_output=True, text=True, check=False, timeout=120, cwd=HERE.parent
        )
        row: Json = {"seed": seed, "truth": told, "load": load}
        if done.returncode:
            row["error"] = done.stderr.strip()[-300:]
        else:
            told = json.loads(seen.read_text(encoding="utf-8"))["instruments"]
            row["instruments"] = {"trusted": told["trusted"], "why": told["why"]}
    (KEPT_SHARED / f"{seed}.row").write_text(json.dumps(row) + "\n", encoding="utf-8")
    return row


def inferred_live(seed: int) -> Json:
    """What a kept measurement comes to."""
    kept = KEPT_SHARED / f"{seed}.row"
    row: Json = (
        json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {"seed": seed, "error": "not measured"}
    )
    if "error" in row or not row["instruments"]["trusted"]:
        return row | {"live": True}
    try:
        found = path_model.infer(files.read(KEPT_SHARED / f"{seed}.json"), seed=seed)
    except NarrowsError as error:
        return row | {"error": str(error), "live": True}
    return row | row_of(seed, found, row["truth"], row["load"], live=True)


QUANTITIES = {"rate_mbit": "rate_mbit", "buffer_bytes": "depth_bytes", "loss": "loss"}
"""What the twin calls them, and what the truth does."""


def holds(known: Json, true: float) -> bool:
    """Whether a stated interval contains the truth.

    >>> holds({"low": 3.0, "high": None}, 4.0), holds({"low": 3.0, "high": 3.5}, 4.0)
    (True, False)
    """
    low, high = known["low"], known["high"]
    return (low is None or low <= true) and (high is None or true <= high)


def stated(known: Json) -> bool:
    """Whether it is an interval at all."""
    return known["low"] is not None or known["high"] is not None


def beside(row: Json, way: str) -> bool:
    """Whether others' traffic took a part of this way: they go along the path, live the near end's `up`."""
    return bool(row["load"].get("others")) and way == ("up" if row["live"] else "down")


def criteria(rows: Sequence[Json]) -> list[Criterion]:
    """What is asked of what it says."""
    whole = [row for row in rows if "twin" in row]
    every = [w | {"row": row} for row in whole for w in ways([row])]
    out = []

    def add(name: str, hits: Sequence[bool], *, least: float = 0.9) -> None:
        if hits:
            out.append(criterion(name, f"in {100 * least:.0f} %", hits, least=least))

    for name, true in QUANTITIES.items():
        of = [(w["twin"][name], w["truth"][true]) for w in every if w["truth"][true] is not None]
        add(f"interval of {name} contains the truth", [holds(known, value) for known, value in of if stated(known)])
        closed = [holds(known, value) for known, value in of if None not in (known["low"], known["high"])]
        add(f"the same, of intervals with two ends: {name}", closed, least=0.85)
    # What an emulator in user space adds to a round trip, only a referee knows: `validation.twin_live` asks one.
    rtts = [holds(row["twin"]["rtt_ms"], row["truth"]["rtt_ms"]) for row in whole if not row["live"]]
    add("interval of rtt_ms contains the truth, simulated", rtts)
    inside = [
        known["value"] is None or holds(known, known["value"])
        for w in every
        for known in w["twin"].values()
        if isinstance(known, dict) and "value" in known
    ]
    add("a value lies inside its own interval", inside, least=1.0)
    told = [w for w in every if w["twin"]["sure"] != "cannot tell"]
    add("family, where it is told", [FAMILY[w["truth"]["kind"]] == w["twin"]["family"] for w in told])
    lossy = [w for w in every if w["twin"]["loss"]["value"]]
    add("random loss is reported only where there is some", [w["truth"]["loss"] > 0 for w in lossy])
    quiet = [w for w in every if beside(w["row"], w["way"])]
    add("others' traffic is not said to be absent", [w["twin"]["others_traffic"] is not False for w in quiet])
    alone = [w for w in every if not w["row"]["load"].get("others")]
    add("others' traffic is not said to be there without any", [w["twin"]["others_traffic"] is not True for w in alone])
    add("a steady rate is not said to vary", [w["twin"]["rate_varies"] is not True for w in every])
    return out


def told(rows: Sequence[Json], kind: str) -> str:
    """How much is told of the paths of one kind: a row of the page."""
    every = [w for row in rows if "twin" in row and row["load"]["kind"] == kind for w in ways([row])]
    closed = [w["twin"]["rate_mbit"] for w in every if w["twin"]["rate_mbit"]["high"] is not None]
    widths = [100 * (known["high"] - known["low"]) / known["value"] for known in closed if known["value"]]
    family = sum(w["twin"]["sure"] != "cannot tell" for w in every)
    value = sum(w["twin"]["rate_mbit"]["value"] is not None for w in every)
    width = f"{median(widths):.1f} %" if widths else ""
    return f"| {kind} | {len(every)} | {family} | {value} | {len(closed)} | {width} |"


def markdown(rows: Sequence[Json]) -> str:
    """The page."""
    good = [row for row in rows if "twin" in row]
    live = sum(row["live"] for row in good)
    lines = [
        "# The twin behind fair queues, under both-way loads and beside others", "",
        f"{len(good)} paths drawn at random, {live} of them over real packets between two namespaces. Four kinds:",
        "`fair`, fair queueing both ways, loaded by 2 to 8 flows; `both`, both ways at once by one or four flows",
        "of CUBIC or BBR; `udp`, an evenly paced stream of others along one way, 15 to 60 % of the link; `tcp`, one or",
        f"two long TCP flows of others. Seeds {SIMULATED.start} to {SIMULATED.stop - 1}, simulated, and",
        f"{LIVE.start} to {LIVE.stop - 1}, live; none of them calibrated anything.",
        "Written by `python -m validation.twin_shared`.", "",
        "| what | asked | found | |", "|---|---|---|---|",
        *(f"| {c.name} | {c.asked} | {c.found} | {'met' if c.met else 'NOT met'} |" for c in criteria(good)), "",
        "An interval may have an open end, where others' traffic cannot be excluded or a link was never full. So this",
        "is how much is told of each kind:", "",
        "| kind | ways | family told | rate told | rate with two ends | their width, median |",
        "|---|---|---|---|---|---|",
        *(told(good, kind) for kind in KINDS), "",
        "## Each way", "",
        "| seed | kind | way | truth | twin | rate | its interval | others |", "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in good:
        for w in ways([row]):
            rate, of = w["twin"]["rate_mbit"], w["truth"]
            number = "" if rate["value"] is None else f"{rate['value']:.4g}"
            ends = [f"{end:.4g}" if end is not None else "" for end in (rate["low"], rate["high"])]
            seen = {True: "seen", False: "none", None: "cannot tell"}[w["twin"]["others_traffic"]]
            missed = "" if holds(rate, of["rate_mbit"]) else ", missed"
            where = ", live" if row["live"] else ""
            also = ", others" if beside(row, w["way"]) else ""
            sure = (
                f"{w['twin']['family']}, {w['twin']['sure']}" if w["twin"]["sure"] != "cannot tell" else "cannot tell"
            )
            cells = [f"{row['seed']}", f"{row['load']['kind']}{where}", w["way"]]
            cells += [f"{of['kind']} {of['rate_mbit']:.4g} Mbit/s{also}", sure, number]
            cells += [f"{ends[0]} to {ends[1] or 'any'}{missed}", seen]
            lines.append(f"| {' | '.join(cells)} |")
    left = [row for row in rows if "twin" not in row]
    for row in left:
        why = row.get("error") or "; ".join(row["instruments"]["why"])
        lines.append(f"\nSeed {row['seed']} does not count: {why.splitlines()[-1]}.")
    return "\n".join(lines) + "\n"


def missing() -> list[int]:
    """The live paths of which no trusted measurement is kept, those that were never measured first."""
    rows = {seed: KEPT_SHARED / f"{seed}.row" for seed in LIVE}
    known = {seed: json.loads(file.read_text(encoding="utf-8")) for seed, file in rows.items() if file.exists()}
    never = [seed for seed in LIVE if seed not in known]
    return never + [seed for seed, row in known.items() if not row.get("instruments", {}).get("trusted")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, infers and writes the page."""
    parser = argparse.ArgumentParser(prog="python -m validation.twin_shared", description=__doc__)
    parser.add_argument("--only", type=int, help="one simulated seed, as JSON")
    parser.add_argument("--measure", type=positive, metavar="N", help="N live measurements that are missing, no page")
    parser.add_argument("--infer", action="store_true", help="measure nothing")
    args = parser.parse_args(arguments)
    KEPT_SHARED.mkdir(parents=True, exist_ok=True)
    if args.only is not None:
        print(json.dumps(one(args.only), indent=1))
        return 0
    for seed in [] if args.infer else missing()[: args.measure]:
        row = measured_live(seed)
        how = row.get("error") or ("trusted" if row["instruments"]["trusted"] else "; ".join(row["instruments"]["why"]))
        print(f"{seed}: {how}", file=sys.stderr, flush=True)
    if args.measure is not None:
        return 0
    rows = rows_of(one, SIMULATED, jobs=1, keep="shared-simulated", resume=args.infer)
    rows += [inferred_live(seed) for seed in LIVE]
    PAGE.write_text(markdown(rows), encoding="utf-8")
    for c in criteria(rows):
        print(f"{'met    ' if c.met else 'NOT met'}  {c.name}: {c.found} ({c.asked})")
    return int(not all(c.met for c in criteria(rows)))


if __name__ == "__main__":
    sys.exit(main())
