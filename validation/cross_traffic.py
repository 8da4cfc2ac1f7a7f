"""Measures how often cross traffic is detected in simulated measurements, and how often it is
reported where there is none.

Commands:

    python -m validation.cross_traffic             all rows: write evidence/cross-traffic.md
    python -m validation.cross_traffic --paths 4   fewer paths per row; the result is only printed
    python -m validation.cross_traffic --resume    continue an interrupted run

A row has random paths with one kind of cross traffic in the measured direction. Intermittent UDP
has on times and off times of half a period on average. UDP "in step" sends packets that are
synchronized with the ping interval. Cross traffic is detected only from idle pings and from the
drain of the queue, and not by simulations of the path model. The first row therefore evaluates only
these two, on ten times as many paths.

There are two criteria. Cross traffic may be reported on at most 1 % of the paths without any. Cross
traffic in step with the pings may not be missed more often than intermittent traffic with a period
of 100 ms.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path as FilePath

from narrows import path_model
from narrows.errors import NarrowsError
from narrows.json_object import JsonObject
from narrows.measure.simulated import Plan, measure
from narrows.path_model.inference import DRAINS
from narrows.path_model.others import idle_waits, in_idle_pings, of_direction
from narrows.runs.scenario import Flow, Path
from narrows.storage import output
from validation.asked import positive
from validation.path_models import rows_of

PAGE = FilePath(__file__).parent / "evidence/cross-traffic.md"

PATHS, QUIET = 20, 10
"""Number of paths in a row, and factor on this number for the first row."""

PLAN = Plan(streams=4, load_s=8.0, directions=("down",))

KINDS = ("none, pings only", "none", "0.1", "0.3", "1", "3", "in step", "in step, equal intervals")
"""The kind of cross traffic of each row; a number is the mean period of intermittent UDP, in s."""

FALSE = 0.01
"""Maximum share of the paths without cross traffic on which some may be reported."""

FIRST = 20_000
"""Seed of the first path. The seeds of row n (from 0) begin at `FIRST` + 1000 n."""

_PACKET_BYTES = 1400


def drawn(seed: int) -> tuple[Path, Flow | None, Plan]:
    """The path of a seed, its cross traffic, and the load.

    >>> drawn(20_000)[1] is None, drawn(26_000)[2].at_random, drawn(27_000)[2].at_random
    (True, True, False)
    """
    kind, draw = KINDS[(seed - FIRST) // 1000], random.Random(seed)
    rate, rtt = draw.uniform(4, 24), draw.uniform(10, 80)
    queue = draw.choice(("fifo", "fifo", "codel", "fq_codel"))
    buffer = f"{round(draw.uniform(0.8, 3) * max(rtt, 20) * rate / 8e-3)}B"
    path = Path(
        rate=path_model.bits(rate),
        rtt=f"{rtt:.3f}ms",
        queue=queue,
        buffer=buffer if queue == "fifo" else None,
    )
    plan = replace(PLAN, at_random=kind != "in step, equal intervals")
    share = draw.uniform(0.2, 0.6)
    if kind.startswith("none"):
        return path, None, plan
    packet = {"rate": path_model.bits(rate * share), "packet": f"{_PACKET_BYTES}B"}
    if not kind.startswith("in step"):
        half = f"{float(kind) / 2:g}s"
        stream = {"kind": "on_off", **packet, "on": half, "off": half}
        return path, Flow(id="others", workload=stream), plan
    # The integer number of packets per ping interval that is nearest to the share of the rate.
    each = _PACKET_BYTES * 8e-3 / plan.ping_ms
    packet["rate"] = path_model.bits(max(1, round(rate * share / each)) * each)
    return path, Flow(id="others", workload={"kind": "udp", **packet}), plan


def one(seed: int) -> JsonObject:
    """Measures the path of a seed and infers its path model. Returns whether cross traffic is
    reported, and whether the interval of the rate contains the true rate.
    """
    path, others, plan = drawn(seed)
    seen = measure(path, plan, seed=seed, beside=[] if others is None else [others])
    if KINDS[(seed - FIRST) // 1000] == "none, pings only":
        shown = path_model.features_of(seen, "down")
        if shown is None:
            return {"seed": seed, "error": "too few pings"}
        drains = path_model.FAMILIES[str(path.queue)] in DRAINS
        found_ = of_direction(seen, "down", shown, drains=drains, unsteady="")
        waits = in_idle_pings(idle_waits(seen, shown.idle_ms), shown.rate_mbit)
        return {"seed": seed, "seen": waits or found_.seen, "why": found_.why}
    try:
        found = path_model.infer(seen, seed=seed)
    except NarrowsError as error:
        return {"seed": seed, "error": str(error)}
    down = found.directions["down"]
    return {
        "seed": seed,
        "seen": down.others.seen,
        "holds": down.rate.holds(float(str(path.rate).removesuffix("bit")) / 1e6),
        "why": down.others.why,
    }


def rows(paths: int, *, resume: bool) -> dict[str, list[JsonObject]]:
    """The results of all paths, by kind of cross traffic."""
    seeds = {
        kind: range(FIRST + 1000 * at, FIRST + 1000 * at + paths * (1 if at else QUIET))
        for at, kind in enumerate(KINDS)
    }
    every = [seed for kind in KINDS for seed in seeds[kind]]
    found = rows_of(one, every, jobs=1, keep="cross-traffic", resume=resume)
    return {kind: [row for row in found if row["seed"] in seeds[kind]] for kind in KINDS}


def _name(kind: str) -> str:
    return f"intermittent, period {kind} s" if kind[0].isdigit() else kind


def lines(found: dict[str, list[JsonObject]]) -> Iterator[str]:
    """The lines of the page."""
    yield "# Detection of cross traffic in simulated measurements"
    yield ""
    yield (
        "`python -m validation.cross_traffic` writes this page. Each path is measured for 3 s "
        "without load and then for 8 s with four CUBIC flows. A ping is sent at a random time in "
        "each 20 ms. Intermittent UDP uses 20 to 60 % of the link while it is on; its on and off "
        "times are exponentially distributed with a mean of half a period. UDP in step sends a "
        "whole number of packets in each ping interval; the last row has pings of equal "
        "intervals, which other tools send."
    )
    yield ""
    yield (
        "| cross traffic | paths | reported present | unknown | reported absent | rate interval "
        "contains the rate |"
    )
    yield "|---|--:|--:|--:|--:|--:|"
    for kind, every in found.items():
        told = [row for row in every if "error" not in row]
        said = [row["seen"] for row in told]
        cells = [_name(kind), len(told), said.count(True), said.count(None), said.count(False)]
        holds = [row["holds"] for row in told if "holds" in row]
        cells.append(sum(holds) if holds else "")
        yield f"| {' | '.join(str(cell) for cell in cells)} |"


def wrong(found: dict[str, list[JsonObject]]) -> list[str]:
    """A sentence for each criterion that is not met."""

    def share(kind: str, seen: bool) -> float:
        of = [row["seen"] is seen for row in found[kind] if "error" not in row]
        return sum(of) / max(1, len(of))

    out = []
    if (false := share("none, pings only", seen=True)) > FALSE:
        found_ = 100 * false
        out.append(f"cross traffic reported on {found_:.1f} % of the paths without any")
    if share("in step", seen=False) > share("0.1", seen=False):
        out.append("traffic in step with the pings is missed more often than other traffic")
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and writes the page; returns 1 if a criterion is not met."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.cross_traffic",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--paths", type=positive, default=PATHS, help="paths per row")
    parser.add_argument("--resume", action="store_true", help="continue an interrupted run")
    args = parser.parse_args(arguments)
    found = rows(args.paths, resume=args.resume)
    text = "\n".join(lines(found)) + "\n"
    print(text)
    if args.paths >= PATHS:
        output.write(PAGE, text)
    for one_ in wrong(found):
        print(f"NOT met: {one_}")
    return int(bool(wrong(found)))


if __name__ == "__main__":
    sys.exit(main())
