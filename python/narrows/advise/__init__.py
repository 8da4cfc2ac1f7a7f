"""Recommends congestion controls and queue disciplines for a path by simulation.

| module | contents |
|---|---|
| `asked` | the question: path, role and goals |
| `candidates` | changes that can be recommended |
| `trial` | one simulation of a candidate |
| `utility` | the utility function |
| `search` | the search for the best candidates |
| `verdict` | the recommendation and its intervals |
| `contract` | rate limiters for an operator |
"""

from narrows.advise.asked import (
    CARES,
    ROLES,
    Asked,
    Place,
    Variant,
    from_scenario,
    measured,
    stated,
)
from narrows.advise.candidates import Candidate, Kernel, candidates, kernel
from narrows.advise.search import Found, search
from narrows.advise.verdict import Advice, advise

__all__ = [
    "CARES",
    "ROLES",
    "Advice",
    "Asked",
    "Candidate",
    "Found",
    "Kernel",
    "Place",
    "Variant",
    "advise",
    "candidates",
    "from_scenario",
    "kernel",
    "measured",
    "search",
    "stated",
]
