"""Runs five scenarios and two pairs of programs with several engines, each of them once.

    python -m validation.side_by_side [--kernels 6.12,7.3] [--live] [--page FILE]

The engines are the simulator, each of the kernels in virtual time, and with `--live` the live
engine. A kernel can have patches. The scenarios are the first one of the tutorial, CAKE, a policer,
BBR with 5 % random loss, and 50 flows. They have the seed 1 and last 10 s. The hosts of the
simulation follow the rules of the first kernel. The pairs of programs are curl with a web server,
and a QUIC client with its server (`validation/quic_pair.py`, which needs aioquic).

The program prints tables in Markdown and writes them to `--page`. The processor time is that of the
run and of all processes that it starts, in user and kernel mode.
"""

from __future__ import annotations

import argparse
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from narrows import _core
from narrows.errors import NarrowsError
from narrows.host import agreement
from narrows.host.agree import number
from narrows.json_object import JsonObject
from narrows.kernel import store
from narrows.runs.engines import SIM, EngineChoice, choose
from narrows.runs.scenario import from_tree
from validation.stored import HERE

ROOT = HERE.parent
PAGE = ROOT / "docs/reference/side-by-side.md"
PATCH = "#compare-a-kernel-with-and-without-a-patch"
SEED = 1
DURATION = "10s"
"""Duration of every run."""
FIGURES = {
    "goodput_mbit": "goodput, Mbit/s",
    "srtt_ms": "mean RTT, ms",
    "cwnd_mean": "mean congestion window, packets",
    "retransmit_pct": "retransmission rate, %",
    "jain": "Jain's index",
    "ping_p95_ms": "p95 of the ping RTT, ms",
}
"""The metrics of the table, with their units."""

BBR_WITH_LOSS = """
duration = "10s"
[path]
rate = "20Mbit"
rtt = "40ms"
buffer = "1bdp"
loss = { probability = "5%", per = "packet" }
[[flow]]
cc = "bbr"
[[probe]]
kind = "ping"
interval = "20ms"
"""
FIFTY_FLOWS = """
duration = "10s"
[path]
rate = "20Mbit"
rtt = "40ms"
buffer = "1bdp"
[[flow]]
cc = "cubic"
count = 50
[[probe]]
kind = "ping"
interval = "20ms"
"""
SCENARIOS: dict[str, Path | str] = {
    "one CUBIC flow": ROOT / "scenarios/first/cubic.toml",
    "CAKE with four CUBIC flows": ROOT / "scenarios/queues/cake.toml",
    "a policer of 2 Mbit/s": ROOT / "scenarios/rates/police.toml",
    "BBR with 5 % random loss": BBR_WITH_LOSS,
    "50 CUBIC flows": FIFTY_FLOWS,
}
"""Files or texts of the scenarios, by the headings of the page."""


LINE = ["--rate", "20Mbit", "--rtt", "40ms", "--buffer", "100p"]
"""The path between the programs of a pair."""
PAGE_BYTES = 1_000_000
"""Size of the file that curl downloads."""
PYTHON = sys.executable
QUIC = str(HERE / "quic_pair.py")


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two programs at the ends of a path.

    Attributes:
        far: The server and its arguments.
        near: The client and its arguments; it prints one line.
        module: A Python module that the programs import, or an empty string.
    """

    far: Sequence[str]
    near: Sequence[str]
    module: str = ""


CURL = "%{size_download} bytes in %{time_total} s\n"
PAIRS = {
    "curl": Pair(
        far=[PYTHON, "-m", "http.server", "80"],
        near=["curl", "--silent", "--output", "/dev/null", "--write-out", CURL, "http://far/page"],
    ),
    "QUIC": Pair(
        far=[PYTHON, QUIC, "serve", "4433", "cubic"],
        near=[PYTHON, QUIC, "fetch", "far", "4433", "5"],
        module="aioquic",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Result:
    """A run of a scenario.

    Attributes:
        figures: The metrics, by name; empty if the engine could not run the scenario.
        cpu_s: Processor time, in s.
        why: The reason why there are no metrics; otherwise empty.
    """

    figures: dict[str, float]
    cpu_s: float
    why: str = ""


def tree(scenario: Path | str, on: agreement.Machine) -> JsonObject:
    """The scenario as nested tables. Its hosts have the tick and the rules of the kernel `on`."""
    text = scenario if isinstance(scenario, str) else scenario.read_text(encoding="utf-8")
    found: JsonObject = _core.toml_to_tree(text, "scenario")
    return agreement.of_tree(found | {"duration": DURATION}, "scenario", on).tree


def cpu_s() -> float:
    """Processor time of this process and of its finished children, in s."""
    each = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in each)


def measure(scenario: Path | str, engine: EngineChoice, on: agreement.Machine) -> Result:
    """Runs a scenario once."""
    begin = cpu_s()
    try:
        run = engine.run(from_tree(tree(scenario, on), ROOT), seed=SEED, sample_interval="off").json
    except NarrowsError as error:
        return Result(figures={}, cpu_s=cpu_s() - begin, why=str(error).partition(";")[0])
    figures = agreement.figures(run)
    return Result(figures=figures, cpu_s=cpu_s() - begin)


def client(pair: Pair, engine: EngineChoice) -> tuple[str, float]:
    """Runs a pair of programs once. Returns the last line that the client or an error printed, and
    the processor time in s.
    """
    if pair.module and find_spec(pair.module) is None:
        return f"not run, because {pair.module} is not installed", 0.0
    begin = cpu_s()
    kernel = [] if engine.kernel is None else ["--kernel", engine.kernel]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "page").write_bytes(bytes(PAGE_BYTES))
        done = subprocess.run(
            [
                str(Path(PYTHON).with_name("narrows")), "shell", "--quiet",
                "--engine", engine.name, *kernel, *LINE,
                "--far", shlex.join(pair.far), "--", *pair.near,
            ],
            cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
    said = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return said[-1] if said else "no output", cpu_s() - begin


def programs(engines: dict[str, EngineChoice]) -> Iterator[str]:
    """The lines of the page about the pairs of programs."""
    yield "## Programs"
    yield ""
    yield f"`narrows shell` with the path `{' '.join(LINE)}`. curl downloads a file of"
    yield "1 MB from Python's `http.server`. The QUIC server and client are those of aioquic, with"
    yield "CUBIC ([quic_pair.py](../../validation/quic_pair.py)); the client reads for 5 s."
    yield ""
    yield "| programs | engine | output of the client | processor time, s |"
    yield "|---|---|---|---|"
    for name, pair in PAIRS.items():
        for engine, choice in engines.items():
            line, took_s = client(pair, choice)
            yield f"| {name} | {engine} | {line} | {number(took_s)} |"
    yield ""


def section(title: str, scenario: Path | str, results: dict[str, Result]) -> Iterator[str]:
    """The lines of the page about a scenario."""
    yield f"## {title[0].upper()}{title[1:]}"
    yield ""
    if isinstance(scenario, Path):
        yield f"Scenario: [{scenario.name}](../../{scenario.relative_to(ROOT)})."
    else:
        yield from ("```toml", *scenario.strip().splitlines(), "```")
    yield ""
    yield f"| metric | {' | '.join(results)} |"
    yield f"|{'---|' * (len(results) + 1)}"
    for name, label in FIGURES.items():
        cells = [one.figures.get(name) for one in results.values()]
        if any(cell is not None for cell in cells):
            told = " | ".join("–" if cell is None else number(cell) for cell in cells)
            yield f"| {label} | {told} |"
    times = " | ".join(number(one.cpu_s) for one in results.values())
    yield f"| processor time, s | {times} |"
    yield ""
    for name, one in results.items():
        if one.why:
            yield from (f"No run of {name}: {one.why}.", "")


def _patched(kernel: str) -> str:
    """The lines about a kernel with a patch."""
    return f"`{kernel}` has [a\npatch](../how-to/run-in-virtual-time.md{PATCH})."


def head(kernels: Sequence[str], on: agreement.Machine, *, live: bool) -> list[str]:
    """The lines before the first scenario."""
    more = " --live" if live else ""
    return [
        "# Engines side by side",
        "",
        f"This page has one run of {DURATION[:-1]} s of each scenario with each engine, and the",
        "processor time of each run. All runs have the same seed. [Agreement of the",
        "engines](agreement.md) compares more scenarios, with several runs of each.",
        f"`python -m validation.side_by_side --kernels {','.join(kernels)}{more}` writes the page.",
        "",
        f"The hosts of the simulator follow the rules of `{on.like}`. The processor time includes",
        "the start of the virtual machine, which `linux` needs for each run.",
        "",
        *(line for kernel in kernels if "+" in kernel for line in (_patched(kernel), "")),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the scenarios and writes the page; returns 2 if a kernel is missing."""
    assert __doc__
    parser = argparse.ArgumentParser(
        prog="python -m validation.side_by_side", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--kernels", default="6.12,7.3", help="kernels (default: 6.12,7.3)")
    parser.add_argument("--live", action="store_true", help="run the live engine, too")
    parser.add_argument("--page", type=Path, default=PAGE, help=f"page (default: {PAGE.name})")
    args = parser.parse_args(arguments)
    kernels = args.kernels.split(",")
    try:
        machines = [agreement.of_kernel(store.find(kernel)) for kernel in kernels]
        engines = {"sim": (SIM, machines[0])}
        for kernel, on in zip(kernels, machines, strict=True):
            engines[f"Linux {kernel}"] = (choose("linux", kernel), on)
        if args.live:
            engines["live"] = (choose("live"), agreement.machine())
    except NarrowsError as error:
        print(error, file=sys.stderr)
        return 2
    lines = head(kernels, machines[0], live=args.live)
    for title, scenario in SCENARIOS.items():
        results = {name: measure(scenario, *engine) for name, engine in engines.items()}
        told = list(section(title, scenario, results))
        print("\n".join(told), flush=True)
        lines += told
    told = list(programs({name: one for name, (one, _) in engines.items() if one is not SIM}))
    print("\n".join(told), flush=True)
    lines += told
    args.page.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
