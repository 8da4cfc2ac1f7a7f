"""Congestion controls as objects.

Written by `make renew`.
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
    """Increases by one packet per RTT, halves the window after a loss.

    Source: RFC 5681; Linux 6.12.
    """

@dataclass(frozen=True, kw_only=True)
class Cubic(Choice):
    """Default of Linux since 2006: the window is a cubic function of the time since the last loss.

    Source: RFC 9438; Linux 6.12.

    Attributes:
        hystart: End of slow start: HyStart of Linux, no detection, or HyStart++ (RFC 9406). One
            of `linux`, `off`, `plusplus`, default linux (Linux 6.12 tcp_cubic: hystart = 1,
            hystart_detect = 3).
        fast_convergence: After a loss below the previous maximum, store 0.85 of the window
            instead of all of it, which leaves bandwidth to other flows. Default true (Linux
            6.12 tcp_cubic: fast_convergence = 1).
        tcp_friendliness: Keep the window at least as large as that of Reno with the same
            reduction factor. Default true (Linux 6.12 tcp_cubic: tcp_friendliness = 1).
        beta: Window after a reduction, relative to the window before; in units of 1/1024. From
            0.1 to 0.99, default 0.7 (RFC 9438 section 4.6; Linux 6.12 tcp_cubic: beta = 717).
        c: Factor of the cubic function, in packets/s³; in units of 10/1024. From 0.01 to 100.0,
            default 0.4 (RFC 9438 section 5; Linux 6.12 tcp_cubic: bic_scale = 41).
    """

    hystart: str | None = None
    fast_convergence: bool | None = None
    tcp_friendliness: bool | None = None
    beta: float | None = None
    c: float | None = None

@dataclass(frozen=True, kw_only=True)
class Bbr(Choice):
    """Version 1: paced at the largest delivery rate of the last ten RTTs, with about two
    bandwidth-delay products in flight at most.

    Source: Linux 6.12 tcp_bbr; Cardwell et al., ACM Queue 14(5), 2016.

    Attributes:
        startup_gain: Gain on the bandwidth in Startup, for the window and the pacing rate;
            Drain paces at its inverse. From 1.0 to 16.0, default 2.885 (Linux 6.12 tcp_bbr:
            bbr_high_gain, 2/ln 2).
        probe_gain: Pacing gain in the phase of ProbeBW that probes for bandwidth. From 1.0 to
            16.0, default 1.25 (Linux 6.12 tcp_bbr: bbr_pacing_gain).
        probe_down_gain: Pacing gain in the phase of ProbeBW that drains the queue of the probe.
            From 0.01 to 1.0, default 0.75 (Linux 6.12 tcp_bbr: bbr_pacing_gain).
        cwnd_gain: Congestion window in bandwidth-delay products. From 1.0 to 16.0, default 2.0
            (Linux 6.12 tcp_bbr: bbr_cwnd_gain).
        bw_window: RTTs over which the largest delivery rate is taken. From 1 to 1000, default
            10 (Linux 6.12 tcp_bbr: bbr_bw_rtts, a cycle and two).
        full_pipe_gain: The pipe counts as not full while the bandwidth grows by this factor or
            more. From 1.0 to 16.0, default 1.25 (Linux 6.12 tcp_bbr: bbr_full_bw_thresh).
        full_pipe_rounds: RTTs without this growth after which the pipe counts as full. From 1
            to 100, default 3 (Linux 6.12 tcp_bbr: bbr_full_bw_cnt).
        min_rtt_window: Time for which a minimum RTT is valid. Time from 1ms to 24h, default 10s
            (Linux 6.12 tcp_bbr: bbr_min_rtt_win_sec).
        probe_rtt_time: Time for which ProbeRTT keeps the window small; 0 disables ProbeRTT.
            Time from 0s to 60s, default 200ms (Linux 6.12 tcp_bbr: bbr_probe_rtt_mode_ms).
        min_cwnd: Smallest window, also that of ProbeRTT, in packets. From 1 to 1000, default 4
            (Linux 6.12 tcp_bbr: bbr_cwnd_min_target).
        pacing_margin: Share by which the pacing rate is reduced (none before Linux 4.20). From
            0.0 to 0.5, default 0.01 (Linux 6.12 tcp_bbr: bbr_pacing_margin_percent).
        aggregation_gain: Share of the extra data of aggregated ACKs that is added to the window
            (none before Linux 5.1). From 0.0 to 16.0, default 1.0 (Linux 6.12 tcp_bbr:
            bbr_extra_acked_gain).
        policer_detection: Use the rate of a token bucket if losses indicate one: 50 packets for
            every 256 delivered, 16.3 % of the packets sent. Default true (Linux 6.12 tcp_bbr:
            the long-term bandwidth sampler).
    """

    startup_gain: float | None = None
    probe_gain: float | None = None
    probe_down_gain: float | None = None
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
    """Version 2: limits the data in flight after losses; probes for bandwidth until 1.25
    bandwidth-delay products are in flight, and then sends at 3/4 of the rate.

    Source: draft-cardwell-iccrg-bbr-congestion-control-02; v2 alpha (2019).

    Attributes:
        startup_gain: Pacing gain in Startup. From 1.0 to 16.0, default 2.885 (v2 alpha (2019)).
        startup_cwnd_gain: Congestion window in bandwidth-delay products, in Startup and Drain.
            From 1.0 to 16.0, default 2.885 (v2 alpha (2019)).
        drain_gain: Pacing gain in Drain. From 0.01 to 1.0, default 0.347 (v2 alpha (2019)).
        drain_rounds: RTTs after which Drain ends although the data in flight exceeds its
            target; 0: no limit. From 0 to 1000, default 0 (v2 alpha (2019)).
        up_gain: Pacing gain in the phase that probes for bandwidth. From 1.0 to 16.0, default
            1.25 (draft-ietf-ccwg-bbr-06).
        down_gain: Pacing gain in the phase that drains the queue. From 0.01 to 1.0, default
            0.75 (v2 alpha (2019)).
        cwnd_gain: Congestion window in bandwidth-delay products. From 1.0 to 16.0, default 2.0
            (draft-ietf-ccwg-bbr-06).
        up_cwnd_gain: Congestion window in bandwidth-delay products, in the phase that probes
            for bandwidth. From 1.0 to 16.0, default 2.0 (v2 alpha (2019)).
        loss_threshold: Largest loss rate per RTT while probing for bandwidth. From 0.0 to 1.0,
            default 0.02 (draft-ietf-ccwg-bbr-06: LossThresh).
        beta: Lower limit of the factor by which a bound is multiplied after an RTT with losses.
            From 0.0 to 1.0, default 0.7 (draft-ietf-ccwg-bbr-06: Beta).
        headroom: Share of the known capacity that is left to other flows while cruising. From
            0.0 to 1.0, default 0.15 (draft-ietf-ccwg-bbr-06: Headroom).
        startup_losses: Separate losses in one RTT that end Startup; 0: losses do not end it.
            From 0 to 1000, default 8 (v2 alpha (2019)).
        full_pipe_gain: The pipe counts as not full while the bandwidth grows by this factor or
            more. From 1.0 to 16.0, default 1.25 (draft-ietf-ccwg-bbr-06: CheckFullBWReached).
        full_pipe_rounds: RTTs without this growth after which the pipe counts as full. From 1
            to 100, default 3 (draft-ietf-ccwg-bbr-06: CheckFullBWReached).
        probe_wait: Time from ProbeBW_DOWN to the next probe, unless probe_rounds is reached
            first. Time from 0s to 24h, default 2s (draft-ietf-ccwg-bbr-06: PickProbeWait).
        probe_wait_random: Upper limit of the random time that is added to probe_wait. Time from
            0s to 24h, default 1s (draft-ietf-ccwg-bbr-06: PickProbeWait).
        probe_rounds: Maximum number of round trips between two probes; a second maximum is the
            bandwidth-delay product in packets, because a window of Reno grows by this product
            in so many round trips. From 1 to 1000000, default 63 (draft-ietf-ccwg-bbr-06:
            IsRenoCoexistenceProbeTime).
        min_rtt_window: Time for which a minimum RTT is valid. Time from 1ms to 24h, default 10s
            (draft-ietf-ccwg-bbr-06: MinRTTFilterLen).
        probe_rtt_interval: Time without a lower RTT after which ProbeRTT begins. Time from 1ms
            to 24h, default 5s (draft-ietf-ccwg-bbr-06: ProbeRTTInterval).
        probe_rtt_time: Time for which ProbeRTT keeps the window small. Time from 0s to 60s,
            default 200ms (draft-ietf-ccwg-bbr-06: ProbeRTTDuration).
        probe_rtt_cwnd_gain: Congestion window in bandwidth-delay products, in ProbeRTT. From
            0.0 to 1.0, default 0.5 (draft-ietf-ccwg-bbr-06: ProbeRTTCwndGain).
        min_cwnd: Smallest window in packets. From 1 to 1000, default 4 (draft-ietf-ccwg-bbr-06:
            MinPipeCwnd).
        pacing_margin: Share by which the pacing rate is reduced. From 0.0 to 0.5, default 0.01
            (draft-ietf-ccwg-bbr-06: PacingMarginPercent).
        aggregation_rounds: RTTs over which the largest ACK aggregation, which is added to the
            window, is measured. From 1 to 1000, default 10 (draft-ietf-ccwg-bbr-06:
            ExtraAckedFilterLen).
        ecn: Respond to ECN marks if the flow uses ECN. Default false (v2 alpha and v3 as
            published by Google; the draft has none).
        ecn_max_rtt: Largest minimum RTT at which ecn applies. Time from 0s to 60s, default 5ms
            (v2 alpha and v3 as published by Google; the draft has none).
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
    """Version 3: probes for bandwidth periodically, and limits the data in flight after losses.

    Source: draft-ietf-ccwg-bbr-06.

    Attributes:
        startup_gain: Pacing gain in Startup. From 1.0 to 16.0, default 2.77
            (draft-ietf-ccwg-bbr-06).
        startup_cwnd_gain: Congestion window in bandwidth-delay products, in Startup and Drain.
            From 1.0 to 16.0, default 2.0 (draft-ietf-ccwg-bbr-06).
        drain_gain: Pacing gain in Drain. From 0.01 to 1.0, default 0.5
            (draft-ietf-ccwg-bbr-06).
        drain_rounds: RTTs after which Drain ends although the data in flight exceeds its
            target; 0: no limit. From 0 to 1000, default 3 (draft-ietf-ccwg-bbr-06).
        up_gain: Pacing gain in the phase that probes for bandwidth. From 1.0 to 16.0, default
            1.25 (draft-ietf-ccwg-bbr-06).
        down_gain: Pacing gain in the phase that drains the queue. From 0.01 to 1.0, default 0.9
            (draft-ietf-ccwg-bbr-06).
        cwnd_gain: Congestion window in bandwidth-delay products. From 1.0 to 16.0, default 2.0
            (draft-ietf-ccwg-bbr-06).
        up_cwnd_gain: Congestion window in bandwidth-delay products, in the phase that probes
            for bandwidth. From 1.0 to 16.0, default 2.25 (draft-ietf-ccwg-bbr-06).
        loss_threshold: Largest loss rate per RTT while probing for bandwidth. From 0.0 to 1.0,
            default 0.02 (draft-ietf-ccwg-bbr-06: LossThresh).
        beta: Lower limit of the factor by which a bound is multiplied after an RTT with losses.
            From 0.0 to 1.0, default 0.7 (draft-ietf-ccwg-bbr-06: Beta).
        headroom: Share of the known capacity that is left to other flows while cruising. From
            0.0 to 1.0, default 0.15 (draft-ietf-ccwg-bbr-06: Headroom).
        startup_losses: Separate losses in one RTT that end Startup; 0: losses do not end it.
            From 0 to 1000, default 6 (draft-ietf-ccwg-bbr-06).
        full_pipe_gain: The pipe counts as not full while the bandwidth grows by this factor or
            more. From 1.0 to 16.0, default 1.25 (draft-ietf-ccwg-bbr-06: CheckFullBWReached).
        full_pipe_rounds: RTTs without this growth after which the pipe counts as full. From 1
            to 100, default 3 (draft-ietf-ccwg-bbr-06: CheckFullBWReached).
        probe_wait: Time from ProbeBW_DOWN to the next probe, unless probe_rounds is reached
            first. Time from 0s to 24h, default 2s (draft-ietf-ccwg-bbr-06: PickProbeWait).
        probe_wait_random: Upper limit of the random time that is added to probe_wait. Time from
            0s to 24h, default 1s (draft-ietf-ccwg-bbr-06: PickProbeWait).
        probe_rounds: Maximum number of round trips between two probes; a second maximum is the
            bandwidth-delay product in packets, because a window of Reno grows by this product
            in so many round trips. From 1 to 1000000, default 63 (draft-ietf-ccwg-bbr-06:
            IsRenoCoexistenceProbeTime).
        min_rtt_window: Time for which a minimum RTT is valid. Time from 1ms to 24h, default 10s
            (draft-ietf-ccwg-bbr-06: MinRTTFilterLen).
        probe_rtt_interval: Time without a lower RTT after which ProbeRTT begins. Time from 1ms
            to 24h, default 5s (draft-ietf-ccwg-bbr-06: ProbeRTTInterval).
        probe_rtt_time: Time for which ProbeRTT keeps the window small. Time from 0s to 60s,
            default 200ms (draft-ietf-ccwg-bbr-06: ProbeRTTDuration).
        probe_rtt_cwnd_gain: Congestion window in bandwidth-delay products, in ProbeRTT. From
            0.0 to 1.0, default 0.5 (draft-ietf-ccwg-bbr-06: ProbeRTTCwndGain).
        min_cwnd: Smallest window in packets. From 1 to 1000, default 4 (draft-ietf-ccwg-bbr-06:
            MinPipeCwnd).
        pacing_margin: Share by which the pacing rate is reduced. From 0.0 to 0.5, default 0.01
            (draft-ietf-ccwg-bbr-06: PacingMarginPercent).
        aggregation_rounds: RTTs over which the largest ACK aggregation, which is added to the
            window, is measured. From 1 to 1000, default 10 (draft-ietf-ccwg-bbr-06:
            ExtraAckedFilterLen).
        ecn: Respond to ECN marks if the flow uses ECN. Default false (v2 alpha and v3 as
            published by Google; the draft has none).
        ecn_max_rtt: Largest minimum RTT at which ecn applies. Time from 0s to 60s, default 5ms
            (v2 alpha and v3 as published by Google; the draft has none).
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
    """Default of Linux before CUBIC: a binary search for the window of the last loss.

    Source: Xu, Harfoush, Rhee 2004; Linux 6.12.

    Attributes:
        fast_convergence: After a loss below the previous maximum, store 0.9 of the window
            instead of all of it, which leaves bandwidth to other flows. Default true (Linux
            6.12 tcp_bic: fast_convergence = 1).
        max_increment: Largest increase per RTT during the search, in packets. From 1 to 1000,
            default 16 (Linux 6.12 tcp_bic: max_increment = 16).
        low_window: Window in packets up to which BIC is Reno. From 0 to 1000000, default 14
            (Linux 6.12 tcp_bic: low_window = 14).
        beta: Window after a loss, in 1/1024 of the window before. From 1 to 1023, default 819
            (Linux 6.12 tcp_bic: beta = 819).
        smooth_part: RTTs in which the window grows by the four packets around its maximum. From
            1 to 1000, default 20 (Linux 6.12 tcp_bic: smooth_part = 20).
    """

    fast_convergence: bool | None = None
    max_increment: int | None = None
    low_window: int | None = None
    beta: int | None = None
    smooth_part: int | None = None

@dataclass(frozen=True, kw_only=True)
class Cdg(Choice):
    """CAIA delay gradient (Swinburne University): while the RTT rises, reduces the window with a
    probability that depends on how fast it rises.

    Source: Hayes, Armitage, Networking 2011; Linux 6.12.

    Attributes:
        window: RTTs over which gradients are averaged. From 1 to 256, default 8 (Linux 6.12
            tcp_cdg: window = 8).
        backoff_beta: Window after a back-off, in 1/1024 of the window before. From 0 to 1024,
            default 724 (Linux 6.12 tcp_cdg: backoff_beta = 0.7071 · 1024).
        backoff_factor: Scale of the back-off probability: 1000/(window · G in ms); 0 disables
            back-offs. From 0 to 1000000, default 42 (Linux 6.12 tcp_cdg: backoff_factor = 42, G
            = 3 ms with a window of 8).
        hystart_detect: Signals that end slow start: 1 ACK trains, 2 delay, 3 both, 0 none. From
            0 to 3, default 3 (Linux 6.12 tcp_cdg: hystart_detect = 3).
        use_ineff: Ineffective back-offs in a row after which the next ones are omitted; 0
            disables the count. From 0 to 255, default 5 (Linux 6.12 tcp_cdg: use_ineff = 5).
        use_shadow: After a loss, consider the window that Reno would have without back-offs.
            Default true (Linux 6.12 tcp_cdg: use_shadow = 1).
        use_tolerance: Keep the window after a loss while gradients show that the queue is not
            full. Default false (Linux 6.12 tcp_cdg: use_tolerance = 0).
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
    """Reno's window plus a second window, which grows fast while the RTT is low.

    Source: draft-sridharan-tcpm-ctcp-02; Tan et al., INFOCOM 2006.

    Attributes:
        alpha: Growth of the delay window: alpha * win^k - 1 packets per RTT. From 0.0 to 10.0,
            default 0.125 (draft-sridharan-tcpm-ctcp: 1/8).
        beta: Share of the window by which a loss reduces it. From 0.0 to 1.0, default 0.5
            (draft-sridharan-tcpm-ctcp: 1/2).
        k: Exponent of the window in the growth of the delay window. From 0.0 to 1.0, default
            0.75 (draft-sridharan-tcpm-ctcp: 3/4).
        zeta: Reduction of the delay window as a multiple of the packets in the queue. From 0.0
            to 10.0, default 1.0 (draft-sridharan-tcpm-ctcp: 1).
        gamma: Packets in the queue that end the growth of the delay window; also the upper
            limit of the tuning. From 0.0 to 100000.0, default 30.0 (draft-sridharan-tcpm-ctcp:
            30).
        gamma_low: Lower limit of the tuning of gamma. From 0.0 to 100000.0, default 5.0
            (draft-sridharan-tcpm-ctcp: 5).
        gamma_weight: Weight of the newest loss in gamma; 0 disables the tuning. From 0.0 to
            1.0, default 0.8 (draft-sridharan-tcpm-ctcp leaves it open: 0.8 as in ns-3's model).
        low_window: Window in packets below which Compound is Reno. From 0 to 1000000, default
            38 (RFC 3649 section 5: Low_Window, the window at a loss rate of 0.001).
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
    """Moves its rate towards a target that decreases with the queueing delay, so that each flow
    keeps a few packets in the queue.

    Source: Arun, Balakrishnan, NSDI 2018.

    Attributes:
        delta: Weight of delay against rate: the target of a flow is 1/delta packets in the
            queue. From 0.001 to 100.0, default 0.5 (Copa (NSDI 2018) section 2.2: 0.5).
        min_rtt_window: Time for which a minimum RTT is valid. Time from 1ms to 24h, default 10s
            (Copa (NSDI 2018) section 2.1: 10 s).
        competitive: Compete with flows that keep the queue full. Default true (Copa (NSDI 2018)
            section 2.2).
    """

    delta: float | None = None
    min_rtt_window: str | None = None
    competitive: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Dctcp(Choice):
    """For data centres: the reduction depends on the share of packets that network switches marked
    (ECN).

    Source: RFC 8257; Linux 6.12.

    Attributes:
        shift_g: Weight of a new window in alpha: 1/2^shift_g. From 0 to 10, default 4 (Linux
            6.12 tcp_dctcp: dctcp_shift_g = 4; RFC 8257 section 4.2).
        alpha_on_init: Initial value of alpha, in 1/1024. From 0 to 1024, default 1024 (Linux
            6.12 tcp_dctcp: dctcp_alpha_on_init = 1024; RFC 8257 section 4.2).
    """

    shift_g: int | None = None
    alpha_on_init: int | None = None

@dataclass(frozen=True, kw_only=True)
class HighSpeed(Choice):
    """A larger window grows faster and is reduced less; up to 38 packets it is Reno.

    Source: RFC 3649; Linux 6.12.
    """

@dataclass(frozen=True, kw_only=True)
class Htcp(Choice):
    """Grows faster with the time since the last congestion; the reduction depends on the queue.

    Source: Leith, Shorten 2004; draft-leith-tcp-htcp-06; Linux 6.12.

    Attributes:
        rtt_scaling: Grow in packets per second instead of per RTT: the growth is scaled by
            minimum RTT / 100 ms. Default true (Linux 6.12 tcp_htcp: use_rtt_scaling = 1).
        bandwidth_switch: Halve the window if the throughput has changed by more than a fifth
            since the last congestion. Default true (Linux 6.12 tcp_htcp: use_bandwidth_switch =
            1).
    """

    rtt_scaling: bool | None = None
    bandwidth_switch: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Hybla(Choice):
    """For satellites: Reno whose growth per RTT is larger on paths with a longer RTT.

    Source: Caini, Firrincieli 2004; Linux 6.12.

    Attributes:
        rtt0: RTT of the reference path, whose growth is used; flows with a shorter RTT are not
            slowed down. Time from 1ms to 10s, default 25ms (Linux 6.12 tcp_hybla: rtt0 = 25;
            Caini, Firrincieli 2004).
    """

    rtt0: str | None = None

@dataclass(frozen=True, kw_only=True)
class Illinois(Choice):
    """A loss triggers a reduction; the queueing delay sets how large it is and how fast the window
    grows (fast while there is no queue).

    Source: Liu, Başar, Srikant 2006; Linux 6.12.

    Attributes:
        win_thresh: Window in packets below which Illinois is Reno. From 0 to 1000000, default
            15 (Linux 6.12 tcp_illinois: win_thresh = 15).
        theta: RTTs without a queue before the window grows by ten packets per RTT again. From 1
            to 100, default 5 (Linux 6.12 tcp_illinois: theta = 5).
    """

    win_thresh: int | None = None
    theta: int | None = None

@dataclass(frozen=True, kw_only=True)
class Ledbat(Choice):
    """LEDBAT++, for background traffic: uses the capacity that others leave, with at most 60 ms of
    queueing delay.

    Source: draft-irtf-iccrg-ledbat-plus-plus-01; RFC 6817.

    Attributes:
        target: Target of the queueing delay. Time from 10us to 10s, default 60ms
            (draft-irtf-iccrg-ledbat-plus-plus-01 section 4.5: 60 ms).
        gain_divisor: The smallest gain is one packet per RTT divided by this. From 1 to 1000,
            default 16 (draft-irtf-iccrg-ledbat-plus-plus-01 section 4.2: 16).
        decrease: Factor of the reduction per RTT, which is factor × window × (queueing delay -
            target) / target. From 0.0 to 16.0, default 1.0
            (draft-irtf-iccrg-ledbat-plus-plus-01 section 4.3: Constant, 1).
        slowdown_interval: Time between two slowdowns as a multiple of the duration of the last
            one; 0 disables slowdowns. From 0 to 1000, default 9
            (draft-irtf-iccrg-ledbat-plus-plus-01 section 4.4: 9).
    """

    target: str | None = None
    gain_divisor: int | None = None
    decrease: float | None = None
    slowdown_interval: int | None = None

@dataclass(frozen=True, kw_only=True)
class Lp(Choice):
    """Low priority: halves its window when one-way delays grow; with the random offset that Linux
    adds to TCP timestamps by default, most flows do not detect the growth and behave as Reno.

    Source: Kuzmanovic, Knightly, ToN 2006; Linux 6.12.

    Attributes:
        stamp_offset: Start value of the peer's timestamps: anywhere (seven of eight flows then
            never give way), or with its clock. One of `random`, `none`, default random (Linux
            6.12: tcp_timestamps = 1 (random), 2 (none)).
    """

    stamp_offset: str | None = None

@dataclass(frozen=True, kw_only=True)
class NewReno(Choice):
    """Reno without SACK: duplicate ACKs indicate losses, of which one per RTT is repaired.

    Source: RFC 6582; Linux 6.12 without SACK.
    """

@dataclass(frozen=True, kw_only=True)
class Nv(Choice):
    """New Vegas: aims at ten packets in the queue; grows its window only after 20 RTT samples,
    shrinks it only after 60.

    Source: Brakmo, Linux Plumbers Conference 2010; Linux 6.12.

    Attributes:
        nv_pad: Packets that the flow keeps in the queue. From 0 to 255, default 10 (Linux 6.12
            tcp_nv: nv_pad = 10).
        nv_pad_buffer: Packets below the largest window at which growth stops. From 0 to 255,
            default 2 (Linux 6.12 tcp_nv: nv_pad_buffer = 2).
        nv_reset_period: Time in s for which a minimum RTT is valid, at random up to a quarter
            more or less. From 1 to 3600, default 5 (Linux 6.12 tcp_nv: nv_reset_period = 5).
        nv_min_cwnd: Smallest window after a decision, in packets. From 1 to 1000, default 2
            (Linux 6.12 tcp_nv: nv_min_cwnd = 2).
        nv_cong_dec_mult: Share of the excess window that a decision removes, in 1/128. From 0
            to 128, default 38 (Linux 6.12 tcp_nv: nv_cong_dec_mult = 30 %).
        nv_ssthresh_factor: Ssthresh after a decision to shrink, in eighths of the largest
            window. From 1 to 64, default 8 (Linux 6.12 tcp_nv: nv_ssthresh_factor = 8).
        nv_rtt_factor: Weight of a new RTT in the average, in 1/256; 0 disables averaging. From
            0 to 256, default 128 (Linux 6.12 tcp_nv: nv_rtt_factor = 128).
        nv_loss_dec_factor: Window after a loss, in 1/1024 of the window before. From 0 to 1024,
            default 819 (Linux 6.12 tcp_nv: nv_loss_dec_factor = 80 %).
        nv_cwnd_growth_rate_neg: Decisions to grow after which the growth that a timeout slowed
            doubles; 0: timeouts do not slow it. From 0 to 255, default 8 (Linux 6.12 tcp_nv:
            nv_cwnd_growth_rate_neg = 8).
        nv_cwnd_growth_rate_pos: Decisions to grow after which the growth doubles beyond that of
            Reno; 0: never. From 0 to 255, default 0 (Linux 6.12 tcp_nv: nv_cwnd_growth_rate_pos
            = 0).
        nv_dec_eval_min_calls: Samples required for a decision to shrink. From 0 to 255, default
            60 (Linux 6.12 tcp_nv: nv_dec_eval_min_calls = 60).
        nv_inc_eval_min_calls: Samples required for a decision to grow. From 0 to 255, default
            20 (Linux 6.12 tcp_nv: nv_inc_eval_min_calls = 20).
        nv_ssthresh_eval_min_calls: Samples required to end slow start. From 0 to 255, default
            30 (Linux 6.12 tcp_nv: nv_ssthresh_eval_min_calls = 30).
        nv_stop_rtt_cnt: Number of RTTs with too few samples for a decision to shrink, after
            which growth stops. From 0 to 255, default 10 (Linux 6.12 tcp_nv: nv_stop_rtt_cnt =
            10).
        nv_rtt_min_cnt: RTTs required for a decision to shrink. From 0 to 255, default 2 (Linux
            6.12 tcp_nv: nv_rtt_min_cnt = 2).
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
    """DCTCP for the Internet (L4S): in steady state, each flow receives two marks per RTT,
    whatever its rate is.

    Source: draft-briscoe-iccrg-prague-congestion-control-04; RFC 9331.

    Attributes:
        shift_g: Weight of a new RTT in alpha: 1/2^shift_g. From 0 to 10, default 4
            (draft-briscoe-iccrg-prague-congestion-control-04; TCP Prague 0.6: PRAGUE_SHIFT_G).
        rtt_target: A flow with a shorter RTT behaves as if its RTT were this long; 0s: every
            flow uses its own RTT. Time from 0s to 1s, default 25ms
            (draft-briscoe-iccrg-prague-congestion-control-04; TCP Prague 0.6:
            prague_rtt_target).
        rtt_transition: RTTs before rtt_target applies. From 0 to 1000000, default 500 (TCP
            Prague 0.6: prague_rtt_transition).
    """

    shift_g: int | None = None
    rtt_target: str | None = None
    rtt_transition: int | None = None

@dataclass(frozen=True, kw_only=True)
class Remy(Choice):
    """A tree of rules, found by a computer search, that maps RTTs and the gaps between packets to
    changes of the window.

    Source: Winstein, Balakrishnan 2013.

    Attributes:
        tree: Tree of rules: one that is included in narrows, or a file. One of `small`, `a
            file`, default small (docs/reference/remy-tree.md).
    """

    tree: str | None = None  # type: ignore[assignment]

@dataclass(frozen=True, kw_only=True)
class Scalable(Choice):
    """Grows by 1/100 of the acknowledged packets, shrinks by 1/8: the recovery time does not
    depend on the rate.

    Source: Kelly 2003; Linux 6.12.
    """

@dataclass(frozen=True, kw_only=True)
class Timely(Choice):
    """For data centres: the rate depends on how fast the RTT rises or falls.

    Source: Mittal et al., SIGCOMM 2015.

    Attributes:
        line_rate: Rate of the host's link: the initial and the largest rate of a flow. Rate
            from 1kbit to 10Tbit, default 10Gbit (TIMELY (SIGCOMM 2015) section 6: 10 Gbit/s).
        segment: Bytes between two updates of the rate, which leave as one burst. Bytes from 1B
            to 1GiB, default 64KiB (TIMELY (SIGCOMM 2015) section 5: 16 to 64 KB).
        t_low: RTT below which the rate grows regardless of the gradient. Time from 0s to 10s,
            default 50us (TIMELY (SIGCOMM 2015) section 6: 50 us).
        t_high: RTT above which the rate falls regardless of the gradient. Time from 1ns to 10s,
            default 500us (TIMELY (SIGCOMM 2015) section 6: 500 us).
        min_rtt: RTT of the path; changes of the RTT are relative to it. Time from 1ns to 10s,
            default 20us (Zhu et al. (CoNEXT 2016) table 2: 20 us).
        delta: Additive increase, also the smallest rate. Rate from 1bit to 1Tbit, default
            10Mbit (TIMELY (SIGCOMM 2015) section 6: 10 Mbit/s).
        alpha: Weight of the newest difference between two RTTs. From 0.0 to 1.0, default 0.875
            (Zhu et al. (CoNEXT 2016) table 2: 0.875).
        beta: Factor of the multiplicative decrease. From 0.0 to 1.0, default 0.8 (TIMELY
            (SIGCOMM 2015) section 6: 0.8).
        hai_after: Segments in a row without a rising RTT after which the increase is five times
            as large. From 1 to 1000000, default 5 (TIMELY (SIGCOMM 2015) section 4.3: five).
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
    """Two to four packets in the queue, computed from the RTT: the window changes by one packet
    per RTT.

    Source: Brakmo, Peterson 1995; Linux 6.12.

    Attributes:
        alpha: Queued packets below which the window grows. Packets from 0p to 1000p, default 2p
            (Linux 6.12 tcp_vegas: alpha = 2).
        beta: Queued packets above which the window shrinks. Packets from 0p to 1000p, default
            4p (Linux 6.12 tcp_vegas: beta = 4).
        gamma: Queued packets above which slow start ends. Packets from 0p to 1000p, default 1p
            (Linux 6.12 tcp_vegas: gamma = 1).
    """

    alpha: str | None = None
    beta: str | None = None
    gamma: str | None = None

@dataclass(frozen=True, kw_only=True)
class Veno(Choice):
    """Reno that treats a loss with fewer than three queued packets as random: reduction by a fifth
    instead of half.

    Source: Fu, Liew 2003; Linux 6.12.

    Attributes:
        beta: Queued packets from which the growth is halved and a loss counts as congestion.
            Packets from 0p to 1000p, default 3p (Linux 6.12 tcp_veno: beta = 3).
    """

    beta: str | None = None

@dataclass(frozen=True, kw_only=True)
class Westwood(Choice):
    """Reno that reduces the window to the estimated bandwidth-delay product: for paths with random
    loss.

    Source: Mascolo et al. 2001; Grieco, Mascolo 2004; Linux 6.12.
    """

@dataclass(frozen=True, kw_only=True)
class Xcp(Choice):
    """Routers write into every packet by how much the sender's window changes.

    Source: Katabi, Handley, Rohrs 2002; draft-falk-xcp-spec-03.

    Attributes:
        rate: Rate that the sender requests from routers; the default requests all of their
            capacity. Rate from 1kbit to 10Tbit, default 10Tbit (Katabi, Handley, Rohrs 2002,
            section 3.2: the desired rate).
    """

    rate: str | None = None

@dataclass(frozen=True, kw_only=True)
class Yeah(Choice):
    """Scalable while its queue is short, Reno beside other flows; reduces its own queue before
    losses occur.

    Source: Baiocchi, Castellani, Vacirca 2007; Linux 6.12.

    Attributes:
        alpha: Queued packets above which the queue is reduced and the flow counts as slow.
            Packets from 0p to 100000p, default 80p (Linux 6.12 tcp_yeah: TCP_YEAH_ALPHA).
        gamma: The share of the queued packets that is removed is 1/gamma. From 1 to 1000,
            default 1 (Linux 6.12 tcp_yeah: TCP_YEAH_GAMMA).
        delta: A loss reduces the window by at least 1/2^delta. From 1 to 31, default 3 (Linux
            6.12 tcp_yeah: TCP_YEAH_DELTA).
        epsilon: A reduction of the queue removes at most 1/2^epsilon of the window. From 1 to
            31, default 1 (Linux 6.12 tcp_yeah: TCP_YEAH_EPSILON).
        phy: The flow also counts as slow if the queueing delay exceeds 1/phy of the minimum
            RTT. From 1 to 1000, default 8 (Linux 6.12 tcp_yeah: TCP_YEAH_PHY).
        rho: Slow RTTs in a row after which a loss halves the window. From 0 to 1000, default 16
            (Linux 6.12 tcp_yeah: TCP_YEAH_RHO).
        zeta: Fast RTTs after which no greedy flow is assumed on the path. From 0 to 100000,
            default 50 (Linux 6.12 tcp_yeah: TCP_YEAH_ZETA).
    """

    alpha: str | None = None
    gamma: int | None = None
    delta: int | None = None
    epsilon: int | None = None
    phy: int | None = None
    rho: int | None = None
    zeta: int | None = None
