"""Renders the outcomes of experiments in the terminal, as an HTML page, and as a Markdown page for
the documentation.
"""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Sequence

from narrows.render import tables
from narrows.render.styled import table
from narrows.render.terminal import console
from narrows.render.words import HALF
from narrows.reproduce.checks import Check, Outcome, Word
from narrows.runs.engines import SIM

_MARKS: dict[Word, str] = {
    "inside": "inside",
    "outside": "OUTSIDE",
    "shown": "not judged",
    "failed": "FAILED",
    "left out": "left out",
}
_FEW, _MANY = 10, 1000


def figure(value: float | None) -> str:
    """A number with three significant digits, or without a fraction from 1000 on; "never" for
    infinity.

    >>> figure(0.03456), figure(94.27), figure(301234.0), figure(None), figure(-0.512)
    ('0.0346', '94.3', '301234', '–', '−0.512')
    """
    if value is None:
        return "–"
    if math.isinf(value):
        return "never"
    text = f"{value:.0f}" if abs(value) >= _MANY or value == int(value) else f"{value:.3g}"
    return text.replace("-", "−")


def with_interval(value: float | None, half: float | None) -> str:
    """A value with the half-width of its confidence interval, if there is one.

    >>> with_interval(94.27, 1.234), with_interval(0.5, None)
    ('94.3 ± 1.2', '0.5')
    """
    return figure(value) if half is None else f"{figure(value)} ± {half:.2g}"


def accepted(check: Check) -> str:
    """The accepted range of a check as text."""
    if check.accept is None:
        return "–"
    least, most = (figure(end) for end in check.accept)
    return least if least == most else f"{least} to {most}"


_QUICK = (
    " This was a quick run, with fewer paths and seeds and shorter simulations. The full run is "
    "decisive."
)


def verdict(outcomes: Sequence[Outcome]) -> str:
    """The overall result of the experiments in a few sentences."""
    inside, outside = (sum(one.count(word) for one in outcomes) for word in ("inside", "outside"))
    judged = inside + outside
    known = sum(
        1
        for one in outcomes
        for check, _, word in one.words()
        if word == "outside" and one.explained(check) is not None
    )
    failed = sum(one.count("failed") for one in outcomes)
    share = f"{100 * inside / judged:.1f} %" if judged else "none"
    rest = (
        f" Further experiments, named with each explanation, explain {known} of the {outside} "
        "values outside."
        if outside
        else ""
    )
    rest += f" Not determined: {failed}." if failed else ""
    of = f"{len(outcomes)} experiment{'s' if len(outcomes) != 1 else ''}"
    return (
        f"{inside} of {judged} published values ({share}) of {of} are within the range that was "
        "accepted before "
        f"the first run.{rest}{_QUICK if any(one.quick for one in outcomes) else ''}"
    )


def name_of(outcome: Outcome) -> str:
    """Name of the experiment, with the engine if it is not the simulator."""
    engine = outcome.engine
    if engine == SIM:
        return outcome.experiment.name
    kernel = f" {engine.kernel_name}" if engine.kernel_name is not None else ""
    return f"{outcome.experiment.name}, engine {engine.name}{kernel}"


def measured_by(outcome: Outcome) -> str:
    """Head of the column of the figures: `narrows` for the simulator, otherwise the engine."""
    engine = outcome.engine
    return "narrows" if engine == SIM else " ".join(filter(None, (engine.name, engine.kernel_name)))


def sentence(outcome: Outcome) -> str:
    """The result of one experiment in a sentence."""
    inside, outside = outcome.count("inside"), outcome.count("outside")
    name, judged = name_of(outcome), inside + outside
    return f"{name}: {inside} of {judged} inside ({outcome.runs} runs)"


def reasons(outcome: Outcome) -> list[tuple[Check, str, str]]:
    """Each check with a reason why its figure is outside its range or missing, and the file with
    the evidence, if there is one.
    """
    found = []
    for check, _, word in outcome.words():
        miss = outcome.explained(check) if word == "outside" else None
        if why := outcome.reason(check):
            found.append((check, why, miss.evidence if miss is not None else ""))
    return found


def markdown(outcomes: Sequence[Outcome], command: str, up: str = "../..") -> str:
    """A page of the documentation; `up` is the relative path to the root of the repository."""
    lines = [
        "# Reproduction of published experiments",
        "",
        "This page compares published results with simulations of the same experiments.",
        f"`{command}` runs them and writes it ([how-to](../how-to/reproduce.md)).",
        "",
        "The published values and the accepted ranges are in",
        f"[experiments.toml]({up}/python/narrows/data/experiments.toml), which was committed "
        "before the",
        "first run. A value of narrows is the median over the seeds. The simulated hosts are "
        "those of the",
        "experiment.",
        "",
        textwrap.fill(verdict(outcomes), 100),
        "",
        "| experiment | topic | inside | outside |",
        "|---|---|---|---|",
    ]
    for one in outcomes:
        name = name_of(one)
        lines.append(
            f"| [{name}](#{anchor(name)}) | {one.experiment.title} | {one.count('inside')} | "
            f"{one.count('outside')} |"
        )
    for one in outcomes:
        lines += [
            "",
            f"## {name_of(one)}",
            "",
            textwrap.fill(f"{one.experiment.title}.", 100),
            "",
            "| | |",
            "|---|---|",
            f"| source | {one.experiment.source} |",
            f"| setup | {one.experiment.setup} |",
            f"| runs | {one.runs} |",
            "",
            f"| metric | unit | published | accepted | {measured_by(one)} | result |",
            "|---|---|---|---|---|---|",
        ]
        for check, ours, word in one.words():
            row = (
                check.of,
                check.unit,
                check.published,
                accepted(check),
                with_interval(ours, one.half(check)),
                _MARKS[word],
            )
            lines.append(f"| {' | '.join(row)} |")
        if whys := reasons(one):
            lines += ["", "| metric | explanation | evidence |", "|---|---|---|"]
        for check, why, evidence in whys:
            link = f"[{evidence.rpartition('/')[2]}]({up}/{evidence})" if evidence else "–"
            lines.append(f"| {check.of} | {why} | {link} |")
        for grid in one.tables:
            lines += ["", f"{grid.title}:", "", f"| {' | '.join(map(_cell, grid.heads))} |"]
            lines.append(f"|{'---|' * len(grid.heads)}")
            lines += [f"| {' | '.join(map(_cell, row))} |" for row in grid.rows]
    return "\n".join(lines) + "\n"


def anchor(heading: str) -> str:
    """The anchor of a heading.

    >>> anchor("page-under-load, engine linux 6.12")
    'page-under-load-engine-linux-612'
    """
    kept = "".join(c for c in heading.lower() if c.isalnum() or c in "- _")
    return kept.replace(" ", "-")


def _cell(text: str) -> str:
    """A cell of a Markdown table, in which `|` separates cells."""
    return text.replace("|", "\\|")


_STYLE = """
:root { color-scheme: light dark; --in: #0a7d4b; --out: #b3261e; --line: #8886; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1rem;
  font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top; }
td.n { text-align: right; white-space: nowrap; }
.inside { color: var(--in); } .outside, .failed { color: var(--out); font-weight: 600; }
@media (prefers-color-scheme: dark) { :root { --in: #4cc38a; --out: #ff8a80; } }
small { opacity: .8; } svg { display: block; } .wide { overflow-x: auto; }
"""


def strip(check: Check, ours: float | None) -> str:
    """A small SVG picture: the accepted range as a bar and the value of narrows as a dot."""
    if check.accept is None or ours is None or math.isinf(ours):
        return ""
    least, most = check.accept
    reach = (most - least) or max(abs(most), 1.0)
    at = 30 + 60 * (ours - least) / reach
    word = check.word(ours).removesuffix("side")
    return (
        '<svg width="120" height="16" role="img" aria-label="bar: accepted range, dot: narrows">'
        f'<rect x="30" y="5" width="{60 if most > least else 2}" height="6" rx="3" '
        'fill="currentColor" opacity=".25"/>'
        f'<circle cx="{min(max(at, 5), 115):.1f}" cy="8" r="4" fill="var(--{word})"/></svg>'
    )


def page(outcomes: Sequence[Outcome], command: str) -> str:
    """A self-contained HTML page with the outcomes."""
    out = [
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" '
        'content="width=device-width">',
        f"<title>Reproduction of published experiments</title><style>{_STYLE}</style>",
        "<h1>Reproduction of published experiments</h1>",
        f"<p><strong>{html.escape(verdict(outcomes))}</strong></p>",
        f"<p><small>Generated by <code>{html.escape(command)}</code>, narrows "
        f"{html.escape(outcomes[0].made)}. "
        "The accepted ranges were committed before the first run. Bar: accepted range; dot: "
        "narrows.</small></p>",
    ]
    for one in outcomes:
        about = one.experiment
        out.append(
            "<h2 "
            f'id="{anchor(name_of(one))}">{html.escape(name_of(one))}</h2>'
            f"<p>{html.escape(about.title)}.<br>"
        )
        out.append(
            f"<small>Source: {html.escape(about.source)}.<br>Setup: "
            f"{html.escape(about.setup)}.</small></p>"
        )
        heads = ("metric", "published", "accepted", measured_by(one), "unit", "", "result")
        out.append(
            '<div class="wide"><table><tr>'
            + "".join(f"<th scope=col>{head}</th>" for head in heads)
            + "</tr>"
        )
        for check, ours, word in one.words():
            shown_figure = with_interval(ours, one.half(check))
            cells = (check.of, check.published, accepted(check), shown_figure, check.unit)
            shown = "".join(
                f'<td class="{"n" if 0 < n < len(cells) - 1 else ""}">{html.escape(cell)}</td>'
                for n, cell in enumerate(cells)
            )
            mark = f'<td class="{word.replace(" ", "-")}">{_MARKS[word]}</td>'
            out.append(f"<tr>{shown}<td>{strip(check, ours)}</td>{mark}</tr>")
        out.append("</table></div>")
        for check, why, evidence in reasons(one):
            told = f"{why} (in the repository: {evidence})" if evidence else f"{why}."
            out.append(f"<p><em>{html.escape(check.of)}</em>: {html.escape(told)}</p>")
        for grid in one.tables:
            lines = [("th scope=col", grid.heads), *(("td", row) for row in grid.rows)]
            out.append(f'<p>{html.escape(grid.title)}:</p><div class="wide"><table>')
            out += [
                "<tr>" + "".join(f"<{tag}>{html.escape(text)}</{tag[:2]}>" for text in row)
                for tag, row in lines
            ]
            out.append("</table></div>")
    return "\n".join(out) + "</html>\n"


def tell(outcomes: Sequence[Outcome]) -> None:
    """Prints the outcomes in the terminal."""
    out = console()
    for outcome in outcomes:
        of = "" if outcome.engine == SIM else f" ({name_of(outcome)})"
        out.print(f"{outcome.experiment.title}{of}.", style="bold")
        out.print(f"Source: {outcome.experiment.source}.")
        rows = [
            [
                tables.Cell(check.of),
                tables.Cell(word),
                *map(
                    tables.Cell,
                    (
                        check.published,
                        accepted(check),
                        with_interval(ours, outcome.half(check)),
                        check.unit,
                    ),
                ),
            ]
            for check, ours, word in outcome.words()
        ]
        table(
            out,
            tables.Table(
                "",
                ("metric", "verdict"),
                ("published", "accepted", measured_by(outcome), "unit"),
                rows,
            ),
        )
        for check, why, evidence in reasons(outcome):
            out.print(
                f"{check.of}: {why}{f' (in the repository: {evidence})' if evidence else ''}",
                markup=False,
            )
        for grid in outcome.tables:
            out.print(f"\n{grid.title}:", markup=False)
            cells = [[tables.Cell(text) for text in row] for row in grid.rows]
            table(out, tables.Table("", grid.heads[:1], grid.heads[1:], cells))
        out.print(f"{sentence(outcome)}\n")
    if any(outcome.replications for outcome in outcomes):
        out.print(f"{HALF}\n")
    out.print(verdict(outcomes), style="bold")
