"""Rules that audit a host. Each rule is a function from facts to findings, and each module lists
its rules.

| module | subjects |
|---|---|
| `control` | kernel, congestion controls, sockets, namespaces |
| `release` | rules of TCP that the kernel lacks |
| `queues` | queue disciplines, pacing, BQL, rings, offloads, coalescing |
| `tcp` | buffers for a path, ECN, MTU probing, TCP features, governor |
| `wifi` | queues, airtime and link of wireless interfaces |
| `system` | files read at boot, machine or container, router |

A finding has a fact, its relevance, a remedy and a source. Its severity:

| severity | meaning |
|---|---|
| `error` | a setting does not work or contradicts another one |
| `warning` | a setting costs goodput or latency on real paths |
| `note` | information; no problem |
| `good` | checked without a problem |
"""

from __future__ import annotations

from collections.abc import Iterator

from narrows.tune.facts import Facts
from narrows.tune.findings import control, queues, release, system, tcp, wifi
from narrows.tune.findings.finding import SEVERITIES, Finding, Path

__all__ = ["RULES", "SEVERITIES", "Finding", "Path", "audit", "verdict"]

RULES = (*control.RULES, *release.RULES, *queues.RULES, *tcp.RULES, *wifi.RULES, *system.RULES)


def audit(facts: Facts, path: Path | None = None) -> list[Finding]:
    """All findings, the most severe first, and findings of the same severity in the order of the
    rules.

    Args:
        facts: The facts of the host.
        path: The path that one connection should be able to fill. Without it, findings state the
            rate for which the TCP buffers suffice.
    """
    found = [finding for rule in RULES for finding in _of(rule(facts, path or Path()))]
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def _of(found: Iterator[Finding]) -> list[Finding]:
    return list(found)


def verdict(found: list[Finding]) -> str:
    """A sentence with the numbers of errors and warnings."""
    errors, warnings = (sum(f.severity == s for f in found) for s in ("error", "warning"))
    if not errors and not warnings:
        return "The audit found no errors and no warnings."
    counts = [
        f"{n or 'no'} {name}{'s' * (n != 1)}"
        for n, name in ((errors, "error"), (warnings, "warning"))
    ]
    return f"The audit found {' and '.join(counts)}."
