"""What should I switch on? The candidates are simulated on the path in question, and the price is
told with the gain.

`asked` is the question (a path, who asks, what they care for), `candidates` what could be switched
on, `trial` one simulation of one of them, `utility` what is good, `search` how the good ones are
found in little time, `verdict` what is recommended and how sure that is, `sealed` what was
predicted before anything changed.
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
