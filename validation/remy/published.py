"""Measures published rule trees on the dumbbell, and writes their section of the page.

`published.toml` has the names and hashes of the files. `published.json` has the results.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from narrows import _core
from narrows.json_object import JsonObject
from validation.stored import HERE

TREES = HERE / "remy/published.toml"
RESULTS = HERE / "remy/published.json"


def measure(folder: Path, of: Callable[[str], list[tuple[float, float]]]) -> None:
    """Stores the results of the trees in a folder. `of` returns throughput and queueing delay of a
    tree for each workload.
    """
    results = []
    for tree in tomllib.loads(TREES.read_text(encoding="utf-8"))["tree"]:
        content = (folder / tree["file"]).read_bytes()
        if hashlib.sha256(content).hexdigest() != tree["sha256"]:
            sys.exit(f"{folder / tree['file']}: not the file of {TREES.name}")
        text, rules = _core.remy_from_dna(content, tree["file"])
        results.append({"file": tree["file"], "rules": rules, "workloads": of(text)})
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def section(
    workloads: list[str],
    table: Callable[[list[str], list[list[str]]], list[str]],
    text: Callable[[str], list[str]],
) -> list[str]:
    """The lines of the page, from stored results."""
    results: list[JsonObject] = json.loads(RESULTS.read_text(encoding="utf-8"))
    source = tomllib.loads(TREES.read_text(encoding="utf-8"))
    sums = {tree["file"]: tree["sha256"] for tree in source["tree"]}
    lines = [
        "",
        "## Published trees",
        "",
        *text(
            "The authors of Remy published rule trees in the folder `tests` of "
            "[their repository](https://github.com/tcpexmachina/remy). The trees of 2013 are those "
            "of the paper; `delta` is the weight of the delay in their objective. narrows does not "
            "include them, because of their licence (GPL-3.0 or later). `narrows remy FILE.dna -o "
            "FILE.remy` converts them. On the dumbbell, a larger weight of the delay gives less "
            "throughput and a shorter queueing delay, as in the paper."
        ),
        "",
    ]
    heads = ["tree", "rules"]
    for workload in workloads:
        heads += [f"{workload}: throughput Mbit/s", "queueing delay ms"]
    rows = []
    for one in results:
        values = [
            f"{value:.{digits}f}"
            for pair in one["workloads"]
            for value, digits in zip(pair, (2, 1), strict=True)
        ]
        rows.append([f"`{one['file']}`", str(one["rules"]), *values])
    lines += table(heads, rows)
    lines += ["", "| tree | SHA-256 |", "|---|---|"]
    lines += [f"| `{name}` | `{sum_}` |" for name, sum_ in sums.items()]
    lines += [
        "",
        "To measure them again:",
        "",
        "```sh",
        "git clone https://github.com/tcpexmachina/remy",
        "python -m validation.remy --published remy/tests",
        "```",
    ]
    return lines
