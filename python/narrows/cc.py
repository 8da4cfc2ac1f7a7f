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
class Bbr2(Choice):
    """Version 2 of BBR, as its alpha ran in published measurements: learns from losses how much may be in flight.

    >>> Bbr2(headroom=0.1).tree()
    {'kind': 'bbr2', 'headroom': 0.1}

    Attributes:
        startup_gain: Times the bandwidth in Startup.
        startup_cwnd_gain: Bandwidth-delay products in the window in Startup and Drain.
        drain_gain: Times the bandwidth in Drain.
        drain_rounds: Round trips after which Drain ends anyway; 0: it does not.
        up_gain: Times the bandwidth in the phase that asks for more.
        down_gain: Times the bandwidth in the phase that gives back.
        cwnd_gain: Bandwidth-delay products in the window.
        up_cwnd_gain: The same in the phase that asks for more.
        loss_threshold: The share of a round trip's packets that may be lost while more is asked for.
        beta: What a round trip with losses leaves of a bound, at least.
        headroom: The share of the known capacity that is left to others while cruising.
        startup_losses: Losses in a round trip that end Startup; 0: none do.
        full_pipe_gain: Growth of the bandwidth that tells a pipe not yet full.
        full_pipe_rounds: Round trips without it, before the pipe counts as full.
        probe_wait: How long it waits at least, before it asks for more again, as `"2s"`.
        probe_wait_random: At most so much longer, at random, as `"1s"`.
        probe_rounds: But no longer than so many round trips.
        min_rtt_window: How long a least round trip is believed, as `"10s"`.
        probe_rtt_interval: How long without a lower round trip, before ProbeRTT looks for it, as `"5s"`.
        probe_rtt_time: How long ProbeRTT holds the window down, as `"200ms"`.
        probe_rtt_cwnd_gain: Bandwidth-delay products in the window of ProbeRTT.
        min_cwnd: The least window, in packets.
        pacing_margin: The share that pacing stays below its rate.
        aggregation_rounds: Round trips over which the most that came in a clump is added to the window.
        ecn: Answer to marks, where the flow uses ECN.
        ecn_max_rtt: Only where the least round trip is no longer, as `"5ms"`.
    """

    kind = "bbr2"
    startup_gain: float | None = None
    startup_cwnd_gain: float | None = None
    drain_gain: float | None = None
    drain_rounds: int | None = None
    up_gain: float | None = None
    down_gain: float | None = None
    cwnd_gain: float | None = None
    up_cwnd_gain: float | None = None
    loss_threshold: float | None = None
    beta: float | None = None
    headroom: float | None = None
    startup_losses: int | None = None
    full_pipe_gain: float | None = None
    full_pipe_rounds: int | None = None
    probe_wait: str | None = None
    probe_wait_random: str | None = None
    probe_rounds: int | None = None
    min_rtt_window: str | None = None
    probe_rtt_interval: str | None = None
    probe_rtt_time: str | None = None
    probe_rtt_cwnd_gain: float | None = None
    min_cwnd: int | None = None
    pacing_margin: float | None = None
    aggregation_rounds: int | None = None
    ecn: bool | None = None
    ecn_max_rtt: str | None = None


@dataclass(frozen=True, kw_only=True)
class Bbr3(Choice):
    """Version 3 of BBR (draft-ietf-ccwg-bbr): as version 2, but asks for more until the rate grows no more.

    >>> Bbr3(loss_threshold=0.05).tree()
    {'kind': 'bbr3', 'loss_threshold': 0.05}

    Attributes:
        startup_gain: Times the bandwidth in Startup.
        startup_cwnd_gain: Bandwidth-delay products in the window in Startup and Drain.
        drain_gain: Times the bandwidth in Drain.
        drain_rounds: Round trips after which Drain ends anyway; 0: it does not.
        up_gain: Times the bandwidth in the phase that asks for more.
        down_gain: Times the bandwidth in the phase that gives back.
        cwnd_gain: Bandwidth-delay products in the window.
        up_cwnd_gain: The same in the phase that asks for more.
        loss_threshold: The share of a round trip's packets that may be lost while more is asked for.
        beta: What a round trip with losses leaves of a bound, at least.
        headroom: The share of the known capacity that is left to others while cruising.
        startup_losses: Losses in a round trip that end Startup; 0: none do.
        full_pipe_gain: Growth of the bandwidth that tells a pipe not yet full.
        full_pipe_rounds: Round trips without it, before the pipe counts as full.
        probe_wait: How long it waits at least, before it asks for more again, as `"2s"`.
        probe_wait_random: At most so much longer, at random, as `"1s"`.
        probe_rounds: But no longer than so many round trips.
        min_rtt_window: How long a least round trip is believed, as `"10s"`.
        probe_rtt_interval: How long without a lower round trip, before ProbeRTT looks for it, as `"5s"`.
        probe_rtt_time: How long ProbeRTT holds the window down, as `"200ms"`.
        probe_rtt_cwnd_gain: Bandwidth-delay products in the window of ProbeRTT.
        min_cwnd: The least window, in packets.
        pacing_margin: The share that pacing stays below its rate.
        aggregation_rounds: Round trips over which the most that came in a clump is added to the window.
        ecn: Answer to marks, where the flow uses ECN.
        ecn_max_rtt: Only where the least round trip is no longer, as `"5ms"`.
    """

    kind = "bbr3"
    startup_gain: float | None = None
    startup_cwnd_gain: float | None = None
    drain_gain: float | None = None
    drain_rounds: int | None = None
    up_gain: float | None = None
    down_gain: float | None = None
    cwnd_gain: float | None = None
    up_cwnd_gain: float | None = None
    loss_threshold: float | None = None
    beta: float | None = None
    headroom: float | None = None
    startup_losses: int | None = None
    full_pipe_gain: float | None = None
    full_pipe_rounds: int | None = None
    probe_wait: str | None = None
    probe_wait_random: str | None = None
    probe_rounds: int | None = None
    min_rtt_window: str | None = None
    probe_rtt_interval: str | None = None
    probe_rtt_time: str | None = None
    probe_rtt_cwnd_gain: float | None = None
    min_cwnd: int | None = None
    pacing_margin: float | None = None
    aggregation_rounds: int | None = None
    ecn: bool | None = None
    ecn_max_rtt: str | None = None


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
