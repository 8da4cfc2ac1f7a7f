"""Shows why BBR's share beside CUBIC in a deep buffer depends on the start of BBR.

    python -m validation.share_starts --record    records runs of the engine linux
    python -m validation.share_starts             runs narrows and writes the page

The path is that of `validation.share_model` with a buffer of 64 BDP, and CUBIC starts first. The
first command needs a kernel (`narrows kernel build 6.12`). It writes rows of
`evidence/share-starts-linux-6.12.csv` and continues after an interruption. The second one writes
`evidence/share-starts.md`.
"""

from __future__ import annotations

import argparse
import csv
import sys
from textwrap import fill

import narrows as nw
from narrows.json_object import JsonObject
from narrows.runs.parallel import everywhere
from narrows.runs.run import Engine, Progress, run
from narrows.runs.scenario import Flow, Path, Scenario
from validation.share_model import MBIT, RTT_MS, TEST_S, share_between
from validation.stored import HERE

DATA = HERE / "evidence/share-starts-linux-6.12.csv"
EVIDENCE = HERE / "evidence/share-starts.md"
KERNEL = "6.12"
BUFFER = "64bdp"
INTERVAL_S = 0.1

STARTS_S = (
    9.0, 9.2, 9.4, 9.5, 9.6, 9.7, 9.8, 9.9, 10.0, 10.005, 10.011, 10.017, 10.031, 10.1, 10.2, 10.3,
    10.4, 10.6, 10.8, 11.0,
)  # fmt: skip
"""Starts of BBR in s; CUBIC starts at 0. Four of them are those of `validation.share_model`."""

RECORDED_S = (10.031, 10.011, 10.005, 10.017, 9.5, 10.8, 9.7, 10.3, 11.0, 10.6, 9.8, 9.9)
"""Starts of the runs of Linux, in the order of their recording."""

DECIDED_S = 34.0
"""Time in s at which it is decided whether BBR is in Startup."""

FINDING = (
    "BBR has about 30 % if it is still in Startup after 34 s, and otherwise 6 to 14 %. BBR's "
    "first ProbeRTT begins 10 s after its first RTT samples. With a start near 10 s, CUBIC fills "
    "the buffer for the first time during this ProbeRTT. A loss then finds a window of four "
    "packets, and the retransmission waits until fewer are in flight. If the retransmission "
    "timeout expires first, BBR discards its estimate of the full bandwidth (`bbr_set_state` of "
    "Linux), and stays in Startup. Linux on the same path is in the same state as narrows in "
    "{same} of {runs} starts. Both have starts of both kinds. The runs of Linux in "
    "[share-model.md](share-model.md) have a token bucket of two packets. There, CUBIC leaves "
    "slow start with 96 packets instead of 59, and has a window of 499 packets instead of 464 "
    "when BBR starts. All their starts are within 26 ms. The difference between 10.6 and 26.1 % "
    "is therefore one of starts and paths."
)


def scenario(start_s: float, duration_s: float) -> Scenario:
    """The run in which BBR starts at `start_s`."""
    flows = [Flow("bbr", id="bbr", start=f"{start_s}s"), Flow("cubic", id="cubic")]
    path = Path(rate=f"{MBIT}Mbit", rtt=f"{RTT_MS}ms", buffer=BUFFER)
    return Scenario(path, flows=flows, duration=f"{duration_s}s", start_jitter="0s")


def startup_s(done: nw.Run) -> float | None:
    """Time of the last sample in which BBR is in Startup, in s; None if it is in Startup at
    `DECIDED_S`.
    """
    states = done.state("bbr")
    columns = (states.column(name).to_pylist() for name in ("t_s", "mode"))
    last = max(t for t, mode in zip(*columns, strict=True) if mode == "startup" and t <= DECIDED_S)
    return None if last > DECIDED_S - 2 * INTERVAL_S else last


def ran(start_s: float, duration_s: float, engine: Engine, keep_on: Progress | None) -> nw.Run:
    """A run with samples of BBR's state."""
    options: JsonObject = {} if engine == "sim" else {"kernel": KERNEL}
    wanted = scenario(start_s, duration_s)
    interval = f"{INTERVAL_S}s"
    return run(
        wanted, engine=engine, sample_interval=interval, states=True, progress=keep_on, **options
    )


def simulated(start_s: float, keep_on: Progress) -> tuple[float | None, float]:
    """End of BBR's Startup in s, and its share in four minutes in %."""
    done = ran(start_s, start_s + TEST_S, "sim", keep_on)
    names = ("t_s", "flow", "delivered_bytes")
    columns = (done.samples.column(name).to_pylist() for name in names)
    return startup_s(done), share_between(zip(*columns, strict=True), start_s, start_s + TEST_S)


def recorded() -> dict[float, float | None]:
    """End of BBR's Startup in Linux in s, by start."""
    if not DATA.exists():
        return {}
    lines = DATA.read_text(encoding="utf-8").splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return {
        float(row["start_s"]): float(row["startup_s"]) if row["startup_s"] else None for row in rows
    }


def store_run(start_s: float, found_s: float | None) -> None:
    """Adds a run of Linux to the file."""
    if not DATA.exists():
        head = "# End of BBR's Startup in Linux 6.12 in virtual time, in s;\n"
        DATA.write_text(f"{head}# see validation/share_starts.py.\nstart_s,startup_s\n")
    with DATA.open("a", encoding="utf-8") as file:
        file.write(f"{start_s:g},{'' if found_s is None else format(found_s, '.1f')}\n")


def time_text(found_s: float | None) -> str:
    """A time in words."""
    return f"after {DECIDED_S:.0f}" if found_s is None else f"{found_s:.1f}"


def page(linux: dict[float, float | None], ours: dict[float, tuple[float | None, float]]) -> str:
    """The page of evidence."""
    rows = [
        f"| {start:g} | {share:.1f} | {time_text(at)} | "
        f"{time_text(linux[start]) if start in linux else ''} |"
        for start, (at, share) in ours.items()
    ]
    same = sum((linux[start] is None) == (ours[start][0] is None) for start in linux)
    lines = [
        "# Experiment: BBR's share and its start in a deep buffer",
        "",
        "Written by",
        "",
        "```console",
        "$ python -m validation.share_starts --record",
        "$ python -m validation.share_starts",
        "```",
        "",
        "The first command writes [the runs of Linux](share-starts-linux-6.12.csv), with the",
        "engine `linux` on the same path. An empty cell has no such run.",
        "",
        *fill(FINDING.format(same=same, runs=len(linux)), 100).splitlines(),
        "",
        "| start of BBR, s | share in narrows, % | Startup ends in narrows, s | in Linux, s |",
        "|---|---|---|---|",
        *rows,
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Records runs or writes the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--record", action="store_true", help="record runs of the engine linux")
    args = parser.parse_args()
    if args.record:
        for start_s in RECORDED_S:
            if start_s not in recorded():
                store_run(start_s, startup_s(ran(start_s, DECIDED_S, "linux", None)))
                print(start_s, time_text(recorded()[start_s]), flush=True)
        return 0
    found = dict(
        zip(STARTS_S, everywhere(STARTS_S, simulated, cost=lambda start_s: start_s), strict=True)
    )
    EVIDENCE.write_text(page(recorded(), found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
