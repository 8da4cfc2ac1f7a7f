"""Records results of congestion controls with real packets, for `validation.advise`.

    python -m validation.advise_live 0 1 2 3    paths 0 to 3, half a minute each

writes rows of validation/advise-live.csv. The paths are random: 2 to 8 Mbit/s, RTT 10 to 80 ms,
buffer 0.3 to 6 BDP. Half of them have 0.1 to 2 % of random loss. TCP is that of this kernel. The
live engine emulates the path between two namespaces of this machine. CUBIC, BBR and Reno each run
alone with a ping every 20 ms, and in competition with a CUBIC flow. All runs of a path are
simultaneous, so the machine must be idle otherwise. If the self-check of a run fails, the program
reports the path and does not store it.
"""

from __future__ import annotations

import argparse
import csv
import math
import random
import sys
from concurrent.futures import ThreadPoolExecutor

import narrows as nw
from narrows.advise.trial import figures
from narrows.errors import NarrowsError
from narrows.json_object import JsonObject
from validation.stored import HERE

DATA = HERE / "advise-live.csv"

HEADER = (
    "# This kernel's own TCP over the live engine, 30 s, 6 s of warm-up; see "
    "validation/advise_live.py."
)

COLUMNS = ("path", "rate_mbit", "rtt_ms", "buffer_bytes", "loss", "run", "cc")
FIGURES = ("goodput_mbit", "p95_ms", "again_pct", "beside_mbit", "rival_mbit")

CCS = ("cubic", "bbr", "reno")
RIVAL = "cubic"
SECONDS, PING_MS = 30, 20
LOSSY = 0.5


def drawn(number: int) -> dict[str, float]:
    """The parameters of the path with this number.

    >>> drawn(0) == drawn(0)
    True
    """
    draw = random.Random(number)

    def log(low: float, high: float) -> float:
        return math.exp(draw.uniform(math.log(low), math.log(high)))

    rate, rtt, depth = round(log(2, 8), 1), round(log(10, 80)), log(0.3, 6)
    buffer = max(12 * 1514, round(depth * rate * 1e6 / 8 * rtt / 1000))
    loss = float(f"{log(1e-3, 2e-2):.3g}") if draw.random() < LOSSY else 0.0
    return {"rate_mbit": rate, "rtt_ms": rtt, "buffer_bytes": buffer, "loss": loss}


def path(of: dict[str, float]) -> nw.Path:
    """The emulated path."""
    return nw.Path(
        rate=f"{of['rate_mbit']:g}Mbit",
        rtt=f"{of['rtt_ms']:g}ms",
        buffer=f"{of['buffer_bytes']:.0f}B",
        loss=f"{100 * of['loss']:g}%" if of["loss"] else None,
    )


def one(number: int) -> list[JsonObject]:
    """The rows of a path.

    Raises:
        NarrowsError: If the self-check of a run fails.
    """
    of = drawn(number)
    probes = [nw.Ping(interval=f"{PING_MS}ms")]

    def play(of_run: tuple[str, str]) -> dict[str, float | None]:
        cc, setting = of_run
        flows = [
            nw.Flow(cc, id="it"),
            *([nw.Flow(RIVAL, id="rival")] if setting == "beside" else []),
        ]
        run = nw.run(
            nw.Scenario(path(of), flows=flows, probes=probes, duration=f"{SECONDS}s"), engine="live"
        )
        told = run.json["instruments"]
        if not told["trusted"]:
            raise NarrowsError(f"{cc} {setting}: {'; '.join(told['why'])}")
        sys.stderr.write(f"path {number}: {cc} {setting} is over\n")  # one write
        return figures(setting, run.json)

    runs = [(cc, setting) for cc in CCS for setting in ("alone", "beside")]
    with ThreadPoolExecutor(len(runs)) as pool:
        seen = dict(zip(runs, pool.map(play, runs), strict=True))
    rows = []
    for cc in CCS:
        told = seen[cc, "alone"] | seen[cc, "beside"]
        rows.append(
            {"path": number, **of, "run": 0, "cc": cc}
            | {name: f"{told[name]:.5g}" for name in FIGURES}
        )
    return rows


def main() -> int:
    """Records the paths; returns the exit code: 1 if a path was not stored."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.advise_live", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("paths", nargs="+", type=int, metavar="PATH", help="numbers of the paths")
    args = parser.parse_args()
    kept: list[JsonObject] = []
    if DATA.exists():
        lines = [
            line
            for line in DATA.read_text(encoding="utf-8").splitlines()
            if not line.startswith("#")
        ]
        kept = list(csv.DictReader(lines))
    refused = 0
    for number in args.paths:
        print(f"path {number}: {drawn(number)}, {SECONDS} s", file=sys.stderr, flush=True)
        try:
            rows = one(number)
        except (NarrowsError, OSError) as error:
            print(f"path {number}: {error}", file=sys.stderr, flush=True)
            refused += 1
            continue
        kept = [row for row in kept if int(row["path"]) != number] + rows
        kept.sort(key=lambda row: int(row["path"]))
        with DATA.open("w", encoding="utf-8", newline="") as file:
            file.write(HEADER + "\n")
            writer = csv.DictWriter(file, [*COLUMNS, *FIGURES], lineterminator="\n")
            writer.writeheader()
            writer.writerows(kept)
        print(f"path {number}: stored", flush=True)
    return 1 if refused else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped; the rows stored before remain", file=sys.stderr)
        sys.exit(130)
