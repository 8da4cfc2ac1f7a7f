"""Output of a recommendation in the terminal and as a report."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from narrows.advise.asked import CARED, Place
from narrows.advise.candidates import UNCHANGED
from narrows.advise.trial import (
    PACKETS,
    SETTINGS_SAID,
    Trial,
    affordable,
    packets,
    scenario,
    side,
)
from narrows.advise.utility import PAGE_BYTES
from narrows.advise.verdict import WORTH, Advice, Effect, Row, claim, worse
from narrows.render import tables
from narrows.render.report import document, write
from narrows.render.styled import table as draw
from narrows.render.tables import Cell, significant
from narrows.render.words import REFERENCE, differences, listed
from narrows.runs.run import run

if TYPE_CHECKING:
    from os import PathLike

    from rich.console import Console

    from narrows.runs.model import EvidenceJson

DEADLINE = "the last round of simulations was not run."


def headline(advice: Advice) -> str:
    """The recommendation in one line."""
    if not advice.leave:
        what = (
            advice.choice.says
            if advice.choice.cc is None
            else f"{advice.choice.cc} instead of {_now(advice)}"
        )
        main = claim(advice.effects, advice.found.asked.cares)
        named = [] if main is None else [main, *worse(advice.effects)]
        why = "; ".join(
            f"{e.says} from {_amount(e.before)} to {_amount(e.after)} {e.unit}" for e in named
        )
        return f"Use {what}{f': {why}' if why else ''}."
    return f"Change nothing: {_unchanged(advice)}."


def _unchanged(advice: Advice) -> str:
    """The reason to change nothing."""
    best, better = advice.best, list(advice.shown)
    if len(advice.found.candidates) == 1:
        return "the kernel supports no other candidate for this role"
    if best.present and not better:
        return "no candidate that can be recommended was better"
    if best.present:
        has, why = (
            ("has", f"is not recommended because {advice.shown[better[0]]}")
            if len(better) == 1
            else ("have", "are not recommended for the reasons below")
        )
        return f"{listed(better)} {has} a higher utility, but {why}; no other candidate was better"
    name = f"the best alternative{' that can be recommended' if better else ''}, {best.key},"
    gain = (advice.found.utility(best.key) or 0.0) / (
        advice.found.utility(advice.found.present) or 1.0
    ) - 1
    if gain <= 0:
        return f"{name} reduces the utility by {-100 * gain:.0f} %"
    if gain < WORTH:
        return f"{name} improves the utility by only {100 * gain:.1f} %"
    doubt = next((row.why_not for row in advice.rows if row.key == best.key and row.why_not), "")
    return (
        f"{name} improves the mean utility by {100 * gain:.1f} %, "
        f"{f'but {doubt}' if doubt else 'which is within the uncertainty'}"
    )


def shown(key: str) -> str:
    """The name of a candidate.

    >>> shown("bbr"), shown("as it is")
    ('bbr', 'no change')
    """
    return "no change" if key == UNCHANGED else key


def _amount(value: float) -> str:
    return f"{value:.3g}"


def _now(advice: Advice) -> str:
    return advice.found.asked.now


def path_line(place: Place) -> str:
    """The path in a line.

    >>> from narrows.advise.asked import stated
    >>> from narrows.runs.scenario import Path
    >>> path_line(stated(Path(rate="50Mbit", rtt="40ms", buffer="2bdp", loss="1%")))
    'Path (stated): 50 Mbit/s, 40 ms, a buffer of 2 BDP, 1 % random loss.'
    >>> path_line(stated(Path(rate="50Mbit", rtt="40ms")))
    'Path (stated): 50 Mbit/s, 40 ms, variants: a buffer of 1bdp, a buffer of \
0.3bdp, a buffer of 4bdp.'
    """
    likeliest, *others = place.variants
    parts = [f"{place.rate_mbit:g} Mbit/s", f"{place.rtt_ms:g} ms"]
    if likeliest.why:
        # If the first variant is an assumption, no variant is more likely than the others.
        parts.append(f"variants: {', '.join(v.why for v in place.variants)}")
        others = []
    elif place.buffer_bdp is not None:
        kilobytes = place.buffer_bdp * place.rate_mbit * place.rtt_ms / 8
        parts.append(
            f"a buffer of {place.buffer_bdp:.3g} BDP"
            + (f" ({float(f'{kilobytes:.3g}'):g} kB)" if place.inferred else "")
        )
    if place.loss > 0:
        parts.append(f"{100 * place.loss:.2g} % random loss")
    also = (
        f"; also tried: {', '.join(v.why for v in others)}. Each value is a mean over these paths"
        if others
        else ""
    )
    return f"Path ({place.source}): {', '.join(parts)}{also}."


_MARKS = {"fastest": "highest goodput"}
"""Marks whose text differs from the name in the JSON object."""

GOALS = {
    "bulk": "bulk transfer",
    "pages": "page loads",
    "calls": "calls",
    "fairness": "fairness",
    "retransmissions": "few retransmissions",
}
"""Names of the goals."""


def sentences(advice: Advice) -> list[str]:
    """The explanation of the recommendation."""
    found = advice.found
    asked = found.asked
    goals = listed([GOALS[care] for care in asked.cares])
    default = " (default of this role)" if asked.cares == CARED[asked.role] else ""
    said = [f"Role: {asked.role}. Goal: {goals}{default}. Kernel: {advice.has.says}."]
    said += [f"Not known: {what}." for what in asked.place.open]
    said += _fastest(advice)
    said += [
        f"{shown(row.key)} is not recommended because {row.why_not}."
        for row in advice.rows
        if row.why_not and row.key != advice.fastest
    ]
    if advice.lacking:
        modules = sorted({module for of in advice.lacking.values() for module in of})
        said.append(
            f"Not simulated: {', '.join(advice.lacking)}. The kernel has no "
            f"{listed(modules, 'or')}, and narrows knows no package that contains "
            f"{'it' if len(modules) == 1 else 'them'}. To simulate the kernel of another host, use "
            "--kernel 6.12."
        )
    if advice.choice.needs:
        said.append(f"The kernel needs a package for {advice.choice.key}: {advice.choice.needs}")
    if advice.wakeups_per_s:
        said.append(
            f"Pacing costs the sender about {advice.wakeups_per_s:.0f} timer wake-ups per second "
            "for each flow."
        )
    said += [f"{sentence[:1].upper()}{sentence[1:]}." for sentence in advice.wrong]
    said += [f"Rule of thumb (goodput of a single flow only): {advice.rule}"] if advice.rule else []
    s = "" if len(found.candidates) == 1 else "s"
    settings = {trial.setting for trial in found.trials}
    others = "(without other flows)" if side(asked) == "sender" else "beside a CUBIC flow"
    kinds = listed(
        [
            f"{text} {others}" if setting == "page" else text
            for setting, text in SETTINGS_SAID.items()
            if setting in settings
        ]
    )
    said.append(
        f"Based on {len(found.trials)} simulations of {len(found.candidates)} candidate{s}: "
        f"{kinds}. The search has up to {len(_ROUNDS)} rounds. Each round keeps the better "
        "candidates, and has longer simulations and more seeds than the previous one."
        + (f" Preliminary: {DEADLINE}" if advice.preliminary else "")
    )
    said += _limits(advice)
    if advice.inside:
        near = advice.cases[0]
        one = " for one of the possible paths" if asked.place.inferred and asked.place.open else ""
        said.append(
            f"Validated{one}: the nearest stored run of Linux 6.12 ({near['case']} in "
            f"{REFERENCE}) has {_difference(near, asked.place)}. In the simulation of that run, "
            f"{100 * near['agreement']:.0f} % of the metrics are within their tolerances "
            "(core/src/metrics/agreement.rs)."
        )
    else:
        said.append(
            "Extrapolated: no stored run of Linux has a similar path. Measure before and after the "
            "change."
        )
    return said


def _difference(case: EvidenceJson, place: Place) -> str:
    """The path of a reference case, by its differences from the path in question.

    >>> from narrows.advise.asked import stated
    >>> from narrows.runs.scenario import Path
    >>> place = stated(Path(rate="50Mbit", rtt="40ms", buffer="2bdp"))
    >>> case = {"rate_mbit": 50, "rtt_ms": 40, "buffer_bdp": 2.0, "headroom": 1, "loss": 0.01,
    ...     "policer": None}
    >>> _difference(case, place), _difference(case | {"loss": 0}, place)
    ('a random loss of 1 instead of 0 % and otherwise the same path', 'the same path')
    """
    room = case["buffer_bdp"] if place.buffer_bdp is None else place.buffer_bdp
    found = differences(
        case,
        {
            "rtts_ms": [place.rtt_ms],
            "rate_mbit": place.rate_mbit,
            "buffer_bdp": room,
            "headroom": case["headroom"] or 0.0,
            "loss": place.loss,
        },
    )
    return f"{listed(found)} and otherwise the same path" if found else "the same path"


_ROUNDS = ("first", "second", "last")


def _limits(advice: Advice) -> list[str]:
    """The effects of the packet budget and of the time limit, if they were reached."""
    found = advice.found
    said = []
    if found.late:
        tried = f"{len(found.ranking())} of {len(found.candidates)} candidates"
        said.append(f"The time limit was reached; {tried} are compared.")
    if found.limited or advice.unbounded:
        changes = [
            f"simulations of the {name} round last {lasts} s instead of {planned} s"
            for name, (planned, lasts) in zip(_ROUNDS, found.durations, strict=False)
            if lasts < planned
        ]
        changes += [f"the {name} round is omitted" for name in _ROUNDS[3 - found.omitted :]]
        changes += ["the boundaries of the recommendation are unknown"] * advice.unbounded
        said.append(f"The packet budget was reached: {listed(changes)}.")
    return said


def _fastest(advice: Advice) -> list[str]:
    """A sentence about the candidate with the highest goodput, with the reason why it is not
    recommended; empty if it is the recommended one.
    """
    by = {row.key: row for row in advice.rows}
    fast, chosen = by.get(advice.fastest), by.get(advice.choice.key)
    if fast is None or chosen is None or fast.key == chosen.key:
        return []
    goodput = "goodput_mbit"
    said = (
        f"Highest goodput: {shown(fast.key)} with {significant(fast.figures[goodput])} Mbit/s "
        f"({shown(chosen.key)}: {significant(chosen.figures[goodput])} Mbit/s)."
    )
    why = fast.why_not
    if not why:
        mine, its = chosen.figures["utility"] or 0.0, fast.figures["utility"] or 0.0
        why = (
            f"its utility is {its:.3f}, that of {shown(chosen.key)} is {mine:.3f}"
            if its <= mine
            else f"its gain in utility, {100 * (its / (mine or 1.0) - 1):.1f} %, may be below "
            f"{100 * WORTH:.0f} %"
        )
    return [f"{said} It is not recommended because {why}."]


def every(advice: Advice) -> tables.Table:
    """All candidates with their metrics and their effect on other flows."""
    sender = side(advice.found.asked) == "sender"
    names = ["goodput_mbit", "p95_ms", "again_pct"]
    heads = ["goodput Mbit/s", "RTT p95 ms", "retransmitted %"]
    if sender:
        heads += ["share beside CUBIC %", "CUBIC keeps %", "× fair share"]
    lines = []
    for row in advice.rows:
        marks = ", ".join(_MARKS.get(mark, mark) for mark in row.marks) or "–"
        cells = [marks, *(significant(_digits(row.figures[name])) for name in names)]
        if sender:
            price = row.price
            cells += [_whole(price.share_pct), _whole(price.kept_pct), _tenths(price.times_fair)]
        utility = row.figures["utility"]
        lines.append([
            Cell(shown(row.key)),
            *(Cell(text) for text in cells),
            Cell("–" if utility is None else f"{utility:.3f}"),
            Cell(str(row.runs)),
        ])  # fmt: skip
    return tables.Table("Candidates", ("candidate", "note"), (*heads, "utility", "runs"), lines)


def legend(advice: Advice) -> list[str]:
    """The meaning of the columns of `every` that are not metrics of a run."""
    shares = [
        "Share beside CUBIC: goodput of a flow of the candidate beside one CUBIC flow, in % of the "
        "sum of both.",
        "CUBIC keeps: goodput of a CUBIC flow beside a flow of the candidate, in % of its goodput "
        "beside another CUBIC flow.",
        "× fair share: goodput of one flow of the candidate among three CUBIC flows, divided by a "
        "quarter of the goodput of all four.",
    ]
    return [
        *(shares if side(advice.found.asked) == "sender" else []),
        "Utility: a value between 0 and 1 that combines the goals and ranks the candidates. Runs: "
        "number of combinations of a seed and a possible path (one path if all values are known).",
    ]


def _said(row: Row) -> str:
    """A candidate in a sentence.

    >>> from narrows.advise.verdict import Price
    >>> price = Price(share_pct=91.2, times_fair=3.1, kept_pct=99.6)
    >>> figures = {"goodput_mbit": 18.29, "p95_ms": 120.4, "again_pct": 1.3, "utility": 0.956}
    >>> _said(Row(key="bbr", marks=("fastest",), figures=figures, price=price, runs=4, why_not="",
    ...     needs=""))
    "bbr (highest goodput): 18.3 Mbit/s, p95 RTT 120 ms, 1.3 % retransmitted; CUBIC's goodput \
beside it: 100 % of that beside CUBIC."
    """
    named = [_MARKS.get(mark, mark) for mark in row.marks]
    marks = f" ({', '.join(named)})" if named else ""
    goodput, p95, again = (
        significant(_digits(row.figures[name])) for name in ("goodput_mbit", "p95_ms", "again_pct")
    )
    kept = (
        ""
        if row.price.kept_pct is None
        else f"; CUBIC's goodput beside it: {row.price.kept_pct:.0f} % of that beside CUBIC"
    )
    return (
        f"{shown(row.key)}{marks}: {goodput} Mbit/s, p95 RTT {p95} ms, {again} % "
        f"retransmitted{kept}."
    )


def _digits(value: float | None) -> float | None:
    """The value with three significant digits, because the results of seeds differ by more than the
    further digits.
    """
    return None if value is None else float(f"{value:.3g}")


def _whole(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def _tenths(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


_WITH = {"page_s": f"load time of a page of {PAGE_BYTES / 1e6:g} MB"}
"""Metrics with more details than in a sentence."""


def table(advice: Advice) -> tables.Table:
    """The table of the expected changes."""
    name = advice.best.key
    rows = [
        [Cell(f"{_WITH.get(e.name, e.says)}, {e.unit}"), *(Cell(text) for text in _cells(e))]
        for e in advice.effects
    ]
    head = ("current", f"with {name}", "change", "90 % prediction interval")
    return tables.Table("Expected changes", ("",), head, rows)


def _cells(of: Effect) -> list[str]:
    half = (of.high - of.low) / 2
    interval = f"{_signed(of.low, half)} … {_signed(of.high, half)}"
    return [significant(of.before), significant(of.after), _signed(of.change, half), interval]


def _signed(value: float, half: float = 0.0) -> str:
    """A change with three significant digits. If the text is then shorter, the change has as many
    decimals as `half`, half the width of its interval, with two significant digits.

    >>> _signed(3.14159), _signed(-0.5), _signed(0.0)
    ('+3.14', '-0.5', '0')
    >>> _signed(-0.000966, 0.15), _signed(0.1449, 0.15), _signed(431.6, 25.0)
    ('0', '+0.14', '+432')
    """
    text = f"{value:+.3g}"
    if half > 0:
        decimals = max(0, 1 - math.floor(math.log10(half)))
        rounded = f"{value:+.{decimals}f}"
        text = min(text, rounded, key=len) if "e" not in text else rounded
    return text if float(text) else "0"


def show(advice: Advice, out: Console) -> None:
    """Prints the recommendation, its effects, all candidates and the commands."""
    out.print(headline(advice), style="bold")
    out.print(path_line(advice.found.asked.place), markup=False, soft_wrap=True)

    if advice.effects:
        out.print()
        draw(out, table(advice))
    out.print("\nAll candidates, the best first:")
    draw(out, every(advice))
    out.print()
    for line in legend(advice):
        out.print(line, markup=False, soft_wrap=True)
    out.print()
    for line in sentences(advice):
        out.print(line, markup=False, soft_wrap=True)
    if advice.commands:
        out.print()
        for command in advice.commands:
            out.print(f"  {command}", markup=False, soft_wrap=True)


def report(advice: Advice, file: str | PathLike[str]) -> None:
    """Writes the report: simulations of the path as it is and with the best candidate, and the
    sentences of the recommendation.

    Raises:
        OutputError: If the report cannot be written.
    """
    found = advice.found
    asked = found.asked
    setting = "alone" if side(asked) == "sender" else "mix"
    several = [found.candidates[found.present], *([] if advice.best.present else [advice.best])]
    trial = Trial(asked.now, setting, 0, asked.seed, 30)
    seconds = affordable(
        asked, 30, lambda s: packets(asked, replace(trial, seconds=s)), PACKETS / 100
    )
    runs = [
        run(
            scenario(asked, one, replace(trial, key=one.key, seconds=seconds)),
            sample_interval="pictures",
            verdicts=2000,
        )
        for one in several
    ]
    names = ["current", f"with {advice.best.key}"][: len(runs)]
    rows = [
        f"{row[0].text}: {row[1].text} to {row[2].text} ({row[4].text})."
        for row in table(advice).rows
    ]
    rows += [_said(row) for row in advice.rows]
    todo = [f"Commands: {'; '.join(advice.commands)}."] if advice.commands else []
    told = " ".join([headline(advice), path_line(asked.place), *rows, *sentences(advice), *todo])
    write(document(runs, names=names, title="narrows advise") | {"first": told}, file)
