"""The data of a finding, and the path for which buffers are checked."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Severity = Literal["error", "warning", "note", "good"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check.

    Attributes:
        id: Name of the rule, for example `pacing` or `qdisc`.
        severity: Its severity; the package `narrows.tune.findings` defines them.
        subject: Interface, namespace or file that was checked; empty for the whole host.
        what: The fact.
        why: Its relevance.
        fix: A remedy, or an empty string.
        source: Source: a release of Linux, a document, or a file of the host.
    """

    id: str
    severity: Severity
    subject: str = ""
    what: str
    why: str
    fix: str = ""
    source: str

    def json(self) -> dict[str, str]:
        """The finding as a JSON object."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Path:
    """The path that one connection of the host should be able to fill with its TCP buffers."""

    rate_mbit: float | None = None
    rtt_ms: float | None = None
