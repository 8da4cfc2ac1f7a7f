"""Renders a plan as text: current values, new values and reasons."""

from __future__ import annotations

import json

from narrows import _core
from narrows.tune.plan import Plan


def lines(plan: Plan) -> list[str]:
    r"""The plan as lines of text: `-` marks current values, `+` new values.

    >>> row = {"kind": "sysctl", "target": "net.ipv4.tcp_ecn", "from": "2", "to": "1",
    ...     "why": "marks", "phase": "live"}
    >>> plan = {"title": "ECN is requested", "changes": [row]}
    >>> print("\n".join(lines(Plan.of(plan))))
    After the plan is applied, ECN is requested.
    <BLANKLINE>
    sysctl net.ipv4.tcp_ecn
    - 2
    + 1
      reason: marks

    Raises:
        ValueError: If a part of the plan has another form than `narrows tune plan --json` writes.
    """
    return _core.plan_lines(json.dumps(plan.json()))
