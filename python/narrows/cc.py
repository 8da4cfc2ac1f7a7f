"""Congestion controls as objects; `narrows list cc --verbose` describes their parameters."""

from __future__ import annotations

from dataclasses import dataclass

from narrows._choice import Choice


@dataclass(frozen=True, kw_only=True)
class Reno(Choice):
    """Additive increase, multiplicative decrease (RFC 5681).

    >>> Reno().tree()
    {'kind': 'reno'}
    """

    kind = "reno"


@dataclass(frozen=True, kw_only=True)
class Cubic(Choice):
    """A cubic function of the time since the last loss (RFC 9438), as Linux has it.

    >>> Cubic(hystart="off").tree()
    {'kind': 'cubic', 'hystart': 'off'}

    Attributes:
        hystart: How slow start ends before the first loss: `"linux"`, `"plusplus"` (RFC 9406) or `"off"`.
        fast_convergence: Give way sooner when the window shrinks from loss to loss.
        tcp_friendliness: Never be slower than Reno would be.
    """

    kind = "cubic"
    hystart: str | None = None
    fast_convergence: bool | None = None
    tcp_friendliness: bool | None = None
