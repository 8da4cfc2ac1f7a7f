"""Measures segments per CPU second and memory, from one flow to ten thousand.

Run by `make bench`.

    python bench/scale.py [--json] [--repeat N] [--cc NAME] [--quick]

Each run is a separate process (`bench/src/bin/scale.rs`), and the CPU time is that of the whole
process. The result is the minimum of several runs, because other load only adds CPU time. Runs of
all set-ups alternate. A round runs every set-up once. A ratio is the median over rounds of the
ratios of two runs of the same round. These runs are seconds apart, because the speed of a machine
may double from one minute to the next.

Segments are counted in two ways. *Delivered* counts each segment that reaches the application once,
and so excludes lost and repeated segments, although they cost time. *Sent* includes every segment
that the engine forwarded or dropped.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess

from common import built, positive, run

SETUPS = (
    (1, "100Mbit", "40ms", "200s"),
    (10, "1Gbit", "20ms", "30s"),
    (100, "1Gbit", "20ms", "30s"),
    (10_000, "10Gbit", "50ms", "10s"),
)
"""The set-ups: number of flows, rate, RTT and virtual time, with some million segments each."""
QUICK = {"200s": "20s", "30s": "3s", "10s": "1s"}
CCS = ("cubic", "bbr")
LIMITS = {10: 1.3, 100: 1.3, 10_000: 2.4}
"""Maximum cost of a segment by number of flows, relative to a single flow."""
BESIDE_CUBIC = 1.4
"""Maximum cost of a segment, relative to CUBIC."""
COUNTS = {"ns_per_segment": "segments", "ns_per_sent": "sent"}
"""The count of segments that the CPU time is divided by, for each result."""


def told(quotient: float | None, limit: float) -> str:
    """A ratio as text, with `!` if it exceeds its limit."""
    return f"{quotient:.2f}" + ("!" if quotient > limit else "") if quotient else ""


def machine() -> dict[str, str]:
    """Names of the processor and the kernel of this machine."""

    def line(path: str, key: str) -> str:
        lines = pathlib.Path(path).read_text().splitlines() if pathlib.Path(path).exists() else []
        return next(
            (text.split(":", 1)[1].strip() for text in lines if text.startswith(key)), "unknown"
        )

    return {
        "cpu": line("/proc/cpuinfo", "model name"),
        "cores": str(os.cpu_count()),
        "kernel": f"{os.uname().sysname} {os.uname().release}",
        "rustc": subprocess.run(
            ["rustc", "--version"], capture_output=True, text=True, check=True
        ).stdout.strip(),
        "load": f"{os.getloadavg()[0]:.1f} when it began",
    }


def measure(ccs: list[str], repeat: int, quick: bool) -> list[dict[str, float | str | int]]:
    """Runs every set-up `repeat` times. Returns the least CPU time of each, and median ratios of
    its cost to those of other set-ups in the same round.
    """
    scale = built("narrows-bench", "bin", "scale")
    known = subprocess.run(
        [scale, "--list"], capture_output=True, text=True, check=True
    ).stdout.split()
    cases = [(cc, *setup) for cc in ccs if cc in known for setup in SETUPS]
    rounds = []
    for _ in range(repeat):
        done = {}
        for cc, flows, rate, rtt, duration in cases:
            done[cc, flows] = run(
                [scale, cc, str(flows), rate, rtt, QUICK[duration] if quick else duration]
            )
            one = done[cc, flows]
            one["sent"] = one["segments"] + one["retransmits"]
            for figure, count in COUNTS.items():
                one[figure] = one["cpu_s"] / one[count] * 1e9
        rounds.append(done)

    def beside(one: tuple[str, int], other: tuple[str, int], figure: str) -> float:
        return statistics.median(done[one][figure] / done[other][figure] for done in rounds)

    rows = []
    for cc, flows, rate, rtt, _ in cases:
        least = min((done[cc, flows] for done in rounds), key=lambda done: done["cpu_s"])
        rows.append({"cc": cc, "flows": flows, "rate": rate, "rtt": rtt, **least})
        rows[-1]["segments_per_cpu_s"] = least["segments"] / least["cpu_s"]
        for figure in COUNTS:
            rows[-1][f"{figure}_beside_one_flow"] = beside((cc, flows), (cc, 1), figure)
            rows[-1][f"{figure}_beside_cubic"] = (
                beside((cc, flows), ("cubic", flows), figure) if "cubic" in ccs else None
            )
    return rows


def main() -> None:
    """Prints the table, or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.add_argument(
        "--repeat", type=positive, default=3, help="runs of each set-up (default: 3)"
    )
    parser.add_argument("--cc", choices=CCS, help="one congestion control only")
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the virtual time: start-up weighs more"
    )
    args = parser.parse_args()
    on = machine()
    rows = measure([args.cc] if args.cc else list(CCS), args.repeat, args.quick)
    if args.json:
        print(json.dumps({"machine": on, "rows": rows}, indent=1))
        return
    print("; ".join(f"{key} {value}" for key, value in on.items()))
    print(f"{'':45}{'delivered':>29}{'sent':>25}")
    print(
        f"{'cc':6} {'flows':>6}  {'path':15} {'segments':>10} {'again':>6} {'M/CPU s':>9} "
        f"{'ns each':>8} "
        f"{'x 1 flow':>9} {'x cubic':>8} {'ns each':>8} {'x 1 flow':>9} {'x cubic':>8} "
        f"{'heap MiB':>9} {'KiB/flow':>9}"
    )
    for row in rows:
        limit = LIMITS.get(row["flows"], float("inf"))
        costs = " ".join(
            f"{row[figure]:8.0f} {told(row[f'{figure}_beside_one_flow'], limit):>9} "
            f"{told(row[f'{figure}_beside_cubic'], BESIDE_CUBIC):>8}"
            for figure in COUNTS
        )
        print(
            f"{row['cc']:6} {row['flows']:6}  {row['rate'] + ', ' + row['rtt']:15} "
            f"{row['segments']:10} "
            f"{100 * row['retransmits'] / row['segments']:5.1f}% "
            f"{row['segments_per_cpu_s'] / 1e6:9.2f} {costs} "
            f"{row['heap_peak_bytes'] / 2**20:9.1f} "
            f"{row['heap_peak_bytes'] / row['flows'] / 2**10:9.1f}"
        )
    print(
        "x 1 flow, x cubic: medians of rounds. again: retransmitted per delivered. M/CPU s: "
        "million delivered. "
        "heap: at its peak, packets in transit and figures included. !: misses its "
        "target of docs/performance.md"
    )


if __name__ == "__main__":
    main()
