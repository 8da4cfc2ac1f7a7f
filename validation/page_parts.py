"""Divides the load time of a page beside twelve downloads into parts, for variants of the page.

    python -m validation.page_parts    writes evidence/page-beside-a-download.md

The variants change one property of scenarios/workload/page-beside-a-download.toml. The section
about wget is a recording of one live run and does not change.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from textwrap import fill

from narrows.json_object import JsonObject
from narrows.reproduce.lab import Lab
from narrows.runs.model import RunJson
from validation.stored import HERE

PAGE = HERE / "evidence/page-beside-a-download.md"
SCENARIO = HERE.parent / "scenarios/workload/page-beside-a-download.toml"
SEEDS = 6
BYTES, LINK_MBIT, PUBLISHED_S, PUBLISHED_PCT = 1.8e6, 20.0, 232.8, 99.6
WIDE_PACKETS = 30
"""An initial window that holds every object of equal sizes."""

WGET = """## wget over real packets

This is a recording of wget 1.21 on the same path with `--engine live`, Linux 6.18, and the twelve
streams of iperf3. The 20 objects have 567 KiB in total, from 10 to 113 kB. The server closes each
connection. The self-check passed: at most 97 µs late (p99).

```sh
narrows shell --down 20Mbit --rtt 45ms --buffer 2.5MB \\
    --far 'python3 -m http.server 8000 --directory objects' --near 'iperf3 -s -1' \\
    --far 'iperf3 -c near -C cubic -P 12 -t 160' -- sh -c 'sleep 12; wget -i list -O /dev/null'
```

| | wall clock, s | "Downloaded … in", s | share before |
|---|---|---|---|
| alone | 2.9 | 1.0 | 66 % |
| beside twelve streams (median queueing delay 891 ms) | 63 | 26 | 59 % |

The time that wget counts as download begins after the header of the response. It is `receiving_s`,
and the rest of the wall clock corresponds to `before_data_share`. Seven objects fit into the first
window of ten packets. wget downloaded six of them in 16 ms or less, and one in 1.2 s. The other
thirteen took 0.9 to 3.1 s each, because their next window waits for the queue again."""


@dataclass(frozen=True)
class Parts:
    """The parts of one page load.

    Attributes:
        page_s: Load time.
        setup_s: Time of look-ups and handshakes.
        waiting_s: Time from a request to the first byte of its response.
        receiving_s: Time from the first byte of a response to the last.
        setup_share: Share of the set-up.
        before_data_share: Share before the first byte of a response.
    """

    page_s: float
    setup_s: float
    waiting_s: float
    receiving_s: float
    setup_share: float
    before_data_share: float


def _changed(tree: JsonObject, page: JsonObject, host: JsonObject | None = None) -> JsonObject:
    """The scenario with changed keys of the page's workload and of the hosts."""
    first, *rest = tree["flow"]
    first = first | {"workload": first["workload"] | page}
    return tree | {"flow": [first, *rest], "host": tree["host"] | (host or {})}


def variants() -> dict[str, JsonObject]:
    """The scenarios by the name of the variant."""
    tree: JsonObject = tomllib.loads(SCENARIO.read_text(encoding="utf-8"))
    return {
        "as in the scenario": tree,
        "a name to look up for each object (`hosts = 62`)": _changed(tree, {"hosts": 62}),
        'objects of one size (`spread = "even"`)': _changed(tree, {"spread": "even"}),
        f"of one size, with `[host] iw = {WIDE_PACKETS}`": _changed(
            tree, {"spread": "even"}, {"iw": WIDE_PACKETS}
        ),
        "without the downloads": tree | {"flow": tree["flow"][:1]},
    }


def parts(figures: RunJson) -> Parts:
    """The parts of the page load of a run."""
    (metrics,) = [flow["workload"] for flow in figures["flows"] if "workload" in flow]
    return Parts(
        metrics["page_load_s"]["mean"],
        *(metrics[key] for key in ("setup_s", "waiting_s", "receiving_s")),
        *(metrics[key] for key in ("setup_share", "before_data_share")),
    )


def _beyond_pct(page_s: float) -> float:
    """The share of a load time that is not the transmission of the bytes, in percent."""
    return 100 * (1 - BYTES * 8e-6 / LINK_MBIT / page_s)


def _cell(values: Sequence[float], form: str) -> str:
    return f"{median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def page(found: dict[str, list[Parts]]) -> str:
    """The text of the page."""
    beyond = [_beyond_pct(one.page_s) for runs in found.values() for one in runs]
    beside, alone = beyond[:-SEEDS], beyond[-SEEDS:]
    bytes_s = PUBLISHED_S * (1 - PUBLISHED_PCT / 100)
    lines = [
        "# Parts of the load time of a page beside downloads",
        "",
        "This command writes the page:",
        "",
        "```console",
        "$ python -m validation.page_parts",
        "```",
        "",
        *fill(
            f"A document reports that wget fetches 62 objects of 1.8 MB in 8 s, and in "
            f"{PUBLISHED_S} s beside twelve streams. It attributes {PUBLISHED_PCT} % of this time "
            "to the set-up of connections. The simulator reproduces the times with [the "
            "scenario](../../scenarios/workload/page-beside-a-download.toml). No share that "
            f"divides the time of a connection is {PUBLISHED_PCT} % on this path, neither in the "
            "simulator nor with wget.",
            98,
        ).splitlines(),
        "",
        "## Simulation",
        "",
        f"Each cell has the median of {SEEDS} seeds, and the smallest and the largest value.",
        "",
        "| page | load time, s | look-ups and handshakes, s | waiting, s | receiving, s | "
        "`setup_share`, % | `before_data_share`, % |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, runs in found.items():
        row = [
            _cell([one.page_s for one in runs], ".1f"),
            _cell([one.setup_s for one in runs], ".1f"),
            _cell([one.waiting_s for one in runs], ".1f"),
            _cell([one.receiving_s for one in runs], ".1f"),
            _cell([100 * one.setup_share for one in runs], ".1f"),
            _cell([100 * one.before_data_share for one in runs], ".1f"),
        ]
        lines.append(f"| {name} | {' | '.join(row)} |")
    lines += [
        "",
        *WGET.splitlines(),
        "",
        "## The published share",
        "",
        *fill(
            f"The rest of {PUBLISHED_PCT} % of {PUBLISHED_S} s is {bytes_s:.2f} s. The "
            f"transmission of 1.8 MB takes as long at {BYTES * 8e-6 / bytes_s:.1f} Mbit/s; at the "
            f"{LINK_MBIT:.0f} Mbit/s of this path it takes {BYTES * 8e-6 / LINK_MBIT:.2f} s. So "
            "the published share can be "
            "that of all time beyond the transmission of the bytes. With this definition, every "
            f"page beside the downloads above has {min(beside):.1f} to {max(beside):.1f} %, and "
            f"the page without them has {min(alone):.0f} %. The document does not state its "
            "definition.",
            98,
        ).splitlines(),
    ]
    return "\n".join(lines) + "\n"


def written() -> str:
    """The text of the page from new simulations."""
    runs = Lab().play(variants(), seeds=SEEDS)
    return page({name: [parts(one) for one in own] for name, own in runs.items()})


def main() -> int:
    """Writes the page."""
    argparse.ArgumentParser(prog="python -m validation.page_parts").parse_args()
    PAGE.write_text(written(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
