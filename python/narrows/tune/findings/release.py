"""Findings about behaviour of the kernel release that costs goodput or delay, from simulated
effects.

`narrows/kernel/known_effects.json` has the effect of each rule of TCP on typical paths. `python -m
validation.rule_effects` measures these effects: it adds each rule to the release before the one
that introduced the rule. A finding names a rule (a change of Linux) that the kernel of the host
lacks and whose effect is large. The kernel must have all rules of that earlier release for the same
part of TCP. Otherwise the effect was measured with different behaviour. For example, a rule that
corrects a regression of 6.16 is no finding for 6.8.

A distribution's kernel with patch level 0 (6.8.0-45) contains back-ports. Such a kernel counts as
the last stable release of its series. A rule that a stable release of the series contains is
therefore no finding.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path as FilePath
from typing import Any

from narrows.errors import NarrowsError
from narrows.kernel.rules import Rule, rules_of
from narrows.render.words import number
from narrows.tune.facts import Facts
from narrows.tune.findings.finding import Finding, Path

_FILE = FilePath(__file__).parents[2] / "kernel/known_effects.json"
LEAST = 0.05
"""Effects below this share of goodput or RTT are not reported."""

_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?!\d)")


@cache
def known_effects() -> dict[str, Any]:
    """The measured effects, by name of the rule."""
    found: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))["rules"]
    return found


def modelled(release: str) -> str | None:
    """The release, as the simulator names it, that models this kernel; None if the text contains no
    release.

    >>> modelled("6.12.57+deb13-amd64"), modelled("6.8.0-45-generic"), modelled("custom")
    ('6.12.57', '6.8', None)
    """
    found = _RELEASE.match(release)
    if found is None:
        return None
    major, minor, patch = found.groups()
    series = f"{int(major)}.{int(minor)}"
    return series if int(patch or 0) == 0 else f"{series}.{int(patch)}"


def kernel_rules(facts: Facts, _path: Path) -> Iterator[Finding]:
    """Reports rules that the kernel lacks and whose effect is large."""
    like = modelled(facts.release or "")
    if like is None:
        return
    try:
        rules = {rule.name: rule for rule in rules_of(like)}
    except NarrowsError:
        # A release that the simulator does not model.
        return
    for name, known in known_effects().items():
        rule = rules.get(name)
        worst = _worst(known["effects"])
        if rule is None or rule.active or worst is None:
            continue
        if all(rules[other].active for other in known["needs"] if other in rules):
            yield _finding(rule, worst, like)


def _worst(effects: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The effect with the largest improvement of goodput or RTT; None if all improvements are below
    `LEAST`.
    """
    gains = [
        (gain, index) for index, effect in enumerate(effects) if (gain := _gain(effect)) >= LEAST
    ]
    return effects[max(gains)[1]] if gains else None


def _gain(effect: Mapping[str, Any]) -> float:
    """The improvement by the rule as a share: higher goodput, or lower RTT unless the mean goodput
    falls by `LEAST` or more. It is the end of the confidence interval with the smaller improvement.
    """
    goodput: Mapping[str, float] = effect["goodput_share"]
    rtt: Mapping[str, float] = effect["rtt_share"]
    return max(goodput["low"], -rtt["high"] if goodput["mean"] > -LEAST else 0.0)


def _finding(rule: Rule, effect: Mapping[str, Any], like: str) -> Finding:
    goodput, rtt = effect["goodput_share"]["mean"] * 100, effect["rtt_share"]["mean"] * 100
    changes = f"goodput {number(goodput, 1)} %, mean RTT {number(rtt, 1)} %"
    ports = f"; also in {', '.join(rule.backports)}" if rule.backports else ""
    return Finding(
        id="kernel-rule",
        severity="note",
        subject=rule.name,
        what=f"Linux {like} lacks a change of Linux {rule.since}: {rule.help}",
        why=f"in simulation, the change has this effect on {effect['path']}: {changes}",
        fix=f"run Linux {rule.since} or newer{ports}; for a path of your own: narrows kernel diff "
        f"{like} {rule.since} --path scenario.toml",
        source=rule.source,
    )


RULES = (kernel_rules,)
