"""Congestion controls as objects; `narrows list cc --verbose` describes their parameters."""

from __future__ import annotations

from dataclasses import dataclass

from narrows.runs.choice import Choice


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


@dataclass(frozen=True, kw_only=True)
class Westwood(Choice):
    """Reno that comes down to the bandwidth it has measured: Westwood+, as Linux has it.

    >>> Westwood().tree()
    {'kind': 'westwood'}
    """

    kind = "westwood"


@dataclass(frozen=True, kw_only=True)
class Hybla(Choice):
    """Reno with steps that a longer round trip makes larger, as Linux has it.

    >>> Hybla(rtt0="50ms").tree()
    {'kind': 'hybla', 'rtt0': '50ms'}

    Attributes:
        rtt0: The round trip of the path whose growth is taken, as `"25ms"`.
    """

    kind = "hybla"
    rtt0: str | None = None


@dataclass(frozen=True, kw_only=True)
class Htcp(Choice):
    """Grows faster the longer the last congestion is ago: H-TCP, as Linux has it.

    >>> Htcp(rtt_scaling=False).tree()
    {'kind': 'htcp', 'rtt_scaling': False}

    Attributes:
        rtt_scaling: Grow in packets per second, not per round trip.
        bandwidth_switch: Halve the window where the throughput has changed by a fifth since the last congestion.
    """

    kind = "htcp"
    rtt_scaling: bool | None = None
    bandwidth_switch: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Bic(Choice):
    """A search by halves for the window of the last loss: Linux's default before CUBIC.

    >>> Bic(low_window=0).tree()
    {'kind': 'bic', 'low_window': 0}

    Attributes:
        fast_convergence: Give way sooner when the window shrinks from loss to loss.
        max_increment: Packets per round trip that the search adds at most.
        low_window: Packets up to which it is Reno.
        beta: What a loss leaves of the window, in 1/1024.
        smooth_part: Round trips in which the window passes the four packets around its maximum.
    """

    kind = "bic"
    fast_convergence: bool | None = None
    max_increment: int | None = None
    low_window: int | None = None
    beta: int | None = None
    smooth_part: int | None = None


@dataclass(frozen=True, kw_only=True)
class Scalable(Choice):
    """One packet for a hundred acknowledged, an eighth less on loss (Kelly 2003), as Linux has it.

    >>> Scalable().tree()
    {'kind': 'scalable'}
    """

    kind = "scalable"


@dataclass(frozen=True, kw_only=True)
class HighSpeed(Choice):
    """The larger the window, the more it grows and the less it gives up (RFC 3649), as Linux has it.

    >>> HighSpeed().tree()
    {'kind': 'highspeed'}
    """

    kind = "highspeed"


@dataclass(frozen=True, kw_only=True)
class Illinois(Choice):
    """Losses tell when to give way, queueing delay tells how much, as Linux has it.

    >>> Illinois(theta=1).tree()
    {'kind': 'illinois', 'theta': 1}

    Attributes:
        win_thresh: Packets below which it is Reno.
        theta: Round trips without a queue before the window grows by ten packets per round trip again.
    """

    kind = "illinois"
    win_thresh: int | None = None
    theta: int | None = None


@dataclass(frozen=True, kw_only=True)
class Vegas(Choice):
    """Two to four packets in the queue, by the round trip (Brakmo, Peterson 1995), as Linux has it.

    >>> Vegas(alpha="1p", beta="3p").tree()
    {'kind': 'vegas', 'alpha': '1p', 'beta': '3p'}

    Attributes:
        alpha: Grow while fewer packets than this are queued, as `"2p"`.
        beta: Shrink while more than this are, as `"4p"`.
        gamma: End slow start when more than this are, as `"1p"`.
    """

    kind = "vegas"
    alpha: str | None = None
    beta: str | None = None
    gamma: str | None = None


@dataclass(frozen=True, kw_only=True)
class Veno(Choice):
    """Reno that takes a loss for chance while its queue is short (Fu, Liew 2003), as Linux has it.

    >>> Veno(beta="5p").tree()
    {'kind': 'veno', 'beta': '5p'}

    Attributes:
        beta: Packets queued from which on a loss is taken for congestion, as `"3p"`.
    """

    kind = "veno"
    beta: str | None = None


@dataclass(frozen=True, kw_only=True)
class Yeah(Choice):
    """Fast while its queue is short, Reno beside others (Baiocchi, Castellani, Vacirca 2007), as Linux has it.

    >>> Yeah(alpha="40p", rho=8).tree()
    {'kind': 'yeah', 'alpha': '40p', 'rho': 8}

    Attributes:
        alpha: More packets queued than this are taken away, as `"80p"`.
        gamma: Of the packets queued, one in so many is taken away.
        delta: Halvings of the window: what a loss costs at least.
        epsilon: Halvings of the window: what is taken away at most.
        phy: The share of the least round trip, one in so many, that a short queue takes at most.
        rho: Round trips with a long queue, in a row, after which a loss costs half.
        zeta: Round trips with a short one after which no greedy flow is thought to be beside it.
    """

    kind = "yeah"
    alpha: str | None = None
    gamma: int | None = None
    delta: int | None = None
    epsilon: int | None = None
    phy: int | None = None
    rho: int | None = None
    zeta: int | None = None


@dataclass(frozen=True, kw_only=True)
class Cdg(Choice):
    """Backs off by chance when round trips grow longer: CAIA delay gradient, as Linux has it.

    >>> Cdg(use_tolerance=True).tree()
    {'kind': 'cdg', 'use_tolerance': True}

    Attributes:
        window: Round trips over which gradients are averaged.
        backoff_beta: What a back-off leaves of the window, in 1/1024.
        backoff_factor: How soon it backs off: 1000/(window times G in ms).
        hystart_detect: What ends slow start: 1 ACK trains, 2 delay, 3 both, 0 neither.
        use_ineff: Back-offs in a row without effect, after which the next are left out.
        use_shadow: On loss, take what Reno would have had without back-offs into account.
        use_tolerance: Leave the window as it is on a loss while the queue seems not full.
    """

    kind = "cdg"
    window: int | None = None
    backoff_beta: int | None = None
    backoff_factor: int | None = None
    hystart_detect: int | None = None
    use_ineff: int | None = None
    use_shadow: bool | None = None
    use_tolerance: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Lp(Choice):
    """Gives way as soon as one-way delays grow: TCP-LP, as Linux has it.

    >>> Lp(stamp_offset="none").tree()
    {'kind': 'lp', 'stamp_offset': 'none'}

    Attributes:
        stamp_offset: Where the peer's timestamps begin: `"random"`, as in Linux, where seven of eight flows then never
            give way, or `"none"`.
    """

    kind = "lp"
    stamp_offset: str | None = None


@dataclass(frozen=True, kw_only=True)
class Nv(Choice):
    """Ten packets in the queue, decided only after enough samples: TCP-NV (New Vegas), as Linux has it.

    >>> Nv(nv_pad=4).tree()
    {'kind': 'nv', 'nv_pad': 4}

    Attributes:
        nv_pad: Packets that it keeps in the queue.
        nv_pad_buffer: Packets below the greatest window at which it stops to grow.
        nv_reset_period: How long a least round trip is believed, s.
        nv_min_cwnd: The least window after a decision, in packets.
        nv_cong_dec_mult: How much of what is too much a decision takes away, in 1/128.
        nv_ssthresh_factor: The threshold after a decision to shrink, in eighths of the greatest window.
        nv_rtt_factor: Weight of a new round trip in the average, in 1/256.
        nv_loss_dec_factor: What a loss leaves of the window, in 1/1024.
        nv_cwnd_growth_rate_neg: Decisions to grow after which growth slowed by a timeout doubles.
        nv_cwnd_growth_rate_pos: Decisions to grow after which growth doubles beyond Reno's.
        nv_dec_eval_min_calls: Samples before it shrinks.
        nv_inc_eval_min_calls: Samples before it grows.
        nv_ssthresh_eval_min_calls: Samples before it ends slow start.
        nv_stop_rtt_cnt: Round trips with too few samples to shrink, after which it stops to grow.
        nv_rtt_min_cnt: Round trips before it shrinks.
    """

    kind = "nv"
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
class Compound(Choice):
    """Reno's window, and a second one beside it that grows fast while no queue is seen: Windows' of 2008 to 2018.

    >>> Compound(low_window=0).tree()
    {'kind': 'compound', 'low_window': 0}

    Attributes:
        alpha: The delay window grows by `alpha * win ** k - 1` packets per round trip.
        beta: The share of the window that a loss takes.
        k: The exponent of the window in that growth.
        zeta: How many times what waits in the queue the delay window gives back.
        gamma: Packets in the queue that end the growth; the most that tuning makes of it.
        gamma_low: The least that tuning makes of it.
        gamma_weight: The weight of the newest loss in it; 0 never tunes it.
        low_window: Below so many packets it is Reno.
    """

    kind = "compound"
    alpha: float | None = None
    beta: float | None = None
    k: float | None = None
    zeta: float | None = None
    gamma: float | None = None
    gamma_low: float | None = None
    gamma_weight: float | None = None
    low_window: int | None = None


@dataclass(frozen=True, kw_only=True)
class Ledbat(Choice):
    """LEDBAT++, for data that can wait: it fills what others leave.

    >>> Ledbat(target="30ms").tree()
    {'kind': 'ledbat', 'target': '30ms'}

    Attributes:
        target: The delay in the queue that it allows itself, as `"60ms"`.
        gain_divisor: The least gain is one packet in so many per round trip.
        decrease: Times the window and the share above the target that is given back per round trip.
        slowdown_interval: A slowdown follows the last one after so many times its length; 0 never slows down.
    """

    kind = "ledbat"
    target: str | None = None
    gain_divisor: int | None = None
    decrease: float | None = None
    slowdown_interval: int | None = None


@dataclass(frozen=True, kw_only=True)
class Copa(Choice):
    """Moves towards the rate that the queue's delay asks for: a few packets of queue per flow (NSDI 2018).

    >>> Copa(competitive=False).tree()
    {'kind': 'copa', 'competitive': False}

    Attributes:
        delta: How much delay weighs against rate: a flow aims at `1 / delta` packets in the queue.
        min_rtt_window: How long a least round trip is believed, as `"10s"`.
        competitive: Compete with flows that keep the queue full.
    """

    kind = "copa"
    delta: float | None = None
    min_rtt_window: str | None = None
    competitive: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Timely(Choice):
    """A rate that follows how the round trip changes, for data centres (SIGCOMM 2015).

    >>> Timely(line_rate="1Gbit").tree()
    {'kind': 'timely', 'line_rate': '1Gbit'}

    Attributes:
        line_rate: The rate of the host's link, as `"10Gbit"`: where a flow begins, and the most that it sends.
        segment: The rate moves once per so many bytes, as `"64KiB"`, which leave as one burst.
        t_low: Below this round trip the rate grows, whatever the gradient, as `"50us"`.
        t_high: Above this round trip it falls, whatever the gradient, as `"500us"`.
        min_rtt: The round trip of the path, which changes are measured by, as `"20us"`.
        delta: The additive increase, and the least rate, as `"10Mbit"`.
        alpha: The weight of the newest difference of two round trips.
        beta: The multiplicative decrease.
        hai_after: So many segments in a row without a rising round trip make the increase five times as large.
    """

    kind = "timely"
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
class NewReno(Choice):
    """Reno over a connection without SACK, where duplicate ACKs tell of losses (RFC 6582).

    >>> NewReno().tree()
    {'kind': 'newreno'}
    """

    kind = "newreno"


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


@dataclass(frozen=True, kw_only=True)
class Dctcp(Choice):
    """Shrinks by the share of packets that were marked (RFC 8257), as Linux has it.

    >>> Dctcp(shift_g=5).tree()
    {'kind': 'dctcp', 'shift_g': 5}

    Attributes:
        shift_g: The share that a new window has in alpha: a half to the power of this.
        alpha_on_init: Alpha before anything is known, in 1/1024.
    """

    kind = "dctcp"
    shift_g: int | None = None
    alpha_on_init: int | None = None


@dataclass(frozen=True, kw_only=True)
class Prague(Choice):
    """DCTCP for the Internet (L4S): two marks per round trip, whatever the rate.

    >>> Prague(rtt_target="0s").tree()
    {'kind': 'prague', 'rtt_target': '0s'}

    Attributes:
        shift_g: The share that a new round trip has in alpha: a half to the power of this.
        rtt_target: Flows with a shorter round trip act as if theirs were this long; `"0s"`: every flow by its own.
        rtt_transition: Round trips before they do.
    """

    kind = "prague"
    shift_g: int | None = None
    rtt_target: str | None = None
    rtt_transition: int | None = None
