"""Makes the plan for a host: the changes that the requested options require, in their order;
`core/src/tune/planner.rs` has the rules.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from narrows import _core
from narrows.tune.facts import Facts
from narrows.tune.plan import Ask, Plan


def plan(facts: Facts, ask: Ask) -> Plan:
    """Returns a plan with the changes that the options require, in the order of application.

    Raises:
        NarrowsError: If an option has an invalid value, or one that this host cannot have.
    """
    return Plan.of(json.loads(_core.host_plan(facts.json(), json.dumps(asdict(ask)))))
