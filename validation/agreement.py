"""Compares the simulator with live runs of this kernel's TCP, for each row of `agreement.toml`.

`make agree` runs all rows, which takes half an hour on an idle machine, and writes
docs/reference/agreement.md. `python -m validation.agreement --only 'bbr-*'` repeats some rows. The
result of each row is stored in `target/agreement`; `--resume` continues an interrupted run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from narrows.errors import NarrowsError
from narrows.host import agreement
from narrows.host.agree import number
from validation.asked import positive
from validation.stored import HERE, Json

TABLE = HERE / "agreement.toml"
PAGE = HERE.parent / "docs/reference/agreement.md"
KEPT = HERE.parent / "target/agreement"
PART = 0.9
"""Minimum share of the decided metrics that must agree."""
OPEN = 0.1
"""Maximum share of undecided metrics."""


def table() -> Json:
    """The rows, each with its defaults."""
    found = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {name: found["defaults"] | row for name, row in found["row"].items()}


def quick() -> list[str]:
    """The rows that `make test` runs."""
    rows: list[str] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["quick"]["rows"]
    return rows


def scenario(name: str, row: Json, here: agreement.Machine) -> agreement.Subject:
    """A row as a scenario.

    >>> here = agreement.Machine(hz=250, like="linux-6.12", release="6.12", ccs=())
    >>> made = scenario("two", table()["two-cubic"], here)
    >>> made.ccs, made.tree["flow"][0]["count"], made.tree["path"]["buffer"]
    (['cubic'], 2, '1bdp')
    """
    path = {
        key: value
        for key, value in row.items()
        if key in {"rate", "rtt", "buffer", "queue", "policer", "loss"}
    }
    flows = []
    for sender in row["cc"]:
        count, _, cc = sender.rpartition(" ")
        flows.append({"cc": cc, "count": int(count or 1)})
    tree = {
        "title": name,
        "duration": f"{row['seconds']}s",
        "path": path,
        "flow": flows,
        "probe": [{"kind": "ping", "interval": "20ms"}],
    }
    return agreement.of_tree(tree, name, here)


def run(name: str, row: Json, here: agreement.Machine, *, runs: int, seeds: int) -> Json:
    """Runs a row with both engines, and simulates its negative control."""
    what = scenario(name, row, here)
    sim = agreement.simulate(what, seeds=seeds)
    live, flagged = agreement.measure(what, runs=runs)
    found = agreement.beside(what, sim, live, flagged).json() | {"runs": runs, "seeds": seeds}
    if "control" in row:
        wrong = scenario(name, row | row["control"], here)
        apart = agreement.beside(what, agreement.simulate(wrong, seeds=seeds), live, flagged)
        found["control"] = {
            "figures": [r.json() for r in apart.rows if r.verdict == "parted"],
            "verdict": apart.verdict,
        }
    return found


def words(row: Json) -> str:
    """A row in short.

    >>> words({"cc": ["2 cubic"], "queue": "fifo", "rate": "5Mbit", "rtt": "9ms", "buffer": "1bdp"})
    '2 cubic; 5Mbit, 9ms, fifo 1bdp'
    """
    queue = row["queue"] if isinstance(row["queue"], str) else " ".join(row["queue"].values())
    more = " ".join([queue, row["buffer"]] if "buffer" in row else [queue])
    for key in ("policer", "loss"):
        if key in row:
            more += f", {key} {row[key]['rate' if key == 'policer' else 'probability']}"
    return f"{', '.join(row['cc'])}; {row['rate']}, {row['rtt']}, {more}"


RESULTS = {"agreed": "agreed", "parted": "**disagreed**", "undecided": "*undecided*"}
"""Verdicts as the page names them."""

UNITS = {
    "goodput_mbit": "Mbit/s",
    "srtt_ms": "ms",
    "cwnd_mean": "packets",
    "retransmit_pct": "%",
    "jain": "1",
    "ping_p50_ms": "ms",
    "ping_p95_ms": "ms",
}


def _metric(metric: Json) -> str:
    name = metric["figure"]
    numbers = [_number(metric[key]) for key in ("sim", "live", "live_spread")]
    return " | ".join(
        [f"`{name}`", UNITS[name.partition(" ")[0]], *numbers, RESULTS[metric["verdict"]]]
    )


def _number(x: float | None) -> str:
    """A value as text, or `-`."""
    return "-" if x is None else number(x)


def markdown(found: Json, here: agreement.Machine) -> str:
    """The page."""
    rows = table()
    done = {name: found[name] for name in rows if name in found}
    of = Counter(figure["verdict"] for one in done.values() for figure in one["figures"])
    total = max(sum(of.values()), 1)
    decided = max(of["agreed"] + of["parted"], 1)
    flagged = sum(len(one["flagged"]) for one in done.values())
    runs = sum(one["live_runs"] for one in done.values())
    controls = {name: one["control"] for name, one in done.items() if "control" in one}
    apart = sum(one["verdict"] == "parted" for one in controls.values())
    absent = [name for name in rows if name not in done]
    left_out = (
        [f"**Not run: {len(absent)} of {len(rows)}**: {', '.join(absent)}.", ""] if absent else []
    )
    lines = [
        "# Agreement of simulation and live runs",
        "",
        "This page compares the simulator with live runs of the same scenarios with this kernel's "
        "TCP.",
        "`make agree` runs the scenarios of "
        "[validation/agreement.toml](../../validation/agreement.toml) and",
        "writes it.",
        "",
        "| | |",
        "|---|---|",
        f"| kernel of the live runs | Linux {here.release}, {here.hz} Hz |",
        f"| hosts of the simulation | `{here.like}` |",
        f"| scenarios | {len(done)} of {len(rows)} |",
        f"| live runs | {runs} trusted by their self-check |",
        f"| repeated live runs | {flagged} not trusted; no other run was repeated |",
        "",
        *left_out,
        "| result | metrics | share |",
        "|---|---|---|",
        f"| agreed | {of['agreed']} | {100 * of['agreed'] / decided:.0f} % of the decided metrics "
        "|",
        f"| disagreed | {of['parted']} | {100 * of['parted'] / decided:.0f} % of the decided "
        "metrics |",
        f"| undecided | {of['undecided']} | {100 * of['undecided'] / total:.0f} % of all metrics |",
        "",
        f"Negative controls rejected: {apart} of {len(controls)}.",
        "",
        "A metric agrees if simulation and live runs differ by at most 10 %, or by an amount that "
        "is",
        "[too small to matter](../../core/src/metrics/engine_comparison.rs). It is undecided if "
        "the live runs",
        "differ from each other by more than 15 %.",
        "",
        "## Disagreements",
        "",
        *_listed(done, rows, "parted"),
        "",
        "## Undecided metrics",
        "",
        *_listed(done, rows, "undecided"),
        "",
        "## Negative controls",
        "",
        "The live runs of a scenario are compared with the simulation of a different scenario.",
        "",
        "| scenario | changed to | rejected by |",
        "|---|---|---|",
    ]
    for name, control in controls.items():
        told = ", ".join(f"`{figure['figure']}`" for figure in control["figures"]) or "**none**"
        wrong = ", ".join(
            f"{k} {v if isinstance(v, str) else ' '.join(v)}"
            for k, v in rows[name]["control"].items()
        )
        lines.append(f"| {name} | {wrong} | {told} |")
    lines += [
        "",
        "## Scenarios",
        "",
        "| name | scenario | live runs | repeated |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {words(rows[name])} | {one['live_runs']} | {len(one['flagged'])} |"
        for name, one in done.items()
    ]
    heads = [
        "name",
        "metric",
        "unit",
        "simulated, median",
        "live, median",
        "range of live runs",
        "result",
    ]
    lines += ["", "## All metrics", "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    lines += [
        f"| {name} | {_metric(metric)} |" for name, one in done.items() for metric in one["figures"]
    ]
    kinds = Counter(_kind(reason) for one in done.values() for reason in one["flagged"])
    if kinds:
        lines += ["", "## Reasons for repeated runs", ""]
        lines += [f"- {count} times: {kind}." for kind, count in kinds.most_common()]
    return "\n".join(lines) + "\n"


_KINDS = {
    "left more than": "packets left late",
    "rate was off": "rate error",
    "rate differed": "rate error",
    "own devices dropped": "packets dropped by the hosts' own devices",
    "did not take": "packets not accepted by a host",
    "did not accept": "packets not accepted by a host",
    "kept the real-time": "real-time thread stopped by the kernel",
    "suspended the real-time": "real-time thread stopped by the kernel",
}


def _kind(reason: str) -> str:
    return ", ".join(kind for words, kind in _KINDS.items() if words in reason) or reason


def _listed(done: Json, rows: Json, verdict: str) -> list[str]:
    told = [
        "| name | scenario | metric | simulated | live | range of live runs | allowed difference |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, one in done.items():
        for f in one["figures"]:
            if f["verdict"] == verdict:
                cells = " | ".join(
                    _number(f[key]) for key in ("sim", "live", "live_spread", "tolerance")
                )
                told.append(f"| {name} | {words(rows[name])} | `{f['figure']}` | {cells} |")
    return told if len(told) > 2 else ["None."]  # noqa: PLR2004


def met(found: Json) -> bool:
    """Whether enough metrics agree, few enough are undecided, and every negative control is
    rejected.
    """
    of = Counter(figure["verdict"] for one in found.values() for figure in one["figures"])
    apart = all(one["control"]["verdict"] == "parted" for one in found.values() if "control" in one)
    enough = of["agreed"] >= PART * (of["agreed"] + of["parted"])
    return apart and enough and of["undecided"] <= OPEN * sum(of.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs rows and writes the page; returns 1 if a criterion is not met."""
    parser = argparse.ArgumentParser(prog="python -m validation.agreement", description=__doc__)
    parser.add_argument("--only", default="*", help="pattern of row names: 'bbr-*'")
    parser.add_argument(
        "--runs", type=positive, default=agreement.RUNS, help="live runs of each (default: 5)"
    )
    parser.add_argument(
        "--seeds", type=positive, default=agreement.SEEDS, help="simulations of each (default: 15)"
    )
    parser.add_argument("--resume", action="store_true", help="continue an interrupted run")
    args = parser.parse_args(arguments)
    rows = table()
    wanted = [name for name in rows if fnmatchcase(name, args.only)]
    if not wanted:
        parser.error(f"no row is called {args.only}; there are {', '.join(rows)}")
    try:
        here = agreement.machine()
        agreement.ready(
            sorted({cc for name in wanted for cc in scenario(name, rows[name], here).ccs})
        )
    except NarrowsError as error:
        print(error, file=sys.stderr)
        return 2
    KEPT.mkdir(parents=True, exist_ok=True)
    if not args.resume:
        for name in wanted:
            (KEPT / f"{name}.json").unlink(missing_ok=True)
    try:
        for place, name in enumerate(wanted, 1):
            file = KEPT / f"{name}.json"
            if file.exists():
                continue
            begin = time.monotonic()
            one = run(name, rows[name], here, runs=args.runs, seeds=args.seeds)
            file.write_text(json.dumps(one, indent=1), encoding="utf-8")
            _tell(place, len(wanted), name, one, time.monotonic() - begin)
    except KeyboardInterrupt:
        print("stopped; --resume goes on", file=sys.stderr)
        return 130
    finally:
        found = {
            name: json.loads(f.read_text(encoding="utf-8"))
            for name in rows
            if (f := KEPT / f"{name}.json").exists()
        }
        if found:
            PAGE.write_text(markdown(found, here), encoding="utf-8")
    return int(not met(found))


def _tell(place: int, of: int, name: str, one: Json, took_s: float) -> None:
    """Prints a line for each completed row."""
    said: Any = Counter(figure["verdict"] for figure in one["figures"])
    parts = [f"{said[v]} {v}" for v in ("agreed", "parted", "undecided") if said[v]]
    control = f"; control {one['control']['verdict']}" if "control" in one else ""
    flagged = f"; {len(one['flagged'])} flagged" if one["flagged"] else ""
    print(f"{place}/{of} {name}: {', '.join(parts)}{control}{flagged} ({took_s:.0f} s)", flush=True)


if __name__ == "__main__":
    sys.exit(main())
