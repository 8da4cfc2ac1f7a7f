"""Holds the twin against real packets: 40 paths drawn at random, each emulated between two namespaces of this machine.

    python -m validation.twin_live              40 paths, half an hour: docs/reference/twin-live.md
    python -m validation.twin_live --only 7     one of them, on the terminal
    python -m validation.twin_live --retry      what was stopped goes on; what was not trusted is measured again
    python -m validation.twin_live --infer      from the measurements that are kept in target/twin/live; nothing is sent

The far end runs `narrows serve`, the near end `narrows measure far`, which gets the name and nothing else. TCP is this
kernel's. Runs that the emulator's own instruments do not trust are told and not counted. The intervals are those that
simulated paths gave: whether they hold for real packets is what is tried here.

An emulator in user space delays packets itself, so the path has more of a round trip than was asked for. A referee says
how much: ICMP echoes, which the far kernel answers and this one stamps (`validation.echo`), over the same links while
they are idle, without losses, jitter and policers. The least of them, less the time of its frames, is the truth.
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
from validation.echo import FRAME_BYTES
from validation.stored import HERE, Json
from validation.twin import KEPT, Truth, criteria_of, drawn, ways

PAGE = HERE.parent / "docs/reference/twin-live.md"

TESTED = range(9100, 9140)
FASTEST = 60.0
"""Mbit/s: what a busy machine of two processors emulates without being late itself."""

LOAD, IDLE = "8s", "2s"

KEPT_LIVE = KEPT / "live"
"""Where measurements are kept."""


def path_of(seed: int) -> tuple[nw.Path, Truth]:
    """The first of the seed's paths that is slow enough."""
    draw = random.Random(seed)
    while True:
        path, truth = drawn(draw.randrange(10_000, 10**9))
        if max(truth.down.rate_mbit, truth.up.rate_mbit) <= FASTEST and truth.rtt_ms <= 120:  # noqa: PLR2004
            return path, truth


def measured(seed: int) -> Json:
    """A path measured over real packets, all of it kept; what goes along the path is the near end's `up`."""
    path, truth = path_of(seed)
    row: Json = {"seed": seed, "truth": {"rtt_ms": truth.rtt_ms, "up": asdict(truth.down), "down": asdict(truth.up)}}
    back = path.reverse
    assert back is not None
    KEPT_LIVE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as there:
        scenario, seen = (Path(there) / name for name in ("path.toml", "seen.json"))
        narrows = [sys.executable, "-m", "narrows"]

        def shell(of: nw.Path, *command: str) -> subprocess.CompletedProcess[str]:
            scenario.write_text(nw.Scenario(of, flows=[nw.Flow("cubic")], duration="60s").toml(), encoding="utf-8")
            around = [*narrows, "shell", str(scenario), "--quiet", "--json", str(seen)]
            return subprocess.run(
                [*around, *command], capture_output=True, text=True, check=False, timeout=180, cwd=HERE.parent
            )

        plain = nw.Path(rtt=path.rtt, rate=path.rate, reverse=nw.Hop(rate=back.rate))
        done = shell(plain, "--", sys.executable, "-m", "validation.echo", "far")
        if not done.returncode:
            row["echo_ms"] = json.loads(done.stdout)
            done = shell(
                path, "--far", f"{HOST} serve", "--",
                *narrows, "measure", "far", "--cc", "cubic", "--duration", LOAD, "--idle", IDLE, "--quiet",
                "--no-history", "--no-twin", "--out", str(_kept(seed, "json")),
            )  # fmt: skip
        if done.returncode:
            row["error"] = done.stderr.strip()
        else:
            told = json.loads(seen.read_text(encoding="utf-8"))["instruments"]
            row["instruments"] = {"trusted": told["trusted"], "why": told["why"]}
    _kept(seed, "row").write_text(json.dumps(row) + "\n", encoding="utf-8")
    return row


def _kept(seed: int, what: str) -> Path:
    return KEPT_LIVE / f"{seed}.{what}"


def known(seed: int) -> Json | None:
    """What is kept of a path that was measured."""
    file = _kept(seed, "row")
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def inferred(row: Json) -> Json:
    """What a measurement that is kept comes to, beside what the referee says."""
    if "error" in row:
        return row
    path, _ = path_of(row["seed"])
    mbit = [float(hop.rate.removesuffix("bit")) / 1e6 for hop in (path, path.reverse) if hop and hop.rate]
    asked = row["truth"]["rtt_ms"]
    found = min(row["echo_ms"]) - sum(FRAME_BYTES * 8e-3 / rate for rate in mbit)
    row = row | {"truth": row["truth"] | {"rtt_ms": found}, "asked_ms": asked}
    try:
        return row | {"twin": twin.infer(files.read(_kept(row["seed"], "json")), seed=row["seed"]).json()}
    except NarrowsError as error:
        return row | {"error": str(error)}


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
        "## Each way", "",
        "| seed | way | truth | twin | rate off by | its interval | buffer off by | its interval |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for w in ways(good):
        truth = f"{w['truth']['kind']} {w['truth']['rate_mbit']:.3g} Mbit/s, loss {100 * w['truth']['loss']:.2g} %"
        rate = _off(w["twin"]["rate_mbit"], w["truth"]["rate_mbit"])
        depth = _off(w["twin"]["buffer_bytes"], w["truth"]["depth_bytes"])
        lines.append(
            f"| {w['seed']} | {w['way']} | {truth} | {w['twin']['family']}, {w['twin']['sure']} | {rate} | {depth} |"
        )
    lines += [
        "", "## Base round trips", "",
        "An emulator in user space delays packets itself. The path is what ICMP echoes found, which the far kernel",
        "answered: the least of 200 over the same links while they were idle, less the time of its frames.", "",
        "| seed | asked for, ms | the path, ms | twin, ms | its interval |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for row in good:
        rtt, true = row["twin"]["rtt_ms"], row["truth"]["rtt_ms"]
        holds = "" if rtt["low"] <= true <= rtt["high"] else ", missed"
        lines.append(
            f"| {row['seed']} | {row['asked_ms']:.3f} | {true:.3f} | {rtt['value']:.3f} "
            f"| {rtt['low']:.3f} to {rtt['high']:.3f}{holds} |"
        )
    lines += [f"\nSeed {row['seed']} failed: {row['error'].splitlines()[0]}." for row in failed]
    return "\n".join(lines) + "\n"


def _off(told: Json, true: float | None) -> str:
    """How far off a figure is, and its interval, as two cells."""
    if true is None or told["value"] is None:
        return "| "
    off = f"{100 * (told['value'] / true - 1):+.1f} %"
    if told["low"] is None or told["high"] is None:
        return f"{off} | "
    low, high = (100 * (told[end] / true - 1) for end in ("low", "high"))
    return f"{off} | {low:+.1f} to {high:+.1f} %{'' if low <= 0 <= high else ', missed'}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and writes the page."""
    parser = argparse.ArgumentParser(prog="python -m validation.twin_live", description=__doc__)
    parser.add_argument("--only", type=int, help="one seed")
    parser.add_argument("--seeds", help="others than the page's, as 9000-9039: nothing is written but what is found")
    parser.add_argument("--retry", action="store_true", help="measure only what is not kept, or was not trusted")
    parser.add_argument("--infer", action="store_true", help="measure nothing")
    args = parser.parse_args(arguments)
    if args.only is not None:
        print(json.dumps(inferred(measured(args.only)), indent=1))
        return 0
    seeds = TESTED
    if args.seeds:
        first, last = map(int, args.seeds.split("-"))
        seeds = range(first, last + 1)
    rows = []
    for n, seed in enumerate(seeds):
        row = known(seed) if args.retry or args.infer else None
        if not args.infer and (row is None or not row.get("instruments", {}).get("trusted")):
            row = measured(seed)
        rows += [inferred(row)] if row else []
        print(f"{n + 1}/{len(seeds)}", end="\r", file=sys.stderr, flush=True)
    if not args.seeds:
        PAGE.write_text(markdown(rows), encoding="utf-8")
    found = criteria_of([row for row in rows if "twin" in row and row["instruments"]["trusted"]])
    for c in found:
        print(f"{'met    ' if c.met else 'NOT met'}  {c.name}: {c.found} ({c.asked})")
    return int(not all(c.met for c in found))


if __name__ == "__main__":
    sys.exit(main())
