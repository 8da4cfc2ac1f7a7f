"""Published paths whose round trips vary by microseconds, as those of real machines do: what becomes of BBR?

    python -m validation.published_jitter          the table of evidence/published-jitter.md

In virtual time a round trip is the same to the microsecond as long as no queue stands. Here the way behind the queue
varies, normally distributed with a spread that is named, in order. How much the machines of the testbed varied is not
published, so nothing of this is in the set-up of the maps.
"""

from __future__ import annotations

import argparse

from narrows._parallel import everywhere
from narrows.published import Cell, cells, received_mbit, sent_again
from narrows.runs import Progress, run
from narrows.scenario import from_tree

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

Job = tuple[Cell, str | None, int]


def play(job: Job, keep_on: Progress) -> tuple[float, int]:
    """Goodput of one run, and what it sent again."""
    cell, spread, seed = job
    tree = dict(cell.scenario().tree())
    if spread is not None:
        tree["path"] = {**tree["path"], "delay_forward": "1ms", "jitter": {"kind": "normal", "spread": spread}}
    run_ = run(from_tree(tree), seed=seed, sample_interval="1s", progress=keep_on)
    return received_mbit(run_.flows[0]["series"], cell.rtt_ms), sent_again(run_.samples, cell.rtt_ms)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, help="at once (default: one a core)")
    args = parser.parse_args()
    odd = [
        cell
        for (kernel, cc, kib), places in ODD.items()
        for cell in cells(cc, kernel)
        if cell.buffer_kib == kib and (cell.rate_mbit, cell.rtt_ms) in places
    ]
    todo = [(cell, spread, seed) for cell in odd for spread in SPREADS for seed in range(1, SEEDS + 1)]
    found = everywhere(todo, play, cost=lambda job: job[0].rate_mbit, jobs=args.jobs)
    got = dict(zip(todo, found, strict=True))
    print(
        "| cell | figure | published |", *("none |" if s is None else f"{s.removesuffix('us')} µs |" for s in SPREADS)
    )
    print("|---|---|---|" + "---|" * len(SPREADS))
    for cell in odd:
        name = f"{cell.kernel}-{cell.cc}-{cell.buffer_kib}-{cell.rate_mbit}-{cell.rtt_ms}"
        runs = {s: [got[cell, s, seed] for seed in range(1, SEEDS + 1)] for s in SPREADS}
        goodputs = (", ".join(f"{g:.4g}" for g, _ in sorted(r)) for r in runs.values())
        again = (", ".join(str(n) for n in sorted(n for _, n in r)) for r in runs.values())
        print(f"| `{name}` | goodput, Mbit/s | {cell.goodput_mbit} | {' | '.join(goodputs)} |")
        print(f"| | sent again | {cell.retransmits} | {' | '.join(again)} |")


if __name__ == "__main__":
    main()
