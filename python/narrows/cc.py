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
class Bbr(Choice):
    """Paced at the greatest delivery rate seen, two round trips' worth in flight: BBR version 1, as Linux has it.

    >>> Bbr(probe_gain=1.1).tree()
    {'kind': 'bbr', 'probe_gain': 1.1}

    Attributes:
        startup_gain: Times the bandwidth in Startup.
        probe_gain: Times the bandwidth while ProbeBW asks for more.
        relief_gain: Times the bandwidth while it gives back.
        cwnd_gain: Bandwidth-delay products in the window.
        bw_window: Round trips over which the greatest delivery rate is taken.
        full_pipe_gain: Growth of the bandwidth that tells a pipe not yet full.
        full_pipe_rounds: Round trips without it, before the pipe counts as full.
        min_rtt_window: How long a least round trip is believed, as `"10s"`.
        probe_rtt_time: How long ProbeRTT holds the window down, as `"200ms"`.
        min_cwnd: The least window, in packets.
        pacing_margin: The share that pacing stays below its rate.
        aggregation_gain: How much of what is acknowledged in clumps is added to the window.
        policer_detection: Take the rate of a token bucket where losses give one away.
    """

    kind = "bbr"
    startup_gain: float | None = None
    probe_gain: float | None = None
    relief_gain: float | None = None
    cwnd_gain: float | None = None
    bw_window: int | None = None
    full_pipe_gain: float | None = None
    full_pipe_rounds: int | None = None
    min_rtt_window: str | None = None
    probe_rtt_time: str | None = None
    min_cwnd: int | None = None
    pacing_margin: float | None = None
    aggregation_gain: float | None = None
    policer_detection: bool | None = None


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


@dataclass(frozen=True, kw_only=True)
class Remy(Choice):
    """A tree of rules that a computer has found (RemyCC).

    >>> Remy(tree="small").tree
    'small'

    Attributes:
        tree: One that comes with narrows (`"small"`), a file (docs/reference/remy-tree.md), or its text.
    """

    kind = "remy"
    tree: str | None = None  # type: ignore[assignment]  # what makes tables calls Choice's own


@dataclass(frozen=True, kw_only=True)
class Xcp(Choice):
    """Routers write into every packet by how much its sender's window changes; the narrowest hop's queue must be `xcp`.

    >>> Xcp(rate="5Mbit").tree()
    {'kind': 'xcp', 'rate': '5Mbit'}

    Attributes:
        rate: What the sender asks routers for, as `"5Mbit"`; all that they have unless given.
    """

    kind = "xcp"
    rate: str | None = None
