"""What is to be said of a host: a rule per check, each a function from facts to findings, in the
tables of the modules.

| module | asks about |
|---|---|
| `control` | kernel, congestion controls, sockets, namespaces |
| `queues` | queue disciplines, pacing, BQL, rings, offloads, coalescing |
| `tcp` | buffers against a path, ECN, MTU probing, switches of TCP, governor |
| `wifi` | what carries a wireless interface |
| `system` | files read at boot, machine or container, router |

A finding says what is so, why it matters, what changes it, and where that is known from. Its
severity:

| severity | meaning |
|---|---|
| `error` | something asked for does not work, or works against itself |
| `warning` | it costs rate or latency on paths that exist |
| `note` | worth knowing; nothing is wrong |
| `good` | looked at, and as it should be |
"""

from __future__ import annotations

from collections.abc import Iterator

from narrows.tune.facts import Facts
from narrows.tune.findings import control, queues, system, tcp, wifi
from narrows.tune.findings.finding import SEVERITIES, Finding, Path

__all__ = ["RULES", "SEVERITIES", "Finding", "Path", "audit", "verdict"]

RULES = (*control.RULES, *queues.RULES, *tcp.RULES, *wifi.RULES, *system.RULES)


def audit(facts: Facts, path: Path | None = None) -> list[Finding]:
    """Every finding, the worst first; among equals in the order of the rules.

    Args:
        facts: The host's.
        path: The path that its buffers are held against; each finding says what they suffice for
            without one.
    """
    found = [finding for rule in RULES for finding in _of(rule(facts, path or Path()))]
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def _of(found: Iterator[Finding]) -> list[Finding]:
    return list(found)


def verdict(found: list[Finding]) -> str:
    """The answer in a sentence."""
    errors, warnings = (sum(f.severity == s for f in found) for s in ("error", "warning"))
    if errors:
        return (
            f"{errors} thing{'s' * (errors > 1)} on this host work{'s' * (errors == 1)} against "
            "itself" + (f", and {warnings} could be better." if warnings else ".")
        )
    if warnings:
        return f"Nothing is broken here; {warnings} thing{'s' * (warnings > 1)} could be better."
    return "Nothing here stands in the way."
