"""Makes the page with the claims of the documents on which narrows is based, each with a command
that tests it and the result.

    python -m validation.sources             writes docs/reference/sources.md from stored results
    python -m validation.sources --measure   also measures on this machine anew, 20 minutes

`sources.toml` has the claims and the place of each value. Values are stored in
docs/reference/reproduced.md, in tables of other pages, and, for live runs, in
evidence/sources-live.json. No value is part of `sources.toml`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import textwrap
import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from narrows.json_object import JsonObject
from narrows.reproduce.checks import experiments
from narrows.reproduce.render import figure
from validation.stored import HERE

CLAIMS = HERE / "sources.toml"
LIVE = HERE / "evidence/sources-live.json"
PAGE = HERE.parent / "docs/reference/sources.md"
REPRODUCED = HERE.parent / "docs/reference/reproduced.md"
MEASURED = ("response-time", "page-under-load")
"""The experiments that need the engine `live`."""

_VERDICTS = {"inside": "yes", "OUTSIDE": "no", "outside": "no", "not judged": "not judged"}


@dataclass(frozen=True)
class Row:
    """A claim with its result.

    Attributes:
        of: The claim in words.
        published: The published value.
        command: The command that computes the value.
        ours: The value of narrows.
        agrees: `yes`, `no` or `not judged`.
        why: The reason, or an empty text.
    """

    of: str
    published: str
    command: str
    ours: str
    agrees: str
    why: str


def cells(line: str) -> list[str]:
    """The cells of a line of a Markdown table."""
    return [cell.strip() for cell in line.strip().strip("|").split(" | ")]


@cache
def _section(name: str) -> tuple[str, ...]:
    """The lines about an experiment in docs/reference/reproduced.md.

    Raises:
        ValueError: If the page has no such experiment.
    """
    _, found, rest = REPRODUCED.read_text(encoding="utf-8").partition(f"\n## {name}\n")
    if not found:
        raise ValueError(f"{REPRODUCED.name} has no experiment {name}; run make reproduce")
    return tuple(rest.partition("\n## ")[0].splitlines())


def reproduced(of: str, place: str, why: str) -> Row:
    """The row for a check in docs/reference/reproduced.md."""
    name, _, id_ = place.partition("/")
    check = next(one for one in experiments()[name].checks if one.id == id_)
    lines = [cells(line) for line in _section(name) if line.startswith("| ")]
    own = [row for row in lines if row[0] == check.of]
    row = next(row for row in own if len(row) == 6 and row[2] == check.published)  # noqa: PLR2004
    reason = next((other[1] for other in own if len(other) == 3), "")  # noqa: PLR2004
    return Row(
        of=of,
        published=_with_unit(check.published, check.unit),
        command=f"narrows reproduce {name}",
        ours=_with_unit(row[4], check.unit),
        agrees=_VERDICTS[row[5]],
        why=why or reason,
    )


def live(of: str, place: str, why: str) -> Row:
    """The row for a stored live measurement."""
    name, _, id_ = place.partition("/")
    stored: JsonObject = json.loads(LIVE.read_text(encoding="utf-8"))
    document = next(one for one in stored["experiments"] if one["experiment"] == name)
    check = next(one for one in document["checks"] if one["id"] == id_)
    agrees = _VERDICTS.get(check["verdict"], "not judged")
    return Row(
        of=of,
        published=_with_unit(check["published"], check["unit"]),
        command=f"narrows reproduce {name} --engine live",
        ours=_with_unit(figure(check["ours"]), check["unit"]),
        agrees=agrees,
        why=why or check.get("reason", ""),
    )


def ratio(of: str, place: str, claim: JsonObject) -> Row:
    """The row for the ratio of two cells of a table on another page."""
    file, column, over, under = place.split(":")
    lines = (HERE.parent / file).read_text(encoding="utf-8").splitlines()
    rows = [cells(line) for line in lines if line.startswith("| ")]
    at = next(row for row in rows if column in row).index(column)
    values = [float(next(row for row in rows if row[0] == name)[at]) for name in (over, under)]
    value = values[0] / values[1]
    least, most = claim["accept"]
    return Row(
        of=of,
        published=claim["published"],
        command=claim["command"],
        ours=_with_unit(figure(value), claim["unit"]),
        agrees="yes" if least <= value <= most else "no",
        why=claim.get("why", f"{column}: {figure(values[0])} and {figure(values[1])}"),
    )


def cell(of: str, place: str, claim: JsonObject) -> Row:
    """The row for one cell of a table on another page."""
    file, column, name = place.split(":")
    lines = (HERE.parent / file).read_text(encoding="utf-8").splitlines()
    rows = [cells(line) for line in lines if line.startswith("| ")]
    at = next(row for row in rows if column in row).index(column)
    text = next(row for row in rows if row[0] == name)[at]
    least, most = claim["accept"]
    return Row(
        of=of,
        published=_with_unit(claim["published"], claim["unit"]),
        command=claim["command"],
        ours=_with_unit(text, claim["unit"]),
        agrees="yes" if least <= float(text) <= most else "no",
        why=claim.get("why", ""),
    )


def _with_unit(value: str, unit: str) -> str:
    """A value with its unit; texts already have one.

    >>> _with_unit("15.3", "%"), _with_unit("1 to 2 s", "ms"), _with_unit("0.5–1", "BDP")
    ('15.3 %', '1 to 2 s', '0.5–1 BDP')
    """
    return (
        f"{value} {unit}".strip() if re.fullmatch(r"[-−<>≤≥ \d.,–]+|\d+ to \d+", value) else value
    )


def row(claim: JsonObject) -> Row:
    """The row for a claim of `sources.toml`."""
    kind, _, place = claim["figure"].partition(":")
    of, why = claim["of"], claim.get("why", "")
    if kind == "reproduced":
        return reproduced(of, place, why)
    if kind == "live":
        return live(of, place, why)
    if kind == "ratio":
        return ratio(of, place, claim)
    if kind == "cell":
        return cell(of, place, claim)
    return Row(of, "–", claim["command"], "–", claim["agrees"], why)


def page(claims: dict[str, Any]) -> str:
    """The text of the page."""
    found = [(source, [row(claim) for claim in source["claim"]]) for source in claims["source"]]
    counts = Counter(one.agrees for _, rows in found for one in rows)
    lines = [
        "# The sources, point by point",
        "",
        "narrows goes back to five documents. This page lists their claims, the command of narrows",
        "that tests each claim, and the result. `python -m validation.sources` writes the page",
        "from stored results. [sources.toml](../../validation/sources.toml) names the place of",
        "each value.",
        "",
        f"Of {sum(counts.values())} claims, narrows agrees with {counts['yes']} and disagrees with "
        f"{counts['no']}. The other {counts['not judged']} values",
        "have no verdict, because the setup is chosen for them or no value is published.",
        "",
        "*Agrees* is the verdict of [the reproduced experiments](reproduced.md), whose accepted",
        "ranges were fixed before the first run. Values of `--engine live` are those of one",
        "machine.",
    ]
    for source, rows in found:
        lines += [
            "",
            f"## {source['name']}",
            "",
            textwrap.fill(f"Source: {source['about']}.", 100),
            "",
        ]
        lines += [
            "| claim | published | narrows | agrees | why | command |",
            "|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {one.of} | {one.published} | {one.ours} | {one.agrees} | {one.why or '–'} | "
            f"`{one.command}` |"
            for one in rows
        ]
    return "\n".join(lines) + "\n"


def written() -> str:
    """The text of the page from the stored results."""
    return page(tomllib.loads(CLAIMS.read_text(encoding="utf-8")))


def measure() -> None:
    """Measures the experiments of `MEASURED` on this machine, and stores their JSON."""
    documents = []
    for name in MEASURED:
        command = ["narrows", "reproduce", name, "--engine", "live", "--anew", "--json"]
        own = Path(sys.executable).parent
        done = subprocess.run(
            [str(own / command[0]), *command[1:], "--into", str(HERE.parent / "target/sources")],
            capture_output=True,
            text=True,
            check=False,
        )
        if not done.stdout:
            sys.exit(done.stderr)
        documents += json.loads(done.stdout)["experiments"]
    LIVE.write_text(json.dumps({"experiments": documents}, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """Writes the page."""
    parser = argparse.ArgumentParser(prog="python -m validation.sources", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="measure this machine first")
    if parser.parse_args().measure:
        measure()
    PAGE.write_text(written(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
