"""Renders an audit as text and as JSON."""

from __future__ import annotations

from collections import Counter

from narrows import __version__
from narrows.tune.facts import Facts
from narrows.tune.findings import SEVERITIES, Finding, verdict
from narrows.tune.model import AuditJson

_MARKS = {"error": "ERROR", "warning": "warning", "note": "note", "good": "ok"}


def audit_json(facts: Facts, found: list[Finding]) -> AuditJson:
    """The JSON object of an audit; docs/reference/tune.md describes it."""
    return {
        "narrows": __version__,
        "audit": 1,
        "host": {"name": facts.hostname, "kernel": facts.release, "system": facts.system},
        "verdict": verdict(found),
        "counts": {
            severity: Counter(f.severity for f in found)[severity] for severity in SEVERITIES
        },
        "findings": [finding.json() for finding in found],
    }


def _fact(finding: Finding) -> str:
    """The subject and the fact of a finding as a sentence without its full stop."""
    if not finding.subject:
        return finding.what
    if finding.what.startswith("it "):
        return f"{finding.subject} {finding.what.removeprefix('it ')}"
    return f"{finding.subject}: {finding.what}"


def audit_lines(facts: Facts, found: list[Finding], *, every: bool = False) -> list[str]:
    """An audit as lines of text: the verdict first, then each finding with its reason, remedy and
    source. Unless `every`, findings with the severity `good` are only named.
    """
    told = [
        f"{facts.hostname or 'This host'}: {facts.system}, Linux {facts.release}. {verdict(found)}"
    ]
    for finding in found:
        if finding.severity == "good" and not every:
            continue
        told += ["", f"{_MARKS[finding.severity]:<8} [{finding.id}] {_fact(finding)}."]
        told.append(f"{'':<8} why: {finding.why}.")
        if finding.fix:
            told.append(f"{'':<8} remedy: {finding.fix}.")
        told.append(f"{'':<8} source: {finding.source}.")
    faulty = {finding.id for finding in found if finding.severity != "good"}
    good = list(dict.fromkeys(finding.id for finding in found if finding.id not in faulty))
    if good and not every:
        told += ["", f"Checked without a finding: {', '.join(good)}. Option --all prints them."]
    return told
