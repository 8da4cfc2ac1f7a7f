"""Compares the TCP of narrows over UDP with the TCP of a kernel, on the same path in virtual time.

    python -m validation.own_tcp [--kernel 6.12] [--path N] [--direction download] [--page FILE]

Each case is a download or an upload of one flow, measured by `narrows-host measure` between two
hosts of `narrows shell --engine linux`. The flow is once that of the kernel (`--transport tcp`),
and once that of narrows (`--transport udp`). Path, server, client and pings are the same. The clock
is virtual, so the load of this machine affects neither. The program prints a table in Markdown and
writes it to `--page`. It fails if a metric of narrows is outside of the tolerance.

The tolerances were chosen before the first run. Both transports send super-packets, but the kernel
also receives them whole and acknowledges each once. They therefore do not need to agree packet by
packet.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from narrows.host.live import HOST
from narrows.json_object import JsonObject
from validation.stored import HERE

ROOT = HERE.parent
PAGE = ROOT / "docs/reference/own-tcp.md"
CCS = ("reno", "cubic", "bbr")
PATHS = {
    "20 Mbit/s, 40 ms, 1 BDP": ("20Mbit", "40ms", "1bdp"),
    "50 Mbit/s, 20 ms, 2 BDP": ("50Mbit", "20ms", "2bdp"),
}
"""Rate, base RTT and buffer by the words of the page."""
TESTS = {"download": "tcp_down", "upload": "tcp_up"}
SECONDS = 10
IDLE = "1s"
PATIENCE_S = 600
GOODPUT = 0.05
"""Largest difference of the goodput, as a share of the kernel's."""
RTT = 0.15
"""Largest difference of the median RTT of pings under load, as a share of the kernel's."""


@dataclass(frozen=True)
class Metrics:
    """The metrics of one flow.

    Attributes:
        goodput_mbit: Goodput, Mbit/s.
        rtt_ms: Median RTT of pings under load, ms.
        retransmit_pct: Retransmission rate, %.
    """

    goodput_mbit: float
    rtt_ms: float
    retransmit_pct: float


def measured(
    path: tuple[str, str, str], test: str, cc: str, transport: str, kernel: str
) -> Metrics:
    """Runs one measurement in a virtual machine."""
    rate, rtt, buffer = path
    words = [
        sys.executable, "-m", "narrows", "shell", "--engine", "linux", "--kernel", kernel,
        "--rate", rate, "--rtt", rtt, "--buffer", buffer, "--quiet",
        "--far", f"{HOST} serve --net-admin", "--", str(HOST), "measure", "far", "--test", test,
        "--duration", f"{SECONDS}s", "--idle", IDLE, "--cc", cc, "--transport", transport,
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    begin = done.stdout.find("{")
    if done.returncode != 0 or begin < 0:
        raise SystemExit(f"own_tcp: {' '.join(words)}: {done.stderr.strip()}")
    # The server prints a line before.
    return metrics(json.JSONDecoder().raw_decode(done.stdout[begin:])[0])


def metrics(result: JsonObject) -> Metrics:
    """The metrics of a measurement with one flow."""
    (flow,) = result["flows"]
    begin, end = next(
        (phase["from_s"], phase["to_s"]) for phase in result["phases"] if phase["name"] == "loaded"
    )
    at = result["pings"][0]["columns"].index("rtt_ms")
    rows = result["pings"][0]["samples"]
    rtts = [row[at] for row in rows if begin <= row[0] < end and row[at] is not None]
    return Metrics(
        goodput_mbit=flow["goodput_mbit"],
        rtt_ms=statistics.median(rtts),
        retransmit_pct=100 * (flow["retransmit_rate"] or 0),
    )


def within(ours: Metrics, kernel: Metrics) -> bool:
    """Whether the metrics of narrows are within the tolerances."""
    goodput = abs(ours.goodput_mbit / kernel.goodput_mbit - 1)
    rtt = abs(ours.rtt_ms / kernel.rtt_ms - 1)
    return goodput <= GOODPUT and rtt <= RTT


HEAD = f"""# Narrows' own TCP over UDP beside the kernel's

`python -m validation.own_tcp` wrote this page; `--path` and `--direction` select cases. It compares
`narrows measure --transport udp` with `--transport tcp`: one flow for {SECONDS} s between two hosts
with Linux {{kernel}}, in virtual time. The tolerances are {100 * GOODPUT:.0f} % of the kernel's
goodput and {100 * RTT:.0f} % of its median RTT of pings under load. They were chosen before the
first run. The retransmission rate has no tolerance.
[The transport](../how-to/any-congestion-control.md) describes the known differences.

"""
COLUMNS = (
    "path", "direction", "cc", "goodput, Mbit/s: kernel", "narrows", "RTT p50, ms: kernel",
    "narrows", "retransmits, %: kernel", "narrows", "within tolerance",
)  # fmt: skip


def main() -> int:
    """Runs all cases, and prints and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernel", default="6.12")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--path", choices=range(len(PATHS)), type=int)
    parser.add_argument("--direction", choices=list(TESTS))
    given = parser.parse_args()
    paths = list(PATHS) if given.path is None else [list(PATHS)[given.path]]
    directions = list(TESTS) if given.direction is None else [given.direction]
    lines, good = [], True
    for path, direction, cc in itertools.product(paths, directions, CCS):
        kernel, ours = (
            measured(PATHS[path], TESTS[direction], cc, transport, given.kernel)
            for transport in ("tcp", "udp")
        )
        fits = within(ours, kernel)
        good &= fits
        line = (
            f"| {path} | {direction} | {cc} | {kernel.goodput_mbit:.2f} | "
            f"{ours.goodput_mbit:.2f} | {kernel.rtt_ms:.1f} | {ours.rtt_ms:.1f} | "
            f"{kernel.retransmit_pct:.2f} | {ours.retransmit_pct:.2f} | "
            f"{'yes' if fits else 'no'} |"
        )
        print(line, flush=True)
        lines.append(line)
    columns = f"| {' | '.join(COLUMNS)} |\n|{'---|' * 3}{'--:|' * 6}---|\n"
    text = HEAD.format(kernel=given.kernel) + columns + "\n".join(lines) + "\n"
    given.page.write_text(text, encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
