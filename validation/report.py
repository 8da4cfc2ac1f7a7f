"""Collects the results of all parts and makes the text of `REPORT.md`."""

from __future__ import annotations

import dataclasses
import platform
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from narrows import __version__
from narrows.json_object import JsonObject
from narrows.reference import agreement as of_cases
from narrows.reference.agreement import Outcome as AnyOutcome
from narrows.reference.stored import Case as AnyCase
from narrows.reproduce.published import Criterion, Result
from narrows.teach.render import short
from validation import agreement, linux, papers
from validation import cliff as cliffs
from validation.explained import Explanation
from validation.stored import Case, missing

ENGINES = "agree"
"""The text with which the names of cases of the engine `linux` begin."""

RELATIVE = 0.9
"""Minimum share of agreeing cases of a recorded family, relative to the share in which Linux agrees
with itself.
"""

UNMEASURED = {
    "engines": "no row is measured; write make agree",
    "recorded": "the directory has no cases; write narrows record-reference --out DIR",
}
"""Reasons why a part was left out, by part."""

WORST = 12
"""Maximum number of disagreements that are printed on the terminal."""


@dataclass(frozen=True, kw_only=True)
class Validation:
    """The results of all parts; a part that was not run is None.

    Attributes:
        command: The command line, which the report states.
        seeds: Number of seeds of each case.
        outcomes: Results of the stored cases.
        left_out: Stored cases with a congestion control or a queue discipline that this version
            does not have.
        engines: The simulator compared with stored runs of the engine `linux`.
        recorded: Results of the cases of `narrows record-reference`.
        left_unmeasured: Parts without measured values.
        maps: Results of the published sets.
        cliff: The cliffs, by gain.
        cliff_left_out: The reason if the cliffs could not be run.
        explanations: Explanations of disagreements.
    """

    command: str
    seeds: int
    outcomes: list[linux.Outcome] | None = None
    left_out: tuple[Case, ...] = ()
    engines: agreement.Found | None = None
    recorded: list[AnyOutcome[AnyCase]] | None = None
    left_unmeasured: tuple[str, ...] = ()
    maps: list[papers.Maps] | None = None
    cliff: list[cliffs.Cliff] | None = None
    cliff_left_out: str | None = None
    explanations: tuple[Explanation, ...] = ()

    def disagreements(self) -> list[papers.Off]:
        """The disagreements of all parts, the largest difference first."""
        found = [
            papers.Off(case=v.case.name, figure=v.figure.label, published=v.linux, ours=v.ours)
            for outcome in (*(self.outcomes or ()), *(self.recorded or ()))
            for v in outcome.verdicts
            if not v.agrees
        ]
        found += self.apart()
        found += [off for maps in self.maps or () for off in papers.disagreements(maps)]
        return sorted(found, key=lambda d: -d.off)

    def apart(self) -> list[papers.Off]:
        """Metrics in which the simulator and the engine `linux` disagree."""
        every = self.engines.of(("sim", "linux")) if self.engines else []
        return [
            papers.Off(
                case=f"{ENGINES}-{one.name}",
                figure=one.figure,
                published=one.reference,
                ours=one.ours,
            )
            for one in every
            if one.verdict == "parted"
        ]

    def explanation(self, off: papers.Off) -> Explanation | None:
        """The explanation of a disagreement, if there is one."""
        return next((e for e in self.explanations if e.covers(off.case, off.figure)), None)

    def idle(self) -> list[Explanation]:
        """Entries of `explained.toml` that no longer explain a disagreement, among the families
        that were run.
        """
        ran = {o.case.family for o in self.outcomes or ()} | (
            {"P"} if self.maps is not None else set()
        )
        ran |= {o.case.family for o in self.recorded or ()}
        ran |= {ENGINES} if self.engines is not None else set()
        asked = [e for e in self.explanations if e.case.partition("-")[0] in ran]
        return [
            e for e in asked if not any(e.covers(d.case, d.figure) for d in self.disagreements())
        ]

    def criteria(self) -> list[Criterion | Simple]:
        """The criteria of all parts that were run."""
        found: list[Criterion | Simple] = []
        for where, outcomes in self.places():
            agree, everything = _tally(outcomes)
            name = f"cases {where} the grid that agree with Linux in every metric"
            found.append(Criterion(name=name, cells=everything, agree=agree, share=linux.NEED))
            own, known = linux_itself(outcomes)
            if known:
                ours_pct, linux_pct = 100 * agree / everything, 100 * own / known
                found.append(
                    Simple(
                        text=f"{where} the grid, the share of agreeing cases is at most "
                        f"{100 * linux.BELOW_LINUX:.0f} percentage points below that of Linux "
                        f"against itself: narrows {ours_pct:.1f} %, Linux {linux_pct:.1f} %",
                        met=ours_pct >= linux_pct - 100 * linux.BELOW_LINUX,
                    )
                )
        if self.engines is not None:
            every = self.engines.of(("sim", "linux"))
            apart = self.apart()
            unexplained = sum(self.explanation(off) is None for off in apart)
            found.append(
                Simple(
                    text="no unexplained disagreement with the engine linux: "
                    f"{sum(one.verdict == 'agreed' for one in every)} metrics agree, {len(apart)} "
                    f"disagree ({unexplained} unexplained)",
                    met=not unexplained,
                )
            )
        found += [self._family(one) for one in of_cases.families(self.recorded or ())]
        found += [criterion for maps in self.maps or () for criterion in papers.criteria(maps)]
        for c in self.cliff or ():
            where = "not found" if c.found is None else f"at {100 * c.found:.1f} % of loss"
            required = f"required {100 * c.expected:.1f} % ± {100 * c.within:g} percentage points"
            rules = "as in Linux" if c.detection else f"with gain {c.gain:g}, no policer detection"
            found.append(Simple(text=f"BBR's cliff {rules}: {where}, {required}", met=c.met))
        return found

    def _family(self, one: of_cases.Family) -> Simple:
        """The criterion of a family of recorded cases."""
        apart = [
            outcome
            for outcome in self.recorded or ()
            if outcome.case.family == one.name and not outcome.agrees
        ]
        unexplained = [
            outcome
            for outcome in apart
            if any(
                self.explanation(
                    papers.Off(
                        case=v.case.name, figure=v.figure.label, published=v.linux, ours=v.ours
                    )
                )
                is None
                for v in outcome.verdicts
                if not v.agrees
            )
        ]
        enough = one.relative is None or one.relative >= RELATIVE
        return Simple(
            text=f"{family_words(one)} (at least {RELATIVE:.0%} of Linux's own share, or every "
            "disagreement explained)",
            met=enough or not unexplained,
        )

    def places(self) -> list[tuple[str, list[linux.Outcome]]]:
        """The stored cases on the grid (`stored.GRID`) and off it; a group without cases is left
        out.
        """
        every = self.outcomes or []
        split = {
            "on": [o for o in every if o.case.on_grid],
            "off": [o for o in every if not o.case.on_grid],
        }
        return [(where, outcomes) for where, outcomes in split.items() if outcomes]

    def document(self) -> JsonObject:
        """The results as one JSON object."""
        return {
            "narrows": __version__,
            "command": self.command,
            "seeds": self.seeds,
            "linux": None
            if self.outcomes is None
            else {
                "left_out": [c.name for c in self.left_out],
                "itself": dict(zip(("agree", "known"), linux_itself(self.outcomes), strict=True)),
                "figures": [v.json() for o in self.outcomes for v in o.verdicts],
            },
            "engines": None
            if self.engines is None
            else [dataclasses.asdict(one) for one in self.engines.metrics],
            "recorded": None
            if self.recorded is None
            else [one.json() for one in of_cases.families(self.recorded)],
            "papers": [papers.document(maps) for maps in self.maps] if self.maps else None,
            "cliff": [c.json() for c in self.cliff] if self.cliff else None,
            "unexplained": [
                [d.case, d.figure] for d in self.disagreements() if not self.explanation(d)
            ],
            "criteria": [{"criterion": in_words(c), "met": c.met} for c in self.criteria()],
        }


@dataclass(frozen=True, kw_only=True)
class Simple:
    """A criterion that is not a number of cases.

    Attributes:
        text: The criterion in words.
        met: Whether it is met.
    """

    text: str
    met: bool


def in_words(criterion: Criterion | Simple) -> str:
    """A criterion in one line."""
    if isinstance(criterion, Simple):
        return criterion.text
    return f"{criterion.name}: {criterion.agree} of {criterion.cells} ({criterion.needed} needed)"


def family_words(one: of_cases.Family) -> str:
    """The result of a family of recorded cases, in one line.

    >>> family_words(of_cases.Family(name="fifo", cases=24, agree=23, itself=24, known=24))
    'fifo: 23 of 24 recorded cases agree; Linux agrees with itself in 24 of 24'
    """
    return (
        f"{one.name}: {one.agree} of {one.cases} recorded cases agree; Linux agrees with itself in "
        f"{one.itself} of {one.known}"
    )


def linux_itself(outcomes: Iterable[linux.Outcome]) -> tuple[int, int]:
    """The number of cases in which Linux agrees with itself, and the number of cases for which this
    is known.
    """
    known = [x for o in outcomes if (x := linux.itself(o.case)) is not None]
    return sum(known), len(known)


def _tally(outcomes: Iterable[linux.Outcome]) -> tuple[int, int]:
    good = [o.agrees for o in outcomes]
    return sum(good), len(good)


def markdown(v: Validation) -> str:
    """The whole report."""
    parts = [_head(v)]
    if v.outcomes is not None:
        parts += [_families(v), _figures(v.outcomes)]
    parts.append(_engines(v))
    parts.append(_disagreements(v))
    parts += [_maps(maps) for maps in v.maps or ()]
    parts.append(_cliff(v))
    return "\n\n".join(filter(None, parts)) + "\n"


def _table(align: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table. `align` has `l` or `r` for each column; its last letter applies to all
    further columns.
    """
    letters = align.ljust(len(head), align[-1])
    rule = ["---:" if letter == "r" else "---" for letter in letters]
    lines = [head, rule, *([str(x) for x in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _head(v: Validation) -> str:
    rows = [("yes" if c.met else "**no**", in_words(c)) for c in v.criteria()]
    left = []
    if v.left_out:
        names = sorted({name for case in v.left_out for name in missing(case)})
        left.append(f"{len(v.left_out)} stored cases with {', '.join(names)}")
    if v.maps is not None and papers.can_run()[1]:
        left.append(f"the published map of {', '.join(papers.can_run()[1])}")
    if v.cliff_left_out:
        left.append("the cliff of bbr")
    told = f"\n\nLeft out, because this version lacks a model: {'; '.join(left)}." if left else ""
    return (
        "# Validation\n\n"
        f"narrows {__version__}, {v.seeds} seeds of each case, Python "
        f"{platform.python_version()}; written by\n\n"
        f"```console\n$ {v.command}\n```\n\n"
        "[agreement.rs](../core/src/metrics/agreement.rs) defines the compared metrics and their "
        "tolerances.\n"
        "[`validation`](__init__.py) describes the parts.\n\n"
        + _table("l", ("met", "criterion"), rows)
        + told
    )


def _families(v: Validation) -> str:
    by: dict[str, list[linux.Outcome]] = defaultdict(list)
    for o in v.outcomes or ():
        for name in _rows(o.case):
            by[name].append(o)
    left = [name for case in v.left_out for name in _rows(case)]
    rows = []
    for name in sorted({*by, *left}, key=lambda name: ("all" in name, name)):
        here = by[name]
        good, n = _tally(here)
        own, known = linux_itself(here)
        naive = [linux.naive(o.case) for o in here]
        rows.append(
            (
                name,
                f"{good} of {n}",
                f"{own} of {known}" if known else "–",
                sum(x["a full pipe"] for x in naive),
                sum(x["nothing"] for x in naive),
                left.count(name) or "",
            )
        )
    head = ("family", "agree", "Linux against itself", "a full link", "no traffic", "left out")
    return (
        "## Comparison with Linux\n\n"
        f"{linux.headline(v.outcomes or ())}.\n\n"
        f"{_late(v)}"
        "*Linux against itself*: the last run of Linux compared with its other runs, for cases "
        "with three or more.\n"
        "*A full link* and *no traffic*: the number of cases that agree with a trivial model. In "
        "the first, each flow\n"
        "gets its share of a full link with its buffer 70 % full; with a policer or another queue "
        "discipline than\n"
        "drop-tail, the queueing delay is 5 ms. In the second, nothing arrives. *The grid*: the "
        "paths that were recorded\n"
        "first. Others were added later, to test other paths than these.\n\n"
        + _table("lr", head, rows)
    )


def _late(v: Validation) -> str:
    """The sentences with the definition of agreement and the number of metrics that are not
    compared.
    """
    late = sum(figure.late for outcome in v.outcomes or () for figure in outcome.case.figures)
    return (
        "A case agrees if each of its compared metrics does. The median of the seeds is compared "
        "with the median of the\n"
        f"runs of Linux. {late} metrics are not compared, because their recording "
        "[began one RTT late](evidence/first-neighbour.md).\n"
    )


def _rows(case: Case) -> tuple[str, ...]:
    """The rows of the table of families in which a case counts."""
    where = "" if case.on_grid else ", off the grid"
    return (f"{case.family}{where}", f"all{where}")


def _figures(outcomes: Sequence[linux.Outcome]) -> str:
    by: dict[str, list[bool]] = defaultdict(list)
    for o in outcomes:
        for verdict in o.verdicts:
            by[verdict.figure.kind].append(verdict.agrees)
    rows = [(kind, f"{sum(good)} of {len(good)}") for kind, good in sorted(by.items())]
    return "### Agreement by metric\n\n" + _table("lr", ("metric", "agree"), rows)


def _engines(v: Validation) -> str:
    """The section about the rows of `agreement.toml`, by metric."""
    if v.engines is None:
        return ""
    store = v.engines.stores["linux"]
    by: dict[str, list[str]] = defaultdict(list)
    for one in v.engines.of(("sim", "linux")):
        by[one.figure.partition(" ")[0]].append(one.verdict)
    rows = [
        (kind, *(of.count(verdict) for verdict in ("agreed", "parted", "undecided")))
        for kind, of in sorted(by.items())
    ]
    return (
        "## The engine linux\n\n"
        f"{len(v.engines.rows('linux'))} scenarios, Linux {store.machine.release} in virtual time; "
        "[the scenarios and all\nvalues](../docs/reference/agreement.md).\n\n"
        + _table("lr", ("metric", "agree", "disagree", "undecided"), rows)
    )


def _disagreements(v: Validation) -> str:
    every = v.disagreements()
    if not every:
        return "## Disagreements\n\nNone."
    rows = []
    for d in every:
        e = v.explanation(d)
        told = f"[{e.because}]({e.evidence})" if e else "**unexplained**"
        rows.append((f"`{d.case}`", d.figure, f"{d.published:.4g}", f"{d.ours:.4g}", told))
    n = sum(v.explanation(d) is None for d in every)
    idle = "".join(
        f"\n\nNo longer needed: the explanation of `{e.case}` {e.figure}, {e.evidence}."
        for e in v.idle()
    )
    return (
        f"## Disagreements\n\n{len(every)} metrics, the worst first; {n} of them unexplained. An "
        "explanation is an\n"
        "experiment or a trace, with its command and its values.\n\n"
        + _table("llrrl", ("case", "metric", "reference", "narrows", "explanation"), rows)
        + idle
    )


def _maps(maps: papers.Maps) -> str:
    parts = [
        f"## Published maps of Linux {maps.kernel}\n\nGoodput in Mbit/s and, in brackets, "
        "retransmitted segments: "
        f"narrows|published; hosts like {maps.like}. `!`: does not agree."
    ]
    for cc, results in maps.results.items():
        for buffer_kib in sorted({r.cell.buffer_kib for r in results}):
            here = [r for r in results if r.cell.buffer_kib == buffer_kib]
            title = f"### {cc} of Linux {maps.kernel}, buffer {buffer_kib} KiB"
            parts.append(f"{title}\n\n{_map(here)}")
    for cc, results in maps.results.items():
        if cc == "cubic":
            continue
        lenient = sum(map(papers.again_agrees_leniently, results))
        n = len(results)
        parts.append(
            f"With {papers.LENIENT:.2%} of the segments added to both counts, {cc}'s "
            "retransmits would agree in "
            f"{lenient} of {n} cells."
        )
    return "\n\n".join(parts)


def _map(results: Sequence[Result]) -> str:
    rtts = sorted({r.cell.rtt_ms for r in results})
    by = {(r.cell.rate_mbit, r.cell.rtt_ms): r for r in results}
    rows = []
    for rate in sorted({r.cell.rate_mbit for r in results}):
        rows.append((rate, *(_square(by[rate, rtt]) for rtt in rtts)))
    return _table("r", ("Mbit/s", *(f"{rtt} ms" for rtt in rtts)), rows)


def _square(r: Result) -> str:
    again = r.cell.cc == "cubic" or r.sends_again_as_often
    return (
        f"{short(r.goodput_mbit)}\\|{short(r.cell.goodput_mbit)}{'' if r.agrees else '!'} "
        f"({r.retransmits}\\|{r.cell.retransmits}{'' if again else '!'})"
    )


def _cliff(v: Validation) -> str:
    if v.cliff is None:
        return f"## BBR's cliff\n\nLeft out: {v.cliff_left_out}" if v.cliff_left_out else ""
    theirs = cliffs.linux()
    losses = sorted({*theirs, *(p for c in v.cliff for p in c.curve)})
    heads = ("with detection" if c.detection else f"gain {c.gain:g}" for c in v.cliff)
    rows = [
        (f"{100 * p:.2f} %", *(_seeds(c.curve.get(p)) for c in v.cliff), _seeds(theirs.get(p)))
        for p in losses
    ]
    text = (
        "## BBR's cliff\n\nGoodput of one BBR flow in Mbit/s over 60 s, 100 Mbit/s, 25 ms, 10 MB "
        "of buffer, independent\n"
        "loss: median, minimum and maximum of the seeds. Columns with a gain are without policer "
        "detection. The\n"
        "last column is Linux 6.12 over the same path ([setup](evidence/cliff.md))."
    )
    return f"{text}\n\n{_table('r', ('loss', *heads, 'Linux'), rows)}"


def _seeds(goodputs: Sequence[float] | None) -> str:
    if not goodputs:
        return ""
    return f"{statistics.median(goodputs):.1f} ({min(goodputs):.1f}–{max(goodputs):.1f})"
