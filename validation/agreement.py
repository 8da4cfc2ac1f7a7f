"""Compares the engines on each row of `agreement.toml`.

`make agree` measures all rows with the engines `linux` and `live`, simulates them, and writes
docs/reference/agreement.md. Rows of `linux` run on all cores; those of `live` take half an hour on
an idle machine. `python -m validation.agreement --engines sim,linux --only 'bbr-*'` repeats some
rows with one engine; `--engines sim` only simulates and writes the page. `--resume` continues an
interrupted run.

`agreement-linux.json` and `agreement-live.json` have the measured rows: the median of each metric,
and its range over the runs. The verdict on a pair of engines depends only on these values and on
the simulations. `python -m validation --part engines` compares the simulator with the rows of
`linux`; it needs no kernel.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from narrows import __version__, _core
from narrows.errors import EngineError, NarrowsError
from narrows.host import agreement
from narrows.host.agree import number
from narrows.json_object import JsonObject
from narrows.runs.engines import choose
from narrows.runs.model import RunJson
from narrows.storage.durable import replacing
from validation.asked import positive
from validation.stored import HERE

TABLE = HERE / "agreement.toml"
PAGE = HERE.parent / "docs/reference/agreement.md"
REFERENCES = ("linux", "live")
"""Engines whose runs are stored."""
PART = 0.9
"""Minimum share of agreeing metrics among the decided metrics of a pair of engines."""
OPEN = 0.1
"""Maximum share of undecided metrics of a pair of engines."""

Pair = tuple[str, str]


def table() -> JsonObject:
    """The rows of `agreement.toml` by name, with their default values filled in."""
    found = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {name: found["defaults"] | row for name, row in found["row"].items()}


PATH = frozenset(
    {"rate", "rtt", "buffer", "queue", "policer", "loss", "jitter", "link", "reorder", "reverse",
     "steps", "outages"}
)  # fmt: skip
"""Keys of a row that are keys of its path."""


def scenario(name: str, row: JsonObject, here: agreement.Machine) -> agreement.Subject:
    """A row as a scenario.

    >>> here = agreement.Machine(hz=250, like="linux-6.12", release="6.12", ccs=())
    >>> made = scenario("two", table()["two-cubic"], here)
    >>> made.ccs, made.tree["flow"][0]["count"], made.tree["path"]["buffer"]
    (['cubic'], 2, '1bdp')
    """
    path = {key: value for key, value in row.items() if key in PATH}
    flows: list[JsonObject] = []
    for sender in row["cc"]:
        count, _, cc = sender.rpartition(" ")
        flows.append({"cc": cc, "count": int(count or 1)})
        if row.get("ecn"):
            flows[-1]["ecn"] = True
    tree = {
        "title": name,
        "duration": f"{row['seconds']}s",
        "path": path,
        "flow": flows,
        "probe": [{"kind": "ping", "interval": "20ms"}],
    }
    return agreement.of_tree(tree, name, here)


def run(
    name: str, row: JsonObject, here: agreement.Machine, *, runs: int, seeds: int
) -> JsonObject:
    """Runs a row with the simulator and the live engine, and simulates its negative control."""
    what = scenario(name, row, here)
    sim = agreement.simulate(what, seeds=seeds)
    live, flagged = agreement.measure(what, runs=runs)
    found: JsonObject = {**agreement.beside(what, sim, live, flagged).json()}
    if "control" in row:
        wrong = scenario(name, row | row["control"], here)
        apart = agreement.beside(what, agreement.simulate(wrong, seeds=seeds), live, flagged)
        found["control"] = {
            "figures": [r.json() for r in apart.rows if r.verdict == "parted"],
            "verdict": apart.verdict,
        }
    return found


@dataclass
class Store:
    """The stored measurements of one engine.

    Attributes:
        engine: The engine.
        machine: The kernel of the runs.
        rows: For each row, its `scenario` in short and the number of `runs`. `flagged` has the
            messages of flagged runs, and `figures` the median and range of each metric.
    """

    engine: str
    machine: agreement.Machine
    rows: dict[str, JsonObject]

    def figures(self, name: str, row: JsonObject) -> dict[str, list[float]] | None:
        """The median and range of each metric of a row. None if the row was not measured, or if its
        scenario has changed since.
        """
        found = self.rows.get(name)
        if found is None or found["scenario"] != words(row):
            return None
        figures: dict[str, list[float]] = found["figures"]
        return figures

    def save(self) -> None:
        """Writes the file."""
        head = {"engine": self.engine, "narrows": __version__, "machine": self.machine.json()}
        rows = ",\n".join(
            f"{json.dumps(name)}: {json.dumps(self.rows[name])}"
            for name in table()
            if name in self.rows
        )
        text = f'{json.dumps(head)[:-1]}, "rows": {{\n{rows}\n}}}}\n'
        with replacing(HERE, f"agreement-{self.engine}.json") as part:
            part.write_text(text, encoding="utf-8")


def stored(engine: str) -> Store | None:
    """The stored measurements of an engine, or None if there are none."""
    file = HERE / f"agreement-{engine}.json"
    if not file.exists():
        return None
    found = json.loads(file.read_text(encoding="utf-8"))
    known = found["machine"]
    ccs = tuple(known.get("ccs", ()))
    here = agreement.Machine(
        hz=known["hz"], like=known["like"], release=known["release"], ccs=ccs,
        key=known.get("key", ""),
    )  # fmt: skip
    return Store(engine, here, found["rows"])


def summary(runs: Sequence[RunJson]) -> dict[str, list[float]]:
    """Median and range of each metric over runs."""
    every = [agreement.figures(one) for one in runs]
    found = {}
    for label in every[0]:
        values = sorted(one[label] for one in every)
        half = len(values) // 2
        middle = values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2
        found[label] = [float(f"{x:.6g}") for x in (middle, values[-1] - values[0])]
    return found


def measure(store: Store, name: str, row: JsonObject, *, runs: int) -> None:
    """Runs a row with the engine of a store, and adds the result to the store."""
    what = scenario(name, row, store.machine)
    flagged: list[str] = []
    if store.engine == "linux":
        found = agreement.emulate(what, choose("linux", store.machine.key), runs=runs)
    else:
        found, flagged = agreement.measure(what, runs=runs)
    enough = len(found) >= agreement.LEAST_RUNS
    store.rows[name] = {
        "scenario": words(row),
        "runs": len(found),
        "flagged": flagged,
        "figures": summary(found) if enough else {},
    }


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The comparison of one metric of a row between two engines. Values are None if the metric was
    not measured.
    """

    name: str
    pair: Pair
    figure: str
    ours: float
    reference: float
    spread: float
    tolerance: float
    verdict: str


def compare_pair(
    name: str, pair: Pair, what: agreement.Subject, ours: JsonObject, reference: JsonObject
) -> Iterator[Compared]:
    """Compares the metrics of a pair of engines, from the median and range of each metric."""
    path = _core.path_numbers(what.tree)
    flows = sum(flow["count"] for flow in what.tree["flow"])
    for label, (mine, _) in ours.items():
        if reference and label not in reference:
            continue  # The reference has no value of this metric.
        median, spread = reference.get(label, (None, 0.0))
        known = [] if median is None else [median - spread / 2, median, median + spread / 2]
        verdict, middle, wide, own, tolerance = _core.compare_engines(
            label.partition(" ")[0],
            known,
            [mine],
            rate_mbit=path["rate_mbit"],
            rtt_ms=path["rtts_ms"][0],
            flows=flows,
        )
        yield Compared(
            name=name, pair=pair, figure=label, ours=own, reference=middle, spread=wide,
            tolerance=tolerance, verdict=verdict,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Found:
    """The comparison of all rows with all engines.

    Attributes:
        stores: The measured rows, by engine.
        metrics: The compared metrics.
        controls: For each engine and row, the metrics in which the negative control disagrees.
    """

    stores: dict[str, Store]
    metrics: list[Compared]
    controls: dict[str, dict[str, list[str]]]

    def of(self, pair: Pair) -> list[Compared]:
        """The compared metrics of a pair of engines."""
        return [one for one in self.metrics if one.pair == pair]

    @property
    def pairs(self) -> list[Pair]:
        """The pairs of engines that were compared."""
        return [pair for pair in agreement.PAIRS if self.of(pair)]

    def rows(self, engine: str) -> list[str]:
        """The names of the rows in which the simulator was compared with an engine."""
        return list(dict.fromkeys(one.name for one in self.of(("sim", engine))))

    def met(self) -> bool:
        """Whether, for each engine compared with the simulator, enough metrics agree, few enough
        are undecided, and every negative control disagrees.
        """
        return all(
            _enough(self.of(pair)) and all(self.controls[pair[1]].values())
            for pair in self.pairs
            if pair[0] == "sim"
        )


def _enough(metrics: Sequence[Compared]) -> bool:
    of = Counter(one.verdict for one in metrics)
    enough = of["agreed"] >= PART * (of["agreed"] + of["parted"])
    return enough and of["undecided"] <= OPEN * sum(of.values())


def compare(
    stores: Sequence[Store], *, only: str = "*", seeds: int = agreement.SEEDS, controls: bool = True
) -> Found:
    """Simulates the measured rows and compares them."""
    metrics: list[Compared] = []
    rejected: dict[str, dict[str, list[str]]] = {store.engine: {} for store in stores}
    for name, row in table().items():
        if not fnmatchcase(name, only):
            continue
        seen = {}
        for store in stores:
            measured = store.figures(name, row)
            if measured is None:
                continue
            seen[store.engine] = measured
            what = scenario(name, row, store.machine)
            pair = ("sim", store.engine)
            sim = summary(agreement.simulate(what, seeds=seeds))
            metrics += compare_pair(name, pair, what, sim, measured)
            if controls and "control" in row and measured:
                wrong = scenario(name, row | row["control"], store.machine)
                apart = summary(agreement.simulate(wrong, seeds=seeds))
                rejected[store.engine][name] = [
                    one.figure
                    for one in compare_pair(name, pair, what, apart, measured)
                    if one.verdict == "parted"
                ]
        if set(REFERENCES) <= set(seen) and all(seen.values()):
            metrics += compare_pair(name, ("linux", "live"), what, seen["linux"], seen["live"])
    return Found(
        stores={store.engine: store for store in stores}, metrics=metrics, controls=rejected
    )


SECONDS = 10
"""Duration of most rows, in s."""


def _short(value: Any) -> str:  # noqa: ANN401 - a value of TOML
    """A value of a row in short form.

    >>> _short({"kind": "codel", "ecn": True}), _short([{"at": "4s", "rate": "5Mbit"}])
    ('codel ecn', '4s 5Mbit')
    """
    if isinstance(value, dict):
        return " ".join(key if one is True else _short(one) for key, one in value.items())
    return ", ".join(map(_short, value)) if isinstance(value, list) else str(value)


def words(row: JsonObject) -> str:
    """A row in short form.

    >>> words({"cc": ["2 cubic"], "queue": "fifo", "rate": "5Mbit", "rtt": "9ms", "buffer": "1bdp",
    ...     "seconds": 10})
    '2 cubic; 5Mbit, 9ms, fifo 1bdp'
    """
    queue = _short(row["queue"])
    more = " ".join([queue, row["buffer"]] if "buffer" in row else [queue])
    for key in ("policer", "loss"):
        if key in row:
            more += f", {key} {row[key]['rate' if key == 'policer' else 'probability']}"
    for key in sorted(PATH & set(row) - {"rate", "rtt", "buffer", "queue", "policer", "loss"}):
        more += f", {key} {_short(row[key])}"
    if row.get("ecn"):
        more += ", ECN"
    if row["seconds"] != SECONDS:
        more += f", {row['seconds']} s"
    return f"{', '.join(row['cc'])}; {row['rate']}, {row['rtt']}, {more}"


RESULTS = {"agreed": "agreed", "parted": "**disagreed**", "undecided": "*undecided*"}
"""The words of the page for each verdict."""

UNITS = {
    "goodput_mbit": "Mbit/s",
    "srtt_ms": "ms",
    "cwnd_mean": "packets",
    "retransmit_pct": "%",
    "jain": "1",
    "ping_p50_ms": "ms",
    "ping_p95_ms": "ms",
}


def _titled(pair: Pair) -> str:
    """The heading for a pair of engines."""
    return f"{pair[0]} and {pair[1]}"


def markdown(found: Found) -> str:
    """The text of the page."""
    rows = table()
    lines = [
        "# Agreement of the engines",
        "",
        "This page compares the simulator (`sim`) with the TCP of a Linux kernel in virtual time.",
        "It also compares it with live runs of the TCP of a host (`live`). `make agree` runs the",
        "scenarios of [agreement.toml](../../validation/agreement.toml) and writes the page.",
        "",
        "| | linux | live |",
        "|---|---|---|",
    ]
    measured = [found.stores.get(engine) for engine in REFERENCES]

    def line(what: str, of: Any) -> str:  # noqa: ANN401 - a function of a store
        cells = ["not measured" if store is None else of(store) for store in measured]
        return f"| {what} | {' | '.join(cells)} |"

    def counted(store: Store, key: str) -> int:
        each = (store.rows[name] for name in found.rows(store.engine))
        return sum(one["runs"] if key == "runs" else len(one["flagged"]) for one in each)

    lines += [
        line("kernel", lambda s: f"Linux {s.machine.release}, {s.machine.hz} Hz"),
        line("hosts of the simulation", lambda s: f"`{s.machine.like}`, {s.machine.hz} Hz"),
        line("scenarios", lambda s: f"{len(found.rows(s.engine))} of {len(rows)}"),
        line("runs", lambda s: f"{counted(s, 'runs')}"),
        line(
            "repeated runs, not trusted by their self-check",
            lambda s: f"{counted(s, 'flagged')}",
        ),
        "",
    ]
    for store in filter(None, measured):
        absent = [name for name in rows if name not in found.rows(store.engine)]
        if absent:
            told = f"**Not measured with `{store.engine}`: {len(absent)} of {len(rows)}**: "
            told += f"{', '.join(absent)}."
            lines += [*textwrap.wrap(told, 100, break_on_hyphens=False), ""]
    heads = ("engines", "agreed", "disagreed", "undecided", "negative controls rejected")
    lines += [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for pair in found.pairs:
        of = Counter(one.verdict for one in found.of(pair))
        decided = max(of["agreed"] + of["parted"], 1)
        controls = found.controls[pair[1]] if pair[0] == "sim" else {}
        apart = f"{sum(map(bool, controls.values()))} of {len(controls)}" if controls else "–"
        lines.append(
            f"| {_titled(pair)} | {of['agreed']} ({100 * of['agreed'] / decided:.0f} % of the "
            f"decided metrics) | {of['parted']} | {of['undecided']} | {apart} |"
        )
    lines += [
        "",
        "A metric agrees if the medians of two engines differ by at most 10 %, or by an amount "
        "that is",
        "[too small to matter](../../core/src/metrics/engine_comparison.rs). It is undecided if "
        "the runs",
        "of the second engine differ from each other by more than 15 %.",
        "",
        "## Disagreements",
        "",
        *_listed(found, rows, "parted"),
        "",
        "## Undecided metrics",
        "",
        *_listed(found, rows, "undecided"),
        "",
        "## Negative controls",
        "",
        "The runs of a scenario are compared with the simulation of a different scenario.",
        "",
        "| scenario | changed to | rejected with linux by | rejected with live by |",
        "|---|---|---|---|",
    ]
    for name, row in rows.items():
        if "control" not in row:
            continue
        cells = [
            "not measured"
            if (by := found.controls.get(engine, {}).get(name)) is None
            else ", ".join(f"`{figure}`" for figure in by) or "**none**"
            for engine in REFERENCES
        ]
        wrong = ", ".join(
            f"{k} {v if isinstance(v, str) else ' '.join(v)}" for k, v in row["control"].items()
        )
        lines.append(f"| {name} | {wrong} | {' | '.join(cells)} |")
    lines += [
        "",
        "## Scenarios",
        "",
        "| name | scenario | linux runs | live runs | repeated live runs |",
        "|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        ran = [
            store.rows[name] if store and name in found.rows(store.engine) else None
            for store in measured
        ]
        cells = ["–" if one is None else str(one["runs"]) for one in ran]
        cells.append("–" if ran[1] is None else str(len(ran[1]["flagged"])))
        lines.append(f"| {name} | {words(row)} | {' | '.join(cells)} |")
    lines += ["", "## All metrics", "", *_metrics(found)]
    live = found.stores.get("live")
    flagged = [why for one in live.rows.values() for why in one["flagged"]] if live else []
    kinds = Counter(_kind(reason) for reason in flagged)
    if kinds:
        lines += ["", "## Reasons for repeated live runs", ""]
        lines += [f"- {count} times: {kind}." for kind, count in kinds.most_common()]
    return "\n".join(lines) + "\n"


def _metrics(found: Found) -> Iterator[str]:
    """The lines of the table of all metrics, with a column for each engine and each pair of
    engines.
    """
    heads = ["name", "metric", "unit", "sim", *found.stores]
    heads += [f"range of {engine}" for engine in found.stores] + [*map(_titled, found.pairs)]
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    by: dict[tuple[str, str], dict[Pair, Compared]] = {}
    for one in found.metrics:
        by.setdefault((one.name, one.figure), {})[one.pair] = one
    for (name, figure), pairs in by.items():
        references = [pairs.get(("sim", engine)) for engine in found.stores]
        sim = next(iter(pairs.values())).ours
        cells = [name, f"`{figure}`", UNITS[figure.partition(" ")[0]], number(sim)]
        cells += ["–" if one is None else number(one.reference) for one in references]
        cells += ["–" if one is None else number(one.spread) for one in references]
        cells += [RESULTS[pairs[pair].verdict] if pair in pairs else "–" for pair in found.pairs]
        yield f"| {' | '.join(cells)} |"


def _listed(found: Found, rows: JsonObject, verdict: str) -> list[str]:
    told = [
        "| name | scenario | engines | metric | first | second | range of the second | allowed "
        "difference |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in found.metrics:
        if one.verdict == verdict:
            cells = " | ".join(map(number, (one.ours, one.reference, one.spread, one.tolerance)))
            told.append(
                f"| {one.name} | {words(rows[one.name])} | {_titled(one.pair)} | `{one.figure}` | "
                f"{cells} |"
            )
    return told if len(told) > 2 else ["None."]  # noqa: PLR2004


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs rows and writes the page; returns 1 if a criterion is not met."""
    parser = argparse.ArgumentParser(prog="python -m validation.agreement", description=__doc__)
    parser.add_argument("--only", default="*", help="pattern of row names: 'bbr-*'")
    parser.add_argument(
        "--engines",
        default="sim,linux,live",
        help="engines to run (default: sim,linux,live); stored rows of the others remain",
    )
    parser.add_argument("--kernel", help="kernel of the engine linux (default: the newest)")
    parser.add_argument(
        "--runs", type=positive, default=agreement.RUNS, help="runs of each row (default: 5)"
    )
    parser.add_argument(
        "--seeds", type=positive, default=agreement.SEEDS, help="simulations of each (default: 15)"
    )
    parser.add_argument("--resume", action="store_true", help="continue an interrupted run")
    args = parser.parse_args(arguments)
    rows = table()
    wanted = [name for name in rows if fnmatchcase(name, args.only)]
    if not wanted:
        parser.error(f"there is no row {args.only}; there are {', '.join(rows)}")
    engines = args.engines.split(",")
    try:
        on = agreement.machines(engines, args.kernel) if len(engines) > 1 else {}
        if engines not in (["sim"], []) and not on:
            raise EngineError(f"--engines {args.engines}: write sim, or sim,linux or sim,live")
        if "live" in on:
            each = (scenario(name, rows[name], on["live"]).ccs for name in wanted)
            agreement.ready(sorted({cc for ccs in each for cc in ccs}))
    except NarrowsError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        for engine in REFERENCES:
            if engine in on:
                _measure_all(engine, on[engine], wanted, args)
    except KeyboardInterrupt:
        print("stopped; --resume continues the run", file=sys.stderr)
        return 130
    stores = [store for engine in REFERENCES if (store := stored(engine)) is not None]
    found = compare(stores, seeds=args.seeds)
    PAGE.write_text(markdown(found), encoding="utf-8")
    return int(not found.met())


def _measure_all(
    engine: str, here: agreement.Machine, wanted: Sequence[str], args: argparse.Namespace
) -> None:
    """Measures rows with an engine, and stores each row when it is complete."""
    rows = table()
    store = stored(engine) or Store(engine, here, {})
    if store.machine != here:
        # All rows of one file are from one kernel, so rows of another kernel are discarded.
        store = Store(engine, here, {} if replace(store.machine, ccs=()) != replace(here, ccs=())
                      else store.rows)  # fmt: skip
    for place, name in enumerate(wanted, 1):
        if args.resume and store.figures(name, rows[name]):
            continue
        begin = time.monotonic()
        measure(store, name, rows[name], runs=args.runs)
        store.save()
        flagged = len(store.rows[name]["flagged"])
        told = f"; {flagged} flagged" if flagged else ""
        print(
            f"{engine} {place}/{len(wanted)} {name}: {store.rows[name]['runs']} runs{told} "
            f"({time.monotonic() - begin:.0f} s)",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
