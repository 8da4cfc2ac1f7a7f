"""Holds the twin against real packets: 40 paths drawn at random, each emulated between two namespaces of this machine.

    python -m validation.twin_live           40 paths, a quarter of an hour: docs/reference/twin-live.md
    python -m validation.twin_live --only 7  one of them, on the terminal

The far end runs `narrows serve`, the near end `narrows measure far`, which gets the name and nothing else. TCP is this
kernel's. Runs that the emulator's own instruments do not trust are told and not counted. The intervals are those that
simulated paths gave: whether they hold for real packets is what is tried here.
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

import narrows as nw
from narrows import files, twin
from narrows.errors import NarrowsError
from narrows.live import HOST
from validation.stored import HERE, Json
from validation.twin import KEPT, Truth, criteria_of, drawn, ways

PAGE = HERE.parent / "docs/reference/twin-live.md"

TESTED = range(9000, 9040)
FASTEST = 60.0
"""Mbit/s: what a busy machine of two processors emulates without being late itself."""

LOAD, IDLE = "8s", "2s"


def path_of(seed: int) -> tuple[nw.Path, Truth]:
    """The first of the seed's paths that is slow enough."""
    draw = random.Random(seed)
    while True:
        path, truth = drawn(draw.randrange(10_000, 10**9))
        if max(truth.down.rate_mbit, truth.up.rate_mbit) <= FASTEST and truth.rtt_ms <= 120:  # noqa: PLR2004
            return path, truth


def one(seed: int) -> Json:
    """A path measured over real packets; what goes along the path is the near end's `up`."""
    path, truth = path_of(seed)
    row: Json = {"seed": seed, "truth": {"rtt_ms": truth.rtt_ms, "up": asdict(truth.down), "down": asdict(truth.up)}}
    with tempfile.TemporaryDirectory() as there:
        scenario, seen, made = (Path(there) / name for name in ("path.toml", "seen.json", "m.json"))
        scenario.write_text(nw.Scenario(path, flows=[nw.Flow("cubic")], duration="60s").toml(), encoding="utf-8")
        narrows = [sys.executable, "-m", "narrows"]
        command = [
            *narrows, "shell", str(scenario), "--quiet", "--json", str(seen), "--far", f"{HOST} serve", "--",
            *narrows, "measure", "far", "--cc", "cubic", "--duration", LOAD, "--idle", IDLE, "--quiet", "--no-history",
            "--no-twin", "--out", str(made),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
        if done.returncode:
            return row | {"error": done.stderr.strip()}
        told = json.loads(seen.read_text(encoding="utf-8"))["instruments"]
        row["instruments"] = {"trusted": told["trusted"], "why": told["why"]}
        try:
            row["twin"] = twin.infer(files.read(made), seed=seed).json()
        except NarrowsError as error:
            row["error"] = str(error)
    return row


def markdown(rows: Sequence[Json]) -> str:
    """The page."""
    good = [row for row in rows if "twin" in row and row["instruments"]["trusted"]]
    late = sum("twin" in row and not row["instruments"]["trusted"] for row in rows)
    failed = [row for row in rows if "error" in row]
    lines = [
        "# How near the twin is over real packets", "",
        f"{len(rows)} paths drawn at random, up to {FASTEST:g} Mbit/s and 120 ms, each emulated between two",
        "namespaces; `narrows measure far` got a name and nothing else, and this kernel's CUBIC loaded the path.",
        f"{len(good)} runs count; {late} more were not trusted by the emulator's own instruments, and {len(failed)}",
        "failed.",
        "Written by `python -m validation.twin_live`.", "",
        "| what | asked | found | |", "|---|---|---|---|",
        *(f"| {c.name} | {c.asked} | {c.found} | {'met' if c.met else 'NOT met'} |" for c in criteria_of(good)), "",
        "## Each of them", "",
        "| seed | way | truth | twin | rate off by |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for w in ways(good):
        off = 100 * (w["twin"]["rate_mbit"]["value"] / w["truth"]["rate_mbit"] - 1)
        truth = f"{w['truth']['kind']} {w['truth']['rate_mbit']:.3g} Mbit/s, loss {100 * w['truth']['loss']:.2g} %"
        lines.append(
            f"| {w['seed']} | {w['way']} | {truth} | {w['twin']['family']}, {w['twin']['sure']} | {off:+.1f} % |"
        )
    lines += [f"\nSeed {row['seed']} failed: {row['error'].splitlines()[0]}." for row in failed]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and writes the page."""
    parser = argparse.ArgumentParser(prog="python -m validation.twin_live", description=__doc__)
    parser.add_argument("--only", type=int, help="one seed")
    parser.add_argument("--first", type=int, default=len(TESTED), help="only so many of the paths")
    parser.add_argument("--resume", action="store_true", help="leave out what is kept from a run that was stopped")
    args = parser.parse_args(arguments)
    if args.only is not None:
        print(json.dumps(one(args.only), indent=1))
        return 0
    KEPT.mkdir(parents=True, exist_ok=True)
    kept = KEPT / "live.jsonl"
    if not args.resume:
        kept.unlink(missing_ok=True)
    lines = kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []
    known = {row["seed"]: row for line in lines if (row := json.loads(line))}
    seeds = TESTED[: args.first]
    for seed in seeds:
        if seed not in known:
            known[seed] = one(seed)
            with kept.open("a", encoding="utf-8") as sink:
                sink.write(json.dumps(known[seed]) + "\n")
            print(f"{len(known)}/{len(seeds)}", end="\r", file=sys.stderr, flush=True)
    rows = [known[seed] for seed in seeds]
    PAGE.write_text(markdown(rows), encoding="utf-8")
    found = criteria_of([row for row in rows if "twin" in row and row["instruments"]["trusted"]])
    for c in found:
        print(f"{'met    ' if c.met else 'NOT met'}  {c.name}: {c.found} ({c.asked})")
    return int(not all(c.met for c in found))


if __name__ == "__main__":
    sys.exit(main())
