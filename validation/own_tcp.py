"""Compares the transports of `narrows measure` over UDP with the TCP of a kernel, on the same path
in virtual time.

    python -m validation.own_tcp [--kernel 6.12] [--transport quic] [--path N]
                                 [--direction download] [--cc cubic] [--stored]

Each case is a download or an upload of one flow, measured by `narrows-host measure` between two
hosts of `narrows shell --engine linux`. Path, server, client and pings are those of the measurement
of the kernel's TCP. The clock is virtual, so the load of this machine affects no value. The program
stores the results in validation/own-tcp.json and writes docs/reference/own-tcp.md from all stored
results. Stored results of the kernel's TCP are not measured again. `--stored` measures nothing. The
program fails if a metric is outside of the tolerance and `EXPLAINED` has no reason for it.

The tolerances were chosen before the first run. The transports do not need to agree packet by
packet: the kernel also receives super-packets whole and acknowledges each once.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from narrows.host.live import HOST
from narrows.json_object import JsonObject
from validation.stored import HERE

ROOT = HERE.parent
PAGE = ROOT / "docs/reference/own-tcp.md"
STORED = HERE / "own-tcp.json"
CCS = ("reno", "cubic", "bbr")
"""Congestion controls of the kernel."""
PATHS = {
    "20 Mbit/s, 40 ms, 1 BDP": ("20Mbit", "40ms", "1bdp"),
    "50 Mbit/s, 20 ms, 2 BDP": ("50Mbit", "20ms", "2bdp"),
}
"""Rate, base RTT and buffer by the words of the page."""
TESTS = {"download": "tcp_down", "upload": "tcp_up"}
SECONDS = 10
IDLE = "1s"
PATIENCE_S = 1800
GOODPUT = 0.05
"""Largest difference of the goodput, as a share of the kernel's."""
RTT = 0.15
"""Largest difference of the median RTT of pings under load, as a share of the kernel's."""


@dataclass(frozen=True)
class Transport:
    """A transport with the options that select it.

    Attributes:
        title: Heading of its section.
        about: Sentences of its section.
        options: Options of `narrows-host measure`.
        names: Its names of congestion controls, if they differ from those of the kernel.
        kernel: The transport of the kernel to which it is compared; empty for those transports.
        pacing: Value of `pacing` of the hosts.
    """

    title: str
    about: str
    options: tuple[str, ...]
    names: dict[str, str]
    kernel: str
    pacing: str = "auto"


KERNEL = Transport("", "", ("--transport", "tcp"), {}, "")
TRANSPORTS = {
    "tcp": KERNEL,
    "tcp above fq": Transport("", "", KERNEL.options, {}, "", "fq"),
    "udp": Transport(
        "Narrows' own TCP over UDP",
        "`--transport udp`. [The transport](../how-to/any-congestion-control.md) describes the "
        "known differences.",
        ("--transport", "udp"),
        {},
        "tcp",
    ),
    "udp by departure times": Transport(
        "Narrows' own TCP over UDP, paced by fq",
        "`--transport udp --pacer txtime`, and the TCP of the kernel. The queue discipline of both "
        "hosts is `fq`, which paces both transports.",
        ("--transport", "udp", "--pacer", "txtime"),
        {},
        "tcp above fq",
        "fq",
    ),
    "quic": Transport(
        "QUIC of quinn",
        "`--transport quic`, with [congestion controls of quinn](../how-to/measure-over-quic.md). "
        "Its `newreno` is compared with `reno` of the kernel. quinn has no HyStart, so the slow "
        "start of its CUBIC ends with losses. This explains the retransmits of `cubic`.",
        ("--transport", "quic"),
        {"reno": "newreno"},
        "tcp",
    ),
}
"""The transports by their names in the stored results."""

EXPLAINED = {
    ("quic", "bbr"): (
        "the pacer of quinn-proto 0.11.19 (`connection/pacing.rs`) permits 1.25 congestion "
        "windows in each smoothed RTT. It does not use the pacing rate that the BBR of quinn "
        "computes. The window of BBR, 2 BDP, is therefore always full, and the RTT is twice the "
        "base RTT or that of a full buffer. In Linux, the pacing rate limits BBR, and its window "
        "does so only for short times. The adapter `quinn` shows the same in the simulator, on the "
        "first path with a buffer of 8 BDP. The mean RTT is then 81 ms, with a window of 2 BDP and "
        "no losses."
    ),
}
"""Reasons for differences beyond the tolerance, by transport and congestion control."""


@dataclass(frozen=True, order=True)
class Case:
    """One flow on one path.

    Attributes:
        path: A key of `PATHS`.
        direction: A key of `TESTS`.
        cc: Congestion control of the kernel.
        transport: A key of `TRANSPORTS`.
    """

    path: str
    direction: str
    cc: str
    transport: str


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


def measured(case: Case, kernel: str) -> Metrics:
    """Runs one measurement in a virtual machine."""
    rate, rtt, buffer = PATHS[case.path]
    transport = TRANSPORTS[case.transport]
    cc = transport.names.get(case.cc, case.cc)
    with tempfile.TemporaryDirectory() as place:
        scenario = Path(place) / "path.toml"
        scenario.write_text(
            f'duration = "{SECONDS}s"\n[path]\nrate = "{rate}"\nrtt = "{rtt}"\n'
            f'buffer = "{buffer}"\n[path.reverse]\nrate = "{rate}"\nbuffer = "{buffer}"\n'
            f'[host]\npacing = "{transport.pacing}"\n',
            encoding="utf-8",
        )
        words = [
            sys.executable, "-m", "narrows", "shell", str(scenario), "--engine", "linux",
            "--kernel", kernel, "--quiet", "--far", f"{HOST} serve --net-admin", "--",
            str(HOST), "measure", "far", "--test", TESTS[case.direction],
            "--duration", f"{SECONDS}s", "--idle", IDLE, "--cc", cc, *transport.options,
        ]  # fmt: skip
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
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
    """Whether the metrics are within the tolerances."""
    goodput = abs(ours.goodput_mbit / kernel.goodput_mbit - 1)
    rtt = abs(ours.rtt_ms / kernel.rtt_ms - 1)
    return goodput <= GOODPUT and rtt <= RTT


Results = dict[Case, Metrics]


def read(file: Path = STORED) -> tuple[str, Results]:
    """The stored results: the kernel, and the metrics of each case."""
    if not file.exists():
        return "", {}
    told = json.loads(file.read_text(encoding="utf-8"))
    columns = told["columns"]
    rows = [dict(zip(columns, row, strict=True)) for row in told["rows"]]
    of_case, of_metrics = Case.__annotations__, Metrics.__annotations__
    return told["kernel"], {
        Case(**{key: row[key] for key in of_case}): Metrics(**{key: row[key] for key in of_metrics})
        for row in rows
    }


def write(kernel: str, results: Results, file: Path = STORED) -> None:
    """Stores results, one case a line."""
    columns = [*Case.__annotations__, *Metrics.__annotations__]
    values = [list((asdict(case) | asdict(results[case])).values()) for case in sorted(results)]
    rows = ",\n".join(f"    {json.dumps(row)}" for row in values)
    file.write_text(
        f'{{\n  "kernel": {json.dumps(kernel)},\n  "columns": {json.dumps(columns)},\n'
        f'  "rows": [\n{rows}\n  ]\n}}\n',
        encoding="utf-8",
    )


HEAD = "# Transports over UDP beside the kernel's TCP"
ABOUT = (
    "`python -m validation.own_tcp` wrote this page from validation/own-tcp.json. Each row "
    f"compares one flow for {SECONDS} s with a flow of the TCP of Linux {{kernel}} on the same "
    "path, in virtual time. "
    f"The tolerances are {100 * GOODPUT:.0f} % of the kernel's goodput and {100 * RTT:.0f} % of "
    "its median RTT of pings under load. They were chosen before the first run. The retransmission "
    "rate has no tolerance."
)
COLUMNS = (
    "path", "direction", "cc", "goodput, Mbit/s: kernel", "transport", "RTT p50, ms: kernel",
    "transport", "retransmits, %: kernel", "transport", "within tolerance",
)  # fmt: skip


def pairs(results: Results, name: str) -> Iterator[tuple[Case, Metrics, Metrics]]:
    """The cases of a transport that have a measurement of the kernel, with both metrics."""
    for path, direction, cc in itertools.product(PATHS, TESTS, CCS):
        case = Case(path, direction, cc, name)
        kernel = Case(path, direction, cc, TRANSPORTS[name].kernel)
        if case in results and kernel in results:
            yield case, results[case], results[kernel]


def wrapped(text: str, indent: str = "") -> str:
    """A paragraph of the page."""
    return textwrap.fill(
        text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def section(results: Results, name: str) -> Iterator[str]:
    """The lines of the section of a transport."""
    transport = TRANSPORTS[name]
    yield from ("", f"## {transport.title}", "", wrapped(transport.about), "")
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"|{'---|' * 3}{'--:|' * 6}---|"
    reasons = {}
    for case, ours, kernel in pairs(results, name):
        fits = within(ours, kernel)
        cc = transport.names.get(case.cc, case.cc)
        if not fits:
            reasons[cc] = EXPLAINED.get((name, cc), "not explained")
        yield (
            f"| {case.path} | {case.direction} | {cc} | {kernel.goodput_mbit:.2f} | "
            f"{ours.goodput_mbit:.2f} | {kernel.rtt_ms:.1f} | {ours.rtt_ms:.1f} | "
            f"{kernel.retransmit_pct:.2f} | {ours.retransmit_pct:.2f} | {'yes' if fits else 'no'} |"
        )
    if reasons:
        yield from ("", "Differences beyond the tolerance:", "")
        yield from (wrapped(f"- `{cc}`: {reason}", "  ") for cc, reason in reasons.items())


def page(kernel: str, results: Results) -> str:
    """The page of all stored results."""
    lines = [HEAD, "", wrapped(ABOUT.format(kernel=kernel))]
    for name, transport in TRANSPORTS.items():
        if transport.kernel:
            lines += section(results, name)
    return "\n".join(lines) + "\n"


def unexplained(results: Results) -> list[Case]:
    """The cases outside of the tolerance without a reason."""
    return [
        case
        for name, transport in TRANSPORTS.items()
        if transport.kernel
        for case, ours, kernel in pairs(results, name)
        if not within(ours, kernel)
        and (name, transport.names.get(case.cc, case.cc)) not in EXPLAINED
    ]


def main() -> int:
    """Measures the selected cases, stores them and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    compared = [name for name, transport in TRANSPORTS.items() if transport.kernel]
    parser.add_argument("--kernel", default="6.12")
    parser.add_argument("--transport", choices=compared)
    parser.add_argument("--path", choices=range(len(PATHS)), type=int)
    parser.add_argument("--direction", choices=list(TESTS))
    parser.add_argument("--cc", choices=CCS)
    parser.add_argument("--stored", action="store_true", help="only write the page")
    given = parser.parse_args()
    before, results = read()
    kernel = before if given.stored else given.kernel
    if not given.stored:
        if before not in {"", given.kernel}:
            results = {}
        names = [given.transport] if given.transport else compared
        names = [*dict.fromkeys(TRANSPORTS[name].kernel for name in names), *names]
        paths = list(PATHS) if given.path is None else [list(PATHS)[given.path]]
        directions = [given.direction] if given.direction else list(TESTS)
        ccs = [given.cc] if given.cc else CCS
        for case in itertools.starmap(Case, itertools.product(paths, directions, ccs, names)):
            if case in results and not TRANSPORTS[case.transport].kernel:
                continue
            results[case] = measured(case, given.kernel)
            print(f"{', '.join(asdict(case).values())}: {results[case]}", flush=True)
            write(kernel, results)
    PAGE.write_text(page(kernel, results), encoding="utf-8")
    bad = unexplained(results)
    for case in bad:
        print(f"outside of the tolerance: {', '.join(asdict(case).values())}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
