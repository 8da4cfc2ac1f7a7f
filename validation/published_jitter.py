"""Published paths whose round trips vary by microseconds, as those of real machines do: what becomes of BBR?

    python -m validation.published_jitter          the tables of evidence/published-jitter.md

In virtual time a round trip is the same to the microsecond as long as no queue stands. Here the way behind the queue
varies, normally distributed with a spread that is named, in order. How much the machines of the testbed varied is not
published, so nothing of this is in the set-up of the maps. Nor is what they add to the round trip that was asked for:
the second table has some cells with longer ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from narrows._parallel import everywhere
from narrows.published import Cell, cells, received_mbit, sent_again
from narrows.runs import Progress, run
from narrows.scenario import from_tree
from validation.asked import positive

SPREADS = (None, "10us", "50us", "200us", "500us")
SEEDS = 3

ODD = {
    ("4.15", "bbr", 100): (
        *((rate, 200) for rate in (50, 100, 250, 500, 750, 1000)),
        *((1000, 150), (10, 75), (50, 10), (50, 25), (250, 5), (750, 5), (750, 25), (1000, 5), (1000, 10)),
    ),
    ("4.15", "bbr", 10000): ((500, 150),),
    ("5.15", "bbr", 100): ((50, 10), (50, 25), (750, 10), (1000, 5)),
    ("5.15", "bbr", 10000): ((750, 100),),
    ("5.13.12", "bbr2", 100): ((250, 5), (250, 10), (500, 5), (750, 5), (1000, 5)),
}
"""Cells that disagree without it, by Linux, congestion control and buffer in KB: Mbit/s, ms."""

LONGER_MS = (0, 0.5, 1, 1.5, 2, 3)
STEPS = {("4.15", "bbr", 100): ((10, 75), (50, 10)), ("5.13.12", "bbr2", 100): ((250, 10),)}
"""Cells on which no spread tells."""

Places = Mapping[tuple[str, str, int], Sequence[tuple[int, int]]]
Job = tuple[Cell, str | None, float, int]


def play(job: Job, keep_on: Progress) -> tuple[float, int]:
    """Goodput of one run, and what it sent again."""
    cell, spread, longer_ms, seed = job
    tree = dict(cell.scenario().tree())
    tree["path"] = {**tree["path"], "rtt": f"{cell.rtt_ms + longer_ms}ms"}
    if spread is not None:
        tree["path"] = {**tree["path"], "delay_forward": "1ms", "jitter": {"kind": "normal", "spread": spread}}
    run_ = run(from_tree(tree), seed=seed, sample_interval="1s", progress=keep_on)
    rtt_ms = cell.rtt_ms + longer_ms
    return received_mbit(run_.flows[0]["series"], rtt_ms), sent_again(run_.samples, rtt_ms)


def among(places: Places) -> list[Cell]:
    """The cells at these places."""
    return [
        cell
        for (kernel, cc, kib), where in places.items()
        for cell in cells(cc, kernel)
        if cell.buffer_kib == kib and (cell.rate_mbit, cell.rtt_ms) in where
    ]


def name(cell: Cell) -> str:
    """What the report calls it."""
    return f"{cell.kernel}-{cell.cc}-{cell.buffer_kib}-{cell.rate_mbit}-{cell.rtt_ms}"


def again(runs: Sequence[tuple[float, int]]) -> str:
    """What runs sent again, sorted."""
    return ", ".join(str(n) for n in sorted(n for _, n in runs))


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=positive, help="at once (default: one a core)")
    args = parser.parse_args()
    odd, steps, seeds = among(ODD), among(STEPS), range(1, SEEDS + 1)
    todo: list[Job] = [(cell, spread, 0, seed) for cell in odd for spread in SPREADS for seed in seeds]
    todo += [(cell, None, longer, seed) for cell in steps for longer in LONGER_MS[1:] for seed in seeds]
    found = everywhere(todo, play, cost=lambda job: job[0].rate_mbit, jobs=args.jobs)
    got = dict(zip(todo, found, strict=True))

    heads = ("none |" if s is None else f"{s.removesuffix('us')} µs |" for s in SPREADS)
    print("| cell | figure | published |", *heads)
    print("|---|---|---|" + "---|" * len(SPREADS))
    for cell in odd:
        by_spread = [[got[cell, spread, 0, seed] for seed in seeds] for spread in SPREADS]
        goodputs = (", ".join(f"{g:.4g}" for g, _ in sorted(runs)) for runs in by_spread)
        print(f"| `{name(cell)}` | goodput, Mbit/s | {cell.goodput_mbit} | {' | '.join(goodputs)} |")
        print(f"| | sent again | {cell.retransmits} | {' | '.join(map(again, by_spread))} |")
    print()
    print("| cell | sent again, published |", *(f"{longer:g} ms longer |" for longer in LONGER_MS))
    print("|---|---|" + "---|" * len(LONGER_MS))
    for cell in steps:
        by_ms = [[got[cell, None, longer, seed] for seed in seeds] for longer in LONGER_MS]
        print(f"| `{name(cell)}` | {cell.retransmits} | {' | '.join(map(again, by_ms))} |")


if __name__ == "__main__":
    main()
