"""Digests of results: shows whether a change of the code changed any value of any run.

    python -m validation.digest
        compares with validation/digests.txt; exits with 1 on a difference
    python -m validation.digest --write
        renews validation/digests.txt
    python -m validation.digest --threads 2
        compares with validation/digests.txt; each run may use two threads
    python -m validation.digest --only queues/fq.toml
        compares only this scenario, by its name in validation/digests.txt

The runs are those of every scenario file below `scenarios/`, and of 200 scenarios generated from
the seeds in `GENERATED`. A digest is the first 64 bits of the SHA-256 of the run's JSON without
`provenance`. It must not depend on the machine or the build. If a change of the code is meant to
change results, a separate commit renews the file and states the reason.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
from collections.abc import Sequence
from typing import Any

import narrows as nw
from narrows import _core
from narrows.errors import ScenarioError
from narrows.runs.parallel import everywhere
from narrows.runs.run import Progress
from narrows.runs.scenario import Scenario, from_tree
from validation.asked import positive
from validation.stored import HERE

SCENARIOS = HERE.parent / "scenarios"
KEPT = HERE / "digests.txt"
GENERATED = range(11_000, 11_200)
"""Seeds of the generated scenarios."""

# fmt: off
CONTROLS = [
    "reno", "cubic", "bbr", "bbr2", "bbr3", "bic", "cdg", "compound", "copa", "dctcp", "highspeed",
    "htcp", "hybla",
    "illinois", "ledbat", "lp", "newreno", "nv", "prague", "scalable", "timely", "vegas", "veno",
    "westwood", "xcp",
    "yeah",
]
QUEUES = [
    "cake", "choke", "codel", "drr", "dualpi2", "fq", "fq_codel", "fq_pie", "hhf", "pfifo_fast",
    "pie", "red", "sfb",
    "sfq", "xcp",
]
WORKLOADS = ["web", "video", "voip", "rpc", "poisson", "torrent", "udp", "bursty", "on_off"]
# fmt: on
"""The workloads, and above them the congestion controls and queue disciplines, of the generated
scenarios. These lists stay as they are, because an addition would change the generated scenarios. A
new algorithm gets a scenario file instead.
"""

Tree = dict[str, Any]


def _chance(draw: random.Random, probability: float) -> bool:
    return draw.random() < probability


def _path(draw: random.Random) -> Tree:
    path: Tree = {
        "rate": f"{draw.choice((1, 3, 10, 25, 60))}Mbit",
        "rtt": f"{draw.choice((2, 15, 40, 120))}ms",
    }
    path["queue"] = draw.choice(("fifo", *QUEUES))
    if _chance(draw, 0.5):
        path["buffer"] = f"{draw.choice((0.25, 1, 4))}bdp"
    optional: list[tuple[str, Any]] = [
        ("loss", draw.choice(["0.1%", {"probability": "1%", "per": "packet"}])),
        ("jitter", draw.choice(["1ms", {"kind": "pareto", "spread": "2ms"}])),
        ("reorder", "0.5%"),
        ("duplicate", "0.2%"),
        ("corrupt", "0.1%"),
        ("link", {"kind": "tbf", "burst": "20kB"}),
        ("offload", True),
        ("policer", {"rate": "4Mbit", "burst": "60kB"}),
        ("steps", [{"at": "1s", "rate": "2Mbit"}, {"at": "2s", "rate": "8Mbit"}]),
        ("outages", [{"at": "1500ms", "lasts": "300ms"}]),
        ("reverse", {"rate": "1Mbit", "queue": draw.choice(("fifo", "fq_codel", "cake"))}),
    ]
    path.update((key, value) for key, value in optional if _chance(draw, 0.12))
    return path


def _wifi(draw: random.Random) -> Tree:
    stations = [
        {"name": f"s{number}", "mcs": draw.choice((0, 3, 7, 15))}
        for number in range(draw.randint(1, 4))
    ]
    return {"stack": draw.choice(("before", "fq_mac", "airtime")), "station": stations}


def _flow(draw: random.Random, stations: Sequence[Tree]) -> Tree:
    flow: Tree = {"cc": draw.choice(CONTROLS), "count": draw.choice((1, 1, 2, 4))}
    if _chance(draw, 0.3):
        kind = draw.choice(WORKLOADS)
        workload = {"kind": kind} | (
            {"rate": "500kbit"} if kind in ("udp", "bursty", "on_off") else {}
        )
        connected = {} if kind in ("udp", "bursty", "voip") else {"cc": flow["cc"]}
        flow = connected | {"workload": workload}
    if _chance(draw, 0.2):
        flow["start"] = f"{draw.uniform(0, 2):.3f}s"
    if _chance(draw, 0.2):
        flow["ecn"] = True
    if _chance(draw, 0.15):
        flow["direction"] = "up"
    if stations:
        flow["station"] = draw.choice(stations)["name"]
    return flow


def _tree(draw: random.Random) -> Tree:
    tree: Tree = {"duration": "4s", "seed": draw.randrange(2**32)}
    stations: list[Tree] = []
    if _chance(draw, 0.12):
        tree["wifi"] = _wifi(draw)
        stations = tree["wifi"]["station"]
    else:
        tree["path"] = _path(draw)
    tree["flow"] = [_flow(draw, stations) for _ in range(draw.randint(1, 3))]
    host: Tree = {}
    if _chance(draw, 0.3):
        host["like"] = draw.choice(("linux-6.12", "linux-5.15", "linux-4.15"))
    if _chance(draw, 0.15):
        host["pacing"] = draw.choice(("off", "fq"))
    if _chance(draw, 0.15):
        host |= {"nic": "100Mbit", "qdisc": draw.choice(("pfifo_fast", "fq", "fq_codel"))}
    if host:
        tree["host"] = host
    if _chance(draw, 0.3) and "path" in tree:
        tree["probe"] = [{"kind": "ping"}]
    return tree


def generated(seed: int) -> Scenario:
    """The scenario of a seed: the first random scenario from it that the parser accepts."""
    draw = random.Random(seed)
    while True:
        try:
            scenario = from_tree(_tree(draw))
            _core.check_toml(scenario.toml(), f"seed {seed}")
            return scenario
        except ScenarioError:
            continue


def digest(scenario: Scenario, progress: Progress | None = None, threads: int = 1) -> str:
    """The first 64 bits of the SHA-256 of the run's JSON without its provenance."""
    found = dict(nw.run(scenario, progress=progress, threads=threads).json)
    del found["provenance"]
    # The result names a trace by its absolute path, which differs between checkouts.
    text = json.dumps(found).replace(json.dumps(str(SCENARIOS))[1:-1], "scenarios")
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def shipped() -> dict[str, Scenario]:
    """Every scenario file, by its name below `scenarios/`."""
    return {
        str(file.relative_to(SCENARIOS)): nw.load(file)
        for file in sorted(SCENARIOS.rglob("*.toml"))
    }


def every(only: str | None) -> dict[str, Scenario]:
    """The scenarios by name, first the files and then the generated ones; with `only`, the one of
    this name.
    """
    scenarios = shipped() | {f"seed {seed}": generated(seed) for seed in GENERATED}
    return {name: scenario for name, scenario in scenarios.items() if only in (None, name)}


def stored() -> dict[str, str]:
    """The digests by name, as `validation/digests.txt` has them."""
    lines = KEPT.read_text(encoding="utf-8").splitlines() if KEPT.exists() else []
    pairs = (line.split("  ", 1) for line in lines if not line.startswith("#"))
    return {name: value for value, name in pairs}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compares or writes the digests."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.digest",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--write", action="store_true", help="renew validation/digests.txt")
    parser.add_argument(
        "--only", metavar="NAME", help="one scenario, by its name in validation/digests.txt"
    )
    parser.add_argument(
        "--jobs", type=positive, metavar="N", help="simultaneous runs [default: one for each core]"
    )
    parser.add_argument(
        "--threads",
        type=int,
        choices=(1, 2),
        default=1,
        help="threads of each run [default: %(default)s]",
    )
    options = parser.parse_args(arguments)
    scenarios = every(options.only)
    if not scenarios:
        parser.error(
            f"--only {options.only}: no such scenario; validation/digests.txt has the names"
        )

    def one(name: str, keep_on: Progress) -> str:
        return digest(scenarios[name], keep_on, options.threads)

    names = list(scenarios)
    found = dict(
        zip(
            names,
            everywhere(names, one, cost=lambda name: name.count("wifi"), jobs=options.jobs),
            strict=True,
        )
    )
    if options.write:
        kept = stored() | found if options.only else found
        header = "# Digests of results; written and compared by python -m validation.digest\n"
        KEPT.write_text(
            header + "".join(f"{value}  {name}\n" for name, value in kept.items()), encoding="utf-8"
        )
        return 0
    kept = stored()
    changed = [name for name in names if kept.get(name) != found[name]]
    for name in changed:
        print(f"{name}: {found[name]}; validation/digests.txt has {kept.get(name, 'no such name')}")
    if not options.only:
        for name in kept.keys() - scenarios.keys():
            changed.append(name)
            print(f"{name}: is in validation/digests.txt, but there is no such scenario any more")
    print(f"{len(names) - len(changed)} of {len(names)} results are unchanged")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
