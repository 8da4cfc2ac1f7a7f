"""Makes the page with the claims of the documents on which narrows is based, each with a command
that tests it and the result.

    python -m validation.sources             writes docs/reference/sources.md from stored results
    python -m validation.sources --measure   also measures on this machine anew, seven minutes

With `--measure EXPERIMENT`, only this experiment is measured.

`sources.toml` has the claims and the place of each value. Values are stored in
docs/reference/reproduced.md, in tables of other pages, and, for live runs, in
evidence/sources-live.json. No value is part of `sources.toml`. A reason for a disagreement applies
to one side of the accepted range and near the values of its experiment, as in `misses.toml`.
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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from narrows.json_object import JsonObject
from narrows.reproduce.checks import Check, Miss, Outcome, experiments, misses
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
    reason = check.get("reason", "")
    if check["verdict"] == "outside":
        # From the present explanations, not from those at the time of the measurement.
        experiment = experiments()[name]
        declared = next(one for one in experiment.checks if one.id == id_)
        outcome = Outcome(
            experiment=experiment, ours={id_: check["ours"]}, quick=False,
            runs=document["runs"], seconds=document["took_s"], misses=misses(name),
        )  # fmt: skip
        reason = outcome.reason(declared)
    return Row(
        of=of,
        published=_with_unit(check["published"], check["unit"]),
        command=f"narrows reproduce {name} --engine live",
        ours=_with_unit(figure(check["ours"]), check["unit"]),
        agrees=agrees,
        why=why or reason,
    )


def ratio(claim: JsonObject, place: str) -> Row:
    """The row for the ratio of two cells of a table on another page."""
    file, column, over, under = place.split(":")
    values = [float(_text_at(file, column, name)) for name in (over, under)]
    found = _judged(claim, values[0] / values[1], figure(values[0] / values[1]))
    why = found.why or f"{column}: {figure(values[0])} and {figure(values[1])}"
    return replace(found, why=why)


def cell(claim: JsonObject, place: str) -> Row:
    """The row for one cell of a table on another page."""
    text = _text_at(*place.split(":"))
    return _judged(claim, float(text), text)


def word(claim: JsonObject, place: str) -> Row:
    """The row for a cell that contains a word."""
    text = _text_at(*place.split(":"))
    agrees = text in claim["accept"]
    why = "" if agrees else claim["why"]
    return Row(
        claim["of"], claim["published"], claim["command"], text, "yes" if agrees else "no", why
    )


def _text_at(file: str, column: str, row: str) -> str:
    """The text in a table of a page, Markdown or printed by a command, by the names of its column
    and row.

    >>> _text_at("docs/reference/algorithms.md", "family", "vegas")
    'delay'
    """
    lines = (HERE.parent / file).read_text(encoding="utf-8").splitlines()
    rows = [
        [text.strip("`") for text in cells(line)]
        if line.startswith("| ")
        else re.split(r"\s{2,}", line.strip())
        for line in lines
    ]
    at = next(row for row in rows if column in row).index(column)
    return next(one for one in rows if one[0] == row and len(one) > at)[at]


def _judged(claim: JsonObject, value: float, text: str) -> Row:
    """The row for a value on another page, with the reason if the value is outside and the reason
    applies to it.
    """
    least, most = claim["accept"]
    check = Check(
        id="", of=claim["of"], published=claim["published"], unit=claim["unit"],
        accept=(least, most),
    )  # fmt: skip
    inside, why = check.word(value) == "inside", ""
    if not inside:
        miss = Miss(
            why=claim["why"], evidence=place_of(claim), side=claim["side"],
            seen=tuple(claim["seen"]),
        )  # fmt: skip
        why = miss.why if miss.explains(check, value) else "not explained"
    return Row(
        of=check.of,
        published=_with_unit(check.published, check.unit),
        command=claim["command"],
        ours=_with_unit(text, check.unit),
        agrees="yes" if inside else "no",
        why=why,
    )


def place_of(claim: JsonObject) -> str:
    """The file that has the value of a claim."""
    return str(claim["figure"].split(":")[1])


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
    if kind in _PLACES:
        return _PLACES[kind](claim, place)
    return Row(of, claim.get("published", "–"), claim["command"], "–", claim["agrees"], why)


_PLACES = {"ratio": ratio, "cell": cell, "word": word}
"""The functions for values on other pages."""


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
        *textwrap.fill(
            f"Of {sum(counts.values())} claims, narrows agrees with {counts['yes']} and disagrees "
            f"with {counts['no']}. The other {counts['not judged']} values have no verdict: the "
            "setup is chosen for them, no value is published, or the device is not available. If a "
            "document has no value, *published* is the reference of the experiment, for example "
            "the range of runs of Linux.",
            98,
        ).splitlines(),
        "",
        *textwrap.fill(
            "*Agrees* is the verdict of [the reproduced experiments](reproduced.md), whose "
            "accepted ranges were fixed before the first run. The ranges of values from other "
            "pages were written when these values were known. Values of `--engine live` are "
            "those of one machine.",
            98,
        ).splitlines(),
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


def measure(names: Sequence[str]) -> None:
    """Measures experiments on this machine, and stores the JSON of each when it is complete."""
    own = Path(sys.executable).parent
    for name in names:
        command = ["narrows", "reproduce", name, "--engine", "live", "--anew", "--json"]
        print(" ".join(command), file=sys.stderr)
        done = subprocess.run(
            [str(own / command[0]), *command[1:], "--into", str(HERE.parent / "target/sources")],
            capture_output=True,
            text=True,
            check=False,
        )
        if not done.stdout:
            sys.exit(done.stderr)
        (document,) = json.loads(done.stdout)["experiments"]
        stored = json.loads(LIVE.read_text(encoding="utf-8"))["experiments"]
        by_name = {one["experiment"]: one for one in stored} | {name: document}
        kept = [by_name[one] for one in MEASURED if one in by_name]
        LIVE.write_text(json.dumps({"experiments": kept}, indent=1) + "\n", "utf-8")


def main() -> int:
    """Writes the page."""
    parser = argparse.ArgumentParser(prog="python -m validation.sources", description=__doc__)
    parser.add_argument(
        "--measure", nargs="*", choices=MEASURED, metavar="EXPERIMENT",
        help="measure these experiments, or all, on this machine first",
    )  # fmt: skip
    asked = parser.parse_args().measure
    if asked is not None:
        measure(asked or MEASURED)
    PAGE.write_text(written(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
