"""Queue disciplines as objects.

Written by `make renew`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from narrows.runs.choice import Choice, Chosen, Part

__all__ = [
    "Cake",
    "Choke",
    "Codel",
    "Drr",
    "DualPi2",
    "Fifo",
    "Fq",
    "FqCodel",
    "FqPie",
    "Hhf",
    "Htb",
    "HtbClass",
    "PfifoFast",
    "Pie",
    "Red",
    "Sfb",
    "Sfq",
    "Xcp",
]

@dataclass(frozen=True, kw_only=True)
class Fifo(Choice):
    """First in, first out; drops at the tail.

    Source: Linux 6.12 bfifo, pfifo, pfifo_head_drop.

    Attributes:
        drop: Packet that a full queue drops: the arriving one, or the oldest. One of `tail`,
            `head`, default tail (Linux 6.12 pfifo, pfifo_head_drop).
        mark_above: Mark arriving ECN-capable packets while the queue has at least this many
            packets (the threshold K of DCTCP); 0p: no marks. Packets from 0p to 1000000p,
            default 0p (RFC 8257 section 3.1).
    """

    drop: str | None = None
    mark_above: str | None = None

@dataclass(frozen=True, kw_only=True)
class Cake(Choice):
    """Shaper, tins by code point, fair queues for hosts and flows, each with COBALT.

    Source: Piece of CAKE (2018), Linux 6.12 cake.

    Attributes:
        bandwidth: Rate of the shaper; 0: no shaping, the link behind it is the bottleneck. Rate
            from 0bit to 1Tbit, default 0bit (Linux 6.12 cake).
        diffserv: Assignment of code points to tins. One of `diffserv3`, `diffserv4`,
            `diffserv8`, `besteffort`, `precedence`, default diffserv3 (Linux 6.12 cake).
        flows: Flow isolation: which flows and hosts have queues of their own and a fair share.
            One of `triple-isolate`, `flowblind`, `srchost`, `dsthost`, `hosts`, `flows`,
            `dual-srchost`, `dual-dsthost`, default triple-isolate (Linux 6.12 cake).
        network: Name of an RTT, as in tc: 100us, 1ms, 10ms, 30ms, 300ms, 1s, 1000s; internet is
            100ms. One of `internet`, `datacentre`, `lan`, `metro`, `regional`, `oceanic`,
            `satellite`, `interplanetary`, default internet (Linux 6.12 cake).
        rtt: RTT that most flows do not exceed: the control law reacts within this time, and its
            target delay is a twentieth of this time; 0s: the RTT of network. Time from 0s to
            1000s, default 0s (Linux 6.12 cake).
        ingress: The shaper is behind the bottleneck: dropped packets have already passed the
            bottleneck and count towards the rate. Default false (Linux 6.12 cake).
        autorate_ingress: The rate follows the arriving traffic; bandwidth is the initial rate.
            Default false (Linux 6.12 cake).
        line: Name of a link layer, as in tc: sets overhead, mpu and cells. One of `raw`,
            `conservative`, `pppoa-vcmux`, `pppoa-llc`, `pppoe-vcmux`, `pppoe-llcsnap`,
            `bridged-vcmux`, `bridged-llcsnap`, `ipoa-vcmux`, `ipoa-llcsnap`, `pppoe-ptm`,
            `bridged-ptm`, `ethernet`, `docsis`, default raw (Linux 6.12 cake).
        overhead: Bytes that are added to the size of an IP packet; 0: the overhead of line;
            with raw, the whole frame counts. From -64.0 to 256.0, default 0.0 (Linux 6.12
            cake).
        ether_vlan: 4 bytes of additional overhead. Default false (Linux 6.12 cake).
        mpu: Minimum number of bytes that count for a packet; 0: the minimum of line. Bytes from
            0B to 256B, default 0B (Linux 6.12 cake).
        cells: Cells of the link layer: 48 bytes of payload in 53 bytes (atm), or 64 in 65 bytes
            (ptm); line: the cells of line. One of `line`, `noatm`, `atm`, `ptm`, default line
            (Linux 6.12 cake).
        ack_filter: Drop ACKs that a newer queued ACK makes redundant. One of `no-ack-filter`,
            `ack-filter`, `ack-filter-aggressive`, default no-ack-filter (Linux 6.12 cake).
        memlimit: Memory limit of all queues, counted as in Linux; 0: four bandwidth-delay
            products (bandwidth * rtt), at least 4 MB, at most 15.5 MB. Bytes from 0B to 4GiB,
            default 0B (Linux 6.12 cake).
        wash: Clear the code point after the choice of the tin. Default false (Linux 6.12 cake).
        nat: Distinguish hosts that share one address behind NAT (`path.nat`). Default false
            (Linux 6.12 cake).
        fwmark: Mask of the firewall mark that selects the tin; only 0 is supported, because
            packets have no mark. From 0 to 4294967295, default 0 (Linux 6.12 cake).
        split_gso: Split super-packets into packets on arrival; no effect unless `path.offload`
            is set. Default true (Linux 6.12 cake).
    """

    bandwidth: str | None = None
    diffserv: str | None = None
    flows: str | None = None
    network: str | None = None
    rtt: str | None = None
    ingress: bool | None = None
    autorate_ingress: bool | None = None
    line: str | None = None
    overhead: float | None = None
    ether_vlan: bool | None = None
    mpu: str | None = None
    cells: str | None = None
    ack_filter: str | None = None
    memlimit: str | None = None
    wash: bool | None = None
    nat: bool | None = None
    fwmark: int | None = None
    split_gso: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Choke(Choice):
    """RED that drops a packet together with a queued packet of the same flow.

    Source: Pan, Prabhakar, Psounis 2000; Linux 6.12 choke.

    Attributes:
        limit: Largest backlog in packets, if the path has no buffer. Packets from 1p to
            131072p, default 1000p (tc-choke(8); the default: a device's txqueuelen).
        min: Average backlog in packets up to which no packet is dropped; 0p: a third of max.
            Packets from 0p to 131072p, default 0p (tc-choke(8)).
        max: Average backlog in packets above which all packets are dropped; 0p: a quarter of
            limit. Packets from 0p to 131072p, default 0p (tc-choke(8)).
        avpkt: Usual packet size: scales burst and the decay in idle time. Bytes from 1B to
            1MiB, default 1kB (tc-red(8) advises 1000).
        burst: Packets that may arrive at once before the average exceeds min; 0: (2 min + max)
            / (3 avpkt). From 0 to 1000000, default 0 (tc-red(8)).
        probability: Probability of a mark or drop when the average reaches max. Probability
            from 0.0 to 1.0, default 0.02 (iproute2 6.1).
        bandwidth: Rate at which the average decays while the queue is idle; 0bit: the rate of
            the link. Rate from 0bit to 10Tbit, default 0bit (tc-red(8)).
        ecn: Mark ECN-capable packets instead of dropping them. Default false (tc-red(8)).
    """

    limit: str | None = None
    min: str | None = None
    max: str | None = None
    avpkt: str | None = None
    burst: int | None = None
    probability: float | str | None = None
    bandwidth: str | None = None
    ecn: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Codel(Choice):
    """Drops or marks packets after the queue has been standing for an interval.

    Source: RFC 8289, Linux 6.12 codel.

    Attributes:
        limit: Largest backlog in packets, if the path has no buffer. Packets from 1p to
            10000000p, default 1000p (Linux 6.12 codel).
        target: Largest acceptable sojourn time of the first packet. Time from 1us to 100s,
            default 5ms (RFC 8289, Linux 6.12).
        interval: Time above target before packets are dropped: an RTT that most flows do not
            exceed. Time from 1us to 100s, default 100ms (RFC 8289, Linux 6.12).
        ecn: Mark ECN-capable packets instead of dropping them. Default false (Linux 6.12
            codel).
        ce_threshold: Sojourn time above which ECN-capable packets are marked, regardless of the
            control law; 0s: never. Time from 0s to 100s, default 0s (Linux 6.12).
    """

    limit: str | None = None
    target: str | None = None
    interval: str | None = None
    ecn: bool | None = None
    ce_threshold: str | None = None

@dataclass(frozen=True, kw_only=True)
class Drr(Choice):
    """Deficit round robin: classes of flows in turn, each with the same number of bytes.

    Source: Shreedhar and Varghese 1995, Linux 6.12 sch_drr.

    Attributes:
        classes: Number of classes to which flows are hashed. From 1 to 65536, default 1024 (as
            many as fq_codel's; Linux has those that are made).
        quantum: Bytes that a class may send in its turn. Bytes from 64B to 1MiB, default 1514B
            (Linux 6.12 sch_drr: the device's MTU and its Ethernet header).
        limit: Largest backlog of a class in packets, if the path has no buffer. Packets from 1p
            to 4294967295p, default 1000p (Linux 6.12 pfifo: a device's default txqueuelen).
    """

    classes: int | None = None
    quantum: str | None = None
    limit: str | None = None

@dataclass(frozen=True, kw_only=True)
class DualPi2(Choice):
    """Two queues with one control law: short delays for flows that react to each mark, a fair
    share for all others.

    Source: Linux 6.17 sch_dualpi2, RFC 9332.

    Attributes:
        limit: Largest backlog of both queues in packets, if the path has no buffer. Packets
            from 1p to 4294967295p, default 10000p (Linux 6.17 sch_dualpi2).
        target: Target delay of the control law. Time from 1us to 100s, default 15ms (RFC 9332,
            Linux 6.17 sch_dualpi2).
        tupdate: Time between two updates of the probability. Time from 1us to 100s, default
            16ms (RFC 9332, Linux 6.17 sch_dualpi2).
        alpha: Weight of the difference between delay and target, per second. From 0.0 to 256.0,
            default 0.16015625 (RFC 9332 (0.16), Linux 6.17 sch_dualpi2 (41/256)).
        beta: Weight of the growth of the delay, per second. From 0.0 to 256.0, default
            3.19921875 (RFC 9332 (3.2), Linux 6.17 sch_dualpi2 (819/256)).
        coupling: Ratio of the mark probability of L to the base probability, whose square
            applies to C. From 1 to 255, default 2 (RFC 9332 section 2.5).
        step: Sojourn time above which a packet of L is marked. Time from 0s to 10s, default 1ms
            (Linux 6.17 sch_dualpi2 (step_thresh)).
        min_qlen_step: Packets in L from which step applies to a new packet. From 0 to
            4294967295, default 0 (Linux 6.17 sch_dualpi2).
        protection: Share of the rate, in percent, that C receives while L is overloaded. From 0
            to 50, default 10 (Linux 6.17 sch_dualpi2 (classic_protection)).
        drop_overload: Drop packets of L, too, if marks are not sufficient; otherwise only the
            limit drops them. Default true (Linux 6.17 sch_dualpi2).
        drop_early: Decide at the arrival of a packet instead of at its departure. Default false
            (Linux 6.17 sch_dualpi2).
    """

    limit: str | None = None
    target: str | None = None
    tupdate: str | None = None
    alpha: float | None = None
    beta: float | None = None
    coupling: int | None = None
    step: str | None = None
    min_qlen_step: int | None = None
    protection: int | None = None
    drop_overload: bool | None = None
    drop_early: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Fq(Choice):
    """A queue for each flow, served in turn; paces flows.

    Source: Linux 6.12 sch_fq.

    Attributes:
        limit: Largest backlog of a band in packets; the path's buffer takes its place. Packets
            from 1p to 1000000p, default 10000p (Linux 6.12 sch_fq).
        flow_limit: Largest backlog of a flow in packets. Packets from 1p to 1000000p, default
            100p (Linux 6.12 sch_fq).
        quantum: Bytes that a flow may send before the next flow has its turn. Bytes from 1B to
            1MiB, default 3028B (Linux 6.12 sch_fq).
        initial_quantum: Bytes that a new flow may send first. Bytes from 0B to 2147483647B,
            default 15140B (Linux 6.12 sch_fq).
        pacing: Enable pacing. Default true (Linux 6.12 sch_fq).
        maxrate: Pacing rate of a flow; 0: unlimited. Rate from 0bit to 18446744073709551615bit,
            default 0bit (Linux 6.12 sch_fq).
        low_rate_threshold: Rate up to which packets are paced one by one; above it, a quantum
            is sent at once. Rate from 0bit to 18446744073709551615bit, default 550kbit (Linux
            6.12 sch_fq).
        refill_delay: Idle time after which a flow receives a new quantum. Time from 0s to 1h,
            default 40ms (Linux 6.12 sch_fq).
        ce_threshold: Delay after the departure time above which packets are marked; 0: never.
            Time from 0s to 1h, default 0s (Linux 6.12 sch_fq).
        horizon: Largest distance of a packet's departure time from now. Time from 0s to 1h,
            default 10s (Linux 6.12 sch_fq).
        horizon_drop: Drop packets beyond the horizon instead of reducing their departure time
            to it. Default true (Linux 6.12 sch_fq).
        timer_slack: Delay of the pacing timer (timer slack). Time from 0s to 1s, default 10us
            (Linux 6.12 sch_fq).
        orphan_mask: Bits of a packet's hash that distinguish flows. From 0 to 1048575, default
            1023 (Linux 6.12 sch_fq).
        weight_high: Bytes of the high band in each round. From 16384 to 1073741824, default
            589824 (Linux 6.12 sch_fq).
        weight_middle: Bytes of the middle band in each round. From 16384 to 1073741824, default
            196608 (Linux 6.12 sch_fq).
        weight_low: Bytes of the low band in each round. From 16384 to 1073741824, default 65536
            (Linux 6.12 sch_fq).
    """

    limit: str | None = None
    flow_limit: str | None = None
    quantum: str | None = None
    initial_quantum: str | None = None
    pacing: bool | None = None
    maxrate: str | None = None
    low_rate_threshold: str | None = None
    refill_delay: str | None = None
    ce_threshold: str | None = None
    horizon: str | None = None
    horizon_drop: bool | None = None
    timer_slack: str | None = None
    orphan_mask: int | None = None
    weight_high: int | None = None
    weight_middle: int | None = None
    weight_low: int | None = None

@dataclass(frozen=True, kw_only=True)
class FqCodel(Choice):
    """A queue for each flow, served in turn, each with CoDel's control law.

    Source: RFC 8290, Linux 6.12 fq_codel.

    Attributes:
        limit: Largest backlog of all queues in packets, if the path has no buffer. Packets from
            1p to 10000000p, default 10240p (Linux 6.12 fq_codel).
        flows: Number of queues to which flows are hashed. From 1 to 65536, default 1024 (Linux
            6.12 fq_codel).
        target: Largest acceptable sojourn time of the first packet. Time from 1us to 100s,
            default 5ms (RFC 8289, Linux 6.12).
        interval: Time above target before packets are dropped: an RTT that most flows do not
            exceed. Time from 1us to 100s, default 100ms (RFC 8289, Linux 6.12).
        quantum: Bytes that a queue may send in its turn. Bytes from 256B to 1MiB, default 1514B
            (Linux 6.12 fq_codel: the device's MTU and its Ethernet header).
        ecn: Mark ECN-capable packets instead of dropping them. Default true (Linux 6.12
            fq_codel).
        ce_threshold: Sojourn time above which ECN-capable packets are marked, regardless of the
            control law; 0s: never. Time from 0s to 100s, default 0s (Linux 6.12).
        ce_threshold_selector: Value of the masked DS field of packets to which ce_threshold
            applies. From 0 to 255, default 0 (Linux 6.12 fq_codel).
        ce_threshold_mask: Bits of the DS field that are compared with ce_threshold_selector
            (the lowest two are those of ECN); 0: none. From 0 to 255, default 0 (Linux 6.12
            fq_codel).
        memory_limit: Memory limit of all queues, counted as in Linux. Bytes from 1B to 2GiB,
            default 32MiB (Linux 6.12 fq_codel).
        drop_batch: Largest number of packets that the longest queue loses when the limit is
            exceeded. Packets from 1p to 1000000p, default 64p (Linux 6.12 fq_codel).
    """

    limit: str | None = None
    flows: int | None = None
    target: str | None = None
    interval: str | None = None
    quantum: str | None = None
    ecn: bool | None = None
    ce_threshold: str | None = None
    ce_threshold_selector: int | None = None
    ce_threshold_mask: int | None = None
    memory_limit: str | None = None
    drop_batch: str | None = None

@dataclass(frozen=True, kw_only=True)
class FqPie(Choice):
    """A queue for each flow, served in turn, each with PIE's control law.

    Source: Linux 6.12 sch_fq_pie.

    Attributes:
        limit: Largest backlog of all queues in packets, if the path has no buffer. Packets from
            1p to 4294967295p, default 10240p (Linux 6.12 sch_fq_pie, tc-fq_pie(8)).
        flows: Number of queues to which flows are hashed. From 1 to 65536, default 1024 (Linux
            6.12 sch_fq_pie, tc-fq_pie(8)).
        target: Target delay of the control law. Time from 1us to 1000s, default 15ms (RFC 8033,
            Linux 6.12 sch_pie).
        tupdate: Time between two updates of the probability, in whole ticks plus one. Time from
            1us to 1000s, default 15ms (RFC 8033, Linux 6.12 sch_pie).
        alpha: Weight of the difference between delay and target, in sixteenths per second. From
            0 to 32, default 2 (RFC 8033, tc-pie(8)).
        beta: Weight of the growth of the delay, in sixteenths per second. From 0 to 32, default
            20 (RFC 8033, tc-pie(8)).
        quantum: Bytes that a queue may send in its turn. Bytes from 1B to 1MiB, default 1514B
            (Linux 6.12 sch_fq_pie: the device's MTU and its Ethernet header).
        memory_limit: Accepted as in Linux, which only counts the memory; no effect. Bytes from
            1B to 4GiB, default 32MiB (Linux 6.12 sch_fq_pie, tc-fq_pie(8)).
        ecn_prob: Probability up to which ecn marks packets. Probability from 0.0 to 1.0,
            default 0.1 (Linux 6.12 sch_fq_pie, tc-fq_pie(8)).
        ecn: Mark ECN-capable packets instead of dropping them, while the probability is small.
            Default false (RFC 8033, tc-pie(8)).
        bytemode: The probability for a packet is proportional to its size. Default false (RFC
            8033, tc-pie(8)).
        dq_rate_estimator: Compute the delay from backlog and departure rate instead of from
            timestamps of packets. Default false (RFC 8033, tc-pie(8)).
    """

    limit: str | None = None
    flows: int | None = None
    target: str | None = None
    tupdate: str | None = None
    alpha: int | None = None
    beta: int | None = None
    quantum: str | None = None
    memory_limit: str | None = None
    ecn_prob: float | str | None = None
    ecn: bool | None = None
    bytemode: bool | None = None
    dq_rate_estimator: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Hhf(Choice):
    """Heavy-hitter filter: flows that send much wait behind the others.

    Source: Estan, Varghese 2002; Linux 6.12 hhf.

    Attributes:
        limit: Largest backlog of both queues in packets, if the path has no buffer. Packets
            from 1p to 4294967295p, default 1000p (Linux 6.12 hhf).
        quantum: Bytes that the queue of heavy flows may send in its turn. Bytes from 256B to
            1GiB, default 1514B (Linux 6.12 hhf: the device's MTU and its Ethernet header).
        hh_limit: Number of heavy flows in the table. From 1 to 2048, default 2048 (Linux 6.12
            hhf).
        reset_timeout: Time after which the counters are cleared, rounded up to ticks. Time from
            1us to 1000s, default 40ms (Linux 6.12 hhf).
        admit_bytes: Bytes within reset_timeout above which a flow counts as heavy. Bytes from
            1B to 4294967295B, default 128KiB (Linux 6.12 hhf).
        evict_timeout: Idle time after which a flow is no longer heavy, rounded up to ticks.
            Time from 1us to 1000s, default 1s (Linux 6.12 hhf).
        non_hh_weight: Quanta that the queue of the other flows may send in its turn. From 1 to
            1048576, default 2 (Linux 6.12 hhf).
    """

    limit: str | None = None
    quantum: str | None = None
    hh_limit: int | None = None
    reset_timeout: str | None = None
    admit_bytes: str | None = None
    evict_timeout: str | None = None
    non_hh_weight: int | None = None

@dataclass(frozen=True, kw_only=True)
class HtbClass(Part):
    """A class of `Htb`.

    Source: Linux 6.12 sch_htb, tc-htb(8).

    Attributes:
        id: Identifier of the class, also the order among equals; required. (Linux 6.12 sch_htb,
            tc-htb(8))
        rate: Guaranteed rate; required. Rate from 0bit to 10Tbit (Linux 6.12 sch_htb,
            tc-htb(8)).
        name: Name of the class in tables and results, instead of its id. (Linux 6.12 sch_htb,
            tc-htb(8))
        parent: Class from which this class borrows; empty: none. (Linux 6.12 sch_htb,
            tc-htb(8))
        ceil: Maximum rate, while the parent has capacity that other classes do not use; 0: the
            value of rate. Rate from 0bit to 10Tbit, default 0bit (Linux 6.12 sch_htb,
            tc-htb(8)).
        burst: Bytes at its rate that may leave at once after idle time; 0: one frame, as in tc
            with a high-resolution clock. Bytes from 0B to 1GB, default 0B (Linux 6.12 sch_htb,
            tc-htb(8)).
        cburst: Bytes at its ceil that may leave at once after idle time. Bytes from 0B to 1GB,
            default 0B (Linux 6.12 sch_htb, tc-htb(8)).
        prio: Priority for borrowed capacity: 0 comes before 1. From 0 to 7, default 0 (Linux
            6.12 sch_htb, tc-htb(8)).
        quantum: Bytes that the class may send in its turn while it borrows; 0: rate / r2q.
            Bytes from 0B to 1GB, default 0B (Linux 6.12 sch_htb, tc-htb(8)).
        queue: Queue discipline of the class, if it is a leaf. Default fifo (Linux 6.12 sch_htb,
            tc-htb(8)).
        limit: Largest backlog in packets; 0p: the path's buffer, otherwise the default of the
            queue discipline. Packets from 0p to 4294967295p, default 0p (Linux 6.12 sch_htb,
            tc-htb(8)).
        match: Flows and code points of the class; the first class that matches takes the
            packet. Default {} (Linux 6.12 sch_htb, tc-htb(8)).
        overhead: Bytes that the link layer adds to a frame. Bytes from 0B to 1GB, default 0B
            (Linux 6.12 sch_htb, tc-htb(8)).
        mpu: Smallest number of bytes that a frame counts. Bytes from 0B to 1GB, default 0B
            (Linux 6.12 sch_htb, tc-htb(8)).
        linklayer: Atm: cells of 48 in 53 bytes. One of `ethernet`, `atm`, default ethernet
            (Linux 6.12 sch_htb, tc-htb(8)).
    """

    id: str
    rate: str
    name: str | None = None
    parent: str | None = None
    ceil: str | None = None
    burst: str | None = None
    cburst: str | None = None
    prio: int | None = None
    quantum: str | None = None
    queue: Chosen | None = None
    limit: str | None = None
    match: Mapping[str, str | int | Sequence[str | int]] | None = None
    overhead: str | None = None
    mpu: str | None = None
    linklayer: str | None = None

@dataclass(frozen=True, kw_only=True)
class Htb(Choice):
    """A tree of classes with rates, which borrow from their parents up to their ceil; each leaf
    has a queue discipline.

    Source: Linux 6.12 sch_htb, tc-htb(8).

    Attributes:
        default: Class of packets that no class matches; without it, they leave at once, before
            all others. (Linux 6.12 sch_htb, tc-htb(8))
        classes: The tree of classes. (Linux 6.12 sch_htb, tc-htb(8))
        r2q: Divisor of the quantum: rate in bytes/s / r2q, from 1000 to 200000 bytes. From 1 to
            4294967295, default 10 (Linux 6.12 sch_htb, tc-htb(8)).
        direct_qlen: Largest backlog of packets without a class, if the path has no buffer.
            Packets from 1p to 4294967295p, default 1000p (Linux 6.12 sch_htb, tc-htb(8)).
    """

    default: str | None = None
    classes: Sequence[HtbClass | Mapping[str, object]] | None = None
    r2q: int | None = None
    direct_qlen: str | None = None

@dataclass(frozen=True, kw_only=True)
class PfifoFast(Choice):
    """Three bands by type of service; the first band that has a packet is served.

    Source: Linux 6.12 pfifo_fast.

    Attributes:
        limit: Largest backlog of each band in packets, if the path has no buffer. Packets from
            1p to 4294967295p, default 1000p (Linux 6.12: a device's default txqueuelen).
    """

    limit: str | None = None

@dataclass(frozen=True, kw_only=True)
class Pie(Choice):
    """Drops packets at random on arrival; a control law sets the probability by the delay.

    Source: Linux 6.12 sch_pie, RFC 8033.

    Attributes:
        limit: Largest backlog in packets, if the path has no buffer. Packets from 1p to
            4294967295p, default 1000p (Linux 6.12 sch_pie, tc-pie(8)).
        target: Target delay of the control law. Time from 1us to 1000s, default 15ms (RFC 8033,
            Linux 6.12 sch_pie).
        tupdate: Time between two updates of the probability, in whole ticks plus one. Time from
            1us to 1000s, default 15ms (RFC 8033, Linux 6.12 sch_pie).
        alpha: Weight of the difference between delay and target, in sixteenths per second. From
            0 to 32, default 2 (RFC 8033, tc-pie(8)).
        beta: Weight of the growth of the delay, in sixteenths per second. From 0 to 32, default
            20 (RFC 8033, tc-pie(8)).
        ecn: Mark ECN-capable packets instead of dropping them, while the probability is small.
            Default false (RFC 8033, tc-pie(8)).
        bytemode: The probability for a packet is proportional to its size. Default false (RFC
            8033, tc-pie(8)).
        dq_rate_estimator: Compute the delay from backlog and departure rate instead of from
            timestamps of packets. Default false (RFC 8033, tc-pie(8)).
    """

    limit: str | None = None
    target: str | None = None
    tupdate: str | None = None
    alpha: int | None = None
    beta: int | None = None
    ecn: bool | None = None
    bytemode: bool | None = None
    dq_rate_estimator: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Red(Choice):
    """Drops or marks packets at random by the average backlog.

    Source: Floyd, Jacobson 1993; Linux 6.12 red.

    Attributes:
        limit: Largest backlog in bytes, if the path has no buffer. Bytes from 1B to 1024GiB,
            default 1MB (tc-red(8); the default: a thousand packets of 1000 bytes).
        min: Average backlog below which no packet is dropped; 0B: a third of max. Bytes from 0B
            to 1024GiB, default 0B (tc-red(8)).
        max: Average backlog from which all packets are dropped; 0B: three times min if min is
            given, otherwise a quarter of limit. Bytes from 0B to 1024GiB, default 0B
            (tc-red(8)).
        avpkt: Usual packet size: scales burst and the decay in idle time. Bytes from 1B to
            1MiB, default 1kB (tc-red(8) advises 1000).
        burst: Packets that may arrive at once before the average exceeds min; 0: (2 min + max)
            / (3 avpkt). From 0 to 1000000, default 0 (tc-red(8)).
        probability: Probability of a mark or drop when the average reaches max. Probability
            from 0.0 to 1.0, default 0.02 (iproute2 6.1).
        bandwidth: Rate at which the average decays while the queue is idle; 0bit: the rate of
            the link. Rate from 0bit to 10Tbit, default 0bit (tc-red(8)).
        ecn: Mark ECN-capable packets instead of dropping them. Default false (tc-red(8)).
        harddrop: Drop packets while the average is at max or above, even with ecn. Default
            false (tc-red(8)).
        nodrop: Accept packets that would be marked but are not ECN-capable; needs ecn. Default
            false (tc-red(8)).
        adaptive: Adjust the probability every 0.5 s so that the average stays half-way between
            min and max. Default false (tc-red(8)).
        gentle: Increase the probability to 1 between max and twice max, instead of at max; not
            in Linux. Default false (Floyd 2000).
    """

    limit: str | None = None
    min: str | None = None
    max: str | None = None
    avpkt: str | None = None
    burst: int | None = None
    probability: float | str | None = None
    bandwidth: str | None = None
    ecn: bool | None = None
    harddrop: bool | None = None
    nodrop: bool | None = None
    adaptive: bool | None = None
    gentle: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Sfb(Choice):
    """Stochastic fair blue: each flow has its own mark probability, which its share of the queue
    determines.

    Source: Feng, Kandlur, Saha, Shin 1999 and 2001; Linux 6.12 sfb.

    Attributes:
        limit: Largest backlog in packets, if the path has no buffer. Packets from 1p to
            4294967295p, default 1000p (Linux 6.12 sfb: a device's txqueuelen).
        max: Largest backlog of a bin in packets; 0p: 5/4 of target, 25p without target. Packets
            from 0p to 65535p, default 0p (tc-sfb(8), iproute2 6.1).
        target: Packets in a bin from which its probability grows; 0p: 4/5 of max. Packets from
            0p to 65535p, default 0p (tc-sfb(8), iproute2 6.1).
        increment: Increase of the probability by a packet that arrives at a bin with target
            packets or more. Probability from 0.0 to 1.0, default 0.0005 (tc-sfb(8)).
        decrement: Decrease of the probability by a packet that arrives at an empty bin.
            Probability from 0.0 to 1.0, default 5e-05 (tc-sfb(8)).
        penalty_rate: Rate limit, in packets per second, of all flows with probability 1
            together; 0: none pass. From 0 to 1000000000, default 10 (tc-sfb(8)).
        penalty_burst: Burst of the flows with probability 1, in packets; 0p: none. Packets from
            0p to 4294967295p, default 20p (tc-sfb(8)).
        rehash: Time after which flows are assigned to other bins; 0: never. Time from 0s to
            1000000s, default 600s (tc-sfb(8)).
        db: Time before the rehash at which the other bins begin to count (double buffering).
            Time from 0s to 1000000s, default 60s (tc-sfb(8)).
    """

    limit: str | None = None
    max: str | None = None
    target: str | None = None
    increment: float | str | None = None
    decrement: float | str | None = None
    penalty_rate: int | None = None
    penalty_burst: str | None = None
    rehash: str | None = None
    db: str | None = None

@dataclass(frozen=True, kw_only=True)
class Sfq(Choice):
    """A short queue for each flow, served in turn; with `redflowlimit`, RED acts on each queue.

    Source: McKenney 1990; Linux 6.12 sfq.

    Attributes:
        limit: Largest backlog of all queues in packets, if the path has no buffer. Packets from
            2p to 8306816p, default 127p (Linux 6.12 sfq).
        depth: Largest backlog of a queue in packets. Packets from 1p to 127p, default 127p
            (Linux 6.12 sfq).
        flows: Largest number of queues; packets of a further flow are dropped. From 1 to 65408,
            default 128 (Linux 6.12 sfq).
        divisor: Number of buckets to which flows are hashed, a power of two. From 1 to 65536,
            default 1024 (Linux 6.12 sfq).
        quantum: Bytes that a queue may send in its turn. Bytes from 256B to 1MiB, default 1514B
            (Linux 6.12 sfq: the device's MTU and its Ethernet header).
        perturb: Time after which the hash changes; 0s: never. Time from 0s to 24h, default 0s
            (Linux 6.12 sfq).
        headdrop: Drop the oldest packet of a queue instead of the newest. Default false
            (tc-sfq(8)).
        redflowlimit: Limit of each queue in bytes under RED, from which the thresholds follow;
            0B: no RED. Bytes from 0B to 1024GiB, default 0B (tc-sfq(8)).
        min: Average backlog below which no packet is dropped; 0B: a third of max. Bytes from 0B
            to 1024GiB, default 0B (tc-sfq(8)).
        max: Average backlog from which all packets are dropped; 0B: a quarter of redflowlimit.
            Bytes from 0B to 1024GiB, default 0B (tc-sfq(8)).
        avpkt: Usual packet size: scales burst and the decay in idle time. Bytes from 1B to
            1MiB, default 1kB (tc-red(8) advises 1000).
        burst: Packets that may arrive at once before the average exceeds min; 0: (2 min + max)
            / (3 avpkt). From 0 to 1000000, default 0 (tc-red(8)).
        probability: Probability of a mark or drop when the average reaches max. Probability
            from 0.0 to 1.0, default 0.02 (iproute2 6.1).
        ecn: Mark ECN-capable packets instead of dropping them. Default false (tc-red(8)).
        harddrop: Drop packets while the average is at max or above, even with ecn. Default
            false (tc-red(8)).
    """

    limit: str | None = None
    depth: str | None = None
    flows: int | None = None
    divisor: int | None = None
    quantum: str | None = None
    perturb: str | None = None
    headdrop: bool | None = None
    redflowlimit: str | None = None
    min: str | None = None
    max: str | None = None
    avpkt: str | None = None
    burst: int | None = None
    probability: float | str | None = None
    ecn: bool | None = None
    harddrop: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Xcp(Choice):
    """First in, first out; writes into packets by how much the flows of xcp change their windows.

    Source: Katabi, Handley, Rohrs 2002; draft-falk-xcp-spec-03.

    Attributes:
        alpha: Share of the unused rate that is distributed per control interval; stable below
            0.555. From 0.0 to 10.0, default 0.4 (Katabi, Handley, Rohrs 2002, section 4.1).
        beta: Share of the standing queue that is removed per control interval; alpha² √2 is
            stable. From 0.0 to 10.0, default 0.226 (Katabi, Handley, Rohrs 2002, section 4.1).
        gamma: Smallest share of the traffic that moves between flows per control interval. From
            0.0 to 1.0, default 0.1 (Katabi, Handley, Rohrs 2002, section 3.5.2).
    """

    alpha: float | None = None
    beta: float | None = None
    gamma: float | None = None
