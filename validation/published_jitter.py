"""Runs BBR, BBRv2 and CUBIC over published paths with RTTs that vary by microseconds, as on real
machines.

    python -m validation.published_jitter    the tables of evidence/published-jitter.md

In virtual time the RTT of a path without a queue is constant to the microsecond. Here the delay
behind the queue varies, with a normal distribution of a given spread and without reordering. The
variation of the testbed's machines is not published, so the maps of `validation.papers` have none.
Three other properties are not published either:

- The delay that the machines add to the configured RTT. The runs of the second table have longer
  RTTs.
- The number of segments that cross the path as one unit. It is the number of segments of a
  super-packet if nothing splits the super-packet. Otherwise it is the number that the router merges
  again on reception. The units in the third table have fewer segments.
- The number of ACKs that report losses. BBRv2 leaves Startup when enough ACKs of a round trip
  report losses, and segments lost as one unit are reported by one ACK. In the fourth table, fewer
  ACKs suffice.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from narrows.reproduce.published import Cell, cells, received_mbit, retransmits_at_end
from narrows.runs.parallel import everywhere
from narrows.runs.run import Progress, run
from narrows.runs.scenario import from_tree
from validation.asked import positive

SPREADS = (None, "10us", "50us", "200us", "500us")
SEEDS = 3

ODD = {
    ("4.15", "cubic", 100): (
        (500, 75),
        *((750, ms) for ms in (5, 75, 100)),
        *((1000, ms) for ms in (5, 75, 100, 200)),
    ),
    ("4.15", "cubic", 10000): ((10, 50),),
    ("5.15", "cubic", 100): (
        *((250, ms) for ms in (150, 200)),
        *((500, ms) for ms in (75, 100, 150, 200)),
        *((750, ms) for ms in (10, 25, 50, 75, 100)),
        *((1000, ms) for ms in (5, 10, 25, 50, 75, 200)),
    ),
    ("4.15", "bbr", 100): (
        *((rate, 200) for rate in (50, 100, 250, 500, 750, 1000)),
        *(
            (1000, 150),
            (10, 75),
            (50, 10),
            (50, 25),
            (250, 5),
            (750, 5),
            (750, 25),
            (1000, 5),
            (1000, 10),
        ),
    ),
    ("4.15", "bbr", 10000): ((500, 150),),
    ("5.15", "bbr", 100): ((50, 10), (50, 25), (750, 10), (1000, 5)),
    ("5.15", "bbr", 10000): ((750, 100),),
    ("5.13.12", "bbr2", 100): ((250, 5), (250, 10), (500, 5), (750, 5), (1000, 5)),
}
"""Cells that disagree if the RTT does not vary. Keys are Linux release, congestion control and
buffer in KiB; values are rate in Mbit/s and RTT in ms.
"""

LONGER_MS = (0, 0.5, 1, 1.5, 2, 3)
STEPS = {
    ("4.15", "bbr", 100): ((10, 75), (50, 10)),
    ("4.15", "cubic", 10000): ((10, 50),),
    ("5.13.12", "bbr2", 100): ((250, 10),),
}
"""Cells in which a variation of the RTT has no effect, and one in which any variation has an
effect.
"""

PIECES = (None, "32p", "24p", "17p", "12p", "8p", "4p")
PIECED = {("5.13.12", "bbr2", 100): ((250, 5), (250, 10), (500, 5))}
"""Cells whose losses depend on the number of segments that are lost as one unit."""

ENOUGH = (8, 6, 5, 4, 3, 2)
"""Number of ACKs with reports of losses in one round trip after which BBRv2 leaves Startup; it is 8
in Linux.
"""

Places = Mapping[tuple[str, str, int], Sequence[tuple[int, int]]]


@dataclass(frozen=True)
class Job:
    """One run: a cell, and the properties in which the run differs from the map."""

    cell: Cell
    seed: int = 1
    spread: str | None = None
    longer_ms: float = 0
    pieces: str | None = None
    enough: int | None = None


def play(job: Job, keep_on: Progress) -> tuple[float, int]:
    """The goodput of one run, in Mbit/s, and its number of retransmits."""
    tree = dict(job.cell.scenario().tree())
    rtt_ms = job.cell.rtt_ms + job.longer_ms
    tree["path"] = {**tree["path"], "rtt": f"{rtt_ms}ms"}
    if job.spread is not None:
        tree["path"] = {
            **tree["path"],
            "delay_forward": "1ms",
            "jitter": {"kind": "normal", "spread": job.spread},
        }
    if job.pieces is not None:
        tree["host"] = {**tree["host"], "gso": job.pieces}
    if job.enough is not None:
        tree["flow"] = [
            {**flow, "cc": {"kind": flow["cc"], "startup_losses": job.enough}}
            for flow in tree["flow"]
        ]
    run_ = run(from_tree(tree), seed=job.seed, sample_interval="1s", progress=keep_on)
    return received_mbit(run_.flows[0]["series"], rtt_ms), retransmits_at_end(run_.samples, rtt_ms)


def cells_at(places: Places) -> list[Cell]:
    """The cells with these rates and RTTs."""
    return [
        cell
        for (kernel, cc, kib), where in places.items()
        for cell in cells(cc, kernel)
        if cell.buffer_kib == kib and (cell.rate_mbit, cell.rtt_ms) in where
    ]


def name(cell: Cell) -> str:
    """The name of a cell in the report."""
    return f"{cell.kernel}-{cell.cc}-{cell.buffer_kib}-{cell.rate_mbit}-{cell.rtt_ms}"


def goodputs(runs: Sequence[tuple[float, int]]) -> str:
    """The goodputs of runs, in Mbit/s, sorted."""
    return ", ".join(f"{mbit:.4g}" for mbit in sorted(mbit for mbit, _ in runs))


def retransmits(runs: Sequence[tuple[float, int]]) -> str:
    """The numbers of retransmits of runs, sorted."""
    return ", ".join(str(n) for n in sorted(n for _, n in runs))


def table(first: str, others: Sequence[str]) -> None:
    """Prints the heading of a table with the columns `first` and `others`."""
    row(f"cell | {first}", others)
    print("|---" * (2 + first.count("|") + len(others)) + "|")


def row(first: str, others: Sequence[str]) -> None:
    """Prints a row of a table."""
    print(f"| {first} | {' | '.join(others)} |")


def print_cell(cell: Cell, columns: Sequence[Sequence[tuple[float, int]]]) -> None:
    """Prints two rows for a cell: its goodputs and its retransmits."""
    row(
        f"`{name(cell)}` | goodput, Mbit/s | {cell.goodput_mbit}",
        [goodputs(runs) for runs in columns],
    )
    row(f"| retransmits | {cell.retransmits}", [retransmits(runs) for runs in columns])


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--jobs", type=positive, help="number of parallel processes [default: one per core]"
    )
    args = parser.parse_args()
    odd, steps, pieced = cells_at(ODD), cells_at(STEPS), cells_at(PIECED)
    seeds = range(1, SEEDS + 1)
    todo = [Job(cell, seed, spread=spread) for cell in odd for spread in SPREADS for seed in seeds]
    todo += [
        Job(cell, seed, longer_ms=longer)
        for cell in steps
        for longer in LONGER_MS[1:]
        for seed in seeds
    ]
    todo += [
        Job(cell, seed, pieces=pieces) for cell in pieced for pieces in PIECES[1:] for seed in seeds
    ]
    todo += [
        Job(cell, seed, enough=enough) for cell in pieced for enough in ENOUGH for seed in seeds
    ]
    found = everywhere(todo, play, cost=lambda job: job.cell.rate_mbit, jobs=args.jobs)
    got = dict(zip(todo, found, strict=True))

    def runs(job: Job) -> list[tuple[float, int]]:
        return [got[replace(job, seed=seed)] for seed in seeds]

    table(
        "metric | published",
        ["none" if s is None else f"{s.removesuffix('us')} µs" for s in SPREADS],
    )
    for cell in odd:
        print_cell(cell, [runs(Job(cell, spread=spread)) for spread in SPREADS])
    print()
    table("metric | published", [f"{longer:g} ms longer" for longer in LONGER_MS])
    for cell in steps:
        print_cell(cell, [runs(Job(cell, longer_ms=longer)) for longer in LONGER_MS])
    print()
    table(
        "retransmits, published",
        ["default", *(f"{p.removesuffix('p')} segments" for p in PIECES if p)],
    )
    for cell in pieced:
        row(
            f"`{name(cell)}` | {cell.retransmits}",
            [retransmits(runs(Job(cell, pieces=pieces))) for pieces in PIECES],
        )
    print()
    table("retransmits, published", [f"{enough} ACKs" for enough in ENOUGH])
    for cell in pieced:
        row(
            f"`{name(cell)}` | {cell.retransmits}",
            [retransmits(runs(Job(cell, enough=enough))) for enough in ENOUGH],
        )


if __name__ == "__main__":
    main()
