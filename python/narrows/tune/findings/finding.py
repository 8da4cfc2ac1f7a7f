"""The form of a finding."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Severity = Literal["error", "warning", "note", "good"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note", "good")
"""The worst first."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        id: Which rule; `pacing`, `qdisc`.
        severity: See `narrows.tune.findings`.
        subject: What of the host it is about: an interface, a namespace, a file; empty for all of
            it.
        what: What is so.
        why: Why it matters.
        fix: What changes it; empty where there is nothing to change.
        source: Where that is known from: a release of Linux, a document, a file of the host.
    """

    id: str
    severity: Severity
    subject: str = ""
    what: str
    why: str
    fix: str = ""
    source: str

    def json(self) -> dict[str, str]:
        """As a row of the document."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Path:
    """The path that a host's buffers should fill."""

    rate_mbit: float | None = None
    rtt_ms: float | None = None

    @property
    def bdp_bytes(self) -> float | None:
        """Rate times RTT.

        >>> Path(rate_mbit=100, rtt_ms=80).bdp_bytes
        1000000.0
        """
        if self.rate_mbit is None or self.rtt_ms is None:
            return None
        return self.rate_mbit * 1e6 / 8 * self.rtt_ms / 1e3
