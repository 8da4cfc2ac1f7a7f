"""Tables of `narrows kernel` and `narrows list rules`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from narrows.inference import Interval
from narrows.kernel.effects import METRICS, Effect, Effects
from narrows.kernel.model import Release
from narrows.kernel.rules import Difference
from narrows.kernel.store import Kernel
from narrows.render.tables import Cell, Table
from narrows.render.words import number

_HEADINGS = {
    "goodput_mbit": ("goodput Mbit/s", 1.0, 2),
    "rtt_mean_ms": ("mean RTT ms", 1.0, 2),
    "retransmit_rate": ("retransmission rate %", 100.0, 3),
}
"""Heading, factor and decimals of each metric of an effect."""


def table(releases: Sequence[Release]) -> Table:
    """A row per built kernel, and one for each release without any."""
    rows = []
    for release in releases:
        known = [
            Cell(release.name),
            Cell(f"linux-{release.name}" if release.modelled else "–"),
        ]
        for kernel in release.kernels:
            rows.append([*known, Cell(kernel.name), Cell(_state(kernel)), Cell(str(release.rules))])
        if not release.kernels:
            rows.append([*known, Cell("–"), Cell("not built"), Cell(str(release.rules))])
    return Table("Kernels", ("release", "modelled as", "--kernel", "binary"), ("rules",), rows)


def _state(kernel: Kernel) -> str:
    try:
        size = f"{kernel.binary.stat().st_size / 1e6:.1f} MB"
    except OSError:
        return "missing"
    state = f"{kernel.release}, {size}, built in {kernel.build_s:.0f} s"
    return state if kernel.current else f"{state}, by another version of narrows"


def rules(found: Sequence[dict[str, Any]], *, sources: bool) -> Table:
    """A row per rule of `narrows list rules`; the table has a column `active` if the rules have
    this key.
    """
    has_active = any("active" in rule for rule in found)
    rows = []
    for rule in found:
        row = [rule["name"], rule["of"], rule["since"], ", ".join(rule["backports"]) or "–"]
        row += ["yes" if rule["active"] else "no"] if has_active else []
        rows.append([Cell(text) for text in (*row, rule["help"])])
        if sources:
            rows[-1].append(Cell(rule["source"]))
    words = (
        "rule",
        "part of TCP",
        "release",
        "stable releases",
        *(["active"] if has_active else []),
        "effect",
        *(["source"] if sources else []),
    )
    return Table("Rules", words, (), rows)


def differences(found: Sequence[Difference], first: str, second: str) -> Table:
    """A row per rule in which two releases differ."""
    rows = [
        [
            Cell(one.rule.name),
            Cell(one.rule.of),
            Cell(one.rule.since),
            Cell(", ".join(one.rule.backports) or "–"),
            Cell(second if one.added else first),
            Cell(one.rule.help),
        ]
        for one in found
    ]
    words = ("rule", "part of TCP", "release", "stable releases", "only in", "effect")
    return Table("Differences", words, (), rows)


def effects(found: Effects, first: str, second: str) -> Table:
    """The metrics of the first release, and a row per change with its effect."""
    base = [Cell(_value(found.base[name], name, sign=False)) for name in METRICS]
    rows = [[Cell(first), *base]]
    rows += [[Cell(_change(effect)), *_cells(effect)] for effect in found.rules]
    rows.append([Cell(f"{second}: all together"), *_cells(found.whole)])
    headings = tuple(_HEADINGS[name][0] for name in METRICS)
    return Table("Effects", ("change of the host",), headings, rows)


def _change(effect: Effect) -> str:
    one = effect.difference
    if one is None:
        return ""
    return f"{'with' if one.added else 'without'} {one.rule.name}"


def _cells(effect: Effect) -> list[Cell]:
    return [Cell(_value(effect.changes[name], name, sign=True)) for name in METRICS]


def _value(one: Interval, name: str, *, sign: bool) -> str:
    """A mean with half the width of its interval: `+1.25 ± 0.10`."""
    _, factor, decimals = _HEADINGS[name]
    mean = number(one.mean * factor, decimals)
    text = f"+{mean}" if sign and one.mean > 0 else mean
    half = one.half()
    if half is None or (sign and one.mean == 0 and half == 0):
        return text if one.mean or not sign else "0"
    return f"{text} ± {number(half * factor, decimals)}"
