"""Congestion controls as objects.

Written by `NARROWS_GOLDEN=write pytest tests/test_schema.py`.
"""

from dataclasses import dataclass

from narrows.runs.choice import Choice

__all__ = [
    "Bbr",
    "Bbr2",
    "Bbr3",
    "Bic",
    "Cdg",
    "Compound",
    "Copa",
    "Cubic",
    "Dctcp",
    "HighSpeed",
    "Htcp",
    "Hybla",
    "Illinois",
    "Ledbat",
    "Lp",
    "NewReno",
    "Nv",
    "Prague",
    "Remy",
    "Reno",
    "Scalable",
    "Timely",
    "Vegas",
    "Veno",
    "Westwood",
    "Xcp",
    "Yeah",
]

@dataclass(frozen=True, kw_only=True)
class Reno(Choice):
    """Additive increase by one packet per round trip, half on loss.

    Source: RFC 5681; Linux 6.12.
    """

@dataclass(frozen=True, kw_only=True)
class Cubic(Choice):
    """Linux's default since 2006: a cubic curve of time since the last loss.

    Source: RFC 9438; Linux 6.12.

    Attributes:
        hystart: How slow start finds its end: Linux's HyStart, not at all, or HyStart++ (RFC
            9406). One of `linux`, `off`, `plusplus`, default linux (Linux 6.12 tcp_cubic:
            hystart = 1, hystart_detect = 3).
        fast_convergence: Remember 0.85 of the window, not all of it, when it shrank below the
            last maximum: makes room for others. Default true (Linux 6.12 tcp_cubic:
            fast_convergence = 1).
        tcp_friendliness: Never grow slower than Reno would. Default true (Linux 6.12 tcp_cubic:
            tcp_friendliness = 1).
    """

    hystart: str | None = None
    fast_convergence: bool | None = None
    tcp_friendliness: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Bbr(Choice):
    """Version 1: paced at the greatest delivery rate seen, two round trips' worth in flight.

    Source: Linux 6.12 tcp_bbr; Cardwell et al., ACM Queue 14(5), 2016.

    Attributes:
        startup_gain: Times the bandwidth in Startup, window and pacing; Drain is paced by its
            inverse. From 1.0 to 16.0, default 2.885 (Linux 6.12 tcp_bbr: bbr_high_gain, 2/ln
            2).
        probe_gain: Times the bandwidth in the phase of ProbeBW that asks for more. From 1.0 to
            16.0, default 1.25 (Linux 6.12 tcp_bbr: bbr_pacing_gain).
        relief_gain: Times the bandwidth in the phase that lets the queue drain which that one
            made. From 0.01 to 1.0, default 0.75 (Linux 6.12 tcp_bbr: bbr_pacing_gain).
        cwnd_gain: Bandwidth-delay products in the window. From 1.0 to 16.0, default 2.0 (Linux
            6.12 tcp_bbr: bbr_cwnd_gain).
        bw_window: Round trips over which the greatest delivery rate is taken. From 1 to 1000,
            default 10 (Linux 6.12 tcp_bbr: bbr_bw_rtts, a cycle and two).
        full_pipe_gain: Growth of the bandwidth that tells a pipe not yet full. From 1.0 to
            16.0, default 1.25 (Linux 6.12 tcp_bbr: bbr_full_bw_thresh).
        full_pipe_rounds: Round trips without it, before the pipe counts as full. From 1 to 100,
            default 3 (Linux 6.12 tcp_bbr: bbr_full_bw_cnt).
        min_rtt_window: How long a least round trip is believed. Time from 1ms to 24h, default
            10s (Linux 6.12 tcp_bbr: bbr_min_rtt_win_sec).
        probe_rtt_time: How long ProbeRTT holds the window down; 0 never enters it. Time from 0s
            to 60s, default 200ms (Linux 6.12 tcp_bbr: bbr_probe_rtt_mode_ms).
        min_cwnd: The least window, and that of ProbeRTT, in packets. From 1 to 1000, default 4
            (Linux 6.12 tcp_bbr: bbr_cwnd_min_target).
        pacing_margin: The share that pacing stays below its rate (none before 4.20). From 0.0
            to 0.5, default 0.01 (Linux 6.12 tcp_bbr: bbr_pacing_margin_percent).
        aggregation_gain: How much of what is acknowledged in clumps is added to the window
            (nothing before 5.1). From 0.0 to 16.0, default 1.0 (Linux 6.12 tcp_bbr:
            bbr_extra_acked_gain).
        policer_detection: Take the rate of a token bucket where losses of a fifth and more give
            one away. Default true (Linux 6.12 tcp_bbr: the long-term bandwidth sampler).
    """

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
    """Version 2: as version 3, but asks for more until a queue stands, and gives back more.

    Source: draft-cardwell-iccrg-bbr-congestion-control-02; v2 alpha (2019).

    Attributes:
        startup_gain: Times the bandwidth in Startup. From 1.0 to 16.0, default 2.885 (v2 alpha
            (2019)).
        startup_cwnd_gain: Bandwidth-delay products in the window in Startup and Drain. From 1.0
            to 16.0, default 2.885 (v2 alpha (2019)).
        drain_gain: Times the bandwidth in Drain. From 0.01 to 1.0, default 0.347 (v2 alpha
            (2019)).
        drain_rounds: Round trips after which Drain ends though more is in flight than wanted;
            0: it does not. From 0 to 1000, default 0 (v2 alpha (2019)).
        up_gain: Times the bandwidth in the phase that asks for more. From 1.0 to 16.0, default
            1.25 (draft-ietf-ccwg-bbr-06).
        down_gain: Times the bandwidth in the phase that gives back. From 0.01 to 1.0, default
            0.75 (v2 alpha (2019)).
        cwnd_gain: Bandwidth-delay products in the window. From 1.0 to 16.0, default 2.0
            (draft-ietf-ccwg-bbr-06).
        up_cwnd_gain: The same in the phase that asks for more. From 1.0 to 16.0, default 2.0
            (v2 alpha (2019)).
        loss_threshold: The share of a round trip's packets that may be lost while more is asked
            for. From 0.0 to 1.0, default 0.02 (draft-ietf-ccwg-bbr-06: LossThresh).
        beta: What a round trip with losses leaves of a bound, at least. From 0.0 to 1.0,
            default 0.7 (draft-ietf-ccwg-bbr-06: Beta).
        headroom: The share of the known capacity that is left to others while cruising. From
            0.0 to 1.0, default 0.15 (draft-ietf-ccwg-bbr-06: Headroom).
        startup_losses: Losses in a round trip, apart from one another, that end Startup; 0:
            none do. From 0 to 1000, default 8 (v2 alpha (2019)).
        full_pipe_gain: Growth of the bandwidth that tells a pipe not yet full. From 1.0 to
            16.0, default 1.25 (draft-ietf-ccwg-bbr-06: CheckFullBWReached).
        full_pipe_rounds: Round trips without it, before the pipe counts as full. From 1 to 100,
            default 3 (draft-ietf-ccwg-bbr-06: CheckFullBWReached).
        probe_wait: How long it waits at least, before it asks for more again. Time from 0s to
            24h, default 2s (draft-ietf-ccwg-bbr-06: PickProbeWait).
        probe_wait_random: At most so much longer, at random. Time from 0s to 24h, default 1s
            (draft-ietf-ccwg-bbr-06: PickProbeWait).
        probe_rounds: But no longer than so many round trips, nor than a Reno flow of its size
            takes to grow. From 1 to 1000000, default 63 (draft-ietf-ccwg-bbr-06:
            IsRenoCoexistenceProbeTime).
        min_rtt_window: How long a least round trip is believed. Time from 1ms to 24h, default
            10s (draft-ietf-ccwg-bbr-06: MinRTTFilterLen).
        probe_rtt_interval: How long without a lower round trip, before ProbeRTT looks for it.
            Time from 1ms to 24h, default 5s (draft-ietf-ccwg-bbr-06: ProbeRTTInterval).
        probe_rtt_time: How long ProbeRTT holds the window down. Time from 0s to 60s, default
            200ms (draft-ietf-ccwg-bbr-06: ProbeRTTDuration).
        probe_rtt_cwnd_gain: Bandwidth-delay products in the window of ProbeRTT. From 0.0 to
            1.0, default 0.5 (draft-ietf-ccwg-bbr-06: ProbeRTTCwndGain).
        min_cwnd: The least window, in packets. From 1 to 1000, default 4
            (draft-ietf-ccwg-bbr-06: MinPipeCwnd).
        pacing_margin: The share that pacing stays below its rate. From 0.0 to 0.5, default 0.01
            (draft-ietf-ccwg-bbr-06: PacingMarginPercent).
        aggregation_rounds: Round trips over which the most that came in a clump is added to the
            window. From 1 to 1000, default 10 (draft-ietf-ccwg-bbr-06: ExtraAckedFilterLen).
        ecn: Answer to marks, where the flow uses ECN. Default false (v2 alpha and v3 as
            published by Google; the draft has none).
        ecn_max_rtt: Only where the least round trip is no longer. Time from 0s to 60s, default
            5ms (v2 alpha and v3 as published by Google; the draft has none).
    """

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
    """Version 3: probes for bandwidth now and then, and bounds what is in flight by what losses
    have taught it.

    Source: draft-ietf-ccwg-bbr-06.

    Attributes:
        startup_gain: Times the bandwidth in Startup. From 1.0 to 16.0, default 2.77
            (draft-ietf-ccwg-bbr-06).
        startup_cwnd_gain: Bandwidth-delay products in the window in Startup and Drain. From 1.0
            to 16.0, default 2.0 (draft-ietf-ccwg-bbr-06).
        drain_gain: Times the bandwidth in Drain. From 0.01 to 1.0, default 0.5
            (draft-ietf-ccwg-bbr-06).
        drain_rounds: Round trips after which Drain ends though more is in flight than wanted;
            0: it does not. From 0 to 1000, default 3 (draft-ietf-ccwg-bbr-06).
        up_gain: Times the bandwidth in the phase that asks for more. From 1.0 to 16.0, default
            1.25 (draft-ietf-ccwg-bbr-06).
        down_gain: Times the bandwidth in the phase that gives back. From 0.01 to 1.0, default
            0.9 (draft-ietf-ccwg-bbr-06).
        cwnd_gain: Bandwidth-delay products in the window. From 1.0 to 16.0, default 2.0
            (draft-ietf-ccwg-bbr-06).
        up_cwnd_gain: The same in the phase that asks for more. From 1.0 to 16.0, default 2.25
            (draft-ietf-ccwg-bbr-06).
        loss_threshold: The share of a round trip's packets that may be lost while more is asked
            for. From 0.0 to 1.0, default 0.02 (draft-ietf-ccwg-bbr-06: LossThresh).
        beta: What a round trip with losses leaves of a bound, at least. From 0.0 to 1.0,
            default 0.7 (draft-ietf-ccwg-bbr-06: Beta).
        headroom: The share of the known capacity that is left to others while cruising. From
            0.0 to 1.0, default 0.15 (draft-ietf-ccwg-bbr-06: Headroom).
        startup_losses: Losses in a round trip, apart from one another, that end Startup; 0:
            none do. From 0 to 1000, default 6 (draft-ietf-ccwg-bbr-06).
        full_pipe_gain: Growth of the bandwidth that tells a pipe not yet full. From 1.0 to
            16.0, default 1.25 (draft-ietf-ccwg-bbr-06: CheckFullBWReached).
        full_pipe_rounds: Round trips without it, before the pipe counts as full. From 1 to 100,
            default 3 (draft-ietf-ccwg-bbr-06: CheckFullBWReached).
        probe_wait: How long it waits at least, before it asks for more again. Time from 0s to
            24h, default 2s (draft-ietf-ccwg-bbr-06: PickProbeWait).
        probe_wait_random: At most so much longer, at random. Time from 0s to 24h, default 1s
            (draft-ietf-ccwg-bbr-06: PickProbeWait).
        probe_rounds: But no longer than so many round trips, nor than a Reno flow of its size
            takes to grow. From 1 to 1000000, default 63 (draft-ietf-ccwg-bbr-06:
            IsRenoCoexistenceProbeTime).
        min_rtt_window: How long a least round trip is believed. Time from 1ms to 24h, default
            10s (draft-ietf-ccwg-bbr-06: MinRTTFilterLen).
        probe_rtt_interval: How long without a lower round trip, before ProbeRTT looks for it.
            Time from 1ms to 24h, default 5s (draft-ietf-ccwg-bbr-06: ProbeRTTInterval).
        probe_rtt_time: How long ProbeRTT holds the window down. Time from 0s to 60s, default
            200ms (draft-ietf-ccwg-bbr-06: ProbeRTTDuration).
        probe_rtt_cwnd_gain: Bandwidth-delay products in the window of ProbeRTT. From 0.0 to
            1.0, default 0.5 (draft-ietf-ccwg-bbr-06: ProbeRTTCwndGain).
        min_cwnd: The least window, in packets. From 1 to 1000, default 4
            (draft-ietf-ccwg-bbr-06: MinPipeCwnd).
        pacing_margin: The share that pacing stays below its rate. From 0.0 to 0.5, default 0.01
            (draft-ietf-ccwg-bbr-06: PacingMarginPercent).
        aggregation_rounds: Round trips over which the most that came in a clump is added to the
            window. From 1 to 1000, default 10 (draft-ietf-ccwg-bbr-06: ExtraAckedFilterLen).
        ecn: Answer to marks, where the flow uses ECN. Default false (v2 alpha and v3 as
            published by Google; the draft has none).
        ecn_max_rtt: Only where the least round trip is no longer. Time from 0s to 60s, default
            5ms (v2 alpha and v3 as published by Google; the draft has none).
    """

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
class Bic(Choice):
    """Linux's default before CUBIC: looks for the window of the last loss by halves.

    Source: Xu, Harfoush, Rhee 2004; Linux 6.12.

    Attributes:
        fast_convergence: Remember 0.9 of the window, not all of it, when it shrank below the
            last maximum: makes room for others. Default true (Linux 6.12 tcp_bic:
            fast_convergence = 1).
        max_increment: Packets per round trip that the search adds at most. From 1 to 1000,
            default 16 (Linux 6.12 tcp_bic: max_increment = 16).
        low_window: Packets up to which it is Reno. From 0 to 1000000, default 14 (Linux 6.12
            tcp_bic: low_window = 14).
        beta: What a loss leaves of the window, in 1/1024. From 1 to 1023, default 819 (Linux
            6.12 tcp_bic: beta = 819).
        smooth_part: Round trips in which the window passes the four packets around its maximum.
            From 1 to 1000, default 20 (Linux 6.12 tcp_bic: smooth_part = 20).
    """

    fast_convergence: bool | None = None
    max_increment: int | None = None
    low_window: int | None = None
    beta: int | None = None
    smooth_part: int | None = None

@dataclass(frozen=True, kw_only=True)
class Cdg(Choice):
    """Backs off by chance when round trips grow longer (CAIA delay gradient).

    Source: Hayes, Armitage, Networking 2011; Linux 6.12.

    Attributes:
        window: Round trips over which gradients are averaged. From 1 to 256, default 8 (Linux
            6.12 tcp_cdg: window = 8).
        backoff_beta: What a back-off leaves of the window, in 1/1024. From 0 to 1024, default
            724 (Linux 6.12 tcp_cdg: backoff_beta = 0.7071 · 1024).
        backoff_factor: How soon it backs off: 1000/(window · G in ms); 0 never does. From 0 to
            1000000, default 42 (Linux 6.12 tcp_cdg: backoff_factor = 42, G = 3 ms with a window
            of 8).
        hystart_detect: What ends slow start: 1 ACK trains, 2 delay, 3 both, 0 neither. From 0
            to 3, default 3 (Linux 6.12 tcp_cdg: hystart_detect = 3).
        use_ineff: Back-offs in a row without effect, after which the next are left out; 0
            counts none. From 0 to 255, default 5 (Linux 6.12 tcp_cdg: use_ineff = 5).
        use_shadow: On loss, take what Reno would have had without back-offs into account.
            Default true (Linux 6.12 tcp_cdg: use_shadow = 1).
        use_tolerance: Leave the window as it is on a loss while gradients say that the queue is
            not full. Default false (Linux 6.12 tcp_cdg: use_tolerance = 0).
    """

    window: int | None = None
    backoff_beta: int | None = None
    backoff_factor: int | None = None
    hystart_detect: int | None = None
    use_ineff: int | None = None
    use_shadow: bool | None = None
    use_tolerance: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Compound(Choice):
    """Reno's window and a second one beside it that grows fast while no queue is seen.

    Source: draft-sridharan-tcpm-ctcp-02; Tan et al., INFOCOM 2006.

    Attributes:
        alpha: How fast the delay window grows: by alpha * win^k - 1 packets per round trip.
            From 0.0 to 10.0, default 0.125 (draft-sridharan-tcpm-ctcp: 1/8).
        beta: The share of the window that a loss takes. From 0.0 to 1.0, default 0.5
            (draft-sridharan-tcpm-ctcp: 1/2).
        k: The exponent of the window in that growth. From 0.0 to 1.0, default 0.75
            (draft-sridharan-tcpm-ctcp: 3/4).
        zeta: The delay window gives back so many times what waits in the queue. From 0.0 to
            10.0, default 1.0 (draft-sridharan-tcpm-ctcp: 1).
        gamma: Packets in the queue that end its growth; the most that tuning makes of it, too.
            From 0.0 to 100000.0, default 30.0 (draft-sridharan-tcpm-ctcp: 30).
        gamma_low: The least that tuning makes of gamma. From 0.0 to 100000.0, default 5.0
            (draft-sridharan-tcpm-ctcp: 5).
        gamma_weight: The weight of the newest loss in gamma; 0 never tunes it. From 0.0 to 1.0,
            default 0.8 (draft-sridharan-tcpm-ctcp leaves it open: 0.8 as in ns-3's model).
        low_window: Below so many packets it is Reno. From 0 to 1000000, default 38 (RFC 3649
            section 5: Low_Window, the window at a loss rate of 0.001).
    """

    alpha: float | None = None
    beta: float | None = None
    k: float | None = None
    zeta: float | None = None
    gamma: float | None = None
    gamma_low: float | None = None
    gamma_weight: float | None = None
    low_window: int | None = None

@dataclass(frozen=True, kw_only=True)
class Copa(Choice):
    """Moves towards the rate that the queue's delay asks for: a few packets of queue per flow.

    Source: Arun, Balakrishnan, NSDI 2018.

    Attributes:
        delta: How much delay weighs against rate: a flow aims at 1/delta packets in the queue.
            From 0.001 to 100.0, default 0.5 (Copa (NSDI 2018) section 2.2: 0.5).
        min_rtt_window: How long a least round trip is believed. Time from 1ms to 24h, default
            10s (Copa (NSDI 2018) section 2.1: 10 s).
        competitive: Compete with flows that keep the queue full. Default true (Copa (NSDI 2018)
            section 2.2).
    """

    delta: float | None = None
    min_rtt_window: str | None = None
    competitive: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Dctcp(Choice):
    """For data centres: shrinks by the share of packets that the switches marked.

    Source: RFC 8257; Linux 6.12.

    Attributes:
        shift_g: The share that a new window has in alpha: a half to the power of this. From 0
            to 10, default 4 (Linux 6.12 tcp_dctcp: dctcp_shift_g = 4; RFC 8257 section 4.2).
        alpha_on_init: Alpha before anything is known, in 1/1024. From 0 to 1024, default 1024
            (Linux 6.12 tcp_dctcp: dctcp_alpha_on_init = 1024; RFC 8257 section 4.2).
    """

    shift_g: int | None = None
    alpha_on_init: int | None = None

@dataclass(frozen=True, kw_only=True)
class HighSpeed(Choice):
    """Grows faster and gives up less, the larger its window is: Reno up to 38 packets.

    Source: RFC 3649; Linux 6.12.
    """

@dataclass(frozen=True, kw_only=True)
class Htcp(Choice):
    """Grows faster the longer the last congestion is ago, and gives way by the queue it made.

    Source: Leith, Shorten 2004; draft-leith-tcp-htcp-06; Linux 6.12.

    Attributes:
        rtt_scaling: Grow in packets per second, not per round trip: scale by the least round
            trip over 100 ms. Default true (Linux 6.12 tcp_htcp: use_rtt_scaling = 1).
        bandwidth_switch: Halve the window where the throughput has changed by a fifth since the
            last congestion. Default true (Linux 6.12 tcp_htcp: use_bandwidth_switch = 1).
    """

    rtt_scaling: bool | None = None
    bandwidth_switch: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Hybla(Choice):
    """Reno with steps that a longer round trip makes larger: for satellites.

    Source: Caini, Firrincieli 2004; Linux 6.12.

    Attributes:
        rtt0: The round trip of the path whose growth is taken: shorter paths are not slowed
            down. Time from 1ms to 10s, default 25ms (Linux 6.12 tcp_hybla: rtt0 = 25; Caini,
            Firrincieli 2004).
    """

    rtt0: str | None = None

@dataclass(frozen=True, kw_only=True)
class Illinois(Choice):
    """Losses tell when to give way, queueing delay how much: fast while there is no queue.

    Source: Liu, Başar, Srikant 2006; Linux 6.12.

    Attributes:
        win_thresh: Packets below which it is Reno. From 0 to 1000000, default 15 (Linux 6.12
            tcp_illinois: win_thresh = 15).
        theta: Round trips without a queue before the window grows by ten packets per round trip
            again. From 1 to 100, default 5 (Linux 6.12 tcp_illinois: theta = 5).
    """

    win_thresh: int | None = None
    theta: int | None = None

@dataclass(frozen=True, kw_only=True)
class Ledbat(Choice):
    """LEDBAT++, for data that can wait: fills what others leave, 60 ms of queue at most.

    Source: draft-irtf-iccrg-ledbat-plus-plus-01; RFC 6817.

    Attributes:
        target: The delay in the queue that it allows itself. Time from 10us to 10s, default
            60ms (draft-irtf-iccrg-ledbat-plus-plus-01 section 4.5: 60 ms).
        gain_divisor: The least gain is one in so many packets per round trip. From 1 to 1000,
            default 16 (draft-irtf-iccrg-ledbat-plus-plus-01 section 4.2: 16).
        decrease: Times the window and the share above the target that is given back per round
            trip. From 0.0 to 16.0, default 1.0 (draft-irtf-iccrg-ledbat-plus-plus-01 section
            4.3: Constant, 1).
        slowdown_interval: A slowdown follows the last one after so many times its length; 0
            never slows down. From 0 to 1000, default 9 (draft-irtf-iccrg-ledbat-plus-plus-01
            section 4.4: 9).
    """

    target: str | None = None
    gain_divisor: int | None = None
    decrease: float | None = None
    slowdown_interval: int | None = None

@dataclass(frozen=True, kw_only=True)
class Lp(Choice):
    """Low priority: halves its window as soon as one-way delays grow.

    Source: Kuzmanovic, Knightly, ToN 2006; Linux 6.12.

    Attributes:
        stamp_offset: Where the peer's timestamps begin: anywhere (then seven of eight flows
            never give way), or with its clock. One of `random`, `none`, default random (Linux
            6.12: tcp_timestamps = 1 (random), 2 (none)).
    """

    stamp_offset: str | None = None

@dataclass(frozen=True, kw_only=True)
class NewReno(Choice):
    """Reno without SACK: duplicate ACKs tell of losses, one per round trip is repaired.

    Source: RFC 6582; Linux 6.12 without SACK.
    """

@dataclass(frozen=True, kw_only=True)
class Nv(Choice):
    """New Vegas: ten packets in the queue, decided only after enough round-trip samples.

    Source: Brakmo, Linux Plumbers Conference 2010; Linux 6.12.

    Attributes:
        nv_pad: Packets that it keeps in the queue. From 0 to 255, default 10 (Linux 6.12
            tcp_nv: nv_pad = 10).
        nv_pad_buffer: Packets below the greatest window at which it stops to grow. From 0 to
            255, default 2 (Linux 6.12 tcp_nv: nv_pad_buffer = 2).
        nv_reset_period: How long a least round trip is believed, s, by chance a quarter more or
            less. From 1 to 3600, default 5 (Linux 6.12 tcp_nv: nv_reset_period = 5).
        nv_min_cwnd: The least window after a decision, in packets. From 1 to 1000, default 2
            (Linux 6.12 tcp_nv: nv_min_cwnd = 2).
        nv_cong_dec_mult: How much of what is too much a decision takes away, in 1/128. From 0
            to 128, default 38 (Linux 6.12 tcp_nv: nv_cong_dec_mult = 30 %).
        nv_ssthresh_factor: The threshold that a decision to shrink sets, in eighths of the
            greatest window. From 1 to 64, default 8 (Linux 6.12 tcp_nv: nv_ssthresh_factor =
            8).
        nv_rtt_factor: Weight of a new round trip in the average, in 1/256; 0 averages nothing.
            From 0 to 256, default 128 (Linux 6.12 tcp_nv: nv_rtt_factor = 128).
        nv_loss_dec_factor: What a loss leaves of the window, in 1/1024. From 0 to 1024, default
            819 (Linux 6.12 tcp_nv: nv_loss_dec_factor = 80 %).
        nv_cwnd_growth_rate_neg: Decisions to grow after which growth slowed by a timeout
            doubles; 0: timeouts do not slow it. From 0 to 255, default 8 (Linux 6.12 tcp_nv:
            nv_cwnd_growth_rate_neg = 8).
        nv_cwnd_growth_rate_pos: Decisions to grow after which growth doubles beyond Reno's; 0
            never. From 0 to 255, default 0 (Linux 6.12 tcp_nv: nv_cwnd_growth_rate_pos = 0).
        nv_dec_eval_min_calls: Samples before it shrinks. From 0 to 255, default 60 (Linux 6.12
            tcp_nv: nv_dec_eval_min_calls = 60).
        nv_inc_eval_min_calls: Samples before it grows. From 0 to 255, default 20 (Linux 6.12
            tcp_nv: nv_inc_eval_min_calls = 20).
        nv_ssthresh_eval_min_calls: Samples before it ends slow start. From 0 to 255, default 30
            (Linux 6.12 tcp_nv: nv_ssthresh_eval_min_calls = 30).
        nv_stop_rtt_cnt: Round trips with too few samples to shrink, after which it stops to
            grow. From 0 to 255, default 10 (Linux 6.12 tcp_nv: nv_stop_rtt_cnt = 10).
        nv_rtt_min_cnt: Round trips before it shrinks. From 0 to 255, default 2 (Linux 6.12
            tcp_nv: nv_rtt_min_cnt = 2).
    """

    nv_pad: int | None = None
    nv_pad_buffer: int | None = None
    nv_reset_period: int | None = None
    nv_min_cwnd: int | None = None
    nv_cong_dec_mult: int | None = None
    nv_ssthresh_factor: int | None = None
    nv_rtt_factor: int | None = None
    nv_loss_dec_factor: int | None = None
    nv_cwnd_growth_rate_neg: int | None = None
    nv_cwnd_growth_rate_pos: int | None = None
    nv_dec_eval_min_calls: int | None = None
    nv_inc_eval_min_calls: int | None = None
    nv_ssthresh_eval_min_calls: int | None = None
    nv_stop_rtt_cnt: int | None = None
    nv_rtt_min_cnt: int | None = None

@dataclass(frozen=True, kw_only=True)
class Prague(Choice):
    """DCTCP for the Internet (L4S): two marks per round trip, whatever the rate.

    Source: draft-briscoe-iccrg-prague-congestion-control-04; RFC 9331.

    Attributes:
        shift_g: The share that a new round trip has in alpha: a half to the power of this. From
            0 to 10, default 4 (draft-briscoe-iccrg-prague-congestion-control-04; TCP Prague
            0.6: PRAGUE_SHIFT_G).
        rtt_target: Flows with a shorter round trip act as if theirs were this long; 0s: every
            flow by its own. Time from 0s to 1s, default 25ms
            (draft-briscoe-iccrg-prague-congestion-control-04; TCP Prague 0.6:
            prague_rtt_target).
        rtt_transition: Round trips before they do. From 0 to 1000000, default 500 (TCP Prague
            0.6: prague_rtt_transition).
    """

    shift_g: int | None = None
    rtt_target: str | None = None
    rtt_transition: int | None = None

@dataclass(frozen=True, kw_only=True)
class Remy(Choice):
    """A tree of rules that a computer has found, over gaps and round-trip times.

    Source: Winstein, Balakrishnan 2013.

    Attributes:
        tree: The tree of rules: one that comes with narrows, or a file. One of `small`, `a
            file`, default small (docs/reference/remy-tree.md).
    """

    tree: str | None = None  # type: ignore[assignment]

@dataclass(frozen=True, kw_only=True)
class Scalable(Choice):
    """Up by a hundredth of what is acknowledged, down by an eighth: recovers as fast at any rate.

    Source: Kelly 2003; Linux 6.12.
    """

@dataclass(frozen=True, kw_only=True)
class Timely(Choice):
    """For data centres: a rate that follows how the round trip changes.

    Source: Mittal et al., SIGCOMM 2015.

    Attributes:
        line_rate: The rate of the host's link: where a flow begins, and the most that it sends.
            Rate from 1kbit to 10Tbit, default 10Gbit (TIMELY (SIGCOMM 2015) section 6: 10
            Gbit/s).
        segment: The rate moves once per so many bytes, which leave as one burst. Bytes from 1B
            to 1GiB, default 64KiB (TIMELY (SIGCOMM 2015) section 5: 16 to 64 KB).
        t_low: Below this round trip the rate grows, whatever the gradient. Time from 0s to 10s,
            default 50us (TIMELY (SIGCOMM 2015) section 6: 50 us).
        t_high: Above this round trip the rate falls, whatever the gradient. Time from 1ns to
            10s, default 500us (TIMELY (SIGCOMM 2015) section 6: 500 us).
        min_rtt: The round trip of the path, which changes of the round trip are measured by.
            Time from 1ns to 10s, default 20us (Zhu et al. (CoNEXT 2016) table 2: 20 us).
        delta: The additive increase, and the least rate. Rate from 1bit to 1Tbit, default
            10Mbit (TIMELY (SIGCOMM 2015) section 6: 10 Mbit/s).
        alpha: The weight of the newest difference of two round trips. From 0.0 to 1.0, default
            0.875 (Zhu et al. (CoNEXT 2016) table 2: 0.875).
        beta: The multiplicative decrease. From 0.0 to 1.0, default 0.8 (TIMELY (SIGCOMM 2015)
            section 6: 0.8).
        hai_after: After so many segments in a row without a rising round trip the increase is
            five times as large. From 1 to 1000000, default 5 (TIMELY (SIGCOMM 2015) section
            4.3: five).
    """

    line_rate: str | None = None
    segment: str | None = None
    t_low: str | None = None
    t_high: str | None = None
    min_rtt: str | None = None
    delta: str | None = None
    alpha: float | None = None
    beta: float | None = None
    hai_after: int | None = None

@dataclass(frozen=True, kw_only=True)
class Vegas(Choice):
    """Two to four packets in the queue, by the round trip: one packet more or less with each.

    Source: Brakmo, Peterson 1995; Linux 6.12.

    Attributes:
        alpha: The window grows while fewer packets than this are queued. Packets from 0p to
            1000p, default 2p (Linux 6.12 tcp_vegas: alpha = 2).
        beta: And shrinks while more than this are. Packets from 0p to 1000p, default 4p (Linux
            6.12 tcp_vegas: beta = 4).
        gamma: Slow start ends when more than this are queued. Packets from 0p to 1000p, default
            1p (Linux 6.12 tcp_vegas: gamma = 1).
    """

    alpha: str | None = None
    beta: str | None = None
    gamma: str | None = None

@dataclass(frozen=True, kw_only=True)
class Veno(Choice):
    """Reno that takes a loss for chance, a fifth instead of half, while it has fewer than three
    packets queued.

    Source: Fu, Liew 2003; Linux 6.12.

    Attributes:
        beta: Packets queued from which on growth is halved, and a loss is taken for congestion.
            Packets from 0p to 1000p, default 3p (Linux 6.12 tcp_veno: beta = 3).
    """

    beta: str | None = None

@dataclass(frozen=True, kw_only=True)
class Westwood(Choice):
    """Reno that comes down to the bandwidth it has measured: for paths that lose by chance.

    Source: Mascolo et al. 2001; Grieco, Mascolo 2004; Linux 6.12.
    """

@dataclass(frozen=True, kw_only=True)
class Xcp(Choice):
    """Routers write into every packet by how much its sender's window changes.

    Source: Katabi, Handley, Rohrs 2002; draft-falk-xcp-spec-03.

    Attributes:
        rate: What the sender asks routers for; as it is, all that they have. Rate from 1kbit to
            10Tbit, default 10Tbit (Katabi, Handley, Rohrs 2002, section 3.2: the desired rate).
    """

    rate: str | None = None

@dataclass(frozen=True, kw_only=True)
class Yeah(Choice):
    """Scalable while its queue is short, Reno beside others; takes its own queue away before it is
    lost.

    Source: Baiocchi, Castellani, Vacirca 2007; Linux 6.12.

    Attributes:
        alpha: More packets queued than this are taken away, and make it slow. Packets from 0p
            to 100000p, default 80p (Linux 6.12 tcp_yeah: TCP_YEAH_ALPHA).
        gamma: Of the packets queued one in so many is taken away. From 1 to 1000, default 1
            (Linux 6.12 tcp_yeah: TCP_YEAH_GAMMA).
        delta: Halvings of the window: what a loss costs at least. From 1 to 31, default 3
            (Linux 6.12 tcp_yeah: TCP_YEAH_DELTA).
        epsilon: Halvings of the window: what is taken away at most. From 1 to 31, default 1
            (Linux 6.12 tcp_yeah: TCP_YEAH_EPSILON).
        phy: A queue that delays by more than this share of the least round trip makes it slow,
            too. From 1 to 1000, default 8 (Linux 6.12 tcp_yeah: TCP_YEAH_PHY).
        rho: Slow round trips in a row after which a loss costs half. From 0 to 1000, default 16
            (Linux 6.12 tcp_yeah: TCP_YEAH_RHO).
        zeta: Fast round trips after which no greedy flow is thought to be beside it. From 0 to
            100000, default 50 (Linux 6.12 tcp_yeah: TCP_YEAH_ZETA).
    """

    alpha: str | None = None
    gamma: int | None = None
    delta: int | None = None
    epsilon: int | None = None
    phy: int | None = None
    rho: int | None = None
    zeta: int | None = None
