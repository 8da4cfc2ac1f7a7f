"""Audits of a host; `core/src/tune/findings` has the rules.

A finding has a fact, its relevance, a remedy and a source. Its severity:

| severity | meaning |
|---|---|
| `error` | a setting does not work or contradicts another one |
| `warning` | a setting costs goodput or latency on real paths |
| `note` | information; no problem |
| `good` | checked without a problem |
"""

from __future__ import annotations

import json

from narrows import _core
from narrows.tune.facts import Facts
from narrows.tune.findings.finding import Finding, Path

__all__ = ["Finding", "Path", "audit"]


def audit(facts: Facts, path: Path | None = None) -> list[Finding]:
    """All findings, the most severe first, and findings of the same severity in the order of the
    rules.

    Args:
        facts: The facts of the host.
        path: The path that one connection should be able to fill. Without it, findings state the
            rate for which the TCP buffers suffice.
    """
    of = path or Path()
    rows = json.loads(_core.audit_findings(facts.json(), of.rate_mbit, of.rtt_ms))
    return [Finding(**row) for row in rows]
