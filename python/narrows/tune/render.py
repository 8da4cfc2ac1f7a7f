"""Renders an audit as text and as JSON."""

from __future__ import annotations

import json

from narrows import _core
from narrows.tune.facts import Facts
from narrows.tune.findings import Finding
from narrows.tune.model import AuditJson


def _rows(found: list[Finding]) -> str:
    return json.dumps([finding.json() for finding in found])


def audit_json(facts: Facts, found: list[Finding]) -> AuditJson:
    """The JSON object of an audit; docs/reference/tune.md describes it."""
    made: AuditJson = json.loads(_core.audit_document(facts.json(), _rows(found)))
    return made


def audit_lines(facts: Facts, found: list[Finding], *, every: bool = False) -> list[str]:
    """An audit as lines of text: the verdict first, then each finding with its reason, remedy and
    source. Unless `every`, findings with the severity `good` are only named.
    """
    return _core.audit_lines(facts.json(), _rows(found), every)
